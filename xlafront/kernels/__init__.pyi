# Written by `python -m tests.stubs`.
from xlafront.kernels.attention import flash_attention as flash_attention
from xlafront.kernels.cross_entropy import softmax_cross_entropy as softmax_cross_entropy
from xlafront.kernels.grouped_products import grouped_matmul as grouped_matmul
from xlafront.kernels.norms import layer_norm as layer_norm
from xlafront.kernels.norms import rms_norm as rms_norm
from xlafront.kernels.paged import paged_attention as paged_attention
from xlafront.kernels.quantized_products import quantize as quantize
from xlafront.kernels.quantized_products import quantized_matmul as quantized_matmul

