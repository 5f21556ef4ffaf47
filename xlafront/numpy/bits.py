"""Bits in bytes: `packbits` and `unpackbits`."""

from __future__ import annotations

import operator

import numpy as np

from xlafront.core import dtypes
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax.creation import broadcasted_iota
from xlafront.lax.elementwise import and_, as_type, ne, shift_left_, sub
from xlafront.lax.shapes import canonical_axis, move_dim, reshape_to
from xlafront.numpy.creation import asarray
from xlafront.numpy.manipulation import ravel
from xlafront.numpy.padding import pad
from xlafront.numpy.promotion import check_arraylike
from xlafront.numpy.reductions import sum as total
from xlafront.numpy.ufuncs import to_bool
from xlafront.staging.library import library


def _checked(name: str, a, axis, bitorder):
    """The array with the axis that counts last, and that axis."""
    check_arraylike(name, a)
    if bitorder not in ("little", "big"):
        raise ValueError(f"the bitorder of xnp.{name} must be either 'little' or 'big', got {bitorder!r}.")
    a = asarray(a)
    if axis is None:
        a, axis = ravel(a), 0
    axis = canonical_axis(axis, a.ndim, f"xnp.{name}")
    return move_dim(a, axis, a.ndim - 1), axis


def _places(bitorder: str, rank: int) -> Array:
    """The places of bits along the last dimension: counted, as CPUs read each element of a constant anew."""
    places = broadcasted_iota(np.uint8, (1,) * (rank - 1) + (8,), rank - 1)
    return places if bitorder == "little" else sub(np.uint8(7), places)


def _pack(a, bitorder):
    a = as_type(to_bool(a), dtypes.uint8, False)
    octets = (a.shape[-1] + 7) // 8
    short = 8 * octets - a.shape[-1]
    if short:
        a = pad(a, [(0, 0)] * (a.ndim - 1) + [(0, short)])
    bits = reshape_to(a, (*a.shape[:-1], octets, 8))
    return total(bits << _places(bitorder, bits.ndim), axis=-1, dtype=np.uint8)


@library(static=("axis", "bitorder"), converts=True)
def packbits(a: ArrayLike, axis: int | None = None, bitorder: str = "big") -> Array:
    """Eight truth values in each byte, zeros added at the end.

    - `a`: booleans or integers.
    - `axis`: the axis along which they are packed; the array is flattened without.
    - `bitorder`: whether the first of eight is the highest bit ("big") or the lowest ("little").

    >>> xnp.packbits(xnp.array([1, 0, 1]))
    Array([160], dtype=uint8)
    """
    moved, axis = _checked("packbits", a, axis, bitorder)
    if not dtypes.is_integer(moved.dtype) and moved.dtype != dtypes.bool_:
        raise TypeError(f"xnp.packbits expected an input array of integer or boolean data type, got {moved.dtype}.")
    packed = _pack(moved, bitorder)
    return move_dim(packed, packed.ndim - 1, axis)


def _unpack(a, count, bitorder):
    masks = shift_left_(np.uint8(1), _places(bitorder, a.ndim + 1))
    bits = as_type(ne(and_(a[..., None], masks), np.uint8(0)), np.uint8, False)
    bits = reshape_to(bits, (*a.shape[:-1], 8 * a.shape[-1]))
    if count is None:
        return bits
    n = bits.shape[-1]
    kept = max(count + n, 0) if count < 0 else count
    return bits[..., :kept] if kept <= n else pad(bits, [(0, 0)] * (a.ndim - 1) + [(0, kept - n)])


@library(static=("axis", "count", "bitorder"), converts=True)
def unpackbits(a: ArrayLike, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> Array:
    """The bits of bytes, as bytes of 0 and 1.

    - `a`: the bytes, uint8.
    - `axis`: the axis along which they are unpacked; the array is flattened without.
    - `count`: how many bits to return, more adds zeros; a negative one says how many to leave away.
    - `bitorder`: as for `packbits`.

    >>> xnp.unpackbits(xnp.array([5], dtype=xnp.uint8))
    Array([0, 0, 0, 0, 0, 1, 0, 1], dtype=uint8)
    """
    moved, axis = _checked("unpackbits", a, axis, bitorder)
    if moved.dtype != dtypes.uint8:
        raise TypeError(f"xnp.unpackbits expected an input array of unsigned byte data type (uint8), got {moved.dtype}.")
    bits = _unpack(moved, None if count is None else operator.index(count), bitorder)
    return move_dim(bits, bits.ndim - 1, axis)
