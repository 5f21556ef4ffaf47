"""Functions with rules of their own: under every transformation and composition, against mathematics."""

import functools

import numpy as np
import pytest

import xlafront as xf
import xlafront.custom_batching as custom_batching
import xlafront.custom_derivatives as custom_derivatives
import xlafront.numpy as xnp
from xlafront import lax

custom_vmap, SymbolicZero = custom_batching.custom_vmap, custom_derivatives.SymbolicZero

X, Y = 0.7, 2.0
XS = np.linspace(-1.0, 1.5, 4).astype("float32")
YS = np.linspace(0.5, 3.0, 4).astype("float32")
# The rules are wrong on purpose, so that it shows when they are not used: 10 times the derivative of sin(x) y.
DX = 10 * np.cos(X) * Y
DY = 10 * np.sin(X)
DXX, DXY = -10 * np.sin(X) * Y * 1.0, 10 * np.cos(X)


@xf.custom_jvp
def forward(x, y):
    """A function with a rule for tangents."""
    return xnp.sin(x) * y


@forward.defjvp
def forward_rule(primals, tangents):
    (x, y), (tx, ty) = primals, tangents
    return forward(x, y), 10 * xnp.cos(x) * y * tx + 10 * xnp.sin(x) * ty


@xf.custom_vjp
def reverse(x, y):
    return xnp.sin(x) * y


def reverse_fwd(x, y):
    return reverse(x, y), (x, y)


def reverse_bwd(residuals, ct):
    x, y = residuals
    return 10 * xnp.cos(x) * y * ct, 10 * xnp.sin(x) * ct


reverse.defvjp(reverse_fwd, reverse_bwd)


@xf.custom_gradient
def inline(x, y):
    s = xnp.sin(x)
    return s * y, lambda ct: (10 * xnp.cos(x) * y * ct, 10 * s * ct)


FUNCTIONS = {"custom_jvp": forward, "custom_vjp": reverse, "custom_gradient": inline}
each = pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)


def close(found, expected, tolerance=1e-5):
    found, expected = xf.tree.leaves(found), xf.tree.leaves(expected)
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        np.testing.assert_allclose(np.asarray(a, "float32"), b, tolerance, tolerance)


WAYS = {
    "eager": lambda f: f,
    "jit": xf.jit,
    "jit of jit": lambda f: xf.jit(lambda *xs: xf.jit(f)(*xs)),
}
wrapped = pytest.mark.parametrize("outer", WAYS.values(), ids=WAYS)
wrapped_inside = pytest.mark.parametrize("inner", list(WAYS.values())[:2], ids=list(WAYS)[:2])


@each
@wrapped
@wrapped_inside
def test_values_and_gradients(f, inner, outer):
    g = inner(f)
    close(outer(g)(X, Y), np.sin(X) * Y)
    close(outer(xf.grad(g, (0, 1)))(X, Y), (DX, DY))
    close(outer(xf.grad(lambda x: g(x, x)))(X), 10 * np.cos(X) * X + 10 * np.sin(X))


@each
@wrapped_inside
def test_second_derivatives_differentiate_the_rule(f, inner):
    """The rules call the function again, so that the second derivative of `forward` in x is that of its rule."""
    g = inner(f)
    close(xf.grad(xf.grad(g))(X, Y), DXX)
    close(xf.jit(xf.grad(xf.grad(g), 1))(X, Y), DXY)
    hessian = np.array([[DXX, DXY], [DXY, 0]])
    close(xf.jacrev(xf.grad(lambda v: g(v[0], v[1])))(xnp.array([X, Y])), hessian)
    if f is not reverse:  # whose forward rule calls it again, and so has no derivative in forward mode
        close(xf.hessian(lambda v: g(v[0], v[1]))(xnp.array([X, Y])), hessian)


@each
@wrapped
@wrapped_inside
def test_vmap(f, inner, outer):
    g = inner(f)
    close(outer(xf.vmap(g))(XS, YS), np.sin(XS) * YS)
    close(outer(xf.vmap(xf.grad(g)))(XS, YS), 10 * np.cos(XS) * YS)
    close(outer(xf.grad(lambda x, y: xnp.sum(xf.vmap(g)(x, y)), (0, 1)))(XS, YS), (10 * np.cos(XS) * YS, 10 * np.sin(XS)))


@each
def test_vmap_over_other_axes(f):
    x = np.stack([XS, XS + 1], 1)
    close(xf.vmap(f, (1, None), 1)(x, Y), np.sin(x) * Y)
    close(xf.vmap(xf.vmap(f, (0, None)), (None, 0))(XS, YS), np.sin(XS)[None] * YS[:, None])
    total = xf.grad(lambda x, y: xnp.sum(xf.vmap(f, (None, 0))(x, y)), (0, 1))
    close(total(X, YS), (10 * np.cos(X) * YS.sum(), 10 * np.sin(X) * np.ones(4)))  # summed over what is shared
    close(xf.grad(lambda x: xnp.sum(xf.vmap(f, (1, None))(x, YS)))(x), 10 * np.cos(x) * YS[:, None])
    close(xf.vmap(lambda x: f(X, Y), out_axes=None)(XS), np.sin(X) * Y)
    close(xf.vmap(xf.vmap(xf.grad(f), (0, None)), (None, 0))(XS, YS), 10 * np.cos(XS)[None] * YS[:, None])


