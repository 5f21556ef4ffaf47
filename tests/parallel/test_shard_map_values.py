"""Arguments and known values of functions under shard_map, against NumPy.

Values that are the same on all devices, objects, groups over several axes, types of values that are created inside.
"""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import NamedSharding, P, lax
from xlafront.sharding import AxisType

pytestmark = pytest.mark.cpu_only

ROW = np.arange(8, dtype=np.float32)
ALL = ("x", "y", "z")


@pytest.fixture(scope="module")
def mesh():
    return xf.make_mesh((4, 2), ("i", "j"), (AxisType.Auto,) * 2)


@pytest.fixture(scope="module")
def cube():
    return xf.make_mesh((2, 2, 2), ALL, (AxisType.Auto,) * 3)


def on_components(mesh, function, in_specs=P("i"), out_specs=P("i"), **options):
    return xf.shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=out_specs, **options)


# Values that Python reads


@pytest.mark.parametrize("body, expected", [
    (lambda x: x if lax.psum(x, "i").sum() > 0 else -x, lambda x: x if x.sum() > 0 else -x),
    (lambda x: x * lax.psum(x, "i").sum().item(), lambda x: x * x.sum()),
    (lambda x: x * int(lax.pmax(x, "i")[0]), lambda x: x * int(x[::2].max())),
    (lambda x: x + 1 if lax.all_gather(x, "i", to="invarying").sum() > 3 else x, lambda x: x + 1 if x.sum() > 3 else x),
], ids=["if", "item", "int", "gather"])
def test_replicated_values_are_known(mesh, body, expected):
    shards = on_components(mesh, body)
    for x in (ROW, -ROW):
        np.testing.assert_allclose(shards(x), expected(x))
    with pytest.raises(TypeError, match="traced array"):
        xf.jit(shards)(ROW)


def test_values_are_known_with_effects_and_derivatives(mesh):
    seen = []

    def body(x):
        xf.debug.callback(lambda y: seen.append(float(y)), lax.psum(x, "i")[0])
        return x * x if lax.psum(x, "i").sum() > 0 else x

    shards = on_components(mesh, body)
    np.testing.assert_allclose(xf.grad(lambda x: shards(x).sum())(ROW), 2 * ROW)
    np.testing.assert_allclose(shards(-ROW), -ROW)
    xf.effects_barrier()
    assert len(seen) == 16  # reading a value repeats no effect: one for each device and call


@pytest.mark.parametrize("options", [{}, {"check_vma": False}], ids=["checked", "unchecked"])
def test_values_of_shards_are_unknown(mesh, options):
    with pytest.raises(xf.errors.TracerBoolConversionError):
        on_components(mesh, lambda x: x if x.sum() > 0 else -x, **options)(ROW)


# Arguments that are no arrays


@pytest.mark.parametrize("given, spec, body, expected", [
    (object(), None, lambda o, x: x * 2, ROW * 2),
    ("two", None, lambda o, x: x * {"two": 2}[o], ROW * 2),
    ({"f": xnp.sin, "by": 3}, None, lambda o, x: o["f"](x) * o["by"], np.sin(ROW) * 3),
    ({"f": xnp.sin, "w": ROW}, {"f": None, "w": P("i")}, lambda o, x: o["f"](x) * o["w"], np.sin(ROW) * ROW),
    (2, None, lambda o, x: x * range(5)[o], ROW * 2),
    (np.float32([3, 4]), None, lambda o, x: x * o, ROW * np.tile([3, 4], 4)),
], ids=["object", "string", "pytree", "mixed", "number", "array"])
def test_arguments_without_a_spec_are_unchanged(mesh, given, spec, body, expected):
    shards = on_components(mesh, body, (spec, P("i")))
    np.testing.assert_allclose(shards(given, ROW), expected, rtol=1e-6)
    np.testing.assert_allclose(xf.jit(lambda x: shards(given, x))(ROW), expected, rtol=1e-6)


def test_no_specs_at_all(mesh):
    assert on_components(mesh, lambda x, name: x.sum(), None, P())(ROW, "rows") == ROW.sum()


# Groups over several axes: the indices count the last axis fastest


GROUPS = [[[0, 1, 2, 3], [4, 5, 6, 7]], [[0, 3], [1, 2], [4, 7], [5, 6]]]


