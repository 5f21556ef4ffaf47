"""Functions that other operations of `lax` make up."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

import numpy as np

from xlafront.core import tracing
from xlafront.lax import elementwise, shapes, slicing
from xlafront.lax.slicing import concatenate


def select(pred, on_true, on_false):
    """Elements of one array where a condition holds, of the other where it does not; no broadcasting.

    >>> select(x > 0, x, -x)
    """
    return elementwise.select_n(pred, on_false, on_true)


def dtype(x):
    """The dtype that an array or a number has as an operand."""
    return tracing.aval_of(x).dtype


def broadcast_shapes(*arrays_shapes):
    """The shape that arrays of these shapes broadcast to, as NumPy's rules say."""
    listed = [shapes.static_shape("broadcast_shapes", s) for s in arrays_shapes]
    for shape in listed:
        shapes.check_sizes("broadcast_shapes", shape)
    return shapes.broadcast_shapes("broadcast_shapes", *listed)


def broadcast_to_rank(x, rank: int):
    """Add leading dimensions of size 1."""
    return shapes.expand_dims(x, tuple(range(rank - np.ndim(x)))) if np.ndim(x) < rank else elementwise.as_array(x)


def collapse(operand, start_dimension: int, stop_dimension: int | None = None):
    """Merge the dimensions from one to (not including) another into one."""
    shape = np.shape(operand)
    start, stop, _ = slice(start_dimension, stop_dimension).indices(len(shape))
    if start > stop:
        raise ValueError(f"collapse needs a range of dimensions of shape {shape}, got {start_dimension} to "
                         f"{stop_dimension}.")
    return shapes.reshape(operand, (*shape[:start], math.prod(shape[start:stop]), *shape[stop:]))


def stack(operands, axis: int = 0):
    """Join arrays of one shape along a new axis."""
    operands = list(operands)
    if not operands:
        raise ValueError("stack needs at least one array.")
    if len({np.shape(x) for x in operands}) > 1:
        raise ValueError(f"stack: all arrays must have the same shape, got {', '.join(str(np.shape(x)) for x in operands)}.")
    axis = shapes.canonical_axis(axis, np.ndim(operands[0]) + 1, "stack")
    return concatenate([shapes.expand_dims(x, (axis,)) for x in operands], axis)


def unstack(x, axis: int = 0) -> tuple:
    """The slices of an array along an axis.

    >>> first, second = unstack(xnp.ones((2, 3)))
    """
    axis = shapes.canonical_axis(axis, np.ndim(x), "unstack")
    return tuple(slicing.unstack(shapes.move_dim(x, axis, 0)))


def tile(operand, reps: Sequence[int]):
    """Lay copies of an array side by side, `reps[i]` of them along dimension `i`.

    >>> tile(xnp.arange(3), (2,))
    Array([0, 1, 2, 0, 1, 2], dtype=int32)
    """
    return shapes.tile_p.bind(operand, reps=tuple(map(operator.index, reps)))
