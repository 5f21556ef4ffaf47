"""SciPy's special functions."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.nn.functions": "logsumexp",
    "xlafront.scipy.elementary_functions": """boxcox boxcox1p entr erf erfc erfcinv erfinv expit kl_div log_softmax logit
        rel_entr softmax xlog1py xlogy""",
    "xlafront.scipy.gamma_functions": """beta betainc betaln comb digamma factorial gamma gammainc gammaincc gammaln gammasgn i0
        i0e i1 i1e loggamma multigammaln poch polygamma zeta""",
    "xlafront.scipy.integer_order_functions": "bernoulli bessel_jn lpmn lpmn_values sph_harm_y",
    "xlafront.scipy.hypergeometric_functions": "hyp1f1 hyp2f1",
    "xlafront.scipy.integral_functions": "dawsn erfcx exp1 expi expn fresnel owens_t sici spence wofz",
    "xlafront.scipy.normal_functions": "log_ndtr ndtr ndtri",
}
_DEPRECATED = dict.fromkeys(("lpmn", "lpmn_values"), "no function replaces it")
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS, deprecated=_DEPRECATED)
