"""`scaled_dot`: products of narrow dtypes with block scales along the contracting dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from xlafront.core import dtypes, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.basic_primitives import broadcast_in_dim_p, convert_element_type_p
from xlafront.core.primitive import Cost, Primitive, Traits
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.lax import creation
from xlafront.lax.dot_products import dot_general_p
from xlafront.lax.elementwise import mul
from xlafront.lax.lower_fun import lower_fun
from xlafront.lax.shapes import broadcast_batch, reshape_to
from xlafront.staging.library import library

if TYPE_CHECKING:
    from xlafront.core.typing import Dims

_BF16 = np.dtype(ml_dtypes.bfloat16)


def _check_scale(side: str, x: ShapedArray, scale: ShapedArray, contracting: Sequence[int]) -> None:
    if scale.ndim != x.ndim:
        raise TypeError(f"scaled_dot needs scales with as many dimensions as their operand: {side} has shape {x.shape}, its "
                        f"scale {scale.shape}.")
    for i, (n, m) in enumerate(zip(x.shape, scale.shape)):
        if i not in contracting:
            if n != m:
                raise TypeError(f"scaled_dot: {side} dim {i} of size {n} does not match scale dim size {m}.")
        elif m == 0 or n % m:
            raise TypeError(f"scaled_dot: {side} contracting dim {i} of size {n} must be divisible by its scale's dim "
                            f"size {m}.")
        elif n // m < 2:
            raise TypeError(f"scaled_dot: the ratio of {side} contracting dim {i} to its scale's dim size ({n // m}) must be "
                            f"at least 2.")


def _abstract(x: ShapedArray, y: ShapedArray, x_scale: ShapedArray, y_scale: ShapedArray, *, dimension_numbers: tuple,
              preferred_element_type: np.dtype | None) -> ShapedArray:
    (xc, yc), (xb, yb) = dimension_numbers
    if x.ndim < 2 or y.ndim < 2:
        raise TypeError(f"scaled_dot does not support 0-rank and 1-rank operands, got shapes {x.shape} and {y.shape}.")
    for kind, a, b in (("contracting", xc, yc), ("batch", xb, yb)):
        for i, j in zip(a, b):
            if x.shape[i] != y.shape[j]:
                raise TypeError(f"scaled_dot: LHS {kind} dim {i} of size {x.shape[i]} does not match RHS {kind} dim {j} of "
                                f"size {y.shape[j]}.")
    for side, v, scale, dims in (("LHS", x, x_scale, xc), ("RHS", y, y_scale, yc)):
        if scale.dtype.name != "float8_e8m0fnu" or any(scale.shape[d] != 1 for d in dims):
            _check_scale(side, v, scale, dims)
    shape = (*[x.shape[i] for i in xb], *[n for i, n in enumerate(x.shape) if i not in (*xc, *xb)],
             *[n for i, n in enumerate(y.shape) if i not in (*yc, *yb)])
    return ShapedArray(shape, np.dtype(preferred_element_type))


def _apply_scale(x: Array, scale: Array) -> Array:
    """Multiply each block of an operand by its scale, in bfloat16."""
    x, scale = (convert_element_type_p.bind(v, new_dtype=_BF16, weak_type=False, sharding=None) for v in (x, scale))
    shape, num_blocks = np.shape(x), np.shape(scale)
    blocked_shape = tuple(n for size, m in zip(shape, num_blocks) for n in (m, size // m))
    dims = tuple(range(0, 2 * len(shape), 2))
    scale = broadcast_in_dim_p.bind(scale, shape=blocked_shape, broadcast_dimensions=dims, sharding=None)
    return mul(x, reshape_to(scale, shape))


def _compute(x: Array, y: Array, x_scale: Array, y_scale: Array, *, dimension_numbers: tuple,
             preferred_element_type: np.dtype | None) -> Array:
    return dot_general_p.bind(_apply_scale(x, x_scale), _apply_scale(y, y_scale), dimension_numbers=dimension_numbers,
                              precision=None, preferred_element_type=preferred_element_type, out_sharding=None)


def _batch(axis_size: int, operands: Sequence[Any], dims: Dims, *, dimension_numbers: tuple,
           preferred_element_type: np.dtype | None) -> tuple[Any, Any]:
    xs = [broadcast_batch(x, d, axis_size) for x, d in zip(operands, dims)]
    (xc, yc), (xb, yb) = dimension_numbers
    shifted = [tuple(d + 1 for d in axes) for axes in (xc, yc, xb, yb)]
    numbers = ((shifted[0], shifted[1]), ((0, *shifted[2]), (0, *shifted[3])))
    return scaled_dot_p.bind(*xs, dimension_numbers=numbers, preferred_element_type=preferred_element_type), 0


scaled_dot_p = Primitive(
    "scaled_dot", abstract=_abstract, lower=lower_fun(_compute), batch=_batch, traits=Traits(cost=Cost.HEAVY, contracts=True))


@library(static=("numbers", "preferred"), name="scaled_dot")
def _kernel(lhs: Array, rhs: Array, lhs_scale: Array, rhs_scale: Array, numbers: tuple, preferred: np.dtype | None) -> Array:
    return scaled_dot_p.bind(lhs, rhs, lhs_scale, rhs_scale, dimension_numbers=numbers, preferred_element_type=preferred)


def scaled_dot(lhs: ArrayLike, rhs: ArrayLike, *, lhs_scale: ArrayLike | None = None, rhs_scale: ArrayLike | None = None,
               dimension_numbers: Any = None, preferred_element_type: DTypeLike | None = None) -> Array:
    """Compute `(lhs * lhs_scale) @ (rhs * rhs_scale)` with one scale per block along the contracting dimensions.

    It has no derivative.

    Args:
        lhs, rhs: Operands, usually of a narrow dtype.
        lhs_scale, rhs_scale: Scales, with the shape of their operand, except that contracting dimensions have the number of
            blocks, which divides their size. Default: no scaling.
        dimension_numbers: As in `dot_general`. Default: matrix products over leading batch dimensions.
        preferred_element_type: dtype of the result. Default: bfloat16.

    Returns:
        The product.

    Example:
        >>> lax.scaled_dot(xnp.ones((2, 4)), xnp.ones((4, 2)), lhs_scale=xnp.full((2, 2), 3.0))[0]
        Array([12, 12], dtype=bfloat16)
    """
    x, y = (tracing.aval_of(v, "scaled_dot") for v in (lhs, rhs))
    if dimension_numbers is None:
        n = x.ndim
        batch = tuple(range(n - 2))
        dimension_numbers = (((max(n - 1, 0),), (max(n - 2, 0),)), (batch, batch))
    (xc, yc), (xb, yb) = dimension_numbers
    numbers = ((tuple(map(int, xc)), tuple(map(int, yc))), (tuple(map(int, xb)), tuple(map(int, yb))))
    sides = ((x, lhs_scale, numbers[0][0]), (y, rhs_scale, numbers[0][1]))
    lhs_scale, rhs_scale = [_unit_scale(v, dims) if scale is None else scale for v, scale, dims in sides]
    preferred = _BF16 if preferred_element_type is None else dtypes.canonicalize_dtype(preferred_element_type)
    return _kernel(lhs, rhs, lhs_scale, rhs_scale, numbers, preferred)


def _unit_scale(aval: ShapedArray, contracting: Sequence[int]) -> Array:
    return creation.full(tuple(1 if i in contracting else n for i, n in enumerate(aval.shape)), 1, ml_dtypes.float8_e8m0fnu)
