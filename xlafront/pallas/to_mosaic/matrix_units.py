"""Rules of TPU kernels for operations of single matrix units.

References to the state of units have no memory: those to accumulators are numbers of the first one, in tiles of 8 x 128.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xlafront.pallas.kernel_equations import unsupported
from xlafront.pallas.kernel_mlir import Rule
from xlafront.pallas.kernel_operation import split_views
from xlafront.pallas.to_mosaic.gathers import LANES, SUBLANES
from xlafront.pallas.to_mosaic.memrefs import ranges_of

if TYPE_CHECKING:
    from xlafront.pallas.to_mosaic.writer import MosaicWriter


def _attributes(w: MosaicWriter, params: Any, *names: str, **others: int) -> dict[str, Any]:
    numbers = {name: params[name] for name in names} | others
    return {k: w.attribute(f"{n} : i32") for k, n in numbers.items() if n is not None}


def _accumulator(w: MosaicWriter, avals, views, operands) -> int:
    """Return the number of the first accumulator of a view."""
    (ref, indexers, indices), *_ = split_views(operands, views[:1])[0]
    (_, _, index_avals), *_ = split_views(avals, views[:1])[0]
    rows, columns = ranges_of(w, ref, indexers, indices, index_avals)
    is_aligned = isinstance(rows.start, int) and rows.start % SUBLANES == 0 and rows.stride == 1
    if not is_aligned or columns.start != 0 or columns.size != ref.shape[1] or rows.dropped or columns.dropped:
        raise unsupported(w, f"a product in a part of {ref.name} other than rows from a multiple of {SUBLANES}",
                          f"Use ref.at[start:stop] with integers that are multiples of {SUBLANES}, or an accumulator for each.")
    return ref.value + rows.start // SUBLANES * (-(-columns.size // LANES))


def _registered(w: MosaicWriter, name: str) -> str:
    """Return the name of an operation, if the installed jaxlib has it."""
    if not w.context.is_registered_operation(f"tpu.{name}"):
        raise unsupported(w, f"pltpu.{name} with this version of jaxlib", "Install a newer jaxlib, or use pltpu.ACC and "
                          "pltpu.matmul_acc_lhs, which TPU 7x has.")
    return f"tpu.{name}"


def _push(w: MosaicWriter, avals_in, avals_out, params, staged, rhs):
    attributes = _attributes(w, params, "staging_register", "mxu_index")
    if params["transpose"]:
        attributes["transpose"] = w.attribute("true")
    w.effect("tpu.matmul_push_rhs", [rhs], attributes)
    return []


def _accumulate(w: MosaicWriter, avals_in, avals_out, params, *operands):
    number = _accumulator(w, avals_in, params["views"], operands)
    w.effect("tpu.matmul_acc_lhs", [operands[-1]], _attributes(w, params, "mxu_index", "load_staged_rhs", acc=number))
    return []


def _pop(w: MosaicWriter, avals_in, avals_out, params, *operands):
    number = _accumulator(w, avals_in, params["views"], operands)
    return w.op("tpu.matmul_pop", [], w.types_of(avals_out)[0], _attributes(w, params, "mxu_index", acc=number))


def _append(w: MosaicWriter, avals_in, avals_out, params, *operands):
    w.effect(_registered(w, "matmul_lhs_fifo"), [operands[-1]], _attributes(w, params, "mxu_index", "load_staged_rhs"))
    return []


def _take(w: MosaicWriter, avals_in, avals_out, params, *operands):
    return w.op(_registered(w, "matmul_pop_fifo"), [], w.types_of(avals_out)[0], _attributes(w, params, "mxu_index"))


RULES: dict[str, Rule] = {
    "matmul_push_rhs": _push, "matmul_acc_lhs": _accumulate, "matmul_pop": _pop, "matmul_lhs_fifo": _append,
    "matmul_pop_fifo": _take,
}
