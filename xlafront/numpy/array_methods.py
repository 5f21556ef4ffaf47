"""Operators and methods of arrays, attached to concrete arrays and to tracers.

Operators of concrete arrays call the dispatcher of a compiled function, those of tracers the Python function.
"""

from __future__ import annotations

import builtins
import sys
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from xlafront.core import dtypes, errors, source, tracing
from xlafront.core.avals import ShapedArray, entry_of, without_dimension
from xlafront.core.basic_primitives import reshard_p
from xlafront.core.refs import AbstractRef
from xlafront.core.staging import StagedTracer
from xlafront.core.traceback_filter import boundary, filter_traceback
from xlafront.core.tracing import Tracer
from xlafront.core.typing import ArrayLike, DTypeLike
from xlafront.lax import (
    resharding,  # noqa: F401 (types over explicit axes)
    sharding_rules,  # noqa: F401 (types over explicit axes)
)
from xlafront.lax.device_put import device_put
from xlafront.numpy import (
    creation,
    diagonals,
    habits,
    indexing,
    linear,
    manipulation,
    reductions,
    repeating,
    searching,
    sorting,
    ufunc_methods,  # noqa: F401 (methods of functions)
    ufuncs,
    updates,
    views,
)
from xlafront.numpy.dlpack import device_of, to_dlpack
from xlafront.numpy.promotion import check_arraylike, unwrap
from xlafront.runtime import backends
from xlafront.runtime.arrays import ArrayImpl, put_host
from xlafront.runtime.keys import KeyArray
from xlafront.runtime.sharding import single_device


class _ArrayMeta(type):
    """Metaclass that makes concrete arrays and tracers instances of `Array`, from which neither inherits."""

    def __instancecheck__(cls, instance):
        kind = type(instance)
        return kind is ArrayImpl or kind is KeyArray or (
            isinstance(instance, Tracer) and type(instance.aval) is not AbstractRef)

    def __subclasscheck__(cls, subclass):
        return subclass is cls or subclass is ArrayImpl or issubclass(subclass, (Tracer, KeyArray))

    def __getattr__(cls, name):
        return getattr(ArrayImpl, name)


class Array(metaclass=_ArrayMeta):
    """Array on one or more devices, or a tracer that represents one; for `isinstance` and annotations.

    Arrays are immutable. They are created by `xlafront.numpy` and returned by compiled functions. They have NumPy's operators
    and methods except for those that write: `x.at[i].set(y)` returns a new array. The runtime adds:

    - `x.block_until_ready()`: Wait until the elements are computed, and return the array itself.
    - `x.delete()`: Free the memory now. `x.is_deleted()`: True after that. `x.clone()`: A second array with the same memory.
    - `x.on_device_size_in_bytes()`, `x.unsafe_buffer_pointer()`: Size and address of the memory; with newer versions of jaxlib
      `x.unsafe_raw_buffer()` too.
    - `x.traceback`: Stack at the creation of the array. `x.aval`: Its abstract value, as transformations see it.

    Example:
        >>> x = xnp.arange(3) * 2
        >>> isinstance(x, xf.Array), x.block_until_ready() is x
        (True, True)
    """

    __slots__ = ()

    def __new__(cls, *args, **kwargs):
        raise TypeError("Array cannot be called: create arrays with xlafront.numpy.array, zeros, arange, ...")


# special method -> function; the reflected methods are derived from it
BINARY_OPERATORS = {
    "__add__": "add", "__sub__": "subtract", "__mul__": "multiply", "__truediv__": "true_divide",
    "__floordiv__": "floor_divide", "__mod__": "remainder", "__divmod__": "divmod", "__pow__": "power",
    "__matmul__": "matmul", "__and__": "bitwise_and", "__or__": "bitwise_or", "__xor__": "bitwise_xor",
    "__lshift__": "left_shift", "__rshift__": "right_shift",
}
COMPARISONS = {"__eq__": "equal", "__ne__": "not_equal", "__lt__": "less", "__le__": "less_equal",
               "__gt__": "greater", "__ge__": "greater_equal"}
