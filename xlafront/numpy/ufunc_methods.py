"""The methods of ufuncs: `xnp.add.reduce` and its kin, attached to the functions of `ufuncs`, which stay as fast as others."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from xlafront.core import dtypes, tracing
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.lax.dynamic_slicing import dynamic_update_slice_in_dim
from xlafront.lax.elementwise import as_type
from xlafront.lax.shapes import canonical_axes, canonical_axis, move_dim, reshape_to
from xlafront.lax.slicing import concatenate_p
from xlafront.numpy import reductions
from xlafront.numpy.creation import arange, asarray, full
from xlafront.numpy.indexing import getitem
from xlafront.numpy.manipulation import append, broadcast_to, transpose
from xlafront.numpy.promotion import boolean_mask, check_arraylike, unwrap
from xlafront.numpy.searching import where as choose
from xlafront.numpy.ufuncs import IDENTITIES, PUBLIC
from xlafront.numpy.updates import AtIndex
from xlafront.staging.library import written_once


# Those that a reduction of its own, a cumulative one, an update does.
def _of_functions(table: dict) -> dict:
    return {PUBLIC[name]: found for name, found in table.items()}


_REDUCTIONS = _of_functions({
    "add": reductions.sum, "multiply": reductions.prod, "maximum": reductions.max, "minimum": reductions.min,
    "logical_and": reductions.all, "logical_or": reductions.any})
_LOGICAL = frozenset((PUBLIC["logical_and"], PUBLIC["logical_or"]))
_ANY_ORDER = frozenset(PUBLIC[name] for name in (
    "logaddexp", "logaddexp2", "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor"))
_CUMULATIVE = _of_functions({"add": reductions.cumsum, "multiply": reductions.cumprod})
_UPDATES = _of_functions({"add": "add", "subtract": "subtract", "multiply": "multiply", "maximum": "max", "minimum": "min"})
_KEEPING = _of_functions(dict.fromkeys(("add", "subtract", "multiply")))  # `at` keeps the dtype of the array


def _scan(step, start, rows):
    from xlafront.control.scan import scan  # start-up: with what loops ask of derivatives, 20 ms

    return scan(step, start, rows)


class _UfuncMeta(type):
    """The functions with these methods are instances of `ufunc`, which none inherits from."""

    def __instancecheck__(cls, instance):
        return callable(instance) and getattr(instance, "kind", None) is cls


class ufunc(metaclass=_UfuncMeta):
    """An elementwise function with the methods of NumPy's ufuncs: `xnp.add` and its kin, and what `frompyfunc` makes.

    - `nin`, `nout`, `nargs`: how many arguments and results it has, and both together.
    - `identity`: the number that changes nothing, or None.
    - `reduce`, `accumulate`, `reduceat`, `outer`, `at`: its methods, for functions of two arguments (but for `at`) and one
      result.

    >>> isinstance(xnp.add, xnp.ufunc), xnp.add.nin, xnp.multiply.identity
    (True, 2, 1)
    """

    def __new__(cls, func: Callable, nin: int, nout: int, *, identity: Any = None):
        return frompyfunc(func, nin, nout, identity=identity)


def frompyfunc(func: Callable, /, nin: int, nout: int, *, identity: Any = None) -> Callable:
    """An elementwise function with the methods of ufuncs, from one of numbers.

    - `func`: the function.
    - `nin`: how many numbers it takes. `nout`: how many it returns.
    - `identity`: the number that changes nothing, where `reduce` begins.

    >>> xnp.frompyfunc(lambda x, y: x * y + 1, 2, 1).reduce(xnp.array([1.0, 2.0, 3.0]))
    Array(10., dtype=float32)
    """
    from xlafront.numpy.mapping import vectorize  # start-up: it is used by few

    mapped = vectorize(func)

    def function(*args):
        return mapped(*args)

    function.__name__ = function.__qualname__ = func.__name__
    function.__doc__ = func.__doc__
    _give_methods(function, operator.index(nin), operator.index(nout), identity)
    return function


def _binary_only(function, method: str) -> None:
    name = function.__name__
    if function.nin != 2:
        raise ValueError(f"xnp.{name}.{method}: {method} is only supported for binary ufuncs.")
    if function.nout != 1:
        raise ValueError(f"xnp.{name}.{method}: {method} is only supported for functions returning a single value.")


def _fold(function, a, axis: int, start=None, where=None, kept: bool = False):
    """`function(...function(function(a[0], a[1]), a[2])...)`, of the elements that `where` names, after `start`; all its steps
    where they are `kept`."""
    rows, masks = move_dim(a, axis, 0), where if where is None else move_dim(where, axis, 0)
    if start is None:
        start, rows = getitem(rows, 0), getitem(rows, slice(1, None))

    def step(carry, given):
        row, mask = given
        result = as_type(function(carry, row), a.dtype, False)
        result = result if mask is None else choose(mask, result, carry)
        return result, result if kept else None

    last, steps = _scan(step, start, (rows, masks))
    if not kept:
        return last
    first = reshape_to(start, (1, *np.shape(start)))
    return move_dim(concatenate_p.bind(first, steps, dimension=0), 0, axis)


def _result_dtype(function, a, dtype):
    """The dtype that a function of two such elements gives; one that is asked for, unless the function makes floats of it."""
    wanted = tracing.aval_of(a).dtype if dtype is None else dtypes.check_user_dtype(dtype, f"xnp.{function.__name__}")
    given = [tracing.aval_of(np.zeros((), wanted))]
    found = tracing.trace_to_closed_jaxpr(lambda x: [function(x, x)], given).out_avals[0].dtype
    return found if dtype is None or dtypes.is_inexact(found) and not dtypes.is_inexact(wanted) else wanted


def reduce(function: Callable, a: ArrayLike, axis: int | None = 0, dtype: DTypeLike | None = None, out: None = None,
           keepdims: bool = False, initial: ArrayLike | None = None, where: ArrayLike | None = None) -> Array:
    """The function applied to all elements along an axis in turn.

    - `a`: the array.
    - `axis`: along which; None for all elements.
    - `dtype`: that of the result.
    - `out`: of NumPy's signature; it must be None.
    - `keepdims`: whether the axis stays, with size 1.
    - `initial`: what stands before the first element.
    - `where`: which elements count; functions without identity need `initial` for it.

    >>> xnp.add.reduce(xnp.array([[1, 2], [3, 4]]))
    Array([4, 6], dtype=int32)
    """
    name = function.__name__
    _binary_only(function, "reduce")
    reductions.refuse_out(f"{name}.reduce", out)
    check_arraylike(f"{name}.reduce", a)
    a = asarray(a)
    if where is not None:
        where = boolean_mask(f"xnp.{name}.reduce", where)
        if initial is None and function.identity is None:
            raise ValueError(f"xnp.{name} does not have an identity: reduce with `where` needs `initial`.")
    if axis is not None and not a.ndim:
        canonical_axis(axis, 0, f"xnp.{name}.reduce")
    if function in _REDUCTIONS and (initial is None or function not in _LOGICAL):
        options = {n: v for n, v in (("dtype", dtype), ("initial", initial), ("where", where)) if v is not None}
        if dtype is not None and function not in _CUMULATIVE:
            wanted = dtypes.check_user_dtype(options.pop("dtype"), f"xnp.{name}.reduce")
            if function is PUBLIC["maximum"] or function in _LOGICAL and dtypes.issubdtype(wanted, np.inexact):
                raise TypeError(f"xnp.{name}.reduce takes no dtype {wanted}: convert its argument or its result.")
            a = as_type(a, wanted, False)
            return as_type(_REDUCTIONS[function](a, axis=axis, keepdims=keepdims, **options), wanted, False)
        return _REDUCTIONS[function](a, axis=axis, keepdims=keepdims, **options)
    if function is PUBLIC["logical_xor"] and dtype is not None and dtypes.is_inexact(
            dtypes.check_user_dtype(dtype, "xnp.logical_xor.reduce")):
        raise TypeError(f"xnp.{name}.reduce takes no dtype {dtype}: convert its result.")
    if isinstance(axis, tuple) and function not in _ANY_ORDER:
        raise NotImplementedError(f"xnp.{name}.reduce takes one axis, not a tuple of axes: the order of its elements matters.")
    shape = a.shape
    axes = tuple(range(a.ndim)) if axis is None else canonical_axes(axis, a.ndim, f"xnp.{name}.reduce")
    d = _result_dtype(function, a, dtype)
    where = where if where is None else broadcast_to(where, shape)
    along = axes[0] if len(axes) == 1 else 0
    if len(axes) != 1:
        rest = [i for i in range(a.ndim) if i not in axes]

        def in_a_row(v):
            return reshape_to(transpose(v, (*axes, *rest)), (math.prod([shape[i] for i in axes]), *[shape[i] for i in rest]))

        a, where = in_a_row(a), where if where is None else in_a_row(where)
    start = function.identity if initial is None else initial
    if start is None and not a.shape[along]:
        raise ValueError(f"xnp.{name}.reduce of an empty array (zero-size) has no identity to return: give `initial`.")
    of_user = PUBLIC.get(name) is not function  # whose identity may change something
    if start is not None and (initial is not None or where is not None or not a.shape[along] or of_user):
        start = full(tuple(n for i, n in enumerate(a.shape) if i != along), start, d)
    else:
        start = None
    result = _fold(function, as_type(a, d, False), along, start, where)
    return reductions.keep_dims(result, shape, axes) if keepdims else result


def accumulate(function: Callable, a: ArrayLike, axis: int | None = 0, dtype: DTypeLike | None = None,
               out: None = None) -> Array:
    """The results of `reduce` after each element along an axis.

    - `a`: the array.
    - `axis`: along which; sums and products take None for the array as one vector.
    - `dtype`: that of the result.
    - `out`: of NumPy's signature; it must be None.

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
        raise ValueError(f"xnp.{name}.accumulate goes along one axis and does not allow multiple axes, got {axis}: take it of "
                         "xnp.ravel(a).")
    axis = canonical_axis(axis, a.ndim, f"xnp.{name}.accumulate")
    d = _result_dtype(function, a, dtype)
    if dtype is not None and d != dtypes.check_user_dtype(dtype, f"xnp.{name}.accumulate"):
        raise TypeError(f"xnp.{name}.accumulate cannot have the dtype {dtype}: the function makes {d} of it.")
    a = as_type(a, d, False)
    return _fold(function, a, axis, kept=True) if a.shape[axis] else a


