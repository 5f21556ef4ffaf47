# Written by `python -m tests.stubs`.
from xlafront.sparse.derivatives import grad as grad
from xlafront.sparse.derivatives import jacfwd as jacfwd
from xlafront.sparse.derivatives import jacrev as _source_jacobian
from xlafront.sparse.derivatives import jacrev as jacrev
from xlafront.sparse.derivatives import value_and_grad as value_and_grad

jacobian = _source_jacobian
