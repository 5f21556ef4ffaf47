"""Primitives that call a program: one equation of the outer program, with the inner one as its parameter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlafront.core import tracing
from xlafront.core.ir import ClosedJaxpr, jaxpr_as_fun
from xlafront.core.linear_util import WrappedFun, wrap_init
from xlafront.core.program_call import ProgramCall


class CallPrimitive(ProgramCall):
    """An operation that runs a function of flat arguments, kept as one equation with the parameter `call_jaxpr`.

    >>> block_p = CallPrimitive("block")
    >>> block_p.bind(lambda x, y: [x + y], 1.0, 2.0)
    [Array(3., dtype=float32, weak_type=True)]
    """

    __slots__ = ()

    call_primitive = True

    def __init__(self, name: str):
        super().__init__(name, parameter="call_jaxpr", impl=_run, lower=lambda ctx, *operands, call_jaxpr, **params: ctx.call(
            call_jaxpr, operands, params.get("name") or name))

    def bind(self, *args, **params):
        """`bind(fun, *args)` and `bind(*args, subfuns=(fun,))` trace the function; with `call_jaxpr` the program is given."""
        if "call_jaxpr" not in params:
            [fun], args = (params.pop("subfuns"), args) if "subfuns" in params else (args[:1], args[1:])
            call = getattr(fun, "call_wrapped", fun)
            closed = tracing.trace_to_closed_jaxpr(lambda *xs: call(*xs), [tracing.aval_of(x) for x in args])
            args = (*closed.consts, *args)
            jaxpr = closed.jaxpr
            params["call_jaxpr"] = ClosedJaxpr(jaxpr.with_constants_as_inputs())
        elif not isinstance(params["call_jaxpr"], ClosedJaxpr):
            params["call_jaxpr"] = ClosedJaxpr(params["call_jaxpr"])
        return super().bind(*args, **params)

    def bind_with_trace(self, trace, args, *avals_and_params):
        with tracing.current_trace(trace):
            return self.bind(*args, **avals_and_params[-1])

    def get_bind_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """With the called program as a function in `subfuns`, in place of `call_jaxpr`."""
        rest = {name: x for name, x in params.items() if name != "call_jaxpr"}
        return rest | {"subfuns": (_as_function(params["call_jaxpr"]),)}

    def def_impl(self, impl: Callable) -> Callable:
        """Say how it runs outside of programs: `impl(fun, *args, **params)`."""
        self.own_impl = lambda *args, call_jaxpr, **params: impl(_as_function(call_jaxpr), *args, **params)
        return impl


def _as_function(closed: ClosedJaxpr) -> WrappedFun:
    return wrap_init(jaxpr_as_fun(closed), debug_info=closed.debug_info)


def _run(*args, call_jaxpr, **params):
    return jaxpr_as_fun(call_jaxpr)(*args)


def call_impl(f: Callable, *args, **params) -> list[Any]:
    """Run a wrapped function, as calls do outside of programs.

    >>> call_impl(lambda x: [2 * x], 3)
    [6]
    """
    return getattr(f, "call_wrapped", f)(*args)


call_p = CallPrimitive("call")
closed_call_p = CallPrimitive("closed_call")
