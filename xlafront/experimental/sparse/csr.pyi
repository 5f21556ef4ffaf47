# Written by `python -m tests.stubs`.
from xlafront.sparse.matrices import CSC as CSC
from xlafront.sparse.matrices import CSR as CSR
from xlafront.sparse.matrices import csr_fromdense as csr_fromdense
from xlafront.sparse.matrices import csr_matmat as csr_matmat
from xlafront.sparse.matrices import csr_matvec as csr_matvec
from xlafront.sparse.matrices import csr_todense as csr_todense
import typing as _typing

csr_fromdense_p: _typing.Any
csr_matmat_p: _typing.Any
csr_matvec_p: _typing.Any
csr_todense_p: _typing.Any
