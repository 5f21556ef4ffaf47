"""Errors for names that a module lacks, with the closest names, and a note where xlafront stands in for jax."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from xlafront.base.version import REFERENCE

_AS_JAX = (" In this process xlafront answers for jax {0}. If jax {0} has this name, please report that it is missing here, "
           "with the line that needs it and what `python -m xlafront info` prints. If a library needs it of another version of "
           "jax, install a release for jax {0}.")

# What to do instead of names that modules no longer have, by module and name.
remedies: dict[tuple[str, str], str] = {}


def missing(module: str, name: str, known: Iterable[str]) -> AttributeError | ImportError:
    """Return the error that the `__getattr__` of a module raises for a name that the module lacks.

    `from module import name` gets an ImportError, because Python would replace an AttributeError by one with a shorter message.
    Functions such as `hasattr` get a message that is cheap to build, since they may try a name on all modules.
    """
    from opcode import opname  # start-up: for a message

    caller = sys._getframe(2)
    opcode = opname[caller.f_code.co_code[caller.f_lasti]] if caller.f_lasti >= 0 else ""
    if opcode == "IMPORT_FROM" and f"{module}.{name}" not in sys.modules:  # a submodule may be loading
        return ImportError(unknown(module, name, known), name=module)
    text = unknown(module, name, known if opcode in ("LOAD_ATTR", "LOAD_METHOD") else ())
    return AttributeError(text, name=name, obj=sys.modules[module])


def unknown(module: str, name: str, known: Iterable[str]) -> str:
    if remedy := remedies.get((module, name)):
        return f"{module} has no {name!r} any more: {remedy}."
    from difflib import get_close_matches  # start-up: 1.4 ms, for a message

    close_matches = get_close_matches(name, known, 2)
    return f"{module} has no {name!r}" + (f"; did you mean {' or '.join(close_matches)}?" if close_matches else ".") + (
        _AS_JAX.format(REFERENCE) if "jax" in sys.modules else "")
