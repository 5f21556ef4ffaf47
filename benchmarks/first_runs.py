"""Times that users wait: first runs of functions, reads of numbers, calls with keys or donated arrays."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from benchmarks.functions import expressions
from benchmarks.libraries import Library
from benchmarks.measure import best
from benchmarks.models import cnn, ode, transformer
from benchmarks.registry import case


@case
def first_runs_cold(lib: Library) -> dict:
    """Each of the 66 functions of `functions` once, and an MLP's gradient, with nothing in a compile cache. Processor time."""
    return _first_runs(lib, "cold")


@case
def first_runs_warm(lib: Library) -> dict:
    """The same in a second process: xlafront stores programs on disk by default, jax if it is configured to."""
    return _first_runs(lib, "second process")


def _first_runs(lib: Library, which: str) -> dict:
    if not lib.compiles:
        return {}
    made = list(expressions(lib).values())
    started = time.process_time()
    for function, args in made:
        lib.wait(function(*args))
    figures = {f"first run, {which}: 66 functions": ((time.process_time() - started) * 1e3, "ms")}
    n, random = lib.np, lib.xf.random
    key = lib.wait(random.key(0))
    started = time.process_time()
    for draw in (
        lambda: random.uniform(key, (7,)), lambda: random.normal(key, (7,)), lambda: random.randint(key, (7,), 0, 5),
        lambda: random.permutation(key, 7), lambda: random.choice(key, 9, (7,)), lambda: random.bernoulli(key, 0.5, (7,)),
        lambda: random.categorical(key, n.ones(7)), lambda: random.gamma(key, 2.0, (7,)),
        lib.xf.jit(lambda: random.normal(random.split(key)[0], (7,))),
    ):
        lib.wait(draw())
    figures[f"first run, {which}: 9 draws"] = ((time.process_time() - started) * 1e3, "ms")
    weights, x = [n.ones((8, 8)) for _ in range(3)], n.ones((16, 8))

    def loss(weights, x):
        for w in weights:
            x = n.tanh(x @ w)
        return (x ** 2).mean()

    started = time.process_time()
    lib.wait(lib.xf.jit(lib.xf.value_and_grad(loss))(weights, x))
    figures[f"first run, {which}: MLP, value_and_grad"] = ((time.process_time() - started) * 1e3, "ms")
    return figures


@case
def samplers(lib: Library) -> dict:
    """Compilation of samplers, whose kernels are long, for several numbers of samples. Processor time."""
    if not lib.compiles:
        return {}
    xf, random = lib.xf, lib.xf.random
    key, alpha = random.key(0), np.ones(7, np.float32)
    samples: dict[str, Callable] = {
        "normal": random.normal,
        "truncated_normal": lambda key, shape: random.truncated_normal(key, -1.0, 1.0, shape),
        "gamma": lambda key, shape: random.gamma(key, 2.0, shape),
        "beta": lambda key, shape: random.beta(key, 2.0, 3.0, shape),
        "poisson": lambda key, shape: random.poisson(key, 20.0, shape),
        "binomial": lambda key, shape: random.binomial(key, 200.0, 0.3, shape),
        "dirichlet": lambda key, shape: random.dirichlet(key, alpha, shape),
    }
    lib.wait(xf.jit(random.bits)(key))
    figures = {}
    for name, sample in samples.items():
        for count in (100, 1000, 1024):
            lowered = xf.jit(lambda key, sample=sample, count=count: sample(key, (count,))).lower(key)
            started = time.process_time()
            lowered.compile()
            figures[f"compile {name}, {count} samples"] = ((time.process_time() - started) * 1e3, "ms")
    return figures


@case
def tiers(lib: Library) -> dict:
    """The time to the first result of three gradients, with `tiered_compilation` where there is such a setting."""
    if not lib.compiles:
        return {}
    xf = lib.xf
    if hasattr(xf, "plan"):  # xlafront
        xf.config.update("tiered_compilation", True)
        xf.config.update("enable_compilation_cache", False)
    figures = {}
    forward, parameters, x = transformer(lib)
    layers = (lambda parameters, x: lib.np.mean(forward(parameters, x) ** 2), parameters, x)
    for name, (loss, *args) in {"CNN": cnn(lib), "ODE": ode(lib), "12 layers": layers}.items():
        xf.block_until_ready(args)
        started = time.perf_counter()
        xf.block_until_ready(xf.jit(xf.value_and_grad(loss))(*args))
        figures[f"first result, {name}: gradient"] = ((time.perf_counter() - started) * 1e3, "ms")
    return figures


@case
def reading(lib: Library) -> dict:
    """Numbers and arrays that Python reads: each time those of a new array."""
    if not lib.compiles:
        return {}
    x, v, i = lib.np.float32(1.5) + 0, lib.np.arange(8.0), lib.np.int32(3) + 0
    add = lib.xf.jit(lambda a: a + 1)
    tree = {"a": [v] * 10, "b": (v,) * 10}
    calls = {
        "float(x)": lambda: float(add(x)), "x.item()": lambda: add(x).item(), "int(x)": lambda: int(add(i)),
        "bool(x)": lambda: bool(add(i)), "x.tolist()": lambda: add(v).tolist(), "np.asarray(x)": lambda: np.asarray(add(v)),
        "three scalars of an array": lambda: [float(a) for a in v[:3]],
        "block_until_ready of 20 arrays": lambda: lib.xf.block_until_ready(tree),
        "from_dlpack": lambda: lib.np.from_dlpack(v),
        "tree_flatten_with_path": lambda: lib.xf.tree_util.tree_flatten_with_path(tree),
    }
    return {f"read: {name}": (best(call), "µs") for name, call in calls.items()}


