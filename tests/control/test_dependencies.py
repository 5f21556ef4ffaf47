"""Operations that a compiled program does in a certain order."""

import re

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.experimental.control_deps import control_dep, schedule

pytestmark = pytest.mark.cpu_only

X = np.arange(4, dtype=np.float32)


def ordered(x):
    values = [xnp.sin(x), xnp.cos(x), xnp.exp(x)]
    schedule(values)
    return values


def test_compiled_operations_wait_for_those_before():
    compiled = xf.jit(ordered).lower(X).compile()
    first, second = re.findall(r"\(%[\w.]+\), .*control-predecessors=\{%(\w+)[.}]", compiled.as_text())
    assert "sin" in first and "cos" not in first and "cos" in second  # an operation or a kernel named for it, as XLA's version has it
    for found, expected in zip(compiled(X), (np.sin(X), np.cos(X), np.exp(X))):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_control_dependencies_have_no_results():
    program = xf.make_jaxpr(ordered)(X)
    calls = [eqn for eqn in program.eqns if eqn.primitive.name == "ffi_call"]
    assert [eqn.params["target_name"] for eqn in calls] == ["control_dep"] * 2
    assert not any(eqn.outvars for eqn in calls) and all(eqn.params["has_side_effect"] for eqn in calls)
    assert control_dep(X, X) is None and schedule([]) is None and schedule([X]) is None


def test_transformations_do_not_pass():
    with pytest.raises(NotImplementedError, match="vmap"):
        xf.vmap(ordered)(X)
    with pytest.raises(ValueError, match="differentiated"):
        xf.grad(lambda x: sum(ordered(x)))(1.0)
