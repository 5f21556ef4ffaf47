"""`VJPHiPrimitive`: values compared with NumPy, and derivatives by rules that return ten times the correct value."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.experimental.hijax import VJPHiPrimitive

X, Y = np.float32(0.7), np.float32(1.5)
POINTS = np.array([0.1, 0.7, 2.0], "float32")


class SineTimes(VJPHiPrimitive):
    """`scale * sin(x) * y`, whose pullback is ten times and whose JVP a hundred times the correct one."""

    def __init__(self, x, y, scale=1.0):
        self.in_avals, self.out_aval, self.params = (x, y), x, {"scale": scale}
        super().__init__()

    def expand(self, x, y):
        return xnp.sin(x) * y * self.scale

    def vjp_fwd(self, nzs_in, x, y):
        return self(x, y), (x, y)

    def vjp_bwd_retval(self, res, g):
        x, y = res
        return 10 * g * xnp.cos(x) * y * self.scale, 10 * g * xnp.sin(x) * self.scale

    def jvp(self, primals, tangents):
        (x, y), (dx, dy) = primals, [xf.experimental.hijax.instantiate_zeros(t) for t in tangents]
        return self(x, y), 100 * self.scale * (xnp.cos(x) * dx * y + xnp.sin(x) * dy)

    def batch_dim_rule(self, axis_data, dims):
        return 0 if dims[0] is None else dims[0]


def f(x, y, scale=1.0):
    return SineTimes(xf.typeof(x), xf.typeof(y), scale)(x, y)


def test_values():
    expected = np.sin(X) * Y
    assert np.allclose(f(X, Y), expected) and np.allclose(xf.jit(f)(X, Y), expected)
    assert np.allclose(lax.fori_loop(0, 2, lambda i, x: f(x, Y), X), np.sin(expected) * Y)


def test_one_equation_in_jaxpr():
    [eqn] = xf.make_jaxpr(lambda x: f(x, Y))(X).eqns
    assert str(eqn.primitive) == "call_hi_primitive" and eqn.params["_prim"].scale == 1.0
    assert "stablehlo.sine" in xf.jit(f).lower(X, Y).as_text()


@pytest.mark.parametrize("through", [lambda f: f, xf.jit, xf.checkpoint], ids=["eager", "jit", "checkpoint"])
def test_derivatives_use_rules(through):
    g = through(f)
    assert np.allclose(xf.grad(g, (0, 1))(X, Y), (10 * np.cos(X) * Y, 10 * np.sin(X)))
    assert np.allclose(xf.grad(g)(X, Y), 10 * np.cos(X) * Y)
    assert np.allclose(xf.jvp(g, (X, Y), (X, Y))[1], 100 * (np.cos(X) * X * Y + np.sin(X) * Y))
    assert np.allclose(xf.jvp(lambda x: g(x, Y), (X,), (X,))[1], 100 * np.cos(X) * X * Y)


def test_derivatives_of_derivatives_and_loops():
    assert np.allclose(xf.grad(xf.grad(f))(X, Y), -10 * np.sin(X) * Y)  # of the rule, which is of other operations
    looped = xf.grad(lambda x: lax.scan(lambda c, _: (f(c, Y), None), x, None, 2)[0])(X)
    inner = np.sin(X) * Y
    assert np.allclose(looped, 100 * np.cos(inner) * Y * np.cos(X) * Y)


@pytest.mark.parametrize("through", [lambda f: f, xf.jit], ids=["eager", "jit"])
def test_batches(through):
    expected = np.sin(POINTS) * Y
    assert np.allclose(through(xf.vmap(f, (0, None)))(POINTS, Y), expected)
    assert np.allclose(through(xf.vmap(f, (None, 0)))(X, POINTS), np.sin(X) * POINTS)
    both = through(xf.vmap(xf.vmap(f, (0, None)), (None, 0)))(POINTS, POINTS)
    assert np.allclose(both, np.sin(POINTS) * POINTS[:, None])
    assert np.allclose(through(xf.vmap(xf.grad(f), (0, None)))(POINTS, Y), 10 * np.cos(POINTS) * Y)
    of_batch = through(xf.grad(lambda x, y: xf.vmap(f, (0, None))(x, y).sum(), (0, 1)))(POINTS, Y)
    assert np.allclose(of_batch[0], 10 * np.cos(POINTS) * Y) and np.allclose(of_batch[1], 10 * np.sin(POINTS).sum())
    moved = through(lambda x, y: xf.jvp(xf.vmap(f, (0, None)), (x, y), (x, y))[1])(POINTS, Y)
    assert np.allclose(moved, 100 * (np.cos(POINTS) * POINTS * Y + np.sin(POINTS) * Y))


def test_equal_operations_are_traced_once():
    a, b, c = (SineTimes(xf.typeof(X), xf.typeof(Y), scale) for scale in (1.0, 1.0, 2.0))
    assert a == b and hash(a) == hash(b) and a != c and repr(c) == "SineTimes[{'scale': 2.0}]"


class Sums(VJPHiPrimitive):
    """Sums of pytrees; the first argument has no derivative, and cotangents are given to accumulators."""

    def __init__(self, given):
        self.in_avals, self.out_aval, self.params = (given["a"], given), {"sum": given["a"]}, {}
        super().__init__()

    def expand(self, factor, given):
        return {"sum": factor * (given["a"] + given["b"])}

    def vjp_fwd(self, nzs_in, factor, given):
        self.seen.append(nzs_in)
        return self(factor, given), factor

    def vjp_bwd(self, factor, outgrad, no_derivative, accumulators):
        self.seen.append([type(x).__name__ for x in xf.tree.leaves((no_derivative, accumulators))])
        assert no_derivative.aval.shape == np.shape(factor) and accumulators["a"].aval.dtype == np.float32
        accumulators["a"].accum(factor * outgrad["sum"])
        accumulators["b"].accum(2 * outgrad["sum"])
        accumulators["b"].accum(outgrad["sum"])

    def batch_dim_rule(self, axis_data, dims):
        return {"sum": 0}

    seen: list = []


def test_pytrees_and_accumulators():
    given = {"a": X, "b": Y}
    operation = Sums(xf.tree.map(xf.typeof, given))
    assert np.allclose(operation(Y, given)["sum"], Y * (X + Y))
    found = xf.grad(lambda factor, given: operation(factor, given)["sum"], (0, 1))(Y, given)
    assert found[0] == 0 and np.allclose([found[1]["a"], found[1]["b"]], [Y, 3])
    assert Sums.seen[-2:] == [(True, {"a": True, "b": True}), ["ValAccum"] * 3]


def test_null_accumulators_hold_nothing():
    given = {"a": X, "b": Y}
    operation = Sums(xf.tree.map(xf.typeof, given))
    assert xf.grad(lambda factor: operation(factor, given)["sum"])(Y) == 0
    assert Sums.seen[-1] == ["ValAccum", "NullAccum", "NullAccum"]


def test_accumulators_of_mapped_pytrees():
    factors = np.arange(3, dtype=np.float32)

    def gradients(factor, a):
        given = {"a": a, "b": Y}
        operation = Sums(xf.tree.map(xf.typeof, given))
        return xf.grad(lambda given: operation(factor, given)["sum"])(given)

    found = xf.vmap(gradients)(factors, POINTS)
    assert np.allclose(found["a"], factors) and np.allclose(found["b"], [3, 3, 3])
    found = xf.grad(lambda given: xf.vmap(lambda factor: Sums(xf.tree.map(xf.typeof, given))(factor, given)["sum"])(
        factors).sum())({"a": X, "b": Y})
    assert np.allclose(found["a"], factors.sum()) and np.allclose(found["b"], 3 * 3)


def test_cotangents_of_other_shapes_are_refused():
    class Wide(SineTimes):
        def vjp_bwd_retval(self, res, g):
            return xnp.ones(3), None

    with pytest.raises(ValueError, match="expected"):
        xf.grad(lambda x: Wide(xf.typeof(x), xf.typeof(x))(x, Y))(xnp.float32(1))


def test_rules_get_cotangents_as_arrays():
    class Converts(SineTimes):
        def vjp_bwd_retval(self, res, g):
            return g.astype(np.float32) * 2, None

    assert xf.grad(lambda x: Converts(xf.typeof(x), xf.typeof(x))(x, 1.0))(2.0) == 2


class Linearized(VJPHiPrimitive):
    def __init__(self, x):
        self.in_avals, self.out_aval, self.params = (x,), x, {}
        super().__init__()

    def expand(self, x):
        return xnp.sin(x)

    def lin(self, nzs_in, x):
        return self(x), xnp.cos(x)

    def linearized(self, cosine, dx):
        return 10 * cosine * dx


def test_linearize_rule_is_used():
    g = Linearized(xf.typeof(X))
    value, derivative = xf.linearize(g, X)
    assert np.allclose(value, np.sin(X)) and np.allclose(derivative(Y), 10 * np.cos(X) * Y)
    assert np.allclose(xf.grad(g)(X), 10 * np.cos(X))
    with pytest.raises(NotImplementedError, match="`jvp`"):
        xf.jvp(g, (X,), (X,))


class Bare(VJPHiPrimitive):
    def __init__(self, x, results=1):
        self.in_avals, self.out_aval, self.params = (x,), x, {"results": results}
        super().__init__()

    def expand(self, x):
        return x if self.results == 1 else (x,) * self.results


class Unset(VJPHiPrimitive):
    pass


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda: xf.grad(Bare(xf.typeof(X)))(X), NotImplementedError, "`vjp_fwd`"),
    (lambda: xf.jvp(Bare(xf.typeof(X)), (X,), (X,)), NotImplementedError, "`jvp`"),
    (lambda: xf.vmap(Bare(xf.typeof(X)))(POINTS), NotImplementedError, "`batch_dim_rule`"),
    (lambda: Bare(xf.typeof(X), 2)(X), TypeError, "out_aval"), (lambda: xf.jit(Bare(xf.typeof(X), 2))(X), TypeError, "out_aval"),
    (lambda: Bare(xf.typeof(X))(X, X), TypeError, "in_avals"), (Unset, AttributeError, "in_avals")],
    ids=["grad", "jvp", "vmap", "results", "results in jit", "arguments", "no types"])
def test_bad_input_raises(call, error, words):
    with pytest.raises(error, match=words):
        call()
