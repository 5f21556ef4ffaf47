"""Types of classes of jaxlib's runtime, for type checkers and editors: jaxlib has none."""

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from xlafront.base.meshes import AbstractMesh, Mesh
from xlafront.base.specs import PartitionSpec

class Device:
    """A device: a CPU, a GPU or a TPU core. `xlafront.devices()` lists them."""

    @property
    def id(self) -> int:
        """Number of the device, unique among the devices of its platform in all processes."""
    @property
    def platform(self) -> str:
        """"cpu", "gpu" or "tpu"."""
    @property
    def device_kind(self) -> str:
        """Name of the model, such as "NVIDIA H100" or "TPU v5e"."""
    @property
    def process_index(self) -> int:
        """Index of the process that the device belongs to."""
    @property
    def local_hardware_id(self) -> int | None:
        """Number that the vendor's software gives the device, such as the CUDA device number."""
    @property
    def client(self) -> Any:
        """The runtime's client of the platform."""
    def memory(self, kind: str) -> Memory:
        """Return the memory of a kind, such as "pinned_host"."""
    def default_memory(self) -> Memory:
        """Return the memory in which arrays are by default."""
    def addressable_memories(self) -> list[Memory]:
        """Return the memories that the device can address."""
    def memory_stats(self) -> dict[str, int] | None:
        """Return counts of bytes by name, such as "bytes_in_use"; None where the platform has none."""
    def live_buffers(self) -> list[Any]:
        """Return the arrays on the device."""

class Memory:
    """A memory of a device."""

    @property
    def kind(self) -> str: ...
    @property
    def platform(self) -> str: ...

class Sharding:
    """Base of shardings: how the elements of an array are distributed over devices."""

    _internal_device_list: Any

    @property
    def device_set(self) -> set[Device]:
        """The devices."""
    @property
    def addressable_devices(self) -> set[Device]:
        """The devices of this process."""
    @property
    def is_fully_replicated(self) -> bool:
        """True if each device has all elements."""
    @property
    def is_fully_addressable(self) -> bool:
        """True if all devices are those of this process."""
    @property
    def memory_kind(self) -> str | None:
        """Kind of the memory: "device", "pinned_host" or "unpinned_host"."""
    @property
    def num_devices(self) -> int:
        """Number of devices."""
    def devices_indices_map(self, global_shape: Sequence[int]) -> Mapping[Device, tuple[slice, ...] | None]:
        """Return the part of an array that each device holds."""
    def addressable_devices_indices_map(self, global_shape: Sequence[int]) -> Mapping[Device, tuple[slice, ...] | None]:
        """Return the part of an array that each device of this process holds."""
    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of each device's shard."""
    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Return True if two shardings distribute arrays of a rank in the same way."""
    def check_compatible_aval(self, aval_shape: Sequence[int]) -> None:
        """Raise an error if arrays of a shape cannot be sharded so."""
    def with_memory_kind(self, kind: str) -> Sharding:
        """Return the sharding in another memory."""

class SingleDeviceSharding(Sharding):
    """Sharding of arrays on one device.

    Args:
        device: The device.
        memory_kind: Kind of the memory. Default: that of the device.
    """

    def __init__(self, device: Device, *, memory_kind: str | None = None) -> None: ...

class NamedSharding(Sharding):
    """Sharding over the named axes of a mesh.

    Args:
        mesh: The mesh.
        spec: The axis, or axes, that shard each dimension.
        memory_kind: Kind of the memory. Default: that of the devices.

    Example:
        >>> xf.NamedSharding(xf.make_mesh((1,), ("x",)), xf.P("x"))
    """

    def __init__(self, mesh: Mesh | AbstractMesh, spec: PartitionSpec, *, memory_kind: str | None = None) -> None: ...
    @property
    def mesh(self) -> Mesh:
        """The mesh."""
    @property
    def spec(self) -> PartitionSpec:
        """The axes that shard each dimension."""
    def update(self, **kwargs: Any) -> NamedSharding:
        """Return a copy with another `mesh`, `spec` or `memory_kind`."""

class GSPMDSharding(Sharding):
    """Sharding as XLA describes it."""

    def __init__(self, devices: Any, op_sharding: Any, *, memory_kind: str | None = None) -> None: ...

class JaxRuntimeError(RuntimeError):
    """Raised for errors of the runtime: XLA's compiler, a device, another process."""

class Buffer:
    """A buffer that a foreign function gets."""

    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def writeable(self) -> bool: ...

class ExecutionStage(enum.Enum):
    """A stage in the life of a foreign call."""

    INSTANTIATE = ...
    PREPARE = ...
    INITIALIZE = ...
    EXECUTE = ...

class ExecutionContext:
    """What a foreign function is told of its call."""

    @property
    def stage(self) -> ExecutionStage: ...
    @property
    def stream(self) -> int: ...

class ProfileEvent:
    """An event of a profile."""

    @property
    def name(self) -> str:
        """Name of the event."""
    @property
    def start_ns(self) -> float:
        """Start time in nanoseconds."""
    @property
    def end_ns(self) -> float:
        """End time in nanoseconds."""
    @property
    def duration_ns(self) -> float:
        """Duration in nanoseconds."""
    @property
    def stats(self) -> Iterator[tuple[str, Any]]:
        """Names and values of its statistics."""

class ProfileLine:
    """A line of a profile: a thread or a stream with its events."""

    @property
    def name(self) -> str:
        """Name of the line."""
    @property
    def events(self) -> Iterator[ProfileEvent]:
        """Its events."""

class ProfilePlane:
    """A plane of a profile: a device or a host with its lines."""

    @property
    def name(self) -> str:
        """Name of the plane."""
    @property
    def lines(self) -> Iterator[ProfileLine]:
        """Its lines."""
    @property
    def stats(self) -> Iterator[tuple[str, Any]]:
        """Names and values of its statistics."""
