"""The record of `ragged_all_to_all`, which sends runs of rows of different lengths along a named axis.

TPUs and GPUs have an operation for it. Elsewhere, and over axes that `vmap` names, it is made of other collectives: each gets
the rows of all, and picks those that are for it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xlafront import lowering
from xlafront.core import dtypes, tracing
from xlafront.core.primitive import Primitive
from xlafront.core.zeros import Zero, is_undefined
from xlafront.lax.collective_exchanges import all_gather_p, all_to_all_p
from xlafront.lax.elementwise import add, and_, clamp_, div, ge, lt, mul, sub, to_dtype, where
from xlafront.lax.indexing import take_rows
from xlafront.lax.lower_fun import lower_fun
from xlafront.lax.named_axes import CHANNEL, axes_text, replica_groups
from xlafront.lax.reductions import PRIMITIVES as REDUCTIONS, argmax_p
from xlafront.lax.shapes import broadcast_in_dim_p, counting, place_axis, reshape_to
from xlafront.lax.zeros import instantiate, zeros_array


def _result_type(operand, output, *runs, axis_name, axis_size, axis_index_groups):
    for what, aval in zip(("input_offsets", "send_sizes", "output_offsets", "recv_sizes"), runs):
        if aval.ndim != 1 or not dtypes.is_integer(aval.dtype):
            raise ValueError(f"ragged_all_to_all takes {what} as integers in one dimension, one for each device of "
                             f"{axes_text(axis_name)}, got {aval}.")
        if aval.shape[0] % axis_size or not aval.shape[0] or aval.shape != runs[0].shape:
            raise ValueError(f"ragged_all_to_all over {axes_text(axis_name)} of size {axis_size} takes offsets and sizes of "
                             f"one length, a multiple of that size; {what} has shape {aval.shape}.")
    if operand.dtype != output.dtype or not operand.ndim or not output.ndim or operand.shape[1:] != output.shape[1:]:
        raise ValueError(f"ragged_all_to_all moves rows of the operand into the output: they need one dtype and rows of one "
                         f"shape, got {operand} and {output}.")
    return output


# The operation


def _lower(ctx, *operands, axis_name, axis_size, axis_index_groups):
    mlir = lowering.mlir
    groups = mlir.dense_i64(replica_groups(ctx, axis_name, axis_index_groups))
    return ctx.op("stablehlo.custom_call", operands, call_target_name=mlir.string("ragged_all_to_all"), api_version=mlir.i32(4),
                  backend_config=mlir.ir.DictAttr.get({"replica_groups": groups, "channel_id": mlir.i64(CHANNEL)}))


def _from_all(operand, output, input_offsets, send_sizes, output_offsets, _, *, axis_name, axis_size, axis_index_groups):
    """The same by other collectives."""
    params: dict[str, Any] = {"axis_name": axis_name, "axis_size": axis_size, "axis_index_groups": axis_index_groups}
    if not np.shape(operand)[0]:
        return output
    rows = all_gather_p.bind(operand, all_gather_dimension=0, tiled=False, **params)
    starts, sizes, targets = (all_to_all_p.bind(x, split_axis=0, concat_axis=0, **params)
                              for x in (input_offsets, send_sizes, output_offsets))
    return _with_runs(rows, output, starts, sizes, targets, np.shape(starts)[0] // axis_size)


def _with_runs(rows, output, starts, sizes, targets, each: int):
    """The output with the runs that arrive; of these are `each` from every sender. Its rows look for the run they are in."""
    starts, sizes, targets = _wide(starts, sizes, targets)
    d = tracing.aval_of(starts).dtype
    (senders, count), rest = np.shape(rows)[:2], np.shape(rows)[2:]
    inside, row = _inside(np.shape(output)[0], targets, sizes)
    run = argmax_p.bind(inside, axes=(1,), index_dtype=np.dtype(np.int32))
    place = add(sub(row, take_rows(targets, run)), take_rows(starts, run))
    place = clamp_(d.type(0), place, d.type(count - 1))  # of rows that are in no run
    sender = to_dtype(div(run, np.int32(each)), d)
    found = take_rows(reshape_to(rows, (senders * count, *rest)), add(mul(sender, d.type(count)), place))
    return where(_written(inside, output), found, output)


def _inside(count: int, starts, sizes):
    """Which of `count` rows are in which run, and the numbers of the rows."""
    row = counting(tracing.aval_of(starts).dtype, (count,), 0)
    first, end, here = (broadcast_in_dim_p.bind(x, shape=(count, np.shape(starts)[0]), broadcast_dimensions=(d,), sharding=None)
                        for x, d in ((starts, 1), (add(starts, sizes), 1), (row, 0)))
    return and_(ge(here, first), lt(here, end)), row


def _written(inside, output):
    """Which elements of the output are in rows that are in some run."""
    row = REDUCTIONS["reduce_or"].bind(inside, axes=(1,))
    return broadcast_in_dim_p.bind(row, shape=np.shape(output), broadcast_dimensions=(0,), sharding=None)


def _wide(*offsets) -> list:
    """Offsets as integers of one type that can count the rows of a batch."""
    wide = any([tracing.aval_of(x).dtype.itemsize == 8 for x in offsets])
    return [to_dtype(x, np.int64 if wide else np.int32) for x in offsets]


ragged_all_to_all_p = Primitive("ragged_all_to_all", abstract=_result_type, lower=_lower)
ragged_all_to_all_p.lowerings["cpu"] = lower_fun(_from_all)  # XLA's CPU backend has no such operation


# Derivatives. It is linear in the rows that are sent and in those of the output together.


def _jvp(primals, tangents, **params):
    answer = ragged_all_to_all_p.bind(*primals, **params)
    if type(tangents[0]) is Zero and type(tangents[1]) is Zero:
        return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
    return answer, ragged_all_to_all_p.bind(instantiate(tangents[0]), instantiate(tangents[1]), *primals[2:], **params)


def _transpose(ct, operand, output, input_offsets, send_sizes, output_offsets, recv_sizes, **params):
    """Rows go back to where they came from; the output's own rows are those that nothing was written to."""
    rest = [None] * 4
    if type(ct) is Zero:
        return [Zero(x.aval) if is_undefined(x) else None for x in (operand, output)] + rest

    def told(x):
        """What the others say of their runs, where each knows only of its own."""
        return all_to_all_p.bind(x, split_axis=0, concat_axis=0, **params)

    starts = told(output_offsets)
    operand_ct = output_ct = None
    if is_undefined(operand):
        operand_ct = ragged_all_to_all_p.bind(ct, zeros_array(operand.aval), starts, recv_sizes, told(input_offsets),
                                              send_sizes, **params)
    if is_undefined(output):
        inside, _ = _inside(output.aval.shape[0], *_wide(starts, recv_sizes))
        output_ct = where(_written(inside, ct), np.zeros((), tracing.aval_of(ct).dtype), ct)
    return [operand_ct, output_ct, *rest]


