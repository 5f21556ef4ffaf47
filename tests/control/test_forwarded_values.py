"""Values that loops and branches forward unchanged are neither carried nor results of the operation.

What the condition of a loop reads is carried nevertheless, as in JAX.
They keep value, type and derivative. A function that is used for several branches is traced once.
"""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax

X = np.array([1.0, 2.0, 3.0], np.float32)


def eqn_of(f, name, *args):
    [eqn] = [eqn for eqn in xf.make_jaxpr(f)(*args).eqns if eqn.primitive.name == name]
    return eqn


# A function of x, the primitive, how many results it is to have, and its value by NumPy.
CASES = {
    "scan, rows": (lambda x: lax.scan(lambda c, r: (c + 1, r), 0, x), "scan", 1, lambda x: (3, x)),
    "scan, carry": (lambda x: lax.scan(lambda c, r: ((c[0], c[1] + r * c[0]), None), (x[0], 0.0), x)[0], "scan", 1,
                    lambda x: (x[0], x[0] * x.sum())),
    "scan, carry as rows": (lambda x: lax.scan(lambda c, r: (c, (c, r)), x[1], x), "scan", 1,
                            lambda x: (x[1], (np.full(3, x[1]), x))),
    "scan, reversed": (lambda x: lax.scan(lambda c, r: (c + r, (r, c)), 0.0, x, reverse=True)[1], "scan", 2,
                       lambda x: (x, np.array([x[1] + x[2], x[2], 0], x.dtype))),
    "while": (lambda x: lax.while_loop(lambda c: c[0] < c[1], lambda c: (c[0] + 1, c[1], c[2]), (x[0], x[2], x)), "while", 2,
              lambda x: (x[2], x[2], x)),
    "fori, traced bound": (lambda x: lax.fori_loop(0, (x[2] + 0.5).astype(int), lambda i, c: (c[0] * c[1][1], c[1]), (1.0, x)), "while",
                           3, lambda x: (x[1] ** 3, x)),
    "cond": (lambda x: lax.cond(x[0] > 0, lambda x: (x, x + 1), lambda x: (x, x * 5), x), "cond", 1, lambda x: (x, x + 1)),
    "switch": (lambda x: lax.switch(x.astype(int)[0], [lambda x, y: (y, x)] * 3, x, x * 2), None, 0, lambda x: (x * 2, x)),
}


@pytest.mark.parametrize("name", CASES)
def test_value_and_program(name):
    f, primitive, count, by_hand = CASES[name]
    for call in (f, xf.jit(f)):
        for got, expected in zip(xf.tree.leaves(call(X)), xf.tree.leaves(by_hand(X)), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-6)
    if primitive is None:
        assert "cond" not in str(xf.make_jaxpr(f)(X))
    else:
        assert len(eqn_of(f, primitive, X).outvars) == count


@pytest.mark.parametrize("name", CASES)
def test_derivatives_and_batches(name):
    f = CASES[name][0]
    weights = [np.random.default_rng(0).normal(size=np.shape(y)) for y in xf.tree.leaves(f(X))]

    def total(x):
        return sum(xnp.sum(w * y) for w, y in zip(weights, xf.tree.leaves(f(x))))

    step = 1e-2
    by_differences = [(total(X + step * e) - total(X - step * e)) / (2 * step) for e in np.eye(3, dtype=np.float32)]
    if not name.startswith(("while", "fori")):
        np.testing.assert_allclose(xf.grad(total)(X), by_differences, rtol=2e-2, atol=1e-2)
    if name != "while":  # (how many steps there are depends on x)
        np.testing.assert_allclose(xf.jacfwd(total)(X), by_differences, rtol=2e-2, atol=1e-2)
    rows = np.stack([X, X + 1])
    mapped = xf.vmap(f)(rows)
    for i, row in enumerate(rows):
        for got, expected in zip(xf.tree.leaves(mapped), xf.tree.leaves(f(row)), strict=True):
            np.testing.assert_allclose(got[i], expected, rtol=1e-6)


def test_python_scalars_stay_python_scalars():
    """As in the reference: a Python number that is handed through as the carry is the same number afterwards."""
    (carry, _), rows = lax.scan(lambda c, r: (c, c[0] * r), (2.0, 1), X)
    assert type(carry) is float and rows.tolist() == [2, 4, 6]
    assert type(lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1]), (0, 5))[1]) is int


def test_one_function_is_traced_once():
    calls = []

    def f(x):
        calls.append(x)
        return x * 2

    assert lax.cond(X[0] > 0, f, f, 2.0) == 4 and len(calls) == 1
    assert lax.switch(1, [f, f, f], 3) == 6 and len(calls) == 2


