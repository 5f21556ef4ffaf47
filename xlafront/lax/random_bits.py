"""XLA's own generators of random bits, and its uniform numbers. Those with keys to split are in `random`."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront import lowering
from xlafront.core import dtypes, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.primitive import Primitive
from xlafront.core.typing import Array, ArrayLike, DTypeLike, ShardingLike
from xlafront.core.zeros import Zero
from xlafront.lax.arguments import check_dtype, named_sharding
from xlafront.lax.dynamic_slicing import dynamic_update_slice
from xlafront.lax.shapes import move_dim, reshape_to, static_shape
from xlafront.lax.slicing import slice_in_dim
from xlafront.staging.library import lax_function


class RandomAlgorithm(enum.IntEnum):
    """How bits are generated: as the platform does it fastest, or by a published algorithm that is the same everywhere."""

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2

    def __str__(self):
        return self.name


_WORDS = np.dtype(np.uint64)


def _abstract(key, *, shape, dtype, algorithm, out_sharding):
    if dtype.kind != "u" or dtype.itemsize not in (1, 2, 4, 8):
        raise TypeError(f"rng_bit_generator makes unsigned integers of 8, 16, 32 or 64 bits; unsupported dtype {dtype}.")
    if (key.shape, key.dtype.name) not in (((4,), "uint32"), ((2,), "uint64"), ((3,), "uint64")):
        raise TypeError(f"rng_bit_generator takes a key of four uint32 or two uint64 words, got {key}.")
    return [ShapedArray(key.shape, key.dtype), ShapedArray(shape, dtype)]


def _lower(ctx, key, *, shape, dtype, algorithm, out_sharding):
    of_key, of_bits = ctx.avals_out
    halves = of_key.dtype.itemsize == 4
    state = ((2,), _WORDS) if halves else of_key
    if halves:
        key = ctx.op("stablehlo.bitcast_convert", [ctx.reshape(key, (2, 2), of_key.dtype)], [state])
    kind = lowering.mlir.attribute(f"#stablehlo<rng_algorithm {algorithm.name.removeprefix('RNG_')}>")
    if ctx.computes(shape):
        key, bits = ctx.op("stablehlo.custom_call", [key, ctx.vector(shape, np.int64)], [state, of_bits], rng_algorithm=kind,
                           call_target_name=lowering.mlir.string("stablehlo.dynamic_rng_bit_generator"))
    else:
        key, bits = ctx.op("stablehlo.rng_bit_generator", [key], [state, of_bits], rng_algorithm=kind)
    if halves:
        key = ctx.reshape(ctx.op("stablehlo.bitcast_convert", [key], [((2, 2), of_key.dtype)]), (4,), of_key.dtype)
    return [key, bits]


def _batch(axis_size, operands, dims, *, shape, **params):
    """The first key of a batch gives the bits of all, and alone moves on."""
    keys = move_dim(operands[0], dims[0], 0)
    following, bits = rng_bit_generator_p.bind(reshape_to(slice_in_dim(keys, 0, 1), np.shape(keys)[1:]),
                                               shape=(axis_size, *shape), **params)
    return [dynamic_update_slice(keys, reshape_to(following, (1, *np.shape(following))), (0,) * np.ndim(keys)), bits], [0, 0]


def _jvp(primals, tangents, **params):
    answers = rng_bit_generator_p.bind(*primals, **params)
    return answers, [Zero(tracing.aval_of(a).to_tangent_aval()) for a in answers]


rng_bit_generator_p = Primitive("rng_bit_generator", multiple_results=True, abstract=_abstract, lower=_lower, batch=_batch,
                                jvp=_jvp)


@lax_function(static=("shape", "dtype", "algorithm", "out_sharding"), name="rng_bit_generator")
def _bits_kernel(key, shape, dtype, algorithm, out_sharding):
    return rng_bit_generator_p.bind(key, shape=shape, dtype=dtype, algorithm=algorithm, out_sharding=out_sharding)


def rng_bit_generator(key: ArrayLike, shape: Sequence[int], dtype: DTypeLike = np.uint32,
                      algorithm: Any = RandomAlgorithm.RNG_DEFAULT, *,
                      out_sharding: ShardingLike = None) -> tuple[Array, Array]:
    """Random bits by XLA's generator, and the key to go on with: `(key, bits)`.

    The bits are the same on each run, but not on each platform unless an `algorithm` is named.

    - `key`: four uint32 or two uint64 words.
    - `shape`, `dtype`: of the bits, which are unsigned integers.
    - `algorithm`: a `RandomAlgorithm`.
    - `out_sharding`: how the bits are split over devices.

    >>> key, bits = lax.rng_bit_generator(xnp.arange(4, dtype="uint32"), (2, 3))
    >>> bits.shape
    (2, 3)
    """
    who = "rng_bit_generator"
    return tuple(_bits_kernel(key, static_shape(who, shape), dtypes.check_user_dtype(dtype, who), RandomAlgorithm(algorithm),
                              named_sharding(out_sharding, who)))


def _uniform_abstract(a, b, *, shape):
    if a.dtype != b.dtype:
        raise ValueError(f"rng_uniform needs bounds of identical dtypes, got {a.dtype} and {b.dtype}.")
    if a.shape or b.shape:
        raise ValueError(f"the bounds of rng_uniform must be scalars, got shapes {a.shape} and {b.shape}.")
    check_dtype("rng_uniform", "int float", a.dtype)
    return ShapedArray(shape, a.dtype, a.weak_type and b.weak_type)


def _uniform_lower(ctx, a, b, *, shape):
    sizes = ctx.vector(shape, np.int64)
    return ctx.op("stablehlo.rng", [a, b, sizes],
                  rng_distribution=lowering.mlir.attribute("#stablehlo<rng_distribution UNIFORM>"))


rng_uniform_p = Primitive("rng_uniform", abstract=_uniform_abstract, lower=_uniform_lower)


def rng_uniform(a: ArrayLike, b: ArrayLike, shape: Sequence[int]) -> Array:
    """Uniform numbers by a generator with a hidden state: without a key, and different at each run.

    It has no derivative and cannot be mapped; `random.uniform` does.

    - `a`, `b`: the bounds, scalars of one dtype, which is that of the numbers; the upper one is excluded.
    - `shape`: of the numbers.

    >>> lax.rng_uniform(0.0, 1.0, (2, 3)).shape
    (2, 3)
    """
    return _uniform_kernel(a, b, static_shape("rng_uniform", tuple(shape)))


@lax_function(static="shape", name="rng_uniform")
def _uniform_kernel(a, b, shape):
    return rng_uniform_p.bind(a, b, shape=shape)
