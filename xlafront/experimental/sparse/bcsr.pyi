# Written by `python -m tests.stubs`.
from xlafront.core.primitive import Primitive as _Primitive
from xlafront.sparse.bcsr import BCSR as BCSR
from xlafront.sparse.bcsr import BCSRProperties as BCSRProperties
from xlafront.sparse.bcsr import bcsr_broadcast_in_dim as bcsr_broadcast_in_dim
from xlafront.sparse.bcsr import bcsr_concatenate as bcsr_concatenate
from xlafront.sparse.bcsr import bcsr_dot_general as bcsr_dot_general
from xlafront.sparse.bcsr import bcsr_extract as bcsr_extract
from xlafront.sparse.bcsr import bcsr_fromdense as bcsr_fromdense
from xlafront.sparse.bcsr import bcsr_sum_duplicates as bcsr_sum_duplicates
from xlafront.sparse.bcsr import bcsr_todense as bcsr_todense
from xlafront.sparse.bcsr import layout_of as _source__validate_bcsr
from xlafront.sparse.buffers import _coordinates as _source__bcsr_to_bcoo

_bcsr_to_bcoo = _source__bcsr_to_bcoo
_validate_bcsr = _source__validate_bcsr
bcsr_dot_general_p: _Primitive
bcsr_extract_p: _Primitive
bcsr_fromdense_p: _Primitive
bcsr_todense_p: _Primitive
