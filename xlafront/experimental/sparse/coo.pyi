# Written by `python -m tests.stubs`.
from xlafront.sparse.matrices import COO as COO
from xlafront.sparse.matrices import COOInfo as COOInfo
from xlafront.sparse.matrices import coo_fromdense as coo_fromdense
from xlafront.sparse.matrices import coo_matmat as coo_matmat
from xlafront.sparse.matrices import coo_matvec as coo_matvec
from xlafront.sparse.matrices import coo_todense as coo_todense
import typing as _typing

coo_fromdense_p: _typing.Any
coo_matmat_p: _typing.Any
coo_matvec_p: _typing.Any
coo_todense_p: _typing.Any
