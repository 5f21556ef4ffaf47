"""Arrays put together along a new axis, and taken apart along one, each by one operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.core import errors, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.primitive import Primitive
from xlafront.core.sharding_types import has_open_sums, of_all, of_first
from xlafront.core.typing import Array, ArrayLike
from xlafront.core.zeros import Zero, is_undefined
from xlafront.lax import sharding_rules
from xlafront.lax.shapes import broadcast_batch, canonical_axis, typed
from xlafront.lax.zeros import instantiate
from xlafront.staging.library import lax_function


def _stack_abstract(*xs, axis):
    first = xs[0]
    if any(x.ndim != first.ndim for x in xs):
        raise ValueError(f"stack needs arrays with the same number of dimensions, got shapes {[x.shape for x in xs]}.")
    if any(x.shape != first.shape for x in xs):
        raise ValueError(f"stack needs arrays of the same shape, got {[x.shape for x in xs]}.")
    if any(x.dtype != first.dtype for x in xs):
        raise errors.incompatible_dtypes("stack", [x.dtype for x in xs])
    return ShapedArray((*first.shape[:axis], len(xs), *first.shape[axis:]), first.dtype, all(x.weak_type for x in xs))


def _with_open_sums(ctx, value, aval):
    """A value between two operations; the compiler would make the sums that its type leaves open."""
    constrain = ctx.module_context.constrain
    return value if constrain is None or not has_open_sums(aval) else constrain(ctx.replace(avals_out=[aval]), [value])[0]


def _stack_lower(ctx, *xs, axis):
    aval = ctx.aval_out
    row = aval.update(shape=(*aval.shape[:axis], 1, *aval.shape[axis + 1:]), sharding=aval.explicit_sharding)
    kept = [i for i in range(aval.ndim) if i != axis]
    rows = [_with_open_sums(ctx, ctx.broadcast_in_dim(x, kept, row), row) for x in xs]
    return ctx.concatenate(rows, axis) if len(rows) > 1 else rows[0]


def _stack_jvp(primals, tangents, *, axis):
    answer = stack_p.bind(*primals, axis=axis)
    if all(type(t) is Zero for t in tangents):
        return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
    return answer, stack_p.bind(*map(instantiate, tangents), axis=axis)


def _stack_transpose(ct, *xs, axis):
    if type(ct) is Zero:
        return [Zero(x.aval) if is_undefined(x) else None for x in xs]
    return [row if is_undefined(x) else None for x, row in zip(xs, unstack_p.bind(ct, axis=axis))]


def _stack_batch(axis_size, operands, dims, *, axis):
    return stack_p.bind(*[broadcast_batch(x, d, axis_size) for x, d in zip(operands, dims)], axis=axis + 1), 0


def _stack_sharding(name, operands, result, params):
    entries = sharding_rules.elementwise(name, operands, operands[0][0], params)
    return [*entries[:params["axis"]], None, *entries[params["axis"]:]]


stack_p = Primitive("stack", abstract=_stack_abstract, lower=_stack_lower, jvp=_stack_jvp, transpose=_stack_transpose,
                    batch=_stack_batch, sharding_rule=_stack_sharding, sums=of_all(), cost="cheap")


def _unstack_lower(ctx, x, *, axis):
    aval, rows = ctx.avals_in[0], []
    for i, out in enumerate(ctx.avals_out):
        starts, limits = [0] * aval.ndim, list(aval.shape)
        starts[axis], limits[axis] = i, i + 1
        row = aval.update(shape=(*aval.shape[:axis], 1, *aval.shape[axis + 1:]), sharding=aval.explicit_sharding)
        part = _with_open_sums(ctx, ctx.slice(x, starts, limits, result=row), row)
        rows.append(ctx.replace(avals_out=[out]).reshape(part))
    return rows


def _unstack_transpose(cts, x, *, axis):
    if all(type(ct) is Zero for ct in cts):
        return [Zero(x.aval)]
    return [stack_p.bind(*map(instantiate, cts), axis=axis)]


def _unstack_batch(axis_size, operands, dims, *, axis):
    [x], [d] = operands, dims
    moved = axis + (axis >= d)
    return unstack_p.bind(x, axis=moved), [d - (moved < d)] * np.shape(x)[moved]


def _unstack_sharding(name, operands, result, params):
    [(_, entries)] = operands
    whole = sharding_rules.along("axis")(name, operands, operands[0][0], params)
    return [e for i, e in enumerate(whole) if i != params["axis"]]


unstack_p = Primitive(
    "unstack", multiple_results=True, lower=_unstack_lower, transpose=_unstack_transpose, batch=_unstack_batch,
    abstract=lambda x, *, axis: [typed(x, (*x.shape[:axis], *x.shape[axis + 1:]))] * x.shape[axis],
    jvp=lambda primals, tangents, *, axis: (unstack_p.bind(*primals, axis=axis), unstack_p.bind(*tangents, axis=axis)),
    sharding_rule=_unstack_sharding, sums=of_first, cost="cheap")
stack_p.key_use = unstack_p.key_use = "moves"


@lax_function(static="axis", name="stack")
def _stack_kernel(operands, axis):
    return stack_p.bind(*operands, axis=axis)


def stack(operands: Sequence[Any], axis: int = 0) -> Array:
    """Arrays of one shape and dtype, put together along a new axis.

    - `operands`: the arrays, or the rows of one.
    - `axis`: where the new axis is in the result.

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


@lax_function(static="axis", name="unstack")
def _unstack_kernel(x, axis):
    return unstack_p.bind(x, axis=axis)


def unstack(x: ArrayLike, axis: int = 0) -> tuple[Array, ...]:
    """The slices of an array along an axis, as a tuple of arrays without it.

    - `x`: the array.
    - `axis`: the axis that goes.

    >>> lax.unstack(xnp.array([[1.0, 2.0], [3.0, 4.0]]), axis=1)[0]
    Array([1., 3.], dtype=float32)
    """
    tracing.aval_of(x, "unstack")
    return tuple(_unstack_kernel(x, canonical_axis(axis, np.ndim(x), "unstack")))
