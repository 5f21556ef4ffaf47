"""Activation functions, and softmax, normalization and one-hot encoding."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import numpy as np

import xlafront.numpy as xnp
from xlafront.base import config
from xlafront.core import dtypes, errors, source, tracing
from xlafront.core.errors import ShardingTypeError
from xlafront.core.typing import Array, ArrayLike, Axes, DTypeLike, ShardingLike
from xlafront.lax.arguments import named_sharding
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
from xlafront.lax.shapes import broadcast_in_dim, canonical_axis, iota_p, static_shape
from xlafront.numpy.promotion import check_arraylike, promote_args, promote_args_inexact, unwrap, within_setting
from xlafront.numpy.reductions import positions_and_names
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import common_shape
from xlafront.transforms.calls.custom_jvp import custom_jvp

if TYPE_CHECKING:
    from xlafront.base.jaxlib_compat import NamedSharding
    from xlafront.core.avals import ShapedArray

_F = TypeVar("_F", bound=Callable)


def _activation(function: _F) -> _F:
    """Decorate an elementwise function of one array, which is compiled when it is called eagerly."""
    function.__module__ = "xlafront.nn"
    return library(accepts(nodes=True)(function))


def _relu_lower(ctx, x):
    zero = ctx.constant(np.zeros((), ctx.aval_out.dtype), ctx.aval_out.shape)
    return ctx.op("stablehlo.maximum", [x, zero])


def _relu_derivative(g, y, x):
    return select(gt(x, constant_like(x, 0)), constant_like(g, 0), g)


_relu_of_maximum = custom_jvp(lambda x: max_(x, constant_like(x, 0)))
_relu_of_maximum.defjvps(_relu_derivative)
# A primitive for the sake of its derivative, which is 0 at 0 and at NaN, where a maximum would share it.
relu_p = elementwise("relu", _relu_lower, "int float bool", derivatives=(_relu_derivative,), decompose=_relu_of_maximum)


def _relu6_lower(ctx, x):
    zero, six = [ctx.constant(np.asarray(v).astype(ctx.aval_out.dtype), ctx.aval_out.shape) for v in (0, 6)]
    return ctx.op("stablehlo.minimum", [ctx.op("stablehlo.maximum", [x, zero]), six])


def _relu6_derivative(g, y, x):
    inside = and_(gt(x, constant_like(x, 0)), lt(x, constant_like(x, 6)))
    return select(inside, constant_like(g, 0), g)


relu6_p = elementwise(
    "relu6", _relu6_lower, "float", derivatives=(_relu6_derivative,),
    decompose=lambda x: min_(max_(x, constant_like(x, 0)), constant_like(x, 6)))


@_activation
def identity(x: ArrayLike) -> Array:
    """Return `x` as an array.

    Args:
        x: Array.

    Returns:
        `x` unchanged.

    Example:
        >>> nn.identity(xnp.array([1.0, -1.0]))
        Array([ 1., -1.], dtype=float32)
    """
    check_arraylike("identity", x)
    return xnp.asarray(x)


@_activation
def relu(x: ArrayLike) -> Array:
    """Compute the rectified linear unit, `max(x, 0)`.

    The derivative at 0 is 0.

    Args:
        x: Array.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> nn.relu(xnp.array([-1.0, 0.0, 2.0]))
        Array([0., 0., 2.], dtype=float32)
    """
    [x] = map(within_setting, promote_args("relu", x))
    d = tracing.aval_of(x).dtype
    return xnp.maximum(x, 0) if dtypes.is_complex(d) or d == np.bool_ else relu_p.bind(x)


def _operand(name, x):
    """Promote an argument to an array whose operators are those of xlafront, not those of NumPy or of Python scalars."""
    [x] = promote_args(name, x)
    return x if isinstance(x, tracing.Tracer) else xnp.asarray(x)


@_activation
def relu6(x: ArrayLike) -> Array:
    """Compute the rectified linear unit capped at 6, `min(max(x, 0), 6)`.

    The derivatives at 0 and 6 are 0.

    Args:
        x: Array.

    Returns:
        Array with the shape of `x`.

    Example:
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
    """Compute the logistic sigmoid, `1 / (1 + exp(-x))`.

    Args:
        x: Floating array.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> nn.sigmoid(xnp.array([-np.inf, 0.0, np.inf]))
        Array([0. , 0.5, 1. ], dtype=float32)
    """
    check_arraylike("sigmoid", x)
    return logistic_(x)


