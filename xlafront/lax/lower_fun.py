"""Rules that are written as functions: a lowering that traces a Python function of other primitives."""

from __future__ import annotations

from collections.abc import Callable

from xlafront.core import dtypes, tracing
from xlafront.core.memo import Memo
from xlafront.core.sharding_types import has_open_sums
from xlafront.runtime import config

_traced = Memo(4096)


def lower_fun(function: Callable, multiple_results: bool = False, called: str | None = None) -> Callable:
    """A lowering rule from `function(*operands, **params)`, traced once for each signature.

    With a name by which it is `called`, the operation becomes a call: modules hold one function for each signature.
    """

    def traced(in_avals, params):
        key = (function, in_avals, tuple(params.items()), config.trace_context_key())
        return _traced.get(key) or _traced.keep(key, tracing.trace_to_closed_jaxpr(
            (lambda *xs: list(function(*xs, **params))) if multiple_results else
            (lambda *xs: [function(*xs, **params)]), in_avals))

    def rule(ctx, *operands, **params):
        # No mesh axis is in scope here, modules know nothing of what varies along one, and how results are split the operation
        # itself says.
        # Sums that are still to be made stay so through all of the function's operations: these have types as outside.
        summands = any([a.explicit_sharding is not None and has_open_sums(a) for a in ctx.avals_in])
        in_avals = tuple([a.update(vma=frozenset(), sharding=a.explicit_sharding if summands else None)
                          if a.vma or a.explicit_sharding is not None else a for a in ctx.avals_in])
        if not config.enable_x64.value and any([a.dtype in dtypes.only_with_x64 for a in in_avals]):
            with config.enable_x64(True):  # the types are decided: what the function makes of them may not lose bits
                closed = traced(in_avals, params)
        else:
            closed = traced(in_avals, params)
        results = ctx.inline(closed, operands) if called is None else ctx.call(closed, operands, called)
        return results if multiple_results else results[0]

    return rule
