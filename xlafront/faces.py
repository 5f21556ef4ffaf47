"""Faces: modules that say what is public and where it lives, and hold nothing else.

A face's names are loaded when they are first used, so that importing a face costs nothing. The floors below are
reached by users through faces alone, which is why here is the place that gives arrays their operators.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

from xlafront.runtime.missing_names import missing

# Modules from which nothing can be had that makes or traces arrays.
_WITHOUT_ARRAYS = ("xlafront.runtime.config", "xlafront.runtime.monitoring", "xlafront.core.dtypes", "xlafront.core.errors")


_dictionary: Callable[[ModuleType], dict[str, Any]] = ModuleType.__dict__["__dict__"].__get__


class Face(ModuleType):
    """A module that has all of its names when it is asked for its dictionary: by `vars`, or SymPy's `lambdify(..., xnp)`."""

    @property
    def __dict__(self) -> dict[str, Any]:
        self.__class__ = ModuleType
        names = _dictionary(self)
        names.pop("_load_all")()
        return names


def lazy(face: str, places: dict[str, str], submodules: str = "",
         deprecated: dict[str, str] | None = None) -> tuple[Callable[[str], Any], Callable[[], list], list]:
    """`__getattr__`, `__dir__` and `__all__` of the module `face`.

    `places` names for each module what it offers, separated by spaces; a module that offers functions under names of
    builtins has them in a table `PUBLIC`. `submodules` are modules of the face's own package. `deprecated` says of names what
    to use in their place, which is warned of when they are first asked for.
    """
    module_of = {name: module for module, names in places.items() for name in names.split()}
    modules = frozenset(submodules.split())
    namespace = _dictionary(sys.modules[face])

    def find(name: str) -> Any:
        module = module_of.get(name)
        if module is None:
            if name in modules:
                return import_module(f"{face}.{name}")
            raise missing(face, name, (*module_of, *modules))
        if module not in _WITHOUT_ARRAYS:
            import_module("xlafront.numpy.array_methods")  # operators and methods, before the first array
        if deprecated and name in deprecated:
            warnings.warn(f"{face}.{name} is deprecated: use {deprecated[name]}.", DeprecationWarning, stacklevel=2)
        owner = import_module(module)
        public = _dictionary(owner).get("PUBLIC", ())
        value = namespace[name] = public[name] if name in public else getattr(owner, name)
        return value

    def load() -> None:
        for name in {*module_of, *modules} - {*namespace, *(deprecated or ())}:
            find(name)

    namespace["_load_all"] = load
    sys.modules[face].__class__ = Face
    return find, lambda: sorted({*namespace, *module_of, *modules} - {"lazy"}), sorted(module_of)


def without(face: str) -> Callable[[str], Any]:
    """`__getattr__` of a module that has all of its names, for what its error says."""
    def find(name: str) -> Any:
        raise missing(face, name, tuple(_dictionary(sys.modules[face])))

    return find
