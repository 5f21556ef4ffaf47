"""Interpolation on rectilinear grids of any number of dimensions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

import xlafront.numpy as xnp
from xlafront.core import tree
from xlafront.core.typing import Array, ArrayLike
from xlafront.numpy.promotion import check_arraylike, promote_dtypes_inexact
from xlafront.staging.library import library

_METHODS = ("linear", "nearest")


def _check_method(method: str) -> None:
    if method not in _METHODS:
        raise ValueError(f"method of RegularGridInterpolator must be 'linear' or 'nearest', got {method!r}.")


@tree.register_pytree_node_class
class RegularGridInterpolator:
    """Interpolator of values on a rectilinear grid.

    Call it with an array whose last axis holds the coordinates of points, or with a tuple of coordinate arrays, which
    are broadcast. It is a pytree, so it can be an argument and a result of transformed functions.

    Args:
        points: For each dimension, the increasing positions of the grid lines.
        values: Values on the grid; further dimensions belong to the values themselves.
        method: "linear" or "nearest".
        bounds_error: Must be False: compiled code cannot raise.
        fill_value: Value outside of the grid. None: extrapolate.

    Example:
        >>> line = RegularGridInterpolator((xnp.array([0.0, 1.0]),), xnp.array([0.0, 10.0]))
        >>> line(xnp.array([0.25]))
        Array([2.5], dtype=float32)
    """

    def __init__(self, points: Sequence[ArrayLike], values: ArrayLike, method: str = "linear", bounds_error: bool = False,
                 fill_value: ArrayLike | None = np.nan):
        _check_method(method)
        if bounds_error:
            raise NotImplementedError("RegularGridInterpolator cannot have bounds_error=True: compiled code does not raise.")
        check_arraylike("RegularGridInterpolator", values, *points)
        if len(points) > np.ndim(values):
            raise ValueError(f"RegularGridInterpolator got {len(points)} point arrays, but values has {np.ndim(values)} "
                             f"dimensions.")
        values, *grid = promote_dtypes_inexact(values, *points)
        if fill_value is not None:
            fill_value = xnp.asarray(fill_value)
            if not np.can_cast(fill_value.dtype, np.dtype(complex if values.dtype.kind == "c" else float), casting="same_kind"):
                raise ValueError(f"the fill_value of RegularGridInterpolator must be of a type compatible with values, got "
                                 f"{fill_value.dtype} for values of {values.dtype}.")
        for i, p in enumerate(grid):
            if np.ndim(p) != 1:
                raise ValueError(f"the points of dimension {i} of RegularGridInterpolator must be 1-dimensional, got shape "
                                 f"{np.shape(p)}.")
            if np.size(p) != np.shape(values)[i]:
                raise ValueError(f"RegularGridInterpolator got {np.size(p)} points for dimension {i}, but values of shape "
                                 f"{np.shape(values)} has size {np.shape(values)[i]} there.")
        self.method, self.bounds_error, self.fill_value = method, bounds_error, fill_value
        self.grid = tuple(xnp.real(p) for p in map(xnp.asarray, grid))  # promoted to complex together with the values
        self.values = xnp.asarray(values)

    def __call__(self, xi: ArrayLike | tuple[ArrayLike, ...], method: str | None = None) -> Array:
        method = self.method if method is None else method
        _check_method(method)
        count = len(self.grid)
        separate = isinstance(xi, tuple)
        if separate:
            check_arraylike("RegularGridInterpolator", *xi)
            xi = xnp.stack(xnp.broadcast_arrays(*xi), -1)
        check_arraylike("RegularGridInterpolator", xi)
        xi = xnp.asarray(xi)
        if xi.ndim < 2 and count == 1:
            xi = xi.reshape(-1, 1)
        elif xi.shape == (count,) and not separate:  # the coordinates of one point
            xi = xi[None]
        if xi.size % count:
            raise TypeError(f"cannot reshape points of shape {xi.shape}: a RegularGridInterpolator of {count} dimensions needs "
                            f"{count} coordinates per point.")
        if xi.shape[-1] != count:
            if xi.ndim > 1:
                raise ValueError(f"points of shape {xi.shape} have {xi.shape[-1]} coordinates, but this "
                                 f"RegularGridInterpolator has {count} dimensions.")
            xi = xi.reshape(-1, count)
        return _interpolate(self.grid, self.values, xi, self.fill_value, method)

    def tree_flatten(self):
        return (self.grid, self.values, self.fill_value), (self.method, self.bounds_error)

    @classmethod
    def tree_unflatten(cls, settings, children):
        result = object.__new__(cls)
        result.grid, result.values, result.fill_value = children
        result.method, result.bounds_error = settings
        return result


_INSIDE = "promise_in_bounds"


@library(static="method", name="interpolate")
def _interpolate(grid, values, points, fill, method):
    shape, value_shape = points.shape[:-1], values.shape[len(grid):]
    points = points.reshape(-1, len(grid)).astype(xnp.promote_types(points.dtype, grid[0].dtype))
    lower, fractions, outside, is_nan = [], [], False, False
    for i, line in enumerate(grid):
        x = points[:, i]
        # Points beyond the grid use the first or the last interval, which is extrapolated.
        low = xnp.clip(xnp.searchsorted(line, x) - 1, 0, max(line.size - 2, 0))
        left, right = (line.at[index].get(mode=_INSIDE) for index in (low, low + min(1, line.size - 1)))
        fractions.append(xnp.where(right == left, 0, (x - left) / xnp.where(right == left, 1, right - left)))
        lower.append(low)
        outside = outside | (x < line[0]) | (x > line[-1])
        is_nan = is_nan | xnp.isnan(x)
    expand = lambda w: w.reshape(-1, *(1,) * len(value_shape))
    if method == "nearest":
        nearest = [low + (fraction > 0.5) if line.size > 1 else low for low, fraction, line in zip(lower, fractions, grid)]
        result = values.at[tuple(nearest)].get(mode=_INSIDE)
    else:
        result = 0
        for corner in itertools.product((0, 1), repeat=len(grid)):
            weight = 1
            for side, fraction in zip(corner, fractions):
                weight = weight * (fraction if side else 1 - fraction)
            corner_index = tuple(low + min(side, line.size - 1) for low, side, line in zip(lower, corner, grid))
            result = result + values.at[corner_index].get(mode=_INSIDE) * expand(weight)
    if fill is not None:
        result = xnp.where(expand(outside), fill.astype(result.dtype), result)
    nan = complex(np.nan, np.nan) if result.dtype.kind == "c" else np.nan
    return xnp.where(expand(is_nan), nan, result).reshape(*shape, *value_shape).astype(result.dtype)
