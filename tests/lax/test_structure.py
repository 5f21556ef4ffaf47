"""Structural primitives, reductions and products: values, derivatives, batching, bad input."""

import itertools
import math

import numpy as np
import pytest
from laws import check_batching, check_derivatives

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.lax.reductions import better_pair

A = np.random.default_rng(1).normal(size=(2, 3, 4)).astype(np.float32)
M = A[0]
# name: (ours, theirs, arguments); all of them linear or smooth in each argument
ROWS = {
    "broadcast": (lambda x: lax.broadcast(x, (2,)), lambda x: np.broadcast_to(x, (2, *x.shape)), (M,)),
    "broadcast_in_dim": (
        lambda x: lax.broadcast_in_dim(x, (3, 2, 4), (0, 2)),
        lambda x: np.broadcast_to(x[:, None], (3, 2, 4)),
        (M,),
    ),
    "stretch": (lambda x: lax.broadcast_in_dim(x, (3, 4), (0, 1)), lambda x: np.broadcast_to(x, (3, 4)), (M[:1],)),
    "reshape": (lambda x: lax.reshape(x, (4, 6)), lambda x: x.reshape(4, 6), (A,)),
    "transpose": (lambda x: lax.transpose(x, (2, 0, 1)), lambda x: x.transpose(2, 0, 1), (A,)),
    "squeeze": (lambda x: lax.squeeze(x, (1,)), lambda x: x[:, 0], (A[:, :1],)),
    "expand_dims": (lambda x: lax.expand_dims(x, (0, 2)), lambda x: x[None, :, None], (M,)),
    "rev": (lambda x: lax.rev(x, (0, 2)), lambda x: x[::-1, :, ::-1], (A,)),
    "slice": (lambda x: lax.slice(x, (0, 1, 0), (2, 3, 4), (1, 1, 2)), lambda x: x[:, 1:3, ::2], (A,)),
    "slice_in_dim": (lambda x: lax.slice_in_dim(x, 1, None, 2, 2), lambda x: x[:, :, 1::2], (A,)),
    "concatenate": (lambda x, y: lax.concatenate([x, y], 1), lambda x, y: np.concatenate([x, y], 1), (M, M[:, :2])),
    "pad": (
        lambda x, v: lax.pad(x, v, ((1, 2, 0), (0, 0, 1))),
        lambda x, v: np.pad(np.insert(x, [1, 2, 3], v, axis=1), ((1, 2), (0, 0)), constant_values=v),
        (M, np.float32(2.5)),
    ),
    "negative pad": (lambda x: lax.pad(x, 0.0, ((-1, 0, 0), (0, -2, 0))), lambda x: x[1:, :-2], (M,)),
    "dynamic_slice": (lambda x: lax.dynamic_slice(x, (1, 2), (2, 2)), lambda x: x[1:3, 2:4], (M,)),
    "dynamic_update_slice": (
        lambda x, y: lax.dynamic_update_slice(x, y, (1, 1)),
        lambda x, y: np.concatenate([x[:1], np.concatenate([x[1:2, :1], y, x[1:2, 3:]], 1), x[2:]]),
        (M, M[:1, :2] * 3),
    ),
    "reduce_sum": (lambda x: lax.reduce_sum(x, (0, 2)), lambda x: x.sum((0, 2)), (A,)),
    "reduce_prod": (lambda x: lax.reduce_prod(x, (1,)), lambda x: x.prod(1), (A,)),
    "reduce_max": (lambda x: lax.reduce_max(x, (1,)), lambda x: x.max(1), (A,)),
    "reduce_min": (lambda x: lax.reduce_min(x, (0, 1, 2)), lambda x: x.min(), (A,)),
    "cumsum": (lambda x: lax.cumsum(x, 1), lambda x: x.cumsum(1), (A,)),
    "cumsum reverse": (lambda x: lax.cumsum(x, 1, reverse=True), lambda x: x[:, ::-1].cumsum(1)[:, ::-1], (A,)),
    "cumprod": (lambda x: lax.cumprod(x, 2), lambda x: x.cumprod(2), (A,)),
    "cummax": (lambda x: lax.cummax(x, 0), lambda x: np.maximum.accumulate(x, 0), (M,)),
    "cummin": (lambda x: lax.cummin(x, 1), lambda x: np.minimum.accumulate(x, 1), (M,)),
    "cumlogsumexp": (lambda x: lax.cumlogsumexp(x, 1), lambda x: np.logaddexp.accumulate(x, 1), (M,)),
    "dot": (lambda x, y: lax.dot(x, y), lambda x, y: x @ y, (M, M.T)),
    "dot_general": (
        lambda x, y: lax.dot_general(x, y, (((2,), (1,)), ((0,), (0,)))),
        lambda x, y: np.einsum("bij,bjk->bik", x, y),
        (A, A.transpose(0, 2, 1)),
    ),
    "two contractions": (
        lambda x, y: lax.dot_general(x, y, (((0, 2), (1, 0)), ((), ()))),
        lambda x, y: np.einsum("iaj,jik->ak", x, y),
        (A, np.ascontiguousarray(A.transpose(2, 0, 1))),
    ),
    "sort": (lambda x: lax.sort(x, 1), lambda x: np.sort(x, 1), (A,)),
    "sort_key_val": (
        lambda x, y: lax.sort_key_val(x, y)[1],
        lambda x, y: np.take_along_axis(y, np.argsort(x, -1), -1),
        (M, M * 2),
    ),
    "top_k": (lambda x: lax.top_k(x, 2)[0], lambda x: np.sort(x, -1)[..., ::-1][..., :2], (M,)),
    "stack": (lambda x, y: lax.stack([x, y], 1), lambda x, y: np.stack([x, y], 1), (M, M)),
    "split": (lambda x: lax.split(x, (1, 3), 1), lambda x: [x[:, :1], x[:, 1:]], (M,)),
    "tile": (lambda x: lax.tile(x, (2, 3)), lambda x: np.tile(x, (2, 3)), (M,)),
    "collapse": (lambda x: lax.collapse(x, 0, 2), lambda x: x.reshape(6, 4), (A,)),
    "associative_scan": (lambda x: lax.associative_scan(lambda a, b: a * b, x, axis=1), lambda x: x.cumprod(1), (M,)),
    "associative_scan reverse": (
        lambda x: lax.associative_scan(lambda a, b: a + b, x, reverse=True),
        lambda x: x[::-1].cumsum(0)[::-1],
        (M,),
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_operation(name, rng):
    ours, theirs, args = ROWS[name]
    with np.errstate(all="ignore"):
        expected = theirs(*args)
    got = ours(*args)
    for a, b in zip(xf.tree.leaves(got), xf.tree.leaves(expected)):
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-5, atol=1e-6)
    for a, b in zip(xf.tree.leaves(xf.jit(ours)(*args)), xf.tree.leaves(got)):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    check_derivatives(ours, args, rng)
    check_batching(ours, args)


GATHERS = [  # operand shape, indices, dimension numbers, slice sizes, brute force
    ((5, 3), [[4], [0]], lax.GatherDimensionNumbers((1,), (0,), (0,)), (1, 3), lambda x: x[[4, 0]]),
    ((5, 3), [[1, 2], [0, 0]], lax.GatherDimensionNumbers((), (0, 1), (0, 1)), (1, 1), lambda x: x[[1, 0], [2, 0]]),
    ((5, 3), [[2]], lax.GatherDimensionNumbers((1, 2), (), (0,)), (2, 3), lambda x: x[None, 2:4]),
]


@pytest.mark.parametrize("shape, indices, numbers, sizes, brute", GATHERS)
def test_gather(shape, indices, numbers, sizes, brute, rng):
    x = rng.normal(size=shape).astype(np.float32)
    index = np.array(indices, np.int32)
    f = lambda x: lax.gather(x, index, numbers, sizes)  # noqa: E731
    np.testing.assert_array_equal(np.asarray(f(x)), brute(x))
    check_derivatives(f, [x], rng)
    check_batching(f, [x])
    check_batching(lambda x, i: lax.gather(x, i, numbers, sizes), [x, index])


@pytest.mark.parametrize(
    "name, combine",
    [
        ("scatter", None),
        ("scatter_add", np.add),
        ("scatter_sub", np.subtract),
        ("scatter_mul", np.multiply),
        ("scatter_min", np.minimum),
        ("scatter_max", np.maximum),
    ],
)
def test_scatter(name, combine, rng):
    x, updates = rng.normal(size=(5, 3)).astype(np.float32), rng.normal(size=(2, 3)).astype(np.float32)
    index = np.array([[4], [1]], np.int32)
    numbers = lax.ScatterDimensionNumbers((1,), (0,), (0,))

    def f(x, updates):
        return getattr(lax, name)(x, index, updates, numbers, unique_indices=True)

    expected = x.copy()
    for row, update in zip((4, 1), updates):
        expected[row] = update if combine is None else combine(expected[row], update)
    np.testing.assert_allclose(np.asarray(f(x, updates)), expected, rtol=1e-6)
    check_derivatives(f, [x, updates], rng)
    check_batching(f, [x, updates])
    check_batching(lambda x, i, u: getattr(lax, name)(x, i, u, numbers), [x, index, updates])


def test_multiplied_elements_are_linear_in_the_array():
    [found] = xf.linear_transpose(lambda x: x.at[np.array([0, 2, 2])].multiply(3), np.ones(4, np.float32))(np.float32([1, 2, 3, 4]))
    assert found.tolist() == [3, 2, 27, 4]
    assert xf.grad(lambda y: np.float32([2, 5, 7]) @ xnp.array([2., 3, 4]).at[1].multiply(y))(4.) == 15  # one update is unique
    with pytest.raises(NotImplementedError, match="unique"):
        xf.grad(lambda y: xnp.ones(3).at[np.array([0, 0])].multiply(y).sum())(4.)


def test_multiplied_elements_are_linear_in_unique_updates():
    """An update out of bounds has no cotangent."""
    x, index, ct = np.float32([2, 3, 4, 5]), np.array([3, 7, 0]), np.float32([1, 10, 100, 1000])
    transposed = xf.linear_transpose(lambda y: xnp.asarray(x).at[index].multiply(y, unique_indices=True), np.ones(3, np.float32))
    for call in (transposed, xf.jit(transposed)):
        assert call(ct)[0].tolist() == [5000, 0, 2]
    assert xf.vmap(transposed)(np.stack([ct, 2 * ct]))[0].tolist() == [[5000, 0, 2], [10000, 0, 4]]
    with pytest.raises(NotImplementedError, match="unique"):
        xf.linear_transpose(lambda y: xnp.asarray(x).at[index].multiply(y), np.ones(3, np.float32))(ct)


def test_derivatives_of_the_next_number():
    slope = xf.jit(xf.grad(lambda x, y: (3 * lax.nextafter(x, y)), (0, 1)))(1., 2.)
    assert [float(t) for t in slope] == [3, 0]


def test_dynamic_slice_positions(rng):
    for start in (-1, 0, 2, 9):  # negative ones count from the end, all are moved inside
        inside = min(max(start + 3 if start < 0 else start, 0), 1)
        np.testing.assert_array_equal(np.asarray(lax.dynamic_slice_in_dim(M, start, 2)), M[inside : inside + 2])
    check_batching(lambda x, i: lax.dynamic_slice(x, (i, i), (2, 2)), [M, np.int32(1) * np.ones((), np.int32)])
    check_batching(lambda x, u, i: lax.dynamic_update_slice(x, u, (i, 0)), [M, M[:1], np.ones((), np.int32)])


def test_start_indices_must_have_one_type():
    for mixed in ((np.int32(1), np.int16(0)), (xnp.uint8(1), 0), (0, xnp.int16(1))):
        with pytest.raises(TypeError, match="one integer type, got .*int"):
            lax.dynamic_slice(M, mixed, (1, 1))
        with pytest.raises(TypeError, match="one integer type, got .*int"):
            lax.dynamic_update_slice(M, M[:1, :1], mixed)
    assert lax.dynamic_slice(M, (np.int8(1), np.int8(0)), (1, 1)) == M[1, 0]
    assert lax.dynamic_slice(M, (xnp.array(1), 0), (1, 1)) == M[1, 0]
    np.testing.assert_array_equal(lax.dynamic_index_in_dim(M, np.uint8(1)), M[1:2])


def test_argmax_of_short_and_long_rows(rng):
    for dtype in ("f4", "f2", "i4", "u1", "bool"):
        x = rng.integers(-3, 3, (50, 3, 4)).astype(dtype)
        if x.dtype.kind == "f":
            x.reshape(-1)[::5], x.reshape(-1)[1::7] = np.nan, -np.inf
        for axis in range(3):
            np.testing.assert_array_equal(lax.argmax(x, axis, "int32"), np.argmax(x, axis))
            np.testing.assert_array_equal(lax.argmin(x, axis, "int8"), np.argmin(x, axis))
    for row in (np.full(5, -np.inf), rng.integers(0, 50, 1000)):
        assert lax.argmax(row, 0, "int32") == np.argmax(row)


def test_pairs_of_value_and_index_are_reduced_in_any_order():
    """GPUs combine the pairs of an array in an order of their own."""
    for values, dtype in (([np.nan, np.nan, -np.inf, 0.0, -0.0, 1.0], "float32"), ([3, 3, -1, 2], "int32"), ([0, 1, 1], "bool")):
        pairs = [(np.asarray(v, dtype), np.int32(i)) for i, v in enumerate(values)]
        for name, theirs in (("argmax", np.argmax), ("argmin", np.argmin)):
            for first, second in itertools.product(pairs, pairs):
                expected = [first, second][theirs(np.array([first[0], second[0]]))]
                if first[1] > second[1]:
                    expected = [second, first][theirs(np.array([second[0], first[0]]))]
                assert better_pair(name, *first, *second)[1] == expected[1]


def test_argmax(rng):
    for function, theirs in ((lax.argmax, np.argmax), (lax.argmin, np.argmin)):
        np.testing.assert_array_equal(np.asarray(function(A, 1, np.int32)), theirs(A, 1))
        check_batching(lambda x: function(x, 0, np.int32), [M])  # noqa: B023
    assert lax.argmax(np.array([1, np.nan, 2], np.float32), 0, np.int32) == 1


def test_reduce():
    x = np.arange(1.0, 7.0, dtype=np.float32).reshape(2, 3)
    assert lax.reduce(x, np.float32(0), lax.add, (1,)).tolist() == [6, 15]
    assert lax.reduce(x, np.float32(1), lambda a, b: a * b, (0, 1)) == math.factorial(6)
    assert lax.reduce(x, np.float32(-1), lambda a, b: lax.max(lax.abs(a), lax.abs(b)), (0,)).tolist() == [4, 5, 6]
    values, indices = lax.reduce(
        (x, np.tile(np.arange(3, dtype=np.int32), (2, 1))),
        (np.float32(-9), np.int32(-1)),
        lambda a, b: (lax.max(a[0], b[0]), lax.select(a[0] >= b[0], a[1], b[1])),
        (1,),
    )
    assert values.tolist() == [3, 6] and indices.tolist() == [2, 2]


@pytest.mark.parametrize("dimensions", [(), (0,), (0, 1)])
@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: (x,), lambda x: [x], lambda x: {"a": x}, lambda x: ([x], None)])
def test_reduce_returns_the_pytree_of_its_function(wrap, dimensions):
    x = np.arange(1.0, 7.0, dtype=np.float32).reshape(2, 3)
    for combine in (lambda a, b: wrap(a[0] + b[0]), lambda a, b: wrap(a[0] * 0 + a[0] + b[0])):
        found = lax.reduce([x], [np.float32(0)], combine, dimensions)
        assert xf.tree.structure(found) == xf.tree.structure(wrap(0))
        np.testing.assert_array_equal(np.asarray(xf.tree.leaves(found)[0]), x.sum(dimensions))


