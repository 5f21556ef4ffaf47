"""`python -m benchmarks.published`: the time of a step as `plan` predicts it, beside what was published for the same model.

The numbers are those of MaxText (github.com/AI-Hypercomputer/maxtext): configs/v5e/README.md, configs/v5p/README.md, and
the page "Optimized models tiering" of its documentation; and of github.com/AI-Hypercomputer/tpu-recipes:
training/ironwood/README.md and training/trillium/Llama3.1-405B-MaxText/README.md. The scripts beside them name batch, mesh
and what is computed again. The sizes of models without a name follow from `global_parameter_scale`, which multiplies those of
the smallest model: width 2048, 16 heads of 128, 7168 hidden units, 16 layers. The model here is a decoder of the same sizes.
Needs libtpu (no TPU).
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

policies = xf.checkpoint_policies
HEAD = 128


def on_host(*names: str) -> Callable:
    """Return the policy that moves the named values to the host's memory until the gradient needs them."""
    return policies.save_and_offload_only_these_names(names_which_can_be_saved=[], names_which_can_be_offloaded=names,
                                                      offload_src="device", offload_dst="pinned_host")


QUERIES = ("queries", "keys", "values")
POLICIES: dict[str, Callable] = {
    "nothing": policies.nothing_saveable,
    "products": policies.dots_with_no_batch_dims_saveable,
    "inputs, queries, attention": policies.save_only_these_names("inputs", *QUERIES, "attention"),
    "queries, products": policies.save_only_these_names(*QUERIES, "out"),
    "queries on the host": on_host(*QUERIES),
    "inputs on the host": on_host("inputs"),
    "inputs, queries on the host": on_host("inputs", *QUERIES),
    "inputs, queries, products on the host": on_host("inputs", *QUERIES, "out"),
}


class Published(NamedTuple):
    """A published run: model, machine, mesh, and the part of the peak rate that the model's operations reached."""

    name: str
    topology: str
    mesh: dict[str, int]
    width: int
    heads: int
    hidden: int
    layers: int
    rows: int  # of the batch, on each device
    saved: str  # of POLICIES: what is not computed again for the gradient
    utilization: float
    kv_heads: int = 0  # 0: as many as `heads`
    length: int = 2048
    words: int = 32768
    ties_words: bool = True  # False if the first and the last matrix are two

    @property
    def layer_parameters(self) -> int:
        return 2 * self.width * HEAD * (self.heads + (self.kv_heads or self.heads)) + 3 * self.width * self.hidden

    @property
    def parameters(self) -> int:
        """The parameters of products: all but those of a first matrix of its own."""
        return self.layers * self.layer_parameters + self.words * self.width


