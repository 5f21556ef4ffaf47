"""Import, calls, tracing, compiling, memory. A case takes a library and returns figures: `{name: (value, unit)}`.

Each case runs in a fresh process. A figure that a library has no counterpart for is left out.
"""

from __future__ import annotations

import gc
import os
import resource
import time
from collections.abc import Callable

import numpy as np

from benchmarks.libraries import Library
from benchmarks.measure import best, resident
from benchmarks.models import chain, transformer
from benchmarks.registry import case

# The processes of this case are timed from outside.


@case
def start(lib: Library) -> dict:
    """Import, and the first operation."""
    return {}


# Calls


@case
def dispatch(lib: Library) -> dict:
    """Calling a compiled function with few and with many arrays."""
    if not lib.compiles:
        return {}
    figures = {}
    for count in (1, 10, 100, 1000):
        leaves = [lib.np.ones(3) for _ in range(count)]
        f = lib.xf.jit(lambda xs: xs[0] + 1)
        figures[f"jit call, {count} array(s)"] = (best(lambda f=f, leaves=leaves: f(leaves)), "µs")
    leaves = [lib.np.ones(3) for _ in range(10)]
    compiled = lib.xf.jit(lambda xs: xs[0] + 1).lower(leaves).compile()
    figures["call of lower().compile(), 10 array(s)"] = (best(lambda: compiled(leaves)), "µs")
    tree = {str(i): lib.np.ones(3) for i in range(100)}
    f = lib.xf.jit(lambda t: t)
    figures["jit call, 100 arrays in and out"] = (best(lambda: f(tree)), "µs")
    return figures


@case
def pmap(lib: Library) -> dict:
    """Calling a function mapped over 8 simulated devices, with few and with many arrays."""
    if not lib.compiles:
        return {}
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
    figures = {}
    for count in (1, 10, 100):
        f = lib.xf.pmap(lambda xs: [x + 1 for x in xs])
        leaves = f([lib.np.ones((8, 3)) for _ in range(count)])

        def call(f=f, leaves=leaves):
            lib.wait(f(leaves))

        figures[f"pmap call, {count} array(s), 8 devices"] = (best(call), "µs")
    return figures


def eager_calls(lib: Library) -> dict[str, Callable]:
    """The calls of a library, by what they do."""
    n = lib.np
    if lib.name == "torch":
        x, m = n.ones(3), n.ones(50, 4)
        idx, mask = n.tensor([0, 2]), n.tensor([True, False, True])
        return {
            "x + x": lambda: x + x,
            "x * 2": lambda: x * 2.0,
            "sum": lambda: n.sum(x),
            "x[0]": lambda: x[0],
            "x[1:]": lambda: x[1:],
            "m[:, 0]": lambda: m[:, 0],
            "x[array]": lambda: x[idx],
            "x[mask]": lambda: x[mask],
            "reshape": lambda: m.reshape(4, 50),
            "transpose": lambda: m.T,
            "concatenate": lambda: n.concatenate([x, x]),
            "stack": lambda: n.stack([x, x]),
            "einsum": lambda: n.einsum("ij,kj->ik", m, m),
            "softmax": lambda: n.softmax(x, 0),
            "relu": lambda: n.relu(x),
            "zeros": lambda: n.zeros(3, 4),
            "arange": lambda: n.arange(5),
            "array(list)": lambda: n.tensor([1.0, 2.0, 3.0]),
            "iterate 100 rows": lambda m=n.ones(100, 3): list(m),
        }
    x, m = n.ones(3, "float32"), n.ones((50, 4), "float32")
    idx, mask, rows = n.asarray([0, 2]), np.array([True, False, True]), n.ones((100, 3), "float32")
    host = np.ones(3, np.float32)
    calls = {
        "x + x": lambda: x + x,
        "x * 2": lambda: x * 2.0,
        "x ** 2": lambda: x**2,
        "sum": lambda: n.sum(x),
        "mean": lambda: n.mean(x),
        "x[0]": lambda: x[0],
        "x[1:]": lambda: x[1:],
        "m[:, 0]": lambda: m[:, 0],
        "x[array]": lambda: x[idx],
        "m[array, array]": lambda: m[idx, idx],
        "x[mask]": lambda: x[mask],
        "reshape": lambda: m.reshape(4, 50),
        "transpose": lambda: m.T,
        "astype": lambda: x.astype("int32"),
        "concatenate": lambda: n.concatenate([x, x]),
        "stack": lambda: n.stack([x, x]),
        "split": lambda: n.split(m, 2),
        "expand_dims": lambda: n.expand_dims(x, 0),
        "einsum": lambda: n.einsum("ij,kj->ik", m, m),
        "matmul": lambda: m @ m.T,
        "where": lambda: n.where(x > 0, x, 0.0),
        "zeros": lambda: n.zeros((3, 4)),
        "full": lambda: n.full((3,), 2.0),
        "eye": lambda: n.eye(4),
        "arange": lambda: n.arange(5),
        "zeros_like": lambda: n.zeros_like(x),
        "array(list)": lambda: n.array([1.0, 2.0, 3.0]),
        "float32(2)": lambda: n.float32(2.0),
        "iterate 100 rows": lambda: list(rows),
    }
    if lib.compiles:
        gradient = lib.xf.grad(lambda x: n.sum(n.sin(x) * x))
        key = lib.xf.random.key(0)
        calls |= {
            "softmax": lambda: lib.xf.nn.softmax(x),
            "relu": lambda: lib.xf.nn.relu(x),
            "x.at[i].set": lambda: x.at[1].set(5.0),
            "x.at[array].add": lambda: x.at[idx].add(1.0),
            "device_put": lambda: lib.xf.device_put(host),
            "grad of 3 operations": lambda: gradient(x),
            "random.split": lambda: lib.xf.random.split(key),
            "random.normal": lambda: lib.xf.random.normal(key, (3,)),
        }
    return calls


