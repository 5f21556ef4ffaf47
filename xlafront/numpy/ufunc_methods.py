"""Methods of ufuncs, such as `xnp.add.reduce`, attached to the functions of `ufuncs`; calls of these get no slower."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from xlafront.core import dtypes, tracing
from xlafront.core.basic_primitives import move_dim
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.lax.elementwise import as_type
from xlafront.lax.shapes import canonical_axes, canonical_axis, reshape_to
from xlafront.lax.slicing import concatenate_p
from xlafront.numpy import reductions
from xlafront.numpy.creation import arange, asarray, full
from xlafront.numpy.indexing import getitem, take
from xlafront.numpy.manipulation import append, broadcast_to, transpose
from xlafront.numpy.promotion import boolean_mask, check_arraylike, unwrap
from xlafront.numpy.searching import where as choose
from xlafront.numpy.ufuncs import IDENTITIES, PUBLIC
from xlafront.numpy.updates import AtIndex
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library


# Implementations of methods for particular ufuncs: reductions, cumulative reductions, updates.
def _keyed_by_ufunc(table: dict) -> dict:
    return {PUBLIC[name]: value for name, value in table.items()}


_REDUCTIONS = _keyed_by_ufunc({
    "add": reductions.sum, "multiply": reductions.prod, "maximum": reductions.max, "minimum": reductions.min,
    "logical_and": reductions.all, "logical_or": reductions.any})
_LOGICAL = frozenset((PUBLIC["logical_and"], PUBLIC["logical_or"]))
_ANY_ORDER = frozenset(PUBLIC[name] for name in (
    "logaddexp", "logaddexp2", "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor"))
_BITWISE = frozenset(PUBLIC[name] for name in ("bitwise_and", "bitwise_or", "bitwise_xor"))
_CUMULATIVE = _keyed_by_ufunc({"add": reductions.cumsum, "multiply": reductions.cumprod})
_UPDATES = _keyed_by_ufunc({"add": "add", "subtract": "subtract", "multiply": "multiply", "maximum": "max", "minimum": "min"})
_PRESERVES_DTYPE = _keyed_by_ufunc(dict.fromkeys(("add", "subtract", "multiply")))  # `at` returns the dtype of the array


def _scan(step, start, rows):
    from xlafront.control.scan import scan  # start-up: with the rules for derivatives of loops it takes 20 ms

    return scan(step, start, rows)


class _UfuncMeta(type):
    """Metaclass that makes functions with these methods instances of `ufunc`, from which none inherits."""

    def __instancecheck__(cls, instance):
        return callable(instance) and getattr(instance, "kind", None) is cls


class ufunc(metaclass=_UfuncMeta):
    """Elementwise function with the methods of NumPy's ufuncs: functions such as `xnp.add`, and results of `frompyfunc`.

    - `nin`, `nargs`: Number of arguments. `nout`: Number of results.
    - `reduce`, `accumulate`, `reduceat`, `outer`, `at`: Methods. Except for `at` they require two arguments and one result.

    Args:
        func: Function of scalars.
        nin: Number of arguments.
        nout: Number of results.
        identity: Identity element of the function, or None.

    Example:
        >>> isinstance(xnp.add, xnp.ufunc), xnp.add.nin, xnp.multiply.identity
        (True, 2, 1)
    """

    def __new__(cls, func: Callable, nin: int, nout: int, *, identity: Any = None):
        return frompyfunc(func, nin, nout, identity=identity)


def frompyfunc(func: Callable, /, nin: int, nout: int, *, identity: Any = None) -> Callable:
    """Make an elementwise function with the methods of ufuncs from a function of scalars.

    Args:
        func: Function of scalars.
        nin: Number of arguments.
        nout: Number of results.
        identity: Identity element of the function, the start value of `reduce`.

    Returns:
        Function that broadcasts its arguments, with the attributes and methods of `xnp.ufunc`.

    Example:
        >>> xnp.frompyfunc(lambda x, y: x * y + 1, 2, 1).reduce(xnp.array([1.0, 2.0, 3.0]))
        Array(10., dtype=float32)
    """
    return _MappedFunction(func, operator.index(nin), operator.index(nout), identity)


class _MappedFunction:
    """A result of `frompyfunc`: equal to another one of the same arguments, so that both have one compiled kernel."""

    def __init__(self, func: Callable, nin: int, nout: int, identity: Any):
        from xlafront.numpy.mapping import vectorize  # start-up: few programs use it

        self.__name__ = self.__qualname__ = func.__name__
        self.__doc__ = func.__doc__
        self._key, self._mapped = (func, nin, nout, identity), vectorize(func)
        _give_methods(self, nin, nout, identity)

    def __call__(self, *args, out=None, where=None):
        for name, value in (("out", out), ("where", where)):
            if value is not None:
                raise NotImplementedError(f"{self} does not support {name!r}: arrays are immutable. Use the result, or "
                                          f"numpy.where.")
        return self._mapped(*args)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _MappedFunction) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key[:3])

    def __repr__(self) -> str:
        return f"<xnp.ufunc '{self.__name__}'>"


def _binary_only(function, method: str) -> None:
    name = function.__name__
    if function.nin != 2:
        raise ValueError(f"numpy.{name}.{method}: {method} is only supported for binary ufuncs.")
    if function.nout != 1:
        raise ValueError(f"numpy.{name}.{method}: {method} is only supported for functions returning a single value.")


def _fold(function, a, axis: int, start=None, where=None, return_steps: bool = False):
    """Compute `function(...function(function(start, a[0]), a[1])...)` over the elements that `where` selects.

    Without `start` it begins with `a[0]`. With `return_steps`, return the array of all intermediate results.
    """
    rows, masks = move_dim(a, axis, 0), where if where is None else move_dim(where, axis, 0)
    if start is None:
        start, rows = getitem(rows, 0), getitem(rows, slice(1, None))

    def step(carry, x):
        row, mask = x
        result = as_type(function(carry, row), a.dtype, False)
        result = result if mask is None else choose(mask, result, carry)
        return result, result if return_steps else None

    last, steps = _scan(step, start, (rows, masks))
    if not return_steps:
        return last
    first = reshape_to(start, (1, *np.shape(start)))
    return move_dim(concatenate_p.bind(first, steps, dimension=0), 0, axis)


def _result_dtype(function, a, dtype):
    """Return the dtype of a function of two elements: the requested one, unless the function converts it to floats."""
    operand_dtype = tracing.aval_of(a).dtype if dtype is None else dtypes.check_user_dtype(dtype, f"numpy.{function.__name__}")
    avals = [tracing.aval_of(np.zeros((), operand_dtype))]
    result_dtype = tracing.trace_to_closed_jaxpr(lambda x: [function(x, x)], avals).out_avals[0].dtype
    becomes_inexact = dtypes.is_inexact(result_dtype) and not dtypes.is_inexact(operand_dtype)
    return result_dtype if dtype is None or becomes_inexact else operand_dtype


def reduce(function: Callable, a: ArrayLike, axis: int | None = 0, dtype: DTypeLike | None = None, out: None = None,
           keepdims: bool = False, initial: ArrayLike | None = None, where: ArrayLike | None = None) -> Array:
    """Reduce an axis by applying the function to its elements in turn.

    Args:
        a: Array.
        axis: Axis to reduce over. None reduces over all axes.
        dtype: dtype of the result.
        out: Must be None (for compatibility with NumPy): arrays are immutable.
        keepdims: If True, keep reduced axes with size 1.
        initial: Start value. Default: the identity of the function.
        where: Boolean array that selects the elements to include. Functions without identity require `initial` with it.

    Returns:
        Array of the shape of `a` without the reduced axes.

    Example:
        >>> xnp.add.reduce(xnp.array([[1, 2], [3, 4]]))
        Array([4, 6], dtype=int32)
    """
    name = function.__name__
    _binary_only(function, "reduce")
    reductions.refuse_out(f"{name}.reduce", out)
    check_arraylike(f"{name}.reduce", a)
    a = asarray(a)
    if where is not None:
        where = boolean_mask(f"numpy.{name}.reduce", where)
        if initial is None and function.identity is None:
            raise ValueError(f"numpy.{name} does not have an identity: reduce with `where` needs `initial`.")
    if axis is not None and not a.ndim:
        canonical_axis(axis, 0, f"numpy.{name}.reduce")
    if function in _BITWISE and dtypes.is_inexact(a.dtype):
        raise ValueError(f"numpy.{name}.reduce needs an integer or boolean argument, got dtype {a.dtype}: convert it with "
                         "x.astype(...).")
    if function in _REDUCTIONS and (initial is None or function not in _LOGICAL):
        options = {n: v for n, v in (("dtype", dtype), ("initial", initial), ("where", where)) if v is not None}
        if dtype is not None and function not in _CUMULATIVE:
            d = dtypes.check_user_dtype(options.pop("dtype"), f"numpy.{name}.reduce")
            if function is PUBLIC["maximum"] or function in _LOGICAL and dtypes.issubdtype(d, np.inexact):
                raise TypeError(f"numpy.{name}.reduce does not support dtype {d}: convert its argument or its result.")
            a = as_type(a, d, False)
            return as_type(_REDUCTIONS[function](a, axis=axis, keepdims=keepdims, **options), d, False)
        return _REDUCTIONS[function](a, axis=axis, keepdims=keepdims, **options)
    if function is PUBLIC["logical_xor"] and dtype is not None and dtypes.is_inexact(
            dtypes.check_user_dtype(dtype, "numpy.logical_xor.reduce")):
        raise TypeError(f"numpy.{name}.reduce does not support dtype {dtype}: convert its result.")
    if isinstance(axis, tuple) and function not in _ANY_ORDER:
        raise NotImplementedError(
            f"numpy.{name}.reduce takes one axis, not a tuple of axes: the order of its elements matters.")
    shape = a.shape
    axes = tuple(range(a.ndim)) if axis is None else canonical_axes(axis, a.ndim, f"numpy.{name}.reduce")
    d = _result_dtype(function, a, dtype)
    where = where if where is None else broadcast_to(where, shape)
    along = axes[0] if len(axes) == 1 else 0
    if len(axes) != 1:
        rest = [i for i in range(a.ndim) if i not in axes]

        def merge_axes(v):
            return reshape_to(transpose(v, (*axes, *rest)), (math.prod([shape[i] for i in axes]), *[shape[i] for i in rest]))

        a, where = merge_axes(a), where if where is None else merge_axes(where)
    start = function.identity if initial is None else initial
    if start is None and not a.shape[along]:
        raise ValueError(f"numpy.{name}.reduce of an empty array (zero-size) has no identity to return: give `initial`.")
    is_custom = PUBLIC.get(name) is not function  # its identity may not be neutral
    if start is not None and (initial is not None or where is not None or not a.shape[along] or is_custom):
        start = full(tuple(n for i, n in enumerate(a.shape) if i != along), start, d)
    else:
        start = None
    result = _fold(function, as_type(a, d, False), along, start, where)
    return reductions.keep_dims(result, shape, axes) if keepdims else result


def accumulate(function: Callable, a: ArrayLike, axis: int | None = 0, dtype: DTypeLike | None = None,
               out: None = None) -> Array:
    """Compute the results of `reduce` up to each element along an axis.

    Args:
        a: Array.
        axis: Axis to accumulate along. For `add` and `multiply` None accumulates over the flattened array.
        dtype: dtype of the result.
        out: Must be None (for compatibility with NumPy): arrays are immutable.

    Returns:
        Array of the shape of `a`.

    Example:
        >>> xnp.multiply.accumulate(xnp.array([1, 2, 3]))
        Array([1, 2, 6], dtype=int32)
    """
    name = function.__name__
    _binary_only(function, "accumulate")
    reductions.refuse_out(f"{name}.accumulate", out)
    check_arraylike(f"{name}.accumulate", a)
    a = asarray(a)
    if function in _CUMULATIVE:
        return _CUMULATIVE[function](a, axis=axis, dtype=dtype)
    if axis is None or isinstance(axis, tuple):
        raise ValueError(f"numpy.{name}.accumulate works along one axis and does not allow multiple axes, got {axis}: apply it "
                         "to numpy.ravel(a).")
    axis = canonical_axis(axis, a.ndim, f"numpy.{name}.accumulate")
    d = _result_dtype(function, a, dtype)
    if dtype is not None and d != dtypes.check_user_dtype(dtype, f"numpy.{name}.accumulate"):
        raise TypeError(f"numpy.{name}.accumulate cannot return dtype {dtype}: the function converts it to {d}.")
    operand: Any = as_type(a, d, False)
    return _fold(function, operand, axis, return_steps=True) if operand.shape[axis] else operand


def reduceat(function: Callable, a: ArrayLike, indices: ArrayLike, axis: int = 0, dtype: DTypeLike | None = None,
             out: None = None) -> Array:
    """Compute `reduce` over segments of an axis.

    Args:
        a: Array.
        indices: Start of each segment. A segment ends at the start of the next one, the last at the end of the axis. If the
            next start is not greater, the segment is one element.
        axis: Axis to reduce over.
        dtype: dtype of the result.
        out: Must be None (for compatibility with NumPy): arrays are immutable.

    Returns:
        Array of the shape of `a`, with the number of segments along the axis.

    Example:
        >>> xnp.add.reduceat(xnp.array([1, 2, 3, 4]), xnp.array([0, 3]))
        Array([6, 4], dtype=int32)
    """
    name = function.__name__
    _binary_only(function, "reduceat")
    reductions.refuse_out(f"{name}.reduceat", out)
    check_arraylike(f"{name}.reduceat", a, indices)
    a, starts = asarray(a), asarray(indices)
    if starts.ndim != 1:
        raise ValueError(f"numpy.{name}.reduceat takes the starts of segments as a vector, got indices of shape "
                         f"{starts.shape}.")
    if axis is None or isinstance(axis, (tuple, list)):
        raise ValueError(f"numpy.{name}.reduceat takes one axis, an integer, got {axis!r}.")
    axis = canonical_axis(axis, a.ndim, f"numpy.{name}.reduceat")
    a = as_type(a, _result_dtype(function, a, dtype), False)
    n, rows = a.shape[axis], move_dim(a, axis, 0)
    ends = append(getitem(starts, slice(1, None)), n)
    count = starts.shape[0]
    first = take(rows, starts, 0)
    trailing = (1,) * (rows.ndim - 1)

    def step(carry, position):
        inside = PUBLIC["logical_and"](position > starts, position < ends)
        row = broadcast_to(getitem(rows, position), carry.shape)
        return choose(reshape_to(inside, (count, *trailing)), as_type(function(carry, row), carry.dtype, False), carry), None

    result, _ = _scan(step, as_type(first, a.dtype, False), arange(n, dtype=starts.dtype))
    return move_dim(result, 0, axis)


def outer(function: Callable, A: ArrayLike, B: ArrayLike, /) -> Array:
    """Apply the function to all pairs of elements of two arrays.

    Args:
        A, B: Arrays.

    Returns:
        Array of the shape `A.shape + B.shape`.

    Example:
        >>> xnp.add.outer(xnp.array([10, 20]), xnp.array([1, 2]))
        Array([[11, 12],
               [21, 22]], dtype=int32)
    """
    name = function.__name__
    _binary_only(function, "outer")
    check_arraylike(f"{name}.outer", A, B)
    A, B = unwrap(A), unwrap(B)
    return function(reshape_to(asarray(A), (*np.shape(A), *(1,) * np.ndim(B))), reshape_to(asarray(B), (
        *(1,) * np.ndim(A), *np.shape(B))))


def at(function: Callable, a: ArrayLike, indices: Any, b: ArrayLike | None = None, /, *, inplace: bool = True) -> Array:
    """Apply the function to selected elements, repeatedly for repeated indices.

    Args:
        a: Array.
        indices: Index of the elements, as in `a[indices]`.
        b: Second operands of binary functions.
        inplace: Must be False: arrays are immutable. The default, NumPy's behavior, raises an error.

    Returns:
        New array with the updated elements.

    Example:
        >>> xnp.add.at(xnp.zeros(3), xnp.array([1, 1]), 5.0, inplace=False)
        Array([ 0., 10.,  0.], dtype=float32)
    """
    name = function.__name__
    if inplace:
        raise NotImplementedError(f"arrays are immutable: numpy.{name}.at cannot change its argument. Write "
                                  f"y = numpy.{name}.at(x, indices, ..., inplace=False).")
    check_arraylike(f"{name}.at", a, *[x for x in (b,) if x is not None])
    target = AtIndex(asarray(a), indices)
    if function.nin == 1:
        if b is not None:
            raise TypeError(f"numpy.{name}.at takes no second operands: numpy.{name} is unary.")
        return target.apply(function)
    if b is None:
        raise TypeError(f"numpy.{name}.at needs second operands.")
    if function not in _PRESERVES_DTYPE:
        pair = [tracing.aval_of(x).update(shape=()) for x in (target.array, asarray(b))]
        target = AtIndex(as_type(target.array, tracing.trace_to_closed_jaxpr(
            lambda x, y: [function(x, y)], pair).out_avals[0].dtype, False), indices)
    if function in _UPDATES and target.array.dtype != bool:
        return getattr(target, _UPDATES[function])(b)
    # A loop over the elements, since indices may be repeated. A position behind the end marks indices out of bounds.
    size = target.array.size
    positions = AtIndex(reshape_to(arange(size), target.array.shape), indices).get(mode="fill", fill_value=size)
    flat = reshape_to(target.array, (target.array.size,))
    pairs = reshape_to(positions, (positions.size,)), reshape_to(broadcast_to(b, positions.shape), (positions.size,))

    def step(carry, pair):
        position, value = pair
        new = function(getitem(carry, position), value)
        return AtIndex(carry, position).set(as_type(new, carry.dtype, False), mode="drop"), None

    return reshape_to(_scan(step, flat, pairs)[0], target.array.shape)


# Compiled methods, cached by ufunc. Only NumPy's ufuncs use them: the results of `frompyfunc` may be many.
_STATIC: dict[Callable, tuple[str, ...]] = {
    reduce: ("axis", "dtype", "out", "keepdims"), accumulate: ("axis", "dtype", "out"), outer: ()}
_COMPILED = {method: library(accepts(anything=True)(method), static=("function", *static))
             for method, static in _STATIC.items()}


def _give_methods(function, nin: int, nout: int, identity) -> None:
    function.kind, function.nin, function.nout, function.nargs, function.identity = ufunc, nin, nout, nin, identity
    for method in (reduce, accumulate, reduceat, outer, at):
        compiled = _COMPILED.get(method, method) if PUBLIC.get(function.__name__) is function else method
        bound = functools.partial(compiled, function)
        bound.__doc__, bound.__name__ = method.__doc__, method.__name__
        setattr(function, method.__name__, bound)


for _name, _identity in IDENTITIES.items():
    _give_methods(PUBLIC[_name], 1 if _name == "negative" else 2, 1, _identity)
