"""Arrays as sets: their distinct elements, unions, intersections, differences, membership.

How many elements a set has depends on values. Inside of traced functions `size` says how many a result has; what is
missing is filled.
"""

from __future__ import annotations

import functools
import math
import operator
from typing import NamedTuple

import numpy as np

from xlafront.core import dtypes, errors, tracing
from xlafront.core.dimensions import known, max_dim, min_dim
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax.elementwise import and_, as_type, constant_like, lt, ne, or_, size_as
from xlafront.lax.shapes import canonical_axis, counting, move_dim, reshape_to
from xlafront.lax.sorting import sort_p
from xlafront.numpy.creation import arange, asarray, full
from xlafront.numpy.indexing import take_rows
from xlafront.numpy.manipulation import broadcast_to, concatenate, ravel, unstack
from xlafront.numpy.promotion import check_arraylike, promote_dtypes, unwrap
from xlafront.numpy.reductions import any as any_of, cumsum, sum as total
from xlafront.numpy.searching import nonzero, searchsorted, where
from xlafront.numpy.sorting import sort
from xlafront.numpy.ufuncs import PUBLIC
from xlafront.staging.library import library


class _UniqueAllResult(NamedTuple):
    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class _UniqueInverseResult(NamedTuple):
    values: Array
    inverse_indices: Array


class _UniqueCountsResult(NamedTuple):
    values: Array
    counts: Array


def _number(mask, name: str) -> int:
    """How many elements of a mask are true, which must be known."""
    count = total(mask, dtype=np.int32)
    known = count._concrete() if isinstance(count, tracing.Tracer) else count
    if known is None:
        raise errors.ConcretizationTypeError(count, f"The number of elements that xnp.{name} returns depends on values: give "
                                                    f"`size=`.")
    return int(known)


def _static_size(name: str, size) -> int:
    size = operator.index(size)
    if size < 0:
        raise TypeError(f"the size of the result of xnp.{name} must be nonnegative, got {size}.")
    return size


def _both(x, y):
    return and_(x, y)


@library(static=("equal_nan", "places"), name="unique")
def _ordered(rows, equal_nan, places):
    """Rows in order (None where they have several elements), where they come from, and which differ from the one before."""
    n, columns = np.shape(rows)
    if tracing.aval_of(rows).dtype.kind == "c":  # NaN in one part or both is one value, which comes last
        rows = where(ne(rows, rows), constant_like(rows, complex(np.nan, 0)), rows)
    keys = [reshape_to(rows, (n,))] if columns == 1 else unstack(rows, axis=1)
    positions = counting(dtypes.default_dtype(int), (n,), 0)
    if columns == 1 and not places:
        keys, order = sort_p.bind(*keys, dimension=0, is_stable=False, num_keys=1), None
    else:
        *keys, order = sort_p.bind(*keys, positions, dimension=0, is_stable=True, num_keys=max(columns, 1))
    changes = []
    for key in keys:
        after, before = key[1:], key[:-1]
        other = ne(after, before)
        if equal_nan and dtypes.is_inexact(key.dtype):
            other = _both(other, PUBLIC["logical_not"](_both(ne(after, after), ne(before, before))))
        changes.append(other)
    new = functools.reduce(or_, changes) if changes else full((max_dim(n - 1, 0),), False)
    return keys[0] if columns == 1 else None, order, concatenate([full((min_dim(n, 1),), True), new])


@library(static=("size", "shape", "what"), name="unique")
def _chosen(rows, ordered, order, differs, fill, size, shape, what):
    """What `unique` returns, from what `_ordered` found: the rows that begin a run, where these come from, the run of each
    row, the lengths of runs."""
    n, index = np.shape(rows)[0], dtypes.default_dtype(int)
    starts = nonzero(differs, size=size)[0] if n else full((size,), 0, index)
    present = lt(arange(size, dtype=index), total(differs, dtype=index))
    found = {}
    if order is not None and n:
        firsts = take_rows(order, starts)
        found["i"] = where(present, firsts, firsts[:1]) if size else firsts
    else:
        found["i"] = starts
    if not n:
        values = full((size, *shape[1:]), 0, tracing.aval_of(rows).dtype)
    else:
        values = take_rows(rows, firsts) if ordered is None else take_rows(ordered, starts)
        values = reshape_to(values, (size, *shape[1:]))
    if fill is not None:
        filler = broadcast_to(as_type(unwrap(fill), tracing.aval_of(rows).dtype, False), np.shape(values))
        values = where(reshape_to(present, (size, *(1,) * (len(shape) - 1))), values, filler)
    found["v"] = values  # runs that are not there begin at the first row, as `nonzero` has it
    if "n" in what:
        found["n"] = full((n,), 0, index).at[order].set(cumsum(differs, dtype=index) - 1)
    if "c" in what:
        bounds = nonzero(differs, size=size + 1, fill_value=n)[0] if n else full((size + 1,), 0, index)
        found["c"] = bounds[1:] - bounds[:-1]
    return [found[letter] for letter in what]


