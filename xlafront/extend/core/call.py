"""Call primitives: one equation of the outer jaxpr, with the called jaxpr as a parameter."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from xlafront.core import tracing
from xlafront.core.ir import Jaxpr, jaxpr_as_fun
from xlafront.core.primitive import Primitive
from xlafront.core.program_call import ProgramCall
from xlafront.core.zeros import UndefinedPrimal, is_undefined
from xlafront.transforms.ad.jvp import jvp_of_call
from xlafront.transforms.ad.linearize import linearize_of_call
from xlafront.transforms.ad.transpose import transpose_of_call
from xlafront.transforms.batching.vmap import batch_of_call
from xlafront.transforms.calls.accumulators import GradAccum, ValAccum
from xlafront.transforms.calls.linear_util import WrappedFun, wrap_init


class CallPrimitive(ProgramCall):
    """A primitive that calls a function of flat arguments, as one equation with the parameter `call_jaxpr`.

    Example:
        >>> block_p = CallPrimitive("block")
        >>> block_p.bind(lambda x, y: [x + y], 1.0, 2.0)
        [Array(3., dtype=float32, weak_type=True)]
    """

    __slots__ = ()

    call_primitive = True

    def __init__(self, name: str, inline: bool = False):
        super().__init__(name, parameter="call_jaxpr", impl=_run, lower=_lower_inline if inline else _lower_call(name))

    def bind(self, *args, **params):
        """Call a function: trace it in `bind(fun, *args)` and `bind(*args, subfuns=(fun,))`, or use the jaxpr `call_jaxpr`."""
        if "call_jaxpr" not in params:
            [fun], args = (params.pop("subfuns"), args) if "subfuns" in params else (args[:1], args[1:])
            call = getattr(fun, "call_wrapped", fun)
            closed = tracing.trace_to_closed_jaxpr(lambda *xs: call(*xs), [tracing.aval_of(x) for x in args])
            args = (*closed.consts, *args)
            params["call_jaxpr"] = closed.with_constants_as_inputs()
        return super().bind(*args, **params)

    def bind_with_trace(self, trace, args, *avals_and_params):
        with tracing.current_trace(trace):
            return self.bind(*args, **avals_and_params[-1])

    def get_bind_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters with the called jaxpr as a function in `subfuns`, in place of `call_jaxpr`."""
        rest = {name: x for name, x in params.items() if name != "call_jaxpr"}
        return rest | {"subfuns": (_as_function(params["call_jaxpr"]),)}

    def def_impl(self, impl: Callable) -> Callable:
        """Say how it runs outside of programs: `impl(fun, *args, **params)`."""
        self.impl = lambda *args, call_jaxpr, **params: impl(_as_function(call_jaxpr), *args, **params)
        return impl


def _lower_call(name: str) -> Callable:
    return lambda ctx, *operands, call_jaxpr, **params: ctx.call(call_jaxpr, operands, params.get("name") or name)


def _lower_inline(ctx: Any, *operands: Any, call_jaxpr: Jaxpr, **params: Any) -> list[Any]:
    return ctx.inline(call_jaxpr, operands)


def _as_function(closed: Jaxpr) -> WrappedFun:
    return wrap_init(jaxpr_as_fun(closed), debug_info=closed.debug_info)


def _run(*args, call_jaxpr, **params):
    return call_jaxpr(*args)


def call_impl(f: Callable, *args, **params) -> list[Any]:
    """Call a wrapped function, as the eager evaluation of a call primitive.

    Example:
        >>> call_impl(lambda x: [2 * x], 3)
        [6]
    """
    return getattr(f, "call_wrapped", f)(*args)


call_p = CallPrimitive("call")
call = call_p.bind  # as jax.core of JAX 0.10 named it
closed_call_p = CallPrimitive("closed_call")


def create_call_primitive(name: str, inline_jax_late: bool = True) -> CallPrimitive:
    """Return a primitive that calls the jaxpr in its parameter `call_jaxpr`, with the rules of such calls.

    Args:
        name: Name of the primitive.
        inline_jax_late: If True, the jaxpr is inlined when it is lowered; otherwise it is a function of the module, with the
            parameter `name` as its name.

    Returns:
        The primitive.

    Example:
        >>> block_p = create_call_primitive("block")
        >>> block_p.bind(2.0, call_jaxpr=xf.make_jaxpr(lambda x: 3 * x)(1.0))
        [Array(6., dtype=float32, weak_type=True)]
    """
    return CallPrimitive(name, inline_jax_late)


