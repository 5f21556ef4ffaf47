"""Indices of references: parse `ref[key]`, and read and write the selected part of an array.

An indexer has one entry per dimension: an integer, a `Window`, or an `Operand` (run-time positions: a scalar or an array). A
sequence of indexers is a view of a view. As in NumPy, integers drop dimensions and index arrays are broadcast together; unlike
NumPy, windows have positive strides, and masks and new dimensions are not supported.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xlafront.base.jaxlib_compat import ArrayImpl
from xlafront.core import dtypes, errors, tracing, tree
from xlafront.core.basic_primitives import broadcast_in_dim_p, convert_element_type_p, get_p, to_dtype
from xlafront.core.refs import is_ref
from xlafront.core.tangents import add_tangents
from xlafront.lax.dimension_numbers import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from xlafront.lax.dynamic_slicing import dynamic_slice_p, dynamic_update_slice_p, start_index
from xlafront.lax.elementwise import add, lt, select
from xlafront.lax.indexing import bind_gather, scatter_add_p, scatter_p, scatter_tangents
from xlafront.lax.shapes import reshape_to
from xlafront.lax.slicing import concatenate_p, pad_p, slice_p
from xlafront.symbolic.dimensions import common_shape

if TYPE_CHECKING:
    from xlafront.core.typing import Array, ArrayLike

_int32 = np.dtype(np.int32)


class Operand(NamedTuple):
    """An index that is operand number `number` of the operation. A copy skips positions whose index is `ignored`."""

    number: int
    ignored: int | None = None


class Window(NamedTuple):
    """`size` positions from `start`, `stride` apart."""

    start: int | Operand
    size: int
    stride: int = 1


@dataclasses.dataclass(frozen=True)
class Slice:
    """An index: `size` positions from `start`, `stride` apart. Only `start` may be a run-time value.

    Example:
        >>> Slice.from_slice(slice(1, 6, 2), 10)
        Slice(start=1, size=3, stride=2)
    """

    start: Any
    size: int
    stride: int = 1

    def __post_init__(self) -> None:
        if self.stride < 0:
            raise ValueError(f"the stride of a Slice must be >= 0, got {self.stride}.")

    @classmethod
    def from_slice(cls, slc: slice, size: int) -> Slice:
        """Return the `Slice` with the positions of `slc` in a dimension of this size."""
        start, stop, step = slc.indices(size)
        return cls(start, len(range(start, stop, step)), step)

    @property
    def is_dynamic_start(self) -> bool:
        """True if the start is a run-time value."""
        return not hasattr(type(self.start), "__index__") or isinstance(self.start, tracing.Tracer)

    is_dynamic_size = False


@dataclasses.dataclass(frozen=True)
class Indices:
    """An index of a copy on a SparseCore: rows at an array of indices, without those whose index has a value.

    Args:
        values: The indices, a vector or a reference to one.
        ignored_value: Index of rows that are not copied. Default: all are.

    Example:
        >>> def kernel(x_ref, i_ref, rows_ref, sem_ref):
        ...     pl.tpu.async_copy(x_ref.at[pl.tpu_sc.Indices(i_ref, ignored_value=-1)], rows_ref, sem_ref).wait()
    """

    values: Any
    ignored_value: int | None = None

    def __post_init__(self) -> None:
        ignored = self.ignored_value
        if ignored is not None and (isinstance(ignored, bool) or not isinstance(ignored, (int, np.integer))):
            raise TypeError(f"Indices takes an integer or None as ignored_value, got {errors.short(ignored)}.")


# A run-time start is a leaf; everything else is part of the tree structure.
tree.register_pytree_node(
    Slice, lambda s: ((s.start,), (s.size, s.stride)) if s.is_dynamic_start else ((), (s.start, s.size, s.stride)),
    lambda static, starts: Slice(*starts, *static))


def ds(start: Any, size: int | None = None, stride: int | None = None) -> slice | Slice:
    """Return an index of `size` positions from `start`, which may be a run-time value, for arrays and references.

    Array positions out of bounds are clamped, as in `lax.dynamic_slice`.

    Args:
        start: First position. If it is the only argument: the number of positions, counted from 0, or None for all.
        size: Number of positions.
        stride: Distance between positions. Default: 1.

    Returns:
        A `Slice`, or `slice(None)` for `ds(None)`.

    Example:
        >>> xf.jit(lambda x, i: x[ds(i, 2)])(xnp.arange(5), 3)
        Array([3, 4], dtype=int32)
    """
    if start is None:
        return slice(None)
    if size is None:
        if not isinstance(start, (int, np.integer)):
            raise TypeError(f"ds(size) takes a static integer, got {errors.short(start)}. For positions from a run-time start, "
                            "give the size too: ds(start, size).")
        start, size = 0, start
    if isinstance(size, (int, np.integer)) and size < 0:
        raise ValueError(f"ds takes a size of 0 at least, got {size}.")
    return Slice(start, size, 1 if stride is None else stride)


dslice = ds


Indexer = tuple[int | Window | Operand, ...]


# Keys


def plan_key(shape: tuple[int, ...], key: Any, first: int, static_ints: bool) -> tuple[Indexer, list[Any]]:
    """Return the indexer for `ref[key]`, and its operands, which are numbered from `first`."""
    items = list(key) if type(key) is tuple else [key]
    dots = sum([i is Ellipsis for i in items])
    if dots > 1:
        raise ValueError("an index can have only one ellipsis ('...')")
    if any([i is None for i in items]):
        raise IndexError("an index of a reference cannot add a new dimension: use ref[...][None].")
    num_indexed = len(items) - dots
    if num_indexed > len(shape):
        raise ValueError(f"too many indices: the reference of shape {shape} has {len(shape)} dimension(s), {num_indexed} were "
                         "indexed.")
    fill = [slice(None)] * (len(shape) - num_indexed)
    ellipsis = next((p for p, i in enumerate(items) if i is Ellipsis), None)
    items[len(items) if ellipsis is None else ellipsis:len(items) if ellipsis is None else ellipsis + 1] = fill
    operands: list[Any] = []

    def operand(x: ArrayLike) -> Operand:
        operands.append(x)
        return Operand(first + len(operands) - 1)

    entries: list[int | Window | Operand] = []
    for dim, (item, n) in enumerate(zip(items, shape)):
        if isinstance(item, slice):
            entries.append(_window_of_slice(item, n, dim))
        elif isinstance(item, Slice):
            if item.is_dynamic_start:
                entries.append(Window(operand(_check_index(item.start)), item.size, item.stride))
                continue
            start = item.start.__index__()
            if start < 0 or start + (item.size - 1) * item.stride >= n:
                raise ValueError(f"{item} is outside of dimension {dim} of the reference of shape {shape}.")
            entries.append(Window(start, item.size, item.stride))
        else:
            position = _check_index(item.values if isinstance(item, Indices) else item)
            if isinstance(item, Indices) and item.ignored_value is not None:
                entries.append(operand(position)._replace(ignored=int(item.ignored_value)))
            elif isinstance(position, int):
                if not -n <= position < n:
                    raise ValueError(f"index {position} is out of bounds for dimension {dim} of the reference of shape "
                                     f"{shape}.")
                entries.append(position if static_ints else operand(np.int32(position)))
            else:
                if isinstance(position, ArrayImpl) and not position.ndim and int(position) >= n:
                    raise ValueError(f"index {int(position)} is out of bounds for dimension {dim} of the reference of shape "
                                     f"{shape}.")
                entries.append(operand(position))
    return tuple(entries), operands


def _window_of_slice(item: slice, n: int, dim: int) -> Window:
    if any([isinstance(x, tracing.Tracer) and x._concrete() is None for x in (item.start, item.stop, item.step)]):
        raise IndexError(f"the bounds of a slice must be known while tracing, got {item} for dimension {dim}: the size of the "
                         f"result would depend on run-time values. Use lax.dynamic_slice_in_dim of ref[...], or the indices "
                         f"start + numpy.arange(size).")
    start, stop, step = item.indices(n)
    if step < 1:
        raise ValueError(f"references can only be sliced forward, got the step {step} for dimension {dim}. Reverse the value: "
                         f"numpy.flip(ref[...], {dim}).")
    if start >= n > 0:
        raise ValueError(f"the slice {item} is out of bounds for dimension {dim}, of size {n}: it starts at {start}.")
    return Window(start, len(range(start, stop, step)), step)


def _check_index(item: Any) -> Any:
    """Return a Python integer if the index is static, else the index array. Raise an error for other types."""
    if isinstance(item, (bool, np.bool_)):
        raise _mask_error(item)
    if isinstance(item, (int, np.integer)):
        return int(item)
    if is_ref(item):
        item = get_p.bind(item, tree=())
    if isinstance(item, (list, tuple, str)) or not tracing.is_arraylike(item):
        raise TypeError(f"indices of a reference are integers, slices, `...` and arrays of integers, got "
                        f"{type(item).__name__} ({errors.short(item)}).")
    dtype = item.dtype if isinstance(item, np.ndarray) else tracing.aval_of(item).dtype
    if dtype == dtypes.bool_:
        raise _mask_error(item)
    if not dtypes.is_integer(dtype):
        raise TypeError(f"index arrays of a reference must be integers, got dtype {dtype}. Convert it with x.astype(int).")
    if isinstance(item, np.ndarray) and not item.ndim:
        return int(item)
    return item.astype(_int32) if isinstance(item, np.ndarray) else item


def _mask_error(item: Any) -> IndexError:
    error = errors.NonConcreteBooleanIndexError.__new__(errors.NonConcreteBooleanIndexError)
    IndexError.__init__(error, f"a reference cannot be indexed by a mask, got {errors.short(item)}. Select from the value: "
                               f"numpy.where(mask, new, ref[...]).")
    return error


# Shapes


def selects_all(shape: tuple[int, ...], indexer: Indexer) -> bool:
    return all([type(e) is Window and e == (0, n, 1) for e, n in zip(indexer, shape)])


def _has_arrays(indexer: Indexer, shapes: Sequence[tuple[int, ...]]) -> bool:
    return any([type(e) is Operand and shapes[e.number] != () for e in indexer])


def array_dimensions(indexer: Indexer, shapes: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Return the shape of the broadcast index arrays, the indexed dimensions, and the position of the former in the result."""
    indexed = tuple([d for d, e in enumerate(indexer) if type(e) is not Window])
    positions = common_shape(*[shapes[e.number] for e in indexer if type(e) is Operand])
    adjacent = indexed[-1] - indexed[0] == len(indexed) - 1
    return positions, indexed, indexed[0] if adjacent else 0


