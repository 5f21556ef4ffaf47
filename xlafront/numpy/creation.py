"""Making arrays: from values, filled, counted."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.core import backends, dtypes, errors, source, tracing, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.dimensions import as_array, as_size, common_shape, is_symbolic, is_symbolic_dim, known, max_dim
from xlafront.core.keys import KeyArray
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.lax import keys, shapes, slicing
from xlafront.lax.creation import check_fill, held, is_placed, placed_constant, placed_like, placement_of
from xlafront.lax.device_put import device_put, put_leaf
from xlafront.lax.elementwise import (
    add,
    as_type,
    constant_like,
    convert_element_type_p,
    copy_p,
    div,
    eq,
    floor_,
    ge,
    gt,
    max_,
    min_,
    mul,
    real_,
    sign_,
    size_as,
    sub,
    to_dtype,
    where,
)
from xlafront.lax.resharding import target_of
from xlafront.lax.sharding_constraint import with_sharding_constraint
from xlafront.lax.stacking import stack
from xlafront.numpy.docstrings import docstring
from xlafront.numpy.promotion import (
    broadcast_to_common,
    check_arraylike,
    promote_args_inexact,
    unwrap,
)
from xlafront.numpy.ufuncs import INLINE, PUBLIC
from xlafront.runtime import config, guards
from xlafront.runtime.arrays import ArrayImpl, put_host
from xlafront.runtime.jaxlib_compat import Device
from xlafront.runtime.meshes import active
from xlafront.runtime.sharding import NamedSharding, Sharding, single_device
from xlafront.runtime.transfers import copied
from xlafront.staging.debug_nans import check_new
from xlafront.staging.device_assignment import unbound_sharding
from xlafront.staging.library import exact, library


def _wanted(dtype, name: str):
    return None if dtype is None else dtypes.check_user_dtype(dtype, f"xnp.{name}")


def array(object: Any, dtype: DTypeLike | None = None, *args: Any, copy: bool = True, order: str | None = "K", ndmin: int = 0,
          device: Any = None, out_sharding: Any = None) -> Array:
    """An array from a number, a nested sequence, an array or anything that NumPy can read.

    - `object`: what it is made of; 64-bit values become 32-bit ones unless `enable_x64` is on.
    - `dtype`: that of its elements; what promotion finds without.
    - `args`: `copy`, `order` and `ndmin` by position, which is deprecated.
    - `copy`: whether an array is copied.
    - `order`: "K" or None: all arrays have row-major order.
    - `ndmin`: the least number of dimensions; missing ones of size 1 are put in front.
    - `device`, `out_sharding`: where it is put, a device or a sharding.

    >>> xnp.array([[1, 2], [3, 4.5]])
    Array([[1. , 2. ],
           [3. , 4.5]], dtype=float32)
    """
    if args:
        warnings.warn("xnp.array takes copy, order and ndmin by name; by position they are deprecated.", DeprecationWarning,
                      stacklevel=2)
        copy, order, ndmin = (*args, *(copy, order, ndmin)[len(args):])
    if order not in ("K", None):
        raise NotImplementedError(f"arrays have row-major order: order={order!r} is not available, only 'K' or None.")
    if type(object) is not np.ndarray and isinstance(object, np.ndarray):
        object = np.asarray(object)  # of one with a mask its data
    object = unwrap(object)
    weak = dtype is None and type(object) in tracing.literal_kinds and type(object) is not bool
    wanted = getattr(object, "dtype", None) if weak else _wanted(dtype, "array")  # of numbers that know it
    if dtype in (int, float, complex):
        weak = False
    if isinstance(object, (tracing.Tracer, ArrayImpl, KeyArray)):
        result = object
        if type(result) is KeyArray:
            if wanted is not None and wanted != result.dtype:
                raise ValueError(f"xnp.array: cannot convert_element_type from {result.dtype} to {wanted}: random keys are no "
                                 f"numbers. Their words are random.key_data(keys).")
            return result.with_words(_copy_of(result._base_array)) if copy else result
        if wanted is not None and (result.aval.dtype != wanted or result.aval.weak_type):
            dtypes.warn_of_lost_parts("xnp.array", result.aval.dtype, wanted)
            result = _astype(result, wanted)
        elif copy and isinstance(result, ArrayImpl):
            writer = tracing.writing_trace()
            result = _copy_of(result) if writer is None else writer.constant(result)
        elif isinstance(result, tracing.Tracer) and result.aval.weak_type and tracing.writing_trace() is None:
            result = _copy(result)  # which may stand for a Python number
    else:
        at_once = device is not None and ndmin == 0 and isinstance(device, (Device, Sharding))
        result = _from_host(object, wanted, weak, device if at_once else None)
    if ndmin > np.ndim(result):
        result = shapes.expand_dims(result, tuple(range(ndmin - np.ndim(result))))
    target = device if out_sharding is None else target_of("xnp.array", out_sharding, np.shape(result))
    return result if target is None else _placed("array", result, target)


def _placed(name: str, x, target):
    """An array that a user gave, on the devices asked for; one that was put elsewhere on purpose does not move silently."""
    if isinstance(target, NamedSharding) and target.mesh.explicit_axes and tracing.is_tracing():
        return put_leaf(x, target)  # where types say how values are split, a constraint would only check it
    if tracing.writing_trace() is not None and isinstance(target, (Device, Sharding)):
        return with_sharding_constraint(x, single_device(target) if isinstance(target, Device) else target)
    result = device_put(x, target)
    both = type(x) is type(result) is ArrayImpl
    if both and x.committed and x.sharding.device_set != result.sharding.device_set:
        own, wanted = (", ".join(map(str, a.devices())) for a in (x, result))
        raise ValueError(f"xnp.{name} got incompatible devices: the array is on {own}, device asks for {wanted}. To move it "
                         f"use device_put.")
    return result


# What objects have that NumPy makes arrays of; and those of which it makes one number, of a dtype that is asked for.
_OF_ARRAYS = ("__array__", "__len__", "__array_interface__", "__array_struct__")
_OF_NUMBERS = ("__index__", "__float__", "__complex__")


def _from_host(object, wanted, weak, device=None):
    if is_symbolic_dim(object):
        return as_type(as_array(object), wanted or dtypes.default_dtype(int), wanted is None)
    of_ints = wanted is None and type(object) is int  # NumPy makes other types of those that are larger than 64 bits
    if isinstance(object, (list, tuple)):
        leaves = tree.leaves(object, is_leaf=lambda x: x is None)
        kinds = set(map(type, leaves))
        if not kinds <= dtypes.python_scalar_dtypes.keys():
            if type(None) in kinds:
                raise ValueError("None cannot become an element of an array; leave it out, or use nan.")
            if any(isinstance(x, (tracing.Tracer, ArrayImpl, KeyArray)) or tracing.is_convertible(x) for x in leaves):
                return _from_nested(object, wanted)
        if wanted is None:
            wanted = _sequence_dtype(leaves, kinds)
            of_ints = wanted is None and int in kinds and kinds <= {int, bool}
    elif object is None:
        raise ValueError("None cannot become an array.")
    elif not (tracing.is_arraylike(object) or _is_buffer(object)
              or any([hasattr(object, name) for name in (_OF_ARRAYS if wanted is None else (*_OF_ARRAYS, *_OF_NUMBERS))])):
        raise TypeError(f"an object of type {type(object).__name__} cannot become an array: {object!r:.60}")
    try:
        read_as = np.int64 if of_ints else wanted
        host = np.array(object, dtype=read_as) if read_as is not None else np.array(object)
    except OverflowError as e:
        raise OverflowError(f"{object!r:.60} does not fit {np.dtype(read_as)}: {e}. Give a wider dtype, or switch on "
                            f"enable_x64.") from None
    if host.dtype == np.dtype(np.object_) or host.dtype.kind in "SUOM":
        raise TypeError(f"arrays hold booleans and numbers (numeric dtypes). Value {object!r:.60}, with elements of dtype "
                        f"{host.dtype}, is not a valid JAX array type.")
    canonical = (dtypes.canonicalize_dtype if wanted is None else dtypes.of_arrays)(host.dtype)
    if wanted is None and canonical != host.dtype and host.dtype.kind in "iu" and not isinstance(
            object, (np.ndarray, np.generic)):
        for extreme in (host.min(), host.max()) if host.size else ():
            dtypes.check_int_fits(int(extreme), canonical)
    aval = ShapedArray(host.shape, canonical, weak)
    if device is not None and not weak and not tracing.is_tracing():  # at once, not by way of the default device
        host = np.asarray(host, canonical)
        if config.debug_nans.value or config.debug_infs.value:
            check_new(host)
        return put_leaf(host, device)
    made, writer = put_new(host, aval), tracing.writing_trace()
    return made if writer is None else writer.constant(made)  # in a function that is written down, as all results there


def put_new(host: np.ndarray, aval):
    """A host array that nobody else holds, on the default device. Hot: watched by the `asarray` benchmark."""
    if host.dtype != aval.dtype:
        host = host.astype(aval.dtype)
    if config.debug_nans.value or config.debug_infs.value:
        check_new(host)
    if active.mesh is not None:
        sharding, committed = unbound_sharding(), True
    else:
        sharding, committed = single_device(backends.default_device()), False
    if tracing.is_tracing():
        with guards.from_host():
            return put_host(host, aval, sharding, committed)
    return put_host(host, aval, sharding, committed)


def _is_buffer(x) -> bool:
    return isinstance(x, (bytes, bytearray, memoryview))


def _sequence_dtype(leaves, kinds):
    """The dtype of a sequence whose leaves are of these kinds: Python scalars have their default types, arrays their own."""
    if not leaves:
        return dtypes.default_dtype(float)
    if kinds <= dtypes.python_scalar_dtypes.keys():
        top = max(kinds, key=[bool, int, float, complex].index)
        return dtypes.default_dtype(top) if top is not int else None
    try:
        return dtypes.result_type(*[x if type(x) in dtypes.python_scalar_dtypes else np.asarray(x) for x in leaves])
    except (TypeError, ValueError):
        return None


def _from_nested(object, wanted):
    """Stack a nested sequence that contains arrays."""
    items = [array(x, dtype=wanted, copy=False) if not isinstance(x, (list, tuple)) else _from_host(x, wanted, False)
             for x in object]
    if len({np.shape(x) for x in items}) > 1:
        raise errors.incompatible_shapes("xnp.array", [("element", np.shape(x)) for x in items],
                                         "All elements of a sequence must have one shape.")
    result = _stacked(items)
    strong = result.dtype if wanted is None else wanted
    return _astype(result, strong) if result.weak_type else result


@library(name="stack")
def _stacked(items):
    dtype, _ = dtypes.lattice_result_type(*items)
    return stack([as_type(x, dtype, False) for x in items])


@library(static="dtype", light=True)
def _astype(x, dtype):
    return convert_element_type_p.bind(x, new_dtype=dtype, weak_type=False, sharding=None)


@library
def _copy(x):
    return copy_p.bind(x)


def _copy_of(x):
    """A copy where the array is, whatever mesh is in force; without one the compiled copy, which is faster."""
    return _copy(x) if active.mesh is None or tracing.is_tracing() else copied(x, x._aval)


def asarray(a: Any, dtype: DTypeLike | None = None, order: str | None = None, *, copy: bool | None = None, device: Any = None,
            out_sharding: Any = None) -> Array:
    """An array from a number, a nested sequence, or anything that NumPy can read; an array comes back as it is.

    - `a`: what it is made of; 64-bit values become 32-bit ones unless `enable_x64` is on.
    - `dtype`: that of its elements; what promotion finds without.
    - `order`: "K" or None: all arrays have row-major order.
    - `copy`: whether an array is copied.
    - `device`, `out_sharding`: where it is put, a device or a sharding.

    >>> xnp.asarray([1, 2], dtype=xnp.float32)
    Array([1., 2.], dtype=float32)
    """
    if type(a) is ArrayImpl and dtype is None and device is None and not copy and out_sharding is None and order is None:
        return a
    if type(a) is not np.ndarray and isinstance(a, np.ndarray):
        tracing.aval_of(a)  # refuses those with a mask
    return array(a, dtype, copy=bool(copy), order="K" if order is None else order, device=device, out_sharding=out_sharding)


def copy(a: ArrayLike, order: str | None = None) -> Array:
    """A copy of an array, in memory of its own.

    - `a`: the array.
    - `order`: "K" or None: all arrays have row-major order.

    >>> xnp.copy(xnp.array([1, 2]))
    Array([1, 2], dtype=int32)
    """
    check_arraylike("copy", a)
    return array(a, order=order or "K")


@library(static=("shape", "dtype", "value"), name="full")
def _constant_kernel(shape, dtype, value):
    if not isinstance(dtype, np.dtype):
        return keys.filled(np.uint32(value), shape, dtype)
    return shapes.broadcast_in_dim_p.bind(exact(np.asarray(value).astype(dtype)[()]), shape=shape, broadcast_dimensions=(),
                                          sharding=None)


def _sizes(name: str, shape) -> tuple[int, ...]:
    """The shape of a new array. Hot: a tuple of ints is taken as it is."""
    if type(shape) is tuple:
        for n in shape:
            if type(n) is not int or n < 0:
                break
        else:
            return shape
    shape = shapes.static_shape(name, shape)
    if any(n < 0 for n in shape):
        raise TypeError(f"the sizes of the shape that xnp.{name} got must be nonnegative: {shape}.")
    return shape


def _filled(shape, value, dtype, device, name, out_sharding=None):
    d = dtypes.default_dtype(float) if dtype is None else dtypes.check_user_dtype(dtype, f"xnp.{name}")
    return _filled_with(_sizes(name, shape), value, d, device, name, out_sharding)


def _filled_with(shape, value, d, device, name, out_sharding=None):
    if not tracing.is_tracing():
        guards.check("host_to_device", "The number that a new array is filled with comes to a device")
    if device is None:
        device = None if out_sharding is None else target_of(f"xnp.{name}", out_sharding, shape)
        if device is None:
            return _constant_kernel(shape, d, value)
    result = placed_constant(shape, value, d, device)
    return put_leaf(_constant_kernel(shape, d, value), device) if result is None else result


def zeros(shape: int | Sequence[int], dtype: DTypeLike | None = None, *, device: Any = None, out_sharding: Any = None) -> Array:
    """An array of zeros.

    - `shape`: its shape.
    - `dtype`: that of its elements, the default float without.
    - `device`, `out_sharding`: where it is put, a device or a sharding.

    >>> xnp.zeros((2, 3), dtype="int32")
    Array([[0, 0, 0],
           [0, 0, 0]], dtype=int32)
    """
    return _filled(shape, 0, dtype, device, "zeros", out_sharding)


def ones(shape: int | Sequence[int], dtype: DTypeLike | None = None, *, device: Any = None, out_sharding: Any = None) -> Array:
    """An array of ones.

    - `shape`: its shape.
    - `dtype`: that of its elements, the default float without.
    - `device`, `out_sharding`: where it is put, a device or a sharding.

    >>> xnp.ones((2, 3))
    Array([[1., 1., 1.],
           [1., 1., 1.]], dtype=float32)
    """
    return _filled(shape, 1, dtype, device, "ones", out_sharding)


def empty(shape: int | Sequence[int], dtype: DTypeLike | None = None, *, device: Any = None, out_sharding: Any = None) -> Array:
    """An array whose content does not matter; here it is zeros.

    - `shape`: its shape.
    - `dtype`: that of its elements, the default float without.
    - `device`, `out_sharding`: where it is put, a device or a sharding.

    >>> xnp.empty(3).shape
    (3,)
    """
    return _filled(shape, 0, dtype, device, "empty", out_sharding)


@library(static=("shape", "dtype", "weak"))
def _full_kernel(value, shape, dtype, weak):
    value = unwrap(value)
    aval = tracing.aval_of(value)
    if not isinstance(dtype, np.dtype) and not aval.shape:
        return keys.filled(value, shape, dtype)
    if type(value) in (int, float) and dtypes.is_inexact(dtype) and not weak:  # known when tracing
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
        raise ValueError(str(errors.incompatible_shapes("xnp.full", [("fill value", own), ("shape", shape)],
                                                        "The fill value must broadcast to the shape.", broadcast=True)))


def full(shape: int | Sequence[int], fill_value: ArrayLike, dtype: DTypeLike | None = None, *, device: Any = None,
         out_sharding: Any = None) -> Array:
    """An array of one value repeated.

    - `shape`: its shape.
    - `fill_value`: the value, or an array that broadcasts to the shape.
    - `dtype`: that of its elements; the value's without.
    - `device`, `out_sharding`: where it is put, a device or a sharding.

    >>> xnp.full((2, 2), xnp.array([1.0, 2.0]))
    Array([[1., 2.],
           [1., 2.]], dtype=float32)
    """
    check_arraylike("full", fill_value)
    d = None if dtype is None else dtypes.check_user_dtype(dtype, "xnp.full")
    fill_value = held(fill_value, d)
    value_dtype, weak = dtypes.lattice_result_type(fill_value)
    d = value_dtype if d is None else d
    if np.ndim(fill_value):
        shape = shapes.static_shape("full", shape)
        _check_fill_shape(np.shape(fill_value), shape)
    shape = _sizes("full", shape)
    weak = weak and dtype is None and not is_placed(device)
    return _full(shape, fill_value, d, weak, device or target_of("xnp.full", out_sharding, shape))


def _full(shape, fill_value, d, weak, target):
    check_fill("xnp.full", fill_value, d)
    result = None if weak else placed_constant(shape, fill_value, d, target)
    if result is not None:
        return result
    result = _full_kernel(fill_value, shape, d, weak)
    return result if target is None else put_leaf(result, target)


def _own_dtype(aval):
    """Of an array as it is, of what describes one that which it would get: 64-bit types may be off by now."""
    return aval.dtype if type(aval) is ShapedArray else dtypes.canonicalize_dtype(aval.dtype, True)


def _like(name, value, example):
    def function(a: ArrayLike, dtype: DTypeLike | None = None, shape: int | Sequence[int] | None = None, *, device: Any = None,
                 out_sharding: Any = None) -> Array:
        if type(a).__name__ == "MaskedArray":  # which is no operand; but here only its type counts
            a = np.asarray(a)
        a = unwrap(a)
        if not (hasattr(a, "dtype") and hasattr(a, "shape")):
            check_arraylike(name, a)
        aval = tracing.aval_of(a) if tracing.is_arraylike(a) else a
        own = tuple(aval.shape) if shape is None else _sizes(name, shape)
        target = device or target_of(f"xnp.{name}", out_sharding, own) or placement_of(a, own)
        d = _own_dtype(aval) if dtype is None else dtypes.check_user_dtype(dtype, f"xnp.{name}")
        result = _filled_with(own, value, d, target, name)
        if dtype is None and getattr(aval, "weak_type", False) and not is_placed(device):
            result = convert_element_type_p.bind(result, new_dtype=result.dtype, weak_type=True, sharding=None)
        return placed_like(result, aval, target is None and shape is None)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = docstring(
        function, f"As `{name.removesuffix('_like')}`, with the shape, the dtype and the devices of another array.", example,
        {"a": "that array, or anything with a shape and a dtype."} | dict.fromkeys(
            ("dtype", "shape", "device", "out_sharding"), "these in place of its own."))
    return function


zeros_like = _like("zeros_like", 0, """\
>>> xnp.zeros_like(xnp.array([1, 2]))
Array([0, 0], dtype=int32)""")
ones_like = _like("ones_like", 1, """\
>>> xnp.ones_like(xnp.array([1, 2]), dtype=xnp.float32)
Array([1., 1.], dtype=float32)""")


def empty_like(prototype: ArrayLike, dtype: DTypeLike | None = None, shape: int | Sequence[int] | None = None, *,
               device: Any = None) -> Array:
    """As `empty`, with the shape, the dtype and the devices of another array.

    - `prototype`: that array, or anything with a shape and a dtype.
    - `dtype`, `shape`, `device`: these in place of its own.

    >>> xnp.empty_like(xnp.ones((2, 3)), dtype=xnp.int8).dtype
    dtype('int8')
    """
    return zeros_like(prototype, dtype, shape, device=device)


def full_like(a: ArrayLike, fill_value: ArrayLike, dtype: DTypeLike | None = None, shape: int | Sequence[int] | None = None, *,
              device: Any = None, out_sharding: Any = None) -> Array:
    """As `full`, with the shape, the dtype and the devices of another array.

    - `a`: that array, or anything with a shape and a dtype.
    - `fill_value`: the value that is repeated, or an array that broadcasts to the shape.
    - `dtype`, `shape`, `device`, `out_sharding`: these in place of its own.

    >>> xnp.full_like(xnp.array([1, 2]), 7)
    Array([7, 7], dtype=int32)
    """
    a = unwrap(a)
    check_arraylike("full_like", a) if not hasattr(a, "dtype") else None
    aval = tracing.aval_of(a) if tracing.is_arraylike(a) else a
    own = tuple(aval.shape) if shape is None else shapes.static_shape("full_like", shape)
    target = device or target_of("xnp.full_like", out_sharding, own)
    if target is None and not np.shape(fill_value):
        target = placement_of(a, own)
    check_arraylike("full_like", fill_value)
    d = _own_dtype(aval) if dtype is None else dtypes.check_user_dtype(dtype, "xnp.full_like")
    weak = dtype is None and getattr(aval, "weak_type", False) and not is_placed(device) and not np.ndim(fill_value)
    result = _full(own, held(fill_value, d), d, weak, target)
    return placed_like(result, aval, target is None and shape is None and not np.ndim(fill_value))


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
    """Evenly spaced numbers. How many there are must be known, also inside of a traced function.

    - `start`: the first number; as the only argument it is `stop`, and the first number is 0.
    - `stop`: the end, which is not one of them.
    - `step`: their distance, 1 without.
    - `dtype`: that of the result; what the arguments promote to without.
    - `device`, `out_sharding`: where it is put, a device or a sharding.

    >>> xnp.arange(1, 10, 3)
    Array([1, 4, 7], dtype=int32)
    """
    if type(start) is int and stop is step is dtype is device is out_sharding is None:
        d = dtypes.default_dtype(int)
        dtypes.check_int_fits(start, d)
        return _arange_kernel(0, 1, max(start, 0), d)
    for name, x in (("stop" if stop is None else "start", start), ("stop", stop), ("step", step)):
        if isinstance(x, tracing.Tracer) and x._concrete() is None:
            raise errors.decides_shape("xnp.arange", name, x)
        if np.ndim(x):
            raise ValueError(f"xnp.arange takes scalars, got {name} of shape {np.shape(x)}.")
        if x is not None and dtypes.operand_type(x)[0].kind == "c":
            raise ValueError(f"xnp.arange takes real numbers, got {name}={x}: complex ones have no order.")
    if start is stop is step is None:
        raise TypeError("xnp.arange needs at least a number to stop at, got None.")
    if dtype is None:
        dtype = dtypes.result_type(*[x for x in (start, stop, step) if x is not None])
    d = dtypes.check_user_dtype(dtype, "xnp.arange")
    if d == dtypes.bool_:
        raise TypeError("xnp.arange makes numbers, not booleans.")
    if is_symbolic((start, stop, step)):
        return _symbolic_arange(*((0, start) if stop is None else (start, stop)), 1 if step is None else step, d)
    known = [x._concrete() if isinstance(x, tracing.Tracer) else x for x in (start, stop, step)]
    start, stop, step = (x if x is None or type(x) in (int, float) else np.asarray(x)[()] for x in known)
    if stop is None:
        start, stop = 0, start
    step = 1 if step is None else step
    if step == 0:
        raise ZeroDivisionError("xnp.arange needs a step other than 0.")
    size = max(0, math.ceil((stop - start) / step))
    if not dtypes.is_integer(d) and not (start == 0 and step == 1):
        # Exactly NumPy's values, which for floats come from its own way of counting.
        result = array(np.arange(start, stop, step).astype(d))
    else:
        result = _arange_kernel(_python(start), _python(step), size, d)
    target = device or target_of("xnp.arange", out_sharding, np.shape(result))
    return result if target is None else put_leaf(result, target)


def _symbolic_arange(start, stop, step, d):
    """From and to sizes that are not known."""
    start, stop, step = (as_size(x) for x in (start, stop, step))
    size = (max_dim(stop - start if step > 0 else start - stop, 0) + abs(step) - 1) // abs(step)
    counts = shapes.counting(d, (size,), 0)
    return add(counts if step == 1 else mul(counts, size_as(step, d)), size_as(start, d))


def _python(x):
    return x.item() if isinstance(x, np.generic) else x


def _evenly_spaced(start, stop, num, endpoint, axis, dtype):
    start, stop = promote_args_inexact("linspace", start, stop)
    d = tracing.aval_of(start).dtype
    start, stop = as_type(start, d, False), as_type(stop, d, False)
    shape = common_shape(np.shape(start), np.shape(stop))
    start, stop = (x if np.shape(x) == shape else shapes.broadcast_in_dim(x, shape, ()) for x in (start, stop))
    steps = max_dim(num - 1 if endpoint else num, 1)
    ends = endpoint and known(num, 2) > 1  # in `stop` itself, whatever is lost in computing the others
    between = num - 1 if ends else num
    counts = shapes.counting(dtypes.to_real(d), (between, *shape), 0)
    counts = as_type(div(counts, size_as(steps, dtypes.to_real(d))), d, False)

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


def linspace(start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, retstep: bool = False,
             dtype: DTypeLike | None = None, axis: int = 0, *, device: Any = None) -> Array | tuple[Array, Array]:
    """Evenly spaced numbers from `start` to `stop`.

    - `start`, `stop`: the ends, numbers or arrays.
    - `num`: how many.
    - `endpoint`: whether `stop` is the last of them.
    - `retstep`: whether to return their distance too.
    - `dtype`: that of the result; a floating one without. Integers are rounded down.
    - `axis`: the axis of the result along which they lie, where the ends are arrays.
    - `device`: where it is put, a device or a sharding.

    >>> xnp.linspace(0.0, 1.0, 5)
    Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    result = _linspace(start, stop, num, endpoint, retstep, dtype, axis)
    if device is None:
        return result
    return (put_leaf(result[0], device), result[1]) if retstep else put_leaf(result, device)


