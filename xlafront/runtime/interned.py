"""Objects of which there is one for each contents, so that comparing two costs a pointer."""

from __future__ import annotations

import threading
import weakref
from typing import Any


class Interned(dict):
    """The objects that are in use, by their contents. Reading takes no lock and costs what a dictionary does.

    From `enough` entries on, those that nobody uses any more are looked for.
    """

    def __init__(self, enough: int):
        self.lock = threading.Lock()
        self.least = self.enough = enough

    def add(self, key: tuple, value: Any) -> Any:
        """The one object with these contents: this, or that of a thread which was quicker."""
        with self.lock:
            if len(self) >= self.enough:
                self._sweep()
                self.enough = max(self.least, 2 * len(self))
            return self.setdefault(key, value)

    def sweep(self) -> None:
        with self.lock:
            self._sweep()

    def _sweep(self) -> None:
        known = [(key, weakref.ref(value)) for key, value in self.items()]
        self.clear()
        self.update((key, value) for key, reference in known if (value := reference()) is not None)
