"""The memory of a device over the schedule of a step: which values exist when most of it is in use, and where they come from.

The instructions of a compiled program are in the order in which they run. A value exists from the instruction that computes it
to the last that reads it; operations that give another name to a value share its buffer. Arguments exist from the start to the
end. Buffers that the compiler lays over each other in other ways, and gaps between them, are not seen: the peak is near the
total of the plan, not equal to it.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from xlafront.planning import costs
from xlafront.planning.costs import Buffer
from xlafront.planning.hlo import Computation, Instruction, Module
from xlafront.planning.report import columns, size

SHOWN_BUFFERS, SHOWN_ARGUMENTS = 12, 6


class Timeline(NamedTuple):
    """The memory in use over a step.

    Args:
        sizes: Bytes in use at each instruction of the program, arguments included.
        arguments: Bytes of the arguments.
        peak: Position of the instruction at which most is in use.
        operation, line: Operation and source line of that instruction.
        live: Largest values that exist then, other than arguments.
        largest_arguments: Largest arguments, which exist all the time.
    """

    sizes: list[int]
    arguments: int
    peak: int
    operation: str
    line: str
    live: list[Buffer]
    largest_arguments: list[Buffer]

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as numbers, strings, lists and dictionaries."""
        return self._asdict() | {name: [b._asdict() for b in getattr(self, name)] for name in ("live", "largest_arguments")}

    def __str__(self) -> str:
        return "\n".join(table(self))


class _Value(NamedTuple):
    """A buffer, with the instruction that computes it."""

    number: int
    bytes: int
    instruction: Instruction
    type: str


_Located = tuple[Computation, _Value]
_CALLS = ("while", "conditional", "call")


def timeline(module: Module) -> Timeline:
    """Return the memory in use over the schedule of a compiled program.

    Args:
        module: Compiled program, whose instructions are scheduled.

    Returns:
        The timeline.
    """
    assert module.entry is not None
    given = [Buffer(t.padded_bytes, module.argument_names.get(i, f"argument {i}"), str(t))
             for i, t in enumerate(costs.entry_types(module)) if t.in_main_memory]
    arguments = sum([b.bytes for b in given])
    inner_sizes, live_at = _sizes(module, module.entry)
    sizes = [arguments + n for n in inner_sizes]
    peak = max(range(len(sizes)), key=sizes.__getitem__, default=0)
    operation, line = module.origin(module.entry, module.entry.instructions[peak])
    return Timeline(sizes, arguments, peak, operation, line, _buffers(module, live_at(peak)),
                    sorted(given, key=lambda b: -b.bytes)[:SHOWN_ARGUMENTS])


def _sizes(module: Module, computation: Computation) -> tuple[list[int], Callable[[int], list[_Located]]]:
    """Return the bytes in use at each instruction but for parameters, and a function that lists what is in use at one.

    The values within the body of a loop or a branch are in use at the instruction that runs it.
    """
    values: dict[str, list[_Value]] = {}  # by instruction: a buffer for each of its results
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    inside: dict[int, tuple[int, list[_Located]]] = {}
    count = 0
    for position, instruction in enumerate(computation.instructions):
        shared = _shared(module, instruction, values)
        if shared is None:
            results = []
            for result in costs.instruction_results(computation, instruction):
                if result.in_main_memory and instruction.opcode != "parameter":
                    results.append(_Value(count, result.padded_bytes, instruction, str(result)))
                    first[count] = position + (instruction.opcode in _CALLS)  # they are among the values within
                    count += 1
            shared = results
        values[instruction.name] = shared
        read = shared if instruction.opcode == "get-tuple-element" else [
            v for name in instruction.operands for v in values.get(name, ())]
        last |= dict.fromkeys([v.number for v in read], position)
        if instruction.opcode in _CALLS:
            inside[position] = _largest(module, instruction)
    end = len(computation.instructions) - 1
    for value in values.get(computation.root.name, ()):
        last[value.number] = end
    unique = {v.number: v for found in values.values() for v in found}
    ends = {number: max(last.get(number, 0), first[number]) + 1 for number in unique}
    for value in unique.values():
        if (reused := _reused(value, values, last, first[value.number])) is not None:
            ends[reused.number] = first[value.number]
    changes: collections.Counter[int] = collections.Counter()
    for number, value in unique.items():
        changes[first[number]] += value.bytes
        changes[ends[number]] -= value.bytes
    sizes, now = [], 0
    for position in range(end + 1):
        now += changes[position]
        sizes.append(now + inside.get(position, (0, []))[0])

    def live_at(position: int) -> list[_Located]:
        here = [(computation, v) for n, v in unique.items() if first[n] <= position < ends[n]]
        return here + inside.get(position, (0, []))[1]

    return sizes, live_at


