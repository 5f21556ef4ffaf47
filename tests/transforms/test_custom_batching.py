"""Functions with batching rules or transposes of their own, against mathematics."""

import functools

import numpy as np
import pytest

import xlafront as xf
import xlafront.custom_batching as custom_batching
import xlafront.custom_derivatives as custom_derivatives
import xlafront.numpy as xnp

custom_vmap, sequential_vmap = custom_batching.custom_vmap, custom_batching.sequential_vmap
linear_call = custom_derivatives.linear_call

X, Y = 0.7, 2.0
XS = np.linspace(-1.0, 1.5, 4).astype("float32")
YS = np.linspace(0.5, 3.0, 4).astype("float32")

WAYS = {
    "eager": lambda f: f,
    "jit": xf.jit,
    "jit of jit": lambda f: xf.jit(lambda *xs: xf.jit(f)(*xs)),
}
wrapped = pytest.mark.parametrize("outer", WAYS.values(), ids=WAYS)
wrapped_inside = pytest.mark.parametrize("inner", list(WAYS.values())[:2], ids=list(WAYS)[:2])


def close(found, expected):
    found, expected = xf.tree.leaves(found), xf.tree.leaves(expected)
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        np.testing.assert_allclose(np.asarray(a, "float32"), b, 1e-5, 1e-5)


def make_mapped():
    seen = []

    @custom_vmap
    def f(x, y):
        return xnp.sin(x) * y

    @f.def_vmap
    def rule(axis_size, in_batched, x, y):
        seen.append((axis_size, tuple(in_batched)))
        return 10 * xnp.sin(x) * y, any(in_batched)

    return f, seen


@wrapped
def test_custom_vmap(outer):
    f, seen = make_mapped()
    close(outer(f)(X, Y), np.sin(X) * Y)
    assert not seen
    for g in (f, xf.jit(f)):
        close(outer(xf.vmap(g))(XS, YS), 10 * np.sin(XS) * YS)
        assert seen.pop() == (4, (True, True))
        close(outer(xf.vmap(g, (None, 0)))(X, YS), 10 * np.sin(X) * YS)
        assert seen.pop() == (4, (False, True))
    x = np.stack([XS, XS + 1])
    close(outer(xf.vmap(f, (1, 0)))(x, YS[:, None]), 10 * np.sin(x.T) * YS[:, None])
    close(outer(xf.vmap(xf.vmap(f, (0, None)), (None, 0)))(XS, YS), 10 * np.sin(XS) * YS[:, None])
    close(outer(xf.vmap(lambda x: f(X, Y) + x))(XS), np.sin(X) * Y + XS)


@wrapped
def test_derivatives_of_custom_vmap(outer):
    """The rule is differentiated under vmap, the function outside of it."""
    f, _ = make_mapped()
    close(outer(xf.grad(f))(X, Y), np.cos(X) * Y)
    close(outer(lambda x: xf.jvp(f, (x, Y), (1.0, 0.0))[1])(X), np.cos(X) * Y)
    close(outer(xf.grad(lambda x: xnp.sum(xf.vmap(f)(x, YS))))(XS), 10 * np.cos(XS) * YS)
    close(outer(xf.vmap(lambda x: xf.jvp(lambda z: f(z, Y), (x,), (1.0,))))(XS), (10 * np.sin(XS) * Y, 10 * np.cos(XS) * Y))
    close(outer(xf.vmap(lambda t: xf.jvp(lambda z: f(z, Y), (X,), (t,))))(XS), (
        np.full(4, 10 * np.sin(X) * Y), 10 * np.cos(X) * Y * XS))
    value, gradient = outer(xf.vmap(xf.value_and_grad(f)))(XS, YS)
    close(value, 10 * np.sin(XS) * YS)


def test_custom_vmap_with_trees():
    @custom_vmap
    def f(d, k):
        return {"sum": d["a"] + d["b"], "k": k}

    @f.def_vmap
    def rule(size, in_batched, d, k):
        assert in_batched == [{"a": True, "b": False}, False] and size == 4
        return {"sum": d["a"] + d["b"], "k": k}, {"sum": True, "k": False}

    found = xf.vmap(f, ({"a": 0, "b": None}, None))({"a": XS, "b": 2.0}, 3)
    close(found, {"sum": XS + 2, "k": np.full(4, 3)})


@pytest.mark.parametrize("rule, words", [
    (lambda n, b, x: x, "must return a pair"),
    (lambda n, b, x: (x, True, 1), "must return a pair"),
    (lambda n, b, x: ((x, x), True), "a batched flag for each result"),
    (lambda n, b, x: (x, None), "a batched flag for each result"),
    (lambda n, b, x: ((x, x), (True, True)), "structure that .* returns"),
])
def test_wrong_vmap_rules(rule, words):
    f = custom_vmap(lambda x: x)
    assert f.def_vmap(rule) is rule
    with pytest.raises(ValueError, match=words):
        xf.vmap(f)(XS)


def test_vmap_rule_without_results():
    f = custom_vmap(lambda x: x)
    f.def_vmap(lambda n, b, x: None)
    with pytest.raises(TypeError, match="must return a pair.*NoneType"):
        xf.vmap(f)(XS)


