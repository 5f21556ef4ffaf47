"""Pytrees: nested containers of arrays, over jaxlib's registry.

`flatten` and `unflatten` are the C++ calls themselves. The public functions are in `xlafront.tree` and
`xlafront.tree_util`.
"""

from __future__ import annotations

import copyreg
import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from xlafront.base.jaxlib_compat import pytree
from xlafront.core import errors
from xlafront.core.zeros import UndefinedPrimal, Zero

default_registry = pytree.default_registry()
# The registry of C++ dispatch: the same nodes, and random keys, which are leaves for users but hold an array.
dispatch_registry = pytree.PyTreeRegistry()
_T = TypeVar("_T", bound=Any)  # a class

if TYPE_CHECKING:
    PyTreeDef: TypeAlias = Any
else:
    PyTreeDef = pytree.PyTreeDef


def _registry() -> Any:
    return default_registry


# Structures are pickled and copied with a reference to the one registry of the process.
copyreg.pickle(type(default_registry), lambda registry: (_registry, ()))
SequenceKey, DictKey, GetAttrKey, FlattenedIndexKey = (
    pytree.SequenceKey, pytree.DictKey, pytree.GetAttrKey, pytree.FlattenedIndexKey)

KeyEntry = Any
KeyPath = tuple[KeyEntry, ...]

flatten = default_registry.flatten  # (tree, is_leaf=None) -> (leaves, treedef)


def flatten_tree(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], PyTreeDef]:
    """Flatten a pytree into its leaves and its structure.

    Args:
        tree: The pytree. Lists, tuples, dicts, None and registered types are nodes; all other values are leaves.
        is_leaf: A function that returns True for nodes to treat as leaves. Default: none.

    Returns:
        A list of leaves, from left to right, and the structure.

    Example:
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
    """Flatten a pytree into leaves with their key paths, and its structure.

    Args:
        tree: The pytree.
        is_leaf: A function that returns True for nodes to treat as leaves. Default: none.
        is_leaf_takes_path: If True, call `is_leaf(path, node)`.

    Returns:
        A list of `(path, leaf)` pairs, and the structure.

    Example:
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
    """Build a pytree from a structure and leaves. Inverse of `flatten`.

    Args:
        treedef: The structure.
        leaves: The leaves, from left to right, as many as the structure has.

    Returns:
        The pytree.

    Example:
        >>> xf.tree.unflatten(xf.tree.structure({"a": 1, "b": (2, 3)}), [7, 8, 9])
        {'a': 7, 'b': (8, 9)}
    """
    return treedef.unflatten(leaves)


def leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """Return the leaves of a pytree.

    Args:
        tree: The pytree.
        is_leaf: A function that returns True for nodes to treat as leaves. Default: none.

    Returns:
        A list of leaves, from left to right; those of a dict in the order of its sorted keys.

    Example:
        >>> xf.tree.leaves({"b": 1, "a": [2, None]})
        [2, 1]
    """
    return flatten_tree(tree, is_leaf)[0]


def structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> PyTreeDef:
    """Return the structure of a pytree.

    Args:
        tree: The pytree.
        is_leaf: A function that returns True for nodes to treat as leaves. Default: none.

    Returns:
        The structure: its containers, without the leaves.

    Example:
        >>> xf.tree.structure({"a": 1, "b": (2, 3)})
        PyTreeDef({'a': *, 'b': (*, *)})
    """
    return flatten_tree(tree, is_leaf)[1]


