"""SciPy's probability distributions, one module each, and statistics of samples."""

from xlafront.lazy_module import attach

_EXPORTS = {"xlafront.scipy.kernel_density": "gaussian_kde", "xlafront.scipy.samples": "mode rankdata sem"}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS, """
    bernoulli beta betabinom binom cauchy chi2 dirichlet expon gamma gennorm geom gumbel_l gumbel_r laplace
    logistic multinomial multivariate_normal nbinom norm pareto poisson t truncnorm uniform vonmises wrapcauchy
""")
