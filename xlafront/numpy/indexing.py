"""Indexing: `x[key]` and the functions built on it; the updates `x.at[key]` are in `updates`.

`plan_key` turns whatever NumPy allows in brackets into a hashable plan and the index arrays that it refers to.
A plan is an entry for each dimension of the array and for each new one, in the order of the key:

- `("slice", start, size, step)`: static, where sizes are not known with its span after these; `("new",)`: a dimension of
  size 1; `("int", i)`: a static position;
- `("array", k)`: the positions in index array number `k` (0-d for a single dynamic position);
- `("mask", n)`: `n` positions of no dimension, from a boolean scalar: 1 or, where it is false, 0.

Eagerly, Python integers become index arrays too, so that `x[0]` and `x[1]` share one kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.core import dtypes, errors, tracing
from xlafront.core.dimensions import (
    as_array,
    as_size,
    common_shape,
    is_symbolic,
    is_symbolic_dim,
    max_dim,
    min_dim,
    symbolic_slice,
)
from xlafront.core.keys import KeyArray
from xlafront.core.structs import ShapeDtypeStruct
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax import dynamic_slicing, shapes, slicing
from xlafront.lax.dimension_numbers import GatherDimensionNumbers
from xlafront.lax.elementwise import add, eq, lt, max_, min_, size_as, to_dtype, where
from xlafront.lax.indexing import GatherScatterMode, bind_gather, fill_for
from xlafront.lax.ref_indexing import Slice
from xlafront.lax.shapes import reduce_sum_p
from xlafront.numpy.creation import asarray
from xlafront.numpy.promotion import check_arraylike, promote_dtypes, unwrap, unwrap_node
from xlafront.numpy.ufuncs import INLINE
from xlafront.runtime import config
from xlafront.runtime.arrays import ArrayImpl
from xlafront.staging.library import library

_int32 = np.dtype(np.int32)


# Keys


class WithWindows(Exception):
    """Raised for a key with windows (`ds`): they are read first, and `rest` is the key of what they leave."""

    def __init__(self, rest: tuple, windows: tuple[tuple[int, Slice], ...]):
        self.rest, self.windows = rest, windows

    def read(self, x):
        """The array within the windows. They are moved inside."""
        for dim, window in self.windows:
            if window.stride == 1:
                x = dynamic_slicing.dynamic_slice_in_dim(x, window.start, window.size, dim)
            else:
                x = take_by(x, (*[slice(None)] * dim, _positions(window)), False, "clip", wrap_negative_indices=False)
        return x


def _positions(window: Slice):
    return window.start + window.stride * np.arange(window.size, dtype=np.int32)


def plan_key(shape: tuple, key, static_ints: bool, reads: bool = True) -> tuple[tuple, tuple]:
    """The plan for `x[key]`, and its index arrays. Writing needs no elements: arrays of positions are then all outside."""
    if type(key) is list:
        raise TypeError(
            f"an array cannot be indexed by a list, got x[{errors.short(key)}]: a list could mean one index for each "
            f"dimension or an array of positions. Use x[xnp.array({errors.short(key)})] or x[tuple(...)].")
    items: list = [_as_item(item, shape) for item in key] if type(key) is tuple else [_as_item(key, shape)]
    rank = len(shape)
    used = 0
    ellipsis = None
    for position, item in enumerate(items):
        if item is Ellipsis:
            if ellipsis is not None:
                raise IndexError("an index can have only one ellipsis ('...')")
            ellipsis = position
        elif item is not None:
            used += _dimensions_used(item)
    if used > rank:
        raise IndexError(f"too many indices: the array of shape {shape} has {rank} dimension(s), {used} were indexed.")
    fill = [slice(None)] * (rank - used)
    if ellipsis is None:
        items += fill
    else:
        items[ellipsis:ellipsis + 1] = fill
    entries: list[tuple] = []
    indices: list = []
    windows: tuple[tuple[int, Slice], ...] = ()
    alone = sum([item is not None and type(item) not in (slice, Slice) for item in items]) == 1
    dim = 0
    for position, item in enumerate(items):
        if item is None:
            entries.append(("new",))
        elif type(item) is slice:
            entries.append(("slice", *_slice_of(item, shape[dim], position)))
            dim += 1
        elif type(item) is int:
            if shape[dim] == 0:
                raise IndexError(f"index {item} is out of bounds for dimension {dim}, which has size 0.")
            if static_ints:
                entries.append(("int", item))
            else:
                entries.append(("array", len(indices)))
                indices.append(item)
            dim += 1
        elif type(item) is Slice:
            windows += (dim, item),
            items[position] = slice(None)
            dim += 1
        elif _is_bool(item):
            dim = _plan_mask(item, shape, dim, position, entries, indices, alone)
        else:
            if shape[dim] == 0 and (np.size(item) if reads else np.ndim(item) == 0):
                raise IndexError(f"an index array cannot select from dimension {dim}, which has size 0.")
            entries.append(("array", len(indices)))
            indices.append(item)
            dim += 1
    if windows:
        raise WithWindows(tuple(items), windows)
    return tuple(entries), tuple(indices)


_plain_kinds = frozenset((int, slice, type(None), type(Ellipsis)))


def _as_item(item, shape):
    """One item of a key as a Python int, a slice, None, Ellipsis, or an array of integers or booleans."""
    kind = type(item)
    if kind in _plain_kinds:
        return item
    if kind is bool or kind is np.bool_:
        return np.asarray(item)
    if isinstance(item, str):
        raise TypeError(f"an array cannot be indexed by a string, got {item!r}: there are no named fields.")
    if isinstance(item, (list, tuple)):
        item = _array_of(item)
    elif is_symbolic_dim(item):
        return as_array(item)
    elif kind is Slice:
        return item
    elif kind is ShapeDtypeStruct or not tracing.is_arraylike(item):
        if hasattr(kind, "__index__"):
            return as_size(item)
        error = TypeError if isinstance(item, range) else IndexError
        raise error(f"an array is indexed by integers, slices, `...`, None and arrays of integers or booleans, "
                    f"not by {kind.__name__} ({errors.short(item)}).")
    item = unwrap(item)
    if type(item) in dtypes.python_scalar_dtypes:
        item = np.asarray(item)
    d = tracing.aval_of(item).dtype
    if isinstance(item, (np.ndarray, np.generic)):
        d = item.dtype
    if not isinstance(d, np.dtype) or d.kind not in "iub" and not dtypes.is_integer(d):
        raise TypeError(f"an array is indexed by integers or booleans, not by an array of dtype {d}. Convert it with "
                        f"x.astype(int).")
    if isinstance(item, np.generic) and d.kind != "b":
        return int(item)
    if isinstance(item, np.ndarray) and item.ndim == 0 and d.kind != "b":
        return int(item)
    return item


def _array_of(items):
    if not items:
        return np.zeros(0, _int32)
    return asarray(items) if any(isinstance(x, (tracing.Tracer, ArrayImpl)) for x in items) else np.asarray(items)


def _is_bool(item) -> bool:
    return item.dtype == np.bool_


def _dimensions_used(item) -> int:
    return item.ndim if type(item) not in _plain_kinds and type(item) is not Slice and _is_bool(item) else 1


def _slice_of(item: slice, n: int, position: int) -> tuple[int, ...]:
    """Start, size and step of a slice of a dimension of size `n`, which may be an expression: see `symbolic_slice`."""
    if item.start is None and item.stop is None and item.step is None:
        return 0, n, 1
    if is_symbolic((n, item.start, item.stop)):
        return symbolic_slice(item, n)
    try:
        start, stop, step = item.indices(n)
    except (errors.TracerIntegerConversionError, TypeError) as e:
        if isinstance(e, errors.TracerIntegerConversionError) or any(
                isinstance(x, tracing.Tracer) for x in (item.start, item.stop, item.step)):
            raise IndexError(
                f"slice bounds must be known while tracing, got {item} at position {position} of the index: the size of "
                f"the result would depend on run-time values. Use lax.dynamic_slice_in_dim(x, start, size), or make "
                f"the bounds static arguments.") from None
        raise
    size = len(range(start, stop, step))
    return (start if size else 0), size, step


def _plan_mask(mask, shape, dim, position, entries, indices, alone: bool) -> int:
    """A boolean index stands for the positions of its true elements; they must be known now."""
    if isinstance(mask, tracing.Tracer):
        raise errors.NonConcreteBooleanIndexError(mask)
    mask = np.asarray(mask)
    if mask.ndim == 0:
        # A new dimension of size 1 or 0, which is one with those of other index arrays.
        if mask and alone:
            entries.append(("new",))
        else:
            entries.append(("mask", int(mask)))
        return dim
    covered = shape[dim:dim + mask.ndim]
    if mask.shape != covered:
        raise IndexError(f"a boolean index must have the shape of the dimensions that it selects from: item {position} "
                         f"has shape {mask.shape}, the array has {covered} there.")
    for positions in np.nonzero(mask):
        entries.append(("array", len(indices)))
        indices.append(positions.astype(_int32))
    return dim + mask.ndim


# Reading

_concrete_kinds = frozenset((ArrayImpl, KeyArray))


def getitem(x, key):
    """`x[key]`. Hot for an integer or a slice on a concrete array: watched by the eager benchmarks."""
    concrete = type(x) in _concrete_kinds and tracing.thread.trace is tracing.eval_trace
    if concrete:
        kind = type(key)
        if type(x) is KeyArray:
            keys = KeyArray(getitem(x._base_array, key), x.dtype) if kind is int or kind is slice else take_by(x, key, True)
            if config.debug_key_reuse.value:
                _spend_part(x, key, keys)
            return keys
        if kind is int:
            shape = x._aval.shape
            if shape and shape[0]:
                if not -shape[0] <= key < shape[0]:
                    _check_static_indices(shape, (("int", key),), ())
                return _row(x, key)
        elif kind is slice and x._aval.shape:
            start, size, step = _slice_of(key, x._aval.shape[0], 0)
            if step == 1:
                return _rows(x, start, size)
    return take_by(x, key, concrete)


def _spend_part(keys: KeyArray, key, part: KeyArray) -> None:
    """What a static index takes from an array of keys is there no more; of others nobody knows it before they are read."""
    from xlafront.core import key_reuse  # start-up: only with the setting

    kinds = {type(item) for item in (key if type(key) is tuple else (key,))}
    if kinds <= {int, slice, type(None), type(...)} and kinds & {int, slice}:
        key_reuse.take(keys, key, part)
    else:
        part._consumed = key_reuse.handed_on(keys, part)


@library
def _row(x, index):
    return _pick(x, (0,), (index,))


def _pick(x, dims: Sequence[int], positions: Sequence[Any]):
    """One position of each of these dimensions: negative ones count from the end, others are clamped."""
    starts: list[Any] = [np.int32(0)] * np.ndim(x)
    for dim, index in zip(dims, positions):
        starts[dim] = wrapped(index, np.shape(x)[dim])
    sizes = tuple([1 if i in dims else n for i, n in enumerate(np.shape(x))])
    return shapes.squeeze_p.bind(dynamic_slicing.dynamic_slice_p.bind(x, *starts, slice_sizes=sizes), dimensions=tuple(dims))


def check_whole(x, sizes, user: str, remedy: str) -> None:
    """Raise where types say that a dimension is split of which only a part of this size is taken or changed."""
    explicit = tracing.aval_of(x).explicit_sharding
    if explicit is None:
        return
    for d, (n, size, entry) in enumerate(zip(np.shape(x), sizes, explicit.spec.partitions)):
        if size not in (n, 0) and entry is not None:
            raise errors.ShardingTypeError(f"{user} of an array of type {tracing.aval_of(x)} is about {size} of the {n} "
                                           f"indices of the sharded dimension {d}, split over {entry!r}: it is ambiguous how "
                                           f"the result is split. Say so with {remedy}, or bring the array to another "
                                           "sharding with reshard.")


_OF_PARTS = "x[...]", "x.at[...].get(out_sharding=P(...))"


@library(static="size")
def _rows(x, start, size):
    shape = np.shape(x)
    check_whole(x, (size, *shape[1:]), *_OF_PARTS)
    return dynamic_slicing.dynamic_slice_p.bind(x, start, *[np.int32(0)] * (len(shape) - 1), slice_sizes=(size, *shape[1:]))


def take_by(x, key, concrete: bool, mode=None, fill_value=None, indices_are_sorted=False, unique_indices=False,
            wrap_negative_indices=True):
    """`x[key]`, with all that `x.at[key].get` can ask for."""
    shape = np.shape(x)
    try:
        entries, indices = plan_key(shape, key, not concrete)
    except WithWindows as found:
        return take_by(found.read(x), found.rest, concrete, mode, fill_value, indices_are_sorted, unique_indices,
                       wrap_negative_indices)
    if mode is None:
        _check_static_indices(shape, entries, indices)
    if concrete and x.aval.explicit_sharding is not None:  # (programs take parts that all devices have)
        parts = [entry for entry in entries if entry[0] not in ("new", "mask")]
        check_whole(x, [entry[2] if entry[0] == "slice" else n for entry, n in zip(parts, shape)], *_OF_PARTS)
    if fill_value is not None and not isinstance(fill_value, (int, float, complex, np.generic)):
        fill_value = np.asarray(fill_value)[()]
    if mode is not None and [entry for entry in entries if entry[0] != "new"] == [("slice", 0, n, 1) for n in shape]:
        mode = None  # all of the array: nothing can lie outside, whatever the mode
    return read(x, indices, entries, _read_mode(mode), fill_value, bool(indices_are_sorted), bool(unique_indices),
                bool(wrap_negative_indices))


def _check_static_indices(shape: tuple, entries: tuple, indices: tuple) -> None:
    """With the setting `check_static_indices`: Python integers that are out of bounds are refused."""
    if not config.check_static_indices.value:
        return
    dim = 0
    for kind, *rest in entries:
        index = rest[0] if kind == "int" else indices[rest[0]] if kind == "array" else 0
        if kind in ("new", "mask"):
            continue
        n = shape[dim]
        if type(index) is int and type(n) is int and not -n <= index < max(n, 1):
            raise IndexError(f"index {index} is out of bounds for axis {dim} with size {shape[dim]} (setting "
                             "check_static_indices). Negative ones count from the end; x.at[...].get(mode='fill') allows "
                             "all.")
        dim += 1


def _read_mode(mode):
    if mode is None:  # XLA takes the nearest element; a gradient for a position outside is dropped
        return GatherScatterMode.PROMISE_IN_BOUNDS
    return GatherScatterMode.from_any(mode)


@library(static=("entries", "mode", "fill_value", "is_sorted", "unique", "wrap"), name="getitem")
def read(x, indices, entries, mode, fill_value, is_sorted, unique, wrap):
    kinds = [e[0] for e in entries]
    if "array" not in kinds and "mask" not in kinds and not (
            mode is GatherScatterMode.PROMISE_IN_BOUNDS and _is_outside(np.shape(x), entries, wrap)):
        return _read_static(x, entries, mode, fill_value, wrap)
    x = _apply_slices(x, entries)
    layout = Layout(np.shape(x), entries, indices)
    if not layout.batch and mode is not GatherScatterMode.FILL_OR_DROP:
        positions = layout.columns
        if mode is GatherScatterMode.CLIP:
            positions = [_clipped(index, np.shape(x)[dim], wrap) for dim, index in zip(layout.dims, positions)]
        if not wrap:
            positions = [max_(*promote_dtypes(index, np.int32(0))) for index in positions]
        if layout.dims:
            x = _pick(x, layout.dims, positions)
    else:
        rank = len(layout.batch)
        offset = [i for i in range(rank + len(layout.slices)) if not layout.at <= i < layout.at + rank]
        numbers = GatherDimensionNumbers(tuple(offset), layout.dims, layout.dims)
        sizes = tuple(1 if i in layout.dims else n for i, n in enumerate(np.shape(x)))
        x = bind_gather(x, layout.index_array(wrap), dimension_numbers=numbers, slice_sizes=sizes,
                        unique_indices=unique, indices_are_sorted=is_sorted, mode=mode, fill_value=fill_value)
    return shapes.reshape_to(x, layout.final_shape)


def _is_outside(shape: tuple, entries: tuple, wrap: bool) -> bool:
    """Whether a static position is out of bounds: the operation that is written down says so, to those who look for it."""
    sizes = iter(shape)
    for entry in entries:
        if entry[0] != "new":
            n = next(sizes, 0)
            if entry[0] == "int" and not is_symbolic_dim(n) and not (-n if wrap else 0) <= entry[1] < n:
                return True
    return False


def _clipped(index, n: int, wrap: bool):
    """The nearest position."""
    index = wrapped(index, n) if wrap else index
    index, last = promote_dtypes(index, size_as(n - 1, np.int32))
    return max_(last.dtype.type(0), min_(last, index))


def _read_static(x, entries, mode, fill_value, wrap):
    """Only static entries: slices, a squeeze or reshape, nothing at run time."""
    shape = np.shape(x)
    operations = [e for e in entries if e[0] != "new"]
    outside = False
    bounded = []
    for n, entry in zip(shape, operations):
        if entry[0] == "int":
            i = entry[1] + n if entry[1] < 0 and wrap else entry[1]
            outside |= not is_symbolic_dim(n) and not 0 <= i < n
            i = min_dim(max_dim(i, 0), n - 1)
            entry = ("slice", i, 1, 1)
        bounded.append(entry)
    final = []
    for entry in entries:
        if entry[0] == "new":
            final.append(1)
        elif entry[0] == "slice":
            final.append(entry[2])
    if outside and mode is GatherScatterMode.FILL_OR_DROP:
        return shapes.broadcast_in_dim(fill_for(tracing.aval_of(x).dtype, fill_value), final, ())
    x, gone = _apply_slices(x, bounded), tuple([d for d, entry in enumerate(operations) if entry[0] == "int"])
    if len(operations) == len(entries):
        return shapes.squeeze_p.bind(x, dimensions=gone) if gone else x
    return shapes.reshape_to(x, tuple(final))


def _apply_slices(x, entries):
    """The static slices of a plan."""
    shape = np.shape(x)
    starts, limits, steps, flipped = [], [], [], []
    dim = 0
    for entry in entries:
        if entry[0] in ("new", "mask"):
            continue
        start, limit, step = 0, shape[dim], 1
        if entry[0] == "slice":
            _, start, size, step, *span = entry
            if step < 0:  # the same elements from the low end, reversed after
                flipped.append(dim)
                start, step = start + (size - 1) * step if size else 0, -step
            if span and entry[3] > 0:
                limit = start + span[0]
            else:
                limit = start + max_dim((size - 1) * step + 1, 0) if is_symbolic_dim(size) else (
                    start + (size - 1) * step + 1 if size else start)
        starts.append(start)
        limits.append(limit)
        steps.append(step)
        dim += 1
    if tuple(limits) != tuple(shape) or any([s != 0 for s in starts]) or any(s != 1 for s in steps):
        x = slicing.slice_p.bind(x, start_indices=tuple(starts), limit_indices=tuple(limits),
                                strides=tuple(steps) if any(s != 1 for s in steps) else None)
    return shapes.rev_p.bind(x, dimensions=tuple(flipped)) if flipped else x


class Layout:
    """Where the dimensions of index arrays go: NumPy's rules for advanced indexing.

    - `dims`: the dimensions of the array that are indexed by arrays; `columns`: their index arrays, one each.
    - `batch`: the joint shape of the index arrays; `at`: how many sliced dimensions stand before it in the result.
    - `slices`: `(dimension, start, size, step)` of the others.
    - `final_shape`: the shape of the result, new dimensions included.
    """

    def __init__(self, shape: tuple, entries: tuple, indices: tuple):
        dims, columns, advanced, slices, masks = [], [], [], [], []
        dim = 0
        for position, entry in enumerate(entries):
            kind = entry[0]
            if kind == "new":
                continue
            if kind == "slice":
                slices.append((dim, *entry[1:4]))
            else:
                advanced.append(position)
                if kind == "mask":
                    masks.append(entry[1:])
                    continue
                dims.append(dim)
                columns.append(indices[entry[1]] if kind == "array" else np.int32(entry[1]))
            dim += 1
        self.shape, self.dims, self.columns, self.slices = shape, tuple(dims), columns, slices
        try:
            self.batch = common_shape(*[np.shape(c) for c in columns], *masks)
        except ValueError:
            raise ValueError(str(errors.incompatible_shapes(
                "indexing", [*[("index", np.shape(c)) for c in columns], *[("boolean scalar", n) for n in masks]],
                "Index arrays are broadcast against each other."))) from None
        adjacent = not advanced or advanced[-1] - advanced[0] == len(advanced) - 1
        first = advanced[0] if advanced and adjacent else 0
        self.at = sum(e[0] == "slice" for e in entries[:first])
        final: list[int] = []
        for position, entry in enumerate(entries):
            if position == first:
                final += self.batch
            if entry[0] == "new":
                final.append(1)
            elif entry[0] == "slice":
                final.append(entry[2])
        self.final_shape = tuple(final)

    def index_array(self, wrap: bool, extra: tuple = (), tail: tuple = ()):
        """The index arrays as columns of one array of shape `batch + tail + (number of columns,)`.

        `extra` are more columns, that broadcast against `batch + tail`.
        """
        columns = [wrapped(c, self.shape[d]) if wrap else _as_position(c) for c, d in zip(self.columns, self.dims)]
        wide = max((tracing.aval_of(c).dtype for c in columns), key=lambda d: d.itemsize, default=_int32)
        full = (*self.batch, *tail)
        if columns and not extra and all(isinstance(c, (np.ndarray, np.generic)) for c in columns):
            return np.stack([np.broadcast_to(c, full) for c in columns], axis=-1)
        arranged = []
        for i, c in enumerate((*columns, *extra)):
            if tracing.aval_of(c).dtype != wide:
                c = to_dtype(c, wide)
            last = len(self.batch) if i < len(columns) else len(full)
            arranged.append(shapes.broadcast_in_dim_p.bind(
                c, shape=(*full, 1), broadcast_dimensions=tuple(range(last - np.ndim(c), last)), sharding=None))
        if not arranged:
            return np.zeros((*full, 0), _int32)
        return arranged[0] if len(arranged) == 1 else slicing.concatenate_p.bind(*arranged, dimension=len(full))


def _as_position(index):
    """An index array in a type that can hold positions: int32, or int64 where that is enabled."""
    if type(index) is int:
        return np.int32(min(max(index, -2**31), 2**31 - 1))
    d = tracing.aval_of(index).dtype
    if d.kind == "u" and d.itemsize >= 4:
        top = d.type(2**(8 * d.itemsize - 1) - 1)
        index = min_(top, index)
    if d.itemsize < 4 or d.kind == "u" or d.kind not in "iu":
        wide = np.dtype(np.int64) if d.itemsize == 8 else _int32
        index = to_dtype(index, wide)
    return index


def wrapped(index, n: int):
    """Negative positions count from the end."""
    if isinstance(index, np.generic) or type(index) is int:
        index = int(index)
        return size_as(index + n if index < 0 else min(index, 2**31 - 1), np.int32)
    if isinstance(index, np.ndarray) and not is_symbolic_dim(n):  # known when tracing
        if index.dtype == np.uint64:
            index = np.minimum(index, np.uint64(2**63 - 1))
        index = index.astype(np.int64)
        index = np.where(index < 0, index + n, index)
        return index if n >= 2**31 else index.clip(-2**31, 2**31 - 1).astype(np.int32)
    if tracing.aval_of(index).dtype.kind in "u":
        return _as_position(index)
    index = _as_position(index)
    d = tracing.aval_of(index).dtype
    negative = lt(index, d.type(0))
    return where(negative, add(index, size_as(n, d)), index)


# Functions on whole arrays


def _row_mode(name: str, mode):
    if mode in (None, "fill"):
        return GatherScatterMode.FILL_OR_DROP
    if mode == "raise":
        raise NotImplementedError(f"{name} cannot raise for indices outside: values are not known while a program is "
                                  f"compiled. Use mode='fill', 'clip' or 'wrap'.")
    return "wrap" if mode == "wrap" else GatherScatterMode.from_any(mode)


@library(static=("axis", "mode", "fill_value", "unique", "is_sorted"), name="take")
def _take_kernel(a, indices, axis, mode, fill_value, unique, is_sorted):
    if axis is None:
        a, axis = shapes.reshape_to(unwrap(a), (np.size(a),)), 0
    n = np.shape(a)[axis]
    wrap = mode not in ("wrap", GatherScatterMode.CLIP)
    if mode == "wrap":
        indices = INLINE["remainder"](_as_position(indices), size_as(n, np.int32))
        mode = GatherScatterMode.PROMISE_IN_BOUNDS
    entries = tuple(("array", 0) if i == axis else ("slice", 0, m, 1) for i, m in enumerate(np.shape(a)))
    return read.__wrapped__(a, (indices,), entries, mode, fill_value, is_sorted, unique, wrap)


@library(static=("axis", "out", "mode", "unique_indices", "indices_are_sorted", "fill_value"), lists=("axis", "out"),
         converts="a")
def take(a: ArrayLike, indices: ArrayLike, axis: int | None = None, out: None = None, mode: str | None = None,
         unique_indices: bool = False, indices_are_sorted: bool = False, fill_value: ArrayLike | None = None) -> Array:
    """Elements, or slices, at given positions along an axis.

    - `a`: the array.
    - `indices`: the positions, integers; negative ones count from the end, but for the mode "clip".
    - `axis`: the axis; None takes elements of the array as one vector.
    - `out`: of NumPy's signature; it must be None.
    - `mode`: what positions outside give: NaN or `fill_value` ("fill", as without), the nearest element ("clip"), or they count
      around ("wrap"). NumPy raises an error.
    - `unique_indices`, `indices_are_sorted`: promises about the positions that may make it faster.
    - `fill_value`: for the mode "fill"; without it integers get the least number, unsigned ones the greatest.

    >>> xnp.take(xnp.array([[1, 2, 3], [4, 5, 6]]), xnp.array([2, 0]), axis=1)
    Array([[3, 1],
           [6, 4]], dtype=int32)
    """
    if out is not None:
        raise NotImplementedError("xnp.take cannot write into `out`: arrays do not change. Use the result.")
    check_arraylike("take", a, indices)
    d, way = tracing.aval_of(unwrap(indices)).dtype, _row_mode("take", mode)
    if d == dtypes.bool_ and way in (GatherScatterMode.CLIP, GatherScatterMode.PROMISE_IN_BOUNDS):
        raise ValueError(f"xnp.take needs integer indices for mode={mode!r}, got booleans. To select by a mask use x[mask] or "
                         f"xnp.compress.")
    if d == dtypes.bool_:
        indices = to_dtype(unwrap(indices), _int32)
    elif not dtypes.is_integer(d):
        raise ValueError(f"xnp.take needs integer indices, got {d}.")
    a = unwrap_node(a)
    shape = np.shape(a)
    if axis is not None:
        axis = shapes.canonical_axis(axis, len(shape), "take")
    if 0 in shape and (axis is None or not shape[axis]) and np.size(indices):
        raise IndexError(f"xnp.take cannot select from {'an array' if axis is None else f'axis {axis}'} of size 0.")
    return _take_kernel(a, indices, axis, way, fill_value, bool(unique_indices), bool(indices_are_sorted))


@library(name="take")
def take_rows(a, index):
    """`a[index]` for an index array that is known to be in bounds."""
    shape, positions = np.shape(a), np.shape(index)
    rest = tuple(range(len(positions), len(positions) + len(shape) - 1))
    return bind_gather(a, shapes.reshape_to(index, (*positions, 1)), slice_sizes=(1, *shape[1:]),
                       dimension_numbers=GatherDimensionNumbers(rest, (0,), (0,)), mode=GatherScatterMode.PROMISE_IN_BOUNDS)


def take_inline(a, index, axis: int):
    """`take` for kernels: positions in bounds, nothing checked."""
    return _take_kernel.__wrapped__(a, index, axis, GatherScatterMode.CLIP, None, False, False)


def _take_along_kernel(arr, indices, axis, mode, fill_value, wrap):
    """One batched gather: all dimensions but `axis` are batching dimensions of the operation."""
    shape, wanted = np.shape(arr), np.shape(indices)
    others = [i for i in range(len(shape)) if i != axis]
    joint = common_shape(*[tuple(s[i] for i in others) for s in (shape, wanted)])
    sizes = dict(zip(others, joint))
    full_arr = tuple(shape[i] if i == axis else sizes[i] for i in range(len(shape)))
    full_indices = tuple(wanted[i] if i == axis else sizes[i] for i in range(len(shape)))
    every = tuple(range(len(shape)))
    if full_arr != shape:
        arr = shapes.broadcast_in_dim(arr, full_arr, every)
    if wrap:
        indices = wrapped(indices, shape[axis])
    elif mode is not GatherScatterMode.PROMISE_IN_BOUNDS:
        indices = _as_position(indices)
    if full_indices != wanted:
        indices = shapes.broadcast_in_dim(indices, full_indices, every)
    indices = shapes.reshape_to(indices, (*full_indices, 1))
    numbers = GatherDimensionNumbers((), (axis,), (axis,), tuple(others), tuple(others))
    return bind_gather(arr, indices, dimension_numbers=numbers, slice_sizes=(1,) * len(shape), mode=mode,
                       fill_value=fill_value)


@library(static=("axis", "wrap"), name="take_along_axis")
def _take_along_by_product(arr, indices, axis, wrap):
    """Sums over the axis of the elements where a position is the index: no gather, which some hardware is slow at."""
    n, rank = np.shape(arr)[axis], np.ndim(arr)
    indices = wrapped(indices, n) if wrap else _as_position(indices)
    spread = (*np.shape(indices)[:axis + 1], n, *np.shape(indices)[axis + 1:])
    positions = shapes.counting(tracing.aval_of(indices).dtype, spread, axis + 1)
    chosen = eq(shapes.broadcast_in_dim(indices, spread, [i + (i > axis) for i in range(rank)]), positions)
    arr = shapes.expand_dims(arr, (axis,))
    full = common_shape(spread, np.shape(arr))
    chosen, arr = (x if np.shape(x) == full else shapes.broadcast_in_dim(x, full, range(rank + 1)) for x in (chosen, arr))
    zero = tracing.aval_of(arr).dtype.type(0)
    return reduce_sum_p.bind(where(chosen, arr, zero), axes=(axis + 1,), out_sharding=None)


@library(static=("axis", "mode", "fill_value", "wrap_negative_indices"))
def take_along_axis(arr: ArrayLike, indices: ArrayLike, axis: int | None = -1, mode: Any = None,
                    fill_value: ArrayLike | None = None, *, wrap_negative_indices: bool | None = None) -> Array:
    """For each vector along an axis the elements at positions of its own, as `argsort` gives them.

    - `arr`: the array.
    - `indices`: the positions, in as many dimensions; sizes of 1 broadcast in all but `axis`.
    - `axis`: the axis; None takes from the array as one vector.
    - `mode`: what positions outside give: "fill" a NaN or `fill_value`, "clip" the nearest element; "one_hot" takes by products
      in place of a gather and gives 0 for them; "promise_in_bounds" says that there are none, nor negative ones.
    - `fill_value`: for the mode "fill".
    - `wrap_negative_indices`: whether negative positions count from the end, as they do without.

    >>> x = xnp.array([[3, 1, 2], [6, 5, 4]])
    >>> xnp.take_along_axis(x, xnp.argmin(x, axis=1, keepdims=True), axis=1)
    Array([[1],
           [4]], dtype=int32)
    """
    check_arraylike("take_along_axis", arr, indices)
    arr, indices = unwrap(arr), unwrap(indices)
    if not dtypes.is_integer(tracing.aval_of(indices).dtype):
        raise TypeError(f"xnp.take_along_axis needs integer indices, got {tracing.aval_of(indices).dtype}.")
    if axis is None:
        if np.ndim(indices) != 1:
            raise ValueError(f"xnp.take_along_axis with axis=None needs one-dimensional indices, got {np.shape(indices)}.")
        arr, axis = shapes.reshape_to(arr, (np.size(arr),)), 0
    if np.ndim(arr) != np.ndim(indices):
        raise ValueError(f"xnp.take_along_axis needs as many dimensions in the indices as in the array, got shapes "
                         f"{np.shape(indices)} and {np.shape(arr)}.")
    axis = shapes.canonical_axis(axis, np.ndim(arr), "take_along_axis")
    wrap_negative_indices = wrap_negative_indices is None or bool(wrap_negative_indices)
    if mode in ("one_hot", GatherScatterMode.ONE_HOT):
        return _take_along_by_product(arr, indices, axis, wrap_negative_indices)
    mode = GatherScatterMode.FILL_OR_DROP if mode is None else GatherScatterMode.from_any(mode)
    wrap = wrap_negative_indices and mode is not GatherScatterMode.PROMISE_IN_BOUNDS  # which there are none of
    return _take_along_kernel(arr, indices, axis, mode, fill_value, wrap)
