"""Functions of scalars and vectors mapped over arrays: `vectorize`, `apply_along_axis`, `piecewise`, `fromfunction`."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from xlafront.api.vmap import vmap
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.core.wrapping import wraps
from xlafront.lax.shapes import canonical_axis, reshape_to, static_shape
from xlafront.numpy.creation import arange, asarray, full
from xlafront.numpy.manipulation import broadcast_arrays, expand_dims, ravel
from xlafront.numpy.promotion import broadcast_shapes, check_arraylike
from xlafront.numpy.searching import where
from xlafront.numpy.ufuncs import to_bool
from xlafront.staging.jit import jit
from xlafront.staging.library import library

# Signatures: the core dimensions of arguments and results, as in "(m,n),(n)->(m)"

_NAMES = r"\w+(?:,\w+)*"
_DIMENSIONS = rf"\((?:{_NAMES})?\)"
_LIST = rf"{_DIMENSIONS}(?:,{_DIMENSIONS})*"


def parse_signature(signature: str) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Split a gufunc signature into the core dimensions of each argument and of each result."""
    text = re.sub(r"\s+", "", signature)
    if not re.fullmatch(rf"{_LIST}->{_LIST}", text):
        raise ValueError(f"not a valid gufunc signature: {signature!r}. A signature names the dimensions of arguments and "
                         f"results, as in '(m,n),(n)->(m)'.")
    arguments, results = ([tuple(filter(None, dimensions[1:-1].split(","))) for dimensions in re.findall(_DIMENSIONS, side)]
                          for side in text.split("->"))
    return arguments, results


class Sizes:
    """The sizes of named core dimensions, collected from arguments and results."""

    def __init__(self, context: str):
        self.sizes: dict[str, int] = {}
        self.context = context

    def record(self, shape: tuple, names: tuple[str, ...]) -> None:
        for name, n in zip(names, shape):
            if self.sizes.setdefault(name, n) != n:
                raise ValueError(f"inconsistent size for core dimension {name!r}: {n} vs {self.sizes[name]} {self.context}")

    def record_arguments(self, shapes: Sequence[tuple], dimensions: Sequence[tuple[str, ...]]) -> list[tuple[int, ...]]:
        """Record the core dimensions of each argument and return the leading ones."""
        if len(dimensions) != len(shapes):
            raise TypeError(f"wrong number of positional arguments: expected {len(dimensions)}, got {len(shapes)} "
                            f"{self.context}")
        leading = []
        for shape, names in zip(shapes, dimensions):
            if len(shape) < len(names):
                raise ValueError(f"input with shape {shape} does not have enough dimensions for all core dimensions {names} "
                                 f"{self.context}")
            lead = len(shape) - len(names)
            self.record(shape[lead:], names)
            leading.append(shape[:lead])
        return leading

    def check_results(self, result, names_of_results) -> None:
        several = isinstance(result, (tuple, list))
        given = list(result) if several else [result]
        if len(names_of_results) != len(given) or (several and len(names_of_results) == 1):
            raise TypeError(f"wrong number of output arguments: expected {len(names_of_results)}, got {len(given)} "
                            f"{self.context}")
        for x, names in zip(given, names_of_results):
            shape = np.shape(x)
            if len(shape) != len(names):
                raise ValueError(f"output shape {shape} does not match core dimensions {names} {self.context}")
            self.record(shape, names)


def without_excluded(function: Callable, excluded: Collection[int | str], args: Sequence[Any], kwargs: dict[str, Any]
                     ) -> tuple[Callable, Sequence[Any], dict[str, Any]]:
    """Bind the excluded arguments, given by position or name; return the function and the remaining arguments."""
    if not excluded:
        return function, args, kwargs
    included = [i for i in range(len(args)) if i not in excluded]
    named = {name: x for name, x in kwargs.items() if name in excluded}

    def partial(*values: Any, **keywords: Any) -> Any:
        full_args = list(args)
        for i, x in zip(included, values):
            full_args[i] = x
        return function(*full_args, **keywords, **named)

    return partial, [args[i] for i in included], {name: x for name, x in kwargs.items() if name not in excluded}


