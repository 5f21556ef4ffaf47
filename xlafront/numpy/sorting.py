"""Sorting: `sort`, `argsort`, `lexsort`, `partition`, `top_k`."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.core import dtypes, tracing
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.lax import top_k_elements
from xlafront.lax.elementwise import neg, not_
from xlafront.lax.shapes import canonical_axis, counting, reshape_to, rev_p
from xlafront.lax.sorting import sort_p
from xlafront.numpy import host_sorting
from xlafront.numpy.creation import asarray, zeros
from xlafront.numpy.indexing import take_along_axis
from xlafront.numpy.manipulation import stack
from xlafront.numpy.promotion import check_arraylike, unwrap
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import as_size


def _flat_or_axis(a, axis, name):
    check_arraylike(name, a)
    a = unwrap(a)
    if axis is None:
        return reshape_to(a, (math.prod(np.shape(a)),)), 0
    return a, canonical_axis(axis, np.ndim(a), f"numpy.{name}")


def _positions(shape, axis, dtype=None):
    return counting(dtype or dtypes.default_dtype(int), shape, axis)


def _reversed(x: ArrayLike, axis: int | None) -> Any:
    return rev_p.bind(x, dimensions=(axis,))


def _refuse_numpy_options(name, kind, order) -> None:
    if kind is not None:
        raise TypeError(f"the `kind` of numpy.{name} is not supported, got {kind!r}: pass stable=True or stable=False.")
    if order is not None:
        raise TypeError(f"the `order` of numpy.{name} is not supported, got {order!r}: arrays have no named fields.")


@host_sorting.on_host(host_sorting.sort)
@library(static=("axis", "kind", "order", "stable", "descending"))
@accepts(nodes=True)
def sort(a: ArrayLike, axis: int | None = -1, *, kind: None = None, order: None = None, stable: bool = True,
         descending: bool = False) -> Array:
    """Sort the elements along an axis, with NaN last.

    Args:
        a: The array. Complex numbers are compared by real part, then by imaginary part.
        axis: Axis to sort along. Default: the last. None: sort the flattened array.
        kind, order: Not supported; must be None.
        stable: If True, equal elements keep their order.
        descending: If True, sort in descending order, with NaN first.

    Returns:
        The sorted array.

    Example:
        >>> xnp.sort(xnp.array([3, 1, 2]))
        Array([1, 2, 3], dtype=int32)
    """
    _refuse_numpy_options("sort", kind, order)
    a, axis = _flat_or_axis(a, axis, "sort")
    [result] = sort_p.bind(a, dimension=axis, is_stable=bool(stable), num_keys=1)
    return _reversed(result, axis) if descending else result


@host_sorting.on_host(host_sorting.argsort)
@library(static=("axis", "kind", "order", "stable", "descending", "dtype"))
@accepts(nodes=True)
def argsort(a: ArrayLike, axis: int | None = -1, *, kind: None = None, order: None = None, stable: bool = True,
            descending: bool = False, dtype: DTypeLike | None = None) -> Array:
    """Return the indices that sort an array along an axis, with NaN last.

    Args:
        a: The array.
        axis: Axis to sort along. Default: the last. None: sort the flattened array.
        kind, order: Not supported; must be None.
        stable: If True, equal elements keep their order.
        descending: If True, sort in descending order, with NaN first.
        dtype: dtype of the indices. Default: the default integer dtype.

    Returns:
        The indices, of the shape of `a` (flattened if `axis` is None).

    Example:
        >>> xnp.argsort(xnp.array([3, 1, 2]))
        Array([1, 2, 0], dtype=int32)
    """
    _refuse_numpy_options("argsort", kind, order)
    a, axis = _flat_or_axis(a, axis, "argsort")
    positions = _positions(np.shape(a), axis, None if dtype is None else dtypes.check_user_dtype(dtype, "numpy.argsort"))
    if descending and stable:  # reverse before and after the sort, so that equal elements keep their order
        a, positions = _reversed(a, axis), _reversed(positions, axis)
    _, indices = sort_p.bind(a, positions, dimension=axis, is_stable=bool(stable), num_keys=1)
    return _reversed(indices, axis) if descending else indices


def _check_kth(a, kth: int, axis: int, name: str) -> None:
    """Raise if `kth` is out of bounds for the axis."""
    n, index = np.shape(a)[canonical_axis(axis, np.ndim(a), name)], operator.index(kth)
    if not -n <= index < n:
        raise ValueError(f"{name} got kth={index}, which is out of bounds for the axis {axis} of size {n}.")


@host_sorting.on_host(host_sorting.partition)
@library(static=("kth", "axis"))
@accepts(nodes=True)
def partition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """Rearrange elements along an axis so that the one at `kth` is in its sorted position.

    Elements before it are not greater, elements after it are not smaller. This implementation sorts all elements.

    Args:
        a: The array.
        kth: The position in sorted order.
        axis: Axis to sort along. Default: the last.

    Returns:
        The partitioned array.

    Example:
        >>> xnp.partition(xnp.array([4, 3, 1, 2]), 2)[2]
        Array(3, dtype=int32)
    """
    _check_kth(a, kth, axis, "numpy.partition")
    return sort.__wrapped__(a, axis)


@library(static=("kth", "axis"))
@accepts(nodes=True)
def argpartition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """Return the indices that partition an array along an axis, as `partition`.

    This implementation sorts all elements.

    Args:
        a: The array.
        kth: The position in sorted order.
        axis: Axis to sort along. Default: the last.

    Returns:
        The indices, of the shape of `a`.

    Example:
        >>> xnp.argpartition(xnp.array([4, 3, 1, 2]), 2)[2]
        Array(1, dtype=int32)
    """
    _check_kth(a, kth, axis, "numpy.argpartition")
    a, axis = _flat_or_axis(a, axis, "argpartition")
    return sort_p.bind(a, _positions(np.shape(a), axis, dtypes.int32), dimension=axis, is_stable=True, num_keys=1)[1]


@library(static="axis")
def _lexsort(keys, axis):
    rows = list(keys)
    positions = _positions(np.shape(rows[0]), axis)
    return sort_p.bind(*rows[::-1], positions, dimension=axis, is_stable=True, num_keys=len(rows))[-1]


@library(static=("axis", "batch_size"), name="lexsort")
def _lexsort_in_batches(keys, axis, batch_size):
    """Sort by batches of keys from the least significant one on, in a loop, so that one sort is compiled.

    The first batch is filled up with copies of its last key, which change nothing.
    """
    from xlafront.control.scan import scan  # start-up: 19 modules that few programs need at once

    missing = -len(keys) % batch_size
    rows = stack([*[keys[0]] * missing, *keys])
    batches = reshape_to(rows, (len(rows) // batch_size, batch_size, *rows.shape[1:]))

    def sort_by_batch(order: Array, batch: Array) -> tuple[Array, None]:
        sorted_keys = [take_along_axis(batch[i], order, axis, mode="promise_in_bounds", wrap_negative_indices=False)
                       for i in range(batch_size)]
        return sort_p.bind(*sorted_keys[::-1], order, dimension=axis, is_stable=True, num_keys=batch_size)[-1], None

    return scan(sort_by_batch, _positions(rows.shape[1:], axis), batches)[0]


def lexsort(keys: ArrayLike | Sequence[ArrayLike], axis: int = -1, *, batch_size: int = 16) -> Array:
    """Return the indices that sort by several keys.

    Args:
        keys: The keys, a sequence of arrays or the rows of one array. The last key is the primary one; earlier keys
            break ties.
        axis: Axis to sort along. Default: the last.
        batch_size: Largest number of keys that one sort compares. More keys of one dtype are sorted in batches of this size,
            so that the compile time does not grow with their number; keys of several dtypes are sorted at once.

    Returns:
        The indices, of the shape of one key.

    Example:
        >>> xnp.lexsort((xnp.array([2, 1, 0]), xnp.array([5, 5, 4])))
        Array([2, 1, 0], dtype=int32)
    """
    batch_size = operator.index(batch_size)
    if batch_size < 1:
        raise ValueError(f"the batch_size of numpy.lexsort must be positive, got {batch_size}.")
    check_arraylike("lexsort", *keys)
    rows = [unwrap(k) for k in keys]
    if not rows:
        raise TypeError("numpy.lexsort needs at least one key.")
    axis = operator.index(axis)
    if not np.ndim(rows[0]):  # scalars have nothing to sort
        return zeros((), dtypes.default_dtype(int))
    axis = canonical_axis(axis, np.ndim(rows[0]), "lexsort")
    if len(rows) > batch_size and len({dtypes.dtype(k) for k in rows}) == 1:
        return _lexsort_in_batches(rows, axis, batch_size)
    return _lexsort(rows, axis)


@library(static=("k", "axis", "mode"))
def _top_k(a, k, axis, mode):
    if mode == "largest":
        return tuple(top_k_elements.top_k(a, k, axis=axis))
    values, indices = top_k_elements.top_k(_in_reverse_order(a), k, axis=axis)
    return _in_reverse_order(values), indices


def _in_reverse_order(x: ArrayLike) -> Array:
    """Return an array whose elements compare in the opposite order, NaN less than all; the function is its own inverse."""
    if tracing.aval_of(x).dtype.kind in "biu":
        return not_(x)
    return neg(x)


def top_k(a: ArrayLike, k: int, /, *, axis: int = -1, mode: str = "largest", sorted: bool = True) -> list[Array]:
    """Return the `k` largest or smallest elements along an axis, and their indices.

    Args:
        a: Array of numbers, not complex ones. NaN counts as the largest.
        k: Number of elements, at most the size of the axis.
        axis: Axis to search along. Default: the last.
        mode: "largest" or "smallest".
        sorted: If False, the elements may be in any order. This implementation sorts them in any case: the largest or smallest
            comes first, and equal elements keep their order.

    Returns:
        A list `[values, indices]`.

    Example:
        >>> xnp.top_k(xnp.array([5, 1, 4]), 2, mode="smallest")
        [Array([1, 4], dtype=int32), Array([1, 2], dtype=int32)]
    """
    check_arraylike("top_k", a)
    if mode not in ("largest", "smallest"):
        raise ValueError(f"the mode of numpy.top_k must be 'largest' or 'smallest', got {mode!r}.")
    a = unwrap(a)
    if dtypes.is_complex(tracing.aval_of(a).dtype):
        raise ValueError("numpy.top_k is not compatible with complex numbers, which have no order. Use numpy.abs(x).")
    return list(_top_k(a, as_size(k), canonical_axis(axis, np.ndim(a), "numpy.top_k"), mode))


@library
@accepts(nodes=True)
def sort_complex(a: ArrayLike) -> Array:
    """Sort elements as complex numbers along the last axis, by real part and then by imaginary part.

    Args:
        a: The array.

    Returns:
        The sorted array, of a complex dtype.

    Example:
        >>> xnp.sort_complex(xnp.array([2 + 1j, 1, 2]))
        Array([1.+0.j, 2.+0.j, 2.+1.j], dtype=complex64)
    """
    a = sort(asarray(a), stable=False)  # as parts of complex numbers 0 and -0 are equal
    return a.astype(dtypes.to_complex(a.dtype))
