"""Functions of adjacent elements: differences, gradients, integrals, phase unwrapping and interpolation."""

from __future__ import annotations

import numpy as np

from xlafront.core import dtypes, tracing
from xlafront.core.basic_primitives import move_dim
from xlafront.core.typing import Array, ArrayLike, Axes
from xlafront.lax.elementwise import as_type
from xlafront.lax.shapes import canonical_axis, reshape_to
from xlafront.lax.slicing import slice_in_dim
from xlafront.numpy.creation import asarray
from xlafront.numpy.indexing import take_rows
from xlafront.numpy.manipulation import broadcast_to, concatenate, ravel, reshape
from xlafront.numpy.promotion import (
    broadcast_cases,
    check_arraylike,
    hashable_axis,
    promote_dtypes,
    promote_dtypes_inexact,
    unwrap as operand,
)
from xlafront.numpy.reductions import cumsum, static_axes, sum as total
from xlafront.numpy.searching import searchsorted, where
from xlafront.numpy.sorting import argsort
from xlafront.numpy.ufuncs import PUBLIC, clip
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import as_size, is_symbolic_dim, symbolic_slice


def _slice_axis(x, start, limit, axis):
    n = np.shape(x)[axis]
    if is_symbolic_dim(n):
        first, size, *_ = symbolic_slice(slice(start, limit), n)
        return slice_in_dim(x, first, first + size, axis=axis)
    first, last, _ = slice(start, limit).indices(n)
    return slice_in_dim(x, first, last, axis=axis)


def _steps(a, axis):
    """Return the differences of adjacent elements; for booleans, True where they differ."""
    name = "not_equal" if tracing.aval_of(a).dtype == dtypes.bool_ else "subtract"
    return PUBLIC[name](_slice_axis(a, 1, None, axis), _slice_axis(a, 0, -1, axis))


@library(static=("n", "axis"), name="diff")
def _diff(a, before, after, n, axis):
    arrays = [x for x in (before, a, after) if x is not None]
    a = concatenate(arrays, axis) if len(arrays) > 1 else operand(a)
    for _ in range(n):
        a = _steps(a, axis)
    return a


@library(static=("n", "axis"))
@accepts(objects=True)
def diff(a: ArrayLike, n: int = 1, axis: int = -1, prepend: ArrayLike | None = None,
         append: ArrayLike | None = None) -> Array:
    """Compute differences of adjacent elements along an axis.

    For booleans the result is True where they differ.

    Args:
        a: Array.
        n: Number of times to take differences. Each reduces the size of the axis by one.
        axis: Axis to take differences along.
        prepend, append: Arrays or scalars to join to `a` along the axis before the differences are taken.

    Returns:
        Array of the n-th differences.

    Example:
        >>> xnp.diff(xnp.array([1, 2, 4, 7]))
        Array([1, 2, 3], dtype=int32)
    """
    check_arraylike("diff", a, *[x for x in (prepend, append) if x is not None])
    n = as_size(n)
    if n == 0:
        return asarray(a)
    if n < 0:
        raise ValueError(f"numpy.diff needs a nonnegative order, got n={n}.")
    if not np.ndim(a):
        raise ValueError("numpy.diff needs an array of at least one dimension, got a scalar.")
    hashable_axis(axis, "diff")
    axis = canonical_axis(axis, np.ndim(a), "numpy.diff")
    shape = (*np.shape(a)[:axis], 1, *np.shape(a)[axis + 1:])
    ends = [x for x in (prepend, append) if x is not None]
    if ends:
        a, *ends = promote_dtypes(operand(a), *map(operand, ends))
    ends = [x if np.ndim(x) else broadcast_to(x, shape) for x in ends]
    return _diff(a, None if prepend is None else ends[0], None if append is None else ends[-1], n, axis)


@library(name="ediff1d")
def _ediff1d(ary, to_end, to_begin):
    ary = ravel(operand(ary))
    d = tracing.aval_of(ary).dtype
    middle = PUBLIC["subtract"](_slice_axis(ary, 1, None, 0), _slice_axis(ary, 0, -1, 0))
    ends = [x if x is None else ravel(as_type(operand(x), d, False)) for x in (to_begin, to_end)]
    arrays = [x for x in (ends[0], middle, ends[1]) if x is not None]
    return concatenate(arrays) if len(arrays) > 1 else middle