@pytest.mark.parametrize("groups", GROUPS, ids=["fours", "pairs"])
def test_groups_over_several_axes(cube, groups):
    size, options = len(groups[0]), {"axis_index_groups": groups}
    own = np.array([next(g for g in groups if i in g) for i in range(8)])
    place = np.array([list(own[i]).index(i) for i in range(8)])
    block = np.arange(8 * size, dtype=np.float32).reshape(size, 8)

    def body(x, b):
        return (lax.psum(x, ALL, **options), lax.pmax(x, ALL, **options), lax.pmean(x, ALL, **options),
                lax.all_gather(x, ALL, **options)[None, :, 0], lax.psum_scatter(b, ALL, **options),
                lax.all_to_all(b, ALL, 0, 0, tiled=True, **options))

    shards = on_components(cube, body, (P(ALL), P(None, ALL)), (P(ALL),) * 5 + (P(None, ALL),), check_vma=False)
    total, most, mean, gathered, scattered, exchanged = shards(ROW, block)
    np.testing.assert_allclose(total, ROW[own].sum(1))
    np.testing.assert_allclose(most, ROW[own].max(1))
    np.testing.assert_allclose(mean, ROW[own].mean(1))
    np.testing.assert_allclose(gathered, ROW[own])
    np.testing.assert_allclose(scattered, [block[place[i], own[i]].sum() for i in range(8)])
    np.testing.assert_allclose(exchanged, np.array([block[place[i], own[i]] for i in range(8)]).T)


def test_groups_over_several_axes_where_vmap_maps_one():
    def element(x):
        return lax.psum(x, ("a", "b"), axis_index_groups=[[0, 1], [2, 3]])

    with pytest.raises(NotImplementedError, match="axis_index_groups over the axes .*vmap"):
        xf.vmap(xf.vmap(element, axis_name="b"), axis_name="a")(xnp.ones((2, 2)))


# Types of what is made inside


@pytest.mark.parametrize("make", [
    xnp.zeros_like, xnp.ones_like, xnp.empty_like, lambda x: xnp.full_like(x, 3), lambda x: lax.full_like(x, 1),
    lambda x: xnp.zeros_like(x, shape=(3,)), lambda x: xf.eval_shape(xnp.sin, x),
], ids=["zeros", "ones", "empty", "full", "lax", "shape", "eval_shape"])
def test_like_functions_have_the_varying_axes_of_their_argument(mesh, make):
    seen = []
    xf.eval_shape(on_components(mesh, lambda x: [seen.append(xf.typeof(make(v)).mat.varying) for v in (x, lax.psum(x, "i"))] and x), ROW)
    assert seen == [{"i"}, set()]


@pytest.mark.parametrize("spec, field", [(P(unreduced={"i"}), "unreduced"), (P(reduced={"i"}), "reduced")])
def test_types_have_unreduced_axes_apart_from_specs(mesh, spec, field):
    seen = []

    def body(x):
        t = xf.typeof(lax.pcast(x if field == "unreduced" else lax.psum(x, "i"), "i", to=field))
        seen.append((getattr(t.mat, field), t.sharding.spec, t.sharding.mesh.are_all_axes_manual))
        return x

    xf.eval_shape(on_components(mesh, body), ROW)
    assert seen == [({"i"}, P(None), True)]


LOOPS = {
    "scan": lambda x: lax.scan(lambda c, _: (c + x, None), xnp.zeros(2), None, length=3)[0],
    "scan_back": lambda x: lax.scan(lambda c, y: (lax.psum(y, "i"), c), x[0], x)[1],
    "fori_loop": lambda x: lax.fori_loop(0, 3, lambda i, c: c + x, xnp.zeros(2)),
    "while_loop": lambda x: lax.while_loop(lambda c: c.sum() < 9, lambda c: c + 1 + x, xnp.zeros(2)),
    "cond": lambda x: lax.cond(True, lambda: x, lambda: xnp.zeros(2)),
    "switch": lambda x: lax.switch(0, [lambda: x, lambda: xnp.zeros(2)]),
}


@pytest.mark.parametrize("name", LOOPS)
def test_carries_and_branches_vary_along_the_same_axes(mesh, name):
    """A value that is the same on all devices in one round and varies in the next has no type."""
    with pytest.raises(TypeError, match=r"vary along different mesh axes: .*pcast\(x, \('i',\), to='varying'\)"):
        on_components(mesh, LOOPS[name])(ROW)
    assert on_components(mesh, LOOPS[name], check_vma=False)(ROW).shape == (8,)


