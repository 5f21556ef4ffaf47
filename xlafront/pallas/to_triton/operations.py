"""Rules of primitives on arrays for Triton: shapes, reductions, products, functions of libdevice, hints."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.core import dtypes
from xlafront.core.avals import ShapedArray
from xlafront.lax.dot_algorithms import preset
from xlafront.lowering.mlir import ir
from xlafront.pallas import kernel_elementwise
from xlafront.pallas.kernel_elementwise import binary, compare, convert
from xlafront.pallas.kernel_equations import unsupported
from xlafront.pallas.kernel_mlir import Rule, bit_width, kind_of
from xlafront.pallas.to_triton.writer import TritonWriter

_int32, _float32 = np.dtype(np.int32), np.dtype(np.float32)

# Functions of libdevice: for 64-bit floats by this name, for 32 bits with the suffix "f". Other floats are computed in 32 bits.

_LIBDEVICE = {name: f"__nv_{function}" for name, function in {
    **{name: name for name in "exp exp2 expm1 log log1p sin cos tan tanh sqrt rsqrt cbrt floor ceil asin acos atan sinh cosh "
                              "asinh acosh atanh erf erfc pow atan2 log2 lgamma".split()},
    "erf_inv": "erfinv", "pow_of_floats": "pow", "round_to_even": "rint", "rem": "fmod", "abs": "fabs"}.items()}


def _libdevice(symbol: str, integers: Rule | None = None) -> Rule:
    def rule(w: TritonWriter, avals_in, avals_out, params, *values):
        dtype, shape = avals_in[0].dtype, avals_out[0].shape
        if kind_of(dtype) != "float":
            if integers is None:
                raise unsupported(w, f"{symbol.removeprefix('__nv_')} of dtype {dtype}", "Convert it to floats with astype.")
            return integers(w, avals_in, avals_out, params, *values)
        wide = dtype if dtype.itemsize >= 4 else _float32
        values = [convert_floats(w, x, shape, dtype, wide) for x in values]
        result = w.extern(symbol if wide.itemsize == 8 else f"{symbol}f", values)
        return convert_floats(w, result, shape, wide, dtype)

    return rule


_next_after_of_wide_floats = _libdevice("__nv_nextafter")


def _next_after(w: TritonWriter, avals_in, avals_out, params, x, y):
    rule = _next_after_of_wide_floats if avals_in[0].dtype.itemsize >= 4 else kernel_elementwise.RULES["nextafter"]
    return rule(w, avals_in, avals_out, params, x, y)


def _bits_function(symbol: str) -> Rule:
    """Make the rule of a function of the bits of 32 or 64 bits; smaller integers are extended, and `clz` adjusted."""
    def rule(w: TritonWriter, avals_in, avals_out, params, x):
        dtype, shape = avals_in[0].dtype, avals_out[0].shape
        bits = bit_width(dtype)
        unsigned = np.dtype(f"uint{max(bits, 32)}")
        x = convert(w, x, shape, np.dtype(f"uint{bits}"), unsigned)
        result = w.extern(f"__nv_{symbol}{'ll' if bits == 64 else ''}", [x], w.type_of(shape, _int32))
        if symbol == "clz" and bits < 32:
            result = w.op("arith.subi", [result, w.constant(32 - bits, shape, _int32)])
        return convert(w, result, shape, _int32, dtype)

    return rule


# Conversions


def convert_floats(w: TritonWriter, x: ir.Value, shape: tuple[int, ...], old: Any, new: Any) -> ir.Value:
    """Convert between dtypes; Triton has an operation of its own for floats of 8 bits."""
    old, new = np.dtype(old), np.dtype(new)
    small = [d for d in (old, new) if kind_of(d) == "float" and bit_width(d) < 16]
    if not small or old == new:
        return convert(w, x, shape, old, new)
    if kind_of(old) != "float":
        return convert_floats(w, convert(w, x, shape, old, _float32), shape, _float32, new)
    if kind_of(new) != "float":
        return convert(w, convert_floats(w, x, shape, old, _float32), shape, _float32, new)
    if not shape:  # the operation takes tensors only
        return w.reshape(convert_floats(w, w.broadcast(x, (), (1,)), (1,), old, new), (1,), (), new)
    rounding = {"rounding": w.attribute("1 : i32")} if bit_width(new) < bit_width(old) else {}
    return w.op("tt.fp_to_fp", [x], w.type_of(shape, new), rounding)


def _convert(w: TritonWriter, avals_in, avals_out, params, x):
    return convert_floats(w, x, avals_out[0].shape, avals_in[0].dtype, avals_out[0].dtype)


def _bitcast(w: TritonWriter, avals_in, avals_out, params, x):
    old, new = avals_in[0].dtype, avals_out[0].dtype
    if bit_width(old) != bit_width(new):
        raise unsupported(w, f"bitcast_convert_type from {old} to {new}", "Only dtypes of equal width can be converted.")
    return x if kind_of(old) != "float" and kind_of(new) != "float" else w.op("tt.bitcast", [x], w.type_of(
        avals_out[0].shape, new))


# Shapes


def _broadcast_in_dim(w: TritonWriter, avals_in, avals_out, params, x):
    shape, new_shape = avals_in[0].shape, avals_out[0].shape
    dims = params["broadcast_dimensions"]
    for d in range(len(new_shape)):
        if d not in dims and shape:
            x, shape = w.expand(x, shape, d), (*shape[:d], 1, *shape[d:])
    return w.broadcast(x, shape, new_shape)


def _reshape(w: TritonWriter, avals_in, avals_out, params, x):
    return w.reshape(x, avals_in[0].shape, avals_out[0].shape, avals_in[0].dtype)


def _transpose(w: TritonWriter, avals_in, avals_out, params, x):
    return w.transpose(x, avals_in[0].shape, params["permutation"], avals_in[0].dtype)


def _iota(w: TritonWriter, avals_in, avals_out, params):
    aval, axis = avals_out[0], params["dimension"]
    x = w.along(w.range(aval.shape[axis]), axis, aval.ndim)
    size = tuple([n if i == axis else 1 for i, n in enumerate(aval.shape)])
    return w.broadcast(convert_floats(w, x, size, _int32, aval.dtype), size, aval.shape)


def _join(w: TritonWriter, values: Sequence[ir.Value], shape: tuple[int, ...], dtype: Any, axis: int) -> ir.Value:
    """Stack arrays of one shape along a new axis, two by two."""
    if len(values) == 1:
        return w.reshape(values[0], shape, (*shape[:axis], 1, *shape[axis:]), dtype)
    half = len(values) // 2
    if half == 1:
        if not shape:  # (Triton's compiler ends the process when it joins arrays of one element)
            second = compare(w, "ne", _int32, w.range(2), w.constant(0, (2,), _int32), (2,))
            return w.select(second, *[w.broadcast(x, (), (2,)) for x in values[::-1]])
        if all([n == 1 for n in shape]):
            pair = _join(w, [w.reshape(x, shape, (), dtype) for x in values], (), dtype, 0)
            return w.reshape(pair, (2,), (*shape[:axis], 2, *shape[axis:]), dtype)
        joined = w.op("tt.join", values, w.type_of((*shape, 2), dtype))
        rank = len(shape)
        return w.transpose(joined, (*shape, 2), [*range(axis), rank, *range(axis, rank)], dtype)
    halves = [_join(w, part, shape, dtype, axis) for part in (values[:half], values[half:])]
    part_shape = (*shape[:axis], half, *shape[axis:])
    return w.reshape(_join(w, halves, part_shape, dtype, axis), (*shape[:axis], 2, half, *shape[axis:]),
                     (*shape[:axis], 2 * half, *shape[axis:]), dtype)


def _is_joinable(count: int) -> bool:
    return count & (count - 1) == 0


def _stack(w: TritonWriter, avals_in, avals_out, params, *values):
    if not _is_joinable(len(values)):
        raise unsupported(w, f"stack of {len(values)} arrays", "Use a number of arrays that is a power of two.")
    return _join(w, values, avals_in[0].shape, avals_in[0].dtype, params["axis"])


def _concatenate(w: TritonWriter, avals_in, avals_out, params, *values):
    """Join neighbours of equal sizes; if other sizes remain, take each part at its positions."""
    axis, [out] = params["dimension"], avals_out
    pieces: list[tuple[ir.Value, int]] = []
    for x, aval in zip(values, avals_in):
        if x is None:  # (of arrays without elements there is no tensor)
            continue
        pieces.append((x, aval.shape[axis]))
        while len(pieces) > 1 and pieces[-1][1] == pieces[-2][1]:
            (left, size), (right, _) = pieces[-2:]
            shape = (*out.shape[:axis], size, *out.shape[axis + 1:])
            joined = w.reshape(_join(w, [left, right], shape, out.dtype, axis), (*shape[:axis], 2, *shape[axis:]),
                               (*shape[:axis], 2 * size, *shape[axis + 1:]), out.dtype)
            pieces[-2:] = [(joined, 2 * size)]
    n = out.shape[axis]
    w.type_of(out.shape, out.dtype)  # (refuses sizes that are no powers of two)
    positions, found, start = w.range(n), None, 0
    for x, size in pieces:
        if size != n:
            inside = _between(w, positions, start, size, n)
            x = _take(w, x, inside, (*out.shape[:axis], size, *out.shape[axis + 1:]), out.dtype, axis, n)
        if found is not None:
            is_here = compare(w, "ge", _int32, positions, w.constant(start, (n,), _int32), (n,))
            row = tuple([n if d == axis else 1 for d in range(out.ndim)])
            x = w.select(w.broadcast(w.along(is_here, axis, out.ndim), row, out.shape), x, found)
        found, start = x, start + size
    return found


def _between(w: TritonWriter, positions: ir.Value, start: int, size: int, n: int) -> ir.Value:
    """Return the positions in a part that starts at `start`, clamped."""
    moved = w.op("arith.subi", [positions, w.constant(start, (n,), _int32)])
    moved = w.op("arith.maxsi", [moved, w.constant(0, (n,), _int32)])
    return w.op("arith.minsi", [moved, w.constant(size - 1, (n,), _int32)])


def _halves(w: TritonWriter, x: ir.Value, shape: tuple[int, ...], dtype: Any, axis: int, count: int) -> list[ir.Value]:
    """Split an array into equal parts along an axis, two by two."""
    if count == 1:
        return [x]
    half = shape[axis] // 2
    split = (*shape[:axis], 2, half, *shape[axis + 1:])
    rank = len(split)
    order = [i for i in range(rank) if i != axis] + [axis]
    x = w.transpose(w.reshape(x, shape, split, dtype), split, order, dtype)
    part = (*shape[:axis], half, *shape[axis + 1:])
    kind = w.type_of(part, dtype)
    pieces = w.several("tt.split", [x], [kind, kind])
    return [y for p in pieces for y in _halves(w, p, part, dtype, axis, count // 2)]


def _split(w: TritonWriter, avals_in, avals_out, params, x):
    sizes, axis, aval = params["sizes"], params["axis"], avals_in[0]
    if len(set(sizes)) == 1 and _is_joinable(len(sizes)):
        return _halves(w, x, aval.shape, aval.dtype, axis, len(sizes))
    found, start = [], 0
    for out in avals_out:
        starts = [start if d == axis else 0 for d in range(aval.ndim)]
        found.append(_slice(w, avals_in, [out], {"start_indices": starts, "strides": None, "limit_indices": [
            i + n for i, n in zip(starts, out.shape)]}, x))
        start += out.shape[axis]
    return found


def _unstack(w: TritonWriter, avals_in, avals_out, params, x):
    aval, axis = avals_in[0], params["axis"]
    part = (*aval.shape[:axis], 1, *aval.shape[axis + 1:])
    return [w.reshape(y, part, avals_out[0].shape, aval.dtype) for y in _halves(w, x, aval.shape, aval.dtype, axis,
                                                                                aval.shape[axis])]


def _take(w: TritonWriter, x: ir.Value, positions: ir.Value, shape: tuple[int, ...], dtype: Any, axis: int, size: int
          ) -> ir.Value:
    """Return the elements at positions along an axis, a vector of `size` integers."""
    rank, new_shape = len(shape), (*shape[:axis], size, *shape[axis + 1:])
    indices = w.along(positions, axis, rank)
    indices = w.broadcast(indices, tuple([size if d == axis else 1 for d in range(rank)]), new_shape)
    return w.op("tt.gather", [x, indices], w.type_of(new_shape, dtype), {"axis": w.attribute(f"{axis} : i32")})


def _slice(w: TritonWriter, avals_in, avals_out, params, x):
    shape, dtype = avals_in[0].shape, avals_in[0].dtype
    strides = params["strides"] or (1,) * len(shape)
    for axis, (start, stop, stride) in enumerate(zip(params["start_indices"], params["limit_indices"], strides)):
        size = -(-(stop - start) // stride)
        if size == shape[axis]:
            continue
        if size and stride == 1 and start % size == 0 and shape[axis] % size == 0:
            x = _halves(w, x, shape, dtype, axis, shape[axis] // size)[start // size]
        else:
            positions = w.op("arith.muli", [w.range(size), w.constant(stride, (size,), _int32)])
            positions = w.op("arith.addi", [positions, w.constant(start, (size,), _int32)])
            x = _take(w, x, positions, shape, dtype, axis, size)
        shape = (*shape[:axis], size, *shape[axis + 1:])
    return x


def _dynamic_slice(w: TritonWriter, avals_in, avals_out, params, x, *starts):
    shape, dtype = avals_in[0].shape, avals_in[0].dtype
    for axis, (start, size) in enumerate(zip(starts, params["slice_sizes"])):
        if size == shape[axis]:
            continue
        start = convert(w, start, (), avals_in[1 + axis].dtype, _int32)
        start = w.op("arith.minsi", [w.op("arith.maxsi", [start, w.constant(np.int32(0))]),
                                     w.constant(np.int32(shape[axis] - size))])
        positions = w.op("arith.addi", [w.range(size), w.broadcast(start, (), (size,))])
        x = _take(w, x, positions, shape, dtype, axis, size)
        shape = (*shape[:axis], size, *shape[axis + 1:])
    return x


def _reverse(w: TritonWriter, avals_in, avals_out, params, x):
    aval = avals_in[0]
    for axis in params["dimensions"]:
        size = aval.shape[axis]
        backward = w.op("arith.subi", [w.constant(size - 1, (size,), _int32), w.range(size)])
        x = _take(w, x, backward, aval.shape, aval.dtype, axis, size)
    return x


def _roll(w: TritonWriter, avals_in, avals_out, params, x, *shifts):
    """Roll by a static shift, or by that of `pallas.tpu.roll`, an operand."""
    if params.get("stride") is not None:
        raise unsupported(w, "roll with a stride", "Use take_along_axis.")
    aval, axis = avals_in[0], params["axis" if shifts else "dimension"]
    size = aval.shape[axis]
    shift = convert(w, shifts[0], (), avals_in[1].dtype, _int32) if shifts else w.constant(np.int32(params["shift"] % size))
    moved = w.op("arith.subi", [w.range(size), w.broadcast(shift, (), (size,))])
    positions = w.op("arith.andi", [moved, w.constant(size - 1, (size,), _int32)])  # (the size is a power of two)
    return _take(w, x, positions, aval.shape, aval.dtype, axis, size)


def _tile(w: TritonWriter, avals_in, avals_out, params, x):
    aval, reps = avals_in[0], params["reps"]
    pairs = tuple([m for n in aval.shape for m in (1, n)])
    full = tuple([m for r, n in zip(reps, aval.shape) for m in (r, n)])
    x = w.broadcast(w.reshape(x, aval.shape, pairs, aval.dtype), pairs, full)
    return w.reshape(x, full, avals_out[0].shape, aval.dtype)


def _pad(w: TritonWriter, avals_in, avals_out, params, x, fill):
    """Take the element at each position of the result, or the fill value outside and between elements."""
    shape, dtype = avals_in[0].shape, avals_in[0].dtype
    for axis, (low, high, interior) in enumerate(params["padding_config"]):
        n, step = shape[axis], interior + 1
        if not (low or high or interior):
            continue
        size = low + (n - 1) * step + 1 + high
        positions = w.op("arith.subi", [w.range(size), w.constant(low, (size,), _int32)])
        zero, last = w.constant(0, (size,), _int32), w.constant((n - 1) * step, (size,), _int32)
        inside = w.op("arith.minsi", [w.op("arith.maxsi", [positions, zero]), last])
        is_filled = compare(w, "ne", _int32, inside, positions, (size,))
        if interior:
            steps = w.constant(step, (size,), _int32)
            rest = w.op("arith.remsi", [inside, steps])
            is_filled = w.op("arith.ori", [is_filled, compare(w, "ne", _int32, rest, zero, (size,))])
            inside = w.op("arith.divsi", [inside, steps])
        x = _take(w, x, inside, shape, dtype, axis, size)
        shape = (*shape[:axis], size, *shape[axis + 1:])
        row = tuple([size if d == axis else 1 for d in range(len(shape))])
        is_filled = w.broadcast(w.along(is_filled, axis, len(shape)), row, shape)
        x = w.select(is_filled, w.broadcast(fill, (), shape), x)
    return x


def _gather_elements(w: TritonWriter, avals_in, avals_out, params, x, indices):
    return w.op("tt.gather", [x, indices], w.types_of(avals_out)[0], {"axis": w.attribute(f"{params['axis']} : i32")})


# Reductions and scans


def _reduce_axis(w: TritonWriter, x: ir.Value, shape: tuple[int, ...], dtype: Any, axis: int, name: str) -> ir.Value:
    rest = (*shape[:axis], *shape[axis + 1:])
    return w.combine("tt.reduce", [x], [w.type_of(rest, dtype)], {"axis": w.attribute(f"{axis} : i32")},
                     lambda left, right: [binary(w, name, dtype, left[0], right[0])])[0]


def _reduction(name: str) -> Rule:
    def rule(w: TritonWriter, avals_in, avals_out, params, x):
        aval, shape = avals_in[0], avals_in[0].shape
        dtype = aval.dtype
        wide = _float32 if kind_of(dtype) == "float" and dtype.itemsize < 4 and name in ("add", "mul") else dtype
        x = convert_floats(w, x, shape, dtype, wide)
        for axis in sorted(params["axes"], reverse=True):
            x = _reduce_axis(w, x, shape, wide, axis, name)
            shape = (*shape[:axis], *shape[axis + 1:])
        return convert_floats(w, x, shape, wide, dtype)

    return rule


def _arg_reduction(is_better: str) -> Rule:
    """Make the rule of argmax or argmin: the first index of the best value, or of NaN if there is one."""
    def rule(w: TritonWriter, avals_in, avals_out, params, x):
        aval, [axis] = avals_in[0], params["axes"]
        dtype, shape = aval.dtype, aval.shape
        indices = _iota(w, [], [aval.update(dtype=_int32)], {"dimension": axis})
        rest = (*shape[:axis], *shape[axis + 1:])

        def better(left: list, right: list) -> list:
            (x, i), (y, k) = left, right
            wins = compare(w, is_better, dtype, x, y, ())
            ties = compare(w, "eq", dtype, x, y, ())
            if kind_of(dtype) == "float":
                x_is_nan, y_is_nan = (compare(w, "ne", dtype, v, v, ()) for v in (x, y))
                ties = w.op("arith.ori", [ties, w.op("arith.andi", [x_is_nan, y_is_nan])])
                y_is_number = w.op("arith.xori", [y_is_nan, w.constant(np.True_)])
                wins = w.op("arith.ori", [wins, w.op("arith.andi", [x_is_nan, y_is_number])])
            first = w.op("arith.andi", [ties, compare(w, "lt", _int32, i, k, ())])
            wins = w.op("arith.ori", [wins, first])
            return [w.select(wins, x, y), w.select(wins, i, k)]

        _, index = w.combine("tt.reduce", [x, indices], [w.type_of(rest, dtype), w.type_of(rest, _int32)],
                             {"axis": w.attribute(f"{axis} : i32")}, better)
        return convert(w, index, rest, _int32, avals_out[0].dtype)

    return rule


def _log_add(w: TritonWriter, dtype: Any, x: ir.Value, y: ir.Value) -> ir.Value:
    """Return `log(exp(x) + exp(y))`; for infinities, too."""
    aval = [ShapedArray((), dtype)]
    largest, difference = binary(w, "max", dtype, x, y), binary(w, "sub", dtype, x, y)
    smaller = w.op("arith.negf", [w.op("math.absf", [difference])])
    rest = w.rules["log1p"](w, aval, aval, {}, w.rules["exp"](w, aval, aval, {}, smaller))
    is_nan = compare(w, "ne", dtype, difference, difference, ())
    return w.select(is_nan, binary(w, "add", dtype, x, y), binary(w, "add", dtype, largest, rest))


def _scan(combine: Callable) -> Rule:
    """Make the rule of a cumulative operation: `combine(writer, dtype, left, right)`."""
    def rule(w: TritonWriter, avals_in, avals_out, params, x):
        aval = avals_in[0]
        dtype = aval.dtype
        attributes = {"axis": w.attribute(f"{params['axis']} : i32"),
                      "reverse": w.attribute("true" if params["reverse"] else "false")}
        return w.combine("tt.scan", [x], [x.type], attributes,
                         lambda left, right: [combine(w, dtype, left[0], right[0])])[0]

    return rule


# Products

_TF32, _EXACT = 0, 2
_SPLIT = {"TF32_TF32_F32_X3": 1, "BF16_BF16_F32_X3": 3, "BF16_BF16_F32_X6": 4}  # sums of products of rounded components
_MIN_DOT = 16


def _precision(w: TritonWriter, precision: Any, x: Any, y: Any, result: np.dtype) -> tuple[int, np.dtype, np.dtype]:
    """Return Triton's precision of products, and the dtypes to which the operands are converted."""
    if precision is None or isinstance(precision, tuple):
        exact = precision is not None and any([p.name == "HIGHEST" for p in precision])
        return (_EXACT if exact else _TF32), x.dtype, y.dtype
    name = getattr(precision, "name", None)
    if name is None:
        raise unsupported(w, f"dot_general with the precision {precision}", "Use lax.Precision or a lax.DotAlgorithmPreset.")
    if name == "DEFAULT":
        return _TF32, x.dtype, y.dtype
    found = preset(name, x.dtype, y.dtype, result)
    if found.algorithm.num_primitive_operations > 1 and name not in _SPLIT:
        raise unsupported(w, f"dot_general with the precision {name}", f"Use {', '.join(_SPLIT)} or F32_F32_F32.")
    if name == "BF16_BF16_F32":
        return _EXACT, dtypes.bfloat16, dtypes.bfloat16
    return {"TF32_TF32_F32": _TF32, **_SPLIT}.get(name, _EXACT), np.dtype(found.lhs), np.dtype(found.rhs)


