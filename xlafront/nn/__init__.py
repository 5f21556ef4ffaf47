"""Functions of neural networks: activations, softmax, attention and initializers."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.nn.attention": "dot_product_attention",
    "xlafront.nn.functions": """celu elu gelu glu hard_sigmoid hard_silu hard_swish hard_tanh identity leaky_relu log1mexp
        log_sigmoid log_softmax logmeanexp logsumexp mish one_hot relu relu6 selu sigmoid silu soft_sign softmax softplus
        sparse_plus sparse_sigmoid squareplus standardize swish tanh""",
    "xlafront.nn.scaled_products": "get_scaled_dot_general_config scaled_dot_general scaled_matmul",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS, "initializers")
