"""Lowering of scatters to StableHLO's `scatter`, or to updates of one window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront import lowering
from xlafront.core.avals import ShapedArray
from xlafront.lax.dimension_numbers import GatherScatterMode, ScatterDimensionNumbers, dims_text
from xlafront.lax.monoids import combine
from xlafront.lax.shapes import physical_tail
from xlafront.symbolic.dimensions import is_symbolic

if TYPE_CHECKING:
    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir


def emit_scatter(ctx: RuleContext, x: ir.Value, indices: ir.Value, updates: ir.Value, combine: Callable,
                 dn: ScatterDimensionNumbers, indices_are_sorted: bool, unique_indices: bool) -> ir.Value:
    """Emit the StableHLO operation. `combine(inner, old, new)` returns the new value of an element."""
    m = lowering.mlir
    key_dims = physical_tail(ctx)
    update_rank = ctx.avals_in[2].ndim
    window_dims = (*dn.update_window_dims, *range(update_rank, update_rank + len(key_dims)))
    numbers = (f"#stablehlo.scatter<update_window_dims = {dims_text(window_dims)}, "
            f"inserted_window_dims = {dims_text(dn.inserted_window_dims)}, "
            f"input_batching_dims = {dims_text(dn.operand_batching_dims)}, "
            f"scatter_indices_batching_dims = {dims_text(dn.scatter_indices_batching_dims)}, "
            f"scatter_dims_to_operand_dims = {dims_text(dn.scatter_dims_to_operand_dims)}, "
            f"index_vector_dim = {ctx.avals_in[1].ndim - 1}>")
    dtype = ctx.aval_out.dtype
    element_type = ((), dtype if isinstance(dtype, np.dtype) else np.dtype(dtype.physical_dtype))
    return ctx.with_region("stablehlo.scatter", [x, indices, updates], [element_type, element_type],
                           lambda inner, old, new: combine(inner, old, new, element_type),
                           types=[ctx.aval_out], scatter_dimension_numbers=m.attribute(numbers),
                           indices_are_sorted=m.boolean(indices_are_sorted),
                           unique_indices=m.boolean(unique_indices))[0]


_LINEAR_OPS = ("stablehlo.add", "stablehlo.subtract")
_LARGE_SIZE = 4096  # number of elements from which copies matter
_MIN_WINDOW_RATIO = 8  # windows are computed in a function of their own if the array is this many times larger


def _is_one_window(avals: Sequence[ShapedArray], dn: ScatterDimensionNumbers, mode: GatherScatterMode) -> bool:
    """True if a scatter updates a single window that is in bounds."""
    x, indices, updates = avals
    return (mode is GatherScatterMode.PROMISE_IN_BOUNDS and indices.ndim == 1 and updates.ndim == x.ndim > 0 and x.plain
            and len(dn.update_window_dims) == x.ndim and not is_symbolic((*x.shape, *updates.shape)))


def _update_window(ctx: RuleContext, x: ir.Value, indices: ir.Value, updates: ir.Value, dn: ScatterDimensionNumbers,
                   operation: str) -> ir.Value:
    """Lower to a dynamic update slice whose window is computed in a function that is not inlined.

    Otherwise XLA's CPU compiler fuses reading, adding and writing into one kernel, and copies the entire array for it.
    """
    x_aval, index_aval, window_aval = ctx.avals_in
    module, static_indices = ctx.body.module, lowering.mlir.constant_vector(indices)
    starts = [ctx.constant(np.zeros((), index_aval.dtype))] * x_aval.ndim
    for i, d in enumerate(dn.scatter_dims_to_operand_dims):
        starts[d] = (ctx.constant(index_aval.dtype.type(static_indices[i])) if static_indices is not None else
                     ctx.reshape(ctx.slice(indices, [i], [i + 1], result=((1,), index_aval.dtype)), (), index_aval.dtype))

    def compute_window(inner: RuleContext, x: ir.Value, updates: ir.Value, *starts: ir.Value) -> list[ir.Value]:
        old = inner.op("stablehlo.dynamic_slice", [x, *starts], [window_aval],
                       slice_sizes=lowering.mlir.i64s(window_aval.shape))
        return [combine(inner, operation, old, updates, window_aval.shape, window_aval.dtype)]

    if x_aval.size >= _LARGE_SIZE and 1 < window_aval.size <= x_aval.size // _MIN_WINDOW_RATIO and module.num_partitions == 1:
        symbol = ctx.function("updated", [x_aval, window_aval, *[((), index_aval.dtype)] * x_aval.ndim], [window_aval],
                              compute_window)
        [new] = ctx.call_symbol(symbol, [x, updates, *starts], [window_aval])
    else:
        [new] = compute_window(ctx, x, updates, *starts)
    return ctx.op("stablehlo.dynamic_update_slice", [x, new, *starts], [x_aval])


def scatter_lowering(operation: str | None) -> Callable:
    """Return the rule that lowers a scatter. `operation` combines an element with its update, None replaces it."""
    def combine_elements(inner: RuleContext, old: ir.Value, new: ir.Value, scalar: tuple[tuple, np.dtype]) -> list[ir.Value]:
        return [new if operation is None else combine(inner, operation, old, new, *scalar)]

    def lower(ctx: RuleContext, x: ir.Value, indices: ir.Value, updates: ir.Value, *,
              dimension_numbers: ScatterDimensionNumbers, indices_are_sorted: bool, unique_indices: bool,
              mode: GatherScatterMode, **_: Any) -> ir.Value:
        if operation in _LINEAR_OPS and ctx.platform == "cpu" and _is_one_window(ctx.avals_in, dimension_numbers, mode):
            return _update_window(ctx, x, indices, updates, dimension_numbers, operation)

        def emit(x: ir.Value) -> ir.Value:
            return emit_scatter(ctx, x, indices, updates, combine_elements, dimension_numbers, indices_are_sorted,
                                unique_indices)

        result = emit(x)
        aval = ctx.aval_out
        if operation == "stablehlo.add" and aval.plain and ctx.body.sizes is None and lowering.mlir.is_zero(x, aval.dtype):
            ctx.body.sparse[result] = [emit]
        return result

    return lower
