"""Programs that define primitives and interpreters, in the way that JAX documents."""

import importlib
import subprocess
import sys

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import core, lax
from xlafront.extend import (
    backend,
    core as extend_core,
    linear_util as lu,
    random as extend_random,
    source_info_util as siu,
)
from xlafront.interpreters import ad, batching, partial_eval as pe
from xlafront.lax.elementwise import log_add_p
from xlafront.lax.roll import roll_p
from xlafront.nn.functions import relu6_p, relu_p


def scalar(dtype="float32"):
    return core.ShapedArray((), dtype)


# Registries


def test_registries_are_views_of_primitive_fields():
    result, tangent = ad.primitive_jvps[lax.sin_p]((1.0,), (2.0,))
    np.testing.assert_allclose([result, tangent], [np.sin(1), 2 * np.cos(1)], rtol=1e-6)
    cotangent, other = ad.primitive_transposes[lax.mul_p](2.0, ad.UndefinedPrimal(scalar()), 3.0)
    assert float(cotangent) == 6 and other is None
    value, dim = batching.primitive_batchers[lax.sin_p]((xnp.ones((2, 3)),), (1,))
    assert dim == 1 and value.shape == (2, 3)
    assert lax.sin_p in ad.primitive_jvps and lax.sin_p in set(ad.primitive_jvps)
    assert lax.sin_p not in ad.primitive_transposes and ad.primitive_transposes.get(lax.sin_p) is None
    call = xf.make_jaxpr(lambda x: xf.jit(xnp.sin)(x))(1.0).eqns[0]
    axis = batching.AxisData("i", 2)
    [value], [dim] = batching.fancy_primitive_batchers[call.primitive](axis, (xnp.ones((3, 2)),), (1,), **call.params)
    assert value.shape == (3, 2) and dim == 1
    assert call.primitive not in batching.axis_primitive_batchers and call.primitive not in batching.primitive_batchers
    with pytest.raises(KeyError, match="primitive_transposes"):
        ad.primitive_transposes[lax.sin_p]
    with pytest.raises(TypeError, match="primitives as keys"):
        ad.primitive_jvps["sin"] = lambda *_: None


@pytest.mark.parametrize("make", [ad.Zero, ad.UndefinedPrimal])
def test_symbolic_zeros_are_trees_without_leaves(make):
    """Rules map, compile and batch functions of their tangents and operands, some of which are not arrays."""
    x = make(scalar())
    assert xf.tree.leaves(x) == [] and xf.tree.structure(x) == xf.tree.structure(make(scalar()))
    assert xf.tree.structure(x) != xf.tree.structure(make(scalar("int32")))
    for transform in (xf.vmap, xf.jit):
        doubled, other = transform(lambda t: (t[0] * 2, t[1]))((xnp.arange(3.0), x))
        assert doubled.tolist() == [0.0, 2.0, 4.0] and type(other) is make and other.aval == scalar()


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
    params = eqn.primitive.get_bind_params(eqn.params)
    [inner] = params["subfuns"]
    assert eqn.primitive is block_p and list(params) == ["subfuns"]
    assert float(inner.call_wrapped(2.0, 3.0)[0]) == float(block_p.bind(2.0, 3.0, **params)[0]) == pytest.approx(2 * np.sin(3))


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


def test_custom_trace():
    def record(x):
        with extend_core.take_current_trace() as parent:
            trace = RecordingTrace(parent)
            with extend_core.set_current_trace(trace):
                result = xnp.sin(RecordingTracer(trace, x)) * 3
            assert trace.full_raise(result) is result is result.full_lower() and trace.full_raise(2.0) == 2.0
            return result.value, trace.names

    value, names = record(2.0)
    np.testing.assert_allclose(value, 3 * np.sin(2), rtol=1e-6)
    assert names == ["sin", "mul"]
    np.testing.assert_allclose(xf.jit(lambda x: record(x)[0])(2.0), 3 * np.sin(2), rtol=1e-6)
    np.testing.assert_allclose(xf.grad(lambda x: record(x)[0])(2.0), 3 * np.cos(2), rtol=1e-6)


class InnerTrace(RecordingTrace):
    """A trace that evaluates operations in its parent."""

    def process_primitive(self, primitive, tracers, params):
        with extend_core.set_current_trace(self.parent_trace):
            return primitive.bind(*tracers, **params)


