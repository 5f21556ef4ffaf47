"""Structures of pytrees in files: containers of Python, and those types that users register under a name of their own."""

from __future__ import annotations

import base64
import collections
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from xlafront.core import tree
from xlafront.core.tree import PyTreeDef

T = TypeVar("T")


class _Registered(NamedTuple):
    """How the nodes of a type are written and read."""

    nodetype: type
    name: str
    to_bytes: Callable[[Any], bytes]
    from_bytes: Callable[[bytes], Any]
    from_children: Callable[[Any, Sequence[Any]], Any]


_by_type: dict[type, _Registered] = {}
_by_name: dict[str, _Registered] = {}


def register_pytree_node_serialization(
        nodetype: type[T], *, serialized_name: str, serialize_auxdata: Callable[[Any], bytes],
        deserialize_auxdata: Callable[[bytes], Any],
        from_children: Callable[[Any, Sequence[Any]], Any] | None = None) -> type[T]:
    """Let exported functions that take or return a registered pytree type be written to files; returns the type.

    - `nodetype`: a type known to `register_pytree_node`.
    - `serialized_name`: what it is called in files; it is looked up when they are read.
    - `serialize_auxdata`, `deserialize_auxdata`: of what its flatten function returns beside the children, to bytes and back.
    - `from_children`: `(auxdata, children)` to a node; None: as the type was registered.

    >>> class Scaled:
    ...     def __init__(self, x, unit):
    ...         self.x, self.unit = x, unit
    >>> xf.tree_util.register_pytree_node(Scaled, lambda s: ((s.x,), s.unit), lambda unit, xs: Scaled(*xs, unit))
    >>> Scaled = xf.export.register_pytree_node_serialization(
    ...     Scaled, serialized_name="example.Scaled", serialize_auxdata=str.encode, deserialize_auxdata=bytes.decode)
    """
    if not isinstance(nodetype, type):
        raise TypeError(f"register_pytree_node_serialization takes a type, got {nodetype!r}.")
    if from_children is None:
        if nodetype not in tree.registered_nodes:
            raise ValueError(f"register_pytree_node_serialization got {nodetype}, which is no pytree: call "
                             f"tree_util.register_pytree_node first, or give from_children(auxdata, children).")

        def from_children(auxdata, children):
            return tree.registered_nodes[nodetype][1](auxdata, children)

    return _register(_Registered(nodetype, serialized_name, serialize_auxdata, deserialize_auxdata, from_children))


def register_namedtuple_serialization(nodetype: type[T], *, serialized_name: str) -> type[T]:
    """Let exported functions that take or return a named tuple be written to files; returns the type.

    - `nodetype`: a type made by `collections.namedtuple` or `typing.NamedTuple`; when a file is read it has the fields that it
      had when the file was written.
    - `serialized_name`: what it is called in files.

    >>> from typing import Any, NamedTuple
    >>> class Point(NamedTuple):
    ...     x: Any
    ...     y: Any
    >>> Point = xf.export.register_namedtuple_serialization(Point, serialized_name="example.Point")
    """
    if not (isinstance(nodetype, type) and issubclass(nodetype, tuple) and hasattr(nodetype, "_fields")):
        raise ValueError(f"register_namedtuple_serialization takes a type made by namedtuple, got {nodetype!r}. Other types "
                         f"are for register_pytree_node_serialization.")
    fields = nodetype._fields

    def to_bytes(auxdata) -> bytes:
        return " ".join(fields).encode()

    def from_bytes(written: bytes):
        text = written.decode()
        names = tuple(json.loads(text) if text.startswith("[") else text.split())  # the former in files of jax
        if names != fields:
            raise ValueError(f"the named tuple {serialized_name!r} had the fields {names} when the file was written, and "
                             f"{nodetype.__name__}, which is registered under this name, has {fields}.")
        return nodetype

    def from_children(auxdata, children):
        return nodetype(*children)

    return _register(_Registered(nodetype, serialized_name, to_bytes, from_bytes, from_children))


def _register(entry: _Registered):
    if entry.nodetype in _by_type:
        raise ValueError(f"{entry.nodetype} is already registered for serialization, under {_by_type[entry.nodetype].name!r}: "
                         f"this registration would be a duplicate.")
    if entry.name in _by_name:
        raise ValueError(f"the name {entry.name!r} is already registered for the serialization of "
                         f"{_by_name[entry.name].nodetype}: this registration would be a duplicate. Choose another name.")
    _by_type[entry.nodetype] = _by_name[entry.name] = entry
    return entry.nodetype


def _ordered_keys(keys: Sequence[Any]) -> list:
    for key in keys:
        if not isinstance(key, (str, int, bool)) and key is not None:
            raise TypeError(f"dictionaries in files have keys that are strings, numbers or None, found {key!r} of type "
                            f"{type(key).__name__}. Pass a dictionary with such keys.")
    return list(keys)


def to_json(structure: PyTreeDef) -> Any:
    """A structure as lists and strings: `"*"` is a leaf, None is None."""
    data = structure.node_data()
    if data is None:
        return "*" if structure.num_leaves else None
    kind, auxdata = data
    children = [to_json(child) for child in structure.children()]
    if kind is type(None):
        return None
    if kind in (tuple, list):
        return [kind.__name__, children]
    if kind in (dict, collections.OrderedDict):
        return [kind.__name__, children, _ordered_keys(auxdata)]
    if kind is collections.defaultdict:
        factory, keys = auxdata
        if factory not in _FACTORIES.values():
            raise TypeError(f"a defaultdict in a file has one of the factories None, {', '.join(filter(None, _FACTORIES))}, "
                            f"found {factory!r}. Pass a dict.")
        [name] = [name for name, known in _FACTORIES.items() if known is factory]
        return ["defaultdict", children, _ordered_keys(keys), name]
    entry = _by_type.get(kind)
    if entry is None:
        raise ValueError(f"the export cannot be serialized: it takes or returns a {kind}, which is not registered for that. "
                         f"Use export.register_namedtuple_serialization for named tuples, and "
                         f"export.register_pytree_node_serialization for others.")
    written = entry.to_bytes(auxdata)
    if not isinstance(written, (bytes, bytearray, str)):
        raise TypeError(f"serialize_auxdata of {kind} returned {written!r}, which is not bytes.")
    written = written.encode() if isinstance(written, str) else bytes(written)
    return ["registered", children, entry.name, base64.b64encode(written).decode()]


_FACTORIES: dict[str, Any] = {"": None, "dict": dict, "list": list, "set": set, "int": int, "float": float}


def from_json(written: Any) -> PyTreeDef:
    """The structure that `to_json` wrote down."""
    return tree.structure(_example(written))


def _example(written: Any) -> Any:
    """A pytree of the structure."""
    if written == "*":
        return 0
    if written is None:
        return None
    kind, children, *rest = written
    parts = [_example(child) for child in children]
    if kind in ("tuple", "list"):
        return tuple(parts) if kind == "tuple" else parts
    if kind == "dict":
        return dict(zip(rest[0], parts))
    if kind == "OrderedDict":
        return collections.OrderedDict(zip(rest[0], parts))
    if kind == "defaultdict":
        return collections.defaultdict(_FACTORIES[rest[1]], zip(rest[0], parts))
    name, auxdata = rest
    entry = _by_name.get(name)
    if entry is None:
        raise ValueError(f"the exported function takes or returns a type that is called {name!r} in the file, and no type is "
                         f"registered under this name. Register it before reading the file, with "
                         f"export.register_pytree_node_serialization or export.register_namedtuple_serialization.")
    return entry.from_children(entry.from_bytes(base64.b64decode(auxdata)), parts)
