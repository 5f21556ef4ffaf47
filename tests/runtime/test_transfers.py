"""Transfers between shardings: values are preserved, only missing pieces are copied, and donation is respected."""

import itertools

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import NamedSharding, P
from xlafront.experimental.layout import Format, Layout
from xlafront.runtime import transfers
from xlafront.sharding import Mesh, SingleDeviceSharding

pytestmark = pytest.mark.cpu_only

A = np.arange(96, dtype=np.float32).reshape(12, 8)
D = np.resize(xf.devices(), 8)  # off the CPU, where these tests are only collected, there may be fewer


def over(devices, shape, *spec, kind=None):
    return NamedSharding(Mesh(devices.reshape(shape), ("x", "y")[: len(shape)]), P(*spec), memory_kind=kind)


SHARDINGS = {
    "one": SingleDeviceSharding(D[0]), "other": SingleDeviceSharding(D[5]), "rows": over(D, (4, 2), "x"),
    "columns": over(D, (4, 2), None, "y"), "tiles": over(D, (4, 2), "x", "y"), "whole": over(D, (4, 2)),
    "reversed": over(D[::-1], (4, 2), "x"), "shuffled": over(D[[3, 1, 0, 2, 7, 5, 4, 6]], (4, 2), "y", "x"),
    "first half": over(D[:4], (4,), "x"), "second half": over(D[4:], (4,), None, "x"), "three": over(D[2:5], (3,), "x"),
    "six": over(D[:6], (3, 2), "x", "y"), "two": over(D[6:], (2,), "x"), "host": over(D, (4, 2), "x", kind="pinned_host"),
    "host columns": over(D[:4], (4,), None, "x", kind="pinned_host"),
}  # fmt: skip


@pytest.mark.parametrize("on_devices", [False, True], ids=["host memory", "device memory"])
def test_transfers_between_all_shardings(on_devices, monkeypatch):
    """Run also as on accelerators, whose buffers the host cannot slice."""
    if on_devices:
        monkeypatch.setattr(transfers, "shares_memory", lambda platform: False)
    names = ["one", "rows", "tiles", "shuffled", "second half", "three", "host"] if on_devices else list(SHARDINGS)
    for here, there in itertools.product(names, names):
        x = xf.device_put(A, SHARDINGS[here])
        y = xf.device_put(x, SHARDINGS[there])
        assert y.sharding == SHARDINGS[there] and y.committed and (y.shape, y.dtype, y.weak_type) == (x.shape, x.dtype, x.weak_type), (here, there)
        assert x._npy_value is None, f"{here} to {there} went through the host"
        np.testing.assert_array_equal(np.asarray(y), A, err_msg=f"{here} to {there}")
        for shard in y.addressable_shards:
            np.testing.assert_array_equal(np.asarray(shard.data), A[shard.index])
        assert (y + 1).tolist() == (A + 1).tolist() and np.asarray(x).tolist() == A.tolist()


def test_pytrees_are_transferred_together():
    xs = {name: xf.device_put(A + i, place) for i, (name, place) in enumerate(SHARDINGS.items())}
    for target in SHARDINGS.values():
        moved = xf.device_put(xs, target)
        for i, name in enumerate(SHARDINGS):
            assert moved[name].sharding == target and moved[name].tolist() == (A + i).tolist(), name


@pytest.mark.parametrize("shape", [(0, 8), (12, 0), (12, 8, 3), (24, 8), (12, 16)])
@pytest.mark.parametrize("dtype", ["bool", "int8", "bfloat16", "complex64", "int4"])
def test_shapes_and_dtypes(shape, dtype):
    values = xnp.asarray(np.arange(np.prod(shape)).reshape(shape) % 7).astype(dtype)
    x = xf.device_put(values, SHARDINGS["rows"])
    for name in ("tiles", "six", "one", "second half"):
        x = xf.device_put(x, SHARDINGS[name])
        assert x.dtype == values.dtype and xnp.array_equal(x, xf.device_put(values, SHARDINGS[name])), name


def test_scalars_and_keys():
    scalar = xf.device_put(xf.device_put(3.0, over(D, (8,))), SingleDeviceSharding(D[3]))
    assert scalar == 3 and scalar.weak_type
    key = xf.random.split(xf.random.key(1), 8)
    sharded = xf.device_put(key, over(D, (4, 2), "x"))
    transferred = xf.device_put(xf.device_put(sharded, over(D[:2], (2,), "x")), over(D, (4, 2), ("x", "y")))
    np.testing.assert_array_equal(xf.random.key_data(transferred), xf.random.key_data(key))
    assert transferred.sharding == over(D, (4, 2), ("x", "y"))


