"""Softmax cross-entropy of the logits `hidden @ weights`, which are computed by blocks of the vocabulary and not stored.

The loss is one kernel: products of matrices with an online softmax, of which each row needs only the log-sum-exp and the logit
of its label. The gradient goes over blocks of the vocabulary, and computes the logits of each again from the log-sum-exp, as in
Wijmans et al., "Cut Your Losses in Large-Vocabulary Language Models" (2024); its products are XLA's.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.control.cond import cond
from xlafront.control.while_loop import fori_loop
from xlafront.core import dtypes
from xlafront.core.avals import ShapedArray
from xlafront.core.typing import Array, ArrayLike
from xlafront.kernels.attention import MASKED
from xlafront.kernels.reduction import Blocks, Reduction, dot, reduce_blocks, row_of
from xlafront.kernels.targets import Target, by_target
from xlafront.pallas.kernel_functions import cdiv
from xlafront.staging.library import library
from xlafront.transforms.calls.custom_vjp import custom_vjp

COLUMNS = 2048  # of the vocabulary in a block of the gradient


def _forward(target: Target, hidden: Any, weights: Any, labels: Any) -> tuple:
    """Return the log-sum-exp of the logits, and the logits of the labels: rows."""
    (rows, depth), words = hidden.shape, weights.shape[1]
    sizes = target.product(hidden.dtype.itemsize)
    m, n, k = (target.block(b, size) for b, size in zip(sizes, (rows, words, depth)))
    grid, steps = (cdiv(rows, m),), (cdiv(words, n), cdiv(depth, k))
    dtype = np.dtype(np.float64) if hidden.dtype == np.float64 else np.dtype(np.float32)

    def add_block(j, labels, carry):
        logits, largest, total, chosen = carry
        columns = j * n + lax.broadcasted_iota(np.int32, (m, n), 1)
        masked = xnp.where(columns < words, logits, MASKED) if words % n else logits
        new = xnp.maximum(largest, masked.max(1, keepdims=True))
        total = xnp.exp(largest - new) * total + xnp.exp(masked - new).sum(1, keepdims=True)
        chosen = chosen + xnp.where(columns == labels.reshape(-1, 1), logits, 0).sum(1, keepdims=True)
        return xnp.zeros_like(logits), new, total, chosen

    def step(at, carry, hidden, weights, labels):
        _, j, part = at
        carry = (carry[0] + dot(hidden, weights, dtype=dtype), *carry[1:])
        if steps[1] == 1:
            return add_block(j, labels, carry)
        return cond(part == steps[1] - 1, lambda c: add_block(j, labels, c), lambda c: c, carry)

    def finish(at, carry, *_):
        _, largest, total, chosen = carry
        return row_of(target, largest + xnp.log(total)), row_of(target, chosen)

    column = Blocks((1, m), lambda i, j, part: (0, i))
    kernel = Reduction(
        name="softmax_cross_entropy", grid=grid, steps=steps, step=step, finish=finish, outputs=[column, column],
        inputs=[Blocks((m, k), lambda i, j, part: (i, part), (1,)), Blocks((k, n), lambda i, j, part: (part, j), (0, 1)),
                column],
        carry=[((m, n), dtype, 0), ((m, 1), dtype, MASKED), ((m, 1), dtype, 0), ((m, 1), dtype, 0)])
    row = ShapedArray((1, rows), dtype)
    return tuple(reduce_blocks(target, kernel, [hidden, weights, labels], [row, row]))


@library(static=("target",), name="softmax_cross_entropy")
def _loss(hidden, weights, labels, target):
    lse, chosen = by_target(_forward, target, hidden, weights, labels[None])
    return xnp.where(labels < 0, 0, lse[0] - chosen[0]), lse[0]


@library(name="softmax_cross_entropy_gradient")
def _gradient(hidden, weights, labels, lse, dloss, dlse):
    words = weights.shape[1]
    n = min(COLUMNS, words)
    dloss = xnp.where(labels < 0, 0, dloss)
    scale = dloss + dlse

    def add_block(i, carry):
        dhidden, dweights = carry
        start = xnp.minimum(i * n, words - n)  # the last block begins in the one before
        block = lax.dynamic_slice(weights, (0, start), (len(weights), n))
        columns = start + xnp.arange(n)
        weight = xnp.exp(dot(hidden, block, dtype=lse.dtype) - lse[:, None]) * scale[:, None]
        weight = (weight - xnp.where(columns == labels[:, None], dloss[:, None], 0)).astype(hidden.dtype)
        fresh = xnp.where(columns >= i * n, weight, xnp.zeros((), weight.dtype))
        dweights = lax.dynamic_update_slice(dweights, dot(hidden, weight, (0, 0), lse.dtype).astype(weights.dtype), (0, start))
        return dhidden + dot(fresh, block, (1, 1), lse.dtype), dweights

    dhidden, dweights = fori_loop(0, cdiv(words, n), add_block, (xnp.zeros(hidden.shape, lse.dtype), xnp.zeros_like(weights)))
    return dhidden.astype(hidden.dtype), dweights


@functools.partial(custom_vjp, nondiff_argnums=(3,))
def loss_of(hidden: Any, weights: Any, labels: Any, target: Target | None) -> tuple:
    """Return the loss of each row, and the log-sum-exp of its logits."""
    return _loss(hidden, weights, labels, target=target)


def _loss_forward(hidden, weights, labels, target):
    loss, lse = _loss(hidden, weights, labels, target=target)
    return (loss, lse), (hidden, weights, labels, lse)


def _loss_backward(target, residuals, cotangents):
    return *_gradient(*residuals, *cotangents), None


loss_of.defvjp(_loss_forward, _loss_backward)


def softmax_cross_entropy(hidden: ArrayLike, weights: ArrayLike, labels: ArrayLike, *, return_residual: bool = False
                          ) -> Array | tuple[Array, Array]:
    """Compute `-log_softmax(hidden @ weights)[label]` for each row, without storing the logits.

    The loss is one kernel. The gradient computes logits for 2,048 words at a time, so its memory does not grow with the
    vocabulary.

    Args:
        hidden: Array of shape `(..., width)`.
        weights: Array of shape `(width, words)`, of the dtype of `hidden`.
        labels: Integers of shape `(...)`; the loss of rows with a negative label is 0.
        return_residual: If True, also return the log-sum-exp of the logits, for example for a penalty on its size.

    Returns:
        Array of shape `(...)`, in float32 at least. With `return_residual`, a tuple of it and the log-sum-exp.

    Example:
        >>> loss = kernels.softmax_cross_entropy(xnp.zeros((2, 8)), xnp.ones((8, 100)), xnp.array([3, -1]))
        >>> loss.round(4)
        Array([4.6052, 0.    ], dtype=float32)
    """
    hidden, weights, labels = (xnp.asarray(x) for x in (hidden, weights, labels))
    if hidden.ndim < 1 or weights.ndim != 2 or hidden.shape[-1] != len(weights) or labels.shape != hidden.shape[:-1] or (
            0 in (hidden.size, weights.size)):
        raise ValueError(f"kernels.softmax_cross_entropy got hidden {hidden.shape}, weights {weights.shape} and labels "
                         f"{labels.shape}. The shapes must be (..., width), (width, words) and (...).")
    if hidden.dtype != weights.dtype or not dtypes.is_float(hidden.dtype) or not dtypes.is_integer(labels.dtype):
        raise ValueError(f"kernels.softmax_cross_entropy needs hidden and weights of one floating-point dtype, and labels of "
                         f"integers; got {hidden.dtype}, {weights.dtype} and {labels.dtype}. Convert them with astype.")
    loss, lse = loss_of(hidden.reshape(-1, hidden.shape[-1]), weights, labels.reshape(-1).astype(np.int32), None)
    return (loss.reshape(labels.shape), lse.reshape(labels.shape)) if return_residual else loss.reshape(labels.shape)
