"""Rules of TPU kernels for shapes, reductions and products of vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront.core import dtypes
from xlafront.lowering.mlir import ir
from xlafront.pallas.kernel_elementwise import RULES as COMMON_RULES, binary, compare, convert
from xlafront.pallas.kernel_equations import unsupported
from xlafront.pallas.kernel_mlir import Rule, bit_width, element_type, kind_of
from xlafront.pallas.to_mosaic import gathers

if TYPE_CHECKING:
    from xlafront.pallas.to_mosaic.writer import MosaicWriter

_bool, _float32, _int32 = np.dtype(np.bool_), np.dtype(np.float32), np.dtype(np.int32)

# Shapes


def _broadcast_in_dim(w: MosaicWriter, avals_in, avals_out, params, x, *_):
    aval, shape = avals_in[0], avals_out[0].shape
    if aval.dtype == _bool and aval.shape:  # through integers, as vectors of bits are not broadcast
        wide = w.op("arith.extui", [x], w.type_of(aval.shape, _int32))
        full = _broadcast(w, wide, aval.shape, shape, params["broadcast_dimensions"], _int32)
        return w.compare("arith.cmpi", 1, full, w.constant(np.int32(0), shape), shape)
    return _broadcast(w, x, aval.shape, shape, params["broadcast_dimensions"], aval.dtype)


def _broadcast(w: MosaicWriter, x: ir.Value, shape, new_shape, dims: Sequence[int], dtype) -> ir.Value:
    if not shape:
        return w.broadcast(x, (), new_shape)
    aligned = [1] * len(new_shape)
    for d, n in zip(dims, shape):
        aligned[d] = n
    return w.broadcast(w.reshape(x, shape, aligned, dtype), tuple(aligned), new_shape)


def _reshape(w: MosaicWriter, avals_in, avals_out, params, x, *_):
    return w.reshape(x, avals_in[0].shape, avals_out[0].shape, avals_in[0].dtype)


def _transpose(w: MosaicWriter, avals_in, avals_out, params, x):
    order = ", ".join(map(str, params["permutation"]))
    return w.op("tpu.transpose", [x], w.types_of(avals_out)[0], {"permutation": w.attribute(f"array<i64: {order}>")})


def _concatenate(w: MosaicWriter, avals_in, avals_out, params, *values):
    values = tuple([x for x in values if x is not None])  # (of arrays without elements there is no vector)
    if len(values) == 1:
        return values[0]
    return w.op("tpu.concatenate", values, w.types_of(avals_out)[0], {
        "dimension": w.attribute(f"{params['dimension']} : i32")})


def _stack(w: MosaicWriter, avals_in, avals_out, params, *values):
    """Give each value a new dimension, and concatenate."""
    axis, [out] = params["axis"], avals_out
    shape = tuple([1 if d == axis else n for d, n in enumerate(out.shape)])
    rows = [w.reshape(x, a.shape, shape, out.dtype) for x, a in zip(values, avals_in)]
    return _concatenate(w, avals_in, avals_out, {"dimension": axis}, *rows)


def _unstack(w: MosaicWriter, avals_in, avals_out, params, x):
    axis, [aval] = params["axis"], avals_in
    rows = aval.update(shape=tuple([1 if d == axis else n for d, n in enumerate(aval.shape)]))
    return [w.reshape(_extract(w, x, [i if d == axis else 0 for d in range(aval.ndim)], rows), rows.shape, out.shape, out.dtype)
            for i, out in enumerate(avals_out)]


def _tile(w: MosaicWriter, avals_in, avals_out, params, x):
    """Repeat a vector along each dimension."""
    aval, shape = avals_in[0], list(avals_in[0].shape)
    for d, count in enumerate(params["reps"]):
        if count > 1:
            wider = aval.update(shape=tuple([n * count if i == d else n for i, n in enumerate(shape)]))
            if shape[d] == 1:
                x = w.broadcast(x, tuple(shape), wider.shape)
            else:
                x = _concatenate(w, avals_in, [wider], {"dimension": d}, *[x] * count)
            shape[d] *= count
    return x


def _iota(w: MosaicWriter, avals_in, avals_out, params, *_):
    [aval] = avals_out
    shape, dimension = aval.shape, params["dimension"]
    if len(shape) == 1:
        shape, dimension = (1, *shape), 1
    x = w.op("tpu.iota", [], w.type_of(shape, _int32), {"dimensions": w.attribute(f"array<i32: {dimension}>")})
    return convert(w, w.reshape(x, shape, aval.shape, _int32), aval.shape, _int32, aval.dtype)


def _slice(w: MosaicWriter, avals_in, avals_out, params, x):
    shape, dtype, [out] = avals_in[0].shape, avals_in[0].dtype, avals_out
    starts, strides = list(params["start_indices"]), params["strides"] or (1,) * len(shape)
    for axis, (size, stride) in enumerate(zip(out.shape, strides)):
        if stride != 1:
            x = gathers.strided(w, x, shape, dtype, axis, starts[axis], size, stride)
            shape, starts[axis] = (*shape[:axis], size, *shape[axis + 1:]), 0
    return x if shape == out.shape else _extract(w, x, starts, out)


def _extract(w: MosaicWriter, x: ir.Value, starts: Sequence[int], aval: Any) -> ir.Value:
    return gathers.extract(w, x, starts, aval.shape, aval.dtype)


def part(w: MosaicWriter, x: ir.Value, aval: Any, axis: int, start: int, stop: int) -> ir.Value:
    """Return the elements of a vector between two positions along a dimension."""
    shape = tuple([stop - start if d == axis else n for d, n in enumerate(aval.shape)])
    return _extract(w, x, [start if d == axis else 0 for d in range(aval.ndim)], aval.update(shape=shape))


def _split(w: MosaicWriter, avals_in, avals_out, params, x):
    results, axis, start = [], params["axis"], 0
    for aval in avals_out:
        starts = [start if d == axis else 0 for d in range(aval.ndim)]
        results.append(_extract(w, x, starts, aval))
        start += aval.shape[axis]
    return results


def _pad(w: MosaicWriter, avals_in, avals_out, params, x, fill):
    aval, shape = avals_in[0], list(avals_in[0].shape)
    for d, (low, high, interior) in enumerate(params["padding_config"]):
        if interior and shape[d] > 1:
            x = _pad_between(w, x, aval.update(shape=tuple(shape)), d, interior, fill)
            shape[d] += (shape[d] - 1) * interior
        if low < 0 or high < 0:
            current = aval.update(shape=tuple(shape))
            x = part(w, x, current, d, max(-low, 0), shape[d] - max(-high, 0))
            shape[d] -= max(-low, 0) + max(-high, 0)
            low, high = max(low, 0), max(high, 0)
        pieces = []
        for n in (low, None, high):
            if n is None:
                pieces.append(x)
            elif n:
                pieces.append(w.broadcast(fill, (), (*shape[:d], n, *shape[d + 1:])))
        shape[d] += low + high
        if len(pieces) > 1:
            x = w.op("tpu.concatenate", pieces, w.type_of(tuple(shape), aval.dtype), {"dimension": w.attribute(f"{d} : i32")})
    return x


def _pad_between(w: MosaicWriter, x: ir.Value, aval: Any, axis: int, count: int, fill: ir.Value) -> ir.Value:
    """Put `count` elements of a value between elements along an axis."""
    size = aval.shape[axis] + (aval.shape[axis] - 1) * count
    shape = (*aval.shape[:axis], size, *aval.shape[axis + 1:])
    if axis >= aval.ndim - 2:
        x, is_first = gathers.repeat(w, x, aval.shape, aval.dtype, axis, count + 1)
        return w.select(is_first, x, w.broadcast(fill, (), shape))
    gap = w.broadcast(fill, (), (*shape[:axis], count, *shape[axis + 1:]))
    pieces = [p for i in range(aval.shape[axis]) for p in (gap, part(w, x, aval, axis, i, i + 1))][1:]
    return w.op("tpu.concatenate", pieces, w.type_of(shape, aval.dtype), {"dimension": w.attribute(f"{axis} : i32")})


# Reductions

# The kind of `vector.multi_reduction` by kind of dtype, and the start value
_SMALLEST = {"signed": lambda d: dtypes.iinfo(d).min, "unsigned": lambda d: 0, "float": lambda d: -np.inf}
_LARGEST = {"signed": lambda d: dtypes.iinfo(d).max, "unsigned": lambda d: dtypes.iinfo(d).max, "float": lambda d: np.inf}
_REDUCTIONS = {
    "reduce_sum": ({"float": "add", "signed": "add", "unsigned": "add"}, dict.fromkeys(_SMALLEST, lambda d: 0)),
    "reduce_max": ({"float": "maximumf", "signed": "maxsi", "unsigned": "maxui"}, _SMALLEST),
    "reduce_min": ({"float": "minimumf", "signed": "minsi", "unsigned": "minui"}, _LARGEST),
}


def _reduce(w: MosaicWriter, name: str, x: ir.Value, shape: tuple[int, ...], dtype: Any, axes: Sequence[int]) -> ir.Value:
    """Reduce a vector over dimensions. A full reduction gives a scalar."""
    kind = kind_of(dtype)
    names, starts = _REDUCTIONS[name]
    if len(axes) == len(shape):
        x, shape, axes = w.reshape(x, shape, (1, *shape), dtype), (1, *shape), [a + 1 for a in axes]
    remaining = tuple([n for d, n in enumerate(shape) if d not in axes])
    start = w.constant(np.asarray(starts[kind](dtype)).astype(dtype), remaining)
    return w.op("vector.multi_reduction", [x, start], start.type, {
        "kind": w.attribute(f"#vector.kind<{names[kind]}>"),
        "reduction_dims": w.attribute(f"array<i64: {', '.join(map(str, axes))}>")})


def _reduction(name: str) -> Rule:
    def rule(w: MosaicWriter, avals_in, avals_out, params, x):
        aval, shape = avals_in[0], avals_out[0].shape
        if not params["axes"]:
            return x
        if aval.dtype == np.uint32 and name != "reduce_sum":  # with the highest bit flipped, in the order of signed integers
            flip = w.constant(np.int32(-(1 << 31)), aval.shape)
            signed = [a.update(dtype=_int32) for a in (aval, avals_out[0])]
            found = rule(w, signed[:1], signed[1:], params, w.op("arith.xori", [x, flip]))
            return w.op("arith.xori", [found, w.constant(np.int32(-(1 << 31)), shape)])
        wide = _float32 if kind_of(aval.dtype) == "float" and bit_width(aval.dtype) < 32 else (
            _int32 if kind_of(aval.dtype) != "float" and bit_width(aval.dtype) < 32 else aval.dtype)
        x = _reduce(w, name, convert(w, x, aval.shape, aval.dtype, wide), aval.shape, wide, params["axes"])
        return convert(w, w.reshape(x, shape or (1,), shape, wide), shape, wide, aval.dtype)

    return rule


def _logical_reduction(name: str) -> Rule:
    """Reduce booleans as floats, by their maximum or minimum."""
    def rule(w: MosaicWriter, avals_in, avals_out, params, x):
        aval, shape = avals_in[0], avals_out[0].shape
        if aval.dtype != _bool:
            raise unsupported(w, f"a reduction of {aval.dtype} by bits", "Reduce booleans, or compute the sum or maximum.")
        one, zero = w.constant(np.float32(1), aval.shape), w.constant(np.float32(0), aval.shape)
        found = _reduce(w, name, w.select(x, one, zero), aval.shape, _float32, params["axes"])
        found = w.reshape(found, shape or (1,), shape, _float32)
        return compare(w, "gt", _float32, found, w.constant(np.float32(0), shape), shape)

    return rule


def _arg_reduction(kind: str) -> Rule:
    def rule(w: MosaicWriter, avals_in, avals_out, params, x):
        aval, [out], [axis] = avals_in[0], avals_out, params["axes"]
        if kind_of(aval.dtype) != "float" or aval.ndim < 2:
            return _first_of_best(w, kind, aval, out, axis, x)
        x = convert(w, x, aval.shape, aval.dtype, _float32)
        found = w.op("tpu.reduce_index", [x], w.type_of(out.shape, _int32), {
            "axis": w.attribute(f"{axis} : i32"), "kind": w.attribute(f"#tpu.reduction_kind<{kind}>")})
        return convert(w, found, out.shape, _int32, out.dtype)

    return rule


def _first_of_best(w: MosaicWriter, kind: str, aval: Any, out: Any, axis: int, x: ir.Value) -> ir.Value:
    """Return the least index of an element that equals the maximum or minimum, or of NaN if there is one."""
    shape, dtype = aval.shape, aval.dtype
    if bit_width(dtype) < 32:
        wide = _float32 if kind_of(dtype) == "float" else _int32
        x, dtype = convert(w, x, shape, dtype, wide), wide
    values = aval.update(dtype=dtype)
    reduction = RULES["reduce_max" if kind == "arg_max" else "reduce_min"]
    best = reduction(w, [values], [out.update(dtype=dtype)], {"axes": (axis,)}, x)
    row = tuple([1 if d == axis else n for d, n in enumerate(shape)])
    best = w.broadcast(w.reshape(best, out.shape, row, dtype), row, shape)
    is_best = compare(w, "eq", dtype, x, best, shape)
    if kind_of(dtype) == "float":
        is_best = w.op("arith.ori", [is_best, compare(w, "ne", dtype, x, x, shape)])
    positions = aval.update(dtype=_int32)
    index = w.select(is_best, _iota(w, [], [positions], {"dimension": axis}), w.constant(np.int32(shape[axis]), shape))
    found = RULES["reduce_min"](w, [positions], [out.update(dtype=_int32)], {"axes": (axis,)}, index)
    return convert(w, found, out.shape, _int32, out.dtype)


# Products


def _dot_general(w: MosaicWriter, avals_in, avals_out, params, x, y):
    (contracting, batch), [out] = params["dimension_numbers"], avals_out
    a, b = avals_in
    is_float = kind_of(out.dtype) == "float"
    dtype = _float32 if is_float else _int32
    if a.ndim == 1 or b.ndim == 1:
        return convert(w, _product_with_vector(w, a, b, contracting, dtype, x, y), out.shape, dtype, out.dtype)
    is_byte = a.dtype == b.dtype and kind_of(a.dtype) == "signed" and bit_width(a.dtype) <= 8
    if not is_float and not is_byte:
        return convert(w, _product_of_bytes(w, avals_in, out, params, x, y), out.shape, _int32, out.dtype)
    free = [[d for d in range(aval.ndim) if d not in (*c, *m)] for aval, c, m in zip((a, b), contracting, batch)]
    if len(contracting[0]) != 1 or [len(f) for f in free] != [1, 1] or len(batch[0]) > 1:
        raise unsupported(w, f"dot_general of {a} and {b} with the dimension numbers {params['dimension_numbers']}",
                          "Reshape to matrices, with one batch dimension at most.")
    if a.dtype != b.dtype and is_float:
        x, y = convert(w, x, a.shape, a.dtype, _float32), convert(w, y, b.shape, b.dtype, _float32)
    order = [0, batch[0][0], 0, free[0][0], 1, free[1][0]] if batch[0] else [0, free[0][0], 1, free[1][0]]
    lists = ", ".join(map(str, map(list, (*contracting, *free, order, *batch))))
    attributes = {"dimension_numbers": w.attribute(f"#tpu.dot_dimension_numbers<{lists}>"),
                  "transpose_lhs_hint": w.attribute("true" if w.transposed_lhs_hint else "false")}
    pairs, precision = precise_operands(w, avals_in, params["precision"], x, y)
    total = w.constant(np.zeros((), dtype), out.shape)
    for left, right in pairs:
        total = w.op("tpu.matmul", [left, right, total], total.type, attributes | precision)
    return convert(w, total, out.shape, dtype, out.dtype)


def precise_operands(w: MosaicWriter, avals_in, precision: Any, x: ir.Value, y: ir.Value
                     ) -> tuple[list[tuple[ir.Value, ir.Value]], dict[str, ir.Attribute]]:
    """Return the operands of products, whose sum has a precision, and the attributes of these products."""
    a, b = avals_in
    name = _precision(w, precision) if _float32 in (a.dtype, b.dtype) else "DEFAULT"
    if name == "HIGHEST":
        return [(x, y)], {"precision": w.attribute("#tpu.contract_precision<fp32>")}
    if name == "DEFAULT":
        return [(x, y)], {}
    (low_x, high_x), (low_y, high_y) = _halves(w, x, a.shape), _halves(w, y, b.shape)
    return [(low_x, high_y), (high_x, low_y), (high_x, high_y)], {}


def _halves(w: MosaicWriter, x: ir.Value, shape: tuple[int, ...]) -> tuple[ir.Value, ir.Value]:
    """Return two bfloat16 arrays whose sum is close to a float32 one: the small and the large half."""
    large = convert(w, x, shape, _float32, dtypes.bfloat16)
    rest = w.op("arith.subf", [x, convert(w, large, shape, dtypes.bfloat16, _float32)])
    return convert(w, rest, shape, _float32, dtypes.bfloat16), large


def _product_of_bytes(w: MosaicWriter, avals_in, out: Any, params: Any, x: ir.Value, y: ir.Value) -> ir.Value:
    """Multiply integers of more than 8 bits as polynomials in 256, whose coefficients the units multiply; overflow wraps."""
    digits = [_digits(w, v, aval) for v, aval in zip((x, y), avals_in)]
    byte_avals = [aval.update(dtype=np.dtype(np.int8)) for aval in avals_in]
    totals: dict[int, ir.Value] = {}
    for i, left in enumerate(digits[0]):
        for j, right in enumerate(digits[1]):
            if i + j < 4:
                product = _dot_general(w, byte_avals, [out.update(dtype=_int32)], params, left, right)
                totals[i + j] = w.op("arith.addi", [totals[i + j], product]) if i + j in totals else product
    found = totals.pop(max(totals))
    for _, total in sorted(totals.items(), reverse=True):
        found = w.op("arith.addi", [w.op("arith.shli", [found, w.constant(np.int32(8), out.shape)]), total])
    return found


def _digits(w: MosaicWriter, x: ir.Value, aval: Any) -> list[ir.Value]:
    """Return the digits of integers in base 256, between -128 and 127, the lowest first; the last of 32 bits wraps."""
    bits, shape = bit_width(aval.dtype), aval.shape
    count = 1 if bits < 8 or bits == 8 and kind_of(aval.dtype) == "signed" else min(4, bits // 8 + 1)
    x = convert(w, x, shape, aval.dtype, _int32)
    half, base, eight = (w.constant(np.int32(n), shape) for n in (128, 255, 8))
    found = []
    for k in range(count):
        digit = w.op("arith.subi", [w.op("arith.andi", [w.op("arith.addi", [x, half]), base]), half])
        found.append(convert(w, digit, shape, _int32, np.int8))
        if k + 1 < count:
            x = w.op("arith.shrsi", [w.op("arith.subi", [x, digit]), eight])
    return found


def _precision(w: MosaicWriter, precision: Any) -> str:
    """Return the name of the larger precision of two operands."""
    given = {getattr(p, "name", p) or "DEFAULT" for p in (precision if isinstance(precision, tuple) else (precision,))}
    if not given <= {"DEFAULT", "HIGH", "HIGHEST"}:
        raise unsupported(w, f"dot_general with precision {precision}", "Use Precision.DEFAULT, HIGH or HIGHEST.")
    return max(given, key=len)


def _product_with_vector(w: MosaicWriter, a: Any, b: Any, contracting, dtype, x: ir.Value, y: ir.Value) -> ir.Value:
    """Multiply by a vector: broadcast it, multiply, and sum."""
    x, y = convert(w, x, a.shape, a.dtype, dtype), convert(w, y, b.shape, b.dtype, dtype)
    if len(contracting[0]) != 1 or max(a.ndim, b.ndim) > 2:
        raise unsupported(w, f"dot_general of {a} and {b}", "Reshape to matrices.")
    if a.ndim == 1:
        a, b, x, y, contracting = b, a, y, x, contracting[::-1]
    axis = contracting[0][0]
    aligned = tuple([n if d == axis else 1 for d, n in enumerate(a.shape)])
    full = w.broadcast(w.reshape(y, b.shape, aligned, dtype), aligned, a.shape)
    found = _reduce(w, "reduce_sum", binary(w, "mul", dtype, x, full), a.shape, dtype, [axis])
    shape = tuple([n for d, n in enumerate(a.shape) if d != axis])
    return w.reshape(found, shape or (1,), shape, dtype)


# Elementwise operations for which Mosaic has no operation of `arith` or `math`, or needs other types


def _convert(w: MosaicWriter, avals_in, avals_out, params, x):
    shape, old, new = avals_out[0].shape, avals_in[0].dtype, avals_out[0].dtype
    if old == _bool and kind_of(new) == "float":
        return convert(w, convert(w, x, shape, old, _int32), shape, _int32, new)
    if kind_of(old) != kind_of(new) and "float" in (kind_of(old), kind_of(new)):  # through 32 bits
        return _between_floats_and_integers(w, x, shape, old, new)
    return convert(w, x, shape, old, new)


def _between_floats_and_integers(w: MosaicWriter, x: ir.Value, shape, old, new) -> ir.Value:
    if kind_of(old) == "float":
        wide = _float32 if bit_width(old) < 32 else old
        x = convert(w, x, shape, old, wide)
        if new == _bool:
            return convert(w, x, shape, wide, new)
        x = convert(w, x, shape, wide, _int32 if kind_of(new) == "signed" else np.dtype(np.uint32))
        return convert(w, x, shape, _int32 if kind_of(new) == "signed" else np.dtype(np.uint32), new)
    signed = kind_of(old) == "signed" or bit_width(old) < 32
    integer = _int32 if signed else np.dtype(np.uint32)
    x = convert(w, convert(w, x, shape, old, integer), shape, integer, _float32)
    return convert(w, x, shape, _float32, new)


def _widened(name: str) -> Rule:
    """Return the rule that computes with narrow integers in 32 bits, where TPUs have no operation for them."""
    common, natively_16 = COMMON_RULES[name], name in ("add", "sub", "mul", "neg")

    def rule(w: MosaicWriter, avals_in, avals_out, params, *values):
        dtype = avals_out[0].dtype
        kind = kind_of(dtype)
        if kind in ("float", "bool") or bit_width(dtype) == 32 or bit_width(dtype) == 16 and natively_16:
            return common(w, avals_in, avals_out, params, *values)
        wide = _int32 if kind == "signed" else np.dtype(np.uint32)
        values = [convert(w, x, a.shape, a.dtype, wide) for x, a in zip(values, avals_in)]
        if name in ("max", "min"):  # in floats, which are exact here, since Mosaic narrows the operation on integers again
            x, y = [convert(w, x, a.shape, _int32, _float32) for x, a in zip(values, avals_in)]
            found = convert(w, binary(w, name, _float32, x, y), avals_out[0].shape, _float32, _int32)
        else:
            found = common(w, *[[a.update(dtype=wide) for a in avals] for avals in (avals_in, avals_out)], params, *values)
        return convert(w, found, avals_out[0].shape, wide, dtype)

    return rule


def _widened_floats(name: str) -> Rule:
    """Return the rule that computes with small floats in 32 bits."""
    def rule(w: MosaicWriter, avals_in, avals_out, params, *values):
        [out] = avals_out
        if kind_of(out.dtype) != "float" or bit_width(out.dtype) == 32:
            return _WIDENED_RULES.get(name, COMMON_RULES[name])(w, avals_in, avals_out, params, *values)
        values = [convert(w, x, a.shape, a.dtype, _float32) for x, a in zip(values, avals_in)]
        wide = [[a.update(dtype=_float32) for a in avals] for avals in (avals_in, avals_out)]
        return convert(w, COMMON_RULES[name](w, *wide, params, *values), out.shape, _float32, out.dtype)

    return rule


def _widened_bits(name: str) -> Rule:
    """Return the rule that computes with the bits of narrow integers in 32 bits; they are extended by zeros, or by the sign."""
    def rule(w: MosaicWriter, avals_in, avals_out, params, *values):
        [out], bits = avals_out, bit_width(avals_out[0].dtype)
        if bits == 32 or out.dtype == _bool:
            return COMMON_RULES[name](w, avals_in, avals_out, params, *values)
        unsigned = np.dtype(f"uint{bits}") if bits >= 8 else out.dtype
        source, wide = (out.dtype, _int32) if name == "shift_right_arithmetic" else (unsigned, np.dtype(np.uint32))
        values = [convert(w, x, out.shape, source, wide) for x in values]
        full = [[a.update(dtype=wide) for a in avals] for avals in (avals_in, avals_out)]
        found = COMMON_RULES[name](w, *full, params, *values)
        if name == "clz":
            found = w.op("arith.subi", [found, w.constant(np.uint32(32 - bits), out.shape)])
        return convert(w, found, out.shape, wide, out.dtype)

    return rule


def _compare_booleans(name: str) -> Rule:
    """Return the rule of "eq" or "ne": Mosaic does not compare vectors of bits."""
    def rule(w: MosaicWriter, avals_in, avals_out, params, x, y):
        [out] = avals_out
        if avals_in[0].dtype != _bool:
            return COMMON_RULES[name](w, avals_in, avals_out, params, x, y)
        differ = w.op("arith.xori", [x, y])
        return differ if name == "ne" else w.op("arith.xori", [differ, w.constant(np.True_, out.shape)])

    return rule


_WIDENED = "add sub mul neg div rem max min abs sign clamp integer_pow square".split()


def _reciprocal(w: MosaicWriter, avals_in, avals_out, params, x):
    if not avals_in[0].shape or bit_width(avals_in[0].dtype) != 32:
        return COMMON_RULES["reciprocal"](w, avals_in, avals_out, params, x)
    return w.op("tpu.reciprocal", [x], x.type, {
        "approx": w.attribute("true" if params["approx"] else "false"),
        "full_range": w.attribute("true" if params["full_range"] else "false")})


def _bitcast_convert_type(w: MosaicWriter, avals_in, avals_out, params, x):
    aval, [out] = avals_in[0], avals_out
    if bit_width(aval.dtype) != bit_width(out.dtype):
        raise unsupported(w, f"bitcast_convert_type of {aval} to {out.dtype}", "Use pltpu.bitcast, which changes the rows.")
    if element_type(aval.dtype, w.context) == element_type(out.dtype, w.context):
        return x
    name = "tpu.bitcast" if aval.ndim > 1 else "arith.bitcast"
    return w.op(name, [x], w.types_of(avals_out)[0])


_WIDENED_RULES = {name: _widened(name) for name in _WIDENED}
RULES: dict[str, Rule] = {
    **_WIDENED_RULES,
    **{name: _widened_floats(name) for name in ("atan2", "rem")},
    **{name: _widened_bits(name) for name in (
        "shift_left", "shift_right_logical", "shift_right_arithmetic", "clz", "population_count")},
    "eq": _compare_booleans("eq"), "ne": _compare_booleans("ne"),
    "broadcast_in_dim": _broadcast_in_dim, "reshape": _reshape, "squeeze": _reshape, "expand_dims": _reshape,
    "transpose": _transpose, "concatenate": _concatenate, "stack": _stack, "unstack": _unstack, "tile": _tile,
    "iota": _iota, "slice": _slice, "split": _split, "pad": _pad,
    **{name: _reduction(name) for name in _REDUCTIONS},
    "reduce_or": _logical_reduction("reduce_max"), "reduce_and": _logical_reduction("reduce_min"),
    "argmax": _arg_reduction("arg_max"), "argmin": _arg_reduction("arg_min"), "dot_general": _dot_general,
    "convert_element_type": _convert, "reciprocal": _reciprocal, "bitcast_convert_type": _bitcast_convert_type,
}
