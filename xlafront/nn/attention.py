"""Scaled dot-product attention."""

from __future__ import annotations

from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront.core import errors
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax.barriers import stop_gradient
from xlafront.nn.functions import logsumexp, softmax
from xlafront.numpy.creation import arange
from xlafront.runtime import backends
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import is_symbolic_dim


def _attention_mask(query_length, key_length, is_causal, window, query_lengths, key_lengths):
    """Return the mask of the keys that each query attends to, a boolean array of rank 4, or None if it has no restriction."""
    rows, columns = (arange(n) if is_symbolic_dim(n) else np.arange(n) for n in (query_length, key_length))
    rows, columns = rows[:, None], columns[None, :]
    allowed = None
    if is_causal:
        allowed = rows >= columns
    if window is not None:
        left, right = window
        in_window = (columns >= rows - left) & (columns <= rows + right)
        allowed = in_window if allowed is None else allowed & in_window
    mask = None if allowed is None else xnp.asarray(allowed)[None, None]
    for lengths, positions in ((query_lengths, rows), (key_lengths, columns)):
        if lengths is not None:
            is_valid = xnp.asarray(positions)[None, None] < xnp.asarray(lengths)[:, None, None, None]
            mask = is_valid if mask is None else mask & is_valid
    return mask


@library(static=("scale", "is_causal", "window", "return_residual"), name="dot_product_attention")
def _attention(query, key, value, bias, mask, query_lengths, key_lengths, scale, is_causal, window, return_residual):
    batch, length, heads, width = query.shape
    shared, scores, average = key.shape[2], "bthd,bshd->bhts", "bhts,bshd->bthd"
    if shared < heads:  # groups of query heads share those of keys. Queries are transposed, since logits are larger.
        query = query.reshape(batch, length, shared, heads // shared, width).transpose(0, 2, 3, 1, 4)
        scores, average = "bkgtd,bskd->bkgts", "bkgts,bskd->btkgd"

    def by_group(x):
        """Split the heads of an array that broadcasts to (batch, heads, query length, key length) as those of the logits."""
        groups = ((1, 1) if x.shape[1] == 1 else (shared, heads // shared)) if shared < heads else x.shape[1:2]
        return x.reshape(x.shape[0], *groups, *x.shape[2:])

    logits = scale * xnp.einsum(scores, query, key, preferred_element_type=np.float32 if (
        query.dtype.itemsize < 4) else query.dtype)
    if bias is not None:
        logits = logits + by_group(bias).astype(logits.dtype)
    allowed = _attention_mask(length, key.shape[1], is_causal, window, query_lengths, key_lengths)
    for m in (mask, allowed):
        if m is not None:
            logits = xnp.where(by_group(m), logits, float(np.finfo(np.float32).min) * 0.7)
    weights = softmax(logits).astype(key.dtype)
    result = xnp.einsum(average, weights, value).reshape(batch, length, heads, value.shape[-1])
    if query_lengths is not None:
        is_valid = xnp.arange(length)[None, :, None, None] < xnp.asarray(query_lengths)[:, None, None, None]
        result = xnp.where(is_valid, result, 0)
    if return_residual:
        residual = logsumexp(logits, axis=-1).reshape(batch, heads, length)
        return result, stop_gradient(xnp.transpose(residual, (0, 2, 1)).astype(key.dtype))
    return result


def _flash_attention(query, key, value, bias, mask, query_lengths, key_lengths, scale, is_causal, window, return_residual):
    """Compute attention by `kernels.flash_attention`: masks are biases, and lengths are segments of what is not padding."""
    from xlafront.kernels.attention import MASKED, flash_attention  # start-up: few programs need it

    if mask is not None:
        masked = xnp.where(mask, 0, np.float32(MASKED))
        bias = masked if bias is None else xnp.where(mask, bias.astype(np.float32), np.float32(MASKED))
    segments = None
    if query_lengths is not None or key_lengths is not None:
        segments = [xnp.zeros((len(x), x.shape[1]), np.int32) if lengths is None else
                    padding * (xnp.arange(x.shape[1]) >= xnp.asarray(lengths)[:, None]).astype(np.int32)
                    for x, lengths, padding in ((query, query_lengths, 1), (key, key_lengths, 2))]
    result = flash_attention(query, key, value, bias, segment_ids=segments, is_causal=is_causal, local_window_size=window,
                             scale=scale, return_residual=return_residual)
    return (result[0], stop_gradient(result[1].astype(key.dtype))) if return_residual else result


def _check(query, key, value, lengths: dict) -> None:
    """Raise if shapes or dtypes do not match."""
    names = {"query": query, "key": key, "value": value}
    if key.ndim != 4 or query.ndim != 4 or query.shape[2] % key.shape[2] or value.shape != key.shape or (
            query.shape[0], query.shape[3]) != (key.shape[0], key.shape[3]):
        shapes = ", ".join(f"{name} {x.shape}" for name, x in names.items())
        raise ValueError(f"nn.dot_product_attention got {shapes}. The shape should be (batch, length, heads, width), key and "
                         f"value must have the same shape, and the number of query heads must be a multiple of theirs.")
    if query.dtype != key.dtype or value.dtype != key.dtype:
        dtypes = ", ".join(f"{name} {x.dtype}" for name, x in names.items())
        raise ValueError(f"nn.dot_product_attention needs query, key and value of the same dtype, got {dtypes}.")
    for name, x in lengths.items():
        if x is not None and (x.dtype != np.int32 or x.shape != key.shape[:1]):
            raise ValueError(f"{name} of nn.dot_product_attention must be int32 of shape {key.shape[:1]}, got {x.dtype} of "
                             f"shape {x.shape}.")


def _expand_to_logits(name: str, x, shape):
    """Expand a bias or mask to the rank of the logits, to which it must broadcast."""
    if x is None:
        return None
    x = xnp.asarray(x)
    full = (1,) * (len(shape) - x.ndim) + x.shape
    if len(full) != len(shape) or any(n not in (1, m) for n, m in zip(full, shape)):
        raise errors.incompatible_shapes("nn.dot_product_attention", [(name, x.shape), ("logits", shape)],
                                         "They must broadcast to (batch, heads, query length, key length).")
    return x.reshape(full)


def dot_product_attention(query: ArrayLike, key: ArrayLike, value: ArrayLike, bias: ArrayLike | None = None,
                          mask: ArrayLike | None = None, *, scale: float | None = None, is_causal: bool = False,
                          query_seq_lengths: ArrayLike | None = None, key_value_seq_lengths: ArrayLike | None = None,
                          local_window_size: int | tuple[int, int] | None = None, implementation: str | None = None,
                          return_residual: bool = False) -> Array | tuple[Array, Array]:
    """Compute scaled dot-product attention, `softmax(query @ key.T * scale + bias) @ value` for each head.

    Args:
        query: Queries of shape `(batch, length, heads, width)`, or without the batch.
        key, value: Keys and values of such a shape, with their own length. They may have fewer heads, each of which a group of
            query heads shares.
        bias: Array added to the logits, which broadcasts to shape `(batch, heads, query length, key length)`.
        mask: Boolean array that is True where a query attends to a key, which broadcasts to the same shape.
        scale: Factor of the logits. Default: `1 / sqrt(width)`.
        is_causal: If True, queries do not attend to later keys.
        query_seq_lengths: int32 array of the number of queries of each batch element that are not padding.
        key_value_seq_lengths: int32 array of the number of keys of each batch element that are not padding.
        local_window_size: Maximal distance of the keys that a query attends to, as an integer or `(left, right)`.
        implementation: "xla" (default), which stores the logits: memory grows with the product of the lengths. "flash" for
            `kernels.flash_attention`, which does not, on any platform; long sequences need it. "cudnn" for cuDNN's kernel on
            NVIDIA GPUs for float16 and bfloat16, which does not either; it raises where no such kernel exists.
        return_residual: If True, also return the log-sum-exp of the logits, in the dtype of the arrays and without derivatives.

    Returns:
        Array with the shape of `query`. With `return_residual`, a tuple of it and the log-sum-exp of shape
        `(batch, length, heads)`.

    Note:
        Queries without any key get the mean of all values with "xla", and zeros with "flash".

    Example:
        >>> x = xnp.ones((1, 3, 2, 4))
        >>> nn.dot_product_attention(x, x, x, is_causal=True).shape
        (1, 3, 2, 4)
    """
    query, key, value = (xnp.asarray(x) for x in (query, key, value))
    if implementation not in (None, "xla", "cudnn", "flash"):
        raise ValueError(f"nn.dot_product_attention: implementation must be 'xla', 'flash' or 'cudnn', got {implementation!r}.")
    if implementation == "cudnn" and backends.default_backend() != "gpu":
        raise RuntimeError(f"nn.dot_product_attention with implementation='cudnn' needs a GPU with cuDNN, but the platform is "
                           f"{backends.default_backend()!r}. Omit implementation.")
    unbatched = query.ndim == 3
    query, key, value = (x[None] if x.ndim == 3 else x for x in (query, key, value))
    lengths = {name: None if x is None else xnp.asarray(x) for name, x in (
        ("query_seq_lengths", query_seq_lengths), ("key_value_seq_lengths", key_value_seq_lengths))}
    _check(query, key, value, lengths)
    shape = (query.shape[0], query.shape[2], query.shape[1], key.shape[1])
    if mask is not None and xnp.asarray(mask).dtype != np.bool_:
        raise ValueError(f"the mask of nn.dot_product_attention must be boolean, got {xnp.asarray(mask).dtype}.")
    bias, mask = _expand_to_logits("bias", bias, shape), _expand_to_logits("mask", mask, shape)
    window = None
    if local_window_size is not None:
        window = (local_window_size,) * 2 if isinstance(local_window_size, int) else tuple(local_window_size)
    function: Any = _attention
    if implementation == "cudnn":
        from xlafront.nn.cudnn_attention import attention as function  # start-up: few programs need it
    elif implementation == "flash":
        function = _flash_attention
    result = function(query, key, value, bias, mask, *lengths.values(),
                      float(1 / np.sqrt(query.shape[-1]) if scale is None else scale), bool(is_causal), window,
                      bool(return_residual))
    if not unbatched:
        return result
    return (result[0][0], result[1][0]) if return_residual else result[0]
