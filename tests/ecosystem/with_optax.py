"""Optax: ten optimisers on one regression, a schedule, gradients clipped, masked and gathered over steps."""

import jax
import jax.numpy as jnp
import optax

key = jax.random.key(0)
x = jax.random.normal(key, (64, 5))
weights = jnp.array([1.0, -2.0, 0.5, 0.0, 3.0])
y = x @ weights + 0.25


def loss(params):
    return jnp.mean((x @ params["w"] + params["b"] - y) ** 2)


def train(optimizer, steps=40):
    params = {"w": jnp.zeros(5), "b": jnp.zeros(())}
    state = optimizer.init(params)

    @jax.jit
    def step(params, state):
        value, grads = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value

    for _ in range(steps):
        params, state, value = step(params, state)
    return value


def optimisers():
    made = [optax.sgd(0.05, momentum=0.9, nesterov=True), optax.adam(0.1), optax.adamw(0.1), optax.rmsprop(0.05), optax.adagrad(0.5),
            optax.lamb(0.1), optax.lion(0.05), optax.adafactor(0.1), optax.yogi(0.1), optax.radam(0.1)]
    return jnp.stack([train(optimizer) for optimizer in made])


def schedules():
    schedule = optax.warmup_cosine_decay_schedule(0.0, 0.2, 10, 40, 0.01)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.scale_by_adam(), optax.scale_by_learning_rate(schedule))
    return jnp.stack([train(optimizer), schedule(5), schedule(25)])


def masked_steps():
    optimizer = optax.MultiSteps(optax.chain(
        optax.masked(optax.add_decayed_weights(0.1), {"w": True, "b": False}), optax.sgd(0.1)), every_k_schedule=2)
    labels = optax.multi_transform({"slow": optax.sgd(0.01), "fast": optax.adam(0.1)}, {"w": "fast", "b": "slow"})
    return jnp.stack([train(optimizer), train(labels)])


def losses():
    logits = jax.random.normal(jax.random.key(1), (6, 4))
    labels = jnp.array([0, 1, 2, 3, 0, 1])
    return jnp.stack([
        optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean(),
        optax.sigmoid_binary_cross_entropy(logits, jax.nn.one_hot(labels, 4)).mean(),
        optax.huber_loss(logits[:, 0], jnp.zeros(6)).mean(), optax.cosine_distance(logits, logits[::-1]).mean(),
        optax.ctc_loss(logits[None], jnp.zeros((1, 6)), labels[None, :3] + 0, jnp.zeros((1, 3)))[0], optax.global_norm(logits)])


def line_search():
    solver = optax.lbfgs()
    params = jnp.array([-1.0, 1.5])

    def rosenbrock(p):
        return (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2

    state = solver.init(params)
    value_and_grad = optax.value_and_grad_from_state(rosenbrock)

    @jax.jit
    def step(params, state):
        value, grad = value_and_grad(params, state=state)
        updates, state = solver.update(grad, state, params, value=value, grad=grad, value_fn=rosenbrock)
        return optax.apply_updates(params, updates), state

    for _ in range(40):
        params, state = step(params, state)
    return params


PROGRAMS = (optimisers, schedules, masked_steps, losses, line_search)