def addresses(x):
    return [s.data.unsafe_buffer_pointer() for s in x.addressable_shards]


def test_memory_is_shared_or_not():
    x = xf.device_put(A, SHARDINGS["rows"])
    same = NamedSharding(x.sharding.mesh, P("x", None))
    assert xf.device_put(x, x.sharding) is x and addresses(xf.device_put(x, same)) == addresses(x)
    for target in (None, x.sharding, same):
        assert not set(addresses(xf.device_put(x, target, may_alias=False))) & set(addresses(x))
    for target in (xf.memory.Space.Device, Format(None, x.sharding), x.format):
        y = xf.device_put(x, target, may_alias=False)
        assert y.sharding == x.sharding and not set(addresses(y)) & set(addresses(x)) and y.tolist() == A.tolist()
    first, second = xf.device_put([x, x], x.sharding, may_alias=[False, None])
    assert addresses(first) != addresses(x) == addresses(second)
    mine = transfers.aligned_empty((1 << 16,), np.dtype(np.float32))
    mine[:] = 1
    y = xf.device_put(mine)
    mine[:] = 2
    assert y[0] == 1


@pytest.mark.parametrize("there", ["other", "columns", "reversed", "second half", "host", "first half", "one", "whole", "rows"])
@pytest.mark.parametrize("here", ["one", "rows", "whole"])
@pytest.mark.parametrize("on_devices", [False, True], ids=["host memory", "device memory"])
def test_donation(here, there, on_devices, monkeypatch):
    if here == there:
        return
    if on_devices:
        monkeypatch.setattr(transfers, "shares_memory", lambda platform: False)
    x = xf.device_put(A, SHARDINGS[here]) * 1
    y = xf.device_put(x, SHARDINGS[there], donate=True)
    junk = [xf.block_until_ready(xnp.full(A.shape, -1.0)) for _ in range(4)]
    assert x.is_deleted() and not y.is_deleted() and y.tolist() == A.tolist() and len(junk) == 4


def test_donation_to_another_order():
    for place in (SHARDINGS["one"], SHARDINGS["other"]):
        x = xf.device_put(A, SHARDINGS["one"]) * 1
        y = xf.device_put(x, Format(Layout((1, 0)), place), donate=True)
        assert x.is_deleted() and y.sharding == place and y.format.layout.major_to_minor == (1, 0) and y.tolist() == A.tolist()


def test_donation_without_transfer():
    x = xf.device_put(A, SHARDINGS["rows"])
    for target in (None, x.sharding, NamedSharding(x.sharding.mesh, P("x", None))):
        y = xf.device_put(x, target, donate=True)
        assert y.tolist() == A.tolist() and not y.is_deleted()
    original, donated = xf.device_put([x, x * 1], SHARDINGS["columns"], donate=[False, True])
    assert original.tolist() == donated.tolist() == A.tolist() and not x.is_deleted()
    with pytest.raises(ValueError, match="may_alias"):
        xf.device_put(x, SHARDINGS["one"], donate=True, may_alias=True)
    with pytest.raises(ValueError, match="donate"):
        xf.device_put([x], SHARDINGS["one"], donate=[True, False])
    x.delete()
    for target in ("one", "columns", "second half"):
        with pytest.raises(RuntimeError, match="deleted"):
            xf.device_put(x, SHARDINGS[target])
        with pytest.raises(RuntimeError, match="deleted"):
            xf.device_put([x, x], SHARDINGS[target])


def test_transfers_copy_only_missing_pieces():
    """A plan lists for each buffer of the target the pieces that it overlaps, once, and none that is already on its device."""
    for here, there in itertools.permutations([p for p in SHARDINGS.values() if p.memory_kind != "pinned_host"], 2):
        steps = transfers.plan(here, there, A.shape)
        held = here.addressable_devices_indices_map(A.shape)
        for device, pieces in zip(steps.devices, steps.pieces):
            covered = sum(int(np.prod(p.shape)) for p in pieces)
            assert covered == np.prod(steps.shape)
            if held.get(device) == there.addressable_devices_indices_map(A.shape)[device]:
                assert [list(held)[p.source] for p in pieces] == [device]


