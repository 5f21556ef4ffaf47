"""Functions and types for Pallas kernels on TPUs."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.pallas.buffered_ref": "BufferType BufferedRef make_pipeline_allocations",
    "xlafront.pallas.core_mesh": "TensorCoreMesh create_tensorcore_mesh run_on_first_core",
    "xlafront.pallas.pipeline": "emit_pipeline emit_pipeline_with_allocations",
    "xlafront.pallas.primitives": "reciprocal",
    "xlafront.pallas.semaphores": """
        SemaphoreType async_copy async_remote_copy core_barrier get_barrier_semaphore make_async_copy make_async_remote_copy
        sync_copy""",
    "xlafront.pallas.tpu": """
        ARBITRARY CMEM CORE_PARALLEL CompilerParams CoreType GridDimensionSemantics HBM MemorySpace PARALLEL
        PrefetchScalarGridSpec SEMAPHORE SMEM SUBCORE_PARALLEL SideEffectType Tiling VMEM VMEM_SHARED einshape is_tpu_device
        load store trace_value""",
    "xlafront.pallas.tpu_info": "ChipVersion TpuInfo get_tpu_info",
    "xlafront.pallas.vector_operations": """
        bitcast pack_elementwise prng_random_bits prng_seed roll unpack_elementwise with_memory_space_constraint""",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
