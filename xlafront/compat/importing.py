"""The import hook for `import jax`: a finder at the beginning of `sys.meta_path`, for the modules listed in `names`.

A public module is xlafront's own module, in `sys.modules` under both names. Its attributes `__name__` and `__spec__` are those
of xlafront, so that its objects can be pickled and loaded under either name; only modules that libraries identify by `__name__`
get that of jax. `jax` itself and modules without a counterpart are lazy modules, whose names are loaded from xlafront on first
use.

Child processes find the package `jax` in the folder `on_path`, which installs xlafront.
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

from xlafront.base import jax_names
from xlafront.base.missing_names import missing, remedies, unknown
from xlafront.compat import names
from xlafront.compat.former_names import FORMER, REMOVED
from xlafront.lazy_module import attach, former_names, missing_name_handler

# The folder with the package `jax` for child processes, and with the metadata of its version.
ON_PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "on_path")
VARIABLE = "XLAFRONT_AS_JAX"

_lock = threading.RLock()


def install() -> None:
    """Make `import jax` give xlafront, in this process and in those that `multiprocessing` starts. Calling it twice is safe.

    Example:
        >>> xf.compat.install()
        >>> import jax.numpy
    """
    with _lock:
        if finder in sys.meta_path:
            return
        jax_names.refuse_beside_jax()
        for name in names.USED_BY_JAXLIB:  # in place, so that jaxlib finds their names at any time
            module = sys.modules.setdefault(name, ModuleType(name))
            module.__spec__ = finder.spec(name)
            _composed_loader.exec_module(module)
        for (name, old), former in FORMER.items():
            former_names[names.ALIASES.get(name, name), old] = former.module, former.warning(name, old)
        for (name, old), remedy in REMOVED.items():
            remedies[names.ALIASES.get(name, name), old] = remedy
        for name in names.PRELOADED:
            sys.modules[name] = util.module_from_spec(finder.spec(name))
            _composed_loader.exec_module(sys.modules[name])
        sys.meta_path.insert(0, finder)  # type: ignore[arg-type]
        if ON_PATH not in sys.path:
            sys.path.insert(min(1, len(sys.path)), ON_PATH)
        os.environ[VARIABLE] = "1"


class _AliasLoader:
    """A loader of a module of xlafront under its jax name."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return a module that forwards to xlafront, as other threads may see it during the import."""
        module = ModuleType(spec.name)
        module.__getattr__ = lambda name: getattr(import_module(names.ALIASES[spec.name]), name)  # type: ignore[method-assign]
        return module

    def exec_module(self, module: ModuleType) -> None:
        own = sys.modules[module.__name__] = import_module(names.ALIASES[module.__name__])
        if not hasattr(own, "__getattr__"):
            own.__getattr__ = missing_name_handler(own.__name__)  # type: ignore[method-assign]
        if module.__name__ in names.RENAMED:
            own.__name__ = module.__name__
            _name_tracers()


def _name_tracers() -> None:
    """Set the `__module__` of tracer classes to that of jax, by which autoray (PennyLane, quimb) recognizes jax arrays."""
    from xlafront.core.tracing import Tracer  # start-up

    def rename(cls: type) -> None:
        if cls.__module__.partition(".")[0] == "xlafront":
            cls.__module__ = "jax._src.core"
        subclass: type
        for subclass in cls.__subclasses__():
            rename(subclass)

    rename(Tracer)
    Tracer.__init_subclass__ = classmethod(rename)  # type: ignore[assignment]


class _ComposedLoader:
    """A loader of a module whose names are defined in several modules of xlafront."""

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        needed_by, exports = names.COMPOSED[name]
        module.__doc__ = f"Names for {needed_by}."
        if name in names.EXTENDED:
            base = import_module(names.EXTENDED[name])
            exports = exports | {base.__name__: " ".join(base.__all__)}
            module.__file__, module.__doc__ = base.__file__, base.__doc__
        load, module.__dir__, module.__all__ = attach(  # type: ignore
            name, exports, " ".join(names.CHILDREN.get(name, ())))
        module.__getattr__ = _private_loader(name, load) if name in names.PRIVATE else load  # type: ignore[method-assign]


def _private_loader(module: str, load: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return `__getattr__` for a private module: its own names, then those of public modules."""
    own = sys.modules[module]
    known = frozenset((*own.__all__, *names.CHILDREN.get(module, ())))

    def load_public(name: str) -> Any:
        if name in known:
            return load(name)
        public = [import_module(path) for path in names.PRIVATE[module]] if not name.startswith("_") else []
        for public_module in public:
            if (value := getattr(public_module, name, None)) is not None:
                return value
        raise missing(module, name, (*known, *[n for public_module in public for n in dir(public_module)]))

    return load_public


_alias_loader, _composed_loader = _AliasLoader(), _ComposedLoader()


class _Finder:
    """The finder of all modules called `jax`, so that an installed jax is never imported."""

    @staticmethod
    def spec(name: str) -> ModuleSpec:
        loader = _alias_loader if name in names.ALIASES else _composed_loader
        return ModuleSpec(name, loader, origin="xlafront", is_package=name in names.CHILDREN)  # type: ignore[arg-type]

    def find_spec(self, name: str, path=None, target=None) -> ModuleSpec | None:
        if name.partition(".")[0] != "jax":
            return None
        if name in names.ALIASES or name in names.COMPOSED:
            return self.spec(name)
        if sys._getframe(2).f_code.co_name == "_find_and_load_unlocked":  # an import, not importlib.util.find_spec
            parent, _, child = name.rpartition(".")
            if parent in names.RENAMED and util.find_spec(own := f"{names.ALIASES[parent]}.{child}") is not None:
                import_module(own)  # `from xlafront.numpy import ufuncs` uses the `__name__` of the package
            raise ModuleNotFoundError(unknown(parent, child, names.CHILDREN.get(parent, ())), name=name)
        return None


finder = _Finder()