def test_forward_mode():
    value, tangent = xf.jvp(forward, (X, Y), (1.0, 0.5))
    close((value, tangent), (np.sin(X) * Y, DX + 0.5 * DY))
    close(xf.jacfwd(forward)(X, Y), DX)
    close(xf.jit(lambda x: xf.jvp(lambda z: forward(z, Y), (x,), (1.0,)))(X), (np.sin(X) * Y, DX))
    close(xf.vmap(lambda x: xf.jvp(lambda z: forward(z, Y), (x,), (1.0,))[1])(XS), 10 * np.cos(XS) * Y)
    second = xf.jvp(lambda x: xf.jvp(lambda z: forward(z, Y), (x,), (1.0,))[1], (X,), (1.0,))[1]
    close(second, DXX)
    _, linear = xf.linearize(forward, X, Y)
    close(linear(0.0, 2.0), 2 * DY)


def test_unused_derivatives_raise_no_error():
    close(xf.jit(lambda x: xf.jvp(lambda z: reverse(z, Y), (x,), (1.0,))[0])(X), np.sin(X) * Y)
    close(xf.linearize(reverse, X, Y)[0], np.sin(X) * Y)


@pytest.mark.parametrize("attempt", [
    lambda: xf.jvp(reverse, (X, Y), (1.0, 1.0)),
    lambda: xf.jacfwd(reverse)(X, Y),
    lambda: xf.jit(lambda x: xf.jvp(lambda z: reverse(z, Y), (x,), (1.0,)))(X),
    lambda: xf.linearize(reverse, X, Y)[1](1.0, 1.0),
    lambda: xf.grad(lambda x: xf.jvp(lambda z: reverse(z, Y), (x,), (1.0,))[1])(X),
])
def test_forward_mode_of_custom_vjp(attempt):
    with pytest.raises(TypeError, match="can't apply forward-mode autodiff .*to reverse, a custom_vjp function.*custom_jvp"):
        attempt()


def test_python_control_flow_on_values():
    """Outside of compiled code the function and its rules see the values."""
    branches = []

    @xf.custom_jvp
    def f(x):
        branches.append(x > 0)
        return x if x > 0 else -x

    f.defjvp(lambda p, t: (f(p[0]), 3 * t[0] if p[0] > 0 else 5 * t[0]))
    assert f(2.0) == 2.0 and f(-2.0) == 2.0
    close([xf.grad(f)(1.0), xf.grad(f)(-1.0)], [3, 5])

    g = xf.custom_vjp(lambda x: x if x > 0 else -x)
    g.defvjp(lambda x: (abs(x), x), lambda x, ct: (3 * ct if x > 0 else 5 * ct,))
    close([xf.grad(g)(1.0), xf.grad(g)(-1.0)], [3, 5])


def test_trees_and_defaults():
    @xf.custom_jvp
    def f(params, scale=2.0):
        return {"out": params["w"] * scale, "twice": (params["w"] * 2, params["b"])}

    @f.defjvp
    def rule(primals, tangents):
        (params, scale), (t, ts) = primals, tangents
        return f(params, scale), {"out": 7 * t["w"] + ts, "twice": (t["w"], t["b"])}

    params = {"w": 3.0, "b": 1.0}
    close(f(params), {"out": 6.0, "twice": (6.0, 1.0)})
    close(f(scale=3.0, params=params)["out"], 9.0)
    for way in WAYS.values():
        close(way(xf.grad(lambda p: f(p)["out"] + f(p)["twice"][1]))(params), {"w": 7.0, "b": 1.0})
        close(way(xf.grad(lambda s: f(params, s)["out"]))(1.0), 1.0)

    g = xf.custom_vjp(lambda params, scale=2.0: (params["w"] * scale, params["b"]))
    g.defvjp(lambda params, scale: ((params["w"] * scale, params["b"]), None),
             lambda _, ct: ({"w": 7 * ct[0], "b": ct[1]}, None))
    for way in WAYS.values():
        close(way(xf.grad(lambda p: sum(g(p))))(params), {"w": 7.0, "b": 1.0})
        close(way(xf.grad(lambda s: g(params, s)[0]))(1.0), 0.0)


def test_integers_have_no_derivative():
    seen = []

    @xf.custom_jvp
    def f(x, n):
        return x * n, n + 1

    @f.defjvp
    def rule(primals, tangents):
        seen.append(tangents[1].dtype)
        (x, n), (t, _) = primals, tangents
        return (x * n, n + 1), (5 * t, np.zeros((), xf.float0))

    close(xf.grad(lambda x: f(x, 3)[0])(2.0), 5)
    close(xf.grad(xf.jit(lambda x, n: f(x, n)[0]))(2.0, 3), 5)
    assert set(seen) == {xf.float0}
    value, tangent = xf.jvp(lambda x: f(x, 3), (2.0,), (1.0,))
    assert tangent[1].dtype == xf.float0 and value[1] == 4

    for ct in (None, np.zeros((), xf.float0), 0, 1.5):  # whatever comes for an integer is not looked at
        g = xf.custom_vjp(lambda x, n: x * n)
        g.defvjp(lambda x, n: (x * n, None), lambda _, c, ct=ct: (5 * c, ct))
        close(xf.grad(g)(2.0, 3), 5)
        dx, dn = xf.grad(xf.jit(g), (0, 1), allow_int=True)(2.0, 3)
        assert dn.dtype == xf.float0 and dx == 5

    h = xf.custom_vjp(lambda x: (x, 3))
    h.defvjp(lambda x: ((x, 3), None), lambda _, ct: (5 * ct[0] if ct[1].dtype == xf.float0 else None,))
    close(xf.grad(lambda x: h(x)[0])(2.0), 5)


