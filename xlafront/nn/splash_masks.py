"""Lazily computed attention masks: the keys that each query attends to.

A mask is indexed by slices like a boolean array of its shape, (queries, keys), and combined with others by `|` and `&`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["CausalMask", "ChunkedCausalMask", "FullMask", "LocalMask", "LogicalAnd", "LogicalOr", "Mask", "MultiHeadMask",
           "NumpyMask", "make_causal_mask", "make_chunk_attention_mask", "make_local_attention_mask", "make_random_mask"]


class Mask:
    """Base class of masks: a shape, and slices as arrays."""

    @property
    def shape(self) -> tuple[int, ...]:
        raise NotImplementedError(f"{type(self).__name__} has no shape: define the property `shape`.")

    def __getitem__(self, index: Any) -> np.ndarray:
        raise NotImplementedError(f"{type(self).__name__} has no values: define `__getitem__` for slices.")

    def __bool__(self) -> bool:
        raise NotImplementedError("an attention mask has no truth value. Combine masks with | and &, not with `or` and `and`.")

    def __or__(self, other: Mask) -> LogicalOr:
        return LogicalOr(self, other)

    def __and__(self, other: Mask) -> LogicalAnd:
        return LogicalAnd(self, other)


class _ComparableMask(Mask):
    """A mask that equals another of its class with the same key."""

    def _key(self) -> tuple:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._key() == other._key()  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self), self._key()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self._key()}"


class _PositionalMask(_ComparableMask):
    """A mask computed from the positions of queries and keys."""

    def __init__(self, shape: tuple[int, int], shard_count: int):
        self._shape = tuple(shape)
        if shape[0] % shard_count ** 2:
            raise ValueError(f"{type(self).__name__} of shape {self._shape}: the square of shard_count={shard_count} must "
                             f"divide the {shape[0]} queries.")

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    def _allows(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def __getitem__(self, index: Any) -> np.ndarray:
        if not (isinstance(index, tuple) and len(index) == 2 and all(isinstance(i, slice) for i in index)):
            error = NotImplementedError if isinstance(index, tuple) else TypeError
            raise error(f"{type(self).__name__} of shape {self.shape} is indexed by two slices, got {index!r}.")
        rows, columns = (np.arange(n)[positions] for n, positions in zip(self.shape, index))
        return self._allows(rows[:, None], columns[None, :])


class CausalMask(_PositionalMask):
    """Mask in which a query attends to keys up to its own position plus `offset`."""

    def __init__(self, shape: tuple[int, int], offset: int = 0, shard_count: int = 1):
        super().__init__(shape, shard_count)
        self.offset = offset

    def _allows(self, rows, columns):
        return columns <= rows + self.offset

    def _key(self):
        return self._shape, self.offset


class LocalMask(_PositionalMask):
    """Mask in which a query attends to a window of keys around its own position. None is an unlimited side."""

    def __init__(self, shape: tuple[int, int], window_size: tuple[int | None, int | None], offset: int, shard_count: int = 1):
        super().__init__(shape, shard_count)
        self.window_size, self.offset = tuple(window_size), offset

    def _allows(self, rows, columns):
        (left, right), centers = self.window_size, rows + self.offset
        return (left is None or columns >= centers - left) & (right is None or columns <= centers + right) & (
            np.ones((len(rows), columns.size), bool))

    def _key(self):
        return self._shape, self.window_size, self.offset


class ChunkedCausalMask(_PositionalMask):
    """Mask in which a query attends to keys up to its own position within its chunk of `chunk_size`."""

    def __init__(self, shape: tuple[int, int], chunk_size: int, shard_count: int = 1):
        if chunk_size <= 0:
            raise ValueError(f"ChunkedCausalMask needs a positive chunk_size, got {chunk_size}.")
        super().__init__(shape, shard_count)
        self.chunk_size = chunk_size

    def _allows(self, rows, columns):
        return (rows // self.chunk_size == columns // self.chunk_size) & (columns <= rows)

    def _key(self):
        return self._shape, self.chunk_size


class FullMask(_PositionalMask):
    """Mask in which every query attends to every key."""

    def __init__(self, _shape: tuple[int, int]):
        super().__init__(_shape, 1)

    def _allows(self, rows, columns):
        return np.ones((len(rows), columns.size), bool)

    def _key(self):
        return (self._shape,)


class NumpyMask(_ComparableMask):
    """Mask given as a boolean array."""

    def __init__(self, array: np.ndarray):
        if array.ndim != 2 or array.dtype != np.bool_:
            raise ValueError(f"NumpyMask needs a boolean array of two dimensions, got {array.dtype}{list(array.shape)}.")
        self.array = array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def __getitem__(self, index: Any) -> np.ndarray:
        return self.array[index]

    def _key(self):
        return self.array.shape, self.array.tobytes()

    def __repr__(self) -> str:
        return f"NumpyMask(array={self.array!r})"


class _CombinedMask(_ComparableMask):
    """Two masks of the same shape, combined elementwise."""

    def __init__(self, left: Mask, right: Mask):
        if left.shape != right.shape:
            raise ValueError(f"{type(self).__name__} needs masks of one shape, got {left.shape} and {right.shape}.")
        self.left, self.right = left, right

    @property
    def shape(self) -> tuple[int, ...]:
        return self.left.shape

    def _key(self):
        return self.left, self.right


class LogicalOr(_CombinedMask):
    """Mask that allows what either of two masks allows."""

    def __getitem__(self, index: Any) -> np.ndarray:
        return self.left[index] | self.right[index]


class LogicalAnd(_CombinedMask):
    """Mask that allows what both of two masks allow."""

    def __getitem__(self, index: Any) -> np.ndarray:
        return self.left[index] & self.right[index]


class MultiHeadMask(_ComparableMask):
    """A mask for each head, all of the same shape."""

    def __init__(self, masks: Sequence[Mask]):
        self.masks = tuple(masks)
        if not self.masks:
            raise ValueError("MultiHeadMask needs a mask for each head, got none.")
        for mask in self.masks:
            if isinstance(mask, MultiHeadMask):
                raise ValueError("MultiHeadMask takes masks of single heads, got a MultiHeadMask. Concatenate their masks.")
            if mask.shape != self.masks[0].shape:
                raise ValueError(f"MultiHeadMask takes masks of one shape, got {self.masks[0].shape} and {mask.shape}.")

    @property
    def shape(self) -> tuple[int, ...]:
        return len(self.masks), *self.masks[0].shape

    def __getitem__(self, index: Any) -> np.ndarray:
        head, *rest = index if isinstance(index, tuple) else (index,)
        slices = (*rest, *[slice(None)] * (2 - len(rest)))
        selected = self.masks[head]
        return selected[slices] if isinstance(selected, Mask) else np.stack([mask[slices] for mask in selected])

    def _key(self):
        return self.masks


def make_causal_mask(shape: tuple[int, int], offset: int = 0) -> np.ndarray:
    """Return a `CausalMask` as an array."""
    return CausalMask(shape, offset)[:, :]


def make_local_attention_mask(shape: tuple[int, int], window_size: tuple[int | None, int | None], *, offset: int = 0
                              ) -> np.ndarray:
    """Return a `LocalMask` as an array."""
    return LocalMask(shape, window_size, offset)[:, :]


def make_chunk_attention_mask(shape: tuple[int, int], chunk_size: int) -> np.ndarray:
    """Return a `ChunkedCausalMask` as an array."""
    return ChunkedCausalMask(shape, chunk_size)[:, :]


def make_random_mask(shape: tuple[int, int], sparsity: float, seed: int) -> np.ndarray:
    """Return random booleans that are False with probability `sparsity`."""
    return np.random.RandomState(seed).binomial(1, 1.0 - sparsity, shape).astype(bool)
