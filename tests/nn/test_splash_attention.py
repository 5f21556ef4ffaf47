"""Splash attention with lazily computed masks, compared with attention in NumPy."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.nn import splash_attention as kernels, splash_masks as masks
from xlafront.sharding import AxisType, PartitionSpec as P

HEADS, QUERIES, KEYS, WIDTH = 4, 6, 8, 3
SETTINGS = {"head_shards": 1, "q_seq_shards": 1}
ROWS, COLUMNS = np.mgrid[:QUERIES, :KEYS]


def operands(heads_of_keys=HEADS):
    random = np.random.RandomState(0)
    return [random.randn(*shape).astype(np.float32) for shape in ((HEADS, QUERIES, WIDTH), (heads_of_keys, KEYS, WIDTH),
                                                                  (heads_of_keys, KEYS, WIDTH))]


def expected(mask, q, k, v, cap=None, sinks=None):
    """Return the attention and the log-sum-exp in NumPy."""
    k, v = (np.repeat(x, HEADS // len(x), 0) for x in (k, v))
    logits = np.einsum("htd,hsd->hts", q, k).astype(np.float64)
    if cap is not None:
        logits = cap * np.tanh(logits / cap)
    weights = np.where(mask, np.exp(logits), 0)
    total = weights.sum(-1) + (0 if sinks is None else np.exp(sinks)[:, None])
    return np.einsum("hts,hsd->htd", weights, v) / total[..., None], np.log(total)


def close(got, correct):
    np.testing.assert_allclose(got, correct, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("heads_of_keys", [HEADS, 2, 1])
def test_query_heads_share_keys(heads_of_keys):
    q, k, v = operands(heads_of_keys)
    mask = masks.MultiHeadMask([masks.CausalMask((QUERIES, KEYS), offset=i // 2) for i in range(HEADS)])
    by_head = np.stack([ROWS + i // 2 >= COLUMNS for i in range(HEADS)])
    close(kernels.make_splash_mha(mask, **SETTINGS)(q, k, v), expected(by_head, q, k, v)[0])
    if heads_of_keys == 1:
        close(kernels.make_splash_mqa_single_device(mask)(q, k[0], v[0]), expected(by_head, q, k, v)[0])


def test_options_of_the_logits():
    q, k, v = operands()
    ids, key_ids = np.array([0, 0, 0, 1, 1, 2]), np.array([0, 0, 0, 0, 1, 1, 2, 2])
    sinks = np.array([0.5, -1.0, 0.0, 2.0], np.float32)
    allowed = (ROWS >= COLUMNS - 2) & (ids[:, None] == key_ids)
    mask = masks.MultiHeadMask([masks.CausalMask((QUERIES, KEYS), 2)] * HEADS)
    attention = kernels.make_splash_mha(mask, save_residuals=True, attn_logits_soft_cap=0.7, residual_checkpoint_name="out", **SETTINGS)
    out, (total,) = xf.jit(attention)(q, k, v, kernels.SegmentIds(ids, key_ids), sinks)
    correct, correct_total = expected(allowed, q, k, v, 0.7, sinks)
    close(out, correct)
    close(total, correct_total)


def test_fully_masked_query_returns_the_mean():
    q, k, v = operands()
    mask = np.ones((HEADS, QUERIES, KEYS), bool)
    mask[:, 3] = False
    close(kernels.make_splash_mha(mask, **SETTINGS)(q, k, v)[:, 3], v.mean(1))


def test_derivatives_and_batches():
    q, k, v = operands(1)
    mask = masks.MultiHeadMask([masks.FullMask((QUERIES, KEYS))] * HEADS)
    attention = kernels.make_splash_mha(mask, **SETTINGS)
    xf.test_util.check_grads(attention, (q, k, v), order=1, modes=("rev",), atol=2e-2, rtol=2e-2)
    close(xf.vmap(attention)(q[None], k[None], v[None])[0], expected(mask[:], q, k, v)[0])


def test_one_head():
    q, k, v = operands()
    mask = COLUMNS <= ROWS
    correct, totals = expected(mask, q, k, v)
    out, (total,) = kernels.attention_reference(mask, q[0], k[0], v[0], None, save_residuals=True)
    close(out, correct[0])
    close(total, totals[0])
    close(kernels.make_masked_mha_reference(np.stack([mask] * HEADS))(q, k, v), correct)


def test_float16_is_preserved():
    q, k, v = (x.astype(xnp.bfloat16) for x in operands())
    out = kernels.make_splash_mha(np.ones((HEADS, QUERIES, KEYS), bool), **SETTINGS)(q, k, v)
    assert out.dtype == xnp.bfloat16
    correct, _ = expected(True, *(np.asarray(x, np.float32) for x in (q, k, v)))
    np.testing.assert_allclose(np.asarray(out, np.float32), correct, rtol=2e-2, atol=2e-2)


@pytest.mark.cpu_only
def test_sharding_over_devices():
    """The mask is sharded like the queries."""
    q, k, v = operands(HEADS)
    mask = masks.MultiHeadMask([masks.LocalMask((QUERIES, KEYS), (i, None), 1) for i in range(HEADS)])
    by_head = np.stack([ROWS + 1 - i <= COLUMNS for i in range(HEADS)])
    attention = kernels.make_splash_mha(mask, head_shards=2, q_seq_shards=2)
    mesh = xf.make_mesh((2, 2), ("h", "s"), axis_types=(AxisType.Auto,) * 2)
    spec = attention.manual_sharding_spec(xf.sharding.NamedSharding(mesh, P("h", "s")))
    run = xf.shard_map(lambda f, *args: f(*args), mesh=mesh, in_specs=(spec, P("h", "s"), P("h"), P("h")), out_specs=P("h", "s"))
    close(run(attention, q, k, v), expected(by_head, q, k, v)[0])


def test_masks():
    shape = (QUERIES, KEYS)
    for mask, correct in [
        (masks.CausalMask(shape, -1), COLUMNS < ROWS),
        (masks.LocalMask(shape, (2, 1), 0), (COLUMNS >= ROWS - 2) & (COLUMNS <= ROWS + 1)),
        (masks.LocalMask(shape, (None, None), 0), np.ones(shape)),
        (masks.ChunkedCausalMask(shape, 4), (COLUMNS // 4 == ROWS // 4) & (COLUMNS <= ROWS)),
        (masks.NumpyMask(COLUMNS == 1) | masks.CausalMask(shape), (COLUMNS == 1) | (COLUMNS <= ROWS)),
        (masks.CausalMask(shape, 2) & masks.LocalMask(shape, (0, None), 0), (COLUMNS >= ROWS) & (COLUMNS <= ROWS + 2)),
    ]:
        np.testing.assert_array_equal(mask[:, :], correct)
        np.testing.assert_array_equal(mask[1:3, 2:], correct[1:3, 2:])
        assert mask.shape == shape and mask != masks.FullMask(shape)
    assert masks.CausalMask(shape, 1) == masks.CausalMask(shape, 1) != masks.CausalMask(shape)
    assert len({masks.FullMask(shape), masks.FullMask(shape)}) == 1
    np.testing.assert_array_equal(masks.make_causal_mask(shape, 1), COLUMNS <= ROWS + 1)
    np.testing.assert_array_equal(masks.make_local_attention_mask(shape, (0, 0)), COLUMNS == ROWS)
    np.testing.assert_array_equal(masks.make_chunk_attention_mask(shape, 2), (COLUMNS // 2 == ROWS // 2) & (COLUMNS <= ROWS))
    # A fact of the reference.
    np.testing.assert_array_equal(masks.make_random_mask((3, 4), 0.3, 0), [[1, 0, 1, 1], [1, 1, 1, 0], [0, 1, 0, 1]])


@pytest.mark.parametrize("error, words, attempt", [
    (ValueError, "one shape", lambda: masks.CausalMask((2, 2)) | masks.FullMask((2, 3))),
    (ValueError, "one shape", lambda: masks.MultiHeadMask([masks.CausalMask((2, 2)), masks.FullMask((2, 3))])),
    (ValueError, "each head", lambda: masks.MultiHeadMask([])),
    (ValueError, "single heads", lambda: masks.MultiHeadMask([masks.MultiHeadMask([masks.FullMask((2, 3))])])),
    (ValueError, "boolean array", lambda: masks.NumpyMask(np.eye(2))),
    (ValueError, "positive", lambda: masks.ChunkedCausalMask((2, 2), 0)),
    (ValueError, "shard_count", lambda: masks.CausalMask((4, 4), shard_count=3)),
    (NotImplementedError, "no truth value", lambda: bool(masks.FullMask((2, 2)))),
    (TypeError, "two slices", lambda: masks.FullMask((2, 2))[1]),
    (NotImplementedError, "two slices", lambda: masks.FullMask((2, 2))[1, 0]),
    (ValueError, "MultiHeadMask", lambda: kernels.make_splash_mha(masks.FullMask((2, 2)), **SETTINGS)),
    (ValueError, "head_shards=3", lambda: kernels.make_splash_mha(np.ones((2, 2, 2), bool), head_shards=3, q_seq_shards=1)),
    (ValueError, "segment_ids.q", lambda: kernels.make_splash_mha(np.ones((HEADS, QUERIES, KEYS), bool), **SETTINGS)(
        *operands(), kernels.SegmentIds(np.zeros(3), np.zeros(KEYS)))),
    (ValueError, "as wide", lambda: kernels.make_splash_mha(np.ones((1, 2, 2), bool), **SETTINGS)(
        np.ones((1, 2, 3)), np.ones((1, 2, 4)), np.ones((1, 2, 4)))),
])
def test_bad_input_raises(error, words, attempt):
    with pytest.raises(error, match=words):
        attempt()


def test_block_sizes():
    sizes = kernels.BlockSizes(128, 256)
    assert (sizes.block_kv_compute, sizes.has_backward_blocks) == (256, False)
    assert kernels.BlockSizes.get_default().has_backward_blocks
