"""The kernels with the signatures of `pallas.ops`, against NumPy."""

import numpy as np
import pytest
from library_kernels import exact_attention, exact_groups, exact_norm, integers, numbers

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.compat import kernel_signatures as ops
from xlafront.experimental import pallas as pl


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_attention():
    q, k, v = (numbers(1, 2, 20, 8, seed=s) for s in range(3))
    segments = np.arange(20)[None] // 7
    expected = exact_attention(q, k, v, None, segments[:, None], segments[:, None], scale=1.0, after=0)["out"]
    close(ops.flash_attention(q, k, v, None, ops.SegmentIds(segments, segments), causal=True), expected)
    bias = numbers(1, 2, 20, 20, seed=3)
    close(ops.flash_attention(q, k, v, bias, sm_scale=0.5, block_sizes=ops.BlockSizes(128, 128, 128, 1)),
          exact_attention(q, k, v, bias, scale=0.5)["out"])
    close(ops.mha(*[x.swapaxes(1, 2) for x in (q, k, v)], segments, causal=True), expected.swapaxes(1, 2))
    pages, table = numbers(2, 5, 4, 8, seed=4), integers(1, 3, low=0, high=5, dtype=np.int32)
    found = ops.paged_attention(q[:, :, 0], pages, pages, np.array([9]), table, pages_per_compute_block=1)
    keys = pages[:, table[0]].reshape(2, -1, 8)[None, :, :9]
    close(found, exact_attention(q[:, :, :1], keys, keys, scale=1.0)["out"][:, :, 0])


def test_products_and_norms():
    x, y, sizes, before = numbers(12, 6), numbers(2, 6, 5, seed=1), np.array([3, 4]), numbers(12, 5, seed=2)
    expected = exact_groups(x, y, sizes)
    close(ops.gmm(x, y, sizes), expected)
    close(ops.gmm(x, y.swapaxes(1, 2), sizes, existing_out=before, transpose_rhs=True), np.where(np.arange(12)[:, None] < 7, expected, before))
    shard, rows = np.array([2, 3, 4, 3]), np.arange(12)[:, None]
    expected = exact_groups(x, y, shard[1:3], 2)
    close(ops.gmm(x, y, shard, group_offset=np.int32(1)), expected)
    close(ops.gmm(x, y, shard, group_offset=np.int32(1), existing_out=before), np.where((rows >= 2) & (rows < 9), expected, before))
    close(ops.gmm(x, y, shard), exact_groups(x, y, shard[:2]))  # (without it, rhs has the matrices of the first groups)
    with pytest.raises(ValueError, match="group_offset"):
        ops.gmm(x, y, shard, group_offset=np.array([1]))
    weight, bias = numbers(6, seed=3), numbers(6, seed=4)
    for function, is_centered in ((ops.layer_norm, True), (ops.rms_norm, False)):
        close(function(x, weight, bias, eps=0.01), exact_norm(x, weight, bias, x, 0.01, is_centered)[0])
    close(ops.softmax(x), np.exp(x) / np.exp(x).sum(1, keepdims=True))


def test_levels_of_optimization():
    params = pl.tpu.CompilerParams(opt_level=ops.OptLevel.O3)
    assert params.opt_level == "O3" and [level.name for level in ops.OptLevel] == ["O0", "O1", "O2", "O3"]


def test_blocks_of_masks_are_pytrees():
    info = ops.MaskInfo(xnp.zeros(2), None, xnp.ones(2), None, q_sequence=xnp.arange(4))
    assert len(xf.tree.leaves(info)) == 3 and info.is_dynamic_mask is None


def test_masks_of_libraries():
    mask = ops._ComputableMask((4, 6), lambda rows, columns: columns <= rows)
    np.testing.assert_array_equal(mask[1:3, :4], np.tril(np.ones((4, 6), bool))[1:3, :4])
    assert mask.shape == (4, 6) and mask == mask and list(mask.q_sequence) == [0, 1, 2, 3]


def test_reads_and_writes_at_indices():
    def kernel(x_ref, o_ref):
        ops.store(o_ref, (pl.ds(0, 4),), ops.load(x_ref, (pl.ds(4, 4),), mask=xnp.arange(4) < 2, other=-1.0))
        ops.store(o_ref, (pl.ds(4, 4),), ops.load(x_ref, (pl.ds(0, 4),)), mask=xnp.arange(4) < 4)

    x = np.arange(8, dtype=np.float32)
    found = pl.pallas_call(kernel, out_shape=xf.ShapeDtypeStruct((8,), "float32"), interpret=True)(x)
    np.testing.assert_array_equal(found, [4, 5, -1, -1, 0, 1, 2, 3])
