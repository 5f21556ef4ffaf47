# Written by `python -m tests.stubs`.
from xlafront.core.primitive import Primitive as _Primitive
from xlafront.experimental.pallas import fuser as fuser
from xlafront.experimental.pallas import mosaic_gpu as mosaic_gpu
from xlafront.experimental.pallas import tpu as tpu
from xlafront.experimental.pallas import tpu_sc as tpu_sc
from xlafront.experimental.pallas import triton as triton
from xlafront.lax.ref_indexing import Slice as Slice
from xlafront.lax.ref_indexing import ds as _source_dslice
from xlafront.lax.ref_indexing import ds as ds
from xlafront.pallas.call import pallas_call as pallas_call
from xlafront.pallas.core_mesh import kernel as kernel
from xlafront.pallas.cost import estimate_cost as estimate_cost
from xlafront.pallas.kernel_functions import align_to as align_to
from xlafront.pallas.kernel_functions import broadcast_to as broadcast_to
from xlafront.pallas.kernel_functions import cdiv as cdiv
from xlafront.pallas.kernel_functions import debug_check as debug_check
from xlafront.pallas.kernel_functions import debug_print as debug_print
from xlafront.pallas.kernel_functions import empty as empty
from xlafront.pallas.kernel_functions import empty_like as empty_like
from xlafront.pallas.kernel_functions import empty_ref_like as empty_ref_like
from xlafront.pallas.kernel_functions import enable_debug_checks as enable_debug_checks
from xlafront.pallas.kernel_functions import loop as loop
from xlafront.pallas.kernel_functions import lower_as_mlir as lower_as_mlir
from xlafront.pallas.kernel_functions import next_power_of_2 as next_power_of_2
from xlafront.pallas.kernel_functions import pallas_export_experimental as pallas_export_experimental
from xlafront.pallas.kernel_functions import run_scoped as run_scoped
from xlafront.pallas.kernel_functions import run_state as run_state
from xlafront.pallas.kernel_functions import select_ref as select_ref
from xlafront.pallas.kernel_functions import strides_from_shape as strides_from_shape
from xlafront.pallas.kernel_functions import when as when
from xlafront.pallas.kernel_functions import with_scoped as with_scoped
from xlafront.pallas.primitives import delay as delay
from xlafront.pallas.primitives import multiple_of as multiple_of
from xlafront.pallas.primitives import num_programs as num_programs
from xlafront.pallas.primitives import program_id as program_id
from xlafront.pallas.primitives import reciprocal as reciprocal
from xlafront.pallas.semaphores import get_global as get_global
from xlafront.pallas.semaphores import semaphore as semaphore
from xlafront.pallas.semaphores import semaphore_read as semaphore_read
from xlafront.pallas.semaphores import semaphore_signal as semaphore_signal
from xlafront.pallas.semaphores import semaphore_wait as semaphore_wait
from xlafront.pallas.specs import BlockDim as BlockDim
from xlafront.pallas.specs import BlockSpec as BlockSpec
from xlafront.pallas.specs import Blocked as Blocked
from xlafront.pallas.specs import BoundedSlice as BoundedSlice
from xlafront.pallas.specs import Buffered as Buffered
from xlafront.pallas.specs import CompilerParams as CompilerParams
from xlafront.pallas.specs import CostEstimate as CostEstimate
from xlafront.pallas.specs import DeviceIdType as DeviceIdType
from xlafront.pallas.specs import Element as Element
from xlafront.pallas.specs import GridSpec as GridSpec
from xlafront.pallas.specs import Indirect as Indirect
from xlafront.pallas.specs import MemoryRef as MemoryRef
from xlafront.pallas.specs import MemorySpace as MemorySpace
from xlafront.pallas.specs import MemorySpace as _MemorySpace
from xlafront.pallas.specs import NoBlockSpec as _NoBlockSpec
from xlafront.pallas.specs import RevisitMode as RevisitMode
from xlafront.pallas.specs import Squeezed as Squeezed
from xlafront.pallas.specs import Squeezed as _Squeezed

ANY: _MemorySpace
HOST: _MemorySpace
dslice = _source_dslice
no_block_spec: _NoBlockSpec
pallas_call_p: _Primitive
squeezed: _Squeezed
