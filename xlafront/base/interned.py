"""Interned objects: one object for equal contents, so that comparisons are by identity."""

from __future__ import annotations

import threading
import weakref
from typing import Any


class Interned(dict):
    """A weak mapping from contents to the one object with them. Reads take no lock and cost a dictionary lookup.

    Unused entries are removed when the mapping has grown to a threshold.
    """

    def __init__(self, sweep_threshold: int):
        self.lock = threading.Lock()
        self.min_threshold = self.sweep_threshold = sweep_threshold

    def add(self, key: tuple, value: Any) -> Any:
        """Return the object with these contents: `value`, or that of a thread that added it first."""
        with self.lock:
            if len(self) >= self.sweep_threshold:
                self._sweep()
                self.sweep_threshold = max(self.min_threshold, 2 * len(self))
            return self.setdefault(key, value)

    def sweep(self) -> None:
        with self.lock:
            self._sweep()

    def _sweep(self) -> None:
        references = [(key, weakref.ref(value)) for key, value in self.items()]
        self.clear()
        self.update((key, value) for key, reference in references if (value := reference()) is not None)
