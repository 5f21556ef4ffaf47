"""Check of interpreted kernels: all devices must take the branches in which they communicate.

Interpreted devices exchange values by collectives, which wait for all of them. A branch that depends on the coordinates of the
device would wait without end, so it is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlafront.core import source
from xlafront.core.basic_primitives import axis_index_p
from xlafront.core.dataflow import any_equation
from xlafront.core.ir import Jaxpr, JaxprEqn
from xlafront.pallas.semaphores import dma_start_p, semaphore_signal_p


def communicates(jaxpr: Jaxpr) -> bool:
    """True if a kernel copies or signals to other devices."""
    return any_equation(jaxpr, "communicates", lambda eqn: eqn.primitive in (semaphore_signal_p, dma_start_p)
                        and eqn.params["axes"] is not None)


def depends_on_device(jaxpr: Jaxpr) -> bool:
    """True if a kernel reads the coordinates of its device, or communicates."""
    return communicates(jaxpr) or any_equation(jaxpr, "reads axis_index", lambda eqn: eqn.primitive is axis_index_p)


def check_branches(jaxpr: Jaxpr) -> None:
    """Raise an error if a kernel communicates in a branch or loop that depends on the coordinates of the device."""
    if communicates(jaxpr):
        jaxpr.memoised("branches are checked", lambda: _varying(jaxpr, [False] * len(jaxpr.invars)) is not None)


def _varying(jaxpr: Jaxpr, inputs: Sequence[bool]) -> list[bool]:
    """Return for each result of a jaxpr whether it varies over devices, if these inputs do."""
    varies: dict[Any, bool] = dict(zip(jaxpr.invars, inputs))
    for eqn in jaxpr.eqns:
        operands = [not v.is_literal and varies.get(v, False) for v in eqn.invars]
        varies.update(zip(eqn.outvars, _results(eqn, operands)))
    return [not v.is_literal and varies.get(v, False) for v in jaxpr.outvars]


def _results(eqn: JaxprEqn, operands: list[bool]) -> list[bool]:
    name, params = eqn.primitive.name, eqn.params
    if name == "cond":
        _check(eqn, operands[0], params["branches"])
        found = [_varying(b, operands[1:]) for b in params["branches"]]
        return [operands[0] or any(xs) for xs in zip(*found)]
    if name == "while":
        first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        carry = _loop(params["body_jaxpr"], operands[first:second], operands[second:])
        ends = _varying(params["cond_jaxpr"], [*operands[:first], *carry])[0]
        _check(eqn, ends, [params["body_jaxpr"]])
        return [x or ends for x in carry]
    if name == "scan":
        count = params["num_consts"] + params["num_carry"]
        carry = _loop(params["jaxpr"], operands[:params["num_consts"]], operands[params["num_consts"]:count], operands[count:])
        return [*carry, *[any(operands) or any(carry)] * (len(eqn.outvars) - len(carry))]
    called = params.get("jaxpr", params.get("call_jaxpr"))
    if isinstance(called, Jaxpr) and len(called.outvars) == len(eqn.outvars):
        return _varying(called, [*operands, *[False] * (len(called.invars) - len(operands))])
    return [eqn.primitive is axis_index_p or any(operands)] * len(eqn.outvars)


def _loop(body: Jaxpr, consts: list[bool], carry: list[bool], rest: Sequence[bool] = ()) -> list[bool]:
    while True:
        after = [x or y for x, y in zip(carry, _varying(body, [*consts, *carry, *rest]))]
        if after == carry:
            return carry
        carry = after


def _check(eqn: JaxprEqn, varies: bool, bodies: Sequence[Jaxpr]) -> None:
    if varies and any(map(communicates, bodies)):
        line = f" at {source.describe(eqn.site)}" if eqn.site is not None else ""
        raise NotImplementedError(f"an interpreted kernel communicates in a branch or loop{line} that depends on axis_index, "
                                  f"so that only some devices would take it, and wait for the others without end. "
                                  f"Communicate outside of it.")
