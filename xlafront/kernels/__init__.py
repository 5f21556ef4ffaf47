"""Kernels for TPUs and NVIDIA GPUs: attention, norms, losses and matrix products in blocks, with their gradients."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.kernels.attention": "flash_attention",
    "xlafront.kernels.cross_entropy": "softmax_cross_entropy",
    "xlafront.kernels.grouped_products": "grouped_matmul",
    "xlafront.kernels.norms": "layer_norm rms_norm",
    "xlafront.kernels.paged": "paged_attention",
    "xlafront.kernels.quantized_products": "quantize quantized_matmul",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
