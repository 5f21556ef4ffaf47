"""Jaxprs of derivative rules are cached and reused for equal operations, with the same results as running the rules."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax, nn
from xlafront.core import source
from xlafront.interpreters import ad
from xlafront.transforms.ad import rule_cache

X = xnp.linspace(.2, .9, 6, dtype=np.float32).reshape(2, 3)
W = xnp.linspace(-1., 1, 9, dtype=np.float32).reshape(3, 3)

FUNCTIONS = {
    "products": lambda x: (xnp.tanh(x @ W) * x).sum(),
    "constants": lambda x: ((x * np.float32(2) + 3) / X - np.float32(-0.) * x).sum(),
    "twice the same": lambda x: (x * x + xnp.arctan2(x, x) + x ** 3).sum(),
    "broadcasts": lambda x: (x + W[0] - x.mean(0)).std(),
    "parts": lambda x: (x[:, 1] * x[0, :2] + x.T.ravel()[1:3]).sum(),
    "gathers": lambda x: x[np.array([0, 1, 1]), np.array([2, 0, 0])].prod(),
    "sorts": lambda x: (xnp.sort(x, axis=1) * X).sum() + x.max() + xnp.median(x),
    "choices": lambda x: xnp.where(x > .5, x ** 2, xnp.sin(x)).sum() + xnp.clip(x, .3, .6).sum() + nn.relu(x - .5).sum(),
    "softmax": lambda x: (nn.softmax(x) * nn.log_softmax(x, axis=0)).sum() + nn.logsumexp(x) + nn.gelu(x).sum(),
    "scans": lambda x: lax.scan(lambda c, r: (xnp.sin(c * r), c @ W), x[0], x)[1].sum(),
    "loops": lambda x: lax.fori_loop(0, 3, lambda i, c: c * xnp.cos(x) + i, x).sum(),
    "branches": lambda x: lax.cond(x[0, 0] > 0, lambda x: xnp.exp(x).sum(), lambda x: x.sum(), x),
    "stops": lambda x: (lax.stop_gradient(x) * x + xnp.floor(x)).sum(),
    "joins": lambda x: (xnp.concatenate([x, X * x, x[:1]]) ** 2).sum() + xnp.stack([x, x]).var() + xnp.pad(x, 1).sum(),
    "windows": lambda x: lax.reduce_window(x, 0., lax.add, (1, 2), (1, 1), "VALID").sum() + xnp.cumsum(x, 1).prod(),
    "linear algebra": lambda x: xnp.linalg.slogdet(x @ x.T + xnp.eye(2))[1] + xnp.linalg.solve(x @ x.T + xnp.eye(2), x).sum(),
    "complex": lambda x: xnp.abs(xnp.fft.fft(x * (1 + 2j)) * 1j).sum(),
    "updates": lambda x: (x.at[0].set(x[1]).at[:, 1].add(x[:, 0]) ** 2).sum(),
    "conversions": lambda x: (x.astype("float16") * 2).astype(np.float32).sum() + x.astype("bfloat16").astype(np.float32).sum(),
    "rules of users": lambda x: xf.checkpoint(lambda x: xnp.sin(xnp.sin(x)))(x).sum() + nn.silu(x).sum() + nn.relu6(x).sum(),
}

TRANSFORMED = {
    "gradient": lambda f: xf.value_and_grad(f),
    "forward": lambda f: lambda x: xf.jvp(f, (x,), (x + 1,)),
    "hessian times": lambda f: lambda x: xf.jvp(xf.grad(f), (x,), (x + 1,)),
    "gradient of forward": lambda f: xf.grad(lambda x: xf.jvp(f, (x,), (x + 1,))[1]),
    "second gradient": lambda f: xf.grad(lambda x: (xf.grad(f)(x) * x).sum()),
    "of a batch": lambda f: lambda x: xf.vmap(xf.value_and_grad(f))(xnp.stack([x, x + .01])),
    "batch inside": lambda f: xf.grad(lambda x: xf.vmap(f)(xnp.stack([x, x * 1.1])).sum()),
    "linearized": lambda f: lambda x: xf.linearize(f, x)[1](x),
}


@pytest.fixture
def by_rules(monkeypatch):
    """Lets rules run each time, while it is true."""
    stages_by_type = rule_cache._stages_by_type

    def switch(on: bool):
        monkeypatch.setattr(rule_cache, "_stages_by_type", (lambda trace: False) if on else stages_by_type)

    return switch


@pytest.mark.parametrize("how", TRANSFORMED)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_programs_are_those_that_the_rules_write(name, how, by_rules):
    def closed():
        return xf.make_jaxpr(TRANSFORMED[how](lambda x: FUNCTIONS[name](x)))(X)

    by_rules(True)
    correct = closed()
    by_rules(False)
    found, again = closed(), closed()
    assert str(found) == str(again)
    assert len(found.jaxpr.eqns) <= len(correct.jaxpr.eqns)
    assert [v.aval for v in found.jaxpr.outvars] == [v.aval for v in correct.jaxpr.outvars]
    values, expected = (xf.jit(xf.core.jaxpr_as_fun(c))(X) for c in (found, correct))
    for x, y in zip(values, expected, strict=True):
        np.testing.assert_allclose(x, y, 2e-5, 1e-5)


def test_a_rule_runs_once_for_operands_of_a_kind_and_again_for_others(monkeypatch):
    ran = []
    rule = lax.sin_p.jvp

    def counted(primals, tangents, **params):
        ran.append(xf.typeof(primals[0]).shape)
        return rule(primals, tangents, **params)

    monkeypatch.setitem(ad.primitive_jvps, lax.sin_p, counted)

    def gradient(x):
        return xf.jit(xf.grad(lambda x: (xnp.sin(x) + xnp.sin(2 * x) + xnp.sin(xnp.sin(x))).sum()))(x)

    correct = np.cos(X) + 2 * np.cos(2 * X) + np.cos(np.sin(X)) * np.cos(X)
    np.testing.assert_allclose(gradient(X), correct, 1e-5)
    assert ran == [(2, 3)]
    np.testing.assert_allclose(gradient(X[0]), correct[0], 1e-5)
    assert ran == [(2, 3), (3,)]
    monkeypatch.setitem(ad.primitive_jvps, lax.sin_p, lambda primals, tangents: (lax.sin_p.bind(*primals), 5 * tangents[0]))
    np.testing.assert_allclose(xf.jit(xf.grad(lambda x: xnp.sin(x).sum()))(X), 5 + 0 * X)  # the rule that there is now


def test_numbers_and_settings_are_part_of_the_kind():
    def slope(number):
        return float(xf.jit(xf.grad(lambda x: lax.mul(x, number)))(xnp.float32(1)))

    assert [slope(np.float32(n)) for n in (2, 3, 2)] == [2, 3, 2]
    assert [np.signbit(slope(np.float32(n))) for n in (0., -0., 0.)] == [False, True, False]
    assert np.isnan(slope(np.float32(np.nan))) and slope(2.0) == 2

    def products(x):
        return xf.make_jaxpr(xf.grad(lambda x: lax.dot(x, W).sum()))(x).jaxpr.eqns

    plain = [e.params["precision"] for e in products(X) if e.primitive is lax.dot_general_p]
    with xf.default_matmul_precision("highest"):
        precise = [e.params["precision"] for e in products(X) if e.primitive is lax.dot_general_p]
    assert plain != precise and [e.params["precision"] for e in products(X) if e.primitive is lax.dot_general_p] == plain


def test_outer_active_values_are_constants_of_inner_derivatives(by_rules):
    """`y` moves for the outer function alone: by the inner rule it is a constant, whose derivative comes from outside."""
    def mixed(x):
        return xf.grad(lambda y: xf.grad(lambda x: xnp.sin(x * y) * y)(x))(x)

    def correct(x):  # d/dy of y**2 cos(x y), at y = x
        return 2 * x * np.cos(x * x) - x ** 3 * np.sin(x * x)

    np.testing.assert_allclose(xf.jit(mixed)(1.3), correct(1.3), 1e-5)
    np.testing.assert_allclose(xf.jit(lambda x: xf.jvp(mixed, (x,), (1.,))[1])(1.3), xf.grad(correct_traced)(1.3), 1e-4)


def correct_traced(x):
    return 2 * x * xnp.cos(x * x) - x ** 3 * xnp.sin(x * x)


def test_errors_in_rules_name_the_users_line():
    def f(x):
        return lax.population_count(x.astype(np.int32)).astype(np.float32).sum() + lax.rng_uniform(0., x[0], (2,)).sum()

    with pytest.raises(NotImplementedError, match="rng_uniform"):
        xf.jit(xf.grad(f))(X)


def test_equations_have_the_users_lines():
    def f(x):
        y = xnp.sin(x)
        return xnp.sin(y).sum()

    first = f.__code__.co_firstlineno
    closed = xf.make_jaxpr(xf.grad(f))(X)
    lines = [str(source.describe(e.site)).split(":")[1].split()[0] for e in closed.jaxpr.eqns if e.primitive.name in ("sin", "cos")]
    assert sorted(map(int, lines)) == [first + 1, first + 1, first + 2, first + 2]


def test_cache_is_bounded():
    assert rule_cache._cache.limit <= 4096
    xf.clear_caches()
    assert not rule_cache._cache
