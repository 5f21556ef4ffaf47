"""Set operations on arrays: distinct elements, unions, intersections, differences, membership.

The number of elements of a set depends on values. While tracing, `size` gives the static size of the result, which is
padded.
"""

from __future__ import annotations

import functools
import math
import operator
from typing import NamedTuple

import numpy as np

from xlafront.core import dtypes, errors, tracing
from xlafront.core.basic_primitives import move_dim
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax.elementwise import and_, as_type, lt, ne, or_, size_scalar
from xlafront.lax.shapes import canonical_axis, counting, reshape_to
from xlafront.lax.sorting import sort_p
from xlafront.numpy import host_sorting
from xlafront.numpy.creation import asarray, full
from xlafront.numpy.indexing import take_rows
from xlafront.numpy.manipulation import broadcast_to, concatenate, ravel, unstack
from xlafront.numpy.promotion import check_arraylike, promote_dtypes, unwrap
from xlafront.numpy.reductions import any as any_of, cumsum, sum as total
from xlafront.numpy.searching import nonzero, searchsorted, where
from xlafront.numpy.sorting import sort
from xlafront.numpy.ufuncs import PUBLIC
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import known, max_dim, min_dim


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


def _concrete_count(mask, name: str) -> int:
    """Return the number of true elements of a mask, whose values must be concrete."""
    count = total(mask, dtype=np.int32)
    known = count._concrete() if isinstance(count, tracing.Tracer) else count
    if known is None:
        raise errors.ConcretizationTypeError(count, f"The number of elements that numpy.{name} returns depends on values: give "
                                                    f"`size=`.")
    return int(known)


def _static_size(name: str, size) -> int:
    size = operator.index(size)
    if size < 0:
        raise ValueError(f"the size of the result of numpy.{name} must be nonnegative, got {size}.")
    return size


def _and(x, y):
    return and_(x, y)


@library(static=("equal_nan", "with_order"), name="unique")
def _sort_rows(rows, equal_nan, with_order):
    """Sort rows. Return the sorted values (None if rows have several columns), the sort order, and a mask of rows
    unlike the previous one."""
    n, columns = np.shape(rows)
    if tracing.aval_of(rows).dtype.kind == "c":  # a NaN in the real or imaginary part makes one value, which sorts last
        nan = full((), complex(np.nan, 0), tracing.aval_of(rows).dtype)  # of the dtype, so that the result is not weakly typed
        rows = where(ne(rows, rows), nan, rows)
    keys = [reshape_to(rows, (n,))] if columns == 1 else unstack(rows, axis=1)
    positions = counting(dtypes.default_dtype(int), (n,), 0)
    if columns == 1 and not with_order:
        keys, order = sort_p.bind(*keys, dimension=0, is_stable=False, num_keys=1), None
    else:
        *keys, order = sort_p.bind(*keys, positions, dimension=0, is_stable=True, num_keys=max(columns, 1))
    changes = []
    for key in keys:
        after, before = key[1:], key[:-1]
        differs = ne(after, before)
        if equal_nan and dtypes.is_inexact(key.dtype):
            differs = _and(differs, PUBLIC["logical_not"](_and(ne(after, after), ne(before, before))))
        changes.append(differs)
    new = functools.reduce(or_, changes) if changes else full((max_dim(n - 1, 0),), False)
    return keys[0] if columns == 1 else None, order, concatenate([full((min_dim(n, 1),), True), new])


@library(static=("size", "shape", "outputs"), name="unique")
def _unique_outputs(rows, ordered, order, differs, fill, size, shape, outputs):
    """Return the requested outputs of `unique` from those of `_sort_rows`.

    Runs of equal rows begin where `differs` is true: "v" are their values, "i" the original positions of their first
    rows, "n" the run of each row (inverse indices), "c" the lengths of runs (counts).
    """
    n, index = np.shape(rows)[0], dtypes.default_dtype(int)
    # `n` where there are fewer runs than `size`. Counts need the end of the last run too.
    bounds = nonzero(differs, size=size + ("c" in outputs), fill_value=n)[0] if n else full((size + 1,), 0, index)
    present = lt(bounds[:size], size_scalar(n, index))
    starts = where(present, bounds[:size], index.type(0))
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
    found["v"] = values  # padding repeats the first row
    if "n" in outputs:
        found["n"] = full((n,), 0, index).at[order].set(cumsum(differs, dtype=index) - 1, unique_indices=True)
    if "c" in outputs:
        found["c"] = bounds[1:] - bounds[:-1]
    return [found[letter] for letter in outputs]