def test_enclosing_traces_of_a_custom_trace():
    """Code that looks for enclosing traces finds those of a custom trace by its attribute `parent_trace`."""
    @xf.custom_jvp
    def f(x):
        return x * 3

    def rule(primals, tangents):
        with extend_core.take_current_trace() as parent, extend_core.set_current_trace(InnerTrace(parent)):
            return triple(primals[0]), 3 * tangents[0]

    @xf.custom_jvp
    def triple(x):
        return x * 3

    triple.defjvp(lambda primals, tangents: (triple(*primals), 3 * tangents[0]))
    f.defjvp(rule)
    for g in (xf.grad(f), xf.grad(lambda x: xf.jit(f)(x)), xf.jit(xf.grad(f))):
        assert g(2.0) == 3
    assert xf.grad(xf.grad(lambda x: f(x) ** 2))(2.0) == 18

    def inside(x):
        with extend_core.take_current_trace() as parent, extend_core.set_current_trace(InnerTrace(parent)):
            return triple(x)

    def closing(primals, tangents):
        return triple(*primals) + held[0], tangents[0]

    triple.defjvp(closing)
    held = [1.0]
    assert xf.jvp(inside, (2.0,), (1.0,)) == (7, 1)

    def leaking(x):
        held[0] = x
        return inside(x)

    with pytest.raises(xf.errors.UnexpectedTracerError, match="closes over"):
        xf.jvp(leaking, (2.0,), (1.0,))


def test_primitives_seen_by_extensions():
    """Internal primitives without rules in libraries are replaced by others, and the cases of `select_n` have one shape."""
    x, positive = xnp.array([-1.0, 0.0, 2.0]), xnp.array([False, False, True])

    def of(f, *args):
        with extend_core.take_current_trace() as parent:
            trace = RecordingTrace(parent)
            with extend_core.set_current_trace(trace):
                tracers = [RecordingTracer(trace, a) for a in args]
                result = f(*tracers)
            return [r.value for r in result] if isinstance(result, (list, tuple)) else result.value, trace.names

    value, names = of(lambda c, x: lax.select_n_p.bind(c, 0.0, x), positive, x)
    assert value.tolist() == [0, 0, 2] and names == ["broadcast_in_dim", "select_n"]
    value, names = of(lambda x, y: log_add_p.bind(x, y), x, x)
    np.testing.assert_allclose(value, np.logaddexp(x, x), rtol=1e-6)
    assert "logaddexp" not in names and {"exp", "log1p", "max"} <= {*names}
    value, names = of(relu_p.bind, x)
    assert value.tolist() == [0, 0, 2] and names == ["custom_jvp_call"]
    assert xf.grad(lambda x: of(relu_p.bind, x)[0].sum())(x).tolist() == [0, 0, 1]
    value, names = of(relu6_p.bind, 4 * x)
    assert value.tolist() == [0, 0, 6] and names == ["max", "min"]
    value, names = of(lambda x: roll_p.bind(x, shift=1, dimension=0), x)
    assert value.tolist() == [2, -1, 0] and names == ["slice", "slice", "concatenate"]
    rows, names = of(list, x)
    assert [float(r) for r in rows] == [-1, 0, 2] and "unstack" not in names


class OperandsTrace(RecordingTrace):
    """A trace that also records operands."""

    def __init__(self, parent_trace):
        super().__init__(parent_trace)
        self.operands = []

    def process_primitive(self, primitive, tracers, params):
        self.operands.append((primitive.name, tracers))
        return super().process_primitive(primitive, tracers, params)


def operands_of(f, *args):
    """Return the primitives of a function with their operands, and the function's result."""
    with extend_core.take_current_trace() as parent:
        trace = OperandsTrace(parent)
        with extend_core.set_current_trace(trace):
            result = f(*[RecordingTracer(trace, a) for a in args])
    return trace.operands, xf.tree.map(lambda t: t.value, result, is_leaf=lambda t: isinstance(t, RecordingTracer))


@pytest.mark.parametrize("dtype, number, kind", [("float32", 2.0, float), ("bfloat16", 2.0, float), ("float16", 3, float),
                                                 ("int8", 3, int), ("uint32", 3, int), ("complex64", 2.0, complex)])
def test_python_scalars_seen_by_extensions(dtype, number, kind):
    """Rules of libraries test for Python scalars; a scalar has the dtype of the array beside it."""
    x = xnp.arange(3).astype(dtype)
    for f in (lambda x: lax.mul(x, x.aval.dtype.type(number)), lambda x: x * number, lambda x: xnp.multiply(number, x)):
        operands, value = operands_of(f, x)
        [given] = [y for _, ys in operands for y in ys if not isinstance(y, RecordingTracer)]
        assert isinstance(given, kind) and not isinstance(given, np.generic) and given == number and given.dtype == dtype
        assert value.dtype == dtype and value.tolist() == [0, number, 2 * number]


def test_python_scalars_returned_by_extensions():
    """They are operands of their dtype: eagerly, in jaxprs, in derivatives and under vmap."""
    for dtype in ("float32", "bfloat16", "float16"):
        x = xnp.arange(3).astype(dtype)

        def f(x):
            return operands_of(lambda x: lax.mul(x, x.aval.dtype.type(1.5)), x)[1]

        for g in (f, xf.jit(f), xf.vmap(f), lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0]):
            assert g(x).dtype == dtype and g(x).tolist() == [0, 1.5, 3]
        assert xf.grad(lambda x: f(x).sum())(x).tolist() == [1.5] * 3


