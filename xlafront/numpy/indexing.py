"""Indexing: `x[key]` and the functions built on it. The updates `x.at[key]` are in `updates`.

`plan_key` turns any key that NumPy allows in brackets into a hashable plan and the index arrays that the plan refers
to. A plan has an entry for each dimension of the array and for each new dimension, in the order of the key:

- `("slice", start, size, step)`: a static slice, followed by its span if sizes are symbolic;
- `("new",)`: a new dimension of size 1;
- `("int", i)`: a static position;
- `("array", k)`: the positions in index array number `k` (0-d for a single dynamic position);
- `("mask", n)`: a boolean scalar, which indexes no dimension and selects `n` times: 1 if true, 0 if false.

In eager calls, Python integers become index arrays too, so that `x[0]` and `x[1]` share one kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.base import config
from xlafront.base.jaxlib_compat import ArrayImpl
from xlafront.core import dtypes, errors, tracing
from xlafront.core.basic_primitives import to_dtype
from xlafront.core.structs import ShapeDtypeStruct
from xlafront.core.traceback_filter import filter_traceback
from xlafront.core.tree import leaves
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax import dynamic_slicing, shapes, slicing
from xlafront.lax.dimension_numbers import GatherDimensionNumbers, GatherScatterMode
from xlafront.lax.elementwise import add, eq, lt, max_, min_, size_scalar, where
from xlafront.lax.indexing import bind_gather, fill_for
from xlafront.lax.ref_indexing import Slice
from xlafront.lax.shapes import reduce_sum_p
from xlafront.numpy.creation import asarray
from xlafront.numpy.promotion import check_arraylike, promote_dtypes, unwrap, unwrap_node
from xlafront.numpy.ufuncs import INLINE
from xlafront.runtime.keys import KeyArray
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import (
    as_array,
    as_size,
    common_shape,
    is_symbolic,
    is_symbolic_dim,
    max_dim,
    min_dim,
    symbolic_slice,
)

_int32 = np.dtype(np.int32)


# Keys


class KeyHasWindows(Exception):
    """Raised for a key with windows (`ds`). The caller reads the windows first and then indexes the result by
    `remaining_key`."""

    def __init__(self, remaining_key: tuple, windows: tuple[tuple[int, Slice], ...]):
        self.remaining_key, self.windows = remaining_key, windows

    def read(self, x):
        """Return the array within the windows. Windows that reach out of bounds are shifted inside."""
        for dim, window in self.windows:
            if window.stride == 1:
                x = dynamic_slicing.dynamic_slice_in_dim(x, window.start, window.size, dim)
            else:
                x = take_by(x, (*[slice(None)] * dim, _positions(window)), False, "clip", wrap_negative_indices=False)
        return x


def _positions(window: Slice):
    return window.start + window.stride * np.arange(window.size, dtype=np.int32)


def plan_key(shape: tuple, key, static_ints: bool, reads: bool = True) -> tuple[tuple, tuple]:
    """Return the plan for `x[key]` and its index arrays.

    With `reads=False`, index arrays into a dimension of size 0 are allowed: all their positions are out of bounds, and
    updates drop those.
    """
    if type(key) is list:
        raise TypeError(
            f"an array cannot be indexed by a list, got x[{errors.short(key)}]: a list could mean one index for each "
            f"dimension or an array of positions. Use x[numpy.array({errors.short(key)})] or x[tuple(...)].")
    items: list = [_normalize_item(item, shape) for item in key] if type(key) is tuple else [_normalize_item(key, shape)]
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
    is_only_index = sum([item is not None and type(item) not in (slice, Slice) for item in items]) == 1
    dim = 0
    for position, item in enumerate(items):
        if item is None:
            entries.append(("new",))
        elif type(item) is slice:
            entries.append(("slice", *_slice_bounds(item, shape[dim], position)))
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
            dim = _plan_mask(item, shape, dim, position, entries, indices, is_only_index)
        else:
            if shape[dim] == 0 and (np.size(item) if reads else np.ndim(item) == 0):
                raise (TypeError if np.ndim(item) else IndexError)(
                    f"an index array cannot select from dimension {dim}, which has size 0.")
            entries.append(("array", len(indices)))
            indices.append(item)
            dim += 1
    if windows:
        raise KeyHasWindows(tuple(items), windows)
    return tuple(entries), tuple(indices)


_BASIC_TYPES = frozenset((int, slice, type(None), type(Ellipsis)))


def _normalize_item(item, shape):
    """Normalize one item of a key to a Python int, a slice, None, Ellipsis, or an array of integers or booleans."""
    kind = type(item)
    if kind in _BASIC_TYPES:
        return item
    if kind is bool or kind is np.bool_:
        return np.asarray(item)
    if isinstance(item, str):
        raise TypeError(f"an array cannot be indexed by a string, got {item!r}: arrays have no named fields.")
    if isinstance(item, (list, tuple)):
        item = _index_array_of(item)
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


def _index_array_of(items):
    if not items:
        return np.zeros(0, _int32)
    return asarray(items) if any([isinstance(x, (tracing.Tracer, ArrayImpl)) for x in leaves(items)]) else np.asarray(items)


def _is_bool(item) -> bool:
    return item.dtype == np.bool_


def _dimensions_used(item) -> int:
    return item.ndim if type(item) not in _BASIC_TYPES and type(item) is not Slice and _is_bool(item) else 1


def _slice_bounds(item: slice, n: int, position: int) -> tuple[int, ...]:
    """Return start, size and step of a slice of a dimension of size `n`; for a symbolic `n` see `symbolic_slice`."""
    if item.start is None and item.stop is None and item.step is None:
        return 0, n, 1
    if is_symbolic((n, item.start, item.stop, item.step)):
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


def _plan_mask(mask, shape, dim, position, entries, indices, is_only_index: bool) -> int:
    """Append the entries for a boolean index, which selects the positions of its true elements; its values must be
    static."""
    if isinstance(mask, tracing.Tracer):
        raise errors.NonConcreteBooleanIndexError(mask)
    mask = np.asarray(mask)
    if mask.ndim == 0:
        # A boolean scalar adds a dimension of size 1 or 0, broadcast together with the other index arrays.
        if mask and is_only_index:
            entries.append(("new",))
        else:
            entries.append(("mask", int(mask)))
        return dim
    covered = shape[dim:dim + mask.ndim]
    if any([n not in (0, m) for n, m in zip(mask.shape, covered)]):  # a mask without elements selects nothing
        raise IndexError(f"a boolean index must have the shape of the dimensions that it selects from: item {position} "
                         f"has shape {mask.shape}, the array has {covered} there.")
    for positions in np.nonzero(mask):
        entries.append(("array", len(indices)))
        indices.append(positions.astype(_int32))
    return dim + mask.ndim


# Reading

_CONCRETE_TYPES = frozenset((ArrayImpl, KeyArray))


def getitem(x, key):
    """Return `x[key]`. Hot for an integer or a slice on a concrete array: watched by the eager benchmarks."""
    try:
        concrete = type(x) in _CONCRETE_TYPES and tracing.thread.trace is tracing.eval_trace
        if concrete:
            kind = type(key)
            if type(x) is KeyArray:
                is_row = (kind is int or kind is slice) and x.ndim
                keys = KeyArray(getitem(x._base_array, key), x.dtype) if is_row else take_by(x, key, True)
                if config.debug_key_reuse.value:
                    _consume_keys(x, key, keys)
                return keys
            if kind is int:
                shape = x._aval.shape
                if shape and shape[0]:
                    if not -shape[0] <= key < shape[0]:
                        _check_static_indices(shape, (("int", key),), ())
                    return _row(x, key)
            elif kind is slice and x._aval.shape:
                bounds = _slice_bounds(key, x._aval.shape[0], 0)
                if len(bounds) == 3 and bounds[2] == 1:
                    return _rows(x, *bounds[:2])
        return take_by(x, key, concrete)
    except Exception as e:
        filter_traceback(e)
        raise


def _consume_keys(keys: KeyArray, key, taken: KeyArray) -> None:
    """Mark keys taken by a static index as consumed in the array. Other indices are checked only when the keys are
    used."""
    from xlafront.checks import key_reuse  # start-up: only with the setting

    kinds = {type(item) for item in (key if type(key) is tuple else (key,))}
    if kinds <= {int, slice, type(None), type(...)} and kinds & {int, slice}:
        key_reuse.take(keys, key, taken)
    else:
        taken._consumed = key_reuse.handed_on(keys, taken)


@library
def _row(x, index):
    return _select_positions(x, (0,), (index,))


def _select_positions(x, dims: Sequence[int], positions: Sequence[Any]):
    """Select one position in each of `dims`: negative positions count from the end, positions out of bounds are
    clamped."""
    starts: list[Any] = [np.int32(0)] * np.ndim(x)
    for dim, index in zip(dims, positions):
        starts[dim] = wrap_negative(index, np.shape(x)[dim])
    sizes = tuple([1 if i in dims else n for i, n in enumerate(np.shape(x))])
    return shapes.squeeze_p.bind(dynamic_slicing.dynamic_slice_p.bind(x, *starts, slice_sizes=sizes), dimensions=tuple(dims))


def check_sharded_dims(x, sizes, operation: str, remedy: str) -> None:
    """Raise if the type of `x` shards a dimension of which the operation covers only a part (`size` of its indices)."""
    explicit = tracing.aval_of(x).explicit_sharding
    if explicit is None:
        return
    for d, (n, size, entry) in enumerate(zip(np.shape(x), sizes, explicit.spec.partitions)):
        if size not in (n, 0) and entry is not None:
            raise errors.ShardingTypeError(f"{operation} of an array of type {tracing.aval_of(x)} covers {size} of the {n} "
                                           f"indices of the sharded dimension {d} (over {entry!r}): the sharding of the "
                                           f"result is ambiguous. Specify it with {remedy}, or reshard the array first.")


_PARTIAL_READ = "x[...]", "x.at[...].get(out_sharding=P(...))"


@library(static="size")
def _rows(x, start, size):
    shape = np.shape(x)
    check_sharded_dims(x, (size, *shape[1:]), *_PARTIAL_READ)
    return dynamic_slicing.dynamic_slice_p.bind(x, start, *[np.int32(0)] * (len(shape) - 1), slice_sizes=(size, *shape[1:]))


def take_by(x, key, concrete: bool, mode=None, fill_value=None, indices_are_sorted=False, unique_indices=False,
            wrap_negative_indices=True, reader=None):
    """Return `x[key]` with all options of `x.at[key].get`. `reader` replaces `read`."""
    shape = np.shape(x)
    try:
        entries, indices = plan_key(shape, key, not concrete)
    except KeyHasWindows as found:
        return take_by(found.read(x), found.remaining_key, concrete, mode, fill_value, indices_are_sorted, unique_indices,
                       wrap_negative_indices, reader)
    if mode is None:
        _check_static_indices(shape, entries, indices)
    if concrete and x.aval.explicit_sharding is not None:  # traced reads are checked by the primitives' sharding rules
        dim_entries = [entry for entry in entries if entry[0] not in ("new", "mask")]
        check_sharded_dims(x, [entry[2] if entry[0] == "slice" else n for entry, n in zip(dim_entries, shape)], *_PARTIAL_READ)
    if fill_value is not None and not isinstance(fill_value, (int, float, complex, np.generic)):
        fill_value = np.asarray(fill_value)[()]
    if mode is not None and [entry for entry in entries if entry[0] != "new"] == [("slice", 0, n, 1) for n in shape]:
        mode = None  # the whole array is selected: no position is out of bounds
    return (reader or read)(x, indices, entries, _read_mode(mode), fill_value, bool(indices_are_sorted), bool(unique_indices),
                            bool(wrap_negative_indices))


def _check_static_indices(shape: tuple, entries: tuple, indices: tuple) -> None:
    """Raise for Python integers that are out of bounds, if the setting `check_static_indices` is on."""
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
                             "check_static_indices). Negative indices count from the end; x.at[...].get(mode='fill') allows "
                             "any index.")
        dim += 1


def _read_mode(mode):
    if mode is None:  # XLA clamps positions out of bounds; their gradients are dropped
        return GatherScatterMode.PROMISE_IN_BOUNDS
    return GatherScatterMode.from_any(mode)


@library(static=("entries", "mode", "fill_value", "is_sorted", "unique", "wrap"), name="getitem")
@accepts(nodes=True)
def read(x, indices, entries, mode, fill_value, is_sorted, unique, wrap):
    kinds = [e[0] for e in entries]
    if "array" not in kinds and "mask" not in kinds and not (
            mode is GatherScatterMode.PROMISE_IN_BOUNDS and _has_out_of_bounds(np.shape(x), entries, wrap)) and not (
            mode is GatherScatterMode.FILL_OR_DROP and _may_be_outside(np.shape(x), entries, wrap)):
        return _read_static(x, entries, mode, fill_value, wrap)
    x = _apply_slices(x, entries)
    layout = IndexLayout(np.shape(x), entries, indices)
    if not layout.batch and mode is not GatherScatterMode.FILL_OR_DROP:
        positions = layout.columns
        if mode is GatherScatterMode.CLIP:
            positions = [_clamp(index, np.shape(x)[dim], wrap) for dim, index in zip(layout.dims, positions)]
        if not wrap:
            positions = [max_(*promote_dtypes(index, np.int32(0))) for index in positions]
        if layout.dims:
            x = _select_positions(x, layout.dims, positions)
    else:
        x = _gather(x, layout, mode, fill_value, is_sorted, unique, wrap)
    return shapes.reshape_to(x, layout.final_shape)


def _gather(x, layout: IndexLayout, mode, fill_value, is_sorted: bool, unique: bool, wrap: bool):
    """Gather the indexed positions; the result lacks new dimensions."""
    rank = len(layout.batch)
    offset = [i for i in range(rank + len(layout.slices)) if not layout.batch_position <= i < layout.batch_position + rank]
    numbers = GatherDimensionNumbers(tuple(offset), layout.dims, layout.dims)
    sizes = tuple(1 if i in layout.dims else n for i, n in enumerate(np.shape(x)))
    return bind_gather(x, layout.index_array(wrap), dimension_numbers=numbers, slice_sizes=sizes,
                       unique_indices=unique, indices_are_sorted=is_sorted, mode=mode, fill_value=fill_value)


@library(static=("entries", "mode", "fill_value", "is_sorted", "unique", "wrap"), name="getitem")
@accepts(nodes=True)
def read_by_gather(x, indices, entries, mode, fill_value, is_sorted, unique, wrap):
    """Return the elements of a plan, all positions by one gather after the slices."""
    x = _apply_slices(x, entries)
    layout = IndexLayout(np.shape(x), entries, indices)
    if layout.dims:
        x = _gather(x, layout, mode, fill_value, is_sorted, unique, wrap)
    return shapes.reshape_to(x, layout.final_shape)


def _has_out_of_bounds(shape: tuple, entries: tuple, wrap: bool) -> bool:
    """True if a static position is out of bounds. The read is then staged as a gather, whose mode makes this visible in
    the jaxpr."""
    sizes = iter(shape)
    for entry in entries:
        if entry[0] != "new":
            n = next(sizes, 0)
            if entry[0] == "int" and not is_symbolic_dim(n) and not (-n if wrap else 0) <= entry[1] < n:
                return True
    return False


def _may_be_outside(shape: tuple, entries: tuple, wrap: bool) -> bool:
    """True if a static position is out of bounds for some values of the dimension variables."""
    for n, entry in zip(shape, [entry for entry in entries if entry[0] != "new"]):
        if entry[0] == "int" and is_symbolic_dim(n):
            furthest = max(entry[1], -1 - entry[1])
            if min_dim(n - 1, furthest) != furthest or entry[1] < 0 and not wrap:
                return True
    return False


def _clamp(index, n: int, wrap: bool):
    """Return the positions clamped to the array."""
    index = wrap_negative(index, n) if wrap else index
    index, last = promote_dtypes(index, size_scalar(n - 1, np.int32))
    return max_(last.dtype.type(0), min_(last, index))


def _read_static(x, entries, mode, fill_value, wrap):
    """Read by static entries only, as slices and a squeeze or reshape."""
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
    x, squeezed = _apply_slices(x, bounded), tuple([d for d, entry in enumerate(operations) if entry[0] == "int"])
    if len(operations) == len(entries):
        return shapes.squeeze_p.bind(x, dimensions=squeezed) if squeezed else x
    if not squeezed:
        return shapes.broadcast_in_dim(x, final, [d for d, entry in enumerate(entries) if entry[0] == "slice"])
    return shapes.reshape_to(x, tuple(final))


def _apply_slices(x, entries):
    """Apply the static slices of a plan."""
    operations = [entry for entry in entries if entry[0] not in ("new", "mask")]
    backwards = [dim for dim, entry in enumerate(operations) if entry[0] == "slice" and entry[3] < 0]
    symbolic = [dim for dim in backwards if len(operations[dim]) > 4]  # reversed first: all bounds are then in the array
    if symbolic:
        x = shapes.rev_p.bind(x, dimensions=tuple(symbolic))
    shape = np.shape(x)
    starts, limits, steps = [], [], []
    for n, entry in zip(shape, operations):
        start, limit, step = 0, n, 1
        if entry[0] == "slice":
            _, start, size, step, *span = entry
            if span:
                start, step = (start, step) if step > 0 else (n - 1 - start, -step)
                limit = start + span[0]
            else:
                if step < 0:  # slice the same elements forwards, then reverse
                    start, step = start + (size - 1) * step if size else 0, -step
                limit = start + (size - 1) * step + 1 if size else start
        starts.append(start)
        limits.append(limit)
        steps.append(step)
    if tuple(limits) != tuple(shape) or any([s != 0 for s in starts]) or any(s != 1 for s in steps):
        x = slicing.slice_p.bind(x, start_indices=tuple(starts), limit_indices=tuple(limits),
                                 strides=tuple(steps) if any(s != 1 for s in steps) else None)
    flipped = tuple([dim for dim in backwards if dim not in symbolic])
    return shapes.rev_p.bind(x, dimensions=flipped) if flipped else x


class IndexLayout:
    """The layout of the result of an index: NumPy's rules for advanced indexing.

    - `dims`: the dimensions that are indexed by arrays; `columns`: their index arrays, one for each.
    - `batch`: the joint shape of the index arrays; `batch_position`: the number of sliced dimensions in front of it in
      the result.
    - `slices`: `(dimension, start, size, step)` of the other dimensions.
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
        self.batch_position = sum(e[0] == "slice" for e in entries[:first])
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
        """Return the index arrays as columns of one array of shape `batch + tail + (number of columns,)`.

        `extra` holds additional columns, which broadcast against `batch + tail`.
        """
        columns = [wrap_negative(c, self.shape[d]) if wrap else _as_position(c) for c, d in zip(self.columns, self.dims)]
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
    """Convert an index array to a dtype that can hold positions: int32, or int64 if enabled."""
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