def map(f: Callable, tree: Any, *rest: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """Apply a function to each leaf of a pytree.

    Args:
        f: A function of as many leaves as there are trees.
        tree: The pytree whose structure the result has.
        rest: Further pytrees, of which `tree` is a prefix: in place of a leaf they may have a subtree.
        is_leaf: A function that returns True for nodes of `tree` to treat as leaves. Default: none.

    Returns:
        A pytree of the results of `f`, with the structure of `tree`.

    Example:
        >>> xf.tree.map(lambda x, y: x + y, {"a": 1, "b": 2}, {"a": 10, "b": 20})
        {'a': 11, 'b': 22}
    """
    first, treedef = flatten_tree(tree, is_leaf)
    if not rest:
        return treedef.unflatten([f(x) for x in first])
    try:
        columns = [first, *(treedef.flatten_up_to(r) for r in rest)]
    except (ValueError, TypeError) as e:
        for i, r in enumerate(rest):
            check_prefix("map: tree", tree, r, is_leaf, f"rest[{i}]" if len(rest) > 1 else "rest")
        raise e
    return treedef.unflatten([f(*xs) for xs in zip(*columns)])


# Paths


def key_name(key: Any) -> str:
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def keystr(keys: tuple, *, simple: bool = False, separator: str = "") -> str:
    """Return a key path as a string.

    Args:
        keys: The path, as from `tree_flatten_with_path`.
        simple: If True, use the names of the keys alone instead of Python's syntax for the access.
        separator: String between the keys.

    Returns:
        The string.

    Example:
        >>> path, leaf = xf.tree.leaves_with_path({"w": [5]})[0]
        >>> xf.tree_util.keystr(path), xf.tree_util.keystr(path, simple=True, separator="/")
        ("['w'][0]", 'w/0')
    """
    return separator.join([key_name(k) if simple else str(k) for k in keys])


class _Placeholder:
    """A placeholder for an object whose class does not accept integers in place of arrays."""

    def __init__(self, children: Sequence[Any]) -> None:
        self.children = tuple(children)


def structure_of_node(node_data: tuple[type, Any], children: Iterable[PyTreeDef]) -> PyTreeDef:
    """Return the structure of a node from its type and auxiliary data, without creating it."""
    return PyTreeDef.from_node_data_and_children(default_registry, node_data, children)


def leaf_indices(treedef: PyTreeDef) -> Any:
    """Return a pytree of a structure in which each leaf is its index."""
    try:
        made = treedef.unflatten(range(treedef.num_leaves))
        if len(default_registry.flatten(made)[0]) == treedef.num_leaves:  # else a class treats integers specially
            return made
    except Exception:  # a user's class does not accept integers
        pass
    return _with_placeholders(treedef, iter(range(treedef.num_leaves)))


def _with_placeholders(treedef: PyTreeDef, numbers: Iterator[int]) -> Any:
    data = treedef.node_data()
    if data is None:
        return next(numbers)
    kind, keys = data
    children = [_with_placeholders(child, numbers) for child in treedef.children()]
    if kind is dict:
        return dict(zip(keys, children))
    if kind in (list, tuple):
        return kind(children)
    return kind(*children) if issubclass(kind, tuple) and hasattr(kind, "_fields") else _Placeholder(children)


def leaf_paths(treedef: PyTreeDef) -> list[tuple]:
    """Return the key path of each leaf of a structure."""
    return [path for path, _ in flatten_with_path(leaf_indices(treedef))[0]]


def result_paths(treedef: PyTreeDef) -> list[str]:
    """Return the path of each leaf in the result of a function: `result['loss']`."""
    return [f"result{keystr(path)}" for path in leaf_paths(treedef)]


def path_of(tree: Any, index: int) -> str:
    paths, _ = flatten_with_path(tree)
    return keystr(paths[index][0])


# Registration


def register_pytree_node(nodetype: type, flatten_func: Callable, unflatten_func: Callable,
                         flatten_with_keys_func: Callable | None = None) -> None:
    """Register a class as a pytree node.

    Args:
        nodetype: The class.
        flatten_func: A function `flatten_func(x) -> (children, aux)`; `aux` must be hashable and comparable.
        unflatten_func: A function `unflatten_func(aux, children) -> x`.
        flatten_with_keys_func: As `flatten_func`, but with children as `(key, child)` pairs, for key paths. Optional.

    Raises:
        ValueError: If the class is registered already.

    Example:
        >>> class Pair:
        ...     def __init__(self, first, second): self.first, self.second = first, second
        >>> xf.tree_util.register_pytree_node(Pair, lambda p: ((p.first, p.second), None), lambda _, children: Pair(*children))
        >>> xf.tree.leaves([Pair(1, 2), 3])
        [1, 2, 3]
    """
    _refuse_twice(nodetype)
    flatten_in_jaxlib = _checked_once(nodetype, flatten_func)
    for registry in (default_registry, dispatch_registry):
        registry.register_node(nodetype, flatten_in_jaxlib, unflatten_func, flatten_with_keys_func)
    registered_nodes[nodetype] = (flatten_func, unflatten_func, flatten_with_keys_func)


def _checked_once(nodetype: type, flatten_func: Callable) -> Callable:
    """Return a function that raises if the first node that it flattens is its own child, and then is `flatten_func`.

    jaxlib would flatten the node without end. It loses a level of Python's recursion depth for each of its own when a function
    that it calls raises, and with no level left neither the error can be shown nor the interpreter exit. Later calls cost those
    of a `functools.partial` without arguments, which passes the call on in C.
    """
    def flatten_first(x: Any) -> Any:
        flattened = flatten_func(x)
        children = flattened[0] if isinstance(flattened, tuple) and flattened else None
        if isinstance(children, (tuple, list)) and any(child is x for child in children):
            raise ValueError(f"the flatten function of the pytree node {nodetype.__name__} returns the node itself as a child, "
                             "so that flattening does not end. Return the values that the node holds, or register no node.")
        checked.__setstate__((flatten_func, (), {}, {"before": flatten_first}))  # alive until this call has returned
        return flattened

    checked: Any = functools.partial(flatten_first)
    return checked


def register_pytree_with_keys(nodetype: type, flatten_with_keys: Callable, unflatten_func: Callable,
                              flatten_func: Callable | None = None) -> None:
    """Register a class as a pytree node whose children have keys in key paths.

    Args:
        nodetype: The class.
        flatten_with_keys: A function `flatten_with_keys(x) -> (pairs, aux)`, with a `(key, child)` pair for each child.
        unflatten_func: A function `unflatten_func(aux, children) -> x`.
        flatten_func: A function `flatten_func(x) -> (children, aux)`. Optional; it makes flattening faster.

    Example:
        >>> class Box:
        ...     def __init__(self, content): self.content = content
        >>> key = xf.tree_util.GetAttrKey("content")
        >>> xf.tree_util.register_pytree_with_keys(Box, lambda b: (((key, b.content),), None), lambda _, xs: Box(*xs))
        >>> xf.tree_util.keystr(xf.tree.leaves_with_path(Box(5))[0][0])
        '.content'
    """
    if flatten_func is None:
        def flatten_func(x: Any) -> tuple[list[Any], Any]:
            pairs, aux = flatten_with_keys(x)
            return [child for _, child in pairs], aux
    register_pytree_node(nodetype, flatten_func, unflatten_func, flatten_with_keys)


def register_pytree_node_class(cls: _T) -> _T:
    """Register a class as a pytree node, by its methods. Usable as a decorator.

    Args:
        cls: The class, with a method `tree_flatten(self) -> (children, aux)` and a class method `tree_unflatten(cls, aux,
            children)`.

    Returns:
        The class.

    Example:
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


def register_pytree_with_keys_class(cls: _T) -> _T:
    """Register a class as a pytree node with keys for its children, by its methods. Usable as a decorator.

    Args:
        cls: The class, with a method `tree_flatten_with_keys(self) -> ((key, child) pairs, aux)` and a class method
            `tree_unflatten(cls, aux, children)`. A method `tree_flatten` is optional; it makes flattening faster.

    Returns:
        The class.

    Example:
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
    """Register a dataclass as a pytree node. Usable as a decorator.

    Args:
        nodetype: The class.
        data_fields: Names of the fields that are children. Default: all that are not static.
        meta_fields: Names of the fields that are static, part of the structure. Default: those with
            `metadata=dict(static=True)`.
        drop_fields: Names of the fields that are neither; they must have defaults.

    Returns:
        The class.

    Example:
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
        fields = [f for f in dataclasses.fields(nodetype) if f.name not in drop_fields]
        data_fields = [f.name for f in fields if not f.metadata.get("static", False)]
        meta_fields = [f.name for f in fields if f.metadata.get("static", False)]
    data_fields, meta_fields = tuple(data_fields), tuple(meta_fields)
    if dataclasses.is_dataclass(nodetype):
        init = {f.name for f in dataclasses.fields(nodetype) if f.init}
        given = {*data_fields, *meta_fields}
        missing, unknown = init - given - set(drop_fields), given - init
        if missing or unknown:
            problems = [f"without {sorted(missing)}"] * bool(missing) + [f"with unknown {sorted(unknown)}"] * bool(unknown)
            raise ValueError(f"the fields given for {nodetype.__name__} are {' and '.join(problems)}; every init field "
                             f"must be in data_fields, meta_fields or drop_fields.")
    named = [*data_fields, *meta_fields]
    if len({*named}) < len(named):
        twice = sorted({name for name in named if named.count(name) > 1})
        raise ValueError(f"fields of {nodetype.__name__} are named twice: {twice}. Name each once, in data_fields or in "
                         f"meta_fields.")

    def flatten_func(x: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return tuple(getattr(x, n) for n in data_fields), tuple(getattr(x, n) for n in meta_fields)

    def flatten_with_keys(x: Any) -> tuple[tuple[tuple[KeyEntry, Any], ...], tuple[Any, ...]]:
        return tuple((GetAttrKey(n), getattr(x, n)) for n in data_fields), tuple(getattr(x, n) for n in meta_fields)

    def unflatten_func(meta: Iterable[Any], data: Iterable[Any]) -> Any:
        return nodetype(**dict(zip(data_fields, data)), **dict(zip(meta_fields, meta)))

    _refuse_twice(nodetype)
    for registry in (default_registry, dispatch_registry):
        registry.register_dataclass_node(nodetype, list(data_fields), list(meta_fields))
    registered_nodes[nodetype] = (flatten_func, unflatten_func, flatten_with_keys)
    return nodetype


def register_static(cls: type) -> type:
    """Register a class as a pytree node without children. Usable as a decorator.

    Instances are part of the structure, which is compared and hashed.

    Args:
        cls: The class, whose instances must be hashable and comparable.

    Returns:
        The class.

    Example:
        >>> @xf.tree_util.register_static
        ... class Mode(str):
        ...     pass
        >>> xf.tree.leaves([1, Mode("fast")])
        [1]
    """
    register_pytree_node(cls, lambda x: ((), x), lambda x, _: x, lambda x: ((), x))
    return cls


def _refuse_twice(nodetype: type) -> None:
    if not isinstance(nodetype, type):
        raise TypeError(f"a pytree node type must be a class, got {nodetype!r}")
    if nodetype in registered_nodes or nodetype in builtin_nodes:
        raise ValueError(f"{nodetype.__name__} is already registered as a pytree")


builtin_nodes = (list, tuple, dict, type(None))
registered_nodes: dict[type, tuple[Callable, Callable, Callable | None]] = {}


def _register_defaults() -> None:
    import collections

    register_pytree_node(_Placeholder, lambda x: (x.children, None), lambda _, children: _Placeholder(children))
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
    """True if instances of a class are pytree nodes, not leaves.

    Args:
        typ: The class.

    Returns:
        A bool.

    Example:
        >>> xf.tree_util.is_tree_node(list), xf.tree_util.is_tree_node(float)
        (True, False)
    """
    return typ in registered_nodes or typ in builtin_nodes or (
        issubclass(typ, tuple) and hasattr(typ, "_fields"))


def flatten_one_level(tree: Any) -> tuple[list[Any], Any]:
    """Flatten a pytree node by one level.

    Args:
        tree: The node.

    Returns:
        Its direct children, and the auxiliary data from which it is rebuilt.

    Raises:
        ValueError: If it is a leaf.

    Example:
        >>> xf.tree_util.flatten_one_level([1, (2, 3)])
        ([1, (2, 3)], None)
    """
    found = default_registry.flatten_one_level(tree)
    if found is None:
        raise ValueError(f"{type(tree).__name__} is a leaf: it cannot be flattened by one level")
    return found


def flatten_one_level_with_keys(tree: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """Flatten a pytree node by one level, with the keys of the children.

    Args:
        tree: The node.

    Returns:
        The `(key, child)` pairs of its direct children, and the auxiliary data from which it is rebuilt.

    Raises:
        ValueError: If it is a leaf.

    Example:
        >>> children, aux = xf.tree_util.flatten_one_level_with_keys([5])
        >>> children
        ((SequenceKey(idx=0), 5),)
    """
    found = default_registry.flatten_one_level_with_keys(tree)
    if found is None:
        raise ValueError(f"{type(tree).__name__} is a leaf: it cannot be flattened by one level")
    return found


# Prefixes


def broadcast_prefix(prefix: Any, full: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """Return the leaves of `prefix`, each repeated for all leaves of `full` below it."""
    result: list[Any] = []

    def broadcast(x: Any, subtree: Any) -> None:
        result.extend([x] * structure(subtree).num_leaves)

    prefix_leaves, treedef = flatten(prefix, is_leaf)
    for x, subtree in zip(prefix_leaves, treedef.flatten_up_to(full)):
        broadcast(x, subtree)
    return result


def leaves_by_prefix(name: str, prefix: Any, full: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """Return `broadcast_prefix(prefix, full)` for an argument of a user; errors give its name and the paths of mismatches."""
    if is_leaf is not None and is_leaf(prefix):
        return [prefix] * structure(full).num_leaves
    try:
        return broadcast_prefix(prefix, full, is_leaf)
    except ValueError:
        check_prefix(name, prefix, full, is_leaf)
        raise


def check_prefix(name: str, prefix: Any, full: Any, is_leaf: Callable[[Any], bool] | None = None,
                 full_name: str = "the pytree that it is given for") -> None:
    """Raise unless `prefix` is a prefix of `full`; the error lists all mismatches."""
    short_name = name.rpartition(": ")[2]
    found = [f"at key path {short_name}{keystr(path)}: {reason}"
             for path, reason in mismatches((), prefix, full, is_leaf, (short_name, full_name))]
    if found:
        raise ValueError(
            f"{name} must be a tree prefix of {full_name}: have its pytree structure, or the upper part of it.\n"
            f"Mismatch details ({len(found)} found): {'; '.join(found)}.") from None


def mismatches(path: tuple, prefix: Any, full: Any, is_leaf: Callable[[Any], bool] | None,
               names: tuple[str, str] = ("the prefix", "the full tree")) -> Iterator[tuple[tuple, str]]:
    """Yield the paths at which `prefix` is no prefix of `full`, with the reasons, in which the two have these names."""
    first, second = names
    if (is_leaf is not None and is_leaf(prefix)) or default_registry.flatten_one_level(prefix) is None:
        return  # a leaf is a prefix of anything
    if type(prefix) is not type(full):
        yield path, f"the types are different: {first} has a {_kind(prefix)}, {second} a {_kind(full)}"
        return
    pairs, aux = default_registry.flatten_one_level_with_keys(prefix)
    full_pairs, full_aux = default_registry.flatten_one_level_with_keys(full)
    pairs, full_pairs = list(pairs), list(full_pairs)
    if isinstance(prefix, dict) and set(prefix) != set(full):
        yield path, _key_difference(prefix, full, names)
        return
    if len(pairs) != len(full_pairs):
        yield path, f"the lengths are different: {first} has {len(pairs)} children, {second} {len(full_pairs)}"
        return
    if aux != full_aux:
        yield path, f"the metadata are different: the static data of {first} is {aux!r}, that of {second} {full_aux!r}"
        return
    for (key, child), (_, full_child) in zip(pairs, full_pairs):
        yield from mismatches((*path, key), child, full_child, is_leaf, names)


def _key_difference(tree1: dict, tree2: dict, names: tuple[str, str]) -> str:
    """Return which keys only one of two dictionaries has."""
    only = [(name, [k for k in one if k not in other]) for name, one, other in
            zip(names, (tree1, tree2), (tree2, tree1))]
    listed = " and ".join(f"only {name} has {', '.join(map(repr, keys))}" for name, keys in only if keys)
    return f"the metadata are different (Dict key mismatch): {listed}"


def _kind(x: Any) -> str:
    return "leaf" if default_registry.flatten_one_level(x) is None else type(x).__name__


def first_difference(tree1: Any, tree2: Any, names: tuple[str, str] = ("the first", "the second")) -> str:
    """Return a description of the first difference between two pytrees of unequal structure, which have these names."""
    for trees in ((tree1, tree2, names), (tree2, tree1, names[::-1])):
        for path, reason in mismatches((), *trees[:2], None, trees[2]):
            return f"at {keystr(path) or 'the root'}: {reason}"
    return f"{structure(tree1)} against {structure(tree2)}"


class Partial(functools.partial):
    """`functools.partial` as a pytree: the arguments are children, the function is static.

    Args:
        func: The function, or a `functools.partial` of one.
        args: Leading positional arguments.
        kw: Keyword arguments.

    Example:
        >>> xf.jit(lambda f, x: f(x))(xf.tree_util.Partial(xnp.power, 2.0), 3.0)
        Array(8., dtype=float32, weak_type=True)
    """

    __module__ = "xlafront.tree_util"  # part of its text from Python 3.13 on

    def __new__(cls, func: Callable, /, *args: Any, **kw: Any) -> Partial:
        # functools.partial would merge a partial of a partial, and its static arguments would become children.
        return super().__new__(cls, _Inner(func) if isinstance(func, functools.partial) else func, *args, **kw)


class _Inner:
    """A partial that is not merged when it is partially applied.

    It equals the partial that it wraps, whose arguments may be arrays.
    """

    __slots__ = ("partial",)

    def __init__(self, partial: functools.partial) -> None:
        self.partial = partial

    func, args, keywords = (property(operator.attrgetter(f"partial.{name}")) for name in ("func", "args", "keywords"))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.partial(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return self.partial == (other.partial if type(other) is _Inner else other)

    def __hash__(self) -> int:
        return hash(self.partial)

    def __repr__(self) -> str:
        return repr(self.partial)


_register_defaults()
for _type in (Zero, UndefinedPrimal):  # tangents and operands of rules; nodes without children
    register_pytree_node(_type, lambda x: ((), x.aval), lambda aval, _, kind=_type: kind(aval))
register_pytree_node(Partial, lambda p: ((p.args, p.keywords), p.func),
                     lambda func, children: Partial(func, *children[0], **children[1]))


# Functions over leaves


_missing = object()


def map_with_path(f: Callable, tree: Any, *rest: Any, is_leaf: Callable[[Any], bool] | None = None,
                  is_leaf_takes_path: bool = False) -> Any:
    """Apply a function to each leaf of a pytree and its key path.

    Args:
        f: A function of a path and as many leaves as there are trees.
        tree: The pytree whose structure the result has.
        rest: Further pytrees, of which `tree` is a prefix.
        is_leaf: A function that returns True for nodes of `tree` to treat as leaves. Default: none.
        is_leaf_takes_path: If True, call `is_leaf(path, node)`.

    Returns:
        A pytree of the results of `f`, with the structure of `tree`.

    Example:
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
    """Return the leaves of a pytree with their key paths.

    Args:
        tree: The pytree.
        is_leaf: A function that returns True for nodes to treat as leaves. Default: none.
        is_leaf_takes_path: If True, call `is_leaf(path, node)`.

    Returns:
        A list of `(path, leaf)` pairs.

    Example:
        >>> xf.tree.leaves_with_path([5])
        [((SequenceKey(idx=0),), 5)]
    """
    return flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def reduce(function: Callable, tree: Any, initializer: Any = _missing, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """Reduce the leaves of a pytree from left to right, as `functools.reduce` does.

    Args:
        function: A function `function(accumulated, leaf)` that returns the next accumulated value.
        tree: The pytree.
        initializer: The start value. Default: the first leaf.
        is_leaf: A function that returns True for nodes to treat as leaves. Default: none.

    Returns:
        The last accumulated value.

    Example:
        >>> xf.tree.reduce(lambda x, y: x - y, {"a": 10, "b": (3, 2)})
        5
    """
    items = leaves(tree, is_leaf)
    return functools.reduce(function, items) if initializer is _missing else functools.reduce(
        function, items, initializer)


def reduce_associative(operation: Callable, tree: Any, *, identity: Any = _missing,
                       is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """Reduce the leaves of a pytree pairwise, in logarithmic depth.

    Args:
        operation: An associative function of two values.
        tree: The pytree.
        identity: The result for a tree without leaves. Default: such a tree raises.
        is_leaf: A function that returns True for nodes to treat as leaves. Default: none.

    Returns:
        The combined value.

    Raises:
        TypeError: If the tree has no leaves and there is no `identity`.

    Example:
        >>> xf.tree.reduce_associative(lambda x, y: x + y, {"a": 10, "b": (3, 2)})
        15
    """
    items = leaves(tree, is_leaf)
    if not items:
        if identity is _missing:
            raise TypeError("reduce_associative of a tree without leaves needs `identity`.")
        return identity
    while len(items) > 1:
        pairs = [operation(a, b) for a, b in zip(items[::2], items[1::2])]
        items = pairs + items[2 * len(pairs):]
    return items[0]


def all(tree: Any, *, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """True if all leaves of a pytree are true.

    Args:
        tree: The pytree.
        is_leaf: A function that returns True for nodes to treat as leaves. Default: none.

    Returns:
        A bool; True if there are no leaves.

    Example:
        >>> xf.tree.all({"a": True, "b": (1, 0)})
        False
    """
    for leaf in leaves(tree, is_leaf):
        if not leaf:
            return False
    return True


def all_leaves(iterable: Iterable[Any], is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """True if all elements of an iterable are leaves.

    Args:
        iterable: The elements.
        is_leaf: A function that returns True for nodes to treat as leaves. Default: none.

    Returns:
        A bool.

    Example:
        >>> xf.tree_util.all_leaves([1, 2.0]), xf.tree_util.all_leaves([1, (2,)])
        (True, False)
    """
    if is_leaf is None:
        return pytree.all_leaves(default_registry, iterable)
    return all([structure(x, is_leaf).num_nodes == 1 and structure(x, is_leaf).num_leaves == 1 for x in iterable])


def broadcast(prefix_tree: Any, full_tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """Broadcast the leaves of a prefix to the structure of a pytree.

    Args:
        prefix_tree: A prefix of `full_tree`.
        full_tree: The pytree.
        is_leaf: A function that returns True for nodes of `prefix_tree` to treat as leaves. Default: none.

    Returns:
        A pytree with the structure of `full_tree`, in which each leaf is the leaf of `prefix_tree` above it.

    Raises:
        ValueError: If `prefix_tree` is no prefix of `full_tree`.

    Example:
        >>> xf.tree.broadcast((1, 2), (0, {"a": 0, "b": 0}))
        (1, {'a': 2, 'b': 2})
    """
    return structure(full_tree).unflatten(leaves_by_prefix("prefix_tree", prefix_tree, full_tree, is_leaf))


def transpose(outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any) -> Any:
    """Transpose a pytree of pytrees: exchange its outer and its inner structure.

    Args:
        outer_treedef: The outer structure.
        inner_treedef: The structure of the inner trees. None: that of the first one.
        pytree_to_transpose: The pytree.

    Returns:
        A pytree with `inner_treedef` outside and `outer_treedef` inside.

    Example:
        >>> xf.tree.transpose(xf.tree.structure([0, 0]), None, [{"a": 1, "b": 2}, {"a": 3, "b": 4}])
        {'a': [1, 3], 'b': [2, 4]}
    """
    flat, treedef = flatten(pytree_to_transpose)
    if inner_treedef is None:
        inner_treedef = structure(outer_treedef.flatten_up_to(pytree_to_transpose)[0])
    inner, outer = inner_treedef.num_leaves, outer_treedef.num_leaves
    # Only the leaves are compared: the auxiliary data of a node may depend on its children.
    if len(flat) != inner * outer:
        raise TypeError(f"the tree to transpose must have the structure {outer_treedef.compose(inner_treedef)} (outer around "
                        f"inner); it has {treedef}.")
    if not outer and inner:  # no values for the leaves of the result
        raise ValueError(f"the tree to transpose has no leaves: there are no values for the leaves of {inner_treedef}.")
    rows = [flat[i * inner:(i + 1) * inner] for i in range(outer)]
    return inner_treedef.unflatten([outer_treedef.unflatten([row[j] for row in rows]) for j in range(inner)])


def static(**kwargs: Any) -> Any:
    """Declare a field of a registered dataclass as static: part of the structure, not a child.

    Args:
        kwargs: Arguments of `dataclasses.field`. An entry "static" of `metadata` is left as it is.

    Returns:
        The field.

    Example:
        >>> xf.tree.static(default=3).default
        3
    """
    import dataclasses

    return dataclasses.field(**kwargs | {"metadata": {"static": True, **(kwargs.get("metadata") or {})}})


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """True if a structure is that of a leaf, or of a node without children.

    Args:
        treedef: The structure.

    Returns:
        A bool.

    Example:
        >>> xf.tree_util.treedef_is_leaf(xf.tree.structure(1)), xf.tree_util.treedef_is_leaf(xf.tree.structure([1]))
        (True, False)
    """
    return treedef.num_nodes == 1


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """Return the structures of the direct children of a structure.

    Args:
        treedef: The structure.

    Returns:
        A list of structures.

    Example:
        >>> xf.tree_util.treedef_children(xf.tree.structure([1, (2, 3)]))
        [PyTreeDef(*), PyTreeDef((*, *))]
    """
    return treedef.children()


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """Return the structure of a tuple whose items have the given structures.

    Args:
        treedefs: The structures.

    Returns:
        The structure of the tuple.

    Example:
        >>> xf.tree_util.treedef_tuple([xf.tree.structure(1), xf.tree.structure([2])])
        PyTreeDef((*, [*]))
    """
    return pytree.treedef_tuple(default_registry, list(treedefs))
