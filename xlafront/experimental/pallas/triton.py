"""Functions for Pallas kernels on GPUs, with Triton's operations."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.pallas.gpu_info": "GpuInfo GpuVersion is_gpu_device",
    "xlafront.pallas.triton": """
        CompilerParams approx_tanh atomic_add atomic_and atomic_cas atomic_max atomic_min atomic_or atomic_xchg atomic_xor
        debug_barrier dot elementwise_inline_asm load max_contiguous store""",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
