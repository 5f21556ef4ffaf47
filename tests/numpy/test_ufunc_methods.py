"""Methods of ufuncs, compared with NumPy."""

import warnings

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp

X = np.array([[1.0, 2.0, 3.0], [2.0, 0.5, -1.0]], np.float32)
K = np.array([[5, 3, 6], [2, 7, 4]], np.int32)
B = X > 1
BINARY = {"add": X, "multiply": X, "subtract": X, "maximum": X, "minimum": X, "logaddexp": X, "logaddexp2": X,
          "bitwise_and": K, "bitwise_or": K, "bitwise_xor": K, "logical_and": B, "logical_or": B, "logical_xor": B}


def same(ours, theirs):
    np.testing.assert_allclose(ours, theirs, rtol=2e-6)
    assert np.asarray(ours).dtype.kind == theirs.dtype.kind


@pytest.mark.parametrize("name", BINARY)
def test_methods(name):
    ours, theirs, x = getattr(xnp, name), getattr(np, name), BINARY[name]
    assert (ours.nin, ours.nout) == (2, 1)
    assert isinstance(ours, xnp.ufunc)
    for axis in (0, 1, -1):
        same(ours.reduce(x, axis=axis), theirs.reduce(x, axis=axis))
        same(ours.accumulate(x, axis=axis), theirs.accumulate(x, axis=axis))
    same(ours.reduce(x, keepdims=True), theirs.reduce(x, keepdims=True))
    same(ours.reduce(x, axis=None), theirs.reduce(x.ravel()))
    same(ours.outer(x[0], x), theirs.outer(x[0], x))
    same(ours.reduceat(x, np.array([0, 2, 1]), axis=1), theirs.reduceat(x, [0, 2, 1], axis=1))
    changed = x.copy()
    theirs.at(changed, ([0, 0],), x[1])
    same(ours.at(x, ([0, 0],), x[1], inplace=False), changed)
    assert ours.identity == {"maximum": None, "minimum": None, "subtract": None}.get(name, theirs.identity)
    same(xf.jit(ours.reduce)(x), theirs.reduce(x))


def test_initial_and_where():
    mask = X > 1
    for name, start in (("add", 2.0), ("subtract", 2.0), ("maximum", 0.0), ("logaddexp", 1.0)):
        ours, theirs = getattr(xnp, name), getattr(np, name)
        same(ours.reduce(X, initial=start), theirs.reduce(X, initial=start))
        same(ours.reduce(X, initial=start, where=mask), np.stack([
            theirs.reduce(np.r_[np.float32(start), X[mask[:, j], j]]) for j in range(3)]))
    with pytest.raises(ValueError, match="identity"):
        xnp.subtract.reduce(X, where=mask)
    with pytest.raises(ValueError, match="identity"):
        xnp.subtract.reduce(np.zeros((0, 3)))
    assert np.all(xnp.logaddexp.reduce(np.zeros((0, 3))) == -np.inf)


def test_negative():
    np.testing.assert_array_equal(xnp.negative.at(X, (0,), inplace=False), [-X[0], X[1]])
    for method in ("reduce", "accumulate"):
        with pytest.raises(ValueError, match="binary"):
            getattr(xnp.negative, method)(X)


def test_unsupported_arguments_raise():
    np.testing.assert_array_equal(xnp.add(X, X, out=None, where=None), X + X)
    with pytest.raises(NotImplementedError, match="out"):
        xnp.add(X, X, out=X)
    with pytest.raises(NotImplementedError, match="where"):
        xnp.negative(X, where=B)
    for f, arguments in ((xnp.sign, (X,)), (xnp.equal, (X, X)), (xnp.arctan2, (X, X)), (xnp.sin, (X,))):  # no ufuncs in the reference
        with pytest.raises(TypeError, match="where"):
            f(*arguments, where=B)
    with pytest.raises(NotImplementedError, match="immutable.*inplace=False"):
        xnp.add.at(X, (0,), 1.0)
    assert not isinstance(xnp.exp, xnp.ufunc)
    assert not isinstance(np.add, xnp.ufunc)


def test_logaddexp2_in_16_bits():
    """The derivative is between 0 and 1, and accurate to the precision of the dtype."""
    for x, y in ((1.0, 1.0), (2.5, -1.0), (-3.0, 4.0), (30.0, 2.0)):
        share = 1 / (1 + 2.0 ** (y - x))
        found = xf.grad(lambda a, b: xnp.logaddexp2(a, b).astype("float32"))(xnp.bfloat16(x), xnp.bfloat16(y))
        np.testing.assert_allclose(np.float32(found), share, rtol=2e-2)


