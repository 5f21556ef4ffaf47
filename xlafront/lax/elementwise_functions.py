"""Public elementwise functions: they take scalars beside arrays and check dtypes.

`PUBLIC` maps names to functions. Most are made from the tables of `elementwise`; functions with other parameters are defined
below.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from xlafront.base.jaxlib_compat import ArrayImpl
from xlafront.core import dtypes, errors, tracing
from xlafront.core.basic_primitives import convert_element_type_p, to_dtype
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
    integer_pow_p,
    mul,
    nextafter_,
    polygamma_,
    real_,
    reduce_precision_,
    round_,
    select,
    zeta_,
)
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import eager_kernel, library


class _Functions(dict):
    """Public functions by name; those of the tables are stored as the arguments of `_public` until their first lookup."""

    def __getitem__(self, name: str) -> Callable:
        value = super().__getitem__(name)
        if type(value) is tuple:
            value = self[name] = _public(*value)
        return value


def _public(name: str, accepts: str, arity: int, accuracy: bool = False) -> Callable:
    from xlafront.lax.elementwise_docs import documentation  # start-up: 0.2 ms

    primitive = PRIMITIVES[name]
    function_name = {"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "not": "bitwise_not"}.get(name, name)
    if arity == 1 and accuracy:
        def function(x: ArrayLike, *, accuracy: AccuracyMode | Tolerance | None = None) -> Array:
            return primitive.bind(x) if accuracy is None else primitive.bind(x, accuracy=accuracy)
    elif arity == 1:
        def function(x: ArrayLike) -> Array:
            return primitive.bind(x)
    else:
        refuses_booleans = name == "add"  # the primitive accepts them, as `numpy.add` does

        def function(x: ArrayLike, y: ArrayLike) -> Array:
            if refuses_booleans and tracing.aval_of(x).dtype.kind == "b":
                check_dtype(name, NUMBERS, tracing.aval_of(x).dtype)
            return primitive.bind(x, y)
    function.__name__ = function.__qualname__ = function_name
    function.__module__ = "xlafront.lax"
    function.__doc__ = documentation(name, arity, accepts, accuracy)
    return eager_kernel(function, static=("accuracy",) if accuracy else ())


PUBLIC = _Functions()
for _name, _, _accepts, _ in UNARY:
    PUBLIC[_name] = (_name, _accepts, 1, _name in WITH_ACCURACY)
for _name in ("real", "imag"):
    PUBLIC[_name] = (_name, "complex", 1)
for _name, _, _accepts, *_ in (*BINARY, *COMPARISONS, ("pow", "", NUMBERS), ("complex", "", "float32")):
    if _name in ("mul", "nextafter", "polygamma", "zeta"):  # other parameters, defined below
        continue
    PUBLIC[_name] = (_name, NUMBERS if _name == "add" else _accepts, 2)
for _old, _new in (("and", "bitwise_and"), ("or", "bitwise_or"), ("xor", "bitwise_xor"), ("not", "bitwise_not")):
    PUBLIC[_new] = PUBLIC.pop(_old)


@library
def nextafter(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Return the next representable number after `x1` in the direction of `x2`.

    Args:
        x1, x2: Arrays of floats of one dtype, or scalars.

    Returns:
        An array of the dtype of the operands.

    Example:
        >>> bool(lax.nextafter(1.0, 2.0) > 1.0)
        True
    """
    return nextafter_(x1, x2)


@library
def polygamma(m: ArrayLike, x: ArrayLike) -> Array:
    """Compute the derivative of order `m` of `digamma`.

    Args:
        m: The order: non-negative integers, as floats.
        x: Where to evaluate the function; of the dtype of `m`.

    Returns:
        An array of the dtype of the operands.

    Note:
        `polygamma` is differentiable in `x` only.

    Example:
        >>> f"{lax.polygamma(1.0, 1.0):.3f}"
        '1.645'
    """
    return polygamma_(m, x)


@library
def zeta(x: ArrayLike, q: ArrayLike) -> Array:
    """Compute the Hurwitz zeta function, the sum of `(k + q) ** -x` over all `k` from 0.

    For `q = 1` this is Riemann's zeta function.

    Args:
        x: The exponent, greater than 1.
        q: The offset, of the dtype of `x`.

    Returns:
        An array of the dtype of the operands.

    Example:
        >>> f"{lax.zeta(2.0, 1.0):.3f}"
        '1.645'
    """
    return zeta_(x, q)


