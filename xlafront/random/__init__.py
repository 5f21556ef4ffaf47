"""Random numbers: explicit keys that are split, never changed.

>>> key = random.key(0)
>>> key, subkey = random.split(key)
>>> random.normal(subkey, (3,))
"""

from xlafront.random.distributions import (
    bernoulli as bernoulli,
    categorical as categorical,
    cauchy as cauchy,
    choice as choice,
    exponential as exponential,
    gumbel as gumbel,
    laplace as laplace,
    logistic as logistic,
    normal as normal,
    permutation as permutation,
    rademacher as rademacher,
    randint as randint,
    truncated_normal as truncated_normal,
    uniform as uniform,
)
from xlafront.random.prng import (
    PRNGKey as PRNGKey,
    bits as bits,
    clone as clone,
    fold_in as fold_in,
    key as key,
    key_data as key_data,
    key_dtype as key_dtype,
    key_impl as key_impl,
    split as split,
    wrap_key_data as wrap_key_data,
)