def test_reductions_by_functions_that_loop_call_or_capture():
    """XLA's reductions support elementwise functions only; others crash the process."""
    x = np.arange(1.0, 5.0, dtype=np.float32)

    def windows(f):
        return lax.reduce_window(x, np.float32(0), f, (2,), (1,), "VALID")

    def looping(a, b):
        return lax.fori_loop(0, 1, lambda i, c: c + a, b)

    def calling(a, b):
        return xf.pure_callback(np.add, a, a, b, vmap_method="expand_dims")

    for f in (looping, calling, lambda a, b: (a + b) * xnp.linalg.cholesky(xnp.eye(2))[0, 0]):
        assert lax.reduce(x, np.float32(0), f, (0,)) == 10 and windows(f).tolist() == [3, 5, 7]

    def scaled(y):
        return lax.reduce(x, np.float32(1), lambda a, b: a * b * y, (0,))  # y to the fourth, times 24

    assert xf.jit(scaled)(2.0) == 384 and xf.grad(scaled)(2.0) == 768
    assert xf.vmap(scaled)(xnp.array([1.0, 2.0])).tolist() == [24, 384]
    assert xf.jit(lambda y: windows(lambda a, b: xnp.maximum(a, b) + 0 * y))(2.0).tolist() == [2, 3, 4]
    jaxpr = xf.make_jaxpr(lambda x: lax.reduce(x, -np.inf, xnp.logaddexp, (0,)))(x)
    assert [eqn.primitive.name for eqn in jaxpr.eqns] == ["reduce"]  # what is of elements alone goes the short way