def vectorize(pyfunc: Callable, *, excluded: Collection[int | str] = frozenset(), signature: str | None = None) -> Callable:
    """Map a function of scalars, or of arrays with the core dimensions of a signature, over broadcast arrays.

    Args:
        pyfunc: The function.
        excluded: A set of positions and names of arguments that are passed on unmapped.
        signature: The core dimensions of arguments and results, as in "(m,n),(n)->(m)". Default: scalars.

    Returns:
        A function of arrays. An argument None is passed on.

    Note:
        Unlike NumPy's loop over elements, this is a `vmap` of the function.

    Example:
        >>> total = xnp.vectorize(lambda x, y: xnp.sum(x) * y, signature="(n),()->()")
        >>> total(xnp.ones((2, 3)), xnp.array([1.0, 2.0]))
        Array([3., 6.], dtype=float32)
    """
    if any(not isinstance(e, (int, str)) for e in excluded):
        raise TypeError(f"numpy.vectorize can only exclude integer or string arguments, positions and names; got "
                        f"excluded={excluded!r}.")
    if any(isinstance(e, int) and e < 0 for e in excluded):
        raise ValueError(f"excluded={excluded!r} of numpy.vectorize contains negative numbers.")
    context = f"on vectorized function with excluded={excluded!r} and signature={signature!r}"

    @wraps(pyfunc)
    def vectorized(*args: Any, **kwargs: Any) -> Any:
        missing = {key for key, x in (*enumerate(args), *kwargs.items()) if x is None}
        mapped, positional, named = without_excluded(pyfunc, {*excluded, *missing}, args, kwargs)
        arrays = [asarray(x) for x in (*positional, *named.values())]
        dimensions, results = ([()] * len(arrays), None) if signature is None else parse_signature(signature)
        if signature is not None and missing:
            included = [x for i, x in enumerate(args) if i not in excluded]
            dimensions = [d for d, x in zip_longest(dimensions, included, fillvalue=()) if x is not None]
        sizes = Sizes(context)
        shapes = sizes.record_arguments([x.shape for x in arrays], dimensions)

        def call(*values):
            result = mapped(*values[:len(positional)], **dict(zip(named, values[len(positional):])))
            if results is not None:
                sizes.check_results(result, results)
            return result

        full_shape = broadcast_shapes("vectorize", *shapes)
        rank = len(full_shape)
        # A dimension of size 1 is left unmapped if another array has a greater size there.
        is_mapped = [[n != 1 or full_shape[rank - len(shape) + i] == 1 for i, n in enumerate(shape)] for shape in shapes]
        arrays = [reshape_to(x, (*[n for n, k in zip(shape, keep) if k], *x.shape[len(shape):]))
                  for x, shape, keep in zip(arrays, shapes, is_mapped)]
        function = call
        for d in range(rank - 1, -1, -1):
            axes = tuple(0 if (i := d - rank + len(shape)) >= 0 and keep[i] else None for shape, keep in zip(shapes, is_mapped))
            function = vmap(function, in_axes=axes)
        return function(*arrays)

    return vectorized


def apply_along_axis(func1d: Callable, axis: int, arr: ArrayLike, *args: Any, **kwargs: Any) -> Any:
    """Apply a function of vectors to all vectors along an axis.

    Args:
        func1d: The function.
        axis: The axis of the vectors.
        arr: The array.
        args, kwargs: Additional arguments of the function.

    Returns:
        The results, whose dimensions replace the axis.

    Example:
        >>> xnp.apply_along_axis(xnp.sum, 0, xnp.ones((2, 3)))
        Array([2., 2., 2.], dtype=float32)
    """
    check_arraylike("apply_along_axis", arr)
    rank = np.ndim(arr)
    axis = canonical_axis(axis, rank, "numpy.apply_along_axis")

    def function(x):
        return func1d(x, *args, **kwargs)

    for i in range(1, rank - axis):
        function = vmap(function, in_axes=i, out_axes=-1)
    for _ in range(axis):
        function = vmap(function)
    return function(asarray(arr))


