"""User-defined primitives, written in the way that JAX documents, under every transformation."""

import functools

import numpy as np
import pytest
from laws import check_batching, check_derivatives

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import core, lax
from xlafront.extend import core as extend_core
from xlafront.extend.mlir import ir
from xlafront.extend.mlir.dialects import stablehlo as hlo
from xlafront.interpreters import ad, batching, mlir


def make_multiply_add():
    """Return `x * y + z` with each rule defined, as in the tutorial on primitives."""
    multiply_add_p = extend_core.Primitive("multiply_add")

    def multiply_add(x, y, z):
        return multiply_add_p.bind(x, y, z)

    @multiply_add_p.def_impl
    def impl(x, y, z):
        return np.add(np.multiply(x, y), z)

    @multiply_add_p.def_abstract_eval
    def abstract_eval(xs, ys, zs):
        assert xs.shape == ys.shape == zs.shape
        return core.ShapedArray(xs.shape, xs.dtype)

    def lowering(ctx, xc, yc, zc):
        assert ir.Context.current is ctx.module_context.context and ctx.avals_out == [ctx.avals_in[0].strip_weak_type()]
        return [hlo.AddOp(hlo.MulOp(xc, yc), zc).result]

    mlir.register_lowering(multiply_add_p, lowering, platform="cpu")

    def value_and_jvp(arg_values, arg_tangents):
        x, y, z = arg_values
        xt, yt, zt = arg_tangents

        def make_zero(tangent):
            return lax.full_like(x, 0) if type(tangent) is ad.Zero else tangent

        output = multiply_add(x, y, z)
        moved = multiply_add(make_zero(xt), y, multiply_add(x, make_zero(yt), make_zero(zt)))
        return output, moved

    ad.primitive_jvps[multiply_add_p] = value_and_jvp

    def transpose(ct, x, y, z):
        if not ad.is_undefined_primal(x):  # linear in y and z
            ct_y = ad.Zero(y.aval) if type(ct) is ad.Zero else multiply_add(x, ct, xnp.zeros_like(ct))
            return None, ct_y, ct
        ct_x = ad.Zero(x.aval) if type(ct) is ad.Zero else multiply_add(ct, y, xnp.zeros_like(ct))
        return ct_x, None, ct

    ad.primitive_transposes[multiply_add_p] = transpose

    def batch(args, dims):
        size = next(np.shape(x)[d] for x, d in zip(args, dims) if d is not batching.not_mapped)
        return multiply_add(*[batching.bdim_at_front(x, d, size) for x, d in zip(args, dims)]), 0

    batching.primitive_batchers[multiply_add_p] = batch
    return multiply_add


@pytest.mark.cpu_only
def test_multiply_add_of_the_tutorial(rng):
    multiply_add = make_multiply_add()
    assert multiply_add(2.0, 3.0, 4.0) == 10.0 and isinstance(multiply_add(2.0, 3.0, 4.0), np.floating)
    assert float(xf.jit(multiply_add)(2.0, 3.0, 4.0)) == 10.0

    def square_add(a, b):
        return multiply_add(a, a, b)

    value, moved = xf.jvp(square_add, (2.0, 10.0), (1.0, 1.0))
    assert (float(value), float(moved)) == (14.0, 5.0)
    assert float(xf.jit(xf.grad(square_add))(2.0, 10.0)) == 4.0
    assert [float(g) for g in xf.grad(square_add, (0, 1))(2.0, 10.0)] == [4.0, 1.0]
    rows = xf.vmap(square_add, in_axes=0)(np.array([2.0, 3.0]), np.array([10.0, 20.0]))
    np.testing.assert_array_equal(rows, [14.0, 29.0])
    slopes = xf.jit(xf.vmap(xf.grad(square_add), in_axes=(0, None)))(np.array([2.0, 3.0]), 10.0)
    np.testing.assert_array_equal(slopes, [4.0, 6.0])
    curvature = xf.grad(xf.grad(lambda a: multiply_add(a, a * a, 1.0)))(2.0)  # (a^3 + 1)'' = 6 a
    assert float(curvature) == pytest.approx(12.0)
    args = [rng.normal(size=3) for _ in range(3)]
    check_derivatives(lambda x, y, z: multiply_add(xnp.sin(x), y, z), args, rng)
    check_batching(xf.jit(multiply_add), [a.astype(np.float32) for a in args])
    assert " = multiply_add " in str(xf.make_jaxpr(multiply_add)(1.0, 2.0, 3.0))


