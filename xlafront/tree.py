"""Functions of pytrees: `tree.map`, `tree.flatten`, `tree.leaves` and others."""

from xlafront.core.traceback_filter import exported as _exported
from xlafront.core.tree import (
    all as all,
    broadcast as broadcast,
    flatten_tree as flatten,
    flatten_with_path as flatten_with_path,
    leaves as leaves,
    leaves_with_path as leaves_with_path,
    map as map,
    map_with_path as map_with_path,
    reduce as reduce,
    reduce_associative as reduce_associative,
    static as static,
    structure as structure,
    transpose as transpose,
    unflatten as unflatten,
)

__all__ = [
    "all", "broadcast", "flatten", "flatten_with_path", "leaves", "leaves_with_path", "map", "map_with_path", "reduce",
    "reduce_associative", "static", "structure", "transpose", "unflatten"]

for _name in __all__:
    globals()[_name] = _exported(globals()[_name], __name__, _name)
