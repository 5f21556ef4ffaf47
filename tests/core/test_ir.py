"""Jaxprs: printing, evaluation, dead code, the checker, effects."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.experimental
import xlafront.numpy as xnp
from xlafront import core, lax
from xlafront.core import ir
from xlafront.core.ir import Effect, dce_jaxpr


def program(f, *args):
    return xf.make_jaxpr(f)(*args)


def test_printing():
    with xf.default_matmul_precision(None):
        text = str(program(lambda x, y: xnp.dot(xnp.sin(x), y) + 1, np.ones((2, 3), np.float32),
                           np.ones(3, np.float32)))
    assert (
        text
        == """{ lambda ; a:f32[2,3] b:f32[3]. let
    c:f32[2,3] = sin a
    d:f32[2] = dot_general[
      dimension_numbers=(([1], [0]), ([], []))
      preferred_element_type=float32
    ] c b
    e:f32[2] = add d 1.0:f32[]
  in (e,) }"""
    )
    assert "jaxpr={ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }" in str(program(lambda x: xf.jit(xnp.sin)(x), 1.0))
    assert "test_ir.py" in program(lambda x: x + 1, 1.0).pretty_print(source_info=True)


def test_shared_jaxprs_are_printed_first():
    lax = xf.lax

    def foo(b):
        return lax.sin(lax.tan(b))

    def long(b):
        for _ in range(11):
            b = lax.sin(b)
        return b

    inner = xf.jit(foo)
    twice = program(lambda a: inner(inner(a)), xnp.arange(3.0))
    assert str(twice) == """\
