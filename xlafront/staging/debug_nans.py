"""Finding the operation that made a NaN or an infinity: the settings `debug_nans` and `debug_infs`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.core import dtypes, source
from xlafront.core.ir import Literal
from xlafront.runtime import config
from xlafront.runtime.arrays import ArrayImpl


def _bad(x) -> str | None:
    """"NaN" or "infinity" when an array has one and the setting looks for it."""
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
    uncompiled = False  # whether a function is being run again that way


_thread = _Thread()


def check_new(host: np.ndarray, what: str = "an array was made of a value that has") -> None:
    """Refuse a NaN (or infinity) in what is to become an array; `what` says where it comes from."""
    if (kind := _bad(host)) is not None:
        raise FloatingPointError(f"invalid value ({_SHORT[kind]}) encountered: {what} {_one(kind)}. The settings "
                                 "debug_nans and debug_infs look for it.")


def check_finite(name: str, results: Sequence[Any], closed, leaves: Sequence[Any], uncompiled: Callable | None) -> None:
    """Raise FloatingPointError if a result has a NaN (or infinity), naming the operation that it first came from.

    `uncompiled` runs the user's function operation by operation, which may find more: where Python itself divides by zero.
    """
    if not any(_bad(x) for x in results):
        return
    gone = any([isinstance(x, ArrayImpl) and x.is_deleted() for x in leaves])
    if uncompiled is not None and not gone and not _thread.uncompiled:
        _thread.uncompiled = True
        try:
            uncompiled()
        finally:
            _thread.uncompiled = False
    kind, found = next((kind, x) for x in results if (kind := _bad(x)))
    with config.debug_nans(False), config.debug_infs(False):
        # What is known of a function of the library's was traced for whoever called it first.
        where = _first_bad_equation(closed.jaxpr, closed.consts, leaves, kind,
                                    source.current_site() if uncompiled is None else None)
    spread = isinstance(found, ArrayImpl) and len(found.sharding.device_set) > 1
    start = "Invalid value ({}) encountered in sharded computation," if spread else "invalid value ({}) encountered"
    raise FloatingPointError(f"{start.format(_SHORT[kind])}{where}: {name} returned {_one(kind)}. It was found de-optimized, "
                             "operation by operation; the settings debug_nans and debug_infs look for it.")


def check_steps(primitive, operands: Sequence[Any], params: dict[str, Any]) -> None:
    """Raise FloatingPointError for a NaN (or infinity) on the way of an operation that users see run step by step."""
    wanted = [kind for kind, setting in (("NaN", config.debug_nans), ("infinity", config.debug_infs)) if setting.value]
    with config.debug_nans(False), config.debug_infs(False):
        for kind in wanted:
            try:
                primitive.steps(lambda inner, *operands, kind=kind: _run(inner.jaxpr, inner.consts, operands, kind, None),
                                operands, params)
            except _Found as found:
                raise FloatingPointError(
                    f"invalid value ({_SHORT[kind]}) encountered{found}. It does not reach a result of {primitive.name}. The "
                    "settings debug_nans and debug_infs look for it.") from None


class _Found(BaseException):
    """The place of the first operation that made a bad result. No Exception: `steps` may catch what an operation raises."""


def _first_bad_equation(jaxpr, consts, args, kind: str, site: source.Site | None) -> str:
    """Run the program equation by equation until one makes a bad result; `site` is the place of all."""
    if any(isinstance(x, ArrayImpl) and x.is_deleted() for x in args):
        return " (its arguments were donated, so that the operation cannot be searched for)"
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
            if eqn.primitive.calls_program and inner is not None:
                _run(inner.jaxpr, inner.consts, operands, kind, site)
            if eqn.primitive.steps is not None:
                within = None if len(jaxpr.eqns) == 1 else site  # the user's, who called this one operation
                eqn.primitive.steps(lambda inner, *operands: _run(inner.jaxpr, inner.consts, operands, kind, within), operands,
                                    eqn.params)
            raise _Found(f" in {eqn.primitive.shown_as} first, in its result, at {source.describe(site or eqn.site)}")
        values.update(zip(eqn.outvars, results))
    return [value_of(v) for v in jaxpr.outvars]
