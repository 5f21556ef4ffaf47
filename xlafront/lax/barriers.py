"""Identity operations that stop differentiation (`stop_gradient`) or compiler optimizations (`optimization_barrier`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront.base.jaxlib_compat import ArrayImpl
from xlafront.core import dtypes, tracing, tree
from xlafront.core.primitive import Cost, KeyUse, MeshRules, Primitive, Traits
from xlafront.core.sharding_types import of_first_any_kind
from xlafront.core.zeros import Zero
from xlafront.lax.families import elementwise

if TYPE_CHECKING:
    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir

stop_gradient_p = elementwise(
    "stop_gradient", lambda ctx, x: x, "any", derivatives=(None,), sums=of_first_any_kind,
    traits=Traits(cost=Cost.CHEAP, key_use=KeyUse.FORWARDS))


def stop_gradient(x: Any) -> Any:
    """Return `x`, as a constant for differentiation.

    Args:
        x: A pytree of arrays.

    Returns:
        A pytree with the same values.

    Example:
        >>> xf.grad(lambda x: x * lax.stop_gradient(x))(3.0)
        Array(3., dtype=float32, weak_type=True)
    """
    def stop(leaf: Any) -> Any:
        aval = tracing.aval_of(leaf, "stop_gradient")
        if isinstance(leaf, tracing.Tracer):
            return stop_gradient_p.bind(leaf) if dtypes.is_inexact(aval.dtype) else leaf
        if isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype != aval.dtype:
            leaf = np.asarray(leaf, aval.dtype)
        if tracing.thread.trace is tracing.eval_trace or isinstance(leaf, ArrayImpl) or aval.dtype == dtypes.float0:
            return leaf
        return stop_gradient_p.bind(leaf)  # a Python scalar becomes a value of the jaxpr

    return tree.map(stop, x)


def _through_barrier(xs: Sequence[Any]) -> list[Any]:
    """Apply the barrier to all values that are not symbolic zeros."""
    nonzero = [x for x in xs if type(x) is not Zero]
    results = iter(optimization_barrier_p.bind(*nonzero) if nonzero else ())
    return [x if type(x) is Zero else next(results) for x in xs]


def _barrier_lower(ctx: RuleContext, *operands: ir.Value) -> Sequence[ir.Value]:
    results = ctx.op("stablehlo.optimization_barrier", operands)
    return results if isinstance(results, list) else [results]


optimization_barrier_p = Primitive(
    "optimization_barrier", multiple_results=True, abstract=lambda *avals: list(avals), lower=_barrier_lower,
    jvp=lambda primals, tangents: (optimization_barrier_p.bind(*primals), _through_barrier(tangents)),
    transpose=lambda cts, *operands: _through_barrier(cts),
    batch=lambda size, operands, dims: (optimization_barrier_p.bind(*operands), dims), mesh=MeshRules(states_mesh_types=True))


def optimization_barrier(operand: Any) -> Any:
    """Prevent the compiler from reordering operations across this point.

    All operands are computed before any operation that uses a result.

    Args:
        operand: A pytree of arrays.

    Returns:
        A pytree with the same values.

    Example:
        >>> x, y = lax.optimization_barrier((xnp.ones(2), xnp.zeros(3)))
    """
    leaves, treedef = tree.flatten(operand)
    return treedef.unflatten(optimization_barrier_p.bind(*leaves)) if leaves else operand
