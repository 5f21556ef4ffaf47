# Written by `python -m tests.stubs`.
from xlafront.solvers.minimization import OptimizeResults as OptimizeResults
from xlafront.solvers.minimization import minimize as minimize

