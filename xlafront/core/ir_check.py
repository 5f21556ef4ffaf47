"""Type checks of jaxprs, which run after each tracing if `enable_checks` is on, and in tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xlafront.core.avals import abstract_token
from xlafront.core.errors import JaxprTypeError
from xlafront.core.ir import Jaxpr, JaxprEqn, Literal, effects_outside, no_effects, subprograms

if TYPE_CHECKING:
    from xlafront.core.ir import Var
    from xlafront.core.typing import Atom


def check_jaxpr(jaxpr: Jaxpr) -> None:
    """Raise `JaxprTypeError` unless a jaxpr and its inner jaxprs are well-formed.

    Variables must be bound once and before use, types must be those of the primitives' rules, and effects must be declared.
    """
    bound: set = set()

    def bind(v: Var, where: Any) -> None:
        if v in bound:
            raise JaxprTypeError(f"the variable {v} is bound twice, the second time by {where}.")
        bound.add(v)

    def read(v: Atom, where: Any) -> None:
        if type(v) is not Literal and v not in bound:
            raise JaxprTypeError(f"{where} reads the variable {v}, which is not bound before.")

    for v in (*jaxpr.constvars, *jaxpr.invars):
        bind(v, "the jaxpr's arguments")
    effects: frozenset = no_effects
    for eqn in jaxpr.eqns:
        where = _Equation(eqn)
        for v in eqn.invars:
            read(v, where)
        _check_equation(eqn, where)
        effects |= eqn.effects
        for v in eqn.outvars:
            bind(v, where)
        for inner in subprograms(eqn.params):
            check_jaxpr(inner)
    for v in jaxpr.outvars:
        read(v, "the result")
    effects = effects_outside(effects, (*jaxpr.constvars, *jaxpr.invars))
    if effects != jaxpr.effects:
        raise JaxprTypeError(f"the jaxpr declares the effects {set(jaxpr.effects)}, its equations have {set(effects)}.")


class _Equation:
    """An equation in a message. Its text is made for errors alone: it holds that of all inner jaxprs."""

    def __init__(self, eqn: JaxprEqn) -> None:
        self.eqn = eqn

    def __str__(self) -> str:
        return f"the equation `{self.eqn}`"


def _check_equation(eqn: JaxprEqn, where: _Equation) -> None:
    in_avals = tuple(v.aval for v in eqn.invars)
    found = eqn.primitive.abstract(*in_avals, **eqn.params)
    found = list(found) if eqn.primitive.multiple_results else [found]
    if len(found) != len(eqn.outvars):
        raise JaxprTypeError(f"{where} binds {len(eqn.outvars)} variables to {len(found)} results.")
    for v, aval in zip(eqn.outvars, found):
        if _shape_and_dtype(v.aval) != _shape_and_dtype(aval):
            raise JaxprTypeError(f"{where} binds a variable of type {v.aval} to a result of type {aval}.")


def _shape_and_dtype(aval: Any) -> tuple[Any, Any]:
    return aval if aval is abstract_token or aval.is_high else (aval.shape, aval.dtype)
