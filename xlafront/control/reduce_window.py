"""`lax.reduce_window`: sliding-window reductions by a sum, a maximum or minimum, or a user-defined function."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront.control.reduce import apply_elementwise, lowers_to_reduction, monoid_reduction
from xlafront.core import dtypes, errors, tracing, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.ir import Jaxpr
from xlafront.core.primitive import MeshRules, Primitive, Traits
from xlafront.lax import elementwise, shapes, sharding_rules, slicing, windows
from xlafront.lax.reductions import highest, lowest
from xlafront.staging import signatures
from xlafront.staging.library import library
from xlafront.transforms.ad.jvp import jvp_flat
from xlafront.transforms.batching.vmap import batch_flat

if TYPE_CHECKING:
    from xlafront.core.typing import Aval, Dims, Tangent


def _abstract(*avals: Aval, jaxpr: Jaxpr, consts: tuple, **params: Any) -> list[ShapedArray]:
    count = len(avals) // 2
    return [ShapedArray(windows.Window(**params).count(x.shape), x.dtype) for x in avals[:count]]


def _lower(ctx: Any, *operands: Any, jaxpr: Jaxpr, consts: tuple, **params: Any) -> list[Any]:
    scalars = [((), a.dtype) for a in ctx.avals_in[len(operands) // 2:]]
    function = jaxpr.with_consts(consts)
    return list(windows.reduce_windows(ctx, operands, [*scalars, *scalars],
                                       lambda inner, *xs: inner.inline(function, list(xs)), list(ctx.avals_out), params))


def _fold(*operands: Any, jaxpr: Jaxpr, consts: tuple, **params: Any) -> list[Any]:
    """Reduce windows with other primitives: take the strided slice of the padded array at each offset in the window, and
    combine the slices one after the other, except where the offset is in the padding."""
    count = len(operands) // 2
    shape = np.shape(operands[0])
    w = windows.Window(**params)
    result = w.count(shape)
    config = tuple((low, high, d - 1) for (low, high), d in zip(w.padding, w.base_dilation))
    padded = [slicing.pad_p.bind(x, s, padding_config=config) for x, s in zip(operands, operands[count:])]
    accumulated = [shapes.broadcast_in_dim(s, result, ()) for s in operands[count:]]
    if 0 in result:
        return accumulated
    function = jaxpr.with_consts(consts)
    for offset in itertools.product(*map(range, w.window_dimensions)):
        corner = tuple(i * d for i, d in zip(offset, w.window_dilation))
        limits = tuple(c + (n - 1) * s + 1 for c, n, s in zip(corner, result, w.window_strides))
        slices = [slicing.slice_p.bind(x, start_indices=corner, limit_indices=limits, strides=w.window_strides)
                  for x in padded]
        inside = _inside(shape, w, corner, result)
        updated = apply_elementwise(function, accumulated, slices)
        accumulated = updated if inside.all() else [elementwise.where(inside, a, b) for a, b in zip(updated, accumulated)]
    return accumulated


def _inside(shape: tuple, w: windows.Window, corner: tuple[int, ...], result: tuple) -> np.ndarray:
    """Return a mask of the windows whose element at offset `corner` is in the array and not in the padding."""
    mask = np.ones(result, bool)
    for i, (n, (low, _), d) in enumerate(zip(shape, w.padding, w.base_dilation)):
        index = corner[i] + w.window_strides[i] * np.arange(result[i]) - low
        mask &= np.expand_dims((index >= 0) & (index % d == 0) & (index // d < n), [k for k in range(len(shape)) if k != i])
    return mask


def _jvp(primals: Sequence[Any], tangents: Sequence[Tangent], **params: Any) -> tuple[list[Any], list[Tangent]]:
    return jvp_flat(lambda *xs: _fold(*xs, **params), primals, tangents)


def _batch(axis_size: int, operands: Sequence[Any], dims: Dims, *, jaxpr: Jaxpr, consts: tuple, **params: Any
           ) -> tuple[list[Any], list[int | None]]:
    count = len(operands) // 2
    if any(d is not None for d in dims[count:]):  # the primitive takes scalar start values
        return batch_flat(lambda *xs: _fold(*xs, jaxpr=jaxpr, consts=consts, **params), operands, dims, axis_size)
    xs = [shapes.broadcast_batch(x, d, axis_size) for x, d in zip(operands[:count], dims)]
    results = reduce_window_p.bind(*xs, *operands[count:], jaxpr=jaxpr, consts=consts,
                                   **windows.Window(**params).with_batch(0)._asdict())
    return results, [0] * count


reduce_window_p = Primitive(
    "reduce_window", multiple_results=True, abstract=_abstract, lower=_lower, jvp=_jvp, batch=_batch,
    mesh=MeshRules(sharding_rules.windows), traits=Traits(memoise=False))

# Primitives of known reductions that start from the identity element.
_REDUCTIONS = {"reduce_sum": (windows.reduce_window_sum_p, lambda d: 0), "reduce_max": (windows.reduce_window_max_p, lowest),
               "reduce_min": (windows.reduce_window_min_p, highest)}


def _reduction_primitive(function: Jaxpr, start: Any, dtype: np.dtype) -> Primitive | None:
    primitive, identity = _REDUCTIONS.get(monoid_reduction(function), (None, None))
    if primitive is None or isinstance(start, tracing.Tracer) or not isinstance(dtype, np.dtype):
        return None
    start_dtype = tracing.aval_of(start).dtype  # the identity is that of the start value's dtype, not of the array's
    if primitive is windows.reduce_window_sum_p and dtype == np.bool_ != start_dtype:
        return None
    same = np.asarray(start) == np.asarray(identity(start_dtype)).astype(start_dtype)
    return primitive if bool(np.all(same)) else None


@library(static=None)
def reduce_window(operand: Any, init_value: Any, computation: Callable, window_dimensions: Sequence[int],
                  window_strides: Sequence[int] | None = None, padding: str | Sequence[tuple[int, int]] = "VALID",
                  base_dilation: Sequence[int] | None = None, window_dilation: Sequence[int] | None = None) -> Any:
    """Reduce the elements in each position of a window that slides over an array.

    Sums, maxima and minima that start from their identity element are separate primitives with faster derivatives.

    Args:
        operand: Array, or a pytree of arrays of one shape, whose elements are reduced together.
        init_value: Scalar start value of each reduction for each array; padding has this value as well.
        computation: Function `computation(x, y)` that combines two scalars (pytrees of scalars). It must be associative and
            commutative.
        window_dimensions: Size of the window along each dimension.
        window_strides: Step of the window along each dimension. Default: 1.
        padding: A (low, high) pair for each dimension, or "VALID" (none), "SAME" or "SAME_LOWER" (as many windows as strides).
        base_dilation: Distance between neighbouring elements of the array along each dimension. Default: 1.
        window_dilation: Distance between neighbouring elements of the window along each dimension. Default: 1.

    Returns:
        A pytree of arrays with one element per window position.

    Example:
        >>> lax.reduce_window(xnp.arange(6.0), 0.0, lax.add, (2,), (2,))
        Array([1., 5., 9.], dtype=float32)
    """
    caller = "reduce_window"
    leaves, treedef = tree.flatten(operand)
    starts, start_tree = tree.flatten(init_value)
    if treedef != start_tree:
        raise ValueError(f"{caller} needs one init_value for each operand, in the same tree structure: got {treedef} and "
                         f"{start_tree}.")
    if not leaves:
        raise ValueError(f"{caller} needs at least one operand, got {operand!r}.")
    avals = [tracing.aval_of(x, caller) for x in leaves]
    for a in avals[1:]:
        if a.shape != avals[0].shape:
            raise ValueError(str(errors.incompatible_shapes(caller, [("operand", a.shape) for a in avals],
                                                            "All operands must have compatible shapes: the same one.")))
    start_avals = [tracing.aval_of(s, caller) for s in starts]
    if any(s.shape for s in start_avals):
        raise TypeError(f"{caller} needs scalars as init_values, got shapes {[s.shape for s in start_avals]}.")
    window = windows.canonical_window(caller, avals[0].shape, window_dimensions, window_strides, padding, base_dilation,
                                      window_dilation)._asdict()
    if not callable(computation):
        raise TypeError(f"{caller} needs a computation of two scalars, but {computation!r} is not callable.")
    body_jaxpr = _traced(computation, treedef, [ShapedArray((), a.dtype) for a in avals])
    if len(leaves) == 1:
        primitive = _reduction_primitive(body_jaxpr, starts[0], avals[0].dtype)
        if primitive is not None:
            return treedef.unflatten([primitive.bind(leaves[0], **window)])
    _check_types(caller, avals, start_avals, body_jaxpr)
    reduce_windows = reduce_window_p.bind if lowers_to_reduction(body_jaxpr) else _fold
    results = reduce_windows(*leaves, *starts, jaxpr=body_jaxpr.structure, consts=tuple(body_jaxpr.consts), **window)
    return treedef.unflatten(results)


def _traced(computation: Callable, treedef: Any, scalars: list[ShapedArray]) -> Jaxpr:
    def combine(*xs: Any) -> list[Any]:
        half = len(xs) // 2
        results, structure = tree.flatten(computation(treedef.unflatten(xs[:half]), treedef.unflatten(xs[half:])))
        if structure != treedef:
            raise ValueError(f"the computation of reduce_window must return the tree structure of its operands, {treedef}, "
                             f"got {structure}.")
        return results

    return tracing.trace_to_closed_jaxpr(combine, [*scalars, *scalars], signatures.debug_info_of(
        "reduce_window comp", computation, tree.structure((tree.leaf_indices(treedef),) * 2), lambda: treedef))


def _check_types(caller: str, avals: Sequence[Aval], starts: Sequence[Aval], body_jaxpr: Jaxpr) -> None:
    for a, s, r in zip(avals, starts, body_jaxpr.out_avals):
        if a.dtype != s.dtype:
            raise TypeError(
                f"{caller} got inconsistent dtypes: an operand of {a.dtype} and an init_value of {s.dtype}. Give the "
                            f"init_value the operand's dtype: np.{a.dtype.name}(...).")
        if (r.shape, r.dtype) != ((), a.dtype):
            raise TypeError(f"the computation of {caller} must return scalars of the dtypes that it takes, but for "
                            f"{dtypes.dtype(a.dtype).name} it returns {r}.")
