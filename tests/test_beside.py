"""The tables of calls that `tests.beside` compares: what a mistake in them would hide."""

import pathlib

import pytest

from tests.beside.__main__ import HERE, expanded, read

TABLES = sorted(path.stem for path in pathlib.Path(HERE, "calls").glob("*.txt"))


def test_choices():
    assert expanded("f(<<1;x > 2>>, <<a;b>>)") == ["f(1, a)", "f(1, b)", "f(x > 2, a)", "f(x > 2, b)"]
    assert expanded("x <<+;<;>>> y") == ["x + y", "x < y", "x > y"]
    assert expanded("xnp.<<sin>>(1 << 2)") == ["xnp.sin(1 << 2)"]


@pytest.mark.parametrize("table", TABLES)
def test_every_call_is_python(table):
    """A line that is none fails on both sides alike, and would count as equal."""
    for call, _ in read(table):
        compile(call, table, "exec")
