"""Shards of arrays, and arrays assembled from shards."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.base.jax_names import buffers_of
from xlafront.base.jaxlib_compat import Sharding, batched_device_put
from xlafront.base.layouts import Format, Layout, use as layouts_in_use
from xlafront.core import dtypes, errors
from xlafront.core.avals import ShapedArray
from xlafront.core.tracer import Tracer
from xlafront.core.typing import DTypeLike
from xlafront.runtime.arrays import ArrayImpl, put_host, skip_checks
from xlafront.runtime.sharding import SingleDeviceSharding, single_device
from xlafront.runtime.transfers import check_explicit_rank, shard_indices_and_devices


def _type(shape, dtype, weak_type=False) -> ShapedArray:
    return ShapedArray(shape, dtypes.canonicalize_dtype(dtype, allow_extended_dtype=True), weak_type)


class Shard:
    """The shard of an array on one device.

    - `device`: The device.
    - `index`: Slices of the shard in the global array.
    - `replica_id`: Number of the shard among those with the same index.
    - `data`: The shard as an array.
    """

    __slots__ = ("device", "_sharding", "_shape", "_data")

    def __init__(self, device, sharding, global_shape: tuple, data=None):
        self.device, self._sharding, self._shape, self._data = device, sharding, global_shape, data

    @property
    def index(self) -> tuple:
        return self._sharding.devices_indices_map(self._shape)[self.device]

    @property
    def replica_id(self) -> int:
        indices = self._sharding.devices_indices_map(self._shape)
        own = _hashable(indices[self.device])
        for count, device in enumerate(d for d, index in indices.items() if _hashable(index) == own):
            if device == self.device:
                return count
        raise ValueError(f"{self.device} holds no shard of this array")

    @property
    def data(self):
        """The shard as an array, None on devices of other processes."""
        return self._data

    def __repr__(self):
        return (f"Shard(device={self.device!r}, index={self.index}, replica_id={self.replica_id}, "
                f"data={self._data})")


def _hashable(index: tuple) -> tuple:
    return tuple((s.start, s.stop, s.step) for s in index)


def _local_arrays(self) -> dict[Any, ArrayImpl]:
    """Return the shards on the devices of this process as arrays."""
    self._check_if_deleted()
    buffers = buffers_of(self)
    if len(buffers) == 1:
        [device] = self._sharding.addressable_devices
        if self._sharding.num_devices == 1:
            return {device: self}
    aval = _type(self._sharding.shard_shape(self.aval.shape), self.aval.dtype, self.aval.weak_type)
    shards = {}
    kind = self._sharding.memory_kind
    for buffer in buffers:
        [device] = buffer._sharding.device_set
        own = single_device(device)
        own = own if own.memory_kind == kind else own.with_memory_kind(kind)
        shards[device] = ArrayImpl(aval, own, [buffer], committed=True, **skip_checks)
    return shards


def _addressable_shards(self) -> list[Shard]:
    """The shards on the devices of this process: their `device`, their `index` in the global array, and their `data`.

    Example:
        >>> [shard.data.shape for shard in xnp.ones((2, 3)).addressable_shards]
        [(2, 3)]
    """
    sharding = self._sharding
    if sharding.num_devices == 1:
        self._check_if_deleted()
        here = sharding._internal_device_list.addressable_device_list
        return [Shard(here[0], sharding, self._aval.shape, self)] if len(here) else []  # (iteration is slower)
    return _cached_shards(self, "_local_shards", lambda: [
        Shard(d, sharding, self._aval.shape, x) for d, x in _local_arrays(self).items()])


def _global_shards(self) -> list[Shard]:
    """The shards on all devices; those of other processes have no `data`.

    Example:
        >>> [shard.replica_id for shard in xnp.ones((2, 3)).global_shards]
        [0]
    """
    if self._sharding.is_fully_addressable:
        return _addressable_shards(self)

    def make():
        local = {s.device: s._data for s in _addressable_shards(self)}
        return [Shard(d, self._sharding, self.aval.shape, local.get(d)) for d in self._sharding._device_assignment]

    return _cached_shards(self, "_all_shards", make)


def _cached_shards(self, name: str, make: Callable[[], list[Shard]]) -> list[Shard]:
    """Return the result of `make`, computed once for an array and stored with it.

    On one device the shard is the array itself, which must not hold itself: that is not stored.
    """
    found = self.__dict__.get(name)
    if found is None:
        found = make()
        if self._sharding.num_devices > 1:
            self.__dict__[name] = found
    else:
        self._check_if_deleted()
    return found


def _addressable_data(self, index: int) -> ArrayImpl:
    """Return the shard on one device of this process.

    Args:
        index: Index among the devices of this process that hold a shard; ignored if the array is fully replicated.

    Returns:
        The shard, as an array on one device.

    Example:
        >>> xnp.ones((2, 3)).addressable_data(0).shape
        (2, 3)
    """
    if not index and len(self._sharding._internal_device_list) == 1:
        self._check_if_deleted()
        return self
    if self._sharding.is_fully_replicated:
        index = 0
    return _addressable_shards(self)[index]._data


def _device(self) -> Any:
    """The device that holds the array, or its sharding if there are several.

    Example:
        >>> xnp.ones(3).device in xf.devices()
        True
    """
    self._check_if_deleted()
    if self._sharding.num_devices == 1:
        return next(iter(self._sharding.device_set))
    return self._sharding


def _copy_to_host_async(self) -> None:
    """Start copying the elements to the host, so that reading them later waits less.

    Example:
        >>> x = xnp.ones(3)
        >>> x.copy_to_host_async()
        >>> np.asarray(x)
        array([1., 1., 1.], dtype=float32)
    """
    self._check_if_deleted()
    if self._npy_value is None:
        for part in buffers_of(self):
            part._copy_single_device_array_to_host_async()


def make_array_from_single_device_arrays(shape: Sequence[int], sharding: Any, arrays: Sequence[Any], *,
                                         dtype: DTypeLike | None = None) -> ArrayImpl:
    """Assemble an array from its shards, one for each device of this process, without copying.

    Args:
        shape: Shape of the global array.
        sharding: Sharding of the array.
        arrays: The shards, each an array on its device.
        dtype: dtype of the array. Required if this process has no shards.

    Returns:
        The array.

    Raises:
        ValueError: If a shard has another shape or dtype than expected, or the devices are not those of the sharding.

    Example:
        >>> rows = xf.NamedSharding(xf.make_mesh((1,), ("data",)), xf.P("data"))
        >>> parts = [xf.device_put(np.ones((8, 4)), xf.devices()[0])]
        >>> xf.make_array_from_single_device_arrays((8, 4), rows, parts).sharding.spec
        P('data',)
    """
    caller = "make_array_from_single_device_arrays"
    _check_sharding(caller, sharding)
    if isinstance(arrays, ArrayImpl):
        raise TypeError(f"{caller} takes a list of arrays, one for each device; got one array of shape {arrays.shape}. Use "
                        f"device_put to shard an array.")
    arrays = list(arrays)
    shape = tuple(int(n) for n in shape)
    if arrays and hasattr(arrays[0], "_base_array"):  # a KeyArray around an array of words
        words = [part._base_array for part in arrays]
        made = make_array_from_single_device_arrays((*shape, *words[0].shape[len(shape):]), sharding, words)
        return type(arrays[0])(made, arrays[0].dtype)
    expected = tuple(sharding.shard_shape(shape))
    check_explicit_rank(sharding, shape)
    if not arrays and dtype is None:
        raise ValueError(f"{caller} needs `dtype` when this process has no shards.")
    expected_dtype = None if dtype is None else np.dtype(dtype)
    positions = _buffer_positions(sharding)
    ordered: list[Any] = [None] * len(positions)
    for i, part in enumerate(arrays):
        if not isinstance(part, ArrayImpl):
            raise (ValueError if isinstance(part, Tracer) else TypeError)(
                f"{caller}: arrays[{i}] must be an array on one device, got {type(part).__name__}. Create one with "
                f"device_put(part, device), outside of functions that are being traced.")
        part._check_if_deleted()
        buffers = buffers_of(part)
        if len(buffers) != 1:
            raise ValueError(f"{caller}: arrays[{i}] is on {len(buffers)} devices; each must be on one. Use the "
                             f"addressable_shards of an array.")
        aval = part.aval
        expected_dtype = aval.dtype if expected_dtype is None else expected_dtype
        if aval.shape != expected:
            raise ValueError(f"{caller}: arrays[{i}] has shape {aval.shape}; the shard shape expected for an array of shape "
                             f"{shape} is {expected} when it is sharded by {sharding}.")
        if aval.dtype != expected_dtype:
            raise ValueError(f"{caller}: arrays[{i}] has dtype {aval.dtype.name}, and not {expected_dtype.name} as "
                             f"{'arrays[0]' if dtype is None else '`dtype` says'}. Convert it with astype.")
        position = positions.get(_device_of(part))
        if position is not None:
            ordered[position] = buffers[0]
    if len(arrays) != len(positions) or any([buffer is None for buffer in ordered]):
        here, given = set(positions), [_device_of(part) for part in arrays]
        missing, extra = sorted(d.id for d in here - set(given)), sorted(d.id for d in set(given) - here)
        reasons = [f"none is on the device(s) {missing}"] if missing else []
        reasons += [f"the device(s) {extra} are not among them"] if extra else []
        raise ValueError(f"{caller} takes one array for each of the {len(here)} devices of the sharding in this process, got "
                         f"{len(given)}: {' and '.join(reasons) or 'some are on the same device'}.")
    return ArrayImpl(_type(shape, expected_dtype), sharding, ordered, committed=True, **skip_checks)


@functools.lru_cache(maxsize=4096)
def _buffer_positions(sharding) -> dict:
    """Return the devices of this process that hold shards, with the positions of their buffers in the array."""
    here = sharding.addressable_devices
    return {d: i for i, d in enumerate([d for d in sharding._device_assignment if d in here])}


def _device_of(part: ArrayImpl):
    own = part._sharding
    return own._device if type(own) is SingleDeviceSharding else next(iter(own.device_set))


def _check_sharding(caller: str, sharding) -> None:
    if not isinstance(sharding, Sharding):
        raise TypeError(f"{caller} takes a sharding, got {type(sharding).__name__}: {sharding!r}. For one device, pass "
                        f"SingleDeviceSharding(device).")


def make_array_from_callback(shape: Sequence[int], sharding: Any, data_callback: Callable[[tuple], Any],
                             dtype: DTypeLike | None = None) -> ArrayImpl:
    """Create an array from a function that returns the shard for an index.

    Args:
        shape: Shape of the global array.
        sharding: Sharding or `Format` of the array.
        data_callback: A function that takes an index, a tuple of slices of the global array, and returns this part. It is
            called once for each distinct index on the devices of this process.
        dtype: dtype of the array, which the shards must have. Required if this process has no shards.

    Returns:
        The array.

    Raises:
        ValueError: If the callback returns another shape or dtype than expected.

    Example:
        >>> rows = xf.NamedSharding(xf.make_mesh((1,), ("data",)), xf.P("data"))
        >>> xf.make_array_from_callback((4,), rows, lambda index: np.arange(4)[index])
        Array([0, 1, 2, 3], dtype=int32)
    """
    if isinstance(sharding, Format):
        made = make_array_from_callback(shape, sharding.sharding, data_callback, dtype)
        return made if not isinstance(sharding.layout, Layout) else layouts_in_use.relayout(made, sharding.layout)
    _check_sharding("make_array_from_callback", sharding)
    shape = tuple(int(n) for n in shape)
    expected = tuple(sharding.shard_shape(shape))
    indices, devices = shard_indices_and_devices(sharding, shape)
    found: dict[tuple, np.ndarray] = {}
    values = []
    wrapper = None
    for index, key in zip(indices, _keys(sharding, shape)):
        if key not in found:
            value = data_callback(index)
            if hasattr(value, "_trace"):
                raise errors.UnexpectedTracerError(
                    f"the callback of make_array_from_callback returned a tracer, of type {value.aval}, for the shard "
                    f"{_brief(index)}: the elements of a traced array are unknown. Call it outside of transformed functions, "
                    f"or return NumPy arrays.")
            if hasattr(value, "_base_array"):  # a KeyArray around an array of words
                wrapper, value = value, value._base_array
            found[key] = value = np.asarray(value)
            inner = value.shape if wrapper is None else value.shape[:wrapper.ndim]
            if value.dtype.kind in "OUSMm":
                raise TypeError(f"the callback of make_array_from_callback returned dtype {value.dtype} for the shard "
                                f"{_brief(index)}; the elements of arrays must be numbers.")
            if inner != expected:
                raise ValueError(f"the callback of make_array_from_callback returned shape {inner} for the shard "
                                 f"{_brief(index)} of an array of shape {shape}, but the expected shard shape is {expected}. "
                                 "Return only the part at the index, as in `lambda index: data[index]`.")
        values.append(found[key])
    if not values and dtype is None:
        raise ValueError("make_array_from_callback needs `dtype` when the sharding has no devices of this process.")
    kind = _type(shape, values[0].dtype if values else dtype).dtype
    for index, value in zip(indices, values):
        if value.dtype != values[0].dtype:
            raise ValueError(f"the callback of make_array_from_callback returned dtype {value.dtype.name} for the shard "
                             f"{_brief(index)} and {values[0].dtype.name} for another. Return one dtype for all.")
    if dtype is not None and kind != _type((), dtype).dtype:
        raise ValueError(f"the callback of make_array_from_callback returned dtype {kind.name}, and not {np.dtype(dtype).name} "
                         f"as `dtype` says. Convert its results.")
    global_shape = shape if wrapper is None else (*shape, *values[0].shape[wrapper.ndim:])
    values = [v.astype(kind, copy=False) for v in values]
    made = batched_device_put(_type(global_shape, kind), sharding, values, devices, True)
    return made if wrapper is None else type(wrapper)(made, wrapper.dtype)


@functools.lru_cache(maxsize=4096)
def _keys(sharding, shape: tuple[int, ...]) -> list[tuple]:
    """Return the indices of the shards on devices of this process, in hashable form."""
    return [_hashable(index) for index in shard_indices_and_devices(sharding, shape)[0]]


def _brief(index: tuple) -> str:
    """Return an index in Python's syntax: [0:1, :]."""
    return f"[{', '.join(f'{s.start}:{s.stop}' if s.stop is not None else ':' for s in index)}]"


