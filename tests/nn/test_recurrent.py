"""LSTM compared with a NumPy loop over single sequences and with numbers of JAX; derivatives."""

import numpy as np
import pytest
import scipy.special
from laws import check_derivatives

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.experimental import rnn

KEY = xf.random.key(0)
LENGTHS = np.array([5, 3, 1])


def by_hand(x, h, c, weights_by_gate, layers, directions):
    """Run the LSTM sequence by sequence, each with its own length."""
    ys, hs, cs = np.zeros((3, 5, directions * 4)), np.zeros(h.shape), np.zeros(h.shape)
    for b, n in enumerate(LENGTHS):
        rows = x[b, :n]
        for layer in range(layers):
            out = []
            for d in range(directions):
                k = layer * directions + d
                w_ih, w_hh, b_ih, b_hh = (np.asarray(p[k], float) for p in weights_by_gate)
                state, cell, found = h[k, b], c[k, b], []
                for row in rows[::-1] if d else rows:
                    i, f, g, o = np.split(w_ih @ row + b_ih + w_hh @ state + b_hh, 4)
                    cell = scipy.special.expit(f) * cell + scipy.special.expit(i) * np.tanh(g)
                    state = scipy.special.expit(o) * np.tanh(cell)
                    found.append(state)
                out.append(found[::-1] if d else found)
                hs[k, b], cs[k, b] = state, cell
            rows = np.concatenate(out, 1)
        ys[b, :n] = rows
    return ys, hs, cs


def arguments(rng, layers, directions):
    weights = rnn.init_lstm_weight(KEY, 3, 4, layers, directions == 2)
    states = rng.normal(size=(2, layers * directions, 3, 4)).astype("float32")
    return rng.normal(size=(3, 5, 3)).astype("float32"), *states, weights


@pytest.mark.parametrize("layers, directions", [(1, 1), (2, 2)])
def test_lstm(rng, layers, directions):
    x, h, c, weights = arguments(rng, layers, directions)
    settings = (3, 4, layers, 0.0, directions == 2)
    weights_by_gate = rnn.unpack_lstm_weights(weights, 3, 4, layers, directions == 2)
    expected = by_hand(x, h, c, weights_by_gate, layers, directions)
    compiled = xf.jit(lambda x, h, c, w: rnn.lstm(x, h, c, w, LENGTHS, *settings, precision="highest"))
    for found in (compiled(x, h, c, weights), rnn.lstm_ref(x, h, c, *weights_by_gate, xnp.array(LENGTHS), *settings)):
        for a, b in zip(found, expected):
            np.testing.assert_allclose(np.asarray(a), b, rtol=1e-4, atol=1e-5)
    residuals = rnn.lstm_fwd(x, h, c, weights, xnp.array(LENGTHS), *settings, None)[1]
    gradients = rnn.lstm_bwd(*settings, None, residuals, tuple(map(xnp.asarray, found)))
    pulled = xf.vjp(compiled, x, h, c, weights)[1](tuple(found))
    for a, b in zip(gradients, (*pulled, None), strict=True):
        assert (a is None and b is None) or np.allclose(a, b, rtol=1e-3, atol=1e-4)
    types = rnn.rnn_abstract_eval(*map(xf.typeof, (x, h, c, weights, LENGTHS)), *settings, True)
    assert [t.shape for t in types[:3]] == [np.shape(v) for v in found]


def test_derivatives_match_differences(rng):
    x, h, c, weights = arguments(rng, 1, 1)
    check_derivatives(lambda x, h, c, w: rnn.lstm(x, h, c, w, LENGTHS, 3, 4, 1, 0.0, False), [x, h, c, weights], rng)


def test_weights():
    """The weights are in cuDNN's order, as in JAX."""
    assert rnn.get_num_params_in_lstm(3, 4, 2, True) == 736
    np.testing.assert_allclose(rnn.init_lstm_weight(KEY, 3, 4, 1, False)[:3], [0.447667, 0.4785799, -0.1677085], rtol=1e-5)
    w_ih, w_hh, b_ih, b_hh = rnn.unpack_lstm_weights(xnp.arange(float(rnn.get_num_params_in_lstm(1, 2, 1, True))), 1, 2, 1, True)
    assert [w_ih[1][0, 0], w_hh[0][0, 0], w_hh[1][0, 0], b_ih[0][0], b_hh[0][0], b_ih[1][0]] == [24, 8, 32, 48, 56, 64]
    swapped = rnn.swap_lstm_gates(xnp.arange(40.0), 1, 2, 1, False)
    assert swapped.tolist() == [0, 1, 2, 3, 6, 7, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15, 20, 21, 22, 23, 16, 17, 18, 19, 24, 25, 26, 27,
                                30, 31, 28, 29, 32, 33, 34, 35, 38, 39, 36, 37]


def test_dropout(rng):
    """Dropout applies between layers, so one layer has none; the mean over many units is preserved."""
    x, h, c, weights = arguments(rng, 2, 1)
    full, dropped = (rnn.lstm(x, h, c, weights, LENGTHS, 3, 4, 2, p, False) for p in (0.0, 0.5))
    assert not np.allclose(full[0], dropped[0]) and np.allclose(full[1][0], dropped[1][0])
    with pytest.raises(NotImplementedError, match="dropout"):
        rnn.lstm_ref(x, h, c, *rnn.unpack_lstm_weights(weights, 3, 4, 2, False), LENGTHS, 3, 4, 2, 0.5, False)


def test_bad_input(rng):
    x, h, c, weights = arguments(rng, 1, 1)
    for bad, words in (((x[:, :, :2], h, c, weights), "x of shape"), ((x, h[:, :2], c, weights), "h_0"),
                       ((x, h, c, weights[1:]), "144 weights")):
        with pytest.raises(ValueError, match=words):
            rnn.lstm(*bad, LENGTHS, 3, 4, 1, 0.0, False)
