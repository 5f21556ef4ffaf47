"""Initializers of parameters, `init(key, shape, dtype)`, and functions that make them."""

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
    """The type of initializers: functions that return an array for a key, a shape and a dtype."""

    def __call__(self, key: ArrayLike, shape: Sequence[int], dtype: DTypeLike | None = None,
                 out_sharding: ShardingLike = None) -> Array: ...


def _dtype(dtype):
    return dtypes.default_dtype(float) if dtype is None else dtypes.check_user_dtype(dtype, "the initializer")


def zeros(key: ArrayLike, shape: Sequence[int], dtype: DTypeLike | None = None, out_sharding: ShardingLike = None) -> Array:
    """Return an array of zeros.

    Args:
        key: PRNG key. It is not used.
        shape: Shape of the array.
        dtype: dtype of the array. Default: the default float dtype.
        out_sharding: Sharding of the array over explicit mesh axes.

    Returns:
        Array of zeros.

    Example:
        >>> initializers.zeros(xf.random.key(0), (2,))
        Array([0., 0.], dtype=float32)
    """
    return xnp.zeros(shape, _dtype(dtype), out_sharding=out_sharding)


def ones(key: ArrayLike, shape: Sequence[int], dtype: DTypeLike | None = None, out_sharding: ShardingLike = None) -> Array:
    """Return an array of ones.

    Args:
        key: PRNG key. It is not used.
        shape: Shape of the array.
        dtype: dtype of the array. Default: the default float dtype.
        out_sharding: Sharding of the array over explicit mesh axes.

    Returns:
        Array of ones.

    Example:
        >>> initializers.ones(xf.random.key(0), (2,))
        Array([1., 1.], dtype=float32)
    """
    return xnp.ones(shape, _dtype(dtype), out_sharding=out_sharding)


def constant(value: ArrayLike, dtype: DTypeLike | None = None) -> Initializer:
    """Make an initializer that returns a constant array.

    Args:
        value: Scalar, or an array that broadcasts to the shape.
        dtype: Default dtype of the initializer. Default: the default float dtype.

    Returns:
        Initializer.

    Example:
        >>> initializers.constant(7)(xf.random.key(0), (2,))
        Array([7., 7.], dtype=float32)
    """
    def init(key, shape, dtype=dtype, out_sharding=None):
        return xnp.full(shape, value, _dtype(dtype), out_sharding=out_sharding)

    return init


def uniform(scale: ArrayLike = 0.01, dtype: DTypeLike | None = None) -> Initializer:
    """Make an initializer that samples uniformly between 0 and `scale`.

    Args:
        scale: Upper bound.
        dtype: Default dtype of the initializer. Default: the default float dtype.

    Returns:
        Initializer.

    Example:
        >>> initializers.uniform(0.5)(xf.random.key(0), (2, 3)).shape
        (2, 3)
    """
    def init(key, shape, dtype=dtype, out_sharding=None):
        d = _dtype(dtype)
        return random.uniform(key, shape, d, out_sharding=out_sharding) * xnp.array(scale, d)

    return init


def normal(stddev: ArrayLike = 0.01, dtype: DTypeLike | None = None) -> Initializer:
    """Make an initializer that samples from the normal distribution with mean 0.

    Args:
        stddev: Standard deviation.
        dtype: Default dtype of the initializer, floating or complex. Default: the default float dtype.

    Returns:
        Initializer.

    Example:
        >>> initializers.normal(0.5)(xf.random.key(0), (2, 3)).shape
        (2, 3)
    """
    def init(key, shape, dtype=dtype, out_sharding=None):
        d = _dtype(dtype)
        return random.normal(key, shape, d, out_sharding=out_sharding) * xnp.array(stddev, d)

    return init


def truncated_normal(stddev: ArrayLike = 0.01, dtype: DTypeLike | None = None, lower: ArrayLike = -2.0,
                     upper: ArrayLike = 2.0) -> Initializer:
    """Make an initializer that samples from a truncated normal distribution with mean 0.

    Args:
        stddev: Standard deviation before truncation. That of the samples is smaller.
        dtype: Default dtype of the initializer. Default: the default float dtype.
        lower: Lower bound in standard deviations.
        upper: Upper bound in standard deviations.

    Returns:
        Initializer.

    Example:
        >>> initializers.truncated_normal(0.5)(xf.random.key(0), (2, 3)).shape
        (2, 3)
    """
    def init(key, shape, dtype=dtype, out_sharding=None):
        d = _dtype(dtype)
        return random.truncated_normal(key, lower, upper, shape, d, out_sharding=out_sharding) * xnp.array(stddev, d)

    return init


