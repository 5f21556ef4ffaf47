"""Gradients of programs that read and write elements of arrays: mostly zero cotangents are added only at their positions."""

import re

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax

N = 1000
X = np.sin(np.arange(N, dtype=np.float32))
take = xf.jit(lambda x, i: x[i])


def filtered(x, read):
    """A sum of squares of y[n] = a (y[n - 1] + x[n] - x[n - 1])."""
    def step(y, n):
        y = 0.5 * (y + read(x, n) - read(x, n - 1))
        return y, y

    return (lax.scan(step, 0.0, xnp.arange(1, x.shape[0]))[1] ** 2).sum()


def gradient_of_filtered(x):
    """The same by NumPy, backwards."""
    y, ys = 0.0, []
    for n in range(1, len(x)):
        y = 0.5 * (y + x[n] - x[n - 1])
        ys.append(y)
    g, ct = np.zeros(len(x)), 0.0
    for n in range(len(x) - 1, 0, -1):
        ct = 0.5 * (ct + 2 * ys[n - 1])
        g[n] += ct
        g[n - 1] -= ct
    return g


READS = {
    "index": lambda x, n: x[n],
    "slice": lambda x, n: lax.dynamic_slice(x, (n,), (1,))[0],
    "gather": lambda x, n: x[xnp.array([0, 0]) + n][1],
    "take": lambda x, n: xnp.take(x, n),
    "jitted": take,
}


def sums_of_all(text: str) -> list[str]:
    """The additions in a module that go through the whole array."""
    return re.findall(rf"stablehlo.add .*tensor<{N}xf32>", text)


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_steps_add_to_elements_that_they_read(read):
    gradient = xf.jit(xf.grad(lambda x: filtered(x, read)))
    np.testing.assert_allclose(gradient(X), gradient_of_filtered(X), rtol=1e-4, atol=1e-6)
    assert not sums_of_all(gradient.lower(X).as_text())


def test_through_references_and_carries():
    def by_reference(x):
        held = xf.new_ref(x)
        return filtered(held, READS["index"])

    def by_carry(x):
        def step(carry, n):
            y, x = carry
            y = 0.5 * (y + x[n] - x[n - 1])
            return (y, x), y

        return (lax.scan(step, (0.0, x), xnp.arange(1, N))[1] ** 2).sum()

    for f in (by_reference, by_carry):
        gradient = xf.jit(xf.grad(f))
        np.testing.assert_allclose(gradient(X), gradient_of_filtered(X), rtol=1e-4, atol=1e-6)
        assert not sums_of_all(gradient.lower(X).as_text())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64"])
def test_overlapping_slices_are_summed(dtype):
    """Parts that overlap, that are whole, that are the same, added to each other and to what is dense."""
    x, i, j = xnp.arange(6).astype(dtype), 1, 4

    def f(x, i, j):
        a, b = lax.dynamic_slice(x, (i,), (4,)), lax.dynamic_slice(x, (j,), (3,))  # the second is moved inside
        return (2 * a).sum() + (3 * b).sum() + (x * 5).sum() + 7 * x[j] + 11 * x[xnp.array([2, 2])[i]] + 13 * x[j]

    expected = np.full(6, 5)
    expected[1:5] += 2
    expected[3:6] += 3
    expected[4] += 20
    expected[2] += 11
    holomorphic = dtype == "complex64"
    for transform in (lambda f: f, xf.jit):
        found = transform(xf.grad(f, holomorphic=holomorphic))(x, i, j)
        assert found.dtype == dtype
        np.testing.assert_array_equal(np.asarray(found).astype(np.complex64), expected)
    batched = xf.jit(xf.vmap(xf.grad(f, holomorphic=holomorphic), (None, 0, None)))(x, xnp.array([1, 1]), j)
    np.testing.assert_array_equal(np.asarray(batched).astype(np.complex64), [expected, expected])


def test_writing_one_element():
    """The last writer of an element need not be determined if only one element is written."""
    def f(x):
        def step(b, n):
            return b.at[n].set(x[n] * b[n - 1]), None

        return lax.scan(step, xnp.ones_like(x), xnp.arange(1, x.shape[0]))[0].sum()

    x = np.linspace(0.5, 1.5, 9, dtype=np.float32)
    products = np.cumprod(x[1:].astype(np.float64))  # of which f is the sum, and 1
    expected = [0.0, *[products[k:].sum() / x[k + 1] for k in range(8)]]
    np.testing.assert_allclose(xf.jit(xf.grad(f))(x), expected, rtol=1e-5)
    assert "bool[9]" not in str(xf.make_jaxpr(xf.grad(f))(x))


@pytest.mark.cpu_only
@pytest.mark.parametrize("unique", [False, True])
def test_writing_several_elements(unique):
    x, y = xnp.arange(5.0), xnp.array([10.0, 20.0, 30.0])
    at = xnp.array([3, 1, 9]) if unique else xnp.array([3, 1, 3])  # 9 is dropped

    def f(x, y, at):
        return (x.at[at].set(y, unique_indices=unique) * xnp.arange(1.0, 6.0)).sum()

    of_x, of_y = xf.jit(xf.grad(f, (0, 1)))(x, y, at)
    assert of_x.tolist() == [1, 0, 3, 0, 5]
    assert of_y.tolist() == ([4, 2, 0] if unique else [0, 2, 4])
    value, moved = xf.jvp(lambda x, y: f(x, y, at), (x, y), (xnp.ones(5), xnp.array([7.0, 8.0, 9.0])))
    assert float(moved) == 9 + (4 * 7 if unique else 4 * 9) + 2 * 8


