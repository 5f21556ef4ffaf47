"""The table of caches in notebooks/notes/caches.md, compared with the source."""

import ast
import importlib
import pathlib
import re
from typing import NamedTuple

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.core import bounded_cache
from xlafront.staging import array_transfers, caches, call_tracing

ROOT = pathlib.Path(__file__).parent.parent
PACKAGE = ROOT / "xlafront"
MAPPINGS = ("Interned", "PjitFunctionCache", "WeakKeyDictionary", "WeakValueDictionary")
# Dictionaries that functions write to, but which hold no results that could be recomputed: registrations, and state.
NOT_CACHES = frozenset("""
    api/vmappable_types.py:_nodes api/vmappable_types.py:_types base/config.py:_hooks base/config.py:_scope_hooks
    base/jax_names.py:_served base/meshes.py:concrete_meshes core/primitive.py:_declared core/tree.py:registered_nodes
    core/traceback_filter.py:_exported exporting/structures.py:_by_name
    exporting/structures.py:_by_type host/source_maps.py:_passes interpreters/mlir.py:_constant_handlers
    lazy_module.py:names_of numpy/ufuncs.py:INLINE
    numpy/ufuncs.py:PUBLIC planning/roofline.py:_rules runtime/clients.py:_plugins runtime/effects.py:_last_tokens
    runtime/foreign_functions.py:_plugins runtime/foreign_functions.py:_waiting runtime/partitioners.py:_partitioners
    staging/compile_log.py:_rows staging/mutable_composites.py:_by_trace staging/mutable_composites.py:_made staging/mutable_composites.py:outside
    transforms/taylor.py:jet_rules""".split())


class Cache(NamedTuple):
    kind: str  # the name of the class or of the decorator; "dict" for a dictionary of a module
    bound: ast.expr | None