@library(static=("num", "endpoint", "retstep", "dtype", "axis"), lists=("num", "axis"))
def _linspace(start, stop, num, endpoint, retstep, dtype, axis):
    if isinstance(num, tracing.Tracer):
        raise errors.decides_shape("xnp.linspace", "num", num)
    num = shapes.static_shape("linspace", num)[0]
    if num < 0:
        raise ValueError(f"xnp.linspace needs a number of samples of at least 0, got {num}.")
    check_arraylike("linspace", start, stop)
    d = dtypes.to_inexact(dtypes.result_type(start, stop)) if dtype is None else dtypes.check_user_dtype(
        dtype, "xnp.linspace")
    rank = max(np.ndim(start), np.ndim(stop)) + 1
    result = _evenly_spaced(start, stop, num, bool(endpoint), shapes.canonical_axis(axis, rank, "linspace"), d)
    if not retstep:
        return result
    divisions = num - 1 if endpoint else num
    step = (asarray(stop) - start) / divisions if divisions > 0 else array(np.nan, d)
    return result, asarray(step, dtype=d)


def _geomspaced(start, stop, num, endpoint, axis, dtype):
    d = dtypes.to_inexact(dtype)
    start, stop = (as_type(x, d, False) for x in broadcast_to_common("geomspace", [unwrap(start), unwrap(stop)]))
    sign = sign_(start)
    logs = [INLINE["log10"](div(x, sign)) for x in (start, stop)]
    result = INLINE["power"](d.type(10), _evenly_spaced(*logs, num, endpoint, 0, d))
    shape = np.shape(result)
    result = mul(result, shapes.broadcast_in_dim(sign, shape, range(len(shape) - np.ndim(sign), len(shape))))
    return shapes.move_dim(as_type(result, dtype, False), 0, axis)