def _dot_general(w: TritonWriter, avals_in, avals_out, params, x, y):
    (x_sums, y_sums), (x_batch, y_batch) = params["dimension_numbers"]
    (a, b), out = avals_in, avals_out[0]
    if len(x_sums) != 1 or len(x_batch) > 1:
        raise unsupported(w, f"dot_general that sums over {len(x_sums)} dimensions with {len(x_batch)} batch dimensions",
                          "Reshape the operands to matrices, or put batch dimensions on the grid.")
    precision, x_dtype, y_dtype = _precision(w, params["precision"], a, b, out.dtype)
    if kind_of(x_dtype) in ("signed", "unsigned") and not x_dtype == y_dtype == np.int8:  # units have bytes and 32 bits
        x_dtype = y_dtype = _int32 if max(x_dtype.itemsize, y_dtype.itemsize) <= 4 else np.dtype(np.int64)
    x, y = convert_floats(w, x, a.shape, a.dtype, x_dtype), convert_floats(w, y, b.shape, b.dtype, y_dtype)
    # to [batch,] rows, sum and [batch,] sum, columns
    x_order = [*x_batch, *[d for d in range(a.ndim) if d not in (*x_batch, *x_sums)], *x_sums]
    y_order = [*y_batch, *y_sums, *[d for d in range(b.ndim) if d not in (*y_batch, *y_sums)]]
    x, y = w.transpose(x, a.shape, x_order, x_dtype), w.transpose(y, b.shape, y_order, y_dtype)
    x_shape, y_shape = tuple([a.shape[d] for d in x_order]), tuple([b.shape[d] for d in y_order])
    total = _accumulator(out.dtype, x_dtype)
    is_matrix = len(x_shape) == len(y_shape) == 2 + len(x_batch)
    if is_matrix and min(*x_shape[-2:], y_shape[-1]) >= _MIN_DOT and kind_of(x_dtype) != "bool" and x_dtype == y_dtype \
            and x_dtype != np.int64:
        product = _dot(w, x, y, out.shape, total, precision)
    else:
        product = _sum_of_products(w, x, y, x_shape, y_shape, (x_dtype, y_dtype), total, len(x_batch))
    return convert_floats(w, product, out.shape, total, out.dtype)


