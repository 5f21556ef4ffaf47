"""Reductions over axes (sums, means, extremes, truth values), cumulative sums and products, comparisons of whole arrays."""

from __future__ import annotations

import math

import numpy as np

from xlafront.core import dtypes, tracing
from xlafront.core.basic_primitives import broadcast_in_dim_p, convert_element_type_p
from xlafront.core.typing import Array, ArrayLike, Axes, DTypeLike
from xlafront.lax import elementwise
from xlafront.lax.cumulative import PRIMITIVES as CUMULATIVE
from xlafront.lax.elementwise import PRIMITIVES, as_type, conj_, div, gt, mul, real_, size_scalar, sqrt_, square_, sub
from xlafront.lax.reductions import argmax_p, argmin_p, highest, lowest, reduced
from xlafront.lax.shapes import canonical_axes, canonical_axis, reshape_to
from xlafront.lax.slicing import concatenate
from xlafront.numpy.creation import asarray
from xlafront.numpy.docstrings import MUST_BE_NONE, docstring
from xlafront.numpy.promotion import boolean_mask, check_arraylike, refuse_keys, unwrap
from xlafront.numpy.ufuncs import PUBLIC, to_bool
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import exact, library
from xlafront.symbolic.dimensions import common_shape, is_symbolic_dim


def refuse_out(name: str, out) -> None:
    if out is not None:
        raise NotImplementedError(f"numpy.{name} does not support `out`: arrays are immutable.")


def keep_dims(x, shape, axes):
    return reshape_to(x, tuple(1 if i in axes else n for i, n in enumerate(shape)))


def _broadcast(x, shape):
    return broadcast_in_dim_p.bind(x, shape=shape, broadcast_dimensions=tuple(range(len(shape) - np.ndim(x), len(shape))),
                                   sharding=None)


def _convert(x, dtype):
    aval = tracing.aval_of(x)
    return x if aval.dtype == dtype and not aval.weak_type else convert_element_type_p.bind(
        x, new_dtype=dtype, weak_type=False, sharding=None)


def _sum_dtype(d, promote_integers: bool):
    """Return the dtype of a sum: integers narrower than the default integer are promoted to it, as in NumPy."""
    if d == dtypes.bool_:
        return dtypes.default_dtype(int)
    if promote_integers and dtypes.is_integer(d):
        wide = dtypes.default_dtype(int)
        if d.itemsize < wide.itemsize:
            return np.dtype(f"uint{8 * wide.itemsize}") if dtypes.is_unsigned(d) else wide
    return d


_HALF = frozenset((dtypes.float16, dtypes.bfloat16, *dtypes.small_floats))

# name -> (primitive, identity for `where`, True to compute 16-bit floats in 32 bits, collective over named axes)
_SIMPLE = {
    "sum": ("reduce_sum", lambda d: 0, True, "psum"), "prod": ("reduce_prod", lambda d: 1, True, None),
    "max": ("reduce_max", lowest, False, "pmax"), "min": ("reduce_min", highest, False, "pmin"),
}


def _collectives():
    from xlafront.lax import collectives  # start-up: few programs reduce over named axes

    return collectives


