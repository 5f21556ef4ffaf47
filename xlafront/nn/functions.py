"""Activation functions and the other elementwise parts of neural networks."""

from __future__ import annotations

import warnings

import numpy as np

import xlafront.numpy as xnp
from xlafront.core import dtypes, errors, tracing
from xlafront.lax.barriers import stop_gradient
from xlafront.lax.elementwise import PRIMITIVES, as_type, constant_like, eq, gt, lt, mul, rsqrt_, select
from xlafront.lax.families import elementwise
from xlafront.lax.shapes import canonical_axes, canonical_axis, iota_p, static_shape
from xlafront.numpy.promotion import check_arraylike, promote_args, promote_args_inexact, unwrap
from xlafront.staging.library import library
from xlafront.transforms.calls.custom_jvp import custom_jvp


def _activation(function):
    """An elementwise function of one array, compiled when called eagerly."""
    function.__module__ = "xlafront.nn"
    return library(function)


def _relu_lower(ctx, x):
    zero = ctx.constant(np.zeros((), ctx.aval_out.dtype), ctx.aval_out.shape)
    return ctx.op("stablehlo.maximum", [x, zero])


# A primitive for the sake of its derivative, which is 0 at 0 and at NaN, where a maximum would share it.
relu_p = elementwise("relu", _relu_lower, "int float bool", derivatives=(
    lambda g, y, x: select(gt(x, constant_like(x, 0)), constant_like(g, 0), g),))


def _relu6_lower(ctx, x):
    zero, six = [ctx.constant(np.asarray(v).astype(ctx.aval_out.dtype), ctx.aval_out.shape) for v in (0, 6)]
    return ctx.op("stablehlo.minimum", [ctx.op("stablehlo.maximum", [x, zero]), six])


def _relu6_derivative(g, y, x):
    inside = PRIMITIVES["and"].bind(gt(x, constant_like(x, 0)), lt(x, constant_like(x, 6)))
    return select(inside, constant_like(g, 0), g)


relu6_p = elementwise("relu6", _relu6_lower, "float", derivatives=(_relu6_derivative,))


@_activation
def identity(x):
    """The array itself."""
    check_arraylike("identity", x)
    return xnp.asarray(x)


@_activation
def relu(x):
    """`max(x, 0)`; its derivative at 0 is 0."""
    [x] = promote_args("relu", x)
    d = tracing.aval_of(x).dtype
    return xnp.maximum(x, 0) if dtypes.is_complex(d) or d == np.bool_ else relu_p.bind(x)


@_activation
def relu6(x):
    """`min(max(x, 0), 6)`."""
    [x] = promote_args("relu6", x)
    d = tracing.aval_of(x).dtype
    if dtypes.is_complex(d):
        return xnp.minimum(xnp.maximum(x, 0), 6.0)
    return relu6_p.bind(x if dtypes.is_float(d) else x * 1.0)


@_activation
def sigmoid(x):
    """`1 / (1 + exp(-x))`."""
    check_arraylike("sigmoid", x)
    return PRIMITIVES["logistic"].bind(x)


@_activation
def softplus(x):
    """`log(1 + exp(x))`, a smooth `relu`."""
    return xnp.logaddexp(x, 0)


@_activation
def sparse_plus(x):
    """A `softplus` that is exactly 0 below -1 and exactly x above 1, with a parabola between."""
    [x] = promote_args("sparse_plus", x)
    return xnp.where(x <= -1.0, 0.0, xnp.where(x >= 1.0, x, (x + 1.0) ** 2 / 4))


@_activation
def soft_sign(x):
    """`x / (|x| + 1)`."""
    [x] = promote_args("soft_sign", x)
    return x / (xnp.abs(x) + 1)


@_activation
def silu(x):
    """`x * sigmoid(x)`."""
    check_arraylike("silu", x)
    return mul(x, PRIMITIVES["logistic"].bind(x))


swish = silu


@_activation
def mish(x):
    """`x * tanh(softplus(x))`."""
    [x] = promote_args("mish", x)
    return x * xnp.tanh(softplus(x))


@_activation
def log_sigmoid(x):
    """`log(sigmoid(x))` without underflow."""
    [x] = promote_args("log_sigmoid", x)
    return -softplus(-x)