def _unique(name: str, ar, axis, equal_nan, size, fill_value, what: str):
    """The results of `unique` whose letters are in `what`: values, indices, inverse, counts."""
    check_arraylike(name, ar, *[x for x in (fill_value,) if x is not None])
    ar = asarray(ar)
    size = None if size is None else _static_size(name, size)
    axis = None if axis is None else canonical_axis(axis, ar.ndim, f"xnp.{name}")
    rows = ravel(ar) if axis is None else move_dim(ar, axis, 0)
    shape = rows.shape
    if not shape[0] and size and fill_value is None:
        raise ValueError(f"xnp.{name} of an empty array (zero-sized) has nothing to fill a size of {size} with: specify "
                         f"fill_value.")
    rows = reshape_to(rows, (shape[0], math.prod(shape[1:])))
    ordered, order, differs = _ordered(rows, bool(equal_nan), what != "v")
    number = _number(differs, name) if size is None else size
    results = dict(zip(what, _chosen(rows, ordered, order, differs, None if size is None else fill_value, number, shape, what)))
    if axis is not None:
        results["v"] = move_dim(results["v"], 0, axis)
    elif "n" in what:
        results["n"] = reshape_to(results["n"], ar.shape)
    return [results[letter] for letter in what]


def unique(ar: ArrayLike, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
           axis: int | None = None, *, equal_nan: bool = True, size: int | None = None,
           fill_value: ArrayLike | None = None, sorted: bool = True) -> Array | tuple[Array, ...]:
    """The distinct elements, in order.

    - `ar`: the array.
    - `return_index`: whether to return also where each of them comes first,
    - `return_inverse`: for each element its place in the result,
    - `return_counts`: and how often each occurs.
    - `axis`: distinct slices along an axis in place of elements.
    - `equal_nan`: whether all NaNs are one.
    - `size`: the number of results, for traced functions. Missing ones are `fill_value`, the least element without.
    - `sorted`: of NumPy's signature; the result is always in order.

    >>> xnp.unique(xnp.array([3, 1, 3]), return_counts=True)
    (Array([1, 3], dtype=int32), Array([1, 2], dtype=int32))
    """
    what = "v" + "i" * bool(return_index) + "n" * bool(return_inverse) + "c" * bool(return_counts)
    found = _unique("unique", ar, axis, equal_nan, size, fill_value, what)
    return found[0] if len(found) == 1 else tuple(found)


def unique_all(x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None) -> _UniqueAllResult:
    """The distinct elements, where each comes first, for each element its place among them, and how often each occurs.

    - `x`: the array; each NaN is an element of its own.
    - `size`, `fill_value`: as for `unique`.

    >>> xnp.unique_all(xnp.array([3, 1, 3])).inverse_indices
    Array([1, 0, 1], dtype=int32)
    """
    return _UniqueAllResult(*_unique("unique_all", x, None, False, size, fill_value, "vinc"))


def unique_inverse(x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None) -> _UniqueInverseResult:
    """The distinct elements, and for each element its place among them.

    - `x`: the array; each NaN is an element of its own.
    - `size`, `fill_value`: as for `unique`.

    >>> xnp.unique_inverse(xnp.array([3, 1, 3])).values
    Array([1, 3], dtype=int32)
    """
    return _UniqueInverseResult(*_unique("unique_inverse", x, None, False, size, fill_value, "vn"))