@_activation
def softplus(x: ArrayLike) -> Array:
    """Compute `log(1 + exp(x))`, a smooth approximation of `relu`.

    Args:
        x: Array.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> nn.softplus(xnp.array([-np.inf, 100.0]))
        Array([  0., 100.], dtype=float32)
    """
    return xnp.logaddexp(x, 0)


@_activation
def sparse_plus(x: ArrayLike) -> Array:
    """Compute the sparse plus: 0 below -1, `x` above 1 and a parabola in between.

    It approximates `softplus` and is exactly 0 for `x <= -1`.

    Args:
        x: Array.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> nn.sparse_plus(xnp.array([-2.0, 0.0, 2.0]))
        Array([0.  , 0.25, 2.  ], dtype=float32)
    """
    x = _operand("sparse_plus", x)
    return xnp.where(x <= -1.0, 0.0, xnp.where(x >= 1.0, x, (x + 1.0) ** 2 / 4))


@_activation
def soft_sign(x: ArrayLike) -> Array:
    """Compute `x / (abs(x) + 1)`, whose values lie between -1 and 1.

    Args:
        x: Array.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> nn.soft_sign(xnp.array([-1.0, 0.0, 3.0]))
        Array([-0.5 ,  0.  ,  0.75], dtype=float32)
    """
    [y] = promote_args("soft_sign", x)
    return y / (xnp.abs(y) + 1)


@_activation
def silu(x: ArrayLike) -> Array:
    """Compute `x * sigmoid(x)`, also known as `swish`.

    Args:
        x: Floating array.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> nn.silu(xnp.array([0.0, 100.0]))
        Array([  0., 100.], dtype=float32)
    """
    check_arraylike("silu", x)
    x = unwrap(x)
    return mul(x, logistic_(x))


swish = silu


@_activation
def mish(x: ArrayLike) -> Array:
    """Compute `x * tanh(softplus(x))`.

    Args:
        x: Array.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> nn.mish(xnp.array([0.0, 100.0]))
        Array([  0., 100.], dtype=float32)
    """
    [y] = promote_args("mish", x)
    return y * xnp.tanh(softplus(y))


@_activation
def log_sigmoid(x: ArrayLike) -> Array:
    """Compute `log(sigmoid(x))` without underflow.

    Args:
        x: Array.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> nn.log_sigmoid(xnp.array([-1000.0, 1000.0]))
        Array([-1000.,    -0.], dtype=float32)
    """
    x = _operand("log_sigmoid", x)
    return -softplus(-x)


@_activation
def sparse_sigmoid(x: ArrayLike) -> Array:
    """Compute the sparse sigmoid: 0 below -1, 1 above 1 and linear in between.

    It is the derivative of `sparse_plus`.

    Args:
        x: Array.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> nn.sparse_sigmoid(xnp.array([-2.0, 0.0, 0.5, 2.0]))
        Array([0.  , 0.5 , 0.75, 1.  ], dtype=float32)
    """
    x = _operand("sparse_sigmoid", x)
    return 0.5 * xnp.clip(x + 1.0, 0.0, 2.0)


@_activation
def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """Compute the exponential linear unit: `x` for positive `x`, else `alpha * (exp(x) - 1)`.

    Args:
        x: Array.
        alpha: Scale of the exponential. The result tends to `-alpha` for large negative `x`.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> nn.elu(xnp.array([-np.inf, 0.0, 2.0]))
        Array([-1.,  0.,  2.], dtype=float32)
    """
    x = _operand("elu", x)
    return xnp.where(x > 0, x, alpha * xnp.expm1(xnp.where(x > 0, 0.0, x)))


@_activation
def selu(x: ArrayLike) -> Array:
    """Compute the scaled exponential linear unit.

    It is a scaled `elu`, with constants that preserve mean 0 and variance 1 from layer to layer.

    Args:
        x: Array.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> np.asarray(nn.selu(xnp.array([-np.inf, 0.0, 1.0]))).round(3)
        array([-1.758,  0.   ,  1.051], dtype=float32)
    """
    return 1.0507009873554804934193349852946 * elu(x, 1.6732632423543772848170429916717)


@_activation
def celu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """Compute `max(x, 0) + alpha * (exp(min(x, 0) / alpha) - 1)`.

    It is an `elu` whose derivative at 0 is 1 for every `alpha`.

    Args:
        x: Array.
        alpha: Scale of the exponential. The result tends to `-alpha` for large negative `x`.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> nn.celu(xnp.array([-np.inf, 0.0, 2.0]), 3.0)
        Array([-3.,  0.,  2.], dtype=float32)
    """
    [x] = promote_args("celu", x)
    return xnp.maximum(x, 0.0) + alpha * xnp.expm1(xnp.minimum(x, 0.0) / alpha)


