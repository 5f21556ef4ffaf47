"""`lower_fun`: a lowering rule made from a Python function of other primitives."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from xlafront.base import config
from xlafront.core import dtypes, tracing
from xlafront.core.bounded_cache import BoundedCache
from xlafront.core.sharding_types import has_open_sums

if TYPE_CHECKING:
    from xlafront.core.avals import ShapedArray
    from xlafront.core.ir import Jaxpr
    from xlafront.core.typing import Params
    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir

_traced = BoundedCache(4096)


def lower_fun(function: Callable, multiple_results: bool = False, called: str | None = None) -> Callable:
    """Return a lowering rule that traces `function(*operands, **params)`, once for each signature, and inlines the jaxpr.

    With a name `called`, the operation is lowered to a call instead: modules contain one function for each signature. The
    attribute `jaxpr_for(operand_types, params)` of the rule returns the jaxpr.
    """

    def traced(in_avals: tuple[ShapedArray, ...], params: Params) -> Jaxpr:
        key = (function, in_avals, tuple(params.items()), config.trace_context_key())
        return _traced.get(key) or _traced.put(key, tracing.trace_to_closed_jaxpr(
            (lambda *xs: list(function(*xs, **params))) if multiple_results else
            (lambda *xs: [function(*xs, **params)]), in_avals))

    def jaxpr_for(in_avals: tuple[ShapedArray, ...], params: Params) -> Jaxpr:
        if not config.enable_x64.value and any([a.dtype in dtypes.only_with_x64 for a in in_avals]):
            with config.enable_x64(True):  # the operands have 64 bits; the function must not truncate them
                return traced(in_avals, params)
        return traced(in_avals, params)

    def rule(ctx: RuleContext, *operands: ir.Value, **params: Any) -> ir.Value | list[ir.Value]:
        # Drop the mesh axes of the types: no named axis is in scope here, modules have no varying types, and the operation
        # determines the sharding of its results. If an operand is unreduced, keep the shardings, so that all operations of the
        # function preserve it.
        summands = any([a.explicit_sharding is not None and has_open_sums(a) for a in ctx.avals_in])
        in_avals = tuple([a.update(vma=frozenset(), sharding=a.explicit_sharding if summands else None)
                          if a.vma or a.explicit_sharding is not None else a for a in ctx.avals_in])
        closed = jaxpr_for(in_avals, params)
        results = ctx.inline(closed, operands) if called is None else ctx.call(closed, operands, called)
        return results if multiple_results else results[0]

    rule.jaxpr_for = jaxpr_for  # type: ignore[attr-defined]  # for compilers of kernels, which do not emit StableHLO
    return rule
