"""The incomplete gamma functions, their derivatives, and that of samples of gamma distributions in the shape parameter.

P(a, x) is the part of the integral of `t^(a-1) exp(-t)` from 0 to x, Q(a, x) = 1 - P the rest. Three formulas share the plane:
a power series where x is small, Legendre's continued fraction where it is larger than a, and for large a and x near it
the uniform asymptotic expansion (DLMF 8.12), in which a normal distribution is corrected. Each comes with its derivative in a.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import xlafront.numpy as xnp
from xlafront.control.while_loop import while_loop
from xlafront.core import tracing
from xlafront.core.typing import Array, ArrayLike
from xlafront.core.zeros import Zero
from xlafront.lax.elementwise import as_type, constant_like, exp_, log_, mul, neg, sub
from xlafront.lax.elementwise_functions import PUBLIC
from xlafront.special.by_function import computed, in_wide_floats, of_one_type
from xlafront.staging.library import library
from xlafront.transforms.ad.jvp import jvp_flat

_lgamma, _digamma, _erfc = PUBLIC["lgamma"], PUBLIC["digamma"], PUBLIC["erfc"]
# From which a on the expansion is used, and how far from a, in parts of it.
_LARGE = {np.dtype(np.float32): 100.0, np.dtype(np.float64): 1e4}
_NEAR = 0.3
_STEPS = 5000  # of a loop at most; each formula needs fewer where it is used


class Parts(NamedTuple):
    """A formula's values where it holds: P = 1 - Q or Q (which of them, `upper` says), and `slope` = dP/da over the density, or
    None where nobody asks for it: sums of derivatives take more steps to settle.

    The density is `x^(a-1) exp(-x) / gamma(a)`, `mass` is x times it.
    """

    value: Any
    mass: Any
    slope: Any
    upper: Any


def excess(m):
    """`m - log(1 + m)` over `m * m / 2`, without cancellation for small `m`: of `r = m / (2 + m)` a series in its square."""
    small = abs(m) < _NEAR
    safe = xnp.where(small, m, 0.1)
    r = safe / (2 + safe)
    series = xnp.zeros_like(m)
    for k in range(11 if m.dtype == np.float64 else 5, -1, -1):
        series = series * r * r + 1 / (2 * k + 3)
    far = xnp.where(small, 1, m)
    near = 2 / (2 + safe) * (1 - 2 * safe * series / (2 + safe) ** 2)
    return xnp.where(small, near, 2 * (far - xnp.log1p(far)) / (far * far))


def stirling(a):
    """What is left of `log(gamma(a + 1))` beyond Stirling's formula, for a of 10 and more."""
    found, inverse = xnp.zeros_like(a), 1 / (a * a)
    for c in (1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12):
        found = found * inverse + c
    return found / a


def _mass(a, x):
    """`x^a exp(-x) / gamma(a)`; for large a by Stirling's formula, so that no large numbers cancel."""
    big = xnp.maximum(a, 10)
    m = xnp.minimum((x - big) / big, 1e6)  # beyond it there is nothing left, and squares would overflow
    large = xnp.sqrt(big / (2 * math.pi)) * xnp.exp(-big * xnp.where(
        m < -0.5, m - xnp.log(x / big), m * m / 2 * excess(xnp.maximum(m, -0.5))) - stirling(big))
    few = xnp.minimum(a, 10)
    return xnp.where(a >= 10, large, few * xnp.exp(few * xnp.log(x) - x - _lgamma(few + 1)))


def _until_settled(step, start) -> tuple:
    """Repeat a step until the marks that are last in the state are all false; the first is the number of steps."""
    return while_loop(lambda state: xnp.any(state[-1]) & (state[0] < _STEPS), step, start)


def _series(a, x, used, sloped: bool) -> Parts:
    """The sum of `x^n / ((a + 1) ... (a + n))`, by which P is `x^a exp(-x) / gamma(a + 1)` times."""
    eps = np.finfo(x.dtype).eps
    x_safe = xnp.where(used, x, 0)  # elsewhere the first term is all

    def step(state):
        n, term, total, slopes, _ = state
        n = n + 1
        term = term * x_safe / (a + n)
        total = total + term
        open_ = term > eps * total
        if sloped:
            harmonic = slopes[0] + 1 / (a + n)
            moved = slopes[1] + harmonic * term
            slopes, open_ = (harmonic, moved), open_ | (harmonic * term > eps * moved)
        return n, term, total, slopes, open_

    one, zero = xnp.ones_like(x), xnp.zeros_like(x)
    start = (xnp.zeros((), x.dtype), one, one, (zero, zero) if sloped else (), used)
    _, _, total, slopes, _ = _until_settled(step, start)
    mass = _mass(a, x)
    slope = x / a * (total * (xnp.log(x) - _digamma(a + 1)) - slopes[1]) if sloped else None
    return Parts(mass * total / a, mass, slope, False)


