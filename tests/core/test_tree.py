"""Pytrees: flattening, registration, paths, prefixes."""

import collections
import copy
import dataclasses
import functools
import operator
import pickle

import numpy as np
import pytest

import xlafront as xf
from xlafront import tree, tree_util

Point = collections.namedtuple("Point", "x y")
T = {"b": [1, (2, None)], "a": Point(3, {"c": 4})}


def test_round_trips():
    leaves, structure = tree.flatten(T)
    assert leaves == [3, 4, 1, 2] and tree.unflatten(structure, leaves) == T and tree.structure(T) == structure
    assert tree.map(lambda v: v * 10, T)["a"] == Point(30, {"c": 40}) and tree.leaves(
        T, is_leaf=lambda v: isinstance(v, Point)
    )[0] == Point(3, {"c": 4})
    assert (
        tree.map(operator.add, (1, [2]), (10, [20])) == (11, [22])
        and tree.reduce(operator.add, T) == 10
        and tree.reduce(operator.add, [], 5) == 5
    )
    assert tree.all({"a": True, "b": [True]}) and not tree.all([True, 0]) and tree.leaves(None) == []
    assert (
        tree.reduce_associative(operator.add, [1, (2, 3), [4, 5, 6]]) == 21
        and tree.reduce_associative(max, [], identity=0) == 0
    )
    ordered = collections.OrderedDict([("z", 1), ("a", 2)])
    assert tree.leaves(ordered) == [1, 2] and tree.leaves(collections.defaultdict(int, z=1, a=2)) == [2, 1]


def test_leaves_by_keyword():
    leaves, structure = tree_util.tree_flatten({"a": (1, 2), "b": 3}, is_leaf=lambda x: isinstance(x, tuple))
    assert leaves == [(1, 2), 3] and structure.num_leaves == 2
    assert xf.tree.flatten([1, None], is_leaf=lambda x: x is None)[0] == [1, None]


def test_paths():
    paths = [tree_util.keystr(path) for path, _ in tree.leaves_with_path(T)]
    assert paths == ["['a'].x", "['a'].y['c']", "['b'][0]", "['b'][1][0]"]
    assert tree.map_with_path(lambda path, v: (tree_util.keystr(path), v), [7]) == [("[0]", 7)]
    assert tree_util.keystr((tree_util.DictKey("a"), tree_util.SequenceKey(1)), simple=True, separator="/") == "a/1"


def test_broadcast_and_transpose():
    assert xf.tree.broadcast([1, None], [2, None], is_leaf=lambda x: x is None) == [1, None]  # leaves of the prefix alone
    assert tree.broadcast((1, 2, 3), (0, {"a": 0, "b": 0}, (0, 0))) == (1, {"a": 2, "b": 2}, (3, 3))
    outer, inner = tree.structure([0, 0]), tree.structure({"a": 0, "b": 0})
    assert tree.transpose(outer, inner, [{"a": 1, "b": 2}, {"a": 3, "b": 4}]) == {"a": [1, 3], "b": [2, 4]}
    assert tree.transpose(outer, None, [{"a": 1}, {"a": 3}]) == {"a": [1, 3]}
    with pytest.raises(TypeError, match="structure"):
        tree.transpose(outer, inner, [{"a": 1}])


def test_structures():
    structure = tree.structure((1, [2, 3]))
    assert (
        tree_util.treedef_children(structure) == [tree.structure(1), tree.structure([2, 3])]
        and structure.num_leaves == 3
    )
    assert tree_util.treedef_is_leaf(tree.structure(5)) and not tree_util.treedef_is_leaf(structure)
    assert tree_util.treedef_tuple([tree.structure(1), tree.structure([2])]) == tree.structure((1, [2]))
    assert tree_util.all_leaves([1, 2]) and tree_util.all_leaves([]) and not tree_util.all_leaves([1, (2,)])
    assert not tree_util.all_leaves([None]) and tree_util.all_leaves([(1,)], is_leaf=lambda x: isinstance(x, tuple))


def test_registering_a_node():
    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

    tree_util.register_pytree_node(Pair, lambda p: ((p.a,), p.b), lambda b, children: Pair(children[0], b))
    doubled = xf.jit(lambda p: tree.map(lambda v: 2 * v, p))(Pair(3.0, "static"))
    assert doubled.a == 6 and doubled.b == "static"
    with pytest.raises(ValueError, match="Pair"):
        tree_util.register_pytree_node(Pair, lambda p: ((p.a,), p.b), lambda b, children: Pair(children[0], b))