UNARY_OPERATORS = {"__neg__": "negative", "__pos__": "positive", "__abs__": "abs", "__invert__": "bitwise_not"}

_scalars = frozenset((int, float, complex, bool))
_CONTAINERS = (list, tuple, set, dict)


def _operand(other) -> bool:
    """True if an operator supports this as its other operand; lists, strings and None get Python's own error."""
    kind = type(other)
    if kind in _scalars or kind is ArrayImpl or kind is StagedTracer and type(other.aval) is ShapedArray:  # hot
        return True
    if tracing.is_operand(other):
        return True
    return not tracing.is_convertible(other) and tracing.is_arraylike(other)


def _binary(function, reflected: bool):
    def operator(self, other):
        if not _operand(other):
            return operator(self, unwrap(other)) if tracing.is_convertible(other) else NotImplemented
        try:
            return function(other, self) if reflected else function(self, other)
        except Exception as e:
            filter_traceback(e)
            raise

    return operator


def _comparison(function):
    """Return a comparison operator.

    Unlike `_binary` it raises for containers: Python would treat NotImplemented as unequal.
    """
    def operator(self, other):
        if other is None:
            return NotImplemented
        if not _operand(other) and type(other) not in _CONTAINERS:  # subclasses, such as named tuples, get NotImplemented
            return operator(self, unwrap(other)) if tracing.is_convertible(other) else NotImplemented
        try:
            return function(self, other)
        except Exception as e:
            filter_traceback(e)
            raise

    return operator


def _concrete(function, traced):
    """Return the operator of concrete arrays, which calls the compiled function. Hot: eager `x + y`."""
    def operator(self, other):
        kind = type(other)
        if kind is ArrayImpl or kind in _scalars:
            try:
                return function(self, other)
            except Exception as e:
                if "deleted or donated" in str(e):  # `_check_if_deleted` raises a better message than the runtime
                    for x in (self, other):
                        if type(x) is ArrayImpl:
                            x._check_if_deleted()
                filter_traceback(e)
                raise
        return traced(self, other)

    return operator


# Conversions to Python go through `np.asarray`: on the CPU NumPy reads the memory directly, several times faster than `_value`;
# on other devices it uses `_value`.


def _need_scalar(x, name: str):
    if x.ndim:
        raise errors.not_a_scalar(name, x.shape)
    value = np.asarray(x)[()]
    if name != "complex" and value.dtype.kind == "c":
        raise TypeError(f"{name}() does not support complex numbers: use x.real or abs(x).")
    return value


def _bool(self):
    if self.size != 1:
        raise errors.ambiguous_truth(self.shape)
    return bool(np.asarray(self).item())


def _index(self):
    if self.ndim or not dtypes.is_integer(self.dtype):
        raise errors.not_an_index(self.aval)
    return int(np.asarray(self))


def _item(self, *args: int) -> bool | int | float | complex:
    """Return one element as a Python scalar.

    It blocks until the array is computed.

    Args:
        args: Position of the element; may be omitted for arrays of size 1.

    Returns:
        Python scalar.

    Example:
        >>> xnp.array([1, 2]).item(1)
        2
    """
    value = np.asarray(self)
    if args:
        return value.item(*args)
    if self.size != 1:
        raise ValueError(f"item() converts an array of size 1 to a Python scalar; with {self.size} elements it needs the "
                         "position of one.")
    return value.item()


def _array(self, dtype=None, copy=None):
    value = self._value
    if dtype is not None and dtype != value.dtype:
        if copy is False:
            raise ValueError(f"an array of dtype {value.dtype} cannot be converted to dtype {np.dtype(dtype)} without a copy. "
                             "Leave copy=False out.")
        return value.astype(dtype)
    return np.array(value) if copy else value


def _iter(self):
    if self.ndim == 0:
        raise TypeError("iteration over a 0-d array (one without dimensions)")
    return _rows(self)