LLAMA_8B = dict(width=4096, heads=32, kv_heads=8, hidden=14336, layers=32, words=128256, ties_words=False)
LLAMA_70B = dict(width=8192, heads=64, kv_heads=8, hidden=28672, layers=80, words=128256, ties_words=False)
LLAMA_405B = dict(width=16384, heads=128, kv_heads=8, hidden=53248, layers=126, words=128256, ties_words=False)
RUNS = (
    Published("16B", "v5e:16x16", {"fsdp": 256, "model": 1}, 4096, 64, 28672, 32, 6, "nothing", 0.611),
    Published("32B", "v5e:16x16", {"fsdp": 256, "model": 1}, 8192, 64, 28672, 32, 4, "nothing", 0.669),
    Published("64B", "v5e:16x16", {"fsdp": 256, "model": 1}, 8192, 64, 28672, 64, 2, "nothing", 0.599),
    Published("32B", "v5p:4x4x4", {"fsdp": 16, "model": 4}, 8192, 64, 28672, 32, 6, "products", 0.715),  # published: 7 rows
    Published("Llama 2 70B", "v6e:16x16", {"fsdp": 256, "model": 1}, rows=2, saved="queries on the host", length=4096,
              utilization=0.438, **LLAMA_70B | {"words": 32000}),
    Published("Llama 3.1 8B", "v6e:16x16", {"fsdp": 256, "model": 1}, rows=4,
              saved="inputs, queries, products on the host", length=8192, utilization=0.4546, **LLAMA_8B),
    Published("Llama 3.1 70B", "v6e:16x16", {"fsdp": 256, "model": 1}, rows=4, saved="inputs, queries on the host", length=8192,
              utilization=0.5033, **LLAMA_70B),
    Published("Llama 3.1 405B", "2xv6e:16x16", {"fsdp": 512, "model": 1}, rows=1, saved="inputs on the host", length=8192,
              utilization=392.454 / 918, **LLAMA_405B),
    Published("Llama 2 70B", "v5p:8x8x8", {"fsdp": 512, "model": 1}, rows=2, saved="queries, products", length=4096,
              utilization=0.654, **LLAMA_70B | {"words": 32000}),
    Published("Llama 3.1 70B", "tpu7x:4x4x4", {"fsdp": 128, "model": 1}, rows=2, saved="inputs, queries, attention",
              length=8192, utilization=1207.05 / 2307, **LLAMA_70B),
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

    n, w, h, heads, kv_heads = run.layers, run.width, run.hidden, run.heads, run.kv_heads or run.heads
    parameters = {
        "words": type_of(P("model", "fsdp"), run.words, w),
        "q": type_of(P(None, "fsdp", "model"), n, w, heads, HEAD),
        "kv": type_of(P(None, None, "fsdp", "model"), n, 2, w, kv_heads, HEAD),
        "out": type_of(P(None, "model", None, "fsdp"), n, heads, HEAD, w),
        "up": type_of(P(None, None, "fsdp", "model"), n, 2, w, h),
        "down": type_of(P(None, "model", "fsdp"), n, h, w),
        "scale": type_of(P(), n, 2, w),
    }
    if not run.ties_words:
        parameters["last"] = type_of(P("model", "fsdp"), run.words, w)
    tokens = type_of(P(batch), run.rows * mesh.size, run.length, dtype="int32")

    def normalise(x, scale):
        return x * (lax.rsqrt(xnp.mean(xnp.square(x.astype("float32")), -1, keepdims=True) + 1e-6) * scale).astype(x.dtype)

    over_devices = P(batch, None, "model")
    attention = xf.shard_map(attend, mesh=mesh, in_specs=(over_devices,) * 3, out_specs=over_devices, check_vma=False)
    name = xf.ad_checkpoint.checkpoint_name

    def layer(x, p):
        x = name(x, "inputs")
        p = xf.tree.map(lambda a: a.astype("bfloat16"), p)
        normalised = normalise(x, p["scale"][0])
        q = name(xnp.einsum("btw,whs->bths", normalised, p["q"]), "queries")
        k, v = xnp.einsum("btw,cwhs->cbths", normalised, p["kv"])
        weighted = name(attention(q, name(k, "keys"), name(v, "values")), "attention")
        x = x + name(xnp.einsum("bths,hsw->btw", weighted, p["out"]), "out")
        gate, value = xnp.einsum("btw,cwh->cbth", normalise(x, p["scale"][1]), p["up"])
        return keep(x + (nn.silu(gate) * value) @ p["down"], batch, None, "model"), None

    def loss(parameters, tokens):
        x = keep(parameters["words"].astype("bfloat16")[tokens], batch, None, "model")
        stacked = {name: p for name, p in parameters.items() if name not in ("words", "last")}
        x, _ = lax.scan(xf.checkpoint(layer, policy=POLICIES[run.saved]), x, stacked)
        last = parameters["words" if run.ties_words else "last"]
        logits = keep((x @ last.astype("bfloat16").T), batch, None, "model")
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
    per_token = 6 * run.parameters + 12 * run.layers * run.heads * HEAD * run.length
    work = per_token * run.rows * run.length  # of a device
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
