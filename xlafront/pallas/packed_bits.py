"""Segments of bytes as arrays of 2 or 4 bits, and rounding that is random: for kernels that compute with few bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

import xlafront.numpy as xnp
from xlafront.core import dtypes, errors, tracing
from xlafront.core.traceback_filter import boundary
from xlafront.core.zeros import Zero
from xlafront.lax.shapes import bitcast_convert_type
from xlafront.pallas.kernel_operation import kernel_operation

_SEGMENTS = {2: np.dtype(ml_dtypes.int2), 4: np.dtype(ml_dtypes.int4)}
_BYTES, _int32 = (np.dtype(np.int8), np.dtype(np.uint8)), np.dtype(np.int32)


def _checked_array(caller: str, x: Any, allowed: Sequence[np.dtype]) -> Any:
    if not tracing.is_arraylike(x):
        raise errors.not_an_array(x, caller, None)
    dtype = tracing.aval_of(x).dtype
    if dtype not in allowed:
        raise TypeError(f"{caller} takes an array of {' or '.join([str(d) for d in allowed])}, got {dtype}. Convert it with "
                        f"x.astype(...).")
    return xnp.asarray(x)


@boundary
def split_bits(x: Any, bitwidths: Sequence[int]) -> tuple[Any, ...]:
    """Split each byte of an array into segments of bits.

    Args:
        x: Array of int8 or uint8.
        bitwidths: Sizes of the segments, from the lowest bits on: 2 or 4.

    Returns:
        An array of int2 or int4 for each segment.

    Example:
        >>> low, high = pl.tpu.split_bits(xnp.array([0x21], "int8"), (4, 4))
        >>> int(low[0]), int(high[0])
        (1, 2)
    """
    x = _checked_array("split_bits", x, _BYTES)
    if any([n not in _SEGMENTS for n in bitwidths]) or sum(bitwidths) > 8:
        raise ValueError(f"split_bits takes segments of 2 or 4 bits, 8 in all at most, got bitwidths={tuple(bitwidths)}.")
    found, start, word = [], 0, x.astype(_int32)
    for n in bitwidths:
        bits = (word >> start) & ((1 << n) - 1)
        found.append(((bits ^ (1 << (n - 1))) - (1 << (n - 1))).astype(_SEGMENTS[n]))
        start += n
    return tuple(found)


@boundary
def join_bits(*, two_bits: Any = None, four_bits: Any = None) -> Any:
    """Join segments of bits to bytes: four bits in the lowest places, and two bits above them.

    Args:
        two_bits: Array of int2 or uint2. Alone, it is in the lowest places.
        four_bits: Array of int4 or uint4.

    Returns:
        An array of int8, whose other bits are zero.

    Example:
        >>> pl.tpu.join_bits(four_bits=xnp.array([-1], "int4"))
        Array([15], dtype=int8)
    """
    if two_bits is None and four_bits is None:
        raise ValueError("join_bits takes two_bits, four_bits, or both.")
    joined: Any = 0
    if four_bits is not None:
        joined = _checked_array("join_bits", four_bits, (_SEGMENTS[4], np.dtype(ml_dtypes.uint4))).astype(_int32) & 15
    if two_bits is not None:
        two = _checked_array("join_bits", two_bits, (_SEGMENTS[2], np.dtype(ml_dtypes.uint2))).astype(_int32) & 3
        joined = joined | (two << (0 if four_bits is None else 4))
    return joined.astype(np.int8)


def pack_fp6(fp6_in_8b: Any) -> tuple[Any, Any]:
    """Split numbers of 6 bits, in the lowest places of bytes, into their upper two and lower four bits.

    Args:
        fp6_in_8b: Array of int8 or uint8.

    Returns:
        Arrays of int2 and of int4.

    Example:
        >>> two, four = pl.tpu.pack_fp6(xnp.array([0x11], "int8"))
        >>> int(two[0]), int(four[0])
        (1, 1)
    """
    four, two = split_bits(fp6_in_8b, (4, 2))
    return two, four


def unpack_fp6(two_bits: Any, four_bits: Any) -> Any:
    """Join the upper two and lower four bits of numbers of 6 bits. The inverse of `pack_fp6`.

    Args:
        two_bits: Array of int2 or uint2.
        four_bits: Array of int4 or uint4.

    Returns:
        An array of int8.

    Example:
        >>> pl.tpu.unpack_fp6(xnp.array([1], "int2"), xnp.array([1], "int4"))
        Array([17], dtype=int8)
    """
    return join_bits(two_bits=two_bits, four_bits=four_bits)


# Rounding


_ROUNDED = [np.dtype(getattr(ml_dtypes, n)) for n in (
    "bfloat16", "float8_e5m2", "float8_e4m3fn", "float8_e4m3b11fnuz")]


def _stochastic_round(x, random_bits, *, target_dtype):
    """Add random bits below the last bit that the target has, and truncate. Overflow is that of `astype`."""
    info = ml_dtypes.finfo(target_dtype)
    bits = bitcast_convert_type(x, np.uint32)
    sign, magnitude = bits & np.uint32(1 << 31), bits & np.uint32((1 << 31) - 1)
    exponent, smallest_normal = xnp.maximum(magnitude >> 23, 1), np.uint32(127 + info.minexp)
    dropped = (23 - info.nmant) + (xnp.maximum(exponent, smallest_normal) - exponent)

    below = (np.uint32(1) << xnp.minimum(dropped, 23)) - 1
    rounded = (magnitude + (random_bits & below)) & ~below
    # Smaller numbers than the smallest of the target become that or zero, with 31 random bits.
    significand = magnitude - ((exponent - 1) << 23)
    shift = xnp.minimum(dropped, 31)
    is_up = ((significand >> xnp.minimum(dropped - shift, 31)) + (random_bits & ((np.uint32(1) << shift) - 1))) >> shift
    smallest = np.float32(info.smallest_subnormal).view(np.uint32)
    rounded = xnp.where(dropped > 23, is_up * smallest, rounded)
    return xnp.where(xnp.isfinite(x), bitcast_convert_type(sign | rounded, np.float32), x).astype(target_dtype)


def _stochastic_round_jvp(primals, tangents, *, target_dtype):
    [value, _], tangent = primals, tangents[0]
    new = Zero(tracing.aval_of(value).update(dtype=target_dtype)) if type(tangent) is Zero else tangent.astype(target_dtype)
    return stochastic_round_p.bind(*primals, target_dtype=target_dtype), new


stochastic_round_p = kernel_operation(
    "stochastic_round", _stochastic_round, jvp=_stochastic_round_jvp,
    abstract=lambda x, random_bits, *, target_dtype: x.update(dtype=target_dtype, weak_type=False))


@boundary
def stochastic_round(x: Any, random_bits: Any, *, target_dtype: Any) -> Any:
    """Round to a narrow dtype, up or down at random, so that the mean is that of the numbers.

    Args:
        x: Array of float32.
        random_bits: Random bits for each element, of uint32. The lowest are added below the last bit of the dtype.
        target_dtype: `bfloat16`, `float8_e5m2`, `float8_e4m3fn` or `float8_e4m3b11fnuz`.

    Returns:
        The rounded array. Infinities, NaN, and numbers beyond the largest of the dtype are converted as by `astype`.

    Example:
        >>> pl.tpu.stochastic_round(xnp.ones(2), xnp.zeros(2, "uint32"), target_dtype="bfloat16")
        Array([1, 1], dtype=bfloat16)
    """
    x = _checked_array("stochastic_round", x, (np.dtype(np.float32),))
    random_bits = _checked_array("stochastic_round", random_bits, (np.dtype(np.uint32),))
    dtype = dtypes.canonicalize_dtype(target_dtype)
    if dtype not in _ROUNDED:
        raise ValueError(f"stochastic_round rounds to {', '.join(map(str, _ROUNDED))}, got target_dtype={dtype}.")
    if x.shape != random_bits.shape:
        raise ValueError(f"stochastic_round takes random bits for each element, got shapes {x.shape} and {random_bits.shape}.")
    return stochastic_round_p.bind(x, random_bits, target_dtype=dtype)
