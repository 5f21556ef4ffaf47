"""Evenly spaced numbers: `linspace`, `geomspace`, `logspace`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from xlafront.core import dtypes, errors, tracing
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.lax import shapes, slicing
from xlafront.lax.device_put import put_leaf
from xlafront.lax.elementwise import (
    add,
    as_type,
    div,
    floor_,
    mul,
    real_,
    sign_,
    size_scalar,
    sub,
)
from xlafront.numpy.creation import _astype, array, asarray
from xlafront.numpy.promotion import (
    broadcast_to_common,
    check_arraylike,
    promote_args_inexact,
    unwrap,
)
from xlafront.numpy.ufuncs import INLINE, PUBLIC
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import (
    as_size,
    common_shape,
    known,
    max_dim,
)


def _computed_in(dtype: np.dtype) -> np.dtype:
    """Return the dtype in which evenly spaced numbers of a dtype are computed: rounded once, at the end."""
    return np.dtype(np.float32) if dtypes.is_inexact(dtype) and dtype.itemsize < 4 else dtype


def _evenly_spaced(start, stop, num, endpoint, axis, dtype):
    start, stop = promote_args_inexact("linspace", start, stop)
    d = _computed_in(tracing.aval_of(start).dtype)
    start, stop = as_type(start, d, False), as_type(stop, d, False)
    shape = common_shape(np.shape(start), np.shape(stop))
    start, stop = (x if np.shape(x) == shape else shapes.broadcast_in_dim(x, shape, ()) for x in (start, stop))
    steps = max_dim(num - 1 if endpoint else num, 1)
    ends = endpoint and known(num, 0) > 1  # the last element is `stop` exactly, without rounding
    between = num - 1 if ends else num
    counts = shapes.counting(dtypes.to_real(d), (between, *shape), 0)
    counts = as_type(div(counts, size_scalar(steps, dtypes.to_real(d))), d, False)

    def rows(x, count):
        return shapes.broadcast_in_dim(x, (count, *shape), range(1, len(shape) + 1))

    one = d.type(1)
    first, last = (rows(x, between) if shape else x for x in (start, stop))
    result = add(mul(first, sub(one, counts)), mul(last, counts))
    if ends:
        result = slicing.concatenate([result, rows(stop, 1)], 0)
    if dtypes.is_integer(dtype):
        result = floor_(real_(result) if d.kind == "c" else result)
    result = as_type(result, dtype, False)
    return shapes.move_dim(result, 0, axis)


if TYPE_CHECKING:
    @overload
    def linspace(start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, retstep: Literal[False] = False,
                 dtype: DTypeLike | None = None, axis: int = 0, *, device: Any = None) -> Array: ...
    @overload
    def linspace(start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, *, retstep: Literal[True],
                 dtype: DTypeLike | None = None, axis: int = 0, device: Any = None) -> tuple[Array, Array]: ...


def linspace(start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, retstep: bool = False,
             dtype: DTypeLike | None = None, axis: int = 0, *, device: Any = None) -> Array | tuple[Array, Array]:
    """Return evenly spaced numbers from `start` to `stop`.

    Args:
        start, stop: First and last number, scalars or arrays that broadcast.
        num: Number of samples.
        endpoint: If True, `stop` is the last sample, otherwise it is excluded.
        retstep: If True, also return the distance of the samples.
        dtype: dtype of the result. Default: the promoted floating-point dtype of `start` and `stop`. Integers are rounded down.
        axis: Axis of the result along which the samples vary, if `start` or `stop` is an array.
        device: Device or sharding of the result.

    Returns:
        Array of the samples; with `retstep` a tuple of it and the distance of the samples.

    Example:
        >>> xnp.linspace(0.0, 1.0, 5)
        Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    result = _linspace(start, stop, num, endpoint, retstep, dtype, axis)
    if device is None:
        return result
    return (put_leaf(result[0], device), result[1]) if retstep else put_leaf(result, device)


