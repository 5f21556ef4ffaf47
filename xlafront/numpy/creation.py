"""Array creation: from values, filled with a constant, `arange`; triangles, grids, buffers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.base import config
from xlafront.base.jaxlib_compat import Device
from xlafront.base.meshes import active
from xlafront.core import dtypes, errors, source, tracing, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.basic_primitives import convert_element_type_p, to_dtype
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.lax import key_arrays, shapes
from xlafront.lax.creation import canonical_fill_value, check_fill, is_placed, placed_constant, placed_like, placement_of
from xlafront.lax.device_put import device_put, put_leaf
from xlafront.lax.elementwise import (
    add,
    as_type,
    constant_like,
    copy_p,
    eq,
    ge,
    gt,
    max_,
    min_,
    mul,
    size_scalar,
    sub,
    where,
)
from xlafront.lax.resharding import resolve_out_sharding
from xlafront.lax.sharding_constraint import with_sharding_constraint
from xlafront.lax.stacking import stack
from xlafront.numpy.docstrings import docstring
from xlafront.numpy.promotion import (
    check_arraylike,
    unwrap,
)
from xlafront.runtime import backends, guards
from xlafront.runtime.arrays import ArrayImpl, put_host
from xlafront.runtime.clients import is_compile_only
from xlafront.runtime.keys import KeyArray
from xlafront.runtime.sharding import NamedSharding, Sharding, single_device
from xlafront.runtime.transfers import copied
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.debug_nans import check_new
from xlafront.staging.device_assignment import unbound_sharding
from xlafront.staging.library import exact, library
from xlafront.symbolic.dimensions import (
    as_array,
    is_symbolic,
    is_symbolic_dim,
    range_size,
)


def _checked_dtype(dtype, name: str):
    return None if dtype is None else dtypes.check_user_dtype(dtype, f"numpy.{name}")


def array(object: Any, dtype: DTypeLike | None = None, *, copy: bool = True, order: str | None = "K", ndmin: int = 0,
          device: Any = None, out_sharding: Any = None) -> Array:
    """Create an array from a scalar, a nested sequence, an array or any object that NumPy can read.

    Args:
        object: Data. 64-bit values are converted to 32 bits unless `enable_x64` is set.
        dtype: dtype of the result. Default: inferred from the data.
        copy: If True, copy an array.
        order: "K" or None; arrays have row-major order.
        ndmin: Minimum number of dimensions. Axes of size 1 are prepended.
        device, out_sharding: Device or sharding of the result.

    Returns:
        Array with the given data.

    Example:
        >>> xnp.array([[1, 2], [3, 4.5]])
        Array([[1. , 2. ],
               [3. , 4.5]], dtype=float32)
    """
    if order not in ("K", None):
        raise NotImplementedError(f"arrays have row-major order: order={order!r} is not supported, only 'K' or None.")
    if type(object) is not np.ndarray and isinstance(object, np.ndarray):
        object = np.asarray(object)  # drops the mask of a masked array
    object = unwrap(object)
    weak = dtype is None and type(object) in tracing.literal_kinds and type(object) is not bool
    # A subclass of a Python scalar may have a dtype.
    target_dtype = getattr(object, "dtype", None) if weak else _checked_dtype(dtype, "array")
    if dtype in (int, float, complex):
        weak = False
    result: Any
    if isinstance(object, (tracing.Tracer, ArrayImpl, KeyArray)):
        result = object
        if type(result) is KeyArray:
            if target_dtype is not None and target_dtype != result.dtype:
                raise ValueError(f"numpy.array: cannot convert_element_type from {result.dtype} to {target_dtype}: random keys "
                                 f"are not numbers. Get their data with random.key_data(keys).")
            keys: Any = result.with_words(_copy_of(result._base_array)) if copy else result
            return keys
        if target_dtype is not None and (result.aval.dtype != target_dtype or result.aval.weak_type):
            dtypes.warn_of_discarded_imaginary("numpy.array", result.aval.dtype, target_dtype)
            result = _astype(result, target_dtype)
        elif copy and isinstance(result, ArrayImpl):
            writer = tracing.staging_trace()
            result = _copy_of(result) if writer is None else writer.constant(result)
        elif (copy or result.aval.weak_type) and isinstance(result, tracing.Tracer) and tracing.staging_trace() is None:
            result = _copy(result)  # a tracer of weak type may represent a Python scalar
    else:
        put_directly = device is not None and ndmin == 0 and isinstance(device, (Device, Sharding))
        result = _from_host(object, target_dtype, weak, device if put_directly else None)
    if ndmin > np.ndim(result):
        result = shapes.expand_dims(result, tuple(range(ndmin - np.ndim(result))))
    target = device if out_sharding is None else resolve_out_sharding("numpy.array", out_sharding, np.shape(result))
    return result if target is None else _placed("array", result, target)


def _placed(name: str, x, target):
    """Put an array on the target devices; raise if it is committed to others."""
    if isinstance(target, NamedSharding) and target.mesh.explicit_axes and tracing.is_tracing():
        return put_leaf(x, target)  # over explicit axes a sharding constraint would only be a check
    if tracing.staging_trace() is not None and isinstance(target, (Device, Sharding)):
        return with_sharding_constraint(x, single_device(target) if isinstance(target, Device) else target)
    result = device_put(x, target)
    both = type(x) is type(result) is ArrayImpl
    if both and x.committed and x.sharding.device_set != result.sharding.device_set:
        own, requested = (", ".join(map(str, a.devices())) for a in (x, result))
        raise ValueError(f"numpy.{name} got incompatible devices: the array is on {own}, the argument device is {requested}. "
                         f"Move the array with device_put.")
    return result


# Attributes of objects that NumPy converts to arrays, and to scalars if a dtype is given.
_ARRAY_PROTOCOLS = ("__array__", "__len__", "__array_interface__", "__array_struct__")
_SCALAR_PROTOCOLS = ("__index__", "__float__", "__complex__")


def _from_host(object, dtype, weak, device=None):
    """Return an array of a Python scalar, a sequence, a NumPy array or another object that NumPy can read."""
    if is_symbolic_dim(object):
        return as_type(as_array(object), dtype or dtypes.default_dtype(int), dtype is None)
    only_ints = dtype is None and type(object) is int  # read as int64; NumPy reads larger ones as other types
    if isinstance(object, (list, tuple)):
        leaves = tree.leaves(object, is_leaf=lambda x: x is None)
        kinds = set(map(type, leaves))
        if not kinds <= dtypes.python_scalar_dtypes.keys():
            if type(None) in kinds:
                raise ValueError("None cannot become an element of an array; leave it out, or use nan.")
            if any(isinstance(x, (tracing.Tracer, ArrayImpl, KeyArray)) or tracing.is_convertible(x) for x in leaves):
                return _from_nested(object, dtype)
        if dtype is None:
            dtype = _sequence_dtype(leaves, kinds)
            only_ints = dtype is None and int in kinds and kinds <= {int, bool}
    elif object is None:
        raise ValueError("None cannot become an array.")
    elif not (tracing.is_arraylike(object) or _is_buffer(object)
              or any([hasattr(object, name)
                      for name in (_ARRAY_PROTOCOLS if dtype is None else (*_ARRAY_PROTOCOLS, *_SCALAR_PROTOCOLS))])):
        raise TypeError(f"an object of type {type(object).__name__} cannot become an array: {object!r:.60}")
    try:
        read_as = np.int64 if only_ints else dtype
        host = np.array(object, dtype=read_as) if read_as is not None else np.array(object)
    except OverflowError as e:
        raise OverflowError(f"{object!r:.60} does not fit {np.dtype(read_as)}: {e}. Give a wider dtype, or set "
                            f"enable_x64.") from None
    if host.dtype == np.dtype(np.object_) or host.dtype.kind in "SUOM":
        raise TypeError(f"arrays hold booleans and numbers (numeric dtypes). Value {object!r:.60}, with elements of dtype "
                        f"{host.dtype}, is not a valid JAX array type.")
    canonical = (dtypes.canonicalize_dtype if dtype is None else dtypes.array_dtype)(host.dtype)
    if dtype is None and canonical != host.dtype and host.dtype.kind in "iu" and not isinstance(
            object, (np.ndarray, np.generic)):
        for extreme in (host.min(), host.max()) if host.size else ():
            dtypes.check_int_fits(int(extreme), canonical)
    aval = ShapedArray(host.shape, canonical, weak)
    if device is not None and not weak and not tracing.is_tracing():  # without a copy on the default device
        host = np.asarray(host, canonical)
        if config.debug_nans.value or config.debug_infs.value:
            check_new(host)
        return put_leaf(host, device)
    result, writer = put_new(host, aval), tracing.staging_trace()
    return result if writer is None else writer.constant(result)  # a traced constant where all results are traced


def put_new(host: np.ndarray, aval):
    """Put a host array that has no other references on the default device. Hot: watched by the `asarray` benchmark."""
    if host.dtype != aval.dtype:
        host = host.astype(aval.dtype)
    if config.debug_nans.value or config.debug_infs.value:
        check_new(host)
    if active.mesh is not None:
        sharding, committed = unbound_sharding(), True
    else:
        sharding, committed = single_device(backends.default_device()), False
    if tracing.is_tracing():
        device = sharding.mesh.devices.flat[0] if committed else backends.default_device()
        if is_compile_only(device.client):  # it holds no arrays, not even constants of a trace
            sharding, committed = single_device(backends.client().local_devices()[0]), False
        with guards.from_host():
            return put_host(host, aval, sharding, committed)
    return put_host(host, aval, sharding, committed)


def _is_buffer(x) -> bool:
    return isinstance(x, (bytes, bytearray, memoryview))


def _sequence_dtype(leaves, kinds):
    """Return the dtype of a sequence of Python scalars, which have default dtypes, and arrays; None if NumPy decides."""
    if not leaves:
        return dtypes.default_dtype(float)
    if kinds <= dtypes.python_scalar_dtypes.keys():
        top = max(kinds, key=[bool, int, float, complex].index)
        return dtypes.default_dtype(top) if top is not int else None
    try:
        return dtypes.result_type(*[x if type(x) in dtypes.python_scalar_dtypes else np.asarray(x) for x in leaves])
    except (TypeError, ValueError):
        return None


def _from_nested(object, dtype):
    """Stack a nested sequence that contains arrays."""
    items = [array(x, dtype=dtype, copy=False) if not isinstance(x, (list, tuple)) else _from_host(x, dtype, False)
             for x in object]
    if len({np.shape(x) for x in items}) > 1:
        raise errors.incompatible_shapes("numpy.array", [("element", np.shape(x)) for x in items],
                                         "All elements of a sequence must have one shape.")
    result = _stacked(items)
    strong = result.dtype if dtype is None else dtype
    return _astype(result, strong) if result.weak_type else result


@library(name="stack")
def _stacked(items):
    dtype, _ = dtypes.lattice_result_type(*items)
    return stack([as_type(x, dtype, False) for x in items])


@library(static="dtype")
def _astype(x, dtype):
    return convert_element_type_p.bind(x, new_dtype=dtype, weak_type=False, sharding=None)


@library
def _copy(x):
    return copy_p.bind(x)


def _copy_of(x):
    """Copy an array on its devices. Without a context mesh the compiled copy is used, which is faster."""
    return _copy(x) if active.mesh is None or tracing.is_tracing() else copied(x, x._aval)


def asarray(a: Any, dtype: DTypeLike | None = None, order: str | None = None, *, copy: bool | None = None, device: Any = None,
            out_sharding: Any = None) -> Array:
    """Convert a scalar, a nested sequence or any object that NumPy can read to an array.

    An array of the requested dtype is returned without a copy.

    Args:
        a: Data. 64-bit values are converted to 32 bits unless `enable_x64` is set.
        dtype: dtype of the result. Default: inferred from the data.
        order: "K" or None; arrays have row-major order.
        copy: If True, copy an array. By default it is copied only if needed.
        device, out_sharding: Device or sharding of the result.

    Returns:
        Array with the given data.

    Example:
        >>> xnp.asarray([1, 2], dtype=xnp.float32)
        Array([1., 2.], dtype=float32)
    """
    if type(a) is ArrayImpl and dtype is None and device is None and not copy and out_sharding is None and order is None:
        return a
    if type(a) is not np.ndarray and isinstance(a, np.ndarray):
        tracing.aval_of(a)  # raises for masked arrays
    return array(a, dtype, copy=bool(copy), order="K" if order is None else order, device=device, out_sharding=out_sharding)


def copy(a: ArrayLike, order: str | None = None) -> Array:
    """Copy an array.

    Args:
        a: Array.
        order: "K" or None; arrays have row-major order.

    Returns:
        New array, which shares no memory with `a`.

    Example:
        >>> xnp.copy(xnp.array([1, 2]))
        Array([1, 2], dtype=int32)
    """
    check_arraylike("copy", a)
    return array(a, order=order or "K")


@library(static=("shape", "dtype", "value"), name="full")
def _constant_kernel(shape, dtype, value):
    if not isinstance(dtype, np.dtype):
        return key_arrays.filled(np.uint32(value), shape, dtype)
    return shapes.broadcast_in_dim_p.bind(exact(np.asarray(value).astype(dtype)[()]), shape=shape, broadcast_dimensions=(),
                                          sharding=None)


def _sizes(name: str, shape) -> tuple[int, ...]:
    """Check the shape of a new array. Hot: a tuple of ints is returned as it is."""
    if type(shape) is tuple:
        for n in shape:
            if type(n) is not int or n < 0:
                break
        else:
            return shape
    shape = shapes.static_shape(name, shape)
    if any(n < 0 for n in shape):
        raise TypeError(f"numpy.{name} needs a shape of nonnegative sizes, got {shape}.")
    return shape


def _filled(shape, value, dtype, device, name, out_sharding=None):
    d = dtypes.default_dtype(float) if dtype is None else dtypes.check_user_dtype(dtype, f"numpy.{name}")
    return _filled_with(_sizes(name, shape), value, d, device, name, out_sharding)


def _filled_with(shape, value, d, device, name, out_sharding=None):
    if not tracing.is_tracing():
        guards.check("host_to_device", "The fill value of a new array is transferred to a device")
    if device is None:
        device = None if out_sharding is None else resolve_out_sharding(f"numpy.{name}", out_sharding, shape)
        if device is None:
            return _constant_kernel(shape, d, value)
    result = placed_constant(shape, value, d, device)
    return put_leaf(_constant_kernel(shape, d, value), device) if result is None else result


def zeros(shape: int | Sequence[int], dtype: DTypeLike | None = None, *, device: Any = None, out_sharding: Any = None) -> Array:
    """Return an array of zeros.

    Args:
        shape: Shape of the array.
        dtype: dtype of the array. Default: the default float.
        device, out_sharding: Device or sharding of the array.

    Returns:
        New array.

    Example:
        >>> xnp.zeros((2, 3), dtype="int32")
        Array([[0, 0, 0],
               [0, 0, 0]], dtype=int32)
    """
    return _filled(shape, 0, dtype, device, "zeros", out_sharding)


def ones(shape: int | Sequence[int], dtype: DTypeLike | None = None, *, device: Any = None, out_sharding: Any = None) -> Array:
    """Return an array of ones.

    Args:
        shape: Shape of the array.
        dtype: dtype of the array. Default: the default float.
        device, out_sharding: Device or sharding of the array.

    Returns:
        New array.

    Example:
        >>> xnp.ones((2, 3))
        Array([[1., 1., 1.],
               [1., 1., 1.]], dtype=float32)
    """
    return _filled(shape, 1, dtype, device, "ones", out_sharding)


def empty(shape: int | Sequence[int], dtype: DTypeLike | None = None, *, device: Any = None, out_sharding: Any = None) -> Array:
    """Return an array with arbitrary content.

    Args:
        shape: Shape of the array.
        dtype: dtype of the array. Default: the default float.
        device, out_sharding: Device or sharding of the array.

    Returns:
        New array.

    Note:
        The content is zeros; there is no uninitialized memory.

    Example:
        >>> xnp.empty(3).shape
        (3,)
    """
    return _filled(shape, 0, dtype, device, "empty", out_sharding)


@library(static=("shape", "dtype", "weak"))
def _full_kernel(value, shape, dtype, weak):
    value = unwrap(value)
    aval = tracing.aval_of(value)
    if not isinstance(dtype, np.dtype) and not aval.shape:
        return key_arrays.filled(value, shape, dtype)
    if type(value) in (int, float) and dtypes.is_inexact(dtype) and not weak:  # a static value
        value = exact(as_type(value, dtype, False))
    elif aval.dtype != dtype or aval.weak_type != weak:
        value = convert_element_type_p.bind(value, new_dtype=dtype, weak_type=weak, sharding=None)
    if np.shape(value) == shape:
        return value
    rank = len(shape)
    own = np.shape(value)
    _check_fill_shape(own, shape)
    return shapes.broadcast_in_dim(value, shape, range(rank - len(own), rank))


def _check_fill_shape(own, shape):
    if len(own) > len(shape) or any(n not in (1, m) for n, m in zip(own[::-1], shape[::-1])):
        raise ValueError(str(errors.incompatible_shapes("numpy.full", [("fill value", own), ("shape", shape)],
                                                        "The fill value must broadcast to the shape.", broadcast=True)))


def full(shape: int | Sequence[int], fill_value: ArrayLike, dtype: DTypeLike | None = None, *, device: Any = None,
         out_sharding: Any = None) -> Array:
    """Return an array filled with a value.

    Args:
        shape: Shape of the array.
        fill_value: Scalar, or an array that broadcasts to `shape`.
        dtype: dtype of the array. Default: that of `fill_value`.
        device, out_sharding: Device or sharding of the array.

    Returns:
        New array.

    Example:
        >>> xnp.full((2, 2), xnp.array([1.0, 2.0]))
        Array([[1., 2.],
               [1., 2.]], dtype=float32)
    """
    check_arraylike("full", fill_value)
    d = None if dtype is None else dtypes.check_user_dtype(dtype, "numpy.full")
    fill_value = canonical_fill_value(fill_value, d)
    value_dtype, weak = dtypes.lattice_result_type(fill_value)
    d = value_dtype if d is None else d
    if np.ndim(fill_value):
        shape = shapes.static_shape("full", shape)
        _check_fill_shape(np.shape(fill_value), shape)
    shape = _sizes("full", shape)
    weak = weak and dtype is None and not is_placed(device)
    return _full(shape, fill_value, d, weak, device or resolve_out_sharding("numpy.full", out_sharding, shape))


def _full(shape, fill_value, d, weak, target):
    check_fill("numpy.full", fill_value, d)
    result = None if weak else placed_constant(shape, fill_value, d, target)
    if result is not None:
        return result
    result = _full_kernel(fill_value, shape, d, weak)
    return result if target is None else put_leaf(result, target)


def _own_dtype(aval):
    """Return the dtype of an array, or the dtype that an array described by `aval` would get while 64-bit types are off."""
    return aval.dtype if type(aval) is ShapedArray else dtypes.canonicalize_dtype(aval.dtype, True)


def _like(name, value, example):
    def function(a: ArrayLike, dtype: DTypeLike | None = None, shape: int | Sequence[int] | None = None, *, device: Any = None,
                 out_sharding: Any = None) -> Array:
        if type(a).__name__ == "MaskedArray":  # not supported as an operand, but only its type is used here
            a = np.asarray(a)
        a = unwrap(a)
        if not (hasattr(a, "dtype") and hasattr(a, "shape")):
            check_arraylike(name, a)
        aval = tracing.aval_of(a) if tracing.is_arraylike(a) else a
        own = tuple(aval.shape) if shape is None else _sizes(name, shape)
        target = device or resolve_out_sharding(f"numpy.{name}", out_sharding, own) or placement_of(a, own)
        d = _own_dtype(aval) if dtype is None else dtypes.check_user_dtype(dtype, f"numpy.{name}")
        result = _filled_with(own, value, d, target, name)
        if dtype is None and getattr(aval, "weak_type", False) and not is_placed(device):
            result = convert_element_type_p.bind(result, new_dtype=result.dtype, weak_type=True, sharding=None)
        return placed_like(result, aval, target is None and shape is None)

    function.__name__ = function.__qualname__ = name
    content = name.removesuffix("_like")
    function.__doc__ = docstring(
        function, f"Return an array of {content} with the shape, dtype and devices of another array.", example,
        {"a": "Array, or another object with a shape and a dtype.", "dtype": "dtype of the result. Default: that of `a`.",
         "shape": "Shape of the result. Default: that of `a`.",
         "device": "Device or sharding of the result. Default: that of `a`.",
         "out_sharding": "Sharding of the result. Default: that of `a`."}, "New array.")
    return function


zeros_like = _like("zeros_like", 0, """\
>>> xnp.zeros_like(xnp.array([1, 2]))
Array([0, 0], dtype=int32)""")
ones_like = _like("ones_like", 1, """\
>>> xnp.ones_like(xnp.array([1, 2]), dtype=xnp.float32)
Array([1., 1.], dtype=float32)""")


def empty_like(prototype: ArrayLike, dtype: DTypeLike | None = None, shape: int | Sequence[int] | None = None, *,
               device: Any = None) -> Array:
    """Return an array with arbitrary content and the shape, dtype and devices of another array.

    Args:
        prototype: Array, or another object with a shape and a dtype.
        dtype: dtype of the result. Default: that of `prototype`.
        shape: Shape of the result. Default: that of `prototype`.
        device: Device or sharding of the result. Default: that of `prototype`.

    Returns:
        New array.

    Note:
        The content is zeros; there is no uninitialized memory.

    Example:
        >>> xnp.empty_like(xnp.ones((2, 3)), dtype=xnp.int8).dtype
        dtype('int8')
    """
    return zeros_like(prototype, dtype, shape, device=device)


def full_like(a: ArrayLike, fill_value: ArrayLike, dtype: DTypeLike | None = None, shape: int | Sequence[int] | None = None, *,
              device: Any = None, out_sharding: Any = None) -> Array:
    """Return an array filled with a value, with the shape, dtype and devices of another array.

    Args:
        a: Array, or another object with a shape and a dtype.
        fill_value: Scalar, or an array that broadcasts to the shape of the result.
        dtype: dtype of the result. Default: that of `a`.
        shape: Shape of the result. Default: that of `a`.
        device: Device or sharding of the result. Default: that of `a`.
        out_sharding: Sharding of the result. Default: that of `a`.

    Returns:
        New array.

    Example:
        >>> xnp.full_like(xnp.array([1, 2]), 7)
        Array([7, 7], dtype=int32)
    """
    a = unwrap(a)
    check_arraylike("full_like", a) if not hasattr(a, "dtype") else None
    aval = tracing.aval_of(a) if tracing.is_arraylike(a) else a
    own = tuple(aval.shape) if shape is None else shapes.static_shape("full_like", shape)
    target = device or resolve_out_sharding("numpy.full_like", out_sharding, own)
    if target is None and not np.shape(fill_value):
        target = placement_of(a, own)
    check_arraylike("full_like", fill_value)
    d = _own_dtype(aval) if dtype is None else dtypes.check_user_dtype(dtype, "numpy.full_like")
    weak = dtype is None and getattr(aval, "weak_type", False) and not is_placed(device) and not np.ndim(fill_value)
    result = _full(own, canonical_fill_value(fill_value, d), d, weak, target)
    return placed_like(result, aval, target is None and shape is None and not np.ndim(fill_value))


def _python(x):
    return x.item() if isinstance(x, np.generic) else x


@library(static=("start", "step", "size", "dtype"), name="arange")
def _arange_kernel(start, step, size, dtype):
    counts = shapes.counting(dtype, (size,), 0)
    if start == 0 and step == 1:
        return counts
    # The same rounding as NumPy: start + i * step, computed in the result's type.
    steps = counts if step == 1 else mul(counts, np.asarray(step).astype(dtype)[()])
    return add(steps, np.asarray(start).astype(dtype)[()])


def arange(start: ArrayLike, stop: ArrayLike | None = None, step: ArrayLike | None = None, dtype: DTypeLike | None = None, *,
           device: Any = None, out_sharding: Any = None) -> Array:
    """Return evenly spaced numbers from `start` up to, but not including, `stop`.

    Args:
        start: First number. As the only argument it is `stop`, and the first number is 0.
        stop: End of the range, exclusive.
        step: Distance of the numbers. Default: 1.
        dtype: dtype of the result. Default: the promoted dtype of the arguments.
        device, out_sharding: Device or sharding of the result.

    Returns:
        Vector of `ceil((stop - start) / step)` elements.

    Note:
        The arguments must be concrete in traced functions too, since they determine the shape.

    Example:
        >>> xnp.arange(1, 10, 3)
        Array([1, 4, 7], dtype=int32)
    """
    if type(start) is int and stop is step is dtype is device is out_sharding is None:
        d = dtypes.default_dtype(int)
        dtypes.check_int_fits(start, d)
        return _arange_kernel(0, 1, max(start, 0), d)
    for name, x in (("stop" if stop is None else "start", start), ("stop", stop), ("step", step)):
        if isinstance(x, tracing.Tracer) and x._concrete() is None:
            raise errors.decides_shape("numpy.arange", name, x)
        if np.ndim(x):
            raise ValueError(f"numpy.arange takes scalars, got {name} of shape {np.shape(x)}.")
        if x is not None and dtypes.operand_type(x)[0].kind == "c":
            raise ValueError(f"numpy.arange takes real numbers, got {name}={x}: complex ones have no order.")
    if start is stop is step is None:
        raise TypeError("numpy.arange needs at least a number as stop, got None.")
    if dtype is None:
        dtype = dtypes.result_type(*[x for x in (start, stop, step) if x is not None])
    d = dtypes.check_user_dtype(dtype, "numpy.arange")
    if d == dtypes.bool_:
        raise TypeError("numpy.arange does not support dtype bool.")
    if is_symbolic((start, stop, step)):
        return _symbolic_arange(*((0, start) if stop is None else (start, stop)), 1 if step is None else step, d)
    known = [x._concrete() if isinstance(x, tracing.Tracer) else x for x in (start, stop, step)]
    start, stop, step = (x if x is None or type(x) in (int, float) else np.asarray(x)[()] for x in known)
    if stop is None:
        start, stop = 0, start
    step = 1 if step is None else step
    if step == 0:
        raise ZeroDivisionError("numpy.arange needs a step other than 0.")
    size = max(0, math.ceil((stop - start) / step))
    if not dtypes.is_integer(d) and not (start == 0 and step == 1):
        # NumPy's values exactly: it computes the elements of float ranges in a way of its own.
        result = array(np.arange(start, stop, step).astype(d))
    else:
        result = _arange_kernel(_python(start), _python(step), size, d)
    target = device or resolve_out_sharding("numpy.arange", out_sharding, np.shape(result))
    return result if target is None else put_leaf(result, target)


def _symbolic_arange(start, stop, step, d):
    """Compute `arange` of symbolic sizes."""
    numbers = [x if is_symbolic_dim(x) else np.asarray(x)[()] for x in (start, stop, step)]
    if not all([is_symbolic_dim(x) or dtypes.is_integer(x.dtype) or x.dtype == bool for x in numbers]):
        raise ValueError(f"numpy.arange with symbolic sizes takes no floats, got start={start}, stop={stop}, step={step}. Give "
                         "a dtype.")
    start, stop, step = (x if is_symbolic_dim(x) else int(x) for x in numbers)
    if step == 0:
        raise ValueError("numpy.arange needs a step other than 0.")
    size = range_size(start, stop, step)
    counts = shapes.counting(d, (size,), 0)
    return add(counts if step == 1 else mul(counts, size_scalar(step, d)), size_scalar(start, d))


@library(static=("rows", "columns", "dtype"), name="eye")
def _eye_kernel(k, rows, columns, dtype):
    i, j = (shapes.counting(dtypes.int32, (rows, columns), dimension) for dimension in (0, 1))
    return to_dtype(eq(*_diagonal_operands(i, j, k)), dtype)


def _diagonal_operands(i, j, k):
    """Return two int32 arrays that are equal on the `k`-th diagonal; below it the first is greater.

    `i` and `j` are the row and column indices.
    """
    if k is None:
        return i, j
    d = tracing.aval_of(k).dtype
    if d.itemsize == 8 or d == dtypes.uint32:
        k = min_(d.type(2**30), k)
        k = k if dtypes.is_unsigned(d) else max_(d.type(-2**30), k)
    return as_type(k, dtypes.int32, False), sub(j, i)


def diagonal_number(k, error: type[Exception] = TypeError):
    """Return the diagonal number `k`, an integer that may be traced, or None for 0: kernels specialize on the main diagonal."""
    if type(k) is int and k == 0:
        return None
    if is_symbolic_dim(k):
        return k
    if isinstance(k, tracing.Tracer) and not k.ndim and dtypes.is_integer(k.dtype):
        return k
    if isinstance(k, tracing.Tracer) or not hasattr(k, "__index__") or (
            isinstance(k, (np.ndarray, ArrayImpl)) and (k.ndim or not dtypes.is_integer(k.dtype))):
        raise (TypeError if k is None or isinstance(k, str) else error)(
            f"the number of a diagonal k must be a scalar integer, got {k.aval if isinstance(k, tracing.Tracer) else repr(k)}.")
    return min(max(k.__index__(), -2**30), 2**30)


def eye(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None, *, device: Any = None) -> Array:
    """Return a matrix with ones on a diagonal and zeros off it.

    Args:
        N, M: Number of rows and columns. Default of `M`: `N`.
        k: Diagonal: 0 for the main one, positive above, negative below. May be traced.
        dtype: dtype of the result. Default: the default float.
        device: Device or sharding of the result.

    Returns:
        Matrix of shape (N, M).

    Example:
        >>> xnp.eye(2, 3, k=1)
        Array([[0., 1., 0.],
               [0., 0., 1.]], dtype=float32)
    """
    [rows] = shapes.static_shape("eye", N)
    columns = rows if M is None else shapes.static_shape("eye", M)[0]
    if rows < 0 or columns < 0:
        raise ValueError(f"numpy.eye got a negative size: ({rows}, {columns}).")
    d = dtypes.default_dtype(float) if dtype is None else dtypes.check_user_dtype(dtype, "numpy.eye")
    result = _eye_kernel(diagonal_number(k, ValueError), rows, columns, d)
    return result if device is None else put_leaf(result, device)


def identity(n: int, dtype: DTypeLike | None = None) -> Array:
    """Return an identity matrix.

    Args:
        n: Number of rows and columns.
        dtype: dtype of the result. Default: the default float.

    Returns:
        Matrix of shape (n, n).

    Example:
        >>> xnp.identity(2)
        Array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    return eye(n, dtype=dtype)


