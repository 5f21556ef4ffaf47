"""Differentiation: laws over compositions, Python control flow, complex numbers, structures, mistakes."""

import itertools

import numpy as np
import pytest
from laws import check_derivatives

import xlafront as xf
import xlafront.numpy as xnp

X = np.array([0.3, -1.2, 0.8], np.float32)
W = np.array([[0.5, -1.0, 0.2], [1.5, 0.3, -0.7]], np.float32)
FUNCTIONS = {
    "polynomial": lambda x: x**3 + 2 * x,
    "nested": lambda x: xnp.sin(xnp.exp(x) * x),
    "matrix": lambda x: xnp.tanh(W @ x),
    "softmax": lambda x: xf.nn.softmax(x * 2),
    "norm": lambda x: xnp.sqrt(xnp.sum(x**2)),
    "indexing": lambda x: x[::-1] * x.at[0].mul(3.0),
    "division": lambda x: x / (1 + x * x),
    "where": lambda x: xnp.where(x > 0, x**2, xnp.sin(x)),
    "jitted": xf.jit(lambda x: xnp.cos(x) * x),
    "outer": lambda x: xnp.outer(x, x),
    "sort": lambda x: xnp.sort(x) * xnp.arange(3.0),
    "cumsum": lambda x: xnp.cumsum(x) ** 2,
    "mean": lambda x: xnp.var(x) + xnp.mean(x),
    "power": lambda x: xnp.power(xnp.abs(x) + 1, x),
    "logsumexp": lambda x: xf.nn.logsumexp(x),
    "einsum": lambda x: xnp.einsum("i,j,ij->i", x, x, xnp.outer(x, x)),
    "nested jit": xf.jit(lambda x: xf.jit(xnp.sin)(x) * xf.jit(lambda v: v * v)(x)),
    "max": lambda x: xnp.max(x) * xnp.min(x),
    "concatenate": lambda x: xnp.concatenate([x, x * x]),
    "gelu": lambda x: xf.nn.gelu(x),
    "pad": lambda x: xnp.pad(x, 1, mode="reflect") ** 2,
    "linspace": lambda x: xnp.linspace(x[0], x[1], 4),
    "interp": lambda x: xnp.clip(x, -1.0, 0.5),
    "std": lambda x: xnp.std(x),
    "prod": lambda x: xnp.prod(x),
    "roll": lambda x: xnp.roll(x, 1) * x,
    "repeat": lambda x: xnp.repeat(x, 2) ** 2,
    "dot": lambda x: xnp.dot(x, x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_first_and_second_order(name, rng):
    f = FUNCTIONS[name]
    check_derivatives(f, [X], rng)
    scalar = lambda x: xnp.sum(f(x))  # noqa: E731
    check_derivatives(xf.grad(scalar), [X], rng, tolerance=1e-5)


@pytest.mark.parametrize("name", ["nested", "matrix", "softmax", "indexing", "jitted", "nested jit", "where", "cumsum"])
def test_transformations_commute(name):
    """jit, grad and vmap in every order, against the plain composition."""
    f = lambda x: xnp.sum(FUNCTIONS[name](x))  # noqa: E731
    rows = np.stack([X, -X, 2 * X])
    expected = np.stack([xf.grad(f)(row) for row in rows])
    for order in set(itertools.permutations(["jit", "jit", "vmap"])):
        g = xf.grad(f)
        for step in order:
            g = {"jit": xf.jit, "vmap": xf.vmap}[step](g)
        np.testing.assert_allclose(np.asarray(g(rows)), expected, rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(
        np.asarray(xf.grad(lambda r: xnp.sum(xf.vmap(xf.jit(f))(r)))(rows)), expected, rtol=2e-5, atol=1e-6
    )
    jacobian = np.stack([np.asarray(xf.jvp(xf.grad(f), (X,), (e,))[1]) for e in np.eye(3, dtype=np.float32)], 1)
    np.testing.assert_allclose(np.asarray(xf.hessian(f)(X)), jacobian, rtol=2e-5, atol=1e-5)


def test_jacobians():
    f = FUNCTIONS["matrix"]
    expected = (1 - np.tanh(W @ X) ** 2)[:, None] * W
    for jacobian in (xf.jacfwd, xf.jacrev, xf.jacobian):
        np.testing.assert_allclose(np.asarray(jacobian(f)(X)), expected, rtol=1e-5)
    blocks = xf.jacrev(lambda p: {"y": p["a"] * p["b"]})({"a": X, "b": 2.0})
    np.testing.assert_allclose(np.asarray(blocks["y"]["a"]), 2 * np.eye(3), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(blocks["y"]["b"]), X, rtol=1e-6)
    forward = xf.jacfwd(lambda a, b: a * b, argnums=(0, 1))(X, np.float32(2))
    np.testing.assert_allclose(np.asarray(forward[1]), X, rtol=1e-6)


def test_structures_and_options():
    params = {"w": W, "b": np.zeros(2, np.float32)}
    loss = lambda p, x: (xnp.sum((p["w"] @ x + p["b"]) ** 2), {"seen": x})  # noqa: E731
    (value, aux), grads = xf.value_and_grad(loss, has_aux=True)(params, X)
    np.testing.assert_allclose(float(value), np.sum((W @ X) ** 2), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(grads["w"]), 2 * np.outer(W @ X, X), rtol=1e-5)
    assert aux["seen"].tolist() == X.tolist()
    first, second = xf.grad(lambda a, b: a * b**2, argnums=(0, 1))(2.0, 3.0)
    assert (first, second) == (9, 12) and xf.grad(lambda a, b: a * b**2, argnums=-1)(2.0, 3.0) == 12
    for transform in (xf.grad, xf.jacfwd, xf.jacrev):
        for array in (np.array, xnp.array):
            assert transform(lambda a, b: a * b**2, argnums=array([0, 1]))(2.0, 3.0) == (9, 12)
            assert transform(lambda a, b: a * b**2, argnums=array(1))(2.0, 3.0) == 12
    assert xf.grad(lambda x, scale=1.0: x * scale)(1.0, scale=5.0) == 5
    gradient, aux = xf.grad(lambda x: (x**2, x + 1), has_aux=True)(3.0)
    assert gradient == 6 and aux == 4
    zero = xf.grad(lambda n, x: x * 2.0, allow_int=True)(3, 1.0)
    assert zero.dtype == xf.float0
    assert xf.grad(lambda x: 3.0)(1.0) == 0 and xf.grad(lambda x: x)(xnp.float32(2)).dtype == np.float32


def test_python_control_flow_on_values():
    def f(x):
        if x > 1:
            return x**2
        return sum((x for _ in range(int(x * 10))), x * 0)

    assert xf.grad(f)(3.0) == 6 and xf.grad(f)(0.35) == 3
    with pytest.raises(xf.errors.TracerBoolConversionError):
        xf.jit(xf.grad(f))(3.0)


def test_linearize_and_vjp():
    y, derivative = xf.linearize(lambda x, y: xnp.sin(x) * y, 0.5, 2.0)
    np.testing.assert_allclose(float(y), np.sin(0.5) * 2, rtol=1e-6)
    np.testing.assert_allclose(float(derivative(1.0, 0.0)), 2 * np.cos(0.5), rtol=1e-6)
    y, pull = xf.vjp(lambda x, y: {"p": x * y, "q": x}, 3.0, 4.0)
    assert [float(v) for v in pull({"p": 1.0, "q": 10.0})] == [14, 3]
    out, pull, aux = xf.vjp(lambda x: (x * 2, "text"), 1.0, has_aux=True)
    assert aux == "text" and pull(1.0)[0] == 2
    assert xf.jit(lambda x: xf.vjp(xnp.sin, x)[1])(0.0)(1.0)[0] == 1  # a pullback is a pytree
    primal, tangent = xf.jvp(lambda n, x: x * n, (2, 3.0), (np.zeros((), xf.float0), 1.0))
    assert primal == 6 and tangent == 2
    value, tangent, aux = xf.jvp(lambda x: (x * 2, {"k": x}), (1.0,), (1.0,), has_aux=True)
    assert tangent == 2 and aux["k"] == 1


def test_linear_transpose():
    transposed = xf.linear_transpose(lambda x: W @ x * 2, X)
    [ct] = transposed(np.ones(2, np.float32))
    np.testing.assert_allclose(np.asarray(ct), 2 * W.T @ np.ones(2), rtol=1e-6)


def test_complex():
    """The gradient of a real function of z = x + iy is df/dx - i df/dy, as in the reference."""
    z = np.complex64(1 + 2j)
    g = xf.grad(lambda z: xnp.abs(z) ** 2)(z)
    np.testing.assert_allclose(complex(g), 2 * np.conj(1 + 2j), rtol=1e-5)
    h = xf.grad(lambda z: z**2, holomorphic=True)(z)
    np.testing.assert_allclose(complex(h), 2 * (1 + 2j), rtol=1e-5)
    np.testing.assert_allclose(
        complex(xf.grad(lambda z: xnp.real(xnp.exp(z) * z))(z)), np.exp(1 + 2j) * (2 + 2j), rtol=1e-5
    )


def test_boundary_points():
    grad = xf.grad
    assert grad(xf.nn.relu)(0.0) == 0 and grad(lambda x: xnp.maximum(x, 0.0))(0.0) == 0.5 and grad(xnp.abs)(0.0) == 1
    assert grad(lambda x: xnp.where(x > 0, xnp.log(xnp.where(x > 0, x, 1.0)), 0.0))(-1.0) == 0
    assert grad(lambda x: xf.lax.stop_gradient(x) * x)(3.0) == 3
    assert grad(lambda x: xnp.max(xnp.stack([x, x])))(1.0) == 1
    assert grad(lambda x: xnp.floor(x) + xnp.sign(x) + xnp.round(x))(0.7) == 0


MISTAKES = [
    (lambda: xf.grad(lambda x: x)(X), TypeError, "scalar.*(3,)"),
    (lambda: xf.grad(lambda x: x * 1.0)(3), TypeError, "int32.*allow_int"),
    (lambda: xf.grad(lambda x: x, argnums=2)(1.0), TypeError, "argnums=2"),
    (lambda: xf.grad(lambda x: (x, x))(1.0), TypeError, "has_aux"),
    (lambda: xf.grad(lambda x: x, has_aux=True)(1.0), TypeError, "pair"),
    (lambda: xf.grad(lambda x: x * 1j)(1.0), TypeError, "holomorphic"),
    (lambda: xf.grad(lambda x: x, argnums="x")(1.0), TypeError, "argnums"),
    (lambda: xf.grad(5), TypeError, "function"),
    (lambda: xf.grad(lambda p: p["a"])({"a": "text"}), TypeError, r"\['a'\]"),
    (lambda: xf.jvp(xnp.sin, (X,), (X[:2],)), ValueError, r"\(3,\).*\(2,\)"),
    (lambda: xf.jvp(xnp.sin, (X,), (np.ones(3, np.int32),)), TypeError, "float32.*int32|int32.*float32"),
    (lambda: xf.jvp(xnp.sin, (X,), ((X,),)), TypeError, "structure"),
    (lambda: xf.vjp(xnp.sin, X)[1]((X, X)), ValueError, "structure"),
    (lambda: xf.vjp(xnp.sin, X)[1](X[:2]), ValueError, r"float32\[3\]"),
    (lambda: xf.grad(lambda x: x > 0)(1.0), TypeError, "bool"),
    (lambda: xf.jvp(xnp.sin, X, X), TypeError, "tuple"),
]


@pytest.mark.parametrize("call, error, words", MISTAKES, ids=map(str, range(len(MISTAKES))))
def test_bad_input_raises(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_many_operations_at_once():
    """Differentiating is linear in the length of the program."""

    def chain(x):
        for _ in range(3000):
            x = xnp.sin(x)
        return x

    program = xf.make_jaxpr(xf.grad(chain))(1.0)
    assert len(program.eqns) <= 3 * 3000 + 10


@pytest.mark.parametrize("differentiate", [xf.grad, xf.value_and_grad, lambda f, **how: xf.vjp(f, 3.0, **how),
                                           lambda f, **how: xf.linear_transpose(f, 3.0, **how)])
def test_reduce_axes_is_refused(differentiate):
    with pytest.raises(NotImplementedError, match="reduce_axes"):
        differentiate(lambda x: 2.0 * x, reduce_axes=("i",))


def test_linear_transpose_of_mixed_kinds():
    """Floats with floats, integers with integers: between them nothing is linear."""
    x, i = xnp.ones(2), xnp.arange(2)
    for fun, args in ((lambda a, b: (a, b), (x, i)), (lambda a: a.astype(int), (x,)), (lambda a: a * 1.0, (i,)),
                      (lambda a: a * 2, (x > 0,))):
        with pytest.raises(TypeError, match="linear_transpose only supports"):
            xf.linear_transpose(fun, *args)
    assert xf.linear_transpose(lambda a: a * 3, i)(i)[0].tolist() == [0, 3]


def test_an_argument_is_given_once():
    for transform in (xf.grad, xf.value_and_grad, xf.jacfwd, xf.jacrev, xf.hessian):
        for argnums in ((0, 0), (1, -1)):
            with pytest.raises(TypeError, match="twice"):
                transform(lambda x, y: x * y, argnums)(1.0, 2.0)


def test_jacfwd_of_booleans_is_refused():
    with pytest.raises(TypeError, match="jacfwd.*bool"):
        xf.jacfwd(lambda x: (x, x > 1))(2.0)


def test_forwarded_numpy_scalars_have_the_dtypes_of_arrays():
    for found in (xf.value_and_grad(lambda x: x)(np.float64(2))[0], xf.vjp(lambda x: x, np.float64(2))[0]):
        assert found.dtype == np.float32 and found == 2
