"""The file format of exported functions, and its reader (files of jax are read in `jax_files.py`).

    magic, 12 bytes | version, u32 | length of the rest, u64 | SHA-256 of version, length and rest | a header as JSON, after its
    length, u64 | the modules, concatenated

Numbers are little endian. The prefix before the header is the same in every version, so that damaged, truncated and newer files
can be distinguished. The header has for each export the position of its module in the file, and contains the header of its
derivative if one is included.
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
from xlafront.base.jaxlib_compat import HloSharding, NamedSharding, jaxlib_version_text
from xlafront.base.layouts import MemorySpace
from xlafront.base.specs import UnreducedKind
from xlafront.base.version import __version__
from xlafront.core import dtypes
from xlafront.core.avals import ShapedArray
from xlafront.core.errors import short
from xlafront.core.ir import Effect
from xlafront.exporting import jax_files, structures
from xlafront.exporting.checks import (
    DisabledSafetyCheck,
    maximum_supported_calling_convention_version,
    minimum_supported_calling_convention_version,
)
from xlafront.exporting.record import ExportedModule
from xlafront.random.prng import IMPLEMENTATIONS
from xlafront.runtime.sharding import AbstractMesh, AxisType, PartitionSpec, hlo_sharding_from_bytes, hlo_sharding_to_bytes
from xlafront.symbolic.dimensions import is_symbolic_dim
from xlafront.symbolic.shapes import SymbolicScope
from xlafront.symbolic.text import read_shape

_MARK = b"XLAFRONT"
MAGIC = b"\x89" + _MARK + b"\r\n\x1a"  # not text, and damaged by transfers in text mode
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
    """Validate a file; return its header and its modules."""
    if not isinstance(blob, (bytes, bytearray, memoryview)):
        raise TypeError(f"deserialize takes the bytes of a file, got {short(blob)} of type {type(blob).__name__}. Read them "
                        f"with open(path, 'rb').read().")
    view = memoryview(blob).cast("B")
    if view[:len(MAGIC)] != MAGIC and (header := _read_jax_file(view)):
        return header, view
    remedy = "Copy the original file again, as a binary file, or export the function again."
    if len(view) < len(MAGIC) or view[:len(MAGIC)] != MAGIC:
        raise ValueError(f"cannot deserialize these {len(view)} bytes: they are {_kind(bytes(view[:4096]), len(view))}. Files "
                         f"written by Exported.serialize of xlafront.export begin with {MAGIC!r}.")
    if len(view) < _PREFIX.size:
        raise ValueError(f"cannot deserialize an exported function from {len(view)} bytes: the file is truncated. {remedy}")
    _, version, length, digest = _PREFIX.unpack_from(view)
    body = view[_PREFIX.size:]
    if length > len(body):
        raise ValueError(f"cannot deserialize an exported function: the file is truncated or damaged, it has {len(body)} bytes "
                         f"after its prefix instead of {length}. {remedy}")
    if length < len(body) or _digest(version, body) != digest:
        raise ValueError(f"cannot deserialize an exported function: the file is damaged, its checksum does not match. {remedy}")
    if version != VERSION:
        raise ValueError(f"cannot deserialize an exported function: the file has format {version}, and this version of "
                         f"xlafront, {__version__}, reads format {VERSION}. Install a newer version, or export the function "
                         "with this one.")
    [size] = _LENGTH.unpack_from(body)
    return json.loads(bytes(body[_LENGTH.size:_LENGTH.size + size])), body[_LENGTH.size + size:]


def _read_jax_file(view: memoryview) -> dict[str, Any] | None:
    """Return the header of a file that jax wrote; None for other files."""
    content = bytes(view)
    module = content.find(lowering.artifacts.MAGIC + b"\rStableHLO_v")
    return jax_files.read(view) if module > 0 and _MARK not in content[:len(MAGIC)] else None


def _kind(start: bytes, length: int) -> str:
    """Describe a file that is not an exported function."""
    if not length:
        return "an empty file"
    if start.startswith(b"ML\xefR"):
        return "a bare MLIR module or StableHLO artifact, without the types and structures of arguments and results"
    if _MARK in start[:len(MAGIC)]:
        return "an exported function, damaged at its beginning, as by a transfer in text mode"
    return "not an exported function"


# Records


def _record(exported: ExportedModule, vjp_order: int, modules: list[bytes]) -> dict[str, Any]:
    """Return an export as JSON; append its module to `modules`."""
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
    """Return the exported function of a record, an instance of the class `make`."""
    version = record["calling_convention"]
    if not minimum_supported_calling_convention_version <= version <= maximum_supported_calling_convention_version:
        raise ValueError(
            f"cannot deserialize the exported function {record['name']}: it was exported with the calling convention "
            f"{version}, and this version of xlafront supports {minimum_supported_calling_convention_version} to "
            f"{maximum_supported_calling_convention_version}. Export it again, or install a version that supports it.")
    start, size = record["module"]
    derivative = record["vjp"]
    shardings = [record["in_shardings"], record["out_shardings"]]
    ins, outs = [tuple(map(_sharding_from_json, records)) for records in shardings]
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
    """Return the constraints on the dimension variables in types."""
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
                     f"which does not exist here. Export a function of their key data (random.key_data).")


def _sharding_to_json(sharding: NamedSharding | None, hlo: HloSharding | None) -> dict[str, Any] | None:
    """Return a sharding by the axes of its mesh, or XLA's sharding for one without axes, from a file of jax."""
    if sharding is None:
        return None if hlo is None else {"hlo": base64.b64encode(hlo_sharding_to_bytes(hlo)).decode()}
    mesh, spec = sharding.mesh, sharding.spec
    return {"mesh": [[name, size, kind.name] for (name, size), kind in zip(mesh.shape_tuple, mesh.axis_types)],
            "spec": [list(p) if isinstance(p, tuple) else p for p in spec.partitions],
            "unreduced": sorted(spec.unreduced), "reduced": sorted(spec.reduced), "memory": sharding.memory_kind,
            "unreduced_kind": spec.unreduced_kind and spec.unreduced_kind.name}


