"""Analysis of kernels that communicate: whether all devices are certain to come to the same operations in the same order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlafront.core.basic_primitives import axis_index_p
from xlafront.core.dataflow import any_equation
from xlafront.core.ir import Jaxpr, JaxprEqn
from xlafront.core.refs import AbstractRef
from xlafront.pallas.semaphores import dma_start_p, dma_wait_p, semaphore_signal_p, semaphore_wait_p


def is_sending(eqn: JaxprEqn) -> bool:
    """True if an equation copies or signals to another device."""
    return eqn.primitive in (semaphore_signal_p, dma_start_p) and eqn.params["axes"] is not None


def is_synchronizing(eqn: JaxprEqn) -> bool:
    """True if an equation copies or signals to another device, or waits."""
    return eqn.primitive in (dma_wait_p, semaphore_wait_p) or is_sending(eqn)


def communicates(jaxpr: Jaxpr) -> bool:
    """True if a kernel copies or signals to other devices."""
    return any_equation(jaxpr, "communicates", is_sending)


def depends_on_device(jaxpr: Jaxpr) -> bool:
    """True if a kernel reads the coordinates of its device, or communicates."""
    return communicates(jaxpr) or any_equation(jaxpr, "reads axis_index", lambda eqn: eqn.primitive is axis_index_p)


def diverges(jaxpr: Jaxpr) -> bool:
    """True if a kernel communicates, and devices may differ in whether they signal, copy or wait, or in how often.

    That depends on values in memory and on the coordinates of the device.
    """
    def find() -> bool:
        analysis = _Divergence()
        analysis.varying(jaxpr, [False] * len(jaxpr.invars))
        return analysis.is_found

    return communicates(jaxpr) and jaxpr.memoised("diverges", find)


class _Divergence:
    """The analysis of one kernel. `is_found` is set where an operation depends on the device."""

    def __init__(self) -> None:
        self.is_found = False

    def varying(self, jaxpr: Jaxpr, inputs: Sequence[bool]) -> list[bool]:
        """Return for each result of a jaxpr whether it varies over devices, if these inputs do."""
        varies: dict[Any, bool] = dict(zip(jaxpr.invars, inputs))
        for eqn in jaxpr.eqns:
            operands = [not v.is_literal and varies.get(v, False) for v in eqn.invars]
            varies.update(zip(eqn.outvars, self._results(eqn, operands)))
        return [not v.is_literal and varies.get(v, False) for v in jaxpr.outvars]

    def _results(self, eqn: JaxprEqn, operands: list[bool]) -> list[bool]:
        name, params = eqn.primitive.name, eqn.params
        if name == "cond":
            self._check(operands[0], params["branches"])
            found = [self.varying(b, operands[1:]) for b in params["branches"]]
            return [operands[0] or any(xs) for xs in zip(*found)]
        if name == "while":
            first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
            carry = self._loop(params["body_jaxpr"], operands[first:second], operands[second:])
            ends = self.varying(params["cond_jaxpr"], [*operands[:first], *carry])[0]
            self._check(ends, [params["body_jaxpr"], params["cond_jaxpr"]])
            return [x or ends for x in carry]
        if name == "scan":
            count = params["num_consts"] + params["num_carry"]
            carry = self._loop(params["jaxpr"], operands[:params["num_consts"]], operands[params["num_consts"]:count],
                               operands[count:])
            return [*carry, *[any(operands) or any(carry)] * (len(eqn.outvars) - len(carry))]
        called = params.get("jaxpr", params.get("call_jaxpr"))
        if isinstance(called, Jaxpr) and len(called.outvars) == len(eqn.outvars):
            return self.varying(called, [*operands, *[False] * (len(called.invars) - len(operands))])
        if eqn.primitive is semaphore_wait_p or eqn.primitive is semaphore_signal_p:
            self.is_found |= operands[1 + params["views"][0].count]  # the increment, or the value that is waited for
        if name == "all_gather":  # over all devices
            return [False]
        is_read = any([type(v.aval) is AbstractRef for v in eqn.invars])
        return [eqn.primitive is axis_index_p or is_read or any(operands)] * len(eqn.outvars)

    def _loop(self, body: Jaxpr, consts: list[bool], carry: list[bool], rest: Sequence[bool] = ()) -> list[bool]:
        while True:
            after = [x or y for x, y in zip(carry, self.varying(body, [*consts, *carry, *rest]))]
            if after == carry:
                return carry
            carry = after

    def _check(self, varies: bool, bodies: Sequence[Jaxpr]) -> None:
        self.is_found |= varies and any([any_equation(b, "synchronizes", is_synchronizing) for b in bodies])
