"""Cosine transforms, convolutions, spectra and trends of signals against SciPy."""

import itertools

import numpy as np
import pytest
import scipy.fft
import scipy.signal
from laws import check_batching, check_derivatives

import xlafront as xf
import xlafront.scipy as jsp


@pytest.mark.parametrize("norm", [None, "ortho"])
def test_cosine_transforms(norm, rng):
    with xf.enable_x64(True):
        for n in (1, 2, 5, 8):
            x = rng.normal(size=(3, n)) + 1j * rng.normal(size=(3, n))
            for v, name in itertools.product((x, x.real), ("dct", "idct", "dctn", "idctn")):
                expected = getattr(scipy.fft, name)(v, norm=norm)
                np.testing.assert_allclose(getattr(jsp.fft, name)(v, norm=norm), expected, atol=1e-12)
        x = rng.normal(size=(4, 5, 3))
        np.testing.assert_allclose(jsp.fft.dct(x, n=7, axis=1, norm=norm), scipy.fft.dct(x, n=7, axis=1, norm=norm), atol=1e-12)
        np.testing.assert_allclose(jsp.fft.idct(x, n=2, axis=0, norm=norm), scipy.fft.idct(x, n=2, axis=0, norm=norm), atol=1e-12)
        for options in ({"s": (6, 2)}, {"s": (3, 4), "axes": (0, -1)}, {"axes": (1,)}):
            for name in ("dctn", "idctn"):
                expected = getattr(scipy.fft, name)(x, norm=norm, **options)
                np.testing.assert_allclose(getattr(jsp.fft, name)(x, norm=norm, **options), expected, atol=1e-12)


def test_dtypes_of_cosine_transforms():
    for given, expected in (("int32", "float32"), ("bfloat16", "float32"), ("float32", "float32"), ("complex64", "complex64")):
        assert jsp.fft.dct(xf.numpy.ones(4, given)).dtype == expected
        for transform in (jsp.fft.dctn, jsp.fft.idctn):  # along no axis: the array itself
            assert transform(xf.numpy.ones((), given)).dtype == transform(xf.numpy.ones(4, given), axes=()).dtype == given
    check_derivatives(jsp.fft.idct, [np.arange(5.0)], np.random.default_rng(0))
    check_batching(jsp.fft.dct, [np.arange(5.0, dtype=np.float32)])


SHAPES = [((7,), (3,)), ((3,), (7,)), ((5, 6), (2, 3)), ((2, 3), (5, 6)), ((4, 4), (4, 4)), ((5, 3), (2, 2)), ((4, 3, 2), (2, 3, 1))]


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_convolutions(mode, rng):
    with xf.enable_x64(True):
        for m, n in SHAPES:
            a, b = rng.normal(size=m) + 1j * rng.normal(size=m), rng.normal(size=n)
            for name in ("convolve", "correlate"):
                expected = getattr(scipy.signal, name)(a, b, mode)
                for method in ("auto", "direct", "fft"):
                    np.testing.assert_allclose(getattr(jsp.signal, name)(a, b, mode, method), expected, atol=1e-12)
            np.testing.assert_allclose(jsp.signal.fftconvolve(a.real, b, mode), scipy.signal.fftconvolve(a.real, b, mode), atol=1e-12)
            if len(m) == 2:
                for name in ("convolve2d", "correlate2d"):
                    np.testing.assert_allclose(getattr(jsp.signal, name)(a, 1j * b, mode), getattr(scipy.signal, name)(a, 1j * b, mode), atol=1e-12)
        x, y = rng.normal(size=(2, 4, 6))
        np.testing.assert_allclose(jsp.signal.fftconvolve(x, y[:, :3], mode, 1), scipy.signal.fftconvolve(x, y[:, :3], mode, 1), atol=1e-12)


def test_convolution_identities(rng):
    a, b = rng.normal(size=6), rng.normal(size=3)
    check_derivatives(lambda x, y: jsp.signal.correlate(x, y, "same"), [a, b], rng)
    check_derivatives(jsp.signal.fftconvolve, [a, b], rng)
    check_batching(jsp.signal.convolve, [a.astype(np.float32), b.astype(np.float32)])
    assert jsp.signal.convolve(np.arange(3), np.arange(3)).dtype == np.float32


SEGMENTS = [
    {}, {"nperseg": 32}, {"nperseg": 32, "noverlap": 20}, {"nperseg": 31, "noverlap": 7, "nfft": 40}, {"nperseg": 32, "return_onesided": False},
    {"nperseg": 32, "detrend": "linear", "window": ("tukey", 0.3)}, {"window": np.arange(1.0, 21), "nperseg": 20, "fs": 3.0},
    {"nperseg": 32, "detrend": lambda v: v * 2},
]
ENDS = [{}, {"boundary": None, "padded": False}, {"boundary": "even"}, {"boundary": "odd"}, {"boundary": "constant"}]


