"""Attention by cuDNN: one kernel on NVIDIA GPUs, forward and backward, that never holds the products of all queries and keys.

Two operations, of values and of gradients. On other platforms they are the formulas that the kernels compute.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

import xlafront.numpy as xnp
from xlafront import lowering
from xlafront.core.avals import ShapedArray
from xlafront.core.dimensions import is_symbolic
from xlafront.core.primitive import Primitive
from xlafront.lax.barriers import stop_gradient
from xlafront.lax.collectives import psum
from xlafront.lax.lower_fun import lower_fun
from xlafront.lax.shapes import broadcast_batch
from xlafront.parallel.custom_partitioning import custom_partitioning
from xlafront.parallel.partitioning_rules import SdyShardingRule, parse
from xlafront.runtime.jaxlib_compat import NamedSharding
from xlafront.runtime.specs import PartitionSpec, axes_of
from xlafront.transforms.calls.custom_vjp import custom_vjp

_DTYPES = {np.dtype(ml_dtypes.bfloat16): "BF16", np.dtype(np.float16): "F16"}
_HIDDEN = {np.dtype(ml_dtypes.bfloat16): -2.0**41, np.dtype(np.float16): -2.0**14}  # of logits of keys that are not looked at

# Operands: query (B, T, N, H), key and value (B, S, K, H), where K divides N; with `biased` what is added to the logits, of a
# shape that (B, N, T, S) is an extension of; with `padded` how many queries and keys there are in each batch. `window` is how
# many keys up to its own position a query sees, 0: all. The gradients take, after the values, the logarithms of the softmax's
# sums (B, N, T), the cotangent and the result.


def _check(query, key, window: int, training: bool) -> None:
    """Refuse what cuDNN has no kernels for."""
    (_, queries, _, width), keys = query.shape, key.shape[1]
    if query.dtype not in _DTYPES:
        why = f"float16 or bfloat16, got {query.dtype}. Convert query, key and value, or leave implementation out"
    elif is_symbolic(query.shape + key.shape):
        why = f"known sizes, got {query.shape} and {key.shape}. Leave implementation out"
    elif width % 8 or width > 256:
        why = f"heads whose width is a multiple of 8 and at most 256, got {width}"
    elif window and queries > keys:
        why = f"a local_window_size where there are as many keys as queries or more, got {queries} queries and {keys} keys"
    elif training and (queries % 2 or keys % 2):
        why = (f"even lengths where there is a derivative, got {queries} queries and {keys} keys. Pad them, with "
               f"query_seq_lengths and key_value_seq_lengths")
    else:
        return
    raise NotImplementedError(f"nn.dot_product_attention with implementation='cudnn' takes {why}.")


def _split(operands: Sequence[Any], biased: bool, padded: bool) -> tuple[Any, tuple]:
    """Of the operands after the arrays: what is added, or None, and the two lengths, or nothing."""
    rest = list(operands)
    added = rest.pop(0) if biased else None
    return added, tuple(rest) if padded else ()


def _logits(query, key, added, lengths, scale: float, causal: bool, window: int):
    """What the softmax is taken of, in float32, with the queries in groups that share a key: (B, K, G, T, S); and which keys
    each query sees."""
    heads, shared = query.shape[2], key.shape[2]
    grouped = query.reshape(*query.shape[:2], shared, heads // shared, -1)
    logits = xnp.einsum("btkgh,bskh->bkgts", grouped, key, preferred_element_type=np.float32) * scale
    if added is not None:
        logits = logits + xnp.broadcast_to(added, (*added.shape[:1], heads, *logits.shape[3:])).astype(np.float32).reshape(
            -1, *logits.shape[1:])
    rows, columns = np.arange(query.shape[1])[:, None], np.arange(key.shape[1])[None]
    seen: Any = np.True_
    if causal:
        seen = (columns <= rows) & (columns > rows - window if window else True)
    if lengths:
        queries, keys = (n.reshape(-1, 1, 1, 1, 1) for n in lengths)
        seen = seen & (rows < queries) & (columns < keys)
    return (logits if seen is np.True_ else xnp.where(seen, logits, -2.0**41)), seen


def _weights(logits):
    """The softmax, and the logarithms of its sums."""
    largest = xnp.max(logits, axis=-1, keepdims=True)
    weights = xnp.exp(logits - largest)
    sums = xnp.sum(weights, axis=-1, keepdims=True)
    return weights / sums, largest + xnp.log(sums)


def _values(query, key, value, *rest, scale, causal, window, biased, padded, training):
    added, lengths = _split(rest, biased, padded)
    weights, stats = _weights(_logits(query, key, added, lengths, scale, causal, window)[0])
    found = xnp.einsum("bkgts,bskh->btkgh", weights.astype(value.dtype), value).reshape(query.shape)
    if lengths:
        inside = np.arange(query.shape[1])[:, None, None] < lengths[0].reshape(-1, 1, 1, 1)
        found = xnp.where(inside, found, 0)
    return [found, stats.reshape(query.shape[0], query.shape[2], query.shape[1])] if training else [found]


def _gradients(query, key, value, *rest, scale, causal, window, biased, padded, of_bias):
    added, lengths = _split(rest[:-3], biased, padded)
    ct, result = rest[-2:]
    logits, seen = _logits(query, key, added, lengths, scale, causal, window)
    batch, shared, groups, length, _ = logits.shape

    def grouped(x):
        return x.astype(np.float32).reshape(batch, length, shared, groups, -1)

    weights, _ = _weights(logits)
    if lengths:
        weights = xnp.where(np.arange(length)[:, None] < lengths[0].reshape(-1, 1, 1, 1, 1), weights, 0)
    key, value, wide = key.astype(np.float32), value.astype(np.float32), grouped(ct)
    to_value = xnp.einsum("bkgts,btkgh->bskh", weights, wide)
    moved = xnp.einsum("btkgh,bskh->bkgts", wide, value)
    shift = xnp.einsum("btkgh,btkgh->bkgt", wide, grouped(result))
    to_logits = xnp.where(seen, weights * (moved - shift[..., None]), 0)
    to_query = xnp.einsum("bkgts,bskh->btkgh", to_logits, key).reshape(query.shape) * scale
    to_key = xnp.einsum("bkgts,btkgh->bskh", to_logits, grouped(query)) * scale
    found = [to_query, to_key, to_value]
    if of_bias:
        to_added = to_logits.reshape(batch, shared * groups, length, -1)
        found.append(to_added if added.shape[0] == batch else xnp.sum(to_added, axis=0, keepdims=True))
    return [x.astype(query.dtype) for x in found]


def _types_of_values(query, *rest, training, **params):
    stats = ShapedArray((query.shape[0], query.shape[2], query.shape[1]), np.dtype(np.float32))
    return [_strong(query), stats] if training else [_strong(query)]


def _types_of_gradients(query, key, value, *rest, of_bias, **params):
    return [_strong(x) for x in (query, key, value, *rest[:int(of_bias)])]


def _strong(aval):
    return ShapedArray(aval.shape, aval.dtype)


# On NVIDIA GPUs: XLA's names for cuDNN's kernels


def _products(**dimensions: str) -> dict[str, Any]:
    """The dimensions of the matrix products that a kernel consists of, as XLA describes it: a letter each for what is summed of
    both, and two for the batches, "3 3 02 02"."""
    names = ("lhs_contracting_dimensions", "rhs_contracting_dimensions", "lhs_batch_dimensions", "rhs_batch_dimensions")
    return {f"{which}_dot_dimension_numbers": {name: list(part) for name, part in zip(names, told.split())}
            for which, told in dimensions.items()}


_FORWARD = _products(bmm1="3 3 02 02", bmm2="3 1 01 02")
_BACKWARD = _products(bmm1_grad_gemm1="2 1 01 02", bmm1_grad_gemm2="3 1 01 02", bmm2_grad_gemm1="2 1 01 02",
                      bmm2_grad_gemm2="3 3 02 02")


def _call(ctx, backward: bool, operands, results, query, key, scale, causal, window, biased, padded):
    """The custom call; what it returns of four dimensions has the heads before the positions, and is written the other way."""
    mask = ("PADDING_CAUSAL" if causal else "PADDING") if padded else "CAUSAL" if causal else "NO_MASK"
    config = {
        "algorithm": {"algo_id": "0", "math_type": "TENSOR_OP_MATH", "tuning_knobs": {"17": "1", "24": "0"},
                      "is_cudnn_frontend": True, "workspace_size": "0"},
        "fmha_scale": scale, "mask_type": mask, "is_flash_attention": True, "dropout_rate": 0.0, "seed": 42,
        "intermediate_tensor_shape": {
            "element_type": _DTYPES[query.dtype], "dimensions": [str(n) for n in (
                query.shape[0], query.shape[2], query.shape[1], key.shape[1])],
            "layout": {"minor_to_major": ["3", "2", "1", "0"]}, "is_dynamic_dimension": [False] * 4},
        "sliding_window_length": window, "max_seg_per_batch": 1, **(_BACKWARD if backward else _FORWARD)}
    target = f"__cudnn$fmha{'ScaleBias' if biased else ''}Softmax{'Backward' if backward else ''}"
    heads_first = [place < 3 and len(aval.shape) == 4 for place, aval in enumerate(results)]
    types: list[Any] = [((a.shape[0], a.shape[2], a.shape[1], a.shape[3]), a.dtype) if first else (a.shape, a.dtype)
                        for a, first in zip(results, heads_first)] + [((0,), np.dtype(np.uint8))]
    layouts = [[3, 1, 2, 0] if first else _rows_first(shape) for (shape, _), first in zip(types, [*heads_first, False])]
    found = ctx.op("stablehlo.custom_call", operands, types, **lowering.custom_calls.attributes_of_call(
        target, len(operands), len(types), api_version=2, operand_layouts=[_rows_first(x.type.shape) for x in operands],
        result_layouts=layouts, backend_config=json.dumps({"operation_queue_id": "0", "cudnn_fmha_backend_config": config})))
    return [ctx.op("stablehlo.transpose", [x], [aval], permutation=lowering.mlir.i64s((0, 2, 1, 3))) if first else x
            for x, aval, first in zip(found, results, heads_first)]


def _rows_first(shape) -> list[int]:
    return [*range(len(shape))][::-1]


def _values_on_gpu(ctx, *operands, training, **params):
    query, key = ctx.avals_in[:2]
    return _call(ctx, False, operands, ctx.avals_out, query, key, **params)


def _gradients_on_gpu(ctx, *operands, of_bias, biased, **params):
    query, key = ctx.avals_in[:2]
    rest = list(operands[3:-3])
    added, lengths = rest[:int(biased)], rest[int(biased):]
    stats, ct, result = operands[-3:]
    ordered = [*operands[:3], stats, ct, *added, result, *lengths]
    return _call(ctx, True, ordered, ctx.avals_out, query, key, biased=biased, **params)


# Batches are one with the first dimension


def _batched(primitive_of):
    def rule(size, operands, dims, **params):
        avals = [np.shape(x) for x in operands]
        count = avals[0][0 if dims[0] is None else int(dims[0] == 0)]
        moved = []
        for place, (x, d) in enumerate(zip(operands, dims)):
            x = broadcast_batch(x, d, size)
            if params["biased"] and place == 3 and x.shape[1] != count:
                x = xnp.broadcast_to(x, (size, count, *x.shape[2:]))
            moved.append(x.reshape(-1, *x.shape[2:]))
        found = primitive_of().bind(*moved, **params)
        results = [x.reshape(size, -1, *x.shape[1:]) for x in found]
        if params.get("of_bias") and avals[3][int(dims[3] is not None and dims[3] == 0)] != count:
            results[3] = xnp.sum(results[3], axis=1, keepdims=True)
        return results, [0] * len(results)

    return rule


cudnn_attention_p = Primitive(
    "cudnn_attention", multiple_results=True, abstract=_types_of_values, lower=lower_fun(_values, multiple_results=True),
    batch=_batched(lambda: cudnn_attention_p), cost="heavy")
cudnn_attention_p.lowerings["cuda"] = _values_on_gpu
cudnn_attention_gradient_p = Primitive(
    "cudnn_attention_gradient", multiple_results=True, abstract=_types_of_gradients,
    lower=lower_fun(_gradients, multiple_results=True), batch=_batched(lambda: cudnn_attention_gradient_p), cost="heavy")
cudnn_attention_gradient_p.lowerings["cuda"] = _gradients_on_gpu


# Devices compute batches and heads of their own, where arrays are split so


def _letters(told, operands: Sequence[Any], backward: bool) -> tuple[list[str], list[str], dict[str, int]]:
    """The dimensions of operands and results by name, those of one name being split alike, and the sizes of parts of some."""
    options, of_bias, training = told
    params = dict(options)
    (batch, _, heads, _), shared = operands[0].shape, operands[1].shape[2]
    named = "k" if heads == shared else "(k g)"  # query heads in groups that share a key
    query, key = f"b t {named} h", "b s k h"
    given, found = [query, key, key], [query] + [key, key] * backward
    if params["biased"]:
        added = operands[3].shape
        given.append(f"{'b' if added[0] == batch else 'x'} {named if added[1] == heads else 'y'} t s")
        found += given[3:] * (backward and of_bias)
    given += ["b", "b"] * params["padded"]
    stats = f"b {named} t"
    return (given + [stats, query, query] if backward else given, found if backward or not training else [query, stats],
            {} if heads == shared else {"g": heads // shared})


def _rule(told, backward: bool, mesh, operands, results) -> SdyShardingRule:
    given, found, sizes = _letters(told, operands, backward)
    text = f"{', '.join(given)} -> {', '.join(found)}"
    return parse(text, need_replication_factors=tuple([name for name in "tshxyg" if name in text]), **sizes)


def _split_by(told, backward: bool, mesh, operands, results):
    """One device's call, and how arrays are split for it: as the batches and heads of the query are."""
    given, found, _ = _letters(told, operands, backward)
    spec = getattr(operands[0].sharding, "spec", PartitionSpec())
    batches, heads = (entry if n % math.prod([mesh.shape[a] for a in axes_of(entry)]) == 0 else None for entry, n in (
        (spec[0] if len(spec) else None, operands[0].shape[0]), (spec[2] if len(spec) > 2 else None, operands[1].shape[2])))

    def split(letters: str) -> NamedSharding:
        names = letters.replace("(k g)", "k").split()
        return NamedSharding(mesh, PartitionSpec(*[batches if n == "b" else heads if n == "k" else None for n in names]))

    def run(*parts):
        results = list(_bind(told, backward, parts))
        if backward and told[1] and given[3].startswith("x") and batches is not None:
            results[3] = psum(results[3], axes_of(batches))
        return results

    return mesh, run, [split(x) for x in found], tuple([split(x) for x in given])


