"""Repeated parts of programs become calls: the same results, fewer operations, no more memory."""

import gc
import time

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.core.ir import Jaxpr
from xlafront.core.ir_check import check_jaxpr
from xlafront.core.traits import Cost
from xlafront.staging import outlining, passes

pytestmark = pytest.mark.cpu_only

LAYERS, WIDTH = 6, 8
RNG = np.random.default_rng(5)


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def norm(x):
    return (x - xnp.mean(x, -1, keepdims=True)) / xnp.sqrt(xnp.var(x, -1, keepdims=True) + 1e-5)


def attention(x, p):
    h = norm(x) @ p["a"]
    q, k, v = xnp.split(h, 3, axis=-1)
    x = x + xf.nn.softmax(q @ k.T) @ v
    return x + xf.nn.gelu(norm(x) @ p["b"]) @ p["c"]


def shared(x, p, w):
    """Also weights that all layers share, and a value that goes past the layers."""
    return xnp.tanh(norm(attention(x, p)) @ w) * xnp.sin(x) + 0.5


PARAMETERS = [{"a": normal(WIDTH, 3 * WIDTH), "b": normal(WIDTH, WIDTH), "c": normal(WIDTH, WIDTH)} for _ in range(LAYERS)]
X, W = normal(4, WIDTH), normal(WIDTH, WIDTH)


def plain(ps, x, w):
    for p in ps:
        x = attention(x, p)
    return x


def with_shared(ps, x, w):
    for p in ps:
        x = shared(x, p, w)
    return x


def jitted(ps, x, w):
    layer = xf.jit(lambda x, p: attention(x, p))
    for p in ps:
        x = layer(x, p)
    return x


def skipping(ps, x, w):
    saved = []
    for p in ps:
        x = attention(x, p) + (saved[-2] if len(saved) > 1 else 0)
        saved.append(x)
    return x + sum(saved[:3])


def looping(ps, x, w):
    for p in ps:
        x, ys = lax.scan(lambda c, r: (xnp.tanh(c @ p["b"] + r), c.sum()), x, xnp.stack([x, x]))
        x = attention(x, p) + ys.sum()
    return x


def rematerialised(ps, x, w):
    for p in ps:
        x = xf.checkpoint(attention)(x, p)
    return x


def entangled(ps, x, w):
    """Values that are several operands at once in one layer and different ones in another."""
    past = [x, x]
    for p in ps:
        y = xnp.abs(past[-2]) + 1
        x = xnp.tanh(attention(x, p) * y + past[-1] * xnp.exp(-y)) - past[0] / y
        past.append(x * y)
    return x


MODELS = {f.__name__: f for f in (plain, with_shared, jitted, skipping, looping, rematerialised, entangled)}


def loss(f):
    return lambda ps, x, w: (f(ps, x, w) ** 2).mean()


def forward(f):
    return f


def gradient(f):
    return xf.value_and_grad(loss(f), (0, 1, 2))


def curvature(f):
    return lambda ps, x, w: xf.jvp(lambda x: xf.grad(loss(f))(ps, x, w), (x,), (xnp.ones_like(x),))[1]


def per_example(f):
    return lambda ps, x, w: xf.vmap(xf.grad(loss(f)), (None, 0, None))(ps, xnp.stack([x, x * 2]), w)


@pytest.fixture
def without(monkeypatch):
    def compiled(f, *args):
        with monkeypatch.context() as patch:
            patch.setattr(passes, "benefits_from_outlining", lambda *_: False)
            return xf.jit(lambda *args: f(*args)).lower(*args).compile()

    return compiled


def close(found, expected):
    """Equal to rounding, which goes by the largest element: all of an array come from sums with it."""
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12 * max(np.abs(expected).max(), 100))


@pytest.mark.parametrize("model, transform", [
    *[(model, transform) for model in MODELS for transform in (forward, gradient)], ("plain", curvature), ("plain", per_example),
    *[pytest.param(model, transform, marks=pytest.mark.soak) for model in MODELS if model != "plain"
      for transform in (curvature, per_example)]])
def test_results_are_the_same(model, transform, without):
    f = transform(MODELS[model])
    with xf.enable_x64(True):
        args = xf.tree.map(lambda x: x.astype(np.float64), (PARAMETERS, X, W))
        expected = without(f, *args)(*args)
        found = xf.jit(f)(*args)
        xf.tree.map(close, found, expected)


def program_of(f, *args) -> Jaxpr:
    return xf.jit(f).trace(*args).jaxpr.jaxpr


