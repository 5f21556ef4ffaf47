"""A plan as a table for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xlafront.planning import Plan


def size(count: float) -> str:
    """Bytes, to three digits."""
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
    """Rows as lines; `right` has an "r" for each column that is aligned to the right."""
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
    if plan.collectives:
        head = ("", "over", "devices", "size", "times", "total", "of", "")
        rows = [(c.kind, "+".join(c.axes) if c.axes is not None else "other groups", str(c.group_size), size(c.bytes),
                 f"{c.times:g}", size(c.bytes * c.times), c.types, f"{c.operation} {c.line}".strip()) for c in plan.collectives]
        lines += ["Collectives of each device in a step", *columns([head, *rows], "llrrrr"), ""]
    elif plan.flops is not None and plan.device_count > 1:
        lines += ["No collectives: the devices do not exchange anything.", ""]
    if plan.flops is not None and plan.bytes_accessed is not None:
        rows = [("FLOPs", number(plan.flops), f"{number(plan.flops * plan.device_count)} on all devices"),
                ("memory traffic", size(plan.bytes_accessed), "")]
        lines += ["Work of each device in a step", *columns(rows, "lr"), ""]
    if plan.seconds:
        names = {"compiler": "compiler's estimate for its kernels", "compute": "FLOPs at the chip's peak rate",
                 "memory": "memory traffic at the chip's bandwidth"}
        lines += ["Time of a step", *columns([(names[name], seconds(t)) for name, t in plan.seconds.items()], "lr"), ""]
    lines += [f"note: {note}" for note in plan.notes]
    lines += ["here: " + ", ".join(f"{stage} {seconds(t)}" for stage, t in plan.stages.items())]
    return "\n".join(lines)
