"""Layers and optimizers: shapes, formulas, JAX's numbers, and a network that learns."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.example_libraries import optimizers, stax

KEY = xf.random.key(0)


def shapes(params):
    return xf.tree.map(np.shape, params)


@pytest.mark.parametrize("layer, given, expected, params", [
    (stax.Dense(5), (7, 3), (7, 5), ((3, 5), (5,))),
    (stax.Conv(4, (3, 3), (2, 2), "SAME"), (2, 8, 8, 3), (2, 4, 4, 4), ((3, 3, 3, 4), (1, 1, 1, 4))),
    (stax.ConvTranspose(4, (3, 3), (2, 2)), (2, 8, 8, 3), (2, 17, 17, 4), ((3, 3, 3, 4), (1, 1, 1, 4))),
    (stax.Conv1DTranspose(4, (3,)), (2, 8, 3), (2, 10, 4), ((3, 3, 4), (1, 1, 4))),
    (stax.GeneralConv(("NCHW", "OIHW", "NHWC"), 4, (3, 3)), (2, 3, 8, 8), (2, 6, 6, 4), ((4, 3, 3, 3), (1, 1, 1, 4))),
    (stax.BatchNorm(center=False), (2, 8, 8, 3), (2, 8, 8, 3), ((), (3,))),
    (stax.MaxPool((2, 2)), (2, 8, 8, 3), (2, 7, 7, 3), ()),
    (stax.SumPool((2, 2), spec="NCHW"), (2, 3, 8, 8), (2, 3, 7, 7), ()),
    (stax.AvgPool((2, 2), (2, 2), "SAME"), (2, 7, 7, 3), (2, 4, 4, 3), ()),
    (stax.Flatten, (2, 4, 3), (2, 12), ()),
    (stax.shape_dependent(lambda shape: stax.Dense(2 * shape[-1])), (2, 3), (2, 6), ((3, 6), (6,))),
    (stax.serial(stax.FanOut(2), stax.parallel(stax.Dense(2), stax.Identity), stax.FanInConcat(), stax.Elu), (4, 3), (4, 5),
     [(), (((3, 2), (2,)), ()), (), ()]),
])
def test_layer_shapes(layer, given, expected, params):
    init, apply = layer
    shape, found = init(KEY, given)
    assert shape == expected and shapes(found) == params
    assert apply(found, xnp.ones(given), rng=KEY).shape == expected


def test_layer_values(rng):
    x = rng.normal(size=(4, 6)).astype("float32")
    (_, (w, b)), apply = stax.Dense(3)[0](KEY, x.shape), stax.Dense(3)[1]
    np.testing.assert_allclose(np.asarray(apply((w, b), x)), x @ np.asarray(w) + np.asarray(b), rtol=1e-4, atol=1e-5)
    layer = stax.BatchNorm(axis=0)
    beta, gamma = np.full(6, 2, "float32"), np.full(6, 3, "float32")
    np.testing.assert_allclose(np.asarray(layer[1]((beta, gamma), x)), 3 * (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5) + 2, rtol=1e-4, atol=1e-4)
    ones = np.ones((1, 3, 3, 1), "float32")
    assert np.ravel(stax.SumPool((2, 2), padding="SAME")[1]((), ones)).tolist() == [4, 4, 2, 4, 4, 2, 2, 2, 1]
    assert np.all(stax.AvgPool((2, 2), padding="SAME")[1]((), ones) == 1)
    dropped = np.asarray(stax.Dropout(0.25)[1]((), np.ones(1000, "float32"), rng=KEY))
    assert set(dropped) == {0, 4} and 150 < np.sum(dropped > 0) < 350
    assert np.all(stax.Dropout(0.25, mode="test")[1]((), np.ones(5), rng=KEY) == 1)
    with pytest.raises(ValueError, match="key"):
        stax.Dropout(0.5)[1]((), np.ones(5))
    assert stax.FanInSum[1]((), [1.0, 2.0, 3.0]) == 6


OPTIMIZERS = {  # JAX's parameters after three steps, from [[1, 2], [3, 4]] and 1
    "sgd": ((), [[0.4, 3.2], [2.7, 4]], 0.91), "momentum": ((0.9,), [[0.049, 3.902], [2.5245, 4]], 0.8317),
    "nesterov": ((0.9,), [[-0.4559, 4.9118], [2.27205, 4]], 0.75853),
    "adagrad": ((), [[0.947888, 2.052112], [2.947888, 4]], 0.953691),
    "rmsprop": ((), [[0.138994, 2.861006], [2.138994, 4]], 0.262262),
    "rmsprop_momentum": ((), [[-0.658898, 3.658898], [1.341102, 4]], -0.484961),
    "adam": ((), [[0.707685, 2.292315], [2.707685, 4]], 0.7), "adamax": ((), [[0.754681, 2.245319], [2.754681, 4]], 0.7),
    "sm3": ((), [[0.947888, 2.052112], [2.947888, 4]], 0.953691),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer_steps_match_jax(name):
    settings, first, second = OPTIMIZERS[name]
    init, update, params = getattr(optimizers, name)(0.1, *settings)
    state = init({"a": xnp.array([[1.0, 2.0], [3.0, 4.0]]), "b": xnp.array(1.0)})
    step = xf.jit(update)
    for i in range(3):
        state = step(i, {"a": xnp.array([[1.0, -2.0], [0.5, 0.0]]) * (i + 1), "b": xnp.array(0.3)}, state)
    found = params(optimizers.pack_optimizer_state(optimizers.unpack_optimizer_state(state)))
    np.testing.assert_allclose(np.asarray(found["a"]), first, rtol=1e-5)
    np.testing.assert_allclose(float(found["b"]), second, rtol=1e-5)
    complex_state = init(xnp.array(1 + 1j))
    assert np.isfinite(params(update(0, xnp.array(0.1 - 1j), complex_state)))


def test_schedules():
    for schedule, i, value in [
            (optimizers.constant(0.1), 3, 0.1), (optimizers.exponential_decay(0.1, 10, 0.5), 5, 0.1 * 0.5 ** 0.5),
            (optimizers.inverse_time_decay(0.1, 10, 0.5), 5, 0.08), (optimizers.inverse_time_decay(0.1, 10, 0.5, True), 15, 0.1 / 1.5),
            (optimizers.polynomial_decay(0.1, 10, 0.01), 5, 0.055), (optimizers.polynomial_decay(0.1, 10, 0.01, 2.0), 15, 0.01),
            (optimizers.piecewise_constant([2, 4], [1.0, 0.5, 0.1]), 2, 1.0),
            (optimizers.piecewise_constant([2, 4], [1.0, 0.5, 0.1]), 5, 0.1), (optimizers.make_schedule(lambda i: i), 3, 3)]:
        np.testing.assert_allclose(float(schedule(i)), value, rtol=1e-6)
        np.testing.assert_allclose(float(xf.jit(schedule)(i)), value, rtol=1e-6)
    decaying = optimizers.sgd(optimizers.piecewise_constant([0], [1.0, 0.5]))
    assert float(decaying.params_fn(decaying.update_fn(1, 1.0, decaying.init_fn(3.0)))) == 2.5
    assert float(optimizers.l2_norm({"a": np.ones(4), "b": 2j})) == pytest.approx(8 ** 0.5)
    np.testing.assert_allclose(optimizers.clip_grads([np.ones(4)], 1.0)[0], 0.5)
    np.testing.assert_allclose(optimizers.clip_grads([np.ones(4)], 5.0)[0], 1)


def test_optimizers_raise_for_bad_input():
    for boundaries, values in (([2, 4], [1.0, 0.5]), ([[2, 4]], [1.0, 0.5, 0.1])):
        with pytest.raises(ValueError, match="piecewise_constant"):
            optimizers.piecewise_constant(boundaries, values)
    for step_size in (np.ones(2), "a"):
        with pytest.raises(TypeError, match="step size"):
            optimizers.make_schedule(step_size)
    state = optimizers.adam(0.1).init_fn({"a": 1.0})
    with pytest.raises(TypeError, match="structure"):
        optimizers.adam(0.1).update_fn(0, {"b": 1.0}, state)
    with pytest.raises(TypeError, match="JoinPoint"):
        optimizers.pack_optimizer_state({"a": 1.0})


@pytest.mark.cpu_only
@pytest.mark.parametrize("devices", [1, 2])
def test_a_network_learns_the_spectral_radius(devices):
    """Learn the spectral radius of random complex 2x2 matrices: the mean error falls below that of the constant 0 in a
    thousand steps."""
    init, apply = stax.serial(stax.Dense(64), stax.Relu, stax.Dense(64), stax.Relu, stax.Dense(1))
    begin, update, params_of = optimizers.adam(optimizers.exponential_decay(1e-2, 300, 0.5))

    def error(params, key):
        components = xf.random.normal(key, (128 // devices, 2, 2, 2))
        m = components[..., 0] + 1j * components[..., 1]
        half, determinant = (m[:, 0, 0] + m[:, 1, 1]) / 2, m[:, 0, 0] * m[:, 1, 1] - m[:, 0, 1] * m[:, 1, 0]
        root = xnp.sqrt(half ** 2 - determinant)
        radius = xnp.maximum(xnp.abs(half + root), xnp.abs(half - root))
        return xnp.mean(xnp.abs(apply(params, components.reshape(-1, 8))[:, 0] - radius))

    def train(state, key):
        def step(i, state):
            gradients = xf.grad(error)(params_of(state), xf.random.fold_in(key, i))
            return update(i, gradients if devices == 1 else lax.pmean(gradients, "devices"), state)

        state = lax.fori_loop(0, 1000, step, state)
        return error(params_of(state), xf.random.fold_in(key, 1000))

    params = init(KEY, (-1, 8))[1]
    state = begin(params)
    assert 1.2 < error(xf.tree.map(xnp.zeros_like, params), KEY) < 3
    if devices == 1:
        assert xf.jit(train)(state, KEY) < 0.45
    else:
        found = xf.pmap(train, axis_name="devices", in_axes=(None, 0), devices=xf.devices()[:2])(state, xf.random.split(KEY, 2))
        assert found.shape == (2,) and np.all(np.asarray(found) < 0.45)


@pytest.mark.parametrize("name, arguments", [("momentum", (0.9,)), ("rmsprop_momentum", ()), ("adam", ()), ("adamax", ())])
def test_states_can_be_donated(name, arguments):
    begin, update, params_of = getattr(optimizers, name)(0.1, *arguments)
    state = begin({"a": xnp.arange(3.0)})
    step = xf.jit(update, donate_argnums=2)
    for i in range(2):
        state = step(i, {"a": xnp.ones(3)}, state)
    assert np.all(np.asarray(params_of(state)["a"]) < np.arange(3.0))