def _bind(told, backward: bool, operands) -> list[Any]:
    options, of_bias, training = told
    if backward:
        return list(cudnn_attention_gradient_p.bind(*operands, of_bias=of_bias, **dict(options)))
    return list(cudnn_attention_p.bind(*operands, training=training, **dict(options)))


_call_on_parts = custom_partitioning(lambda told, backward, *operands: _bind(told, backward, operands), static_argnums=(0, 1))
_call_on_parts.def_partition(_split_by, sharding_rule=_rule)


def _run(told, operands, training: bool) -> list[Any]:
    options, of_bias, with_stats = told
    _check(operands[0], operands[1], dict(options)["window"], training)
    return _call_on_parts((options, of_bias, training or with_stats), False, *operands)


def _forward(told, *operands):
    result, stats = _run(told, operands, True)
    return [result, stats] if told[2] else [result], (operands, stats, result)


def _backward(told, residuals, cts):
    operands, stats, result = residuals
    found = _call_on_parts(told, True, *operands, stats, cts[0], result)
    return (*found, *[None] * (len(operands) - len(found)))


_attention = custom_vjp(lambda told, *operands: _run(told, operands, False), nondiff_argnums=(0,))
_attention.defvjp(_forward, _backward)


def attention(query, key, value, bias, mask, query_lengths, key_lengths, scale: float, is_causal: bool,
              window: tuple[int, int] | None, return_residual: bool):
    """`nn.dot_product_attention` of arrays of four dimensions, by cuDNN."""
    causal, near = is_causal, 0
    if window is not None:
        left, right = window
        if right and not is_causal:
            raise ValueError(f"nn.dot_product_attention with implementation='cudnn' hides later keys where there is a window: "
                             f"local_window_size must be (left, 0), got {window}, or is_causal true.")
        causal, near = True, left + 1
    full = query.shape[0], query.shape[2], query.shape[1], key.shape[1]
    added = None
    if bias is not None:  # (whose derivative the kernel has of these shapes alone)
        added = xnp.broadcast_to(bias.astype(query.dtype), (bias.shape[0], *full[1:]))
    if mask is not None:
        hidden = xnp.where(mask, 0, _HIDDEN.get(query.dtype, 0)).astype(query.dtype)
        hidden = xnp.broadcast_to(hidden, (*hidden.shape[:2], *full[2:]))
        added = hidden if added is None else added + hidden
    lengths = ()
    if query_lengths is not None or key_lengths is not None:
        lengths = tuple([xnp.full(full[0], n, np.int32) if given is None else given for given, n in (
            (query_lengths, full[2]), (key_lengths, full[3]))])
    options = {"scale": scale, "causal": causal, "window": near, "biased": added is not None, "padded": bool(lengths)}
    told = tuple(options.items()), bias is not None, return_residual
    operands = (query, key, value, *(() if added is None else (added,)), *lengths)
    found = _attention(told, *operands)
    return (found[0], stop_gradient(xnp.transpose(found[1], (0, 2, 1)).astype(key.dtype))) if return_residual else found[0]
