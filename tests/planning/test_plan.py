"""Results of `plan` compared with mathematics, on 8 simulated devices."""

import itertools
import json
import math
import pathlib
import signal
import subprocess
import sys

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import NamedSharding, P
from xlafront.__main__ import main
from xlafront.base.jaxlib_compat import JaxRuntimeError
from xlafront.planning import comparison, compiling, costs, hlo

pytestmark = pytest.mark.cpu_only


def struct(*shape, spec=None, dtype="float32"):
    return xf.ShapeDtypeStruct(shape, dtype, sharding=spec)


# Memory


@pytest.mark.parametrize("spec, num_shards", [(P(), 1), (P("x"), 4), (P("x", "y"), 8), (P(None, ("x", "y")), 8), (None, 1)])
def test_arguments_and_outputs_are_those_of_one_device(spec, num_shards):
    found = xf.plan(lambda a, b: (a * 2, b + 1), struct(64, 32, spec=spec), struct(8, 8), mesh={"x": 4, "y": 2})
    assert found.memory.arguments == 4 * (64 * 32 // num_shards + 64)
    assert found.memory.outputs == found.memory.arguments + 2 * 8  # the table of where the two are
    assert found.mesh.shape == {"x": 4, "y": 2} and found.device_count == 8 and found.fits is None


def test_donated_memory_counts_once():
    def step(w, x):
        return w - xnp.sum(x)

    w, x = struct(1024, 1024, spec=P("x")), struct(16, spec=P("x"))
    not_donated, donated = (xf.plan(xf.jit(step, **how), w, x, mesh={"x": 8}) for how in ({}, {"donate_argnums": 0}))
    size = 4 * 1024 * 1024 // 8
    assert donated.memory.donated == size and not_donated.memory.donated == 0
    assert abs(not_donated.memory.total - donated.memory.total - size) < 1000


def test_a_program_that_does_not_fit_names_its_largest_buffers():
    def f(params, batch):
        return xnp.tanh(batch @ params["dense"]["kernel"])

    arguments = {"dense": {"kernel": struct(256, 4096)}}, struct(64, 256, spec=P("data"))
    size = 4 * 256 * 4096
    small = xf.plan(f, *arguments, mesh={"data": 8}, memory_limit=size)
    assert small.fits is False and "DOES NOT FIT" in str(small) and "params['dense']['kernel']" in str(small)
    assert small.buffers[0].what == "argument params['dense']['kernel']" and small.buffers[0].bytes == size
    assert xf.plan(f, *arguments, mesh={"data": 8}, memory_limit=2 * size).fits is True


def test_a_result_in_donated_memory_is_no_buffer_of_its_own():
    def step(state, x):
        return {"w": state["w"] * 0.9 + x}, xnp.sum(x)

    state, x = {"w": struct(512, 512)}, struct(512, 512)
    not_donated, donated = ({b.what for b in xf.plan(xf.jit(step, **how), state, x, mesh={"data": 8}).buffers}
                     for how in ({}, {"donate_argnums": 0}))
    assert not_donated - donated == {"result[0]['w']"} and "argument state['w']" in donated


# Work


def product(a, b):
    return a @ b


def test_flops_of_products():
    for m, k, n, spec in ((64, 128, 256, P("x")), (64, 128, 256, P()), (8, 512, 16, P("x"))):
        found = xf.plan(product, struct(m, k, spec=spec), struct(k, n), mesh={"x": 8})
        assert found.flops == 2 * m * k * n / (8 if spec else 1)
    batched = xf.plan(product, struct(16, 32, 64, spec=P("x")), struct(16, 64, 8, spec=P("x")), mesh={"x": 8})
    assert batched.flops == 2 * 16 * 32 * 64 * 8 / 8


def test_loops_count_each_iteration():
    def layers(h, ws):
        return xf.lax.scan(lambda h, w: (h @ w, None), h, ws)[0]

    found = xf.plan(layers, struct(64, 128, spec=P("x")), struct(12, 128, 128), mesh={"x": 8})
    exact = 12 * 2 * 64 * 128 * 128 / 8
    assert exact <= found.flops < 1.01 * exact
    weights, state = 12 * 128 * 128 * 4, 8 * 128 * 4  # the weights are read once each, not whole in each turn
    assert weights < found.bytes_accessed < 6 * weights + 12 * 10 * state


def test_loops_of_unknown_length_are_noted():
    def f(x):
        return xf.lax.while_loop(lambda x: xnp.sum(x) < 100, lambda x: x * 2, x)

    assert any("unknown length" in note for note in xf.plan(f, struct(8, spec=P("x")), mesh={"x": 8}).notes)


def brute_force_convolution(size, kernel, stride, padding, hole):
    pairs = 0
    outputs = ((size - 1) * hole + 1 + sum(padding) - kernel) // stride + 1
    for o in range(outputs):
        for k in range(kernel):
            at = o * stride + k - padding[0]
            pairs += 0 <= at <= (size - 1) * hole and at % hole == 0
    return pairs, outputs


@pytest.mark.parametrize("size, kernel, stride, padding, hole", [(8, 3, 1, (1, 1), 1), (9, 3, 2, (0, 0), 1), (4, 3, 1, (2, 2), 2),
                                                                (1, 4, 1, (3, 3), 1), (5, 5, 4, (4, 4), 3)])
def test_flops_of_convolutions(size, kernel, stride, padding, hole):
    pairs, outputs = brute_force_convolution(size, kernel, stride, padding, hole)
    text = f"""
ENTRY %main (a: f32[2,{size},3], k: f32[{kernel},3,5]) -> f32[2,{outputs},5] {{
  %a = f32[2,{size},3]{{2,1,0}} parameter(0)
  %k = f32[{kernel},3,5]{{2,1,0}} parameter(1)
  ROOT %c = f32[2,{outputs},5]{{2,1,0}} convolution(%a, %k), window={{size={kernel} stride={stride} pad={padding[0]}_{padding[1]} lhs_dilate={hole}}}, dim_labels=b0f_0io->b0f
}}
"""
    assert costs.work(hlo.Module(text)).flops == 2 * pairs * 2 * 5 * 3


# Collectives

AXES = ("a", "b", "c")


@pytest.mark.parametrize("axes", [c for n in (1, 2, 3) for c in itertools.combinations(AXES, n)], ids="+".join)
def test_sums_over_each_set_of_axes(axes):
    """Contracting a dimension that is sharded over some axes sums over exactly these."""
    found = xf.plan(product, struct(4, 64, spec=P(None, axes)), struct(64, 16, spec=P(axes)), mesh=dict.fromkeys(AXES, 2))
    [only] = found.collectives
    assert (only.kind, only.axes, only.group_size, only.times) == ("all-reduce", axes, 2 ** len(axes), 1)
    assert only.bytes == 4 * 4 * 16 and "f32[4,16]" in only.types


def reshard(before, after):
    def f(x):
        return xf.lax.with_sharding_constraint(x * 2, after)

    return xf.plan(f, struct(32, 64, spec=before), mesh={"x": 4, "y": 2}).collectives


def test_changes_of_sharding():
    [gather] = reshard(P("x"), P())
    assert (gather.kind, gather.axes, gather.group_size, gather.bytes) == ("all-gather", ("x",), 4, 4 * 32 * 64)
    [exchange] = reshard(P("x"), P(None, "x"))
    assert (exchange.kind, exchange.axes, exchange.bytes) == ("all-to-all", ("x",), 4 * 32 * 64 // 4)
    assert not reshard(P("x"), P(("x", "y"))) and not reshard(P("x", "y"), P("x", "y"))


def test_collectives_in_loops_count_each_iteration():
    def layers(h, ws):
        return xf.lax.scan(lambda h, w: (xnp.tanh(h @ w[0]) @ w[1], None), h, ws)[0]

    ws = struct(6, 32, 64, spec=P(None, None, "model")), struct(6, 64, 32, spec=P(None, "model"))
    found = xf.plan(layers, struct(16, 32, spec=P("data")), ws, mesh={"data": 2, "model": 4})
    [only] = found.collectives
    assert (only.kind, only.axes, only.times, only.bytes) == ("all-reduce", ("model",), 6, 4 * 8 * 32)
    assert only.line.partition(":")[0] == __file__


def test_gathers_along_other_dimensions():
    [gather] = reshard(P(None, "x"), P())
    assert gather.axes == ("x",) and gather.bytes == 4 * 32 * 64 and "f32[32,64]" in gather.types


ASYNC = """
%begin (w: f32[4,8]) -> (f32[4,8], f32[32,8]) {
  %w = f32[4,8]{1,0} parameter(0)
  %g = f32[32,8]{1,0} all-gather(%w), channel_id=4, replica_groups={{0,1,2,3,4,5,6,7}}, dimensions={0}, metadata={op_name="Arg_1.1"}, backend_config={"async_collective_fusion_config":{"flag_start":"-1"}}
  ROOT %c = (f32[4,8]{1,0}, f32[32,8]{1,0}) custom-call(%g), custom_call_target="AsyncCollectiveStart"
}
%meanwhile (w: f32[4,8], g: f32[32,8]) -> (f32[4,8], f32[32,8]) {
  %w = f32[4,8]{1,0} parameter(0)
  %g = f32[32,8]{1,0} parameter(1)
  %more = f32[32,8]{1,0} all-gather(%w), channel_id=4, replica_groups={{0,1,2,3,4,5,6,7}}, dimensions={0}, backend_config={"async_collective_fusion_config":{"flag_start":"2"}}
  %y = f32[4,8]{1,0} add(%w, %w)
  ROOT %t = (f32[4,8]{1,0}, f32[32,8]{1,0}) tuple(%y, %more)
}
%end (w: f32[4,8], g: f32[32,8]) -> f32[32,8] {
  %w = f32[4,8]{1,0} parameter(0)
  %g = f32[32,8]{1,0} parameter(1)
  %more = f32[32,8]{1,0} all-gather(%w), channel_id=4, replica_groups={{0,1,2,3,4,5,6,7}}, dimensions={0}, backend_config={"async_collective_fusion_config":{"flag_start":"2"}}
  ROOT %c = f32[32,8]{1,0} custom-call(%w, %g, %more), custom_call_target="AsyncCollectiveDone"
}
%scatters (i: f32[32,8]) -> f32[4,8] {
  %i = f32[32,8]{1,0} parameter(0)
  ROOT %s = f32[4,8]{1,0} reduce-scatter(%i), channel_id=5, replica_groups={{0,1,2,3,4,5,6,7}}, dimensions={0}, to_apply=%add
}
ENTRY %main (x: f32[4,8], w: f32[4,8]) -> f32[4,8] {
  %x = f32[4,8]{1,0} parameter(0)
  %w = f32[4,8]{1,0} parameter(1)
  %a = (f32[4,8]{1,0}, f32[32,8]{1,0}) fusion(%w), kind=kCustom, calls=%begin
  %a0 = f32[4,8]{1,0} get-tuple-element(%a), index=0
  %a1 = f32[32,8]{1,0} get-tuple-element(%a), index=1
  %b = (f32[4,8]{1,0}, f32[32,8]{1,0}) fusion(%a0, %a1), kind=kLoop, calls=%meanwhile
  %b0 = f32[4,8]{1,0} get-tuple-element(%b), index=0
  %b1 = f32[32,8]{1,0} get-tuple-element(%b), index=1
  %c = f32[32,8]{1,0} fusion(%b0, %b1), kind=kCustom, calls=%end
  ROOT %d = f32[4,8]{1,0} fusion(%c), kind=kCustom, calls=%scatters, metadata={op_name="dot_general"}
}
"""


def test_overlapped_collective_counts_once():
    """TPU compilers repeat it in each overlapping kernel. An instruction without name has the origin of its kernel."""
    module = hlo.Module(ASYNC)
    module.argument_names = {0: "argument x", 1: "argument w"}
    scatter, gather = sorted(costs.collectives(module, None, np.arange(8)), key=lambda c: c.kind, reverse=True)
    assert (gather.kind, gather.times, gather.bytes, gather.operation) == ("all-gather", 1, 4 * 32 * 8, "argument w")
    assert (scatter.kind, scatter.times, scatter.bytes, scatter.operation) == ("reduce-scatter", 1, 4 * 32 * 8, "dot_general")
    assert not costs.work(module).uncounted


def groups_of(text):
    return costs._groups(hlo.parse_instruction(f"  %x = f32[8] all-reduce(%y), {text}"), 8)


def test_replica_groups_as_compilers_write_them():
    for text in ("replica_groups={{0,1,2,3},{4,5,6,7}}", "replica_groups=[2,4]<=[8]", "replica_groups=[2,4]<=[2,4]T(0,1)"):
        rows, size = groups_of(text)
        assert rows.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]] and size == 4
    assert groups_of("replica_groups=[4,2]<=[2,4]T(1,0), x=1")[0].tolist() == [[0, 4], [1, 5], [2, 6], [3, 7]]
    for text in ("mesh['p'=2,'q'=4] {'q'}", "mesh['p'=2,'q'=2,'r'=2] {'q','r'}", "mesh['p'=8] {'p':(2)4}",
                 "mesh['p'=4,'q'=2], device_ids=([2,4]T(1,0)) {'p'}", "mesh['p'=2,'q'=4], device_ids=(0,1,2,3,4,5,6,7) {'q'}"):
        assert groups_of(f"replica_groups={text}, use_global_device_ids=true")[0].tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]], text
    assert groups_of("replica_groups=mesh['p'=8] {'p':(1)2}")[0].tolist() == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert groups_of("replica_groups=mesh['p'=8] {'p':(4)2}")[0].tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert groups_of("replica_groups=mesh['p'=8] {'p':(2)2}")[0].tolist() == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert groups_of("replica_groups={}")[0].tolist() == [list(range(8))]
    assert groups_of("replica_groups={{0,1,2},{3}}") == (None, 3)
    assert groups_of("source_target_pairs={{0,1},{1,0}}")[0].tolist() == [[0, 1], [1, 0]]


