"""Kernels: a product of matrices in blocks, traced, lowered, called as a new function, run, simulated, lowered for TPUs."""

from __future__ import annotations

import gc
import importlib
import time
from typing import Any

from benchmarks.libraries import Library
from benchmarks.measure import best, trace_time
from benchmarks.registry import case


def product_of(lib: Library, size: int = 64, block: int = 16, interpret: Any = True):
    """A product of square matrices whose blocks are summed up in scratch space."""
    memory = importlib.import_module(f"{lib.name}.experimental.pallas.tpu").VMEM
    pl, n = importlib.import_module(f"{lib.name}.experimental.pallas"), lib.np

    def kernel(x_ref, y_ref, o_ref, total_ref):
        @pl.when(pl.program_id(2) == 0)
        def _():
            total_ref[...] = n.zeros_like(total_ref)

        total_ref[...] += x_ref[...] @ y_ref[...]

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def _():
            o_ref[...] = total_ref[...]

    def product(x, y):
        shape, steps = (block, block), size // block
        return pl.pallas_call(
            kernel, out_shape=lib.xf.ShapeDtypeStruct((size, size), "float32"), grid=(steps, steps, steps), interpret=interpret,
            in_specs=[pl.BlockSpec(shape, lambda i, j, k: (i, k)), pl.BlockSpec(shape, lambda i, j, k: (k, j))],
            out_specs=pl.BlockSpec(shape, lambda i, j, k: (i, j)), scratch_shapes=[memory(shape, n.float32)])(x, y)

    return product


@case
def pallas(lib: Library) -> dict:
    if not lib.compiles:
        return {}
    product, x = product_of(lib), lib.np.ones((64, 64))
    started = time.perf_counter()
    lib.wait(product(x, x))
    figures = {"Pallas: first call (ms)": (time.perf_counter() - started) * 1e3}
    figures["Pallas: eager, said anew (ms)"] = best(lambda: lib.wait(product(x, x)), 0.02, 3) / 1e3
    compiled = lib.xf.jit(product)
    figures["Pallas: run (ms)"] = best(lambda: lib.wait(compiled(x, x))) / 1e3
    figures["Pallas: trace (ms)"] = trace_time(lib, lambda: lambda x, y: product(x, y), x, x, repeats=7) * 1e3
    found = float("inf")
    for _ in range(5):
        function = lib.xf.jit(lambda x, y: product(x, y))
        gc.collect()
        started = time.perf_counter()
        function.lower(x, x)
        found = min(found, time.perf_counter() - started)
    figures["Pallas: trace and lower (ms)"] = found * 1e3
    figures |= _simulated(lib, x) | _lowered_for_tpus(lib)
    return {name.removesuffix(" (ms)"): (value, "ms") for name, value in figures.items()}


def _simulated(lib: Library, x) -> dict[str, float]:
    """Milliseconds of a run with the checks of a simulated TPU, after the first."""
    params = importlib.import_module(f"{lib.name}.experimental.pallas.tpu").InterpretParams
    figures = {}
    for name, options in (("simulated", {}), ("simulated, races found", {"detect_races": True})):
        run = lib.xf.jit(product_of(lib, interpret=params(**options)))
        lib.wait(run(x, x))
        figures[f"Pallas: {name} (ms)"] = best(lambda run=run: lib.wait(run(x, x)), 0.02, 3) / 1e3
    return figures


def _lowered_for_tpus(lib: Library) -> dict[str, float]:
    """Milliseconds of tracing a kernel and lowering it for a TPU that is not there."""
    x, found = lib.np.ones((256, 256)), float("inf")
    for _ in range(5):
        function = lib.xf.jit(product_of(lib, 256, 128, interpret=False))
        gc.collect()
        started = time.perf_counter()
        function.trace(x, x).lower(lowering_platforms=("tpu",))
        found = min(found, time.perf_counter() - started)
    return {"Pallas: trace and lower for TPUs (ms)": found * 1e3}
