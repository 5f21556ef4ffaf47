"""Where elements are (`searchsorted`, `nonzero`, ...), and which of several are taken (`where`, `choose`, ...)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xlafront.core import dtypes, errors, tracing
from xlafront.core.dimensions import is_symbolic, known, max_dim, min_dim
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax import elementwise, shapes
from xlafront.lax.creation import full, iota
from xlafront.lax.elementwise import (
    add,
    and_,
    div,
    ge,
    lt,
    min_,
    ne,
    not_,
    rem_,
    shift_right_logical_,
    size_as,
    sub,
    with_weakness,
)
from xlafront.lax.indexing import PRIMITIVES as SCATTERS, ScatterDimensionNumbers, bind_scatter
from xlafront.lax.resharding import with_out_sharding
from xlafront.numpy.creation import array, zeros
from xlafront.numpy.indexing import getitem, take, take_along_axis, take_rows
from xlafront.numpy.manipulation import broadcast_arrays, stack
from xlafront.numpy.promotion import broadcast_cases, check_arraylike, promote_dtypes, unwrap, unwrap_node
from xlafront.numpy.reductions import cumsum, sum as total
from xlafront.numpy.ufuncs import INLINE, PUBLIC, to_bool
from xlafront.staging.library import library

_int32 = np.dtype(np.int32)


def _searchsorted(a, v, side, method):
    """For each value the number of elements before its place, by bisection."""
    from xlafront.control.while_loop import fori_loop  # start-up: who selects elements needs no loops

    a, v = promote_dtypes(unwrap(a), unwrap(v))
    n = np.shape(a)[0]
    less = INLINE["less" if side == "left" else "less_equal"]

    def before(x, y):
        """Whether element x lies before the place of value y; NaN sorts last."""
        plain = less(x, y)
        if not dtypes.is_inexact(tracing.aval_of(x).dtype):
            return plain
        nan_x, nan_y = ne(x, x), ne(y, y)
        at_nan = not_(nan_x) if side == "left" else nan_y
        return elementwise.where(nan_y, at_nan, and_(plain, not_(nan_x)))

    def halve(_, state):
        """Of the elements whose place is open, as many for each value, the first half is before it or the second is not."""
        place, left = state
        half = shift_right_logical_(add(left, np.int32(1)), np.int32(1))
        element = take_rows(a, add(place, sub(half, np.int32(1))))
        return add(place, elementwise.where(before(element, v), half, np.int32(0))), sub(left, half)

    place = full(np.shape(v), np.int32(0))
    if not n:
        return place
    turns = known(n, 2**31 - 1).bit_length()
    return fori_loop(0, turns, halve, (place, size_as(n, np.int32)), unroll=True if method == "scan_unrolled" else None)[0]


@library(static=("side", "method"))
def searchsorted(a: ArrayLike, v: ArrayLike, side: str = "left", sorter: ArrayLike | None = None, *,
                 method: str = "scan") -> Array:
    """Where values would have to be inserted into a sorted vector to keep it sorted. NaN is greater than all numbers.

    - `a`: the vector.
    - `v`: the values.
    - `side`: whether a value goes before ("left") or after ("right") elements that are equal to it.
    - `sorter`: the positions that sort `a`, if it is not sorted.
    - `method`: "scan", "scan_unrolled", "sort", "compare_all", "default"; all give the same. "scan_unrolled" has no loop.

    >>> xnp.searchsorted(xnp.array([1, 2, 2, 3]), xnp.array([2, 5]), side="right")
    Array([3, 4], dtype=int32)
    """
    check_arraylike("searchsorted", a, v)
    if side not in ("left", "right"):
        raise ValueError(f"xnp.searchsorted takes side 'left' or 'right', got {side!r}.")
    if method not in ("scan", "scan_unrolled", "sort", "compare_all", "default"):
        raise ValueError(f"xnp.searchsorted has no method {method!r}.")
    if np.ndim(a) != 1:
        raise ValueError(f"xnp.searchsorted needs a vector to search, got shape {np.shape(a)}.")
    if sorter is not None:
        a = take(a, sorter)
    split = tracing.aval_of(v).explicit_sharding
    if split is not None:  # each device searches for its own values
        return with_out_sharding("searchsorted", split, _searchsorted, (a, v), side, method)
    return _searchsorted(a, v, side, method)


# Positions of true elements


@library(static=("size",), name="nonzero")
def _nonzero_sized(a, size, fills):
    """The first `size` positions: a running count says which rank each of them has, and for each rank where it is reached."""
    shape = np.shape(a)
    mask = shapes.reshape_to(to_bool(a), (math.prod(shape),))
    flags = elementwise.to_dtype(mask, _int32)
    counts, ranks = cumsum(flags), iota(_int32, size)
    length = flags.shape[0]
    if not is_symbolic((length, size)) and 0 < length <= 8 * size:  # to write where each of them is found is faster then
        # Those that are none, or too many, go behind the end.
        places = elementwise.where(mask, min_(np.int32(size), sub(counts, np.int32(1))), np.int32(size))
        found = bind_scatter(SCATTERS["scatter"], full((size + 1,), np.int32(0)), shapes.reshape_to(places, (length, 1)),
                             iota(_int32, length), dimension_numbers=ScatterDimensionNumbers((), (0,), (0,)))[:size]
    else:
        found = searchsorted(counts, ranks, side="right") if length else ranks
    missing = ge(ranks, total(flags, dtype=_int32))
    results = []
    stride = math.prod(shape)
    for n, fill in zip(shape, fills):
        stride = stride // n if n else 1
        part = rem_(div(found, size_as(max_dim(stride, 1), np.int32)), size_as(max_dim(n, 1), np.int32))
        index = dtypes.default_dtype(int)
        part = elementwise.as_type(part, index, False)
        if dtypes.is_inexact(tracing.aval_of(fill).dtype):
            results.append(_where_kernel.__wrapped__(missing, fill, part))
        else:
            results.append(elementwise.where(missing, elementwise.as_type(fill, index, False), part))
    return tuple(results)


def nonzero(a: ArrayLike, *, size: int | None = None,
            fill_value: ArrayLike | tuple[ArrayLike, ...] | None = None) -> tuple[Array, ...]:
    """The positions of the elements that are not zero, an array of indices for each dimension.

    - `a`: the array, of one or more dimensions.
    - `size`: how many positions to return. Inside of a traced function it must be given.
    - `fill_value`: the indices where there are fewer than `size`, one for all dimensions or a tuple; 0 without. With floats all
      indices are floats.

    >>> xnp.nonzero(xnp.array([0, 5, 0, 7]))
    (Array([1, 3], dtype=int32),)
    """
    check_arraylike("nonzero", a)
    a = unwrap(a)
    if np.ndim(a) == 0:
        raise ValueError("nonzero of an array without dimensions has no positions. Use xnp.atleast_1d(x) first.")
    if size is None and isinstance(a, tracing.Tracer):
        raise errors.ConcretizationTypeError(
            a, "The number of positions that `nonzero` returns depends on values: give `size=`.")
    if size is None and fill_value is not None:  # its dtype counts among positions, though it fills nothing
        size = int(np.count_nonzero(np.asarray(a)))
    if size is None:
        return tuple(array(i.astype(dtypes.default_dtype(int))) for i in np.nonzero(np.asarray(a)))
    size = shapes.static_shape("nonzero", size)[0]
    if size == 0 or 0 in np.shape(a):  # nobody looks at what would fill
        return (zeros(size, dtypes.default_dtype(int)),) * np.ndim(a)
    fills = fill_value if isinstance(fill_value, tuple) else (0 if fill_value is None else fill_value,) * np.ndim(a)
    if len(fills) != np.ndim(a) or any(np.shape(f) for f in fills):
        raise ValueError(f"the fill_value of nonzero must be a scalar or one for each of the {np.ndim(a)} dimensions, "
                         f"got {fill_value!r}.")
    return _nonzero_sized(a, size, tuple(fills))


def flatnonzero(a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None) -> Array:
    """The positions of the elements that are not zero, in the array as one vector.

    - `a`: the array.
    - `size`: how many positions to return. Inside of a traced function it must be given.
    - `fill_value`: the position where there are fewer than `size`, 0 without.

    >>> xnp.flatnonzero(xnp.array([[0, 5], [0, 7]]))
    Array([1, 3], dtype=int32)
    """
    check_arraylike("flatnonzero", a)
    a = unwrap(a)
    return nonzero(shapes.reshape_to(a, (np.size(a),)), size=size, fill_value=fill_value)[0]


def argwhere(a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | tuple[ArrayLike, ...] | None = None) -> Array:
    """The positions of the elements that are not zero, as rows of a matrix.

    - `a`: the array.
    - `size`: how many positions to return. Inside of a traced function it must be given.
    - `fill_value`: the indices where there are fewer than `size`, one for all dimensions or a tuple; 0 without.

    >>> xnp.argwhere(xnp.array([[0, 5], [0, 7]]))
    Array([[0, 1],
           [1, 1]], dtype=int32)
    """
    check_arraylike("argwhere", a)
    a = unwrap(a)
    if np.ndim(a) == 0:
        count = int(np.asarray(a) != 0) if size is None else size
        return zeros((count, 0), dtypes.default_dtype(int))
    return stack(nonzero(a, size=size, fill_value=fill_value), axis=-1)


def compress(condition: ArrayLike, a: ArrayLike, axis: int | None = None, *, size: int | None = None, fill_value: ArrayLike = 0,
             out: None = None) -> Array:
    """The slices along an axis where a condition holds.

    - `condition`: a vector; what is not as long as the axis counts as false.
    - `a`: the array.
    - `axis`: the axis; None takes elements of the array as one vector.
    - `size`: how many slices to return, no more than there are. Inside of a traced function it must be given.
    - `fill_value`: the elements of the slices that are missing then.
    - `out`: of NumPy's signature; it must be None.

    >>> xnp.compress(xnp.array([True, False, True]), xnp.array([[1, 2, 3], [4, 5, 6]]), axis=1)
    Array([[1, 3],
           [4, 6]], dtype=int32)
    """
    condition, a = unwrap(condition), unwrap(a)
    if out is not None:
        raise NotImplementedError("xnp.compress cannot write into `out`: arrays do not change. Use the result.")
    check_arraylike("compress", condition, a)
    if np.ndim(condition) != 1:
        raise ValueError(f"the condition of xnp.compress must have one dimension, got shape {np.shape(condition)}.")
    a = unwrap(a)
    if axis is None:
        a, axis = shapes.reshape_to(a, (np.size(a),)), 0
    axis = shapes.canonical_axis(axis, np.ndim(a), "compress")
    n = np.shape(a)[axis]
    length = min_dim(np.shape(condition)[0], n)
    if not isinstance(condition, tracing.Tracer) and np.asarray(condition)[length:].any():
        raise ValueError("the condition of xnp.compress is true beyond the end of the array.")
    if size is not None and isinstance(length, int) and size > length:
        raise ValueError(f"xnp.compress finds at most {length} slices, by a condition of shape {np.shape(condition)} along an "
                         f"axis of size {n}: size={size} is more.")
    found = nonzero(getitem(condition, slice(0, length)), size=size, fill_value=n)[0]
    if size is None or is_symbolic(np.shape(a)) or not n:
        return take(a, found, axis, fill_value=fill_value)
    values = take(a, min_(found.dtype.type(n - 1), found), axis, mode="clip")
    there = shapes.broadcast_in_dim(lt(found, found.dtype.type(n)), np.shape(values), [axis])
    return elementwise.where(there, values, elementwise.to_dtype(array(fill_value), tracing.aval_of(values).dtype))


def extract(condition: ArrayLike, arr: ArrayLike, *, size: int | None = None, fill_value: ArrayLike = 0) -> Array:
    """The elements where a condition holds, as a vector.

    - `condition`: an array of the shape of `arr`.
    - `arr`: the array.
    - `size`: how many elements to return, no more than there are. Inside of a traced function it must be given.
    - `fill_value`: what stands for those that are missing then.

    >>> xnp.extract(xnp.array([True, False, True]), xnp.array([1, 2, 3]))
    Array([1, 3], dtype=int32)
    """
    condition, arr = unwrap_node(condition), unwrap_node(arr)
    return compress(shapes.reshape_to(condition, (np.size(condition),)), shapes.reshape_to(arr, (np.size(arr),)), size=size,
                    fill_value=fill_value)


# Choosing between arrays


@library
def _where_kernel(condition, x, y):
    condition = to_bool(unwrap(condition))
    x, y = promote_dtypes(unwrap(x), unwrap(y))
    condition, x, y = broadcast_cases("where", [condition, x, y])
    if not np.shape(x) and np.shape(y) and np.shape(condition) == ():
        x = shapes.broadcast_in_dim_p.bind(x, shape=np.shape(y), broadcast_dimensions=(), sharding=None)
    return elementwise.where(condition, x, y)


def where(condition: ArrayLike, x: ArrayLike | None = None, y: ArrayLike | None = None, /, *, size: int | None = None,
          fill_value: ArrayLike | tuple[ArrayLike, ...] | None = None) -> Array | tuple[Array, ...]:
    """Elements of one array where a condition holds, else of another.

    - `condition`: a boolean array; of numbers, those other than 0 hold.
    - `x`, `y`: the arrays; all three are broadcast. Without them the result is that of `nonzero`.
    - `size`, `fill_value`: as for `nonzero`, with the condition alone.

    >>> xnp.where(xnp.array([True, False]), xnp.array([1, 2]), 0)
    Array([1, 0], dtype=int32)
    """
    if x is None and y is None:
        check_arraylike("where", condition)
        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None:
        raise TypeError("xnp.where takes the condition alone, or with both x and y: one of them is None (NoneType).")
    if size is not None or fill_value is not None:
        raise ValueError("size and fill_value belong to xnp.where with the condition alone.")
    check_arraylike("where", condition, x, y)
    return _where_kernel(condition, x, y)


def select(condlist: Sequence[ArrayLike], choicelist: Sequence[ArrayLike], default: ArrayLike = 0) -> Array:
    """Elements of the first array whose condition holds.

    - `condlist`: the conditions, boolean arrays.
    - `choicelist`: an array for each of them.
    - `default`: what stands where none holds.

    >>> x = xnp.arange(5)
    >>> xnp.select([x < 2, x > 3], [x, 10 * x], -1)
    Array([ 0,  1, -1, -1, 40], dtype=int32)
    """
    if len(condlist) != len(choicelist):
        raise ValueError(f"xnp.select needs as many choices as conditions, got {len(choicelist)} and {len(condlist)}.")
    if not len(condlist):
        raise ValueError("xnp.select needs a condition at least: condlist must be non-empty.")
    result = default
    for condition, choice in reversed(list(zip(condlist, choicelist))):
        result = where(condition, choice, result)
    return result


def choose(a: ArrayLike, choices: ArrayLike | Sequence[ArrayLike], out: None = None, mode: str = "raise") -> Array:
    """An array put together from others: each element comes from the one that an index names.

    - `a`: the indices.
    - `choices`: the arrays to choose from; all are broadcast to one shape.
    - `out`: of NumPy's signature; it must be None.
    - `mode`: what an index outside gives: an error ("raise", only where values are known), the nearest one ("clip"), or it
      counts around ("wrap").

    >>> xnp.choose(xnp.array([0, 1, 0]), [xnp.array([1, 2, 3]), xnp.array([10, 20, 30])])
    Array([ 1, 20,  3], dtype=int32)
    """
    if out is not None:
        raise NotImplementedError("xnp.choose cannot write into `out`: arrays do not change. Use the result.")
    check_arraylike("choose", a)
    try:
        choices = [*choices]
    except TypeError:
        raise TypeError(f"xnp.choose needs a sequence of arrays to choose from, got {choices!r}.") from None
    check_arraylike("choose", *choices)
    if not dtypes.is_integer(tracing.aval_of(unwrap(a)).dtype):
        raise ValueError(f"xnp.choose needs an array of integers, got {tracing.aval_of(unwrap(a)).dtype}.")
    n = len(choices)
    if mode == "raise":
        if isinstance(a, tracing.Tracer):
            raise errors.ConcretizationTypeError(a, "xnp.choose checks its indices: give mode='clip' or 'wrap'.")
        values = np.asarray(a)
        if values.size and (values.min() < 0 or values.max() >= n):
            raise ValueError(f"xnp.choose got an index outside of the {n} choices.")
    elif mode == "clip":
        a = PUBLIC["minimum"](PUBLIC["maximum"](a, 0), n - 1)
    elif mode == "wrap":
        a = PUBLIC["remainder"](a, n)
    else:
        raise ValueError(f"xnp.choose has the modes 'raise', 'clip' and 'wrap', not {mode!r}.")
    a, *rest = broadcast_arrays(a, *choices)
    rows = stack(rest)
    return with_weakness(take_along_axis(rows, shapes.reshape(a, (1, *np.shape(a))), axis=0)[0], False)
