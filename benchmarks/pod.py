"""A training script for a pod: `python -m benchmarks.pod --checkpoints FOLDER`, the same command on each host.

On Cloud TPU, Slurm, Kubernetes (with a headless service) and Open MPI the processes find each other. On other hosts the
environment has to name the first: XLAFRONT_COORDINATOR_ADDRESS=HOST:PORT, XLAFRONT_NUM_PROCESSES, XLAFRONT_PROCESS_ID.
`--alone` runs it in one process. After an end of any kind, start the job again: it continues from its last checkpoint, on as
many hosts as there are.
"""

from __future__ import annotations

import argparse
import json
import pathlib

import numpy as np

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import P
from xlafront.experimental import multihost_utils

FEATURES, HIDDEN, RESULTS, ROWS = 64, 256, 8, 64
SPECS = {"up": P(None, "model"), "down": P("model", None)}
RATE = 0.1
AUTO = xf.sharding.AxisType.Auto


def mesh_of_all(model: int = 2):
    """Return the mesh over all devices of all processes, with `model` devices along its second axis."""
    return xf.make_mesh((xf.device_count() // model, model), ("data", "model"), (AUTO, AUTO))


def step_of(mesh):
    """Return the training step: `(parameters, x, y) -> (parameters, loss)`."""
    shardings = {name: xf.NamedSharding(mesh, spec) for name, spec in SPECS.items()}

    @xf.jit(donate_argnums=0, out_shardings=(shardings, xf.NamedSharding(mesh, P())))
    def step(parameters, x, y):
        def loss(parameters):
            return xnp.mean((xnp.tanh(x @ parameters["up"]) @ parameters["down"] - y) ** 2)

        value, gradient = xf.value_and_grad(loss)(parameters)
        return xf.tree.map(lambda p, g: p - RATE * g, parameters, gradient), value

    return step


def train_step(mesh):
    """For `python -m xlafront plan benchmarks/pod.py:train_step --topology v5e:16x16 --mesh data=-1,model=2`."""
    def type_of(spec, *shape):
        return xf.ShapeDtypeStruct(shape, "float32", sharding=xf.NamedSharding(mesh, spec))

    rows = ROWS * mesh.shape["data"]
    parameters = {"up": type_of(SPECS["up"], FEATURES, HIDDEN), "down": type_of(SPECS["down"], HIDDEN, RESULTS)}
    return step_of(mesh), (parameters, type_of(P("data"), rows, FEATURES), type_of(P("data"), rows, RESULTS))


# Parameters and data


def first_parameters(mesh):
    """Return the parameters at the start: each device computes its own shards."""
    keys = xf.random.split(xf.random.key(0))
    shardings = {name: xf.NamedSharding(mesh, spec) for name, spec in SPECS.items()}

    @xf.jit(out_shardings=shardings)
    def init():
        return {"up": xf.random.normal(keys[0], (FEATURES, HIDDEN)) / FEATURES**0.5,
                "down": xf.random.normal(keys[1], (HIDDEN, RESULTS)) / HIDDEN**0.5}

    return init()


def batch(mesh, number: int):
    """Return a batch. A process reads the rows of its devices: here they are computed from the number of the batch."""
    rows = np.random.default_rng(number).normal(size=(ROWS, FEATURES)).astype(np.float32)
    sharding = xf.NamedSharding(mesh, P("data"))
    x = xf.make_array_from_callback(rows.shape, sharding, lambda index: rows[index])
    return x, xnp.sin(x[:, :RESULTS])


# Checkpoints: a folder for each, a file for each array; a folder has its name when all of it is written


def save(folder: pathlib.Path, number: int, parameters) -> None:
    """Write a checkpoint: each process the shards of its devices."""
    unfinished, finished = folder / f"step{number:06}.unfinished", folder / f"step{number:06}"
    if xf.process_index() == 0:
        unfinished.mkdir(parents=True, exist_ok=True)
        for name, array in parameters.items():
            np.lib.format.open_memmap(unfinished / f"{name}.npy", "w+", array.dtype, array.shape)
    multihost_utils.sync_global_devices(f"files of step {number}")
    for name, array in parameters.items():
        file = np.load(unfinished / f"{name}.npy", mmap_mode="r+")
        for shard in array.addressable_shards:
            if shard.replica_id == 0:  # one device of those that hold the same shard
                file[shard.index] = shard.data
        file.flush()
    multihost_utils.sync_global_devices(f"shards of step {number}")
    if xf.process_index() == 0:
        unfinished.rename(finished)


def load(folder: pathlib.Path, mesh):
    """Return the number and the parameters of the last checkpoint, or (0, None); the mesh may be another than it was."""
    finished = sorted(folder.glob("step??????"))
    if not finished:
        return 0, None
    files = {name: np.load(finished[-1] / f"{name}.npy", mmap_mode="r") for name in SPECS}
    parameters = {name: xf.make_array_from_callback(file.shape, xf.NamedSharding(mesh, SPECS[name]), lambda i, f=file: f[i])
                  for name, file in files.items()}
    return int(finished[-1].name.removeprefix("step")), parameters


def main(argv=None) -> None:
    """Train, and print the loss of each step as JSON, in the first process."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pod", description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20, help="number of the last step (default 20)")
    parser.add_argument("--checkpoints", type=pathlib.Path, required=True, help="folder that all hosts see")
    parser.add_argument("--every", type=int, default=5, help="steps between checkpoints (default 5)")
    parser.add_argument("--alone", action="store_true", help="run in this process alone")
    parser.add_argument("--heartbeat", type=int, default=100, help="seconds without a sign of a host that end the others")
    args = parser.parse_args(argv)
    if not args.alone:
        xf.distributed.initialize(heartbeat_timeout_seconds=args.heartbeat)
    mesh = mesh_of_all()
    step = step_of(mesh)
    number, parameters = load(args.checkpoints, mesh)
    if parameters is None:
        parameters = first_parameters(mesh)
    while number < args.steps:
        parameters, loss = step(parameters, *batch(mesh, number))
        number += 1
        if xf.process_index() == 0:
            print(json.dumps({"step": number, "loss": float(loss), "processes": xf.process_count()}), flush=True)
        if number % args.every == 0:
            save(args.checkpoints, number, parameters)


if __name__ == "__main__":
    main()