def apply_over_axes(func: Callable, a: ArrayLike, axes: Sequence[int]) -> Array:
    """Apply a function such as `sum` over several axes in turn and keep their dimensions.

    Args:
        func: A function of an array and an axis.
        a: The array.
        axes: The axes.

    Returns:
        The result, with as many dimensions as `a`.

    Example:
        >>> xnp.apply_over_axes(xnp.sum, xnp.ones((2, 3)), (0, 1))
        Array([[6.]], dtype=float32)
    """
    check_arraylike("apply_over_axes", a)
    a = asarray(a)
    for axis in axes:
        result = func(a, axis)
        if np.ndim(result) == a.ndim - 1:
            result = expand_dims(result, axis)
        if np.ndim(result) != a.ndim:
            raise ValueError(f"the function given to numpy.apply_over_axes must return an array of {a.ndim} dimensions, or one "
                             f"less; got shape {np.shape(result)}.")
        a = asarray(result)
    return a


def piecewise(x: ArrayLike, condlist: ArrayLike | Sequence[ArrayLike], funclist: Sequence[Any], *args: Any, **kw: Any) -> Array:
    """Evaluate a function that is defined piecewise by conditions.

    All functions are evaluated at all elements, as by `vmap` of `lax.switch`.

    Args:
        x: The array.
        condlist: The conditions, boolean arrays. If several are true, the last of them decides.
        funclist: For each condition, a function of a scalar or a value; optionally one more for the elements at which
            no condition is true. Default of the latter: 0.
        args, kw: Additional arguments of the functions.

    Returns:
        The result, with the shape and dtype of `x`.

    Example:
        >>> xnp.piecewise(xnp.array([-1.0, 2.0]), [xnp.array([True, False])], [lambda v: -v, 5.0])
        Array([1., 5.], dtype=float32)
    """
    check_arraylike("piecewise", x)
    count, given = len(condlist), len(funclist)
    if not count:
        raise ValueError("numpy.piecewise needs at least one condition: it cannot take the argmax of an empty sequence.")
    if given not in (count, count + 1):
        raise ValueError(f"numpy.piecewise: with {count} condition(s), either {count} or {count + 1} functions are expected; "
                         f"got {given}.")
    x, values = asarray(x), [*funclist[:count], funclist[count] if given > count else 0]
    called = [i for i, f in enumerate(values) if callable(f)]
    if called:
        found = _call_each(tuple([values[i] for i in called]), ravel(x), args, kw)
        for i, value in zip(called, found):
            values[i] = value
    return _select_last(x, condlist, values)


@functools.partial(jit, static_argnums=0)
def _call_each(functions, x, args, kw):
    """Call functions with each element of a vector; jitted, so that they are traced once."""
    return vmap(lambda v: [f(v, *args, **kw) for f in functions])(x)


@library(name="piecewise")
def _select_last(x, condlist, values):
    """Select the last value whose condition is true, or the additional value at the end if there is none."""
    *values, result = [full(x.size, asarray(value), x.dtype).reshape(x.shape) for value in values]
    for condition, value in zip(condlist, values):
        condition, result, value = broadcast_arrays(to_bool(asarray(condition)), result, value)
        result = where(condition, value, result)
    return result


def fromfunction(function: Callable, shape: int | Sequence[int], *, dtype: DTypeLike = float, **kwargs: Any) -> Any:
    """Build an array by calling a function with the indices of each element.

    Args:
        function: A function of as many scalars as there are dimensions.
        shape: Shape of the array.
        dtype: dtype of the indices.
        kwargs: Additional arguments of the function.

    Returns:
        The array. If the function returns an array for each element, its dimensions come last.

    Note:
        NumPy calls the function once with arrays of all indices; this is a `vmap` of the function.

    Example:
        >>> xnp.fromfunction(lambda i, j: 10 * i + j, (2, 2), dtype=int)
        Array([[ 0,  1],
               [10, 11]], dtype=int32)
    """
    sizes = static_shape("fromfunction", shape)

    def mapped(*indices):
        return function(*indices, **kwargs)

    for i in reversed(range(len(sizes))):
        mapped = vmap(mapped, in_axes=tuple([0 if j == i else None for j in range(len(sizes))]))
    return mapped(*[arange(n, dtype=dtype) for n in sizes])