@pytest.mark.parametrize("f, array", [
    (lambda x: xnp.digitize(x, np.arange(3.0, dtype=np.float32)), np.float32([0.5, 3, -1])),
    (xnp.frexp, np.float32([0.75, 6])), (lambda x: xnp.ldexp(x, xnp.astype(x, np.int32)), np.float32([0.75, 6])),
    (xnp.linalg.pinv, np.float32([[1, 2], [3, 5]])), (lambda x: lax.linalg.qdwh(x)[:2], np.float32([[1, 2], [3, 5]])),
    (lambda x: xnp.nonzero(x, size=2), np.float32([0, 3, 4])), (lambda x: xnp.unique(x, size=2), np.float32([4, 3, 4])),
    (lambda x: xnp.compress(x, x, size=2), np.float32([0, 3, 4])),
    (lambda x: xnp.repeat(x, x, total_repeat_length=3), np.int32([0, 1, 2])),
    (lambda x: xnp.take(x, x, mode="clip"), np.int32([9, 1, -9])),
    (lambda x: xnp.take(np.arange(3), x, mode="clip"), np.uint32([9, 1, 2]))])
def test_operand_order_seen_by_extensions(f, array):
    """Operands that are no arrays have the positions that rules expect: second of and, or, div; a scalar first of min."""
    operands, value = operands_of(f, xnp.asarray(array))
    for name, given in operands:
        if name in ("and", "or", "div") and any(isinstance(x, RecordingTracer) for x in given):
            assert isinstance(given[0], RecordingTracer), name
        if name == "min":
            assert isinstance(given[1], RecordingTracer)
    for found, expected in zip(xf.tree.leaves(value), xf.tree.leaves(f(array))):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


class WrappingTrace(RecordingTrace):
    """A trace that forwards calls of functions with custom rules to the surrounding trace."""

    def hand_on(self, primitive, functions, tracers, options):
        self.names.append(primitive.name)
        values = [t.value for t in tracers]
        params = {"subfuns": tuple(unchanged(f) for f in functions), **options}
        results = primitive.bind_with_trace(self.parent_trace, tuple(values), tuple(map(xf.typeof, values)), params)
        return [RecordingTracer(self, r) for r in results]

    def process_custom_jvp_call(self, primitive, fun, jvp, tracers, *, symbolic_zeros):
        return self.hand_on(primitive, (fun, jvp), tracers, {"symbolic_zeros": symbolic_zeros})

    def process_custom_vjp_call(self, primitive, fun, fwd, bwd, tracers, *, out_trees, symbolic_zeros):
        return self.hand_on(primitive, (fun, fwd, bwd), tracers, {"out_trees": out_trees, "symbolic_zeros": symbolic_zeros})


@lu.transformation2
def unchanged(f, *args):
    return f(*args)


@pytest.mark.parametrize("symbolic_zeros", [False, True])
def test_custom_trace_that_forwards_custom_rules(symbolic_zeros):
    by_jvp, by_vjp = xf.custom_jvp(lambda x, y: x * y), xf.custom_vjp(lambda x, y: x * y)

    def jvp(primals, tangents):  # 100 times what it would be without the rule
        (x, y), (t, u) = primals, tangents
        assert (type(u) is xf.custom_derivatives.SymbolicZero) is symbolic_zeros
        return x * y, 100 * t * y

    def fwd(x, y):
        if symbolic_zeros:
            assert (x.perturbed, y.perturbed) == (True, False)
            x, y = x.value, y.value
        return x * y, (x, {"y": y})

    by_jvp.defjvp(jvp, symbolic_zeros=symbolic_zeros)
    by_vjp.defvjp(fwd, lambda saved, ct: (100 * ct * saved[1]["y"], None), symbolic_zeros=symbolic_zeros)
    for f, name in ((by_jvp, "custom_jvp_call"), (by_vjp, "custom_vjp_call")):
        for called in (f, lambda x, y, f=f: xf.extend.core.jaxpr_as_fun(xf.make_jaxpr(f)(2.0, 3.0))(x, y)[0]):
            def record(x, called=called, name=name):
                with extend_core.take_current_trace() as parent:
                    trace = WrappingTrace(parent)
                    with extend_core.set_current_trace(trace):
                        result = called(RecordingTracer(trace, x), RecordingTracer(trace, xnp.float32(3)))
                    assert trace.names == [name]
                    return result.value

            assert float(record(2.0)) == float(xf.jit(record)(2.0)) == 6
            assert float(xf.grad(record)(2.0)) == float(xf.jit(xf.grad(record))(2.0)) == 300
            assert xf.vmap(xf.grad(record))(xnp.arange(2.0)).tolist() == [300, 300]
            [eqn] = xf.make_jaxpr(record)(2.0).eqns
            assert eqn.primitive.name == name


