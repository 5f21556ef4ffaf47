"""Views of values in notebooks: well-formed HTML, escaped, with the numbers of the values."""

import importlib
import re
import sys
import types
from html.parser import HTMLParser

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import NamedSharding, P
from xlafront.host import notebook_views as views
from xlafront.planning.report import Memory, Plan
from xlafront.sharding import AxisType, Mesh


class Checked(HTMLParser):
    """Collects the text of a view, and fails on elements that are not closed in order."""

    def __init__(self, text: str):
        super().__init__()
        self.open, self.tags, self.words = [], [], []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)


def scaled(x, w):
    return xnp.tanh(x @ w).sum()


X, W = np.ones((4, 3), np.float32), np.ones((3, 2), np.float32)


def mesh(shape=(2, 4), names=("x", "y")):
    return Mesh(np.array(xf.devices()[:int(np.prod(shape))]).reshape(shape), names, (AxisType.Auto,) * len(names))


def test_jaxprs_are_shown_with_all_equations():
    jaxpr = xf.make_jaxpr(scaled)(X, W)
    shown = Checked(views.jaxpr(jaxpr))
    assert f"Jaxpr of scaled: {len(jaxpr.eqns)} equations, 2 inputs, 1 result" in shown.text and str(jaxpr) in shown.text
    assert shown.tags.count("b") == 1 + str(jaxpr).count(" = ") and "details" in shown.tags


def test_stages_of_a_program():
    traced = xf.jit(scaled).trace(X, W)
    lowered = traced.lower()
    assert str(traced.jaxpr) in Checked(views.traced(traced)).text
    text = Checked(views.lowered(lowered)).text
    assert lowered.as_text() in text and int(re.search(r"Lowered: (\d+) operations", text)[1]) >= 3
    compiled = lowered.compile()
    memory = compiled.memory_analysis()
    shown = Checked(views.compiled(compiled)).text
    assert f"arguments {memory.argument_size_in_bytes} B" in shown and memory.argument_size_in_bytes == X.nbytes + W.nbytes
    assert "ENTRY" in shown


@pytest.mark.cpu_only
def test_meshes_are_grids():
    shown = Checked(views.mesh(mesh()))
    assert "Mesh(x=2, y=4)" in shown.text and shown.tags.count("tr") == 2 and shown.tags.count("td") == 8
    assert Checked(views.mesh(mesh((2, 2, 2), ("a", "b", "c")))).tags.count("td") == 8
    assert Checked(views.mesh(mesh((8,), ("a",)))).tags.count("tr") == 1


@pytest.mark.cpu_only
@pytest.mark.parametrize("spec, shape, rows, shards", [
    (P("x", "y"), (4, 8), 2, 8), (P("x"), (4, 8), 2, 2), (P(None, "y"), (4, 8), 1, 4), (P(), (3,), 1, 1), (P(), (), 1, 1),
    (P(("x", "y")), (8,), 8, 8), (P("x", None, "y"), (2, 3, 4), 2, 8)])
def test_arrays_are_grids_of_their_shards(spec, shape, rows, shards):
    x = xf.device_put(np.zeros(shape, np.float32), NamedSharding(mesh(), spec))
    shown = Checked(views.array(x))
    assert f"float32{list(shape)} over 8 devices" in shown.text and repr(x) in shown.text
    assert (shown.tags.count("tr"), shown.tags.count("td")) == (rows, shards)
    devices = ", ".join(re.findall(r'color:#\w+">([^<]*)<', views.array(x)))
    assert {int(number) for number in devices.split(", ")} == set(range(8))


def test_arrays_on_one_device_are_text():
    x = xnp.ones(3)
    assert views.array(x) is None
    x.delete()
    assert views.array(x) is None


def test_plans_have_a_bar_of_memory():
    memory = Memory(arguments=2**30, outputs=2**28, donated=2**28, temporaries=2**29, code=2**20, total=2**30 + 2**29 + 2**20, limit=2**31)
    plan = Plan("step", "v5e:2x2", mesh((1,), ("data",)), "TPU v5 lite", 4, memory, [], 1e12, 1e9, [], {}, {}, [], None)
    shown = Checked(views.plan(plan))
    assert "step on v5e:2x2: fits, 1.5 GiB of 2.0 GiB on each device" in shown.text
    assert "arguments 1.0 GiB" in shown.text and "temporary 512.0 MiB" in shown.text and "results" not in shown.text.partition("plan")[0]
    assert re.findall(r"width:([\d.]+)%", views.plan(plan))[-3:] == ["50.00", "25.00", "0.05"]


def test_settings_that_changed_come_first():
    with xf.numpy_rank_promotion("warn"):
        shown = Checked(views.settings(xf.config))
    assert re.search(r"Settings: \d+ changed", shown.text) and "numpy_rank_promotion" in shown.text.partition("all ")[0]


@pytest.mark.cpu_only
def test_names_of_users_are_escaped():
    bad = "<script>alert(1)</script>"
    scaled.__name__ = bad
    try:
        shown = views.jaxpr(xf.make_jaxpr(scaled)(X, W)) + views.traced(xf.jit(scaled).trace(X, W))
    finally:
        scaled.__name__ = "scaled"
    shown += views.mesh(mesh((8,), (bad,)))
    shown += views.array(xf.device_put(np.zeros(8), NamedSharding(mesh((8,), (bad,)), P(bad))))
    shown += views.sharding(NamedSharding(mesh((8,), (bad,)), P(bad)))
    assert "<script" not in shown and "&lt;script" in shown
    Checked(shown)


def test_ipython_gets_a_view_for_each_type(monkeypatch):
    given = {}
    formatter = types.SimpleNamespace(for_type_by_name=lambda module, name, view: given.update({(module, name): view}))
    shell = types.SimpleNamespace(display_formatter=types.SimpleNamespace(formatters={"text/html": formatter}))
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    views.register()
    values = [xf.make_jaxpr(scaled)(X, W), xf.jit(scaled).trace(X, W), xf.jit(scaled).trace(X, W).lower(),
              xf.jit(scaled).trace(X, W).lower().compile(), mesh((1,), ("x",)), NamedSharding(mesh((1,), ("x",)), P()), xnp.ones(2), xf.config]
    assert given == views.VIEWS
    assert {(type(v).__module__, type(v).__name__) for v in values} | {("xlafront.planning.report", "Plan")} == set(given)
    assert all(hasattr(importlib.import_module(module), name) for module, name in given)
