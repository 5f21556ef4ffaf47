"""Values at the edge of what functions are for, beside NumPy's."""

import io

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
import xlafront.scipy.linalg as linalg
from xlafront import lax

NAN = np.nan


def test_unique_takes_every_complex_nan_for_one():
    x = np.array([1, complex(NAN, 0), complex(0, NAN), complex(NAN, NAN), 1], np.complex64)
    values, inverse, counts = xnp.unique(x, return_inverse=True, return_counts=True)
    wanted = np.unique(x, return_inverse=True, return_counts=True)
    np.testing.assert_array_equal(np.isnan(values), np.isnan(wanted[0]))
    np.testing.assert_array_equal(inverse, wanted[1])
    np.testing.assert_array_equal(counts, wanted[2])
    assert xnp.unique(x, equal_nan=False).shape == np.unique(x, equal_nan=False).shape


def test_spacing_of_float16():
    x = np.array([-1, 1, 65504, -65504, 0, -0., 6e-8, 2e-5, np.inf, -2, NAN], np.float16)
    with np.errstate(over="ignore"):
        wanted = np.spacing(x)
    np.testing.assert_array_equal(xnp.spacing(x), wanted)


def test_linear_algebra_of_nothing():
    zeros = np.zeros((2, 2), np.float32)
    with np.errstate(invalid="ignore"):
        assert xnp.linalg.cond(zeros, -2) == np.linalg.cond(zeros, -2) == np.inf
    assert np.isnan(xnp.linalg.cond(zeros + NAN, -2))
    x = np.diag([4., 2.]).astype(np.float32)
    np.testing.assert_allclose(xnp.linalg.cond(x, -2), np.linalg.cond(x, -2))
    for y in (np.arange(6.).reshape(3, 2), np.arange(3.)):
        found, wanted = (m.linalg.lstsq(np.zeros((3, 0), np.float32), y.astype(np.float32)) for m in (xnp, np))
        np.testing.assert_allclose(found[1], wanted[1])
        assert found[0].shape == wanted[0].shape
    for degree in (0, 1):
        y = np.arange(10.).reshape(5, 2) ** 2
        for how in ("unscaled", True):
            for values in (y, y[:, 0]):
                found, wanted = (m.polyfit(np.arange(5.), values, degree, cov=how) for m in (xnp, np))
                np.testing.assert_allclose(found[1], wanted[1], 1e-4)


def test_one_key_without_dimensions_is_in_order():
    assert xnp.lexsort(np.array([3, 1, 2])) == np.lexsort(np.array([3, 1, 2])) == 0
    np.testing.assert_array_equal(xnp.lexsort([np.array([3, 1, 2])]), [1, 2, 0])


def test_nothing_is_put_in_at_no_place():
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(xnp.insert(x, np.zeros(0, np.float32), 5), x)
    with pytest.raises(ValueError, match="integer"):
        xnp.insert(x, np.ones(1, np.float32), 5)


@pytest.mark.parametrize("decimals", [39, 40, 308, 400, 10**6])
def test_more_decimals_than_numbers_have(decimals):
    x = np.array([1.5, -2.25, NAN, np.inf, 1e-30], np.float32)
    np.testing.assert_array_equal(xnp.round(x, decimals), x)


@pytest.mark.parametrize("shift, axis", [(2**40 + 1, None), (-2**70, None), ((2**40, 2**33 + 1), (0, 1)), (2**31, 1), (-2**31 - 1, 0)])
def test_rolls_by_numbers_that_no_int32_holds(shift, axis):
    x = np.arange(12).reshape(4, 3)
    small = tuple(s % 12 for s in shift) if isinstance(shift, tuple) else shift % 12
    wanted = np.roll(x, small, axis)  # 12 is a multiple of every size
    np.testing.assert_array_equal(xnp.roll(x, shift, axis), wanted)
    np.testing.assert_array_equal(xf.jit(lambda x: xnp.roll(x, shift, axis))(x), wanted)


def test_files_may_be_told_to_hold_no_objects():
    file = io.BytesIO()
    xnp.savez(file, a=np.arange(3), allow_pickle=False)
    file.seek(0)
    assert list(xnp.load(file)) == ["a"]


def test_starts_that_may_not_be_negative():
    x = np.arange(5)
    for f in (lambda s: lax.dynamic_slice(x, s, (2,), allow_negative_indices=False),
              lambda s: lax.dynamic_update_slice(x, x[:1], s, allow_negative_indices=[False])):
        for start in ([-1], (np.int32(-2),), np.array([-1])):
            with pytest.raises(ValueError, match="negative"):
                f(start)
    np.testing.assert_array_equal(lax.dynamic_slice(x, (xnp.int32(-1),), (2,), allow_negative_indices=False), [0, 1])
    np.testing.assert_array_equal(lax.dynamic_slice(x, (-2,), (2,)), [3, 4])


def test_batches_of_schur_forms(rng):
    a = rng.normal(size=(2, 3, 4, 4)).astype(np.float32)
    t, z = linalg.schur(a)
    found, vectors = linalg.rsf2csf(t, z)
    assert found.shape == a.shape and np.abs(np.tril(found, -1)).max() == 0
    np.testing.assert_allclose(vectors @ found @ np.conj(np.swapaxes(vectors, -1, -2)), a, atol=2e-5)
