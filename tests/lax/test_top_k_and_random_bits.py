"""`top_k`, stacks, `index_take`, random bits, total order of floats, `mulhi`, composites and `dce_sink`."""

import numpy as np
import pytest
from laws import check_batching, check_derivatives

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax

X = np.random.default_rng(2).permutation(24).reshape(4, 6).astype(np.float32)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("k", [0, 1, 3])
def test_top_k(k, axis, rng):
    order = np.take(np.argsort(-X, axis), np.arange(k), axis)
    for f, x, sign in ((lax.top_k, X, 1), (lax.approx_max_k, X, 1), (lax.approx_min_k, -X, -1)):
        if k == 0 and f is not lax.top_k:
            continue
        name = "axis" if f is lax.top_k else "reduction_dimension"
        values, indices = f(x, k, **{name: axis})
        assert indices.dtype == np.int32
        np.testing.assert_array_equal(indices, order)
        np.testing.assert_array_equal(values, sign * np.take_along_axis(X, order, axis))
        if k == 3:
            check_batching(lambda v, f=f, name=name: f(v, k, **{name: axis}), [x])
            check_derivatives(lambda v, f=f, name=name: f(v, k, **{name: axis})[0], [x], rng)


def test_top_k_of_nan_ties_and_other_dtypes():
    """NaN is first, and the first of equal elements, as in JAX."""
    values, indices = lax.top_k(np.array([1, np.nan, 3, np.nan, -np.inf, 0.0], np.float32), 5)
    np.testing.assert_array_equal(values, [np.nan, np.nan, 3, 1, 0])
    assert indices.tolist() == [1, 3, 2, 0, 5]
    for dtype in ("int8", "uint32", "bfloat16", "float16", "bool"):
        x = np.array([2, 3, 0, 3, 1]).astype(dtype)
        values, indices = lax.top_k(x, 2)
        assert values.dtype == x.dtype and indices.tolist() == ([0, 1] if dtype == "bool" else [1, 3])


def test_approx_max_k_without_aggregation():
    """All candidates are returned: 2048 of 5000 elements, as in JAX."""
    values, indices = lax.approx_max_k(np.arange(5000, dtype=np.float32), 2, aggregate_to_topk=False)
    assert values.shape == indices.shape == (2048,)
    np.testing.assert_array_equal(values, np.asarray(indices).astype(np.float32))
    assert {4998.0, 4999.0} <= set(np.asarray(values).tolist())


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_stacks(axis, rng):
    y = X * 2
    np.testing.assert_array_equal(lax.stack([X, y], axis), np.stack([X, y], axis))
    check_batching(lambda a, b: lax.stack([a, b], axis), [X, y])
    check_derivatives(lambda a, b: lax.stack([a, b, a], axis), [X, y], rng)
    z = np.stack([X, y], axis)
    for ours, theirs in zip(lax.unstack(z, axis), (X, y)):
        np.testing.assert_array_equal(ours, theirs)
    check_batching(lambda a: lax.unstack(a, axis), [z])
    check_derivatives(lambda a: lax.unstack(a, axis)[1] ** 2, [z], rng)
    assert [e.primitive.name for e in xf.make_jaxpr(xf.vjp(lambda a: lax.unstack(a, axis), z)[1])(lax.unstack(z, axis)).eqns] == ["stack"]


def test_shape_as_value_and_index_take(rng):
    assert lax.broadcast_like(X[:, :1], X).shape == X.shape and lax.broadcast_like(1, X).dtype == np.int32
    assert lax.shape_as_value((2, 3)).tolist() == [2, 3] and lax.shape_as_value(()).dtype == np.int32
    rows, columns = np.array([1, -1, 6]), np.array([2, 9, 0])
    np.testing.assert_array_equal(lax.index_take(X, (rows, columns), (0, 1)), X[rows % 4, columns % 6])
    np.testing.assert_array_equal(lax.index_take(X, (columns,), (1,)), X.T[columns % 6])
    check_derivatives(lambda x: lax.index_take(x, (rows,), (0,)), [X], rng)
    check_batching(lambda x: lax.index_take(x, (rows,), (0,)), [X])


