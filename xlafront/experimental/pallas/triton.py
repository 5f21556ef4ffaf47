"""What kernels for GPUs are written with, by Triton's words."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.pallas.triton": """
        CompilerParams approx_tanh atomic_add atomic_and atomic_cas atomic_max atomic_min atomic_or atomic_xchg atomic_xor
        debug_barrier dot elementwise_inline_asm load max_contiguous store""",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
