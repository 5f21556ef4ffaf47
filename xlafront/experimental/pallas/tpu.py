"""Functions and types for Pallas kernels on TPUs."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.pallas.primitives": "reciprocal",
    "xlafront.pallas.semaphores": "SemaphoreType async_copy make_async_copy sync_copy",
    "xlafront.pallas.tpu": """
        ARBITRARY CMEM CORE_PARALLEL CompilerParams CoreType GridDimensionSemantics HBM MemorySpace PARALLEL
        PrefetchScalarGridSpec SEMAPHORE SMEM SUBCORE_PARALLEL SideEffectType Tiling VMEM VMEM_SHARED einshape is_tpu_device
        load roll store trace_value""",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
