"""Reader of the exported functions that jax serializes; it returns the same record as `files.py` does.

The files are flatbuffers. The fields of the tables below were found by writing files with jax 0.6.2, 0.10.2 and 0.12.0 and
comparing them.
"""

from __future__ import annotations

import base64
import itertools
import json
import math
import re
from collections.abc import Sequence
from typing import Any

from xlafront.exporting.flatbuffers import Damaged, Table

# Exported
(_FORMAT, _NAME, _IN_TREE, _IN_AVALS, _OUT_TREE, _OUT_AVALS, _FEW_DEVICES, _IN_SHARDINGS, _OUT_SHARDINGS, _PLATFORMS,
 _ORDERED_EFFECTS, _UNORDERED_EFFECTS, _CHECKS, _MODULE, _CONVENTION, _LIVE, _GLOBAL_CONSTANTS, _VJP, _DEVICES) = range(19)
_WRITER = 26  # newer than 0.10.2; the fields between are indices that repeat earlier fields

# Structures of pytrees: the kind, the children, the keys of a dictionary, the name and the auxiliary data of a registered type
_KIND, _CHILDREN, _KEYS, _REGISTERED_NAME, _AUXDATA = range(5)
_LEAF, _NONE, _TUPLE, _LIST, _DICT, _REGISTERED = range(6)
_ORDERED_DICT = "collections.OrderedDict"

_DTYPES = """bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128 bfloat16
    int4 uint4 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float0 float8_e4m3 float8_e3m4
    float8_e8m0fnu float4_e2m1fn key<fry> key<rbg> key<urbg>""".split()
_HOST = 2  # memory space of a type; the other values are device memories
_AXIS_KINDS = (None, "Auto", "Explicit", "Manual")
_MEMORIES = ("", "device", "pinned_host", "unpinned_host")
_CLASS = re.compile(r"<class '([^']+)'>")


def read(content: memoryview) -> dict[str, Any]:
    """Return the header of an equivalent xlafront file; the offsets of its modules are those in `content`."""
    try:
        root = Table.root(content)
        writer = root.text(_WRITER)
        return {"writer": f"jax {writer}".rstrip() + f", format {root.number(_FORMAT, 'H')}", "exported": _record(root)}
    except Damaged as e:
        raise ValueError(f"cannot deserialize an exported function: the file of jax is truncated, damaged or newer than "
                         f"supported: {e}. Copy the original file again, as a binary file, or export the function "
                         f"again.") from None


def _record(table: Table) -> dict[str, Any]:
    derivative = table.table(_VJP)
    in_avals, out_avals = [list(map(_aval, table.tables(field))) for field in (_IN_AVALS, _OUT_AVALS)]
    ins, outs = [list(map(_sharding, table.tables(field))) for field in (_IN_SHARDINGS, _OUT_SHARDINGS)]
    in_tree, out_tree = [_structure(_required(table, field)) for field in (_IN_TREE, _OUT_TREE)]
    live = table.numbers(_LIVE, "H")
    if (len(ins), len(outs)) != (len(in_avals), len(out_avals)) or any([i >= len(in_avals) for i in live]):
        raise Damaged("it has different numbers of types and shardings")
    for aval, sharding in zip([*in_avals, *out_avals], [*ins, *outs]):
        if sharding is not None and len(sharding.get("spec", ())) > len(aval["shape"]):
            raise Damaged(f"it shards {len(sharding['spec'])} dimensions of an array of shape {aval['shape']}")
    if (_leaves(in_tree), _leaves(out_tree)) != (len(in_avals), len(out_avals)):
        raise Damaged("it has different numbers of types and leaves")
    return {
        "name": table.text(_NAME), "in_tree": in_tree, "in_avals": in_avals, "out_tree": out_tree, "out_avals": out_avals,
        "in_shardings": ins, "out_shardings": outs, "devices": table.number(_DEVICES, "I") or table.number(_FEW_DEVICES, "H"),
        "platforms": table.texts(_PLATFORMS), "ordered_effects": list(map(_effect, table.tables(_ORDERED_EFFECTS))),
        "unordered_effects": list(map(_effect, table.tables(_UNORDERED_EFFECTS))),
        "disabled_checks": list(map(_check, table.tables(_CHECKS))), "module": list(table.data(_MODULE)),
        "calling_convention": table.number(_CONVENTION, "H"), "kept": live,
        "global_constants": bool(table.number(_GLOBAL_CONSTANTS, "B")),
        "vjp": None if derivative is None else _record(derivative),
    }  # constraints on symbolic dimensions are only in the module