def test_source_location_of_a_call():
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


# Interpreters of programs


def safe_map(f, *lists):
    assert len({len(xs) for xs in lists}) == 1
    return list(map(f, *lists))


def evaluate(jaxpr, consts, *args):
    """The interpreter of JAX's tutorial."""
    env = {}

    def read(var):
        return var.val if type(var) is extend_core.Literal else env[var]

    def write(var, val):
        env[var] = val

    safe_map(write, jaxpr.invars, args)
    safe_map(write, jaxpr.constvars, consts)
    for eqn in jaxpr.eqns:
        with eqn.ctx.manager:
            outvals = eqn.primitive.bind(*safe_map(read, eqn.invars), **eqn.primitive.get_bind_params(eqn.params))
        safe_map(write, eqn.outvars, outvals if eqn.primitive.multiple_results else [outvals])
    return safe_map(read, jaxpr.outvars)


def test_evaluating_interpreter(rng):
    table = rng.normal(size=3).astype(np.float32)

    def f(x):
        return xf.jit(lambda y: xnp.exp(y) * table)(x), xnp.sum(x) + 1

    x = rng.normal(size=3).astype(np.float32)
    closed = xf.make_jaxpr(f)(x)
    expected = np.exp(x) * table, x.sum() + 1
    for run in (lambda x: evaluate(closed.jaxpr, closed.literals, x), extend_core.jaxpr_as_fun(closed),
                lambda x: core.eval_jaxpr(closed.jaxpr, closed.consts, x)):
        for ours, theirs in zip(xf.jit(run)(x), expected):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def inverse(fun):
    """The inverting interpreter of JAX's tutorial."""
    registry = {lax.exp_p: xnp.log, lax.tanh_p: xnp.arctanh}

    def inverted(*args):
        closed = xf.make_jaxpr(fun)(*args)

        def invert(jaxpr, consts, *args):
            env = {}
            safe_map(env.__setitem__, jaxpr.outvars, args)
            safe_map(env.__setitem__, jaxpr.constvars, consts)
            for eqn in jaxpr.eqns[::-1]:
                invals = safe_map(env.__getitem__, eqn.outvars)
                if eqn.primitive is extend_core.primitives.jit_p:
                    outvals = invert(eqn.params["jaxpr"].jaxpr, eqn.params["jaxpr"].consts, *invals)
                else:
                    if eqn.primitive not in registry:
                        raise NotImplementedError(f"{eqn.primitive} has no registered inverse")
                    outvals = [registry[eqn.primitive](*invals)]
                safe_map(env.__setitem__, eqn.invars, outvals)
            return safe_map(env.__getitem__, jaxpr.invars)

        out = invert(closed.jaxpr, closed.literals, *args)
        return out[0] if len(out) == 1 else out

    return inverted


def test_inverting_interpreter():
    def f(x):
        return xnp.exp(xf.jit(xnp.tanh)(x))

    f_inverse = inverse(f)
    assert float(f_inverse(f(1.0))) == pytest.approx(1.0, rel=1e-5)
    mapped = xf.jit(xf.vmap(xf.grad(f_inverse)))((xnp.arange(5) + 1.0) / 5.0)
    y = np.log((np.arange(5) + 1) / 5)
    np.testing.assert_allclose(mapped[1:], (1 / (1 - y**2) / np.exp(y))[1:], rtol=1e-4)
    with pytest.raises(NotImplementedError, match="sin has no registered inverse"):
        inverse(xnp.sin)(1.0)


def test_jaxprs_built_by_hand():
    new = extend_core.gensym()
    x, y, z = (new(scalar()) for _ in range(3))
    source = xf.make_jaxpr(xnp.sin)(1.0).eqns[0].source_info
    equations = [extend_core.new_jaxpr_eqn([x], [y], lax.neg_p, {}, set(), source),
                 extend_core.new_jaxpr_eqn([y, x], [z], lax.mul_p, {}, set())]
    jaxpr = extend_core.Jaxpr([], [x], [z], equations, extend_core.no_effects,
                              extend_core.DebugInfo("test", "by_hand at here.py:3", ("x",), None))
    extend_core.check_jaxpr(jaxpr)
    assert equations[0].source_info == source and "test_extension_points" in equations[1].source_info.file
    assert float(extend_core.jaxpr_as_fun(extend_core.ClosedJaxpr(jaxpr, ()))(3.0)[0]) == -9.0
    with pytest.raises(extend_core.JaxprTypeError):
        extend_core.check_jaxpr(jaxpr.replace(eqns=equations[::-1]))
    outer = xf.make_jaxpr(lambda x: xf.jit(lambda y: y * 2)(x))(1.0).jaxpr
    [inner] = extend_core.subjaxprs(outer)
    assert [e.primitive for e in inner.eqns] == [lax.mul_p]
    assert list(extend_core.jaxprs_in_params(outer.eqns[0].params)) == [inner]


