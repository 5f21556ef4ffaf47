"""The machinery of differentiation: dual values, linear programs, their transposes.

`JVPTrace` computes with pairs of a value and a tangent. For forward mode the rules run in the trace beneath. For
linearisation they run in a `LinearTrace`, which writes down what involves tangents and hands all else to the trace
beneath: one pass gives both the values and the linear program. Reverse mode is the transpose of that program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from xlafront.core import dtypes, source, tracing
from xlafront.core.discharge import touched_operands
from xlafront.core.ir import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    dependent_outputs,
    eval_jaxpr,
    no_effects,
    unknown_origin,
)
from xlafront.core.refs import AbstractRef, RefTangent
from xlafront.core.tracing import StagedTracer, StagingTrace, Trace, Tracer, current_trace
from xlafront.core.zeros import UndefinedPrimal, Zero
from xlafront.runtime.arrays import ArrayImpl
from xlafront.runtime.jaxlib_compat import NamedSharding
from xlafront.runtime.specs import PartitionSpec


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


class LinearTrace(StagingTrace):
    """Writes down operations on tangents; others happen in the trace beneath."""

    __slots__ = ()

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
                    value = StagingTrace.cast_varying.bind(outside[v], axes=tuple(sorted(axes - v.aval.vma, key=str)))
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


class JVPTrace(Trace):
    """Computes values and tangents; `rules` is the trace in which derivative rules run."""

    __slots__ = ("rules", "alive")

    def __init__(self, parent: Trace, rules: Trace):
        self.parent = parent
        self.rules = rules
        self.alive = True

    def process(self, primitive, args, params):
        """Hot: every operation of a function that is differentiated."""
        if primitive.discharge is not None and (touched := touched_operands(primitive, params)):
            from xlafront.lax.refs import bind_on_values  # start-up: few programs have references

            return bind_on_values(self, primitive, args, params, touched)
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
        for i, t in enumerate(tangents):
            if t is None:
                tangents[i] = Zero(tracing.aval_of(primals[i]).to_tangent_aval())
        with current_trace(self.rules):
            if primitive.linearize is not None and self.rules is not self.parent:
                results, out_tangents = primitive.linearize(primals, tangents, **params)
            elif primitive.jvp is None:
                raise NotImplementedError(
                    f"{primitive.shown_as} has no derivative: give the primitive {primitive.name} a rule with "
                    f"xlafront.interpreters.ad.primitive_jvps[primitive] = rule, wrap the function in custom_jvp, or hold "
                    f"the value constant with lax.stop_gradient.")
            else:
                results, out_tangents = primitive.jvp(primals, tangents, **params)
        if not primitive.multiple_results:
            return self.wrap(results, out_tangents)
        return [self.wrap(p, t) for p, t in zip(results, out_tangents)]

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
        if type(tangent) is not Zero and type(tracing.aval_of(primal)) is AbstractRef:
            return JVPTracer(self, primal, tangent if type(tangent) is RefTangent else RefTangent(tangent))
        return self.wrap(primal, tangent)

    def wrap(self, primal, tangent):
        return primal if type(tangent) is Zero else JVPTracer(self, primal, tangent)

    def unwrap(self, x) -> tuple[Any, Any]:
        if type(x) is JVPTracer and x._trace is self:
            return x.primal, x.tangent
        return x, Zero(tracing.aval_of(x).to_tangent_aval())


def zeros_array(aval):
    """The zero of a type, as an array; of `float0` as NumPy's."""
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    from xlafront.lax.shapes import zeros_of

    zeros = zeros_of(aval)
    explicit = aval.explicit_sharding
    if explicit is None or not (explicit.spec.unreduced or explicit.spec.reduced):
        return zeros
    from xlafront.lax.vma_casts import typed_zeros

    return typed_zeros(zeros, explicit)


def instantiate(tangent):
    return zeros_array(tangent.aval) if type(tangent) is Zero else tangent