# Under transformations


def test_constraints_of_batches():
    """Elements that `vmap` shards over mesh axes stay so; otherwise the compiler chooses the sharding."""
    mesh = SHARDINGS["rows"].mesh  # x: 4, y: 2

    def constrained(x):
        return xf.lax.with_sharding_constraint(x, NamedSharding(mesh, P("y")))

    mapped = xf.vmap(constrained, spmd_axis_name="x")
    for call in (mapped, xf.jit(mapped), xf.vmap(xf.jit(lambda x: x + 0, out_shardings=NamedSharding(mesh, P("y"))), spmd_axis_name="x")):
        assert call(A).sharding.is_equivalent_to(SHARDINGS["tiles"], 2) and call(A).tolist() == A.tolist()
    turned = xf.jit(xf.vmap(constrained, 1, 1, spmd_axis_name="x"))(A.T[:, :12])
    assert turned.sharding.is_equivalent_to(NamedSharding(mesh, P("y", "x")), 2)
    both = xf.jit(xf.vmap(lambda x: xf.lax.with_sharding_constraint(x, NamedSharding(mesh, P())), spmd_axis_name=("x", "y")))
    assert both(A[:8]).sharding.is_equivalent_to(NamedSharding(mesh, P(("x", "y"))), 2)
    assert xf.vmap(constrained)(A).sharding.spec == P(None, "y")
    with pytest.raises(ValueError, match="'y'.*cannot appear in the spec"):
        xf.vmap(constrained, spmd_axis_name="y")(A)
    with pytest.raises(ValueError, match="axis 'z'"):
        xf.vmap(constrained, spmd_axis_name="z")(A)
    with pytest.raises(ValueError, match="with_sharding_constraint.*None"):
        xf.lax.with_sharding_constraint([A, A], [SHARDINGS["rows"], None])


def test_device_put_of_batches():
    """Elements are transferred as one element would be, to the given memory."""
    for dim in (0, 1):
        assert xf.vmap(lambda x: xf.device_put(x, D[3]), dim, dim)(A).devices() == {D[3]}
        sharded = xf.vmap(lambda x: xf.device_put(x, over(D[:2], (2,), "x", kind="pinned_host")), dim, dim)(A)
        expected = over(D[:2], (2,), *([None, "x"] if dim == 0 else ["x", None]), kind="pinned_host")
        assert sharded.sharding.is_equivalent_to(expected, 2) and sharded.tolist() == A.tolist()


def test_layers_on_different_devices():
    """Gradients are on the devices of the parameters in every step; a compiled step stays on its devices."""
    x = xf.device_put(A[:4] / 96, D[0])

    def loss(layers, x):
        for i, w in enumerate(layers):
            x = xnp.sin(xf.device_put(x, D[i]) @ w)
        return xf.device_put(x, D[0]).sum()

    here = [np.full((8, 8), 0.1 * (i + 1), np.float32) for i in range(3)]
    expected = xf.grad(lambda ws: sum(xnp.sin(xnp.sin(xnp.sin(x @ ws[0]) @ ws[1]) @ ws[2]).reshape(-1)))(here)
    layers = [xf.device_put(w, d) for w, d in zip(here, D)]
    for _ in range(3):
        gradients = xf.grad(loss)(layers, x)
        assert [g.devices() for g in gradients] == [{d} for d in D[:3]]
        for g, e in zip(gradients, expected):
            np.testing.assert_allclose(g, e, rtol=1e-5)
        [w - g for w, g in zip(layers, gradients)]
    _, pullback = xf.vjp(lambda x: xf.device_put(x, SHARDINGS["columns"]), xf.device_put(A, SHARDINGS["rows"]))
    assert pullback(xf.device_put(A, SHARDINGS["columns"]))[0].sharding == SHARDINGS["rows"]
    for f in (lambda x: xf.device_put(x, D[1]), xf.grad(lambda x: (xf.device_put(x, D[1]) ** 2).sum())):
        assert xf.jit(f)(x).devices() == {D[0]}


# Programs, and what shardings answer


