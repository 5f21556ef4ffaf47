"""Cumulative operations: values at sizes around those where lowerings change, and modules that do not grow with the size."""

import ml_dtypes
import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.base.jaxlib_compat import HAS_SUMS_ON_GPU

FUNCTIONS = {"cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum, "cumlogsumexp": np.logaddexp}


def lines(f, *shapes):
    return len(xf.jit(f).lower(*[xf.ShapeDtypeStruct(s, "float32") for s in shapes]).as_text().splitlines())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_match_numpy(name, rng):
    f, theirs = getattr(lax, name), FUNCTIONS[name]
    for n in (1, 8, 9, 33):
        x = rng.uniform(-1.2, 1.2, (2, n)).astype(np.float32)
        np.testing.assert_allclose(np.asarray(f(x, 1)), theirs.accumulate(x, 1), rtol=2e-5, atol=1e-6)
    expected = theirs.accumulate(x.T[::-1], 0)[::-1]
    np.testing.assert_allclose(np.asarray(f(x.T, 0, reverse=True)), expected, rtol=2e-5, atol=1e-6)


def test_dtypes(rng):
    integers = rng.integers(-9, 9, 20)
    for d in (np.int32, np.int8, np.uint8, ml_dtypes.int4):
        x = integers.astype(d)
        np.testing.assert_array_equal(np.asarray(lax.cumsum(x)).astype(int), np.cumsum(x.astype(int)).astype(d).astype(int))
        np.testing.assert_array_equal(np.asarray(lax.cummax(x)).astype(int), np.maximum.accumulate(x.astype(int)))
        np.testing.assert_array_equal(np.asarray(lax.cummin(x)).astype(int), np.minimum.accumulate(x.astype(int)))
    low = np.full(12, -400).astype(ml_dtypes.float8_e4m3fn)  # which has no infinity to start from
    np.testing.assert_array_equal(np.asarray(lax.cummax(low)).astype(float), low.astype(float))
    z = (rng.integers(-2, 2, 20) + 1j * rng.integers(-2, 2, 20)).astype(np.complex64)
    ordered = [max(z[:i + 1], key=lambda v: (v.real, v.imag)) for i in range(20)]
    np.testing.assert_array_equal(np.asarray(lax.cummax(z)), ordered)
    np.testing.assert_allclose(np.asarray(lax.cumsum(z)), np.cumsum(z))
    with pytest.raises(TypeError, match="does not accept dtype bool"):
        lax.cumsum(np.ones(3, bool))


@pytest.mark.cpu_only
@pytest.mark.parametrize("name", FUNCTIONS)
def test_module_size_is_independent_of_array_size(name):
    f = getattr(lax, name)
    assert lines(f, (1000,)) == lines(f, (10,)) < 45


def test_module_size_of_searchsorted_is_independent_of_array_size(rng):
    assert lines(xnp.searchsorted, (1000,), (7,)) == lines(xnp.searchsorted, (10,), (7,)) < 45
    a, v = np.sort(rng.integers(0, 9, 30)).astype(np.float32), rng.integers(-1, 10, 50).astype(np.float32)
    for side in ("left", "right"):
        for method in ("scan", "scan_unrolled"):
            np.testing.assert_array_equal(np.asarray(xnp.searchsorted(a, v, side, method=method)), np.searchsorted(a, v, side))
    assert not np.asarray(xnp.searchsorted(np.zeros(0, np.float32), v)).any()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_lowering_for_other_platforms(name, rng):
    """One window for each element, which XLA's compilers for GPUs and TPUs optimize; the values are the same on CPUs."""
    x = rng.uniform(-1.2, 1.2, (2, 700)).astype(np.float32)
    checks = [xf.export.DisabledSafetyCheck.platform()]
    for reverse in (False, True):
        exported = xf.export.export(xf.jit(lambda x: getattr(lax, name)(x, 1, reverse=reverse)), platforms=["tpu"],
                                    disabled_checks=checks)(x)
        assert exported.mlir_module().count("reduce_window") == 1 and "slice" not in exported.mlir_module()
        order = slice(None, None, -1 if reverse else 1)
        np.testing.assert_allclose(np.asarray(exported.call(x)), FUNCTIONS[name].accumulate(x[:, order], 1)[:, order], rtol=1e-4,
                                   atol=1e-4)
    assert xf.export.export(xf.jit(lambda x: getattr(lax, name)(x, 1)), platforms=["tpu"])(x[:, :0]).out_avals[0].shape == (2, 0)


def test_sums_on_gpus():
    def text(f, x):
        return xf.jit(f).trace(x).lower(lowering_platforms=("cuda",)).as_text()

    x = np.ones((3, 5), np.float32)
    one = "chlo.scan" if HAS_SUMS_ON_GPU else "reduce_window"
    for call in (lambda x: lax.cumsum(x, 1), lambda x: lax.cumsum(x), lambda x: lax.cumsum(x.ravel())):
        assert one in text(call, x) and "slice" not in text(call, x)
    exported = xf.export.export(xf.jit(lambda x: lax.cumsum(x, 1)), platforms=["cuda"])(x)
    assert "reduce_window" in exported.mlir_module()
    for call in (lambda x: lax.cumsum(x, 1, reverse=True), lambda x: lax.cumsum(x * 1j), lax.cumprod):
        assert "reduce_window" in text(call, x)
