"""Gathers within vectors of TPU kernels: elements along an axis by indices, and parts with strides.

Mosaic gathers 32-bit elements within a register: 8 rows, or 128 columns. More are gathered register by register, and selected.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront.lowering.mlir import ir
from xlafront.pallas.kernel_elementwise import compare, convert
from xlafront.pallas.kernel_equations import unsupported
from xlafront.pallas.kernel_mlir import Rule, bit_width, kind_of

if TYPE_CHECKING:
    from xlafront.pallas.to_mosaic.writer import MosaicWriter

_float32, _int32 = np.dtype(np.float32), np.dtype(np.int32)
LANES, SUBLANES = 128, 8
_MAX_REGISTERS = 128  # registers along the axis


def extract(w: MosaicWriter, x: ir.Value, starts: Sequence[int], shape: tuple[int, ...], dtype: Any) -> ir.Value:
    """Return a part of a vector from static positions on."""
    numbers = {"offsets": starts, "sizes": shape, "strides": [1] * len(starts)}
    return w.op("vector.extract_strided_slice", [x], w.type_of(shape, dtype), {
        name: w.attribute(f"[{', '.join([f'{n} : i64' for n in values])}]") for name, values in numbers.items()})


def take(w: MosaicWriter, x: ir.Value, indices: ir.Value, shape: tuple[int, ...], dtype: Any, axis: int, size: int) -> ir.Value:
    """Return the elements along an axis at int32 indices in bounds: an array like `x`, but for `size` along the axis."""
    new_shape = (*shape[:axis], size, *shape[axis + 1:])
    if len(shape) == 1:
        row = w.reshape(x, shape, (1, *shape), dtype)
        found = take(w, row, w.reshape(indices, new_shape, (1, *new_shape), _int32), (1, *shape), dtype, 1, size)
        return w.reshape(found, (1, *new_shape), new_shape, dtype)
    wide = np.dtype(dtype) if bit_width(dtype) == 32 else _float32 if kind_of(dtype) == "float" else _int32
    x = convert(w, x, shape, dtype, wide)
    n, unit = shape[axis], {1: LANES, 2: SUBLANES}.get(len(shape) - axis, 1)
    if -(-n // unit) > _MAX_REGISTERS:
        raise unsupported(w, f"a gather out of {n} positions along dimension {axis} of a value",
                          f"Gather out of up to {_MAX_REGISTERS * unit}, or index a reference in a loop.")
    found = None
    for start in range(0, n, unit):
        part_shape = (*shape[:axis], min(unit, n - start), *shape[axis + 1:])
        offsets = [start if d == axis else 0 for d in range(len(shape))]
        part = x if part_shape == shape else extract(w, x, offsets, part_shape, wide)
        picked = _take_in_register(w, part, indices, part_shape, new_shape, wide, axis, start, n)
        if found is not None:
            is_here = compare(w, "ge", _int32, indices, w.constant(np.int32(start), new_shape), new_shape)
            picked = w.select(is_here, picked, found)
        found = picked
    return convert(w, found, new_shape, wide, dtype)


def _take_in_register(w: MosaicWriter, part: ir.Value, indices: ir.Value, shape: tuple[int, ...], new_shape: tuple[int, ...],
                      dtype: Any, axis: int, start: int, total: int) -> ir.Value:
    """Gather from the positions from `start` on; elements whose indices are outside of them are arbitrary."""
    n = shape[axis]
    if n == 1:
        return w.broadcast(part, shape, new_shape)
    if n == LANES or n == SUBLANES and len(shape) - axis == 2:
        if n < total:
            indices = w.op("arith.andi", [indices, w.constant(np.int32(n - 1), new_shape)])
    elif start:
        indices = w.op("arith.subi", [indices, w.constant(np.int32(start), new_shape)])
        indices = w.op("arith.maxsi", [indices, w.constant(np.int32(0), new_shape)])
    return w.op("tpu.dynamic_gather", [part, indices], w.type_of(new_shape, dtype), {
        "dimensions": w.attribute(f"array<i32: {axis}>")})


def _positions(w: MosaicWriter, shape: tuple[int, ...], axis: int) -> ir.Value:
    """Return the position of each element along an axis."""
    if len(shape) == 1:
        return w.reshape(_positions(w, (1, *shape), 1), (1, *shape), shape, _int32)
    return w.op("tpu.iota", [], w.type_of(shape, _int32), {"dimensions": w.attribute(f"array<i32: {axis}>")})


def strided(w: MosaicWriter, x: ir.Value, shape: tuple[int, ...], dtype: Any, axis: int, start: int, size: int, stride: int
            ) -> ir.Value:
    """Return every `stride`-th element along an axis, `size` of them from `start` on."""
    new_shape = (*shape[:axis], size, *shape[axis + 1:])
    if size == 1 or stride == 1:
        return extract(w, x, [start if d == axis else 0 for d in range(len(shape))], new_shape, dtype)
    if axis < len(shape) - 2:
        slices = [extract(w, x, [start + i * stride if d == axis else 0 for d in range(len(shape))],
                         (*shape[:axis], 1, *shape[axis + 1:]), dtype) for i in range(size)]
        return w.op("tpu.concatenate", slices, w.type_of(new_shape, dtype), {"dimension": w.attribute(f"{axis} : i32")})
    indices = w.op("arith.muli", [_positions(w, new_shape, axis), w.constant(np.int32(stride), new_shape)])
    return take(w, x, w.op("arith.addi", [indices, w.constant(np.int32(start), new_shape)]), shape, dtype, axis, size)


def repeat(w: MosaicWriter, x: ir.Value, shape: tuple[int, ...], dtype: Any, axis: int, stride: int
           ) -> tuple[ir.Value, ir.Value]:
    """Repeat each element along an axis `stride` times, but for the last; return also where the first of each are."""
    size = (shape[axis] - 1) * stride + 1
    new_shape = (*shape[:axis], size, *shape[axis + 1:])
    positions, step = _positions(w, new_shape, axis), w.constant(np.int32(stride), new_shape)
    is_first = compare(w, "eq", _int32, w.op("arith.remsi", [positions, step]), w.constant(np.int32(0), new_shape), new_shape)
    return take(w, x, w.op("arith.divsi", [positions, step]), shape, dtype, axis, size), is_first


def _gather_elements(w: MosaicWriter, avals_in, avals_out, params, x, indices):
    aval, axis = avals_in[0], params["axis"]
    return take(w, x, indices, aval.shape, aval.dtype, axis, avals_out[0].shape[axis])


RULES: dict[str, Rule] = {"gather_elements": _gather_elements}
