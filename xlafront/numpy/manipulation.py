"""Rearranging arrays: shapes, axes, joining, splitting, repeating."""

from __future__ import annotations

import math

import numpy as np

from xlafront.core import dtypes, errors, tracing
from xlafront.lax import dynamic_slicing, roll as rolling, shapes as lax, slicing
from xlafront.lax.elementwise import PRIMITIVES, as_type
from xlafront.lax.resharding import with_out_sharding
from xlafront.lax.shapes import broadcast_shapes as joint_shape, canonical_axes, canonical_axis
from xlafront.lax.splitting import split_p
from xlafront.numpy.promotion import (
    broadcast_to_common,
    check_arraylike,
    promote_args,
    promote_dtypes,
    unwrap,
)
from xlafront.runtime.arrays import ArrayImpl
from xlafront.staging.jit import library


def shape(a):
    """The shape of an array."""
    return np.shape(a)


def ndim(a):
    """The number of dimensions."""
    return np.ndim(a)


def size(a, axis=None):
    """The number of elements, in all or along an axis (or several)."""
    dims = np.shape(a)
    return math.prod(dims) if axis is None else math.prod(dims[i] for i in canonical_axes(axis, len(dims), "size"))


@library(static="shape", name="reshape")
def _reshape_kernel(a, shape):
    return lax.reshape_to(unwrap(a), shape)


