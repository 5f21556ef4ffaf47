# Written by `python -m tests.stubs`.
from xlafront.solvers.krylov import bicgstab as bicgstab
from xlafront.solvers.krylov import cg as cg
from xlafront.solvers.krylov import gmres as gmres

