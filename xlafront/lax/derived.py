"""Functions that other operations of `lax` make up, and reductions by a function of the user's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from xlafront import lowering
from xlafront.core import dtypes, errors, keys, tracing, tree
from xlafront.core.avals import ShapedArray, entry_of, with_entry
from xlafront.core.ir import eval_jaxpr
from xlafront.core.primitive import Primitive
from xlafront.core.zeros import Zero
from xlafront.lax import elementwise, reductions, shapes
from xlafront.lax.families import elementwise as make_elementwise

stop_gradient_p = make_elementwise("stop_gradient", lambda ctx, x: x, "any", derivatives=(None,))


def stop_gradient(x):
    """The same values, which differentiation takes for constants; on pytrees of arrays.

    >>> grad(lambda x: x * stop_gradient(x))(3.0)
    3.0
    """
    def stop(leaf):
        if not tracing.is_arraylike(leaf) or not dtypes.is_inexact(tracing.aval_of(leaf).dtype):
            return leaf
        return stop_gradient_p.bind(leaf) if isinstance(leaf, tracing.Tracer) else leaf

    return tree.map(stop, x)


def _through_barrier(xs):
    """Of values some of which are symbolic zeros, the others through a barrier."""
    given = [x for x in xs if type(x) is not Zero]
    passed = iter(optimization_barrier_p.bind(*given) if given else ())
    return [x if type(x) is Zero else next(passed) for x in xs]


def _barrier_lower(ctx, *operands):
    found = ctx.op("stablehlo.optimization_barrier", operands)
    return found if isinstance(found, list) else [found]


optimization_barrier_p = Primitive(
    "optimization_barrier", multiple_results=True, abstract=lambda *avals: list(avals), lower=_barrier_lower,
    jvp=lambda primals, tangents: (optimization_barrier_p.bind(*primals), _through_barrier(tangents)),
    transpose=lambda cts, *operands: _through_barrier(cts),
    batch=lambda size, operands, dims: (optimization_barrier_p.bind(*operands), dims))
optimization_barrier_p.own_types = True


def optimization_barrier(operand):
    """The same pytree of arrays, which the compiler must have whole before anything computed from it.

    >>> x, y = optimization_barrier((x, y))
    """
    leaves, treedef = tree.flatten(operand)
    return treedef.unflatten(optimization_barrier_p.bind(*leaves)) if leaves else operand


def select(pred, on_true, on_false):
    """Elements of one array where a condition holds, of the other where it does not; no broadcasting.

    >>> select(x > 0, x, -x)
    """
    return elementwise.select_n(pred, on_false, on_true)


def dtype(x):
    """The dtype that an array or a number has as an operand."""
    return tracing.aval_of(x).dtype


def broadcast_shapes(*arrays_shapes):
    """The shape that arrays of these shapes broadcast to, as NumPy's rules say."""
    from xlafront.numpy.promotion import broadcast_shapes as joint

    return joint("broadcast_shapes", *[(s,) if isinstance(s, int) else tuple(s) for s in arrays_shapes])


def broadcast_to_rank(x, rank: int):
    """Add leading dimensions of size 1."""
    return shapes.expand_dims(x, tuple(range(rank - np.ndim(x)))) if np.ndim(x) < rank else x


def collapse(operand, start_dimension: int, stop_dimension: int | None = None):
    """Merge the dimensions from one to (not including) another into one."""
    shape = np.shape(operand)
    start, stop, _ = slice(start_dimension, stop_dimension).indices(len(shape))
    if start >= stop:
        raise ValueError(f"collapse needs a range of dimensions of shape {shape}, got {start_dimension} to "
                         f"{stop_dimension}.")
    return shapes.reshape(operand, (*shape[:start], math.prod(shape[start:stop]), *shape[stop:]))


def _split_bounds(sizes):
    at = 0
    for n in sizes:
        yield at, at + n
        at += n


def _split_lower(ctx, x, *, sizes, axis):
    m = lowering.mlir
    parts = []
    for (start, stop), aval in zip(_split_bounds(sizes), ctx.avals_out):
        shape = list(keys.physical(ctx.avals_in[0]).shape)
        starts = [0] * len(shape)
        starts[axis], shape[axis] = start, stop
        parts.append(ctx.op("stablehlo.slice", [x], [aval], start_indices=m.i64s(starts), limit_indices=m.i64s(shape),
                            strides=m.i64s([1] * len(shape))))
    return parts


def _split_jvp(primals, tangents, *, sizes, axis):
    moved = split_p.bind(tangents[0], sizes=sizes, axis=axis)
    return split_p.bind(primals[0], sizes=sizes, axis=axis), moved


def _split_transpose(cts, x, *, sizes, axis):
    from xlafront.transforms.ad.core import instantiate

    if all(type(ct) is Zero for ct in cts):
        return [Zero(x.aval)]
    return [shapes.concatenate_p.bind(*map(instantiate, cts), dimension=axis)]


