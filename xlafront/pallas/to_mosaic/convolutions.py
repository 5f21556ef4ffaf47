"""The rule of TPU kernels for convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from xlafront.pallas.kernel_elementwise import convert
from xlafront.pallas.kernel_equations import unsupported
from xlafront.pallas.kernel_mlir import Rule, kind_of
from xlafront.pallas.to_mosaic.vectors import precise_operands

if TYPE_CHECKING:
    from xlafront.pallas.to_mosaic.writer import MosaicWriter


def _conv(w: MosaicWriter, avals_in, avals_out, params, x, y):
    if not w.context.is_registered_operation("tpu.conv"):
        raise unsupported(w, "conv_general_dilated with this version of jaxlib",
                          "Install jaxlib 0.12, or sum products of slices.")
    [out], numbers = avals_out, params["dimension_numbers"]
    dtype = np.dtype(np.float32 if kind_of(out.dtype) == "float" else np.int32)
    (n, c, *space), (o, i, *window), (batch, channel, *found) = numbers.lhs_spec, numbers.rhs_spec, numbers.out_spec
    order = ", ".join(map(str, (n, c, space, i, o, window, batch, channel, found)))
    attributes = {
        "dimension_numbers": w.attribute(f"#tpu.conv_dimension_numbers<{order}>"),
        "padding": _sizes(w, [size for pair in params["padding"] for size in pair]),
        "window_reversal": w.attribute(f"array<i1: {', '.join(['false'] * len(space))}>"),
        **{name: _sizes(w, params[name]) for name in ("window_strides", "lhs_dilation", "rhs_dilation")},
        **{name: w.attribute(f"{params[name]} : i64") for name in ("feature_group_count", "batch_group_count")
           if params[name] != 1}}
    pairs, precision = precise_operands(w, avals_in, params["precision"], x, y)
    total = w.constant(np.zeros((), dtype), out.shape)
    for left, right in pairs:
        total = w.op("tpu.conv", [left, right, total], total.type, attributes | precision)
    return convert(w, total, out.shape, dtype, out.dtype)


def _sizes(w: MosaicWriter, sizes: Sequence[int]):
    return w.attribute(f"array<i64: {', '.join(map(str, sizes))}>")


RULES: dict[str, Rule] = {"conv_general_dilated": _conv}
