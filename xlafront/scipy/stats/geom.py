"""The geometric distribution.

>>> from xlafront.scipy.stats import geom
>>> geom.pmf(0, 0.25)
Array(0., dtype=float32, weak_type=True)
"""

from __future__ import annotations

import xlafront.numpy as xnp
from xlafront.scipy.distribution_methods import distribution_method, exponentiate, first_is_strong, require_real
from xlafront.scipy.elementary_functions import xlog1py


@distribution_method("geometric", first_is_strong, require_real, p="Probability of success")
def logpmf(k, p, loc=0):
    k = k - loc
    return xnp.where(k <= 0, -xnp.inf, xlog1py(k - 1, -p) + xnp.log(p))


pmf = exponentiate(logpmf, "pmf")