@case
def eager(lib: Library) -> dict:
    """Single calls on small arrays: what Python costs."""
    return {f"eager {name}": (best(call), "µs") for name, call in eager_calls(lib).items()}


# Tracing, lowering, compiling


@case
def tracing(lib: Library) -> dict:
    """Per operation of chains of sin, multiply, add."""
    if not lib.compiles:
        return {}
    figures = {}
    x = lib.np.ones(3)
    for count in (300, 3_000, 30_000):
        traces, lowers = [], []
        for _ in range(5 if count < 30_000 else 2):
            gc.collect()
            started = time.perf_counter()
            traced = lib.xf.jit(chain(lib.np, count)).trace(x)
            middle = time.perf_counter()
            traced.lower()
            lowers.append(time.perf_counter() - middle)
            traces.append(middle - started)
        figures[f"trace, per op of {count}"] = (min(traces) / count * 1e6, "µs")
        figures[f"lower, per op of {count}"] = (min(lowers) / count * 1e6, "µs")
    times = []
    for _ in range(3):
        f = chain(lib.np, 3_000)
        started = time.perf_counter()
        lib.xf.jit(lib.xf.grad(lambda x: f(x).sum())).trace(x)  # noqa: B023
        times.append(time.perf_counter() - started)
    figures["trace of jit(grad), per forward op"] = (min(times) / 3_000 * 1e6, "µs")
    return figures


@case
def compiling(lib: Library) -> dict:
    """XLA's time on the module that it is given."""
    if not lib.compiles:
        return {}
    x = lib.np.ones(3)
    times = []
    for k in range(3):
        lowered = lib.xf.jit(lambda x, k=k: chain(lib.np, 300)(x) + k).lower(x)
        started = time.perf_counter()
        lowered.compile()
        times.append(time.perf_counter() - started)
    return {"compile 300 operations": (min(times) * 1e3, "ms")}


# A transformer


@case
def transformer_cold(lib: Library) -> dict:
    """A 12-layer transformer's forward pass, to the first result, with nothing in a compile cache."""
    return _transformer(lib, "cold")


@case
def transformer_warm(lib: Library) -> dict:
    """The same in a process whose compilation cache has the program."""
    return _transformer(lib, "warm")


def _transformer(lib: Library, which: str) -> dict:
    if not lib.compiles:
        return {}
    if which == "warm" and lib.name == "jax":
        lib.xf.config.update("jax_compilation_cache_dir", os.environ["XLAFRONT_CACHE_DIR"] + "-jax")
        lib.xf.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        lib.xf.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    forward, parameters, x = transformer(lib)
    started = time.perf_counter()
    lowered = lib.xf.jit(forward).lower(parameters, x)
    figures = {f"12 layers, {which}: trace and lower": ((time.perf_counter() - started) * 1e3, "ms")}
    middle = time.perf_counter()
    compiled = lowered.compile()
    figures[f"12 layers, {which}: compile"] = ((time.perf_counter() - middle) * 1e3, "ms")
    lib.wait(compiled(parameters, x))
    figures[f"12 layers, {which}: to the first result"] = ((time.perf_counter() - started) * 1e3, "ms")
    if which == "cold":
        figures["12 layers: run"] = (best(lambda: lib.wait(compiled(parameters, x)), 0.3) / 1e3, "ms")
        loss = lambda p, x: lib.np.sum(forward(p, x) ** 2)  # noqa: E731
        started = time.perf_counter()
        lib.xf.jit(lib.xf.value_and_grad(loss)).lower(parameters, x)
        figures["12 layers, value_and_grad: trace and lower"] = ((time.perf_counter() - started) * 1e3, "ms")
        figures["12 layers: peak memory"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "MB")
    return figures


# Memory


@case
def shapes(lib: Library) -> dict:
    """Memory that stays in use for each shape that a function was compiled for."""
    if not lib.compiles:
        return {}
    f = lib.xf.jit(lambda x: (x * 2 + 1).sum())
    arrays = [np.ones(n, np.float32) for n in range(1, 1001)]
    f(arrays[0]), f(arrays[1])
    gc.collect()
    before = resident()
    for a in arrays[2:]:
        f(a)
    gc.collect()
    return {"memory kept per compiled shape": ((resident() - before) / 998, "MB")}