def test_two_results_and_nested_values():
    p = extend_core.Primitive("sum_and_difference")
    p.multiple_results = True
    p.def_impl(lambda x, y, *, scale: [scale * (x + y), x - y])
    p.def_abstract_eval(lambda x, y, *, scale: (x, y))

    def lowering(ctx, x, y, *, scale):
        factor = mlir.ir_constant(np.full(ctx.avals_in[0].shape, scale, ctx.avals_in[0].dtype))
        return hlo.multiply(factor, hlo.add(x, y)), [hlo.subtract(x, y)]

    mlir.register_lowering(p, lowering)
    bound = functools.partial(p.bind, scale=3.0)
    ad.primitive_jvps[p] = lambda primals, tangents, **params: (
        p.bind(*primals, **params), p.bind(*map(ad.instantiate_zeros, tangents), **params))

    def transpose(cts, x, y, *, scale):
        first, second = map(ad.instantiate_zeros, cts)
        return [scale * first + second, scale * first - second]

    ad.primitive_transposes[p] = transpose
    batching.defbroadcasting(p)
    for transform in (lambda f: f, xf.jit):
        total, difference = transform(lambda x, y: bound(x, y))(5.0, 2.0)
        assert (float(total), float(difference)) == (21.0, 3.0)
        np.testing.assert_allclose(
            transform(xf.grad(lambda x, y: bound(x, y)[0] * 2 + bound(x, y)[1], (0, 1)))(5.0, 2.0), [7.0, 5.0])
        rows = transform(xf.vmap(lambda x, y: bound(x, y)[0], in_axes=(0, 0)))(xnp.arange(3.0), xnp.ones(3))
        np.testing.assert_allclose(rows, [3.0, 6.0, 9.0])


def scaled_primitive():
    p = extend_core.Primitive("scaled")
    p.def_impl(lambda x, *, by: x * by)
    p.def_abstract_eval(lambda x, *, by: x)
    mlir.register_lowering(p, mlir.lower_fun(lambda x, *, by: x * by, multiple_results=False))
    return p


@pytest.mark.parametrize("define", [
    lambda p: ad.deflinear(p, lambda ct, *, by: [p.bind(ct, by=by)]),
    lambda p: ad.deflinear2(p, lambda ct, x, *, by: [p.bind(ct, by=by) if ad.is_undefined_primal(x) else None]),
    lambda p: ad.defjvp(p, lambda g, x, *, by: g * by),
    lambda p: ad.defjvp2(p, lambda g, result, x, *, by: g * by + 0 * result),
], ids=["deflinear", "deflinear2", "defjvp", "defjvp2"])
def test_rules_from_functions_per_operand(define, rng):
    p = scaled_primitive()
    define(p)
    batching.defvectorized(p)
    check_derivatives(lambda x: p.bind(xnp.sin(x), by=3.0), [rng.normal(size=4)], rng)
    check_batching(lambda x: p.bind(x, by=3.0), [rng.normal(size=4).astype(np.float32)])


