"""Arrays read between their elements: images of another size, and values at coordinates."""

from __future__ import annotations

import enum
import functools
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront.core import dtypes, tracing
from xlafront.core.dimensions import is_symbolic
from xlafront.lax.dot_products import Precision
from xlafront.lax.elementwise import size_as
from xlafront.lax.elementwise_functions import round as away_from_zero
from xlafront.lax.shapes import canonical_axis, static_shape
from xlafront.numpy.promotion import check_arraylike
from xlafront.staging.library import library


class ResizeMethod(enum.Enum):
    """What elements between the given ones are made of."""

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """The method of a name, such as "bilinear"."""
        found = _NAMES.get(s)
        if found is None:
            raise ValueError(f"there is no (unknown) resize method {s!r}; it can be one of {', '.join(_NAMES)}.")
        return found


_NAMES = {
    "nearest": ResizeMethod.NEAREST, "linear": ResizeMethod.LINEAR, "bilinear": ResizeMethod.LINEAR,
    "trilinear": ResizeMethod.LINEAR, "triangle": ResizeMethod.LINEAR, "lanczos3": ResizeMethod.LANCZOS3,
    "lanczos5": ResizeMethod.LANCZOS5, "cubic": ResizeMethod.CUBIC, "bicubic": ResizeMethod.CUBIC,
    "tricubic": ResizeMethod.CUBIC, "cubic-pytorch": ResizeMethod.CUBIC_PYTORCH, "bicubic-pytorch": ResizeMethod.CUBIC_PYTORCH,
    "tricubic-pytorch": ResizeMethod.CUBIC_PYTORCH, "area": ResizeMethod.AREA}


# The weight of an element by its distance, not negative


def _triangle(x):
    return xnp.maximum(0, 1 - x)


def _cubic(a: float, x):
    """Keys' piecewise polynomial."""
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return xnp.where(x >= 2, 0, xnp.where(x >= 1, far, near))


def _lanczos(radius: float, x):
    """The product of `sinc(x)` and `sinc(x / radius)`, with one division, after which XLA's kernel of the sines ends. It has no
    case for 0: kernels that read its result may round distances another way, and take the other case."""
    y = math.pi * xnp.maximum(x, float(np.finfo(x.dtype).eps) ** 0.5 / 3)  # below that it is 1
    return xnp.where(x > radius, 0, radius * xnp.sin(y) * xnp.sin(y / radius) / (y * y))


_KERNELS: dict[ResizeMethod, Callable] = {
    ResizeMethod.LINEAR: _triangle, ResizeMethod.CUBIC: functools.partial(_cubic, -0.5),
    ResizeMethod.CUBIC_PYTORCH: functools.partial(_cubic, -0.5), ResizeMethod.LANCZOS3: functools.partial(_lanczos, 3.0),
    ResizeMethod.LANCZOS5: functools.partial(_lanczos, 5.0)}


def _weights(size: int, new: int, scale, translation, kernel: Callable, antialias: bool, dtype):
    """The same by a function of the distance."""
    inverse = 1 / scale
    wide = xnp.maximum(inverse, 1) if antialias else 1
    at = _places(new, inverse, translation, dtype)
    weights = _shares(kernel(abs(at[None, :] - xnp.arange(size, dtype=dtype)[:, None]) / wide))
    return xnp.where((at >= -0.5) & (at <= size - 0.5), weights, 0)


def _replicated_weights(size: int, new: int, scale, translation, kernel: Callable, dtype):
    """The same without smoothing, where the first and the last element are there twice more, as PyTorch has it."""
    at = _places(new, 1 / scale, translation, dtype)
    weights = _shares(kernel(abs(at[None, :] - (xnp.arange(size + 4, dtype=dtype) - 2)[:, None])))
    old = xnp.arange(size)[:, None]
    before, after = (xnp.sum(w, 0, keepdims=True) for w in (weights[:2], weights[-2:]))
    return weights[2:-2] + xnp.where(old == 0, before, 0) + xnp.where(old == size - 1, after, 0)


def _places(new: int, inverse, translation, dtype):
    """Where the middles of new elements lie among the old ones."""
    return (xnp.arange(new, dtype=dtype) + 0.5) * inverse - translation * inverse - 0.5


def _shares(weights):
    """Of each in the sum over the first dimension; none where that is about 0."""
    total = xnp.sum(weights, 0, keepdims=True)
    kept = abs(total) > 1000 * float(np.finfo(np.float32).eps)
    return xnp.where(kept, weights / xnp.where(kept, total, 1), 0)


def _overlaps(size: int, new: int, scale, translation, dtype):
    """Of each new element the part that lies over each old one, among all that does."""
    edges = (xnp.arange(new + 1, dtype=dtype) - translation) / scale
    old = xnp.arange(size, dtype=dtype)[:, None]
    covered = xnp.maximum(0, xnp.minimum(edges[None, 1:], old + 1) - xnp.maximum(edges[None, :-1], old))
    total = xnp.sum(covered, 0, keepdims=True)
    return xnp.where(total > 0, covered / xnp.where(total > 0, total, 1), 0)