def wrap_negative(index, n: int):
    """Return the positions with negative ones counted from the end."""
    if isinstance(index, np.generic) or type(index) is int:
        index = int(index)
        return size_scalar(index + n if index < 0 else min(index, 2**31 - 1), np.int32)
    if isinstance(index, np.ndarray) and not is_symbolic_dim(n):  # static
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
    return where(negative, add(index, size_scalar(n, d)), index)


# Public functions


def _row_mode(name: str, mode):
    if mode in (None, "fill"):
        return GatherScatterMode.FILL_OR_DROP
    if mode == "raise":
        raise NotImplementedError(f"{name} cannot raise for indices out of bounds: values are not known while a function is "
                                  f"compiled. Use mode='fill', 'clip' or 'wrap'.")
    return "wrap" if mode == "wrap" else GatherScatterMode.from_any(mode)


@library(static=("axis", "mode", "fill_value", "unique", "is_sorted"), name="take")
def _take_kernel(a, indices, axis, mode, fill_value, unique, is_sorted):
    if axis is None:
        a, axis = shapes.reshape_to(unwrap(a), (np.size(a),)), 0
    n = np.shape(a)[axis]
    wrap = mode not in ("wrap", GatherScatterMode.CLIP)
    if mode == "wrap":
        indices = INLINE["remainder"](_as_position(indices), size_scalar(n, np.int32))
        mode = GatherScatterMode.PROMISE_IN_BOUNDS
    entries = tuple(("array", 0) if i == axis else ("slice", 0, m, 1) for i, m in enumerate(np.shape(a)))
    return read.__wrapped__(a, (indices,), entries, mode, fill_value, is_sorted, unique, wrap)


