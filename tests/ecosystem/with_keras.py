"""Keras: a convolutional classifier with dropout trained by `fit`, a recurrent one, a transformer block, a step without `fit`."""

import os

os.environ["KERAS_BACKEND"] = "jax"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import keras  # noqa: E402
import numpy as np  # noqa: E402
from keras import layers, ops  # noqa: E402

noise = np.random.default_rng(0)
images = noise.normal(size=(64, 8, 8, 1)).astype(np.float32)
classes = (images.mean((1, 2, 3)) > 0).astype(np.int32)
series = noise.normal(size=(32, 6, 3)).astype(np.float32)


def train_classifier():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([
        layers.Conv2D(8, 3, activation="relu"), layers.BatchNormalization(), layers.MaxPooling2D(), layers.Flatten(),
        layers.Dropout(0.2), layers.Dense(2)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    history = model.fit(images, classes, batch_size=16, epochs=2, shuffle=False, verbose=0)
    loss, accuracy = model.evaluate(images, classes, verbose=0)
    return [*history.history["loss"], loss, accuracy, model.predict(images[:2], verbose=0).sum(), model.count_params()]


def train_recurrent():
    keras.utils.set_random_seed(1)
    model = keras.Sequential([layers.Bidirectional(layers.LSTM(5, return_sequences=True)), layers.GRU(4), layers.Dense(1)])
    model.compile(keras.optimizers.SGD(keras.optimizers.schedules.CosineDecay(0.1, 20), momentum=0.9), "mse")
    history = model.fit(series, series[:, -1, :1], batch_size=8, epochs=2, shuffle=False, verbose=0)
    return history.history["loss"]


def transformer_block():
    keras.utils.set_random_seed(2)
    inputs = keras.Input((6, 8))
    attended = layers.MultiHeadAttention(2, 4)(inputs, inputs, use_causal_mask=True)
    hidden = layers.LayerNormalization()(inputs + attended)
    model = keras.Model(inputs, layers.EinsumDense("abc,cd->abd", output_shape=(None, 3))(ops.gelu(hidden)))
    out = model(jnp.asarray(noise_of(3, (2, 6, 8))))
    return [out.sum(), out[0, 0, 0], len(model.trainable_variables)]


def noise_of(seed, shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def step_without_fit():
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((3,)), layers.Dense(4, activation="tanh"), layers.Dense(1)])
    optimizer = keras.optimizers.AdamW(0.01)
    optimizer.build(model.trainable_variables)
    x = noise_of(4, (16, 3))

    def loss(trainable, fixed):
        out, fixed = model.stateless_call(trainable, fixed, x)
        return jnp.mean((out - x[:, :1]) ** 2), fixed

    @jax.jit
    def step(state):
        trainable, fixed, optimizer_state = state
        (value, fixed), grads = jax.value_and_grad(loss, has_aux=True)(trainable, fixed)
        trainable, optimizer_state = optimizer.stateless_apply(optimizer_state, grads, trainable)
        return value, (trainable, fixed, optimizer_state)

    state = ([v.value for v in model.trainable_variables], [v.value for v in model.non_trainable_variables],
             [v.value for v in optimizer.variables])
    values = []
    for _ in range(5):
        value, state = step(state)
        values.append(value)
    return values


def operations():
    x = ops.convert_to_tensor(noise_of(5, (4, 6)))
    return [ops.sum(ops.top_k(x, 2)[0]), ops.max(ops.segment_sum(x, np.array([0, 0, 1, 1]), 2)), ops.logsumexp(x),
            ops.sum(ops.image.resize(x[None, :, :, None], (8, 3), interpolation="bilinear")), ops.norm(ops.qr(x)[1]),
            ops.sum(ops.vectorized_map(lambda row: ops.cumsum(row)[-1], x)), ops.scan(lambda c, r: (c + r[0], c), 0.0, x)[0],
            ops.cond(ops.sum(x) > 0, lambda: 1.0, lambda: 2.0)]


PROGRAMS = (train_classifier, train_recurrent, transformer_block, step_without_fit, operations)
