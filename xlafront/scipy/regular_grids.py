"""Interpolation on a grid of any number of dimensions."""

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
        raise ValueError(f"RegularGridInterpolator has no method {method!r}: it has 'linear' and 'nearest'.")


@tree.register_pytree_node_class
class RegularGridInterpolator:
    """A function between values on a grid, whose lines need not be at equal distances.

    - `points`: for each dimension the positions of the grid's lines, in increasing order.
    - `values`: the values on the grid; more dimensions than those of `points` are of the values themselves.
    - `method`: `"linear"` between the corners around a point, or `"nearest"`.
    - `bounds_error`: False: compiled code cannot raise.
    - `fill_value`: the value outside of the grid, None to continue what is at its border.

    Calling it with an array whose last axis has the coordinates of a point (or with a tuple of coordinates, which are
    broadcast) gives the values there; it may be passed to transformed functions and returned from them.

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
                raise ValueError(f"RegularGridInterpolator got {np.size(p)} points for dimension {i}, of which values of shape "
                                 f"{np.shape(values)} has {np.shape(values)[i]}.")
        self.method, self.bounds_error, self.fill_value = method, bounds_error, fill_value
        self.grid = tuple(xnp.real(p) for p in map(xnp.asarray, grid))  # of complex values they are promoted too
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
            raise TypeError(f"cannot reshape points of shape {xi.shape}: a RegularGridInterpolator of {count} dimensions takes "
                            f"as many coordinates a point.")
        if xi.shape[-1] != count:
            if xi.ndim > 1:
                raise ValueError(f"points of shape {xi.shape} have {xi.shape[-1]} coordinates, where a RegularGridInterpolator "
                                 f"of {count} dimensions takes as many.")
            xi = xi.reshape(-1, count)
        return _between(self.grid, self.values, xi, self.fill_value, method)

    def tree_flatten(self):
        return (self.grid, self.values, self.fill_value), (self.method, self.bounds_error)

    @classmethod
    def tree_unflatten(cls, settings, children):
        made = object.__new__(cls)
        made.grid, made.values, made.fill_value = children
        made.method, made.bounds_error = settings
        return made


_INSIDE = "promise_in_bounds"


@library(static="method", name="interpolate")
def _between(grid, values, points, fill, method):
    shape, rest = points.shape[:-1], values.shape[len(grid):]
    points = points.reshape(-1, len(grid)).astype(xnp.promote_types(points.dtype, grid[0].dtype))
    lower, parts, outside, nowhere = [], [], False, False
    for i, line in enumerate(grid):
        x = points[:, i]
        # The last interval for what is beyond it: it is continued.
        low = xnp.clip(xnp.searchsorted(line, x) - 1, 0, max(line.size - 2, 0))
        left, right = (line.at[place].get(mode=_INSIDE) for place in (low, low + min(1, line.size - 1)))
        parts.append(xnp.where(right == left, 0, (x - left) / xnp.where(right == left, 1, right - left)))
        lower.append(low)
        outside = outside | (x < line[0]) | (x > line[-1])
        nowhere = nowhere | xnp.isnan(x)
    spread = lambda w: w.reshape(-1, *(1,) * len(rest))
    if method == "nearest":
        nearest = [low + (part > 0.5) if line.size > 1 else low for low, part, line in zip(lower, parts, grid)]
        result = values.at[tuple(nearest)].get(mode=_INSIDE)
    else:
        result = 0
        for corner in itertools.product((0, 1), repeat=len(grid)):
            weight = 1
            for side, part in zip(corner, parts):
                weight = weight * (part if side else 1 - part)
            place = tuple(low + min(side, line.size - 1) for low, side, line in zip(lower, corner, grid))
            result = result + values.at[place].get(mode=_INSIDE) * spread(weight)
    if fill is not None:
        result = xnp.where(spread(outside), fill.astype(result.dtype), result)
    nan = complex(np.nan, np.nan) if result.dtype.kind == "c" else np.nan
    return xnp.where(spread(nowhere), nan, result).reshape(*shape, *rest).astype(result.dtype)
