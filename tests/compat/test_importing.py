"""`import jax` gives xlafront: by every way to enable it, for every form of import, and in other processes."""

import os
import pathlib
import subprocess
import sys

import pytest

from xlafront.compat.importing import ON_PATH

ROOT = str(pathlib.Path(__file__).parent.parent.parent)


def python(*arguments: str, paths: tuple = (ROOT,), directory=None, stdin="", **variables: str) -> subprocess.CompletedProcess:
    environment = os.environ | {"XLAFRONT_PLATFORMS": "cpu", "XLA_FLAGS": "", "PYTHONPATH": os.pathsep.join(map(str, paths))} | variables
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=120, env=environment, cwd=directory,
                          input=stdin)


def printed(*arguments: str, **options) -> str:
    done = python(*arguments, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def installed_jax(tmp_path):
    """Return a path with a package `jax` that must not be run."""
    package = tmp_path / "site" / "jax"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('the installed jax was run')\n")
    (package / "numpy.py").write_text("raise SystemExit('the installed jax was run')\n")
    metadata = tmp_path / "site" / "jax-0.4.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: jax\nVersion: 0.4.0\n")
    return tmp_path / "site"


REQUESTED = """
import importlib.metadata, importlib.util
found = importlib.util.find_spec("jax") is not None
import jax, jax.numpy as jnp
import xlafront
print(jax.__version__, jax.__version_info__, importlib.metadata.version("jax"), found, jnp is xlafront.numpy, jnp.ones(2) + 1)
"""
ANSWER = "0.12.0.1 (0, 12, 0, 1) 0.12.0.1 True True [2. 2.]"


@pytest.mark.parametrize("how", ["as_jax", "install", "variable", "child of run", "run", "run -m", "run -c", "run -"])
def test_ways_to_enable_import_jax(how, installed_jax, tmp_path):
    script = tmp_path / "asked.py"
    script.write_text(REQUESTED + "\nimport sys\nprint(sys.argv[1:], __name__)" if how.startswith("run") else REQUESTED)
    first = {"as_jax": "import xlafront.as_jax", "install": "import xlafront; xlafront.compat.install()", "variable": "import xlafront"}
    if how in first:
        variables = {"XLAFRONT_AS_JAX": "1"} if how == "variable" else {}
        assert printed("-c", f"{first[how]}\n{REQUESTED}", paths=(ROOT, installed_jax), **variables) == ANSWER
    elif how == "run":
        assert printed("-m", "xlafront", "run", str(script), "-q", "--x", paths=(ROOT, installed_jax)) == (
            f"{ANSWER}\n['-q', '--x'] __main__")
    elif how == "run -m":
        assert printed("-m", "xlafront", "run", "-m", "asked", "-q", paths=(ROOT, installed_jax, tmp_path)) == (
            f"{ANSWER}\n['-q'] __main__")
    elif how in ("run -c", "run -"):
        text, option = script.read_text() + "\nprint(sys.argv[0], repr(sys.path[0]), sys.modules['__main__'].found)\n", how.split()[1]
        given = ("-c", text) if option == "-c" else ("-",)
        assert printed("-m", "xlafront", "run", *given, "-q", paths=(ROOT, installed_jax), stdin=text) == (
            f"{ANSWER}\n['-q'] __main__\n{option} '' True")
    else:  # which is started in another folder, and does not find xlafront by itself
        starts = tmp_path / "starts.py"
        starts.write_text(f"""
import os, subprocess, sys
os.environ["PYTHONPATH"] = os.pathsep.join([path for path in os.environ["PYTHONPATH"].split(os.pathsep) if path != {ROOT!r}])
print(subprocess.check_output([sys.executable, {str(script)!r}], text=True).strip())
""")
        assert printed("-m", "xlafront", "run", str(starts), paths=(ROOT, installed_jax), directory=tmp_path) == ANSWER


def test_pytest_is_run(tmp_path, installed_jax):
    (tmp_path / "test_it.py").write_text("def test_it():\n    import jax\n    assert jax.numpy.__spec__.name == 'xlafront.numpy'\n")
    assert "1 passed" in printed("-m", "xlafront", "run", "-m", "pytest", "-p", "no:cacheprovider", str(tmp_path),
                                 paths=(ROOT, installed_jax))


@pytest.mark.parametrize("arguments, error", [
    (["nowhere.py"], "there is no file nowhere.py"), (["-m"], "which module"), (["-c"], "which program"), (["-x"], "unknown option -x"),
    (["-m", "no_such_module"], "No module named")])
