"""References of TPU kernels as memrefs: their types, windows of them, loads and stores."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xlafront.core.dtypes import PRNGKeyDType
from xlafront.core.refs import AbstractRef
from xlafront.lax.ref_indexing import Operand, Window
from xlafront.lowering.mlir import create, ir
from xlafront.pallas.grid_mapping import BlockMapping
from xlafront.pallas.kernel_elementwise import binary, convert
from xlafront.pallas.kernel_equations import unsupported
from xlafront.pallas.kernel_mlir import Rule, bit_width, element_type
from xlafront.pallas.matrix_units import ACC, UnitMemory
from xlafront.pallas.semaphores import SemaphoreType
from xlafront.pallas.specs import MemorySpace
from xlafront.pallas.to_mosaic.gathers import LANES, repeat, strided
from xlafront.pallas.tpu import MemorySpace as TpuMemory

if TYPE_CHECKING:
    from xlafront.pallas.to_mosaic.writer import MosaicWriter

_int32 = np.dtype(np.int32)


def space_of(memory_space: Any) -> str:
    """Return Mosaic's name of a memory. The default is vector memory."""
    if memory_space is None or memory_space is MemorySpace.DEFAULT:
        return "vmem"
    if isinstance(memory_space, SemaphoreType):
        return "semaphore_mem"
    if isinstance(memory_space, (ACC, UnitMemory)):
        return "matrix_unit"
    if memory_space in (MemorySpace.ANY, MemorySpace.HOST) or isinstance(memory_space, TpuMemory):
        return memory_space.value
    raise NotImplementedError(f"TPU kernels have no references in {memory_space!r}. Use pltpu.VMEM, pltpu.SMEM, pltpu.HBM or "
                              f"pl.ANY.")


def memref_type(context: ir.Context, shape: Sequence[int | str], dtype: Any, memory_space: Any) -> ir.Type:
    """Return the type of a memref. Booleans are stored as 32-bit integers. A size at run time is "?"."""
    space, shape = space_of(memory_space), (*shape, *key_words(dtype))
    if space == "semaphore_mem":
        element = "!tpu.dma_semaphore" if memory_space is SemaphoreType.DMA else "!tpu.semaphore"
    else:
        element = str(element_type(_stored(dtype), context))
    sizes = "".join([f"{n}x" for n in shape])
    return _parsed_type(f"memref<{sizes}{element}, #tpu.memory_space<{space}>>", context)


@functools.lru_cache(4096)
def _parsed_type(text: str, context: ir.Context) -> ir.Type:
    return ir.Type.parse(text, context)


@functools.cache
def _stored(dtype: Any) -> np.dtype:
    return _int32 if dtype == np.bool_ or key_words(dtype) else np.dtype(dtype)


@functools.cache
def key_words(dtype: Any) -> tuple[int, ...]:
    """Return the shape of the words of a random key; () for other dtypes."""
    return dtype.physical_element_shape if isinstance(dtype, PRNGKeyDType) else ()


def hidden_sizes(block: BlockMapping, grid: Sequence[Any]) -> tuple[int, ...]:
    """Return the dimensions of a block's memref that the array lacks: words of keys; one for scalars, if there are windows."""
    return key_words(block.array_aval.dtype) or ((1,) if grid and not block.block_shape else ())


class MemRef(NamedTuple):
    """A reference in a kernel.

    Args:
        value: The memref; for accumulators the number of the first.
        shape: Its shape, with dimensions of size 1 that the kernel does not see.
        hidden: True for these dimensions.
        dtype: The dtype of the elements.
        memory_space: The memory.
        space: Mosaic's name of the memory.
        name: Name of the argument, for messages.
    """

    value: Any
    shape: tuple[int, ...]
    hidden: tuple[bool, ...]
    dtype: Any
    memory_space: Any
    space: str
    name: str


def memref_of(value: Any, aval: AbstractRef, name: str, hidden: Sequence[bool] | None = None,
              shape: Sequence[int] | None = None) -> MemRef:
    """Return the reference for a memref of a type."""
    sizes, memory = aval.shape if shape is None else tuple(shape), aval.memory_space
    return MemRef(value, sizes, tuple(hidden or [False] * len(sizes)), aval.dtype, memory, space_of(memory), name)


