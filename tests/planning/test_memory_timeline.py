"""The memory over the schedule of a step: of a program whose values are counted by hand, and beside the compiler's own total."""

import json

import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.__main__ import main
from xlafront.host import notebook_views
from xlafront.planning import hlo, memory_timeline

pytestmark = pytest.mark.cpu_only

PROGRAM = """HloModule step, is_scheduled=true

%body (state: (s32[], f32[256])) -> (s32[], f32[256]) {
  %state = (s32[], f32[256]{0}) parameter(0)
  %n = s32[] get-tuple-element((s32[], f32[256]{0}) %state), index=0
  %x = f32[256]{0} get-tuple-element((s32[], f32[256]{0}) %state), index=1
  %wide = f32[1024]{0} custom-call(f32[256]{0} %x), custom_call_target="widen"
  %narrow = f32[256]{0} custom-call(f32[1024]{0} %wide), custom_call_target="narrow"
  ROOT %next = (s32[], f32[256]{0}) tuple(s32[] %n, f32[256]{0} %narrow)
}

%condition (state.1: (s32[], f32[256])) -> pred[] {
  %state.1 = (s32[], f32[256]{0}) parameter(0)
  ROOT %more = pred[] constant(false)
}

ENTRY %main (a: f32[256]) -> f32[256] {
  %a = f32[256]{0} parameter(0)
  %zero = s32[] constant(0)
  %big = f32[512]{0} custom-call(f32[256]{0} %a), custom_call_target="first"
  %same = f32[512]{0} bitcast(f32[512]{0} %big)
  %small = f32[256]{0} custom-call(f32[512]{0} %same), custom_call_target="second"
  %before = (s32[], f32[256]{0}) tuple(s32[] %zero, f32[256]{0} %small)
  %after = (s32[], f32[256]{0}) while((s32[], f32[256]{0}) %before), condition=%condition, body=%body
  ROOT %result = f32[256]{0} get-tuple-element((s32[], f32[256]{0}) %after), index=1
}
"""


def test_values_exist_from_their_instruction_to_their_last_use():
    found = memory_timeline.timeline(hlo.Module(PROGRAM))
    a, big, small, zero = 4 * 256, 4 * 512, 4 * 256, 4
    body = 4 * 1024 + 4 * 256  # the wide value and the narrow one, when the narrow one is computed
    assert found.arguments == a
    assert found.sizes == [a, a + zero, a + zero + big, a + zero + big, a + zero + big + small, a + zero + small,
                           a + zero + small + body, a + small]
    assert found.peak == 6
    assert [(b.bytes, b.type) for b in found.live][:2] == [(4096, "f32[1024]"), (2048, "f32[256]")]


def layers(count, checkpointed):
    def layer(x, w):
        return xnp.tanh(xnp.tanh(x @ w) * 2)

    used = xf.checkpoint(layer) if checkpointed else layer

    def loss(ws, x):
        for w in ws:
            x = used(x, w)
        return xnp.mean(x**2)

    ws = [xf.ShapeDtypeStruct((64, 64), "float32")] * count
    return xf.plan(xf.grad(loss), ws, xf.ShapeDtypeStruct((4096, 64), "float32"), mesh={"data": 8})


@pytest.mark.parametrize("checkpointed", [False, True])
def test_the_peak_is_near_the_total_of_the_compiler(checkpointed):
    plan = layers(6, checkpointed)
    assert plan.timeline.sizes[plan.timeline.peak] == pytest.approx(plan.memory.total, rel=0.15)


def test_what_is_saved_for_the_gradient_is_named():
    plan = layers(4, False)
    text = str(plan.timeline)
    assert "Memory of each device over the schedule of a step" in text and "test_memory_timeline.py:" in text
    assert "tanh" in text and len(text.splitlines()[1].strip("\n")) <= 2 + 72
    assert json.loads(plan.to_json())["timeline"]["peak"] == plan.timeline.peak


def test_notebooks_draw_it():
    plan = layers(2, False)
    assert "<svg" in notebook_views.plan(plan) and "at most" in notebook_views.plan(plan)


def test_the_command_prints_it(tmp_path, capsys):
    script = tmp_path / "step.py"
    script.write_text("import xlafront as xf\nimport xlafront.numpy as xnp\n\n"
                      "def f(x):\n    return xnp.tanh(x @ x)\n\nf_args = (xf.ShapeDtypeStruct((64, 64), 'float32'),)\n")
    for options, has_timeline in ((["--timeline"], True), (["--memory"], True), ([], False), (["--memory", "1GiB"], False)):
        assert main(["plan", f"{script}:f", *options]) == 0
        assert ("Memory of each device over the schedule" in capsys.readouterr().out) == has_timeline


def test_values_have_names_of_arguments_and_lines():
    """Also those that the compiler adds: the zeros that a loop stacks its residuals into have the line of the loop."""
    def loss(w, x):
        return xnp.sum(xf.lax.scan(lambda x, w: (xnp.tanh(xnp.sin(x @ w)), None), x, w)[0])

    types = xf.ShapeDtypeStruct((8, 256, 256), "float32"), xf.ShapeDtypeStruct((512, 256), "float32")
    found = xf.plan(lambda w, x: w - xf.grad(loss)(w, x), *types, mesh={"data": -1}).timeline
    assert [(b.what, b.bytes) for b in found.largest_arguments] == [("argument w", 4 * 8 * 256 * 256), ("argument x", 4 * 512 * 256)]
    large = [b for b in found.live if b.bytes >= 2**20]
    assert large and all("test_memory_timeline.py:" in b.line or "argument" in b.what for b in large)
    assert "the largest of them\n" in str(found) and "argument w" in str(found)
