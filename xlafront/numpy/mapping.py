"""Functions of scalars and vectors, applied over arrays: `vectorize`, `apply_along_axis`, `piecewise`, `fromfunction`."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.core.wrapping import wraps
from xlafront.lax.shapes import canonical_axis, reshape_to, static_shape
from xlafront.numpy.creation import arange, asarray, full
from xlafront.numpy.manipulation import broadcast_arrays, expand_dims, ravel
from xlafront.numpy.promotion import broadcast_shapes, check_arraylike
from xlafront.numpy.searching import where
from xlafront.numpy.ufuncs import to_bool
from xlafront.staging.library import library
from xlafront.transforms.batching.vmap import vmap

# Signatures: the dimensions that a function sees of each argument, as in "(m,n),(n)->(m)"

_NAMES = r"\w+(?:,\w+)*"
_DIMENSIONS = rf"\((?:{_NAMES})?\)"
_LIST = rf"{_DIMENSIONS}(?:,{_DIMENSIONS})*"


def parse_signature(signature: str) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    text = re.sub(r"\s+", "", signature)
    if not re.fullmatch(rf"{_LIST}->{_LIST}", text):
        raise ValueError(f"not a valid gufunc signature: {signature!r}. One names the dimensions of arguments and results, as "
                         f"'(m,n),(n)->(m)' does.")
    arguments, results = ([tuple(filter(None, part[1:-1].split(","))) for part in re.findall(_DIMENSIONS, side)]
                          for side in text.split("->"))
    return arguments, results


class Sizes:
    """The sizes of the named dimensions, as they are found."""

    def __init__(self, about: str):
        self.found: dict[str, int] = {}
        self.about = about

    def note(self, shape: tuple, names: tuple[str, ...]) -> None:
        for name, n in zip(names, shape):
            if self.found.setdefault(name, n) != n:
                raise ValueError(f"inconsistent size for core dimension {name!r}: {n} vs {self.found[name]} {self.about}")

    def of_arguments(self, shapes: Sequence[tuple], dimensions: Sequence[tuple[str, ...]]) -> list[tuple[int, ...]]:
        """The dimensions of each argument before those that are named."""
        if len(dimensions) != len(shapes):
            raise TypeError(f"wrong number of positional arguments: expected {len(dimensions)}, got {len(shapes)} {self.about}")
        leading = []
        for shape, names in zip(shapes, dimensions):
            if len(shape) < len(names):
                raise ValueError(f"input with shape {shape} does not have enough dimensions for all core dimensions {names} "
                                 f"{self.about}")
            lead = len(shape) - len(names)
            self.note(shape[lead:], names)
            leading.append(shape[:lead])
        return leading

    def check_results(self, result, names_of_results) -> None:
        several = isinstance(result, (tuple, list))
        given = list(result) if several else [result]
        if len(names_of_results) != len(given) or (several and len(names_of_results) == 1):
            raise TypeError(f"wrong number of output arguments: expected {len(names_of_results)}, got {len(given)} "
                            f"{self.about}")
        for x, names in zip(given, names_of_results):
            shape = np.shape(x)
            if len(shape) != len(names):
                raise ValueError(f"output shape {shape} does not match core dimensions {names} {self.about}")
            self.note(shape, names)


def without_excluded(function: Callable, excluded: Collection[int | str], args: Sequence[Any], kwargs: dict[str, Any]
                     ) -> tuple[Callable, Sequence[Any], dict[str, Any]]:
    """The function with the excluded arguments, by position or name, in place, and the arguments that are left."""
    if not excluded:
        return function, args, kwargs
    kept = [i for i in range(len(args)) if i not in excluded]
    named = {name: x for name, x in kwargs.items() if name in excluded}

    def rest(*others: Any, **keywords: Any) -> Any:
        whole = list(args)
        for i, x in zip(kept, others):
            whole[i] = x
        return function(*whole, **keywords, **named)

    return rest, [args[i] for i in kept], {name: x for name, x in kwargs.items() if name not in excluded}


def vectorize(pyfunc: Callable, *, excluded: Collection[int | str] = frozenset(), signature: str | None = None) -> Callable:
    """A function of arrays from one of scalars, or of arrays of the dimensions that a signature names; all others broadcast.

    - `pyfunc`: the function.
    - `excluded`: positions and names of arguments that it gets as they are, a set.
    - `signature`: the dimensions of its arguments and results, as in "(m,n),(n)->(m)"; none without.

    Unlike NumPy's it is fast: `vmap` of the function.

    >>> total = xnp.vectorize(lambda x, y: xnp.sum(x) * y, signature="(n),()->()")
    >>> total(xnp.ones((2, 3)), xnp.array([1.0, 2.0]))
    Array([3., 6.], dtype=float32)
    """
    if any(not isinstance(e, (int, str)) for e in excluded):
        raise TypeError(f"xnp.vectorize can only exclude integer or string arguments, positions and names; got "
                        f"excluded={excluded!r}.")
    if any(isinstance(e, int) and e < 0 for e in excluded):
        raise ValueError(f"excluded={excluded!r} of xnp.vectorize contains negative numbers.")
    about = f"on vectorized function with excluded={excluded!r} and signature={signature!r}"

    @wraps(pyfunc)
    def vectorized(*args: Any, **kwargs: Any) -> Any:
        mapped, positional, named = without_excluded(pyfunc, excluded, args, kwargs)
        arrays = [asarray(x) for x in (*positional, *named.values())]
        dimensions, results = ([()] * len(arrays), None) if signature is None else parse_signature(signature)
        sizes = Sizes(about)
        shapes = sizes.of_arguments([x.shape for x in arrays], dimensions)

        def call(*values):
            result = mapped(*values[:len(positional)], **dict(zip(named, values[len(positional):])))
            if results is not None:
                sizes.check_results(result, results)
            return result

        full_shape = broadcast_shapes("vectorize", *shapes)
        rank = len(full_shape)
        # A dimension of size 1 is not mapped where another array has more of it.
        kept = [[n != 1 or full_shape[rank - len(shape) + i] == 1 for i, n in enumerate(shape)] for shape in shapes]
        arrays = [reshape_to(x, (*[n for n, k in zip(shape, keep) if k], *x.shape[len(shape):]))
                  for x, shape, keep in zip(arrays, shapes, kept)]
        function = call
        for d in range(rank - 1, -1, -1):
            axes = tuple(0 if (i := d - rank + len(shape)) >= 0 and keep[i] else None for shape, keep in zip(shapes, kept))
            function = vmap(function, in_axes=axes)
        return function(*arrays)

    return vectorized


def apply_along_axis(func1d: Callable, axis: int, arr: ArrayLike, *args: Any, **kwargs: Any) -> Any:
    """A function of vectors applied to all of them along an axis; what it returns stands where the axis was.

    - `func1d`: the function.
    - `axis`: the axis.
    - `arr`: the array.
    - `args`, `kwargs`: more arguments of the function.

    >>> xnp.apply_along_axis(xnp.sum, 0, xnp.ones((2, 3)))
    Array([2., 2., 2.], dtype=float32)
    """
    check_arraylike("apply_along_axis", arr)
    rank = np.ndim(arr)
    axis = canonical_axis(axis, rank, "xnp.apply_along_axis")

    def function(x):
        return func1d(x, *args, **kwargs)

    for i in range(1, rank - axis):
        function = vmap(function, in_axes=i, out_axes=-1)
    for _ in range(axis):
        function = vmap(function)
    return function(asarray(arr))


def apply_over_axes(func: Callable, a: ArrayLike, axes: Sequence[int]) -> Array:
    """A function such as `sum` applied over one axis after another, all of which stay.

    - `func`: the function, of an array and an axis.
    - `a`: the array.
    - `axes`: the axes.

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
            raise ValueError(f"the function given to xnp.apply_over_axes must return an array of {a.ndim} dimensions, or one "
                             f"less; got shape {np.shape(result)}.")
        a = asarray(result)
    return a


