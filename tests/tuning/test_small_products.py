"""Products of batches of small matrices on CPUs are sums of outer products, and equal to `dot_general`'s."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax

pytestmark = pytest.mark.cpu_only

PRODUCTS = {  # shapes, dimension numbers, einsum
    "matrices": ((6, 4, 4), (6, 4, 4), (((2,), (1,)), ((0,), (0,))), "bmk,bkn->bmn"),
    "transposed": ((6, 5, 4), (6, 7, 5), (((1,), (2,)), ((0,), (0,))), "bkm,bnk->bmn"),
    "batch in the middle": ((8, 6, 4), (8, 6, 5), (((0,), (0,)), ((1,), (1,))), "kbm,kbn->bmn"),
    "two batch dimensions": ((2, 3, 4, 4), (3, 2, 4, 5), (((3,), (2,)), ((0, 1), (1, 0))), "abmk,bakn->abmn"),
    "two contracted dimensions": ((5, 4, 2, 3), (5, 3, 2, 4), (((2, 3), (2, 1)), ((0,), (0,))), "bmij,bjin->bmn"),
    "vector": ((9, 8, 8), (9, 8), (((2,), (1,)), ((0,), (0,))), "bmk,bk->bm"),
    "one row": ((9, 1, 8), (9, 8, 8), (((2,), (1,)), ((0,), (0,))), "bmk,bkn->bmn"),
}


def text(function, *args):
    return xf.jit(function).lower(*args).as_text()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_values_are_numpys(name, dtype):
    x_shape, y_shape, numbers, einsum = PRODUCTS[name]
    rng = np.random.default_rng(len(name))
    with xf.enable_x64(dtype == "float64"):
        x, y = rng.standard_normal(x_shape).astype(dtype), rng.standard_normal(y_shape).astype(dtype)

        def product(x, y):
            return lax.dot_general(x, y, numbers)

        assert "dot_general" not in text(product, x, y)
        found = xf.jit(product)(x, y)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, np.einsum(einsum, x.astype("d"), y.astype("d")), rtol=0,
                                   atol=1e-5 if dtype == "float32" else 1e-14)


def test_derivatives_and_vmap():
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((10, 4, 4)).astype(np.float32) for _ in range(2))
    gradient = xf.jit(xf.grad(lambda x, y: xnp.sum(xf.vmap(xnp.matmul)(x, y) ** 2), (0, 1)))
    assert "dot_general" not in gradient.lower(x, y).as_text()
    product = np.einsum("bmk,bkn->bmn", x, y)
    for found, einsum, other in zip(gradient(x, y), ("bmn,bkn->bmk", "bmn,bmk->bkn"), (y, x), strict=True):
        np.testing.assert_allclose(found, np.einsum(einsum, 2 * product, other), rtol=1e-4, atol=1e-4)


def test_infinities_and_nan():
    x = np.zeros((5, 4, 4), np.float32)
    y = np.ones((5, 4, 4), np.float32)
    x[1, 0, 0], x[2, 1, 1], y[3, 2, 2] = np.inf, np.nan, np.inf  # 0 * inf is NaN
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(xf.jit(xnp.matmul)(x, y), x @ y)


@pytest.mark.parametrize("case", ["large", "few", "integers", "bfloat16", "accumulates", "mixed"])
def test_other_products_stay_operations(case):
    batch, size, dtype = {"large": (9, 9, "float32"), "few": (2, 4, "float32"), "integers": (9, 4, "int32")}.get(
        case, (9, 4, "bfloat16"))
    x = xnp.ones((batch, size, size), dtype)
    y = x.astype("float32") if case == "mixed" else x
    options = {"preferred_element_type": np.float32} if case == "accumulates" else {}
    assert "dot_general" in text(lambda x, y: lax.dot_general(x, y, (((2,), (1,)), ((0,), (0,))), **options), x, y)


def test_exports_have_the_operation():
    x = xnp.ones((9, 4, 4))
    assert "dot_general" in xf.export.export(xf.jit(xnp.matmul))(x, x).mlir_module()
