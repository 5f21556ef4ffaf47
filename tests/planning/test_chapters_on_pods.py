"""The pipeline and the experts of the chapter on them, compiled for a TPU slice. Collected where libtpu is installed."""

import ast
import json
from pathlib import Path

import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import P, lax, nn

pytestmark = pytest.mark.cpu_only

CHAPTER = Path(__file__).parents[2] / "notebooks" / "pipelines_and_experts.ipynb"


def functions_of_the_chapter():
    """Return the functions that the chapter defines, by name, without running its cells."""
    cells = ["".join(cell["source"]) for cell in json.loads(CHAPTER.read_text())["cells"] if cell["cell_type"] == "code"]
    defined = [node for text in cells for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    scope = {"xf": xf, "xnp": xnp, "lax": lax, "nn": nn, "P": P}
    exec(compile(ast.Module(defined, []), str(CHAPTER), "exec"), scope)
    return scope


def test_the_pipeline_sends_values_to_neighbours():
    """5 small batches more than stages less one: the ticks forward and backward, each with a permutation."""
    layers, width, rows, stages, small_batches = 16, 256, 192, 4, 6
    types = (xf.ShapeDtypeStruct((layers, width, width), "float32", sharding=P("stage")),
             xf.ShapeDtypeStruct((rows, width), "float32", sharding=P("data")))
    step = functions_of_the_chapter()["step"]
    found = xf.plan(xf.jit(step, donate_argnums=0), *types, topology="v5e:4x4", mesh={"data": 4, "stage": stages})
    assert found.fits and found.memory.arguments >= 4 * layers * width * width // stages
    ticks = small_batches + stages - 1
    sent = [c for c in found.collectives if c.kind == "collective-permute"]
    assert {c.axes for c in sent} == {("stage",)} and sum(c.times for c in sent) == pytest.approx(2 * ticks, abs=2)
    assert {c.bytes for c in sent} == {4 * rows // 4 // small_batches * width}
    assert ("all-reduce", ("data",)) in {(c.kind, c.axes) for c in found.collectives}


def test_experts_exchange_tokens():
    experts, features, hidden, tokens = 8, 256, 512, 1024
    specs = {"router": P(), "up": P("expert"), "down": P("expert")}
    shapes = {"router": (features, experts), "up": (experts, features, hidden), "down": (experts, hidden, features)}
    types = {name: xf.ShapeDtypeStruct(shape, "float32", sharding=specs[name]) for name, shape in shapes.items()}
    routed = functions_of_the_chapter()["routed_experts"]

    def step(parameters, x):
        run = xf.shard_map(routed, in_specs=(specs, P("expert")), out_specs=P("expert"))
        gradient = xf.grad(lambda p: xnp.mean(run(p, x) ** 2))(parameters)
        return xf.tree.map(lambda p, g: p - 0.1 * g, parameters, gradient)

    x = xf.ShapeDtypeStruct((tokens, features), "float32", sharding=P("expert"))
    found = xf.plan(step, types, x, topology="v5e:2x4", mesh={"expert": 8})
    assert found.fits
    exchanged = [c for c in found.collectives if "all-to-all" in c.kind]
    assert exchanged and {c.axes for c in exchanged} == {("expert",)}
