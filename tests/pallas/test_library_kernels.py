"""The kernels of `xlafront.kernels`: interpreted, and by the modules that are emitted for TPUs and GPUs, against NumPy."""

import library_kernels
import mosaic_evaluator
import numpy as np
import pytest
import triton_evaluator

import xlafront as xf
from xlafront.kernels.targets import Target

pytestmark = pytest.mark.cpu_only


def check(found, case, arguments):
    expected = library_kernels.flat(case.expected(*arguments))
    found = library_kernels.flat(found)
    assert len(found) == len(expected)
    for i, (x, y) in enumerate(zip(found, expected)):
        x = x.sum((0, 1)) if i in case.sums else x
        np.testing.assert_allclose(x, y, rtol=case.tolerance, atol=case.tolerance)


@pytest.mark.parametrize("platform", ["tpu", "cuda"])
@pytest.mark.parametrize("name", library_kernels.CASES)
def test_interpreted(name, platform):
    case = library_kernels.CASES[name]
    arguments = case.arguments()
    check(xf.jit(case.function(Target(platform, interpret=True, small=True)))(*arguments), case, arguments)


def kernel_of(function, arguments):
    """The only kernel of a function, and its operands: what the function computes before it."""
    traced = xf.make_jaxpr(function)(*arguments)
    [equation] = [e for e in traced.eqns if e.primitive.name == "pallas_call"]
    before = traced.jaxpr.replace(outvars=equation.invars, eqns=[e for e in traced.eqns if e is not equation])
    operands = xf.core.eval_jaxpr(before, traced.consts, *arguments)
    return lambda *values: equation.primitive.bind(*values, **equation.params), [np.asarray(x) for x in operands]


@pytest.mark.parametrize("name", library_kernels.CASES)
def test_emitted_for_tpus(name):
    case = library_kernels.CASES[name]
    arguments = case.arguments()
    function, operands = kernel_of(case.function(Target("tpu", small=True)), arguments)
    safety = xf.export.DisabledSafetyCheck.custom_call("tpu_custom_call")
    text = xf.export.export(xf.jit(function), platforms=["tpu"], disabled_checks=[safety])(*operands).mlir_module()
    [(module, _)] = mosaic_evaluator.modules(text)
    results = [mosaic_evaluator.uninitialized(x.shape, np.dtype(x.dtype)) for x in xf.eval_shape(function, *operands)]
    mosaic_evaluator.run_kernel(module, [np.array(x) for x in operands], results)
    check(results, case, arguments)


@pytest.mark.parametrize("name", library_kernels.CASES)
def test_emitted_for_gpus(name):
    case = library_kernels.CASES[name]
    arguments = case.arguments()
    function, operands = kernel_of(case.function(Target("cuda", small=True)), arguments)
    check(triton_evaluator.evaluate(function, *operands), case, arguments)
