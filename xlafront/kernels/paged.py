"""Attention of one query for each sequence to keys in pages, as in the decoding of language models (Kwon et al., 2023).

The page table and the lengths are scalars of the kernel: on TPUs they are prefetched, and pages are copied while others are
used.
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
from xlafront.kernels.attention import MASKED, softmax_carry, softmax_result, softmax_step
from xlafront.kernels.reduction import Blocks, Reduction, dot, reduce_blocks
from xlafront.kernels.targets import Target, by_target
from xlafront.staging.library import library


@dataclass(frozen=True)
class Options:
    """The static options: the factor of the products, their bound or None, and the compiler or None."""

    scale: float
    soft_cap: float | None = None
    target: Target | None = None

    def logits(self, products: Any) -> Any:
        """Return the logits of products of queries and keys."""
        x = products * self.scale
        return x if self.soft_cap is None else self.soft_cap * xnp.tanh(x / self.soft_cap)


def _forward(options: Options, target: Target, q: Any, k_pages: Any, v_pages: Any, lengths: Any, table: Any) -> Any:
    """Return the attention of queries of shape (batch, key heads, groups, width)."""
    batch, heads, groups, width = q.shape
    page, value_width = k_pages.shape[2], v_pages.shape[3]
    rows, columns = target.covering(groups), target.covering(page)
    k_width, v_width = target.covering(width), target.covering(value_width)

    def pages(width: int) -> Blocks:
        return Blocks((None, None, columns, width), lambda b, h, p, lengths, table: (h, table[b, p], 0, 0), (1,))

    def queries(width: int) -> Blocks:
        return Blocks((None, None, rows, width), lambda b, h, *_: (b, h, 0, 0))

    def step(at, carry, q, k, v):
        b, _, p, lengths, _ = at
        column = lax.broadcasted_iota(np.int32, (rows, columns), 1)
        mask = column < lengths[b] - p * page
        if columns > page:
            mask &= column < page
        return softmax_step(carry, options.logits(dot(q, k, (1, 1))), mask, v)

    kernel = Reduction(
        name="paged_attention", grid=(batch, heads), steps=(table.shape[1],), step=step,
        finish=lambda at, carry, *_: softmax_result(carry)[:1], inputs=[queries(k_width), pages(k_width), pages(v_width)],
        outputs=[queries(v_width)], carry=softmax_carry(rows, v_width, np.float32),
        bounds=lambda b, h, lengths, table: (0, lax.div(lengths[b] + (page - 1), np.int32(page))))
    return reduce_blocks(target, kernel, [q, k_pages, v_pages], [ShapedArray((batch, heads, groups, value_width), q.dtype)],
                         [lengths, table])[0]


def _gathered(options: Options, q: Any, k_pages: Any, v_pages: Any, lengths: Any, table: Any) -> Any:
    """Compute the same with the pages of each sequence side by side, which is faster where no kernel is compiled."""
    keys, values = (x[:, table].reshape(len(x), len(table), -1, x.shape[3]) for x in (k_pages, v_pages))
    logits = options.logits(xnp.einsum("bhgd,hbkd->bhgk", q, keys, preferred_element_type=np.float32))
    mask = (xnp.arange(keys.shape[2]) < lengths[:, None])[:, None, None]
    logits = xnp.where(mask, logits, MASKED)
    weights = xnp.where(mask, xnp.exp(logits - logits.max(-1, keepdims=True)), 0)
    total = weights.sum(-1, keepdims=True)
    sums = xnp.einsum("bhgk,hbkd->bhgd", weights, values.astype(np.float32), preferred_element_type=np.float32)
    return (sums / xnp.where(total == 0, 1, total)).astype(q.dtype)


@library(static=("options",), name="paged_attention")
def attend(q, k_pages, v_pages, lengths, table, options):
    """Compute attention for queries of shape (batch, key heads, groups, width)."""
    return by_target(functools.partial(_forward, options), options.target, q, k_pages, v_pages, lengths, table,
                     other=functools.partial(_gathered, options))


def paged_attention(query: ArrayLike, key_pages: ArrayLike, value_pages: ArrayLike, lengths: ArrayLike, page_indices: ArrayLike,
                    *, scale: float | None = None, soft_cap: float | None = None) -> Array:
    """Compute attention of one query of each sequence to its keys and values, which are in pages that sequences share.

    It is a kernel on TPUs and NVIDIA GPUs; on other platforms the pages are gathered first. It has no derivatives on TPUs and
    GPUs.

    Args:
        query: Array of shape `(batch, heads, width)`.
        key_pages, value_pages: Arrays of shape `(key heads, pages, page size, width)`; the heads of queries are a multiple of
            theirs. On TPUs pages of 128 keys and more are fast.
        lengths: int32 array of shape `(batch,)`: the number of keys of each sequence.
        page_indices: int32 array of shape `(batch, pages per sequence)`: the pages of each sequence. Entries beyond its length
            must be valid pages, too, and are not read.
        scale: Factor of the products of queries and keys. Default: `1 / sqrt(width)`.
        soft_cap: Bound of these products: they become `soft_cap * tanh(x / soft_cap)`.

    Returns:
        Array of shape `(batch, heads, width)`; zeros for sequences of length 0.

    Example:
        >>> pages = xnp.arange(6.0).reshape(1, 3, 2, 1)
        >>> kernels.paged_attention(xnp.zeros((1, 1, 1)), pages, pages, xnp.array([3]), xnp.array([[2, 0]]))
        Array([[[3.]]], dtype=float32)
    """
    query, key_pages, value_pages, lengths, table = (
        xnp.asarray(x) for x in (query, key_pages, value_pages, lengths, page_indices))
    are_pages = key_pages.ndim == value_pages.ndim == 4 and key_pages.shape[:3] == value_pages.shape[:3] and key_pages.size
    are_queries = query.ndim == 3 and query.size and (lengths.shape, table.shape[:1], table.ndim) == (
        query.shape[:1], query.shape[:1], 2)
    if not (are_pages and are_queries and value_pages.size and table.size and query.shape[2] == key_pages.shape[3]
            and query.shape[1] % len(key_pages) == 0):
        raise ValueError(f"kernels.paged_attention got query {query.shape}, key_pages {key_pages.shape}, value_pages "
                         f"{value_pages.shape}, lengths {lengths.shape} and page_indices {table.shape}. The shapes must be "
                         f"(batch, heads, width), (key heads, pages, page size, width) twice, (batch,) and (batch, pages per "
                         f"sequence).")
    if not dtypes.is_integer(lengths.dtype) or not dtypes.is_integer(table.dtype):
        raise ValueError(f"kernels.paged_attention needs integers in lengths and page_indices, got {lengths.dtype} and "
                         f"{table.dtype}. Convert them with astype.")
    batch, heads, width = query.shape
    options = Options(float(width ** -0.5 if scale is None else scale), None if soft_cap is None else float(soft_cap))
    grouped = query.reshape(batch, len(key_pages), -1, width)
    result = attend(grouped, key_pages, value_pages, lengths.astype(np.int32), table.astype(np.int32), options=options)
    return result.reshape(batch, heads, -1)