def test_types_of_elements_and_batches():
    aval = core.ShapedArray((2, 3), "float32")
    assert extend_core.mapped_aval(3, 1, aval).shape == (2,)
    assert extend_core.unmapped_aval(5, 1, aval).shape == (2, 5, 3)
    assert extend_core.mapped_aval(3, None, aval) is aval
    with pytest.raises(ValueError, match="cannot be mapped over 5"):
        extend_core.mapped_aval(5, 0, aval)
    assert [extend_core.valid_jaxtype(v) for v in (1, "a", np.ones(2), xnp.ones(2), None, np.array(["a"]))] == [
        True, False, True, True, False, False]
    assert extend_core.concrete_or_error(int, xnp.int32(3)) == 3
    assert xf.grad(lambda x: x * extend_core.concrete_or_error(float, x))(2.0) == 2.0
    with pytest.raises(xf.errors.ConcretizationTypeError, match="a size is needed"):
        xf.jit(lambda x: extend_core.concrete_or_error(int, x, "a size is needed"))(3)


def test_types_of_values_that_can_be_indexed():
    x = xnp.arange(6.0).reshape(3, 2)
    assert xf.typeof(x)._getitem(x, 1).tolist() == [2, 3] and hasattr(xf.typeof(xf.random.key(0)), "_getitem")
    assert not hasattr(extend_core.AbstractToken, "_getitem")


# Partial evaluation


def test_partial_evaluation_stages_unknown_values(rng):
    x, y = rng.normal(size=3).astype(np.float32), rng.normal(size=3).astype(np.float32)

    def f(x, y):
        return [xnp.sin(x), xnp.cos(x) * y]

    known, unknown = pe.PartialVal.known(xnp.asarray(x)), pe.PartialVal.unknown(xf.typeof(y))
    jaxpr, (first, second), consts = pe.trace_to_jaxpr_nounits(lu.wrap_init(f), [known, unknown])
    assert first.is_known() and not second.is_known() and second.get_aval().shape == (3,)
    np.testing.assert_allclose(first.get_known(), np.sin(x), rtol=1e-5)
    assert [e.primitive for e in jaxpr.eqns] == [lax.mul_p]
    np.testing.assert_allclose(core.eval_jaxpr(jaxpr, consts, y)[0], np.cos(x) * y, rtol=1e-5)
    jaxpr, results, consts = pe.trace_to_jaxpr_nounits(lu.wrap_init(f), [known, pe.PartialVal.known(y)], instantiate=True)
    assert not jaxpr.eqns and not jaxpr.invars and not any(r.is_known() for r in results)
    np.testing.assert_allclose(core.eval_jaxpr(jaxpr, consts)[1], np.cos(x) * y, rtol=1e-5)


class OwnEffect(core.Effect):
    """An effect of another package."""


def test_partial_evaluation_drops_what_no_result_needs():
    """The equations that stay compute results or have effects of this library, also if they are in a loop or a call."""
    own_p = extend_core.Primitive("own")
    own_p.def_effectful_abstract_eval(lambda x: (x, {OwnEffect()}))
    own_p.def_impl(lambda x: x)
    unknown = [pe.PartialVal.unknown(scalar())]

    def staged(f):
        jaxpr, _, consts = pe.trace_to_jaxpr_nounits(lu.wrap_init(f), unknown, instantiate=True)
        assert len(jaxpr.invars) == 1
        return [e.primitive.name for e in jaxpr.eqns], core.eval_jaxpr(jaxpr, consts, xnp.float32(3))

    def unused(x):
        xf.jit(lambda x: own_p.bind(xnp.sin(x)))(x)
        own_p.bind(x * 2)
        return [x - 1]

    assert staged(unused) == (["sub"], [2])
    assert staged(lambda x: [own_p.bind(xnp.square(x)) - 1])[0] == ["square", "own", "sub"]
    printed = []

    def with_callback(x):
        xf.debug.callback(lambda x: printed.append(float(x)), x * 2)
        lax.scan(lambda c, _: (c, xf.debug.callback(lambda x: printed.append(float(x)), c)), x, length=2)
        return [x - 1]

    assert staged(with_callback) == (["mul", "debug_callback", "scan", "sub"], [2])
    xf.effects_barrier()
    assert sorted(printed) == [3, 3, 6]