# The compiler's text


def test_tiles_pad():
    def padded(text):
        [only] = hlo.parse_types(text)
        return only.padded_bytes

    assert padded("f32[5,3]{1,0}") == 4 * 5 * 3
    assert padded("f32[5,3]{1,0:T(8,128)}") == 4 * 8 * 128
    assert padded("f32[5,3]{0,1:T(8,128)}") == 4 * 128 * 8 and padded("f32[9,130]{1,0:T(8,128)}") == 4 * 16 * 256
    assert padded("bf16[2,9,130]{2,1,0:T(8,128)(2,1)}") == 2 * 2 * 16 * 256
    assert padded("f32[300]{0:T(256)}") == 4 * 512 and padded("pred[]") == 1 and padded("s4[10]{0}") == 5
    assert not hlo.parse_types("f32[8]{0:T(256)S(1)}")[0].in_main_memory


@pytest.mark.parametrize("start, comparison, step, turns", [
    (0, "LT", 1, 10), (3, "LT", 1, 7), (0, "LE", 1, 11), (12, "LT", 1, 0), (0, "LT", 2, 5), (1, "LT", 2, 5), (0, "LE", 2, 6), (0, "LT", 4, 3)])
@pytest.mark.parametrize("fused", [False, True])
def test_trip_count_from_condition_and_counter(start, comparison, step, turns, fused):
    assert turns == len(range(start, 10 + (comparison == "LE"), step))
    compare = f"compare(%i, %n), direction={comparison}"
    condition = f"""
%condition (s: (s32[], f32[4])) -> pred[] {{
  %s = (s32[], f32[4]{{0}}) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  {"ROOT %r = pred[] fusion(%i), kind=kLoop, calls=%compares" if fused else "%n = s32[] constant(10)"}
  {"" if fused else f"ROOT %r = pred[] {compare}"}
}}"""
    compares = f"""
%counts (i: s32[], one: s32[]) -> s32[] {{
  %i = s32[] parameter(0)
  %one = s32[] parameter(1)
  %rest = s32[] constant({step - 1})
  %j = s32[] add(%i, %rest)
  ROOT %k = s32[] add(%one, %j)
}}
%compares (i: s32[]) -> pred[] {{
  %i = s32[] parameter(0)
  %n = s32[] constant(10)
  ROOT %r = pred[] {compare}
}}"""
    text = f"""{compares if fused else ""}
%body (s: (s32[], f32[4])) -> (s32[], f32[4]) {{
  %s = (s32[], f32[4]{{0}}) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %x = f32[4]{{0}} get-tuple-element(%s), index=1
  %y = f32[4]{{0}} add(%x, %x)
  %by = s32[] constant({1 if fused else step})
  %j = s32[] {"fusion(%i, %by), kind=kLoop, calls=%counts" if fused else "add(%i, %by)"}
  ROOT %t = (s32[], f32[4]{{0}}) tuple(%j, %y)
}}
{condition}
ENTRY %main (x: f32[4]) -> f32[4] {{
  %x = f32[4]{{0}} parameter(0)
  %zero = s32[] constant({start})
  %copied = s32[] copy(%zero)
  %t = (s32[], f32[4]{{0}}) tuple(%copied, %x)
  %w = (s32[], f32[4]{{0}}) while(%t), condition=%condition, body=%body
  ROOT %y = f32[4]{{0}} get-tuple-element(%w), index=1
}}
"""
    module = hlo.Module(text)
    assert module.trips(module.entry, module.entry.by_name["w"]) == turns
    assert costs.work(module).unknown_loops == 0


