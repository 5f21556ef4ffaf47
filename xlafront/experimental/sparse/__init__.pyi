# Written by `python -m tests.stubs`.
from xlafront.core.primitive import Primitive as _Primitive
from xlafront.experimental.sparse import ad as ad
from xlafront.experimental.sparse import api as api
from xlafront.experimental.sparse import bcoo as bcoo
from xlafront.experimental.sparse import bcsr as bcsr
from xlafront.experimental.sparse import coo as coo
from xlafront.experimental.sparse import csr as csr
from xlafront.experimental.sparse import linalg as linalg
from xlafront.experimental.sparse import random as random
from xlafront.experimental.sparse import transform as transform
from xlafront.experimental.sparse import util as util
from xlafront.experimental.sparse.bcoo import bcoo_broadcast_in_dim as bcoo_broadcast_in_dim
from xlafront.experimental.sparse.bcoo import bcoo_concatenate as bcoo_concatenate
from xlafront.experimental.sparse.bcoo import bcoo_reduce_sum as bcoo_reduce_sum
from xlafront.experimental.sparse.bcoo import bcoo_reshape as bcoo_reshape
from xlafront.experimental.sparse.bcoo import bcoo_rev as bcoo_rev
from xlafront.experimental.sparse.bcoo import bcoo_slice as bcoo_slice
from xlafront.experimental.sparse.bcoo import bcoo_squeeze as bcoo_squeeze
from xlafront.sparse.base import CuSparseEfficiencyWarning as CuSparseEfficiencyWarning
from xlafront.sparse.base import JAXSparse as JAXSparse
from xlafront.sparse.base import SparseEfficiencyError as SparseEfficiencyError
from xlafront.sparse.base import SparseEfficiencyWarning as SparseEfficiencyWarning
from xlafront.sparse.bcoo import BCOO as BCOO
from xlafront.sparse.bcoo_functions import bcoo_dynamic_slice as bcoo_dynamic_slice
from xlafront.sparse.bcoo_functions import bcoo_extract as bcoo_extract
from xlafront.sparse.bcoo_functions import bcoo_fromdense as bcoo_fromdense
from xlafront.sparse.bcoo_functions import bcoo_gather as bcoo_gather
from xlafront.sparse.bcoo_functions import bcoo_sort_indices as bcoo_sort_indices
from xlafront.sparse.bcoo_functions import bcoo_sum_duplicates as bcoo_sum_duplicates
from xlafront.sparse.bcoo_functions import bcoo_todense as bcoo_todense
from xlafront.sparse.bcoo_functions import bcoo_transpose as bcoo_transpose
from xlafront.sparse.bcoo_functions import bcoo_update_layout as bcoo_update_layout
from xlafront.sparse.bcoo_products import bcoo_conv_general_dilated as bcoo_conv_general_dilated
from xlafront.sparse.bcoo_products import bcoo_dot_general as bcoo_dot_general
from xlafront.sparse.bcoo_products import bcoo_dot_general_sampled as bcoo_dot_general_sampled
from xlafront.sparse.bcoo_products import bcoo_multiply_dense as bcoo_multiply_dense
from xlafront.sparse.bcoo_products import bcoo_multiply_sparse as bcoo_multiply_sparse
from xlafront.sparse.bcsr import BCSR as BCSR
from xlafront.sparse.bcsr import bcsr_broadcast_in_dim as bcsr_broadcast_in_dim
from xlafront.sparse.bcsr import bcsr_concatenate as bcsr_concatenate
from xlafront.sparse.bcsr import bcsr_dot_general as bcsr_dot_general
from xlafront.sparse.bcsr import bcsr_extract as bcsr_extract
from xlafront.sparse.bcsr import bcsr_fromdense as bcsr_fromdense
from xlafront.sparse.bcsr import bcsr_sum_duplicates as bcsr_sum_duplicates
from xlafront.sparse.bcsr import bcsr_todense as bcsr_todense
from xlafront.sparse.creation import empty as empty
from xlafront.sparse.creation import eye as eye
from xlafront.sparse.creation import random_bcoo as random_bcoo
from xlafront.sparse.creation import todense as todense
from xlafront.sparse.derivatives import grad as grad
from xlafront.sparse.derivatives import jacfwd as jacfwd
from xlafront.sparse.derivatives import jacrev as _source_jacobian
from xlafront.sparse.derivatives import jacrev as jacrev
from xlafront.sparse.derivatives import value_and_grad as value_and_grad
from xlafront.sparse.matrices import COO as COO
from xlafront.sparse.matrices import CSC as CSC
from xlafront.sparse.matrices import CSR as CSR
from xlafront.sparse.matrices import coo_fromdense as coo_fromdense
from xlafront.sparse.matrices import coo_matmat as coo_matmat
from xlafront.sparse.matrices import coo_matvec as coo_matvec
from xlafront.sparse.matrices import coo_todense as coo_todense
from xlafront.sparse.matrices import csr_fromdense as csr_fromdense
from xlafront.sparse.matrices import csr_matmat as csr_matmat
from xlafront.sparse.matrices import csr_matvec as csr_matvec
from xlafront.sparse.matrices import csr_todense as csr_todense
from xlafront.sparse.sparsify import SparseTracer as SparseTracer
from xlafront.sparse.sparsify import sparsify as sparsify

bcoo_dot_general_p: _Primitive
bcoo_dot_general_sampled_p: _Primitive
bcoo_extract_p: _Primitive
bcoo_fromdense_p: _Primitive
bcoo_sort_indices_p: _Primitive
bcoo_spdot_general_p: _Primitive
bcoo_sum_duplicates_p: _Primitive
bcoo_todense_p: _Primitive
bcoo_transpose_p: _Primitive
bcsr_dot_general_p: _Primitive
bcsr_extract_p: _Primitive
bcsr_fromdense_p: _Primitive
bcsr_todense_p: _Primitive
coo_fromdense_p: _Primitive
coo_matmat_p: _Primitive
coo_matvec_p: _Primitive
coo_todense_p: _Primitive
csr_fromdense_p: _Primitive
csr_matmat_p: _Primitive
csr_matvec_p: _Primitive
csr_todense_p: _Primitive
jacobian = _source_jacobian
todense_p: _Primitive
