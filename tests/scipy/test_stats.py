"""`scipy.special` and `scipy.stats` against SciPy: values in both precisions, tails, edges, derivatives."""

import doctest
import importlib
import pkgutil

import numpy as np
import pytest
import scipy.special as special
import scipy.stats as stats

import xlafront as xf
import xlafront.numpy as xnp
import xlafront.scipy.special as our_special
import xlafront.scipy.stats as our_stats
from xlafront.scipy import stats as package

REAL = np.array([-30.0, -6.5, -3.0, -1.5, -0.6, -0.1, 0.0, 0.1, 0.5, 0.99, 1.0, 1.3, 2.0, 3.5, 6.0, 20.0, 37.0])
POSITIVE = np.array([1e-3, 0.1, 0.5, 1.0, 1.7, 2.0, 5.5, 20.0])
UNIT = np.array([1e-7, 1e-3, 0.2, 0.5, 0.7, 0.999])
# a function of scipy.special: the arguments of which all combinations are tried
FUNCTIONS = {
    "erf": (REAL,), "erfc": (REAL,), "erfinv": (UNIT,), "expit": (REAL,), "logit": (UNIT,), "ndtr": (REAL,), "log_ndtr": (REAL,),
    "ndtri": (UNIT,), "gammaln": (REAL,), "gamma": (REAL,), "gammasgn": (REAL,), "betaln": (POSITIVE, POSITIVE),
    "beta": (POSITIVE, POSITIVE), "digamma": (POSITIVE,), "polygamma": (np.arange(4.0), POSITIVE), "zeta": (POSITIVE + 1, POSITIVE),
    "gammainc": (POSITIVE, POSITIVE), "gammaincc": (POSITIVE, POSITIVE), "betainc": (POSITIVE, POSITIVE, UNIT),
    "entr": (REAL,), "rel_entr": (REAL, REAL), "kl_div": (REAL, REAL), "xlogy": (REAL, POSITIVE), "xlog1py": (REAL, POSITIVE),
    "boxcox": (POSITIVE, REAL[3:13]), "boxcox1p": (POSITIVE, REAL[3:13]), "i0": (REAL,), "i0e": (REAL,), "i1": (REAL,), "i1e": (REAL,),
    "factorial": (np.arange(-2.0, 9.0),), "comb": (np.arange(6.0), np.arange(6.0)), "poch": (POSITIVE, POSITIVE),
}
COUNTS = np.arange(-1.0, 7.0)
VALUES = np.array([-2.3, -0.5, 0.0, 0.2, 0.7, 1.0, 1.9, 4.0])
PLACED = [{}, {"loc": 0.3, "scale": 1.7}]
# a distribution: parameters, values, and the functions that are there
CONTINUOUS = {
    "norm": ((), "pdf logpdf cdf logcdf sf logsf ppf isf"), "uniform": ((), "pdf logpdf cdf ppf"),
    "expon": ((), "pdf logpdf cdf logcdf sf logsf ppf"), "laplace": ((), "pdf logpdf cdf"),
    "cauchy": ((), "pdf logpdf cdf logcdf sf logsf ppf isf"), "logistic": ((), "pdf logpdf cdf sf ppf isf"),
    "gumbel_r": ((), "pdf logpdf cdf logcdf sf logsf ppf"), "gumbel_l": ((), "pdf logpdf cdf logcdf sf logsf ppf"),
    "pareto": ((1.5,), "pdf logpdf cdf logcdf sf logsf ppf"), "gamma": ((1.5,), "pdf logpdf cdf logcdf sf logsf"),
    "chi2": ((2.0,), "pdf logpdf cdf logcdf sf logsf"), "beta": ((1.5, 2.5), "pdf logpdf cdf logcdf sf logsf"),
    "t": ((2.5,), "pdf logpdf"), "truncnorm": ((-0.8, 1.5), "pdf logpdf cdf logcdf sf logsf"),
}
UNPLACED = {"gennorm": ((1.5,), "pdf logpdf cdf"), "vonmises": ((1.5,), "pdf logpdf"), "wrapcauchy": ((0.3,), "pdf logpdf")}
DISCRETE = {
    "bernoulli": ((0.3,), "pmf logpmf"), "poisson": ((1.5,), "pmf logpmf cdf"), "geom": ((0.3,), "pmf logpmf"),
    "binom": ((5.0, 0.3), "pmf logpmf"), "nbinom": ((3.0, 0.3), "pmf logpmf"), "betabinom": ((5.0, 1.5, 2.5), "pmf logpmf"),
}


