"""Reductions of booleans as extremes of floats."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp

pytestmark = pytest.mark.cpu_only


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2)])
@pytest.mark.parametrize("share", [0.0, 1e-3, 0.5, 0.999, 1.0])
def test_values(share, axis):
    flags = np.random.default_rng(0).random((20, 30, 40)) < share
    for function in ("any", "all"):
        result = xf.jit(lambda x, f=function: getattr(xnp, f)(x, axis))(flags)
        assert result.dtype == bool
        np.testing.assert_array_equal(result, getattr(np, function)(flags, axis))
    batched = xf.jit(xf.vmap(lambda x: xnp.any(x > 0.5)))(flags.astype(np.float32))
    np.testing.assert_array_equal(batched, flags.any((1, 2)))


def test_only_large_booleans_of_one_cpu_are_changed():
    def text(x, **options):
        return xf.jit(lambda x: xf.lax.reduce_or(x, (0,))).trace(x).lower(**options).as_text()

    changed = "stablehlo.maximum"
    assert changed in text(np.ones(1024, bool))
    assert changed not in text(xf.ShapeDtypeStruct((2**22,), bool))  # whose floats would take 16 MB
    assert changed not in text(np.ones(1023, bool)) and changed not in text(np.ones(1024, np.int32))
    assert changed not in text(np.ones(1024, bool), lowering_platforms=("cuda",))
