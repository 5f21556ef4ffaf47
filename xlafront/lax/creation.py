"""Arrays from nothing: of one value, of the numbers of positions; and where they go."""

from __future__ import annotations

import numpy as np

from xlafront.core import dtypes, tracing
from xlafront.core.avals import ShapedArray
from xlafront.lax import keys
from xlafront.lax.arguments import named_sharding, specified
from xlafront.lax.device_put import put_leaf
from xlafront.lax.elementwise import convert_element_type_p
from xlafront.lax.resharding import with_out_sharding
from xlafront.lax.shapes import broadcast_in_dim_p, iota_p, plain_axis, static_shape
from xlafront.runtime.arrays import put_host
from xlafront.runtime.sharding import NamedSharding, Sharding
from xlafront.staging.device_assignment import has_devices
from xlafront.staging.library import library


@library(static=("dtype", "shape", "dimension", "out_sharding"))
def _iota_kernel(dtype, shape, dimension, out_sharding=None):
    return iota_p.bind(dtype=dtype, shape=shape, dimension=dimension, sharding=out_sharding)


def broadcasted_iota(dtype, shape, dimension: int, *, out_sharding=None):
    """0, 1, 2, ... along one dimension of an array."""
    shape = static_shape("broadcasted_iota", shape)
    dtype = dtypes.check_user_dtype(specified(dtype, "iota"), "iota")
    if not (isinstance(dtype, np.dtype) and (dtypes.is_inexact(dtype) or dtypes.is_integer(dtype))):
        raise TypeError(f"iota makes numbers, not {dtype}.")
    return _iota_kernel(dtype, shape, plain_axis(dimension, len(shape), "iota"), named_sharding(out_sharding, "iota"))


def iota(dtype, size: int):
    """The vector 0, 1, ..., size - 1."""
    return broadcasted_iota(dtype, (size,), 0)


@library(static=("shape", "dtype"))
def _full_kernel(value, shape, dtype):
    if not isinstance(dtype, np.dtype):
        return keys.filled(value, shape, dtype)
    if tracing.aval_of(value).dtype != dtype or tracing.aval_of(value).weak_type:
        value = convert_element_type_p.bind(value, new_dtype=dtype, weak_type=False, sharding=None)
    return broadcast_in_dim_p.bind(value, shape=shape, broadcast_dimensions=(), sharding=None) if shape else value


def full(shape, fill_value, dtype=None, *, sharding=None):
    """An array of one scalar repeated."""
    shape = static_shape("full", shape)
    if np.shape(fill_value):
        raise TypeError(f"full needs a scalar, got an array of shape {np.shape(fill_value)}.")
    weak = dtype is None and dtypes.is_weakly_typed(fill_value)
    aval = tracing.aval_of(fill_value)
    dtype = aval.dtype if dtype is None else dtypes.check_user_dtype(dtype, "full")
    result = placed_constant(shape, fill_value, dtype, sharding)
    if result is None:
        result = _full_kernel(fill_value, shape, dtype)
        if sharding is not None:
            result = put_leaf(result, sharding)
    return convert_element_type_p.bind(result, new_dtype=dtype, weak_type=True, sharding=None) if weak else result


def placed_constant(shape: tuple, value, dtype, sharding):
    """One value repeated, made in its parts on several devices: the whole may be more than a device holds. None elsewhere."""
    if (not isinstance(sharding, NamedSharding) or tracing.is_tracing() or sharding.spec.unreduced
            or not isinstance(value, (bool, int, float, complex, np.generic)) or not isinstance(dtype, np.dtype)):
        return None
    if not has_devices(sharding):
        return None
    return put_host(np.broadcast_to(np.asarray(value).astype(dtype), shape), ShapedArray(shape, dtype), sharding, True)


def placement_of(x, shape: tuple):
    """Where an array of this shape goes that is made like `x`: where `x` was put. None: anywhere."""
    if tracing.is_tracing() or isinstance(x, tracing.Tracer) or not getattr(x, "_committed", True):
        return None
    sharding = getattr(x, "sharding", None)
    if not isinstance(sharding, Sharding) or isinstance(x, ShapedArray) or not has_devices(sharding):
        return None
    return sharding if tuple(shape) == tuple(x.shape) or sharding.is_fully_replicated else None


def full_like(x, fill_value, dtype=None, shape=None, sharding=None):
    """`full` with the shape, the dtype and the devices of another array unless others are given."""
    aval = x if hasattr(x, "shape") and hasattr(x, "dtype") and not tracing.is_arraylike(x) else tracing.aval_of(x)
    shape = aval.shape if shape is None else static_shape("full_like", shape)
    wanted = dtypes.dtype(aval.dtype) if dtype is None else dtypes.check_user_dtype(dtype, "full_like")
    result = full(shape, fill_value, wanted, sharding=placement_of(x, shape) if sharding is None else sharding)
    if dtype is None and getattr(aval, "weak_type", False):
        result = convert_element_type_p.bind(result, new_dtype=wanted, weak_type=True, sharding=None)
    return tracing.as_varying(result, aval.vma)


def empty(shape, dtype, *, out_sharding=None):
    """An array whose elements will be written before they are read."""
    return with_out_sharding("lax.empty", out_sharding, full, (), shape, 0, dtype)
