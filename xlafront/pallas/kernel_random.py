"""Random numbers in TPU kernels: of the core's generator, and samples of blocks that do not depend on the blocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront import random
from xlafront.core import dtypes
from xlafront.core.traceback_filter import boundary
from xlafront.lax.shapes import bitcast_convert_type
from xlafront.pallas.primitives import program_id
from xlafront.pallas.vector_operations import prng_random_bits
from xlafront.random import threefry
from xlafront.random.prng import IMPLEMENTATIONS, PRNGImpl


@boundary
def stateful_bits(shape: Sequence[int], dtype: Any = np.uint32) -> Any:
    """Return random unsigned integers of the core's generator, which `prng_seed` seeds. For use in kernels.

    Args:
        shape: Shape of the result.
        dtype: dtype of the result: unsigned integers of 32 bits at most.

    Returns:
        The integers.

    Example:
        >>> def kernel(o_ref):
        ...     pl.tpu.prng_seed(0)
        ...     o_ref[...] = pl.tpu.stateful_bits((8, 128))
    """
    dtype = dtypes.canonicalize_dtype(dtype)
    if not dtypes.is_unsigned(dtype) or dtype.itemsize > 4:
        raise TypeError(f"stateful_bits takes a dtype of unsigned integers of 32 bits at most, got {dtype}.")
    bits = bitcast_convert_type(prng_random_bits(shape), np.uint32)
    return bits if dtype == np.uint32 else (bits >> np.uint32(32 - 8 * dtype.itemsize)).astype(dtype)


@boundary
def stateful_uniform(shape: Sequence[int], dtype: Any = np.float32, minval: Any = 0.0, maxval: Any = 1.0) -> Any:
    """Return uniformly distributed numbers of the core's generator. For use in kernels.

    Args:
        shape: Shape of the result.
        dtype: dtype of the result.
        minval, maxval: Bounds of the numbers; the upper one is exclusive.

    Returns:
        The numbers.

    Example:
        >>> def kernel(o_ref):
        ...     pl.tpu.prng_seed(0)
        ...     o_ref[...] = pl.tpu.stateful_uniform((8, 128))
    """
    one_to_two = bitcast_convert_type((stateful_bits(shape) >> np.uint32(9)) | np.uint32(0x3F800000), np.float32)
    return (minval + (one_to_two - 1) * (maxval - minval)).astype(dtypes.canonicalize_dtype(dtype))


@boundary
def stateful_normal(shape: Sequence[int], dtype: Any = np.float32) -> Any:
    """Return normally distributed numbers of the core's generator. For use in kernels.

    Args:
        shape: Shape of the result.
        dtype: dtype of the result.

    Returns:
        The numbers.

    Example:
        >>> def kernel(o_ref):
        ...     pl.tpu.prng_seed(0)
        ...     o_ref[...] = pl.tpu.stateful_normal((8, 128))
    """
    radius = xnp.sqrt(-2 * xnp.log(1 - stateful_uniform(shape)))  # (the method of Box and Muller)
    angle = np.float32(2 * math.pi) * stateful_uniform(shape)
    return (radius * xnp.cos(angle)).astype(dtypes.canonicalize_dtype(dtype))


@boundary
def stateful_bernoulli(p: Any = 0.5, shape: Sequence[int] = ()) -> Any:
    """Return booleans of the core's generator that are True with a probability. For use in kernels.

    Args:
        p: Probability.
        shape: Shape of the result.

    Returns:
        The booleans.

    Example:
        >>> def kernel(o_ref):
        ...     pl.tpu.prng_seed(0)
        ...     o_ref[...] = pl.tpu.stateful_bernoulli(0.5, (8, 128)).astype("float32")
    """
    return stateful_uniform(shape) < p


def _no_split(words: Any, shape: Any) -> Any:
    raise NotImplementedError("random.split of a key of TPU kernels: split keys before pltpu.to_pallas_key, or use "
                              "random.fold_in.")


# The generator of the core, which a key seeds. Interpreted kernels take the bits of Threefry.
PALLAS_IMPL = PRNGImpl(
    (1, 2), lambda number: threefry.seed(number)[None], _no_split,
    lambda words, bit_width, shape: threefry.random_bits(words[0], bit_width, shape),
    lambda words, number: threefry.fold_in(words[0], number)[None], name="pallas_tpu", tag="pl")
IMPLEMENTATIONS[PALLAS_IMPL.name] = PALLAS_IMPL


@boundary
def to_pallas_key(key: Any) -> Any:
    """Return a key for TPU kernels, in which functions such as `random.uniform` use the core's generator.

    The kernel gets it in scalar memory: `pl.BlockSpec(memory_space=pltpu.SMEM)`. Bits of a TPU differ from those of
    interpreted kernels.

    Args:
        key: A key of another generator.

    Returns:
        The key.

    Example:
        >>> pl.tpu.to_pallas_key(xf.random.key(0)).dtype
        key<pl>
    """
    return random.wrap_key_data(random.bits(key, (1, 2), np.uint32), impl=PALLAS_IMPL.name)


@boundary
def sample_block(sampler_fn: Callable[..., Any], global_key: Any, block_size: Sequence[int], tile_size: Sequence[int],
                 total_size: Sequence[int], block_index: Sequence[Any] | None = None, **kwargs: Any) -> Any:
    """Return a block of random numbers, which are the same for any size of the blocks and order of the grid.

    The array is divided into tiles, which have a key each: that of `global_key` and of the number of the tile.

    Args:
        sampler_fn: A function such as `random.uniform`: it takes a key, and the shape as `shape`.
        global_key: The key.
        block_size: Shape of the block.
        tile_size: Shape of the tiles, which divides that of the blocks.
        total_size: Shape of the array, which the tiles divide.
        block_index: Index of the block in each dimension. Default: `pl.program_id` of each.
        kwargs: Further arguments of the function.

    Returns:
        The block.

    Example:
        >>> key = xf.random.key(0)
        >>> pl.tpu.sample_block(xf.random.uniform, key, (8, 8), (4, 4), (16, 16), (0, 1)).shape
        (8, 8)
    """
    sizes = tuple(block_size), tuple(tile_size), tuple(total_size)
    if len(set(map(len, sizes))) > 1 or any([b % t or n % t for b, t, n in zip(*sizes)]):
        raise ValueError(f"sample_block: the sizes of tiles, {sizes[1]}, must divide those of blocks, {sizes[0]}, and of "
                         f"the array, {sizes[2]}.")
    blocks, tiles, totals = sizes
    counts = [b // t for b, t in zip(blocks, tiles)]
    index = [program_id(d) for d in range(len(blocks))] if block_index is None else block_index

    def sample(position: tuple[int, ...]) -> Any:
        if len(position) < len(blocks):
            return xnp.concatenate([sample((*position, i)) for i in range(counts[len(position)])], axis=len(position))
        number: Any = 0
        for i, start, count, n, t in zip(position, index, counts, totals, tiles):
            number = number * (n // t) + start * count + i
        return sampler_fn(random.fold_in(global_key, number), shape=tiles, **kwargs)

    return sample(())