def _fraction(a, x, used, sloped: bool) -> Parts:
    """`x + 1 - a + 1 (a - 1) / (x + 3 - a + 2 (a - 2) / (x + 5 - a + ...))`, by which Q is `mass` divided: by Lentz's method,
    whose steps multiply the value by what they change it, and with it the derivative of its logarithm in a."""
    eps = np.finfo(x.dtype).eps
    a_safe, x_safe = xnp.where(used, a, 1), xnp.where(used, x, 2)

    def step(state):
        n, value, c_before, d_before, slopes, open_ = state
        n = n + 1
        top, bottom = n * (a_safe - n), x_safe + 2 * n + 1 - a_safe
        ratio = top / c_before
        c, inverse = bottom + ratio, bottom + top * d_before
        d = 1 / inverse
        factor = c * d
        # What has settled stays, or rounding would add up while others go on.
        value = xnp.where(open_, value * factor, value)
        going = abs(factor - 1) > eps
        if sloped:
            slope, dc, dd = slopes
            dc = -1 + (n - ratio * dc) / c_before
            dd = -d * d * (n * d_before + top * dd - 1)
            change = dc / c + dd * inverse
            slope = xnp.where(open_, slope + change, slope)
            slopes, going = (slope, dc, dd), going | (abs(change) > eps * abs(slope))
        return n, value, c, d, slopes, open_ & going

    first = x_safe + 1 - a_safe
    minus, zero = -xnp.ones_like(x), xnp.zeros_like(x)
    slopes = (-1 / first, minus, zero) if sloped else ()
    _, value, _, _, slopes, _ = _until_settled(step, (xnp.zeros((), x.dtype), first, first, zero, slopes, used))
    mass = _mass(a, x)
    slope = -x / value * (xnp.log(x) - _digamma(a) - slopes[0]) if sloped else None
    return Parts(mass / value, mass, slope, True)


# The expansion's coefficients: of 1 and of 1 / a by powers of eta, of 1 / a^2 at 0.
_C0 = (-1 / 3, 1 / 12, -2 / 135, 1 / 864, 1 / 2835, -139 / 777600, 3.9192631785224377817e-5, -2.1854485106799921615e-6)
_C1 = (-1 / 540, -1 / 288, 1 / 378, -77 / 77760)
_C2 = 25 / 6048


def _polynomial(x, coefficients):
    found = xnp.zeros_like(x)
    for c in reversed(coefficients):
        found = found * x + c
    return found


def _expansion(a, x, sloped: bool) -> Parts:
    """`Q = erfc(eta sqrt(a / 2)) / 2 + exp(-a eta^2 / 2) / sqrt(2 pi a) (c0 + c1 / a + ...)`, with `eta^2 / 2` the excess of
    `(x - a) / a` over the logarithm of `x / a`."""
    a = xnp.maximum(a, 100)
    m = xnp.clip((x - a) / a, -_NEAR, _NEAR)
    scale = xnp.sqrt(excess(m))
    eta = m * scale
    bell = xnp.exp(-a * eta * eta / 2) / xnp.sqrt(2 * math.pi * a)
    correction = _polynomial(eta, _C0) + (_polynomial(eta, _C1) + _C2 / a) / a
    tail = _erfc(abs(eta) * xnp.sqrt(a / 2)) / 2
    upper = m >= 0
    value = tail + xnp.where(upper, 1, -1) * bell * correction
    if not sloped:
        return Parts(value, None, None, upper)
    # By a, eta changes by -1 / (a scale), a eta^2 / 2 by -log(x / a).
    log_ratio = m - eta * eta / 2
    of_coefficients = -_polynomial(eta, [k * c for k, c in enumerate(_C0)][1:]) / (a * scale) - _polynomial(eta, _C1) / (a * a)
    slope = -(1 - m * scale * scale / 2) / scale - correction * (log_ratio - 1 / (2 * a)) - of_coefficients
    density = xnp.exp(-stirling(a)) / x * a  # over the bell
    return Parts(value, bell * a * xnp.exp(-stirling(a)), slope / density, upper)


def _parts(a, x, sloped: bool) -> Parts:
    """The formula that holds for each pair of positive numbers."""
    large = (a >= _LARGE[x.dtype]) & (abs(x - a) < _NEAR * a)
    fraction = ~large & (x >= 1) & (x > a)
    found = [_series(a, x, ~(large | fraction), sloped), _fraction(a, x, fraction, sloped), _expansion(a, x, sloped)]
    return Parts(*[None if e is None else xnp.where(large, e, xnp.where(fraction, f, s)) for s, f, e in zip(*found)])


