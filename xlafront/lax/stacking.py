"""`stack` and `unstack`: join arrays along a new axis, and split an array along an axis, each by one operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront.core import errors, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.primitive import Cost, KeyUse, MeshRules, Primitive, Traits
from xlafront.core.sharding_types import has_open_sums, of_all_any_kind, of_first_any_kind
from xlafront.core.tangents import instantiate
from xlafront.core.typing import Array, ArrayLike
from xlafront.core.zeros import Zero, is_undefined
from xlafront.lax import sharding_rules
from xlafront.lax.shapes import broadcast_batch, canonical_axis, typed
from xlafront.staging.library import library

if TYPE_CHECKING:
    from xlafront.core.sharding_types import Operands
    from xlafront.core.typing import Dims, Params, Tangent
    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir


def _stack_abstract(*xs: ShapedArray, axis: int) -> ShapedArray:
    first = xs[0]
    if any(x.ndim != first.ndim for x in xs):
        raise ValueError(f"stack needs arrays with the same number of dimensions, got shapes {[x.shape for x in xs]}.")
    if any(x.shape != first.shape for x in xs):
        raise ValueError(f"stack needs arrays of the same shape, got {[x.shape for x in xs]}.")
    if any(x.dtype != first.dtype for x in xs):
        raise errors.incompatible_dtypes("stack", [x.dtype for x in xs])
    return ShapedArray((*first.shape[:axis], len(xs), *first.shape[axis:]), first.dtype, all(x.weak_type for x in xs))


def _with_open_sums(ctx: RuleContext, value: ir.Value, aval: ShapedArray) -> ir.Value:
    """Return an intermediate value with its unreduced axes, which the compiler would otherwise reduce."""
    constrain = ctx.module_context.constrain
    return value if constrain is None or not has_open_sums(aval) else constrain(ctx.replace(avals_out=[aval]), [value])[0]


def _stack_lower(ctx: RuleContext, *xs: ir.Value, axis: int) -> ir.Value:
    aval = ctx.aval_out
    row = aval.update(shape=(*aval.shape[:axis], 1, *aval.shape[axis + 1:]), sharding=aval.explicit_sharding)
    operand_dims = [i for i in range(aval.ndim) if i != axis]
    rows = [_with_open_sums(ctx, ctx.broadcast_in_dim(x, operand_dims, row), row) for x in xs]
    return ctx.concatenate(rows, axis) if len(rows) > 1 else rows[0]


def _stack_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, axis: int) -> tuple[Any, Any]:
    answer = stack_p.bind(*primals, axis=axis)
    if all(type(t) is Zero for t in tangents):
        return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
    return answer, stack_p.bind(*map(instantiate, tangents), axis=axis)


def _stack_transpose(ct: Tangent, *xs: Any, axis: int) -> list[Any]:
    if type(ct) is Zero:
        return [Zero(x.aval) if is_undefined(x) else None for x in xs]
    return [row if is_undefined(x) else None for x, row in zip(xs, unstack_p.bind(ct, axis=axis))]


def _stack_batch(axis_size: int, operands: Sequence[Any], dims: Dims, *, axis: int) -> tuple[Any, Any]:
    return stack_p.bind(*[broadcast_batch(x, d, axis_size) for x, d in zip(operands, dims)], axis=axis + 1), 0


def _stack_sharding(name: str, operands: Operands, result: ShapedArray, params: Params) -> Sequence[Any]:
    entries = sharding_rules.elementwise(name, operands, operands[0][0], params)
    return [*entries[:params["axis"]], None, *entries[params["axis"]:]]


stack_p = Primitive(
    "stack", abstract=_stack_abstract, lower=_stack_lower, jvp=_stack_jvp, transpose=_stack_transpose, batch=_stack_batch,
    mesh=MeshRules(sharding_rule=_stack_sharding, sums=of_all_any_kind),
    traits=Traits(cost=Cost.CHEAP, key_use=KeyUse.PERMUTES))


def _unstack_lower(ctx: RuleContext, x: ir.Value, *, axis: int) -> list[ir.Value]:
    aval, rows = ctx.avals_in[0], []
    for i, out in enumerate(ctx.avals_out):
        starts, limits = [0] * aval.ndim, list(aval.shape)
        starts[axis], limits[axis] = i, i + 1
        row = aval.update(shape=(*aval.shape[:axis], 1, *aval.shape[axis + 1:]), sharding=aval.explicit_sharding)
        piece = _with_open_sums(ctx, ctx.slice(x, starts, limits, result=row), row)
        rows.append(ctx.replace(avals_out=[out]).reshape(piece))
    return rows


def _unstack_transpose(cts: Sequence[Tangent], x: Any, *, axis: int) -> list[Any]:
    if all(type(ct) is Zero for ct in cts):
        return [Zero(x.aval)]
    return [stack_p.bind(*map(instantiate, cts), axis=axis)]


def _unstack_batch(axis_size: int, operands: Sequence[Any], dims: Dims, *, axis: int) -> tuple[Any, Any]:
    [x], [d] = operands, dims
    batched_axis = axis + (axis >= d)
    return unstack_p.bind(x, axis=batched_axis), [d - (batched_axis < d)] * np.shape(x)[batched_axis]


def _unstack_sharding(name: str, operands: Operands, result: ShapedArray, params: Params) -> Sequence[Any]:
    [(_, entries)] = operands
    operand_entries = sharding_rules.along("axis")(name, operands, operands[0][0], params)
    return [e for i, e in enumerate(operand_entries) if i != params["axis"]]


unstack_p = Primitive(
    "unstack", multiple_results=True, lower=_unstack_lower, transpose=_unstack_transpose, batch=_unstack_batch,
    abstract=lambda x, *, axis: [typed(x, (*x.shape[:axis], *x.shape[axis + 1:]))] * x.shape[axis],
    jvp=lambda primals, tangents, *, axis: (unstack_p.bind(*primals, axis=axis), unstack_p.bind(*tangents, axis=axis)),
    mesh=MeshRules(sharding_rule=_unstack_sharding, sums=of_first_any_kind),
    traits=Traits(cost=Cost.CHEAP, key_use=KeyUse.PERMUTES))


@library(static="axis", name="stack")
def _stack_kernel(operands: Sequence[Array], axis: int) -> Array:
    return stack_p.bind(*operands, axis=axis)


def stack(operands: Sequence[Any], axis: int = 0) -> Array:
    """Stack arrays of one shape and dtype along a new axis.

    Args:
        operands: The arrays, or an array, whose rows are stacked.
        axis: Position of the new axis in the result.

    Returns:
        The stacked array.

    Example:
        >>> lax.stack([xnp.zeros(2), xnp.ones(2)], axis=1)
        Array([[0., 1.],
               [0., 1.]], dtype=float32)
    """
    operands = list(operands)
    if not operands:
        raise IndexError("stack needs at least one array, got an empty sequence.")
    for i, x in enumerate(operands):
        if not tracing.is_arraylike(x):
            raise errors.not_an_array(x, "stack", f"operands[{i}]")
    return _stack_kernel(operands, canonical_axis(axis, np.ndim(operands[0]) + 1, "stack"))


@library(static="axis", name="unstack")
def _unstack_kernel(x: Array, axis: int) -> list[Array]:
    return unstack_p.bind(x, axis=axis)


def unstack(x: ArrayLike, axis: int = 0) -> tuple[Array, ...]:
    """Split an array along an axis into a tuple of arrays without this axis.

    Args:
        x: An array.
        axis: The axis to remove.

    Returns:
        The slices along the axis.

    Example:
        >>> lax.unstack(xnp.array([[1.0, 2.0], [3.0, 4.0]]), axis=1)[0]
        Array([1., 3.], dtype=float32)
    """
    tracing.aval_of(x, "unstack")
    return tuple(_unstack_kernel(x, canonical_axis(axis, np.ndim(x), "unstack")))