def _fans(shape: Sequence[int], in_axis, out_axis, batch_axis) -> tuple[float, float]:
    """Return the number of inputs that an output sums over and the number of outputs that an input contributes to."""
    if len(shape) <= 1 and in_axis == -2:
        raise ValueError(f"variance_scaling needs weights of at least two dimensions, got shape {tuple(shape)}: pass in_axis "
                         f"and out_axis.")

    def size(axes):
        return math.prod(shape[a] for a in (axes if isinstance(axes, (tuple, list)) else (axes,)))

    fan_in, fan_out, batch = size(in_axis), size(out_axis), size(batch_axis)
    if 0 in shape:
        return 1.0, 1.0  # there are no weights to scale
    receptive_field = math.prod(shape) / (fan_in * fan_out * batch)
    return fan_in * receptive_field, fan_out * receptive_field


def variance_scaling(scale: float, mode: str, distribution: str, in_axis: int | Sequence[int] = -2,
                     out_axis: int | Sequence[int] = -1, batch_axis: int | Sequence[int] = (),
                     dtype: DTypeLike | None = None) -> Initializer:
    """Make an initializer of random weights with variance `scale / n`, where `n` is a number of connections.

    Args:
        scale: Scale of the variance.
        mode: Definition of `n`: "fan_in", "fan_out", "fan_avg" (their mean) or "fan_geo_avg" (their geometric mean).
        distribution: "truncated_normal", "normal" or "uniform".
        in_axis: Axis or axes of the inputs.
        out_axis: Axis or axes of the outputs.
        batch_axis: Axis or axes of independent weights.
        dtype: Default dtype of the initializer, floating or complex. Default: the default float dtype.

    Returns:
        Initializer.

    Example:
        >>> initializers.variance_scaling(1.0, "fan_in", "normal")(xf.random.key(0), (2, 3)).shape
        (2, 3)
    """
    means = {"fan_in": lambda i, o: i, "fan_out": lambda i, o: o, "fan_avg": lambda i, o: (i + o) / 2,
             "fan_geo_avg": lambda i, o: math.sqrt(i * o)}
    if mode not in means:
        raise ValueError(f"variance_scaling: mode must be one of {', '.join(means)}, got {mode!r}.")
    if distribution not in ("truncated_normal", "normal", "uniform"):
        raise ValueError(f"variance_scaling: distribution must be truncated_normal, normal or uniform, got {distribution!r}.")

    def init(key, shape, dtype=dtype, out_sharding=None):
        d, shape = _dtype(dtype), static_shape("the initializer", shape)
        variance = scale / means[mode](*_fans(shape, in_axis, out_axis, batch_axis))
        namespace = xnp if isinstance(variance, tracing.Tracer) else np  # Sizes may be symbolic.
        variance = namespace.asarray(variance, dtypes.to_real(d))
        if distribution == "normal":
            return random.normal(key, shape, d, out_sharding=out_sharding) * namespace.sqrt(variance).astype(d)
        if distribution == "uniform":
            if dtypes.is_complex(d):
                return _complex_uniform(key, shape, d) * namespace.sqrt(variance).astype(d)
            return random.uniform(key, shape, d, -1.0, 1.0, out_sharding=out_sharding) * namespace.sqrt(3 * variance).astype(d)
        if dtypes.is_complex(d):
            return _complex_truncated_normal(key, shape, d) * (namespace.sqrt(variance) / .95311164380491208).astype(d)
        # 0.8796... is the standard deviation of the standard normal distribution truncated to [-2, 2].
        return random.truncated_normal(key, -2, 2, shape, d, out_sharding=out_sharding) * (
            namespace.sqrt(variance) / np.array(.87962566103423978, d)).astype(d)

    return init


def _complex_uniform(key, shape, d):
    """Sample uniformly from the disc on which the mean square is 1."""
    radius_key, angle_key = random.split(key)
    real = dtypes.to_real(d)
    radius = xnp.sqrt(2 * random.uniform(radius_key, shape, real)).astype(d)
    angle = 2 * np.pi * random.uniform(angle_key, shape, real).astype(d)
    return radius * xnp.exp(1j * angle)


def _complex_truncated_normal(key, shape, d, upper=2.0):
    """Sample complex normal values truncated to a disc of radius `upper`."""
    radius_key, angle_key = random.split(key)
    real = dtypes.to_real(d)
    t = (1 - xnp.exp(xnp.array(-(upper ** 2), real))) * random.uniform(radius_key, shape, real)
    radius = xnp.sqrt(-xnp.log(1 - t)).astype(d)
    angle = 2 * np.pi * random.uniform(angle_key, shape, real).astype(d)
    return radius * xnp.exp(1j * angle)