def test_bilinear_and_reducer(rng):
    times_p = extend_core.Primitive("times")
    times_p.def_abstract_eval(lambda x, y: x)
    mlir.register_lowering(times_p, lambda ctx, x, y: hlo.multiply(x, y))
    ad.defbilinear(times_p, lambda ct, x, y: times_p.bind(ct, y), lambda ct, x, y: times_p.bind(ct, x))
    batching.defbroadcasting(times_p)
    args = [rng.normal(size=4), rng.normal(size=4)]
    check_derivatives(lambda x, y: times_p.bind(x, xnp.cos(y)), args, rng)
    check_derivatives(lambda x: times_p.bind(x, x), args[:1], rng)

    total_p = extend_core.Primitive("total")
    total_p.def_abstract_eval(lambda x, *, axes: core.ShapedArray(np.delete(x.shape, axes), x.dtype))
    mlir.register_lowering(total_p, mlir.lower_fun(lambda x, *, axes: xnp.sum(x, axes), multiple_results=False))
    batching.defreducer(total_p)
    check_batching(lambda x: total_p.bind(x, axes=(1,)), [rng.normal(size=(2, 3, 4)).astype(np.float32)])


def test_rules_that_take_the_mapped_axis():
    p = extend_core.Primitive("size_of_axis")
    p.def_abstract_eval(lambda x: x)
    seen = []

    def fancy(axis_data, args, dims):
        seen.append((axis_data.name, axis_data.size, dims))
        return args[0] * axis_data.size, dims[0]

    batching.fancy_primitive_batchers[p] = fancy
    np.testing.assert_array_equal(xf.vmap(p.bind, axis_name="i")(xnp.ones(4)), np.full(4, 4.0))

    def with_axis(axis_size, axis_name, main_type, args, dims):
        seen.append((axis_name, axis_size, dims))
        return args[0] + axis_size, dims[0]

    batching.axis_primitive_batchers[p] = with_axis
    np.testing.assert_array_equal(xf.vmap(p.bind, axis_name="j")(xnp.ones(4)), np.full(4, 5.0))
    assert seen == [("i", 4, (0,)), ("j", 4, (0,))]


def test_python_numbers_reach_rules_with_shape_and_dtype():
    p = extend_core.Primitive("typed")
    seen = []

    def look(*values):
        seen.append([(v.shape, str(v.dtype)) for v in values])

    p.def_impl(lambda x, y: (look(x, y), x * y)[1])
    ad.primitive_jvps[p] = lambda primals, tangents: (
        look(*primals), (p.bind(*primals), ad.instantiate_zeros(tangents[0]) * primals[1]))[1]
    batching.primitive_batchers[p] = lambda args, dims: (look(*args), (p.bind(*args), dims[0]))[1]
    assert p.bind(2, 3.0) == 6.0
    assert float(xf.jvp(lambda x: p.bind(x, 3.0), (2.0,), (1.0,))[1]) == 3.0
    np.testing.assert_array_equal(xf.vmap(lambda x: p.bind(x, 3.0))(xnp.ones(2)), [3.0, 3.0])
    assert seen[0] == [((), "int32"), ((), "float32")]
    assert seen[1:] == [[((), "float32")] * 2] * 2 + [[((2,), "float32"), ((), "float32")]] * 2


def test_operands_of_rules_have_the_dtypes_of_compiled_code_and_are_tuples():
    p, seen = extend_core.Primitive("sum_and_first"), []
    p.multiple_results = True

    def run(x, y):
        seen.append((type(x), x.dtype, y.dtype))
        return [np.add(x, y), x]

    def transpose(cotangents, x, y):
        seen.append(type(cotangents))
        return [ad.instantiate_zeros(cotangents[0]) + ad.instantiate_zeros(cotangents[1]), ad.instantiate_zeros(cotangents[0])]

    p.def_impl(run)
    p.def_abstract_eval(lambda x, y: [x, x])
    ad.primitive_jvps[p] = lambda primals, tangents: (
        seen.append((type(primals), type(tangents))), (p.bind(*primals), p.bind(*map(ad.instantiate_zeros, tangents))))[1]
    ad.primitive_transposes[p] = transpose
    batching.primitive_batchers[p] = lambda args, dims: (p.bind(*args), [0, 0])
    wide = np.arange(3.0)  # float64, which programs do not have
    for function, args in [(p.bind, (wide, wide)), (xf.vmap(p.bind), (wide, wide)), (p.bind, (np.float64(2), np.int64(2)))]:
        total, first = function(*args)
        np.testing.assert_array_equal(total, 2 * args[0])
        assert first.dtype == np.float32
    assert [x[1:] for x in seen] == [("float32", "float32")] * 2 + [("float32", "int32")]
    assert [x[0] for x in seen] == [np.ndarray, np.ndarray, np.float32]
    seen.clear()
    xf.jvp(lambda x, y: p.bind(x, y)[0], (xnp.ones(3), xnp.ones(3)), (xnp.ones(3), xnp.ones(3)))
    assert seen[0] == (tuple, tuple)
    seen.clear()
    np.testing.assert_array_equal(xf.linear_transpose(p.bind, wide, wide)([np.ones(3, "f"), np.ones(3, "f")])[0], [2.0] * 3)
    assert seen == [tuple]
    with pytest.raises(TypeError, match="sum_and_first"):
        p.bind([1.0], 2.0)


