"""Threefry-2x32: the counter-based generator of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011).

A key is two 32-bit words. The bits of an array are the cipher of the positions of its elements, so that they do not depend on
its sharding, and each device can compute its own shard.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from xlafront import lowering, tuning
from xlafront.base import config
from xlafront.core import dtypes, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.primitive import MeshRules, Primitive
from xlafront.core.zeros import Zero
from xlafront.lax import shapes, sharding_rules, slicing
from xlafront.lax.elementwise import (
    PRIMITIVES,
    add,
    as_type,
    eq,
    lt,
    mul,
    or_,
    select,
    shift_left_,
    shift_right_logical_,
    size_scalar,
    xor_,
)
from xlafront.lax.families import align_batches, joint_shape
from xlafront.lax.lower_fun import lower_fun
from xlafront.staging.jit import jit
from xlafront.symbolic.dimensions import known

_uint32 = np.dtype(np.uint32)


def _abstract(k0, k1, x0, x1):
    for aval in (k0, k1, x0, x1):
        if aval.dtype != _uint32:
            raise TypeError(f"threefry2x32 works on uint32 words, got {aval.dtype}.")
    shape = joint_shape("threefry2x32", (k0, k1, x0, x1))
    return [ShapedArray(shape, _uint32)] * 2


def _rounds(rotations: tuple[int, ...]) -> Callable:
    """Return the rounds with these rotations and the key injection after them, as a function that modules define once."""
    def threefry_rounds(x0, x1, key_first, key_second, index):
        for count in rotations:
            x0 = add(x0, x1)
            x1 = xor_(x0, or_(shift_left_(x1, np.uint32(count)), shift_right_logical_(x1, np.uint32(32 - count))))
        return add(x0, key_first), add(add(x1, key_second), index)

    return jit(threefry_rounds)


_ROUNDS = _rounds((13, 15, 26, 6)), _rounds((17, 29, 16, 24))


def cipher(k0, k1, x0, x1):
    """Apply twenty rounds in a row, which XLA fuses into one loop over the elements. `x0` is None if it is zero."""
    given = [x for x in (k0, k1, x1, x0) if x is not None]
    shape = joint_shape("threefry2x32", [tracing.aval_of(x) for x in given])
    k0, k1, x1, *high = (x if np.shape(x) == shape else broadcast_in_dim(x, shape, tuple(range(np.ndim(x)))) for x in given)
    words = [k0, k1, xor_(xor_(k0, k1), np.uint32(0x1BD11BDA))]
    x0, x1 = add(high[0], k0) if high else k0, add(x1, k1)
    for step in range(5):
        x0, x1 = _ROUNDS[step % 2](x0, x1, words[(step + 1) % 3], words[(step + 2) % 3], np.uint32(step + 1))
    return x0, x1


_lower_full = lower_fun(cipher, multiple_results=True, called="threefry2x32")
_lower_without_high = lower_fun(lambda k0, k1, x1: cipher(k0, k1, None, x1), multiple_results=True, called="threefry2x32")


def _lower(ctx, k0, k1, x0, x1):
    tuning.mark_module(ctx)
    if ctx.literal_value(2) == 0:  # what element_positions up to 2**32
        of_k0, of_k1, _, of_x1 = ctx.avals_in
        return _lower_without_high(ctx.replace(avals_in=[of_k0, of_k1, of_x1]), k0, k1, x1)
    return _lower_full(ctx, k0, k1, x0, x1)


def _lower_on_cuda(ctx, *words):
    """Lower to jaxlib's CUDA kernel, which gives the same bits, if the setting `threefry_gpu_kernel_lowering` is on.

    The kernel compiles faster. The inlined rounds are fused with the operations that use the bits.
    """
    if not config.threefry_gpu_kernel_lowering.value:
        return _lower(ctx, *words)
    shape, mlir = ctx.aval_out.shape, lowering.mlir
    words = [v if aval.shape == shape else ctx.broadcast(v, shape, _uint32, range(aval.ndim))
             for v, aval in zip(words, ctx.avals_in)]
    return ctx.op("stablehlo.custom_call", words, call_target_name=mlir.string("cu_threefry2x32_ffi"),
                  api_version=mlir.i32(4), backend_config=mlir.ir.DictAttr.get({}))


def _batch(axis_size, operands, dims):
    operands, dim = align_batches(axis_size, operands, dims)
    return threefry2x32_p.bind(*operands), [dim, dim]


def _jvp(primals, tangents):
    results = threefry2x32_p.bind(*primals)
    return results, [Zero(tracing.aval_of(x).to_tangent_aval()) for x in results]


threefry2x32_p = Primitive(
    "threefry2x32", multiple_results=True, abstract=_abstract, lower={None: _lower, "cuda": _lower_on_cuda}, batch=_batch,
    jvp=_jvp, mesh=MeshRules(sharding_rules.elementwise))


def word(key, i: int):
    """Return one word of a key, which is an array of words or, in loops over many keys, a pair."""
    if type(key) is tuple:
        return key[i]
    return shapes.squeeze_p.bind(slice_words(key, i, i + 1), dimensions=(0,))


def slice_words(words, start: int, stop: int):
    return slicing.slice_p.bind(words, start_indices=(start,), limit_indices=(stop,), strides=None)


def positions(shape: tuple[int, ...], dimension: int = 0):
    return shapes.counting(_uint32, shape, dimension)


def broadcast_in_dim(x, shape: tuple[int, ...], dimensions: tuple[int, ...]):
    return shapes.broadcast_in_dim_p.bind(x, shape=shape, broadcast_dimensions=dimensions, sharding=None)


def element_positions(shape: tuple[int, ...]):
    """Return the position of each element in row-major order, as high and low words."""
    size = math.prod(shape)
    if known(size, 0) < 2**32 or not shape:
        return np.uint32(0), shapes.reshape_to(positions((size,)), shape)
    # Larger arrays: position = row * row size + column as high and low words, with a 64-bit product of two halves.
    columns = math.prod(shape[1:])
    if columns >= 2**32:
        raise ValueError(f"random bits of shape {shape} have too many columns: {columns} is not below 2**32. Split the array.")
    row = positions(shape)
    _, column = element_positions(shape[1:])
    column = broadcast_in_dim(column, shape, tuple(range(1, len(shape))))
    high, low = multiply_wide(row, columns)
    total = add(low, column)
    return add(high, as_type(lt(total, low), _uint32, False)), total


def multiply_wide(x, factor: int):
    """Return the high and low words of a 32-bit array times a 32-bit scalar."""
    bitwise_and, shift = (PRIMITIVES[n].bind for n in ("and", "shift_right_logical"))
    mask, sixteen = np.uint32(0xFFFF), np.uint32(16)
    x_low, x_high = bitwise_and(x, mask), shift(x, sixteen)
    f_low, f_high = np.uint32(factor & 0xFFFF), np.uint32(factor >> 16)
    low, mid1, mid2, high = mul(x_low, f_low), mul(x_low, f_high), mul(x_high, f_low), mul(x_high, f_high)
    middle = add(add(shift(low, sixteen), bitwise_and(mid1, mask)), bitwise_and(mid2, mask))
    return (add(add(high, shift(mid1, sixteen)), add(shift(mid2, sixteen), shift(middle, sixteen))),
            mul(x, np.uint32(factor)))


def _hash_sequence(key, count: int):
    """Encrypt 0, 1, ..., count - 1, taken as pairs from the two halves: the legacy scheme, which cannot be partitioned."""
    half = (count + 1) // 2
    padded = 2 * half
    counters = positions((padded,))
    if padded != count:  # Pad an odd count with 0.
        counters = select(eq(positions((padded,)), size_scalar(count, _uint32)), counters, np.uint32(0))
    first, second = slice_words(counters, 0, half), slice_words(counters, half, padded)
    results = threefry2x32_p.bind(word(key, 0), word(key, 1), first, second)
    return slice_words(slicing.concatenate_p.bind(*results, dimension=0), 0, count)


def stack_words(*words):
    """Stack arrays of words along a new last dimension."""
    shape = np.shape(words[0])
    columns = [broadcast_in_dim(x, (*shape, 1), tuple(range(len(shape)))) for x in words]
    return slicing.concatenate_p.bind(*columns, dimension=len(shape)) if len(columns) > 1 else columns[0]


def split_words(value):
    """Return the high and the low word of an integer scalar."""
    d = tracing.aval_of(value).dtype
    low = as_type(value, _uint32, False) if not isinstance(value, int) else np.uint32(value & 0xFFFFFFFF)
    if d.itemsize == 8:
        shifted = shift_right_logical_(value, d.type(32))
        high = as_type(shifted, _uint32, False)
    else:
        high = np.uint32(0)
    return [broadcast_in_dim(w, (), ()) if isinstance(w, np.generic) else w for w in (high, low)]


def seed(value):
    """Return the key of an integer scalar: its high and low words."""
    return stack_words(*split_words(value))


def split(key, shape: tuple[int, ...]):
    """Return independent keys as words: `uint32[*shape, 2]`."""
    if config.threefry_partitionable.value:
        high, low = element_positions(shape)
        return stack_words(*threefry2x32_p.bind(word(key, 0), word(key, 1), high, low))
    return shapes.reshape_to(_hash_sequence(key, 2 * math.prod(shape)), (*shape, 2))


def split_apart(key, count: int) -> list[tuple]:
    """Return the words of the keys that `split` returns as separate scalars.

    XLA vectorizes the computation of values that are not rows of an array.
    """
    zero = np.uint32(0)
    if config.threefry_partitionable.value:
        return [tuple(threefry2x32_p.bind(*key, zero, np.uint32(i))) for i in range(count)]
    pairs = [threefry2x32_p.bind(*key, np.uint32(i), np.uint32(count + i)) for i in range(count)]
    words = [first for first, _ in pairs] + [second for _, second in pairs]
    return list(zip(words[::2], words[1::2]))


def fold_in(key, data):
    """Return the key of a key and a uint32 scalar."""
    return stack_words(*threefry2x32_p.bind(word(key, 0), word(key, 1), *split_words(data)))


def random_bits(key, width: int, shape: tuple[int, ...]):
    """Return random unsigned integers of 8, 16, 32 or 64 bits."""
    dtype = np.dtype(f"uint{width}")
    if config.threefry_partitionable.value:
        high, low = element_positions(shape)
        first, second = threefry2x32_p.bind(word(key, 0), word(key, 1), high, low)
        if width == 64:
            return join_words(first, second)
        mixed = xor_(first, second)
        return as_type(mixed, dtype, False)
    size = math.prod(shape)
    words = _hash_sequence(key, -(-width * size // 32))
    if width == 64:
        result = join_words(slice_words(words, 0, size), slice_words(words, size, 2 * size))
    elif width == 32:
        result = words
    else:
        per_word = 32 // width
        shifts = mul(positions((np.shape(words)[0], per_word), 1), np.uint32(width))
        broadcast = broadcast_in_dim(words, np.shape(shifts), (0,))
        narrow = as_type(shift_right_logical_(broadcast, shifts), dtype, False)
        flat = shapes.reshape_to(narrow, (np.shape(words)[0] * per_word,))
        result = slice_words(flat, 0, size)
    return shapes.reshape_to(result, shape)


def join_words(high, low):
    """Join two words to one of 64 bits."""
    high, low = (as_type(x, dtypes.uint64, False) for x in (high, low))
    return or_(shift_left_(high, np.uint64(32)), low)
