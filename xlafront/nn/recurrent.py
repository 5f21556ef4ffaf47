"""Long short-term memory: layers of cells over batches of sequences, with weights in one vector in cuDNN's order.

For each layer and direction come the weights of the input and of the state, and after all weights the two biases of each. The
four gates are those of the input, of forgetting, of the cell and of the output.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax, nn, random
from xlafront.core.avals import ShapedArray
from xlafront.core.typing import Array
from xlafront.transforms.ad.derivatives import vjp

Weights = dict[int, Array]


def _shapes(input_size: int, hidden_size: int, num_layers: int, bidirectional: bool) -> tuple[list, list]:
    """Of the two weights, and of the two biases, of each layer and direction."""
    directions = 2 if bidirectional else 1
    sizes = [input_size if layer == 0 else hidden_size * directions for layer in range(num_layers) for _ in range(directions)]
    gates = 4 * hidden_size
    return [((gates, size), (gates, hidden_size)) for size in sizes], [((gates,), (gates,)) for _ in sizes]


def get_num_params_in_lstm(input_size: int, hidden_size: int, num_layers: int, bidirectional: bool) -> int:
    """How many weights there are.

    - `input_size`, `hidden_size`: the sizes of inputs and of states.
    - `num_layers`: the number of layers.
    - `bidirectional`: whether each layer goes in both directions.

    >>> rnn.get_num_params_in_lstm(3, 4, 2, True)
    736
    """
    weights, biases = _shapes(input_size, hidden_size, num_layers, bidirectional)
    return sum([math.prod(shape) for pair in (*weights, *biases) for shape in pair])


def init_lstm_weight(rng: Array, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool) -> Array:
    """Random weights, between plus and minus the inverse root of `hidden_size`.

    - `rng`: a key of `random.key`.
    - `input_size`, `hidden_size`: the sizes of inputs and of states.
    - `num_layers`: the number of layers.
    - `bidirectional`: whether each layer goes in both directions.

    >>> rnn.init_lstm_weight(xf.random.key(0), 3, 4, 1, False).shape
    (144,)
    """
    bound = math.sqrt(1 / hidden_size)
    count = get_num_params_in_lstm(input_size, hidden_size, num_layers, bidirectional)
    return random.uniform(rng, (count,), minval=-bound, maxval=bound)


def unpack_lstm_weights(weights: Array, input_size: int, hidden_size: int, num_layers: int,
                        bidirectional: bool) -> tuple[Weights, Weights, Weights, Weights]:
    """The weights of inputs and of states, and the biases of both, by the numbers of layers and directions.

    - `weights`: all of them in one vector.
    - `input_size`, `hidden_size`: the sizes of inputs and of states.
    - `num_layers`: the number of layers.
    - `bidirectional`: whether each layer goes in both directions.

    >>> w_ih, w_hh, b_ih, b_hh = rnn.unpack_lstm_weights(xnp.zeros(144), 3, 4, 1, False)
    >>> w_ih[0].shape, w_hh[0].shape, b_ih[0].shape
    ((16, 3), (16, 4), (16,))
    """
    count = get_num_params_in_lstm(input_size, hidden_size, num_layers, bidirectional)
    if np.shape(weights) != (count,):
        raise ValueError(f"an LSTM of these sizes has a vector of {count} weights, got shape {np.shape(weights)}.")
    parts: tuple[Weights, Weights, Weights, Weights] = ({}, {}, {}, {})
    start = 0
    for first, pairs in zip((0, 2), _shapes(input_size, hidden_size, num_layers, bidirectional)):
        for number, pair in enumerate(pairs):
            for i, shape in enumerate(pair, first):
                end = start + math.prod(shape)
                parts[i][number] = weights[start:end].reshape(shape)
                start = end
    return parts


def swap_lstm_gates(weights: Array, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool) -> Array:
    """The weights with the gates of the cell and of the output exchanged, as other libraries have them.

    - `weights`: all of them in one vector.
    - `input_size`, `hidden_size`: the sizes of inputs and of states.
    - `num_layers`: the number of layers.
    - `bidirectional`: whether each layer goes in both directions.

    >>> rnn.swap_lstm_gates(xnp.arange(16.0), 1, 1, 1, False).tolist()[:4]
    [0.0, 1.0, 3.0, 2.0]
    """
    w_ih, w_hh, b_ih, b_hh = unpack_lstm_weights(weights, input_size, hidden_size, num_layers, bidirectional)

    def swapped(x):
        gates = x.reshape(4, hidden_size, *x.shape[1:])
        return xnp.stack([gates[0], gates[1], gates[3], gates[2]]).ravel()

    pairs = [(ih[n], hh[n]) for ih, hh in ((w_ih, w_hh), (b_ih, b_hh)) for n in range(len(ih))]
    return xnp.concatenate([swapped(x) for pair in pairs for x in pair])


def _reversed(x, lengths):
    """Each sequence, as long as it is, from its end."""
    steps = xnp.arange(x.shape[1])
    places = xnp.where(steps < lengths[:, None], lengths[:, None] - 1 - steps, steps)
    return xnp.take_along_axis(x, places[:, :, None], axis=1)


def _one_direction(x, h, c, w_ih, w_hh, b_ih, b_hh, lengths, precision):
    """The states after each step, zero beyond the ends of sequences, and those at the ends."""
    projected = xnp.matmul(x, w_ih.T, precision=precision) + (b_ih + b_hh)

    def step(carry, row):
        h, c, number = carry
        gates = row + xnp.matmul(h, w_hh.T, precision=precision)
        i, f, g, o = xnp.split(gates, 4, axis=-1)
        c_after = nn.sigmoid(f) * c + nn.sigmoid(i) * xnp.tanh(g)
        h_after = nn.sigmoid(o) * xnp.tanh(c_after)
        inside = (number < lengths)[:, None]
        return (xnp.where(inside, h_after, h), xnp.where(inside, c_after, c), number + 1), xnp.where(inside, h_after, 0)

    (h, c, _), ys = lax.scan(step, (h, c, 0), xnp.swapaxes(projected, 0, 1))
    return xnp.swapaxes(ys, 0, 1), h, c


def _layers(x, h_0, c_0, parts, lengths, num_layers, dropout, bidirectional, precision):
    directions = 2 if bidirectional else 1
    h_n, c_n = [], []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            number = layer * directions + direction
            given = _reversed(x, lengths) if direction else x
            y, h, c = _one_direction(given, h_0[number], c_0[number], *[part[number] for part in parts], lengths, precision)
            outputs.append(_reversed(y, lengths) if direction else y)
            h_n.append(h)
            c_n.append(c)
        x = xnp.concatenate(outputs, axis=-1)
        if dropout and layer < num_layers - 1:
            kept = random.bernoulli(random.fold_in(random.key(0), layer), 1 - dropout, x.shape)
            x = xnp.where(kept, x / (1 - dropout), 0)
    return x, xnp.stack(h_n), xnp.stack(c_n)


def lstm_ref(x: Array, h_0: Array, c_0: Array, W_ih: Weights, W_hh: Weights, b_ih: Weights, b_hh: Weights, seq_lengths: Array,
             input_size: int, hidden_size: int, num_layers: int, dropout: float,
             bidirectional: bool) -> tuple[Array, Array, Array]:
    """`lstm`, of weights that are unpacked.

    - `x`, `h_0`, `c_0`, `seq_lengths`: as of `lstm`.
    - `W_ih`, `W_hh`, `b_ih`, `b_hh`: the weights, as `unpack_lstm_weights` returns them.
    - `input_size`, `hidden_size`, `num_layers`, `bidirectional`: as of `lstm`.
    - `dropout`: zero.

    >>> parts = rnn.unpack_lstm_weights(xnp.zeros(144), 3, 4, 1, False)
    >>> states = xnp.zeros((1, 2, 4))
    >>> rnn.lstm_ref(xnp.ones((2, 5, 3)), states, states, *parts, xnp.array([5, 3]), 3, 4, 1, 0.0, False)[0].shape
    (2, 5, 4)
    """
    if dropout:
        raise NotImplementedError("lstm_ref has no dropout: give it dropout=0, or use lstm.")
    return _layers(x, h_0, c_0, (W_ih, W_hh, b_ih, b_hh), seq_lengths, num_layers, 0, bidirectional, None)


def lstm(x: Array, h_0: Array, c_0: Array, weights: Array, seq_lengths: Array, input_size: int, hidden_size: int,
         num_layers: int, dropout: float, bidirectional: bool, precision: Any = None) -> tuple[Array, Array, Array]:
    """The states of the last layer after each step, and the states and cells of all layers at the ends of sequences.

    It runs on all platforms, in operations of XLA.

    - `x`: sequences, of shape (batch, steps, `input_size`).
    - `h_0`, `c_0`: the first states and cells, of shape (layers times directions, batch, `hidden_size`).
    - `weights`: all weights in one vector, as `init_lstm_weight` makes them.
    - `seq_lengths`: how long each sequence is. Beyond its end the results are zero.
    - `input_size`, `hidden_size`: the sizes of inputs and of states.
    - `num_layers`: the number of layers.
    - `dropout`: the part of what goes from layer to layer that is zero, the same elements in each call.
    - `bidirectional`: whether each layer goes in both directions.
    - `precision`: of the products of matrices.

    >>> weights, states = rnn.init_lstm_weight(xf.random.key(0), 3, 4, 1, False), xnp.zeros((1, 2, 4))
    >>> y, h, c = rnn.lstm(xnp.ones((2, 5, 3)), states, states, weights, xnp.array([5, 3]), 3, 4, 1, 0.0, False)
    >>> y.shape, h.shape, bool((y[1, 2] == h[0, 1]).all())
    ((2, 5, 4), (1, 2, 4), True)
    """
    if np.ndim(x) != 3 or np.shape(x)[2] != input_size:
        raise ValueError(f"lstm takes x of shape (batch, steps, {input_size}), got {np.shape(x)}.")
    states = (num_layers * (2 if bidirectional else 1), np.shape(x)[0], hidden_size)
    for name, state in (("h_0", h_0), ("c_0", c_0)):
        if np.shape(state) != states:
            raise ValueError(f"lstm takes {name} of shape {states}, got {np.shape(state)}.")
    parts = unpack_lstm_weights(weights, input_size, hidden_size, num_layers, bidirectional)
    return _layers(x, h_0, c_0, parts, seq_lengths, num_layers, dropout, bidirectional, precision)


def lstm_fwd(x: Array, h_0: Array, c_0: Array, w: Array, seq_lengths: Array, input_size: int, hidden_size: int, num_layers: int,
             dropout: float, bidirectional: bool, precision: Any) -> tuple[tuple[Array, Array, Array], tuple]:
    """`lstm`, and what `lstm_bwd` needs of it.

    - `x`, `h_0`, `c_0`, `w`, `seq_lengths`: the arrays that `lstm` takes.
    - `input_size`, `hidden_size`, `num_layers`, `dropout`, `bidirectional`, `precision`: as of `lstm`.

    >>> weights, states = rnn.init_lstm_weight(xf.random.key(0), 3, 4, 1, False), xnp.zeros((1, 2, 4))
    >>> results, kept = rnn.lstm_fwd(xnp.ones((2, 5, 3)), states, states, weights, xnp.array([5, 3]), 3, 4, 1, 0.0, False, None)
    """
    found = lstm(x, h_0, c_0, w, seq_lengths, input_size, hidden_size, num_layers, dropout, bidirectional, precision)
    return found, (x, h_0, c_0, w, seq_lengths)


def lstm_bwd(input_size: int, hidden_size: int, num_layers: int, dropout: float, bidirectional: bool, precision: Any,
             residuals: tuple, gradients: tuple[Array, Array, Array]) -> tuple[Array, Array, Array, Array, None]:
    """The gradients in `x`, `h_0`, `c_0` and weights, and None for the lengths.

    - `input_size`, `hidden_size`, `num_layers`, `dropout`, `bidirectional`, `precision`: as of `lstm`.
    - `residuals`: what `lstm_fwd` returned.
    - `gradients`: those in the three results of `lstm`.

    >>> weights, states = rnn.init_lstm_weight(xf.random.key(0), 3, 4, 1, False), xnp.zeros((1, 2, 4))
    >>> found, kept = rnn.lstm_fwd(xnp.ones((2, 5, 3)), states, states, weights, xnp.array([5, 3]), 3, 4, 1, 0.0, False, None)
    >>> rnn.lstm_bwd(3, 4, 1, 0.0, False, None, kept, found)[3].shape
    (144,)
    """
    *moving, lengths = residuals

    def forward(x, h_0, c_0, w):
        return lstm(x, h_0, c_0, w, lengths, input_size, hidden_size, num_layers, dropout, bidirectional, precision)

    return *vjp(forward, *moving)[1](tuple(gradients)), None


def rnn_abstract_eval(x_aval: Any, h_0_aval: Any, c_0_aval: Any, w_aval: Any, seq_lengths_aval: Any, input_size: int,
                      hidden_size: int, num_layers: int, dropout: float, bidirectional: bool,
                      cudnn_allow_tf32: bool) -> tuple[Any, Any, Any, Any]:
    """The types of the results of `lstm`, and of what is kept for derivatives, which is nothing.

    - `x_aval`, `h_0_aval`, `c_0_aval`, `w_aval`, `seq_lengths_aval`: the types of the arrays that `lstm` takes.
    - `input_size`, `hidden_size`, `num_layers`, `dropout`, `bidirectional`: as of `lstm`.
    - `cudnn_allow_tf32`: is there for the reference's signature.

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
    """The types of the gradients of `lstm`: those of its arrays.

    - `dy_aval`, `dhn_aval`, `dcn_aval`: of the gradients in the results.
    - `x_aval`, `h0_aval`, `c0_aval`, `w_aval`, `y_aval`, `seq_lengths_aval`: of arrays and of the first result.
    - `reserve_space_aval`: of what is kept.
    - `input_size`, `hidden_size`, `num_layers`, `dropout`, `bidirectional`: as of `lstm`.
    - `cudnn_allow_tf32`: is there for the reference's signature.

    >>> x, h, w, n = (xf.typeof(xnp.zeros(s)) for s in ((2, 5, 3), (1, 2, 4), (144,), (2,)))
    >>> rnn.rnn_bwd_abstract_eval(x, h, h, x, h, h, w, x, n, n, 3, 4, 1, 0.0, False, True)[3].shape
    (144,)
    """
    return x_aval, h0_aval, c0_aval, w_aval
