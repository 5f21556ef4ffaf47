"""Ragged and block-scaled products against loops: values, derivatives, batching and errors."""

import numpy as np
import pytest
from laws import check_batching, check_derivatives

import xlafront as xf
from xlafront import lax

R = np.random.default_rng(3)
Numbers = lax.RaggedDotDimensionNumbers
A, B, SIZES = R.normal(size=(5, 4)).astype(np.float32), R.normal(size=(2, 4, 3)).astype(np.float32), np.array([2, 1], np.int32)


def rows_of(sizes, n):
    """Return the rows of each group."""
    ends = np.cumsum(sizes)
    return [[i for i in range(n) if end - size <= i < end] for end, size in zip(ends, sizes)]


def test_ragged_dot(rng):
    for sizes in ([2, 1], [3, 2], [0, 5], [3, 9], [3, -1], [0, 0]):
        expected = np.zeros((5, 3), np.float32)
        for group, rows in enumerate(rows_of(sizes, 5)):
            expected[rows] = A[rows] @ B[group]
        np.testing.assert_allclose(lax.ragged_dot(A, B, np.array(sizes, np.int32)), expected, rtol=1e-5, atol=1e-6)
    check_derivatives(lambda a, b: lax.ragged_dot(a, b, SIZES), [A, B], rng)
    check_batching(lambda a, b, s: lax.ragged_dot(a, b, s), [A, B, SIZES])


# dimension numbers, shapes, an einsum for one group: of which lhs (and rhs, when it has no groups) are rows of that group
MODES = {
    "kept": (Numbers((((0,), (2,)), ((2,), (0,))), [1], [1]), (4, 5, 3), (3, 2, 4, 6), "xrb,bxf->brf"),
    "kept, the second": (Numbers((((2,), (1,)), ((), ())), [1], [0]), (2, 5, 4), (2, 4, 3), "orx,xf->orf"),
    "summed": (Numbers((((0,), (1,)), ((), ())), [0], []), (5, 4), (3, 5), "rk,fr->kf"),
    "summed, with a batch": (Numbers((((2,), (0,)), ((1,), (1,))), [2], []), (4, 2, 5), (5, 2, 3), "kbr,rbf->bkf"),
    "batch": (Numbers((((2,), (1,)), ((0,), (0,))), [0], []), (5, 2, 4), (5, 4, 3), "rkx,rxf->rkf"),
}


@pytest.mark.parametrize("mode", MODES)
def test_modes(mode, rng):
    numbers, x_shape, y_shape, formula = MODES[mode]
    x, y = (R.normal(size=s).astype(np.float32) for s in (x_shape, y_shape))
    f = lambda x, y: lax.ragged_dot_general(x, y, SIZES, numbers)  # noqa: E731
    ragged, group = numbers.lhs_ragged_dimensions[0], next(iter(numbers.rhs_group_dimensions), None)
    if mode == "batch":
        expected = np.einsum(formula, x, y)
    else:
        products = []
        for g, rows in enumerate(rows_of(SIZES, 5)):
            inside = np.zeros(5, np.float32)
            inside[rows] = 1
            masked = np.moveaxis(np.moveaxis(x, ragged, -1) * inside, -1, ragged)
            products.append(np.einsum(formula, masked, y if group is None else np.take(y, g, group)))
        expected = np.stack(products) if group is None else sum(products)
    np.testing.assert_allclose(f(x, y), expected, rtol=1e-4, atol=1e-5)
    check_derivatives(f, [x, y], rng)
    check_batching(f, [x, y])
    check_batching(lambda s: lax.ragged_dot_general(x, y, s, numbers), [SIZES])


def test_sizes_that_differ_between_rows(rng):
    numbers = MODES["kept, the second"][0]
    x, sizes = R.normal(size=(2, 5, 4)).astype(np.float32), np.array([[2, 1], [0, 4]], np.int32)
    got = lax.ragged_dot_general(x, B, sizes, numbers)
    for i in range(2):
        np.testing.assert_allclose(got[i], lax.ragged_dot(x[i], B, sizes[i]), rtol=1e-6)
    check_derivatives(lambda x, y: lax.ragged_dot_general(x, y, sizes, numbers), [x, B], rng)
    check_batching(lambda x, s: lax.ragged_dot_general(x, B, s, numbers), [x, sizes])


def test_types():
    assert lax.ragged_dot(A, B, SIZES, preferred_element_type="float16").dtype == np.float16
    assert lax.ragged_dot(A.astype(int), B.astype(int), SIZES, precision="highest").dtype == np.int32
    [eqn] = xf.make_jaxpr(lambda a: lax.ragged_dot(a, B, SIZES))(A).eqns
    assert sorted(eqn.params) == ["group_offset", "out_sharding", "precision", "preferred_element_type", "ragged_dot_dimension_numbers"]
    assert eqn.primitive.name == "ragged_dot_general"