def test_random_keys_have_no_derivative():
    key = xf.random.key(0)
    draw = float(xf.random.normal(key))
    f = xf.custom_jvp(lambda x, key: x * xf.random.normal(key))
    seen = []
    f.defjvp(lambda p, t: (f(*p), 10 * t[0] * xf.random.normal(p[1]), seen.append(t[1].dtype))[:2])
    g = xf.custom_vjp(lambda x, key: x * xf.random.normal(key))
    g.defvjp(lambda x, key: (g(x, key), key), lambda key, ct: (10 * ct * xf.random.normal(key), None))
    for h in (f, g):
        for way in WAYS.values():
            close(xf.grad(way(h))(1.0, key), 10 * draw)
            close(xf.vmap(way(xf.grad(h)), (None, 0))(1.0, key[None]), np.array([10 * draw]))
    assert set(seen) == {xf.float0}


def test_zeros_are_arrays_unless_symbolic():
    tangents_seen = []

    def rule(primals, tangents):
        tangents_seen.append(tangents[1])
        return primals[0] * primals[1], tangents[0] * 5

    for symbolic in (False, True):
        for way in (lambda f: f, xf.jit):
            f = xf.custom_jvp(lambda x, y: x * y)
            f.defjvp(rule, symbolic_zeros=symbolic)
            close(xf.grad(way(lambda x: f(x, xnp.ones(3))[1]))(2.0 * xnp.ones(3)), np.array([0, 5, 0]))
            last = tangents_seen.pop()
            assert isinstance(last, SymbolicZero) == symbolic and last.shape == (3,) and last.dtype == "float32"

    # A rule may return symbolic zeros too.
    f = xf.custom_jvp(lambda x: (x, x))
    f.defjvp(lambda p, t: ((p[0], p[0]), (t[0], SymbolicZero.from_primal_value(p[0]))), symbolic_zeros=True)
    close(xf.grad(lambda x: sum(f(x)))(2.0), 1.0)


@wrapped_inside
def test_symbolic_zeros_of_custom_vjp(inner):
    seen = []

    def fwd(x, y):
        seen.append((x.perturbed, y.perturbed))
        return (x.value * 2, y.value * 3), None

    def bwd(_, cts):
        assert isinstance(cts[1], SymbolicZero) and cts[1].shape == ()
        return cts

    f = xf.custom_vjp(lambda x, y: (x * 2, y * 3))
    f.defvjp(fwd, bwd, symbolic_zeros=True)
    close(xf.grad(inner(lambda x, y: f(x, y)[0]))(1.0, 1.0), 1.0)
    close(xf.vmap(xf.grad(inner(lambda x: f(x, 2)[0])))(XS), np.ones(4))
    close(xf.grad(lambda x: xf.vmap(inner(lambda x: f(x, 3.0)[0]))(x).sum())(XS), np.ones(4))
    assert set(seen) == {(True, False)}


@pytest.mark.parametrize("make", [
    lambda f: xf.custom_jvp(f, nondiff_argnums=(0,)),
    lambda f: xf.custom_jvp(f, nondiff_argnames=("op",)),
    lambda f: functools.partial(xf.custom_jvp, nondiff_argnames="op")(f),
])
def test_functions_as_arguments_of_custom_jvp(make):
    f = make(lambda op, x: op(x))
    f.defjvp(lambda op, primals, tangents: (f(op, *primals), 10 * xf.grad(op)(primals[0]) * tangents[0]))
    for op, derivative in ((xnp.sin, np.cos), (xnp.exp, np.exp)):
        for way in WAYS.values():
            close(way(lambda x: f(op, x))(X), op(X))
            close(xf.grad(way(lambda x: f(op, x)))(X), 10 * derivative(X))
            close(way(xf.grad(lambda x: f(op, x)))(X), 10 * derivative(X))


def test_functions_as_arguments_of_custom_vjp():
    f = xf.custom_vjp(lambda x, op, k: op(x) * k, nondiff_argnums=(1,), nondiff_argnames=("k",))
    f.defvjp(lambda x, op, k: (op(x) * k, x), lambda op, k, x, ct: (10 * k * xf.grad(op)(x) * ct,))
    for way in WAYS.values():
        close(way(lambda x: f(x, xnp.sin, 3.0))(X), 3 * np.sin(X))
        close(way(xf.grad(lambda x: f(x, op=xnp.sin, k=3.0)))(X), 30 * np.cos(X))


