"""The von Mises distribution.

>>> from xlafront.scipy.stats import vonmises
>>> vonmises.pdf(0.0, 0.0) < 0.2
Array(True, dtype=bool, weak_type=True)
"""

from __future__ import annotations

import math

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.scipy.members import exponential, member


@member("von Mises", kappa="the concentration")
def logpdf(x, kappa):
    above = xnp.where(kappa == 0, kappa + float(xnp.finfo(kappa.dtype).tiny), kappa)  # at 0 the scaled function has a kink
    return xnp.where(kappa < 0, xnp.nan, kappa * (xnp.cos(x) - 1) - xnp.log(2 * math.pi * lax.bessel_i0e(above)))


pdf = exponential(logpdf, "pdf")
