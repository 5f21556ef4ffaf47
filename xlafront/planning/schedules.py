"""Static schedules of TPU kernels: the bundles of instructions that libtpu makes of a kernel, and the units that they use.

libtpu writes them to a folder if a flag is set when it starts, so a process of its own has to plan. A bundle is what a core
starts in one cycle: for each unit up to as many operations as it has slots. A body of a loop counts once.
"""

from __future__ import annotations

import glob
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

VARIABLE = "XLAFRONT_SCHEDULES"  # the folder, in the environment of the process that plans

# The units by libtpu's names.
_UNITS = {"MATMUL": "matrix unit: products", "MATPUSH": "matrix unit: operands", "XLU": "across lanes: reductions, transposes",
          "VALU": "vector arithmetic", "VPOP": "results of other units", "EUP": "exp, tanh, reciprocal",
          "VLOAD": "vector loads", "VSTORE": "vector stores", "SALU": "scalar arithmetic, addresses"}
_FILLS, _SPILLS = "VLOAD:FILL", "VSTORE:SPILL"  # loads and stores of registers


@contextmanager
def dumped() -> Iterator[dict[str, str]]:
    """Yield variables for the environment of a process, in which libtpu writes schedules to a folder meanwhile."""
    with tempfile.TemporaryDirectory() as folder:
        flags = f"{os.environ.get('LIBTPU_INIT_ARGS', '')} --xla_jf_dump_to={folder} --xla_jf_dump_llo_text=true"
        yield {"LIBTPU_INIT_ARGS": flags.strip(), VARIABLE: folder}


def read(instruction: str) -> dict[str, Any] | None:
    """Return the schedule of a kernel, by the name of its instruction in the compiled module; None if there is none.

    Returns:
        `bundles` and `empty`, numbers of bundles; `units`, for each its `operations`, its `slots` in all bundles and their
        ratio, `utilization`; `bound`, the unit with the highest one; `spills` and `fills`, stores and loads of registers.
    """
    folder = os.environ.get(VARIABLE)
    pattern = f"*-{glob.escape(instruction)}-*-final_hlo-static-per-bundle-utilization.txt"
    found = sorted(glob.glob(os.path.join(folder, pattern))) if folder else []
    if not found:
        return None
    with open(found[-1]) as file:
        return parse(file.read())


def parse(text: str) -> dict[str, Any] | None:
    """Return the schedule in the text of libtpu's table: names of units, their slots, and a row for each bundle."""
    lines = [line.strip() for line in text.splitlines()]
    heads = [i for i, line in enumerate(lines) if re.fullmatch(r"\S+(, ?\S+)+", line)]
    if not heads:
        return None
    names = re.split(r", ?", lines[heads[0]])
    numbers = [[int(n) for n in line.split()] for line in lines[heads[0] + 1:] if re.fullmatch(r"\d+( +\d+)*", line)]
    slots, *rows = [row for row in numbers if len(row) == len(names)] or [[]]
    if not rows:
        return None
    totals = dict(zip(names, map(sum, zip(*rows))))
    units = {}
    for name, count in zip(names, slots):
        if name in _UNITS:
            available = count * len(rows)
            units[name] = {"operations": totals[name], "slots": available, "utilization": totals[name] / max(available, 1)}
    if not units:
        return None
    return {"bundles": len(rows), "empty": sum([not any(row) for row in rows]), "units": units,
            "bound": max(units, key=lambda name: units[name]["utilization"]),
            "spills": totals.get(_SPILLS, 0), "fills": totals.get(_FILLS, 0)}


def heading(name: str, schedule: dict[str, Any]) -> str:
    """Return the line for a schedule: its bundles, the unit that bounds it, and spilled registers."""
    unit = schedule["bound"]
    spilled = f"{schedule['spills']} spills and {schedule['fills']} fills of registers" if schedule["spills"] or schedule[
        "fills"] else "no spilled registers"
    return (f"Schedule of {name}: {schedule['bundles']} bundles, {schedule['empty']} of them empty; bound by {unit} "
            f"({_UNITS[unit]}), busy in {schedule['units'][unit]['utilization']:.0%} of its slots; {spilled}")


def rows(schedule: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return the cells of the units that a schedule uses, the busiest first."""
    units = sorted(schedule["units"].items(), key=lambda item: -item[1]["utilization"])
    return [(name, _UNITS[name], str(unit["operations"]), f"of {unit['slots']} slots", f"{unit['utilization']:.1%}")
            for name, unit in units if unit["operations"]]
