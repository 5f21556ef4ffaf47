"""The programs that are measured: written once, for every library that compiles."""

from __future__ import annotations

import importlib

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


def cnn(lib: Library, batch: int = 8, size: int = 32):
    """The loss of a network of three convolutions and a matrix, its parameters and a batch of images and labels."""
    n, nn, lax, rng = lib.np, lib.xf.nn, lib.lax, np.random.default_rng(0)
    shapes = [(3, 3, 3, 16), (3, 3, 16, 32), (3, 3, 32, 64), (size * size, 10)]
    parameters = [n.asarray(rng.normal(0, 0.05, shape).astype(np.float32)) for shape in shapes]

    def loss(parameters, images, labels):
        x = images
        for kernel in parameters[:-1]:
            x = nn.relu(lax.conv_general_dilated(x, kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))
        logits = x.reshape(batch, -1) @ parameters[-1]
        return -n.mean(n.sum(nn.log_softmax(logits) * nn.one_hot(labels, 10), -1))

    images = n.asarray(rng.normal(size=(batch, size, size, 3)).astype(np.float32))
    return loss, parameters, images, n.asarray(rng.integers(0, 10, batch))


def ode(lib: Library, width: int = 8):
    """The sum of squares of the solution of a differential equation, its matrix and initial value."""
    n = lib.np
    odeint = importlib.import_module(f"{lib.xf.__name__}.experimental.ode").odeint

    def loss(matrix, initial):
        return n.sum(odeint(lambda y, t, w: n.tanh(w @ y) - y, initial, n.linspace(0.0, 1.0, 5), matrix) ** 2)

    return loss, n.eye(width), n.ones(width)


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


def mixture_of_experts(lib: Library, layers: int, experts: int = 8, width: int = 16, rows: int = 8):
    """The loss of a deep network, its parameters and input. A layer adds the outputs of `experts` networks, weighted by a gate.

    Layers and experts are Python loops: about 200 equations of the gradient a layer.
    """
    n, nn, rng = lib.np, lib.xf.nn, np.random.default_rng(0)

    def weights(*shape):
        return n.asarray(rng.normal(0, 0.02, shape).astype(np.float32))

    parameters = [
        {
            "gate": weights(width, experts),
            "up": [weights(width, 2 * width) for _ in range(experts)],
            "down": [weights(2 * width, width) for _ in range(experts)],
        }
        for _ in range(layers)
    ]

    def loss(parameters, x):
        for p in parameters:
            gates = nn.softmax(x @ p["gate"])
            outputs = [n.tanh(x @ up) @ down for up, down in zip(p["up"], p["down"])]
            for i, y in enumerate(outputs):
                x = x + gates[:, i : i + 1] * y
        return n.sum(x**2)

    return loss, parameters, n.asarray(rng.normal(size=(rows, width)).astype(np.float32))


def sharded_training(lib: Library, mesh, layers: int = 4, width: int = 512, heads: int = 8, length: int = 128,
                     words: int = 1024, batch: int | None = None):
    """A step of training a language model over a mesh with the axes `data` and `model`: the function
    `(parameters, momenta, tokens, targets) -> (parameters, momenta, loss)` and the types of its arguments.

    The batch is split over `data`; heads, hidden units and words over `model`, as in Megatron-LM.
    """
    n, nn, xf = lib.np, lib.xf.nn, lib.xf
    size = width // heads

    def type_of(*shape, spec=(), dtype=np.float32):
        return xf.ShapeDtypeStruct(shape, dtype, sharding=xf.NamedSharding(mesh, xf.P(*spec)))

    def layer_types():
        return {
            "scale": type_of(width),
            "qkv": type_of(3, width, heads, size, spec=(None, None, "model")),
            "out": type_of(heads, size, width, spec=("model",)),
            "up": type_of(width, 4 * width, spec=(None, "model")),
            "down": type_of(4 * width, width, spec=("model",)),
        }

    parameters = {"words": type_of(words, width, spec=("model",)), "layers": [layer_types() for _ in range(layers)]}
    batch = batch or 2 * mesh.shape["data"]
    tokens = type_of(batch, length, spec=("data",), dtype=np.int32)

    def normalise(x, scale):
        return (x - n.mean(x, -1, keepdims=True)) / n.sqrt(n.var(x, -1, keepdims=True) + 1e-5) * scale

    def block(x, p):
        q, k, v = n.einsum("btw,cwhs->cbhts", normalise(x, p["scale"]), p["qkv"])
        scores = n.where(n.tri(length, dtype=bool), n.einsum("bhts,bhus->bhtu", q, k) * size**-0.5, -1e9)
        x = x + n.einsum("bhtu,bhus,hsw->btw", nn.softmax(scores), v, p["out"])
        return x + nn.gelu(normalise(x, p["scale"]) @ p["up"]) @ p["down"]

    def loss(parameters, tokens, targets):
        x = nn.one_hot(tokens, words) @ parameters["words"]
        for p in parameters["layers"]:
            x = block(x, p)
        logits = nn.log_softmax(x @ parameters["words"].T)
        return -n.mean(n.sum(logits * nn.one_hot(targets, words), -1))

    def train_step(parameters, momenta, tokens, targets):
        value, gradient = xf.value_and_grad(loss)(parameters, tokens, targets)
        momenta = xf.tree.map(lambda m, g: 0.9 * m + g, momenta, gradient)
        return xf.tree.map(lambda p, m: p - 0.01 * m, parameters, momenta), momenta, value

    return xf.jit(train_step, donate_argnums=(0, 1)), (parameters, parameters, tokens, tokens)
