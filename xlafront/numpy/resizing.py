"""Resampling of arrays between their elements: image resizing and interpolation at coordinates."""

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
from xlafront.lax.dot_products import Precision
from xlafront.lax.elementwise import size_scalar
from xlafront.lax.elementwise_functions import round as away_from_zero
from xlafront.lax.shapes import canonical_axis, static_shape
from xlafront.numpy.promotion import check_arraylike
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import is_symbolic


class ResizeMethod(enum.Enum):
    """The interpolation method of `resize`."""

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """Return the method with a given name, such as "bilinear"."""
        found = _NAMES.get(s)
        if found is None:
            raise ValueError(f"unknown resize method {s!r}; it can be one of {', '.join(_NAMES)}.")
        return found


_NAMES = {
    "nearest": ResizeMethod.NEAREST, "linear": ResizeMethod.LINEAR, "bilinear": ResizeMethod.LINEAR,
    "trilinear": ResizeMethod.LINEAR, "triangle": ResizeMethod.LINEAR, "lanczos3": ResizeMethod.LANCZOS3,
    "lanczos5": ResizeMethod.LANCZOS5, "cubic": ResizeMethod.CUBIC, "bicubic": ResizeMethod.CUBIC,
    "tricubic": ResizeMethod.CUBIC, "cubic-pytorch": ResizeMethod.CUBIC_PYTORCH, "bicubic-pytorch": ResizeMethod.CUBIC_PYTORCH,
    "tricubic-pytorch": ResizeMethod.CUBIC_PYTORCH, "area": ResizeMethod.AREA}


# Interpolation kernels: the weight of an element as a function of its distance, which is nonnegative


def _triangle(x):
    return xnp.maximum(0, 1 - x)


def _cubic(a: float, x):
    """Evaluate Keys' piecewise cubic polynomial."""
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return xnp.where(x >= 2, 0, xnp.where(x >= 1, far, near))


def _lanczos(radius: float, x):
    """Evaluate `sinc(x) * sinc(x / radius)`.

    There is a single division, since XLA's fused sine kernels end at one. There is no special case for 0: a consumer
    kernel that recomputes distances may round them differently and take the other branch.
    """
    y = math.pi * xnp.maximum(x, float(np.finfo(x.dtype).eps) ** 0.5 / 3)  # the product rounds to 1 below this
    return xnp.where(x > radius, 0, radius * xnp.sin(y) * xnp.sin(y / radius) / (y * y))


_KERNELS: dict[ResizeMethod, Callable] = {
    ResizeMethod.LINEAR: _triangle, ResizeMethod.CUBIC: functools.partial(_cubic, -0.5),
    ResizeMethod.CUBIC_PYTORCH: functools.partial(_cubic, -0.5), ResizeMethod.LANCZOS3: functools.partial(_lanczos, 3.0),
    ResizeMethod.LANCZOS5: functools.partial(_lanczos, 5.0)}


def _kernel_weights(size: int, new: int, scale, translation, kernel: Callable, antialias: bool, dtype):
    """Return the matrix of weights of an interpolation kernel."""
    inverse = 1 / scale
    width = xnp.maximum(inverse, 1) if antialias else 1
    positions = _sample_positions(new, inverse, translation, dtype)
    weights = _normalize_weights(kernel(abs(positions[None, :] - xnp.arange(size, dtype=dtype)[:, None]) / width))
    return xnp.where((positions >= -0.5) & (positions <= size - 0.5), weights, 0)


def _replicated_weights(size: int, new: int, scale, translation, kernel: Callable, dtype):
    """Return the matrix of weights without antialiasing, with two more copies of the border elements on each side, as
    in PyTorch."""
    positions = _sample_positions(new, 1 / scale, translation, dtype)
    weights = _normalize_weights(kernel(abs(positions[None, :] - (xnp.arange(size + 4, dtype=dtype) - 2)[:, None])))
    old = xnp.arange(size)[:, None]
    before, after = (xnp.sum(w, 0, keepdims=True) for w in (weights[:2], weights[-2:]))
    return weights[2:-2] + xnp.where(old == 0, before, 0) + xnp.where(old == size - 1, after, 0)


