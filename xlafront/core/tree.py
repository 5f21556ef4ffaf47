"""Pytrees: nested containers of arrays, over jaxlib's registry.

`flatten` and `unflatten` are the C++ calls themselves. The public functions are in `xlafront.tree` and
`xlafront.tree_util`.
"""

from __future__ import annotations

import copyreg
import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from xlafront.core import errors
from xlafront.core.zeros import UndefinedPrimal, Zero
from xlafront.runtime.jaxlib_compat import pytree

default_registry = pytree.default_registry()
# The same nodes for calls that C++ repeats alone, and beside them what users see as leaves: random keys, which hold an array.
dispatch_registry = pytree.PyTreeRegistry()
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


def flatten_tree(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], PyTreeDef]:
    """The leaves of a pytree, from left to right, and its structure.

    - `tree`: any value; lists, tuples, dicts, None and registered types are nodes, all else are leaves.
    - `is_leaf`: says of a node whether it is to count as a leaf.

    >>> leaves, structure = xf.tree.flatten({"a": 1, "b": (2, 3)})
    >>> leaves
    [1, 2, 3]
    """
    try:
        return flatten(tree, is_leaf)
    except SystemError as e:
        raise errors.pytree_without_end(e) from None


def flatten_with_path(tree: Any, is_leaf: Callable[[Any], bool] | None = None,
                      is_leaf_takes_path: bool = False) -> tuple[list[tuple[tuple, Any]], PyTreeDef]:
    """The leaves of a pytree, each with its key path, and its structure.

    - `tree`, `is_leaf`: as of `flatten`.
    - `is_leaf_takes_path`: `is_leaf` is called with the path and the node.

    >>> pairs, structure = xf.tree.flatten_with_path({"a": [5]})
    >>> pairs
    [((DictKey(key='a'), SequenceKey(idx=0)), 5)]
    """
    if is_leaf is not None and is_leaf_takes_path:
        predicate = is_leaf
    else:
        predicate = None if is_leaf is None else lambda path, x: is_leaf(x)
    try:
        return default_registry.flatten_with_path(tree, predicate)
    except SystemError as e:
        raise errors.pytree_without_end(e) from None


def unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """The pytree of a structure with given leaves, the inverse of `flatten`.

    - `treedef`: the structure.
    - `leaves`: as many as it has.

    >>> xf.tree.unflatten(xf.tree.structure({"a": 1, "b": (2, 3)}), [7, 8, 9])
    {'a': 7, 'b': (8, 9)}
    """
    return treedef.unflatten(leaves)


def leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves of a pytree, from left to right; those of a dict in the order of its keys.

    - `tree`, `is_leaf`: as of `flatten`.

    >>> xf.tree.leaves({"b": 1, "a": [2, None]})
    [2, 1]
    """
    return flatten_tree(tree, is_leaf)[0]


def structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> PyTreeDef:
    """The structure of a pytree: what it is besides its leaves.

    - `tree`, `is_leaf`: as of `flatten`.

    >>> xf.tree.structure({"a": 1, "b": (2, 3)})
    PyTreeDef({'a': *, 'b': (*, *)})
    """
    return flatten_tree(tree, is_leaf)[1]


def map(f: Callable, tree: Any, *rest: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """A pytree with each leaf replaced by what a function makes of it.

    - `f`: the function of a leaf, or of as many corresponding leaves as there are trees.
    - `tree`: the pytree whose structure the result has.
    - `rest`: further ones, with the same structure at least: in place of a leaf they may have a whole tree.
    - `is_leaf`: as of `flatten`.

    >>> xf.tree.map(lambda x, y: x + y, {"a": 1, "b": 2}, {"a": 10, "b": 20})
    {'a': 11, 'b': 22}
    """
    first, treedef = flatten_tree(tree, is_leaf)
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
    """A key path as text.

    - `keys`: the path, as `tree_flatten_with_path` gives it.
    - `simple`: the names of the keys alone, rather than how Python would write it.
    - `separator`: what is put between.

    >>> path, leaf = xf.tree.leaves_with_path({"w": [5]})[0]
    >>> xf.tree_util.keystr(path), xf.tree_util.keystr(path, simple=True, separator="/")
    ("['w'][0]", 'w/0')
    """
    return separator.join([key_name(k) if simple else str(k) for k in keys])


class _StandIn:
    """In place of an object whose class takes no numbers where arrays were."""

    def __init__(self, children: Sequence[Any]):
        self.children = tuple(children)


def numbered(treedef: PyTreeDef) -> Any:
    """A pytree of a structure in which each leaf is its number, to look at what is where in it."""
    try:
        made = treedef.unflatten(range(treedef.num_leaves))
        if len(default_registry.flatten(made)[0]) == treedef.num_leaves:  # else a class takes numbers for what is no leaf
            return made
    except Exception:  # what a user's class says when it is made of numbers
        pass
    return _with_stand_ins(treedef, iter(range(treedef.num_leaves)))


def _with_stand_ins(treedef: PyTreeDef, numbers: Iterator[int]) -> Any:
    data = treedef.node_data()
    if data is None:
        return next(numbers)
    kind, keys = data
    children = [_with_stand_ins(child, numbers) for child in treedef.children()]
    if kind is dict:
        return dict(zip(keys, children))
    if kind in (list, tuple):
        return kind(children)
    return kind(*children) if issubclass(kind, tuple) and hasattr(kind, "_fields") else _StandIn(children)


def leaf_paths(treedef: PyTreeDef) -> list[tuple]:
    """The key path of each leaf of a structure."""
    return [path for path, _ in flatten_with_path(numbered(treedef))[0]]


def result_paths(treedef: PyTreeDef) -> list[str]:
    """The place of each leaf in what a function returns: `result['loss']`."""
    return [f"result{keystr(path)}" for path in leaf_paths(treedef)]


def path_of(tree, index: int) -> str:
    paths, _ = flatten_with_path(tree)
    return keystr(paths[index][0])


# Registration


def register_pytree_node(nodetype: type, flatten_func: Callable, unflatten_func: Callable,
                         flatten_with_keys_func: Callable | None = None) -> None:
    """Teach pytrees a type of containers.

    - `nodetype`: the class.
    - `flatten_func`: `flatten_func(x) -> (children, aux)`, where `aux` can be hashed and compared.
    - `unflatten_func`: `unflatten_func(aux, children) -> x`.
    - `flatten_with_keys_func`: as `flatten_func`, whose children come as (key, child) pairs, for key paths.

    >>> class Pair:
    ...     def __init__(self, first, second): self.first, self.second = first, second
    >>> xf.tree_util.register_pytree_node(Pair, lambda p: ((p.first, p.second), None), lambda aux, children: Pair(*children))
    >>> xf.tree.leaves([Pair(1, 2), 3])
    [1, 2, 3]
    """
    _refuse_twice(nodetype)
    for registry in (default_registry, dispatch_registry):
        registry.register_node(nodetype, flatten_func, unflatten_func, flatten_with_keys_func)
    registered_nodes[nodetype] = (flatten_func, unflatten_func, flatten_with_keys_func)


def register_pytree_with_keys(nodetype: type, flatten_with_keys: Callable, unflatten_func: Callable,
                              flatten_func: Callable | None = None) -> None:
    """Teach pytrees a type of containers whose children have names in key paths.

    - `nodetype`: the class.
    - `flatten_with_keys`: `flatten_with_keys(x) -> (pairs, aux)`, with a pair (key, child) for each child.
    - `unflatten_func`, `flatten_func`: as of `register_pytree_node`; the second is for speed.

    >>> class Box:
    ...     def __init__(self, content): self.content = content
    >>> key = xf.tree_util.GetAttrKey("content")
    >>> xf.tree_util.register_pytree_with_keys(Box, lambda b: (((key, b.content),), None), lambda aux, children: Box(*children))
    >>> xf.tree_util.keystr(xf.tree.leaves_with_path(Box(5))[0][0])
    '.content'
    """
    if flatten_func is None:
        def flatten_func(x):
            pairs, aux = flatten_with_keys(x)
            return [child for _, child in pairs], aux
    register_pytree_node(nodetype, flatten_func, unflatten_func, flatten_with_keys)


def register_pytree_node_class(cls: type) -> type:
    """Decorator: make a class a pytree that says itself how.

    - `cls`: the class, with the methods `tree_flatten(self) -> (children, aux)` and `tree_unflatten(cls, aux, children)`.

    >>> @xf.tree_util.register_pytree_node_class
    ... class Box:
    ...     def __init__(self, content): self.content = content
    ...     def tree_flatten(self): return (self.content,), None
    ...     @classmethod
    ...     def tree_unflatten(cls, aux, children): return cls(*children)
    >>> xf.tree.leaves(Box((1, 2)))
    [1, 2]
    """
    register_pytree_node(cls, lambda x: x.tree_flatten(), cls.tree_unflatten)
    return cls


def register_pytree_with_keys_class(cls: type) -> type:
    """Decorator: make a class a pytree whose children have names in key paths.

    - `cls`: the class, with the methods `tree_flatten_with_keys(self) -> ((key, child) pairs, aux)` and
      `tree_unflatten(cls, aux, children)`; `tree_flatten` is for speed.

    >>> @xf.tree_util.register_pytree_with_keys_class
    ... class Box:
    ...     def __init__(self, content): self.content = content
    ...     def tree_flatten_with_keys(self): return ((xf.tree_util.GetAttrKey("content"), self.content),), None
    ...     @classmethod
    ...     def tree_unflatten(cls, aux, children): return cls(*children)
    >>> xf.tree_util.keystr(xf.tree.leaves_with_path(Box(5))[0][0])
    '.content'
    """
    flatten_func = (lambda x: x.tree_flatten()) if hasattr(cls, "tree_flatten") else None
    register_pytree_with_keys(cls, lambda x: x.tree_flatten_with_keys(), cls.tree_unflatten, flatten_func)
    return cls


def register_dataclass(nodetype: type, data_fields: Sequence[str] | None = None, meta_fields: Sequence[str] | None = None,
                       drop_fields: Sequence[str] = ()) -> type:
    """Make a dataclass a pytree.

    - `nodetype`: the class.
    - `data_fields`, `meta_fields`: the fields that hold children, and those that are static: part of the structure. Without the
      lists, those marked `metadata=dict(static=True)` are static.
    - `drop_fields`: fields that are neither; they must have defaults.

    >>> import dataclasses
    >>> @xf.tree_util.register_dataclass
    ... @dataclasses.dataclass
    ... class Layer:
    ...     weights: list
    ...     name: str = xf.tree.static()
    >>> xf.tree.leaves(Layer([1, 2], "first"))
    [1, 2]
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
    for registry in (default_registry, dispatch_registry):
        registry.register_dataclass_node(nodetype, list(data_fields), list(meta_fields))
    registered_nodes[nodetype] = (flatten_func, unflatten_func, flatten_with_keys)
    return nodetype