def _triangle(name: str, m, k, upper: bool):
    check_arraylike(name, m)
    m = unwrap(m)
    shape = np.shape(m)
    if len(shape) < 2:
        raise ValueError(f"numpy.{name} needs an array with at least 2 dimensions, got shape {shape}.")
    k = diagonal_number(k)
    i, j = (shapes.counting(dtypes.int32, shape, dimension) for dimension in (len(shape) - 2, len(shape) - 1))
    below = (gt if upper else ge)(*_diagonal_operands(i, j, k))
    zero = zeros_like(m) if dtypes.is_extended(dtypes.operand_type(m)[0]) else constant_like(m, 0)
    return where(below, zero, m) if upper else where(below, m, zero)


@library
@accepts(nodes=True)
def tril(m: ArrayLike, k: int = 0) -> Array:
    """Return the lower triangle of matrices, with zeros above it.

    Args:
        m: Matrix or batch of matrices.
        k: Last nonzero diagonal: 0 for the main one, positive above, negative below. May be traced.

    Returns:
        Array of the shape and dtype of `m`.

    Example:
        >>> xnp.tril(xnp.array([[1, 2], [3, 4]]))
        Array([[1, 0],
               [3, 4]], dtype=int32)
    """
    return _triangle("tril", m, k, False)


