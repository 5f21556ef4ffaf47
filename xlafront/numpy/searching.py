"""Searching (`searchsorted`, `nonzero`, ...) and selection between arrays (`where`, `choose`, ...)."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from xlafront.core import dtypes, errors, tracing
from xlafront.core.basic_primitives import with_weakness
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax import elementwise, shapes
from xlafront.lax.barriers import stop_gradient
from xlafront.lax.creation import full, iota
from xlafront.lax.elementwise import add, and_, div, ge, lt, min_, ne, not_, rem_, shift_right_logical_, size_scalar, sub
from xlafront.lax.indexing import PRIMITIVES as SCATTERS, ScatterDimensionNumbers, bind_scatter
from xlafront.lax.resharding import with_out_sharding
from xlafront.numpy.creation import array, zeros
from xlafront.numpy.indexing import getitem, take, take_along_axis, take_rows
from xlafront.numpy.manipulation import broadcast_arrays, stack
from xlafront.numpy.promotion import broadcast_cases, check_arraylike, promote_dtypes, unwrap, unwrap_node
from xlafront.numpy.reductions import cumsum
from xlafront.numpy.ufuncs import INLINE, PUBLIC, to_bool
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import is_symbolic, known, max_dim, min_dim

_int32 = np.dtype(np.int32)


def _searchsorted(a, v, side, method):
    """Return the insertion position of each value, by bisection."""
    from xlafront.control.while_loop import fori_loop  # start-up: other functions of this module need no loops

    a, v = promote_dtypes(unwrap(a), unwrap(v))
    n = np.shape(a)[0]
    less = INLINE["less" if side == "left" else "less_equal"]

    def before(x, y):
        """True if element x sorts before the insertion position of value y. NaN sorts last."""
        is_less = less(x, y)
        if not dtypes.is_inexact(tracing.aval_of(x).dtype):
            return is_less
        nan_x, nan_y = ne(x, x), ne(y, y)
        at_nan = not_(nan_x) if side == "left" else nan_y
        return elementwise.where(nan_y, at_nan, and_(is_less, not_(nan_x)))

    def halve(_, state):
        """Halve the remaining range of each value: advance past its first half if the last element of that half sorts
        before the value."""
        position, left = state
        half = shift_right_logical_(add(left, np.int32(1)), np.int32(1))
        element = take_rows(a, add(position, sub(half, np.int32(1))))
        return add(position, elementwise.where(before(element, v), half, np.int32(0))), sub(left, half)

    position = full(np.shape(v), np.int32(0))
    if not n:
        return position
    steps = known(n, 2**31 - 1).bit_length()
    unroll = True if method == "scan_unrolled" else None
    return fori_loop(0, steps, halve, (position, size_scalar(n, np.int32)), unroll=unroll)[0]


@library(static=("side", "method"))
@accepts(nodes=True)
def searchsorted(a: ArrayLike, v: ArrayLike, side: str = "left", sorter: ArrayLike | None = None, *,
                 method: str = "scan") -> Array:
    """Return the positions at which to insert values into a sorted vector to keep it sorted, with NaN last.

    Args:
        a: The sorted vector.
        v: The values.
        side: "left" inserts before elements equal to a value, "right" after them.
        sorter: Indices that sort `a`, if it is not sorted.
        method: "scan", "scan_unrolled", "sort" or "compare_all". All return the same result by bisection;
            "scan_unrolled" unrolls the loop.

    Returns:
        The positions as int32, of the shape of `v`.

    Example:
        >>> xnp.searchsorted(xnp.array([1, 2, 2, 3]), xnp.array([2, 5]), side="right")
        Array([3, 4], dtype=int32)
    """
    check_arraylike("searchsorted", a, v, *(() if sorter is None else (sorter,)))
    if side not in ("left", "right"):
        raise ValueError(f"numpy.searchsorted takes side 'left' or 'right', got {side!r}.")
    if method not in ("scan", "scan_unrolled", "sort", "compare_all"):
        raise ValueError(f"numpy.searchsorted has no method {method!r}.")
    if np.ndim(a) != 1:
        raise ValueError(f"numpy.searchsorted needs a vector to search, got shape {np.shape(a)}.")
    if sorter is not None:
        a = getitem(unwrap(a), unwrap(sorter))
    sharding = tracing.aval_of(v).explicit_sharding
    if sharding is not None:  # each device searches for its shard of the values
        return with_out_sharding("searchsorted", sharding, _searchsorted, (a, v), side, method)
    return _searchsorted(a, v, side, method)


# Positions of true elements


def _write_positions(slots, missing, size, unique_indices):
    """Write each position to its slot in a vector of `missing`. Slots that are out of bounds are dropped."""
    length = np.shape(slots)[0]
    empty, positions = shapes.broadcast_in_dim(missing, (size,), ()), iota(tracing.aval_of(missing).dtype, length)
    return bind_scatter(SCATTERS["scatter"], empty, shapes.reshape_to(slots, (length, 1)), positions,
                        dimension_numbers=ScatterDimensionNumbers((), (0,), (0,)), unique_indices=unique_indices)


def _scatter_positions(mask, counts, missing, size):
    """Write the position of each true element to the slot of its rank.

    False elements have negative slots. All slots are different, so GPUs need no atomic operations.
    """
    slots = elementwise.where(mask, sub(counts, np.int32(1)), not_(iota(_int32, np.shape(mask)[0])))
    return _write_positions(slots, missing, size, True)


def _search_positions(mask, counts, missing, size):
    """Find the position of each rank by bisection of the counts, or by a scatter where most ranks are requested."""
    length, dtype = np.shape(mask)[0], tracing.aval_of(missing).dtype
    if not is_symbolic((length, size)) and length <= 8 * size:
        # False elements and those beyond `size` are written to a slot behind the end: CPUs drop them more slowly.
        slots = elementwise.where(mask, min_(np.int32(size), sub(counts, np.int32(1))), np.int32(size))
        return _write_positions(slots, missing, size + 1, False)[:size]
    found = searchsorted(counts, iota(_int32, size), side="right")  # `length` for ranks that no element has
    is_missing = ge(found, size_scalar(length, _int32))
    return elementwise.where(is_missing, missing, elementwise.as_type(found, dtype, False))


def _positions(mask, missing, size):
    """Return the first `size` positions of true elements in a vector, or `missing` where there are fewer."""
    from xlafront.control.cond import platform_dependent  # start-up: other functions of this module need no branches

    operands = mask, cumsum(elementwise.to_dtype(mask, _int32)), missing
    return platform_dependent(*operands, cuda=functools.partial(_scatter_positions, size=size),
                              default=functools.partial(_search_positions, size=size))


@library(static=("size",), name="nonzero")
def _nonzero_sized(a, size, fills):
    """Return the first `size` positions of nonzero elements. A running count gives the rank of each."""
    shape, index = np.shape(a), dtypes.default_dtype(int)
    length = math.prod(shape)
    mask = shapes.reshape_to(to_bool(a), (length,))
    if len(shape) == 1 and not dtypes.is_inexact(tracing.aval_of(fills[0]).dtype):
        return (_positions(mask, elementwise.as_type(fills[0], index, False), size),)
    found = _positions(mask, size_scalar(length, _int32), size)
    missing = ge(found, size_scalar(length, _int32))
    results = []
    stride = length
    for n, fill in zip(shape, fills):
        stride = stride // n if n else 1
        coordinate = rem_(div(found, size_scalar(max_dim(stride, 1), np.int32)), size_scalar(max_dim(n, 1), np.int32))
        coordinate = elementwise.as_type(coordinate, index, False)
        if dtypes.is_inexact(tracing.aval_of(fill).dtype):
            results.append(with_weakness(_where_kernel.__wrapped__(missing, fill, coordinate), False))
        else:
            results.append(elementwise.where(missing, elementwise.as_type(fill, index, False), coordinate))
    return tuple(results)


def nonzero(a: ArrayLike, *, size: int | None = None,
            fill_value: ArrayLike | tuple[ArrayLike, ...] | None = None) -> tuple[Array, ...]:
    """Return the positions of the nonzero elements, one index array for each dimension.

    Args:
        a: The array, of at least one dimension.
        size: Number of positions to return. Required while tracing, where the result's shape must be static.
        fill_value: Indices that pad the result if there are fewer than `size`: a scalar or a tuple with one for each
            dimension. Default: 0. Floats make all indices floats.

    Returns:
        A tuple of index arrays.

    Raises:
        ConcretizationTypeError: If `a` is traced and `size` is None.

    Example:
        >>> xnp.nonzero(xnp.array([0, 5, 0, 7]))
        (Array([1, 3], dtype=int32),)
    """
    check_arraylike("nonzero", a)
    a = unwrap(a)
    if np.ndim(a) == 0:
        raise ValueError("nonzero does not accept an array without dimensions. Use numpy.atleast_1d(x) first.")
    if size is None:
        a = stop_gradient(a)  # positions have no derivative, so they may depend on the values of what is differentiated
    if size is None and isinstance(a, tracing.Tracer):
        raise errors.ConcretizationTypeError(
            a, "The number of positions that `nonzero` returns depends on values: give `size=`.")
    if size is None and fill_value is not None:  # nothing is padded, but the result has the dtype of `fill_value`
        size = int(np.count_nonzero(np.asarray(a)))
    if size is None:
        return tuple(array(i.astype(dtypes.default_dtype(int))) for i in np.nonzero(np.asarray(a)))
    size = shapes.static_shape("nonzero", size)[0]
    if not is_symbolic((size,)) and size < 0:
        raise ValueError(f"nonzero needs a size that is not negative, got {size}.")
    fills = fill_value if isinstance(fill_value, tuple) else (0 if fill_value is None else fill_value,) * np.ndim(a)
    if len(fills) != np.ndim(a) or any(np.shape(f) for f in fills):
        raise ValueError(f"the fill_value of nonzero must be a scalar or one for each of the {np.ndim(a)} dimensions, "
                         f"got {fill_value!r}.")
    _check_unsharded("nonzero", "an array", a, size, ValueError)
    if size == 0 or 0 in np.shape(a):
        index = dtypes.default_dtype(int)
        kinds = [tracing.aval_of(f).dtype for f in fills]
        return tuple(zeros(size, kind if dtypes.is_inexact(kind) else index) for kind in kinds)
    return _nonzero_sized(a, size, tuple(fills))


def _check_unsharded(name: str, what: str, a: ArrayLike, size: int | None, error: type[Exception]) -> None:
    """Raise if an array is sharded whose nonzero elements are counted."""
    aval = tracing.aval_of(a)
    if aval.explicit_sharding is not None and any(aval.explicit_sharding.spec.partitions):
        raise error(f"numpy.{name} of {what} of type {aval} with size={size}: positions are counted over all dimensions, so "
                    f"that no dimension may be sharded. Unshard the array first, with reshard.")


def flatnonzero(a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None) -> Array:
    """Return the positions of the nonzero elements in the flattened array.

    Args:
        a: The array.
        size: Number of positions to return. Required while tracing, where the result's shape must be static.
        fill_value: Position that pads the result if there are fewer than `size`. Default: 0.

    Returns:
        The positions, a vector.

    Example:
        >>> xnp.flatnonzero(xnp.array([[0, 5], [0, 7]]))
        Array([1, 3], dtype=int32)
    """
    check_arraylike("flatnonzero", a)
    a = unwrap(a)
    return nonzero(shapes.reshape_to(a, (np.size(a),)), size=size, fill_value=fill_value)[0]


def argwhere(a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | tuple[ArrayLike, ...] | None = None) -> Array:
    """Return the positions of the nonzero elements as rows of a matrix.

    Args:
        a: The array.
        size: Number of positions to return. Required while tracing, where the result's shape must be static.
        fill_value: Indices that pad the result if there are fewer than `size`: a scalar or a tuple with one for each
            dimension. Default: 0.

    Returns:
        The positions, of shape (number of positions, `a.ndim`).

    Example:
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
    """Select the slices along an axis where a condition is true.

    Args:
        condition: A boolean vector. If it is shorter than the axis, the rest counts as false.
        a: The array.
        axis: Axis to select along. Default: select from the flattened array.
        size: Number of slices to return, at most the length of the condition. Required while tracing.
        fill_value: Value of the slices that pad the result if there are fewer than `size`.
        out: Not supported; must be None.

    Returns:
        The selected slices.

    Example:
        >>> xnp.compress(xnp.array([True, False, True]), xnp.array([[1, 2, 3], [4, 5, 6]]), axis=1)
        Array([[1, 3],
               [4, 6]], dtype=int32)
    """
    condition, a = unwrap(condition), unwrap(a)
    if out is not None:
        raise NotImplementedError("numpy.compress cannot write into `out`: arrays are immutable. Use the result.")
    check_arraylike("compress", condition, a)
    if np.ndim(condition) != 1:
        raise ValueError(f"the condition of numpy.compress must have one dimension, got shape {np.shape(condition)}.")
    a = unwrap(a)
    if axis is None:
        a, axis = shapes.reshape_to(a, (np.size(a),)), 0
    axis = shapes.canonical_axis(axis, np.ndim(a), "compress")
    n = np.shape(a)[axis]
    length = min_dim(np.shape(condition)[0], n)
    if size is None and not isinstance(condition, tracing.Tracer) and np.asarray(condition)[length:].any():
        raise ValueError("the condition of numpy.compress is true beyond the end of the array.")
    if size is not None and isinstance(length, int) and size > length:
        raise ValueError(f"numpy.compress cannot return size={size} slices: a condition of shape {np.shape(condition)} selects "
                         f"at most {length} along an axis of size {n}.")
    _check_unsharded("compress", "a condition", condition, size, errors.ShardingTypeError)
    found = nonzero(getitem(condition, slice(0, length)), size=size, fill_value=n)[0]
    if size is None or is_symbolic(np.shape(a)) or not n:
        return take(a, found, axis, fill_value=None if size is None else fill_value)
    values = take(a, min_(found.dtype.type(n - 1), found), axis, mode="clip")
    present = shapes.broadcast_in_dim(lt(found, found.dtype.type(n)), np.shape(values), [axis])
    return elementwise.where(present, values, elementwise.to_dtype(array(fill_value), tracing.aval_of(values).dtype))


