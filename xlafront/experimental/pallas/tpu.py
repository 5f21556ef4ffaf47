"""What kernels for TPUs are written with."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.pallas.semaphores": "SemaphoreType async_copy make_async_copy sync_copy",
    "xlafront.pallas.tpu": """
        ARBITRARY CMEM CORE_PARALLEL CompilerParams CoreType GridDimensionSemantics HBM MemorySpace PARALLEL
        PrefetchScalarGridSpec SEMAPHORE SMEM SUBCORE_PARALLEL SideEffectType Tiling VMEM VMEM_SHARED einshape is_tpu_device
        load roll store trace_value""",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