def selected_shape(shape: tuple[int, ...], indexers: Sequence[Indexer], shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape of the part of an array that indexers select. `shapes` are the shapes of the operands."""
    for indexer in indexers:
        if _has_arrays(indexer, shapes):
            positions, _, position = array_dimensions(indexer, shapes)
            window_sizes = [e.size for e in indexer if type(e) is Window]
            shape = (*window_sizes[:position], *positions, *window_sizes[position:])
        else:
            shape = tuple([e.size for e in indexer if type(e) is Window])
    return shape


# Reading


def read(x: Array, indexers: Sequence[Indexer], operands: Sequence[Any]) -> Array:
    """Return the part of an array that indexers select. Positions out of bounds are clamped."""
    for indexer in indexers:
        shape = np.shape(x)
        if selects_all(shape, indexer):
            continue
        if _has_arrays(indexer, list(map(np.shape, operands))):
            x = _gather(_slice_windows(x, _windows_before_gather(indexer, shape), operands), indexer, operands)
        else:
            window = _slice_windows(x, [e if type(e) is Window else Window(e, 1) for e in indexer], operands)
            x = reshape_to(window, tuple([e.size for e in indexer if type(e) is Window]))
    return x


def _windows_before_gather(indexer: Indexer, shape: Sequence[int]) -> list[Window]:
    """Return the windows; dimensions with index arrays or integers remain complete."""
    return [e if type(e) is Window else Window(0, n) for e, n in zip(indexer, shape)]


def _starts(windows: Sequence[Window], shape: Sequence[int], operands: Sequence[Any], dynamic: bool) -> list:
    starts = []
    for w, n in zip(windows, shape):
        if type(w.start) is Operand:
            starts.append(start_index(operands[w.start.number], n))
        else:
            start = w.start + n if w.start < 0 else w.start
            starts.append(np.int32(start) if dynamic else start)
    return starts


def _slice_windows(x: Array, windows: Sequence[Window], operands: Sequence[Any]) -> Array:
    shape = np.shape(x)
    if selects_all(shape, tuple(windows)):
        return x
    dynamic = any([type(w.start) is Operand for w in windows])
    starts, sizes = _starts(windows, shape, operands, dynamic), [_extent(w) for w in windows]
    strides = tuple([w.stride for w in windows])
    steps = None if max(strides) == 1 else strides
    if not dynamic:
        return slice_p.bind(x, start_indices=tuple(starts), limit_indices=tuple([s + m for s, m in zip(starts, sizes)]),
                            strides=steps)
    x = dynamic_slice_p.bind(x, *starts, slice_sizes=tuple(sizes))
    if steps is None:
        return x
    return slice_p.bind(x, start_indices=(0,) * len(sizes), limit_indices=tuple(sizes), strides=steps)


def _extent(w: Window) -> int:
    """Return the distance from the first position of a window to its end."""
    return (w.size - 1) * w.stride + 1 if w.size else 0


def _gather_indices(indexer: Indexer, positions: tuple[int, ...], shape: Sequence[int], operands: Sequence[Any]) -> Array:
    """Concatenate the index arrays into index vectors, as gather and scatter take them."""
    columns = []
    for d, e in enumerate(indexer):
        if type(e) is Window:
            continue
        n = shape[d]
        if type(e) is int:
            column = np.full(positions, e + n if e < 0 else e, _int32)
        else:
            column = operands[e.number]  # type: ignore[union-attr]
            column = to_dtype(_wrap_negative(column, n), _int32)
            rank = np.ndim(column)
            if np.shape(column) != positions:
                column = reshape_to(column, (1,) * (len(positions) - rank) + np.shape(column))
                broadcast_dims = tuple([i for i, (m, p) in enumerate(zip(np.shape(column), positions)) if m == p])
                column = reshape_to(column, tuple([positions[i] for i in broadcast_dims]))
                column = broadcast_in_dim_p.bind(column, shape=positions, broadcast_dimensions=broadcast_dims, sharding=None)
        columns.append(broadcast_in_dim_p.bind(column, shape=(*positions, 1), sharding=None,
                                               broadcast_dimensions=tuple(range(len(positions)))))
    return concatenate_p.bind(*columns, dimension=len(positions)) if len(columns) > 1 else columns[0]


def _wrap_negative(i: Array, n: int) -> Array:
    """Add the size of the dimension to negative positions."""
    dtype = tracing.aval_of(i).dtype
    if dtypes.is_unsigned(dtype):
        return i
    if n > np.iinfo(dtype).max:
        i = to_dtype(i, _int32)
        dtype = _int32
    negative = lt(i, _constant_like(0, i, dtype))
    return select(negative, i, add(i, _constant_like(n, i, dtype)))


def _constant_like(value: int, x: Array, dtype: np.dtype) -> Any:
    return np.full(np.shape(x), value, dtype) if isinstance(x, np.ndarray) else broadcast_in_dim_p.bind(
        np.asarray(value, dtype)[()], shape=np.shape(x), broadcast_dimensions=(), sharding=None)


def _gather_dimensions(indexer: Indexer, operands: Sequence[Any]) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return the shape of the index arrays, the indexed dimensions, and the offset dimensions of the result."""
    positions, indexed, position = array_dimensions(indexer, list(map(np.shape, operands)))
    rank = len(positions) + len(indexer) - len(indexed)
    return positions, indexed, tuple([i for i in range(rank) if not position <= i < position + len(positions)])


def _gather(x: Array, indexer: Indexer, operands: Sequence[Any]) -> Array:
    positions, indexed, offsets = _gather_dimensions(indexer, operands)
    shape = np.shape(x)
    sizes = tuple([1 if d in indexed else n for d, n in enumerate(shape)])
    return bind_gather(x, _gather_indices(indexer, positions, shape, operands), slice_sizes=sizes, mode=GatherScatterMode.CLIP,
                       dimension_numbers=GatherDimensionNumbers(offsets, indexed, indexed))


# Writing


def write(x: Array, indexers: Sequence[Indexer], operands: Sequence[Any], new: Array, scatter: Callable = scatter_p.bind
          ) -> Array:
    """Return an array with a part replaced. Windows out of bounds are clamped; other updates out of bounds are dropped."""
    if not indexers:
        aval, new_aval = tracing.aval_of(x), tracing.aval_of(new)
        if aval.weak_type == new_aval.weak_type:
            return new
        return convert_element_type_p.bind(new, new_dtype=aval.dtype, weak_type=aval.weak_type, sharding=None)
    indexer, *inner = indexers
    if inner:
        new = write(read(x, [indexer], operands), inner, operands, new, scatter)
    shape = np.shape(x)
    if selects_all(shape, indexer):
        return write(x, (), operands, new)
    if _has_arrays(indexer, list(map(np.shape, operands))):
        return _scatter(scatter, x, indexer, operands, new)
    return _update_windows(x, [e if type(e) is Window else Window(e, 1) for e in indexer], operands, new)


def write_tangent(x: Array, indexers: Sequence[Indexer], operands: Sequence[Any], new: Array) -> Array:
    """Do the same as `write`, with operations that are linear in both arrays."""
    return write(x, indexers, operands, new, scatter_tangents)


def accumulate(x: Array, indexers: Sequence[Indexer], operands: Sequence[Any], new: Array) -> Array:
    """Return an array with values added to a part. Repeated positions accumulate."""
    if not indexers:
        return write(x, (), operands, add_tangents(x, new))
    indexer, *inner = indexers
    if inner or not _has_arrays(indexer, list(map(np.shape, operands))):
        current = read(x, [indexer], operands)
        return write(x, [indexer], operands, accumulate(current, inner, operands, new))
    return _scatter(scatter_add_p.bind, x, indexer, operands, new)


def _update_windows(x: Array, windows: Sequence[Window], operands: Sequence[Any], new: Array) -> Array:
    shape, sizes = np.shape(x), tuple([w.size for w in windows])
    if selects_all(shape, tuple(windows)):
        return reshape_to(new, shape)  # integers have dropped dimensions
    if 0 in sizes:
        return x
    new = reshape_to(new, sizes)
    if any([w.stride > 1 for w in windows]):
        dense = [Window(w.start, _extent(w)) for w in windows]
        zero = np.zeros((), tracing.aval_of(new).dtype)[()]
        dilated = pad_p.bind(new, zero, padding_config=tuple([(0, 0, w.stride - 1) for w in windows]))
        mask = np.zeros([w.size for w in dense], np.bool_)
        mask[tuple([slice(None, None, w.stride) for w in windows])] = True
        new = select(mask, _slice_windows(x, dense, operands), dilated)
        return _update_windows(x, dense, operands, new)
    return dynamic_update_slice_p.bind(x, new, *_starts(windows, shape, operands, True))


def _scatter(scatter: Callable, x: Array, indexer: Indexer, operands: Sequence[Any], new: Array) -> Array:
    positions, indexed, offsets = _gather_dimensions(indexer, operands)
    windows = _windows_before_gather(indexer, np.shape(x))
    window = _slice_windows(x, windows, operands)
    window = scatter(window, _gather_indices(indexer, positions, np.shape(window), operands), new,
                   dimension_numbers=ScatterDimensionNumbers(offsets, indexed, indexed), indices_are_sorted=False,
                   unique_indices=False, mode=GatherScatterMode.FILL_OR_DROP)
    return _update_windows(x, windows, operands, window)


# Text


def text(shape: tuple[int, ...], indexers: Sequence[Indexer], atoms: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> str:
    """Return the brackets of an equation: `[...]`, `[0,1:]`, `[i:i+2][0]`. `atoms` and `shapes` describe the operands."""
    brackets = []
    for indexer in indexers:
        brackets.append(f"[{','.join([_entry_text(e, n, atoms) for e, n in zip(indexer, shape)])}]")
        shape = selected_shape(shape, [indexer], shapes)
    return "".join(brackets) or "[...]"


def _entry_text(e: Any, n: int, atoms: Sequence[str]) -> str:
    if type(e) is int:
        return str(e)
    if type(e) is Operand:
        return atoms[e.number]
    step = f":{e.stride}" if e.stride > 1 else ""
    if type(e.start) is Operand:
        start = atoms[e.start.number]
        return f"{start}:{start}+{_extent(e)}{step}"
    stop = e.start + _extent(e)
    return f"{e.start or ''}:{'' if stop == n else stop}{step}"
