"""The largest elements along an axis: exactly, and approximately, which accelerators do much faster."""

from __future__ import annotations

import numpy as np

from xlafront import lowering
from xlafront.core import dtypes, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.dimensions import as_size, known
from xlafront.core.primitive import Primitive
from xlafront.core.typing import Array, ArrayLike
from xlafront.core.zeros import Zero
from xlafront.lax import sharding_rules
from xlafront.lax.arguments import check_dtype
from xlafront.lax.indexing import take_along
from xlafront.lax.shapes import canonical_axis, inverse, typed
from xlafront.staging.library import lax_function, written_once

_INDEX = np.dtype(np.int32)


def _pair(x: ShapedArray, axis: int, size: int) -> list[ShapedArray]:
    shape = (*x.shape[:axis], size, *x.shape[axis + 1:])
    return [typed(x, shape), ShapedArray(shape, _INDEX, x.weak_type, vma=x.vma)]


def _jvp_along(primitive: Primitive, axis_of):
    """Tangents are taken from where the elements are."""
    def jvp(primals, tangents, **params):
        values, places = primitive.bind(*primals, **params)
        nothing = Zero(tracing.aval_of(places).to_tangent_aval())
        if type(tangents[0]) is Zero:
            return [values, places], [Zero(tracing.aval_of(values).to_tangent_aval()), nothing]
        return [values, places], [take_along(tangents[0], places, axis_of(params) % np.ndim(places)), nothing]

    return jvp


def _abstract(x, *, k, axis):
    if dtypes.is_complex(x.dtype):
        raise ValueError(f"top_k is not compatible with complex numbers, which have no order: got an array of {x.dtype}. Take "
                         f"that of xnp.abs(x).")
    check_dtype("top_k", "int float bool", x.dtype)
    if not 0 <= k <= x.shape[axis]:
        raise ValueError(f"top_k of k={k} along axis {axis} of shape {x.shape}: k must be nonnegative and no larger than the "
                         f"size along that axis, {x.shape[axis]}.")
    if known(x.shape[axis], 0) > 2**31 - 1:
        raise ValueError(f"top_k returns int32 indices, which would overflow for the size {x.shape[axis]} of axis {axis}.")
    return _pair(x, axis, k)


def _top(ctx, x, k, types):
    if ctx.computes((k,)):
        return ctx.op("stablehlo.custom_call", [x, ctx.size(k)], types,
                      call_target_name=lowering.mlir.string("stablehlo.dynamic_top_k"))
    return ctx.op("chlo.top_k", [x], types, k=lowering.mlir.i64(k))


def _lower(ctx, x, *, k, axis):
    """The operation takes the last dimension."""
    last = ctx.avals_in[0].ndim - 1
    if axis == last:
        return _top(ctx, x, k, None)
    order = [i for i in range(last + 1) if i != axis] + [axis]
    back = lowering.mlir.i64s(inverse(order))

    def moved(aval):
        return aval.update(shape=tuple(aval.shape[i] for i in order))

    x = ctx.op("stablehlo.transpose", [x], [moved(ctx.avals_in[0])], permutation=lowering.mlir.i64s(order))
    found = _top(ctx, x, k, [moved(a) for a in ctx.avals_out])
    return [ctx.op("stablehlo.transpose", [y], [a], permutation=back) for y, a in zip(found, ctx.avals_out)]


def _batch(axis_size, operands, dims, *, k, axis):
    [x], [d] = operands, dims
    return top_k_p.bind(x, k=k, axis=axis + (axis >= d)), [d, d]


top_k_p = Primitive("top_k", multiple_results=True, abstract=_abstract, lower=_lower, batch=_batch,
                    sharding_rule=sharding_rules.along("axis"))
top_k_p.jvp = _jvp_along(top_k_p, lambda params: params["axis"])


@lax_function(static=("k", "axis"), name="top_k")
def _top_k_kernel(operand, k, axis):
    return top_k_p.bind(operand, k=k, axis=axis)


@written_once
def top_k(operand: ArrayLike, k: int, *, axis: int = -1) -> tuple[Array, Array]:
    """The `k` largest elements along an axis in descending order, and their indices, as two arrays.

    - `operand`: an array of numbers; NaN counts as the largest. Of equal elements the first comes first.
    - `k`: how many, at most as many as there are.
    - `axis`: the axis along which they are looked for.

    >>> lax.top_k(xnp.array([3.0, 1.0, 2.0]), 2)[0]
    Array([3., 2.], dtype=float32)
    """
    tracing.aval_of(operand, "top_k")
    return _top_k_kernel(operand, as_size(k), canonical_axis(axis, np.ndim(operand), "top_k"))


# Approximately


def _approximate_abstract(x, *, k, reduction_dimension, recall_target, is_max_k, reduction_input_size_override,
                          aggregate_to_topk):
    who = "approx_max_k" if is_max_k else "approx_min_k"
    if k <= 0:
        raise ValueError(f"{who} of k={k}: k must be positive.")
    if not x.ndim:
        raise TypeError(f"{who} needs an operand with at least one dimension, got a scalar.")
    if not dtypes.is_float(x.dtype):
        raise ValueError(f"the operand of {who} must be of a floating type, got {x.dtype}. Convert with x.astype(float).")
    axis = canonical_axis(reduction_dimension, x.ndim, who)
    n = x.shape[axis]
    if k > n:
        raise ValueError(f"{who} of k={k} along dimension {axis} of shape {x.shape}: k must be smaller than the size of that "
                         f"reduction_dim, {n}.")
    if not 0 < recall_target <= 1:
        raise ValueError(f"{who} needs a recall_target above 0 and up to 1, got {recall_target}: it is out of range.")
    if reduction_input_size_override != -1 and reduction_input_size_override < n:
        raise ValueError(f"{who} got reduction_input_size_override={reduction_input_size_override}, which is out of range: "
                         f"it is at least the size {n} of dimension {axis}, or -1.")
    return _pair(x, axis, k if aggregate_to_topk else lowering.mlir.approximate_count(
        n, x.ndim, k, recall_target, reduction_input_size_override))


