"""One case with one library, in this process: prints the figures as JSON."""

from __future__ import annotations

import json
import sys


def main() -> None:
    name, library = sys.argv[1:]
    from benchmarks.libraries import Library
    from benchmarks.measure import all_cases

    print("FIGURES " + json.dumps(all_cases()[name](Library(library))))


if __name__ == "__main__":
    main()
