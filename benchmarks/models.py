"""The programs that are measured: written once, for every library that compiles."""

from __future__ import annotations

import numpy as np

from benchmarks.libraries import Library


def chain(n, count: int):
    """A function of `count` operations: sin, multiply, add, and so on."""

    def f(x):
        for _ in range(count // 3):
            x = n.sin(x) * x + 1.0
        return x

    return f


def mlp(lib: Library, sizes=(64, 128, 128, 10), batch: int = 32):
    """The loss of a classifier with three layers, its parameters, inputs and labels (one-hot)."""
    n, rng = lib.np, np.random.default_rng(0)
    parameters = [
        {"w": n.asarray(rng.normal(0, inner**-0.5, (inner, outer)).astype(np.float32)), "b": n.zeros(outer)}
        for inner, outer in zip(sizes, sizes[1:])
    ]

    def loss(parameters, x, y):
        for layer in parameters[:-1]:
            x = n.tanh(x @ layer["w"] + layer["b"])
        logits = x @ parameters[-1]["w"] + parameters[-1]["b"]
        return -n.mean(n.sum(lib.xf.nn.log_softmax(logits) * y, axis=-1))

    x = rng.normal(size=(batch, sizes[0])).astype(np.float32)
    y = np.eye(sizes[-1], dtype=np.float32)[rng.integers(0, sizes[-1], batch)]
    return loss, parameters, n.asarray(x), n.asarray(y)


def rnn(lib: Library, steps: int, batch: int = 16, width: int = 64):
    """The loss of a recurrent network over `steps` inputs, its parameters and inputs."""
    n, rng = lib.np, np.random.default_rng(0)
    parameters = {
        name: n.asarray(rng.normal(0, width**-0.5, (width, width)).astype(np.float32)) for name in ("inner", "inputs", "out")
    }

    def loss(parameters, xs):
        def step(h, x):
            h = n.tanh(h @ parameters["inner"] + x @ parameters["inputs"])
            return h, n.mean((h @ parameters["out"]) ** 2)

        _, losses = lib.lax.scan(step, n.zeros((batch, width)), xs)
        return n.sum(losses)

    return loss, parameters, n.asarray(rng.normal(size=(steps, batch, width)).astype(np.float32))


def transformer(lib: Library, layers: int = 12, width: int = 128, heads: int = 4, length: int = 64, jitted: bool = False):
    """The forward pass of a small transformer, its parameters and its input; `jitted`: each layer calls one jitted block."""
    n, nn = lib.np, lib.xf.nn
    rng = np.random.default_rng(0)

    def weights(*shape):
        return n.asarray(rng.normal(0, 0.02, shape).astype(np.float32))

    parameters = [
        {
            "qkv": weights(width, 3 * width),
            "out": weights(width, width),
            "up": weights(width, 4 * width),
            "down": weights(4 * width, width),
            "scale": n.ones(width),
        }
        for _ in range(layers)
    ]

    def normalise(x, scale):
        return (x - n.mean(x, -1, keepdims=True)) / n.sqrt(n.var(x, -1, keepdims=True) + 1e-5) * scale

    def block(x, p):
        q, k, v = n.split(normalise(x, p["scale"]) @ p["qkv"], 3, axis=-1)
        q, k, v = (n.swapaxes(a.reshape(*a.shape[:-1], heads, width // heads), -2, -3) for a in (q, k, v))
        weights = nn.softmax(q @ n.swapaxes(k, -1, -2) / np.sqrt(width // heads).astype(np.float32))
        x = x + n.swapaxes(weights @ v, -2, -3).reshape(x.shape) @ p["out"]
        return x + nn.gelu(normalise(x, p["scale"]) @ p["up"]) @ p["down"]

    def forward(parameters, x):
        layer = lib.xf.jit(lambda x, p: block(x, p)) if jitted else block
        for p in parameters:
            x = layer(x, p)
        return x

    return forward, parameters, n.asarray(rng.normal(size=(2, length, width)).astype(np.float32))
