"""`xlafront.numpy.fft` against NumPy's, and `lax.fft`: all norms, odd and even lengths, any axes; derivatives, batches, jit."""

import numpy as np
import pytest
from laws import check_batching, check_derivatives

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax

R = np.random.default_rng(11)
X = R.normal(size=(3, 4, 5)).astype(np.float32)
Y = (X + 1j * R.normal(size=X.shape)).astype(np.complex64)
FOUR = R.normal(size=(2, 3, 2, 4)).astype(np.float32)
ONE = "fft ifft rfft irfft hfft ihfft".split()
SEVERAL = "fftn ifftn rfftn irfftn".split()
TWO = "fft2 ifft2 rfft2 irfft2".split()

CALLS = [
    *[(name, (x,), {}) for name in ONE for x in (X[0, 0], X[0, :, 0], np.arange(4), np.array([True, False, True]))],
    *[(name, (X, n), {"axis": axis}) for name in ONE for n, axis in ((3, 0), (8, 1), (None, 2), (1, -1))],
    *[(name, (X,), {"norm": norm, "axis": 1}) for name in ONE for norm in ("ortho", "forward", "backward")],
    *[(name, (Y,), {}) for name in ("fft", "ifft", "irfft", "hfft", *SEVERAL[:2], "irfftn", "fft2", "irfft2")],
    *[(name, (X,), options) for name in SEVERAL for options in (
        {}, {"s": (2, 6), "axes": (1, 2)}, {"axes": (2, 0)}, {"s": (5, 4), "axes": (0, 1)}, {"axes": (1,), "norm": "ortho"},
        {"norm": "forward"}, {"s": (3, 4), "axes": (2, 0)})],
    *[(name, (X,), options) for name in TWO for options in ({}, {"s": (3, 7)}, {"axes": (0, 1), "norm": "ortho"})],
    *[(name, (FOUR,), {}) for name in SEVERAL],
    *[(name, (n, d), {}) for name in ("fftfreq", "rfftfreq") for n in (1, 4, 5) for d in (1.0, 0.25)],
    *[(name, (x,), {"axes": axes}) for name in ("fftshift", "ifftshift") for x in (X, np.arange(5)) for axes in (None, 0)],
    *[(name, (X,), {"axes": (0, 2)}) for name in ("fftshift", "ifftshift")],
]  # fmt: skip


@pytest.mark.parametrize("name, args, options", [pytest.param(*row, id=f"{i}-{row[0]}") for i, row in enumerate(CALLS)])
def test_against_numpy(name, args, options):
    given = {**options, "s": tuple(args[0].shape[a] if n == -1 else n for n, a in zip(options["s"], options["axes"]))} if (
        -1 in options.get("s", ())) else options  # fmt: skip
    expected = getattr(np.fft, name)(*args, **given)
    found = getattr(xnp.fft, name)(*args, **options)
    narrow = {"float64": "float32", "complex128": "complex64", "int64": "int32"}
    assert found.dtype == narrow.get(expected.dtype.name, expected.dtype.name) and found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5)


KINDS = [(kind, lengths) for kind in ("FFT", "IFFT", "RFFT", "IRFFT") for lengths in ((5,), (4,), (3, 4), (2, 3, 5))]