def signals(rng):
    x, y = rng.normal(size=(2, 2, 103))
    return x, y, x + 1j * y


def check(ours, theirs):
    for a, b in zip(ours, theirs):
        np.testing.assert_allclose(a, b, atol=1e-12)


@pytest.mark.filterwarnings("ignore:.*nperseg:UserWarning", "ignore:.*complex:UserWarning")
@pytest.mark.parametrize("options", SEGMENTS)
def test_spectra(options, rng):
    x, y, z = signals(rng)
    with xf.enable_x64(True):
        check(jsp.signal.stft(x, **options), scipy.signal.stft(x, **options))
        check(jsp.signal.stft(z.T, axis=0, **options), scipy.signal.stft(z.T, axis=0, **options))
        check(jsp.signal.welch(x, **options), scipy.signal.welch(x, **options))
        for more in ({"scaling": "spectrum"}, {"average": "median"}):
            check(jsp.signal.csd(x, y[:, :90], **options, **more), scipy.signal.csd(x, y[:, :90], **options, **more))
        check(jsp.signal.csd(z, y, **options), scipy.signal.csd(z, y, **options))


def test_default_segment_is_the_entire_signal(rng):
    """SciPy uses 256 samples; the length here is that of the first signal."""
    x, y = rng.normal(size=(2, 300))
    with xf.enable_x64(True):
        check(jsp.signal.welch(x), scipy.signal.welch(x, nperseg=300))
        check(jsp.signal.csd(x[:200], y), scipy.signal.csd(x[:200], y, nperseg=200))
        assert jsp.signal.stft(x, nperseg=None)[0].shape == (151,) and jsp.signal.stft(x)[0].shape == (129,)
    with pytest.raises(ValueError, match="axis 0"):
        jsp.signal.csd(np.ones((4, 5)), np.ones((4, 3)), axis=0)


@pytest.mark.parametrize("ends", ENDS)
def test_boundary_extensions(ends, rng):
    x, _, _ = signals(rng)
    with xf.enable_x64(True):
        check(jsp.signal.stft(x, nperseg=32, **ends), scipy.signal.stft(x, nperseg=32, **ends))


@pytest.mark.parametrize("options", [{"nperseg": 32}, {"nperseg": 31, "noverlap": 16}, {"nperseg": 32, "window": "hamming", "noverlap": 9, "nfft": 50}])
def test_istft_inverts_stft(options, rng):
    x, _, z = signals(rng)
    with xf.enable_x64(True):
        for v, sides in ((x, True), (z, False)):
            transforms = scipy.signal.stft(v, return_onesided=sides, **options)[2]
            times, found = jsp.signal.istft(transforms, input_onesided=sides, **options)
            np.testing.assert_allclose(found, scipy.signal.istft(transforms, input_onesided=sides, **options)[1], atol=1e-12)
            np.testing.assert_allclose(found[..., :103], v, atol=1e-10)
            np.testing.assert_array_equal(times, np.arange(found.shape[-1]))
            turned = jsp.signal.istft(np.moveaxis(transforms, -1, 0), input_onesided=sides, boundary=False, time_axis=0, freq_axis=2, **options)[1]
            np.testing.assert_allclose(turned, scipy.signal.istft(transforms, input_onesided=sides, boundary=False, **options)[1].T, atol=1e-12)


WINDOWS = ["boxcar", "hann", "hamming", "blackman", "nuttall", "blackmanharris", "flattop", "bartlett", "triang", "parzen", "bohman", "cosine", "tukey",
           ("tukey", 0.0), ("kaiser", 3.0), 7.0, ("gaussian", 3.0), ("general_gaussian", 1.5, 3.0), ("exponential", None, 2.0), ("general_hamming", 0.6),
           ("general_cosine", (0.5, 0.3, 0.2)), "han", "flat", "barthann", "lanczos", "taylor", ("taylor", 6, 45.0), ("taylor", 5, 35, False), ("chebwin", 60.0),
           ("cheb", 100.0), ("dpss", 0.7), ("general cosine", (0.5, 0.3)), "hann_symmetric", ("kaiser_symmetric", 4.0), "exponential"]


@pytest.mark.parametrize("window", WINDOWS)
def test_windows(window):
    from xlafront.special.signal_windows import window as ours
    for n in (1, 2, 7, 8):
        np.testing.assert_allclose(ours(window, n), scipy.signal.get_window(window, n), atol=1e-14)


