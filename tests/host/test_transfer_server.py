"""Transfer of arrays between servers, within a process and between processes."""

import os
import subprocess
import sys

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.experimental import transfer
from xlafront.sharding import NamedSharding, PartitionSpec as P, SingleDeviceSharding

pytestmark = pytest.mark.cpu_only


def server():
    return transfer.start_transfer_server(xf.devices()[0].client, "127.0.0.1:0", ["127.0.0.1:0"])


def struct(shape, device=0, sharding=None):
    return xf.ShapeDtypeStruct(shape, "float32", sharding=sharding or SingleDeviceSharding(xf.devices()[device]))


def test_within_a_process():
    offering, x = server(), xnp.arange(4.0)
    connection = offering.connect(offering.address())
    split = xf.device_put(np.arange(16.0, dtype=np.float32), NamedSharding(xf.make_mesh((8,), ("i",)), P("i")))
    offering.await_pull(7, {"x": x, "more": [x + 1]})
    offering.await_pull(8, split)
    assert np.array_equal(connection.pull(8, struct((16,), sharding=split.sharding)), split)
    found = connection.pull(7, {"x": struct((4,)), "more": [struct((4,), 3)]})
    assert np.array_equal(found["x"], x) and np.array_equal(found["more"][0], x + 1)
    assert found["more"][0].devices() == {xf.devices()[3]} and connection.pull(9, []) == []


def test_between_processes():
    program = """
import sys
import xlafront as xf
from xlafront.experimental import transfer
server = transfer.start_transfer_server(xf.devices()[0].client, "127.0.0.1:0", ["127.0.0.1:0"])
sharding = xf.sharding.SingleDeviceSharding(xf.devices()[0])
print(server.connect(sys.argv[1]).pull(5, xf.ShapeDtypeStruct((3,), "float32", sharding=sharding)).tolist())
"""
    offering = server()
    offering.await_pull(5, xnp.arange(3.0))
    done = subprocess.run([sys.executable, "-c", program, offering.address()], capture_output=True, text=True, timeout=120,
                          env=os.environ)
    assert done.stdout.strip() == "[0.0, 1.0, 2.0]", done.stderr[-2000:]


def test_make_error_array():
    x = transfer.make_error_array(struct((3,)), "lost on its way")
    assert x.shape == (3,) and x.dtype == np.float32 and not x.is_deleted()
    for use in (lambda: x.block_until_ready(), lambda: np.asarray(x), lambda: (x + 1).block_until_ready()):
        with pytest.raises(xf.errors.JaxRuntimeError, match="lost on its way"):
            use()
    y = xf.device_put(np.ones(2), xf.devices()[2])
    assert transfer.make_error_array(y, "m").devices() == {xf.devices()[2]}


def test_invalid_arguments_raise():
    for f in (lambda: transfer.make_error_array(xf.ShapeDtypeStruct((3,), "float32"), "m"),
              lambda: transfer.make_error_array(3, "m")):
        with pytest.raises(AttributeError, match="takes types with shardings"):
            f()
    offering = server()
    with pytest.raises(TypeError, match="arrays on devices, got ndarray"):
        offering.await_pull(1, np.ones(2))
    with pytest.raises(AttributeError, match="pull takes types with shardings"):
        offering.connect(offering.address()).pull(1, xf.ShapeDtypeStruct((3,), "float32"))
