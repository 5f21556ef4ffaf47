"""Reader of flatbuffers: tables with fields at offsets. Every offset is checked, so that invalid bytes raise an error."""

from __future__ import annotations

import struct
from typing import Any

_MAX_DEPTH = 200  # of nested tables: more than any file has, and less than Python's recursion limit


class Damaged(ValueError):
    """The error for bytes that are not a valid flatbuffer."""


class Table:
    """A table in the bytes of a file; `Table.root(bytes)` is the root table.

    Fields have numbers. An absent field reads as zero, empty or None.
    """

    def __init__(self, source: _Source, start: int, depth: int):
        if depth > _MAX_DEPTH:
            raise Damaged(f"tables are nested more than {_MAX_DEPTH} deep")
        source.visit()
        self._source, self._start, self._depth = source, start, depth
        vtable = start - source.number("i", start)
        length, self._size = source.number("H", vtable), source.number("H", vtable + 2)
        if length < 4 or length % 2:
            raise Damaged(f"the table at byte {start} has invalid fields")
        self._fields = [source.number("H", vtable + offset) for offset in range(4, length, 2)]

    @classmethod
    def root(cls, content) -> Table:
        source = _Source(content)
        return cls(source, source.reference(0), 0)

    def _offset(self, field: int) -> int | None:
        """Return the position of a field, or None if it is absent."""
        offset = self._fields[field] if field < len(self._fields) else 0
        if offset >= self._size:
            raise Damaged(f"field {field} of the table at byte {self._start} is outside of it")
        return self._start + offset if offset else None

    def number(self, field: int, form: str) -> int:
        """Return a number, in a format of `struct`."""
        position = self._offset(field)
        return 0 if position is None else self._source.number(form, position)

    def table(self, field: int) -> Table | None:
        position = self._offset(field)
        return None if position is None else Table(self._source, self._source.reference(position), self._depth + 1)

    def _vector(self, field: int, size: int) -> tuple[int, int]:
        """Return the start of a vector and its length; `size` is the number of bytes of an element."""
        position = self._offset(field)
        return (0, 0) if position is None else self._source.vector(self._source.reference(position), size)

    def data(self, field: int) -> tuple[int, int]:
        """Return the start of bytes in the file, and their number."""
        return self._vector(field, 1)

    def text(self, field: int) -> str:
        return self._source.text(*self.data(field))

    def blob(self, field: int) -> bytes:
        start, size = self.data(field)
        return bytes(self._source.content[start:start + size])

    def numbers(self, field: int, form: str) -> list[int]:
        start, length = self._vector(field, struct.calcsize("<" + form))
        return list(struct.unpack_from(f"<{length}{form}", self._source.content, start))

    def texts(self, field: int) -> list[str]:
        start, length = self._vector(field, 4)
        found = []
        for position in range(start, start + 4 * length, 4):
            self._source.visit()
            found.append(self._source.text(*self._source.vector(self._source.reference(position), 1)))
        return found

    def tables(self, field: int) -> list[Table]:
        start, length = self._vector(field, 4)
        return [Table(self._source, self._source.reference(position), self._depth + 1)
                for position in range(start, start + 4 * length, 4)]


class _Source:
    """The bytes of a file, with bounds checks.

    Several references may point to one table, but few do in valid files. `visit` counts them, as a damaged file can be an
    endless tree.
    """

    def __init__(self, content: Any):
        self.content = memoryview(content).cast("B")
        self._visits = len(self.content) // 4

    def visit(self) -> None:
        self._visits -= 1
        if self._visits < 0:
            raise Damaged("its tables refer to each other more often than its size allows")

    def number(self, form: str, position: int) -> int:
        if not 0 <= position <= len(self.content) - struct.calcsize("<" + form):
            raise Damaged(f"it refers to byte {position} of {len(self.content)}")
        return struct.unpack_from("<" + form, self.content, position)[0]

    def reference(self, position: int) -> int:
        """Return the target of the offset at `position`, which is always after it."""
        offset = self.number("I", position)
        if offset < 4:
            raise Damaged(f"the offset at byte {position} refers to itself")
        return position + offset

    def vector(self, position: int, size: int) -> tuple[int, int]:
        length, start = self.number("I", position), position + 4
        if length * size > len(self.content) - start:
            raise Damaged(f"the vector at byte {position} is longer than the file")
        return start, length

    def text(self, start: int, length: int) -> str:
        try:
            return bytes(self.content[start:start + length]).decode()
        except UnicodeDecodeError:
            raise Damaged(f"the text at byte {start} is not valid UTF-8") from None