# Ranges of references


class Range(NamedTuple):
    """The positions of a view along one dimension of a memref: `start` is an integer or an int32 scalar."""

    start: Any
    size: int
    stride: int
    dropped: bool  # the view does not have this dimension


def ranges_of(w: MosaicWriter, ref: MemRef, indexers: Sequence[Any], indices: Sequence[Any], avals: Sequence[Any]
              ) -> list[Range]:
    """Return the positions that indexers select. `avals` are the types of `indices`, the operands of the indexers."""
    ranges = [Range(0, n, 1, h) for n, h in zip(ref.shape, ref.hidden)]
    for indexer in indexers:
        seen = [d for d, p in enumerate(ranges) if not p.dropped]
        for d, entry in zip(seen, indexer):
            ranges[d] = _select(w, ref, ranges[d], entry, indices, avals)
    return ranges


def _select(w: MosaicWriter, ref: MemRef, part: Range, entry: Any, indices: Sequence[Any], avals: Sequence[Any]) -> Range:
    is_window = type(entry) is Window
    start = entry.start if is_window else entry
    if type(start) is Operand:
        aval = avals[start.number]
        if aval.shape:
            raise unsupported(w, f"an index array of shape {aval.shape} into {ref.name}",
                              "Index the value, ref[...][indices], or the reference with integers and windows in a loop.")
        start = convert(w, indices[start.number], (), aval.dtype, _int32)
    elif start < 0:
        start += part.size
    size, stride = (entry.size, entry.stride) if is_window else (1, 1)
    return Range(_plus(w, part.start, _times(w, start, part.stride)), size, stride * part.stride, not is_window)


def _times(w: MosaicWriter, x: Any, n: int) -> Any:
    if isinstance(x, int) or n == 1:
        return x * n if isinstance(x, int) else x
    return w.op("arith.muli", [x, w.constant(np.int32(n))])


def _plus(w: MosaicWriter, x: Any, y: Any) -> Any:
    if isinstance(x, int) and isinstance(y, int):
        return x + y
    if isinstance(x, int):
        x, y = y, x
    if isinstance(y, int):
        return x if y == 0 else w.op("arith.addi", [x, w.constant(np.int32(y))])
    return w.op("arith.addi", [x, y])


def _index(w: MosaicWriter, start: Any) -> ir.Value:
    """Return a start as a value of the type `index`."""
    kind = _index_type(w.context)
    if isinstance(start, int):
        return w.constant_of(kind, w.attribute(f"{start} : index"))
    return w.op("arith.index_cast", [start], kind)


@functools.cache
def _index_type(context: ir.Context) -> ir.Type:
    return ir.IndexType.get(context)


def slice_memref(w: MosaicWriter, ref: MemRef, ranges: Sequence[Range], dynamic: Mapping[int, ir.Value] | None = None
                 ) -> ir.Value:
    """Return the memref of a part of a reference, for copies and semaphores.

    `dynamic` has values in place of the sizes of some dimensions, counted without those that are dropped.
    """
    if any([p.stride != 1 and p.size > 1 for p in ranges]):
        raise unsupported(w, f"a copy of a strided part of {ref.name}", "Copy consecutive positions, and stride reads of VMEM.")
    seen = [d for d, p in enumerate(ranges) if not p.dropped]
    at_run_time = {seen[i]: x for i, x in (dynamic or {}).items()}
    value, sizes = ref.value, ["?" if d in at_run_time else p.size for d, p in enumerate(ranges)]
    if sizes != list(ref.shape):
        starts = [w.constant(np.int32(p.start)) if isinstance(p.start, int) else p.start for p in ranges]
        kind = memref_type(w.context, sizes, ref.dtype, ref.memory_space)
        value = w.op("tpu.memref_slice", [value, *starts, *at_run_time.values()], kind, {
            "operandSegmentSizes": w.attribute(f"array<i32: 1, {len(starts)}, {len(at_run_time)}>")})
    remaining = [sizes[d] for d in seen]
    if len(remaining) < len(ranges):
        value = w.op("tpu.memref_squeeze", [value], memref_type(w.context, remaining, ref.dtype, ref.memory_space))
    return value


