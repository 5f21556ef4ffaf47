"""A convolutional network on images of 14x14 with Flax Linen, batch normalization and dropout."""

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from timing import Timer

timer = Timer()


class CNN(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        for features in (16, 32):
            x = nn.Conv(features, (3, 3))(x)
            x = nn.relu(nn.BatchNorm(use_running_average=not train)(x))
            x = nn.avg_pool(x, (2, 2), strides=(2, 2))
        x = nn.Dropout(0.2, deterministic=not train)(nn.relu(nn.Dense(64)(x.reshape(x.shape[0], -1))))
        return nn.Dense(10)(x)


images = jax.random.normal(jax.random.key(1), (64, 14, 14, 1))
labels = jnp.arange(64) % 10
model, optimizer = CNN(), optax.adam(1e-3)
variables = model.init(jax.random.key(0), images, train=False)
params, statistics = variables["params"], variables["batch_stats"]
state = optimizer.init(params)


@jax.jit
def step(params, statistics, state, key):
    def loss(params):
        logits, changed = model.apply({"params": params, "batch_stats": statistics}, images, train=True,
                                      rngs={"dropout": key}, mutable=["batch_stats"])
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean(), changed["batch_stats"]

    (value, changed), grads = jax.value_and_grad(loss, has_aux=True)(params)
    updates, new_state = optimizer.update(grads, state, params)
    return optax.apply_updates(params, updates), changed, new_state, value


for i in range(20):
    params, statistics, state, value = step(params, statistics, state, jax.random.key(i))
    timer.step(value)
timer.report(value)
