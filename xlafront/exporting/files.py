"""Files of exported functions: the format in which they are written, and what is read from others (`jax_files.py`).

    magic, 12 bytes | version, u32 | length of what follows, u64 | SHA-256 of version, length and what follows | a header as
    JSON, behind its length, u64 | the modules, one after the other

Numbers are little endian. The part before the header is the same in every version, so that a damaged file, one that is cut off
and one that is newer are told apart. The header says where in the file the module of each export is, and has in itself that of
its derivative, when it is written with one.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from xlafront import lowering
from xlafront.core import dtypes
from xlafront.core.avals import ShapedArray
from xlafront.core.dimension_text import read_shape
from xlafront.core.dimensions import is_symbolic_dim
from xlafront.core.errors import short
from xlafront.core.ir import Effect
from xlafront.core.symbolic_shapes import SymbolicScope
from xlafront.exporting import jax_files, structures
from xlafront.exporting.checks import (
    DisabledSafetyCheck,
    maximum_supported_calling_convention_version,
    minimum_supported_calling_convention_version,
)
from xlafront.exporting.record import ExportedModule
from xlafront.random.prng import IMPLEMENTATIONS
from xlafront.runtime.jaxlib_compat import HloSharding, NamedSharding, jaxlib_version_text
from xlafront.runtime.layouts import MemorySpace
from xlafront.runtime.sharding import AbstractMesh, AxisType, PartitionSpec, hlo_sharding_from_bytes, hlo_sharding_to_bytes
from xlafront.runtime.version import __version__

_MARK = b"XLAFRONT"
MAGIC = b"\x89" + _MARK + b"\r\n\x1a"  # no text, and damaged by what treats it as text
VERSION = 1
_PREFIX = struct.Struct("<12sIQ32s")
_LENGTH = struct.Struct("<Q")


# Bytes


def serialize(exported: ExportedModule, vjp_order: int) -> bytearray:
    modules: list[bytes] = []
    record = _record(exported, vjp_order, modules)
    writer = f"xlafront {__version__}, jaxlib {jaxlib_version_text}"
    header = json.dumps({"writer": writer, "exported": record}, separators=(",", ":")).encode()
    body = b"".join([_LENGTH.pack(len(header)), header, *modules])
    return bytearray(_PREFIX.pack(MAGIC, VERSION, len(body), _digest(VERSION, body)) + body)


def _digest(version: int, body) -> bytes:
    found = hashlib.sha256(struct.pack("<IQ", version, len(body)))
    found.update(body)
    return found.digest()


def read(blob: Any) -> tuple[dict[str, Any], memoryview]:
    """The header of a file, and its modules, after what can be wrong with it has been looked for."""
    if not isinstance(blob, (bytes, bytearray, memoryview)):
        raise TypeError(f"deserialize takes the bytes of a file, got {short(blob)} of type {type(blob).__name__}. Read them "
                        f"with open(path, 'rb').read().")
    view = memoryview(blob).cast("B")
    if view[:len(MAGIC)] != MAGIC and (found := _of_jax(view)):
        return found, view
    again = "Copy the file again from where it was written, as a binary file, or export the function again."
    if len(view) < len(MAGIC) or view[:len(MAGIC)] != MAGIC:
        raise ValueError(f"cannot deserialize these {len(view)} bytes: they are {_kind(bytes(view[:4096]), len(view))}. What "
                         f"Exported.serialize of xlafront.export writes begins with {MAGIC!r}.")
    if len(view) < _PREFIX.size:
        raise ValueError(f"cannot deserialize an exported function from {len(view)} bytes: the file is truncated. {again}")
    _, version, length, digest = _PREFIX.unpack_from(view)
    body = view[_PREFIX.size:]
    if length > len(body):
        raise ValueError(f"cannot deserialize an exported function: the file is truncated or damaged, it has {len(body)} bytes "
                         f"after its beginning, which speaks of {length}. {again}")
    if length < len(body) or _digest(version, body) != digest:
        raise ValueError(f"cannot deserialize an exported function: the file is damaged, its checksum does not match. {again}")
    if version != VERSION:
        raise ValueError(f"cannot deserialize an exported function: the file has format {version}, and this version of "
                         f"xlafront, {__version__}, reads format {VERSION}. Install a newer version, or export the function "
                         "with this one.")
    [size] = _LENGTH.unpack_from(body)
    return json.loads(bytes(body[_LENGTH.size:_LENGTH.size + size])), body[_LENGTH.size + size:]


def _of_jax(view: memoryview) -> dict[str, Any] | None:
    """The header of a file that jax wrote; None where it is none."""
    content = bytes(view)
    module = content.find(lowering.artifacts.MAGIC + b"\rStableHLO_v")
    return jax_files.read(view) if module > 0 and _MARK not in content[:len(MAGIC)] else None


def _kind(start: bytes, length: int) -> str:
    """In words, what a file that is none of ours is."""
    if not length:
        return "none at all"
    if start.startswith(b"ML\xefR"):
        return "a bare MLIR module or StableHLO artifact, without the types and structures of arguments and results"
    if _MARK in start[:len(MAGIC)]:
        return "an exported function, damaged at its beginning, as by a transfer that took it for text"
    return "no exported function"


# What files say


def _record(exported: ExportedModule, vjp_order: int, modules: list[bytes]) -> dict[str, Any]:
    """All of an export as JSON; its module is added to `modules`."""
    start = sum(map(len, modules))
    modules.append(exported.mlir_module_serialized)
    record = {
        "name": exported.fun_name,
        "in_tree": structures.to_json(exported.in_tree), "in_avals": list(map(_aval_to_json, exported.in_avals)),
        "out_tree": structures.to_json(exported.out_tree), "out_avals": list(map(_aval_to_json, exported.out_avals)),
        "in_shardings": list(map(_sharding_to_json, exported._in_named_shardings, exported.in_shardings_hlo)),
        "out_shardings": list(map(_sharding_to_json, exported._out_named_shardings, exported.out_shardings_hlo)),
        "devices": exported.nr_devices, "platforms": list(exported.platforms),
        "ordered_effects": list(map(_effect_to_json, exported.ordered_effects)),
        "unordered_effects": list(map(_effect_to_json, exported.unordered_effects)),
        "disabled_checks": list(map(str, exported.disabled_safety_checks)),
        "module": [start, len(exported.mlir_module_serialized)],
        "calling_convention": exported.calling_convention_version,
        "kept": list(exported.module_kept_var_idx), "global_constants": exported.uses_global_constants,
        "constraints": _constraints(exported.in_avals), "vjp": None,
    }
    if vjp_order > 0:
        record["vjp"] = _record(exported.vjp(), vjp_order - 1, modules)
    return record


def from_record(record: dict[str, Any], modules: memoryview, make: Callable[..., Any]) -> Any:
    """What `make`, the class of exported functions, makes of what a file says."""
    version = record["calling_convention"]
    if not minimum_supported_calling_convention_version <= version <= maximum_supported_calling_convention_version:
        raise ValueError(
            f"cannot deserialize the exported function {record['name']}: it was exported with the calling convention "
            f"{version}, and this version of xlafront knows those from {minimum_supported_calling_convention_version} to "
            f"{maximum_supported_calling_convention_version}. Export it again, or install a version that knows it.")
    start, size = record["module"]
    derivative = record["vjp"]
    shardings = [record["in_shardings"], record["out_shardings"]]
    ins, outs = [tuple(map(_sharding_from_json, written)) for written in shardings]
    scopes = itertools.repeat(SymbolicScope(record.get("constraints", ())))
    in_avals = tuple(map(_aval_from_json, record["in_avals"], ins, scopes))
    out_avals = tuple(map(_aval_from_json, record["out_avals"], outs, scopes))
    return make(
        fun_name=record["name"], in_tree=structures.from_json(record["in_tree"]), in_avals=in_avals,
        out_tree=structures.from_json(record["out_tree"]), out_avals=out_avals,
        _has_named_shardings=not any([s is not None and "hlo" in s for s in [*shardings[0], *shardings[1]]]),
        _in_named_shardings=ins, _out_named_shardings=outs,
        in_shardings_hlo=tuple(map(_hlo_sharding, shardings[0], ins, in_avals)),
        out_shardings_hlo=tuple(map(_hlo_sharding, shardings[1], outs, out_avals)),
        nr_devices=record["devices"], platforms=tuple(record["platforms"]),
        ordered_effects=tuple(map(_effect_from_json, record["ordered_effects"])),
        unordered_effects=tuple(map(_effect_from_json, record["unordered_effects"])),
        disabled_safety_checks=tuple(map(DisabledSafetyCheck, record["disabled_checks"])),
        mlir_module_serialized=bytes(modules[start:start + size]), calling_convention_version=version,
        module_kept_var_idx=tuple(record["kept"]), uses_global_constants=record["global_constants"],
        _get_vjp=None if derivative is None else lambda _: from_record(derivative, modules, make))


def _constraints(avals: Sequence[Any]) -> list[str]:
    """What is known of the dimension variables in types."""
    found = [n for aval in avals if isinstance(aval, ShapedArray) for n in aval.shape if is_symbolic_dim(n)]
    return [c.text for c in found[0].scope.constraints] if found else []


def _aval_to_json(aval: ShapedArray) -> dict[str, Any]:
    shape = [str(n) if is_symbolic_dim(n) else n for n in aval.shape]
    record: dict[str, Any] = {"shape": shape, "dtype": "float0" if aval.dtype == dtypes.float0 else aval.dtype.name}
    if aval.weak_type:
        record["weak"] = True
    if aval.memory is not None:
        record["memory"] = aval.memory.name
    return record


def _aval_from_json(record: dict[str, Any], sharding: NamedSharding | None, scope: SymbolicScope) -> ShapedArray:
    memory = record.get("memory")
    shape = tuple([size for n in record["shape"] for size in (read_shape(n, scope, None) if type(n) is str else (n,))])
    return ShapedArray(shape, _dtype_from_json(record["dtype"]), record.get("weak", False), sharding=sharding,
                       memory_space=None if memory is None else MemorySpace[memory])


def _dtype_from_json(name: str):
    if name == "float0":
        return dtypes.float0
    if not name.startswith("key<"):
        return dtypes.dtype(name)
    for impl in IMPLEMENTATIONS.values():
        if f"key<{impl.tag}>" == name:
            return dtypes.PRNGKeyDType(impl)
    raise ValueError(f"cannot deserialize an exported function: it takes or returns random keys of the implementation {name}, "
                     f"which there is none of here. Export a function of their words (random.key_data).")


def _sharding_to_json(sharding: NamedSharding | None, hlo: HloSharding | None) -> dict[str, Any] | None:
    """A sharding by the axes of its mesh; one of a file of jax that does not speak of them, as XLA describes it."""
    if sharding is None:
        return None if hlo is None else {"hlo": base64.b64encode(hlo_sharding_to_bytes(hlo)).decode()}
    mesh, spec = sharding.mesh, sharding.spec
    return {"mesh": [[name, size, kind.name] for (name, size), kind in zip(mesh.shape_tuple, mesh.axis_types)],
            "spec": [list(p) if isinstance(p, tuple) else p for p in spec.partitions],
            "unreduced": sorted(spec.unreduced), "reduced": sorted(spec.reduced), "memory": sharding.memory_kind}


def _sharding_from_json(record: dict[str, Any] | None) -> NamedSharding | None:
    if record is None or "hlo" in record:
        return None
    names, sizes = zip(*[(name, size) for name, size, _ in record["mesh"]]) if record["mesh"] else ((), ())
    kinds = tuple([AxisType[kind] for _, _, kind in record["mesh"]])
    spec = PartitionSpec(*[tuple(p) if isinstance(p, list) else p for p in record["spec"]],
                         unreduced=frozenset(record["unreduced"]), reduced=frozenset(record["reduced"]))
    return NamedSharding(AbstractMesh(sizes, names, kinds), spec, memory_kind=record["memory"])


def _hlo_sharding(record: dict[str, Any] | None, sharding: NamedSharding | None, aval: ShapedArray) -> HloSharding | None:
    if sharding is None:
        return None if record is None else hlo_sharding_from_bytes(base64.b64decode(record["hlo"]))
    return sharding._to_xla_hlo_sharding(len(aval.shape))


def _effect_to_json(effect: Effect) -> str:
    kind = type(effect)
    try:
        same = kind() == effect or kind.__eq__ is object.__eq__
    except TypeError:
        same = False
    if not same:
        raise ValueError(f"the effect {effect} cannot be written to a file: its class, {kind.__name__}, must make an equal "
                         f"one when it is called without arguments.")
    return f"{kind.__module__}.{kind.__qualname__}"


def _effect_from_json(name: str) -> Effect:
    for kind in _effects(Effect):
        if f"{kind.__module__}.{kind.__qualname__}" == name:
            return kind()
    raise ValueError(f"cannot deserialize an exported function: it has the effect {name}, which is not known here. Import the "
                     f"module that defines it first.")


def _effects(kind: type[Effect]) -> Iterator[type[Effect]]:
    inner: type[Effect]
    for inner in kind.__subclasses__():
        yield inner
        yield from _effects(inner)


def describe(header: dict[str, Any]) -> Sequence[tuple[str, str]]:
    """What a file says of itself, as pairs of a word and a text."""
    record = header["exported"]
    order, derivative = 0, record["vjp"]
    while derivative is not None:
        order, derivative = order + 1, derivative["vjp"]
    unsaid = "constraints" not in record and any([type(n) is str for aval in record["in_avals"] for n in aval["shape"]])
    ins, outs = [", ".join([_type_text(aval) for aval in record[which]]) or "nothing" for which in ("in_avals", "out_avals")]
    return [("function", record["name"]), ("arguments", ins), ("results", outs),
            ("constraints", ", ".join(record.get("constraints", ())) or ("those of the module" if unsaid else "none")),
            ("platforms", ", ".join(record["platforms"])),
            ("devices", str(record["devices"])), ("derivatives", f"to order {order}" if order else "none"),
            ("effects", ", ".join([*record["ordered_effects"], *record["unordered_effects"]]) or "none"),
            ("disabled checks", ", ".join(record["disabled_checks"]) or "none"),
            ("calling convention", str(record["calling_convention"])), ("written by", header["writer"])]


def _type_text(record: dict[str, Any]) -> str:
    return f"{record['dtype']}[{','.join(map(str, record['shape']))}]"