# Reusing and replacing internal rules


def test_internal_rule_can_be_wrapped():
    calls = []
    original = ad.primitive_jvps[lax.tanh_p]

    def counting(primals, tangents, **params):
        calls.append(1)
        return original(primals, tangents, **params)

    ad.primitive_jvps[lax.tanh_p] = counting
    try:
        assert float(xf.grad(lax.tanh)(0.5)) == pytest.approx(1 - np.tanh(0.5) ** 2)
        assert calls == [1]
    finally:
        ad.primitive_jvps[lax.tanh_p] = original
    assert ad.primitive_jvps[lax.tanh_p] is original


# Lowering


def test_function_of_arrays_as_lowering_within_a_region(rng):
    """`lower_fun` with the insertion point in a loop that the rule itself emits."""
    p = extend_core.Primitive("repeated_halving")
    p.def_abstract_eval(lambda x: x)
    half = mlir.lower_fun(lambda x: x * 0.5, multiple_results=False)

    def lowering(ctx, x):
        i32 = mlir.aval_to_ir_type(ctx.module_context, core.ShapedArray((), np.dtype("int32")))
        loop = hlo.WhileOp([i32, x.type], [mlir.ir_constant(np.int32(0)), x])
        cond = loop.regions[0].blocks.append(i32, x.type)
        with ir.InsertionPoint(cond):
            less = hlo.compare(cond.arguments[0], mlir.ir_constant(np.int32(3)), hlo.ComparisonDirectionAttr.get("LT"))
            hlo.return_([less])
        body = loop.regions[1].blocks.append(i32, x.type)
        with ir.InsertionPoint(body):
            [halved] = mlir.flatten_ir_values(half(ctx, body.arguments[1]))
            hlo.return_([hlo.add(body.arguments[0], mlir.ir_constant(np.int32(1))), halved])
        return mlir.flatten_ir_values(half(ctx, loop.results[1]))

    mlir.register_lowering(p, lowering)
    x = rng.normal(size=3).astype(np.float32)
    np.testing.assert_allclose(xf.jit(lambda x: p.bind(x * 0.5))(x), x / 32, rtol=1e-6)


def test_outlined_rule_is_emitted_once():
    p = scaled_primitive()
    mlir.register_lowering(p, mlir.lower_fun(lambda x, *, by: x * by, multiple_results=False), inline=False)
    lowered = xf.jit(lambda x: p.bind(p.bind(x, by=2.0), by=2.0) + p.bind(x, by=3.0)).lower(1.0)
    text = lowered.as_text()
    assert text.count("func.func private") == 2 and text.count("call @scaled") == 3
    assert float(lowered.compile()(1.0)) == 7.0


