"""Memos: results that are worked out once for each key, forgotten by `clear_caches`, and never more than so many."""

from __future__ import annotations

import weakref
from typing import Any

_all: weakref.WeakSet[Memo]


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


_all = weakref.WeakSet()


def clear_memos() -> None:
    for memo in list(_all):
        memo.clear()
