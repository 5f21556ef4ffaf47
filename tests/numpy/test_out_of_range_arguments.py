"""NaN among many numbers; shifts, diagonals and tolerances out of range: compared with NumPy."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("length", [5, 100, 4000, 5000, 70000])
def test_extremes_of_long_arrays_propagate_nan(length, dtype):
    """On CPUs XLA's reductions over some thousand numbers drop NaN."""
    with xf.enable_x64(dtype == "float64"):
        for positions in ([], [0], [length // 2, length - 1], [length - 1]):
            x = np.random.default_rng(0).normal(size=length).astype(xnp.dtype(dtype))
            x[positions] = np.nan
            both, wide = np.stack([np.ones_like(x), x]), x.astype(float)
            wides = both.astype(float)
            for name in ("argmax", "argmin"):
                ours, theirs = getattr(xnp, name), getattr(np, name)
                assert ours(x) == xf.jit(ours)(x) == theirs(wide)
                np.testing.assert_array_equal(ours(both, axis=1), theirs(wides, axis=1))
                np.testing.assert_array_equal(ours(both.T, axis=0), theirs(wides.T, axis=0))


def test_indices_of_narrow_dtypes():
    """Twice the length of the axis overflows the dtype."""
    x = np.random.default_rng(0).normal(size=200).astype(np.float32)
    assert lax.argmax(x, 0, np.uint8) == np.argmax(x) and lax.argmin(x[:100], 0, np.int8) == np.argmin(x[:100])
    x[150] = np.nan
    assert lax.argmax(x, 0, np.uint8) == 150
    assert lax.argmax(np.arange(200), 0, np.uint8) == 199


@pytest.mark.parametrize("shift", [np.int64(2**40), np.int64(-2**35 - 1), np.uint32(2**32 - 1), np.int8(-5), np.uint8(250), 7, -7])
def test_shifts_beyond_the_width(shift):
    x = np.arange(200)
    with xf.enable_x64(True):
        for a in (x, x[:3]):
            np.testing.assert_array_equal(xnp.roll(a, xnp.asarray(shift)), np.roll(a, int(shift)))
            np.testing.assert_array_equal(xf.jit(xnp.roll)(a, shift), np.roll(a, int(shift)))


@pytest.mark.parametrize("k", [2**32, -2**40, 2**31 - 1, -2**31, 1, -1, np.int8(-1), np.uint32(2**32 - 1), np.uint8(1)])
def test_diagonals_beyond_the_shape(k):
    with xf.enable_x64(True):
        m = np.ones((3, 4))
        np.testing.assert_array_equal(xnp.eye(3, 4, k=k), np.eye(3, 4, k=int(k)))
        np.testing.assert_array_equal(xnp.tri(3, 4, k=k), np.tri(3, 4, k=int(k)))
        for name in ("tril", "triu"):
            expected = getattr(np, name)(m, k=int(k))
            np.testing.assert_array_equal(getattr(xnp, name)(m, k=k), expected)
            np.testing.assert_array_equal(xf.jit(getattr(xnp, name))(m, k), expected)


@pytest.mark.parametrize("tolerances", [{}, {"rtol": np.nan}, {"atol": np.inf, "rtol": np.nan}, {"atol": np.inf}])
def test_equal_numbers_are_close(tolerances):
    a, b = np.array([1, 1, np.inf, np.nan, -np.inf]), np.array([1, 2, np.inf, np.nan, np.inf])
    with np.errstate(all="ignore"):
        near = np.isfinite(a) & np.isfinite(b) & (abs(a - b) <= tolerances.get("atol", 1e-8) + tolerances.get("rtol", 1e-5) * abs(b))
    np.testing.assert_array_equal(xnp.isclose(a, b, **tolerances), (a == b) | near)


def test_cov_of_variables_in_columns():
    """A matrix of one row is one observation of several variables; a vector is one variable."""
    row = np.arange(4.0)[None]
    assert xnp.cov(row, rowvar=False).shape == (4, 4) and xnp.isnan(xnp.cov(row, rowvar=False)).all()
    np.testing.assert_allclose(xnp.cov(row[0], rowvar=False), np.cov(row[0]), rtol=1e-6)
    np.testing.assert_allclose(xnp.cov(row.T, rowvar=False), np.cov(row.T, rowvar=False), rtol=1e-6)