def reduceat(function: Callable, a: ArrayLike, indices: ArrayLike, axis: int = 0, dtype: DTypeLike | None = None,
             out: None = None) -> Array:
    """The results of `reduce` over stretches of an axis.

    - `a`: the array.
    - `indices`: where stretches begin; each ends before the next of them begins, the last at the end. Where the next is not
      greater, it is one element.
    - `axis`: the axis.
    - `dtype`: that of the result.
    - `out`: of NumPy's signature; it must be None.

    >>> xnp.add.reduceat(xnp.array([1, 2, 3, 4]), xnp.array([0, 3]))
    Array([6, 4], dtype=int32)
    """
    name = function.__name__
    _binary_only(function, "reduceat")
    reductions.refuse_out(f"{name}.reduceat", out)
    check_arraylike(f"{name}.reduceat", a, indices)
    a, starts = asarray(a), asarray(indices)
    axis = canonical_axis(axis, a.ndim, f"xnp.{name}.reduceat")
    a = as_type(a, _result_dtype(function, a, dtype), False)
    n, rows = a.shape[axis], move_dim(a, axis, 0)
    ends = append(getitem(starts, slice(1, None)), n)
    number = starts.shape[0]
    first = getitem(rows, starts)
    trailing = (1,) * (rows.ndim - 1)

    def step(carry, position):
        inside = PUBLIC["logical_and"](position > starts, position < ends)
        row = broadcast_to(getitem(rows, position), carry.shape)
        return choose(reshape_to(inside, (number, *trailing)), as_type(function(carry, row), carry.dtype, False), carry), None

    result, _ = _scan(step, as_type(first, a.dtype, False), arange(n, dtype=starts.dtype))
    return move_dim(result, 0, axis)


