"""Reductions over sliding windows against brute force: values, derivatives, batches, bad input."""

import functools
import itertools

import numpy as np
import pytest
from laws import check_batching, check_derivatives

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax

X = np.random.default_rng(5).permutation(24).reshape(4, 6).astype(np.float32) / 4


def brute(x, start, combine, window, strides, padding, base=(1, 1), dilation=(1, 1)):
    """Each window's elements, listed in loops. Padding is of elements that do not count, which are NaN here."""
    full = np.full([(n - 1) * b + 1 for n, b in zip(x.shape, base)], np.nan, np.float64)
    full[tuple(slice(None, None, b) for b in base)] = x
    full = np.pad(full, [(max(lo, 0), max(hi, 0)) for lo, hi in padding], constant_values=np.nan)
    full = full[tuple(slice(max(-lo, 0), n - max(-hi, 0)) for n, (lo, hi) in zip(full.shape, padding))]
    spans = [(w - 1) * d + 1 for w, d in zip(window, dilation)]
    result = np.empty([(n - s) // step + 1 for n, s, step in zip(full.shape, spans, strides)], x.dtype)
    for at in np.ndindex(*result.shape):
        corner = [i * s for i, s in zip(at, strides)]
        inside = [full[tuple(c + k * d for c, k, d in zip(corner, place, dilation))]
                  for place in itertools.product(*map(range, window))]
        result[at] = functools.reduce(combine, [v for v in inside if not np.isnan(v)], start)
    return result


# window, strides, padding, base dilation, window dilation
WINDOWS = [
    ((2, 2), (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1)),
    ((2, 3), (2, 1), ((1, 0), (1, 1)), (1, 1), (1, 1)),
    ((1, 2), (3, 2), ((0, 1), (-1, 2)), (1, 1), (1, 1)),
    ((2, 2), (1, 2), ((1, 1), (0, 1)), (2, 1), (1, 1)),
    ((2, 3), (2, 1), ((0, 0), (1, 2)), (1, 2), (2, 1)),
]
COMPUTATIONS = {
    "sum": (0.0, lax.add, np.add),
    "max": (-np.inf, lax.max, np.maximum),
    "min": (np.inf, lax.min, np.minimum),
    "product": (1.0, lax.mul, np.multiply),
    "sum from 2": (2.0, lambda x, y: x + y, np.add),
}


@pytest.mark.parametrize("name", COMPUTATIONS)
@pytest.mark.parametrize("window", WINDOWS)
def test_windows(name, window, rng):
    start, ours, theirs = COMPUTATIONS[name]
    f = lambda x: lax.reduce_window(x, np.asarray(start, x.dtype)[()], ours, *window)  # noqa: E731
    expected = brute(X, start, theirs, *window)
    np.testing.assert_allclose(np.asarray(f(X)), expected, rtol=1e-5)
    assert lax.reduce_window_shape_tuple(X.shape, *window) == expected.shape
    check_batching(f, [X])
    if name in ("max", "min"):
        tangent = rng.normal(size=X.shape).astype(np.float32)
        place = dict(zip(X.ravel().tolist(), tangent.ravel().tolist()))
        values, tangents_out = xf.jvp(f, (X,), (tangent,))
        np.testing.assert_allclose(tangents_out, np.vectorize(lambda v: place.get(v, 0.0))(values), rtol=1e-6)
        if window[4] != (1, 1):
            with pytest.raises(NotImplementedError, match="dilation"):
                xf.grad(lambda x: f(x).sum())(X)
            return
    check_derivatives(f, [X], rng)


def test_fields_of_equations():
    def primitives(*args):
        return [e.primitive.name for e in xf.make_jaxpr(lambda x: lax.reduce_window(x, *args))(X).eqns]

    assert primitives(0, lax.add, (2, 2)) == ["reduce_window_sum"] and primitives(np.float32(1), lax.add, (2, 2)) == ["reduce_window"]
    # The neutral element is that of the start value's dtype, not of the array's.
    assert lax.reduce_window(xnp.arange(4), False, lax.max, (2,)).tolist() == [1, 2, 3]
    assert lax.reduce_window(xnp.arange(4) > 1, -np.inf, lax.max, (2,)).tolist() == [False, True, True]
    with pytest.raises(TypeError, match="dtypes"):
        lax.reduce_window(xnp.arange(4, dtype="uint8"), 0, lax.max, (2,))
    [eqn] = xf.make_jaxpr(lambda x: lax.reduce_window(x, -np.inf, lax.max, (2, 3), (1, 2), "SAME"))(X).eqns
    assert eqn.primitive.name == "reduce_window_max" and eqn.params == {
        "base_dilation": (1, 1), "padding": ((0, 1), (0, 1)), "window_dilation": (1, 1), "window_dimensions": (2, 3), "window_strides": (1, 2)}
    program = xf.make_jaxpr(xf.grad(lambda x: lax.reduce_window(x, np.inf, lax.min, (2, 2), (2, 2)).sum()))(X)
    [eqn] = [e for e in program.eqns if e.primitive.name == "select_and_scatter_add"]
    assert eqn.params["select_prim"] is lax.le_p and set(eqn.params) == {"padding", "select_prim", "window_dimensions", "window_strides"}


@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool", "float16", "bfloat16"])
def test_dtypes(dtype):
    x = (X * 4 % 3).astype(dtype)
    least = np.iinfo(dtype).min if dtype in ("int32", "uint8") else False if dtype == "bool" else -np.inf
    for start, ours in ((0, lax.add), (least, lax.max))[dtype == "bool":]:  # booleans have no sum
        got = lax.reduce_window(x, np.asarray(start).astype(x.dtype)[()], ours, (2, 2), (2, 2), "VALID")
        expected = brute(x.astype(np.float64), start, np.add if ours is lax.add else np.maximum, (2, 2), (2, 2), ((0, 0), (0, 0)))
        assert got.dtype == x.dtype
        np.testing.assert_array_equal(np.asarray(got).astype(np.float64), expected.astype(bool) if dtype == "bool" else expected)


def test_padding_by_name():
    for n, window, stride in itertools.product((1, 4, 7), (1, 2, 3), (1, 2, 3)):
        x = np.arange(1.0, n + 1, dtype=np.float32)
        valid = lax.reduce_window(x, 0.0, lax.add, (window,), (stride,))
        assert valid.shape == (max(0, (n - window) // stride + 1),)
        for name, early in (("SAME", False), ("SAME_LOWER", True)):
            got = lax.reduce_window(x, 0.0, lax.add, (window,), (stride,), name)
            count = -(-n // stride)
            pad = max((count - 1) * stride + window - n, 0)
            low = pad - pad // 2 if early else pad // 2
            np.testing.assert_allclose(got, brute(x, 0.0, np.add, (window,), (stride,), ((low, pad - low),), (1,), (1,)))
            spaced = lax.reduce_window(x, 0.0, lax.add, (window,), (stride,), name, base_dilation=(2,))
            np.testing.assert_allclose(spaced, brute(x, 0.0, np.add, (window,), (stride,), ((low, pad - low),), (2,), (1,)))


def test_several_operands(rng):
    """Reduce values together with their positions."""
    positions = np.arange(24, dtype=np.int32).reshape(4, 6)

    def first(a, b):
        better = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
        return tuple(xf.numpy.where(better, x, y) for x, y in zip(a, b))

    def f(x):
        return lax.reduce_window((x, positions), (np.asarray(-np.inf, x.dtype), np.int32(99)), first, (2, 2), (2, 2))

    values, found = f(X)
    np.testing.assert_array_equal(X.ravel()[np.asarray(found)], values)
    np.testing.assert_array_equal(values, brute(X, -np.inf, np.maximum, (2, 2), (2, 2), ((0, 0), (0, 0))))
    check_batching(f, [X])
    check_derivatives(lambda x: f(x)[0], [X], rng)


def test_mapped_start(rng):
    starts = np.array([1.0, 2.0, 4.0], np.float32)
    got = xf.vmap(lambda s: lax.reduce_window(X, s, lax.mul, (2, 2)))(starts)
    plain = brute(X, 1.0, np.multiply, (2, 2), (1, 1), ((0, 0), (0, 0)))
    np.testing.assert_allclose(got, plain[None] * starts[:, None, None], rtol=1e-6)


def test_an_average_pool_as_libraries_write_it(rng):
    """The mean over what is inside of each window, with its second derivative."""
    def pool(x):
        sums = lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        return sums / lax.reduce_window(xf.numpy.ones_like(x), 0.0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")

    x = rng.normal(size=(2, 4, 5, 3)).astype(np.float32)
    corner = x[:, 2:4, 3:5].mean((1, 2))
    np.testing.assert_allclose(pool(x)[:, 1, 2], corner, rtol=1e-5)
    check_derivatives(lambda x: pool(x) ** 3, [x], rng)
    check_derivatives(xf.grad(lambda x: (pool(x) ** 3).sum()), [x], rng)


def test_gradients_of_gradients_of_maxima(rng):
    def f(x):
        return (lax.reduce_window(x, -np.inf, lax.max, (2, 2), (1, 2), "SAME") ** 3).sum()

    check_derivatives(xf.grad(f), [X], rng)
    check_batching(xf.grad(f), [X])


BAD = [  # arguments, class, words of the message
    ((0.0, lax.add, (2,)), TypeError, "window_dimensions"),
    ((0.0, lax.add, (2, 0)), TypeError, "positive window_dimensions"),
    ((0.0, lax.add, (2.0, 2)), TypeError, "integer"),
    ((0.0, lax.add, 2), TypeError, "sequence"),
    ((0.0, lax.add, (2, 2), (0, 1)), TypeError, "positive window_strides"),
    ((0.0, lax.add, (2, 2), (1,)), TypeError, "window_strides"),
    ((0.0, lax.add, (2, 2), None, "FOO"), RuntimeError, "padding 'FOO'"),
    ((0.0, lax.add, (2, 2), None, ((0, 0),)), ValueError, "padding"),
    ((0.0, lax.add, (2, 2), None, 1), TypeError, "iterable"),
    ((0.0, lax.add, (2, 2), None, "VALID", (0, 1)), TypeError, "dilation"),
    ((0.0, lax.add, (2, 2), None, "VALID", None, (1,)), TypeError, "window_dilation"),
    ((np.zeros(2, np.float32), lax.add, (2, 2)), TypeError, "scalars"),
    ((0, lax.mul, (2, 2)), TypeError, "inconsistent dtypes"),
    ((0.0, lambda a, b: (a, b), (2, 2)), ValueError, "tree structure"),
    ((0.0, lambda a, b: a > b, (2, 2)), TypeError, "dtypes"),
    (((0.0, 0.0), lax.add, (2, 2)), ValueError, "tree structure"),
    ((0.0, None, (2, 2)), TypeError, "callable"),
    (("a", lax.add, (2, 2)), TypeError, "str"),
]


@pytest.mark.parametrize("args, kind, words", BAD)
def test_bad_input(args, kind, words):
    with pytest.raises(kind, match=words):
        lax.reduce_window(X, *args)
    if words == "scalars":
        with pytest.raises(ValueError, match="at least one operand"):
            lax.reduce_window((), (), lax.add, (2, 2))
        with pytest.raises(ValueError, match="compatible"):
            lax.reduce_window((X, X[0]), (0.0, 0.0), lambda a, b: a, (2, 2))


def test_empty_results():
    assert lax.reduce_window(X, 0.0, lax.add, (9, 9)).shape == (0, 0)
    assert lax.reduce_window(np.zeros((0, 3), np.float32), 0.0, lax.add, (1, 2), None, "SAME").shape == (0, 3)
    assert xf.grad(lambda x: lax.reduce_window(x, 0.0, lax.add, (9, 9)).sum())(X).tolist() == np.zeros_like(X).tolist()


def test_reductions_of_keys():
    """The greatest of keys by their first word; windows would need padding, which keys have none of."""
    keys = xf.random.split(xf.random.key(3), 5)
    words = np.asarray(xf.random.key_data(keys))

    def greater(a, b):
        first, second = (xf.random.key_data(k)[0] for k in (a, b))
        return xf.numpy.where(first > second, a, b)

    for reduce in (lax.reduce, xf.jit(lax.reduce, static_argnums=(2, 3))):
        found = reduce(keys, keys[0], greater, (0,))
        np.testing.assert_array_equal(xf.random.key_data(found), words[np.argmax(words[:, 0])])
    with pytest.raises(TypeError, match="key"):
        lax.reduce_window(keys, keys[0], greater, (2,), (1,), "VALID")