def _reversed(self):
    if self.ndim == 0:
        raise TypeError("iteration over a 0-d array (one without dimensions)")
    return (row for row in reversed(tuple(self)))


def _rows(self):
    """Yield the rows of an array.

    Arrays on one device are sliced there, a chunk at a time. Rows of sharded arrays are read on the host: sliced on the devices
    each row would be sent to all of them.
    """
    n = int(self.shape[0])
    if type(self) is ArrayImpl and not self.is_fully_replicated and self.is_fully_addressable:
        sharding = single_device(backends.default_device())
        row_aval = without_dimension(self.aval, 0)
        for row in np.asarray(self):
            yield put_host(row, row_aval, sharding, False)
        return
    chunk = builtins.max(n, 1) if isinstance(self, StagedTracer) else 128  # a jaxpr has one operation
    if entry_of(tracing.aval_of(self), 0) is not None:  # the rows are sharded
        own = tracing.aval_of(self).explicit_sharding
        self = reshard_p.bind(self, dst_sharding=own.update(spec=own.spec.update(partitions=(None, *own.spec[1:]))))
    if isinstance(self, Tracer) and self._trace.extends:  # other libraries' traces have rules for slices
        yield from (indexing.getitem(self, i) for i in range(n))
        return
    for start in range(0, n, chunk):
        rows = self if n <= chunk else indexing.getitem(self, slice(start, builtins.min(start + chunk, n)))
        yield from manipulation.unstack(rows)


def _len(self):
    shape = self.shape
    if not shape:
        raise TypeError("len() of an unsized object: an array without dimensions (0-d)")
    return shape[0]


def _contains(self, item):
    check_arraylike("Array.__contains__", item)
    if self.ndim != 1 or np.ndim(item):
        raise ValueError(f"`in` searches for a scalar in an array, got shapes {np.shape(item)} and {self.shape}: "
                         f"the search array must be one-dimensional, the query a scalar. Use (x == y).any().")
    return bool(reductions.any(ufuncs.PUBLIC["equal"](self, item)))


def _setitem(self, key, value):
    shown = errors.short(key) if not isinstance(key, tuple) else ", ".join(errors.short(k) for k in key)
    sign = habits.augmented_operator(*source.current_site()[:2])
    method = habits.UPDATES.get(sign, "set")
    raise TypeError(f"arrays are immutable and do not support item assignment, x[{shown}] {sign} y. Write "
                    f"x = x.at[{shown}].{method}(y).")


def _delitem(self, key):
    raise AttributeError("__delitem__: arrays are immutable, their elements cannot be deleted. Select the remaining ones, as "
                         "in x[numpy.array(indices)].")


# Text


def _repr(self):
    self._check_if_deleted()
    aval = self.aval
    tail = f"dtype={aval.dtype.name}" + (", weak_type=True" if aval.weak_type else "")
    if not _is_readable(self):
        return f"Array(shape={aval.shape}, {tail}, sharding={self.sharding})"
    value = self._value
    if value.size == 0:
        return f"Array([], shape={aval.shape}, {tail})"
    text = np.array2string(value, separator=", ", prefix="Array(", suffix=",")
    last = text[text.rfind("\n") + 1:]
    gap = " " if len(last) + len(tail) + 4 <= np.get_printoptions()["linewidth"] else " " * len("Array(")
    return f"Array({text},{gap}{tail})"


def _str(self):
    plain = isinstance(self.dtype, np.dtype) and _is_readable(self)
    return str(self._value) if plain else _repr(self)


def _is_readable(self) -> bool:
    """True if this process has all elements."""
    if getattr(getattr(self.sharding, "spec", None), "unreduced", None):
        return False
    return self.is_fully_addressable or bool(self.is_fully_replicated and self._arrays)


def _format(self, spec):
    if self.ndim == 0 and isinstance(self.dtype, np.dtype):
        return format(self._value[()], spec)
    return str(self) if not spec else format(self._value, spec)


# Pickling and copies


