"""The registry of cases. A module of cases registers them when it is imported; `all_cases` imports all such modules."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.libraries import Library

CASES: dict[str, Callable[[Library], dict]] = {}
STAGED: set[str] = set()  # cases whose programs are run once more in a process that has one core: times without neighbours
ONE_CORE = "BENCHMARKS_ONE_CORE"  # set in the environment of such a process
PLATFORM = "BENCHMARKS_PLATFORM"  # an environment variable: where the processes run


def case(function):
    """Register a function of a library that returns figures, under its name with hyphens."""
    CASES[function.__name__.replace("_", "-")] = function
    return function


def staged(function):
    """Register a case whose programs are measured on one core too."""
    STAGED.add(function.__name__.replace("_", "-"))
    return case(function)
