"""Exported functions over meshes of devices: required shardings, and calls in programs over meshes."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import export, lax
from xlafront.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec as P

pytestmark = pytest.mark.cpu_only

X = np.arange(8, dtype=np.float32)
DEVICES = np.array(xf.devices()[:4])
MESH, BACKWARDS = Mesh(DEVICES, ("a",)), Mesh(DEVICES[::-1], ("a",))
SPLIT = NamedSharding(MESH, P("a"))


@pytest.fixture(scope="module")
def summed():
    """Return a function with communication: element i of the result is the sum of its column, times the device's number."""
    body = xf.shard_map(lambda x: lax.psum(x, "a") * lax.axis_index("a"), mesh=MESH, in_specs=P("a"), out_specs=P("a"))
    exported = export.export(xf.jit(body, in_shardings=SPLIT, out_shardings=SPLIT))(xf.ShapeDtypeStruct((8,), "float32"))
    return export.deserialize(exported.serialize(vjp_order=1))


EXPECTED = np.tile(X.reshape(4, 2).sum(0), 4) * np.repeat(np.arange(4), 2)


def test_over_other_devices(summed):
    assert summed.nr_devices == 4
    [sharding] = summed.in_shardings_jax(BACKWARDS)
    assert sharding == NamedSharding(BACKWARDS, P("a")) and summed.out_shardings_jax(MESH) == (SPLIT,)
    assert summed._in_named_shardings[0].mesh == AbstractMesh((4,), ("a",), (AxisType.Auto,))
    assert [str(s) for s in summed.in_shardings_hlo + summed.out_shardings_hlo] == ["{devices=[4]<=[4]}"] * 2
    x = xf.device_put(X, sharding)
    found = summed.call(x)
    np.testing.assert_array_equal(found, EXPECTED)
    assert [s.device for s in found.addressable_shards] == list(DEVICES[::-1])
    # among collectives of the caller's, and twice
    inner = xf.shard_map(lambda x: lax.psum(x, "a"), mesh=BACKWARDS, in_specs=P("a"), out_specs=P())
    np.testing.assert_array_equal(xf.jit(lambda x: summed.call(x) + summed.call(2 * x) + inner(x).sum())(x), 3 * EXPECTED + 28)
    weights = np.arange(8, dtype=np.float32)
    derivative = xf.grad(lambda x: (summed.call(x) * weights).sum())(x)
    np.testing.assert_array_equal(derivative, np.tile((weights * np.repeat(np.arange(4), 2)).reshape(4, 2).sum(0), 4))


def test_wrong_devices_and_meshes(summed):
    with pytest.raises(ValueError, match="exported for 4 devices, and is called in a program on 1"):
        summed.call(X)
    two = Mesh(DEVICES[:2], ("a",))
    with pytest.raises(ValueError, match="exported for 4 devices, and is called in a program on 2"):
        summed.call(xf.device_put(X, NamedSharding(two, P("a"))))
    for mesh in (two, Mesh(DEVICES.reshape(2, 2), ("a", "b")), Mesh(DEVICES, ("z",))):
        with pytest.raises(ValueError, match="does not match"):
            summed.in_shardings_jax(mesh)


def test_for_one_device_among_many():
    exported = export.export(xf.jit(xnp.sin))(xf.ShapeDtypeStruct((2,), "float32"))
    assert exported.nr_devices == 1 and exported.in_shardings_jax(MESH) == (None,)
    np.testing.assert_allclose(exported.call(xf.device_put(X[:2], NamedSharding(MESH, P()))), np.sin(X[:2]), rtol=1e-6)
    mapped = xf.shard_map(exported.call, mesh=MESH, in_specs=P("a"), out_specs=P("a"))
    np.testing.assert_allclose(mapped(X), np.sin(X), rtol=1e-6)
    np.testing.assert_allclose(xf.grad(lambda x: mapped(x).sum())(X), np.cos(X), rtol=1e-6)


def test_shardings_by_arguments_and_over_abstract_meshes():
    double = xf.jit(lambda x: 2 * x)
    for sharding in (SPLIT, NamedSharding(AbstractMesh((4,), ("a",)), P("a"))):
        exported = export.export(double)(xf.ShapeDtypeStruct((8,), "float32", sharding=sharding))
        assert exported.nr_devices == 4 and exported.in_shardings_jax(MESH) == (SPLIT,)
    np.testing.assert_array_equal(xf.jit(exported.call, in_shardings=SPLIT)(X), 2 * X)


def test_over_more_devices_than_available():
    mesh = AbstractMesh((64, 2), ("a", "b"))
    body = xf.shard_map(lambda x: lax.psum(x, "b") + lax.axis_index("a"), mesh=mesh, in_specs=P("a", "b"), out_specs=P("a"))
    shape = xf.ShapeDtypeStruct((128, 4), "float32", sharding=NamedSharding(mesh, P("a", "b")))
    exported = export.export(xf.jit(body), platforms=("tpu", "cuda"))(shape)
    assert exported.nr_devices == 128 and exported._in_named_shardings[0].mesh == mesh
    text = exported.mlir_module()
    assert '<["a"=64, "b"=2]>' in text and "tensor<64x2xi64>" in text  # the groups of the sum
    assert export.deserialize(exported.serialize(vjp_order=1)).vjp().nr_devices == 128


def test_explicit_axes():
    mesh = Mesh(DEVICES, ("a",), axis_types=(AxisType.Explicit,))
    with xf.set_mesh(mesh):
        x = xf.device_put(X, NamedSharding(mesh, P("a")))
        exported = export.deserialize(export.export(xf.jit(lambda x: xnp.sin(x) * 2))(x).serialize(vjp_order=1))
        assert str(exported.in_avals[0]) == str(exported.out_avals[0]) == "float32[8@a]"
        assert xf.typeof(exported.call(x)).sharding.spec == P("a")
        np.testing.assert_allclose(xf.jit(lambda x: exported.call(x) + x)(x), 2 * np.sin(X) + X, rtol=1e-6)
        np.testing.assert_allclose(xf.grad(lambda x: exported.call(x).sum())(x), 2 * np.cos(X), rtol=1e-5)


def test_symbolic_dimensions():
    shape = xf.ShapeDtypeStruct(export.symbolic_shape("4*b"), "float32")
    exported = export.export(xf.jit(lambda x: xnp.sin(x), in_shardings=SPLIT, out_shardings=SPLIT))(shape)
    for size in (4, 8):
        found = export.deserialize(exported.serialize()).call(xf.device_put(X[:size], SPLIT))
        np.testing.assert_allclose(found, np.sin(X[:size]), rtol=1e-6)
        assert found.sharding == SPLIT