def _reduce(name, a, axes, dtype, keepdims, initial, where, promote_integers=True, names=()):
    """Compute `sum`, `prod`, `max` or `min`; everything but the arrays is static."""
    primitive, identity, upcast, over_names = _SIMPLE[name]
    a = unwrap(a)
    refuse_keys(name, a)
    aval = tracing.aval_of(a)
    d = aval.dtype
    if d.itemsize > 4:
        d = dtypes.array_dtype(d)
    combine = {"sum": "add", "prod": "mul"}.get(name, name)
    result = d
    if upcast:
        dtypes.warn_of_discarded_imaginary(f"numpy.{name}", d, dtype)
        result = _sum_dtype(d, promote_integers) if dtype is None else dtype
        compute = dtypes.float32 if result in _HALF and dtype is None else result
        a = _convert(a, compute)
    else:
        a = _convert(a, d)
    if where is not None:
        mask = boolean_mask(f"numpy.{name}", where)
        if np.shape(mask) not in ((), aval.shape):
            shape = common_shape(np.shape(mask), aval.shape)
            mask, a = (x if np.shape(x) == shape else _broadcast(x, shape) for x in (mask, a))
        if name in ("max", "min") and initial is None:
            raise ValueError(f"numpy.{name} with `where` needs `initial`: `where` may select no element.")
        ad = tracing.aval_of(a).dtype
        filler = np.asarray(identity(ad)).astype(ad)[()]
        a = elementwise.where(mask, a, filler)
    shape = np.shape(a)
    if name in ("max", "min") and initial is None and 0 in [shape[i] for i in axes]:
        raise ValueError(f"numpy.{name} of an empty array (shape {shape}) needs `initial`.")
    total = reduced(primitive, a, axes) if axes else a
    if names:
        total = getattr(_collectives(), over_names)(total, names)
    if initial is not None:
        check_arraylike(name, initial)
        start = unwrap(initial)
        if np.ndim(start):
            raise ValueError(f"the `initial` of numpy.{name} must be a scalar, got an array of shape {np.shape(start)}.")
        dtypes.warn_of_discarded_imaginary(f"numpy.{name}", tracing.aval_of(start).dtype, tracing.aval_of(total).dtype)
        start = as_type(start, tracing.aval_of(total).dtype, False)
        total = PRIMITIVES[combine].bind(total, start)
    total = _convert(total, result)
    return keep_dims(total, shape, axes) if keepdims else total


def _names_among(axis) -> tuple[str, ...]:
    return tuple([a for a in (axis if type(axis) is tuple else (axis,)) if type(a) is str])


def static_axes(axis, rank: int, name: str):
    """Return `axis`, an int or a sequence of ints, as nonnegative positions. None means all axes."""
    if _names_among(axis):
        raise NameError(f"numpy.{name} got the axis {axis!r}, an unbound axis name: it takes positions only. Reduce over named "
                        f"axes with lax.psum, lax.pmax or lax.pmin.")
    return canonical_axes(axis, rank, f"numpy.{name}")