def test_traced_arrays_in_fixed_arguments():
    """custom_jvp holds them constant; custom_vjp refuses them."""
    f = xf.custom_jvp(lambda n, x: n * x, nondiff_argnums=(0,))
    f.defjvp(lambda n, p, t: (f(n, p[0]), 10 * n * t[0]))
    for way in WAYS.values():
        close(xf.grad(way(f), 1)(3.0, 2.0), 30)
        close(xf.grad(way(f), 0)(3.0, 2.0), 0)
        close(way(xf.grad(lambda x: f(x, x)))(3.0), 30)
        close(xf.vmap(way(f))(XS, YS), XS * YS)
        close(xf.vmap(xf.grad(way(f), 1))(XS, YS), 10 * XS)

    g = xf.custom_vjp(lambda n, x: n * x, nondiff_argnums=(0,))
    g.defvjp(lambda n, x: (n * x, None), lambda n, _, ct: (n * ct,))
    close(xf.grad(g, 1)(xnp.float32(3), 2.0), 3)
    for attempt in (xf.jit(g), xf.grad(g), lambda n, x: xf.jit(lambda n: g([n], x))(n)):
        with pytest.raises(xf.errors.UnexpectedTracerError, match="nondiff_argnums"):
            attempt(3.0, 2.0)


def test_defjvps():
    f = xf.custom_jvp(lambda x, y, z: x * y * z)
    f.defjvps(lambda t, out, x, y, z: 10 * t * y * z, None, lambda t, out, x, y, z: t * out)
    for way in WAYS.values():
        close(way(xf.grad(f, (0, 1, 2)))(2.0, 3.0, 4.0), (120, 0, 24))
    g = xf.custom_jvp(lambda x: (x, x))
    g.defjvps(None)
    close(xf.jvp(g, (2.0,), (1.0,))[1], (0, 0))


def test_closing_over_values():
    """Values that are not differentiated may come from outside, elements of a batch too."""
    def scaled(k, x, kind):
        if kind is xf.custom_jvp:
            f = xf.custom_jvp(lambda x: k * x)
            f.defjvp(lambda p, t: (k * p[0], 10 * k * t[0]))
        else:
            f = xf.custom_vjp(lambda x: k * x)
            f.defvjp(lambda x: (k * x, None), lambda _, ct: (10 * k * ct,))
        return f(x)

    for kind in (xf.custom_jvp, xf.custom_vjp):
        f = functools.partial(scaled, kind=kind)
        for way in WAYS.values():
            close(xf.vmap(way(lambda k: f(k, 2.0)))(XS), 2 * XS)
            close(way(xf.vmap(f))(XS, YS), XS * YS)
            close(way(lambda k: xf.grad(lambda x: f(k, x))(2.0))(3.0), 30)
            close(way(xf.vmap(lambda k: xf.grad(lambda x: f(k, x))(2.0)))(XS), 10 * XS)
            close(way(xf.vmap(lambda k: f(k, k)))(XS), XS * XS)
        for attempt in (lambda k: f(k, 2.0), xf.jit(lambda k: f(k, 2.0)), lambda k: f(k, k)):
            with pytest.raises(xf.errors.UnexpectedTracerError, match="(?s)argument"):
                xf.grad(attempt)(3.0)


@wrapped
@wrapped_inside
def test_collectives_over_the_mapped_axis(inner, outer):
    """The sum of squares over an axis, with 10 times its derivative. The result is the same for all elements, each of which is
    given the whole of its cotangent (as in the reference)."""
    def total(x):
        return xf.lax.psum(x * x, "i")

    f = xf.custom_jvp(total)
    f.defjvp(lambda p, t: (f(p[0]), xf.lax.psum(20 * p[0] * t[0], "i")))
    g = xf.custom_vjp(total)
    g.defvjp(lambda x: (g(x), x), lambda x, ct: (20 * x * ct,))
    for h, copies in ((inner(f), 4), (inner(g), 1)):
        mapped = xf.vmap(h, axis_name="i")
        close(outer(mapped)(XS), np.full(4, np.sum(XS**2)))
        close(outer(xf.grad(lambda x: mapped(x)[0]))(XS), 20 * XS)
        close(outer(xf.vmap(xf.grad(h), axis_name="i"))(XS), copies * 20 * XS)
        close(outer(xf.vmap(lambda x: h(2.0) * x, axis_name="i"))(XS), 16 * XS)


@each
def test_programs_of_batches_serve_several_threads(f):
    """The batched program of a jitted function is made once, and differentiated wherever it is used."""
    import concurrent.futures

    g = xf.jit(f)
    xf.vmap(g)(XS, YS)
    size = np.float32(range(1, 33))

    def gradient(scale):
        return xf.grad(lambda x: xnp.sum(scale * xf.vmap(g)(x, YS)))(XS)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for scale, found in zip(size, pool.map(gradient, size)):
            close(found, scale * 10 * np.cos(XS) * YS)


# Errors

ARRAY, SCALAR = np.ones(3, "float32"), np.float32(2)


def jvp_of(rule, fun=lambda x: x * 2):
    f = xf.custom_jvp(fun)
    f.defjvp(rule)
    return f


