"""Public modules: modules that list public names, load each on first use, and hold nothing else.

Importing a public module costs nothing, as its names are loaded on first use. Users reach the implementation only through
public modules, so this is the place that gives arrays their operators.
"""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any

from xlafront.base.missing_names import missing

# Modules that export nothing that makes or traces arrays.
_WITHOUT_ARRAYS = ("xlafront.base.config", "xlafront.runtime.monitoring", "xlafront.core.dtypes", "xlafront.core.errors")


_dictionary: Callable[[ModuleType], dict[str, Any]] = ModuleType.__dict__["__dict__"].__get__


class LazyModule(ModuleType):
    """A module that loads all of its names when its `__dict__` is read: by `vars`, or by SymPy's `lambdify(..., xnp)`."""

    @property
    def __dict__(self) -> dict[str, Any]:
        self.__class__ = ModuleType
        names = _dictionary(self)
        names.pop("_load_all")()
        return names


class LazyNames:
    """The names that a module loads on first use: the modules that define them, and the deprecated names."""

    def __init__(self, module: str, module_of: dict[str, str], submodules: str = ""):
        self.module, self.module_of, self.submodules = module, module_of, frozenset(submodules.split())
        self.deprecated: dict[str, str] = {}  # names to the texts of warnings

    def load(self, attribute: str) -> Any:
        """Return an attribute of the module, which has not been loaded: its `__getattr__`."""
        namespace = _dictionary(sys.modules[self.module])
        module, text = self.module_of.get(attribute), self.deprecated.get(attribute)
        if module is None and attribute in self.submodules:
            return import_module(f"{self.module}.{attribute}")
        if module is None:
            module, text = former_names.get((self.module, attribute), (None, None))
        if module is None:
            from xlafront.core.traceback_filter import filter_traceback  # start-up

            try:
                raise missing(self.module, attribute, (*self.module_of, *self.submodules), _owners)
            except AttributeError as e:
                filter_traceback(e)
                raise
        if module not in _WITHOUT_ARRAYS:
            with _collection_paused():
                import_module("xlafront.numpy.array_methods")  # operators and methods, before the first array
        if text is not None:
            warnings.warn(text, DeprecationWarning, stacklevel=2)
        owner = import_module(module)
        public = _dictionary(owner).get("PUBLIC", ())
        value = public[attribute] if attribute in public else getattr(owner, attribute)
        if type(value) is FunctionType and "._" not in self.module:  # private modules of jax have the functions themselves
            from xlafront.core.traceback_filter import exported  # start-up

            value = exported(value, self.module, attribute)
        namespace[attribute] = value
        return value

    def load_all(self) -> None:
        for attribute in self.listed() - {*_dictionary(sys.modules[self.module])}:
            self.load(attribute)

    def directory(self) -> list[str]:
        """Return the public names of the module, its `__dir__`: no inner modules, nothing that the module imports."""
        loaded = {name for name, value in _dictionary(sys.modules[self.module]).items() if name.startswith("__") or not (
            name.startswith("_") or value is attach or value is annotations or isinstance(value, ModuleType))}
        return sorted((loaded | self.listed()) - {*self.deprecated})

    def listed(self) -> set[str]:
        return {*self.module_of, *self.submodules} - {*self.deprecated}


@contextmanager
def _collection_paused() -> Iterator[None]:
    """Context without cyclic garbage collection: it would traverse the objects of 150 modules again and again, a fifth of
    the time that these take to import, and find nothing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if not gc.get_freeze_count():  # the user keeps no objects from collection
                gc.freeze()
                gc.unfreeze()  # into the oldest generation, which is traversed last
            gc.enable()


names_of: dict[str, LazyNames] = {}  # by module
# Where users look for a name that another module lacks.
_SEARCHED = ("xlafront", *[f"xlafront.{name}" for name in (
    "numpy", "lax", "nn", "random", "numpy.linalg", "numpy.fft", "scipy.special", "scipy.linalg", "scipy.signal", "scipy.stats",
    "sharding", "tree_util", "image", "ops", "errors", "dtypes", "debug", "experimental.sparse", "experimental.checkify")])


def _owners(name: str) -> list[str]:
    """Return the modules that have a name, of those in which users look for names."""
    return [module for module in _SEARCHED if name in import_module(module).__all__][:2]


# Names that modules no longer list, by module and name: the modules that define them, and the texts of the warnings.
former_names: dict[tuple[str, str], tuple[str, str]] = {}


def attach(name: str, exports: dict[str, str], submodules: str = "",
           deprecated: dict[str, str] | None = None) -> tuple[Callable[[str], Any], Callable[[], list], list]:
    """Return `__getattr__`, `__dir__` and `__all__` for the public module called `name`.

    `exports` maps each implementing module to the names that it exports, separated by spaces. A module that exports functions
    under names of builtins has them in a table `PUBLIC`. `submodules` are modules of the public module's own package.
    `deprecated` maps names to remedies: no list of names has them, and a warning is given when one is first accessed.
    """
    module_of = {attribute: module for module, attributes in exports.items() for attribute in attributes.split()}
    names = names_of[name] = LazyNames(name, module_of, submodules)
    names.deprecated = {old: f"{name}.{old} is deprecated: {remedy}." for old, remedy in (deprecated or {}).items()}
    namespace = _dictionary(sys.modules[name])
    namespace["_load_all"] = names.load_all
    sys.modules[name].__class__ = LazyModule
    return names.load, names.directory, sorted({*module_of} - {*names.deprecated})


def missing_name_handler(name: str) -> Callable[[str], Any]:
    """Return a `__getattr__` for a module whose names are all loaded: it raises an `AttributeError` with similar names."""
    def load(attribute: str) -> Any:
        raise missing(name, attribute, tuple(_dictionary(sys.modules[name])))

    return load
