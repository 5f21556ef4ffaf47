"""Memories of a simulated kernel, and the parts of them that operations use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xlafront.core.basic_primitives import to_dtype
from xlafront.core.refs import AbstractRef
from xlafront.lax.ref_indexing import Indexer, Operand, Window
from xlafront.numpy.searching import where


class Memory:
    """A reference of a simulated kernel.

    Args:
        number: Number of the memory. References to the same memory share it.
        ref: The reference.
        name: Name in messages.
        has_blocks: True if the grid replaces its content.
        first: For semaphores the number of the first; None for arrays.
    """

    def __init__(self, number: int, ref: Any, aval: AbstractRef, name: str, has_blocks: bool = False,
                 first: int | None = None) -> None:
        self.number, self.ref, self.aval, self.name = number, ref, aval, name
        self.has_blocks, self.first = has_blocks, first


class Part(NamedTuple):
    """The part of a memory that indexers select: for each dimension its positions, and whether they can be out of bounds.

    Args:
        starts, stops, steps: The first position, the end, and the distance of positions.
        checks: `(dimension, start, is_outside)` of the dynamic indices.
    """

    starts: tuple[Any, ...]
    stops: tuple[Any, ...]
    steps: tuple[int, ...]
    checks: tuple[tuple[int, Any, Any], ...]


def part_of(shape: Sequence[int], indexers: Sequence[Indexer], operands: Sequence[Any], limits: Sequence[int] | None = None
            ) -> Part:
    """Return the part of an array that indexers select. Index arrays select all between their extremes.

    Args:
        shape: Shape of the array.
        indexers, operands: The indexers.
        limits: Bounds of the positions. Default: the shape.
    """
    starts: list[Any] = [0] * len(shape)
    sizes, steps, dims = list(shape), [1] * len(shape), list(range(len(shape)))
    stops: dict[int, Any] = {}
    checks: list[tuple[int, Any, Any]] = []
    ends_at = list(limits or shape)
    for indexer in indexers:
        for d, e in zip(dims, indexer):
            count = sizes[d]
            index, size, step = (e.start, e.size, e.stride) if type(e) is Window else (e, 1, 1)
            if type(index) is Operand:
                start = to_dtype(operands[index.number], np.dtype(np.int32))
                last = start
                if np.shape(start):
                    last, start = _extremes(start, index.ignored)
                    stops[d] = starts[d] + (last + 1) * steps[d]
                checks.append((d, start, (start < 0) | (last + max(size - 1, 0) * step >= ends_at[d])))
            else:
                start = index + count if index < 0 else index
            starts[d] = starts[d] + start * steps[d]
            sizes[d], ends_at[d], steps[d] = size, size, steps[d] * step
        if any([type(e) is Operand and np.shape(operands[e.number]) for e in indexer]):
            break  # what views of it select is within this part
        dims = [d for d, e in zip(dims, indexer) if type(e) is Window]
    ends = [stops.get(d, starts[d] + max(sizes[d] - 1, 0) * steps[d] + (sizes[d] > 0)) for d in range(len(shape))]
    return Part(tuple(starts), tuple(ends), tuple(steps), tuple(checks))


def _extremes(indices: Any, ignored: int | None) -> tuple[Any, Any]:
    """Return the largest and the smallest of indices, without an ignored value: none at all make an empty part."""
    if ignored is None:
        return indices.max(), indices.min()
    is_used = indices != ignored
    return where(is_used, indices, np.int32(-1)).max(), where(is_used, indices, np.int32(2**31 - 1)).min()


def bounds(part: Part, rank: int) -> list[Any]:
    """Return a part as integers: starts, stops and steps, with dimensions of size 1 in front up to a rank."""
    extra = rank - len(part.starts)
    return [*[0] * extra, *part.starts, *[1] * extra, *part.stops, *[1] * extra, *part.steps]


def overlaps(columns: Sequence[Any], other: Sequence[Any]) -> Any:
    """Return for each of many parts whether it has an element in common with another part.

    Args:
        columns: The `bounds` of the parts: an array of each number.
        other: The bounds of the other part.
    """
    rank = len(other) // 3
    found: Any = True
    for d in range(rank):
        start, stop, step = columns[d], columns[rank + d], columns[2 * rank + d]
        first, end, distance = other[d], other[rank + d], other[2 * rank + d]
        found = found & (start < end) & (first < stop)
        if distance > 1:  # strided positions can alternate
            found = found & ~((step == distance) & ((start - first) % distance != 0))
    return found
