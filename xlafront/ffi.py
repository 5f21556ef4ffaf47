"""Calls of foreign functions (C, C++, CUDA) in compiled programs, by XLA's foreign function interface.

>>> from xlafront import ffi
>>> call = ffi.ffi_call("row_sums", xf.ShapeDtypeStruct((3,), "float32"), vmap_method="broadcast_all")
"""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.control.foreign_calls": "ffi_call",
    "xlafront.control.ptx_kernels": "ptx_call",
    "xlafront.core.avals": "abstract_token",
    "xlafront.lowering.custom_calls": "build_ffi_lowering_function ffi_lowering",
    "xlafront.runtime.foreign_functions": """include_dir pycapsule register_ffi_target
        register_ffi_target_as_batch_partitionable register_ffi_type register_ffi_type_id""",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
