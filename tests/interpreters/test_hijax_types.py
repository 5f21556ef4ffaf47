"""Custom composite types: an array of small integers with a scale for each row, whose derivative is an array of floats."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.experimental import hijax

FLOAT, INT8 = np.dtype("float32"), np.dtype("int8")


@dataclass(frozen=True)
class Quantized:
    elements: Any
    scales: Any


@dataclass(frozen=True)
class QuantizedType(hijax.HiType):
    shape: tuple

    def lo_ty(self):
        return [hijax.ShapedArray(self.shape, INT8), hijax.ShapedArray(self.shape[:1], FLOAT)]

    def lower_val(self, x):
        return [x.elements, x.scales]

    def raise_val(self, elements, scales):
        return Quantized(elements, scales)

    def to_tangent_aval(self):
        return hijax.ShapedArray(self.shape, FLOAT)

    def shard(self, mesh, manual_axes, check_vma, spec):
        return QuantizedType((self.shape[0] // mesh.shape[spec.rows], self.shape[1]))

    def unshard(self, mesh, check_vma, spec):
        return QuantizedType((self.shape[0] * mesh.shape[spec.rows], self.shape[1]))


@dataclass(frozen=True)
class ByRows(hijax.HiPspec):
    rows: str

    def to_lo(self):
        return xf.P(self.rows, None), xf.P(self.rows)

    def to_tangent_spec(self):
        return xf.P(self.rows, None)

    to_ct_spec = to_tangent_spec


hijax.register_hitype(Quantized, lambda x: QuantizedType(x.elements.shape))


class _Straight(hijax.VJPHiPrimitive):
    """A straight-through rule: derivatives pass unchanged."""

    def __init__(self, given, result):
        self.in_avals, self.out_aval, self.params = (given,), result, {}
        super().__init__()

    def vjp_fwd(self, nzs_in, x):
        return self(x), None

    def vjp_bwd_retval(self, res, outgrad):
        return (outgrad,)

    def jvp(self, primals, tangents):
        return self(*primals), tangents[0]


class Quantize(_Straight):
    def expand(self, x):
        scales = xnp.max(xnp.abs(x), 1) / 127
        return Quantized(xnp.round(x / scales[:, None]).astype(INT8), scales)


class Restore(_Straight):
    def expand(self, x):
        return x.elements.astype(FLOAT) * x.scales[:, None]


def quantize(x):
    kind = xf.typeof(x)
    return Quantize(kind, QuantizedType(kind.shape))(x)


def restore(x):
    kind = xf.typeof(x)
    return Restore(kind, kind.to_tangent_aval())(x)


X = np.array([[-2.0, -1.0, 0.0], [1.0, 2.0, 3.0]], np.float32)
SCALES = np.abs(X).max(1) / 127
RESTORED = np.round(X / SCALES[:, None]) * SCALES[:, None]


def squares(q):
    return xnp.sum(restore(q) ** 2)


def doubled(q):
    return quantize(restore(q) * 2)


def repeated(q):
    return lax.scan(lambda q, _: (doubled(q), None), q, None, length=2)[0]


def test_one_variable_in_jaxpr():
    q = quantize(X)
    assert xf.typeof(q) == QuantizedType((2, 3)) and xf.tree.leaves({"a": q}) == [q]
    [first, second] = xf.make_jaxpr(lambda x: restore(quantize(x)))(X).jaxpr.eqns
    assert first.outvars == second.invars and first.outvars[0].aval == QuantizedType((2, 3))
    assert xf.eval_shape(quantize, X) == QuantizedType((2, 3))


@pytest.mark.parametrize("run", [
    lambda q: restore(q), xf.jit(restore), lambda q: xf.jit(lambda both: restore(both["q"]))({"q": q}),
    lambda q: restore(xf.jit(lambda: q)()), lambda q: xf.jit(lambda x: restore(q) + x)(0.0),
    lambda q: restore(xf.jit(quantize)(X)), lambda q: xf.jit(lambda x: restore(quantize(x))).lower(X).compile()(X),
    lambda q: restore(repeated(q)) / 4, lambda q: xf.jit(lambda q: restore(repeated(q)))(q) / 4,
    lambda q: restore(lax.while_loop(lambda s: s[0] < 1, lambda s: (s[0] + 1, doubled(s[1])), (0, q))[1]) / 2,
    lambda q: restore(lax.cond(X[0, 0] < 0, doubled, lambda q: q, q)) / 2,
    lambda q: xf.checkpoint(restore)(q)],
    ids="eagerly compiled nested returned captured result lowered scan scan_compiled while cond checkpoint".split())
def test_values(run):
    np.testing.assert_allclose(run(quantize(X)), RESTORED, rtol=1e-6)


@pytest.mark.parametrize("compiled", [False, True], ids=["eagerly", "compiled"])
def test_gradients(compiled):
    transform = (lambda f: xf.jit(xf.grad(f))) if compiled else xf.grad
    np.testing.assert_allclose(transform(squares)(quantize(X)), 2 * RESTORED, rtol=1e-6)
    np.testing.assert_allclose(transform(lambda x: squares(quantize(x)))(X), 2 * RESTORED, rtol=1e-6)
    np.testing.assert_allclose(transform(lambda x: squares(repeated(quantize(x))))(X), 32 * RESTORED, rtol=1e-6)
    tangents = xf.jvp(restore, (quantize(X),), (X,))[1]
    np.testing.assert_array_equal(tangents, X)


def test_custom_vjp_rule():
    @xf.custom_vjp
    def f(q):
        return restore(q)

    f.defvjp(lambda q: (restore(q), None), lambda _, ct: (5 * ct,))
    np.testing.assert_array_equal(xf.jit(xf.grad(lambda x: f(quantize(x)).sum()))(X), np.full((2, 3), 5))


@pytest.mark.cpu_only
@pytest.mark.parametrize("compiled", [False, True], ids=["eagerly", "compiled"])
def test_shards_on_devices(compiled):
    mesh = xf.make_mesh((2,), ("i",), (xf.sharding.AxisType.Auto,))
    take, give = {"in_specs": ByRows("i")}, {"out_specs": ByRows("i")}
    rows = xf.P("i")

    def apart(x):
        q = xf.shard_map(quantize, mesh=mesh, in_specs=rows, **give)(x)
        return xf.shard_map(restore, mesh=mesh, out_specs=rows, **take)(q)

    run = xf.jit if compiled else lambda f: f
    np.testing.assert_allclose(run(apart)(X), RESTORED, rtol=1e-6)
    np.testing.assert_allclose(run(xf.grad(lambda x: xnp.sum(apart(x) ** 2)))(X), 2 * RESTORED, rtol=1e-6)


def test_missing_type_methods_raise():
    with pytest.raises(NotImplementedError, match="`to_tangent_aval`"):
        hijax.HiType.to_tangent_aval(hijax.HiType())


class Pair(hijax.VJPHiPrimitive):
    """`2 x` and `3 y`."""

    def __init__(self, kind):
        self.in_avals, self.out_aval, self.params = (kind, kind), (kind, kind), {}
        super().__init__()

    def expand(self, x, y):
        return 2 * x, 3 * y

    def transpose(self, out_ct, *indices):
        for place, factor, ct in zip(indices, (2, 3), out_ct):
            if hasattr(place, "accum"):
                place.accum(factor * ct)

    def dce(self, used):
        return (used[0], used[1]), used, One(self.in_avals[0], 2 if used[0] else 3)


class One(hijax.VJPHiPrimitive):
    def __init__(self, kind, factor):
        self.in_avals, self.out_aval, self.params = (kind,), kind, {"factor": factor}
        super().__init__()

    def expand(self, x):
        return self.factor * x


def test_transposes_by_a_rule():
    x = np.arange(3, dtype=np.float32)
    kind = xf.typeof(xnp.asarray(x))
    [ct] = xf.linear_transpose(lambda x: Pair(kind)(x, x), x)((x, x + 1))
    np.testing.assert_array_equal(ct, 2 * x + 3 * (x + 1))
    [ct] = xf.jit(xf.linear_transpose(lambda y: Pair(kind)(x, y)[1], x))(x)
    np.testing.assert_array_equal(ct, 3 * x)


def test_dce_rule_eliminates_unused_results():
    x = np.arange(3, dtype=np.float32)
    kind = xf.typeof(xnp.asarray(x))

    def second(x, y):
        return Pair(kind)(xnp.sin(x), y)[1]

    program, used = xf.interpreters.partial_eval.dce_jaxpr(xf.make_jaxpr(second)(x, x).jaxpr, [True])
    assert used == [False, True] and [eqn.params["_prim"] for eqn in program.eqns] == [One(kind, 3)]
    np.testing.assert_array_equal(xf.jit(second)(x, x), 3 * x)


def test_lowering_with_composite_arguments_and_results():
    q = Quantized(np.array([[1, -2, 3], [4, 5, -6]], INT8), np.array([2, 0.5], FLOAT))

    def doubled(q, x):
        return restore(q) + x, Quantize(xf.typeof(x), xf.typeof(q))(x)

    traced = xf.jit(doubled).trace(q, np.ones((2, 3), FLOAT))
    lowered = traced.lower()
    assert "tensor<2x3xi8>" in lowered.as_text()
    assert [x.dtype for x in lowered.args_info[0][0]] == [INT8, FLOAT] == [x.dtype for x in lowered.out_info[1]]
    total, found = lowered.compile()(q, np.full((2, 3), 127, FLOAT))
    assert total.tolist() == [[129, 123, 133], [129, 129.5, 124]]
    assert type(found) is Quantized and found.elements.tolist() == [[127] * 3] * 2 and found.scales.tolist() == [1, 1]
    with pytest.raises(TypeError, match="compiled for other arguments"):
        lowered.compile()(np.ones((2, 3), FLOAT), np.ones((2, 3), FLOAT))


def test_exported_functions_take_and_return_lists_of_arrays():
    q = Quantized(np.array([[1, -2, 3], [4, 5, -6]], INT8), np.array([2, 0.5], FLOAT))
    exported = xf.export.export(xf.jit(lambda q, x: {"sum": restore(q) + x["x"], "q": q}))(q, {"x": np.ones((2, 3), FLOAT)})
    assert [aval.dtype for aval in exported.in_avals] == [INT8, FLOAT, FLOAT]
    found = xf.export.deserialize(exported.serialize()).call([q.elements, q.scales], {"x": np.full((2, 3), 127, FLOAT)})
    assert found["sum"].tolist() == [[129, 123, 133], [129, 129.5, 124]]
    assert [x.tolist() for x in found["q"]] == [q.elements.tolist(), [2, 0.5]]


@dataclass(frozen=True)
class TwoArrays:
    first: Any
    second: Any


@dataclass(frozen=True)
class TwoArraysType(hijax.HiType):
    """Operators of tracers are methods of their type, which also defines attributes, some under names that arrays have."""

    constant = 5

    def lo_ty(self):
        return [hijax.ShapedArray((3,), FLOAT)] * 2

    def lower_val(self, x):
        return [x.first, x.second]

    def raise_val(self, first, second):
        return TwoArrays(first, second)

    def to_tangent_aval(self):
        return self

    def _getitem(self, tracer, i):
        return First()(tracer)[i]

    def _add(self, tracer, other):
        return First()(tracer) + other

    def _rsub(self, tracer, other):
        return other - First()(tracer)

    def _neg(self, tracer):
        return -First()(tracer)

    def _lt(self, tracer, other):
        return First()(tracer) < other

    def _len(self, tracer):
        return 17

    def _iter(self, tracer):
        return iter([First()(tracer), 1])

    @hijax.aval_method
    def scaled(self, by):
        return First()(self) * by

    @hijax.aval_method
    def copy(self, *, by):
        return First()(self) * by

    @hijax.aval_property
    def T(self):
        return First()(self) + 100

    @hijax.aval_property
    def doubled(self):
        return First()(self) * 2


hijax.register_hitype(TwoArrays, lambda x: TwoArraysType())


class First(hijax.HiPrim):
    def __init__(self):
        self.in_avals, self.out_aval, self.params = (TwoArraysType(),), hijax.ShapedArray((3,), FLOAT), {}
        super().__init__()

    def expand(self, x):
        return x.first


@pytest.mark.parametrize("f, expected", [
    (lambda x: x[1], 1), (lambda x: x[1:], [1, 2]), (lambda x: x + 1, [1, 2, 3]), (lambda x: 1.0 - x, [1, 0, -1]),
    (lambda x: -x, [0, -1, -2]), (lambda x: x < 1, [True, False, False]), (lambda x: len(x), 17), (lambda x: list(x)[0], [0, 1, 2]),
    (lambda x: x.scaled(3), [0, 3, 6]), (lambda x: x.copy(by=2), [0, 2, 4]), (lambda x: x.T, [100, 101, 102]),
    (lambda x: x.doubled, [0, 2, 4]), (lambda x: x.constant, 5), (lambda x: hasattr(x, "shape"), False)])
def test_tracers_have_the_operators_and_attributes_of_their_type(f, expected):
    assert xf.jit(f)(TwoArrays(xnp.arange(3.0), xnp.ones(3))).tolist() == expected


@pytest.mark.parametrize("f", [lambda x: x.nothing, lambda x: x * 2, lambda x: x.shape])
def test_what_a_type_does_not_define_is_missing(f):
    with pytest.raises(AttributeError, match="nothing|dtype|shape|_mul"):
        xf.jit(f)(TwoArrays(xnp.arange(3.0), xnp.ones(3)))


def test_attributes_of_arrays_are_their_own_beside_types_that_define_them():
    assert xf.jit(lambda x: x.T + x.copy())(xnp.ones(2)).tolist() == [2, 2]
    with pytest.raises(AttributeError, match="a traced array, .*is on no device"):
        xf.jit(lambda x: x.sharding)(1.0)


@dataclass(frozen=True)
class Parameter(TwoArrays):
    """Composite values and their tracers convert to arrays, as module parameters of libraries do."""

    def __jax_array__(self):
        return self.first


class ParameterType(TwoArraysType):
    def raise_val(self, first, second):
        return Parameter(first, second)

    @hijax.aval_method
    def __jax_array__(self):
        return FirstOfParameter()(self)


class FirstOfParameter(hijax.HiPrim):
    in_avals, out_aval, params = (ParameterType(),), hijax.ShapedArray((3,), FLOAT), {}

    def expand(self, x):
        return x.first


hijax.register_hitype(Parameter, lambda x: ParameterType())


@pytest.mark.parametrize("f", [
    xnp.sin, xnp.negative, lambda p: xnp.add(p, 1), lambda p: xnp.add(p, p), lambda p: xnp.ones(3) * p, xnp.sum, xnp.asarray,
    lambda p: xnp.dot(p, xnp.ones(3)), lambda p: xnp.stack([p, p]), lambda p: xnp.where(True, p, 0), xf.nn.relu, xnp.shape,
    xnp.ndim, lambda p: xnp.zeros(3).at[:].set(p)])
@pytest.mark.parametrize("run", [lambda f: f, xf.jit], ids=["eager", "jit"])
def test_convertible_composites_are_operands(f, run):
    x = np.float32([3, -1, 2])
    np.testing.assert_allclose(run(f)(Parameter(xnp.asarray(x), xnp.ones(3))), f(xnp.asarray(x)), rtol=1e-6)