def _variance_scaling_alias(name: str, scale: float, mode: str, distribution: str):
    def make(in_axis: int | Sequence[int] = -2, out_axis: int | Sequence[int] = -1, batch_axis: int | Sequence[int] = (),
             dtype: DTypeLike | None = None) -> Initializer:
        return variance_scaling(scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = (
        f"Make the initializer `variance_scaling({scale}, {mode!r}, {distribution!r})`.\n\n"
        "Args:\n    in_axis: Axis or axes of the inputs.\n    out_axis: Axis or axes of the outputs.\n"
        "    batch_axis: Axis or axes of independent weights.\n"
        "    dtype: Default dtype of the initializer, floating or complex. Default: the default float dtype.\n\n"
        "Returns:\n    Initializer.\n\n"
        f"Example:\n    >>> initializers.{name}()(xf.random.key(0), (2, 3)).shape\n    (2, 3)\n")
    return make


glorot_uniform = xavier_uniform = _variance_scaling_alias("glorot_uniform", 1.0, "fan_avg", "uniform")
glorot_normal = xavier_normal = _variance_scaling_alias("glorot_normal", 1.0, "fan_avg", "truncated_normal")
lecun_uniform = _variance_scaling_alias("lecun_uniform", 1.0, "fan_in", "uniform")
lecun_normal = _variance_scaling_alias("lecun_normal", 1.0, "fan_in", "truncated_normal")
he_uniform = kaiming_uniform = _variance_scaling_alias("he_uniform", 2.0, "fan_in", "uniform")
he_normal = kaiming_normal = _variance_scaling_alias("he_normal", 2.0, "fan_in", "truncated_normal")


def orthogonal(scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike | None = None) -> Initializer:
    """Make an initializer of uniformly random orthogonal matrices.

    Rows or columns, whichever are fewer, are orthonormal.

    Args:
        scale: Factor of the matrices.
        column_axis: Axis of the columns. The other axes together are the rows.
        dtype: Default dtype of the initializer. Default: the default float dtype.

    Returns:
        Initializer.

    Example:
        >>> initializers.orthogonal()(xf.random.key(0), (3, 2)).shape
        (3, 2)
    """
    def init(key, shape, dtype=dtype, out_sharding=None):
        d, shape = _dtype(dtype), static_shape("the initializer", shape)
        if len(shape) < 2:
            raise ValueError(f"the orthogonal initializer requires at least a 2D shape, got {shape}.")
        if 0 in shape:
            return xnp.zeros(shape, d, out_sharding=out_sharding)
        columns = shape[column_axis]
        rest = [n for i, n in enumerate(shape) if i != column_axis % len(shape)]
        rows = math.prod(rest)
        q = random.orthogonal(key, max(rows, columns), (), d, min(rows, columns), out_sharding=out_sharding)
        q = q.T if columns <= rows else q
        return xnp.moveaxis(q.reshape(columns, *rest), 0, column_axis) * xnp.array(scale, d)

    return init


def delta_orthogonal(scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike | None = None) -> Initializer:
    """Make an initializer of convolution kernels that are zero except for an orthogonal matrix at the center.

    The last two dimensions of the kernels are inputs and outputs.

    Args:
        scale: Factor of the matrix.
        column_axis: Axis of the columns of the matrix.
        dtype: Default dtype of the initializer. Default: the default float dtype.

    Returns:
        Initializer.

    Example:
        >>> initializers.delta_orthogonal()(xf.random.key(0), (3, 2, 2))[0].tolist()
        [[0.0, 0.0], [0.0, 0.0]]
    """
    def init(key, shape, dtype=dtype, out_sharding=None):
        d, shape = _dtype(dtype), static_shape("the initializer", shape)
        if len(shape) not in (3, 4, 5):
            raise ValueError(f"the Delta orthogonal initializer requires a 3D, 4D or 5D shape, got {shape}.")
        if shape[-1] < shape[-2]:
            raise ValueError(f"the Delta orthogonal initializer needs at least as many outputs as inputs: `fan_in` must be "
                             f"less or equal than `fan_out`, got shape {shape}.")
        matrix = orthogonal(scale, column_axis, d)(key, shape[-2:])
        center = tuple((n - 1) // 2 for n in shape[:-2])
        return xnp.zeros(shape, d, out_sharding=out_sharding).at[center].set(matrix)

    return init