def piecewise(x: ArrayLike, condlist: ArrayLike | Sequence[ArrayLike], funclist: Sequence[Any], *args: Any, **kw: Any) -> Array:
    """The result of the function whose condition holds, element by element.

    - `x`: the array.
    - `condlist`: the conditions, boolean arrays; where several hold, the last of them decides.
    - `funclist`: a function of a number, or a number, for each condition; one more is for where none holds, 0 without.
    - `args`, `kw`: more arguments of the functions.

    Results have the dtype of `x`. All functions are computed for all elements, as by `vmap` of `lax.switch`.

    >>> xnp.piecewise(xnp.array([-1.0, 2.0]), [xnp.array([True, False])], [lambda v: -v, 5.0])
    Array([1., 5.], dtype=float32)
    """
    check_arraylike("piecewise", x)
    count, given = len(condlist), len(funclist)
    if not count:
        raise ValueError("xnp.piecewise needs a condition at least: it cannot take the argmax of an empty sequence.")
    if given not in (count, count + 1):
        raise ValueError(f"xnp.piecewise: with {count} condition(s), either {count} or {count + 1} functions are expected; got "
                         f"{given}.")
    x, values = asarray(x), [*funclist[:count], funclist[count] if given > count else 0]
    called = [i for i, f in enumerate(values) if callable(f)]
    if called:
        found = vmap(lambda v: [values[i](v, *args, **kw) for i in called])(ravel(x))
        for i, value in zip(called, found):
            values[i] = value
    return _pieces(x, condlist, values)


@library(name="piecewise")
def _pieces(x, condlist, values):
    """The last value whose condition holds, the one behind all others where none does."""
    *values, result = [full(x.size, asarray(value), x.dtype).reshape(x.shape) for value in values]
    for condition, value in zip(condlist, values):
        condition, result, value = broadcast_arrays(to_bool(asarray(condition)), result, value)
        result = where(condition, value, result)
    return result


def fromfunction(function: Callable, shape: int | Sequence[int], *, dtype: DTypeLike = float, **kwargs: Any) -> Any:
    """What a function makes of the indices of each element of an array.

    Unlike NumPy, which calls the function with arrays of all indices, this is `vmap` of the function: what it is given are the
    indices of one element, and it may return an array for each.

    - `function`: a function of as many numbers as there are dimensions: the index along each of them.
    - `shape`: the shape of the array.
    - `dtype`: the dtype of the indices.
    - `kwargs`: more arguments of the function.

    >>> xnp.fromfunction(lambda i, j: 10 * i + j, (2, 2), dtype=int)
    Array([[ 0,  1],
           [10, 11]], dtype=int32)
    """
    sizes = static_shape("fromfunction", shape)

    def of_element(*indices):
        return function(*indices, **kwargs)

    for i in reversed(range(len(sizes))):
        of_element = vmap(of_element, in_axes=tuple([0 if j == i else None for j in range(len(sizes))]))
    return of_element(*[arange(n, dtype=dtype) for n in sizes])
