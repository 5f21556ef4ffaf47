"""Positions in messages: files with lines, cells of notebooks with lines."""

import sys
import types

import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.core import source


@pytest.fixture
def notebook(monkeypatch):
    """IPython with one cell, the fourth, in a file of its kernel."""
    cells = {"/tmp/ipykernel_1/2345.py": ("Cell", "In[4]")}
    shell = types.SimpleNamespace(compile=types.SimpleNamespace(format_code_name=cells.get))
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))


def test_positions_in_files():
    assert source.position("/home/model.py", 3) == "/home/model.py:3"


def test_errors_do_not_show_positions_in_the_package():
    with pytest.raises(xf.errors.ConcretizationTypeError, match=r"argument a of nonzero\.\n"):
        xf.jit(xnp.nonzero)(xnp.arange(3))
    with pytest.raises(TypeError, match=r"The branches are false_fun \(sum\) and true_fun \(sin\)\."):
        xf.lax.cond(True, xnp.sin, xnp.sum, xnp.ones(2))


def test_positions_in_cells(notebook):
    assert source.position("/tmp/ipykernel_1/2345.py", 3) == "In[4], line 3"
    assert source.position("/home/model.py", 3) == "/home/model.py:3"


def test_errors_show_positions_in_cells(notebook):
    cell = compile("def f(x):\n    y = x + 1\n    return 1 if y > 0 else 2\nxf.jit(f)(1.0)", "/tmp/ipykernel_1/2345.py", "exec")
    with pytest.raises(xf.errors.TracerBoolConversionError, match=r"result of gt at In\[4\], line 3 \(f\)"):
        exec(cell, {"xf": xf})
    cell = compile("xf.jit(lambda x: int(x))(1.0)", "/tmp/ipykernel_1/2345.py", "exec")
    with pytest.raises(xf.errors.ConcretizationTypeError, match=r"argument x of <lambda> at In\[4\], line 1"):
        exec(cell, {"xf": xf})
