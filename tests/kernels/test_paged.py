"""Paged attention as a function: by gathered pages on CPUs, against NumPy."""

import ml_dtypes
import numpy as np
import pytest
from library_kernels import exact_attention, integers, numbers

from xlafront import kernels


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_values(dtype):
    q, k, v = numbers(3, 6, 8, dtype=dtype), numbers(2, 7, 4, 8, seed=1, dtype=dtype), numbers(2, 7, 4, 8, seed=2, dtype=dtype)
    lengths, table = np.array([13, 0, 8]), integers(3, 4, seed=3, low=0, high=7, dtype=np.int64)
    found = np.asarray(kernels.paged_attention(q, k, v, lengths, table).astype("float32"))
    assert found.shape == (3, 6, 8) and not found[1].any()
    tolerance = 1e-5 if dtype == np.float32 else 2e-2
    for b in (0, 2):
        pages = [x[:, table[b]].reshape(2, -1, 8)[:, :lengths[b]] for x in (k, v)]
        expected = exact_attention(q[b][None, :, None], *[x[None] for x in pages], scale=8 ** -0.5)["out"][0, :, 0]
        np.testing.assert_allclose(found[b], expected, rtol=tolerance, atol=tolerance)


def test_bad_arguments():
    q, pages, lengths, table = np.ones((2, 4, 8), np.float32), np.ones((2, 3, 4, 8), np.float32), np.ones(2, np.int32), np.ones((2, 3), np.int32)
    for bad in (lambda f: f(q[:, :3], pages, pages, lengths, table), lambda f: f(q, pages[..., :4], pages, lengths, table),
                lambda f: f(q, pages, pages, lengths[:1], table), lambda f: f(q, pages, pages, lengths, table[:1])):
        with pytest.raises(ValueError, match="The shapes must be"):
            bad(kernels.paged_attention)
    with pytest.raises(ValueError, match="integers in lengths"):
        kernels.paged_attention(q, pages, pages, lengths / 2, table)
