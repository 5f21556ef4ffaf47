"""Evaluation of the equations of kernels, also within loops and branches, in which subclasses replace single operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.control.cond import switch
from xlafront.control.scan import scan
from xlafront.control.while_loop import while_loop
from xlafront.core import source
from xlafront.core.basic_primitives import to_dtype
from xlafront.core.ir import Jaxpr, JaxprEqn
from xlafront.core.program_call import ProgramCall


class KernelEvaluator:
    """An evaluation of kernels. Subclasses override `results`."""

    def evaluate(self, jaxpr: Jaxpr, args: Sequence[Any]) -> list[Any]:
        """Return the results of a jaxpr."""
        env: dict[Any, Any] = dict(zip(jaxpr.constvars, jaxpr.consts))
        env.update(zip(jaxpr.invars, args))
        self.evaluate_equations(jaxpr.eqns, env)
        return values_in(env, jaxpr.outvars)

    def evaluate_equations(self, eqns: Sequence[JaxprEqn], env: dict[Any, Any]) -> None:
        """Add the results of equations to the values of variables."""
        for eqn in eqns:
            with source.using_site(eqn.site):
                env.update(zip(eqn.outvars, self.results(eqn, values_in(env, eqn.invars))))

    def results(self, eqn: JaxprEqn, values: list[Any]) -> Sequence[Any]:
        """Return the results of an equation."""
        results = eqn.primitive.bind(*values, **eqn.params)
        return results if eqn.primitive.multiple_results else [results]

    def nested_results(self, eqn: JaxprEqn, values: list[Any]) -> Sequence[Any] | None:
        """Return the results of a loop, branch or call whose equations are evaluated; None for other equations."""
        rule = {"scan": self._scan, "while": self._while, "cond": self._cond}.get(eqn.primitive.name)
        if rule is not None:
            return rule(eqn, values)
        called = called_jaxpr(eqn)
        return None if called is None else self.evaluate(called, values)

    def _scan(self, eqn: JaxprEqn, values: list[Any]) -> Sequence[Any]:
        params = eqn.params
        num_consts, num_carry = params["num_consts"], params["num_carry"]
        consts, carry, rows = values[:num_consts], values[num_consts:num_consts + num_carry], values[num_consts + num_carry:]

        def body(state: list[Any], row: list[Any] | None) -> tuple[list[Any], list[Any]]:
            results = self.evaluate(params["jaxpr"], [*consts, *state, *(row or [])])
            return list(results[:num_carry]), list(results[num_carry:])

        carry, stacked = scan(body, carry, rows or None, params["length"], params["reverse"], params["unroll"])
        return [*carry, *stacked]

    def _while(self, eqn: JaxprEqn, values: list[Any]) -> Sequence[Any]:
        params = eqn.params
        first, last = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        return while_loop(lambda state: self.evaluate(params["cond_jaxpr"], [*values[:first], *state])[0],
                          lambda state: self.evaluate(params["body_jaxpr"], [*values[first:last], *state]), values[last:])

    def _cond(self, eqn: JaxprEqn, values: list[Any]) -> Sequence[Any]:
        index, *operands = values
        return switch(to_dtype(index, np.dtype(np.int32)), [
            lambda b=b: self.evaluate(b, operands) for b in eqn.params["branches"]])


def values_in(env: dict[Any, Any], atoms: Sequence[Any]) -> list[Any]:
    """Return the values of variables and literals."""
    return [v.val if v.is_literal else env[v] for v in atoms]


def called_jaxpr(eqn: JaxprEqn) -> Jaxpr | None:
    """Return the jaxpr that an equation calls."""
    params = eqn.params
    if isinstance(eqn.primitive, ProgramCall):
        return params[eqn.primitive.parameter]
    called = params.get("jaxpr", params.get("call_jaxpr"))
    return called if isinstance(called, Jaxpr) and len(called.invars) == len(eqn.invars) else None