def _sample_positions(new: int, inverse, translation, dtype):
    """Return the positions of the centers of new elements among the old ones."""
    return (xnp.arange(new, dtype=dtype) + 0.5) * inverse - translation * inverse - 0.5


def _normalize_weights(weights):
    """Normalize weights to a sum of 1 over the first dimension; weights whose sum is about 0 become 0."""
    total = xnp.sum(weights, 0, keepdims=True)
    is_nonzero = abs(total) > 1000 * float(np.finfo(np.float32).eps)
    return xnp.where(is_nonzero, weights / xnp.where(is_nonzero, total, 1), 0)


def _overlap_weights(size: int, new: int, scale, translation, dtype):
    """Return, for each new element, the fraction of it that overlaps each old element."""
    edges = (xnp.arange(new + 1, dtype=dtype) - translation) / scale
    old = xnp.arange(size, dtype=dtype)[:, None]
    covered = xnp.maximum(0, xnp.minimum(edges[None, 1:], old + 1) - xnp.maximum(edges[None, :-1], old))
    total = xnp.sum(covered, 0, keepdims=True)
    return xnp.where(total > 0, covered / xnp.where(total > 0, total, 1), 0)


def _resample_matrix(method: ResizeMethod, size: int, new: int, scale, translation, antialias: bool, dtype):
    """Return the contribution of each old element along a dimension to each new one, of shape `[size, new]`."""
    if method is ResizeMethod.AREA:
        return _overlap_weights(size, new, scale, translation, dtype)
    if method is ResizeMethod.CUBIC_PYTORCH and not antialias:
        return _replicated_weights(size, new, scale, translation, functools.partial(_cubic, -0.75), dtype)
    return _kernel_weights(size, new, scale, translation, _KERNELS[method], antialias, dtype)


def _apply_matrices(x, dims: Sequence[int], matrices: Sequence[Any], precision):
    """Multiply each dimension by its matrix.

    The dimension that shrinks most comes first; ties begin with the last one, whose product needs no transpose.
    """
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


def _to_inexact(x):
    x = xnp.asarray(x)
    return x.astype(dtypes.to_inexact(x.dtype))


def _weight_dtype(x):
    real = dtypes.to_real(x.dtype) if dtypes.is_complex(x.dtype) else x.dtype
    return np.dtype(np.float64) if real == np.float64 else np.dtype(np.float32)


@library(static=("shape", "dims", "method", "antialias", "precision"), name="scale_and_translate")
def _scale_kernel(image, scale, translation, shape, dims, method, antialias, precision):
    x = _to_inexact(image)
    dtype = _weight_dtype(x)
    scale, translation = xnp.asarray(scale, dtype), xnp.asarray(translation, dtype)
    matrices = [_resample_matrix(method, x.shape[d], shape[d], scale[i], translation[i], antialias, dtype)
                for i, d in enumerate(dims)]
    return _apply_matrices(x, dims, matrices, precision)


@library(static=("shape", "method", "antialias", "precision"), name="resize")
def _resize_kernel(image, shape, method, antialias, precision):
    x = xnp.asarray(image)
    dims = [d for d in range(x.ndim) if x.shape[d] != shape[d]]
    if method is ResizeMethod.NEAREST:
        for d in dims:
            n, m = x.shape[d], shape[d]
            module = xnp if is_symbolic((n, m)) else np
            x = xnp.take(x, module.floor((module.arange(m) + 0.5) * n / m).astype(np.int32), d, mode="clip")
        return x
    x = _to_inexact(x)
    dtype = _weight_dtype(x)
    if 0 in shape:
        return xnp.zeros(shape, x.dtype)
    scales = [size_scalar(shape[d], dtype) / size_scalar(x.shape[d], dtype) if is_symbolic((shape[d], x.shape[d])) else
              dtype.type(shape[d] / x.shape[d]) for d in dims]
    matrices = [_resample_matrix(method, x.shape[d], shape[d], scale, dtype.type(0), antialias, dtype)
                for d, scale in zip(dims, scales)]
    return _apply_matrices(x, dims, matrices, precision)