class _CallOf(CallPrimitive):
    """The rules of calls, for a primitive that is not a `ProgramCall`: derived calls bind this primitive."""

    __slots__ = ("target",)

    def __init__(self, target: Primitive, name: str, inline: bool) -> None:
        super().__init__(name, inline)
        self.target = target

    def bind(self, *args: Any, **params: Any) -> Any:
        return self.target.bind(*args, **params)


def register_call_primitive_rules(prim: Primitive, name: str | None = None, transpose_rule: Callable | None = None,
                                  inline_jax_late: bool = True) -> None:
    """Give a primitive the rules of a call of the jaxpr in its parameter `call_jaxpr`.

    Args:
        prim: Primitive with several results.
        name: Name of its functions in lowered modules. Without one no lowering rule is registered.
        transpose_rule: Transpose rule `rule(cotangents, *operands, **params)`, with a `ValAccum` in place of each operand in
            which the call is linear. Default: `eval_jaxpr_transpose`.
        inline_jax_late: If True, the jaxpr is inlined when it is lowered.

    Example:
        >>> block_p = xf.extend.core.Primitive("block")
        >>> block_p.multiple_results = True
        >>> register_call_primitive_rules(block_p, "block")
        >>> triple = xf.make_jaxpr(lambda x: 3 * x)(1.0)
        >>> float(xf.grad(lambda x: block_p.bind(x, call_jaxpr=triple)[0])(2.0))
        3.0
    """
    call = _CallOf(prim, name or prim.name, inline_jax_late)
    prim.multiple_results = True
    prim.abstract, prim.effects, prim.impl = call.abstract, call.effects, _run
    prim.traits = prim.traits._replace(memoise=False)
    prim.jvp = functools.partial(jvp_of_call, call)
    prim.transpose = _with_accumulators(transpose_rule or functools.partial(eval_jaxpr_transpose, prim))
    prim.batch, prim.batch_with_axis = None, functools.partial(batch_of_call, call)
    prim.structured = call.structured._replace(linearize=functools.partial(linearize_of_call, call))
    if name is not None:
        prim.lowerings[None] = call.lowerings[None]


def _with_accumulators(rule: Callable) -> Callable:
    """Return a transpose rule that returns cotangents, from one that adds them to accumulators."""
    def transpose(cts: Sequence[Any], *operands: Any, **params: Any) -> list[Any]:
        accumulators = [ValAccum(x.aval.to_ct_aval()) if is_undefined(x) else x for x in operands]
        rule(cts, *accumulators, **params)
        return [a.freeze() if is_undefined(x) else None for a, x in zip(accumulators, operands)]

    return transpose


def eval_jaxpr_transpose(prim: Primitive, ct: Sequence[Any], *args: Any, call_jaxpr: Jaxpr, **params: Any
                         ) -> dict[Any, Any]:
    """Transpose a call of a jaxpr: bind the primitive with the transposed jaxpr.

    Args:
        prim: Primitive of the call.
        ct: Cotangents of the results.
        args: Operands, with an accumulator for each one in which the call is linear.
        call_jaxpr: Called jaxpr.
        params: Other parameters of the call.

    Returns:
        An empty dictionary: logs of backward rules go to the backward pass itself.

    Example:
        >>> from xlafront.experimental.hijax import ValAccum
        >>> product, total = xf.make_jaxpr(lambda x, y: x * y)(1.0, 2.0), ValAccum(xf.typeof(1.0))
        >>> eval_jaxpr_transpose(create_call_primitive("block"), [1.0], total, 3.0, call_jaxpr=product)
        {}
        >>> float(total.freeze())
        3.0
    """
    call = prim if isinstance(prim, ProgramCall) else _CallOf(prim, prim.name, True)
    operands = [UndefinedPrimal(x.aval) if isinstance(x, GradAccum) else x for x in args]
    for x, found in zip(args, transpose_of_call(call, ct, *operands, call_jaxpr=call_jaxpr, **params)):
        if isinstance(x, GradAccum):
            x.accum(found)
    return {}
