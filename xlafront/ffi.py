"""Functions of other languages in compiled programs: XLA's foreign function interface.

>>> from xlafront import ffi
>>> call = ffi.ffi_call("row_sums", xf.ShapeDtypeStruct((3,), "float32"), vmap_method="broadcast_all")
"""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.control.foreign_calls": "ffi_call",
    "xlafront.lowering.custom_calls": "build_ffi_lowering_function ffi_lowering",
    "xlafront.runtime.foreign_functions": """include_dir pycapsule register_ffi_target
        register_ffi_target_as_batch_partitionable register_ffi_type register_ffi_type_id""",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
