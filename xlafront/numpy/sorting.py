"""Sorting, searching, and functions built on them."""

from __future__ import annotations

import math

import numpy as np

from xlafront.core import dtypes, tracing
from xlafront.lax import sorting as lax
from xlafront.lax.elementwise import PRIMITIVES as ELEMENTWISE
from xlafront.lax.shapes import broadcast_in_dim_p, canonical_axes, canonical_axis, iota_p, reshape_to, rev_p
from xlafront.numpy.promotion import check_arraylike, promote_dtypes, unwrap
from xlafront.staging.jit import library


def _flat_or_axis(a, axis, name):
    check_arraylike(name, a)
    a = unwrap(a)
    if axis is None:
        return reshape_to(a, (math.prod(np.shape(a)),)), 0
    return a, canonical_axis(axis, np.ndim(a), f"xnp.{name}")


@library(static=("axis", "kind", "order", "stable", "descending"))
def sort(a, axis=-1, *, kind=None, order=None, stable=True, descending=False):
    """Sorted along an axis, NaN last; `descending` reverses the order."""
    a, axis = _flat_or_axis(a, axis, "sort")
    [result] = lax.sort_p.bind(a, dimension=axis, is_stable=bool(stable), num_keys=1)
    return rev_p.bind(result, dimensions=(axis,)) if descending else result


@library(static=("axis", "kind", "order", "stable", "descending"))
def argsort(a, axis=-1, *, kind=None, order=None, stable=True, descending=False):
    """The indices that sort along an axis; equal elements keep their order."""
    a, axis = _flat_or_axis(a, axis, "argsort")
    positions = iota_p.bind(dtype=dtypes.default_dtype(int), shape=np.shape(a), dimension=axis, sharding=None)
    if descending:  # reversed before and after, so that equal elements still keep their order
        a, positions = rev_p.bind(a, dimensions=(axis,)), rev_p.bind(positions, dimensions=(axis,))
    _, order_ = lax.sort_p.bind(a, positions, dimension=axis, is_stable=bool(stable), num_keys=1)
    return rev_p.bind(order_, dimensions=(axis,)) if descending else order_


@library(static=("kth", "axis"))
def partition(a, kth, axis=-1):
    """The `kth` element in its sorted place, smaller ones before it, larger ones after."""
    return sort.__wrapped__(a, axis)


@library(static=("kth", "axis"))
def argpartition(a, kth, axis=-1):
    """The indices that partition along an axis."""
    return argsort.__wrapped__(a, axis)


@library(static="axis")
def _lexsort(keys, axis):
    rows = list(keys)
    shape = np.shape(rows[0])
    positions = iota_p.bind(dtype=dtypes.default_dtype(int), shape=shape, dimension=axis, sharding=None)
    *_, order = lax.sort_p.bind(*rows[::-1], positions, dimension=axis, is_stable=True, num_keys=len(rows))
    return order


def lexsort(keys, axis=-1):
    """The indices that sort by several keys, the last one first."""
    rows = [unwrap(k) for k in keys]
    if not rows:
        raise TypeError("xnp.lexsort needs at least one key.")
    return _lexsort(rows, canonical_axis(axis, np.ndim(rows[0]), "lexsort"))