def _inside(a, x):
    """The pairs for which formulas are needed, with others in place of the rest; and of which there is no value."""
    usual = (a > 0) & (x > 0) & (a < np.inf) & (x < np.inf)
    nowhere = ~((a >= 0) & (x >= 0)) | ((a == 0) & (x == 0))
    return usual, nowhere, xnp.where(usual, a, 1), xnp.where(usual, x, 1)


def _regularized(upper: bool):
    def compute(a, x):
        usual, nowhere, b, y = _inside(a, x)
        parts = _parts(b, y, False)
        value = xnp.where(parts.upper == upper, parts.value, 1 - parts.value)
        # At the borders all is on one side: beyond x = 0 above it, up to infinity below, at a = 0 below too.
        below = (x == np.inf) | ((a == 0) & (x > 0))
        border = xnp.where(below != upper, 1, 0).astype(x.dtype)
        return xnp.where(nowhere, np.nan, xnp.where(usual, value, border))

    return compute


def _slope(of_samples: bool):
    def compute(a, x):
        usual, _, b, y = _inside(a, x)
        parts = _parts(b, y, True)
        value = -parts.slope if of_samples else parts.slope * parts.mass / y
        return xnp.where(usual, value, xnp.where((x == 0) & (a > 0), 0, np.nan))

    return compute


def _density(g, a, x):
    """`g x^(a-1) exp(-x) / gamma(a)`, the derivative in x."""
    return mul(g, exp_(sub(sub(mul(sub(a, constant_like(a, 1)), log_(x)), x), _lgamma(a))))


def _no_derivative(g, y, a, x):
    raise NotImplementedError("the derivative of igamma_grad_a, a second derivative of igamma, is not implemented. Hold its "
                              " arguments constant with lax.stop_gradient.")


igamma_grad_a_p = computed("igamma_grad_a", _slope(False), (_no_derivative, _no_derivative))
igamma_p = computed("igamma", _regularized(False), (
    lambda g, y, a, x: mul(g, igamma_grad_a_p.bind(a, x)), lambda g, y, a, x: _density(g, a, x)))
igammac_p = computed("igammac", _regularized(True), (
    lambda g, y, a, x: neg(mul(g, igamma_grad_a_p.bind(a, x))), lambda g, y, a, x: neg(_density(g, a, x))))


def _bend(argument: int) -> Callable:
    """The derivative of `random_gamma_grad`: that of its operations."""
    function = in_wide_floats(_slope(True))

    def rule(g, y, *values):
        values = xnp.broadcast_arrays(*values)
        tangents = [xnp.ones_like(x) if i == argument else Zero(tracing.aval_of(x)) for i, x in enumerate(values)]
        return mul(g, jvp_flat(lambda *xs: [function(*xs)], values, tangents)[1][0])

    return rule


random_gamma_grad_p = computed("random_gamma_grad", _slope(True), (_bend(0), _bend(1)))


@library
def igamma(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularised lower incomplete gamma function, elementwise: the probability that a gamma variable is below `x`.

    - `a`: the shape, not negative.
    - `x`: the limit, not negative. Where one of them is, the result is NaN.

    >>> np.asarray(lax.igamma(1.0, xnp.array([0.5, 2.0]))).round(3)
    array([0.393, 0.865], dtype=float32)
    """
    return igamma_p.bind(*of_one_type(a, x))


@library
def igammac(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularised upper incomplete gamma function, elementwise: `1 - igamma(a, x)`, exact where that is small.

    - `a`: the shape, not negative.
    - `x`: the limit, not negative.

    >>> np.asarray(lax.igammac(1.0, xnp.array([0.5, 2.0]))).round(3)
    array([0.607, 0.135], dtype=float32)
    """
    return igammac_p.bind(*of_one_type(a, x))


@library
def igamma_grad_a(a: ArrayLike, x: ArrayLike) -> Array:
    """The derivative of `igamma` in its first argument, elementwise.

    - `a`: the shape, positive.
    - `x`: the limit, not negative.

    >>> np.asarray(lax.igamma_grad_a(1.0, xnp.array([1.0, 2.0]))).round(3)
    array([-0.432, -0.221], dtype=float32)
    """
    return igamma_grad_a_p.bind(*of_one_type(a, x))


@library
def random_gamma_grad(a: ArrayLike, x: ArrayLike) -> Array:
    """By how much a sample `x` of a gamma distribution moves with its shape `a`, elementwise.

    It is the derivative of x by a at a constant `igamma(a, x)`.

    - `a`: the shape, positive.
    - `x`: the sample, not negative.

    >>> bool(xnp.all(lax.random_gamma_grad(1.0, xnp.array([1.0, 2.0])) > 0))
    True
    """
    found = random_gamma_grad_p.bind(*of_one_type(a, x))
    return as_type(found, tracing.aval_of(found).dtype, False)
