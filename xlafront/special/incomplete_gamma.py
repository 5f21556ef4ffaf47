"""The incomplete gamma functions, their derivatives, and the implicit derivative of gamma samples in the shape parameter.

P(a, x) is the normalized integral of `t^(a-1) exp(-t)` from 0 to x, Q(a, x) = 1 - P the rest. Three formulas cover the
plane: a power series for small x, Legendre's continued fraction for x > a, and for large a and x near it the uniform
asymptotic expansion (DLMF 8.12), a corrected normal distribution. Each formula comes with its derivative in a.
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
from xlafront.special.traced_primitives import traced_elementwise, widen_small_floats
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library
from xlafront.transforms.ad.jvp import jvp_flat

_lgamma, _digamma, _erfc = PUBLIC["lgamma"], PUBLIC["digamma"], PUBLIC["erfc"]
# The smallest a for which the expansion is used, and the largest relative distance of x from a.
_LARGE = {np.dtype(np.float32): 100.0, np.dtype(np.float64): 1e4}
_NEAR = 0.3
_STEPS = 5000  # maximum number of loop iterations; each formula needs fewer where it is used


class Evaluation(NamedTuple):
    """Values of a formula: `value`, which is Q where `upper` and P otherwise, and `slope` = dP/da divided by the density.

    `slope` is None if it is not requested, because sums of derivatives need more steps to converge. The density is
    `x^(a-1) exp(-x) / gamma(a)`, and `mass` is x times it.
    """

    value: Any
    mass: Any
    slope: Any
    upper: Any


def log1p_excess(m):
    """Compute `m - log(1 + m)` divided by `m * m / 2`, without cancellation for small `m`: a series in the square of `m /
    (2 + m)`."""
    is_small = abs(m) < _NEAR
    safe = xnp.where(is_small, m, 0.1)
    r = safe / (2 + safe)
    series = xnp.zeros_like(m)
    for k in range(11 if m.dtype == np.float64 else 5, -1, -1):
        series = series * r * r + 1 / (2 * k + 3)
    far = xnp.where(is_small, 1, m)
    near = 2 / (2 + safe) * (1 - 2 * safe * series / (2 + safe) ** 2)
    return xnp.where(is_small, near, 2 * (far - xnp.log1p(far)) / (far * far))


def stirling(a):
    """Compute the remainder of Stirling's formula for `log(gamma(a + 1))`, for `a >= 10`."""
    series, inverse = xnp.zeros_like(a), 1 / (a * a)
    for c in (1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12):
        series = series * inverse + c
    return series / a


def _mass(a, x):
    """Compute `x^a exp(-x) / gamma(a)`, by Stirling's formula for large a, which avoids cancellation."""
    large_a = xnp.maximum(a, 10)
    m = xnp.minimum((x - large_a) / large_a, 1e6)  # beyond it the result is 0, and squares would overflow
    value_large = xnp.sqrt(large_a / (2 * math.pi)) * xnp.exp(-large_a * xnp.where(
        m < -0.5, m - xnp.log(x / large_a), m * m / 2 * log1p_excess(xnp.maximum(m, -0.5))) - stirling(large_a))
    small_a = xnp.minimum(a, 10)
    return xnp.where(a >= 10, value_large, small_a * xnp.exp(small_a * xnp.log(x) - x - _lgamma(small_a + 1)))


def _iterate(step, start) -> tuple:
    """Repeat a step until the mask that is last in the state is all False; the first element counts the steps."""
    return while_loop(lambda state: xnp.any(state[-1]) & (state[0] < _STEPS), step, start)


