"""The von Mises distribution.

>>> from xlafront.scipy.stats import vonmises
>>> vonmises.pdf(0.0, 0.0) < 0.2
Array(True, dtype=bool, weak_type=True)
"""

from __future__ import annotations

import math

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.scipy.distribution_methods import distribution_method, exponentiate


@distribution_method("von Mises", kappa="Concentration, not negative")
def logpdf(x, kappa):
    # The exponentially scaled Bessel function is not differentiable at 0.
    nonzero = xnp.where(kappa == 0, kappa + float(xnp.finfo(x.dtype).tiny), kappa)
    return xnp.where(kappa < 0, xnp.nan, kappa * (xnp.cos(x) - 1) - xnp.log(2 * math.pi * lax.bessel_i0e(nonzero)))


pdf = exponentiate(logpdf, "pdf")
