"""Sorting on CPUs: a single operand of integers in place of the keys.

XLA's CPU runtime sorts one integer operand with a plain comparison many times faster than anything else. Thus a key is
converted to an integer of the same order. With further operands, it is the upper half of a 64-bit word, whose lower half is
the position; this also makes the sort stable.

A stable sort of floats alone is one of such words too, as it keeps the order of 0 and -0, which are equal. Other equal elements
have equal bits and need no position: ties are sorted faster. 64-bit floats leave no room for positions: -0 is before 0.
"""

from __future__ import annotations

import functools

import numpy as np

from xlafront import lowering
from xlafront.core import dtypes
from xlafront.core.avals import ShapedArray


def applies(avals, dimension: int, num_keys: int) -> bool:
    """True if operands of these types are sorted in this way."""
    key = avals[0]
    dtype = key.dtype
    if num_keys > 1 or not isinstance(dtype, np.dtype) or not (
            dtype == dtypes.bool_ or dtypes.is_integer(dtype) or dtypes.is_float(dtype)):
        return False
    # The bits of other floats are a sign and a magnitude that fill the bytes, with NaN as the largest magnitudes.
    if dtype in dtypes.small_ints or dtypes.is_float(dtype) and (dtype.name.startswith("float4") or "fnu" in dtype.name):
        return False
    return dtypes.is_float(dtype) if len(avals) == 1 else _has_room_for_positions(key, dimension)


def _has_room_for_positions(key, dimension: int) -> bool:
    size = key.shape[dimension] if key.shape else 1
    return key.dtype.itemsize <= 4 and isinstance(size, int) and size < 1 << 31


def lower(ctx, *operands, dimension: int, is_stable: bool, gather):
    """Lower a sort of the operands by the first one; `gather` is the lowering rule of `take_along(x, order, axis)`."""
    aval = ctx.avals_in[0]
    shape, dtype = aval.shape, aval.dtype
    if len(operands) == 1:
        if is_stable and _has_room_for_positions(aval, dimension):
            return [_sort_stably(ctx, operands[0], shape, dtype, dimension)]
        word_dtype = np.dtype(f"int{8 * dtype.itemsize}")
        bits = ctx.op("stablehlo.bitcast_convert", [_canonicalize_nan(ctx, operands[0], shape, dtype)], [(shape, word_dtype)])
        words = _sort_words(ctx, _flip_negative(ctx, bits, shape, word_dtype), shape, word_dtype, dimension)
        return [ctx.op("stablehlo.bitcast_convert", [_flip_negative(ctx, words, shape, word_dtype)], [(shape, dtype)])]
    word_dtype = np.dtype(np.uint64 if dtype == dtypes.bool_ or dtypes.is_unsigned(dtype) else np.int64)
    keys = _ordered_integers(ctx, operands[0], shape, dtype) if dtypes.is_float(dtype) else operands[0]
    keys = ctx.op("stablehlo.shift_left", [ctx.convert(keys, shape, word_dtype), ctx.constant(word_dtype.type(32), shape)],
                  [(shape, word_dtype)])
    packed = ctx.op("stablehlo.or", [keys, ctx.iota(dimension, (shape, word_dtype))], [(shape, word_dtype)])
    words = _sort_words(ctx, packed, shape, word_dtype, dimension)
    order = functools.cache(lambda: ctx.convert(words, shape, np.dtype(np.uint32)))  # the lower halves
    results = []
    for i, (x, a) in enumerate(zip(operands, ctx.avals_in)):
        if not ctx.is_read(i):
            results.append(x)
        elif _is_iota(x, a, dimension):
            results.append(ctx.convert(words if a.dtype.itemsize <= 4 else order(), shape, a.dtype))
        else:
            results.append(_take(ctx, x, order(), a, dimension, gather))
    return results


