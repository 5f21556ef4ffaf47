"""Candidates of a search: meshes over the devices of a topology, and ways to shard arguments over each.

Arguments are of two kinds. The state (parameters, moments of an optimizer) is what the function returns again with the same
types; the others are the batch. The batch is split over the axes `data` and `fsdp`, its second dimension over `sequence`. The
state is split by rules, regular expressions of paths with a `PartitionSpec` each. Without one that matches, `model` splits the
first dimension that is not the width of the model (heads, hidden units, words), so that the sums of one layer stay within it;
`fsdp` splits the largest of the others; `expert` the first of three or more.
"""

from __future__ import annotations

import collections
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlafront.core import tree
from xlafront.runtime.sharding import PartitionSpec

AXES = ("data", "fsdp", "expert", "sequence", "model")  # from the slowest links to the fastest
_BATCH_AXES = ("data", "fsdp")
SMALL = 2**14  # elements of an array up to which splitting it saves nothing

Rules = Mapping[str, PartitionSpec]


class Leaf(NamedTuple):
    """An array among the arguments."""

    path: str
    shape: tuple[int, ...]
    itemsize: int
    spec: PartitionSpec | None  # given with the argument
    is_state: bool


def meshes(count: int, axes: Sequence[str]) -> Iterator[dict[str, int]]:
    """Yield all sizes of these axes whose product is `count`."""
    if len(axes) == 1:
        yield {axes[0]: count}
        return
    for size in (n for n in range(1, count + 1) if count % n == 0):
        for rest in meshes(count // size, axes[1:]):
            yield {axes[0]: size, **rest}


def width(leaves: Sequence[Leaf]) -> int:
    """Return the size that most arrays of the state have, the smallest of several: that of the values between layers."""
    sizes = collections.Counter(n for leaf in leaves if leaf.is_state and len(leaf.shape) > 1 for n in set(leaf.shape) if n > 1)
    return max(sizes, key=lambda n: (sizes[n], -n), default=0)


def spec_of(leaf: Leaf, sizes: Mapping[str, int], rules: Rules, width: int) -> PartitionSpec | None:
    """Return how an argument is split over a mesh with axes of these sizes; None if it cannot be."""
    given = leaf.spec
    if given is None:
        given = next((spec for rule, spec in rules.items() if re.search(rule, leaf.path)), None)
    if given is not None:
        return given if _divides(leaf.shape, given, sizes) else None
    if not leaf.is_state:
        return _batch_spec(leaf.shape, sizes)
    return _state_spec(leaf.shape, sizes, width)


def _names(entry: Any) -> tuple[str, ...]:
    return entry if isinstance(entry, tuple) else () if entry is None else (entry,)


def axes_in(specs: Sequence[PartitionSpec]) -> tuple[str, ...]:
    """Return the axes that partition specs name, in the order of `AXES` and then of their names."""
    found = {name for spec in specs for entry in spec for name in _names(entry) if isinstance(name, str)}
    return (*[name for name in AXES if name in found], *sorted(found - set(AXES)))


def shard_count(spec: PartitionSpec, sizes: Mapping[str, int]) -> int:
    """Return the number of different shards of an array."""
    return math.prod(sizes.get(name, 1) for entry in spec for name in _names(entry))


def _divides(shape: Sequence[int], spec: PartitionSpec, sizes: Mapping[str, int]) -> bool:
    return len(spec) <= len(shape) and all(
        n % math.prod(sizes.get(name, 1) for name in _names(entry)) == 0 for n, entry in zip(shape, spec))


def _batch_spec(shape: Sequence[int], sizes: Mapping[str, int]) -> PartitionSpec | None:
    if not shape:
        return PartitionSpec()
    along = tuple(name for name in _BATCH_AXES if sizes.get(name, 1) > 1)
    entries: list[Any] = [along if len(along) > 1 else along[0] if along else None]
    if sizes.get("sequence", 1) > 1 and len(shape) > 1:
        entries.append("sequence")
    spec = PartitionSpec(*entries)
    return spec if _divides(shape, spec, sizes) else None


def _state_spec(shape: Sequence[int], sizes: Mapping[str, int], width: int) -> PartitionSpec:
    entries: list[Any] = [None] * len(shape)
    if math.prod(shape) <= SMALL:
        return PartitionSpec()

    def free(name: str) -> list[int]:
        size = sizes.get(name, 1)
        return [i for i, n in enumerate(shape) if size > 1 and entries[i] is None and n % size == 0]

    if len(shape) > 2 and 0 in free("expert"):
        entries[0] = "expert"
    if within := free("model"):
        entries[next((i for i in within if shape[i] != width), within[-1])] = "model"
    if others := free("fsdp"):
        entries[max(others, key=lambda i: shape[i])] = "fsdp"
    while entries and entries[-1] is None:
        entries.pop()
    return PartitionSpec(*entries)


def state_of(args: Mapping[str, Any], results: Any, batch: Sequence[str]) -> frozenset[str]:
    """Return the names of the arguments that are the state.

    Args:
        args: Tree of types of each argument, by its name.
        results: Types of the results of the function.
        batch: Names of arguments that are the batch. If empty, those that are not returned.
    """
    if batch:
        return frozenset(args) - set(batch)
    returned = {_types(part) for part in _subtrees(results)}
    return frozenset([name for name, value in args.items() if _types(value) in returned])


def leaves(args: Mapping[str, Any], specs: Mapping[str, PartitionSpec], state: frozenset[str]) -> list[Leaf]:
    """Return the arrays among arguments, given by name, with the specs given for their paths."""
    found = []
    for name, value in args.items():
        for path, x in tree.leaves_with_path(value):
            if hasattr(x, "shape") and hasattr(x, "dtype"):
                full = name + tree.keystr(path)
                found.append(Leaf(full, tuple(x.shape), x.dtype.itemsize, specs.get(full),
                                  name in state))
    return found


def _subtrees(results: Any) -> Iterator[Any]:
    """Yield a result, and those within tuples, lists and dictionaries."""
    yield results
    if isinstance(results, (tuple, list, dict)):
        for part in results.values() if isinstance(results, dict) else results:
            yield from _subtrees(part)


def _types(value: Any) -> tuple:
    flat, structure = tree.flatten(value)
    return structure, tuple((tuple(np.shape(x)), str(getattr(x, "dtype", type(x)))) for x in flat)
