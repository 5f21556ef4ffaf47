"""Parts of references: what `ref[key]` means, and reading and writing such parts of arrays.

An indexer has an entry for each dimension: an integer, a `Window`, or an `Operand` (positions known when the program runs: a
scalar, or an array). Several indexers one after the other are a view of a view. As in NumPy, integers drop dimensions,
and arrays are broadcast together; unlike there, windows go forward, and masks and new dimensions are not possible.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlafront.core import dtypes, errors, tracing, tree
from xlafront.core.dimensions import common_shape
from xlafront.lax.dimension_numbers import GatherDimensionNumbers, ScatterDimensionNumbers
from xlafront.lax.dynamic_slicing import dynamic_slice_p, dynamic_update_slice_p, start_index
from xlafront.lax.elementwise import add, convert_element_type_p, lt, select, to_dtype
from xlafront.lax.families import add_tangents
from xlafront.lax.indexing import GatherScatterMode, bind_gather, scatter_add_p, scatter_p, scatter_tangents
from xlafront.lax.shapes import broadcast_in_dim_p, reshape_to
from xlafront.lax.slicing import concatenate_p, pad_p, slice_p
from xlafront.runtime.arrays import ArrayImpl

_int32 = np.dtype(np.int32)


class Operand(NamedTuple):
    """An index that is operand number `number` of the operation."""

    number: int


class Window(NamedTuple):
    """`size` positions from `start` on, `stride` apart."""

    start: int | Operand
    size: int
    stride: int = 1


@dataclasses.dataclass(frozen=True)
class Slice:
    """In brackets: `size` positions from `start` on, `stride` apart; only `start` may be known when the program runs.

    >>> Slice.from_slice(slice(1, 6, 2), 10)
    Slice(start=1, size=3, stride=2)
    """

    start: Any
    size: int
    stride: int = 1

    def __post_init__(self):
        if self.stride < 0:
            raise ValueError(f"positions are counted forward: the stride must be >= 0, got {self.stride}.")

    @classmethod
    def from_slice(cls, slc: slice, size: int) -> Slice:
        """The same positions as a slice of a dimension of this size."""
        start, stop, step = slc.indices(size)
        return cls(start, len(range(start, stop, step)), step)

    @property
    def is_dynamic_start(self) -> bool:
        """Whether the program knows the start only when it runs."""
        return not hasattr(type(self.start), "__index__") or isinstance(self.start, tracing.Tracer)

    is_dynamic_size = False


# A start that the program knows is a leaf; all else is part of the structure.
tree.register_pytree_node(
    Slice, lambda s: ((s.start,), (s.size, s.stride)) if s.is_dynamic_start else ((), (s.start, s.size, s.stride)),
    lambda known, starts: Slice(*starts, *known))


def ds(start: Any, size: int | None = None, stride: int | None = None) -> slice | Slice:
    """For the brackets of an array or a reference: so many positions from one that may be known only when the program runs.

    In an array positions outside are moved inside, as by `lax.dynamic_slice`.

    - `start`: the first position; when it is given alone, how many positions from 0 on, or None for all.
    - `size`: how many.
    - `stride`: the distance between them, 1 when left out.

    >>> xf.jit(lambda x, i: x[ds(i, 2)])(xnp.arange(5), 3)
    Array([3, 4], dtype=int32)
    """
    if start is None:
        return slice(None)
    if size is None:
        if not isinstance(start, (int, np.integer)):
            raise TypeError(f"ds(size) takes an integer that is known, got {errors.short(start)}. For positions from there on "
                            "give it a size too: ds(start, size).")
        start, size = 0, start
    return Slice(start, size, 1 if stride is None else stride)


dslice = ds


Indexer = tuple[int | Window | Operand, ...]


# Keys


def plan_key(shape: tuple[int, ...], key: Any, first: int, static_ints: bool) -> tuple[Indexer, list[Any]]:
    """The indexer for `ref[key]`, and its operands, which are numbered from `first` on."""
    items = list(key) if type(key) is tuple else [key]
    dots = sum([i is Ellipsis for i in items])
    if dots > 1:
        raise ValueError("an index can have only one ellipsis ('...')")
    if any([i is None for i in items]):
        raise IndexError("a reference cannot be given a new dimension by its index: use ref[...][None].")
    used = len(items) - dots
    if used > len(shape):
        raise ValueError(f"too many indices: the reference of shape {shape} has {len(shape)} dimension(s), {used} were "
                         "indexed.")
    fill = [slice(None)] * (len(shape) - used)
    place = next((p for p, i in enumerate(items) if i is Ellipsis), None)
    items[len(items) if place is None else place:len(items) if place is None else place + 1] = fill
    operands: list[Any] = []

    def operand(x) -> Operand:
        operands.append(x)
        return Operand(first + len(operands) - 1)

    entries: list[int | Window | Operand] = []
    for dim, (item, n) in enumerate(zip(items, shape)):
        if isinstance(item, slice):
            entries.append(_window_of(item, n, dim))
        elif isinstance(item, Slice):
            if item.is_dynamic_start:
                entries.append(Window(operand(_position(item.start)), item.size, item.stride))
                continue
            start = item.start.__index__()
            if start < 0 or start + (item.size - 1) * item.stride >= n:
                raise ValueError(f"{item} is outside of dimension {dim} of the reference of shape {shape}.")
            entries.append(Window(start, item.size, item.stride))
        else:
            position = _position(item)
            if isinstance(position, int):
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


def _window_of(item: slice, n: int, dim: int) -> Window:
    if any([isinstance(x, tracing.Tracer) and x._concrete() is None for x in (item.start, item.stop, item.step)]):
        raise IndexError(f"the bounds of a slice must be known while tracing, got {item} for dimension {dim}: the size of the "
                         f"result would depend on run-time values. Use lax.dynamic_slice_in_dim of ref[...], or indices "
                         f"start + xnp.arange(size).")
    start, stop, step = item.indices(n)
    if step < 1:
        raise ValueError(f"references are sliced forward, got the step {step} for dimension {dim}. Reverse the value: "
                         f"xnp.flip(ref[...], {dim}).")
    if start >= n > 0:
        raise ValueError(f"the slice {item} is out of bounds for dimension {dim}, of size {n}: it starts at {start}.")
    return Window(start, len(range(start, stop, step)), step)


def _position(item: Any):
    """A Python integer, or what the program will know."""
    if isinstance(item, (bool, np.bool_)):
        raise _mask(item)
    if isinstance(item, (int, np.integer)):
        return int(item)
    if isinstance(item, (list, tuple, str)) or not tracing.is_arraylike(item):
        raise TypeError(f"a reference is indexed by integers, slices, `...` and arrays of integers, not by "
                        f"{type(item).__name__} ({errors.short(item)}).")
    dtype = item.dtype if isinstance(item, np.ndarray) else tracing.aval_of(item).dtype
    if dtype == dtypes.bool_:
        raise _mask(item)
    if not dtypes.is_integer(dtype):
        raise TypeError(f"a reference is indexed by integers, not by an array of dtype {dtype}. Convert it with x.astype(int).")
    if isinstance(item, np.ndarray) and not item.ndim:
        return int(item)
    return item.astype(_int32) if isinstance(item, np.ndarray) else item


def _mask(item) -> IndexError:
    error = errors.NonConcreteBooleanIndexError.__new__(errors.NonConcreteBooleanIndexError)
    IndexError.__init__(error, f"a reference cannot be indexed by a mask, got {errors.short(item)}. Select from the value: "
                               f"xnp.where(mask, new, ref[...]).")
    return error


# Shapes


def whole(shape: tuple[int, ...], indexer: Indexer) -> bool:
    return all([type(e) is Window and e == (0, n, 1) for e, n in zip(indexer, shape)])


def _arrays(indexer: Indexer, shapes: Sequence[tuple[int, ...]]) -> bool:
    return any([type(e) is Operand and shapes[e.number] != () for e in indexer])


def _layout(indexer: Indexer, shapes: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """With index arrays: the shape of the positions, the dimensions that they are of, and where they go in the result."""
    picked = tuple([d for d, e in enumerate(indexer) if type(e) is not Window])
    positions = common_shape(*[shapes[e.number] for e in indexer if type(e) is Operand])
    together = picked[-1] - picked[0] == len(picked) - 1
    return positions, picked, picked[0] if together else 0


def part_shape(shape: tuple[int, ...], indexers: Sequence[Indexer], shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape of what indexers select of a shape; `shapes` are those of the operands."""
    for indexer in indexers:
        if _arrays(indexer, shapes):
            positions, _, place = _layout(indexer, shapes)
            rest = [e.size for e in indexer if type(e) is Window]
            shape = (*rest[:place], *positions, *rest[place:])
        else:
            shape = tuple([e.size for e in indexer if type(e) is Window])
    return shape


