"""Operations on vectors of TPU kernels: rolls, changes of the element type, packing, random bits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront.core import dtypes, errors, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.basic_primitives import convert_element_type_p
from xlafront.core.traceback_filter import boundary
from xlafront.core.zeros import Zero
from xlafront.lax.shapes import bitcast_convert_type
from xlafront.numpy import creation
from xlafront.pallas.kernel_operation import kernel_operation, on_core
from xlafront.pallas.specs import Memory, MemorySpace

# Rolls


def _roll(x, shift, *, axis, stride, stride_axis):
    if stride is None:
        return xnp.roll(x, shift, axis)
    rank = np.ndim(x)
    n, rows = np.shape(x)[axis], np.shape(x)[stride_axis]
    positions = creation.arange(n, dtype=np.int32).reshape([n if d == axis else 1 for d in range(rank)])
    rows_index = creation.arange(rows, dtype=np.int32).reshape([rows if d == stride_axis else 1 for d in range(rank)])
    source = (positions - shift - stride * rows_index) % n
    return xnp.take_along_axis(x, xnp.broadcast_to(source, np.shape(x)), axis=axis)


def _roll_jvp(primals, tangents, **params):
    value, shift = primals
    tangent = tangents[0] if type(tangents[0]) is Zero else _roll(tangents[0], shift, **params)
    return roll_p.bind(*primals, **params), tangent


roll_p = kernel_operation("roll", _roll, abstract=lambda x, shift, **params: x, jvp=_roll_jvp)


@boundary
def roll(x: Any, shift: Any, axis: int, *, stride: int | None = None, stride_axis: int | None = None) -> Any:
    """Roll elements along a dimension: elements beyond the end come back at the start.

    Args:
        x: The array.
        shift: Number of positions. Nonnegative.
        axis: The dimension.
        stride: Additional shift of each row along `stride_axis`, relative to the previous row.
        stride_axis: Dimension of the rows. Give it together with `stride`.

    Returns:
        The array, of the same shape.

    Example:
        >>> pl.tpu.roll(xnp.arange(4), 1, 0)
        Array([3, 0, 1, 2], dtype=int32)
    """
    if isinstance(shift, (int, np.integer)) and shift < 0:
        raise ValueError(f"roll takes a shift that is not negative, got {shift}: add the size of the dimension.")
    if (stride is None) != (stride_axis is None):
        raise ValueError("roll takes stride and stride_axis together.")
    rank = np.ndim(x)
    axis %= rank
    if stride is not None and stride_axis is not None:
        stride_axis %= rank
        if axis == stride_axis:
            raise ValueError(f"roll takes an axis and a stride_axis that differ, got {axis} twice.")
    positions = np.int32(shift) if isinstance(shift, int) else shift
    return roll_p.bind(x, positions, axis=axis, stride=stride, stride_axis=stride_axis)


# Changes of the element type


def _bits(dtype) -> int:
    return dtypes.iinfo(dtype).bits if dtypes.is_integer(dtype) else dtypes.finfo(dtype).bits


def _bitcast_aval(x, *, ty):
    rows = x.shape[-2] * _bits(x.dtype) // _bits(ty)
    return x.update(shape=(*x.shape[:-2], rows, x.shape[-1]), dtype=np.dtype(ty), weak_type=False)


def _bitcast(x, *, ty):
    *outer, rows, columns = np.shape(x)
    wide, narrow = _bits(tracing.aval_of(x).dtype), _bits(ty)
    if wide == narrow:
        return bitcast_convert_type(x, ty)
    if wide > narrow:
        pieces = bitcast_convert_type(x, ty)
        return xnp.moveaxis(pieces, -1, -2).reshape(*outer, rows * (wide // narrow), columns)
    packed = narrow // wide
    pieces = xnp.moveaxis(xnp.reshape(x, (*outer, rows // packed, packed, columns)), -2, -1)
    return bitcast_convert_type(pieces, ty)


bitcast_p = kernel_operation("bitcast", _bitcast, abstract=_bitcast_aval)


@boundary
def bitcast(x: Any, ty: Any, dim: int = -2) -> Any:
    """Reinterpret the bits of an array as elements of another type, along a dimension: the second last by default.

    Elements that share a word of a vector register are consecutive rows, the first in the low bits.

    Args:
        x: Array of at least two dimensions.
        ty: dtype of the result. If it is narrower, there are more rows; if it is wider, fewer.
        dim: The dimension: -2, or -1 for elements that share a word in the last dimension.

    Returns:
        The array of the new type.

    Example:
        >>> pl.tpu.bitcast(xnp.ones((8, 128), "float32"), "bfloat16").shape
        (16, 128)
    """
    aval, dtype = tracing.aval_of(x), dtypes.canonicalize_dtype(ty)
    if dim not in (-1, -2):
        raise ValueError(f"bitcast takes dim=-2 or dim=-1, got {dim}.")
    if dim == -1 and _bits(aval.dtype) != _bits(dtype):  # rows of one column
        return xnp.squeeze(bitcast(xnp.expand_dims(x, -1), ty), -1)
    if dim == -1:
        return bitcast_convert_type(x, dtype)
    if aval.ndim < 2:
        raise ValueError(f"bitcast takes an array of two dimensions at least, got the shape {aval.shape}.")
    if aval.shape[-2] * _bits(aval.dtype) % _bits(dtype):
        raise ValueError(f"bitcast of {aval} to {dtype}: {aval.shape[-2]} rows of {_bits(aval.dtype)} bits are no whole number "
                         f"of rows of {_bits(dtype)} bits. Pad the second last dimension.")
    return bitcast_p.bind(x, ty=dtype)


def _word(dtype) -> np.dtype:
    return np.dtype(f"uint{_bits(dtype)}")


def _convert(x, dtype):
    return convert_element_type_p.bind(x, new_dtype=np.dtype(dtype), weak_type=False, sharding=None)


def _pack(*xs, packed_dtype):
    packed = np.uint32(0)
    for i, x in enumerate(xs):
        word = bitcast_convert_type(_convert(x, packed_dtype), _word(packed_dtype))
        packed = packed | (_convert(word, np.uint32) << np.uint32(i * _bits(packed_dtype)))
    return packed


def _unpack(x, *, index, packed_dtype, unpacked_dtype):
    bits = _bits(packed_dtype)
    word = _convert(bitcast_convert_type(x, np.uint32) >> np.uint32(index * bits), _word(packed_dtype))
    return _convert(bitcast_convert_type(word, packed_dtype), unpacked_dtype)


pack_elementwise_p = kernel_operation(
    "pack_elementwise", _pack, abstract=lambda x, *xs, packed_dtype: x.update(dtype=np.dtype(np.uint32), weak_type=False))
unpack_elementwise_p = kernel_operation(
    "unpack_elementwise", _unpack, abstract=lambda x, *, unpacked_dtype, **_: x.update(dtype=np.dtype(unpacked_dtype),
                                                                                      weak_type=False))


@boundary
def pack_elementwise(xs: Sequence[Any], *, packed_dtype: Any) -> Any:
    """Convert arrays of 32-bit elements to a narrower type, and pack elements of the same position in one word.

    Args:
        xs: As many arrays as there are elements in a word, of one shape. The first is in the low bits.
        packed_dtype: The narrower type.

    Returns:
        The words, a uint32 array.

    Example:
        >>> words = pl.tpu.pack_elementwise([xnp.ones(3), xnp.zeros(3)], packed_dtype="bfloat16")
    """
    dtype = dtypes.canonicalize_dtype(packed_dtype)
    count = 32 // _bits(dtype)
    if len(xs) != count:
        raise ValueError(f"pack_elementwise to {dtype} takes {count} arrays, so that the words have 32 bits; got {len(xs)}.")
    avals = [tracing.aval_of(x) for x in xs]
    if any([a.shape != avals[0].shape or a.dtype != avals[0].dtype for a in avals]) or avals[0].dtype.itemsize != 4:
        raise ValueError("pack_elementwise takes arrays of one shape and one dtype of 32 bits, got "
                         f"{', '.join(map(str, avals))}.")
    return pack_elementwise_p.bind(*xs, packed_dtype=dtype)


@boundary
def unpack_elementwise(x: Any, *, index: int, packed_dtype: Any, unpacked_dtype: Any) -> Any:
    """Unpack elements that `pack_elementwise` has packed.

    Args:
        x: The words, an array of 32-bit integers.
        index: Position of the elements in their words.
        packed_dtype: Type of the packed elements.
        unpacked_dtype: Type of the result, of 32 bits.

    Returns:
        The elements.

    Example:
        >>> words = pl.tpu.pack_elementwise([xnp.ones(3), xnp.zeros(3)], packed_dtype="bfloat16")
        >>> pl.tpu.unpack_elementwise(words, index=0, packed_dtype="bfloat16", unpacked_dtype="float32")
        Array([1., 1., 1.], dtype=float32)
    """
    dtype = dtypes.canonicalize_dtype(packed_dtype)
    if not 0 <= index < 32 // _bits(dtype):
        raise ValueError(f"unpack_elementwise: the index {index} is out of bounds: a word has {32 // _bits(dtype)} elements of "
                         f"{dtype}.")
    if tracing.aval_of(x).dtype.itemsize != 4:
        raise ValueError(f"unpack_elementwise takes words of 32 bits, got {tracing.aval_of(x)}.")
    return unpack_elementwise_p.bind(x, index=index, packed_dtype=dtype,
                                     unpacked_dtype=dtypes.canonicalize_dtype(unpacked_dtype))


# Random bits


prng_seed_p = kernel_operation("prng_seed", lambda *seeds: None, effects=lambda *_: on_core)
prng_random_bits_p = kernel_operation(
    "prng_random_bits", lambda *, shape: creation.zeros(shape, np.int32), effects=lambda **_: on_core,
    abstract=lambda *, shape: ShapedArray(shape, np.dtype(np.int32)))


@boundary
def prng_seed(*seeds: Any) -> None:
    """Seed the random generator of the core. For use in kernels.

    Args:
        seeds: Integers.

    Example:
        >>> def kernel(o_ref):
        ...     pl.tpu.prng_seed(0)
        ...     o_ref[...] = pl.tpu.prng_random_bits((8, 128))
    """
    for seed in seeds:
        if not tracing.is_arraylike(seed) or np.ndim(seed):
            raise errors.not_an_array(seed, "prng_seed", "seeds")
    prng_seed_p.bind(*[np.int32(s) if isinstance(s, int) else s for s in seeds])


@boundary
def prng_random_bits(shape: Sequence[int]) -> Any:
    """Return random bits of the generator of the core. For use in kernels.

    In interpreted kernels, which have no such generator, all bits are zero.

    Args:
        shape: Shape of the result.

    Returns:
        The bits, an int32 array.

    Example:
        >>> def kernel(o_ref):
        ...     pl.tpu.prng_seed(0)
        ...     o_ref[...] = pl.tpu.prng_random_bits((8, 128))
    """
    sizes = tuple([n.__index__() for n in shape])
    if math.prod(sizes) < 0:
        raise ValueError(f"prng_random_bits takes a shape of sizes that are not negative, got {shape}.")
    return prng_random_bits_p.bind(shape=sizes)


# Memories


def _constraint_jvp(primals, tangents, **params):
    return with_memory_space_constraint_p.bind(*primals, **params), tangents[0]


with_memory_space_constraint_p = kernel_operation(
    "with_memory_space_constraint", lambda x, *, memory_space: x, abstract=lambda x, *, memory_space: x, jvp=_constraint_jvp)


@boundary
def with_memory_space_constraint(x: Any, memory_space: Any) -> Any:
    """Return an array, with the wish that the compiler places it in a memory of the TPU before a kernel uses it.

    Args:
        x: The array.
        memory_space: The memory, such as `pltpu.HBM` or `pltpu.VMEM`.

    Returns:
        The array.

    Example:
        >>> pl.tpu.with_memory_space_constraint(xnp.ones(2), pl.tpu.HBM)
        Array([1., 1.], dtype=float32)
    """
    if not isinstance(memory_space, Memory) or memory_space is MemorySpace.KEY:
        raise TypeError(f"with_memory_space_constraint takes a memory such as pltpu.HBM, got {errors.short(memory_space)}.")
    if not tracing.is_arraylike(x):
        raise errors.not_an_array(x, "with_memory_space_constraint", "x")
    return with_memory_space_constraint_p.bind(x, memory_space=memory_space)