def extract(condition: ArrayLike, arr: ArrayLike, *, size: int | None = None, fill_value: ArrayLike = 0) -> Array:
    """Return the elements where a condition is true, as a vector.

    Args:
        condition: A boolean array of the shape of `arr`.
        arr: The array.
        size: Number of elements to return, at most the size of `arr`. Required while tracing.
        fill_value: Value that pads the result if there are fewer than `size`.

    Returns:
        The selected elements.

    Example:
        >>> xnp.extract(xnp.array([True, False, True]), xnp.array([1, 2, 3]))
        Array([1, 3], dtype=int32)
    """
    condition, arr = unwrap_node(condition), unwrap_node(arr)
    return compress(shapes.reshape_to(condition, (np.size(condition),)), shapes.reshape_to(arr, (np.size(arr),)), size=size,
                    fill_value=fill_value)


# Selection between arrays


@library
def _where_kernel(condition, x, y):
    condition = to_bool(unwrap(condition))
    x, y = promote_dtypes(unwrap(x), unwrap(y))
    condition, x, y = broadcast_cases("where", [condition, x, y])
    if not np.shape(x) and np.shape(y) and np.shape(condition) == ():
        x = shapes.broadcast_in_dim_p.bind(x, shape=np.shape(y), broadcast_dimensions=(), sharding=None)
    return elementwise.where(condition, x, y)


