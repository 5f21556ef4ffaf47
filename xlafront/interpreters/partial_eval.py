"""Functions into programs: all of it, or the part that depends on unknown values; and programs without what nobody reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlafront.core import ir, tracing
from xlafront.core.ir import ClosedJaxpr, Jaxpr, JaxprEqn, Literal
from xlafront.core.linear_util import WrappedFun, wrap_init
from xlafront.core.tracing import StagedTracer as DynamicJaxprTracer, current_trace
from xlafront.interpreters.registries import Registry
from xlafront.transforms.ad.linearize import LinearTrace

# A value of a program under construction, whether all of the function is written down or the unknown part of it.
JaxprTracer = DynamicJaxprTracer
Val = Any


class PartialVal(tuple):
    """What is known of a value: the value itself, or only its type.

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
        """The value, None where only the type is known."""
        return self[1] if self.is_known() else None

    def get_aval(self):
        """The type."""
        return tracing.aval_of(self[1]) if self.is_known() else self[0]


def _wrapped(fun: Any) -> WrappedFun:
    return fun if isinstance(fun, WrappedFun) else wrap_init(fun)


def trace_to_jaxpr_dynamic(fun: WrappedFun, in_avals: Sequence[Any], *, keep_inputs: Sequence[bool] | None = None,
                           lower: bool = False, auto_dce: bool = False) -> tuple[Jaxpr, list[Any], list[Any]]:
    """The program of a function of flat arguments, the types of its results, and the values of its constants.

    `keep_inputs` says which arguments the program has; `auto_dce` drops what no result needs.

    >>> program, types, consts = trace_to_jaxpr_dynamic(lambda x: [x * 2], [xf.typeof(1.0)])
    """
    wrapped = _wrapped(fun)
    jaxpr, consts = tracing.trace_to_jaxpr(wrapped.call_wrapped, list(in_avals), wrapped.debug_info)
    if auto_dce:
        jaxpr, _ = ir.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), instantiate=True)
        jaxpr, consts, _ = _without_unread_constants(jaxpr, consts)
    if keep_inputs is not None:
        dropped = {v for v, keep in zip(jaxpr.invars, keep_inputs) if not keep}
        read = {v for eqn in jaxpr.eqns for v in eqn.invars if type(v) is not Literal} | {
            v for v in jaxpr.outvars if type(v) is not Literal}
        if dropped & read:
            raise ValueError(f"{wrapped.debug_info.func_src_info} reads an argument that keep_inputs says to leave out.")
        jaxpr = jaxpr.replace(invars=[v for v in jaxpr.invars if v not in dropped])
    return jaxpr, jaxpr.out_avals, consts


def trace_to_jaxpr_nounits(fun: WrappedFun, pvals: Sequence[PartialVal], instantiate: bool | Sequence[bool] = False
                           ) -> tuple[Jaxpr, list[PartialVal], tuple[Any, ...]]:
    """Run what a function does with known values, and write down what it does with unknown ones.

    Returns the program of the unknown arguments, what is known of each result, and the values of the program's constants. The
    results of the program are those that are unknown; `instantiate` makes all (or the marked) known ones such.

    >>> known, unknown = PartialVal.known(2.0), PartialVal.unknown(xf.typeof(3.0))
    >>> program, results, consts = trace_to_jaxpr_nounits(lambda x, y: [x * 3, x * y], [known, unknown])
    """
    wrapped = _wrapped(fun)
    trace = LinearTrace(tracing.thread.trace, wrapped.debug_info)
    args = [p.get_known() if p.is_known() else trace.new_arg(p.get_aval()) for p in pvals]
    try:
        with current_trace(trace):
            results = wrapped.call_wrapped(*args)
        asked = [instantiate] * len(results) if isinstance(instantiate, bool) else instantiate
        unknown = [ask or (type(x) is DynamicJaxprTracer and x._trace is trace) for x, ask in zip(results, asked)]
        jaxpr, consts = trace.finish([x for x, u in zip(results, unknown) if u])
    finally:
        trace.end()
    jaxpr, consts, _ = _without_unread_constants(jaxpr, consts)
    return jaxpr, [PartialVal.unknown(tracing.aval_of(x)) if u else PartialVal.known(x)
                   for x, u in zip(results, unknown)], tuple(consts)


