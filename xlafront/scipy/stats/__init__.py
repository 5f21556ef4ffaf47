"""SciPy's distributions, a module each, and statistics of samples."""

from xlafront.faces import lazy

_PLACES = {"xlafront.scipy.kernel_density": "gaussian_kde", "xlafront.scipy.samples": "mode rankdata sem"}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES, """
    bernoulli beta betabinom binom cauchy chi2 dirichlet expon gamma gennorm geom gumbel_l gumbel_r laplace
    logistic multinomial multivariate_normal nbinom norm pareto poisson t truncnorm uniform vonmises wrapcauchy
""")
