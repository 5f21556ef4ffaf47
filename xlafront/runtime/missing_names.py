"""Errors for names that a module lacks: they name the nearest, and who it is that lacks them where jax was asked."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from xlafront.runtime.version import REFERENCE

_AS_JAX = (" In this process xlafront answers for jax {0}. If jax {0} has this name, please report that it is missing here, "
           "with the line that needs it and what `python -m xlafront info` prints. If a library needs it of another version of "
           "jax, install a release for jax {0}.")


def missing(face: str, name: str, known: Iterable[str]) -> AttributeError | ImportError:
    """The error that the caller, the `__getattr__` of a module, raises for a name that the module lacks.

    Where it is asked by `from face import name`, an AttributeError would be replaced by an ImportError that says less.
    Functions such as `hasattr`, which may ask all modules for a name, get a text that costs nothing.
    """
    from opcode import opname  # start-up: for a message

    asking = sys._getframe(2)
    asked_by = opname[asking.f_code.co_code[asking.f_lasti]] if asking.f_lasti >= 0 else ""
    if asked_by == "IMPORT_FROM" and f"{face}.{name}" not in sys.modules:  # a submodule that is being loaded is found there
        return ImportError(unknown(face, name, known), name=face)
    text = unknown(face, name, known if asked_by in ("LOAD_ATTR", "LOAD_METHOD") else ())
    return AttributeError(text, name=name, obj=sys.modules[face])


def unknown(face: str, name: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches  # start-up: 1.4 ms, for a message

    near = get_close_matches(name, known, 2)
    return f"{face} has no {name!r}" + (f"; did you mean {' or '.join(near)}?" if near else ".") + (
        _AS_JAX.format(REFERENCE) if "jax" in sys.modules else "")