def test_nested_jit_keeps_its_shardings():
    """Shardings act as constraints, inside and outside of jit, under transformations and in loops."""
    rows, columns = SHARDINGS["rows"], SHARDINGS["columns"]
    x = xf.device_put(A, rows)

    def twice(x):
        return x * 2

    inner = xf.jit(twice, out_shardings=columns)
    loop = xf.jit(lambda x: xf.lax.scan(lambda c, _: (inner(c), None), x, None, length=2)[0])
    for f in (lambda x: inner(x), xf.jit(lambda x: xf.jit(twice, in_shardings=columns)(x)),
              xf.jit(lambda x: xf.jit(twice, out_shardings=columns, inline=True)(x))):
        assert xf.jit(f)(x).sharding.is_equivalent_to(columns, 2)
    assert loop(x).sharding.spec[1] == "y" and loop(x).tolist() == (4 * A).tolist()
    primal, tangent = xf.jvp(inner, (A,), (A,))
    assert primal.sharding.is_equivalent_to(columns, 2) and tangent.sharding.is_equivalent_to(columns, 2)
    by_row = xf.jit(twice, out_shardings=over(D, (4, 2), "y"))
    for call in (xf.vmap(by_row), xf.jit(xf.vmap(by_row))):
        assert call(A).sharding.is_equivalent_to(columns, 2) and call(A).tolist() == (2 * A).tolist()
    back = xf.jit(lambda x: x * x, in_shardings=rows, out_shardings=columns)
    for grad in (xf.grad(lambda x: back(x).sum()), xf.jit(xf.grad(lambda x: back(x).sum()))):
        assert grad(A).sharding.is_equivalent_to(rows, 2) and grad(A).tolist() == (2 * A).tolist()
    abstract = NamedSharding(rows.mesh.abstract_mesh, P(None, "y"))
    assert xf.jit(twice, out_shardings=abstract)(x).sharding.is_equivalent_to(columns, 2)
    assert xf.jit(lambda x: xf.lax.with_sharding_constraint(x, abstract))(x).sharding.is_equivalent_to(columns, 2)


def test_arguments_with_other_shardings():
    """One device to another, and the same shards in another order, are transferred; unused arguments may be anywhere."""
    x, one, other = (xf.device_put(A, SHARDINGS[name]) for name in ("rows", "one", "other"))
    assert xf.jit(lambda x: x + 1, in_shardings=SHARDINGS["other"])(one).sharding == SHARDINGS["other"]
    for _ in range(2):
        turned = xf.jit(lambda x: x + 1, in_shardings=SHARDINGS["reversed"])(x)
        assert turned.sharding == SHARDINGS["reversed"] and turned.tolist() == (A + 1).tolist()
    for pair in ((one, other), (x, one), (other, x)):
        first = xf.jit(lambda x, y: x * 1)
        for _ in range(2):
            assert first(*pair).sharding.is_equivalent_to(pair[0].sharding, 2) and first(*pair).tolist() == A.tolist()
    compiled = xf.jit(lambda x, y: x).lower(x, x).compile()
    assert compiled.input_shardings == ((x.sharding, None), {}) and compiled.output_shardings.is_equivalent_to(x.sharding, 2)
    assert compiled(A, one).sharding.is_equivalent_to(x.sharding, 2)
    assert xf.jit(lambda x: x, in_shardings=[SHARDINGS["rows"]])(A).sharding.spec == P("x")


def test_memories_of_results():
    """Results are in the requested memory, else in the one of their type."""
    host = xf.device_put(A, SHARDINGS["host"])
    assert xf.jit(lambda x: x + 1)(host).sharding.memory_kind == "pinned_host"
    there = xf.jit(lambda x: x + 1, out_shardings=SHARDINGS["columns"])(host)
    assert there.sharding == SHARDINGS["columns"] and there.tolist() == (A + 1).tolist()
    back = xf.jit(lambda x: {"a": x, "b": x * 2}, out_shardings={"a": SHARDINGS["host"], "b": None})(there)
    assert back["a"].sharding == SHARDINGS["host"] and back["b"].sharding.memory_kind == "device"