def test_registering_with_keys():
    @tree_util.register_pytree_with_keys_class
    class Box:
        def __init__(self, item):
            self.item = item

        def tree_flatten_with_keys(self):
            return ((tree_util.GetAttrKey("item"), self.item),), None

        @classmethod
        def tree_unflatten(cls, aux, children):
            return cls(*children)

    [(path, leaf)] = tree.leaves_with_path(Box(4))
    assert tree_util.keystr(path) == ".item" and leaf == 4

    @tree_util.register_pytree_node_class
    class Plain:
        def __init__(self, item):
            self.item = item

        def tree_flatten(self):
            return (self.item,), None

        @classmethod
        def tree_unflatten(cls, aux, children):
            return cls(*children)

    assert tree.map(lambda v: v + 1, Plain(1)).item == 2


def test_dataclasses():
    @tree_util.register_dataclass
    @dataclasses.dataclass
    class Layer:
        w: object
        name: str = dataclasses.field(metadata={"static": True})
        size: int = tree.static(default=3)

    layer = Layer(np.ones(2), "dense")
    assert len(tree.leaves(layer)) == 1 and tree.map(lambda v: v * 2, layer).name == "dense" and layer.size == 3
    assert tree.structure(layer) != tree.structure(Layer(1, "conv"))

    @dataclasses.dataclass
    class Explicit:
        a: int
        b: int

    tree_util.register_dataclass(Explicit, data_fields=["a"], meta_fields=["b"])
    assert tree.leaves(Explicit(1, 2)) == [1]
    with pytest.raises(ValueError, match="b"):
        tree_util.register_dataclass(dataclasses.make_dataclass("Bad", ["a", "b"]), data_fields=["a"], meta_fields=[])
    for fields in ((["a", "a"], ["b"]), (["a", "b"], ["a"])):
        with pytest.raises(ValueError, match=r"named twice: \['a'\]"):
            tree_util.register_dataclass(dataclasses.make_dataclass("Bad", ["a", "b"]), *fields)
    derived = dataclasses.make_dataclass("Derived", ["a", ("b", int, dataclasses.field(init=False, default=0))])
    with pytest.raises(ValueError, match=r"\['b'\]"):  # `__init__` could not restore the value
        tree_util.register_dataclass(derived)
    tree_util.register_dataclass(derived, drop_fields=["b"])
    assert tree.leaves(derived(1)) == [1]


def test_static_and_partial():
    @tree_util.register_static
    class Mode(str):
        pass

    assert tree.leaves([Mode("x"), 1]) == [1]
    assert xf.jit(lambda f, v: f(v))(tree_util.Partial(lambda a, b: a - b, 10.0), 3.0) == 7
    nested = tree_util.Partial(tree_util.Partial(lambda a, b, c: a + b * c, 1.0), 2.0)
    assert nested(3.0) == 7 and tree.leaves(nested) == [2.0]
    assert (
        tree_util.is_tree_node(dict)
        and not tree_util.is_tree_node(int)
        and tree_util.flatten_one_level([1, (2,)]) == ([1, (2,)], None)
    )


def test_ravel():
    from xlafront.flatten_util import ravel_pytree

    flat, unravel = ravel_pytree({"w": np.ones((2, 2), np.float32), "b": np.arange(3)})
    assert flat.tolist() == [0, 1, 2, 1, 1, 1, 1] and flat.dtype == np.float32
    back = unravel(flat * 2)
    assert back["w"].tolist() == [[2, 2], [2, 2]] and back["b"].tolist() == [0, 2, 4] and back["b"].dtype == np.int32
    with pytest.raises(ValueError, match="7"):
        unravel(flat[:3])
    with xf.enable_x64(True):
        assert ravel_pytree([])[0].dtype == np.float32  # whatever the default float is


@pytest.mark.parametrize(
    "prefix, full, words",
    [
        ((1, 2), (1, 2, 3), r"tree has 2 children, (rest|full_tree) 3|prefix_tree has 2 children, the pytree .* 3"),
        ({"a": 1}, {"b": 1}, "only (prefix_)?tree has 'a' and only .* has 'b'"),
        ([1], (1,), "(prefix_)?tree has a list, .* a tuple"),
        ({"a": [1, (2, 3)]}, {"a": [1, (2,)]}, r"\['a'\]\[1\]"),
    ],
)
def test_mismatches_name_the_path(prefix, full, words):
    with pytest.raises(ValueError, match=words):
        tree.broadcast(prefix, full)
    with pytest.raises(ValueError, match=words):
        tree.map(lambda a, b: a, prefix, full)


