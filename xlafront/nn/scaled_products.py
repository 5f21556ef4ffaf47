"""Products of block-scaled matrices, and of arrays that are quantized to that form first."""

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
from xlafront.core.primitive import Cost, Primitive, Traits
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.lax.lower_fun import lower_fun
from xlafront.lax.shapes import broadcast_batch
from xlafront.staging.library import library
from xlafront.transforms.calls.custom_vjp import custom_vjp


@dataclass(frozen=True, eq=False)
class BlockScaleConfig:
    """Quantization of an operand to blocks that share a scale.

    Args:
        mode: Name of the format.
        block_size: Number of consecutive elements that share a scale.
        data_type: dtype of the elements.
        scale_type: dtype of the scales.
        global_scale: Scale of the whole array, or None.
        infer_only: Not used. It is there for compatibility with JAX.
    """

    mode: str
    block_size: int
    data_type: Any
    scale_type: Any
    global_scale: Any
    infer_only: bool


def get_scaled_dot_general_config(mode: str, global_scale: ArrayLike | None = None) -> BlockScaleConfig:
    """Return a quantization format for `scaled_dot_general`.

    Args:
        mode: "mxfp8" (blocks of 32 elements of 8 bits with a power of two as scale) or "nvfp4" (blocks of 16 elements of 4 bits
            with
            a scale of 8 bits).
        global_scale: Scale of the whole array for "nvfp4". Default: 1.

    Returns:
        Configuration for one operand.

    Example:
        >>> nn.get_scaled_dot_general_config("mxfp8").block_size
        32
    """
    if mode == "mxfp8":
        return BlockScaleConfig(mode, 32, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu, None, False)
    if mode == "nvfp4":
        scale = xnp.ones((1,), np.float32) if global_scale is None else global_scale
        return BlockScaleConfig(mode, 16, ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn, scale, False)
    raise ValueError(f"get_scaled_dot_general_config takes 'mxfp8' or 'nvfp4' as mode, got {mode!r}.")


def _product_type(lhs, rhs, lhs_scales, rhs_scales, *, preferred_element_type):
    return ShapedArray((lhs.shape[0], lhs.shape[1], rhs.shape[1]), preferred_element_type)


