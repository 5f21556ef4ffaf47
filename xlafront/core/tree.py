"""Pytrees: nested containers of arrays, over jaxlib's registry.

`flatten` and `unflatten` are the C++ calls themselves. The public functions are in `xlafront.tree` and
`xlafront.tree_util`.
"""

from __future__ import annotations

import copyreg
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from xlafront.runtime.jaxlib_compat import pytree

default_registry = pytree.default_registry()
PyTreeDef = pytree.PyTreeDef


def _registry():
    return default_registry


# Structures are pickled and copied with their registry, of which there is one in each process.
copyreg.pickle(type(default_registry), lambda registry: (_registry, ()))
SequenceKey, DictKey, GetAttrKey, FlattenedIndexKey = (
    pytree.SequenceKey, pytree.DictKey, pytree.GetAttrKey, pytree.FlattenedIndexKey)

KeyEntry = Any
KeyPath = tuple[KeyEntry, ...]

flatten = default_registry.flatten  # (tree, is_leaf=None) -> (leaves, treedef)


def flatten_tree(tree, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], PyTreeDef]:
    """The leaves of a pytree and its structure; `is_leaf` says what counts as a leaf besides arrays and the like.

    >>> leaves, structure = flatten_tree({"a": 1, "b": (2, 3)})
    >>> leaves
    [1, 2, 3]
    """
    return flatten(tree, is_leaf)


def flatten_with_path(tree, is_leaf=None, is_leaf_takes_path=False) -> tuple[list[tuple[tuple, Any]], PyTreeDef]:
    if is_leaf is not None and is_leaf_takes_path:
        predicate = is_leaf
    else:
        predicate = None if is_leaf is None else lambda path, x: is_leaf(x)
    return default_registry.flatten_with_path(tree, predicate)


def unflatten(treedef: PyTreeDef, leaves: Iterable[Any]):
    return treedef.unflatten(leaves)


def leaves(tree, is_leaf=None) -> list[Any]:
    return flatten(tree, is_leaf)[0]


def structure(tree, is_leaf=None) -> PyTreeDef:
    return flatten(tree, is_leaf)[1]


def map(f: Callable, tree, *rest, is_leaf=None):
    """Apply `f` to corresponding leaves of trees of one structure."""
    first, treedef = flatten(tree, is_leaf)
    if not rest:
        return treedef.unflatten([f(x) for x in first])
    try:
        columns = [first, *(treedef.flatten_up_to(r) for r in rest)]
    except (ValueError, TypeError) as e:
        for r in rest:
            check_prefix("the first tree of map", tree, r, is_leaf)
        raise e
    return treedef.unflatten([f(*xs) for xs in zip(*columns)])


# Paths


def key_name(key) -> str:
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def keystr(keys: tuple, *, simple: bool = False, separator: str = "") -> str:
    """A key path as Python would write it: `['w'][0].bias`; with `simple`, its names joined by `separator`."""
    return separator.join([key_name(k) if simple else str(k) for k in keys])


def path_of(tree, index: int) -> str:
    paths, _ = flatten_with_path(tree)
    return keystr(paths[index][0])


# Registration


def register_pytree_node(nodetype: type, flatten_func: Callable, unflatten_func: Callable,
                         flatten_with_keys_func: Callable | None = None) -> None:
    """Teach pytrees a container: `flatten_func(x) -> (children, aux)`, `unflatten_func(aux, children) -> x`."""
    _refuse_twice(nodetype)
    default_registry.register_node(nodetype, flatten_func, unflatten_func, flatten_with_keys_func)
    _nodes[nodetype] = (flatten_func, unflatten_func, flatten_with_keys_func)


def register_pytree_with_keys(nodetype: type, flatten_with_keys: Callable, unflatten_func: Callable,
                              flatten_func: Callable | None = None) -> None:
    """As `register_pytree_node`, with a flattening whose children come as (key, child) pairs."""
    if flatten_func is None:
        def flatten_func(x):
            pairs, aux = flatten_with_keys(x)
            return [child for _, child in pairs], aux
    register_pytree_node(nodetype, flatten_func, unflatten_func, flatten_with_keys)


def register_pytree_node_class(cls: type) -> type:
    """Decorator for classes with `tree_flatten(self)` and `tree_unflatten(cls, aux, children)`."""
    register_pytree_node(cls, lambda x: x.tree_flatten(), cls.tree_unflatten)
    return cls


