"""RMS norm and layer norm over the last dimension, each pass of which reads its operands once.

Root mean square layer normalization is by Zhang and Sennrich (2019), layer normalization by Ba, Kiros and Hinton (2016).
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
from xlafront.core.typing import Array, ArrayLike
from xlafront.kernels.reduction import Blocks, Reduction, reduce_blocks
from xlafront.kernels.targets import Target, by_target
from xlafront.pallas.kernel_functions import cdiv
from xlafront.staging.library import library
from xlafront.transforms.calls.custom_vjp import custom_vjp


@dataclass(frozen=True)
class Options:
    """The static options of a norm.

    Args:
        epsilon: Number that is added to the mean of squares.
        is_centered: True if the mean is subtracted first.
        target: The compiler; None for that of the platform.
    """

    epsilon: float
    is_centered: bool
    target: Target | None = None


class _Rows:
    """The blocks of rows of matrices of one shape."""

    def __init__(self, target: Target, x: Any):
        self.rows, self.width = x.shape
        self.columns = target.covering(self.width)
        self.block = target.rows(self.columns, self.rows)
        self.count = cdiv(self.rows, self.block)
        self.num_warps = max(4, min(16, self.block * self.columns >> 10))
        self.dtype = np.dtype(np.float64) if x.dtype == np.float64 else np.dtype(np.float32)
        self.matrix = Blocks((self.block, self.columns), lambda i: (i, 0))
        self.vector = Blocks((1, self.columns), lambda i: (0, 0))

    def normalized(self, x: Any, options: Options) -> tuple[Any, Any]:
        """Return the normalized rows of a block, and the factors that scaled them, a column."""
        x = x.astype(self.dtype)
        if options.is_centered:
            x = x - x.sum(1, keepdims=True) / self.width
            if self.columns != self.width:
                x = xnp.where(lax.broadcasted_iota(np.int32, x.shape, 1) < self.width, x, 0)
        factor = lax.rsqrt((x * x).sum(1, keepdims=True) / self.width + options.epsilon)
        return x * factor, factor


def _forward(options: Options, target: Target, x: Any, weight: Any, bias: Any) -> Any:
    rows = _Rows(target, x)
    arrays = [x, *[v for v in (weight, bias) if v is not None]]

    def step(at, _, x, *vectors):
        y, _ = rows.normalized(x, options)
        vectors = iter([v.astype(rows.dtype) for v in vectors])
        if weight is not None:
            y = y * next(vectors)
        return (y if bias is None else y + next(vectors),)

    kernel = Reduction(
        name="layer_norm" if options.is_centered else "rms_norm", grid=(rows.count,), step=step,
        inputs=[rows.matrix, *[rows.vector] * (len(arrays) - 1)], outputs=[rows.matrix], finish=lambda at, carry, *_: carry,
        num_warps=rows.num_warps)
    return reduce_blocks(target, kernel, arrays, [ShapedArray(x.shape, x.dtype)])[0]


def _backward(options: Options, target: Target, x: Any, weight: Any, dy: Any) -> tuple:
    """Return the gradient of `x`, and for each block of rows the sums that the gradients of weight and bias add up."""
    rows = _Rows(target, x)
    arrays = [x, dy] if weight is None else [x, dy, weight]

    def step(at, _, x, dy, *weights):
        y, factor = rows.normalized(x, options)
        dy = dy.astype(rows.dtype)
        g = dy * weights[0].astype(rows.dtype) if weights else dy
        mean = g.sum(1, keepdims=True) / rows.width if options.is_centered else 0
        dx = (g - mean - y * ((g * y).sum(1, keepdims=True) / rows.width)) * factor
        return dx, (dy * y).sum(0, keepdims=True), dy.sum(0, keepdims=True)

    sums = Blocks((None, 1, rows.columns), lambda i: (i, 0, 0))
    kernel = Reduction(
        name="layer_norm_gradient" if options.is_centered else "rms_norm_gradient", grid=(rows.count,), step=step,
        inputs=[rows.matrix, rows.matrix, rows.vector][:len(arrays)], outputs=[rows.matrix, sums, sums],
        finish=lambda at, carry, *_: carry, num_warps=rows.num_warps)
    partial = ShapedArray((rows.count, 1, rows.width), rows.dtype)
    return tuple(reduce_blocks(target, kernel, arrays, [ShapedArray(x.shape, x.dtype), partial, partial]))


# The differentiable function


@library(static=("options",), name="norm")
def _norm(x, weight, bias, options):
    return by_target(functools.partial(_forward, options), options.target, x, weight, bias)


@library(static=("options",), name="norm_gradient")
def _norm_gradient(x, weight, dy, options):
    def run(target: Target, *arrays: Any) -> tuple:
        dx, dweight, dbias = _backward(options, target, *arrays)
        return dx, dweight.sum(0), dbias.sum(0)  # here, since targets have different numbers of blocks

    return by_target(run, options.target, x, weight, dy)


@functools.partial(custom_vjp, nondiff_argnums=(3,))
def normalize(x: Any, weight: Any, bias: Any, options: Options) -> Any:
    """Normalize the rows of a matrix, and multiply by the row `weight` and add the row `bias`, where they are not None."""
    return _norm(x, weight, bias, options=options)


def _normalize_backward(options, residuals, dy):
    x, weight, bias = residuals
    dx, dweight, dbias = _norm_gradient(x, weight, dy, options=options)
    return (dx, None if weight is None else dweight.astype(weight.dtype),
            None if bias is None else dbias.astype(bias.dtype))


normalize.defvjp(lambda x, weight, bias, options: (_norm(x, weight, bias, options=options), (x, weight, bias)),
                 _normalize_backward)


# The public functions


def rms_norm(x: ArrayLike, weight: ArrayLike | None = None, bias: ArrayLike | None = None, *, epsilon: float = 1e-6) -> Array:
    """Divide by the root of the mean of squares over the last dimension, in one kernel.

    It computes in float32. Its gradient is one kernel, which computes the norm again. Memory of a core must hold some rows:
    32,768 elements or so on GPUs.

    Args:
        x: Array to normalize.
        weight: Array of the last dimension's size by which the result is multiplied. Default: ones.
        bias: Array of this size that is added. Default: zeros.
        epsilon: Number that is added to the mean of squares.

    Returns:
        Array of the shape and dtype of `x`.

    Example:
        >>> kernels.rms_norm(xnp.array([[1.0, -1.0]]), epsilon=0.0)
        Array([[ 1., -1.]], dtype=float32)
    """
    return _on_rows("rms_norm", x, weight, bias, Options(float(epsilon), False))


def layer_norm(x: ArrayLike, weight: ArrayLike | None = None, bias: ArrayLike | None = None, *, epsilon: float = 1e-5) -> Array:
    """Subtract the mean over the last dimension, and divide by the standard deviation, in one kernel.

    It computes in float32. Its gradient is one kernel, which computes the norm again. Memory of a core must hold some rows:
    32,768 elements or so on GPUs.

    Args:
        x: Array to normalize.
        weight: Array of the last dimension's size by which the result is multiplied. Default: ones.
        bias: Array of this size that is added. Default: zeros.
        epsilon: Number that is added to the variance.

    Returns:
        Array of the shape and dtype of `x`.

    Example:
        >>> kernels.layer_norm(xnp.array([[1.0, 3.0]]), epsilon=0.0)
        Array([[-1.,  1.]], dtype=float32)
    """
    return _on_rows("layer_norm", x, weight, bias, Options(float(epsilon), True))


def _on_rows(name: str, x: Any, weight: Any, bias: Any, options: Options) -> Any:
    x = xnp.asarray(x)
    if not x.ndim or not x.size or not dtypes.is_float(x.dtype):
        raise ValueError(f"kernels.{name} needs an array of floats with elements, got {x.dtype} of shape {x.shape}.")
    vectors = []
    for label, v in (("weight", weight), ("bias", bias)):
        v = None if v is None else xnp.asarray(v)
        if v is not None and v.shape != x.shape[-1:]:
            raise ValueError(f"kernels.{name} got x of shape {x.shape} and {label} of shape {v.shape}: it must be "
                             f"{x.shape[-1:]}.")
        vectors.append(None if v is None else v[None])
    return normalize(x.reshape(-1, x.shape[-1]), *vectors, options).reshape(x.shape)
