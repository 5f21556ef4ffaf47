# Written by `python -m tests.stubs`.
from xlafront.core.primitive import Primitive as _Primitive
from xlafront.sparse.base import JAXSparse as JAXSparse
from xlafront.sparse.bcoo import BCOO as BCOO
from xlafront.sparse.bcsr import BCSR as BCSR
from xlafront.sparse.creation import empty as empty
from xlafront.sparse.creation import eye as eye
from xlafront.sparse.creation import todense as todense
from xlafront.sparse.matrices import COO as COO
from xlafront.sparse.matrices import CSC as CSC
from xlafront.sparse.matrices import CSR as CSR

todense_p: _Primitive
