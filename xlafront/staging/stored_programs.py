"""Serialization of compiled programs, for other processes on this machine.

A serialized program is code for these devices, made by this version of the compiler, with the types and shardings that calls
need. Loading may run it: load your own files only. Files that are damaged or made for another machine are refused before
the rest of them is read.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlafront.base.jaxlib_compat import Client, Device, JaxRuntimeError, jaxlib_version_text
from xlafront.core import tree
from xlafront.core.avals import ShapedArray
from xlafront.runtime import backends
from xlafront.runtime.clients import clients
from xlafront.runtime.compile_options import compile_options
from xlafront.runtime.disk_cache import fingerprint, pack_record, unpack_record
from xlafront.runtime.foreign_functions import with_remedy
from xlafront.runtime.sharding import device_list
from xlafront.staging.array_transfers import put
from xlafront.staging.executable import Executable
from xlafront.staging.reference_arguments import ReferenceAdapter
from xlafront.staging.stages import ArgInfo, Compiled

_FORMAT = b"XLAFEXE1"


# The attributes of a `Traced` that calls of a compiled function read.


class _Types(NamedTuple):
    in_avals: tuple
    out_avals: tuple


class _Names(NamedTuple):
    arg_names: tuple[str, ...]


class _Call(NamedTuple):
    in_avals: tuple
    closed: _Types
    out_tree: Any
    debug_info: _Names


class _Options(NamedTuple):
    static: bool  # some arguments are compiled in
    donate: bool
    device: None = None
    backend: None = None


class _Function(NamedTuple):
    fun: Callable
    options: _Options


class StoredProgram:
    """The metadata of a program that another process compiled, in the form of a `Traced`."""

    def __init__(self, name: str, in_tree, out_tree, types: _Types, arg_names: Sequence[str], donated: Sequence[bool],
                 static: bool):
        self.fun_name, self.in_tree, self.out_tree, self.jaxpr, self.donated = name, in_tree, out_tree, types, tuple(donated)
        self._traced = _Call(types.in_avals, types, out_tree, _Names(tuple(arg_names)))
        self._jitted = _Function(self._without_code, _Options(static, any(donated)))

    def _without_code(self, *args, **kwargs):
        raise TypeError(f"{self.fun_name} was compiled in another process, so that there is no function to trace.")

    donate_argnums = property(lambda self: tuple([i for i, donated in enumerate(self.donated) if donated]))
    in_avals = property(lambda self: self.in_tree.unflatten(self.jaxpr.in_avals))
    out_avals = property(lambda self: self.out_tree.unflatten(self.jaxpr.out_avals))
    args_info = property(lambda self: self.in_tree.unflatten(list(map(ArgInfo, self.jaxpr.in_avals, self.donated))))


class LoadedCompiled(Compiled):
    """A compiled function that another process compiled."""

    def __init__(self, program: StoredProgram, executable: Executable, code: bytes):
        self._stored = code
        self._prepare_calls(program, executable)

    def _code(self) -> bytes:
        return self._stored


# The bytes. Devices are stored as their ids, types as their fields.


class _Pickler(pickle.Pickler):
    def persistent_id(self, value: Any) -> Any:
        if isinstance(value, Device):
            return "device", value.id
        if isinstance(value, Client):
            return "client", None
        return None

    def reducer_override(self, value: Any) -> Any:
        if type(value) is ShapedArray:
            return _aval, (value.shape, value.dtype, value.weak_type, value.explicit_sharding, value.vma, value.memory)
        return NotImplemented


def _aval(shape, dtype, weak_type, sharding, vma, memory) -> ShapedArray:
    return ShapedArray(shape, dtype, weak_type, sharding=sharding, vma=vma, memory_space=memory)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, client, devices: dict[int, Any]):
        super().__init__(file)
        self._client, self._devices = client, devices

    def persistent_load(self, saved: Any) -> Any:
        kind, number = saved
        return self._devices[number] if kind == "device" else self._client


def _made_for(client, devices: Sequence[Any]) -> dict[str, Any]:
    """Return the properties that must be the same in the process that loads a program, by their names in messages."""
    return {"the jaxlib version": jaxlib_version_text, "the platform": client.platform,
            "the version of the platform": client.platform_version, "the kind of device": devices[0].device_kind,
            "the number of devices": len(devices), "the CPU and its features": fingerprint(client)}


def serialize(compiled: Compiled) -> tuple[bytes, Any, Any]:
    """Serialize a compiled program, for `deserialize_and_load` in a process on this machine.

    The process must have the same versions and devices. Programs that call Python cannot be serialized.

    Args:
        compiled: Result of `jit(f).lower(...).compile()`.

    Returns:
        Bytes, and the pytree structures of the arguments and of the results.

    Example:
        >>> stored, in_tree, out_tree = serialize(xf.jit(lambda x: x + 1).lower(1.0).compile())
        >>> deserialize_and_load(stored, in_tree, out_tree, execution_devices=xf.devices()[:1])(2.0)
        Array(3., dtype=float32, weak_type=True)
    """
    if not isinstance(compiled, Compiled):
        raise TypeError(f"serialize takes a compiled program, jit(f).lower(...).compile(), got {type(compiled).__name__}.")
    executable, program = compiled._executable, compiled._traced
    name = program.fun_name
    if executable.handlers is None:
        raise ValueError(f"{name} is compiled for devices that are not here, and cannot be serialized.")
    if not executable.portable:
        raise ValueError(f"{name} cannot be serialized: it calls Python functions of this process (pure_callback, io_callback, "
                         f"debug.print, custom_partitioning). Serialize the program without them.")
    if isinstance(compiled._adapter, ReferenceAdapter):
        raise ValueError(f"{name} takes references, and cannot be serialized: pass arrays and return the updated ones.")
    loaded = executable.loaded
    devices = list(loaded.local_devices())
    client = devices[0].client
    contents = {
        "name": name, "types": (tuple(program.jaxpr.in_avals), tuple(program.jaxpr.out_avals)),
        "arg_names": tuple(program._traced.debug_info.arg_names),
        "donated": [info.donated for info in tree.leaves(program.args_info)], "static": bool(program._jitted.options.static),
        "executable": compiled._code(), "in_avals": executable.in_avals, "in_shardings": list(executable.in_shardings),
        "out_avals": executable.out_avals, "out_shardings": list(executable.out_shardings),
        "out_committed": executable.out_committed, "kept": list(executable.live), "own_layouts": executable.own_layouts,
        "effects": executable.effects, "const_args": [(np.asarray(x), x.sharding) for x in executable.const_args],
    }
    body = io.BytesIO()
    _Pickler(body).dump(contents)
    head = pickle.dumps({"made for": _made_for(client, devices), "devices": [d.id for d in devices],
                         "kinds": sorted({d.device_kind for d in devices})})
    stored = pack_record(_FORMAT, len(head).to_bytes(8, "little") + head + body.getvalue())
    return stored, compiled.in_tree, compiled.out_tree


def deserialize_and_load(serialized: bytes, in_tree: Any, out_tree: Any, backend: Any = None,
                         execution_devices: Sequence[Any] | None = None) -> LoadedCompiled:
    """Load a compiled program that `serialize` returned, here or in another process on this machine.

    Loading runs code: load only bytes that you trust.

    Args:
        serialized, in_tree, out_tree: Results of `serialize`.
        backend: Name of a platform, or its client. Default: the platform that the program was compiled for.
        execution_devices: Devices to run on, as many as the program was compiled for. Default: those with the same ids.

    Returns:
        The compiled function.

    Example:
        >>> stored = serialize(xf.jit(lambda x: x + 1).lower(1.0).compile())
        >>> deserialize_and_load(*stored).in_tree.num_leaves
        1
    """
    try:
        content = unpack_record(_FORMAT, serialized)
    except ValueError as e:
        raise ValueError(f"these bytes are no compiled program that can be loaded: {e}. Serialize it again.") from None
    end = 8 + int.from_bytes(content[:8], "little")
    head = pickle.loads(content[8:end])
    made_for, ids = head["made for"], head["devices"]
    client = backend if isinstance(backend, Client) else backends.client(backend or made_for["the platform"])
    here = {d.id: d for d in client.devices()}
    if execution_devices is None:
        if any([i not in here for i in ids]):
            raise ValueError(f"this program was compiled for {len(ids)} devices with the numbers {ids}, and here are "
                             f"{len(here)}: {sorted(here)}. Start with as many, or pass execution_devices.")
        execution_devices = [here[i] for i in ids]
    if len(execution_devices) != len(ids):
        raise ValueError(f"this program was compiled for {len(ids)} devices, execution_devices are "
                         f"{len(execution_devices)}.")
    ours = _made_for(client, execution_devices)
    differing = [f"{name} is {made_for.get(name)!s:.200} there and {ours[name]!s:.200} here" for name in ours
                 if made_for.get(name) != ours[name]]
    if differing:
        raise ValueError(f"this program was compiled for something else and cannot run here: {'; '.join(differing)}. Compile "
                         f"it here.")
    clients.refuse_forked()
    found = _Unpickler(io.BytesIO(content[end:]), client, dict(zip(ids, execution_devices))).load()
    types = _Types(*found["types"])
    for name, structure, avals in (("in_tree", in_tree, types.in_avals), ("out_tree", out_tree, types.out_avals)):
        if structure.num_leaves != len(avals):
            raise ValueError(f"{found['name']} was serialized with an {name} of {len(avals)} arrays, this one has "
                             f"{structure.num_leaves}: {structure}.")
    on_other_devices = [d.id for d in execution_devices] != ids
    options = compile_options(len(execution_devices), tuple(execution_devices), {}) if on_other_devices else None
    try:
        loaded = client.deserialize_executable(found["executable"], device_list(tuple(execution_devices)), options)
    except JaxRuntimeError as e:
        raise with_remedy(e) from None
    executable = Executable(
        loaded, **{name: found[name] for name in ("in_avals", "in_shardings", "out_avals", "out_shardings", "out_committed",
                                                  "effects", "own_layouts")},
        live=found["kept"], const_args=[put(value, ShapedArray(value.shape, value.dtype), sharding, True)
                    for value, sharding in found["const_args"]])
    program = StoredProgram(found["name"], in_tree, out_tree, types, found["arg_names"], found["donated"], found["static"])
    return LoadedCompiled(program, executable, found["executable"])
