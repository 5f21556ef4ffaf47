"""Name stacks of operations: scopes and transformations, relative to the jaxpr that contains the operation."""

import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.core.ir import subprograms


def names(function, *args, inner=False):
    """Return `operation:names` of all equations, or of those in inner jaxprs."""
    def walk(jaxpr, depth):
        for eqn in jaxpr.eqns:
            if bool(depth) == inner:
                found.append(f"{eqn.primitive.name}:{eqn.source_info.name_stack}")
            for program in subprograms(eqn.params):
                walk(program, depth + 1)

    found = []
    walk(xf.make_jaxpr(function)(*args).jaxpr, 0)
    return found


def in_scope(name, function):
    def scoped(*args):
        with xf.named_scope(name):
            return function(*args)

    return scoped


h = in_scope("h", xnp.sin)


def test_inner_jaxprs_begin_without_names():
    """A jaxpr that is traced once is shared by all callers: it has no names of the first one."""
    f = xf.jit(lambda x: lax.sin(x))

    def g(x):
        with xf.named_scope("a"):
            y = f(x)
        with xf.named_scope("b"):
            return f(y)

    assert names(g, 1.0) == ["jit:a", "jit:b"] and names(g, 1.0, inner=True) == ["sin:", "sin:"]
    assert names(xf.vmap(g), xnp.ones(2)) == ["jit:vmap(a)", "jit:vmap(b)"]
    assert names(xf.vmap(g), xnp.ones(2), inner=True) == ["sin:", "sin:"]
    assert names(xf.grad(g), 1.0) == ["jit:jvp(a)", "jit:jvp(b)", "jit:transpose(jvp(b))", "jit:transpose(jvp(a))"]
    assert set(names(xf.grad(g), 1.0, inner=True)) == {"sin:", "cos:", "mul:"}


@pytest.mark.parametrize("body", [
    lambda x: lax.scan(lambda c, _: (lax.sin(c), None), x, None, length=2)[0],
    lambda x: lax.while_loop(lambda y: y < 2, lambda y: y + 1, x),
    lambda x: lax.cond(x > 0, lax.sin, lax.cos, x),
    lambda x: xf.checkpoint(lax.sin)(x),
    lambda x: lax.fori_loop(0, 3, lambda i, y: y * 2, x),
], ids=["scan", "while_loop", "cond", "checkpoint", "fori_loop"])
def test_bodies_have_no_scope_in_the_jaxpr_and_all_scopes_in_the_module(body):
    assert {entry.split(":")[1] for entry in names(in_scope("a", body), 1.0, inner=True)} == {""}
    lowered = xf.jit(in_scope("a", body)).lower(1.0).as_text(debug_info=True)
    assert "/a/" in lowered and "/a/a/" not in lowered.replace("/while/body", "").replace("/while/cond", "")


def test_inlined_operations_have_the_scope_of_the_call():
    f = xf.jit(xf.grad(h), inline=xf.Inline.JAX_EARLY)
    stacks = ["q/jvp(h)", "q/transpose(jvp(h))"]
    assert names(in_scope("q", f), 1.0) == [f"sin:{stacks[0]}", f"cos:{stacks[0]}", f"mul:{stacks[1]}"]
    program = xf.make_jaxpr(in_scope("q", f))(1.0)
    replayed = in_scope("r", lambda x: xf.core.eval_jaxpr(program.jaxpr, program.consts, x))
    assert names(replayed, 1.0) == [f"sin:r/{stacks[0]}", f"cos:r/{stacks[0]}", f"mul:r/{stacks[1]}"]


def test_derivatives_have_the_scope_of_their_use():
    def apart(x):
        with xf.named_scope("o"):
            _, pull = xf.vjp(h, x)
        with xf.named_scope("p"):
            return pull(x)[0]

    assert names(apart, 1.0) == ["sin:o/jvp(h)", "cos:o/jvp(h)", "mul:p/transpose(jvp(h))"]
    with xf.named_scope("outside"):
        _, push = xf.linearize(h, 1.0)
        assert names(push, 1.0) == ["mul:jvp(h)"]


def test_names_of_nested_transformations():
    z = in_scope("z", xf.grad(h))
    assert names(xf.grad(z), 1.0) == [
        *["sin:jvp(z)/jvp(h)", "cos:jvp(z)/jvp(h)", "cos:jvp(z)/jvp(h)", "sin:jvp(z)/jvp(h)"],
        "mul:jvp(z)/transpose(jvp(h))", "mul:transpose(jvp(z))/transpose(jvp(h))",
        "neg:transpose(jvp(z))/jvp(h)", "mul:transpose(jvp(z))/jvp(h)"]
    assert names(xf.vmap(z), xnp.ones(2)) == ["sin:vmap(z)/jvp(h)", "cos:vmap(z)/jvp(h)", "mul:vmap(z)/transpose(jvp(h))"]
    assert names(xf.grad(lambda x: xf.vmap(h)(x).sum()), xnp.ones(2)) == [
        "sin:jvp(vmap(h))", "cos:jvp(vmap(h))", "reduce_sum:jvp()", "broadcast_in_dim:transpose(jvp())",
        "mul:transpose(jvp(vmap(h)))"]