def keep_zeros(tangents: Sequence[Any], kept: Sequence[bool]) -> list[Any]:
    """Tangents with zeros as arrays where marked."""
    return [instantiate(t) if keep else t for t, keep in zip(tangents, kept)] if kept else list(tangents)


# Forward mode


def jvp_flat(fun: Callable[..., Sequence[Any]], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list, list]:
    """Results and their tangents; tangents may be `Zero`, on both sides."""
    parent = tracing.thread.trace
    trace = JVPTrace(parent, parent)
    with current_trace(trace):
        results = fun(*[trace.argument(p, t) for p, t in zip(primals, tangents)])
        pairs = [trace.unwrap(x) for x in results]
    trace.alive = False
    return [p for p, _ in pairs], [t for _, t in pairs]


# Linearisation


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

    def apply(self, tangents: Sequence[Any]) -> list[Any]:
        """Push tangents forward."""
        active = [t for t, used in zip(tangents, self.inputs) if used]
        results = iter(eval_jaxpr(self.jaxpr, self.consts, *active))
        return [next(results) if used else Zero(aval) for used, aval in zip(self.outputs, self.out_avals)]

    def transpose(self, cotangents: Sequence[Any]) -> list[Any]:
        """Pull cotangents back."""
        active = [ct for ct, used in zip(cotangents, self.outputs) if used]
        results = iter(backward_pass(self.jaxpr, self.consts, active))
        return [next(results) if used else Zero(aval) for used, aval in zip(self.inputs, self.in_avals)]


def linearize_flat(fun: Callable[..., Sequence[Any]], primals: Sequence[Any], active: Sequence[bool],
                   kept: Sequence[bool] = ()) -> tuple[list[Any], LinearProgram]:
    """Results of `fun`, and its derivative in the inputs marked active; `kept` as for `linearize_program`."""
    parent = tracing.thread.trace
    linear = LinearTrace(parent, unknown_origin)
    trace = JVPTrace(parent, linear)
    tangent_avals = [tracing.aval_of(x).to_tangent_aval() for x in primals]
    used = [bool(a) and aval.dtype != dtypes.float0 for a, aval in zip(active, tangent_avals)]
    duals = [trace.argument(x, linear.new_arg(aval)) if u else x for x, aval, u in zip(primals, tangent_avals, used)]
    try:
        with current_trace(trace):
            results = fun(*duals)
            pairs = [trace.unwrap(x) for x in results]
        if kept:
            pairs = list(zip([p for p, _ in pairs], keep_zeros([t for _, t in pairs], kept)))
        outputs = [type(t) is not Zero for _, t in pairs]
        jaxpr, consts = linear.finish([t for _, t in pairs if type(t) is not Zero])
    finally:
        linear.alive = trace.alive = False
    out_avals = [tracing.aval_of(p).to_tangent_aval() for p, _ in pairs]
    in_avals = [a if type(a) is AbstractRef else t for a, t in zip(map(tracing.aval_of, primals), tangent_avals)]
    return [p for p, _ in pairs], LinearProgram(jaxpr, consts, used, outputs, in_avals, out_avals)


# Transposition