# Reading


def read(x, indexers: Sequence[Indexer], operands: Sequence[Any]):
    """The part of an array that indexers select. Positions outside are moved inside."""
    for indexer in indexers:
        shape = np.shape(x)
        if whole(shape, indexer):
            continue
        if _arrays(indexer, list(map(np.shape, operands))):
            x = _gather(_cut(x, _windows(indexer, shape), operands), indexer, operands)
        else:
            part = _cut(x, [e if type(e) is Window else Window(e, 1) for e in indexer], operands)
            x = reshape_to(part, tuple([e.size for e in indexer if type(e) is Window]))
    return x


def _windows(indexer: Indexer, shape) -> list[Window]:
    """The windows, with all of the dimensions that have index arrays or integers."""
    return [e if type(e) is Window else Window(0, n) for e, n in zip(indexer, shape)]


def _starts(windows: Sequence[Window], shape, operands, dynamic: bool) -> list:
    found = []
    for w, n in zip(windows, shape):
        if type(w.start) is Operand:
            found.append(start_index(operands[w.start.number], n))
        else:
            start = w.start + n if w.start < 0 else w.start
            found.append(np.int32(start) if dynamic else start)
    return found


def _cut(x, windows: Sequence[Window], operands):
    shape = np.shape(x)
    if whole(shape, tuple(windows)):
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
    """From the first to the last position of a window."""
    return (w.size - 1) * w.stride + 1 if w.size else 0


