"""Functions and objects on the hosts of devices."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.experimental.colocated_python import colocated_cpu_devices, colocated_python, colocated_python_class
from xlafront.sharding import Mesh, NamedSharding, PartitionSpec as P

pytestmark = pytest.mark.cpu_only


def sharding():
    return NamedSharding(xf.make_mesh((8,), ("i",)), P("i"))


def test_devices():
    devices = xf.devices()
    assert colocated_cpu_devices(devices) == devices and colocated_cpu_devices(tuple(devices[2:4])) == devices[:2]
    mesh = colocated_cpu_devices(Mesh(np.array(devices[::-1]).reshape(4, 2), ("i", "j")))
    assert list(mesh.devices.flat) == devices and mesh.axis_names == ("i", "j")
    with pytest.raises(ValueError, match="process 0 has fewer CPU devices"):
        colocated_cpu_devices([*devices, devices[0]])


def test_functions():
    @colocated_python
    def both(x, *, k):
        return {"sum": x + k, "more": (x * k, None)}

    x = xnp.arange(3.0)
    found = both(x, k=x)
    assert both.__name__ == "both" and np.array_equal(found["sum"], [0, 2, 4]) and np.array_equal(found["more"][0], [0, 1, 4])
    ones = colocated_python(lambda x: xnp.ones(int(x[0])))  # the shape depends on the value
    assert ones(xnp.array([2.0])).shape == (2,) and ones(xnp.array([5.0])).shape == (5,)
    key = xf.random.key(3)
    assert colocated_python(lambda k: k)(key) == key
    assert colocated_python(lambda x: None)(x) is None


def test_shards_on_devices():
    x = xf.device_put(np.arange(16.0, dtype=np.float32), sharding())

    @colocated_python
    def add_own_number(v):
        shards = [s.data + s.device.id for s in v.addressable_shards]
        return xf.make_array_from_single_device_arrays(v.shape, v.sharding, shards)

    assert np.array_equal(add_own_number(x), np.arange(16) + np.arange(16) // 2) and add_own_number(x).sharding == x.sharding


def test_specialized_devices_and_types():
    devices = xf.devices()
    zeros = colocated_python(lambda: xf.device_put(np.zeros(2), devices[3]))
    assert zeros.specialize(devices=devices[3:4])().devices() == {devices[3]}
    x = xnp.arange(3.0)
    double = colocated_python(lambda x: 2 * x).specialize(out_specs_fn=lambda x: x)
    assert np.array_equal(double.specialize(devices=devices[:1])(x), [0, 2, 4])
    with pytest.raises(ValueError, match="out_specs_fn of the colocated function .* already specified"):
        double.specialize(out_specs_fn=lambda x: x)
    with pytest.raises(ValueError, match=r"specialize\(devices=...\)"):
        zeros()


def test_colocated_classes():
    made = []

    @colocated_python_class
    class Counter:
        """Counts."""

        def __init__(self, start):
            made.append(start)
            self.count = start

        def add(self, x):
            self.count += 1
            return x + self.count

        def now(self):
            return xnp.asarray(self.count)

    counter, other = Counter(3), Counter(start=10)
    x = xnp.zeros(2)
    assert made == [] and Counter.__name__ == "Counter" and Counter.__doc__ == "Counts."
    assert counter.add(x).tolist() == [4, 4] and counter.add(x).tolist() == [5, 5] and other.add(x).tolist() == [11, 11]
    assert made == [3, 10] and int(counter.now.specialize(devices=xf.devices()[:1])()) == 5
    for name in ("count", "nothing"):
        with pytest.raises(AttributeError, match="has the methods add, now and no"):
            getattr(counter, name)
    with pytest.raises(ValueError, match="Counter.now got no array"):
        counter.now()
    with pytest.raises(TypeError, match="__init__"):
        Counter().add(x)


def test_bad_input_raises():
    def fail(x):
        raise OSError("on the host")

    add = colocated_python(lambda x, y: x + y)
    x, split = xnp.arange(8.0), xf.device_put(np.arange(8.0, dtype=np.float32), sharding())
    with pytest.raises(OSError, match="on the host"):
        colocated_python(fail)(x)
    for other in (1.0, np.ones(8)):
        with pytest.raises(AttributeError, match=r"takes arrays, got (float|ndarray) as argument \[1\]"):
            add(x, other)
    with pytest.raises(ValueError, match="must be on the same devices"):
        add(x, split)
    for returned in (3, np.ones(2)):
        with pytest.raises(ValueError, match="must return arrays, it returned"):
            colocated_python(lambda x, returned=returned: returned)(x)
    for transformed in (xf.jit(add), xf.vmap(add)):
        with pytest.raises(AttributeError, match="inside a transformation"):
            transformed(x, x)
    with pytest.raises(AttributeError, match="takes a class, got int"):
        colocated_python_class(3)
    with pytest.raises(TypeError):
        colocated_python(3)
