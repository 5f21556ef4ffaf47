"""Creation of constant arrays and iotas, and their placement on devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.core import dtypes, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.basic_primitives import broadcast_in_dim_p, convert_element_type_p, reshard_p
from xlafront.core.typing import Array, ArrayLike, DTypeLike, ShardingLike
from xlafront.lax import key_arrays
from xlafront.lax.arguments import named_sharding, specified
from xlafront.lax.device_put import put_leaf
from xlafront.lax.resharding import with_out_sharding
from xlafront.lax.shapes import iota_p, plain_axis, static_shape
from xlafront.runtime.arrays import put_host
from xlafront.runtime.sharding import NamedSharding, Sharding
from xlafront.staging.device_assignment import has_devices
from xlafront.staging.library import library


@library(static=("dtype", "shape", "dimension", "out_sharding"))
def _iota_kernel(dtype: np.dtype, shape: tuple, dimension: int, out_sharding: NamedSharding | None = None) -> Array:
    return iota_p.bind(dtype=dtype, shape=shape, dimension=dimension, sharding=out_sharding)


@library(static=None)
def broadcasted_iota(dtype: DTypeLike, shape: Sequence[int], dimension: int, *, out_sharding: ShardingLike = None) -> Array:
    """Make an array of the indices 0, 1, 2, ... along one dimension.

    Args:
        dtype: dtype of the result, an integer, float or complex dtype.
        shape: Shape of the result.
        dimension: The dimension along which the elements count.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        An array of the given shape.

    Example:
        >>> lax.broadcasted_iota("int32", (2, 3), 1)
        Array([[0, 1, 2],
               [0, 1, 2]], dtype=int32)
    """
    shape = static_shape("broadcasted_iota", shape)
    dtype = dtypes.check_user_dtype(specified(dtype, "iota"), "iota")
    if dtype == dtypes.bool_:
        raise TypeError("iota does not accept dtype bool: pass an integer, float or complex dtype.")
    return _iota_kernel(dtype, shape, plain_axis(dimension, len(shape), "iota"), named_sharding(out_sharding, "iota"))


def iota(dtype: DTypeLike, size: int) -> Array:
    """Make the vector 0, 1, ..., `size - 1`.

    Args:
        dtype: dtype of the result, an integer, float or complex dtype.
        size: Number of elements.

    Returns:
        A vector.

    Example:
        >>> lax.iota("float32", 3)
        Array([0., 1., 2.], dtype=float32)
    """
    return broadcasted_iota(dtype, (size,), 0)


@library(static=("shape", "dtype"))
def _full_kernel(value: Any, shape: tuple, dtype: np.dtype) -> Array:
    if not isinstance(dtype, np.dtype):
        return key_arrays.filled(value, shape, dtype)
    if tracing.aval_of(value).dtype != dtype or tracing.aval_of(value).weak_type:
        value = convert_element_type_p.bind(value, new_dtype=dtype, weak_type=False, sharding=None)
    return broadcast_in_dim_p.bind(value, shape=shape, broadcast_dimensions=(), sharding=None) if shape else value


def full(shape: Sequence[int], fill_value: ArrayLike, dtype: DTypeLike | None = None, *, sharding: Any = None) -> Array:
    """Make an array filled with one value.

    Args:
        shape: Shape of the result.
        fill_value: The value, a scalar.
        dtype: dtype of the result. Default: that of `fill_value`.
        sharding: Device or sharding of the result.

    Returns:
        An array of the given shape.

    Example:
        >>> lax.full((2,), 7)
        Array([7, 7], dtype=int32, weak_type=True)
    """
    shape = static_shape("full", shape)
    dtype = None if dtype is None else dtypes.check_user_dtype(dtype, "full")
    fill_value = canonical_fill_value(fill_value, dtype)
    weak = dtype is None and dtypes.is_weakly_typed(fill_value) and not is_placed(sharding)
    if dtype is None:
        dtype = tracing.aval_of(fill_value).dtype
    return _full(shape, fill_value, dtype, sharding, weak)


def _full(shape: tuple, fill_value: ArrayLike, dtype: np.dtype, sharding: Sharding | None, weak: bool) -> Array:
    if np.shape(fill_value):
        raise TypeError(f"full needs a scalar, got an array of shape {np.shape(fill_value)}.")
    check_fill("full", fill_value, dtype)
    if shape and sharding is None and type(fill_value) in (int, float, complex) and tracing.is_tracing() and (
            weak or (dtypes.is_inexact(dtype) and dtypes.array_dtype(dtype) == dtype)):
        # While tracing, convert the literal itself, which saves an operation.
        number = fill_value if weak else np.asarray(fill_value).astype(dtype)[()]
        return broadcast_in_dim_p.bind(number, shape=shape, broadcast_dimensions=(), sharding=None)
    result = placed_constant(shape, fill_value, dtype, sharding)
    if result is None:
        result = _full_kernel(fill_value, shape, dtype)
        if sharding is not None:
            result = put_leaf(result, sharding)
    return convert_element_type_p.bind(result, new_dtype=dtype, weak_type=True, sharding=None) if weak else result


def canonical_fill_value(value: ArrayLike, dtype: np.dtype | None) -> ArrayLike:
    """Return a fill value for an array of `dtype` (None: the dtype of the value).

    Integers of the host that no array can hold while x64 is disabled are cast to `dtype` here, as NumPy casts them.
    """
    kind = type(value)
    if kind is float or kind is int and -2 ** 31 <= value < 2 ** 31:
        return value
    if kind is int:
        integer = dtypes.default_dtype(int)
        if integer.itemsize == 8 and -2 ** 63 <= value < 2 ** 63:
            return value
        return int(np.asarray(value).astype(integer)) if dtype is None else _cast(np.asarray(value), dtype)
    if isinstance(value, (np.integer, np.ndarray)) and dtype is not None and value.dtype.kind in "iu" and (
            dtypes.array_dtype(value.dtype) != value.dtype):
        return _cast(value, dtype)
    return value


def _cast(value: np.ndarray | np.generic, dtype: np.dtype) -> Any:
    return value.astype(dtype)[()] if isinstance(dtype, np.dtype) else value


def check_fill(name: str, value: Any, dtype: np.dtype) -> None:
    """Raise TypeError for a Python complex number and a real dtype. Complex arrays lose the imaginary component, as in
    `astype`."""
    kind = type(value)
    if kind is float or kind is int:
        return
    if hasattr(value, "dtype"):
        dtypes.warn_of_discarded_imaginary(name, value.dtype, dtype)
    if kind is complex and isinstance(dtype, np.dtype) and not dtypes.is_complex(dtype) and dtype != dtypes.bool_:
        raise TypeError(f"{name} cannot fill an array of dtype {dtype} with the complex number {value}: pass its real part, or "
                        f"a complex dtype.")


def is_placed(sharding: Any) -> bool:
    """Return True if a new array is created directly on the devices of `sharding`; such an array is never weakly typed."""
    return sharding is not None and not tracing.is_tracing()


def placed_constant(shape: tuple, value: Any, dtype: np.dtype, sharding: Sharding | None) -> Array | None:
    """Create a constant array shard by shard on several devices, since the unsharded array may exceed the memory of a device.

    Return None if `sharding` is not a `NamedSharding` with devices, while tracing, or if the value is not a scalar.
    """
    if (not isinstance(sharding, NamedSharding) or tracing.is_tracing() or sharding.spec.unreduced
            or not isinstance(value, (bool, int, float, complex, np.generic)) or not isinstance(dtype, np.dtype)):
        return None
    if not has_devices(sharding):
        return None
    return put_host(np.broadcast_to(np.asarray(value).astype(dtype), shape), ShapedArray(shape, dtype), sharding, True)


def placement_of(x: Any, shape: tuple) -> Sharding | None:
    """Return the sharding of `x` if it is committed and fits a new array of this shape; None for default placement."""
    if tracing.is_tracing() or isinstance(x, tracing.Tracer) or not getattr(x, "_committed", True):
        return None
    sharding = getattr(x, "sharding", None)
    if not isinstance(sharding, Sharding) or isinstance(x, ShapedArray) or not has_devices(sharding):
        return None
    return sharding if tuple(shape) == tuple(x.shape) or sharding.is_fully_replicated else None


def full_like(x: Any, fill_value: ArrayLike, dtype: DTypeLike | None = None, shape: Sequence[int] | None = None,
              sharding: Any = None) -> Array:
    """Make an array filled with one value, with the shape, dtype and placement of another array.

    Args:
        x: An array, or any object with a shape and a dtype.
        fill_value: The value, a scalar.
        dtype: dtype of the result. Default: that of `x`.
        shape: Shape of the result. Default: that of `x`.
        sharding: Device or sharding of the result. Default: that of `x`.

    Returns:
        The new array.

    Example:
        >>> lax.full_like(xnp.ones(2), 7)
        Array([7., 7.], dtype=float32)
    """
    aval = x if hasattr(x, "shape") and hasattr(x, "dtype") and not tracing.is_arraylike(x) else tracing.aval_of(x)
    copies_sharding = shape is None and sharding is None
    shape = aval.shape if shape is None else static_shape("full_like", shape)
    placement = placement_of(x, shape) if sharding is None else sharding
    if dtype is not None:
        result_dtype = dtypes.check_user_dtype(dtype, "full_like")
    else:  # the dtype of an array is final; that of any other object is canonicalized, since x64 may be disabled
        result_dtype = dtypes.dtype(aval.dtype) if type(aval) is ShapedArray else dtypes.canonicalize_dtype(aval.dtype, True)
    fill_value = canonical_fill_value(fill_value, result_dtype)
    result = _full(shape, fill_value, result_dtype, placement, weak=False)
    if dtype is None and getattr(aval, "weak_type", False) and not is_placed(sharding):
        result = convert_element_type_p.bind(result, new_dtype=result_dtype, weak_type=True, sharding=None)
    return placed_like(result, aval, copies_sharding and placement is None)


def placed_like(result: Array, like: Any, copies_sharding: bool) -> Array:
    """Return a new array with the mesh axes of the type of `like`: its explicit sharding and the axes it varies over."""
    if getattr(like, "plain", False):
        return result
    explicit = getattr(like, "explicit_sharding", None) if copies_sharding else None
    if explicit is not None and (tracing.is_tracing() or explicit.mesh.abstract_device is not None):
        result = reshard_p.bind(result, dst_sharding=explicit)
    return tracing.as_varying(result, getattr(like, "vma", frozenset()))


def empty(shape: Sequence[int], dtype: DTypeLike, *, out_sharding: ShardingLike = None) -> Array:
    """Make an array for elements that will be overwritten. It is filled with zeros.

    Args:
        shape: Shape of the result.
        dtype: dtype of the result. None means the default float dtype.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        An array of zeros.

    Example:
        >>> lax.empty((2, 3), "float32").shape
        (2, 3)
    """
    d = dtypes.default_dtype(float) if dtype is None else dtype
    return with_out_sharding("lax.empty", out_sharding, full, (), shape, 0, d)
