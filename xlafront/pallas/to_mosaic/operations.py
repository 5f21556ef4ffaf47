"""Rules of TPU kernels for the grid, copies, semaphores, random bits and hints."""

from __future__ import annotations

import re
import string
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront.lowering.mlir import ir
from xlafront.pallas.kernel_elementwise import convert
from xlafront.pallas.kernel_equations import unsupported
from xlafront.pallas.kernel_mlir import Rule, bit_width, element_type, kind_of
from xlafront.pallas.kernel_operation import split_views
from xlafront.pallas.to_mosaic import sparse_core, vectors
from xlafront.pallas.to_mosaic.gathers import LANES, SUBLANES
from xlafront.pallas.to_mosaic.memrefs import ranges_of, slice_memref
from xlafront.pallas.tpu import CoreType

if TYPE_CHECKING:
    from xlafront.pallas.to_mosaic.writer import MosaicWriter

_int32 = np.dtype(np.int32)

# The grid


def _program_id(w: MosaicWriter, avals_in, avals_out, params):
    return w.grid[params["axis"]]


def _num_programs(w: MosaicWriter, avals_in, avals_out, params):
    axis = w.axes[params["axis"]]
    return w.op("tpu.iteration_bound", [], w.type_of((), _int32), {"dim": w.attribute(f"{axis} : i32")})


def _axis_index(w: MosaicWriter, avals_in, avals_out, params):
    """Emit the coordinate of the device along an axis of the mesh, from its logical id."""
    name, stride = params["axis_name"], 1
    found = w.op("tpu.device_id", [], w.type_of((), _int32))
    for axis, size in reversed(w.device_axes):
        if axis == name:
            break
        stride *= size
    else:
        raise unsupported(w, f"axis_index of {name!r}, which is no axis of the mesh,", "Call the kernel inside of shard_map.")
    if stride > 1:
        found = w.op("arith.divsi", [found, w.constant(np.int32(stride))])
    return w.op("arith.remsi", [found, w.constant(np.int32(size))])


# Copies and semaphores


def _memrefs(w: MosaicWriter, avals, views, operands) -> tuple[list[ir.Value], list[Any]]:
    """Return the memrefs of views, and the remaining operands."""
    found, rest = split_views(operands, views)
    types, _ = split_views(avals, views)
    values = [slice_memref(w, ref, ranges_of(w, ref, indexers, indices, index_avals))
              for (ref, indexers, indices), (_, _, index_avals) in zip(found, types)]
    return values, rest


def _dma_start(w: MosaicWriter, avals_in, avals_out, params, *operands):
    if w.core_type is not CoreType.TC and sparse_core.indirect_view(avals_in, params, operands) is not None:
        return sparse_core.indirect_copy(w, avals_in, params, operands, True)
    [source, target, semaphore, *sources], device = _memrefs(w, avals_in, params["views"], operands)
    if params["add"]:
        raise unsupported(w, "a copy that adds to its destination", "Copy to VMEM scratch memory, and add there.")
    attributes = {"operandSegmentSizes": w.attribute(f"array<i32: 1, {len(sources)}, 1, 1, {len(device)}, 0, 0>")}
    if params["priority"]:
        attributes["priority"] = w.attribute(f"{params['priority']} : i32")
    w.effect("tpu.enqueue_dma", [source, *sources, target, semaphore, *device], attributes)
    return []


def _dma_wait(w: MosaicWriter, avals_in, avals_out, params, *operands):
    if w.core_type is not CoreType.TC and sparse_core.indirect_view(avals_in, params, operands) is not None:
        return sparse_core.indirect_copy(w, avals_in, params, operands, False)
    [source, target, semaphore], device = _memrefs(w, avals_in, params["views"], operands)
    is_sent = bool(device) and params["is_send"]  # Mosaic expects the ids of a device and a core, which are not used
    ids = [w.constant(np.int32(0))] * 2 if is_sent else device
    w.effect("tpu.wait_dma2", [semaphore, source, target, *ids], {
        "operandSegmentSizes": w.attribute(f"array<i32: 1, 1, 1, {len(device)}, {int(is_sent)}>")})
    return []


