"""Flash attention as a function: its gradients, dtypes, arguments, and memory."""

import library_kernels
import ml_dtypes
import numpy as np
import pytest
from library_kernels import exact_attention, numbers

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import kernels, nn
from xlafront.kernels import attention
from xlafront.kernels.targets import TPU

DTYPES = {"float32": (np.float32, 1e-5), "bfloat16": (ml_dtypes.bfloat16, 2e-2), "float16": (np.float16, 3e-3)}


def exact(q, k, v, do, **options):
    """By NumPy, for arrays of shape (batch, length, heads, width)."""
    found = exact_attention(*[x.swapaxes(1, 2) for x in (q, k, v)], None, None, None, do.swapaxes(1, 2), **options)
    return [x.swapaxes(1, 2) for x in (found["out"], found["q"], *found["kv"])]


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients(dtype):
    dtype, tolerance = DTYPES[dtype]
    q, k, v, do = (numbers(1, n, heads, 24, seed=s, dtype=dtype) for s, (n, heads) in enumerate([(70, 4), (90, 2), (90, 2), (70, 4)]))
    out, pull = xf.vjp(lambda *x: kernels.flash_attention(*x, is_causal=True, local_window_size=(30, None)), q, k, v)
    expected = exact(*[x.astype(np.float64) for x in (q, k, v, do)], scale=24 ** -0.5, after=0, before=30)
    for x, y in zip([out, *pull(do)], expected):
        assert x.dtype == dtype
        np.testing.assert_allclose(np.asarray(x, np.float64), y, rtol=tolerance, atol=tolerance * np.abs(y).max())


def test_gradient_of_the_bias_and_of_the_residual():
    """Against finite differences of the NumPy function, along a direction."""
    q, k, v = (numbers(2, 12, 2, 8, seed=s) for s in range(3))

    def loss(bias, q, k):
        out, lse = kernels.flash_attention(q, k, v, bias, is_causal=True, return_residual=True)
        return (out ** 2).sum() + xnp.sin(lse).sum()

    def exact_loss(bias, q, k):
        found = exact_attention(*[x.swapaxes(1, 2) for x in (q, k, v)], bias, scale=8 ** -0.5, after=0)
        return (found["out"] ** 2).sum() + np.sin(found["lse"]).sum()

    for shape in ((1, 2, 12, 12), (2, 1, 1, 12), (1, 1, 12, 12)):
        point = [numbers(*shape, seed=3), q, k]
        way = [numbers(*x.shape, seed=7 + i) for i, x in enumerate(point)]
        found = sum([float((g * t).sum()) for g, t in zip(xf.grad(loss, (0, 1, 2))(*point), way)])
        high, low = (exact_loss(*[x.astype(np.float64) + s * t for x, t in zip(point, way)]) for s in (1e-5, -1e-5))
        np.testing.assert_allclose(found, (high - low) / 2e-5, rtol=1e-4)


def test_vmap_and_queries_without_keys():
    q, k, v = (numbers(3, 1, 20, 2, 8, seed=s) for s in range(3))
    segments = np.zeros((1, 20), np.int32), np.arange(20, dtype=np.int32)[None] // 10
    alone = segments[0] + np.int32([*[0] * 19, 5])
    mapped = xf.vmap(lambda *x: kernels.flash_attention(*x, segment_ids=(alone, segments[1])))(q, k, v)
    for i in range(3):
        arrays = [x[i].swapaxes(1, 2) for x in (q, k, v)]
        expected = exact_attention(*arrays, None, alone[:, None], segments[1][:, None], scale=8 ** -0.5)["out"].swapaxes(1, 2)
        np.testing.assert_allclose(np.asarray(mapped[i]), expected, rtol=1e-5, atol=1e-5)
    assert not mapped[:, :, -1].any()


@pytest.mark.parametrize("options", [
    {}, {"is_causal": True}, {"local_window_size": (5, 4)}, {"mask": True}, {"mask": True, "bias": True}, {"lengths": True}])
