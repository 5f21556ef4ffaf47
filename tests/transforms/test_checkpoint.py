"""Rematerialisation: the same values and derivatives as without, fewer residuals, less memory."""

import functools

import numpy as np
import pytest
from laws import check_derivatives

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.ad_checkpoint import (
    Offloadable,
    Recompute,
    Saveable,
    checkpoint_name,
    checkpoint_name_fwd,
    name_p,
    print_saved_residuals,
)

P = xf.checkpoint_policies
POLICIES = {
    "none": None, "everything": P.everything_saveable, "nothing": P.nothing_saveable, "dots": P.dots_saveable,
    "unbatched dots": P.dots_with_no_batch_dims_saveable, "names": P.save_only_these_names("h"),
    "other names": P.save_any_names_but_these("h"), "except names": P.save_anything_except_these_names("h"),
    "both": P.save_from_both_policies(P.dots_saveable, P.save_only_these_names("h")),
    "offload": P.save_and_offload_only_these_names(names_which_can_be_saved=["g"], names_which_can_be_offloaded=["h"],
                                                   offload_src="device", offload_dst="pinned_host"),
    "offload dots": P.offload_dot_with_no_batch_dims("device", "pinned_host"),
    "own": lambda prim, *avals, **params: Saveable if prim.name == "sin" else Recompute,
}


def block(w, x):
    h = checkpoint_name(x @ w, "h")
    return xnp.sin(h) @ checkpoint_name(xnp.cos(w), "g")


def looped(w, x):
    return lax.scan(lambda c, _: (xnp.sin(checkpoint_name(c @ w, "h")), c.sum()), x, None, 3)


def with_jit(w, x):
    return xf.jit(block)(w, x) * 2


def branching(w, x):
    return lax.cond(x[0, 0] > 0, block, lambda w, x: x, w, x)


FUNCTIONS = {"block": block, "scan": looped, "jit": with_jit, "cond": branching,
             "nested": lambda w, x: xf.checkpoint(block)(w, xnp.tanh(x))}
W, X = (np.random.default_rng(3).normal(size=(3, 3)).astype(np.float32) for _ in range(2))
X = np.abs(X)


