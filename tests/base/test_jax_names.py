"""Lookups of jax names by jaxlib are answered, `import jax` is refused, and no module `jax` is visible."""

import builtins
import importlib.util
import inspect
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.base import jax_names

INSTALLED = importlib.util.find_spec("jax") is not None


def python(code: str) -> str:
    """Return the output of a process with four devices."""
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "XLAFRONT_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def over_all():
    mesh = xf.make_mesh((xf.device_count(),), ("x",))
    return xf.NamedSharding(mesh, xf.P("x")), xf.NamedSharding(mesh, xf.P())


@pytest.fixture
def lookups(monkeypatch):
    """Return the imports of jax modules that the stand-ins do not answer."""
    found, real = [], builtins.__import__

    def recorded(name, *args):
        if name.split(".")[0] == "jax":
            found.append(name)
        return real(name, *args)

    monkeypatch.setattr(builtins, "__import__", recorded)
    return found


def test_jaxlib_lookups_find_stand_ins(over_all, lookups):
    split, same = over_all
    values = np.arange(4.0 * xf.device_count(), dtype=np.float32)
    x = xf.device_put(values, split)
    np.asarray(x + 0)  # what jaxlib looks up once
    lookups.clear()
    y = x + 1
    assert np.array_equal(np.asarray(y), values + 1)
    assert np.array_equal(np.asarray(xf.device_put(y, same)), values + 1)
    assert [np.asarray(s.data).shape for s in (x * 2).addressable_shards] == [(4,)] * xf.device_count()
    assert np.array_equal(np.asarray(xf.device_put(x * 3, xf.devices()[-1])), values * 3)
    assert float(xnp.sum(x * 0)) == 0
    assert not lookups
    assert xf.device_count() == 1 or type(jax_names.buffers_of(x + 2)[0].sharding) is type(xnp.ones(1).sharding)


def test_other_threads_see_no_module():
    """Some threads read and transfer arrays while others import jax and list the modules."""
    code = """
import sys, threading, time
import numpy as np, xlafront as xf, xlafront.numpy as xnp

mesh = xf.make_mesh((4,), ("x",))
split, same = (xf.NamedSharding(mesh, spec) for spec in (xf.P("x"), xf.P()))
values = np.arange(8, dtype=np.float32)
problems, refusals, done = [], [0], threading.Event()

def work():
    x = xf.device_put(values, split)
    while not done.is_set():
        y = xf.device_put(x + 1, same)
        if not (np.array_equal(np.asarray(x + 1), values + 1) and np.array_equal(np.asarray(y), values + 1)):
            problems.append("values")

def look():
    while not done.is_set():
        try:
            __import__("jax.numpy")
            problems.append("imported")
        except ImportError as e:
            if not str(e).startswith(("No module named 'jax'", "jax cannot be imported after xlafront")) or "package" in str(e):
                problems.append(str(e))
            refusals[0] += 1
        try:
            if any(name == "jax" for name in sys.modules):
                problems.append("seen")
        except RuntimeError as e:
            problems.append(str(e))

np.asarray(xf.device_put(xf.device_put(values, split) + 1, same))  # imports what it needs
sys.setswitchinterval(1e-5)
threads = [threading.Thread(target=f) for f in (work, work, look, look)]
for thread in threads: thread.start()
time.sleep(2)
done.set()
for thread in threads: thread.join()
print(sorted(set(problems)), refusals[0] > 100, sorted(m for m in sys.modules if m.split(".")[0] == "jax"))
"""
    assert python(code) == "[] True ['jax._src.named_sharding', 'jax._src.sharding_impls']"


def test_stand_ins_do_not_affect_other_imports():
    """Libraries that look up a name on all modules get ordinary results."""
    function = eval("lambda: 0")
    function.__module__ = None
    assert pickle.whichmodule(function, "nowhere_at_all") == "__main__"
    assert inspect.getmodule(function) is None
    for name in ("jax._src.named_sharding", "jax._src.sharding_impls"):
        assert not hasattr(sys.modules[name], "nowhere_at_all")


class OtherModule:
    """A finder of jax outside of `sys.path`, as of editable installations."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        return importlib.util.spec_from_loader(name, None) if name == "jax" else None


@pytest.mark.parametrize("how", ["path", "finder"])
def test_import_jax_raises(how, monkeypatch, tmp_path):
    for _ in range(2):  # the second time without a search
        with pytest.raises(ImportError, match="jax cannot be imported" if INSTALLED else "^No module named 'jax'\n.*import xlafront.as_jax"):
            __import__("jax")
    if how == "path":
        (tmp_path / "jax.py").write_text("raise SystemExit('run')\n")
        monkeypatch.syspath_prepend(str(tmp_path))
    else:
        monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, OtherModule])
    for _ in range(2):
        with pytest.raises(ImportError, match="^jax cannot be imported after xlafront.*import xlafront.as_jax"):
            __import__("jax.numpy")
    assert np.asarray(xnp.ones(3) + 1).sum() == 6
    spec = importlib.util.find_spec("jax")
    with pytest.raises(ImportError, match="^jax cannot be imported after xlafront"):
        importlib.util.module_from_spec(spec)
    assert "jax" not in sys.modules


def test_layer_can_stand_in_for_jax():
    """A finder before the refusal decides about `import jax`; lookups of jaxlib still work."""
    code = """
import importlib.util, sys
import numpy as np, xlafront, xlafront.numpy
from xlafront.base import jax_names

class Answer:
    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self) if name in ("jax", "jax.numpy") else None
    def create_module(self, spec):
        return sys.modules["xlafront" + spec.name[3:]]
    def exec_module(self, module):
        pass

sys.meta_path.insert(sys.meta_path.index(jax_names.refusal), Answer())
import jax, jax.numpy as jnp
assert jax is xlafront and jnp is xlafront.numpy
split = jax.NamedSharding(jax.make_mesh((4,), ("x",)), jax.P("x"))
print(np.asarray(jax.device_put(jnp.arange(4), split) + 1))
"""
    assert python(code) == "[1 2 3 4]"


def test_module_loaded_twice():
    """The module is loaded again after a first import failed."""
    code = """
import sys
import xlafront.base.jax_names
first = sys.meta_path[0]
for name in [m for m in sys.modules if m.partition(".")[0] == "xlafront"]:
    del sys.modules[name]
import xlafront.base.jax_names
try:
    __import__("jax")
except ImportError as e:
    print(type(e).__name__, first in sys.meta_path)
"""
    assert python(code).split()[1] == "False"
