"""Logs of backward rules: `custom_vjp.defvjp_with_logs`, `custom_gradient(with_logs=True)` and `f_vjp.with_logs`."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.sharding import AxisType, PartitionSpec


def logging_sin(name, more=lambda x, ct: {}):
    sin = xf.custom_vjp(xnp.sin)
    sin.defvjp_with_logs(lambda x: (xnp.sin(x), x), lambda x, ct: ((ct * xnp.cos(x),), {name: ct, **more(x, ct)}))
    return sin


f = logging_sin("f")
g = logging_sin("g", lambda x, ct: {"nested": {"x": x, "pair": (ct, 2 * x)}})
composed = lambda x: g(f(x))
X = 0.7
EXPECTED = np.cos(np.sin(X)) * np.cos(X)


def passes(fun, *args):
    """Return the cotangents and logs for cotangents of ones, eagerly and under jit."""
    def run(*args):
        y, pullback = xf.vjp(fun, *args)
        return pullback.with_logs(xf.tree.map(xnp.ones_like, y))

    return [run(*args), xf.jit(run)(*args)]


@pytest.mark.parametrize("wrap", [lambda f: f, xf.jit, xf.checkpoint, lambda f: xf.jit(xf.checkpoint(xf.jit(f)))])
def test_logs_of_calls(wrap):
    """They leave calls, in which the same numbers are logged."""
    for (ct,), logs in passes(wrap(composed), X):
        np.testing.assert_allclose(ct, EXPECTED, rtol=1e-6)
        assert sorted(logs) == ["f", "g", "nested"]
        np.testing.assert_allclose([logs["f"], logs["g"], logs["nested"]["x"], logs["nested"]["pair"][1]], [
            np.cos(np.sin(X)), 1, np.sin(X), 2 * np.sin(X)], rtol=1e-6)
    np.testing.assert_allclose(xf.grad(wrap(composed))(X), EXPECTED, rtol=1e-6)
    np.testing.assert_allclose(xf.jit(xf.grad(wrap(composed)))(X), EXPECTED, rtol=1e-6)


def test_logs_of_loops_are_stacked():
    step = lambda c, t: (f(c) * t, None)
    ts = np.float32([1, 2, 3])
    states = [X]
    for t in ts:
        states.append(np.sin(states[-1]) * t)
    cts = [1.0]
    for c, t in zip(states[-2::-1], ts[::-1]):
        cts.append(cts[-1] * t * np.cos(c))
    for reverse in (False, True):
        order = ts[::-1] if reverse else ts
        for (ct,), logs in passes(lambda x: lax.scan(step, x, order, reverse=reverse)[0], X):  # noqa: B023
            expected = np.array([c * t for c, t in zip(cts[-2::-1], ts)])
            np.testing.assert_allclose(logs["f"], expected[::-1] if reverse else expected, rtol=1e-5)
            np.testing.assert_allclose(ct, cts[-1], rtol=1e-5)
    for _, logs in passes(lambda x: lax.fori_loop(0, 2, lambda i, c: f(c), x), X):
        np.testing.assert_allclose(logs["f"], [np.cos(np.sin(X)), 1], rtol=1e-6)


def test_logs_of_branches():
    """There is a value for each branch, and the index says which was taken."""
    both = lambda x: lax.cond(x > 0, lambda x: 2 * f(x), f, x)
    for x, index, values in [(X, 1, [0, 2]), (-X, 0, [1, 0])]:
        for _, logs in passes(both, x):
            assert logs["f"].index == index
            np.testing.assert_array_equal(logs["f"].branches, values)
    for (ct,), logs in passes(lambda x: lax.switch(1, [xnp.cos, f, g], x), X):
        np.testing.assert_allclose(ct, np.cos(X), rtol=1e-6)
        assert logs["f"] == 1 or logs["f"].branches[0] is None and logs["f"].branches[1] == 1


def test_logs_of_batches_are_batched():
    xs = np.float32([0, 1, 2])
    for (ct,), logs in passes(xf.vmap(f), xs):
        np.testing.assert_allclose(ct, np.cos(xs), rtol=1e-6)
        np.testing.assert_array_equal(logs["f"], np.ones(3))
    outer = xf.vmap(lambda x: xf.vjp(composed, x)[1].with_logs(x))(xs)
    np.testing.assert_allclose(outer[1]["nested"]["pair"][1], 2 * np.sin(xs), rtol=1e-6)
    for _, logs in passes(lambda x: lax.map(f, x), xs):
        np.testing.assert_array_equal(logs["f"], np.ones(3))


def test_logs_of_shards_are_joined():
    mesh = xf.make_mesh((1,), ("i",), axis_types=(AxisType.Auto,))
    spec = PartitionSpec("i")
    total = logging_sin("ct", lambda x, ct: {"sum": ct.sum()})
    for check_vma in (True, False):
        sharded = xf.shard_map(total, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=check_vma)
        for (ct,), logs in passes(sharded, np.float32([0, 1])):
            np.testing.assert_allclose(ct, np.cos([0, 1]), rtol=1e-6)
            np.testing.assert_array_equal(logs["ct"], [1, 1])
            np.testing.assert_array_equal(logs["sum"], [2])


def test_names_are_unique_in_a_pass():
    twice = lambda x: f(f(x))
    for run in (xf.grad(twice), xf.jit(xf.grad(twice)), xf.grad(xf.jit(twice)), xf.grad(lambda x: xf.jit(f)(xf.jit(f)(x))), lambda x:
                passes(twice, x), xf.grad(lambda x: lax.scan(lambda c, _: (twice(c), None), x, None, length=2)[0])):
        with pytest.raises(ValueError, match="Duplicate backward-pass log key 'f'"):
            run(X)
    assert xf.grad(xf.grad(f))(X) == -np.float32(np.sin(np.float32(X)))  # two passes


def test_passes_without_logs():
    assert xf.vjp(xnp.sin, 0.0)[1].with_logs(1.0) == ((1,), {})
    assert passes(lambda x: lax.stop_gradient(f(x)), X)[0][1] == {}
    silent = xf.custom_vjp(lambda x: 2 * x)
    silent.defvjp_with_logs(lambda x: (2 * x, None), lambda _, ct: ((2 * ct,), None))
    assert passes(silent, X) == [((2,), {})] * 2


def test_logs_with_references_and_flattened_pullbacks():
    total = xf.new_ref(1.0)
    pullback = xf.vjp(f, X)[1].with_logs
    (ct,), logs = pullback.with_refs(total)(2.0)
    assert type(ct).__name__ == "GradRef" and logs["f"] == 2
    np.testing.assert_allclose(total[...], 1 + 2 * np.cos(X), rtol=1e-6)
    assert xf.tree.map(lambda x: x, pullback)(2.0)[1]["f"] == 2 and pullback.want_logs


def test_a_backward_pass_inside_of_a_rule_has_logs_of_its_own():
    outer = xf.custom_vjp(lambda x: xnp.sin(x))
    outer.defvjp_with_logs(lambda x: (xnp.sin(x), x), lambda x, ct: ((ct * xf.grad(f)(x),), {"outer": ct}))
    for (ct,), logs in passes(outer, X):
        np.testing.assert_allclose(ct, np.cos(X), rtol=1e-6)
        assert sorted(logs) == ["outer"]


@pytest.mark.parametrize("returned, error, message", [
    (lambda ct: (ct,), TypeError, "pair"), (lambda ct: None, TypeError, "pair"), (lambda ct: ((ct,), [1]), TypeError, "dict"),
    (lambda ct: ((ct, ct), {}), TypeError, "tuple"), (lambda ct: (ct, {}), TypeError, "tuple")])
def test_rules_that_return_something_else(returned, error, message):
    bad = xf.custom_vjp(xnp.sin)
    bad.defvjp_with_logs(lambda x: (xnp.sin(x), x), lambda x, ct: returned(ct))
    with pytest.raises(error, match=message):
        xf.vjp(bad, X)[1].with_logs(1.0)


def test_custom_gradient_with_logs():
    for square in (xf.custom_gradient(lambda x: (x ** 2, lambda ct: ((2 * x * ct,), {"ct": ct})), with_logs=True),
                   xf.custom_gradient(with_logs=True)(lambda x: (x ** 2, lambda ct: (2 * x * ct, {"ct": ct})))):
        assert square(3.0) == 9 and xf.grad(square)(3.0) == 6
        assert passes(square, 3.0) == [((6,), {"ct": 1})] * 2
    bad = xf.custom_gradient(lambda x: (x ** 2, lambda ct: 2 * x * ct), with_logs=True)
    with pytest.raises(TypeError, match="pair"):
        xf.grad(bad)(3.0)