def register_static(cls: type) -> type:
    """Make a class a pytree without children: its instances are part of the structure, where they are compared and hashed.

    - `cls`: the class.

    >>> @xf.tree_util.register_static
    ... class Mode(str):
    ...     pass
    >>> xf.tree.leaves([1, Mode("fast")])
    [1]
    """
    register_pytree_node(cls, lambda x: ((), x), lambda x, _: x, lambda x: ((), x))
    return cls


def _refuse_twice(nodetype) -> None:
    if not isinstance(nodetype, type):
        raise TypeError(f"a pytree node type must be a class, got {nodetype!r}")
    if nodetype in registered_nodes or nodetype in builtin_nodes:
        raise ValueError(f"{nodetype.__name__} is already registered as a pytree")


builtin_nodes = (list, tuple, dict, type(None))
registered_nodes: dict[type, tuple[Callable, Callable, Callable | None]] = {}


def _register_defaults() -> None:
    import collections

    register_pytree_node(_StandIn, lambda x: (x.children, None), lambda _, children: _StandIn(children))
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
    """Whether instances of a class are nodes of pytrees, not leaves.

    - `typ`: the class.

    >>> xf.tree_util.is_tree_node(list), xf.tree_util.is_tree_node(float)
    (True, False)
    """
    return typ in registered_nodes or typ in builtin_nodes or (
        issubclass(typ, tuple) and hasattr(typ, "_fields"))


