"""`einsum` in two steps, as libraries call them to replace its products."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.compat.einsum_steps import _default_poly_einsum_handler, _einsum

A, B, C = (np.random.default_rng(0).normal(size=shape).astype(np.float32) for shape in ((3, 4), (4, 5), (2, 3, 4)))


@pytest.mark.parametrize("operands", [("ab,bc->ca", A, B), ("zab,bc->zac", C, B), ("ab,cb->c", A, A), ("ab,bc,ac", A, B, A @ B),
                                      (A, [0, 1], B, [1, 2]), ("...b,bc->...c", C, B), ("zab->ba", C)], ids=str)
def test_plan_and_products(operands):
    arrays, steps = _default_poly_einsum_handler(*operands, einsum_call=True, use_blas=True, optimize="optimal")
    found = _einsum(arrays, [step[:3] for step in steps], precision="highest", preferred_element_type=None)
    np.testing.assert_allclose(found, np.einsum(*operands), rtol=1e-5, atol=1e-5)


def test_products_run_one_by_one():
    seen = []

    def product(x, y, *args, **kwargs):
        seen.append((x, y))
        return lax.dot_general(x, y, *args, **kwargs)

    arrays, steps = _default_poly_einsum_handler("ab,cb->c", A, A)
    _einsum(arrays, steps, None, None, _dot_general=product)
    [(x, y)] = seen
    np.testing.assert_allclose(x, A.sum(0), rtol=1e-5)  # values, not tracers of a compiled function
    np.testing.assert_array_equal(y, A)


def test_promotes_all_operands_first():
    arrays, steps = _default_poly_einsum_handler("a,a,a->a", xnp.ones(2, "bfloat16"), xnp.ones(2, "bfloat16"), xnp.ones(2))
    assert _einsum(arrays, steps, None, None).dtype == "float32"


def test_symbolic_sizes():
    m, n = xf.export.symbolic_shape("m, n")
    x, y = xf.ShapeDtypeStruct((m, n), "float32"), xf.ShapeDtypeStruct((n, 4), "float32")
    arrays, [step] = _default_poly_einsum_handler("ab,bc->ac", x, y)
    assert arrays == [x, y] and step[1] == {"b"} and step[2].endswith("->ac")
