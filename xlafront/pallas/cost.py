"""Cost estimates of functions, counted on their operations: for the `cost_estimate` of a kernel."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from xlafront.core import tracing, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.ir import Jaxpr, subprograms
from xlafront.core.traceback_filter import boundary
from xlafront.pallas.specs import CostEstimate

_ARITHMETIC = frozenset("add add_any sub mul div max min neg and or xor not floor ceil round".split())
_TRANSCENDENTAL = frozenset("exp log sin cos tan asin acos atan sinh cosh tanh sqrt logistic".split())


@boundary
def estimate_cost(fun: Callable, *args: Any, **kwargs: Any) -> CostEstimate:
    """Estimate the cost of a function: floating-point operations, transcendental functions such as `exp`, and bytes accessed.

    Args:
        fun: The function.
        args, kwargs: Its arguments: arrays, or objects with a shape and a dtype.

    Returns:
        The estimate. Bytes are those of the arguments and results.

    Example:
        >>> pl.estimate_cost(lambda x: xnp.exp(x) + 1, xnp.ones(8))
        CostEstimate(flops=8, transcendentals=8, bytes_accessed=64, remote_bytes_transferred=0)
    """
    leaves, structure = tree.flatten((args, kwargs))
    results: list = []

    def flat(*tracers):
        positional, named = structure.unflatten(tracers)
        results[:] = tree.leaves(fun(*positional, **named))
        return results

    avals = [x.aval if hasattr(x, "aval") else ShapedArray(tuple(x.shape), x.dtype) if hasattr(x, "shape") else
             tracing.aval_of(x) for x in leaves]
    jaxpr, _ = tracing.trace_to_jaxpr(flat, avals)
    flops, transcendentals = _count(jaxpr)
    size = sum([math.prod(a.shape) * a.dtype.itemsize for a in [*avals, *[v.aval for v in jaxpr.outvars]]])
    return CostEstimate(flops, transcendentals, size)


def _count(jaxpr: Jaxpr) -> tuple[int, int]:
    flops = transcendentals = 0
    for eqn in jaxpr.eqns:
        name, params = eqn.primitive.name, eqn.params
        size = math.prod(eqn.outvars[0].aval.shape) if eqn.outvars else 0
        if name in _ARITHMETIC:
            flops += size
        elif name in _TRANSCENDENTAL:
            transcendentals += size
        elif name == "integer_pow":
            y = abs(params["y"])
            flops += size * (y.bit_length() - 1 + y.bit_count() + (params["y"] < 0)) if y else 0
        elif name == "dot_general":
            (contracted, _), _ = params["dimension_numbers"]
            flops += 2 * size * math.prod([eqn.invars[0].aval.shape[d] for d in contracted])
        elif name == "pallas_call" and params["cost_estimate"] is not None:
            flops += params["cost_estimate"].flops
            transcendentals += params["cost_estimate"].transcendentals
        else:
            repetitions = params["length"] if name == "scan" else 1
            if name == "pallas_call":
                repetitions = math.prod([n or 1 for n in params["grid_mapping"].grid])
            for program in subprograms(params):
                f, t = _count(program)
                flops, transcendentals = flops + repetitions * f, transcendentals + repetitions * t
    return flops, transcendentals
