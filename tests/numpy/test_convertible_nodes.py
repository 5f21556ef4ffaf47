"""Objects that have `__jax_array__` and are nodes of pytrees, such as parameters of libraries.

Functions take them as their array, also where C++ repeats a call with the leaves of the object; functions that do not take
them raise.
"""

import re
import warnings

import numpy as np
import pytest
import scipy.linalg

import xlafront as xf
import xlafront.numpy as xnp
import xlafront.scipy as xsp
from tests.test_independence_of_settings import NAMES, SECTIONS, expanded, operands


class Scaled:
    """An array that is stored as another one, of more dimensions, and a scale."""

    def __init__(self, stored, scale):
        self.stored, self.scale = stored, scale

    def __jax_array__(self):
        return self.stored[0] * self.scale


xf.tree_util.register_pytree_node(Scaled, lambda x: ((x.stored, x.scale), None), lambda _, children: Scaled(*children))


class Unregistered:
    def __init__(self, array):
        self.array = array

    def __jax_array__(self):
        return self.array


X = np.array([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]], np.float32)
FUNCTIONS = {
    "sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min, "prod": np.prod, "var": np.var, "std": np.std, "ptp": np.ptp,
    "any": np.any, "argmax": np.argmax, "median": np.median, "nansum": np.nansum, "average": np.average, "sin": np.sin,
    "linalg.norm": np.linalg.norm, "sort": np.sort, "cumsum": np.cumsum, "ravel": np.ravel, "matrix_transpose": np.matrix_transpose,
    "count_nonzero": np.count_nonzero, "fft.fftn": np.fft.fftn, "fft.rfft2": np.fft.rfft2, "flatnonzero": np.flatnonzero,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_use_the_array_and_not_the_stored_children(name):
    function = xnp
    for part in name.split("."):
        function = getattr(function, part)
    x = Scaled(xnp.asarray(np.stack([X, X]) / 8), np.float32(8))
    expected = FUNCTIONS[name](X)
    for _ in range(3):
        np.testing.assert_allclose(function(x), expected, 1e-5, 1e-6)
    if name != "flatnonzero":  # which is of unknown size
        np.testing.assert_allclose(xf.jit(function)(x), expected, 1e-5, 1e-6)
        np.testing.assert_allclose(xf.jit(lambda: function(x))(), expected, 1e-5, 1e-6)


def test_of_two_arguments():
    x = Scaled(xnp.asarray(np.stack([X, X]) / 8), np.float32(8))
    for _ in range(2):
        np.testing.assert_allclose(xnp.percentile(x, 30.), np.percentile(X, 30), 1e-5)
        np.testing.assert_allclose(xnp.quantile(x, .3, axis=0), np.quantile(X, .3, axis=0), 1e-5)
        np.testing.assert_allclose(xnp.tensordot(x, x), np.tensordot(X, X), 1e-5)
        np.testing.assert_allclose(xnp.vsplit(x, 2)[1], X[1:])
        np.testing.assert_allclose(xnp.roll(X, Scaled(xnp.array([1, 1]), 2)), np.roll(X, 2))
        np.testing.assert_array_equal(xnp.extract(x, x, size=2), [3, 1])
        np.testing.assert_array_equal(xnp.histogramdd(x, 2)[0], np.histogramdd(X, 2)[0])
    square = Scaled(xnp.asarray(np.stack([X[:, :2], X[:, :2]]) / 8), np.float32(8))
    for found, expected in zip(xsp.linalg.polar(square), scipy.linalg.polar(X[:, :2])):
        np.testing.assert_allclose(found, expected, 1e-4, 1e-4)
    np.testing.assert_allclose(xsp.linalg.expm_frechet(square, square)[0], scipy.linalg.expm(X[:, :2]), 1e-3)


def test_visualization_shows_the_array_of_the_node(capsys):
    x = Scaled(xnp.ones((4, 4)), np.float32(1))
    x.shape = (4, 4)
    xf.debug.visualize_array_sharding(x)
    assert f"{xf.devices()[0].platform.upper()} 0" in capsys.readouterr().out


@pytest.mark.parametrize("section", [s for s in SECTIONS if s != "control"])
def test_every_function_accepts_or_rejects_nodes(section):
    floats, others = operands()
    arrays = floats | others

    def types(call, given):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [(x.shape, x.dtype) for x in xf.tree.leaves(xf.eval_shape(lambda given: eval(call, NAMES | arrays | given), given))]

    taken = 0
    for call in expanded(SECTIONS[section]):
        for name in set(re.findall(r"\b[vscijbuhtxnq]\b", call)):
            x = arrays[name]
            stored = Scaled(xnp.stack([x, x]), np.ones((), x.dtype))
            try:
                found = types(call, {name: stored})
            except (TypeError, ValueError, IndexError, AttributeError):  # refused
                continue
            assert found == types(call, {name: x}), (call, name)
            taken += 1
    assert taken > 5


def test_objects_that_are_no_nodes_raise():
    x = Unregistered(xnp.ones(3))
    for function in (xnp.sum, xnp.mean, xnp.max, xnp.sort, xnp.cumsum):
        for call in (lambda: function(x), xf.jit(lambda: function(x))):
            with pytest.raises(ValueError, match="abstractification"):
                call()