@_activation
def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 0.01) -> Array:
    """Compute the leaky rectified linear unit: `x` for positive `x`, else `negative_slope * x`.

    Args:
        x: Array.
        negative_slope: Derivative for negative `x`.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> nn.leaky_relu(xnp.array([-2.0, 2.0]), 0.5)
        Array([-1.,  2.], dtype=float32)
    """
    x = _operand("leaky_relu", x)
    return xnp.where(x >= 0, x, negative_slope * x)


@_activation
def hard_tanh(x: ArrayLike) -> Array:
    """Clip `x` to the range from -1 to 1.

    Args:
        x: Array.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> nn.hard_tanh(xnp.array([-2.0, 0.5, 2.0]))
        Array([-1. ,  0.5,  1. ], dtype=float32)
    """
    x = _operand("hard_tanh", x)
    return xnp.where(x > 1, 1, xnp.where(x < -1, -1, x))


@_activation
def hard_sigmoid(x: ArrayLike) -> Array:
    """Compute `relu6(x + 3) / 6`: 0 below -3, 1 above 3 and linear in between.

    Args:
        x: Array.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> nn.hard_sigmoid(xnp.array([-4.0, 0.0, 4.0]))
        Array([0. , 0.5, 1. ], dtype=float32)
    """
    x = _operand("hard_sigmoid", x)
    return relu6(x + 3.0) / 6.0


@_activation
def hard_silu(x: ArrayLike) -> Array:
    """Compute `x * hard_sigmoid(x)`, also known as `hard_swish`.

    Args:
        x: Array.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> nn.hard_silu(xnp.array([-4.0, 0.0, 4.0]))
        Array([-0.,  0.,  4.], dtype=float32)
    """
    y: Any = _operand("hard_silu", x)
    return y * hard_sigmoid(y)


hard_swish = hard_silu


@_activation
def squareplus(x: ArrayLike, b: ArrayLike = 4) -> Array:
    """Compute `(x + sqrt(x**2 + b)) / 2`, a smooth approximation of `relu` without exponentials.

    Args:
        x: Array.
        b: Smoothness. With 0 the result is that of `relu`.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> nn.squareplus(xnp.array([0.0, 1.5]))
        Array([1., 2.], dtype=float32)
    """
    [y] = promote_args("squareplus", x)
    return (y + xnp.sqrt(xnp.square(y) + b)) / 2


@custom_jvp
def _log1mexp(x):
    return xnp.where(x < float(np.log(2)), xnp.log(-xnp.expm1(-x)), xnp.log1p(-xnp.exp(-x)))


# The derivative of the branch that is not taken may be infinite. Both branches have the derivative 1 / (exp(x) - 1).
_log1mexp.defjvps(lambda g, y, x: g / xnp.expm1(x))


