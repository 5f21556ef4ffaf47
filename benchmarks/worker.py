"""One case with one library, in this process: prints the figures as JSON."""

from __future__ import annotations

import json
import os
import sys


def main() -> None:
    name, library = sys.argv[1:]
    from benchmarks.libraries import Library
    from benchmarks.measure import ONE_CORE, all_cases

    if ONE_CORE in os.environ:  # before the library starts its threads; the last core, as the first is the busiest
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

    print("FIGURES " + json.dumps(all_cases()[name](Library(library))))


if __name__ == "__main__":
    main()