def _sort_stably(ctx, x, shape, dtype: np.dtype, dimension: int):
    """Sort floats of at most 32 bits and keep the order of 0 and -0: the lower half of their words is position and sign."""
    word_dtype, key_dtype = np.dtype(np.int64), np.dtype(f"int{8 * dtype.itemsize}")
    word_type, key_type, mask_type = [(shape, word_dtype)], [(shape, key_dtype)], [(shape, dtypes.bool_)]
    minimum = ctx.constant(np.iinfo(key_dtype).min, shape, key_dtype)
    zero, one, half = (ctx.constant(word_dtype.type(n), shape) for n in (0, 1, 32))
    bits = ctx.op("stablehlo.bitcast_convert", [x], key_type)
    keys = ctx.convert(_ordered_integers(ctx, x, shape, dtype), shape, word_dtype)
    signs = ctx.convert(ctx.compare("EQ", "SIGNED", bits, minimum, shape), shape, word_dtype)
    positions = ctx.op("stablehlo.shift_left", [ctx.iota(dimension, word_type[0]), one], word_type)
    positions = ctx.op("stablehlo.or", [positions, signs], word_type)
    is_zero = ctx.compare("EQ", "SIGNED", keys, zero, shape)
    words = ctx.op("stablehlo.select", [
        is_zero, positions, ctx.op("stablehlo.shift_left", [keys, half], word_type)], word_type)
    words = _sort_words(ctx, words, shape, word_dtype, dimension)
    keys = ctx.convert(ctx.op("stablehlo.shift_right_arithmetic", [words, half], word_type), shape, key_dtype)
    has_sign = ctx.compare("NE", "SIGNED", ctx.op("stablehlo.and", [words, one], word_type), zero, shape)
    is_negative = ctx.op("stablehlo.or", [has_sign, ctx.compare("LT", "SIGNED", words, zero, shape)], mask_type)
    bits = ctx.op("stablehlo.select", [is_negative, ctx.op("stablehlo.subtract", [minimum, keys], key_type), keys], key_type)
    return ctx.op("stablehlo.bitcast_convert", [bits], [(shape, dtype)])


def _sort_words(ctx, words, shape, word, dimension: int):
    def less(inner, x, y):
        return [inner.compare("LT", "UNSIGNED" if dtypes.is_unsigned(word) else "SIGNED", x, y, ())]

    return ctx.with_region("stablehlo.sort", [words], [((), word)] * 2, less, types=[(shape, word)],
                           dimension=lowering.mlir.i64(dimension), is_stable=lowering.mlir.boolean(False))[0]


def _canonicalize_nan(ctx, x, shape, dtype: np.dtype):
    """Replace all NaNs by the one that is last in the order."""
    nan = ctx.constant(np.asarray(np.nan).astype(dtype), shape)
    return ctx.op("stablehlo.select", [ctx.compare("NE", "FLOAT", x, x, shape), nan, x], [(shape, dtype)])


def _ordered_integers(ctx, x, shape, dtype: np.dtype):
    """Convert floats to integers of the same order, with NaN last and one zero. (The bits are a sign and a magnitude.)"""
    word_dtype = np.dtype(f"int{8 * dtype.itemsize}")
    word_type, minimum = [(shape, word_dtype)], ctx.constant(np.iinfo(word_dtype).min, shape, word_dtype)
    bits = ctx.op("stablehlo.bitcast_convert", [_canonicalize_nan(ctx, x, shape, dtype)], word_type)
    negative = ctx.compare("LT", "SIGNED", bits, ctx.constant(word_dtype.type(0), shape), shape)
    return ctx.op("stablehlo.select", [negative, ctx.op("stablehlo.subtract", [minimum, bits], word_type), bits], word_type)


def _flip_negative(ctx, bits, shape, word: np.dtype):
    """Convert the bits of floats to integers of the same order, or back: invert the bits of negative ones, except the sign."""
    word_type, sign_shift = [(shape, word)], 8 * word.itemsize - 1
    signs = ctx.op("stablehlo.shift_right_arithmetic", [bits, ctx.constant(word.type(sign_shift), shape)], word_type)
    mask = ctx.op("stablehlo.shift_right_logical", [signs, ctx.constant(word.type(1), shape)], word_type)
    return ctx.op("stablehlo.xor", [bits, mask], word_type)


def _is_iota(x, aval, dimension: int) -> bool:
    """True if an operand counts along the dimension, as that of `argsort` does. Sorted, it is the permutation itself."""
    if getattr(x.owner, "name", None) != "stablehlo.iota" or not dtypes.is_integer(aval.dtype):
        return False
    return x.owner.attributes["iota_dimension"].value == dimension


def _take(ctx, x, order, aval, dimension: int, gather):
    avals = [ShapedArray(aval.shape, aval.dtype), ShapedArray(aval.shape, np.dtype(np.uint32))]
    return gather(ctx.replace(avals_in=avals, avals_out=avals[:1]), x, order, axis=dimension)
