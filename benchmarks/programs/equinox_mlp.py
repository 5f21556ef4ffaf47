"""A regression by Equinox's MLP with Optax."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from timing import Timer

timer = Timer()
x = jnp.linspace(-3.0, 3.0, 128)[:, None]
y = jnp.sin(2.0 * x)
model = eqx.nn.MLP(1, 1, 64, 3, key=jax.random.key(0))
optimizer = optax.adam(3e-3)
state = optimizer.init(eqx.filter(model, eqx.is_array))


@eqx.filter_jit
def step(model, state):
    value, grads = eqx.filter_value_and_grad(lambda model: jnp.mean((jax.vmap(model)(x) - y) ** 2))(model)
    updates, state = optimizer.update(grads, state, model)
    return eqx.apply_updates(model, updates), state, value


for _ in range(100):
    model, state, value = step(model, state)
    timer.step(value)
timer.report(value)
