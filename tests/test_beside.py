"""The tables of calls that `tests.beside` compares: what a mistake in them would hide."""

import argparse
import ast
import pathlib

import pytest

from tests.beside import __main__ as beside
from tests.beside.__main__ import HERE, expanded, read
from tests.beside.inventory import changes, entry
from tests.beside.mutations import mutated

TABLES = sorted(path.stem for path in pathlib.Path(HERE, "calls").glob("*.txt"))


def test_choices_are_expanded():
    assert expanded("f(<<1;x > 2>>, <<a;b>>)") == ["f(1, a)", "f(1, b)", "f(x > 2, a)", "f(x > 2, b)"]
    assert expanded("x <<+;<;>>> y") == ["x + y", "x < y", "x > y"]
    assert expanded("xnp.<<sin>>(1 << 2)") == ["xnp.sin(1 << 2)"]


def test_each_table_has_a_process(monkeypatch, capsys):
    """A mesh that one leaves in force, or a setting, would make all calls of the next ones differ."""
    seen = []

    def run(python, which, calls, options):
        seen.append(calls)
        return [{"leaves": []} for _ in calls]

    monkeypatch.setattr(beside, "run", run)
    monkeypatch.setattr("sys.argv", ["beside", "masks", "weak_types", "-c", "1 + 1"])
    assert beside.main() == 0
    assert [len(calls) for calls in seen] == [len(read("masks")), len(read("weak_types")), 1]
    assert "1 + 1 -> ()" in capsys.readouterr().out


def test_odd_arguments_take_the_place_of_one_each():
    calls = ["x = xnp.ones(3)", "sl = load(xf.__name__ + '.scipy.linalg')", "xnp.sum(x, axis=0)", "sl.toeplitz(x)", "f(*x)", "x + 1"]
    found = mutated(calls, 2, 0)
    assert found == mutated(calls, 2, 0) != mutated(calls, 2, 1)
    parsed = [ast.parse(call, mode="eval").body for call in found]
    assert {ast.unparse(call.func) for call in parsed} == {"xnp.sum", "sl.toeplitz"}
    for call in parsed:
        given = {i: ast.unparse(a) for i, a in enumerate(call.args)} | {k.arg: ast.unparse(k.value) for k in call.keywords}
        usual = {0: "x", "axis": "0"} if ast.unparse(call.func) == "xnp.sum" else {0: "x"}
        assert len(given.items() - usual.items()) == 1
    assert any("initial=" in call for call in found)  # a parameter that the call leaves out


def test_warnings_are_compared_on_request():
    ours, theirs = ({"leaves": [], "tree": "", "warnings": found} for found in ([], ["ComplexWarning"]))
    without, with_warnings = (argparse.Namespace(compilations=False, warnings=given) for given in (False, True))
    assert beside.difference(ours, theirs, without) is None
    assert "ComplexWarning" in beside.difference(ours, theirs, with_warnings)


@pytest.mark.parametrize("table", TABLES)
def test_every_call_is_python(table):
    """A line that is none fails on both sides alike, and would count as equal."""
    for call, _ in read(table):
        compile(call, table, "exec")


def test_changes_between_two_versions():
    class Old:
        previous = 1

    class New:
        added = 1

    def before(x, axis=0): ...
    def after(x, axis=None, *, out=None): ...

    old = {"jax": {"f": entry(before), "C": entry(Old), "removed": entry(3)}, "jax.old": {}}
    new = {"jax": {"f": entry(after), "C": entry(New), "added": entry(3)}, "jax.new": {}}
    assert changes(old, new) == [
        "+ module jax.new", "- module jax.old", "+ jax.added", "- jax.removed", "+ jax.C: member added", "- jax.C: member previous",
        "+ jax.f: parameter axis=None", "+ jax.f: parameter out=None", "- jax.f: parameter axis=0"]
