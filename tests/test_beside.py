"""The tables of calls that `tests.beside` compares: what a mistake in them would hide."""

import pathlib

import pytest

from tests.beside import __main__ as beside
from tests.beside.__main__ import HERE, expanded, read

TABLES = sorted(path.stem for path in pathlib.Path(HERE, "calls").glob("*.txt"))


def test_choices():
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


@pytest.mark.parametrize("table", TABLES)
def test_every_call_is_python(table):
    """A line that is none fails on both sides alike, and would count as equal."""
    for call, _ in read(table):
        compile(call, table, "exec")
