"""Functions and types for Pallas kernels on TPUs."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.pallas.buffered_ref": "BufferType BufferedRef make_pipeline_allocations",
    "xlafront.pallas.core_mesh": "TensorCoreMesh create_tensorcore_mesh run_on_first_core",
    "xlafront.pallas.convolution": "conv",
    "xlafront.pallas.hints": "annotate has_memory_space touch",
    "xlafront.pallas.kernel_equations": "LoweringException",
    "xlafront.pallas.kernel_random": """
        sample_block stateful_bernoulli stateful_bits stateful_normal stateful_uniform to_pallas_key""",
    "xlafront.pallas.packed_bits": "join_bits pack_fp6 split_bits stochastic_round unpack_fp6",
    "xlafront.pallas.matrix_units": "ACC matmul_acc_lhs matmul_lhs_fifo matmul_pop matmul_pop_fifo matmul_push_rhs",
    "xlafront.pallas.pipeline": "PipelineStep emit_pipeline emit_pipeline_with_allocations",
    "xlafront.pallas.pipeline_prefetch": "emit_pipeline_with_async_prefetch",
    "xlafront.pallas.interpret_params": """
        InterpretParams force_tpu_interpret_mode reset_tpu_interpret_mode_state set_tpu_interpret_mode""",
    "xlafront.pallas.primitives": "reciprocal",
    "xlafront.pallas.semaphores": """
        SemaphoreType async_copy async_remote_copy core_barrier dma_semaphore get_barrier_semaphore make_async_copy
        make_async_remote_copy sync_copy""",
    "xlafront.pallas.tpu": """
        ARBITRARY CMEM CORE_PARALLEL CompilerParams CoreType GridDimensionSemantics HBM MemorySpace PARALLEL
        PrefetchScalarGridSpec SEMAPHORE SMEM SUBCORE_PARALLEL SideEffectType Tiling VMEM VMEM_SHARED einshape is_tpu_device
        load store trace_value""",
    "xlafront.pallas.tpu_info": "ChipVersion TpuInfo get_tpu_info get_tpu_info_for_chip",
    "xlafront.pallas.vector_operations": """
        bitcast pack_elementwise prng_random_bits prng_seed roll unpack_elementwise with_memory_space_constraint""",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