# Where it runs


def test_meshes():
    x = struct(16, spec=P("data"))
    assert xf.plan(xnp.sin, x).mesh.shape == {"data": 8}
    assert xf.plan(xnp.sin, x, mesh={"data": -1, "model": 2}).mesh.shape == {"data": 4, "model": 2}
    mesh = xf.make_mesh((2, 2), ("data", "model"), devices=xf.devices()[:4])
    assert xf.plan(xnp.sin, x, mesh=mesh).device_count == 4
    placed = xf.ShapeDtypeStruct((16,), "float32", sharding=NamedSharding(mesh, P("model")))
    assert xf.plan(xnp.sin, placed).mesh == mesh and xf.plan(xnp.sin, placed).memory.arguments == 4 * 16 // 2
    arrays = xf.device_put(np.ones(16, np.float32), NamedSharding(mesh, P("data")))
    assert xf.plan(xnp.sin, arrays, mesh={"data": 8}).memory.arguments == 4 * 16 // 8
    for sizes, why in (({"a": -1, "b": -1}, "one may be -1"), ({"a": 3}, "3 is not 8"), ({"a": -1, "b": 3}, "3 does not divide 8")):
        with pytest.raises(ValueError, match=why):
            xf.plan(xnp.sin, x, mesh=sizes)


