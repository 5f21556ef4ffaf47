"""A multilayer perceptron on a spiral, trained with Optax."""

import jax
import jax.numpy as jnp
import optax
from timing import Timer

timer = Timer()
angle = jnp.linspace(0.0, 6.0, 256)
x = jnp.stack([angle * jnp.cos(angle), angle * jnp.sin(angle)], axis=1) / 6.0
y = (jnp.arange(256) % 2).astype(jnp.float32)
x = jnp.where(y[:, None] == 1, x, -x)


def init(key, sizes):
    keys = jax.random.split(key, len(sizes) - 1)
    return [(jax.random.normal(k, (n, m)) / jnp.sqrt(n), jnp.zeros(m)) for k, n, m in zip(keys, sizes, sizes[1:])]


def loss(params, x, y):
    for w, b in params[:-1]:
        x = jax.nn.relu(x @ w + b)
    w, b = params[-1]
    return optax.sigmoid_binary_cross_entropy((x @ w + b)[:, 0], y).mean()


params = init(jax.random.key(0), [2, 64, 64, 1])
optimizer = optax.adamw(optax.cosine_decay_schedule(1e-2, 200))
state = optimizer.init(params)


@jax.jit
def step(params, state):
    value, grads = jax.value_and_grad(loss)(params, x, y)
    updates, state = optimizer.update(grads, state, params)
    return optax.apply_updates(params, updates), state, value


for _ in range(100):
    params, state, value = step(params, state)
    timer.step(value)
timer.report(value)
