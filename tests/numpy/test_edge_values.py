"""Edge cases of arguments, compared with NumPy."""

import io

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
import xlafront.scipy.linalg as linalg
from xlafront import lax

NAN = np.nan


def test_unique_merges_complex_nans():
    x = np.array([1, complex(NAN, 0), complex(0, NAN), complex(NAN, NAN), 1], np.complex64)
    values, inverse, counts = xnp.unique(x, return_inverse=True, return_counts=True)
    expected = np.unique(x, return_inverse=True, return_counts=True)
    np.testing.assert_array_equal(np.isnan(values), np.isnan(expected[0]))
    np.testing.assert_array_equal(inverse, expected[1])
    np.testing.assert_array_equal(counts, expected[2])
    assert xnp.unique(x, equal_nan=False).shape == np.unique(x, equal_nan=False).shape


def test_spacing_of_float16():
    x = np.array([-1, 1, 65504, -65504, 0, -0., 6e-8, 2e-5, np.inf, -2, NAN], np.float16)
    with np.errstate(over="ignore"):
        expected = np.spacing(x)
    np.testing.assert_array_equal(xnp.spacing(x), expected)


def test_linear_algebra_of_empty_matrices():
    zeros = np.zeros((2, 2), np.float32)
    with np.errstate(invalid="ignore"):
        assert xnp.linalg.cond(zeros, -2) == np.linalg.cond(zeros, -2) == np.inf
    assert np.isnan(xnp.linalg.cond(zeros + NAN, -2))
    x = np.diag([4., 2.]).astype(np.float32)
    np.testing.assert_allclose(xnp.linalg.cond(x, -2), np.linalg.cond(x, -2))
    for y in (np.arange(6.).reshape(3, 2), np.arange(3.)):
        found, expected = (m.linalg.lstsq(np.zeros((3, 0), np.float32), y.astype(np.float32)) for m in (xnp, np))
        np.testing.assert_allclose(found[1], expected[1])
        assert found[0].shape == expected[0].shape
    for degree in (0, 1):
        y = np.arange(10.).reshape(5, 2) ** 2
        for how in ("unscaled", True):
            for values in (y, y[:, 0]):
                found, expected = (m.polyfit(np.arange(5.), values, degree, cov=how) for m in (xnp, np))
                np.testing.assert_allclose(found[1], expected[1], 1e-4)


def test_lexsort_of_a_scalar_key():
    assert xnp.lexsort(np.array([3, 1, 2])) == np.lexsort(np.array([3, 1, 2])) == 0
    np.testing.assert_array_equal(xnp.lexsort([np.array([3, 1, 2])]), [1, 2, 0])
    with pytest.raises(TypeError):
        xnp.lexsort((1, 2), axis=(0,))


def test_insert_at_no_position():
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(xnp.insert(x, np.zeros(0, np.float32), 5), x)
    with pytest.raises(ValueError, match="integer"):
        xnp.insert(x, np.ones(1, np.float32), 5)


@pytest.mark.parametrize("decimals", [39, 40, 308, 400, 10**6])
def test_round_to_more_decimals_than_the_dtype_has(decimals):
    x = np.array([1.5, -2.25, NAN, np.inf, 1e-30], np.float32)
    np.testing.assert_array_equal(xnp.round(x, decimals), x)


@pytest.mark.parametrize("shift, axis", [(2**40 + 1, None), (-2**70, None), ((2**40, 2**33 + 1), (0, 1)), (2**31, 1), (-2**31 - 1, 0)])
def test_roll_by_shifts_beyond_int32(shift, axis):
    x = np.arange(12).reshape(4, 3)
    small = tuple(s % 12 for s in shift) if isinstance(shift, tuple) else shift % 12
    expected = np.roll(x, small, axis)  # 12 is a multiple of every size
    np.testing.assert_array_equal(xnp.roll(x, shift, axis), expected)
    np.testing.assert_array_equal(xf.jit(lambda x: xnp.roll(x, shift, axis))(x), expected)


def test_savez_accepts_allow_pickle_false():
    file = io.BytesIO()
    xnp.savez(file, a=np.arange(3), allow_pickle=False)
    file.seek(0)
    assert list(xnp.load(file)) == ["a"]


def test_negative_start_indices():
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