def test_arguments_that_cannot_be_sharded_are_named():
    def step(params, batch):
        return params["w"] * batch

    with pytest.raises(ValueError, match=r"argument params\['w'\] of step.*'model'"):
        xf.plan(step, {"w": struct(8, spec=P("model"))}, struct(8))
    with pytest.raises(ValueError, match=r"argument batch of step.*not evenly divisible.*8"):
        xf.plan(step, {"w": struct(8)}, struct(12, spec=P("data")))
    with pytest.raises(TypeError, match="takes a function"):
        xf.plan(3)
    with pytest.raises(TypeError, match="'data': -1"):
        xf.plan(step, {"w": struct(8)}, struct(8), mesh=(2, 4))


def test_other_arguments():
    def f(x, key, scale, *, bias):
        return xf.random.normal(key, x.shape) * x * scale + bias

    found = xf.plan(f, np.ones((8, 4), np.float32), xf.random.key(0), 2.0, bias=struct(4), mesh={"data": 8})
    assert found.memory.outputs == 4 * 8 * 4
    static = xf.plan(xf.jit(lambda x, n: x * n, static_argnums=1), struct(8), 3)
    assert static.memory.arguments == 32


def test_one_function_on_two_meshes():
    def f(x):
        return xf.lax.with_sharding_constraint(x * 2, P("data"))

    for sizes, part in (({"data": 8}, 1), ({"data": 2, "model": 4}, 4)):
        assert xf.plan(f, struct(8, 16, spec=P("data")), mesh=sizes).memory.outputs == 4 * 16 * part


