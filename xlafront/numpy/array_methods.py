"""Operators and methods of arrays, attached to concrete arrays and to tracers alike.

Operators of concrete arrays go to the dispatcher of a compiled function; those of tracers to the plain function.
"""

from __future__ import annotations

import builtins
import sys
import warnings
from typing import Any, NoReturn

import numpy as np

from xlafront.core import backends, dtypes, errors, tracing
from xlafront.core.avals import ShapedArray, entry_of, with_entry, without_dimension
from xlafront.core.keys import KeyArray
from xlafront.core.refs import AbstractRef
from xlafront.core.tracing import Tracer, abstractors
from xlafront.core.typing import ArrayLike, DTypeLike
from xlafront.lax import (
    resharding,  # noqa: F401 (types over explicit axes)
    sharding_rules,  # noqa: F401 (types over explicit axes)
)
from xlafront.lax.device_put import device_put, reshard_p
from xlafront.numpy import (
    creation,
    diagonals,
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
from xlafront.runtime.arrays import ArrayImpl, put_host
from xlafront.runtime.sharding import single_device


class _ArrayMeta(type):
    """Concrete arrays and tracers are instances of `Array`, which neither inherits from."""

    def __instancecheck__(cls, instance):
        kind = type(instance)
        return kind is ArrayImpl or kind is KeyArray or (
            isinstance(instance, Tracer) and type(instance.aval) is not AbstractRef)

    def __subclasscheck__(cls, subclass):
        return subclass is cls or subclass is ArrayImpl or issubclass(subclass, (Tracer, KeyArray))

    def __getattr__(cls, name):
        return getattr(ArrayImpl, name)


class Array(metaclass=_ArrayMeta):
    """An array on one or more devices, or the traced stand-in for one; for `isinstance` and annotations.

    Arrays do not change; they are made by `xlafront.numpy` and returned by compiled functions. They have NumPy's operators and
    methods but for those that write: `x.at[i].set(y)` returns a new array. What the runtime adds:

    - `x.block_until_ready()`: wait until the elements are computed; the result is the array itself.
    - `x.delete()`: give its memory back at once; `x.is_deleted()` asks for that. `x.clone()`: the same memory as another array.
    - `x.on_device_size_in_bytes()`, `x.unsafe_buffer_pointer()`: the memory that it takes, and where that is; with newer
      versions of jaxlib `x.unsafe_raw_buffer()` too.
    - `x.traceback`: where in the program it was made. `x.aval`: its type, as transformations see it.

    >>> x = xnp.arange(3) * 2
    >>> isinstance(x, xf.Array), x.block_until_ready() is x
    (True, True)
    """

    __slots__ = ()

    def __new__(cls, *args, **kwargs):
        raise TypeError("Array cannot be called: make arrays with xlafront.numpy.array, zeros, arange, ...")


# special method -> function; the reflected form is made from it
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
    """Whether an operator takes this on its other side; lists, strings and None get Python's own error."""
    kind = type(other)
    if kind in _scalars or kind is ArrayImpl or kind in abstractors:
        return True
    return not tracing.is_convertible(other) and tracing.is_arraylike(other)


def _binary(function, reflected: bool):
    if reflected:
        def operator(self, other):
            if _operand(other):
                return function(other, self)
            return operator(self, unwrap(other)) if tracing.is_convertible(other) else NotImplemented
    else:
        def operator(self, other):
            if _operand(other):
                return function(self, other)
            return operator(self, unwrap(other)) if tracing.is_convertible(other) else NotImplemented
    return operator


def _comparison(function):
    """As `_binary`; Python would take a refused container for unequal, so that it is an error at once."""
    def operator(self, other):
        if other is None:
            return NotImplemented
        if _operand(other) or type(other) in _CONTAINERS:  # not those of libraries, such as named tuples
            return function(self, other)
        return operator(self, unwrap(other)) if tracing.is_convertible(other) else NotImplemented

    return operator


def _concrete(function, traced):
    """For a concrete array: the compiled function when nothing is being traced. Hot: eager `x + y`."""
    def operator(self, other):
        kind = type(other)
        if kind is ArrayImpl or kind in _scalars:
            try:
                return function(self, other)
            except ValueError as e:  # the runtime's own words for a deleted buffer
                if "deleted or donated" in str(e):
                    for x in (self, other):
                        if type(x) is ArrayImpl:
                            x._check_if_deleted()
                raise
        return traced(self, other)

    return operator


# Conversions to Python: NumPy reads the memory of an array on the CPU itself, several times faster than `_value`, and asks
# for that elsewhere.


def _need_scalar(x, name: str):
    if x.ndim:
        raise errors.not_a_scalar(name, x.shape)
    value = np.asarray(x)[()]
    if name != "complex" and value.dtype.kind == "c":
        raise TypeError(f"{name}() of a complex number: take x.real or abs(x).")
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
    """One element as a Python number; it waits until it is computed.

    - `args`: the position of the element; none where there is only one.

    >>> xnp.array([1, 2]).item(1)
    2
    """
    value = np.asarray(self)
    if args:
        return value.item(*args)
    if self.size != 1:
        raise ValueError(f"item() makes a Python scalar of an array of size 1; of {self.size} elements it needs the position "
                         "of one.")
    return value.item()


def _array(self, dtype=None, copy=None):
    value = self._value
    if dtype is not None and dtype != value.dtype:
        return value.astype(dtype)
    return np.array(value) if copy else value


def _iter(self):
    if self.ndim == 0:
        raise TypeError("iteration over a 0-d array (one without dimensions)")
    return _rows(self)


def _rows(self):
    """The rows one by one. Of an array on one device they are cut there, a chunk at a time; of one whose parts are on several,
    they come by way of the host, for on the devices each row would be sent to all."""
    n = int(self.shape[0])
    if type(self) is ArrayImpl and not self.is_fully_replicated and self.is_fully_addressable:
        here = single_device(backends.default_device())
        of_row = without_dimension(self.aval, 0)
        for row in np.asarray(self):
            yield put_host(row, of_row, here, False)
        return
    chunk = 128
    if entry_of(tracing.aval_of(self), 0) is not None:  # no device has all rows
        self = reshard_p.bind(self, dst_sharding=with_entry(without_dimension(tracing.aval_of(self), 0).sharding, 0))
    if isinstance(self, Tracer) and self._trace.extends:  # libraries know of slices
        yield from (indexing.getitem(self, i) for i in range(n))
        return
    for start in range(0, n, chunk):
        part = self if n <= chunk else indexing.getitem(self, slice(start, builtins.min(start + chunk, n)))
        yield from manipulation.unstack(part)


def _len(self):
    shape = self.shape
    if not shape:
        raise TypeError("len() of an unsized object: an array without dimensions (0-d)")
    return shape[0]


def _contains(self, item):
    check_arraylike("Array.__contains__", item)
    if self.ndim != 1 or np.ndim(item):
        raise ValueError(f"`in` looks for a scalar in an array of one dimension, got shapes {np.shape(item)} and {self.shape}: "
                         f"the search array must be one-dimensional, the query a scalar. Use (x == y).any().")
    return bool(reductions.any(ufuncs.PUBLIC["equal"](self, item)))


def _setitem(self, key, value):
    shown = errors.short(key) if not isinstance(key, tuple) else ", ".join(errors.short(k) for k in key)
    raise TypeError(f"arrays are immutable and do not support item assignment, x[{shown}] = y. Write x = x.at[{shown}].set(y).")


def _delitem(self, key):
    raise AttributeError("__delitem__: arrays are immutable, their elements cannot be deleted. Take those that stay, as in "
                         "x[xnp.array(indices)].")


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
    """Whether this process has all elements."""
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
    if api_version not in (None, "2024.12"):
        raise ValueError(f"the array API version {api_version!r} is not available; 2024.12 is.")
    return sys.modules[__package__]


def _flat(self) -> NoReturn:
    """Not there: it would be a view that can be written to. The error says what to use.

    >>> xnp.arange(3).flat  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    NotImplementedError: x.flat would be a view that can be written to; use x.ravel().
    """
    raise NotImplementedError("x.flat would be a view that can be written to; use x.ravel().")


# Methods


def _reshape(self, *args: Any, order: str = "C", copy: bool | None = None, out_sharding: Any = None) -> Array:
    """The elements in another shape.

    - `args`: the shape, as one tuple or as sizes; one size may be -1, which is worked out from the others.
    - `order`: "C", by rows, or "F": elements are read and written by columns.
    - `copy`: of NumPy's signature; arrays do not change, it makes no difference.
    - `out_sharding`: how the result is split over devices.

    >>> xnp.arange(6).reshape(2, -1).shape
    (2, 3)
    """
    shape = args[0] if len(args) == 1 and not hasattr(args[0], "__index__") else args
    if len(args) == 1 and isinstance(args[0], (ArrayImpl, np.ndarray)) and np.ndim(args[0]):
        shape = tuple(np.asarray(args[0]))
    return manipulation.reshape_array(self, shape, order, out_sharding)


def _transpose(self, *args: Any) -> Array:
    """The axes in another order.

    - `args`: for each axis of the result, which one of this array it is, as one tuple or as numbers; reversed without.

    >>> xnp.ones((2, 3, 4)).transpose(1, 0, 2).shape
    (3, 2, 4)
    """
    axes = args[0] if len(args) == 1 and (args[0] is None or np.ndim(args[0])) else args or None
    return manipulation.transpose(self, axes)


def _astype(self, dtype: DTypeLike | None, copy: bool = False, device: Any = None) -> Array:
    """The array converted to a dtype. Of complex numbers as real ones the real part stays, with a warning.

    - `dtype`: the dtype; None is the default float.
    - `copy`: whether to copy an array that has the dtype already.
    - `device`: where the result is put, a device or a sharding.

    >>> xnp.array([1.7, -1.7]).astype(xnp.int32)
    Array([ 1, -1], dtype=int32)
    """
    return creation.astype(self, dtype, copy=copy, device=device)


def _view(self, dtype: DTypeLike | None = None, type: None = None) -> Array:
    """The bits read as another dtype; the last dimension grows or shrinks with the size of an element. Unlike NumPy's it is a
    copy.

    - `dtype`: the dtype; None returns the array itself.
    - `type`: of NumPy's signature; it must be None.

    >>> xnp.array([1.0, 2.0]).view(xnp.int32)
    Array([1065353216, 1073741824], dtype=int32)
    """
    if type is not None:
        raise NotImplementedError("x.view takes a dtype only: there are no array subclasses.")
    if dtype is None:
        return self
    return views.view(self, dtype)


def _clip(self, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Array:
    """The values limited to a range: what is below becomes `min`, what is above `max`.

    - `min`, `max`: the ends of the range, numbers or arrays that broadcast; None leaves an end open.

    >>> xnp.array([-2, 0, 5]).clip(0, 3)
    Array([0, 0, 3], dtype=int32)
    """
    return ufuncs.clip(self, min, max)


def _round(self, decimals: int = 0, out: None = None) -> Array:
    """The values rounded to a number of decimals, halves to the even digit.

    - `decimals`: how many; negative numbers round to tens, hundreds, ...
    - `out`: of NumPy's signature; it must be None.

    >>> xnp.array([1.25, 2.5]).round()
    Array([1., 2.], dtype=float32)
    """
    return ufuncs.round(self, decimals, out)


def _round_operator(self, ndigits=None):
    result = ufuncs.round(self, ndigits or 0)
    return result if ndigits is not None else creation.astype(result, dtypes.default_dtype(int))


def _flatten(self, order: str = "C") -> Array:
    """The elements as a vector.

    - `order`: "C", by rows, or "F", by columns.

    >>> xnp.array([[1, 2], [3, 4]]).flatten()
    Array([1, 2, 3, 4], dtype=int32)
    """
    return manipulation.ravel(self, order)


def _to_device(self, device: Any, *, stream: Any = None) -> Array:
    """The array on another device, or with another sharding.

    - `device`: the device, or the sharding.
    - `stream`: of the array API's signature; it must be None.

    >>> xnp.ones(3).to_device(xf.devices()[0]).shape
    (3,)
    """
    if stream is not None:
        raise NotImplementedError(f"to_device has no streams, got stream={stream!r}: XLA orders transfers itself.")
    return device_put(self, device)


def _named(function, name: str):
    """A library function as a method: the array is its first argument."""
    def method(self, *args, **kwargs):
        return function(self, *args, **kwargs)

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
    """The slices along an axis where a condition holds.

    - `condition`: a vector; what is not as long as the axis counts as false.
    - `axis`: the axis; None takes elements of the array as one vector.
    - `out`: of NumPy's signature; it must be None.
    - `size`: how many slices to return. Inside of a traced function it must be given.
    - `fill_value`: the elements of the slices that are missing then.

    >>> xnp.array([1, 2, 3]).compress(xnp.array([True, False, True]))
    Array([1, 3], dtype=int32)
    """
    return searching.compress(condition, self, axis, size=size, fill_value=fill_value, out=out)


def _conj(self) -> Array:
    """The complex conjugate; real arrays stay as they are.

    >>> xnp.array([1 + 2j]).conj()
    Array([1.-2.j], dtype=complex64)
    """
    return ufuncs.PUBLIC["conj"](self)


def _copy(self) -> Array:
    """A copy, in memory of its own.

    >>> xnp.array([1, 2]).copy()
    Array([1, 2], dtype=int32)
    """
    return creation.copy(self)


def _byteswap(self) -> Array:
    """The elements with the order of their bytes reversed.

    >>> xnp.array([1], dtype=xnp.int16).byteswap()
    Array([256], dtype=int16)
    """
    return views.byteswap(self)


_WRITTEN_OUT = {
    "__getitem__": indexing.getitem, "__setitem__": _setitem, "__delitem__": _delitem, "__iter__": _iter,
    "__contains__": _contains, "__round__": _round_operator, "__array_namespace__": _namespace,
    "reshape": _reshape, "transpose": _transpose, "astype": _astype, "view": _view, "clip": _clip, "round": _round,
    "flatten": _flatten, "compress": _compress, "to_device": _to_device,
    "conj": _conj, "conjugate": _conj, "copy": _copy, "byteswap": _byteswap,
}


def _transposed(self) -> Array:
    """The array with its axes reversed.

    >>> xnp.ones((2, 3)).T.shape
    (3, 2)
    """
    return manipulation.transpose(self)


def _matrix_transposed(self) -> Array:
    """The array with its last two axes swapped.

    >>> xnp.ones((4, 2, 3)).mT.shape
    (4, 3, 2)
    """
    return manipulation.matrix_transpose(self)


def _real(self) -> Array:
    """The real part; real arrays stay as they are.

    >>> xnp.array([1 + 2j]).real
    Array([1.], dtype=float32)
    """
    return ufuncs.PUBLIC["real"](self)


def _imag(self) -> Array:
    """The imaginary part; zeros of real arrays.

    >>> xnp.array([1 + 2j]).imag
    Array([2.], dtype=float32)
    """
    return ufuncs.PUBLIC["imag"](self)


def _nbytes(self) -> int:
    """The number of bytes that all elements take.

    >>> xnp.ones((2, 3)).nbytes
    24
    """
    return self.size * self.dtype.itemsize


def _itemsize(self) -> int:
    """The number of bytes that an element takes.

    >>> xnp.ones((2, 3)).itemsize
    4
    """
    return self.dtype.itemsize


def _tolist(self) -> Any:
    """The elements as Python numbers in nested lists; it waits until they are computed.

    >>> xnp.array([[1, 2], [3, 4]]).tolist()
    [[1, 2], [3, 4]]
    """
    return np.asarray(self).tolist()


def _tobytes(self, order: str = "C") -> bytes:
    r"""The bytes of all elements; it waits until they are computed.

    - `order`: "C", by rows, or "F", by columns.

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


# A tracer may stand for a reference, which can be read and written, and nothing else.


def _traced_getitem(self, key):
    return _of_refs().get(self, key) if type(self.aval) is AbstractRef else indexing.take_by(self, key, False)


def _traced_setitem(self, key, value):
    return (_of_refs().set if type(self.aval) is AbstractRef else _setitem)(self, key, value)


def _of_refs():
    from xlafront.lax import refs  # start-up: 1.2 ms, for programs with references

    return refs


def _traced_iter(self):
    if type(self.aval) is AbstractRef:
        raise errors.reference_as_array("iteration", self.aval)
    return _iter(self)


_TRACED_ONLY = {
    "__getitem__": _traced_getitem, "__setitem__": _traced_setitem, "__iter__": _traced_iter,
    "at": property(lambda self: (_of_refs().RefAt(self, (), ()) if type(self.aval) is AbstractRef else updates.At(self))),
}


def _iterated_keys(self):
    if not self.shape:
        raise TypeError("iteration over a 0-d key array: it is one key.")
    return (KeyArray(words, self.dtype) for words in _iter(self._base_array))


def _as_dtype(self):
    """What NumPy asks for that was given an array in place of a dtype."""
    warnings.warn("an array in place of a dtype is deprecated, an implicit conversion: give its dtype, dtype=x.dtype.",
                  DeprecationWarning, stacklevel=2)
    return self.dtype


def _refused_by_keys(name: str):
    def method(self, *args, **kwargs):
        raise NotImplementedError(f"arrays of dtype {self.dtype} have no {name}: {self.dtype.no_numbers}")

    return method


for _name, _function in (*_WRITTEN_OUT.items(), *_CONCRETE_ONLY.items()):
    if not _name.startswith("_"):
        _function.__name__ = _function.__qualname__ = _name  # type: ignore[union-attr]  # as `help` shows it


def _attach() -> None:
    compiled = dict(ufuncs.PUBLIC, matmul=linear.matmul)
    # (what is many operations costs more to write than to copy)
    inline = ufuncs.INLINE | {name: compiled[name] for name in ("matmul", "floor_divide", "remainder", "divmod")}
    for special, name in BINARY_OPERATORS.items():
        reflected_name = f"__r{special[2:]}"
        forward, backward = _binary(inline[name], False), _binary(inline[name], True)
        setattr(Tracer, special, forward)
        setattr(Tracer, reflected_name, backward)
        setattr(ArrayImpl, special, _concrete(compiled[name], _binary(compiled[name], False)))
        setattr(ArrayImpl, reflected_name, _binary(compiled[name], True))
    for special, name in COMPARISONS.items():
        setattr(Tracer, special, _comparison(inline[name]))
        setattr(ArrayImpl, special, _concrete(compiled[name], _comparison(compiled[name])))
    for special, name in UNARY_OPERATORS.items():
        setattr(Tracer, special, lambda self, function=inline[name]: function(self))
        setattr(ArrayImpl, special, lambda self, function=compiled[name]: function(self))
    for special in ("__eq__", "__ne__"):
        setattr(KeyArray, special, getattr(ArrayImpl, special))
    KeyArray.__iter__ = _iterated_keys
    for cls in (ArrayImpl, KeyArray):
        cls.__numpy_dtype__ = property(_as_dtype)
    for name in ("reshape", "transpose", "flatten", "copy", "to_device", "__getitem__", "__setitem__"):
        setattr(KeyArray, name, _WRITTEN_OUT[name])
    for name in ("ravel", "squeeze", "swapaxes", "take"):
        setattr(KeyArray, name, _named(METHODS[name], name))
    for name in ("T", "at", "itemsize", "nbytes"):
        setattr(KeyArray, name, property(_PROPERTIES[name]))
    for name in ("__reduce__", "__hash__", "__copy__", "__deepcopy__"):
        setattr(KeyArray, name, _CONCRETE_ONLY[name])
    for name in {*METHODS, *_WRITTEN_OUT, "item"}:
        if name.isidentifier() and not name.startswith("_") and not hasattr(KeyArray, name):
            setattr(KeyArray, name, _refused_by_keys(name))
    for name in ("real", "imag", "mT"):
        setattr(KeyArray, name, property(_refused_by_keys(name)))
    for cls in (ArrayImpl, Tracer):
        for name, function in METHODS.items():
            setattr(cls, name, _named(function, name))
        for name, function in _WRITTEN_OUT.items():
            setattr(cls, name, function)
        for name, function in _PROPERTIES.items():
            setattr(cls, name, property(function))
    for name, function in _TRACED_ONLY.items():
        setattr(Tracer, name, function)
    for name, function in _CONCRETE_ONLY.items():
        setattr(ArrayImpl, name, function)
    ArrayImpl.__array_priority__ = 100


_attach()
ndarray = Array