def _matrix(method: ResizeMethod, size: int, new: int, scale, translation, antialias: bool, dtype):
    """What each old element along a dimension contributes to each new one: `[size, new]`."""
    if method is ResizeMethod.AREA:
        return _overlaps(size, new, scale, translation, dtype)
    if method is ResizeMethod.CUBIC_PYTORCH and not antialias:
        return _replicated_weights(size, new, scale, translation, functools.partial(_cubic, -0.75), dtype)
    return _weights(size, new, scale, translation, _KERNELS[method], antialias, dtype)


def _applied(x, dims: Sequence[int], matrices: Sequence[Any], precision):
    """Each dimension times its matrix: first what shrinks most, then the last: the first's product needs no transposition."""
    def growth(pair):
        d, matrix = pair
        size, new = matrix.shape
        return (1 if is_symbolic(matrix.shape) else new / max(size, 1)), -d

    for d, matrix in sorted(zip(dims, matrices), key=growth):
        matrix = matrix.astype(x.dtype)
        if d == 0:
            x = xnp.tensordot(matrix, x, ((0,), (0,)), precision=precision)
        else:
            x = xnp.moveaxis(xnp.tensordot(x, matrix, ((d,), (0,)), precision=precision), -1, d)
    return x


def _inexact(x):
    x = xnp.asarray(x)
    return x if dtypes.is_inexact(x.dtype) else x.astype(dtypes.default_dtype(float))


def _weight_dtype(x):
    real = dtypes.to_real(x.dtype) if dtypes.is_complex(x.dtype) else x.dtype
    return np.dtype(np.float64) if real == np.float64 else np.dtype(np.float32)


@library(static=("shape", "dims", "method", "antialias", "precision"), name="scale_and_translate")
def _scaled(image, scale, translation, shape, dims, method, antialias, precision):
    x = _inexact(image)
    dtype = _weight_dtype(x)
    scale, translation = xnp.asarray(scale, dtype), xnp.asarray(translation, dtype)
    matrices = [_matrix(method, x.shape[d], shape[d], scale[i], translation[i], antialias, dtype) for i, d in enumerate(dims)]
    return _applied(x, dims, matrices, precision)


@library(static=("shape", "method", "antialias", "precision"), name="resize")
def _resized(image, shape, method, antialias, precision):
    x = xnp.asarray(image)
    dims = [d for d in range(x.ndim) if x.shape[d] != shape[d]]
    if method is ResizeMethod.NEAREST:
        for d in dims:
            n, m = x.shape[d], shape[d]
            places = xnp if is_symbolic((n, m)) else np
            x = xnp.take(x, places.floor((places.arange(m) + 0.5) * n / m).astype(np.int32), d)
        return x
    x = _inexact(x)
    dtype = _weight_dtype(x)
    if 0 in shape:
        return xnp.zeros(shape, x.dtype)
    scales = [size_as(shape[d], dtype) / size_as(x.shape[d], dtype) if is_symbolic((shape[d], x.shape[d])) else
              dtype.type(shape[d] / x.shape[d]) for d in dims]
    matrices = [_matrix(method, x.shape[d], shape[d], scale, dtype.type(0), antialias, dtype) for d, scale in zip(dims, scales)]
    return _applied(x, dims, matrices, precision)


def _checked(who: str, image, shape, method) -> tuple[tuple[int, ...], ResizeMethod]:
    own = np.shape(image)
    tracing.aval_of(image, who)
    shape = static_shape(who, shape)
    if len(shape) != len(own):
        raise ValueError(f"{who} needs a shape with a length equal to the number of dimensions of the image: got {shape} for "
                         f"one of shape {own}.")
    return shape, method if isinstance(method, ResizeMethod) else ResizeMethod.from_string(method)


def resize(image: Any, shape: Sequence[int], method: str | ResizeMethod, antialias: bool = True,
           precision: Any = Precision.HIGHEST) -> Any:
    """An array brought to another size, as an image of any number of dimensions.

    - `image`: the array. Integers become floats, but for "nearest".
    - `shape`: the new size of each dimension.
    - `method`: a `ResizeMethod` or its name: "nearest", "linear" ("bilinear", "trilinear"), "cubic" ("bicubic", "tricubic"),
      "lanczos3", "lanczos5", "area" (the mean of what an element covers), "cubic-pytorch".
    - `antialias`: whether a smaller image is made of all elements that fall together, and not only of the nearest ones.
    - `precision`: of the products of matrices that do it.

    >>> image.resize(xnp.array([[1.0, 3.0]]), (1, 4), "linear")
    Array([[1. , 1.5, 2.5, 3. ]], dtype=float32)
    """
    shape, method = _checked("image.resize", image, shape, method)
    return _resized(image, shape, method, bool(antialias), precision)