@_activation
def sparse_sigmoid(x):
    """The line from 0 at -1 to 1 at 1, level outside."""
    [x] = promote_args("sparse_sigmoid", x)
    return 0.5 * xnp.clip(x + 1.0, 0.0, 2.0)


@_activation
def elu(x, alpha=1.0):
    """`x` above 0, `alpha * (exp(x) - 1)` below."""
    [x] = promote_args("elu", x)
    return xnp.where(x > 0, x, alpha * xnp.expm1(xnp.where(x > 0, 0.0, x)))


@_activation
def selu(x):
    """The self-normalising `elu`."""
    return 1.0507009873554804934193349852946 * elu(x, 1.6732632423543772848170429916717)


@_activation
def celu(x, alpha=1.0):
    """`max(x, 0) + alpha * (exp(min(x, 0) / alpha) - 1)`."""
    [x] = promote_args("celu", x)
    return xnp.maximum(x, 0.0) + alpha * xnp.expm1(xnp.minimum(x, 0.0) / alpha)


@_activation
def leaky_relu(x, negative_slope=0.01):
    """`x` above 0, `negative_slope * x` below."""
    [x] = promote_args("leaky_relu", x)
    return xnp.where(x >= 0, x, negative_slope * x)


@_activation
def hard_tanh(x):
    """`x` limited to the range from -1 to 1."""
    [x] = promote_args("hard_tanh", x)
    return xnp.where(x > 1, 1, xnp.where(x < -1, -1, x))


@_activation
def hard_sigmoid(x):
    """`relu6(x + 3) / 6`."""
    [x] = promote_args("hard_sigmoid", x)
    return relu6(x + 3.0) / 6.0


@_activation
def hard_silu(x):
    """`x * hard_sigmoid(x)`."""
    [x] = promote_args("hard_silu", x)
    return x * hard_sigmoid(x)


hard_swish = hard_silu


@_activation
def squareplus(x, b=4):
    """`(x + sqrt(x**2 + b)) / 2`, another smooth `relu`."""
    [x] = promote_args("squareplus", x)
    return (x + xnp.sqrt(xnp.square(x) + b)) / 2


@custom_jvp
def _log1mexp(x):
    return xnp.where(x < float(np.log(2)), xnp.log(-xnp.expm1(-x)), xnp.log1p(-xnp.exp(-x)))


# Where one branch is taken the derivative of the other may be infinite; that of both is 1 / (exp(x) - 1).
_log1mexp.defjvps(lambda g, y, x: g / xnp.expm1(x))


@_activation
def log1mexp(x):
    """`log(1 - exp(-x))` for x > 0, accurate near 0 and far from it."""
    [x] = promote_args("log1mexp", x)
    return _log1mexp(x)


tanh = xnp.tanh


@library(static="approximate", name="gelu")
def _gelu(x, approximate):
    [x] = promote_args_inexact("gelu", x)
    x = as_type(x, tracing.aval_of(x).dtype, False)
    if approximate:
        inner = np.sqrt(2 / np.pi).astype(np.float32).item() * (x + 0.044715 * (x * x * x))
        return x * (0.5 * (1.0 + xnp.tanh(inner)))
    return 0.5 * x * PRIMITIVES["erfc"].bind(-x * dtypes.dtype(x.dtype).type(np.sqrt(0.5)))


def gelu(x, approximate=True):
    """`x` times the normal distribution function of `x`, by its usual approximation with tanh or exactly."""
    x = unwrap(x)
    return _gelu(x, bool(approximate))


@library(static="axis", name="glu")
def _glu(x, axis):
    first, second = xnp.split(x, 2, axis)
    return first * sigmoid(second)


def glu(x, axis=-1):
    """The first half along an axis times the sigmoid of the second."""
    check_arraylike("glu", x)
    size = np.shape(x)[canonical_axis(axis, np.ndim(x), "glu")]
    if size % 2:
        raise AssertionError(f"nn.glu halves axis {axis}, whose size {size} is odd: the axis size must be divisible by 2.")
    return _glu(x, int(axis))


# Over an axis


