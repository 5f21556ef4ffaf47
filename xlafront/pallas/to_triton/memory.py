"""References as pointers and masks: reads, writes and atomic updates of parts of blocks.

The first element of a block is at `Block.pointer`. The elements of a part are at offsets from there, a sum of one term for each
dimension of the block. Elements beyond the edge of the array are masked.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xlafront.lax.ref_indexing import Operand, Window, array_dimensions
from xlafront.lowering.mlir import ir
from xlafront.pallas.kernel_elementwise import bitcast_elements, compare, convert
from xlafront.pallas.kernel_equations import unsupported
from xlafront.pallas.kernel_mlir import Rule, kind_of
from xlafront.pallas.to_triton.writer import TritonWriter, is_power_of_two, memory_dtype

_int32, _int64 = np.dtype(np.int32), np.dtype(np.int64)


class BlockDim(NamedTuple):
    """A dimension of a block: its size, the distance of elements in memory, and the bounds of positions in the array, if the
    block may reach beyond it.
    """

    size: int
    stride: int
    low: ir.Value | None = None
    high: ir.Value | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Block:
    """A reference of a kernel.

    Args:
        name: The user's name of the array, for messages.
        dtype: dtype of the elements.
        pointer: Pointer to the first element.
        dims: The dimensions.
    """

    name: str
    dtype: np.dtype
    pointer: ir.Value
    dims: tuple[BlockDim, ...]

    @property
    def index_dtype(self) -> np.dtype:
        """The dtype of offsets."""
        return _int64 if sum([(d.size - 1) * d.stride for d in self.dims]) >> 31 else _int32


class Position:
    """Positions along a dimension of a block: `start + offset + step * range(size)` along an axis of the part, or indices."""

    def __init__(self, size: int) -> None:
        self.start: ir.Value | None = None  # a scalar
        self.offset, self.step, self.size = 0, 1, size
        self.indices: ir.Value | None = None  # of the rank of the part
        self.axis: int | None = None

    def move(self, w: TritonWriter, value: ir.Value, dtype: np.dtype) -> None:
        """Move the start by `step * value`."""
        term = value if self.step == 1 else w.op("arith.muli", [value, w.constant(self.step, (), dtype)])
        self.start = term if self.start is None else w.op("arith.addi", [self.start, term])


# Positions of a part


def part(w: TritonWriter, block: Block, indexers: Sequence[tuple], operands: Sequence[ir.Value], avals: Sequence[Any]
         ) -> tuple[list[Position], tuple[int, ...]]:
    """Return the positions along each dimension of a block that indexers select, and the shape of the part."""
    dtype = block.index_dtype
    positions = [Position(d.size) for d in block.dims]
    axes = list(range(len(positions)))  # the dimensions of the block that are dimensions of the view
    shapes = [a.shape for a in avals]
    scalars = [x if a.shape else convert(w, x, (), a.dtype, dtype) for x, a in zip(operands, avals)]
    shape: tuple[int, ...] = tuple([d.size for d in block.dims])
    for k, indexer in enumerate(indexers):
        if any([type(e) is Operand and shapes[e.number] for e in indexer]):
            if k < len(indexers) - 1:
                raise unsupported(w, f"a view of a view of {block.name} by index arrays", "Combine the indices into one.")
            return positions, _select_arrays(w, indexer, [positions[d] for d in axes], scalars, avals, dtype)
        remaining = []
        for d, e in zip(axes, indexer):
            _select(w, positions[d], e, scalars, dtype)
            if type(e) is Window:
                remaining.append(d)
        axes = remaining
        shape = tuple([positions[d].size for d in axes])
    for axis, d in enumerate(axes):
        positions[d].axis = axis
    return positions, shape


def _select(w: TritonWriter, position: Position, entry: Any, scalars: Sequence[ir.Value], dtype: np.dtype) -> None:
    """Narrow positions by an entry of an indexer: an integer, a window or a scalar."""
    start = entry.start if type(entry) is Window else entry
    if type(start) is Operand:
        position.move(w, scalars[start.number], dtype)
    else:
        position.offset += position.step * (start + position.size if start < 0 else start)
    if type(entry) is Window:
        position.step, position.size = position.step * entry.stride, entry.size


def _select_arrays(w: TritonWriter, indexer: tuple, positions: Sequence[Position], operands: Sequence[ir.Value],
                   avals: Sequence[Any], dtype: np.dtype) -> tuple[int, ...]:
    """Narrow positions by an indexer with index arrays, and return the shape of the part."""
    shapes = [a.shape for a in avals]
    array_shape, _, first = array_dimensions(indexer, shapes)
    sizes = [e.size for e in indexer if type(e) is Window]
    shape = (*sizes[:first], *array_shape, *sizes[first:])
    window = 0
    for position, e in zip(positions, indexer):
        if type(e) is not Operand or not shapes[e.number]:
            _select(w, position, e, operands, dtype)
            if type(e) is Window:
                position.axis = window if window < first else window + len(array_shape)
                window += 1
            continue
        x, aval = operands[e.number], avals[e.number]
        x = convert(w, x, aval.shape, aval.dtype, dtype)
        if position.step != 1:
            x = w.op("arith.muli", [x, w.constant(position.step, aval.shape, dtype)])
        # of the rank of the part: the arrays' dimensions are after `first` windows, and before the others
        x_shape = (1,) * (first + len(array_shape) - len(aval.shape)) + aval.shape
        x = w.broadcast(x, aval.shape, x_shape)
        for _ in range(len(shape) - len(x_shape)):
            x, x_shape = w.expand(x, x_shape, len(x_shape)), (*x_shape, 1)
        position.indices = x
    return shape


# Pointers and masks


def pointers(w: TritonWriter, block: Block, indexers: Sequence[tuple], operands: Sequence[ir.Value], avals: Sequence[Any]
             ) -> tuple[ir.Value, ir.Value | None, tuple[int, ...]]:
    """Return pointers to the elements of a part, a mask of those within the array (None: all), and the shape of the part."""
    positions, shape = part(w, block, indexers, operands, avals)
    _check_shape(w, block, shape)
    dtype = block.index_dtype
    pointer, terms = _scalar_part(w, block, positions, dtype), []
    mask: ir.Value | None = None
    for d, position in zip(block.dims, positions):
        local = _local(w, position, len(shape), dtype)
        if local is not None and d.stride:
            terms.append(local if d.stride == 1 else w.op("arith.muli", [local, _like(w, local, d.stride, dtype)]))
        for name, bound in (("lt", d.high), ("ge", d.low)):
            if bound is not None:
                is_inside = _is_within(w, name, position, local, convert(w, bound, (), _int32, dtype), dtype)
                is_inside = w.broadcast(is_inside, _shape(is_inside), shape)
                mask = is_inside if mask is None else w.op("arith.andi", [mask, is_inside])
    if shape:
        pointer = w.broadcast(pointer, (), shape)
        for i, term in enumerate(terms):
            terms[i] = w.broadcast(term, _shape(term), shape)
        if terms:
            pointer = w.add_to_pointer(pointer, functools.reduce(lambda x, y: w.op("arith.addi", [x, y]), terms))
    return pointer, mask, shape


def _scalar_part(w: TritonWriter, block: Block, positions: Sequence[Position], dtype: np.dtype) -> ir.Value:
    """Return the pointer to the position that all elements of a part start from."""
    static = sum([d.stride * p.offset for d, p in zip(block.dims, positions)])
    total = w.constant(static, (), dtype) if static else None
    for d, p in zip(block.dims, positions):
        if p.start is not None and d.stride:
            term = p.start if d.stride == 1 else w.op("arith.muli", [p.start, w.constant(d.stride, (), dtype)])
            total = term if total is None else w.op("arith.addi", [total, term])
    return block.pointer if total is None else w.add_to_pointer(block.pointer, total)


def _local(w: TritonWriter, position: Position, rank: int, dtype: np.dtype) -> ir.Value | None:
    """Return the positions relative to the scalar start, of the rank of the part; None if they are all 0."""
    if position.indices is not None:
        return position.indices
    if position.axis is None or position.size == 1 and position.step == 0:
        return None
    x = convert(w, w.range(position.size), (position.size,), _int32, dtype)
    if position.step != 1:
        x = w.op("arith.muli", [x, _like(w, x, position.step, dtype)])
    return w.along(x, position.axis, rank)


def _is_within(w: TritonWriter, name: str, position: Position, local: ir.Value | None, bound: ir.Value, dtype: np.dtype
               ) -> ir.Value:
    """Compare positions with a bound, a scalar."""
    if position.offset:
        bound = w.op("arith.subi", [bound, w.constant(position.offset, (), dtype)])
    if local is None:
        start = w.constant(0, (), dtype) if position.start is None else position.start
        return compare(w, name, dtype, start, bound, ())
    if position.start is not None:
        bound = w.op("arith.subi", [bound, position.start])
    return compare(w, name, dtype, local, w.broadcast(bound, (), _shape(local)), _shape(local))


def _shape(x: ir.Value) -> tuple[int, ...]:
    return tuple(x.type.shape) if isinstance(x.type, ir.RankedTensorType) else ()


def _like(w: TritonWriter, x: ir.Value, value: int, dtype: np.dtype) -> ir.Value:
    return w.constant(value, _shape(x), dtype)


def _check_shape(w: TritonWriter, block: Block, shape: tuple[int, ...]) -> None:
    if all(map(is_power_of_two, shape)):
        return
    larger = tuple([1 << (n - 1).bit_length() for n in shape])
    raise ValueError(f"{w.where()}a part of {block.name} with shape {shape} is read or written, but on GPUs all sizes must be "
                     f"powers of two. Give {block.name} blocks of such a size (the edges of the array are masked), or access a "
                     f"part of shape {larger} with a mask: triton.load(ref.at[...], mask=...).")


# Reads and writes

_CACHE = {None: 1, ".ca": 2, ".cg": 3, ".wb": 4, ".cs": 5, ".wt": 6, ".cv": 7}
_EVICTION = {None: 1, "": 1, "evict_normal": 1, "evict_first": 2, "evict_last": 3}


def _hint(w: TritonWriter, argument: str, table: dict, value: Any) -> ir.Attribute:
    if value not in table:
        raise ValueError(f"{w.where()}{argument} is one of {', '.join([repr(k) for k in table])}, got {value!r}.")
    return w.attribute(f"{table[value]} : i32")


def _and(w: TritonWriter, x: ir.Value | None, y: ir.Value | None) -> ir.Value | None:
    return y if x is None else x if y is None else w.op("arith.andi", [x, y])


def _read(w: TritonWriter, block: Block, pointer: ir.Value, shape: tuple[int, ...], mask: ir.Value | None,
          other: ir.Value | None = None, cache_modifier: Any = None, eviction_policy: Any = None, is_volatile: bool = False
          ) -> ir.Value:
    others = [] if other is None or mask is None else [w.to_memory(other, shape, block.dtype)]
    operands = [pointer, *([] if mask is None else [mask]), *others]
    attributes = {
        "operandSegmentSizes": w.attribute(f"array<i32: 1, {int(mask is not None)}, {len(others)}>"),
        "cache": _hint(w, "cache_modifier", _CACHE, cache_modifier),
        "evict": _hint(w, "eviction_policy", _EVICTION, eviction_policy),
        "isVolatile": w.attribute("true" if is_volatile else "false")}
    x = w.op("tt.load", operands, w.type_of(shape, memory_dtype(block.dtype)), attributes)
    return w.from_memory(x, shape, block.dtype)


def _write(w: TritonWriter, block: Block, pointer: ir.Value, shape: tuple[int, ...], x: ir.Value, mask: ir.Value | None,
           eviction_policy: Any = None) -> None:
    w.effect("tt.store", [pointer, w.to_memory(x, shape, block.dtype), *([] if mask is None else [mask])], {
        "cache": w.attribute("1 : i32"), "evict": _hint(w, "eviction_policy", _EVICTION, eviction_policy)})


def _get(w: TritonWriter, avals_in, avals_out, params, block, *indices):
    pointer, mask, shape = pointers(w, block, params["tree"], indices, avals_in[1:])
    return _read(w, block, pointer, shape, mask)


def _swap(w: TritonWriter, avals_in, avals_out, params, block, x, *indices):
    is_read = w.is_read
    pointer, mask, shape = pointers(w, block, params["tree"], indices, avals_in[2:])
    old = _read(w, block, pointer, shape, mask) if is_read else None
    _write(w, block, pointer, shape, x, mask)
    return old


def _masked_load(w: TritonWriter, avals_in, avals_out, params, block, mask, *operands):
    first = int(params["has_other"])
    pointer, inside, shape = pointers(w, block, params["tree"], operands[first:], avals_in[2 + first:])
    return _read(w, block, pointer, shape, _and(w, mask, inside), operands[0] if first else None, params["cache_modifier"],
                 params["eviction_policy"], params["is_volatile"])


def _masked_swap(w: TritonWriter, avals_in, avals_out, params, block, x, mask, *indices):
    is_read = w.is_read
    pointer, inside, shape = pointers(w, block, params["tree"], indices, avals_in[3:])
    mask = _and(w, mask, inside)
    old = _read(w, block, pointer, shape, mask) if is_read else None
    _write(w, block, pointer, shape, x, mask, params["eviction_policy"])
    return old


# Atomic updates: the operations for floats, signed and unsigned integers. Floats without one are updated by their bits.

_ATOMICS = {"atomic_add": (5, 4, 4), "atomic_max": (None, 6, 8), "atomic_min": (None, 7, 9), "atomic_and": (None, 1, 1),
            "atomic_or": (None, 2, 2), "atomic_xor": (None, 3, 3), "atomic_xchg": (10, 10, 10)}
_SMALLEST_FLOAT = {"atomic_add": 2}  # bytes of an element; GPUs update 4 bytes at least by other operations
_ORDER = {"sem": "4 : i32", "scope": "1 : i32"}  # acquire and release, in the scope of the GPU


def _update(w: TritonWriter, block: Block, operation: int, pointer: ir.Value, x: ir.Value, mask: ir.Value | None) -> ir.Value:
    attributes = {"atomic_rmw_op": w.attribute(f"{operation} : i32"), **{k: w.attribute(v) for k, v in _ORDER.items()}}
    return w.op("tt.atomic_rmw", [pointer, x, *([] if mask is None else [mask])], x.type, attributes)


def _atomic(w: TritonWriter, block: Block, name: str, pointer: ir.Value, x: ir.Value, mask: ir.Value | None,
            shape: tuple[int, ...]) -> ir.Value:
    dtype = block.dtype
    kind = kind_of(dtype)
    if kind == "bool" or dtype.itemsize < (_SMALLEST_FLOAT.get(name, 4) if kind == "float" else 4):
        raise unsupported(w, f"{name} of {block.name} with dtype {dtype}", "Use an array of 32-bit integers or floats.")
    operation = _ATOMICS[name][{"float": 0, "signed": 1}.get(kind, 2)]
    if operation is not None:
        return _update(w, block, operation, pointer, x, mask)
    integer = np.dtype(f"int{8 * dtype.itemsize}")
    bits = bitcast_elements(w, x, shape, dtype, integer)
    pointee = ir.Type.parse(f"!tt.ptr<i{8 * dtype.itemsize}>", w.context)
    bit_pointer = w.op("tt.bitcast", [pointer], w.shaped_type(shape, pointee) if shape else pointee)
    if name in ("atomic_max", "atomic_min"):
        old = _extreme_of_floats(w, block, name, bit_pointer, bits, mask, shape)
    else:
        old = _update(w, block, _ATOMICS[name][1], bit_pointer, bits, mask)
    return bitcast_elements(w, old, shape, integer, dtype)


def _extreme_of_floats(w: TritonWriter, block: Block, name: str, pointer: ir.Value, bits: ir.Value, mask: ir.Value | None,
                       shape: tuple[int, ...]) -> ir.Value:
    """Update the bits of floats to those of a maximum or minimum.

    Bits of positive floats are ordered as signed integers. Those of negative ones are ordered in reverse, as unsigned integers.
    """
    integer = np.dtype(f"int{8 * block.dtype.itemsize}")
    is_negative = compare(w, "lt", integer, bits, w.constant(0, shape, integer), shape)
    is_positive = w.op("arith.xori", [is_negative, w.constant(True, shape, np.bool_)])
    signed, unsigned = ("atomic_max", "atomic_min") if name == "atomic_max" else ("atomic_min", "atomic_max")
    of_positive = _update(w, block, _ATOMICS[signed][1], pointer, bits, _and(w, mask, is_positive))
    of_negative = _update(w, block, _ATOMICS[unsigned][2], pointer, bits, _and(w, mask, is_negative))
    return w.select(is_negative, of_negative, of_positive)


def _atomic_rmw(w: TritonWriter, avals_in, avals_out, params, block, x, *operands):
    first = int(params["has_mask"])
    pointer, inside, shape = pointers(w, block, params["tree"], operands[first:], avals_in[2 + first:])
    return _atomic(w, block, params["atomic_type"], pointer, x, _and(w, operands[0] if first else None, inside), shape)


def _add_update(w: TritonWriter, avals_in, avals_out, params, block, x, *indices):
    """Add atomically, since other programs of the grid may add to the same elements."""
    pointer, inside, shape = pointers(w, block, params["tree"], indices, avals_in[2:])
    _atomic(w, block, "atomic_add", pointer, x, inside, shape)
    return []


def _atomic_cas(w: TritonWriter, avals_in, avals_out, params, block, expected, new):
    if kind_of(block.dtype) == "bool" or block.dtype.itemsize < 2:
        raise unsupported(w, f"atomic_cas of {block.name} with dtype {block.dtype}", "Use an array of 32-bit integers.")
    return w.op("tt.atomic_cas", [block.pointer, expected, new], expected.type, {k: w.attribute(v) for k, v in _ORDER.items()})


RULES: dict[str, Rule] = {
    "get": _get, "swap": _swap, "masked_load": _masked_load, "masked_swap": _masked_swap, "atomic_rmw": _atomic_rmw,
    "atomic_cas": _atomic_cas, "addupdate": _add_update}
