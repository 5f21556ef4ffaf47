"""Decomposition and composition of floating-point numbers by their bits: `frexp`, `ldexp`, `modf`, `spacing`."""

from __future__ import annotations

import numpy as np

from xlafront.core import dtypes, tracing
from xlafront.core.basic_primitives import to_dtype
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax.barriers import stop_gradient_p
from xlafront.lax.elementwise import (
    add,
    and_,
    as_type,
    clz_,
    eq,
    gt,
    is_finite_,
    lt,
    max_,
    min_,
    mul,
    ne,
    or_,
    shift_left_,
    shift_right_logical_,
    sub,
    where,
)
from xlafront.lax.elementwise_functions import nextafter
from xlafront.lax.shapes import bitcast_convert_type_p
from xlafront.numpy.promotion import broadcast_to_common, check_arraylike, promote_args_inexact, unwrap
from xlafront.numpy.ufuncs import PUBLIC
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library


class _Format:
    """The bit layout of a floating-point dtype: sign, biased exponent, mantissa."""

    def __init__(self, d):
        info = dtypes.finfo(d)
        self.mantissa = int(info.nmant)
        self.word = np.dtype(f"int{8 * d.itemsize}")
        self.bias = int(np.ones((), d).view(self.word)) >> self.mantissa
        self.largest = int(info.maxexp) - 1  # exponent of the largest power of 2; not the bias where there is no infinity

    def exponent(self, bits):
        return shift_right_logical_(bits, self.word.type(self.mantissa))

    def with_exponent(self, exponent):
        return shift_left_(exponent, self.word.type(self.mantissa))


def _to_bits(x, word):
    return bitcast_convert_type_p.bind(x, new_dtype=word)


def _promote_real(name: str, x, error: type[Exception]):
    [x] = promote_args_inexact(name, x)
    d = tracing.aval_of(x).dtype
    if d.kind == "c":
        raise error(f"numpy.{name} does not support complex numbers, its input has dtype {d}: use x.real and x.imag.")
    return x, d


@library
@accepts(nodes=True)
def frexp(x: ArrayLike, /) -> tuple[Array, Array]:
    """Decompose numbers into mantissas and exponents, with `x = mantissa * 2 ** exponent`.

    Mantissas have a magnitude in [0.5, 1). Zeros, infinities and NaNs are their own mantissa, with exponent 0.

    Args:
        x: The numbers.

    Returns:
        A tuple of the mantissas and the exponents, as int32.

    Example:
        >>> xnp.frexp(xnp.array([3.0, 0.25]))
        (Array([0.75, 0.5 ], dtype=float32), Array([ 2, -1], dtype=int32))
    """
    x, d = _promote_real("frexp", x, TypeError)
    x = as_type(x, d, False)
    layout = _Format(d)
    word = layout.word.type
    bits = _to_bits(x, layout.word)
    magnitude = and_(bits, word(np.iinfo(layout.word).max))
    exponent = layout.exponent(magnitude)
    # Normalize subnormal numbers: shift out the leading zeros of their mantissas.
    zeros = sub(clz_(magnitude), word(8 * d.itemsize - layout.mantissa - 1))
    subnormal = eq(exponent, word(0))
    exponent = where(subnormal, sub(word(1), zeros), exponent)
    magnitude = where(subnormal, shift_left_(magnitude, max_(zeros, word(0))), magnitude)
    fraction = and_(magnitude, word((1 << layout.mantissa) - 1))
    half = or_(fraction, word((layout.bias - 1) << layout.mantissa))
    sign = and_(bits, word(np.iinfo(layout.word).min))
    mantissa = bitcast_convert_type_p.bind(or_(half, sign), new_dtype=d)
    # Bits have no derivative. Add a zero whose derivative is that of `x * 2 ** -exponent`.
    scale = max_(sub(word(2 * layout.bias - 1), exponent), word(0))
    scale = bitcast_convert_type_p.bind(layout.with_exponent(min_(word(layout.largest + layout.bias), scale)), new_dtype=d)
    mantissa = add(mantissa, mul(sub(x, stop_gradient_p.bind(x)), scale))
    nonzero_finite = and_(is_finite_(x), ne(magnitude, word(0)))
    exponent = sub(to_dtype(exponent, np.int32), np.int32(layout.bias - 1))
    return where(nonzero_finite, mantissa, x), where(nonzero_finite, exponent, np.int32(0))