def _split_batch(size, operands, dims, *, sizes, axis):
    axis += dims[0] <= axis
    return split_p.bind(operands[0], sizes=sizes, axis=axis), [dims[0]] * len(sizes)


split_p = Primitive(
    "split", multiple_results=True, lower=_split_lower, jvp=_split_jvp, transpose=_split_transpose, batch=_split_batch,
    abstract=lambda x, *, sizes, axis: [shapes.typed(x, (*x.shape[:axis], n, *x.shape[axis + 1:])) for n in sizes])


def split(operand, sizes: Sequence[int], axis: int = 0) -> list:
    """Cut an array along an axis into pieces of the given sizes.

    >>> first, rest = split(xnp.arange(5.0), (2, 3))
    """
    axis = shapes.canonical_axis(axis, np.ndim(operand), "split")
    sizes = tuple(n.__index__() for n in sizes)
    n = np.shape(operand)[axis]
    if any(m < 0 for m in sizes) or sum(sizes) != n:
        raise ValueError(f"split needs sizes that add up to the size of axis {axis}, {n}, got {sizes}.")
    return list(split_p.bind(operand, sizes=sizes, axis=axis))


def stack(operands, axis: int = 0):
    """Join arrays of one shape along a new axis."""
    operands = list(operands)
    axis = shapes.canonical_axis(axis, np.ndim(operands[0]) + 1, "stack")
    return shapes.concatenate([shapes.expand_dims(x, (axis,)) for x in operands], axis)


def tile(operand, reps: Sequence[int]):
    """Repeat an array along each dimension."""
    own = np.shape(operand)
    if len(reps) != len(own):
        raise ValueError(f"tile needs a number of repetitions for each of the {len(own)} dimensions, got {tuple(reps)}.")
    repeated = shapes.broadcast_in_dim(operand, [n for pair in zip(reps, own) for n in pair],
                                     tuple(range(1, 2 * len(own), 2)))
    return shapes.reshape(repeated, [n * m for n, m in zip(reps, own)])


def associative_scan(fn: Callable, elems, reverse: bool = False, axis: int = 0):
    """Running combination of elements by an associative function, in a logarithmic number of steps.

    `fn(a, b)` combines pytrees like `elems`, elementwise along `axis`. With `reverse` it runs from the end, where `a` is
    what comes from there.

    >>> associative_scan(lambda a, b: a + b, xnp.arange(4))
    [0, 1, 3, 6]
    """
    who = "associative_scan"
    if not callable(fn):
        raise TypeError(f"{who} needs a function to combine elements with, got {fn!r}.")
    leaves, treedef = tree.flatten(elems)
    if not leaves:
        return elems
    for i, x in enumerate(leaves):
        if not tracing.is_arraylike(x):
            raise errors.not_an_array(x, who, tree.path_of(elems, i))
    axis = shapes.canonical_axis(axis, np.ndim(leaves[0]), who)
    if any(np.ndim(x) <= axis for x in leaves):
        raise ValueError(f"{who} needs arrays that all have axis {axis}, got shapes {[np.shape(x) for x in leaves]}.")
    sizes = {np.shape(x)[axis] for x in leaves}
    if len(sizes) > 1:
        raise ValueError(f"{who} needs arrays of one size along axis {axis}, got {sorted(sizes)}.")

    def combine(xs, ys):
        result = fn(treedef.unflatten(xs), treedef.unflatten(ys))
        found, other = tree.flatten(result)
        if len(found) != len(xs):
            raise ValueError(f"the function given to {who} must return what it takes: {treedef}, got {other}.")
        for i, (x, y) in enumerate(zip(xs, found)):
            given, returned = tracing.aval_of(x), tracing.aval_of(tracing.as_operand(y), who)
            if (given.shape, given.dtype) != (returned.shape, returned.dtype):
                raise TypeError(f"the function given to {who} must return arrays of the types that it takes, but it got "
                                f"{given} and returned {returned} at result{tree.path_of(result, i)}.")
        return found

    if 0 in sizes or sizes == {1}:
        return elems
    return treedef.unflatten(reductions.scan_along(combine, leaves, axis, reverse))


# Reduction by any function


def _reduce_abstract(*avals, function, dimensions, out_sharding):
    count = len(avals) // 2
    return [ShapedArray(tuple(n for i, n in enumerate(x.shape) if i not in dimensions), x.dtype)
            for x in avals[:count]]


