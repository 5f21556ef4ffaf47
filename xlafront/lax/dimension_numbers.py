"""How `gather` and `scatter` relate indices and windows to the dimensions of an array, and what must hold of it.

The words are those of the StableHLO specification. What is refused here is what its verifier would refuse in a module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class GatherDimensionNumbers(NamedTuple):
    """How indices and window dimensions of `gather` relate; the words are those of the StableHLO specification.

    - `offset_dims`: the dimensions of the result that are those of a window.
    - `collapsed_slice_dims`: the dimensions of the operand in which windows have size 1, and which the result lacks.
    - `start_index_map`: of which dimension of the operand each number of a position is.
    - `operand_batching_dims`, `start_indices_batching_dims`: dimensions of both that go together, in pairs.

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
    """How indices and window dimensions of `scatter` relate; the words are those of the StableHLO specification.

    - `update_window_dims`: the dimensions of the updates that are those of a window.
    - `inserted_window_dims`: the dimensions of the operand in which windows have size 1, and which the updates lack.
    - `scatter_dims_to_operand_dims`: of which dimension of the operand each number of a position is.
    - `operand_batching_dims`, `scatter_indices_batching_dims`: dimensions of both that go together, in pairs.

    >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> lax.scatter_add(xnp.zeros(3), xnp.array([[2], [0]]), xnp.array([5.0, 7.0]), numbers).tolist()
    [7.0, 0.0, 5.0]
    """

    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()


def as_numbers(name: str, kind: type, numbers):
    """Dimension numbers that a user gave, as tuples of Python ints."""
    if not isinstance(numbers, kind):
        raise TypeError(f"{name} needs {kind.__name__} as dimension_numbers, got {numbers!r}.")
    try:
        return kind(*[tuple([int(d.__index__()) for d in field]) for field in numbers])
    except (TypeError, AttributeError):
        raise TypeError(f"{name} needs tuples of integers in its dimension_numbers, got {numbers}.") from None


def _refuse(name: str, numbers, why: str, shapes: Sequence[tuple[str, tuple]]):
    listed = ", ".join(f"{word} {tuple(shape)}" for word, shape in shapes)
    raise TypeError(f"{name} cannot use {numbers} with {listed}: {why}.")


def window_shape(numbers, sizes: Sequence[int]) -> tuple[int, ...]:
    """The sizes of the dimensions that a window keeps, of its sizes along all dimensions of the array."""
    _, dropped, _, batching, _ = numbers
    return tuple([n for i, n in enumerate(sizes) if i not in dropped and i not in batching])


def check_numbers(name: str, numbers, operand: tuple[int, ...], indices: tuple[int, ...], rank: int) -> None:
    """What holds of the dimension numbers of both: `rank` is that of what is read or written, windows by indices."""
    window, dropped, targets, batching, index_batching = numbers
    words = numbers._fields
    shapes = [("an array of shape", operand), ("indices of shape", indices)]

    def refuse(why: str):
        _refuse(name, numbers, why, shapes)

    if not indices:
        refuse("the indices need a last dimension, which holds the coordinates of a position")
    for word, dims, limit, increasing in (
            (words[0], window, rank, True), (words[1], dropped, len(operand), True), (words[2], targets, len(operand), False),
            (words[3], batching, len(operand), True), (words[4], index_batching, len(indices) - 1, False)):
        for d in dims:
            if not 0 <= d < limit:
                refuse(f"{word} names dimension {d}, which is out of bounds: it must lie between 0 and {limit - 1}"
                       if limit else f"{word} names dimension {d}, and there is none that it could name")
        if len(set(dims)) != len(dims):
            refuse(f"{word} must not repeat a dimension")
        if increasing and list(dims) != sorted(dims):
            refuse(f"{word} must be sorted")
    for word, dims in ((words[1], dropped), (words[2], targets)):
        if both := set(dims) & set(batching):
            refuse(f"{words[3]} and {word} must be disjoint, and dimension {min(both)} is in both")
    if len(batching) != len(index_batching):
        refuse(f"{words[3]} and {words[4]} must be of one length")
    if len(targets) != indices[-1]:
        refuse(f"the last dimension of the indices, of size {indices[-1]}, must hold one coordinate for each of the "
               f"{len(targets)} dimensions in {words[2]}")
    if len(window) + len(dropped) + len(batching) != len(operand):
        refuse(f"{words[0]}, {words[1]} and {words[3]} must name {len(operand)} dimensions together, as many as the array has")
    for d, i in zip(batching, index_batching):
        if operand[d] != indices[i]:
            refuse(f"dimension {d} of the array and dimension {i} of the indices are a batch, and must be of one size")


def gathered_shape(operand: tuple[int, ...], indices: tuple[int, ...], numbers: GatherDimensionNumbers,
                   sizes: Sequence[int]) -> tuple[int, ...]:
    """The shape of what `gather` reads: the windows' dimensions among those of the indices."""
    rank = len(numbers.offset_dims) + len(indices) - 1
    check_numbers("gather", numbers, operand, indices, rank)
    shapes = [("an array of shape", operand), ("slice sizes", tuple(sizes))]
    if len(sizes) != len(operand):
        _refuse("gather", numbers, f"slice_sizes must have one size for each of the {len(operand)} dimensions", shapes)
    for word, dims in (("collapsed_slice_dims", numbers.collapsed_slice_dims),
                       ("operand_batching_dims", numbers.operand_batching_dims)):
        for d in dims:
            if sizes[d] > 1:
                _refuse("gather", numbers, f"dimension {d} is one of {word}, so that its slice size must be 1 or less", shapes)
    windows, batch = iter(window_shape(numbers, sizes)), iter(indices[:-1])
    shape = tuple([next(windows) if i in numbers.offset_dims else next(batch) for i in range(rank)])
    # Nothing may be read also from where there is nothing.
    if any(not 0 <= m <= (n or 0 in shape) for m, n in zip(sizes, operand)):
        _refuse("gather", numbers, "the slice sizes must lie between 0 and the sizes of the array", shapes)
    return shape


def check_scatter(name: str, operand: tuple[int, ...], indices: tuple[int, ...], updates: tuple[int, ...],
                  numbers: ScatterDimensionNumbers) -> None:
    """Whether updates of this shape are windows of an array at these indices."""
    check_numbers(name, numbers, operand, indices, len(updates))
    window = numbers.update_window_dims
    shapes = [("an array of shape", operand), ("indices of shape", indices), ("updates of shape", updates)]
    if len(updates) != len(window) + len(indices) - 1:
        _refuse(name, numbers, f"the updates must have {len(window) + len(indices) - 1} dimensions, those of the windows and "
                               f"of the indices without their last", shapes)
    if tuple([n for i, n in enumerate(updates) if i not in window]) != tuple(indices[:-1]):
        _refuse(name, numbers, f"the dimensions of the updates that are not windows must be those of the indices, "
                               f"{tuple(indices[:-1])}", shapes)
    if any(m > n for m, n in zip([updates[i] for i in window], window_shape(numbers, operand))):
        _refuse(name, numbers, "the windows of the updates are larger than the array", shapes)
