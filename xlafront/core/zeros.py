"""Symbolic zeros: tangents and cotangents that are known to be zero and never become arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xlafront.core.typing import Aval


class Zero:
    """The zero of a tangent type."""

    __slots__ = ("aval",)

    def __init__(self, aval: Any) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"Zero({self.aval})"


class UndefinedPrimal:
    """An operand of a transpose rule in which the operation is linear; only its type is known."""

    __slots__ = ("aval",)

    def __init__(self, aval: Aval) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"UndefinedPrimal({self.aval})"


UndefPrimal = UndefinedPrimal


def is_undefined(x: Any) -> bool:
    return type(x) is UndefinedPrimal