def test_attention_of_nn(options):
    """`implementation="flash"` computes what "xla" does."""
    q, k, v = numbers(2, 40, 4, 8), numbers(2, 50, 2, 8, seed=1), numbers(2, 50, 2, 8, seed=2)
    arguments = {n: x for n, x in options.items() if n in ("is_causal", "local_window_size")}
    if "mask" in options:
        arguments["mask"] = numbers(2, 1, 40, 50, seed=3) > 0
    if "bias" in options:
        arguments["bias"] = numbers(4, 40, 50, seed=4)
    if "lengths" in options:
        arguments |= {"query_seq_lengths": np.int32([40, 13]), "key_value_seq_lengths": np.int32([50, 20])}
    found, plain = (nn.dot_product_attention(q, k, v, implementation=name, return_residual=True, **arguments) for name in ("flash", "xla"))
    np.testing.assert_allclose(found[0], plain[0], rtol=1e-4, atol=1e-5)
    valid = np.arange(40)[None] < np.int32([40, 13] if "lengths" in options else [40, 40])[:, None]
    np.testing.assert_allclose(np.asarray(found[1])[valid], np.asarray(plain[1])[valid], rtol=1e-4, atol=1e-5)
    assert nn.dot_product_attention(q[0], k[0], v[0], implementation="flash").shape == (40, 4, 8)


@pytest.mark.cpu_only
def test_memory_is_linear_in_the_length():
    """Of the gradient, as XLA plans it: twice the length takes twice the memory, where the logits would take four times."""
    def memory(length):
        x = xf.ShapeDtypeStruct((1, length, 1, 32), "float32")
        step = xf.jit(xf.grad(lambda q, k, v: kernels.flash_attention(q, k, v, is_causal=True).sum(), (0, 1, 2)))
        return step.lower(x, x, x).compile().memory_analysis().temp_size_in_bytes

    short, long = memory(4096), memory(8192)
    assert 1.5 * short < long < 2.1 * short
    assert long < 8192 ** 2 * 4 / 10


def test_bad_arguments():
    x = np.ones((1, 8, 2, 4), np.float32)
    for error, message, call in (
        (ValueError, "query heads that is a multiple", lambda f: f(x[:, :, :1], x, x)),
        (ValueError, "must be .batch, length, heads, width.", lambda f: f(x[0], x[0], x[0])),
        (ValueError, "one floating-point dtype", lambda f: f(x, x.astype(np.float16), x)),
        (ValueError, "one floating-point dtype", lambda f: f(*[x.astype(np.int32)] * 3)),
        (ValueError, "with elements", lambda f: f(*[x[:, :0]] * 3)),
        (TypeError, "broadcast to .batch, heads", lambda f: f(x, x, x, np.ones((8, 3), np.float32))),
        (TypeError, "a pair of arrays", lambda f: f(x, x, x, segment_ids=np.ones((1, 8), np.int32))),
        (ValueError, "segment_ids of kernels.flash_attention for keys", lambda f: f(x, x, x, segment_ids=(
            np.ones((1, 8), np.int32), np.ones((1, 7), np.int32)))),
    ):
        with pytest.raises(error, match=message):
            call(kernels.flash_attention)
    with pytest.raises(ValueError, match="'xla', 'flash' or 'cudnn'"):
        nn.dot_product_attention(x, x, x, implementation="fast")


def test_cases_have_ragged_edges():
    """Of both kinds of blocks, so that the masks of edges are tested."""
    sizes = [shape[3:5] for shape, *_ in library_kernels.ATTENTION.values()]
    assert any([n > 128 and n % 128 for pair in sizes for n in pair]) and any([n % 16 for pair in sizes for n in pair])


@pytest.mark.parametrize("before, after", [(None, None), (None, 0), (0, None), (3, 2), (100, 1), (-2, 4)])
@pytest.mark.parametrize("queries, keys", [(8, 8), (5, 12), (12, 5)])
def test_costs_count_the_scores_that_a_mask_leaves(queries, keys, before, after):
    q, k = (np.zeros((2, 3, n, 16), np.float32) for n in (queries, keys))
    plan = attention._Plan(attention.Options(1.0, before, after), TPU, dict(q=q, k=k, v=k))
    distance = np.arange(keys) - np.arange(queries)[:, None]
    counts = (distance <= (keys if after is None else after)) & (distance >= -(queries if before is None else before))
    cost = plan.cost(2)
    assert cost.transcendentals == 2 * 3 * counts.sum() and cost.flops == 2 * 2 * cost.transcendentals * plan.width