@pytest.mark.parametrize("rule, words", [
    (lambda p, t: p[0], "must return a pair"),
    (lambda p, t: (p[0], t[0], t[0]), "must return a pair"),
    (lambda p, t: (p[0], (t[0], t[0])), "structure of the result"),
    (lambda p, t: (p[0], None), "structure of the result"),
    (lambda p, t: (p[0], xnp.ones(3) * t[0]), r"must be ~?float32\[\], but the rule returned float32\[3\]"),
    (lambda p, t: (p[0], t[0].astype("bfloat16")), r"the rule returned bfloat16\[\].*astype"),
    (lambda p, t: (p[0], 1), "the rule returned .*int32"),
    (lambda p, t: (p[0], "tangent"), "not an array: 'tangent'"),
    (lambda p, t: ((p[0], 3), (t[0], 3)), r"result\[1\].*float0.*zero_from_primal"),
])
@wrapped_inside
def test_wrong_jvp_rules(rule, words, inner):
    def doubled(x):
        return (x, 3) if "zero_from_primal" in words else x

    with pytest.raises(TypeError, match=f"the custom_jvp rule <lambda> of doubled .*{words}"):
        xf.grad(lambda x: xf.tree.leaves(inner(jvp_of(rule, doubled))(x))[0])(SCALAR)


@pytest.mark.parametrize("rule", [
    lambda p, t: (p[0] * ARRAY, t[0] * ARRAY),
    lambda p, t: (p[0].astype("bfloat16"), t[0].astype("bfloat16")),
    lambda p, t: ((p[0],), (t[0],)),
])
def test_rules_with_other_results_than_the_function(rule):
    with pytest.raises(TypeError, match="must return the result of <lambda> first, with the same"):
        xf.grad(xf.jit(jvp_of(rule)))(SCALAR)


def vjp_of(fwd=lambda x, y: (x * y, (x, y)), bwd=lambda r, ct: (ct, ct)):
    def product(x, y):
        return x * y

    f = xf.custom_vjp(product)
    f.defvjp(fwd, bwd)
    return f


@pytest.mark.parametrize("rules, error, words", [
    (dict(fwd=lambda x, y: x), TypeError, "forward rule <lambda> of product must return a pair"),
    (dict(fwd=lambda x, y: (x, y, x)), TypeError, "forward rule <lambda> of product must return a pair"),
    (dict(fwd=lambda x, y: (x, ("a", y))), TypeError, r"residuals\[0\] is 'a'.*nondiff_argnums"),
    (dict(bwd=lambda r, ct: None), TypeError, "tuple of cotangents.* 2 differentiable"),
    (dict(bwd=lambda r, ct: (ct,)), TypeError, "got a tuple of 1"),
    (dict(bwd=lambda r, ct: (ct, ct, ct)), TypeError, "got a tuple of 3"),
    (dict(bwd=lambda r, ct: {0: ct, 1: ct}), TypeError, "of type dict"),
    (dict(bwd=lambda r, ct: ((ct, ct), ct)), TypeError, r"at output\[0\] it returned .* for an argument that is an array"),
    (dict(bwd=lambda r, ct: (ct, "a")), TypeError, "cotangent for argument y that is not an array: 'a'"),
    (dict(bwd=lambda r, ct: (ARRAY, ct)), ValueError, r"argument x is .*float32\[\], but the rule returned float32\[3\]"),
])
@wrapped_inside
def test_wrong_vjp_rules(rules, error, words, inner):
    with pytest.raises(error, match=words):
        xf.grad(inner(vjp_of(**rules)), (0, 1))(SCALAR, SCALAR)


def test_wrong_fwd_result():
    for fwd in (lambda x, y: ((x, x), None), lambda x, y: (x * ARRAY, None)):
        with pytest.raises(TypeError, match="must return the result of product first"):
            xf.grad(xf.jit(vjp_of(fwd)))(SCALAR, SCALAR)


def test_wrong_structure_of_cotangents():
    f = xf.custom_vjp(lambda d: d["a"] * d["b"])
    f.defvjp(lambda d: (d["a"] * d["b"], None), lambda _, ct: ({"a": ct},))
    with pytest.raises(TypeError, match=r"at output\[0\] it returned"):
        xf.grad(f)({"a": 1.0, "b": 2.0})
    f.defvjp(lambda d: (d["a"] * d["b"], None), lambda _, ct: ({"a": ct, "b": None},))
    close(xf.grad(f)({"a": 1.0, "b": 2.0}), {"a": 1.0, "b": 0.0})


@pytest.mark.parametrize("make, name", [(xf.custom_jvp, "defjvp"), (xf.custom_vjp, "defvjp"), (custom_vmap, "def_vmap")])
def test_missing_rules(make, name):
    @make
    def lonely(x):
        return x

    for way in (lonely, xf.jit(lonely)):
        with pytest.raises(AttributeError, match=f"lonely.{name}"):
            way(1.0)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = lonely.nonsense


