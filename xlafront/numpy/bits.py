"""Packing of bits into bytes: `packbits` and `unpackbits`."""

from __future__ import annotations

import operator

import numpy as np

from xlafront.core import dtypes
from xlafront.core.basic_primitives import move_dim
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax.creation import broadcasted_iota
from xlafront.lax.elementwise import and_, as_type, ne, shift_left_, sub
from xlafront.lax.shapes import canonical_axis, reshape_to
from xlafront.numpy.creation import asarray
from xlafront.numpy.manipulation import ravel
from xlafront.numpy.padding import pad
from xlafront.numpy.promotion import check_arraylike
from xlafront.numpy.reductions import sum as total
from xlafront.numpy.ufuncs import to_bool
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library


def _checked(name: str, a, axis, bitorder):
    """Check the arguments; return the array with the packed axis moved to the end, and the position of that axis."""
    check_arraylike(name, a)
    if bitorder not in ("little", "big"):
        raise ValueError(f"the bitorder of numpy.{name} must be either 'little' or 'big', got {bitorder!r}.")
    a = asarray(a)
    if axis is None:
        a, axis = ravel(a), 0
    axis = canonical_axis(axis, a.ndim, f"numpy.{name}")
    return move_dim(a, axis, a.ndim - 1), axis


def _bit_positions(bitorder: str, rank: int) -> Array:
    """Return the positions of bits along the last dimension, as an iota: CPUs load the elements of a constant each time."""
    positions = broadcasted_iota(np.uint8, (1,) * (rank - 1) + (8,), rank - 1)
    return positions if bitorder == "little" else sub(np.uint8(7), positions)


def _pack(a, bitorder):
    a = as_type(to_bool(a), dtypes.uint8, False)
    octets = (a.shape[-1] + 7) // 8
    missing = 8 * octets - a.shape[-1]
    if missing:
        a = pad(a, [(0, 0)] * (a.ndim - 1) + [(0, missing)])
    bits = reshape_to(a, (*a.shape[:-1], octets, 8))
    return total(bits << _bit_positions(bitorder, bits.ndim), axis=-1, dtype=np.uint8)


@library(static=("axis", "bitorder"))
@accepts(objects=True)
def packbits(a: ArrayLike, axis: int | None = None, bitorder: str = "big") -> Array:
    """Pack eight booleans into each byte.

    Zeros are appended up to a multiple of eight.

    Args:
        a: Booleans or integers; integers other than 0 count as True.
        axis: Axis to pack along. Default: the flattened array.
        bitorder: "big" if the first of eight is the highest bit, "little" if it is the lowest.

    Returns:
        Array of uint8.

    Example:
        >>> xnp.packbits(xnp.array([1, 0, 1]))
        Array([160], dtype=uint8)
    """
    a, axis = _checked("packbits", a, axis, bitorder)
    if not dtypes.is_integer(a.dtype) and a.dtype != dtypes.bool_:
        raise TypeError(f"numpy.packbits expected an input array of integer or boolean data type, got {a.dtype}.")
    packed = _pack(a, bitorder)
    return move_dim(packed, packed.ndim - 1, axis)


def _unpack(a, count, bitorder):
    masks = shift_left_(np.uint8(1), _bit_positions(bitorder, a.ndim + 1))
    bits = as_type(ne(and_(a[..., None], masks), np.uint8(0)), np.uint8, False)
    bits = reshape_to(bits, (*a.shape[:-1], 8 * a.shape[-1]))
    if count is None:
        return bits
    n = bits.shape[-1]
    size = max(count + n, 0) if count < 0 else count
    return bits[..., :size] if size <= n else pad(bits, [(0, 0)] * (a.ndim - 1) + [(0, size - n)])


@library(static=("axis", "count", "bitorder"))
@accepts(objects=True)
def unpackbits(a: ArrayLike, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> Array:
    """Unpack bytes into bits.

    Args:
        a: Array of uint8.
        axis: Axis to unpack along. Default: the flattened array.
        count: Number of bits to return, filled up with zeros if there are fewer. A negative number drops bits from the end.
        bitorder: "big" if the first of eight is the highest bit, "little" if it is the lowest.

    Returns:
        Array of uint8, with elements 0 and 1.

    Example:
        >>> xnp.unpackbits(xnp.array([5], dtype=xnp.uint8))
        Array([0, 0, 0, 0, 0, 1, 0, 1], dtype=uint8)
    """
    a, axis = _checked("unpackbits", a, axis, bitorder)
    if a.dtype != dtypes.uint8:
        raise TypeError(f"numpy.unpackbits expected an input array of unsigned byte data type (uint8), got {a.dtype}.")
    bits = _unpack(a, None if count is None else operator.index(count), bitorder)
    return move_dim(bits, bits.ndim - 1, axis)