def test_a_program_that_jaxlib_cannot_read_has_its_memory(monkeypatch):
    """A plugin can be newer than jaxlib and write instructions that it does not parse."""
    def unreadable(executable):
        raise JaxRuntimeError("INTERNAL: RET_CHECK failure: async-update instruction should have 1 operands")

    x = xf.ShapeDtypeStruct((64, 64), "float32", sharding=P("data"))
    expected = xf.plan(lambda x: x @ x.T, x, mesh={"data": -1}, memory_limit=2**20)
    monkeypatch.setattr(compiling, "program_text", unreadable)
    found = xf.plan(lambda x: x @ x.T, x, mesh={"data": -1}, memory_limit=2**20)
    assert found.fits and found.memory == expected.memory and found.flops is None and found.timeline is None
    assert "argument x" in str(found) and "this jaxlib does not read the compiler's program (INTERNAL: RET_CHECK" in str(found)
    assert json.loads(found.to_json())["seconds"] == {}


def test_json_has_all_fields():
    found = xf.plan(product, struct(64, 64, spec=P("x")), struct(64, 64, spec=P("x")), mesh={"x": 8}, memory_limit=2**20)
    read = json.loads(found.to_json())
    assert read["mesh"] == {"x": 8} and read["fits"] is True and read["memory"] == found.memory._asdict()
    assert [c["kind"] for c in read["collectives"]] == [c.kind for c in found.collectives] and read["flops"] == found.flops
    assert [b["bytes"] for b in read["buffers"]] == sorted((b.bytes for b in found.buffers), reverse=True)
    assert set(read["stages"]) == {"trace", "lower", "compile"} and all(t > 0 for t in read["stages"].values())


