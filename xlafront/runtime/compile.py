"""Compilation: a module becomes a loaded executable, possibly through the disk cache."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xlafront.base import config
from xlafront.base.jaxlib_compat import CompileOptions, JaxRuntimeError
from xlafront.runtime import backpressure, effects as runtime_effects, foreign_functions, monitoring
from xlafront.runtime.clients import clients, is_compile_only
from xlafront.runtime.interrupts import interruptible
from xlafront.runtime.sharding import device_list


class CompileRequest(NamedTuple):
    """A module to compile, and the devices to compile it for."""

    module: Any
    client: Any
    devices: tuple
    options: CompileOptions
    host_callbacks: Sequence[Any]
    key: str | None  # of `disk_cache.cache_key`; None: other processes must not use the executable
    is_interruptible: bool = False  # True if an interrupt ends the wait for the compiler


class CompiledModule(NamedTuple):
    """A loaded executable. If it came from disk it cannot be stored again, since it lacks the code of its kernels."""

    loaded: Any
    from_disk: bool = False
    upgrade: Any = None  # the `tiers.Upgrade` that will replace it


def load_module(request: CompileRequest, cache: Any) -> CompiledModule | None:
    """Return the executable of a module from the disk cache; None if it is not there."""
    if not _is_cached(request, cache):
        return None
    executable = _load(request, device_list(request.devices), cache)
    return None if executable is None else CompiledModule(executable, from_disk=True)


def compile_module(request: CompileRequest, cache=None) -> CompiledModule:
    """Compile a module, or load its executable from the disk cache."""
    clients.refuse_forked()
    devices = device_list(request.devices)
    if is_compile_only(request.client):
        return CompiledModule(_compile_for_absent_device(request, devices))
    if len(request.devices) > 1 and request.client.platform == "cpu":
        backpressure.install()
    _report_cache_use(cache is not None)
    if (found := load_module(request, cache)) is not None:
        return found
    started = time.perf_counter()
    executable = _compile(request, devices)
    compile_seconds = time.perf_counter() - started
    if _is_cached(request, cache):
        _store(request.key, executable, compile_seconds, cache)
    return CompiledModule(executable)


def _is_cached(request: CompileRequest, cache: Any) -> bool:
    """Return True if the disk cache may have the executable, or may store it."""
    if cache is None or request.key is None or is_compile_only(request.client):
        return False
    return not _is_autotuned_jointly(request)


def _store(key: str, executable: Any, compile_seconds: float, cache: Any) -> None:
    min_bytes = config.persistent_cache_min_entry_size_bytes.value
    if cache.should_store(compile_seconds) and len(data := executable.serialize()) >= min_bytes:
        monitoring.record_event("/jax/compilation_cache/cache_misses")
        cache.store(key, data, compile_seconds)


def _load(request: CompileRequest, devices, cache) -> Any | None:
    """Load an executable from the disk cache; None if it is not there, or was made by another build of the runtime."""
    started = time.perf_counter()
    entry = cache.load(request.key)
    if entry is None:
        return None
    data, compile_seconds = entry
    try:
        executable = request.client.deserialize_executable(data, devices, None)
    except Exception as e:
        cache.discard(request.key, e)  # and warn once
        return None
    load_seconds = time.perf_counter() - started
    monitoring.record_event("/jax/compilation_cache/cache_hits")
    monitoring.record_event_duration_secs("/jax/compilation_cache/compile_time_saved_sec", compile_seconds - load_seconds)
    monitoring.record_event_duration_secs("/jax/compilation_cache/cache_retrieval_time_sec", load_seconds)
    return executable


def _compile(request: CompileRequest, devices) -> Any:
    if request.host_callbacks:
        runtime_effects.prepare()
    try:
        return _waiting_for(request, lambda: backend_compile_and_load(
            request.client, request.module, devices, request.options, request.host_callbacks))
    except JaxRuntimeError as e:
        raise _explained(e, request.module) from None


def _explained(error: JaxRuntimeError, module: Any) -> Exception:
    """Return the error of a compiler in the user's words, with the remedy."""
    from xlafront.runtime import kernel_messages, topologies  # start-up: for a message

    return topologies.with_install_hint(foreign_functions.with_remedy(kernel_messages.explained(error, module)))


def _waiting_for(request: CompileRequest, call: Callable[[], Any]) -> Any:
    return interruptible(call) if request.is_interruptible else call()


def backend_compile_and_load(backend, module, executable_devices, options: CompileOptions, host_callbacks: Sequence[Any]):
    """Run XLA's compiler. Libraries that count or refuse compilations replace this function."""
    return backend.compile_and_load(module, executable_devices, options, host_callbacks)


_reported_cache_use: list[bool] = []  # [True] or [False] once the event for the process was recorded


def _report_cache_use(used: bool) -> None:
    """Record the events that precede each compilation, and the first one of the process."""
    if not _reported_cache_use:
        _reported_cache_use.append(used)
        monitoring.record_event(f"/jax/compilation_cache/{'tasks_using_cache' if used else 'task_disabled_cache'}")
    if used:
        monitoring.record_event("/jax/compilation_cache/compile_requests_use_cache")


def report_equal_program(cache) -> None:
    """Record the events of a program whose equal this process has compiled: a cache hit, if a cache is used."""
    _report_cache_use(cache is not None)
    if cache is not None:
        monitoring.record_event("/jax/compilation_cache/cache_hits")


def explain_options(name: str, options: dict, error: Exception) -> Exception:
    """Return an error that names the unknown compiler option, or the original error with a note on the function."""
    text = str(error)
    for key in options:
        if key in text and ("No such compile option" in text or "nknown" in text):
            return JaxRuntimeError(f"{name} was given the compiler option {key!r}, which XLA does not have: {text}")
    error.add_note(f"(while compiling {name})")
    return error


def _is_autotuned_jointly(request: CompileRequest) -> bool:
    """True if several processes autotune GPU kernels jointly. A cache hit in one would leave the others waiting."""
    return request.client.platform not in ("cpu", "tpu") and len({d.process_index for d in request.devices}) > 1


def _compile_for_absent_device(request: CompileRequest, devices):
    if request.host_callbacks:
        raise NotImplementedError("a program with callbacks into Python cannot be compiled for devices that this process "
                                  "does not have. Leave out pure_callback, io_callback and debug.callback (debug.print, "
                                  "breakpoint).")
    try:
        return _waiting_for(request, lambda: request.client.compile(request.module, devices, request.options))
    except JaxRuntimeError as e:
        raise _explained(e, request.module) from None