def compare(ours, theirs, precise: bool):
    with np.errstate(all="ignore"):
        theirs = np.asarray(theirs)
    tolerance = 1e-10 if precise else 3e-5
    np.testing.assert_allclose(np.asarray(ours, np.float64), theirs, rtol=tolerance, atol=1e-12 if precise else 3e-6)


@pytest.mark.parametrize("precise", [True, False], ids=["float64", "float32"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_functions(name, precise):
    grids = [g.ravel() for g in np.meshgrid(*FUNCTIONS[name], indexing="ij")]
    if not precise:
        grids = [g.astype(np.float32) for g in grids]
    if name == "polygamma":  # whose orders are integers
        grids[0] = grids[0].astype(np.int32)
    arguments = [g if g.dtype == np.int32 else g.astype(np.float64) for g in grids]
    with np.errstate(all="ignore"):
        theirs = getattr(special, name)(*arguments)
    with xf.enable_x64(precise):
        ours = np.asarray(getattr(our_special, name)(*grids), np.float64)
    huge = np.abs(theirs) > (1e300 if precise else 1e30)  # where float32 overflows
    compare(ours[~huge], theirs[~huge], precise)
    if name not in ("gamma", "poch", "beta"):
        np.testing.assert_array_equal(np.isnan(ours), np.isnan(theirs))


@pytest.mark.parametrize("name", [*CONTINUOUS, *UNPLACED, *DISCRETE])
def test_distributions(name):
    """In float64, with and without location and scale, and with the arguments by name."""
    table = {**CONTINUOUS, **UNPLACED, **DISCRETE}
    parameters, functions = table[name]
    placed = PLACED if name in CONTINUOUS else [{}, {"loc": 1.0}] if name in DISCRETE else [{}]
    with xf.enable_x64(True):
        for function in functions.split():
            at = UNIT if function in ("ppf", "isf") else COUNTS if name in DISCRETE else VALUES
            for keywords in placed:
                if function == "cdf" and name == "bernoulli":
                    keywords = {}
                ours = getattr(getattr(our_stats, name), function)(at, *parameters, **keywords)
                with np.errstate(all="ignore"):
                    theirs = getattr(getattr(stats, name), function)(at, *parameters, **keywords)
                assert ours.dtype == np.float64
                compare(ours, theirs, True)


def test_every_function_of_a_distribution_is_tested_and_documented():
    tested = {**CONTINUOUS, **UNPLACED, **DISCRETE, "multinomial": 0, "dirichlet": 0, "multivariate_normal": 0}
    for module in pkgutil.iter_modules(package.__path__):
        assert module.name in tested
        found = importlib.import_module(f"xlafront.scipy.stats.{module.name}")
        for name in ("pdf", "pmf", "logpdf", "logpmf", "cdf", "sf", "ppf"):
            if hasattr(found, name):
                assert "distribution" in getattr(found, name).__doc__ and "Args:" in getattr(found, name).__doc__
        assert doctest.testmod(found).failed == 0


def test_distributions_at_limits():
    """NaN gives NaN; limits at the ends of the support."""
    for distribution, *parameters in (("gamma", 2.5), ("chi2", 3.0), ("beta", 2.0, 3.0), ("gumbel_l",), ("gumbel_r",)):
        module = getattr(package, distribution)
        assert all(np.isnan(getattr(module, name)(np.nan, *parameters)) for name in ("pdf", "logpdf", "cdf", "sf"))
    assert our_stats.gumbel_l.pdf(np.inf) == 0 and our_stats.gumbel_r.pdf(-np.inf) == 0
    assert our_stats.poisson.entropy(0.0) == 0
    x = np.linspace(1.0, 4.0, 7)
    np.testing.assert_allclose(our_stats.gumbel_l.logcdf(-x), stats.gumbel_l.logcdf(-x), rtol=1e-5)
    np.testing.assert_allclose(our_stats.gumbel_r.logsf(-x), stats.gumbel_r.logsf(-x), rtol=1e-5)
    wide = stats.multivariate_normal.logpdf([0.2, 0.5], [0.0, 1.0], 2.0)
    np.testing.assert_allclose(our_stats.multivariate_normal.logpdf(xnp.array([0.2, 0.5]), xnp.array([0.0, 1.0]), 2.0), wide, rtol=1e-6)


# Parameters that describe no distribution give NaN on all of the line, as in the reference.
NO_DISTRIBUTIONS = [
    ("beta", "logpdf", (-1.0, 2.0, 3.0, 0.0, -1.0)), ("beta", "pdf", (5.0, 0.0, 3.0)), ("gamma", "cdf", (2.0, 0.0)),
    ("gamma", "logpdf", (2.0, 3.0, 0.0, -1.0)), ("expon", "logcdf", (1.0, 0.0, -1.0)), ("gennorm", "cdf", (0.3, 0.0)),
    ("gumbel_l", "sf", (0.3, 0.0, -1.0)), ("gumbel_r", "logcdf", (0.3, 0.0, 0.0)), ("pareto", "logsf", (2.0, 1.5, 0.0, -1.0)),
    ("truncnorm", "pdf", (0.0, 1.0, 1.0)), ("truncnorm", "sf", (3.0, 2.0, 1.0)), ("wrapcauchy", "pdf", (-1.0, 1.0)),
]


def test_invalid_parameters_give_nan():
    for distribution, name, args in NO_DISTRIBUTIONS:
        assert np.isnan(getattr(getattr(our_stats, distribution), name)(*args)), (distribution, name)
        with np.errstate(all="ignore"):
            assert np.isnan(getattr(getattr(stats, distribution), name)(*args)), (distribution, name)


@pytest.mark.parametrize("name", ["pdf", "sf"])
def test_scalar_invalid_parameter_gives_nan_vector(name):
    """A scalar parameter makes a vector NaN: XLA would leave memory uninitialized if an exponential is known to be NaN."""
    parameters = {"pdf": ("beta", -1.0, 2.0), "sf": ("truncnorm", 2.0, 1.0)}[name]
    function = getattr(getattr(our_stats, parameters[0]), name)
    assert np.isnan(function(np.linspace(0, 1, 5, dtype=np.float32), *np.float32(parameters[1:]))).all()


def test_cauchy_quantiles_in_tails():
    q = np.array([1e-30, 1e-7, 0.1, 0.25, 0.5, 0.6, 0.75, 0.99, 1 - 2.0**-23], np.float32)
    for name in ("ppf", "isf"):
        ours = getattr(our_stats.cauchy, name)
        np.testing.assert_allclose(ours(q), getattr(stats.cauchy, name)(q.astype(np.float64)), rtol=1e-6, atol=1e-7)
        assert not np.isnan(xf.vmap(xf.grad(ours))(q)).any()
    assert our_stats.cauchy.ppf(0.0) == -np.inf and our_stats.cauchy.ppf(1.0) == np.inf
    assert our_stats.cauchy.ppf(-0.0) == -np.inf and our_stats.cauchy.isf(-0.0) == np.inf


def test_discrete_distributions_of_nan():
    for distribution, *parameters in (("bernoulli", 0.3), ("betabinom", 5, 0.5, 1.5), ("nbinom", 2.5, 0.3)):
        assert np.isnan(getattr(our_stats, distribution).logpmf(np.nan, *parameters))
    assert np.isnan(our_stats.bernoulli.pmf(np.nan, 0.3)) and np.isnan(our_stats.bernoulli.cdf(np.nan, 0.3))
    assert np.isnan(our_stats.bernoulli.pmf(1, -0.1)) and our_stats.t.pdf(1.0, 3.0, 0.0, -1.0) == our_stats.t.pdf(1.0, 3.0)


FAR = np.array([-1e30, -1e10, -40.0, -4.0, -1e-3, 0.0, 1e-3, 0.5, 3.9, 20.0, 1e4, 1e10, 1e30])


@pytest.mark.parametrize("distribution, names, parameters", [
    ("cauchy", "cdf sf logcdf logsf", ()), ("expon", "logcdf", ()), ("pareto", "logcdf", (2.0,)),
    ("truncnorm", "cdf sf", (-1e-3, 1e-3)), ("truncnorm", "cdf logcdf sf logsf", (0.0, np.inf)),
    ("truncnorm", "logsf logcdf", (-np.inf, 0.0)), ("truncnorm", "logcdf", (3.0, 5.0))])
def test_tail_probabilities(distribution, names, parameters):
    """Near 0 and near 1, where a difference from 1 would round; derivatives are not NaN outside of the support."""
    x = FAR.astype(np.float32)
    for name in names.split():
        ours, theirs = (getattr(getattr(package, distribution), name) for package in (our_stats, stats))
        with np.errstate(all="ignore"):
            expected = theirs(x.astype(np.float64), *parameters)
        usual = (np.abs(expected) > 1e-37) & (np.abs(expected) < 1e37)
        np.testing.assert_allclose(ours(x, *parameters)[usual], expected[usual], rtol=1e-5)
        assert not np.isnan(xf.vmap(xf.grad(lambda x, f=ours: f(x, *parameters)))(x[2:8])).any(), name


@pytest.mark.parametrize("a, b", [(1000.0, 1001.0), (-40.0, -30.0), (200.0, np.inf), (-np.inf, np.inf), (5.0, 7.0), (-3.0, 0.5)])
def test_truncated_normal_in_tails(a, b):
    x = np.float32(np.clip(a, -5, b - 1) if a == -np.inf else a) + np.array([1e-3, 0.1, 0.6], np.float32)
    for name in ("logcdf", "logsf", "logpdf"):
        expected = getattr(stats.truncnorm, name)(x.astype(float), a, b)
        np.testing.assert_allclose(getattr(our_stats.truncnorm, name)(x, a, b), expected, rtol=1e-4, atol=1e-37)
        slopes = xf.vmap(xf.grad(getattr(our_stats.truncnorm, name), (0, 1, 2)), (0, None, None))(x, a, b)
        assert np.isfinite(slopes).all(), name


@pytest.mark.parametrize("shape", [0.5, 1.0, 2.5])
def test_gamma_cdf_derivative_is_zero_outside_support(shape):
    """For shapes up to 1 the density at 0 is not 0."""
    x = np.array([-3.0, 0.0, np.inf], np.float32)
    for name in ("cdf", "logcdf", "sf", "logsf"):
        for ours, scipys, a in (("gamma", stats.gamma, shape), ("chi2", stats.chi2, 2 * shape)):
            f = getattr(getattr(our_stats, ours), name)
            np.testing.assert_array_equal(f(x, a), getattr(scipys, name)(x, a))
            np.testing.assert_array_equal(xf.vmap(xf.grad(f, (0, 1)), (0, None))(x, a), 0)


def test_derivatives_at_edges_of_support():
    """At its edges the uniform distribution has half of the derivative of its interior; that of von Mises' at concentration 0 is `cos(x)`."""
    inside = xf.vmap(xf.grad(our_stats.uniform.cdf), (0, None, None))(np.array([-0.1, 1.0, 2.0, 3.0, 3.1], np.float32), 1.0, 2.0)
    np.testing.assert_array_equal(inside, [0, 0.25, 0.5, 0.25, 0])
    np.testing.assert_allclose(xf.grad(our_stats.vonmises.logpdf, 1)(-2.5, 0.0), np.cos(-2.5), rtol=1e-6)
    np.testing.assert_allclose(our_stats.betabinom.logpmf(2.0, 5.0, 0.5, 1.0, 0.5), -1.8529007, rtol=1e-5)
    np.testing.assert_allclose(xf.grad(our_stats.betabinom.logpmf, 4)(2.0, 5.0, 0.5, 1.0, 0.0), 0.2196274, rtol=1e-5)


def test_multivariate_normal_of_scalars():
    x, variances = np.array([0.2, -1.0, 3.0], np.float32), np.array([1.0, 2.0, 0.5], np.float32)
    wide = stats.norm.logpdf(x, 0.5, np.sqrt(variances))
    np.testing.assert_allclose(our_stats.multivariate_normal.logpdf(x, 0.5, variances), wide, rtol=1e-5)
    for mean, cov in ((np.zeros(2), np.eye(3)), (np.zeros(3), np.ones(2))):
        with pytest.raises(ValueError, match="incompatible shapes"):
            our_stats.multivariate_normal.logpdf(x, mean, cov)


def test_multivariate_normal_of_one_dimension():
    """A value with fewer dimensions than the mean is broadcast."""
    mean = np.array([1.0, 2.0, 3.0])
    expected = stats.multivariate_normal.logpdf([2.0, 2.0, 2.0], mean, np.eye(3))
    for cov in (1.0, np.eye(3)):
        for x in (2, xnp.full(1, 2.0)):
            np.testing.assert_allclose(our_stats.multivariate_normal.logpdf(x, mean, cov), expected, rtol=1e-5)


def test_weak_types_of_integers_with_python_floats():
    """Integers with Python floats promote to weakly typed floats; most densities are strongly typed if their first array is."""
    strong, weak = xnp.arange(1, 4), xnp.asarray(2)
    one, two = [(strong, 1, 2.0), (strong, 1.0, strong), (weak, 1.0, strong), (True, 1, 2.0)], [
        (strong, 0.5), (weak, 0.5), (True, 0.5), (np.int32(1), 0.5)]
    for name, arguments, expected in [
            ("norm.logpdf", one, "SSWW"), ("norm.cdf", one, "SSSS"), ("cauchy.ppf", one, "SSWW"), ("laplace.cdf", one, "SSWW"),
            ("logistic.logpdf", one, "SSSW"), ("logistic.cdf", one, "WWWW"), ("logistic.isf", one, "SSWW"), ("expon.pdf", one, "WWWW"),
            ("gumbel_r.sf", one, "SSWW"), ("gumbel_r.pdf", one, "WWWW"), ("uniform.cdf", one, "WWWW"), ("uniform.pdf", one, "WWWW"),
            ("gamma.pdf", two, "SWWW"), ("gamma.sf", two, "WWWW"), ("t.pdf", two, "SWWW"), ("chi2.sf", two, "SWWW"),
            ("pareto.cdf", two, "SWWW"), ("pareto.logcdf", two, "WWWW"), ("poisson.cdf", two, "SWWW"), ("poisson.pmf", two, "WWWW"),
            ("geom.pmf", two, "SWWW"), ("bernoulli.pmf", two, "SWWW"), ("bernoulli.ppf", two, "SWWW"), ("bernoulli.cdf", two, "SWWW")]:
        distribution, function = name.split(".")
        results = [getattr(getattr(our_stats, distribution), function)(*given) for given in arguments]
        assert "".join("W" if y.weak_type else "S" for y in results) == expected, name


@pytest.mark.parametrize("a, b", [(1.0, 1.0), (0.5, 2.0), (2.0, 0.5)])
def test_beta_cdf_derivative_is_zero_outside_support(a, b):
    x = np.array([-1.0, 0.0, 1.0, 3.0], np.float32)
    for name, sign in (("cdf", 1), ("sf", -1)):
        f = getattr(our_stats.beta, name)
        np.testing.assert_array_equal(f(x, a, b), getattr(stats.beta, name)(x, a, b))
        np.testing.assert_array_equal(xf.jacobian(lambda x, f=f: f(x, a, b))(x), np.zeros((4, 4)))
        np.testing.assert_allclose(xf.grad(f)(0.3, a, b), sign * stats.beta.pdf(0.3, a, b), rtol=1e-5)
    assert np.isnan(our_stats.beta.cdf(0.0, -1.0, 2.0))
    for a, b in ((0.0, 0.0), (np.inf, np.inf), (np.nan, 1.0), (1.0, -2.0)):
        assert np.isnan(our_stats.beta.cdf(np.float32([-1, 0.5, 2]), np.float32(a), np.float32(b))).all()
    slope = xf.jit(xf.grad(lambda x: our_stats.beta.cdf(x, 2.0, 3.0))).lower(0.5)
    assert "while" not in slope.as_text()  # the continued fraction is not evaluated


def test_many_degrees_of_freedom_in_float32():
    x, df = np.array([0.0, 1.0, -2.0], np.float32), np.array([[3.0], [1e3], [1e6], [1e10]], np.float32)
    np.testing.assert_allclose(our_stats.t.logpdf(x, df), stats.t.logpdf(x.astype(float), df.astype(float)), rtol=1e-5)


def test_tails_in_float32():
    far = np.array([-40.0, -12.0, -9.0, 3.0], np.float32)
    np.testing.assert_allclose(our_special.log_ndtr(far), special.log_ndtr(far.astype(np.float64)), rtol=3e-6)
    small = np.array([1e-30, 1e-12, 1e-4], np.float32)
    np.testing.assert_allclose(our_special.ndtri(small), special.ndtri(small.astype(np.float64)), rtol=3e-6)
    assert our_special.ndtri(np.float32(0)) == -np.inf and our_special.ndtri(np.float32(1)) == np.inf
    assert np.isnan(our_special.ndtri(np.float32(2)))
    gradient = xf.grad(our_special.log_ndtr)(np.float32(-30))
    np.testing.assert_allclose(gradient, 30.03326, rtol=1e-5)  # -x + 1 / -x - 2 / -x**3


@pytest.mark.parametrize("name", ["ndtr", "log_ndtr", "ndtri", "logit", "entr", "xlogy", "betaln", "gammaln"])
def test_derivatives(name):
    with xf.enable_x64(True):
        f = getattr(our_special, name)
        x = np.array([0.2, 0.6, 0.9])
        rest = (np.array([0.5, 1.5, 2.5]),) if name in ("xlogy", "betaln") else ()
        for i in range(1 + len(rest)):
            args = [x, *rest]
            up, down = list(args), list(args)
            up[i], down[i] = args[i] + 1e-6, args[i] - 1e-6
            numeric = (f(*up) - f(*down)) / 2e-6
            found = xf.vmap(xf.grad(f, i))(*args)
            np.testing.assert_allclose(found, numeric, rtol=1e-6)
    assert xf.grad(our_special.xlogy)(0.0, 2.0) == np.float32(np.log(2.0))


def test_multivariate_distributions():
    with xf.enable_x64(True):
        counts, p = np.array([[1, 2, 0], [0, 3, 1]]), np.array([0.2, 0.5, 0.3])
        compare(our_stats.multinomial.logpmf(counts, 3, p), stats.multinomial.logpmf(counts, 3, p), True)
        compare(our_stats.multinomial.pmf(counts, 3, p), stats.multinomial.pmf(counts, 3, p), True)
        alpha, x = np.array([0.7, 1.5, 3.0]), np.array([0.2, 0.5, 0.3])
        compare(our_stats.dirichlet.logpdf(x, alpha), stats.dirichlet.logpdf(x, alpha), True)
        compare(our_stats.dirichlet.pdf(x[:2], alpha), stats.dirichlet.pdf(x, alpha), True)
        assert our_stats.dirichlet.logpdf(x + 0.1, alpha) == -np.inf
        rng = np.random.default_rng(0)
        root, mean, points = rng.normal(size=(3, 3)), rng.normal(size=3), rng.normal(size=(4, 3))
        cov = root @ root.T + np.eye(3)
        for f in ("pdf", "logpdf"):
            ours, theirs = (getattr(m.multivariate_normal, f) for m in (our_stats, stats))
            compare(ours(points, mean, cov), theirs(points, mean, cov), True)
            compare(ours(points[0], mean, cov), theirs(points[0], mean, cov), True)
            compare(ours(points[:, 0], 0.5, 2.0), stats.norm(0.5, np.sqrt(2)).__getattribute__(f)(points[:, 0]), True)
        with pytest.raises(ValueError, match="incompatible shapes"):
            our_stats.multivariate_normal.logpdf(points, mean, cov[:2, :2])
        for mu in (0.1, 1.5, 19.0, 30.0, 200.0):
            np.testing.assert_allclose(our_stats.poisson.entropy(mu), stats.poisson.entropy(mu), rtol=1e-6)


@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_samples(axis):
    x = np.array([[3, 1, 1, 2], [2, 2, 5, 3], [3, 1, 5, 5]])
    for keepdims in (False, True):
        ours, theirs = our_stats.mode(x, axis=axis, keepdims=keepdims), stats.mode(x, axis=axis, keepdims=keepdims)
        np.testing.assert_array_equal(ours.mode, theirs.mode)
        np.testing.assert_array_equal(ours.count, theirs.count)
        np.testing.assert_allclose(our_stats.sem(x, axis, keepdims=keepdims), stats.sem(x, axis, keepdims=keepdims), rtol=1e-6)
    for method in ("average", "min", "max", "dense", "ordinal"):
        np.testing.assert_array_equal(our_stats.rankdata(x, method, axis=axis), stats.rankdata(x, method, axis=axis))


def test_bad_input_raises():
    with pytest.raises(TypeError, match="int"):
        our_special.ndtr(np.arange(3))
    with pytest.raises(TypeError, match="float16"):
        our_special.log_ndtr(np.ones(2, np.float16))
    with pytest.raises(NotImplementedError, match="q=1"):
        our_special.zeta(2.0)
    with pytest.raises(ValueError, match="'foo'"):
        our_stats.rankdata(np.arange(3), "foo")
    with pytest.raises(ValueError, match="nan_policy"):
        our_stats.mode(np.arange(3), nan_policy="foo")
    with pytest.raises(ValueError, match="nan_policy"):
        our_stats.sem(np.arange(3), nan_policy="raise")
    with pytest.raises(TypeError, match="list"):
        our_stats.norm.pdf([1.0])
    with pytest.raises(TypeError, match="Dirichlet|compatible|broadcast"):
        our_stats.norm.pdf(xnp.ones(3), xnp.ones(2))


def test_mode_of_scalar():
    for x in (3.0, xnp.float32(3)):
        for axis in (0, -1, None):
            assert [v.tolist() for v in our_stats.mode(x, axis=axis, keepdims=True)] == [[3.0], [1]]
    assert not our_stats.mode(xnp.zeros(0)).mode.weak_type


@pytest.mark.parametrize("name", ["expon", "gumbel_l", "gumbel_r", "laplace", "pareto", "uniform"])
def test_complex_arguments_of_comparisons_raise(name):
    z, more = xnp.array([1j, 2.0]), (1.5,) if name == "pareto" else ()
    for function in ("cdf",) if name == "uniform" else ("pdf", "logpdf", "cdf"):  # whose density JAX orders by real parts
        for arguments in ((z, *more), (0.5, *more, z)):
            with pytest.raises(ValueError if name == "uniform" else TypeError, match="complex"):
                getattr(getattr(our_stats, name), function)(*arguments)


def test_complex_arguments_of_discrete_distributions_raise():
    z = xnp.array([1j, 2.0])
    for f in (*[getattr(our_stats.bernoulli, name) for name in ("pmf", "logpmf", "cdf", "ppf")], our_stats.geom.pmf, our_stats.geom.logpmf):
        for arguments in ((z, 0.5), (1, z)):
            with pytest.raises(TypeError, match="complex"):
                f(*arguments)
    for f in (our_stats.beta.cdf, our_stats.beta.logcdf, our_stats.beta.sf, our_stats.beta.logsf):
        with pytest.raises(ValueError, match="complex"):
            f(z, 1.0, 2.0)


def test_arguments_that_are_not_promoted():
    for x in (1, xnp.arange(3), True, xnp.float16(0.5), 1j):
        with pytest.raises(TypeError, match="floats"):
            our_stats.norm.ppf(x, 0.5, 2.0)
    np.testing.assert_array_equal(our_stats.norm.isf(xnp.arange(3), 0.5, 2), stats.norm.isf(np.arange(3), 0.5, 2))
    assert our_stats.norm.isf(xnp.float16(0.5), np.float32(3)) == 3
    for x, n in ((xnp.array([1.0, 2.0]), 3), (xnp.array([1, 2]), 3.0)):
        with pytest.raises(ValueError, match="integers"):
            our_stats.multinomial.logpmf(x, n, xnp.array([0.5, 0.5]))
    # numbers of Python's inside of programs are numbers of some type too
    for function in (our_stats.norm.cdf, our_stats.cauchy.cdf, our_stats.logistic.pdf):
        expected = getattr(getattr(stats, function.__module__.rpartition(".")[2]), function.__name__)(1)
        np.testing.assert_allclose(float(xf.jit(lambda: function(True))()), expected, rtol=1e-5)


def test_cauchy_quantiles_of_no_probabilities_are_nan():
    q = np.array([-0.1, 0, 0.25, 1, 1.5, np.nan], np.float32)
    for name in ("ppf", "isf"):
        np.testing.assert_allclose(getattr(our_stats.cauchy, name)(q), getattr(stats.cauchy, name)(q), rtol=1e-6)


def test_binomial_of_zero_successes_is_exact():
    n = xnp.array([1, 3, 20, 1000])
    assert our_stats.binom.logpmf(0, n, 0.0).tolist() == our_stats.binom.logpmf(n, n, 1.0).tolist() == [0.0] * 4
    assert our_stats.binom.pmf(0, n, 0.0).tolist() == [1.0] * 4
    # as in between: digamma(n + 1) - digamma(n - k + 1) + log(1 - p)
    found = xf.grad(lambda n: our_stats.binom.logpmf(3.0, n, 0.25))(3.0)
    np.testing.assert_allclose(found, special.digamma(4) - special.digamma(1) + np.log(0.75), rtol=1e-5)


@pytest.mark.parametrize("dtype, rtol", [("float32", 4e-7), ("float64", 1e-14)])
def test_relative_entropy_and_derivatives(dtype, rtol):
    """Compiled, because XLA might drop the correction of a rounded sum: close numbers, distant ones, and the edges of the domain."""
    rng = np.random.default_rng(0)
    p = np.exp(rng.uniform(-40, 40, 600)).astype(dtype)
    q = np.concatenate([p[:300] * (1 + 10 ** rng.uniform(-6, -1, 300)), np.exp(rng.uniform(-40, 40, 300))]).astype(dtype)
    p[0], q[0] = 1e15, 1e-20
    wide_p, wide_q = p.astype(np.longdouble), q.astype(np.longdouble)
    near = abs(wide_p - wide_q) < wide_q / 2
    logarithm = np.where(near, np.log1p(np.where(near, (wide_p - wide_q) / wide_q, 0)), np.log(wide_p) - np.log(wide_q))
    with xf.enable_x64(dtype == "float64"):
        np.testing.assert_allclose(xf.jit(our_special.rel_entr)(p, q), (wide_p * logarithm).astype(dtype), rtol=rtol)
        slopes = xf.jit(xf.grad(lambda p, q: our_special.rel_entr(p, q).sum(), (0, 1)))(p, q)
        np.testing.assert_allclose(slopes[0], (logarithm + 1).astype(dtype), rtol=rtol, atol=rtol)
        np.testing.assert_allclose(slopes[1], -p / q, rtol=rtol)
        edges = np.array([[0, 0], [0, 2], [2, 0], [-1, 2], [2, -1]], dtype).T
        for f in (xf.grad(our_special.rel_entr, (0, 1)), xf.hessian(our_special.rel_entr, (0, 1))):
            assert all((np.asarray(x) == 0).all() for x in xf.tree.leaves(xf.vmap(f)(*edges)))
        [[a, b], [c, d]] = xf.hessian(our_special.rel_entr, (0, 1))(np.asarray(2, dtype), np.asarray(5, dtype))
        np.testing.assert_allclose([a, b, c, d], [1 / 2, -1 / 5, -1 / 5, 2 / 25], rtol=rtol * 4)
        right = np.linspace(0, 5.5 if dtype == "float32" else 8, 200, dtype=dtype)
        expected = special.log_ndtr(right.astype(float))
        np.testing.assert_allclose(xf.jit(our_special.log_ndtr)(right), expected, rtol=5e-6 if dtype == "float32" else 1e-13)


def test_entr_derivatives_at_edges():
    """`-1 - log(x)`, whose limits are infinite, and its derivative `-1 / x`."""
    x = np.array([0.0, -0.0, np.inf, 1.0, 0.5, 1e-30, 2.0], np.float32)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(xf.vmap(xf.grad(our_special.entr))(x), -1 - np.log(x), rtol=1e-6)
        np.testing.assert_allclose(xf.vmap(xf.grad(xf.grad(our_special.entr)))(x), -1 / x, rtol=1e-6)
    assert np.isnan(xf.grad(our_special.entr)(-1.0))  # as the reference gives


@pytest.mark.parametrize("name, parameters", [("truncnorm", (-1.0, 1.0)), ("uniform", ()), ("norm", ()), ("expon", ()), ("logistic", ()), ("laplace", ())])
@pytest.mark.parametrize("method", ["pdf", "logpdf", "cdf"])
def test_nan_in_any_argument_gives_nan(name, parameters, method):
    arguments = np.array([0.5, *parameters, 0.0, 1.0], np.float32)
    function = getattr(getattr(our_stats, name), method)
    assert np.isfinite(function(*arguments))
    for i in range(len(arguments)):
        assert np.isnan(function(*[np.nan if i == k else x for k, x in enumerate(arguments)])), i


@pytest.mark.parametrize("method", ["sf", "logsf", "logcdf"])
def test_truncated_normal_of_nan(method):
    function = getattr(our_stats.truncnorm, method)
    np.testing.assert_equal(np.asarray(function(np.float32([0.5, np.nan]), np.float32([np.nan, -1]), 1.0)), [np.nan] * 2)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn"])
def test_truncated_normal_needs_32_bits(dtype):
    for method in ("pdf", "cdf", "sf"):
        function = getattr(our_stats.truncnorm, method)
        for arguments in ((xnp.ones(2, dtype), -1, 2), (0.5, xnp.zeros(2, dtype), 2), (0.5, -1.0, 2.0, xnp.zeros(2, dtype))):
            with pytest.raises(TypeError, match=f"truncated normal .* of 32 or 64 bits, got dtype {dtype}"):
                function(*arguments)


def test_bernoulli_of_nan_probability():
    assert np.isnan(our_stats.bernoulli.pmf(0.5, np.nan)) and np.isnan(our_stats.bernoulli.logpmf(0.5, np.nan))


def test_pareto_quantiles_outside_have_finite_derivatives():
    slopes = xf.vmap(xf.grad(our_stats.pareto.ppf))(np.float32([2.5, 0.5, -1.0]), np.float32([1, 2, 1]))
    np.testing.assert_allclose(slopes, [0, 0.5 ** -1.5 / 2, 0], 1e-5)  # of (1 - q) ** (-1 / b)


def test_logistic_density_of_complex_numbers():
    z = np.complex64([1j, -0.5 + 2j])
    np.testing.assert_allclose(our_stats.logistic.pdf(z), np.exp(-z) / (1 + np.exp(-z)) ** 2, 1e-5)


def test_von_mises_of_python_scalars_under_jit():
    expected = stats.vonmises.logpdf(0, 1)
    np.testing.assert_allclose(xf.jit(lambda: our_stats.vonmises.logpdf(0, 1))(), expected, 1e-5)


@pytest.mark.parametrize("distribution, methods, shapes", [
    ("gamma", "cdf logcdf sf logsf", (2.0,)), ("chi2", "cdf logcdf sf logsf", (2.0,)), ("wrapcauchy", "pdf logpdf", (0.5,)), ("uniform", "pdf logpdf cdf", ())])
def test_nan_in_an_argument_is_not_hidden_outside_of_the_support(distribution, methods, shapes):
    """Also where the result depends on no parameter: at negative numbers."""
    for method in methods.split():
        location_and_scale = () if distribution == "wrapcauchy" else (0.0, 1.0)
        for x in (-1.0, 0.5):
            arguments = np.float32([x, *shapes, *location_and_scale])
            for i in range(len(arguments)):
                with_nan = [*arguments[:i], np.float32(np.nan), *arguments[i + 1:]]
                assert np.isnan(getattr(getattr(stats, distribution), method)(*with_nan))
                assert np.isnan(getattr(getattr(our_stats, distribution), method)(*with_nan)), (method, with_nan)
