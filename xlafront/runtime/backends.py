"""Clients and devices of this process, chosen by the settings; `runtime.clients` starts them."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

from xlafront.base import config
from xlafront.base.jaxlib_compat import Device
from xlafront.base.platforms import PlatformError, canonical_platform
from xlafront.core import source
from xlafront.runtime import distributed
from xlafront.runtime.clients import clients
from xlafront.runtime.disk_cache import DiskCache, default_directory

_TIMEOUTS = ("cpu_get_local_topology_timeout_minutes", "cpu_get_global_topology_timeout_minutes")


def settings() -> dict:
    return {"num_cpu_devices": config.num_cpu_devices.value, "cuda_visible_devices": config.cuda_visible_devices.value,
            "cpu_enable_async_dispatch": config.cpu_enable_async_dispatch.value,
            "cpu_timeouts": {name.removeprefix("cpu_"): config.settings[name].value for name in _TIMEOUTS},
            **distributed.state.client_settings()}


def requested_platforms() -> list[str]:
    text = config.platforms.value or config.platform_name.value or ""
    return [name for name in text.split(",") if name.strip()]


def client(platform=None):
    """Return the client of a platform (`"cpu"`, `"gpu"`, `"cuda"`, `"tpu"`), or the default one."""
    if platform is None:
        started = clients.default
        return clients.choose_default(requested_platforms(), settings()) if started is None else clients.started[started]
    if not isinstance(platform, str):
        return platform
    name = canonical_platform(platform)
    allowed = requested_platforms()
    if allowed and name not in [canonical_platform(p) for p in allowed]:
        raise PlatformError(f"Unknown backend {platform!r}: the platform is switched off, XLAFRONT_PLATFORMS (or the setting "
                            f"'platforms') allows only {','.join(allowed)}.")
    return clients.get(name, settings())


def lowering_platform(client) -> str:
    """Return the name under which lowering rules are registered for the client's platform."""
    name = client._raw_platform
    return "cuda" if name == "gpu" else name


def default_backend() -> str:
    """Return the name of the default platform of arrays: `"cpu"`, `"gpu"` or `"tpu"`.

    Returns:
        The name.

    Example:
        >>> xlafront.default_backend()
        'cpu'
    """
    return client().platform


def devices(backend: str | None = None) -> list[Device]:
    """Return all devices of a platform, including those of other processes.

    Args:
        backend: Name of the platform: "cpu", "gpu" or "tpu". Default: the default platform.

    Returns:
        A list of devices.

    Example:
        >>> xf.devices("cpu")[0].platform
        'cpu'
    """
    return client(backend).devices()


def local_devices(process_index: int | None = None, backend: str | None = None, host_id: int | None = None) -> list[Device]:
    """Return the devices of one process.

    Args:
        process_index: Index of the process. Default: this process.
        backend: Name of the platform. Default: the default platform.
        host_id: An older name of `process_index`.

    Returns:
        A list of devices.

    Raises:
        ValueError: If there is no such process.

    Example:
        >>> set(xf.local_devices()) <= set(xf.devices())
        True
    """
    index = host_id if process_index is None else process_index
    chosen = client(backend)
    if index is None:
        return chosen.local_devices()
    if not 0 <= index < process_count(backend):
        raise ValueError(f"there is no process {index}: this program runs in {process_count(backend)} process(es)")
    return [d for d in chosen.devices() if d.process_index == index]


def device_count(backend: str | None = None) -> int:
    """Return the number of devices of a platform, including those of other processes.

    Args:
        backend: Name of the platform. Default: the default platform.

    Returns:
        The number of devices.

    Example:
        >>> xf.device_count() == len(xf.devices())
        True
    """
    return client(backend).device_count()


def local_device_count(backend: str | None = None) -> int:
    """Return the number of devices of this process.

    Args:
        backend: Name of the platform. Default: the default platform.

    Returns:
        The number of devices.

    Example:
        >>> xf.local_device_count() == len(xf.local_devices())
        True
    """
    return client(backend).local_device_count()


def process_index(backend: str | None = None) -> int:
    """Return the index of this process among those of the program.

    Args:
        backend: Name of the platform. Default: the default platform.

    Returns:
        The index, counted from 0.

    Example:
        >>> xf.process_index() in xf.process_indices()
        True
    """
    return client(backend).process_index()


