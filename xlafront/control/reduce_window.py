"""`reduce_window`: reductions over sliding windows, by a sum, an extreme, or a function of the user's."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.control.reduce import combined, monoid, part_of_reduction
from xlafront.core import dtypes, errors, tracing, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.ir import ClosedJaxpr
from xlafront.core.primitive import Primitive
from xlafront.lax import elementwise, shapes, sharding_rules, slicing, windows
from xlafront.lax.reductions import highest, lowest
from xlafront.staging import signatures
from xlafront.staging.library import written_once
from xlafront.transforms.ad.jvp import jvp_flat
from xlafront.transforms.batching.vmap import batch_flat


def _abstract(*avals, jaxpr, consts, **params):
    count = len(avals) // 2
    return [ShapedArray(windows.Window(**params).count(x.shape), x.dtype) for x in avals[:count]]


def _lower(ctx, *operands, jaxpr, consts, **params):
    scalars = [((), a.dtype) for a in ctx.avals_in[len(operands) // 2:]]
    function = ClosedJaxpr(jaxpr, consts)
    return list(windows.reduce_windows(ctx, operands, [*scalars, *scalars],
                                       lambda inner, *xs: inner.inline(function, list(xs)), list(ctx.avals_out), params))


def _fold(*operands, jaxpr, consts, **params):
    """The same out of other operations: what stands at one place of each window is a slice of the array, padded, and the
    slices of all places are combined one after the other, where there is an element at that place."""
    count = len(operands) // 2
    shape = np.shape(operands[0])
    w = windows.Window(**params)
    result = w.count(shape)
    config = tuple((low, high, d - 1) for (low, high), d in zip(w.padding, w.base_dilation))
    padded = [slicing.pad_p.bind(x, s, padding_config=config) for x, s in zip(operands, operands[count:])]
    found = [shapes.broadcast_in_dim(s, result, ()) for s in operands[count:]]
    if 0 in result:
        return found
    function = ClosedJaxpr(jaxpr, consts)
    for place in itertools.product(*map(range, w.window_dimensions)):
        corner = tuple(i * d for i, d in zip(place, w.window_dilation))
        limits = tuple(c + (n - 1) * s + 1 for c, n, s in zip(corner, result, w.window_strides))
        parts = [slicing.slice_p.bind(x, start_indices=corner, limit_indices=limits, strides=w.window_strides)
                 for x in padded]
        inside = _inside(shape, w, corner, result)
        following = combined(function, found, parts)
        found = following if inside.all() else [elementwise.where(inside, a, b) for a, b in zip(following, found)]
    return found


def _inside(shape, w: windows.Window, corner, result) -> np.ndarray:
    """In which windows the place that is `corner` from their beginning is an element, not padding."""
    inside = np.ones(result, bool)
    for i, (n, (low, _), d) in enumerate(zip(shape, w.padding, w.base_dilation)):
        at = corner[i] + w.window_strides[i] * np.arange(result[i]) - low
        inside &= np.expand_dims((at >= 0) & (at % d == 0) & (at // d < n), [k for k in range(len(shape)) if k != i])
    return inside


def _jvp(primals, tangents, **params):
    return jvp_flat(lambda *xs: _fold(*xs, **params), primals, tangents)


def _batch(axis_size, operands, dims, *, jaxpr, consts, **params):
    count = len(operands) // 2
    if any(d is not None for d in dims[count:]):  # the operation takes scalars as start values
        return batch_flat(lambda *xs: _fold(*xs, jaxpr=jaxpr, consts=consts, **params), operands, dims, axis_size)
    xs = [shapes.broadcast_batch(x, d, axis_size) for x, d in zip(operands[:count], dims)]
    results = reduce_window_p.bind(*xs, *operands[count:], jaxpr=jaxpr, consts=consts,
                                   **windows.Window(**params).with_batch(0)._asdict())
    return results, [0] * count


reduce_window_p = Primitive("reduce_window", multiple_results=True, abstract=_abstract, lower=_lower, jvp=_jvp, batch=_batch,
                            memoise=False, sharding_rule=sharding_rules.windows)

# The primitives that computations amount to, when they start from what changes nothing.
_NAMED = {"reduce_sum": (windows.reduce_window_sum_p, lambda d: 0), "reduce_max": (windows.reduce_window_max_p, lowest),
          "reduce_min": (windows.reduce_window_min_p, highest)}


def _named(function: ClosedJaxpr, start: Any, dtype) -> Primitive | None:
    primitive, identity = _NAMED.get(monoid(function), (None, None))
    if primitive is None or isinstance(start, tracing.Tracer) or not isinstance(dtype, np.dtype):
        return None
    own = tracing.aval_of(start).dtype  # the neutral element is that of the start value's dtype, not of the array's
    if primitive is windows.reduce_window_sum_p and dtype == np.bool_ != own:
        return None
    same = np.asarray(start) == np.asarray(identity(own)).astype(own)
    return primitive if bool(np.all(same)) else None


@written_once
def reduce_window(operand: Any, init_value: Any, computation: Callable, window_dimensions: Sequence[int],
                  window_strides: Sequence[int] | None = None, padding: str | Sequence[tuple[int, int]] = "VALID",
                  base_dilation: Sequence[int] | None = None, window_dilation: Sequence[int] | None = None) -> Any:
    """Combine what is in each position of a window that slides over an array.

    - `operand`: an array, or a pytree of arrays of one shape, whose elements are combined together.
    - `init_value`: what each reduction starts from and what padding consists of; a scalar for each array.
    - `computation(x, y)`: combines two scalars (pytrees of scalars); it must be associative and commutative. Sums, maxima
      and minima from their neutral element are operations of their own, with faster derivatives.
    - `window_dimensions`, `window_strides`: the size of the window and its step, along each dimension.
    - `padding`: a (low, high) pair for each dimension, or "VALID" (none), "SAME" or "SAME_LOWER" (as many windows as strides).
    - `base_dilation`, `window_dilation`: the distance of neighbours in the array, and of those in the window.

    >>> lax.reduce_window(xnp.arange(6.0), 0.0, lax.add, (2,), (2,))
    Array([1., 5., 9.], dtype=float32)
    """
    who = "reduce_window"
    leaves, treedef = tree.flatten(operand)
    starts, start_tree = tree.flatten(init_value)
    if treedef != start_tree:
        raise ValueError(f"{who} needs one init_value for each operand, in the same tree structure: got {treedef} and "
                         f"{start_tree}.")
    if not leaves:
        raise ValueError(f"{who} needs at least one operand, got {operand!r}.")
    avals = [tracing.aval_of(x, who) for x in leaves]
    for a in avals[1:]:
        if a.shape != avals[0].shape:
            raise ValueError(str(errors.incompatible_shapes(who, [("operand", a.shape) for a in avals],
                                                            "All operands must have compatible shapes: the same one.")))
    of_starts = [tracing.aval_of(s, who) for s in starts]
    if any(s.shape for s in of_starts):
        raise TypeError(f"{who} needs scalars as init_values, got shapes {[s.shape for s in of_starts]}.")
    window = windows.canonical_window(who, avals[0].shape, window_dimensions, window_strides, padding, base_dilation,
                                      window_dilation)._asdict()
    if not callable(computation):
        raise TypeError(f"{who} needs a computation of two scalars, but {computation!r} is not callable.")
    function = _traced(computation, treedef, [ShapedArray((), a.dtype) for a in avals])
    if len(leaves) == 1:
        primitive = _named(function, starts[0], avals[0].dtype)
        if primitive is not None:
            return treedef.unflatten([primitive.bind(leaves[0], **window)])
    _check_types(who, avals, of_starts, function)
    windowed = reduce_window_p.bind if part_of_reduction(function) else _fold
    results = windowed(*leaves, *starts, jaxpr=function.jaxpr, consts=tuple(function.consts), **window)
    return treedef.unflatten(results)


def _traced(computation: Callable, treedef, scalars: list[ShapedArray]) -> ClosedJaxpr:
    def combine(*xs):
        half = len(xs) // 2
        found, structure = tree.flatten(computation(treedef.unflatten(xs[:half]), treedef.unflatten(xs[half:])))
        if structure != treedef:
            raise ValueError(f"the computation of reduce_window must return the tree structure of its operands, {treedef}, "
                             f"got {structure}.")
        return found

    return tracing.trace_to_closed_jaxpr(combine, [*scalars, *scalars], signatures.origin(
        "reduce_window comp", computation, tree.structure((tree.numbered(treedef),) * 2), lambda: treedef))


def _check_types(who: str, avals, starts, function: ClosedJaxpr) -> None:
    for a, s, r in zip(avals, starts, function.out_avals):
        if a.dtype != s.dtype:
            raise TypeError(f"{who} got inconsistent dtypes: an operand of {a.dtype} and an init_value of {s.dtype}. Give the "
                            f"init_value the operand's dtype: np.{a.dtype.name}(...).")
        if (r.shape, r.dtype) != ((), a.dtype):
            raise TypeError(f"the computation of {who} must return scalars of the dtypes that it takes, but for "
                            f"{dtypes.dtype(a.dtype).name} it returns {r}.")
