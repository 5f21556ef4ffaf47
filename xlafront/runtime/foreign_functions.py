"""Functions of other languages that compiled programs call by name: making them, and the types of their states, known to XLA.

For the CPU that happens at once, for a plugin when it is loaded: what is registered before waits in `waiting`.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any, NamedTuple

import jaxlib

from xlafront.runtime.jaxlib_compat import JaxRuntimeError, _jax

TYPED = 4  # the version of the interface that knows types and takes attributes: XLA's FFI
# What the parts of a handler are called that has several.
STAGES = ("instantiate", "prepare", "initialize", "execute")


class _Plugin(NamedTuple):
    """A plugin that has been loaded: its C interface and the extension module through which it takes functions."""

    c_api: Any
    extension: Any


_plugins: dict[str, _Plugin] = {}
_waiting: dict[str, list[tuple]] = {}
# Targets that repeat along leading dimensions, by which XLA may split their calls.
batch_partitionable: set[str] = set()


def _platform_of(name: str) -> str:
    name = name.lower()
    return {"gpu": "cuda", "host": "cpu"}.get(name, name)


def _is_capsule(value: Any) -> bool:
    return type(value).__name__ == "PyCapsule"


def _register(platform: str, kind: str, *arguments) -> None:
    """Now, where there is somebody to tell, else when the plugin comes."""
    platform = _platform_of(platform)
    if platform == "cpu":
        _CPU[kind](*arguments)
    elif platform in _plugins:
        _tell_plugin(platform, kind, *arguments)
    else:
        _waiting.setdefault(platform, []).append((kind, *arguments))


def _cpu_function(name: str, function: Any, api_version: int, options: dict) -> None:
    _jax.register_custom_call_target(name, function, "cpu", api_version, **options)


_CPU = {"function": _cpu_function, "type": _jax.register_custom_type,
        "batch_partitionable": _jax.register_custom_call_as_batch_partitionable}


def _tell_plugin(platform: str, kind: str, *arguments) -> None:
    c_api, extension = _plugins[platform]
    if kind == "function":
        name, function, api_version, options = arguments
        extension.register_custom_call_target(c_api, name, function, platform.upper(), api_version, **options)
    elif kind == "type":
        extension.register_custom_type(c_api, *arguments)
    else:
        _jax.register_custom_call_as_batch_partitionable(*arguments, c_api)


def plugin_loaded(platform: str, c_api: Any, extension: Any) -> None:
    """Tell a plugin what was registered for it before: types first, which functions need."""
    _plugins[platform] = _Plugin(c_api, extension)
    waiting = _waiting.pop(platform, [])
    for entry in sorted(waiting, key=lambda entry: entry[0] != "type"):
        _tell_plugin(platform, *entry)
    for name in batch_partitionable:
        _tell_plugin(platform, "batch_partitionable", name)


def register_ffi_target(name: str, fn: Any, platform: str = "cpu", api_version: int = 1, **kwargs: Any) -> None:
    """Make a function known under a name, by which `ffi_call` calls it.

    A state that the function keeps needs its type to be registered before, with `register_ffi_type`.

    - `name`: what programs call it.
    - `fn`: a capsule that holds a pointer to the handler (`pycapsule`), or a dict of them by stage: "instantiate", which makes
      the state of a call when the program is compiled, "prepare", "initialize" and "execute".
    - `platform`: where it runs: "cpu", "cuda" or the name of another plugin.
    - `api_version`: 1 for handlers of XLA's typed FFI, 0 for functions of the older interface.
    - `kwargs`: more for the runtime, such as `traits=1` for what CUDA graphs may contain.

    >>> # register_ffi_target("scale", pycapsule(ctypes.CDLL("libmine.so").ScaleHandler))
    >>> from jaxlib.cpu import _lapack
    >>> register_ffi_target("cholesky_of_my_own", _lapack.registrations()["lapack_spotrf_ffi"])
    """
    parts = fn if isinstance(fn, dict) else {"execute": fn}
    unknown = [stage for stage in parts if stage not in STAGES]
    if unknown or not parts:
        raise ValueError(f"register_ffi_target of {name!r} takes handlers for the stages {', '.join(STAGES)}, got "
                         f"{', '.join(map(repr, unknown)) or 'none'}.")
    for stage, handler in parts.items():
        if not _is_capsule(handler):
            raise TypeError(f"register_ffi_target of {name!r} takes a capsule with a pointer to the handler for {stage}, got "
                            f"{type(handler).__name__}: make one with pycapsule(library.symbol).")
    if api_version not in (0, 1):
        raise ValueError(f"register_ffi_target of {name!r} takes api_version 1, of the typed FFI, or 0, of the older "
                         f"interface, got {api_version!r}.")
    _register(platform, "function", name, fn, api_version, kwargs)


def register_ffi_type(name: str, type_registration: dict[str, Any], platform: str = "cpu") -> None:
    """Make the type of a state known that a handler keeps between calls. This comes before the handlers that use it.

    - `name`: of the type, unique in the process.
    - `type_registration`: capsules by name: "type_id" with a pointer to its `ffi::TypeId`, which gets its number, and
      "type_info" with one to its `ffi::TypeInfo`, which says how to delete one.
    - `platform`: where its handlers run.

    >>> import ctypes
    >>> number = ctypes.c_int64()  # in a library: static ffi::TypeId State::id
    >>> register_ffi_type("State", {"type_id": pycapsule(ctypes.addressof(number))}, platform="tpu")
    """
    wrong = [key for key, value in type_registration.items() if key not in ("type_id", "type_info") or not _is_capsule(value)]
    if wrong or "type_id" not in type_registration:
        raise ValueError(f"register_ffi_type of {name!r} takes the capsules 'type_id' and 'type_info', got "
                         f"{ {key: type(value).__name__ for key, value in type_registration.items()} }.")
    _register(platform, "type", name, type_registration)


def register_ffi_type_id(name: str, obj: Any, platform: str = "cpu") -> None:
    """What registered a type by its number alone; the runtime needs more, and this says so.

    - `name`, `obj`, `platform`: the type, a capsule with its number, and where it is used.

    >>> try:
    ...     register_ffi_type_id("State", None)
    ... except ValueError as e:
    ...     print("register_ffi_type(" in str(e))
    True
    """
    raise ValueError(f"register_ffi_type_id of {name!r} is not supported by this runtime, which takes types with their "
                     f"TypeInfo: use register_ffi_type(name, {{'type_id': ..., 'type_info': ...}}).")


def register_ffi_target_as_batch_partitionable(name: str) -> None:
    """Say that a function does the same for every index of the leading dimensions, so that each device can do its own.

    In a program over devices, calls that `vmap` made with `vmap_method="broadcast_all"` are then split along the batch; of
    other functions each device gets the whole arrays.

    - `name`: of the function.

    >>> register_ffi_target_as_batch_partitionable("row_sums")
    """
    batch_partitionable.add(name)
    _register("cpu", "batch_partitionable", name)
    for platform in _plugins:
        _tell_plugin(platform, "batch_partitionable", name)


def pycapsule(funcptr: Any) -> Any:
    """A pointer in the form in which handlers are registered.

    - `funcptr`: a function of a library that `ctypes` has loaded, or an address.

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
    """The directory with the C++ headers of XLA's FFI, for the `-I` of a compiler.

    >>> import os
    >>> os.path.isfile(os.path.join(include_dir(), "xla/ffi/api/ffi.h"))
    True
    """
    return os.path.join(os.path.dirname(jaxlib.__file__), "include")


def with_remedy(error: JaxRuntimeError) -> JaxRuntimeError:
    """The error of a program that calls what nobody has registered says also how to."""
    text = str(error)
    if "No FFI handler registered" in text or "No registered implementation" in text:
        error.add_note("A program calls by name what has to be registered for its platform before it is compiled: "
                       "xlafront.ffi.register_ffi_target(name, xlafront.ffi.pycapsule(library.symbol), platform=...).")
    return error
