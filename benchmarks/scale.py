"""`python -m benchmarks.scale`: the sharded train step of a transformer, compiled for 8 to 2,048 devices that are not here.

Needs libtpu (no TPU): `pip install libtpu`. Every number of devices is measured in fresh processes. Tracing and lowering are
Python's; they are shown for the first program of a process and for later ones (the best of five), which must not cost more
with more devices. The mesh is made once: its cost is a few microseconds a device.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import subprocess
import sys
import time

import numpy as np

# devices -> the slice that has them
SLICES = {8: "v5e:2x4", 64: "v5e:8x8", 256: "v5e:16x16", 512: "v5p:8x8x8", 2048: "v4:8x8x16"}
REPEATS = 5  # of a stage in a process that has done it once; the best counts
MODEL = 8  # devices along the axis "model"
GROWTH = 1.25  # of Python's part from the fewest to the most devices, at most


def train_step(mesh):
    """For `python -m xlafront plan benchmarks/scale.py:train_step --topology v5e:16x16 --mesh data=-1,model=8`."""
    from benchmarks.libraries import Library
    from benchmarks.models import sharded_training

    return sharded_training(Library("xlafront"), mesh, layers=4, width=2048, heads=16, length=512, words=32768)


def measure(library: str, count: int, compiles: bool) -> dict[str, float]:
    """Milliseconds of each stage, in this process."""
    import importlib

    from benchmarks.libraries import Library
    from benchmarks.models import sharded_training

    lib = Library(library)
    lib.xf.config.update("jax_platforms", "cpu")
    topologies = importlib.import_module(f"{library}.experimental.topologies")
    times: dict[str, float] = {}

    def timed(stage: str, call):
        started = time.perf_counter()
        result = call()
        taken = 1e3 * (time.perf_counter() - started)
        times[stage] = min(taken, times.get(stage, taken))
        return result

    lib.xf.jit(lambda x: x + 1).lower(1.0)  # the imports of the compiler's bindings are not this program's cost
    topology = timed("topology", lambda: topologies.get_topology_desc(SLICES[count], "tpu"))
    grid = np.array(topology.devices).reshape(count // MODEL, MODEL)  # jax's make_mesh does not split an axis of the hardware
    mesh = timed("mesh", lambda: lib.xf.sharding.Mesh(grid, ("data", "model")))
    for turn in ("first", *["again"] * REPEATS):
        gc.collect()
        step, types = timed(f"types, {turn}", lambda: sharded_training(lib, mesh))
        traced = timed(f"trace, {turn}", lambda step=step, types=types: step.trace(*types))
        lowered = timed(f"lower, {turn}", traced.lower)
    if compiles:
        compiled = timed("compile", lowered.compile)
        assert "all-reduce" in compiled.as_text()
    return times


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__.splitlines()[0])
    parser.add_argument("--devices", default=",".join(map(str, SLICES)), help="numbers of devices")
    parser.add_argument("--rounds", type=int, default=3, help="processes for each number of devices")
    parser.add_argument("--library", default="xlafront", help="xlafront, or jax where libtpu is installed beside it")
    parser.add_argument("--no-compile", action="store_true", help="only Python's part")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.worker:
        print(json.dumps(measure(args.library, args.worker, not args.no_compile)))
        return 0
    counts = [int(n) for n in args.devices.split(",")]
    found: dict[int, list[dict[str, float]]] = {n: [] for n in counts}
    for _ in range(args.rounds):
        for count in counts:
            command = [sys.executable, "-m", "benchmarks.scale", "--worker", str(count), "--library", args.library]
            done = subprocess.run(command + ["--no-compile"] * args.no_compile, capture_output=True, text=True)
            if done.returncode:
                print(done.stderr, file=sys.stderr)
                return 2
            found[count].append(json.loads(done.stdout.splitlines()[-1]))
    medians = {n: {stage: statistics.median(run[stage] for run in runs) for stage in runs[0]} for n, runs in found.items()}
    print(f"{args.library}, ms (medians of {args.rounds})\n")
    print("| devices | " + " | ".join(medians[counts[0]]) + " |\n|" + "---|" * (1 + len(medians[counts[0]])))
    for n in counts:
        print(f"| {n} | " + " | ".join(f"{t:.3g}" for t in medians[n].values()) + " |")
    python = {n: sum(min(run[stage] for run in found[n]) for stage in medians[n] if stage.endswith("again")) for n in counts}
    growth = python[counts[-1]] / python[counts[0]]
    print(f"\nPython's part for {counts[-1]} devices over that for {counts[0]}: {growth:.2f} (at most {GROWTH})")
    return int(args.library == "xlafront" and growth > GROWTH)


if __name__ == "__main__":
    sys.exit(main())
