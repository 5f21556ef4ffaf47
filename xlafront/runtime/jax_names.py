"""Names of jax in a process without it: those that jaxlib's C++ looks up by import, and what `import jax` comes to.

jaxlib finds a few Python objects by importing jax modules, which here are stand-ins that have ours (`serve`). It imports with
the `__import__` of the Python function that called it, as `PyImport_Import` does, and that of this module knows the stand-ins.
So what makes jaxlib look a name up is called from here (`buffers_of`, `host_copy`, `answered`). From elsewhere the lookup fails
as `import jax` does, and jaxlib goes on with a class of its own, the same one, after some microseconds. Other threads see
nothing of this: there is never a module `jax`.

`import jax` is refused by `refusal`, a finder on `sys.meta_path`. A layer that answers for jax puts a finder of its own before
it, and imports this module before it has a module `jax` (`xlafront.compat` does). The stand-ins are then modules of its own:
it makes them before `serve` does, or gives those that there are more names.
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
_REFUSAL = ("jax cannot be imported after xlafront: both attach their methods to the same array class of jaxlib. "
            "Run jax in a process of its own.")


class _Refusal:
    """Finds an installed jax, so that probing for it stays truthful, and refuses to run it."""

    def __init__(self) -> None:
        self.found: tuple[list, bool] = ([], False)  # where was looked last, and whether jax was there

    def find_spec(self, name, path=None, target=None) -> ModuleSpec | None:
        """Hot for lookups from elsewhere than this module: a search of the disk takes 100 us."""
        if name != "jax":
            return None
        places, installed = self.found
        imports = sys._getframe(2).f_code.co_name == "_find_and_load_unlocked"  # and not importlib.util.find_spec
        if not imports or places != [*sys.path, *sys.meta_path]:
            places = [*sys.path, *sys.meta_path]
            others = [finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec")]
            installed = any([finder.find_spec(name, path, target) is not None for finder in others])
            self.found = places, installed
        if installed:
            return ModuleSpec(name, self)
        if imports:
            raise ModuleNotFoundError("No module named 'jax'", name=name)
        return None

    def create_module(self, spec):
        raise ImportError(_REFUSAL, name="jax")

    def exec_module(self, module):
        raise ImportError(_REFUSAL, name="jax")


refusal = _Refusal()
# First, and alone where this module is loaded a second time.
sys.meta_path[:] = [refusal, *[f for f in sys.meta_path if type(f).__module__ != __name__]]  # type: ignore[list-item]


# Lookups

_served: dict[str, ModuleType] = {}


def serve(module: str, **names: Any) -> None:
    """Answer jaxlib's lookups of `module.name` with our objects, whether or not jax is installed."""
    stand_in = _served[module] = sys.modules.setdefault(module, ModuleType(module))
    for own, value in names.items():
        setattr(stand_in, own, value)


def _import(name, globals=None, locals=None, fromlist=(), level=0):
    """Hot: for each buffer that jaxlib makes an array of. jaxlib takes the module from `sys.modules` then."""
    return _served[name] if name in _served else builtins.__import__(name, globals, locals, fromlist, level)


# What jaxlib imports with, when the functions below call it.
__builtins__ = {**vars(builtins), "__import__": _import}


def answered(function, *args):
    """The result of a function of jaxlib that looks names up."""
    return function(*args)


def buffers_of(array) -> list:
    """The buffers of an array on several devices; jaxlib makes objects of them when it is first asked."""
    return array._arrays


def host_copy(array) -> tuple:
    """The elements of an array on one device as NumPy's, and whether they were copied."""
    return array._single_device_array_to_np_array_did_copy()
