"""Results of `plan`, as numbers and as a printed table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from xlafront.planning import schedules
from xlafront.planning.costs import Buffer, Collective
from xlafront.planning.kernels import Kernel
from xlafront.runtime.sharding import Mesh

if TYPE_CHECKING:
    from xlafront.planning.memory_timeline import Timeline


class Memory(NamedTuple):
    """Memory of one device, in bytes. `total` counts donated arguments once; `limit` is the memory available to a program."""

    arguments: int
    outputs: int
    donated: int
    temporaries: int
    code: int
    total: int
    limit: int | None


class Plan(NamedTuple):
    """The result of `plan`. It prints as a table.

    Attributes:
        fits: True if the memory of the program is within the limit; None if no limit is known.

    Args:
        name: Name of the function.
        topology, mesh, device_kind, device_count: Devices that the program was compiled for.
        memory: Memory of each device.
        buffers: Largest buffers.
        flops, bytes_accessed: Work of one device in one call.
        collectives: Collectives of one device in one call.
        seconds: Estimated times: `compiler` (the compiler's estimate for its kernels, if it has one), `compute` and `memory`
            (the work at the chip's peak rates), `kernels` (one after another), `collectives` (over links that nothing else
            uses), `exposed` (the part of them beside which no kernel runs), `step` (kernels and exposed collectives).
        stages: Seconds of tracing, lowering and compiling on this machine.
        notes: Remarks on the numbers.
        not_compiled: Error message of the compiler if it failed, else None.
        kernels: Pallas kernels in the program.
        timeline: Memory of each device over the schedule of a step, which prints as bars with the largest values at the peak;
            None if the program was not compiled.
    """

    name: str
    topology: str
    mesh: Mesh
    device_kind: str
    device_count: int
    memory: Memory
    buffers: list[Buffer]
    flops: float | None
    bytes_accessed: float | None
    collectives: list[Collective]
    seconds: dict[str, float]
    stages: dict[str, float]
    notes: list[str]
    not_compiled: str | None
    kernels: Sequence[Kernel] = ()
    timeline: Timeline | None = None

    @property
    def fits(self) -> bool | None:
        if self.not_compiled is not None:
            return False
        return None if self.memory.limit is None else self.memory.total <= self.memory.limit

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as numbers, strings, lists and dictionaries."""
        return {
            "name": self.name, "topology": self.topology, "device_kind": self.device_kind, "device_count": self.device_count,
            "mesh": dict(self.mesh.shape), "fits": self.fits,
            "memory": self.memory._asdict(), "buffers": [b._asdict() for b in self.buffers],
            "flops": self.flops, "bytes_accessed": self.bytes_accessed,
            "collectives": [c._asdict() | {"axes": list(c.axes) if c.axes is not None else None} for c in self.collectives],
            "seconds": self.seconds, "stages": self.stages, "notes": self.notes,
            "kernels": [k._asdict() for k in self.kernels], "not_compiled": self.not_compiled,
            "timeline": self.timeline.to_dict() if self.timeline else None}

    def to_json(self, indent: int | None = 2) -> str:
        return json.dumps(self.to_dict(), indent=indent)

    def __str__(self) -> str:
        return table(self)

    __repr__ = __str__


# The table

_TIMES = {
    "compiler": "compiler's estimate for its kernels", "compute": "FLOPs at the chip's peak rate",
    "memory": "memory traffic at the chip's bandwidth", "collectives": "collectives over the links",
    "exposed": "of which not beside kernels", "step": "estimate of the step"}


def size(count: float) -> str:
    """Format a number of bytes with three digits."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" or abs(count) >= 100 else f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} TiB" if abs(count) < 1000 else f"{count / 1024:.3g} PiB"


def number(count: float, unit: str = "") -> str:
    for prefix, scale in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(count) >= scale:
            return f"{count / scale:.3g} {prefix}{unit}".rstrip()
    return f"{count:.3g} {unit}".rstrip()


def seconds(count: float) -> str:
    for unit, scale in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count * 1e9:.3g} ns"


def columns(rows: Sequence[Sequence[str]], right: str = "") -> list[str]:
    """Align the cells of rows in columns; `right` has an "r" at each column that is aligned to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  " + "  ".join(cell.rjust(w) if right[i:i + 1] == "r" else cell.ljust(w)
                             for i, (cell, w) in enumerate(zip(row, widths))).rstrip() for row in rows]


