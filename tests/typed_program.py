"""What type checkers are to see of a program. `.ci/run` checks it with mypy; nobody runs it."""

from typing import assert_type

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax, nn, random
from xlafront.scipy import linalg, special
from xlafront.scipy.stats import norm


def loss(w: xf.Array, x: xf.Array) -> xf.Array:
    return xnp.mean(xnp.square(x @ w))


key = random.key(0)
first, second = random.split(key)
w = random.normal(first, (3,))
assert_type(w, xf.Array)
assert_type(xnp.sum(w, axis=0), xf.Array)
assert_type(xnp.atleast_2d(w), xf.Array)
assert_type(xnp.add(w, 1) + w * 2 - 1, xf.Array)
assert_type(w.T.sum(), xf.Array)
assert_type(-w[0] < 3, xf.Array)
assert_type(w.shape, tuple[int, ...])
assert_type(lax.sin(w), xf.Array)
assert_type(nn.softmax(w), xf.Array)
assert_type(special.gammaln(w), xf.Array)
assert_type(norm.logpdf(w), xf.Array)
assert_type(linalg.cholesky(xnp.eye(3)), xf.Array)
assert_type(float(xf.jit(loss)(w, w)) + xnp.pi, float)
assert_type(xf.jit(loss, static_argnums=1)(w, w), xf.Array)


@xf.jit
def step(n: int, *, scale: float = 1.0) -> tuple[int, float]:
    return n, scale


assert_type(step(1, scale=2.0), tuple[int, float])
step("one")  # type: ignore[arg-type]
print(step.lower(1).as_text())
xf.grad(loss, argnums=(0, 1))(w, xnp.ones((2, 3), xnp.bfloat16))
xnp.sum(w, axs=0)  # type: ignore[call-arg]
print(xnp.no_such_name)  # type: ignore[attr-defined]
xnp.zeros("three")  # type: ignore[arg-type]