def test_wrong_calls():
    f = jvp_of(lambda p, t: (p[0], t[0]), lambda x, y=2.0: x)
    for call in (lambda: f(1.0, z=3.0), lambda: f(), lambda: f(1.0, 2.0, 3.0),
                 lambda: jvp_of(None, lambda x, *, k: x), ):
        with pytest.raises((TypeError, AttributeError)):
            result = call()
            result(1.0, k=1.0)
    with pytest.raises(TypeError, match="argument y of type str.*nondiff_argnums"):
        f(1.0, "a")
    with pytest.raises(TypeError, match="returned a value of type str"):
        jvp_of(lambda p, t: (p[0], t[0]), lambda x: "text")(1.0)
    with pytest.raises(TypeError, match="nondiff_argnums"):
        xf.custom_jvp(lambda x: x, nondiff_argnums=0)
    with pytest.raises(IndexError, match="nondiff_argnums"):
        g = xf.custom_jvp(lambda x: x, nondiff_argnums=(3,))
        g.defjvp(lambda n, p, t: (p, t))
        g(1.0)
    with pytest.raises(TypeError, match="nondiff_argnums"):
        xf.custom_jvp(lambda x, y: x, nondiff_argnums=(0,)).defjvps(None)
    with pytest.raises(ValueError, match="2 arguments.* 1 rules"):
        g = xf.custom_jvp(lambda x, y: x)
        g.defjvps(None)
        xf.grad(g)(1.0, 2.0)
    with pytest.raises(TypeError, match="pair of its result and a function"):
        xf.custom_gradient(lambda x: x)(1.0)


def test_custom_gradient_with_omitted_arguments():
    @xf.custom_gradient
    def scaled(x, by=None, name=None):
        return (2 * x, lambda ct: 10 * ct) if by is None else (x * by, lambda ct: (10 * ct, 20 * ct))

    assert float(xf.grad(scaled)(1.0)) == 10 and float(xf.jit(xf.grad(scaled))(1.0)) == 10
    assert [float(g) for g in xf.grad(scaled, (0, 1))(1.0, 3.0)] == [10, 20]
    with pytest.raises(TypeError, match="by"):
        scaled(1.0, by=3.0)


def test_attributes():
    assert forward.__name__ == "forward" and forward.__doc__.startswith("A function") and forward.jvp is forward_rule
    assert forward.__wrapped__ is forward.fun and reverse.fwd is reverse_fwd and reverse.bwd is reverse_bwd
    both = xf.custom_jvp(custom_vmap(lambda x: x))
    both.def_vmap(lambda size, batched, x: (x + 100, True))
    both.defjvp(lambda p, t: (both(p[0]), 10 * t[0]))
    close(xf.vmap(both)(XS), XS + 100)
    close(xf.grad(both)(2.0), 10)


def test_attributes_that_say_what_rules_take():
    function = xf.custom_vjp(functools.partial(xnp.multiply, 2.0))
    assert not function.symbolic_zeros and not function.optimize_remat
    function.defvjp(lambda x: (2 * x, None), lambda _, ct: (2 * ct,), symbolic_zeros=True)
    assert function.symbolic_zeros and not function.optimize_remat
    with pytest.raises(AttributeError, match="custom_vjp function multiply has no attribute 'rules_of_others'"):
        _ = function.rules_of_others


# Programs

def test_jaxprs_of_custom_rules():
    program = xf.make_jaxpr(forward)(X, Y)
    [eqn] = program.eqns
    assert eqn.primitive is custom_derivatives.custom_jvp_call_p and eqn.params["call_jaxpr"].eqns[0].primitive.name == "sin"
    assert eqn.params["num_consts"] == 0 and eqn.params["symbolic_zeros"] is False
    close(xf.core.jaxpr_as_fun(program)(X, Y), [np.sin(X) * Y])
    [eqn] = xf.make_jaxpr(reverse)(X, Y).eqns
    assert eqn.primitive is custom_derivatives.custom_vjp_call_p and "call_jaxpr=" in str(eqn)
    assert "func.call" not in xf.jit(forward).lower(X, Y).as_text()
    assert xf.make_jaxpr(lambda y: jvp_of(lambda p, t: (p, t), lambda x: x * y)(2.0))(Y).eqns[0].params["num_consts"] == 1


@pytest.mark.parametrize("kind", ["jvp", "vjp"])
def test_unused_results_are_dropped(kind):
    from xlafront.core.ir import ClosedJaxpr, dce_jaxpr

    def both(x):
        return xnp.sin(x), xnp.exp(x)

    if kind == "jvp":
        f = xf.custom_jvp(both)
        f.defjvp(lambda p, t: (f(*p), (3 * t[0], 5 * t[0])))
    else:
        f = xf.custom_vjp(both)
        f.defvjp(lambda x: (f(x), None), lambda _, ct: (3 * ct[0] + 5 * ct[1],))
    program = xf.make_jaxpr(f)(X)
    jaxpr, used = dce_jaxpr(program.jaxpr, [False, True])
    assert [e.primitive.name for e in jaxpr.eqns[0].params["call_jaxpr"].eqns] == ["exp"] and used == [True]
    run = xf.core.jaxpr_as_fun(ClosedJaxpr(jaxpr, []))
    close(xf.grad(lambda x: run(x)[0])(X), 5)
    assert dce_jaxpr(program.jaxpr, [False, False])[0].eqns == []