@library
@accepts(nodes=True)
def ldexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Compute `x1 * 2 ** x2`.

    The power is applied in steps, so that a power that overflows or underflows does not spoil a representable result.

    Args:
        x1: The numbers.
        x2: The exponents, integers.

    Returns:
        The products.

    Example:
        >>> xnp.ldexp(xnp.array([0.75, 0.5]), xnp.array([2, -1]))
        Array([3.  , 0.25], dtype=float32)
    """
    check_arraylike("ldexp", x1, x2)
    [x] = promote_args_inexact("ldexp", x1)
    n = unwrap(x2)
    d, exponent_dtype = tracing.aval_of(x).dtype, tracing.aval_of(n).dtype
    if d.kind == "c" or not (dtypes.is_integer(exponent_dtype) or exponent_dtype == dtypes.bool_):
        raise ValueError(
            f"numpy.ldexp is not supported for input types {d} and {exponent_dtype}: it takes floats and integers.")
    layout = _Format(d)
    word = layout.word.type
    x, n = broadcast_to_common("ldexp", [as_type(x, d, False), n])
    wide = max(layout.word, np.dtype(np.int32), key=lambda w: w.itemsize)
    smallest, largest = 1 - layout.bias, layout.largest  # exponents of normal powers
    span = largest - smallest + layout.mantissa + 2  # from half the smallest number to infinity
    n = as_type(max_(min_(wide.type(span), as_type(n, wide, False)), wide.type(-span)), layout.word, False)
    for _ in range(-(-span // min(largest, -smallest))):
        step = max_(min_(word(largest), n), word(smallest))
        x = mul(x, bitcast_convert_type_p.bind(layout.with_exponent(add(step, word(layout.bias))), new_dtype=d))
        n = sub(n, step)
    return x


@library
def _modf(x):
    x, _ = _promote_real("modf", x, TypeError)
    integral = PUBLIC["trunc"](x)
    return sub(x, integral), integral


def modf(x: ArrayLike, /, out: None = None) -> tuple[Array, Array]:
    """Split numbers into fractional and integral components, both with the sign of the number.

    Args:
        x: The numbers.
        out: Not supported; must be None.

    Returns:
        A tuple of the fractional and the integral components.

    Example:
        >>> xnp.modf(xnp.array([1.5, -2.25]))
        (Array([ 0.5 , -0.25], dtype=float32), Array([ 1., -2.], dtype=float32))
    """
    if out is not None:
        raise NotImplementedError("the 'out' argument of numpy.modf is not supported: arrays are immutable. Use the result.")
    check_arraylike("modf", x)
    return _modf(x)


@library
@accepts(nodes=True)
def spacing(x: ArrayLike, /) -> Array:
    """Return the distance to the adjacent number of greater magnitude, with the sign of the number.

    For float16 it is the distance to the next greater number, as in NumPy.

    Args:
        x: The numbers.

    Returns:
        The distances; NaN for infinities and NaNs.

    Example:
        >>> xnp.spacing(xnp.float32(1))
        Array(1.1920929e-07, dtype=float32)
    """
    x, d = _promote_real("spacing", x, ValueError)
    x = as_type(x, d, False)
    if d == np.float16:  # as NumPy
        return sub(nextafter(x, d.type(np.inf)), x)
    layout = _Format(d)
    word = layout.word.type
    bits = _to_bits(x, layout.word)
    exponent = layout.exponent(and_(bits, word(np.iinfo(layout.word).max)))
    small = shift_left_(word(1), max_(sub(exponent, word(1)), word(0)))
    normal = gt(exponent, word(layout.mantissa))
    step = where(normal, layout.with_exponent(sub(exponent, word(layout.mantissa))), small)
    step = where(lt(bits, word(0)), or_(step, word(np.iinfo(layout.word).min)), step)
    return where(is_finite_(x), bitcast_convert_type_p.bind(step, new_dtype=d), d.type(np.nan))
