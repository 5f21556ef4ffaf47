"""Primitives that call a jaxpr: `create_call_primitive`, `register_call_primitive_rules` and `eval_jaxpr_transpose`."""

from functools import partial

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.experimental.hijax import ValAccum
from xlafront.extend import core
from xlafront.interpreters import ad, mlir, partial_eval as pe

BODY = xf.make_jaxpr(lambda x, y: (xnp.sin(x) * y, x, xnp.cos(y)))(1.0, 2.0)
X, Y = 0.5, 2.0


def registered(name, **options):
    primitive = core.Primitive("block")
    primitive.multiple_results = True
    core.register_call_primitive_rules(primitive, name, **options)
    return primitive


def own_transpose(name):
    primitive = core.Primitive("block")
    core.register_call_primitive_rules(primitive, name, transpose_rule=lambda *args, **params: core.eval_jaxpr_transpose(
        primitive, *args, **params))
    return primitive


@pytest.mark.parametrize("primitive", [core.create_call_primitive("block"), core.create_call_primitive("block", False),
                                       registered("f"), registered("f", inline_jax_late=False), own_transpose("f")])
def test_rules(primitive):
    call = lambda x, y: primitive.bind(x, y, call_jaxpr=BODY)
    expected = [np.sin(X) * Y, X, np.cos(Y)]
    np.testing.assert_allclose(call(X, Y), expected, rtol=1e-6)
    np.testing.assert_allclose(xf.jit(call)(X, Y), expected, rtol=1e-6)
    [equation] = xf.make_jaxpr(call)(X, Y).jaxpr.eqns
    assert equation.primitive is primitive and equation.params == {"call_jaxpr": BODY}
    first = lambda x, y: call(x, y)[0]
    for wrap in (lambda f: f, xf.jit, xf.checkpoint):
        np.testing.assert_allclose(xf.grad(wrap(first), (0, 1))(X, Y), [np.cos(X) * Y, np.sin(X)], rtol=1e-6)
    program = xf.make_jaxpr(xf.grad(first))(X, Y)
    assert [eqn.primitive for eqn in program.jaxpr.eqns] == [primitive] * 2
    _, tangents = xf.jvp(call, (X, Y), (1.0, 0.0))
    np.testing.assert_allclose(tangents, [np.cos(X) * Y, 1, 0], rtol=1e-6)
    xs = np.float32([0, X])
    for batch, value in zip(xf.vmap(call, (0, None))(xs, Y), [np.sin(xs) * Y, xs, np.full(2, np.cos(Y))]):
        np.testing.assert_allclose(batch, value, rtol=1e-6)
    np.testing.assert_allclose(xf.vmap(xf.grad(first), (0, None))(xs, Y), np.cos(xs) * Y, rtol=1e-6)
    np.testing.assert_allclose(xf.grad(xf.grad(first))(X, Y), -np.sin(X) * Y, rtol=1e-6)
    pruned, used = pe.dce_jaxpr(xf.make_jaxpr(call)(X, Y), [False, False, True])
    assert used == [False, True] and len(pruned.jaxpr.eqns[0].params["call_jaxpr"].eqns) == 1


def test_lowering():
    text = lambda primitive, **params: xf.jit(lambda x, y: primitive.bind(x, y, call_jaxpr=BODY, **params)).lower(X, Y).as_text()
    assert "call @" not in text(core.create_call_primitive("block"))
    assert "call @named" in text(core.create_call_primitive("block", inline_jax_late=False), name="named")
    assert "call @named" in text(registered("named", inline_jax_late=False)) and "call @" not in text(registered("named"))
    with pytest.raises(NotImplementedError, match="register_lowering"):
        text(registered(None))
    plain = core.Primitive("block")
    plain.multiple_results = True
    plain.def_abstract_eval(lambda *_, call_jaxpr: call_jaxpr.out_avals)
    for late in (False, True):
        mlir.register_lowering(plain, partial(mlir.core_call_lowering, name="named", inline_jax_late=late))
        assert ("call @named" in text(plain)) != late


def test_names_among_the_primitives():
    for name in ("create_call_primitive", "eval_jaxpr_transpose", "register_call_primitive_rules"):
        assert getattr(core.primitives, name) is getattr(core, name) and name in dir(core.primitives)


def test_transpose():
    """Cotangents are added to accumulators."""
    primitive = registered("f")
    product = xf.make_jaxpr(lambda x, y: (x * y, x))(1.0, 2.0)
    total = ValAccum(xf.typeof(1.0))
    assert core.eval_jaxpr_transpose(primitive, [1.0, 2.0], total, 5.0, call_jaxpr=product) == {}
    assert total.freeze() == 7
    core.eval_jaxpr_transpose(primitive, [1.0, ad.Zero(xf.typeof(1.0))], total, 5.0, call_jaxpr=product)
    assert total.freeze() == 12
