"""What `optimize_remat` of `custom_vjp` does: a forward rule that becomes the function where residuals are not needed.

Rematerialisation runs forward rules twice, and looks at the residuals of the second run alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlafront.core import errors, tracing
from xlafront.core.ir import ClosedJaxpr, DebugInfo, dce_jaxpr
from xlafront.transforms.ad.jvp import jvp_flat
from xlafront.transforms.calls.custom_calls import CustomCall, Rule, run_of, stage_function


def forward_or_function(fwd: Callable, function: Callable[..., Sequence[Any]], consts: Sequence[Any], primals: Sequence[Any],
                        active: Sequence[bool], name: str) -> tuple[list[Any], list[Any], Callable]:
    """As `fwd(primals, active)`, as one operation: results, residuals, pullback."""
    count, pullback = 0, None

    def flat(*xs):
        nonlocal count, pullback
        outs, residuals, pullback = fwd(xs[len(consts):], active)
        count = len(outs)
        return [*outs, *residuals]

    closed, more = stage_function(flat, [*consts, *primals], DebugInfo("custom_vjp", name))
    assert pullback is not None
    found = remat_opt_p.bind(*more, *consts, *primals, call_jaxpr=closed, primal=Rule(function, name), num_consts=len(more),
                             num_res=len(closed.out_avals) - count, name=name)
    return found[:count], found[count:], pullback


class _RematOpt(CustomCall):
    __slots__ = ()

    @staticmethod
    def batched(mapped, dims, params):
        primal = params["primal"]
        return {"primal": Rule(lambda *xs: mapped.apply_in_front(primal.apply, xs, dims), primal.name)}

    @staticmethod
    def prune(params, used, out_avals):
        count = len(out_avals) - params["num_res"]
        if any(used[count:]):
            return {"num_res": sum(used[count:]), "primal": _only(params["primal"], used[:count])}
        # The operands are those of the forward rule: the function reads those that are not the rule's own constants.
        primal, skip = params["primal"], params["num_consts"]
        try:
            jaxpr, consts = tracing.trace_to_jaxpr(lambda *xs: primal(*xs[skip:]), params["call_jaxpr"].in_avals)
        except errors.UnexpectedTracerError:  # the function closes over what is no longer there
            return {"num_res": 0, "primal": _only(primal, used[:count])}
        jaxpr, _ = dce_jaxpr(jaxpr, used[:count], True)
        if any(isinstance(c, tracing.Tracer) for c in consts):
            return {"num_res": 0, "primal": _only(primal, used[:count])}
        return {"call_jaxpr": ClosedJaxpr(jaxpr, consts), "num_res": 0, "primal": _only(primal, used[:count])}


def _only(primal: Rule, used: Sequence[bool]) -> Rule:
    return Rule(lambda *xs: [x for x, keep in zip(primal(*xs), used) if keep], primal.name)


def _jvp(primals, tangents, **params):
    return jvp_flat(run_of(params), primals, tangents)


remat_opt_p = _RematOpt("remat_opt", "custom_vjp", jvp=_jvp)