def _gather_indices(indexer: Indexer, positions, shape, operands):
    """The index arrays side by side, as gathers and scatters take them."""
    columns = []
    for d, e in enumerate(indexer):
        if type(e) is Window:
            continue
        n = shape[d]
        if type(e) is int:
            column = np.full(positions, e + n if e < 0 else e, _int32)
        else:
            column = operands[e.number]
            column = to_dtype(_wrapped(column, n), _int32)
            rank = np.ndim(column)
            if np.shape(column) != positions:
                column = reshape_to(column, (1,) * (len(positions) - rank) + np.shape(column))
                kept = tuple([i for i, (m, p) in enumerate(zip(np.shape(column), positions)) if m == p])
                column = broadcast_in_dim_p.bind(reshape_to(column, tuple([positions[i] for i in kept])), shape=positions,
                                                 broadcast_dimensions=kept, sharding=None)
        columns.append(broadcast_in_dim_p.bind(column, shape=(*positions, 1), sharding=None,
                                               broadcast_dimensions=tuple(range(len(positions)))))
    return concatenate_p.bind(*columns, dimension=len(positions)) if len(columns) > 1 else columns[0]


def _wrapped(i, n: int):
    """Negative positions count from the end."""
    dtype = tracing.aval_of(i).dtype
    if dtypes.is_unsigned(dtype):
        return i
    if n > np.iinfo(dtype).max:
        i = to_dtype(i, _int32)
        dtype = _int32
    negative = lt(i, _like(0, i, dtype))
    return select(negative, i, add(i, _like(n, i, dtype)))


def _like(value: int, x, dtype):
    return np.full(np.shape(x), value, dtype) if isinstance(x, np.ndarray) else broadcast_in_dim_p.bind(
        np.asarray(value, dtype)[()], shape=np.shape(x), broadcast_dimensions=(), sharding=None)


def _dimensions(indexer: Indexer, operands):
    """What gathers and scatters are told: positions' shape, indexed dimensions, dimensions of windows in the result."""
    positions, picked, place = _layout(indexer, list(map(np.shape, operands)))
    rank = len(positions) + len(indexer) - len(picked)
    return positions, picked, tuple([i for i in range(rank) if not place <= i < place + len(positions)])


