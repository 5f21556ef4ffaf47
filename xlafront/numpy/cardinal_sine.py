"""`sin(pi x) / (pi x)`, whose derivatives are right at 0 and beside it."""

from __future__ import annotations

import math

import numpy as np

from xlafront.core import dtypes, tracing
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax.elementwise import abs_, add, constant_like, cos_, div, eq, lt, mul, sin_, square_, sub, where
from xlafront.numpy.promotion import promote_args_inexact, within_setting
from xlafront.numpy.ufuncs import constant_beside, public
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
    # The series has all derivatives at 0 right; 10 terms are exact to double precision for two of them, 5 to single.
    small = where(near, x, constant_like(x, 0))
    square = square_(small)
    last = 5 if dtypes.to_real(tracing.aval_of(x).dtype).itemsize <= 4 else 10
    series = None
    for k in range(last, 0, -1):
        term = constant_like(x, (-1) ** k * 2 * k / math.factorial(2 * k + 1))
        series = term if series is None else add(mul(series, square), term)
    far = where(near, constant_like(x, 1), x)
    return where(near, mul(series, small), div(sub(cos_(x), quotient), far))


def _sinc(x: ArrayLike, /) -> Array:
    [x] = map(within_setting, promote_args_inexact("sinc", x))
    return _quotient(mul(x, constant_beside(x, np.pi)))


sinc = public("sinc", _sinc)
