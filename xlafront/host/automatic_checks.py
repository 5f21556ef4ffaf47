"""The automatic checks of `checkify`: divisions by zero, out-of-bounds indices, and NaN results."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront import lax
from xlafront.core import dtypes, tracing
from xlafront.core.ir import JaxprEqn
from xlafront.core.primitive import Primitive
from xlafront.core.refs import AbstractRef
from xlafront.host.checks import DivisionByZeroError, ErrorCategory, JaxException, NaNError, OOBError
from xlafront.lax.indexing import PRIMITIVES as SCATTERS, window_sizes
from xlafront.lax.reductions import PRIMITIVES as REDUCTIONS

# The result of a check: whether there is an error, and the error.
Failure = tuple[Any, JaxException]

# Operations whose floating-point results are elements of their operands, or computed outside of the program.
_COPIES_VALUES = frozenset("""
    abs all_gather all_gather_invariant all_to_all approx_top_k bitcast_convert_type broadcast_in_dim ceil clamp complex
    composite concatenate conj convert_element_type copy cummax cummin device_put dynamic_slice dynamic_update_slice
    empty_ref ffi_call floor freeze gather get imag io_callback max min move_memory name neg new_ref nextafter
    optimization_barrier pad pbroadcast pmax pmin ppermute precv psend pure_callback pvary ragged_all_to_all real recast
    reduce_max reduce_min reduce_precision reduce_window_max reduce_window_min relu relu6 reshape reshard rev roll round
    scatter scatter_apply scatter_max scatter_min select_and_gather_add select_and_scatter select_n sharding_constraint
    sign slice sort split squeeze stack stage stop_gradient swap tile top_k transpose unstack
""".split())


def _any(mask):
    rank = np.ndim(mask)
    return REDUCTIONS["reduce_or"].bind(mask, axes=tuple(range(rank))) if rank else mask


def _is_inexact(aval) -> bool:
    return type(aval) is not AbstractRef and isinstance(aval.dtype, np.dtype) and dtypes.is_inexact(aval.dtype)


def computes_floats(eqn: JaxprEqn) -> bool:
    """True if an operation computes_floats floating-point values."""
    return eqn.primitive.name not in _COPIES_VALUES and any([_is_inexact(v.aval) for v in eqn.outvars])


def nan_error(eqn: JaxprEqn, results: Sequence[Any]) -> Failure:
    """Return whether results of a computation are NaN, and the error."""
    found = [_any(lax.ne(x, x)) for x in results if _is_inexact(tracing.aval_of(x))]
    return functools.reduce(lax.bitwise_or, found), NaNError(eqn.site, eqn.primitive.name)


def _division_by_zero(eqn: JaxprEqn, values: Sequence[Any]) -> Failure:
    return _any(lax.eq(values[1], lax.full_like(values[1], 0))), DivisionByZeroError(eqn.site)


def _out_of_bounds(eqn: JaxprEqn, shape: tuple[int, ...], axes: Sequence[int], sizes: Sequence[int], indices) -> Failure | None:
    """Check the bounds of indices `[..., len(axes)]`, at which slices of these sizes begin along some axes of an array."""
    count = math.prod(np.shape(indices))
    if not count:
        return None
    wide = np.int64 if np.dtype(tracing.aval_of(indices).dtype).itemsize == 8 else np.int32
    flat = lax.convert_element_type(lax.reshape(indices, (count,)), wide)
    last = [shape[a] - sizes[a] for a in axes]
    limits = np.tile(np.asarray(last, wide), count // len(axes))
    outside = lax.bitwise_or(lax.lt(flat, np.zeros(count, wide)), lax.gt(flat, limits))
    first = lax.argmax(outside, 0, np.int32)
    axis = lax.rem(first, np.int32(len(axes)))
    narrow = lax.convert_element_type(flat, np.int32)
    payload = [lax.dynamic_index_in_dim(x, position, 0) for x, position in (
        (narrow, first), (np.asarray(axes, np.int32), axis), (np.asarray(last, np.int32), axis))]
    return _any(outside), OOBError(eqn.site, eqn.primitive.name, tuple(shape), lax.concatenate(payload, 0))


def _gather_bounds(eqn: JaxprEqn, values: Sequence[Any]) -> Failure | None:
    params, (x, indices) = eqn.params, values[:2]
    return _out_of_bounds(eqn, np.shape(x), params["dimension_numbers"].start_index_map, params["slice_sizes"], indices)


def _scatter_bounds(eqn: JaxprEqn, values: Sequence[Any]) -> Failure | None:
    numbers, (x, indices, updates) = eqn.params["dimension_numbers"], values[:3]
    sizes = window_sizes(np.shape(x), np.shape(updates), numbers)
    return _out_of_bounds(eqn, np.shape(x), numbers.scatter_dims_to_operand_dims, sizes, indices)


def _slice_bounds(eqn: JaxprEqn, shape, sizes: Sequence[int], starts: Sequence[Any]) -> Failure | None:
    if not starts:
        return None
    indices = lax.concatenate([lax.reshape(lax.convert_element_type(i, np.int32), (1,)) for i in starts], 0)
    return _out_of_bounds(eqn, shape, range(len(shape)), sizes, indices)


# The category that is checked before each operation, and the check: `check(equation, operands)`.
CHECKS: dict[Primitive, tuple[ErrorCategory, Callable[[JaxprEqn, Sequence[Any]], Failure | None]]] = {
    lax.div_p: (DivisionByZeroError, _division_by_zero),
    lax.gather_p: (OOBError, _gather_bounds),
    lax.dynamic_slice_p: (OOBError, lambda eqn, xs: _slice_bounds(eqn, np.shape(xs[0]), eqn.params["slice_sizes"], xs[1:])),
    lax.dynamic_update_slice_p: (OOBError, lambda eqn, xs: _slice_bounds(eqn, np.shape(xs[0]), np.shape(xs[1]), xs[2:])),
    **{primitive: (OOBError, _scatter_bounds) for primitive in SCATTERS.values()},
}
