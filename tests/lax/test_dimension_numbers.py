"""`gather` and `scatter` reject invalid dimension numbers while tracing."""

import numpy as np
import pytest

import xlafront as xf
from xlafront import lax

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
ROWS, PAIRS = np.array([[0], [1]]), np.array([[0, 1], [1, 2]])
BATCHED = np.array([[[0], [1], [2]], [[1], [1], [0]]])
# What is wrong: indices, windows' dimensions in the result, dropped ones, indexed ones, batches of array and indices, words
BOTH = {
    "windows out of order": (ROWS, (2, 1), (0,), (0,), (), (), "must be sorted"),
    "windows twice": (ROWS, (1, 1), (0,), (0,), (), (), "must not repeat"),
    "windows beyond": (ROWS, (1, 3), (0,), (0,), (), (), "out of bounds"),
    "windows below": (ROWS, (-1, 2), (0,), (0,), (), (), "out of bounds"),
    "dropped out of order": (PAIRS, (1,), (1, 0), (0, 1), (), (), "must be sorted"),
    "dropped twice": (ROWS, (1,), (0, 0), (0,), (), (), "must not repeat"),
    "dropped beyond": (ROWS, (1, 2), (3,), (0,), (), (), "out of bounds"),
    "dropped below": (ROWS, (1, 2), (-1,), (0,), (), (), "out of bounds"),
    "too few dropped": (ROWS, (1, 2), (), (0,), (), (), "together"),
    "too many dropped": (ROWS, (1, 2), (0, 1), (0,), (), (), "together"),
    "indexed twice": (PAIRS, (1,), (0, 1), (0, 0), (), (), "must not repeat"),
    "indexed beyond": (ROWS, (1, 2), (0,), (3,), (), (), "out of bounds"),
    "indexed below": (ROWS, (1, 2), (0,), (-1,), (), (), "out of bounds"),
    "too many indexed": (ROWS, (1, 2), (0,), (0, 1), (), (), "one coordinate"),
    "none indexed": (ROWS, (1, 2), (0,), (), (), (), "one coordinate"),
    "batches twice": (BATCHED, (2,), (1,), (1,), (0, 0), (0, 1), "must not repeat"),
    "batches out of order": (BATCHED, (), (2,), (2,), (1, 0), (1, 0), "must be sorted"),
    "batches beyond": (BATCHED, (2,), (1,), (1,), (3,), (0,), "out of bounds"),
    "batches below": (BATCHED, (2,), (1,), (1,), (-1,), (0,), "out of bounds"),
    "batches dropped": (BATCHED, (2,), (0,), (1,), (0,), (0,), "disjoint"),
    "batches indexed": (BATCHED, (2,), (1,), (0,), (0,), (0,), "disjoint"),
    "batches of indices beyond": (BATCHED, (2,), (1,), (1,), (0,), (2,), "out of bounds"),
    "batches of indices below": (BATCHED, (2,), (1,), (1,), (0,), (-1,), "out of bounds"),
    "fewer batches of indices": (BATCHED, (2,), (1,), (1,), (0,), (), "one length"),
    "batches of other sizes": (BATCHED, (2,), (1,), (1,), (0,), (1,), "one size"),
}


def refused(call, words):
    for f in (call, xf.jit(call), xf.vmap(call, axis_size=2)):
        with pytest.raises(TypeError, match=words):
            xf.eval_shape(f)


@pytest.mark.parametrize("case", BOTH)
def test_invalid_numbers_raise(case):
    indices, window, dropped, indexed, batches, index_batches, words = BOTH[case]
    gather = lax.GatherDimensionNumbers(window, dropped, indexed, batches, index_batches)
    sizes = [1 if d in (*dropped, *batches) else n for d, n in enumerate(X.shape)]
    refused(lambda: lax.gather(X, indices, gather, sizes), words)
    scatter = lax.ScatterDimensionNumbers(window, dropped, indexed, batches, index_batches)
    shape = [2] * (len(window) + indices.ndim - 1)
    for name in ("scatter", "scatter_add", "scatter_max"):
        refused(lambda name=name: getattr(lax, name)(X, indices, np.ones(shape, np.float32), scatter), words)
    with pytest.raises(TypeError, match=words):  # as a primitive too
        xf.eval_shape(lambda: lax.gather_p.bind(
            X, indices, dimension_numbers=gather, slice_sizes=tuple(sizes), unique_indices=False, indices_are_sorted=False,
            mode=lax.GatherScatterMode.CLIP, fill_value=None))


@pytest.mark.parametrize("sizes, words", [
    ((2, 3, 4), "slice size must be 1"), ((1, 4, 4), "between 0"), ((1, -1, 4), "between 0"), ((1, 3), "one size for each"),
    ((1, 3, 4, 1), "one size for each")])
def test_invalid_slice_sizes_raise(sizes, words):
    refused(lambda: lax.gather(X, ROWS, lax.GatherDimensionNumbers((1, 2), (0,), (0,)), sizes), words)


@pytest.mark.parametrize("shape, words", [
    ((2, 4, 4), "larger than the array"), ((3, 3, 4), "must be those of the indices"), ((2, 3), "out of bounds"),
    ((2, 3, 4, 1), "must have 3 dimensions")])
def test_invalid_updates_raise(shape, words):
    numbers = lax.ScatterDimensionNumbers((1, 2), (0,), (0,))
    refused(lambda: lax.scatter_add(X, ROWS, np.ones(shape, np.float32), numbers), words)


def test_invalid_types_raise():
    numbers = lax.GatherDimensionNumbers((1, 2), (0,), (0,))
    with pytest.raises(ValueError, match="integer type"):
        lax.gather(X, ROWS.astype(np.float32), numbers, (1, 3, 4))
    with pytest.raises(TypeError, match="GatherDimensionNumbers"):
        lax.gather(X, ROWS, ((1, 2), (0,), (0,)), (1, 3, 4))
    with pytest.raises(TypeError, match="last dimension"):
        lax.gather(X, np.array(1), numbers, (1, 3, 4))


def test_valid_numbers_are_accepted():
    """Lists are accepted too, indexed dimensions and batches of indices may have any order, and indices out of bounds are
    clipped."""
    numbers = lax.GatherDimensionNumbers([1], [0, 1], [1, 0])
    np.testing.assert_array_equal(np.asarray(lax.gather(X, np.array([[1, 0], [9, 9]]), numbers, [1, 1, 4])), X[[0, 1], [1, 2]])
    two = lax.GatherDimensionNumbers((), (2,), (2,), (0, 1), (1, 0))
    index = np.array([[[0], [1]], [[2], [3]], [[3], [0]]])  # of dimensions 1 and 0 of the array
    expected = [[X[j, i, index[i, j, 0]] for j in range(2)] for i in range(3)]
    np.testing.assert_array_equal(np.asarray(lax.gather(X, index, two, (1, 1, 1))), expected)
    fill = lax.gather(X[0, 0], np.array([[7]]), lax.GatherDimensionNumbers((), (0,), (0,)), (1,), mode="fill")
    assert np.isnan(np.asarray(fill)).all()