def _series(a, x, is_active, with_derivative: bool) -> Evaluation:
    """Sum `x^n / ((a + 1) ... (a + n))`; P is `x^a exp(-x) / gamma(a + 1)` times the sum."""
    eps = np.finfo(x.dtype).eps
    x_safe = xnp.where(is_active, x, 0)  # where it is 0, the sum ends with the first term

    def step(state):
        n, term, total, derivative_state, _ = state
        n = n + 1
        term = term * x_safe / (a + n)
        total = total + term
        is_active = term > eps * total
        if with_derivative:
            harmonic = derivative_state[0] + 1 / (a + n)
            derivative_sum = derivative_state[1] + harmonic * term
            derivative_state = (harmonic, derivative_sum)
            is_active = is_active | (harmonic * term > eps * derivative_sum)
        return n, term, total, derivative_state, is_active

    one, zero = xnp.ones_like(x), xnp.zeros_like(x)
    start = (xnp.zeros((), x.dtype), one, one, (zero, zero) if with_derivative else (), is_active)
    _, _, total, derivative_state, _ = _iterate(step, start)
    mass = _mass(a, x)
    derivative = x / a * (total * (xnp.log(x) - _digamma(a + 1)) - derivative_state[1]) if with_derivative else None
    return Evaluation(mass * total / a, mass, derivative, False)


def _fraction(a, x, is_active, with_derivative: bool) -> Evaluation:
    """Evaluate `x + 1 - a + 1 (a - 1) / (x + 3 - a + 2 (a - 2) / (x + 5 - a + ...))` by Lentz's method; Q is `mass`
    divided by it.

    Each step multiplies the value by a factor, whose logarithmic derivative in a is accumulated.
    """
    eps = np.finfo(x.dtype).eps
    a_safe, x_safe = xnp.where(is_active, a, 1), xnp.where(is_active, x, 2)

    def step(state):
        n, value, c_before, d_before, derivative_state, is_active = state
        n = n + 1
        top, bottom = n * (a_safe - n), x_safe + 2 * n + 1 - a_safe
        ratio = top / c_before
        c, inverse = bottom + ratio, bottom + top * d_before
        d = 1 / inverse
        factor = c * d
        # Converged values stay fixed: otherwise rounding errors would accumulate while others iterate.
        value = xnp.where(is_active, value * factor, value)
        changes = abs(factor - 1) > eps
        if with_derivative:
            derivative, dc, dd = derivative_state
            dc = -1 + (n - ratio * dc) / c_before
            dd = -d * d * (n * d_before + top * dd - 1)
            change = dc / c + dd * inverse
            derivative = xnp.where(is_active, derivative + change, derivative)
            derivative_state, changes = (derivative, dc, dd), changes | (abs(change) > eps * abs(derivative))
        return n, value, c, d, derivative_state, is_active & changes

    first = x_safe + 1 - a_safe
    minus, zero = -xnp.ones_like(x), xnp.zeros_like(x)
    derivative_state = (-1 / first, minus, zero) if with_derivative else ()
    start = (xnp.zeros((), x.dtype), first, first, zero, derivative_state, is_active)
    _, value, _, _, derivative_state, _ = _iterate(step, start)
    mass = _mass(a, x)
    derivative = -x / value * (xnp.log(x) - _digamma(a) - derivative_state[0]) if with_derivative else None
    return Evaluation(mass / value, mass, derivative, True)


# Coefficients of the expansion: of 1 and 1 / a in powers of eta, of 1 / a^2 at eta = 0.
_C0 = (-1 / 3, 1 / 12, -2 / 135, 1 / 864, 1 / 2835, -139 / 777600, 3.9192631785224377817e-5, -2.1854485106799921615e-6)
_C1 = (-1 / 540, -1 / 288, 1 / 378, -77 / 77760)
_C2 = 25 / 6048


def _polynomial(x, coefficients):
    value = xnp.zeros_like(x)
    for c in reversed(coefficients):
        value = value * x + c
    return value


