# Written by `python -m tests.stubs`.
from xlafront.control.foreign_calls import ffi_call as ffi_call
from xlafront.control.ptx_kernels import ptx_call as ptx_call
from xlafront.core.avals import AbstractToken as _AbstractToken
from xlafront.lowering.custom_calls import build_ffi_lowering_function as build_ffi_lowering_function
from xlafront.lowering.custom_calls import ffi_lowering as ffi_lowering
from xlafront.runtime.foreign_functions import include_dir as include_dir
from xlafront.runtime.foreign_functions import pycapsule as pycapsule
from xlafront.runtime.foreign_functions import register_ffi_target as register_ffi_target
from xlafront.runtime.foreign_functions import register_ffi_target_as_batch_partitionable as register_ffi_target_as_batch_partitionable
from xlafront.runtime.foreign_functions import register_ffi_type as register_ffi_type
from xlafront.runtime.foreign_functions import register_ffi_type_id as register_ffi_type_id

abstract_token: _AbstractToken