def test_integer_powers_use_six_bits_of_the_exponent():
    base = np.array([2, 3, -1, 0, 5], np.int32)
    for exponent in ([31, 40, 127, 100, 0], [-1, -2, -3, -1, -4]):
        exponent = np.array(exponent, np.int8)
        expected = [pow(int(x), int(n) & 63, 2**32) for x, n in zip(base, exponent)]
        np.testing.assert_array_equal(np.asarray(xnp.power(base, exponent)).astype(np.uint32), np.array(expected, np.uint32))
    for exponent in (-1, np.int8(-1), xnp.int32(-1)):
        with pytest.raises(TypeError, match="negative power"):
            xnp.power(base, exponent)
    assert xnp.power(np.int8([3]), np.int32(2)).dtype == np.int8


def test_at_computes_in_the_promoted_dtype():
    x = xnp.array([5, 6])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        np.testing.assert_array_equal(x.at[0].multiply(2.5), [12, 6])
        np.testing.assert_array_equal(x.at[xnp.array([0, 0])].multiply(2.5), [31, 6])
        np.testing.assert_array_equal(x.at[0].add(np.nan), [0, 6])
        np.testing.assert_array_equal(x.at[0].set(np.nan), [0, 6])
        result = xnp.array([True, False]).at[0].power(2)
    assert result.dtype == np.int32
    assert result.tolist() == [1, 0]
    np.testing.assert_array_equal(xnp.array([5, 6], "uint8").at[0].add(300), [49, 6])
    for name in ("add", "multiply", "subtract"):
        with pytest.raises(TypeError, match="bool"):
            getattr(xnp.array([True, False]).at[0], name)(True)
    for read in (lambda at: at.get(mode="wrap"), lambda at: at.set(1, mode="wrap")):
        with pytest.raises(ValueError, match="wrap"):
            read(x.at[5])


@pytest.mark.parametrize("axes", [(0, 1), (2, 0), (), (-1,), (0, 1, 2)])
def test_reductions_over_several_axes(axes):
    x = np.arange(24).reshape(2, 3, 4) % 7
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "logical_xor", "logical_and", "logaddexp"):
        for keepdims in (False, True):
            given = x.astype(np.float32) if name == "logaddexp" else x
            expected = getattr(np, name).reduce(given, axis=axes, keepdims=keepdims)
            if name.startswith("logical"):
                expected = expected.astype(bool)
            found = getattr(xnp, name).reduce(given, axis=axes, keepdims=keepdims)
            np.testing.assert_allclose(found, expected, rtol=1e-5, err_msg=name)
    mask = x > 2
    np.testing.assert_array_equal(xnp.bitwise_or.reduce(x, axis=axes, where=mask, initial=8),
                                  np.bitwise_or.reduce(x, axis=axes, where=mask, initial=8))


def test_equal_functions_of_one_function():
    def subtract(x, y):
        return x - y

    first, second = (xnp.frompyfunc(subtract, 2, 1, identity=0) for _ in range(2))
    assert first == second and hash(first) == hash(second)
    assert first != xnp.frompyfunc(subtract, 2, 1) != xnp.frompyfunc(subtract, 2, 2)
    assert xf.jit(first)(5, 3) == 2 and first.reduce(np.array([7, 2, 1])) == -10


def test_segments_that_begin_beyond_the_end_are_nan():
    np.testing.assert_array_equal(xnp.add.reduceat(xnp.arange(3.0), xnp.array([5, 1])), [np.nan, 3])
    for indices in (xnp.array(1), xnp.array([[0]])):
        with pytest.raises(ValueError, match="vector"):
            xnp.add.reduceat(xnp.arange(3.0), indices)
    for axes in (None, (0,), (0, 1)):
        with pytest.raises(ValueError, match="one axis"):
            xnp.add.reduceat(X, np.array([0, 1]), axes)


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "subtract", "bitwise_xor", "logical_or"])
def test_updates_out_of_bounds_are_dropped(name):
    """Repeated indices apply the function repeatedly, as in NumPy; those out of bounds change nothing."""
    x, b = np.int32([1, 0, 3, 4]), np.int32([5, 2, 7, 9, 6])
    inside = x.astype(bool) if name == "logical_or" else x.copy()
    getattr(np, name).at(inside, [-1, 3, 2], b[[1, 2, 4]])
    np.testing.assert_array_equal(getattr(xnp, name).at(x, np.int32([7, -1, 3, -9, 2]), b, inplace=False), inside)


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_bitwise_reductions_need_integers(name):
    """The class of the error is that of JAX."""
    for x in (np.ones(3, np.float32), np.ones(3, np.complex64)):
        with pytest.raises(ValueError, match="integer"):
            getattr(xnp, name).reduce(x)