def _rebuild(value, weak_type):
    aval = ShapedArray(value.shape, dtypes.canonicalize_dtype(value.dtype), weak_type)
    return creation.put_new(value, aval)


def _rebuild_keys(words, impl):
    return _rebuild_extended(words, dtypes.PRNGKeyDType(impl))


def _rebuild_extended(elements, dtype):
    return KeyArray(_rebuild(elements, False), dtype)


def _reduce(self):
    if type(self) is KeyArray:
        keys = type(self.dtype) is dtypes.PRNGKeyDType
        return _rebuild_keys if keys else _rebuild_extended, (np.asarray(self._base_array), self._impl if keys else self.dtype)
    return _rebuild, (np.array(self._value), bool(self.weak_type))


def _deepcopy(self, memo):
    return creation.copy(self)


# Exchange with other libraries


def _dlpack(self, *, stream=None, max_version=None, dl_device=None, copy=None):
    return to_dlpack(self, stream=stream, dl_device=dl_device, copy=copy)


def _dlpack_device(self):
    return device_of(self)


def _namespace(self, *, api_version=None):
    if api_version not in (None, "2025.12", "2024.12"):
        raise ValueError(f"the array API version {api_version!r} is not supported; use 2025.12 or 2024.12.")
    return sys.modules[__package__]


def _module(self, types):
    """Return the module of array functions, for arrays of this package and NumPy's: the protocol of NumPy's NEP 37."""
    own = (ArrayImpl, KeyArray, Tracer, np.ndarray)
    return sys.modules[__package__] if all([issubclass(t, own) for t in types]) else NotImplemented


def _flat(self) -> NoReturn:
    """Raise an error: arrays have no `flat`, which would be a writable view.

    Example:
        >>> xnp.arange(3).flat  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        NotImplementedError: x.flat would be a view that can be written to; use x.ravel().
    """
    raise NotImplementedError("x.flat would be a view that can be written to; use x.ravel().")


# Methods


def _reshape(self, *args: Any, order: str = "C", copy: bool | None = None, out_sharding: Any = None) -> Array:
    """Return the elements in another shape.

    Args:
        args: Shape, as one tuple or as sizes. One size may be -1, which is inferred from the others.
        order: "C" reads and writes elements in row-major order, "F" in column-major order.
        copy: Has no effect (for compatibility with NumPy): arrays are immutable.
        out_sharding: Sharding of the result.

    Returns:
        Array of the new shape.

    Example:
        >>> xnp.arange(6).reshape(2, -1).shape
        (2, 3)
    """
    shape = args[0] if len(args) == 1 and not hasattr(args[0], "__index__") else args
    if len(args) == 1 and isinstance(args[0], (ArrayImpl, np.ndarray)) and np.ndim(args[0]):
        shape = tuple(np.asarray(args[0]))
    return manipulation.reshape_array(self, shape, order, out_sharding)


def _transpose(self, *args: Any) -> Array:
    """Return the array with its axes permuted.

    Args:
        args: Permutation, as one tuple or as ints: axis `i` of the result is axis `args[i]`. Default: the reversed order.

    Returns:
        Array with permuted axes.

    Example:
        >>> xnp.ones((2, 3, 4)).transpose(1, 0, 2).shape
        (3, 2, 4)
    """
    axes = args[0] if len(args) == 1 and (args[0] is None or np.ndim(args[0])) else args or None
    return manipulation.transpose(self, axes)


def _astype(self, dtype: DTypeLike | None, copy: bool = False, device: Any = None) -> Array:
    """Return the array converted to a dtype.

    Args:
        dtype: dtype of the result. None is the default float.
        copy: If True, copy the array even if it has the dtype already.
        device: Device or sharding of the result.

    Returns:
        Array with the converted elements. For complex numbers converted to real ones, the real part, with a warning.

    Example:
        >>> xnp.array([1.7, -1.7]).astype(xnp.int32)
        Array([ 1, -1], dtype=int32)
    """
    return creation.astype(self, dtype, copy=copy, device=device)


