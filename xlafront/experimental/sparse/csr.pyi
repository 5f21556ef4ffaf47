# Written by `python -m tests.stubs`.
from xlafront.core.primitive import Primitive as _Primitive
from xlafront.sparse.matrices import CSC as CSC
from xlafront.sparse.matrices import CSR as CSR
from xlafront.sparse.matrices import csr_fromdense as csr_fromdense
from xlafront.sparse.matrices import csr_matmat as csr_matmat
from xlafront.sparse.matrices import csr_matvec as csr_matvec
from xlafront.sparse.matrices import csr_todense as csr_todense

csr_fromdense_p: _Primitive
csr_matmat_p: _Primitive
csr_matvec_p: _Primitive
csr_todense_p: _Primitive