def register_pytree_with_keys_class(cls: type) -> type:
    """Decorator for classes with `tree_flatten_with_keys` and `tree_unflatten`."""
    flatten_func = (lambda x: x.tree_flatten()) if hasattr(cls, "tree_flatten") else None
    register_pytree_with_keys(cls, lambda x: x.tree_flatten_with_keys(), cls.tree_unflatten, flatten_func)
    return cls


def register_dataclass(nodetype: type, data_fields=None, meta_fields=None, drop_fields=()) -> type:
    """Make a dataclass a pytree: `data_fields` hold children, `meta_fields` are static.

    Without the lists, fields marked `metadata=dict(static=True)` are static and the others children.
    """
    import dataclasses

    if data_fields is None or meta_fields is None:
        if (data_fields is None) != (meta_fields is None):
            raise TypeError("register_dataclass takes data_fields and meta_fields together, or neither.")
        if not dataclasses.is_dataclass(nodetype):
            raise TypeError(f"register_dataclass got {nodetype!r}, which is not a dataclass: data_fields and meta_fields are "
                            f"required.")
        init = [f for f in dataclasses.fields(nodetype) if f.init and f.name not in drop_fields]
        data_fields = [f.name for f in init if not f.metadata.get("static", False)]
        meta_fields = [f.name for f in init if f.metadata.get("static", False)]
    data_fields, meta_fields = tuple(data_fields), tuple(meta_fields)
    if dataclasses.is_dataclass(nodetype):
        init = {f.name for f in dataclasses.fields(nodetype) if f.init}
        given = {*data_fields, *meta_fields}
        missing, unknown = init - given - set(drop_fields), given - init
        if missing or unknown:
            problems = [f"without {sorted(missing)}"] * bool(missing) + [f"with unknown {sorted(unknown)}"] * bool(unknown)
            raise ValueError(f"the fields given for {nodetype.__name__} are {' and '.join(problems)}; every init field "
                             f"must be in data_fields, meta_fields or drop_fields.")
    if len({*data_fields, *meta_fields}) < len(data_fields) + len(meta_fields):
        raise ValueError(f"a field of {nodetype.__name__} is both in data_fields and in meta_fields")

    def flatten_func(x):
        return tuple(getattr(x, n) for n in data_fields), tuple(getattr(x, n) for n in meta_fields)

    def flatten_with_keys(x):
        return tuple((GetAttrKey(n), getattr(x, n)) for n in data_fields), tuple(getattr(x, n) for n in meta_fields)

    def unflatten_func(meta, data):
        return nodetype(**dict(zip(data_fields, data)), **dict(zip(meta_fields, meta)))

    _refuse_twice(nodetype)
    default_registry.register_dataclass_node(nodetype, list(data_fields), list(meta_fields))
    _nodes[nodetype] = (flatten_func, unflatten_func, flatten_with_keys)
    return nodetype


def register_static(cls: type) -> type:
    """Make a type a pytree without children: its instances are compared and hashed as static data."""
    register_pytree_node(cls, lambda x: ((), x), lambda x, _: x, lambda x: ((), x))
    return cls


def _refuse_twice(nodetype) -> None:
    if not isinstance(nodetype, type):
        raise TypeError(f"a pytree node type must be a class, got {nodetype!r}")
    if nodetype in _nodes or nodetype in (list, tuple, dict, type(None)):
        raise ValueError(f"{nodetype.__name__} is already registered as a pytree")


_nodes: dict[type, tuple[Callable, Callable, Callable | None]] = {}


def _register_defaults() -> None:
    import collections

    register_pytree_node(
        collections.OrderedDict, lambda d: (tuple(d.values()), tuple(d)),
        lambda keys, values: collections.OrderedDict(zip(keys, values)),
        lambda d: (tuple((DictKey(k), v) for k, v in d.items()), tuple(d)))
    register_pytree_node(
        collections.defaultdict,
        lambda d: (tuple(d[k] for k in sorted(d)), (d.default_factory, tuple(sorted(d)))),
        lambda aux, values: collections.defaultdict(aux[0], zip(aux[1], values)),
        lambda d: (tuple((DictKey(k), d[k]) for k in sorted(d)), (d.default_factory, tuple(sorted(d)))))


def is_tree_node(typ: type) -> bool:
    return typ in _nodes or typ in (list, tuple, dict, type(None)) or (
        issubclass(typ, tuple) and hasattr(typ, "_fields"))