def loss(f):
    return lambda w, x: sum((y**2).sum() for y in xf.tree.leaves(f(w, x)))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_are_those_of_the_function(name, policy):
    f = FUNCTIONS[name]
    plain, saved = loss(f), loss(xf.checkpoint(f, policy=POLICIES[policy]))
    np.testing.assert_allclose(saved(W, X), plain(W, X), rtol=1e-5)
    expected = xf.grad(plain, (0, 1))(W, X)
    for g in (xf.grad(saved, (0, 1)), xf.jit(xf.grad(saved, (0, 1)))):
        for found, correct in zip(g(W, X), expected):
            np.testing.assert_allclose(found, correct, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivatives_and_vmap(name, rng):
    f = loss(xf.checkpoint(FUNCTIONS[name], policy=P.dots_saveable))
    check_derivatives(xf.grad(f, (0, 1)), (W, X), rng)
    rows = np.stack([X, X * 2])
    batched = xf.jit(xf.vmap(xf.grad(f), (None, 0)))(W, rows)
    for found, x in zip(batched, rows):
        np.testing.assert_allclose(found, xf.grad(loss(FUNCTIONS[name]))(W, x), rtol=1e-4, atol=1e-4)


def residuals(f, *args):
    """The number of arrays that the derivative keeps besides arguments."""
    from xlafront.transforms.calls.checkpoint import saved_residuals

    return [line for line in saved_residuals(f, *args) if "from the argument" not in line]


@pytest.mark.parametrize("policy, saved", [("none", []), ("nothing", []), ("names", ["named 'h'"]),
                                          ("dots", ["output of dot_general"]), ("other names", ["named 'g'"])])
def test_policies_save_their_residuals(policy, saved):
    f = xf.checkpoint(block, policy=POLICIES[policy])
    found = residuals(f, W, X)
    assert len(found) == len(saved) and all(k in line for k, line in zip(saved, found)), found
    assert len(residuals(block, W, X)) > len(found)


def test_policies_apply_to_bodies_of_scans():
    step = lambda c, _: (xnp.sin(checkpoint_name(c @ W, "h")), None)  # noqa: E731
    f = lambda x, policy: lax.scan(xf.checkpoint(step, policy=policy), x, None, 5)[0].sum()  # noqa: E731
    shapes = lambda policy: [  # noqa: E731
        v.aval.shape for e in xf.make_jaxpr(xf.grad(f), static_argnums=1)(X, policy).eqns if e.primitive.name == "scan"
        for v in e.outvars if v.aval.ndim == 3]
    assert shapes(None) == [(5, 3, 3)]  # the carry
    assert len(shapes(P.save_only_these_names("h"))) <= 2


def test_policies_apply_to_branches():
    def f(w, x):
        return lax.cond(x[0, 0] > 0, lambda: xnp.sin(checkpoint_name(x @ w, "h")), lambda: xnp.tanh(x[:2].sum(1) @ w[:2]) + w)

    def shapes(policy):
        program = xf.make_jaxpr(xf.grad(lambda w, x: xf.checkpoint(f, policy=policy)(w, x).sum()))(W, X)
        [forward] = [e for e in program.eqns if e.primitive.name == "remat2" and not e.params["differentiated"]]
        return [v.aval.shape for v in forward.outvars[1:]]

    assert shapes(None) == [] and shapes(P.save_only_these_names("h")) == [(3, 3)]
    assert sorted(shapes(P.dots_saveable)) == [(3,), (3, 3)]
    for x in (X, -X):
        for policy in (None, P.save_only_these_names("h"), P.dots_saveable, P.everything_saveable):
            found = xf.jit(xf.grad(lambda w, x, p=policy: xf.checkpoint(f, policy=p)(w, x).sum()))(W, x)
            np.testing.assert_allclose(found, xf.grad(lambda w, x: f(w, x).sum())(W, x), rtol=1e-5, atol=1e-6)


def test_printing(capsys):
    print_saved_residuals(xf.checkpoint(block, policy=P.save_only_these_names("h")), W, X)
    lines = capsys.readouterr().out.splitlines()
    assert "f32[3,3] from the argument w" in lines
    assert any("named 'h' from" in line and "test_checkpoint.py" in line for line in lines)


def memory(wrap):
    def deep(w, x):
        for _ in range(12):
            x = wrap(lambda x: xnp.sin(xnp.tanh(xnp.cos(x @ w)) @ w))(x)
        return x.sum()

    w, x = np.ones((32, 32), np.float32), np.ones((256, 32), np.float32)
    return xf.jit(xf.grad(deep)).lower(w, x).compile().memory_analysis().temp_size_in_bytes


@pytest.mark.cpu_only
def test_compiled_programs_need_less_memory():
    plain, least = memory(lambda f: f), memory(xf.checkpoint)
    dots = memory(lambda f: xf.checkpoint(f, policy=P.dots_saveable))
    assert least < 0.5 * plain
    assert least < dots < plain


def test_static_arguments_and_keywords():
    calls = []

    @functools.partial(xf.checkpoint, static_argnums=(1,))
    def f(x, power, *, scale):
        calls.append(power)
        assert isinstance(power, int)
        return (x**power * scale).sum()

    np.testing.assert_allclose(xf.grad(f)(xnp.arange(3.0), 3, scale=2.0), 6 * np.arange(3.0) ** 2)
    g = xf.checkpoint(lambda x, mode: x * 2 if mode == "double" else x, static_argnames="mode")
    assert xf.grad(lambda x: g(x, mode="double"))(1.0) == 2
    h = xf.checkpoint(lambda x, settings, *, more: x * settings["factor"] * more[0], static_argnums=1, static_argnames="more")
    settings = {"factor": 3.0}
    assert xf.grad(h)(1.0, settings, more=[2.0]) == 6
    settings["factor"] = 4.0  # values that cannot be hashed are looked at in every call
    assert xf.grad(h)(1.0, settings, more=[2.0]) == 8


def test_debugging_is_repeated_where_values_are_computed_again():
    """As in the reference."""
    seen = []

    def f(x):
        xf.debug.callback(lambda v: seen.append(float(v)), x)
        return xnp.sin(x)

    xf.jit(xf.grad(xf.checkpoint(f)))(1.0)
    xf.effects_barrier()
    assert seen == [1.0, 1.0]


def test_optimization_barrier():
    f = lambda x: lax.optimization_barrier((x, {"a": x * 2}))[1]["a"] * x  # noqa: E731
    assert f(3.0) == 18 and xf.jit(f)(3.0) == 18 and xf.grad(f)(3.0) == 12 and xf.jit(xf.grad(xf.grad(f)))(3.0) == 4
    np.testing.assert_array_equal(xf.vmap(f)(xnp.arange(3.0)), 2 * np.arange(3.0) ** 2)
    assert "optimization_barrier" in xf.jit(f).lower(3.0).as_text()
    assert lax.optimization_barrier(()) == () and lax.optimization_barrier(None) is None
    key = xf.random.key(1)
    assert (xf.random.key_data(lax.optimization_barrier(key)) == xf.random.key_data(key)).all()


def test_fwd_and_bwd():
    f = lambda a, b: (xnp.sin(a) * b, b)  # noqa: E731
    for jitted in (True, False):
        fwd, bwd = xf.fwd_and_bwd(f, (0, 1), has_aux=True, jitted=jitted)
        y, saved, aux = fwd(1.0, 2.0)
        np.testing.assert_allclose(y, 2 * np.sin(1), rtol=1e-6)
        assert aux == 2
        np.testing.assert_allclose(bwd(saved, 3.0), (6 * np.cos(1), 3 * np.sin(1)), rtol=1e-6)
        assert all(isinstance(x, xf.Array) for x in xf.tree.leaves(saved))
    fwd, bwd = xf.fwd_and_bwd(lambda a: a**2, 0)
    assert bwd(fwd(3.0)[1], 1.0) == 6


def test_policies_compare_by_what_they_save():
    assert P.save_only_these_names("a", "b") == P.save_only_these_names("b", "a") != P.save_only_these_names("a")
    assert Offloadable("device", "pinned_host") == Offloadable("device", "pinned_host")


@pytest.mark.parametrize("call, kind, match", [
    (lambda: xf.checkpoint(3), TypeError, "takes a function"),
    (lambda: xf.checkpoint(block)(W, "x"), TypeError, "x"),
    (lambda: xf.checkpoint(block, policy="dots"), TypeError, "checkpoint_policies"),
    (lambda: xf.checkpoint(block, concrete=True), TypeError, "concrete"),  # JAX 0.12 has no such argument any more
    (lambda: xf.checkpoint(lambda x: "no")(1.0), TypeError, "str"),
    (lambda: checkpoint_name(W, 3), TypeError, "string"),
    (lambda: P.save_and_offload_only_these_names(names_which_can_be_saved=["a"], names_which_can_be_offloaded=["a"],
                                                 offload_src="device", offload_dst="pinned_host"), ValueError, "'a'"),
    (lambda: xf.fwd_and_bwd(block, 5)[0](W, X), ValueError, "argnums=5"),
])
def test_bad_input(call, kind, match):
    with pytest.raises(kind, match=match):
        call()


def test_the_barrier_is_before_the_marked_operands():
    def loss(state, scale):
        return (xnp.sin(xnp.sin(state["w"]) * state["x"]) * scale).sum()

    state, scale = {"w": xnp.ones(3), "x": xnp.ones(3)}, xnp.ones(3)
    expected = xf.grad(loss)(state, scale)
    for marks, count in ((True, 4), (({"w": False, "x": True}, True), 3), ((False, True), 2), ((False, False), 1), (False, 0)):
        step = xf.grad(xf.checkpoint(loss, prevent_cse=marks))  # (the cotangent is an operand too)
        text = xf.jit(step).trace(state, scale).lower(lowering_platforms=("cuda",)).as_text()
        found = [line.split("optimization_barrier")[1].split(":")[0].count("%") for line in text.splitlines()
                 if "optimization_barrier" in line]
        assert sum(found) == count, marks
        for name in state:
            np.testing.assert_allclose(step(state, scale)[name], expected[name], rtol=1e-6)


def test_saved_residuals_are_in_the_order_of_the_program(capsys):
    recomputed = xf.checkpoint(lambda x: xnp.exp(xnp.sin(x)))

    def function(d):
        return (xnp.sin(d["b"]) * xnp.cos(d["a"]) * np.arange(3.0)).sum() * recomputed(d["a"]).sum()

    print_saved_residuals(function, {"a": xnp.ones(3), "b": xnp.ones(3)})
    lines = capsys.readouterr().out.splitlines()
    assert "a constant" in lines[0] and "the argument d['a']" in lines[1]
    names = [line.split("output of ")[1].split(" ")[0] for line in lines[2:]]
    assert names == ["sin", "cos", "cos", "sin", "reduce_sum", "reduce_sum"]
    file, line, column = lines[2].split(" from ")[1].split(" (")[0].rsplit(":", 2)
    with open(file) as f:
        assert f.read().splitlines()[int(line) - 1][int(column):].startswith("xnp.sin(d")


def test_saved_residuals_have_memory_spaces_and_names(capsys):
    offload = xf.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[], names_which_can_be_offloaded=["h"], offload_src="device", offload_dst="pinned_host")
    print_saved_residuals(xf.checkpoint(lambda x: xnp.sin(checkpoint_name(xnp.sin(x), "h")), policy=offload), np.ones(3))
    print_saved_residuals(lambda x, i: x[i], np.ones(3), np.int32(1))
    saved, read = capsys.readouterr().out.splitlines()[1:]
    assert saved.startswith("f32<host>[3] output of") and "test_saved_residuals_have_memory" in saved
    assert read.startswith("i32[] output of") and __file__ in read


