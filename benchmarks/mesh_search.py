"""`python -m benchmarks.mesh_search`: the mesh that `plan_search` finds for a transformer of 12 layers, beside MaxText's.

Models of 1, 7 and 70 billion parameters on pods of 256 v5e, 512 v5p and 64 H100. The step is that of `benchmarks.published`
(Adam, bfloat16 products, layers in a scan, each recomputed) with attention by blocks of queries. MaxText's scripts for models
of these sizes (configs/v5e/llama2_7b.sh, llama2_70b.sh and those of v5p) split all chips over `fsdp`; those for H100
(configs/a3/llama_2_7b/8vm.sh) have `data` across hosts and `fsdp` within. Needs libtpu or the CUDA compiler, and no device.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable

import xlafront as xf
import xlafront.numpy as xnp
from benchmarks.published import Published, train_step
from xlafront import lax, nn
from xlafront.planning import Candidate, topologies

BLOCK = 256  # queries whose scores are in memory together
LAYERS = 12
MODELS = {"1B": (2560, 6912), "7B": (7168, 19456), "70B": (22528, 60416)}  # width and hidden units
MACHINES = {"v5e:16x16": {"fsdp": 256}, "v5p:8x8x8": {"fsdp": 512}, "h100:8x8": {"data": 8, "fsdp": 8}}  # and MaxText's meshes


def attention_by_blocks(q, k, v):
    """Return causal attention of arrays (rows, length, heads, size), a block of queries after the other."""
    rows, length, heads, size = q.shape

    @xf.checkpoint
    def block(given):
        first, queries = given
        scores = xnp.einsum("bqhs,bkhs->bhqk", queries, k).astype("float32") * size**-0.5
        later = xnp.arange(length) > first + xnp.arange(BLOCK)[:, None]
        return xnp.einsum("bhqk,bkhs->bqhs", nn.softmax(xnp.where(later, -1e9, scores)).astype(v.dtype), v)

    blocks = xnp.moveaxis(q.reshape(rows, length // BLOCK, BLOCK, heads, size), 1, 0)
    results = lax.map(block, (xnp.arange(0, length, BLOCK), blocks))
    return xnp.moveaxis(results, 0, 1).reshape(q.shape)


def step_of(model: str, machine: str, rows: int) -> Callable:
    """Return the function of a mesh to search with, with a batch of `rows` sequences of 2,048 tokens on each device."""
    width, hidden = MODELS[model]
    run = Published(model, machine, {}, width, width // 128, hidden, LAYERS, rows, "nothing", 0.0)
    return lambda mesh: train_step(run, mesh, attention_by_blocks)


def planned(model: str, machine: str, rows: int) -> str:
    """Return the plan of a step on MaxText's mesh as a cell of the table."""
    topology, sizes = topologies.get_topology_desc(machine), {"data": 1, "fsdp": 1, "model": 1} | MACHINES[machine]
    mesh = topologies.make_mesh(topology, tuple(sizes.values()), tuple(sizes))
    step, arguments = step_of(model, machine, rows)(mesh)
    found = xf.plan(step, *arguments, topology=topology, mesh=mesh)
    time_of_step = f"{found.seconds['step']:.2f} s" if found.seconds else "does not fit"
    names = " ".join(f"{name}={n}" for name, n in MACHINES[machine].items())
    return f"{names}: {time_of_step}, {found.memory.total / 2**30:.1f} GiB, compiled"


def shown(found: Candidate | None) -> str:
    """Return the mesh, the time of a step and the state of a candidate."""
    if found is None:
        return "no mesh fits"
    mesh = " ".join(f"{name}={n}" for name, n in _without_ones(found.mesh).items())
    time_of_step = f"{found.seconds['step']:.2f} s" if found.seconds else "fails"
    memory = f", {found.memory.total / 2**30:.1f} GiB" if found.memory else ""
    return f"{mesh}: {time_of_step}{memory}, {'compiled' if found.is_compiled else 'partitioned'}"


def _without_ones(sizes: dict[str, int]) -> dict[str, int]:
    return {name: n for name, n in sizes.items() if n > 1}


def main(argv=None) -> None:
    """Print a row for each model and machine."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mesh_search", description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--machines", default=",".join(MACHINES))
    parser.add_argument("--rows", type=int, default=2, help="sequences of each device")
    parser.add_argument("--time-limit", type=float, default=600)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args(argv)
    print("| model | machine | meshes | best | MaxText's mesh | wall clock | processor time |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for machine in args.machines.split(","):
        for model in args.models.split(","):
            started, before = time.monotonic(), _processor_seconds()
            found = xf.plan_search(step_of(model, machine, args.rows), topology=machine, axes=("data", "fsdp", "model"),
                                   candidates=10, compiled=2, time_limit=args.time_limit, workers=args.workers)
            theirs = next((c for c in found.candidates if _without_ones(c.mesh) == MACHINES[machine]), None)
            count = f"{len(found.candidates)}{' (stopped)' if found.stopped else ''}"
            taken = f"{time.monotonic() - started:.0f} s | {_processor_seconds() - before:.0f} s"
            published = shown(theirs) if theirs else planned(model, machine, args.rows)
            print(f"| {model} | {machine} | {count} | {shown(found.best)} | {published} | {taken} |", flush=True)


def _processor_seconds() -> float:
    return sum([getattr(resource.getrusage(usage), part) for usage in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
                for part in ("ru_utime", "ru_stime")])


if __name__ == "__main__":
    main()
