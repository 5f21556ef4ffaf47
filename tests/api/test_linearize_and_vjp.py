"""Arguments of `linearize` and `vjp` that say which inputs are differentiated, and which may be saved."""

from collections import namedtuple

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp

X, Y = np.float32(0.5), np.arange(3, dtype=np.float32)


def f(x, params):
    """Return results of which the first depends on x and params["w"], the second on params["b"] only."""
    return {"product": [xnp.sin(x) * params["w"]], "shift": (params["b"], 3)}


PARAMS = {"b": X, "w": Y}


@pytest.mark.parametrize("in_nzs, active", [
    (None, (True, True, True)), (True, (True, True, True)), (False, (False, False, False)), ((True, False), (True, False, False)),
    ([False, {"b": True, "w": False}], (False, True, False)), ((False, (False, True)), (False, False, True))])
def test_inputs_without_tangents(in_nzs, active):
    """Tangents of inputs that `in_nzs` excludes count as zero, and their cotangents are zero."""
    x_active, b_active, w_active = active
    expected = {"product": [x_active or w_active], "shift": (b_active, False)}
    tangents = 2.0, {"b": np.float32(3), "w": np.ones(3, np.float32)}
    _, derivative = xf.linearize(f, X, PARAMS, in_nzs=in_nzs)
    assert derivative.out_nzs == expected
    result = derivative(*tangents)
    np.testing.assert_allclose(result["product"][0], 2 * np.cos(X) * Y * x_active + np.sin(X) * np.ones(3) * w_active, rtol=1e-6)
    assert result["shift"][0] == 3 * b_active
    _, pullback = xf.vjp(f, X, PARAMS, in_nzs=in_nzs)
    assert pullback.out_nzs == expected
    x_ct, cts = pullback({"product": [np.ones(3, np.float32)], "shift": (np.float32(1), np.zeros((), xf.dtypes.float0))})
    np.testing.assert_allclose(x_ct, np.cos(X) * Y.sum() * x_active, rtol=1e-6)
    np.testing.assert_allclose(cts["w"], np.sin(X) * np.ones(3) * w_active, rtol=1e-6)
    assert cts["b"] == b_active and cts["b"].dtype == np.float32


def test_inputs_without_tangents_under_transformations():
    product = lambda x, y: x * y
    partial = lambda x, y: xf.vjp(product, x, y, in_nzs=(True, False))[1](x)
    xs = np.float32([1, 2, 3])
    for transformed in (xf.vmap(partial), xf.jit(xf.vmap(partial))):
        x_ct, y_ct = transformed(xs, xs + 1)
        np.testing.assert_array_equal(x_ct, xs * (xs + 1))
        np.testing.assert_array_equal(y_ct, np.zeros(3))
    assert xf.grad(lambda x: partial(x, 5.0)[0])(3.0) == 5
    y, derivative, aux = xf.linearize(lambda x, y: (x * y, "aux"), 3.0, 4.0, has_aux=True, in_nzs=(False, True))
    assert (y, derivative(1.0, 1.0), aux) == (12, 3, "aux")


def test_nonzero_results_have_the_structure_of_the_result():
    """Containers other than tuples, lists and dicts are tuples; the attribute survives flattening."""
    Pair = namedtuple("Pair", "first second")
    for fun, expected in [(lambda x: Pair(x, 1.0), (True, False)), (lambda x: {"n": None, "x": [x, xnp.int32(2)]}, {
            "n": None, "x": [True, False]}), (lambda x: xf.lax.stop_gradient(x), False), (lambda x: (), ())]:
        _, pullback = xf.vjp(fun, 1.0)
        assert pullback.out_nzs == expected
        assert xf.tree.map(lambda x: x, pullback).out_nzs == expected
        assert xf.linearize(fun, 1.0)[1].out_nzs == expected