def test_empty_and_single_elements():
    empty = np.zeros((0, 3), np.float32)
    assert lax.reduce_sum(empty, (0,)).tolist() == [0, 0, 0]
    assert lax.concatenate([empty, empty], 0).shape == (0, 3)
    assert lax.sort(empty, 0).shape == (0, 3)
    assert lax.cumsum(empty, 0).shape == (0, 3)
    assert lax.dot(empty, np.ones((3, 2), np.float32)).shape == (0, 2)
    assert lax.dot(np.ones((2, 0), np.float32), np.ones((0, 2), np.float32)).tolist() == [[0, 0], [0, 0]]
    assert np.isneginf(lax.reduce_max(empty, (0,))).all()


def test_integer_reductions(rng):
    x = rng.integers(0, 2**31 - 1, (3, 4)).astype(np.int32)
    for name, theirs in (("reduce_and", np.bitwise_and), ("reduce_or", np.bitwise_or), ("reduce_xor", np.bitwise_xor)):
        np.testing.assert_array_equal(np.asarray(getattr(lax, name)(x, (0,))), theirs.reduce(x, 0))
    b = x % 2 == 0
    assert lax.reduce_and(b, (0, 1)) == b.all() and lax.reduce_or(b, (0, 1)) == b.any()


def test_products_of_other_types(rng):
    x = rng.integers(-3, 4, (2, 3)).astype(np.int8)
    assert lax.dot(x, x.T).dtype == np.int8
    wide = lax.dot(x, x.T, preferred_element_type=np.int32)
    assert wide.dtype == np.int32 and wide.tolist() == (x.astype(np.int32) @ x.T.astype(np.int32)).tolist()
    half = rng.normal(size=(4, 4)).astype(np.float16)
    assert lax.dot(half, half, preferred_element_type=np.float32).dtype == np.float32
    for precision in ("default", "high", "highest", lax.Precision.HIGHEST, ("high", "highest")):
        np.testing.assert_allclose(np.asarray(lax.dot(M, M.T, precision=precision)), M @ M.T, rtol=1e-5)
    with pytest.raises(ValueError, match="precision"):
        lax.dot(M, M.T, precision="best")


