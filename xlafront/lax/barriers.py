"""What gives values back unchanged and stops something: differentiation, or the compiler's moving of operations."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlafront.core import dtypes, tracing, tree
from xlafront.core.primitive import Primitive
from xlafront.core.sharding_types import of_first
from xlafront.core.zeros import Zero
from xlafront.lax.families import elementwise
from xlafront.runtime.arrays import ArrayImpl

stop_gradient_p = elementwise("stop_gradient", lambda ctx, x: x, "any", derivatives=(None,), sums=of_first)
stop_gradient_p.key_use = "hands on"
stop_gradient_p.cost = "cheap"


def stop_gradient(x: Any) -> Any:
    """The same values, which differentiation takes for constants.

    - `x`: a pytree of arrays.

    >>> xf.grad(lambda x: x * lax.stop_gradient(x))(3.0)
    Array(3., dtype=float32, weak_type=True)
    """
    def stop(leaf):
        aval = tracing.aval_of(leaf, "stop_gradient")
        if isinstance(leaf, tracing.Tracer):
            return stop_gradient_p.bind(leaf) if dtypes.is_inexact(aval.dtype) else leaf
        if isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype != aval.dtype:
            leaf = np.asarray(leaf, aval.dtype)
        if tracing.thread.trace is tracing.eval_trace or isinstance(leaf, ArrayImpl) or aval.dtype == dtypes.float0:
            return leaf
        return stop_gradient_p.bind(leaf)  # a number, as a value of the program

    return tree.map(stop, x)


def _through_barrier(xs):
    """Of values some of which are symbolic zeros, the others through a barrier."""
    given = [x for x in xs if type(x) is not Zero]
    passed = iter(optimization_barrier_p.bind(*given) if given else ())
    return [x if type(x) is Zero else next(passed) for x in xs]


def _barrier_lower(ctx, *operands):
    found = ctx.op("stablehlo.optimization_barrier", operands)
    return found if isinstance(found, list) else [found]


def _barrier_types(*avals):
    """The types of the operands. Each result waits for all of them: it varies over the mesh axes that any of them does."""
    tracing.joint_vma(avals)
    return list(avals)


optimization_barrier_p = Primitive(
    "optimization_barrier", multiple_results=True, abstract=_barrier_types, lower=_barrier_lower,
    jvp=lambda primals, tangents: (optimization_barrier_p.bind(*primals), _through_barrier(tangents)),
    transpose=lambda cts, *operands: _through_barrier(cts),
    batch=lambda size, operands, dims: (optimization_barrier_p.bind(*operands), dims))
optimization_barrier_p.own_types = True


def optimization_barrier(operand: Any) -> Any:
    """The same arrays, which the compiler must have whole before anything computed from them.

    - `operand`: a pytree of arrays.

    >>> x, y = lax.optimization_barrier((xnp.ones(2), xnp.zeros(3)))
    """
    leaves, treedef = tree.flatten(operand)
    return treedef.unflatten(optimization_barrier_p.bind(*leaves)) if leaves else operand
