# Written by `python -m tests.stubs`.
from xlafront.core.primitive import Primitive as _Primitive
from xlafront.sparse.matrices import COO as COO
from xlafront.sparse.matrices import COOInfo as COOInfo
from xlafront.sparse.matrices import coo_fromdense as coo_fromdense
from xlafront.sparse.matrices import coo_matmat as coo_matmat
from xlafront.sparse.matrices import coo_matvec as coo_matvec
from xlafront.sparse.matrices import coo_todense as coo_todense

coo_fromdense_p: _Primitive
coo_matmat_p: _Primitive
coo_matvec_p: _Primitive
coo_todense_p: _Primitive