@_activation
def log1mexp(x: ArrayLike) -> Array:
    """Compute `log(1 - exp(-x))`, accurately for small and for large `x`.

    Args:
        x: Array of positive values. The result is -inf at 0 and NaN below.

    Returns:
        Array with the shape of `x`.

    Example:
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
    """Compute the Gaussian error linear unit: `x` times the standard normal CDF of `x`.

    Args:
        x: Array.
        approximate: If True, use an approximation by tanh with an error of at most 5e-4. If False, use the error function.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> nn.gelu(xnp.array([-100.0, 0.0, 100.0]))
        Array([ -0.,   0., 100.], dtype=float32)
    """
    x = unwrap(x)
    return _gelu(x, bool(approximate))


@library(static="axis")
@accepts(nodes=True)
def glu(x: ArrayLike, axis: int = -1) -> Array:
    """Compute the gated linear unit: the first half along an axis times the sigmoid of the second.

    Args:
        x: Array.
        axis: Axis to halve. Its size must be even.

    Returns:
        Array with half the size along `axis`.

    Example:
        >>> nn.glu(xnp.array([1.0, 2.0, 0.0, 100.0]))
        Array([0.5, 2. ], dtype=float32)
    """
    check_arraylike("glu", x)
    axis = canonical_axis(axis, np.ndim(x), "nn.glu")
    size = np.shape(x)[axis]
    if size % 2:
        raise AssertionError(f"nn.glu cannot halve axis {axis} of odd size {size}: the axis size must be divisible by 2.")
    first, second = xnp.split(x, 2, axis)
    return first * sigmoid(second)


# Reductions along axes


def _axes(axis, x, name):
    positions, names = positions_and_names(axis, np.ndim(x), name)
    return positions + names


def _hashable(axis):
    """Return axes, which may be names or None, in a hashable form."""
    if type(axis) is int:
        return axis
    return tuple(map(_hashable, axis)) if np.ndim(axis) else operator.index(axis) if hasattr(axis, "dtype") else axis


def _with_mask(name: str, x, where):
    """Broadcast an array and its mask to one shape.

    This happens here so that ranks may differ regardless of `numpy_rank_promotion`.
    """
    if where is None:
        return x, None
    if tracing.aval_of(where).dtype != np.bool_:
        raise ValueError(f"the mask `where` of nn.{name} must be a boolean array, got dtype {tracing.aval_of(where).dtype}.")
    rank = max(np.ndim(x), np.ndim(where))
    x, where = (xnp.expand_dims(a, tuple(range(rank - np.ndim(a)))) for a in (x, where))
    shape = common_shape(np.shape(x), np.shape(where))
    return xnp.broadcast_to(x, shape), where


def _subtract_max(name: str, x, where, axis):
    """Return `x` minus its maximum along axes, -inf where the mask is False, with the mask and the axes.

    The maximum is subtracted for range only: it does not contribute to the derivative. Without a mask integers are not promoted
    first, so that unsigned ones wrap around.
    """
    x, where = _with_mask(name, x, where)
    [x] = (promote_args if where is None else promote_args_inexact)(name, x)
    axes, d = _axes(axis, x, name), tracing.aval_of(x).dtype
    lowest = -np.inf if dtypes.is_inexact(d) else False if d == np.bool_ else constant_like(x, int(dtypes.iinfo(d).min))
    shifted = xnp.subtract(x, xnp.max(stop_gradient(x), axes, where=where, initial=lowest, keepdims=True))
    # If the mask is all False, the maximum is -inf and the difference inf or NaN: no derivative may pass through it.
    return shifted if where is None else xnp.where(where, shifted, -np.inf), where, axes


def _sum_exponentials(exponentials, where, axes):
    """Sum the exponentials. A masked sum of 0 is replaced by 1, so that quotient, logarithm and derivatives are defined."""
    total = xnp.sum(exponentials, axes, keepdims=True)
    return total if where is None else xnp.where(total == 0, 1, total)


@library(static="axis", name="softmax")
@accepts(nodes=True)
def _softmax(x, where, axis):
    shifted, where, axes = _subtract_max("softmax", x, where, axis)
    exponentials = xnp.exp(shifted)
    result = exponentials / _sum_exponentials(exponentials, where, axes)
    return result if where is None else xnp.where(where, result, 0)  # 0 even if an unmasked element is NaN.


def softmax(x: ArrayLike, axis: Axes = -1, where: ArrayLike | None = None) -> Array:
    """Compute `exp(x) / sum(exp(x))` along an axis.

    The results are nonnegative and sum to 1.

    Args:
        x: Array.
        axis: Axis or axes to normalize over. None: all.
        where: Boolean mask of the elements to include. Excluded elements give results and derivatives of 0, as do
            all elements if none is included.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> nn.softmax(xnp.array([0.0, 0.0, 5.0]), where=xnp.array([True, True, False]))
        Array([0.5, 0.5, 0. ], dtype=float32)
    """
    if config.softmax_custom_jvp.value:
        return _softmax_with_jvp(x, where, _hashable(axis))
    return _softmax(x, where, _hashable(axis))


@partial(custom_jvp, nondiff_argnums=(2,))
def _softmax_with_jvp(x, where, axis):
    return _softmax(x, where, axis)


@_softmax_with_jvp.defjvp
def _softmax_jvp(axis, primals, tangents):
    """Compute the tangent `y (t - sum(y t))`."""
    (x, where), (t, _) = primals, tangents
    y = _softmax_with_jvp(x, where, axis)
    scaled = xnp.broadcast_to(t, y.shape) * y
    return y, scaled - y * xnp.sum(scaled, axis, keepdims=True)


@library(static="axis", name="log_softmax")
@accepts(nodes=True)
def _log_softmax(x, where, axis):
    shifted, where, axes = _subtract_max("log_softmax", x, where, axis)
    result = shifted - xnp.log(_sum_exponentials(xnp.exp(shifted), where, axes))
    return result if where is None else xnp.where(where, result, -np.inf)


def log_softmax(x: ArrayLike, axis: Axes = -1, where: ArrayLike | None = None) -> Array:
    """Compute the logarithm of `softmax` without underflow.

    Args:
        x: Array.
        axis: Axis or axes to normalize over. None: all.
        where: Boolean mask of the elements to include. Excluded elements give -inf.

    Returns:
        Array with the shape of `x`.

    Example:
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
    a = xnp.asarray(within_setting(a))
    a, where = _with_mask("logsumexp", a, where)
    if where is not None:
        a = xnp.where(where, a, -np.inf)
    axes = _axes(axis, a, "logsumexp")
    real = xnp.real(stop_gradient(a))
    maximum = xnp.max(real, axes, initial=-np.inf)
    maximum = xnp.where(xnp.isfinite(maximum), maximum, 0)
    batch_axes = tuple([i for i in range(np.ndim(a)) if i not in axes])
    terms = xnp.exp(sub(a, broadcast_in_dim(maximum, np.shape(a), batch_axes).astype(a.dtype)))
    if b is not None:
        terms = xnp.where(b != 0, terms * b, 0)
    total = xnp.sum(terms, axes, keepdims=keepdims)
    if keepdims:
        maximum = xnp.expand_dims(maximum, tuple([i for i in axes if type(i) is int]))
    if return_sign or not np.issubdtype(dtypes.dtype(total.dtype), np.complexfloating) and b is not None:
        sign = xnp.sign(total)
        magnitude = xnp.log(xnp.abs(total)) + maximum
        if return_sign:
            return magnitude, sign
        return xnp.where(sign < 0, np.nan, magnitude)
    return xnp.log(total) + maximum.astype(total.dtype)