def called(node: ast.AST) -> str:
    """Return the last part of the name that is called, through subscripts of types and calls of calls."""
    while isinstance(node, (ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return getattr(node, "attr", getattr(node, "id", ""))


def argument(node: ast.AST) -> ast.expr | None:
    """Return the first argument of the innermost call, such as 256 in `lru_cache(maxsize=256)(f)`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Call):
        node = node.func
    given = [*node.args, *(keyword.value for keyword in node.keywords)] if isinstance(node, ast.Call) else []
    return given[0] if given else None


def cache_made_by(node: ast.AST, parameters: ast.arguments | None = None) -> Cache | None:
    """Return the cache that a call or a decorator makes.

    None for other expressions, and for `functools.cache` of a function without parameters, which only defers a computation.
    """
    kind = called(node)
    if kind == "cache" and isinstance(node, ast.Call):
        parameters = node.args[0].args if node.args and isinstance(node.args[0], ast.Lambda) else None
    if kind == "cache" and parameters is not None and (parameters.args or parameters.vararg):
        return Cache(kind, None)
    is_lru = kind == "lru_cache" and isinstance(node, ast.Call)
    return Cache(kind, argument(node)) if is_lru or kind in ("BoundedCache", *MAPPINGS) else None


class Finder(ast.NodeVisitor):
    """Finds the caches of a file, by the variable or attribute that holds them, else by the function around."""

    def __init__(self, tree: ast.Module):
        self.found: dict[str, Cache] = {}
        self.dictionaries = {name for node in tree.body if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(
            node.value, ast.Dict) for name in self.targets(node)}
        self.scope: list[str] = []  # the classes around, and the outermost function
        self.in_function = False
        self.names: list[str] = []  # the targets of the assignment around
        self.visit(tree)

    @staticmethod
    def targets(node: ast.Assign | ast.AnnAssign) -> list[str]:
        """Return the names that are assigned to, and the attributes of `self`."""
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        flat = [x for target in targets for x in (target.elts if isinstance(target, ast.Tuple) else [target])]
        return [x.id if isinstance(x, ast.Name) else x.attr for x in flat if isinstance(x, ast.Name) or (
            isinstance(x, ast.Attribute) and getattr(x.value, "id", "") == "self")]

    def visit_definition(self, node: ast.ClassDef | ast.FunctionDef) -> None:
        outer = self.scope, self.in_function
        if not self.in_function:
            self.scope = [*self.scope, node.name]
        for decorator in node.decorator_list:
            self.add(cache_made_by(decorator, getattr(node, "args", None)), [])
        self.in_function |= isinstance(node, ast.FunctionDef)
        for child in node.body:
            self.visit(child)
        self.scope, self.in_function = outer

    visit_ClassDef = visit_FunctionDef = visit_definition

    def visit_assignment(self, node: ast.Assign | ast.AnnAssign) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if isinstance(targets[0], ast.Attribute):  # of self: belongs to the class
            self.names = [".".join([*self.scope[:1], name]) for name in self.targets(node)]
        elif not self.in_function:
            self.names = [".".join([*self.scope, name]) for name in self.targets(node)]
        self.generic_visit(node)
        self.names = []

    visit_Assign = visit_AnnAssign = visit_assignment

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("setdefault", "update"):
            self.write(node.func.value)
        cache = cache_made_by(node)
        self.add(cache, self.names)
        for child in node.args if cache is not None else ast.iter_child_nodes(node):
            self.visit(child)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if isinstance(node.ctx, ast.Store):
            self.write(node.value)
        self.generic_visit(node)

    def write(self, container: ast.expr) -> None:
        if self.in_function and getattr(container, "id", None) in self.dictionaries:
            self.found[container.id] = Cache("dict", None)

    def add(self, cache: Cache | None, names: list[str]) -> None:
        if cache is not None:
            self.found.update(dict.fromkeys(names or [".".join(self.scope)], cache))


TREES = {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}
CACHES = {f"{path}:{name}": cache for path, tree in TREES.items() for name, cache in Finder(tree).found.items()}


class Row(NamedTuple):
    bound: str
    emptied_by: str


def rows() -> dict[str, Row]:
    """Return the rows of the table, by file and name."""
    found = {}
    for line in (ROOT / "notebooks/notes/caches.md").read_text().splitlines():
        if re.match(r"\| `[\w/]+\.py`", line):
            path, names, _, bound, emptied_by = [cell.strip() for cell in line.strip("| ").split(" | ")]
            for name in re.findall(r"`([\w.]+)`", names):
                assert f"{path[1:-1]}:{name}" not in found, f"{name} has two rows"
                found[f"{path[1:-1]}:{name}"] = Row(bound, emptied_by)
    return found


TABLE = rows()


def defined_names(tree: ast.Module) -> set[str]:
    """Return the classes of a file, and the attributes that their methods set, as `Class.attribute`."""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return {class_.name for class_ in classes} | {
        f"{class_.name}.{node.attr}" for class_ in classes for node in ast.walk(class_) if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)}


def module_at(path: str):
    return importlib.import_module(".".join(["xlafront", *path.removesuffix(".py").split("/")]))


def test_every_cache_has_a_row():
    assert sorted(CACHES.keys() - TABLE.keys() - NOT_CACHES) == []


def test_every_row_names_a_cache():
    """Dictionaries of objects look like other attributes: these rows need only name one that exists."""
    others = [row.split(":") for row in TABLE.keys() - CACHES.keys()]
    assert [f"{path}:{name}" for path, name in others if path not in TREES or name not in defined_names(TREES[path])] == []
    assert sorted(NOT_CACHES - CACHES.keys()) == [] and not NOT_CACHES & TABLE.keys()


@pytest.mark.parametrize("name", sorted(CACHES.keys() & TABLE.keys()))
def test_row_has_the_bound_and_what_empties_it(name):
    cache, row = CACHES[name], TABLE[name]
    if cache.bound is not None and name != "compat/private_functions.py:weakref_lru_cache":  # there it is a parameter
        bound = eval(ast.unparse(cache.bound), vars(module_at(name.split(":")[0])))
        assert f"{bound:,}" in re.findall(r"\d[\d,]*\b", row.bound)
    if cache.kind == "BoundedCache":
        assert "`clear`" in row.emptied_by
    elif cache.kind == "lru_cache":
        assert row.emptied_by == "LRU"
    elif cache.kind == "Interned":
        assert "in use" in row.bound and "sweep" in row.emptied_by
    elif cache.kind in ("cache", "dict"):
        assert row == ("–", "never")
    else:
        assert "weak" in row.bound or "`clear`" in row.emptied_by


def test_clear_caches_empties_the_bounded_caches_of_modules():
    names = [name.split(":") for name, cache in CACHES.items() if cache.kind == "BoundedCache" and "." not in name.split(":")[1]]
    found = [getattr(module_at(path), name, None) for path, name in names]
    found = [cache for cache in found if isinstance(cache, bounded_cache.BoundedCache)]  # others are named by the function around
    assert len(found) > 10
    for cache in found:
        cache.put("key", "value")
    xf.clear_caches()
    assert not any(found)


def test_clear_caches_empties_what_calls_filled():
    def double(x):
        return xnp.sum(xnp.sin(x) * 2)

    jitted = xf.jit(double)
    jitted(xnp.ones(3)), xf.grad(double)(xnp.ones(3))
    own = call_tracing.shared_caches(double, next(iter(call_tracing.caches_of_functions[double])))
    filled = [own.traces, caches.dispatch_cache, call_tracing.caches_of_functions, caches.executables_by_key, caches.recent_executables,
              xf.lax.sin_p.types]

    def sizes():
        return [cache.size() if hasattr(cache, "size") else len(cache) for cache in filled]

    assert all(sizes())
    xf.clear_caches()
    del jitted
    assert sizes() == [0] * len(filled)
    np.testing.assert_allclose(double(np.float32([1.0])), 2 * np.sin(1), rtol=1e-6)


def test_clear_caches_empties_the_executables_of_transfers():
    mesh = xf.make_mesh((2,), ("i",))
    x = xf.device_put(np.arange(4.0), xf.NamedSharding(mesh, xf.P("i")))
    array_transfers.reshard([x], [xf.NamedSharding(mesh, xf.P())])
    assert array_transfers._executables
    xf.clear_caches()
    assert not array_transfers._executables
    [y] = array_transfers.reshard([x], [xf.NamedSharding(mesh, xf.P())])
    np.testing.assert_array_equal(y, np.arange(4.0))
