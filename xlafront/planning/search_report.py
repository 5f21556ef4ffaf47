"""Results of a search, as a table, as numbers, and as the piece of a program that uses the best one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from xlafront.planning.costs import Collective
from xlafront.planning.report import Memory, columns, number, seconds, size
from xlafront.runtime.sharding import PartitionSpec


class Count(NamedTuple):
    """The tokens or examples that a step processes."""

    number: int
    what: str


class Candidate(NamedTuple):
    """A mesh and the shardings of the arguments, with costs of the step on it.

    Args:
        topology, mesh: Topology, and sizes of the axes of the mesh.
        specs: How each argument is split, by path.
        count: Tokens or examples that a step processes, on all devices.
        is_compiled: True if the topology's compiler has compiled it, False if it is only partitioned.
        memory: Memory of each device.
        seconds: Parts of the time of a step, as in a plan.
        dominant: Collective that takes longest.
        compile_seconds: Time of compiling it.
        failure: Why it could not be compiled.
    """

    topology: str
    mesh: dict[str, int]
    specs: dict[str, PartitionSpec]
    count: Count
    is_compiled: bool
    memory: Memory | None = None
    seconds: Mapping[str, float] = {}
    dominant: Collective | None = None
    compile_seconds: float | None = None
    failure: str | None = None

    @property
    def fits(self) -> bool | None:
        if self.failure is not None:
            return False
        if self.memory is None or self.memory.limit is None:
            return None
        return self.memory.total <= self.memory.limit

    @property
    def rate(self) -> float | None:
        """The tokens or examples per second and device."""
        devices = 1
        for n in self.mesh.values():
            devices *= n
        return self.count.number / self.seconds["step"] / devices if self.seconds else None

    @property
    def order(self) -> tuple:
        """The key by which candidates are sorted: those that fit, those that are compiled, the fastest for a device."""
        return self.fits is False, not self.is_compiled, -(self.rate or 0.0), self.memory.total if self.memory else 0

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as numbers, strings, lists and dictionaries."""
        return {
            "topology": self.topology, "mesh": self.mesh, "specs": {path: _listed(spec) for path, spec in self.specs.items()},
            "fits": self.fits, "is_compiled": self.is_compiled, "count": self.count._asdict(), "rate": self.rate,
            "memory": self.memory._asdict() if self.memory else None, "seconds": dict(self.seconds),
            "dominant": self.dominant._asdict() if self.dominant else None, "compile_seconds": self.compile_seconds,
            "failure": self.failure}


class SearchResult(NamedTuple):
    """The result of `plan_search`. It prints as a table, with the piece of a program that uses the best mesh.

    Args:
        name: Name of the function.
        topologies: Topologies that were searched.
        candidates: What was found, best first.
        excluded: Reasons why other meshes were left out, with their numbers.
        stopped: Why the search ended early; None if it did not.
        least_memory: Smallest memory of the arguments on a device over the meshes that cannot hold them.
    """

    name: str
    topologies: list[str]
    candidates: list[Candidate]
    excluded: dict[str, int]
    stopped: str | None
    least_memory: int | None

    @property
    def best(self) -> Candidate | None:
        """The best candidate that fits; None if none does."""
        return next((c for c in self.candidates if c.fits is not False), None)

    def code(self) -> str:
        """Return a piece of a program: the best mesh, and a function that gives the sharding of each argument.

        Returns:
            The text; empty if no mesh fits.
        """
        best = self.best
        return "" if best is None else _code(best)

    def to_json(self, indent: int | None = 2) -> str:
        """Return all fields as JSON.

        Args:
            indent: Spaces of an indentation; None for one line.

        Returns:
            The text.
        """
        fields = {"name": self.name, "topologies": self.topologies, "candidates": [c.to_dict() for c in self.candidates],
                  "excluded": self.excluded, "stopped": self.stopped, "code": self.code()}
        return json.dumps(fields, indent=indent)

    def __repr__(self) -> str:
        return table(self)


SHOWN = 12


def table(result: SearchResult) -> str:
    """Return the table of candidates, best first, and below it what to do with the best."""
    several = len(result.topologies) > 1
    lines = [f"{result.name} on {', '.join(result.topologies)}: {len(result.candidates)} meshes, "
             f"{sum(c.is_compiled for c in result.candidates)} of them compiled"]
    if result.stopped:
        lines.append(f"The search was stopped {result.stopped}: this is the best so far.")
    if result.candidates:
        head = ("mesh", "memory", "step", "kernels", "alone", "per second and device", "longest collective", "")
        rows = [_row(c, several) for c in result.candidates[:SHOWN]]
        lines += ["", *columns([head, *rows], "lrrrrr")]
        lines += ["", "A step is its kernels and the collectives alone. \"partitioned\": before the topology's compiler."]
    for reason, count in result.excluded.items():
        lines.append(f"left out: {count} ({reason})")
    lines += ["", result.code() or _nothing_fits(result)]
    return "\n".join(lines)


