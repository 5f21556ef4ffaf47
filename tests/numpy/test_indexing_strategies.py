"""Strategies of `x.at[index].get`: values compared with NumPy, and the primitives that read."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp

X = np.arange(24, dtype=np.float32).reshape(4, 6)
READS = [
    ("static_slice", (1,)), ("static_slice", (slice(1, 4, 2), slice(None, None, -1))), ("static_slice", (Ellipsis, None, -2)),
    ("dynamic_slice", (1,)), ("dynamic_slice", (slice(1, 3), np.int32(-2))), ("dynamic_slice", (Ellipsis, slice(2, 5))),
    ("dynamic_slice", (None, 2)), ("dynamic_slice", (slice(None, None, -1),)), ("dynamic_slice", (slice(2, 2),)),
    ("gather", (1,)), ("gather", (slice(1, 3), 2)), ("gather", (np.array([0, 3]), 1)), ("gather", (slice(0, 4, 2),)),
    ("auto", (np.array([0, 3]), 1)),
]


@pytest.mark.parametrize(("strategy", "index"), READS)
def test_values_and_gradients(strategy, index):
    def f(x):
        return x.at[index].get(strategy=strategy)

    for run in (f, xf.jit(f)):
        np.testing.assert_array_equal(run(xnp.asarray(X)), X[index])
    expected = np.zeros_like(X)
    np.add.at(expected, index, 1)
    np.testing.assert_array_equal(xf.grad(lambda x: f(x).sum())(xnp.asarray(X)), expected)


@pytest.mark.parametrize(("strategy", "primitive"), [
    ("gather", "gather"), ("static_slice", "slice"), ("dynamic_slice", "dynamic_slice")])
def test_primitives(strategy, primitive):
    text = str(xf.make_jaxpr(lambda x: x.at[1, 2].get(strategy=strategy))(X))
    assert f"= {primitive}[" in text


def test_positions_out_of_bounds():
    x = xnp.asarray(X[0])
    assert x.at[20].get(strategy="dynamic_slice") == 5 and x.at[-20].get(strategy="dynamic_slice") == 0
    assert np.isnan(x.at[20].get(mode="fill", strategy="gather"))
    assert x.at[xnp.int32(-3)].get(strategy="dynamic_slice", wrap_negative_indices=False) == 0


@pytest.mark.parametrize(("index", "options", "error", "words"), [
    (0, {"strategy": "x"}, ValueError, "unknown indexing strategy"), (0, {"strategy": "scatter"}, ValueError, "not support"),
    (0, {"strategy": None}, TypeError, "str or IndexingStrategy"), (0, {"strategy": 1}, TypeError, "str or IndexingStrategy"),
    (np.array([0, 1]), {"strategy": "static_slice"}, TypeError, "static scalars or slices"),
    (True, {"strategy": "static_slice"}, TypeError, "static scalars or slices"),
    (20, {"strategy": "static_slice"}, IndexError, "out of bounds"),
    (np.array([0, 1]), {"strategy": "dynamic_slice"}, TypeError, "only scalar indices"),
    (slice(0, 4, 2), {"strategy": "dynamic_slice"}, TypeError, "only unit steps"),
    (0, {"strategy": "dynamic_slice", "mode": "fill"}, ValueError, "requires mode="),
    (0, {"strategy": "static_slice", "mode": "fill"}, ValueError, "requires mode=")])
def test_bad_input_raises(index, options, error, words):
    with pytest.raises(error, match=words):
        xnp.asarray(X).at[index].get(**options)


def test_reversed_rows():
    for rows in (list(reversed(xnp.asarray(X))), xf.jit(lambda x: list(reversed(x)))(X)):
        np.testing.assert_array_equal(rows, X[::-1])
        assert all(isinstance(row, xf.Array) for row in rows)
    assert list(reversed(xnp.zeros((0, 2)))) == []
    with pytest.raises(TypeError, match="iteration over a 0-d array"):
        reversed(xnp.float32(3))


def test_module_of_array_functions():
    x = xnp.asarray(X)
    assert x.__array_module__((type(x), np.ndarray)) is xnp and x.__array_module__((int,)) is NotImplemented