@pytest.mark.cpu_only
def test_only_the_branch_of_the_platform_is_lowered():
    """A branch that cannot be lowered for this platform is traced only."""
    other = xf.extend.core.Primitive("unrelated")
    other.def_abstract_eval(lambda x: x)

    def f(x):
        return lax.platform_dependent(x, cpu=xnp.sin, tpu=other.bind, default=xnp.sin)

    expected = np.sin(X)
    for call in (f, xf.jit(f), xf.vmap(f), lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0],
                 lambda x: lax.cond(x[0] > 0, f, xnp.cos, x), xf.checkpoint(f)):
        np.testing.assert_allclose(call(X), expected, rtol=1e-6)
    text = xf.jit(lambda x: lax.platform_dependent(x, cpu=xnp.sin, tpu=xnp.sin, default=xnp.cos)).lower(X).as_text()
    assert "sine" in text and "cosine" not in text


BOUNDS = [(0.0, 3.0, 3), (0.0, 2.5, 1), (0.5, 3.0, 3), (np.float32(1), 3.0, 3), (2.0, 2.5, 0), (3.0, 0.0, 0)]


@pytest.mark.parametrize("lower, upper, total", BOUNDS)
def test_float_bounds_of_fori_loop(lower, upper, total):
    """Known floats count as their whole parts do; the expected sums are those of `range(int(lower), int(upper))`."""
    assert total == sum(range(int(lower), int(upper)))
    assert lax.fori_loop(lower, upper, lambda i, c: c + i, 0) == total
    assert xf.jit(lambda: lax.fori_loop(lower, upper, lambda i, c: c + i, 0))() == total
    power = max(int(upper) - int(lower), 0)
    assert xf.grad(lambda y: lax.fori_loop(lower, upper, lambda i, c: c * y, 1.0))(2.0) == power * 2.0 ** (power - 1)


def test_traced_float_bounds_of_fori_loop():
    assert xf.jit(lambda n: lax.fori_loop(0.0, n, lambda i, c: c + i, 0.0))(3.0) == 3


@pytest.mark.parametrize("lower, upper", [(0, np.uint8(3)), (xnp.uint8(0), 3), (0, 3.0), (0.0, 3)])
def test_bounds_of_unequal_types(lower, upper):
    with pytest.raises(TypeError, match="lower and upper .* equal types"):
        lax.fori_loop(lower, upper, lambda i, c: c, 0)


# Functions of x and a number, where jit is off, and what they give for each of 1, 2, 3.
WITHOUT_JIT = {
    "while": (lambda x: lax.while_loop(lambda c: c < 10, lambda c: c * 2, x), [16, 16, 12]),
    "while, the condition closes over x": (lambda x: lax.while_loop(lambda c: c < x, lambda c: c + 1, 0.0), [1, 2, 3]),
    "fori": (lambda x: lax.fori_loop(0, x.astype(int), lambda i, c: c + x, 0.0), [1, 4, 9]),
    "cond": (lambda x: lax.cond(x > 1, lambda: x, lambda: -x), [-1, 2, 3]),
    "scan": (lambda x: lax.scan(lambda c, r: (c + r * x, None), 0.0, X)[0], [6, 12, 18]),
}


@pytest.mark.parametrize("name", WITHOUT_JIT)
def test_without_jit(name):
    f, expected = WITHOUT_JIT[name]
    with xf.disable_jit():
        assert xf.vmap(f)(X).tolist() == expected
        assert [float(f(x)) for x in xnp.asarray(X)] == expected


def test_without_jit_carries_are_arrays():
    """As with jit: what the body changes in place is not what the caller passed."""
    def add(c):
        assert isinstance(c, xf.Array)
        return c + 5

    start = np.ones(1)
    with xf.disable_jit():
        assert lax.while_loop(lambda c: c.sum() < 50, add, start).tolist() == [51] and start == 1
        assert lax.fori_loop(0, 2, lambda i, c: add(c), start).tolist() == [11] and start == 1
        with pytest.raises(ValueError, match="zero-length"):  # nothing says what type the rows have
            lax.scan(lambda c, _: (c + 1, c), 0, None, length=0)


@pytest.mark.parametrize("options", [{"unroll": 0}, {"length": 3.0}, {"length": np.int64(3)}])
def test_integer_like_options(options):
    assert lax.scan(lambda c, r: (c + r, None), 0.0, X, **options)[0] == 6


def test_scalar_read_by_while_condition_becomes_array():
    step, last, constant = lax.while_loop(lambda c: c[0] < c[1], lambda c: (c[0] + 1, c[1], c[2]), (0, 3, 5))
    assert step == last == 3 and last.weak_type and last.dtype == np.int32 and type(constant) is int