def ediff1d(ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None) -> Array:
    """Compute differences of adjacent elements of the flattened array.

    Args:
        ary: Array.
        to_end, to_begin: Values to append and prepend to the differences, converted to the dtype of `ary`.

    Returns:
        Vector of the differences.

    Example:
        >>> xnp.ediff1d(xnp.array([1, 2, 4, 7]), to_begin=0)
        Array([0, 1, 2, 3], dtype=int32)
    """
    check_arraylike("ediff1d", ary, *[x for x in (to_end, to_begin) if x is not None])
    return _ediff1d(ary, to_end, to_begin)


# Gradients and integrals


def _slope(a, h, axis):
    """Compute the gradient along an axis by central differences inside and one-sided differences at the ends.

    `h` is the distance of the samples, None for 1, or a vector of the distances between them.
    """
    first, last = (PUBLIC["subtract"](_slice_axis(a, i + 1, i + 2 or None, axis), _slice_axis(a, i, i + 1 or None, axis))
                   for i in (0, -2))
    if h is None or not np.ndim(h):
        inside = (_slice_axis(a, 2, None, axis) - _slice_axis(a, 0, -2, axis)) * 0.5
        slopes = concatenate([first, inside, last], axis)
        return slopes if h is None else slopes / h
    before, after = h[:-1], h[1:]
    shape = [1] * np.ndim(a)
    shape[axis] = -1
    weights = (-after / (before * (before + after)), (after - before) / (before * after), before / (after * (before + after)))
    low, middle, high = (reshape(w, shape) for w in weights)
    inside = low * _slice_axis(a, 0, -2, axis) + middle * _slice_axis(a, 1, -1, axis) + high * _slice_axis(a, 2, None, axis)
    return concatenate([first / h[0], inside, last / h[-1]], axis)


@library(static="axes", name="gradient")
def _gradient(f, spacings, axes):
    f, *spacings = promote_dtypes_inexact(operand(f), *map(operand, spacings))
    steps = [_steps(h, 0) if np.ndim(h) else h for h in spacings] or [None] * len(axes)
    return [_slope(f, h, axis) for h, axis in zip(steps, axes)]


@library(static=("axis", "edge_order"))
@accepts(objects=True)
def gradient(f: ArrayLike, *varargs: ArrayLike, axis: Axes = None, edge_order: int | None = None) -> Array | list[Array]:
    """Compute the gradient along axes, by central differences inside and one-sided differences at the ends.

    Args:
        f: Samples.
        varargs: Distances of the samples, one for all axes or one for each axis. A vector gives the positions of the samples.
        axis: Axis or axes to differentiate along. Default: all.
        edge_order: Must be None (for compatibility with NumPy).

    Returns:
        Array of the shape of `f`, or a list of such arrays for several axes.

    Example:
        >>> xnp.gradient(xnp.array([1.0, 4.0, 9.0, 16.0]))
        Array([3., 4., 6., 7.], dtype=float32)
    """
    check_arraylike("gradient", f, *varargs)
    if edge_order is not None:
        raise NotImplementedError("numpy.gradient uses first-order differences at the ends; the argument edge_order is not "
                                  "supported.")
    hashable_axis(axis, "gradient")
    axes = static_axes(axis, np.ndim(f), "gradient")
    if any(np.shape(f)[i] < 2 for i in axes):
        raise ValueError(f"numpy.gradient needs at least 2 samples along each axis: the shape {np.shape(f)} is too small.")
    spacings = varargs * len(axes) if len(varargs) == 1 else varargs
    if spacings and len(spacings) != len(axes):
        raise TypeError(
            f"numpy.gradient got {len(varargs)} distances for {len(axes)} axes: it takes none, one, or one for each.")
    for h, i in zip(spacings, axes):
        if np.ndim(h) > 1 or np.ndim(h) and np.shape(h)[0] != np.shape(f)[i]:
            raise ValueError(f"numpy.gradient takes as distances scalars or vectors of positions, {np.shape(f)[i]} along axis "
                             f"{i}; got shape {np.shape(h)}.")
    if not axes:
        return []
    result = _gradient(f, list(spacings), axes)
    return result[0] if len(axes) == 1 else result


