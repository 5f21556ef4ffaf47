"""Objects with `__jax_array__` as arguments of special functions, distributions and matrix functions."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
import xlafront.scipy.linalg as xsl
import xlafront.scipy.special as xsp
import xlafront.scipy.stats as xst


class Parameter:
    def __init__(self, array):
        self.array = array

    def __jax_array__(self):
        return xnp.asarray(self.array)


X = np.array([0.25, 0.5], np.float32)
ONE = """dawsn digamma entr erf erfc erfcx erfinv exp1 expit factorial gamma gammaln i0 i0e i1 i1e loggamma ndtr wofz""".split()
TWO = "beta betaln boxcox boxcox1p comb gammainc gammaincc kl_div owens_t rel_entr".split()
SPECIAL = [(getattr(xsp, name), n) for n, names in ((1, ONE), (2, TWO), (3, ["betainc"])) for name in names]
SPECIAL += [(lambda x: xsp.polygamma(1, x), 1), (lambda x: xsp.multigammaln(x, 1), 1)]
MATRICES = [(getattr(xsl, name), 1) for name in "circulant companion fiedler_companion hankel toeplitz".split()]
DISTRIBUTIONS = [(getattr(getattr(xst, name), what), n) for name, n, whats in (
    ("norm", 3, "pdf logpdf cdf logcdf sf logsf"), ("uniform", 3, "pdf logpdf cdf ppf"), ("expon", 3, "pdf logpdf cdf sf"),
    ("laplace", 3, "pdf logpdf cdf"), ("cauchy", 3, "pdf logpdf cdf ppf"), ("logistic", 3, "pdf logpdf cdf ppf"),
    ("gamma", 4, "pdf logpdf cdf sf"), ("beta", 5, "pdf logpdf cdf"), ("t", 4, "pdf logpdf"), ("poisson", 2, "pmf cdf"),
    ("gumbel_r", 3, "pdf logpdf cdf"), ("pareto", 2, "pdf logpdf cdf"), ("vonmises", 2, "pdf logpdf")) for what in whats.split()]


@pytest.mark.parametrize("function, n", SPECIAL + MATRICES + DISTRIBUTIONS,
                         ids=lambda x: getattr(x, "__name__", None) and f"{x.__module__.split('.')[-1]}.{x.__name__}")
def test_arguments_with_jax_array_method(function, n):
    want = function(*[X] * n)
    for place in range(n):
        args = [Parameter(X) if i == place else X for i in range(n)]
        for call in (function, xf.jit(lambda *rest: function(*args))):
            np.testing.assert_allclose(call(*args) if call is function else call(), want, rtol=1e-4, atol=1e-5)
