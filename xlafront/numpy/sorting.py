"""Sorting: `sort`, `argsort`, `lexsort`, `partition`."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

import numpy as np

from xlafront.core import dtypes
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.lax.shapes import canonical_axis, counting, reshape_to, rev_p
from xlafront.lax.sorting import sort_p
from xlafront.numpy.creation import asarray, zeros
from xlafront.numpy.promotion import check_arraylike, unwrap
from xlafront.staging.library import library


def _flat_or_axis(a, axis, name):
    check_arraylike(name, a)
    a = unwrap(a)
    if axis is None:
        return reshape_to(a, (math.prod(np.shape(a)),)), 0
    return a, canonical_axis(axis, np.ndim(a), f"xnp.{name}")


def _positions(shape, axis, dtype=None):
    return counting(dtype or dtypes.default_dtype(int), shape, axis)


def _reversed(x, axis):
    return rev_p.bind(x, dimensions=(axis,))


def _refuse_numpy_options(name, kind, order) -> None:
    if kind is not None:
        raise TypeError(f"the `kind` of xnp.{name} is not supported, got {kind!r}: say stable=True or stable=False.")
    if order is not None:
        raise TypeError(f"the `order` of xnp.{name} is not supported, got {order!r}: arrays have no named fields.")


@library(static=("axis", "kind", "order", "stable", "descending"))
def sort(a: ArrayLike, axis: int | None = -1, *, kind: None = None, order: None = None, stable: bool = True,
         descending: bool = False) -> Array:
    """The elements in order along an axis, NaN last.

    - `a`: the values; complex numbers go by real part, then by imaginary part.
    - `axis`: the axis; None sorts the array as one vector.
    - `kind`, `order`: of NumPy's signature; they must be None.
    - `stable`: whether equal elements keep their order.
    - `descending`: whether the greatest comes first (and NaN before it).

    >>> xnp.sort(xnp.array([3, 1, 2]))
    Array([1, 2, 3], dtype=int32)
    """
    _refuse_numpy_options("sort", kind, order)
    a, axis = _flat_or_axis(a, axis, "sort")
    [result] = sort_p.bind(a, dimension=axis, is_stable=bool(stable), num_keys=1)
    return _reversed(result, axis) if descending else result


@library(static=("axis", "kind", "order", "stable", "descending", "dtype"))
def argsort(a: ArrayLike, axis: int | None = -1, *, kind: None = None, order: None = None, stable: bool = True,
            descending: bool = False, dtype: DTypeLike | None = None) -> Array:
    """The indices that put elements in order along an axis, NaN last.

    - `a`: the values.
    - `axis`: the axis; None sorts the array as one vector.
    - `kind`, `order`: of NumPy's signature; they must be None.
    - `stable`: whether equal elements keep their order.
    - `descending`: whether the greatest comes first.
    - `dtype`: that of the indices, the default integer without.

    >>> xnp.argsort(xnp.array([3, 1, 2]))
    Array([1, 2, 0], dtype=int32)
    """
    _refuse_numpy_options("argsort", kind, order)
    a, axis = _flat_or_axis(a, axis, "argsort")
    positions = _positions(np.shape(a), axis, None if dtype is None else dtypes.check_user_dtype(dtype, "xnp.argsort"))
    if descending and stable:  # reversed before and after, so that equal elements still keep their order
        a, positions = _reversed(a, axis), _reversed(positions, axis)
    _, places = sort_p.bind(a, positions, dimension=axis, is_stable=bool(stable), num_keys=1)
    return _reversed(places, axis) if descending else places


def _check_place(a, kth: int, axis: int, name: str) -> None:
    """Whether there is such a place along the axis."""
    n, place = np.shape(a)[canonical_axis(axis, np.ndim(a), name)], operator.index(kth)
    if not -n <= place < n:
        raise ValueError(f"{name} got kth={place}, which is out of bounds for the axis {axis} of size {n}.")


@library(static=("kth", "axis"))
def partition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """An element in its sorted place along an axis, with smaller ones before and greater ones after it; all are sorted here.

    - `a`: the values.
    - `kth`: the place, in sorted order.
    - `axis`: the axis.

    >>> xnp.partition(xnp.array([4, 3, 1, 2]), 2)[2]
    Array(3, dtype=int32)
    """
    _check_place(a, kth, axis, "xnp.partition")
    return sort.__wrapped__(a, axis)


@library(static=("kth", "axis"))
def argpartition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """The indices that `partition` an array along an axis; all elements are sorted here.

    - `a`: the values.
    - `kth`: the place, in sorted order.
    - `axis`: the axis.

    >>> xnp.argpartition(xnp.array([4, 3, 1, 2]), 2)[2]
    Array(1, dtype=int32)
    """
    _check_place(a, kth, axis, "xnp.argpartition")
    a, axis = _flat_or_axis(a, axis, "argpartition")
    return sort_p.bind(a, _positions(np.shape(a), axis, dtypes.int32), dimension=axis, is_stable=True, num_keys=1)[1]


@library(static="axis")
def _lexsort(keys, axis):
    rows = list(keys)
    positions = _positions(np.shape(rows[0]), axis)
    return sort_p.bind(*rows[::-1], positions, dimension=axis, is_stable=True, num_keys=len(rows))[-1]


def lexsort(keys: ArrayLike | Sequence[ArrayLike], axis: int = -1) -> Array:
    """The indices that put several arrays in order at once.

    - `keys`: the arrays, or the rows of one. The last one decides first; those before it where elements are equal.
    - `axis`: the axis to sort along.

    >>> xnp.lexsort((xnp.array([2, 1, 0]), xnp.array([5, 5, 4])))
    Array([2, 1, 0], dtype=int32)
    """
    check_arraylike("lexsort", *keys)
    rows = [unwrap(k) for k in keys]
    if not rows:
        raise TypeError("xnp.lexsort needs at least one key.")
    if not np.ndim(rows[0]):  # of one element each
        return zeros((), dtypes.default_dtype(int))
    return _lexsort(rows, canonical_axis(axis, np.ndim(rows[0]), "lexsort"))


@library
def sort_complex(a: ArrayLike) -> Array:
    """The elements as complex numbers, by real part and then by imaginary part, along the last axis.

    - `a`: the values.

    >>> xnp.sort_complex(xnp.array([2 + 1j, 1, 2]))
    Array([1.+0.j, 2.+0.j, 2.+1.j], dtype=complex64)
    """
    a = sort(asarray(a))
    return a.astype(dtypes.to_complex(a.dtype))
