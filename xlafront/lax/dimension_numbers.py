"""Dimension numbers and modes of `gather` and `scatter`, and their checks.

The terms are those of the StableHLO specification. The checks raise errors for everything that its verifier would reject in a
module.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, NoReturn


class GatherScatterMode(enum.Enum):
    """Treatment of indices out of bounds: clamp them, fill reads and drop writes, or promise that there are none."""

    CLIP = 1
    FILL_OR_DROP = 2
    PROMISE_IN_BOUNDS = 3
    ONE_HOT = 4

    __hash__ = object.__hash__  # in C: modes are in the cache keys of types and executables

    @staticmethod
    def from_any(s: Any) -> GatherScatterMode:
        if isinstance(s, GatherScatterMode):
            return s
        mode = _MODES.get(s)
        if mode is None:
            raise ValueError(f"unknown indexing mode {s!r}. Use one of {', '.join(m for m in _MODES if m)}.")
        return mode


_MODES = {"clip": GatherScatterMode.CLIP, "fill": GatherScatterMode.FILL_OR_DROP,
          "drop": GatherScatterMode.FILL_OR_DROP, "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
          "one_hot": GatherScatterMode.ONE_HOT, None: GatherScatterMode.FILL_OR_DROP}


def dims_text(values: Iterable[int]) -> str:
    """Return dimensions as MLIR writes them in attributes."""
    return f"[{', '.join(map(str, values))}]"


class GatherDimensionNumbers(NamedTuple):
    """Relation of the dimensions of indices, windows and operand in `gather`, in the terms of the StableHLO specification.

    Args:
        offset_dims: Dimensions of the result that are window dimensions.
        collapsed_slice_dims: Dimensions of the operand in which windows have size 1, and which the result does not have.
        start_index_map: For each component of an index vector, the dimension of the operand that it indexes.
        operand_batching_dims, start_indices_batching_dims: Batch dimensions of the operand and of the indices, in pairs.

    Example:
        >>> numbers = lax.GatherDimensionNumbers((1,), (0,), (0,))
        >>> lax.gather(xnp.arange(6).reshape(3, 2), xnp.array([[2], [0]]), numbers, (1, 2)).tolist()
        [[4, 5], [0, 1]]
    """

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


class ScatterDimensionNumbers(NamedTuple):
    """Relation of the dimensions of indices, updates and operand in `scatter`, in the terms of the StableHLO specification.

    Args:
        update_window_dims: Dimensions of the updates that are window dimensions.
        inserted_window_dims: Dimensions of the operand in which windows have size 1, and which the updates do not have.
        scatter_dims_to_operand_dims: For each component of an index vector, the dimension of the operand that it indexes.
        operand_batching_dims, scatter_indices_batching_dims: Batch dimensions of the operand and of the indices, in pairs.

    Example:
        >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
        >>> lax.scatter_add(xnp.zeros(3), xnp.array([[2], [0]]), xnp.array([5.0, 7.0]), numbers).tolist()
        [7.0, 0.0, 5.0]
    """

    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()


def as_numbers(name: str, kind: type[Any], numbers: Any) -> Any:
    """Return dimension numbers given by a caller as tuples of Python ints."""
    if not isinstance(numbers, kind):
        raise TypeError(f"{name} needs {kind.__name__} as dimension_numbers, got {numbers!r}.")
    try:
        return kind(*[tuple([int(d.__index__()) for d in field]) for field in numbers])
    except (TypeError, AttributeError):
        raise TypeError(f"{name} needs tuples of integers in its dimension_numbers, got {numbers}.") from None


def _reject(name: str, numbers: NamedTuple, reason: str, shapes: Sequence[tuple[str, tuple]]) -> NoReturn:
    listed = ", ".join(f"{label} {tuple(shape)}" for label, shape in shapes)
    raise TypeError(f"{name} cannot use {numbers} with {listed}: {reason}.")


def window_shape(numbers: tuple, sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes of the window dimensions, given the sizes of a window along all dimensions of the operand."""
    _, collapsed, _, batching, _ = numbers
    return tuple([n for i, n in enumerate(sizes) if i not in collapsed and i not in batching])


