"""`program_order`: values and derivatives compared with NumPy, and the dependencies between operations in modules."""

import re

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.experimental.overlap import program_order

X, Y = np.float32(0.7), np.float32(1.5)


def f(x, y):
    return xnp.sin(x) + y, xnp.cos(y) * x


def operations(f, *args):
    text = xf.jit(f).lower(*args).as_text()
    return re.findall(r"(?:stablehlo|chlo)\.(\w+)", text.replace("stablehlo.constant", ""))


@pytest.mark.parametrize("enforce", [True, False])
@pytest.mark.parametrize("strict", [False, True, (True, False)])
def test_values_and_derivatives(enforce, strict):
    g = program_order(f, enforce=enforce, strict_in_out=strict)
    for run in (g, xf.jit(g)):
        np.testing.assert_allclose(run(X, Y), (np.sin(X) + Y, np.cos(Y) * X), 1e-6)
    np.testing.assert_allclose(xf.grad(lambda x, y: sum(g(x, y)), (0, 1))(X, Y), (np.cos(X) + np.cos(Y), 1 - np.sin(Y) * X), 1e-5)
    np.testing.assert_allclose(xf.jvp(g, (X, Y), (Y, X))[1], (np.cos(X) * Y + X, np.cos(Y) * Y - np.sin(Y) * X * X), 1e-5)
    np.testing.assert_allclose(xf.vmap(g, (0, None))(np.stack([X, Y]), Y)[0], np.sin([X, Y]) + Y, 1e-6)


def test_each_operation_waits_for_the_one_before():
    in_order = ["sine", "optimization_barrier", "add", "optimization_barrier", "cosine", "optimization_barrier", "multiply"]
    assert operations(program_order(f, enforce=True), X, Y) == in_order
    strict = operations(program_order(f, enforce=True, strict_in_out=True), X, Y)
    assert strict == ["optimization_barrier", *in_order, "optimization_barrier"]
    assert operations(program_order(f, enforce=False), X, Y) == ["sine", "add", "cosine", "multiply"]


def test_calls_inside_are_one_operation():
    def outer(x, y, **options):
        z = xnp.sin(x)
        return z, program_order(lambda y: xnp.cos(y) * xnp.tan(y), enforce=False, **options)(y)

    ordered = program_order(outer, enforce=True)
    assert operations(ordered, X, Y) == ["sine", "optimization_barrier", "cosine", "tan", "multiply"]
    excluded = program_order(lambda x, y: outer(x, y, exclude_argnames="y"), enforce=True)
    assert operations(excluded, X, Y) == ["sine", "cosine", "tan", "multiply"]


def test_keywords_and_parameters_of_equation():
    g = program_order(enforce=False, exclude_argnames=("k", "x"))(lambda x, y, *, k: x + y + k)
    assert g(1.0, 2.0, k=3.0) == 6
    [eqn] = xf.make_jaxpr(lambda x: g(x, x, k=x))(X).eqns
    assert str(eqn.primitive) == "program_order" and eqn.params["exclude_mask"] == (True, False, True)
    assert not eqn.params["enforce"] and not eqn.params["strict_in"]


def test_bad_input_raises():
    with pytest.raises(ValueError, match="exclude_argnames"):
        program_order(f, enforce=True, exclude_argnames="x")
    with pytest.raises(ValueError, match="exclude_argnames"):
        program_order(f, enforce=False, exclude_argnames="z")
    with pytest.raises(TypeError, match="enforce"):
        program_order(f)