if TYPE_CHECKING:
    @overload
    def where(condition: ArrayLike, x: None = None, y: None = None, /, *, size: int | None = None,
              fill_value: ArrayLike | tuple[ArrayLike, ...] | None = None) -> tuple[Array, ...]: ...
    @overload
    def where(condition: ArrayLike, x: ArrayLike, y: ArrayLike, /, *, size: int | None = None,
              fill_value: ArrayLike | tuple[ArrayLike, ...] | None = None) -> Array: ...


def where(condition: ArrayLike, x: ArrayLike | None = None, y: ArrayLike | None = None, /, *, size: int | None = None,
          fill_value: ArrayLike | tuple[ArrayLike, ...] | None = None) -> Array | tuple[Array, ...]:
    """Select elements of `x` where a condition is true, of `y` otherwise.

    Args:
        condition: A boolean array. Numbers count as true if they are nonzero.
        x, y: The arrays to select from; all three are broadcast. If both are omitted, return `nonzero(condition)`.
        size, fill_value: See `nonzero`. Allowed only without `x` and `y`.

    Returns:
        The selected elements, or the tuple of `nonzero`.

    Example:
        >>> xnp.where(xnp.array([True, False]), xnp.array([1, 2]), 0)
        Array([1, 0], dtype=int32)
    """
    if x is None and y is None:
        check_arraylike("where", condition)
        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None:
        raise TypeError("numpy.where takes the condition alone, or both x and y: one of them is None (NoneType).")
    if size is not None or fill_value is not None:
        raise ValueError("numpy.where accepts size and fill_value only if x and y are omitted.")
    check_arraylike("where", condition, x, y)
    return _where_kernel(condition, x, y)