def test_sort_order():
    x = np.array([3, np.nan, -0.0, np.inf, 0.0, -np.inf], np.float32)
    ours = np.asarray(lax.sort(x))
    np.testing.assert_array_equal(ours, np.sort(x))
    assert lax.sort((np.array([1, 0, 1, 0]), np.array([4, 3, 2, 1])), num_keys=2)[1].tolist() == [1, 3, 2, 4]
    assert lax.sort((np.array([1, 0, 1, 0]), np.arange(4)), num_keys=1)[1].tolist() == [1, 3, 0, 2]  # stable
    assert lax.top_k(np.array([1.0, 3.0, 3.0, 2.0]), 2)[1].tolist() == [1, 2]


BAD = [
    (lambda: lax.reshape(M, (5, 5)), "reshape"),
    (lambda: lax.transpose(M, (0, 0)), "transpose"),
    (lambda: lax.broadcast_in_dim(M, (3,), (0, 1)), "broadcast"),
    (lambda: lax.concatenate([M, M[:, :2]], 0), "concatenate"),
    (lambda: lax.concatenate([], 0), "at least one"),
    (lambda: lax.dot(M, M), "dot"),
    (lambda: lax.squeeze(M, (0,)), "squeeze"),
    (lambda: lax.slice(M, (0, 0), (9, 4)), "slice"),
    (lambda: lax.reduce_sum(M, (5,)), "axis|dimension"),
    (lambda: lax.dynamic_slice(M, (0,), (1, 1)), "start"),
    (lambda: lax.pad(M, 0.0, ((0, 0, 0),)), "pad"),
    (lambda: lax.iota(bool, 3), "iota"),
    (lambda: lax.top_k(M, 9), "top_k"),
    (lambda: lax.split(M, (1, 1), 1), "add up"),
    (lambda: lax.gather(M, np.array([[0.5]]), GATHERS[0][2], (1, 4)), "integer"),
]


