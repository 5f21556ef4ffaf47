"""Attention by cuDNN compared with XLA. On a GPU the kernels run; on other devices their formulas replace them."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import nn
from xlafront.nn.cudnn_attention import attention

B, T, S, N, K, H = 2, 64, 32, 4, 2, 16
SHAPES = {"query": (B, T, N, H), "key": (B, S, K, H), "value": (B, S, K, H)}


def arrays(rng, dtype, *shapes):
    return [xnp.asarray(rng.normal(size=s), dtype) for s in shapes]


def both(bias=None, mask=None, queries=None, keys=None, causal=False, window=None):
    """Return the attention by cuDNN and by XLA as functions of the differentiable operands."""
    def fused(q, k, v, bias=bias):
        return attention(q, k, v, bias, mask, queries, keys, .3, causal, window, False)

    def plain(q, k, v, bias=bias):
        return nn.dot_product_attention(q, k, v, bias, mask, scale=.3, is_causal=causal, query_seq_lengths=queries,
                                        key_value_seq_lengths=keys, local_window_size=window)

    return fused, plain


def far(x, y):
    """Return the largest difference of two arrays relative to the largest element."""
    x, y = (np.asarray(v, np.float32) for v in (x, y))
    return np.abs(x - y).max() / np.abs(y).max()


CASES = {
    "plain": {}, "causal": {"causal": True}, "window": {"causal": True, "window": (8, 0)}, "window alone": {"window": (40, 0)},
    "bias": {"bias": (B, N, T, S)}, "shared bias": {"bias": (1, N, T, S)}, "bias of a batch": {"bias": (B, 1, T, S)},
    "bias of keys": {"bias": (B, 1, 1, S)}, "causal bias": {"bias": (1, N, T, S), "causal": True},
    "mask": {"mask": (B, 1, T, S)}, "mask of keys": {"mask": (1, 1, 1, S)},
    "mask and bias": {"mask": (B, 1, T, S), "bias": (1, N, T, S)},
    "lengths": {"queries": [33, 64], "keys": [7, 30]}, "lengths of keys": {"keys": [32, 5]}, "lengths of queries": {"queries": [1, 64]},
    "causal lengths": {"queries": [40, 64], "keys": [32, 9], "causal": True},
    "lengths and bias": {"queries": [40, 64], "keys": [32, 9], "bias": (B, N, T, S)},
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients(rng, case, dtype):
    options = dict(CASES[case])
    if "mask" in options:
        options["mask"] = xnp.asarray(rng.random(options["mask"]) > .3).at[..., 0].set(True)
    if "bias" in options:
        [options["bias"]] = arrays(rng, dtype, options["bias"])
    for name in ("queries", "keys"):
        if name in options:
            options[name] = xnp.array(options[name], np.int32)
    fused, plain = both(**options)
    shapes = [(B, T, *SHAPES["key"][2:]) if "window" in options and name != "query" else s for name, s in SHAPES.items()]
    operands = arrays(rng, dtype, *shapes) + ([options["bias"]] if "bias" in options else [])
    [ct] = arrays(rng, np.float32, SHAPES["query"])

    def loss(f):
        return xf.jit(xf.value_and_grad(lambda *xs: ((y := f(*xs)).astype(np.float32) * ct).sum() + 0 * y.sum(), tuple(
            range(len(operands)))))

    tolerance = {"float16": 4e-3, "bfloat16": 3e-2}[dtype]
    assert far(fused(*operands), plain(*operands)) < tolerance
    (_, found), (_, correct) = loss(fused)(*operands), loss(plain)(*operands)
    for x, y in zip(found, correct, strict=True):
        assert x.shape == y.shape and x.dtype == y.dtype and far(x, y) < 2 * tolerance


@pytest.mark.parametrize("bias", [None, (N, T, S), (1, T, S)])
@pytest.mark.parametrize("over", ["all", "queries", "bias"])
def test_vmap_merges_batch_dimensions(rng, bias, over):
    """The mapped axis is merged with the batch dimension."""
    if over == "bias" and bias is None:
        over = "keys"
    shapes = [(3, *SHAPES["query"]), (3, *SHAPES["key"]), (3, *SHAPES["key"]), *([(3, 1, *bias)] if bias else [])]
    axes = {"all": (0, 0, 0, 0), "queries": (0, None, None, None), "keys": (None, 0, 0), "bias": (None, None, None, 0)}[over][
        :len(shapes)]
    operands = arrays(rng, np.float16, *[s if a == 0 else s[1:] for s, a in zip(shapes, axes)])

    def gradients(f):
        return xf.vmap(xf.grad(lambda *xs: (f(*xs).astype(np.float32) ** 2).sum(), tuple(range(len(operands)))), axes)

    fused, plain = both()
    for x, y in zip(gradients(fused)(*operands), gradients(plain)(*operands), strict=True):
        assert x.shape == y.shape and far(x, y) < 1e-2


def test_residual_is_the_log_sum_exp(rng):
    q, k, v = arrays(rng, np.float16, *SHAPES.values())
    (x, sums), (y, correct) = (attention(q, k, v, None, None, None, None, .3, False, None, True),
                              nn.dot_product_attention(q, k, v, scale=.3, return_residual=True))
    assert far(x, y) < 4e-3 and far(sums, correct) < 4e-3 and (sums.shape, sums.dtype) == (correct.shape, correct.dtype)
    found = xf.grad(lambda q: sum([y.astype(np.float32).sum() for y in attention(
        q, k, v, None, None, None, None, .3, False, None, True)]))(q)
    correct = xf.grad(lambda q: attention(q, k, v, None, None, None, None, .3, False, None, False).astype(np.float32).sum())(q)
    assert far(found, correct) < 1e-2  # they have no derivative


def test_gpu_lowering_calls_the_kernels(rng):
    operands = arrays(rng, np.float16, *SHAPES.values(), (1, N, T, S))
    for causal, biased, name in ((True, False, "fmhaSoftmax"), (False, True, "fmhaScaleBiasSoftmax")):
        fused, _ = both(causal=causal)
        f = xf.grad(lambda *xs, fused=fused: fused(*xs).astype(np.float32).sum())
        text = xf.jit(f).trace(*operands[:4 if biased else 3]).lower(lowering_platforms=("cuda",)).as_text()
        assert text.count(f"@__cudnn${name}(") == text.count(f"@__cudnn${name}Backward(") == 1
        assert text.count('mask_type\\22: \\22CAUSAL' if causal else 'mask_type\\22: \\22NO_MASK') == 2


def test_unsupported_arguments_raise():
    def run(shape, dtype=np.float16, derivative=False, **options):
        x = xnp.zeros(shape, dtype)
        f = both(**options)[0]
        return xf.grad(lambda x: f(x, x, x).sum())(x) if derivative else f(x, x, x)

    with pytest.raises(NotImplementedError, match="float16 or bfloat16, got float32"):
        run((1, 8, 2, 16), np.float32)
    [b] = xf.export.symbolic_shape("b")
    with pytest.raises(NotImplementedError, match="known sizes"):
        xf.eval_shape(lambda x: both()[0](x, x, x), xf.ShapeDtypeStruct((b, 8, 2, 16), np.float16))
    with pytest.raises(NotImplementedError, match="multiple of 8 and at most 256, got 12"):
        run((1, 8, 2, 12))
    with pytest.raises(NotImplementedError, match="even lengths .* got 7"):
        run((1, 7, 2, 16), derivative=True)
    with pytest.raises(NotImplementedError, match="got 64 queries and 32 keys"):
        both(window=(4, 0))[0](*[xnp.zeros(s, np.float16) for s in SHAPES.values()])
    with pytest.raises(ValueError, match=r"must be \(left, 0\)"):
        run((1, 8, 2, 16), window=(2, 2))


@pytest.mark.cpu_only
@pytest.mark.parametrize("case", ["plain", "bias", "shared bias", "mask", "causal lengths", "lengths and bias"])
@pytest.mark.parametrize("heads", [2, 4])
def test_batches_and_heads_are_sharded(rng, case, heads):
    options = dict(CASES[case])
    if "mask" in options:
        options["mask"] = xnp.asarray(rng.random(options["mask"]) > .3).at[..., 0].set(True)
    bias = [options.pop("bias")] if "bias" in options else []
    for name in ("queries", "keys"):
        if name in options:
            options[name] = xnp.array(options[name], np.int32)
    shapes = [SHAPES["query"], (B, S, heads, H), (B, S, heads, H)]
    operands = arrays(rng, np.float16, *shapes, *bias)
    mesh = xf.sharding.Mesh(np.array(xf.devices()[:4]).reshape(2, 2), ("data", "model"))
    split = xf.sharding.NamedSharding(mesh, xf.P("data", None, "model"))
    replicated = xf.sharding.NamedSharding(mesh, xf.P())
    fused, plain = both(**options)

    def gradients(f):
        return xf.value_and_grad(lambda *xs: (f(*xs).astype(np.float32) ** 2).sum(), tuple(range(len(operands))))

    placed = [xf.device_put(x, split) for x in operands[:3]] + [xf.device_put(x, replicated) for x in operands[3:]]
    run = xf.jit(gradients(fused))
    (value, found), (expected, correct) = run(*placed), gradients(plain)(*operands)
    assert far(value, expected) < 1e-2
    for x, y in zip(found, correct, strict=True):
        assert far(x, y) < 1e-2
    assert found[0].sharding.spec[:3] == ("data", None, "model")
    assert "all-gather" not in run.lower(*placed).compile().as_text()
