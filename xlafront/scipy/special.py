"""SciPy's special functions."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.nn.functions": "logsumexp",
    "xlafront.scipy.elementary_functions": """boxcox boxcox1p entr erf erfc erfinv expit kl_div log_softmax logit rel_entr
        softmax xlog1py xlogy""",
    "xlafront.scipy.gamma_functions": """beta betainc betaln comb digamma factorial gamma gammainc gammaincc gammaln gammasgn i0
        i0e i1 i1e multigammaln poch polygamma zeta""",
    "xlafront.scipy.normal_functions": "log_ndtr ndtr ndtri",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
