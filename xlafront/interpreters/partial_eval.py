"""Tracing to jaxprs, also of only the part that depends on unknown values (partial evaluation), and dead code elimination."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xlafront.core import composite_lowering, ir, tracing, tree
from xlafront.core.dataflow import backward
from xlafront.core.ir import AccumEffect, Effect, Jaxpr, JaxprEqn, Literal, WriteEffect, effects_outside, last_reads
from xlafront.core.refs import AbstractRef
from xlafront.core.tracing import StagedTracer as DynamicJaxprTracer, current_trace
from xlafront.interpreters.registries import Registry
from xlafront.transforms.ad.linearize import LinearTrace
from xlafront.transforms.calls.linear_util import WrappedFun, wrap_init
from xlafront.transforms.calls.programs import reorder

# A traced value of a jaxpr under construction, of the full function or of its unknown part.
JaxprTracer = DynamicJaxprTracer
Val = Any


class PartialVal(tuple):
    """A partial value: either known (the value) or unknown (only its type).

    Example:
        >>> PartialVal.known(3.0).is_known(), PartialVal.unknown(xf.typeof(3.0)).is_known()
        (True, False)
    """

    __slots__ = ()

    def __new__(cls, xs: Sequence[Any]):
        aval, _ = xs
        return super().__new__(cls, (aval, xs[1]))

    @classmethod
    def known(cls, const: Any) -> PartialVal:
        return cls((None, const))

    @classmethod
    def unknown(cls, aval: Any) -> PartialVal:
        return cls((aval, None))

    def is_known(self) -> bool:
        return self[0] is None

    def get_known(self) -> Any:
        """Return the value, or None if it is unknown."""
        return self[1] if self.is_known() else None

    def get_aval(self):
        """Return the type."""
        return tracing.aval_of(self[1]) if self.is_known() else self[0]


def _wrapped(fun: Any) -> WrappedFun:
    return fun if isinstance(fun, WrappedFun) else wrap_init(fun)


def trace_to_jaxpr_dynamic(fun: WrappedFun, in_avals: Sequence[Any], *, keep_inputs: Sequence[bool] | None = None,
                           lower: bool = False, auto_dce: bool = False) -> tuple[Jaxpr, list[Any], list[Any]]:
    """Trace a function of flat arguments; return its jaxpr, the types of its results, and the values of its constants.

    `keep_inputs` marks the arguments that the jaxpr has; `auto_dce` eliminates equations that no result needs.

    Example:
        >>> program, types, consts = trace_to_jaxpr_dynamic(lambda x: [x * 2], [xf.typeof(1.0)])
    """
    wrapped = _wrapped(fun)
    jaxpr, consts = tracing.trace_to_jaxpr(wrapped.call_wrapped, list(in_avals), wrapped.debug_info)
    if auto_dce:
        jaxpr, _ = ir.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), instantiate=True)
        jaxpr, consts, _ = _prune_constants(jaxpr, consts)
    if keep_inputs is not None:
        dropped = {v for v, keep in zip(jaxpr.invars, keep_inputs) if not keep}
        if dropped & last_reads(jaxpr).keys():
            raise ValueError(f"{wrapped.debug_info.label} reads an argument that keep_inputs leaves out.")
        jaxpr = jaxpr.replace(invars=[v for v in jaxpr.invars if v not in dropped])
    return jaxpr, jaxpr.out_avals, consts


def trace_to_jaxpr_nounits(fun: WrappedFun, pvals: Sequence[PartialVal], instantiate: bool | Sequence[bool] = False
                           ) -> tuple[Jaxpr, list[PartialVal], tuple[Any, ...]]:
    """Evaluate what a function computes from known values, and stage what depends on unknown ones.

    Return the jaxpr of the unknown part, a partial value for each result, and the values of the jaxpr's constants. The results
    of the jaxpr are the unknown results; `instantiate` turns all (or the marked) known results into unknown ones. Equations
    that the results do not need are dropped, unless they have effects of this library.

    Example:
        >>> known, unknown = PartialVal.known(2.0), PartialVal.unknown(xf.typeof(3.0))
        >>> program, results, consts = trace_to_jaxpr_nounits(lambda x, y: [x * 3, x * y], [known, unknown])
    """
    wrapped = _wrapped(fun)
    trace = LinearTrace(tracing.thread.trace, wrapped.debug_info)
    args = [p.get_known() if p.is_known() else trace.new_arg(p.get_aval()) for p in pvals]
    try:
        with current_trace(trace):
            results = wrapped.call_wrapped(*args)
        forced = [instantiate] * len(results) if isinstance(instantiate, bool) else instantiate
        unknown = [force or (type(x) is DynamicJaxprTracer and x._trace is trace) for x, force in zip(results, forced)]
        jaxpr, consts = trace.finish([x for x, u in zip(results, unknown) if u])
    finally:
        trace.end()
    jaxpr, consts, _ = _prune_constants(_demanded(jaxpr), consts)
    return jaxpr, [PartialVal.unknown(tracing.aval_of(x)) if u else PartialVal.known(x)
                   for x, u in zip(results, unknown)], tuple(consts)


def _demanded(jaxpr: Jaxpr) -> Jaxpr:
    """Return the jaxpr without the equations that its results do not need; those with effects of this library stay."""
    def part(eqn: JaxprEqn, needed: set) -> JaxprEqn | None:
        if needed.isdisjoint(eqn.outvars) and not any([_is_builtin(e) and not e.droppable for e in eqn.effects]):
            return None
        return eqn

    eqns, _ = backward(jaxpr.eqns, jaxpr.outvars, part)
    effects = ir.no_effects.union(*[eqn.effects for eqn in eqns])
    return jaxpr.replace(eqns=eqns, effects=effects_outside(effects, (*jaxpr.constvars, *jaxpr.invars)))


def _is_builtin(effect: Effect) -> bool:
    """True for effects of this library. Partial evaluation by demand drops those that other packages define, as in JAX."""
    return type(effect).__module__.startswith("xlafront.")


def _prune_constants(jaxpr: Jaxpr, consts: Sequence[Any]) -> tuple[Jaxpr, list[Any], list[bool]]:
    read = last_reads(jaxpr)
    used = [v in read for v in jaxpr.constvars]
    live = [c for c, u in zip(consts, used) if u]
    return jaxpr.replace(constvars=[v for v, u in zip(jaxpr.constvars, used) if u]), live, used


# Dead code elimination


def dce_jaxpr(jaxpr: Jaxpr, used_outputs: bool | Sequence[bool], instantiate: bool | Sequence[bool] = False,
              live_inputs: bool | Sequence[bool] = True) -> tuple[Jaxpr, list[bool]]:
    """Eliminate equations and arguments that the used results do not need.

    Args:
        jaxpr: Jaxpr.
        used_outputs: True for each result that stays; one bool for all.
        instantiate: True for arguments that stay although they are not used; one bool for all.
        live_inputs: False for references whose value is not read after the jaxpr: writes to them are eliminated if the jaxpr
            does not read them. One bool for all; it has no effect on arrays.

    Returns:
        The jaxpr, and for each argument whether it is used.

    Example:
        >>> closed = xf.make_jaxpr(lambda x, y: (x * 2, y * 3))(1.0, 2.0)
        >>> program, used = dce_jaxpr(closed, [True, False])
        >>> used
        [True, False]
    """
    used = [used_outputs] * len(jaxpr.outvars) if isinstance(used_outputs, bool) else used_outputs
    live = [live_inputs] * len(jaxpr.invars) if isinstance(live_inputs, bool) else live_inputs
    dead_refs = {v for v, alive in zip(jaxpr.invars, live) if not alive and isinstance(v.aval, AbstractRef)}
    while dead_refs:
        pruned, _ = ir.dce_jaxpr(jaxpr, used, True)
        read = last_reads(pruned).keys()
        needed = {ref for eqn in pruned.eqns if not _only_writes(eqn, dead_refs, read) for ref in dead_refs.intersection(
            v for v in eqn.invars if type(v) is not Literal)}
        dead_refs -= needed
        eqns = [eqn for eqn in pruned.eqns if not _only_writes(eqn, dead_refs, read)]
        if len(eqns) == len(pruned.eqns):
            break
        jaxpr = jaxpr.replace(eqns=eqns)
    return ir.dce_jaxpr(jaxpr, used, instantiate)


def _only_writes(eqn: JaxprEqn, refs: set, read: Any) -> bool:
    """True if an equation does nothing but write to one of these references."""
    return (bool(eqn.effects) and all([isinstance(e, (WriteEffect, AccumEffect)) and e.ref in refs for e in eqn.effects])
            and not any([v in read for v in eqn.outvars]))


def dce_jaxpr_consts(jaxpr: Jaxpr, used_outputs: Sequence[bool], instantiate: bool | Sequence[bool] = False
                     ) -> tuple[Jaxpr, list[bool], list[bool]]:
    """Eliminate as `dce_jaxpr` does, also constants; return the jaxpr, which constants and which arguments are used.

    Example:
        >>> closed = xf.make_jaxpr(lambda x, y: (x * 2, y * 3))(1.0, 2.0)
        >>> program, used_constants, used = dce_jaxpr_consts(closed, [True, False])
    """
    pruned, used_inputs = ir.dce_jaxpr(jaxpr, used_outputs, instantiate)
    pruned, _, used_consts = _prune_constants(pruned, [None] * len(pruned.constvars))
    return pruned, used_consts, used_inputs


def _adapt_dce(primitive, rule: Callable):
    takes_live_inputs = len(inspect.signature(rule).parameters) == 3

    def dce(used, eqn):
        live = ([True] * len(eqn.invars),) if takes_live_inputs else ()
        return rule(list(used), *live, eqn)[1]

    return dce


def _present_dce(primitive, dce):
    def rule(used_outputs, eqn: JaxprEqn) -> tuple[list[bool], JaxprEqn | None]:
        pruned = dce(used_outputs, eqn)
        live = set() if pruned is None else {v for v in pruned.invars if type(v) is not Literal}
        return [v in live for v in eqn.invars], pruned

    return rule


# A rule is `rule(used_outputs, equation) -> (used inputs, smaller equation or None)`. One of three arguments gets
# `live_inputs`, as `dce_jaxpr` takes them, as the second.
dce_rules = Registry("dce_rules", "structured.dce", _adapt_dce, _present_dce)


def dce_jaxpr_call_rule(used_outputs: Sequence[bool], live_ins: Sequence[bool], eqn: JaxprEqn
                        ) -> tuple[list[bool], JaxprEqn | None]:
    """Eliminate dead code in a primitive with the parameter `call_jaxpr`, and in that jaxpr: a rule for `dce_rules`.

    Args:
        used_outputs: True for each result that is used.
        live_ins: False for references whose value is not read later; see `dce_jaxpr`.
        eqn: Equation.

    Returns:
        For each operand whether it is used, and the smaller equation, None if nothing is left of it.

    Example:
        >>> my_call_p = xf.extend.core.Primitive("my_call")
        >>> dce_rules[my_call_p] = dce_jaxpr_call_rule
    """
    inner = eqn.params["call_jaxpr"]
    jaxpr, used_inputs = dce_jaxpr(inner, used_outputs, live_inputs=live_ins)
    if not any(used_outputs) and not ir.keeps_alive(jaxpr.effects):
        return [False] * len(used_inputs), None
    return used_inputs, eqn.replace(
        invars=[v for v, used in zip(eqn.invars, used_inputs) if used],
        outvars=[v for v, used in zip(eqn.outvars, used_outputs) if used],
        params=eqn.params | {"call_jaxpr": jaxpr}, effects=jaxpr.effects)


dce_jaxpr_closed_call_rule = dce_jaxpr_call_rule


# Transformations of jaxprs


def close_jaxpr(jaxpr: Jaxpr) -> Jaxpr:
    """Return a jaxpr that has no constants, or has the values of its constants, as it is.

    Args:
        jaxpr: Jaxpr.

    Returns:
        The jaxpr.

    Raises:
        ValueError: The values of its constants are unknown.

    Example:
        >>> len(close_jaxpr(xf.make_jaxpr(lambda x: 2 * x)(1.0)).consts)
        0
    """
    if jaxpr.constvars and not jaxpr.consts:
        raise ValueError(f"close_jaxpr takes a jaxpr without constants, got one with {len(jaxpr.constvars)}. Give it values "
                         f"with jaxpr.with_consts(values), or use convert_constvars_jaxpr.")
    return jaxpr


def convert_constvars_jaxpr(jaxpr: Jaxpr) -> Jaxpr:
    """Return a jaxpr whose constants are its first inputs.

    Args:
        jaxpr: Jaxpr.

    Returns:
        The jaxpr.

    Example:
        >>> table = xnp.arange(3.0)
        >>> closed = xf.make_jaxpr(lambda x: x * table)(1.0)
        >>> len(convert_constvars_jaxpr(closed).invars)
        2
    """
    return jaxpr.with_constants_as_inputs()


def move_binders_to_back(closed_jaxpr: Jaxpr, to_move: Sequence[bool]) -> Jaxpr:
    """Return a jaxpr whose marked inputs follow the others.

    Args:
        closed_jaxpr: Jaxpr.
        to_move: True for each input to move.

    Returns:
        The jaxpr with the inputs in the new order.

    Example:
        >>> moved = move_binders_to_back(xf.make_jaxpr(lambda x, y: x - y)(1.0, 2.0), [True, False])
        >>> float(xf.core.jaxpr_as_fun(moved)(5.0, 3.0)[0])
        -2.0
    """
    order = [*[i for i, move in enumerate(to_move) if not move], *[i for i, move in enumerate(to_move) if move]]
    return reorder(closed_jaxpr, order)


def prune_closed_jaxpr_outputs(jaxpr: Jaxpr, used_outputs: Sequence[bool]) -> Jaxpr:
    """Return a jaxpr with some of its results. Its equations stay; `dce_jaxpr` eliminates unused ones.

    Args:
        jaxpr: Jaxpr.
        used_outputs: True for each result that stays.

    Returns:
        The jaxpr with these results.

    Example:
        >>> len(prune_closed_jaxpr_outputs(xf.make_jaxpr(lambda x: (x, 2 * x))(1.0), [False, True]).out_avals)
        1
    """
    return reorder(jaxpr, None, [i for i, used in enumerate(used_outputs) if used])


def abstract_eval_fun(fun: Callable, *avals: Any, debug_info: Any = None, **params: Any) -> list[Any]:
    """Return the types of a function's results.

    Args:
        fun: Function of arrays.
        avals: Types of the arguments.
        debug_info: Names of the function, for messages.
        params: Keyword arguments of the function.

    Returns:
        List of the types of the flat results.

    Example:
        >>> abstract_eval_fun(lambda x, *, times: [x * times], xf.typeof(1.0), times=2)[0].dtype
        dtype('float32')
    """
    jaxpr, _ = tracing.trace_to_jaxpr(lambda *xs: tree.leaves(fun(*xs, **params)), list(avals),
                                      *(() if debug_info is None else (debug_info,)))
    return list(jaxpr.out_avals)


def partial_eval_jaxpr_nounits(jaxpr: Jaxpr, unknowns: Sequence[bool], instantiate: bool | Sequence[bool]
                               ) -> tuple[Jaxpr, Jaxpr, list[bool], list[Any]]:
    """Split a jaxpr into the part that depends on known inputs only and the rest.

    Args:
        jaxpr: Jaxpr.
        unknowns: True for each input that is not known.
        instantiate: True for results that belong to the second part even if they are known; one bool for all.

    Returns:
        The jaxpr `known inputs -> (known results, residuals)`, the jaxpr `(residuals, unknown inputs) -> unknown results`, for
        each result whether it is unknown, and the types of the residuals.

    Example:
        >>> closed = xf.make_jaxpr(lambda x, y: (xnp.cos(x), y * xnp.sin(x)))(1.0, 2.0)
        >>> known, unknown, out_unknowns, residuals = partial_eval_jaxpr_nounits(closed, [False, True], False)
        >>> out_unknowns, len(residuals)
        ([False, True], 1)
    """
    def run(*known: Any) -> tuple[list[Any], tuple[Jaxpr, list[bool]]]:
        values = iter(known)
        pvals = [PartialVal.unknown(aval) if u else PartialVal.known(next(values))
                 for aval, u in zip(jaxpr.in_avals, unknowns)]
        rest, results, residuals = trace_to_jaxpr_nounits(wrap_init(ir.jaxpr_as_fun(jaxpr), debug_info=jaxpr.debug_info),
                                                          pvals, instantiate)
        flags = [not p.is_known() for p in results]
        return [*[p.get_known() for p in results if p.is_known()], *residuals], (rest, flags)

    known_avals = [aval for aval, u in zip(jaxpr.in_avals, unknowns) if not u]
    known, (rest, flags) = tracing.trace_with_aux(run, known_avals, jaxpr.debug_info.with_unknown_names())
    residual_avals = known.out_avals[len(flags) - sum(flags):]
    return known, rest.with_constants_as_inputs(), flags, list(residual_avals)


def lower_jaxpr(hi_jaxpr: Jaxpr, lo_avals: Any = None) -> Jaxpr:
    """Return a jaxpr on the component arrays of composite values (`experimental.hijax`); others stay as they are.

    Args:
        hi_jaxpr: Jaxpr.
        lo_avals: Types of the component arrays of its inputs. Default: computed from the types of the inputs.

    Returns:
        The lowered jaxpr.

    Example:
        >>> closed = xf.make_jaxpr(lambda x: 2 * x)(1.0)
        >>> lower_jaxpr(closed) is closed
        True
    """
    lowered = lower_jaxpr2(hi_jaxpr)
    if lo_avals is not None and len(tree.leaves(lo_avals)) != len(lowered.in_avals):
        raise ValueError(f"lower_jaxpr got {len(tree.leaves(lo_avals))} types in lo_avals, but the inputs of the jaxpr have "
                         f"{len(lowered.in_avals)} component arrays. Leave lo_avals out.")
    return lowered


def lower_jaxpr2(hi_jaxpr: Jaxpr) -> Jaxpr:
    """Return a jaxpr on the component arrays of composite values; see `lower_jaxpr`.

    Args:
        hi_jaxpr: Jaxpr.

    Returns:
        The lowered jaxpr.

    Example:
        >>> closed = xf.make_jaxpr(lambda x: 2 * x)(1.0)
        >>> lower_jaxpr2(closed) is closed
        True
    """
    return composite_lowering.program_on_components(hi_jaxpr) if composite_lowering.is_high(hi_jaxpr) else hi_jaxpr


class JaxprEqnRecipe(NamedTuple):
    """An equation of traced values, from which an equation of a jaxpr is made when the jaxpr is complete."""

    eqn_id: Any
    in_tracers: Sequence[Any]
    out_tracer_refs: Sequence[Any]
    out_avals: Sequence[Any]
    primitive: Any
    params: dict[str, Any]
    effects: Any
    source_info: Any
    ctx: Any


def new_eqn_recipe(trace: Any, in_tracers: Sequence[Any], out_tracers: Sequence[Any], primitive: Any, params: dict[str, Any],
                   effects: Any, source_info: Any, ctx: Any = None) -> JaxprEqnRecipe:
    """Return the description of an equation of traced values.

    Args:
        trace: Trace of the values.
        in_tracers: Operands.
        out_tracers: Results, to which the description has weak references.
        primitive: Primitive.
        params: Its parameters.
        effects: Its effects.
        source_info: Source location.
        ctx: Context of the equation. Default: none.

    Returns:
        The description.

    Example:
        >>> recipe = new_eqn_recipe(None, [], [], xf.lax.neg_p, {}, frozenset(), None)
        >>> recipe.primitive
        neg
    """
    return JaxprEqnRecipe(object(), in_tracers, list(map(weakref.ref, out_tracers)), [x.aval for x in out_tracers], primitive,
                          params, effects, source_info, ctx)
