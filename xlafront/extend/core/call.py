"""Primitives that call a program: one equation of the outer program, with the inner one as its parameter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlafront.core import tracing
from xlafront.core.discharge import discharge_call
from xlafront.core.ir import ClosedJaxpr, dce_jaxpr, effects_by_operand, eval_jaxpr, keeps_alive
from xlafront.core.primitive import Primitive
from xlafront.core.zeros import UndefinedPrimal, Zero
from xlafront.transforms.ad import core as ad_core
from xlafront.transforms.batching.vmap import batch_program


class CallPrimitive(Primitive):
    """An operation that runs a function of flat arguments, kept as one equation with the parameter `call_jaxpr`.

    >>> block_p = CallPrimitive("block")
    >>> block_p.bind(lambda x, y: [x + y], 1.0, 2.0)
    [Array(3., dtype=float32, weak_type=True)]
    """

    __slots__ = ()

    call_primitive = True

    def __init__(self, name: str):
        super().__init__(
            name, multiple_results=True, memoise=False, abstract=lambda *_, call_jaxpr, **params: call_jaxpr.out_avals,
            effects=lambda *_, call_jaxpr, **params: effects_by_operand(call_jaxpr), discharge=discharge_call, impl=_run,
            lower=lambda ctx, *operands, call_jaxpr, **params: ctx.call(call_jaxpr, operands, params.get("name") or name),
            jvp=self._jvp, transpose=self._transpose, dce=_dce)

    def bind(self, *args, **params):
        """`bind(fun, *args)` traces the function first; with `call_jaxpr` the program is given."""
        if "call_jaxpr" not in params:
            fun, *args = args
            call = getattr(fun, "call_wrapped", fun)
            closed = tracing.trace_to_closed_jaxpr(lambda *xs: call(*xs), [tracing.aval_of(x) for x in args])
            args = (*closed.consts, *args)
            jaxpr = closed.jaxpr
            params["call_jaxpr"] = ClosedJaxpr(jaxpr.replace(constvars=[], invars=[*jaxpr.constvars, *jaxpr.invars]))
        elif not isinstance(params["call_jaxpr"], ClosedJaxpr):
            params["call_jaxpr"] = ClosedJaxpr(params["call_jaxpr"])
        return super().bind(*args, **params)

    def get_bind_params(self, params: dict[str, Any]) -> tuple[list, dict[str, Any]]:
        """The called program as a function, and what other parameters there are."""
        rest = dict(params)
        closed = rest.pop("call_jaxpr")
        return [lambda *xs: eval_jaxpr(closed.jaxpr, closed.consts, *xs)], rest

    def _jvp(self, primals, tangents, *, call_jaxpr, **params):
        active = tuple(type(t) is not Zero for t in tangents)
        program, nonzero = ad_core.jvp_program(call_jaxpr, active)
        results = self.bind(*primals, *[t for t in tangents if type(t) is not Zero], call_jaxpr=program, **params)
        count = len(call_jaxpr.out_avals)
        rest = iter(results[count:])
        return results[:count], [next(rest) if moves else Zero(aval.to_tangent_aval())
                                 for moves, aval in zip(nonzero, call_jaxpr.out_avals)]

    def _transpose(self, cotangents, *operands, call_jaxpr, **params):
        linear = tuple(isinstance(x, UndefinedPrimal) for x in operands)
        given = tuple(type(ct) is not Zero for ct in cotangents)
        program, nonzero = ad_core.transpose_program(call_jaxpr, linear, given)
        results = iter(self.bind(*[x for x, lin in zip(operands, linear) if not lin],
                                 *[ct for ct, g in zip(cotangents, given) if g], call_jaxpr=program, **params))
        moves = iter(nonzero)
        return [(next(results) if next(moves) else Zero(x.aval)) if lin else None for x, lin in zip(operands, linear)]

    def batch_with_axis(self, trace, operands, dims, *, call_jaxpr, **params):
        program, out_dims = batch_program(call_jaxpr, tuple(dims), trace)
        return self.bind(*operands, call_jaxpr=program, **params), out_dims


def _run(*args, call_jaxpr, **params):
    return eval_jaxpr(call_jaxpr.jaxpr, call_jaxpr.consts, *args)


def _dce(used, eqn):
    """Drop what nobody reads of the called program."""
    closed = eqn.params["call_jaxpr"]
    jaxpr, used_inputs = dce_jaxpr(closed.jaxpr, used)
    if not any(used) and not keeps_alive(jaxpr.effects):
        return None
    return eqn.replace(
        invars=[v for v, keep in zip(eqn.invars, used_inputs) if keep],
        outvars=[v for v, keep in zip(eqn.outvars, used) if keep],
        params=eqn.params | {"call_jaxpr": ClosedJaxpr(jaxpr, closed.consts)}, effects=jaxpr.effects)


def call_impl(f: Callable, *args, **params) -> list[Any]:
    """Run a wrapped function, as calls do outside of programs.

    >>> call_impl(lambda x: [2 * x], 3)
    [6]
    """
    return getattr(f, "call_wrapped", f)(*args)


call_p = CallPrimitive("call")
closed_call_p = CallPrimitive("closed_call")