def test_names_are_given_to_arrays_only():
    with pytest.raises(TypeError, match="checkpoint_name"):
        checkpoint_name({"a": "text"}, "h")


def test_saved_residuals_of_jitted_functions_are_theirs(capsys):
    @xf.jit
    def scaled(x, y):
        return xnp.sin(x) * y

    print_saved_residuals(lambda x: scaled(x, 2.0) + xf.nn.softmax(x), np.ones(3, np.float32))
    lines = capsys.readouterr().out.splitlines()
    assert any("output of jitted function 'scaled' from " in line for line in lines) and not any(" sin " in line for line in lines)
    assert any(line.startswith("f32[3] output of exp from ") for line in lines)  # of an internal function


def test_names_in_the_forward_computation(capsys):
    """`checkpoint_name_fwd` and the primitive name values for policies, as `checkpoint_name` does."""
    policy = xf.checkpoint_policies.save_only_these_names("h")
    for named in (checkpoint_name, checkpoint_name_fwd, lambda x, name: name_p.bind(x, name=name)):
        f = xf.checkpoint(lambda x: xnp.sin(named(xnp.sin(xnp.sin(x)), "h")), policy=policy)  # noqa: B023
        np.testing.assert_allclose(xf.grad(f)(1.0), 0.26450825, rtol=1e-6)
        print_saved_residuals(f, 1.0)
        assert "named 'h'" in capsys.readouterr().out