@library(static=("axis", "x_axis"), name="trapezoid")
def _trapezoid(y, x, dx, axis, x_axis):
    last, error = np.ndim(y) - 1, TypeError
    if x is None:
        y, width = promote_dtypes_inexact(*promote_dtypes_inexact(operand(y)), operand(dx))
        y = move_dim(y, axis, last)
        if np.ndim(width) == 0:  # one sum, which is faster than the means of adjacent samples
            if np.shape(y)[-1] == 0:
                raise IndexError(f"numpy.trapezoid needs at least one sample along axis {axis}, got shape {np.shape(y)}.")
            ends = _slice_axis(y, 0, 1, last) + _slice_axis(y, -1, None, last)
            return width * (total(y, axis=-1) - 0.5 * total(ends, axis=-1))
        if np.ndim(width) <= last:  # broadcasts like y, before the axis is moved
            width = reshape_to(width, (*[1] * (last + 1 - np.ndim(width)), *np.shape(width)))
        width = move_dim(width, axis, last) if np.ndim(width) == np.ndim(y) else width
    else:
        y, x = promote_dtypes_inexact(operand(y), operand(x))
        y, x = move_dim(y, axis, last), x if np.ndim(x) == 1 else move_dim(x, x_axis, np.ndim(x) - 1)
        width = _steps(x, np.ndim(x) - 1)
        error = TypeError if np.ndim(width) == np.ndim(y) else ValueError
    sides = _slice_axis(y, 1, None, last) + _slice_axis(y, 0, -1, last)
    width, sides = broadcast_cases("trapezoid", [width, sides], error)
    return 0.5 * total(width * sides, axis=-1)


@library(static="axis")
@accepts(objects=True)
def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1) -> Array:
    """Integrate along an axis by the trapezoidal rule.

    Args:
        y: Samples.
        x: Positions of the samples, a vector or an array of the shape of `y`. Default: evenly spaced by `dx`.
        dx: Distance of the samples, or an array of distances that broadcasts like `y`.
        axis: Axis to integrate along.

    Returns:
        Array of the shape of `y` without the axis.

    Example:
        >>> xnp.trapezoid(xnp.array([0.0, 1.0, 4.0]), dx=0.5)
        Array(1.5, dtype=float32)
    """
    check_arraylike("trapezoid", y, *[v for v in (x,) if v is not None])
    hashable_axis(axis, "trapezoid")
    if isinstance(axis, tuple):
        if len(axis) != 1:
            raise ValueError(f"numpy.trapezoid needs one axis, got {len(axis)}: {axis}.")
        [axis] = axis
    if x is None:
        dx = asarray(dx)
    if x is not None and np.ndim(x) == 0:
        raise ValueError(
            "numpy.trapezoid takes positions x in a vector or an array like y, got a scalar. Give a distance as dx.")
    y_axis = canonical_axis(axis, np.ndim(y), "numpy.trapezoid")
    if x is None:
        return _trapezoid(y, None, dx, y_axis, None)
    x_axis = canonical_axis(axis, np.ndim(x), "numpy.trapezoid, in x,") if np.ndim(x) > 1 else None
    y, x = promote_dtypes_inexact(operand(y), operand(x))
    return _trapezoid(y, x, None, y_axis, x_axis)


# Phase unwrapping and interpolation


def _refuse_complex(name: str, x) -> None:
    if tracing.aval_of(operand(x)).dtype.kind == "c":
        raise ValueError(f"numpy.{name} does not support complex numbers, which have no order: pass x.real and x.imag.")


def _unwrap(p, discont, axis, period):
    d, weak = dtypes.lattice_result_type(p, period)
    wide = d  # for unsigned numbers a signed dtype, which holds negative differences
    if dtypes.is_unsigned(d):
        wide = dtypes.int32 if d.itemsize < 4 else dtypes.canonicalize_dtype(dtypes.int64)
    p, period = as_type(operand(p), wide, weak), as_type(operand(period), wide, weak)
    steps = _steps(p, axis)
    if dtypes.is_integer(d):
        half, remainder = PUBLIC["divmod"](period, 2)
        even = remainder == 0
    else:
        half, even = PUBLIC["true_divide"](period, 2), True
    discont = half if discont is None else discont
    near = PUBLIC["mod"](steps + half, period) - half
    at_edge = PUBLIC["logical_and"](near == -half, steps > 0)
    near = where(at_edge if even is True else PUBLIC["logical_and"](even, at_edge), half, near)
    correction = where(PUBLIC["less"](PUBLIC["abs"](steps), discont), 0, near - steps)
    first, rest = _slice_axis(p, 0, 1, axis), _slice_axis(p, 1, None, axis)
    return as_type(concatenate([first, rest + cumsum(correction, axis=axis)], axis), d, weak)