# The command

SCRIPT = """
import xlafront as xf
from xlafront import P

def train_step(w, x):
    return w - xf.grad(lambda w: xf.numpy.mean((x @ w) ** 2))(w)

def train_step_args(mesh):
    return (xf.ShapeDtypeStruct((64, 32), "float32"),
            xf.ShapeDtypeStruct((256, 64), "float32", sharding=P("data")))

def other(mesh):
    return xf.jit(train_step, donate_argnums=0), train_step_args(mesh)

def named(w, x):
    return train_step(w, x)

def words():
    return dict(zip("wx", train_step_args(None)))

def broken(w):
    return w @ w

def broken_args(mesh):
    return (xf.ShapeDtypeStruct((2, 3), "float32"),)

def raises(w):
    return w

def raises_args(mesh):
    raise KeyError("of the script")

def wrong_args(mesh):
    return [1]

wrong = silent = raises

class Model:
    def step(self, w, x):
        return train_step(w, x)

model = Model()
model_step_args = train_step_args(None)

if __name__ == "__main__":
    raise SystemExit("the script itself does not run")
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "a_training_script.py"
    path.write_text(SCRIPT)
    return str(path)


@pytest.mark.parametrize("options", [["train_step"], ["other", "--mesh", "data=-1,model=2"], ["named", "--args", "words"],
                                     ["named", "--args", "train_step_args"], ["model.step"]], ids=" ".join)
def test_command(script, options, capsys):
    assert main(["plan", f"{script}:{options[0]}", *options[1:]]) == 0
    printed = capsys.readouterr().out
    assert "8 x cpu" in printed and "all-reduce" in printed and "data" in printed and "64" in printed


def test_command_as_json_with_status(script, capsys):
    assert main(["plan", f"{script}:train_step", "--json", "--memory", "1GiB"]) == 0
    assert json.loads(capsys.readouterr().out)["fits"] is True
    assert main(["plan", f"{script}:train_step", "--json", "--memory", "10kB"]) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out)["memory"]["limit"] == 10_000 and "argument w" in printed.err
    assert main(["plan", f"{script}:train_step", "--memory", "10kB"]) == 1
    assert "DOES NOT FIT" in capsys.readouterr().out


@pytest.mark.parametrize("target, options, why", [
    ("train_step", ["--topology", "v9:1"], "v5e:16x16"),
    ("train_step", ["--mesh", "data=3"], "3 is not 8"),
    ("train_step", ["--mesh", "data"], "data=-1,model=8"),
    ("train_step", ["--mesh", "x=8"], "'data'.*not found in mesh"),
    ("train_step", ["--memory", "much"], "16GiB"),
    ("train_step", ["--option", "x"], "NAME=VALUE"),
    ("train_stop", [], "did you mean train_step"),
    ("nothing", [], "broken, broken_args"),
    ("silent", [], r"def silent_args\(mesh\)"),
    ("wrong", [], "tuple"),
    ("train_step_args", [], "pair"),
    ("broken", [], r"return w @ w[\s\S]*TypeError"),
    ("raises", [], r"raise KeyError[\s\S]*of the script"),
], ids=str)
def test_command_explains_what_is_wrong(script, target, options, why, capsys):
    import re

    assert main(["plan", f"{script}:{target}", *options]) == 2
    printed = capsys.readouterr().err
    assert re.search(why, printed), printed
    assert "planning" not in printed


def test_command_without_a_script(capsys, tmp_path):
    assert main(["plan", "nowhere.py:f"]) == 2 and "nowhere.py" in capsys.readouterr().err
    assert main(["plan", "train.py"]) == 2 and "SCRIPT:FUNCTION" in capsys.readouterr().err


@pytest.mark.parametrize("text, why", [
    ("import argparse; p = argparse.ArgumentParser(); p.add_argument('--lr', required=True); p.parse_args()", "__main__"),
    ("raise SystemExit(3)", "SystemExit: 3"),
    ("def f(:", r"def f\(:[\s\S]*SyntaxError"),
    ("x = 1\ny = nobody", r"line 2[\s\S]*nobody"),
    ("import not_to_be_found", "not_to_be_found"),
    ("from .beside import f", "relative import"),
])
def test_scripts_that_cannot_be_loaded(text, why, tmp_path, capsys):
    import re

    (tmp_path / "a_broken_script.py").write_text(text)
    before = list(sys.argv)
    assert main(["plan", f"{tmp_path}/a_broken_script.py:f"]) == 2
    printed = capsys.readouterr().err
    assert re.search(why, printed), printed
    assert "importlib" not in printed and sys.argv == before


def test_modules_of_packages(tmp_path, capsys, monkeypatch):
    """By file or by name; their relative imports work."""
    inner = tmp_path / "a_planned_package" / "inner"
    inner.mkdir(parents=True)
    for folder in (inner, inner.parent):
        (folder / "__init__.py").write_text("")
    (inner / "model.py").write_text("import xlafront.numpy as xnp\ndef apply(w, x):\n    return xnp.sum(x @ w)\n")
    (inner / "train.py").write_text(SCRIPT.replace("import xlafront as xf", "import xlafront as xf\nfrom .model import apply"))
    monkeypatch.chdir(tmp_path)
    for target in (f"{inner}/train.py", "a_planned_package/inner/train.py", "a_planned_package.inner.train"):
        assert main(["plan", f"{target}:train_step"]) == 0
        assert "all-reduce" in capsys.readouterr().out
    for target in ("a_planned_package.inner.nothing", "no_package.at.all"):
        assert main(["plan", f"{target}:train_step"]) == 2
        assert f"neither a file nor a module {target}" in capsys.readouterr().err


def test_closed_pipe_does_not_change_the_exit_status(script):
    command = f'"{sys.executable}" -m xlafront plan "{script}:train_step" --memory 1kB | true; exit ${{PIPESTATUS[0]}}'
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120,
                          cwd=pathlib.Path(__file__).parents[2])
    assert done.returncode == 1 and "Traceback" not in done.stderr


def test_module_from_the_command_line(script):
    done = subprocess.run([sys.executable, "-m", "xlafront", "plan", f"{script}:train_step"], capture_output=True, text=True,
                          timeout=120, cwd=pathlib.Path(__file__).parents[2])
    assert done.returncode == 0 and "Memory on each device" in done.stdout, done.stderr


def test_an_interrupt_ends_planning_at_once(tmp_path):
    """Also while a compiler runs, which holds the interpreter: here C's `sleep` does."""
    script = tmp_path / "slow.py"
    script.write_text("import ctypes\ndef step(x): return x\ndef step_args():\n    print('began', flush=True)\n"
                      "    ctypes.PyDLL(None).sleep(60)\n")
    command = ("import signal, sys; from xlafront.__main__ import main; "
               "signal.signal(signal.SIGINT, signal.default_int_handler); sys.exit(main())")  # jobs in the background ignore it
    plan = subprocess.Popen([sys.executable, "-c", command, "plan", f"{script}:step"], stdout=subprocess.PIPE, text=True,
                            cwd=pathlib.Path(__file__).parents[2])
    try:
        assert plan.stdout.readline() == "began\n"
        plan.send_signal(signal.SIGINT)
        assert plan.wait(20) == 130 and plan.stdout.read() == ""  # which ends when no process has it open
    finally:
        plan.kill()