if TYPE_CHECKING:
    @overload
    def logsumexp(a: ArrayLike, axis: Axes = None, b: ArrayLike | None = None, keepdims: bool = False,
                  return_sign: Literal[False] = False, where: ArrayLike | None = None) -> Array: ...
    @overload
    def logsumexp(a: ArrayLike, axis: Axes = None, b: ArrayLike | None = None, keepdims: bool = False, *,
                  return_sign: Literal[True], where: ArrayLike | None = None) -> tuple[Array, Array]: ...


def logsumexp(a: ArrayLike, axis: Axes = None, b: ArrayLike | None = None, keepdims: bool = False, return_sign: bool = False,
              where: ArrayLike | None = None) -> Array | tuple[Array, Array]:
    """Compute `log(sum(b * exp(a)))` without overflow.

    The result is NaN where the sum is negative.

    Args:
        a: Array.
        axis: Axis or axes to sum over. None: all.
        b: Weights. Default: 1.
        keepdims: If True, keep reduced axes with size 1.
        return_sign: If True, return the logarithm of the absolute value of the sum, and its sign.
        where: Boolean mask of the elements to include.

    Returns:
        Logarithm of the sum. With `return_sign`, a tuple of the logarithm of its absolute value and its sign.

    Example:
        >>> nn.logsumexp(xnp.array([1000.0, -np.inf]))
        Array(1000., dtype=float32)
    """
    a = unwrap(a)
    return _logsumexp(a, b, where, _hashable(axis), bool(keepdims), bool(return_sign))