def _mul(x: ArrayLike, y: ArrayLike, *, out_dtype: DTypeLike | None = None) -> Array:
    """Compute `x * y`.

    Args:
        x, y: Arrays of integers, floats or complex numbers of one dtype, or scalars; with shapes as for `add`.
        out_dtype: dtype of the result. Both operands are converted to it before the multiplication.

    Returns:
        An array of the dtype of the operands, or of `out_dtype`.

    Example:
        >>> lax.mul(xnp.int8(100), xnp.int8(100), out_dtype="int32")
        Array(10000, dtype=int32)
    """
    if out_dtype is not None:
        dtype = dtypes.check_user_dtype(out_dtype, "mul")
        for v in (x, y):
            check_dtype("mul", NUMBERS, tracing.aval_of(v).dtype)
        x, y = (to_dtype(v, dtype) for v in (x, y))
    else:
        check_dtype("mul", NUMBERS, tracing.aval_of(x).dtype)
    return mul(x, y)


_mul.__name__ = _mul.__qualname__ = "mul"
PUBLIC["mul"] = library(_mul, static="out_dtype")


@library
def conj(x: ArrayLike) -> Array:
    """Compute the complex conjugate.

    Args:
        x: Array of complex numbers, or of floats of 32 or 64 bits.

    Returns:
        A complex array.

    Note:
        Unlike in NumPy, the result is complex for real arrays too.

    Example:
        >>> lax.conj(1.0 + 2.0j)
        Array(1.-2.j, dtype=complex64, weak_type=True)
    """
    return conj_(x, input_dtype=tracing.aval_of(x).dtype)


def refuse_negative_power(x: ArrayLike, y: ArrayLike) -> None:
    if y < 0 and not dtypes.is_inexact(tracing.aval_of(x).dtype):
        raise TypeError(f"Integers cannot be raised to negative powers, got {y}: the results are not integers. Convert with "
                        f"x.astype(float).")


@library(static="y")
def integer_pow(x: ArrayLike, y: int) -> Array:
    """Raise `x` to a power that is a Python integer, by repeated multiplication.

    Args:
        x: Array of integers, floats or complex numbers.
        y: The exponent. It must be non-negative if `x` has an integer dtype.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> lax.integer_pow(2.0, 10)
        Array(1024., dtype=float32, weak_type=True)
    """
    if not isinstance(y, (int, np.integer)):
        raise TypeError(f"integer_pow needs a Python int as exponent, got {y!r}; use pow for arrays.")
    refuse_negative_power(x, y)
    return integer_pow_p.bind(x, y=int(y))


@library
def select_n(which: ArrayLike, *cases: ArrayLike) -> Array:
    """Select each element from one of several arrays, without broadcasting.

    Args:
        which: Index of the case of each element, or booleans, where False selects the first of two cases. An array of the shape
            of the cases, or a scalar.
        cases: Arrays of one shape and dtype.

    Returns:
        An array of the shape and dtype of the cases.

    Example:
        >>> lax.select_n(xnp.array([True, False]), xnp.array([1, 2]), xnp.array([10, 20]))
        Array([10,  2], dtype=int32)
    """
    if not cases:
        raise ValueError("select_n needs at least one case.")
    condition, shape, *others = [tracing.aval_of(x).shape for x in (which, *cases)]
    if any([s != shape for s in others]) or condition not in ((), shape):
        raise errors.incompatible_shapes("select_n", [("condition", condition), *[("case", s) for s in (shape, *others)]],
                                         "The cases must have the same shape, and the condition must have that shape or ().")
    return select(which, *cases)


@library
def clamp(min: ArrayLike, x: ArrayLike, max: ArrayLike) -> Array:
    """Limit `x` to a range: `minimum(maximum(x, min), max)`.

    Args:
        min, max: The bounds, of the dtype of `x`: scalars, or arrays of the shape of `x`.
        x: An array.

    Returns:
        An array of the shape and dtype of `x`.

    Note:
        The array is the second argument, unlike in `numpy.clip`.

    Example:
        >>> lax.clamp(0.0, xnp.array([-1.0, 0.5, 3.0]), 1.0)
        Array([0. , 0.5, 1. ], dtype=float32)
    """
    return clamp_(min, x, max)


