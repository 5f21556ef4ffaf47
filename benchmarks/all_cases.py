"""Import every module of cases, which fills the registry in the order in which the cases run."""

from benchmarks import cases, ecosystem, first_runs, functions, gradients, many, pallas, sparse, steps  # noqa: F401
from benchmarks.registry import CASES as CASES
