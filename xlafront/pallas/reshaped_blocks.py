"""Blocks of reshaped arrays: the block of the array before a reshape that has the elements of a block after it, and back."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.pallas.specs import Blocked, is_squeezed


def reshaped_block(block: Sequence[Any], shape: Sequence[int], new_shape: Sequence[int], fill: Any = 1
                   ) -> tuple[list[Any], Callable[[Sequence[Any]], list[Any]]] | None:
    """Return the block of a reshaped array with the elements of a block of an array, in their order.

    Dimensions that the reshape merges or splits must have blocks of elements that follow each other: the last ones whole, one
    in parts, the first ones in blocks of size 1. Other dimensions remain as they are.

    Args:
        block: Dimensions of the block, as in a spec.
        shape: Shape of the array.
        new_shape: Shape of the reshaped array.
        fill: The dimension of blocks where the shape has new dimensions of size 1.

    Returns:
        The dimensions of the block, and its index as a function of the index before; None if there is no such block.
    """
    if 0 in shape:
        return None
    new_block: list[Any] = [fill] * len(new_shape)
    new_index: dict[int, Callable[[Sequence[Any]], Any]] = {}
    for dims, new_dims in _groups(shape, new_shape):
        if len(dims) == len(new_dims) == 1:
            new_block[new_dims[0]], new_index[new_dims[0]] = block[dims[0]], lambda index, d=dims[0]: index[d]
            continue
        sizes = [_size(block[d]) for d in dims]
        flat = None if 0 in sizes else _flat_block(sizes, [shape[d] for d in dims])
        found = None if flat is None else _sizes_of(flat[0], [new_shape[d] for d in new_dims])
        if flat is None or found is None:
            return None
        size, units = flat
        for k, d in enumerate(new_dims):
            new_block[d], count = found[k], new_shape[d] // found[k]
            unit = found[k] * math.prod([new_shape[e] for e in new_dims[k + 1:]]) // size
            if count > 1:
                steps = [(e, n) for e, n in zip(dims, units) if n]
                new_index[d] = functools.partial(_position, steps, unit, count if k else None)
    return new_block, lambda index: [new_index[d](index) if d in new_index else 0 for d in range(len(new_shape))]


def _size(dim: Any) -> int:
    """Return the size of a dimension of blocks; 0 if they begin at any element."""
    if is_squeezed(dim):
        return 1
    if isinstance(dim, Blocked):
        return dim.block_size
    return int(dim) if isinstance(dim, (int, np.integer)) else 0


def _position(steps: Sequence[tuple[int, int]], unit: int, count: int | None, index: Sequence[Any]) -> Any:
    """Return the index of a block along a new dimension.

    Args:
        steps: Former dimensions, and how many blocks, in the order of the elements, a step along each of them is.
        unit: How many blocks a step along the new dimension is.
        count: Number of blocks along it; None for the first dimension of a group.
        index: The index of the block before.
    """
    found: Any = sum([index[d] * n for d, n in steps])
    found = found if unit == 1 else found // unit
    return found if count is None else found % count


def _groups(shape: Sequence[int], new_shape: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Return the dimensions that a reshape merges or splits into others, without those of size 1."""
    groups: list[tuple[list[int], list[int]]] = []
    old, new = [[d for d, n in enumerate(sizes) if n != 1] for sizes in (shape, new_shape)]
    while old:
        dims, new_dims = [old.pop(0)], [new.pop(0)]
        more = shape[dims[0]] - new_shape[new_dims[0]]
        while more:
            if more > 0:
                new_dims.append(new.pop(0))
            else:
                dims.append(old.pop(0))
            more = math.prod([shape[d] for d in dims]) - math.prod([new_shape[d] for d in new_dims])
        groups.append((dims, new_dims))
    return groups


def _flat_block(sizes: Sequence[int], shape: Sequence[int]) -> tuple[int, list[int]] | None:
    """Return the number of elements of a block, and how many blocks a step of the index is along each dimension."""
    units: list[int] = []
    size, is_partial = math.prod(sizes), False
    for d in reversed(range(len(shape))):
        if shape[d] % sizes[d] or is_partial and sizes[d] != 1:
            return None
        is_partial = is_partial or sizes[d] != shape[d]
        units.insert(0, sizes[d] * math.prod(shape[d + 1:]) // size if sizes[d] != shape[d] else 0)
    return size, units


def _sizes_of(size: int, shape: Sequence[int]) -> list[int] | None:
    """Return the sizes of a block of a number of elements that follow each other."""
    sizes: list[int] = []
    for n in reversed(shape):
        part = math.gcd(size, n)
        if part not in (size, n):
            return None
        sizes.insert(0, part)
        size //= part
    return sizes
