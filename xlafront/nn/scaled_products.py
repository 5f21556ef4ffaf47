"""Products of matrices whose blocks of neighbours share a factor, and of arrays that are brought into that form first."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import xlafront.numpy as xnp
from xlafront import lax, lowering
from xlafront.core import dtypes
from xlafront.core.avals import ShapedArray
from xlafront.core.primitive import Primitive
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.lax.lower_fun import lower_fun
from xlafront.lax.shapes import broadcast_batch
from xlafront.staging.library import library
from xlafront.transforms.calls.custom_vjp import custom_vjp


@dataclass(frozen=True, eq=False)
class BlockScaleConfig:
    """How an operand is brought into blocks with factors.

    - `mode`: the name of the format.
    - `block_size`: how many neighbours share a factor.
    - `data_type`, `scale_type`: the dtypes of the elements and of the factors.
    - `global_scale`: a factor of the whole array, or None.
    - `infer_only`: is there for the reference's signature.
    """

    mode: str
    block_size: int
    data_type: Any
    scale_type: Any
    global_scale: Any
    infer_only: bool


def get_scaled_dot_general_config(mode: str, global_scale: ArrayLike | None = None) -> BlockScaleConfig:
    """How `scaled_dot_general` brings an operand into blocks.

    - `mode`: "mxfp8" (32 numbers of 8 bits with a power of two) or "nvfp4" (16 numbers of 4 bits with a factor of 8 bits).
    - `global_scale`: for "nvfp4", a factor of the whole array; None: 1.

    >>> nn.get_scaled_dot_general_config("mxfp8").block_size
    32
    """
    if mode == "mxfp8":
        return BlockScaleConfig(mode, 32, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu, None, False)
    if mode == "nvfp4":
        whole = xnp.ones((1,), np.float32) if global_scale is None else global_scale
        return BlockScaleConfig(mode, 16, ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn, whole, False)
    raise ValueError(f"get_scaled_dot_general_config takes 'mxfp8' or 'nvfp4' as mode, got {mode!r}.")


def _product_type(lhs, rhs, lhs_scales, rhs_scales, *, preferred_element_type):
    return ShapedArray((lhs.shape[0], lhs.shape[1], rhs.shape[1]), preferred_element_type)


def _product_of_floats(lhs, rhs, lhs_scales, rhs_scales, *, preferred_element_type):
    def whole(x, scales):
        spread = xnp.repeat(scales.astype(np.float32), x.shape[2] // scales.shape[2], axis=2)
        return x.astype(np.float32) * spread

    found = xnp.matmul(whole(lhs, lhs_scales), whole(rhs, rhs_scales).mT, precision="highest")
    return found.astype(preferred_element_type)


def _product_on_gpu(ctx, *operands, preferred_element_type):
    """XLA's operation, which becomes a call of cuDNN on GPUs that multiply such blocks, and a product of floats on others."""
    config = {"lhs_batch_dimensions": [0], "rhs_batch_dimensions": [0], "dequantize_type": _NAMES[preferred_element_type]}
    return ctx.op("stablehlo.custom_call", operands, **lowering.custom_calls.attributes_of_call(
        "__op$block_scaled_dot", 4, 1, backend_config=json.dumps({"scaled_dot_backend_config": config}), api_version=2,
        operand_layouts=[[2, 1, 0]] * 4, result_layouts=[[2, 1, 0]]))


def _product_of_batch(size, operands, dims, **params):
    """The batch is one with the first dimension."""
    xs = [broadcast_batch(x, d, size) for x, d in zip(operands, dims)]
    found = scaled_matmul_p.bind(*[x.reshape(-1, *x.shape[2:]) for x in xs], **params)
    return found.reshape(size, -1, *found.shape[1:]), 0


_NAMES = {np.dtype(np.float32): "F32", np.dtype(ml_dtypes.bfloat16): "BF16", np.dtype(np.float16): "F16"}
scaled_matmul_p = Primitive("scaled_matmul_wrapper", abstract=_product_type, lower=lower_fun(_product_of_floats),
                            batch=_product_of_batch, cost="heavy")
scaled_matmul_p.lowerings["cuda"] = _product_on_gpu


@library(static="preferred", name="_scaled_matmul")
def _product(lhs, rhs, lhs_scales, rhs_scales, preferred):
    return scaled_matmul_p.bind(lhs, rhs, lhs_scales, rhs_scales, preferred_element_type=preferred)


def _product_dtype(name: str, preferred) -> np.dtype:
    d = dtypes.check_user_dtype(preferred, name)
    if d not in _NAMES:
        raise TypeError(f"{name} takes float32, bfloat16 or float16 as preferred_element_type, got {d}.")
    return d


