"""Settings that refuse to combine ranks and dtypes are for what users combine: the library's own functions run under them."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
import xlafront.scipy as xscipy

V, M = np.array([1.0, 2.0, 3.5], np.float32), np.arange(12, dtype=np.float32).reshape(4, 3) ** 1.5
B = np.stack([np.eye(3, dtype=np.float32) + 0.1, 2 * np.eye(3, dtype=np.float32)])
X = np.arange(4, dtype=np.float32)

CALLS = {
    "bessel_jn": lambda: xscipy.special.bessel_jn(V, v=2),
    "bessel_jn, derivative": lambda: xf.jacfwd(lambda x: xscipy.special.bessel_jn(x, v=2))(V),
    "dct": lambda: xscipy.fft.dct(M),
    "dctn": lambda: xscipy.fft.dctn(M),
    "detrend": lambda: xscipy.signal.detrend(M),
    "eigh_tridiagonal": lambda: xscipy.linalg.eigh_tridiagonal(V, V[:2] / 10, eigvals_only=True),
    "gaussian_kde": lambda: xscipy.stats.gaussian_kde(V, weights=V)(V),
    "mode": lambda: xscipy.stats.mode(M).mode,
    "multinomial": lambda: xscipy.stats.multinomial.logpmf(np.array([1, 2, 3]), 6, np.full(3, 1 / 3, np.float32)),
    "multivariate_normal": lambda: xf.random.multivariate_normal(xf.random.key(0), np.zeros(3, np.float32), B, shape=(2,)),
    "pinv": lambda: xnp.linalg.pinv(B),
    "pinv, derivative": lambda: xf.jacfwd(xnp.linalg.pinv)(B),
    "polyfit": lambda: xnp.polyfit(X, M, 1),
    "slogdet": lambda: xnp.linalg.slogdet(B).logabsdet,
    "slogdet, derivative": lambda: xf.jacfwd(lambda x: xnp.linalg.slogdet(x).logabsdet)(B),
}


@pytest.mark.parametrize("name", CALLS)
def test_internal_promotion_is_allowed(name):
    expected = CALLS[name]()
    with xf.numpy_rank_promotion("raise"), xf.numpy_dtype_promotion("strict"):
        np.testing.assert_array_equal(CALLS[name](), expected)
        with pytest.raises(ValueError, match="numpy_rank_promotion='raise'"):
            xnp.add(V, M)
        with pytest.raises(ValueError, match="numpy_dtype_promotion=.strict."):
            xnp.add(V, np.arange(3, dtype=np.int32))
