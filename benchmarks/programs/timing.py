"""Times of a program: from its start to the first step, and the median of later steps."""

import json
import statistics
import sys
import time


class Timer:
    """Created after the imports of the program, whose time is counted: Python's start is not."""

    def __init__(self):
        self.ends = []

    def step(self, value):
        """Wait until a step is done, and note the time."""
        getattr(value, "block_until_ready", lambda: None)()
        self.ends.append(time.perf_counter())

    def report(self, value, tolerance=1e-3):
        started = float(sys.argv[1])  # of the process, by the clock that counts since the machine's start
        first = time.clock_gettime(time.CLOCK_MONOTONIC) - (time.perf_counter() - self.ends[0]) - started
        steps = [b - a for a, b in zip(self.ends, self.ends[1:])]
        print("TIMES " + json.dumps({"first": first, "step": statistics.median(steps), "value": float(value),
                                   "tolerance": tolerance}))