def _view(self, dtype: DTypeLike | None = None, type: None = None) -> Array:
    """Return the bits of the array reinterpreted as another dtype.

    The last dimension grows or shrinks with the size of an element.

    Args:
        dtype: dtype of the result. None returns the array itself.
        type: Must be None (for compatibility with NumPy).

    Returns:
        Array of the same bits.

    Note:
        Unlike NumPy's the result is a copy.

    Example:
        >>> xnp.array([1.0, 2.0]).view(xnp.int32)
        Array([1065353216, 1073741824], dtype=int32)
    """
    if type is not None:
        raise NotImplementedError("x.view supports only dtypes: there are no array subclasses.")
    if dtype is None:
        return self
    return views.view(self, dtype)


def _clip(self, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Array:
    """Return the elements clipped to a range.

    Args:
        min, max: Bounds, broadcast with the array. None leaves a side unbounded.

    Returns:
        Array with values below `min` replaced by `min` and those above `max` by `max`.

    Example:
        >>> xnp.array([-2, 0, 5]).clip(0, 3)
        Array([0, 0, 3], dtype=int32)
    """
    return ufuncs.clip(self, min, max)


def _round(self, decimals: int = 0, out: None = None) -> Array:
    """Return the elements rounded to the given number of decimals, ties to even.

    Args:
        decimals: Number of decimals. A negative number rounds to tens, hundreds, ...
        out: Must be None (for compatibility with NumPy): arrays are immutable.

    Returns:
        Array of the same shape and dtype.

    Example:
        >>> xnp.array([1.25, 2.5]).round()
        Array([1., 2.], dtype=float32)
    """
    return ufuncs.round(self, decimals, out)


def _round_operator(self, ndigits=None):
    result = ufuncs.round(self, ndigits or 0)
    return result if ndigits is not None else creation.astype(result, dtypes.default_dtype(int))


def _flatten(self, order: str = "C") -> Array:
    """Return the elements as a vector.

    Args:
        order: "C" reads elements in row-major order, "F" in column-major order.

    Returns:
        Vector of all elements.

    Example:
        >>> xnp.array([[1, 2], [3, 4]]).flatten()
        Array([1, 2, 3, 4], dtype=int32)
    """
    return manipulation.ravel(self, order)


def _to_device(self, device: Any, *, stream: Any = None) -> Array:
    """Return the array on another device, or with another sharding.

    Args:
        device: Device or sharding.
        stream: Must be None (for compatibility with the array API).

    Returns:
        Array on the device.

    Example:
        >>> xnp.ones(3).to_device(xf.devices()[0]).shape
        (3,)
    """
    if stream is not None:
        raise NotImplementedError(f"to_device does not support streams, got stream={stream!r}: XLA orders transfers itself.")
    return device_put(self, device)


def _named(function, name: str):
    """Return a function of `xlafront.numpy` as a method, with the array as its first argument."""
    def method(self, *args, **kwargs):
        try:
            return function(self, *args, **kwargs)
        except Exception as e:
            filter_traceback(e)
            raise

    method.__name__ = method.__qualname__ = name
    method.__doc__ = function.__doc__
    method.__wrapped__ = function
    return method


METHODS = {
    name: getattr(module, name) for module, names in (
        (reductions, "all any argmax argmin cumprod cumsum max mean min prod ptp std sum var"),
        (manipulation, "ravel squeeze swapaxes"),
        (diagonals, "diagonal trace"),
        (repeating, "repeat"),
        (sorting, "argpartition argsort sort"),
        (searching, "choose nonzero searchsorted"),
        (indexing, "take"),
        (linear, "dot"),
    ) for name in names.split()}


def _compress(self, condition: ArrayLike, axis: int | None = None, *, out: None = None, size: int | None = None,
              fill_value: ArrayLike = 0) -> Array:
    """Select slices along an axis where a condition is true.

    Args:
        condition: Boolean vector. If it is shorter than the axis, the missing elements count as False.
        axis: Axis to select along. None selects elements of the flattened array.
        out: Must be None (for compatibility with NumPy): arrays are immutable.
        size: Number of slices to return. Required in traced functions, where shapes must be static.
        fill_value: Value of the slices that are missing if fewer than `size` are selected.

    Returns:
        Array of the selected slices.

    Example:
        >>> xnp.array([1, 2, 3]).compress(xnp.array([True, False, True]))
        Array([1, 3], dtype=int32)
    """
    return searching.compress(condition, self, axis, size=size, fill_value=fill_value, out=out)


def _conj(self) -> Array:
    """Return the complex conjugate; real arrays are returned unchanged.

    Returns:
        Array of the same shape and dtype.

    Example:
        >>> xnp.array([1 + 2j]).conj()
        Array([1.-2.j], dtype=complex64)
    """
    return ufuncs.PUBLIC["conj"](self)


def _copy(self) -> Array:
    """Copy the array.

    Returns:
        New array, which shares no memory with this one.

    Example:
        >>> xnp.array([1, 2]).copy()
        Array([1, 2], dtype=int32)
    """
    return creation.copy(self)


def _byteswap(self) -> Array:
    """Return the elements with their bytes in reverse order.

    Returns:
        Array of the same shape and dtype.

    Example:
        >>> xnp.array([1], dtype=xnp.int16).byteswap()
        Array([256], dtype=int16)
    """
    return views.byteswap(self)


_FUNCTIONS = {
    "__getitem__": indexing.getitem, "__setitem__": _setitem, "__delitem__": _delitem, "__iter__": _iter,
    "__reversed__": _reversed, "__array_module__": _module,
    "__contains__": _contains, "__round__": _round_operator, "__array_namespace__": _namespace,
    "reshape": _reshape, "transpose": _transpose, "astype": _astype, "view": _view, "clip": _clip, "round": _round,
    "flatten": _flatten, "compress": _compress, "to_device": _to_device,
    "conj": _conj, "conjugate": _conj, "copy": _copy, "byteswap": _byteswap,
}


def _transposed(self) -> Array:
    """Return the array with its axes reversed.

    Example:
        >>> xnp.ones((2, 3)).T.shape
        (3, 2)
    """
    return manipulation.transpose(self)


def _matrix_transposed(self) -> Array:
    """Return the array with its last two axes swapped.

    Example:
        >>> xnp.ones((4, 2, 3)).mT.shape
        (4, 3, 2)
    """
    return manipulation.matrix_transpose(self)


def _real(self) -> Array:
    """Return the real part; real arrays are returned unchanged.

    Example:
        >>> xnp.array([1 + 2j]).real
        Array([1.], dtype=float32)
    """
    return ufuncs.PUBLIC["real"](self)


def _imag(self) -> Array:
    """Return the imaginary part; for real arrays it is zeros.

    Example:
        >>> xnp.array([1 + 2j]).imag
        Array([2.], dtype=float32)
    """
    return ufuncs.PUBLIC["imag"](self)


def _nbytes(self) -> int:
    """Return the total size of all elements in bytes.

    Example:
        >>> xnp.ones((2, 3)).nbytes
        24
    """
    return self.size * self.dtype.itemsize


def _itemsize(self) -> int:
    """Return the size of an element in bytes.

    Example:
        >>> xnp.ones((2, 3)).itemsize
        4
    """
    return self.dtype.itemsize


def _tolist(self) -> Any:
    """Return the elements as nested lists of Python scalars.

    It blocks until the array is computed.

    Returns:
        Nested list, or a Python scalar for an array without dimensions.

    Example:
        >>> xnp.array([[1, 2], [3, 4]]).tolist()
        [[1, 2], [3, 4]]
    """
    return np.asarray(self).tolist()


def _tobytes(self, order: str = "C") -> bytes:
    r"""Return the bytes of all elements.

    It blocks until the array is computed.

    Args:
        order: "C" writes elements in row-major order, "F" in column-major order.

    Returns:
        Bytes object.

    Example:
        >>> xnp.array([1, 2], dtype=xnp.int8).tobytes()
        b'\x01\x02'
    """
    return self._value.tobytes(order)


_PROPERTIES = {
    "T": _transposed, "mT": _matrix_transposed, "real": _real, "imag": _imag, "at": updates.At, "flat": _flat,
    "nbytes": _nbytes, "itemsize": _itemsize,
}
_CONCRETE_ONLY = {
    "__bool__": _bool, "__index__": _index, "__len__": _len, "__hash__": None, "__repr__": _repr, "__str__": _str,
    "__format__": _format, "__reduce__": _reduce, "__deepcopy__": _deepcopy, "__copy__": _copy,
    "__array__": _array, "__dlpack__": _dlpack, "__dlpack_device__": _dlpack_device, "item": _item,
    "__int__": lambda self: int(_need_scalar(self, "int")),
    "__float__": lambda self: float(_need_scalar(self, "float")),
    "__complex__": lambda self: complex(_need_scalar(self, "complex")),
    "__hex__": lambda self: hex(_index(self)), "__oct__": lambda self: oct(_index(self)),
    "tolist": _tolist, "tobytes": _tobytes,
}


# A tracer may represent a Ref, which supports only reading and writing, or a composite value, whose type defines operators:
# `_getitem(aval, tracer, key)`, `_add(aval, tracer, other)` and so on.


def _traced_getitem(self, key):
    if type(self.aval) is ShapedArray:
        return indexing.take_by(self, key, False)
    if type(self.aval) is AbstractRef:
        return _ref_functions().get(self, key)
    return self.aval._getitem(self, key) if hasattr(self.aval, "_getitem") else indexing.take_by(self, key, False)


def _traced_setitem(self, key, value):
    if type(self.aval) is AbstractRef:
        return _ref_functions().set(self, key, value)
    return self.aval._setitem(self, key, value) if hasattr(self.aval, "_setitem") else _setitem(self, key, value)


def _defined_by_type(special: str, operator: Callable) -> Callable:
    """Return an operator of tracers, which is that of their type if the type defines it."""
    name = f"_{special[2:-2]}"

    def traced(self, *others):
        if type(self.aval) is not ShapedArray and hasattr(self.aval, name):
            return getattr(self.aval, name)(self, *others)
        return operator(self, *others)

    return traced


def _traced_binary(special: str, function: Callable, reflected: bool = False) -> Callable:
    """Return a binary operator of tracers. Hot: traced `x + y`."""
    name = f"_{special[2:-2]}"

    def operator(self, other):
        if type(self.aval) is not ShapedArray and hasattr(self.aval, name):
            return getattr(self.aval, name)(self, other)
        kind = type(other)  # the frequent operands, before the call of `_operand`
        if kind is StagedTracer and type(other.aval) is ShapedArray or kind in _scalars or _operand(other):
            return function(other, self) if reflected else function(self, other)
        return operator(self, unwrap(other)) if tracing.is_convertible(other) else NotImplemented

    return operator


def _ref_functions():
    from xlafront.lax import refs  # start-up: it takes 1.2 ms, and few programs use references

    return refs


def _traced_iter(self):
    if type(self.aval) is AbstractRef:
        raise errors.reference_as_array("iteration", self.aval)
    return _iter(self)


_TRACED_ONLY = {
    "__getitem__": _traced_getitem, "__setitem__": _traced_setitem, "__iter__": _defined_by_type("__iter__", _traced_iter),
    "__len__": _defined_by_type("__len__", Tracer.__len__),
    "at": property(lambda self: (_ref_functions().RefAt(self, (), ()) if type(self.aval) is AbstractRef else updates.At(self))),
}


def _iter_keys(self):
    if not self.shape:
        raise TypeError("iteration over a 0-d key array: it is one key.")
    return (KeyArray(words, self.dtype) for words in _iter(self._base_array))


def _numpy_dtype(self):
    """Return the dtype of an array that is passed to NumPy in place of a dtype, which is deprecated."""
    warnings.warn("an array in place of a dtype is deprecated, an implicit conversion: give its dtype, dtype=x.dtype.",
                  DeprecationWarning, stacklevel=2)
    return self.dtype


def _unsupported_by_keys(name: str):
    def method(self, *args, **kwargs):
        raise NotImplementedError(f"arrays of dtype {self.dtype} do not support {name}: {self.dtype.no_numbers}")

    return method


for _name, _function in (*_FUNCTIONS.items(), *_CONCRETE_ONLY.items()):
    if not _name.startswith("_"):
        _function.__name__ = _function.__qualname__ = _name  # type: ignore[union-attr]  # shown by `help`


def _attach() -> None:
    compiled = dict(ufuncs.PUBLIC, matmul=linear.matmul)
    # Functions of many primitives stay compiled for tracers too: staging their body costs more than copying its jaxpr.
    inline = ufuncs.INLINE | {name: compiled[name] for name in ("matmul", "floor_divide", "remainder", "divmod")}
    for special, name in BINARY_OPERATORS.items():
        reflected_name = f"__r{special[2:]}"
        setattr(Tracer, special, _traced_binary(special, inline[name]))
        setattr(Tracer, reflected_name, _traced_binary(reflected_name, inline[name], reflected=True))
        setattr(ArrayImpl, special, _concrete(compiled[name], _binary(compiled[name], False)))
        setattr(ArrayImpl, reflected_name, _binary(compiled[name], True))
    for special, name in COMPARISONS.items():
        setattr(Tracer, special, _defined_by_type(special, _comparison(inline[name])))
        setattr(ArrayImpl, special, _concrete(compiled[name], _comparison(compiled[name])))
    for special, name in UNARY_OPERATORS.items():
        setattr(Tracer, special, _defined_by_type(special, inline[name]))
        setattr(ArrayImpl, special, lambda self, function=compiled[name]: function(self))
    for special in ("__eq__", "__ne__"):
        setattr(KeyArray, special, getattr(ArrayImpl, special))
    KeyArray.__iter__ = _iter_keys
    for cls in (ArrayImpl, KeyArray):
        cls.__numpy_dtype__ = property(_numpy_dtype)
    for name in ("reshape", "transpose", "flatten", "copy", "to_device", "__getitem__", "__setitem__"):
        setattr(KeyArray, name, _FUNCTIONS[name])
    for name in ("ravel", "squeeze", "swapaxes", "take"):
        setattr(KeyArray, name, _named(METHODS[name], name))
    for name in ("T", "at", "itemsize", "nbytes"):
        setattr(KeyArray, name, property(_PROPERTIES[name]))
    for name in ("__reduce__", "__hash__", "__copy__", "__deepcopy__"):
        setattr(KeyArray, name, _CONCRETE_ONLY[name])
    for name in {*METHODS, *_FUNCTIONS, "item"}:
        if name.isidentifier() and not name.startswith("_") and not hasattr(KeyArray, name):
            setattr(KeyArray, name, _unsupported_by_keys(name))
    for name in ("real", "imag", "mT"):
        setattr(KeyArray, name, property(_unsupported_by_keys(name)))
    for cls in (ArrayImpl, Tracer):
        for name, function in METHODS.items():
            setattr(cls, name, _named(function, name))
        for name, function in _FUNCTIONS.items():
            setattr(cls, name, function if name == "__getitem__" else boundary(function))
        for name, function in _PROPERTIES.items():
            setattr(cls, name, property(function))
        for name, remedy in habits.REMEDIES.items():
            setattr(cls, name, remedy)
        cls.__dir__ = habits.attributes_of
    for name, function in _TRACED_ONLY.items():
        setattr(Tracer, name, function)
    for name, function in _CONCRETE_ONLY.items():
        setattr(ArrayImpl, name, function)
    ArrayImpl.__array_priority__ = 100


_attach()
ndarray = Array
