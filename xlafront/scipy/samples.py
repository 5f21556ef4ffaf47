"""Statistics of samples: mode, ranks and the standard error of the mean."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

import xlafront.numpy as xnp
from xlafront.core.typing import Array, ArrayLike
from xlafront.numpy.promotion import check_arraylike, promote_dtypes_inexact, promotes_freely
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import min_dim


class ModeResult(NamedTuple):
    """Modes of samples and their counts."""

    mode: Any
    count: Any


def _check_policy(name: str, policy: str) -> None:
    if policy not in ("propagate", "omit", "raise"):
        raise ValueError(f"nan_policy of {name} must be 'propagate', 'omit' or 'raise', got {policy!r}.")
    if policy != "propagate":
        raise NotImplementedError(f"{name} does not support nan_policy={policy!r}, which depends on values. Use 'propagate'.")


def mode(a: ArrayLike, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False) -> ModeResult:
    """Compute the most frequent value along an axis, the smallest one of several.

    Args:
        a: Samples.
        axis: Axis along which to count. None: flatten the array.
        nan_policy: Must be "propagate".
        keepdims: If True, keep the reduced axis with size 1.

    Returns:
        `ModeResult(mode, count)`.

    Example:
        >>> mode(xnp.array([1, 2, 2]))
        ModeResult(mode=Array(2, dtype=int32), count=Array(2, dtype=int32))
    """
    _check_policy("mode", nan_policy)
    check_arraylike("mode", a)
    a = xnp.atleast_1d(xnp.asarray(a))
    results = _mode(a.ravel() if axis is None else a, 0 if axis is None else axis)
    if keepdims:
        shape = (1,) * a.ndim if axis is None else None
        results = [x.reshape(shape) if shape else xnp.expand_dims(x, axis) for x in results]
    return ModeResult(*results)


@library(static="axis")
@promotes_freely
def _mode(a, axis):
    a = xnp.moveaxis(a, axis, -1)
    n = a.shape[-1]
    if n == 0:
        shape = a.shape[:-1]
        return xnp.full(shape, xnp.nan, float), xnp.zeros(shape)
    sorted_a = xnp.sort(a, axis=-1)
    before, after = sorted_a[..., :-1], sorted_a[..., 1:]
    differ = (after != before) & ~((after != after) & (before != before))  # NaN counts as one value
    first = xnp.concatenate([xnp.ones((*a.shape[:-1], 1), bool), differ], -1)
    positions = xnp.arange(n)
    # The length of a run of equal values is the distance to the start of the next run.
    start = xnp.where(first, positions, n)
    next_start = xnp.flip(xnp.minimum.accumulate(xnp.flip(xnp.roll(start, -1, -1).at[..., -1].set(n), -1), axis=-1), -1)
    length = xnp.where(first, next_start - positions, 0)
    best = xnp.argmax(length, axis=-1, keepdims=True)
    return (xnp.take_along_axis(sorted_a, best, -1)[..., 0], xnp.take_along_axis(length, best, -1)[..., 0])


@library(static=("method", "axis", "nan_policy"))
@accepts(objects=True)
def rankdata(a: ArrayLike, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate") -> Array:
    """Compute the ranks of elements, starting from 1.

    Args:
        a: Samples.
        method: Rank of equal elements: "average", "min" or "max" of their ordinal ranks, "dense" for consecutive ranks,
            "ordinal" for distinct ranks in order of appearance.
        axis: Axis along which to rank. None: flatten the array.
        nan_policy: Must be "propagate".

    Returns:
        Ranks as floats.

    Example:
        >>> rankdata(xnp.array([10, 30, 20, 20]))
        Array([1. , 4. , 2.5, 2.5], dtype=float32)
    """
    _check_policy("rankdata", nan_policy)
    if method not in ("average", "min", "max", "dense", "ordinal"):
        raise ValueError(f"method of rankdata must be 'average', 'min', 'max', 'dense' or 'ordinal', got {method!r}.")
    check_arraylike("rankdata", a)
    a = xnp.asarray(a)
    a, axis = (a.ravel(), -1) if axis is None else (xnp.moveaxis(a, axis, -1), axis)
    n = a.shape[-1]
    order = xnp.argsort(a, axis=-1, stable=True)
    inverse_order = xnp.argsort(order, axis=-1)
    ordinal = inverse_order + 1
    if method == "ordinal":
        return xnp.moveaxis(ordinal, -1, axis).astype(float)
    sorted_a = xnp.take_along_axis(a, order, -1)
    first = xnp.concatenate([xnp.ones((*a.shape[:-1], min_dim(n, 1)), bool), sorted_a[..., 1:] != sorted_a[..., :-1]], -1)
    dense = xnp.cumsum(first, axis=-1)
    positions = xnp.arange(n)
    min_rank = xnp.maximum.accumulate(xnp.where(first, positions, 0), axis=-1) + 1
    last = xnp.concatenate([first[..., 1:], xnp.ones((*a.shape[:-1], min_dim(n, 1)), bool)], -1)
    max_rank = xnp.flip(xnp.minimum.accumulate(xnp.flip(xnp.where(last, positions, n), -1), axis=-1), -1) + 1
    ranks = {"dense": dense, "min": min_rank, "max": max_rank, "average": (min_rank + max_rank) / 2}[method]
    ranks = xnp.take_along_axis(ranks, inverse_order, -1).astype(float)
    if xnp.issubdtype(a.dtype, xnp.inexact):
        ranks = xnp.where(xnp.any(xnp.isnan(a), axis=-1, keepdims=True), xnp.nan, ranks)
    return xnp.moveaxis(ranks, -1, axis)


@library(static=("axis", "ddof", "nan_policy", "keepdims"))
@accepts(objects=True, lists="ddof")
def sem(a: ArrayLike, axis: int | None = 0, ddof: int = 1, nan_policy: str = "propagate", *, keepdims: bool = False) -> Array:
    """Compute the standard error of the mean.

    Args:
        a: Samples.
        axis: Axis to reduce over. None: all axes.
        ddof: Delta degrees of freedom: the variance is divided by the number of samples minus `ddof`.
        nan_policy: "propagate", or "omit" to ignore NaN.
        keepdims: If True, keep the reduced axis with size 1.

    Returns:
        Standard error of the mean along the axis.

    Example:
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
