"""Arrays over several devices, and programs on them."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import NamedSharding, P

pytestmark = pytest.mark.cpu_only

A = np.arange(32, dtype=np.float32).reshape(8, 4)


@pytest.fixture
def mesh():
    return xf.make_mesh((4, 2), ("x", "y"), (xf.sharding.AxisType.Auto,) * 2)


@pytest.mark.parametrize(
    "spec", [P(), P("x"), P(None, "y"), P("x", "y"), P(("x", "y")), P("y", "x"), P(None, ("y",))], ids=str
)
def test_placing_and_reading(mesh, spec):
    sharding = NamedSharding(mesh, spec)
    x = xf.device_put(A, sharding)
    assert x.sharding == sharding and len(x.addressable_shards) == 8 and x.is_fully_replicated == (spec == P())
    np.testing.assert_array_equal(np.asarray(x), A)
    for shard in x.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), A[shard.index])
        assert shard.data.shape == sharding.shard_shape(A.shape)
    np.testing.assert_array_equal(np.asarray(x + 1), A + 1)
    np.testing.assert_array_equal(np.asarray(xf.device_put(x, xf.devices()[5])), A)


def test_programs_follow_their_arguments(mesh):
    x = xf.device_put(A, NamedSharding(mesh, P("x")))
    w = xf.device_put(A.T.copy(), NamedSharding(mesh, P()))
    out = xf.jit(lambda x, w: xnp.tanh(x / 9) @ w)(x, w)
    np.testing.assert_allclose(np.asarray(out), np.tanh(A / 9) @ A.T, rtol=1e-4)
    assert out.sharding.is_equivalent_to(NamedSharding(mesh, P("x")), 2)
    total = xf.jit(lambda x: xnp.sum(x, axis=0))(x)
    np.testing.assert_allclose(np.asarray(total), A.sum(0))
    assert xf.jit(lambda x: xnp.sum(x))(x) == A.sum()


def test_requested_shardings(mesh):
    f = xf.jit(
        lambda x: x * 2, in_shardings=NamedSharding(mesh, P("x")), out_shardings=NamedSharding(mesh, P(None, "y"))
    )
    out = f(A)
    assert out.sharding == NamedSharding(mesh, P(None, "y")) and out.tolist() == (2 * A).tolist()
    tree = xf.jit(lambda t: t, out_shardings={"a": NamedSharding(mesh, P("y")), "b": NamedSharding(mesh, P())})(
        {"a": A, "b": A}
    )
    assert tree["a"].sharding.spec == P("y") and tree["b"].is_fully_replicated
    inside = xf.jit(lambda x: xf.lax.with_sharding_constraint(x * 3, NamedSharding(mesh, P("x", "y"))))(A)
    assert inside.sharding.is_equivalent_to(NamedSharding(mesh, P("x", "y")), 2) and inside.tolist() == (3 * A).tolist()
    with xf.set_mesh(mesh):
        assert xf.jit(lambda x: xf.lax.with_sharding_constraint(x, P("x")))(A).tolist() == A.tolist()


def test_a_function_follows_the_active_mesh(mesh):
    """The same call under another mesh is another program; outside of any mesh C++ repeats the first one."""
    split = xf.jit(lambda x: xf.lax.with_sharding_constraint(x * 2, P("x")))
    calls = []
    other = xf.make_mesh((2, 4), ("x", "y"), (xf.sharding.AxisType.Auto,) * 2)
    for each in (mesh, other, mesh):
        with xf.set_mesh(each):
            out = split(A)
        assert out.sharding.is_equivalent_to(NamedSharding(each, P("x")), 2) and out.tolist() == (2 * A).tolist()
    plain = xf.jit(lambda x: calls.append(1) or x + 1)
    plain(A)
    with xf.set_mesh(mesh):
        assert plain(A).tolist() == (A + 1).tolist()
    plain(A)
    assert len(calls) == 2  # traced once for each context


def test_data_parallel_training_equals_training_on_one_device(mesh):
    def loss(w, x, y):
        return xnp.mean((xnp.tanh(x @ w) - y) ** 2)

    step = xf.jit(lambda w, x, y: w - 0.1 * xf.grad(loss)(w, x, y))
    rng = np.random.default_rng(0)
    w, x, y = (rng.normal(size=s).astype(np.float32) for s in ((4, 3), (16, 4), (16, 3)))
    one, many = w, xf.device_put(w, NamedSharding(mesh, P()))
    batch = xf.device_put((x, y), NamedSharding(mesh, P(("x", "y"))))
    for _ in range(3):
        one, many = step(one, x, y), step(many, *batch)
    np.testing.assert_allclose(np.asarray(many), np.asarray(one), rtol=1e-5, atol=1e-6)
    assert len(many.sharding.device_set) == 8


def test_donation_of_sharded_arrays(mesh):
    x = xf.device_put(A, NamedSharding(mesh, P("x")))
    out = xf.jit(lambda x: x + 1, donate_argnums=0)(x)
    assert x.is_deleted() and out.tolist() == (A + 1).tolist()


def test_arrays_from_shards(mesh):
    sharding = NamedSharding(mesh, P("x"))
    calls = []
    made = xf.make_array_from_callback((8, 4), sharding, lambda index: calls.append(index) or A[index])
    assert made.tolist() == A.tolist() and len(calls) == 4  # equal shards are requested once
    shards = [xf.device_put(A[index], d) for d, index in sharding.addressable_devices_indices_map((8, 4)).items()]
    assert xf.make_array_from_single_device_arrays((8, 4), sharding, shards).tolist() == A.tolist()
    assert xf.make_array_from_single_device_arrays((8, 4), sharding, shards[::-1]).tolist() == A.tolist()
    assert xf.make_array_from_process_local_data(sharding, A).tolist() == A.tolist()
    with pytest.raises(ValueError, match=r"\(2, 4\)"):
        xf.make_array_from_single_device_arrays((8, 4), sharding, [xf.device_put(A, d) for d in xf.devices()])
    with pytest.raises(ValueError, match="8 devices"):
        xf.make_array_from_single_device_arrays((8, 4), sharding, shards[:3])
    with pytest.raises(ValueError, match=r"\(2, 4\)"):
        xf.make_array_from_callback((8, 4), sharding, lambda index: A)


def test_transfers_of_pytrees(mesh):
    tree = {"a": A, "b": [1.0, np.arange(8)]}
    placed = xf.device_put(tree, NamedSharding(mesh, P()))
    assert xf.device_get(placed)["b"][1].tolist() == list(range(8)) and isinstance(
        xf.device_get(placed)["a"], np.ndarray
    )
    mixed = xf.device_put(tree, {"a": NamedSharding(mesh, P("x")), "b": xf.devices()[2]})
    assert mixed["a"].sharding.spec == P("x") and mixed["b"][0].devices() == {xf.devices()[2]}
    assert xf.block_until_ready(placed) is placed
    xf.copy_to_host_async(placed)
    x = xnp.ones(3)
    assert any(a is x for a in xf.live_arrays()) and xf.device_put(x) is x


def test_keys_over_devices(mesh):
    keys = xf.device_put(xf.random.split(xf.random.key(0), 8), NamedSharding(mesh, P("x")))
    out = xf.jit(xf.vmap(lambda k: xf.random.normal(k, (2,))))(keys)
    np.testing.assert_allclose(
        np.asarray(out), np.stack([xf.random.normal(k, (2,)) for k in xf.random.split(xf.random.key(0), 8)]), rtol=1e-6
    )


def test_meshes_and_specs(mesh):
    assert (
        mesh.shape == {"x": 4, "y": 2}
        and mesh.size == 8
        and mesh.axis_names == ("x", "y")
        and mesh == xf.make_mesh((4, 2), ("x", "y"), mesh.axis_types)
    )
    assert P("x", None) != P("x") and P(("x",)) == P("x") and P("x") != P("y") and hash(P(["x"])) == hash(P("x"))
    assert "'x': 4, 'y': 2" in str(mesh) and repr(P("x", None)) == "P('x', None)"
    with pytest.raises(ValueError, match="twice"):
        NamedSharding(mesh, P("x", "x"))
    with pytest.raises(ValueError, match="names"):
        xf.make_mesh((8,), ("a", "b"))
    with pytest.raises(ValueError, match="2 entries.*only valid for arrays of rank at least 2"):
        xf.device_put(np.ones(8), NamedSharding(mesh, P("x", "y")))


def test_devices():
    assert xf.device_count() == xf.local_device_count() == len(xf.devices()) == 8 and xf.default_backend() == "cpu"
    assert xf.process_index() == 0 and xf.process_count() == 1 and xf.local_devices() == xf.devices("cpu")
    info = xf.print_environment_info(return_string=True).splitlines()
    assert len(xf.devices()) == 8 and {"jaxlib", "numpy", "python", "device info", "process_count", "platform"} <= {
        line.split(":")[0] for line in info}


def test_donated_arrays_over_several_devices_used_again():
    """An error, in every way to call: not the end of the process."""
    sharding = xf.NamedSharding(xf.sharding.Mesh(np.array(xf.devices()), ("x",)), xf.P("x"))

    def fresh():
        return xf.device_put(xnp.arange(8.0), sharding)

    donating, plain = xf.jit(lambda x: x + 1, donate_argnums=0), xf.jit(lambda x: x * 2)
    compiled = xf.jit(lambda x: x - 1, donate_argnums=0).lower(fresh()).compile()
    mapped = xf.pmap(lambda x: x + 2, donate_argnums=0)
    calls = (donating, plain, lambda x: x + 1, compiled, mapped)
    for _ in range(3):  # the fast paths
        for call in calls:
            call(fresh())
    for consume in (donating, compiled, mapped):
        x = fresh()
        consume(x)
        for call in calls:
            with pytest.raises((RuntimeError, ValueError), match="deleted"):
                call(x)