@library(static=("axis", "out", "mode", "unique_indices", "indices_are_sorted", "fill_value"))
@accepts(objects="a", lists=("axis", "out"))
def take(a: ArrayLike, indices: ArrayLike, axis: int | None = None, out: None = None, mode: str | None = None,
         unique_indices: bool = False, indices_are_sorted: bool = False, fill_value: ArrayLike | None = None) -> Array:
    """Take elements or slices at given positions along an axis.

    Args:
        a: The source array.
        indices: Integer positions. Negative ones count from the end, except with the mode "clip".
        axis: Axis to take along. Default: take from the flattened array.
        out: Not supported; must be None.
        mode: Treatment of positions out of bounds: "fill" (default) returns NaN or `fill_value`, "clip" clamps, "wrap"
            wraps them around.
        unique_indices, indices_are_sorted: Promises about the positions that may make the operation faster.
        fill_value: Value for the mode "fill". Default: NaN; for signed integers the minimum, for unsigned ones the
            maximum of the dtype.

    Returns:
        The selected elements, with the shape of `indices` in place of `axis`.

    Note:
        NumPy raises an error for positions out of bounds.

    Example:
        >>> xnp.take(xnp.array([[1, 2, 3], [4, 5, 6]]), xnp.array([2, 0]), axis=1)
        Array([[3, 1],
               [6, 4]], dtype=int32)
    """
    if out is not None:
        raise NotImplementedError("numpy.take cannot write into `out`: arrays are immutable. Use the result.")
    check_arraylike("take", a, indices)
    d, resolved_mode = tracing.aval_of(unwrap(indices)).dtype, _row_mode("take", mode)
    if d == dtypes.bool_ and resolved_mode in (GatherScatterMode.CLIP, GatherScatterMode.PROMISE_IN_BOUNDS):
        raise ValueError(f"numpy.take needs integer indices for mode={mode!r}, got booleans. To select by a mask use x[mask] "
                         f"or numpy.compress.")
    if d == dtypes.bool_:
        indices = to_dtype(unwrap(indices), _int32)
    elif not dtypes.is_integer(d):
        raise ValueError(f"numpy.take needs integer indices, got {d}.")
    a = unwrap_node(a)
    shape = np.shape(a)
    if axis is not None:
        axis = shapes.canonical_axis(axis, len(shape), "take")
    if 0 in shape and (axis is None or not shape[axis]) and np.size(indices):
        raise IndexError(f"numpy.take cannot select from {'an array' if axis is None else f'axis {axis}'} of size 0.")
    return _take_kernel(a, indices, axis, resolved_mode, fill_value, bool(unique_indices), bool(indices_are_sorted))