# Loads and stores


@dataclasses.dataclass(frozen=True)
class Key:
    """A random key in a kernel: its words, as scalars."""

    words: tuple[ir.Value, ...]


def load(w: MosaicWriter, ref: MemRef, ranges: Sequence[Range]) -> Any:
    """Return the value of a part of a reference."""
    _check_space(w, ref, "reads")
    if key_words(ref.dtype):
        _check_scalar(w, ref, tuple([p.size for p in ranges if not p.dropped]))
        return Key(tuple([w.op("memref.load", [ref.value, *[_index(w, p.start) for p in ranges], *[_index(w, i) for i in word]],
                               w.type_of((), _int32)) for word in np.ndindex(key_words(ref.dtype))]))
    shape, sizes = tuple([p.size for p in ranges if not p.dropped]), tuple([p.size for p in ranges])
    stored = _stored(ref.dtype)
    if ref.space == "vmem" and not _has_strided_access(ref, ranges, is_store=False):
        return _load_covering(w, ref, ranges, shape)
    indices = [_index(w, p.start) for p in ranges]
    if ref.space == "smem":
        _check_scalar(w, ref, shape)
        x = w.op("memref.load", [ref.value, *indices], w.type_of((), stored))
        shape = ()
    else:
        kind = w.type_of(sizes or (1,), stored)
        if _is_strided(ranges):
            x = w.op("tpu.strided_load", [ref.value, *indices], kind, {"strides": _strides(w, ranges)})
        else:
            x = w.op("vector.load", [ref.value, *indices], kind)
        x = w.reshape(x, sizes, shape, stored)
    if ref.dtype != np.bool_:
        return x
    return w.compare("arith.cmpi", 1, x, w.constant(np.int32(0), shape), shape)


def store(w: MosaicWriter, ref: MemRef, ranges: Sequence[Range], x: ir.Value, mask: ir.Value | None = None) -> None:
    """Write a value to a part of a reference, where the mask is True."""
    _check_space(w, ref, "writes")
    shape, sizes = tuple([p.size for p in ranges if not p.dropped]), tuple([p.size for p in ranges])
    indices, stored = [_index(w, p.start) for p in ranges], _stored(ref.dtype)
    if ref.dtype == np.bool_:
        x = w.op("arith.extui", [x], w.type_of(shape, stored))
    if ref.space == "smem":
        _check_scalar(w, ref, shape)
        w.effect("memref.store", [x, ref.value, *indices])
        return
    x = w.reshape(x, shape, sizes, stored)
    if _is_strided(ranges):
        if mask is not None or not _has_strided_access(ref, ranges, is_store=True):
            _store_covering(w, ref, ranges, x, None if mask is None else w.reshape(mask, shape, sizes, np.dtype(np.bool_)))
            return
        w.effect("tpu.strided_store", [x, ref.value, *indices], {"strides": _strides(w, ranges)})
        return
    masks = [] if mask is None else [w.reshape(mask, shape, sizes, np.dtype(np.bool_))]
    segments = f"array<i32: 1, 1, {len(indices)}, {len(masks)}>"
    w.effect("tpu.vector_store", [x, ref.value, *indices, *masks], {
        "strides": w.attribute("array<i32>"), "operandSegmentSizes": w.attribute(segments)})


def _strides(w: MosaicWriter, ranges: Sequence[Range]) -> ir.Attribute:
    return w.attribute(f"array<i32: {', '.join([str(p.stride if p.size > 1 else 1) for p in ranges])}>")


# Strides

def _is_strided(ranges: Sequence[Range]) -> bool:
    return any([p.stride != 1 and p.size > 1 for p in ranges])


def _has_strided_access(ref: MemRef, ranges: Sequence[Range], is_store: bool) -> bool:
    """True if Mosaic has a load or store for a range: with strides in dimensions but the last, of one register at most."""
    if not _is_strided(ranges):
        return True
    is_last = ranges[-1].stride != 1 and ranges[-1].size > 1
    return len(ranges) > 1 and not is_last and ref.shape[-1] <= LANES and not (is_store and bit_width(_stored(ref.dtype)) != 32)