def unique_counts(x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None) -> _UniqueCountsResult:
    """The distinct elements, and how often each occurs.

    - `x`: the array; each NaN is an element of its own.
    - `size`, `fill_value`: as for `unique`.

    >>> xnp.unique_counts(xnp.array([3, 1, 3])).counts
    Array([1, 2], dtype=int32)
    """
    return _UniqueCountsResult(*_unique("unique_counts", x, None, False, size, fill_value, "vc"))


def unique_values(x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None) -> Array:
    """The distinct elements, in order.

    - `x`: the array; each NaN is an element of its own.
    - `size`, `fill_value`: as for `unique`.

    >>> xnp.unique_values(xnp.array([3, 1, 3]))
    Array([1, 3], dtype=int32)
    """
    return _unique("unique_values", x, None, False, size, fill_value, "v")[0]


# Membership


@library(static=("invert", "method"), name="isin")
def _isin(element, test, invert, method):
    element, test = promote_dtypes(unwrap(element), unwrap(test))
    shape = np.shape(element)
    n, m = math.prod(shape), math.prod(np.shape(test))
    if not n or not m:
        return full(shape, invert)
    element, test = reshape_to(element, (n,)), reshape_to(test, (m,))
    if method == "auto":
        method = "compare_all" if min(known(n, 17), known(m, 17)) <= 16 else "binary_search"
    if method == "compare_all":
        found = any_of(PUBLIC["equal"](element[:, None], test[None, :]), axis=1)
    else:
        ordered = sort(test)
        place = PUBLIC["minimum"](searchsorted(ordered, element), size_as(m - 1, np.int32))
        found = PUBLIC["equal"](take_rows(ordered, place), element)
    found = PUBLIC["logical_not"](found) if invert else found
    return reshape_to(found, shape)


def isin(element: ArrayLike, test_elements: ArrayLike, assume_unique: bool = False, invert: bool = False, *,
         method: str = "auto") -> Array:
    """For each element whether it is among others.

    - `element`: the array.
    - `test_elements`: the others.
    - `assume_unique`: of NumPy's signature; it changes nothing.
    - `invert`: whether to ask for those that are not among them.
    - `method`: "compare_all" compares with each of them, "binary_search" and "sort" sort them first; "auto" chooses.

    >>> xnp.isin(xnp.array([1, 2, 3]), xnp.array([3, 1]))
    Array([ True, False,  True], dtype=bool)
    """
    check_arraylike("isin", element, test_elements)
    if method not in ("auto", "compare_all", "binary_search", "sort"):
        raise ValueError(f"xnp.isin has the methods 'auto', 'compare_all', 'binary_search' and 'sort', not {method!r}.")
    return _isin(unwrap(element), unwrap(test_elements), bool(invert), method)


# Two sets


@library(static=("operation", "unique"), name="set_operation")
def _marked(ar1, ar2, operation, unique):
    """The elements that a set operation chooses from, which of them it takes, and where they are in both arrays."""
    ar1, ar2 = ravel(ar1), ravel(ar2)
    if operation == "difference":
        if unique:
            return ar1, isin(ar1, ar2, invert=True), None
        ordered, _, differs = _ordered(ar1[:, None], True, False)
        return ordered, _both(differs, isin(ordered, ar2, invert=True)), None
    ar1, ar2 = promote_dtypes(ar1, ar2)
    if operation == "either":
        if unique:
            joint = sort(concatenate([ar1, ar2]))
            new, edge = ne(joint[1:], joint[:-1]), full((min_dim(joint.shape[0], 1),), True)
            return joint, _both(concatenate([edge, new]), concatenate([new, edge])), None
        sides = [_ordered(x[:, None], True, False) for x in (ar1, ar2)]
        alone = [_both(differs, isin(x, other, invert=True)) for (x, _, differs), other in zip(sides, (ar2, ar1))]
        joint = sort_p.bind(concatenate([x for x, _, _ in sides]), concatenate(alone), dimension=0, is_stable=True, num_keys=1)
        return *joint, None
    (ordered, order, differs), (other, other_order, _) = (_ordered(x[:, None], True, True) for x in (ar1, ar2))
    places = [order, take_rows(other_order, searchsorted(other, ordered))] if other.shape[0] else [order, order]
    return ordered, _both(differs, isin(ordered, other)), places


