"""Functions of jaxprs in `interpreters.partial_eval`, `interpreters.ad`, `interpreters.batching` and `interpreters.mlir`."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.core import jaxpr_as_fun
from xlafront.extend import core
from xlafront.extend.linear_util import wrap_init
from xlafront.interpreters import ad, batching, mlir, partial_eval as pe

BODY = xf.make_jaxpr(lambda x, y: (xnp.sin(x) * y, x, xnp.cos(y)))(1.0, 2.0)
TABLE = np.arange(3, dtype=np.float32)
WITH_CONSTANT = xf.make_jaxpr(lambda x: x * xnp.asarray(TABLE))(1.0)
X, Y = 0.5, 2.0
EXPECTED = [np.sin(X) * Y, X, np.cos(Y)]
SCALAR = xf.typeof(np.float32(1))


def run(closed, *args):
    return jaxpr_as_fun(closed)(*args)


def test_closing():
    assert pe.close_jaxpr(BODY) is BODY and pe.close_jaxpr(WITH_CONSTANT) is WITH_CONSTANT
    converted = pe.convert_constvars_jaxpr(WITH_CONSTANT)
    for open_jaxpr in (pe.convert_constvars_jaxpr(WITH_CONSTANT.jaxpr), converted.jaxpr):
        assert not open_jaxpr.constvars and [v.aval.shape for v in open_jaxpr.invars] == [(3,), ()]
    np.testing.assert_array_equal(run(converted, TABLE, 2.0)[0], 2 * TABLE)
    with pytest.raises(ValueError, match="without constants"):
        pe.close_jaxpr(WITH_CONSTANT.with_consts([]))


def test_inputs_and_outputs():
    moved = pe.move_binders_to_back(BODY, [True, False])
    np.testing.assert_allclose(run(moved, Y, X), EXPECTED, rtol=1e-6)
    for used in ([True, False, False], (False, True, True)):
        pruned = pe.prune_closed_jaxpr_outputs(BODY, used)
        np.testing.assert_allclose(run(pruned, X, Y), [x for x, u in zip(EXPECTED, used) if u], rtol=1e-6)
        assert len(pruned.eqns) == len(BODY.eqns)


def test_types_of_a_function():
    vector = xf.typeof(TABLE)
    fun = lambda x, y, times=1: (x * y * times, [xnp.sin(x)])
    assert pe.abstract_eval_fun(fun, SCALAR, vector, debug_info=BODY.jaxpr.debug_info) == [vector, SCALAR]
    assert pe.abstract_eval_fun(fun, SCALAR, vector, times=2) == [vector, SCALAR]


@pytest.mark.parametrize("wrap", [lambda f: f, xf.jit])
@pytest.mark.parametrize("unknowns", [[False, True], [True, False], [False, False], [True, True]])
@pytest.mark.parametrize("instantiate", [False, True, [False, True, False]])
def test_partial_evaluation(wrap, unknowns, instantiate):
    closed = xf.make_jaxpr(wrap(lambda x, y: (xnp.sin(x) * y, x, xnp.cos(y))))(1.0, 2.0)
    known, unknown, out_unknowns, residual_avals = pe.partial_eval_jaxpr_nounits(closed, unknowns, instantiate)
    depends = [any(unknowns), unknowns[0], unknowns[1]]
    forced = [instantiate] * 3 if isinstance(instantiate, bool) else instantiate
    assert out_unknowns == [d or f for d, f in zip(depends, forced)]
    args = (X, Y)
    found = run(known, *[x for x, u in zip(args, unknowns) if not u])
    count = out_unknowns.count(False)
    residuals = found[count:]
    assert [xf.typeof(r).shape for r in residuals] == [a.shape for a in residual_avals]
    rest = iter(run(unknown, *residuals, *[x for x, u in zip(args, unknowns) if u]))
    first = iter(found[:count])
    np.testing.assert_allclose([next(rest) if u else next(first) for u in out_unknowns], EXPECTED, rtol=1e-6)


def test_lowering_of_composite_values():
    assert pe.lower_jaxpr(BODY) is BODY and pe.lower_jaxpr2(BODY) is BODY
    assert pe.lower_jaxpr(BODY, BODY.in_avals) is BODY
    with pytest.raises(ValueError, match="lo_avals"):
        pe.lower_jaxpr(BODY, BODY.in_avals[:1])


def test_recipes():
    recipes = []

    def fun(x):
        recipes.append((x, pe.new_eqn_recipe(None, [x], [x], xf.lax.neg_p, {"a": 1}, frozenset(), None)))
        return x

    xf.make_jaxpr(fun)(1.0)
    tracer, recipe = recipes[0]
    assert recipe.in_tracers == [tracer] and recipe.out_tracer_refs[0]() is tracer and recipe.out_avals == [tracer.aval]
    assert (recipe.primitive, recipe.params, recipe.effects, recipe.ctx) == (xf.lax.neg_p, {"a": 1}, frozenset(), None)


def write_only(ref, x):
    ref[0] = x
    return x + 1


def write_and_read(ref, x):
    ref[0] = x
    return x + ref[1]


@pytest.mark.parametrize("fun, used_outputs, live, writes", [
    (write_only, True, True, 1), (write_only, True, False, 0), (write_only, [True], [False, True], 0),
    (write_only, [True], [True, True], 1), (write_and_read, True, False, 1), (write_and_read, False, False, 0),
    (write_and_read, False, True, 1)])
def test_writes_to_references_that_are_not_read(fun, used_outputs, live, writes):
    closed = xf.make_jaxpr(fun)(xf.new_ref(xnp.zeros(3)), 1.0)
    for jaxpr in (closed, closed.jaxpr):
        pruned, used = pe.dce_jaxpr(jaxpr, used_outputs, live_inputs=live)
        assert [eqn.primitive.name for eqn in pruned.eqns].count("swap") == writes and used[0] == bool(writes)


def test_rules_of_dead_code_elimination_get_the_live_inputs():
    call = core.create_call_primitive("block")
    jaxpr = xf.make_jaxpr(lambda x, y: call.bind(x, y, call_jaxpr=BODY))(X, Y)
    [equation] = jaxpr.jaxpr.eqns
    for rule in (pe.dce_jaxpr_call_rule, pe.dce_jaxpr_closed_call_rule):
        used, smaller = rule([False, False, True], [True, True], equation)
        assert used == [False, True] and len(smaller.params["call_jaxpr"].eqns) == 1
    requests = []
    pe.dce_rules[call] = lambda used, live, eqn: requests.append(live) or pe.dce_jaxpr_call_rule(used, live, eqn)
    assert pe.dce_jaxpr(jaxpr, [False, False, True])[1] == [False, True] and requests == [[True, True]]


def test_jvp_of_a_jaxpr():
    for nonzeros, instantiate, returned in [([True, False], False, [True, True, False]), ([True, False], True, [True] * 3), (
            [False, False], [True, False, False], [True, False, False])]:
        program, nonzero = ad.jvp_jaxpr(BODY, nonzeros, instantiate)
        assert nonzero == returned
        results = run(program, X, Y, *[3.0] * sum(nonzeros))
        tangents = [3 * np.cos(X) * Y * nonzeros[0], 3 * nonzeros[0], 0]
        np.testing.assert_allclose(results, [*EXPECTED, *[t for t, r in zip(tangents, returned) if r]], rtol=1e-6)


def test_backward_pass():
    product = xf.make_jaxpr(lambda x, y: (x * y, xnp.sin(y) * x))(1.0, 2.0)
    linear = ad.UndefinedPrimal(SCALAR)
    x_ct, y_ct = ad.backward_pass(product, False, [], [linear, Y], [1.0, 10.0])
    np.testing.assert_allclose(x_ct, Y + 10 * np.sin(Y), rtol=1e-6)
    assert type(y_ct) is ad.Zero
    zero = ad.Zero(SCALAR)
    assert [type(ct) for ct in ad.backward_pass(product, False, [], [linear, Y], [zero, zero])] == [ad.Zero] * 2
    [ct] = ad.backward_pass(WITH_CONSTANT.jaxpr, False, WITH_CONSTANT.consts, [linear], [np.ones(3, np.float32)])
    assert ct == 3
    f = xf.custom_vjp(xnp.sin)
    f.defvjp_with_logs(lambda x: (xnp.sin(x), x), lambda x, ct: ((ct * xnp.cos(x),), {"ct": ct}))
    pullback = xf.vjp(f, X)[1]
    jaxpr, residuals = pullback.jaxpr, xf.tree.leaves(pullback)
    [ct], logs = ad.backward_pass(jaxpr, False, residuals, [linear], [2.0], return_logs=True)
    np.testing.assert_allclose(ct, 2 * np.cos(X), rtol=1e-6)
    assert logs == {"ct": 2}


def test_linearize_in_some_inputs():
    _, _, program, consts = ad.linearize(lambda x, y: [x * y, y], [X, Y], in_nzs=[True, False])
    closed = core.ClosedJaxpr(program, consts)
    np.testing.assert_allclose(run(closed, 1.0, 5.0), [Y, 0], rtol=1e-6)


def test_batches_of_a_jaxpr():
    axis, zero = batching.AxisData("i", 3), batching.zero_if_mapped
    xs = TABLE
    values = [np.sin(xs) * Y, xs, np.cos(Y)]
    for in_axes, targets, marks in [([0, None], [0, 0, 0], [True] * 3), ([0, None], [0, 0, None], [True, True, False]), (
            (0, None), (zero,) * 3, [True, True, False])]:
        program, batched = batching.batch_jaxpr_axes(BODY, axis, in_axes, targets)
        assert batched == marks
        for found, value, is_batched in zip(run(program, xs, Y), values, marks):
            np.testing.assert_allclose(found, np.broadcast_to(value, (3,) if is_batched else ()), rtol=1e-6)
    with pytest.raises(ValueError, match="out_axes_dest is None"):
        batching.batch_jaxpr_axes(BODY, axis, [0, None], [None] * 3)
    product = xf.make_jaxpr(lambda x, y: x @ y)(np.ones((2, 4), np.float32), np.ones(4, np.float32))
    a, b = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32), np.arange(4, dtype=np.float32)
    program, _ = batching.batch_jaxpr_axes(product, axis, (1, None), (1,))
    np.testing.assert_allclose(run(program, a, b)[0], a @ b, rtol=1e-5)
    summed = xf.make_jaxpr(lambda x: xf.lax.psum(x, "i"), axis_env=[("i", 3)])(1.0)
    program, marks = batching.batch_jaxpr_axes(summed, axis, [0], [zero])
    assert marks == [False] and run(program, xs) == [3]


def test_functions_of_modules():
    """A detached function is not part of the module."""
    def rule(ctx, x, y):
        types = {"num_const_args": 0, "in_avals": BODY.in_avals, "out_avals": BODY.out_avals}
        detached = mlir.lower_jaxpr_to_fun(ctx.module_context, "apart", BODY, [], detached=True, **types)
        inside = mlir.lower_jaxpr_to_fun(ctx.module_context, "inside", BODY, [], **types)
        with pytest.raises(ValueError):
            assert detached.operation.parent
        assert inside.operation.parent is not None and "sine" in str(detached)
        return x

    identity = core.Primitive("identity")
    identity.def_abstract_eval(lambda x, y: x)
    mlir.register_lowering(identity, lambda ctx, x, y: [rule(ctx, x, y)])
    text = xf.jit(lambda x, y: identity.bind(x, y)).lower(X, Y).as_text()
    assert "@inside" in text and "@apart" not in text
    module = mlir.lower_jaxpr_to_module("m", BODY, platforms=["cpu"], in_avals=BODY.in_avals, out_avals=BODY.out_avals).module
    assert "stablehlo.sine" in str(module)


@pytest.mark.parametrize("callable_dims", [True, False])
def test_functions_of_batches(callable_dims):
    def f(x, y):
        return [x * y, xf.lax.psum(x, "i"), 2.0]

    dims = (0, None)
    fun = wrap_init(f, debug_info=xf.api_util.debug_info("f", f, (1.0, 2.0), {}))
    batched, out_dims = batching.batch_subtrace(fun, core.TraceTag(), batching.AxisData("i", 3),
                                                (lambda: dims) if callable_dims else dims)
    product, total, same = batched.call_wrapped(xnp.arange(3.0), 2.0)
    assert product.tolist() == [0, 2, 4] and total == 3 and same == 2 and out_dims() == (0, None, None)
