"""Data-parallel training by pmap over four simulated CPU devices."""

import os

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"

import functools

import jax
import jax.numpy as jnp
from timing import Timer

timer = Timer()
x = jax.random.normal(jax.random.key(1), (4, 64, 16))
y = jnp.sin(x.sum(-1))
params = jax.tree.map(lambda p: jnp.stack([p] * 4), {
    "w": jax.random.normal(jax.random.key(0), (16, 32)) / 4, "b": jnp.zeros(32), "v": jnp.ones(32) / 32})


@functools.partial(jax.pmap, axis_name="devices")
def step(params, x, y):
    def loss(params):
        return jnp.mean((jnp.tanh(x @ params["w"] + params["b"]) @ params["v"] - y) ** 2)

    value, grads = jax.lax.pmean(jax.value_and_grad(loss)(params), "devices")
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value


for _ in range(100):
    params, value = step(params, x, y)
    timer.step(value)
timer.report(value[0])