def _axes(axis, x, name):
    rank = np.ndim(x)
    return tuple(range(rank)) if axis is None else canonical_axes(axis, rank, name)


def _hashable(axis):
    return tuple(axis) if isinstance(axis, list) else axis


def _with_mask(name: str, x, where):
    """An array and its mask at one shape, made here so that ranks may differ whatever `numpy_rank_promotion` says."""
    if where is None:
        return x, None
    if tracing.aval_of(where).dtype != np.bool_:
        raise ValueError(f"the mask `where` of nn.{name} must be a boolean array, got dtype {tracing.aval_of(where).dtype}.")
    rank = max(np.ndim(x), np.ndim(where))
    x, where = (xnp.expand_dims(a, tuple(range(rank - np.ndim(a)))) for a in (x, where))
    shape = np.broadcast_shapes(np.shape(x), np.shape(where))
    return xnp.broadcast_to(x, shape), where


def _below_largest(name: str, x, where, axis):
    """`x` less its largest element along axes, -inf where the mask is false; the mask; the axes.

    The largest element is subtracted for range only: it does not count for the derivative. Integers are subtracted as they
    are, so that those without sign wrap around, unless there is a mask.
    """
    x, where = _with_mask(name, x, where)
    [x] = (promote_args if where is None else promote_args_inexact)(name, x)
    axes, d = _axes(axis, x, name), tracing.aval_of(x).dtype
    least = -np.inf if dtypes.is_inexact(d) else False if d == np.bool_ else int(dtypes.iinfo(d).min)
    below = xnp.subtract(x, xnp.max(stop_gradient(x), axes, where=where, initial=least, keepdims=True))
    # With nothing to look at the largest is -inf, and the difference inf or NaN: no derivative may pass through it.
    return below if where is None else xnp.where(where, below, -np.inf), where, axes


def _total(raised, where, axes):
    """The sum of what has been raised; 1 where nothing is to be summed, so that quotient, logarithm and derivatives exist."""
    total = xnp.sum(raised, axes, keepdims=True)
    return total if where is None else xnp.where(total == 0, 1, total)


@library(static="axis", name="softmax")
def _softmax(x, where, axis):
    below, where, axes = _below_largest("softmax", x, where, axis)
    raised = xnp.exp(below)
    result = raised / _total(raised, where, axes)
    return result if where is None else xnp.where(where, result, 0)  # also beside a NaN that is not masked


def softmax(x, axis=-1, where=None):
    """`exp(x) / sum(exp(x))` along an axis (or several).

    Elements where the mask `where` is false count as absent: they are 0, as are their derivatives, whatever their values; so
    are all without anything to look at.
    """
    return _softmax(x, where, _hashable(axis))


@library(static="axis", name="log_softmax")
def _log_softmax(x, where, axis):
    below, where, axes = _below_largest("log_softmax", x, where, axis)
    result = below - xnp.log(_total(xnp.exp(below), where, axes))
    return result if where is None else xnp.where(where, result, -np.inf)


def log_softmax(x, axis=-1, where=None):
    """The logarithm of `softmax` along an axis (or several), without underflow; -inf where the mask `where` is false."""
    return _log_softmax(x, where, _hashable(axis))


@library(static=("axis", "keepdims", "return_sign"), name="logsumexp")
def _logsumexp(a, b, where, axis, keepdims, return_sign):
    if b is not None:
        a, b = promote_args_inexact("logsumexp", a, b)
        a = xnp.where(b != 0, a, -np.inf)
    else:
        [a] = promote_args_inexact("logsumexp", a)
    a, where = _with_mask("logsumexp", a, where)
    if where is not None:
        a = xnp.where(where, a, -np.inf)
    axes = _axes(axis, a, "logsumexp")
    real = xnp.real(stop_gradient(a))
    top = xnp.max(real, axes, keepdims=True, initial=-np.inf)
    top = xnp.where(xnp.isfinite(top), top, 0)
    terms = xnp.exp(a - top.astype(a.dtype))
    if b is not None:
        terms = xnp.where(b != 0, terms * b, 0)
    total = xnp.sum(terms, axes, keepdims=keepdims)
    if not keepdims:
        top = xnp.squeeze(top, axes)
    if return_sign or not np.issubdtype(dtypes.dtype(total.dtype), np.complexfloating) and b is not None:
        sign = xnp.sign(total)
        size = xnp.log(xnp.abs(total)) + top
        if return_sign:
            return size, sign
        return xnp.where(sign < 0, np.nan, size)
    return xnp.log(total) + top.astype(total.dtype)