def _check_arguments(caller: str, image, shape, method) -> tuple[tuple[int, ...], ResizeMethod]:
    own = np.shape(image)
    tracing.aval_of(image, caller)
    shape = static_shape(caller, shape)
    if len(shape) != len(own):
        raise ValueError(f"{caller} needs a shape with a length equal to the number of dimensions of the image: got {shape} "
                         f"for one of shape {own}.")
    return shape, method if isinstance(method, ResizeMethod) else ResizeMethod.from_string(method)


def resize(image: Any, shape: Sequence[int], method: str | ResizeMethod, antialias: bool = True,
           precision: Any = Precision.HIGHEST) -> Any:
    """Resize an array of any number of dimensions as an image.

    Args:
        image: The array. Integers become floats, except with "nearest".
        shape: Shape of the result.
        method: A `ResizeMethod` or its name: "nearest", "linear" ("bilinear", "trilinear"), "cubic" ("bicubic",
            "tricubic"), "lanczos3", "lanczos5", "area" (the mean of the covered elements) or "cubic-pytorch".
        antialias: If True, widen the kernel when downsampling, so that all elements contribute.
        precision: Precision of the matrix products.

    Returns:
        The resized array.

    Example:
        >>> image.resize(xnp.array([[1.0, 3.0]]), (1, 4), "linear")
        Array([[1. , 1.5, 2.5, 3. ]], dtype=float32)
    """
    shape, method = _check_arguments("image.resize", image, shape, method)
    return _resize_kernel(image, shape, method, bool(antialias), precision)


def scale_and_translate(image: Any, shape: Sequence[int], spatial_dims: Sequence[int], scale: Any, translation: Any,
                        method: str | ResizeMethod, antialias: bool = True, precision: Any = Precision.HIGHEST) -> Any:
    """Scale and translate an array along some dimensions.

    Elements of the result outside of the image are 0. Differentiable with respect to image, scale and translation.

    Args:
        image: The array.
        shape: Shape of the result.
        spatial_dims: Dimensions to transform.
        scale, translation: Scale factors and translations (in elements of the result), one for each of `spatial_dims`.
        method, antialias, precision: See `resize`. The method "nearest" is not supported.

    Returns:
        The transformed array.

    Example:
        >>> x = xnp.array([1.0, 2.0, 3.0])
        >>> image.scale_and_translate(x, (3,), (0,), xnp.ones(1), xnp.ones(1), "linear")
        Array([0., 1., 2.], dtype=float32)
    """
    caller = "image.scale_and_translate"
    shape, method = _check_arguments(caller, image, shape, method)
    if method is ResizeMethod.NEAREST:
        raise ValueError(f"{caller} does not support the method {method.name}: nearest neighbor resampling is not currently "
                         f"supported. Use 'linear'.")
    dims = tuple(canonical_axis(d, len(shape), caller) for d in spatial_dims)
    check_arraylike(caller, scale, translation)
    for name, x in (("scale", scale), ("translation", translation)):
        if np.ndim(x) == 0:
            raise TypeError(f"{caller} needs {name} as a vector with a number for each of spatial_dims, got {x}.")
        if np.shape(x) != (len(dims),):
            raise ValueError(f"{caller} needs {name} of shape {(len(dims),)}, a number for each of spatial_dims {dims}, got "
                             f"shape {np.shape(x)}.")
    return _scale_kernel(image, scale, translation, shape, dims, method, bool(antialias), precision)


# Interpolation at coordinates. By mode: the index that replaces one out of bounds; None for a constant value.


def _mirror(index, size: int):
    last = max(size - 1, 1)
    return abs((index + last) % (2 * last) - last) if size > 1 else 0 * index


