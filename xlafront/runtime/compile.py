"""Compiling: a module becomes a loaded executable, through the disk cache."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from xlafront.runtime import backpressure, config, effects as runtime_effects, foreign_functions, monitoring
from xlafront.runtime.clients import clients
from xlafront.runtime.jaxlib_compat import CompileOptions, JaxRuntimeError
from xlafront.runtime.sharding import device_list
from xlafront.runtime.topologies import explained, is_compile_only


class CompileRequest(NamedTuple):
    """What there is to compile, and for which devices."""

    module: Any
    client: Any
    devices: tuple
    options: CompileOptions
    host_callbacks: Sequence[Any]
    key: str | None  # of `disk_cache.cache_key`; None: the program cannot be that of another place


class CompiledModule(NamedTuple):
    """A loaded executable, and whether it was read from disk: what is stored of such a one would lack its functions."""

    loaded: Any
    from_disk: bool = False


def compile_module(request: CompileRequest, cache=None) -> CompiledModule:
    """A loaded executable, from the disk cache when it has one."""
    clients.refuse_forked()
    devices = device_list(request.devices)
    if is_compile_only(request.client):
        return CompiledModule(_compile_for_elsewhere(request, devices))
    if len(request.devices) > 1 and request.client.platform == "cpu":
        backpressure.install()
    key = None
    _tell_of_cache(cache is not None)
    if cache is not None and request.key is not None and not _is_tuned_together(request):
        key = request.key
        started = time.perf_counter()
        found = cache.load(key)
        if found is not None:
            data, compile_seconds = found
            try:
                executable = request.client.deserialize_executable(data, devices, None)
                took = time.perf_counter() - started
                monitoring.record_event("/jax/compilation_cache/cache_hits")
                monitoring.record_event_duration_secs("/jax/compilation_cache/compile_time_saved_sec", compile_seconds - took)
                monitoring.record_event_duration_secs("/jax/compilation_cache/cache_retrieval_time_sec", took)
                return CompiledModule(executable, from_disk=True)
            except Exception as e:  # made by another build of the runtime: recompile, and say so once
                cache.discard(key, e)
    if request.host_callbacks:
        runtime_effects.prepare()
    started = time.perf_counter()
    try:
        executable = backend_compile_and_load(request.client, request.module, devices, request.options, request.host_callbacks)
    except JaxRuntimeError as e:
        raise explained(foreign_functions.with_remedy(e)) from None
    if key is not None:
        elapsed = time.perf_counter() - started
        if cache.wants(elapsed) and len(data := executable.serialize()) >= config.persistent_cache_min_entry_size_bytes.value:
            monitoring.record_event("/jax/compilation_cache/cache_misses")
            cache.store(key, data, elapsed)
    return CompiledModule(executable)


_told_of_cache: list[bool] = []  # whether the process was said to use the cache, or to do without it


def _tell_of_cache(used: bool) -> None:
    """The events before each compilation, and before the first of the process."""
    if not _told_of_cache:
        _told_of_cache.append(used)
        monitoring.record_event(f"/jax/compilation_cache/{'tasks_using_cache' if used else 'task_disabled_cache'}")
    if used:
        monitoring.record_event("/jax/compilation_cache/compile_requests_use_cache")


def tell_of_equal(cache) -> None:
    """The events of a program that need not be compiled, as this process has its equal: that of a cache, where one is used."""
    _tell_of_cache(cache is not None)
    if cache is not None:
        monitoring.record_event("/jax/compilation_cache/cache_hits")


def backend_compile_and_load(backend, module, executable_devices, options: CompileOptions, host_callbacks: Sequence[Any]):
    """XLA's compiler alone. Libraries that count or refuse compilations put functions of their own in its place."""
    return backend.compile_and_load(module, executable_devices, options, host_callbacks)


def explain_options(name: str, options: dict, error: Exception) -> Exception:
    """An error that names the compiler option which XLA does not have; else that of XLA, with what was compiled."""
    text = str(error)
    for key in options:
        if key in text and ("No such compile option" in text or "nknown" in text):
            return JaxRuntimeError(f"{name} was given the compiler option {key!r}, which XLA does not have: {text}")
    error.add_note(f"(while compiling {name})")
    return error


def _is_tuned_together(request: CompileRequest) -> bool:
    """On GPUs of several processes the compilers measure kernels together: one that found its program would be missed."""
    return request.client.platform not in ("cpu", "tpu") and len({d.process_index for d in request.devices}) > 1


def _compile_for_elsewhere(request: CompileRequest, devices):
    if request.host_callbacks:
        raise NotImplementedError("a program with callbacks into Python cannot be compiled for devices that are not here: "
                                  "leave out pure_callback, io_callback and debug.callback (debug.print, breakpoint).")
    try:
        return request.client.compile(request.module, devices, request.options)
    except JaxRuntimeError as e:
        raise explained(foreign_functions.with_remedy(e)) from None
