"""The command `python -m xlafront plan SCRIPT:FUNCTION --search`: load the script, search, print what was found."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from xlafront.planning.placements import Rules
from xlafront.planning.script import (
    UsageError,
    call_arguments,
    find,
    load_script,
    or_message,
    parse_bytes,
    parse_option,
    split_target,
)
from xlafront.planning.search import plan_search
from xlafront.planning.search_report import SearchResult
from xlafront.runtime.sharding import PartitionSpec


def main(args: Any) -> int:
    """Run the command. Return 0 if a mesh fits, 1 if none does, 2 if the search failed."""
    result = or_message(lambda: search_target(args))
    if result is None:
        return 2
    print(result.to_json() if args.json else result, flush=True)
    return 0 if result.best is not None else 1


def search_target(args: Any) -> SearchResult:
    """Search for the options of the command line."""
    if not args.topology:
        raise UsageError("--search needs --topology, such as v5e:16x16, or several with commas between them.")
    if args.mesh:
        raise UsageError("--search finds the mesh: leave out --mesh, or give the axes that it may have with --axes.")
    path, name = split_target(args.target)
    script = load_script(path)
    function = find(script, path, name)

    def program(mesh):
        step, given, named = call_arguments(script, path, name, function, args.args, mesh)
        return step, named or given

    program.__name__ = name
    shows = sys.stderr.isatty()
    try:
        return plan_search(
            program, topology=[one.strip() for one in args.topology.split(",")],
            axes=[axis.strip() for axis in args.axes.split(",")] if args.axes else None, rules=_rules(script, path, args.rules),
            memory_limit=parse_bytes(args.memory) if args.memory else None, time_limit=args.time_limit,
            compiler_options=dict(parse_option(text) for text in args.option) or None, progress=_show if shows else None)
    finally:
        if shows:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _show(line: str) -> None:
    print(f"\r\x1b[K{line} (Ctrl-C: the best so far)", end="", file=sys.stderr, flush=True)


def _rules(script: ModuleType, path: str, name: str | None) -> Rules | None:
    if name is None:
        return None
    rules = getattr(script, name, None)
    if not isinstance(rules, dict) or not all(isinstance(key, str) and isinstance(spec, PartitionSpec)
                                              for key, spec in rules.items()):
        raise UsageError(f"--rules {name}: {path} has to define {name} as a dictionary from regular expressions to "
                         f"PartitionSpecs.")
    return rules