@pytest.mark.parametrize("count, shape", [(1, "1x1x1"), (4, "2x2x1"), (8, "2x2x2"), (256, "4x8x8"), (512, "8x8x8"), (2048, None)])
def test_shapes_of_slices(count, shape):
    from xlafront.planning.compiling import slice_shape

    found = slice_shape(count)
    assert math.prod(map(int, found.split("x"))) == count and (shape is None or found == shape)


def test_comparison_survives_what_ends_a_process(tmp_path, capfd):
    script = tmp_path / "train.py"
    script.write_text("import os\nos.abort()\n")
    assert main(["plan", f"{script}:step", "--topology", "h100:1,nope:1"]) == 2
    head, first, second = capfd.readouterr().out.splitlines()
    assert head == "step on 2 topologies" and "there is no topology 'nope:1'" in second
    assert first == "  h100:1  FAILS: the compiler ended its process with signal 6" or "cuda13" in first  # without the compiler


def test_comparison_reports_a_shared_mistake_once(tmp_path, capfd):
    script = tmp_path / "train.py"
    script.write_text("def step(x): return x\n")
    assert main(["plan", f"{script}:step", "--topology", "nope:1,nope:1"]) == 2
    printed = capfd.readouterr()
    assert printed.out == "" and printed.err.count("there is no topology 'nope:1'") == 1
    errors = "WARNING: no answer\nxlafront plan: a.py does not define x. Add it:\n\n    x = 1\n\nor name another.\n"
    assert comparison._failure(errors, 2) == "a.py does not define x. Add it:\n\n    x = 1\n\nor name another."
