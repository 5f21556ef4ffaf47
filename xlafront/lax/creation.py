"""Arrays from nothing: of one value, of the numbers of positions; and where they go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.core import dtypes, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.typing import Array, ArrayLike, DTypeLike, ShardingLike
from xlafront.lax import keys
from xlafront.lax.arguments import named_sharding, specified
from xlafront.lax.device_put import put_leaf, reshard_p
from xlafront.lax.elementwise import convert_element_type_p
from xlafront.lax.resharding import with_out_sharding
from xlafront.lax.shapes import broadcast_in_dim_p, iota_p, plain_axis, static_shape
from xlafront.runtime.arrays import put_host
from xlafront.runtime.sharding import NamedSharding, Sharding
from xlafront.staging.device_assignment import has_devices
from xlafront.staging.library import lax_function, written_once


@lax_function(static=("dtype", "shape", "dimension", "out_sharding"))
def _iota_kernel(dtype, shape, dimension, out_sharding=None):
    return iota_p.bind(dtype=dtype, shape=shape, dimension=dimension, sharding=out_sharding)


@written_once
def broadcasted_iota(dtype: DTypeLike, shape: Sequence[int], dimension: int, *, out_sharding: ShardingLike = None) -> Array:
    """0, 1, 2, ... along one dimension of an array.

    - `dtype`: of numbers.
    - `shape`: of the array.
    - `dimension`: the one along which to count.
    - `out_sharding`: how the result is split over explicit mesh axes.

    >>> lax.broadcasted_iota("int32", (2, 3), 1)
    Array([[0, 1, 2],
           [0, 1, 2]], dtype=int32)
    """
    shape = static_shape("broadcasted_iota", shape)
    dtype = dtypes.check_user_dtype(specified(dtype, "iota"), "iota")
    if not (isinstance(dtype, np.dtype) and (dtypes.is_inexact(dtype) or dtypes.is_integer(dtype))):
        raise TypeError(f"iota makes numbers, not {dtype}.")
    return _iota_kernel(dtype, shape, plain_axis(dimension, len(shape), "iota"), named_sharding(out_sharding, "iota"))


def iota(dtype: DTypeLike, size: int) -> Array:
    """The vector 0, 1, ..., `size - 1`.

    - `dtype`: of numbers.
    - `size`: how many.

    >>> lax.iota("float32", 3)
    Array([0., 1., 2.], dtype=float32)
    """
    return broadcasted_iota(dtype, (size,), 0)


@lax_function(static=("shape", "dtype"))
def _full_kernel(value, shape, dtype):
    if not isinstance(dtype, np.dtype):
        return keys.filled(value, shape, dtype)
    if tracing.aval_of(value).dtype != dtype or tracing.aval_of(value).weak_type:
        value = convert_element_type_p.bind(value, new_dtype=dtype, weak_type=False, sharding=None)
    return broadcast_in_dim_p.bind(value, shape=shape, broadcast_dimensions=(), sharding=None) if shape else value


def full(shape: Sequence[int], fill_value: ArrayLike, dtype: DTypeLike | None = None, *, sharding: Any = None) -> Array:
    """An array of one number repeated.

    - `shape`: of the array.
    - `fill_value`: the number, a scalar.
    - `dtype`: of the array; that of `fill_value` when left out.
    - `sharding`: on which devices it is, and how it is split over them.

    >>> lax.full((2,), 7)
    Array([7, 7], dtype=int32, weak_type=True)
    """
    shape = static_shape("full", shape)
    dtype = None if dtype is None else dtypes.check_user_dtype(dtype, "full")
    fill_value = held(fill_value, dtype)
    weak = dtype is None and dtypes.is_weakly_typed(fill_value) and not is_placed(sharding)
    if dtype is None:
        dtype = tracing.aval_of(fill_value).dtype
    return _full(shape, fill_value, dtype, sharding, weak)


def _full(shape: tuple, fill_value, dtype, sharding, weak: bool):
    if np.shape(fill_value):
        raise TypeError(f"full needs a scalar, got an array of shape {np.shape(fill_value)}.")
    check_fill("full", fill_value, dtype)
    if shape and sharding is None and type(fill_value) in (int, float, complex) and tracing.is_tracing() and (
            weak or (dtypes.is_inexact(dtype) and dtypes.of_arrays(dtype) == dtype)):
        # A program holds the number as it is wanted: one operation.
        number = fill_value if weak else np.asarray(fill_value).astype(dtype)[()]
        return broadcast_in_dim_p.bind(number, shape=shape, broadcast_dimensions=(), sharding=None)
    result = placed_constant(shape, fill_value, dtype, sharding)
    if result is None:
        result = _full_kernel(fill_value, shape, dtype)
        if sharding is not None:
            result = put_leaf(result, sharding)
    return convert_element_type_p.bind(result, new_dtype=dtype, weak_type=True, sharding=None) if weak else result


def held(value, dtype):
    """What an array of this dtype (None: the value's own) is filled with. Integers of the host's that no array holds while
    64-bit types are off are cast here, as NumPy casts them: the dtype of the array may have room for them."""
    kind = type(value)
    if kind is float or kind is int and -2 ** 31 <= value < 2 ** 31:
        return value
    if kind is int:
        integer = dtypes.default_dtype(int)
        if integer.itemsize == 8 and -2 ** 63 <= value < 2 ** 63:
            return value
        return int(np.asarray(value).astype(integer)) if dtype is None else _cast(np.asarray(value), dtype)
    if isinstance(value, (np.integer, np.ndarray)) and dtype is not None and value.dtype.kind in "iu" and (
            dtypes.of_arrays(value.dtype) != value.dtype):
        return _cast(value, dtype)
    return value


def _cast(value, dtype):
    return value.astype(dtype)[()] if isinstance(dtype, np.dtype) else value


def check_fill(name: str, value, dtype) -> None:
    """Refuse a complex number of Python's where a real one is wanted. Arrays give up imaginary parts, as in `astype`."""
    kind = type(value)
    if kind is float or kind is int:
        return
    if hasattr(value, "dtype"):
        dtypes.warn_of_lost_parts(name, value.dtype, dtype)
    if kind is complex and isinstance(dtype, np.dtype) and not dtypes.is_complex(dtype) and dtype != dtypes.bool_:
        raise TypeError(f"{name} cannot fill an array of dtype {dtype} with the complex number {value}: give its real part, or "
                        f"a complex dtype.")


def is_placed(sharding) -> bool:
    """Whether a new array is made on the devices that the user names: such an array has a type of its own, never a weak one."""
    return sharding is not None and not tracing.is_tracing()


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


def full_like(x: Any, fill_value: ArrayLike, dtype: DTypeLike | None = None, shape: Sequence[int] | None = None,
              sharding: Any = None) -> Array:
    """An array of one number repeated, with the shape and dtype of another and where that one is.

    - `x`: an array, or anything with a shape and a dtype.
    - `fill_value`: the number, a scalar.
    - `dtype`, `shape`, `sharding`: what is to be other than that of `x`.

    >>> lax.full_like(xnp.ones(2), 7)
    Array([7., 7.], dtype=float32)
    """
    aval = x if hasattr(x, "shape") and hasattr(x, "dtype") and not tracing.is_arraylike(x) else tracing.aval_of(x)
    split = shape is None and sharding is None
    shape = aval.shape if shape is None else static_shape("full_like", shape)
    if dtype is not None:
        wanted = dtypes.check_user_dtype(dtype, "full_like")
    else:  # an array's as it is, a description's as an array of it would be: 64-bit types may be off by now
        wanted = dtypes.dtype(aval.dtype) if type(aval) is ShapedArray else dtypes.canonicalize_dtype(aval.dtype, True)
    fill_value = held(fill_value, wanted)
    result = _full(shape, fill_value, wanted, placement_of(x, shape) if sharding is None else sharding, weak=False)
    if dtype is None and getattr(aval, "weak_type", False) and not is_placed(sharding):
        result = convert_element_type_p.bind(result, new_dtype=wanted, weak_type=True, sharding=None)
    return placed_like(result, aval, split)


def placed_like(result, like, split: bool):
    """A new array, split and varying over mesh axes as the type says of what it is like."""
    if getattr(like, "plain", False):
        return result
    if split and getattr(like, "explicit_sharding", None) is not None:
        result = reshard_p.bind(result, dst_sharding=like.explicit_sharding)
    return tracing.as_varying(result, getattr(like, "vma", frozenset()))


def empty(shape: Sequence[int], dtype: DTypeLike, *, out_sharding: ShardingLike = None) -> Array:
    """An array whose elements will be written before they are read. They are zero here.

    - `shape`, `dtype`: of the array; None is the default dtype of floats.
    - `out_sharding`: how it is split over explicit mesh axes.

    >>> lax.empty((2, 3), "float32").shape
    (2, 3)
    """
    d = dtypes.default_dtype(float) if dtype is None else dtype
    return with_out_sharding("lax.empty", out_sharding, full, (), shape, 0, d)
