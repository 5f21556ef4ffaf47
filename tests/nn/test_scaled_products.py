"""Block-scaled products: exact where values are representable, close where they are rounded; gradients of the product."""

import ml_dtypes
import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import nn
from xlafront.nn.scaled_products import _quantize

RNG = np.random.default_rng(0)
PLAIN = (((1,), (0,)), ((), ()))


@pytest.mark.parametrize("dtype, scale", [("float8_e4m3fn", "float8_e8m0fnu"), ("float32", "float32"), ("float4_e2m1fn", "float8_e4m3fn")])
def test_scaled_matmul(dtype, scale):
    dtype, scale = (np.dtype(getattr(ml_dtypes, d, d)) for d in (dtype, scale))
    a, b = RNG.integers(-3, 4, size=(2, 4, 64)).astype(dtype), RNG.integers(-3, 4, size=(2, 5, 64)).astype(dtype)
    p, q = (2.0 ** RNG.integers(-2, 3, size=(2, 4, 4))).astype(scale), np.ones((2, 5, 4), scale)
    expected = np.einsum("bmk,bnk->bmn", a.astype(float) * np.repeat(p.astype(float), 16, 2), b.astype(float))
    for f in (nn.scaled_matmul, xf.jit(nn.scaled_matmul)):
        np.testing.assert_array_equal(np.asarray(f(a, b, p, q)), expected)
    assert nn.scaled_matmul(a, b, p, q, preferred_element_type=xnp.bfloat16).dtype == xnp.bfloat16


@pytest.mark.parametrize("mode, error", [("mxfp8", 0.05), ("nvfp4", 0.25)])
def test_scaled_dot_general(mode, error):
    configs = [nn.get_scaled_dot_general_config(mode)] * 3
    x, y = RNG.normal(size=(3, 6, 50)).astype("float32") * 100, RNG.normal(size=(50, 3, 2, 4)).astype("float32")
    numbers = (((2,), (0,)), ((0,), (1,)))
    exact = np.einsum("bmk,kbij->bmij", x, y)

    def f(x, y):
        return nn.scaled_dot_general(x, y, numbers, configs=configs)

    found, pull = xf.vjp(xf.jit(f), x, y)
    assert found.dtype == np.float32
    g = RNG.normal(size=exact.shape).astype("float32")
    for a, b in zip((found, *pull(g)), (exact, np.einsum("bmij,kbij->bmk", g, y), np.einsum("bmij,bmk->kbij", g, x))):
        assert a.shape == b.shape and np.linalg.norm(a - b) < error * np.linalg.norm(b)
    np.testing.assert_allclose(np.asarray(nn.scaled_dot_general(x, y, numbers)), exact, rtol=1e-4, atol=1e-3)
    mapped = xf.vmap(lambda x, y: nn.scaled_dot_general(x, y, (((1,), (0,)), ((), ())), configs=configs), in_axes=(0, 1))(x, y)
    np.testing.assert_allclose(np.asarray(mapped), np.asarray(found), rtol=1e-5)


def test_representable_values_are_exact():
    x, y = RNG.integers(-8, 9, size=(4, 64)).astype("bfloat16"), RNG.integers(-8, 9, size=(64, 5)).astype("bfloat16")
    configs = [nn.get_scaled_dot_general_config("mxfp8")] * 3
    np.testing.assert_array_equal(np.asarray(nn.scaled_dot_general(x, y, PLAIN, configs=configs)), x.astype(float) @ y.astype(float))
    zeros = nn.scaled_dot_general(np.zeros((2, 32)), np.zeros((32, 2)), PLAIN, configs=configs)
    np.testing.assert_array_equal(np.asarray(zeros), 0)
    tiny = [nn.get_scaled_dot_general_config("nvfp4", np.float32(2.0 ** -20))] * 3
    found = nn.scaled_dot_general(2.0 ** -18 * np.ones((2, 32)), 2.0 ** -18 * np.ones((32, 2)), PLAIN, configs=tiny)
    np.testing.assert_allclose(np.asarray(found), 32 * 2.0 ** -36, rtol=0.2)