def test_memories_of_derivatives():
    """Derivatives are in the memory of the value, wherever the function transfers it: eagerly, in jit and in loops."""
    host, device = (xf.sharding.SingleDeviceSharding(D[0], memory_kind=kind) for kind in ("pinned_host", "device"))
    ws, x = xf.device_put(xnp.stack([A, A]), host), xnp.ones(A.shape)

    def of_loop(ws, target, wrap):
        return xnp.sum(xf.lax.scan(wrap(lambda x, w: (x * xf.device_put(w, target), None)), x, ws)[0])

    for target in (device, xf.memory.Space.Device):
        for wrap in (lambda f: f, xf.checkpoint):
            gradient = xf.grad(lambda ws: of_loop(ws, target, wrap))  # noqa: B023
            for f in (gradient, xf.jit(gradient)):
                found = f(ws)
                assert found.sharding.memory_kind == "pinned_host"
                assert xf.typeof(found).memory_space is xf.memory.Space.Host
                np.testing.assert_allclose(found, np.stack([A, A]))
        back = xf.jit(xf.grad(lambda x: xnp.sum(xf.device_put(x, target) ** 2)))  # noqa: B023
        assert back(xf.device_put(x, host)).sharding.memory_kind == "pinned_host"
        assert back(x).sharding.memory_kind == "device"
    there = xf.jit(xf.grad(lambda x: xnp.sum(xf.device_put(xf.device_put(x, host), device) ** 2)))
    assert there(x).sharding.memory_kind == "device" and there(x).tolist() == (2 * x).tolist()


def test_memories_under_transformations_outside_of_jit():
    """A transfer to a memory is executed where the operation runs, not only when it is compiled."""
    x = xnp.asarray(A, "float32")
    for space, kind in ((xf.memory.Space.Host, "pinned_host"), (xf.memory.Space.Device, "device")):
        there = lambda v: xf.device_put(v, space)  # noqa: B023, E731
        operand = xf.device_put(x, xf.sharding.SingleDeviceSharding(D[0], memory_kind="device" if kind != "device" else "pinned_host"))
        y, out_tangent = xf.jvp(there, (operand,), (operand,))
        z, pull = xf.vjp(there, operand)
        w, along = xf.linearize(there, operand)
        for found in (xf.vmap(there)(operand), y, out_tangent, z, w, along(operand)):
            assert found.sharding.memory_kind == kind
            np.testing.assert_array_equal(np.asarray(found), A)
        assert pull(z)[0].sharding.memory_kind == operand.sharding.memory_kind


def test_donation_in_jit():
    donating = xf.jit(lambda x, y: x + y, donate_argnums=0)
    for place in ("one", "rows"):
        for _ in range(2):
            y = xf.device_put(A, SHARDINGS[place]) * 1
            with pytest.raises(xf.errors.JaxRuntimeError, match=r"arguments x and y.*copy"):
                donating(y, y)
            z = xf.device_put(A, SHARDINGS[place]) * 1
            assert donating(z, z.copy()).tolist() == (2 * A).tolist() and z.is_deleted()


def test_attributes_of_deleted_arrays():
    for place in ("one", "rows"):
        x = xf.device_put(A, SHARDINGS[place]) * 1
        x.delete()
        x.delete()
        assert x.is_deleted() and x.shape == A.shape and x.sharding.is_equivalent_to(SHARDINGS[place], 2)
        assert x.format.layout is None
        for ask in ("is_ready", "platform", "block_until_ready", "copy", "tolist"):
            with pytest.raises(RuntimeError, match="deleted"):
                getattr(x, ask)()
        with pytest.raises(RuntimeError, match="deleted"):
            x.addressable_shards  # noqa: B018


@pytest.mark.parametrize("place", ["one", "rows"])
def test_transfers_of_deleted_arrays_raise(place):
    """The runtime reads the memory of any buffer it gets, so buffers of deleted arrays must not reach it."""
    x = xf.device_put(A, SHARDINGS[place]) * 1
    x.delete()
    others = [target for name, target in SHARDINGS.items() if name != place]
    for target in (*others, D[1], xf.memory.Space.Host, xf.memory.Space.Device, x.sharding.with_memory_kind("pinned_host")):
        with pytest.raises(RuntimeError, match="deleted"):
            xf.device_put(x, target)
        with pytest.raises(RuntimeError, match="deleted"):
            xf.device_put([x, x], [target, D[2]])
    like = xf.ShapeDtypeStruct(A.shape, A.dtype)
    for move in (lambda: xf.device_put(x, may_alias=False), lambda: xf.pure_callback(np.sin, like, x),
                 lambda: xf.jit(lambda v: v, out_shardings=SHARDINGS["rows"])(x), lambda: xnp.array(x, device=D[1])):
        with pytest.raises((RuntimeError, ValueError)):
            move()


