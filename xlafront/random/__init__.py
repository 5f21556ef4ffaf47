"""Random numbers from explicit keys, which are split and never changed.

>>> key = random.key(0)
>>> key, subkey = random.split(key)
>>> random.normal(subkey, (3,))
"""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.random.counts": "binomial geometric multinomial poisson",
    "xlafront.random.distributions": """bernoulli categorical cauchy choice exponential gumbel laplace logistic normal
        permutation rademacher randint truncated_normal uniform""",
    "xlafront.random.gammas": "beta chisquare dirichlet f gamma loggamma random_gamma_p t",
    "xlafront.random.prng": "Key PRNGKey bits clone fold_in key key_data key_dtype key_impl split wrap_key_data",
    "xlafront.random.transformed": """ball double_sided_maxwell generalized_normal lognormal maxwell multivariate_normal
        orthogonal pareto rayleigh triangular wald weibull_min""",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
