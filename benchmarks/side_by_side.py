"""`python -m benchmarks.side_by_side --python OTHER/bin/python`: what both libraries compile, run by turns in one process.

Times of small programs differ from process to process by more than the programs do. Here the modules that jax lowers, in a
process of its own, are compiled in this one and run in turn with ours, on the same arrays. What Python takes for a call is not
in it.
"""

from __future__ import annotations

import argparse
import math
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np

from benchmarks.functions import expressions, kernels_of
from benchmarks.libraries import Library
from benchmarks.sparse import sparse_of

TABLES: dict[str, Callable[[Library], dict[str, tuple[Callable, tuple]]]] = {
    "functions": expressions, "kernels": kernels_of, "sparse": sparse_of}


def lowered(lib: Library, function: Callable, args: tuple):
    return lib.xf.jit(lambda *a: function(*a), keep_unused=True).lower(*args)


def leaves(lib: Library, args: tuple) -> list[np.ndarray]:
    """The arrays of the arguments, those of keys as their words."""
    def words(x):
        return lib.xf.random.key_data(x) if lib.np.issubdtype(x.dtype, lib.xf.dtypes.prng_key) else x

    return [np.asarray(words(x)) for x in lib.xf.tree_util.tree_leaves(args)]


def write(file: str, tables: list[str]) -> None:
    """jax's modules with their arguments, for the process that measures."""
    lib = Library("jax")
    found = {(table, name): (lowered(lib, function, args).as_text(), leaves(lib, args))
             for table in tables for name, (function, args) in TABLES[table](lib).items()}
    with open(file, "wb") as out:
        pickle.dump(found, out)


def measure(file: str, tables: list[str]) -> list[tuple[str, float, float]]:
    """The name of each program, and microseconds of a run of ours and of jax's: the best but two of 15 averages."""
    from jaxlib import _jax
    from jaxlib.mlir import ir

    import xlafront as xf
    from xlafront.lowering import mlir
    from xlafront.runtime import kernel_libraries
    from xlafront.runtime.compile_options import compile_options

    xf.config.update("jax_cpu_enable_async_dispatch", False)  # else those of more than 1,000 operations wait for another thread
    kernel_libraries.register_lapack()
    kernel_libraries.register_sparse()
    [device] = xf.devices("cpu")
    lib, found = Library("xlafront"), []
    with open(file, "rb") as written:
        modules = pickle.load(written)
    for table in tables:
        for name, (function, args) in TABLES[table](lib).items():
            text, values = modules[table, name]
            with mlir.context:
                module = ir.Module.parse(text)
            theirs = device.client.compile_and_load(module, _jax.DeviceList((device,)), compile_options(1, [device]), [])
            ours = lowered(lib, function, args).compile()._executable
            arrays = [xf.device_put(x) for x in values]
            programs = [(ours.loaded, [*ours.const_args, *arrays]), (theirs, arrays)]
            longest = max([_run(*program, 3) for _ in range(3) for program in programs])
            times = [[_run(*program, max(1, int(1e-3 / longest))) for program in programs] for _ in range(15)]
            found.append((f"{table}: {name}", *[sorted(column)[2] * 1e6 for column in zip(*times)]))
    return found


def _run(loaded, arrays: list, count: int) -> float:
    """Seconds of a run that is waited for."""
    started = time.perf_counter()
    for _ in range(count):
        for shards in loaded.execute_sharded(arrays).disassemble_into_single_device_arrays():
            for shard in shards:
                shard.block_until_ready()
    return (time.perf_counter() - started) / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has jax")
    parser.add_argument("--only", default=",".join(TABLES), help="tables, by name, with commas between")
    parser.add_argument("--write", help=argparse.SUPPRESS)
    given = parser.parse_args()
    tables = given.only.split(",")
    if given.write:
        return write(given.write, tables)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "modules")
        subprocess.run([given.python, "-m", "benchmarks.side_by_side", "--only", given.only, "--write", file], check=True,
                       env={**os.environ, "JAX_PLATFORMS": "cpu"})
        rows = sorted(measure(file, tables), key=lambda row: row[2] / row[1])
    print("| program | xlafront (µs) | jax (µs) | ratio |\n|---|---|---|---|")
    for name, ours, theirs in rows:
        print(f"| {name} | {ours:.1f} | {theirs:.1f} | {ours / theirs:.2f} |")
    mean = math.exp(sum([math.log(ours / theirs) for _, ours, theirs in rows]) / len(rows))
    print(f"\n{len(rows)} programs, geometric mean {mean:.2f}")


if __name__ == "__main__":
    main()
