"""The clients of this process: listing, registration of platforms, and clearing of caches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlafront.base.jaxlib_compat import Client
from xlafront.base.platforms import PlatformError
from xlafront.runtime import backends as _backends
from xlafront.runtime.clients import PLATFORMS, clients
from xlafront.runtime.compile_options import get_compile_options as get_compile_options
from xlafront.staging.caches import clear_caches, clear_executables

_caches: list[tuple[Any, str]] = []


def backends() -> dict[str, Client]:
    """Return the clients of all platforms of this machine, by name; start them if necessary.

    Example:
        >>> "cpu" in backends()
        True
    """
    _backends.client()
    for row in sorted(PLATFORMS.values(), key=lambda row: -row.priority):
        requested = [platform for platform in _backends.requested_platforms()]
        if row.available() and (not requested or row.name in requested):
            try:
                clients.get(row.name, _backends.settings())
            except PlatformError:
                continue
    return dict(clients.started)


def get_backend(platform: Any = None) -> Client:
    """Return the client of a platform. Default: the default platform.

    Example:
        >>> get_backend("cpu").platform
        'cpu'
    """
    return _backends.client(platform)


def get_default_device():
    """Return the device on which new arrays are created.

    Example:
        >>> device = get_default_device()
    """
    return _backends.default_device()


def backend_xla_version(platform: Any = None) -> int | None:
    """Return the XLA version of a platform's plugin, or None if it has no version.

    Example:
        >>> version = backend_xla_version()
    """
    return getattr(get_backend(platform), "xla_version", None)


def register_backend_cache(cache: Any, for_what: str) -> None:
    """Register a cache that is cleared, by its method `cache_clear`, when the clients are cleared.

    Example:
        >>> from functools import lru_cache
        >>> register_backend_cache(lru_cache(len), "lengths")
    """
    if not callable(getattr(cache, "cache_clear", None)):
        raise TypeError(f"register_backend_cache takes an object with a method cache_clear, got {type(cache).__name__}.")
    _caches.append((cache, for_what))


def clear_in_memory_compilation_cache() -> None:
    """Clear the compiled executables; traced jaxprs remain cached.

    Example:
        >>> clear_in_memory_compilation_cache()
    """
    clear_executables()


def clear_backends(_crash: bool = False) -> None:
    """Clear all clients and their executables. Existing arrays retain their clients, and cannot be mixed with new arrays.

    Example:
        >>> # clear_backends()
    """
    clear_caches()
    for cache, _ in _caches:
        cache.cache_clear()
    clients.clear()


def register_backend_factory(name: str, factory: Callable[[], Client | None], *, priority: int = 0, fail_quietly: bool = True,
                             experimental: bool = False, make_topology: Callable | None = None, c_api: Any = None) -> None:
    """Register a platform: `factory()` returns its client. The platform of highest priority that starts is the default.

    If a platform does not start, the next one is used, with a warning unless `fail_quietly`.

    Example:
        >>> register_backend_factory("my_cpu", lambda: get_backend("cpu"), priority=-1)
    """
    if clients.default is not None and priority > PLATFORMS[clients.default].priority:
        raise RuntimeError(f"the platform {name!r} was registered after the clients were started, when {clients.default} had "
                           f"become the default. Register it before the first array is made.")
    clients.register(name, factory, priority, fail_quietly, experimental)