ragged_all_to_all_p.jvp, ragged_all_to_all_p.transpose = _jvp, _transpose


# Batching


def _batch(size, operands, dims, **params):
    """One exchange of the rows of all elements: each run becomes one of every element."""
    operand, output = (place_axis(x, d, 0, size) for x, d in zip(operands[:2], dims[:2]))
    runs = _wide(*[place_axis(x, d, np.ndim(x) - (d is not None), size) for x, d in zip(operands[2:], dims[2:])])
    for k, rows in ((0, np.shape(operand)[1]), (2, np.shape(output)[1])):
        d = tracing.aval_of(runs[k]).dtype
        element = counting(d, np.shape(runs[k]), 1)
        runs[k] = add(runs[k], mul(element, d.type(rows)))

    def joined(x):
        return reshape_to(x, (np.shape(x)[0] * np.shape(x)[1], *np.shape(x)[2:]))

    result = ragged_all_to_all_p.bind(*map(joined, (operand, output, *runs)), **params)
    return reshape_to(result, np.shape(output)), 0


def _over_axis(trace, operands, dims, **params):
    [result], [dim] = trace.map(lambda *xs: [_from_all(*xs, **params)], operands, dims, trace.size, trace.axis_name)
    return result, dim


ragged_all_to_all_p.batch, ragged_all_to_all_p.over_axis = _batch, _over_axis
PRIMITIVES = {ragged_all_to_all_p.name: ragged_all_to_all_p}