@library(name="take")
@accepts(nodes=True)
def take_rows(a, index):
    """Return `a[index]` for an index array that is in bounds."""
    shape, positions = np.shape(a), np.shape(index)
    rest = tuple(range(len(positions), len(positions) + len(shape) - 1))
    return bind_gather(a, shapes.reshape_to(index, (*positions, 1)), slice_sizes=(1, *shape[1:]),
                       dimension_numbers=GatherDimensionNumbers(rest, (0,), (0,)), mode=GatherScatterMode.PROMISE_IN_BOUNDS)


def take_inline(a, index, axis: int):
    """Run `take` inside a kernel, for positions in bounds, without checks."""
    return _take_kernel.__wrapped__(a, index, axis, GatherScatterMode.CLIP, None, False, False)


def _take_along_kernel(arr, indices, axis, mode, fill_value, wrap):
    """Take along an axis by one gather, whose batching dimensions are all dimensions but `axis`."""
    shape, index_shape = np.shape(arr), np.shape(indices)
    batch_dims = [i for i in range(len(shape)) if i != axis]
    joint = common_shape(*[tuple(s[i] for i in batch_dims) for s in (shape, index_shape)])
    sizes = dict(zip(batch_dims, joint))
    full_arr = tuple(shape[i] if i == axis else sizes[i] for i in range(len(shape)))
    full_indices = tuple(index_shape[i] if i == axis else sizes[i] for i in range(len(shape)))
    all_dims = tuple(range(len(shape)))
    if full_arr != shape:
        arr = shapes.broadcast_in_dim(arr, full_arr, all_dims)
    if wrap:
        indices = wrap_negative(indices, shape[axis])
    elif mode is not GatherScatterMode.PROMISE_IN_BOUNDS:
        indices = _as_position(indices)
    if full_indices != index_shape:
        indices = shapes.broadcast_in_dim(indices, full_indices, all_dims)
    indices = shapes.reshape_to(indices, (*full_indices, 1))
    numbers = GatherDimensionNumbers((), (axis,), (axis,), tuple(batch_dims), tuple(batch_dims))
    return bind_gather(arr, indices, dimension_numbers=numbers, slice_sizes=(1,) * len(shape), mode=mode,
                       fill_value=fill_value)