@pytest.mark.parametrize("saveable", [(True, False), (True, {"b": True, "w": False}), [True, (False, False)]])
def test_arguments_that_are_not_saved(saveable):
    """They are placeholders until the caller restores them; residuals computed from arguments are saved."""
    _, pullback = xf.vjp(lambda x, p: xnp.sin(x) * p["w"], X, {"b": X, "w": Y}, saveable_args=saveable)
    assert repr(pullback.args_res) == "[NotNeeded(), {'b': NotNeeded(), 'w': NotSaveable()}]"
    assert len(pullback.opaque_residuals) == 2 and len(xf.tree.leaves(pullback)) == 2
    ones = np.ones(3, np.float32)
    with pytest.raises(ValueError, match=r"before its not-saveable residuals were restored: .*args\[1\]\['w'\]"):
        pullback(ones)
    pullback.args_res[1]["w"] = Y
    np.testing.assert_allclose(pullback(ones)[0], np.cos(X) * Y.sum(), rtol=1e-6)


def test_a_jitted_forward_pass_does_not_return_arguments_that_are_not_saved():
    forward = xf.jit(lambda x, y: xf.vjp(lambda x, y: x * y, x, y, saveable_args=(False, True)))
    y, pullback = forward(3.0, 4.0)
    assert y == 12 and repr(pullback.args_res[0]) == "NotSaveable()" and pullback.args_res[1] == 4
    with pytest.raises(ValueError, match="restored"):
        pullback(1.0)
    pullback.args_res[0] = 3.0
    assert pullback(1.0) == (4, 3)


def test_a_saveable_argument_is_saved_once_for_an_equal_one():
    x = xnp.ones(2)
    _, pullback = xf.vjp(lambda x, y: x * y, x, x, saveable_args=(True, False))
    assert pullback.args_res[0] is x
    np.testing.assert_array_equal(pullback(x)[0], np.ones(2))


@pytest.mark.parametrize("call", [lambda flags: xf.vjp(f, X, PARAMS, in_nzs=flags), lambda flags: xf.linearize(
    f, X, PARAMS, in_nzs=flags), lambda flags: xf.vjp(f, X, PARAMS, saveable_args=flags)])
def test_flags_of_another_structure(call):
    for flags, message in [((True,), "must form a tree prefix .*1 children where they have 2"), ((True, (False,)), r"\[1\] must "
                           "form a tree prefix"), ((True, 3), r"\[1\] must be a tree of bools.*3 of type int"), ((True, None),
                                                                                                                 "tree prefix")]:
        with pytest.raises(ValueError, match=message):
            call(flags)


class AlwaysEqual:
    """A function that is equal to all others of its class."""

    def __init__(self, f):
        self.f = f

    def __eq__(self, other):
        return isinstance(other, AlwaysEqual)

    def __hash__(self):
        return 0

    def __call__(self, *args):
        return self.f(*args)


def test_the_function_of_a_pullback_can_be_replaced():
    def pullback(x, scale=1.0):
        _, f_vjp = xf.vjp(lambda x: xnp.sin(x) * scale, x)
        f_vjp.fun = AlwaysEqual(f_vjp.fun)
        return f_vjp

    x = np.float32(0.5)
    for f_vjp in (pullback(x), xf.jit(pullback)(x), xf.tree.map(lambda r: r, pullback(x))):
        np.testing.assert_allclose(f_vjp(np.float32(3))[0], 3 * np.cos(0.5), rtol=1e-6)
        assert type(f_vjp.fun) is AlwaysEqual
    assert xf.tree.structure(pullback(x)) == xf.tree.structure(pullback(x, 2.0))
    plain = xf.vjp(xnp.sin, x)[1]
    np.testing.assert_allclose(plain.fun(plain.args_res, plain.opaque_residuals, np.float32(2))[0], 2 * np.cos(0.5), rtol=1e-6)
    plain.fun = lambda args_res, residuals, cotangent: (len(residuals), cotangent)
    assert plain(7) == (len(plain.opaque_residuals), 7)