def test_saved_floats_of_16_bits_are_those_of_the_first_computation():
    """1 + 2^-7 squared is 1 + 2^-6 + 2^-14, of which bfloat16 has the first two terms, and so has what is computed from it."""
    def square(x):
        y = xf.ad_checkpoint.checkpoint_name(x * x, "y").astype(np.float32)
        return y * y

    f = xf.jit(xf.checkpoint(square, policy=xf.checkpoint_policies.save_only_these_names("y")))
    value, pullback = xf.vjp(f, xnp.full(3, 1 + 2**-7, "bfloat16"))
    assert value.tolist() == [(1 + 2**-6) ** 2] * 3
    assert pullback(xnp.ones(3))[0].dtype == "bfloat16"


@pytest.mark.parametrize("wrap", [lambda f: f, xf.jit])
def test_functions_with_rules_may_write_to_references(wrap):
    """The derivative of a checkpointed function uses their rules, and does not recompute them."""
    ref = xf.new_ref(0.0)

    @xf.custom_vjp
    def note(x):
        ref[...] += x
        return x

    note.defvjp(lambda x: (note(x), None), lambda _, ct: (2 * ct,))
    gradient = wrap(xf.grad(xf.checkpoint(lambda x: xnp.sin(note(x * x)))))
    np.testing.assert_allclose(gradient(1.5), np.cos(2.25) * 2 * 3, rtol=1e-6)
    assert ref[...] == 2.25