@pytest.mark.parametrize("model", ["plain", "with_shared", "jitted"])
@pytest.mark.parametrize("transform, kinds", [(forward, 1), (gradient, 2)])
def test_layers_are_found(model, transform, kinds):
    program = program_of(transform(MODELS[model]), PARAMETERS, X, W)
    outlining_threshold = outlining.SMALLEST_PROGRAM
    inlined = outlining._without_calls(program)
    if len(inlined.eqns) < outlining_threshold:
        pytest.fail("the model is too small to show anything")
    found = outlining.outline(program)
    check_jaxpr(found)
    calls = [e for e in found.eqns if e.primitive is outlining.repeated_p]
    bodies = {id(e.params["jaxpr"].jaxpr) for e in calls}
    assert len(bodies) == kinds and len(calls) >= kinds * (LAYERS - 1)
    for e in calls:
        check_jaxpr(e.params["jaxpr"].jaxpr)
    assert len(found.eqns) + sum(len(j.eqns) for j in {id(e.params["jaxpr"]): e.params["jaxpr"] for e in calls}.values()) < (
        0.7 * len(inlined.eqns))


def test_the_compiled_gradient_needs_no_more_memory(without):
    args = ([{k: np.tile(v, (4, 4)) for k, v in p.items()} for p in PARAMETERS], np.tile(X, (32, 4)), np.tile(W, (4, 4)))
    with_calls = xf.jit(gradient(plain)).lower(*args)
    assert with_calls.as_text().count("inlineable") >= 2 * (LAYERS - 1)
    before = without(gradient(plain), *args).memory_analysis().temp_size_in_bytes
    assert with_calls.compile().memory_analysis().temp_size_in_bytes <= before


def test_small_and_elementwise_programs_are_not_outlined():
    small = program_of(lambda x: xnp.sin(x) * 2, X)
    assert outlining.outline(small) is small

    def chain(x):
        for _ in range(20):
            for k in range(15):
                x = xnp.sin(x) * (k + 1.5) + xnp.cos(x)
        return x

    long = program_of(chain, X)
    assert outlining.outline(long) is long  # one fused loop is better


@pytest.fixture
def everywhere(monkeypatch):
    """Every repetition of two equations or more becomes calls, in every program."""
    monkeypatch.setattr(outlining, "SMALLEST_PROGRAM", 4)
    monkeypatch.setattr(outlining, "SMALLEST_REPEAT", 2)
    monkeypatch.setattr(outlining, "FEWEST_REPEATS", 2)
    monkeypatch.setattr(outlining, "SMALLEST_SHARE", 0.0)
    monkeypatch.setattr(outlining, "HEAVY", tuple(Cost))


RECURRENCES = {
    "one operand, twice": lambda x, y: (y * x, x + x),
    "shifted": lambda x, y: (xnp.sin(x) + y, x * 2),
    "with a constant": lambda x, y: (x * y + 1.5, y - x * 0.5),
    "powers": lambda x, y: (xnp.power(xnp.abs(x) + 1, y), y * 0.9),
    "sums": lambda x, y: (x - y.sum(), y / (1 + x * x)),
    "splits": lambda x, y: (xnp.concatenate(xnp.split(x, 2)[::-1]) * y, xnp.cos(y)),
}


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("name", RECURRENCES)
def test_any_repetition_can_be_calls(name, order, everywhere, without):
    def f(x, y):
        for _ in range(5):
            x, y = RECURRENCES[name](x, y)
        return (x * y).sum()

    g = f
    for _ in range(order):
        g = (lambda h: lambda x, y: xf.tree.reduce(lambda a, b: a + (b**2).sum(), xf.grad(h, (0, 1))(x, y), 0.0))(g)
    with xf.enable_x64(True):
        x, y = np.random.default_rng(11).uniform(0.3, 0.9, (2, 4))
        assert "inlineable" in xf.jit(g).lower(x, y).as_text()
        np.testing.assert_allclose(xf.jit(g)(x, y), without(g, x, y)(x, y), rtol=1e-9)


def test_effects_keep_their_number_and_order():
    seen = []

    def f(x):
        for i in range(5):
            xf.debug.callback(lambda v, i=i: seen.append(i), x.sum(), ordered=True)
            for p in PARAMETERS[:4]:
                x = attention(x, p)
        return x

    xf.jit(f)(X).block_until_ready()
    xf.effects_barrier()
    assert seen == [0, 1, 2, 3, 4]


def test_cost_is_linear(few_objects):
    """Also where cheap values depend on each other in many ways."""
    def f(x, n):
        y = x
        for _ in range(n):
            y = y * y + y
            x = xnp.tanh(x @ W) * y - y
        return x

    programs = {n: program_of(lambda x, n=n: xf.grad(lambda x: f(x, n).sum())(x), normal(WIDTH, WIDTH)) for n in (100, 400)}
    costs = {n: [] for n in programs}
    for _ in range(7):  # in turn: a machine that is busy for a while is so for both
        for n, program in programs.items():
            costs[n].append(processor_time(lambda p=program: outlining.outline(p)) / len(program.eqns))
    assert min(costs[400]) < 4 * min(costs[100])


def processor_time(call):
    """Of this thread, without the garbage of other tests."""
    gc.disable()
    try:
        start = time.thread_time()
        call()
        return time.thread_time() - start
    finally:
        gc.enable()
