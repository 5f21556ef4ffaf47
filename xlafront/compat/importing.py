"""How `import jax` comes to xlafront: a finder that is asked before all others, for the modules that `names` lists.

A public module is xlafront's own module, in `sys.modules` under both names. What such a module says of itself (`__name__`,
`__spec__`) stays xlafront's, so that what it holds can be pickled and loaded by either name, but for the `__name__` of those
that libraries know by it. `jax` itself and the modules that have no counterpart are faces of their own, whose names are loaded
from xlafront when they are first used.

Processes that this one starts find the package `jax` of the folder `on_path`, which hands over to xlafront.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from importlib import import_module, util
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from xlafront.compat import names
from xlafront.faces import lazy, without
from xlafront.runtime import jax_names
from xlafront.runtime.missing_names import missing, unknown

# Holds what other processes import, and the metadata by which jax's version is asked for.
ON_PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "on_path")
VARIABLE = "XLAFRONT_AS_JAX"

_lock = threading.RLock()


def install() -> None:
    """Answer `import jax` with xlafront, in this process and in those that `multiprocessing` starts. Twice does no harm.

    >>> xf.compat.install()
    >>> import jax.numpy
    """
    with _lock:
        if finder in sys.meta_path:
            return
        jax_names.refuse_beside_jax()
        for name in names.LOOKED_UP:  # without a moment in which jaxlib finds nothing there
            stand_in = sys.modules.setdefault(name, ModuleType(name))
            stand_in.__spec__ = finder.spec(name)
            _own.exec_module(stand_in)
        for name in names.READY:
            sys.modules[name] = util.module_from_spec(finder.spec(name))
            _own.exec_module(sys.modules[name])
        sys.meta_path.insert(0, finder)  # type: ignore[arg-type]
        if ON_PATH not in sys.path:
            sys.path.insert(min(1, len(sys.path)), ON_PATH)
        os.environ[VARIABLE] = "1"


class _Same:
    """Loads a module of xlafront under its second name."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Others may see it while the import is under way."""
        module = ModuleType(spec.name)
        module.__getattr__ = lambda name: getattr(import_module(names.SAME[spec.name]), name)  # type: ignore[method-assign]
        return module

    def exec_module(self, module: ModuleType) -> None:
        own = sys.modules[module.__name__] = import_module(names.SAME[module.__name__])
        if not hasattr(own, "__getattr__"):
            own.__getattr__ = without(own.__name__)  # type: ignore[method-assign]
        if module.__name__ in names.NAMED:
            own.__name__ = module.__name__
            _name_tracers()


def _name_tracers() -> None:
    """Say of tracers that they are of jax's package: autoray, and with it PennyLane and quimb, know by it whose arrays
    they are."""
    from xlafront.core.tracing import Tracer  # start-up

    def named(kind: type) -> None:
        if kind.__module__.partition(".")[0] == "xlafront":
            kind.__module__ = "jax._src.core"
        made: type
        for made in kind.__subclasses__():
            named(made)

    named(Tracer)
    Tracer.__init_subclass__ = classmethod(named)  # type: ignore[assignment]


class _Own:
    """Makes a module whose names live in several modules of xlafront."""

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        needed_by, places = names.OWN[name]
        module.__doc__ = f"Names for {needed_by}."
        if name in names.MORE_THAN:
            face = import_module(names.MORE_THAN[name])
            places = places | {face.__name__: " ".join(face.__all__)}
            module.__file__, module.__doc__ = face.__file__, face.__doc__
        find, module.__dir__, module.__all__ = lazy(  # type: ignore
            name, places, " ".join(names.CHILDREN.get(name, ())), names.DEPRECATED.get(name))
        module.__getattr__ = _behind(name, find) if name in names.BEHIND else find  # type: ignore[method-assign]


def _behind(module: str, find: Callable[[str], Any]) -> Callable[[str], Any]:
    """`__getattr__` of a private module: what it has of its own, or what public modules have."""
    own = sys.modules[module]
    known = frozenset((*own.__all__, *names.CHILDREN.get(module, ())))

    def find_public(name: str) -> Any:
        if name in known:
            return find(name)
        faces = [import_module(face) for face in names.BEHIND[module]] if not name.startswith("_") else []
        for face in faces:
            if (value := getattr(face, name, None)) is not None:
                return value
        raise missing(module, name, (*known, *[n for face in faces for n in dir(face)]))

    return find_public


_same, _own = _Same(), _Own()


class _Finder:
    """Finds all that is called `jax`, so that nothing of an installed jax is ever run."""

    @staticmethod
    def spec(name: str) -> ModuleSpec:
        loader = _same if name in names.SAME else _own
        return ModuleSpec(name, loader, origin="xlafront", is_package=name in names.CHILDREN)  # type: ignore[arg-type]

    def find_spec(self, name: str, path=None, target=None) -> ModuleSpec | None:
        if name.partition(".")[0] != "jax":
            return None
        if name in names.SAME or name in names.OWN:
            return self.spec(name)
        if sys._getframe(2).f_code.co_name == "_find_and_load_unlocked":  # and not importlib.util.find_spec
            parent, _, child = name.rpartition(".")
            if parent in names.NAMED and util.find_spec(own := f"{names.SAME[parent]}.{child}") is not None:
                import_module(own)  # `from xlafront.numpy import ufuncs` asks for it by the `__name__` of the package
            raise ModuleNotFoundError(unknown(parent, child, names.CHILDREN.get(parent, ())), name=name)
        return None


finder = _Finder()