def test_dce_of_functions():
    fun = lu.wrap_init(lambda x, y: [x * 2, xnp.sin(y), y])
    jaxpr, types, consts = pe.trace_to_jaxpr_dynamic(fun, [scalar(), scalar()])
    assert len(jaxpr.eqns) == 2 and len(types) == 3 and consts == []
    pruned, used = pe.dce_jaxpr(jaxpr, [True, False, False])
    assert used == [True, False] and len(pruned.eqns) == 1
    _, used = pe.dce_jaxpr(jaxpr, [True, False, False], instantiate=[False, True])
    assert used == [True, True]
    table = np.arange(3.0)
    closed = xf.make_jaxpr(lambda x: (x * table, x + 1))(1.0)
    pruned, used_consts, used = pe.dce_jaxpr_consts(closed.jaxpr, [False, True])
    assert not any(used_consts) and not pruned.constvars and used == [True]
    requests = []

    def rule(used_outputs, eqn):
        requests.append(used_outputs)
        return [True] * len(eqn.invars), eqn

    p = extend_core.CallPrimitive("block")
    call = xf.make_jaxpr(lambda x, y: p.bind(lambda a, b: [a * 2, b * 3], x, y))(1.0, 2.0).jaxpr
    for own in (pe.dce_rules[p], pe.dce_jaxpr_closed_call_rule):
        pe.dce_rules[p] = own
        pruned, used = pe.dce_jaxpr(call, [False, True])
        assert used == [False, True] and len(pruned.eqns[0].invars) == 1
    pe.dce_rules[p] = rule
    assert pe.dce_jaxpr(call, [False, True])[1] == [True, True] and requests == [[False, True]]


def test_derivatives_of_wrapped_functions():
    fun = lu.wrap_init(lambda x, y: [x * xnp.sin(y), x])
    values, tangents = ad.jvp(fun, [2.0, 3.0], [1.0, ad.Zero(scalar())])
    np.testing.assert_allclose([*values, *tangents], [2 * np.sin(3), 2, np.sin(3), 1], rtol=1e-6)
    assert isinstance(ad.jvp(lu.wrap_init(lambda x: [2.0]), [1.0], [1.0], instantiate=False)[1][0], ad.Zero)
    values, _, jaxpr, consts = ad.linearize(fun, [2.0, 3.0])
    np.testing.assert_allclose(core.eval_jaxpr(jaxpr, consts, 1.0, 1.0), [np.sin(3) + 2 * np.cos(3), 1], rtol=1e-6)


# Generators, backends, places


def test_custom_random_generator():
    impl = extend_random.define_prng_impl(
        key_shape=(1,), seed=lambda number: xnp.asarray(number, "uint32").reshape(1),
        split=lambda key, shape: xnp.broadcast_to(key, (*shape, 1)) + xnp.arange(np.prod(shape), dtype="uint32").reshape(*shape, 1),
        random_bits=lambda key, width, shape: xnp.full(shape, key[0], f"uint{width}"),
        fold_in=lambda key, number: key + xnp.asarray(number, "uint32"), name="counter", tag="count")
    key = extend_random.seed_with_impl(impl, 5)
    assert str(key.dtype) == "key<count>" and xf.random.key_data(key).tolist() == [5]
    assert xf.random.bits(key, (2,)).tolist() == [5, 5]
    assert xf.random.key_data(xf.random.split(key, 3)).tolist() == [[5], [6], [7]]
    assert xf.random.key_data(xf.random.fold_in(key, 4)).tolist() == [9]
    assert extend_random.random_seed(xnp.arange(4), impl).shape == (4,)


def test_threefry_known_answers():
    """The test vectors of the Random123 library for the 2x32 cipher with 20 rounds."""
    for key, count, answer in (((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
                               ((2**32 - 1,) * 2, (2**32 - 1,) * 2, (0x1CB996FC, 0xBB002BE7)),
                               ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0))):
        words = extend_random.threefry_2x32(np.array(key, np.uint32), np.array(count, np.uint32))
        assert words.tolist() == list(answer)
    assert extend_random.threefry_2x32(np.array([1, 2], np.uint32), np.arange(3, dtype=np.uint32)).shape == (3,)


@pytest.mark.cpu_only
def test_backends():
    assert backend.backends()["cpu"] is backend.get_backend("cpu")
    assert backend.get_default_device() in xf.devices()
    options = backend.get_compile_options(1, 2, device_assignment=[[0, 1]])
    assert options.num_partitions == 2 and options.device_assignment.computation_count() == 2
    with pytest.raises(ValueError, match="device_assignment has shape"):
        backend.get_compile_options(1, 2, device_assignment=[[0]])
    with pytest.raises(RuntimeError, match="Register it before"):
        backend.register_backend_factory("late", lambda: None, priority=1000)
    double = xf.jit(lambda x: x * 2)
    traces = []
    counted = xf.jit(lambda x: (traces.append(1), x * 3)[1])
    assert float(double(2.0)) == 4.0 and float(counted(2.0)) == 6.0
    backend.clear_in_memory_compilation_cache()
    assert float(double(2.0)) == 4.0 and float(counted(2.0)) == 6.0 and traces == [1]


