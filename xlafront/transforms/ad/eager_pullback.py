"""Reverse passes outside of any trace: what recurs is compiled once and runs as one program.

A loop that calls `grad(f)` without `jit` writes the same linear program each time, with other residuals. The first time
it is transposed operation by operation; from the second time on as a compiled function of residuals and cotangents.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from xlafront.core import tracing
from xlafront.core.ir import Literal
from xlafront.core.zeros import Zero
from xlafront.lax.zeros import instantiate
from xlafront.runtime import config
from xlafront.staging.jit import jit
from xlafront.transforms.ad.arguments import weakly_typed_as
from xlafront.transforms.ad.linearize import LinearProgram
from xlafront.transforms.ad.transpose import backward_pass, transpose_linear

LARGEST = 512  # equations: for more, finding the program again takes longer than it saves
KEPT = 256  # programs
_seen: OrderedDict[tuple, Callable | None] = OrderedDict()


def pull_back(program: LinearProgram, cotangents: Sequence[Any], wanted: Sequence[bool] = ()) -> list[Any]:
    """The cotangents of all inputs as arrays, of weakly typed inputs weakly typed; where some are not `wanted`, zeros may stand
    in their places."""
    key = None
    if not all(wanted):
        return _one_by_one(program, cotangents, wanted)
    if tracing.thread.trace is tracing.eval_trace and 0 < len(program.jaxpr.eqns) <= LARGEST:
        key = _fingerprint(program, cotangents)
    if key is None:
        return _one_by_one(program, cotangents)
    compiled = _seen.get(key, _unseen)
    if compiled is _unseen:
        _seen[key] = None
        if len(_seen) > KEPT:
            _seen.popitem(last=False)
        return _one_by_one(program, cotangents)
    if compiled is None:
        compiled = _seen[key] = _compiled(program)
    try:
        active = iter(compiled(program.consts, [ct for ct, used in zip(cotangents, program.outputs) if used]))
    except NotImplementedError:  # a user's primitive that has no lowering
        _seen[key] = _unseen
        return _one_by_one(program, cotangents)
    return [next(active) if used else _as_array(Zero(aval), aval) for used, aval in zip(program.inputs, program.in_avals)]


def _unseen():
    """Stands for a program that is not compiled."""


def _one_by_one(program, cotangents, wanted=()) -> list[Any]:
    return [_as_array(ct, aval) for ct, aval in zip(transpose_linear(program, cotangents, wanted), program.in_avals)]


def _as_array(ct, aval):
    return weakly_typed_as(instantiate(ct), aval) if type(ct) is Zero else ct


def _compiled(program: LinearProgram) -> Callable:
    jaxpr = program.jaxpr
    avals = [v.aval for v in jaxpr.invars]

    def pullback(residuals, cotangents):
        return [_as_array(ct, aval) for ct, aval in zip(backward_pass(jaxpr, residuals, cotangents), avals)]

    return jit(pullback)


def _fingerprint(program: LinearProgram, cotangents) -> tuple | None:
    """Equal for programs that do the same to residuals of the same types; None for those that are not to be compiled.

    Hot: once an eager gradient.
    """
    jaxpr = program.jaxpr
    if jaxpr.effects or config.disable_jit.value or config.debug_nans.value or config.debug_infs.value:
        return None
    number: dict[Any, int] = {}
    for v in (*jaxpr.constvars, *jaxpr.invars):
        number[v] = len(number)
    key: list[Any] = [v.aval for v in number]
    for eqn in jaxpr.eqns:
        primitive, params = eqn.primitive, eqn.params
        if primitive.runs_eagerly or not primitive.lowerings:
            return None
        key.append(primitive)
        if params:
            key += params.values()
        for v in eqn.invars:
            key.append((type(v.val), v.val) if type(v) is Literal else number[v])
        for v in eqn.outvars:
            number[v] = len(number)
    key += [(type(v.val), v.val) if type(v) is Literal else number[v] for v in jaxpr.outvars]
    key += [type(ct) is Zero for ct in cotangents]
    key.append(config.trace_context_key())
    try:
        found = tuple(key)
        hash(found)
    except TypeError:
        return None
    return found