def test_key_arrays_from_single_device_arrays():
    keys, rows = xf.random.split(xf.random.key(0), 8), over(D, (4, 2), "x")
    made = xf.make_array_from_callback((8,), rows, lambda index: keys[index])
    shards = [xf.device_put(keys[i : i + 1], d) for i, d in enumerate(D)]
    joined = xf.make_array_from_single_device_arrays((8,), over(D, (8,), "x"), shards)
    for each in (made, joined):
        np.testing.assert_array_equal(xf.random.key_data(each), xf.random.key_data(keys))
        assert len(each.global_shards) == 8 and each.addressable_data(0).dtype == keys.dtype
    assert [s.data.shape for s in made.addressable_shards] == [(2,)] * 8 and made.sharding == rows


def test_shardings_of_the_compiler():
    """Arrays with tiles that no mesh axes describe are arguments like others."""
    from xlafront.base.jaxlib_compat import GSPMDSharding, HloSharding

    tiles = HloSharding.iota_tile(dims=[2, 4], reshape_dims=[4, 2], transpose_perm=[1, 0], subgroup_types=[])
    sharding = GSPMDSharding(tuple(D), tiles)
    assert sharding.shard_shape((12, 8)) == (6, 2) and list(sharding.devices_indices_map((12, 8))) == list(D)
    x = xf.device_put(A, sharding)
    assert x.tolist() == A.tolist() and (x + 1).tolist() == (A + 1).tolist() and not x.is_fully_replicated
    assert xf.device_put(x, SHARDINGS["rows"]).tolist() == A.tolist()
    assert xf.device_put(xf.device_put(A, SHARDINGS["rows"]), sharding).tolist() == A.tolist()


def test_copies_of_shardings():
    import copy

    for x in (*SHARDINGS.values(), SHARDINGS["rows"].mesh, SHARDINGS["rows"].mesh.abstract_mesh, P("x", None), Layout((1, 0)),
              Format(Layout((1, 0)), SHARDINGS["rows"])):
        assert copy.copy(x) == x == copy.deepcopy(x) and hash(copy.deepcopy(x)) == hash(x)
    y = copy.deepcopy(xf.device_put(A, SHARDINGS["rows"]))
    assert y.sharding == SHARDINGS["rows"] and y.committed and y.tolist() == A.tolist()


@pytest.mark.parametrize("make, error, words", [
    (lambda x: xf.jit(lambda x: {"a": [x, x[:3]]}, out_shardings=SHARDINGS["rows"])(A), ValueError,
     ["out_shardings", "result['a'][1]", "(3, 8)", "'x': 4"]),
    (lambda x: xf.jit(lambda a, n: a, in_shardings=(x.sharding, None), static_argnums=1)(x, 1), ValueError,
     ["in_shardings", "tuple of 2", "1 positional", "static"]),
    (lambda x: xf.jit(lambda p: p["w"], in_shardings=SHARDINGS["columns"])({"w": x}), ValueError,
     ["p['w']", "(12, 8)", "P(None, 'y')", "P('x',)", "device_put"]),
    (lambda x: xf.jit(lambda x: x, out_shardings=SHARDINGS["reversed"])(x), ValueError, ["argument x", "(12, 8)", "same order", "[7, 6"]),
    (lambda x: xf.jit(lambda x: x, out_shardings=SHARDINGS["first half"])(x), ValueError, ["argument x", "(12, 8)", "[0, 1, 2, 3]"]),
    (lambda x: xf.jit(lambda x: x).lower(x).compile()(xf.device_put(A, SHARDINGS["one"])), ValueError,
     ["argument x", "(12, 8)", "P('x',)", "[0]", "device_put"]),
    (lambda x: xf.jit(lambda x: x, out_shardings=Format(Layout((0,)), SHARDINGS["one"]))(A), ValueError, ["(12, 8)", "once"]),
    (lambda x: xf.jit(lambda x: x, in_shardings=x.sharding, device=D[0]), ValueError, ["in_shardings", "device"]),
    (lambda x: xf.jit(lambda x: x, in_shardings=D[1])(A), TypeError, ["in_shardings", "SingleDeviceSharding"]),
    (lambda x: xf.lax.with_sharding_constraint(x, D[1]), TypeError, ["with_sharding_constraint", "SingleDeviceSharding"]),
    (lambda x: xf.device_put(A, NamedSharding(x.sharding.mesh.abstract_mesh, P("x"))), ValueError, ["AbstractMesh", "(12, 8)"]),
    (lambda x: NamedSharding(x.sharding.mesh.abstract_mesh, P("x")).is_fully_addressable, ValueError, ["AbstractMesh"]),
    (lambda x: xf.lax.with_sharding_constraint("x", x.sharding), TypeError, ["with_sharding_constraint", "str"]),
    (lambda x: xf.jit(lambda x: x, out_shardings=over(D, (4, 2), P.UNCONSTRAINED, "y"))(x), ValueError, ["out_shardings", "UNCONSTR"]),
    (lambda x: xf.jit(lambda x: x, in_shardings=over(D, (4, 2), P.UNCONSTRAINED, "y"))(A), ValueError, ["in_shardings", "UNCONSTR"]),
    (lambda x: xf.device_put(x, over(D, (4, 2), P.UNCONSTRAINED)), ValueError, ["UNCONSTRAINED", "with_sharding_constraint"]),
    (lambda x: P((("x",), "y")), ValueError, ["('x',)", "one tuple"]),
    (lambda x: xf.make_array_from_callback((12, 8), x.sharding, lambda i: A[i], dtype="int32"), ValueError, ["float32", "int32"]),
    (lambda x: xf.make_array_from_callback((8,), over(D, (8,), "x"), lambda i: np.ones(1, "i" if i[0].start else "f")), ValueError,
     ["int32", "float32", "[1:2]"]),
    (lambda x: xf.make_array_from_callback((8,), D[0], lambda i: A[i]), TypeError, ["SingleDeviceSharding"]),
    (lambda x: xf.make_array_from_single_device_arrays((12, 8), x.sharding, x), TypeError, ["list", "device_put"]),
])  # fmt: skip
def test_bad_input(make, error, words):
    with pytest.raises(error) as caught:
        make(xf.device_put(A, SHARDINGS["rows"]))
    for word in words:
        assert word in str(caught.value), str(caught.value)