def _accumulator(out: np.dtype, operand: np.dtype) -> np.dtype:
    if kind_of(operand) != "float":
        return _int32 if dtypes.is_integer(out) and out.itemsize <= 4 else out
    return _float32 if out.itemsize < 4 or kind_of(out) != "float" else out


def _dot(w: TritonWriter, x: ir.Value, y: ir.Value, shape: tuple[int, ...], total: np.dtype, precision: int) -> ir.Value:
    attributes = {"inputPrecision": w.attribute(f"{precision} : i32"), "maxNumImpreciseAcc": w.attribute("0 : i32")}
    return w.op("tt.dot", [x, y, w.constant(0, shape, total)], w.type_of(shape, total), attributes)


def _sum_of_products(w: TritonWriter, x: ir.Value, y: ir.Value, x_shape: tuple[int, ...], y_shape: tuple[int, ...],
                     operand_dtypes: tuple[np.dtype, np.dtype], total: np.dtype, batch: int) -> ir.Value:
    """Multiply operands that are smaller than the blocks of the hardware's units, or vectors, elementwise."""
    x, y = convert_floats(w, x, x_shape, operand_dtypes[0], total), convert_floats(w, y, y_shape, operand_dtypes[1], total)
    rows, columns = x_shape[batch:-1], y_shape[batch + 1:]
    count = x_shape[-1]
    full = (*x_shape[:batch], *rows, count, *columns)
    for _ in columns:
        x, x_shape = w.expand(x, x_shape, len(x_shape)), (*x_shape, 1)
    for _ in rows:
        y, y_shape = w.expand(y, y_shape, batch), (*y_shape[:batch], 1, *y_shape[batch:])
    products = binary(w, "mul", total, w.broadcast(x, x_shape, full), w.broadcast(y, y_shape, full))
    return _reduce_axis(w, products, full, total, batch + len(rows), "add")