def flatten_one_level(tree) -> tuple[list[Any], Any]:
    """The immediate children of a node and what else it takes to rebuild it."""
    found = default_registry.flatten_one_level(tree)
    if found is None:
        raise ValueError(f"{type(tree).__name__} is a leaf: it cannot be flattened by one level")
    return found


def flatten_one_level_with_keys(tree) -> tuple[list[tuple[Any, Any]], Any]:
    found = default_registry.flatten_one_level_with_keys(tree)
    if found is None:
        raise ValueError(f"{type(tree).__name__} is a leaf: it cannot be flattened by one level")
    return found


# Prefixes


def broadcast_prefix(prefix, full, is_leaf=None) -> list[Any]:
    """The leaves of `prefix`, each repeated for all the leaves of `full` beneath it."""
    result: list[Any] = []

    def broadcast(x, subtree):
        result.extend([x] * structure(subtree).num_leaves)

    prefix_leaves, treedef = flatten(prefix, is_leaf)
    for x, subtree in zip(prefix_leaves, treedef.flatten_up_to(full)):
        broadcast(x, subtree)
    return result


def leaves_by_prefix(name: str, prefix, full, is_leaf=None) -> list[Any]:
    """As `broadcast_prefix`, for what a user gave under a name: an error says where it does not fit."""
    if is_leaf is not None and is_leaf(prefix):
        return [prefix] * structure(full).num_leaves
    try:
        return broadcast_prefix(prefix, full, is_leaf)
    except ValueError:
        check_prefix(name, prefix, full, is_leaf)
        raise


def check_prefix(name: str, prefix, full, is_leaf=None) -> None:
    """Refuse what is no prefix of `full`, and say all places where it is not."""
    found = [f"at key path {name}{keystr(path)} {what}" for path, what in _mismatches((), prefix, full, is_leaf)]
    if found:
        raise ValueError(
            f"{name} must be a tree prefix of the pytree that it is given for: have its pytree structure, or that of a part "
            f"of it counted from its root. Mismatch details ({len(found)} found): {'; '.join(found)}.") from None


def _mismatches(path, prefix, full, is_leaf) -> Iterator[tuple[tuple, str]]:
    if (is_leaf is not None and is_leaf(prefix)) or default_registry.flatten_one_level(prefix) is None:
        return  # a leaf is a prefix of anything
    if type(prefix) is not type(full):
        yield path, f"the types are different: it is a {_kind(prefix)}, the other a {_kind(full)}"
        return
    pairs, aux = default_registry.flatten_one_level_with_keys(prefix)
    full_pairs, full_aux = default_registry.flatten_one_level_with_keys(full)
    pairs, full_pairs = list(pairs), list(full_pairs)
    if isinstance(prefix, dict) and set(prefix) != set(full):
        yield path, f"the metadata are different: its keys are {list(prefix)}, the other's {list(full)}"
        return
    if len(pairs) != len(full_pairs):
        yield path, f"the lengths are different: it has {len(pairs)} children, the other {len(full_pairs)}"
        return
    if aux != full_aux:
        yield path, f"the metadata are different: its static data is {aux!r}, the other's {full_aux!r}"
        return
    for (key, child), (_, full_child) in zip(pairs, full_pairs):
        yield from _mismatches((*path, key), child, full_child, is_leaf)


def _kind(x) -> str:
    return "leaf" if default_registry.flatten_one_level(x) is None else type(x).__name__


def first_difference(tree1, tree2) -> str:
    """In words, where two trees of unequal structure first differ."""
    for path, what in _mismatches((), tree1, tree2, None):
        return f"at {keystr(path) or 'the root'} {what}"
    for path, what in _mismatches((), tree2, tree1, None):
        return f"at {keystr(path) or 'the root'} {what} (seen from the second)"
    return f"{structure(tree1)} against {structure(tree2)}"


class Partial(functools.partial):
    """`functools.partial` as a pytree: the arguments are children, the function is static.

    >>> jit(lambda f, x: f(x))(Partial(xnp.power, 2.0), 3.0)
    """

    def __new__(cls, func, /, *args, **kw):
        # functools.partial would merge a partial of a partial, and its static arguments would become children.
        inner = _Inner(func.func, *func.args, **func.keywords) if isinstance(func, functools.partial) else func
        return super().__new__(cls, inner, *args, **kw)


