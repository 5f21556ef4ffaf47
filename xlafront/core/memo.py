"""Memos: results that are worked out once for each key, forgotten by `clear_caches`, and never more than so many."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Alive(Generic[T]):
    """Those objects that were added and are still there. Other threads may add some while they are gone through, which a
    `WeakSet` does not bear."""

    __slots__ = ("_references",)

    def __init__(self) -> None:
        self._references: set[weakref.ref[T]] = set()

    def add(self, x: T) -> None:
        self._references.add(weakref.ref(x, self._references.discard))

    def __iter__(self) -> Iterator[T]:
        return iter([x for reference in list(self._references) if (x := reference()) is not None])


class Memo(dict):
    """A dictionary from keys to results that can be worked out again.

    Reading is that of any dictionary; `keep` adds, and drops the older half when there are `limit` entries.
    """

    __slots__ = ("limit", "__weakref__")
    __hash__ = object.__hash__

    def __init__(self, limit: int):
        super().__init__()
        self.limit = limit
        _all.add(self)

    def keep(self, key: Any, result: Any) -> Any:
        if len(self) >= self.limit:
            for old in list(self)[:self.limit // 2]:  # a copy: other threads add meanwhile
                self.pop(old, None)
        self[key] = result
        return result


_all: Alive[Memo] = Alive()


def clear_memos() -> None:
    for memo in _all:
        memo.clear()