def process_count(backend: str | None = None) -> int:
    """Return the number of processes of the program.

    Args:
        backend: Name of the platform. Default: the default platform.

    Returns:
        The number of processes.

    Example:
        >>> xf.process_count() == len(xf.process_indices())
        True
    """
    chosen = client(backend)
    if chosen.device_count() == chosen.local_device_count():
        return chosen.process_index() + 1
    return max(d.process_index for d in chosen.devices()) + 1


def process_indices(backend: str | None = None) -> list[int]:
    """Return the indices of the processes of the program.

    Args:
        backend: Name of the platform. Default: the default platform.

    Returns:
        A sorted list of indices.

    Example:
        >>> xf.process_index() in xf.process_indices()
        True
    """
    return sorted({d.process_index for d in devices(backend)})


def _renamed(old: str, new: Callable) -> None:
    source.warn(f"{old} is an older name of {new.__name__}, which programs should use.")


def host_id(backend: str | None = None) -> int:
    """Return the index of this process: an older name of `process_index`.

    Args:
        backend: Name of the platform. Default: the default platform.

    Returns:
        The index, counted from 0.

    Example:
        >>> xf.host_id() == xf.process_index()
        True
    """
    _renamed("host_id", process_index)
    return process_index(backend)


def host_count(backend: str | None = None) -> int:
    """Return the number of processes of the program: an older name of `process_count`.

    Args:
        backend: Name of the platform. Default: the default platform.

    Returns:
        The number of processes.

    Example:
        >>> xf.host_count() == xf.process_count()
        True
    """
    _renamed("host_count", process_count)
    return process_count(backend)


def host_ids(backend: str | None = None) -> list[int]:
    """Return the indices of the processes of the program: an older name of `process_indices`.

    Args:
        backend: Name of the platform. Default: the default platform.

    Returns:
        A sorted list of indices.

    Example:
        >>> xf.host_ids() == xf.process_indices()
        True
    """
    _renamed("host_ids", process_indices)
    return process_indices(backend)


def default_device():
    """Return the device of new arrays: the setting `default_device`, else the first local device."""
    chosen = config.default_device.value
    if chosen is None:
        return client().local_devices()[0]
    if isinstance(chosen, Device):
        return chosen
    try:
        if isinstance(chosen, str):
            return client(chosen).local_devices()[0]
    except PlatformError as e:
        raise PlatformError(f"the setting default_device is {chosen!r}: {e}") from None
    raise ValueError(f"the setting default_device takes a device, such as devices()[0], or the name of a platform, got "
                     f"{chosen!r}.")


_cache: list = []


def disk_cache(also_off: bool = False):
    """Return the compilation cache on disk, according to the settings; None if it is off, unless `also_off` is set."""
    size = config.compilation_cache_max_size.value
    if not (also_off or config.enable_compilation_cache.value and size):
        return None
    key = (config.cache_dir.value or default_directory(), size if size >= 0 else math.inf,
           config.compilation_cache_min_compile_time_secs.value)
    if not _cache or _cache[0] != key:
        _cache[:] = [key, DiskCache(*key)]
    return _cache[1]


def set_cache_dir(path: Any) -> None:
    """Set the directory of the compilation cache.

    This is the setting `compilation_cache_dir`.

    Args:
        path: The directory, which is created if it does not exist. None: the default directory.

    Example:
        >>> before = xf.config.compilation_cache_dir
        >>> set_cache_dir("/tmp/compiled")
        >>> xf.config.compilation_cache_dir
        '/tmp/compiled'
        >>> set_cache_dir(before)
    """
    config.cache_dir.set(None if path is None else os.fspath(path))


def reset_cache() -> None:
    """Reopen the compilation cache on disk at the next compilation. Its entries stay.

    Example:
        >>> reset_cache()
    """
    _cache.clear()


def _refuse_late_change(value) -> None:
    if "cpu" in clients.started and value != config.num_cpu_devices.value:
        raise RuntimeError(
            f"num_cpu_devices cannot be changed to {value}: the CPU client has started with "
            f"{len(clients.started['cpu'].devices())} device(s). Set it before the first array is made.")


config.on_update("num_cpu_devices", _refuse_late_change)
