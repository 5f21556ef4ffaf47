"""Activation functions and the other elementwise parts of neural networks."""

from __future__ import annotations

import operator
import warnings
from functools import partial

import numpy as np

import xlafront.numpy as xnp
from xlafront.core import dtypes, errors, tracing
from xlafront.core.dimensions import common_shape
from xlafront.core.typing import Array, ArrayLike, Axes, DTypeLike
from xlafront.lax.barriers import stop_gradient
from xlafront.lax.elementwise import (
    and_,
    as_type,
    constant_like,
    eq,
    erfc_,
    gt,
    logistic_,
    lt,
    max_,
    min_,
    mul,
    rsqrt_,
    select,
    sub,
)
from xlafront.lax.families import elementwise
from xlafront.lax.shapes import broadcast_in_dim, canonical_axis, counting, static_shape
from xlafront.numpy.promotion import check_arraylike, promote_args, promote_args_inexact, unwrap, within_setting
from xlafront.numpy.reductions import positions_and_names
from xlafront.runtime import config
from xlafront.staging.library import library
from xlafront.transforms.calls.custom_jvp import custom_jvp


def _activation(function):
    """An elementwise function of one array, compiled when called eagerly."""
    function.__module__ = "xlafront.nn"
    return library(function)


def _relu_lower(ctx, x):
    zero = ctx.constant(np.zeros((), ctx.aval_out.dtype), ctx.aval_out.shape)
    return ctx.op("stablehlo.maximum", [x, zero])


def _relu_derivative(g, y, x):
    return select(gt(x, constant_like(x, 0)), constant_like(g, 0), g)


# A primitive for the sake of its derivative, which is 0 at 0 and at NaN, where a maximum would share it.
relu_p = elementwise("relu", _relu_lower, "int float bool", derivatives=(_relu_derivative,))
relu_p.for_extensions = custom_jvp(lambda x: max_(x, constant_like(x, 0)))
relu_p.for_extensions.defjvps(_relu_derivative)


def _relu6_lower(ctx, x):
    zero, six = [ctx.constant(np.asarray(v).astype(ctx.aval_out.dtype), ctx.aval_out.shape) for v in (0, 6)]
    return ctx.op("stablehlo.minimum", [ctx.op("stablehlo.maximum", [x, zero]), six])


def _relu6_derivative(g, y, x):
    inside = and_(gt(x, constant_like(x, 0)), lt(x, constant_like(x, 6)))
    return select(inside, constant_like(g, 0), g)


relu6_p = elementwise("relu6", _relu6_lower, "float", derivatives=(_relu6_derivative,))
relu6_p.for_extensions = lambda x: min_(max_(x, constant_like(x, 0)), constant_like(x, 6))


@_activation
def identity(x: ArrayLike) -> Array:
    """The array itself.

    - `x`: an array.

    >>> nn.identity(xnp.array([1.0, -1.0]))
    Array([ 1., -1.], dtype=float32)
    """
    check_arraylike("identity", x)
    return xnp.asarray(x)


@_activation
def relu(x: ArrayLike) -> Array:
    """`max(x, 0)`, whose derivative at 0 is 0.

    - `x`: an array.

    >>> nn.relu(xnp.array([-1.0, 0.0, 2.0]))
    Array([0., 0., 2.], dtype=float32)
    """
    [x] = map(within_setting, promote_args("relu", x))
    d = tracing.aval_of(x).dtype
    return xnp.maximum(x, 0) if dtypes.is_complex(d) or d == np.bool_ else relu_p.bind(x)


def _operand(name, x):
    """An argument of which Python's operators are ours, whatever it is: NumPy's would compute in 64 bits."""
    [x] = promote_args(name, x)
    return xnp.asarray(x) if isinstance(x, (np.ndarray, np.generic)) else x