def from_local_data(sharding, local_data, global_shape=None) -> ArrayImpl:
    """Return the array for one leaf of `make_array_from_process_local_data`."""
    local = np.asarray(local_data)
    devices = list(sharding._device_assignment)
    addressable = set(sharding.addressable_devices)
    if len(addressable) == len(devices):
        if global_shape is not None and tuple(global_shape) != local.shape:
            raise ValueError(f"all devices of the sharding belong to this process, so that global_shape should be None or the "
                             f"shape of local_data, {local.shape}; it is {tuple(global_shape)}.")
        return put_host(local, _type(local.shape, local.dtype), sharding, True)
    return _from_local_part(sharding, local, global_shape)


def _from_local_part(sharding, local, global_shape):
    """Return an array of which `local` is the part on this process.

    For each dimension, the part of the global array that the devices of this process cover is computed.
    """
    rank = local.ndim
    # Find the part that this process covers, for a global size that every partition divides.
    probe = tuple(_large_size(sharding, rank) for _ in range(rank))
    covered = [sorted({(s.start or 0, probe[d] if s.stop is None else s.stop) for s in (
        index[d] for index in sharding.addressable_devices_indices_map(probe).values())}) for d in range(rank)]
    fractions = [sum(b - a for a, b in ranges) / probe[d] for d, ranges in enumerate(covered)]
    shape = []
    for d in range(rank):
        given = None if global_shape is None else global_shape[d]
        shape.append(round(local.shape[d] / fractions[d]) if given is None else int(given))
    indices = sharding.addressable_devices_indices_map(tuple(shape))
    values = []
    offsets: list[dict] = []
    for d in range(rank):
        if local.shape[d] == shape[d]:
            offsets.append({})
            continue
        bounds = sorted({(index[d].start or 0, shape[d] if index[d].stop is None else index[d].stop)
                         for index in indices.values()})
        at, table = 0, {}
        for a, b in bounds:
            table[a] = at
            at += b - a
        if at != local.shape[d]:
            raise ValueError(
                f"local_data of shape {local.shape} is no part of an array of shape {tuple(shape)} over {sharding}: along "
                f"dimension {d} the devices of this process hold {at} of {shape[d]}, and local_data has {local.shape[d]}. Pass "
                f"the part that this process holds, or the global array, or omit global_shape.")
        offsets.append(table)
    for index in indices.values():
        slices = []
        for d, s in enumerate(index):
            start, stop = s.start or 0, shape[d] if s.stop is None else s.stop
            shift = offsets[d].get(start, start)
            slices.append(slice(shift, shift + stop - start))
        values.append(local[tuple(slices)])
    return batched_device_put(_type(tuple(shape), local.dtype), sharding, values, list(indices), True)


