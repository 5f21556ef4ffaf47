"""Functions with custom rules: the forms of calls, and the use of rules by `vmap` and `jacfwd`."""

import functools

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.custom_batching import custom_vmap

X = np.array([1.0, 2.0, 3.0], np.float32)


def with_jvp(f):
    g = xf.custom_jvp(f)
    g.defjvp(lambda primals, tangents: xf.jvp(f, primals, tangents))
    return g


def with_vjp(f):
    g = xf.custom_vjp(f)
    g.defvjp(lambda *args: xf.vjp(f, *args), lambda pull, ct: pull(ct))
    return g


def with_vmap(f):
    g = custom_vmap(f)
    g.def_vmap(lambda size, batched, *args: (xf.vmap(f, in_axes=[0 if b else None for b in batched])(*args), True))
    return g


KINDS = {"custom_jvp": with_jvp, "custom_vjp": with_vjp, "custom_vmap": with_vmap}


def keyword_only(x, *, a=2.0):
    return x * a


@pytest.mark.parametrize("kind", KINDS)
def test_keyword_only_arguments_that_are_not_passed(kind):
    for f in (keyword_only, functools.partial(lambda x, a: x * a, a=2.0)):
        g = KINDS[kind](f)
        assert g(3.0) == 6 and xf.grad(g)(3.0) == 2 and xf.vmap(g)(X).tolist() == (2 * X).tolist()
    with pytest.raises(TypeError, match="keyword arguments a, which have no position"):
        KINDS[kind](keyword_only)(3.0, a=1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_arguments_after_an_omitted_one(kind):
    def f(x, a=2.0, b=0.0):
        return x * a + b

    assert KINDS[kind](f)(3.0, b=1.0) == 7


def summed(x):
    return lax.psum(x * x, "i")


WRAPPED = {"plain": lambda f: f, "jit": xf.jit, "checkpoint": xf.checkpoint,
           "scan": lambda f: lambda x: lax.scan(lambda c, _: (c + f(x), None), 0.0, None, length=1)[0]}


@pytest.mark.parametrize("wrapped", WRAPPED)
@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
def test_results_that_are_equal_for_all_elements_are_unbatched(kind, wrapped):
    """The law: a function with a rule is mapped as the function itself is; so are its derivatives."""
    f = WRAPPED[wrapped](KINDS[kind](summed))
    for outer in (lambda f: f, xf.jit):
        assert outer(xf.vmap(f, axis_name="i", out_axes=None))(X) == 14

    def total(g):
        return lambda x: xf.vmap(g, axis_name="i", out_axes=None)(x) * 1.0

    if kind == "custom_vjp" and wrapped == "plain":  # each element's rule has the whole cotangent, and gives its own share
        assert xf.grad(total(f))(X).shape == (3,)
    if kind == "custom_jvp":
        np.testing.assert_allclose(xf.jvp(total(f), (X,), (X,))[1], 28, rtol=1e-6)
        np.testing.assert_allclose(xf.grad(total(f))(X), xf.grad(total(summed))(X), rtol=1e-6)


@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
def test_results_some_of_which_are_batches(kind):
    f = KINDS[kind](lambda x: (lax.psum(x, "i"), x))
    same, each = xf.vmap(f, axis_name="i", out_axes=(None, 0))(X)
    assert same == 6 and each.tolist() == X.tolist()


def square_by(calls, factor=5.0):
    """A square whose batching rule returns a multiple of it, and records its arguments."""
    f = custom_vmap(lambda x: x**2)

    @f.def_vmap
    def rule(size, batched, x):
        calls.append((size, batched[0], np.shape(x)))
        return factor * x**2, batched[0]

    return f


def test_jacfwd_calls_the_rule():
    """With a value that is no batch: only the tangents are."""
    calls = []
    np.testing.assert_allclose(xf.jacfwd(square_by(calls))(X), np.diag(10 * X), rtol=1e-6)
    assert calls == [(3, False, (3,))]


def test_batched_tangents_of_unbatched_values():
    def push(x, t):
        return xf.jvp(square_by([]), [x], [t])

    value, moved = xf.vmap(push, in_axes=(None, 0), out_axes=(None, 0))(2.0, X)
    assert value == 20 and moved.tolist() == (20 * X).tolist()
    value, moved = xf.vmap(push)(X, X)
    assert value.tolist() == (5 * X**2).tolist() and moved.tolist() == (10 * X**2).tolist()


def test_the_rule_of_custom_vmap_is_trusted():
    f = custom_vmap(lambda x: x)
    f.def_vmap(lambda size, batched, x: (x[:2], True))
    assert xf.vmap(f)(X).tolist() == [1, 2]
    f.def_vmap(lambda size, batched, x: (x[0], True))
    with pytest.raises(IndexError, match="is a batch of 3.*a scalar"):
        xf.vmap(f)(X)


def pulling_back(bwd):
    f = xf.custom_vjp(lambda p: p["w"] * p["b"])
    f.defvjp(lambda p: (p["w"] * p["b"], None), lambda _, ct: bwd(ct))
    return xf.grad(f)({"w": xnp.float32(2), "b": xnp.float32(3)})


def test_cotangents_of_backward_rules():
    """One for a whole argument stands for all that is in it; another dtype is left as it is."""
    assert pulling_back(lambda ct: (ct * 7,)) == {"w": 7, "b": 7}
    assert pulling_back(lambda ct: (None,)) == {"w": 0, "b": 0}
    found = pulling_back(lambda ct: ({"w": ct.astype("float16"), "b": ct * 1j},))
    assert found["w"].dtype == np.float16 and found["b"] == 1j


def test_positions_beyond_the_arguments():
    f = xf.custom_jvp(lambda n, x: x, nondiff_argnums=(2,))
    f.defjvp(lambda n, primals, tangents: (primals[0], tangents[0]))
    with pytest.raises(IndexError, match=r"nondiff_argnums .* called with 2"):
        f(1, 2.0)


@xf.custom_vjp
def marked(x):
    return 2 * x


marked.defvjp(lambda x: (2 * x, None), lambda _, ct: (0 * ct + 7,))


@xf.custom_vjp
def unmoved(x):
    return 3 * x


unmoved.defvjp(lambda x: (3 * x, None), lambda _, ct: (None,))


@pytest.mark.parametrize("f, expected", [
    (lambda x: unmoved(xnp.sin(marked(x))) + x, 8), (lambda x: unmoved(marked(x)), 7),
    (lambda x: lax.scan(lambda c, _: (unmoved(marked(c)) + c, None), x, None, length=2)[0], 15),
    (lambda x: (marked(x), x)[1], 1), (lambda x: lax.stop_gradient(marked(x)) + x, 1)],
    ids=["behind sin", "alone", "scan", "unread", "stopped"])
def test_rules_run_for_zero_cotangents(f, expected):
    """A rule may return values that are no derivatives, such as scales to store.

    It runs wherever a result depends on its function through differentiable operations, even if a cotangent on the way is zero.
    """
    assert xf.grad(f)(2.0) == expected
    assert xf.jit(xf.grad(f))(2.0) == expected