def positions_and_names(axis, rank: int, name: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Split `axis` into nonnegative positions and names given by `vmap` or `shard_map`. None means all positions."""
    names = _names_among(axis)
    if names:
        axis = () if type(axis) is str else tuple([a for a in axis if type(a) is not str])
    return canonical_axes(axis, rank, name), names


def _checked_dtype(dtype, name):
    return None if dtype is None else dtypes.check_user_dtype(dtype, f"numpy.{name}")


# Descriptions of parameters and results, for the docstrings of the functions that are made below.
_PARAMETERS = {
    "a": "Array.",
    "axis": "Axis or axes to reduce over. Default: all.",
    "dtype": "dtype of the computation and of the result.",
    "out": MUST_BE_NONE,
    "keepdims": "If True, keep reduced axes with size 1.",
    "initial": "Start value of the reduction, a scalar.",
    "where": "Boolean array, broadcast with `a`, that selects the elements to include.",
    "promote_integers": "If True, promote integers narrower than the default integer to it.",
}
_EXTREME_PARAMETERS = _PARAMETERS | {
    "where": "Boolean array, broadcast with `a`, that selects the elements to include. Requires `initial`."}
_NAMED_AXES = {
    "axis": "Axis or axes to reduce over: positions, or names given by `vmap` or `shard_map`. Default: all positions."}
_SINGLE_AXIS = _PARAMETERS | {"axis": "Axis to work along. Default: the flattened array."}
_REDUCED = "Array of the shape of `a` without the reduced axes."


def _finish(kernel, name: str, static: tuple[str, ...], summary: str, example: str, parameters: dict[str, str] = _PARAMETERS,
            returns: str = _REDUCED, details: str = "", objects: bool = False, lists: bool = True):
    kernel.__name__ = kernel.__qualname__ = name
    kernel.__doc__ = docstring(kernel, summary, example, parameters, returns, details)
    convert = accepts(nodes=True, objects=objects, lists=[n for n in static if n in ("axis", "out")] if lists else ())
    return library(convert(kernel), static=static)


def _make_summing(name, summary, details, example):
    def kernel(a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False,
               initial: ArrayLike | None = None, where: ArrayLike | None = None, promote_integers: bool = True) -> Array:
        refuse_out(name, out)
        check_arraylike(name, a)
        axes, names = (static_axes(axis, np.ndim(a), name), ()) if name == "prod" else positions_and_names(
            axis, np.ndim(a), f"numpy.{name}")
        return _reduce(name, a, axes, _checked_dtype(dtype, name), keepdims, initial, where, promote_integers, names)

    return _finish(kernel, name, ("axis", "dtype", "keepdims", "out", "promote_integers"), summary, example,
                   _PARAMETERS | ({} if name == "prod" else _NAMED_AXES), details=details)


sum = _make_summing("sum", "Sum elements over axes.", "16-bit floats are summed in 32 bits.", """\
>>> xnp.sum(xnp.array([[1, 2], [3, 4]]), axis=0)
Array([4, 6], dtype=int32)""")
prod = _make_summing("prod", "Multiply elements over axes.", "16-bit floats are multiplied in 32 bits.", """\
>>> xnp.prod(xnp.array([[1, 2], [3, 4]]), axis=0)
Array([3, 8], dtype=int32)""")


def _make_extreme(name, alias, summary, example):
    def kernel(a: ArrayLike, axis: Axes = None, out: None = None, keepdims: bool = False, initial: ArrayLike | None = None,
               where: ArrayLike | None = None) -> Array:
        refuse_out(name, out)
        check_arraylike(name, a)
        axes, names = positions_and_names(axis, np.ndim(a), f"numpy.{name}")
        return _reduce(name, a, axes, None, keepdims, initial, where, names=names)

    return _finish(kernel, name, ("axis", "keepdims", "out"), summary, example, _EXTREME_PARAMETERS | _NAMED_AXES,
                   details=f"The result is NaN if an element is NaN. `numpy.{alias}` is an alias.")


max = amax = _make_extreme("max", "amax", "Compute the maximum over axes.", """\
>>> xnp.max(xnp.array([[1, 4], [3, 2]]), axis=1)
Array([4, 3], dtype=int32)""")
min = amin = _make_extreme("min", "amin", "Compute the minimum over axes.", """\
>>> xnp.min(xnp.array([[1, 4], [3, 2]]), axis=1)
Array([1, 2], dtype=int32)""")


def _make_truth(name, primitive, identity, summary, example):
    def kernel(a: ArrayLike, axis: Axes = None, out: None = None, keepdims: bool = False, *,
               where: ArrayLike | None = None) -> Array:
        refuse_out(name, out)
        check_arraylike(name, a)
        x = _convert(to_bool(unwrap(a)), dtypes.bool_)
        axes = static_axes(axis, np.ndim(x), name)
        if where is not None:
            mask = boolean_mask(f"numpy.{name}", where)
            full = common_shape(np.shape(mask), np.shape(x))
            mask, x = (v if np.shape(v) == full else _broadcast(v, full) for v in (mask, x))
            x = elementwise.where(mask, x, np.bool_(identity))
        result = reduced(primitive, x, axes)
        return keep_dims(result, np.shape(x), axes) if keepdims else result

    return _finish(kernel, name, ("axis", "keepdims", "out"), summary, example,
                   returns="Boolean array of the shape of `a` without the reduced axes.",
                   details=f"Numbers other than 0 count as True. Over no elements the result is {identity}.")


all = _make_truth("all", "reduce_and", True, "Test if all elements over axes are true.", """\
>>> xnp.all(xnp.array([[True, False], [True, True]]), axis=1)
Array([False,  True], dtype=bool)""")
any = _make_truth("any", "reduce_or", False, "Test if any element over axes is true.", """\
>>> xnp.any(xnp.array([[True, False], [False, False]]), axis=1)
Array([ True, False], dtype=bool)""")


@library(static=("axis", "keepdims"))
@accepts(nodes=True)
def count_nonzero(a: ArrayLike, axis: Axes = None, keepdims: bool = False) -> Array:
    """Count the elements that are not zero over axes.

    Args:
        a: Array.
        axis: Axis or axes to count over. Default: all.
        keepdims: If True, keep reduced axes with size 1.

    Returns:
        Array of integers of the shape of `a` without the reduced axes.

    Example:
        >>> xnp.count_nonzero(xnp.array([[1, 0], [2, 3]]), axis=1)
        Array([1, 2], dtype=int32)
    """
    check_arraylike("count_nonzero", a)
    return sum.__wrapped__(to_bool(unwrap(a)), axis, None, None, keepdims)


def _number(n, dtype):
    return size_scalar(n, dtype) if is_symbolic_dim(n) else np.asarray(n).astype(dtype)[()]


def _count(shape, axes, names=()):
    return math.prod(shape[i] for i in axes) * (math.prod(map(_collectives().axis_size, names)) if names else 1)


@library(static=("axis", "dtype", "out", "keepdims"))
@accepts(nodes=True, lists=("axis", "out"))
def mean(a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False, *,
         where: ArrayLike | None = None) -> Array:
    """Compute the arithmetic mean over axes.

    16-bit floats are summed in 32 bits. The mean of no elements is NaN.

    Args:
        a: Array.
        axis: Axis or axes to reduce over: positions, or names given by `vmap` or `shard_map`. Default: all positions.
        dtype: dtype of the sum and of the result. Default: that of `a`, or the default float for integers and booleans.
        out: Must be None (for compatibility with NumPy): arrays are immutable.
        keepdims: If True, keep reduced axes with size 1.
        where: Boolean array, broadcast to the shape of `a`, that selects the elements to include.

    Returns:
        Array of the shape of `a` without the reduced axes.

    Example:
        >>> xnp.mean(xnp.array([[1, 2], [3, 5]]), axis=0)
        Array([2. , 3.5], dtype=float32)
    """
    refuse_out("mean", out)
    check_arraylike("mean", a)
    axes, names = positions_and_names(axis, np.ndim(a), "numpy.mean")
    _check_mask("mean", where, np.shape(a))
    own = dtypes.array_dtype(tracing.aval_of(unwrap(a)).dtype)
    d = dtypes.to_inexact(own) if dtype is None else _checked_dtype(dtype, "mean")
    compute = dtypes.float32 if d in _HALF and dtype is None else d
    total = _reduce("sum", a, axes, compute, keepdims, None, where, names=names)
    if where is None:
        count = _number(_count(np.shape(a), axes, names), compute)
    else:
        count = _count_where(where, np.shape(a), axes, keepdims, compute, names)
    return _as_strong(div(total, count), d)


def _as_strong(x, d):
    return x if tracing.aval_of(x).dtype == d else _convert(x, d)


def _check_mask(name: str, where, shape: tuple) -> None:
    """Raise if `where` does not broadcast to the shape of the array: the elements it selects are counted in that shape."""
    if where is None:
        return
    given = np.shape(boolean_mask(f"numpy.{name}", where))
    if common_shape(given, shape) != shape:
        raise ValueError(f"the `where` of numpy.{name} must broadcast to the shape of the array, {shape}; it has shape "
                         f"{given}. Broadcast the array with numpy.broadcast_to.")


def _count_where(where, shape, axes, keepdims, dtype, names=()):
    mask = boolean_mask("numpy.mean", where)
    selected = mask if np.shape(mask) == shape else _broadcast(mask, shape)
    return _reduce("sum", selected, axes, dtype, keepdims, None, None, names=names)


@library(static=("axis", "dtype", "out", "ddof", "keepdims", "correction"))
@accepts(objects=True, lists=("axis", "out", "ddof", "correction"))
def var(a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: None = None, ddof: float = 0,
        keepdims: bool = False, *, where: ArrayLike | None = None, mean: ArrayLike | None = None,
        correction: float | None = None) -> Array:
    """Compute the variance over axes.

    It is the sum of squared distances from the mean, divided by the number of elements less `ddof`. It is real for complex
    numbers too.

    Args:
        a: Array.
        axis: Axis or axes to reduce over: positions, or names given by `vmap` or `shard_map`. Default: all positions.
        dtype: dtype of the result. With an integer dtype each step is computed in integers, so quotients are truncated.
        out: Must be None (for compatibility with NumPy): arrays are immutable.
        ddof: Number subtracted from the number of elements, a scalar or an array that broadcasts with the result. The result is
            NaN where the difference is not positive.
        keepdims: If True, keep reduced axes with size 1.
        where: Boolean array, broadcast to the shape of `a`, that selects the elements to include.
        mean: Mean to use, a scalar or an array with reduced axes of size 1. Default: it is computed.
        correction: Alias of `ddof`.

    Returns:
        Array of the shape of `a` without the reduced axes.

    Example:
        >>> xnp.var(xnp.array([1.0, 2.0, 3.0]), ddof=1)
        Array(1., dtype=float32)
    """
    refuse_out("var", out)
    check_arraylike("var", a)
    if correction is not None:
        if ddof != 0:
            raise ValueError("numpy.var takes ddof or correction, not both.")
        ddof = correction
    ddof = np.asarray(ddof) if isinstance(ddof, tuple) else ddof  # an array was converted to a tuple to be hashable
    a = unwrap(a)
    _check_mask("var", where, np.shape(a))
    if np.ndim(mean) not in (0, np.ndim(a)):
        raise TypeError(f"numpy.var needs a mean with the axes of the array, of shape {np.shape(a)}, and got one of shape "
                        f"{np.shape(mean)}. Compute the mean with keepdims=True.")
    own = dtypes.array_dtype(tracing.aval_of(a).dtype)
    d = dtypes.to_real(dtypes.to_inexact(own)) if dtype is None else _checked_dtype(dtype, "var")
    if own.kind == "c" and d.kind != "c" and dtype is not None:
        raise ValueError(f"numpy.var of complex numbers takes no real dtype, got {d}: omit dtype, or apply it to x.real and "
                         f"x.imag.")
    if not dtypes.is_inexact(d):
        return _variance_of_integers(a, static_axes(axis, np.ndim(a), "var"), d, ddof, keepdims, where, mean)
    compute = dtypes.float32 if d in _HALF else dtypes.to_complex(d) if own.kind == "c" else dtypes.to_real(d)
    axes, names = positions_and_names(axis, np.ndim(a), "numpy.var")
    a = as_type(a, compute, False)
    center = globals()["mean"].__wrapped__(a, axes + names, compute, keepdims=True, where=where) if mean is None else (
        as_type(unwrap(mean), compute, False))
    shape = common_shape(np.shape(center), np.shape(a))
    deviation = sub(a, _broadcast(center, shape))
    squared = real_(mul(deviation, conj_(deviation, input_dtype=compute))) if compute.kind == "c" else (
        square_(deviation))
    real = dtypes.to_real(compute)
    total = _reduce("sum", squared, axes, real, keepdims, None, where, names=names)
    # NaN if there are not more elements than `ddof`.
    count = (_count(np.shape(a), axes, names) if where is None else
             _count_where(where, np.shape(a), axes, keepdims, real, names))
    if isinstance(count, int) and isinstance(ddof, _NUMBERS):
        divisor, is_positive = exact(real.type(count - ddof)), None if count > ddof else np.False_
    else:
        divisor = _subtract_ddof(size_scalar(count, real) if where is None else count, ddof, real)
        is_positive = gt(divisor, real.type(0))
        divisor = elementwise.where(is_positive, divisor, real.type(1))  # keeps infinities out of derivatives
    variance = div(total, divisor) if isinstance(ddof, _NUMBERS) else PUBLIC["divide"](total, divisor)
    if is_positive is not None:
        variance = elementwise.where(is_positive, variance, real.type(np.nan))
    return _as_strong(variance, d)


_NUMBERS = (int, float, np.generic)


def _subtract_ddof(count, ddof, d):
    """Return `count - ddof`, where `ddof` is a scalar or an array that broadcasts with the result of `var`."""
    if isinstance(ddof, _NUMBERS):
        return sub(count, np.asarray(ddof).astype(d)[()])
    return PUBLIC["subtract"](count, as_type(ddof, d, False))


def _variance_of_integers(a, axes, d, ddof, keepdims, where, mean):
    """Compute the variance in integer arithmetic; the result is a float, NaN where the divisor is not positive."""
    if d == dtypes.bool_:
        raise TypeError("numpy.var cannot divide in dtype bool: its dtype argument must be a floating-point or integer dtype.")
    a = as_type(a, d, False)
    count = np.asarray(_count(np.shape(a), axes)).astype(d)[()] if where is None else _count_where(
        where, np.shape(a), axes, True, d)
    center = div(_reduce("sum", a, axes, d, True, None, where), count) if mean is None else as_type(unwrap(mean), d, False)
    shape = common_shape(np.shape(center), np.shape(a))
    total = _reduce("sum", square_(sub(a, _broadcast(center, shape))), axes, d, keepdims, None, where)
    if where is not None:
        count = count if keepdims else _count_where(where, np.shape(a), axes, False, d)
    divisor = _subtract_ddof(count, ddof, d)
    quotient = div(total, divisor) if isinstance(ddof, _NUMBERS) else PUBLIC["floor_divide"](total, divisor)
    variance = as_type(quotient, dtypes.default_dtype(float), True)
    return elementwise.where(gt(divisor, d.type(0)), variance, float("nan"))


@library(static=("axis", "dtype", "out", "ddof", "keepdims", "correction"))
@accepts(objects=True, lists=("axis", "out", "ddof", "correction"))
def std(a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: None = None, ddof: float = 0,
        keepdims: bool = False, *, where: ArrayLike | None = None, mean: ArrayLike | None = None,
        correction: float | None = None) -> Array:
    """Compute the standard deviation over axes, the square root of `var`.

    Args:
        a: Array.
        axis: Axis or axes to reduce over: positions, or names given by `vmap` or `shard_map`. Default: all positions.
        dtype: dtype of the result, a floating-point or complex one.
        out: Must be None (for compatibility with NumPy): arrays are immutable.
        ddof: Number subtracted from the number of elements in the divisor.
        keepdims: If True, keep reduced axes with size 1.
        where: Boolean array, broadcast to the shape of `a`, that selects the elements to include.
        mean: Mean to use, a scalar or an array with reduced axes of size 1. Default: it is computed.
        correction: Alias of `ddof`.

    Returns:
        Array of the shape of `a` without the reduced axes.

    Example:
        >>> xnp.std(xnp.array([1.0, 2.0, 3.0]), ddof=1)
        Array(1., dtype=float32)
    """
    if dtype is not None and not dtypes.is_inexact(_checked_dtype(dtype, "std")):
        raise ValueError(f"the dtype argument of numpy.std must be inexact, got {dtype}.")
    return sqrt_(var.__wrapped__(a, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction))


@library(static=("axis", "out", "keepdims"))
@accepts(objects=True, lists=("axis", "out"))
def ptp(a: ArrayLike, axis: Axes = None, out: None = None, keepdims: bool = False) -> Array:
    """Compute the range of values over axes: the maximum less the minimum.

    Args:
        a: Array.
        axis: Axis or axes to reduce over: positions, or names given by `vmap` or `shard_map`. Default: all positions.
        out: Must be None (for compatibility with NumPy): arrays are immutable.
        keepdims: If True, keep reduced axes with size 1.

    Returns:
        Array of the shape of `a` without the reduced axes.

    Example:
        >>> xnp.ptp(xnp.array([[4, 9], [2, 10]]), axis=1)
        Array([5, 8], dtype=int32)
    """
    check_arraylike("ptp", a)
    return sub(max.__wrapped__(a, axis, out, keepdims), min.__wrapped__(a, axis, out, keepdims))


@library(static=("axis", "out", "keepdims"))
@accepts(objects=True, lists=("axis", "out"))
def minmax(a: ArrayLike, axis: Axes = None, out: None = None, keepdims: bool = False,
           initial: ArrayLike | tuple[ArrayLike, ArrayLike] | None = None, where: ArrayLike | None = None
           ) -> tuple[Array, Array]:
    """Compute the minimum and the maximum over axes.

    Args:
        a: Array.
        axis: Axis or axes to reduce over: positions, or names given by `vmap` or `shard_map`. Default: all positions.
        out: Must be None (for compatibility with NumPy): arrays are immutable.
        keepdims: If True, keep reduced axes with size 1.
        initial: Value to start both reductions with, or a tuple of one for the minimum and one for the maximum. Required for
            empty arrays and with `where`.
        where: Boolean array, broadcast to the shape of `a`, that selects the elements to include.

    Returns:
        A tuple of the minimum and the maximum, arrays of the shape of `a` without the reduced axes.

    Example:
        >>> xnp.minmax(xnp.array([[4, 9], [2, 10]]), axis=1)
        (Array([4, 2], dtype=int32), Array([ 9, 10], dtype=int32))
    """
    refuse_out("minmax", out)
    check_arraylike("minmax", a)
    lower, upper = initial if isinstance(initial, tuple) else (initial, initial)
    return (min.__wrapped__(a, axis, None, keepdims, initial=lower, where=where),
            max.__wrapped__(a, axis, None, keepdims, initial=upper, where=where))


def _make_arg(name, primitive, summary, details, example):
    def kernel(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
        refuse_out(name, out)
        check_arraylike(name, a)
        a = unwrap(a)
        shape = np.shape(a)
        if axis is None:
            flat = reshape_to(a, (math.prod(shape),))
            axes, position = tuple(range(len(shape))), 0
        else:
            flat, position = a, canonical_axis(axis, len(shape), f"numpy.{name}")
            axes = (position,)
        if np.shape(flat)[position] == 0:
            raise ValueError(f"numpy.{name} of an empty sequence: axis {axis} of shape {shape}.")
        if tracing.aval_of(flat).dtype.kind == "c":
            raise TypeError(f"numpy.{name} does not support complex numbers: apply it to x.real or abs(x).")
        result = primitive.bind(flat, axes=(position,), index_dtype=dtypes.default_dtype(int))
        return keep_dims(result, shape, axes) if keepdims else result

    return _finish(kernel, name, ("axis", "out", "keepdims"), summary, example, _SINGLE_AXIS,
                   "Array of integers of the shape of `a` without the axis.", details, objects=True)


argmax = _make_arg("argmax", argmax_p, "Return the index of the maximum along an axis.",
                   "It is the first index if there are several. NaN counts as the maximum.", """\
>>> xnp.argmax(xnp.array([[1, 4], [3, 2]]), axis=1)
Array([1, 0], dtype=int32)""")
argmin = _make_arg("argmin", argmin_p, "Return the index of the minimum along an axis.",
                   "It is the first index if there are several. NaN counts as the minimum.", """\
>>> xnp.argmin(xnp.array([[1, 4], [3, 2]]), axis=1)
Array([0, 1], dtype=int32)""")


def _make_cumulative(name, primitive, summary, example):
    def kernel(a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
        refuse_out(name, out)
        check_arraylike(name, a)
        a = unwrap(a)
        if axis is None or not np.ndim(a) and tracing.aval_of(a).weak_type:  # a Python scalar is a vector here
            a, axis = reshape_to(a, (math.prod(np.shape(a)),)), axis or 0
        d = dtypes.array_dtype(tracing.aval_of(a).dtype)
        result_dtype = (_sum_dtype(d, True) if d == dtypes.bool_ else d) if dtype is None else _checked_dtype(dtype, name)
        dtypes.warn_of_discarded_imaginary(f"numpy.{name}", d, result_dtype)
        axis = canonical_axis(axis, np.ndim(a), f"numpy.{name}")
        if result_dtype == dtypes.bool_:
            return to_bool(primitive.bind(as_type(to_bool(a), dtypes.int32, False), axis=axis, reverse=False))
        return primitive.bind(_convert(a, result_dtype), axis=axis, reverse=False)

    return _finish(kernel, name, ("axis", "dtype"), summary, example, _SINGLE_AXIS,
                   "Array of the shape of `a`, a vector without `axis`.", lists=False)


cumsum = _make_cumulative("cumsum", CUMULATIVE["cumsum"], "Compute the cumulative sum along an axis.", """\
>>> xnp.cumsum(xnp.array([[1, 2], [3, 4]]), axis=0)
Array([[1, 2],
       [4, 6]], dtype=int32)""")
cumprod = _make_cumulative("cumprod", CUMULATIVE["cumprod"], "Compute the cumulative product along an axis.", """\
>>> xnp.cumprod(xnp.array([[1, 2], [3, 4]]), axis=0)
Array([[1, 2],
       [3, 8]], dtype=int32)""")


def _cumulative_from(name, function, start, x, axis, dtype, include_initial):
    check_arraylike(name, x)
    x = unwrap(x)
    rank = np.ndim(x)
    if not rank:
        raise ValueError(f"numpy.{name} needs an array of at least one dimension: the input must be non-scalar.")
    if axis is None and rank > 1:
        raise ValueError(f"numpy.{name} needs an axis for an array of shape {np.shape(x)}: its argument is only optional for "
                         f"one-dimensional arrays.")
    axis = canonical_axis(0 if axis is None else axis, rank, f"numpy.{name}")
    result = function(x, axis=axis, dtype=dtype)
    if not include_initial:
        return result
    first = _broadcast(result.dtype.type(start), tuple(1 if i == axis else n for i, n in enumerate(np.shape(x))))
    return concatenate([first, result], axis)


def cumulative_sum(x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike | None = None,
                   include_initial: bool = False) -> Array:
    """Compute the cumulative sum along an axis.

    Args:
        x: Array of at least one dimension.
        axis: Axis to sum along. May be omitted for vectors.
        dtype: dtype of the result. By default integers narrower than the default integer are promoted to it, as in `sum` (but
            not in `cumsum`).
        include_initial: If True, prepend the sum of no elements, 0.

    Returns:
        Array of the shape of `x`, longer by one along the axis if `include_initial` is set.

    Example:
        >>> xnp.cumulative_sum(xnp.array([1, 2, 3]), include_initial=True)
        Array([0, 1, 3, 6], dtype=int32)
    """
    check_arraylike("cumulative_sum", x)
    return _cumulative_from("cumulative_sum", cumsum, 0, x, axis,
                            _sum_dtype(tracing.aval_of(unwrap(x)).dtype, True) if dtype is None else dtype, include_initial)


def cumulative_prod(x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike | None = None,
                    include_initial: bool = False) -> Array:
    """Compute the cumulative product along an axis.

    Args:
        x: Array of at least one dimension.
        axis: Axis to multiply along. May be omitted for vectors.
        dtype: dtype of the result.
        include_initial: If True, prepend the product of no elements, 1.

    Returns:
        Array of the shape of `x`, longer by one along the axis if `include_initial` is set.

    Example:
        >>> xnp.cumulative_prod(xnp.array([1, 2, 3]), include_initial=True)
        Array([1, 1, 2, 6], dtype=int32)
    """
    return _cumulative_from("cumulative_prod", cumprod, 1, x, axis, dtype, include_initial)


def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Test if all elements of two arrays are equal after broadcasting.

    Args:
        a1, a2: Arrays.

    Returns:
        Boolean scalar; False if the shapes do not broadcast.

    Example:
        >>> xnp.array_equiv(xnp.array([1, 1]), xnp.array([[1], [1]]))
        Array(True, dtype=bool)
    """
    a1, a2 = asarray(a1), asarray(a2)
    try:
        common_shape(a1.shape, a2.shape)
    except ValueError:
        return asarray(False)
    return all(PUBLIC["equal"](a1, a2))


def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Array:
    """Test if two arrays have the same shape and equal elements.

    Args:
        a1, a2: Arrays.
        equal_nan: If True, NaN is equal to NaN.

    Returns:
        Boolean scalar.

    Example:
        >>> xnp.array_equal(xnp.array([1, 2]), xnp.array([1, 2, 3]))
        Array(False, dtype=bool)
    """
    a1, a2 = asarray(a1), asarray(a2)
    if a1.shape != a2.shape:
        return asarray(False)
    same = PUBLIC["equal"](a1, a2)
    if equal_nan:
        same = PUBLIC["logical_or"](same, PUBLIC["logical_and"](PUBLIC["isnan"](a1), PUBLIC["isnan"](a2)))
    return all(same)


@library(static="equal_nan")
@accepts(objects=True, lists="equal_nan")
def allclose(a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08, equal_nan: bool = False) -> Array:
    """Test if all elements are equal within the tolerance `atol + rtol * abs(b)`.

    Args:
        a, b: Arrays, broadcast to a common shape. `b` is the reference value.
        rtol: Relative tolerance.
        atol: Absolute tolerance.
        equal_nan: If True, NaN is close to NaN.

    Returns:
        Boolean scalar.

    Example:
        >>> xnp.allclose(xnp.array([1.0, 2.0]), xnp.array([1.0, 2.000001]))
        Array(True, dtype=bool)
    """
    return all(PUBLIC["isclose"](a, b, rtol, atol, equal_nan))