def _bounded(w: MosaicWriter, avals_in, params, operands) -> tuple[list[ir.Value], ir.Value]:
    """Return the memrefs of the positions that a bounded copy copies, and its semaphore."""
    views, dims = params["views"], params["dims"]
    found, rest = split_views(operands, views)
    types, _ = split_views(avals_in, views)
    sizes = dict(zip(dims, [convert(w, x, (), a.dtype, _int32) for x, a in zip(rest, avals_in[len(avals_in) - len(rest):])]))
    memrefs = [slice_memref(w, ref, ranges_of(w, ref, indexers, indices, index_avals), sizes if i < 2 else None)
             for i, ((ref, indexers, indices), (_, _, index_avals)) in enumerate(zip(found, types))]
    return memrefs[:2], memrefs[2]


def _bounded_dma_start(w: MosaicWriter, avals_in, avals_out, params, *operands):
    ends, semaphore = _bounded(w, avals_in, params, operands)
    w.effect("tpu.enqueue_dma", [*ends, semaphore], {"operandSegmentSizes": w.attribute("array<i32: 1, 0, 1, 1, 0, 0, 0>")})
    return []


def _bounded_dma_wait(w: MosaicWriter, avals_in, avals_out, params, *operands):
    ends, semaphore = _bounded(w, avals_in, params, operands)
    w.effect("tpu.wait_dma2", [semaphore, *ends], {"operandSegmentSizes": w.attribute("array<i32: 1, 1, 1, 0, 0>")})
    return []


def _semaphore_signal(w: MosaicWriter, avals_in, avals_out, params, *operands):
    [semaphore], [count, *others] = _memrefs(w, avals_in, params["views"], operands)
    devices, cores = int(params["axes"] is not None), int(params["has_core"])
    count = convert(w, count, (), avals_in[len(avals_in) - len(others) - 1].dtype, _int32)
    w.effect("tpu.sem_signal", [semaphore, count, *others], {
        "operandSegmentSizes": w.attribute(f"array<i32: 1, 1, {devices}, {cores}, 0>")})
    return []


def _semaphore_wait(w: MosaicWriter, avals_in, avals_out, params, *operands):
    [semaphore], [count] = _memrefs(w, avals_in, params["views"], operands)
    count = convert(w, count, (), avals_in[-1].dtype, _int32)
    w.effect("tpu.sem_wait", [semaphore, count])
    if not params["decrement"]:  # only this core waits for its semaphores: the count may be missing meanwhile
        w.effect("tpu.sem_signal", [semaphore, count], {"operandSegmentSizes": w.attribute("array<i32: 1, 1, 0, 0, 0>")})
    return []


def _semaphore_read(w: MosaicWriter, avals_in, avals_out, params, *operands):
    [semaphore], _ = _memrefs(w, avals_in, params["views"], operands)
    return w.op("tpu.sem_read", [semaphore], w.type_of((), _int32))


# Vectors


def _roll(w: MosaicWriter, avals_in, avals_out, params, x, *shifts):
    """Roll by a static shift, or by that of `pallas.tpu.roll`, an operand."""
    aval = avals_in[0]
    if not shifts:
        return _static_roll(w, aval, params["shift"], params["dimension"], x)
    attributes = {"dimension": w.attribute(f"{params['axis']} : si32")}
    if params["stride"] is not None:
        attributes |= {"stride": w.attribute(f"{params['stride']} : si32"),
                       "stride_dimension": w.attribute(f"{params['stride_axis']} : si32")}
    return w.op("tpu.dynamic_rotate", [x, convert(w, shifts[0], (), avals_in[1].dtype, _int32)], x.type, attributes)


def _static_roll(w: MosaicWriter, aval: Any, shift: int, axis: int, x: ir.Value) -> ir.Value:
    """Rotate registers if the size is a multiple of theirs; else concatenate the two parts."""
    shape, n = aval.shape, aval.shape[axis]
    unit = {1: LANES, 2: SUBLANES}.get(len(shape) - axis)
    shift %= n
    if not shift:
        return x
    if unit and len(shape) > 1 and n % unit == 0 and bit_width(aval.dtype) == 32:
        return w.op("tpu.dynamic_rotate", [x, w.constant(np.int32(shift))], x.type, {
            "dimension": w.attribute(f"{axis} : si32")})
    if unit and len(shape) > 1 and n % unit == 0:  # in 32 bits
        wide = np.dtype(np.float32 if kind_of(aval.dtype) == "float" else np.int32)
        rolled = _static_roll(w, aval.update(dtype=wide), shift, axis, convert(w, x, shape, aval.dtype, wide))
        return convert(w, rolled, shape, wide, aval.dtype)
    lower = [vectors.part(w, x, aval, axis, start, stop) for start, stop in ((n - shift, n), (0, n - shift))]
    return w.op("tpu.concatenate", lower, x.type, {"dimension": w.attribute(f"{axis} : i32")})


