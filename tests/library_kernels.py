"""The kernels of `xlafront.kernels` on small arrays, with what they compute by NumPy in float64.

Each case is one kernel: it is interpreted, run from its emitted module, and compiled for chips.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import ml_dtypes
import numpy as np

import xlafront as xf
from xlafront.kernels import attention, cross_entropy, grouped_products, norms, paged, quantized_products

F32, BF16, I32 = np.dtype(np.float32), np.dtype(ml_dtypes.bfloat16), np.dtype(np.int32)


class Case(NamedTuple):
    """`function(target)` is a function of the arguments. Results with the numbers in `sums` are to be summed over their first axes."""

    function: Callable
    arguments: Callable
    expected: Callable
    tolerance: float = 1e-5
    sums: tuple = ()


CASES: dict[str, Case] = {}


def numbers(*shape, seed=0, dtype=F32):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


# Attention


def exact_attention(q, k, v, bias=None, q_segments=None, kv_segments=None, do=None, *, scale, before=None, after=None, soft_cap=None):
    """Results, log-sum-exp and gradients of attention, in float64, with the whole matrix of logits."""
    groups = q.shape[1] // k.shape[1]
    q, k, v = q.astype(float), np.repeat(k, groups, 1).astype(float), np.repeat(v, groups, 1).astype(float)
    logits = np.einsum("bhqd,bhkd->bhqk", q, k) * scale
    slope = np.ones_like(logits)
    if soft_cap is not None:
        slope = 1 - np.tanh(logits / soft_cap) ** 2
        logits = soft_cap * np.tanh(logits / soft_cap)
    if bias is not None:
        logits = logits + bias
    distance = np.arange(k.shape[2])[None] - np.arange(q.shape[2])[:, None]
    mask = np.ones(logits.shape, bool)
    if after is not None:
        mask &= distance <= after
    if before is not None:
        mask &= distance >= -before
    if q_segments is not None:
        mask &= q_segments[:, 0][:, None, :, None] == kv_segments[:, 0][:, None, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        largest = np.where(mask, logits, -np.inf).max(-1, keepdims=True)
        weights = np.where(mask, np.exp(logits - largest), 0)
        total = weights.sum(-1, keepdims=True)
        weights = weights / np.where(total, total, 1)
        lse = np.where(total, largest + np.log(total), -np.inf)
    out = np.einsum("bhqk,bhkd->bhqd", weights, v)
    found = {"out": out, "lse": lse[..., 0][:, :, None]}
    if do is not None:
        found["delta"] = (do * out).sum(-1)[:, :, None]
        gradient = weights * (np.einsum("bhqd,bhkd->bhqk", do.astype(float), v) - found["delta"].swapaxes(2, 3))
        products = gradient * slope * scale

        def per_group(x):
            return x.reshape(x.shape[0], -1, groups, *x.shape[2:]).sum(2)

        found["q"] = np.einsum("bhqk,bhkd->bhqd", products, k)
        found["kv"] = (per_group(np.einsum("bhqk,bhqd->bhkd", products, q)), per_group(np.einsum("bhqk,bhqd->bhkd", weights, do)))
        found["logits"] = gradient
    return found


# Shapes (batch, heads, key heads, queries, keys, width), whether there are segments, the bias' shape, options; small blocks
# of TPU kernels are 128 x 128, those of GPU kernels 16 x 16.
ATTENTION = {
    "plain": ((1, 1, 1, 32, 32, 16), False, None, {}),
    "causal, ragged": ((1, 2, 1, 40, 52, 24), False, None, {"after": 0}),
    "window, grouped": ((1, 4, 2, 140, 150, 16), False, None, {"before": 9, "after": 3}),
    "segments, soft cap": ((2, 1, 1, 40, 44, 16), True, None, {"soft_cap": 2.0}),
    "bias": ((2, 2, 2, 20, 30, 16), False, (1, 2, 20, 30), {"after": 5}),
    "row of bias": ((2, 2, 2, 20, 36, 16), False, (2, 1, 1, 36), {}),
}


def attention_arrays(name):
    (batch, heads, kv_heads, queries, keys, width), has_segments, bias, options = ATTENTION[name]
    arrays = [numbers(batch, heads, queries, width), numbers(batch, kv_heads, keys, width, seed=1),
              numbers(batch, kv_heads, keys, width, seed=2), None if bias is None else numbers(*bias, seed=3), None, None]
    if has_segments:
        rng = np.random.default_rng(4)
        arrays[4:] = [np.sort(rng.integers(0, 3, (batch, 1, n))).astype(I32) for n in (queries, keys)]
    return arrays, {"scale": width ** -0.5, **options}


def present(arrays):
    return tuple([x for x in arrays if x is not None])


def with_absent(arrays, values):
    values = iter(values)
    return [None if x is None else next(values) for x in arrays]


def add_attention(name):
    def inputs(is_backward):
        arrays, options = attention_arrays(name)
        if not is_backward:
            return arrays
        do = numbers(*arrays[0].shape, seed=5)
        exact = exact_attention(*arrays, do, **options)
        return [*arrays, do, exact["lse"].astype(F32), exact["delta"].astype(F32)]

    def expected(key):
        arrays, options = attention_arrays(name)
        found = exact_attention(*arrays, numbers(*arrays[0].shape, seed=5), **options)
        return tuple([found[k] for k in key]) if isinstance(key, tuple) else found[key]

    def add(kernel, key, function, is_backward):
        def call(target):
            arrays, options = inputs(is_backward), attention_arrays(name)[1]
            return lambda *values: function(attention.Options(**options, target=target), target, *with_absent(arrays, values))

        CASES[f"{kernel}, {name}"] = Case(call, lambda: present(inputs(is_backward)), lambda *_: expected(key), 2e-5)

    add("attention", ("out", "lse"), attention._forward, False)
    if name in ("window, grouped", "segments, soft cap", "row of bias"):
        add("query gradient", "q", attention._query_gradient, True)
        add("key and value gradients", "kv", attention._key_value_gradients, True)
    if name == "bias":
        add("bias gradient", "logits", attention._logit_gradient, True)


for name in ATTENTION:
    add_attention(name)


# Norms


def exact_norm(x, weight, bias, dy, epsilon, is_centered):
    """Results, and the gradients of x, weight and bias."""
    x, dy = x.astype(float), dy.astype(float)
    x = x - x.mean(1, keepdims=True) if is_centered else x
    factor = 1 / np.sqrt((x * x).mean(1, keepdims=True) + epsilon)
    y = x * factor
    g = dy * weight
    mean = g.mean(1, keepdims=True) if is_centered else 0
    return y * weight + bias, (g - mean - y * (g * y).mean(1, keepdims=True)) * factor, (dy * y).sum(0), dy.sum(0)


def add_norm(name, is_centered):
    x, dy, weight, bias = numbers(19, 40), numbers(19, 40, seed=1), numbers(1, 40, seed=2), numbers(1, 40, seed=3)

    def exact():
        return exact_norm(x, weight, bias, dy, 0.01, is_centered)

    def options(target):
        return norms.Options(0.01, is_centered, target)

    def gradients(target):
        return lambda *arrays: norms._backward(options(target), target, *arrays)

    CASES[name] = Case(lambda target: lambda *arrays: norms._forward(options(target), target, *arrays), lambda: (x, weight, bias),
                       lambda *_: exact()[0])
    CASES[f"{name} gradient"] = Case(gradients, lambda: (x, weight, dy), lambda *_: exact()[1:], sums=(1, 2))


add_norm("rms norm", False)
add_norm("layer norm", True)


# Cross-entropy


def exact_cross_entropy(hidden, weights, labels):
    logits = hidden.astype(float) @ weights.astype(float)
    lse = np.log(np.exp(logits).sum(1))
    return lse, np.where(labels < 0, 0, np.take_along_axis(logits, np.maximum(labels, 0)[:, None], 1)[:, 0])


LABELS = np.random.default_rng(3).integers(-1, 150, (1, 37)).astype(I32)
CASES["cross-entropy"] = Case(
    lambda target: functools.partial(cross_entropy._forward, target),
    lambda: (numbers(37, 140) / 8, numbers(140, 150, seed=1), LABELS),
    lambda hidden, weights, labels: tuple([x[None] for x in exact_cross_entropy(hidden, weights, labels[0])]), 2e-5)


# Products


def exact_groups(x, y, sizes, start=0):
    """Products of groups of rows; the first group begins at row `start`."""
    ends = start + np.cumsum(sizes)
    out = np.zeros((len(x), y.shape[2]))
    for g, end in enumerate(ends):
        out[end - sizes[g]:end] = x[end - sizes[g]:end].astype(float) @ y[g]
    return out


def exact_transposed_groups(x, dy, sizes, start=0):
    ends = start + np.cumsum(sizes)
    return np.stack([x[e - n:e].astype(float).T @ dy[e - n:e] for e, n in zip(ends, sizes)])


SIZES = np.array([5, 0, 130, 1, 40], I32)  # of 190 rows, of which 14 are in no group
for name, first, groups in (("grouped matmul", 0, 5), ("some groups", 2, 2)):
    offsets = np.append(0, np.cumsum(SIZES)).astype(I32)[first:first + groups + 1]
    CASES[name] = Case(
        lambda target: functools.partial(grouped_products._products, grouped_products.Options("float32"), target),
        lambda groups=groups, offsets=offsets: (numbers(190, 20), numbers(groups, 20, 24, seed=1), offsets),
        lambda x, y, offsets: exact_groups(x, y, np.diff(offsets), offsets[0]))
    CASES[f"{name}, transposed"] = Case(
        lambda target: functools.partial(grouped_products._products, grouped_products.Options("float32", True), target),
        lambda groups=groups, offsets=offsets: (numbers(190, 20), numbers(groups, 24, 20, seed=1), offsets),
        lambda x, y, offsets: exact_groups(x, y.swapaxes(1, 2), np.diff(offsets), offsets[0]))
    CASES[f"{name} gradient"] = Case(
        lambda target: functools.partial(grouped_products._transposed_products, grouped_products.Options("float32"), target),
        lambda offsets=offsets: (numbers(190, 20), numbers(190, 24, seed=1), offsets),
        lambda x, dy, offsets: exact_transposed_groups(x, dy, np.diff(offsets), offsets[0]))


def integers(*shape, seed=0, low=-128, high=128, dtype=np.int8):
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def add_quantized(name, lhs, rhs, is_transposed=False):
    def exact(lhs, rhs, rows, columns):
        return lhs.astype(float) @ (rhs.T if is_transposed else rhs).astype(float) * rows.T * columns

    CASES[f"quantized matmul, {name}"] = Case(
        lambda target: functools.partial(quantized_products._product, quantized_products.Options("float32", is_transposed), target),
        lambda: (lhs, rhs, abs(numbers(1, 40, seed=2)) / 99, abs(numbers(1, 36, seed=3)) / 99), exact)


FP8 = np.dtype(ml_dtypes.float8_e4m3fn)
add_quantized("int8", integers(40, 132), integers(132, 36, seed=1))
add_quantized("int8 weights", numbers(40, 132, dtype=BF16), integers(36, 132, seed=1), True)
add_quantized("fp8", numbers(40, 132, dtype=FP8), numbers(132, 36, seed=1, dtype=FP8))
add_quantized("fp8 weights", numbers(40, 132), numbers(132, 36, seed=1, dtype=ml_dtypes.float8_e5m2))


# Paged attention


def exact_pages(q, k_pages, v_pages, lengths, table):
    out = np.zeros((*q.shape[:3], v_pages.shape[3]))
    for b, length in enumerate(lengths):
        for h in range(q.shape[1]):
            if length:
                k, v = (x[h, table[b]].reshape(-1, x.shape[3])[:length] for x in (k_pages, v_pages))
                found = exact_attention(q[b, h][None, None], k[None, None], v[None, None], scale=0.3, soft_cap=5.0)
                out[b, h] = found["out"][0, 0]
    return out


CASES["paged attention"] = Case(
    lambda target: functools.partial(paged._forward, paged.Options(0.3, 5.0), target),
    lambda: (numbers(3, 2, 3, 24), numbers(2, 7, 16, 24, seed=1), numbers(2, 7, 16, 24, seed=2), np.array([40, 0, 16], I32),
             integers(3, 4, seed=3, low=0, high=7, dtype=I32)), exact_pages)


# One of each kernel, which are compiled for chips.
COMPILED = ["attention, window, grouped", "attention, segments, soft cap", "query gradient, window, grouped",
            "key and value gradients, segments, soft cap", "bias gradient, bias", "rms norm gradient", "layer norm",
            "layer norm gradient", "cross-entropy", "grouped matmul", "grouped matmul, transposed", "grouped matmul gradient",
            "quantized matmul, int8", "quantized matmul, int8 weights", "quantized matmul, fp8",
            "quantized matmul, fp8 weights", "paged attention"]


def flat(x):
    return [np.asarray(y, np.float64) for y in xf.tree.leaves(x)]
