"""Findings of a simulated kernel: rows of integers while it runs, errors and warnings with the user's lines afterwards."""

from __future__ import annotations

import enum
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.core import source

CAPACITY = 16  # different findings of one run
FIELDS = 6  # kind, two sites, step of the grid, two details


class Kind(enum.IntEnum):
    """A kind of finding. The sites and details are those that `_TEXTS` names."""

    RACE = 1
    CORES = 2
    READ_OUTSIDE = 3
    WRITE_OUTSIDE = 4
    BLOCK_OUTSIDE = 5
    REVISITED = 6
    ENDLESS_WAIT = 7
    COUNT_LEFT = 8
    NEVER_WAITED = 9
    BLOCK_LEAVES = 10
    DEVICES = 11
    NO_DEVICE = 12


# {here} and {there} are the sites, {where} the index in the grid, {a} and {b} the details.
_TEXTS = {
    Kind.RACE: "a race: {here} and {there} can happen in either order{where}. Wait for the copy before.",
    Kind.CORES: "a race: core {a} and core {b} both write {here}{where}. Give the axis of the grid the semantics "
                "pltpu.ARBITRARY, or each core its own block.",
    Kind.DEVICES: "a race between devices: {here} and {there} from device {a} can happen in either order{where}. Let each "
                  "device signal the sender when its memory is free, and wait for the signal before the copy starts.",
    Kind.READ_OUTSIDE: "{here} is out of bounds{where}: in dimension {a} it starts at {b}.",
    Kind.WRITE_OUTSIDE: "{here} is out of bounds{where}: in dimension {a} it starts at {b}.",
    Kind.BLOCK_OUTSIDE: "the index map of {here} returns a block that is out of bounds{where}: {b} in dimension {a}.",
    Kind.REVISITED: "the grid comes back to {here}{where}, which it has left before: on a TPU its content is lost. Order the "
                    "axes of the grid so that the steps for a block follow each other.",
    Kind.ENDLESS_WAIT: "{here} never ends{where}: the semaphore is at {a}, and the wait is for {b}. (Copies count bytes.)",
    Kind.COUNT_LEFT: "{here} is not zero at its end, but {a}{where}. Wait for as many signals as there are.",
    Kind.NEVER_WAITED: "{here} is never waited for{where}. Call its wait().",
    Kind.NO_DEVICE: "{here} is to device {a}{where}, and the mesh has {b} devices, from 0 on. Take the remainder by the number "
                    "of devices, or send only where there is a neighbour, with pl.when.",
    Kind.BLOCK_LEAVES: "{here} is not waited for in the step of the grid{where} at whose end the blocks are replaced. Wait "
                       "for it in the same step.",
}
_RACES = (Kind.RACE, Kind.CORES, Kind.DEVICES)
_ERRORS = {Kind.READ_OUTSIDE: IndexError, Kind.WRITE_OUTSIDE: IndexError, Kind.BLOCK_OUTSIDE: IndexError}


class Report:
    """The names of the sites of a simulated kernel, which turn its findings to messages.

    Args:
        label: Name and place of the kernel.
        grid: Its grid, with None for sizes that are known only at run time.
        on_race: "raise" or "warn".
        recorder: A function that is called with a number, the point and the core of each step, or None.
        points: Returns the point and the core of each step.
    """

    def __init__(self, label: str, grid: Sequence[int | None], on_race: str, recorder: Callable | None, points: Callable
                 ) -> None:
        self.label, self.grid, self.on_race, self.recorder, self.points = label, tuple(grid), on_race, recorder, points
        self.sites: list[str] = []

    def site(self, text: str) -> int:
        """Return the number of a site."""
        if text not in self.sites:
            self.sites.append(text)
        return self.sites.index(text)

    def check(self, found: Any) -> None:
        """Raise an error, or warn, if a simulation found something. `found` has a row for each finding, after the count."""
        rows = np.asarray(found).reshape(-1, CAPACITY + 1, FIELDS)
        if self.recorder is not None:
            for run in range(len(rows)):
                for point, core in self.points():
                    self.recorder(np.int32(run), point, core)
        lines = [(Kind(int(row[0])), self._text(row)) for run in rows for row in run[1:1 + max(0, int(run[0, 0]))]]
        unique = list(dict.fromkeys(lines))
        fatal = [line for line in unique if line[0] not in _RACES or self.on_race == "raise"]
        for kind, text in unique:
            if (kind, text) not in fatal:
                warnings.warn(f"the kernel {self.label}: {text}", stacklevel=2)
        if fatal:
            error = _ERRORS.get(fatal[0][0], RuntimeError)
            raise error(f"the kernel {self.label} has {'an error' if len(fatal) == 1 else f'{len(fatal)} errors'}:" + "".join(
                [f"\n- {text}" for _, text in fatal]))

    def _text(self, row: np.ndarray) -> str:
        kind, here, there, step, a, b = map(int, row)
        return _TEXTS[Kind(kind)].format(here=self.sites[here], there=self.sites[there], where=self._where(step), a=a, b=b)

    def _where(self, step: int) -> str:
        if len(self.grid) == 0 or step < 0:
            return ""
        if None in self.grid:
            return f" (in step {step} of the grid)"
        index = np.unravel_index(step, self.grid)  # type: ignore[call-overload]
        return f" (at index ({', '.join(map(str, index))}{',' * (len(index) == 1)}) of the grid)"


def line_of(eqn: Any) -> str:
    """Return "at FILE:LINE" for the user's line of an equation."""
    found = source.describe(eqn.site)
    return f"at {source.position(found.file, found.line)}"
