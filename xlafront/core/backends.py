"""Which clients and devices this process uses: the settings' side of `runtime.clients`."""

from __future__ import annotations

import math
import os
from typing import Any

from xlafront.runtime import config, distributed
from xlafront.runtime.clients import PlatformError, canonical_platform, clients
from xlafront.runtime.disk_cache import DiskCache, default_directory
from xlafront.runtime.jaxlib_compat import Device

_TIMEOUTS = ("cpu_get_local_topology_timeout_minutes", "cpu_get_global_topology_timeout_minutes")


def settings() -> dict:
    return {"num_cpu_devices": config.num_cpu_devices.value, "cuda_visible_devices": config.cuda_visible_devices.value,
            "cpu_enable_async_dispatch": config.cpu_enable_async_dispatch.value,
            "cpu_timeouts": {name.removeprefix("cpu_"): config.settings[name].value for name in _TIMEOUTS},
            **distributed.state.client_settings()}


def wanted_platforms() -> list[str]:
    text = config.platforms.value or config.platform_name.value or ""
    return [name for name in text.split(",") if name.strip()]


def client(platform=None):
    """The client of a platform (`"cpu"`, `"gpu"`, `"cuda"`, `"tpu"`), or the default one."""
    if platform is None:
        started = clients.default
        return clients.choose_default(wanted_platforms(), settings()) if started is None else clients.started[started]
    if not isinstance(platform, str):
        return platform
    name = canonical_platform(platform)
    wanted = wanted_platforms()
    if wanted and name not in [canonical_platform(w) for w in wanted]:
        raise PlatformError(f"Unknown backend {platform!r}: the platform is switched off, XLAFRONT_PLATFORMS (or the setting "
                            f"'platforms') allows only {','.join(wanted)}.")
    return clients.get(name, settings())


def lowering_platform(client) -> str:
    """The name under which lowering rules know the client's platform."""
    name = client._raw_platform
    return "cuda" if name == "gpu" else name


def default_backend() -> str:
    """The name of the platform that arrays go to by default: `"cpu"`, `"gpu"` or `"tpu"`.

    >>> xlafront.default_backend()
    'cpu'
    """
    return client().platform


def devices(backend: str | None = None) -> list:
    """All devices of a platform, those of other processes included.

    - `backend`: the platform, "cpu", "gpu" or "tpu"; the default one when left out.

    >>> xf.devices("cpu")[0].platform
    'cpu'
    """
    return client(backend).devices()


def local_devices(process_index: int | None = None, backend: str | None = None, host_id: int | None = None) -> list:
    """The devices of one process.

    - `process_index`: the number of the process; this one when left out. `host_id` is an older name.
    - `backend`: as of `devices`.

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
    """The number of all devices of a platform.

    - `backend`: as of `devices`.

    >>> xf.device_count() == len(xf.devices())
    True
    """
    return client(backend).device_count()


def local_device_count(backend: str | None = None) -> int:
    """The number of devices of this process.

    - `backend`: as of `devices`.

    >>> xf.local_device_count() == len(xf.local_devices())
    True
    """
    return client(backend).local_device_count()


def process_index(backend: str | None = None) -> int:
    """The number of this process among those that compute together.

    - `backend`: as of `devices`.

    >>> xf.process_index() in xf.process_indices()
    True
    """
    return client(backend).process_index()


def process_count(backend: str | None = None) -> int:
    """The number of processes that compute together.

    - `backend`: as of `devices`.

    >>> xf.process_count() == len(xf.process_indices())
    True
    """
    chosen = client(backend)
    if chosen.device_count() == chosen.local_device_count():
        return chosen.process_index() + 1
    return max(d.process_index for d in chosen.devices()) + 1


def process_indices(backend: str | None = None) -> list[int]:
    """The numbers of the processes that compute together, in order.

    - `backend`: as of `devices`.

    >>> xf.process_index() in xf.process_indices()
    True
    """
    return sorted({d.process_index for d in devices(backend)})


def default_device():
    """Where new arrays go: the `default_device` setting, else the first local device."""
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
    raise ValueError(f"the setting default_device takes a device object, as devices()[0], or the name of a platform, got "
                     f"{chosen!r}.")


_cache: list = []


def disk_cache(also_off: bool = False):
    """The compile cache on disk, as the settings say; where they switch it off None, or what it would be."""
    size = config.compilation_cache_max_size.value
    if not (also_off or config.enable_compilation_cache.value and size):
        return None
    given = config.cache_dir.value
    key = (os.path.abspath(os.path.expanduser(given)) if given else default_directory(), size if size >= 0 else math.inf,
           config.compilation_cache_min_compile_time_secs.value)
    if not _cache or _cache[0] != key:
        _cache[:] = [key, DiskCache(*key)]
    return _cache[1]


def set_cache_dir(path: Any) -> None:
    """Keep compiled programs in this directory from now on, as the setting `compilation_cache_dir` says.

    - `path`: the directory, which is made where it is missing; None for the default one.

    >>> before = xf.config.compilation_cache_dir
    >>> set_cache_dir("/tmp/compiled")
    >>> xf.config.compilation_cache_dir
    '/tmp/compiled'
    >>> set_cache_dir(before)
    """
    config.cache_dir.set(None if path is None else os.fspath(path))


def reset_cache() -> None:
    """Look at the directory of compiled programs anew when the next program is compiled. What is in it stays.

    >>> reset_cache()
    """
    _cache.clear()


def _refuse_late_change(value) -> None:
    if "cpu" in clients.started and value != config.num_cpu_devices.value:
        raise RuntimeError(
            f"num_cpu_devices cannot be changed to {value}: the CPU client has started with "
            f"{len(clients.started['cpu'].devices())} device(s). Set it before the first array is made.")


config.on_update("num_cpu_devices", _refuse_late_change)
