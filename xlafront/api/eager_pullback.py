"""Backward passes outside of `jit`: those that recur are compiled.

A loop that calls `grad(f)` without `jit` stages the same linear jaxpr in each iteration, with other residuals. The first
backward pass runs equation by equation. From the second on, it runs as a compiled function of residuals and cotangents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlafront.base import config
from xlafront.core import tracing
from xlafront.core.bounded_cache import BoundedCache
from xlafront.core.program_key import append_program
from xlafront.core.tangents import instantiate, weakly_typed_as
from xlafront.core.zeros import Zero
from xlafront.staging.jit import jit
from xlafront.staging.jit_primitive import is_compiled_alone
from xlafront.transforms.ad import backward_logs
from xlafront.transforms.ad.linearize import LinearMap
from xlafront.transforms.ad.transpose import backward_pass, transpose_linear

MAX_EQUATIONS = 512  # for larger jaxprs the lookup takes longer than it saves
_compiled: BoundedCache = BoundedCache(256)  # key of a linear jaxpr -> compiled backward pass, None before its second use


def pull_back_with_logs(program: LinearMap, cotangents: Sequence[Any], required: Sequence[bool] = ()
                        ) -> tuple[list[Any], dict[Any, Any]]:
    """Return the result of `pull_back`, and the logs of backward rules."""
    with backward_logs.collect(True) as logs:
        return _equation_by_equation(program, cotangents, required), logs


def pull_back(program: LinearMap, cotangents: Sequence[Any], required: Sequence[bool] = ()) -> list[Any]:
    """Return the cotangents of all inputs as arrays with the weak types of the inputs.

    Cotangents of inputs that are not marked in `required` may be zeros. Default: all are required.
    """
    with backward_logs.collect(False):
        return _pull_back(program, cotangents, required)


def _pull_back(program: LinearMap, cotangents: Sequence[Any], required: Sequence[bool]) -> list[Any]:
    key = None
    if not all(required):
        return _equation_by_equation(program, cotangents, required)
    if tracing.thread.trace is tracing.eval_trace and 0 < len(program.jaxpr.eqns) <= MAX_EQUATIONS:
        key = _key(program, cotangents)
    if key is None:
        return _equation_by_equation(program, cotangents)
    compiled = _compiled.get(key, _new)
    if compiled is _new:
        _compiled.put(key, None)
        return _equation_by_equation(program, cotangents)
    if compiled is None:
        compiled = _compiled[key] = _compile(program)
    try:
        active = iter(compiled(program.consts, [ct for ct, used in zip(cotangents, program.outputs) if used]))
    except NotImplementedError:  # a user's primitive without a lowering
        _compiled[key] = _new
        return _equation_by_equation(program, cotangents)
    return [next(active) if used else _as_array(Zero(aval), aval) for used, aval in zip(program.inputs, program.in_avals)]


def _new():
    """The entry of a jaxpr that is not compiled."""


def _equation_by_equation(program, cotangents, required=()) -> list[Any]:
    return [_as_array(ct, aval) for ct, aval in zip(transpose_linear(program, cotangents, required), program.in_avals)]


def _as_array(ct, aval):
    return weakly_typed_as(instantiate(ct), aval) if type(ct) is Zero else ct


def _compile(program: LinearMap) -> Callable:
    jaxpr = program.jaxpr
    avals = [v.aval for v in jaxpr.invars]

    def pullback(residuals, cotangents):
        return [_as_array(ct, aval) for ct, aval in zip(backward_pass(jaxpr, residuals, cotangents), avals)]

    return jit(pullback)


def _key(program: LinearMap, cotangents) -> tuple | None:
    """Return a key that is equal for jaxprs that are equal up to the names of variables; None if it must not be compiled.

    Hot: once an eager gradient.
    """
    jaxpr = program.jaxpr
    if (jaxpr.effects or config.disable_jit.value or config.debug_nans.value or config.debug_infs.value
            or any([eqn.primitive.traits.runs_eagerly or not eqn.primitive.lowerings or is_compiled_alone(eqn)
                    for eqn in jaxpr.eqns])):
        return None
    entries = [config.trace_context_key(), *[type(ct) is Zero for ct in cotangents]]
    append_program(jaxpr, entries)
    key = tuple(entries)
    try:
        hash(key)
    except TypeError:
        return None
    return key
