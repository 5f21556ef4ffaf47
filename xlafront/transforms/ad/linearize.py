"""Linearisation: a function at a point as its value and a program that is linear in tangents.

Dual values go through the function as in forward mode, but derivative rules run in a `LinearTrace`, which writes down what
involves tangents and hands all else to the trace beneath: one pass gives both. `linearize_program` splits a program so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from xlafront.core import dtypes, source, tracing
from xlafront.core.ir import (
    ClosedJaxpr,
    DebugInfo,
    Jaxpr,
    JaxprEqn,
    Var,
    dce_closed,
    dce_jaxpr,
    dependent_outputs,
    eval_jaxpr,
    jaxpr_as_fun,
    no_effects,
    unknown_origin,
)
from xlafront.core.program_call import ProgramCall
from xlafront.core.refs import AbstractRef
from xlafront.core.tracing import StagedTracer, StagingTrace, current_trace
from xlafront.core.zeros import Zero
from xlafront.lax.all_reductions import pvary_p
from xlafront.lax.shapes import broadcast_in_dim_p
from xlafront.lax.zeros import keep_zeros
from xlafront.staging.library import inlined_p
from xlafront.transforms.ad.jvp import JVPTrace


class LinearTrace(StagingTrace):
    """Writes down operations on tangents; others happen in the trace beneath. The rules of derivatives run in it."""

    __slots__ = ()
    writes_values = False

    def process(self, primitive, args, params):
        for x in args:
            if type(x) is StagedTracer and x._trace is self:
                if primitive.dce is not None:
                    return self.split(primitive, args, params)
                return StagingTrace.process(self, primitive, args, params)
        with current_trace(self.parent):
            return self.parent.process(primitive, args, params)

    def make_varying(self, atoms, axes):
        """As for any program, but values from outside are made so outside: in this one only tangents are computed."""
        outside = dict(self.constants.values())
        made = []
        for v in atoms:
            if v in outside and not axes <= v.aval.vma:
                with current_trace(self.parent):
                    value = pvary_p.bind(outside[v], axes=tuple(sorted(axes - v.aval.vma, key=str)))
                v = self.lift(value)
            made.append(v)
        return StagingTrace.make_varying(self, made, axes)

    def split(self, primitive, args, params):
        """An operation that contains a program may give values and tangents: the values are computed now."""
        tangents = [type(x) is StagedTracer and x._trace is self for x in args]
        if not all(tangents):
            in_avals = tuple([tracing.aval_of(x) for x in args])
            flags = dependent_outputs(primitive, tangents, params)
            if flags is not None and not all(flags):
                outvars = [Var(aval) for aval in primitive.result_types(in_avals, params)]
                effects = no_effects if primitive.effects is None else primitive.effects(*in_avals, **params)
                eqn = JaxprEqn([Var(aval) for aval in in_avals], outvars, primitive, params, effects)
                halves = known_and_linear(eqn, tangents, flags)
                if halves is not None:
                    values = dict(zip(eqn.invars, args))
                    for half, process in zip(halves, (self.process, partial(StagingTrace.process, self))):
                        if half is not None:
                            operands = tuple([values[v] for v in half.invars])
                            values.update(zip(half.outvars, process(half.primitive, operands, half.params)))
                    return [values[v] for v in outvars]
        return StagingTrace.process(self, primitive, args, params)


def known_and_linear(eqn: JaxprEqn, linear: Sequence[bool], dependent: Sequence[bool]
                     ) -> tuple[JaxprEqn | None, JaxprEqn | None] | None:
    """An equation as one for the results that do not depend on linear operands and one for those that do.

    None where what is computed for the former cannot be told from the rest.
    """
    known = eqn.primitive.dce([not d for d in dependent], eqn)
    moving = {v for v, lin in zip(eqn.invars, linear) if lin}
    if known is not None and any(v in moving for v in known.invars):
        return None
    rest = eqn.primitive.dce(list(dependent), eqn) if any(dependent) else None
    if rest is not None:  # a loop goes on to carry what its linear part reads
        results = {v for v, d in zip(eqn.outvars, dependent) if d}
        rest = rest.replace(outvars=[v if v in results else Var(v.aval) for v in rest.outvars])
    return known, rest


class LinearProgram:
    """The derivative of a function at a point: a program in the tangents, with values from the point as constants.

    Of the inputs and results only those with a tangent take part: `inputs[i]` and `outputs[i]` say which. The tangent of a
    reference, whose type is among `in_avals`, is that of the value that it holds at first.
    """

    __slots__ = ("jaxpr", "consts", "inputs", "outputs", "in_avals", "out_avals")

    def __init__(self, jaxpr: Jaxpr, consts: list, inputs: list[bool], outputs: list[bool], in_avals, out_avals):
        self.jaxpr, self.consts = jaxpr, consts
        self.inputs, self.outputs = inputs, outputs
        self.in_avals, self.out_avals = in_avals, out_avals

    def at(self, consts: list) -> LinearProgram:
        """The program with other values."""
        return LinearProgram(self.jaxpr, consts, self.inputs, self.outputs, self.in_avals, self.out_avals)

    def apply(self, tangents: Sequence[Any]) -> list[Any]:
        """Push tangents forward."""
        active = [t for t, used in zip(tangents, self.inputs) if used]
        results = iter(eval_jaxpr(self.jaxpr, self.consts, *active))
        return [next(results) if used else Zero(aval) for used, aval in zip(self.outputs, self.out_avals)]


class LinearizeTrace(JVPTrace):
    """Computes values and writes down tangents."""

    __slots__ = ()

    stages_tangents = True
    kind_of_rules = LinearTrace

    def derivative(self, primitive, primals, tangents, params):
        if primitive.linearize is not None:
            return primitive.linearize(primals, tangents, **params)
        if primitive.jvp is None and isinstance(primitive, ProgramCall):
            return linearize_of_call(primitive, primals, tangents, **params)
        return JVPTrace.derivative(self, primitive, primals, tangents, params)


def linearize_flat(fun: Callable[..., Sequence[Any]], primals: Sequence[Any], active: Sequence[bool],
                   kept: Sequence[bool] = (), origin: DebugInfo = unknown_origin) -> tuple[list[Any], LinearProgram]:
    """Results of `fun`, which is of this origin, and its derivative in the inputs marked active; `kept` as for
    `linearize_program`."""
    parent = tracing.thread.trace
    linear = LinearTrace(parent, origin)
    trace = LinearizeTrace(parent, linear)
    types = [tracing.aval_of(x) for x in primals]
    tangent_avals = [aval.to_tangent_aval() for aval in types]
    used = [bool(a) and (aval.is_high or aval.dtype != dtypes.float0) for a, aval in zip(active, tangent_avals)]
    duals = [trace.argument(x, linear.new_arg(aval)) if u else x for x, aval, u in zip(primals, tangent_avals, used)]
    try:
        with current_trace(trace):
            results = fun(*duals)
            pairs = [trace.unwrap(x) for x in results]
        if kept:
            pairs = list(zip([p for p, _ in pairs], keep_zeros([t for _, t in pairs], kept)))
        outputs = [type(t) is not Zero for _, t in pairs]
        jaxpr, consts = linear.finish([t for _, t in pairs if type(t) is not Zero])
        if scope := source.current_scope.get():  # which is that of where the derivative is used, then
            jaxpr.eqns[:] = [eqn.replace(site=source.outside(scope, eqn.site)) for eqn in jaxpr.eqns]
    finally:
        linear.alive = False
        trace.end()
    out_avals = [tracing.aval_of(p).to_tangent_aval() for p, _ in pairs]
    in_avals = [a if type(a) is AbstractRef else t for a, t in zip(types, tangent_avals)]
    return [p for p, _ in pairs], LinearProgram(jaxpr, consts, used, outputs, in_avals, out_avals)


LinearizeTrace.of_inlined = staticmethod(lambda primals, tangents, /, **params: linearize_of_call(
    inlined_p, primals, tangents, **params))


class LinearizedProgram:
    """A program split in two: `forward` gives results and residuals, `linear` takes residuals and tangents.

    `known[i]` is the number of the input that residual `i` is, or None where `forward` computes it.
    """

    __slots__ = ("forward", "linear", "outputs", "known", "residuals")

    def __init__(self, forward, linear, outputs, known, residuals):
        self.forward, self.linear, self.outputs, self.known, self.residuals = forward, linear, outputs, known, residuals


def linearize_program(closed: ClosedJaxpr, active: tuple[bool, ...], kept: tuple[bool, ...] = ()) -> LinearizedProgram:
    """The two halves of a program; of the results marked in `kept` there are tangents even when they are zero."""
    def make():
        split = LinearizedProgram(None, None, None, [], 0)
        origin = closed.jaxpr.debug_info.with_unknown_names()

        def run(*args):
            results, program = linearize_flat(jaxpr_as_fun(closed), args, active, kept, origin)
            positions = {tracing.identity(x): i for i, x in enumerate(args)}
            split.known = [positions.get(tracing.identity(c)) for c in program.consts]
            computed = [c for c, k in zip(program.consts, split.known) if k is None]
            split.residuals, split.outputs = len(computed), program.outputs
            jaxpr = program.jaxpr
            split.linear = ClosedJaxpr(jaxpr.with_constants_as_inputs(), [])
            return [*results, *computed]

        split.forward = tracing.trace_to_closed_jaxpr(run, closed.in_avals, origin)
        _keep_less(split)
        return split

    return closed.jaxpr.memoised(("linearize", active, kept), make)


def _keep_less(split: LinearizedProgram) -> None:
    """Leave out residuals that the linear half does not read, and in place of values that are spread out keep what they are
    spread out from: a loop collects them, and who asks for a derivative at a point holds them."""
    forward, linear, count = split.forward.jaxpr, split.linear.jaxpr, len(split.known)
    results = forward.outvars[:len(forward.outvars) - split.residuals]
    computed = iter(forward.outvars[len(results):])
    kept = [next(computed) if k is None else forward.invars[k] for k in split.known]
    spread = {eqn.outvars[0]: eqn for eqn in forward.eqns if eqn.primitive is broadcast_in_dim_p}
    pruned, read = dce_jaxpr(linear, [True] * len(linear.outvars), [False] * count + [True] * (len(linear.invars) - count))
    used = [(v, name) for v, name, r in zip(kept, linear.invars, read) if r]
    again = [(spread[v], name) for v, name in used if not v.is_literal and v in spread]
    if all(read) and not again:
        return
    left = {v: name for v, name in used if v.is_literal or v not in spread}  # what is kept, and its name in the linear half
    before = []
    for eqn, name in again:
        [x] = eqn.invars
        before.append(eqn.replace(invars=[x if x.is_literal else left.setdefault(x, Var(x.aval))], outvars=[name]))
    number = {v: i for i, v in enumerate(forward.invars)}
    split.known = [None if v.is_literal else number.get(v) for v in left]
    made = [v for v, k in zip(left, split.known) if k is None]
    split.residuals = len(made)
    split.forward, _ = dce_closed(split.forward.replace(jaxpr=forward.replace(outvars=[*results, *made])),
                                  [True] * (len(results) + len(made)), True)
    split.linear = ClosedJaxpr(pruned.replace(
        invars=[*left.values(), *linear.invars[count:]], eqns=[*before, *pruned.eqns]), [])


def linearize_of_call(call: ProgramCall, primals: Sequence[Any], tangents: Sequence[Any], /, **params) -> tuple[list, list]:
    """The rule of all operations that call a program: a call of each half."""
    closed, count = params[call.parameter], len(primals)
    active = tuple([type(t) is not Zero for t in tangents])
    moving = [i for i, a in enumerate(active) if a]
    split = linearize_program(closed, active)
    outs = range(count, count + len(closed.out_avals))
    found = call.call_of_values(params, split.forward, primals, range(count), [*outs, *[None] * split.residuals],
                                [k for k in split.known if k is not None])
    results, computed = found[:len(outs)], iter(found[len(outs):])
    moved: Any = iter(())
    if any(split.outputs):
        residuals = [next(computed) if k is None else primals[k] for k in split.known]
        moved = iter(call.call(params, split.linear, [*residuals, *[tangents[i] for i in moving]], [
            *[None] * len(residuals), *moving], [o for o, used in zip(outs, split.outputs) if used]))
    return results, [next(moved) if used else Zero(a.to_tangent_aval()) for used, a in zip(split.outputs, closed.out_avals)]
