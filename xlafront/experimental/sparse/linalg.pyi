# Written by `python -m tests.stubs`.
from xlafront.core.primitive import Primitive as _Primitive
from xlafront.sparse.linear_algebra import lobpcg_standard as lobpcg_standard
from xlafront.sparse.linear_algebra import spsolve as spsolve

spsolve_p: _Primitive
