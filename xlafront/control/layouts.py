"""Layouts of loops: how their flat operands and results divide into groups.

The parameters of a loop count the operands of each group. A layout is made from these counts, and splits the operands, or any
sequence with an entry for each of them: types, flags, batch dimensions, positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from xlafront.transforms.calls.programs import split_in_three

if TYPE_CHECKING:
    from xlafront.core.typing import Params

T = TypeVar("T")


class ScanLayout(NamedTuple):
    """The layout of a `scan` and of its body: the operands are constants, the carry, and scanned arrays (in the body their
    rows); the results are the carry and stacked arrays (rows). The fields are parameters of the primitive."""

    num_consts: int
    num_carry: int

    @staticmethod
    def of(params: Params) -> ScanLayout:
        return ScanLayout(params["num_consts"], params["num_carry"])

    def split(self, operands: Sequence[T]) -> tuple[list[T], list[T], list[T]]:
        """Split operands into constants, carry and scanned arrays."""
        return split_in_three(operands, self.num_consts, self.num_carry)

    def split_results(self, results: Sequence[T]) -> tuple[list[T], list[T]]:
        """Split results into carry and stacked arrays."""
        return list(results[:self.num_carry]), list(results[self.num_carry:])

    def carry_of(self, operands: Sequence[T]) -> list[T]:
        return self.split(operands)[1]

    def locate(self, position: int) -> tuple[str, int]:
        """Return the group of the operand at a position, "const", "carry" or "x", and its index there."""
        index = position - self.num_consts
        if index < 0:
            return "const", position
        return ("carry", index) if index < self.num_carry else ("x", index - self.num_carry)


class WhileLayout(NamedTuple):
    """The layout of a `while`: constants of the condition, constants of the body, and the carry. The fields are parameters of
    the primitive."""

    cond_nconsts: int
    body_nconsts: int

    @staticmethod
    def of(params: Params) -> WhileLayout:
        return WhileLayout(params["cond_nconsts"], params["body_nconsts"])

    def split(self, operands: Sequence[T]) -> tuple[list[T], list[T], list[T]]:
        """Split operands into constants of the condition, constants of the body, and carry."""
        return split_in_three(operands, self.cond_nconsts, self.body_nconsts)

    def split_condition(self, inputs: Sequence[T]) -> tuple[list[T], list[T]]:
        """Split inputs of the condition into constants and carry."""
        return list(inputs[:self.cond_nconsts]), list(inputs[self.cond_nconsts:])

    def split_body(self, inputs: Sequence[T]) -> tuple[list[T], list[T]]:
        """Split inputs of the body into constants and carry."""
        return list(inputs[:self.body_nconsts]), list(inputs[self.body_nconsts:])


def interleaved(groups: Sequence[Sequence[int]], tangents: dict[int, int]) -> list[list[int]]:
    """Return groups of positions with the positions of their tangents at the end of each group."""
    return [[*group, *[tangents[i] for i in group if i in tangents]] for group in groups]


def selected(items: Sequence[Any], flags: Sequence[Any]) -> list[Any]:
    """Return the items whose flag is true."""
    return [x for x, flag in zip(items, flags) if flag]
