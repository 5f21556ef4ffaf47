"""Kernels: functions of references to blocks of arrays, which run once for each point of a grid."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.lax.ref_indexing": "Slice ds dslice",
    "xlafront.pallas.call": "pallas_call pallas_call_p",
    "xlafront.pallas.core_mesh": "kernel",
    "xlafront.pallas.cost": "estimate_cost",
    "xlafront.pallas.kernel_functions": """
        align_to broadcast_to cdiv debug_check debug_print empty empty_like empty_ref_like enable_debug_checks loop
        lower_as_mlir next_power_of_2 pallas_export_experimental run_scoped run_state select_ref strides_from_shape when
        with_scoped""",
    "xlafront.pallas.primitives": "delay multiple_of num_programs program_id reciprocal",
    "xlafront.pallas.semaphores": "get_global semaphore semaphore_read semaphore_signal semaphore_wait",
    "xlafront.pallas.specs": """
        ANY BlockDim BlockSpec Blocked BoundedSlice Buffered CompilerParams CostEstimate DeviceIdType Element GridSpec HOST
        Indirect MemoryRef MemorySpace RevisitMode Squeezed no_block_spec squeezed""",
}
_DEPRECATED = {"DeviceIdType": "leave `device_id_type` out", "reciprocal": "use experimental.pallas.tpu.reciprocal"}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS, "fuser mosaic_gpu tpu tpu_sc triton", _DEPRECATED)