def test_linear_functions_transpose_through_calls():
    f = jvp_of(lambda p, t: (3 * p[0], 3 * t[0]), lambda x: 3 * x)
    close(xf.linear_transpose(f, 1.0)(2.0), (6.0,))
    # A rule that applies a function with rules to tangents.
    g = jvp_of(lambda p, t: (p[0], f(t[0])), lambda x: x)
    h = xf.custom_vjp(lambda x: 3 * x)
    h.defvjp(lambda x: (3 * x, None), lambda _, ct: (100 * ct,))
    k = jvp_of(lambda p, t: (p[0], h(t[0])), lambda x: x)
    for way in WAYS.values():
        close(way(xf.grad(g))(2.0), 3)
        close(way(xf.grad(k))(2.0), 3)


def test_cotangents_of_another_precision_and_scalars():
    f = vjp_of(bwd=lambda r, ct: (1, 2.5))
    for way in WAYS.values():
        dx, dy = way(xf.grad(f, (0, 1)))(SCALAR, SCALAR)
        assert (dx, dy) == (1, 2.5) and dx.dtype == dy.dtype == "float32"


def test_zeros_and_primals():
    zero = custom_derivatives.zero_from_primal
    close(zero(XS), np.zeros(4))
    assert zero(3).dtype == xf.float0 and isinstance(zero(XS, symbolic_zeros=True), SymbolicZero)
    symbolic = SymbolicZero.from_primal_value(XS)
    assert (symbolic.shape, symbolic.dtype, symbolic.ndim) == ((4,), np.dtype("float32"), 1)
    with pytest.raises(AttributeError):
        _ = symbolic.nonsense
    primal = custom_derivatives.CustomVJPPrimal(3, True)
    values = custom_derivatives.custom_vjp_primal_tree_values
    assert values({"a": primal}) == {"a": 3} and primal == custom_derivatives.CustomVJPPrimal(3, True)
    with pytest.raises(TypeError, match="CustomVJPPrimal"):
        values({"a": 3})


@wrapped
@wrapped_inside
def test_optimize_remat(inner, outer):
    f = xf.custom_vjp(lambda x, y: xnp.sin(x) * y)
    f.defvjp(lambda x, y: (xnp.sin(x) * y, (x, y)),
             lambda r, ct: (10 * xnp.cos(r[0]) * r[1] * ct, None), optimize_remat=True)
    close(outer(inner(f))(X, Y), np.sin(X) * Y)
    close(outer(xf.grad(inner(f)))(X, Y), DX)
    close(outer(xf.vmap(xf.grad(inner(f))))(XS, YS), 10 * np.cos(XS) * YS)
    close(outer(xf.grad(xf.grad(inner(f))))(X, Y), DXX)


def test_optimize_remat_drops_forward_rules():
    """The function runs in place of its forward rule if no residuals are needed."""
    from xlafront.core.ir import ClosedJaxpr, dce_jaxpr

    f = xf.custom_vjp(lambda x: xnp.sin(x))
    f.defvjp(lambda x: (xnp.exp(x), xnp.cos(x)), lambda r, ct: (10 * r * ct,), optimize_remat=True)
    program = xf.make_jaxpr(lambda x: xf.vjp(f, x))(X)
    [eqn] = program.eqns
    assert eqn.primitive is custom_derivatives.remat_opt_p
    run = xf.core.jaxpr_as_fun(program)
    close(run(X), (np.exp(X), np.cos(X)))
    close(xf.jit(run)(X), (np.exp(X), np.cos(X)))
    close(xf.vmap(run)(XS), (np.exp(XS), np.cos(XS)))
    close(xf.grad(lambda x: run(x)[1])(X), -np.sin(X))
    for used, expected in (([True, False], np.sin(X)), ([False, True], np.cos(X))):
        jaxpr, _ = dce_jaxpr(program.jaxpr, used)
        close(xf.core.jaxpr_as_fun(ClosedJaxpr(jaxpr, []))(X), [expected])
    batched = xf.make_jaxpr(xf.vmap(run))(XS)
    jaxpr, _ = dce_jaxpr(batched.jaxpr, [True, False])
    close(xf.core.jaxpr_as_fun(ClosedJaxpr(jaxpr, []))(XS), [np.sin(XS)])
    close(xf.jit(lambda x: xf.vjp(f, x)[1](1.0))(X), (10 * np.cos(X),))


LOOPS = {
    "scan": lambda f, x: xf.lax.scan(lambda c, k: (f(c) * k, f(k) * c), x, xnp.arange(1.0, 4.0) * x),
    "fori_loop": lambda f, x: xf.lax.fori_loop(0, 3, lambda i, c: f(c) * x, x),
    "cond": lambda f, x: xf.lax.cond(x > 0.5, f, lambda x: x * f(2 * x), x),
    "map": lambda f, x: xf.lax.map(f, xnp.arange(3.0) * x),
}


def unrolled(name, f, x):
    if name == "scan":
        c, ys = x, []
        for k in (1.0, 2.0, 3.0):
            c, y = f(c) * (k * x), f(k * x) * c
            ys.append(y)
        return c, ys
    if name == "fori_loop":
        c = x
        for _ in range(3):
            c = f(c) * x
        return c
    return f(x) if name == "cond" else [f(k * x) for k in (0.0, 1.0, 2.0)]


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("f", [lambda x: forward(x, 0.1), lambda x: reverse(x, 0.1)], ids=["custom_jvp", "custom_vjp"])
def test_loops_and_branches(name, f):
    """A loop preserves the rules, for derivatives of every order, like the unrolled steps."""
    def total(run):
        return lambda x: sum(xnp.sum(v) for v in xf.tree.leaves(run(f, x)))

    looped, plain = total(LOOPS[name]), total(functools.partial(unrolled, name))
    close(looped(X), plain(X))
    close(xf.grad(looped)(X), xf.grad(plain)(X))
    close(xf.jit(xf.grad(xf.grad(looped)))(X), xf.grad(xf.grad(plain))(X), 1e-4)
    xs = np.float32([0.6, 0.9])
    close(xf.vmap(xf.grad(looped))(xs), xf.vmap(xf.grad(plain))(xs))


