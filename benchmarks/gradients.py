"""Derivatives: what it costs to trace, lower, compile and run `grad` and what is built of it, with `vmap`, `jvp` and `scan`.

A figure that needs a function which a library lacks is left out.
"""

from __future__ import annotations

import gc
import time

from benchmarks.libraries import Library
from benchmarks.measure import best, resident, stages, trace_time
from benchmarks.models import chain, mixture_of_experts, mlp, rnn, transformer
from benchmarks.registry import case, staged

# Programs


def value_and_grad(lib: Library, loss):
    """A maker of functions: no cache has seen what it returns."""
    return lambda: lib.xf.value_and_grad(lambda *args: loss(*args))


def hessian_vector_product(lib: Library, loss):
    """Forward over reverse: `(parameters, direction, *data)` to the Hessian's product with the direction."""

    def make():
        gradient = lib.xf.grad(lambda *args: loss(*args))
        return lambda p, v, *data: lib.xf.jvp(lambda p: gradient(p, *data), (p,), (v,))[1]

    return make


# Tracing


@case
def grad_tracing(lib: Library) -> dict:
    """Per forward operation of a chain of sin, multiply, add: gradients of a batch, and a Hessian-vector product."""
    if not lib.compiles:
        return {}
    xf, n, count = lib.xf, lib.np, 300
    f = chain(n, count)

    def loss(x):
        return f(x).sum()

    x, batch = n.ones(3), n.ones((8, 3))
    programs = {
        "jit(grad), 300 operations": (lambda: xf.grad(lambda x: loss(x)), (x,)),
        "jit(vmap(grad))": (lambda: xf.vmap(xf.grad(lambda x: loss(x))), (batch,)),
        "a Hessian-vector product": (hessian_vector_product(lib, loss), (x, x)),
    }
    return {
        f"trace of {name}, per forward op": (trace_time(lib, make, *args, repeats=7) / count * 1e6, "µs")
        for name, (make, args) in programs.items()
    }


@case
def scan_tracing(lib: Library) -> dict:
    """A scan's trace: it must not depend on the number of steps."""
    if not lib.scans:
        return {}
    figures = {}
    for name, transformation in (("scan", lambda f: f), ("jit(grad(scan))", lib.xf.grad)):
        programs = {steps: rnn(lib, steps, batch=1, width=4) for steps in (10, 10_000)}
        found = dict.fromkeys(programs, float("inf"))
        for _ in range(3):  # in turns, so that neither is always the first
            for steps, (loss, *args) in programs.items():
                time_of = trace_time(lib, lambda: transformation(lambda *args: loss(*args)), *args, repeats=7)
                found[steps] = min(found[steps], time_of)
        for steps, time_of in found.items():
            figures[f"trace of {name}, {steps:,} steps"] = (time_of * 1e3, "ms")
        ratio = figures[f"trace of {name}, 10,000 steps"][0] / figures[f"trace of {name}, 10 steps"][0]
        figures[f"constant: trace of {name}, 10,000 over 10 steps"] = (ratio, "×")
    return figures


@case
def linear(lib: Library) -> dict:
    """Trace, grad and lower of long chains: ten times the operations, about ten times the time. jax would take minutes."""
    if lib.name != "xlafront":
        return {}
    figures, x = {}, lib.np.ones(3)
    lib.xf.jit(lambda x: x + 1).lower(x)
    for count in (10_000, 100_000):
        found = float("inf")
        for _ in range(3):
            f = chain(lib.np, count)
            lowered = None
            gc.collect()
            started = time.perf_counter()
            lowered = lib.xf.jit(lib.xf.grad(lambda x: f(x).sum())).lower(x)  # stays referenced: freeing it is not counted
            found = min(found, time.perf_counter() - started)
        del lowered
        figures[f"linear: trace, grad and lower of {count:,} operations"] = (found * 1e3, "ms")
    small, large = (value for value, _ in figures.values())
    figures["linear: 100,000 over 10,000 operations"] = (large / small, "×")
    return figures


