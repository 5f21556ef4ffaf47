"""What `optimize_remat` of `custom_vjp` does: a forward rule that becomes the function where residuals are not needed.

Rematerialisation runs forward rules twice, and looks at the residuals of the second run alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlafront.core import errors, tracing
from xlafront.core.ir import ClosedJaxpr, DebugInfo, dce_jaxpr
from xlafront.transforms.ad.jvp import jvp_flat
from xlafront.transforms.calls.custom_calls import CustomCall, Rule, stage_function


def forward_or_function(fwd: Callable, function: Callable[..., Sequence[Any]], consts: Sequence[Any], primals: Sequence[Any],
                        active: Sequence[bool], name: str) -> tuple[list[Any], list[Any], Callable]:
    """As `fwd(primals, active)`, as one operation: results, residuals, pullback."""
    count, pullback = 0, None

    def flat(*xs):
        nonlocal count, pullback
        outs, residuals, pullback = fwd(xs[len(consts):], active)
        count = len(outs)
        return [*outs, *residuals]

    closed, more = stage_function(flat, [*consts, *primals], DebugInfo("custom_vjp fun", name))
    assert pullback is not None
    found = remat_opt_p.bind(*more, *consts, *primals, fwd_jaxpr=closed, fun_jaxpr_thunk=Rule(function, name),
                             num_consts=len(more), num_res=len(closed.out_avals) - count)
    return found[:count], found[count:], pullback


class _RematOpt(CustomCall):
    __slots__ = ()

    parameter = "fwd_jaxpr"

    @staticmethod
    def batched(mapped, dims, params):
        function = params["fun_jaxpr_thunk"]
        return {"fun_jaxpr_thunk": function.around(lambda *xs: mapped.apply_in_front(function.apply, xs, dims))}

    @staticmethod
    def prune(params, used, out_avals):
        count = len(out_avals) - params["num_res"]
        function, skip = params["fun_jaxpr_thunk"], params["num_consts"]
        needed = function.around(lambda *xs: [x for x, keep in zip(function(*xs), used[:count]) if keep])
        changed = {"num_res": sum(used[count:]), "fun_jaxpr_thunk": needed}
        if changed["num_res"]:
            return changed
        # The operands are those of the forward rule: the function reads those that are not the rule's own constants.
        debug_info = params["fwd_jaxpr"].debug_info
        try:
            jaxpr, consts = tracing.trace_to_jaxpr(lambda *xs: function(*xs[skip:]), params["fwd_jaxpr"].in_avals, debug_info)
        except errors.UnexpectedTracerError:  # the function closes over what is no longer there
            return changed
        jaxpr, _ = dce_jaxpr(jaxpr, used[:count], True)
        if any(isinstance(c, tracing.Tracer) for c in consts):
            return changed
        return changed | {"fwd_jaxpr": ClosedJaxpr(jaxpr, consts)}


def _jvp(primals, tangents, **params):
    return jvp_flat(remat_opt_p.run_of(params), primals, tangents)


remat_opt_p = _RematOpt("remat_opt", "custom_vjp", jvp=_jvp)