@library(static=("size", "lengths", "strong"), name="compress")
def _taken(values, keep, places, fill, size, lengths, strong):
    """The elements where a mask holds, `fill` or else the first of them where there are no more; and their places."""
    n, aval = np.shape(values)[0], tracing.aval_of(values)
    chosen = nonzero(keep, size=size)[0] if n else full((size,), 0)
    present = lt(arange(size), total(keep, dtype=dtypes.default_dtype(int)))
    found = take_rows(values, chosen) if n else full((size,), 0, aval.dtype)
    if fill is None:
        fill = where(any_of(keep), values[0] if not size else found[0], 0) if n else 0
    found = where(present, found, as_type(unwrap(fill), aval.dtype, aval.weak_type and not strong))
    return [found, *[where(present, take_rows(p, chosen) if n else 0, length) for p, length in zip(places or (), lengths)]]


def _set_operation(name: str, ar1, ar2, operation: str, unique, size, fill_value) -> list:
    check_arraylike(name, ar1, ar2, *[x for x in (fill_value,) if x is not None])
    ar1, ar2 = unwrap(ar1), unwrap(ar2)
    values, keep, places = _marked(ar1, ar2, operation, bool(unique))
    number = _number(keep, name) if size is None else _static_size(name, size)
    difference = operation == "difference"
    if difference and fill_value is None:
        fill_value = 0
    return _taken(values, keep, places, fill_value, number, (np.size(ar1), np.size(ar2)), not difference and size is not None)


def union1d(ar1: ArrayLike, ar2: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None) -> Array:
    """The elements that are in one of two arrays or in both, in order.

    - `ar1`, `ar2`: the arrays.
    - `size`, `fill_value`: as for `unique`.

    >>> xnp.union1d(xnp.array([1, 2]), xnp.array([4, 2]))
    Array([1, 2, 4], dtype=int32)
    """
    check_arraylike("union1d", ar1, ar2)
    return _unique("union1d", concatenate([ravel(unwrap(ar1)), ravel(unwrap(ar2))]), None, True, size, fill_value, "v")[0]


def setdiff1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, *, size: int | None = None,
              fill_value: ArrayLike | None = None) -> Array:
    """The distinct elements of one array that are not in another, in order.

    - `ar1`: the array.
    - `ar2`: the other one.
    - `assume_unique`: promises that no element is in `ar1` twice; their order is kept.
    - `size`: the number of results, for traced functions. Missing ones are `fill_value`, 0 without.
    - `fill_value`: see `size`.

    >>> xnp.setdiff1d(xnp.array([3, 1, 2]), xnp.array([1]))
    Array([2, 3], dtype=int32)
    """
    return _set_operation("setdiff1d", ar1, ar2, "difference", assume_unique, size, fill_value)[0]


def setxor1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, *, size: int | None = None,
             fill_value: ArrayLike | None = None) -> Array:
    """The elements that are in one of two arrays and not in the other, in order.

    - `ar1`, `ar2`: the arrays.
    - `assume_unique`: promises that neither has an element twice.
    - `size`, `fill_value`: as for `unique`.

    >>> xnp.setxor1d(xnp.array([1, 2]), xnp.array([2, 4]))
    Array([1, 4], dtype=int32)
    """
    return _set_operation("setxor1d", ar1, ar2, "either", assume_unique, size, fill_value)[0]


def intersect1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, return_indices: bool = False, *,
                size: int | None = None, fill_value: ArrayLike | None = None) -> Array | tuple[Array, Array, Array]:
    """The elements that are in both of two arrays, in order.

    - `ar1`, `ar2`: the arrays.
    - `assume_unique`: promises that neither has an element twice.
    - `return_indices`: whether to return where each comes first in the two arrays, which are read flat; what is missing of a
      given `size` is at their ends.
    - `size`, `fill_value`: as for `unique`.

    >>> xnp.intersect1d(xnp.array([1, 2, 3]), xnp.array([3, 2]))
    Array([2, 3], dtype=int32)
    """
    found = _set_operation("intersect1d", ar1, ar2, "both", assume_unique, size, fill_value)
    return tuple(found) if return_indices else found[0]
