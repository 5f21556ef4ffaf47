"""Flax NNX: a train step on objects, a convolutional network with batch norm and dropout, state split and merged, lifted loops."""

import flax
import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.experimental import checkify


def train_mlp():
    class MLP(nnx.Module):
        def __init__(self, rngs):
            self.first = nnx.Linear(3, 16, use_bias=False, rngs=rngs)  # before a norm its gradient is rounding alone
            self.norm = nnx.BatchNorm(16, rngs=rngs)
            self.dropout = nnx.Dropout(0.1, rngs=rngs)
            self.last = nnx.Linear(16, 1, rngs=rngs)

        def __call__(self, x):
            return self.last(self.dropout(nnx.relu(self.norm(self.first(x)))))

    x = jax.random.normal(jax.random.key(1), (64, 3))
    y = jnp.sin(x.sum(-1, keepdims=True))
    model = MLP(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)

    @nnx.jit
    def step(model, optimizer):
        value, grads = nnx.value_and_grad(lambda model: jnp.mean((model(x) - y) ** 2))(model)
        optimizer.update(model, grads)
        return value

    for _ in range(40):
        value = step(model, optimizer)
    model.eval()
    return jnp.stack([value, model(x).sum(), model.norm.mean[...].sum()])


def convolutions():
    class CNN(nnx.Module):
        def __init__(self, rngs):
            self.conv = nnx.Conv(3, 8, kernel_size=(3, 3), rngs=rngs)
            self.linear = nnx.Linear(8 * 16, 10, rngs=rngs)

        def __call__(self, x):
            x = nnx.max_pool(nnx.gelu(self.conv(x)), (2, 2), strides=(2, 2))
            return self.linear(x.reshape(x.shape[0], -1))

    model = CNN(nnx.Rngs(params=3))
    x = jax.random.normal(jax.random.key(2), (4, 8, 8, 3))
    graph, params, rest = nnx.split(model, nnx.Param, ...)

    @jax.jit
    def loss(params):
        logits = nnx.merge(graph, params, rest)(x)
        return optax.softmax_cross_entropy_with_integer_labels(logits, jnp.arange(4)).mean()

    values = []
    for _ in range(4):
        value, grads = jax.value_and_grad(loss)(params)
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
        values.append(value)
    nnx.update(model, params)
    return jnp.stack([*values, model(x).sum()])


def transformer():
    class Block(nnx.Module):
        def __init__(self, rngs):
            self.attention = nnx.MultiHeadAttention(2, 8, decode=False, rngs=rngs)
            self.norm = nnx.LayerNorm(8, rngs=rngs)
            self.linear = nnx.Linear(8, 8, rngs=rngs)

        def __call__(self, x):
            x = x + self.attention(self.norm(x), mask=nnx.make_causal_mask(jnp.ones(x.shape[:2])))
            return x + nnx.gelu(self.linear(x))

    @nnx.split_rngs(splits=3)
    @nnx.vmap(in_axes=(0,), out_axes=0)
    def make(rngs):
        return Block(rngs)

    @nnx.scan(in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
    def run(x, block):
        return nnx.remat(lambda block, x: block(x))(block, x)

    blocks = make(nnx.Rngs(0))
    embed = nnx.Embed(20, 8, rngs=nnx.Rngs(1))
    tokens = jax.random.randint(jax.random.key(3), (2, 7), 0, 20)

    @nnx.jit
    def loss(embed, blocks):
        logits = embed.attend(run(embed(tokens), blocks))
        return optax.softmax_cross_entropy_with_integer_labels(logits[:, :-1], tokens[:, 1:]).mean()

    value, grads = nnx.value_and_grad(loss, argnums=(0, 1))(embed, blocks)
    return jnp.stack([value, optax.global_norm(grads)])


def state():
    class Counter(nnx.Module):
        def __init__(self):
            self.count = nnx.Variable(jnp.array(0))
            self.noise = nnx.Rngs(7)

        def __call__(self):
            self.count[...] += 1
            return jax.random.uniform(self.noise())

    counter = Counter()
    run = nnx.jit(lambda counter: counter())
    values = [run(counter) for _ in range(3)]
    rnn = nnx.RNN(nnx.LSTMCell(3, 4, rngs=nnx.Rngs(0)))
    out = nnx.cond(counter.count[...] > 2, lambda c: c() * 0 + 1.0, lambda c: c() * 0, counter)
    return jnp.stack([*values, counter.count[...], out, rnn(jnp.ones((2, 5, 3))).sum()])


def checked():
    layer = nnx.Linear(2, 3, rngs=nnx.Rngs(0))

    def f(layer, x):
        checkify.check(jnp.all(x > 0), "{} is not positive", x)
        layer.bias[...] += 1
        return jnp.log(layer(x)).sum()

    run = nnx.jit(nnx.checkify(f, errors=checkify.all_checks))
    found = []
    for x in (jnp.ones(2), -jnp.ones(2), 10 * jnp.ones(2)):
        error, _ = run(layer, x)
        found += [layer.bias[...].sum(), 0.0 if error.get() is None else 1.0 if "not positive" in error.get() else 2.0]
    return jnp.stack(found)


def variables():
    """Parameters as operands, in rules that the program defines, and as values of their own type."""
    kind = "hijax" if flax.__version__ == "0.12.8" else "ref"  # later releases update only references in compiled functions
    w, v = nnx.Param(jnp.array([0.5, 2.0])), nnx.Variable(jnp.array(1.0), **{kind: True})
    f = jax.custom_vjp(lambda w: jnp.sum(jnp.sin(w) * w))
    f.defvjp(lambda w: (f(w), w), lambda w, g: (jax.tree.map(lambda x: g * jnp.cos(x), w),))

    @jax.jit
    def add(v, x):
        v[...] += x
        return v[...] * 2

    read = jax.jit(lambda v: v[...] * 2 + v.get_value())(nnx.Variable(jnp.array(4.0), hijax=True))
    return jnp.stack([jnp.max(w), jnp.linalg.norm(w), f(w), jax.grad(f)(w)[...].sum(), add(v, 2.0), v[...], jnp.exp(w).sum(), read])


PROGRAMS = (train_mlp, convolutions, transformer, state, checked, variables)
