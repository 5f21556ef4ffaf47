"""Running combinations against Python loops, along every axis, in both directions, to second derivatives."""

import itertools

import numpy as np
import pytest
from laws import check_batching, check_derivatives, total

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax

X = np.array([[0.5, -1.5, 2.0], [1.5, 0.25, -0.75], [-2.5, 3.0, 1.0], [0.75, -0.5, 1.25], [1.75, 2.25, -1.0]], np.float32)


def running(combine, xs, axis, reverse):
    """One element after the other, as the definition says."""
    rows = [np.take(x, range(x.shape[axis]), axis) for x in xs]
    count = rows[0].shape[axis]
    order = range(count)[::-1] if reverse else range(count)
    out, last = [None] * count, None
    for i in order:
        row = [np.take(r, i, axis) for r in rows]
        last = row if last is None else combine(last, row)
        out[i] = last
    return [np.stack([row[k] for row in out], axis) for k in range(len(xs))]


CUMULATIVE = {"cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum,
              "cumlogsumexp": np.logaddexp}


@pytest.mark.parametrize("name", CUMULATIVE)
def test_cumulative_operations(name):
    for axis, reverse in itertools.product((0, 1), (False, True)):
        def f(x):
            return getattr(lax, name)(x, axis=axis, reverse=reverse)

        [expected] = running(lambda a, b: [CUMULATIVE[name](a[0], b[0])], [X], axis, reverse)
        np.testing.assert_allclose(f(X), expected, rtol=1e-5)
        np.testing.assert_allclose(xf.jit(f)(X[:1]), running(lambda a, b: [CUMULATIVE[name](a[0], b[0])], [X[:1]], axis,
                                                             reverse)[0], rtol=1e-5)
        assert f(X[:0]).shape == (0, 3)

    def last(x):  # the case that is differentiated
        return getattr(lax, name)(x, axis=0, reverse=True)

    rng = np.random.default_rng(0)
    check_batching(last, [X])
    check_derivatives(last, [X], rng)
    check_derivatives(xf.grad(total(lambda x: xnp.sin(last(x)))), [X], rng, 1e-5)


def _affine(a, b):
    """Composition of x -> scale * x + shift, which does not commute."""
    return {"scale": b["scale"] * a["scale"], "shift": b["scale"] * a["shift"] + b["shift"]}


@pytest.mark.parametrize("axis, reverse", list(itertools.product((0, 1), (False, True))))
def test_associative_scan_of_pairs(axis, reverse):
    def f(scale, shift):
        return lax.associative_scan(_affine, {"scale": scale, "shift": shift}, reverse=reverse, axis=axis)

    def combine(a, b):
        found = _affine(*[dict(zip(("scale", "shift"), v)) for v in (a, b)])
        return [found["scale"], found["shift"]]

    shift = np.cos(X)
    for n in range(1, 6):
        part = X[:n], shift[:n]
        expected = running(combine, part, axis, reverse)
        found = f(*part)
        np.testing.assert_allclose(found["scale"], expected[0], rtol=1e-5)
        np.testing.assert_allclose(found["shift"], expected[1], rtol=1e-5)
    if axis == 0:
        rng = np.random.default_rng(0)
        check_batching(f, [X, shift])
        check_derivatives(f, [X, shift], rng, 1e-5)
        check_derivatives(xf.grad(total(f), (0, 1)), [X, shift], rng, 1e-4)


def test_number_of_operations():
    # Of a scan over n elements: two combinations, and seven operations that cut and join, a level of log2(n).
    program = xf.make_jaxpr(lambda x: lax.associative_scan(xnp.multiply, x))(np.ones(1000))
    assert len(program.eqns) <= 10 * np.log2(1000)
    assert sum(eqn.primitive.name == "mul" for eqn in program.eqns) <= 2 * np.log2(1000)


