"""Symbolic zeros: tangents and cotangents that are known to vanish and never become arrays."""

from __future__ import annotations


class Zero:
    """The zero of a tangent type."""

    __slots__ = ("aval",)

    def __init__(self, aval):
        self.aval = aval

    def __repr__(self):
        return f"Zero({self.aval})"


class UndefinedPrimal:
    """In a transpose rule: the operand that the operation is linear in, of which only the type is known."""

    __slots__ = ("aval",)

    def __init__(self, aval):
        self.aval = aval

    def __repr__(self):
        return f"UndefinedPrimal({self.aval})"


UndefPrimal = UndefinedPrimal


def is_undefined(x) -> bool:
    return type(x) is UndefinedPrimal