def logsumexp(a, axis=None, b=None, keepdims=False, return_sign=False, where=None):
    """`log(sum(b * exp(a)))` over axes, without overflow; with `return_sign` of the absolute value, and its sign.

    Elements where the mask `where` is false are left out; `keepdims` leaves the axes, with size 1.
    """
    a = unwrap(a)
    return _logsumexp(a, b, where, _hashable(axis), bool(keepdims), bool(return_sign))


def logmeanexp(x, axis=None, where=None, keepdims=False):
    """`log(mean(exp(x)))` over axes, without overflow."""
    total = logsumexp(x, axis, where=where, keepdims=keepdims)
    count = xnp.sum(xnp.ones_like(x, dtype=total.dtype), axis, where=where, keepdims=keepdims)
    return total - xnp.log(count)


@library(static=("axis", "algorithm"), name="standardize")
def _standardize(x, mean, variance, epsilon, where, axis, algorithm):
    _, where = _with_mask("standardize", x, where)
    if mean is None:
        mean = xnp.mean(x, axis, keepdims=True, where=where)
    if variance is None:
        if algorithm == "fast":  # whose rounding may fall below 0
            variance = xnp.clip(xnp.mean(xnp.square(x), axis, keepdims=True, where=where) - xnp.square(mean), 0)
        else:
            variance = xnp.mean(xnp.square(xnp.subtract(x, mean)), axis, keepdims=True, where=where)
    return xnp.subtract(x, mean) * rsqrt_(variance + epsilon)


def standardize(x, axis=-1, mean=None, variance=None, epsilon=1e-5, where=None, *, algorithm="fast"):
    """Subtract the mean and divide by the standard deviation along axes.

    `algorithm` "fast" takes the variance as mean of squares less squared mean, "stable" takes it around the mean.
    """
    if algorithm not in ("fast", "stable"):
        raise ValueError(f"nn.standardize has the algorithms 'fast' and 'stable', not {algorithm!r}.")
    return _standardize(x, mean, variance, epsilon, where, _hashable(axis), algorithm)


@library(static=("num_classes", "dtype", "axis"), name="one_hot")
def _one_hot(x, num_classes, dtype, axis):
    x = xnp.asarray(x)
    rank = x.ndim + 1
    axis = canonical_axis(axis, rank, "one_hot")
    classes = iota_p.bind(dtype=x.dtype, shape=tuple(num_classes if i == axis else 1 for i in range(rank)), dimension=axis,
                          sharding=None)
    return eq(xnp.expand_dims(x, axis), classes).astype(dtype)


def one_hot(x, num_classes, *, dtype=None, axis=-1):
    """Class numbers as vectors with a 1 at their place, zeros for numbers outside.

    There are `num_classes` classes, along a new `axis`; `dtype` is that of the result.

    >>> one_hot(xnp.array([0, 2]), 3)
    """
    if isinstance(num_classes, tracing.Tracer):
        raise errors.ConcretizationTypeError(num_classes, "It is the argument 'num_classes' of nn.one_hot, which decides the "
                                                          "shape of the result.")
    [count] = static_shape("one_hot", num_classes)
    d = dtypes.default_dtype(float) if dtype is None else dtypes.check_user_dtype(dtype, "nn.one_hot")
    x = x if type(x) in tracing.abstractors else xnp.asarray(x)
    own = tracing.aval_of(x).dtype
    if dtypes.is_extended(own) or own == np.bool_:
        raise TypeError(f"nn.one_hot takes numbers of classes, got an array of dtype {own}: convert it with x.astype(int).")
    if not dtypes.is_integer(own):
        warnings.warn(f"nn.one_hot takes integers as numbers of classes, got {own}, which will be an error.",
                      DeprecationWarning,
                      stacklevel=2)
    return _one_hot(x, count, d, int(axis))
