"""Matrix products of int8 and fp8 values with scales of rows and columns.

Values of int8 are multiplied as integers where both operands have them; other values are converted to the other operand's
dtype, or to bfloat16, in the kernel, so that memory holds 8 bits for each.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.core import dtypes
from xlafront.core.avals import ShapedArray
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.kernels.reduction import Blocks, Reduction, dot, reduce_blocks
from xlafront.kernels.targets import Target, by_target
from xlafront.pallas.kernel_functions import cdiv
from xlafront.staging.library import library
from xlafront.transforms.calls.custom_vjp import custom_vjp

_DTYPES = ("int8", "float8_e4m3fn", "float8_e5m2")


@dataclass(frozen=True)
class Options:
    """The static options of a product.

    Args:
        dtype: dtype of the result, by name.
        is_transposed: True if `rhs` has the shape (columns, depth).
        target: The compiler; None for that of the platform.
    """

    dtype: str
    is_transposed: bool = False
    target: Target | None = None


def _operand_dtype(lhs: Any, rhs: Any) -> np.dtype:
    """Return the dtype in which values are multiplied."""
    if lhs.dtype == rhs.dtype == np.int8:
        return np.dtype(np.int8)
    return lhs.dtype if lhs.dtype.itemsize > 1 else dtypes.bfloat16


def _float8_bits(target: Target, x: Any) -> Any:
    """Return fp8 values as bytes for GPUs, of which those before Ada have no conversion of float8_e4m3fn."""
    return x if x is None or target.is_tpu or x.dtype.name not in _DTYPES[1:] else lax.bitcast_convert_type(x, np.uint8)


def _converted(x: Any, stored: np.dtype, dtype: np.dtype) -> Any:
    """Convert values of a dtype, or the bytes of fp8 values, to the dtype of a product.

    Shifted to the top of a float16, the bits of float8_e5m2 are this number, and those of float8_e4m3fn, below the sign and a
    bit of the exponent, are the number divided by 256.
    """
    if x.dtype != np.uint8:
        return x.astype(dtype)
    bits = x.astype(np.int32)
    if stored.name == "float8_e5m2":
        return lax.bitcast_convert_type((bits << 8).astype(np.int16), np.float16).astype(np.float32).astype(dtype)
    bits = ((bits & 128) << 8) | ((bits & 127) << 7)
    value = lax.bitcast_convert_type(bits.astype(np.int16), np.float16).astype(np.float32) * 256
    return xnp.where(xnp.abs(value) > 448, np.float32(np.nan), value).astype(dtype)


def _product(options: Options, target: Target, lhs: Any, rhs: Any, row_scales: Any, column_scales: Any) -> Any:
    rows, depth = lhs.shape
    columns = rhs.shape[0 if options.is_transposed else 1]
    m, n, k = (target.block(b, size) for b, size in zip(target.product(lhs.dtype.itemsize), (rows, columns, depth)))
    dtype = _operand_dtype(lhs, rhs)
    total = np.dtype(np.int32) if dtype == np.int8 else np.dtype(np.float32)
    dims = (1, 1 if options.is_transposed else 0)
    stored = lhs.dtype, rhs.dtype
    arrays = {"lhs": _float8_bits(target, lhs), "rhs": _float8_bits(target, rhs), "rows": row_scales, "columns": column_scales}
    blocks = {
        "lhs": Blocks((m, k), lambda i, j, part: (i, part), (1,)),
        "rhs": Blocks((n, k), lambda i, j, part: (j, part), (1,)) if options.is_transposed else
               Blocks((k, n), lambda i, j, part: (part, j), (0,)),
        "rows": Blocks((1, m), lambda i, j, part: (0, i)), "columns": Blocks((1, n), lambda i, j, part: (0, j))}
    names = [name for name, x in arrays.items() if x is not None]

    def step(at, carry, lhs, rhs, *_):
        left, right = (_converted(x, s, dtype) for x, s in zip((lhs, rhs), stored))
        return (carry[0] + dot(left, right, dims, total),)

    def finish(at, carry, *scales):
        result = carry[0].astype(np.float32)
        for name, scale in zip(names[2:], scales):
            result = result * (scale.reshape(-1, 1) if name == "rows" else scale)
        return (result,)

    kernel = Reduction(
        name="quantized_matmul", grid=(cdiv(rows, m), cdiv(columns, n)), steps=(cdiv(depth, k),), step=step, finish=finish,
        inputs=[blocks[name] for name in names], outputs=[Blocks((m, n), lambda i, j, part: (i, j))],
        carry=[((m, n), total, 0)])
    out = ShapedArray((rows, columns), np.dtype(options.dtype))
    return reduce_blocks(target, kernel, [arrays[name] for name in names], [out])[0]


@library(static=("options",), name="quantized_matmul")
def _product_kernel(lhs, rhs, row_scales, column_scales, options):
    return by_target(functools.partial(_product, options), options.target, lhs, rhs, row_scales, column_scales)


@functools.partial(custom_vjp, nondiff_argnums=(4,))
def multiply(lhs: Any, rhs: Any, row_scales: Any, column_scales: Any, options: Options) -> Any:
    """Return `lhs @ rhs`, with rows and columns multiplied by scales: float32 rows, or None."""
    return _product_kernel(lhs, rhs, row_scales, column_scales, options=options)


def _multiply_forward(lhs, rhs, row_scales, column_scales, options):
    out = _product_kernel(lhs, rhs, row_scales, column_scales, options=options)
    return out, (lhs, rhs, row_scales, column_scales, out)


def _multiply_backward(options, residuals, dout):
    lhs, rhs, row_scales, column_scales, out = residuals
    product = dout.astype(np.float32) * out.astype(np.float32)
    drows = None if row_scales is None else product.sum(1)[None] / row_scales
    dcolumns = None if column_scales is None else product.sum(0)[None] / column_scales
    if lhs.dtype.itemsize == 1:
        return None, None, drows, dcolumns
    scaled = (dout if column_scales is None else dout * column_scales).astype(lhs.dtype)
    back = Options(lhs.dtype.name, not options.is_transposed, options.target)
    return _product_kernel(scaled, rhs, row_scales, None, options=back), None, drows, dcolumns


multiply.defvjp(_multiply_forward, _multiply_backward)


def quantize(x: ArrayLike, dtype: DTypeLike = np.int8, *, axis: int = -1) -> tuple[Array, Array]:
    """Quantize an array to 8 bits, with a scale for each of its vectors along an axis: `values * scales` is near to `x`.

    Args:
        x: Array of floats.
        dtype: int8, float8_e4m3fn or float8_e5m2.
        axis: The axis whose elements share a scale: the axis that a product sums over.

    Returns:
        The values, and the scales in float32, without the axis.

    Example:
        >>> kernels.quantize(xnp.array([[1.0, -2.0], [0.0, 0.5]]))
        (Array([[  64, -127],
               [   0,  127]], dtype=int8), Array([0.01574803, 0.00393701], dtype=float32))
    """
    x, dtype = xnp.asarray(x), np.dtype(dtypes.canonicalize_dtype(dtype))
    if dtype.name not in _DTYPES:
        raise ValueError(f"kernels.quantize makes {', '.join(_DTYPES)}, got {dtype}.")
    largest = 127.0 if dtype == np.int8 else float(dtypes.finfo(dtype).max)
    peak = xnp.abs(x.astype(np.float32)).max(axis, keepdims=True)
    scales = xnp.where(peak > 0, peak / largest, 1)
    values = x.astype(np.float32) / scales
    values = (xnp.round(values) if dtype == np.int8 else values).clip(-largest, largest)
    return values.astype(dtype), xnp.squeeze(scales, axis)


def quantized_matmul(lhs: ArrayLike, rhs: ArrayLike, rhs_scales: ArrayLike, *, lhs_scales: ArrayLike | None = None,
                     preferred_element_type: DTypeLike | None = None) -> Array:
    """Multiply a matrix by one of int8 or fp8 values, as `quantize` makes them, and by the scales of its columns.

    With `lhs` in the same way, int8 values are multiplied as integers. With floats in `lhs`, the values of `rhs` are converted
    to their dtype in the kernel. Its derivatives are those with respect to floats: `lhs`, and the scales, which must not be 0.

    Args:
        lhs: Array of shape `(rows, depth)`: floats, or values of 8 bits.
        rhs: Array of values of 8 bits of shape `(depth, columns)`.
        rhs_scales: Array of shape `(columns,)`.
        lhs_scales: Array of shape `(rows,)`, for values of 8 bits in `lhs`.
        preferred_element_type: dtype of the result. Default: that of `lhs`, or float32 if it has values of 8 bits.

    Returns:
        Array of shape `(rows, columns)`.

    Example:
        >>> weights, scales = kernels.quantize(xnp.array([[1.0, 4.0], [3.0, 2.0]]), axis=0)
        >>> kernels.quantized_matmul(xnp.array([[1.0, 1.0]]), weights, scales).round(1)
        Array([[4., 6.]], dtype=float32)
    """
    lhs, rhs, rhs_scales = (xnp.asarray(x) for x in (lhs, rhs, rhs_scales))
    lhs_scales = None if lhs_scales is None else xnp.asarray(lhs_scales)
    if lhs.ndim != 2 or rhs.ndim != 2 or lhs.shape[1] != rhs.shape[0] or rhs_scales.shape != rhs.shape[1:] or (
            lhs_scales is not None and lhs_scales.shape != lhs.shape[:1]) or 0 in (lhs.size, rhs.size):
        raise ValueError(f"kernels.quantized_matmul got lhs {lhs.shape}, rhs {rhs.shape}, rhs_scales {rhs_scales.shape} and "
                         f"lhs_scales {None if lhs_scales is None else lhs_scales.shape}. The shapes must be (rows, depth), "
                         f"(depth, columns), (columns,) and (rows,).")
    is_quantized = lhs.dtype.name in _DTYPES
    if rhs.dtype.name not in _DTYPES or not (is_quantized or dtypes.is_float(lhs.dtype) and lhs.dtype.itemsize <= 4):
        raise ValueError(f"kernels.quantized_matmul needs rhs of {', '.join(_DTYPES)}, and lhs of these or of floats of at "
                         f"most 32 bits; got {lhs.dtype} and {rhs.dtype}. kernels.quantize makes such values.")
    dtype = dtypes.canonicalize_dtype(preferred_element_type or (np.float32 if is_quantized else lhs.dtype))
    rows = None if lhs_scales is None else lhs_scales.astype(np.float32)[None]
    return multiply(lhs, rhs, rows, rhs_scales.astype(np.float32)[None], Options(np.dtype(dtype).name))
