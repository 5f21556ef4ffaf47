"""Operations that call a program have no rules of their own: transformations call what they make of the program."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.ad_checkpoint import checkpoint_name
from xlafront.core.ir import dce_jaxpr, jaxpr_as_fun
from xlafront.core.program_call import ProgramCall
from xlafront.interpreters import ad, batching
from xlafront.runtime.sharding import NamedSharding, PartitionSpec
from xlafront.staging.jitted import jit_p
from xlafront.staging.sharding_arguments import UNSPECIFIED

block_p = ProgramCall("block", parameter="body", impl=lambda *args, body, **_: jaxpr_as_fun(body)(*args),
                      lower=lambda ctx, *operands, body, **_: ctx.call(body, operands, "block"))
X, Y = np.float32([0.3, 0.7]), np.float32([1.5, 2.5])


def plain(x, y):
    return xnp.sin(x) * y, x + 1.0


def block(x, y):
    return block_p.bind(x, y, body=xf.make_jaxpr(plain)(X, Y), note="kept")


def scalar(f):
    return lambda x, y: sum(r.sum() for r in f(x, y))


CASES = {
    "value": (lambda f: f, (X, Y)),
    "jvp": (lambda f: lambda x, y: xf.jvp(lambda x: f(x, y), (x,), (y,)), (X, Y)),
    "grad": (lambda f: xf.grad(scalar(f), (0, 1)), (X, Y)),
    "grad in one argument": (lambda f: xf.grad(scalar(f), 1), (X, Y)),
    "second derivative": (lambda f: xf.hessian(scalar(f)), (X, Y)),
    "vmap": (lambda f: xf.vmap(lambda y: f(X, y)), (np.stack([X, Y, X]),)),
    "vmap of grad": (lambda f: xf.vmap(xf.grad(lambda y: scalar(f)(X, y))), (np.stack([X, Y, X]),)),
    "checkpoint": (lambda f: xf.grad(xf.checkpoint(scalar(f), policy=xf.checkpoint_policies.everything_saveable)), (X, Y)),
}


@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("case", CASES)
def test_transformed_calls_equal_transformed_programs(case, jitted):
    transform, args = CASES[case]
    wrap = xf.jit if jitted else lambda f: f
    found, expected = [xf.tree.leaves(wrap(transform(f))(*args)) for f in (block, lambda x, y: list(plain(x, y)))]
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("case", [case for case in CASES if case != "checkpoint"])
def test_transformed_calls_are_calls(case):
    transform, args = CASES[case]
    program = xf.make_jaxpr(transform(block))(*args)
    calls = [eqn for eqn in program.eqns if eqn.primitive is block_p]
    assert calls and all(eqn.params["note"] == "kept" for eqn in calls)
    assert "sin" not in [eqn.primitive.name for eqn in program.eqns]


def test_dead_code_within_a_call():
    program = xf.make_jaxpr(lambda x, y: block(x, y)[1])(X, Y).jaxpr
    pruned, read = dce_jaxpr(program, [True])
    [eqn] = pruned.eqns
    assert read == [True, False] and len(eqn.invars) == len(eqn.outvars) == 1
    assert [e.primitive.name for e in eqn.params["body"].eqns] == ["add"]


def test_policies_apply_to_nested_checkpointed_calls():
    """As the reference does: what the outer policy saves is saved, although the inner call is recomputed."""
    inner = xf.checkpoint(lambda x: xnp.sin(checkpoint_name(xnp.exp(x), "e")))
    outer = xf.checkpoint(lambda x: xnp.cos(inner(x)).sum(), policy=xf.checkpoint_policies.save_only_these_names("e"))
    np.testing.assert_allclose(xf.grad(outer)(X), -np.sin(np.sin(np.exp(X))) * np.cos(np.exp(X)) * np.exp(X), rtol=1e-5)
    forward = xf.make_jaxpr(xf.grad(outer))(X).eqns[0]
    assert len(forward.outvars) == 2  # the result, and what has the name


def test_the_rules_of_calls_are_in_the_registries():
    closed = xf.make_jaxpr(lambda x: [x * x])(3.0)
    assert block_p in ad.primitive_jvps and block_p in ad.primitive_transposes
    results, tangents = ad.primitive_jvps[block_p]([3.0], [1.0], body=closed)
    assert (float(results[0]), float(tangents[0])) == (9.0, 6.0)
    double = xf.make_jaxpr(lambda x: [x * 2.0])(3.0)
    [ct] = ad.get_primitive_transpose(jit_p)(
        [1.0], ad.UndefinedPrimal(xf.typeof(np.float32(3))), jaxpr=double, name="double", donated_invars=(False,),
        in_shardings=(UNSPECIFIED,), out_shardings=(UNSPECIFIED,), keep_unused=False, inline=False)
    assert float(ct) == 2.0
    assert jit_p in batching.fancy_primitive_batchers and jit_p not in batching.primitive_batchers
    batching.primitive_batchers[block_p] = lambda operands, dims, **params: (list(operands), list(dims))
    try:
        assert block_p not in batching.fancy_primitive_batchers and block_p in batching.primitive_batchers
    finally:
        del batching.primitive_batchers[block_p]


def test_shardings_of_a_jitted_function_follow_its_operands_and_results():
    mesh = xf.make_mesh((1,), ("x",), (xf.sharding.AxisType.Auto,))
    row, replicated = NamedSharding(mesh, PartitionSpec("x")), NamedSharding(mesh, PartitionSpec())
    f = xf.jit(lambda x, y: (xnp.sin(x) * y).sum(), in_shardings=(row, replicated), donate_argnums=0)
    forward, backward = xf.make_jaxpr(xf.grad(f))(X, Y).eqns
    assert forward.params["in_shardings"] == (row, replicated) and forward.params["donated_invars"] == (True, False)
    assert set(forward.params["out_shardings"]) == {UNSPECIFIED}
    assert backward.params["out_shardings"] == (row,)
    [mapped] = xf.make_jaxpr(xf.vmap(f, (0, None)))(np.stack([X, Y]), Y).eqns
    assert mapped.params["in_shardings"] == (NamedSharding(mesh, PartitionSpec(PartitionSpec.UNCONSTRAINED, "x")), replicated)
    assert mapped.params["donated_invars"] == (True, False)


def test_derived_jaxprs_depend_on_the_constants():
    """Two closed jaxprs may share a jaxpr: their derivatives, batches and functions in a module have constants of their own."""
    call_p = ProgramCall("call", lower=lambda ctx, *operands, jaxpr: ctx.call(jaxpr, operands, "call"))
    w = xnp.arange(1.0, 4.0)
    first = xf.make_jaxpr(lambda x: x * w)(xnp.ones(3))
    second = first.replace(consts=[10 * w])
    f, g = (lambda x, closed=closed: call_p.bind(x, jaxpr=closed)[0].sum() for closed in (first, second))
    for transform in (lambda f: f, xf.jit):
        np.testing.assert_array_equal(transform(xf.grad(f))(xnp.ones(3)), w)
        np.testing.assert_array_equal(transform(xf.grad(g))(xnp.ones(3)), 10 * w)
        np.testing.assert_array_equal(transform(xf.vmap(f))(xnp.ones((2, 3))), [6, 6])
        np.testing.assert_array_equal(transform(xf.vmap(g))(xnp.ones((2, 3))), [60, 60])
    np.testing.assert_array_equal(xf.jit(lambda x: (f(x), g(x)))(xnp.ones(3)), [6, 60])
