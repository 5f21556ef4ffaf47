"""PJRT clients and their devices, created on first use.

A platform is a row of `PLATFORMS`. This module finds and starts platforms; callers choose which ones to try, and with what
options (`runtime.backends` reads the settings).
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from xlafront.base import platforms
from xlafront.base.jaxlib_compat import Client, _jax, collect_garbage
from xlafront.base.platforms import PlatformError, canonical_platform
from xlafront.runtime import kernel_libraries
from xlafront.runtime.kernel_libraries import site_file


def _make_cpu(settings) -> Client:
    options: dict = {"asynchronous": settings.get("cpu_enable_async_dispatch", True), **settings.get("cpu_timeouts", {})}
    if settings.get("num_cpu_devices", -1) > 0:
        options["num_devices"] = settings["num_cpu_devices"]
    distributed = settings.get("distributed_client")
    if distributed is not None and settings["num_processes"] > 1:
        options |= {"distributed_client": distributed, "node_id": settings["process_id"],
                    "num_nodes": settings["num_processes"],
                    "collectives": _jax.make_gloo_tcp_collectives(distributed_client=distributed,
                                                                  hostname=settings["own_address"])}
    return _jax.get_tfrt_cpu_client(**options)


def find_cuda() -> str | None:
    return site_file("jax_plugins/xla_cuda13/xla_cuda_plugin.so", "jax_plugins/xla_cuda12/xla_cuda_plugin.so")


def find_tpu() -> str | None:
    return os.environ.get("TPU_LIBRARY_PATH") or site_file("libtpu/libtpu.so")


@functools.cache
def libtpu_version() -> tuple[int, ...] | None:
    """Return the version of the installed libtpu, None if there is none."""
    from importlib import metadata  # start-up: slow

    try:
        return tuple(map(int, re.findall(r"\d+", metadata.version("libtpu"))[:3]))
    except metadata.PackageNotFoundError:
        return None


@functools.cache
def has_cuda_device() -> bool:
    return any(os.path.exists(path) for path in ("/dev/nvidia0", "/dev/nvidiactl", "/dev/dxg"))


@functools.cache
def has_tpu_device() -> bool:
    if os.environ.get("TPU_SKIP_MDS_QUERY") and not os.path.exists("/dev/vfio"):
        return False
    return any(os.path.exists(path) for path in ("/dev/accel0", "/dev/vfio/0", "/dev/vfio/1"))


_plugins: dict[str, Any] = {}  # their C APIs


def load_plugin(name: str, library: str) -> Any:
    if name not in _plugins:
        _plugins[name] = _jax.load_pjrt_plugin(name, library)
        if not _jax.pjrt_plugin_initialized(name):
            _jax.initialize_pjrt_plugin(name)
        if name == "cuda":
            kernel_libraries.register_cuda(_plugins[name])
    return _plugins[name]


def loaded_plugins() -> dict[str, Any]:
    """Return the C APIs of the loaded plugins, by name."""
    return dict(_plugins)


def gpu_memory_options(environ) -> dict:
    """Return the allocator options from the environment variables `XLA_PYTHON_CLIENT_*`."""
    options: dict = {}
    allocator = environ.get("XLA_PYTHON_CLIENT_ALLOCATOR", "default").lower()
    if allocator not in ("default", "platform", "bfc", "cuda_async"):
        raise ValueError(f"XLA_PYTHON_CLIENT_ALLOCATOR is {allocator!r}; it can be default, platform, bfc or cuda_async.")
    options["allocator"] = allocator
    preallocate = environ.get("XLA_PYTHON_CLIENT_PREALLOCATE", "")
    if preallocate:
        options["preallocate"] = preallocate.lower() in ("1", "true", "yes", "on")
    fraction = environ.get("XLA_PYTHON_CLIENT_MEM_FRACTION") or environ.get("XLA_CLIENT_MEM_FRACTION", "")
    if fraction:
        try:
            options["memory_fraction"] = float(fraction)
        except ValueError:
            raise ValueError(f"XLA_PYTHON_CLIENT_MEM_FRACTION is {fraction!r}; it must be a number such as 0.75.") from None
    return options


def _make_cuda(settings) -> Client:
    library = find_cuda()
    if library is None:
        raise PlatformError("the CUDA plugin is not installed: pip install 'xlafront[cuda13]'")
    load_plugin("cuda", library)
    options: dict = {"platform_name": "cuda", **gpu_memory_options(os.environ)}
    visible = settings.get("cuda_visible_devices", "all")
    if visible not in ("all", "", None):
        options["visible_devices"] = [int(index) for index in visible.split(",")]
    distributed = settings.get("distributed_client")
    if distributed is not None:
        options |= {"node_id": settings["process_id"], "num_nodes": settings["num_processes"]}
        if settings.get("partition_index") is not None:
            options["partition_index"] = settings["partition_index"]
    return _jax.get_c_api_client("cuda", options, distributed)


def _make_tpu(settings) -> Client:
    library = find_tpu()
    if library is None:
        raise PlatformError("libtpu is not installed: pip install 'xlafront[tpu]'")
    with without_local_tpu():
        load_plugin("tpu", library)
        return _jax.get_c_api_client("tpu", {}, settings.get("distributed_client"))


@contextlib.contextmanager
def without_local_tpu() -> Iterator[None]:
    """Answer libtpu's queries on machines without TPUs. On others this does nothing.

    libtpu looks up its configuration in the environment, then for minutes on the cloud's metadata server. The variables set
    here are removed again, since they would mislead child processes.
    """
    defaults = {"TPU_SKIP_MDS_QUERY": "1", "TPU_ACCELERATOR_TYPE": "v5litepod-1", "TPU_WORKER_HOSTNAMES": "localhost",
               "TPU_WORKER_ID": "0", "TPU_STDERR_LOG_LEVEL": "3", "TPU_MIN_LOG_LEVEL": "3",
               "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}  # several processes may compile, since none of them uses chips
    missing = {} if has_tpu_device() else {k: v for k, v in defaults.items() if k not in os.environ}
    os.environ.update(missing)
    try:
        yield
    finally:
        for variable in missing:
            del os.environ[variable]


def is_compile_only(client: Client) -> bool:
    """Return True if a client can only compile, for devices of other machines."""
    return client.runtime_type == "compile_only_runtime"


class _Platform:
    __slots__ = ("name", "make", "available", "priority")

    def __init__(self, name: str, make: Callable, available: Callable[[], bool], priority: int):
        self.name, self.make, self.available, self.priority = name, make, available, priority


PLATFORMS: dict[str, _Platform] = {row.name: row for row in (
    _Platform("cpu", _make_cpu, lambda: True, 0),
    _Platform("cuda", _make_cuda, lambda: has_cuda_device() and find_cuda() is not None, 200),
    _Platform("tpu", _make_tpu, lambda: has_tpu_device() and find_tpu() is not None, 300),
)}


def _collect_runtime_garbage(phase: str, info: dict) -> None:
    """Collect jaxlib's garbage after Python's garbage collection.

    jaxlib defers the release of objects freed without Python's lock: after each wait for an array, and for each deleted
    executable.
    """
    if phase == "stop":
        collect_garbage()


class Clients:
    """The clients of this process, in order of preference."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.started: dict[str, Client] = {}
        self.failures: dict[str, str] = {}
        self.default: str | None = None
        self.inherited: dict[str, Client] = {}  # in a forked process: clients of the parent, whose threads it does not have

    def get(self, name: str, settings) -> Client:
        """Return the client of a platform, started on first use; raise PlatformError if that fails."""
        client = self.started.get(name)
        if client is not None:
            return client
        self.refuse_forked()
        with self.lock:
            if name in self.started:
                return self.started[name]
            try:
                client = PLATFORMS[name].make(settings)
            except PlatformError as e:
                self.failures[name] = str(e)
                raise PlatformError(f"the platform {name!r} is not available, its backend failed to initialize: {e}") from None
            except Exception as e:
                self.failures[name] = str(e)
                raise PlatformError(f"the platform {name!r} could not be started: {e}") from None
            self.started[name] = client
            if _collect_runtime_garbage not in gc.callbacks:
                gc.callbacks.append(_collect_runtime_garbage)
            return client

    def before_fork(self) -> None:
        if self.started:
            warnings.warn("os.fork() was called after xlafront had started its runtime, which is multithreaded: the threads do "
                          "not come along, and a forked process that computes with arrays would deadlock. Start processes with "
                          "multiprocessing.get_context('spawn'), or fork before the first array.", RuntimeWarning, stacklevel=2)

    def after_fork(self) -> None:
        self.lock = threading.RLock()
        self.inherited, self.started, self.default = self.inherited | self.started, {}, None

    def refuse_forked(self) -> None:
        if self.inherited:
            raise RuntimeError("this process was forked from one in which xlafront had started its runtime, whose threads did "
                               "not come along, so that it cannot compute with arrays: it would wait for ever. Start it with "
                               "multiprocessing.get_context('spawn'), or fork before the first array.")

    def choose_default(self, requested: Sequence[str], settings) -> Client:
        """Start the requested platforms and return the client of the first; by default that of the best available one."""
        if self.default is not None:
            return self.started[self.default]
        self.refuse_forked()
        with self.lock:
            if self.default is None:
                self.default = self._pick(requested, settings)
            return self.started[self.default]

    def _pick(self, requested, settings) -> str:
        if requested:
            for name in requested:
                self.get(canonical_platform(name), settings)
            return canonical_platform(requested[0])
        for row in sorted(PLATFORMS.values(), key=lambda row: -row.priority):
            if not row.available():
                continue
            try:
                self.get(row.name, settings)
                return row.name
            except PlatformError as e:
                if row.name == "cpu":
                    raise
                warnings.warn(f"{e} Falling back to the next platform; set XLAFRONT_PLATFORMS={row.name} to make this "
                              f"an error, or XLAFRONT_PLATFORMS=cpu to be silent.", stacklevel=2)
        raise PlatformError("no platform could be started")

    def register(self, name: str, factory: Callable[[], Client | None], priority: int, fail_quietly: bool,
                 experimental: bool) -> None:
        """Add a platform whose client `factory()` creates."""
        def make(settings) -> Client:
            client = factory()
            if client is None:
                raise PlatformError("its factory returned no client")
            return client

        def available() -> bool:
            """Return True if the platform can be tried; one that may fail quietly is started to find out."""
            if not fail_quietly:
                return True
            try:
                self.get(name, {})
            except PlatformError:
                return False
            if experimental:
                warnings.warn(f"the platform {name!r} is experimental.", stacklevel=3)
            return True

        platforms.NAMES.add(name)
        PLATFORMS[name] = _Platform(name, make, available, priority)

    def clear(self) -> None:
        with self.lock:
            self.started.clear()
            self.failures.clear()
            self.default = None


clients = Clients()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(before=clients.before_fork, after_in_child=clients.after_fork)