def new_shape(name: str, wanted, old: tuple) -> tuple[int, ...]:
    """The shape asked for, with -1 worked out."""
    wanted = lax.static_shape(name, wanted)
    total = math.prod(old)
    if -1 in wanted:
        known = math.prod(n for n in wanted if n != -1)
        if wanted.count(-1) > 1 or (known == 0 and total) or (known and total % known):
            raise TypeError(f"xnp.{name} cannot make shape {wanted} of the {total} elements of shape {old}: -1 may stand "
                            f"once, for what divides evenly.")
        wanted = tuple((total // known if known else 0) if n == -1 else n for n in wanted)
    if math.prod(wanted) != total or any(n < 0 for n in wanted):
        raise errors.incompatible_shapes(f"xnp.{name}", [("array", old), ("new shape", wanted)],
                                         f"The array has {total} elements, the new shape {math.prod(wanted)}.")
    return wanted


def reshape(a, shape, order="C", *, copy=None, out_sharding=None):
    """The same elements in another shape; one size may be -1. `order="F"` reads and writes by columns."""
    check_arraylike("reshape", a)
    target = new_shape("reshape", shape, np.shape(a))
    if order == "C":
        return _reshape_kernel(a, target) if out_sharding is None else with_out_sharding(
            "xnp.reshape", out_sharding, _reshape_kernel, (a,), target)
    if order == "F":
        return with_out_sharding("xnp.reshape", out_sharding, _reshape_by_columns, (a,), target)
    raise ValueError(f"xnp.reshape takes order 'C' or 'F', got {order!r}.")


def _reshape_by_columns(a, target):
    return transpose(_reshape_kernel(transpose(a), target[::-1]))


def ravel(a, order="C", *, out_sharding=None):
    """All elements as a vector."""
    return reshape(a, (-1,) if math.prod(np.shape(a)) else (0,), order, out_sharding=out_sharding)


@library(static="axes", name="transpose")
def _transpose_kernel(a, axes):
    a = unwrap(a)
    return a if axes == tuple(range(len(axes))) else lax.transpose_p.bind(a, permutation=axes)


def transpose(a, axes=None):
    """Reverse the axes, or put them in the order of `axes`."""
    check_arraylike("transpose", a)
    rank = np.ndim(a)
    order = tuple(range(rank))[::-1] if axes is None else canonical_axes(tuple(axes), rank, "xnp.transpose")
    if len(order) != rank:
        raise ValueError(f"xnp.transpose needs all {rank} axes of an array of shape {np.shape(a)}, got {axes}.")
    return _transpose_kernel(a, order)


def permute_dims(a, /, axes):
    """Put the axes in another order."""
    return transpose(a, axes)


def matrix_transpose(x, /):
    """Swap the last two axes."""
    if np.ndim(x) < 2:
        raise ValueError(f"xnp.matrix_transpose needs at least 2 dimensions, got shape {np.shape(x)}.")
    return swapaxes(x, -1, -2)


def swapaxes(a, axis1, axis2):
    """Exchange two axes."""
    check_arraylike("swapaxes", a)
    order = list(range(np.ndim(a)))
    i, j = canonical_axis(axis1, len(order), "swapaxes"), canonical_axis(axis2, len(order), "swapaxes")
    order[i], order[j] = order[j], order[i]
    return _transpose_kernel(a, tuple(order))


def moveaxis(a, source, destination):
    """Move axes to other positions; the others keep their order."""
    check_arraylike("moveaxis", a)
    rank = np.ndim(a)
    source, destination = canonical_axes(source, rank, "moveaxis"), canonical_axes(destination, rank, "moveaxis")
    if len(source) != len(destination):
        raise ValueError(f"xnp.moveaxis needs as many sources as destinations, got {source} and {destination}.")
    order = [i for i in range(rank) if i not in source]
    for d, s in sorted(zip(destination, source)):
        order.insert(d, s)
    return _transpose_kernel(a, tuple(order))


def rollaxis(a, axis, start=0):
    """Move an axis back until it lies before `start`."""
    rank = np.ndim(a)
    axis = canonical_axis(axis, rank, "rollaxis")
    start = start + rank if start < 0 else start
    return moveaxis(a, axis, start - 1 if axis < start else start)


def expand_dims(a, axis):
    """Insert axes of size 1 at these positions of the result."""
    check_arraylike("expand_dims", a)
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    return lax._expand_kernel(unwrap(a), canonical_axes(axes, np.ndim(a) + len(axes), "xnp.expand_dims"))


def squeeze(a, axis=None):
    """Drop axes of size 1: all of them, or those named."""
    check_arraylike("squeeze", a)
    dims = np.shape(a)
    axes = tuple(i for i, n in enumerate(dims) if n == 1) if axis is None else canonical_axes(
        axis, len(dims), "xnp.squeeze")
    return lax._squeeze_kernel(unwrap(a), axes)


@library(static="shape", name="broadcast_to")
def _broadcast_kernel(a, shape):
    a = unwrap(a)
    own = np.shape(a)
    return a if own == shape else lax.broadcast_in_dim_p.bind(
        a, shape=shape, broadcast_dimensions=tuple(range(len(shape) - len(own), len(shape))), sharding=None)


def broadcast_to(array, shape, *, out_sharding=None):
    """Repeat an array to a shape that it broadcasts to."""
    check_arraylike("broadcast_to", array)
    target = lax.static_shape("broadcast_to", shape)
    if any(n < 0 for n in target):
        raise TypeError(f"xnp.broadcast_to got a negative size in the shape {target}.")
    own = np.shape(array)
    if len(own) > len(target) or any(n not in (1, m) for n, m in zip(own[::-1], target[::-1])):
        raise ValueError(f"xnp.broadcast_to cannot spread an array of shape {own} to {target}: sizes must be equal or 1, "
                         f"counted from the last dimension.")
    return with_out_sharding("xnp.broadcast_to", out_sharding, _broadcast_kernel, (array,), target)


def broadcast_arrays(*args):
    """The arrays at the shape they broadcast to."""
    check_arraylike("broadcast_arrays", *args)
    full = joint_shape("broadcast_arrays", *[np.shape(x) for x in args])
    return [broadcast_to(x, full) for x in args]


def broadcast_shapes(*shapes):
    """The shape that these shapes broadcast to."""
    return joint_shape("broadcast_shapes", *[lax.static_shape("broadcast_shapes", s) for s in shapes])


# Joining


def _rows(name, arrays):
    """The arrays of a sequence, or the rows of one array."""
    if hasattr(arrays, "shape"):
        return [arrays[i] for i in range(arrays.shape[0])]
    items = list(arrays)
    if not items:
        raise ValueError(f"xnp.{name} needs at least one array.")
    check_arraylike(name, *items)
    return [unwrap(x) for x in items]


@library(static=("axis", "dtype"), name="concatenate")
def _concatenate_kernel(arrays, axis, dtype):
    arrays = promote_dtypes(*arrays) if dtype is None else [as_type(x, dtype, False) for x in arrays]
    return arrays[0] if len(arrays) == 1 else slicing.concatenate_p.bind(*arrays, dimension=axis)


def concatenate(arrays, axis=0, dtype=None):
    """Join arrays along an axis they have; None joins them flat.

    >>> concatenate([x, y], axis=1)
    """
    items = _rows("concatenate", arrays)
    if axis is None:
        items, axis = [ravel(x) for x in items], 0
    if np.ndim(items[0]) == 0:
        raise ValueError("xnp.concatenate cannot join scalars: use stack.")
    wanted = None if dtype is None else dtypes.check_user_dtype(dtype, "concatenate")
    return _concatenate_kernel(items, canonical_axis(axis, np.ndim(items[0]), "xnp.concatenate"), wanted)


concat = concatenate


@library(static=("axis", "dtype"), name="stack")
def _stack_kernel(arrays, axis, dtype):
    arrays = promote_dtypes(*arrays) if dtype is None else [as_type(x, dtype, False) for x in arrays]
    expanded = [lax._expand_kernel.__wrapped__(x, (axis,)) for x in arrays]
    return expanded[0] if len(expanded) == 1 else slicing.concatenate_p.bind(*expanded, dimension=axis)


def stack(arrays, axis=0, out=None, dtype=None):
    """Join arrays of one shape along a new axis."""
    if out is not None:
        raise NotImplementedError("arrays cannot be written to: xnp.stack has no `out`.")
    items = _rows("stack", arrays)
    shapes = {np.shape(x) for x in items}
    if len(shapes) > 1:
        raise ValueError(f"xnp.stack needs arrays of one shape, got {', '.join(map(str, sorted(shapes)))}.")
    wanted = None if dtype is None else dtypes.check_user_dtype(dtype, "stack")
    return _stack_kernel(items, canonical_axis(axis, np.ndim(items[0]) + 1, "xnp.stack"), wanted)


def unstack(x, /, *, axis=0):
    """The slices of an array along an axis, as a tuple."""
    check_arraylike("unstack", x)
    if np.ndim(x) == 0:
        raise ValueError("xnp.unstack needs an array with at least one dimension.")
    return tuple(_unstack_kernel(x, canonical_axis(axis, np.ndim(x), "unstack")))


@library(static="axis", name="unstack")
def _unstack_kernel(x, axis):
    from xlafront.lax.slicing import unstack as rows

    return rows(lax.move_dim(unwrap(x), axis, 0))


def vstack(tup, dtype=None):
    """Join arrays as rows."""
    return concatenate([atleast_2d(x) for x in _rows("vstack", tup)], 0, dtype)


def hstack(tup, dtype=None):
    """Join arrays along their second axis; vectors along their only one."""
    items = [atleast_1d(x) for x in _rows("hstack", tup)]
    return concatenate(items, 0 if items[0].ndim == 1 else 1, dtype)


def dstack(tup, dtype=None):
    """Join arrays along a third axis."""
    return concatenate([atleast_3d(x) for x in _rows("dstack", tup)], 2, dtype)


def column_stack(tup):
    """Join vectors as columns."""
    return concatenate([reshape(x, (-1, 1)) if np.ndim(x) < 2 else x for x in _rows("column_stack", tup)], 1)


def block(arrays):
    """Join nested lists of blocks: the innermost along the last axis, and so on outwards."""
    def depth(x):
        return 1 + depth(x[0]) if isinstance(x, list) else 0

    levels = depth(arrays)

    def join(x, level):
        if not isinstance(x, list):
            return x
        parts = [join(y, level + 1) for y in x]
        rank = max(max(np.ndim(p) for p in parts), levels)
        parts = [reshape(p, (1,) * (rank - np.ndim(p)) + np.shape(p)) for p in parts]
        return concatenate(parts, axis=level - levels)

    from xlafront.numpy.creation import asarray

    return join(arrays, 0) if levels else asarray(arrays)


def append(arr, values, axis=None):
    """Join values to the end of an array."""
    return concatenate([arr, values], axis)


def _atleast(rank, widen):
    def function(*arys):
        check_arraylike(f"atleast_{rank}d", *arys)
        from xlafront.numpy.creation import asarray

        found = [x if np.ndim(x) >= rank else widen(asarray(x)) for x in map(asarray, arys)]
        return found[0] if len(found) == 1 else found

    function.__name__ = function.__qualname__ = f"atleast_{rank}d"
    function.__doc__ = f"The arrays with at least {rank} dimension(s)."
    return function


atleast_1d = _atleast(1, lambda x: reshape(x, (1,)))
atleast_2d = _atleast(2, lambda x: reshape(x, (1, -1)) if x.size else reshape(x, (1, 0)))
atleast_3d = _atleast(3, lambda x: reshape(x, {0: (1, 1, 1), 1: (1, *x.shape, 1)}.get(x.ndim, (*x.shape, 1))))


# Splitting


def _split(name, ary, indices_or_sections, axis, even):
    check_arraylike(name, ary)
    axis = canonical_axis(axis, np.ndim(ary), f"xnp.{name}")
    n = np.shape(ary)[axis]
    if isinstance(indices_or_sections, (tuple, list)) or np.ndim(indices_or_sections):
        bounds = [0, *[int(i) for i in indices_or_sections], n]
        bounds = [min(b + n if b < 0 else b, n) for b in bounds]
    else:
        sections = indices_or_sections.__index__()
        if sections < 1 or (even and n % sections):
            raise ValueError(f"xnp.{name} cannot cut axis {axis} of size {n} into {sections} equal parts.")
        base, extra = divmod(n, sections)
        bounds = np.cumsum([0] + [base + 1] * extra + [base] * (sections - extra)).tolist()
    return _split_kernel(ary, tuple(bounds), axis)


@library(static=("bounds", "axis"), name="split")
def _split_kernel(ary, bounds, axis):
    ary = unwrap(ary)
    dims = np.shape(ary)
    if all(start <= stop for start, stop in zip(bounds, bounds[1:])):
        return list(split_p.bind(ary, sizes=tuple(np.diff(bounds).tolist()), axis=axis))
    parts = []  # of bounds that go back
    for start, limit in zip(bounds, bounds[1:]):
        starts, limits = [0] * len(dims), list(dims)
        starts[axis], limits[axis] = start, max(start, limit)
        parts.append(slicing.slice_p.bind(ary, start_indices=tuple(starts), limit_indices=tuple(limits), strides=None))
    return parts


def split(ary, indices_or_sections, axis=0):
    """Cut an array into equal parts, or at the given positions."""
    return _split("split", ary, indices_or_sections, axis, True)


def array_split(ary, indices_or_sections, axis=0):
    """As `split`, with parts that may differ by one in size."""
    return _split("array_split", ary, indices_or_sections, axis, False)


def vsplit(ary, indices_or_sections):
    """`split` along the first axis."""
    return _split("vsplit", ary, indices_or_sections, 0, True)


def hsplit(ary, indices_or_sections):
    """`split` along the second axis (the first of a vector)."""
    return _split("hsplit", ary, indices_or_sections, 0 if np.ndim(ary) == 1 else 1, True)


def dsplit(ary, indices_or_sections):
    """`split` along the third axis."""
    return _split("dsplit", ary, indices_or_sections, 2, True)


# Reordering and repeating


def flip(m, axis=None):
    """Reverse the order of elements along axes, all by default."""
    check_arraylike("flip", m)
    return lax.rev(unwrap(m), canonical_axes(axis, np.ndim(m), "xnp.flip"))


def fliplr(m):
    """Reverse each row."""
    return flip(m, 1)


def flipud(m):
    """Reverse the order of rows."""
    return flip(m, 0)


def rot90(m, k=1, axes=(0, 1)):
    """Turn by 90 degrees, `k` times, in the plane of two axes."""
    a, b = canonical_axes(axes, np.ndim(m), "rot90")
    k %= 4
    if k == 0:
        return m
    if k == 2:
        return flip(flip(m, a), b)
    order = list(range(np.ndim(m)))
    order[a], order[b] = order[b], order[a]
    return transpose(flip(m, b), order) if k == 1 else flip(transpose(m, order), b)


@library(static="axis", name="roll")
def _roll_kernel(a, shift, axis):
    """A rotation by a run-time amount: a slice of the array laid down twice."""
    a = unwrap(a)
    for s, i in zip(shift, axis):
        n = np.shape(a)[i]
        if n == 0:
            continue
        back = PRIMITIVES["sub"].bind(np.int32(n), _mod(as_type(s, dtypes.int32, False), n))
        start = PRIMITIVES["rem"].bind(back, np.int32(n))
        doubled = slicing.concatenate_p.bind(a, a, dimension=i)
        starts = [np.int32(0)] * np.ndim(a)
        starts[i] = start
        a = dynamic_slicing.dynamic_slice_p.bind(doubled, *starts, slice_sizes=np.shape(a))
    return a


@library(static=("shifts", "axes"), name="roll")
def _rotate_kernel(a, shifts, axes):
    """A rotation by known amounts."""
    a = unwrap(a)
    for s, i in zip(shifts, axes):
        a = rolling.roll(a, s, i)
    return a


def _mod(x, n):
    r = PRIMITIVES["rem"].bind(x, np.int32(n))
    from xlafront.lax.elementwise import add, lt, where

    return where(lt(r, np.int32(0)), add(r, np.int32(n)), r)


def roll(a, shift, axis=None):
    """Rotate elements along axes; those that fall off one end come back at the other."""
    check_arraylike("roll", a)
    if axis is None:
        return reshape(roll(ravel(a), shift, 0), np.shape(a))
    axes = canonical_axes(axis, np.ndim(a), "xnp.roll") if not isinstance(axis, (tuple, list)) else tuple(
        canonical_axis(i, np.ndim(a), "xnp.roll") for i in axis)
    shifts = tuple(shift) if isinstance(shift, (tuple, list)) else (
        tuple(shift) if np.ndim(shift) == 1 else (shift,) * len(axes))
    if len(shifts) != len(axes):
        if len(shifts) != 1 and len(axes) != 1:
            raise ValueError(f"xnp.roll got {len(shifts)} shifts for {len(axes)} axes.")
        shifts, axes = shifts * len(axes) if len(shifts) == 1 else shifts, axes * len(shifts) if len(axes) == 1 else axes
    if all(isinstance(s, (int, np.integer)) for s in shifts) and (
            tracing.is_tracing() or isinstance(a, ArrayImpl) and a.sharding.num_devices > 1):
        return _rotate_kernel(a, tuple(map(int, shifts)), axes)
    return _roll_kernel(a, shifts, axes)  # one program for all shifts


def repeat(a, repeats, axis=None, *, total_repeat_length=None, out_sharding=None):
    """Repeat each element along an axis, all alike or each its own number of times.

    Inside a traced function, varying repeats need `total_repeat_length`.
    """
    check_arraylike("repeat", a)
    if out_sharding is not None:
        return with_out_sharding("xnp.repeat", out_sharding, lambda a: repeat(
            a, repeats, axis, total_repeat_length=total_repeat_length), (a,))
    if axis is None:
        a, axis = ravel(a), 0
    axis = canonical_axis(axis, np.ndim(a), "xnp.repeat")
    n = np.shape(a)[axis]
    if total_repeat_length is None:
        if isinstance(repeats, tracing.Tracer):
            raise errors.ConcretizationTypeError(
                repeats, "It is the argument 'repeats' of xnp.repeat, which decides the shape of the result: give "
                "total_repeat_length as well.")
        counts = np.asarray(repeats)
        if counts.ndim == 0 or counts.size == 1:
            return _repeat_kernel(a, int(counts.reshape(())), axis)
        if counts.shape != (n,):
            raise ValueError(f"xnp.repeat needs one number, or one for each of the {n} elements along axis {axis}; got "
                             f"{counts.shape[0]}.")
        from xlafront.numpy.indexing import take

        return take(a, np.repeat(np.arange(n), counts), axis=axis)
    from xlafront.numpy import indexing, reductions, sorting

    counts = broadcast_to(repeats, (n,)) if np.ndim(repeats) == 0 or np.size(repeats) == 1 else repeats
    ends = reductions.cumsum(counts)
    from xlafront.numpy.creation import arange

    source = sorting.searchsorted(ends, arange(total_repeat_length), side="right")
    return indexing.take(a, source, axis=axis, mode="clip")


@library(static=("count", "axis"), name="repeat")
def _repeat_kernel(a, count, axis):
    a = unwrap(a)
    dims = np.shape(a)
    wide = lax.broadcast_in_dim_p.bind(
        a, shape=(*dims[:axis + 1], count, *dims[axis + 1:]), sharding=None,
        broadcast_dimensions=tuple(i + (i > axis) for i in range(len(dims))))
    return lax.reshape_to(wide, (*dims[:axis], dims[axis] * count, *dims[axis + 1:]))


@library(static="reps", name="tile")
def _tile_kernel(A, reps):
    A = unwrap(A)
    rank = max(len(reps), np.ndim(A))
    dims = (1,) * (rank - np.ndim(A)) + np.shape(A)
    reps = (1,) * (rank - len(reps)) + reps
    wide = lax.broadcast_in_dim_p.bind(
        lax.reshape_to(A, dims), shape=tuple(n for pair in zip(reps, dims) for n in pair), sharding=None,
        broadcast_dimensions=tuple(range(1, 2 * rank, 2)))
    return lax.reshape_to(wide, tuple(r * n for r, n in zip(reps, dims)))


def tile(A, reps):
    """Lay copies of an array side by side."""
    check_arraylike("tile", A)
    return _tile_kernel(A, lax.static_shape("tile", reps))


# Selection


@library
def _where_kernel(condition, x, y):
    from xlafront.lax.elementwise import select
    from xlafront.numpy.ufuncs import _to_bool

    condition = _to_bool(unwrap(condition))
    x, y = promote_dtypes(unwrap(x), unwrap(y))
    condition, x, y = broadcast_to_common("where", [condition, x, y])
    if not np.shape(x) and np.shape(y) and np.shape(condition) == ():
        x = lax.broadcast_in_dim_p.bind(x, shape=np.shape(y), broadcast_dimensions=(), sharding=None)
    return select(condition, y, x)


def where(condition, x=None, y=None, /, *, size=None, fill_value=None):
    """Elements of `x` where the condition holds, else of `y`. With the condition alone: where it holds."""
    if x is None and y is None:
        from xlafront.numpy.indexing import nonzero

        check_arraylike("where", condition)
        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None:
        raise ValueError("xnp.where takes the condition alone, or with both x and y.")
    if size is not None or fill_value is not None:
        raise ValueError("size and fill_value belong to xnp.where with the condition alone.")
    check_arraylike("where", condition, x, y)
    return _where_kernel(condition, x, y)


def select(condlist, choicelist, default=0):
    """Elements of the first choice whose condition holds."""
    if len(condlist) != len(choicelist) or not condlist:
        raise ValueError(f"xnp.select needs as many choices as conditions, got {len(choicelist)} and {len(condlist)}.")
    result = default
    for condition, choice in reversed(list(zip(condlist, choicelist))):
        result = where(condition, choice, result)
    return result


@library
def _clip_kernel(arr, low, high):
    [arr, *limits] = promote_args("clip", arr, *[x for x in (low, high) if x is not None])
    limits = iter(limits)
    if low is not None:
        arr = PRIMITIVES["max"].bind(next(limits), arr)
    if high is not None:
        arr = PRIMITIVES["min"].bind(next(limits), arr)
    return arr


def clip(arr=None, /, min=None, max=None):
    """Limit elements to a range; either end may be open."""
    operands = [arr, *[x for x in (min, max) if x is not None]]
    check_arraylike("clip", *operands)
    if any(dtypes.operand_type(unwrap(x))[0].kind == "c" for x in operands):
        raise ValueError("xnp.clip does not take complex numbers, which have no range; clip x.real and x.imag.")
    return _clip_kernel(arr, min, max)


def pad(array, pad_width, mode="constant", **kwargs):
    """Add elements around an array, as NumPy's `pad` with all its modes."""
    from xlafront.numpy.padding import pad as implementation

    return implementation(array, pad_width, mode, **kwargs)


@library(static=("offset", "axis1", "axis2"))
def diagonal(a, offset=0, axis1=0, axis2=1):
    """The elements of a diagonal of the plane of two axes, as the last axis of the result."""
    check_arraylike("diagonal", a)
    if np.ndim(a) < 2:
        raise ValueError(f"xnp.diagonal needs at least 2 dimensions, got shape {np.shape(a)}.")
    a = moveaxis(a, (axis1, axis2), (-2, -1))
    rows, columns = a.shape[-2:]
    start = (max(0, -offset), max(0, offset))
    length = max(0, min(rows - start[0], columns - start[1]))
    i = np.arange(length)
    return a[..., i + start[0], i + start[1]]


@library(static=("offset", "axis1", "axis2", "dtype"))
def trace(a, offset=0, axis1=0, axis2=1, dtype=None, out=None):
    """The sum of a diagonal."""
    from xlafront.numpy.reductions import sum as total

    return total(diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype)


def diag(v, k=0):
    """The `k`-th diagonal of a matrix, or the matrix with a vector on it."""
    check_arraylike("diag", v)
    if np.ndim(v) == 1:
        from xlafront.numpy.creation import zeros

        n = np.shape(v)[0] + abs(k)
        i = np.arange(np.shape(v)[0])
        return zeros((n, n), tracing.aval_of(v).dtype).at[i + max(0, -k), i + max(0, k)].set(v)
    if np.ndim(v) == 2:
        return diagonal(v, k)
    raise ValueError(f"xnp.diag takes a vector or a matrix, got shape {np.shape(v)}.")


def diagflat(v, k=0):
    """The matrix with the elements of `v` on its `k`-th diagonal."""
    return diag(ravel(v), k)


def array_equal(a1, a2, equal_nan=False):
    """Whether two arrays have the same shape and elements."""
    from xlafront.numpy import reductions
    from xlafront.numpy.creation import asarray
    from xlafront.numpy.ufuncs import PUBLIC

    try:
        a1, a2 = asarray(a1), asarray(a2)
    except TypeError:
        return asarray(False)
    if a1.shape != a2.shape:
        return asarray(False)
    same = PUBLIC["equal"](a1, a2)
    if equal_nan:
        same = PUBLIC["logical_or"](same, PUBLIC["logical_and"](PUBLIC["isnan"](a1), PUBLIC["isnan"](a2)))
    return reductions.all(same)


def allclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether all elements are equal within a tolerance."""
    from xlafront.numpy import reductions
    from xlafront.numpy.ufuncs import PUBLIC

    return reductions.all(PUBLIC["isclose"](a, b, rtol, atol, equal_nan))


@library(static="dtype", name="view")
def _view_kernel(a, dtype):
    own = tracing.aval_of(a).dtype
    if own.kind == "c" or dtype.kind == "c":
        return _complex_view(a, own, dtype)
    shape = np.shape(a)
    before, after = dtypes.itemsize_bits(own), dtypes.itemsize_bits(dtype)
    if own == dtypes.bool_:
        a, before = as_type(a, dtypes.uint8, False), 8
    target = dtypes.uint8 if dtype == dtypes.bool_ else dtype
    after = 8 if dtype == dtypes.bool_ else after
    if after > before:
        ratio = after // before
        a = lax.reshape_to(a, (*shape[:-1], shape[-1] // ratio, ratio))
    result = lax.bitcast_convert_type_p.bind(a, new_dtype=target)
    if after < before:
        result = lax.reshape_to(result, (*shape[:-1], shape[-1] * (before // after)))
    return as_type(result, dtype, False) if dtype == dtypes.bool_ else result


def _complex_view(a, own, dtype):
    """Complex numbers are pairs of reals in memory."""
    if own.kind == "c":
        parts = [PRIMITIVES[part].bind(a) for part in ("real", "imag")]
        pairs = [lax.broadcast_in_dim_p.bind(p, shape=(*np.shape(p), 1), broadcast_dimensions=tuple(range(np.ndim(p))),
                                             sharding=None) for p in parts]
        flat = slicing.concatenate_p.bind(*pairs, dimension=np.ndim(a))
        reals = lax.reshape_to(flat, (*np.shape(a)[:-1], 2 * np.shape(a)[-1]))
        return _view_kernel.__wrapped__(reals, dtype)
    reals = _view_kernel.__wrapped__(a, dtypes.to_real(dtype))
    pairs = lax.reshape_to(reals, (*np.shape(reals)[:-1], np.shape(reals)[-1] // 2, 2))
    real, imag = _unstack_kernel.__wrapped__(pairs, np.ndim(pairs) - 1)
    return PRIMITIVES["complex"].bind(real, imag)


def view(a, dtype):
    """The bits of an array read as another dtype; the last dimension grows or shrinks with the size of an element."""
    d = dtypes.check_user_dtype(dtype, "view")
    own = tracing.aval_of(a).dtype
    if own == d:
        return a
    before, after = (8 if x == dtypes.bool_ else dtypes.itemsize_bits(x) for x in (own, d))
    shape = np.shape(a)
    if before != after and not shape:
        raise ValueError(f"an array without dimensions cannot be viewed from {own} as {d}, whose elements differ in size.")
    if after > before and shape[-1] * before % after:
        raise ValueError(f"a view of {own} as {d} needs the last dimension ({shape[-1]}) to be a multiple of "
                         f"{after // before}.")
    return _view_kernel(a, d)


def byteswap(a, inplace=False):
    """The array with the bytes of each element in reverse order."""
    if inplace:
        raise NotImplementedError("byteswap(inplace=True) would change the array. Use the result of byteswap().")
    from xlafront.numpy.creation import astype

    size = a.dtype.itemsize
    if size == 1:
        return a
    if a.dtype.kind == "c":
        from xlafront.numpy.ufuncs import PUBLIC

        half = dtypes.to_real(a.dtype)
        real, imag = (byteswap(PUBLIC[part](a)) for part in ("real", "imag"))
        return view(stack([real, imag], -1), np.dtype(f"c{2 * half.itemsize}"))[..., 0]
    octets = view(expand_dims(a, -1), np.dtype(np.uint8))
    return astype(view(flip(octets, -1), a.dtype)[..., 0], a.dtype)
