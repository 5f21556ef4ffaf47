"""Serialization of pytree structures: Python containers, and types that are registered under a name."""

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
    """The serialization of a pytree type."""

    nodetype: type
    name: str
    to_bytes: Callable[[Any], bytes]
    from_bytes: Callable[[bytes], Any]
    from_children: Callable[[Any, Sequence[Any]], Any] | None


_by_type: dict[type, _Registered] = {}
_by_name: dict[str, _Registered] = {}


def register_pytree_node_serialization(
        nodetype: type[T], *, serialized_name: str, serialize_auxdata: Callable[[Any], bytes],
        deserialize_auxdata: Callable[[bytes], Any],
        from_children: Callable[[Any, Sequence[Any]], Any] | None = None) -> type[T]:
    """Register a pytree type for the serialization of exported functions that take or return it.

    Args:
        nodetype: Type that is registered with `register_pytree_node`.
        serialized_name: Name of the type in files.
        serialize_auxdata, deserialize_auxdata: Conversions of the auxiliary data, which its flatten function returns, to and
            from bytes.
        from_children: Function `(auxdata, children)` that returns a node, of which files need only the structure. Default: no
            node is created.

    Returns:
        `nodetype`.

    Example:
        >>> class Scaled:
        ...     def __init__(self, x, unit):
        ...         self.x, self.unit = x, unit
        >>> xf.tree_util.register_pytree_node(Scaled, lambda s: ((s.x,), s.unit), lambda unit, xs: Scaled(*xs, unit))
        >>> Scaled = xf.export.register_pytree_node_serialization(
        ...     Scaled, serialized_name="example.Scaled", serialize_auxdata=str.encode, deserialize_auxdata=bytes.decode)
    """
    if not isinstance(nodetype, type):
        raise TypeError(f"register_pytree_node_serialization takes a type, got {nodetype!r}.")
    if from_children is None and nodetype not in tree.registered_nodes:
        raise ValueError(f"register_pytree_node_serialization got {nodetype}, which is no pytree: call "
                         f"tree_util.register_pytree_node first, or give from_children(auxdata, children).")
    return _register(_Registered(nodetype, serialized_name, serialize_auxdata, deserialize_auxdata, from_children))


def register_namedtuple_serialization(nodetype: type[T], *, serialized_name: str) -> type[T]:
    """Register a named tuple type for the serialization of exported functions that take or return it.

    Args:
        nodetype: Type made by `collections.namedtuple` or `typing.NamedTuple`. It must have the same fields when a file is
            written and read.
        serialized_name: Name of the type in files.

    Returns:
        `nodetype`.

    Example:
        >>> from typing import Any, NamedTuple
        >>> class Point(NamedTuple):
        ...     x: Any
        ...     y: Any
        >>> Point = xf.export.register_namedtuple_serialization(Point, serialized_name="example.Point")
    """
    if not (isinstance(nodetype, type) and issubclass(nodetype, tuple) and hasattr(nodetype, "_fields")):
        raise ValueError(f"register_namedtuple_serialization takes a type made by namedtuple, got {nodetype!r}. Use "
                         f"register_pytree_node_serialization for other types.")
    fields = nodetype._fields

    def to_bytes(auxdata) -> bytes:
        return " ".join(fields).encode()

    def from_bytes(data: bytes):
        text = data.decode()
        names = tuple(json.loads(text) if text.startswith("[") else text.split())  # JSON in files of jax
        if names != fields:
            raise ValueError(f"the named tuple {serialized_name!r} had the fields {names} when the file was written, and "
                             f"{nodetype.__name__}, which is registered under this name, has {fields}.")
        return None  # the auxiliary data of named tuples

    return _register(_Registered(nodetype, serialized_name, to_bytes, from_bytes, None))


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
    """Return a structure as lists and strings: `"*"` is a leaf, None is None."""
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
    data = entry.to_bytes(auxdata)
    if not isinstance(data, (bytes, bytearray, str)):
        raise TypeError(f"serialize_auxdata of {kind} returned {data!r}, which is not bytes.")
    data = data.encode() if isinstance(data, str) else bytes(data)
    return ["registered", children, entry.name, base64.b64encode(data).decode()]


_CONTAINERS = {"tuple": tuple, "list": list}
_FACTORIES: dict[str, Any] = {"": None, "dict": dict, "list": list, "set": set, "int": int, "float": float}


def from_json(record: Any) -> PyTreeDef:
    """Return the structure that `to_json` serialized. No node is created, unless its type has a `from_children`."""
    if record == "*" or record is None:
        return tree.structure(0 if record == "*" else None)
    kind, child_records, *rest = record
    children = [from_json(child) for child in child_records]
    if kind in _CONTAINERS:
        node: tuple[type, Any] = (_CONTAINERS[kind], None)
    elif kind == "dict":
        node = dict, rest[0]
    elif kind == "OrderedDict":
        node = collections.OrderedDict, tuple(rest[0])
    elif kind == "defaultdict":
        node = collections.defaultdict, (_FACTORIES[rest[1]], tuple(rest[0]))
    else:
        return _registered_node(rest[0], rest[1], children)
    return tree.structure_of_node(node, children)


def _registered_node(name: str, auxdata: str, children: list[PyTreeDef]) -> PyTreeDef:
    entry = _by_name.get(name)
    if entry is None:
        raise ValueError(f"the exported function takes or returns a type with the name {name!r} in the file, and no type is "
                         f"registered under this name. Register it before reading the file, with "
                         f"export.register_pytree_node_serialization or export.register_namedtuple_serialization.")
    data = entry.from_bytes(base64.b64decode(auxdata))
    if entry.from_children is None:
        return tree.structure_of_node((entry.nodetype, data), children)
    return tree.structure(entry.from_children(data, [child.unflatten([0] * child.num_leaves) for child in children]))
