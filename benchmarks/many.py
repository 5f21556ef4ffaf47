"""Much of it in one process: functions, threads, the cells of a notebook. What stays in memory, and what it costs."""

from __future__ import annotations

import gc
import threading
import time

from benchmarks.libraries import Library
from benchmarks.measure import resident
from benchmarks.registry import case

CELL = """
def model(w, x):
    return xnp.tanh(x @ w) * {number}

def loss(w, x):
    return xnp.sum(xf.vmap(model, (None, 0))(w, x) ** 2)

step = xf.jit(lambda w, x: w - {number} * xf.grad(loss)(w, x))
data = xnp.ones(({rows}, 8))
w = step(xnp.ones((8, 8)), data)
total, trace = xf.lax.scan(lambda c, row: (c + row @ w, xnp.sum(c)), xnp.zeros(8), data)
print_me = float(total.sum()) + float(trace[-1])
"""


@case
def many_functions(lib: Library) -> dict:
    """A thousand jitted functions that stay alive in one process, each with another program."""
    if not lib.compiles:
        return {}
    x = lib.np.ones(8)
    before, started = resident(), time.process_time()
    functions = [lib.xf.jit(lambda x, k=k: lib.np.sum(lib.np.sin(x * k) + k)) for k in range(1, 1001)]
    for f in functions:
        f(x)
    spent = time.process_time() - started
    gc.collect()
    return {"many: 1,000 functions, processor time": (spent, "s"), "many: 1,000 functions, memory": (resident() - before, "MB")}


@case
def threads(lib: Library) -> dict:
    """A thousand threads that call one function, which none of them has called before."""
    if not lib.compiles:
        return {}
    traces = []

    def function(x):
        traces.append(x)
        return lib.np.sum(lib.np.sin(x) ** 2)

    f, start = lib.xf.jit(function), threading.Event()
    x = lib.np.ones(8)

    def call():
        start.wait()
        lib.wait(f(x))

    running = [threading.Thread(target=call) for _ in range(1000)]
    for thread in running:
        thread.start()
    started = time.perf_counter()
    start.set()
    for thread in running:
        thread.join()
    return {"many: 1,000 threads": ((time.perf_counter() - started) * 1e3, "ms"),
            "many: traces by 1,000 threads": (len(traces), "count")}


@case
def session(lib: Library) -> dict:
    """The cells of a long notebook session: each defines, differentiates and maps functions with other numbers and sizes."""
    if not lib.compiles:
        return {}
    names = {"xf": lib.xf, "xnp": lib.np}
    memory = {}
    started = time.process_time()
    for cell in range(600):
        exec(compile(CELL.format(number=1 / (cell + 1), rows=4 + cell % 7), f"<cell {cell}>", "exec"), names)
        if cell in (99, 599):
            gc.collect()
            memory[cell] = resident()
    return {"many: a cell of a notebook, processor time": ((time.process_time() - started) / 600 * 1e3, "ms"),
            "many: memory after 100 cells": (memory[99], "MB"),
            "many: memory that 100 further cells add": ((memory[599] - memory[99]) / 5, "MB")}
