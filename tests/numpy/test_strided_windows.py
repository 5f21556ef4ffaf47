"""Keys with windows `ds(start, size, stride)`, read and updated beside NumPy's slices."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp

X = np.arange(24, dtype=np.float32).reshape(4, 6)
KEYS = [  # the key and NumPy's equivalent
    ((xf.ds(1, 2),), np.s_[1:3]), ((1, xf.ds(2, 3)), np.s_[1, 2:5]), ((xf.ds(1, 2), xf.ds(0, 2)), np.s_[1:3, :2]), ((..., xf.ds(1, 3, 2)), np.s_[..., 1:6:2]),
    ((None, xf.ds(1, 2), ..., 0), np.s_[None, 1:3, ..., 0]), ((xf.ds(1, 2), np.array([0, 4])), np.s_[1:3, [0, 4]]), ((xf.ds(3),), np.s_[:3]),
    ((np.array([True, False, True, False]), xf.ds(2, 2)), np.s_[[0, 2], 2:4]), ((xf.ds(None), 1), np.s_[:, 1]), ((xf.ds(np.int32(2), 0),), np.s_[2:2]),
]


@pytest.mark.parametrize("ours, theirs", KEYS, ids=range(len(KEYS)))
def test_windows_equal_slices(ours, theirs):
    np.testing.assert_array_equal(xnp.asarray(X)[ours], X[theirs])
    new, doubled = X.copy(), X.copy()
    new[theirs] = -1
    doubled[theirs] *= 2
    np.testing.assert_array_equal(xnp.asarray(X).at[ours].set(-1), new)
    np.testing.assert_array_equal(xf.jit(lambda x: x.at[ours].apply(lambda part: 2 * part))(X), doubled)


def test_traced_starts():
    x = xnp.asarray(X)
    read, added = xf.jit(lambda i: x[xf.ds(i, 2), xf.ds(i, 2, 2)]), xf.jit(lambda i: x.at[xf.ds(i, 2), 1].add(100))
    for i in range(3):
        expected = X.copy()
        expected[i:i + 2, 1] += 100
        np.testing.assert_array_equal(read(i), X[i:i + 2, i:i + 4:2])
        np.testing.assert_array_equal(added(i), expected)
    np.testing.assert_array_equal(xf.vmap(lambda i: x[xf.ds(i, 2), 0])(xnp.arange(3)), [X[i:i + 2, 0] for i in range(3)])
    expected = np.zeros_like(X)
    expected[1:3] = 1
    np.testing.assert_array_equal(xf.jit(xf.grad(lambda x, i: x[xf.ds(i, 2)].sum()))(X, 1), expected)


def test_windows_out_of_bounds():
    """Reads shift a window inside; updates drop it, or only elements out of bounds if it has a stride. Results are
    those of JAX."""
    x = xnp.arange(5)
    np.testing.assert_array_equal(x[xf.ds(4, 2)], [3, 4])
    np.testing.assert_array_equal(x[xf.ds(-3, 2)], [2, 3])
    np.testing.assert_array_equal(x[xf.ds(3, 2, 2)], [3, 4])
    np.testing.assert_array_equal(x[xf.ds(-3, 2, 2)], [0, 0])
    np.testing.assert_array_equal(x.at[xf.ds(4, 3)].set(9), x)
    np.testing.assert_array_equal(x.at[xf.ds(-3, 3)].set(9), x)
    np.testing.assert_array_equal(x.at[xf.ds(3, 2, 2)].set(9), [0, 1, 2, 9, 4])
    np.testing.assert_array_equal(x.at[xf.ds(4, 2)].add(9, mode="clip"), [0, 1, 2, 12, 13])
    np.testing.assert_array_equal(x.at[xf.ds(-9, 2)].add(9, mode="clip"), [9, 10, 2, 3, 4])


@pytest.mark.parametrize("attempt, error, match", [
    (lambda x: x[xf.ds(0, 9)], TypeError, "9"), (lambda x: x[xf.ds(1.5, 2)], TypeError, "integer"), (lambda x: x[xf.ds(0, 2, -1)], ValueError, "stride"),
    (lambda x: xf.jit(lambda n: x[xf.ds(0, n)])(2), TypeError, "concrete"), (lambda x: x[xf.ds(0, 2), 0], IndexError, "too many"),
    (lambda x: x[xf.ds(xnp.array([1, 2]), 2)], TypeError, "scalar"), (lambda x: xf.ds(xnp.array(2)), TypeError, "size"),
], ids=range(7))
def test_bad_windows_raise(attempt, error, match):
    with pytest.raises(error, match=match):
        attempt(xnp.arange(5))


def test_windows_are_pytrees():
    assert xf.tree.leaves(xf.ds(1, 2)) == [] and xf.tree.map(lambda x: x, xf.ds(1, 2, 3)) == xf.ds(1, 2, 3)
    x = xnp.arange(5)
    np.testing.assert_array_equal(xf.jit(lambda window: x[window])(xf.ds(xnp.array(2), 2)), [2, 3])