def test_configs_and_bad_input():
    mx, nv = map(nn.get_scaled_dot_general_config, ("mxfp8", "nvfp4"))
    assert (mx.block_size, mx.data_type, mx.scale_type, mx.global_scale) == (32, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu, None)
    assert (nv.block_size, nv.data_type, nv.scale_type) == (16, ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn)
    assert nv.global_scale.tolist() == [1.0]
    with pytest.raises(ValueError, match="mode"):
        nn.get_scaled_dot_general_config("fp2")
    ones = xnp.ones
    for shapes, words in ((((4, 32), (5, 32), (4, 1), (5, 1)), "three dimensions"),
                          (((1, 4, 64), (1, 5, 64), (1, 4, 2), (1, 5, 4)), "lhs_scales and rhs_scales"),
                          (((1, 4, 64), (1, 5, 32), (1, 4, 2), (1, 5, 2)), "lhs and rhs"),
                          (((1, 4, 64), (1, 5, 64), (1, 4, 3), (1, 5, 3)), "divisor")):
        with pytest.raises(ValueError, match=words):
            nn.scaled_matmul(*map(ones, shapes))
    with pytest.raises(ValueError, match="three configs"):
        nn.scaled_dot_general(ones((2, 32)), ones((32, 2)), PLAIN, configs=[mx])
    with pytest.raises(ValueError, match="implementation"):
        nn.scaled_dot_general(ones((2, 32)), ones((32, 2)), PLAIN, implementation="tpu")
    with pytest.raises(TypeError, match="contracted"):
        nn.scaled_dot_general(ones((2, 32)), ones((16, 2)), PLAIN, configs=[mx] * 3)


@pytest.mark.parametrize("preferred, name", [("float32", "F32"), ("bfloat16", "BF16"), ("float16", "F16")])
def test_gpu_lowering_is_a_custom_call(preferred, name):
    """XLA replaces the custom call by cuDNN or by a product of floats."""
    configs = [nn.get_scaled_dot_general_config("mxfp8")] * 3

    def f(x, y):
        return nn.scaled_dot_general(x, y, PLAIN, preferred_element_type=preferred, configs=configs).astype("float32").sum()

    x, y = xnp.ones((4, 64), "bfloat16"), xnp.ones((64, 5), "bfloat16")
    text = xf.jit(xf.grad(f)).trace(x, y).lower(lowering_platforms=("cuda",)).as_text()
    assert text.count("@__op$block_scaled_dot") == 1  # The gradient of the operand; the product itself is dead code.
    assert f'lhs_batch_dimensions\\22: [0], \\22rhs_batch_dimensions\\22: [0], \\22dequantize_type\\22: \\22{name}\\22' in text
    assert all(g.dtype == preferred for g in xf.grad(f, (0, 1))(x, y))  # as the reference gives


def test_scales_are_rounded_up_to_powers_of_two():
    """Scales are rounded up from the largest element over 448, in the precision of the operand."""
    for dtype in ("float32", "bfloat16", "float16"):
        for largest, factor in ((448, 1), (449 if dtype != "bfloat16" else 450, 2), (447, 1), (224, .5), (3.5, 2.0 ** -7), (56000, 128)):
            x = np.zeros((1, 1, 32), dtype)
            x[0, 0, 5] = largest
            [scale] = np.asarray(_quantize(xnp.asarray(x), nn.get_scaled_dot_general_config("mxfp8"))[1]).astype(float).ravel()
            assert scale == factor, (dtype, largest)
    tiny = _quantize(xnp.zeros((1, 1, 32)), nn.get_scaled_dot_general_config("mxfp8"))
    assert np.asarray(tiny[1]).astype(float) == 2.0 ** -127 and not np.asarray(tiny[0]).astype(float).any()


def test_nvfp4_gradients_use_unquantized_operands():
    """The gradients are 0 where an operand exceeds 6 * 448, the largest value of its blocks."""
    configs = [nn.get_scaled_dot_general_config("nvfp4")] * 3
    x, y = RNG.normal(size=(4, 32)).astype("float32"), RNG.normal(size=(32, 5)).astype("float32")
    x[0, 0], x[1, 1], y[3, 2] = 2688, 2689, -3000
    g = RNG.normal(size=(4, 5)).astype("float32")
    found = xf.vjp(lambda x, y: nn.scaled_dot_general(x, y, PLAIN, configs=configs), x, y)[1](g)
    for a, expected, v in zip(found, (g @ y.T, x.T @ g), (x, y)):
        np.testing.assert_allclose(np.asarray(a), np.where(abs(v) <= 2688, expected, 0), rtol=1e-4, atol=1e-3)
    for dtype in ("int32", "float8_e4m3fn"):
        with pytest.raises(TypeError, match="preferred_element_type"):
            nn.scaled_dot_general(x, y, PLAIN, preferred_element_type=dtype, configs=configs)
