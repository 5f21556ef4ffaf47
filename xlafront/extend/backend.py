"""The clients of this process: which there are, starting others, forgetting what they hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlafront.core import backends as _backends
from xlafront.runtime.clients import PLATFORMS, PlatformError, clients
from xlafront.runtime.compile_options import get_compile_options as get_compile_options
from xlafront.runtime.jaxlib_compat import Client
from xlafront.staging.caches import clear_caches, clear_executables

_caches: list[tuple[Any, str]] = []


def backends() -> dict[str, Client]:
    """The clients of all platforms that this machine has, by name; starts them.

    >>> "cpu" in backends()
    True
    """
    _backends.client()
    for row in sorted(PLATFORMS.values(), key=lambda row: -row.priority):
        wanted = [w for w in _backends.wanted_platforms()]
        if row.available() and (not wanted or row.name in wanted):
            try:
                clients.get(row.name, _backends.settings())
            except PlatformError:
                continue
    return dict(clients.started)


def get_backend(platform: Any = None) -> Client:
    """The client of a platform, the default one without a name.

    >>> get_backend("cpu").platform
    'cpu'
    """
    return _backends.client(platform)


def get_default_device():
    """The device that new arrays go to.

    >>> device = get_default_device()
    """
    return _backends.default_device()


def backend_xla_version(platform: Any = None) -> int | None:
    """The version of XLA that a platform's plugin was built with, None where it does not say.

    >>> version = backend_xla_version()
    """
    return getattr(get_backend(platform), "xla_version", None)


def register_backend_cache(cache: Any, for_what: str) -> None:
    """Have a cache emptied, with its `cache_clear()`, when the clients are forgotten.

    >>> from functools import lru_cache
    >>> register_backend_cache(lru_cache(len), "lengths")
    """
    if not callable(getattr(cache, "cache_clear", None)):
        raise TypeError(f"register_backend_cache takes an object with a method cache_clear, got {type(cache).__name__}.")
    _caches.append((cache, for_what))


def clear_in_memory_compilation_cache() -> None:
    """Forget compiled programs; what was traced stays.

    >>> clear_in_memory_compilation_cache()
    """
    clear_executables()


def clear_backends(_crash: bool = False) -> None:
    """Forget all clients and what was compiled for them. Arrays made before keep their own, and cannot be mixed with new ones.

    >>> # clear_backends()
    """
    clear_caches()
    for cache, _ in _caches:
        cache.cache_clear()
    clients.clear()


def register_backend_factory(name: str, factory: Callable[[], Client | None], *, priority: int = 0, fail_quietly: bool = True,
                             experimental: bool = False, make_topology: Callable | None = None, c_api: Any = None) -> None:
    """Add a platform: `factory()` makes its client. The one of highest priority that starts is the default.

    When the platform fails to start, the next is taken, with a warning unless `fail_quietly`.

    >>> register_backend_factory("my_cpu", lambda: get_backend("cpu"), priority=-1)
    """
    if clients.default is not None and priority > PLATFORMS[clients.default].priority:
        raise RuntimeError(f"the platform {name!r} was registered after the clients were started, when {clients.default} had "
                           f"become the default. Register it before the first array is made.")
    clients.register(name, factory, priority, fail_quietly, experimental)