def _expansion(a, x, with_derivative: bool) -> Evaluation:
    """Evaluate `Q = erfc(eta sqrt(a / 2)) / 2 + exp(-a eta^2 / 2) / sqrt(2 pi a) (c0 + c1 / a + ...)`.

    `eta^2 / 2` is `(x - a) / a` minus the logarithm of `x / a`.
    """
    a = xnp.maximum(a, 100)
    m = xnp.clip((x - a) / a, -_NEAR, _NEAR)
    scale = xnp.sqrt(log1p_excess(m))
    eta = m * scale
    bell = xnp.exp(-a * eta * eta / 2) / xnp.sqrt(2 * math.pi * a)
    correction = _polynomial(eta, _C0) + (_polynomial(eta, _C1) + _C2 / a) / a
    tail = _erfc(abs(eta) * xnp.sqrt(a / 2)) / 2
    upper = m >= 0
    value = tail + xnp.where(upper, 1, -1) * bell * correction
    if not with_derivative:
        return Evaluation(value, None, None, upper)
    # The derivatives in a: of eta -1 / (a scale), of a eta^2 / 2 -log(x / a).
    log_ratio = m - eta * eta / 2
    of_c = -_polynomial(eta, [k * c for k, c in enumerate(_C0)][1:]) / (a * scale) - _polynomial(eta, _C1) / (a * a)
    derivative = -(1 - m * scale * scale / 2) / scale - correction * (log_ratio - 1 / (2 * a)) - of_c
    density = xnp.exp(-stirling(a)) / x * a  # divided by the bell
    return Evaluation(value, bell * a * xnp.exp(-stirling(a)), derivative / density, upper)


def _evaluate(a, x, with_derivative: bool) -> Evaluation:
    """Evaluate the formula that holds for each pair of positive numbers."""
    use_expansion = (a >= _LARGE[x.dtype]) & (abs(x - a) < _NEAR * a)
    use_fraction = ~use_expansion & (x >= 1) & (x > a)
    results = [_series(a, x, ~(use_expansion | use_fraction), with_derivative), _fraction(a, x, use_fraction, with_derivative),
               _expansion(a, x, with_derivative)]
    return Evaluation(*[None if e is None else xnp.where(use_expansion, e, xnp.where(use_fraction, f, s))
                        for s, f, e in zip(*results)])


def _replace_outside(a, x):
    """Return masks of the pairs for which formulas are needed and of undefined ones, and the pairs, replaced by 1 outside
    of the former."""
    is_regular = (a > 0) & (x > 0) & (a < np.inf) & (x < np.inf)
    is_undefined = ~((a >= 0) & (x >= 0)) | ((a == 0) & (x == 0)) | ((a == np.inf) & (x == np.inf))
    return is_regular, is_undefined, xnp.where(is_regular, a, 1), xnp.where(is_regular, x, 1)


def _regularized(upper: bool):
    def compute(a, x):
        is_regular, is_undefined, b, y = _replace_outside(a, x)
        evaluation = _evaluate(b, y, False)
        value = xnp.where(evaluation.upper == upper, evaluation.value, 1 - evaluation.value)
        # At the borders P is 0 or 1: 0 at x = 0, 1 at infinity, and 1 for a = 0.
        is_below = (x == np.inf) | ((a == 0) & (x > 0))
        border = xnp.where(is_below != upper, 1, 0).astype(x.dtype)
        return xnp.where(is_undefined, np.nan, xnp.where(is_regular, value, border))

    return compute


def _shape_derivative(of_samples: bool):
    def compute(a, x):
        is_regular, _, b, y = _replace_outside(a, x)
        evaluation = _evaluate(b, y, True)
        value = -evaluation.slope if of_samples else evaluation.slope * evaluation.mass / y
        return xnp.where(is_regular, value, xnp.where((x == 0) & (a > 0), 0, np.nan))

    return compute


def _density(g, a, x):
    """Compute `g x^(a-1) exp(-x) / gamma(a)`, the derivative in x."""
    return mul(g, exp_(sub(sub(mul(sub(a, constant_like(a, 1)), log_(x)), x), _lgamma(a))))