def scaled_matmul(lhs: ArrayLike, rhs: ArrayLike, lhs_scales: ArrayLike, rhs_scales: ArrayLike,
                  preferred_element_type: DTypeLike = np.float32) -> Array:
    """Products of matrices, `lhs @ rhs.mT`, where neighbours along the last dimension share a factor.

    - `lhs`, `rhs`: batches of matrices, of shapes (B, M, K) and (B, N, K).
    - `lhs_scales`, `rhs_scales`: the factors, of shapes (B, M, S) and (B, N, S), where S divides K.
    - `preferred_element_type`: the dtype of the result: float32, bfloat16 or float16.

    >>> scales = 2 * xnp.ones((1, 2, 2)), xnp.ones((1, 3, 2))
    >>> nn.scaled_matmul(xnp.ones((1, 2, 64)), xnp.ones((1, 3, 64)), *scales)[0, 0].tolist()
    [128.0, 128.0, 128.0]
    """
    shapes = [np.shape(x) for x in (lhs, rhs, lhs_scales, rhs_scales)]
    if any([len(s) != 3 for s in shapes]):
        raise ValueError(f"scaled_matmul takes arrays of three dimensions, got shapes {shapes}.")
    a, b, p, q = shapes
    for x, y, what in ((a, b, "lhs and rhs"), (p, q, "lhs_scales and rhs_scales")):
        if (x[0], x[2]) != (y[0], y[2]):
            raise ValueError(f"scaled_matmul takes {what} of equal first and last sizes, got shapes {x} and {y}.")
    for x, y, what in ((a, p, "lhs"), (b, q, "rhs")):
        if x[:2] != y[:2] or not y[2] or x[2] % y[2]:
            raise ValueError(f"scaled_matmul takes {what}_scales in the shape of {what}, but for a divisor of the last size, "
                             f"got shapes {y} and {x}.")
    preferred = _product_dtype("scaled_matmul", preferred_element_type)
    return _product(*map(xnp.asarray, (lhs, rhs, lhs_scales, rhs_scales)), preferred)


def _in_blocks(x, config: BlockScaleConfig):
    """Elements and factors of an array, whose last dimension is filled up with zeros to whole blocks."""
    size = config.block_size
    x = xnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, -x.shape[-1] % size)])
    if config.global_scale is not None:
        x = x.astype(np.float32) / xnp.reshape(config.global_scale, ())
    elif not dtypes.is_float(x.dtype):
        x = x.astype(np.float32)
    blocks = x.reshape(*x.shape[:-1], -1, size)
    largest = float(ml_dtypes.finfo(config.data_type).max)
    scales = xnp.max(xnp.abs(blocks), axis=-1) / largest
    if config.mode == "mxfp8":
        scales = _next_power_of_two(scales.astype(np.float32))
    else:
        scales = xnp.minimum(scales, float(ml_dtypes.finfo(config.scale_type).max)).astype(config.scale_type)
    exact = scales.astype(x.dtype)[..., None]
    elements = xnp.where(exact > 0, blocks / xnp.where(exact > 0, exact, 1), 0)
    return xnp.clip(elements, -largest, largest).reshape(x.shape).astype(config.data_type), scales


def _next_power_of_two(x):
    """The least power of two that is not below a float32, from its bits: the exponent, and one more where the rest is not 0.
    Numbers below the least of them become that."""
    bits = lax.bitcast_convert_type(x, np.uint32)
    exponent, rest = bits >> 23, bits & 0x7FFFFF
    least = (exponent == 0) & (rest <= 0x400000)  # up to 2**-127
    exponent = exponent + ((rest > 0) & (exponent != 254) & ~least)
    return lax.bitcast_convert_type(exponent.astype(np.uint8), ml_dtypes.float8_e8m0fnu)


def _fits(x, config: BlockScaleConfig):
    """Where an element is no larger than the largest number times the largest factor of a block."""
    largest = float(ml_dtypes.finfo(config.data_type).max) * float(ml_dtypes.finfo(config.scale_type).max)
    return xnp.abs(x) <= (1 if config.global_scale is None else xnp.reshape(config.global_scale, ())) * largest


