"""A user's program, which type checkers read and which is never run: `.ci/run` and `test_typed_program.py` check it.

Checkers must report nothing and infer `Array` for results; an `ignore` marks a line where they must report an error.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from typing import NamedTuple, assert_type

import numpy as np

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax, nn, random
from xlafront.scipy import linalg, special
from xlafront.scipy.stats import norm


class Layer(NamedTuple):
    weights: xf.Array
    bias: xf.Array


def init(key: xf.Array, sizes: list[int]) -> list[Layer]:
    layers = []
    for n, m in zip(sizes, sizes[1:]):
        key, subkey = random.split(key)
        layers.append(Layer(random.normal(subkey, (n, m)) / np.sqrt(n), xnp.zeros(m)))
    return layers


def predict(layers: list[Layer], x: xf.typing.ArrayLike) -> xf.Array:
    y = xnp.asarray(x)
    for layer in layers[:-1]:
        y = nn.relu(y @ layer.weights + layer.bias)
    return nn.log_softmax(y @ layers[-1].weights + layers[-1].bias, axis=-1)


def loss(layers: list[Layer], x: xf.Array, labels: xf.Array) -> xf.Array:
    chosen = xnp.take_along_axis(predict(layers, x), labels[:, None], axis=-1)
    assert_type(chosen, xf.Array)
    return -xnp.mean(chosen)


@xf.jit
def update(layers: list[Layer], x: xf.Array, labels: xf.Array, rate: float = 0.1) -> tuple[list[Layer], xf.Array]:
    value, gradients = xf.value_and_grad(loss)(layers, x, labels)
    assert_type(value, xf.Array)
    return xf.tree.map(lambda p, g: p - rate * g, layers, gradients), value


def main() -> None:
    layers = init(random.key(0), [4, 8, 3])
    x, labels = xnp.ones((5, 4)), xnp.arange(5) % 3
    for _ in range(10):
        layers, value = update(layers, x, labels, rate=0.5)
        print(float(value), value.shape, f"{value:.3f}")
    assert_type(xf.vmap(predict, in_axes=(None, 0))(layers, x), xf.Array)
    assert_type(xf.checkpoint(predict)(layers, np.ones((5, 4))), xf.Array)
    np.testing.assert_allclose(xf.jit(xf.grad(lambda s: s ** 2))(3.0), 6.0)
    assert_type(xnp.sum(x, axis=0), xf.Array)
    assert_type(xnp.where(x > 0, x, 0.0).at[0].set(1.0), xf.Array)
    assert_type(xnp.where(x), tuple[xf.Array, ...])
    assert_type(xnp.linspace(0, 1, 5), xf.Array)
    assert_type(xnp.atleast_2d(x), xf.Array)
    assert_type(xnp.add(x, 1) + x * 2 - 1, xf.Array)
    assert_type(x.T.sum(), xf.Array)
    assert_type(-x[0] < 3, xf.Array)
    assert_type(x.shape, tuple[int, ...])
    assert_type(lax.sin(x), xf.Array)
    assert_type(nn.logsumexp(x), xf.Array)
    assert_type(special.gammaln(x), xf.Array)
    assert_type(norm.logpdf(x), xf.Array)
    assert_type(linalg.cholesky(xnp.eye(3)), xf.Array)
    assert_type(float(loss(layers, x, labels)) + xnp.pi, float)
    assert_type(xf.jit(predict, static_argnums=1)(layers, x), xf.Array)
    assert_type(nn.swish(lax.mul(x, 2.0)), xf.Array)
    assert_type(xf.remat(predict)(layers, x), xf.Array)
    print(update.lower(layers, x, labels).as_text(), xf.devices()[0], isinstance(x, xf.Array))


update("one")  # type: ignore[arg-type,call-arg]
xnp.sum(xnp.ones(3), axs=0)  # type: ignore[call-arg]
print(xnp.no_such_name)  # type: ignore[attr-defined]
xnp.zeros("three")  # type: ignore[arg-type]
