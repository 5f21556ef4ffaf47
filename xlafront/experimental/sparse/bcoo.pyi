# Written by `python -m tests.stubs`.
from xlafront.core.primitive import Primitive as _Primitive
from xlafront.sparse.bcoo import BCOO as BCOO
from xlafront.sparse.bcoo import BCOO as _BCOO
from xlafront.sparse.bcoo import BCOOProperties as BCOOProperties
from xlafront.sparse.bcoo import layout_of as _source__validate_bcoo
from xlafront.sparse.bcoo import layout_of_indices as _source__validate_bcoo_indices
from xlafront.sparse.bcoo_functions import bcoo_dynamic_slice as bcoo_dynamic_slice
from xlafront.sparse.bcoo_functions import bcoo_eliminate_zeros as bcoo_eliminate_zeros
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
from xlafront.sparse.buffers import _broadcast_in_dim as _source__bcoo_broadcast_in_dim
from xlafront.sparse.buffers import _dot_general as _source__bcoo_dot_general
from xlafront.sparse.buffers import _extract as _source__bcoo_extract
from xlafront.sparse.buffers import _fromdense as _source__bcoo_fromdense
from xlafront.sparse.buffers import _multiply_dense as _source__bcoo_multiply_dense
from xlafront.sparse.buffers import _rdot_general as _source__bcoo_rdot_general
from xlafront.sparse.buffers import _reduce_sum as _source__bcoo_reduce_sum
from xlafront.sparse.buffers import _sum_duplicates as _source__bcoo_sum_duplicates
from xlafront.sparse.buffers import _todense as _source__bcoo_todense
from xlafront.sparse.buffers import _transpose as _source__bcoo_transpose
import builtins as _builtins
import typing as _typing

_bcoo_broadcast_in_dim = _source__bcoo_broadcast_in_dim
_bcoo_dot_general = _source__bcoo_dot_general
_bcoo_extract = _source__bcoo_extract
_bcoo_fromdense = _source__bcoo_fromdense
_bcoo_multiply_dense = _source__bcoo_multiply_dense
_bcoo_rdot_general = _source__bcoo_rdot_general
_bcoo_reduce_sum = _source__bcoo_reduce_sum
_bcoo_sum_duplicates = _source__bcoo_sum_duplicates
_bcoo_todense = _source__bcoo_todense
_bcoo_transpose = _source__bcoo_transpose
_validate_bcoo = _source__validate_bcoo
_validate_bcoo_indices = _source__validate_bcoo_indices
def bcoo_broadcast_in_dim(mat: _BCOO, *, shape: _typing.Sequence[_builtins.int], broadcast_dimensions: _typing.Sequence[_builtins.int], sharding: _typing.Any = None) -> _BCOO:
    """Add dimensions to an array, as `lax.broadcast_in_dim` does for dense arrays.

    New dimensions before the sparse ones are batch dimensions. New dimensions among and after the sparse ones must have size 1,
    except among dense dimensions.

    Args:
        mat: BCOO array.
        shape: Shape of the result.
        broadcast_dimensions: Dimension of the result for each dimension of `mat`.
        sharding: No effect, as in JAX: data and indices have their own shardings.

    Returns:
        BCOO array.

    Example:
        >>> sparse.bcoo_broadcast_in_dim(sparse.eye(2), shape=(3, 2, 2), broadcast_dimensions=(1, 2)).n_batch
        1
    """
def bcoo_concatenate(operands: _typing.Sequence[_BCOO], *, dimension: _builtins.int) -> _BCOO:
    """Concatenate arrays along a batch or sparse dimension.

    Args:
        operands: BCOO arrays with the same layout.
        dimension: Dimension to concatenate along.

    Returns:
        BCOO array.

    Example:
        >>> sparse.bcoo_concatenate([sparse.eye(2), sparse.eye(2)], dimension=0).shape
        (4, 2)
    """
bcoo_dot_general_p: _Primitive
bcoo_dot_general_sampled_p: _Primitive
bcoo_extract_p: _Primitive
bcoo_fromdense_p: _Primitive
def bcoo_reduce_sum(mat: _BCOO, *, axes: _typing.Sequence[_builtins.int]) -> _BCOO:
    """Sum an array along dimensions.

    Args:
        mat: BCOO array.
        axes: Dimensions to sum over.

    Returns:
        BCOO array.

    Example:
        >>> sparse.bcoo_reduce_sum(sparse.eye(2), axes=(0,)).todense().tolist()
        [1.0, 1.0]
    """
def bcoo_reshape(mat: _BCOO, *, new_sizes: _typing.Sequence[_builtins.int], dimensions: _typing.Sequence[_builtins.int] | None = None, sharding: _typing.Any = None) -> _BCOO:
    """Reshape an array in row-major order.

    Batch, sparse and dense dimensions are reshaped separately.

    Args:
        mat: BCOO array.
        new_sizes: New shape.
        dimensions: Permutation of the dimensions before the reshape.
        sharding: No effect, as in JAX: data and indices have their own shardings.

    Returns:
        BCOO array.

    Example:
        >>> sparse.bcoo_reshape(sparse.eye(2), new_sizes=(4,)).todense().tolist()
        [1.0, 0.0, 0.0, 1.0]
    """
def bcoo_rev(operand: _BCOO, dimensions: _typing.Sequence[_builtins.int]) -> _BCOO:
    """Reverse the order of elements along dimensions.

    Args:
        operand: BCOO array.
        dimensions: Dimensions to reverse.

    Returns:
        BCOO array.

    Example:
        >>> sparse.bcoo_rev(sparse.eye(2), (0,)).todense().tolist()
        [[0.0, 1.0], [1.0, 0.0]]
    """
def bcoo_slice(mat: _BCOO, *, start_indices: _typing.Sequence[_builtins.int], limit_indices: _typing.Sequence[_builtins.int], strides: _typing.Sequence[_builtins.int] | None = None) -> _BCOO:
    """Slice an array between static bounds, as `lax.slice` does for dense arrays.

    Args:
        mat: BCOO array.
        start_indices: First index of each dimension.
        limit_indices: End index of each dimension, excluded.
        strides: Step of each dimension. Default: 1.

    Returns:
        BCOO array.

    Example:
        >>> sparse.bcoo_slice(sparse.eye(3), start_indices=(1, 0), limit_indices=(3, 2)).todense().tolist()
        [[0.0, 1.0], [0.0, 0.0]]
    """
bcoo_sort_indices_p: _Primitive
bcoo_spdot_general_p: _Primitive
def bcoo_squeeze(arr: _BCOO, *, dimensions: _typing.Sequence[_builtins.int]) -> _BCOO:
    """Remove dimensions of size 1.

    Args:
        arr: BCOO array.
        dimensions: Dimensions to remove.

    Returns:
        BCOO array.

    Example:
        >>> sparse.bcoo_squeeze(sparse.eye(1, 3), dimensions=(0,)).shape
        (3,)
    """
bcoo_sum_duplicates_p: _Primitive
bcoo_todense_p: _Primitive
bcoo_transpose_p: _Primitive
