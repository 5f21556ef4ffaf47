"""Attention under masks, of heads that share keys or do not, as what calls the kernel for TPUs of that name asks for it.

XLA computes it here, on any device: the sizes of blocks and the other settings of that kernel are taken, and change nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import xlafront.numpy as xnp
from xlafront.core import tree
from xlafront.core.typing import Array
from xlafront.nn.functions import logsumexp, softmax
from xlafront.nn.splash_masks import Mask, MultiHeadMask
from xlafront.runtime.sharding import NamedSharding, PartitionSpec
from xlafront.staging.library import library
from xlafront.transforms.ad.checkpoint import checkpoint_name

__all__ = ["DEFAULT_MASK_VALUE", "BlockSizes", "QKVLayout", "SegmentIds", "SplashAttentionKernel", "attention_reference",
           "make_attention_reference", "make_masked_mha_reference", "make_masked_mqa_reference", "make_splash_mha",
           "make_splash_mha_single_device", "make_splash_mqa", "make_splash_mqa_single_device"]

DEFAULT_MASK_VALUE = -0.7 * float(np.finfo(np.float32).max)


class SegmentIds(NamedTuple):
    """Which piece of a packed sequence each query and each key belongs to: queries see the keys of their own piece."""

    q: Array
    kv: Array


class QKVLayout(enum.IntEnum):
    """Which dimension of an operand is the minor one in the memory of a TPU."""

    HEAD_DIM_MINOR = enum.auto()
    SEQ_MINOR = enum.auto()


@dataclass(frozen=True)
class BlockSizes:
    """The sizes of the blocks by which a kernel for TPUs goes."""

    block_q: int
    block_kv: int
    block_kv_compute: int | None = None
    block_q_dkv: int | None = None
    block_kv_dkv: int | None = None
    block_kv_dkv_compute: int | None = None
    block_q_dq: int | None = None
    block_kv_dq: int | None = None
    use_fused_bwd_kernel: bool = False
    q_layout: QKVLayout = QKVLayout.HEAD_DIM_MINOR
    k_layout: QKVLayout = QKVLayout.HEAD_DIM_MINOR
    v_layout: QKVLayout = QKVLayout.HEAD_DIM_MINOR

    def __post_init__(self):
        for part, whole in (("block_kv_compute", "block_kv"), ("block_kv_dkv_compute", "block_kv_dkv")):
            if getattr(self, part) is None:
                object.__setattr__(self, part, getattr(self, whole))

    @property
    def has_backward_blocks(self) -> bool:
        """Are the sizes for the derivative given too?"""
        needed = [self.block_q_dkv, self.block_kv_dkv, self.block_kv_dkv_compute]
        if not self.use_fused_bwd_kernel:
            needed += [self.block_q_dq, self.block_kv_dq]
        return None not in needed

    @classmethod
    def get_default(cls) -> BlockSizes:
        """128 of each."""
        return cls(*[128] * 8)


@library(static=("mask_value", "cap", "residuals", "name"), name="splash_attention")
def _attention(mask, q, k, v, segments, sinks, mask_value, cap, residuals, name):
    """Of q[heads, queries, width], k and v[heads or fewer, keys, width], mask[heads or 1, queries, keys]."""
    heads, queries, width = q.shape
    grouped = q.reshape(len(k), heads // len(k), queries, width)
    logits = xnp.einsum("gntd,gsd->gnts", grouped, k, preferred_element_type=np.float32).reshape(heads, queries, -1)
    if cap is not None:
        logits = cap * xnp.tanh(logits / cap)
    if segments is not None:
        mask = mask & (segments.q[:, None] == segments.kv[None, :])
    logits = xnp.where(mask, logits, mask_value)
    if sinks is not None:  # a key of no value that every query sees
        own = xnp.broadcast_to(sinks.astype(np.float32)[:, None, None], (heads, queries, 1))
        logits = xnp.concatenate([logits, own], axis=-1)
    total = logsumexp(logits, axis=-1)
    weights = softmax(logits)[..., :v.shape[1]].reshape(len(k), heads // len(k), queries, -1)
    out = xnp.einsum("gnts,gsd->gntd", weights, v.astype(np.float32)).reshape(heads, queries, -1).astype(q.dtype)
    if name is not None:
        out, total = checkpoint_name(out, name), checkpoint_name(total, name)
    return (out, (total,)) if residuals else out


def _checked(mask, q, k, v, segments, sinks, is_mqa: bool) -> tuple:
    """The operands, of three dimensions each, when they belong together."""
    q, k, v = xnp.asarray(q), xnp.asarray(k), xnp.asarray(v)
    if is_mqa and k.ndim == 2:
        k, v = k[None], v[None]
    if q.ndim != 3 or k.ndim != 3 or v.ndim != 3:
        raise ValueError(f"attention takes q[heads, queries, width], and k and v[{'' if is_mqa else 'heads, '}keys, width], "
                         f"got shapes {q.shape}, {k.shape}, {v.shape}.")
    if k.shape[-1] != q.shape[-1] or k.shape[:2] != v.shape[:2]:
        raise ValueError(f"attention takes keys as wide as queries, and as many values as keys, got q{list(q.shape)}, "
                         f"k{list(k.shape)}, v{list(v.shape)}.")
    if q.shape[0] % k.shape[0]:
        raise ValueError("attention takes a number of heads of keys that divides that of queries, got "
                         f"{k.shape[0]} and {q.shape[0]}.")
    if tuple(mask.shape[1:]) != (q.shape[1], k.shape[1]) or mask.shape[0] not in (1, q.shape[0]):
        raise ValueError(f"attention got a mask of shape {tuple(mask.shape)} for q{list(q.shape)} and k{list(k.shape)}: it "
                         "must have a row for each query and a column for each key.")
    if segments is not None:
        for what, ids, length in (("q", segments.q, q.shape[1]), ("kv", segments.kv, k.shape[1])):
            if tuple(ids.shape) != (length,):
                raise ValueError(f"attention got segment_ids.{what} of shape {tuple(ids.shape)}: it must be ({length},).")
        segments = SegmentIds(xnp.asarray(segments.q), xnp.asarray(segments.kv))
    return mask, q, k, v, segments, None if sinks is None else xnp.asarray(sinks)


def _by_head(mask: Any) -> Any:
    """A mask as an array with a row for each head, or with one where all heads have the same."""
    if isinstance(mask, MultiHeadMask):
        return mask.masks[0][:, :][None] if len(set(mask.masks)) == 1 else mask[:]
    return mask


@tree.register_pytree_node_class
class SplashAttentionKernel:
    """A function of queries, keys and values, with the mask as a leaf: it can be passed to compiled functions."""

    def __init__(self, mask: Any, is_mqa: bool, **options: Any):
        self.mask, self.is_mqa, self.options = mask, is_mqa, options

    def __call__(self, q: Array, k: Array, v: Array, segment_ids: SegmentIds | None = None, sinks: Array | None = None) -> Any:
        return _attention(*_checked(self.mask, q, k, v, segment_ids, sinks, self.is_mqa), **self.options)

    def manual_sharding_spec(self, sharding: NamedSharding) -> SplashAttentionKernel:
        """What `shard_map` needs as the `in_specs` of this: queries, or heads and queries, split as `sharding` says."""
        spec = tuple(sharding.spec)
        if len(spec) != 2:
            raise ValueError(f"a mask of attention is split over heads and queries, got {sharding.spec}. "
                             "Use PartitionSpec(heads, queries).")
        of_mask = PartitionSpec(None if self.mask.shape[0] == 1 else spec[0], spec[1])
        return SplashAttentionKernel(of_mask, self.is_mqa, **self.options)

    def tree_flatten(self):
        return (self.mask,), (self.is_mqa, tuple(self.options.items()))

    @classmethod
    def tree_unflatten(cls, what, leaves):
        is_mqa, options = what
        return cls(leaves[0], is_mqa, **dict(options))


def _make(mask: Any, *, block_sizes: BlockSizes | None = None, is_mqa: bool, save_residuals: bool = False,
          mask_value: float = DEFAULT_MASK_VALUE, attn_logits_soft_cap: float | None = None, downcast_smem_data: bool = True,
          head_shards: int, q_seq_shards: int, residual_checkpoint_name: str | None = None, interpret: bool = False
          ) -> SplashAttentionKernel:
    if len(mask.shape) != 3:
        raise ValueError(f"attention takes a mask of shape (heads, queries, keys), got {tuple(mask.shape)}. Use MultiHeadMask.")
    heads, queries, _ = mask.shape
    for what, parts, size in (("head_shards", head_shards, heads), ("q_seq_shards", q_seq_shards, queries)):
        if size % parts:
            raise ValueError(f"{what}={parts} must divide {size}, of the mask's shape {tuple(mask.shape)}.")
    return SplashAttentionKernel(_by_head(mask), is_mqa, mask_value=mask_value, cap=attn_logits_soft_cap,
                                 residuals=save_residuals, name=residual_checkpoint_name)


def make_splash_mha(mask: np.ndarray | Array | MultiHeadMask, *, is_mqa: bool = False, head_shards: int, q_seq_shards: int,
                    **options: Any) -> SplashAttentionKernel:
    """Attention in which each head has keys of its own, or some heads share them: of q[heads, queries, width], k and v."""
    return _make(mask, is_mqa=is_mqa, head_shards=head_shards, q_seq_shards=q_seq_shards, **options)


def make_splash_mqa(mask: np.ndarray | Array | MultiHeadMask, *, is_mqa: bool = True, head_shards: int, q_seq_shards: int,
                    **options: Any) -> SplashAttentionKernel:
    """Attention in which all heads share the keys: of q[heads, queries, width], k and v[keys, width]."""
    return _make(mask, is_mqa=is_mqa, head_shards=head_shards, q_seq_shards=q_seq_shards, **options)


def make_splash_mha_single_device(mask: np.ndarray | Array | MultiHeadMask, *, is_mqa: bool = False, head_shards: int = 1,
                                  q_seq_shards: int = 1, **options: Any) -> SplashAttentionKernel:
    """As `make_splash_mha`, of what is not split."""
    return make_splash_mha(mask, is_mqa=is_mqa, head_shards=head_shards, q_seq_shards=q_seq_shards, **options)


def make_splash_mqa_single_device(mask: np.ndarray | Array | MultiHeadMask, *, is_mqa: bool = True, head_shards: int = 1,
                                  q_seq_shards: int = 1, **options: Any) -> SplashAttentionKernel:
    """As `make_splash_mqa`, of what is not split."""
    return make_splash_mqa(mask, is_mqa=is_mqa, head_shards=head_shards, q_seq_shards=q_seq_shards, **options)


def attention_reference(mask: Array, q: Array, k: Array, v: Array, segment_ids: SegmentIds | None, sinks: Array | None = None,
                        *, mask_value: float = DEFAULT_MASK_VALUE, save_residuals: bool = False, custom_type: str = "flash",
                        attn_logits_soft_cap: float | None = None) -> Any:
    """Attention of one head: of q[queries, width], k and v[keys, width]."""
    sinks = None if sinks is None else sinks[None]
    found = _attention(*_checked(mask[None], q[None], k[None], v[None], segment_ids, sinks, False), mask_value=mask_value,
                       cap=attn_logits_soft_cap, residuals=save_residuals, name=None)
    return tree.map(lambda x: x[0], found)


def make_attention_reference(mask: Mask | np.ndarray, is_mqa: bool, backward_impl: str = "vanilla", **params: Any) -> Callable:
    """A function of queries, keys and values, as the functions above make, that takes its options when it is called."""
    by_head = _by_head(mask)

    def attention(q, k, v, segment_ids=None, sinks=None, *, mask_value=DEFAULT_MASK_VALUE, save_residuals=False,
                  attn_logits_soft_cap=None):
        return _attention(*_checked(by_head, q, k, v, segment_ids, sinks, is_mqa), mask_value=mask_value,
                          cap=attn_logits_soft_cap, residuals=save_residuals, name=None)

    return attention


def make_masked_mha_reference(mask: Mask | np.ndarray, *, is_mqa: bool = False, backward_impl: str = "vanilla", **params: Any
                              ) -> Callable:
    """`make_attention_reference` of heads with keys of their own."""
    return make_attention_reference(mask, is_mqa, backward_impl, **params)


def make_masked_mqa_reference(mask: Mask | np.ndarray, *, is_mqa: bool = True, backward_impl: str = "vanilla", **params: Any
                              ) -> Callable:
    """`make_attention_reference` of heads that share their keys."""
    return make_attention_reference(mask, is_mqa, backward_impl, **params)
