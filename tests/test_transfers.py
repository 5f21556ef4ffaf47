"""Arrays that move between placements: whatever the way, values are the same, only what is needed moves, and donation is kept."""

import itertools

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import NamedSharding, P
from xlafront.runtime import transfers
from xlafront.sharding import Mesh, SingleDeviceSharding

A = np.arange(96, dtype=np.float32).reshape(12, 8)
D = np.array(xf.devices())


def over(devices, shape, *spec, kind=None):
    return NamedSharding(Mesh(devices.reshape(shape), ("x", "y")[: len(shape)]), P(*spec), memory_kind=kind)


PLACES = {
    "one": SingleDeviceSharding(D[0]), "other": SingleDeviceSharding(D[5]), "rows": over(D, (4, 2), "x"),
    "columns": over(D, (4, 2), None, "y"), "tiles": over(D, (4, 2), "x", "y"), "whole": over(D, (4, 2)),
    "reversed": over(D[::-1], (4, 2), "x"), "shuffled": over(D[[3, 1, 0, 2, 7, 5, 4, 6]], (4, 2), "y", "x"),
    "first half": over(D[:4], (4,), "x"), "second half": over(D[4:], (4,), None, "x"), "three": over(D[2:5], (3,), "x"),
    "six": over(D[:6], (3, 2), "x", "y"), "two": over(D[6:], (2,), "x"), "host": over(D, (4, 2), "x", kind="pinned_host"),
    "host columns": over(D[:4], (4,), None, "x", kind="pinned_host"),
}  # fmt: skip


@pytest.mark.parametrize("on_devices", [False, True], ids=["host memory", "device memory"])
def test_every_placement_to_every_other(on_devices, monkeypatch):
    """The second time as accelerators do it, which the host cannot cut buffers of."""
    if on_devices:
        monkeypatch.setattr(transfers, "shares_memory", lambda platform: False)
    names = ["one", "rows", "tiles", "shuffled", "second half", "three", "host"] if on_devices else list(PLACES)
    for here, there in itertools.product(names, names):
        x = xf.device_put(A, PLACES[here])
        y = xf.device_put(x, PLACES[there])
        assert y.sharding == PLACES[there] and y.committed and y.aval == x.aval, (here, there)
        assert x._npy_value is None, f"{here} to {there} went through the host"
        np.testing.assert_array_equal(np.asarray(y), A, err_msg=f"{here} to {there}")
        for shard in y.addressable_shards:
            np.testing.assert_array_equal(np.asarray(shard.data), A[shard.index])
        assert (y + 1).tolist() == (A + 1).tolist() and np.asarray(x).tolist() == A.tolist()


def test_pytrees_move_together():
    xs = {name: xf.device_put(A + i, place) for i, (name, place) in enumerate(PLACES.items())}
    for target in PLACES.values():
        moved = xf.device_put(xs, target)
        for i, name in enumerate(PLACES):
            assert moved[name].sharding == target and moved[name].tolist() == (A + i).tolist(), name


@pytest.mark.parametrize("shape", [(0, 8), (12, 0), (12, 8, 3), (24, 8), (12, 16)])
@pytest.mark.parametrize("dtype", ["bool", "int8", "bfloat16", "complex64", "int4"])
def test_shapes_and_dtypes(shape, dtype):
    values = xnp.asarray(np.arange(np.prod(shape)).reshape(shape) % 7).astype(dtype)
    x = xf.device_put(values, PLACES["rows"])
    for name in ("tiles", "six", "one", "second half"):
        x = xf.device_put(x, PLACES[name])
        assert x.dtype == values.dtype and xnp.array_equal(x, xf.device_put(values, PLACES[name])), name


def test_scalars_and_keys():
    scalar = xf.device_put(xf.device_put(3.0, over(D, (8,))), SingleDeviceSharding(D[3]))
    assert scalar == 3 and scalar.weak_type
    key = xf.random.split(xf.random.key(1), 8)
    spread = xf.device_put(key, over(D, (4, 2), "x"))
    moved = xf.device_put(xf.device_put(spread, over(D[:2], (2,), "x")), over(D, (4, 2), ("x", "y")))
    np.testing.assert_array_equal(xf.random.key_data(moved), xf.random.key_data(key))
    assert moved.sharding == over(D, (4, 2), ("x", "y"))


def addresses(x):
    return [s.data.unsafe_buffer_pointer() for s in x.addressable_shards]


def test_memory_is_shared_or_not():
    x = xf.device_put(A, PLACES["rows"])
    same = NamedSharding(x.sharding.mesh, P("x", None))
    assert xf.device_put(x, x.sharding) is x and addresses(xf.device_put(x, same)) == addresses(x)
    for target in (None, x.sharding, same):
        assert not set(addresses(xf.device_put(x, target, may_alias=False))) & set(addresses(x))
    first, second = xf.device_put([x, x], x.sharding, may_alias=[False, None])
    assert addresses(first) != addresses(x) == addresses(second)
    mine = transfers.aligned_empty((1 << 16,), np.dtype(np.float32))
    mine[:] = 1
    y = xf.device_put(mine)
    mine[:] = 2
    assert y[0] == 1


@pytest.mark.parametrize("there", ["other", "columns", "reversed", "second half", "host"])
@pytest.mark.parametrize("here", ["one", "rows"])
def test_donation(here, there):
    x = xf.device_put(A, PLACES[here]) * 1
    y = xf.device_put(x, PLACES[there], donate=True)
    junk = [xf.block_until_ready(xnp.full(A.shape, -1.0)) for _ in range(4)]
    assert x.is_deleted() and not y.is_deleted() and y.tolist() == A.tolist() and len(junk) == 4


def test_donation_of_what_stays():
    x = xf.device_put(A, PLACES["rows"])
    for target in (None, x.sharding, NamedSharding(x.sharding.mesh, P("x", None))):
        y = xf.device_put(x, target, donate=True)
        assert y.tolist() == A.tolist() and not y.is_deleted()
    kept, gone = xf.device_put([x, x * 1], PLACES["columns"], donate=[False, True])
    assert kept.tolist() == gone.tolist() == A.tolist() and not x.is_deleted()
    with pytest.raises(ValueError, match="may_alias"):
        xf.device_put(x, PLACES["one"], donate=True, may_alias=True)
    with pytest.raises(ValueError, match="donate"):
        xf.device_put([x], PLACES["one"], donate=[True, False])
    x.delete()
    for target in ("one", "columns", "second half"):
        with pytest.raises(RuntimeError, match="deleted"):
            xf.device_put(x, PLACES[target])
        with pytest.raises(RuntimeError, match="deleted"):
            xf.device_put([x, x], PLACES[target])


def test_only_what_is_needed_moves():
    """A plan names for each buffer of the target the pieces that it overlaps, once, and none that lies there already."""
    for here, there in itertools.permutations([p for p in PLACES.values() if p.memory_kind != "pinned_host"], 2):
        steps = transfers.plan(here, there, A.shape)
        held = here.addressable_devices_indices_map(A.shape)
        for device, pieces in zip(steps.devices, steps.pieces):
            covered = sum(int(np.prod(p.shape)) for p in pieces)
            assert covered == np.prod(steps.shape)
            if held.get(device) == there.addressable_devices_indices_map(A.shape)[device]:
                assert [list(held)[p.source] for p in pieces] == [device]
