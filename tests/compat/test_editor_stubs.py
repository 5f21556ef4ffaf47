"""The stubs of `python -m xlafront stubs`: they name what exists, and type checkers read programs that import jax with them."""

import ast
import importlib
import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

import xlafront.compat.editor_stubs as editor_stubs

ROOT = pathlib.Path(__file__).parents[2]
PROGRAM = '''
from typing import assert_type

import jax
import jax.numpy as jnp
from jax import lax, random
from jax.experimental import mesh_utils, sparse
from jax.scipy.special import erf
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.tree_util import tree_map


def loss(w: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.mean((jnp.tanh(x @ w) - erf(x[:, 0])) ** 2)


@jax.jit
def step(w: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    value, slope = jax.value_and_grad(loss)(w, x)
    assert_type(value, jax.Array)
    return w - 0.5 * slope, value


x = random.normal(jax.random.key(0), (8, 3))
w, value = step(jnp.zeros(3), x)
assert_type(jnp.linalg.norm(w), jax.Array)
assert_type(x.at[0].add(1), jax.Array)
assert_type(jax.vmap(loss, in_axes=(None, 0))(w, x), jax.Array)
mesh: Mesh = jax.make_mesh((1,), ("data",))
placed = jax.device_put(x, NamedSharding(mesh, PartitionSpec("data")))
doubled = tree_map(lambda a: 2 * a, (w, lax.fori_loop(0, 3, lambda i, c: c + 1, w)))
print(jax.__version__, jax.core.Primitive, jax.experimental.sparse.BCOO)
'''
MISTAKES = '''
import jax
import jax.numpy as jnp
jnp.no_such_name(3)
jnp.sum(jnp.ones(3), axs=0)
jax.jit(jnp.sin).nothing
'''


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    done = subprocess.run([sys.executable, "-m", "xlafront", "stubs"], cwd=folder, capture_output=True, text=True,
                          env=os.environ | {"PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
    (folder / "program.py").write_text(PROGRAM)
    (folder / "mistakes.py").write_text(MISTAKES)
    return folder


def test_stubs_import_what_exists(project):
    stubs = [*project.rglob("*.pyi")]
    assert len(stubs) > 100 and project / "typings/jax/scipy/stats/norm/__init__.pyi" in stubs
    for stub in stubs:
        for line in ast.parse(stub.read_text()).body:
            assert isinstance(line, ast.ImportFrom) and line.module
            if line.module.partition(".")[0] == "jax":  # a module, which has a stub of its own
                assert (stub.parent / line.names[0].name / "__init__.pyi").exists(), (stub, ast.unparse(line))
            elif not line.module.endswith("array_serialization.serialization"):  # which imports a library
                module = importlib.import_module(line.module)
                assert line.names[0].name == "*" or hasattr(module, line.names[0].name), ast.unparse(line)


def test_stubs_define_each_name_once():
    for name in ("jax", "jax.experimental", "jax.extend", "jax.core"):
        lines = [line.rpartition(" as ")[2] for line in editor_stubs.stub_of(name).splitlines()[1:]]
        assert len(lines) == len(set(lines))


def errors_of(command, project):
    done = subprocess.run([sys.executable, "-W", "ignore", "-m", *command], cwd=project, capture_output=True, text=True,
                          env=os.environ | {"PYTHONPATH": str(ROOT), "MYPYPATH": f"typings{os.pathsep}{ROOT}"})
    return [line for line in (done.stdout + done.stderr).splitlines() if "error:" in line]


def test_type_checkers_read_a_program_that_imports_jax(project):
    """With the checkers that are installed, as in `test_typed_program.py`."""
    commands = {"pyright": ["pyright", "--pythonpath", sys.executable],
                "mypy": ["mypy", "--config-file=", "--follow-imports=silent"]}
    for checker in filter(importlib.util.find_spec, commands):
        found = errors_of([*commands[checker], "program.py", "mistakes.py"], project)
        assert len(found) == 3 and all("mistakes.py" in line for line in found), found
