"""Reductions over axes named by `vmap` or `pmap`, compared with NumPy on the unmapped array."""

import numpy as np
import pytest
import scipy.special

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import nn

X = np.random.default_rng(3).normal(size=(4, 3, 2)).astype(np.float32)
WHERE = X > -0.5
# a function, NumPy's, what else is given
REDUCTIONS = [
    (xnp.sum, np.sum, {}), (xnp.max, np.max, {}), (xnp.min, np.min, {}), (xnp.mean, np.mean, {}), (xnp.var, np.var, {}),
    (xnp.std, np.std, {"ddof": 1}), (xnp.ptp, np.ptp, {}), (xnp.count_nonzero, np.count_nonzero, {}), (nn.logsumexp, scipy.special.logsumexp, {}),
    (xnp.sum, np.sum, {"where": WHERE, "initial": 2.0}), (xnp.mean, np.mean, {"where": WHERE}), (xnp.var, np.var, {"where": WHERE}),
    (xnp.max, np.max, {"where": WHERE, "initial": -9.0}),
]
AXES = [("i", 0), (("i", 0), (0, 1)), ((-1, "i"), (0, 2))]  # inside, and of the whole array


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis, all_axes", AXES, ids=str)
@pytest.mark.parametrize("f, of_numpy, options", REDUCTIONS, ids=lambda v: getattr(v, "__name__", str(list(v) if isinstance(v, dict) else v)))
def test_reductions_over_named_axes(f, of_numpy, options, axis, all_axes, keepdims):
    expected = of_numpy(X, axis=all_axes, keepdims=True, **options)
    if not keepdims:
        expected = expected.squeeze(tuple(i for i in np.atleast_1d(all_axes) if i))
    mapped = {k: v for k, v in options.items() if k == "where"}
    rest = {k: v for k, v in options.items() if k != "where"}
    got = xf.vmap(lambda x, more: f(x, axis=axis, keepdims=keepdims, **more, **rest), axis_name="i")(X, mapped)
    np.testing.assert_allclose(got, np.broadcast_to(expected, (4, *expected.shape[1:])), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("axis, all_axes", AXES, ids=str)
def test_softmax(axis, all_axes):
    for f, of_scipy in ((nn.softmax, scipy.special.softmax), (nn.log_softmax, scipy.special.log_softmax)):
        mapped = xf.vmap(lambda x, f=f: f(x, axis), axis_name="i")
        np.testing.assert_allclose(mapped(X), of_scipy(X, axis=all_axes), rtol=2e-5)
        slope = xf.grad(lambda x, mapped=mapped: (mapped(x) * X**2).sum())(X)
        np.testing.assert_allclose(slope, xf.grad(lambda x, f=f: (f(x, all_axes) * X**2).sum())(X), rtol=1e-4, atol=1e-6)
    centred = xf.vmap(lambda x: nn.standardize(x, axis, epsilon=0.0), axis_name="i")(X)
    np.testing.assert_allclose(centred, (X - X.mean(all_axes, keepdims=True)) / X.std(all_axes, keepdims=True), rtol=1e-4, atol=1e-5)


@pytest.mark.cpu_only
def test_means_over_axes_of_pmap():
    mesh = xf.make_mesh((4,), ("i",))
    norm = xf.shard_map(lambda x: x - xnp.mean(x, axis=("i", 0, 1)), mesh=mesh, in_specs=xf.P("i"), out_specs=xf.P("i"))
    np.testing.assert_allclose(xf.jit(norm)(xf.device_put(X, xf.NamedSharding(mesh, xf.P("i")))), X - X.mean((0, 1)), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(xf.pmap(lambda x: xnp.max(x, axis="i"), axis_name="i")(X), np.broadcast_to(X.max(0), X.shape))


def test_axis_sizes_may_differ_between_calls():
    mean = xf.jit(xf.vmap(lambda x: xnp.mean(x, axis="i"), axis_name="i"))
    for n in (2, 4, 3):
        np.testing.assert_allclose(mean(X[:n]), np.broadcast_to(X[:n].mean(0), X[:n].shape), rtol=1e-5, atol=1e-6)


def test_unbound_axis_names_raise():
    for f in (xnp.sum, xnp.mean, nn.softmax, xnp.prod):
        with pytest.raises(NameError, match="unbound axis name"):
            f(X, axis="nobody")