def test_jaxprs_in_rules():
    inner = xf.make_jaxpr(lambda x, y: (x * y, x + 2))(1.0, 1.0)
    for rule in (
        lambda ctx, x, y: mlir.core_call_lowering(ctx, x, y, name="inner", call_jaxpr=inner),
        lambda ctx, x, y: mlir.jaxpr_subcomp(ctx.module_context, inner.jaxpr, ctx.name_stack, ctx.tokens_in, [], x, y,
                                             dim_var_values=ctx.dim_var_values, const_lowering=ctx.const_lowering,
                                             outer_traceback=None)[0],
        mlir.lower_fun(lambda x, y: [x * y, x + 2]),
    ):
        p = extend_core.Primitive("from_program")
        p.multiple_results = True
        p.def_abstract_eval(lambda x, y: inner.out_avals)
        mlir.register_lowering(p, rule)
        assert [float(r) for r in xf.jit(p.bind)(3.0, 4.0)] == [12.0, 5.0]


@pytest.mark.cpu_only
def test_python_callback_in_a_rule():
    p = extend_core.Primitive("host_square")
    p.def_abstract_eval(lambda x: x)

    def lowering(ctx, x):
        results, token, _ = mlir.emit_python_callback(
            ctx, lambda a: (np.square(a),), None, [x], ctx.avals_in, ctx.avals_out, has_side_effect=False)
        assert token is None
        return results

    mlir.register_lowering(p, lowering, platform="cpu")
    np.testing.assert_array_equal(xf.jit(lambda x: p.bind(x) + 1)(np.arange(3.0)), [1.0, 2.0, 5.0])


def test_custom_call_in_a_rule():
    """A call of one of XLA's own targets, which marks a sharding and computes nothing."""
    p = extend_core.Primitive("marked")
    p.def_abstract_eval(lambda x: x)
    mlir.register_lowering(p, lambda ctx, x: mlir.custom_call(
        "Sharding", result_types=[x.type], operands=[x], extra_attributes={"mhlo.sharding": ir.StringAttr.get("{replicated}")},
    ).results)
    assert 'stablehlo.custom_call @Sharding' in xf.jit(p.bind).lower(np.ones(3)).as_text()


@pytest.mark.parametrize("value, text", [
    (3, "3 : i64"), (np.int32(3), "3 : i32"), (1.5, "1.500000e+00 : f64"), (np.float32(2), "2.000000e+00 : f32"), ("s", '"s"'),
    (True, "true"), ([1, "a"], '[1, "a"]'), ({"a": np.arange(3)}, "{a = dense<[0, 1, 2]> : tensor<3xi64>}"),
    (np.dtype("float32"), "f32"),
])
def test_attributes(value, text):
    with mlir.make_ir_context():
        assert str(mlir.ir_attribute(value)) == text


@pytest.mark.cpu_only
def test_modules_of_programs():
    closed = xf.make_jaxpr(lambda x: xf.jit(xnp.sin)(x) * 2)(1.0)
    result = mlir.lower_jaxpr_to_module(
        "mine", closed, num_const_args=0, in_avals=closed.in_avals, ordered_effects=[], platforms=["cpu"], backend=None,
        axis_context=mlir.ShardingContext(1), donated_args=[True], result_names=["y"],
        lowering_parameters=mlir.LoweringParameters())
    text = mlir.module_to_string(result.module, False)
    assert "jax.buffer_donor = true" in text and 'jax.result_info = "y"' in text and text.startswith("module @mine")
    other = mlir.lower_jaxpr_to_module("other", closed, platforms=["cpu"]).module
    assert mlir.merge_mlir_modules(result.module, "again", other) == "again"
    assert str(result.module).count("func.func private") == str(text).count("func.func private") * 2 + 1
    assert result.module.operation.verify() and mlir.module_to_bytecode(other)[:4] == b"ML\xefR"
    overridden = mlir.lower_jaxpr_to_module("third", closed, platforms=["cpu"], lowering_parameters=mlir.LoweringParameters(
        override_lowering_rules=((lax.sin_p, lambda ctx, x, **_: hlo.cosine(x)),))).module
    assert "stablehlo.cosine" in str(overridden) and "stablehlo.sine" not in str(overridden)