def _scaled(x, y, x_config: BlockScaleConfig, y_config: BlockScaleConfig, preferred):
    """`x @ y.mT`, both in blocks along the last dimension."""
    (a, p), (b, q) = _in_blocks(x, x_config), _in_blocks(y, y_config)
    if p.shape[-1] != q.shape[-1]:  # blocks of different sizes
        both = np.lcm(x_config.block_size, y_config.block_size)
        wider = -x.shape[-1] % both
        x, y = (xnp.pad(v, [(0, 0), (0, 0), (0, wider)]) for v in (x, y))
        (a, p), (b, q) = _in_blocks(x, x_config), _in_blocks(y, y_config)
        finest = max(p.shape[-1], q.shape[-1])
        p, q = (xnp.repeat(s, finest // s.shape[-1], axis=-1) for s in (p, q))
    found = scaled_matmul(a, b, p, q, preferred)
    for config in (x_config, y_config):
        if config.global_scale is not None:
            found = found * xnp.reshape(config.global_scale, ()).astype(preferred)
    return found


def scaled_dot_general(lhs: ArrayLike, rhs: ArrayLike, dimension_numbers: Any, preferred_element_type: DTypeLike = np.float32,
                       configs: Sequence[BlockScaleConfig] | None = None, implementation: str | None = None) -> Array:
    """`lax.dot_general` of operands in blocks of few bits, forward and backward.

    - `lhs`, `rhs`: the operands.
    - `dimension_numbers`: as `lax.dot_general` takes them: pairs of contracted dimensions, and of batch dimensions.
    - `preferred_element_type`: the dtype of the result, and of the gradients: float32, bfloat16 or float16.
    - `configs`: how `lhs`, `rhs` and gradients are brought into blocks, by `get_scaled_dot_general_config`; None: not at all.
    - `implementation`: None or "cudnn", which both compute the same.

    >>> blocks = [nn.get_scaled_dot_general_config("mxfp8")] * 3
    >>> nn.scaled_dot_general(xnp.ones((2, 64)), xnp.ones((64, 3)), (((1,), (0,)), ((), ())), configs=blocks)[0].tolist()
    [64.0, 64.0, 64.0]
    """
    if implementation not in (None, "cudnn"):
        raise ValueError(f"scaled_dot_general takes None or 'cudnn' as implementation, got {implementation!r}.")
    lhs, rhs = xnp.asarray(lhs), xnp.asarray(rhs)
    if configs is None:
        return lax.dot_general(lhs, rhs, dimension_numbers, preferred_element_type=preferred_element_type)
    if len(configs) != 3:
        raise ValueError(f"scaled_dot_general takes three configs, for lhs, rhs and gradients, got {len(configs)}.")
    (lhs_sum, rhs_sum), (lhs_batch, rhs_batch) = dimension_numbers

    def matrices(x, batch, summed):
        """Of shape (B, M, K), and the sizes of M's dimensions."""
        kept = [i for i in range(x.ndim) if i not in (*batch, *summed)]
        sizes = [[x.shape[i] for i in dims] for dims in (batch, kept, summed)]
        moved = xnp.transpose(x, (*batch, *kept, *summed))
        return moved.reshape([int(np.prod(s)) for s in sizes]), sizes

    for a, b, what in ((lhs_sum, rhs_sum, "contracted"), (lhs_batch, rhs_batch, "batch")):
        if [lhs.shape[i] for i in a] != [rhs.shape[i] for i in b]:
            raise TypeError(f"scaled_dot_general takes operands with equal {what} sizes, got shapes {lhs.shape} and "
                            f"{rhs.shape} with the dimensions {tuple(a)} and {tuple(b)}.")
    x, (batch, rows, _) = matrices(lhs, lhs_batch, lhs_sum)
    y, (_, columns, _) = matrices(rhs, rhs_batch, rhs_sum)
    found = _differentiable(tuple(configs), _product_dtype("scaled_dot_general", preferred_element_type))(x, y)
    return found.reshape(*batch, *rows, *columns)


def _differentiable(configs, preferred):
    """`x @ y.mT` with products in blocks for its derivatives, too; of 4-bit numbers these are products of the operands as they
    are, 0 where an operand is larger than its blocks can hold."""
    x_config, y_config, g_config = configs

    @custom_vjp
    def product(x, y):
        return _scaled(x, y, x_config, y_config, preferred)

    def forward(x, y):
        return product(x, y), (x, y)

    def backward(kept, g):
        x, y = kept
        if g_config.mode == "nvfp4":
            exact = [xnp.matmul(a, b, preferred_element_type=preferred) for a, b in ((g, y), (g.mT, x))]
            return tuple([xnp.where(_fits(v, config), ct, 0) for v, config, ct in zip((x, y), (x_config, y_config), exact)])
        return _scaled(g, y.mT, g_config, y_config, preferred), _scaled(g.mT, x.mT, g_config, x_config, preferred)

    product.defvjp(forward, backward)
    return product
