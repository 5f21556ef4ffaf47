"""Type checkers report nothing about a user's program and infer `Array` for its results; stubs agree with the tables of names."""

import importlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

from tests.language_server import LanguageServer
from xlafront.lazy_module import names_of

ROOT = Path(__file__).parent.parent
PROGRAM = "tests/typed_program.py"


def run_module(*command: str) -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-m", *command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_stubs_agree_with_tables():
    run_module("tests.stubs", "--check")


def test_type_checkers_accept_program():
    """With the checkers that are installed: `pip install '.[lint]'` brings both, as `.ci/run` does before it runs this."""
    if importlib.util.find_spec("mypy"):
        run_module("mypy", "--config-file=", "--warn-unused-ignores", "--follow-imports=silent", PROGRAM)
    if importlib.util.find_spec("pyright"):
        run_module("pyright", "--warnings", "--pythonpath", sys.executable, PROGRAM)


def test_public_names_have_types():
    """But those that NumPy makes of a private class, and what `from __future__` leaves."""
    untyped = re.compile(r"^([A-Za-z]\w*): (?:_typing\.TypeAlias = )?_typing\.Any\b", re.MULTILINE)
    found = {name for stub in (ROOT / "xlafront").rglob("*.pyi") for name in untyped.findall(stub.read_text())}
    assert found == {"annotations", "index_exp", "s_"}


def test_dir_lists_public_names():
    for name, names in [*names_of.items()]:
        listed = {n for n in dir(importlib.import_module(name)) if not n.startswith("_")}
        assert listed == {n for n in names.listed() if not n.startswith("_")}, name


# A line of a program, the word at which an editor points, a line of what it shows, and the file that "go to definition" opens.
POSITIONS = [
    ("import xlafront as xf, xlafront.numpy as xnp", "", "", ""),
    ("from xlafront import lax, nn, random", "", "", ""),
    ("from xlafront.sharding import Mesh, NamedSharding, PartitionSpec", "NamedSharding", "Sharding over the named axes of a mesh.",
     "xlafront/base/jaxlib_types.pyi"),
    ("x = xnp.ones((3, 4))", "ones", "shape: ", "xlafront/numpy/creation.py"),
    ("step = xf.jit(nn.relu)", "jit", "static_argnums: int | Sequence[int] | None = None", "xlafront/staging/jit.py"),
    ("slope = xf.value_and_grad(nn.logsumexp)", "value_and_grad", "has_aux: bool = False", "xlafront/api/derivatives.py"),
    ("total = xnp.sum(x, axis=0)", "sum", "Sum elements over axes.", "xlafront/numpy/__init__.pyi"),
    ("added = x.at[0].add(1)", "add", "Return the array with `x[index] += values`", "xlafront/numpy/updates.py"),
    ("kind = x.dtype", "dtype", "dtype: dtype[Any]", "xlafront/numpy/array_methods.pyi"),
    ("kind", "kind", "(variable) kind: dtype[Any]", ""),
    ("added", "added", "(variable) added: Array", ""),
    ("def body(c: xf.Array, row: xf.Array) -> tuple[xf.Array, xf.Array]: return c + row, nn.relu(row)", "", "", ""),
    ("carry, rows = lax.scan(body, x[0], x)", "scan", "reverse: bool = False",
     "xlafront/control/scan.py"),
    ("rows", "rows", "(variable) rows: Array", ""),
    ("chosen = lax.cond(True, nn.relu, nn.gelu, x)", "cond", "pred: ArrayLike", "xlafront/control/cond.py"),
    ("chosen", "chosen", "(variable) chosen: Array", ""),
    ("text = xf.make_jaxpr(nn.relu)(x)", "make_jaxpr", "static_argnums", "xlafront/staging/inspection.py"),
    ("text", "text", "(variable) text: Jaxpr", ""),
    ("device = xf.devices()[0]", "devices", "-> list[Device]", "xlafront/runtime/backends.py"),
    ("platform = device.platform", "platform", '"cpu", "gpu" or "tpu".', "xlafront/base/jaxlib_types.pyi"),
    ("sharding = NamedSharding(xf.make_mesh((1,), ('x',)), PartitionSpec('x'))", "make_mesh", "-> Mesh", ""),
    ("sharding.mesh", "mesh", "mesh: Mesh", "xlafront/base/jaxlib_types.pyi"),
    ("moved = xf.device_put(x, sharding)", "device_put", "x: ArrayLike", "xlafront/lax/device_put.py"),
    ("moved", "moved", "(variable) moved: Array", ""),
    ("key = random.key(0)", "key", "seed: ", "xlafront/random/prng.py"),
    ("rows = xf.vmap(nn.relu)(x)", "vmap", "axis_name: Hashable | None = None", "xlafront/api/vmap.py"),
    ("scaled: Mesh", "Mesh", "A grid of devices with named axes.", "xlafront/base/meshes.py"),
]


def test_editors_show_text_types_and_definitions():
    """With pyright, as in `test_type_checkers_accept_program`."""
    if not importlib.util.find_spec("pyright"):
        return
    command = [str(Path(sys.executable).with_name("pyright-langserver")), "--stdio"]
    with LanguageServer(command, sys.executable, ROOT, "\n".join(line for line, *_ in POSITIONS) + "\n") as server:
        for i, (line, word, text, file) in enumerate(POSITIONS):
            if word:
                assert text in server.hover(i, word), (line, server.hover(i, word))
                definitions = server.definitions(i, word)
                assert not file or any(found.endswith(file) for found in definitions), (line, definitions)
        unused = ("is not accessed", "Expression value is unused")
        assert not [error for error in server.errors() if not error.endswith(unused)]