def _approximate_lower(ctx, x, *, k, reduction_dimension, recall_target, is_max_k, reduction_input_size_override,
                       aggregate_to_topk):
    aval = ctx.avals_in[0]
    axis = reduction_dimension % aval.ndim
    m, d = lowering.mlir, aval.dtype
    operands = [x, ctx.iota(axis, (aval.shape, _INDEX)),
                ctx.constant(np.asarray(-np.inf if is_max_k else np.inf).astype(d)), ctx.constant(np.int32(-1))]
    config = {
        "aggregate_to_topk": m.boolean(aggregate_to_topk), "recall_target": m.float32(recall_target),
        "reduction_dim": m.i64(axis),
        "reduction_input_size_override": m.i64(reduction_input_size_override), "top_k": m.i64(known(k, 0))}
    if ctx.platform != "tpu":  # whose hardware alone has the operation
        config["is_fallback"] = m.boolean(True)
    direction = "GT" if is_max_k else "LT"
    comparator = ctx.function(
        f"approximate_{direction.lower()}_{d.name}", [((), d)] * 2 + [((), _INDEX)] * 2, [((), np.dtype(bool))],
        lambda inner, a, b, *places: [inner.compare(direction, "FLOAT", a, b, ())])
    target, (shapes, marks) = "ApproxTopK", ctx.shape_operands(ctx.avals_out, len(operands))
    if ctx.computes((k,), () if aggregate_to_topk else (aval.shape[axis],)):  # the size that follows from k is computed too
        target, shapes, marks = "stablehlo.dynamic_approx_top_k", [ctx.size(k)], {}
        del config["top_k"]
    return ctx.op("stablehlo.custom_call", [*operands, *shapes], call_target_name=m.string(target), **marks,
                  called_computations=m.array([m.symbol(comparator)]), **{"mhlo.backend_config": m.dictionary(config)})


def _approximate_batch(axis_size, operands, dims, *, reduction_dimension, **params):
    [x], [d] = operands, dims
    axis = reduction_dimension % (np.ndim(x) - 1)
    return approx_top_k_p.bind(x, reduction_dimension=axis + (axis >= d), **params), [d, d]


def _along_reduction(name, operands, result, params):
    axis = params["reduction_dimension"] % operands[0][0].ndim
    return sharding_rules.along("reduction_dimension")(name, operands, result, params | {"reduction_dimension": axis})


approx_top_k_p = Primitive("approx_top_k", multiple_results=True, abstract=_approximate_abstract, lower=_approximate_lower,
                           batch=_approximate_batch, sharding_rule=_along_reduction)
approx_top_k_p.jvp = _jvp_along(approx_top_k_p, lambda params: params["reduction_dimension"])


@lax_function(static=("k", "reduction_dimension", "recall_target", "is_max_k", "reduction_input_size_override",
                      "aggregate_to_topk"), name="approx_top_k")
def _approximate_kernel(operand, **params):
    return approx_top_k_p.bind(operand, **params)


def approx_max_k(operand: ArrayLike, k: int, reduction_dimension: int = -1, recall_target: float = 0.95,
                 reduction_input_size_override: int = -1, aggregate_to_topk: bool = True) -> tuple[Array, Array]:
    """About the `k` largest elements along a dimension in descending order, and their indices, as two arrays.

    On TPUs it is much faster than `top_k` and may miss some; elsewhere it is exact.

    - `operand`: an array of floats.
    - `k`: how many.
    - `reduction_dimension`: the dimension along which they are looked for.
    - `recall_target`: which part of the true ones are to be found, on average.
    - `reduction_input_size_override`: the size to reckon this with, where the array is a part of a larger one; -1: its own.
    - `aggregate_to_topk`: whether to bring what was found down to `k`; otherwise it is returned as it is, more and unsorted.

    >>> lax.approx_max_k(xnp.array([3.0, 1.0, 2.0]), 2)[1]
    Array([0, 2], dtype=int32)
    """
    return _approximate_kernel(operand, k=as_size(k), reduction_dimension=as_size(reduction_dimension),
                               recall_target=recall_target, is_max_k=True, aggregate_to_topk=bool(aggregate_to_topk),
                               reduction_input_size_override=as_size(reduction_input_size_override))


def approx_min_k(operand: ArrayLike, k: int, reduction_dimension: int = -1, recall_target: float = 0.95,
                 reduction_input_size_override: int = -1, aggregate_to_topk: bool = True) -> tuple[Array, Array]:
    """About the `k` smallest elements along a dimension in ascending order, and their indices, as two arrays.

    - `operand`, `k`, `reduction_dimension`, `recall_target`, `reduction_input_size_override`, `aggregate_to_topk`: as of
      `approx_max_k`.

    >>> lax.approx_min_k(xnp.array([3.0, 1.0, 2.0]), 2)[0]
    Array([1., 2.], dtype=float32)
    """
    return _approximate_kernel(operand, k=as_size(k), reduction_dimension=as_size(reduction_dimension),
                               recall_target=recall_target, is_max_k=False, aggregate_to_topk=bool(aggregate_to_topk),
                               reduction_input_size_override=as_size(reduction_input_size_override))
