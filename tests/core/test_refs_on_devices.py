"""Devices and shardings of references."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp


@pytest.mark.cpu_only
def test_writes_do_not_change_the_sharding():
    """Values that are written to a reference are transferred to its devices and its sharding; its value is committed."""
    devices = xf.devices()
    mesh = xf.make_mesh((2,), ("x",), axis_types=(xf.sharding.AxisType.Auto,), devices=devices[:2])
    sharded, replicated = (xf.NamedSharding(mesh, xf.P(*spec)) for spec in (("x",), ()))
    x = xf.device_put(np.arange(4, dtype=np.float32), sharded)
    values = np.float32([5, 6, 7, 8])
    for new in (values, xnp.asarray(values), xf.device_put(values, replicated)):
        ref = xf.new_ref(x)
        ref[...] = new
        assert ref.sharding == sharded and ref[...].committed
        ref[1:3] = new[1:3] * 2
        xf.ref.addupdate(ref, ..., new)
        assert ref.sharding.is_equivalent_to(sharded, 1)
        np.testing.assert_array_equal(xf.freeze(ref), [10, 18, 21, 16])
    for first in (values, xnp.asarray(values), 2.0, xf.random.key(0)):
        assert xf.new_ref(first)[...].committed
    with xf.default_device(devices[1]):
        assert xf.new_ref(xnp.ones(2, device=devices[0])).sharding.device_set == {devices[0]}
        assert xf.new_ref(values).sharding.device_set == {devices[1]}
    with pytest.raises(ValueError, match="incompatible devices"):
        xf.new_ref(values)[...] = xf.device_put(values, devices[1])
    with pytest.raises(ValueError, match="incompatible devices"):
        xf.new_ref(values)[...] + xf.device_put(values, devices[1])
