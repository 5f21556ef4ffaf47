"""The primitive `ragged_all_to_all`, which sends slices of rows of different lengths along a named axis.

TPUs and GPUs have an operation for it. On CPUs, and over axes that `vmap` names, it is composed of other collectives: each
device gathers all rows, and selects those that are sent to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront import lowering
from xlafront.core import dtypes, tracing
from xlafront.core.basic_primitives import broadcast_in_dim_p, place_axis, to_dtype
from xlafront.core.primitive import MeshRules, Primitive
from xlafront.core.tangents import instantiate, zeros_array
from xlafront.core.zeros import Zero, is_undefined
from xlafront.lax.collective_exchanges import all_gather_p, all_to_all_p
from xlafront.lax.elementwise import add, and_, clamp_, div, ge, lt, mul, sub, where
from xlafront.lax.indexing import take_rows
from xlafront.lax.lower_fun import lower_fun
from xlafront.lax.named_axes import CHANNEL, axes_text, replica_groups
from xlafront.lax.reductions import PRIMITIVES as REDUCTIONS, argmax_p
from xlafront.lax.shapes import counting, reshape_to

if TYPE_CHECKING:
    from xlafront.core.avals import ShapedArray
    from xlafront.core.typing import Array, Dims, Tangent
    from xlafront.lax.collectives import Groups
    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir
    from xlafront.transforms.batching.vmap import BatchTrace


def _result_aval(operand: ShapedArray, output: ShapedArray, *offsets_and_sizes: ShapedArray, axis_name: tuple, axis_size: int,
                 axis_index_groups: Groups) -> ShapedArray:
    for name, aval in zip(("input_offsets", "send_sizes", "output_offsets", "recv_sizes"), offsets_and_sizes):
        if aval.ndim != 1 or not dtypes.is_integer(aval.dtype):
            raise ValueError(f"ragged_all_to_all takes {name} as integers in one dimension, one for each device of "
                             f"{axes_text(axis_name)}, got {aval}.")
        if aval.shape[0] % axis_size or not aval.shape[0] or aval.shape != offsets_and_sizes[0].shape:
            raise ValueError(f"ragged_all_to_all over {axes_text(axis_name)} of size {axis_size} takes offsets and sizes "
                             f"of one length, a multiple of that size; {name} has shape {aval.shape}.")
    if operand.dtype != output.dtype or not operand.ndim or not output.ndim or operand.shape[1:] != output.shape[1:]:
        raise ValueError(f"ragged_all_to_all writes rows of the operand to the output: both need one dtype and one shape of "
                         f"rows, got {operand} and {output}.")
    return output


# Lowering


def _lower(ctx: RuleContext, *operands: ir.Value, axis_name: tuple, axis_size: int, axis_index_groups: Groups) -> ir.Value:
    mlir = lowering.mlir
    groups = mlir.dense_i64(replica_groups(ctx, axis_name, axis_index_groups))
    return ctx.op("stablehlo.custom_call", operands, call_target_name=mlir.string("ragged_all_to_all"), api_version=mlir.i32(4),
                  backend_config=mlir.ir.DictAttr.get({"replica_groups": groups, "channel_id": mlir.i64(CHANNEL)}))


def _compute_by_gather(operand: Array, output: Array, input_offsets: Array, send_sizes: Array, output_offsets: Array, _: Any, *,
                       axis_name: tuple, axis_size: int, axis_index_groups: Groups) -> Array:
    """Compute the exchange with other collectives."""
    params: dict[str, Any] = {"axis_name": axis_name, "axis_size": axis_size, "axis_index_groups": axis_index_groups}
    if not np.shape(operand)[0]:
        return output
    rows = all_gather_p.bind(operand, all_gather_dimension=0, tiled=False, **params)
    starts, sizes, targets = (all_to_all_p.bind(x, split_axis=0, concat_axis=0, **params)
                              for x in (input_offsets, send_sizes, output_offsets))
    return _write_slices(rows, output, starts, sizes, targets, np.shape(starts)[0] // axis_size)


def _write_slices(rows: Array, output: Array, starts: Array, sizes: Array, targets: Array, num_per_sender: int) -> Array:
    """Return the output with the received slices, `num_per_sender` from every sender. Each row finds the slice it is in."""
    starts, sizes, targets = _to_common_dtype(starts, sizes, targets)
    dtype = tracing.aval_of(starts).dtype
    (senders, count), row_shape = np.shape(rows)[:2], np.shape(rows)[2:]
    inside, row = _slice_mask(np.shape(output)[0], targets, sizes)
    slice_index = argmax_p.bind(inside, axes=(1,), index_dtype=np.dtype(np.int32))
    source_row = add(sub(row, take_rows(targets, slice_index)), take_rows(starts, slice_index))
    source_row = clamp_(dtype.type(0), source_row, dtype.type(count - 1))  # for rows that are in no slice
    sender = to_dtype(div(slice_index, np.int32(num_per_sender)), dtype)
    source_rows = take_rows(reshape_to(rows, (senders * count, *row_shape)), add(mul(sender, dtype.type(count)), source_row))
    return where(_written_mask(inside, output), source_rows, output)


def _slice_mask(count: int, starts: Array, sizes: Array) -> tuple[Array, Array]:
    """Return a mask of the slices that each of `count` rows is in, and the row numbers."""
    row = counting(tracing.aval_of(starts).dtype, (count,), 0)
    shape = (count, np.shape(starts)[0])
    first, end, row_index = (broadcast_in_dim_p.bind(x, shape=shape, broadcast_dimensions=(d,), sharding=None)
                             for x, d in ((starts, 1), (add(starts, sizes), 1), (row, 0)))
    return and_(ge(row_index, first), lt(row_index, end)), row


def _written_mask(inside: Array, output: Array) -> Array:
    """Return a mask of the elements of the output in rows that are in some slice."""
    row = REDUCTIONS["reduce_or"].bind(inside, axes=(1,))
    return broadcast_in_dim_p.bind(row, shape=np.shape(output), broadcast_dimensions=(0,), sharding=None)


def _to_common_dtype(*offsets: Array) -> list:
    """Convert offsets to one integer dtype, which can count the rows of a batch."""
    wide = any([tracing.aval_of(x).dtype.itemsize == 8 for x in offsets])
    return [to_dtype(x, np.int64 if wide else np.int32) for x in offsets]


# Derivatives. It is linear in the rows that are sent and in those of the output together.


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    result = ragged_all_to_all_p.bind(*primals, **params)
    if type(tangents[0]) is Zero and type(tangents[1]) is Zero:
        return result, Zero(tracing.aval_of(result).to_tangent_aval())
    return result, ragged_all_to_all_p.bind(instantiate(tangents[0]), instantiate(tangents[1]), *primals[2:], **params)


def _transpose(ct: Tangent, operand: Any, output: Any, input_offsets: Any, send_sizes: Any, output_offsets: Any,
               recv_sizes: Any, **params: Any) -> list[Any]:
    """Send cotangents of rows back to their sources. The output gets those of the rows that were not replaced."""
    no_cts = [None] * 4
    if type(ct) is Zero:
        return [Zero(x.aval) if is_undefined(x) else None for x in (operand, output)] + no_cts

    def exchange(x: Array) -> Array:
        """Exchange a number for each slice between senders and receivers."""
        return all_to_all_p.bind(x, split_axis=0, concat_axis=0, **params)

    starts = exchange(output_offsets)
    operand_ct = output_ct = None
    if is_undefined(operand):
        operand_ct = ragged_all_to_all_p.bind(ct, zeros_array(operand.aval), starts, recv_sizes, exchange(input_offsets),
                                              send_sizes, **params)
    if is_undefined(output):
        inside, _ = _slice_mask(output.aval.shape[0], *_to_common_dtype(starts, recv_sizes))
        output_ct = where(_written_mask(inside, ct), np.zeros((), tracing.aval_of(ct).dtype), ct)
    return [operand_ct, output_ct, *no_cts]


# Batching


def _batch(size: int, operands: Sequence[Any], dims: Dims, **params: Any) -> tuple[Any, Any]:
    """Exchange the rows of all elements in one operation: each slice becomes one slice per element."""
    operand, output = (place_axis(x, d, 0, size) for x, d in zip(operands[:2], dims[:2]))
    offsets = [place_axis(x, d, np.ndim(x) - (d is not None), size) for x, d in zip(operands[2:], dims[2:])]
    offsets = _to_common_dtype(*offsets)
    for k, rows in ((0, np.shape(operand)[1]), (2, np.shape(output)[1])):
        dtype = tracing.aval_of(offsets[k]).dtype
        element = counting(dtype, np.shape(offsets[k]), 1)
        offsets[k] = add(offsets[k], mul(element, dtype.type(rows)))

    def merge_batch(x: Array) -> Array:
        return reshape_to(x, (np.shape(x)[0] * np.shape(x)[1], *np.shape(x)[2:]))

    result = ragged_all_to_all_p.bind(*map(merge_batch, (operand, output, *offsets)), **params)
    return reshape_to(result, np.shape(output)), 0


def _over_axis(trace: BatchTrace, operands: Sequence[Any], dims: Dims, **params: Any) -> tuple[Any, Any]:
    [result], [dim] = trace.map(lambda *xs: [_compute_by_gather(*xs, **params)], operands, dims, trace.size, trace.axis_name)
    return result, dim


ragged_all_to_all_p = Primitive(
    "ragged_all_to_all", abstract=_result_aval, lower={None: _lower, "cpu": lower_fun(_compute_by_gather)}, jvp=_jvp,
    transpose=_transpose, batch=_batch, mesh=MeshRules(over_axis=_over_axis, communicates=True))


PRIMITIVES = {ragged_all_to_all_p.name: ragged_all_to_all_p}