def test_bad_input_raises():
    with pytest.raises(TypeError, match="needs a function to combine elements with, got 3"):
        lax.associative_scan(3, X)
    with pytest.raises(ValueError, match=r"one size along axis 0, got \[1, 5\]"):
        lax.associative_scan(_affine, {"scale": X, "shift": X[:1]})
    with pytest.raises(ValueError, match=r"all have axis 1, got shapes \[\(5, 3\), \(5,\)\]"):
        lax.associative_scan(_affine, {"scale": X, "shift": X[:, 0]}, axis=1)
    with pytest.raises(ValueError, match="axis 2"):
        lax.associative_scan(xnp.add, X, axis=2)
    with pytest.raises(ValueError, match="must return what it takes"):
        lax.associative_scan(lambda a, b: (a, b), X)
    with pytest.raises(TypeError, match=r"it got float32\[2,3\] and returned float16\[2,3\]"):
        lax.associative_scan(lambda a, b: (a + b).astype(np.float16), X)
    with pytest.raises(TypeError, match="cumsum does not accept dtype bool"):
        lax.cumsum(np.array([True]))


@pytest.mark.cpu_only  # GPUs count a start that is no identity several times, as in the reference
def test_reduction_by_a_function():
    def product(x, start):
        return lax.reduce(x, start, lambda a, b: a * b + 0 * a, (0,))

    def composed(scale, shift, start):
        return lax.reduce((scale, shift), (start, 0.0), lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), (0,))

    with xf.enable_x64(True):
        np.testing.assert_allclose(product(X.astype(np.float64), 2.0), 2 * X.prod(0))
        rows = xf.vmap(product, (None, 0))(X.astype(np.float64), np.array([1.0, 3.0]))  # a start for each element
        np.testing.assert_allclose(rows, [X.prod(0), 3 * X.prod(0)])
    rng = np.random.default_rng(0)
    check_batching(product, [X, np.float32(1.5)])
    check_derivatives(product, [X, np.float64(1.5)], rng)
    check_derivatives(composed, [X, np.cos(X), np.float64(1.5)], rng)
    check_derivatives(xf.grad(total(composed), (0, 1, 2)), [X, np.cos(X), np.float64(1.5)], rng, 1e-5)

    def ranked(x):
        return lax.reduce((x, np.arange(15, dtype=np.int32).reshape(5, 3)), (np.float32(-np.inf), np.int32(-1)),
                          lambda a, b: (lax.max(a[0], b[0]), lax.select(a[0] > b[0], a[1], b[1])), (0,))

    values, indices = ranked(X)
    np.testing.assert_array_equal(indices, X.argmax(0) * 3 + np.arange(3))
    np.testing.assert_array_equal(xf.grad(lambda x: xnp.sum(ranked(x)[0]))(X), X == X.max(0))


@pytest.mark.parametrize("combine, numpy_name, starts", [
    (lax.bitwise_xor, "bitwise_xor", (0, False, np.int32(0), np.uint8(0))), (lax.bitwise_or, "bitwise_or", (0, False)),
    (lax.bitwise_and, "bitwise_and", (-1, True)), (lax.add, "add", (0, 0.0, False, 0j)), (lax.mul, "multiply", (1, 1.0, True)),
    (lax.max, "maximum", (False, -np.inf, -2**31, np.uint8(0))), (lax.min, "minimum", (True, np.inf, 2**31 - 1))])
def test_reduction_from_nothing_of_another_dtype(combine, numpy_name, starts):
    """A start that changes nothing, as a number of its own dtype, may have any; all others have the dtype of the array."""
    for x in (np.uint32([5, 3, 2**32 - 2]), np.int8([5, -3, 7])):
        expected = getattr(np, numpy_name).reduce(x, dtype=x.dtype)
        for start in starts:
            found = lax.reduce(x, start, combine, (0,))
            assert found.dtype == x.dtype and found == expected, (x.dtype, start)
        for start in (2, np.float32(2)):
            with pytest.raises(TypeError, match="dtypes should match"):
                lax.reduce(x, start, combine, (0,))
    with pytest.raises(TypeError):
        xf.jit(lambda start: lax.reduce(np.uint32([5, 3]), start, combine, (0,)))(np.int32(starts[0]))