# algorithm, key and bits that follow 0, 1, 2, 3: facts of the reference on CPUs
BITS = [(0, [0, 1, 3, 3], [895509795, 3230209149, 3834998268]), (1, [0, 1, 4, 3], [2689575991, 2205648888, 150810639]),
        (2, [0, 1, 3, 3], [895509795, 3230209149, 3834998268])]


@pytest.mark.cpu_only
@pytest.mark.parametrize("algorithm, new_key, bits", BITS)
def test_bits(algorithm, new_key, bits):
    key, words = lax.rng_bit_generator(np.arange(4, dtype=np.uint32), (3,), algorithm=lax.RandomAlgorithm(algorithm))
    assert (key.tolist(), words.tolist()) == (new_key, bits)
    keys, batch_bits = xf.vmap(lambda k: lax.rng_bit_generator(k, (3,), algorithm=algorithm))(np.arange(8, dtype=np.uint32).reshape(2, 4))
    assert keys.tolist()[1] == [4, 5, 6, 7] and batch_bits.shape == (2, 3) and (algorithm == 1 or batch_bits[0].tolist() == bits)
    with xf.enable_x64(True):
        key, words = lax.rng_bit_generator(np.array([1, 2], np.uint64), (2, 3), "uint64", algorithm)
        assert key.dtype == words.dtype == np.uint64 and words.shape == (2, 3)


def test_uniform_without_a_key():
    x = np.asarray(lax.rng_uniform(2.0, 5.0, (1000,)))
    assert x.min() >= 2 and x.max() < 5 and abs(x.mean() - 3.5) < 0.2
    assert set(np.asarray(lax.rng_uniform(0, 3, (100,))).tolist()) == {0, 1, 2}


def test_total_order_of_floats():
    ranked = np.array([-np.inf, -1, -0.0, 0.0, 1, np.inf, np.nan], np.float32)
    ranked[-1] = abs(ranked[-1])
    x, y = np.meshgrid(ranked, ranked, indexing="ij")
    i, j = np.indices(x.shape)
    for p, expected in ((lax.eq_to_p, i == j), (lax.le_to_p, i <= j), (lax.lt_to_p, i < j)):
        np.testing.assert_array_equal(p.bind(x, y), expected)
    assert lax.lt_to_p.bind(np.array([1, 250], np.uint8), np.array([2, 2], np.uint8)).tolist() == [True, False]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32"])
def test_mulhi(dtype, rng):
    info = np.iinfo(dtype)
    x, y = rng.integers(info.min, info.max, (2, 50), endpoint=True).astype(dtype)
    np.testing.assert_array_equal(lax.mulhi(x, y), (x.astype(object) * y.astype(object)) >> info.bits)


def test_composite():
    op = lax.composite(lambda x, *, scale, kind: {"s": xnp.sin(x) * scale}, "my.op", 2)
    np.testing.assert_allclose(op(X, scale=2.0, kind="a")["s"], np.sin(X) * 2, rtol=1e-5)
    text = xf.jit(lambda x: op(x, scale=2.0, kind="a")).lower(X).as_text()
    assert 'stablehlo.composite "my.op"' in text and 'composite_attributes = {kind = "a", scale = 2.0' in text and "version = 2 : i32" in text
    [eqn] = xf.make_jaxpr(lambda x: op(x, scale=np.ones(6, np.float32), kind="b"))(X).eqns
    assert sorted(eqn.params) == ["attributes", "jaxpr", "name", "version"]


