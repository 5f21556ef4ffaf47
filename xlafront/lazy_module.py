"""Public modules: modules that list public names, load each on first use, and hold nothing else.

Importing a public module costs nothing, as its names are loaded on first use. Users reach the implementation only through
public modules, so this is the place that gives arrays their operators.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
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


def attach(name: str, exports: dict[str, str], submodules: str = "",
         deprecated: dict[str, str] | None = None) -> tuple[Callable[[str], Any], Callable[[], list], list]:
    """Return `__getattr__`, `__dir__` and `__all__` for the public module called `name`.

    `exports` maps each implementing module to the names that it exports, separated by spaces. A module that exports functions
    under names of builtins has them in a table `PUBLIC`. `submodules` are modules of the public module's own package.
    `deprecated` maps names to their replacements; a warning is given when such a name is first accessed.
    """
    module_of = {attribute: module for module, attributes in exports.items() for attribute in attributes.split()}
    modules = frozenset(submodules.split())
    namespace = _dictionary(sys.modules[name])

    def load(attribute: str) -> Any:
        module = module_of.get(attribute)
        if module is None:
            if attribute in modules:
                return import_module(f"{name}.{attribute}")
            raise missing(name, attribute, (*module_of, *modules))
        if module not in _WITHOUT_ARRAYS:
            import_module("xlafront.numpy.array_methods")  # operators and methods, before the first array
        if deprecated and attribute in deprecated:
            warnings.warn(f"{name}.{attribute} is deprecated: use {deprecated[attribute]}.", DeprecationWarning, stacklevel=2)
        owner = import_module(module)
        public = _dictionary(owner).get("PUBLIC", ())
        value = namespace[attribute] = public[attribute] if attribute in public else getattr(owner, attribute)
        return value

    def load_all() -> None:
        for attribute in {*module_of, *modules} - {*namespace, *(deprecated or ())}:
            load(attribute)

    namespace["_load_all"] = load_all
    sys.modules[name].__class__ = LazyModule
    return load, lambda: sorted({*namespace, *module_of, *modules} - {"lazy"}), sorted(module_of)


def missing_name_handler(name: str) -> Callable[[str], Any]:
    """Return a `__getattr__` for a module whose names are all loaded: it raises an `AttributeError` with similar names."""
    def load(attribute: str) -> Any:
        raise missing(name, attribute, tuple(_dictionary(sys.modules[name])))

    return load