def test_a_write_backwards():
    """The transpose of a write to one element reads it, and leaves nothing there."""
    transposed = xf.linear_transpose(lambda x, y: x.at[2].set(y), xnp.zeros(4), 0.0)
    of_x, of_y = transposed(xnp.array([1.0, 2.0, 3.0, 4.0]))
    assert of_x.tolist() == [1, 2, 0, 4] and float(of_y) == 3


def collected(f, x, length=7):
    """The shapes of what the forward half of a differentiated loop over `f` collects in each step."""
    def loss(x):
        return lax.scan(lambda c, _: (f(c), None), x, None, length=length)[0].sum()

    jaxpr = xf.make_jaxpr(xf.grad(loss))(x).jaxpr
    loop = next(eqn for eqn in jaxpr.eqns if eqn.primitive.name == "scan")
    return sorted([v.aval.shape[1:] for v in loop.outvars[loop.params["num_carry"]:]])


def test_loops_collect_little():
    """Only operands of broadcasts and values that are read are collected, and nothing that is the same in each step."""
    x = xnp.linspace(0.1, 1.0, 4)
    matrix = xnp.eye(4) * 3 + 0.1
    assert collected(lambda v: (v[:, None] * v).sum(1), x) == [(4,)]
    assert collected(lambda v: xnp.outer(v, v).sum(1), x) == [(4,)]
    assert collected(lambda v: (xnp.sin(matrix + v) * 0.1).sum(1), x) == [(4, 4)]
    assert collected(lambda v: xnp.linalg.solve(matrix, v * v), x) == [(4,)]

    def with_unread_values(v):
        xnp.exp(v) / (1 + v)
        return v * v

    assert collected(with_unread_values, x) == [(4,)]


@pytest.mark.parametrize("name", ["spread", "solve"])
def test_derivatives_of_such_loops(name):
    matrix = np.eye(4) * 3 + np.arange(16.0).reshape(4, 4) / 50
    step, own = {
        "spread": (lambda v: xnp.sin(v[:, None] * v).sum(1), lambda v: np.sin(v[:, None] * v).sum(1)),
        "solve": (lambda v: xnp.linalg.solve(xnp.asarray(matrix), v * v + 1), lambda v: np.linalg.solve(matrix, v * v + 1)),
    }[name]

    def by_numpy(x):
        for _ in range(3):
            x = own(x)
        return x.sum()

    x = np.linspace(0.2, 0.5, 4)
    with xf.enable_x64(True):
        found = xf.jit(xf.grad(lambda x: lax.scan(lambda c, _: (step(c), None), x, None, length=3)[0].sum()))(x)
    steps = np.eye(4) * 1e-6
    expected = [(by_numpy(x + h) - by_numpy(x - h)) / 2e-6 for h in steps]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


def test_checkpointed_steps():
    """Values that a step recomputes are written in the step, unless they are also first computed there."""
    def of_steps(x):
        @xf.checkpoint
        def step(y, n):
            y = 0.5 * (y + x[n] - x[n - 1])
            return y, y

        return (lax.scan(step, 0.0, xnp.arange(1, N))[1] ** 2).sum()

    gradient = xf.jit(xf.grad(of_steps))
    np.testing.assert_allclose(gradient(X), gradient_of_filtered(X), rtol=1e-4, atol=1e-6)
    text = gradient.lower(X).as_text()
    assert not sums_of_all(text) and "@recomputed" not in text

    def both_at_once(x):
        return lax.scan(lambda c, v: (c, xf.value_and_grad(xf.checkpoint(lambda v: xnp.sin(xnp.exp(v))))(v)), 0.0, x)[1]

    both = xf.jit(both_at_once)
    value, derivative = both(X)
    np.testing.assert_allclose(value, np.sin(np.exp(X)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(derivative, np.cos(np.exp(X)) * np.exp(X), rtol=1e-4, atol=1e-5)
    assert "@recomputed" in both.lower(X).as_text() or xf.default_backend() != "cpu"


@pytest.mark.parametrize("f, expected", [
    (lambda v: xnp.diag(v, 1), [0, 1, 2]),
    (lambda v: xnp.insert(v, xnp.array([0, 2]), v[:2]), [0, 1, 2]),
    (lambda v: xnp.fill_diagonal(xnp.ones((3, 3)), v, inplace=False), [0, 1, 2]),
], ids=["diag", "insert", "fill_diagonal"])
def test_functions_that_write_each_element_once(f, expected):
    """The last writer of an element need not be determined: no indices of writers are scattered."""
    def half(v):
        out = f(v)
        return (out * out / 2).sum()

    shape = "x".join(map(str, f(xnp.arange(3.0)).shape))
    text = xf.jit(xf.grad(half)).lower(xnp.arange(3.0)).as_text()
    assert not re.search(rf"\}}\) : \(tensor<{shape}xi32>, tensor<[^>]*>, tensor<", text)
    again = 2 if f(xnp.arange(3.0)).shape == (5,) else 1  # those inserted are there twice
    np.testing.assert_allclose(xf.grad(half)(xnp.arange(3.0)), np.array(expected) * [again, again, 1])
