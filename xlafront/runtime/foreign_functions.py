"""Registration of foreign functions, which compiled programs call by name, and of the types of their states.

Registrations for CPU take effect at once; those for a plugin are stored in `_waiting` until it is loaded.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any, NamedTuple

import jaxlib

from xlafront.base.jaxlib_compat import JaxRuntimeError, _jax

TYPED = 4  # the interface with types and attributes: XLA's FFI
# The stages of a handler.
STAGES = ("instantiate", "prepare", "initialize", "execute")


class _Plugin(NamedTuple):
    """A loaded plugin: its C API, and the extension module that registers functions with it."""

    c_api: Any
    extension: Any


_plugins: dict[str, _Plugin] = {}
_waiting: dict[str, list[tuple]] = {}
# Targets that act independently along leading dimensions, so that XLA can partition their calls along these.
batch_partitionable: set[str] = set()


def _platform_of(name: str) -> str:
    name = name.lower()
    return {"gpu": "cuda", "host": "cpu"}.get(name, name)


def _is_capsule(value: Any) -> bool:
    return type(value).__name__ == "PyCapsule"


def _register(platform: str, kind: str, *arguments) -> None:
    """Register now if the platform is loaded, else when its plugin is loaded."""
    platform = _platform_of(platform)
    if platform == "cpu":
        _CPU[kind](*arguments)
    elif platform in _plugins:
        _register_with_plugin(platform, kind, *arguments)
    else:
        _waiting.setdefault(platform, []).append((kind, *arguments))


def _cpu_function(name: str, function: Any, api_version: int, options: dict) -> None:
    _jax.register_custom_call_target(name, function, "cpu", api_version, **options)


_CPU = {"function": _cpu_function, "type": _jax.register_custom_type,
        "batch_partitionable": _jax.register_custom_call_as_batch_partitionable}


def _register_with_plugin(platform: str, kind: str, *arguments) -> None:
    c_api, extension = _plugins[platform]
    if kind == "function":
        name, function, api_version, options = arguments
        extension.register_custom_call_target(c_api, name, function, platform.upper(), api_version, **options)
    elif kind == "type":
        extension.register_custom_type(c_api, *arguments)
    else:
        _jax.register_custom_call_as_batch_partitionable(*arguments, c_api)


def plugin_loaded(platform: str, c_api: Any, extension: Any) -> None:
    """Register all that was registered before the plugin was loaded. Types come first, since functions need them."""
    _plugins[platform] = _Plugin(c_api, extension)
    waiting = _waiting.pop(platform, [])
    for entry in sorted(waiting, key=lambda entry: entry[0] != "type"):
        _register_with_plugin(platform, *entry)
    for name in batch_partitionable:
        _register_with_plugin(platform, "batch_partitionable", name)


def register_ffi_target(name: str, fn: Any, platform: str = "cpu", api_version: int = 1, **kwargs: Any) -> None:
    """Register a foreign function under a name, by which `ffi_call` calls it.

    If the function has a state, register the type of the state first, with `register_ffi_type`.

    Args:
        name: Name of the function.
        fn: Capsule with a pointer to the handler (`pycapsule`), or a dict of capsules by stage: "instantiate", which creates
            the state of a call when the program is compiled, "prepare", "initialize" and "execute".
        platform: Platform of the function: "cpu", "cuda" or the name of another plugin.
        api_version: 1 for handlers of XLA's typed FFI, 0 for functions of the older interface.
        kwargs: Further options of the runtime, such as `traits=1` for functions that can be recorded into CUDA graphs.

    Example:
        >>> # register_ffi_target("scale", pycapsule(ctypes.CDLL("libmine.so").ScaleHandler))
        >>> from jaxlib.cpu import _lapack
        >>> register_ffi_target("cholesky_of_my_own", _lapack.registrations()["lapack_spotrf_ffi"])
    """
    handlers = fn if isinstance(fn, dict) else {"execute": fn}
    unknown_stages = [stage for stage in handlers if stage not in STAGES]
    if unknown_stages or not handlers:
        raise ValueError(f"register_ffi_target of {name!r} takes handlers for the stages {', '.join(STAGES)}, got "
                         f"{', '.join(map(repr, unknown_stages)) or 'none'}.")
    for stage, handler in handlers.items():
        if not _is_capsule(handler):
            raise TypeError(f"register_ffi_target of {name!r} takes a capsule with a pointer to the handler for {stage}, got "
                            f"{type(handler).__name__}: make one with pycapsule(library.symbol).")
    if api_version not in (0, 1):
        raise ValueError(f"register_ffi_target of {name!r} takes api_version 1, of the typed FFI, or 0, of the older "
                         f"interface, got {api_version!r}.")
    _register(platform, "function", name, fn, api_version, kwargs)


def register_ffi_type(name: str, type_registration: dict[str, Any], platform: str = "cpu") -> None:
    """Register the type of a handler's state. Call it before the handlers that use the type are registered.

    Args:
        name: Name of the type, unique in the process.
        type_registration: Capsules by name: "type_id" with a pointer to its `ffi::TypeId`, which gets its id, and "type_info"
            with a pointer to its `ffi::TypeInfo`, which has its deleter.
        platform: Platform of the handlers that use the type.

    Example:
        >>> import ctypes
        >>> number = ctypes.c_int64()  # in a library: static ffi::TypeId State::id
        >>> register_ffi_type("State", {"type_id": pycapsule(ctypes.addressof(number))}, platform="tpu")
    """
    invalid = [key for key, value in type_registration.items() if key not in ("type_id", "type_info") or not _is_capsule(value)]
    if invalid or "type_id" not in type_registration:
        raise ValueError(f"register_ffi_type of {name!r} takes the capsules 'type_id' and 'type_info', got "
                         f"{ {key: type(value).__name__ for key, value in type_registration.items()} }.")
    _register(platform, "type", name, type_registration)


def register_ffi_type_id(name: str, obj: Any, platform: str = "cpu") -> None:
    """Raise ValueError: the runtime no longer registers types by their id alone. Use `register_ffi_type`.

    Args:
        name: Name of the type.
        obj: Capsule with the id of the type.
        platform: Platform of the handlers that use the type.

    Example:
        >>> try:
        ...     register_ffi_type_id("State", None)
        ... except ValueError as e:
        ...     print("register_ffi_type(" in str(e))
        True
    """
    raise ValueError(f"register_ffi_type_id of {name!r} is not supported by this runtime, which takes types with their "
                     f"TypeInfo: use register_ffi_type(name, {{'type_id': ..., 'type_info': ...}}).")


def register_ffi_target_as_batch_partitionable(name: str) -> None:
    """Declare that a function acts independently along leading dimensions, so that each device can process its own shard.

    In a multi-device program, calls created by `vmap` with `vmap_method="broadcast_all"` are then partitioned along the batch.
    Other functions get the unsharded arrays on each device.

    Args:
        name: Name of the function.

    Example:
        >>> register_ffi_target_as_batch_partitionable("row_sums")
    """
    batch_partitionable.add(name)
    _register("cpu", "batch_partitionable", name)
    for platform in _plugins:
        _register_with_plugin(platform, "batch_partitionable", name)


def pycapsule(funcptr: Any) -> Any:
    """Wrap a pointer in a capsule, the form in which handlers are registered.

    Args:
        funcptr: Function of a library loaded by `ctypes`, or an address.

    Returns:
        The capsule.

    Example:
        >>> import ctypes
        >>> capsule = pycapsule(ctypes.CDLL(None).printf)
    """
    make = ctypes.pythonapi.PyCapsule_New
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    try:
        address = None if isinstance(funcptr, (str, bytes)) else ctypes.cast(funcptr, ctypes.c_void_p)
    except ctypes.ArgumentError:
        address = None
    if address is None:
        raise TypeError(f"pycapsule takes a function that ctypes has loaded, or an address, got {type(funcptr).__name__}.")
    return make(address, None, None)


def include_dir() -> str:
    """Return the directory of the C++ headers of XLA's FFI, for the compiler option `-I`.

    Returns:
        The path of the directory.

    Example:
        >>> import os
        >>> os.path.isfile(os.path.join(include_dir(), "xla/ffi/api/ffi.h"))
        True
    """
    return os.path.join(os.path.dirname(jaxlib.__file__), "include")


def with_remedy(error: JaxRuntimeError) -> JaxRuntimeError:
    """Add a note on how to register functions to the error of a program that calls an unregistered function."""
    text = str(error)
    if "No FFI handler registered" in text or "No registered implementation" in text:
        error.add_note("A program calls by name what has to be registered for its platform before it is compiled: "
                       "xlafront.ffi.register_ffi_target(name, xlafront.ffi.pycapsule(library.symbol), platform=...).")
    return error
