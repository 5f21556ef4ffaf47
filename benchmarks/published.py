"""`python -m benchmarks.published`: the time of a step as `plan` predicts it, beside what was published for the same model.

The numbers are those of MaxText (github.com/AI-Hypercomputer/maxtext, configs/v5e/README.md and configs/v5p/README.md, and the
scripts beside them, which name batch, mesh and what is computed again). Its sizes follow from `global_parameter_scale`, which
multiplies those of the smallest model: width 2048, 16 heads of 128, 7168 hidden units, 16 layers. The model here is a decoder
of the same sizes. Needs libtpu (no TPU).
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from typing import NamedTuple

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import P, lax, nn
from xlafront.kernels import flash_attention
from xlafront.planning import plan
from xlafront.runtime.topologies import chip_of

LENGTH, WORDS, HEAD = 2048, 32768, 128


class Published(NamedTuple):
    """A published run: model, machine, mesh, and the part of the peak rate that the model's operations reached."""

    name: str
    topology: str
    mesh: dict[str, int]
    width: int
    heads: int
    hidden: int
    layers: int
    rows: int  # of the batch, on each chip
    saves_products: bool  # True if the results of matrix products are saved for the gradient, False if nothing is
    utilization: float

    @property
    def layer_parameters(self) -> int:
        return 4 * self.width * self.heads * HEAD + 3 * self.width * self.hidden

    @property
    def parameters(self) -> int:
        return self.layers * self.layer_parameters + WORDS * self.width


RUNS = (
    Published("16B", "v5e:16x16", {"fsdp": 256, "model": 1}, 4096, 64, 28672, 32, 6, False, 0.611),
    Published("32B", "v5e:16x16", {"fsdp": 256, "model": 1}, 8192, 64, 28672, 32, 4, False, 0.669),
    Published("64B", "v5e:16x16", {"fsdp": 256, "model": 1}, 8192, 64, 28672, 64, 2, False, 0.599),
    Published("32B", "v5p:4x4x4", {"fsdp": 16, "model": 4}, 8192, 64, 28672, 32, 6, True, 0.715),  # published: 7 rows
)


def train_step(run: Published, mesh, attend: Callable = functools.partial(flash_attention, is_causal=True)):
    """Return the step of a run, Adam with parameters in float32 and products in bfloat16, and the types of its arguments.

    The mesh has the axes `fsdp` and `model`, and may have `data`. `attend` is the attention of the rows and heads of a device.
    """
    batch = ("data", "fsdp") if "data" in mesh.axis_names else "fsdp"
    def type_of(spec, *shape, dtype="float32"):
        return xf.ShapeDtypeStruct(shape, dtype, sharding=xf.NamedSharding(mesh, spec))

    def keep(x, *axes):
        return lax.with_sharding_constraint(x, xf.NamedSharding(mesh, P(*axes)))

    n, w, h, heads = run.layers, run.width, run.hidden, run.heads
    parameters = {
        "words": type_of(P("model", "fsdp"), WORDS, w),
        "qkv": type_of(P(None, None, "fsdp", "model"), n, 3, w, heads, HEAD),
        "out": type_of(P(None, "model", None, "fsdp"), n, heads, HEAD, w),
        "up": type_of(P(None, None, "fsdp", "model"), n, 2, w, h),
        "down": type_of(P(None, "model", "fsdp"), n, h, w),
        "scale": type_of(P(), n, 2, w),
    }
    rows = run.rows * mesh.size
    tokens = type_of(P(batch), rows, LENGTH, dtype="int32")

    def normalise(x, scale):
        return x * (lax.rsqrt(xnp.mean(xnp.square(x.astype("float32")), -1, keepdims=True) + 1e-6) * scale).astype(x.dtype)

    over_devices = P(batch, None, "model")
    attention = xf.shard_map(attend, mesh=mesh, in_specs=(over_devices,) * 3, out_specs=over_devices, check_vma=False)

    def layer(x, p):
        p = xf.tree.map(lambda a: a.astype("bfloat16"), p)
        q, k, v = xnp.einsum("btw,cwhs->cbths", normalise(x, p["scale"][0]), p["qkv"])
        x = x + xnp.einsum("bths,hsw->btw", attention(q, k, v), p["out"])
        gate, value = xnp.einsum("btw,cwh->cbth", normalise(x, p["scale"][1]), p["up"])
        return keep(x + (nn.silu(gate) * value) @ p["down"], batch, None, "model"), None

    policies = xf.checkpoint_policies
    policy = policies.dots_with_no_batch_dims_saveable if run.saves_products else policies.nothing_saveable

    def loss(parameters, tokens):
        x = keep(parameters["words"].astype("bfloat16")[tokens], batch, None, "model")
        stacked = {name: p for name, p in parameters.items() if name != "words"}
        x, _ = lax.scan(xf.checkpoint(layer, policy=policy), x, stacked)
        logits = keep((x @ parameters["words"].astype("bfloat16").T), batch, None, "model")
        chosen = xnp.take_along_axis(logits[:, :-1], tokens[:, 1:, None], -1)[..., 0].astype("float32")
        return xnp.mean(nn.logsumexp(logits[:, :-1].astype("float32"), -1) - chosen)

    @xf.jit(donate_argnums=0)
    def step(state, tokens):
        parameters, first, second = state
        value, gradient = xf.value_and_grad(loss)(parameters, tokens)
        first = xf.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradient)
        second = xf.tree.map(lambda m, g: 0.95 * m + 0.05 * g * g, second, gradient)
        parameters = xf.tree.map(lambda p, m, s: p - 1e-4 * m / (xnp.sqrt(s) + 1e-8), parameters, first, second)
        return (parameters, first, second), value

    return step, ((parameters, parameters, parameters), tokens)


def predicted(run: Published) -> tuple[float, float, dict[str, float]]:
    """Return the utilization and the seconds of a step as `plan` estimates them, and its parts by name."""
    from xlafront.planning import topologies

    topology = topologies.get_topology_desc(run.topology)
    mesh = topologies.make_mesh(topology, tuple(run.mesh.values()), tuple(run.mesh))
    step, arguments = train_step(run, mesh)
    found = plan(step, *arguments, topology=topology, mesh=mesh)
    per_token = 6 * run.parameters + 12 * run.layers * run.heads * HEAD * LENGTH
    work = per_token * run.rows * LENGTH  # of a chip
    print(f"   {found.memory.total / 2**30:.1f} GiB, compiled in {found.stages['compile']:.0f} s", flush=True)
    if found.not_compiled:
        raise SystemExit(f"{run.name} does not fit {run.topology}: {found.not_compiled}")
    seconds = found.seconds["step"]
    return work / seconds / chip_of(topology.devices[0]).flops, seconds, found.seconds


def main(argv=None) -> None:
    """Print a row for each run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.published", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", default=",".join(map(str, range(len(RUNS)))), help="positions of the runs, from 0")
    args = parser.parse_args(argv)
    print("| model | machine | mesh | published | predicted | error | step | kernels | collectives alone |")
    print("|---|---|---|---|---|---|---|---|---|")
    for run in [RUNS[int(i)] for i in args.runs.split(",")]:
        utilization, seconds, times = predicted(run)
        mesh = " ".join(f"{name}={n}" for name, n in run.mesh.items() if n > 1)
        print(f"| {run.name} | {run.topology} | {mesh} | {run.utilization:.1%} | {utilization:.1%} | "
              f"{utilization / run.utilization - 1:+.0%} | {seconds:.2f} s | {times['kernels']:.2f} s | "
              f"{times.get('exposed', 0.0):.2f} s |", flush=True)


if __name__ == "__main__":
    main()
