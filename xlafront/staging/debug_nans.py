"""The search for the operation that made a NaN or an infinity: the settings `debug_nans` and `debug_infs`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.base import config
from xlafront.base.jaxlib_compat import ArrayImpl
from xlafront.core import dtypes, source
from xlafront.core.ir import Literal


def _bad(x) -> str | None:
    """Return "NaN" or "infinity" if an array has one and the setting for it is on, else None."""
    if not isinstance(x, (ArrayImpl, np.ndarray, np.generic)) or not dtypes.is_inexact(x.dtype):
        return None
    values = np.asarray(x)
    values = values if values.dtype.kind in "fc" else values.astype(np.float32)
    if config.debug_nans.value and np.isnan(values).any():
        return "NaN"
    if config.debug_infs.value and np.isinf(values).any():
        return "infinity"
    return None


_SHORT = {"NaN": "nan", "infinity": "inf"}


def _one(kind: str) -> str:
    return f"{'an' if kind[0] == 'i' else 'a'} {kind}"


class _Thread(threading.local):
    uncompiled = False  # a function is being run again, operation by operation


_thread = _Thread()


def check_new(host: np.ndarray, context: str = "an array was made of a value that has") -> None:
    """Raise FloatingPointError for a NaN (or infinity) in a new array; `context` says where it comes from."""
    if (kind := _bad(host)) is not None:
        raise FloatingPointError(f"invalid value ({_SHORT[kind]}) encountered: {context} {_one(kind)}. The settings "
                                 "debug_nans and debug_infs look for it.")


def check_finite(name: str, results: Sequence[Any], closed, leaves: Sequence[Any], uncompiled: Callable | None) -> None:
    """Raise FloatingPointError if a result has a NaN (or infinity), with the first operation that made one.

    `uncompiled` runs the user's function operation by operation, which may find more: a division by zero in Python itself.
    """
    if not any(_bad(x) for x in results):
        return
    has_deleted = any([isinstance(x, ArrayImpl) and x.is_deleted() for x in leaves])
    if uncompiled is not None and not has_deleted and not _thread.uncompiled:
        _thread.uncompiled = True
        try:
            uncompiled()
        finally:
            _thread.uncompiled = False
    kind, found = next((kind, x) for x in results if (kind := _bad(x)))
    with config.debug_nans(False), config.debug_infs(False):
        # The sites in the program of an internal function are those of its first caller.
        where = _first_bad_equation(closed, closed.consts, leaves, kind,
                                    source.current_site() if uncompiled is None else None)
    is_sharded = isinstance(found, ArrayImpl) and len(found.sharding.device_set) > 1
    start = "Invalid value ({}) encountered in sharded computation," if is_sharded else "invalid value ({}) encountered"
    raise FloatingPointError(f"{start.format(_SHORT[kind])}{where}: {name} returned {_one(kind)}. It was found de-optimized, "
                             "operation by operation; the settings debug_nans and debug_infs look for it.")


def check_steps(primitive, operands: Sequence[Any], params: dict[str, Any]) -> None:
    """Raise FloatingPointError for a NaN (or infinity) within an operation that users see as several steps."""
    kinds = [kind for kind, setting in (("NaN", config.debug_nans), ("infinity", config.debug_infs)) if setting.value]
    with config.debug_nans(False), config.debug_infs(False):
        for kind in kinds:
            try:
                primitive.structured.debug_steps(
                    lambda inner, *operands, kind=kind: _run(inner, inner.consts, operands, kind, None), operands, params)
            except _Found as found:
                raise FloatingPointError(
                    f"invalid value ({_SHORT[kind]}) encountered{found}. It does not reach a result of {primitive.name}. The "
                    "settings debug_nans and debug_infs look for it.") from None


class _Found(BaseException):
    """Raised with the site of the first operation that made a bad result.

    Not an Exception, since `debug_steps` may catch what operations raise.
    """


def _first_bad_equation(jaxpr, consts, args, kind: str, site: source.Site | None) -> str:
    """Run the program equation by equation until one makes a bad result, and describe it.

    `site`, if given, is reported as the site of every equation.
    """
    if any(isinstance(x, ArrayImpl) and x.is_deleted() for x in args):
        return " (its arguments were donated, so that the operation cannot be found)"
    try:
        _run(jaxpr, consts, args, kind, site)
    except _Found as found:
        return str(found)
    return ""


def _run(jaxpr, consts, args, kind: str, site: source.Site | None) -> list[Any]:
    values = dict(zip(jaxpr.constvars, consts)) | dict(zip(jaxpr.invars, args))

    def value_of(atom):
        return atom.val if type(atom) is Literal else values[atom]

    for eqn in jaxpr.eqns:
        if eqn.effects and not eqn.outvars:  # a callback, which has already run
            continue
        operands = [value_of(v) for v in eqn.invars]
        results = eqn.primitive.bind(*operands, **eqn.params)
        results = results if eqn.primitive.multiple_results else [results]
        with config.debug_nans(kind == "NaN"), config.debug_infs(kind != "NaN"):
            found = any(_bad(x) for x in results)
        if found:
            inner = eqn.params.get("jaxpr")
            if eqn.primitive.structured.only_calls_program and inner is not None:
                _run(inner, inner.consts, operands, kind, site)
            if eqn.primitive.structured.debug_steps is not None:
                within = None if len(jaxpr.eqns) == 1 else site  # of a single operation, the steps have the user's sites
                eqn.primitive.structured.debug_steps(
                    lambda inner, *operands: _run(inner, inner.consts, operands, kind, within), operands, eqn.params)
            raise _Found(f" in {eqn.primitive.shown_as} first, in its result, at {source.describe(site or eqn.site)}")
        values.update(zip(eqn.outvars, results))
    return [value_of(v) for v in jaxpr.outvars]