@case
def deep(lib: Library) -> dict:
    """The gradient of 24 and 96 layers of 8 experts, in Python loops: times, equations, and memory of what Python holds."""
    if not lib.compiles:
        return {}
    lib.xf.config.update("jax_enable_compilation_cache", False)
    lib.xf.jit(lambda x: x + 1).lower(1.0).compile()
    figures = {}
    for layers in (24, 96):
        loss, *args = mixture_of_experts(lib, layers)
        gc.collect()
        before, started = resident(), time.perf_counter()
        traced = lib.xf.jit(lib.xf.value_and_grad(loss)).trace(*args)
        middle = time.perf_counter()
        lowered = traced.lower()
        end = time.perf_counter()
        memory = resident() - before
        lowered.compile()
        figures |= {
            f"{layers} layers of 8 experts: equations": (len(traced.jaxpr.eqns), "count"),
            f"{layers} layers of 8 experts: trace": ((middle - started) * 1e3, "ms"),
            f"{layers} layers of 8 experts: lower": ((end - middle) * 1e3, "ms"),
            f"{layers} layers of 8 experts: memory of trace and lower": (memory, "MB"),
            f"{layers} layers of 8 experts: compile": ((time.perf_counter() - end) * 1e3, "ms"),
        }
    return figures


# Programs, stage by stage


@case
def eager_gradients(lib: Library) -> dict:
    """Gradients of a small network without jit: what Python costs."""
    if not lib.compiles:
        return {}
    loss, parameters, x, y = mlp(lib)
    figures = {}
    for name in ("grad", "value_and_grad"):
        f = getattr(lib.xf, name)(loss)
        figures[f"eager {name} of an MLP"] = (best(lambda f=f: lib.wait(f(parameters, x, y)), 0.3), "µs")
    return figures


@staged
def mlp_grad(lib: Library) -> dict:
    """A small network's gradient."""
    if not lib.compiles:
        return {}
    loss, *args = mlp(lib)
    return stages(lib, "MLP, grad", lambda: lib.xf.grad(lambda *args: loss(*args)), tuple(args))


@staged
def mlp_hvp(lib: Library) -> dict:
    """Its Hessian-vector product."""
    if not lib.compiles:
        return {}
    loss, parameters, x, y = mlp(lib)
    return stages(lib, "MLP, hvp", hessian_vector_product(lib, loss), (parameters, parameters, x, y))


@staged
def mlp_per_example(lib: Library) -> dict:
    """Its gradients for each example of the batch."""
    if not lib.compiles:
        return {}
    loss, *args = mlp(lib)

    def make():
        return lib.xf.vmap(lib.xf.grad(lambda p, x, y: loss(p, x[None], y[None])), in_axes=(None, 0, 0))

    return stages(lib, "MLP, per-example grad", make, tuple(args))


@staged
def rnn_grad(lib: Library) -> dict:
    """The gradient of a scan."""
    if not lib.scans:
        return {}
    loss, *args = rnn(lib, 50)
    return stages(lib, "RNN of 50 steps, grad", lambda: lib.xf.grad(lambda *args: loss(*args)), tuple(args))


@staged
def filter_grad(lib: Library) -> dict:
    """The gradient of a loop that reads two elements of an array in each step, and collects what it multiplies."""
    if not lib.scans:
        return {}
    n = lib.np

    def loss(x, scale):
        def step(y, i):
            y = 0.5 * (y + scale[:, None] * scale * (x[i] - x[i - 1]))
            return y, y[0, 0]

        return (lib.lax.scan(step, n.zeros((8, 8)), n.arange(1, 5000))[1] ** 2).sum()

    args = n.sin(n.arange(5000.0)), n.ones(8)
    return stages(lib, "filter of 5000 samples, grad", lambda: lib.xf.grad(lambda *args: loss(*args), (0, 1)), args)


@staged
def scan_of_grad(lib: Library) -> dict:
    """A scan whose body takes a gradient: the steps of a training loop."""
    if not lib.scans:
        return {}
    loss, parameters, x, y = mlp(lib)
    batches = tuple(lib.np.stack([a] * 50) for a in (x, y))

    def make():
        def step(p, batch):
            value, gradient = lib.xf.value_and_grad(loss)(p, *batch)
            return lib.xf.tree.map(lambda p, g: p - 0.1 * g, p, gradient), value

        return lambda p, batches: lib.lax.scan(step, p, batches)

    return stages(lib, "scan of 50 gradient steps", make, (parameters, batches))


@staged
def transformer_grad(lib: Library) -> dict:
    """Value and gradient of 12 layers, each a call of one Python function."""
    return _transformer_grad(lib, "12 layers, grad", jitted=False)


@staged
def transformer_grad_jitted(lib: Library) -> dict:
    """The same where that function is jitted."""
    return _transformer_grad(lib, "12 jitted layers, grad", jitted=True)


def _transformer_grad(lib: Library, name: str, jitted: bool) -> dict:
    if not lib.compiles:
        return {}
    forward, parameters, x = transformer(lib, jitted=jitted)
    make = value_and_grad(lib, lambda p, x: lib.np.sum(forward(p, x) ** 2))
    return stages(lib, name, make, (parameters, x), compiles=1)