# What is missing is named


@pytest.mark.cpu_only
def test_missing_rules_are_named():
    p = extend_core.Primitive("unruly")
    with pytest.raises(NotImplementedError, match=r"unruly cannot be traced.*unruly.def_abstract_eval"):
        xf.jit(p.bind)(1.0)
    p.def_abstract_eval(lambda x: x)
    with pytest.raises(NotImplementedError, match=r"unruly cannot run on cpu.*register_lowering"):
        xf.jit(p.bind)(1.0)
    with pytest.raises(NotImplementedError, match=r"unruly cannot run on cpu.*def_impl"):
        p.bind(1.0)
    p.def_impl(lambda x: x)
    assert p.bind(1.0) == 1.0
    with pytest.raises(NotImplementedError, match=r"unruly has no derivative.*ad.primitive_jvps"):
        xf.grad(p.bind)(1.0)
    with pytest.raises(NotImplementedError, match=r"unruly cannot be mapped.*batching.primitive_batchers"):
        xf.vmap(p.bind)(xnp.ones(3))
    ad.primitive_jvps[p] = lambda primals, tangents: (p.bind(*primals), p.bind(*tangents))
    with pytest.raises(NotImplementedError, match=r"unruly cannot be transposed.*ad.primitive_transposes"):
        xf.grad(p.bind)(1.0)
    with pytest.raises(NotImplementedError, match="primitive_transposes"):
        ad.get_primitive_transpose(p)
    with pytest.raises(NotImplementedError, match="platform 'vax'"):
        mlir.register_lowering(p, lambda ctx, x: x, platform="vax")


@pytest.mark.parametrize("rule, error, words", [
    (lambda ctx, x: [x, x], ValueError, "lowering of wrong must return values of the types"),
    (lambda ctx, x: None, TypeError, "lowering of wrong must return MLIR values"),
    (lambda ctx, x: mlir.ir_constant(np.int32(3)), ValueError, "tensor<i32>"),
])
def test_wrong_lowerings(rule, error, words):
    p = extend_core.Primitive("wrong")
    p.def_abstract_eval(lambda x: x)
    mlir.register_lowering(p, rule)
    with pytest.raises(error, match=words):
        xf.jit(p.bind)(np.ones(3))


# User-defined types under vmap


class Named:
    def __init__(self, names, data):
        self.names, self.data = names, data


class Name(str):
    pass


@pytest.fixture
def named_arrays():
    def to_elt(take, index, value, name):
        axis = value.names.index(name)
        return Named(value.names[:axis] + value.names[axis + 1:], take(value.data, axis))

    def from_elt(stack, axis_size, element, name):
        return Named((name, *element.names), stack(axis_size, element.data, 0))

    batching.register_vmappable(Named, Name, int, to_elt, from_elt, None)
    yield
    batching.unregister_vmappable(Named)


def test_vmap_over_a_custom_type(named_arrays):
    x = Named(("i", "j"), xnp.arange(6.0).reshape(2, 3))

    def f(n, y):
        assert n.names == ("i",) and n.data.shape == (2,)
        return Named(n.names, n.data * y), y + 1

    both, plain = xf.vmap(f, in_axes=(Name("j"), 0), out_axes=(Name("k"), 0))(x, xnp.arange(3.0))
    assert both.names == ("k", "i")
    np.testing.assert_array_equal(both.data, (np.arange(6).reshape(2, 3) * np.arange(3)).T)
    np.testing.assert_array_equal(plain, [1, 2, 3])
    inner = xf.jit(lambda data: xf.vmap(lambda n: Named(n.names, n.data * 2), Name("j"), Name("j"), axis_size=3)(
        Named(("i", "j"), data)).data)(x.data)
    np.testing.assert_array_equal(inner, 2 * np.arange(6).reshape(2, 3).T)
    with pytest.raises(ValueError, match="axis_size"):
        xf.vmap(lambda n: n, Name("j"), Name("j"))(x)
    with pytest.raises(TypeError, match="type Named, whose mapped axis is named by an object of type Name"):
        xf.vmap(lambda n, y: y, (0, 0))(x, xnp.arange(3.0))