@pytest.mark.parametrize("kind, lengths", KINDS)
def test_derivatives_and_batches(kind, lengths, rng):
    """Check derivatives with complex numbers as pairs of reals, since differences are taken of each."""
    half = (*lengths[:-1], lengths[-1] // 2 + 1)
    shape = half if kind == "IRFFT" else lengths

    def f(x, y):
        found = lax.fft(x if kind == "RFFT" else lax.complex(x, y), kind, lengths)
        return (found.real, found.imag) if kind != "IRFFT" else found

    x, y = (rng.normal(size=shape) for _ in range(2))
    check_derivatives(f, [x, y], rng)
    if len(lengths) == 1:
        check_batching(f, [x.astype(np.float32), y.astype(np.float32)], tolerance=1e-4)


def test_double_precision_and_jaxprs():
    with xf.enable_x64(True):
        x = R.normal(size=(7, 12))
        np.testing.assert_allclose(xnp.fft.rfft(x), np.fft.rfft(x), rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(xnp.fft.irfftn(xnp.fft.rfftn(x), x.shape), x, rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(xf.jit(xnp.fft.fft2)(x), np.fft.fft2(x), rtol=1e-12, atol=1e-12)
    for f, names in ((xnp.fft.rfft, ["fft"]), (xnp.fft.fft2, ["convert_element_type", "fft"]), (xnp.fft.irfft, ["convert_element_type", "fft"])):
        assert [e.primitive.name for e in xf.make_jaxpr(f)(X[0, :, :3]).eqns if e.primitive.name != "pad"] == names
    [equation] = xf.make_jaxpr(lambda x: lax.fft(x, lax.FftType.RFFT, (5,)))(X).eqns
    assert equation.primitive is lax.fft_p and equation.params == {"fft_type": lax.FftType.RFFT, "fft_lengths": (5,)}


def test_empty_axes():
    empty = np.zeros((2, 0), np.float32)
    assert xnp.fft.fft(empty).shape == (2, 0) and xnp.fft.fft(empty, 3, 0).shape == (3, 0)
    assert xnp.fft.fftn(X, axes=()).dtype == xnp.fft.irfftn(X, axes=()).dtype == np.complex64
    assert xnp.fft.rfftn(np.zeros((0, 4), np.float32)).shape == (0, 3)
    assert xnp.fft.irfft(xnp.zeros(0, "float16")).dtype == xnp.fft.irfftn(xnp.zeros((0, 3), "bfloat16")).dtype == np.float32
    for name in ("rfft", "ihfft"):
        with pytest.raises(ValueError, match="at least one data point"):
            getattr(xnp.fft, name)(empty)


INVALID = [
    (ValueError, "invalid number of data points", "fft.fft(X, 0) | fft.rfft(X, -2)"),
    (ValueError, "real", "fft.rfft(Y) | fft.ihfft(Y) | fft.rfft2(Y)"),
    (ValueError, "norm", "fft.fft(X, norm='foo') | fft.hfft(X, norm='foo')"),
    (ValueError, "axes", "fft.fft(X, axis=(0, 1)) | fft.fftn(X, axes=(0, 0)) | fft.fft2(X, axes=(0, 1, 2)) | fft.fftn(X, (1, 2), (0,))"),
    (ValueError, "unknown FFT type", "lax.fft(Y, 'foo', (5,))"),
    (ValueError, "last dimensions", "lax.fft(Y, 'FFT', (4,)) | lax.fft(Y, 'IRFFT', (6,))"),
    (ValueError, "1, 2 or 3 dimensions", "lax.fft(FOUR, 'FFT', (2, 3, 2, 4))"),
    (ValueError, "float32", "lax.fft(Y, 'RFFT', (5,)) | lax.fft(X.astype(np.float16), 'RFFT', (5,))"),
    (TypeError, "FFT type|lengths", "lax.fft(Y, 1, (5,)) | lax.fft(Y, 'FFT', 5)"),
    (IndexError, "axis", "fft.fft(X, axis=3) | fft.fftn(X, axes=(0, 5)) | fft.fftshift(X, 4)"),
    (TypeError, "axis twice", "fft.fftn(X, axes=(-1, 2)) | fft.rfft2(Y, axes=(2, -1))"),
    (IndexError, "axis", "fft.hfft(X, axis=3, norm='foo') | fft.ihfft(X, axis=3, norm='foo')"),
    (TypeError, "array", "fft.fft([1.0]) | fft.fftn([1.0]) | fft.fftshift([1])"),
]  # fmt: skip


@pytest.mark.parametrize("error, word, call", [(error, word, call.strip()) for error, word, calls in INVALID for call in calls.split("|")])
def test_invalid_arguments_raise(error, word, call):
    with pytest.raises(error, match=word):
        eval(call, {"fft": xnp.fft, "lax": lax, "np": np, "X": X, "Y": Y, "FOUR": FOUR})