def test_dce_sink_keeps_unused_values():
    def f(x):
        lax.dce_sink({"a": x * 2})
        return xnp.sum(x)

    for g in (f, xf.jit(f), xf.grad(f), xf.jit(xf.grad(f))):
        assert "dce_sink" in str(xf.make_jaxpr(g)(X))
    assert xf.jit(f)(X) == X.sum() and lax.dce_sink(X) is None
    assert "@dce_sink" in xf.jit(lambda x: lax.dce_sink(x, prevent_mlir_dce=True)).lower(X).as_text()
    assert xf.grad(lambda x: lax.stage(x) * 3)(2.0) == 3 and xf.jit(lambda: lax.stage(2.0))() == 2


BAD = [
    (lambda: lax.top_k(X, 7), ValueError, "no larger"), (lambda: lax.top_k(X, -1), ValueError, "nonnegative"),
    (lambda: lax.top_k(X.astype(complex), 1), ValueError, "complex"), (lambda: lax.top_k(X, 2.0), TypeError, "integer"),
    (lambda: lax.top_k(1.0, 1), ValueError, "axis"), (lambda: lax.top_k([1.0], 1), TypeError, "list"),
    (lambda: lax.approx_max_k(X, 7), ValueError, "reduction_dim"), (lambda: lax.approx_max_k(X, 0), ValueError, "positive"),
    (lambda: lax.approx_min_k(X.astype(int), 1), ValueError, "floating"), (lambda: lax.approx_max_k(1.0, 1), TypeError, "dimension"),
    (lambda: lax.approx_max_k(X, 1, recall_target=1.5), ValueError, "out of range"),
    (lambda: lax.approx_max_k(X, 1, reduction_input_size_override=3), ValueError, "out of range"),
    (lambda: lax.stack([]), IndexError, "at least one"), (lambda: lax.stack([X, X[0]]), ValueError, "dimensions"),
    (lambda: lax.stack([X, X[:2]]), ValueError, "same shape"), (lambda: lax.stack([X, X.astype("float16")]), TypeError, "dtypes"),
    (lambda: lax.stack([X, X], 3), ValueError, "axis 3"), (lambda: lax.stack(3), TypeError, "iterable"),
    (lambda: lax.unstack(X, 2), ValueError, "axis 2"), (lambda: lax.unstack(1.0), ValueError, "axis 0"),
    (lambda: lax.broadcast_like(X, X[0]), ValueError, "fewer dimensions"), (lambda: lax.broadcast_like(X[:, :2], X), ValueError, "broadcast"),
    (lambda: lax.index_take(X, (np.ones(1),), (0,)), ValueError, "integer type"), (lambda: lax.index_take(X, (np.ones(1, int),), (2,)), IndexError, "index"),
    (lambda: lax.rng_bit_generator(np.zeros(4, np.uint32), (2,), "int32"), TypeError, "unsupported dtype"),
    (lambda: lax.rng_bit_generator(np.zeros(3, np.uint32), (2,)), TypeError, "words"),
    (lambda: lax.rng_uniform(0, 1.0, (2,)), ValueError, "identical dtypes"), (lambda: lax.rng_uniform(np.zeros(2), np.ones(2), (2,)), ValueError, "scalars"),
    (lambda: xf.grad(lambda a: lax.rng_uniform(a, 1.0, (2,)).sum())(0.0), NotImplementedError, "rng_uniform"),
    (lambda: lax.mulhi(X, X), TypeError, "dtype"), (lambda: lax.composite(3, "a"), TypeError, "callable"),
    (lambda: xf.grad(lax.composite(xnp.sin, "my.op"))(1.0), ValueError, "JVP rule"),
    (lambda: xf.vmap(lax.composite(xnp.sin, "my.op"))(X), NotImplementedError, "atching rule"),
    (lambda: xf.jit(lambda x: lax.composite(lambda y: y + x, "my.op")(x))(1.0), xf.errors.UnexpectedTracerError, "Tracer as a constant"),
    (lambda: lax.stage("a"), TypeError, "str"), (lambda: lax.shape_as_value((2.0,)), TypeError, "integer"),
]


@pytest.mark.parametrize("call, kind, words", BAD)
def test_bad_input_raises(call, kind, words):
    with pytest.raises(kind, match=words):
        call()