@library
@accepts(nodes=True)
def triu(m: ArrayLike, k: int = 0) -> Array:
    """Return the upper triangle of matrices, with zeros below it.

    Args:
        m: Matrix or batch of matrices.
        k: First nonzero diagonal: 0 for the main one, positive above, negative below. May be traced.

    Returns:
        Array of the shape and dtype of `m`.

    Example:
        >>> xnp.triu(xnp.array([[1, 2], [3, 4]]))
        Array([[1, 2],
               [0, 4]], dtype=int32)
    """
    return _triangle("triu", m, k, True)


@library(static=("rows", "columns", "dtype"), name="tri")
def _tri_kernel(k, rows, columns, dtype):
    i, j = (shapes.counting(dtypes.int32, (rows, columns), dimension) for dimension in (0, 1))
    return to_dtype(ge(*_diagonal_operands(i, j, k)), dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None) -> Array:
    """Return a matrix with ones on and below a diagonal and zeros above it.

    Args:
        N, M: Number of rows and columns. Default of `M`: `N`.
        k: Diagonal: 0 for the main one, positive above, negative below. May be traced.
        dtype: dtype of the result. Default: the default float.

    Returns:
        Matrix of shape (N, M).

    Example:
        >>> xnp.tri(2, 3)
        Array([[1., 0., 0.],
               [1., 1., 0.]], dtype=float32)
    """
    rows, columns = _sizes("tri", (N, N if M is None else M))
    d = dtypes.default_dtype(float) if dtype is None else dtypes.check_user_dtype(dtype, "numpy.tri")
    return _tri_kernel(diagonal_number(k), rows, columns, d)