def scale_and_translate(image: Any, shape: Sequence[int], spatial_dims: Sequence[int], scale: Any, translation: Any,
                        method: str | ResizeMethod, antialias: bool = True, precision: Any = Precision.HIGHEST) -> Any:
    """An array scaled and moved along some dimensions; zeros where nothing comes to lie. Differentiable in all of it.

    - `image`: the array.
    - `shape`: of the result.
    - `spatial_dims`: the dimensions that are scaled.
    - `scale`, `translation`: for each of them a factor, and how far what was scaled is moved.
    - `method`, `antialias`, `precision`: as of `resize`; not "nearest".

    >>> x = xnp.array([1.0, 2.0, 3.0])
    >>> image.scale_and_translate(x, (3,), (0,), xnp.ones(1), xnp.ones(1), "linear")
    Array([0., 1., 2.], dtype=float32)
    """
    who = "image.scale_and_translate"
    shape, method = _checked(who, image, shape, method)
    if method is ResizeMethod.NEAREST:
        raise ValueError(f"{who} has no method {method.name}: nearest neighbor resampling is not currently supported. Use "
                         f"'linear'.")
    dims = tuple(canonical_axis(d, len(shape), who) for d in spatial_dims)
    check_arraylike(who, scale, translation)
    for name, x in (("scale", scale), ("translation", translation)):
        if np.ndim(x) == 0:
            raise TypeError(f"{who} takes {name} as a vector with a number for each of spatial_dims, got {x}.")
    return _scaled(image, scale, translation, shape, dims, method, bool(antialias), precision)


# Values at coordinates. By mode: which element stands for one outside; None where the given value does.


def _mirrored(index, size: int):
    last = max(size - 1, 1)
    return abs((index + last) % (2 * last) - last) if size > 1 else 0 * index


_OUTSIDE: dict[str, Callable | None] = {
    "constant": None, "nearest": lambda i, n: xnp.clip(i, 0, n - 1), "wrap": lambda i, n: i % n, "mirror": _mirrored,
    "reflect": lambda i, n: _mirrored(2 * i + 1, 2 * n + 1) // 2}


def _mapped(x, coordinates, cval, order, mode):
    fix = _OUTSIDE[mode]
    floating = _weight_dtype(_inexact(x))
    nodes = []
    for c, n in zip(coordinates, x.shape):
        c = c if dtypes.is_inexact(c.dtype) else c.astype(floating)
        if order == 0:
            found = [(away_from_zero(c), None)]  # halves away from 0
        else:
            low = xnp.floor(c)
            found = [(low, 1 - (c - low)), (low + 1, c - low)]
        along = []
        for place, weight in found:
            index = place.astype(np.int32)
            inside = None if fix is not None else (index >= 0) & (index < n)
            along.append((xnp.clip(index, 0, n - 1) if fix is None else fix(index, n), inside, weight))
        nodes.append(along)
    total: Any = 0
    for corner in itertools.product(*nodes):
        value = x[tuple(index for index, _, _ in corner)]
        inside = [flag for _, flag, _ in corner if flag is not None]
        if inside:
            value = xnp.where(functools.reduce(operator.and_, inside), value, xnp.asarray(cval, x.dtype))
        weights = [w for _, _, w in corner if w is not None]
        total = total + (functools.reduce(operator.mul, weights) * value if weights else value)
    rounded = order and dtypes.is_integer(x.dtype)  # of a mean of truth values any part is true
    return (xnp.trunc(total + xnp.copysign(0.5, total)) if rounded else total).astype(x.dtype)  # halves go away from 0


@library(static=("order", "mode"), lists=True, converts=True)
def map_coordinates(input: Any, coordinates: Sequence[Any], order: int, mode: str = "constant", cval: Any = 0.0) -> Any:
    """The values of an array at coordinates between its elements.

    - `input`: the array.
    - `coordinates`: for each of its dimensions an array of places, all of one shape, which is that of the result.
    - `order`: 0 for the nearest elements, 1 for linear interpolation; SciPy's higher orders are not supported.
    - `mode`: what is outside: "constant" (`cval`), "nearest", "wrap", "mirror" (about the centres of the elements at the
      border), "reflect" (about their edges).
    - `cval`: the value outside, for "constant".

    >>> map_coordinates(xnp.array([1.0, 3.0]), [xnp.array([0.25, 1.0])], 1)
    Array([1.5, 3. ], dtype=float32)
    """
    who = "map_coordinates"
    input, coordinates = xnp.asarray(input), [xnp.asarray(c) for c in coordinates]
    if np.iscomplexobj(cval) and input.dtype.kind != "c":
        raise TypeError(f"{who} of numbers of dtype {input.dtype} takes a real number as cval, got {cval!r}.")
    if any(c.dtype == np.bool_ for c in coordinates):
        raise TypeError(f"{who} needs coordinates that are numbers, got dtype bool. Convert with x.astype(int).")
    if len(coordinates) != input.ndim:
        raise ValueError(f"{who} needs coordinates as a sequence of length input.ndim, one for each of the "
                         f"{input.ndim} dimensions, got {len(coordinates)}.")
    if mode not in _OUTSIDE:
        raise NotImplementedError(f"{who} does not support mode {mode!r}; it can be one of {', '.join(_OUTSIDE)}.")
    if order not in (0, 1):
        raise NotImplementedError(f"{who} currently requires order<=1, got {order}: splines are not implemented.")
    return _mapped(input, coordinates, cval, int(order), mode)
