"""How arrays are spread over devices: meshes, partition specs, shardings."""

from xlafront.runtime.jaxlib_compat import (
    NamedSharding as NamedSharding,
    Sharding as Sharding,
    SingleDeviceSharding as SingleDeviceSharding,
)
from xlafront.runtime.sharding import (
    AxisType as AxisType,
    Mesh as Mesh,
    PartitionSpec as PartitionSpec,
)


def make_single_device_sharding(device, *, memory_kind=None) -> SingleDeviceSharding:
    """The sharding of arrays that lie on one device."""
    return SingleDeviceSharding(device, memory_kind=memory_kind)
