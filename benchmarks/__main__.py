"""`python -m benchmarks --against jax`: each case in fresh processes of each library, in alternation.

Prints a table by case with the geometric means of the ratios to jax, the ten highest ratios, and all figures. `--baseline FILE`
compares the means with those of a former run (`--json FILE`), measures a case that is more than 10 % worse again, up to
twice, and fails if it stays so.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from benchmarks.all_cases import CASES
from benchmarks.registry import ONE_CORE, PLATFORM, STAGED

# figure (or its beginning) -> the target: the highest ratio to jax; None: no target
TARGETS: dict[str, float | None] = {
    "import of": 1.0,  # libraries, which take most of it
    "import": 0.4,
    "Flax Linen: trace": 0.4,
    "Equinox: trace": 0.4,
    "Flax": 1.0,
    "Equinox": 1.0,
    "NumPyro": 1.0,
    "jit call": 1.0,
    "call of lower().compile()": 1.0,
    "call: keyword": 1.0,
    "call: key": 0.6,
    "call: donated key": 0.6,
    "ask": 1.0,
    "pmap call": 1.1,
    "eager x + x": 0.8,
    "eager sum": 0.9,
    "eager x[0]": 0.15,
    "eager x[1:]": 0.2,
    "eager x[array]": 0.06,
    "eager x.at[i].set": 0.06,
    "eager zeros": 0.3,
    "eager arange": 0.3,
    "eager eye": 0.3,
    "eager relu": 0.3,
    "eager softmax": 0.3,
    "eager einsum": 0.3,
    "eager grad of 3": 0.15,
    "trace, per op": 0.15,
    "trace of": 0.15,
    "lower, per op": 0.3,
    "compile": 1.0,
    "12 layers, cold: trace": 0.3,
    "12 layers, cold: compile": None,  # xlafront keeps the program on disk meanwhile
    "12 layers, value_and_grad": 0.3,
    "12 layers, grad: compile": 0.35,
    "12 jitted layers, grad: compile": 0.35,
    "12 layers: run": 1.02,
    "12 layers, warm: trace": None,
    "12 layers, warm: compile": 0.1,
    "memory kept": 0.15,
    "function, eager": 1.0,
    "function, trace": 0.3,
    "function, operations": 1.0,
    "Pallas: simulated": 0.05,
    "Pallas: trace": 0.3,
    "Pallas": 1.0,
    "kernel": 1.0,
    "sparse": 1.0,
    "first run, cold": 0.6,
    "first run, second process": 0.25,
    "read": 1.0,
    "many": 1.0,
    "step": 1.05,
    "fresh: checkpoint": 1.0,  # which jax runs operation by operation
    "fresh": 0.05,
    "call": 1.0,
}
# beginnings of figures -> the target: the highest geometric mean of their ratios
MEANS = {"function, eager": 0.5, "function, trace": 0.15, "function, operations": 1.0, "kernel": 1.0}
# the stage of a program (what follows the colon) -> the same, where the figure has no row above
STAGES = {
    "trace": 0.15,
    "trace and lower": 0.3,
    "trace and lower, first time": 0.3,
    "operations": 1.0,
    "compile": 1.0,
    "run": 1.02,
    "run on one core": 1.02,
    "temporary memory": 1.0,
}
# figure (or its beginning) -> the target: the highest value of xlafront's own
BOUNDS = {"linear: 100,000 over": 11.0, "constant:": 1.1}
# Cases whose processes are timed from outside: what each of them runs. {jax} makes the library answer for jax.
STARTS = {
    "start": {
        "import": "import {m}, {m}.numpy",
        "first operation": "import {m}.numpy as n; x = n.ones(3) + 1; x.block_until_ready()",
    },
    "libraries": {
        "import of Flax Linen": "{jax}import flax.linen",
        "import of Flax NNX": "{jax}from flax import nnx",
        "import of Optax": "{jax}import optax",
        "import of Equinox": "{jax}import equinox",
        "import of NumPyro": "{jax}import numpyro",
    },
}


def environment(cache: str) -> dict:
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    platform = os.environ.get(PLATFORM, "cpu")
    return {
        **variables,
        "XLAFRONT_CACHE_DIR": cache,
        "XLAFRONT_PLATFORMS": platform,
        "JAX_PLATFORMS": platform,
    }


def has_libraries(python: str) -> bool:
    """True if an interpreter has the libraries that import jax."""
    code = "import sys, importlib.util as u; sys.exit(None in map(u.find_spec, ('flax', 'optax', 'equinox', 'numpyro')))"
    return subprocess.run([python, "-c", code]).returncode == 0


def run_case(case: str, library: str, python: str, cache: str, **variables: str) -> dict:
    """The figures of one process, which has these environment variables too."""
    if case in STARTS:
        figures = {}
        if library in ("xlafront", "jax") and (case == "start" or has_libraries(python)):
            answer = "import xlafront.as_jax; " if library == "xlafront" else ""
            for name, code in STARTS[case].items():
                started = time.perf_counter()
                subprocess.run([python, "-c", code.format(m=library, jax=answer)], check=True, env=environment(cache))
                figures[name] = ((time.perf_counter() - started) * 1e3, "ms")
        return figures
    done = subprocess.run(
        [python, "-m", "benchmarks.worker", case, library],
        capture_output=True,
        text=True,
        env={**environment(cache), **variables},
    )
    for line in done.stdout.splitlines():
        if line.startswith("FIGURES "):
            return json.loads(line[8:])
    raise SystemExit(f"the case {case} failed with {library}:\n{done.stderr}")


def measure(cases: list[str], rounds: int, libraries: list[str], pythons: dict[str, str]) -> tuple[dict, dict, dict]:
    """Return by figure the values of each library, the unit, and the case; the libraries run in alternation."""
    results: dict[str, dict[str, list[float]]] = {}
    units: dict[str, str] = {}
    case_of: dict[str, str] = {}
    for case in cases:
        for round_number in range(rounds):
            for library in libraries:
                python, cache = pythons.get(library, sys.executable), tempfile.mkdtemp()
                try:
                    if case.endswith("-warm") or case in STARTS:  # once before, so that the cache has the programs
                        run_case(case, library, python, cache)
                    figures = run_case(case, library, python, cache)
                    if case in STAGED and figures:
                        figures |= run_case(case, library, python, cache, **{ONE_CORE: "1"})
                finally:
                    shutil.rmtree(cache, ignore_errors=True)
                    shutil.rmtree(cache + "-jax", ignore_errors=True)
                for figure, (value, unit) in figures.items():
                    results.setdefault(figure, {name: [] for name in libraries})[library].append(value)
                    units[figure], case_of[figure] = unit, case
            print(f"{case}: round {round_number + 1} of {rounds}", file=sys.stderr)
    return results, units, case_of


def target_of(figure: str) -> float | None:
    for name, value in TARGETS.items():
        if figure.startswith(name):
            return value
    return STAGES.get(figure.partition(": ")[2])


def verdict(figure: str, ours: float | None, ratio: float | None) -> str:
    """Return the target of a figure and a mark that shows if it is met; empty without a target."""
    bound = next((value for name, value in BOUNDS.items() if figure.startswith(name)), None)
    expected, found = (bound, ours) if bound is not None else (target_of(figure), ratio)
    if expected is None or found is None:
        return ""
    return f"{'itself ' if bound is not None else ''}≤ {expected:g} {'✓' if found <= expected else '✗'}"


def shown(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.3f}"


def table(results: dict, units: dict, libraries: list[str]) -> list[str]:
    """Rows of Markdown: medians, the ratio to jax, the target."""
    lines = ["| figure | " + " | ".join(libraries) + " | ratio | target |", "|---" * (len(libraries) + 3) + "|"]
    for figure, found in results.items():
        medians = {name: statistics.median(values) if values else None for name, values in found.items()}
        ours, theirs = medians.get("xlafront"), medians.get("jax")
        ratio = ours / theirs if ours is not None and theirs else None
        cells = [shown(medians.get(name)) for name in libraries]
        lines.append(
            f"| {figure} ({units[figure]}) | "
            + " | ".join(cells)
            + f" | {'–' if ratio is None else f'{ratio:.2f}'} | {verdict(figure, ours, ratio)} |"
        )
    return lines


def ratios_to_jax(results: dict) -> dict[str, float]:
    """xlafront's median of each figure over jax's, where both have one."""
    ratios = {}
    for figure, found in results.items():
        if found.get("xlafront") and found.get("jax"):
            ours, theirs = (statistics.median(found[name]) for name in ("xlafront", "jax"))
            if ours and theirs:
                ratios[figure] = ours / theirs
    return ratios


def means(results: dict) -> list[str]:
    """Of the figures that begin alike: the geometric mean of their ratios to jax, and the highest of them."""
    lines = []
    for group, expected in MEANS.items():
        ratios = {f.partition(": ")[2]: ratio for f, ratio in ratios_to_jax(results).items() if f.startswith(group)}
        if ratios:
            mean = statistics.geometric_mean(ratios.values())
            highest = ", ".join(f"{name} {ratios[name]:.2f}" for name in sorted(ratios, key=ratios.__getitem__)[-3:][::-1])
            reached = "✓" if mean <= expected else "✗"
            lines.append(f"{group}: {len(ratios)} figures, geometric mean {mean:.2f} (≤ {expected:g} {reached}), "
                         f"highest {highest}")
    return lines


def by_case(results: dict, case_of: dict[str, str]) -> list[str]:
    """Rows of Markdown: the mean and the highest of the ratios of each case, and below them the ten highest of all."""
    ratios = ratios_to_jax(results)
    lines = ["| case | figures | geometric mean | highest ratio |", "|---|---|---|---|"]
    for case, mean in means_by_case(results, case_of).items():
        own = {figure: ratio for figure, ratio in ratios.items() if case_of[figure] == case}
        highest = max(own, key=own.__getitem__)
        lines.append(f"| `{case}` | {len(own)} | {mean:.2f} | {own[highest]:.2f} {highest} |")
    worst = sorted(ratios, key=ratios.__getitem__)[-10:][::-1]
    return [*lines, "", "Highest ratios: " + "; ".join(f"{figure} {ratios[figure]:.2f}" for figure in worst)]


def means_by_case(results: dict, case_of: dict[str, str]) -> dict[str, float]:
    """Return the geometric mean of the ratios to jax for each case."""
    found: dict[str, list[float]] = {}
    for figure, ratio in ratios_to_jax(results).items():
        found.setdefault(case_of[figure], []).append(ratio)
    return {case: statistics.geometric_mean(ratios) for case, ratios in found.items()}


def worse_than(baseline: str, results: dict, case_of: dict[str, str]) -> dict[str, str]:
    """Return a line for each case whose mean is more than 10 % above that in a file of a former run, for the same figures."""
    with open(baseline) as file:
        before = json.load(file)["ratios"]
    now = ratios_to_jax(results)
    lines = {}
    for case in dict.fromkeys(case_of.values()):
        changes = [now[figure] / before[figure] for figure in now if case_of[figure] == case and figure in before]
        if changes and (change := statistics.geometric_mean(changes)) > 1.1:
            lines[case] = f"{case}: {len(changes)} figures, {change:.2f} of the ratio to jax in {baseline}"
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--against",
        default="jax,numpy,torch",
        help="libraries to compare with (default: jax,numpy,torch, as installed)",
    )
    parser.add_argument("--only", help="cases to run, comma-separated: " + ", ".join(CASES))
    parser.add_argument("--rounds", type=int, default=3, help="processes of each library for each case (default 3)")
    parser.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="LIBRARY=PATH",
        help="the interpreter that has a library, when it is not this one",
    )
    parser.add_argument("--platform", default="cpu", help="where the libraries compute: cpu, cuda, rocm or tpu (default cpu)")
    parser.add_argument("--json", help="file for all figures")
    parser.add_argument("--baseline", metavar="FILE", help="figures of a former run: fail if the mean of a case is 10 %% worse")
    args = parser.parse_args()
    os.environ[PLATFORM] = args.platform
    chosen = args.only.split(",") if args.only else list(CASES)
    if unknown := [name for name in chosen if name not in CASES]:
        parser.error(f"no case is called {', '.join(unknown)}; the cases are {', '.join(CASES)}")
    pythons = dict(entry.split("=", 1) for entry in args.python)
    expected = ["xlafront", *[name for name in args.against.split(",") if name]]
    if "jax" in expected and expected[1:] == ["jax"]:
        expected += [name for name in ("numpy", "torch") if importlib.util.find_spec(name)]
    libraries = [name for name in dict.fromkeys(expected) if name in pythons or importlib.util.find_spec(name)]
    for name in set(expected) - set(libraries):
        print(f"{name} is not installed: left out", file=sys.stderr)
    results, units, case_of = measure(chosen, args.rounds, libraries, pythons)
    print(f"Python {platform.python_version()}, {os.cpu_count()} CPUs, medians of {args.rounds} processes each\n")
    print("\n".join([*by_case(results, case_of), ""]))
    print("\n".join(table(results, units, libraries)))
    print("\n".join(["", *means(results)]))
    if args.json:
        with open(args.json, "w") as file:
            ratios = {figure: round(ratio, 3) for figure, ratio in ratios_to_jax(results).items()}
            json.dump({"ratios": ratios, "results": results, "units": units}, file, indent=1)
    if args.baseline:
        worse = worse_than(args.baseline, results, case_of)
        for _ in range(2):  # a machine that does other work is slow for a while
            if worse:
                print("measured again:", *worse.values(), sep="\n", file=sys.stderr)
                again, _, case_of = measure(list(worse), args.rounds, libraries, pythons)
                worse = worse_than(args.baseline, again, case_of)
        if worse:
            raise SystemExit("\n".join(worse.values()))


if __name__ == "__main__":
    main()