def test_make_array_from_callback_takes_layout():
    place = Format(Layout(major_to_minor=(1, 0)), SHARDINGS["one"])
    x = xf.make_array_from_callback(A.shape, place, lambda index: A[index])
    assert x.format.layout.major_to_minor == (1, 0) and x.tolist() == A.tolist()


def test_layouts_of_keys():
    """The words of a key are contiguous in any layout of the keys."""
    keys = xf.random.split(xf.random.key(0), (2, 3))
    words = np.asarray(xf.random.key_data(keys))
    place = xf.sharding.SingleDeviceSharding(xf.devices()[0])
    by_columns = Format(Layout((1, 0)), place)
    moved = xf.device_put(keys, by_columns)
    for found in (moved, xf.jit(lambda k: k, out_shardings=by_columns)(keys), xf.jit(lambda k: k, in_shardings=by_columns)(moved)):
        np.testing.assert_array_equal(xf.random.key_data(found), words)
    with pytest.raises(ValueError, match="orders 3 dimensions"):
        xf.device_put(keys, Format(Layout((0, 1, 2)), place))


# Strings


def test_string_arrays_on_cpus():
    words = np.array([["abc", "a longer word, which is not kept in place"], ["", "d"]], dtype=np.dtypes.StringDType())
    here = xf.devices()[1]
    mesh = xf.make_mesh((2,), ("x",))
    one, split = xf.device_put(words, here), xf.device_put(words, xf.NamedSharding(mesh, xf.P("x")))
    assert one.devices() == {here} and one.dtype == words.dtype and one.shape == split.shape == (2, 2)
    for x in (one, split, xf.device_put(one, xf.devices()[2]),
              xf.make_array_from_callback((2, 2), split.sharding, words.__getitem__, dtype=words.dtype)):
        np.testing.assert_array_equal(np.asarray(x), words)
    for shard, row in zip(split.addressable_shards, words):
        np.testing.assert_array_equal(np.asarray(shard.data), row[None])
    assert xf.eval_shape(lambda x: x, words).dtype == words.dtype
    for bad in (lambda: xf.device_put(words), lambda: xnp.sin(one), lambda: xf.jit(lambda x: x)(one), lambda: xnp.sum(words),
                lambda: xf.grad(lambda x: 1.0)(words), lambda: xf.pmap(lambda x: x)(words), lambda: xnp.concatenate([one, one]),
                lambda: xf.device_put(np.array(["a"], np.dtypes.StringDType(na_object=None)), here)):
        with pytest.raises(TypeError):
            bad()
