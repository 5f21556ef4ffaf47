"""`lax.polynomial`: polynomials by Horner's rule, as one operation with derivatives of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront.control.scan import scan
from xlafront.core import dtypes, tracing
from xlafront.core.basic_primitives import convert_element_type_p
from xlafront.core.tangents import add_tangents
from xlafront.core.typing import Array, ArrayLike
from xlafront.core.zeros import Zero, is_undefined
from xlafront.lax.arguments import check_dtype
from xlafront.lax.elementwise import NUMBERS, add, as_type, constant_like, mul
from xlafront.lax.families import broadcast_to, elementwise, joint_shape, unbroadcast
from xlafront.lax.lower_fun import lower_fun
from xlafront.lax.stacking import stack
from xlafront.staging.library import library

if TYPE_CHECKING:
    from xlafront.core.avals import ShapedArray
    from xlafront.core.typing import Tangent
    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir

_MOST_UNROLLED = 8  # coefficients, where `unroll` is not given


def _evaluate(x: ArrayLike, *coefficients: ArrayLike, unroll: int | None = None) -> Array:
    """Evaluate a polynomial of two or more coefficients with other operations: `unroll` steps at once, or in a loop."""
    value: Any
    *rest, value = coefficients
    if len(coefficients) <= (_MOST_UNROLLED if unroll is None else unroll):
        for c in reversed(rest):
            value = add(mul(value, x), c)
        return value
    shape = joint_shape("polynomial", [tracing.aval_of(a) for a in (x, *coefficients)])
    rows = stack([broadcast_to(c, shape) for c in reversed(rest)])
    steps = _MOST_UNROLLED if unroll is None else max(unroll, 1)
    return scan(lambda y, c: (add(mul(y, x), c), None), broadcast_to(value, shape), rows, unroll=steps)[0]


def _polynomial(x: ArrayLike, coefficients: Sequence[ArrayLike], shape: tuple, unroll: int | None) -> Array:
    """Evaluate a polynomial of any number of coefficients; the result has this shape."""
    if len(coefficients) < 2:
        return broadcast_to(coefficients[0] if coefficients else constant_like(x, 0), shape)
    result = polynomial_p.bind(x, *coefficients, unroll=unroll)
    return broadcast_to(result, shape)


def _jvp(primals: Sequence[Any], tangents: Sequence[Tangent], *, unroll: int | None = None) -> tuple[Any, Any]:
    """Differentiate: the slope in `x` is a polynomial, and so is the tangent of the coefficients."""
    (x, *coefficients), (x_tangent, *others) = primals, tangents
    result = polynomial_p.bind(*primals, unroll=unroll)
    shape, total = np.shape(result), None
    if type(x_tangent) is not Zero:
        slopes = [mul(constant_like(c, k), c) for k, c in enumerate(coefficients[1:], 1)]
        total = mul(x_tangent, _polynomial(x, slopes, shape, unroll))
    while others and type(others[-1]) is Zero:
        others.pop()
    if others:
        dense = [constant_like(c, 0) if type(t) is Zero else t for c, t in zip(coefficients, others)]
        term = _polynomial(x, dense, shape, unroll)
        total = term if total is None else add_tangents(total, term)
    return result, Zero(tracing.aval_of(result).to_tangent_aval()) if total is None else total


def _transpose(cotangent: Tangent, x: Any, *coefficients: Any, unroll: int | None = None) -> list[Any]:
    """Transpose in the coefficients: that of `x ** k` gets the cotangent times `x ** k`."""
    results: list[Any] = [None]
    last = max([k for k, c in enumerate(coefficients) if is_undefined(c)])
    power = cotangent
    for k, c in enumerate(coefficients):
        if not is_undefined(c):
            results.append(None)
        else:
            results.append(Zero(c.aval) if type(cotangent) is Zero else unbroadcast(power, c.aval))
        if k < last and type(cotangent) is not Zero:
            power = mul(power, x)
    return results


_lower_evaluation = lower_fun(_evaluate)


def _lower(ctx: RuleContext, *operands: ir.Value, unroll: int | None = None) -> ir.Value:
    broadcast = [aval.update(shape=ctx.aval_out.shape) for aval in ctx.avals_in]  # as the operands of elementwise rules are
    return _lower_evaluation(ctx.replace(avals_in=broadcast), *operands, unroll=unroll)


polynomial_p = elementwise("polynomial", _lower, NUMBERS, jvp=_jvp, transpose=_transpose,
                           defaults={"unroll": None})


def polynomial(x: ArrayLike, coeffs: Sequence[ArrayLike], *, unroll: int | None = None) -> Array:
    """Evaluate a polynomial by Horner's rule: `coeffs[0] + coeffs[1] * x + coeffs[2] * x ** 2 + ...`.

    Derivatives of all orders with respect to `x` are polynomials of lower degree.

    Args:
        x: Points at which to evaluate, an array of numbers.
        coeffs: Coefficients, lowest power first, converted to the dtype of `x`: scalars, or arrays of the rank of `x` that
            broadcast with it. If `x` is real, of complex arrays the real part is used, as in JAX; Python's complex numbers
            raise an error.
        unroll: The largest number of coefficients that is evaluated without a loop, and the number of steps that the loop
            unrolls otherwise. None stands for 8.

    Returns:
        An array of the dtype of `x`.

    Example:
        >>> lax.polynomial(3.0, [1.0, 5.0, 2.0])
        Array(34., dtype=float32, weak_type=True)
    """
    if not np.iterable(coeffs):
        raise TypeError(f"polynomial takes a sequence of coefficients, got {coeffs!r}. Pass [{coeffs!r}].")
    return _of_coefficients(x, *coeffs, unroll=unroll)


def _converted(c: ArrayLike, aval: ShapedArray, target: ShapedArray) -> ArrayLike:
    """Convert a coefficient to the dtype of the points; a scalar also to their weak type."""
    if aval.weak_type or aval.shape or not target.weak_type:
        return as_type(c, target.dtype, aval.weak_type and target.weak_type)
    return convert_element_type_p.bind(c, new_dtype=target.dtype, weak_type=True, sharding=None)


@library(static="unroll", name="polynomial")
def _of_coefficients(x: ArrayLike, *coefficients: ArrayLike, unroll: int | None) -> Array:
    aval: Any = tracing.aval_of(x)
    check_dtype("polynomial", NUMBERS, aval.dtype)
    types: list[Any] = [tracing.aval_of(c) for c in coefficients]
    if aval.dtype.kind != "c" and any([dtypes.is_complex(t.dtype) and t.weak_type for t in types]):
        raise TypeError(f"polynomial converts its coefficients to the dtype of x, {aval.dtype}, and some are complex. "
                        f"Convert x: x.astype('complex64').")
    converted = [_converted(c, t, aval) for c, t in zip(coefficients, types)]
    shape = joint_shape("polynomial", [aval, *types])
    return _polynomial(as_type(x, aval.dtype, aval.weak_type), converted, shape, unroll)