def _without_unread_constants(jaxpr: Jaxpr, consts: Sequence[Any]) -> tuple[Jaxpr, list[Any], list[bool]]:
    read = {v for eqn in jaxpr.eqns for v in eqn.invars if type(v) is not Literal}
    read.update(v for v in jaxpr.outvars if type(v) is not Literal)
    used = [v in read for v in jaxpr.constvars]
    kept = [c for c, keep in zip(consts, used) if keep]
    return jaxpr.replace(constvars=[v for v, keep in zip(jaxpr.constvars, used) if keep]), kept, used


# Dropping what nobody reads


def dce_jaxpr(jaxpr: Jaxpr, used_outputs: Sequence[bool], instantiate: bool | Sequence[bool] = False
              ) -> tuple[Jaxpr, list[bool]]:
    """The program with only the wanted results and what they need; and which arguments are left.

    `instantiate` keeps arguments, all or those marked, that nothing reads.

    >>> closed = xf.make_jaxpr(lambda x, y: (x * 2, y * 3))(1.0, 2.0)
    >>> program, used = dce_jaxpr(closed.jaxpr, [True, False])
    >>> used
    [True, False]
    """
    return ir.dce_jaxpr(jaxpr, used_outputs, instantiate)


def dce_jaxpr_consts(jaxpr: Jaxpr, used_outputs: Sequence[bool], instantiate: bool | Sequence[bool] = False
                     ) -> tuple[Jaxpr, list[bool], list[bool]]:
    """As `dce_jaxpr`, for the constants too: the program, which constants and which arguments are left.

    >>> closed = xf.make_jaxpr(lambda x, y: (x * 2, y * 3))(1.0, 2.0)
    >>> program, used_constants, used = dce_jaxpr_consts(closed.jaxpr, [True, False])
    """
    pruned, used_inputs = ir.dce_jaxpr(jaxpr, used_outputs, instantiate)
    pruned, _, used_consts = _without_unread_constants(pruned, [None] * len(pruned.constvars))
    return pruned, used_consts, used_inputs


def _adapt_dce(primitive, rule: Callable):
    def dce(used, eqn):
        return rule(list(used), eqn)[1]

    return dce


def _present_dce(primitive, dce):
    def rule(used_outputs, eqn: JaxprEqn) -> tuple[list[bool], JaxprEqn | None]:
        pruned = dce(used_outputs, eqn)
        left = set() if pruned is None else {v for v in pruned.invars if type(v) is not Literal}
        return [v in left for v in eqn.invars], pruned

    return rule


# A rule is `rule(used_outputs, equation) -> (used inputs, smaller equation or None)`.
dce_rules = Registry("dce_rules", "dce", _adapt_dce, _present_dce)


def dce_jaxpr_call_rule(used_outputs: Sequence[bool], eqn: JaxprEqn) -> tuple[list[bool], JaxprEqn | None]:
    """A rule for `dce_rules`, for primitives with the parameter `call_jaxpr`, which is pruned too.

    >>> my_call_p = xf.extend.core.Primitive("my_call")
    >>> dce_rules[my_call_p] = dce_jaxpr_call_rule
    """
    inner = eqn.params["call_jaxpr"]
    jaxpr, used_inputs = ir.dce_jaxpr(inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner, used_outputs)
    if not any(used_outputs) and not ir.keeps_alive(jaxpr.effects):
        return [False] * len(used_inputs), None
    pruned = ClosedJaxpr(jaxpr, inner.consts) if isinstance(inner, ClosedJaxpr) else jaxpr
    return used_inputs, eqn.replace(
        invars=[v for v, used in zip(eqn.invars, used_inputs) if used],
        outvars=[v for v, used in zip(eqn.outvars, used_outputs) if used],
        params=eqn.params | {"call_jaxpr": pruned}, effects=jaxpr.effects)


dce_jaxpr_closed_call_rule = dce_jaxpr_call_rule
