"""Norms as functions: derivatives of all arguments, shapes, dtypes."""

import ml_dtypes
import numpy as np
import pytest
from library_kernels import exact_norm, numbers

import xlafront as xf
from xlafront import kernels


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
def test_values_and_gradients(name):
    x, weight, bias, dy = numbers(3, 5, 40), numbers(40, seed=1), numbers(40, seed=2), numbers(3, 5, 40, seed=3)
    out, pull = xf.vjp(lambda *a: getattr(kernels, name)(*a, epsilon=0.01), x, weight, bias)
    flat = [a.reshape(15, 40) for a in (x, dy)]
    expected = exact_norm(flat[0], weight, bias, flat[1], 0.01, name == "layer_norm")
    for found, e in zip([out, *pull(dy)], expected):
        np.testing.assert_allclose(np.asarray(found).reshape(e.shape), e, rtol=1e-5, atol=1e-5)


def test_without_weights_and_in_bfloat16():
    x = numbers(4, 70).astype(ml_dtypes.bfloat16)
    for function, is_centered in ((kernels.rms_norm, False), (kernels.layer_norm, True)):
        out, pull = xf.vjp(lambda x: function(x, epsilon=0.01), x)
        expected = exact_norm(x, np.ones(70), np.zeros(70), x, 0.01, is_centered)
        assert out.dtype == pull(x)[0].dtype == x.dtype
        np.testing.assert_allclose(out.astype("float32"), expected[0], rtol=1e-2, atol=1e-2)
        np.testing.assert_allclose(pull(x)[0].astype("float32"), expected[1], rtol=1e-2, atol=1e-2)


def test_bad_arguments():
    for bad, message in ((lambda: kernels.rms_norm(np.ones((2, 4), np.int32)), "of floats with elements, got int32"),
                         (lambda: kernels.layer_norm(np.float32(1)), "with elements"),
                         (lambda: kernels.layer_norm(np.ones((2, 4), np.float32), np.ones(3)), r"weight of shape \(3,\): it must be \(4,\)")):
        with pytest.raises(ValueError, match=message):
            bad()
