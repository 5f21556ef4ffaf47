"""The inverse of the complementary error function against SciPy."""

import numpy as np
import pytest
import scipy.special as theirs

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.scipy import special


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values(dtype):
    """Two digits of SciPy's own are lost at most, from the smallest normal number to 2."""
    information = np.finfo(dtype)
    small = np.logspace(np.log10(information.tiny) + 0.01, 0, 3001)
    y = np.concatenate([[information.tiny], small, 2 - small[small > information.eps], np.linspace(0.01, 1.99, 2001)]).astype(dtype)
    with xf.enable_x64(dtype == np.float64):
        x = special.erfcinv(y)
    assert x.dtype == dtype
    np.testing.assert_allclose(x, theirs.erfcinv(y.astype(np.float64)), rtol=2 * information.eps if dtype == np.float32 else 5 * information.eps)


def test_edges_and_dtypes():
    y = np.array([0.0, -0.0, 2.0, -1.0, 2.5, np.nan, np.inf, 1.0], np.float32)
    np.testing.assert_array_equal(special.erfcinv(y), [np.inf, np.inf, -np.inf, np.nan, np.nan, np.nan, np.nan, 0])
    for dtype, result in (("int32", "float32"), ("bool", "float32"), ("float16", "float16"), ("bfloat16", "bfloat16"),
                          ("float8_e4m3fn", "float8_e4m3fn")):
        assert special.erfcinv(xnp.ones(2, dtype)).dtype == result
    np.testing.assert_allclose(special.erfcinv(xnp.array([0.25], "float16")), theirs.erfcinv(0.25), rtol=1e-3)
    with pytest.raises(ValueError, match="complex"):
        special.erfcinv(1j)
    with pytest.raises(TypeError, match="erfcinv"):
        special.erfcinv([0.5])


def test_derivatives():
    with xf.enable_x64(True):
        y = np.array([1e-300, 1e-30, 1e-3, 0.3, 0.9, 1.0, 1.5, 1.999])
        x = theirs.erfcinv(y)
        slope = -np.sqrt(np.pi) / 2 * np.exp(x**2)
        np.testing.assert_allclose(xf.vmap(xf.grad(special.erfcinv))(y), slope, rtol=1e-12)
        curvature = 2 * x[1:] * slope[1:] ** 2
        np.testing.assert_allclose(xf.jit(xf.vmap(xf.grad(xf.grad(special.erfcinv))))(y[1:]), curvature, rtol=1e-12)
    np.testing.assert_array_equal(xf.vmap(xf.grad(special.erfcinv))(xnp.array([0.0, 2.0, -1.0])), [-np.inf, -np.inf, np.nan])
