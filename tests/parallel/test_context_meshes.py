"""Programs in contexts of several meshes: other axis names, sizes and types over the same devices, and meshes without devices."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import NamedSharding, P, lax
from xlafront.sharding import AbstractMesh, AxisType, use_abstract_mesh

pytestmark = pytest.mark.cpu_only

X = np.arange(16, dtype=np.float32).reshape(8, 2)


def mesh_of(*sizes, names="xyz", types=AxisType.Explicit):
    return xf.make_mesh(sizes, tuple(names[:len(sizes)]), (types,) * len(sizes))


# Contexts without devices


@pytest.mark.parametrize("sizes, names", [((4,), "y"), ((2, 2), "ab"), ((4,), "x")])
@pytest.mark.parametrize("types", [AxisType.Auto, AxisType.Explicit])
def test_new_arrays_are_over_the_axes_of_the_abstract_mesh_in_context(sizes, names, types):
    axes = AbstractMesh(sizes, tuple(names), (types,) * len(sizes))
    with xf.set_mesh(mesh_of(4)), use_abstract_mesh(axes):
        for made in (xnp.arange(8), xnp.ones(8), xf.jit(lambda: xnp.ones(8))()):
            assert (made.sharding.mesh.shape_tuple, made.sharding.mesh.axis_types) == (axes.shape_tuple, axes.axis_types)
            assert len(made.devices()) == 4 and made.sharding.is_fully_replicated


# `reshard` to other meshes than that in context


@pytest.mark.parametrize("context", [AxisType.Auto, AxisType.Explicit])
@pytest.mark.parametrize("target", [mesh_of(4, names="a"), mesh_of(2, 2), xf.make_mesh(
    (2, 2), ("x", "y"), (AxisType.Explicit, AxisType.Auto))], ids=str)
def test_reshard_to_meshes_that_are_not_in_context(context, target):
    spec = P(target.axis_names[0], None)
    with xf.set_mesh(mesh_of(2, 2, types=context)):
        for mesh in (target, target.abstract_mesh):
            for f in (xf.sharding.reshard, xf.jit(xf.sharding.reshard, static_argnums=1)):
                result = f(X, NamedSharding(mesh, spec))
                assert result.sharding.is_equivalent_to(NamedSharding(target, spec), 2) and result.sharding.mesh == target
                np.testing.assert_array_equal(result, X)


def test_out_sharding_over_abstract_meshes_has_no_memory_kind():
    mesh = mesh_of(4)
    with xf.set_mesh(mesh):
        for kind in ("device", "pinned_host"):
            sharding = NamedSharding(mesh.abstract_mesh, P("x"), memory_kind=kind)
            for f in (lambda s: xnp.full((8,), 0, out_sharding=s), lambda s: xf.sharding.reshard(X, s),
                      lambda s: xf.jit(lambda: xnp.reshape(X, (16,), out_sharding=s))()):
                with pytest.raises(ValueError, match="memory_kind"):
                    f(sharding)


# `with_sharding_constraint` outside of jit


def test_constraints_to_abstract_meshes_need_the_mesh_of_the_array():
    rows, columns = (mesh_of(4, names=n, types=AxisType.Auto) for n in "xy")
    over_rows = xf.device_put(X, NamedSharding(rows, P("x")))
    to_rows, to_columns = (NamedSharding(m.abstract_mesh, P(m.axis_names[0])) for m in (rows, columns))
    assert lax.with_sharding_constraint(over_rows, to_rows).sharding == NamedSharding(rows, P("x"))
    with pytest.raises(ValueError, match="another shape"):
        lax.with_sharding_constraint(over_rows, to_columns)
    with pytest.raises(ValueError, match="not sharded over a mesh"):
        lax.with_sharding_constraint(X, to_rows)
    with pytest.raises(TypeError, match="not sharded over a mesh"):
        lax.with_sharding_constraint(xnp.asarray(X), to_rows)
    with xf.set_mesh(rows):
        assert lax.with_sharding_constraint(X, to_rows).sharding == NamedSharding(rows, P("x"))


# Meshes with axes of several types


def test_results_over_mixed_meshes_have_the_axes_of_their_types_and_those_of_the_compiler():
    mesh = xf.make_mesh((2, 2), ("x", "y"), (AxisType.Explicit, AxisType.Auto))
    narrow = xf.make_mesh((1, 2), ("x", "y"), (AxisType.Explicit, AxisType.Auto))
    three = xf.make_mesh((2, 2, 2), ("x", "y", "z"), (AxisType.Auto, AxisType.Explicit, AxisType.Explicit))
    with xf.set_mesh(mesh):
        x, y = xf.device_put(X, P("x", "y")), xf.device_put(X.T, P("y", None))
        assert xf.jit(lambda x, y: xnp.sin(x) @ y)(x, y).sharding == NamedSharding(mesh, P("x", None))
        assert xf.jit(lambda x: x * 2)(x).sharding == NamedSharding(mesh, P("x", "y"))
    with xf.set_mesh(narrow):  # a spec that the compiler does not report, since the axis has one device
        assert xf.jit(lambda: xnp.ones((2, 2), out_sharding=P("x", None)))().sharding == NamedSharding(narrow, P("x", None))
    with xf.set_mesh(three):
        counted = xf.jit(lambda: lax.broadcasted_iota(np.int32, (16, 24), 1, out_sharding=NamedSharding(three, P(("y", "z"), None))))
        assert counted().sharding == NamedSharding(three, P(("y", "z"), None))


# Functions that make arrays with the sharding of another array, or with one that is requested for one of their results


@pytest.mark.parametrize("wrap", [lambda f: f, xf.jit])
def test_shardings_of_new_arrays(wrap):
    mesh = mesh_of(2, 2)
    with xf.set_mesh(mesh):
        like = xf.device_put(X, P("x", "y"))
        for value in (np.ones(2), 1.0, xf.device_put(np.ones(2), P("y"))):
            assert wrap(lax.broadcast_like)(value, like).sharding == NamedSharding(mesh, P("x", "y"))
        words = np.arange(4, dtype=np.uint32)
        for spec in (P("x"), P("y", "x")):
            key, bits = wrap(lambda k, spec=spec: lax.rng_bit_generator(k, (4, 8), out_sharding=spec))(words)
            assert key.sharding.is_fully_replicated and bits.sharding == NamedSharding(mesh, P(*spec, *[None] * (2 - len(spec))))
        key, _ = wrap(lambda k: lax.rng_bit_generator(k, (4, 8), out_sharding=P("x")))(xf.device_put(words, P("x")))
        assert key.sharding == NamedSharding(mesh, P("x"))
        made = wrap(lambda: xf.nn.initializers.constant(-7)(xf.random.key(0), (8, 2), np.float32, out_sharding=P("x")))()
        assert made.sharding == NamedSharding(mesh, P("x", None))


# Explicit shardings under vmap: equations traced earlier are over the meshes of their own context


def test_functions_of_out_sharding_under_vmap():
    with xf.set_mesh(mesh_of(2, 2)):
        a, b = np.arange(16.0).reshape(4, 2, 2), np.arange(16.0).reshape(2, 4, 2)
        over_a, over_b = xf.device_put(a, P("x", None, "y")), xf.device_put(b, P(None, "x", "y"))
        product = xf.vmap(lambda x, y: xnp.einsum("xy,yz->xz", x, y, out_sharding=P(None, "y")), (0, 1), 2)
        for f in (product, xf.jit(product)):
            assert f(over_a, over_b).sharding.spec == P(None, "y", "x")
            np.testing.assert_allclose(f(over_a, over_b), np.einsum("bxy,ybz->xzb", a, b))
        rows, at = xf.device_put(a.astype("f"), P("x", "y")), xf.device_put(np.ones((4, 2, 2), int), P("x", "y"))
        taken = xf.jit(xf.vmap(lambda x, i: x.at[i].get(out_sharding=P("y", None))))(rows, at)
        assert taken.sharding.spec == P("x", "y", None, None) and np.array_equal(taken, a[:, [[1, 1], [1, 1]]])


def test_updates_of_full_sharded_dimensions_under_vmap():
    with xf.set_mesh(mesh_of(2, 2)):
        arrays, at = xf.device_put(np.zeros((2, 10, 8)), P("x", None, "y")), xf.device_put(np.array([2, 3]), P("x"))
        updates, expected = xf.device_put(np.ones((2, 8)), P("x", "y")), np.zeros((2, 10, 8))
        expected[[0, 1], [2, 3]] = 1
        found = xf.jit(xf.vmap(lambda x, i, y: lax.dynamic_update_slice_in_dim(x, y[None], i, axis=0)))(arrays, at, updates)
        assert found.sharding.spec == P("x", None, "y") and np.array_equal(found, expected)


def test_explicit_axes_under_vmap():
    mesh = mesh_of(2, 2, types=AxisType.Auto)

    def f(x, y):
        multiply = xf.sharding.explicit_axes(lambda a, b: xf.sharding.reshard(a, P()) * b, in_sharding=(P("y"), P("y")))
        return multiply(x, y)

    with xf.set_mesh(mesh):
        x = np.arange(16).reshape(2, 8)
        assert np.array_equal(xf.jit(xf.vmap(f, spmd_axis_name="x"))(x, x), x * x)


def test_jaxprs_with_other_meshes_run_as_functions():
    mesh = mesh_of(2, 2)

    def f(x):
        with use_abstract_mesh(mesh.abstract_mesh.update_axis_types({"x": AxisType.Auto, "y": AxisType.Auto})):
            y = xnp.sin(xf.sharding.reshard(x, P(None, None)))
        return xf.sharding.reshard(y, P("x", None))

    with xf.set_mesh(mesh):
        x = xf.device_put(X, P("x", "y"))
        [result] = xf.extend.core.jaxpr_as_fun(xf.jit(f).trace(x).jaxpr)(x)
        assert result.sharding == NamedSharding(mesh, P("x", None))
        np.testing.assert_allclose(result, np.sin(X), rtol=1e-6)
        auto = xf.device_put(X, NamedSharding(mesh_of(2, 2, types=AxisType.Auto), P("x")))
        with pytest.raises(ValueError, match="should match"):  # not an equation traced earlier
            xnp.sin(auto)


# Programs over abstract meshes


def partitions(lowered):
    return int(lowered.as_text().partition("num_partitions = ")[2].partition(" ")[0])


def test_programs_are_lowered_for_the_abstract_mesh_of_their_types():
    def lower(f, *args):
        return xf.jit(f).trace(*args).lower(lowering_platforms=("tpu",))

    plain = xf.ShapeDtypeStruct((8, 2), "float32")
    for types, count in ((AxisType.Explicit, 2), (AxisType.Auto, 1)):
        with use_abstract_mesh(AbstractMesh((2,), ("x",), (types,))):
            assert partitions(lower(lambda x: x * 2, plain)) == count
            assert xf.export.export(xf.jit(lambda x: x * 2))(plain).nr_devices == count
    over_x, over_y = (xf.ShapeDtypeStruct((8, 2), "float32", sharding=NamedSharding(
        AbstractMesh((2,), (n,), (AxisType.Auto,)), P(n))) for n in "xy")
    assert partitions(lower(lambda x, y: x * y, over_x, over_y)) == 2


def test_in_shardings_over_abstract_meshes_are_over_the_devices_in_context():
    mesh = mesh_of(2, types=AxisType.Auto)
    rows = NamedSharding(mesh.abstract_mesh, P("x"))
    for options in ({"in_shardings": rows}, {"out_shardings": rows}, {"in_shardings": rows, "out_shardings": rows}):
        double = xf.jit(lambda x: x * 2, **options)
        with xf.set_mesh(mesh):
            assert double(np.ones(4)).sharding == NamedSharding(mesh, P("x"))
            assert double.lower(xf.ShapeDtypeStruct((4,), "float32")).compile()(np.ones(4, "f")).tolist() == [2] * 4
    with pytest.raises(ValueError, match="AbstractMesh"):
        double(np.ones(4))


# Constraints within a shard_map of some axes


def test_constraints_over_the_outer_mesh_of_an_unchecked_shard_map():
    mesh, x = mesh_of(4, 2, types=AxisType.Auto), np.arange(8.0)

    def shifted(spec, manual, check=False):
        def body(x):
            x = lax.with_sharding_constraint(x, NamedSharding(mesh, spec))
            return lax.ppermute(x, "x", [(0, 1), (1, 2), (2, 3), (3, 0)])

        return xf.jit(xf.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=check, axis_names=manual))(x)

    for spec, manual in ((P("y"), {"x"}), (P(), {"x"}), (P(), {"x", "y"})):
        assert np.array_equal(shifted(spec, manual), np.roll(x, 2))
    for spec, manual, check in ((P("x"), {"x"}, False), (P("y"), {"x", "y"}, False), (P("y"), {"x"}, True)):
        with pytest.raises(ValueError, match="Manual"):
            shifted(spec, manual, check)


# Derivatives across meshes


def test_tangents_of_pullbacks_across_meshes():
    first, second = (xf.sharding.Mesh(np.array(devices), ("x",)) for devices in (xf.devices()[:4], xf.devices()[4:8]))

    def f(x):
        moved = xf.device_put(xf.jit(lambda x: x**2)(x), NamedSharding(second, P("x")))
        return xf.jit(lambda x: x * 3)(moved).sum()

    def pulled(x):
        y, pull = xf.vjp(f, x)
        return pull(y)[0]

    values = np.arange(4.0)
    x = xf.device_put(values, NamedSharding(first, P("x")))
    y, t = xf.jvp(pulled, (x,), (x,))  # y = 3 sum(x^2) 6 x
    np.testing.assert_allclose(y, 18 * (values**2).sum() * values)
    np.testing.assert_allclose(t, 3 * 18 * (values**2).sum() * values)


# Carries and branches without a mesh


@pytest.mark.parametrize("wrap", [lambda f: f, xf.jit])
@pytest.mark.parametrize("start", [lambda: np.zeros((8, 2), np.float32), lambda: xnp.zeros((8, 2))])
def test_values_without_a_mesh_are_sharded_as_those_that_they_become(wrap, start):
    """As in JAX; over a mesh in context, arrays have a sharding, and other ones are refused."""
    mesh = mesh_of(2, 2)
    x = xf.device_put(np.ones((8, 2), np.float32), NamedSharding(mesh, P("x", None)))
    loops = [
        lambda x: lax.scan(lambda c, _: (c + x, None), start(), None, length=3)[0],
        lambda x: lax.fori_loop(0, 3, lambda i, c: c + x, start()),
        lambda x: lax.while_loop(lambda c: c[1] < 3, lambda c: (c[0] + x, c[1] + 1), (start(), 0))[0],
        lambda x: lax.scan(lambda c, _: ((c[0] + c[1], x), None), (start(), start()), None, length=4)[0][0],
    ]
    branches = [lambda x: lax.cond(x.sum() > 0, lambda x: 3 * x, lambda x: start(), x),
                lambda x: lax.switch(2, [lambda x: x, lambda x: start(), lambda x: x * 3], x)]
    for f in loops + branches:
        result = wrap(f)(x)
        assert result.sharding == x.sharding and np.array_equal(result, np.full((8, 2), 3))
    assert np.array_equal(wrap(xf.grad(lambda x: loops[0](x).sum()))(x), np.full((8, 2), 3))
    with xf.set_mesh(mesh):
        if type(start()) is np.ndarray:
            assert wrap(loops[0])(x).sharding == x.sharding
        else:
            for f in loops + branches:
                with pytest.raises(TypeError, match="equal"):
                    wrap(f)(x)


# Compiled functions


def test_functions_compiled_for_a_device_take_arrays_of_others():
    first, second = xf.devices()[:2]
    mesh = mesh_of(2, types=AxisType.Auto)
    shardings = (first, NamedSharding(mesh, P("x")), NamedSharding(mesh, P()))
    struct = xf.ShapeDtypeStruct(X.shape, X.dtype)
    with pytest.warns(DeprecationWarning, match="device argument"):
        transfers = xf.jit(lambda x: x * 2, device=second).lower(struct).compile()
    refuses = xf.jit(lambda x: x * 2, in_shardings=xf.sharding.SingleDeviceSharding(second)).lower(struct).compile()
    for sharding in shardings:
        x = xf.device_put(X, sharding)
        assert transfers(x).devices() == {second} and np.array_equal(transfers(x), 2 * X)
        with pytest.raises(ValueError, match="compiled for its argument"):
            refuses(x)


# Names


@pytest.mark.parametrize("name", ["β", "é b", 'quo"te', "back\\slash", "100%", "two\nlines"])
def test_axis_names_of_any_characters(name):
    """XLA ends the process for names that are not ASCII."""
    mesh = xf.make_mesh((2,), (name,), axis_types=(AxisType.Auto,))
    x = xf.device_put(np.arange(4.0, dtype=np.float32), NamedSharding(mesh, P(name)))
    doubled = xf.jit(lambda x: x * 2)(x)
    assert doubled.tolist() == [0, 2, 4, 6] and doubled.sharding.spec == P(name)
    total = xf.shard_map(lambda x: lax.psum(x, name), mesh=mesh, in_specs=P(name), out_specs=P())
    assert xf.jit(total)(x).tolist() == [2, 4]
    assert xf.pmap(lambda x: lax.psum(x, name), axis_name=name)(np.float32([1, 2])).tolist() == [3, 3]
