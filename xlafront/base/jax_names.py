"""Names of jax in a process without it: those that jaxlib's C++ looks up by import, and the effect of `import jax`.

jaxlib finds a few Python objects by importing jax modules. Here these modules are stand-ins with our objects (`serve`). jaxlib
imports with the `__import__` of the calling Python function, as `PyImport_Import` does, and the `__import__` of this module
finds the stand-ins. So functions that make jaxlib look up a name are called from here (`buffers_of`, `host_copy`, `answered`).
Called from another module, the lookup fails like `import jax`, and jaxlib falls back to its own equal class after some
microseconds. The process never has a module `jax`, so other threads are not affected.

`refusal`, a finder on `sys.meta_path`, refuses `import jax`. A layer that stands in for jax puts its own finder before it, and
imports this module before it has a module `jax` (`xlafront.compat` does). The stand-ins are then modules of that layer: it
creates them before `serve` does, or adds names to them.
"""

from __future__ import annotations

import builtins
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def refuse_beside_jax() -> None:
    if "jax" in sys.modules:
        raise ImportError(
            "xlafront and jax cannot live in one process, because both attach their methods to the same array class of "
            "jaxlib, and jax is already imported. Import only one of them, or run the other in a process of its own. To have "
            "xlafront answer `import jax`, begin the program with `import xlafront.as_jax`.")


refuse_beside_jax()
_REMEDY = ("To run a library that imports jax on xlafront, write `import xlafront.as_jax` before its import, or run the "
           "program by `python -m xlafront run`.")
_REFUSAL = ("jax cannot be imported after xlafront: both attach their methods to the same array class of jaxlib. "
            f"{_REMEDY} To compare with jax, run it in a process of its own.")


class _Refusal:
    """A finder that finds an installed jax, so that checks for its presence are correct, and refuses to load it."""

    def __init__(self) -> None:
        self.found: tuple[list, bool] = ([], False)  # the paths of the last search, and True if jax was found

    def find_spec(self, name, path=None, target=None) -> ModuleSpec | None:
        """Find jax. Hot for lookups from other modules: a search on disk takes 100 us."""
        if name != "jax":
            return None
        search_path, installed = self.found
        is_import = sys._getframe(2).f_code.co_name == "_find_and_load_unlocked"  # not importlib.util.find_spec
        if not is_import or search_path != [*sys.path, *sys.meta_path]:
            search_path = [*sys.path, *sys.meta_path]
            others = [finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec")]
            installed = any([finder.find_spec(name, path, target) is not None for finder in others])
            self.found = search_path, installed
        if installed:
            return ModuleSpec(name, self)
        if is_import:
            missing = ModuleNotFoundError("No module named 'jax'", name=name)
            missing.add_note(_REMEDY)
            raise missing
        return None

    def create_module(self, spec):
        raise ImportError(_REFUSAL, name="jax")

    def exec_module(self, module):
        raise ImportError(_REFUSAL, name="jax")


refusal = _Refusal()
# First; replaces its predecessor if this module is loaded twice.
sys.meta_path[:] = [refusal, *[f for f in sys.meta_path if type(f).__module__ != __name__]]  # type: ignore[list-item]


# Lookups by jaxlib

_served: dict[str, ModuleType] = {}


def serve(module: str, **names: Any) -> None:
    """Answer jaxlib's lookups of `module.name` with our objects, even if jax is installed."""
    stand_in = _served[module] = sys.modules.setdefault(module, ModuleType(module))
    for name, value in names.items():
        setattr(stand_in, name, value)


def _import(name, globals=None, locals=None, fromlist=(), level=0):
    """Import a module for jaxlib. Hot: called for each buffer of which jaxlib makes an array."""
    return _served[name] if name in _served else builtins.__import__(name, globals, locals, fromlist, level)


# The builtins with which jaxlib imports when it is called by the functions below.
__builtins__ = {**vars(builtins), "__import__": _import}


def answered(function, *args):
    """Call a function of jaxlib that looks up names."""
    return function(*args)


def buffers_of(array) -> list:
    """Return the single-device buffers of an array; jaxlib creates the objects on first use."""
    return array._arrays


def host_copy(array) -> tuple:
    """Return the value of a single-device array as a NumPy array, and True if it was copied."""
    return array._single_device_array_to_np_array_did_copy()
