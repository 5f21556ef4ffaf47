"""The inverse of the complementary error function, accurate in both tails.

With `w = -log(y)` the inverse is close to `sqrt(w)` for small y; the difference is a Chebyshev series in `log(sqrt(w))`.
Around 1 the inverse is `z = 1 - y` plus z times a Chebyshev series in `z^2`. The coefficients were computed from 40 digits of
the function.
"""

from __future__ import annotations

import math

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.core.typing import Array
from xlafront.special.chebyshev import chebyshev, clenshaw
from xlafront.transforms.calls.custom_jvp import custom_jvp

_FIRST, _LAST = -0.1835, 3.282  # range of log(sqrt(w)), from y = 1/2 to the smallest normal number of 64 bits
_TAIL = (
    -0.22646239012566047, 0.16066609153095704, 0.0074646791846712255, -0.019114406366862294, 0.005446201526287204,
    -0.00014047001042409823, -0.0004432385153322314, 0.00018273006607940812, -2.8930124627176335e-05,
    -6.870154321085681e-06, 5.832942165579504e-06, -1.6845873813994576e-06, 7.991752139829792e-08,
    1.466966758593093e-07, -7.075752981694503e-08, 1.4433005404679712e-08, 1.5167744384653573e-09,
    -2.30018117132582e-09, 8.619489772015354e-10, -1.2145030358665064e-10, -4.819070019992431e-11,
    3.7023305047272984e-11, -1.0998823718222212e-11, 4.1396288811603755e-13, 1.1748986830566483e-12,
    -5.784549098542754e-13, 1.1465679905875546e-13, 1.9233899873695063e-14, -2.2472786313978184e-14,
    7.747131745610594e-15, -7.697889859948471e-16, -5.955124482350521e-16, 3.6754026643060266e-16,
    -9.520508304168053e-17, -2.1742793896810503e-18, 1.3050318868136038e-17, -5.743879489006439e-18,
    9.818147657961754e-19, 2.787485735256269e-19, -2.5119046182338313e-19)
_CENTER = (
    -0.08127438826498551, 0.03375857560006542, 0.0013206742781165998, 6.404076996787596e-05, 3.441212150449627e-06,
    1.9639319431763806e-07, 1.1660992270753084e-08, 7.120387036722737e-10, 4.4393783156625655e-11,
    2.8127938621948305e-12, 1.8051946908097276e-13, 1.1707093852711806e-14, 7.658493022440133e-16,
    5.046812059932414e-17, 3.3466401083134628e-18, 2.231263933671628e-19, 1.4946681790285938e-20, 1.0054156636221287e-21)


@custom_jvp
def erfcinv(y: Array) -> Array:
    """Compute the number whose complementary error function is `y`, a real number between 0 and 2."""
    z = 1 - y
    smaller = xnp.where(z < 0, 2 - y, y)  # exact
    inside = smaller > 0
    is_center = abs(z) <= 0.5
    center = z + z * chebyshev(xnp.where(is_center, 8 * z * z - 1, 0), _CENTER)
    tail = _tail(xnp.where(inside & ~is_center, smaller, 0.5))
    result = xnp.where(is_center, center, xnp.where(z < 0, -tail, tail))
    return xnp.where(inside, result, xnp.where(smaller == 0, xnp.copysign(np.inf, z), np.nan))


def _tail(y: Array) -> Array:
    """Compute the inverse for y up to 1/2, as the root of `w` in two parts plus the series."""
    information = np.finfo(y.dtype)
    w = -xnp.log(y)
    root = xnp.sqrt(w)
    coarse = lax.reduce_precision(root, information.nexp, information.nmant // 2)  # its square is exact
    rest = (w - coarse * coarse) / (root + coarse)
    series = clenshaw((xnp.log(w) - (_FIRST + _LAST)) / (_LAST - _FIRST), _TAIL)
    return coarse + (rest + series)


@erfcinv.defjvp
def _jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    (y,), (t,) = primals, tangents
    x = erfcinv(y)
    return x, t * (-0.5 * math.sqrt(math.pi) * xnp.exp(x * x))
