"""Sorting. The k largest elements are in `top_k_elements`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront import lowering, tuning
from xlafront.core import dtypes, errors, tracing
from xlafront.core.ir import DropVar
from xlafront.core.primitive import MeshRules, Primitive, Structured
from xlafront.core.typing import Array, ArrayLike
from xlafront.core.zeros import Zero
from xlafront.lax import sharding_rules
from xlafront.lax.arguments import KINDS, check_dtype
from xlafront.lax.indexing import take_along
from xlafront.lax.lower_fun import lower_fun
from xlafront.lax.shapes import broadcast_batch, canonical_axis, counting, typed
from xlafront.staging.library import library

if TYPE_CHECKING:
    from xlafront.core.avals import ShapedArray
    from xlafront.core.ir import JaxprEqn
    from xlafront.core.typing import Dims, Marks
    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir


def _abstract(*xs: ShapedArray, dimension: int, is_stable: bool, num_keys: int) -> list[ShapedArray]:
    for x in xs:
        check_dtype("sort", "int float complex bool", x.dtype)
    for x in xs:
        if x.shape != xs[0].shape:
            raise errors.incompatible_shapes("sort", [("", a.shape) for a in xs], "All operands must have one shape.")
    return [typed(x, x.shape) for x in xs]


def _canonical_key(ctx: RuleContext, x: ir.Value, dtype: np.dtype) -> ir.Value:
    """Replace zeros by one zero and NaNs by one NaN, so that a total order comparison is the usual order with NaN last.

    XLA's GPU compiler recognizes this pattern, and sorts with its library kernels.
    """
    element_type = ((), dtype)
    zero = ctx.constant(np.zeros((), dtype))
    nan = ctx.constant(np.asarray(np.nan).astype(dtype))
    one_zero = ctx.op("stablehlo.select", [ctx.compare("EQ", "FLOAT", x, zero, ()), zero, x], [element_type])
    return ctx.op("stablehlo.select", [ctx.compare("NE", "FLOAT", x, x, ()), nan, one_zero], [element_type])


def _less(ctx: RuleContext, pairs: Sequence[tuple[ir.Value, ir.Value, np.dtype]]) -> ir.Value:
    """Compare the pairs of keys lexicographically."""
    result: Any = None
    for x, y, d in reversed(pairs):
        if dtypes.is_complex(d):
            real = dtypes.to_real(d)
            components = [[ctx.op(f"stablehlo.{part}", [v], [((), real)]) for v in (x, y)] for part in ("real", "imag")]
            component_keys = [(a, b, real) for a, b in components]
            if result is not None:
                inner_less = _less(ctx, component_keys)
                equal: Any = [ctx.compare("EQ", "TOTALORDER", _canonical_key(ctx, a, real), _canonical_key(ctx, b, real), ())
                              for a, b in components]
                inner_equal = ctx.op("stablehlo.and", equal, [((), np.dtype(bool))])
                result = ctx.op("stablehlo.select", [inner_equal, result, inner_less], [((), np.dtype(bool))])
            else:
                result = _less(ctx, component_keys)
            continue
        if KINDS["float"](d):
            x, y, kind = _canonical_key(ctx, x, d), _canonical_key(ctx, y, d), "TOTALORDER"
        else:
            kind = "UNSIGNED" if d == dtypes.bool_ or dtypes.is_unsigned(d) else "SIGNED"
        less = ctx.compare("LT", kind, x, y, ())
        if result is not None:
            equal = ctx.compare("EQ", kind, x, y, ())
            less = ctx.op("stablehlo.select", [equal, result, less], [((), np.dtype(bool))])
        result = less
    return result


_gather = lower_fun(take_along)


def _lower(ctx: RuleContext, *operands: ir.Value, dimension: int, is_stable: bool, num_keys: int) -> Sequence[ir.Value]:
    if tuning.sorts_integers(ctx.avals_in, dimension, num_keys) and ctx.platform == "cpu":
        return tuning.lower_sort(ctx, *operands, dimension=dimension, is_stable=is_stable, gather=_gather)
    m = lowering.mlir
    kinds = [a.dtype for a in ctx.avals_in]
    scalars = [((), d) for d in kinds for _ in range(2)]

    def compare(inner: RuleContext, *arguments: ir.Value) -> list[ir.Value]:
        pairs = [(arguments[2 * i], arguments[2 * i + 1], kinds[i]) for i in range(num_keys)]
        return [_less(inner, pairs)]

    return ctx.with_region("stablehlo.sort", operands, scalars, compare, types=ctx.avals_out,
                           dimension=m.i64(dimension), is_stable=m.boolean(is_stable))


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, dimension: int, is_stable: bool, num_keys: int) -> tuple[Any, Any]:
    shape = np.shape(primals[0])
    positions = counting(dtypes.int32, shape, dimension)
    *results, order = sort_p.bind(*primals, positions, dimension=dimension, is_stable=is_stable, num_keys=num_keys)
    tangents_out = [Zero(tracing.aval_of(a).to_tangent_aval()) if type(t) is Zero else take_along(t, order, dimension)
             for a, t in zip(results, tangents)]
    return results, tangents_out


def _batch(axis_size: int, operands: Sequence[Any], dims: Dims, *, dimension: int, is_stable: bool, num_keys: int
           ) -> tuple[Any, Any]:
    xs = [broadcast_batch(x, d, axis_size) for x, d in zip(operands, dims)]
    results = sort_p.bind(*xs, dimension=dimension + 1, is_stable=is_stable, num_keys=num_keys)
    return results, [0] * len(results)


def _dce(read: Marks, eqn: JaxprEqn) -> JaxprEqn:
    """Mark keys whose sorted values are unread (those of `argsort`), which some lowerings need not move."""
    unread = [v for v, is_read in zip(eqn.outvars, read) if not is_read and type(v) is not DropVar]
    return eqn.replace(outvars=[DropVar(v.aval) if v in unread else v for v in eqn.outvars]) if unread else eqn


sort_p = Primitive(
    "sort", multiple_results=True, abstract=_abstract, lower=_lower, jvp=_jvp, batch=_batch, structured=Structured(dce=_dce),
    mesh=MeshRules(sharding_rules.along("dimension")))


@library(static=None)
def sort(operand: ArrayLike | Sequence[ArrayLike], dimension: int = -1, is_stable: bool = True,
         num_keys: int = 1) -> Array | tuple[Array, ...]:
    """Sort elements in ascending order along a dimension. NaN is last.

    Args:
        operand: An array, or a sequence of arrays of one shape, which are permuted together.
        dimension: Dimension to sort along.
        is_stable: If True, equal elements keep their order.
        num_keys: Number of leading arrays that are compared, lexicographically.

    Returns:
        The sorted array, or a tuple of arrays if `operand` is a sequence.

    Example:
        >>> lax.sort((xnp.array([3, 1, 2]), xnp.array([0, 1, 2])))
        (Array([1, 2, 3], dtype=int32), Array([1, 2, 0], dtype=int32))
    """
    is_sequence = isinstance(operand, (tuple, list))
    operands = tuple(operand) if is_sequence else (operand,)
    if not operands:
        raise TypeError("sort needs at least one array.")
    if not 1 <= num_keys <= len(operands):
        raise ValueError(f"sort of {len(operands)} array(s) needs num_keys from 1 to {len(operands)}, got {num_keys}.")
    axis = canonical_axis(dimension, np.ndim(operands[0]), "sort")
    results = _sort_kernel(operands, axis, bool(is_stable), int(num_keys))
    return tuple(results) if is_sequence else results[0]


@library(static=("dimension", "is_stable", "num_keys"), name="sort")
def _sort_kernel(operands: Sequence[Array], dimension: int, is_stable: bool, num_keys: int) -> Sequence[Array]:
    return sort_p.bind(*operands, dimension=dimension, is_stable=is_stable, num_keys=num_keys)


def sort_key_val(keys: ArrayLike, values: ArrayLike, dimension: int = -1, is_stable: bool = True) -> tuple[Array, Array]:
    """Sort keys in ascending order along a dimension, and permute values with them.

    Args:
        keys, values: Two arrays of one shape.
        dimension: Dimension to sort along.
        is_stable: If True, equal keys keep their order.

    Returns:
        A tuple of the sorted keys and the permuted values.

    Example:
        >>> lax.sort_key_val(xnp.array([3, 1, 2]), xnp.array([0, 1, 2]))[1]
        Array([1, 2, 0], dtype=int32)
    """
    return sort((keys, values), dimension, is_stable, 1)  # type: ignore[return-value]  # a tuple of two arrays
