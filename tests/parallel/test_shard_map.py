"""shard_map on eight simulated devices: against the same computation on whole arrays."""

import numpy as np
import pytest
from laws import signatures_seen
from test_collectives import EXTREMES, LINEAR, OTHERS, TABLE

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import P, lax
from xlafront.base import config
from xlafront.sharding import AxisType

pytestmark = pytest.mark.cpu_only

SIZES = {"i": 4, "j": 2}


@pytest.fixture(scope="module")
def mesh():
    return xf.make_mesh((4, 2), ("i", "j"), (AxisType.Auto,) * 2)


def elements(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def on_components(mesh, function, in_specs=P("i", "j"), out_specs=P("i", "j"), **options):
    return xf.shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=out_specs, **options)


# Collectives, all of the table in one program


@pytest.mark.parametrize("axes", ["i", ("i", "j"), ("j", "i")], ids=str)
@pytest.mark.parametrize("check", [True, False])
def test_collectives(mesh, axes, check):
    """Devices along an axis compute the same as vmap over it."""
    names = axes if isinstance(axes, tuple) else (axes,)
    n = int(np.prod([SIZES[a] for a in names]))
    x = elements(n, n, 2)
    table = TABLE | OTHERS

    def of_element(x):
        return {name: lax.pcast(y, names, to="varying")[None] if check and not y.aval.vma else y[None]
                for name, (function, _) in table.items() for y in [xnp.asarray(function(x[0], axes))]}

    mapped = on_components(mesh, of_element, P(names), P(names), check_vma=check)
    with config.raise_on_ppermute_sort_diff(names != ("j", "i")):
        found = xf.jit(mapped)(x)
    for name, (_, oracle) in table.items():
        np.testing.assert_allclose(found[name], oracle(x), rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("check", [True, False])
def test_derivatives_of_collectives(mesh, check):
    """Gradients are those of the same function under vmap, whose axis is no axis of devices."""
    x = elements(4, 4, 2)
    weights = {name: elements(*oracle(x).shape, seed=1) for name, (_, oracle) in LINEAR.items()}

    def of_element(x, w):
        return sum((w[name] * function(x, "i")).sum() for name, (function, _) in LINEAR.items())

    def on_devices(x):
        def part(x, w):
            mine = of_element(x[0], xf.tree.map(lambda w: w[0], w))
            return lax.psum(mine, "i") if check else mine[None]

        shards = on_components(mesh, part, (P("i"), P("i")), P() if check else P("i"), check_vma=check)
        return shards(x, weights).sum()

    def full(x):
        return xf.vmap(of_element, axis_name="i")(x, weights).sum()

    expected = xf.grad(full)(x)
    np.testing.assert_allclose(xf.jit(xf.grad(on_devices))(x), expected, rtol=1e-4, atol=1e-4)
    t = elements(4, 4, 2, seed=3)
    np.testing.assert_allclose(xf.jit(lambda x: xf.jvp(on_devices, (x,), (t,))[1])(x), (expected * t).sum(), rtol=1e-3)


def test_groups_of_devices(mesh):
    x = elements(8)
    groups = [[0, 3], [2, 1]]
    options = {"check_vma": False}
    summed = on_components(mesh, lambda x: lax.psum(x, "i", axis_index_groups=groups), P(("i", "j")), P(("i", "j")), **options)(x)
    grid = x.reshape(4, 2)
    expected = np.stack([grid[[0, 3]].sum(0), grid[[2, 1]].sum(0), grid[[2, 1]].sum(0), grid[[0, 3]].sum(0)])
    np.testing.assert_allclose(np.reshape(summed, (4, 2)), expected, rtol=1e-6)
    gathered = on_components(mesh, lambda x: lax.all_gather(x, "i", axis_index_groups=groups)[None, None], P(("i", "j")),
                        P("i", "j"), **options)(x)
    np.testing.assert_array_equal(np.asarray(gathered)[1, :, :, 0], grid[[2, 1]].T)


def test_the_mesh_may_list_devices_in_any_order():
    devices = np.array(xf.devices())[[3, 1, 0, 2, 7, 6, 5, 4]].reshape(2, 4)
    mesh = xf.sharding.Mesh(devices, ("a", "b"))
    x = elements(8, 2)
    found = xf.shard_map(lambda x: x * 0 + lax.axis_index("a") * 10 + lax.axis_index("b"), mesh=mesh, in_specs=P(("a", "b")),
                         out_specs=P(("a", "b")))(x)
    assert np.asarray(found)[:, 0].tolist() == [0, 1, 2, 3, 10, 11, 12, 13]
    rolled = xf.shard_map(lambda x: lax.ppermute(x, "b", [(k, (k + 1) % 4) for k in range(4)]), mesh=mesh,
                          in_specs=P(("a", "b")), out_specs=P(("a", "b")))(x)
    np.testing.assert_array_equal(rolled, np.roll(x.reshape(2, 4, 2), 1, 1).reshape(8, 2))


# Specs and shardings


def test_arguments_are_shards_and_results_are_assembled(mesh):
    x = elements(8, 4)
    seen = []

    def part(x, y):
        seen.append((x.shape, y["a"].shape))
        return {"x": x * 2, "total": lax.psum(x.sum() + y["a"], ("i", "j"))}

    def f(x, y):
        return on_components(mesh, part, (P("j", "i"), {"a": P()}), {"x": P("j", "i"), "total": P()})(x, y)

    for run in (f, xf.jit(f)):
        found = run(x, {"a": np.float32(1)})
        np.testing.assert_allclose(found["x"], 2 * x)
        np.testing.assert_allclose(found["total"], x.sum() + 8, rtol=1e-5)
        assert found["x"].sharding == xf.NamedSharding(mesh, P("j", "i"))
        assert found["total"].sharding.is_fully_replicated
    assert seen[0] == ((4, 1), ())


def test_arguments_are_sharded_by_their_specs(mesh):
    """An array without a place of its own is split at once, and not copied to every device first."""
    compiled = xf.jit(on_components(mesh, lambda x: x + 1)).lower(np.ones((8, 4), np.float32)).compile()
    [sharding] = xf.tree.leaves(compiled.input_shardings[0])
    assert sharding == xf.NamedSharding(mesh, P("i", "j"))


def test_unread_arguments_before_sharded_ones(mesh):
    """The second call is dispatched by C++, which counts only arguments that are read."""
    x, table = elements(8, 4), xnp.arange(4.0)
    split = xf.NamedSharding(mesh, P("i", "j"))
    for f in (xf.jit(on_components(mesh, lambda unread, x: x * 2, (P(), P("i", "j")))),
              xf.jit(lambda unread, x: x * 2 + 0 * table, in_shardings=(None, split)),
              xf.pmap(lambda unread, x: x * 2, in_axes=(None, 0))):
        for _ in range(3):
            np.testing.assert_array_equal(f(np.float32(1), x), 2 * x)


def test_constants_of_several_ranks(mesh):
    """Small ones are written in the module, large ones are arguments of it."""
    small, large = elements(4), elements(4, 4, 4, seed=1)
    found = xf.jit(lambda x: on_components(mesh, lambda x: x * 2)(x) * small + large.sum() + xnp.sin(large).sum(0))(elements(4, 4))
    np.testing.assert_allclose(found, 2 * elements(4, 4) * small + large.sum() + np.sin(large).sum(0), rtol=1e-4)


def test_mesh_in_force_decorator_and_smap(mesh):
    x = elements(8)
    with xf.set_mesh(mesh):
        double = xf.shard_map(in_specs=P("i"), out_specs=P("i"))(lambda x: x * 2)
        np.testing.assert_allclose(double(x), 2 * x)
        centred = xf.smap(lambda x: x - lax.pmean(x.mean(), "i"), in_axes=0, out_axes=0, axis_name="i")
        np.testing.assert_allclose(xf.jit(centred)(x), x - x.mean(), atol=1e-6)


def test_closed_over_arrays(mesh):
    x, w = elements(8, 4), elements(4, seed=1)

    def loss(w):
        return on_components(mesh, lambda x: x * xnp.asarray(w)[lax.axis_index("i")], (P("i", "j"),))(x).sum()

    np.testing.assert_allclose(loss(w), (x.reshape(4, 2, 4) * w[:, None, None]).sum(), rtol=1e-4)
    np.testing.assert_allclose(xf.grad(loss)(w), x.reshape(4, -1).sum(1), rtol=1e-4, atol=1e-5)


# Manual and automatic axes


def test_axes_left_to_the_compiler(mesh):
    x = elements(8, 4)

    def part(x):
        assert x.shape == (2, 4)
        return x * lax.axis_index("i") + lax.psum(x, "i")

    grid = x.reshape(4, 2, 4)
    expected = (grid * np.arange(4)[:, None, None] + grid.sum(0)).reshape(8, 4)
    mapped = xf.jit(on_components(mesh, part, P("i"), P("i"), axis_names={"i"}))
    np.testing.assert_allclose(mapped(x), expected, rtol=1e-4, atol=1e-5)
    sharded = xf.device_put(x, xf.NamedSharding(mesh, P("i", "j")))
    np.testing.assert_allclose(mapped(sharded), expected, rtol=1e-4, atol=1e-5)


def test_nested_shard_map(mesh):
    x = elements(8, 4)

    def inner(x):
        return lax.psum(x, "j") + lax.axis_index("i")

    def outer(x):
        return xf.shard_map(inner, in_specs=P(None, "j"), out_specs=P(), axis_names={"j"})(x)

    found = xf.jit(on_components(mesh, outer, P("i"), P("i"), axis_names={"i"}))(x)
    expected = x.reshape(8, 2, 2).sum(1) + np.repeat(np.arange(4), 2)[:, None]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


# Types


def test_types_track_varying_axes(mesh):
    seen = {}

    def part(x, w):
        seen.update(x=x.aval.vma, w=w.aval.vma, sum=(x * w).aval.vma, psum=lax.psum(x, "i").aval.vma,
                    index=lax.axis_index("j").aval.vma, gathered=lax.all_gather(x, "i").aval.vma,
                    agreed=lax.all_gather(x, "i", to="invarying").aval.vma, cast=lax.pcast(w, "i", to="varying").aval.vma,
                    jit=xf.jit(lambda x: lax.pmax(x, "j"))(x).aval.vma)
        return x

    on_components(mesh, part, (P("i", "j"), P()))(elements(8, 4), np.float32(1))
    assert seen == {name: frozenset(axes) for name, axes in {
        "x": "ij", "w": "", "sum": "ij", "psum": "j", "index": "j", "gathered": "ij", "agreed": "j", "cast": "i",
        "jit": "i"}.items()}


def test_gradients_inside_sum_over_invariant_axes(mesh):
    """The derivative of the whole loss, not of a part of it: every device takes the same step."""
    x, w = elements(8, 4), elements(4, seed=1)

    def step(w, x):
        return xf.grad(lambda w: ((x @ w) ** 2).sum())(w)

    found = on_components(mesh, step, (P(), P("i")), P())(w, x)
    np.testing.assert_allclose(found, 2 * x.T @ (x @ w), rtol=1e-4)
    own = on_components(mesh, lambda w, x: step(w, x)[None], (P(), P("i")), P("i"), check_vma=False)(w, x)
    np.testing.assert_allclose(np.sum(own, 0), 2 * x.T @ (x @ w), rtol=1e-4)


@pytest.mark.parametrize("check", [True, False])
def test_derivatives_of_the_global_function(mesh, check):
    """A two-layer network with data along one axis and weights along the other."""
    x, w1, w2 = elements(8, 6), elements(6, 4, seed=1), elements(4, 3, seed=2)

    def part(x, w1, w2):
        hidden = xnp.tanh(x @ w1)
        out = lax.psum(hidden @ w2, "j")
        return lax.pmean((out ** 2).mean(), "i")

    shards = on_components(mesh, part, (P("i"), P(None, "j"), P("j")), P(), check_vma=check)

    def full(x, w1, w2):
        return ((xnp.tanh(x @ w1) @ w2) ** 2).mean()

    np.testing.assert_allclose(shards(x, w1, w2), full(x, w1, w2), rtol=1e-5)
    expected = xf.grad(full, argnums=(0, 1, 2))(x, w1, w2)
    for grad in (xf.grad(shards, argnums=(0, 1, 2)), xf.jit(xf.grad(xf.checkpoint(shards), argnums=(0, 1, 2)))):
        for g, e in zip(grad(x, w1, w2), expected):
            np.testing.assert_allclose(g, e, rtol=1e-4, atol=1e-6)
    tangents = (elements(8, 6, seed=4), elements(6, 4, seed=5), elements(4, 3, seed=6))
    directional = sum((np.asarray(e) * t).sum() for e, t in zip(expected, tangents))
    np.testing.assert_allclose(xf.jvp(shards, (x, w1, w2), tangents)[1], directional, rtol=1e-4)
    _, linear = xf.linearize(shards, x, w1, w2)
    np.testing.assert_allclose(linear(*tangents), directional, rtol=1e-4)
    curvature = xf.jit(xf.grad(lambda w1: (xf.grad(shards, argnums=1)(x, w1, w2) ** 2).sum()))(w1)
    np.testing.assert_allclose(
        curvature, xf.grad(lambda w1: (xf.grad(full, argnums=1)(x, w1, w2) ** 2).sum())(w1), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("check", [True, False])
def test_derivatives_through_loops_and_branches(mesh, check):
    x, w = elements(8, 4), elements(4, seed=1)

    def part(x, w):
        def step(total, row):
            return total + xnp.sin(row * w).sum(), None

        total, _ = lax.scan(step, xnp.zeros_like(x[0, 0]), x)
        total = lax.cond(total > 0, lambda: 2 * total * w[0], lambda: total * w[1])
        return lax.psum(total, "i")

    def full(x, w):
        totals = xnp.sin(x * w).reshape(4, -1).sum(1)
        return xnp.where(totals > 0, 2 * totals * w[0], totals * w[1]).sum()

    shards = on_components(mesh, part, (P("i"), P()), P(), check_vma=check)
    np.testing.assert_allclose(shards(x, w), full(x, w), rtol=1e-5)
    for g, e in zip(xf.jit(xf.grad(shards, argnums=(0, 1)))(x, w), xf.grad(full, argnums=(0, 1))(x, w)):
        np.testing.assert_allclose(g, e, rtol=1e-4, atol=1e-5)


def test_branches_with_varying_predicate(mesh):
    """No collective is in a branch, not even in its derivative: devices that do not take it would be waited for."""
    x = elements(8)
    branches = [lambda x, w: x * w, lambda x, w: x * 2, lambda x, w: x * w ** 2, lambda x, w: x * 0 + 1]

    def part(x, w):
        return lax.switch(lax.axis_index("i"), branches, x, w)

    w = np.float32(3)
    shards = on_components(mesh, part, (P("i"), P()), P("i"))
    np.testing.assert_allclose(shards(x, w), x * np.repeat([3, 2, 9, 0], 2) + np.repeat([0, 0, 0, 1], 2), rtol=1e-5)
    np.testing.assert_allclose(xf.grad(lambda w: shards(x, w).sum())(w), x[:2].sum() + 6 * x[4:6].sum(), rtol=1e-5)


def test_derivatives_of_agreed_gathers_custom_rules_and_checkpoints(mesh):
    x, w = elements(8), np.float32(2)
    for tiled in (False, True):
        total = on_components(mesh, lambda x, t=tiled: (lax.all_gather(x, "i", to="invarying", tiled=t) ** 2).sum(), P("i"), P())
        np.testing.assert_allclose(xf.grad(total)(x), 2 * x, rtol=1e-6)

    @xf.custom_vjp
    def times(w, x):
        return w * x

    times.defvjp(lambda w, x: (w * x, (w, x)), lambda residuals, ct: ((ct * residuals[1]).sum(), ct * residuals[0]))
    for f in (times, xf.checkpoint(lambda w, x: w * x)):
        inside = on_components(mesh, lambda w, x, f=f: xf.grad(lambda w: f(w, x).sum())(w), (P(), P("i")), P())
        np.testing.assert_allclose(inside(w, x), x.sum(), rtol=1e-5)
        outside = on_components(mesh, lambda w, x, f=f: lax.psum(f(w, x).sum(), "i"), (P(), P("i")), P())
        np.testing.assert_allclose(xf.grad(outside)(w, x), x.sum(), rtol=1e-5)


def test_loops_may_run_different_numbers_of_steps(mesh):
    x = np.arange(1, 9, dtype=np.float32)

    def part(x):
        return lax.while_loop(lambda s: s[0] < 50, lambda s: (s[0] * 2, s[1] + 1), (x[0], 0))[1][None]

    steps = on_components(mesh, part, P(("i", "j")), P(("i", "j")))(x)
    assert np.asarray(steps).tolist() == [int(np.ceil(np.log2(50 / n))) for n in range(1, 9)]


# What derivatives keep


def saved(f, *args):
    """The types of values that the derivative keeps beside arguments, and where they come from."""
    from xlafront.transforms.calls.checkpoint import saved_residuals

    lines = [line.replace("@i", "") for line in saved_residuals(f, *args)]
    return sorted(line for line in lines if "from the argument" not in line)


@pytest.mark.parametrize("policy, residuals", [
    (None, []), ("nothing_saveable", []), ("dots_saveable", ["f32[8,6] output of dot_general"]),
    ("h", ["f32[8,6] named 'h'"]), ("s", ["f32[4]"]), ("hs", ["f32[4]", "f32[8,6] named 'h'"]),
    ("everything_saveable", ["f32[4]", "f32[8,6]", "f32[8,6]", "f32[8,6]"])])
@pytest.mark.parametrize("check", [True, False])
def test_policies_of_checkpoint_see_inside(mesh, policy, residuals, check):
    from xlafront.ad_checkpoint import checkpoint_name

    x, w = elements(8, 4), elements(4, 6, seed=1)

    def part(x, w):
        hidden = checkpoint_name(xnp.sin(x @ w), "h")
        out = xnp.cos(hidden)
        total = checkpoint_name((out * out).sum(), "s")
        return lax.psum(xnp.sin(total), "i"), out * 2

    def full(x, w):
        out = xnp.cos(xnp.sin(x @ w))
        return xnp.sin((out ** 2).reshape(4, -1).sum(1)).sum() + (2 * out).sum()

    policies = xf.checkpoint_policies
    rule = policies.save_only_these_names(*policy) if policy in ("h", "s", "hs") else policy and getattr(policies, policy)
    shards = xf.checkpoint(on_components(mesh, part, (P("i"), P()), (P(), P("i")), check_vma=check), policy=rule)

    def loss(x, w):
        total, out = shards(x, w)
        return total + out.sum()

    found = saved(loss, x, w)
    if check:  # without types each of eight devices has a scalar of its own, those along "j" the same
        assert len(found) == len(residuals)
        for line, expected in zip(found, residuals):
            assert line.startswith(expected)
    expected = xf.grad(full, argnums=(0, 1))(x, w)
    for run in (xf.grad(loss, argnums=(0, 1)), xf.jit(xf.grad(loss, argnums=(0, 1)))):
        for g, e in zip(run(x, w), expected):
            np.testing.assert_allclose(g, e, rtol=1e-3, atol=1e-5)


def test_residuals_do_not_duplicate_arguments_and_results(mesh):
    """A weight that all devices share stays one array; what is a result as well is read from there."""
    x, w = elements(8, 4), elements(4, 6, seed=1)
    shards = on_components(mesh, lambda x, w: xnp.exp(x @ w), (P("i"), P()), P("i"))
    program = xf.make_jaxpr(lambda x, w: xf.vjp(shards, x, w)[0])(x, w)
    [forward] = [eqn for eqn in program.eqns if eqn.primitive.name == "shard_map"]
    assert [v.aval.shape for v in forward.outvars] == [(8, 6)]
    y, pull = xf.vjp(shards, x, w)
    for g, e in zip(pull(xnp.ones_like(y)), (np.exp(x @ w) @ w.T, x.T @ np.exp(x @ w))):
        np.testing.assert_allclose(g, e, rtol=1e-4)


def test_inactive_values_are_computed_once(mesh):
    """`linearize` computes values then and there; the linear program and its transpose have none of it."""
    x, w = elements(8, 4), elements(4, seed=1)
    shards = on_components(mesh, lambda x, w: (xnp.sin(x) * w, xnp.tanh(x).sum(0)[None]), (P("i"), P()), (P("i"), P("i")))
    _, linear = xf.linearize(lambda w: shards(x, w), w)
    text = str(xf.make_jaxpr(linear)(w))
    assert "sin" not in text and "tanh" not in text
    np.testing.assert_allclose(linear(w)[0], np.sin(x) * w, rtol=1e-5)
    assert not np.any(linear(w)[1])
    assert "tanh" not in xf.jit(xf.grad(lambda w: shards(x, w)[0].sum())).lower(w).as_text()


def test_constants_of_linear_programs(mesh):
    """A table that only the derivative has."""
    table = elements(4, 4, 4, seed=2)

    @xf.custom_jvp
    def f(x):
        return x.sum()

    f.defjvp(lambda primals, tangents: (f(*primals), (tangents[0] * table).sum()))
    x = elements(4, 4, 4)
    shards = on_components(mesh, lambda x: lax.psum(f(x), "i"), P(), P(), axis_names={"i"})
    _, linear = xf.linearize(shards, x)
    np.testing.assert_allclose(linear(x), 4 * (x * table).sum(), rtol=1e-4)
    np.testing.assert_allclose(xf.grad(shards)(x), 4 * table, rtol=1e-5)


def test_dead_code_inside_is_dropped(mesh):
    def part(x, y):
        xnp.sin(y)
        return x * 2

    from xlafront.core.ir import dce_jaxpr

    program = xf.make_jaxpr(on_components(mesh, part, P("i"), P("i")))(elements(8), elements(8))
    pruned, used = dce_jaxpr(program.jaxpr, [True])
    assert used == [True, False] and "sin" not in str(pruned)


# vmap


@pytest.mark.parametrize("check", [True, False])
def test_vmap(mesh, check):
    x, w = elements(8, 3, 4), elements(3, 8, seed=1)

    def part(x, w):
        return x * lax.psum(w.sum(), "i"), lax.pmax(x, ("i", "j")).max()

    shards = on_components(mesh, part, (P("i", "j"), P("i")), (P("i", "j"), P()), check_vma=check)
    scaled, top = xf.jit(xf.vmap(shards, in_axes=(1, 0)))(x, w)
    np.testing.assert_allclose(scaled, np.moveaxis(x, 1, 0) * w.sum(1)[:, None, None], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(top, x.max((0, 2)))
    grads = xf.grad(lambda w: xf.vmap(shards, in_axes=(1, 0))(x, w)[0].sum())(w)
    np.testing.assert_allclose(grads, np.broadcast_to(x.sum((0, 2))[:, None], (3, 8)), rtol=1e-4, atol=1e-5)


def test_vmap_sharded_over_an_axis(mesh):
    x = elements(6, 8)
    shards = on_components(mesh, lambda x: x - lax.pmean(x.mean(), "i"), P("i"), P("i"))
    program = xf.make_jaxpr(xf.vmap(shards, spmd_axis_name="j"))(x)
    [eqn] = [e for e in program.eqns if e.primitive.name == "shard_map"]
    assert eqn.params["in_specs"] == (P("j", "i"),)
    np.testing.assert_allclose(xf.vmap(shards, spmd_axis_name="j")(x), x - x.mean(1, keepdims=True), atol=1e-6)
    for wrapped in (xf.jit(shards), xf.checkpoint(shards), lambda x: lax.scan(lambda c, _: (shards(c), None), x, None, 2)[0],
                    lambda x: lax.cond(True, shards, shards, x), lambda x: lax.while_loop(lambda c: False, shards, x)):
        assert "'j', 'i'" in str(xf.make_jaxpr(xf.vmap(wrapped, spmd_axis_name="j"))(x))


@pytest.mark.parametrize("check", [True, False])
def test_derivatives_of_vmap_sharded_over_an_axis(mesh, check):
    x = elements(6, 8)
    shards = on_components(mesh, lambda x: xnp.sin(x) * lax.pmean(x.sum(), "i"), P("i"), P("i"), check_vma=check)
    found = xf.vmap(xf.grad(lambda x: shards(x).sum()), spmd_axis_name="j")(x)
    expected = np.cos(x) * x.sum(1, keepdims=True) / 4 + np.sin(x).sum(1, keepdims=True) / 4
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    total = on_components(mesh, lambda x: lax.psum(x, "k"), P("i"), P("i"), check_vma=check)
    np.testing.assert_allclose(xf.vmap(total, axis_name="k", spmd_axis_name="j")(x), np.broadcast_to(x.sum(0), x.shape), rtol=1e-4,
                               atol=1e-5)


def test_collectives_over_devices_and_vmap_together(mesh):
    x = elements(8, 3)
    shards = on_components(mesh, lambda x: lax.psum(x, ("i", "k")), P("i"), P())
    found = xf.vmap(shards, in_axes=1, axis_name="k")(x)
    np.testing.assert_allclose(found, np.broadcast_to(x.reshape(4, 2, 3).sum((0, 2)), (3, 2)), rtol=1e-5, atol=1e-6)


# One device, keys, callbacks


def test_one_device():
    mesh = xf.make_mesh((1,), ("i",), (AxisType.Auto,), devices=xf.devices()[:1])
    x = elements(4, 1, 2)[:1]
    for name, (function, oracle) in {**LINEAR, **EXTREMES}.items():
        if name in ("ppermute some", "pbroadcast"):
            continue
        found = xf.shard_map(lambda x, f=function: f(x[0], "i")[None], mesh=mesh, in_specs=P("i"), out_specs=P("i"))(x)
        np.testing.assert_allclose(found, oracle(x), rtol=1e-6, err_msg=name)


def test_specs_over_one_device():
    """Code with specs also runs on a laptop, and a step's second call is not a new signature."""
    mesh = xf.make_mesh((1,), ("i",), devices=xf.devices()[:1], axis_types=(AxisType.Auto,))
    split = xf.NamedSharding(mesh, P("i"))
    state = xf.device_put(np.ones((4, 2), np.float32), split)
    step = xf.jit(lambda state: (state * 2, state.sum()))
    following, total = step(state)
    assert following.sharding == split and total.sharding == xf.NamedSharding(mesh, P())
    with signatures_seen() as seen:
        step(following)
    assert not seen
    assert xf.shard_map(lambda x: x * 2, mesh=mesh, in_specs=P("i"), out_specs=P("i"))(np.ones(4)).sharding == split
    assert xf.jit(lambda x: x, out_shardings=split)(np.ones(4)).sharding == split


def test_random_keys_are_split_over_devices(mesh):
    keys = xf.random.split(xf.random.key(0), 8)
    found = on_components(mesh, lambda k: xf.random.normal(k[0], (1, 3)), P(("i", "j")), P(("i", "j")))(keys)
    np.testing.assert_allclose(found, xf.vmap(lambda k: xf.random.normal(k, (3,)))(keys), rtol=1e-6)


def test_unread_results_and_arguments_are_dropped(mesh):
    def part(x, y):
        return x * 2, xnp.sin(y)

    program = xf.make_jaxpr(xf.jit(lambda x, y: on_components(mesh, part, P("i"), P("i"))(x, y)[0]))(elements(8), elements(8))
    from xlafront.core.ir import dce_jaxpr

    pruned, used = dce_jaxpr(program.jaxpr, [True])
    assert used == [True, False] and "sin" not in str(pruned)


def test_a_function_is_traced_once_for_its_types(mesh):
    count = []

    def part(x):
        count.append(1)
        return x * 2

    shards = on_components(mesh, part)
    for _ in range(3):
        shards(elements(8, 4))
    assert len(count) == 1


# Bad input


@pytest.mark.parametrize("arguments, options, error, words", [
    ((np.ones((6, 4)),), {}, ValueError, ["argument x", "(6, 4)", "'i'", "'i': 4, 'j': 2", "divisible by 4", "Pad"]),
    ((np.ones(8),), {}, ValueError, ["argument x", "(8,)", "2 entries"]),
    ((np.ones((8, 4)),), {"in_specs": P("k")}, ValueError, ["in_specs", "'k'", "argument x", "('i', 'j')"]),
    ((np.ones((8, 4)),), {"in_specs": P("i", "i")}, ValueError, ["in_specs", "'i'", "twice"]),
    ((np.ones((8, 4)),), {"in_specs": P("i", "j"), "axis_names": {"i"}}, ValueError, ["'j'", "('i',)"]),
    ((np.ones((8, 4)),), {"in_specs": (P("i"), P("j"))}, ValueError, ["in_specs"]),
    ((np.ones((8, 4)),), {"in_specs": ("i",)}, TypeError, ["PartitionSpec", "'i'"]),
    ((np.ones((8, 4)),), {"in_specs": [P("i")]}, ValueError, ["in_specs", "list", "tuple"]),
    ((np.ones((8, 4)),), {"axis_names": "i"}, TypeError, ["axis_names", "set", "'i'"]),
    ((np.ones((8, 4)),), {"out_specs": (P(), P())}, ValueError, ["out_specs"]),
    ((np.ones((8, 4)),), {"out_specs": P("i", "j", "i")}, ValueError, ["out_specs", "result"]),
    ((np.ones((8, 4)),), {"out_specs": P("i")}, ValueError, ["result", "'j'", "psum", "check_vma=False"]),
    ((np.ones((8, 4)),), {"axis_names": {"q"}}, ValueError, ["'q'", "('i', 'j')"]),
    (("text",), {}, TypeError, ["part", "text"]),
    ((np.ones((8, 4)),), {"mesh": "i"}, TypeError, ["part", "Mesh", "'i'", "str"]),
    ((np.ones((8, 4)),), {"out_specs": None}, ValueError, ["part", "out_specs=None", "P()"]),
    ((np.ones((8, 4)),), {"out_specs": "i"}, TypeError, ["out_specs", "P('i')"]),
])
def test_bad_input(mesh, arguments, options, error, words):
    def part(x):
        return x

    with pytest.raises(error) as found:
        on_components(**{"mesh": mesh, "function": part} | options)(*arguments)
    for word in words:
        assert word in str(found.value)


def test_bad_input_in_pytrees_and_scopes(mesh):
    with pytest.raises(ValueError, match=r"params\['w'\].*divisible"):
        on_components(mesh, lambda params: params["w"], ({"w": P("i")},), P("i"))({"w": np.ones(3)})
    with pytest.raises(ValueError, match=r"result\['b'\].*varies"):
        on_components(mesh, lambda x: {"a": x, "b": x}, P("i"), {"a": P("i"), "b": P()})(np.ones(4))
    with pytest.raises(ValueError, match="no mesh"):
        xf.shard_map(lambda x: x, in_specs=P("i"), out_specs=P("i"))(np.ones(4))
    with pytest.raises(NameError, match="'q'.*unbound.*'i', 'j'"):
        on_components(mesh, lambda x: lax.psum(x, "q"))(np.ones((8, 4)))
    with pytest.raises(ValueError, match="'i'.*surrounding"):
        on_components(mesh, lambda x: on_components(None, lambda y: y, P("i"), P("i"), axis_names={"i"})(x), P("i"), P("i"))(np.ones(32))
    with pytest.raises(ValueError, match="varies"):  # the result is another one in each group
        on_components(mesh, lambda x: lax.psum(x, "i", axis_index_groups=[[0, 1], [2, 3]]), P("i"), P())(np.ones((8, 4)))
    with pytest.raises(TypeError, match="shard_map of .*by position.*'x' by name"):
        on_components(mesh, lambda x: x)(x=np.ones((8, 4)))
    other = xf.sharding.Mesh(np.array(xf.devices()), ("q",))
    with pytest.raises(ValueError, match="'q': 8.*context mesh.*'i': 4.*Leave mesh out"):
        on_components(mesh, lambda x: on_components(other, lambda y: y, P(), P(), axis_names={"q"})(x), P("i"), P("i"), axis_names={"i"})(
            np.ones(8))
    shards = on_components(mesh, lambda x: x, P("i"), P("i"))
    with pytest.raises(ValueError, match="spmd_axis_name='j' shards 3 elements.*2 does not divide 3"):
        xf.vmap(shards, spmd_axis_name="j")(np.ones((3, 8)))
    with pytest.raises(ValueError, match="spmd_axis_name='i'.*uses already"):
        xf.vmap(shards, spmd_axis_name="i")(np.ones((4, 8)))
    away = xf.device_put(np.ones((8, 4)), xf.devices()[3])
    for shards in (on_components(mesh, lambda x: x), xf.jit(lambda x: on_components(mesh, lambda y: y)(x))):
        with pytest.raises(ValueError, match=r"'i': 4.*argument x \(shape \(8, 4\)\).*\[3\].*device_put"):
            shards(away)
    with pytest.raises(ValueError, match="varies along"):
        on_components(mesh, lambda x: lax.pcast(x, "i", to="varying"))(np.ones((8, 4)))
    with pytest.raises(TypeError, match="takes a function"):
        xf.shard_map(3, mesh=mesh, in_specs=P(), out_specs=P())


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("specs, names, error", [
    (P("y"), "x", ValueError), ((P("x"), P("x", "y")), "x", ValueError), ([P("q"), P("x")], "xy", ValueError),
    (("x", P("x")), "x", TypeError), ({"a": P("x"), "b": P(("x", "y"))}, "x", ValueError)], ids=str)
def test_out_specs_are_checked_before_tracing(specs, names, error, check):
    mesh = xf.make_mesh((2, 4), ("x", "y"), (xf.sharding.AxisType.Auto,) * 2)

    def never(x):
        raise AssertionError("it ran")

    with pytest.raises(error, match="out_specs"):
        xf.shard_map(never, mesh=mesh, in_specs=P("x"), out_specs=specs, axis_names=set(names), check_vma=check)(np.ones(8))


def test_extrema_over_axes_where_the_value_is_the_same(mesh):
    x = np.arange(8, dtype=np.float32)
    for extremum, expected in ((lax.pmax, [6, 7]), (lax.pmin, [0, 1])):
        with pytest.raises(ValueError, match=f"{extremum.__name__}.*varies along.*'i'.*same along.*'j'"):
            on_components(mesh, lambda x, extremum=extremum: extremum(x, ("i", "j")), P("i"), P())(x)

        def over_both(x, extremum=extremum):
            return extremum(lax.pcast(x, "j", to="varying"), ("i", "j"))

        np.testing.assert_array_equal(on_components(mesh, over_both, P("i"), P())(x), expected)


def test_barrier_operands_keep_their_types(mesh):
    def part(x, w):
        x, w = lax.optimization_barrier((x, w))
        assert xf.typeof(x).vma == {"i", "j"} and xf.typeof(w).vma == set()
        return lax.psum((x * w).sum(), ("i", "j"))

    f = on_components(mesh, part, (P("i", "j"), P()), P())
    x, w = np.arange(8, dtype=np.float32).reshape(4, 2), np.float32(2)
    assert f(x, w) == 56 and xf.jit(xf.grad(f, 1))(x, w) == xf.grad(f, 1)(x, w) == 28
    assert on_components(mesh, lambda x, w: lax.optimization_barrier((x, w))[1], (P("i", "j"), P()), P())(x, w) == 2


def test_decisions_in_a_body_do_not_repeat_callbacks(mesh):
    """Outside of jit, Python's `if` may read values that are the same on all devices."""
    seen = []

    def part(x):
        xf.experimental.io_callback(lambda x: seen.append(float(x[0, 0])) or np.float32(0), xf.ShapeDtypeStruct((), np.float32), x)
        return x + 1 if lax.psum(x.sum(), ("i", "j")) > 0 else x

    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    np.testing.assert_array_equal(on_components(mesh, part)(x), x + 1)
    assert sorted(seen) == [*range(8)]