def astype(x: ArrayLike, dtype: DTypeLike | None, /, *, copy: bool = False, device: Any = None) -> Array:
    """Convert an array to a dtype.

    Args:
        x: Array.
        dtype: dtype of the result. None is the default float.
        copy: If True, copy the array even if it has the dtype already.
        device: Device or sharding of the result.

    Returns:
        Array with the converted elements. For complex numbers converted to real ones, the real part, with a warning.

    Example:
        >>> xnp.astype(xnp.array([1.7, -1.7]), xnp.int32)
        Array([ 1, -1], dtype=int32)
    """
    check_arraylike("astype", x)
    d = dtypes.default_dtype(float) if dtype is None else dtypes.check_user_dtype(dtype, "astype")
    x = unwrap(x)
    own = tracing.aval_of(x)
    if own.dtype.kind == "c" and isinstance(d, np.dtype) and d.kind != "c" and d != dtypes.bool_:
        source.warn("Casting from complex to real dtypes drops the imaginary part, which will be an error in a later version. "
                    "Use x.real.", DeprecationWarning)
    if not isinstance(x, (tracing.Tracer, ArrayImpl)):
        x = put_leaf(x, None)
    result: Any = x if own.dtype == d and not own.weak_type else _astype(x, d)
    if copy and result is x and type(x) is ArrayImpl:
        result = _copy(x)
    return result if device is None else _placed("astype", result, device)


