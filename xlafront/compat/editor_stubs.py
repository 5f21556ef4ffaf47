"""The command `python -m xlafront stubs`: a package of type stubs, by which editors read `import jax` as xlafront."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from xlafront.compat import names

_HEAD = "# Written by `python -m xlafront stubs`: types of xlafront under the names of jax.\n"


def stub_of(module: str) -> str:
    """Return the text of the stub of a public module of jax: imports from the modules of xlafront that define its names."""
    if module in names.ALIASES:
        return f"{_HEAD}from {names.ALIASES[module]} import *\n"
    base = names.EXTENDED.get(module, "")
    own = {child: module for child in names.CHILDREN.get(module, ())
           if not child.startswith("_") and names.ALIASES.get(f"{module}.{child}") != f"{base}.{child}"}
    own |= {name: source for source, listed in names.COMPOSED[module][1].items() for name in listed.split()}
    extended = {name: base for name in dir(import_module(base)) if not name.startswith("_")} if base else {}
    return _HEAD + "".join(f"from {source} import {name} as {name}\n" for name, source in {**extended, **own}.items())


def write_stubs(folder: str) -> int:
    """Write the package of stubs.

    Args:
        folder: Folder for the package `jax`. It is created if it does not exist.

    Returns:
        The number of files.
    """
    modules = [name for name in {**names.ALIASES, **names.COMPOSED} if "._" not in name]
    for module in modules:
        path = Path(folder, *module.split("."), "__init__.pyi")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(stub_of(module))
    return len(modules)
