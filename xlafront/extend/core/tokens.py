"""Concrete tokens: what puts effects in their order outside of programs."""

from __future__ import annotations

from typing import Any


class Token:
    """A token that exists: an array of no elements that is ready once what it stands for has happened."""

    __slots__ = ("_buf",)

    def __init__(self, buf: Any):
        self._buf = buf

    def block_until_ready(self) -> None:
        """Wait for what the token stands for."""
        self._buf.block_until_ready()
