"""Rules of TPU kernels for operations of SparseCores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront.core import dtypes
from xlafront.lowering.mlir import create, ir
from xlafront.pallas.copies import row_indices, with_all_rows
from xlafront.pallas.kernel_elementwise import convert
from xlafront.pallas.kernel_equations import unsupported
from xlafront.pallas.kernel_mlir import Rule, bit_width
from xlafront.pallas.kernel_operation import split_views
from xlafront.pallas.to_mosaic.memrefs import ranges_of, slice_memref

if TYPE_CHECKING:
    from xlafront.pallas.to_mosaic.writer import MosaicWriter

_int32 = np.dtype(np.int32)


def _memref(w: MosaicWriter, avals, params, operands) -> tuple[ir.Value, list[ir.Value], list[Any]]:
    """Return the memref of the view, the other operands, and their types."""
    [(ref, indexers, indices)], rest = split_views(operands, params["views"])
    [(_, _, index_avals)], types = split_views(avals, params["views"])
    return slice_memref(w, ref, ranges_of(w, ref, indexers, indices, index_avals)), rest, types


def _load_gather(w: MosaicWriter, avals_in, avals_out, params, *operands):
    memref, rest, types = _memref(w, avals_in, params, operands)
    count = len(rest) - params["has_mask"]
    indices = [convert(w, x, a.shape, a.dtype, _int32) for x, a in zip(rest[:count], types)]
    segments = w.attribute(f"array<i32: 1, {count}, {int(params['has_mask'])}>")
    return w.op("tpu.vector_load_idx", [memref, *indices, *rest[count:]], w.types_of(avals_out)[0], {
        "operandSegmentSizes": segments})


def _store_scatter(w: MosaicWriter, avals_in, avals_out, params, *operands):
    memref, [x, *rest], types = _memref(w, avals_in, params, operands)
    count = len(rest) - params["has_mask"]
    indices = [convert(w, i, a.shape, a.dtype, _int32) for i, a in zip(rest[:count], types[1:])]
    attributes = {"operandSegmentSizes": w.attribute(f"array<i32: 1, 1, {count}, {int(params['has_mask'])}>")}
    if params["add"]:
        attributes["add"] = w.attribute("true")
    w.effect("tpu.vector_store_idx", [x, memref, *indices, *rest[count:]], attributes)
    return []


def indirect_view(avals, params, operands) -> int | None:
    """Return the number of the view of a copy, 0 or 1, that selects rows by a vector of indices; None if there is none."""
    types, _ = split_views(avals, params["views"])
    return next((k for k, (_, indexers, index_avals) in enumerate(types[:2])
                 if row_indices(indexers, [a.shape for a in index_avals]) is not None), None)


def indirect_copy(w: MosaicWriter, avals, params, operands, is_start: bool) -> list:
    """Emit the start of a copy of rows that a vector of indices selects, or the wait for it."""
    number = indirect_view(avals, params, operands)
    found, rest = split_views(operands, params["views"])
    types, _ = split_views(avals, params["views"])
    if rest or len(found) > 3:
        raise unsupported(w, "a copy of rows by indices to another device, or with a semaphore of the source",
                          "Copy the rows with one semaphore, then copy them on.")
    memrefs = []
    for k, ((ref, indexers, indices), (aval, _, index_avals)) in enumerate(zip(found, types)):
        if k == number:
            indexers = with_all_rows(aval.shape, indexers, [a.shape for a in index_avals])
        memrefs.append(slice_memref(w, ref, ranges_of(w, ref, indexers, indices, index_avals)))
    if not is_start:
        w.effect("tpu.wait_indirect_dma", [memrefs[2], *memrefs[:2]])
        return []
    entry = found[number][1][-1][0]
    indices = found[number][2][entry.number]
    attributes = {"add": w.attribute("true")} if params["add"] else {}
    ignored = [] if entry.ignored is None else [w.constant(np.int32(entry.ignored))]
    w.effect("tpu.enqueue_indirect_dma", [*memrefs[:2], _in_memory(indices), memrefs[2], *ignored], attributes)
    return []


def _in_memory(indices: ir.Value) -> ir.Value:
    """Return the memref of which indices were loaded, if nothing was written since; they can be more than a vector holds."""
    load = indices.owner
    if load.name != "vector.load" or list(load.operands[0].type.shape) != list(indices.type.shape):
        return indices
    following: list[str] = []
    is_found = False
    for view in ir.InsertionPoint.current.block.operations:
        if is_found:
            following.append(view.operation.name)
        is_found = is_found or view.operation == load.operation
    if not is_found or any([part in name for name in following for part in ("store", "dma", "region", "scf.", "sem_")]):
        return indices
    return load.operands[0]


def _ordered(w: MosaicWriter, x: ir.Value, aval: Any) -> ir.Value:
    """Map signed integers to unsigned ones in the same order, or back."""
    if dtypes.is_float(aval.dtype) or dtypes.is_unsigned(aval.dtype):
        return x
    lowest = np.asarray(-(1 << (bit_width(aval.dtype) - 1))).astype(aval.dtype)
    return w.op("arith.xori", [x, w.constant(lowest, aval.shape)])


def _scan(w: MosaicWriter, avals_in, avals_out, params, x, mask):
    aval, kind, result = avals_out[0], params["kind"], w.types_of(avals_out)[0]
    is_unsigned = kind == "max" and not dtypes.is_float(aval.dtype) and _has_unsigned_maximum(w)
    attributes = {"kind": w.attribute(f"#tpu.reduction_kind<{'maxui' if is_unsigned else kind}>"),
                  "dimension": w.attribute("0 : i64")}
    if not is_unsigned:
        return w.op("tpu.scan", [x, mask], result, attributes)
    return _ordered(w, w.op("tpu.scan", [_ordered(w, x, aval), mask], result, attributes), aval)


def _has_unsigned_maximum(w: MosaicWriter) -> bool:
    """True if the installed jaxlib has the maximum of unsigned integers, which is then the only one of integers."""
    try:
        return w.attribute("#tpu.reduction_kind<maxui>") is not None
    except ir.MLIRError:
        return False


def _lane_bitcast(w: MosaicWriter, avals_in, avals_out, params, x):
    kind = w.types_of(avals_out)[0]
    return x if x.type == kind else w.op("vector.bitcast", [x], kind)


def _lane_reduction(w: MosaicWriter, avals_in, avals_out, params, x):
    return w.op("tpu.all_reduce", [x], w.types_of(avals_out)[0], {
        "dim": w.attribute("0 : i64"), "kind": w.attribute(f"#tpu.reduction_kind<{params['kind']}>")})


def _scan_count(w: MosaicWriter, avals_in, avals_out, params, x, mask):
    counts, last = w.types_of(avals_out)
    found = create("tpu.scan_count", results=[last, counts], operands=[mask, x], loc=w.location)
    return [found.results[1], found.results[0]]


def _sort(w: MosaicWriter, avals_in, avals_out, params, keys, values, mask):
    aval, (key_type, value_type, mask_type) = avals_in[0], w.types_of(avals_out)
    attributes = {"descending": w.attribute("true")} if params["descending"] else {}
    found = create("tpu.sort", results=[mask_type, key_type, value_type], operands=[_ordered(w, keys, aval), values, mask],
                   attributes=attributes, loc=w.location)
    return [_ordered(w, found.results[1], aval), found.results[2], found.results[0]]


def _barrier(w: MosaicWriter, avals_in, avals_out, params):
    index = ir.IndexType.get(w.context)
    w.effect("tpu.barrier", [w.op("arith.constant", [], index, {"value": ir.IntegerAttr.get(index, 0)})])
    return []


def _pack(w: MosaicWriter, avals_in, avals_out, params, a, b):
    return w.op("tpu.pack_subelements", [a, b], w.types_of(avals_out)[0], {
        "positions": w.attribute("array<i32: 0, 1>"), "pack_format": _format(w, params)})


def _format(w: MosaicWriter, params: Any) -> ir.Attribute:
    return w.attribute(f"#tpu.pack_format<{params['format'].value}>")


def _unpack(w: MosaicWriter, avals_in, avals_out, params, x):
    return [w.op("tpu.unpack_subelements", [x], kind, {"index": w.attribute(f"{i} : i32"), "pack_format": _format(w, params)})
            for i, kind in enumerate(w.types_of(avals_out))]


def _fetch_and_add(w: MosaicWriter, avals_in, avals_out, params, *operands):
    [(ref, indexers, indices)], numbers = split_views(operands, params["views"])
    [(_, _, index_avals)], _ = split_views(avals_in, params["views"])
    starts = [w.constant(np.int32(p.start)) if isinstance(p.start, int) else p.start
              for p in ranges_of(w, ref, indexers, indices, index_avals)]
    return w.op("tpu.fetch_and_add_sync", [ref.value, *starts, *numbers], w.types_of(avals_out)[0])


RULES: dict[str, Rule] = {
    "load_gather": _load_gather, "store_scatter": _store_scatter, "masked_scan": _scan, "lane_reduction": _lane_reduction,
    "scan_count": _scan_count, "sort_key_val": _sort, "subcore_barrier": _barrier,
    "lane_bitcast": _lane_bitcast, "lane_pack": _pack, "lane_unpack": _unpack, "fetch_and_add": _fetch_and_add,
}
