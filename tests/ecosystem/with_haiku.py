"""Haiku and jmp: transformed functions with and without state, recurrences, lifted transformations, mixed precision."""

import haiku as hk
import jax
import jax.numpy as jnp
import jmp
import optax

key = jax.random.PRNGKey(0)


def train_mlp():
    def forward(x):
        return hk.nets.MLP([16, 16, 1], activation=jnp.tanh)(hk.Flatten()(x))

    model = hk.without_apply_rng(hk.transform(forward))
    x = jax.random.normal(jax.random.PRNGKey(1), (64, 3))
    y = jnp.sin(x.sum(-1, keepdims=True))
    params = model.init(key, x)
    optimizer = optax.adam(1e-2)
    state = optimizer.init(params)

    @jax.jit
    def step(params, state):
        value, grads = jax.value_and_grad(lambda p: jnp.mean((model.apply(p, x) - y) ** 2))(params)
        updates, state = optimizer.update(grads, state)
        return optax.apply_updates(params, updates), state, value

    for _ in range(60):
        params, state, value = step(params, state)
    return jnp.stack([value, hk.data_structures.tree_size(params) + 0.0])


def batch_norm():
    def forward(x, is_training):
        x = hk.Conv2D(4, 3)(x)
        x = hk.BatchNorm(True, True, 0.9)(x, is_training)
        x = hk.dropout(hk.next_rng_key(), 0.2, jax.nn.relu(x)) if is_training else jax.nn.relu(x)
        calls = hk.get_state("calls", (), jnp.float32, init=jnp.zeros)
        hk.set_state("calls", calls + 1)
        return hk.Linear(2)(hk.avg_pool(x, 2, 2, "VALID").reshape(x.shape[0], -1))

    model = hk.transform_with_state(forward)
    x = jax.random.normal(jax.random.PRNGKey(2), (4, 6, 6, 3))
    params, state = model.init(key, x, True)
    apply = jax.jit(model.apply, static_argnums=4)
    for i in range(3):
        out, state = apply(params, state, jax.random.PRNGKey(i), x, True)
    quiet, state = apply(params, state, None, x, False)
    return jnp.stack([out.sum(), quiet.sum(), state["~"]["calls"]])


def recurrence():
    def forward(x):
        core = hk.DeepRNN([hk.LSTM(5), jax.nn.relu, hk.GRU(4)])
        out, _ = hk.dynamic_unroll(core, x, core.initial_state(x.shape[1]))
        attention = hk.MultiHeadAttention(2, 4, w_init=hk.initializers.VarianceScaling(1.0))
        return attention(out, out, out)

    model = hk.transform(forward)
    x = jax.random.normal(jax.random.PRNGKey(3), (6, 2, 3))
    params = model.init(key, x)
    grads = jax.jit(jax.grad(lambda p: jnp.mean(model.apply(p, None, x) ** 2)))(params)
    layered = hk.transform(lambda x: hk.experimental.layer_stack(3)(lambda x: jnp.tanh(hk.Linear(3)(x)))(x))
    return jnp.stack([model.apply(params, None, x).sum(), optax.global_norm(grads), layered.apply(layered.init(key, x), None, x).sum()])


def mixed_precision():
    policy = jmp.get_policy("params=float32,compute=float16,output=float32")
    hk.mixed_precision.set_policy(hk.nets.MLP, policy)
    model = hk.without_apply_rng(hk.transform(lambda x: hk.nets.MLP([8, 1])(x)))
    x = jax.random.normal(jax.random.PRNGKey(1), (16, 3))
    params = model.init(key, x)
    scale = jmp.DynamicLossScale(jnp.asarray(2.0 ** 10))
    grads = jax.grad(lambda p: scale.scale(jnp.mean(model.apply(p, x) ** 2)))(params)
    grads = scale.unscale(grads)
    scale = scale.adjust(jmp.all_finite(grads))
    hk.mixed_precision.clear_policy(hk.nets.MLP)
    return jnp.stack([optax.global_norm(grads), scale.loss_scale, (model.apply(params, x).dtype == jnp.float32) + 0.0])


PROGRAMS = (train_mlp, batch_norm, recurrence, mixed_precision)