def flatten_one_level(tree: Any) -> tuple[list[Any], Any]:
    """The direct children of a node of a pytree, and what else it takes to rebuild it.

    - `tree`: the node; a leaf is an error.

    >>> xf.tree_util.flatten_one_level([1, (2, 3)])
    ([1, (2, 3)], None)
    """
    found = default_registry.flatten_one_level(tree)
    if found is None:
        raise ValueError(f"{type(tree).__name__} is a leaf: it cannot be flattened by one level")
    return found


def flatten_one_level_with_keys(tree: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """The direct children of a node of a pytree, each with its key, and what else it takes to rebuild it.

    - `tree`: the node; a leaf is an error.

    >>> children, aux = xf.tree_util.flatten_one_level_with_keys([5])
    >>> children
    ((SequenceKey(idx=0), 5),)
    """
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
    found = [f"at key path {name}{keystr(path)} {what}" for path, what in mismatches((), prefix, full, is_leaf)]
    if found:
        raise ValueError(
            f"{name} must be a tree prefix of the pytree that it is given for: have its pytree structure, or that of a part "
            f"of it counted from its root. Mismatch details ({len(found)} found): {'; '.join(found)}.") from None


def mismatches(path, prefix, full, is_leaf) -> Iterator[tuple[tuple, str]]:
    """Where beneath a path, and why, one tree is no prefix of another."""
    if (is_leaf is not None and is_leaf(prefix)) or default_registry.flatten_one_level(prefix) is None:
        return  # a leaf is a prefix of anything
    if type(prefix) is not type(full):
        yield path, f"the types are different: it is a {_kind(prefix)}, the other a {_kind(full)}"
        return
    pairs, aux = default_registry.flatten_one_level_with_keys(prefix)
    full_pairs, full_aux = default_registry.flatten_one_level_with_keys(full)
    pairs, full_pairs = list(pairs), list(full_pairs)
    if isinstance(prefix, dict) and set(prefix) != set(full):
        yield path, f"the metadata are different (Dict key mismatch): its keys are {list(prefix)}, the other's {list(full)}"
        return
    if len(pairs) != len(full_pairs):
        yield path, f"the lengths are different: it has {len(pairs)} children, the other {len(full_pairs)}"
        return
    if aux != full_aux:
        yield path, f"the metadata are different: its static data is {aux!r}, the other's {full_aux!r}"
        return
    for (key, child), (_, full_child) in zip(pairs, full_pairs):
        yield from mismatches((*path, key), child, full_child, is_leaf)


def _kind(x) -> str:
    return "leaf" if default_registry.flatten_one_level(x) is None else type(x).__name__


def first_difference(tree1, tree2) -> str:
    """In words, where two trees of unequal structure first differ."""
    for path, what in mismatches((), tree1, tree2, None):
        return f"at {keystr(path) or 'the root'} {what}"
    for path, what in mismatches((), tree2, tree1, None):
        return f"at {keystr(path) or 'the root'} {what} (seen from the second)"
    return f"{structure(tree1)} against {structure(tree2)}"


class Partial(functools.partial):
    """`functools.partial` as a pytree: the arguments are children, the function is static.

    - `func`: the function, or a `functools.partial` of one.
    - `args`, `kw`: its first arguments, and those that are given by name.

    >>> xf.jit(lambda f, x: f(x))(xf.tree_util.Partial(xnp.power, 2.0), 3.0)
    Array(8., dtype=float32, weak_type=True)
    """

    def __new__(cls, func, /, *args, **kw):
        # functools.partial would merge a partial of a partial, and its static arguments would become children.
        return super().__new__(cls, _Inner(func) if isinstance(func, functools.partial) else func, *args, **kw)


class _Inner:
    """A partial that stays one object when it is applied partially; equal to the object that it stands for, whose arguments
    may be arrays."""

    __slots__ = ("whole",)

    def __init__(self, whole: functools.partial):
        self.whole = whole

    func, args, keywords = (property(operator.attrgetter(f"whole.{name}")) for name in ("func", "args", "keywords"))

    def __call__(self, *args, **kwargs):
        return self.whole(*args, **kwargs)

    def __eq__(self, other):
        return self.whole == (other.whole if type(other) is _Inner else other)

    def __hash__(self):
        return hash(self.whole)

    def __repr__(self):
        return repr(self.whole)


_register_defaults()
for _type in (Zero, UndefinedPrimal):  # among tangents and operands of rules: containers of nothing
    register_pytree_node(_type, lambda x: ((), x.aval), lambda aval, _, kind=_type: kind(aval))
register_pytree_node(Partial, lambda p: ((p.args, p.keywords), p.func),
                     lambda func, children: Partial(func, *children[0], **children[1]))


# Over whole trees


_none_given = object()


def map_with_path(f: Callable, tree: Any, *rest: Any, is_leaf: Callable[[Any], bool] | None = None,
                  is_leaf_takes_path: bool = False) -> Any:
    """A pytree with each leaf replaced by what a function makes of it and its key path.

    - `f`: the function of a path and a leaf, or as many corresponding leaves as there are trees.
    - `tree`, `rest`, `is_leaf`: as of `map`.
    - `is_leaf_takes_path`: `is_leaf` is called with the path and the node.

    >>> xf.tree.map_with_path(lambda path, x: f"{xf.tree_util.keystr(path)}={x}", {"a": [5]})
    {'a': ["['a'][0]=5"]}
    """
    pairs, treedef = flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    if not rest:
        return treedef.unflatten([f(path, x) for path, x in pairs])
    columns = [treedef.flatten_up_to(r) for r in rest]
    return treedef.unflatten([f(path, x, *xs) for (path, x), *xs in zip(pairs, *columns)])


def leaves_with_path(tree: Any, is_leaf: Callable[[Any], bool] | None = None,
                     is_leaf_takes_path: bool = False) -> list[tuple[tuple, Any]]:
    """The leaves of a pytree, each with its key path.

    - `tree`, `is_leaf`, `is_leaf_takes_path`: as of `flatten_with_path`.

    >>> xf.tree.leaves_with_path([5])
    [((SequenceKey(idx=0),), 5)]
    """
    return flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def reduce(function: Callable, tree: Any, initializer: Any = _none_given, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """The leaves of a pytree combined from left to right, as by `functools.reduce`.

    - `function`: `function(so_far, leaf)` gives the next value.
    - `tree`, `is_leaf`: as of `flatten`.
    - `initializer`: the first value; the first leaf when left out.

    >>> xf.tree.reduce(lambda x, y: x - y, {"a": 10, "b": (3, 2)})
    5
    """
    items = leaves(tree, is_leaf)
    return functools.reduce(function, items) if initializer is _none_given else functools.reduce(
        function, items, initializer)


def reduce_associative(operation: Callable, tree: Any, *, identity: Any = _none_given,
                       is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """The leaves of a pytree combined pair by pair, in a tree of logarithmic depth.

    - `operation`: combines two values, and is associative.
    - `tree`, `is_leaf`: as of `flatten`.
    - `identity`: the value of a tree without leaves, which is an error when left out.

    >>> xf.tree.reduce_associative(lambda x, y: x + y, {"a": 10, "b": (3, 2)})
    15
    """
    items = leaves(tree, is_leaf)
    if not items:
        if identity is _none_given:
            raise TypeError("reduce_associative of a tree without leaves needs `identity`.")
        return identity
    while len(items) > 1:
        pairs = [operation(a, b) for a, b in zip(items[::2], items[1::2])]
        items = pairs + items[2 * len(pairs):]
    return items[0]


def all(tree: Any, *, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether every leaf of a pytree is true.

    - `tree`, `is_leaf`: as of `flatten`.

    >>> xf.tree.all({"a": True, "b": (1, 0)})
    False
    """
    for leaf in leaves(tree, is_leaf):
        if not leaf:
            return False
    return True


def all_leaves(iterable: Iterable[Any], is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether every element of an iterable is a leaf.

    - `iterable`: the elements.
    - `is_leaf`: says of a node whether it is to count as a leaf.

    >>> xf.tree_util.all_leaves([1, 2.0]), xf.tree_util.all_leaves([1, (2,)])
    (True, False)
    """
    if is_leaf is None:
        return pytree.all_leaves(default_registry, iterable)
    return all([structure(x, is_leaf).num_nodes == 1 and structure(x, is_leaf).num_leaves == 1 for x in iterable])


def broadcast(prefix_tree: Any, full_tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """A pytree with its leaves repeated to the structure of another.

    - `prefix_tree`: the pytree, whose structure is the upper part of the other.
    - `full_tree`: the other.
    - `is_leaf`: says of a node of the first whether it is to count as a leaf.

    >>> xf.tree.broadcast((1, 2), (0, {"a": 0, "b": 0}))
    (1, {'a': 2, 'b': 2})
    """
    return structure(full_tree).unflatten(leaves_by_prefix("prefix_tree", prefix_tree, full_tree, is_leaf))


def transpose(outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any) -> Any:
    """A tree of trees turned inside out.

    - `outer_treedef`: the structure of the outer tree.
    - `inner_treedef`: that of the inner ones; None: that of the first.
    - `pytree_to_transpose`: the tree of trees.

    >>> xf.tree.transpose(xf.tree.structure([0, 0]), None, [{"a": 1, "b": 2}, {"a": 3, "b": 4}])
    {'a': [1, 3], 'b': [2, 4]}
    """
    flat, treedef = flatten(pytree_to_transpose)
    if inner_treedef is None:
        inner_treedef = structure(outer_treedef.flatten_up_to(pytree_to_transpose)[0])
    inner, outer = inner_treedef.num_leaves, outer_treedef.num_leaves
    # Only the leaves are compared: what a node holds besides them may depend on what is below it.
    if len(flat) != inner * outer:
        raise TypeError(f"the tree to transpose must have the structure {outer_treedef.compose(inner_treedef)} (outer around "
                        f"inner); it has {treedef}.")
    if not outer and inner:  # what the result holds is told by nothing
        raise ValueError(f"the tree to transpose has no leaves: there is nothing to put where {inner_treedef} has them.")
    rows = [flat[i * inner:(i + 1) * inner] for i in range(outer)]
    return inner_treedef.unflatten([outer_treedef.unflatten([row[j] for row in rows]) for j in range(inner)])


def static(**kwargs: Any) -> Any:
    """A field of a registered dataclass that is static, not a child.

    - `kwargs`: those of `dataclasses.field`.

    >>> xf.tree.static(default=3).default
    3
    """
    import dataclasses

    return dataclasses.field(**kwargs | {"metadata": {**(kwargs.get("metadata") or {}), "static": True}})


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Whether a structure is that of a leaf, or of a node without children.

    - `treedef`: the structure.

    >>> xf.tree_util.treedef_is_leaf(xf.tree.structure(1)), xf.tree_util.treedef_is_leaf(xf.tree.structure([1]))
    (True, False)
    """
    return treedef.num_nodes == 1


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """The structures of the direct children of a structure.

    - `treedef`: the structure.

    >>> xf.tree_util.treedef_children(xf.tree.structure([1, (2, 3)]))
    [PyTreeDef(*), PyTreeDef((*, *))]
    """
    return treedef.children()


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """The structure of a tuple whose items have given structures.

    - `treedefs`: their structures.

    >>> xf.tree_util.treedef_tuple([xf.tree.structure(1), xf.tree.structure([2])])
    PyTreeDef((*, [*]))
    """
    return pytree.treedef_tuple(default_registry, list(treedefs))
