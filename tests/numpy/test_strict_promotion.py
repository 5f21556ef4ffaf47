"""Settings that refuse to combine ranks and dtypes are for what users combine: the library's own functions run under them."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
import xlafront.scipy as xscipy
from xlafront.experimental import sparse
from xlafront.scipy.spatial.transform import Rotation, Slerp

V, M = np.array([1.0, 2.0, 3.5], np.float32), np.arange(12, dtype=np.float32).reshape(4, 3) ** 1.5
B = np.stack([np.eye(3, dtype=np.float32) + 0.1, 2 * np.eye(3, dtype=np.float32)])
X = np.arange(4, dtype=np.float32)
C = np.array([1.0, 2.0 - 3.0j], np.complex64)
R = Rotation.from_rotvec(np.float32([[0.1, 0.2, 0.3], [1.0, -0.5, 0.2]]))
ROTATIONS = [
    lambda r: r.inv().as_quat(), lambda r: (r * r).as_matrix(), lambda r: r.apply(M[:2]), lambda r: r.as_euler("xyz"),
    lambda r: r.as_mrp(), lambda r: r.as_rotvec(), lambda r: r.magnitude(), lambda r: r.mean().as_quat(canonical=True),
    lambda r: Rotation.from_matrix(r.as_matrix()).as_quat(), lambda r: Rotation.from_euler("zyx", r.as_euler("zyx")).as_quat(),
]

CALLS = {
    "at of a boolean": lambda: xnp.arange(4).at[0].set(False),
    "bcoo_conv_general_dilated": lambda: sparse.bcoo_conv_general_dilated(
        sparse.BCOO.fromdense(V[None, None]), V[None, None, :2], window_strides=(1,), padding="SAME").todense(),
    "bcoo_dot_general": lambda: sparse.bcoo_dot_general(
        sparse.BCOO.fromdense(B[:, :, :2], n_batch=2), B[:, :, :2], dimension_numbers=(((0, 1), (0, 1)), ((), ()))),
    "bcsr": lambda: sparse.sparsify(xnp.sin)(sparse.BCSR.fromdense(B[0])).todense(),
    "bessel_jn": lambda: xscipy.special.bessel_jn(V, v=2),
    "bessel_jn, derivative": lambda: xf.jacfwd(lambda x: xscipy.special.bessel_jn(x, v=2))(V),
    "bicgstab": lambda: xscipy.sparse.linalg.bicgstab(lambda x: 2 * x, V + V[0] * np.complex64(1j))[0],
    "cg": lambda: xscipy.sparse.linalg.cg(lambda x: 2 * x, V + V[0] * np.complex64(1j))[0],
    "cholesky, derivative under vmap": lambda: xf.vmap(xf.jacfwd(lambda t: xnp.linalg.cholesky(t[None] * B[0])))(V[:, None]),
    "dct": lambda: xscipy.fft.dct(M),
    "dctn": lambda: xscipy.fft.dctn(M),
    "detrend": lambda: xscipy.signal.detrend(M),
    "gamma of complex numbers": lambda: xscipy.special.gamma(V.astype(np.complex64)),
    "gmres": lambda: xscipy.sparse.linalg.gmres(lambda x: 2 * x, V + V[0] * np.complex64(1j))[0],
    "eigh_tridiagonal": lambda: xscipy.linalg.eigh_tridiagonal(V, V[:2] / 10, eigvals_only=True),
    "gaussian_kde": lambda: xscipy.stats.gaussian_kde(V, weights=V)(V),
    "istft": lambda: xscipy.signal.istft(np.ones((129, 5), np.complex64), input_onesided=False)[1],
    "minimize": lambda: xscipy.optimize.minimize(lambda z: xnp.vdot(z - C, z - C).real, np.zeros_like(C), method="BFGS").x,
    "minimize, L-BFGS": lambda: xscipy.optimize.minimize(
        lambda z: xnp.vdot(z - C, z - C).real, np.zeros_like(C), method="l-bfgs-experimental-do-not-rely-on-this").x,
    "mode": lambda: xscipy.stats.mode(M).mode,
    "multinomial": lambda: xscipy.stats.multinomial.logpmf(np.array([1, 2, 3]), 6, np.full(3, 1 / 3, np.float32)),
    "multivariate_normal": lambda: xf.random.multivariate_normal(xf.random.key(0), np.zeros(3, np.float32), B, shape=(2,)),
    "pinv": lambda: xnp.linalg.pinv(B),
    "pinv, derivative": lambda: xf.jacfwd(xnp.linalg.pinv)(B),
    "polyfit": lambda: xnp.polyfit(X, M, 1),
    "quantile": lambda: xnp.nanquantile(M, V[:2] / 4, axis=0, method="midpoint"),
    "RegularGridInterpolator": lambda: [xscipy.interpolate.RegularGridInterpolator((X, V), M, method=method)(M[:1, :2] + 1)
                                        for method in ("linear", "nearest")],
    "Rotation": lambda: [f(R) for f in ROTATIONS],
    "Slerp": lambda: Slerp.init(X[:2], R)(X[:2] / 2).as_quat(),
    "slogdet": lambda: xnp.linalg.slogdet(B).logabsdet,
    "slogdet, derivative": lambda: xf.jacfwd(lambda x: xnp.linalg.slogdet(x).logabsdet)(B),
}


@pytest.mark.parametrize("name", CALLS)
def test_internal_promotion_is_allowed(name):
    expected = CALLS[name]()
    with xf.numpy_rank_promotion("raise"), xf.numpy_dtype_promotion("strict"):
        for x, y in zip(xf.tree.leaves(CALLS[name]()), xf.tree.leaves(expected), strict=True):
            np.testing.assert_array_equal(x, y)
        with pytest.raises(ValueError, match="numpy_rank_promotion='raise'"):
            xnp.add(V, M)
        with pytest.raises(ValueError, match="numpy_dtype_promotion=.strict."):
            xnp.add(V, np.arange(3, dtype=np.int32))


INTS = np.array([1, 2, 3], np.int32)
COMBINING = {
    "append": lambda x: xnp.append(INTS, x), "append to rows": lambda x: xnp.append(INTS, x, 0),
    "block": lambda x: xnp.block([[INTS], [x]]),
    "cross": lambda x: xnp.cross(INTS, x), "diff": lambda x: xnp.diff(INTS, append=x),
    "diff, in front": lambda x: xnp.diff(INTS, prepend=x),
    "digitize": lambda x: xnp.digitize(INTS, x), "kron": lambda x: xnp.kron(INTS, x), "polymul": lambda x: xnp.polymul(INTS, x),
    "setdiff1d": lambda x: xnp.setdiff1d(INTS, x), "trapezoid": lambda x: xnp.trapezoid(INTS, x),
    "vdot": lambda x: xnp.vdot(INTS, x),
}


@pytest.mark.parametrize("name", COMBINING)
def test_operands_of_different_dtypes_are_refused(name):
    """Functions that are written with others refuse what the user combines by them; weak types stay allowed."""
    call = COMBINING[name]
    expected = call(INTS.astype(np.float32)), call(INTS)
    with xf.numpy_dtype_promotion("strict"):
        with pytest.raises(xf.dtypes.TypePromotionError):
            call(INTS.astype(np.float32))
        with pytest.raises(xf.dtypes.TypePromotionError):
            xf.jit(call)(INTS.astype(np.float32))
        np.testing.assert_array_equal(call(INTS), expected[1])
    np.testing.assert_array_equal(expected[0], expected[1])
