"""Parser of the compiler's optimized HLO: instructions with types, from the text of the module."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

_BITS = {"pred": 8, "token": 0, "opaque": 0}


def bits_of(dtype: str) -> int:
    """Return the number of bits of one element, given XLA's name of the type: f32, bf16, s4, f8e4m3fn, c64."""
    found = _BITS.get(dtype)
    if found is None:
        found = _BITS[dtype] = int(re.search(r"\d+", dtype).group())
    return found


class Type(NamedTuple):
    """The type of an array, with the layout in tiles that a TPU uses."""

    dtype: str
    shape: tuple[int, ...]
    layout: str

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return (self.size * bits_of(self.dtype) + 7) // 8

    @property
    def in_main_memory(self) -> bool:
        return "S(" not in self.layout

    @property
    def padded_bytes(self) -> int:
        """The size in memory, with dimensions padded to full tiles."""
        tile = re.search(r":T\(([\d,]+)\)", self.layout)
        if not tile or not self.shape:
            return self.bytes
        order = [int(d) for d in self.layout[1:].split(":")[0].split(",")]  # the fastest dimension first
        sizes = [self.shape[d] for d in order]
        for i, n in enumerate(reversed([int(n) for n in tile.group(1).split(",")])):
            if i < len(sizes):
                sizes[i] = -(-sizes[i] // n) * n
        return (math.prod(sizes) * bits_of(self.dtype) + 7) // 8

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


class Instruction(NamedTuple):
    """An HLO instruction: `name = types opcode(operands), attributes`."""

    name: str
    types: tuple[Type, ...]
    opcode: str
    operands: tuple[str, ...]
    inside: str  # the text between the parentheses
    attributes: str
    is_root: bool

    def attribute(self, key: str) -> str | None:
        """Return the text of an attribute: a name, or the text between braces."""
        found = re.search(rf"(?:^|[ ,]){key}=(%?[\w.\-]+|\{{)", self.attributes)
        if found is None:
            return None
        if found.group(1) == "{":
            start = found.end(1) - 1
            return self.attributes[start + 1:matching(self.attributes, start) - 1]
        return found.group(1).lstrip("%")

    def numbers(self, key: str) -> list[int]:
        return [int(n) for n in re.findall(r"-?\d+", self.attribute(key) or "")]

    @property
    def called(self) -> list[str]:
        """The names of the computations that it calls."""
        names = [self.attribute(key) for key in ("calls", "to_apply", "body", "true_computation", "false_computation")]
        branches = re.findall(r"%?([\w.\-]+)", self.attribute("branch_computations") or "")
        return [name for name in names if name] + branches

    @property
    def operation(self) -> str:
        """The operation of the program before optimization."""
        found = re.search(r'op_name="((?:[^"\\]|\\.)*)"', self.attributes)
        return found.group(1) if found else ""


class Computation:
    """An HLO computation: a list of instructions, one of which is the root (the result)."""

    def __init__(self, name: str, is_entry: bool):
        self.name, self.is_entry = name, is_entry
        self.instructions: list[Instruction] = []
        self.by_name: dict[str, Instruction] = {}

    @property
    def root(self) -> Instruction:
        return next((i for i in self.instructions if i.is_root), self.instructions[-1])

    def parameter(self, number: int) -> Instruction | None:
        return next((i for i in self.instructions if i.opcode == "parameter" and i.inside == str(number)), None)

    def operand_types(self, instruction: Instruction) -> list[tuple[Type, ...]]:
        return [self.by_name[name].types for name in instruction.operands if name in self.by_name]


class Module:
    """An HLO module: computations by name, and source lines."""

    def __init__(self, text: str):
        self.computations: dict[str, Computation] = {}
        self.entry: Computation | None = None
        self.frames = _frames(text)
        self.callers: dict[str, tuple[Computation, Instruction]] = {}  # by the name of the called computation
        self.reused = _aliased_results(text)
        partitions = re.search(r"^HloModule .*\bnum_partitions=(\d+)", text)
        self.partitions = int(partitions.group(1)) if partitions else 1
        self.argument_names: dict[int, str] = {}  # by the number of the parameter
        current = None
        for line in text.splitlines():
            header = _HEADER.match(line)
            if header:
                current = Computation(header.group(2), bool(header.group(1)))
                self.computations[current.name] = current
                if current.is_entry:
                    self.entry = current
            elif line.startswith("}"):
                current = None
            elif current is not None and " = " in line:
                instruction = parse_instruction(line)
                current.instructions.append(instruction)
                current.by_name[instruction.name] = instruction
                for name in instruction.called:
                    self.callers.setdefault(name, (current, instruction))

    def origin(self, computation: Computation, instruction: Instruction) -> tuple[str, str]:
        """Return the operation or the argument that an instruction comes from, and its source line.

        An instruction without metadata has the origin of its caller or of its first operand.
        """
        for _ in range(8):
            operation = _ARGUMENT.sub(lambda m: self.argument_names.get(int(m.group(1)), m.group()), instruction.operation)
            if operation:
                return operation, self.line_of(instruction)
            source = computation.by_name.get(instruction.operands[0]) if instruction.operands else None
            if computation.name in self.callers and (source is None or source.opcode == "parameter"):
                computation, instruction = self.callers[computation.name]
            elif source is None:
                break
            elif source.opcode == "parameter" and computation.is_entry:
                return self.argument_names.get(int(source.inside), ""), ""
            else:
                instruction = source
        return "", ""

    def line_of(self, instruction: Instruction) -> str:
        """Return the source file and line of an instruction, or an empty string."""
        found = re.search(r"stack_frame_id=(\d+)", instruction.attributes)
        if found and int(found.group(1)) in self.frames:
            return self.frames[int(found.group(1))]
        file = re.search(r'source_file="([^"]*)" source_line=(\d+)', instruction.attributes)
        return f"{file.group(1)}:{file.group(2)}" if file else ""

    def walk(self) -> Iterator[tuple[Computation, float, bool]]:
        """Yield each computation that runs, how often it runs, and True if its values stay within a fused kernel."""
        yield from self._walk(self.entry, 1.0, False)

    def fused(self, fusion: Instruction) -> Iterator[Computation]:
        """Yield the computations within a fused kernel."""
        for name in fusion.called:
            if name in self.computations:
                yield from (computation for computation, _, _ in self._walk(self.computations[name], 1.0, True))

    def _walk(self, computation: Computation, times: float, fused: bool):
        yield computation, times, fused
        for instruction in computation.instructions:
            if instruction.opcode in _REDUCERS:
                continue
            inner_times = times * (self.trips(computation, instruction) or 1) if instruction.opcode == "while" else times
            for name in instruction.called:
                if name in self.computations:
                    yield from self._walk(self.computations[name], inner_times, fused or instruction.opcode == "fusion")

    def trips(self, computation: Computation, loop: Instruction) -> int | None:
        """Return the number of iterations of a `while`, or None.

        It is annotated by the compiler, or derived from a condition `counter < constant`.
        """
        known = re.search(r'"known_trip_count":\{"n":"(\d+)"\}', loop.attributes)
        if known:
            return int(known.group(1))
        condition = self.computations.get(loop.attribute("condition") or "")
        if condition is None:
            return None
        bound = self._bound(condition)
        if bound is None:
            return None
        index, limit, inclusive = bound
        initial = computation.by_name.get(loop.operands[0]) if loop.operands else None
        start = _constant(computation, initial.operands[index]) if initial and index < len(initial.operands) else 0
        body = self.computations.get(loop.attribute("body") or "")
        step = self._step(body, index) if body else 1
        return max(0, -(-(limit - (start or 0) + inclusive) // step))

    def _step(self, body: Computation, index: int) -> int:
        """Return the increment of the loop counter per iteration; it is not 1 in loops that the compiler unrolled."""
        if body.root.opcode != "tuple" or index >= len(body.root.operands):
            return 1
        affine = self._affine(body, body.root.operands[index], index)
        return affine[1] if affine and affine[0] == 1 and affine[1] > 0 else 1

    def _affine(self, computation: Computation, name: str, index: int, caller: tuple | None = None
                ) -> tuple[int, int] | None:
        """Return `(a, b)` for a value `a * counter + b`, or None for other values.

        The counter is element `index` of the loop state, and `computation` the loop body or a fusion called from it.
        """
        found = computation.by_name.get(name)
        if found is None:
            return None
        if found.opcode == "constant" and re.fullmatch(r"-?\d+", found.inside):
            return 0, int(found.inside)
        if found.opcode in ("copy", "bitcast", "copy-start", "copy-done"):
            return self._affine(computation, found.operands[0], index, caller)
        if found.opcode == "parameter" and caller is not None:
            outer, instruction, further = caller
            return self._affine(outer, instruction.operands[int(found.inside)], index, further)
        if found.opcode == "add":
            one, other = (self._affine(computation, operand, index, caller) for operand in found.operands)
            return None if one is None or other is None else (one[0] + other[0], one[1] + other[1])
        source, element = found, None
        if found.opcode == "get-tuple-element":
            source, element = computation.by_name[found.operands[0]], found.numbers("index")[0]
            if source.opcode == "parameter" and caller is None:
                return (1, 0) if element == index else None
        inner = self.computations.get(source.attribute("calls") or "")
        if source.opcode != "fusion" or inner is None or (element is not None and inner.root.opcode != "tuple"):
            return None
        result = inner.root.name if element is None else inner.root.operands[element]
        return self._affine(inner, result, index, (computation, source, caller))

    def _bound(self, condition: Computation) -> tuple[int, int, bool] | None:
        """Return for a condition the index of the counter in the loop state, its limit, and True if the limit is included."""
        root, names = condition.root, {}
        inner = condition
        if root.opcode == "fusion":
            inner = self.computations[root.called[0]]
            names = {i.name: root.operands[int(i.inside)] for i in inner.instructions if i.opcode == "parameter"}
            root = inner.root
        if root.opcode != "compare" or "direction=L" not in root.attributes:
            return None
        counter, limit = root.operands
        value = _constant(inner, limit)
        if value is None and limit in names:
            value = _constant(condition, names[limit])
        element = condition.by_name.get(names.get(counter, counter))
        if value is None or element is None or element.opcode != "get-tuple-element":
            return None
        return element.numbers("index")[0], value, "direction=LE" in root.attributes


_ARGUMENT = re.compile(r"\bArg_(\d+)\.\d+\b")  # XLA's name of an argument
_HEADER = re.compile(r"(ENTRY )?%?([\w.\-]+) .*->.*\{$")
_REDUCERS = frozenset("""reduce reduce-window scatter select-and-scatter sort map all-reduce all-reduce-start reduce-scatter
    """.split())  # the computations that they call combine two elements


def _constant(computation: Computation, name: str) -> int | None:
    found = computation.by_name.get(name)
    while found is not None and found.opcode in ("copy", "bitcast", "convert", "copy-done", "copy-start"):
        found = computation.by_name.get(found.operands[0])
    if found is None or found.opcode != "constant" or not re.fullmatch(r"-?\d+", found.inside):
        return None
    return int(found.inside)


def matching(text: str, start: int) -> int:
    """Return the position after the bracket that closes the one at `start`."""
    opening = text[start]
    closing = {"(": ")", "{": "}", "[": "]"}[opening]
    depth, position = 0, start
    while position < len(text):
        character = text[position]
        if character == '"':
            position = text.index('"', position + 1)
            while text[position - 1] == "\\":
                position = text.index('"', position + 1)
        elif character == opening:
            depth += 1
        elif character == closing:
            depth -= 1
            if not depth:
                return position + 1
        position += 1
    return len(text)


_TYPE = re.compile(r"([a-z]\w*)\[([\d,<=]*)\](\{[^{}]*\})?")


def parse_types(text: str) -> tuple[Type, ...]:
    return tuple(Type(dtype, tuple(int(n.lstrip("<=")) for n in sizes.split(",") if n), layout or "")
                 for dtype, sizes, layout in _TYPE.findall(text))


def parse_instruction(line: str) -> Instruction:
    name, _, rest = line.strip().partition(" = ")
    is_root = name.startswith("ROOT ")
    end = matching(rest, 0) if rest.startswith("(") else rest.index(" ")
    types, rest = rest[:end], rest[end:].lstrip()
    opening = rest.index("(")
    closing = matching(rest, opening)
    inside = rest[opening + 1:closing - 1]
    return Instruction(name.removeprefix("ROOT ").lstrip("%"), parse_types(types), rest[:opening],
                       tuple(re.findall(r"%([\w.\-]+)", inside)), inside, rest[closing:].lstrip(", "), is_root)


def _aliased_results(text: str) -> dict[int, int]:
    """Return the argument whose buffer each result reuses, by their numbers."""
    start = text.find("input_output_alias={", 0, text.find("\n"))
    if start < 0:
        return {}
    start = text.index("{", start)
    pairs = re.findall(r"\{(\d*)\}: \((\d+), \{\}", text[start:matching(text, start)])
    return {int(result or 0): int(argument) for result, argument in pairs}


def _frames(text: str) -> dict[int, str]:
    """Return the source `file:line` of each numbered stack frame, from the tables at the beginning of the text."""
    def table(title: str) -> dict[int, str]:
        found = re.search(rf"^{title}\n((?:\d+ .*\n)*)", text, re.M)
        rows = (line.split(" ", 1) for line in found.group(1).splitlines()) if found else ()
        return {int(number): row for number, row in rows}

    files = {number: row.strip('"') for number, row in table("FileNames").items()}
    locations = {}
    for number, row in table("FileLocations").items():
        file, line = re.search(r"file_name_id=(\d+)", row), re.search(r" line=(\d+)", row)
        if file and line:
            locations[number] = f"{files.get(int(file.group(1)), '')}:{line.group(1)}"
    frames = {}
    for number, row in table("StackFrames").items():
        location = re.search(r"file_location_id=(\d+)", row)
        if location:
            frames[number] = locations.get(int(location.group(1)), "")
    return frames