def check_numbers(name: str, numbers: Any, operand: tuple[int, ...], indices: tuple[int, ...], rank: int) -> None:
    """Check conditions that `gather` and `scatter` share; `rank` is that of the gathered result or of the updates."""
    window, collapsed, targets, batching, index_batching = numbers
    fields = numbers._fields
    shapes = [("an array of shape", operand), ("indices of shape", indices)]

    def reject(reason: str) -> NoReturn:
        _reject(name, numbers, reason, shapes)

    if not indices:
        reject("the indices need a last dimension, which holds the coordinates of a position")
    for field, dims, limit, increasing in (
            (fields[0], window, rank, True), (fields[1], collapsed, len(operand), True),
            (fields[2], targets, len(operand), False), (fields[3], batching, len(operand), True),
            (fields[4], index_batching, len(indices) - 1, False)):
        for d in dims:
            if not 0 <= d < limit:
                reject(f"{field} names dimension {d}, which is out of bounds: it must be between 0 and {limit - 1}"
                       if limit else f"{field} names dimension {d}, which is out of bounds: there are no dimensions")
        if len(set(dims)) != len(dims):
            reject(f"{field} must not repeat a dimension")
        if increasing and list(dims) != sorted(dims):
            reject(f"{field} must be sorted")
    for field, dims in ((fields[1], collapsed), (fields[2], targets)):
        if both := set(dims) & set(batching):
            reject(f"{fields[3]} and {field} must be disjoint, and dimension {min(both)} is in both")
    if len(batching) != len(index_batching):
        reject(f"{fields[3]} and {fields[4]} must be of one length")
    if len(targets) != indices[-1]:
        reject(f"the last dimension of the indices, of size {indices[-1]}, must hold one coordinate for each of the "
               f"{len(targets)} dimensions in {fields[2]}")
    if len(window) + len(collapsed) + len(batching) != len(operand):
        reject(f"{fields[0]}, {fields[1]} and {fields[3]} must together name {len(operand)} dimensions, the rank of the array")
    for d, i in zip(batching, index_batching):
        if operand[d] != indices[i]:
            reject(f"dimension {d} of the array and dimension {i} of the indices are a batch, and must be of one size")


def gathered_shape(operand: tuple[int, ...], indices: tuple[int, ...], numbers: GatherDimensionNumbers,
                   sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of the result of `gather`: the window dimensions among the batch dimensions of the indices."""
    rank = len(numbers.offset_dims) + len(indices) - 1
    check_numbers("gather", numbers, operand, indices, rank)
    shapes = [("an array of shape", operand), ("slice sizes", tuple(sizes))]
    if len(sizes) != len(operand):
        _reject("gather", numbers, f"slice_sizes must have one size for each of the {len(operand)} dimensions", shapes)
    for field, dims in (("collapsed_slice_dims", numbers.collapsed_slice_dims),
                       ("operand_batching_dims", numbers.operand_batching_dims)):
        for d in dims:
            if sizes[d] > 1:
                _reject("gather", numbers, f"dimension {d} is one of {field}, so its slice size must be 1 or less", shapes)
    windows, batch = iter(window_shape(numbers, sizes)), iter(indices[:-1])
    shape = tuple([next(windows) if i in numbers.offset_dims else next(batch) for i in range(rank)])
    # A result without elements may have windows of size 1 in empty dimensions.
    if any(not 0 <= m <= (n or 0 in shape) for m, n in zip(sizes, operand)):
        _reject("gather", numbers, "the slice sizes must be between 0 and the sizes of the array", shapes)
    return shape


def check_scatter(name: str, operand: tuple[int, ...], indices: tuple[int, ...], updates: tuple[int, ...],
                  numbers: ScatterDimensionNumbers) -> None:
    """Check that updates of this shape are windows of the operand at these indices."""
    check_numbers(name, numbers, operand, indices, len(updates))
    window = numbers.update_window_dims
    shapes = [("an array of shape", operand), ("indices of shape", indices), ("updates of shape", updates)]
    if len(updates) != len(window) + len(indices) - 1:
        _reject(name, numbers, f"the updates must have {len(window) + len(indices) - 1} dimensions, those of the windows and "
                               f"of the indices without their last", shapes)
    if tuple([n for i, n in enumerate(updates) if i not in window]) != tuple(indices[:-1]):
        _reject(name, numbers, f"the dimensions of the updates that are not windows must be those of the indices, "
                               f"{tuple(indices[:-1])}", shapes)
    if any(m > n for m, n in zip([updates[i] for i in window], window_shape(numbers, operand))):
        _reject(name, numbers, "the windows of the updates are larger than the array", shapes)