def meshgrid(*xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Array, ...]:
    """Return coordinate arrays of the grid that coordinate vectors span.

    Args:
        xi: Coordinate vectors.
        copy: Must be True (for compatibility with NumPy).
        sparse: If True, each array has size 1 along the axes of the other vectors.
        indexing: "ij" orders the axes of the grid as the vectors; "xy" swaps the first two.

    Returns:
        Tuple of arrays, one for each vector.

    Example:
        >>> xnp.meshgrid(xnp.array([1, 2]), xnp.array([3, 4]))
        (Array([[1, 2],
               [1, 2]], dtype=int32), Array([[3, 3],
               [4, 4]], dtype=int32))
    """
    if not copy:
        raise ValueError("numpy.meshgrid always copies.")
    if indexing not in ("xy", "ij"):
        raise ValueError(f"numpy.meshgrid takes indexing 'xy' or 'ij', got {indexing!r}.")
    check_arraylike("meshgrid", *xi)
    xs = [asarray(x) for x in xi]
    if any(x.ndim != 1 for x in xs):
        raise ValueError("numpy.meshgrid needs vectors.")
    return _meshgrid_kernel(xs, sparse, indexing)


@library(static=("sparse", "indexing"), name="meshgrid")
def _meshgrid_kernel(xs, sparse, indexing):
    order = list(range(len(xs)))
    if indexing == "xy" and len(xs) >= 2:
        order[0], order[1] = 1, 0
    shape = [0] * len(xs)
    for x, axis in zip(xs, order):
        shape[axis] = 1 if sparse else x.shape[0]
    return tuple([shapes.broadcast_in_dim(x, tuple(x.shape[0] if i == axis else n for i, n in enumerate(shape)), (axis,))
                  for x, axis in zip(xs, order)])