def select(condlist: Sequence[ArrayLike], choicelist: Sequence[ArrayLike], default: ArrayLike = 0) -> Array:
    """Select, for each element, from the first array whose condition is true.

    Args:
        condlist: The conditions, boolean arrays.
        choicelist: The arrays to select from, one for each condition.
        default: Value where no condition is true.

    Returns:
        The selected elements.

    Example:
        >>> x = xnp.arange(5)
        >>> xnp.select([x < 2, x > 3], [x, 10 * x], -1)
        Array([ 0,  1, -1, -1, 40], dtype=int32)
    """
    if len(condlist) != len(choicelist):
        raise ValueError(f"numpy.select needs as many choices as conditions, got {len(choicelist)} and {len(condlist)}.")
    if not len(condlist):
        raise ValueError("numpy.select needs at least one condition: condlist must be non-empty.")
    result: Any = default
    for condition, choice in reversed(list(zip(condlist, choicelist))):
        result = where(condition, choice, result)
    return result


def choose(a: ArrayLike, choices: ArrayLike | Sequence[ArrayLike], out: None = None, mode: str = "raise") -> Array:
    """Assemble an array by selecting each element from one of several arrays.

    Args:
        a: The index of the array to select from, for each element.
        choices: The arrays to select from. All arrays are broadcast to one shape.
        out: Not supported; must be None.
        mode: Treatment of indices out of bounds: "raise" raises an error (only for concrete values), "clip" clamps,
            "wrap" wraps them around.

    Returns:
        The selected elements.

    Example:
        >>> xnp.choose(xnp.array([0, 1, 0]), [xnp.array([1, 2, 3]), xnp.array([10, 20, 30])])
        Array([ 1, 20,  3], dtype=int32)
    """
    if out is not None:
        raise NotImplementedError("numpy.choose cannot write into `out`: arrays are immutable. Use the result.")
    check_arraylike("choose", a)
    try:
        choices = [*choices]
    except TypeError:
        raise TypeError(f"numpy.choose needs a sequence of arrays to choose from, got {choices!r}.") from None
    check_arraylike("choose", *choices)
    if not dtypes.is_integer(tracing.aval_of(unwrap(a)).dtype):
        raise ValueError(f"numpy.choose needs an array of integers, got {tracing.aval_of(unwrap(a)).dtype}.")
    n = len(choices)
    if mode == "raise":
        if isinstance(a, tracing.Tracer):
            raise errors.ConcretizationTypeError(
                a, "numpy.choose with mode='raise' checks the indices: give mode='clip' or 'wrap'.")
        values = np.asarray(a)
        if values.size and (values.min() < 0 or values.max() >= n):
            raise ValueError(f"numpy.choose got an index out of bounds for {n} choices.")
    elif mode == "clip":
        a = PUBLIC["minimum"](PUBLIC["maximum"](a, 0), n - 1)
    elif mode == "wrap":
        a = PUBLIC["remainder"](a, n)
    else:
        raise ValueError(f"numpy.choose has the modes 'raise', 'clip' and 'wrap', not {mode!r}.")
    a, *rest = broadcast_arrays(a, *choices)
    rows = stack(rest)
    return with_weakness(take_along_axis(rows, shapes.reshape(a, (1, *np.shape(a))), axis=0)[0], False)
