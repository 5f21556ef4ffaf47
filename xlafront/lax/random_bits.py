"""XLA's random bit generators and uniform numbers. The functions that split keys are in `random`."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront import lowering
from xlafront.core import dtypes, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.basic_primitives import move_dim
from xlafront.core.primitive import MeshRules, Primitive
from xlafront.core.typing import Array, ArrayLike, DTypeLike, ShardingLike
from xlafront.core.zeros import Zero
from xlafront.lax.arguments import check_dtype, named_sharding
from xlafront.lax.dynamic_slicing import dynamic_update_slice
from xlafront.lax.shapes import reshape_to, static_shape
from xlafront.lax.slicing import slice_in_dim
from xlafront.staging.library import library

if TYPE_CHECKING:
    from xlafront.base.jaxlib_compat import NamedSharding
    from xlafront.core.typing import Dims
    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir


class RandomAlgorithm(enum.IntEnum):
    """Algorithm of random bits: the fastest of the platform, or a published one whose bits are the same on all platforms."""

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2

    def __str__(self) -> str:
        return self.name


_WORD_DTYPE = np.dtype(np.uint64)


def _abstract(key: ShapedArray, *, shape: Sequence[int], dtype: np.dtype, algorithm: RandomAlgorithm,
              out_sharding: NamedSharding | None) -> list[ShapedArray]:
    if dtype.kind != "u" or dtype.itemsize not in (1, 2, 4, 8):
        raise TypeError(f"rng_bit_generator generates unsigned integers of 8, 16, 32 or 64 bits; unsupported dtype {dtype}.")
    if (key.shape, key.dtype.name) not in (((4,), "uint32"), ((2,), "uint64"), ((3,), "uint64")):
        raise TypeError(f"rng_bit_generator takes a key of four uint32 or two uint64 words, got {key}.")
    return [key.strip_weak_type(), ShapedArray(shape, dtype, sharding=out_sharding, vma=key.vma)]


def _lower(ctx: RuleContext, key: ir.Value, *, shape: Sequence[int], dtype: np.dtype, algorithm: RandomAlgorithm,
           out_sharding: NamedSharding | None) -> list[ir.Value]:
    key_aval, bits_aval = ctx.avals_out
    is_32_bit = key_aval.dtype.itemsize == 4
    state = ((2,), _WORD_DTYPE) if is_32_bit else key_aval
    if is_32_bit:
        key = ctx.op("stablehlo.bitcast_convert", [ctx.reshape(key, (2, 2), key_aval.dtype)], [state])
    kind = lowering.mlir.attribute(f"#stablehlo<rng_algorithm {algorithm.name.removeprefix('RNG_')}>")
    if ctx.has_computed_sizes(shape):
        key, bits = ctx.op("stablehlo.custom_call", [key, ctx.vector(shape, np.int64)], [state, bits_aval], rng_algorithm=kind,
                           call_target_name=lowering.mlir.string("stablehlo.dynamic_rng_bit_generator"))
    else:
        key, bits = ctx.op("stablehlo.rng_bit_generator", [key], [state, bits_aval], rng_algorithm=kind)
    if is_32_bit:
        key = ctx.reshape(ctx.op("stablehlo.bitcast_convert", [key], [((2, 2), key_aval.dtype)]), (4,), key_aval.dtype)
    return [key, bits]


def _batch(axis_size: int, operands: Sequence[Any], dims: Dims, *, shape: Sequence[int], **params: Any) -> tuple[Any, Any]:
    """Generate the bits of all elements from the first key of the batch. Only this key is updated."""
    keys = move_dim(operands[0], dims[0], 0)
    new_key, bits = rng_bit_generator_p.bind(reshape_to(slice_in_dim(keys, 0, 1), np.shape(keys)[1:]),
                                               shape=(axis_size, *shape), **params)
    return [dynamic_update_slice(keys, reshape_to(new_key, (1, *np.shape(new_key))), (0,) * np.ndim(keys)), bits], [0, 0]


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    results = rng_bit_generator_p.bind(*primals, **params)
    return results, [Zero(tracing.aval_of(a).to_tangent_aval()) for a in results]


rng_bit_generator_p = Primitive("rng_bit_generator", multiple_results=True, abstract=_abstract, lower=_lower, batch=_batch,
                                jvp=_jvp, mesh=MeshRules(states_vma=True, states_mesh_types=True))


@library(static=("shape", "dtype", "algorithm", "out_sharding"), name="rng_bit_generator")
def _bits_kernel(key: Array, shape: Sequence[int], dtype: np.dtype, algorithm: RandomAlgorithm,
                 out_sharding: NamedSharding | None) -> Any:
    return rng_bit_generator_p.bind(key, shape=shape, dtype=dtype, algorithm=algorithm, out_sharding=out_sharding)


def rng_bit_generator(key: ArrayLike, shape: Sequence[int], dtype: DTypeLike = np.uint32,
                      algorithm: Any = RandomAlgorithm.RNG_DEFAULT, *,
                      out_sharding: ShardingLike = None) -> tuple[Array, Array]:
    """Generate random bits with XLA's generator, and return them with a new key.

    The bits are the same on each run. They differ between platforms unless `algorithm` names one.

    Args:
        key: Four uint32 words or two uint64 words.
        shape: Shape of the bits.
        dtype: An unsigned integer dtype.
        algorithm: A `RandomAlgorithm`.
        out_sharding: Sharding of the bits.

    Returns:
        A tuple `(key, bits)`: the key for the next call, and an array of random bits.

    Example:
        >>> key, bits = lax.rng_bit_generator(xnp.arange(4, dtype="uint32"), (2, 3))
        >>> bits.shape
        (2, 3)
    """
    name = "rng_bit_generator"
    return tuple(_bits_kernel(key, static_shape(name, shape), dtypes.check_user_dtype(dtype, name), RandomAlgorithm(algorithm),
                              named_sharding(out_sharding, name)))


def _uniform_abstract(a: ShapedArray, b: ShapedArray, *, shape: Sequence[int]) -> ShapedArray:
    if a.dtype != b.dtype:
        raise ValueError(f"rng_uniform needs bounds of identical dtypes, got {a.dtype} and {b.dtype}.")
    if a.shape or b.shape:
        raise ValueError(f"the bounds of rng_uniform must be scalars, got shapes {a.shape} and {b.shape}.")
    check_dtype("rng_uniform", "int float", a.dtype)
    return ShapedArray(shape, a.dtype, a.weak_type and b.weak_type)


def _uniform_lower(ctx: RuleContext, a: ir.Value, b: ir.Value, *, shape: Sequence[int]) -> ir.Value:
    sizes = ctx.vector(shape, np.int64)
    return ctx.op("stablehlo.rng", [a, b, sizes],
                  rng_distribution=lowering.mlir.attribute("#stablehlo<rng_distribution UNIFORM>"))


rng_uniform_p = Primitive("rng_uniform", abstract=_uniform_abstract, lower=_uniform_lower)


def rng_uniform(a: ArrayLike, b: ArrayLike, shape: Sequence[int]) -> Array:
    """Sample uniform numbers from a generator with hidden state: without a key, and different on each run.

    It has no derivative and cannot be mapped by `vmap`; use `random.uniform` for that.

    Args:
        a, b: Lower and upper bound, scalars of one dtype. The upper bound is excluded.
        shape: Shape of the result.

    Returns:
        An array of the dtype of the bounds.

    Example:
        >>> lax.rng_uniform(0.0, 1.0, (2, 3)).shape
        (2, 3)
    """
    return _uniform_kernel(a, b, static_shape("rng_uniform", tuple(shape)))


@library(static="shape", name="rng_uniform")
def _uniform_kernel(a: Array, b: Array, shape: Sequence[int]) -> Array:
    return rng_uniform_p.bind(a, b, shape=shape)
