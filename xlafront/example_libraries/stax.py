"""Neural-network layers as pairs of functions.

A layer is `init_fun(rng, input_shape)`, which returns the output shape and the parameters, and `apply_fun(params,
inputs, **kwargs)`; layers that sample random numbers need the keyword `rng`. `serial` and `parallel` combine layers.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax, nn, random
from xlafront.core.typing import Array

__all__ = [
    "AvgPool", "BatchNorm", "Dense", "Dropout", "Elu", "Exp", "FanInConcat", "FanInSum", "FanOut", "Flatten", "Gelu",
    "GeneralConv", "GeneralConvTranspose", "Identity", "LeakyRelu", "LogSoftmax", "MaxPool", "Relu", "Selu", "Sigmoid",
    "Softmax", "Softplus", "SumPool", "Tanh", "elementwise", "parallel", "serial", "shape_dependent"]

Layer = tuple[Callable, Callable]
Initializer = Callable[..., Array]
randn, glorot = nn.initializers.normal, nn.initializers.glorot_normal
ones, zeros = nn.initializers.ones, nn.initializers.zeros


def _same_shape(rng, input_shape):
    return input_shape, ()


def Dense(out_dim: int, W_init: Initializer = glorot(), b_init: Initializer = randn()) -> Layer:
    """Create a fully connected layer, `x @ W + b`.

    Args:
        out_dim: Size of the last dimension of the output.
        W_init, b_init: Initializers of the parameters, functions of a key and a shape.

    Returns:
        The layer.

    Example:
        >>> shape, (w, b) = Dense(4)[0](xf.random.key(0), (-1, 3))
        >>> shape, w.shape, b.shape
        ((-1, 4), (3, 4), (4,))
    """
    def init_fun(rng, input_shape):
        w_key, b_key = random.split(rng)
        return (*input_shape[:-1], out_dim), (W_init(w_key, (input_shape[-1], out_dim)), b_init(b_key, (out_dim,)))

    def apply_fun(params, inputs, **kwargs):
        W, b = params
        return xnp.dot(inputs, W) + b

    return init_fun, apply_fun


def _convolution(output_shape_rule: Callable, convolve: Callable, dimension_numbers, out_chan, filter_shape, strides, padding,
                 W_init, b_init) -> Layer:
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    strides = tuple(strides) if strides else (1,) * len(filter_shape)
    W_init = W_init or glorot(rhs_spec.index("I"), rhs_spec.index("O"))

    def init_fun(rng, input_shape):
        sizes = iter(filter_shape)
        special = {"O": out_chan, "I": input_shape[lhs_spec.index("C")]}
        kernel_shape = tuple([special[c] if c in special else next(sizes) for c in rhs_spec])
        output_shape = output_shape_rule(input_shape, kernel_shape, strides, padding, dimension_numbers)
        w_key, b_key = random.split(rng)
        bias = b_init(b_key, tuple([out_chan if c == "C" else 1 for c in out_spec]))
        return tuple(map(int, output_shape)), (W_init(w_key, kernel_shape), bias)

    def apply_fun(params, inputs, **kwargs):
        W, b = params
        return convolve(inputs, W, strides, padding, dimension_numbers=dimension_numbers) + b

    return init_fun, apply_fun


def GeneralConv(dimension_numbers: tuple[str, str, str], out_chan: int, filter_shape: Sequence[int],
                strides: Sequence[int] | None = None, padding: Any = "VALID", W_init: Initializer | None = None,
                b_init: Initializer = randn(1e-6)) -> Layer:
    """Create a convolution layer.

    Args:
        dimension_numbers: The dimensions of input, kernel and output, as in `("NHWC", "HWIO", "NHWC")`.
        out_chan: Number of output channels.
        filter_shape: Spatial shape of the kernel.
        strides: Strides of the window. Default: 1.
        padding: "VALID", "SAME", or pairs of integers.
        W_init, b_init: Initializers of the parameters, functions of a key and a shape.

    Returns:
        The layer.

    Example:
        >>> GeneralConv(("NCHW", "OIHW", "NCHW"), 4, (3, 3))[0](xf.random.key(0), (2, 1, 8, 8))[0]
        (2, 4, 6, 6)
    """
    return _convolution(lax.conv_general_shape_tuple, lax.conv_general_dilated, dimension_numbers, out_chan, filter_shape,
                        strides, padding, W_init, b_init)


def GeneralConvTranspose(dimension_numbers: tuple[str, str, str], out_chan: int, filter_shape: Sequence[int],
                         strides: Sequence[int] | None = None, padding: Any = "VALID", W_init: Initializer | None = None,
                         b_init: Initializer = randn(1e-6)) -> Layer:
    """Create a transposed convolution layer, which upsamples its input by the strides.

    Args:
        dimension_numbers: The dimensions of input, kernel and output, as in `("NHWC", "HWIO", "NHWC")`.
        out_chan: Number of output channels.
        filter_shape: Spatial shape of the kernel.
        strides: Strides of the window in the output. Default: 1.
        padding: "VALID", "SAME", or pairs of integers.
        W_init, b_init: Initializers of the parameters, functions of a key and a shape.

    Returns:
        The layer.

    Example:
        >>> GeneralConvTranspose(("NHWC", "HWIO", "NHWC"), 4, (2, 2), (2, 2))[0](xf.random.key(0), (1, 8, 8, 1))[0]
        (1, 16, 16, 4)
    """
    return _convolution(lax.conv_transpose_shape_tuple, lax.conv_transpose, dimension_numbers, out_chan, filter_shape, strides,
                        padding, W_init, b_init)


Conv = functools.partial(GeneralConv, ("NHWC", "HWIO", "NHWC"))
Conv1DTranspose = functools.partial(GeneralConvTranspose, ("NHC", "HIO", "NHC"))
ConvTranspose = functools.partial(GeneralConvTranspose, ("NHWC", "HWIO", "NHWC"))


def BatchNorm(axis: int | Sequence[int] = (0, 1, 2), epsilon: float = 1e-5, center: bool = True, scale: bool = True,
              beta_init: Initializer = zeros, gamma_init: Initializer = ones) -> Layer:
    """Create a batch normalization layer: standardize over the batch, scale by `gamma` and shift by `beta`.

    Args:
        axis: Axis or axes to normalize over.
        epsilon: A constant added to the variance.
        center, scale: If True, use `beta` and `gamma`, respectively.
        beta_init, gamma_init: Initializers of these parameters, functions of a key and a shape.

    Returns:
        The layer.

    Example:
        >>> BatchNorm()[0](xf.random.key(0), (8, 4, 4, 3))[1][1].tolist()
        [1.0, 1.0, 1.0]
    """
    axes = (axis,) if np.ndim(axis) == 0 else tuple(axis)

    def init_fun(rng, input_shape):
        shape = tuple([n for i, n in enumerate(input_shape) if i not in axes])
        beta_key, gamma_key = random.split(rng)
        return input_shape, (beta_init(beta_key, shape) if center else (), gamma_init(gamma_key, shape) if scale else ())

    def apply_fun(params, x, **kwargs):
        beta, gamma = params
        expansion = tuple([None if i in axes else slice(None) for i in range(xnp.ndim(x))])

        def to_inputs(parameter):
            return parameter[expansion] if xnp.ndim(parameter) != xnp.ndim(x) else parameter

        z = nn.standardize(x, axes, epsilon=epsilon)
        z = z * to_inputs(gamma) if scale else z
        return z + to_inputs(beta) if center else z

    return init_fun, apply_fun


def elementwise(fun: Callable, **fun_kwargs: Any) -> Layer:
    """Create a layer that applies a function to its input.

    Args:
        fun: The function.
        fun_kwargs: Keyword arguments of the function.

    Returns:
        The layer.

    Example:
        >>> elementwise(lambda x, y: x + y, y=1)[1]((), 2)
        3
    """
    return _same_shape, lambda params, inputs, **kwargs: fun(inputs, **fun_kwargs)


Tanh = elementwise(xnp.tanh)
Relu = elementwise(nn.relu)
Exp = elementwise(xnp.exp)
LogSoftmax = elementwise(nn.log_softmax, axis=-1)
Softmax = elementwise(nn.softmax, axis=-1)
Softplus = elementwise(nn.softplus)
Sigmoid = elementwise(nn.sigmoid)
Elu = elementwise(nn.elu)
LeakyRelu = elementwise(nn.leaky_relu)
Selu = elementwise(nn.selu)
Gelu = elementwise(nn.gelu)


def _pooling(reducer: Callable, start: float, window_shape, strides, padding, spec, finish: Callable | None = None) -> Layer:
    strides = tuple(strides) if strides else (1,) * len(window_shape)
    channel = len(window_shape) + 1 if spec is None else spec.index("C")
    batch = 0 if spec is None else spec.index("N")

    def with_unit_dims(sizes):
        """Insert sizes of 1 for the batch and channel dimensions."""
        sizes = iter(sizes)
        return tuple([1 if i in (batch, channel) else next(sizes) for i in range(len(window_shape) + 2)])

    window, window_strides = with_unit_dims(window_shape), with_unit_dims(strides)

    def init_fun(rng, input_shape):
        pads = lax.padtype_to_pads(input_shape, window, window_strides, padding)
        shape = lax.reduce_window_shape_tuple(input_shape, window, window_strides, pads)
        return tuple(map(int, shape)), ()

    def apply_fun(params, inputs, **kwargs):
        out = lax.reduce_window(inputs, start, reducer, window, window_strides, padding)
        return finish(out, inputs, window, window_strides, padding) if finish else out

    return init_fun, apply_fun


def MaxPool(window_shape: Sequence[int], strides: Sequence[int] | None = None, padding: str = "VALID",
            spec: str | None = None) -> Layer:
    """Create a max pooling layer.

    Args:
        window_shape: Shape of the window.
        strides: Strides of the window. Default: 1.
        padding: "VALID" or "SAME".
        spec: The dimensions of the input, as in "NCHW". Default: batch first, channels last.

    Returns:
        The layer.

    Example:
        >>> MaxPool((2, 2))[1]((), xnp.arange(4.0).reshape(1, 2, 2, 1)).item()
        3.0
    """
    return _pooling(lax.max, -np.inf, window_shape, strides, padding, spec)


def SumPool(window_shape: Sequence[int], strides: Sequence[int] | None = None, padding: str = "VALID",
            spec: str | None = None) -> Layer:
    """Create a sum pooling layer.

    Args:
        window_shape: Shape of the window.
        strides: Strides of the window. Default: 1.
        padding: "VALID" or "SAME".
        spec: The dimensions of the input, as in "NCHW". Default: batch first, channels last.

    Returns:
        The layer.

    Example:
        >>> SumPool((2, 2))[1]((), xnp.arange(4.0).reshape(1, 2, 2, 1)).item()
        6.0
    """
    return _pooling(lax.add, 0.0, window_shape, strides, padding, spec)


def AvgPool(window_shape: Sequence[int], strides: Sequence[int] | None = None, padding: str = "VALID",
            spec: str | None = None) -> Layer:
    """Create an average pooling layer. Padding does not count toward the average.

    Args:
        window_shape: Shape of the window.
        strides: Strides of the window. Default: 1.
        padding: "VALID" or "SAME".
        spec: The dimensions of the input, as in "NCHW". Default: batch first, channels last.

    Returns:
        The layer.

    Example:
        >>> AvgPool((2, 2))[1]((), xnp.arange(4.0).reshape(1, 2, 2, 1)).item()
        1.5
    """
    def mean(sums, inputs, window, window_strides, padding):
        return sums / lax.reduce_window(xnp.ones_like(inputs), 0.0, lax.add, window, window_strides, padding)

    return _pooling(lax.add, 0.0, window_shape, strides, padding, spec, mean)


Flatten = (lambda rng, input_shape: ((input_shape[0], math.prod(input_shape[1:])), ()),
           lambda params, inputs, **kwargs: xnp.reshape(inputs, (inputs.shape[0], -1)))
Identity = (_same_shape, lambda params, inputs, **kwargs: inputs)


def FanOut(num: int) -> Layer:
    """Create a layer that copies its input, for layers in `parallel`.

    Args:
        num: Number of copies.

    Returns:
        The layer.

    Example:
        >>> FanOut(2)[1]((), 1.0)
        [1.0, 1.0]
    """
    return lambda rng, input_shape: ([input_shape] * num, ()), lambda params, inputs, **kwargs: [inputs] * num


FanInSum = (lambda rng, input_shape: (input_shape[0], ()),
            lambda params, inputs, **kwargs: functools.reduce(operator.add, inputs))


def FanInConcat(axis: int = -1) -> Layer:
    """Create a layer that concatenates its inputs.

    Args:
        axis: Axis to concatenate along. Default: the last.

    Returns:
        The layer.

    Example:
        >>> FanInConcat()[0](xf.random.key(0), [(2, 3), (2, 4)])[0]
        (2, 7)
    """
    def init_fun(rng, input_shape):
        dim = axis % len(input_shape[0])
        total = sum([shape[dim] for shape in input_shape])
        return (*input_shape[0][:dim], total, *input_shape[0][dim + 1:]), ()

    return init_fun, lambda params, inputs, **kwargs: xnp.concatenate(inputs, axis)


def Dropout(rate: float, mode: str = "train") -> Layer:
    """Create a dropout layer, which sets inputs to zero at random and scales the others such that the mean is preserved.

    Args:
        rate: The probability that an input is preserved.
        mode: "train" enables dropout; with any other value inputs pass unchanged.

    Returns:
        The layer.

    Example:
        >>> set(Dropout(0.5)[1]((), xnp.ones(50), rng=xf.random.key(0)).tolist()) == {0.0, 2.0}
        True
    """
    def apply_fun(params, inputs, **kwargs):
        rng = kwargs.get("rng")
        if rng is None:
            raise ValueError("the layer Dropout needs a random key: call apply_fun(params, inputs, rng=key).")
        if mode != "train":
            return inputs
        return xnp.where(random.bernoulli(rng, rate, inputs.shape), inputs / rate, 0)

    return _same_shape, apply_fun


def _keys(rng, count: int) -> Any:
    return random.split(rng, count) if rng is not None else (None,) * count


def serial(*layers: Layer) -> Layer:
    """Compose layers in sequence.

    Args:
        layers: The layers.

    Returns:
        The layer, whose parameters are a list.

    Example:
        >>> init_fun, apply_fun = serial(Dense(8), stax.Relu, Dense(2))
        >>> shape, params = init_fun(xf.random.key(0), (-1, 3))
        >>> apply_fun(params, xnp.ones((5, 3))).shape
        (5, 2)
    """
    inits, applies = [init for init, _ in layers], [apply for _, apply in layers]

    def init_fun(rng, input_shape):
        params = []
        for init in inits:
            rng, key = random.split(rng)
            input_shape, found = init(key, input_shape)
            params.append(found)
        return input_shape, params

    def apply_fun(params, inputs, **kwargs):
        for apply, p, key in zip(applies, params, _keys(kwargs.pop("rng", None), len(layers))):
            inputs = apply(p, inputs, rng=key, **kwargs)
        return inputs

    return init_fun, apply_fun


def parallel(*layers: Layer) -> Layer:
    """Combine layers in parallel, each with its own input.

    Args:
        layers: The layers.

    Returns:
        The layer, whose parameters are a tuple and whose inputs and outputs are sequences.

    Example:
        >>> init_fun, apply_fun = serial(FanOut(2), parallel(stax.Identity, stax.Exp), stax.FanInSum)
        >>> apply_fun(init_fun(xf.random.key(0), (1,))[1], xnp.zeros(1)).tolist()
        [1.0]
    """
    def init_fun(rng, input_shape):
        found = [init(key, shape) for (init, _), key, shape in zip(layers, random.split(rng, len(layers)), input_shape)]
        return tuple([shape for shape, _ in found]), tuple([params for _, params in found])

    def apply_fun(params, inputs, **kwargs):
        keys = _keys(kwargs.pop("rng", None), len(layers))
        return [apply(p, x, rng=key, **kwargs) for (_, apply), p, x, key in zip(layers, params, inputs, keys)]

    return init_fun, apply_fun


def shape_dependent(make_layer: Callable[[Any], Layer]) -> Layer:
    """Create a layer that is built once the shape of its input is available.

    Args:
        make_layer: A function from the input shape to a layer.

    Returns:
        The layer.

    Example:
        >>> shape_dependent(lambda shape: Dense(shape[-1]))[0](xf.random.key(0), (2, 3))[0]
        (2, 3)
    """
    return (lambda rng, input_shape: make_layer(input_shape)[0](rng, input_shape),
            lambda params, inputs, **kwargs: make_layer(inputs.shape)[1](params, inputs, **kwargs))
