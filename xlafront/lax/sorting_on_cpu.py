"""Sorting on CPUs: by integers in place of the keys, one operand alone.

XLA's CPU runtime sorts one operand of integers with a plain comparison many times faster than anything else. So a key becomes
the integer that has its place in the order; with other operands beside it, the upper half of a 64-bit word, whose lower half
is the position. That also keeps equal keys in their order.
"""

from __future__ import annotations

import functools

import numpy as np

from xlafront import lowering
from xlafront.core import dtypes
from xlafront.core.avals import ShapedArray
from xlafront.lax.arguments import KINDS
from xlafront.lax.indexing import take_along
from xlafront.lax.lower_fun import lower_fun


def applies(avals, dimension: int, num_keys: int) -> bool:
    """Whether operands of these types are sorted so."""
    key = avals[0]
    d = key.dtype
    if num_keys > 1 or not isinstance(d, np.dtype) or not (d == dtypes.bool_ or KINDS["int"](d) or KINDS["float"](d)):
        return False
    if d in dtypes.small_ints or d.itemsize == 1 and KINDS["float"](d) and d.name.startswith("float4"):
        return False
    size = key.shape[dimension] if key.shape else 1
    if len(avals) == 1:
        return KINDS["float"](d)
    return d.itemsize <= 4 and isinstance(size, int) and size < 1 << 31


def lower(ctx, *operands, dimension: int):
    """The operands in the order of the first."""
    aval = ctx.avals_in[0]
    shape, d = aval.shape, aval.dtype
    if len(operands) == 1:
        word = np.dtype(f"int{8 * d.itemsize}")
        bits = ctx.op("stablehlo.bitcast_convert", [_one_nan(ctx, operands[0], shape, d)], [(shape, word)])
        words = _sorted(ctx, _turned(ctx, bits, shape, word), shape, word, dimension)
        return [ctx.op("stablehlo.bitcast_convert", [_turned(ctx, words, shape, word)], [(shape, d)])]
    word = np.dtype(np.uint64 if d == dtypes.bool_ or dtypes.is_unsigned(d) else np.int64)
    keys = _with_one_zero(ctx, operands[0], shape, d) if KINDS["float"](d) else operands[0]
    keys = ctx.op("stablehlo.shift_left", [ctx.convert(keys, shape, word), ctx.constant(word.type(32), shape)], [(shape, word)])
    packed = ctx.op("stablehlo.or", [keys, ctx.iota(dimension, (shape, word))], [(shape, word)])
    words = _sorted(ctx, packed, shape, word, dimension)
    order = functools.cache(lambda: ctx.convert(words, shape, np.dtype(np.uint32)))  # their lower halves
    results = []
    for i, (x, a) in enumerate(zip(operands, ctx.avals_in)):
        if not ctx.is_read(i):
            results.append(x)
        elif _is_positions(x, a, dimension):
            results.append(ctx.convert(words if a.dtype.itemsize <= 4 else order(), shape, a.dtype))
        else:
            results.append(_in_order(ctx, x, order(), a, dimension))
    return results


def _sorted(ctx, words, shape, word, dimension: int):
    def less(inner, x, y):
        return [inner.compare("LT", "UNSIGNED" if dtypes.is_unsigned(word) else "SIGNED", x, y, ())]

    return ctx.with_region("stablehlo.sort", [words], [((), word)] * 2, less, types=[(shape, word)],
                           dimension=lowering.mlir.i64(dimension), is_stable=lowering.mlir.boolean(False))[0]


def _one_nan(ctx, x, shape, d: np.dtype):
    """Floats whose NaN are all the one that comes last."""
    nan = ctx.constant(np.asarray(np.nan).astype(d), shape)
    return ctx.op("stablehlo.select", [ctx.compare("NE", "FLOAT", x, x, shape), nan, x], [(shape, d)])


def _with_one_zero(ctx, x, shape, d: np.dtype):
    """Integers in the order of floats, NaN last, and one for both zeros: bits are a magnitude and a sign."""
    word = np.dtype(f"int{8 * d.itemsize}")
    typed, least = [(shape, word)], ctx.constant(np.iinfo(word).min, shape, word)
    bits = ctx.op("stablehlo.bitcast_convert", [_one_nan(ctx, x, shape, d)], typed)
    negative = ctx.compare("LT", "SIGNED", bits, ctx.constant(word.type(0), shape), shape)
    return ctx.op("stablehlo.select", [negative, ctx.op("stablehlo.subtract", [least, bits], typed), bits], typed)


def _turned(ctx, bits, shape, word: np.dtype):
    """The bits of floats as integers in their order, and back: of negative ones all but the sign is inverted."""
    typed, last = [(shape, word)], 8 * word.itemsize - 1
    signs = ctx.op("stablehlo.shift_right_arithmetic", [bits, ctx.constant(word.type(last), shape)], typed)
    inverted = ctx.op("stablehlo.shift_right_logical", [signs, ctx.constant(word.type(1), shape)], typed)
    return ctx.op("stablehlo.xor", [bits, inverted], typed)


def _is_positions(x, aval, dimension: int) -> bool:
    """Whether an operand counts along the dimension, as that of `argsort` does: in order it is the order itself."""
    if getattr(x.owner, "name", None) != "stablehlo.iota" or not KINDS["int"](aval.dtype):
        return False
    return x.owner.attributes["iota_dimension"].value == dimension


def _in_order(ctx, x, order, aval, dimension: int):
    avals = [ShapedArray(aval.shape, aval.dtype), ShapedArray(aval.shape, np.dtype(np.uint32))]
    return _gather(ctx.replace(avals_in=avals, avals_out=avals[:1]), x, order, axis=dimension)


_gather = lower_fun(take_along)