def _reduce_lower(ctx, *operands, function, dimensions, out_sharding):
    from xlafront import lowering

    scalars = [((), a.dtype) for a in ctx.avals_in[len(operands) // 2:]]
    return list(ctx.with_region(
        "stablehlo.reduce", operands, [*scalars, *scalars], lambda inner, *xs: inner.inline(function, list(xs)),
        types=list(ctx.avals_out), dimensions=lowering.mlir.i64s(dimensions)))


def _fold(*operands, function, dimensions, **_):
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
        pairs = _combined(function, [shapes.slice_in_dim(x, 0, n - n % 2, 2) for x in rows],
                          [shapes.slice_in_dim(x, 1, n, 2) for x in rows])
        rows = [shapes.concatenate([p, shapes.slice_in_dim(x, n - 1, n)], 0) for p, x in zip(pairs, rows)] if n % 2 else pairs
        n = (n + 1) // 2
    return _combined(function, starts, [shapes.reshape(x, result) for x in rows]) if n else starts


def _combined(function, xs, ys):
    """The function of scalars, element by element."""
    from xlafront.transforms.batching.vmap import batch_flat, place_axis

    shape = np.shape(xs[0])
    size = math.prod(shape)
    flat = [shapes.reshape(x, (size,)) for x in (*xs, *ys)]
    found = batch_flat(lambda *scalars: eval_jaxpr(function.jaxpr, function.consts, *scalars), flat, [0] * len(flat), size)
    return [shapes.reshape(place_axis(x, d, 0, size), shape) for x, d in zip(*found)]


def _reduce_jvp(primals, tangents, **params):
    from xlafront.transforms.ad.jvp import jvp_flat

    return jvp_flat(lambda *xs: _fold(*xs, **params), primals, tangents)


def _reduce_batch(axis_size, operands, dims, *, function, dimensions, out_sharding):
    count = len(operands) // 2
    first = next((entry_of(tracing.aval_of(x), d) for x, d in zip(operands, dims) if d is not None), None)
    params = {"function": function, "dimensions": tuple(d + 1 for d in dimensions),
              "out_sharding": with_entry(out_sharding, 0, first)}
    xs = [shapes.broadcast_batch(x, d, axis_size) for x, d in zip(operands[:count], dims)]
    if all(d is None for d in dims[count:]):
        results = reduce_p.bind(*xs, *operands[count:], **params)
    else:  # the operation takes scalars as start values
        results = _fold(*xs, *operands[count:], **params)
    return results, [0] * count


reduce_p = Primitive("reduce", multiple_results=True, abstract=_reduce_abstract, lower=_reduce_lower,
                     jvp=_reduce_jvp, batch=_reduce_batch, memoise=False)

_MONOIDS = {"add": "reduce_sum", "mul": "reduce_prod", "max": "reduce_max", "min": "reduce_min", "and": "reduce_and",
            "or": "reduce_or", "xor": "reduce_xor"}


def _monoid(function) -> str | None:
    """The reduction that a traced function of two scalars amounts to."""
    jaxpr = function.jaxpr
    if len(jaxpr.eqns) != 1 or len(jaxpr.invars) != 2 or list(jaxpr.outvars) != jaxpr.eqns[0].outvars:
        return None
    eqn = jaxpr.eqns[0]
    name = eqn.primitive.name
    same = eqn.primitive is elementwise.PRIMITIVES.get(name) and eqn.invars in (jaxpr.invars, jaxpr.invars[::-1])
    return _MONOIDS.get(name) if same else None


def reduce(operands, init_values, computation: Callable, dimensions: Sequence[int], out_sharding=None):
    """Combine elements along dimensions by `computation(x, y)`, which must be associative, from a start value.

    Works on a pytree of arrays of one shape; `computation` then combines pytrees of scalars.
    """
    leaves, treedef = tree.flatten(operands)
    starts, start_tree = tree.flatten(init_values)
    if treedef != start_tree:
        raise TypeError(f"reduce needs one start value for each array: got structures {treedef} and {start_tree}.")
    dims = shapes.canonical_axes(tuple(dimensions), np.ndim(leaves[0]), "reduce")
    starts = [elementwise.as_type(s, tracing.aval_of(x).dtype, False) for s, x in zip(starts, leaves)]
    scalars = [ShapedArray((), tracing.aval_of(x).dtype) for x in leaves]

    def combine(*xs):
        half = len(xs) // 2
        result = computation(treedef.unflatten(xs[:half]), treedef.unflatten(xs[half:]))
        return tree.leaves(result)

    function = tracing.trace_to_closed_jaxpr(combine, [*scalars, *scalars])
    if len(function.out_avals) != len(leaves):
        raise errors.incompatible_shapes("reduce", [("arrays", (len(leaves),)), ("results", (len(function.out_avals),))])
    wanted = shapes.named_sharding(out_sharding, "reduce")
    name = _monoid(function) if len(leaves) == 1 else None
    if name is not None:
        total = reductions.PRIMITIVES[name].bind(leaves[0], axes=dims, out_sharding=wanted)
        operation = elementwise.PRIMITIVES[function.jaxpr.eqns[0].primitive.name]
        return treedef.unflatten([operation.bind(total, starts[0])])
    results = reduce_p.bind(*leaves, *starts, function=function, dimensions=dims, out_sharding=wanted)
    return treedef.unflatten(results)

