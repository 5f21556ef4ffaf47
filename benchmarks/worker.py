"""One case with one library, in this process: prints the figures as JSON."""

from __future__ import annotations

import json
import os
import sys

from benchmarks.libraries import Library
from benchmarks.registry import ONE_CORE


def main() -> None:
    name, library = sys.argv[1:]
    if ONE_CORE in os.environ:  # before the libraries start their threads; the last core, as the first is the busiest
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

    from benchmarks.all_cases import CASES  # imports NumPy, which starts threads too

    print("FIGURES " + json.dumps(CASES[name](Library(library))))


if __name__ == "__main__":
    main()
