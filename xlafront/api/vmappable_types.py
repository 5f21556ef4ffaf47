"""User-defined types that `vmap` can map over.

A type is registered with two functions: from a batch to one element, and back. `in_axes` and `out_axes` name the mapped axis of
such a value by an object of another type, for example a dimension's name. Pytree nodes that hold a shape besides their arrays
are mapped by the axes of the arrays; how their shape changes is registered here too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xlafront.core import tree
from xlafront.core.tracing import Trace
from xlafront.lax.creation import iota


class _MappedType(NamedTuple):
    spec_type: type
    to_elt: Callable
    from_elt: Callable
    make_iota: Callable | None


_types: dict[type, _MappedType] = {}


def register_vmappable(data_type: type, spec_type: type, axis_size_type: type, to_elt: Callable, from_elt: Callable,
                       make_iota: Callable | None) -> None:
    """Register a type that `vmap` can map over.

    Args:
        data_type: The type.
        spec_type: Type of the objects that name the mapped axis in `in_axes` and `out_axes`.
        axis_size_type: Type of the number of elements.
        to_elt: `(take, index, value, spec)` returns the element, with `take(array, axis)` for each array in the value.
            `index()` is the index of the element.
        from_elt: `(stack, axis_size, element, spec)` returns the value, with `stack(axis_size, array, axis)` for each array.
        make_iota: `(size)` returns the indices of all elements. Default: int32.

    Example:
        >>> class Row:
        ...     def __init__(self, data):
        ...         self.data = data
        >>> class Along(int):
        ...     pass
        >>> register_vmappable(Row, Along, int, lambda take, index, row, axis: Row(take(row.data, int(axis))),
        ...                    lambda stack, size, row, axis: Row(stack(size, row.data, int(axis))), None)
        >>> xf.vmap(lambda row: Row(row.data * 2), Along(0), Along(0), axis_size=3)(Row(xnp.ones(3))).data.tolist()
        [2.0, 2.0, 2.0]
        >>> unregister_vmappable(Row)
    """
    _types[data_type] = _MappedType(spec_type, to_elt, from_elt, make_iota)


def unregister_vmappable(data_type: type) -> None:
    """Undo `register_vmappable`.

    Args:
        data_type: The type.

    Example:
        >>> register_vmappable(bytes, str, int, lambda *args: None, lambda *args: None, None)
        >>> unregister_vmappable(bytes)
    """
    _types.pop(data_type, None)


_nodes: dict[type, tuple[Callable, Callable]] = {}


def register_batched_node(node_type: type, element_of: Callable, batch_of: Callable) -> None:
    """Register how the shape that a pytree node holds changes when its arrays are mapped over.

    Args:
        node_type: Type of the node.
        element_of: `(node, axis)` returns the element, given a node with the arrays of the element and the shape of the batch.
        batch_of: `(node, axis, size)` returns the batch, given a node with the arrays of the batch and the shape of the
            element.
    """
    _nodes[node_type] = (element_of, batch_of)


def _is_node(x: Any) -> bool:
    return type(x) in _nodes


def _over_nodes(values: Any, dims: Sequence[Any], change: Callable[[Any, int], Any]) -> Any:
    """Replace each mapped node by `change(node, axis)`; `dims` are the mapped axes of all leaves."""
    if not _nodes:
        return values
    found, structure = tree.flatten_tree(values, is_leaf=_is_node)
    if not any(map(_is_node, found)):
        return values
    rest, changed = iter(dims), []
    for x in found:
        axes = [next(rest) for _ in range(tree.structure(x).num_leaves)] if _is_node(x) else [next(rest)]
        changed.append(change(x, axes[0]) if _is_node(x) and axes[0] is not None else x)
    return tree.unflatten(structure, changed)


def elements_of_nodes(values: Any, dims: Sequence[Any]) -> Any:
    """Return arguments with the shapes of elements in their nodes; their arrays already are elements."""
    return _over_nodes(values, dims, lambda x, axis: _nodes[type(x)][0](x, axis))


def batches_of_nodes(values: Any, dims: Sequence[Any], size: int) -> Any:
    """Return results with the shapes of batches in their nodes; their arrays already are batches."""
    return _over_nodes(values, dims, lambda x, axis: _nodes[type(x)][1](x, axis, size))


def is_mapped_type(x: Any) -> bool:
    return type(x) in _types


def flatten(values: Any) -> tuple[list[Any], Any]:
    """Flatten a pytree, with values of registered types as leaves although they may be nodes."""
    return tree.flatten(values, is_mapped_type) if _types else tree.flatten(values)


def is_spec(x: Any) -> bool:
    return any(type(x) is mapped.spec_type for mapped in _types.values())


def check_spec(name: str, x: Any, spec: Any, which: str) -> None:
    """Raise unless the axis of a value of a registered type is of its `spec_type`, or None."""
    mapped = _types[type(x)]
    if spec is not None and type(spec) is not mapped.spec_type:
        raise TypeError(f"vmap of {name} has {spec!r} in {which} for a value of type {type(x).__name__}, whose mapped axis is "
                        f"named by an object of type {mapped.spec_type.__name__}.")


def element(trace: Any, x: Any, spec: Any) -> Any:
    """Return the element of a batch in a trace."""
    mapped = _types.get(type(x))
    if mapped is None:
        return trace.wrap(x, spec)

    def index():
        return trace.wrap((mapped.make_iota or (lambda size: iota("int32", size)))(trace.size), 0)

    return mapped.to_elt(lambda array, axis: element(trace, array, axis), index, x, spec)


def batch(trace: Trace, x: Any, spec: Any, place: Callable[[Any, Any], Any]) -> Any:
    """Return the batch of which `x` is an element; `place(array, axis)` does so for an array."""
    mapped = _types.get(type(x))
    if mapped is None:
        return place(x, spec)
    return mapped.from_elt(lambda size, array, axis: batch(trace, array, axis, place), trace.size, x, spec)
