"""Pickling of devices for functions on other hosts: objects rebuilt from CPU device ids are equal."""

import pickle

import pytest

import xlafront as xf
from xlafront.compat import cpu_devices
from xlafront.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding


@pytest.mark.cpu_only
def test_pickled_objects_are_equal():
    cpus = xf.devices("cpu")[:1]
    mesh = Mesh(cpus, ("x",))
    own_list = NamedSharding(mesh, PartitionSpec())._internal_device_list
    for reduce, thing in ((cpu_devices._reduce_mesh, mesh), (cpu_devices._reduce_device_list, own_list),
                          (cpu_devices._reduce_single_device_sharding, SingleDeviceSharding(cpus[0]))):
        rebuild, numbers = pickle.loads(pickle.dumps(reduce(thing)))
        assert rebuild(*numbers) == thing


def test_devices():
    known = cpu_devices._get_cpu_device_map()
    assert set(known.values()) == set(xf.devices("cpu")) and all(device.id == number for number, device in known.items())
    assert set(cpu_devices.xb.local_devices()) <= set(xf.devices()) and "cpu" in cpu_devices.xb.backends()
    rebuild, _ = cpu_devices._reduce_single_device_sharding(SingleDeviceSharding(xf.devices("cpu")[0]))
    with pytest.raises(ValueError, match="no CPU devices of the numbers"):
        rebuild((99,), None)
