"""Storage of arrays sharded over 8 devices, read back by `tensorstore` itself; managers that write in the background."""

import asyncio
import json
import os
import threading

import numpy as np
import pytest
import tensorstore

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.base.jaxlib_compat import JaxRuntimeError
from xlafront.experimental.array_serialization import serialization
from xlafront.experimental.layout import Format, Layout
from xlafront.runtime import distributed
from xlafront.sharding import NamedSharding, PartitionSpec as P, SingleDeviceSharding

pytestmark = pytest.mark.cpu_only

X = np.arange(16, dtype=np.float32).reshape(8, 2)


@pytest.fixture
def mesh():
    return xf.make_mesh((4, 2), ("i", "j"))


def spec_of(path, **options):
    return serialization.get_tensorstore_spec(path, **options)


def one():
    return SingleDeviceSharding(xf.devices()[0])


@pytest.mark.parametrize("options", [{}, {"ocdbt": True}, {"driver": "zarr3"}, {"ocdbt": True, "driver": "zarr3"}],
                         ids=["zarr", "database", "zarr3", "zarr3 in a database"])
def test_arrays_round_trip(tmp_path, mesh, options):
    split = xf.device_put(X, NamedSharding(mesh, P("i", "j")))
    same = xf.device_put(X[0], NamedSharding(mesh, P()))
    paths = [str(tmp_path / name) for name in "ab"]
    serialization.run_serialization([split, same], [spec_of(path, **options) for path in paths])
    stored = tensorstore.open(spec_of(paths[0], **options)).result()
    assert np.array_equal(stored.read().result(), X) and stored.chunk_layout.write_chunk.shape == (2, 1)
    for sharding in (NamedSharding(mesh, P(("j", "i"))), NamedSharding(mesh, P()), one()):
        a, b = serialization.run_deserialization([sharding, one()], [spec_of(path, **options) for path in paths])
        assert a.sharding == sharding and np.array_equal(a, X) and np.array_equal(b, X[0])


@pytest.mark.parametrize("dtype", ["bfloat16", "int8", "bool", "complex64", "float8_e4m3fn"])
def test_dtypes(tmp_path, dtype):
    x = xnp.asarray(X).astype(dtype)
    options = {"driver": "zarr3"} if dtype in ("bfloat16", "float8_e4m3fn") else {}
    serialization.run_serialization({"x": x, "scalar": x[0, 1]}, {n: spec_of(tmp_path / n, **options) for n in ("x", "scalar")})
    found = serialization.run_deserialization({"x": one(), "scalar": one()},
                                              {n: spec_of(tmp_path / n, **options) for n in ("x", "scalar")})
    for name, value in (("x", x), ("scalar", x[0, 1])):
        assert found[name].dtype == value.dtype and np.array_equal(found[name], value)


def test_requested_types(tmp_path, mesh):
    spec = spec_of(tmp_path / "x")
    serialization.run_serialization([X], [spec])
    sharding = NamedSharding(mesh, P("i"))
    for shape in ((12, 2), (4, 4), (8, 1), (16, 3)):
        [found] = serialization.run_deserialization([sharding], [spec], global_shapes=[shape], dtypes=["int32"])
        expected = np.zeros(shape, np.int32)
        expected[:8, :2] = X[:shape[0], :shape[1]]
        assert found.dtype == np.int32 and np.array_equal(found, expected)
    like = xf.ShapeDtypeStruct((8, 2), "float16", sharding=sharding)
    [found] = serialization.run_deserialization([like], [spec], concurrent_gb=1e-8)  # ten bytes at a time
    assert found.dtype == np.float16 and found.sharding == sharding and np.array_equal(found, X)
    [found] = serialization.run_deserialization([Format(Layout((1, 0)), sharding)], [spec])
    assert found.format.layout.major_to_minor == (1, 0) and np.array_equal(found, X)


def test_metadata_and_futures(tmp_path):
    spec, futures = {"driver": "zarr", "kvstore": {"driver": "file", "path": str(tmp_path / "x")}}, []
    asyncio.run(serialization.async_serialize(xnp.asarray(X), spec, commit_future=futures))
    for future in futures:
        future.result()
    written = json.loads((tmp_path / "x" / ".zarray").read_text())
    assert (written["shape"], written["chunks"], written["dtype"]) == ([8, 2], [8, 2], "<f4")
    assert spec["metadata"]["shape"] == (8, 2) and spec["dtype"] == "float32"

    async def within_a_loop():
        return serialization.run_deserialization([one()], [spec])

    assert np.array_equal(asyncio.run(within_a_loop())[0], X)


def test_pending_arrays_may_be_donated(tmp_path):
    manager, x = serialization.GlobalAsyncCheckpointManager(), xnp.asarray(np.arange(1 << 18, dtype=np.float32))
    manager.serialize_with_paths([x], [tmp_path / "x"])
    xf.jit(lambda v: v * 0 - 1, donate_argnums=0)(x).block_until_ready()
    [found] = manager.deserialize_with_paths([one()], [tmp_path / "x"])
    assert np.array_equal(found, np.arange(1 << 18))


