"""Functions of values in kernels: interpreted, and from the modules that are emitted for TPUs and GPUs, against NumPy."""

import numpy as np
import pytest
import triton_evaluator
import value_kernels
from test_mosaic import evaluated

import xlafront as xf

pytestmark = pytest.mark.cpu_only

CASES = [(name, target) for name, case in value_kernels.KERNELS.items() for target in ("interpreted", *case.targets.split())]


@pytest.mark.parametrize("name, target", CASES)
def test_values(name, target):
    case = value_kernels.KERNELS[name]
    if target == "interpreted":
        found = xf.jit(case.call(True))(*case.arguments)
    elif target == "tpu":
        found, _ = evaluated(case.call(False), *case.arguments)
    else:
        found = triton_evaluator.evaluate(case.call(False), *case.arguments)
    expected = case.results()
    assert len(found) == len(expected)
    for f, e in zip(found, expected):
        f, e = np.asarray(f), np.asarray(e)
        assert f.shape == e.shape
        if e.dtype.kind == "u":
            f = f.view(e.dtype)
        np.testing.assert_allclose(np.asarray(f, np.float64), np.asarray(e, np.float64), rtol=case.tolerance, atol=case.tolerance)
