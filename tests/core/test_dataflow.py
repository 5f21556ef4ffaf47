"""The walks over equations: what depends on an input, and what a result needs."""

import pytest

import xlafront as xf
from xlafront.core.ir import any_equation, backward, dce_jaxpr, dependent_results, forward, last_reads


@pytest.fixture
def jaxpr():
    #     sin, cos, add, mul(literal)
    return xf.make_jaxpr(lambda x, y: (xf.lax.add(xf.lax.sin(x), xf.lax.cos(y)), xf.lax.mul(x, 2.0)))(1.0, 1.0).jaxpr


def test_forward_marks_what_depends_on_an_input(jaxpr):
    (x, y), (sin, cos, add, mul) = jaxpr.invars, [eqn.outvars[0] for eqn in jaxpr.eqns]
    assert forward(jaxpr.eqns, []) == set()
    assert forward(jaxpr.eqns, [x]) == {x, sin, add, mul}
    assert forward(jaxpr.eqns, [y]) == {y, cos, add}
    assert dependent_results(jaxpr, [False, True]) == [True, False]


def test_forward_follows_the_rule_of_an_equation(jaxpr):
    (x, y), (sin, _, add, mul) = jaxpr.invars, [eqn.outvars[0] for eqn in jaxpr.eqns]
    seen = []

    def rule(eqn, marks):
        seen.append((eqn.primitive.name, marks))
        return [False] if eqn.primitive.name == "cos" else None

    assert forward(jaxpr.eqns, [y], rule) == {y}
    assert forward(jaxpr.eqns, [x], rule) == {x, sin, add, mul}
    assert seen == [("cos", [True]), ("sin", [True]), ("add", [True, False]), ("mul", [True, False])]


def test_backward_finds_what_a_result_needs(jaxpr):
    (x, y), (sin, cos, add, mul) = jaxpr.invars, [eqn.outvars[0] for eqn in jaxpr.eqns]
    eqns, needed = backward(jaxpr.eqns, [add])
    assert eqns == jaxpr.eqns[:3] and needed == {x, y, sin, cos, add}
    eqns, needed = backward(jaxpr.eqns, [mul])
    assert eqns == jaxpr.eqns[3:] and {x, mul} <= needed and needed.isdisjoint({y, sin, cos, add})
    eqns, _ = backward(jaxpr.eqns, [add], lambda eqn, needed: None if eqn.primitive.name == "cos" else eqn)
    assert [eqn.primitive.name for eqn in eqns] == ["sin", "add"]


def test_equations_with_effects_are_live():
    def f(x, y):
        xf.debug.print("{}", xf.lax.sin(x))
        return xf.lax.cos(y), xf.lax.mul(y, y)

    pruned, used = dce_jaxpr(xf.make_jaxpr(f)(1.0, 1.0).jaxpr, [False, False])
    assert used == [True, False] and [eqn.primitive.name for eqn in pruned.eqns] == ["sin", "debug_print"] and pruned.effects


def test_last_reads_are_those_of_equations_and_results(jaxpr):
    (x, y), (sin, cos, add, mul) = jaxpr.invars, [eqn.outvars[0] for eqn in jaxpr.eqns]
    assert last_reads(jaxpr) == {x: 3, y: 1, sin: 2, cos: 2, add: 4, mul: 4}


def test_any_equation_looks_into_nested_jaxprs():
    jaxpr = xf.make_jaxpr(lambda x: xf.lax.scan(lambda c, _: (xf.lax.cos(c), None), x, length=3)[0])(1.0).jaxpr
    assert any_equation(jaxpr, "has cos", lambda eqn: eqn.primitive.name == "cos") is True
    assert any_equation(jaxpr, "has sin", lambda eqn: eqn.primitive.name == "sin") is False