def test_custom_vmap_cannot_close_over_elements():
    def attempt(k):
        f = custom_vmap(lambda x: k * x)
        f.def_vmap(lambda n, b, x: (x, True))
        return f(2.0)

    with pytest.raises(ValueError, match="closes over.*Pass the value as an argument"):
        xf.vmap(attempt)(XS)


@wrapped
def test_sequential_vmap(outer):
    calls = []

    @sequential_vmap
    def f(x, y):
        calls.append((x.shape, y.shape) if hasattr(x, "shape") else None)
        return {"out": xnp.sin(x) * y}

    close(outer(xf.vmap(f))(XS, YS), {"out": np.sin(XS) * YS})
    assert set(calls) == {((), ())}
    close(outer(xf.vmap(f, (None, 0)))(X, YS), {"out": np.sin(X) * YS})
    close(outer(xf.vmap(lambda x: xf.grad(lambda z: f(z, Y)["out"])(x)))(XS), np.cos(XS) * Y)
    close(outer(xf.vmap(xf.vmap(f, (0, None)), (None, 0)))(XS, YS), {"out": np.sin(XS) * YS[:, None]})


# linear_call, closure_convert


def divide(r, x):
    """Division with a transpose that is 10 times too large, so that it shows when it is used."""
    return linear_call(lambda r, x: {"q": x / r["r"]}, lambda r, ct: 10 * ct["q"] / r["r"], {"r": r}, x)["q"]


@wrapped
@wrapped_inside
def test_linear_call(inner, outer):
    f = inner(divide)
    close(outer(f)(2.0, 3.0), 1.5)
    close(outer(xf.grad(f, 1))(2.0, 3.0), 5)
    close(outer(lambda x: xf.jvp(lambda z: f(2.0, z), (x,), (1.0,)))(3.0), (1.5, 0.5))
    close(outer(xf.vmap(f))(YS, XS), XS / YS)
    close(outer(xf.vmap(xf.grad(f, 1)))(YS, XS), 10 / YS)
    close(outer(xf.grad(lambda x: xnp.sum(xf.vmap(f, (0, None))(YS, x))))(3.0), np.sum(10 / YS))
    # The transpose of the transpose is the function: d/dx of 10 (2 x/r) / r in reverse applies it in place of the transpose's.
    close(outer(xf.grad(xf.grad(lambda x: f(2.0, x) ** 2)))(3.0), 5)
    close(xf.linear_transpose(lambda x: f(2.0, x), 3.0)(1.0), (5.0,))


def test_wrong_transposes():
    for transpose, error in ((lambda r, ct: (ct, ct), TypeError), (lambda r, ct: None, TypeError),
                             (lambda r, ct: np.ones(3), ValueError)):
        with pytest.raises(error, match="linear_call"):
            xf.grad(lambda x: linear_call(lambda r, x: x * 2, transpose, (), x))(1.0)
    with pytest.raises(xf.errors.UnexpectedTracerError, match="stop_gradient"):
        xf.grad(divide)(2.0, 3.0)
    with pytest.raises(TypeError, match="linear_call of <lambda>.*str"):
        linear_call(lambda r, x: x, lambda r, ct: ct, "a", 1.0)


@wrapped
def test_closure_convert(outer):
    """A fixed-point iteration that is differentiated in the values that its function argument closes over."""
    @functools.partial(xf.custom_vjp, nondiff_argnums=(0,))
    def apply(function, x, *values):
        return function(x, *values)

    def fwd(function, x, *values):
        return apply(function, x, *values), (x, values)

    def bwd(function, residuals, ct):
        x, values = residuals
        _, pullback = xf.vjp(function, x, *values)
        return tuple(10 * v for v in pullback(ct))

    apply.defvjp(fwd, bwd)

    def f(y, x):
        converted, values = custom_derivatives.closure_convert(lambda z: xnp.sin(z) * y, x)
        return apply(converted, x, *values)

    close(outer(f)(Y, X), np.sin(X) * Y)
    close(outer(xf.grad(f, (0, 1)))(Y, X), (10 * np.sin(X), 10 * np.cos(X) * Y))


def test_closure_convert_alone():
    convert = custom_derivatives.closure_convert
    converted, values = convert(lambda d: {"z": d["a"] + YS}, {"a": XS})
    assert values == []
    close(converted({"a": 2 * XS}), {"z": 2 * XS + YS})
    with pytest.raises(TypeError, match="structure"):
        converted(XS)
    with pytest.raises(TypeError, match="not an array"):
        convert(lambda x: x, "a")


@pytest.mark.parametrize("value, text", [
    (1.0, "~float32[]"), (2, "~int32[]"), (True, "bool[]"), (np.ones(2), "float32[2]"), (np.float32(2), "float32[]"),
    (np.arange(2), "int32[2]"), (1j, "~complex64[]")], ids=repr)
def test_results_are_arrays(value, text):
    """A constant is an array of a dtype that there is, also where nothing is being mapped."""
    found = custom_batching.sequential_vmap(lambda x: {"a": value})(xnp.arange(3.0))["a"]
    assert isinstance(found, xf.Array) and str(xf.typeof(found)) == text
