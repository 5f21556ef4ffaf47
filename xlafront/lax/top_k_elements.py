"""The k largest elements along an axis: exact, and approximate, which is much faster on accelerators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront import lowering
from xlafront.core import dtypes, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.primitive import MeshRules, OwnRule, Primitive
from xlafront.core.typing import Array, ArrayLike
from xlafront.core.zeros import Zero
from xlafront.lax import sharding_rules
from xlafront.lax.arguments import check_dtype
from xlafront.lax.indexing import take_along
from xlafront.lax.shapes import canonical_axis, inverse, typed
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import as_size, known

if TYPE_CHECKING:
    from xlafront.core.sharding_types import Operands
    from xlafront.core.typing import Dims, Params
    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir

_INDEX_DTYPE = np.dtype(np.int32)


def _result_avals(x: ShapedArray, axis: int, size: int) -> list[ShapedArray]:
    shape = (*x.shape[:axis], size, *x.shape[axis + 1:])
    return [typed(x, shape), ShapedArray(shape, _INDEX_DTYPE, x.weak_type, vma=x.vma)]


def _jvp_by_indices(primitive: Primitive, axis_of: Callable) -> Callable:
    """Return a JVP rule that takes tangents at the indices of the elements."""
    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        values, indices = primitive.bind(*primals, **params)
        no_tangent = Zero(tracing.aval_of(indices).to_tangent_aval())
        if type(tangents[0]) is Zero:
            return [values, indices], [Zero(tracing.aval_of(values).to_tangent_aval()), no_tangent]
        return [values, indices], [take_along(tangents[0], indices, axis_of(params) % np.ndim(indices)), no_tangent]

    return jvp


def _abstract(x: ShapedArray, *, k: int, axis: int, is_stable: bool) -> list[ShapedArray]:
    if dtypes.is_complex(x.dtype):
        raise ValueError(f"top_k is not compatible with complex numbers, which have no order: got an array of {x.dtype}. Use "
                         f"numpy.abs(x).")
    check_dtype("top_k", "int float bool", x.dtype)
    if not 0 <= k <= x.shape[axis]:
        raise ValueError(f"top_k of k={k} along axis {axis} of shape {x.shape}: k must be nonnegative and no larger than the "
                         f"size along that axis, {x.shape[axis]}.")
    if known(x.shape[axis], 0) > 2**31 - 1:
        raise ValueError(f"top_k returns int32 indices, which would overflow for the size {x.shape[axis]} of axis {axis}.")
    return _result_avals(x, axis, k)


def _emit_top_k(ctx: RuleContext, x: ir.Value, k: int, types: Sequence[Any] | None) -> Sequence[ir.Value]:
    if ctx.has_computed_sizes((k,)):
        return ctx.op("stablehlo.custom_call", [x, ctx.size(k)], types,
                      call_target_name=lowering.mlir.string("stablehlo.dynamic_top_k"))
    return ctx.op("chlo.top_k", [x], types, k=lowering.mlir.i64(k))


def _lower(ctx: RuleContext, x: ir.Value, *, k: int, axis: int, is_stable: bool) -> Sequence[ir.Value]:
    """Lower to `chlo.top_k`, which takes the last dimension and is always stable."""
    last_dim = ctx.avals_in[0].ndim - 1
    if axis == last_dim:
        return _emit_top_k(ctx, x, k, None)
    order = [i for i in range(last_dim + 1) if i != axis] + [axis]
    inverse_order = lowering.mlir.i64s(inverse(order))

    def transposed(aval: ShapedArray) -> ShapedArray:
        return aval.update(shape=tuple(aval.shape[i] for i in order))

    x = ctx.op("stablehlo.transpose", [x], [transposed(ctx.avals_in[0])], permutation=lowering.mlir.i64s(order))
    results = _emit_top_k(ctx, x, k, [transposed(a) for a in ctx.avals_out])
    return [ctx.op("stablehlo.transpose", [y], [a], permutation=inverse_order) for y, a in zip(results, ctx.avals_out)]


def _batch(axis_size: int, operands: Sequence[Any], dims: Dims, *, axis: int, **params: Any) -> tuple[Any, Any]:
    [x], [d] = operands, dims
    return top_k_p.bind(x, axis=axis + (axis >= d), **params), [d, d]


top_k_p = Primitive(
    "top_k", multiple_results=True, abstract=_abstract, lower=_lower, batch=_batch,
    jvp=OwnRule(lambda primitive: _jvp_by_indices(primitive, lambda params: params["axis"])),
    mesh=MeshRules(sharding_rules.along("axis")))


@library(static=("k", "axis", "is_stable"), name="top_k")
def _top_k_kernel(operand: Array, k: int, axis: int, is_stable: bool) -> tuple[Array, Array]:
    return top_k_p.bind(operand, k=k, axis=axis, is_stable=is_stable)


@library(static=None)
def top_k(operand: ArrayLike, k: int, *, axis: int = -1, is_stable: bool = True) -> tuple[Array, Array]:
    """Return the `k` largest elements along an axis in descending order, and their indices.

    Args:
        operand: Array of numbers. NaN counts as the largest.
        k: Number of elements, at most the size of the axis.
        axis: Axis to search along.
        is_stable: If True, equal elements are returned in their order; otherwise they may be in any order.

    Returns:
        A tuple `(values, indices)`.

    Example:
        >>> lax.top_k(xnp.array([3.0, 1.0, 2.0]), 2)[0]
        Array([3., 2.], dtype=float32)
    """
    tracing.aval_of(operand, "top_k")
    return _top_k_kernel(operand, as_size(k), canonical_axis(axis, np.ndim(operand), "top_k"), bool(is_stable))


# Approximate top k


def _approximate_abstract(x: ShapedArray, *, k: int, reduction_dimension: int, recall_target: float, is_max_k: bool,
                          reduction_input_size_override: int, aggregate_to_topk: bool) -> list[ShapedArray]:
    name = "approx_max_k" if is_max_k else "approx_min_k"
    if k <= 0:
        raise ValueError(f"{name} of k={k}: k must be positive.")
    if not x.ndim:
        raise TypeError(f"{name} needs an operand with at least one dimension, got a scalar.")
    if not dtypes.is_float(x.dtype):
        raise ValueError(f"the operand of {name} must be of a floating type, got {x.dtype}. Convert with x.astype(float).")
    axis = canonical_axis(reduction_dimension, x.ndim, name)
    n = x.shape[axis]
    if k > n:
        raise ValueError(f"{name} of k={k} along dimension {axis} of shape {x.shape}: k must be smaller than the size of that "
                         f"reduction_dim, {n}.")
    if not 0 < recall_target <= 1:
        raise ValueError(f"{name} needs a recall_target above 0 and up to 1, got {recall_target}: it is out of range.")
    if reduction_input_size_override != -1 and reduction_input_size_override < n:
        raise ValueError(f"{name} got reduction_input_size_override={reduction_input_size_override}, which is out of range: "
                         f"it is at least the size {n} of dimension {axis}, or -1.")
    return _result_avals(x, axis, k if aggregate_to_topk else lowering.mlir.approximate_count(
        n, x.ndim, k, recall_target, reduction_input_size_override))


def _approximate_lower(ctx: RuleContext, x: ir.Value, *, k: int, reduction_dimension: int, recall_target: float, is_max_k: bool,
                       reduction_input_size_override: int, aggregate_to_topk: bool) -> list[ir.Value]:
    aval = ctx.avals_in[0]
    axis = reduction_dimension % aval.ndim
    m, dtype = lowering.mlir, aval.dtype
    operands = [x, ctx.iota(axis, (aval.shape, _INDEX_DTYPE)),
                ctx.constant(np.asarray(-np.inf if is_max_k else np.inf).astype(dtype)), ctx.constant(np.int32(-1))]
    config = {
        "aggregate_to_topk": m.boolean(aggregate_to_topk), "recall_target": m.float32(recall_target),
        "reduction_dim": m.i64(axis),
        "reduction_input_size_override": m.i64(reduction_input_size_override), "top_k": m.i64(known(k, 0))}
    if ctx.platform != "tpu":  # only TPUs have the operation in hardware
        config["is_fallback"] = m.boolean(True)
    direction = "GT" if is_max_k else "LT"
    comparator = ctx.function(
        f"approximate_{direction.lower()}_{dtype.name}", [((), dtype)] * 2 + [((), _INDEX_DTYPE)] * 2, [((), np.dtype(bool))],
        lambda inner, a, b, *indices: [inner.compare(direction, "FLOAT", a, b, ())])
    target, (shapes, attributes) = "ApproxTopK", ctx.shape_operands(ctx.avals_out, len(operands))
    if ctx.has_computed_sizes((k,), () if aggregate_to_topk else (aval.shape[axis],)):  # the size of the result depends on k
        target, shapes, attributes = "stablehlo.dynamic_approx_top_k", [ctx.size(k)], {}
        del config["top_k"]
    return ctx.op("stablehlo.custom_call", [*operands, *shapes], call_target_name=m.string(target), **attributes,
                  called_computations=m.array([m.symbol(comparator)]), **{"mhlo.backend_config": m.dictionary(config)})


def _approximate_batch(axis_size: int, operands: Sequence[Any], dims: Dims, *, reduction_dimension: int, **params: Any
                       ) -> tuple[Any, Any]:
    [x], [d] = operands, dims
    axis = reduction_dimension % (np.ndim(x) - 1)
    return approx_top_k_p.bind(x, reduction_dimension=axis + (axis >= d), **params), [d, d]


def _along_reduction(name: str, operands: Operands, result: ShapedArray, params: Params) -> Sequence[Any]:
    axis = params["reduction_dimension"] % operands[0][0].ndim
    return sharding_rules.along("reduction_dimension")(name, operands, result, params | {"reduction_dimension": axis})


approx_top_k_p = Primitive(
    "approx_top_k", multiple_results=True, abstract=_approximate_abstract, lower=_approximate_lower, batch=_approximate_batch,
    jvp=OwnRule(lambda primitive: _jvp_by_indices(primitive, lambda params: params["reduction_dimension"])),
    mesh=MeshRules(_along_reduction))


@library(static=("k", "reduction_dimension", "recall_target", "is_max_k", "reduction_input_size_override",
                      "aggregate_to_topk"), name="approx_top_k")
def _approximate_kernel(operand: Array, **params: Any) -> tuple[Array, Array]:
    return approx_top_k_p.bind(operand, **params)


def approx_max_k(operand: ArrayLike, k: int, reduction_dimension: int = -1, recall_target: float = 0.95,
                 reduction_input_size_override: int = -1, aggregate_to_topk: bool = True) -> tuple[Array, Array]:
    """Return approximately the `k` largest elements along a dimension in descending order, and their indices.

    On TPUs this is much faster than `top_k`, and may miss some elements. On other platforms it is exact.

    Args:
        operand: Array of floats.
        k: Number of elements.
        reduction_dimension: Dimension to search along.
        recall_target: Fraction of the true elements to find, on average.
        reduction_input_size_override: Size of the dimension that the recall is computed for, if the array is a shard of a
            larger one. Default: -1, its own size.
        aggregate_to_topk: If True, reduce the candidates to `k`. If False, return all candidates, unsorted.

    Returns:
        A tuple `(values, indices)`.

    Example:
        >>> lax.approx_max_k(xnp.array([3.0, 1.0, 2.0]), 2)[1]
        Array([0, 2], dtype=int32)
    """
    return _approximate_kernel(operand, k=as_size(k), reduction_dimension=as_size(reduction_dimension),
                               recall_target=recall_target, is_max_k=True, aggregate_to_topk=bool(aggregate_to_topk),
                               reduction_input_size_override=as_size(reduction_input_size_override))


def approx_min_k(operand: ArrayLike, k: int, reduction_dimension: int = -1, recall_target: float = 0.95,
                 reduction_input_size_override: int = -1, aggregate_to_topk: bool = True) -> tuple[Array, Array]:
    """Return approximately the `k` smallest elements along a dimension in ascending order, and their indices.

    Args:
        operand, k, reduction_dimension, recall_target, reduction_input_size_override, aggregate_to_topk: As in `approx_max_k`.

    Returns:
        A tuple `(values, indices)`.

    Example:
        >>> lax.approx_min_k(xnp.array([3.0, 1.0, 2.0]), 2)[0]
        Array([1., 2.], dtype=float32)
    """
    return _approximate_kernel(operand, k=as_size(k), reduction_dimension=as_size(reduction_dimension),
                               recall_target=recall_target, is_max_k=False, aggregate_to_topk=bool(aggregate_to_topk),
                               reduction_input_size_override=as_size(reduction_input_size_override))