@library(static=("num", "endpoint", "retstep", "dtype", "axis"))
@accepts(nodes=True, lists=("num", "axis"))
def _linspace(start, stop, num, endpoint, retstep, dtype, axis):
    if isinstance(num, tracing.Tracer):
        raise errors.decides_shape("numpy.linspace", "num", num)
    num = shapes.static_shape("linspace", num)[0]
    if num < 0:
        raise ValueError(f"numpy.linspace needs a number of samples of at least 0, got {num}.")
    check_arraylike("linspace", start, stop)
    d = dtypes.to_inexact(dtypes.result_type(start, stop)) if dtype is None else dtypes.check_user_dtype(
        dtype, "numpy.linspace")
    rank = max(np.ndim(start), np.ndim(stop)) + 1
    result = _evenly_spaced(start, stop, num, bool(endpoint), shapes.canonical_axis(axis, rank, "linspace"), d)
    if not retstep:
        return result
    divisions = num - 1 if endpoint else num
    step = (asarray(stop) - start) / divisions if divisions > 0 else array(np.nan, d)
    return result, asarray(step, dtype=d)


def _geomspaced(start, stop, num, endpoint, axis, dtype):
    d = _computed_in(dtypes.to_inexact(dtype))
    start, stop = (as_type(x, d, False) for x in broadcast_to_common("geomspace", [unwrap(start), unwrap(stop)]))
    sign = sign_(start)
    logs = [INLINE["log10"](div(x, sign)) for x in (start, stop)]
    result = INLINE["power"](d.type(10), _evenly_spaced(*logs, num, endpoint, 0, d))
    shape = np.shape(result)
    result = mul(result, shapes.broadcast_in_dim(sign, shape, range(len(shape) - np.ndim(sign), len(shape))))
    return shapes.move_dim(as_type(result, dtype, False), 0, axis)


@library(static=("num", "endpoint", "dtype", "axis"))
@accepts(nodes=True, lists=("num", "axis"))
def geomspace(start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, dtype: DTypeLike | None = None,
              axis: int = 0) -> Array:
    """Return numbers from `start` to `stop` in geometric progression.

    Args:
        start, stop: First and last number, scalars or arrays that broadcast.
        num: Number of samples.
        endpoint: If True, `stop` is the last sample, otherwise it is excluded.
        dtype: dtype of the result. Default: the promoted floating-point dtype of `start` and `stop`.
        axis: Axis of the result along which the samples vary, if `start` or `stop` is an array.

    Returns:
        Array of the samples.

    Example:
        >>> xnp.geomspace(1, 1000, 4).round(2)
        Array([   1.,   10.,  100., 1000.], dtype=float32)
    """
    check_arraylike("geomspace", start, stop)
    d = _space_dtype(start, stop, dtype, "geomspace")
    rank = max(np.ndim(start), np.ndim(stop)) + 1
    axis = shapes.canonical_axis(axis, rank, "geomspace")
    return _geomspaced(start, stop, as_size(num), bool(endpoint), axis, d)


def _space_dtype(start, stop, dtype, name):
    if dtype is not None:
        return dtypes.check_user_dtype(dtype, f"numpy.{name}")
    return dtypes.to_inexact(dtypes.array_dtype(dtypes.result_type(start, stop)))


@library(static=("num", "endpoint", "dtype", "axis"))
@accepts(nodes=True, lists=("num", "axis"))
def logspace(start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, base: ArrayLike = 10.0,
             dtype: DTypeLike | None = None, axis: int = 0) -> Array:
    """Return `base` to the power of evenly spaced exponents.

    Args:
        start, stop: First and last exponent, scalars or arrays that broadcast.
        num: Number of samples.
        endpoint: If True, `stop` is the last exponent, otherwise it is excluded.
        base: Base of the powers.
        dtype: dtype of the result. Default: the promoted floating-point dtype of `start` and `stop`.
        axis: Axis of the result along which the samples vary, if `start` or `stop` is an array.

    Returns:
        Array of the samples.

    Example:
        >>> xnp.logspace(0, 3, 4, base=2.0)
        Array([1., 2., 4., 8.], dtype=float32)
    """
    d = _space_dtype(start, stop, dtype, "logspace")
    compute = dtypes.to_inexact(d)
    powers = linspace(start, stop, num, endpoint, dtype=compute, axis=axis)
    result = PUBLIC["power"](base, powers)
    return result if result.dtype == d else _astype(result, d)
