"""Forward mode: a function runs on dual values, pairs of a primal and a tangent.

`jvp_flat` runs a function on `JVPTracer`s, which hold such pairs. `jvp_program` is the same for a jaxpr.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront.base import config
from xlafront.base.jaxlib_compat import ArrayImpl
from xlafront.core import dtypes, tracing
from xlafront.core.avals import str_short
from xlafront.core.basic_primitives import inline_call_p
from xlafront.core.ir import Jaxpr
from xlafront.core.program_call import ProgramCall
from xlafront.core.ref_operands import bind_on_values, touched_operands
from xlafront.core.refs import AbstractRef, RefTangent
from xlafront.core.tangents import instantiate_where
from xlafront.core.tracing import StagingTrace, Trace, Tracer, current_trace
from xlafront.core.zeros import Zero
from xlafront.transforms.ad.rule_cache import caches_jvp

if TYPE_CHECKING:
    from xlafront.core.primitive import Primitive
    from xlafront.core.typing import JvpRule, Params, Tangent


class JVPTracer(Tracer):
    """A primal value and its tangent."""

    __slots__ = ("primal", "tangent")

    def __init__(self, trace: Trace, primal: Any, tangent: Tangent) -> None:
        self._trace = trace
        self.aval = primal.aval if isinstance(primal, Tracer) else tracing.aval_of(primal)
        self.primal = primal
        self.tangent = tangent

    def _concrete(self) -> Any:
        primal = self.primal
        if isinstance(primal, Tracer):
            return primal._concrete()
        return primal if type(primal) is ArrayImpl else np.asarray(primal)

    def _origin(self) -> Any:
        return self.primal._origin() if isinstance(self.primal, Tracer) else None

    def __repr__(self) -> str:
        if self._trace.stages_tangents:
            return f"GradTracer(primal={self.primal}, typeof(tangent)={str_short(self.aval.to_tangent_aval())})"
        return f"JVPTracer(primal={self.primal}, tangent={self.tangent})"


class JVPTrace(Trace):
    """Computes primals and tangents.

    Args:
        parent: The trace around it.
        rule_trace: The trace in which JVP rules run: the parent, or a trace that separates operations on tangents.
    """

    __slots__ = ("rule_trace", "alive")

    is_transformation = True
    tracer_type = JVPTracer
    stages_tangents = False  # True if operations on tangents are staged
    rule_trace_type: type[StagingTrace] | None = None  # the class of `rule_trace`, if it is not the parent
    inline_call_rule: JvpRule  # the JVP rule of `inline_call_p`

    def __init__(self, parent: Trace, rule_trace: Trace) -> None:
        self.parent = parent
        self.rule_trace = rule_trace
        self.alive = True

    @caches_jvp
    def process(self, primitive: Primitive, args: tuple, params: Params) -> Any:
        """Apply an operation to dual values. Hot: every operation of a function that is differentiated."""
        primals: list[Any] = []
        tangents: list[Any] = []
        active = False
        for x in args:
            if type(x) is JVPTracer and x._trace is self:
                primals.append(x.primal)
                tangents.append(x.tangent)
                active = active or type(x.tangent) is not Zero
            else:
                primals.append(x)
                tangents.append(None)
        if not active:
            with current_trace(self.parent):
                return self.parent.process(primitive, tuple(primals), params)
        if primitive.structured.discharge is not None and (touched := touched_operands(primitive, params)):
            return bind_on_values(self, primitive, args, params, touched)
        for i, t in enumerate(tangents):
            if t is None:
                tangents[i] = Zero(tracing.aval_of(primals[i]).to_tangent_aval())
        with current_trace(self.rule_trace):
            if primitive.jvp is None or primitive.structured.linearize is not None:  # it contains a jaxpr, or has no derivative
                results, out_tangents = self.derivative(primitive, primals, tangents, params)
            else:
                results, out_tangents = primitive.jvp(primals, tangents, **params)
        if not primitive.multiple_results:
            return self.wrap(results, out_tangents)
        return [self.wrap(p, t) for p, t in zip(results, out_tangents)]

    def derivative(self, primitive: Primitive, primals: Sequence[Any], tangents: Sequence[Any], params: Params
                   ) -> tuple[Any, Any]:
        """Return results and tangents of an operation that contains a jaxpr. `LinearizeTrace` overrides this."""
        if primitive.jvp is not None:
            return primitive.jvp(primals, tangents, **params)
        if isinstance(primitive, ProgramCall):
            return jvp_of_call(primitive, primals, tangents, **params)
        raise NotImplementedError(
            f"{primitive.shown_as} has no derivative. Give the primitive {primitive.name} a rule with "
            f"xlafront.interpreters.ad.primitive_jvps[primitive] = rule, wrap the function in custom_jvp, or hold "
            f"the value constant with lax.stop_gradient.")

    def make_ref(self, primitive: Primitive, args: tuple, params: Params) -> Any:
        """Make a reference with a tangent: later writes may have one, even if the initial value has none."""
        primal, tangent = self.unwrap(args[0])
        with current_trace(self.parent):
            ref = self.parent.make_ref(primitive, (primal,), params)
        aval: Any = tracing.aval_of(ref)
        has_tangent = aval.differentiable and isinstance(aval.dtype, np.dtype) and dtypes.is_inexact(aval.dtype)
        return JVPTracer(self, ref, RefTangent(tangent)) if has_tangent else ref

    def argument(self, primal: Any, tangent: Tangent) -> Any:
        """Return an argument of the function that is differentiated."""
        if type(tangent) is Zero:
            return primal
        dual = JVPTracer(self, primal, tangent)
        if type(dual.aval) is AbstractRef and type(tangent) is not RefTangent:
            dual.tangent = RefTangent(tangent)
        return dual

    def wrap(self, primal: Any, tangent: Tangent) -> Any:
        return primal if type(tangent) is Zero else JVPTracer(self, primal, tangent)

    def unwrap(self, x: Any) -> tuple[Any, Any]:
        if type(x) is JVPTracer and x._trace is self:
            return x.primal, x.tangent
        return x, Zero(tracing.aval_of(x).to_tangent_aval())


def jvp_flat(fun: Callable[..., Sequence[Any]], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list, list]:
    """Run a function on primals and tangents; return results and their tangents. Tangents may be `Zero`."""
    parent = tracing.thread.trace
    trace = JVPTrace(parent, parent)
    try:
        with current_trace(trace):
            results = fun(*[trace.argument(p, t) for p, t in zip(primals, tangents)])
            pairs = [trace.unwrap(x) for x in results]
    finally:
        trace.end()
    if config.check_tracer_leaks.value:
        ended = weakref.ref(trace)
        results = trace = None  # type: ignore[assignment]
        tracing.check_leaks(ended, "the function given to jvp")
    return [p for p, _ in pairs], [t for _, t in pairs]


def jvp_program(closed: Jaxpr, active: tuple[bool, ...], instantiate: tuple[bool, ...] = ()
                ) -> tuple[Jaxpr, list[bool]]:
    """Return the JVP of a jaxpr as a jaxpr `(inputs, active tangents) -> (results, nonzero tangents)`.

    Args:
        closed: The jaxpr.
        active: True for each input that has a tangent.
        instantiate: True for each result whose tangent is returned even if it is zero.

    Returns:
        The jaxpr, and for each result whether its tangent is returned. Cached with the jaxpr.
    """
    def make() -> tuple[Jaxpr, list[bool]]:
        in_avals = closed.in_avals

        def run(*args: tracing.StagedTracer) -> tuple[list[Any], list[bool]]:
            primals, given = args[:len(in_avals)], iter(args[len(in_avals):])
            tangents = [next(given) if a else Zero(v.to_tangent_aval()) for v, a in zip(in_avals, active)]
            results, out_tangents = jvp_flat(closed, primals, tangents)
            out_tangents = instantiate_where(out_tangents, instantiate)
            nonzero = [type(t) is not Zero for t in out_tangents]
            return [*results, *[t for t, nz in zip(out_tangents, nonzero) if nz]], nonzero

        tangent_avals = [v.to_tangent_aval() for v, a in zip(in_avals, active) if a]
        return tracing.trace_with_aux(run, [*in_avals, *tangent_avals], closed.debug_info.with_unknown_names())

    return closed.memoised(("jvp", active, instantiate), make)


def jvp_of_call(call: ProgramCall, primals: Sequence[Any], tangents: Sequence[Any], /, **params: Any) -> tuple[list, list]:
    """Return results and tangents of a call of a jaxpr: a call of the JVP of the jaxpr."""
    closed, count = params[call.parameter], len(primals)
    active = tuple([type(t) is not Zero for t in tangents])
    tangent_positions = [i for i, a in enumerate(active) if a]
    program, nonzero = jvp_program(closed, active)
    outs = range(count, count + len(nonzero))
    passed_twice = [i for i in tangent_positions if tangents[i] is primals[i]]  # neither of the two may be donated
    found = call.call_primal(
        params, program, [*primals, *[tangents[i] for i in tangent_positions]], [*range(count), *tangent_positions],
        [*outs, *[o for o, nz in zip(outs, nonzero) if nz]], passed_twice)
    out_tangents = iter(found[len(nonzero):])
    return found[:len(nonzero)], [next(out_tangents) if nz else Zero(a.to_tangent_aval())
                                  for nz, a in zip(nonzero, closed.out_avals)]


JVPTrace.inline_call_rule = staticmethod(
    lambda primals, tangents, /, **params: jvp_of_call(inline_call_p, primals, tangents, **params))
