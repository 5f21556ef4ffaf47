"""Rules of `HiPrim` that follow from others: sin(x) * y, with derivatives that are ten times the correct ones."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.experimental import hijax
from xlafront.interpreters.batching import AxisData

X, Y = np.float32(0.7), np.float32(1.5)
POINTS = np.array([0.1, 0.7, 2.0], "float32")
AXIS = AxisData("i", 3)


class SineTimes(hijax.HiPrim):
    def __init__(self, x, y):
        self.in_avals, self.out_aval, self.params = (x, {"y": y}), {"out": x}, {"k": 3}
        super().__init__()

    def expand(self, x, given):
        return {"out": xnp.sin(x) * given["y"]}

    def batch(self, axis_data, args, dims):
        x, given = hijax.bdims_at_front(axis_data, args, dims)
        return type(self)(xf.typeof(x), xf.typeof(given["y"]))(x, given), {"out": 0}


def _tangent(x, y, dx, dy):
    return {"out": 10 * (xnp.cos(x) * y * hijax.instantiate_zeros(dx) + xnp.sin(x) * hijax.instantiate_zeros(dy))}


class ByJvp(SineTimes):
    def jvp(self, primals, tangents):
        (x, given), (dx, given_dot) = primals, tangents
        return self(x, given), _tangent(x, given["y"], dx, given_dot["y"])

    lin, linearized = hijax.linearize_from_jvp
    vjp_fwd, vjp_bwd_retval = hijax.vjp_from_jvp


class ByLin(SineTimes):
    def lin(self, nzs_in, x, given):
        assert xf.tree.structure(nzs_in) == self.in_tree
        return self(x, given), (x, given["y"])

    def linearized(self, residuals, dx, given_dot):
        return _tangent(*residuals, dx, given_dot["y"])

    jvp = hijax.jvp_from_lin
    vjp_fwd, vjp_bwd_retval = hijax.vjp_from_lin


def _function(kind):
    return lambda x, y: kind(xf.typeof(x), xf.typeof(y))(x, {"y": y})["out"]


@pytest.mark.parametrize("through", [lambda f: f, xf.jit, xf.checkpoint], ids=["eager", "jit", "checkpoint"])
@pytest.mark.parametrize("kind", [ByJvp, ByLin])
def test_derived_rules(kind, through):
    f = through(_function(kind))
    by_x, by_y = 10 * np.cos(X) * Y, 10 * np.sin(X)
    assert np.allclose(f(X, Y), np.sin(X) * Y)
    assert np.allclose(xf.grad(f, (0, 1))(X, Y), (by_x, by_y)) and np.allclose(xf.grad(f, 1)(X, Y), by_y)
    assert np.allclose(xf.jvp(f, (X, Y), (X, Y))[1], by_x * X + by_y * Y)
    assert np.allclose(xf.jvp(lambda x: f(x, Y), (X,), (Y,))[1], by_x * Y)
    assert np.allclose(xf.linearize(f, X, Y)[1](Y, X), by_x * Y + by_y * X)
    assert np.allclose(xf.vmap(xf.grad(f), (0, None))(POINTS, Y), 10 * np.cos(POINTS) * Y)
    assert np.allclose(xf.grad(lambda y: xf.vmap(f, (0, None))(POINTS, y).sum())(Y), 10 * np.sin(POINTS).sum())


def test_rules_called_by_name():
    primitive = ByJvp(xf.typeof(X), xf.typeof(Y))
    value, residuals = primitive.lin((True, {"y": True}), X, {"y": Y})
    assert np.allclose(value["out"], np.sin(X) * Y)
    assert np.allclose(primitive.linearized(residuals, Y, {"y": X})["out"], 10 * (np.cos(X) * Y * Y + np.sin(X) * X))


def test_shown_as_its_class():
    assert str(xf.make_jaxpr(lambda x: ByJvp(x.aval, x.aval)(x, {"y": x})["out"])(X)).startswith(
        "{ lambda ; a:f32[]. let b:f32[] = ByJvp[k=3] a a in (b,) }")
    assert repr(ByJvp(xf.typeof(X), xf.typeof(Y))) == "ByJvp[k=3]"
    assert isinstance(ByJvp(xf.typeof(X), xf.typeof(Y)), hijax.HiPrim) and issubclass(hijax.VJPHiPrimitive, hijax.HiPrim)


class Two(hijax.HiPrim):
    """x and y doubled, with results that are eliminated one by one."""

    seen: list = []

    def __init__(self, x):
        self.in_avals, self.out_aval, self.params = (x, x), (x, x), {}
        super().__init__()

    def expand(self, x, y):
        return 2 * x, 2 * y

    def dce(self, used_outs, live_ins):
        self.seen.append((used_outs, live_ins))
        return super().dce(used_outs, live_ins)


def test_dead_results():
    assert xf.jit(lambda x: Two(xf.typeof(x))(x, x + 1)[0])(X) == 2 * X
    assert Two.seen[0] == ((True, False), (True, True))


def test_staging_appends_other_equations():
    class Fivefold(ByJvp):
        def staging(self, trace, source_info, *args):
            return {"out": 5 * args[0]}

    f = _function(Fivefold)
    assert np.allclose(f(X, Y), np.sin(X) * Y) and np.allclose(xf.jit(f)(X, Y), 5 * X)


def test_missing_rules():
    bare = SineTimes(xf.typeof(X), xf.typeof(Y))
    for call, method in ((lambda: xf.grad(lambda x: bare(x, {"y": Y})["out"])(X), "vjp_fwd"),
                         (lambda: xf.jvp(lambda x: bare(x, {"y": Y})["out"], (X,), (X,)), "jvp"),
                         (lambda: hijax.HiPrim.batch(bare, AXIS, (X,), (0,)), "batch"),
                         (lambda: hijax.HiPrim.expand(bare), "expand")):
        with pytest.raises(NotImplementedError, match=f"`{method}`"):
            call()


def test_logs_of_backward_rule_are_dropped():
    class Logs(ByJvp):
        def vjp_bwd_retval_logs(self, res, outgrad):
            return (outgrad["out"], {"y": None}), {"norm": outgrad["out"]}

    assert xf.grad(_function(Logs))(X, Y) == 1


def test_types_and_dimensions_of_batches():
    row = xf.typeof(xnp.ones((3, 2)))
    assert hijax.unmap_avals(AXIS, ({"a": row},), ({"a": 1},))[0]["a"].shape == (3, 3, 2)
    assert hijax.unmap_avals(AXIS, (row,), (None,)) == (row,)
    front = hijax.bdims_at_front(AXIS, {"a": xnp.ones((2, 3)), "b": xnp.ones(4)}, {"a": 1, "b": None})
    assert front["a"].shape == (3, 2) and front["b"].shape == (3, 4)


def test_vmap_rule_maps_zeros():
    zero = hijax.Zero(xf.typeof(xnp.ones((2, 3))))
    elements = []

    def f(x, y):
        elements.append(x)
        return x, {"y": y}

    mapped, unmapped = hijax.vmap_rule(AXIS, f, (1, None), (1, {"y": 0}))(zero, xnp.ones(2))
    assert elements[0].aval.shape == (2,) and mapped.aval.shape == (2, 3) and unmapped["y"].shape == (3, 2)
    product = hijax.vmap_rule(AXIS, lambda x, y: x * y, (0, None), None, sum_match=True)(POINTS, Y)
    assert np.allclose(product, POINTS.sum() * Y)
    with pytest.raises(ValueError, match="out_axes"):
        hijax.vmap_rule(AXIS, lambda x, y: x * y, (0, None), None)(POINTS, Y)
