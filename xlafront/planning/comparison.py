"""The command `plan` for several topologies: a line for each, of a process each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

from xlafront.planning import schedules
from xlafront.planning.child import environment


def run(args: Any) -> int:
    """Plan a function for each topology, and print a table. A compiler that ends its process ends one line of it.

    Args:
        args: The options of the command line. `topology` has several names, with commas between them.

    Returns:
        The exit status: 0 if the program fits all topologies, 1 if it does not fit one, 2 if it cannot be planned for one.
    """
    options = {"--mesh": args.mesh, "--args": args.args, "--memory": args.memory}
    arguments = ["plan", args.target, *[text for pair in options.items() if pair[1] is not None for text in pair],
                 *[text for option in args.option for text in ("--option", option)], *["--schedule"] * args.schedule]
    children: list[subprocess.Popen] = []

    def plan(topology: str) -> dict[str, Any]:
        with schedules.dumped() if args.schedule else nullcontext({}) as variables:
            child = subprocess.Popen([sys.executable, "-m", "xlafront", *arguments, "--topology", topology, "--json"],
                                     env=environment() | variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            children.append(child)
            output, errors = child.communicate()
        try:
            return json.loads(output)
        except ValueError:
            return {"topology": topology, "error": _failure(errors, child.returncode)}

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            plans = list(pool.map(plan, [name.strip() for name in args.topology.split(",")]))
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in children:
                child.kill()
            return 130
    failures = {p.get("error") for p in plans}
    if len(failures) == 1 and (failure := failures.pop()) is not None and not args.json:  # the same for all topologies
        print(f"xlafront plan: {failure}", file=sys.stderr)
        return 2
    print(json.dumps(plans, indent=2) if args.json else "\n".join(_table(args.target.rpartition(":")[2], plans)))
    return max([2 if "error" in p else 1 if p["fits"] is False else 0 for p in plans])


def _failure(errors: str, status: int) -> str:
    """Return the reason of a failure from the error output: a message of this command, or the line of an exception."""
    if status < 0:
        return f"the compiler ended its process with signal {-status}"
    _, _, message = errors.partition("xlafront plan: ")
    if message:
        return message.strip()
    lines = [line for line in errors.splitlines() if line.strip() and not line.startswith(_OTHER_LINES)]
    return next((line for line in lines if "Error:" in line), lines[-1] if lines else f"exit status {status}")


_OTHER_LINES = (" ", "(frames", "WARNING", "Traceback")


def _table(name: str, plans: Sequence[dict[str, Any]]) -> list[str]:
    """Return the lines of the table of a function: one for each topology, below it one for each kernel."""
    from xlafront.planning.kernels import Kernel  # start-up: it imports jaxlib
    from xlafront.planning.report import columns, kernel_row, seconds, size  # start-up: it imports jaxlib

    kernels = [kernel_row(Kernel(**k)) for p in plans for k in p.get("kernels", ())]
    kernel_lines = iter(columns(kernels) if kernels else [])
    width = max([len(p["topology"]) for p in plans])
    lines = [f"{name} on {len(plans)} topologies"]
    for p in plans:
        if "error" in p:
            lines.append(f"  {p['topology']:{width}}  FAILS: {p['error'].splitlines()[0]}")
            continue
        memory, times = p["memory"], p["seconds"]
        verdict = {True: "fits", False: "DOES NOT FIT", None: "compiles"}[p["fits"]]
        limit = f" of {size(memory['limit'])}" if memory["limit"] else ""
        refusal = (p["not_compiled"] or "").split("\n")[0].split(" :: ")[0]
        text = refusal or f"{size(memory['total'])}{limit}"
        at_least = f", at least {seconds(times['step'])}" if times else ""
        lines.append(f"  {p['topology']:{width}}  {verdict}: {text}{at_least}")
        for k in p["kernels"]:
            lines.append(f"    {next(kernel_lines)}")
            if k["schedule"]:
                lines.append(f"        {schedules.heading(k['name'], k['schedule'])}")
    return lines