@library(static=("axis", "wrap"), name="take_along_axis")
def _take_along_by_product(arr, indices, axis, wrap):
    """Take by summing over the axis the elements whose position equals the index, for hardware with slow gathers."""
    n, rank = np.shape(arr)[axis], np.ndim(arr)
    indices = wrap_negative(indices, n) if wrap else _as_position(indices)
    expanded = (*np.shape(indices)[:axis + 1], n, *np.shape(indices)[axis + 1:])
    positions = shapes.counting(tracing.aval_of(indices).dtype, expanded, axis + 1)
    selected = eq(shapes.broadcast_in_dim(indices, expanded, [i + (i > axis) for i in range(rank)]), positions)
    arr = shapes.expand_dims(arr, (axis,))
    full = common_shape(expanded, np.shape(arr))
    selected, arr = (x if np.shape(x) == full else shapes.broadcast_in_dim(x, full, range(rank + 1)) for x in (selected, arr))
    zero = tracing.aval_of(arr).dtype.type(0)
    return reduce_sum_p.bind(where(selected, arr, zero), axes=(axis + 1,), out_sharding=None)


@library(static=("axis", "mode", "fill_value", "wrap_negative_indices"))
@accepts(nodes=True)
def take_along_axis(arr: ArrayLike, indices: ArrayLike, axis: int | None = -1, mode: Any = None,
                    fill_value: ArrayLike | None = None, *, wrap_negative_indices: bool = True) -> Array:
    """Take elements along an axis at positions given for each vector, such as those of `argsort`.

    Args:
        arr: The source array.
        indices: Integer positions with as many dimensions as `arr`; in all dimensions but `axis`, size 1 broadcasts.
        axis: Axis to take along. None: take from the flattened array.
        mode: Treatment of positions out of bounds: "fill" (default) returns NaN or `fill_value`, "clip" clamps,
            "one_hot" computes sums of products instead of a gather and returns 0, "promise_in_bounds" promises that
            there are none.
        fill_value: Value for the mode "fill".
        wrap_negative_indices: If True, negative positions count from the end; if False, they are out of bounds.

    Returns:
        The selected elements, with the broadcast shape of `indices`.

    Example:
        >>> x = xnp.array([[3, 1, 2], [6, 5, 4]])
        >>> xnp.take_along_axis(x, xnp.argmin(x, axis=1, keepdims=True), axis=1)
        Array([[1],
               [4]], dtype=int32)
    """
    check_arraylike("take_along_axis", arr, indices)
    arr, indices = unwrap(arr), unwrap(indices)
    if not dtypes.is_integer(tracing.aval_of(indices).dtype):
        raise TypeError(f"numpy.take_along_axis needs integer indices, got {tracing.aval_of(indices).dtype}.")
    if axis is None:
        if np.ndim(indices) != 1:
            raise ValueError(f"numpy.take_along_axis with axis=None needs one-dimensional indices, got {np.shape(indices)}.")
        arr, axis = shapes.reshape_to(arr, (np.size(arr),)), 0
    if np.ndim(arr) != np.ndim(indices):
        raise ValueError(f"numpy.take_along_axis needs as many dimensions in the indices as in the array, got shapes "
                         f"{np.shape(indices)} and {np.shape(arr)}.")
    axis = shapes.canonical_axis(axis, np.ndim(arr), "take_along_axis")
    wrap = bool(wrap_negative_indices)
    if mode in ("one_hot", GatherScatterMode.ONE_HOT):
        return _take_along_by_product(arr, indices, axis, wrap)
    if np.shape(arr)[axis] == 0 and np.shape(indices)[axis] != 0:
        raise IndexError(f"numpy.take_along_axis cannot select from axis {axis} of size 0.")
    mode = GatherScatterMode.FILL_OR_DROP if mode is None else GatherScatterMode.from_any(mode)
    return _take_along_kernel(arr, indices, axis, mode, fill_value, wrap)