def outer(function: Callable, A: ArrayLike, B: ArrayLike, /) -> Array:
    """The function of all pairs of an element of one array and one of another.

    - `A`, `B`: the arrays; the dimensions of `A` come first.

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
    """The array with the function applied to some elements, again for an index that is repeated.

    - `a`: the array.
    - `indices`: which elements, as in `a[indices]`.
    - `b`: the second operands.
    - `inplace`: of NumPy's behaviour, which changes `a`; arrays do not change, it must be False.

    >>> xnp.add.at(xnp.zeros(3), xnp.array([1, 1]), 5.0, inplace=False)
    Array([ 0., 10.,  0.], dtype=float32)
    """
    name = function.__name__
    if inplace:
        raise NotImplementedError(f"arrays are immutable: xnp.{name}.at cannot change its argument. Write "
                                  f"y = xnp.{name}.at(x, indices, ..., inplace=False).")
    check_arraylike(f"{name}.at", a, *[x for x in (b,) if x is not None])
    target = AtIndex(asarray(a), indices)
    if function.nin == 1:
        if b is not None:
            raise TypeError(f"xnp.{name}.at takes no second operands: xnp.{name} has one.")
        return target.apply(function)
    if b is None:
        raise TypeError(f"xnp.{name}.at needs second operands.")
    if function not in _KEEPING:
        pair = [tracing.aval_of(x).update(shape=()) for x in (target.array, asarray(b))]
        target = AtIndex(as_type(target.array, tracing.trace_to_closed_jaxpr(
            lambda x, y: [function(x, y)], pair).out_avals[0].dtype, False), indices)
    if function in _UPDATES and target.array.dtype != bool:
        return getattr(target, _UPDATES[function])(b)
    # One after the other, since an index may be repeated.
    places = getitem(reshape_to(arange(target.array.size), target.array.shape), indices)
    flat = reshape_to(target.array, (target.array.size,))
    pairs = reshape_to(places, (places.size,)), reshape_to(broadcast_to(b, places.shape), (places.size,))

    def step(carry, pair):
        place, value = pair
        new = function(getitem(carry, place), value)
        return dynamic_update_slice_in_dim(carry, as_type(reshape_to(new, (1,)), carry.dtype, False), place, 0), None

    return reshape_to(_scan(step, flat, pairs)[0], target.array.shape)


# Of NumPy's functions, one kernel for each: users' own may be many.
_COMPILED = {method: written_once(method, static=("function", *static)) for method, static in {
    reduce: ("axis", "dtype", "out", "keepdims"), accumulate: ("axis", "dtype", "out"), outer: ()}.items()}


def _give_methods(function, nin: int, nout: int, identity) -> None:
    function.kind, function.nin, function.nout, function.nargs, function.identity = ufunc, nin, nout, nin, identity
    for method in (reduce, accumulate, reduceat, outer, at):
        compiled = _COMPILED.get(method, method) if PUBLIC.get(function.__name__) is function else method
        bound = functools.partial(compiled, function)
        bound.__doc__, bound.__name__ = method.__doc__, method.__name__
        setattr(function, method.__name__, bound)


for _name, _identity in IDENTITIES.items():
    _give_methods(PUBLIC[_name], 1 if _name == "negative" else 2, 1, _identity)