def test_scaled_dot():
    x, y = (R.integers(-3, 4, s).astype(np.float32) for s in ((2, 3, 8), (2, 8, 5)))
    sx, sy = 2.0 ** R.integers(-2, 3, (2, 3, 4)), 2.0 ** R.integers(-2, 3, (2, 2, 5))
    expected = (x * np.repeat(sx, 2, 2)) @ (y * np.repeat(sy, 4, 1))
    f = lambda *v: lax.scaled_dot(v[0], v[1], lhs_scale=v[2], rhs_scale=v[3], preferred_element_type="float32")  # noqa: E731
    args = [x, y, sx.astype(np.float32), sy.astype(np.float32)]
    np.testing.assert_array_equal(f(*args), expected)
    np.testing.assert_array_equal(xf.vmap(f)(*args), expected)
    np.testing.assert_array_equal(lax.scaled_dot(x, y, lhs_scale=args[2], preferred_element_type="float32"), (x * np.repeat(sx, 2, 2)) @ y)
    assert lax.scaled_dot(x, y).dtype == "bfloat16"
    with pytest.raises(NotImplementedError, match="scaled_dot"):
        xf.grad(lambda x: lax.scaled_dot(x, y).sum())(x)


@pytest.mark.cpu_only
def test_algorithms():
    algorithm = lax.DotAlgorithm(np.float32, np.float32, np.float32)
    [eqn] = xf.make_jaxpr(lambda a: lax.dot(a, a.T, precision=algorithm))(A).eqns[1:]
    assert eqn.params["precision"] == algorithm and algorithm.num_primitive_operations == 1
    with pytest.raises(ValueError, match="DotAlgorithm.* not supported"):
        lax.dot(A, A.T, precision=algorithm)


S = np.ones((3, 2), np.float32)
X, Y = np.ones((3, 8), np.float32), np.ones((8, 5), np.float32)
BAD = [
    (lambda: lax.ragged_dot(A, B[0], SIZES), TypeError, "group dimension"), (lambda: lax.ragged_dot(A, B, SIZES[:1]), TypeError, "group dimension size to be 1, .* got 2"),
    (lambda: lax.ragged_dot(A, B, np.ones(2)), TypeError, "integer"), (lambda: lax.ragged_dot(A[:, :3], B, SIZES), TypeError, "contracting"),
    (lambda: lax.ragged_dot(A, B, SIZES, group_offset=np.array([1])), TypeError, "group_offset"),
    (lambda: lax.ragged_dot(A, B, np.ones((3, 2), int)), TypeError, "shape"),
    (lambda: lax.ragged_dot_general(A, B, SIZES, Numbers((((1,), (1,)), ((), ())), [0, 1], [0])), TypeError, "exactly one lhs"),
    (lambda: lax.ragged_dot_general(A, B, SIZES, Numbers((((1,), (1,)), ((), ())), [0], [])), TypeError, "exactly one rhs"),
    (lambda: lax.ragged_dot_general(A, B, SIZES, Numbers((((1,), (1,)), ((), ())), [0], [1])), TypeError, "distinct"),
    (lambda: lax.ragged_dot_general(A, A, SIZES, Numbers((((0,), (0,)), ((), ())), [0], [0])), TypeError, "zero group"),
    (lambda: lax.scaled_dot(X[0], Y), TypeError, "rank"), (lambda: lax.scaled_dot(X, Y.T), TypeError, "does not match"),
    (lambda: lax.scaled_dot(X, Y, lhs_scale=np.ones((3, 3), np.float32)), TypeError, "divisible"), (lambda: lax.scaled_dot(X, Y, lhs_scale=X), TypeError, "at least 2"),
    (lambda: lax.scaled_dot(X, Y, lhs_scale=S[:1]), TypeError, "does not match scale"),
]


@pytest.mark.parametrize("call, kind, words", BAD)
def test_bad_input(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


def test_dimension_numbers_are_tuples():
    numbers, expected = lax.RaggedDotDimensionNumbers([[[1], [1]], [[], []]], [0], [0]), ((((1,), (1,)), ((), ())), (0,), (0,))
    assert (numbers.dot_dimension_numbers, numbers.lhs_ragged_dimensions, numbers.rhs_group_dimensions) == expected
    assert numbers == lax.RaggedDotDimensionNumbers(*expected) and len({numbers, lax.RaggedDotDimensionNumbers(*expected)}) == 1
