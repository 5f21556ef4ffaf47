"""The public functions of elementwise operations: they take scalars beside arrays and check dtypes.

`PUBLIC` has all of them by name. Most are made of the rows of `elementwise`; those with other parameters are written below.
"""

from __future__ import annotations

import enum
import operator

import numpy as np

from xlafront.core import dtypes, errors, tracing
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.lax.accuracy import AccuracyMode, Tolerance
from xlafront.lax.arguments import check_dtype, specified
from xlafront.lax.elementwise import (
    BINARY,
    COMPARISONS,
    NUMBERS,
    PRIMITIVES,
    UNARY,
    WITH_ACCURACY,
    clamp_,
    conj_,
    convert_element_type_p,
    integer_pow_p,
    mul,
    nextafter_,
    polygamma_,
    real_,
    reduce_precision_,
    round_,
    select,
    to_dtype,
    typed_operands,
    zeta_,
)
from xlafront.runtime.arrays import ArrayImpl
from xlafront.staging.library import lax_function


class _Functions(dict):
    """Public functions by name; those of the tables are the arguments of `_public` until they are first looked up."""

    def __getitem__(self, name):
        value = super().__getitem__(name)
        if type(value) is tuple:
            value = self[name] = _public(*value)
        return value


def _public(name: str, accepts: str, arity: int, accuracy: bool = False):
    from xlafront.lax.elementwise_docs import documentation  # start-up: 0.2 ms, for those who look functions up

    primitive = PRIMITIVES[name]
    function_name = {"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "not": "bitwise_not"}.get(name, name)
    if arity == 1 and accuracy:
        def function(x: ArrayLike, *, accuracy: AccuracyMode | Tolerance | None = None) -> Array:
            return primitive.bind(x) if accuracy is None else primitive.bind(x, accuracy=accuracy)
    elif arity == 1:
        def function(x: ArrayLike) -> Array:
            return primitive.bind(x)
    else:
        refuses_booleans = name == "add"  # the primitive combines them, as NumPy's function does

        def function(x: ArrayLike, y: ArrayLike) -> Array:
            x, y = typed_operands(function_name, x, y)
            if refuses_booleans and tracing.aval_of(x).dtype.kind == "b":
                check_dtype(name, NUMBERS, tracing.aval_of(x).dtype)
            return primitive.bind(x, y)
    function.__name__ = function.__qualname__ = function_name
    function.__module__ = "xlafront.lax"
    function.__doc__ = documentation(name, arity, accepts, accuracy)
    return lax_function(function, static=("accuracy",) if accuracy else (), light=True)


PUBLIC = _Functions()
for _name, _, _accepts, _ in UNARY:
    PUBLIC[_name] = (_name, _accepts, 1, _name in WITH_ACCURACY)
for _name in ("real", "imag"):
    PUBLIC[_name] = (_name, "complex", 1)
for _name, _, _accepts, *_ in (*BINARY, *COMPARISONS, ("pow", "", NUMBERS), ("complex", "", "float32")):
    if _name in ("mul", "nextafter", "polygamma", "zeta"):  # with other parameters, below
        continue
    PUBLIC[_name] = (_name, NUMBERS if _name == "add" else _accepts, 2)
for _old, _new in (("and", "bitwise_and"), ("or", "bitwise_or"), ("xor", "bitwise_xor"), ("not", "bitwise_not")):
    PUBLIC[_new] = PUBLIC.pop(_old)


@lax_function
def nextafter(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The next number after `x1` that can be represented, in the direction of `x2`.

    - `x1`, `x2`: arrays of floats of one dtype, or numbers.

    >>> bool(lax.nextafter(1.0, 2.0) > 1.0)
    True
    """
    return nextafter_(*typed_operands("nextafter", x1, x2))


@lax_function
def polygamma(m: ArrayLike, x: ArrayLike) -> Array:
    """The derivative of `digamma` of order `m`.

    - `m`: the order, whole numbers as floats, not negative.
    - `x`: where, of the same dtype.

    >>> f"{lax.polygamma(1.0, 1.0):.3f}"
    '1.645'
    """
    return polygamma_(*typed_operands("polygamma", m, x))


@lax_function
def zeta(x: ArrayLike, q: ArrayLike) -> Array:
    """The Hurwitz zeta function: the sum of `(k + q) ** -x` over all `k` from 0. Riemann's is that for a `q` of 1.

    - `x`: the exponent, above 1. In it there is no derivative.
    - `q`: what is added, of the same dtype.

    >>> f"{lax.zeta(2.0, 1.0):.3f}"
    '1.645'
    """
    return zeta_(*typed_operands("zeta", x, q))


def _mul(x: ArrayLike, y: ArrayLike, *, out_dtype: DTypeLike | None = None) -> Array:
    """`x * y`.

    - `x`, `y`: arrays of integers, floats or complex numbers of one dtype, or numbers; shapes as for `add`.
    - `out_dtype`: the dtype of the result, to which both are converted before.

    >>> lax.mul(xnp.int8(100), xnp.int8(100), out_dtype="int32")
    Array(10000, dtype=int32)
    """
    if out_dtype is not None:
        dtype = dtypes.check_user_dtype(out_dtype, "mul")
        for v in (x, y):
            check_dtype("mul", NUMBERS, tracing.aval_of(v).dtype)
        x, y = (to_dtype(v, dtype) for v in (x, y))
    else:
        x, y = typed_operands("mul", x, y)
        check_dtype("mul", NUMBERS, tracing.aval_of(x).dtype)
    return mul(x, y)


_mul.__name__ = _mul.__qualname__ = "mul"
PUBLIC["mul"] = lax_function(_mul, static="out_dtype")


@lax_function
def conj(x: ArrayLike) -> Array:
    """The complex conjugate; a real array becomes complex, unlike in NumPy.

    - `x`: an array of complex numbers, or of floats of 32 or 64 bits.

    >>> lax.conj(1.0 + 2.0j)
    Array(1.-2.j, dtype=complex64, weak_type=True)
    """
    return conj_(x, input_dtype=tracing.aval_of(x).dtype)


def refuse_negative_power(x, y) -> None:
    if y < 0 and not dtypes.is_inexact(tracing.aval_of(x).dtype):
        raise TypeError(f"Integers cannot be raised to negative powers, got {y}: the results are no integers. Convert with "
                        f"x.astype(float).")


@lax_function(static="y")
def integer_pow(x: ArrayLike, y: int) -> Array:
    """`x` to a power that is a Python integer, by repeated multiplication.

    - `x`: an array of integers, floats or complex numbers.
    - `y`: the power; negative only for an `x` that is not of integers.

    >>> lax.integer_pow(2.0, 10)
    Array(1024., dtype=float32, weak_type=True)
    """
    if not isinstance(y, (int, np.integer)):
        raise TypeError(f"integer_pow needs a Python int as exponent, got {y!r}; use pow for arrays.")
    refuse_negative_power(x, y)
    return integer_pow_p.bind(x, y=int(y))


@lax_function
def select_n(which: ArrayLike, *cases: ArrayLike) -> Array:
    """Elements chosen from several arrays, without broadcasting.

    - `which`: for each element the number of its case; or booleans, for which False is the first of two. May be a scalar.
    - `cases`: arrays of one shape and dtype.

    >>> lax.select_n(xnp.array([True, False]), xnp.array([1, 2]), xnp.array([10, 20]))
    Array([10,  2], dtype=int32)
    """
    if not cases:
        raise ValueError("select_n needs at least one case to choose from.")
    chosen, shape, *others = [tracing.aval_of(x).shape for x in (which, *cases)]
    if any([s != shape for s in others]) or chosen not in ((), shape):
        raise errors.incompatible_shapes("select_n", [("condition", chosen), *[("case", s) for s in (shape, *others)]],
                                         "The cases must have the same shape, and the condition that shape or none.")
    return select(which, *cases)


@lax_function
def clamp(min: ArrayLike, x: ArrayLike, max: ArrayLike) -> Array:
    """`x` limited to a range, as by `numpy.clip` with the array in the middle: `minimum(maximum(x, min), max)`.

    - `x`: an array.
    - `min`, `max`: the bounds, of its dtype: scalars or arrays of its shape.

    >>> lax.clamp(0.0, xnp.array([-1.0, 0.5, 3.0]), 1.0)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return clamp_(min, x, max)


class RoundingMethod(enum.IntEnum):
    """What `round` does with halves."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


@lax_function(static="rounding_method")
def round(x: ArrayLike, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Array:
    """The nearest integers, as floats.

    - `x`: an array of floats.
    - `rounding_method`: where halves go: `AWAY_FROM_ZERO`, or `TO_NEAREST_EVEN` as in NumPy.

    >>> lax.round(xnp.array([0.5, 1.5]))
    Array([1., 2.], dtype=float32)
    >>> lax.round(xnp.array([0.5, 1.5]), lax.RoundingMethod.TO_NEAREST_EVEN)
    Array([0., 2.], dtype=float32)
    """
    return round_(x, rounding_method=RoundingMethod(rounding_method))


@lax_function(static=("exponent_bits", "mantissa_bits"), lists=True)
def reduce_precision(operand: ArrayLike, exponent_bits: int, mantissa_bits: int) -> Array:
    """Floats rounded to what fewer bits can hold, without changing their dtype.

    - `operand`: an array of floats.
    - `exponent_bits`: how many bits the exponent has, 1 or more; what it cannot hold becomes infinite, or zero.
    - `mantissa_bits`: how many the fraction has.

    >>> lax.reduce_precision(xnp.array([1.0, 1.1]), exponent_bits=8, mantissa_bits=2)
    Array([1., 1.], dtype=float32)
    """
    exponent_bits, mantissa_bits = operator.index(exponent_bits), operator.index(mantissa_bits)
    if exponent_bits < 1 or mantissa_bits < 0:
        raise ValueError(f"reduce_precision needs a positive number of exponent_bits and a non-negative one of mantissa_bits, "
                         f"got {exponent_bits} and {mantissa_bits}.")
    return reduce_precision_(operand, exponent_bits=exponent_bits, mantissa_bits=mantissa_bits)


@lax_function
def reciprocal(x: ArrayLike) -> Array:
    """`1 / x`.

    - `x`: an array of floats or complex numbers.

    >>> lax.reciprocal(4.0)
    Array(0.25, dtype=float32, weak_type=True)
    """
    refuse_negative_power(x, -1)
    return integer_pow_p.bind(x, y=-1)


def convert_element_type(operand: ArrayLike, new_dtype: DTypeLike) -> Array:
    """An array of another dtype, by the rules of C: floats lose their fraction on the way to integers.

    Complex numbers lose their imaginary part, with a warning.

    - `operand`: an array or a number.
    - `new_dtype`: the dtype of the result.

    >>> lax.convert_element_type(xnp.array([1.9, -1.9]), "int32")
    Array([ 1, -1], dtype=int32)
    """
    dtype = dtypes.check_user_dtype(specified(new_dtype, "convert_element_type"), "convert_element_type")
    if type(operand) is ArrayImpl and operand.dtype == dtype and not operand.weak_type:
        return operand
    if isinstance(operand, (int, np.integer)) and isinstance(dtype, np.dtype):
        operand = np.asarray(operand).astype(dtype)  # of all its bits, which an array may not have
    if isinstance(operand, (complex, np.complexfloating)) and dtype == dtypes.bool_:
        operand = bool(operand)
    elif type(operand) is complex and isinstance(dtype, np.dtype) and not dtypes.is_complex(dtype):
        raise TypeError(f"convert_element_type cannot make {dtype} of the complex number {operand}: give its real part.")
    elif (own := getattr(operand, "dtype", None)) is not None:
        dtypes.warn_of_lost_parts("convert_element_type", own, dtype)
    return converted(operand, dtype)


@lax_function(static="dtype", name="convert_element_type")
def converted(operand, dtype):
    """An array of just this dtype, also where the setting has no arrays of so many bits."""
    if type(operand) not in tracing.abstractors:
        operand = tracing.as_operand(operand)
    aval = tracing.aval_of(operand)
    if aval.dtype == dtype and not aval.weak_type:
        return operand
    if dtype == dtypes.bool_ and aval.dtype.kind == "c":
        operand = real_(operand)
    return convert_element_type_p.bind(operand, new_dtype=dtype, weak_type=False, sharding=None)


convert = convert_element_type
