"""Libraries that import jax, with either below them: Flax, Optax, Equinox, NumPyro. The import is timed from outside.

The cases are there where the extra `ecosystem` is installed (`--python jax=PATH --python xlafront=PATH` say where).
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec

from benchmarks.libraries import Library
from benchmarks.measure import best
from benchmarks.registry import case


def present(lib: Library) -> bool:
    """True if the libraries are installed; from here on xlafront answers for jax in its processes."""
    if not lib.compiles or any(find_spec(name) is None for name in ("flax", "optax", "equinox", "numpyro")):
        return False
    if lib.name == "xlafront":
        import_module("xlafront.as_jax")
    return True


def milliseconds(call: Callable) -> tuple[float, str]:
    """The time of one call, the first of its kind."""
    started = time.perf_counter()
    call()
    return (time.perf_counter() - started) * 1e3, "ms"


@case
def libraries(lib: Library) -> dict:
    """Import of the libraries."""
    return {}


@case
def flax_linen(lib: Library) -> dict:
    """A transformer of two layers with dropout and layer norm: variables made, a step of Adam."""
    if not present(lib):
        return {}
    import optax
    from flax import linen as nn

    xf, np = lib.xf, lib.np

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x, train):
            x = x + nn.SelfAttention(4, qkv_features=32)(nn.LayerNorm()(x))
            y = nn.Dense(64)(nn.LayerNorm()(x))
            return x + nn.Dropout(0.1, deterministic=not train)(nn.Dense(32)(nn.gelu(y)))

    class Transformer(nn.Module):
        @nn.compact
        def __call__(self, tokens, train=False):
            x = nn.Embed(50, 32)(tokens)
            for _ in range(2):
                x = Block()(x, train)
            return nn.Dense(50)(nn.LayerNorm()(x))

    key, tokens = xf.random.key(0), np.arange(32).reshape(4, 8)
    model, optimiser = Transformer(), optax.adam(1e-3)
    figures = {"Flax Linen: init, first time": milliseconds(lambda: xf.block_until_ready(model.init(key, tokens)))}
    params = model.init(key, tokens)
    state = optimiser.init(params)

    def make_step():
        def loss(params, key):
            logits = model.apply(params, tokens, train=True, rngs={"dropout": key})
            return optax.softmax_cross_entropy_with_integer_labels(logits, tokens).mean()

        def step(params, state, key):
            value, grads = xf.value_and_grad(loss)(params, key)
            updates, state = optimiser.update(grads, state, params)
            return optax.apply_updates(params, updates), state, value

        return xf.jit(step)

    step = make_step()
    figures["Flax Linen: first step"] = milliseconds(lambda: lib.wait(step(params, state, key)))
    figures["Flax Linen: trace"] = _trace_time(make_step, params, state, key)
    figures["Flax Linen: init"] = best(lambda: model.init(key, tokens), 0.2, 3) / 1e3, "ms"
    figures["Flax Linen: step"] = best(lambda: lib.wait(step(params, state, key)), 0.2), "µs"
    return figures


def _trace_time(make: Callable, *args) -> tuple[float, str]:
    """Return the milliseconds to trace new functions, after one has been traced: the best of three."""
    found = float("inf")
    for _ in range(3):
        step = make()
        gc.collect()
        started = time.perf_counter()
        step.trace(*args)
        found = min(found, time.perf_counter() - started)
    return found * 1e3, "ms"


@case
def flax_nnx(lib: Library) -> dict:
    """A train step on objects: what it costs to hand modules and an optimiser to compiled code and back."""
    if not present(lib):
        return {}
    import optax
    from flax import nnx

    np = lib.np

    class MLP(nnx.Module):
        def __init__(self, rngs):
            self.layers = nnx.List([nnx.Linear(32, 32, rngs=rngs) for _ in range(4)])
            self.norm = nnx.BatchNorm(32, rngs=rngs)
            self.dropout = nnx.Dropout(0.1, rngs=rngs)

        def __call__(self, x):
            for layer in self.layers:
                x = nnx.relu(layer(x))
            return self.dropout(self.norm(x))

    x = np.ones((16, 32))
    made = []
    figures = {"Flax NNX: module made, first time": milliseconds(lambda: made.append(MLP(nnx.Rngs(0))))}
    [model] = made
    optimiser = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)

    @nnx.jit
    def step(model, optimiser, x):
        value, grads = nnx.value_and_grad(lambda model: np.mean(model(x) ** 2))(model)
        optimiser.update(model, grads)
        return value

    figures["Flax NNX: first step"] = milliseconds(lambda: lib.wait(step(model, optimiser, x)))
    figures["Flax NNX: module made"] = best(lambda: MLP(nnx.Rngs(0)), 0.2, 3) / 1e3, "ms"
    figures["Flax NNX: step"] = best(lambda: lib.wait(step(model, optimiser, x)), 0.2), "µs"
    return figures


@case
def equinox(lib: Library) -> dict:
    """A filtered step: a module of arrays and functions is an argument and a result."""
    if not present(lib):
        return {}
    import equinox as eqx
    import optax

    xf, np = lib.xf, lib.np
    key, x = xf.random.key(0), np.ones((16, 32))
    made = []
    figures = {"Equinox: module made, first time": milliseconds(lambda: made.append(eqx.nn.MLP(32, 32, 32, 3, key=key)))}
    [model] = made
    optimiser = optax.adam(1e-3)
    state = optimiser.init(eqx.filter(model, eqx.is_array))

    def make_step():
        @eqx.filter_jit
        def step(model, state, x):
            value, grads = eqx.filter_value_and_grad(lambda model: np.mean(xf.vmap(model)(x) ** 2))(model)
            updates, state = optimiser.update(grads, state, model)
            return eqx.apply_updates(model, updates), state, value

        return step

    step = make_step()
    figures["Equinox: first step"] = milliseconds(lambda: lib.wait(step(model, state, x)[2]))
    arrays, rest = eqx.partition((model, state), eqx.is_array)

    def make_plain():
        step_function = make_step().__wrapped__

        def plain(arrays, x):
            return eqx.filter(step_function(*eqx.combine(arrays, rest), x), eqx.is_array)

        return xf.jit(plain)

    figures["Equinox: trace"] = _trace_time(make_plain, arrays, x)
    figures["Equinox: step"] = best(lambda: lib.wait(step(model, state, x)[2]), 0.2), "µs"
    return figures


@case
def numpyro(lib: Library) -> dict:
    """NUTS on a logistic regression: warm-up with what it takes to compile it, and once more."""
    if not present(lib):
        return {}
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS

    xf, np = lib.xf, lib.np
    x = xf.random.normal(xf.random.key(0), (100, 3))
    y = x.sum(1) > 0

    def model(x, y):
        w = numpyro.sample("w", dist.Normal(np.zeros(3), 1.0).to_event(1))
        b = numpyro.sample("b", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Bernoulli(logits=x @ w + b), obs=y)

    sampler = MCMC(NUTS(model), num_warmup=200, num_samples=100, progress_bar=False)
    key = xf.random.PRNGKey(1)
    return {
        "NumPyro: NUTS warm-up, first time": milliseconds(lambda: lib.wait(sampler.warmup(key, x, y))),
        "NumPyro: NUTS warm-up": milliseconds(lambda: lib.wait(sampler.warmup(key, x, y))),
    }