def test_bad_commands(arguments, error):
    done = python("-m", "xlafront", "run", *arguments)
    assert done.returncode == 1 and error in done.stderr


def test_help_names_run():
    assert "SCRIPT" in printed("-m", "xlafront", "run", "--help") and "run" in printed("-m", "xlafront", "--help")


def test_install_after_jax_raises(tmp_path):
    (tmp_path / "jax.py").write_text("")
    done = python("-c", "import jax\nimport xlafront.as_jax", paths=(ROOT, tmp_path))
    assert "jax is already imported" in done.stderr and "begin the program with `import xlafront.as_jax`" in done.stderr
    done = python("-c", "import sys, types, xlafront\nsys.modules['jax'] = types.ModuleType('jax')\nxlafront.compat.install()")
    assert "ImportError" in done.stderr and "jax is already imported" in done.stderr


def test_modules_are_the_same():
    code = """
import importlib.util, pickle, sys
import xlafront.as_jax, xlafront.as_jax, xlafront
xlafront.compat.install()
from jax import lax, numpy
import jax, jax.scipy.stats.norm as norm, jax.experimental.layout
from jax.numpy import linalg, sin
from jax._src import sharding_impls
import jax._src.sharding_impls as again

assert numpy is xlafront.numpy and lax is xlafront.lax and linalg is xlafront.numpy.linalg and jax.nn is xlafront.nn
assert norm is xlafront.scipy.stats.norm and jax.experimental.layout is sys.modules["xlafront.experimental.layout"]
assert sharding_impls is again and again.make_single_device_sharding and jax.Array is xlafront.Array and jax.jit is xlafront.jit
assert numpy.__spec__.name == "xlafront.numpy" and lax.__name__ == "xlafront.lax" and jax.__name__ == "jax"
assert numpy.__name__ == numpy.ones(2).__array_namespace__().__name__ == "jax.numpy"  # by which libraries know the namespace
assert "jit" in dir(jax) and "numpy" in dir(jax) and "checkify" in dir(jax.experimental)
for pickled in (pickle.dumps(sin), b"cjax.numpy\\nsin\\n.", b"cxlafront.numpy\\nsin\\n."):
    assert pickle.loads(pickled) is sin
assert pickle.loads(b"cjax._src.core\\nShapedArray\\n.") is xlafront.core.ShapedArray
importlib.reload(jax)
importlib.reload(jax.numpy)
assert jax.numpy is xlafront.numpy and importlib.import_module("jax.numpy") is xlafront.numpy
assert importlib.util.find_spec("jax.nowhere") is None and importlib.util.find_spec("jax.lax") is not None
for module in list(sys.modules.values()):
    assert not hasattr(module, "no_module_has_this")
print(sum(path.endswith("on_path") for path in sys.path), sum(type(f).__module__ == "xlafront.compat.importing" for f in sys.meta_path))
"""
    assert printed("-c", code) == "1 1"


def test_dictionaries_of_modules_have_all_names():
    """As SCICO copies them, and SymPy's `lambdify(x, f, jnp)` looks names up."""
    code = """
import xlafront.as_jax, jax.numpy as jnp, jax.lax
found = vars(jnp)
assert found is jnp.__dict__ and found["sin"] is jnp.sin and {*jnp.__all__} <= {*found} and found["linalg"] is jnp.linalg
assert {*jax.lax.__all__} <= {*jax.lax.__dict__} and jax.lax.__dict__["sin_p"] is jax.lax.sin_p
exec("y = sin(0.5) + linalg.norm(ones(4))", jnp.__dict__, own := {})
print(float(own["y"]).__round__(4))
"""
    assert printed("-W", "error::DeprecationWarning", "-c", code) == "2.4794"



def test_threads_import_jax_at_once():
    code = """
import sys, threading
import xlafront.as_jax
sys.setswitchinterval(1e-6)
modules = ["jax.numpy", "jax.scipy.special", "jax._src.core", "jax.experimental.layout", "jax.lax", "jax._src.sharding_impls"]
problems, start = [], threading.Barrier(12)

def work(name):
    start.wait()
    try:
        exec(f"import {name} as module; from {name} import __name__ as name; import xlafront.numpy as own; own.ones(2) + 1")
    except BaseException as e:
        problems.append(repr(e))

threads = [threading.Thread(target=work, args=(name,)) for name in modules * 2]
for thread in threads: thread.start()
for thread in threads: thread.join()
import jax, xlafront
print(problems, jax.numpy is xlafront.numpy, sys.modules["jax.numpy"] is xlafront.numpy)
"""
    assert printed("-c", code) == "[] True True"


