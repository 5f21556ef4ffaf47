"""Long short-term memory: LSTM layers over batches of sequences, with the weights in one vector in cuDNN's order.

The vector holds the input and state weights of each layer and direction, then both biases of each. The four gates are those of
input, forgetting, cell and output.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax, nn, random
from xlafront.api.derivatives import vjp
from xlafront.core.avals import ShapedArray
from xlafront.core.typing import Array

Weights = dict[int, Array]


def _shapes(input_size: int, hidden_size: int, num_layers: int, bidirectional: bool) -> tuple[list, list]:
    """Return the shapes of the two weights and of the two biases of each layer and direction."""
    directions = 2 if bidirectional else 1
    sizes = [input_size if layer == 0 else hidden_size * directions for layer in range(num_layers) for _ in range(directions)]
    gates = 4 * hidden_size
    return [((gates, size), (gates, hidden_size)) for size in sizes], [((gates,), (gates,)) for _ in sizes]


def get_num_params_in_lstm(input_size: int, hidden_size: int, num_layers: int, bidirectional: bool) -> int:
    """Return the number of weights of an LSTM.

    Args:
        input_size: Size of the inputs.
        hidden_size: Size of the states.
        num_layers: Number of layers.
        bidirectional: If True, each layer runs in both directions.

    Returns:
        Number of elements of the weight vector.

    Example:
        >>> rnn.get_num_params_in_lstm(3, 4, 2, True)
        736
    """
    weights, biases = _shapes(input_size, hidden_size, num_layers, bidirectional)
    return sum([math.prod(shape) for pair in (*weights, *biases) for shape in pair])


def init_lstm_weight(rng: Array, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool) -> Array:
    """Sample weights uniformly between plus and minus `1 / sqrt(hidden_size)`.

    Args:
        rng: PRNG key.
        input_size: Size of the inputs.
        hidden_size: Size of the states.
        num_layers: Number of layers.
        bidirectional: If True, each layer runs in both directions.

    Returns:
        Vector of weights.

    Example:
        >>> rnn.init_lstm_weight(xf.random.key(0), 3, 4, 1, False).shape
        (144,)
    """
    bound = math.sqrt(1 / hidden_size)
    count = get_num_params_in_lstm(input_size, hidden_size, num_layers, bidirectional)
    return random.uniform(rng, (count,), minval=-bound, maxval=bound)


def unpack_lstm_weights(weights: Array, input_size: int, hidden_size: int, num_layers: int,
                        bidirectional: bool) -> tuple[Weights, Weights, Weights, Weights]:
    """Split the weight vector into weights and biases.

    Args:
        weights: Vector of all weights.
        input_size: Size of the inputs.
        hidden_size: Size of the states.
        num_layers: Number of layers.
        bidirectional: If True, each layer runs in both directions.

    Returns:
        Input weights, state weights, input biases and state biases, each as a dict by the index of layer and direction.

    Example:
        >>> w_ih, w_hh, b_ih, b_hh = rnn.unpack_lstm_weights(xnp.zeros(144), 3, 4, 1, False)
        >>> w_ih[0].shape, w_hh[0].shape, b_ih[0].shape
        ((16, 3), (16, 4), (16,))
    """
    count = get_num_params_in_lstm(input_size, hidden_size, num_layers, bidirectional)
    if np.shape(weights) != (count,):
        raise ValueError(f"an LSTM of these sizes needs a vector of {count} weights, got shape {np.shape(weights)}.")
    unpacked: tuple[Weights, Weights, Weights, Weights] = ({}, {}, {}, {})
    start = 0
    for first, pairs in zip((0, 2), _shapes(input_size, hidden_size, num_layers, bidirectional)):
        for number, pair in enumerate(pairs):
            for i, shape in enumerate(pair, first):
                end = start + math.prod(shape)
                unpacked[i][number] = weights[start:end].reshape(shape)
                start = end
    return unpacked


def swap_lstm_gates(weights: Array, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool) -> Array:
    """Exchange the cell gate and the output gate in the weights, to convert between conventions of libraries.

    Args:
        weights: Vector of all weights.
        input_size: Size of the inputs.
        hidden_size: Size of the states.
        num_layers: Number of layers.
        bidirectional: If True, each layer runs in both directions.

    Returns:
        Vector of all weights.

    Example:
        >>> rnn.swap_lstm_gates(xnp.arange(16.0), 1, 1, 1, False).tolist()[:4]
        [0.0, 1.0, 3.0, 2.0]
    """
    w_ih, w_hh, b_ih, b_hh = unpack_lstm_weights(weights, input_size, hidden_size, num_layers, bidirectional)

    def swap(x):
        gates = x.reshape(4, hidden_size, *x.shape[1:])
        return xnp.stack([gates[0], gates[1], gates[3], gates[2]]).ravel()

    pairs = [(ih[n], hh[n]) for ih, hh in ((w_ih, w_hh), (b_ih, b_hh)) for n in range(len(ih))]
    return xnp.concatenate([swap(x) for pair in pairs for x in pair])


def _reverse(x, lengths):
    """Reverse each sequence within its length."""
    steps = xnp.arange(x.shape[1])
    positions = xnp.where(steps < lengths[:, None], lengths[:, None] - 1 - steps, steps)
    return xnp.take_along_axis(x, positions[:, :, None], axis=1)


def _one_direction(x, h, c, w_ih, w_hh, b_ih, b_hh, lengths, precision):
    """Return the states after each step, zero beyond the ends of sequences, and the states and cells at the ends."""
    projected = xnp.matmul(x, w_ih.T, precision=precision) + (b_ih + b_hh)

    def step(carry, row):
        h, c, number = carry
        gates = row + xnp.matmul(h, w_hh.T, precision=precision)
        i, f, g, o = xnp.split(gates, 4, axis=-1)
        c_after = nn.sigmoid(f) * c + nn.sigmoid(i) * xnp.tanh(g)
        h_after = nn.sigmoid(o) * xnp.tanh(c_after)
        is_active = (number < lengths)[:, None]
        carry = xnp.where(is_active, h_after, h), xnp.where(is_active, c_after, c), number + 1
        return carry, xnp.where(is_active, h_after, 0)

    (h, c, _), ys = lax.scan(step, (h, c, 0), xnp.swapaxes(projected, 0, 1))
    return xnp.swapaxes(ys, 0, 1), h, c


def _layers(x, h_0, c_0, weights, lengths, num_layers, dropout, bidirectional, precision):
    directions = 2 if bidirectional else 1
    h_n, c_n = [], []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            number = layer * directions + direction
            inputs = _reverse(x, lengths) if direction else x
            y, h, c = _one_direction(inputs, h_0[number], c_0[number], *[weight[number] for weight in weights], lengths,
                                     precision)
            outputs.append(_reverse(y, lengths) if direction else y)
            h_n.append(h)
            c_n.append(c)
        x = xnp.concatenate(outputs, axis=-1)
        if dropout and layer < num_layers - 1:
            keep = random.bernoulli(random.fold_in(random.key(0), layer), 1 - dropout, x.shape)
            x = xnp.where(keep, x / (1 - dropout), 0)
    return x, xnp.stack(h_n), xnp.stack(c_n)


def lstm_ref(x: Array, h_0: Array, c_0: Array, W_ih: Weights, W_hh: Weights, b_ih: Weights, b_hh: Weights, seq_lengths: Array,
             input_size: int, hidden_size: int, num_layers: int, dropout: float,
             bidirectional: bool) -> tuple[Array, Array, Array]:
    """Run an LSTM as `lstm` does, with unpacked weights.

    Args:
        x: Sequences of shape `(batch, steps, input_size)`.
        h_0, c_0: Initial states and cells of shape `(layers * directions, batch, hidden_size)`.
        W_ih, W_hh, b_ih, b_hh: Weights and biases as `unpack_lstm_weights` returns them.
        seq_lengths: Length of each sequence.
        input_size: Size of the inputs.
        hidden_size: Size of the states.
        num_layers: Number of layers.
        dropout: Must be 0.
        bidirectional: If True, each layer runs in both directions.

    Returns:
        States of the last layer after each step, and the final states and cells of all layers.

    Example:
        >>> parts = rnn.unpack_lstm_weights(xnp.zeros(144), 3, 4, 1, False)
        >>> states = xnp.zeros((1, 2, 4))
        >>> rnn.lstm_ref(xnp.ones((2, 5, 3)), states, states, *parts, xnp.array([5, 3]), 3, 4, 1, 0.0, False)[0].shape
        (2, 5, 4)
    """
    if dropout:
        raise NotImplementedError("lstm_ref does not support dropout: pass dropout=0, or use lstm.")
    return _layers(x, h_0, c_0, (W_ih, W_hh, b_ih, b_hh), seq_lengths, num_layers, 0, bidirectional, None)


def lstm(x: Array, h_0: Array, c_0: Array, weights: Array, seq_lengths: Array, input_size: int, hidden_size: int,
         num_layers: int, dropout: float, bidirectional: bool, precision: Any = None) -> tuple[Array, Array, Array]:
    """Run an LSTM over a batch of sequences.

    It runs on all platforms, as XLA operations.

    Args:
        x: Sequences of shape `(batch, steps, input_size)`.
        h_0, c_0: Initial states and cells of shape `(layers * directions, batch, hidden_size)`.
        weights: Vector of all weights, as `init_lstm_weight` returns it.
        seq_lengths: Length of each sequence. Results beyond its end are zero.
        input_size: Size of the inputs.
        hidden_size: Size of the states.
        num_layers: Number of layers.
        dropout: Fraction of the outputs that are dropped between layers, the same elements in each call.
        bidirectional: If True, each layer runs in both directions.
        precision: Precision of the matrix products.

    Returns:
        States of the last layer after each step, and the final states and cells of all layers.

    Example:
        >>> weights, states = rnn.init_lstm_weight(xf.random.key(0), 3, 4, 1, False), xnp.zeros((1, 2, 4))
        >>> y, h, c = rnn.lstm(xnp.ones((2, 5, 3)), states, states, weights, xnp.array([5, 3]), 3, 4, 1, 0.0, False)
        >>> y.shape, h.shape, bool((y[1, 2] == h[0, 1]).all())
        ((2, 5, 4), (1, 2, 4), True)
    """
    if np.ndim(x) != 3 or np.shape(x)[2] != input_size:
        raise ValueError(f"lstm takes x of shape (batch, steps, {input_size}), got {np.shape(x)}.")
    state_shape = (num_layers * (2 if bidirectional else 1), np.shape(x)[0], hidden_size)
    for name, state in (("h_0", h_0), ("c_0", c_0)):
        if np.shape(state) != state_shape:
            raise ValueError(f"lstm takes {name} of shape {state_shape}, got {np.shape(state)}.")
    unpacked = unpack_lstm_weights(weights, input_size, hidden_size, num_layers, bidirectional)
    return _layers(x, h_0, c_0, unpacked, seq_lengths, num_layers, dropout, bidirectional, precision)


def lstm_fwd(x: Array, h_0: Array, c_0: Array, w: Array, seq_lengths: Array, input_size: int, hidden_size: int, num_layers: int,
             dropout: float, bidirectional: bool, precision: Any) -> tuple[tuple[Array, Array, Array], tuple]:
    """Run `lstm` and return the residuals of `lstm_bwd` as well.

    Args:
        x: Sequences of shape `(batch, steps, input_size)`.
        h_0, c_0: Initial states and cells.
        w: Vector of all weights.
        seq_lengths: Length of each sequence.
        input_size: Size of the inputs.
        hidden_size: Size of the states.
        num_layers: Number of layers.
        dropout: Fraction of the outputs that are dropped between layers.
        bidirectional: If True, each layer runs in both directions.
        precision: Precision of the matrix products.

    Returns:
        Results of `lstm`, and the residuals.

    Example:
        >>> weights, states = rnn.init_lstm_weight(xf.random.key(0), 3, 4, 1, False), xnp.zeros((1, 2, 4))
        >>> x, lengths = xnp.ones((2, 5, 3)), xnp.array([5, 3])
        >>> results, residuals = rnn.lstm_fwd(x, states, states, weights, lengths, 3, 4, 1, 0.0, False, None)
    """
    results = lstm(x, h_0, c_0, w, seq_lengths, input_size, hidden_size, num_layers, dropout, bidirectional, precision)
    return results, (x, h_0, c_0, w, seq_lengths)


def lstm_bwd(input_size: int, hidden_size: int, num_layers: int, dropout: float, bidirectional: bool, precision: Any,
             residuals: tuple, gradients: tuple[Array, Array, Array]) -> tuple[Array, Array, Array, Array, None]:
    """Compute the gradients of `lstm`.

    Args:
        input_size: Size of the inputs.
        hidden_size: Size of the states.
        num_layers: Number of layers.
        dropout: Fraction of the outputs that are dropped between layers.
        bidirectional: If True, each layer runs in both directions.
        precision: Precision of the matrix products.
        residuals: Residuals that `lstm_fwd` returned.
        gradients: Cotangents of the three results of `lstm`.

    Returns:
        Gradients with respect to `x`, `h_0`, `c_0` and the weights, and None for the lengths.

    Example:
        >>> weights, states = rnn.init_lstm_weight(xf.random.key(0), 3, 4, 1, False), xnp.zeros((1, 2, 4))
        >>> x, lengths = xnp.ones((2, 5, 3)), xnp.array([5, 3])
        >>> results, residuals = rnn.lstm_fwd(x, states, states, weights, lengths, 3, 4, 1, 0.0, False, None)
        >>> rnn.lstm_bwd(3, 4, 1, 0.0, False, None, residuals, results)[3].shape
        (144,)
    """
    *primals, lengths = residuals

    def forward(x, h_0, c_0, w):
        return lstm(x, h_0, c_0, w, lengths, input_size, hidden_size, num_layers, dropout, bidirectional, precision)

    return *vjp(forward, *primals)[1](tuple(gradients)), None


def rnn_abstract_eval(x_aval: Any, h_0_aval: Any, c_0_aval: Any, w_aval: Any, seq_lengths_aval: Any, input_size: int,
                      hidden_size: int, num_layers: int, dropout: float, bidirectional: bool,
                      cudnn_allow_tf32: bool) -> tuple[Any, Any, Any, Any]:
    """Return the types of the results of `lstm` and of the reserve space, which is empty.

    Args:
        x_aval, h_0_aval, c_0_aval, w_aval, seq_lengths_aval: Types of the arrays that `lstm` takes.
        input_size: Size of the inputs.
        hidden_size: Size of the states.
        num_layers: Number of layers.
        dropout: Not used.
        bidirectional: If True, each layer runs in both directions.
        cudnn_allow_tf32: Not used. It is there for compatibility with JAX.

    Returns:
        Types of the outputs, the final states, the final cells and the reserve space.

    Example:
        >>> x, h, w, n = (xf.typeof(xnp.zeros(s)) for s in ((2, 5, 3), (1, 2, 4), (144,), (2,)))
        >>> rnn.rnn_abstract_eval(x, h, h, w, n, 3, 4, 1, 0.0, False, True)[0].shape
        (2, 5, 4)
    """
    batch, steps, _ = x_aval.shape
    y = ShapedArray((batch, steps, hidden_size * (2 if bidirectional else 1)), x_aval.dtype)
    return y, h_0_aval, c_0_aval, ShapedArray((0,), np.dtype(np.float32))


def rnn_bwd_abstract_eval(dy_aval: Any, dhn_aval: Any, dcn_aval: Any, x_aval: Any, h0_aval: Any, c0_aval: Any, w_aval: Any,
                          y_aval: Any, reserve_space_aval: Any, seq_lengths_aval: Any, input_size: int, hidden_size: int,
                          num_layers: int, dropout: float, bidirectional: bool,
                          cudnn_allow_tf32: bool) -> tuple[Any, Any, Any, Any]:
    """Return the types of the gradients of `lstm`, which are those of its arrays.

    Args:
        dy_aval, dhn_aval, dcn_aval: Types of the cotangents of the results.
        x_aval, h0_aval, c0_aval, w_aval, y_aval, seq_lengths_aval: Types of the arrays and of the first result.
        reserve_space_aval: Type of the reserve space.
        input_size: Size of the inputs.
        hidden_size: Size of the states.
        num_layers: Number of layers.
        dropout: Not used.
        bidirectional: Not used.
        cudnn_allow_tf32: Not used. It is there for compatibility with JAX.

    Returns:
        Types of the gradients with respect to `x`, `h_0`, `c_0` and the weights.

    Example:
        >>> x, h, w, n = (xf.typeof(xnp.zeros(s)) for s in ((2, 5, 3), (1, 2, 4), (144,), (2,)))
        >>> rnn.rnn_bwd_abstract_eval(x, h, h, x, h, h, w, x, n, n, 3, 4, 1, 0.0, False, True)[3].shape
        (144,)
    """
    return x_aval, h0_aval, c0_aval, w_aval