_BOUNDARY: dict[str, Callable | None] = {
    "constant": None, "nearest": lambda i, n: xnp.clip(i, 0, n - 1), "wrap": lambda i, n: i % n, "mirror": _mirror,
    "reflect": lambda i, n: _mirror(2 * i + 1, 2 * n + 1) // 2}


def _interpolate(x, coordinates, cval, order, mode):
    fix = _BOUNDARY[mode]
    floating = _weight_dtype(_to_inexact(x))
    nodes = []
    for c, n in zip(coordinates, x.shape):
        c = c if dtypes.is_inexact(c.dtype) else c.astype(floating)
        if order == 0:
            neighbors = [(away_from_zero(c), None)]  # rounds halves away from 0
        else:
            low = xnp.floor(c)
            neighbors = [(low, 1 - (c - low)), (low + 1, c - low)]
        axis_nodes = []
        for position, weight in neighbors:
            index = position.astype(np.int32)
            inside = None if fix is not None else (index >= 0) & (index < n)
            axis_nodes.append((xnp.clip(index, 0, n - 1) if fix is None else fix(index, n), inside, weight))
        nodes.append(axis_nodes)
    total: Any = 0
    for corner in itertools.product(*nodes):
        value = x[tuple(index for index, _, _ in corner)]
        inside = [flag for _, flag, _ in corner if flag is not None]
        if inside:
            value = xnp.where(functools.reduce(operator.and_, inside), value, xnp.asarray(cval, x.dtype))
        weights = [w for _, _, w in corner if w is not None]
        total = total + (functools.reduce(operator.mul, weights) * value if weights else value)
    rounded = order and dtypes.is_integer(x.dtype)  # a mean of booleans is true unless it is 0
    return (xnp.trunc(total + xnp.copysign(0.5, total)) if rounded else total).astype(x.dtype)  # rounds halves away from 0


@library(static=("order", "mode"))
@accepts(objects=True, lists=("order", "mode"))
def map_coordinates(input: Any, coordinates: Sequence[Any], order: int, mode: str = "constant", cval: Any = 0.0) -> Any:
    """Interpolate an array at coordinates between its elements.

    Args:
        input: The array.
        coordinates: For each dimension of `input`, an array of positions; all have the shape of the result.
        order: 0 for the nearest element, 1 for linear interpolation. SciPy's higher orders are not supported.
        mode: Treatment of coordinates out of bounds: "constant" (`cval`), "nearest", "wrap", "mirror" (reflects about
            the centers of the border elements) or "reflect" (about their edges).
        cval: Value for the mode "constant".

    Returns:
        The interpolated values, of the dtype of `input`.

    Example:
        >>> map_coordinates(xnp.array([1.0, 3.0]), [xnp.array([0.25, 1.0])], 1)
        Array([1.5, 3. ], dtype=float32)
    """
    caller = "map_coordinates"
    input, coordinates = xnp.asarray(input), [xnp.asarray(c) for c in coordinates]
    if np.iscomplexobj(cval) and input.dtype.kind != "c":
        raise TypeError(f"{caller} of an array of dtype {input.dtype} needs a real cval, got {cval!r}.")
    if any(c.dtype == np.bool_ for c in coordinates):
        raise TypeError(f"{caller} needs numeric coordinates, got dtype bool. Convert with x.astype(int).")
    if len(coordinates) != input.ndim:
        raise ValueError(f"{caller} needs coordinates as a sequence of length input.ndim, one for each of the "
                         f"{input.ndim} dimensions, got {len(coordinates)}.")
    if mode not in _BOUNDARY:
        raise NotImplementedError(f"{caller} does not support mode {mode!r}; it can be one of {', '.join(_BOUNDARY)}.")
    if order not in (0, 1):
        raise NotImplementedError(f"{caller} currently requires order<=1, got {order}: splines are not implemented.")
    return _interpolate(input, coordinates, cval, int(order), mode)