class _Inner(functools.partial):
    """A partial that compares by what it applies, and stays one object when it is applied partially."""

    def __new__(cls, func, /, *args, **kw):
        made = super().__new__(cls, func, *args, **kw)
        made.whole = True  # partials with attributes are not merged
        return made

    def __call__(self, *args, **kwargs):  # nor, in some versions of Python, those with a call of their own
        return super().__call__(*args, **kwargs)

    def __eq__(self, other):
        return isinstance(other, functools.partial) and (self.func, self.args, self.keywords) == (
            other.func, other.args, other.keywords)

    def __hash__(self):
        return hash((self.func, self.args, tuple(self.keywords.items())))


_register_defaults()
register_pytree_with_keys(
    Partial,
    lambda p: (((GetAttrKey("args"), p.args), (GetAttrKey("keywords"), p.keywords)), p.func),
    lambda func, children: Partial(func, *children[0], **children[1]))


# Over whole trees


_none_given = object()


def map_with_path(f: Callable, tree, *rest, is_leaf=None, is_leaf_takes_path=False):
    """`map` whose function gets the key path of each leaf first."""
    pairs, treedef = flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    columns = [treedef.flatten_up_to(r) for r in rest]
    return treedef.unflatten([f(path, x, *xs) for (path, x), *xs in zip(pairs, *columns)])


def leaves_with_path(tree, is_leaf=None, is_leaf_takes_path=False) -> list[tuple[tuple, Any]]:
    """The leaves, each with its key path."""
    return flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def reduce(function: Callable, tree, initializer: Any = _none_given, is_leaf=None):
    """`functools.reduce` over the leaves."""
    items = leaves(tree, is_leaf)
    return functools.reduce(function, items) if initializer is _none_given else functools.reduce(
        function, items, initializer)


def reduce_associative(operation: Callable, tree, *, identity: Any = _none_given, is_leaf=None):
    """Combine the leaves pair by pair, in a tree of logarithmic depth; `identity` is the value without leaves."""
    items = leaves(tree, is_leaf)
    if not items:
        if identity is _none_given:
            raise TypeError("reduce_associative of a tree without leaves needs `identity`.")
        return identity
    while len(items) > 1:
        pairs = [operation(a, b) for a, b in zip(items[::2], items[1::2])]
        items = pairs + items[2 * len(pairs):]
    return items[0]


def all(tree, *, is_leaf=None) -> bool:
    """Whether every leaf is true."""
    for leaf in leaves(tree, is_leaf):
        if not leaf:
            return False
    return True


def all_leaves(iterable: Iterable[Any], is_leaf=None) -> bool:
    """Whether every element of an iterable is a leaf."""
    items = list(iterable)
    return all([structure(x, is_leaf).num_nodes == 1 and structure(x, is_leaf).num_leaves == 1 for x in items])


def broadcast(prefix_tree, full_tree, is_leaf=None):
    """The prefix with its leaves repeated to the structure of the full tree.

    >>> broadcast((1, 2), (0, {"a": 0, "b": 0}))
    (1, {'a': 2, 'b': 2})
    """
    check_prefix("prefix_tree", prefix_tree, full_tree, is_leaf)
    return structure(full_tree, is_leaf).unflatten(broadcast_prefix(prefix_tree, full_tree, is_leaf))


def transpose(outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose):
    """A tree of trees turned inside out: `[{a, b}, {a, b}] -> {a: [.., ..], b: [.., ..]}`."""
    flat, treedef = flatten(pytree_to_transpose)
    if inner_treedef is None:
        inner_treedef = structure(outer_treedef.flatten_up_to(pytree_to_transpose)[0])
    inner, outer = inner_treedef.num_leaves, outer_treedef.num_leaves
    # Only the leaves are compared: what a node holds besides them may depend on what is below it.
    if len(flat) != inner * outer:
        raise TypeError(f"the tree to transpose must have the structure {outer_treedef.compose(inner_treedef)} (outer around "
                        f"inner); it has {treedef}.")
    rows = [flat[i * inner:(i + 1) * inner] for i in range(outer)]
    return inner_treedef.unflatten([outer_treedef.unflatten([row[j] for row in rows]) for j in range(inner)])


def static(**kwargs):
    """`dataclasses.field` that marks a field of a registered dataclass as static."""
    import dataclasses

    return dataclasses.field(**kwargs | {"metadata": {**(kwargs.get("metadata") or {}), "static": True}})


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Whether a structure is a single node, without children."""
    return treedef.num_nodes == 1


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """The structures of the direct children."""
    return treedef.children()


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """The structure of a tuple whose items have these structures."""
    return pytree.treedef_tuple(default_registry, list(treedefs))