def _product_of_floats(lhs, rhs, lhs_scales, rhs_scales, *, preferred_element_type):
    def dequantize(x, scales):
        broadcast_scales = xnp.repeat(scales.astype(np.float32), x.shape[2] // scales.shape[2], axis=2)
        return x.astype(np.float32) * broadcast_scales

    result = xnp.matmul(dequantize(lhs, lhs_scales), dequantize(rhs, rhs_scales).mT, precision="highest")
    return result.astype(preferred_element_type)


def _product_on_gpu(ctx, *operands, preferred_element_type):
    """Lower to XLA's block-scaled dot: a cuDNN call on GPUs that support such blocks, else a product of floats."""
    config = {"lhs_batch_dimensions": [0], "rhs_batch_dimensions": [0], "dequantize_type": _NAMES[preferred_element_type]}
    return ctx.op("stablehlo.custom_call", operands, **lowering.custom_calls.attributes_of_call(
        "__op$block_scaled_dot", 4, 1, backend_config=json.dumps({"scaled_dot_backend_config": config}), api_version=2,
        operand_layouts=[[2, 1, 0]] * 4, result_layouts=[[2, 1, 0]]))


def _product_batch(size, operands, dims, **params):
    """Merge the batch into the first dimension."""
    xs = [broadcast_batch(x, d, size) for x, d in zip(operands, dims)]
    result = scaled_matmul_p.bind(*[x.reshape(-1, *x.shape[2:]) for x in xs], **params)
    return result.reshape(size, -1, *result.shape[1:]), 0


_NAMES = {np.dtype(np.float32): "F32", np.dtype(ml_dtypes.bfloat16): "BF16", np.dtype(np.float16): "F16"}
scaled_matmul_p = Primitive(
    "scaled_matmul_wrapper", abstract=_product_type, lower={None: lower_fun(_product_of_floats), "cuda": _product_on_gpu},
    batch=_product_batch, traits=Traits(cost=Cost.HEAVY))


@library(static="preferred", name="_scaled_matmul")
def _product(lhs, rhs, lhs_scales, rhs_scales, preferred):
    return scaled_matmul_p.bind(lhs, rhs, lhs_scales, rhs_scales, preferred_element_type=preferred)


def _product_dtype(name: str, preferred) -> np.dtype:
    d = dtypes.check_user_dtype(preferred, name)
    if d not in _NAMES:
        raise TypeError(f"{name}: preferred_element_type must be float32, bfloat16 or float16, got {d}.")
    return d


def scaled_matmul(lhs: ArrayLike, rhs: ArrayLike, lhs_scales: ArrayLike, rhs_scales: ArrayLike,
                  preferred_element_type: DTypeLike = np.float32) -> Array:
    """Compute `lhs @ rhs.mT` for matrices whose blocks along the last axis share a scale.

    Args:
        lhs: Matrices of shape `(B, M, K)`.
        rhs: Matrices of shape `(B, N, K)`.
        lhs_scales: Scales of `lhs` of shape `(B, M, S)`, where S divides K.
        rhs_scales: Scales of `rhs` of shape `(B, N, S)`.
        preferred_element_type: dtype of the result: float32, bfloat16 or float16.

    Returns:
        Matrices of shape `(B, M, N)`.

    Example:
        >>> scales = 2 * xnp.ones((1, 2, 2)), xnp.ones((1, 3, 2))
        >>> nn.scaled_matmul(xnp.ones((1, 2, 64)), xnp.ones((1, 3, 64)), *scales)[0, 0].tolist()
        [128.0, 128.0, 128.0]
    """
    shapes = [np.shape(x) for x in (lhs, rhs, lhs_scales, rhs_scales)]
    if any([len(s) != 3 for s in shapes]):
        raise ValueError(f"scaled_matmul takes arrays of three dimensions, got shapes {shapes}.")
    a, b, p, q = shapes
    for x, y, name in ((a, b, "lhs and rhs"), (p, q, "lhs_scales and rhs_scales")):
        if (x[0], x[2]) != (y[0], y[2]):
            raise ValueError(f"scaled_matmul takes {name} of equal first and last sizes, got shapes {x} and {y}.")
    for x, y, name in ((a, p, "lhs"), (b, q, "rhs")):
        if x[:2] != y[:2] or not y[2] or x[2] % y[2]:
            raise ValueError(f"scaled_matmul needs {name}_scales with the shape of {name}, except for a last size that is a "
                             f"divisor of that of {name}, got shapes {y} and {x}.")
    preferred = _product_dtype("scaled_matmul", preferred_element_type)
    return _product(xnp.asarray(lhs), xnp.asarray(rhs), xnp.asarray(lhs_scales), xnp.asarray(rhs_scales), preferred)


def _quantize(x, config: BlockScaleConfig):
    """Return the elements and scales of an array, whose last axis is padded with zeros to full blocks."""
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
    wide_scales = scales.astype(x.dtype)[..., None]
    elements = xnp.where(wide_scales > 0, blocks / xnp.where(wide_scales > 0, wide_scales, 1), 0)
    return xnp.clip(elements, -largest, largest).reshape(x.shape).astype(config.data_type), scales


def _next_power_of_two(x):
    """Round float32 values up to powers of two.

    This works on the bits: the exponent is incremented unless the mantissa is 0. Smaller values become the smallest power of
    two.
    """
    bits = lax.bitcast_convert_type(x, np.uint32)
    exponent, mantissa = bits >> 23, bits & 0x7FFFFF
    is_smallest = (exponent == 0) & (mantissa <= 0x400000)  # At most 2**-127.
    exponent = exponent + ((mantissa > 0) & (exponent != 254) & ~is_smallest)
    return lax.bitcast_convert_type(exponent.astype(np.uint8), ml_dtypes.float8_e8m0fnu)


def _is_representable(x, config: BlockScaleConfig):
    """True where an element is at most the largest number times the largest scale of a block."""
    largest = float(ml_dtypes.finfo(config.data_type).max) * float(ml_dtypes.finfo(config.scale_type).max)
    return xnp.abs(x) <= (1 if config.global_scale is None else xnp.reshape(config.global_scale, ())) * largest


def _scaled_product(x, y, x_config: BlockScaleConfig, y_config: BlockScaleConfig, preferred):
    """Compute `x @ y.mT` with both operands quantized along the last axis."""
    (a, p), (b, q) = _quantize(x, x_config), _quantize(y, y_config)
    if p.shape[-1] != q.shape[-1]:  # The block sizes differ.
        block_size = np.lcm(x_config.block_size, y_config.block_size)
        padding = -x.shape[-1] % block_size
        x, y = (xnp.pad(v, [(0, 0), (0, 0), (0, padding)]) for v in (x, y))
        (a, p), (b, q) = _quantize(x, x_config), _quantize(y, y_config)
        num_scales = max(p.shape[-1], q.shape[-1])
        p, q = (xnp.repeat(s, num_scales // s.shape[-1], axis=-1) for s in (p, q))
    result = scaled_matmul(a, b, p, q, preferred)
    for config in (x_config, y_config):
        if config.global_scale is not None:
            result = result * xnp.reshape(config.global_scale, ()).astype(preferred)
    return result


def scaled_dot_general(lhs: ArrayLike, rhs: ArrayLike, dimension_numbers: Any, preferred_element_type: DTypeLike = np.float32,
                       configs: Sequence[BlockScaleConfig] | None = None, implementation: str | None = None) -> Array:
    """Compute `lax.dot_general` with operands quantized to scaled blocks, forward and backward.

    Args:
        lhs: Left operand.
        rhs: Right operand.
        dimension_numbers: Pairs of contracted dimensions and of batch dimensions, as for `lax.dot_general`.
        preferred_element_type: dtype of the result and of the gradients: float32, bfloat16 or float16.
        configs: Formats of `lhs`, `rhs` and gradients, from `get_scaled_dot_general_config`. Default: no quantization.
        implementation: None or "cudnn". Both compute the same.

    Returns:
        Product of the operands.

    Example:
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

    def as_matrices(x, batch, contracted):
        """Return the operand as an array of shape (B, M, K), and the sizes of the dimensions of each."""
        free = [i for i in range(x.ndim) if i not in (*batch, *contracted)]
        sizes = [[x.shape[i] for i in dims] for dims in (batch, free, contracted)]
        transposed = xnp.transpose(x, (*batch, *free, *contracted))
        return transposed.reshape([int(np.prod(s)) for s in sizes]), sizes

    for a, b, kind in ((lhs_sum, rhs_sum, "contracted"), (lhs_batch, rhs_batch, "batch")):
        if [lhs.shape[i] for i in a] != [rhs.shape[i] for i in b]:
            raise TypeError(f"scaled_dot_general takes operands with equal {kind} sizes, got shapes {lhs.shape} and "
                            f"{rhs.shape} with the dimensions {tuple(a)} and {tuple(b)}.")
    x, (batch, rows, _) = as_matrices(lhs, lhs_batch, lhs_sum)
    y, (_, columns, _) = as_matrices(rhs, rhs_batch, rhs_sum)
    result = _differentiable_product(tuple(configs), _product_dtype("scaled_dot_general", preferred_element_type))(x, y)
    return result.reshape(*batch, *rows, *columns)


def _differentiable_product(configs, preferred):
    """Return a function that computes `x @ y.mT` with scaled products in its derivatives, too.

    For 4-bit formats the derivatives are products of the unquantized operands, 0 where an operand exceeds the range of its
    blocks.
    """
    x_config, y_config, g_config = configs

    @custom_vjp
    def product(x, y):
        return _scaled_product(x, y, x_config, y_config, preferred)

    def forward(x, y):
        return product(x, y), (x, y)

    def backward(residuals, g):
        x, y = residuals
        if g_config.mode == "nvfp4":
            cts = [xnp.matmul(a, b, preferred_element_type=preferred) for a, b in ((g, y), (g.mT, x))]
            return tuple([xnp.where(_is_representable(v, config), ct, 0) for v, config, ct in zip(
                (x, y), (x_config, y_config), cts)])
        return (_scaled_product(g, y.mT, g_config, y_config, preferred),
                _scaled_product(g.mT, x.mT, g_config, x_config, preferred))

    product.defvjp(forward, backward)
    return product
