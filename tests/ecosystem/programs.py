"""Runs the programs of one module and prints what they give: `python -m xlafront run tests/ecosystem/programs.py with_optax`,
and with real jax `python tests/ecosystem/programs.py with_optax`."""

import importlib
import sys
import time
import traceback

import numpy as np

if __name__ == "__main__":
    module = importlib.import_module(sys.argv[1])
    failed = False
    for program in module.PROGRAMS:
        if len(sys.argv) > 2 and program.__name__ not in sys.argv[2:]:
            continue
        started = time.perf_counter()
        try:
            print(program.__name__, *[f"{x:.6g}" for x in np.ravel(np.asarray(program(), np.float64))], flush=True)
        except Exception:
            traceback.print_exc()
            failed = True
        print(f"{program.__name__}: {time.perf_counter() - started:.1f} s", file=sys.stderr)
    sys.exit(failed)
