"""Steps of training and attention, on a CPU or an accelerator: compile time, run time, memory."""

from __future__ import annotations

import time

import numpy as np

from benchmarks.libraries import Library
from benchmarks.measure import best
from benchmarks.models import cnn, transformer
from benchmarks.registry import case


def programs_of(lib: Library) -> dict:
    """Return functions with their arguments, by name."""
    n, xf, rng = lib.np, lib.xf, np.random.default_rng(0)
    forward, layers, x = transformer(lib, layers=4, width=512, heads=8, length=256)
    loss, kernels, images, labels = cnn(lib, batch=32, size=64)

    def step(loss):
        def apply(parameters, momenta, *batch):
            value, gradient = xf.value_and_grad(loss)(parameters, *batch)
            momenta = xf.tree.map(lambda m, g: 0.9 * m + g, momenta, gradient)
            return xf.tree.map(lambda p, m: p - 0.01 * m, parameters, momenta), momenta, value

        return apply

    def attention(q, k, v):
        return n.sum(xf.nn.dot_product_attention(q, k, v, is_causal=True).astype(np.float32) ** 2)

    heads = [n.asarray(rng.normal(size=(4, 512, 8, 64)).astype(np.float32)) for _ in range(3)]
    return {
        "transformer": (step(lambda p, x: n.mean(forward(p, x) ** 2)), (layers, xf.tree.map(n.zeros_like, layers), x)),
        "CNN": (step(loss), (kernels, xf.tree.map(n.zeros_like, kernels), images, labels)),
        "attention": (attention, heads),
        "attention, gradient": (xf.grad(attention, (0, 1, 2)), heads),
        "attention, gradient, bfloat16": (xf.grad(attention, (0, 1, 2)), [x.astype(n.bfloat16) for x in heads]),
    }


@case
def steps(lib: Library) -> dict:
    """Steps of a transformer and a CNN, and attention."""
    if not lib.compiles:
        return {}
    figures = {}
    for name, (function, args) in programs_of(lib).items():
        lowered = lib.xf.jit(function).lower(*args)
        started = time.perf_counter()
        compiled = lowered.compile()
        figures[f"step: {name}, compile"] = ((time.perf_counter() - started) * 1e3, "ms")
        figures[f"step: {name}, run"] = (best(lambda f=compiled, a=args: lib.wait(f(*a)), 0.3, repeats=5) / 1e3, "ms")
        figures[f"step: {name}, temporary memory"] = (compiled.memory_analysis().temp_size_in_bytes / 2**20, "MB")
    return figures
