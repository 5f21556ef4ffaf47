"""How arrays are spread over devices: meshes, partition specs, shardings, and types that say how values are split."""

from xlafront.runtime.jaxlib_compat import (
    NamedSharding as NamedSharding,
    Sharding as Sharding,
    SingleDeviceSharding as SingleDeviceSharding,
)
from xlafront.runtime.meshes import (
    AbstractDevice as AbstractDevice,
    AbstractMesh as AbstractMesh,
    AxisType as AxisType,
    Mesh as Mesh,
)
from xlafront.runtime.specs import (
    ManualAxisType as ManualAxisType,
    PartitionSpec as PartitionSpec,
)
from xlafront.transforms.meshes import (
    get_abstract_mesh as get_abstract_mesh,
    get_mesh as get_mesh,
    set_mesh as set_mesh,
    use_abstract_mesh as use_abstract_mesh,
)
from xlafront.transforms.resharding import (
    auto_axes as auto_axes,
    explicit_axes as explicit_axes,
    reshard as reshard,
)


def make_single_device_sharding(device, *, memory_kind: str | None = None) -> SingleDeviceSharding:
    """The sharding of arrays that lie on one device.

    >>> make_single_device_sharding(devices()[0]).num_devices
    1
    """
    return SingleDeviceSharding(device, memory_kind=memory_kind)