@library(static=("side", "method"))
def _searchsorted(a, v, side, method):
    """For each value the number of elements before its place, by bisection."""
    a, v = promote_dtypes(unwrap(a), unwrap(v))
    n = np.shape(a)[0]
    index = np.dtype(np.int32)
    shape = np.shape(v)
    low, high = (broadcast_in_dim_p.bind(index.type(i), shape=shape, broadcast_dimensions=(), sharding=None) if shape else (
        index.type(i)) for i in (0, n))
    from xlafront.lax.elementwise import add, lt, where
    from xlafront.numpy.indexing import take_rows

    def before(x, y):
        """Whether element x lies before the place of value y; NaN sorts last."""
        plain = lt(x, y) if side == "left" else ELEMENTWISE["le"].bind(x, y)
        if not dtypes.is_inexact(tracing.aval_of(x).dtype):
            return plain
        nan_x, nan_y = ELEMENTWISE["ne"].bind(x, x), ELEMENTWISE["ne"].bind(y, y)
        at_nan = ELEMENTWISE["not"].bind(nan_x) if side == "left" else nan_y
        return where(nan_y, at_nan, ELEMENTWISE["and"].bind(plain, ELEMENTWISE["not"].bind(nan_x)))

    for _ in range(max(n, 0).bit_length()):
        middle = ELEMENTWISE["shift_right_logical"].bind(add(low, high), index.type(1))
        open_ = lt(low, high)
        goes_right = ELEMENTWISE["and"].bind(open_, before(take_rows(a, middle), v))
        goes_left = ELEMENTWISE["and"].bind(open_, ELEMENTWISE["not"].bind(goes_right))
        low = where(goes_right, add(middle, index.type(1)), low)
        high = where(goes_left, middle, high)
    return low


def searchsorted(a, v, side="left", sorter=None, *, method="scan"):
    """Where values would have to be inserted into a sorted vector to keep it sorted."""
    check_arraylike("searchsorted", a, v)
    if side not in ("left", "right"):
        raise ValueError(f"xnp.searchsorted takes side 'left' or 'right', got {side!r}.")
    if method not in ("scan", "scan_unrolled", "sort", "compare_all", "default"):
        raise ValueError(f"xnp.searchsorted has no method {method!r}.")
    if np.ndim(a) != 1:
        raise ValueError(f"xnp.searchsorted needs a vector to search, got shape {np.shape(a)}.")
    if sorter is not None:
        from xlafront.numpy.indexing import take

        a = take(a, sorter)
    return _searchsorted(a, v, side, method)


def digitize(x, bins, right=False, *, method=None):
    """The number of the bin that each value falls into."""
    from xlafront.numpy.creation import asarray
    from xlafront.numpy.manipulation import where

    bins = asarray(bins)
    side = "right" if not right else "left"
    if bins.shape[0] == 0:
        from xlafront.numpy.creation import zeros

        return zeros(np.shape(x), np.int32)
    ascending = searchsorted(bins, x, side)
    descending = bins.shape[0] - searchsorted(bins[::-1], x, side)
    return where(bins[-1] >= bins[0], ascending, descending)


@library(static=("axes", "keepdims", "method"))
def _quantile(a, q, axes, keepdims, method):
    from xlafront.lax.elementwise import add, mul, sub, where
    from xlafront.lax.shapes import transpose_p
    from xlafront.numpy.indexing import take_rows
    from xlafront.numpy.promotion import promote_dtypes_inexact

    a, q = promote_dtypes_inexact(unwrap(a), unwrap(q))
    d = tracing.aval_of(a).dtype
    shape = np.shape(a)
    kept = [i for i in range(len(shape)) if i not in axes]
    rows = transpose_p.bind(a, permutation=(*axes, *kept))
    n = math.prod(shape[i] for i in axes)
    rows = reshape_to(rows, (n, *[shape[i] for i in kept]))
    has_nan = _any_nan(rows)
    [ordered] = lax.sort_p.bind(rows, dimension=0, is_stable=False, num_keys=1)
    place = mul(q, d.type(n - 1))
    low, high = ELEMENTWISE["floor"].bind(place), ELEMENTWISE["ceil"].bind(place)
    weight = sub(place, low)

    def at(position):
        index = ELEMENTWISE["convert_element_type"].bind(position, new_dtype=np.dtype(np.int32), weak_type=False,
                                                         sharding=None)
        return take_rows(ordered, ELEMENTWISE["clamp"].bind(np.int32(0), index, np.int32(n - 1)))

    below, above = at(low), at(high)
    target = np.shape(below)
    w = weight if not np.ndim(weight) else broadcast_in_dim_p.bind(
        weight, shape=target, broadcast_dimensions=tuple(range(np.ndim(weight))), sharding=None)
    half, one = d.type(0.5), d.type(1)
    if method == "linear":
        result = add(mul(below, sub(one, w)), mul(above, w))
        infinite = ELEMENTWISE["not"].bind(ELEMENTWISE["is_finite"].bind(below))
        result = where(ELEMENTWISE["and"].bind(infinite, ELEMENTWISE["eq"].bind(below, above)), below, result)
    elif method == "midpoint":
        result = mul(add(below, above), half)
    elif method == "nearest":
        result = where(ELEMENTWISE["gt"].bind(w, half), above, below)
    else:
        result = below if method == "lower" else above
    nan = has_nan if np.shape(has_nan) == target else broadcast_in_dim_p.bind(
        has_nan, shape=target, sharding=None,
        broadcast_dimensions=tuple(range(len(target) - np.ndim(has_nan), len(target))))
    result = where(nan, d.type(np.nan), result)
    if keepdims:
        lead = np.shape(q)
        result = reshape_to(result, (*lead, *[1 if i in axes else m for i, m in enumerate(shape)]))
    return result