def test_processes_that_multiprocessing_starts(tmp_path, installed_jax):
    """They import xlafront or jax first."""
    (tmp_path / "work.py").write_text("def total(n):\n    import jax.numpy as jnp\n    return float(jnp.arange(n).sum()), jnp.__spec__.name\n")
    script = tmp_path / "start.py"
    script.write_text("""
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from work import total

if __name__ == "__main__":
    import xlafront.as_jax
    import jax.numpy as jnp
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(total, [4]), pool.apply(jnp.square, (3.0,)))
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        print(pool.submit(jnp.square, 2.0).result(), pool.submit(total, 3).result())
""")
    assert printed(str(script), paths=(ROOT, installed_jax)) == (
        "[(6.0, 'xlafront.numpy')] 9.0\n4.0 (3.0, 'xlafront.numpy')")


@pytest.mark.parametrize("module", ["jax.tree_util", "jax.core", "jax.lax", "jax.nn", "jax.random", "jax.scipy.special",
                                    "jax.sharding", "jax.extend.core"])
def test_any_module_can_be_imported_first(module):
    """The modules that are loaded by then, and their order, differ: a library may import only `jax.tree_util`."""
    parent, _, name = module.rpartition(".")
    assert printed("-c", f"import xlafront.as_jax, {module}; print({module}.__name__)").endswith(name)
    assert printed("-c", f"import xlafront.as_jax; from {parent} import {name}; print({name}.__name__)").endswith(name)


MISSING = [
    ("from jax.numpy import sine", "ImportError", "xlafront.numpy has no 'sine'; did you mean sin"),
    ("from jax import jitt", "ImportError", "jax has no 'jitt'; did you mean jit"),
    ("jax.numpy.sine", "AttributeError", "did you mean sin"),
    ("from jax.tree_util import tree_mapp", "ImportError", "did you mean tree_map"),
    ("from jax._src.core import ShapedArrays", "ImportError", "did you mean ShapedArray"),
    ("from jax.core import Tracr", "ImportError", "did you mean Tracer"),
    ("import jax.experimental.layouts", "ModuleNotFoundError", "did you mean layout"),
    ("import jax.numpy.ufuncs", "ModuleNotFoundError", "jax.numpy has no 'ufuncs'"),
    ("jax.extend.core.Jaxprs", "AttributeError", "did you mean Jaxpr")]


def test_garbage_is_not_collected_while_importing():
    collections = """
import gc
{first}
found = []
gc.callbacks.append(lambda phase, info: found.append(gc.get_count()))
import xlafront.numpy
xlafront.numpy.ones
print(max(found, default=(0,))[0] < 3000, gc.isenabled(), gc.get_freeze_count() > 0)
"""
    # Where collection begins, its objects are those since the last one, not those of all modules.
    assert printed("-c", collections.format(first="")) == "True True False"
    assert printed("-c", collections.format(first="gc.freeze()")).endswith("True True")  # the user's objects stay frozen
    assert printed("-c", collections.format(first="gc.disable()")) == "True False False"


def test_names_that_are_missing():
    code = f"""
import xlafront.as_jax, jax, jax.extend.core
for line in {[line for line, _, _ in MISSING]}:
    try:
        exec(line)
    except Exception as e:
        print(type(e).__name__, e)
"""
    for (_, error, words), text in zip(MISSING, printed("-c", code).splitlines(), strict=True):
        assert text.startswith(error) and words in text and "xlafront answers for jax" in text and "please report" in text, text


def test_modules_of_kernels_can_be_imported():
    """Libraries that have kernels for some devices import what writes them on all."""
    code = """
import xlafront.as_jax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu, tpu, triton
import jax.experimental.pallas.tpu as pltpu
print(pl.pallas_call.__name__, triton.load.__name__, tpu is pltpu, tpu.VMEM)
import sys
import jax.experimental.mosaic.gpu as mgpu
from jax.experimental.mosaic.gpu import profiler, utils
print(hasattr(mgpu, "wgmma"), getattr(mosaic_gpu, "kernel", None), "jax._src.lax.lax" in sys.modules)
try:  # as libraries do that have other kernels
    mosaic_gpu.TilingTransform
except ImportError as e:
    print(e)
mosaic_gpu.kernel
"""
    done = python("-c", code)
    lines = done.stdout.splitlines()
    assert lines[:2] == ["pallas_call load True vmem", "False None True"] and "no 'TilingTransform' and no other name" in lines[2]
    assert "has no 'kernel'" in done.stderr and "xlafront answers for jax" in done.stderr