@pytest.mark.cpu_only
def test_source_locations_and_scopes():
    def f(x):
        with siu.extend_name_stack("encoder"), siu.extend_name_stack("layer"):
            assert str(siu.current_name_stack()) == "encoder/layer"
            return lax.sin(x)

    [eqn] = xf.make_jaxpr(f)(1.0).eqns
    assert eqn.source_info.name_stack == "encoder/layer" and "test_extension_points" in siu.summarize(eqn.source_info)
    with siu.user_context(eqn.source_info):
        assert siu.current().line == eqn.source_info.line
    assert str(siu.new_name_stack("a").extend("b").transform("jit")) == "a/b/jit()"


# Names

MATRIX = np.eye(3, dtype=np.float32)


@pytest.mark.parametrize("name, f", [
    ("eig_p", lax.linalg.eig), ("eigh_p", lax.linalg.eigh), ("svd_p", lax.linalg.svd), ("schur_p", lax.linalg.schur),
    ("hessenberg_p", lax.linalg.hessenberg), ("tridiagonal_p", lambda a: lax.linalg.tridiagonal(a, lower=True)),
    ("triangular_solve_p", lambda a: lax.linalg.triangular_solve(a, a)), ("get_p", lambda a: xf.new_ref(a)[0]),
    ("swap_p", lambda a: xf.ref.swap(xf.new_ref(a), 0, a[1])), ("random_gamma_p", lambda a: xf.random.gamma(xf.random.key(0), a)),
])
def test_primitives_of_programs_by_name(name, f):
    found = set()

    def collect(program):
        for eqn in program.eqns:
            found.add(eqn.primitive)
            for inner in extend_core.jaxprs_in_params(eqn.params):
                collect(inner)

    collect(xf.make_jaxpr(f)(MATRIX).jaxpr)
    assert getattr(extend_core.primitives, name) in found


LISTED = {
    "core": "AbstractValue ShapedArray Trace Tracer ensure_compile_time_eval eval_context eval_jaxpr max_dim min_dim",
    "extend.backend": """backend_xla_version backends clear_backends clear_in_memory_compilation_cache get_backend
        get_compile_options get_default_device register_backend_cache register_backend_factory""",
    "extend.core": """AbstractToken CallPrimitive ClosedJaxpr DebugInfo DropVar Effect Effects InconclusiveDimensionOperation
        Jaxpr JaxprEqn JaxprTypeError Literal Primitive Token TraceTag Var array_types call_impl check_jaxpr
        concrete_or_error find_top_trace gensym get_opaque_trace_state jaxpr_as_fun jaxprs_in_params mapped_aval
        new_jaxpr_eqn no_effects nonempty_axis_env_DO_NOT_USE primal_dtype_to_tangent_dtype primitives set_current_trace
        subjaxprs take_current_trace unmapped_aval unsafe_am_i_under_a_jit_DO_NOT_USE unsafe_am_i_under_a_vmap_DO_NOT_USE
        unsafe_get_axis_names_DO_NOT_USE valid_jaxtype""",
    "extend.core.primitives": """add_p add_jaxvals_p call_p closed_call_p create_call_primitive custom_jvp_call_p
        custom_vjp_call_p dot_general_p eig_p eigh_p eval_jaxpr_transpose get_p hessenberg_p jit_p mul_p random_gamma_p random_wrap_p
        register_call_primitive_rules remat_p scan_p schur_p svd_p swap_p
        threefry2x32_p triangular_solve_p tridiagonal_p while_p""",
    "extend.linear_util": """StoreException WrappedFun cache merge_linear_aux transformation transformation2
        transformation_with_aux transformation_with_aux2 wrap_init""",
    "extend.lowering": "JaxIrContext LoweringRuleContext",
    "extend.mlir": "dialects ir passmanager deserialize_portable_artifact hlo_to_stablehlo serialize_portable_artifact",
    "extend.mlir.dialects": "arith builtin chlo func math memref scf sdy sparse_tensor stablehlo vector",
    "extend.random": """define_prng_impl random_seed seed_with_impl threefry2x32_p threefry_2x32 threefry_prng_impl""",
    "extend.source_info_util": """NameStack SourceInfo current current_name_stack extend_name_stack new_name_stack
        new_source_info register_exclusion reset_name_stack set_name_stack summarize transform_name_stack user_context""",
    "interpreters.ad": """JVPTrace JVPTracer UndefinedPrimal Zero add_jaxvals add_jaxvals_p add_tangents annotations
        backward_pass defbilinear defjvp defjvp2 deflinear deflinear2 get_primitive_transpose instantiate_zeros is_undefined_primal jvp
        jvp_jaxpr linearize primitive_jvps primitive_transposes zeros_like_aval""",
    "interpreters.batching": """axis_primitive_batchers batch_jaxpr_axes batch_subtrace bdim_at_front broadcast
        defbroadcasting defreducer defvectorized fancy_primitive_batchers primitive_batchers register_vmappable unregister_vmappable zero_if_mapped""",
    "interpreters.mlir": """ConstantHandler DEVICE_TO_DEVICE_TYPE LoweringParameters LoweringResult LoweringRuleContext Mesh
        ModuleContext RECV_FROM_HOST_TYPE SEND_TO_HOST_TYPE SPMDAxisContext ShapePolyLoweringState ShardingContext Token
        TokenSet Value aval_to_ir_type aval_to_ir_types core_call_lowering dense_int_array dense_int_elements
        dtype_to_ir_type emit_python_callback flatten_ir_types flatten_ir_values i32_attr i64_attr ir_attribute ir_constant
        ir_constants ir_tree_registry jaxpr_subcomp lower_fun lower_jaxpr_to_fun lower_jaxpr_to_module lowerable_effects
        make_ir_context merge_mlir_modules module_to_bytecode module_to_string register_constant_handler
        register_lowering shape_tensor unflatten_ir_values_like_types""",
    "interpreters.partial_eval": """DynamicJaxprTracer JaxprTracer PartialVal abstract_eval_fun close_jaxpr
        convert_constvars_jaxpr dce_jaxpr dce_jaxpr_call_rule dce_jaxpr_closed_call_rule dce_jaxpr_consts dce_rules lower_jaxpr
        lower_jaxpr2 move_binders_to_back new_eqn_recipe partial_eval_jaxpr_nounits prune_closed_jaxpr_outputs
        trace_to_jaxpr_dynamic trace_to_jaxpr_nounits""",
    "interpreters.pxla": "create_compile_options",
    "interpreters.xla": "Backend apply_primitive",
}


