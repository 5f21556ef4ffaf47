"""Objects with `__jax_array__` in place of arrays, such as the parameters of Flax modules."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax, nn

A = np.array([[0.3, 0.6], [0.2, 0.9]], np.float32)


class Held:
    """Forwards attributes to its array."""

    def __init__(self, value):
        self.value = value

    def __jax_array__(self):
        return self.value

    def __getattr__(self, name):
        if name.startswith("__") or name == "value":
            raise AttributeError(name)
        return getattr(self.value, name)


class Node(Held):
    pass


xf.tree_util.register_pytree_node(Node, lambda x: ((x.value,), None), lambda _, children: Node(*children))

CALLS = {
    "sin": (xnp.sin, np.sin), "sqrt": (xnp.sqrt, np.sqrt), "add": (lambda x: xnp.add(x, A), lambda x: x + A),
    "multiply": (lambda x: xnp.multiply(2.0, x), lambda x: 2 * x), "maximum": (lambda x: xnp.maximum(x, x), lambda x: x),
    "operator": (lambda x: xnp.asarray(A) @ x, lambda x: A @ x), "matmul": (lambda x: xnp.matmul(x, A), lambda x: x @ A),
    "ravel": (xnp.ravel, np.ravel), "atleast_2d": (xnp.atleast_2d, np.atleast_2d), "inv": (xnp.linalg.inv, np.linalg.inv),
    "det": (xnp.linalg.det, np.linalg.det), "norm": (xnp.linalg.norm, np.linalg.norm),
    "take": (lambda x: xnp.take(x, np.array([1, 0]), 1), lambda x: x[:, ::-1]),
    "full_like": (lambda x: xnp.full_like(x, 2.0), lambda x: np.full_like(x, 2)),
    "silu": (nn.silu, lambda x: x / (1 + np.exp(-x))),
    "convert_element_type": (lambda x: lax.convert_element_type(x, "float16"), lambda x: x.astype("float16")),
}


@pytest.mark.parametrize("name", CALLS)
def test_nodes_of_one_array(name):
    call, expected = CALLS[name]
    x = xnp.asarray(A)
    np.testing.assert_allclose(call(Node(x)), expected(A), rtol=1e-3)
    np.testing.assert_allclose(xf.jit(lambda x: call(Node(x)))(x), expected(A), rtol=1e-3)
    slope = xf.jacobian(lambda x: call(Node(x)))(x)
    np.testing.assert_allclose(slope, xf.jacobian(call)(x), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", [Held, Node])
def test_primitives_refuse_convertible_objects(kind):
    x = xnp.asarray(A)
    for call in (lambda x: lax.sin(kind(x)), lambda x: lax.dot(kind(x), x), lambda x: lax.max(x, kind(x))):
        for run in (lambda f: f(x), lambda f: xf.jacobian(f)(x), lambda f: xf.jit(f)(x)):
            with pytest.raises(ValueError, match="__jax_array__"):
                run(call)


def test_jit_refuses_convertible_objects_that_are_no_nodes():
    for call in (xnp.sin, xnp.ravel, xnp.linalg.inv, xnp.atleast_1d, xf.jit(lambda x: x)):
        with pytest.raises(ValueError, match="__jax_array__"):
            call(Held(xnp.asarray(A)))


def test_arguments_and_cotangents_of_custom_rules():
    f = xf.custom_vjp(lambda p: xnp.sum(xnp.sin(p["w"])))
    f.defvjp(lambda p: (f(p), p), lambda p, g: ({"w": Node(2 * g * xnp.cos(p["w"]))},))
    found = xf.grad(f)({"w": Node(xnp.asarray(A))})
    assert type(found["w"]) is Node
    np.testing.assert_allclose(found["w"].value, 2 * np.cos(A), rtol=1e-6)
