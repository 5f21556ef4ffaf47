"""Bounded caches of results by key, cleared by `clear_caches`."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class WeakRegistry(Generic[T]):
    """A set of weak references. Other threads may add objects during iteration, which `WeakSet` does not support."""

    __slots__ = ("_references",)

    def __init__(self) -> None:
        self._references: set[weakref.ref[T]] = set()

    def add(self, x: T) -> None:
        self._references.add(weakref.ref(x, self._references.discard))

    def __iter__(self) -> Iterator[T]:
        return iter([x for reference in list(self._references) if (x := reference()) is not None])


class BoundedCache(dict):
    """A dictionary of results that can be recomputed.

    Reads are those of `dict`; `put` adds an entry, and drops the older half when there are `limit` entries.
    """

    __slots__ = ("limit", "__weakref__")
    __hash__ = object.__hash__

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit
        _all.add(self)

    def put(self, key: Any, result: Any) -> Any:
        if len(self) >= self.limit:
            for old in list(self)[:self.limit // 2]:  # a copy: other threads add entries meanwhile
                self.pop(old, None)
        self[key] = result
        return result


_all: WeakRegistry[BoundedCache] = WeakRegistry()


def clear_memos() -> None:
    for memo in _all:
        memo.clear()