@pytest.mark.parametrize("specs", [(P(), P("i")), (P("i"), P())], ids=["value", "tangent"])
@pytest.mark.parametrize("apply, error", [
    (lambda p, t: xf.linearize(xnp.sin, p)[1](t), ValueError),
    (lambda p, t: xf.vjp(xnp.sin, p)[1](t)[0], ValueError),
    (lambda p, t: xf.linear_transpose(lambda y: 2 * y, p)(t)[0], TypeError),
], ids=["linearize", "vjp", "linear_transpose"])
def test_linearized_functions_check_varying_axes(mesh, specs, apply, error):
    args = [ROW if s == P("i") else ROW[:2] for s in specs]
    with pytest.raises(error, match="varies along other mesh axes.*pcast"):
        on_components(mesh, apply, specs)(*args)
    result = on_components(mesh, lambda p, t: apply(*[x if s == P("i") else lax.pcast(x, "i", to="varying") for x, s in zip(
        (p, t), specs)]), specs)(*args)
    full = [np.tile(x, 8 // x.size) for x in args]
    np.testing.assert_allclose(result, (2 if error is TypeError else np.cos(full[0])) * full[1], rtol=1e-5)


@pytest.mark.parametrize("function", [
    xnp.linalg.inv, xnp.linalg.det, xnp.linalg.qr, xnp.linalg.svd, xnp.linalg.eigh, lax.linalg.lu, lax.linalg.hessenberg,
    lambda x: lax.linalg.lu_pivots_to_permutation(lax.linalg.lu(x)[1], 3), lambda x: lax.linalg.qdwh(x[0])[0][None],
    lambda x: lax.linalg.cholesky_update(x[0], x[0, 0])[None], lambda x: lax.linalg.householder_product(x, x[..., 0]),
    lambda x: xnp.searchsorted(x[0, 0], xnp.arange(5.0)), lambda x: lax.map(xnp.sin, x), xnp.cumsum, xnp.median,
], ids=lambda f: getattr(f, "__name__", "f"))
def test_internal_loops_work_on_shards(function):
    """Their carries start with constants, which vary as the rest does."""
    x = (np.random.default_rng(0).standard_normal((1, 3, 3)) + 3 * np.eye(3)).astype(np.float32)
    x = x + x.swapaxes(1, 2)
    one = xf.make_mesh((1,), ("i",), (AxisType.Auto,), devices=xf.devices()[:1])
    found = xf.eval_shape(on_components(one, lambda x: xf.tree.map(
        lambda y: lax.psum(y, "i"), function(x)), P("i"), P()), x)
    assert xf.tree.map(lambda a: (a.shape, a.dtype), found) == xf.tree.map(
        lambda a: (a.shape, a.dtype), xf.eval_shape(function, x))


# Batches over explicit axes


def test_batch_dimensions_stay_sharded():
    cube = xf.make_mesh((2, 2, 2), ALL)
    x = np.arange(32, dtype=np.float32).reshape(8, 4)
    double = xf.shard_map(lambda v: v * 2, mesh=cube, in_specs=P("y"), out_specs=P("y"))
    for batch in (("z", "x"), "x", None):
        given = xf.device_put(x, NamedSharding(cube, P(batch, "y")))
        for out_axes in (0, 1):
            result = xf.vmap(double, out_axes=out_axes)(given)
            assert xf.typeof(result).sharding.spec == (P(batch, "y"), P("y", batch))[out_axes]
            np.testing.assert_array_equal(result, 2 * (x if out_axes == 0 else x.T))
    split = xf.device_put(x, NamedSharding(cube, P("x", "y")))
    for call, error, words in [
        (lambda: xf.vmap(double, spmd_axis_name="z")(split), ValueError, "Leave spmd_axis_name out"),
        (lambda: xf.vmap(lambda v: v, spmd_axis_name="z")(split), ValueError, "Leave spmd_axis_name out"),
        (lambda: xf.vmap(double, spmd_axis_name="q")(xf.device_put(x, NamedSharding(cube, P(None, "y")))), KeyError, "axis 'q'"),
        (lambda: xf.vmap(double, spmd_axis_name="x")(xf.device_put(x, NamedSharding(cube, P(None, "y")))), ValueError,
         "does not match"),
        (lambda: xf.vmap(xf.shard_map(lambda v: lax.psum(v, "x"), mesh=cube, in_specs=P("y"), out_specs=P("y")))(split),
         NameError, "'x'.*unbound"),
        (lambda: xf.vmap(lambda a, b: a + b)(split, x), ValueError, "sharded in the same way.*inconsistent axis specs"),
    ]:
        with pytest.raises(error, match=words):
            call()


# Axes that are left to the compiler


@pytest.mark.parametrize("names, expected", [({"i"}, ROW.reshape(4, 2)), ({"j"}, ROW.reshape(2, 4)), ({"i", "j"}, None)],
                         ids=["i", "j", "all"])
def test_debug_callbacks_are_called_once_for_each_part(mesh, names, expected):
    seen = []
    axis = "i" if "i" in names else "j"
    shards = on_components(mesh, lambda x: [xf.debug.callback(lambda y: seen.append(np.asarray(y).tolist()), x), x][1], P(axis), P(axis),
                     axis_names=names)
    for call in (shards, xf.jit(shards)):
        seen.clear()
        np.testing.assert_array_equal(call(ROW), ROW)
        xf.effects_barrier()
        assert sorted(seen) == (ROW.reshape(4, 2).repeat(2, 0) if expected is None else expected).tolist()


def test_mesh_is_the_context_mesh_inside(mesh):
    x = np.ones((8, 4), np.float32)
    constrain = on_components(mesh, lambda x: lax.with_sharding_constraint(x * 2, P(None, "j")), axis_names={"i"})
    for call in (constrain, xf.jit(constrain)):
        np.testing.assert_array_equal(call(x), 2 * x)
    assert "j" in xf.jit(constrain).lower(x).as_text().split("sdy.sharding_constraint")[1].split("\n")[0]


DOUBLE = {"in_specs": P("i"), "out_specs": P("i")}


@pytest.mark.parametrize("body, options, error, words", [
    (lambda m, x: lax.with_sharding_constraint(x, NamedSharding(m, P("i"))), {}, ValueError, "Manual"),
    (lambda m, x: lax.with_sharding_constraint(x, P("i")), {"axis_names": {"i"}}, ValueError, "can only refer to Auto axes"),
    (lambda m, x: lax.with_sharding_constraint(x, NamedSharding(m, P(None))), {"axis_names": {"i"}}, ValueError, "Manual here"),
    (lambda m, x: xf.device_put(1.0, xf.devices()[0]) + x, {}, ValueError, "not allowed within"),
    (lambda m, x: xf.device_put(x, NamedSharding(m, P())), {}, ValueError, "not allowed within"),
    (lambda m, x: xf.shard_map(lambda y: y, mesh=m, **DOUBLE)(x), {}, ValueError, "context mesh.*should match"),
    (lambda m, x: xf.shard_map(lambda y: y, in_specs=P(), out_specs=P())(x), {}, ValueError, "no axis is left"),
    (lambda m, x: xf.pure_callback(lambda y: y, x, x), {"axis_names": {"i"}}, NotImplementedError, "axis_names"),
    (lambda m, x: lax.psum(x, ("i", "j")), {}, ValueError, r"varies along \['i'\].*the same along \['j'\].*pcast"),
    (lambda m, x: lax.psum_scatter(x, ("i", "j")), {}, ValueError, "pcast"),
    (lambda m, x: lax.pcast(x, {"j"}, to="varying"), {}, TypeError, "tuple of names"),
    (lambda m, x: lax.ppermute(x, "i", [(0, 9)]), {}, IndexError, "destination 9.*size 4"),
    (lambda m, x: lax.psum_scatter(x, "i", scatter_dimension=3), {}, IndexError, "scatter_dimension=3"),
    (lambda m, x: lax.all_to_all(x, "i", 3, 0), {}, IndexError, "split_axis=3"),
])
def test_bad_input_inside(mesh, body, options, error, words):
    with pytest.raises(error, match=words):
        on_components(mesh, lambda x: body(mesh, x), **options)(ROW)


def test_bad_input_outside(mesh):
    explicit = xf.make_mesh((4, 2), ("i", "j"))
    with pytest.raises(ValueError, match="in_specs has .* does not match the spec of the input"):
        on_components(explicit, lambda x: x)(ROW)
    np.testing.assert_array_equal(on_components(explicit, lambda x: x)(xf.device_put(ROW, NamedSharding(explicit, P("i")))), ROW)
    with xf.set_mesh(mesh), pytest.raises(ValueError, match="context mesh.*should match"):
        on_components(xf.make_mesh((4,), ("i",)), lambda x: x)(ROW)
    with pytest.raises(ValueError, match="called under shard_map"):
        lax.pcast(1.0, "i", to="varying")
    with pytest.raises(TypeError, match="smap is over one axis"):
        xf.smap(lambda x: x, in_axes=0, out_axes=0, axis_name=("i", "j"))


def test_unequal_replicas_read_the_first_shard():
    mesh = xf.make_mesh((4, 2), ("i", "j"), (AxisType.Auto,) * 2)
    x = np.arange(32.0, dtype=np.float32).reshape(4, 8)
    f = xf.shard_map(lambda x: x * 2, mesh=mesh, in_specs=P("j", "i"), out_specs=P("j"), check_vma=False)
    np.testing.assert_array_equal(f(x), 2 * x[:, :2])
