"""`lax.reduce`: reductions by a user-defined function, which is traced to a jaxpr."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront import lowering
from xlafront.core import dtypes, errors, tracing, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.basic_primitives import reshard_p
from xlafront.core.ir import Jaxpr, JaxprEqn, subprograms
from xlafront.core.primitive import Cost, MeshRules, Primitive, Traits
from xlafront.core.typing import ShardingLike
from xlafront.lax import elementwise, reductions, shapes, sharding_rules, slicing
from xlafront.lax.arguments import named_sharding
from xlafront.staging import signatures
from xlafront.staging.library import library
from xlafront.transforms.ad.jvp import jvp_flat
from xlafront.transforms.batching.vmap import batch_flat

if TYPE_CHECKING:
    from xlafront.core.typing import Aval, Dims, Tangent


def _reduce_abstract(*avals: Aval, dimensions: tuple[int, ...], **_: Any) -> list[ShapedArray]:
    count = len(avals) // 2
    return [ShapedArray(tuple(n for i, n in enumerate(x.shape) if i not in dimensions), x.dtype,
                        x.weak_type and start.weak_type) for x, start in zip(avals[:count], avals[count:])]


def _reduce_lower(ctx: Any, *operands: Any, jaxpr: Jaxpr, dimensions: tuple[int, ...], computation: Callable
                  ) -> list[Any]:
    scalars = [((), a.dtype) for a in ctx.avals_in[len(operands) // 2:]]
    return list(ctx.with_region(
        "stablehlo.reduce", operands, [*scalars, *scalars], lambda inner, *xs: inner.inline(jaxpr, list(xs)),
        types=list(ctx.avals_out), dimensions=lowering.mlir.i64s(dimensions)))


def _fold(*operands: Any, jaxpr: Jaxpr, dimensions: tuple[int, ...], **_: Any) -> list[Any]:
    """Reduce by combining neighbouring pairs with other primitives until one element is left, and combining it with the
    start value. Start values may have dimensions: the leading ones of the result."""
    count = len(operands) // 2
    shape = np.shape(operands[0])
    remaining = [i for i in range(len(shape)) if i not in dimensions]
    result = tuple(shape[i] for i in remaining)
    n = math.prod(shape[i] for i in dimensions)
    rows = [shapes.reshape(shapes.transpose(x, (*dimensions, *remaining)), (n, *result)) for x in operands[:count]]
    starts = [shapes.broadcast_in_dim(s, result, tuple(range(np.ndim(s)))) for s in operands[count:]]
    while n > 1:
        pairs = apply_elementwise(jaxpr, [slicing.slice_in_dim(x, 0, n - n % 2, 2) for x in rows],
                          [slicing.slice_in_dim(x, 1, n, 2) for x in rows])
        rows = [slicing.concatenate([p, slicing.slice_in_dim(x, n - 1, n)], 0) for p, x in zip(pairs, rows)] if n % 2 else pairs
        n = (n + 1) // 2
    return apply_elementwise(jaxpr, starts, [shapes.reshape(x, result) for x in rows]) if n else starts


def apply_elementwise(function: Jaxpr, xs: Sequence[Any], ys: Sequence[Any]) -> list[Any]:
    """Apply a jaxpr of scalars elementwise."""
    shape = np.shape(xs[0])
    size = math.prod(shape)
    flat = [shapes.reshape(x, (size,)) for x in (*xs, *ys)]
    outputs = batch_flat(function, flat, [0] * len(flat), size)
    return [shapes.reshape(shapes.place_axis(x, d, 0, size), shape) for x, d in zip(*outputs)]


def _reduce_jvp(primals: Sequence[Any], tangents: Sequence[Tangent], **params: Any) -> tuple[list[Any], list[Tangent]]:
    return jvp_flat(lambda *xs: _fold(*xs, **params), primals, tangents)


def _reduce_batch(axis_size: int, operands: Sequence[Any], dims: Dims, *, dimensions: tuple[int, ...], **params: Any
                  ) -> tuple[list[Any], list[int | None]]:
    count = len(operands) // 2
    params["dimensions"] = tuple(d + 1 for d in dimensions)
    xs = [shapes.broadcast_batch(x, d, axis_size) for x, d in zip(operands[:count], dims)]
    if all(d is None for d in dims[count:]):
        results = reduce_p.bind(*xs, *operands[count:], **params)
    else:  # the primitive takes scalar start values
        results = _fold(*xs, *operands[count:], **params)
    return results, [0] * count


reduce_p = Primitive(
    "reduce", multiple_results=True, abstract=_reduce_abstract, lower=_reduce_lower, jvp=_reduce_jvp, batch=_reduce_batch,
    mesh=MeshRules(sharding_rules.reduced), traits=Traits(memoise=False))

_MONOIDS = {"add": "reduce_sum", "mul": "reduce_prod", "max": "reduce_max", "min": "reduce_min", "and": "reduce_and",
            "or": "reduce_or", "xor": "reduce_xor"}


# The dtype kinds for which a reduction has no identity element.
_DTYPES_WITHOUT_IDENTITY = {"reduce_max": "c", "reduce_min": "c", "reduce_and": "fcV", "reduce_or": "fcV", "reduce_xor": "fcV"}


def _is_identity(name: str | None, start: Any) -> bool:
    """True if a start value is statically the identity of the reduction in its own dtype, which may then be any dtype."""
    if name is None or isinstance(start, tracing.Tracer):
        return False
    d = tracing.aval_of(start).dtype
    return d.kind not in _DTYPES_WITHOUT_IDENTITY.get(name, "") and bool(start == reductions.IDENTITIES[name](d))


def monoid_reduction(function: Jaxpr) -> str | None:
    """Return the name of the reduction that a traced function of two scalars is equivalent to, or None."""
    jaxpr = function.structure
    if len(jaxpr.eqns) != 1 or len(jaxpr.invars) != 2 or list(jaxpr.outvars) != jaxpr.eqns[0].outvars:
        return None
    eqn = jaxpr.eqns[0]
    name = eqn.primitive.name
    same = eqn.primitive is elementwise.PRIMITIVES.get(name) and eqn.invars in (jaxpr.invars, jaxpr.invars[::-1])
    return _MONOIDS.get(name) if same else None


def lowers_to_reduction(function: Jaxpr) -> bool:
    """True if XLA can take a function as the body of its reduction: one of elementwise operations only.

    Loops and kernel calls in the body crash XLA's CPU compiler, traced constants cannot be captured, and keys are not scalars.
    Such
    reductions are folded with other primitives.
    """
    return (not any(isinstance(c, tracing.Tracer) for c in function.consts) and _is_elementwise(function.structure)
            and not any(dtypes.is_extended(aval.dtype) for aval in function.in_avals))


def _is_elementwise(jaxpr: Jaxpr) -> bool:
    return not jaxpr.effects and all(map(_is_elementwise_equation, jaxpr.eqns))


def _is_elementwise_equation(eqn: JaxprEqn) -> bool:
    primitive, jaxprs = eqn.primitive, list(subprograms(eqn.params))
    if jaxprs:
        return primitive.traits.cost is not Cost.HEAVY and all(map(_is_elementwise, jaxprs))
    return primitive.traits.cost is Cost.CHEAP or (
        primitive.traits.broadcasts_scalars and not primitive.traits.lowers_by_function)


def _dtype_mismatch(array_dtype: np.dtype, start_dtype: np.dtype) -> TypeError:
    return errors.incompatible_dtypes("reduce", [array_dtype, start_dtype],
                                      "The initial values must have the dtypes of the arrays: "
                                                                "operand dtypes should match those of initial values.")


@library(static=None)
def reduce(operands: Any, init_values: Any, computation: Callable, dimensions: Sequence[int],
           out_sharding: ShardingLike = None) -> Any:
    """Reduce arrays along dimensions with an associative function.

    Args:
        operands: Pytree of arrays of one shape.
        init_values: Scalar start value for each array, which must be an identity of `computation`.
        computation: Function `computation(x, y)` that combines two pytrees of scalars.
        dimensions: Dimensions to reduce.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        A pytree of reduced arrays.

    Example:
        >>> lax.reduce(xnp.array([[1, 2], [3, 4]]), 0, lax.add, (0,))
        Array([4, 6], dtype=int32)
    """
    leaves, treedef = tree.flatten(operands)
    starts, start_tree = tree.flatten(init_values)
    if treedef != start_tree:
        raise ValueError(f"reduce needs one start value for each array: got structures {treedef} and {start_tree}.")
    dims = shapes.plain_axes(dimensions, np.ndim(leaves[0]), "reduce")
    for s in starts:
        if np.shape(s):
            raise ValueError(f"reduce needs scalars as initial values, found one of shape {np.shape(s)}.")
    for s, x in zip(starts, leaves):
        start_dtype, array_dtype = tracing.aval_of(s).dtype, tracing.aval_of(x).dtype
        if not dims and start_dtype != array_dtype:
            raise _dtype_mismatch(array_dtype, start_dtype)
    scalars = [ShapedArray((), tracing.aval_of(x).dtype) for x in leaves]

    def combine(*xs: Any) -> tuple[list[Any], Any]:
        half = len(xs) // 2
        return tree.flatten(computation(treedef.unflatten(xs[:half]), treedef.unflatten(xs[half:])))

    body_jaxpr, out_tree = tracing.trace_with_aux(combine, [*scalars, *scalars], signatures.debug_info_of(
        "reduce comp", computation, tree.structure((tree.leaf_indices(treedef),) * 2), lambda: treedef))
    if len(body_jaxpr.out_avals) != len(leaves):
        raise errors.incompatible_shapes("reduce", [("arrays", (len(leaves),)), ("results", (len(body_jaxpr.out_avals),))])
    if not dims:
        return out_tree.unflatten(map(elementwise.as_array, leaves))
    result_sharding = named_sharding(out_sharding, "reduce")
    name = monoid_reduction(body_jaxpr) if len(leaves) == 1 else None
    if result_sharding is not None and name not in reductions.SHARDED:
        name = None
    for i, (s, x) in enumerate(zip(starts, leaves)):
        start_dtype, array_dtype = tracing.aval_of(s).dtype, tracing.aval_of(x).dtype
        if start_dtype != array_dtype:
            if not _is_identity(name, s):
                raise _dtype_mismatch(array_dtype, start_dtype)
            scalar_type = dtypes.scalar_type_of(array_dtype)
            is_weak = tracing.aval_of(s).weak_type and dtypes.default_dtype(scalar_type) == array_dtype
            starts[i] = (scalar_type if is_weak else array_dtype.type)(reductions.IDENTITIES[name](array_dtype))
    starts = [elementwise.as_type(s, tracing.aval_of(x).dtype, tracing.aval_of(s).weak_type) for s, x in zip(starts, leaves)]
    if name is not None:
        if name in reductions.SHARDED:
            total = reductions.PRIMITIVES[name].bind(leaves[0], axes=dims, out_sharding=result_sharding)
        else:
            total = reductions.reduced(name, leaves[0], dims)
        if not isinstance(starts[0], tracing.Tracer) and starts[0] == reductions.IDENTITIES[name](tracing.aval_of(total).dtype):
            aval, start = tracing.aval_of(total), tracing.aval_of(starts[0])
            return out_tree.unflatten([elementwise.as_type(total, aval.dtype, aval.weak_type and start.weak_type)])
        combine_p = elementwise.PRIMITIVES[body_jaxpr.eqns[0].primitive.name]
        return out_tree.unflatten([combine_p.bind(total, starts[0])])
    if lowers_to_reduction(body_jaxpr):
        results = reduce_p.bind(*leaves, *starts, computation=computation, jaxpr=body_jaxpr, dimensions=dims)
    else:
        results = _fold(*leaves, *starts, jaxpr=body_jaxpr, dimensions=dims)
    if result_sharding is not None:
        results = [reshard_p.bind(x, dst_sharding=result_sharding) for x in results]
    return out_tree.unflatten(results)