def _large_size(sharding, rank: int) -> int:
    return len(sharding._device_assignment)


def _is_fully_addressable(self) -> bool:
    """True if all shards are on devices of this process.

    Example:
        >>> xnp.ones(3).is_fully_addressable
        True
    """
    return self._sharding.is_fully_addressable


def _is_fully_replicated(self) -> bool:
    """True if each device holds all elements.

    Example:
        >>> xnp.ones(3).is_fully_replicated
        True
    """
    return self._sharding.is_fully_replicated


def _device_buffer(self) -> ArrayImpl:
    """The array itself, if it is on one device; prefer `addressable_data(0)`.

    Example:
        >>> xnp.ones(3).device_buffer.shape
        (3,)
    """
    return self


def _device_buffers(self) -> list[ArrayImpl]:
    """The shards on the devices of this process as arrays; prefer `addressable_shards`.

    Example:
        >>> len(xnp.ones(3).device_buffers)
        1
    """
    return list(_local_arrays(self).values())


# Those of the runtime abort the process if the array is deleted.
_ready_of_runtime, _platform_of_runtime = ArrayImpl.is_ready, ArrayImpl.platform


def _is_ready(self) -> bool:
    """True if the elements have been computed. Does not wait for them.

    Returns:
        A bool.

    Example:
        >>> xnp.ones(3).block_until_ready().is_ready()
        True
    """
    self._check_if_deleted()
    return _ready_of_runtime(self)


