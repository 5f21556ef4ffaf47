"""Flax Linen: a network, a convolutional one with batch norm, a transformer with dropout, a recurrence, lifted transformations."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import serialization
from flax.training import train_state

key = jax.random.key(0)


def train_mlp():
    class MLP(nn.Module):
        @nn.compact
        def __call__(self, x):
            for size in (16, 16):
                x = nn.relu(nn.Dense(size)(x))
            return nn.Dense(1)(x)

    x = jax.random.normal(jax.random.key(1), (64, 3))
    y = jnp.sin(x.sum(-1, keepdims=True))
    model = MLP()
    state = train_state.TrainState.create(apply_fn=model.apply, params=model.init(key, x)["params"], tx=optax.adam(1e-2))

    @jax.jit
    def step(state):
        value, grads = jax.value_and_grad(lambda p: jnp.mean((state.apply_fn({"params": p}, x) - y) ** 2))(state.params)
        return state.apply_gradients(grads=grads), value

    for _ in range(60):
        state, value = step(state)
    again = serialization.from_bytes(state.params, serialization.to_bytes(state.params))
    return jnp.stack([value, jnp.mean((model.apply({"params": again}, x) - y) ** 2)])


def convolutions():
    class CNN(nn.Module):
        @nn.compact
        def __call__(self, x, train: bool):
            x = nn.Conv(8, (3, 3))(x)
            x = nn.BatchNorm(use_running_average=not train, momentum=0.9)(x)
            x = nn.max_pool(nn.relu(x), (2, 2), strides=(2, 2))
            x = nn.Dropout(0.5, deterministic=not train)(x.reshape(x.shape[0], -1))
            return nn.Dense(10)(x)

    x = jax.random.normal(jax.random.key(2), (4, 8, 8, 3))
    labels = jnp.arange(4)
    model = CNN()
    variables = model.init({"params": key, "dropout": key}, x, train=False)
    params, stats = variables["params"], variables["batch_stats"]

    @jax.jit
    def step(params, stats, key):
        def loss(params):
            logits, updated = model.apply({"params": params, "batch_stats": stats}, x, train=True, rngs={"dropout": key},
                                          mutable=["batch_stats"])
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean(), updated["batch_stats"]

        (value, stats_), grads = jax.value_and_grad(loss, has_aux=True)(params)
        return jax.tree.map(lambda p, g: p - 0.05 * g, params, grads), stats_, value

    values = []
    for i in range(5):
        params, stats, value = step(params, stats, jax.random.key(i))
        values.append(value)
    return jnp.stack([*values, model.apply({"params": params, "batch_stats": stats}, x, train=False).sum()])


def transformer():
    class Block(nn.Module):
        @nn.compact
        def __call__(self, x, _):
            h = nn.LayerNorm()(x)
            x = x + nn.MultiHeadDotProductAttention(2, dropout_rate=0.1, deterministic=False)(
                h, mask=nn.make_causal_mask(jnp.ones(x.shape[:2])))
            return x + nn.Dense(x.shape[-1])(nn.gelu(nn.Dense(32)(nn.LayerNorm()(x)))), None

    class Transformer(nn.Module):
        @nn.compact
        def __call__(self, tokens):
            x = nn.Embed(20, 16)(tokens)
            stack = nn.scan(nn.remat(Block), variable_axes={"params": 0}, split_rngs={"params": True, "dropout": True}, length=3)
            x, _ = stack()(x, None)
            return nn.Dense(20)(nn.RMSNorm()(x))

    tokens = jax.random.randint(jax.random.key(3), (2, 7), 0, 20)
    model = Transformer()
    params = jax.jit(model.init)({"params": key, "dropout": key}, tokens)

    @jax.jit
    def loss(params):
        logits = model.apply(params, tokens, rngs={"dropout": jax.random.key(4)})
        return optax.softmax_cross_entropy_with_integer_labels(logits[:, :-1], tokens[:, 1:]).mean()

    value, grads = jax.value_and_grad(loss)(params)
    text = nn.tabulate(model, {"params": key, "dropout": key})(tokens)
    return jnp.stack([value, optax.global_norm(grads), float("Transformer" in text)])


def recurrence():
    x = jax.random.normal(jax.random.key(5), (2, 6, 4))
    rnn = nn.Bidirectional(nn.RNN(nn.LSTMCell(5)), nn.RNN(nn.GRUCell(5)))
    params = rnn.init(key, x)
    batched = nn.vmap(nn.Dense, variable_axes={"params": 0}, split_rngs={"params": True}, in_axes=0, axis_size=2)(3)
    return jnp.stack([rnn.apply(params, x).sum(), batched.init_with_output(key, x)[0].sum(),
                      nn.WeightNorm(nn.Dense(3)).init_with_output(key, x)[0].sum()])


def lifted_branches():
    """Parameters made in branches and loops, whose names and keys depend on the order in which those are traced."""
    class Layer(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.Dense(3)(jnp.tanh(x))

    class Network(nn.Module):
        @nn.compact
        def __call__(self, x):
            first = nn.cond(x.sum() > 0, lambda layer, x: layer(x).sum(), lambda layer, x: layer(x).max(), Layer(), x)
            second = nn.switch(1, [lambda layer, x: layer(x).sum(), lambda layer, x: -layer(x).sum()], Layer(), x)
            return jnp.stack([first, second])

    x = jax.random.normal(jax.random.key(0), (2, 3))
    return Network().init_with_output(jax.random.key(1), x)[0]


PROGRAMS = (train_mlp, convolutions, transformer, recurrence, lifted_branches)
