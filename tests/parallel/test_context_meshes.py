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
