"""The `optimize_remat` option of `custom_vjp`: a forward rule that is replaced by the function if its residuals are unused.

Rematerialization runs forward rules twice, and uses the residuals of the second run only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xlafront.core import errors, tracing
from xlafront.core.ir import DebugInfo, dce_jaxpr
from xlafront.transforms.ad.jvp import jvp_flat
from xlafront.transforms.calls.custom_calls import CustomCall, Rule, stage_function

if TYPE_CHECKING:
    from xlafront.core.typing import Aval, Dims, Marks, Params
    from xlafront.transforms.calls.custom_calls import BatchContext


def forward_or_function(fwd: Callable, function: Callable[..., Sequence[Any]], consts: Sequence[Any], primals: Sequence[Any],
                        active: Sequence[bool], name: str) -> tuple[list[Any], list[Any], Callable]:
    """Apply `fwd(primals, active)` as a single operation; return results, residuals and pullback."""
    count, pullback = 0, None

    def flat(*xs: tracing.StagedTracer) -> list[Any]:
        nonlocal count, pullback
        outs, residuals, pullback = fwd(xs[len(consts):], active)
        count = len(outs)
        return [*outs, *residuals]

    closed, closed_consts = stage_function(flat, [*consts, *primals], DebugInfo("custom_vjp fun", name))
    assert pullback is not None
    outputs = remat_opt_p.bind(*closed_consts, *consts, *primals, fwd_jaxpr=closed, fun_jaxpr_thunk=Rule(function, name),
                               num_consts=len(closed_consts), num_res=len(closed.out_avals) - count)
    return outputs[:count], outputs[count:], pullback


class _RematOpt(CustomCall):
    __slots__ = ()

    parameter = "fwd_jaxpr"

    @staticmethod
    def batched(mapped: BatchContext, dims: Dims, params: Params) -> Params:
        function = params["fun_jaxpr_thunk"]
        return {"fun_jaxpr_thunk": function.with_apply(lambda *xs: mapped.apply_and_broadcast(function.apply, xs, dims))}

    @staticmethod
    def prune(params: Params, used: Marks, out_avals: Sequence[Aval]) -> Params:
        count = len(out_avals) - params["num_res"]
        function, num_consts = params["fun_jaxpr_thunk"], params["num_consts"]
        pruned_function = function.with_apply(lambda *xs: [x for x, live in zip(function(*xs), used[:count]) if live])
        updated_params = {"num_res": sum(used[count:]), "fun_jaxpr_thunk": pruned_function}
        if updated_params["num_res"]:
            return updated_params
        # The operands are those of the forward rule; the function does not take the rule's own constants.
        debug_info = params["fwd_jaxpr"].debug_info
        try:
            jaxpr, consts = tracing.trace_to_jaxpr(lambda *xs: function(*xs[num_consts:]), params["fwd_jaxpr"].in_avals,
                                                   debug_info)
        except errors.UnexpectedTracerError:  # the function closes over values of a finished trace
            return updated_params
        jaxpr, _ = dce_jaxpr(jaxpr, used[:count], True)
        if any(isinstance(c, tracing.Tracer) for c in consts):
            return updated_params
        return updated_params | {"fwd_jaxpr": jaxpr.with_consts(consts)}


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    return jvp_flat(remat_opt_p.callable_of(params), primals, tangents)


remat_opt_p = _RematOpt("remat_opt", "custom_vjp", jvp=_jvp)
