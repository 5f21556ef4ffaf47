"""A cache of the jaxprs that JVP and transpose rules stage, by operation and types.

A rule is a Python function, and each of its operations passes through the traces. While a jaxpr is under construction, the
equations that a rule stages depend only on the operation, its parameters and the types of operands, tangents and cotangents.
They are traced once and copied afterwards.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from xlafront.base import config
from xlafront.base.jaxlib_compat import ArrayImpl
from xlafront.base.meshes import active
from xlafront.core import source, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.basic_primitives import inline_call_p
from xlafront.core.bounded_cache import BoundedCache
from xlafront.core.ir import DebugInfo, Jaxpr, JaxprEqn, Literal
from xlafront.core.primitive import Primitive
from xlafront.core.program_key import scalar_key
from xlafront.core.tracing import StagedTracer, StagingTrace, Tracer, current_trace
from xlafront.core.zeros import UndefinedPrimal, Zero

if TYPE_CHECKING:
    from xlafront.core.typing import JvpRule, Params, TransposeRule
    from xlafront.transforms.ad.jvp import JVPTrace

_cache = BoundedCache(4096)


def _stages_by_type(trace: Any) -> bool:
    """True if the base trace stages equations and needs only types (no values, named axes or mesh). Hot."""
    while trace.is_transformation:
        trace = trace.parent
    return type(trace) is StagingTrace and trace.evaluate is None and not tracing.thread.axes and active.mesh is None


def caches_jvp(process: Callable) -> Callable:
    """Decorate `JVPTrace.process`: apply the cached equations of a JVP rule where there are some. Hot."""
    @functools.wraps(process)
    def call(trace: JVPTrace, primitive: Primitive, args: tuple, params: Params) -> Any:
        rule = primitive.jvp if primitive.traits.memoise else trace.inline_call_rule if primitive is inline_call_p else None
        if rule is not None and _stages_by_type(trace.parent):
            found = _cached_jvp(primitive, rule, args, params, trace)
            if found is not None:
                dual = trace.tracer_type
                if primitive.multiple_results:
                    return [x if t is None else dual(trace, x, t) for x, t in zip(*found)]
                (result,), (tangent,) = found
                return result if tangent is None else dual(trace, result, tangent)
        return process(trace, primitive, args, params)

    return call


def caches_transpose(inline_call_rule: TransposeRule) -> Callable[[Callable], Callable]:
    """Decorate a function that applies the transpose rule of an equation: apply the rule's cached equations where there are
    some; `inline_call_rule` is the rule of `inline_call_p`. Hot.
    """
    def decorate(transposed: Callable) -> Callable:
        @functools.wraps(transposed)
        def call(eqn: JaxprEqn, cts: list[Any], values: dict) -> Sequence[Any]:
            primitive = eqn.primitive
            rule = primitive.transpose if primitive.traits.memoise else inline_call_rule if primitive is inline_call_p else None
            if rule is not None and _stages_by_type(tracing.thread.trace):
                found = _cached_transpose(eqn, rule, cts, values)
                if found is not None:
                    return found
            return transposed(eqn, cts, values)

        return call

    return decorate


def _apply(trace: Any, program: Jaxpr, operands: list[Any], site: source.Site | None) -> list[Any]:
    """Apply a jaxpr in a trace, inlined where the trace stages equations, and return its results. Hot."""
    if type(trace) is StagingTrace:
        return trace.inline_jaxpr(program, operands, site)
    jaxpr = program.structure
    eqns = jaxpr.eqns
    if not eqns:
        values = dict(zip((*jaxpr.invars, *jaxpr.constvars), (*operands, *program.consts)))
        return [v.val if type(v) is Literal else values[v] for v in jaxpr.outvars]
    with current_trace(trace):
        if len(eqns) > 1 or eqns[0].invars != jaxpr.invars or eqns[0].outvars != jaxpr.outvars:
            return trace.process(inline_call_p, tuple(operands), {"jaxpr": program, "name": "rule"})
        results = trace.process(eqns[0].primitive, tuple(operands), eqns[0].params)
        return results if eqns[0].primitive.multiple_results else [results]


class _StagedJVP(NamedTuple):
    """The equations of a JVP rule.

    In forward mode `primal` maps operands and tangents to results and tangents. In linearization it maps operands to results
    and residuals, and `linear` maps residuals and tangents to tangents.
    """

    primal: Jaxpr
    linear: Jaxpr | None
    forwarded_operands: list[int | None]  # for each residual the position of the operand that it is, None if it is computed
    outputs: list[bool]  # True for each result that has a tangent


def _cached_jvp(primitive: Primitive, rule: JvpRule, args: Sequence[Any], params: Params, trace: JVPTrace
                ) -> tuple[list[Any], list[Any]] | None:
    """Apply an operation to dual values by the cached equations of its JVP rule. Hot.

    Returns:
        Results and tangents; or None if the rule has to run, or no operand has a tangent.
    """
    parent, dual = trace.parent, trace.tracer_type
    tangent_trace: Any = trace.rule_trace
    operands: list[Any] = []
    tangents: list[Any] = []
    kinds: list[bool | None] = []  # whether an argument has a tangent, None for literals
    key: list[Any] = [primitive, rule, trace.rule_trace_type, config.trace_context_key()]
    for x in args:
        kind = type(x)
        if kind is dual and x._trace is trace:
            tangent, aval = x.tangent, x.aval
            if type(aval) is not ShapedArray or not aval.plain or not isinstance(tangent, Tracer) or tangent.aval is not aval:
                return None
            kinds.append(True)
            operands.append(x.primal)
            tangents.append(tangent)
            key += True, aval
        elif isinstance(x, Tracer) or kind is ArrayImpl:
            aval = x.aval
            if type(aval) is not ShapedArray or not aval.plain:
                return None
            kinds.append(False)
            operands.append(x)
            key += False, aval
        else:
            literal = scalar_key(x)
            if literal is None:
                return None
            kinds.append(None)
            key += literal
    if not tangents:
        return None
    try:
        found = _cache.get(entry := (*key, *params.items()), _cache)
    except TypeError:  # a parameter that cannot be hashed
        return None
    if found is _cache:
        found = _cache.put(entry, _stage_jvp(primitive, rule, args, kinds, params, trace.rule_trace_type))
    if found is None:
        return None
    primal, linear, forwarded_operands, outputs = found
    count, site = len(outputs), source.current_site()
    if linear is None:
        values = _apply(parent, primal, operands + tangents, site)
        out_tangents = iter(values[count:])
    else:
        values = _apply(parent, primal, operands, site)
        computed = iter(values[count:])
        residuals = [next(computed) if k is None else operands[k] for k in forwarded_operands]
        out_tangents = iter(tangent_trace.inline_jaxpr(linear, residuals + tangents, site))
    return values[:count], [next(out_tangents) if used else None for used in outputs]


def _stage_jvp(primitive: Primitive, rule: JvpRule, args: Sequence[Any], kinds: Sequence[bool | None],
               params: Params, rule_trace_type: type[StagingTrace] | None) -> _StagedJVP | None:
    """Trace a JVP rule; return None if its equations cannot be reused."""
    if not _is_plain(primitive):
        return None
    forwarded: list[int | None] = []
    outputs: list[bool] = []
    linear: Any = None
    avals = [x.aval for x, k in zip(args, kinds) if k is not None]

    def run(*values: StagedTracer) -> list[Any]:
        nonlocal linear
        tangent_trace = None if rule_trace_type is None else rule_trace_type(
            tracing.thread.trace, DebugInfo("jit", primitive.name))
        rest, given = iter(values[:len(avals)]), iter(values[len(avals):])
        primals, tangents = [], []
        for x, has_tangent in zip(args, kinds):
            primals.append(x if has_tangent is None else next(rest))
            aval = tracing.aval_of(primals[-1]).to_tangent_aval()
            tangents.append(Zero(aval) if not has_tangent else next(given) if tangent_trace is None
                            else tangent_trace.new_arg(aval))
        with current_trace(tangent_trace or tracing.thread.trace):
            results, out_tangents = rule(primals, tangents, **params)
        if not primitive.multiple_results:
            results, out_tangents = [results], [out_tangents]
        outputs.extend([type(t) is not Zero for t in out_tangents])
        out_tangents = [t for t in out_tangents if type(t) is not Zero]
        if tangent_trace is None:
            return [*results, *out_tangents]
        jaxpr, consts = tangent_trace.finish(out_tangents)
        tangent_trace.alive = False
        positions = {tracing.value_id(x): i for i, x in enumerate(values)}
        forwarded.extend([positions.get(tracing.value_id(c)) for c in consts])
        linear = jaxpr.with_constants_as_inputs()
        return [*results, *[c for c, k in zip(consts, forwarded) if k is None]]

    tangent_avals = [x.aval for x, k in zip(args, kinds) if k] if rule_trace_type is None else []
    primal = _trace_rule(run, avals + tangent_avals, primitive)
    if primal is None or linear is not None and linear.effects:
        return None
    return _StagedJVP(primal, linear, forwarded, outputs)


def _cached_transpose(eqn: JaxprEqn, rule: TransposeRule, cts: Sequence[Any], values: dict) -> list[Any] | None:
    """Apply the cached equations of a transpose rule in the current trace. Hot.

    Returns:
        The cotangents of the equation's operands; or None if the rule has to run.
    """
    primitive, trace = eqn.primitive, tracing.thread.trace
    operands: list[Any] = []
    key: list[Any] = [primitive, rule, config.trace_context_key()]
    for v in eqn.invars:
        if type(v) is Literal:
            literal = scalar_key(v.val)
            if literal is None:
                return None
            key += literal
        elif v in values:
            x = values[v]
            if not isinstance(x, Tracer) and type(x) is not ArrayImpl:
                return None
            aval = x.aval
            if type(aval) is not ShapedArray or not aval.plain:
                return None
            operands.append(x)
            key += True, aval
        else:
            aval = v.aval
            if type(aval) is not ShapedArray or not aval.plain:
                return None
            key += False, aval
    for ct in cts:
        if ct is None or type(ct) is Zero:
            key.append(None)
        elif isinstance(ct, Tracer):
            aval = ct.aval
            if type(aval) is not ShapedArray or not aval.plain:
                return None
            operands.append(ct)
            key.append(aval)
        else:
            literal = scalar_key(ct)
            if literal is None:
                return None
            key += literal
    try:
        found = _cache.get(entry := (*key, *eqn.params.items()), _cache)
    except TypeError:  # a parameter that cannot be hashed
        return None
    if found is _cache:
        found = _cache.put(entry, _stage_transpose(eqn, rule, cts, values))
    if found is None:
        return None
    program, given = found
    results = iter(_apply(trace, program, operands, None))
    return [next(results) if g else None for g in given]


def _stage_transpose(eqn: JaxprEqn, rule: TransposeRule, cts: Sequence[Any], values: dict
                     ) -> tuple[Jaxpr, list[bool]] | None:
    """Trace a transpose rule; return None if its equations cannot be reused."""
    if not _is_plain(eqn.primitive):
        return None
    given: list[bool] = []

    def run(*operands: StagedTracer) -> list[Any]:
        rest = iter(operands)
        operand_values = [v.val if type(v) is Literal else next(rest) if v in values else UndefinedPrimal(v.aval)
                          for v in eqn.invars]
        cotangents = [next(rest) if isinstance(ct, Tracer) else Zero(v.aval) if ct is None else ct
                      for ct, v in zip(cts, eqn.outvars)]
        found = rule(cotangents if eqn.primitive.multiple_results else cotangents[0], *operand_values, **eqn.params)
        given.extend([ct is not None and type(ct) is not Zero for ct in found])
        return [ct for ct, g in zip(found, given) if g]

    avals = [values[v].aval for v in eqn.invars if type(v) is not Literal and v in values]
    program = _trace_rule(run, [*avals, *[ct.aval for ct in cts if isinstance(ct, Tracer)]], eqn.primitive)
    return None if program is None or len(given) != len(eqn.invars) else (program, given)


def _is_plain(primitive: Primitive) -> bool:
    """True for operations on arrays without effects that contain no jaxpr, and for `inline_call_p`."""
    structured, traits = primitive.structured, primitive.traits
    return primitive is inline_call_p or (
        traits.memoise and not traits.calls_custom_rule and primitive.effects is None and structured.linearize is None
        and structured.dce is None and structured.discharge is None)


def _trace_rule(run: Callable, avals: list[Any], primitive: Primitive) -> Jaxpr | None:
    """Trace a rule without source locations; return None if it fails or its jaxpr cannot be reused."""
    saved = source.thread.site

    def without_location(*operands: StagedTracer) -> list[Any]:
        source.thread.site = source.NOWHERE
        results = run(*operands)
        if not all([type(x) is StagedTracer for x in results]):
            raise TypeError("a result that is not a value of the jaxpr")
        return results

    try:
        jaxpr, consts = tracing.trace_to_jaxpr(without_location, avals, DebugInfo("jit", primitive.name))
    except Exception:  # the rule will raise it again, on the user's operands
        return None
    finally:
        source.thread.site = saved
    return None if jaxpr.effects or any([isinstance(c, Tracer) for c in consts]) else jaxpr.with_consts(consts)