def _bitcast(w: MosaicWriter, avals_in, avals_out, params, x):
    kind = w.types_of(avals_out)[0]
    return x if x.type == kind else w.op("tpu.bitcast", [x], kind)


def _type_attribute(w: MosaicWriter, dtype: Any) -> ir.Attribute:
    return ir.TypeAttr.get(element_type(np.dtype(dtype), w.context))


def _pack_elementwise(w: MosaicWriter, avals_in, avals_out, params, *values):
    return w.op("tpu.pack_elementwise", values, w.types_of(avals_out)[0], {
        "target_type": _type_attribute(w, params["packed_dtype"])})


def _unpack_elementwise(w: MosaicWriter, avals_in, avals_out, params, x):
    return w.op("tpu.unpack_elementwise", [x], w.types_of(avals_out)[0], {
        "source_type": _type_attribute(w, params["packed_dtype"]), "index": w.attribute(f"{params['index']} : i32")})


def _stochastic_round(w: MosaicWriter, avals_in, avals_out, params, x, bits):
    return w.op("tpu.stochastic_convert", [x, bits], w.types_of(avals_out)[0])


def _multiple_of(w: MosaicWriter, avals_in, avals_out, params, x):
    if avals_in[0].shape:
        return x
    return w.op("tpu.assume_multiple", [x], x.type, {"multiple": w.attribute(f"{params['values'][0]} : i32")})


# Random bits


def _prng_seed(w: MosaicWriter, avals_in, avals_out, params, *seeds):
    w.effect("tpu.prng_set_seed_32", [convert(w, s, (), a.dtype, _int32) for s, a in zip(seeds, avals_in)])
    return []


def _prng_random_bits(w: MosaicWriter, avals_in, avals_out, params):
    return w.op("tpu.prng_random_bits", [], w.types_of(avals_out)[0])


# Time and texts


def _delay(w: MosaicWriter, avals_in, avals_out, params, nanos):
    w.effect("tpu.delay", [convert(w, nanos, (), avals_in[0].dtype, _int32)])
    return []


def _debug_print(w: MosaicWriter, avals_in, avals_out, params, *values):
    if any([a.shape for a in avals_in]) and len(values) > 1:
        raise unsupported(w, "debug_print of several values with an array among them", "Print each array by itself.")
    fields = iter(range(len(values)))
    pieces = [(text, name) for text, name, spec, conversion in string.Formatter().parse(params["fmt"])]
    tag = "".join([text.replace("$", "$$") + ("" if name is None else f"${next(fields)}") for text, name in pieces])
    if params["static_args"] and any([x is not None for x in params["static_args"]]):
        raise unsupported(w, "debug_print of values that are not arrays", "Format them into the text first.")
    has_arrays = any([a.shape for a in avals_in])
    text = re.sub(r"\$\d+", "", tag) if has_arrays else tag
    attributes: dict[str, ir.Attribute] = {"tag": ir.StringAttr.get(text, w.context)}
    if not has_arrays:
        attributes["formatted"] = w.attribute("true")
    w.effect("tpu.log", values, attributes)
    return []


RULES: dict[str, Rule] = {
    "axis_index": _axis_index, "program_id": _program_id, "num_programs": _num_programs, "dma_start": _dma_start,
    "dma_wait": _dma_wait, "bounded_dma_start": _bounded_dma_start, "bounded_dma_wait": _bounded_dma_wait,
    "semaphore_signal": _semaphore_signal, "semaphore_wait": _semaphore_wait,
    "semaphore_read": _semaphore_read, "roll": _roll, "bitcast": _bitcast, "pack_elementwise": _pack_elementwise,
    "unpack_elementwise": _unpack_elementwise, "stochastic_round": _stochastic_round, "multiple_of": _multiple_of,
    "prng_seed": _prng_seed, "prng_random_bits": _prng_random_bits, "delay": _delay,
    "debug_print": _debug_print,
    "with_memory_space_constraint": lambda w, avals_in, avals_out, params, x: x,
}
