"""Operations of kernels on SparseCores: gathers and scatters in vector memory, scans, sorts, and loops.

Vectors have as many elements as a subcore has lanes (16 for 32-bit elements). `sparse_core_mesh.py` describes the cores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront.control.while_loop import fori_loop
from xlafront.core import dtypes, errors, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.traceback_filter import boundary
from xlafront.lax import refs as ref_operations
from xlafront.lax.ref_indexing import selected_shape
from xlafront.pallas.kernel_mlir import bit_width
from xlafront.pallas.kernel_operation import (
    flatten_views,
    is_ref_or_view,
    kernel_operation,
    on_core,
    view_effects,
    views_of,
)
from xlafront.pallas.primitives import kernel_scope
from xlafront.pallas.vector_operations import bitcast as bitcast_along

# Interpretation


def _load_gather(*operands, views, has_mask):
    [view], indices = views_of(operands, views)
    mask = indices.pop() if has_mask else None
    found = ref_operations.get(view)[tuple(indices)]
    return found if mask is None else xnp.where(mask, found, xnp.zeros_like(found))


def _gather_aval(*avals, views, has_mask):
    count = views[0].count
    shape = selected_shape(avals[0].shape, views[0].indexers, [a.shape for a in avals[1:1 + count]])
    if len(avals) - 1 - count - has_mask != len(shape):
        raise ValueError(f"load_gather takes an array of indices for each of the {len(shape)} dimensions of the reference.")
    return ShapedArray(avals[1 + count].shape, avals[0].dtype)


def _store_scatter(*operands, views, has_mask, add):
    [view], (x, *indices) = views_of(operands, views)
    value = ref_operations.get(view)
    if has_mask:
        mask = indices.pop()
        indices[0] = xnp.where(mask, indices[0], np.int32(value.shape[0]))  # beyond the end, where updates are dropped
    update = value.at[tuple(indices)]
    ref_operations.set(view, ..., update.add(x, mode="drop") if add else update.set(x, mode="drop"))


def _scan(x, mask, *, kind):
    if kind == "sum":
        return xnp.cumsum(xnp.where(mask, x, xnp.zeros_like(x)), dtype=tracing.aval_of(x).dtype)
    low = -np.inf if dtypes.is_float(tracing.aval_of(x).dtype) else dtypes.iinfo(tracing.aval_of(x).dtype).min
    largest = xnp.maximum.accumulate(xnp.where(mask, x, xnp.full_like(x, low)))
    return xnp.where(xnp.cumsum(mask) > 0, largest, x)


def _all_reduce(x, *, kind):
    count = x.sum(dtype=np.int32) if kind == "sum" else xnp.where(x.any(), x.argmax(), x.size).astype(np.int32)
    return xnp.broadcast_to(count, x.shape)


def _scan_count(x, mask):
    equal = (x[:, None] == x[None, :]) & mask[None, :]
    position = np.arange(x.shape[0])
    before, after = (position[None, :] <= position[:, None]), (position[None, :] > position[:, None])
    return [(equal & before).sum(1, dtype=np.int32), mask & ~(equal & after).any(1)]


def _sort(keys, values, mask, *, descending):
    order = xnp.argsort(keys, stable=True, descending=descending)
    order = order[xnp.argsort(~mask[order], stable=True)]
    return [keys[order], values[order], mask[order]]


def _bitcast_aval(x, *, dtype):
    return x.update(shape=(*x.shape[:-1], x.shape[-1] * bit_width(x.dtype) // bit_width(dtype)), dtype=dtype, weak_type=False)


load_gather_p = kernel_operation("load_gather", _load_gather, abstract=_gather_aval, effects=view_effects("r"))
store_scatter_p = kernel_operation("store_scatter", _store_scatter, effects=view_effects("w"))
masked_scan_p = kernel_operation("masked_scan", _scan, abstract=lambda x, mask, *, kind: x)
lane_reduction_p = kernel_operation(
    "lane_reduction", _all_reduce, abstract=lambda x, *, kind: x.update(dtype=np.dtype(np.int32), weak_type=False))
scan_count_p = kernel_operation(
    "scan_count", _scan_count, multiple_results=True,
    abstract=lambda x, mask: [x.update(dtype=np.dtype(np.int32), weak_type=False), mask])
sort_key_val_p = kernel_operation(
    "sort_key_val", _sort, multiple_results=True, abstract=lambda keys, values, mask, *, descending: [keys, values, mask])
lane_bitcast_p = kernel_operation(
    "lane_bitcast", lambda x, *, dtype: bitcast_along(x, dtype, dim=-1), abstract=_bitcast_aval)
subcore_barrier_p = kernel_operation("subcore_barrier", lambda *, num_subcores: None, effects=lambda **_: on_core)


# The public functions


def _view(caller: str, ref: Any) -> Any:
    if not is_ref_or_view(ref):
        raise TypeError(f"{caller} takes a reference in VMEM, got {errors.short(ref)}.")
    return ref


def _vector(caller: str, x: Any, kind: str = "") -> Any:
    if not tracing.is_arraylike(x) or np.ndim(x) != 1 or kind and tracing.aval_of(x).dtype != kind:
        raise TypeError(f"{caller} takes a vector{' of booleans' * bool(kind)}, got {errors.short(x)}.")
    return x


def _mask(caller: str, mask: Any, x: Any) -> Any:
    return np.ones(np.shape(x), np.bool_) if mask is None else _vector(caller, mask, "bool")


@boundary
def load_gather(ref: Any, indices: Sequence[Any], *, mask: Any = None) -> Any:
    """Read elements of a reference in VMEM at arrays of indices. For use in kernels on vector subcores.

    Args:
        ref: The reference, or `ref.at[...]`.
        indices: A vector of indices for each dimension.
        mask: Vector of booleans: the elements to read. Others have arbitrary values.

    Returns:
        The elements, a vector.

    Example:
        >>> def kernel(x_ref, i_ref, o_ref):
        ...     o_ref[...] = pl.tpu_sc.load_gather(x_ref, [i_ref[...]])
    """
    operands, views = flatten_views([_view("load_gather", ref)])
    masks = [] if mask is None else [mask]
    return load_gather_p.bind(*operands, *indices, *masks, views=views, has_mask=bool(masks))


def _scatter(caller: str, ref: Any, indices: Sequence[Any], x: Any, mask: Any, add: bool) -> None:
    operands, views = flatten_views([_view(caller, ref)])
    if len(indices) != len(ref.shape):
        raise ValueError(f"{caller} takes an array of indices for each of the {len(ref.shape)} dimensions of the reference, "
                         f"got {len(indices)}.")
    masks = [] if mask is None else [mask]
    store_scatter_p.bind(*operands, x, *indices, *masks, views=views, has_mask=bool(masks), add=add)


@boundary
def store_scatter(ref: Any, indices: Sequence[Any], x: Any, *, mask: Any = None) -> None:
    """Write a vector to elements of a reference in VMEM. For use in kernels on vector subcores.

    Args:
        ref: The reference, or `ref.at[...]`.
        indices: A vector of indices for each dimension. If some are equal, one of the elements is written.
        x: The vector.
        mask: Vector of booleans: the elements to write.

    Example:
        >>> def kernel(x_ref, i_ref, o_ref):
        ...     pl.tpu_sc.store_scatter(o_ref, [i_ref[...]], x_ref[...])
    """
    _scatter("store_scatter", ref, indices, x, mask, False)


@boundary
def addupdate_scatter(ref: Any, indices: Sequence[Any], x: Any, *, mask: Any = None) -> None:
    """Add a vector to elements of a reference in VMEM. For use in kernels on vector subcores.

    Args:
        ref: The reference, or `ref.at[...]`.
        indices: A vector of indices for each dimension.
        x: The vector.
        mask: Vector of booleans: the elements to add.

    Example:
        >>> def kernel(x_ref, i_ref, o_ref):
        ...     pl.tpu_sc.addupdate_scatter(o_ref, [i_ref[...]], x_ref[...])
    """
    _scatter("addupdate_scatter", ref, indices, x, mask, True)


@boundary
def addupdate(ref: Any, x: Any) -> None:
    """Add an array to a reference. For use in kernels on vector subcores.

    Args:
        ref: The reference, or `ref.at[...]`.
        x: Array of the same shape.

    Example:
        >>> def kernel(x_ref, o_ref):
        ...     pl.tpu_sc.addupdate(o_ref, x_ref[...])
    """
    ref_operations.addupdate(_view("addupdate", ref), ..., x)


def _positions(mask: Any) -> Any:
    """Return for each element the number of those before it that the mask has."""
    mask = _vector("a compressed access", mask, "bool")
    return cumsum(mask.astype(np.int32)) - np.int32(1)


@boundary
def store_compressed(ref: Any, x: Any, *, mask: Any) -> None:
    """Write those elements of a vector that a mask has to a reference, one after the other. For kernels on vector subcores.

    Args:
        ref: Reference of one dimension in VMEM, or `ref.at[...]`.
        x: The vector.
        mask: Vector of booleans.

    Example:
        >>> def kernel(x_ref, o_ref):
        ...     pl.tpu_sc.store_compressed(o_ref, x_ref[...], mask=x_ref[...] > 0)
    """
    store_scatter(ref, [_positions(mask)], x, mask=mask)


@boundary
def addupdate_compressed(ref: Any, x: Any, *, mask: Any) -> None:
    """Add those elements of a vector that a mask has to a reference, one after the other. For kernels on vector subcores.

    Args:
        ref: Reference of one dimension in VMEM, or `ref.at[...]`.
        x: The vector.
        mask: Vector of booleans.

    Example:
        >>> def kernel(x_ref, o_ref):
        ...     pl.tpu_sc.addupdate_compressed(o_ref, x_ref[...], mask=x_ref[...] > 0)
    """
    addupdate_scatter(ref, [_positions(mask)], x, mask=mask)


@boundary
def load_expanded(ref: Any, *, mask: Any) -> Any:
    """Read the first elements of a reference, one for each element that a mask has. For use in kernels on vector subcores.

    Args:
        ref: Reference of one dimension in VMEM, or `ref.at[...]`.
        mask: Vector of booleans.

    Returns:
        A vector with the elements where the mask is True; others are arbitrary.

    Example:
        >>> def kernel(x_ref, o_ref):
        ...     o_ref[...] = pl.tpu_sc.load_expanded(x_ref, mask=x_ref[...] > 0)
    """
    return load_gather(ref, [_positions(mask)], mask=mask)


@boundary
def cumsum(x: Any, *, mask: Any = None) -> Any:
    """Return the cumulative sums of a vector.

    Args:
        x: Vector of integers or floats.
        mask: Vector of booleans: the elements to add.

    Returns:
        The sums.

    Example:
        >>> pl.tpu_sc.cumsum(xnp.arange(4), mask=xnp.arange(4) != 1)
        Array([0, 0, 2, 5], dtype=int32)
    """
    return masked_scan_p.bind(_vector("cumsum", x), _mask("cumsum", mask, x), kind="sum")


@boundary
def cummax(x: Any, *, mask: Any = None) -> Any:
    """Return the cumulative maxima of a vector.

    Args:
        x: Vector of integers or floats.
        mask: Vector of booleans: the elements to compare. Elements before the first of them are returned as they are.

    Returns:
        The maxima.

    Example:
        >>> pl.tpu_sc.cummax(xnp.array([1, 3, 2]))
        Array([1, 3, 3], dtype=int32)
    """
    return masked_scan_p.bind(_vector("cummax", x), _mask("cummax", mask, x), kind="max")


def _reduced(caller: str, x: Any, kind: str, reduce: int) -> Any:
    found = lane_reduction_p.bind(_vector(caller, x, "bool"), kind=kind)
    if reduce < 1 or found.shape[0] % reduce:
        raise ValueError(f"{caller}: reduce must divide the size of the vector, {found.shape[0]}, got {reduce}.")
    return found if reduce == 1 else found[:found.shape[0] // reduce]


@boundary
def all_reduce_ffs(x: Any, *, reduce: int = 1) -> Any:
    """Return the index of the first True element of a vector, in each element.

    Args:
        x: Vector of booleans.
        reduce: Factor by which the result is smaller than the vector.

    Returns:
        Vector of equal integers; the size of `x` if all elements are False.

    Example:
        >>> pl.tpu_sc.all_reduce_ffs(xnp.array([False, True, True]))
        Array([1, 1, 1], dtype=int32)
    """
    return _reduced("all_reduce_ffs", x, "find_first_set", reduce)


@boundary
def all_reduce_population_count(x: Any, *, reduce: int = 1) -> Any:
    """Return the number of True elements of a vector, in each element.

    Args:
        x: Vector of booleans.
        reduce: Factor by which the result is smaller than the vector.

    Returns:
        Vector of equal integers.

    Example:
        >>> pl.tpu_sc.all_reduce_population_count(xnp.array([False, True, True]))
        Array([2, 2, 2], dtype=int32)
    """
    return _reduced("all_reduce_population_count", x, "sum", reduce)


@boundary
def scan_count(x: Any, mask: Any = None) -> tuple[Any, Any]:
    """Count, for each element of a vector, the elements up to it that are equal to it.

    Args:
        x: Vector of integers or floats.
        mask: Vector of booleans: the elements to count.

    Returns:
        The counts, 1 for the first of equal elements, and a mask of the last of equal elements.

    Example:
        >>> counts, last = pl.tpu_sc.scan_count(xnp.array([5, 7, 5]))
        >>> counts.tolist(), last.tolist()
        ([1, 1, 2], [False, True, True])
    """
    counts, last = scan_count_p.bind(_vector("scan_count", x), _mask("scan_count", mask, x))
    return counts, last


@boundary
def sort_key_val(keys: Any, values: Any, *, mask: Any = None, descending: bool = False) -> tuple:
    """Sort vectors of keys and values by the keys.

    Args:
        keys: Vector of integers or floats.
        values: Vector of values.
        mask: Vector of booleans: the valid keys. Others come last.
        descending: If True, the largest keys come first.

    Returns:
        The sorted keys and values, and with a mask the mask in the same order.

    Example:
        >>> keys, values = pl.tpu_sc.sort_key_val(xnp.array([3, 1, 2]), xnp.arange(3))
        >>> values
        Array([1, 2, 0], dtype=int32)
    """
    found = sort_key_val_p.bind(_vector("sort_key_val", keys), _vector("sort_key_val", values),
                                _mask("sort_key_val", mask, keys), descending=bool(descending))
    return tuple(found if mask is not None else found[:2])


@boundary
def bitcast(x: Any, dtype: Any) -> Any:
    """Reinterpret the bits of an array as elements of another type, along the last dimension.

    Args:
        x: The array.
        dtype: The other type. If it is narrower, the last dimension is longer; the low bits come first.

    Returns:
        The array of the new type.

    Example:
        >>> pl.tpu_sc.bitcast(xnp.ones(4), "bfloat16").shape
        (8,)
    """
    dtype = dtypes.canonicalize_dtype(dtype)
    if not tracing.is_arraylike(x):
        raise errors.not_an_array(x, "bitcast", "x")
    if not np.ndim(x) or np.shape(x)[-1] * bit_width(tracing.aval_of(x).dtype) % bit_width(dtype):
        raise ValueError(f"bitcast of {tracing.aval_of(x)} to {dtype}: the last dimension is no whole number of elements.")
    return lane_bitcast_p.bind(x, dtype=dtype)


@boundary
def parallel_loop(lower: Any, upper: Any, step: Any = 1, *, unroll: int = 1, carry: Any = None) -> Callable:
    """Make a decorator that runs a function as the body of a loop, whose iterations do not depend on each other's writes.

    Args:
        lower, upper, step: First index, end, and difference of the indices.
        unroll: Number of iterations that are compiled as one.
        carry: Initial value that iterations pass on. Default: none.

    Returns:
        The decorator. It runs the loop immediately and returns the last carry.

    Example:
        >>> def kernel(x_ref, o_ref):
        ...     @pl.tpu_sc.parallel_loop(0, 64, 16)
        ...     def _(i):
        ...         o_ref[pl.ds(i, 16)] = 2 * x_ref[pl.ds(i, 16)]
    """
    is_static = all([isinstance(n, (int, np.integer)) for n in (lower, upper, step)])
    count = max(0, -(-(upper - lower) // step)) if is_static else (upper - lower + step - 1) // step

    def run(body: Callable) -> Any:
        def iteration(i: Any, state: Any) -> Any:
            index = lower + i * step
            if carry is None:
                body(index)
                return None
            return body(index, state)

        return fori_loop(np.int32(0), np.int32(count) if is_static else count, iteration, carry,
                         unroll=unroll if is_static else None)

    return run


@boundary
def subcore_barrier() -> None:
    """Wait until all subcores of the core have come here. For use in kernels on vector subcores.

    Note:
        It is interpreted at the top level of a kernel.

    Example:
        >>> def kernel(x_ref, o_ref):
        ...     pl.tpu_sc.subcore_barrier()
    """
    scope = kernel_scope.get()
    if scope is None or len(scope.grid) != 2:
        raise ValueError("subcore_barrier is only for kernels of pl.kernel on a pltpu_sc.VectorSubcoreMesh.")
    subcore_barrier_p.bind(num_subcores=scope.grid[1])