def backward_pass(jaxpr: Jaxpr, consts: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
    """The cotangents of a linear program's inputs from those of its outputs; `Zero` for inputs without influence."""
    values = dict(zip(jaxpr.constvars, consts))
    pending: dict[Any, Any] = {}

    def accumulate(v, ct):
        if ct is None or type(ct) is Zero or type(v) is Literal:
            return
        if tracing.thread.axes:
            ct = _summed(ct, v.aval)
        explicit = v.aval.to_ct_aval().explicit_sharding if v.aval.explicit_sharding is not None else None
        if explicit is not None or (ct.aval if isinstance(ct, Tracer) else tracing.aval_of(ct)).explicit_sharding is not None:
            ct = _split_as(ct, explicit)
        old = pending.get(v)
        pending[v] = ct if old is None else add_cotangents(old, ct)

    for v, ct in zip(jaxpr.outvars, cotangents):
        accumulate(v, ct)
    thread = source.thread
    saved = thread.site
    decided, tracing.thread.compiler_decides = tracing.thread.compiler_decides, True
    try:
        for eqn in reversed(jaxpr.eqns):
            cts = [pending.pop(v, None) for v in eqn.outvars]
            if all(ct is None for ct in cts):
                continue
            thread.site = eqn.site
            cts = [Zero(v.aval if v.aval.explicit_sharding is None else v.aval.to_ct_aval()) if ct is None else ct
                   for ct, v in zip(cts, eqn.outvars)]
            operands = [v.val if type(v) is Literal else values[v] if v in values else UndefinedPrimal(v.aval)
                        for v in eqn.invars]
            rule = eqn.primitive.transpose
            if rule is None:
                raise NotImplementedError(_no_transpose(eqn.primitive))
            results = rule(cts if eqn.primitive.multiple_results else cts[0], *operands, **eqn.params)
            for v, ct in zip(eqn.invars, results):
                if type(v) is not Literal and v not in values:
                    accumulate(v, ct)
    finally:
        thread.site = saved
        tracing.thread.compiler_decides = decided
    return [pending.get(v, None) if pending.get(v) is not None else Zero(
        v.aval if v.aval.explicit_sharding is None else v.aval.to_ct_aval()) for v in jaxpr.invars]


def _no_transpose(primitive) -> str:
    name, how = primitive.shown_as, (f"give the primitive {primitive.name} a rule with "
                                     f"xlafront.interpreters.ad.primitive_transposes[primitive] = rule.")
    if primitive.jvp is None:
        return f"{name} cannot be transposed, as reverse-mode differentiation needs: {how}"
    return (f"{name} cannot be transposed, as it is not linear, or nobody said how: a function given to linear_transpose must "
            f"be linear in its arguments, and a custom_jvp rule in its tangents. If {name} is linear, {how}")


def _summed(ct, aval):
    """The cotangent of a value that is the same on all devices along a mesh axis: the sum of what each of them contributes."""
    beyond = tracing.aval_of(ct).vma - aval.vma
    if aval.explicit_sharding is not None and aval.explicit_sharding.spec.reduced:
        manual = aval.explicit_sharding.spec.reduced - aval.explicit_sharding.mesh.explicit
        found = tracing.aval_of(ct).explicit_sharding
        missing = manual if found is None else manual - found.spec.unreduced
        if missing:
            from xlafront.lax.vma_casts import as_unreduced

            ct = as_unreduced(ct, missing)
        beyond -= manual
    if not beyond:
        return ct
    from xlafront.lax.collective_primitives import psum_invariant_p

    return psum_invariant_p.bind(ct, axes=tuple(sorted(beyond, key=str)))


def _split_as(ct, explicit):
    """The cotangent of a value is split as the value is, and sums that are made in one are still to be made in the other."""
    found = tracing.aval_of(ct).explicit_sharding
    if found is explicit or found == explicit:
        return ct
    from xlafront.lax.resharding import reshard_p

    return reshard_p.bind(ct, target=NamedSharding(found.mesh, PartitionSpec()) if explicit is None else explicit)


def add_cotangents(x, y):
    from xlafront.lax.elementwise import add_any_p

    return add_any_p.bind(x, y)


# Programs as functions: what the rules of operations that contain programs need, once for each program


def _run(closed: ClosedJaxpr):
    return lambda *xs: eval_jaxpr(closed.jaxpr, closed.consts, *xs)


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
            results, out_tangents = jvp_flat(_run(closed), primals, tangents)
            out_tangents = keep_zeros(out_tangents, kept)
            nonzero[:] = [type(t) is not Zero for t in out_tangents]
            return [*results, *[t for t in out_tangents if type(t) is not Zero]]

        tangent_avals = [v.to_tangent_aval() for v, a in zip(in_avals, active) if a]
        program = tracing.trace_to_closed_jaxpr(run, [*in_avals, *tangent_avals], closed.debug_info)
        return program, nonzero

    return closed.jaxpr.memoised(("jvp", active, kept), make)


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

        def run(*args):
            results, program = linearize_flat(_run(closed), args, active, kept)
            positions = {id(x): i for i, x in enumerate(args)}
            split.known = [positions.get(id(c)) for c in program.consts]
            computed = [c for c, k in zip(program.consts, split.known) if k is None]
            split.residuals, split.outputs = len(computed), program.outputs
            jaxpr = program.jaxpr
            split.linear = ClosedJaxpr(jaxpr.replace(constvars=[], invars=[*jaxpr.constvars, *jaxpr.invars]), [])
            return [*results, *computed]

        split.forward = tracing.trace_to_closed_jaxpr(run, closed.in_avals, closed.debug_info)
        return split

    return closed.jaxpr.memoised(("linearize", active, kept), make)


def transpose_program(closed: ClosedJaxpr, linear: tuple[bool, ...], given: tuple[bool, ...], kept: bool = False
                      ) -> tuple[ClosedJaxpr, list[bool]]:
    """`(other inputs, cotangents given) -> cotangents of the linear inputs`, and which of those are not zero.

    With `kept` all of them are there, the zeros too.
    """
    def make():
        jaxpr = closed.jaxpr
        others = [v for v, lin in zip(jaxpr.invars, linear) if not lin]
        program = jaxpr.replace(constvars=[*jaxpr.constvars, *others],
                                invars=[v for v, lin in zip(jaxpr.invars, linear) if lin])
        nonzero: list[bool] = []

        def run(*args):
            values, rest = args[:len(others)], iter(args[len(others):])
            cts = [next(rest) if g else Zero(v.aval) for v, g in zip(jaxpr.outvars, given)]
            # Parts that do not depend on the linear inputs are computed first.
            inner, consts = _known_part(program, [*closed.consts, *values])
            results = backward_pass(inner, consts, cts)
            if kept:
                results = [instantiate(ct) for ct in results]
            nonzero[:] = [type(ct) is not Zero for ct in results]
            return [ct for ct in results if type(ct) is not Zero]

        in_avals = [v.aval for v in others] + [v.aval.to_ct_aval() for v, g in zip(jaxpr.outvars, given) if g]
        return tracing.trace_to_closed_jaxpr(run, in_avals, closed.debug_info), nonzero

    return closed.jaxpr.memoised(("transpose", linear, given, kept), make)


def _known_part(jaxpr: Jaxpr, consts: Sequence[Any]) -> tuple[Jaxpr, list[Any]]:
    """Evaluate the equations that read no input; what is left is linear in the inputs."""
    depends: set = set(jaxpr.invars)
    left = []
    values: dict[Any, Any] = dict(zip(jaxpr.constvars, consts))
    changed = False

    def evaluate(eqn):
        nonlocal changed
        changed = True
        operands = [v.val if type(v) is Literal else values[v] for v in eqn.invars]
        results = eqn.primitive.bind(*operands, **eqn.params)
        values.update(zip(eqn.outvars, results if eqn.primitive.multiple_results else [results]))

    for eqn in jaxpr.eqns:
        marks = [type(v) is not Literal and v in depends for v in eqn.invars]
        if not any(marks):
            evaluate(eqn)
            continue
        if eqn.primitive.dce is not None and not all(marks):
            flags = dependent_outputs(eqn.primitive, marks, eqn.params)
            halves = None if flags is None or all(flags) else known_and_linear(eqn, marks, flags)
            if halves is not None:
                known, eqn = halves
                if known is not None:
                    evaluate(known)
                if eqn is None:
                    continue
        depends.update(eqn.outvars)
        left.append(eqn)
    if not changed:
        return jaxpr, list(consts)
    return jaxpr.replace(constvars=list(values), eqns=left), list(values.values())


def linear_jvp(primitive):
    """The rule of an operation of one operand, which is linear in it."""
    def jvp(primals, tangents, **params):
        answer = primitive.bind(*primals, **params)
        if type(tangents[0]) is Zero:
            return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
        return answer, primitive.bind(*tangents, **params)

    return jvp