@library(static=("axis", "keepdims"))
@accepts(objects=True)
def logmeanexp(x: ArrayLike, axis: Axes = None, where: ArrayLike | None = None, keepdims: bool = False) -> Array:
    """Compute `log(mean(exp(x)))` without overflow.

    Args:
        x: Array.
        axis: Axis or axes to average over. None: all.
        where: Boolean mask of the elements to include.
        keepdims: If True, keep reduced axes with size 1.

    Returns:
        Logarithm of the mean.

    Example:
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
        if algorithm == "fast":  # Rounding may make the difference negative.
            variance = xnp.clip(xnp.mean(xnp.square(x), axis, keepdims=True, where=where) - xnp.square(mean), 0)
        else:
            variance = xnp.mean(xnp.square(xnp.subtract(x, mean)), axis, keepdims=True, where=where)
    return xnp.subtract(x, mean) * rsqrt_(variance + epsilon)


@library(static=("axis", "algorithm"))
@accepts(nodes=True)
def standardize(x: ArrayLike, axis: Axes = -1, mean: ArrayLike | None = None, variance: ArrayLike | None = None,
                epsilon: ArrayLike = 1e-5, where: ArrayLike | None = None, *, algorithm: str = "fast") -> Array:
    """Subtract the mean along axes and divide by the standard deviation.

    Args:
        x: Array.
        axis: Axis or axes to average over. None: all.
        mean: Mean to subtract. Default: the mean of `x`.
        variance: Variance to divide by. Default: the variance of `x`.
        epsilon: Value added to the variance.
        where: Boolean mask of the elements that enter the mean and the variance.
        algorithm: "fast" computes the variance as the mean of squares minus the squared mean, "stable" as the mean squared
            deviation from the mean.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> nn.standardize(xnp.array([1.0, 3.0]), epsilon=0)
        Array([-1.,  1.], dtype=float32)
    """
    if algorithm not in ("fast", "stable"):
        raise ValueError(f"nn.standardize: algorithm must be 'fast' or 'stable', got {algorithm!r}.")
    return _standardize(x, mean, variance, epsilon, where, axis, algorithm)


@library(static=("num_classes", "dtype", "axis", "sharding"), name="one_hot")
def _one_hot(x, num_classes, dtype, axis, sharding):
    x = xnp.asarray(x)
    rank = x.ndim + 1
    classes = iota_p.bind(dtype=x.dtype, shape=tuple([num_classes if i == axis else 1 for i in range(rank)]), dimension=axis,
                          sharding=sharding)
    return eq(xnp.expand_dims(x, axis), classes).astype(dtype)


def _classes_sharding(out_sharding: ShardingLike, aval: ShapedArray, axis: int) -> NamedSharding | None:
    """Return the sharding of the row of classes along `axis`, if the other dimensions of the result are sharded as `aval`."""
    sharding = named_sharding(out_sharding, "nn.one_hot")
    if sharding is None:
        return None
    if len(sharding.spec) > aval.ndim + 1:
        raise ValueError(f"nn.one_hot got out_sharding {sharding.spec}, longer than the {aval.ndim + 1} dimensions of its "
                         f"result.")
    entries = sharding.spec.padded(aval.ndim + 1)
    own = aval.explicit_sharding.spec.padded(aval.ndim) if aval.explicit_sharding is not None else (None,) * aval.ndim
    if (*entries[:axis], *entries[axis + 1:]) != tuple(own):
        raise ShardingTypeError(f"nn.one_hot of {aval} got out_sharding {sharding.spec}, whose entries besides that of the new "
                                f"axis {axis} should match the sharding of x. Reshard x with reshard.")
    return sharding.update(spec=sharding.spec.update(partitions=[e if i == axis else None for i, e in enumerate(entries)]))


def one_hot(x: ArrayLike, num_classes: int, *, dtype: DTypeLike | None = None, axis: int = -1,
            out_sharding: ShardingLike = None) -> Array:
    """Encode class indices as one-hot vectors.

    Indices out of range give zero vectors.

    Args:
        x: Integer array.
        num_classes: Number of classes, a Python integer.
        dtype: dtype of the result. Default: the default float dtype.
        axis: Position of the new axis.
        out_sharding: Sharding of the result over explicit mesh axes: that of `x`, with an entry for the new axis.

    Returns:
        Array with a new axis of size `num_classes`.

    Example:
        >>> nn.one_hot(xnp.array([0, 2]), 3)
        Array([[1., 0., 0.],
               [0., 0., 1.]], dtype=float32)
    """
    if isinstance(num_classes, tracing.Tracer):
        raise errors.decides_shape("nn.one_hot", "num_classes", num_classes)
    [count] = static_shape("one_hot", num_classes)
    d = dtypes.default_dtype(float) if dtype is None else dtypes.check_user_dtype(dtype, "nn.one_hot")
    x = x if type(x) in tracing.aval_of_type else xnp.asarray(x)
    aval = tracing.aval_of(x)
    axis, x_dtype = canonical_axis(axis, aval.ndim + 1, "nn.one_hot"), aval.dtype
    if dtypes.is_extended(x_dtype) or x_dtype == np.bool_:
        raise TypeError(f"nn.one_hot needs integer class indices, got dtype {x_dtype}: convert the array with x.astype(int).")
    if not dtypes.is_integer(x_dtype):
        source.warn(f"nn.one_hot needs integers as class indices, got {x_dtype}, which will become an error.",
                    DeprecationWarning)
    return _one_hot(x, count, d, axis, _classes_sharding(out_sharding, aval, axis))
