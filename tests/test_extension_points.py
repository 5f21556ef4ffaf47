"""Programs that define operations and interpreters of their own, in the way that JAX documents it."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import core, lax
from xlafront.extend import core as extend_core, linear_util as lu
from xlafront.interpreters import ad, batching


def scalar(dtype="float32"):
    return core.ShapedArray((), dtype)


# Registries


def test_registries_are_views_of_the_records():
    result, tangent = ad.primitive_jvps[lax.sin_p]((1.0,), (2.0,))
    np.testing.assert_allclose([result, tangent], [np.sin(1), 2 * np.cos(1)], rtol=1e-6)
    cotangent, other = ad.primitive_transposes[lax.mul_p](2.0, ad.UndefinedPrimal(scalar()), 3.0)
    assert float(cotangent) == 6 and other is None
    value, dim = batching.primitive_batchers[lax.sin_p]((xnp.ones((2, 3)),), (1,))
    assert dim == 1 and value.shape == (2, 3)
    assert lax.sin_p in ad.primitive_jvps and lax.sin_p in set(ad.primitive_jvps)
    assert lax.sin_p not in ad.primitive_transposes and ad.primitive_transposes.get(lax.sin_p) is None
    with pytest.raises(KeyError, match="primitive_transposes"):
        ad.primitive_transposes[lax.sin_p]
    with pytest.raises(TypeError, match="primitives as keys"):
        ad.primitive_jvps["sin"] = lambda *_: None


def test_rules_can_be_replaced_and_read_back():
    p = extend_core.Primitive("replaceable")
    first, second = (lambda operands, dims: (operands[0], dims[0])), (lambda operands, dims: (operands[0] * 2, dims[0]))
    batching.primitive_batchers[p] = first
    assert batching.primitive_batchers[p] is first
    batching.primitive_batchers[p] = second
    assert batching.primitive_batchers[p] is second
    fancy = lambda axis, operands, dims: (operands[0] * axis.size, dims[0])  # noqa: E731
    batching.fancy_primitive_batchers[p] = fancy
    assert batching.fancy_primitive_batchers[p] is fancy and p not in batching.primitive_batchers
    assert p not in batching.axis_primitive_batchers
    del batching.fancy_primitive_batchers[p]
    assert p not in batching.fancy_primitive_batchers


# Wrapped functions


@lu.transformation
def scaled(factor, *args):
    results = yield tuple(a * factor for a in args), {}
    yield [r + 1 for r in results]


@lu.transformation_with_aux
def counted(*args):
    results = yield args, {}
    yield results, len(args)


@lu.transformation2
def scaled2(f, factor, *args):
    return [r * factor for r in f(*args)]


@lu.transformation_with_aux2
def counted2(f, store, *args):
    store.store(len(args))
    return f(*args)


def test_transformations_of_wrapped_functions():
    fun = lu.wrap_init(lambda x, y: [x + y], debug_info=extend_core.DebugInfo("test", "add", ("x", "y"), None))
    assert scaled(fun, 2).call_wrapped(3, 4) == [15]
    assert scaled2(scaled(fun, 2), 10).call_wrapped(3, 4) == [150]
    one, count = counted(fun)
    with pytest.raises(lu.StoreException):
        count()
    assert one.call_wrapped(3, 4) == [7] and count() == 2
    two, count2 = counted2(fun)
    _, never = counted2(fun)
    assert two.call_wrapped(3, 4) == [7]
    assert lu.merge_linear_aux(count2, never) == (True, 2) and lu.merge_linear_aux(never, count2) == (False, 2)
    with pytest.raises(lu.StoreException):
        lu.merge_linear_aux(never, never)
    assert lu.wrap_init(lambda x, *, k: x * k, {"k": 5}).call_wrapped(2) == 10


def test_cache_of_wrapped_functions():
    calls = []

    @lu.cache
    def run(fun, x):
        calls.append(x)
        return fun.call_wrapped(x)

    def double(x):
        return [2 * x]

    first, count = counted2(lu.wrap_init(double))
    assert run(first, 3) == [6] and count() == 1
    again, count = counted2(lu.wrap_init(double))
    assert run(again, 3) == [6] and count() == 1  # the store is filled from the first run
    assert run(lu.wrap_init(double), 3) == [6] and calls == [3, 3]  # other transformations: another entry
    run.cache_clear()
    assert run(lu.wrap_init(double), 3) == [6] and calls == [3, 3, 3]


# Calls and traces


def test_call_primitive_under_every_transformation():
    block_p = extend_core.CallPrimitive("block")

    def f(x, y):
        return block_p.bind(lambda a, b: [a * xnp.sin(b)], x, y)[0]

    expected = [np.sin(3.0), 2 * np.cos(3.0)]
    for transform in (lambda g: g, xf.jit):
        np.testing.assert_allclose(transform(f)(2.0, 3.0), 2 * np.sin(3), rtol=1e-6)
        np.testing.assert_allclose(transform(xf.grad(f, (0, 1)))(2.0, 3.0), expected, rtol=1e-6)
        mapped = transform(xf.vmap(f, (0, None)))(np.arange(3.0), 3.0)
        np.testing.assert_allclose(mapped, np.arange(3) * np.sin(3), rtol=1e-6)
    [eqn] = xf.make_jaxpr(f)(2.0, 3.0).eqns
    [inner], params = eqn.primitive.get_bind_params(eqn.params)
    assert eqn.primitive is block_p and params == {} and float(inner(2.0, 3.0)[0]) == pytest.approx(2 * np.sin(3))


class RecordingTracer(core.Tracer):
    def __init__(self, trace, value):
        self._trace = trace
        self.value = value

    @property
    def aval(self):
        return xf.typeof(self.value)

    def to_concrete_value(self):
        return self.value


class RecordingTrace(core.Trace):
    def __init__(self, parent_trace):
        super().__init__()
        self.parent_trace = parent_trace
        self.names = []

    def process_primitive(self, primitive, tracers, params):
        self.names.append(primitive.name)
        values = [t.value if isinstance(t, RecordingTracer) else t for t in tracers]
        with extend_core.set_current_trace(self.parent_trace):
            results = primitive.bind(*values, **params)
        if primitive.multiple_results:
            return [RecordingTracer(self, r) for r in results]
        return RecordingTracer(self, results)


def test_trace_of_a_user():
    def record(x):
        with extend_core.take_current_trace() as parent:
            trace = RecordingTrace(parent)
            with extend_core.set_current_trace(trace):
                result = xnp.sin(RecordingTracer(trace, x)) * 3
            return result.value, trace.names

    value, names = record(2.0)
    np.testing.assert_allclose(value, 3 * np.sin(2), rtol=1e-6)
    assert names == ["sin", "mul"]
    np.testing.assert_allclose(xf.jit(lambda x: record(x)[0])(2.0), 3 * np.sin(2), rtol=1e-6)
    np.testing.assert_allclose(xf.grad(lambda x: record(x)[0])(2.0), 3 * np.cos(2), rtol=1e-6)


def test_where_a_function_is_called():
    seen = []

    def look(x):
        seen.append((extend_core.unsafe_am_i_under_a_jit_DO_NOT_USE(), extend_core.unsafe_am_i_under_a_vmap_DO_NOT_USE(),
                     extend_core.unsafe_get_axis_names_DO_NOT_USE(), extend_core.nonempty_axis_env_DO_NOT_USE()))
        return x * 2

    look(1.0)
    xf.grad(look)(1.0)
    xf.jit(xf.vmap(look, axis_name="i"))(np.ones(3))
    assert seen == [(False, False, [], False), (False, False, [], False), (True, True, ["i"], True)]
    outside = extend_core.get_opaque_trace_state(convention="nnx")
    assert outside == extend_core.get_opaque_trace_state(convention="nnx")
    xf.jit(lambda x: (seen.append(outside == extend_core.get_opaque_trace_state()), x)[1])(1.0)
    assert seen[-1] is False
