"""Linearization: a function at given primals as its results and a jaxpr that is linear in tangents.

The function runs on dual values as in forward mode, but JVP rules run in a `LinearTrace`, which stages the operations on
tangents and passes all others to its parent. One pass gives both halves. `linearize_program` is the same for a jaxpr.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from xlafront.base import config
from xlafront.core import dtypes, source, tracing
from xlafront.core.basic_primitives import broadcast_in_dim_p, inline_call_p, pvary_p
from xlafront.core.ir import (
    DebugInfo,
    Jaxpr,
    JaxprEqn,
    Var,
    dce_closed,
    dce_jaxpr,
    dependent_outputs,
    eval_jaxpr,
    no_effects,
    unknown_origin,
)
from xlafront.core.program_call import ProgramCall
from xlafront.core.refs import AbstractRef
from xlafront.core.tangents import instantiate_where
from xlafront.core.tracing import StagedTracer, StagingTrace, current_trace
from xlafront.core.zeros import Zero
from xlafront.transforms.ad.jvp import JVPTrace

if TYPE_CHECKING:
    from xlafront.core.primitive import Primitive
    from xlafront.core.typing import Atom, Aval, Marks, Params


class LinearTrace(StagingTrace):
    """The trace of JVP rules: stages operations on tangents and passes other operations to its parent."""

    __slots__ = ()
    stages_equations = False  # of values that are not traced: they are passed to the parent

    def process(self, primitive: Primitive, args: tuple, params: Params) -> Any:
        """Apply an operation of a JVP rule."""
        for x in args:
            if type(x) is StagedTracer and x._trace is self:
                if primitive.structured.dce is not None:
                    return self.split(primitive, args, params)
                return StagingTrace.process(self, primitive, args, params)
        with current_trace(self.parent):
            return self.parent.process(primitive, args, params)

    def make_varying(self, atoms: Sequence[Any], axes: Any) -> Any:
        """Return operands that vary over these axes. Values from outside are cast there: this jaxpr only has tangents."""
        outside = dict(self.constants.values())
        made = []
        for v in atoms:
            if v in outside and not axes <= v.aval.vma:
                with current_trace(self.parent):
                    value = pvary_p.bind(outside[v], axes=tuple(sorted(axes - v.aval.vma, key=str)))
                v = self.lift(value)
            made.append(v)
        return StagingTrace.make_varying(self, made, axes)

    def split(self, primitive: Primitive, args: tuple, params: Params) -> Any:
        """Apply an operation that contains a jaxpr: the results that do not depend on tangents are computed in the parent."""
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


def known_and_linear(eqn: JaxprEqn, linear: Marks, dependent: Marks
                     ) -> tuple[JaxprEqn | None, JaxprEqn | None] | None:
    """Split an equation into one for the results that do not depend on linear operands and one for the results that do.

    Returns:
        The two equations, each None if it has no results; or None if they cannot be separated.
    """
    known = eqn.primitive.structured.dce([not d for d in dependent], eqn)
    linear_vars = {v for v, lin in zip(eqn.invars, linear) if lin}
    if known is not None and any(v in linear_vars for v in known.invars):
        return None
    rest = eqn.primitive.structured.dce(list(dependent), eqn) if any(dependent) else None
    if rest is not None:  # a loop still carries the values that its linear part reads
        results = {v for v, d in zip(eqn.outvars, dependent) if d}
        rest = rest.replace(outvars=[v if v in results else Var(v.aval) for v in rest.outvars])
    return known, rest


class LinearMap:
    """The derivative of a function at given primals: a jaxpr on tangents, whose constants are residuals.

    Args:
        jaxpr: Maps the tangents of the active inputs to those of the active outputs.
        consts: Residuals, the values of its constants.
        inputs: True for each input of the function that has a tangent.
        outputs: True for each output that has one.
        in_avals: Tangent types of the inputs; the type of the reference for references, whose tangent is that of the initial
            value.
        out_avals: Tangent types of the outputs.
        forwards: True if the function computes nothing from the tangents and an output is an input itself: cotangents that
            are Python scalars are then returned as they were given.
    """

    __slots__ = ("jaxpr", "consts", "inputs", "outputs", "in_avals", "out_avals", "forwards")

    def __init__(self, jaxpr: Jaxpr, consts: list[Any], inputs: list[bool], outputs: list[bool], in_avals: Sequence[Aval],
                 out_avals: Sequence[Aval], forwards: bool = False) -> None:
        self.jaxpr, self.consts = jaxpr, consts
        self.inputs, self.outputs = inputs, outputs
        self.in_avals, self.out_avals = in_avals, out_avals
        self.forwards = forwards

    def with_residuals(self, consts: list) -> LinearMap:
        """Return the same jaxpr with other residuals."""
        return LinearMap(self.jaxpr, consts, self.inputs, self.outputs, self.in_avals, self.out_avals, self.forwards)

    def apply(self, tangents: Sequence[Any]) -> list[Any]:
        """Map tangents of the inputs to tangents of the outputs (push them forward)."""
        active = [t for t, used in zip(tangents, self.inputs) if used]
        results = iter(eval_jaxpr(self.jaxpr, self.consts, *active))
        return [next(results) if used else Zero(aval) for used, aval in zip(self.outputs, self.out_avals)]


class LinearizeTrace(JVPTrace):
    """Computes primals and stages operations on tangents."""

    __slots__ = ()

    stages_tangents = True
    rule_trace_type = LinearTrace

    def derivative(self, primitive: Primitive, primals: Sequence[Any], tangents: Sequence[Any], params: Params
                   ) -> tuple[Any, Any]:
        if primitive.structured.linearize is not None:
            return primitive.structured.linearize(primals, tangents, **params)
        if primitive.jvp is None and isinstance(primitive, ProgramCall):
            return linearize_of_call(primitive, primals, tangents, **params)
        return JVPTrace.derivative(self, primitive, primals, tangents, params)


def linearize_flat(fun: Callable[..., Sequence[Any]], primals: Sequence[Any], active: Marks,
                   instantiate: Sequence[bool] = (), debug_info: DebugInfo = unknown_origin) -> tuple[list[Any], LinearMap]:
    """Run a function and linearize it at the primals.

    Args:
        fun: The function, of flat sequences.
        primals: Its arguments.
        active: True for each argument in which it is differentiated.
        instantiate: True for each result whose tangent is returned even if it is zero.
        debug_info: Names of the function, for messages.

    Returns:
        The results and the derivative.
    """
    parent = tracing.thread.trace
    linear = LinearTrace(parent, debug_info)
    trace = LinearizeTrace(parent, linear)
    types = [tracing.aval_of(x) for x in primals]
    tangent_avals = [aval.to_tangent_aval() for aval in types]
    used = [bool(a) and (aval.is_high or aval.dtype != dtypes.float0) for a, aval in zip(active, tangent_avals)]
    duals = [trace.argument(x, linear.new_arg(aval)) if u else x for x, aval, u in zip(primals, tangent_avals, used)]
    try:
        with current_trace(trace):
            results = fun(*duals)
            pairs = [trace.unwrap(x) for x in results]
        if instantiate:
            pairs = list(zip([p for p, _ in pairs], instantiate_where([t for _, t in pairs], instantiate)))
        outputs = [type(t) is not Zero for _, t in pairs]
        jaxpr, consts = linear.finish([t for _, t in pairs if type(t) is not Zero])
        if scope := source.current_scope.get():  # the derivative gets the scope in which it is used
            jaxpr.eqns[:] = [eqn.replace(site=source.outside(scope, eqn.site)) for eqn in jaxpr.eqns]
    finally:
        linear.alive = False
        trace.end()
    out_avals = [tracing.aval_of(p).to_tangent_aval() for p, _ in pairs]
    in_avals = [a if type(a) is AbstractRef else t for a, t in zip(types, tangent_avals)]
    forwards = not jaxpr.eqns and not {id(x) for x in duals}.isdisjoint([id(x) for x in results])
    if config.check_tracer_leaks.value:
        ended = weakref.ref(trace)
        duals = results = trace = None  # type: ignore[assignment]
        tracing.check_leaks(ended, "the differentiated function")
    return [p for p, _ in pairs], LinearMap(jaxpr, consts, used, outputs, in_avals, out_avals, forwards)


LinearizeTrace.inline_call_rule = staticmethod(
    lambda primals, tangents, /, **params: linearize_of_call(inline_call_p, primals, tangents, **params))


class LinearizedJaxpr:
    """A linearized jaxpr in two halves.

    Attributes:
        forward: Maps the inputs to the results and the computed residuals.
        linear: Maps all residuals and the tangents of the active inputs to the tangents of the active outputs.
        outputs: True for each result that has a tangent.
        forwarded_inputs: For each residual the position of the input that it is, None if `forward` computes it.
        num_computed: Number of residuals that `forward` computes.
    """

    __slots__ = ("forward", "linear", "outputs", "forwarded_inputs", "num_computed")

    forward: Jaxpr
    linear: Jaxpr
    outputs: list[bool]
    forwarded_inputs: list[int | None]
    num_computed: int


def linearize_program(closed: Jaxpr, active: tuple[bool, ...], instantiate: tuple[bool, ...] = ()) -> LinearizedJaxpr:
    """Linearize a jaxpr. The result is cached with it.

    Args:
        closed: The jaxpr.
        active: True for each input that has a tangent.
        instantiate: True for each result that has a tangent even if it is zero.
    """
    def make() -> LinearizedJaxpr:
        split = LinearizedJaxpr()
        debug_info = closed.debug_info.with_unknown_names()

        def run(*args: StagedTracer) -> list[Any]:
            results, program = linearize_flat(closed, args, active, instantiate, debug_info)
            positions = {tracing.value_id(x): i for i, x in enumerate(args)}
            split.forwarded_inputs = [positions.get(tracing.value_id(c)) for c in program.consts]
            computed = [c for c, k in zip(program.consts, split.forwarded_inputs) if k is None]
            split.num_computed, split.outputs = len(computed), program.outputs
            split.linear = program.jaxpr.with_constants_as_inputs()
            return [*results, *computed]

        split.forward = tracing.trace_to_closed_jaxpr(run, closed.in_avals, debug_info)
        _prune_residuals(split)
        return split

    return closed.memoised(("linearize", active, instantiate), make)


def _prune_residuals(split: LinearizedJaxpr) -> None:
    """Drop residuals that the linear half does not read, and save the operands of broadcasts in place of their results.

    Residuals take memory: loops stack them over iterations, and a linearized function holds them as long as it lives.
    """
    forward, linear, count = split.forward, split.linear, len(split.forwarded_inputs)
    results = forward.outvars[:len(forward.outvars) - split.num_computed]
    computed = iter(forward.outvars[len(results):])
    residuals = [next(computed) if k is None else forward.invars[k] for k in split.forwarded_inputs]
    broadcasts = {eqn.outvars[0]: eqn for eqn in forward.eqns if eqn.primitive is broadcast_in_dim_p}
    pruned, read = dce_jaxpr(linear, [True] * len(linear.outvars), [False] * count + [True] * (len(linear.invars) - count))
    used = [(v, var) for v, var, r in zip(residuals, linear.invars, read) if r]
    recomputed = [(broadcasts[v], var) for v, var in used if not v.is_literal and v in broadcasts]
    if all(read) and not recomputed:
        return
    saved = {v: var for v, var in used if v.is_literal or v not in broadcasts}  # residual -> its variable in the linear half
    broadcast_eqns = []
    for eqn, var in recomputed:
        [x] = eqn.invars
        broadcast_eqns.append(eqn.replace(invars=[x if x.is_literal else saved.setdefault(x, Var(x.aval))], outvars=[var]))
    position: dict[Atom, int] = {v: i for i, v in enumerate(forward.invars)}
    split.forwarded_inputs = [None if v.is_literal else position.get(v) for v in saved]
    outvars = [*results, *[v for v, k in zip(saved, split.forwarded_inputs) if k is None]]
    split.num_computed = len(outvars) - len(results)
    split.forward, _ = dce_closed(forward.replace(outvars=outvars), [True] * len(outvars), True)
    split.linear = pruned.replace(
        invars=[*saved.values(), *linear.invars[count:]], eqns=[*broadcast_eqns, *pruned.eqns])


def linearize_of_call(call: ProgramCall, primals: Sequence[Any], tangents: Sequence[Any], /, **params: Any
                      ) -> tuple[list, list]:
    """Return results and tangents of a call of a jaxpr: a call of each half of the linearized jaxpr."""
    closed, count = params[call.parameter], len(primals)
    active = tuple([type(t) is not Zero for t in tangents])
    tangent_positions = [i for i, a in enumerate(active) if a]
    split = linearize_program(closed, active)
    outs = range(count, count + len(closed.out_avals))
    found = call.call_primal(params, split.forward, primals, range(count), [*outs, *[None] * split.num_computed],
                                [k for k in split.forwarded_inputs if k is not None])
    results, computed = found[:len(outs)], iter(found[len(outs):])
    out_tangents: Any = iter(())
    if any(split.outputs):
        residuals = [next(computed) if k is None else primals[k] for k in split.forwarded_inputs]
        out_tangents = iter(call.call(params, split.linear, [*residuals, *[tangents[i] for i in tangent_positions]], [
            *[None] * len(residuals), *tangent_positions], [o for o, used in zip(outs, split.outputs) if used]))
    return results, [next(out_tangents) if used else Zero(a.to_tangent_aval())
                     for used, a in zip(split.outputs, closed.out_avals)]