def _row(c: Candidate, several: bool) -> tuple[str, ...]:
    mesh = " ".join(f"{name}={n}" for name, n in c.mesh.items() if n > 1) or "one device"
    name = f"{c.topology} {mesh}" if several else mesh
    if c.memory is None:
        return name, "", "", "", "", "", "", f"FAILS: {(c.failure or '').splitlines()[0][:70]}"
    memory = size(c.memory.total) + ("" if c.fits else " too much" if c.fits is False else "")
    how = "compiled" if c.is_compiled else "partitioned"
    if not c.seconds:
        return name, memory, "", "", "", "", "", how
    dominant = c.dominant
    shown = "" if dominant is None else f"{dominant.kind} over {'+'.join(dominant.axes or ('other groups',))}"
    rate = f"{number(c.rate or 0.0)} {c.count.what}"
    times = [seconds(c.seconds.get(part, 0.0)) for part in ("step", "kernels", "exposed")]
    return name, memory, *times, rate, shown, how


def _nothing_fits(result: SearchResult) -> str:
    """Return by how much the best mesh does not fit, and what would help."""
    held = [(c.memory.total, c.memory.limit) for c in result.candidates if c.memory and c.memory.limit]
    if held:
        least, limit = min(held)
        over = f"the best needs {size(least)} of {size(limit)} on each device, {least / limit:.2g} times what there is"
    elif result.least_memory is not None:
        over = f"the arguments alone take {size(result.least_memory)} on each device"
    else:
        return "No mesh can be used."
    return f"No mesh fits: {over}. More chips, xf.checkpoint of the layers, or bfloat16 would help."


# The piece of a program


def _code(best: Candidate) -> str:
    sizes = {name: n for name, n in best.mesh.items() if n > 1} or dict(list(best.mesh.items())[:1])
    rules = _rules(best.specs, sizes)
    width = max([len(rule) for rule, _ in rules], default=0)
    lines = ["import re", "", "AUTO = xf.sharding.AxisType.Auto",
             f"mesh = xf.make_mesh({tuple(sizes.values())}, {tuple(sizes)}, (AUTO,) * {len(sizes)})",
             "rules = {", *[f"    r\"{rule}\":{' ' * (width - len(rule))} {spec}," for rule, spec in rules], "}", "",
             "def shardings(name, tree):  # of an argument: shardings(\"parameters\", parameters)",
             "    def of(path, x):",
             "        text = name + xf.tree_util.keystr(path)",
             "        spec = next((spec for rule, spec in rules.items() if re.fullmatch(rule, text)), xf.P())",
             "        return xf.NamedSharding(mesh, spec)",
             "    return xf.tree_util.tree_map_with_path(of, tree)"]
    return "\n".join(lines)


def _rules(specs: Mapping[str, PartitionSpec], sizes: Mapping[str, int]) -> Sequence[tuple[str, str]]:
    """Return one rule for arguments whose paths differ in positions only and that are split in the same way."""
    by_rule: dict[str, set[str]] = {}
    shown = {path: _spec_text(spec, sizes) for path, spec in specs.items()}
    for path, text in shown.items():
        by_rule.setdefault(_general(path), set()).add(text)
    found: dict[str, str] = {}
    for path, text in shown.items():
        general = _general(path)
        found[general if len(by_rule[general]) == 1 else re.escape(path)] = text
    return [(rule, text) for rule, text in found.items() if text != "xf.P()"]


def _general(path: str) -> str:
    return re.sub(r"\\\[\d+\\\]", r"\\[\\d+\\]", re.escape(path))


def _spec_text(spec: PartitionSpec, sizes: Mapping[str, int]) -> str:
    entries: list[Any] = []
    for entry in spec:
        names = tuple(name for name in (entry if isinstance(entry, tuple) else (entry,)) if name in sizes)
        entries.append(names if len(names) > 1 else names[0] if names else None)
    while entries and entries[-1] is None:
        entries.pop()
    return f"xf.P({', '.join(map(repr, entries))})"


def _listed(spec: PartitionSpec) -> list:
    return [list(entry) if isinstance(entry, tuple) else entry for entry in spec]