def _any_nan(rows):
    from xlafront.lax.reductions import PRIMITIVES

    return PRIMITIVES["reduce_or"].bind(ELEMENTWISE["ne"].bind(rows, rows), axes=(0,), out_sharding=None)


def quantile(a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False, *, interpolation=None):
    """The values below which a fraction `q` of the elements lies."""
    check_arraylike("quantile", a, q)
    method = interpolation or method
    if method not in ("linear", "lower", "higher", "midpoint", "nearest"):
        raise ValueError(f"xnp.quantile has no method {method!r}; it has linear, lower, higher, midpoint, nearest.")
    return _quantile(a, q, canonical_axes(tuple(axis) if isinstance(axis, list) else axis, np.ndim(a), "quantile"),
                     bool(keepdims), method)


def percentile(a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False, *,
               interpolation=None, out_sharding=None):
    """The values below which `q` percent of the elements lie."""
    from xlafront.lax.resharding import with_out_sharding
    from xlafront.numpy.ufuncs import PUBLIC

    check_arraylike("percentile", a, q)
    return with_out_sharding("xnp.percentile", out_sharding, lambda a, q: quantile(
        a, PUBLIC["true_divide"](q, 100), axis, out, overwrite_input, method, keepdims, interpolation=interpolation), (a, q))


def sort_complex(a):
    """Sorted as complex numbers, by real part and then by imaginary part."""
    from xlafront.numpy.creation import asarray

    a = asarray(a)
    return sort(a.astype(dtypes.to_complex(a.dtype)))


def histogram_bin_edges(a, bins=10, range=None, weights=None):
    """The edges of equally wide bins over the range of the values."""
    from xlafront.numpy import creation, manipulation, reductions

    if np.ndim(bins) == 1:
        return creation.asarray(bins)
    a = manipulation.ravel(creation.asarray(a))
    low, high = (reductions.min(a), reductions.max(a)) if range is None else range
    same = manipulation.where(creation.asarray(low) == high, 0.5, 0.0)
    return creation.linspace(low - same, high + same, int(bins) + 1, dtype=dtypes.to_inexact(a.dtype))


def bincount(x, weights=None, minlength=0, *, length=None):
    """How often each value 0, 1, 2, ... occurs; `length` fixes the size of the result."""
    from xlafront.numpy import creation, manipulation, reductions

    check_arraylike("bincount", x)
    x = creation.asarray(x)
    if length is None:
        if isinstance(x, tracing.Tracer):
            from xlafront.core import errors

            raise errors.ConcretizationTypeError(x, "xnp.bincount needs a static `length` inside a traced function.")
        length = max(int(minlength), int(reductions.max(x)) + 1, 1) if x.size else int(minlength)
    if weights is None:
        weights = dtypes.default_dtype(int).type(1)
    total = creation.zeros(int(length), dtypes.dtype(weights))
    return total.at[manipulation.clip(x, 0, None)].add(weights, mode="drop")