def _reused(value: _Value, values: dict[str, list[_Value]], last: dict[int, int], position: int) -> _Value | None:
    """Return an operand that is read for the last time and whose buffer takes the result, element by element; or None."""
    instruction = value.instruction
    is_loop = instruction.opcode == "fusion" and instruction.attribute("kind") == "kLoop"
    if instruction.opcode not in costs.ARITHMETIC and not is_loop:
        return None
    operands = [v for name in instruction.operands for v in values.get(name, ())]
    return next((v for v in operands if last[v.number] == position and v.type == value.type and v is not value), None)


def _largest(module: Module, instruction: Instruction) -> tuple[int, list[_Located]]:
    """Return the most that the computations of an instruction have in use, and what that is."""
    most: tuple[int, list[_Located]] = (0, [])
    for name in instruction.called:
        inner = module.computations.get(name)
        if inner is not None and inner.instructions:
            sizes, live_at = _sizes(module, inner)
            peak = max(range(len(sizes)), key=sizes.__getitem__)
            if sizes[peak] > most[0]:
                most = sizes[peak], live_at(peak)
    return most


def _shared(module: Module, instruction: Instruction, values: dict[str, list[_Value]]) -> list[_Value] | None:
    """Return the buffers of an instruction that only names existing values or updates one in place; None for others."""
    operands = [values.get(name, []) for name in instruction.operands]
    if instruction.opcode == "get-tuple-element":
        [index] = instruction.numbers("index")
        return operands[0][index:index + 1] if len(operands[0]) > index else operands[0]
    if instruction.opcode in ("tuple", "opt-barrier", "while"):
        return [v for found in operands for v in found]
    if instruction.opcode in ("bitcast", "dynamic-update-slice", "add-dependency") or instruction.opcode.endswith("-done"):
        return operands[0]
    if instruction.opcode == "fusion" and costs.updates_in_place(module, instruction):
        sizes = [t.padded_bytes for t in instruction.types]
        taken = [v for found in operands for v in found if v.bytes in sizes]
        return taken[:len(sizes)] if len(taken) >= len(sizes) else None
    return None


def _buffers(module: Module, live: list[_Located]) -> list[Buffer]:
    """Return the largest values, those of the same operation and line as one."""
    found: dict[tuple[str, str, str], list[int]] = {}
    for computation, value in live:
        operation, line = _origin(module, computation, value.instruction)
        found.setdefault((operation, value.type, line), []).append(value.bytes)
    rows = [Buffer(sum(sizes), what if len(sizes) == 1 else f"{what} ({len(sizes)} values)", kind, line)
            for (what, kind, line), sizes in found.items()]
    return sorted(rows, key=lambda b: -b.bytes)[:SHOWN_BUFFERS]


def _origin(module: Module, computation: Computation, instruction: Instruction, depth: int = 3) -> tuple[str, str]:
    """Return the operation and line of a value: of one that the compiler added, such as zeros, those of what reads it."""
    operation, line = module.origin(computation, instruction)
    if re.fullmatch(r"[\w-]+\.\d+", operation):  # a name that the compiler gave to an instruction
        operation = ""
    if operation or not depth:
        return operation or instruction.opcode, line
    for reader in computation.instructions:
        if instruction.name in reader.operands:
            operation, line = _origin(module, computation, reader, depth - 1)
            if operation != reader.opcode:
                return f"{instruction.opcode} for {operation.rpartition(' for ')[2]}", line
    return instruction.opcode, ""


# Drawing

_LEVELS = " ▁▂▃▄▅▆▇█"


def table(found: Timeline) -> list[str]:
    """Return lines: the memory over the schedule as bars, and the largest values at the peak."""
    held, rows = ([(size(b.bytes), b.what, b.type, b.line) for b in buffers] for buffers in (
        found.largest_arguments, found.live))
    where = f"{found.operation} {found.line}".strip() or "the start"
    return ["Memory of each device over the schedule of a step", f"  {bars(found)}",
            f"  at most {size(found.sizes[found.peak])}, in instruction {found.peak + 1} of {len(found.sizes)}: {where}",
            f"  of which {size(found.arguments)} arguments, the largest of them", *(columns(held, "r") if held else ()),
            "  and these values", *(columns(rows, "r") if rows else ())]


def bars(found: Timeline, width: int = 72) -> str:
    """Return the memory over the schedule as a line of bars, each the most of its part of the schedule."""
    most = max(found.sizes, default=0)
    if not most:
        return ""
    columns = min(width, len(found.sizes))
    bounds = [i * len(found.sizes) // columns for i in range(columns + 1)]
    return "".join([_LEVELS[round(max(found.sizes[a:b]) / most * (len(_LEVELS) - 1))] for a, b in zip(bounds, bounds[1:])])
