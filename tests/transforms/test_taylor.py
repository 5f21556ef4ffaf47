"""Jets against nested forward derivatives along the curve, operation by operation, and closed forms."""

import math

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax, nn
from xlafront.experimental import jet as module
from xlafront.experimental.jet import jet

RNG = np.random.default_rng(0)
ORDER = 3


@pytest.fixture(autouse=True)
def wide():
    with xf.enable_x64(True):
        yield


def nested(f, primals, series):
    """Derivatives along the polynomial with these derivatives, by `jvp` of `jvp`."""
    def curve(t):
        return f(*[x + sum(term * t ** k / math.factorial(k) for k, term in enumerate(terms, 1)) for x, terms in zip(primals, series)])

    derivatives = [curve]
    for _ in series[0]:
        derivatives.append(lambda t, g=derivatives[-1]: xf.jvp(g, (t,), (1.0,))[1])
    return [d(0.0) for d in derivatives]


def check(f, primals, tolerance=1e-8):
    series = [[RNG.normal(size=np.shape(x)) for _ in range(ORDER)] for x in primals]
    expected = xf.jit(lambda *args: nested(f, *args))(primals, series)
    value, terms = xf.jit(lambda *args: jet(f, *args))(primals, series)
    for a, b in zip([value, *terms], expected, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


UNARY = {
    "around 0": """sin cos tan tanh sinh cosh logistic exp exp2 expm1 erf erfc square atan asin acos atanh asinh log1p erf_inv
        floor sign abs""",
    "positive": "log sqrt rsqrt cbrt",
    "above one": "acosh",
}


@pytest.mark.parametrize("where", UNARY)
def test_functions_of_one_number(where):
    x = {"around 0": np.array([-0.4, 0.3]), "positive": np.array([0.7, 2.0]), "above one": np.array([1.3, 2.0])}[where]
    names = UNARY[where].split()
    check(lambda x: xnp.stack([getattr(lax, name)(x) for name in names]), [x])


X, Y, M, N = RNG.uniform(0.5, 2, size=3), RNG.uniform(0.5, 2, size=3), RNG.normal(size=(3, 3)), RNG.normal(size=(3, 3))
FUNCTIONS = {
    "arithmetic": (lambda x, y: xnp.stack([x + y, x - 2 * y, x * y, 3 / y, x / y, x * 2, y / 2, 5 - x]), [X, Y]),
    "powers": (lambda x, y: xnp.stack([x ** y, x ** 2.5, 2.0 ** y, x ** 3, x ** -2, lax.integer_pow(x, 0), xnp.arctan2(x, y)]), [X, Y]),
    "a scalar": (lambda x, y: y * x + x / y + xnp.maximum(x, 1.0) + y ** x, [np.float64(0.7), Y]),
    "products of matrices": (lambda x, y: x @ y @ np.eye(3) + np.ones((3, 3)) @ x, [M, N]),
    "convolution": (lambda x, y: xnp.convolve(x, y), [X, Y]),
    "structure": (lambda x, y: xnp.concatenate([x[::-1].T, xnp.where(y > 0, x, y), xnp.pad(x, 1)[:, 1:4], xnp.roll(y, 1, 0)]).cumsum(0), [M, N]),
    "indexing": (lambda x, y: x[np.array([0, 2, 2])] + x.at[1].add(y[0]) + lax.dynamic_update_slice(x, y[:1], (1, 0)), [M, N]),
    "reductions": (lambda x: xnp.stack([x.sum(), x.max(), x.prod(), xnp.sort(x)[1], xnp.linalg.norm(x), nn.logsumexp(x)]), [X]),
    "networks": (lambda x, y: nn.softmax(nn.relu(x @ y) + nn.gelu(x) + nn.silu(y)), [M, N]),
    "loops": (lambda x: lax.fori_loop(0, 3, lambda i, x: xnp.sin(x) * 2, x) + lax.cond(True, xnp.cos, xnp.sin, x), [X]),
    "while": (lambda x: lax.while_loop(lambda x: x[0] < 4, lambda x: x * x + 1, x), [X]),
    "linear algebra": (lambda x: xnp.linalg.inv(x @ x.T + np.eye(3)), [M]),
    "compiled": (lambda x: xf.jit(lambda x: xnp.sin(x) * 2)(x) + xf.checkpoint(xnp.cos)(x), [X]),
    "derivatives": (lambda x: xf.grad(lambda x: xnp.sin(x).prod())(x), [X]),
    "mapped": (lambda x: xf.vmap(lambda row: row * row.sum())(x), [M]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    check(*FUNCTIONS[name])


def test_closed_forms_and_scaling():
    x = 0.5
    value, terms = jet(xnp.sin, (x,), ((1.0, 0.0, 0.0),))
    np.testing.assert_allclose([value, *terms], [np.sin(x), np.cos(x), -np.sin(x), -np.cos(x)])
    value, terms = jet(xnp.exp, (x,), ((1.0, 0.0, 0.0, 0.0, 0.0, 0.0),), factorial_scaled=False)
    np.testing.assert_allclose(terms, np.exp(x) / [math.factorial(k) for k in range(1, 7)])


def test_results_and_arguments():
    value, terms = jet(lambda x, y: (x * y, {"a": x, "b": 3.0}), (1.0, 2.0), ((1.0, 0.0), module.zero_series))
    assert value[1]["b"] == 3.0 and [float(t) for t in terms[1]["b"]] == [0, 0]
    assert [float(t) for t in terms[0]] == [2, 0] and [float(t) for t in terms[1]["a"]] == [1, 0]
    assert jet(xnp.sin, (1.0,), ((),))[1] == []
    assert [float(t) for t in jet(lambda x: x, (1.0,), ((module.zero_term, 2.0),))[1]] == [0, 2]
    assert jet(lambda x: x.astype(int), (1.5,), ((1.0,),))[0].dtype == np.int64
    assert float(jet(lambda x: x * 2, (1,), ((1.0,),))[1][0]) == 2
    assert jet(lambda x: 2 * x, (xnp.float32(1),), ((1.0,),))[1][0].dtype == np.float32
    assert float(xf.grad(lambda x: jet(xnp.sin, (x,), ((1.0, 0.0),))[1][1])(0.5)) == pytest.approx(-np.cos(0.5))
    batch = xf.vmap(lambda x: jet(xnp.sin, (x,), ((1.0, 0.0),))[1][1])(X)
    np.testing.assert_allclose(np.asarray(batch), -np.sin(X))


def test_custom_rules_are_used():
    @xf.custom_jvp
    def f(x):
        return x ** 2

    f.defjvp(lambda primals, tangents: (f(*primals), 10 * primals[0] * tangents[0]))
    value, terms = jet(f, (3.0,), ((1.0, 0.0),))
    assert [float(v) for v in (value, *terms)] == [9, 30, 10]


def test_rules_of_users():
    def primitive(name):
        p = xf.core.Primitive(name)
        p.def_impl({"twice": lambda x: 2 * x, "steps": xnp.floor, "ln": xnp.log, "fourth": lambda x: x ** 4}[name])
        return p

    twice, steps, ln, fourth = map(primitive, ("twice", "steps", "ln", "fourth"))
    module.deflinear(twice)
    module.defzero(steps)
    module.def_deriv(ln, lambda x: 1 / x)
    module.def_comp(fourth, lambda x: xnp.square(xnp.square(x)))
    for p, expected in ((twice, [2, 0, 0]), (steps, [0, 0, 0]), (ln, [1 / 3, -1 / 9, 2 / 27]), (fourth, [108, 108, 72])):
        np.testing.assert_allclose(jet(p.bind, (3.0,), ((1.0, 0.0, 0.0),))[1], expected, atol=1e-12)
    np.testing.assert_allclose(module.fact(np.array([2, 3, 4])), [2, 6, 24])


def test_bad_input():
    with pytest.raises(ValueError, match="equal lengths"):
        jet(xnp.add, (0.5, 1.0), ((1.0,), (2.0, 3.0)))
    with pytest.raises(ValueError, match="is a dict"):
        jet(lambda x: x["a"], ({"a": 1.0},), ((1.0,),))
    with pytest.raises(TypeError):
        jet(xnp.sin, (0.5,), (1.0,))
    with pytest.raises(TypeError):
        jet(xnp.sin, 0.5, ((1.0,),))
    with pytest.raises(TypeError, match="shape"):
        jet(xnp.sin, (X,), ((np.ones(2),),))
    with pytest.raises(ValueError, match="for each"):
        jet(xnp.sin, (X,), ())


def test_weak_type_of_integer_primals():
    value, terms = jet(xnp.sin, (3,), ((1, 0),))
    assert value.weak_type and all(term.weak_type for term in terms)
    assert not jet(xnp.sin, (np.int32(3),), ((1, 0),))[0].weak_type