let foo = { lambda ; a:f32[3]. let b:f32[3] = tan a; c:f32[3] = sin b in (c,) } in
{ lambda ; d:f32[3]. let
    e:f32[3] = jit[name=foo jaxpr=foo] d
    f:f32[3] = jit[name=foo jaxpr=foo] e
  in (f,) }"""
    assert str(program(lambda a: lax.cond(a, lax.sin, lax.sin, 1.0), True)).startswith("let jaxpr = {")
    assert str(program(lambda a: xf.jit(long)(a), 1.0)).startswith("let long = {")
    assert twice.pretty_print(print_shapes=False).split("\n")[0] == (
        "let foo = { lambda ; a. let b = tan a; c = sin b in (c,) } in")
    assert twice.pretty_print(name_stack=True).split("\n")[:2] == [
        "let foo = { lambda ; a:f32[3]. let b:f32[3] = tan a; c:f32[3] = sin b in (c,) } in # []", " " * 83 + "# []"]


def test_long_lines_are_wrapped():
    text = str(program(lambda a: xf.lax.concatenate([a] * 30, 0), xnp.arange(3.0)))
    assert text == """\
{ lambda ; a:f32[3]. let
    b:f32[90] = concatenate[dimension=0] a a a a a a a a a a a a a a a a a a a a
      a a a a a a a a a a
  in (b,) }"""
    assert str(program(lambda *a: a, *[1.0] * 10)).replace(" \n", "|\n") == """\
{ lambda ; a:f32[] b:f32[] c:f32[] d:f32[] e:f32[] f:f32[] g:f32[] h:f32[] i:f32[]
    j:f32[]. let
   |
  in (a, b, c, d, e, f, g, h, i, j) }"""
    shown = program(lambda x: xf.debug.print("hi"), 1.0).pretty_print(custom_pp_eqn_rules=False, print_effects=True)
    assert shown.endswith("in () : { Debug } }")
    assert repr(program(lambda x: x + 1, 1.0).eqns[0].invars[1]) == "Literal(1.0)"
    assert "mul[out_dtype=None]" in program(lambda x: x * 2, 1.0).pretty_print(custom_pp_eqn_rules=False)


@pytest.mark.parametrize("function, line", [
    (lambda x: xf.lax.broadcast(x, (2,)), "b:f32[2,3] = broadcast_in_dim[broadcast_dimensions=(1,)] a"),
    (lambda x: xnp.zeros(2), "b:f32[2] = broadcast_in_dim 0.0:f32[]"),
    (lambda x: _with_rules(xf.custom_jvp, lambda p, t: (p[0], t[0]))(x), "jvp=<lambda> symbolic_zeros=False ] a"),
    (lambda x: _with_rules(xf.custom_vjp, lambda x: (x, None), lambda r, ct: (ct,))(x), "fwd=<lambda> symbolic_zeros=False ] a"),
    (lambda x: xf.lax.composite(lambda y: y * 2, "my.op")(x), "name=my.op version=0 ] a"),
    (lambda x: xf.lax.conv(x[None, None], x[None, None], (1,), "SAME"), "lhs_dilation=(1,) out_sharding=None padding=((1, 1),)"),
])
def test_printed_parameters(function, line):
    assert line in " ".join(str(program(function, np.ones(3, np.float32))).split())


def test_evaluation():
    closed = program(lambda x: {"s": xnp.sin(x), "c": x * np.arange(3.0)}, 2.0)
    cosine, sine = core.eval_jaxpr(closed.jaxpr, closed.consts, 5.0)
    assert cosine.tolist() == [0, 5, 10] and abs(float(sine) - np.sin(5)) < 1e-6
    np.testing.assert_allclose(float(xf.jit(core.jaxpr_as_fun(closed))(1.0)[1]), np.sin(1), rtol=1e-6)
    with pytest.raises(TypeError, match="1 arguments, 2"):
        core.eval_jaxpr(closed.jaxpr, closed.consts, 1.0, 2.0)


def test_values_of_constants():
    """As in JAX since 0.11: one class, whose instances hold the values of their constants."""
    table = xnp.arange(3.0)
    closed = xf.make_jaxpr(lambda x: x * table)(1.0)
    assert xf.extend.core.ClosedJaxpr is xf.extend.core.Jaxpr is type(closed) and closed.jaxpr is closed
    assert closed.consts is closed.literals and closed.num_consts == 1 and closed.all_invars == closed.constvars + closed.invars
    doubled = closed.with_consts([2 * table])
    assert doubled.structure is closed.structure and closed.structure.consts == []
    for jaxpr, values in ((closed, [0, 2, 4]), (doubled, [0, 4, 8]), (xf.extend.core.ClosedJaxpr(closed, [-table]), [0, -2, -4]),
                          (closed.replace(consts=[table + 1]), [2, 4, 6]), (closed.replace(eqns=list(closed.eqns)), [0, 2, 4]),
                          (closed.map_jaxpr(lambda inner: inner.replace(eqns=list(inner.eqns))), [0, 2, 4])):
        assert jaxpr(2.0)[0].tolist() == values and xf.core.eval_jaxpr(jaxpr, jaxpr.consts, 2.0)[0].tolist() == values
    assert closed.replace(constvars=[], invars=closed.all_invars)(table, 3.0)[0].tolist() == [0, 3, 6]
    with pytest.raises(ValueError, match="has 1 constants, 2 values"):
        closed.with_consts([table, table])


def test_derivatives_of_one_structure_with_two_values():
    """Results that are cached with the equations do not mix up the constants."""
    table = xnp.arange(3.0)
    closed = xf.make_jaxpr(lambda x: xf.numpy.sin(x) * table)(1.0)
    for jaxpr, values in ((closed, table), (closed.with_consts([2 * table]), 2 * table), (closed, table)):
        f = xf.core.jaxpr_as_fun(jaxpr)
        np.testing.assert_allclose(xf.jacrev(lambda x: f(x)[0])(0.0), values)
        np.testing.assert_allclose(xf.vmap(lambda x: f(x)[0])(np.float32([np.pi / 2, 0])), [values, 0 * values], atol=1e-6)
        branch = lambda x: f(x)[0] + 0  # noqa: E731
        np.testing.assert_allclose(xf.lax.cond(True, branch, lambda x: x * xnp.ones(3), xnp.float32(np.pi / 2)), values)


def test_dead_code():
    closed = program(lambda x, y: (xnp.sin(x), xnp.cos(y) * 2), 1.0, 2.0)
    pruned, used = dce_jaxpr(closed.jaxpr, [True, False])
    assert [e.primitive.name for e in pruned.eqns] == ["sin"] and used == [True, False] and len(pruned.invars) == 1
    live, used = dce_jaxpr(closed.jaxpr, [False, True], instantiate=True)
    assert len(live.invars) == 2 and used == [True, True]
    nested = program(lambda x: xf.jit(lambda a: (xnp.sin(a), xnp.cos(a)))(x)[1], 1.0)
    pruned, _ = dce_jaxpr(nested.jaxpr, [True])
    assert [e.primitive.name for e in pruned.eqns[0].params["jaxpr"].eqns] == ["cos"]


class Noise(Effect):
    pass


def test_effects():
    noisy = core.Primitive(
        "noisy", abstract=lambda x: x, lower=lambda ctx, x: x, effects=lambda x: frozenset([Noise()])
    )
    closed = program(lambda x: (noisy.bind(x), xnp.sin(x))[1], 1.0)
    assert len(closed.effects) == 1
    pruned, _ = dce_jaxpr(closed.jaxpr, [True])
    assert [e.primitive.name for e in pruned.eqns] == ["noisy", "sin"]  # what has an effect stays
    inner = program(lambda x: xf.jit(lambda v: noisy.bind(v))(x), 1.0)
    assert len(inner.effects) == 1
    core.check_jaxpr(inner)


def test_checker_finds_invalid_jaxprs():
    closed = program(lambda x: xnp.sin(x) * xnp.cos(x), 1.0)
    core.check_jaxpr(closed)
    sin, cos, mul = closed.eqns
    jaxpr = closed.jaxpr
    for broken, words in (
        (jaxpr.replace(eqns=[mul, sin, cos]), "not bound before"),
        (jaxpr.replace(eqns=[sin, sin, cos, mul]), "bound twice"),
        (jaxpr.replace(outvars=[ir.Var(jaxpr.invars[0].aval)]), "result"),
        (jaxpr.replace(effects=frozenset([Noise()])), "effects"),
        (
            jaxpr.replace(eqns=[sin.replace(outvars=[ir.Var(core.ShapedArray((2,), np.float32))])], outvars=[]),
            r"float32\[2\]",
        ),
    ):
        with pytest.raises(xf.errors.JaxprTypeError, match=words):
            core.check_jaxpr(broken)


def test_types_are_interned():
    a, b = core.ShapedArray((2, 3), np.dtype(np.float32)), core.ShapedArray((2, 3), np.float32)
    assert (
        a is b
        and a is not core.ShapedArray((2, 3), np.float32, weak_type=True)
        and str(a) == "float32[2,3]"
        and a.size == 6
    )
    s = xf.ShapeDtypeStruct((2,), "float32")
    assert (
        s == xf.ShapeDtypeStruct((2,), np.float32)
        and repr(s) == "ShapeDtypeStruct(shape=(2,), dtype=float32)"
        and hash(s) == hash(s.update())
    )


def test_user_defined_primitive():
    """A `Primitive` with its fields is all that an operation needs (CONTRIBUTING.md)."""
    from xlafront.lax.elementwise import mul
    from xlafront.lax.families import elementwise

    triple = elementwise(
        "triple",
        lambda ctx, x: ctx.op("stablehlo.add", [ctx.op("stablehlo.add", [x, x]), x]),
        "float",
        derivatives=(lambda g, y, x: mul(g, np.float32(3)),),
    )
    f = lambda x: triple.bind(x)  # noqa: E731
    assert f(np.float32(2)) == 6 and xf.jit(f)(np.float32(2)) == 6 and xf.grad(f)(np.float32(2)) == 3
    assert xf.vmap(f)(np.arange(3, dtype=np.float32)).tolist() == [0, 3, 6]


@pytest.mark.cpu_only
def test_platform_without_a_rule():
    lonely = core.Primitive("lonely", abstract=lambda x: x)
    with pytest.raises(NotImplementedError, match="lonely cannot run on cpu"):
        xf.jit(lambda x: lonely.bind(x))(1.0)
    with pytest.raises(NotImplementedError, match="lonely.*derivative"):
        xf.grad(lambda x: lonely.bind(x))(1.0)
    with pytest.raises(NotImplementedError, match="lonely.*vmap"):
        xf.vmap(lambda x: lonely.bind(x))(np.ones(2))


@pytest.mark.parametrize("transform", [xf.jit, xf.grad, lambda f: lambda x: xf.vmap(f)(x[None])])
def test_traced_arrays_have_no_device(transform):
    def function(x):
        assert not hasattr(x, "sharding") and xf.typeof(x).sharding.spec == xf.P(None) and not x.mat.varying
        with pytest.raises(AttributeError, match="typeof"):
            x.sharding  # noqa: B018
        return x.sum()

    transform(function)(xf.numpy.ones(3))


def _with_rules(make, *rules):
    f = make(lambda x: x * 2)
    (f.defjvp if make is xf.custom_jvp else f.defvjp)(*rules)
    return f


@pytest.mark.parametrize("function, name, names", [
    (xf.jit(lambda x: x * 2), "jit", """compiler_options_kvs ctx_mesh donated_invars in_layouts in_shardings inline jaxpr
        keep_unused name out_layouts out_shardings"""),
    (xf.shard_map(lambda x: x, mesh=xf.make_mesh((1,), ("i",), (xf.sharding.AxisType.Auto,)), in_specs=xf.P("i"),
                  out_specs=xf.P("i")), "shard_map",
     "check_vma in_specs jaxpr mesh newly_manual_axes out_specs"),
    (_with_rules(xf.custom_jvp, lambda p, t: (p[0], t[0])), "custom_jvp_call", "call_jaxpr jvp_jaxpr_fun num_consts symbolic_zeros"),
    (_with_rules(xf.custom_vjp, lambda x: (x, None), lambda r, ct: (ct,)), "custom_vjp_call",
     "bwd call_jaxpr fwd_jaxpr_thunk num_consts symbolic_zeros"),
    (lambda x: x.at[np.array([0, 1])].add(1.0), "scatter-add",
     "dimension_numbers indices_are_sorted mode unique_indices"),
    (lambda x: xf.lax.platform_dependent(x, cpu=xnp.sin, default=xnp.cos), "cond", "branches branches_platforms"),
    (xf.vmap(lambda x: xf.lax.platform_dependent(x, cpu=xnp.sin, default=xnp.cos)), "cond", "branches branches_platforms"),
    (lambda x: xf.pure_callback(np.sin, x, x), "pure_callback", "callback result_avals vmap_method"),
    (lambda x: xf.experimental.io_callback(np.sin, x, x), "io_callback", "callback ordered result_avals"),
], ids=lambda v: v if isinstance(v, str) and " " not in v else "")
def test_attributes_of_equations_for_libraries(function, name, names):
    eqn = xf.make_jaxpr(function)(np.ones(3, np.float32)).eqns[-1]
    assert eqn.primitive.name == name and set(names.split()) <= set(eqn.params)


NUMBERS_IN_PLACE = {  # as in the reference
    "gradient of x": (lambda x: xf.grad(lambda x: x)(x), "{ lambda ; a:f32[]. let  in (1.0:f32[],) }"),
    "value and gradient": (lambda x: xf.value_and_grad(lambda x: x)(x), "{ lambda ; a:f32[]. let  in (a, 1.0:f32[]) }"),
    "gradient of a constant": (lambda x: xf.grad(lambda x: 1.0)(x), "{ lambda ; a:f32[]. let  in (0.0:f32[],) }"),
    "zero tangent": (lambda x: xf.jvp(xnp.floor, (x,), (x,)), "{ lambda ; a:f32[]. let b:f32[] = floor a in (b, 0.0:f32[]) }"),
    "zeros": (lambda x: (xnp.zeros(()), xnp.ones((), int), xnp.full((), 2.0)),
              "{ lambda ; a:f32[]. let  in (0.0:f32[], 1:i32[], 2.0:f32[]) }"),
    "like": (lambda x: (xnp.zeros_like(x), xnp.full_like(x, 2), lax.full_like(x, 3)),
             "{ lambda ; a:f32[]. let  in (0.0:f32[], 2.0:f32[], 3.0:f32[]) }"),
    "conversion": (lambda x: (lax.convert_element_type(2.0, "int32"), lax.full((), 2.0), lax.broadcast(2.0, ())),
                   "{ lambda ; a:f32[]. let  in (2:i32[], 2.0:f32[], 2.0:f32[]) }"),
    "an array already": (lambda x: xnp.asarray(x), "{ lambda ; a:f32[]. let  in (a,) }"),
    "square": (lambda x: x**2, "{ lambda ; a:f32[]. let b:f32[] = integer_pow[y=2] a in (b,) }"),
    "derivative of x**1": (lambda x: xf.grad(lambda x: x**1)(x),
                           "{ lambda ; a:f32[]. let _:f32[] = integer_pow[y=1] a in (1.0:f32[],) }"),
}


@pytest.mark.parametrize("case", NUMBERS_IN_PLACE)
def test_literals_stay_operands(case):
    function, text = NUMBERS_IN_PLACE[case]
    assert str(program(function, 1.0)) == text


def test_tracing_does_not_depend_on_the_device():
    for value, dtype in [(np.float32(1.5), "int32"), (np.float32(1e20), "int32"), (np.float32(np.nan), "int8")]:
        assert len(program(lambda x, value=value, dtype=dtype: lax.convert_element_type(value, dtype), 1.0).eqns) == 1


def test_integer_powers_are_one_operation():
    names = [e.primitive.name for e in program(lambda a: xnp.power(a, 2) + xnp.square(a), xnp.ones(3)).eqns]
    assert names == ["integer_pow", "square", "add"]
    assert str(program(xf.grad(lambda a: a**2), 1.0)).count("integer_pow") == 1  # the value; the derivative is 2 a
    assert float(xf.grad(lambda a: a**2)(3.0)) == 6.0


def test_short_texts_of_types_omit_weak_types():
    for weak, text in ((False, "float32[2,3]"), (True, "~float32[2,3]")):
        aval = core.ShapedArray((2, 3), np.float32, weak_type=weak)
        assert (aval.str_short(), aval.str_short(True), str(aval)) == ("float32[2,3]", "f32[2,3]", text)