def _covering(ranges: Sequence[Range]) -> list[Range]:
    return [Range(p.start, (p.size - 1) * p.stride + 1, 1, False) for p in ranges]


def _load_covering(w: MosaicWriter, ref: MemRef, ranges: Sequence[Range], shape: tuple[int, ...]) -> ir.Value:
    """Read the consecutive positions around a strided part, and take it out of the value."""
    covering = _covering(ranges)
    x, sizes = load(w, ref, covering), tuple([p.size for p in covering])
    dtype = np.dtype(ref.dtype)
    if dtype == np.bool_:
        x, dtype = w.op("arith.extui", [x], w.type_of(sizes, _int32)), _int32
    for axis, p in enumerate(ranges):
        if p.size > 1 and p.stride != 1:
            x = strided(w, x, sizes, dtype, axis, 0, p.size, p.stride)
            sizes = (*sizes[:axis], p.size, *sizes[axis + 1:])
    x = w.reshape(x, sizes, shape, dtype)
    return x if dtype == ref.dtype else w.compare("arith.cmpi", 1, x, w.constant(np.int32(0), shape), shape)


def _store_covering(w: MosaicWriter, ref: MemRef, ranges: Sequence[Range], x: ir.Value, mask: ir.Value | None) -> None:
    """Read the consecutive positions around a strided part, replace it, and write them back. `x` is as stored."""
    covering, sizes, dtype = _covering(ranges), tuple([p.size for p in ranges]), _stored(ref.dtype)
    words = None if mask is None else w.op("arith.extui", [mask], w.type_of(sizes, _int32))
    chosen: list[ir.Value] = []
    for axis, p in enumerate(ranges):
        if p.size > 1 and p.stride != 1:
            if words is not None:
                words, _ = repeat(w, words, sizes, _int32, axis, p.stride)
            x, is_first = repeat(w, x, sizes, dtype, axis, p.stride)
            row, sizes = sizes, (*sizes[:axis], (p.size - 1) * p.stride + 1, *sizes[axis + 1:])
            chosen = [repeat(w, c, row, _int32, axis, p.stride)[0] for c in chosen]
            chosen.append(w.op("arith.extui", [is_first], w.type_of(sizes, _int32)))
    zero = w.constant(np.int32(0), sizes)
    flags = [w.compare("arith.cmpi", 1, c, zero, sizes) for c in ([] if words is None else [words]) + chosen]
    where = flags[0]
    for flag in flags[1:]:
        where = w.op("arith.andi", [where, flag])
    memory = ref._replace(dtype=dtype)
    store(w, memory, covering, w.select(where, x, load(w, memory, covering)))


def _check_space(w: MosaicWriter, ref: MemRef, action: str) -> None:
    if ref.space not in ("vmem", "smem"):
        raise unsupported(w, f"code that {action} {ref.name}, a reference in {ref.space},",
                          "Only VMEM and SMEM can be read and written directly: copy between it and VMEM scratch memory with "
                          "pltpu.sync_copy or pltpu.async_copy, or give it a BlockSpec with a block_shape.")
    if ref.space == "vmem" and not ref.shape:
        raise unsupported(w, f"code that {action} {ref.name}, a scalar in VMEM,",
                          "VMEM holds vectors: give it the shape (1, 1), or a BlockSpec with memory_space=pltpu.SMEM.")


def _check_scalar(w: MosaicWriter, ref: MemRef, shape: tuple[int, ...]) -> None:
    if shape:
        raise unsupported(w, f"a read or write of a part of {ref.name} of shape {shape}, in scalar memory,",
                          "Index each dimension of a reference in SMEM with an integer; for vectors use VMEM.")


# Rules


def _get(w: MosaicWriter, avals_in, avals_out, params, ref, *indices):
    return load(w, ref, ranges_of(w, ref, params["tree"], indices, avals_in[1:]))


def _swap(w: MosaicWriter, avals_in, avals_out, params, ref, new, *indices):
    ranges = ranges_of(w, ref, params["tree"], indices, avals_in[2:])
    old = load(w, ref, ranges) if w.is_read else None
    store(w, ref, ranges, new)
    return [old]


