"""Five programs that import jax, unmodified: the time to the first step, and of a step, with xlafront and with jax.

    python -m benchmarks.real_programs [--rounds 3] [--python jax=PATH] [--python xlafront=PATH]

Each runs in a process of its own: with xlafront, whose cache of compiled programs is on by default, and with jax without its
cache (as it is by default) and with it. The first process of each has an empty cache, the second one finds what the first left.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
NAMES = {"optax_mlp": "Optax, MLP", "flax_cnn": "Flax, CNN", "equinox_mlp": "Equinox, MLP", "numpyro_nuts": "NumPyro, NUTS",
         "pmap_four_devices": "pmap, 4 devices"}
CONFIGURATIONS = ("xlafront", "jax", "jax with its cache")


def run(program: str, configuration: str, python: str, cache: str) -> dict[str, float]:
    """Return the figures of one process."""
    library = configuration.partition(" ")[0]
    variables = {"XLAFRONT_CACHE_DIR": cache, "JAX_PLATFORMS": "cpu"}
    if configuration == "jax with its cache":
        variables |= {"JAX_COMPILATION_CACHE_DIR": cache, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
                      "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}
    command = [python, *(["-m", "xlafront", "run"] if library == "xlafront" else []), str(PROGRAMS / f"{program}.py")]
    started = time.clock_gettime(time.CLOCK_MONOTONIC)
    done = subprocess.run([*command, str(started)], env=os.environ | variables, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("TIMES ")]
    if not lines:
        sys.exit(f"{program} with {configuration} failed:\n{done.stderr}")
    return json.loads(lines[0].removeprefix("TIMES "))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_programs", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="processes of each kind (default 3)")
    parser.add_argument("--python", action="append", default=[], metavar="LIBRARY=PATH", help="the interpreter with a library")
    args = parser.parse_args()
    pythons = {"jax": sys.executable, "xlafront": sys.executable} | dict(entry.split("=", 1) for entry in args.python)
    print("| to the first step, s (second process) | xlafront | jax | jax with its cache | a later step, ms: xlafront | jax |")
    print("|---|---|---|---|---|---|")
    for program, title in NAMES.items():
        first: dict[str, list[float]] = {c: [] for c in CONFIGURATIONS}
        second: dict[str, list[float]] = {c: [] for c in CONFIGURATIONS}
        steps: dict[str, list[float]] = {c: [] for c in CONFIGURATIONS}
        values = []
        for _ in range(args.rounds):
            for configuration in CONFIGURATIONS:
                with tempfile.TemporaryDirectory() as cache:
                    for times in (first, second):
                        found = run(program, configuration, pythons[configuration.partition(" ")[0]], cache)
                        times[configuration].append(found["first"])
                        steps[configuration].append(found["step"] * 1e3)
                        values.append(found["value"])
        if max(values) - min(values) > found["tolerance"] * max(1.0, abs(values[0])):
            sys.exit(f"{program}: the results differ, {sorted(set(values))}")
        cells = [f"{statistics.median(first[c]):.2f} ({statistics.median(second[c]):.2f})" for c in CONFIGURATIONS]
        cells += [f"{statistics.median(steps[c]):.2f}" for c in CONFIGURATIONS[:2]]
        print(f"| {title} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