# Hints, assembly, printing


def _axis_info(attribute: str) -> Rule:
    """Make the rule of a promise about the elements of an array of integers."""
    def rule(w: TritonWriter, avals_in, avals_out, params, x):
        values = params["values"]
        numbers = [values] if isinstance(values, int) else list(values)
        owner = getattr(x.owner, "name", None)
        if owner is None:  # a block argument takes no attributes
            return x
        rank = max(avals_in[0].ndim, 1)
        numbers = numbers if len(numbers) == rank else [numbers[0]] * rank
        x.owner.attributes[attribute] = w.attribute(f"dense<{numbers}> : tensor<{rank}xi32>")
        return x

    return rule


_APPROXIMATIONS = {2: "h", 4: "f"}


def _approx_tanh(w: TritonWriter, avals_in, avals_out, params, x):
    aval = avals_in[0]
    register = _APPROXIMATIONS.get(aval.dtype.itemsize)
    name = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}.get(aval.dtype.name)
    if register is None or name is None:
        return w.rules["tanh"](w, avals_in, avals_out, {}, x)
    return w.assembly(f"tanh.approx.{name} $0, $1;", f"={register},{register}", 1, [x], [x.type])[0]


def _inline_assembly(w: TritonWriter, avals_in, avals_out, params, *values):
    shapes = {a.shape for a in [*avals_in, *avals_out]}
    if len(shapes) > 1:
        raise ValueError(f"{w.where()}elementwise_inline_asm takes operands and results of one shape, got "
                         f"{', '.join(map(str, sorted(shapes)))}. Broadcast the operands first.")
    return w.assembly(params["asm"], params["constraints"], params["pack"], values, w.types_of(avals_out))