def _gather(x, indexer: Indexer, operands):
    positions, picked, offsets = _dimensions(indexer, operands)
    shape = np.shape(x)
    sizes = tuple([1 if d in picked else n for d, n in enumerate(shape)])
    return bind_gather(x, _gather_indices(indexer, positions, shape, operands), slice_sizes=sizes, mode=GatherScatterMode.CLIP,
                       dimension_numbers=GatherDimensionNumbers(offsets, picked, picked))


# Writing


def write(x, indexers: Sequence[Indexer], operands: Sequence[Any], new, scatter: Callable = scatter_p.bind):
    """The array with a part replaced. Windows outside are moved inside, writes to other positions outside are dropped."""
    if not indexers:
        aval, given = tracing.aval_of(x), tracing.aval_of(new)
        if aval.weak_type == given.weak_type:
            return new
        return convert_element_type_p.bind(new, new_dtype=aval.dtype, weak_type=aval.weak_type, sharding=None)
    indexer, *inner = indexers
    if inner:
        new = write(read(x, [indexer], operands), inner, operands, new, scatter)
    shape = np.shape(x)
    if whole(shape, indexer):
        return write(x, (), operands, new)
    if _arrays(indexer, list(map(np.shape, operands))):
        return _scatter(scatter, x, indexer, operands, new)
    return _paste(x, [e if type(e) is Window else Window(e, 1) for e in indexer], operands, new)


def write_tangent(x, indexers: Sequence[Indexer], operands: Sequence[Any], new):
    """As `write`, in operations that are linear in both arrays."""
    return write(x, indexers, operands, new, scatter_tangents)


def accumulate(x, indexers: Sequence[Indexer], operands: Sequence[Any], new):
    """The array with something added to a part; positions that occur twice get both."""
    if not indexers:
        return write(x, (), operands, add_tangents(x, new))
    indexer, *inner = indexers
    if inner or not _arrays(indexer, list(map(np.shape, operands))):
        part = read(x, [indexer], operands)
        return write(x, [indexer], operands, accumulate(part, inner, operands, new))
    return _scatter(scatter_add_p.bind, x, indexer, operands, new)


def _paste(x, windows: Sequence[Window], operands, new):
    shape, sizes = np.shape(x), tuple([w.size for w in windows])
    if whole(shape, tuple(windows)):
        return reshape_to(new, shape)  # of an integer the part has no dimension
    if 0 in sizes:
        return x
    new = reshape_to(new, sizes)
    if any([w.stride > 1 for w in windows]):
        dense = [Window(w.start, _extent(w)) for w in windows]
        zero = np.zeros((), tracing.aval_of(new).dtype)[()]
        spread = pad_p.bind(new, zero, padding_config=tuple([(0, 0, w.stride - 1) for w in windows]))
        written = np.zeros([w.size for w in dense], np.bool_)
        written[tuple([slice(None, None, w.stride) for w in windows])] = True
        new = select(written, _cut(x, dense, operands), spread)
        return _paste(x, dense, operands, new)
    return dynamic_update_slice_p.bind(x, new, *_starts(windows, shape, operands, True))


def _scatter(scatter: Callable, x, indexer: Indexer, operands, new):
    positions, picked, offsets = _dimensions(indexer, operands)
    windows = _windows(indexer, np.shape(x))
    part = _cut(x, windows, operands)
    part = scatter(part, _gather_indices(indexer, positions, np.shape(part), operands), new,
                   dimension_numbers=ScatterDimensionNumbers(offsets, picked, picked), indices_are_sorted=False,
                   unique_indices=False, mode=GatherScatterMode.FILL_OR_DROP)
    return _paste(x, windows, operands, part)


# Text


def text(shape: tuple[int, ...], indexers: Sequence[Indexer], atoms: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> str:
    """`[...]`, `[0,1:]`, `[i:i+2][0]`: the brackets of an equation; `atoms` and `shapes` are those of the operands."""
    brackets = []
    for indexer in indexers:
        brackets.append(f"[{','.join([_entry_text(e, n, atoms) for e, n in zip(indexer, shape)])}]")
        shape = part_shape(shape, [indexer], shapes)
    return "".join(brackets) or "[...]"


def _entry_text(e, n: int, atoms: Sequence[str]) -> str:
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
