# Written by `python -m tests.stubs`.
from xlafront.core.typing import Array as _Array
from xlafront.core.typing import ArrayLike as _ArrayLike
from xlafront.nn import initializers as initializers
from xlafront.nn.attention import dot_product_attention as dot_product_attention
from xlafront.nn.functions import celu as celu
from xlafront.nn.functions import elu as elu
from xlafront.nn.functions import gelu as gelu
from xlafront.nn.functions import glu as glu
from xlafront.nn.functions import hard_sigmoid as hard_sigmoid
from xlafront.nn.functions import hard_silu as _source_hard_swish
from xlafront.nn.functions import hard_silu as hard_silu
from xlafront.nn.functions import hard_tanh as hard_tanh
from xlafront.nn.functions import identity as identity
from xlafront.nn.functions import leaky_relu as leaky_relu
from xlafront.nn.functions import log1mexp as log1mexp
from xlafront.nn.functions import log_sigmoid as log_sigmoid
from xlafront.nn.functions import log_softmax as log_softmax
from xlafront.nn.functions import logmeanexp as logmeanexp
from xlafront.nn.functions import logsumexp as logsumexp
from xlafront.nn.functions import mish as mish
from xlafront.nn.functions import one_hot as one_hot
from xlafront.nn.functions import relu as relu
from xlafront.nn.functions import relu6 as relu6
from xlafront.nn.functions import selu as selu
from xlafront.nn.functions import sigmoid as sigmoid
from xlafront.nn.functions import silu as _source_swish
from xlafront.nn.functions import silu as silu
from xlafront.nn.functions import soft_sign as soft_sign
from xlafront.nn.functions import softmax as softmax
from xlafront.nn.functions import softplus as softplus
from xlafront.nn.functions import sparse_plus as sparse_plus
from xlafront.nn.functions import sparse_sigmoid as sparse_sigmoid
from xlafront.nn.functions import squareplus as squareplus
from xlafront.nn.functions import standardize as standardize
from xlafront.nn.scaled_products import get_scaled_dot_general_config as get_scaled_dot_general_config
from xlafront.nn.scaled_products import scaled_dot_general as scaled_dot_general
from xlafront.nn.scaled_products import scaled_matmul as scaled_matmul

hard_swish = _source_hard_swish
swish = _source_swish
def tanh(x: _ArrayLike, /) -> _Array:
    """Compute the hyperbolic tangent elementwise.

    Args:
        x: Array or scalar.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> xnp.tanh(xnp.array([0.0, xnp.inf]))
        Array([0., 1.], dtype=float32)
    """