@pytest.mark.parametrize("module", LISTED)
def test_names_of_the_reference(module):
    space = importlib.import_module(f"xlafront.{module}")
    assert [name for name in LISTED[module].split() if not hasattr(space, name)] == []


def test_import_loads_no_extension_point():
    code = ("import sys, xlafront, xlafront.numpy; xlafront.numpy.ones(3) + 1\n"
            "print([m for m in sys.modules if m.startswith(('xlafront.extend', 'xlafront.interpreters'))])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_equations_as_extensions_make_them():
    """With the source location and the context of another equation, as in passes of BrainState."""
    closed = xf.make_jaxpr(lambda x: x + 1.5)(2.0)
    [eqn] = closed.eqns
    product = type(eqn)(eqn.invars, eqn.outvars, xf.lax.mul_p, {"out_dtype": None}, set(), eqn.source_info, eqn.ctx)
    assert product.source_info == eqn.source_info and product.effects == frozenset()
    program = type(closed)(closed.jaxpr.replace(eqns=[product]), [])
    assert xf.jit(xf.extend.core.jaxpr_as_fun(program))(2.0)[0] == 3
    assert xf.jit(xf.grad(lambda x: xf.extend.core.jaxpr_as_fun(program)(x)[0]))(2.0) == 1.5


def test_vmap_of_pytree_nodes_of_a_registered_type():
    """The names of the dimensions, which the node holds beside its array, lose and get the mapped one."""
    class Named:
        def __init__(self, names, data):
            self.names, self.data = names, data

    class Axis:
        def __init__(self, name, position):
            self.name, self.position = name, position

    def element(take, _, x, axis):
        return Named([n for n in x.names if n != axis.name], take(x.data, x.names.index(axis.name)))

    def batch(stack, size, x, axis):
        return Named([*x.names[:axis.position], axis.name, *x.names[axis.position:]], stack(size, x.data, axis.position))

    xf.tree_util.register_pytree_node(Named, lambda x: ((x.data,), tuple(x.names)), lambda names, data: Named(list(names), *data))
    batching.register_vmappable(Named, Axis, int, element, batch, None)
    try:
        x = Named(["i", "j"], xnp.arange(12.0).reshape(3, 4))
        found = xf.vmap(lambda x: x, in_axes=Axis("i", 0), out_axes=Axis("i", 1), axis_size=3)(x)
        assert found.names == ["j", "i"] and found.data.tolist() == x.data.T.tolist()
        both = xf.vmap(lambda x, y: x.data * y, in_axes=(Axis("i", 0), 0), axis_size=3)(x, xnp.arange(3.0))
        assert both.tolist() == (x.data * xnp.arange(3.0)[:, None]).tolist()
    finally:
        batching.unregister_vmappable(Named)