def _platform(self) -> str:
    """Return the name of the platform of its devices, for example "cpu".

    Returns:
        The name.

    Example:
        >>> xnp.ones(3).platform() == xf.devices()[0].platform
        True
    """
    self._check_if_deleted()
    return _platform_of_runtime(self)


def _format(self) -> Format:
    """The `Format` of the array: its layout in memory (`layout`) and its sharding (`sharding`).

    Example:
        >>> xnp.ones((2, 3)).format.layout.major_to_minor
        (0, 1)
    """
    if self.is_deleted():
        return Format(None, self._sharding)
    return Format(Layout.from_pjrt_layout(self._pjrt_layout), self._sharding)


def _attach() -> None:
    cls = ArrayImpl
    cls.is_fully_addressable = property(_is_fully_addressable)
    cls.is_fully_replicated = property(_is_fully_replicated)
    cls.addressable_shards = property(_addressable_shards)
    cls.global_shards = property(_global_shards)
    cls.addressable_data = _addressable_data
    cls.device = property(_device)
    cls.copy_to_host_async = _copy_to_host_async
    cls.device_buffer, cls.device_buffers = property(_device_buffer), property(_device_buffers)
    cls.is_ready, cls.platform = _is_ready, _platform
    cls.format = property(_format)


_attach()
