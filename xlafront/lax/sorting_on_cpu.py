"""Sorting on CPUs: by unsigned integers in place of the keys, one operand alone.

XLA's CPU runtime sorts one operand of integers with a plain comparison many times faster than anything else. So a key becomes
the unsigned integer that has its place in the order; with other operands beside it, the upper half of a 64-bit word, whose
lower half is the position. That also keeps equal keys in their order.
"""

from __future__ import annotations

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
        words = _sorted(ctx, _as_words(ctx, operands[0], shape, d, one_zero=False), shape, _word_of(d), dimension)
        return [_as_floats(ctx, words, shape, d)]
    word = np.dtype(np.uint64)
    keys = ctx.convert(_as_words(ctx, operands[0], shape, d, one_zero=True), shape, word)
    keys = ctx.op("stablehlo.shift_left", [keys, ctx.constant(np.uint64(32), shape)], [(shape, word)])
    packed = ctx.op("stablehlo.or", [keys, ctx.iota(dimension, (shape, word))], [(shape, word)])
    order = ctx.convert(_sorted(ctx, packed, shape, word, dimension), shape, np.dtype(np.uint32))
    return [ctx.convert(order, shape, a.dtype) if _is_positions(x, a, dimension) else _in_order(ctx, x, order, a, dimension)
            for x, a in zip(operands, ctx.avals_in)]


def _word_of(d: np.dtype) -> np.dtype:
    return np.dtype(f"uint{8 * d.itemsize}")


def _sorted(ctx, words, shape, word, dimension: int):
    def less(inner, x, y):
        return [inner.compare("LT", "UNSIGNED", x, y, ())]

    return ctx.with_region("stablehlo.sort", [words], [((), word)] * 2, less, types=[(shape, word)],
                           dimension=lowering.mlir.i64(dimension), is_stable=lowering.mlir.boolean(False))[0]


def _as_words(ctx, x, shape, d: np.dtype, one_zero: bool):
    """Unsigned integers in the order of the elements, NaN last; `one_zero` where the zeros of both signs are equal."""
    word = _word_of(d)
    if d == dtypes.bool_ or dtypes.is_unsigned(d):
        return ctx.convert(x, shape, word)
    typed = [(shape, word)]
    top = ctx.constant(word.type(1 << (8 * d.itemsize - 1)), shape)
    if not KINDS["float"](d):
        return ctx.op("stablehlo.xor", [ctx.op("stablehlo.bitcast_convert", [x], typed), top], typed)
    nan = ctx.constant(np.asarray(np.nan).astype(d), shape)
    x = ctx.op("stablehlo.select", [ctx.compare("NE", "FLOAT", x, x, shape), nan, x], [(shape, d)])
    if one_zero:
        zero = ctx.constant(np.zeros((), d), shape)
        x = ctx.op("stablehlo.select", [ctx.compare("EQ", "FLOAT", x, zero, shape), zero, x], [(shape, d)])
    bits = ctx.op("stablehlo.bitcast_convert", [x], typed)
    return ctx.op("stablehlo.select", [ctx.compare("GE", "UNSIGNED", bits, top, shape), ctx.op("stablehlo.not", [bits], typed),
                                       ctx.op("stablehlo.or", [bits, top], typed)], typed)


def _as_floats(ctx, words, shape, d: np.dtype):
    """The floats of which `_as_words` made these."""
    word = _word_of(d)
    typed, top = [(shape, word)], ctx.constant(word.type(1 << (8 * d.itemsize - 1)), shape)
    positive, negative = ctx.op("stablehlo.xor", [words, top], typed), ctx.op("stablehlo.not", [words], typed)
    bits = ctx.op("stablehlo.select", [ctx.compare("GE", "UNSIGNED", words, top, shape), positive, negative], typed)
    return ctx.op("stablehlo.bitcast_convert", [bits], [(shape, d)])


def _is_positions(x, aval, dimension: int) -> bool:
    """Whether an operand counts along the dimension, as that of `argsort` does: in order it is the order itself."""
    if getattr(x.owner, "name", None) != "stablehlo.iota" or not KINDS["int"](aval.dtype):
        return False
    return x.owner.attributes["iota_dimension"].value == dimension


def _in_order(ctx, x, order, aval, dimension: int):
    avals = [ShapedArray(aval.shape, aval.dtype), ShapedArray(aval.shape, np.dtype(np.uint32))]
    return _gather(ctx.replace(avals_in=avals, avals_out=avals[:1]), x, order, axis=dimension)


_gather = lower_fun(take_along)