def _addupdate(w: MosaicWriter, avals_in, avals_out, params, ref, new, *indices):
    ranges = ranges_of(w, ref, params["tree"], indices, avals_in[2:])
    store(w, ref, ranges, binary(w, "add", ref.dtype, load(w, ref, ranges), new))
    return []


def _masked_load(w: MosaicWriter, avals_in, avals_out, params, ref, mask, *operands):
    first = 2 + params["has_other"]
    ranges = ranges_of(w, ref, params["tree"], operands[first - 2:], avals_in[first:])
    value = load(w, ref, ranges)
    return w.select(mask, value, operands[0]) if params["has_other"] else value


def _masked_swap(w: MosaicWriter, avals_in, avals_out, params, ref, new, mask, *indices):
    ranges = ranges_of(w, ref, params["tree"], indices, avals_in[3:])
    old = load(w, ref, ranges)
    if avals_out[0].shape and ref.space == "vmem":
        store(w, ref, ranges, new, mask)
    else:
        store(w, ref, ranges, w.select(mask, new, old))
    return old


# Scratch memory


SCRATCH_SPACES = ("vmem", "smem", "semaphore_mem")
MAIN_SPACES = ("hbm", "any")  # allocated by XLA
SHARED_SPACE = "vmem_shared"  # of the subcores of a SparseCore


def _allocate(w: MosaicWriter, aval: AbstractRef) -> MemRef:
    if isinstance(aval.memory_space, UnitMemory):
        return memref_of(0, aval, str(aval.memory_space))
    if isinstance(aval.memory_space, ACC):
        return memref_of(w.allocate_accumulators(aval.memory_space.mxu_id, aval.shape), aval, f"accumulators of type {aval}")
    if space_of(aval.memory_space) not in SCRATCH_SPACES:
        raise unsupported(w, f"scratch memory of type {aval}",
                          "Use pltpu.VMEM(shape, dtype), pltpu.SMEM or semaphores, or make it scratch memory of the kernel.")
    kind = memref_type(w.context, aval.shape, aval.dtype, aval.memory_space)
    if space_of(aval.memory_space) == "semaphore_mem":
        value = w.op("tpu.sem_alloc", [], kind)
    else:
        value = w.op("memref.alloca", [], kind, {"operandSegmentSizes": w.attribute("array<i32: 0, 0>")})
    return memref_of(value, aval, f"scratch memory of type {aval}")


def _run_scoped(w: MosaicWriter, avals_in, avals_out, params, *operands):
    jaxpr = params["jaxpr"]
    region = create("tpu.region", results=w.types_of(avals_out), regions=1, loc=w.location)
    block, location = region.regions[0].blocks.append(), w.location
    used = dict(w.accumulators)
    with ir.InsertionPoint(block):
        refs = [w.main_memory[v] if v in w.main_memory else _allocate(w, v.aval) for v in jaxpr.invars[len(operands):]]
        results = w.lower(jaxpr, [*operands, *refs])
        create("tpu.yield", operands=results, loc=location)
    w.accumulators = used
    return list(region.results)


def _new_ref(w: MosaicWriter, avals_in, avals_out, params, x):
    """Allocate memory for a reference that a transformation has made outside of `run_scoped`, or get the barrier semaphore."""
    [aval] = avals_out
    if aval.memory_space is SemaphoreType.BARRIER:
        kind = memref_type(w.context, (), aval.dtype, aval.memory_space)
        return [memref_of(w.op("tpu.sem_barrier", [], kind), aval, "the barrier semaphore")]
    ref = _allocate(w, aval)
    if ref.space == "vmem" and aval.shape:
        store(w, ref, ranges_of(w, ref, (), (), ()), x)
    return [ref]


RULES: dict[str, Rule] = {
    "get": _get, "swap": _swap, "addupdate": _addupdate, "masked_load": _masked_load, "masked_swap": _masked_swap,
    "run_scoped": _run_scoped, "new_ref": _new_ref,
    "empty_ref": lambda w, avals_in, avals_out, params: [_allocate(w, avals_out[0])],
    "free_ref": lambda w, avals_in, avals_out, params, ref: [],
}
