"""Attention by cuDNN: one fused kernel on NVIDIA GPUs, forward and backward, that never stores all logits.

There are two primitives, for values and for gradients. On other platforms they lower to the formulas that the kernels compute.
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
from xlafront.base.jaxlib_compat import NamedSharding
from xlafront.base.specs import PartitionSpec, axes_of
from xlafront.core.avals import ShapedArray
from xlafront.core.primitive import Cost, Primitive, Traits
from xlafront.lax.barriers import stop_gradient
from xlafront.lax.collectives import psum
from xlafront.lax.lower_fun import lower_fun
from xlafront.lax.shapes import broadcast_batch
from xlafront.parallel.custom_partitioning import custom_partitioning
from xlafront.parallel.partitioning_rules import SdyShardingRule, parse
from xlafront.symbolic.dimensions import is_symbolic
from xlafront.transforms.calls.custom_vjp import custom_vjp

_DTYPES = {np.dtype(ml_dtypes.bfloat16): "BF16", np.dtype(np.float16): "F16"}
_MASK_VALUE = {np.dtype(ml_dtypes.bfloat16): -2.0**41, np.dtype(np.float16): -2.0**14}  # Added to logits of masked keys.

# Operands: query (B, T, N, H), key and value (B, S, K, H), where K divides N; with `biased` the bias of the logits, of a shape
# that broadcasts to (B, N, T, S); with `padded` the numbers of valid queries and keys of each batch element. `window` is the
# number of keys up to its own position that a query attends to, 0 for all. The gradients take, after these operands, the
# log-sum-exp of the logits (B, N, T), the cotangent and the result.


def _check(query, key, window: int, training: bool) -> None:
    """Raise for operands that cuDNN has no kernel for."""
    (_, queries, _, width), keys = query.shape, key.shape[1]
    if query.dtype not in _DTYPES:
        requirement = f"float16 or bfloat16, got {query.dtype}. Convert query, key and value, or omit implementation"
    elif is_symbolic(query.shape + key.shape):
        requirement = f"known sizes, got {query.shape} and {key.shape}. Omit implementation"
    elif width % 8 or width > 256:
        requirement = f"heads whose width is a multiple of 8 and at most 256, got {width}"
    elif window and queries > keys:
        requirement = f"at least as many keys as queries with a local_window_size, got {queries} queries and {keys} keys"
    elif training and (queries % 2 or keys % 2):
        requirement = (f"even lengths if it is differentiated, got {queries} queries and {keys} keys. Pad them, and pass "
                       f"query_seq_lengths and key_value_seq_lengths")
    else:
        return
    raise NotImplementedError(f"nn.dot_product_attention with implementation='cudnn' needs {requirement}.")


def _split_operands(operands: Sequence[Any], biased: bool, padded: bool) -> tuple[Any, tuple]:
    """Split the operands after query, key and value: the bias or None, and the two lengths or nothing."""
    rest = list(operands)
    bias = rest.pop(0) if biased else None
    return bias, tuple(rest) if padded else ()


def _logits(query, key, bias, lengths, scale: float, causal: bool, window: int):
    """Compute the logits in float32, with queries in groups that share a key: (B, K, G, T, S). Also return the mask of keys."""
    heads, key_heads = query.shape[2], key.shape[2]
    grouped = query.reshape(*query.shape[:2], key_heads, heads // key_heads, -1)
    logits = xnp.einsum("btkgh,bskh->bkgts", grouped, key, preferred_element_type=np.float32) * scale
    if bias is not None:
        logits = logits + xnp.broadcast_to(bias, (*bias.shape[:1], heads, *logits.shape[3:])).astype(np.float32).reshape(
            -1, *logits.shape[1:])
    rows, columns = np.arange(query.shape[1])[:, None], np.arange(key.shape[1])[None]
    mask: Any = np.True_
    if causal:
        mask = (columns <= rows) & (columns > rows - window if window else True)
    if lengths:
        queries, keys = (n.reshape(-1, 1, 1, 1, 1) for n in lengths)
        mask = mask & (rows < queries) & (columns < keys)
    return (logits if mask is np.True_ else xnp.where(mask, logits, -2.0**41)), mask


def _weights(logits):
    """Return the softmax and the log-sum-exp."""
    maximum = xnp.max(logits, axis=-1, keepdims=True)
    weights = xnp.exp(logits - maximum)
    sums = xnp.sum(weights, axis=-1, keepdims=True)
    return weights / sums, maximum + xnp.log(sums)


def _values(query, key, value, *rest, scale, causal, window, biased, padded, training):
    bias, lengths = _split_operands(rest, biased, padded)
    weights, stats = _weights(_logits(query, key, bias, lengths, scale, causal, window)[0])
    result = xnp.einsum("bkgts,bskh->btkgh", weights.astype(value.dtype), value).reshape(query.shape)
    if lengths:
        is_valid = np.arange(query.shape[1])[:, None, None] < lengths[0].reshape(-1, 1, 1, 1)
        result = xnp.where(is_valid, result, 0)
    return [result, stats.reshape(query.shape[0], query.shape[2], query.shape[1])] if training else [result]


def _gradients(query, key, value, *rest, scale, causal, window, biased, padded, of_bias):
    bias, lengths = _split_operands(rest[:-3], biased, padded)
    ct, result = rest[-2:]
    logits, mask = _logits(query, key, bias, lengths, scale, causal, window)
    batch, key_heads, groups, length, _ = logits.shape

    def grouped(x):
        return x.astype(np.float32).reshape(batch, length, key_heads, groups, -1)

    weights, _ = _weights(logits)
    if lengths:
        weights = xnp.where(np.arange(length)[:, None] < lengths[0].reshape(-1, 1, 1, 1, 1), weights, 0)
    key, value, grouped_ct = key.astype(np.float32), value.astype(np.float32), grouped(ct)
    value_ct = xnp.einsum("bkgts,btkgh->bskh", weights, grouped_ct)
    weight_ct = xnp.einsum("btkgh,bskh->bkgts", grouped_ct, value)
    mean_ct = xnp.einsum("btkgh,btkgh->bkgt", grouped_ct, grouped(result))
    logits_ct = xnp.where(mask, weights * (weight_ct - mean_ct[..., None]), 0)
    query_ct = xnp.einsum("bkgts,bskh->btkgh", logits_ct, key).reshape(query.shape) * scale
    key_ct = xnp.einsum("bkgts,btkgh->bskh", logits_ct, grouped(query)) * scale
    gradients = [query_ct, key_ct, value_ct]
    if of_bias:
        bias_ct = logits_ct.reshape(batch, key_heads * groups, length, -1)
        gradients.append(bias_ct if bias.shape[0] == batch else xnp.sum(bias_ct, axis=0, keepdims=True))
    return [x.astype(query.dtype) for x in gradients]


def _abstract_values(query, *rest, training, **params):
    stats = ShapedArray((query.shape[0], query.shape[2], query.shape[1]), np.dtype(np.float32))
    return [_strong_aval(query), stats] if training else [_strong_aval(query)]


def _abstract_gradients(query, key, value, *rest, of_bias, **params):
    return [_strong_aval(x) for x in (query, key, value, *rest[:int(of_bias)])]


def _strong_aval(aval):
    return ShapedArray(aval.shape, aval.dtype)


# Lowering for NVIDIA GPUs: XLA's custom calls to cuDNN's kernels


def _dot_dimension_numbers(**dimensions: str) -> dict[str, Any]:
    """Return the dimension numbers of the matrix products in a kernel, as XLA describes them.

    Each product is given as four groups of digits: the contracted axes of both operands and their batch axes, "3 3 02 02".
    """
    names = ("lhs_contracting_dimensions", "rhs_contracting_dimensions", "lhs_batch_dimensions", "rhs_batch_dimensions")
    return {f"{product}_dot_dimension_numbers": {name: list(axes) for name, axes in zip(names, digits.split())}
            for product, digits in dimensions.items()}


_FORWARD = _dot_dimension_numbers(bmm1="3 3 02 02", bmm2="3 1 01 02")
_BACKWARD = _dot_dimension_numbers(bmm1_grad_gemm1="2 1 01 02", bmm1_grad_gemm2="3 1 01 02", bmm2_grad_gemm1="2 1 01 02",
                      bmm2_grad_gemm2="3 3 02 02")


def _call(ctx, backward: bool, operands, avals, query, key, scale, causal, window, biased, padded):
    """Emit the custom call.

    It returns results of four dimensions with the heads before the positions, in a layout with the positions first.
    """
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
    is_transposed = [index < 3 and len(aval.shape) == 4 for index, aval in enumerate(avals)]
    types: list[Any] = [((a.shape[0], a.shape[2], a.shape[1], a.shape[3]), a.dtype) if transposed else (a.shape, a.dtype)
                        for a, transposed in zip(avals, is_transposed)] + [((0,), np.dtype(np.uint8))]
    layouts = [[3, 1, 2, 0] if transposed else _row_major(shape) for (shape, _), transposed in zip(
        types, [*is_transposed, False])]
    results = ctx.op("stablehlo.custom_call", operands, types, **lowering.custom_calls.attributes_of_call(
        target, len(operands), len(types), api_version=2, operand_layouts=[_row_major(x.type.shape) for x in operands],
        result_layouts=layouts, backend_config=json.dumps({"operation_queue_id": "0", "cudnn_fmha_backend_config": config})))
    return [ctx.op("stablehlo.transpose", [x], [aval], permutation=lowering.mlir.i64s((0, 2, 1, 3))) if transposed else x
            for x, aval, transposed in zip(results, avals, is_transposed)]


def _row_major(shape) -> list[int]:
    return [*range(len(shape))][::-1]


def _values_on_gpu(ctx, *operands, training, **params):
    query, key = ctx.avals_in[:2]
    return _call(ctx, False, operands, ctx.avals_out, query, key, **params)


def _gradients_on_gpu(ctx, *operands, of_bias, biased, **params):
    query, key = ctx.avals_in[:2]
    extra = list(operands[3:-3])
    bias, lengths = extra[:int(biased)], extra[int(biased):]
    stats, ct, result = operands[-3:]
    ordered = [*operands[:3], stats, ct, *bias, result, *lengths]
    return _call(ctx, True, ordered, ctx.avals_out, query, key, biased=biased, **params)


# Batching merges the batch axis into the first dimension


def _batch_rule(primitive_of):
    def rule(size, operands, dims, **params):
        operand_shapes = [np.shape(x) for x in operands]
        batch = operand_shapes[0][0 if dims[0] is None else int(dims[0] == 0)]
        merged = []
        for index, (x, d) in enumerate(zip(operands, dims)):
            x = broadcast_batch(x, d, size)
            if params["biased"] and index == 3 and x.shape[1] != batch:
                x = xnp.broadcast_to(x, (size, batch, *x.shape[2:]))
            merged.append(x.reshape(-1, *x.shape[2:]))
        results = primitive_of().bind(*merged, **params)
        results = [x.reshape(size, -1, *x.shape[1:]) for x in results]
        if params.get("of_bias") and operand_shapes[3][int(dims[3] is not None and dims[3] == 0)] != batch:
            results[3] = xnp.sum(results[3], axis=1, keepdims=True)
        return results, [0] * len(results)

    return rule


cudnn_attention_p = Primitive(
    "cudnn_attention", multiple_results=True, abstract=_abstract_values,
    lower={None: lower_fun(_values, multiple_results=True), "cuda": _values_on_gpu},
    batch=_batch_rule(lambda: cudnn_attention_p),
    traits=Traits(cost=Cost.HEAVY))
cudnn_attention_gradient_p = Primitive(
    "cudnn_attention_gradient", multiple_results=True, abstract=_abstract_gradients,
    lower={None: lower_fun(_gradients, multiple_results=True), "cuda": _gradients_on_gpu},
    batch=_batch_rule(lambda: cudnn_attention_gradient_p), traits=Traits(cost=Cost.HEAVY))


# Partitioning: batch elements and heads may be sharded


def _dimension_names(static, operands: Sequence[Any], backward: bool) -> tuple[list[str], list[str], dict[str, int]]:
    """Return the dimension names of operands and results, and the sizes of some factors.

    Dimensions of the same name are sharded alike.
    """
    options, of_bias, training = static
    params = dict(options)
    (batch, _, heads, _), key_heads = operands[0].shape, operands[1].shape[2]
    head_name = "k" if heads == key_heads else "(k g)"  # Query heads in groups that share a key.
    query, key = f"b t {head_name} h", "b s k h"
    inputs, outputs = [query, key, key], [query] + [key, key] * backward
    if params["biased"]:
        bias_shape = operands[3].shape
        inputs.append(f"{'b' if bias_shape[0] == batch else 'x'} {head_name if bias_shape[1] == heads else 'y'} t s")
        outputs += inputs[3:] * (backward and of_bias)
    inputs += ["b", "b"] * params["padded"]
    stats = f"b {head_name} t"
    return (inputs + [stats, query, query] if backward else inputs, outputs if backward or not training else [query, stats],
            {} if heads == key_heads else {"g": heads // key_heads})


def _sharding_rule(static, backward: bool, mesh, operands, results) -> SdyShardingRule:
    inputs, outputs, sizes = _dimension_names(static, operands, backward)
    text = f"{', '.join(inputs)} -> {', '.join(outputs)}"
    return parse(text, need_replication_factors=tuple([name for name in "tshxyg" if name in text]), **sizes)


def _partition(static, backward: bool, mesh, operands, results):
    """Return the computation of one device and the shardings of its operands and results.

    Batch elements and heads are sharded as those of the query are.
    """
    inputs, outputs, _ = _dimension_names(static, operands, backward)
    spec = getattr(operands[0].sharding, "spec", PartitionSpec())
    batches, heads = (entry if n % math.prod([mesh.shape[a] for a in axes_of(entry)]) == 0 else None for entry, n in (
        (spec[0] if len(spec) else None, operands[0].shape[0]), (spec[2] if len(spec) > 2 else None, operands[1].shape[2])))

    def sharding(dimensions: str) -> NamedSharding:
        names = dimensions.replace("(k g)", "k").split()
        return NamedSharding(mesh, PartitionSpec(*[batches if n == "b" else heads if n == "k" else None for n in names]))

    def run(*shards):
        results = list(_bind(static, backward, shards))
        if backward and static[1] and inputs[3].startswith("x") and batches is not None:
            results[3] = psum(results[3], axes_of(batches))
        return results

    return mesh, run, [sharding(x) for x in outputs], tuple([sharding(x) for x in inputs])


def _bind(static, backward: bool, operands) -> list[Any]:
    options, of_bias, training = static
    if backward:
        return list(cudnn_attention_gradient_p.bind(*operands, of_bias=of_bias, **dict(options)))
    return list(cudnn_attention_p.bind(*operands, training=training, **dict(options)))


_partitioned_call = custom_partitioning(lambda static, backward, *operands: _bind(static, backward, operands),
                                        static_argnums=(0, 1))
_partitioned_call.def_partition(_partition, sharding_rule=_sharding_rule)


def _run(static, operands, training: bool) -> list[Any]:
    options, of_bias, with_stats = static
    _check(operands[0], operands[1], dict(options)["window"], training)
    return _partitioned_call((options, of_bias, training or with_stats), False, *operands)


def _forward(static, *operands):
    result, stats = _run(static, operands, True)
    return [result, stats] if static[2] else [result], (operands, stats, result)


def _backward(static, residuals, cts):
    operands, stats, result = residuals
    gradients = _partitioned_call(static, True, *operands, stats, cts[0], result)
    return (*gradients, *[None] * (len(operands) - len(gradients)))


_attention = custom_vjp(lambda static, *operands: _run(static, operands, False), nondiff_argnums=(0,))
_attention.defvjp(_forward, _backward)


def attention(query, key, value, bias, mask, query_lengths, key_lengths, scale: float, is_causal: bool,
              window: tuple[int, int] | None, return_residual: bool):
    """Compute `nn.dot_product_attention` by cuDNN, for arrays of four dimensions."""
    causal, window_length = is_causal, 0
    if window is not None:
        left, right = window
        if right and not is_causal:
            raise ValueError(f"nn.dot_product_attention with implementation='cudnn' supports causal windows only: "
                             f"local_window_size must be (left, 0), got {window}, or is_causal True.")
        causal, window_length = True, left + 1
    logits_shape = query.shape[0], query.shape[2], query.shape[1], key.shape[1]
    total_bias = None
    if bias is not None:  # The kernel computes the derivative of the bias for these shapes only.
        total_bias = xnp.broadcast_to(bias.astype(query.dtype), (bias.shape[0], *logits_shape[1:]))
    if mask is not None:
        mask_bias = xnp.where(mask, 0, _MASK_VALUE.get(query.dtype, 0)).astype(query.dtype)
        mask_bias = xnp.broadcast_to(mask_bias, (*mask_bias.shape[:2], *logits_shape[2:]))
        total_bias = mask_bias if total_bias is None else total_bias + mask_bias
    lengths = ()
    if query_lengths is not None or key_lengths is not None:
        lengths = tuple([xnp.full(logits_shape[0], n, np.int32) if length is None else length for length, n in (
            (query_lengths, logits_shape[2]), (key_lengths, logits_shape[3]))])
    options = {"scale": scale, "causal": causal, "window": window_length, "biased": total_bias is not None,
               "padded": bool(lengths)}
    static = tuple(options.items()), bias is not None, return_residual
    operands = (query, key, value, *(() if total_bias is None else (total_bias,)), *lengths)
    results = _attention(static, *operands)
    if not return_residual:
        return results[0]
    return results[0], stop_gradient(xnp.transpose(results[1], (0, 2, 1)).astype(key.dtype))
