"""Forward mode: pairs of a value and a tangent go through a function.

`jvp_flat` runs a function on such pairs, which are `JVPTracer`s; `jvp_program` makes of a program the one that does so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.core import dtypes, tracing
from xlafront.core.avals import str_short
from xlafront.core.discharge import touched_operands
from xlafront.core.ir import ClosedJaxpr, jaxpr_as_fun
from xlafront.core.program_call import ProgramCall
from xlafront.core.refs import AbstractRef, RefTangent
from xlafront.core.tracing import StagingTrace, Trace, Tracer, current_trace
from xlafront.core.zeros import Zero
from xlafront.lax.zeros import keep_zeros
from xlafront.runtime.arrays import ArrayImpl
from xlafront.staging.library import inlined_p
from xlafront.transforms.ad.written_rules import derivative, writes


class JVPTracer(Tracer):
    """A value and its tangent."""

    __slots__ = ("primal", "tangent")

    def __init__(self, trace, primal, tangent):
        self._trace = trace
        self.aval = tracing.aval_of(primal)
        self.primal = primal
        self.tangent = tangent

    def _concrete(self):
        primal = self.primal
        if isinstance(primal, Tracer):
            return primal._concrete()
        return primal if type(primal) is ArrayImpl else np.asarray(primal)

    def _origin(self):
        return self.primal._origin() if isinstance(self.primal, Tracer) else None

    def __repr__(self):
        if self._trace.stages_tangents:
            return f"GradTracer(primal={self.primal}, typeof(tangent)={str_short(self.aval.to_tangent_aval())})"
        return f"JVPTracer(primal={self.primal}, tangent={self.tangent})"


class JVPTrace(Trace):
    """Computes values and tangents; `rules` is the trace in which derivative rules run, of the kind `kind_of_rules` where that
    is not the one beneath."""

    __slots__ = ("rules", "alive")

    composes = True
    stages_tangents = False  # whether operations on tangents are written down
    kind_of_rules: type[StagingTrace] | None = None
    of_inlined: Callable  # the rule of calls of the library's programs, which are inlined

    def __init__(self, parent: Trace, rules: Trace):
        self.parent = parent
        self.rules = rules
        self.alive = True

    def process(self, primitive, args, params):
        """Hot: every operation of a function that is differentiated."""
        rule = primitive.jvp if primitive.memoise else self.of_inlined if primitive is inlined_p else None
        if rule is not None and writes(self.parent):
            found = derivative(primitive, rule, args, params, JVPTracer, self)
            if found is not None:
                results, out_tangents = found
                duals = [x if t is None else JVPTracer(self, x, t) for x, t in zip(results, out_tangents)]
                return duals if primitive.multiple_results else duals[0]
        primals, tangents, active = [], [], False
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
        if primitive.discharge is not None and (touched := touched_operands(primitive, params)):
            from xlafront.lax.refs import bind_on_values  # start-up: 1.2 ms, for programs with references

            return bind_on_values(self, primitive, args, params, touched)
        for i, t in enumerate(tangents):
            if t is None:
                tangents[i] = Zero(tracing.aval_of(primals[i]).to_tangent_aval())
        with current_trace(self.rules):
            if primitive.jvp is None or primitive.linearize is not None:  # it contains a program, or has no derivative
                results, out_tangents = self.derivative(primitive, primals, tangents, params)
            else:
                results, out_tangents = primitive.jvp(primals, tangents, **params)
        if not primitive.multiple_results:
            return self.wrap(results, out_tangents)
        return [self.wrap(p, t) for p, t in zip(results, out_tangents)]

    def derivative(self, primitive, primals, tangents, params):
        """Results and their tangents, by a rule that depends on what the derivative is for."""
        if primitive.jvp is not None:
            return primitive.jvp(primals, tangents, **params)
        if isinstance(primitive, ProgramCall):
            return jvp_of_call(primitive, primals, tangents, **params)
        raise NotImplementedError(
            f"{primitive.shown_as} has no derivative: give the primitive {primitive.name} a rule with "
            f"xlafront.interpreters.ad.primitive_jvps[primitive] = rule, wrap the function in custom_jvp, or hold "
            f"the value constant with lax.stop_gradient.")

    def make_ref(self, primitive, args, params):
        """What is written to a reference may have a tangent, even where its first value has none."""
        primal, tangent = self.unwrap(args[0])
        with current_trace(self.parent):
            ref = self.parent.make_ref(primitive, (primal,), params)
        aval = tracing.aval_of(ref)
        has_tangent = aval.differentiable and isinstance(aval.dtype, np.dtype) and dtypes.is_inexact(aval.dtype)
        return JVPTracer(self, ref, RefTangent(tangent)) if has_tangent else ref

    def argument(self, primal, tangent):
        """An argument of the function that is differentiated."""
        if type(tangent) is Zero:
            return primal
        dual = JVPTracer(self, primal, tangent)
        if type(dual.aval) is AbstractRef and type(tangent) is not RefTangent:
            dual.tangent = RefTangent(tangent)
        return dual

    def wrap(self, primal, tangent):
        return primal if type(tangent) is Zero else JVPTracer(self, primal, tangent)

    def unwrap(self, x) -> tuple[Any, Any]:
        if type(x) is JVPTracer and x._trace is self:
            return x.primal, x.tangent
        return x, Zero(tracing.aval_of(x).to_tangent_aval())


def jvp_flat(fun: Callable[..., Sequence[Any]], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list, list]:
    """Results and their tangents; tangents may be `Zero`, on both sides."""
    parent = tracing.thread.trace
    trace = JVPTrace(parent, parent)
    try:
        with current_trace(trace):
            results = fun(*[trace.argument(p, t) for p, t in zip(primals, tangents)])
            pairs = [trace.unwrap(x) for x in results]
    finally:
        trace.end()
    return [p for p, _ in pairs], [t for _, t in pairs]


def jvp_program(closed: ClosedJaxpr, active: tuple[bool, ...], kept: tuple[bool, ...] = ()
                ) -> tuple[ClosedJaxpr, list[bool]]:
    """`(inputs, active tangents) -> (results, their tangents where not zero)`, and which are not zero.

    Of the results marked in `kept` the tangents are there even when they are zero.
    """
    def make():
        in_avals = closed.in_avals
        nonzero: list[bool] = []

        def run(*args):
            primals, given = args[:len(in_avals)], iter(args[len(in_avals):])
            tangents = [next(given) if a else Zero(v.to_tangent_aval()) for v, a in zip(in_avals, active)]
            results, out_tangents = jvp_flat(jaxpr_as_fun(closed), primals, tangents)
            out_tangents = keep_zeros(out_tangents, kept)
            nonzero[:] = [type(t) is not Zero for t in out_tangents]
            return [*results, *[t for t in out_tangents if type(t) is not Zero]]

        tangent_avals = [v.to_tangent_aval() for v, a in zip(in_avals, active) if a]
        program = tracing.trace_to_closed_jaxpr(run, [*in_avals, *tangent_avals], closed.debug_info.with_unknown_names())
        return program, nonzero

    return closed.jaxpr.memoised(("jvp", active, kept), make)


def jvp_of_call(call: ProgramCall, primals: Sequence[Any], tangents: Sequence[Any], /, **params) -> tuple[list, list]:
    """The rule of all operations that call a program."""
    closed, count = params[call.parameter], len(primals)
    active = tuple([type(t) is not Zero for t in tangents])
    moving = [i for i, a in enumerate(active) if a]
    program, nonzero = jvp_program(closed, active)
    outs = range(count, count + len(nonzero))
    found = call.call_of_values(
        params, program, [*primals, *[tangents[i] for i in moving]], [*range(count), *moving],
        [*outs, *[o for o, nz in zip(outs, nonzero) if nz]], [i for i in moving if tangents[i] is primals[i]])
    moved = iter(found[len(nonzero):])
    return found[:len(nonzero)], [next(moved) if nz else Zero(a.to_tangent_aval()) for nz, a in zip(nonzero, closed.out_avals)]


JVPTrace.of_inlined = staticmethod(lambda primals, tangents, /, **params: jvp_of_call(inlined_p, primals, tangents, **params))