def test_functions_that_return_several_arrays_return_tuples():
    for found in (xnp.broadcast_arrays(1, xnp.ones(2)), xnp.meshgrid(xnp.ones(2), xnp.ones(3)), xnp.atleast_1d(1, 2),
                  xnp.atleast_2d(1, 2), xnp.atleast_3d(1, 2), xnp.broadcast_arrays(), xnp.atleast_1d()):
        assert type(found) is tuple


def test_cross_takes_vectors_of_three_components():
    for a, b in ((2, 2), (2, 3), (3, 4)):
        with pytest.raises(ValueError, match="(?i)dimension must be 3"):
            xnp.cross(np.ones(a), np.ones(b))


def test_histograms_of_no_values():
    for found, expected in zip(xnp.histogram(np.zeros(0)), np.histogram(np.zeros(0))):
        np.testing.assert_allclose(found, expected)
    np.testing.assert_allclose(xnp.histogram_bin_edges(np.zeros(0), 4), np.histogram_bin_edges(np.zeros(0), 4))
    assert xnp.histogram2d(np.zeros(0), np.zeros(0))[0].shape == (10, 10)


@pytest.mark.parametrize("positions", [[-9, 2], [-2], [9, 12], [-2, -4], [4, 2], [-7, -6, 1]])
def test_split_at_positions_outside_of_the_array(positions):
    for found, expected in zip(xnp.split(np.arange(6), positions), np.split(np.arange(6), positions), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_struct_with_a_size_of_none():
    with pytest.raises(ValueError, match="None in it"):
        xf.ShapeDtypeStruct((None, 2), np.float32)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_spaced_numbers_of_16_bits_are_rounded_once(dtype):
    start, stop = xnp.array(1, dtype), xnp.array(300, dtype)
    for ours, theirs in ((xnp.linspace, np.linspace), (xnp.geomspace, np.geomspace)):
        np.testing.assert_array_equal(ours(start, stop, 11), xnp.array(theirs(1, 300, 11)).astype(dtype))
    np.testing.assert_array_equal(xnp.histogram_bin_edges(xnp.array([1, 2], dtype), 10, (1, 3)), xnp.linspace(1, 3, 11).astype(dtype))


def test_default_floats_of_64_bits():
    with xf.enable_x64(True):
        assert {f(2).dtype for f in (xnp.tri, xnp.eye, xnp.ones, xnp.hanning)} == {np.dtype(np.float64)}
        assert xf.vmap(lambda x: lax.psum(x, "i"), axis_name="i")(np.array([True, False, True])).dtype == np.int32


def test_padding_values_that_are_not_needed():
    x = xnp.arange(4.0).reshape(2, 2)
    np.testing.assert_array_equal(xnp.extract(x > 0, x, fill_value=x), [1, 2, 3])
    np.testing.assert_array_equal(xnp.compress(xnp.array([True, False]), x, 0, fill_value=x[0]), [[0, 1]])


def test_place_keeps_the_weak_type():
    weak = xnp.asarray(1.0) * 2 + xnp.zeros(3, bool)
    for value in (3.0, xnp.float32(3)):
        found = xnp.place(weak, xnp.array([True, False, True]), value, inplace=False)
        assert found.weak_type
        np.testing.assert_array_equal(found, [3, 2, 3])


def test_derivatives_of_hypot_of_infinities():
    x, y = np.float32([0, 3, np.inf, 3]), np.float32([-np.inf, np.inf, 2, 4])
    np.testing.assert_array_equal(xf.vmap(xf.grad(xnp.hypot, (0, 1)))(x, y)[0], np.float32([0, 0, 0, 0.6]))


def test_views_of_complex_numbers_are_linear():
    z, x = np.complex64([1 + 2j, 3 - 1j]), np.arange(4, dtype=np.float32)
    for operand, dtype in ((z, "float32"), (x, "complex64")):
        np.testing.assert_array_equal(xf.jvp(lambda a: a.view(dtype), (xnp.asarray(operand),), (3 * operand,))[1], (3 * operand).view(dtype))
        f = lambda a: abs(a.view(dtype) ** 2).sum()
        np.testing.assert_allclose(xf.grad(f)(xnp.asarray(operand)), 2 * np.conj(operand), rtol=1e-6)


def test_weights_of_histograms_are_promoted_with_the_points():
    for points, weights, expected in (("float32", "float16", "float32"), ("float16", "float32", "float32"), ("int32", "float16", "float16"),
                                      ("float16", "int32", "float16")):
        counts, _ = xnp.histogramdd(xnp.ones((3, 2), points), weights=xnp.ones(3, weights), bins=2)
        assert counts.dtype == expected and counts.sum() == 3