def test_managers(tmp_path):
    manager, done = serialization.GlobalAsyncCheckpointManager(timeout_secs=10), []
    manager.serialize([X], [spec_of(tmp_path / "x")], on_commit_callback=lambda: done.append(os.listdir(tmp_path)))
    manager.wait_until_finished()
    assert done == [["x"]]

    def fail():
        raise OSError("no room")

    manager.serialize([X], [spec_of(tmp_path / "y")], on_commit_callback=fail)
    with pytest.raises(OSError, match="no room"):
        manager.wait_until_finished()
    manager.check_for_errors()  # said once
    manager.serialize([X], [spec_of(tmp_path / "y")])
    assert np.array_equal(manager.deserialize([one()], [spec_of(tmp_path / "y")])[0], X)

    class Own(serialization.GlobalAsyncCheckpointManagerBase):
        def check_for_errors(self): ...

    with pytest.raises(TypeError, match="abstract"):
        Own()


def test_transactions(tmp_path):
    manager, transaction = serialization.GlobalAsyncCheckpointManager(), tensorstore.Transaction()
    spec = spec_of(tmp_path / "x", ocdbt=True)
    asyncio.run(serialization.async_serialize(xnp.asarray(X), spec, commit_future=[], transaction=transaction))
    with pytest.raises(ValueError, match="NOT_FOUND|does not exist"):
        manager.deserialize([one()], [spec])
    transaction.commit_sync()
    assert np.array_equal(manager.deserialize([one()], [spec])[0], X)


class _Store:
    """The state that the processes of a group share, as seen by one of two."""

    def __init__(self, late):
        self.late, self.stored, self.waited = late, {}, []

    def wait_at_barrier(self, key, timeout):
        self.waited.append((key, timeout))
        if self.late:
            raise JaxRuntimeError("DEADLINE_EXCEEDED: Barrier timed out.")

    def key_value_set(self, key, value):
        self.stored[key] = value

    def blocking_key_value_get(self, key, timeout):
        return self.stored[key]


def test_processes_wait_for_each_other(monkeypatch):
    for late in (False, True):
        store, done = _Store(late), threading.Event()
        for name, value in (("client", store), ("num_processes", 2), ("process_id", 0)):
            monkeypatch.setattr(distributed.state, name, value)
        manager = serialization.AsyncManager(timeout_secs=7)
        manager._start_async_commit(done.set)
        if late:
            with pytest.raises(serialization.BarrierTimeoutError, match="after 7 s not all processes"):
                manager.wait_until_finished()
        else:
            manager.wait_until_finished()
        assert done.is_set() is not late and [timeout for _, timeout in store.waited] == [7000]


# Specifications


def test_specifications():
    def bucket(driver):
        return {"driver": driver, "bucket": "b", "path": "state/w"}

    assert spec_of("gs://b/state/w")["kvstore"] == bucket("gcs") and spec_of("s3://b/state/w")["kvstore"] == bucket("s3")
    assert spec_of("/state/w/", ocdbt=True, process_idx=3, driver="zarr3") == {
        "driver": "zarr3", "kvstore": {"driver": "ocdbt", "base": {"driver": "file", "path": "/state/process_3"}, "path": "w"}}
    assert spec_of("/state/w", arr=xnp.ones((3, 2)))["metadata"] == {
        "compressor": {"id": "zstd"}, "shape": (3, 2), "chunks": [3, 2]}
    remote = [spec_of("gs://b/w"), spec_of("s3://b/d/w", ocdbt=True), "gs://b", {"driver": "zarr", "kvstore": "gs://b/w"}]
    assert [serialization.is_remote_storage(spec) for spec in (*remote, spec_of("/w"), spec_of("/d/w", ocdbt=True), "/w", {})] == [
        True] * 4 + [False] * 4


def test_bad_input_raises(tmp_path):
    for path, text in (("relative/w", "an absolute path, got 'relative/w'"), ("s3://bucket/w", "a bucket, a directory and")):
        with pytest.raises(ValueError, match=text):
            spec_of(path, ocdbt=True)
    with pytest.raises(TypeError, match="random.key_data"):
        serialization.run_serialization([xf.random.key(0)], [spec_of(tmp_path / "k")])
    with pytest.raises(ValueError, match="does not exist|NOT_FOUND"):
        serialization.run_deserialization([one()], [spec_of(tmp_path / "none")])
    with pytest.raises(ValueError, match="its sharding must be known"):
        serialization.run_deserialization([xf.ShapeDtypeStruct((8, 2), "float32")], [spec_of(tmp_path / "x")])
    with pytest.raises(ValueError):
        serialization.run_serialization([X], [])