class RoundingMethod(enum.IntEnum):
    """Rounding of numbers halfway between two integers in `round`."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


@library(static="rounding_method")
def round(x: ArrayLike, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Array:
    """Round to the nearest integers, without changing the dtype.

    Args:
        x: Array of floats.
        rounding_method: Direction in which halves are rounded: `AWAY_FROM_ZERO`, or `TO_NEAREST_EVEN` as in NumPy.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> lax.round(xnp.array([0.5, 1.5]))
        Array([1., 2.], dtype=float32)
        >>> lax.round(xnp.array([0.5, 1.5]), lax.RoundingMethod.TO_NEAREST_EVEN)
        Array([0., 2.], dtype=float32)
    """
    return round_(x, rounding_method=RoundingMethod(rounding_method))


@library(static=("exponent_bits", "mantissa_bits"))
@accepts(lists=("exponent_bits", "mantissa_bits"))
def reduce_precision(operand: ArrayLike, exponent_bits: int, mantissa_bits: int) -> Array:
    """Round floats to the precision of a format with fewer bits, without changing the dtype.

    Args:
        operand: Array of floats.
        exponent_bits: Number of exponent bits, at least 1. Numbers out of range become infinite or zero.
        mantissa_bits: Number of mantissa bits.

    Returns:
        An array of the shape and dtype of `operand`.

    Example:
        >>> lax.reduce_precision(xnp.array([1.0, 1.1]), exponent_bits=8, mantissa_bits=2)
        Array([1., 1.], dtype=float32)
    """
    exponent_bits, mantissa_bits = operator.index(exponent_bits), operator.index(mantissa_bits)
    if exponent_bits < 1 or mantissa_bits < 0:
        raise ValueError(f"reduce_precision needs a positive number of exponent_bits and a non-negative one of mantissa_bits, "
                         f"got {exponent_bits} and {mantissa_bits}.")
    return reduce_precision_(operand, exponent_bits=exponent_bits, mantissa_bits=mantissa_bits)


@library
def reciprocal(x: ArrayLike) -> Array:
    """Compute `1 / x`.

    Args:
        x: Array of floats or complex numbers.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> lax.reciprocal(4.0)
        Array(0.25, dtype=float32, weak_type=True)
    """
    refuse_negative_power(x, -1)
    return integer_pow_p.bind(x, y=-1)


def convert_element_type(operand: ArrayLike, new_dtype: DTypeLike) -> Array:
    """Convert an array to another dtype, by the rules of C.

    Conversion of floats to integers truncates. Conversion of complex to real numbers discards the imaginary component, with a
    warning.

    Args:
        operand: An array or a scalar.
        new_dtype: dtype of the result.

    Returns:
        An array of the shape of `operand`; `operand` itself if it has that dtype.

    Example:
        >>> lax.convert_element_type(xnp.array([1.9, -1.9]), "int32")
        Array([ 1, -1], dtype=int32)
    """
    dtype = dtypes.check_user_dtype(specified(new_dtype, "convert_element_type"), "convert_element_type")
    if type(operand) is ArrayImpl and operand.dtype == dtype and not operand.weak_type:
        return operand
    if isinstance(operand, (int, np.integer)) and isinstance(dtype, np.dtype):
        operand = np.asarray(operand).astype(dtype)  # all bits of the integer, which need not fit the default dtype
    if isinstance(operand, (complex, np.complexfloating)) and dtype == dtypes.bool_:
        operand = bool(operand)
    elif type(operand) is complex and dtypes.is_integer(dtype) and not np.isfinite(operand):
        operand = operand.real  # NaN and infinities become 0 and the bounds
    elif type(operand) is complex and isinstance(dtype, np.dtype) and not dtypes.is_complex(dtype):
        raise TypeError(f"convert_element_type cannot convert the complex number {operand} to {dtype}: pass its real part.")
    elif (own := getattr(operand, "dtype", None)) is not None:
        dtypes.warn_of_discarded_imaginary("convert_element_type", own, dtype)
    return converted(operand, dtype)


@library(static="dtype", name="convert_element_type")
def converted(operand: ArrayLike, dtype: np.dtype) -> Any:
    """Convert to exactly `dtype`, also to 64 bits where x64 is disabled."""
    if not tracing.is_operand(operand):
        operand = tracing.as_operand(operand)
    aval = tracing.aval_of(operand)
    if aval.dtype == dtype and not aval.weak_type:
        return operand
    if dtype == dtypes.bool_ and aval.dtype.kind == "c":
        operand = real_(operand)
    return convert_element_type_p.bind(operand, new_dtype=dtype, weak_type=False, sharding=None)


convert = convert_element_type
