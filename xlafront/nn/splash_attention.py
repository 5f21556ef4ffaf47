"""Masked attention with the interface of the "splash attention" TPU kernel: multi-head, grouped-query or multi-query.

XLA computes it on any device. Block sizes and other settings of the kernel are accepted and ignored.
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
from xlafront.transforms.calls.checkpoint import checkpoint_name

__all__ = ["DEFAULT_MASK_VALUE", "BlockSizes", "QKVLayout", "SegmentIds", "SplashAttentionKernel", "attention_reference",
           "make_attention_reference", "make_masked_mha_reference", "make_masked_mqa_reference", "make_splash_mha",
           "make_splash_mha_single_device", "make_splash_mqa", "make_splash_mqa_single_device"]

DEFAULT_MASK_VALUE = -0.7 * float(np.finfo(np.float32).max)


class SegmentIds(NamedTuple):
    """Segment of a packed sequence to which each query and each key belongs.

    Queries attend to keys of their own segment only.
    """

    q: Array
    kv: Array


class QKVLayout(enum.IntEnum):
    """The minor dimension of an operand in TPU memory."""

    HEAD_DIM_MINOR = enum.auto()
    SEQ_MINOR = enum.auto()


@dataclass(frozen=True)
class BlockSizes:
    """Block sizes of the TPU kernel."""

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
        for field, default_field in (("block_kv_compute", "block_kv"), ("block_kv_dkv_compute", "block_kv_dkv")):
            if getattr(self, field) is None:
                object.__setattr__(self, field, getattr(self, default_field))

    @property
    def has_backward_blocks(self) -> bool:
        """True if the sizes for the backward pass are given."""
        needed = [self.block_q_dkv, self.block_kv_dkv, self.block_kv_dkv_compute]
        if not self.use_fused_bwd_kernel:
            needed += [self.block_q_dq, self.block_kv_dq]
        return None not in needed

    @classmethod
    def get_default(cls) -> BlockSizes:
        """Return block sizes of 128."""
        return cls(*[128] * 8)


@library(static=("mask_value", "cap", "residuals", "name"), name="splash_attention")
def _attention(mask, q, k, v, segments, sinks, mask_value, cap, residuals, name):
    """Compute masked attention.

    Args:
        mask: Of shape (heads or 1, queries, keys).
        q: Of shape (heads, queries, width).
        k, v: Of shape (heads or fewer, keys, width).
    """
    heads, queries, width = q.shape
    grouped = q.reshape(len(k), heads // len(k), queries, width)
    logits = xnp.einsum("gntd,gsd->gnts", grouped, k, preferred_element_type=np.float32).reshape(heads, queries, -1)
    if cap is not None:
        logits = cap * xnp.tanh(logits / cap)
    if segments is not None:
        mask = mask & (segments.q[:, None] == segments.kv[None, :])
    logits = xnp.where(mask, logits, mask_value)
    if sinks is not None:  # Attention sink: a key without a value that every query attends to.
        sink_logits = xnp.broadcast_to(sinks.astype(np.float32)[:, None, None], (heads, queries, 1))
        logits = xnp.concatenate([logits, sink_logits], axis=-1)
    total = logsumexp(logits, axis=-1)
    weights = softmax(logits)[..., :v.shape[1]].reshape(len(k), heads // len(k), queries, -1)
    out = xnp.einsum("gnts,gsd->gntd", weights, v.astype(np.float32)).reshape(heads, queries, -1).astype(q.dtype)
    if name is not None:
        out, total = checkpoint_name(out, name), checkpoint_name(total, name)
    return (out, (total,)) if residuals else out


def _check_operands(mask, q, k, v, segments, sinks, is_mqa: bool) -> tuple:
    """Return the operands with three dimensions each, or raise if their shapes do not match."""
    q, k, v = xnp.asarray(q), xnp.asarray(k), xnp.asarray(v)
    if is_mqa and k.ndim == 2:
        k, v = k[None], v[None]
    if q.ndim != 3 or k.ndim != 3 or v.ndim != 3:
        raise ValueError(f"attention takes q[heads, queries, width] and k and v[{'' if is_mqa else 'heads, '}keys, width], "
                         f"got shapes {q.shape}, {k.shape}, {v.shape}.")
    if k.shape[-1] != q.shape[-1] or k.shape[:2] != v.shape[:2]:
        raise ValueError(f"attention needs keys as wide as queries, and as many values as keys, got q{list(q.shape)}, "
                         f"k{list(k.shape)}, v{list(v.shape)}.")
    if q.shape[0] % k.shape[0]:
        raise ValueError("attention needs a number of key heads that divides the number of query heads, got "
                         f"{k.shape[0]} and {q.shape[0]}.")
    if tuple(mask.shape[1:]) != (q.shape[1], k.shape[1]) or mask.shape[0] not in (1, q.shape[0]):
        raise ValueError(f"attention got a mask of shape {tuple(mask.shape)} for q{list(q.shape)} and k{list(k.shape)}: it "
                         "must have a row for each query and a column for each key.")
    if segments is not None:
        for name, ids, length in (("q", segments.q, q.shape[1]), ("kv", segments.kv, k.shape[1])):
            if tuple(ids.shape) != (length,):
                raise ValueError(f"attention got segment_ids.{name} of shape {tuple(ids.shape)}: it must be ({length},).")
        segments = SegmentIds(xnp.asarray(segments.q), xnp.asarray(segments.kv))
    return mask, q, k, v, segments, None if sinks is None else xnp.asarray(sinks)


def _mask_array(mask: Any) -> Any:
    """Return a mask as an array with an entry for each head, or with one entry if all heads have the same mask."""
    if isinstance(mask, MultiHeadMask):
        return mask.masks[0][:, :][None] if len(set(mask.masks)) == 1 else mask[:]
    return mask


@tree.register_pytree_node_class
class SplashAttentionKernel:
    """A function of queries, keys and values whose mask is a pytree leaf, so that it can be an argument of jitted functions."""

    def __init__(self, mask: Any, is_mqa: bool, **options: Any):
        self.mask, self.is_mqa, self.options = mask, is_mqa, options

    def __call__(self, q: Array, k: Array, v: Array, segment_ids: SegmentIds | None = None, sinks: Array | None = None) -> Any:
        return _attention(*_check_operands(self.mask, q, k, v, segment_ids, sinks, self.is_mqa), **self.options)

    def manual_sharding_spec(self, sharding: NamedSharding) -> SplashAttentionKernel:
        """Return the `in_specs` of this kernel for `shard_map`.

        The mask is sharded by `sharding` over heads and queries, or over queries if all heads share it.
        """
        spec = tuple(sharding.spec)
        if len(spec) != 2:
            raise ValueError(f"an attention mask is sharded over heads and queries, got {sharding.spec}. "
                             "Use PartitionSpec(heads, queries).")
        mask_spec = PartitionSpec(None if self.mask.shape[0] == 1 else spec[0], spec[1])
        return SplashAttentionKernel(mask_spec, self.is_mqa, **self.options)

    def tree_flatten(self):
        return (self.mask,), (self.is_mqa, tuple(self.options.items()))

    @classmethod
    def tree_unflatten(cls, aux_data, leaves):
        is_mqa, options = aux_data
        return cls(leaves[0], is_mqa, **dict(options))


def _make(mask: Any, *, block_sizes: BlockSizes | None = None, is_mqa: bool, save_residuals: bool = False,
          mask_value: float = DEFAULT_MASK_VALUE, attn_logits_soft_cap: float | None = None, downcast_smem_data: bool = True,
          head_shards: int, q_seq_shards: int, residual_checkpoint_name: str | None = None, interpret: bool = False
          ) -> SplashAttentionKernel:
    if len(mask.shape) != 3:
        raise ValueError(f"attention takes a mask of shape (heads, queries, keys), got {tuple(mask.shape)}. Use MultiHeadMask.")
    heads, queries, _ = mask.shape
    for name, shards, size in (("head_shards", head_shards, heads), ("q_seq_shards", q_seq_shards, queries)):
        if size % shards:
            raise ValueError(f"{name}={shards} must divide {size} in the mask's shape {tuple(mask.shape)}.")
    return SplashAttentionKernel(_mask_array(mask), is_mqa, mask_value=mask_value, cap=attn_logits_soft_cap,
                                 residuals=save_residuals, name=residual_checkpoint_name)


def make_splash_mha(mask: np.ndarray | Array | MultiHeadMask, *, is_mqa: bool = False, head_shards: int, q_seq_shards: int,
                    **options: Any) -> SplashAttentionKernel:
    """Make multi-head attention of q[heads, queries, width] to k and v, whose heads may be shared by groups of query heads."""
    return _make(mask, is_mqa=is_mqa, head_shards=head_shards, q_seq_shards=q_seq_shards, **options)


def make_splash_mqa(mask: np.ndarray | Array | MultiHeadMask, *, is_mqa: bool = True, head_shards: int, q_seq_shards: int,
                    **options: Any) -> SplashAttentionKernel:
    """Make multi-query attention, in which all heads share the keys: of q[heads, queries, width] to k and v[keys, width]."""
    return _make(mask, is_mqa=is_mqa, head_shards=head_shards, q_seq_shards=q_seq_shards, **options)


def make_splash_mha_single_device(mask: np.ndarray | Array | MultiHeadMask, *, is_mqa: bool = False, head_shards: int = 1,
                                  q_seq_shards: int = 1, **options: Any) -> SplashAttentionKernel:
    """Make `make_splash_mha` attention without sharding."""
    return make_splash_mha(mask, is_mqa=is_mqa, head_shards=head_shards, q_seq_shards=q_seq_shards, **options)


def make_splash_mqa_single_device(mask: np.ndarray | Array | MultiHeadMask, *, is_mqa: bool = True, head_shards: int = 1,
                                  q_seq_shards: int = 1, **options: Any) -> SplashAttentionKernel:
    """Make `make_splash_mqa` attention without sharding."""
    return make_splash_mqa(mask, is_mqa=is_mqa, head_shards=head_shards, q_seq_shards=q_seq_shards, **options)


def attention_reference(mask: Array, q: Array, k: Array, v: Array, segment_ids: SegmentIds | None, sinks: Array | None = None,
                        *, mask_value: float = DEFAULT_MASK_VALUE, save_residuals: bool = False, custom_type: str = "flash",
                        attn_logits_soft_cap: float | None = None) -> Any:
    """Compute attention of one head: of q[queries, width] to k and v[keys, width]."""
    sinks = None if sinks is None else sinks[None]
    operands = _check_operands(mask[None], q[None], k[None], v[None], segment_ids, sinks, False)
    result = _attention(*operands, mask_value=mask_value, cap=attn_logits_soft_cap, residuals=save_residuals,
                        name=None)
    return tree.map(lambda x: x[0], result)


def make_attention_reference(mask: Mask | np.ndarray, is_mqa: bool, backward_impl: str = "vanilla", **params: Any) -> Callable:
    """Make a function of queries, keys and values like the kernels above that takes its options at the call."""
    mask_array = _mask_array(mask)

    def attention(q, k, v, segment_ids=None, sinks=None, *, mask_value=DEFAULT_MASK_VALUE, save_residuals=False,
                  attn_logits_soft_cap=None):
        return _attention(*_check_operands(mask_array, q, k, v, segment_ids, sinks, is_mqa), mask_value=mask_value,
                          cap=attn_logits_soft_cap, residuals=save_residuals, name=None)

    return attention


def make_masked_mha_reference(mask: Mask | np.ndarray, *, is_mqa: bool = False, backward_impl: str = "vanilla", **params: Any
                              ) -> Callable:
    """Make a `make_attention_reference` function in which each head has its own keys."""
    return make_attention_reference(mask, is_mqa, backward_impl, **params)


def make_masked_mqa_reference(mask: Mask | np.ndarray, *, is_mqa: bool = True, backward_impl: str = "vanilla", **params: Any
                              ) -> Callable:
    """Make a `make_attention_reference` function in which all heads share the keys."""
    return make_attention_reference(mask, is_mqa, backward_impl, **params)
