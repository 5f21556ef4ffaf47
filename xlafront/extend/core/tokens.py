"""Concrete tokens, which order effects outside of jaxprs."""

from __future__ import annotations

from typing import Any


class Token:
    """A concrete token: an array without elements that is ready once an effect has happened."""

    __slots__ = ("_buf",)

    def __init__(self, buf: Any):
        self._buf = buf

    def block_until_ready(self) -> None:
        """Wait until the effect has happened."""
        self._buf.block_until_ready()
