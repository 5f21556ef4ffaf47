"""Functions that make the initial values of parameters: `initializer(key, shape, dtype)`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

import xlafront.numpy as xnp
from xlafront import random
from xlafront.core import dtypes, tracing
from xlafront.core.typing import Array, ArrayLike, DTypeLike, ShardingLike
from xlafront.lax.shapes import static_shape

__all__ = [
    "Initializer", "constant", "delta_orthogonal", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform",
    "kaiming_normal", "kaiming_uniform", "lecun_normal", "lecun_uniform", "normal", "ones", "orthogonal", "truncated_normal",
    "uniform", "variance_scaling", "xavier_normal", "xavier_uniform", "zeros"]


class Initializer(Protocol):
    """What all functions of this module are or return."""

    def __call__(self, key: ArrayLike, shape: Sequence[int], dtype: DTypeLike | None = None,
                 out_sharding: ShardingLike = None) -> Array: ...


def _dtype(dtype):
    return dtypes.default_dtype(float) if dtype is None else dtypes.check_user_dtype(dtype, "the initializer")


def zeros(key: ArrayLike, shape: Sequence[int], dtype: DTypeLike | None = None, out_sharding: ShardingLike = None) -> Array:
    """Zeros.

    - `key`: a random key, which is not used.
    - `shape`: of the array.
    - `dtype`: of the array, a float when left out.
    - `out_sharding`: how it is split over explicit mesh axes.

    >>> initializers.zeros(xf.random.key(0), (2,))
    Array([0., 0.], dtype=float32)
    """
    return xnp.zeros(shape, _dtype(dtype), out_sharding=out_sharding)


def ones(key: ArrayLike, shape: Sequence[int], dtype: DTypeLike | None = None, out_sharding: ShardingLike = None) -> Array:
    """Ones.

    - `key`, `shape`, `dtype`, `out_sharding`: as of `zeros`.

    >>> initializers.ones(xf.random.key(0), (2,))
    Array([1., 1.], dtype=float32)
    """
    return xnp.ones(shape, _dtype(dtype), out_sharding=out_sharding)


def constant(value: ArrayLike, dtype: DTypeLike | None = None) -> Initializer:
    """An initializer that gives one value everywhere.

    - `value`: a number, or an array that broadcasts to the shape.
    - `dtype`: what the initializer makes unless it is told another; a float when left out.

    >>> initializers.constant(7)(xf.random.key(0), (2,))
    Array([7., 7.], dtype=float32)
    """
    def init(key, shape, dtype=dtype, out_sharding=None):
        return xnp.full(shape, value, _dtype(dtype), device=out_sharding)

    return init


def uniform(scale: ArrayLike = 0.01, dtype: DTypeLike | None = None) -> Initializer:
    """An initializer that gives numbers uniform between 0 and a bound.

    - `scale`: the bound.
    - `dtype`: as of `constant`.

    >>> initializers.uniform(0.5)(xf.random.key(0), (2, 3)).shape
    (2, 3)
    """
    def init(key, shape, dtype=dtype, out_sharding=None):
        d = _dtype(dtype)
        return random.uniform(key, shape, d, out_sharding=out_sharding) * xnp.array(scale, d)

    return init


def normal(stddev: ArrayLike = 0.01, dtype: DTypeLike | None = None) -> Initializer:
    """An initializer that gives normal numbers around 0.

    - `stddev`: their standard deviation.
    - `dtype`: as of `constant`; it may be complex.

    >>> initializers.normal(0.5)(xf.random.key(0), (2, 3)).shape
    (2, 3)
    """
    def init(key, shape, dtype=dtype, out_sharding=None):
        d = _dtype(dtype)
        return random.normal(key, shape, d, out_sharding=out_sharding) * xnp.array(stddev, d)

    return init


def truncated_normal(stddev: ArrayLike = 0.01, dtype: DTypeLike | None = None, lower: ArrayLike = -2.0,
                     upper: ArrayLike = 2.0) -> Initializer:
    """An initializer that gives normal numbers within bounds.

    - `stddev`: the standard deviation before the bounds; that of the result is smaller.
    - `dtype`: as of `constant`.
    - `lower`, `upper`: the bounds, in standard deviations.

    >>> initializers.truncated_normal(0.5)(xf.random.key(0), (2, 3)).shape
    (2, 3)
    """
    def init(key, shape, dtype=dtype, out_sharding=None):
        d = _dtype(dtype)
        return random.truncated_normal(key, lower, upper, shape, d, out_sharding=out_sharding) * xnp.array(stddev, d)

    return init


def _fans(shape: Sequence[int], in_axis, out_axis, batch_axis) -> tuple[float, float]:
    """How many inputs an output sums over, and how many outputs an input reaches."""
    if len(shape) <= 1 and in_axis == -2:
        raise ValueError(f"variance_scaling needs weights of at least two dimensions, or in_axis and out_axis for those of "
                         f"shape {tuple(shape)}.")

    def size(axes):
        return math.prod(shape[a] for a in (axes if isinstance(axes, (tuple, list)) else (axes,)))

    fan_in, fan_out = size(in_axis), size(out_axis)
    field = math.prod(shape) / (fan_in * fan_out * size(batch_axis))
    return fan_in * field, fan_out * field


def variance_scaling(scale: float, mode: str, distribution: str, in_axis: int | Sequence[int] = -2,
                     out_axis: int | Sequence[int] = -1, batch_axis: int | Sequence[int] = (),
                     dtype: DTypeLike | None = None) -> Initializer:
    """An initializer that gives random weights whose variance is `scale` over a number of connections.

    - `scale`: the variance times that number.
    - `mode`: which number: "fan_in", "fan_out", "fan_avg" (their mean) or "fan_geo_avg".
    - `distribution`: "truncated_normal", "normal" or "uniform".
    - `in_axis`, `out_axis`, `batch_axis`: the dimensions of inputs, of outputs, and of independent weights.
    - `dtype`: as of `constant`; it may be complex.

    >>> initializers.variance_scaling(1.0, "fan_in", "normal")(xf.random.key(0), (2, 3)).shape
    (2, 3)
    """
    means = {"fan_in": lambda i, o: i, "fan_out": lambda i, o: o, "fan_avg": lambda i, o: (i + o) / 2,
             "fan_geo_avg": lambda i, o: math.sqrt(i * o)}
    if mode not in means:
        raise ValueError(f"variance_scaling has the modes {', '.join(means)}, not {mode!r}.")
    if distribution not in ("truncated_normal", "normal", "uniform"):
        raise ValueError(f"variance_scaling has the distributions truncated_normal, normal and uniform, not "
                         f"{distribution!r}.")

    def init(key, shape, dtype=dtype, out_sharding=None):
        d, shape = _dtype(dtype), static_shape("the initializer", shape)
        variance = scale / means[mode](*_fans(shape, in_axis, out_axis, batch_axis))
        numbers = xnp if isinstance(variance, tracing.Tracer) else np  # sizes may be symbolic
        variance = numbers.asarray(variance, dtypes.to_real(d))
        if distribution == "normal":
            return random.normal(key, shape, d, out_sharding=out_sharding) * numbers.sqrt(variance).astype(d)
        if distribution == "uniform":
            if dtypes.is_complex(d):
                return _complex_uniform(key, shape, d) * numbers.sqrt(variance).astype(d)
            return random.uniform(key, shape, d, -1.0, 1.0, out_sharding=out_sharding) * numbers.sqrt(3 * variance).astype(d)
        if dtypes.is_complex(d):
            return _complex_truncated_normal(key, shape, d) * (numbers.sqrt(variance) / .95311164380491208).astype(d)
        # 0.8796... is the standard deviation of a standard normal distribution cut at -2 and 2.
        return random.truncated_normal(key, -2, 2, shape, d, out_sharding=out_sharding) * (
            numbers.sqrt(variance) / np.array(.87962566103423978, d)).astype(d)

    return init


def _complex_uniform(key, shape, d):
    """Uniform on the disc where the mean square is 1."""
    of_radius, of_angle = random.split(key)
    real = dtypes.to_real(d)
    radius = xnp.sqrt(2 * random.uniform(of_radius, shape, real)).astype(d)
    angle = 2 * np.pi * random.uniform(of_angle, shape, real).astype(d)
    return radius * xnp.exp(1j * angle)


def _complex_truncated_normal(key, shape, d, upper=2.0):
    """Normal in the plane, cut at a radius."""
    of_radius, of_angle = random.split(key)
    real = dtypes.to_real(d)
    t = (1 - xnp.exp(xnp.array(-(upper ** 2), real))) * random.uniform(of_radius, shape, real)
    radius = xnp.sqrt(-xnp.log(1 - t)).astype(d)
    angle = 2 * np.pi * random.uniform(of_angle, shape, real).astype(d)
    return radius * xnp.exp(1j * angle)


def _scaled(name: str, scale: float, mode: str, distribution: str):
    def make(in_axis: int | Sequence[int] = -2, out_axis: int | Sequence[int] = -1, batch_axis: int | Sequence[int] = (),
             dtype: DTypeLike | None = None) -> Initializer:
        return variance_scaling(scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = (
        f"An initializer: `variance_scaling({scale}, {mode!r}, {distribution!r})`.\n\n"
        f"- `in_axis`, `out_axis`, `batch_axis`, `dtype`: as of `variance_scaling`.\n\n"
        f">>> initializers.{name}()(xf.random.key(0), (2, 3)).shape\n(2, 3)")
    return make


glorot_uniform = xavier_uniform = _scaled("glorot_uniform", 1.0, "fan_avg", "uniform")
glorot_normal = xavier_normal = _scaled("glorot_normal", 1.0, "fan_avg", "truncated_normal")
lecun_uniform = _scaled("lecun_uniform", 1.0, "fan_in", "uniform")
lecun_normal = _scaled("lecun_normal", 1.0, "fan_in", "truncated_normal")
he_uniform = kaiming_uniform = _scaled("he_uniform", 2.0, "fan_in", "uniform")
he_normal = kaiming_normal = _scaled("he_normal", 2.0, "fan_in", "truncated_normal")


def orthogonal(scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike | None = None) -> Initializer:
    """Weights that are an orthogonal matrix, uniform among all: of orthonormal rows or columns, whichever are fewer.

    - `scale`: what they are multiplied by.
    - `column_axis`: the dimension of the columns; the others together are the rows.
    - `dtype`: as of `constant`.

    >>> initializers.orthogonal()(xf.random.key(0), (3, 2)).shape
    (3, 2)
    """
    def init(key, shape, dtype=dtype, out_sharding=None):
        d, shape = _dtype(dtype), static_shape("the initializer", shape)
        if len(shape) < 2:
            raise ValueError(f"the orthogonal initializer requires at least a 2D shape, got {shape}.")
        columns = shape[column_axis]
        rest = [n for i, n in enumerate(shape) if i != column_axis % len(shape)]
        rows = math.prod(rest)
        q = random.orthogonal(key, max(rows, columns), (), d, min(rows, columns), out_sharding=out_sharding)
        q = q.T if columns <= rows else q
        return xnp.moveaxis(q.reshape(columns, *rest), 0, column_axis) * xnp.array(scale, d)

    return init


def delta_orthogonal(scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike | None = None) -> Initializer:
    """Weights of a convolution that do at first nothing but multiply each place by an orthogonal matrix.

    - `scale`, `column_axis`, `dtype`: as of `orthogonal`; the last two dimensions of the weights are inputs and outputs.

    >>> initializers.delta_orthogonal()(xf.random.key(0), (3, 2, 2))[0].tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """
    def init(key, shape, dtype=dtype, out_sharding=None):
        d, shape = _dtype(dtype), static_shape("the initializer", shape)
        if len(shape) not in (3, 4, 5):
            raise ValueError(f"the Delta orthogonal initializer requires a 3D, 4D or 5D shape, got {shape}.")
        if shape[-1] < shape[-2]:
            raise ValueError(f"the Delta orthogonal initializer needs as many outputs as inputs or more: `fan_in` must be less "
                             f"or equal than `fan_out`, got shape {shape}.")
        matrix = orthogonal(scale, column_axis, d)(key, shape[-2:])
        middle = tuple((n - 1) // 2 for n in shape[:-2])
        return xnp.zeros(shape, d, out_sharding=out_sharding).at[middle].set(matrix)

    return init
