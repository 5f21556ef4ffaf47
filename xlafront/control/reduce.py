"""`reduce`: reductions by a function of the user's, which is traced to a program."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront import lowering
from xlafront.core import dtypes, errors, tracing, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.ir import ClosedJaxpr, Jaxpr, JaxprEqn, eval_jaxpr, subprograms
from xlafront.core.primitive import Primitive
from xlafront.core.typing import ShardingLike
from xlafront.lax import elementwise, reductions, shapes, sharding_rules, slicing
from xlafront.lax.arguments import named_sharding
from xlafront.lax.device_put import reshard_p
from xlafront.staging import signatures
from xlafront.staging.library import written_once
from xlafront.transforms.ad.jvp import jvp_flat
from xlafront.transforms.batching.vmap import batch_flat


def _reduce_abstract(*avals, dimensions, **_):
    count = len(avals) // 2
    return [ShapedArray(tuple(n for i, n in enumerate(x.shape) if i not in dimensions), x.dtype,
                        x.weak_type and start.weak_type) for x, start in zip(avals[:count], avals[count:])]


def _reduce_lower(ctx, *operands, jaxpr, dimensions, computation):
    scalars = [((), a.dtype) for a in ctx.avals_in[len(operands) // 2:]]
    return list(ctx.with_region(
        "stablehlo.reduce", operands, [*scalars, *scalars], lambda inner, *xs: inner.inline(jaxpr, list(xs)),
        types=list(ctx.avals_out), dimensions=lowering.mlir.i64s(dimensions)))


def _fold(*operands, jaxpr, dimensions, **_):
    """The same out of other operations: pairs of neighbours are combined until there is one, at last with the start.

    Start values may have dimensions, which are the first ones of the result.
    """
    count = len(operands) // 2
    shape = np.shape(operands[0])
    kept = [i for i in range(len(shape)) if i not in dimensions]
    result = tuple(shape[i] for i in kept)
    n = math.prod(shape[i] for i in dimensions)
    rows = [shapes.reshape(shapes.transpose(x, (*dimensions, *kept)), (n, *result)) for x in operands[:count]]
    starts = [shapes.broadcast_in_dim(s, result, tuple(range(np.ndim(s)))) for s in operands[count:]]
    while n > 1:
        pairs = combined(jaxpr, [slicing.slice_in_dim(x, 0, n - n % 2, 2) for x in rows],
                          [slicing.slice_in_dim(x, 1, n, 2) for x in rows])
        rows = [slicing.concatenate([p, slicing.slice_in_dim(x, n - 1, n)], 0) for p, x in zip(pairs, rows)] if n % 2 else pairs
        n = (n + 1) // 2
    return combined(jaxpr, starts, [shapes.reshape(x, result) for x in rows]) if n else starts


def combined(function, xs, ys):
    """The function of scalars, element by element."""
    shape = np.shape(xs[0])
    size = math.prod(shape)
    flat = [shapes.reshape(x, (size,)) for x in (*xs, *ys)]
    found = batch_flat(lambda *scalars: eval_jaxpr(function.jaxpr, function.consts, *scalars), flat, [0] * len(flat), size)
    return [shapes.reshape(shapes.place_axis(x, d, 0, size), shape) for x, d in zip(*found)]


def _reduce_jvp(primals, tangents, **params):
    return jvp_flat(lambda *xs: _fold(*xs, **params), primals, tangents)


def _reduce_batch(axis_size, operands, dims, *, dimensions, **params):
    count = len(operands) // 2
    params["dimensions"] = tuple(d + 1 for d in dimensions)
    xs = [shapes.broadcast_batch(x, d, axis_size) for x, d in zip(operands[:count], dims)]
    if all(d is None for d in dims[count:]):
        results = reduce_p.bind(*xs, *operands[count:], **params)
    else:  # the operation takes scalars as start values
        results = _fold(*xs, *operands[count:], **params)
    return results, [0] * count


reduce_p = Primitive("reduce", multiple_results=True, abstract=_reduce_abstract, lower=_reduce_lower,
                     jvp=_reduce_jvp, batch=_reduce_batch, memoise=False, sharding_rule=sharding_rules.reduced)

_MONOIDS = {"add": "reduce_sum", "mul": "reduce_prod", "max": "reduce_max", "min": "reduce_min", "and": "reduce_and",
            "or": "reduce_or", "xor": "reduce_xor"}


# The kinds of numbers that have no start for it which changes nothing.
_WITHOUT_NOTHING = {"reduce_max": "c", "reduce_min": "c", "reduce_and": "fcV", "reduce_or": "fcV", "reduce_xor": "fcV"}


def _changes_nothing(name: str | None, start) -> bool:
    """Whether a start is known to leave a result as it is, as a number of its own dtype, which may then be any."""
    if name is None or isinstance(start, tracing.Tracer):
        return False
    d = tracing.aval_of(start).dtype
    return d.kind not in _WITHOUT_NOTHING.get(name, "") and bool(start == reductions.IDENTITIES[name](d))


def monoid(function) -> str | None:
    """The reduction that a traced function of two scalars amounts to."""
    jaxpr = function.jaxpr
    if len(jaxpr.eqns) != 1 or len(jaxpr.invars) != 2 or list(jaxpr.outvars) != jaxpr.eqns[0].outvars:
        return None
    eqn = jaxpr.eqns[0]
    name = eqn.primitive.name
    same = eqn.primitive is elementwise.PRIMITIVES.get(name) and eqn.invars in (jaxpr.invars, jaxpr.invars[::-1])
    return _MONOIDS.get(name) if same else None


def part_of_reduction(function: ClosedJaxpr) -> bool:
    """Whether XLA can take a function as a part of its reduction: one of operations on elements alone.

    Loops and calls of kernels there end the process of XLA's compiler for CPUs, and captured values that have no number yet
    have no place in it, and keys are no elements to it. Such reductions are made of other operations, by folding.
    """
    return (not any(isinstance(c, tracing.Tracer) for c in function.consts) and _works_on_elements(function.jaxpr)
            and not any(dtypes.is_extended(aval.dtype) for aval in function.in_avals))


def _works_on_elements(jaxpr: Jaxpr) -> bool:
    return not jaxpr.effects and all(map(_is_of_elements, jaxpr.eqns))


def _is_of_elements(eqn: JaxprEqn) -> bool:
    primitive, programs = eqn.primitive, list(subprograms(eqn.params))
    if programs:
        return primitive.cost != "heavy" and all(map(_works_on_elements, programs))
    return primitive.cost == "cheap" or primitive.broadcasts_scalars and not primitive.by_function


def _other_dtype(own, of_start) -> TypeError:
    return errors.incompatible_dtypes("reduce", [own, of_start], "The initial values must have the dtypes of the arrays: "
                                                                "operand dtypes should match those of initial values.")


@written_once
def reduce(operands: Any, init_values: Any, computation: Callable, dimensions: Sequence[int],
           out_sharding: ShardingLike = None) -> Any:
    """Elements combined along dimensions by a function that is associative.

    - `operands`: a pytree of arrays of one shape.
    - `init_values`: a scalar to start from for each of them, which changes nothing when combined.
    - `computation`: `computation(x, y)` combines two pytrees of scalars.
    - `dimensions`: along which to combine.
    - `out_sharding`: how the result is split over explicit mesh axes.

    >>> lax.reduce(xnp.array([[1, 2], [3, 4]]), 0, lax.add, (0,))
    Array([4, 6], dtype=int32)
    """
    leaves, treedef = tree.flatten(operands)
    starts, start_tree = tree.flatten(init_values)
    if treedef != start_tree:
        raise ValueError(f"reduce needs one start value for each array: got structures {treedef} and {start_tree}.")
    dims = shapes.plain_axes(dimensions, np.ndim(leaves[0]), "reduce")
    for s in starts:
        if np.shape(s):
            raise ValueError(f"reduce needs scalars as initial values, found one of shape {np.shape(s)}.")
    for s, x in zip(starts, leaves):
        d, own = tracing.aval_of(s).dtype, tracing.aval_of(x).dtype
        if not dims and d != own:
            raise _other_dtype(own, d)
    scalars = [ShapedArray((), tracing.aval_of(x).dtype) for x in leaves]

    out_trees: list = []

    def combine(*xs):
        half = len(xs) // 2
        results, out_tree = tree.flatten(computation(treedef.unflatten(xs[:half]), treedef.unflatten(xs[half:])))
        out_trees.append(out_tree)
        return results

    function = tracing.trace_to_closed_jaxpr(combine, [*scalars, *scalars], signatures.origin(
        "reduce comp", computation, tree.structure((tree.numbered(treedef),) * 2), lambda: treedef))
    if len(function.out_avals) != len(leaves):
        raise errors.incompatible_shapes("reduce", [("arrays", (len(leaves),)), ("results", (len(function.out_avals),))])
    out_tree = out_trees[-1]
    if not dims:
        return out_tree.unflatten(map(elementwise.as_array, leaves))
    wanted = named_sharding(out_sharding, "reduce")
    name = monoid(function) if len(leaves) == 1 else None
    if wanted is not None and name != "reduce_sum":  # the others have no say in how their result is split
        name = None
    for i, (s, x) in enumerate(zip(starts, leaves)):
        d, own = tracing.aval_of(s).dtype, tracing.aval_of(x).dtype
        if d != own:
            if not _changes_nothing(name, s):
                raise _other_dtype(own, d)
            starts[i] = own.type(reductions.IDENTITIES[name](own))
    starts = [elementwise.as_type(s, tracing.aval_of(x).dtype, tracing.aval_of(s).weak_type) for s, x in zip(starts, leaves)]
    if name is not None:
        if name == "reduce_sum":
            total = shapes.reduce_sum_p.bind(leaves[0], axes=dims, out_sharding=wanted)
        else:
            total = reductions.reduced(name, leaves[0], dims)
        if not isinstance(starts[0], tracing.Tracer) and starts[0] == reductions.IDENTITIES[name](tracing.aval_of(total).dtype):
            aval, start = tracing.aval_of(total), tracing.aval_of(starts[0])
            return out_tree.unflatten([elementwise.as_type(total, aval.dtype, aval.weak_type and start.weak_type)])
        operation = elementwise.PRIMITIVES[function.jaxpr.eqns[0].primitive.name]
        return out_tree.unflatten([operation.bind(total, starts[0])])
    if part_of_reduction(function):
        results = reduce_p.bind(*leaves, *starts, computation=computation, jaxpr=function, dimensions=dims)
    else:
        results = _fold(*leaves, *starts, jaxpr=function, dimensions=dims)
    if wanted is not None:
        results = [reshard_p.bind(x, dst_sharding=wanted) for x in results]
    return out_tree.unflatten(results)