@dataclasses.dataclass
class Counted:
    """A node whose static data depend on its children."""

    child: object


tree_util.register_pytree_node(
    Counted, lambda c: ((c.child,), tree.structure(c.child).num_nodes), lambda _, children: Counted(*children)
)


@pytest.mark.parametrize("example", [
    1, None, T, {"a": collections.OrderedDict(x=1), "b": collections.defaultdict(int, y=2)}, Counted([1]),
    tree_util.Partial(max, 1),
], ids=str)  # fmt: skip
def test_structures_are_pickled_and_copied(example):
    structure = tree.structure(example)
    for again in (pickle.loads(pickle.dumps(structure)), copy.copy(structure), copy.deepcopy([structure])[0]):
        assert again == structure and hash(again) == hash(structure)
        assert tree.structure(tree.unflatten(again, tree.leaves(example))) == structure


def test_transpose_compares_leaves_only():
    outer, inner = tree.structure(Counted([0, 0])), tree.structure({"a": 0, "b": 0})
    found = tree.transpose(outer, inner, Counted([{"a": 1, "b": 2}, {"a": 3, "b": 4}]))
    assert found == {"a": Counted([1, 3]), "b": Counted([2, 4])}


def test_partial_of_a_partial():
    inner = functools.partial(max, 1)
    partial = tree_util.Partial(inner, 2)
    assert partial.func == inner and inner == partial.func and partial() == 2
    assert (partial.func.func, partial.func.args, partial.func.keywords, partial.args) == (max, (1,), {}, (2,))
    assert hash(partial.func) == hash(inner) == hash(tree_util.Partial(inner, 3).func)
    assert tree.leaves(partial) == [2] and pickle.loads(pickle.dumps(partial))() == 2
    assert tree.structure(partial) == tree.structure(tree_util.Partial(inner, 3))
    assert tree.structure(partial) != tree.structure(tree_util.Partial(functools.partial(max, 1), 2))
    of_arrays = functools.partial(np.add, np.ones(3))  # whose arguments can be neither compared nor hashed
    assert tree_util.Partial(of_arrays, 1).func == of_arrays
    assert xf.jit(lambda f: f())(tree_util.Partial(functools.partial(xf.numpy.add, np.ones(3)), 1)).tolist() == [2, 2, 2]


def test_unravel_functions():
    from xlafront.flatten_util import ravel_pytree

    def unravel(*leaves):
        return ravel_pytree(list(leaves))[1]

    ones = np.ones(2, np.float32)
    same = unravel(ones, 1.0)
    assert same == unravel(2 * ones, 3.0) and hash(same) == hash(unravel(2 * ones, 3.0)) and same != unravel(ones, 1)
    traces = []
    f = xf.jit(lambda unravel, x: traces.append(0) or unravel(x), static_argnums=0)
    f(same, np.arange(3.0)), f(unravel(ones, 5.0), np.arange(3.0))
    assert len(traces) == 1
    for again in (pickle.loads(pickle.dumps(same)), copy.deepcopy(same)):
        assert [x.tolist() for x in again(np.arange(3.0))] == [[0, 1], 2]
    assert {str(x.dtype) for x in same(np.arange(3))} == {"int32"}  # of one dtype: whatever the vector has
    with pytest.raises(TypeError, match="dtype"):
        unravel(ones, 1)(np.arange(3))


def test_key_paths_of_partials():
    """Checkpoint libraries name leaves by these paths."""
    held = tree_util.Partial(lambda a, b: a + b, 1.0, b=2.0)
    paths = [tree_util.keystr(path) for path, _ in tree_util.tree_flatten_with_path({"f": held})[0]]
    assert paths == ["['f'][<flat index 0>][0]", "['f'][<flat index 1>]['b']"]


def test_metadata_of_static_fields():
    assert dict(xf.tree.static(metadata={"static": False}).metadata) == {"static": False}
    assert dict(xf.tree.static(metadata={"name": 1}).metadata) == {"static": True, "name": 1}


def test_names_of_the_module_are_those_it_exports():
    assert [name for name in dir(xf.tree) if not name.startswith("_")] == sorted(xf.tree.__all__)