# Effects


class Written(extend_core.Effect):
    ordered = True


def test_custom_ordered_effect():
    """Its token goes from one operation to the next, through a called function."""
    effect = Written()
    mlir.lowerable_effects.add_type(Written)
    written = []
    p = extend_core.Primitive("write")
    p.multiple_results = True
    p.def_effectful_abstract_eval(lambda x: ([], {effect}))

    def lowering(ctx, x):
        results, token, _ = mlir.emit_python_callback(
            ctx, lambda a: (written.append(float(a)), ())[1], ctx.tokens_in.get(effect), [x], ctx.avals_in, [],
            has_side_effect=True)
        ctx.set_tokens_out(mlir.TokenSet({effect: token}))
        return results

    mlir.register_lowering(p, lowering)

    @xf.jit
    def f(x):
        p.bind(x)
        xf.jit(lambda y: p.bind(y * 10))(x)
        p.bind(x + 1)
        return x * 2

    assert f.lower(1.0).as_text().count("!stablehlo.token") >= 3
    for start in (1.0, 5.0):
        f(start)
    xf.effects_barrier()
    assert written == [1.0, 10.0, 2.0, 5.0, 50.0, 6.0]
    assert effect in xf.make_jaxpr(f)(1.0).effects


def test_rule_none_means_no_rule():
    """Libraries set None for primitives that they can batch, but not transpose."""
    p = extend_core.Primitive("no_transpose")
    p.def_impl(lambda x: x)
    p.def_abstract_eval(lambda x: x)
    ad.primitive_jvps[p] = lambda primals, tangents: (p.bind(*primals), p.bind(*tangents))
    ad.primitive_transposes[p] = None
    assert p not in ad.primitive_transposes
    value, slope = xf.jvp(p.bind, (3.0,), (2.0,))
    assert (value, slope) == (3.0, 2.0)
    with pytest.raises(NotImplementedError, match="no_transpose"):
        xf.grad(p.bind)(3.0)


def test_methods_of_a_subclass_are_rules():
    class Pair(extend_core.Primitive):
        multiple_results = True

        def abstract_eval(self, x, *, factor):
            return [x, x.update(dtype=np.dtype(np.int32))], set()

        def impl(self, x, *, factor):
            return [factor * x, np.int32(factor)]

    pair_p = Pair("pair")
    assert pair_p.bind(2.0, factor=3) == [6.0, 3]
    [eqn] = xf.make_jaxpr(lambda x: pair_p.bind(x, factor=3))(2.0).eqns
    assert eqn.primitive is pair_p and [v.aval.dtype for v in eqn.outvars] == [np.float32, np.int32]


def test_impl_can_be_wrapped_and_restored():
    calls, default = [], lax.sin_p.impl

    def counted(*args, **params):
        calls.append(args)
        return default(*args, **params)

    lax.sin_p.def_impl(counted)
    try:
        assert np.isclose(lax.sin_p.bind(1.0), np.sin(1)) and len(calls) == 1
    finally:
        lax.sin_p.def_impl(default)
    assert np.isclose(lax.sin_p.bind(1.0), np.sin(1)) and len(calls) == 1
    assert np.isclose(xf.grad(lax.sin_p.impl)(1.0), np.cos(1))


def test_tokens_are_constants_of_derivatives():
    p = extend_core.Primitive("after_token")
    p.def_impl(lambda x, token: x)
    p.def_abstract_eval(lambda x, token: x)
    mlir.register_lowering(p, lambda ctx, x, token: [x])
    ad.defjvp(p, lambda g, x, token: 3 * g, None)
    token = lax.create_token()
    _, pullback = xf.vjp(lambda x: p.bind(x, token), xnp.ones(2))
    assert pullback(xnp.ones(2))[0].tolist() == [3, 3]
