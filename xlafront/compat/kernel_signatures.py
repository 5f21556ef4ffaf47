"""The kernels of `xlafront.kernels` with the signatures of those in JAX's `pallas.ops`.

Block sizes and other settings of JAX's kernels are accepted and ignored: ours come from a table by chip.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import xlafront.numpy as xnp
from xlafront.core.typing import Array, DTypeLike
from xlafront.kernels import attention, grouped_products, norms, paged
from xlafront.nn import functions, splash_masks
from xlafront.pallas import masked


class OptLevel(enum.StrEnum):
    """A level of optimization, for `opt_level` of `pltpu.CompilerParams`."""

    O0, O1, O2, O3 = "O0", "O1", "O2", "O3"


class SegmentIds(NamedTuple):
    """Segments of queries and of keys, arrays of shape (batch, length)."""

    q: Array
    kv: Array


class MaskInfo(NamedTuple):
    """The blocks of a mask, as kernels of libraries name their arguments: by block of the grid, the next block of keys and of
    the mask, whether the block is masked in part, and these blocks; or the positions of queries."""

    data_next: Any
    mask_next: Any
    block_mask: Any
    partial_mask_blocks: Any
    q_sequence: Any
    is_dynamic_mask: bool | None = None


@dataclasses.dataclass(frozen=True)
class BlockSizes:
    """Block sizes of JAX's flash attention for TPUs."""

    block_q: int
    block_k_major: int
    block_k: int
    block_b: int
    block_q_major_dkv: int | None = None
    block_k_major_dkv: int | None = None
    block_k_dkv: int | None = None
    block_q_dkv: int | None = None
    block_k_major_dq: int | None = None
    block_k_dq: int | None = None
    block_q_dq: int | None = None


class _ComputableMask(splash_masks._PositionalMask):
    """An attention mask computed by a function of the positions of queries and keys, for masks of libraries."""

    def __init__(self, shape: tuple[int, int], mask_function: Callable[..., Any], shard_count: int = 1):
        super().__init__(shape, shard_count)
        self.mask_function, self.q_sequence = mask_function, np.arange(shape[0], dtype=np.int32)

    def _allows(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return self.mask_function(rows, columns)

    def _key(self) -> tuple:
        return self._shape, self.mask_function


def flash_attention(q: Array, k: Array, v: Array, ab: Array | None = None, segment_ids: SegmentIds | None = None, *,
                    causal: bool = False, sm_scale: float = 1.0, block_sizes: BlockSizes | None = None, debug: bool = False
                    ) -> Array:
    """Compute `kernels.flash_attention` of arrays of shape (batch, heads, length, width)."""
    q, k, v = (xnp.swapaxes(x, 1, 2) for x in (q, k, v))
    segments = None if segment_ids is None else (segment_ids.q, segment_ids.kv)
    result: Any = attention.flash_attention(q, k, v, ab, segment_ids=segments, is_causal=causal, scale=sm_scale)
    return xnp.swapaxes(result, 1, 2)


def paged_attention(q: Array, k_pages: Array, v_pages: Array, lengths: Array, page_indices: Array, *,
                    mask_value: float = attention.MASKED, attn_logits_soft_cap: float | None = None,
                    pages_per_compute_block: int, megacore_mode: str | None = None, inline_seq_dim: bool = True) -> Array:
    """Compute `kernels.paged_attention` of queries that are scaled."""
    return paged.paged_attention(q, k_pages, v_pages, lengths, page_indices, scale=1.0, soft_cap=attn_logits_soft_cap)


def gmm(lhs: Array, rhs: Array, group_sizes: Array, preferred_element_type: DTypeLike = np.float32,
        tiling: tuple[int, int, int] | Callable | None = (128, 128, 128), group_offset: Array | None = None,
        existing_out: Array | None = None, transpose_rhs: bool = False, interpret: bool = False) -> Array:
    """Compute `kernels.grouped_matmul`; rows of no group in `rhs` keep the values of `existing_out`."""
    first_group = 0 if group_offset is None else group_offset
    out = grouped_products.grouped_matmul(lhs, rhs, group_sizes, preferred_element_type=preferred_element_type,
                                          transpose_rhs=transpose_rhs, group_offset=first_group)
    if existing_out is None:
        return out
    offsets, rows = grouped_products.group_offsets(xnp.asarray(group_sizes), first_group, len(rhs)), xnp.arange(len(lhs))
    return xnp.where(((rows >= offsets[0]) & (rows < offsets[-1]))[:, None], out, existing_out)


def mha(q: Array, k: Array, v: Array, segment_ids: Array | None, sm_scale: float = 1.0, causal: bool = False,
        block_sizes: Any = None, backward_pass_impl: str = "triton", num_warps: int | None = None, num_stages: int = 2,
        grid: tuple[int, ...] | None = None, interpret: bool = False, debug: bool = False) -> Array:
    """Compute `kernels.flash_attention`, with the same segments for queries and keys."""
    segments = None if segment_ids is None else (segment_ids, segment_ids)
    result: Any = attention.flash_attention(q, k, v, segment_ids=segments, is_causal=causal, scale=sm_scale)
    return result


def layer_norm(x: Array, weight: Array, bias: Array, num_warps: int | None = None, num_stages: int | None = 3,
               eps: float = 1e-5, backward_pass_impl: str = "triton", interpret: bool = False) -> Array:
    """Compute `kernels.layer_norm`."""
    return norms.layer_norm(x, weight, bias, epsilon=eps)


def rms_norm(x: Array, weight: Array, bias: Array, num_warps: int | None = None, num_stages: int | None = 3,
             eps: float = 1e-5, backward_pass_impl: str = "triton", interpret: bool = False) -> Array:
    """Compute `kernels.rms_norm`."""
    return norms.rms_norm(x, weight, bias, epsilon=eps)


def softmax(x: Array, *, axis: int = -1, num_warps: int = 4, interpret: bool = False, debug: bool = False) -> Array:
    """Compute `nn.softmax`."""
    return functions.softmax(x, axis=axis)


def load(x_ref_or_view: Any, idx: Any, *, mask: Any = None, other: Any = None, cache_modifier: str | None = None,
         eviction_policy: str | None = None, volatile: bool = False) -> Any:
    """Read elements of a reference in a kernel, as `pallas.triton.load` of `ref.at[idx]`."""
    return masked.load(x_ref_or_view.at[idx], mask, other, cache_modifier, eviction_policy, volatile)


def store(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None, eviction_policy: str | None = None) -> None:
    """Write elements of a reference in a kernel, as `pallas.triton.store` to `ref.at[idx]`."""
    masked.store(x_ref_or_view.at[idx], val, mask, eviction_policy)
