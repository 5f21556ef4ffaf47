"""Image resizing against loops over weights, interpolation at coordinates against SciPy."""

import numpy as np
import pytest
import scipy.ndimage
from laws import check_batching, check_derivatives

import xlafront as xf
from xlafront import image
from xlafront.scipy import ndimage

X = np.arange(12.0, dtype=np.float32).reshape(3, 4) ** 1.5


def cubic(a):
    return lambda d: ((a + 2) * d - a - 3) * d * d + 1 if d < 1 else ((a * d - 5 * a) * d + 8 * a) * d - 4 * a if d < 2 else 0.0


KERNELS = {
    "linear": lambda d: max(0.0, 1 - d), "cubic": cubic(-0.5), "lanczos3": lambda d: np.sinc(d) * np.sinc(d / 3) if d <= 3 else 0.0,
    "lanczos5": lambda d: np.sinc(d) * np.sinc(d / 5) if d <= 5 else 0.0}


def resize_by_loops(x, new, scale, shift, kernel, antialias):
    """Resize the first dimension: each new element is a mean of the old ones, weighted by their distance from its
    source position."""
    result = np.zeros((new, *x.shape[1:]))
    for i in range(new):
        at = (i + 0.5 - shift) / scale - 0.5
        weights = np.array([kernel(abs(at - j) / (max(1 / scale, 1) if antialias else 1)) for j in range(len(x))])
        if -0.5 <= at <= len(x) - 0.5:
            result[i] = np.tensordot(weights, x, 1) / weights.sum()
    return result


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("method", KERNELS)
def test_resize(method, antialias, rng):
    for shape in ((5, 3), (2, 2), (3, 9)):
        expected = X
        for d in (0, 1):
            if shape[d] != X.shape[d]:
                rows = resize_by_loops(np.moveaxis(expected, d, 0), shape[d], shape[d] / X.shape[d], 0.0, KERNELS[method], antialias)
                expected = np.moveaxis(rows, 0, d)
        np.testing.assert_allclose(image.resize(X, shape, method, antialias), expected, rtol=1e-4, atol=1e-4)
    scale, shift = np.array([0.8], np.float32), np.array([-0.5], np.float32)
    got = image.scale_and_translate(X, (3, 5), (1,), scale, shift, method, antialias)
    np.testing.assert_allclose(got, resize_by_loops(X.T, 5, 0.8, -0.5, KERNELS[method], antialias).T, rtol=1e-4, atol=1e-4)
    if antialias and method == "cubic":
        check_derivatives(lambda x, s, t: image.scale_and_translate(x, (3, 5), (1,), s, t, method), [X, scale, shift], rng)
        check_batching(lambda x: image.resize(x, (2, 5), method), [X])


@pytest.mark.parametrize("size, new", [(4, 8), (4, 11), (7, 3), (1, 3), (2, 5)])
def test_cubic_pytorch_without_antialiasing(size, new, rng):
    """Positions beyond the ends read the border elements."""
    x, at = rng.normal(size=size), (np.arange(new) + 0.5) * size / new - 0.5
    taps = np.floor(at).astype(int)[:, None] + np.arange(-1, 3)
    weights = np.vectorize(cubic(-0.75))(np.abs(at[:, None] - taps))
    expected = (x[np.clip(taps, 0, size - 1)] * weights).sum(1)
    np.testing.assert_allclose(image.resize(x, (new,), "cubic-pytorch", antialias=False), expected, rtol=1e-4, atol=1e-5)


def test_lanczos_weight_at_element_centers():
    """The weight is 1 where the distance is 0 up to rounding."""
    for size, new, old, positions in ((5, 11, 2, 5), (3, 9, range(3), range(1, 9, 3)), (32, 96, range(2, 30), range(7, 91, 3))):
        weights = np.asarray(image.resize(np.eye(size, dtype=np.float32), (size, new), "lanczos3"))
        np.testing.assert_allclose(weights[old, positions], 1, atol=1e-6)


def test_nearest_area_and_method_names():
    np.testing.assert_array_equal(image.resize(X, (6, 2), "nearest"), X[np.repeat(range(3), 2)][:, [1, 3]])
    np.testing.assert_array_equal(image.resize(X.astype(np.int8), (6, 2), "nearest").dtype, np.int8)
    np.testing.assert_allclose(image.resize(X, (3, 2), "area"), X.reshape(3, 2, 2).mean(-1), rtol=1e-6)
    np.testing.assert_allclose(image.resize(X[:, :3], (3, 2), "area"), np.stack([X[:, 0] * 2 + X[:, 1], X[:, 1] + 2 * X[:, 2]], 1) / 3, rtol=1e-6)
    for name in ("bilinear", "trilinear", "triangle", image.ResizeMethod.LINEAR):
        np.testing.assert_array_equal(image.resize(X, (5, 5), name), image.resize(X, (5, 5), "linear"))
    assert image.resize(X.astype(int), (2, 2), "linear").dtype == np.float32 and image.resize(X.astype(complex), (2, 2), "linear").dtype == np.complex64
    assert image.resize(X, (0, 2), "linear").shape == (0, 2)


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("mode, theirs", [("constant", "constant"), ("nearest", "nearest"), ("wrap", "grid-wrap"), ("mirror", "mirror"), ("reflect", "reflect")])
def test_map_coordinates(mode, theirs, order, rng):
    at = [np.array([-0.7, 0.3, 1.5, 2.4, 3.9, -4.6, 1.0], np.float32), np.array([0.2, -1.6, 2.4, 3.7, 4.2, 9.3, 2.0], np.float32)]
    expected = scipy.ndimage.map_coordinates(X, at, order=order, mode="grid-constant" if mode == "constant" else theirs, cval=-1.0)
    np.testing.assert_allclose(ndimage.map_coordinates(X, at, order, mode, -1.0), expected, rtol=1e-4, atol=1e-4)
    if order:
        check_derivatives(lambda x, a, b: ndimage.map_coordinates(x, [a, b], 1, mode, -1.0), [X, at[0] + 0.01, at[1] + 0.01], rng)
        check_batching(lambda x, a: ndimage.map_coordinates(x, [a, at[1]], 1, mode), [X, at[0]])
    assert ndimage.map_coordinates(X.astype(int), at, order, mode).dtype == np.int32
    with pytest.raises(TypeError, match="bool"):
        ndimage.map_coordinates(X, [at[0] > 1, at[1]], order, mode)
    halves = np.array([[0, 1], [0, -1]]), np.array([[0.0, 1.0], [0.5, 0.5]])  # integers round halves away from 0, as in SciPy
    assert ndimage.map_coordinates(*halves, 1, mode).tolist() == [1, -1]