def _barrier(w: TritonWriter, avals_in, avals_out, params):
    w.effect("gpu.barrier", [])
    return []


def _debug_print(w: TritonWriter, avals_in, avals_out, params, *values):
    """Print each value after the text in front of it."""
    texts = [params["fmt"]]
    if params.get("has_placeholders", True):
        texts = [text for text, *_ in string.Formatter().parse(params["fmt"])]
    for i in range(max(len(texts), len(values))):
        text = (texts[i] if i < len(texts) else "").replace('"', "'").replace("\\", "/").replace("\n", " ")
        operands = [values[i]] if i < len(values) else []
        signs = ", ".join(["1" if kind_of(avals_in[i].dtype) == "signed" else "0" for _ in operands])
        w.effect("tt.print", operands, {"prefix": w.attribute(f'" {text.strip()} "'), "hex": w.attribute("false"),
                                        "isSigned": w.attribute(f"array<i32: {signs}>" if operands else "array<i32>")})
    return []


def _program_id(w: TritonWriter, avals_in, avals_out, params):
    return w.program_ids[params["axis"]]


def _small_float_row(rule: Rule) -> Rule:
    """Make a rule compute floats of 8 bits in 32 bits."""
    def wide_rule(w: TritonWriter, avals_in, avals_out, params, *values):
        dtype = avals_in[0].dtype
        if kind_of(dtype) != "float" or bit_width(dtype) >= 16:
            return rule(w, avals_in, avals_out, params, *values)
        values = [convert_floats(w, x, a.shape, a.dtype, _float32) for x, a in zip(values, avals_in)]
        wide_in = [a.update(dtype=_float32) for a in avals_in]
        out = avals_out[0]
        wide_out = out.update(dtype=_float32) if out.dtype == dtype else out
        result = rule(w, wide_in, [wide_out], params, *values)
        return convert_floats(w, result, out.shape, wide_out.dtype, out.dtype)

    return wide_rule


