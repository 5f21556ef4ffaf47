"""Equinox: filtered transformations, a stateful layer, attention, serialisation, checks inside of compiled code."""

import io

import equinox as eqx
import jax
import jax.numpy as jnp

key = jax.random.key(0)


def train_mlp():
    model = eqx.nn.MLP(3, 2, 16, 2, key=key)
    x = jax.random.normal(jax.random.key(1), (32, 3))
    y = jnp.stack([jnp.sin(x[:, 0]), x[:, 1] * x[:, 2]], axis=-1)

    @eqx.filter_value_and_grad
    def loss(model):
        return jnp.mean((jax.vmap(model)(x) - y) ** 2)

    @eqx.filter_jit
    def step(model):
        value, grads = loss(model)
        return eqx.apply_updates(model, jax.tree.map(lambda g: -0.1 * g, grads)), value

    for _ in range(50):
        model, value = step(model)
    file = io.BytesIO()
    eqx.tree_serialise_leaves(file, model)
    file.seek(0)
    again = eqx.tree_deserialise_leaves(file, eqx.filter_eval_shape(lambda: eqx.nn.MLP(3, 2, 16, 2, key=key)))
    return jnp.stack([value, loss(again)[0]])


def batch_norm():
    class Network(eqx.Module):
        linear: eqx.nn.Linear
        norm: eqx.nn.BatchNorm
        dropout: eqx.nn.Dropout
        conv: eqx.nn.Conv1d

        def __init__(self, key):
            first, second = jax.random.split(key)
            self.linear = eqx.nn.Linear(4, 8, key=first)
            self.norm = eqx.nn.BatchNorm(8, axis_name="batch", mode="batch")
            self.dropout = eqx.nn.Dropout(0.3)
            self.conv = eqx.nn.Conv1d(1, 2, 3, key=second)

        def __call__(self, x, state, key):
            h, state = self.norm(self.linear(x), state)
            return self.conv(self.dropout(jax.nn.relu(h), key=key)[None]).sum(), state

    model, state = eqx.nn.make_with_state(Network)(key)
    x = jax.random.normal(jax.random.key(2), (16, 4))

    @eqx.filter_jit
    @eqx.filter_value_and_grad(has_aux=True)
    def loss(model, state, keys):
        out, state = jax.vmap(model, axis_name="batch", in_axes=(0, None, 0), out_axes=(0, None))(x, state, keys)
        return jnp.mean(out ** 2), state

    values = []
    for i in range(3):
        (value, state), grads = loss(model, state, jax.random.split(jax.random.key(i), 16))
        model = eqx.apply_updates(model, jax.tree.map(lambda g: -0.01 * g, grads))
        values.append(value)
    frozen = eqx.nn.inference_mode(model)
    out, _ = jax.vmap(frozen, axis_name="batch", in_axes=(0, None, None), out_axes=(0, None))(x, state, None)
    return jnp.stack([*values, out.sum()])


def attention_and_recurrence():
    attention = eqx.nn.MultiheadAttention(2, 8, key=key)
    cell = eqx.nn.GRUCell(8, 5, key=key)
    x = jax.random.normal(jax.random.key(3), (6, 8))

    @eqx.filter_jit
    def run(attention, cell, x):
        h = attention(x, x, x, mask=jnp.tril(jnp.ones((6, 6), bool)))
        final, _ = jax.lax.scan(lambda h, v: (cell(v, h), None), jnp.zeros(5), h)
        return final

    jacobian = eqx.filter_jacrev(lambda x: run(attention, cell, x).sum())(x)
    return jnp.concatenate([run(attention, cell, x), jacobian.sum()[None], eqx.nn.LayerNorm(8)(x[0])[:2]])


def inside_of_compiled_code():
    @eqx.filter_jit
    def f(x):
        x = eqx.error_if(x, x < 0, "x must be positive")
        return eqx.internal.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * x), (0, 1.0), kind="checkpointed",
                                       max_steps=16, checkpoints=4)[1]

    failed = 0.0
    try:
        f(jnp.array(-1.0))
    except Exception as error:
        failed = float("x must be positive" in str(error))
    grad = jax.grad(f)(jnp.array(1.5))

    @eqx.filter_custom_vjp
    def clip(x):
        return jnp.clip(x, -1, 1)

    @clip.def_fwd
    def clip_fwd(perturbed, x):
        return clip(x), None

    @clip.def_bwd
    def clip_bwd(residuals, g, perturbed, x):
        return 2 * g

    hessian = eqx.filter_hessian(lambda x: (x["a"] ** 3).sum())({"a": jnp.array([1.0, 2.0])})
    return jnp.stack([jnp.array(failed), grad, jax.grad(clip)(3.0), hessian["a"]["a"].sum(),
                      *eqx.filter_vmap(lambda a, b: a * b, in_axes=(0, None))(jnp.arange(3.0), 2.0)])


PROGRAMS = (train_mlp, batch_norm, attention_and_recurrence, inside_of_compiled_code)