def _required(table: Table, field: int) -> Table:
    found = table.table(field)
    if found is None:
        raise Damaged("it has no types of the arguments or results")
    return found


def _structure(table: Table) -> Any:
    """Return the structure in the form of `structures.to_json`."""
    kind, children = table.number(_KIND, "B"), list(map(_structure, table.tables(_CHILDREN)))
    if kind == _LEAF:
        return "*"
    if kind == _NONE:
        return None
    if kind in (_TUPLE, _LIST):
        return ["tuple" if kind == _TUPLE else "list", children]
    if kind == _DICT:
        return ["dict", children, _check_keys(table.texts(_KEYS), children)]
    if kind != _REGISTERED:
        raise Damaged(f"it has a structure of the unknown kind {kind}")
    name, auxdata = table.text(_REGISTERED_NAME), table.blob(_AUXDATA)
    if name == _ORDERED_DICT:
        return ["OrderedDict", children, _check_keys(_names(auxdata), children)]
    return ["registered", children, name, base64.b64encode(auxdata).decode()]


def _check_keys(keys: list[str], children: Sequence[Any]) -> list[str]:
    if len(set(keys)) != len(children):
        raise Damaged("it has a dictionary with different numbers of keys and values")
    return keys


def _names(auxdata: bytes) -> list[str]:
    """Parse a list of names, which jax writes for ordered dictionaries and named tuples."""
    try:
        found = json.loads(auxdata)
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise Damaged(f"{auxdata[:40]!r} are not keys")
    return found


def _leaves(structure: Any) -> int:
    return structure == "*" if structure is None or structure == "*" else sum(map(_leaves, structure[1]))


def _aval(table: Table) -> dict[str, Any]:
    shape = [int(size) if re.fullmatch(r"\d{1,18}", size) else size for size in table.texts(1)]
    dtype = table.number(2, "B")
    if dtype >= len(_DTYPES):
        raise Damaged(f"it has a dtype with the unknown number {dtype}")
    record: dict[str, Any] = {"shape": shape, "dtype": _DTYPES[dtype]}
    return {**record, "memory": "Host"} if table.number(3, "B") == _HOST else record


def _sharding(table: Table) -> dict[str, Any] | None:
    named = table.table(2)
    if named is None:
        hlo = table.blob(1)  # by jax 0.6: XLA's sharding, without mesh axes
        return {"hlo": base64.b64encode(hlo).decode()} if hlo else None
    mesh, spec = named.table(0), named.table(1)
    if mesh is None or spec is None:
        raise Damaged("it has a sharding without a mesh")
    sizes, names, kinds = mesh.numbers(0, "I"), mesh.texts(1), mesh.numbers(2, "B")
    if not len(sizes) == len(set(names)) == len(kinds) or not set(kinds) <= {1, 2, 3} or not (
            0 < math.prod(sizes) < 2**31):
        raise Damaged("it has a mesh with invalid axes")
    partitions = [partition.texts(0) for partition in spec.tables(0)]
    reduced, unreduced = spec.texts(1), spec.texts(2)
    used = [*itertools.chain(*partitions), *reduced, *unreduced]
    if len(set(used)) < len(used) or not set(used) <= set(names):
        raise Damaged("it has a sharding over axes that its mesh does not have, or that are used twice")
    return {"mesh": [[name, size, _AXIS_KINDS[kind]] for name, size, kind in zip(names, sizes, kinds)],
            "spec": [axes if len(axes) > 1 else axes[0] if axes else None for axes in partitions],
            "unreduced": unreduced, "reduced": reduced, "memory": _one_of(_MEMORIES, named.text(2)) or None}


def _one_of(known: Sequence[str], text: str) -> str:
    if text not in known:
        raise Damaged(f"{text!r} is not one of {', '.join(filter(None, known))}")
    return text


def _effect(table: Table) -> str:
    """Return the class name of an effect, which jax writes as the `repr` of the class."""
    text = table.text(0)
    found = _CLASS.fullmatch(text)
    return found.group(1) if found else text


def _check(table: Table) -> str:
    kind = table.number(0, "B")
    if kind > 1:
        raise Damaged(f"it has a disabled check with the unknown number {kind}")
    return f"custom_call:{table.text(1)}" if kind else "platform"
