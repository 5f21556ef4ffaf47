"""Operators and methods of arrays, attached to concrete arrays and to tracers alike.

Operators of concrete arrays go to the dispatcher of a compiled function; those of tracers to the plain function.
"""

from __future__ import annotations

import builtins
import sys

import numpy as np

from xlafront.core import backends, dtypes, errors, tracing
from xlafront.core.avals import ShapedArray, entry_of, with_entry, without_dimension
from xlafront.core.keys import KeyArray
from xlafront.core.refs import AbstractRef
from xlafront.core.tracing import Tracer, abstractors
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
        return type(instance) is ArrayImpl or (
            isinstance(instance, (Tracer, KeyArray)) and type(instance.aval) is not AbstractRef)

    def __subclasscheck__(cls, subclass):
        return subclass is cls or subclass is ArrayImpl or issubclass(subclass, (Tracer, KeyArray))

    def __getattr__(cls, name):
        return getattr(ArrayImpl, name)


class Array(metaclass=_ArrayMeta):
    """An array on one or more devices, or the traced stand-in for one; for `isinstance` and annotations.

    Arrays are immutable; they are made by `xlafront.numpy` and returned by compiled functions.
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
    """As `_binary`; Python would take a refused sequence for unequal, so that it is an error at once."""
    def operator(self, other):
        if _operand(other) or isinstance(other, (list, tuple)):
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


# Conversions to Python


def _need_scalar(x, name: str):
    if x.ndim:
        raise errors.not_a_scalar(name, x.shape)
    value = x._value[()]
    if name != "complex" and value.dtype.kind == "c":
        raise TypeError(f"{name}() of a complex number: take x.real or abs(x).")
    return value


def _bool(self):
    if self.size != 1:
        raise errors.ambiguous_truth(self.shape)
    return bool(self._value.reshape(())[()])


def _index(self):
    if self.ndim or not dtypes.is_integer(self.dtype) and self.dtype != dtypes.bool_:
        raise errors.not_an_index(self.aval)
    return int(self._value)


def _item(self, *args):
    """One element as a Python scalar: the only one, or that at the given position."""
    value = self._value
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
    n = self.shape[0]
    if type(self) is ArrayImpl and not self.is_fully_replicated and self.is_fully_addressable:
        here = single_device(backends.default_device())
        of_row = without_dimension(self.aval, 0)
        for row in np.asarray(self):
            yield put_host(row, of_row, here, False)
        return
    chunk = 128
    if entry_of(tracing.aval_of(self), 0) is not None:  # no device has all rows
        self = reshard_p.bind(self, target=with_entry(without_dimension(tracing.aval_of(self), 0).sharding, 0))
    for start in range(0, n, chunk):
        part = self if n <= chunk else indexing.getitem(self, slice(start, builtins.min(start + chunk, n)))
        yield from manipulation.unstack(part)


def _len(self):
    if not self.aval.shape:
        raise TypeError("len() of an unsized object: an array without dimensions (0-d)")
    return self.aval.shape[0]


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
    used = len(last) + (len("Array(") if "\n" not in text else 0)
    gap = ", " if used + len(tail) + 3 <= np.get_printoptions()["linewidth"] else ",\n      "
    return f"Array({text}{gap}{tail})"


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
    return KeyArray(_rebuild(words, False), dtypes.PRNGKeyDType(impl))


def _reduce(self):
    if type(self) is KeyArray:
        return _rebuild_keys, (np.asarray(self._base_array), self.dtype.impl)
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


def _flat(self):
    raise NotImplementedError("x.flat would be a view that can be written to; use x.ravel().")


# Methods


def _reshape(self, *args, order="C", copy=None, out_sharding=None):
    """The elements in another shape, given as one tuple or as sizes; one size may be -1."""
    shape = args[0] if len(args) == 1 and not hasattr(args[0], "__index__") else args
    if len(args) == 1 and isinstance(args[0], (ArrayImpl, np.ndarray)) and np.ndim(args[0]):
        shape = tuple(np.asarray(args[0]))
    return manipulation.reshape(self, shape, order=order, out_sharding=out_sharding)


def _transpose(self, *args):
    """The dimensions in another order, given as one tuple or as numbers; reversed without."""
    axes = args[0] if len(args) == 1 and (args[0] is None or isinstance(args[0], (tuple, list))) else args or None
    return manipulation.transpose(self, axes)


def _astype(self, dtype, copy=False, device=None):
    """The array converted to a dtype."""
    return creation.astype(self, dtype, copy=copy, device=device)


def _view(self, dtype=None, type=None):
    """The bits read as another dtype; the last dimension grows or shrinks with the size of an element."""
    if type is not None:
        raise NotImplementedError("x.view takes a dtype only: there are no array subclasses.")
    if dtype is None:
        return self
    return views.view(self, dtype)


def _clip(self, min=None, max=None):
    """The values limited to a range."""
    return ufuncs.clip(self, min, max)


def _round(self, decimals=0, out=None):
    """The values rounded to a number of decimals, halves to even."""
    return ufuncs.round(self, decimals, out)


def _round_operator(self, ndigits=None):
    result = ufuncs.round(self, ndigits or 0)
    return result if ndigits is not None else creation.astype(result, dtypes.default_dtype(int))


def _flatten(self, order="C"):
    """The elements in one dimension."""
    return manipulation.ravel(self, order)


def _to_device(self, device, *, stream=None):
    """The array on another device, or with another sharding."""
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


def _compress(self, condition, axis=None, *, out=None, size=None, fill_value=0):
    """The slices along an axis where a condition holds."""
    return searching.compress(condition, self, axis, size=size, fill_value=fill_value, out=out)


_WRITTEN_OUT = {
    "__getitem__": indexing.getitem, "__setitem__": _setitem, "__delitem__": _delitem, "__iter__": _iter,
    "__contains__": _contains, "__round__": _round_operator, "__array_namespace__": _namespace,
    "reshape": _reshape, "transpose": _transpose, "astype": _astype, "view": _view, "clip": _clip, "round": _round,
    "flatten": _flatten, "compress": _compress, "to_device": _to_device,
    "conj": lambda self: ufuncs.PUBLIC["conj"](self), "conjugate": lambda self: ufuncs.PUBLIC["conj"](self),
    "copy": lambda self: creation.copy(self),
    "byteswap": lambda self, inplace=False: views.byteswap(self, inplace),
}
_PROPERTIES = {
    "T": lambda self: manipulation.transpose(self), "mT": lambda self: manipulation.matrix_transpose(self),
    "real": lambda self: ufuncs.PUBLIC["real"](self), "imag": lambda self: ufuncs.PUBLIC["imag"](self),
    "at": updates.At, "flat": _flat,
    "nbytes": lambda self: self.aval.size * self.aval.dtype.itemsize,
    "itemsize": lambda self: self.aval.dtype.itemsize,
}
_CONCRETE_ONLY = {
    "__bool__": _bool, "__index__": _index, "__len__": _len, "__hash__": None, "__repr__": _repr, "__str__": _str,
    "__format__": _format, "__reduce__": _reduce, "__deepcopy__": _deepcopy, "__copy__": lambda self: creation.copy(self),
    "__array__": _array, "__dlpack__": _dlpack, "__dlpack_device__": _dlpack_device, "item": _item,
    "__int__": lambda self: int(_need_scalar(self, "int")),
    "__float__": lambda self: float(_need_scalar(self, "float")),
    "__complex__": lambda self: complex(_need_scalar(self, "complex")),
    "__hex__": lambda self: hex(_index(self)), "__oct__": lambda self: oct(_index(self)),
    "tolist": lambda self: self._value.tolist(), "tobytes": lambda self, order="C": self._value.tobytes(order),
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


def _refused_by_keys(name: str):
    def method(self, *args, **kwargs):
        raise NotImplementedError(f"arrays of random keys have no {name}, they are no numbers: their words are "
                                  f"xlafront.random.key_data(keys).")

    return method


def _attach() -> None:
    inline = dict(ufuncs.INLINE, matmul=linear.matmul)
    compiled = dict(ufuncs.PUBLIC, matmul=linear.matmul)
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
    for name in ("reshape", "transpose", "flatten", "copy", "to_device", "__getitem__", "__setitem__"):
        setattr(KeyArray, name, _WRITTEN_OUT[name])
    for name in ("ravel", "repeat", "squeeze", "swapaxes", "take", "diagonal"):
        setattr(KeyArray, name, _named(METHODS[name], name))
    for name in ("T", "mT", "at", "itemsize", "nbytes"):
        setattr(KeyArray, name, property(_PROPERTIES[name]))
    for name in ("__reduce__", "__hash__", "__copy__", "__deepcopy__"):
        setattr(KeyArray, name, _CONCRETE_ONLY[name])
    for name in {*METHODS, *_WRITTEN_OUT, "item"}:
        if name.isidentifier() and not name.startswith("_") and not hasattr(KeyArray, name):
            setattr(KeyArray, name, _refused_by_keys(name))
    for name in ("real", "imag"):
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
