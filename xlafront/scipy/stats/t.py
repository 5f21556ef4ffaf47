"""Student's t distribution.

>>> from xlafront.scipy.stats import t
>>> t.pdf(0.0, 1.0) > 0.3
Array(True, dtype=bool, weak_type=True)
"""

from __future__ import annotations

import xlafront.numpy as xnp
from xlafront.scipy.distribution_methods import distribution_method, exponentiate, first_is_strong
from xlafront.scipy.gamma_functions import betaln


@distribution_method("Student's t", first_is_strong, df="Degrees of freedom")
def logpdf(x, df, loc=0, scale=1):
    y = (x - loc) / scale
    constant = -betaln(df / 2, 0.5) - 0.5 * xnp.log(df) - xnp.log(xnp.abs(scale))
    return constant - (df + 1) / 2 * xnp.log1p(y * y / df)


pdf = exponentiate(logpdf, "pdf")