@pytest.mark.parametrize("transform", [lambda f: f, xf.jit, lambda f: xf.jit(xf.vmap(f)), xf.vmap],
                         ids=["eager", "jit", "jit of vmap", "vmap"])
def test_zeros_and_constants_come_to_rules_as_arrays(transform):
    @xf.custom_vjp
    def f(x, y):
        return x * y, xnp.sum(x)

    @xf.custom_jvp
    def g(x, y):
        return x * y

    def backward(y, cts):
        zero, one = (ct.at[...].add(0) for ct in cts)  # NumPy's arrays have no `at`
        return zero * y + one, zero.sum() * 0 + xnp.zeros_like(y)

    def rule(primals, tangents):
        (x, y), (t, s) = primals, tangents
        return g(x, y), t * y.at[...].get() + s.at[...].get() * x

    f.defvjp(lambda x, y: (f(x, y), y), backward)
    g.defjvp(rule)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    one = np.ones(3, np.float32)
    np.testing.assert_allclose(transform(xf.grad(lambda x: f(x, one)[1].sum()))(x), np.ones_like(x))
    np.testing.assert_allclose(transform(xf.grad(lambda x: g(x, one).sum()))(x), np.ones_like(x))


def test_cotangents_of_empty_containers():
    """An empty list among arguments is a container as others are, whose cotangent is an empty list."""
    @xf.custom_vjp
    def f(x, lists):
        return x * lists[1][0]

    f.defvjp(lambda x, lists: (f(x, lists), (x, lists)), lambda saved, g: (g * saved[1][1][0], ([], [g * saved[0]])))
    assert float(xf.grad(lambda a: f(2.0, ([], [a])))(3.0)) == 2.0


def test_arrays_made_of_numbers_are_arrays_to_rules():
    """Also where the program in which they are made is evaluated; what a rule itself makes has a value there."""
    @xf.custom_vjp
    def f(x, n):
        return x * n

    def forward(x, n):
        made = xnp.asarray(3)
        assert int(made) == 3 and made.shape == n.shape == ()
        return x * n, (n, xnp.array(2.0))

    f.defvjp(forward, lambda saved, ct: (ct * saved[0] * saved[1], None))
    assert float(xf.grad(lambda x: f(x, xnp.asarray(4)))(1.5)) == 8.0
    closed = xf.make_jaxpr(lambda x: f(x, xnp.asarray(4)))(1.5)
    assert float(xf.grad(lambda x: xf.core.eval_jaxpr(closed.jaxpr, closed.consts, x)[0])(1.5)) == 8.0


@pytest.mark.parametrize("number", [3, 3.0])
def test_rules_know_the_value_of_numbers_inside_of_programs(number):
    f, g = xf.custom_vjp(lambda x, n: x * n), xf.custom_jvp(lambda x, n: x * n)
    seen = []

    def forward(x, n):
        seen.append((n.dtype, (n * xnp.bfloat16(2)).dtype, [1.0] * int(n)))  # `int` of a traced value would be an error
        return x * n, n

    f.defvjp(forward, lambda n, ct: (ct * n, None))
    g.defjvp(lambda primals, tangents: (forward(*primals)[0], tangents[0] * primals[1]))
    for h in (f, g):
        assert float(xf.jit(xf.grad(lambda x: h(x, number)))(2.0)) == 3.0
    assert seen == [(np.dtype(type(number)).name.replace("64", "32"), xnp.bfloat16, [1.0] * 3)] * 2


HALF = xf.custom_vjp(lambda x: x)  # whose cotangents have half of the bits
HALF.defvjp(lambda x: (x, None), lambda _, ct: (ct.astype("bfloat16"),))


@pytest.mark.parametrize("f, slope", [
    (lambda x: lax.cond(True, lambda y: y * 2, lambda y: y, x), 2), (lambda x: lax.switch(1, [xnp.sin, lambda y: y * 3], x), 3),
    (lambda x: lax.fori_loop(0, 2, lambda i, y: y * 2, x), 4), (lambda x: lax.map(lambda y: y * 2, x), 2),
    (lambda x: lax.custom_linear_solve(lambda y: y * 2, x, lambda f, b: b / 2, lambda f, b: b / 2), 0.5),
    (lambda x: xf.jit(lambda y: y * 2)(x), 2), (lambda x: xf.checkpoint(lambda y: y * 2)(x), 2)])
def test_programs_take_cotangents_of_other_dtypes(f, slope):
    for transform in (lambda g: g, xf.jit):
        np.testing.assert_array_equal(transform(xf.grad(lambda x: HALF(f(x)).sum()))(xnp.ones(3)), [slope] * 3)