def _unique(name: str, ar, axis, equal_nan, size, fill_value, outputs: str):
    """Return the outputs of `unique` named by letters: v(alues), i(ndices), i(n)verse, c(ounts)."""
    check_arraylike(name, ar, *[x for x in (fill_value,) if x is not None])
    ar = asarray(ar)
    size = None if size is None else _static_size(name, size)
    axis = None if axis is None else canonical_axis(axis, ar.ndim, f"numpy.{name}")
    if size is None and axis is None and (values := host_sorting.host_buffer(ar)) is not None:
        on_host = dict(zip(outputs, host_sorting.unique(values.reshape(-1), equal_nan, outputs)))
        if "n" in outputs:
            on_host["n"] = on_host["n"].reshape(ar.shape)
        return [host_sorting.from_host(on_host[letter], ar) for letter in outputs]
    rows = ravel(ar) if axis is None else move_dim(ar, axis, 0)
    shape = rows.shape
    if not shape[0] and size and fill_value is None:
        raise ValueError(
            f"numpy.{name} cannot pad the result of an empty array (zero-sized) to size {size}: specify fill_value.")
    rows = reshape_to(rows, (shape[0], math.prod(shape[1:])))
    ordered, order, differs = _sort_rows(rows, bool(equal_nan), outputs != "v")
    number = _concrete_count(differs, name) if size is None else size
    fill = None if size is None else fill_value
    results = dict(zip(outputs, _unique_outputs(rows, ordered, order, differs, fill, number, shape, outputs)))
    if axis is not None:
        results["v"] = move_dim(results["v"], 0, axis)
    elif "n" in outputs:
        results["n"] = reshape_to(results["n"], ar.shape)
    return [results[letter] for letter in outputs]


def unique(ar: ArrayLike, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
           axis: int | None = None, *, equal_nan: bool = True, size: int | None = None,
           fill_value: ArrayLike | None = None, sorted: bool = True) -> Array | tuple[Array, ...]:
    """Return the distinct elements of an array, sorted.

    Args:
        ar: The array.
        return_index: If True, also return the index of the first occurrence of each distinct element.
        return_inverse: If True, also return, for each element of `ar`, its index in the result.
        return_counts: If True, also return the number of occurrences.
        axis: Axis whose distinct slices to return. Default: the distinct elements of the flattened array.
        equal_nan: If True, all NaNs count as equal.
        size: Static number of results. Required while tracing. Missing results are padded.
        fill_value: Padding value. Default: the smallest element.
        sorted: Ignored; the result is always sorted.

    Returns:
        The distinct elements, or a tuple of them and the requested outputs in the order of the parameters.

    Example:
        >>> xnp.unique(xnp.array([3, 1, 3]), return_counts=True)
        (Array([1, 3], dtype=int32), Array([1, 2], dtype=int32))
    """
    outputs = "v" + "i" * bool(return_index) + "n" * bool(return_inverse) + "c" * bool(return_counts)
    found = _unique("unique", ar, axis, equal_nan, size, fill_value, outputs)
    return found[0] if len(found) == 1 else tuple(found)


def unique_all(x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None) -> _UniqueAllResult:
    """Return distinct elements, indices of their first occurrences, inverse indices and counts.

    Args:
        x: The array. NaNs count as distinct.
        size, fill_value: See `unique`.

    Returns:
        A named tuple with fields `values`, `indices`, `inverse_indices` and `counts`.

    Example:
        >>> xnp.unique_all(xnp.array([3, 1, 3])).inverse_indices
        Array([1, 0, 1], dtype=int32)
    """
    return _UniqueAllResult(*_unique("unique_all", x, None, False, size, fill_value, "vinc"))


def unique_inverse(x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None) -> _UniqueInverseResult:
    """Return the distinct elements and, for each element, its index among them.

    Args:
        x: The array. NaNs count as distinct.
        size, fill_value: See `unique`.

    Returns:
        A named tuple with fields `values` and `inverse_indices`.

    Example:
        >>> xnp.unique_inverse(xnp.array([3, 1, 3])).values
        Array([1, 3], dtype=int32)
    """
    return _UniqueInverseResult(*_unique("unique_inverse", x, None, False, size, fill_value, "vn"))