@library(static="axis")
@accepts(nodes=True)
def unwrap(p: ArrayLike, discont: ArrayLike | None = None, axis: int = -1, period: ArrayLike = 2 * np.pi) -> Array:
    """Unwrap angles: add multiples of the period so that adjacent ones differ by at most half a period.

    Args:
        p: Angles.
        discont: Minimum difference that counts as a jump. Default: half a period.
        axis: Axis to unwrap along.
        period: Period of the angles.

    Returns:
        Array of the shape of `p`.

    Example:
        >>> xnp.unwrap(xnp.array([0.0, 3.0, 6.0, 1.0]), period=6.0)
        Array([0., 3., 6., 7.], dtype=float32)
    """
    check_arraylike("unwrap", p, period, *[x for x in (discont,) if x is not None])
    _refuse_complex("unwrap", p)
    axis = canonical_axis(axis, np.ndim(p), "numpy.unwrap")
    if not np.shape(p)[axis]:
        return as_type(operand(p), *dtypes.lattice_result_type(p, period))
    return _unwrap(p, discont, axis, period)


@library(static="outside", name="interp")
def _interp(x, xp, fp, left, right, period, outside):
    x, xp = promote_dtypes_inexact(operand(x), operand(xp))
    [fp] = promote_dtypes_inexact(operand(fp))
    if period is not None:
        positions = tracing.aval_of(x)
        period = PUBLIC["abs"](as_type(operand(period), positions.dtype, positions.weak_type))
        x, xp = PUBLIC["mod"](x, period), PUBLIC["mod"](xp, period)
        order = argsort(xp)
        xp, fp = take_rows(xp, order), take_rows(fp, order)
        xp = concatenate([xp[-1:] - period, xp, xp[:1] + period])
        fp = concatenate([fp[-1:], fp, fp[:1]])
    n = np.shape(xp)[0]
    i = clip(searchsorted(xp, x, side="right"), 1, n - 1)
    low, high, start, end = take_rows(xp, i - 1), take_rows(xp, i), take_rows(fp, i - 1), take_rows(fp, i)
    width = high - low
    flat = PUBLIC["abs"](width) <= np.spacing(dtypes.finfo(width.dtype).eps).astype(width.dtype)
    result = where(flat, start, start + ((x - low) / where(flat, 1, width)) * (end - start))
    if period is None:
        for side, value, beyond, end in ((0, left, x < xp[0], fp[0]), (1, right, x > xp[-1], fp[-1])):
            if outside[side] != "extrapolate":
                result = where(beyond, end if value is None else value, result)
    return result


def interp(x: ArrayLike, xp: ArrayLike, fp: ArrayLike, left: ArrayLike | str | None = None,
           right: ArrayLike | str | None = None, period: ArrayLike | None = None) -> Array:
    """Interpolate linearly between samples.

    Args:
        x: Positions to evaluate at.
        xp: Positions of the samples, an increasing vector.
        fp: Values of the samples.
        left, right: Values to return before the first and after the last sample. Default: those of these samples.
            "extrapolate" continues the line.
        period: Period of the positions. With it `xp` may have any order, and `left` and `right` are not used.

    Returns:
        Array of the shape of `x`.

    Example:
        >>> xnp.interp(xnp.array([1.5, 9.0]), xnp.array([1.0, 2.0]), xnp.array([10.0, 20.0]))
        Array([15., 20.], dtype=float32)
    """
    check_arraylike("interp", x, xp, fp)
    _refuse_complex("interp", x)
    if np.shape(xp) != np.shape(fp) or np.ndim(xp) != 1:
        raise ValueError(f"numpy.interp needs vectors of samples: xp and fp must be one-dimensional arrays of equal size, got "
                         f"shapes {np.shape(xp)} and {np.shape(fp)}.")
    outside = tuple(v if isinstance(v, str) else None for v in (left, right))
    for name, v in zip(("left", "right"), outside):
        if v not in (None, "extrapolate"):
            raise ValueError(f"the only valid string for {name} of numpy.interp is 'extrapolate', got {v!r}.")
    left, right = (None if isinstance(v, str) else v for v in (left, right))
    check_arraylike("interp", *[v for v in (left, right, period) if v is not None])
    if period is not None and np.ndim(period):
        raise ValueError(f"the period of numpy.interp must be a scalar, got shape {np.shape(period)}.")
    return _interp(x, xp, fp, left, right, period, outside)