BAD = [
    (lambda: image.resize(X, (2,), "linear"), ValueError, "length"), (lambda: image.resize(X, (2, 2), "foo"), ValueError, "resize method"),
    (lambda: image.resize([[1.0]], (2, 2), "linear"), TypeError, "list"), (lambda: image.scale_and_translate(X, (3, 4), (0,), np.ones(1), np.ones(1), "nearest"), ValueError, "not currently supported"),
    (lambda: image.scale_and_translate(X, (3, 4), (2,), np.ones(1), np.ones(1), "linear"), ValueError, "axis 2"),
    (lambda: image.scale_and_translate(X, (3, 4), (0, 1), np.ones(1), np.ones(2), "linear"), ValueError, r"scale of shape \(2,\)"),
    (lambda: image.scale_and_translate(X, (3, 4), (0,), np.ones(1), np.ones(2), "linear"), ValueError, "translation of shape"),
    (lambda: ndimage.map_coordinates(X, [X], 1), ValueError, "input.ndim"), (lambda: ndimage.map_coordinates(X, [X, X], 2), NotImplementedError, "order<=1"),
    (lambda: ndimage.map_coordinates(X, [X, X], 1, "foo"), NotImplementedError, "support mode"),
]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "int64"])
def test_integer_images_have_the_float_dtype_of_quotients(dtype):
    with xf.enable_x64(True):
        x = xf.numpy.ones(3, dtype)
        assert image.resize(x, (4,), "linear").dtype == (x / x).dtype == ("float64" if dtype == "int64" else "float32")
        assert image.scale_and_translate(x, (3,), (0,), np.ones(1), np.ones(1), "cubic").dtype == (x / x).dtype


@pytest.mark.parametrize("call, kind, words", BAD)
def test_bad_input_raises(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


def test_orthogonal_initializers():
    make = xf.nn.initializers
    key = xf.random.key(1)
    for shape, axis in (((3, 2), -1), ((2, 3), -1), ((2, 3, 4), 0), ((4, 2, 5), 1)):
        w = np.moveaxis(np.asarray(make.orthogonal(2.0, axis)(key, shape)), axis, 0).reshape(shape[axis], -1) / 2
        product = w @ w.T if w.shape[0] <= w.shape[1] else w.T @ w
        np.testing.assert_allclose(product, np.eye(len(product)), atol=1e-5)
    # values of JAX
    np.testing.assert_allclose(make.orthogonal()(key, (2, 2)), [[-0.7505308, 0.6608353], [-0.6608353, -0.7505309]], rtol=1e-5)
    w = np.asarray(make.delta_orthogonal()(key, (3, 2, 2, 3)))
    np.testing.assert_allclose(w[1, 0] @ w[1, 0].T, np.eye(2), atol=1e-5)
    assert np.count_nonzero(w) == 6
    for init, shape, words in ((make.orthogonal(), (2,), "2D"), (make.delta_orthogonal(), (3, 3), "3D"), (make.delta_orthogonal(), (3, 3, 2), "fan_in")):
        with pytest.raises(ValueError, match=words):
            init(key, shape)


def test_map_coordinates_of_booleans():
    """An interpolated boolean is true unless it is 0; booleans as coordinates raise."""
    values, positions = np.array([False, True, True, False]), np.array([-1.2, -0.4, 0, 0.3, 0.7, 1.5, 2.5, 3.4])
    for mode in ("nearest", "mirror"):
        expected = scipy.ndimage.map_coordinates(values.astype(float), [positions], order=1, mode=mode) != 0
        np.testing.assert_array_equal(ndimage.map_coordinates(values, [positions], 1, mode), expected)
    assert ndimage.map_coordinates([1.0, 2.0], [[0.5]], 1).tolist() == [1.5]
    for bad in (lambda: ndimage.map_coordinates([1.0, 2.0], [[True]], 1), lambda: ndimage.map_coordinates([1.0, 2.0], [[0.5]], 1, cval=1j)):
        with pytest.raises(TypeError, match="map_coordinates"):
            bad()