@case
def calls(lib: Library) -> dict:
    """Calls of compiled functions with keys, donated and static arguments, and arrays of NumPy."""
    if not lib.compiles:
        return {}
    xf, n = lib.xf, lib.np
    v, host, key = n.arange(8.0), np.ones(8, np.float32), xf.random.key(0)
    donating = xf.jit(lambda a: a + 1, donate_argnums=0)
    splitting = xf.jit(lambda k: xf.random.split(k, 1)[0], donate_argnums=0)
    static, plain = xf.jit(lambda a, *, n: a * n, static_argnames="n"), xf.jit(lambda a: a + 1)
    drawing, keyword = xf.jit(lambda k: xf.random.uniform(k)), xf.jit(lambda a, *, b: a + b)
    branching = xf.jit(lambda p, a: lib.lax.cond(p, lambda a: a * 2, lambda a: a + 1, a))
    first = (v > -1)[0]
    return {f"call: {name}": (best(call), "µs") for name, call in {
        "donated array": _fed(donating, v + 0), "donated key": _fed(splitting, xf.random.key(1)),
        "key": lambda: drawing(key), "static keyword": lambda: static(v, n=3), "keyword": lambda: keyword(v, b=v),
        "NumPy's array": lambda: plain(host), "cond": lambda: branching(first, v),
        "eager dot": lambda: n.dot(v, v), "eager isnan(x).any()": lambda: n.isnan(v).any(),
    }.items()}


@case
def asking(lib: Library) -> dict:
    """Queries of arrays, types, trees, shardings and meshes, and calls that change nothing."""
    if not lib.compiles:
        return {}
    xf, n = lib.xf, lib.np
    v, host = n.arange(8.0), np.ones(8, np.float32)
    tree = {f"layer {i}": {"w": v, "b": v} for i in range(50)}
    mesh = xf.sharding.Mesh(np.array(xf.devices()[:1]), ("data",))
    rows = xf.NamedSharding(mesh, xf.P("data"))
    struct, lowered = xf.ShapeDtypeStruct((8,), np.float32), xf.jit(lambda a: n.sin(a) * 2).lower(v)
    return {f"ask: {name}": (best(call), "µs") for name, call in {
        "x.aval": lambda: v.aval, "x.addressable_shards": lambda: v.addressable_shards,
        "x.global_shards": lambda: v.global_shards, "x.nbytes": lambda: v.nbytes, "x == None": lambda: v == None,  # noqa: E711
        "x.T of a vector": lambda: v.T, "x.reshape(-1) of a vector": lambda: v.reshape(-1),
        "convert_element_type to its own": lambda: lib.lax.convert_element_type(v, np.float32),
        "isinstance(x, Array)": lambda: isinstance(host, xf.Array), "can_cast": lambda: n.can_cast(np.int32, np.float32),
        "typeof(2.0)": lambda: xf.typeof(2.0), "hash of a struct": lambda: hash(struct),
        "tree_map_with_path": lambda: xf.tree_util.tree_map_with_path(lambda path, x: x, tree),
        "sharding.device_set": lambda: rows.device_set, "sharding.addressable_devices": lambda: rows.addressable_devices,
        "mesh.local_devices": lambda: mesh.local_devices, "lowered.as_text()": lowered.as_text,
        "percentile": lambda: n.percentile(v, 30.0), "pad with a number": lambda: n.pad(v, 1, constant_values=3.0),
    }.items()}


@case
def fresh(lib: Library) -> dict:
    """Functions created in each iteration of a loop, as in notebooks and tests. Processor time."""
    if not lib.compiles:
        return {}
    xf, n, lax = lib.xf, lib.np, lib.lax
    v, s = n.arange(8.0), n.float32(2)
    turns = {
        "jit": lambda: xf.jit(lambda a: n.sin(a) + 1)(v), "closing over an array": lambda: xf.jit(lambda a: a * v + 1)(v),
        "scan": lambda: lax.scan(lambda c, a: (c + a, c), s, v),
        "fori_loop": lambda: lax.fori_loop(0, 3, lambda i, c: c + i, v),
        "cond": lambda: lax.cond(True, lambda a: a + 1, lambda a: a - 1, v), "map": lambda: lax.map(lambda a: a + 1, v),
        "while_loop": lambda: lax.while_loop(lambda c: c < 3, lambda c: c + 1, s - 2),
        "checkpoint": lambda: xf.checkpoint(lambda a: n.sin(a))(v),
        "jit of grad": lambda: xf.jit(xf.grad(lambda a: (a * a).sum()))(v),
    }
    return {f"fresh: {name}": (_turn(call), "µs") for name, call in turns.items()}


def _turn(call: Callable, turns: int = 30) -> float:
    """The least processor time of one call, in microseconds."""
    call()
    found = []
    for _ in range(turns):
        started = time.process_time()
        call()
        found.append(time.process_time() - started)
    return min(found) * 1e6


def _fed(function: Callable, x) -> Callable:
    """Calls of a function on its last result."""
    state = [x]

    def call():
        state[0] = function(state[0])

    return call
