# Written by `python -m tests.stubs`.
from xlafront.core.primitive import Primitive as _Primitive
from xlafront.core.typing import Array as _Array
from xlafront.core.typing import ArrayLike as _ArrayLike
from xlafront.core.typing import DTypeLike as _DTypeLike
from xlafront.core.typing import ShardingLike as _ShardingLike
from xlafront.random.counts import binomial as binomial
from xlafront.random.counts import geometric as geometric
from xlafront.random.counts import multinomial as multinomial
from xlafront.random.counts import poisson as poisson
from xlafront.random.distributions import bernoulli as bernoulli
from xlafront.random.distributions import categorical as categorical
from xlafront.random.distributions import choice as choice
from xlafront.random.distributions import gumbel as gumbel
from xlafront.random.distributions import normal as normal
from xlafront.random.distributions import permutation as permutation
from xlafront.random.distributions import rademacher as rademacher
from xlafront.random.distributions import randint as randint
from xlafront.random.distributions import truncated_normal as truncated_normal
from xlafront.random.distributions import uniform as uniform
from xlafront.random.gammas import beta as beta
from xlafront.random.gammas import chisquare as chisquare
from xlafront.random.gammas import dirichlet as dirichlet
from xlafront.random.gammas import f as f
from xlafront.random.gammas import gamma as gamma
from xlafront.random.gammas import loggamma as loggamma
from xlafront.random.gammas import t as t
from xlafront.random.prng import Key as Key
from xlafront.random.prng import PRNGKey as PRNGKey
from xlafront.random.prng import bits as bits
from xlafront.random.prng import clone as clone
from xlafront.random.prng import fold_in as fold_in
from xlafront.random.prng import key as key
from xlafront.random.prng import key_data as key_data
from xlafront.random.prng import key_dtype as key_dtype
from xlafront.random.prng import key_impl as key_impl
from xlafront.random.prng import split as split
from xlafront.random.prng import wrap_key_data as wrap_key_data
from xlafront.random.transformed import ball as ball
from xlafront.random.transformed import double_sided_maxwell as double_sided_maxwell
from xlafront.random.transformed import generalized_normal as generalized_normal
from xlafront.random.transformed import lognormal as lognormal
from xlafront.random.transformed import maxwell as maxwell
from xlafront.random.transformed import multivariate_normal as multivariate_normal
from xlafront.random.transformed import orthogonal as orthogonal
from xlafront.random.transformed import pareto as pareto
from xlafront.random.transformed import rayleigh as rayleigh
from xlafront.random.transformed import triangular as triangular
from xlafront.random.transformed import wald as wald
from xlafront.random.transformed import weibull_min as weibull_min
import builtins as _builtins
import typing as _typing

def cauchy(key: _ArrayLike, shape: _typing.Sequence[_builtins.int] = (), dtype: _DTypeLike | None = None, *, out_sharding: _ShardingLike = None) -> _Array:
    """Sample from the Cauchy distribution with median 0 and scale 1.

    Args:
        key: PRNG key.
        shape: Shape of the result.
        dtype: Floating dtype of the result. Default: the default float dtype.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        Array of samples.

    Example:
        >>> random.cauchy(random.key(0), (2, 3)).shape
        (2, 3)
    """
def exponential(key: _ArrayLike, shape: _typing.Sequence[_builtins.int] = (), dtype: _DTypeLike | None = None, *, out_sharding: _ShardingLike = None) -> _Array:
    """Sample from the exponential distribution with mean 1.

    Args:
        key: PRNG key.
        shape: Shape of the result.
        dtype: Floating dtype of the result. Default: the default float dtype.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        Array of samples.

    Example:
        >>> random.exponential(random.key(0), (2, 3)).shape
        (2, 3)
    """
def laplace(key: _ArrayLike, shape: _typing.Sequence[_builtins.int] = (), dtype: _DTypeLike | None = None, *, out_sharding: _ShardingLike = None) -> _Array:
    """Sample from the Laplace distribution with mean 0 and scale 1.

    Args:
        key: PRNG key.
        shape: Shape of the result.
        dtype: Floating dtype of the result. Default: the default float dtype.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        Array of samples.

    Example:
        >>> random.laplace(random.key(0), (2, 3)).shape
        (2, 3)
    """
def logistic(key: _ArrayLike, shape: _typing.Sequence[_builtins.int] = (), dtype: _DTypeLike | None = None, *, out_sharding: _ShardingLike = None) -> _Array:
    """Sample from the logistic distribution with mean 0 and scale 1.

    Args:
        key: PRNG key.
        shape: Shape of the result.
        dtype: Floating dtype of the result. Default: the default float dtype.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        Array of samples.

    Example:
        >>> random.logistic(random.key(0), (2, 3)).shape
        (2, 3)
    """
random_gamma_p: _Primitive