@pytest.mark.parametrize("n", [64, 257, 1000])
def test_long_windows(n):
    from xlafront.special.signal_windows import window as ours
    known = [("dpss", 2.0), ("dpss", 4.0), ("dpss_symmetric", 3.5), ("chebwin", 80.0), "taylor"]
    known += [("kbd_symmetric", 4.0), ("kaiser_bessel_derived_symmetric", 14.0)] if n % 2 == 0 else []
    for window in known:
        np.testing.assert_allclose(ours(window, n), scipy.signal.get_window(window, n), atol=1e-11)
    for bad in (("kbd", 4.0), ("kbd_symmetric", 4.0)):
        with pytest.raises(ValueError, match="even"):
            ours(bad, n // 2 * 2 + (bad[0] != "kbd"))


def test_detrend(rng):
    z = signals(rng)[2]
    with xf.enable_x64(True):
        for options in ({}, {"type": "constant"}, {"bp": 40}, {"bp": [3, 50]}, {"axis": 0}):
            np.testing.assert_allclose(jsp.signal.detrend(z, **options), scipy.signal.detrend(z, **options), atol=1e-12)
    check_derivatives(jsp.signal.detrend, [rng.normal(size=7)], rng)


def test_transformations_of_spectra(rng):
    x = rng.normal(size=(3, 40)).astype(np.float32)
    power = lambda v: jsp.signal.welch(v, nperseg=16)[1]  # noqa: E731
    np.testing.assert_allclose(xf.jit(xf.vmap(power))(x), power(x), rtol=1e-5)
    check_derivatives(power, [x[0]], rng)
    check_derivatives(lambda v: jsp.signal.stft(v, nperseg=8)[2].real, [x[0, :20]], rng)


X = np.arange(12.0, dtype=np.float32).reshape(3, 4)
REFUSED = [
    ("fft.dct", (X, 1), {}, NotImplementedError), ("fft.dct", (X,), {"norm": "forward"}, ValueError), ("fft.dct", (X,), {"n": 0}, TypeError),
    ("fft.dct", (X,), {"n": -1}, ValueError), ("fft.dct", ([1.0],), {}, TypeError), ("fft.dctn", (X,), {"axes": (0, 0)}, ValueError),
    ("fft.idct", (2.0,), {}, ValueError), ("signal.convolve", (X, X, "bad"), {}, ValueError), ("signal.convolve", (X, X), {"method": "bad"}, ValueError),
    ("signal.convolve", (X, X[0]), {}, ValueError), ("signal.convolve", (np.zeros(0), X[0]), {}, ValueError),
    ("signal.convolve", (X[:2], X[:, :2], "valid"), {}, ValueError), ("signal.convolve2d", (X, X), {"boundary": "wrap"}, NotImplementedError),
    ("signal.convolve2d", (X[0], X[0]), {}, ValueError), ("signal.correlate2d", (X, X), {"fillvalue": 1}, NotImplementedError),
    ("signal.fftconvolve", (X, X[:2, :3]), {"axes": 0}, ValueError), ("signal.fftconvolve", (X, X), {"axes": 3}, ValueError),
    ("signal.detrend", (X,), {"type": "bad"}, ValueError), ("signal.detrend", (X,), {"bp": 9}, ValueError),
    ("signal.detrend", (X,), {"overwrite_data": True}, NotImplementedError), ("signal.stft", (X,), {"nperseg": 0}, ValueError),
    ("signal.stft", (X,), {"nperseg": 4, "noverlap": 4}, ValueError), ("signal.stft", (X,), {"nperseg": 4, "nfft": 2}, ValueError),
    ("signal.stft", (X,), {"nperseg": 4, "boundary": "bad"}, ValueError), ("signal.stft", (X,), {"nperseg": 4, "window": "bad"}, ValueError),
    ("signal.stft", (X,), {"nperseg": 4, "window": np.ones(3)}, ValueError), ("signal.welch", (X,), {"scaling": "bad"}, ValueError),
    ("signal.welch", (X,), {"average": "bad"}, ValueError), ("signal.csd", (X, X[0]), {}, ValueError), ("signal.istft", (X[0],), {}, ValueError),
    ("signal.istft", (X,), {"noverlap": 9}, ValueError), ("signal.istft", (X,), {"time_axis": 0, "freq_axis": 0}, ValueError),
]


@pytest.mark.parametrize("name, args, options, error", REFUSED)
def test_bad_input(name, args, options, error):
    module, function = name.split(".")
    with pytest.raises(error):
        getattr(getattr(jsp, module), function)(*args, **options)
