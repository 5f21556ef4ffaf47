"""The public names of an installed jax, their parameters and members, and what changed between two versions.

`python tests/beside/inventory.py` prints the names that the Python running it finds; `python -m tests.beside --older` compares.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import json
import os
import pkgutil
import subprocess
import sys
import warnings
from types import ModuleType
from typing import Any

# Parts of jax that are no interface, that start something when they are imported, or that pass on what jaxlib has.
_LEFT_OUT = ("_src", "tools", "collect_profile", "cloud_tpu_init", "mlir")

Inventory = dict[str, dict[str, Any]]  # module -> name -> {"kind", "parameters", "members"}


def public_modules() -> list[ModuleType]:
    """Import jax and all its public modules that can be imported here."""
    jax = importlib.import_module("jax")
    found, pending = [jax], [jax]
    while pending:
        package = pending.pop()
        for info in pkgutil.iter_modules(getattr(package, "__path__", ())):
            if info.name.startswith("_") or info.name in _LEFT_OUT:
                continue
            try:
                module = importlib.import_module(f"{package.__name__}.{info.name}")
            except Exception:  # a library that it needs is missing
                continue
            found.append(module)
            pending.append(module)
    return found


def parameters_of(value: Any) -> list[str] | None:
    """Return the parameters of a function, with simple default values; None if they cannot be read."""
    try:
        listed = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return None
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return [stars.get(p.kind, "") + p.name + (f"={p.default!r}" if isinstance(p.default, (bool, int, float, str, type(None))) else "")
            for p in listed]


def entry(value: Any) -> dict[str, Any]:
    """Describe a public value."""
    if isinstance(value, type):
        members = [name for name in dir(value) if not name.startswith("_")]
        if issubclass(value, enum.Enum):
            return {"kind": "enum", "members": members}
        return {"kind": "class", "members": members, "parameters": parameters_of(value)}
    return {"kind": "function", "parameters": parameters_of(value)} if callable(value) else {"kind": "value"}


def is_of_jax(value: Any) -> bool:
    """False for modules, and for what other libraries define."""
    return not isinstance(value, ModuleType) and (getattr(value, "__module__", None) or "jax").partition(".")[0] in ("jax", "jaxlib")


def inventory() -> Inventory:
    """Return the public names of jax in this process."""
    found: Inventory = {}
    for module in public_modules():
        own = {name: value for name, value in vars(module).items() if not name.startswith("_") and is_of_jax(value)}
        found[module.__name__] = {name: entry(value) for name, value in sorted(own.items())}
    return found


def inventory_of(python: str) -> Inventory:
    """Return the public names of the jax that an interpreter has."""
    done = subprocess.run([python, os.path.abspath(__file__)], capture_output=True, text=True, env={**os.environ, "JAX_PLATFORMS": "cpu"})
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def changes(old: Inventory, new: Inventory) -> list[str]:
    """Describe what differs, a line each: modules, names, parameters, members of classes."""
    lines = [f"+ module {name}" for name in sorted(new.keys() - old.keys())]
    lines += [f"- module {name}" for name in sorted(old.keys() - new.keys())]
    for module in sorted(old.keys() & new.keys()):
        before, after = old[module], new[module]
        lines += [f"+ {module}.{name}" for name in sorted(after.keys() - before.keys())]
        lines += [f"- {module}.{name}" for name in sorted(before.keys() - after.keys())]
        for name in sorted(before.keys() & after.keys()):
            for field, title in (("parameters", "parameter"), ("members", "member")):
                a, b = before[name].get(field) or [], after[name].get(field) or []
                lines += [f"+ {module}.{name}: {title} {x}" for x in b if x not in a]
                lines += [f"- {module}.{name}: {title} {x}" for x in a if x not in b]
    return lines


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(inventory()))
    sys.stdout.flush()
