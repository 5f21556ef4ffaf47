"""Ways to measure: times, memory, and the costs of a program at each of its stages."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable

from benchmarks.libraries import Library
from benchmarks.registry import ONE_CORE


def best(call: Callable, seconds: float = 0.05, repeats: int = 7) -> float:
    """Microseconds of one call: the best of a few averages."""
    for _ in range(3):
        call()
    count, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds / 5:
        call()
        count += 1
    found = float("inf")
    for _ in range(repeats):
        started = time.perf_counter()
        for _ in range(count):
            call()
        found = min(found, (time.perf_counter() - started) / count)
    return found * 1e6


def resident() -> float:
    """Megabytes of memory of this process now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def trace_time(lib: Library, make: Callable[[], Callable], *args, repeats: int = 3) -> float:
    """Return the seconds to trace a function that `make` creates each time, so that no cache has it: the best of a few."""
    found = float("inf")
    for _ in range(repeats):
        function = make()
        gc.collect()
        started = time.perf_counter()
        lib.xf.jit(function).trace(*args)
        found = min(found, time.perf_counter() - started)
    return found


def operations(module: str) -> int:
    """The operations of a module in its text: constants, calls and bodies of loops count, functions and returns do not."""
    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext
    from jaxlib.mlir.dialects import chlo, sdy, stablehlo

    found = 0
    uncounted = ("builtin.module", "func.func", "func.return", "stablehlo.return")

    def visit(operation):
        nonlocal found
        found += operation.name not in uncounted
        return ir.WalkResult.ADVANCE

    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    with ir.Context() as context:
        context.append_dialect_registry(registry)
        context.load_all_available_dialects()
        for dialect in (chlo, sdy, stablehlo):
            dialect.register_dialect(context)
        ir.Module.parse(module).operation.walk(visit)
    return found


def stages(lib: Library, name: str, make: Callable[[], Callable], args: tuple, compiles: int = 3) -> dict:
    """Measure the stages of the program `make()`: tracing, lowering, operations, compiling, running, temporary memory.

    Times are the best of a few on new functions. The persistent compilation caches are off.
    """
    lib.xf.config.update("jax_enable_compilation_cache", False)

    def run_time() -> tuple[float, str]:
        function = lib.xf.jit(make())  # called as users call it
        return best(lambda: lib.wait(function(*args)), 0.1, repeats=40) / 1e3, "ms"

    if ONE_CORE in os.environ:
        return {f"{name}: run on one core": run_time()}
    lib.xf.jit(lambda x: x + 1).lower(1.0).compile()  # the imports of the compiler's bindings are not this program's cost
    traces, lowers, modules = [], [], []
    for _ in range(5):
        function = lib.xf.jit(make())
        gc.collect()
        started = time.perf_counter()
        traced = function.trace(*args)
        middle = time.perf_counter()
        modules.append(traced.lower())
        lowers.append(time.perf_counter() - started)
        traces.append(middle - started)
    compilations = []
    del traced
    for _ in range(compiles):
        lowered, compiled = modules.pop(), None
        lib.xf.clear_caches()  # an equal program that is still there would not be compiled again
        gc.collect()
        started = time.perf_counter()
        compiled = lowered.compile()
        compilations.append(time.perf_counter() - started)
    return {
        f"{name}: trace": (min(traces) * 1e3, "ms"),
        f"{name}: trace and lower": (min(lowers) * 1e3, "ms"),
        f"{name}: trace and lower, first time": (lowers[0] * 1e3, "ms"),
        f"{name}: operations": (operations(lowered.as_text()), "count"),
        f"{name}: compile": (min(compilations) * 1e3, "ms"),
        f"{name}: run": run_time(),
        f"{name}: temporary memory": (compiled.memory_analysis().temp_size_in_bytes / 1024, "kB"),
    }