@_activation
def relu6(x: ArrayLike) -> Array:
    """`min(max(x, 0), 6)`, whose derivatives at 0 and 6 are 0.

    - `x`: an array.

    >>> nn.relu6(xnp.array([-1.0, 2.0, 7.0]))
    Array([0., 2., 6.], dtype=float32)
    """
    x = within_setting(_operand("relu6", x))
    d = tracing.aval_of(x).dtype
    if dtypes.is_complex(d):
        return xnp.minimum(xnp.maximum(x, 0), 6.0)
    return relu6_p.bind(x if dtypes.is_float(d) else x * 1.0)


@_activation
def sigmoid(x: ArrayLike) -> Array:
    """`1 / (1 + exp(-x))`.

    - `x`: an array of floats.

    >>> nn.sigmoid(xnp.array([-np.inf, 0.0, np.inf]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    check_arraylike("sigmoid", x)
    return logistic_(x)


@_activation
def softplus(x: ArrayLike) -> Array:
    """`log(1 + exp(x))`, a smooth `relu`.

    - `x`: an array.

    >>> nn.softplus(xnp.array([-np.inf, 100.0]))
    Array([  0., 100.], dtype=float32)
    """
    return xnp.logaddexp(x, 0)


@_activation
def sparse_plus(x: ArrayLike) -> Array:
    """A `softplus` that is exactly 0 below -1 and exactly `x` above 1, with a parabola between.

    - `x`: an array.

    >>> nn.sparse_plus(xnp.array([-2.0, 0.0, 2.0]))
    Array([0.  , 0.25, 2.  ], dtype=float32)
    """
    x = _operand("sparse_plus", x)
    return xnp.where(x <= -1.0, 0.0, xnp.where(x >= 1.0, x, (x + 1.0) ** 2 / 4))


@_activation
def soft_sign(x: ArrayLike) -> Array:
    """`x / (abs(x) + 1)`, between -1 and 1.

    - `x`: an array.

    >>> nn.soft_sign(xnp.array([-1.0, 0.0, 3.0]))
    Array([-0.5 ,  0.  ,  0.75], dtype=float32)
    """
    [x] = promote_args("soft_sign", x)
    return x / (xnp.abs(x) + 1)


@_activation
def silu(x: ArrayLike) -> Array:
    """`x * sigmoid(x)`, also known as `swish`.

    - `x`: an array of floats.

    >>> nn.silu(xnp.array([0.0, 100.0]))
    Array([  0., 100.], dtype=float32)
    """
    check_arraylike("silu", x)
    x = unwrap(x)
    return mul(x, logistic_(x))


swish = silu


@_activation
def mish(x: ArrayLike) -> Array:
    """`x * tanh(softplus(x))`.

    - `x`: an array.

    >>> nn.mish(xnp.array([0.0, 100.0]))
    Array([  0., 100.], dtype=float32)
    """
    [x] = promote_args("mish", x)
    return x * xnp.tanh(softplus(x))


@_activation
def log_sigmoid(x: ArrayLike) -> Array:
    """`log(sigmoid(x))`, which stays finite where the sigmoid is too small.

    - `x`: an array.

    >>> nn.log_sigmoid(xnp.array([-1000.0, 1000.0]))
    Array([-1000.,    -0.], dtype=float32)
    """
    [x] = promote_args("log_sigmoid", x)
    return -softplus(-x)


@_activation
def sparse_sigmoid(x: ArrayLike) -> Array:
    """0 below -1, 1 above 1, and a straight line between; the derivative of `sparse_plus`.

    - `x`: an array.

    >>> nn.sparse_sigmoid(xnp.array([-2.0, 0.0, 0.5, 2.0]))
    Array([0.  , 0.5 , 0.75, 1.  ], dtype=float32)
    """
    x = _operand("sparse_sigmoid", x)
    return 0.5 * xnp.clip(x + 1.0, 0.0, 2.0)


@_activation
def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """`x` above 0, and `alpha * (exp(x) - 1)` below.

    - `x`: an array.
    - `alpha`: the result is near `-alpha` far below 0.

    >>> nn.elu(xnp.array([-np.inf, 0.0, 2.0]))
    Array([-1.,  0.,  2.], dtype=float32)
    """
    [x] = promote_args("elu", x)
    return xnp.where(x > 0, x, alpha * xnp.expm1(xnp.where(x > 0, 0.0, x)))


@_activation
def selu(x: ArrayLike) -> Array:
    """`elu` with the two constants that keep mean 0 and variance 1 from layer to layer.

    - `x`: an array.

    >>> np.asarray(nn.selu(xnp.array([-np.inf, 0.0, 1.0]))).round(3)
    array([-1.758,  0.   ,  1.051], dtype=float32)
    """
    return 1.0507009873554804934193349852946 * elu(x, 1.6732632423543772848170429916717)


@_activation
def celu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """`max(x, 0) + alpha * (exp(min(x, 0) / alpha) - 1)`: an `elu` with derivative 1 at 0 for every `alpha`.

    - `x`: an array.
    - `alpha`: how far below 0 it goes, and where it bends.

    >>> nn.celu(xnp.array([-np.inf, 0.0, 2.0]), 3.0)
    Array([-3.,  0.,  2.], dtype=float32)
    """
    [x] = promote_args("celu", x)
    return xnp.maximum(x, 0.0) + alpha * xnp.expm1(xnp.minimum(x, 0.0) / alpha)


@_activation
def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 0.01) -> Array:
    """`x` above 0, and `negative_slope * x` below.

    - `x`: an array.
    - `negative_slope`: the derivative below 0.

    >>> nn.leaky_relu(xnp.array([-2.0, 2.0]), 0.5)
    Array([-1.,  2.], dtype=float32)
    """
    x = _operand("leaky_relu", x)
    return xnp.where(x >= 0, x, negative_slope * x)


@_activation
def hard_tanh(x: ArrayLike) -> Array:
    """`x` limited to the range from -1 to 1.

    - `x`: an array.

    >>> nn.hard_tanh(xnp.array([-2.0, 0.5, 2.0]))
    Array([-1. ,  0.5,  1. ], dtype=float32)
    """
    [x] = promote_args("hard_tanh", x)
    return xnp.where(x > 1, 1, xnp.where(x < -1, -1, x))


@_activation
def hard_sigmoid(x: ArrayLike) -> Array:
    """`relu6(x + 3) / 6`: 0 below -3, 1 above 3, and a straight line between.

    - `x`: an array.

    >>> nn.hard_sigmoid(xnp.array([-4.0, 0.0, 4.0]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    x = _operand("hard_sigmoid", x)
    return relu6(x + 3.0) / 6.0


@_activation
def hard_silu(x: ArrayLike) -> Array:
    """`x * hard_sigmoid(x)`, also known as `hard_swish`.

    - `x`: an array.

    >>> nn.hard_silu(xnp.array([-4.0, 0.0, 4.0]))
    Array([-0.,  0.,  4.], dtype=float32)
    """
    x = _operand("hard_silu", x)
    return x * hard_sigmoid(x)


hard_swish = hard_silu


@_activation
def squareplus(x: ArrayLike, b: ArrayLike = 4) -> Array:
    """`(x + sqrt(x**2 + b)) / 2`, a smooth `relu` without exponentials.

    - `x`: an array.
    - `b`: how smooth: 0 makes it `relu`.

    >>> nn.squareplus(xnp.array([0.0, 1.5]))
    Array([1., 2.], dtype=float32)
    """
    [x] = promote_args("squareplus", x)
    return (x + xnp.sqrt(xnp.square(x) + b)) / 2


@custom_jvp
def _log1mexp(x):
    return xnp.where(x < float(np.log(2)), xnp.log(-xnp.expm1(-x)), xnp.log1p(-xnp.exp(-x)))


# Where one branch is taken the derivative of the other may be infinite; that of both is 1 / (exp(x) - 1).
_log1mexp.defjvps(lambda g, y, x: g / xnp.expm1(x))


@_activation
def log1mexp(x: ArrayLike) -> Array:
    """`log(1 - exp(-x))`, accurate for small and for large `x`.

    - `x`: an array of positive numbers; at 0 it is -inf, below NaN.

    >>> nn.log1mexp(xnp.array([-1.0, 0.0, 200.0]))
    Array([ nan, -inf,  -0.], dtype=float32)
    """
    [x] = promote_args("log1mexp", x)
    return _log1mexp(x)


tanh = xnp.tanh


@library(static="approximate", name="gelu")
def _gelu(x, approximate):
    [x] = promote_args_inexact("gelu", x)
    x = as_type(x, tracing.aval_of(x).dtype, False)
    if approximate:
        inner = dtypes.dtype(x.dtype).type(np.sqrt(2 / np.pi)) * (x + 0.044715 * x**3)
        return x * (0.5 * (1.0 + xnp.tanh(inner)))
    return 0.5 * x * erfc_(-x * dtypes.dtype(x.dtype).type(np.sqrt(0.5)))


def gelu(x: ArrayLike, approximate: bool = True) -> Array:
    """`x` times the probability that a normal number is below `x`.

    - `x`: an array.
    - `approximate`: compute it by tanh, which differs by 5e-4 at most, or exactly, by the error function.

    >>> nn.gelu(xnp.array([-100.0, 0.0, 100.0]))
    Array([ -0.,   0., 100.], dtype=float32)
    """
    x = unwrap(x)
    return _gelu(x, bool(approximate))


@library(static="axis")
def glu(x: ArrayLike, axis: int = -1) -> Array:
    """A gated linear unit: the first half along an axis times the sigmoid of the second.

    - `x`: an array.
    - `axis`: the one that is halved; of even size.

    >>> nn.glu(xnp.array([1.0, 2.0, 0.0, 100.0]))
    Array([0.5, 2. ], dtype=float32)
    """
    check_arraylike("glu", x)
    axis = canonical_axis(axis, np.ndim(x), "nn.glu")
    size = np.shape(x)[axis]
    if size % 2:
        raise AssertionError(f"nn.glu halves axis {axis}, whose size {size} is odd: the axis size must be divisible by 2.")
    first, second = xnp.split(x, 2, axis)
    return first * sigmoid(second)


# Over an axis


def _axes(axis, x, name):
    positions, names = positions_and_names(axis, np.ndim(x), name)
    return positions + names


def _hashable(axis):
    """Axes, which may be names or None, as what can be hashed."""
    if type(axis) is int:
        return axis
    return tuple(map(_hashable, axis)) if np.ndim(axis) else operator.index(axis) if hasattr(axis, "dtype") else axis


def _with_mask(name: str, x, where):
    """An array and its mask at one shape, made here so that ranks may differ whatever `numpy_rank_promotion` says."""
    if where is None:
        return x, None
    if tracing.aval_of(where).dtype != np.bool_:
        raise ValueError(f"the mask `where` of nn.{name} must be a boolean array, got dtype {tracing.aval_of(where).dtype}.")
    rank = max(np.ndim(x), np.ndim(where))
    x, where = (xnp.expand_dims(a, tuple(range(rank - np.ndim(a)))) for a in (x, where))
    shape = common_shape(np.shape(x), np.shape(where))
    return xnp.broadcast_to(x, shape), where


def _below_largest(name: str, x, where, axis):
    """`x` less its largest element along axes, -inf where the mask is false; the mask; the axes.

    The largest element is subtracted for range only: it does not count for the derivative. Integers are subtracted as they
    are, so that those without sign wrap around, unless there is a mask.
    """
    x, where = _with_mask(name, x, where)
    [x] = (promote_args if where is None else promote_args_inexact)(name, x)
    axes, d = _axes(axis, x, name), tracing.aval_of(x).dtype
    least = -np.inf if dtypes.is_inexact(d) else False if d == np.bool_ else constant_like(x, int(dtypes.iinfo(d).min))
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


def softmax(x: ArrayLike, axis: Axes = -1, where: ArrayLike | None = None) -> Array:
    """`exp(x) / sum(exp(x))` along an axis: positive numbers whose sum is 1.

    - `x`: an array.
    - `axis`: an axis, several, or None for all.
    - `where`: elements for which it is false count as absent: they are 0, as are their derivatives, whatever their values; so
      are all where there are no others.

    >>> nn.softmax(xnp.array([0.0, 0.0, 5.0]), where=xnp.array([True, True, False]))
    Array([0.5, 0.5, 0. ], dtype=float32)
    """
    if config.softmax_custom_jvp.value:
        return _softmax_by_rule(x, where, _hashable(axis))
    return _softmax(x, where, _hashable(axis))


@partial(custom_jvp, nondiff_argnums=(2,))
def _softmax_by_rule(x, where, axis):
    return _softmax(x, where, axis)


@_softmax_by_rule.defjvp
def _softmax_rule(axis, primals, tangents):
    """`y (t - sum(y t))`: what each element adds to the logarithm of the sum is its own share."""
    (x, where), (t, _) = primals, tangents
    y = _softmax_by_rule(x, where, axis)
    moved = xnp.broadcast_to(t, y.shape) * y
    return y, moved - y * xnp.sum(moved, axis, keepdims=True)


@library(static="axis", name="log_softmax")
def _log_softmax(x, where, axis):
    below, where, axes = _below_largest("log_softmax", x, where, axis)
    result = below - xnp.log(_total(xnp.exp(below), where, axes))
    return result if where is None else xnp.where(where, result, -np.inf)


def log_softmax(x: ArrayLike, axis: Axes = -1, where: ArrayLike | None = None) -> Array:
    """The logarithm of `softmax`, which stays finite where that is too small.

    - `x`, `axis`: as of `softmax`.
    - `where`: where it is false the result is -inf.

    >>> nn.log_softmax(xnp.array([0.0, 200.0]))
    Array([-200.,    0.], dtype=float32)
    """
    return _log_softmax(x, where, _hashable(axis))


@library(static=("axis", "keepdims", "return_sign"), name="logsumexp")
def _logsumexp(a, b, where, axis, keepdims, return_sign):
    if b is not None:
        a, b = promote_args_inexact("logsumexp", a, b)
        a = xnp.where(b != 0, a, -np.inf)
    else:
        [a] = promote_args_inexact("logsumexp", a)
    a = within_setting(a)
    a, where = _with_mask("logsumexp", a, where)
    if where is not None:
        a = xnp.where(where, a, -np.inf)
    axes = _axes(axis, a, "logsumexp")
    real = xnp.real(stop_gradient(a))
    top = xnp.max(real, axes, initial=-np.inf)
    top = xnp.where(xnp.isfinite(top), top, 0)
    others = tuple([i for i in range(np.ndim(a)) if i not in axes])
    terms = xnp.exp(sub(a, broadcast_in_dim(top, np.shape(a), others).astype(a.dtype)))
    if b is not None:
        terms = xnp.where(b != 0, terms * b, 0)
    total = xnp.sum(terms, axes, keepdims=keepdims)
    if keepdims:
        top = xnp.expand_dims(top, tuple([i for i in axes if type(i) is int]))
    if return_sign or not np.issubdtype(dtypes.dtype(total.dtype), np.complexfloating) and b is not None:
        sign = xnp.sign(total)
        size = xnp.log(xnp.abs(total)) + top
        if return_sign:
            return size, sign
        return xnp.where(sign < 0, np.nan, size)
    return xnp.log(total) + top.astype(total.dtype)


def logsumexp(a: ArrayLike, axis: Axes = None, b: ArrayLike | None = None, keepdims: bool = False, return_sign: bool = False,
              where: ArrayLike | None = None) -> Array | tuple[Array, Array]:
    """`log(sum(b * exp(a)))` over axes, without overflow. Where the sum is negative it is NaN.

    - `a`: an array.
    - `axis`: an axis, several, or None for all.
    - `b`: weights.
    - `keepdims`: leave the axes, with size 1.
    - `return_sign`: return the logarithm of the absolute value of the sum, and its sign.
    - `where`: elements for which it is false are left out.

    >>> nn.logsumexp(xnp.array([1000.0, -np.inf]))
    Array(1000., dtype=float32)
    """
    a = unwrap(a)
    return _logsumexp(a, b, where, _hashable(axis), bool(keepdims), bool(return_sign))


@library(static=("axis", "keepdims"), converts=True)
def logmeanexp(x: ArrayLike, axis: Axes = None, where: ArrayLike | None = None, keepdims: bool = False) -> Array:
    """`log(mean(exp(x)))` over axes, without overflow.

    - `x`: an array.
    - `axis`: an axis, several, or None for all.
    - `where`: elements for which it is false are left out.
    - `keepdims`: leave the axes, with size 1.

    >>> nn.logmeanexp(xnp.array([1000.0, 1000.0]))
    Array(1000., dtype=float32)
    """
    axis = _hashable(axis)
    total = logsumexp(x, axis, where=where, keepdims=keepdims)
    count = xnp.sum(xnp.ones_like(x, dtype=total.dtype), axis, where=where, keepdims=keepdims)
    return total - xnp.log(count)


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


@library(static=("axis", "algorithm"))
def standardize(x: ArrayLike, axis: Axes = -1, mean: ArrayLike | None = None, variance: ArrayLike | None = None,
                epsilon: ArrayLike = 1e-5, where: ArrayLike | None = None, *, algorithm: str = "fast") -> Array:
    """An array less its mean along axes, divided by its standard deviation.

    - `x`: an array.
    - `axis`: an axis, several, or None for all.
    - `mean`, `variance`: what to take for them; computed when left out.
    - `epsilon`: is added to the variance.
    - `where`: elements for which it is false count neither for the mean nor for the variance.
    - `algorithm`: "fast" takes the variance as mean of squares less squared mean, "stable" takes it around the mean.

    >>> nn.standardize(xnp.array([1.0, 3.0]), epsilon=0)
    Array([-1.,  1.], dtype=float32)
    """
    if algorithm not in ("fast", "stable"):
        raise ValueError(f"nn.standardize has the algorithms 'fast' and 'stable', not {algorithm!r}.")
    return _standardize(x, mean, variance, epsilon, where, axis, algorithm)


@library(static=("num_classes", "dtype", "axis"), name="one_hot")
def _one_hot(x, num_classes, dtype, axis):
    x = xnp.asarray(x)
    rank = x.ndim + 1
    classes = counting(x.dtype, tuple(num_classes if i == axis else 1 for i in range(rank)), axis)
    return eq(xnp.expand_dims(x, axis), classes).astype(dtype)


def one_hot(x: ArrayLike, num_classes: int, *, dtype: DTypeLike | None = None, axis: int = -1) -> Array:
    """Class numbers as vectors with a 1 at their place; all zeros for numbers outside.

    - `x`: an array of integers.
    - `num_classes`: how many classes there are, a Python integer.
    - `dtype`: of the result, a float when left out.
    - `axis`: where the new axis of classes goes.

    >>> nn.one_hot(xnp.array([0, 2]), 3)
    Array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    if isinstance(num_classes, tracing.Tracer):
        raise errors.decides_shape("nn.one_hot", "num_classes", num_classes)
    [count] = static_shape("one_hot", num_classes)
    d = dtypes.default_dtype(float) if dtype is None else dtypes.check_user_dtype(dtype, "nn.one_hot")
    x = x if type(x) in tracing.abstractors else xnp.asarray(x)
    aval = tracing.aval_of(x)
    axis, own = canonical_axis(axis, aval.ndim + 1, "nn.one_hot"), aval.dtype
    if dtypes.is_extended(own) or own == np.bool_:
        raise TypeError(f"nn.one_hot takes numbers of classes, got an array of dtype {own}: convert it with x.astype(int).")
    if not dtypes.is_integer(own):
        warnings.warn(f"nn.one_hot takes integers as numbers of classes, got {own}, which will be an error.",
                      DeprecationWarning,
                      stacklevel=2)
    return _one_hot(x, count, d, axis)
