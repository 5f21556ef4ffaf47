# Written by `python -m tests.stubs`.
from xlafront.pallas.buffered_ref import BufferType as BufferType
from xlafront.pallas.buffered_ref import BufferedRef as BufferedRef
from xlafront.pallas.buffered_ref import make_pipeline_allocations as make_pipeline_allocations
from xlafront.pallas.convolution import conv as conv
from xlafront.pallas.core_mesh import TensorCoreMesh as TensorCoreMesh
from xlafront.pallas.core_mesh import create_tensorcore_mesh as create_tensorcore_mesh
from xlafront.pallas.core_mesh import run_on_first_core as run_on_first_core
from xlafront.pallas.hints import annotate as annotate
from xlafront.pallas.hints import has_memory_space as has_memory_space
from xlafront.pallas.hints import touch as touch
from xlafront.pallas.interpret_params import InterpretParams as InterpretParams
from xlafront.pallas.interpret_params import force_tpu_interpret_mode as force_tpu_interpret_mode
from xlafront.pallas.interpret_params import reset_tpu_interpret_mode_state as reset_tpu_interpret_mode_state
from xlafront.pallas.interpret_params import set_tpu_interpret_mode as set_tpu_interpret_mode
from xlafront.pallas.kernel_equations import LoweringException as LoweringException
from xlafront.pallas.kernel_random import sample_block as sample_block
from xlafront.pallas.kernel_random import stateful_bernoulli as stateful_bernoulli
from xlafront.pallas.kernel_random import stateful_bits as stateful_bits
from xlafront.pallas.kernel_random import stateful_normal as stateful_normal
from xlafront.pallas.kernel_random import stateful_uniform as stateful_uniform
from xlafront.pallas.kernel_random import to_pallas_key as to_pallas_key
from xlafront.pallas.matrix_units import ACC as ACC
from xlafront.pallas.matrix_units import matmul_acc_lhs as matmul_acc_lhs
from xlafront.pallas.matrix_units import matmul_lhs_fifo as matmul_lhs_fifo
from xlafront.pallas.matrix_units import matmul_pop as matmul_pop
from xlafront.pallas.matrix_units import matmul_pop_fifo as matmul_pop_fifo
from xlafront.pallas.matrix_units import matmul_push_rhs as matmul_push_rhs
from xlafront.pallas.packed_bits import join_bits as join_bits
from xlafront.pallas.packed_bits import pack_fp6 as pack_fp6
from xlafront.pallas.packed_bits import split_bits as split_bits
from xlafront.pallas.packed_bits import stochastic_round as stochastic_round
from xlafront.pallas.packed_bits import unpack_fp6 as unpack_fp6
from xlafront.pallas.pipeline import PipelineStep as PipelineStep
from xlafront.pallas.pipeline import emit_pipeline as emit_pipeline
from xlafront.pallas.pipeline import emit_pipeline_with_allocations as emit_pipeline_with_allocations
from xlafront.pallas.pipeline_prefetch import emit_pipeline_with_async_prefetch as emit_pipeline_with_async_prefetch
from xlafront.pallas.primitives import reciprocal as reciprocal
from xlafront.pallas.semaphores import SemaphoreType as SemaphoreType
from xlafront.pallas.semaphores import async_copy as async_copy
from xlafront.pallas.semaphores import async_remote_copy as async_remote_copy
from xlafront.pallas.semaphores import core_barrier as core_barrier
from xlafront.pallas.semaphores import dma_semaphore as dma_semaphore
from xlafront.pallas.semaphores import get_barrier_semaphore as get_barrier_semaphore
from xlafront.pallas.semaphores import make_async_copy as make_async_copy
from xlafront.pallas.semaphores import make_async_remote_copy as make_async_remote_copy
from xlafront.pallas.semaphores import sync_copy as sync_copy
from xlafront.pallas.tpu import CompilerParams as CompilerParams
from xlafront.pallas.tpu import CoreType as CoreType
from xlafront.pallas.tpu import GridDimensionSemantics as GridDimensionSemantics
from xlafront.pallas.tpu import GridDimensionSemantics as _GridDimensionSemantics
from xlafront.pallas.tpu import MemorySpace as MemorySpace
from xlafront.pallas.tpu import MemorySpace as _MemorySpace
from xlafront.pallas.tpu import PrefetchScalarGridSpec as PrefetchScalarGridSpec
from xlafront.pallas.tpu import SideEffectType as SideEffectType
from xlafront.pallas.tpu import Tiling as Tiling
from xlafront.pallas.tpu import einshape as einshape
from xlafront.pallas.tpu import is_tpu_device as is_tpu_device
from xlafront.pallas.tpu import load as load
from xlafront.pallas.tpu import store as store
from xlafront.pallas.tpu import trace_value as trace_value
from xlafront.pallas.tpu_info import ChipVersion as ChipVersion
from xlafront.pallas.tpu_info import TpuInfo as TpuInfo
from xlafront.pallas.tpu_info import get_tpu_info as get_tpu_info
from xlafront.pallas.tpu_info import get_tpu_info_for_chip as get_tpu_info_for_chip
from xlafront.pallas.vector_operations import bitcast as bitcast
from xlafront.pallas.vector_operations import pack_elementwise as pack_elementwise
from xlafront.pallas.vector_operations import prng_random_bits as prng_random_bits
from xlafront.pallas.vector_operations import prng_seed as prng_seed
from xlafront.pallas.vector_operations import roll as roll
from xlafront.pallas.vector_operations import unpack_elementwise as unpack_elementwise
from xlafront.pallas.vector_operations import with_memory_space_constraint as with_memory_space_constraint

ARBITRARY: _GridDimensionSemantics
CMEM: _MemorySpace
CORE_PARALLEL: _GridDimensionSemantics
HBM: _MemorySpace
PARALLEL: _GridDimensionSemantics
SEMAPHORE: _MemorySpace
SMEM: _MemorySpace
SUBCORE_PARALLEL: _GridDimensionSemantics
VMEM: _MemorySpace
VMEM_SHARED: _MemorySpace
