"""What rules of derivatives write into programs, kept for each operation and the kinds of its operands.

Rules are Python functions, whose every operation goes through the traces. In programs under construction what they write
depends on the operation, its parameters and the types of operands, tangents and cotangents alone: it is made once and copied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlafront.core import dtypes, source, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.dtypes import python_scalar_dtypes
from xlafront.core.ir import ClosedJaxpr, DebugInfo, JaxprEqn, Literal
from xlafront.core.memo import Memo
from xlafront.core.primitive import Primitive
from xlafront.core.tracing import StagedTracer, StagingTrace, Tracer, current_trace
from xlafront.core.zeros import UndefinedPrimal, Zero
from xlafront.runtime import config
from xlafront.runtime.arrays import ArrayImpl
from xlafront.runtime.meshes import active
from xlafront.staging.library import inlined_p

_kept = Memo(4096)
_SCALARS = frozenset([d.type for d in dtypes.supported if d.kind in "biufcV"])  # of NumPy


def writes(trace: Any) -> bool:
    """Whether what happens in a trace is written down, and depends on nothing but types. Hot."""
    while trace.composes:
        trace = trace.parent
    return type(trace) is StagingTrace and trace.evaluate is None and not tracing.thread.axes and active.mesh is None


def _write(trace: Any, program: ClosedJaxpr, operands: list[Any], site: source.Site | None) -> list[Any]:
    """What a program gives in a trace: a copy of it, or what the trace makes of a call of it. Hot."""
    if type(trace) is StagingTrace:
        return trace.write_down(program, operands, site)
    jaxpr = program.jaxpr
    eqns = jaxpr.eqns
    if not eqns:
        values = dict(zip((*jaxpr.invars, *jaxpr.constvars), (*operands, *program.consts)))
        return [v.val if type(v) is Literal else values[v] for v in jaxpr.outvars]
    with current_trace(trace):
        if len(eqns) > 1 or eqns[0].invars != jaxpr.invars or eqns[0].outvars != jaxpr.outvars:
            return trace.process(inlined_p, tuple(operands), {"jaxpr": program, "name": "rule"})
        results = trace.process(eqns[0].primitive, tuple(operands), eqns[0].params)
        return results if eqns[0].primitive.multiple_results else [results]


def _number(x: Any) -> tuple[type, Any] | None:
    """A number as a part of keys: it stands in programs as such."""
    kind = type(x)
    if kind in python_scalar_dtypes:
        return kind, repr(x)  # -0.0 is another number than 0.0, nan the same as nan
    return (kind, x.tobytes()) if kind in _SCALARS else None


class _Derivative:
    """What a rule of derivatives writes: `values` gives results and then what `linear` reads before the tangents, but for
    operands (`known` numbers those). Without `linear` it takes tangents after the operands, and gives them after the results.
    `outputs` says which results have one."""

    __slots__ = ("values", "linear", "known", "outputs")

    def __init__(self, values: ClosedJaxpr, linear: ClosedJaxpr | None, known: list[int | None], outputs: list[bool]):
        self.values, self.linear, self.known, self.outputs = values, linear, known, outputs


def derivative(primitive: Primitive, rule: Callable, args: Sequence[Any], params: dict[str, Any], dual: type, trace: Any
               ) -> tuple[list[Any], list[Any]] | None:
    """Results and tangents of an operation on dual values of a trace, as its rule writes them into the trace beneath and that
    of tangents; None where the rule has to run, or nothing is to be differentiated. Hot."""
    parent, moving = trace.parent, trace.rules
    operands: list[Any] = []
    tangents: list[Any] = []
    kinds: list[bool | None] = []  # whether an argument moves, None for numbers
    key: list[Any] = [primitive, rule, trace.kind_of_rules, config.trace_context_key()]
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
            number = _number(x)
            if number is None:
                return None
            kinds.append(None)
            key += number
    if not tangents:
        return None
    try:
        found = _kept.get(entry := (*key, *params.items()), _kept)
    except TypeError:  # a parameter that cannot be hashed
        return None
    if found is _kept:
        found = _kept.keep(entry, _derivative(primitive, rule, args, kinds, params, trace.kind_of_rules))
    if found is None:
        return None
    count, site = len(found.outputs), source.current_site()
    if found.linear is None:
        values = _write(parent, found.values, operands + tangents, site)
        moved = iter(values[count:])
    else:
        values = _write(parent, found.values, operands, site)
        rest = iter(values[count:])
        read = [next(rest) if k is None else operands[k] for k in found.known]
        moved = iter(moving.write_down(found.linear, read + tangents, site))
    return values[:count], [next(moved) if used else None for used in found.outputs]


def _derivative(primitive: Primitive, rule: Callable, args: Sequence[Any], kinds: Sequence[bool | None],
                params: dict[str, Any], kind_of_rules: type[StagingTrace] | None) -> _Derivative | None:
    """The rule, run once; None where a copy of what it writes would not do."""
    if not _is_plain(primitive):
        return None
    known: list[int | None] = []
    outputs: list[bool] = []
    linear: Any = None
    avals = [x.aval for x, k in zip(args, kinds) if k is not None]

    def run(*values):
        nonlocal linear
        moving = None if kind_of_rules is None else kind_of_rules(tracing.thread.trace, DebugInfo("jit", primitive.name))
        rest, given = iter(values[:len(avals)]), iter(values[len(avals):])
        primals, tangents = [], []
        for x, moves in zip(args, kinds):
            primals.append(x if moves is None else next(rest))
            aval = tracing.aval_of(primals[-1]).to_tangent_aval()
            tangents.append(Zero(aval) if not moves else next(given) if moving is None else moving.new_arg(aval))
        with current_trace(moving or tracing.thread.trace):
            results, moved = rule(primals, tangents, **params)
        if not primitive.multiple_results:
            results, moved = [results], [moved]
        outputs.extend([type(t) is not Zero for t in moved])
        moved = [t for t in moved if type(t) is not Zero]
        if moving is None:
            return [*results, *moved]
        jaxpr, consts = moving.finish(moved)
        moving.alive = False
        places = {tracing.identity(x): i for i, x in enumerate(values)}
        known.extend([places.get(tracing.identity(c)) for c in consts])
        linear = ClosedJaxpr(jaxpr.with_constants_as_inputs(), [])
        return [*results, *[c for c, k in zip(consts, known) if k is None]]

    tangent_avals = [x.aval for x, k in zip(args, kinds) if k] if kind_of_rules is None else []
    values = _written(run, avals + tangent_avals, primitive)
    if values is None or linear is not None and linear.jaxpr.effects:
        return None
    return _Derivative(values, linear, known, outputs)


def pulled_back(eqn: JaxprEqn, rule: Callable, cts: Sequence[Any], values: dict) -> list[Any] | None:
    """The cotangents of an equation's operands, as its rule for transposition gives them, written into the current trace; None
    where the rule has to run. Hot."""
    primitive, trace = eqn.primitive, tracing.thread.trace
    operands: list[Any] = []
    key: list[Any] = [primitive, rule, config.trace_context_key()]
    for v in eqn.invars:
        if type(v) is Literal:
            number = _number(v.val)
            if number is None:
                return None
            key += number
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
            number = _number(ct)
            if number is None:
                return None
            key += number
    try:
        found = _kept.get(entry := (*key, *eqn.params.items()), _kept)
    except TypeError:  # a parameter that cannot be hashed
        return None
    if found is _kept:
        found = _kept.keep(entry, _transposed(eqn, rule, cts, values))
    if found is None:
        return None
    program, given = found
    results = iter(_write(trace, program, operands, None))
    return [next(results) if g else None for g in given]


def _transposed(eqn: JaxprEqn, rule: Callable, cts: Sequence[Any], values: dict) -> tuple[ClosedJaxpr, list[bool]] | None:
    if not _is_plain(eqn.primitive):
        return None
    given: list[bool] = []

    def run(*operands):
        rest = iter(operands)
        taken = [v.val if type(v) is Literal else next(rest) if v in values else UndefinedPrimal(v.aval) for v in eqn.invars]
        pulled = [next(rest) if isinstance(ct, Tracer) else Zero(v.aval) if ct is None else ct
                  for ct, v in zip(cts, eqn.outvars)]
        found = rule(pulled if eqn.primitive.multiple_results else pulled[0], *taken, **eqn.params)
        given.extend([ct is not None and type(ct) is not Zero for ct in found])
        return [ct for ct, g in zip(found, given) if g]

    avals = [values[v].aval for v in eqn.invars if type(v) is not Literal and v in values]
    program = _written(run, [*avals, *[ct.aval for ct in cts if isinstance(ct, Tracer)]], eqn.primitive)
    return None if program is None or len(given) != len(eqn.invars) else (program, given)


def _is_plain(primitive: Primitive) -> bool:
    """Whether it is one of the library's operations on arrays, that contains no program or one of those."""
    return primitive is inlined_p or (
        primitive.memoise and primitive.linearize is None and primitive.dce is None and primitive.effects is None
        and primitive.discharge is None and not primitive.custom_rule)


def _written(run: Callable, avals: list[Any], primitive: Primitive) -> ClosedJaxpr | None:
    """What a function of such operands writes, as a program for any place."""
    saved = source.thread.site

    def placeless(*operands):
        source.thread.site = source.NOWHERE
        results = run(*operands)
        if not all([type(x) is StagedTracer for x in results]):
            raise TypeError("a result that is no value of the program")
        return results

    try:
        jaxpr, consts = tracing.trace_to_jaxpr(placeless, avals, DebugInfo("jit", primitive.name))
    except Exception:  # run as it is, the rule says it of the user's operands
        return None
    finally:
        source.thread.site = saved
    return None if jaxpr.effects or any([isinstance(c, Tracer) for c in consts]) else ClosedJaxpr(jaxpr, consts)
