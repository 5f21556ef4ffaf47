"""Statistics of samples: the most frequent value, ranks, the error of the mean."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

import xlafront.numpy as xnp
from xlafront.core.dimensions import min_dim
from xlafront.core.typing import Array, ArrayLike
from xlafront.numpy.promotion import check_arraylike, promote_dtypes_inexact, promotes_freely
from xlafront.staging.library import library


class ModeResult(NamedTuple):
    """The most frequent values, and how often they come."""

    mode: Any
    count: Any


def _check_policy(name: str, policy: str) -> None:
    if policy not in ("propagate", "omit", "raise"):
        raise ValueError(f"nan_policy of {name} must be 'propagate', 'omit' or 'raise', got {policy!r}.")
    if policy != "propagate":
        raise NotImplementedError(f"{name} with nan_policy={policy!r} is not there: it depends on values. Use 'propagate'.")


def mode(a: ArrayLike, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False) -> ModeResult:
    """The most frequent value along an axis, the least of several, and how often it comes.

    - `a`: the sample. `axis`: the axis, None for all elements. `keepdims`: whether the axis stays, with size 1.
    - `nan_policy`: `"propagate"`.

    >>> mode(xnp.array([1, 2, 2]))
    ModeResult(mode=Array(2, dtype=int32), count=Array(2, dtype=int32))
    """
    _check_policy("mode", nan_policy)
    check_arraylike("mode", a)
    a = xnp.atleast_1d(xnp.asarray(a))
    found = _mode(a.ravel() if axis is None else a, 0 if axis is None else axis)
    if keepdims:
        shape = (1,) * a.ndim if axis is None else None
        found = [x.reshape(shape) if shape else xnp.expand_dims(x, axis) for x in found]
    return ModeResult(*found)


@library(static="axis")
@promotes_freely
def _mode(a, axis):
    a = xnp.moveaxis(a, axis, -1)
    n = a.shape[-1]
    if n == 0:
        shape = a.shape[:-1]
        return xnp.full(shape, xnp.nan, float), xnp.zeros(shape)
    ordered = xnp.sort(a, axis=-1)
    before, after = ordered[..., :-1], ordered[..., 1:]
    differ = (after != before) & ~((after != after) & (before != before))  # NaN counts as one value
    first = xnp.concatenate([xnp.ones((*a.shape[:-1], 1), bool), differ], -1)
    place = xnp.arange(n)
    # How long a run is: from its start to the next one.
    start = xnp.where(first, place, n)
    following = xnp.flip(xnp.minimum.accumulate(xnp.flip(xnp.roll(start, -1, -1).at[..., -1].set(n), -1), axis=-1), -1)
    length = xnp.where(first, following - place, 0)
    best = xnp.argmax(length, axis=-1, keepdims=True)
    return (xnp.take_along_axis(ordered, best, -1)[..., 0], xnp.take_along_axis(length, best, -1)[..., 0])


@library(static=("method", "axis", "nan_policy"), converts=True)
def rankdata(a: ArrayLike, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate") -> Array:
    """The ranks of elements, from 1.

    - `a`: the sample. `axis`: the axis, None for all elements, flattened.
    - `method`: the rank of equal ones: `"average"`, `"min"`, `"max"` of what they would have, `"dense"` (the next number), or
      `"ordinal"` (in order).
    - `nan_policy`: `"propagate"`.

    >>> rankdata(xnp.array([10, 30, 20, 20]))
    Array([1. , 4. , 2.5, 2.5], dtype=float32)
    """
    _check_policy("rankdata", nan_policy)
    if method not in ("average", "min", "max", "dense", "ordinal"):
        raise ValueError(f"rankdata has no method {method!r}: it has 'average', 'min', 'max', 'dense' and 'ordinal'.")
    check_arraylike("rankdata", a)
    a = xnp.asarray(a)
    a, axis = (a.ravel(), -1) if axis is None else (xnp.moveaxis(a, axis, -1), axis)
    n = a.shape[-1]
    order = xnp.argsort(a, axis=-1, stable=True)
    back = xnp.argsort(order, axis=-1)
    ordinal = back + 1
    if method == "ordinal":
        return xnp.moveaxis(ordinal, -1, axis).astype(float)
    ordered = xnp.take_along_axis(a, order, -1)
    first = xnp.concatenate([xnp.ones((*a.shape[:-1], min_dim(n, 1)), bool), ordered[..., 1:] != ordered[..., :-1]], -1)
    dense = xnp.cumsum(first, axis=-1)
    place = xnp.arange(n)
    least = xnp.maximum.accumulate(xnp.where(first, place, 0), axis=-1) + 1
    last = xnp.concatenate([first[..., 1:], xnp.ones((*a.shape[:-1], min_dim(n, 1)), bool)], -1)
    greatest = xnp.flip(xnp.minimum.accumulate(xnp.flip(xnp.where(last, place, n), -1), axis=-1), -1) + 1
    ranks = {"dense": dense, "min": least, "max": greatest, "average": (least + greatest) / 2}[method]
    ranks = xnp.take_along_axis(ranks, back, -1).astype(float)
    if xnp.issubdtype(a.dtype, xnp.inexact):
        ranks = xnp.where(xnp.any(xnp.isnan(a), axis=-1, keepdims=True), xnp.nan, ranks)
    return xnp.moveaxis(ranks, -1, axis)


@library(static=("axis", "ddof", "nan_policy", "keepdims"), lists="ddof", converts=True)
def sem(a: ArrayLike, axis: int | None = 0, ddof: int = 1, nan_policy: str = "propagate", *, keepdims: bool = False) -> Array:
    """The standard error of the mean.

    - `a`: the sample. `axis`: the axis, None for all elements. `keepdims`: whether the axis stays, with size 1.
    - `ddof`: what is taken from the number of elements for the variance.
    - `nan_policy`: `"propagate"`, or `"omit"` to leave NaN out.

    >>> sem(xnp.array([1.0, 1.0, 1.0, 5.0]))
    Array(1., dtype=float32)
    """
    if nan_policy not in ("propagate", "omit"):
        raise ValueError(f"nan_policy of sem must be 'propagate' or 'omit', got {nan_policy!r}: compiled code does not raise.")
    check_arraylike("sem", a)
    [a] = map(xnp.asarray, promote_dtypes_inexact(a))
    if nan_policy == "omit":
        count = xnp.sum(~xnp.isnan(a), axis=axis, keepdims=keepdims).astype(a.dtype)
        return xnp.nanstd(a, axis=axis, ddof=ddof, keepdims=keepdims) / xnp.sqrt(count)
    size = a.size if axis is None else np.shape(a)[axis]
    return xnp.std(a, axis=axis, ddof=ddof, keepdims=keepdims) / math.sqrt(size)