def verdict(plan: Plan) -> str:
    memory = plan.memory
    if plan.not_compiled is not None:
        return f"DOES NOT FIT: {plan.not_compiled}"
    if memory.limit is None:
        return f"needs {size(memory.total)} on each device (how much there is, is not known: give a memory limit)"
    share = f"{size(memory.total)} of {size(memory.limit)} on each device ({memory.total / memory.limit:.0%})"
    return f"fits: {share}" if plan.fits else f"DOES NOT FIT: {share}"


def kernel_row(kernel: Kernel) -> tuple[str, ...]:
    """Return the cells of a kernel: its name, grid, fast memory and registers."""
    grid = "x".join(["?" if n is None else str(n) for n in kernel.grid]) or "1"
    memory = f"{size(kernel.memory)}{f' of {size(kernel.limit)}' if kernel.limit else ''} {kernel.memory_space}"
    registers = "" if kernel.registers is None else f"{kernel.registers} registers"
    return kernel.name, f"grid {grid}", memory, registers, f"{size(kernel.spilled)} spilled" if kernel.spilled else ""


def _over(collective: Collective) -> str:
    axes = "+".join(collective.axes) if collective.axes is not None else "other groups"
    return axes if collective.scope == "all" else f"{axes}, {collective.scope}"


def table(plan: Plan) -> str:
    mesh = ", ".join(f"{name}={n}" for name, n in plan.mesh.shape.items())
    lines = [f"{plan.name} on {plan.topology}: {plan.device_count} x {plan.device_kind}, mesh {mesh}", verdict(plan), ""]
    memory = plan.memory
    rows: list[tuple[str, ...]] = [
        ("arguments", size(memory.arguments)), ("outputs", size(memory.outputs)),
        ("donated arguments, reused", f"-{size(memory.donated)}" if memory.donated else "0 B"),
        ("temporaries", size(memory.temporaries)), ("code", size(memory.code)), ("total", size(memory.total))]
    lines += ["Memory on each device", *columns(rows, "lr"), ""]
    large = [b for b in plan.buffers if b.bytes >= plan.buffers[0].bytes / 1000]
    if large:
        rows = [(size(b.bytes), b.what, b.type, b.line) for b in large]
        lines += ["Largest buffers on each device", *columns(rows, "r"), ""]
    if plan.kernels:
        rows = [kernel_row(k) for k in plan.kernels]
        lines += ["Kernels on each device", *columns(rows), ""]
    for kernel in plan.kernels:
        if kernel.schedule:
            lines += [schedules.heading(kernel.name, kernel.schedule), *columns(schedules.rows(kernel.schedule), "llrrr"), ""]
    if plan.collectives:
        head = ("", "over", "devices", "size", "times", "total", "of", "")
        rows = [(c.kind, _over(c), str(c.group_size), size(c.bytes),
                 f"{c.times:g}", size(c.bytes * c.times), c.types, f"{c.operation} {c.line}".strip()) for c in plan.collectives]
        lines += ["Collectives of each device in a step", *columns([head, *rows], "llrrrr"), ""]
    elif plan.flops is not None and plan.device_count > 1:
        lines += ["No collectives: the devices do not exchange anything.", ""]
    if plan.flops is not None and plan.bytes_accessed is not None:
        rows = [("FLOPs", number(plan.flops), f"{number(plan.flops * plan.device_count)} on all devices"),
                ("memory traffic", size(plan.bytes_accessed), "")]
        lines += ["Work of each device in a step", *columns(rows, "lr"), ""]
    if plan.seconds:
        rows = [(text, seconds(plan.seconds[name])) for name, text in _TIMES.items() if name in plan.seconds]
        lines += ["Time of a step", *columns(rows, "lr"), ""]
    lines += [f"note: {note}" for note in plan.notes]
    lines += ["here: " + ", ".join(f"{stage} {seconds(t)}" for stage, t in plan.stages.items())]
    return "\n".join(lines)