def test_missing_names_without_the_alias():
    with pytest.raises(ImportError, match="^xlafront.numpy has no 'sine'; did you mean sin or single[?]$"):
        exec("from xlafront.numpy import sine")


def test_compilations_can_be_refused():
    """Chex replaces the compile function."""
    code = """
import xlafront.as_jax, jax, jax.numpy as jnp
from jax._src import compiler

def refuse(*args, **kwargs):
    raise RuntimeError("no compiling here")

real, compiler.backend_compile_and_load = compiler.backend_compile_and_load, refuse
try:
    jax.jit(lambda x: x * 3 + 1)(jnp.float32(2))
except RuntimeError as e:
    print(e)
compiler.backend_compile_and_load = real
print(jax.jit(lambda x: x * 3 + 1)(2.0))
"""
    assert printed("-c", code, XLAFRONT_ENABLE_COMPILATION_CACHE="0") == "no compiling here\n7.0"


def test_libraries_hide_their_frames():
    code = """
import traceback
import xlafront.as_jax, jax
from jax._src import traceback_util

source = compile("def library(f):\\n    return f()\\n", "/opt/library/file.py", "exec")
exec(source)

@traceback_util.api_boundary
def call():
    return library(lambda: jax.numpy.ones(2) + jax.numpy.ones(3))

for hide in (False, True):
    if hide:
        traceback_util.register_exclusion("/opt/library/")
    try:
        call()
    except TypeError as e:
        print("/opt/library" in "".join(traceback.format_tb(e.__traceback__)))
"""
    assert printed("-c", code) == "True\nFalse"


def test_module_of_tracers_is_jax():
    code = """
import xlafront.as_jax, jax, jax.numpy as jnp
found = set()
def f(x):
    found.add(type(x).__module__.partition(".")[0])
    return x * 1.0
jax.make_jaxpr(f)(1.0), jax.grad(f)(1.0), jax.vmap(f)(jnp.ones(2)), jax.jacfwd(f)(1.0), jax.linearize(f, 1.0)
class Own(jax.core.Tracer):
    pass
print(found, Own.__module__)
"""
    assert printed("-c", code) == "{'jax'} __main__"


def test_jax_package_on_path():
    assert sorted(os.listdir(ON_PATH)) == ["jax", "jax-0.12.0.1.dist-info"]


def test_deprecated_names_warn():
    """Names that JAX still has, with a warning."""
    code = """
import xlafront.as_jax
import jax, jax.core, jax.lib, numpy as np
from jax.experimental.shard_map import shard_map
from jax.interpreters import pxla
from jax.sharding import Mesh, PartitionSpec as P

mesh = Mesh(jax.devices()[:1], ("x",))
print(shard_map(lambda x: x * 2 + jax.lax.axis_index("x"), mesh, (P("x"),), P("x"), check_rep=False)(np.arange(3)))
print(pxla.thread_resources.env.physical_mesh.empty)
with mesh:
    print(pxla.thread_resources.env.physical_mesh == mesh, jax.jit(lambda x: jax.lax.with_sharding_constraint(x, P("x")))(np.ones(2)))
print(jax.core.is_constant_shape((2, 3)), jax.core.is_concrete(1.0), jax.core.no_effects, jax.core.valid_jaxtype("a"))
"""
    assert printed("-c", code) == "[0 2 4]\nTrue\nTrue [1. 1.]\nTrue True frozenset() False"


def test_errors_for_missing_names_have_the_version_of_jax():
    done = python("-c", "import xlafront.as_jax\nfrom jax import util")
    assert "answers for jax 0.12.0.1" in done.stderr and "a release for jax 0.12.0.1" in done.stderr


def test_older_names_warn():
    found = printed("-c", """
import warnings
import xlafront.compat
xlafront.compat.install()
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    from jax.experimental.shard_map import shard_map
    from jax.experimental.shard_map import shard_map
    from jax.experimental.pjit import pjit
print([(w.category.__name__, "use" in str(w.message)) for w in seen])
""")
    assert found == "[('DeprecationWarning', True), ('DeprecationWarning', True)]"
