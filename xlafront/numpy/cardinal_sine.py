"""The function `sinc`, accurate near its zeros and for large arguments, with derivatives that are accurate at and near 0."""

from __future__ import annotations

import math

import numpy as np

from xlafront.core import dtypes, tracing
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax.elementwise import (
    abs_,
    add,
    as_type,
    constant_like,
    cos_,
    div,
    eq,
    floor_,
    lt,
    mul,
    ne,
    neg,
    or_,
    round_,
    sin_,
    square_,
    sub,
    where,
)
from xlafront.numpy.promotion import promote_args_inexact, within_setting
from xlafront.numpy.ufuncs import constant_operand, public
from xlafront.transforms.calls.custom_jvp import custom_jvp


@custom_jvp
def _quotient(x):
    is_zero = eq(x, constant_like(x, 0))
    one = constant_like(x, 1)
    return where(is_zero, one, div(sin_(x), where(is_zero, one, x)))


@_quotient.defjvp
def _quotient_jvp(primals, tangents):
    [x], [t] = primals, tangents
    result = _quotient(x)
    return result, mul(t, _slope(x, result))


def _slope(x, quotient):
    size = abs_(x)
    near = lt(size, constant_like(size, 0.5))
    # A power series, whose derivatives at 0 are exact. With 10 terms (5 in 32 bits) two of them have full accuracy nearby.
    small = where(near, x, constant_like(x, 0))
    square = square_(small)
    last = 5 if dtypes.to_real(tracing.aval_of(x).dtype).itemsize <= 4 else 10
    series = None
    for k in range(last, 0, -1):
        term = constant_like(x, (-1) ** k * 2 * k / math.factorial(2 * k + 1))
        series = term if series is None else add(mul(series, square), term)
    far = where(near, constant_like(x, 1), x)
    return where(near, mul(series, small), div(sub(cos_(x), quotient), far))


# The coefficients of `sin(pi z) / (pi z)` in `z^2`: enough for |z| up to 1/2 and, near 0, for four derivatives.
_POWERS = [(-1) ** k * math.pi ** (2 * k) / math.factorial(2 * k + 1) for k in range(13)]
_NUM_POWERS = {4: 9, 8: 13}  # by the size of the dtype


def _reduced(x):
    """Compute sinc of real numbers from the distance `z` to the nearest integer n, which is exact: `(-1)^n z / x sinc(z)`."""
    zero, one = constant_like(x, 0), constant_like(x, 1)
    is_finite = lt(abs_(x), constant_like(x, np.inf))
    finite = where(or_(is_finite, ne(x, x)), x, zero)
    n = round_(finite, rounding_method=1)
    z = sub(finite, n)
    square, series = square_(z), None
    for power in reversed(_POWERS[:_NUM_POWERS[tracing.aval_of(x).dtype.itemsize]]):
        term = constant_like(x, power)
        series = term if series is None else add(mul(series, square), term)
    is_near = eq(n, zero)
    half = mul(n, constant_like(x, 0.5))
    sign = where(eq(half, floor_(half)), one, neg(one))
    far = mul(mul(sign, div(z, where(is_near, one, finite))), series)
    return where(or_(is_finite, ne(x, x)), where(is_near, series, far), zero)


def _sinc(x: ArrayLike, /) -> Array:
    [x] = promote_args_inexact("sinc", x)
    if dtypes.is_complex(tracing.aval_of(x).dtype):
        return _quotient(mul(x, constant_operand(x, np.pi)))
    x = within_setting(x)
    aval = tracing.aval_of(x)
    wide = np.dtype(np.float32) if aval.dtype.itemsize < 4 else aval.dtype
    return as_type(_reduced(as_type(x, wide, aval.weak_type)), aval.dtype, aval.weak_type and not aval.shape)


sinc = public("sinc", _sinc)
