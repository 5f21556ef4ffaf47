# Written by `python -m tests.stubs`.
from xlafront.scipy.kernel_density import gaussian_kde as gaussian_kde
from xlafront.scipy.samples import ModeResult as _ModeResult
from xlafront.scipy.stats import bernoulli as bernoulli
from xlafront.scipy.stats import beta as beta
from xlafront.scipy.stats import betabinom as betabinom
from xlafront.scipy.stats import binom as binom
from xlafront.scipy.stats import cauchy as cauchy
from xlafront.scipy.stats import chi2 as chi2
from xlafront.scipy.stats import dirichlet as dirichlet
from xlafront.scipy.stats import expon as expon
from xlafront.scipy.stats import gamma as gamma
from xlafront.scipy.stats import gennorm as gennorm
from xlafront.scipy.stats import geom as geom
from xlafront.scipy.stats import gumbel_l as gumbel_l
from xlafront.scipy.stats import gumbel_r as gumbel_r
from xlafront.scipy.stats import laplace as laplace
from xlafront.scipy.stats import logistic as logistic
from xlafront.scipy.stats import multinomial as multinomial
from xlafront.scipy.stats import multivariate_normal as multivariate_normal
from xlafront.scipy.stats import nbinom as nbinom
from xlafront.scipy.stats import norm as norm
from xlafront.scipy.stats import pareto as pareto
from xlafront.scipy.stats import poisson as poisson
from xlafront.scipy.stats import t as t
from xlafront.scipy.stats import truncnorm as truncnorm
from xlafront.scipy.stats import uniform as uniform
from xlafront.scipy.stats import vonmises as vonmises
from xlafront.scipy.stats import wrapcauchy as wrapcauchy
from xlafront.typing import ArrayLike as _ArrayLike
import builtins as _builtins
import xlafront as _xlafront

def mode(a: _ArrayLike, axis: _builtins.int | None = ..., nan_policy: _builtins.str = ..., keepdims: _builtins.bool = ...) -> _ModeResult: ...
def rankdata(a: _ArrayLike, method: _builtins.str = ..., *, axis: _builtins.int | None = ..., nan_policy: _builtins.str = ...) -> _xlafront.Array: ...
def sem(a: _ArrayLike, axis: _builtins.int | None = ..., ddof: _builtins.int = ..., nan_policy: _builtins.str = ..., *, keepdims: _builtins.bool = ...) -> _xlafront.Array: ...