@library(static=("num", "endpoint", "dtype", "axis"), lists=("num", "axis"))
def geomspace(start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, dtype: DTypeLike | None = None,
              axis: int = 0) -> Array:
    """Numbers from `start` to `stop` in constant ratio.

    - `start`, `stop`: the ends, numbers or arrays.
    - `num`: how many.
    - `endpoint`: whether `stop` is the last of them.
    - `dtype`: that of the result.
    - `axis`: the axis along which they lie.

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
        return dtypes.check_user_dtype(dtype, f"xnp.{name}")
    return dtypes.to_inexact(dtypes.of_arrays(dtypes.result_type(start, stop)))


@library(static=("num", "endpoint", "dtype", "axis"), lists=("num", "axis"))
def logspace(start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, base: ArrayLike = 10.0,
             dtype: DTypeLike | None = None, axis: int = 0) -> Array:
    """A number to evenly spaced powers.

    - `start`, `stop`: the ends of the powers, numbers or arrays.
    - `num`: how many.
    - `endpoint`: whether `stop` is the last of them.
    - `base`: the number.
    - `dtype`: that of the result.
    - `axis`: the axis along which they lie.

    >>> xnp.logspace(0, 3, 4, base=2.0)
    Array([1., 2., 4., 8.], dtype=float32)
    """
    d = _space_dtype(start, stop, dtype, "logspace")
    compute = dtypes.to_inexact(d)
    powers = linspace(start, stop, num, endpoint, dtype=compute, axis=axis)
    result = PUBLIC["power"](base, powers)
    return result if result.dtype == d else _astype(result, d)


@library(static=("rows", "columns", "dtype"), name="eye")
def _eye_kernel(k, rows, columns, dtype):
    i, j = (shapes.counting(dtypes.int32, (rows, columns), dimension) for dimension in (0, 1))
    return to_dtype(eq(*_sides(i, j, k)), dtype)


def _sides(i, j, k):
    """What is equal on the `k`-th diagonal, for rows and columns in int32; the first is greater below it."""
    if k is None:
        return i, j
    d = tracing.aval_of(k).dtype
    if d.itemsize == 8 or d == dtypes.uint32:
        k = min_(d.type(2**30), k)
        k = k if dtypes.is_unsigned(d) else max_(d.type(-2**30), k)
    return as_type(k, dtypes.int32, False), sub(j, i)


def diagonal_number(k, error: type[Exception] = TypeError):
    """Which diagonal a user means: None for the main one, which kernels know, or an integer, which may be traced."""
    if type(k) is int and k == 0:
        return None
    if isinstance(k, tracing.Tracer) and not k.ndim and dtypes.is_integer(k.dtype):
        return k
    if isinstance(k, tracing.Tracer) or not hasattr(k, "__index__") or (
            isinstance(k, (np.ndarray, ArrayImpl)) and (k.ndim or not dtypes.is_integer(k.dtype))):
        raise (TypeError if k is None or isinstance(k, str) else error)(
            f"the number of a diagonal k must be a scalar integer, got {k.aval if isinstance(k, tracing.Tracer) else repr(k)}.")
    k = as_size(k)
    return k if is_symbolic_dim(k) else min(max(k, -2**30), 2**30)


def eye(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None, *, device: Any = None) -> Array:
    """Ones on a diagonal, zeros elsewhere.

    - `N`, `M`: the number of rows and of columns; square without `M`.
    - `k`: which diagonal, counted upwards from the main one; it may be traced.
    - `dtype`: that of the result, the default float without.
    - `device`: where it is put, a device or a sharding.

    >>> xnp.eye(2, 3, k=1)
    Array([[0., 1., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    [rows] = shapes.static_shape("eye", N)
    columns = rows if M is None else shapes.static_shape("eye", M)[0]
    if rows < 0 or columns < 0:
        raise ValueError(f"xnp.eye got a negative size: ({rows}, {columns}).")
    d = dtypes.default_dtype(float) if dtype is None else dtypes.check_user_dtype(dtype, "xnp.eye")
    result = _eye_kernel(diagonal_number(k, ValueError), rows, columns, d)
    return result if device is None else put_leaf(result, device)


def identity(n: int, dtype: DTypeLike | None = None) -> Array:
    """The identity matrix.

    - `n`: the number of its rows and columns.
    - `dtype`: that of its elements, the default float without.

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
        raise ValueError(f"xnp.{name} needs an array with at least 2 dimensions, got shape {shape}.")
    k = diagonal_number(k)
    i, j = (shapes.counting(dtypes.int32, shape, dimension) for dimension in (len(shape) - 2, len(shape) - 1))
    below = (gt if upper else ge)(*_sides(i, j, k))
    zero = zeros_like(m) if dtypes.is_extended(dtypes.operand_type(m)[0]) else constant_like(m, 0)
    return where(below, zero, m) if upper else where(below, m, zero)


@library
def tril(m: ArrayLike, k: int = 0) -> Array:
    """The lower triangles of matrices, with zeros above.

    - `m`: the matrices, an array of two or more dimensions.
    - `k`: the diagonal up to which they go, counted upwards from the main one; it may be traced.

    >>> xnp.tril(xnp.array([[1, 2], [3, 4]]))
    Array([[1, 0],
           [3, 4]], dtype=int32)
    """
    return _triangle("tril", m, k, False)


@library
def triu(m: ArrayLike, k: int = 0) -> Array:
    """The upper triangles of matrices, with zeros below.

    - `m`: the matrices, an array of two or more dimensions.
    - `k`: the diagonal from which they go, counted upwards from the main one; it may be traced.

    >>> xnp.triu(xnp.array([[1, 2], [3, 4]]))
    Array([[1, 2],
           [0, 4]], dtype=int32)
    """
    return _triangle("triu", m, k, True)


@library(static=("rows", "columns", "dtype"), name="tri")
def _tri_kernel(k, rows, columns, dtype):
    i, j = (shapes.counting(dtypes.int32, (rows, columns), dimension) for dimension in (0, 1))
    return to_dtype(ge(*_sides(i, j, k)), dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None) -> Array:
    """Ones on and below a diagonal, zeros above.

    - `N`, `M`: the number of rows and of columns; square without `M`.
    - `k`: which diagonal, counted upwards from the main one; it may be traced.
    - `dtype`: that of the result, float32 without.

    >>> xnp.tri(2, 3)
    Array([[1., 0., 0.],
           [1., 1., 0.]], dtype=float32)
    """
    rows, columns = _sizes("tri", (N, N if M is None else M))
    d = dtypes.float32 if dtype is None else dtypes.check_user_dtype(dtype, "xnp.tri")
    return _tri_kernel(diagonal_number(k), rows, columns, d)


def astype(x: ArrayLike, dtype: DTypeLike | None, /, *, copy: bool = False, device: Any = None) -> Array:
    """An array converted to a dtype. Of complex numbers as real ones the real part stays, with a warning.

    - `x`: the array.
    - `dtype`: the dtype; None is the default float.
    - `copy`: whether to copy an array that has the dtype already.
    - `device`: where the result is put, a device or a sharding.

    >>> xnp.astype(xnp.array([1.7, -1.7]), xnp.int32)
    Array([ 1, -1], dtype=int32)
    """
    check_arraylike("astype", x)
    d = dtypes.default_dtype(float) if dtype is None else dtypes.check_user_dtype(dtype, "astype")
    x = unwrap(x)
    own = tracing.aval_of(x)
    if own.dtype.kind == "c" and isinstance(d, np.dtype) and d.kind != "c" and d != dtypes.bool_:
        source.warn("Casting from complex to real dtypes drops the imaginary part, which a later version will refuse. Use "
                    "x.real.", DeprecationWarning)
    if not isinstance(x, (tracing.Tracer, ArrayImpl)):
        x = put_leaf(x, None)
    result = x if own.dtype == d and not own.weak_type else _astype(x, d)
    if copy and result is x and type(x) is ArrayImpl:
        result = _copy(x)
    return result if device is None else _placed("astype", result, device)


def meshgrid(*xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> list[Array]:
    """For each of some vectors of coordinates an array over the grid that they span.

    - `xi`: the vectors.
    - `copy`: of NumPy's signature; it must be True.
    - `sparse`: whether arrays have size 1 along the axes of the other vectors.
    - `indexing`: "ij", where the axes are those of the vectors in their order, or "xy", where the first two change places.

    >>> xnp.meshgrid(xnp.array([1, 2]), xnp.array([3, 4]))
    [Array([[1, 2],
           [1, 2]], dtype=int32), Array([[3, 3],
           [4, 4]], dtype=int32)]
    """
    if not copy:
        raise ValueError("xnp.meshgrid always copies.")
    if indexing not in ("xy", "ij"):
        raise ValueError(f"xnp.meshgrid takes indexing 'xy' or 'ij', got {indexing!r}.")
    check_arraylike("meshgrid", *xi)
    xs = [asarray(x) for x in xi]
    if any(x.ndim != 1 for x in xs):
        raise ValueError("xnp.meshgrid needs vectors.")
    return _meshgrid_kernel(xs, sparse, indexing)


@library(static=("sparse", "indexing"), name="meshgrid")
def _meshgrid_kernel(xs, sparse, indexing):
    order = list(range(len(xs)))
    if indexing == "xy" and len(xs) >= 2:
        order[0], order[1] = 1, 0
    shape = [0] * len(xs)
    for x, axis in zip(xs, order):
        shape[axis] = 1 if sparse else x.shape[0]
    return [shapes.broadcast_in_dim(x, tuple(x.shape[0] if i == axis else n for i, n in enumerate(shape)), (axis,))
            for x, axis in zip(xs, order)]


def frombuffer(buffer: Any, dtype: DTypeLike = float, count: int = -1, offset: int = 0) -> Array:
    """A vector of the numbers that the bytes of a buffer are.

    - `buffer`: `bytes`, or another object with a buffer.
    - `dtype`: the dtype of the numbers.
    - `count`: how many to read; -1 for all.
    - `offset`: at which byte to begin.

    >>> xnp.frombuffer(b"abc", dtype=xnp.uint8)
    Array([97, 98, 99], dtype=uint8)
    """
    return array(np.frombuffer(buffer, dtype=dtypes.dtype(dtype), count=count, offset=offset))


def fromiter(*args: Any, **kwargs: Any) -> Array:
    """A vector of the numbers that an iterator gives.

    - `args`, `kwargs`: the arguments of `numpy.fromiter`: the iterator, a dtype, and at most how many (`count`).

    >>> xnp.fromiter((i * i for i in range(4)), dtype=int)
    Array([0, 1, 4, 9], dtype=int32)
    """
    return array(np.fromiter(*args, **kwargs))


def fromstring(string: str, dtype: DTypeLike = float, count: int = -1, *, sep: str) -> Array:
    """A vector of the numbers in a text.

    - `string`: the text.
    - `dtype`: the dtype of the numbers.
    - `count`: how many to read; -1 for all.
    - `sep`: what stands between numbers.

    >>> xnp.fromstring("1, 2, 3", sep=",")
    Array([1., 2., 3.], dtype=float32)
    """
    return array(np.fromstring(string, dtype=dtypes.dtype(dtype), count=count, sep=sep))