def _refused(name: str, remedy: str) -> Rule:
    """Make the rule of an operation that GPUs do not have."""
    def rule(w: TritonWriter, avals_in, avals_out, params, *values):
        raise unsupported(w, name, remedy)

    return rule


_OF_TPUS = ("run_scoped dma_start dma_wait semaphore_signal semaphore_wait semaphore_read get_barrier_semaphore new_ref "
            "empty_ref").split()
_REFUSED = {
    **{name: (name, "It is for the memory of TPUs: on GPUs, keep values in variables, and read and write references.")
       for name in _OF_TPUS},
    **{name: (name, "Draw random bits outside of the kernel, and pass them as an argument.")
       for name in ("prng_seed", "prng_random_bits", "threefry2x32", "random_bits", "random_seed", "wrap_key_data")},
    **{name: (name, "Compute it before or after the kernel.") for name in ("fft", "conv_general_dilated")}}

_ARITHMETIC = "add add_any sub mul div max min neg eq ne lt le gt ge integer_pow square sign logistic".split()

RULES: dict[str, Rule] = {
    **{name: _refused(*texts) for name, texts in _REFUSED.items()},
    **{name: _small_float_row(kernel_elementwise.RULES[name]) for name in _ARITHMETIC},
    **{name: _libdevice(symbol, kernel_elementwise.RULES.get(name)) for name, symbol in _LIBDEVICE.items() if name != "pow"},
    "nextafter": _next_after, "clz": _bits_function("clz"), "population_count": _bits_function("popc"),
    "convert_element_type": _convert, "bitcast_convert_type": _bitcast, "broadcast_in_dim": _broadcast_in_dim,
    "broadcast_to": _broadcast_in_dim, "reshape": _reshape, "squeeze": _reshape, "transpose": _transpose, "iota": _iota,
    "stack": _stack, "concatenate": _concatenate, "split": _split, "unstack": _unstack, "slice": _slice, "rev": _reverse,
    "pad": _pad, "dynamic_slice": _dynamic_slice, "roll": _roll, "tile": _tile, "gather_elements": _gather_elements,
    **{f"reduce_{name}": _reduction(operation) for name, operation in {
        "sum": "add", "max": "max", "min": "min", "prod": "mul", "and": "and", "or": "or", "xor": "xor"}.items()},
    "argmax": _arg_reduction("gt"), "argmin": _arg_reduction("lt"),
    **{f"cum{name}": _scan(lambda w, dtype, x, y, operation=operation: binary(w, operation, dtype, x, y))
       for name, operation in {"sum": "add", "prod": "mul", "max": "max", "min": "min"}.items()},
    "cumlogsumexp": _scan(_log_add),
    "dot_general": _dot_general, "multiple_of": _axis_info("tt.divisibility"), "max_contiguous": _axis_info("tt.contiguity"),
    "approx_tanh": _approx_tanh, "elementwise_inline_asm": _inline_assembly, "debug_barrier": _barrier,
    "delay": lambda w, avals_in, avals_out, params, *nanoseconds: [], "debug_print": _debug_print, "program_id": _program_id}
