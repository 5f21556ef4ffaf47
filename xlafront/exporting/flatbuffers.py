"""Flatbuffers: tables of fields that are found by offsets, each of which is checked: bytes that are none end in an error."""

from __future__ import annotations

import struct
from typing import Any

_DEEPEST = 200  # tables inside of tables: more than any file has, and less than Python recurses


class Damaged(ValueError):
    """What is read is no flatbuffer, or a damaged one."""


class Table:
    """A table in the bytes of a file; `Table.root(bytes)` is the outermost one.

    Its fields have numbers. Those that it leaves out are zero, empty or None.
    """

    def __init__(self, source: _Source, start: int, depth: int):
        if depth > _DEEPEST:
            raise Damaged(f"tables are nested more than {_DEEPEST} deep")
        source.visit()
        self._source, self._start, self._depth = source, start, depth
        vtable = start - source.number("i", start)
        length, self._size = source.number("H", vtable), source.number("H", vtable + 2)
        if length < 4 or length % 2:
            raise Damaged(f"the table at byte {start} has fields that are not there")
        self._fields = [source.number("H", vtable + at) for at in range(4, length, 2)]

    @classmethod
    def root(cls, content) -> Table:
        source = _Source(content)
        return cls(source, source.reference(0), 0)

    def _place(self, field: int) -> int | None:
        """Where a field is; None where the table leaves it out."""
        offset = self._fields[field] if field < len(self._fields) else 0
        if offset >= self._size:
            raise Damaged(f"field {field} of the table at byte {self._start} is outside of it")
        return self._start + offset if offset else None

    def number(self, field: int, form: str) -> int:
        """A number, in the form that `struct` calls so."""
        place = self._place(field)
        return 0 if place is None else self._source.number(form, place)

    def table(self, field: int) -> Table | None:
        place = self._place(field)
        return None if place is None else Table(self._source, self._source.reference(place), self._depth + 1)

    def _vector(self, field: int, size: int) -> tuple[int, int]:
        """Where the elements of a vector begin, and how many there are, which have `size` bytes each."""
        place = self._place(field)
        return (0, 0) if place is None else self._source.vector(self._source.reference(place), size)

    def data(self, field: int) -> tuple[int, int]:
        """Where bytes begin in the file, and how many there are."""
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
        for place in range(start, start + 4 * length, 4):
            self._source.visit()
            found.append(self._source.text(*self._source.vector(self._source.reference(place), 1)))
        return found

    def tables(self, field: int) -> list[Table]:
        start, length = self._vector(field, 4)
        return [Table(self._source, self._source.reference(place), self._depth + 1)
                for place in range(start, start + 4 * length, 4)]


class _Source:
    """Bytes, of which only those that are there can be read.

    Several references may be to one table. A writer makes few such: `visit` counts, as a damaged file
    can be a tree without end.
    """

    def __init__(self, content: Any):
        self.content = memoryview(content).cast("B")
        self._visits = len(self.content) // 4

    def visit(self) -> None:
        self._visits -= 1
        if self._visits < 0:
            raise Damaged("its tables refer to each other more often than its size allows")

    def number(self, form: str, place: int) -> int:
        if not 0 <= place <= len(self.content) - struct.calcsize("<" + form):
            raise Damaged(f"it refers to byte {place} of {len(self.content)}")
        return struct.unpack_from("<" + form, self.content, place)[0]

    def reference(self, place: int) -> int:
        """What an offset at `place` refers to, which is always behind it."""
        offset = self.number("I", place)
        if offset < 4:
            raise Damaged(f"the offset at byte {place} refers to itself")
        return place + offset

    def vector(self, place: int, size: int) -> tuple[int, int]:
        length, start = self.number("I", place), place + 4
        if length * size > len(self.content) - start:
            raise Damaged(f"the vector at byte {place} is longer than the file")
        return start, length

    def text(self, start: int, length: int) -> str:
        try:
            return bytes(self.content[start:start + length]).decode()
        except UnicodeDecodeError:
            raise Damaged(f"the text at byte {start} is none") from None