def unique_counts(x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None) -> _UniqueCountsResult:
    """Return the distinct elements and their numbers of occurrences.

    Args:
        x: The array. NaNs count as distinct.
        size, fill_value: See `unique`.

    Returns:
        A named tuple with fields `values` and `counts`.

    Example:
        >>> xnp.unique_counts(xnp.array([3, 1, 3])).counts
        Array([1, 2], dtype=int32)
    """
    return _UniqueCountsResult(*_unique("unique_counts", x, None, False, size, fill_value, "vc"))


def unique_values(x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None) -> Array:
    """Return the distinct elements, sorted.

    Args:
        x: The array. NaNs count as distinct.
        size, fill_value: See `unique`.

    Returns:
        The distinct elements.

    Example:
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
        ordered = sort(test, stable=False)
        position = PUBLIC["minimum"](searchsorted(ordered, element), size_scalar(m - 1, np.int32))
        found = PUBLIC["equal"](take_rows(ordered, position), element)
    found = PUBLIC["logical_not"](found) if invert else found
    return reshape_to(found, shape)


def isin(element: ArrayLike, test_elements: ArrayLike, assume_unique: bool = False, invert: bool = False, *,
         method: str = "auto") -> Array:
    """Test for each element whether it is contained in another array.

    Args:
        element: The array to test.
        test_elements: The values to test against.
        assume_unique: Ignored; accepted for compatibility with NumPy.
        invert: If True, return True for elements that are not contained.
        method: "compare_all" compares all pairs, "binary_search" and "sort" sort the test elements and search; "auto"
            selects by size.

    Returns:
        A boolean array of the shape of `element`.

    Example:
        >>> xnp.isin(xnp.array([1, 2, 3]), xnp.array([3, 1]))
        Array([ True, False,  True], dtype=bool)
    """
    check_arraylike("isin", element, test_elements)
    if method not in ("auto", "compare_all", "binary_search", "sort"):
        raise ValueError(f"numpy.isin has the methods 'auto', 'compare_all', 'binary_search' and 'sort', not {method!r}.")
    return _isin(unwrap(element), unwrap(test_elements), bool(invert), method)


# Two sets


@library(static=("operation", "unique"), name="set_operation")
def _candidates(ar1, ar2, operation, unique):
    """Return the candidates of a set operation, the mask of those in the result, and their positions in both arrays (or
    None)."""
    ar1, ar2 = ravel(ar1), ravel(ar2)
    if operation == "difference":  # its elements have the dtype of the first array
        _, ar2 = promote_dtypes(ar1, ar2)
        if unique:
            return ar1, isin(ar1, ar2, invert=True), None
        ordered, _, differs = _sort_rows(ar1[:, None], True, False)
        return ordered, _and(differs, isin(ordered, ar2, invert=True)), None
    ar1, ar2 = promote_dtypes(ar1, ar2)
    if operation == "xor":
        if unique:
            joint = sort(concatenate([ar1, ar2]), stable=False)
            new, edge = ne(joint[1:], joint[:-1]), full((min_dim(joint.shape[0], 1),), True)
            return joint, _and(concatenate([edge, new]), concatenate([new, edge])), None
        sides = [_sort_rows(x[:, None], True, False) for x in (ar1, ar2)]
        exclusive = [_and(differs, isin(x, other, invert=True)) for (x, _, differs), other in zip(sides, (ar2, ar1))]
        joint = sort_p.bind(concatenate([x for x, _, _ in sides]), concatenate(exclusive), dimension=0, is_stable=True,
                            num_keys=1)
        return *joint, None
    (ordered, order, differs), (other, other_order, _) = (_sort_rows(x[:, None], True, True) for x in (ar1, ar2))
    positions = [order, take_rows(other_order, searchsorted(other, ordered))] if other.shape[0] else [order, order]
    return ordered, _and(differs, isin(ordered, other)), positions


@library(static=("size", "lengths", "strong"), name="compress")
def _compress(values, keep, positions, fill, size, lengths, strong):
    """Return the first `size` elements where a mask is true, and their positions.

    Missing elements are padded with `fill`, or with the first element; missing positions with the lengths of the
    arrays.
    """
    n, aval, index = np.shape(values)[0], tracing.aval_of(values), dtypes.default_dtype(int)
    selected = nonzero(keep, size=size, fill_value=n)[0] if n else full((size,), 0, index)
    present = lt(selected, size_scalar(n, index))
    selected = where(present, selected, index.type(0))
    found = take_rows(values, selected) if n else full((size,), 0, aval.dtype)
    if fill is None:
        fill = where(present[0], found[0], 0) if n and size else 0
    found = where(present, found, as_type(unwrap(fill), aval.dtype, aval.weak_type and not strong))
    return [found, *[where(present, take_rows(p, selected) if n else 0, length) for p, length in zip(positions or (), lengths)]]


def _set_operation(name: str, ar1, ar2, operation: str, unique, size, fill_value) -> list:
    check_arraylike(name, ar1, ar2, *[x for x in (fill_value,) if x is not None])
    ar1, ar2 = unwrap(ar1), unwrap(ar2)
    values, keep, positions = _candidates(ar1, ar2, operation, bool(unique))
    number = _concrete_count(keep, name) if size is None else _static_size(name, size)
    difference = operation == "difference"
    if difference and fill_value is None:
        fill_value = 0
    return _compress(values, keep, positions, fill_value, number, (np.size(ar1), np.size(ar2)),
                     not difference and size is not None)


def union1d(ar1: ArrayLike, ar2: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None) -> Array:
    """Return the sorted union of two arrays.

    Args:
        ar1, ar2: The arrays.
        size, fill_value: See `unique`.

    Returns:
        The distinct elements that are in at least one of the arrays.

    Example:
        >>> xnp.union1d(xnp.array([1, 2]), xnp.array([4, 2]))
        Array([1, 2, 4], dtype=int32)
    """
    check_arraylike("union1d", ar1, ar2)
    return _unique("union1d", concatenate([ravel(unwrap(ar1)), ravel(unwrap(ar2))]), None, True, size, fill_value, "v")[0]


def setdiff1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, *, size: int | None = None,
              fill_value: ArrayLike | None = None) -> Array:
    """Return the sorted distinct elements of one array that are not in another.

    Args:
        ar1: The array.
        ar2: The elements to exclude.
        assume_unique: If True, assume that `ar1` has no duplicates; its order is then preserved.
        size: Static number of results. Required while tracing. Missing results are padded.
        fill_value: Padding value. Default: 0.

    Returns:
        The elements of the difference.

    Example:
        >>> xnp.setdiff1d(xnp.array([3, 1, 2]), xnp.array([1]))
        Array([2, 3], dtype=int32)
    """
    return _set_operation("setdiff1d", ar1, ar2, "difference", assume_unique, size, fill_value)[0]


def setxor1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, *, size: int | None = None,
             fill_value: ArrayLike | None = None) -> Array:
    """Return the sorted elements that are in exactly one of two arrays.

    Args:
        ar1, ar2: The arrays.
        assume_unique: If True, assume that neither array has duplicates.
        size, fill_value: See `unique`.

    Returns:
        The elements of the symmetric difference.

    Example:
        >>> xnp.setxor1d(xnp.array([1, 2]), xnp.array([2, 4]))
        Array([1, 4], dtype=int32)
    """
    return _set_operation("setxor1d", ar1, ar2, "xor", assume_unique, size, fill_value)[0]


def intersect1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, return_indices: bool = False, *,
                size: int | None = None, fill_value: ArrayLike | None = None) -> Array | tuple[Array, Array, Array]:
    """Return the sorted elements that are in both of two arrays.

    Args:
        ar1, ar2: The arrays.
        assume_unique: If True, assume that neither array has duplicates.
        return_indices: If True, also return the indices of the first occurrences in both flattened arrays. Missing ones
            are padded with the size of the array.
        size, fill_value: See `unique`.

    Returns:
        The common elements, or a tuple of them and two index arrays.

    Example:
        >>> xnp.intersect1d(xnp.array([1, 2, 3]), xnp.array([3, 2]))
        Array([2, 3], dtype=int32)
    """
    found = _set_operation("intersect1d", ar1, ar2, "intersection", assume_unique, size, fill_value)
    return tuple(found) if return_indices else found[0]