@pytest.mark.parametrize("call, words", BAD, ids=[str(i) for i in range(len(BAD))])
def test_bad_input_raises(call, words):
    with pytest.raises((TypeError, ValueError), match=words):
        call()


def test_convenience_functions(rng):
    """Functions that are special cases of other functions."""
    a, b = rng.normal(size=(2, 3, 4)).astype(np.float32), rng.normal(size=(2, 4, 2)).astype(np.float32)
    assert np.allclose(lax.batch_matmul(a, b), a @ b, atol=1e-5)
    row = rng.normal(size=(1, 1, 6)).astype(np.float32)
    found = lax.conv_with_general_padding(row, row[..., :3], (1,), [(1, 1)], None, None)
    assert np.allclose(found[0, 0], np.correlate(np.pad(row[0, 0], 1), row[0, 0, :3], "valid"), atol=1e-5)
    assert lax.conv_shape_tuple((1, 2, 5, 5), (3, 2, 3, 3), (2, 1), ((0, 0), (1, 1))) == (1, 3, 2, 5)
    assert lax.conv_general_permutations(("NHWC", "HWIO", "NCHW")) == ((0, 3, 1, 2), (3, 2, 0, 1), (0, 1, 2, 3))
    assert lax.dynamic_update_slice_in_dim(np.zeros(4), np.ones(2), 3, 0).tolist() == [0, 0, 1, 1]
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    assert lax.scatter_apply(np.arange(4.0), np.array([[1], [3]]), lambda x: 10 * x, numbers, update_shape=(2,)).tolist() == [0, 10, 2, 30]
    assert np.allclose(lax.fft(np.ones(4, np.complex64), "fft", (4,)), [4, 0, 0, 0])