def _no_derivative(g, y, a, x):
    raise NotImplementedError("the derivative of igamma_grad_a, a second derivative of igamma, is not implemented. Hold its "
                              "arguments constant with lax.stop_gradient.")


igamma_grad_a_p = traced_elementwise("igamma_grad_a", _shape_derivative(False), (_no_derivative, _no_derivative))
igamma_p = traced_elementwise("igamma", _regularized(False), (
    lambda g, y, a, x: mul(g, igamma_grad_a_p.bind(a, x)), lambda g, y, a, x: _density(g, a, x)))
igammac_p = traced_elementwise("igammac", _regularized(True), (
    lambda g, y, a, x: neg(mul(g, igamma_grad_a_p.bind(a, x))), lambda g, y, a, x: neg(_density(g, a, x))))


def _second_derivative(argument: int) -> Callable:
    """Return the derivative of `random_gamma_grad`, by differentiating its operations."""
    function = widen_small_floats(_shape_derivative(True))

    def rule(g, y, *values):
        values = xnp.broadcast_arrays(*values)
        tangents = [xnp.ones_like(x) if i == argument else Zero(tracing.aval_of(x)) for i, x in enumerate(values)]
        return mul(g, jvp_flat(lambda *xs: [function(*xs)], values, tangents)[1][0])

    return rule


random_gamma_grad_p = traced_elementwise(
    "random_gamma_grad", _shape_derivative(True), (_second_derivative(0), _second_derivative(1)))


@library
@accepts(nodes=True)
def igamma(a: ArrayLike, x: ArrayLike) -> Array:
    """Compute the regularized lower incomplete gamma function, the cdf of the gamma distribution, elementwise.

    Args:
        a: Shape parameter, not negative.
        x: Upper limit, not negative.

    Returns:
        Array of the broadcast shape of the arguments, NaN where an argument is negative.

    Example:
        >>> np.asarray(lax.igamma(1.0, xnp.array([0.5, 2.0]))).round(3)
        array([0.393, 0.865], dtype=float32)
    """
    return igamma_p.bind(a, x)


@library
@accepts(nodes=True)
def igammac(a: ArrayLike, x: ArrayLike) -> Array:
    """Compute the regularized upper incomplete gamma function `1 - igamma(a, x)` elementwise, without cancellation.

    Args:
        a: Shape parameter, not negative.
        x: Lower limit, not negative.

    Returns:
        Array of the broadcast shape of the arguments.

    Example:
        >>> np.asarray(lax.igammac(1.0, xnp.array([0.5, 2.0]))).round(3)
        array([0.607, 0.135], dtype=float32)
    """
    return igammac_p.bind(a, x)


@library
@accepts(nodes=True)
def igamma_grad_a(a: ArrayLike, x: ArrayLike) -> Array:
    """Compute the derivative of `igamma` in its first argument elementwise.

    Args:
        a: Shape parameter, positive.
        x: Upper limit, not negative.

    Returns:
        Array of the broadcast shape of the arguments.

    Example:
        >>> np.asarray(lax.igamma_grad_a(1.0, xnp.array([1.0, 2.0]))).round(3)
        array([-0.432, -0.221], dtype=float32)
    """
    return igamma_grad_a_p.bind(a, x)


@library
@accepts(nodes=True)
def random_gamma_grad(a: ArrayLike, x: ArrayLike) -> Array:
    """Compute the derivative of a sample `x` of a gamma distribution in the shape parameter `a`, elementwise.

    It is the derivative of x in a at a constant `igamma(a, x)` (implicit reparametrization).

    Args:
        a: Shape parameter, positive.
        x: Sample, not negative.

    Returns:
        Array of the broadcast shape of the arguments.

    Example:
        >>> bool(xnp.all(lax.random_gamma_grad(1.0, xnp.array([1.0, 2.0])) > 0))
        True
    """
    result = random_gamma_grad_p.bind(a, x)
    return as_type(result, tracing.aval_of(result).dtype, False)