def _sharding_from_json(record: dict[str, Any] | None) -> NamedSharding | None:
    if record is None or "hlo" in record:
        return None
    names, sizes = zip(*[(name, size) for name, size, _ in record["mesh"]]) if record["mesh"] else ((), ())
    kinds = tuple([AxisType[kind] for _, _, kind in record["mesh"]])
    kind = record.get("unreduced_kind")  # which files of older versions lack
    spec = PartitionSpec(*[tuple(p) if isinstance(p, list) else p for p in record["spec"]],
                         unreduced=frozenset(record["unreduced"]), reduced=frozenset(record["reduced"]),
                         unreduced_kind=kind and UnreducedKind[kind])
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
        raise ValueError(f"the effect {effect} cannot be written to a file: its class, {kind.__name__}, must return an equal "
                         f"effect when it is called without arguments.")
    return f"{kind.__module__}.{kind.__qualname__}"


def _effect_from_json(name: str) -> Effect:
    for kind in _effect_classes(Effect):
        if f"{kind.__module__}.{kind.__qualname__}" == name:
            return kind()
    raise ValueError(f"cannot deserialize an exported function: it has the unknown effect {name}. Import the module that "
                     f"defines it first.")


def _effect_classes(kind: type[Effect]) -> Iterator[type[Effect]]:
    inner: type[Effect]
    for inner in kind.__subclasses__():
        yield inner
        yield from _effect_classes(inner)


def describe(header: dict[str, Any]) -> Sequence[tuple[str, str]]:
    """Describe a file as pairs of a title and a text."""
    record = header["exported"]
    order, derivative = 0, record["vjp"]
    while derivative is not None:
        order, derivative = order + 1, derivative["vjp"]
    in_module = "constraints" not in record and any([type(n) is str for aval in record["in_avals"] for n in aval["shape"]])
    ins, outs = [", ".join([_type_text(aval) for aval in record[key]]) or "nothing" for key in ("in_avals", "out_avals")]
    return [("function", record["name"]), ("arguments", ins), ("results", outs),
            ("constraints", ", ".join(record.get("constraints", ())) or ("those of the module" if in_module else "none")),
            ("platforms", ", ".join(record["platforms"])),
            ("devices", str(record["devices"])), ("derivatives", f"to order {order}" if order else "none"),
            ("effects", ", ".join([*record["ordered_effects"], *record["unordered_effects"]]) or "none"),
            ("disabled checks", ", ".join(record["disabled_checks"]) or "none"),
            ("calling convention", str(record["calling_convention"])), ("written by", header["writer"])]


def _type_text(record: dict[str, Any]) -> str:
    return f"{record['dtype']}[{','.join(map(str, record['shape']))}]"