def test_operations_without_effect_return_arrays():
    """Also for NumPy arrays and Python scalars, whose dtypes become canonical."""
    for found in (lax.reshape(np.ones(2), (2,)), lax.reshape(np.float64(2), ()), lax.reshape(2.0, ()), lax.collapse(np.ones((2, 3)), 0, 1)):
        assert isinstance(found, xf.Array) and found.dtype == np.float32
    assert xnp.flatnonzero(np.array([0, 3])).tolist() == [1]


def test_long_cumulative_sums(rng):
    """Long rows, and shorter ones of large arrays, are split into blocks, which need not divide the size of the row."""
    for shape, axis in (((5000,), 0), ((2, 1100), 1), ((1025, 3), 0), ((2700, 100), 1), ((70, 4000), 0)):
        x = rng.integers(-9, 9, shape).astype(np.int32)
        for reverse in (False, True):
            turned = np.flip(x, axis) if reverse else x
            for name, numpys in (("cumsum", np.cumsum), ("cummax", np.maximum.accumulate)):
                expected = numpys(turned, axis=axis)
                found = getattr(lax, name)(x, axis=axis, reverse=reverse)
                assert np.array_equal(found, np.flip(expected, axis) if reverse else expected), (name, shape, reverse)


def test_sinks_in_modules_run():
    def f(x):
        lax.dce_sink(x + 1, prevent_mlir_dce=True)
        return x

    assert xf.jit(f)(1.0) == 1 and "dce_sink" in xf.jit(f).lower(1.0).as_text()


def test_symbols_have_the_names_of_functions():
    """As far as MLIR has no other use of a character."""
    def f(x):
        return lax.composite(lambda x: 2 * x, "my.double")(x)

    f.__name__ = "a.b$c-d"
    text = xf.jit(lambda x: xf.jit(f)(x)).lower(np.float32(1)).as_text()
    assert "decomposition = @my.double" in text and '@"a.b$c-d"(' in text


@pytest.mark.parametrize("name", ["double", "my library.double", ".double"])
def test_names_of_composites_have_a_namespace(name):
    """In compiled programs; outside of them, the decomposition runs."""
    double = lax.composite(lambda x: x * 2, name)
    assert double(np.ones(2)).tolist() == xf.grad(lambda x: x @ double(np.ones(2)))(np.ones(2)).tolist() == [2, 2]
    with pytest.raises(ValueError, match="my_library"):
        xf.jit(double)(np.ones(2))


def test_effects_of_composites():
    ref, printed = xf.new_ref(1.0), []

    def run(x):
        xf.debug.callback(lambda x: printed.append(float(x)), x, ordered=True)
        ref[...] += x
        return ref[...]

    assert lax.composite(run, "my.run")(2.0) == ref[...] == 3
    xf.effects_barrier()
    assert printed == [2]
    with pytest.raises(NotImplementedError, match="my.print has the ordered effects"):
        xf.jit(lax.composite(lambda x: xf.debug.callback(print, x, ordered=True) or x, "my.print"))(1.0)


def test_dtypes_as_attributes_of_composites():
    double = lax.composite(lambda x, **_: x * 2, "my.double")
    text = xf.jit(lambda x: double(x, dtype=np.dtype("float16"), several=(np.dtype("int8"), 1))).lower(1.0).as_text()
    assert "dtype = f16" in text and "several = [i8, 1 : i64]" in text.replace("[i8, 1]", "[i8, 1 : i64]")
