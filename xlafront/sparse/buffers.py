"""Operations on the component arrays of sparse arrays, under the names by which JAX's tests use them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront import numpy as xnp
from xlafront.api.vmap import vmap
from xlafront.core.typing import Array, DTypeLike
from xlafront.sparse import bcoo, bcoo_functions as functions, bcoo_products as products, bcsr
from xlafront.sparse.base import SparseInfo
from xlafront.sparse.bcoo import BCOO
from xlafront.sparse.operations import map_batches


def _todense(data: Array, indices: Array, *, spinfo: SparseInfo) -> Array:
    return bcoo.todense_p.bind(xnp.asarray(data), xnp.asarray(indices), spinfo=spinfo)


def _fromdense(mat: Array, *, nse: int, n_batch: int = 0, n_dense: int = 0, index_dtype: DTypeLike = np.int32) -> tuple:
    return tuple(bcoo.fromdense_p.bind(xnp.asarray(mat), nse=nse, n_batch=n_batch, n_dense=n_dense,
                                       index_dtype=np.dtype(index_dtype)))


def _extract(indices: Array, arr: Array, *, assume_unique: bool = True) -> Array:
    return bcoo.extract_p.bind(xnp.asarray(indices), xnp.asarray(arr), assume_unique=assume_unique)


def _transpose(data: Array, indices: Array, *, permutation: Sequence[int], spinfo: SparseInfo) -> tuple:
    return BCOO((data, indices), shape=spinfo.shape).transpose(permutation)._bufs


def _sum_duplicates(data: Array, indices: Array, *, spinfo: SparseInfo, nse: int | None) -> tuple:
    return BCOO((data, indices), shape=spinfo.shape).sum_duplicates(nse, remove_zeros=False)._bufs


def _dot_general(lhs_data: Array, lhs_indices: Array, rhs: Array, *, dimension_numbers: Any, preferred_element_type: Any = None,
                 lhs_spinfo: SparseInfo) -> BCOO | Array:
    return products.bcoo_dot_general(BCOO((lhs_data, lhs_indices), shape=lhs_spinfo.shape), rhs,
                                     dimension_numbers=dimension_numbers, preferred_element_type=preferred_element_type)


def _rdot_general(lhs: Array, rhs_data: Array, rhs_indices: Array, *, dimension_numbers: Any,
                  preferred_element_type: Any = None, rhs_spinfo: SparseInfo) -> BCOO | Array:
    return products.bcoo_dot_general(lhs, BCOO((rhs_data, rhs_indices), shape=rhs_spinfo.shape),
                                     dimension_numbers=dimension_numbers, preferred_element_type=preferred_element_type)


def _multiply_dense(data: Array, indices: Array, v: Array, *, spinfo: SparseInfo) -> Array:
    return products.bcoo_multiply_dense(BCOO((data, indices), shape=spinfo.shape), v)


def _reduce_sum(data: Array, indices: Array, *, spinfo: SparseInfo, axes: Sequence[int]) -> tuple:
    result = functions.bcoo_reduce_sum(BCOO((data, indices), shape=spinfo.shape), axes=axes)
    return (*result._bufs, result.shape)


def _broadcast_in_dim(data: Array, indices: Array, *, spinfo: SparseInfo, shape: Sequence[int],
                      broadcast_dimensions: Sequence[int]) -> tuple:
    return functions.bcoo_broadcast_in_dim(BCOO((data, indices), shape=spinfo.shape), shape=shape,
                                           broadcast_dimensions=broadcast_dimensions)._bufs


def _coordinates(indices: Array, indptr: Array, *, shape: Sequence[int]) -> Array:
    return bcsr.coordinates(indices, indptr)


def _rows_and_columns(indices: Array, indptr: Array) -> tuple[Array, Array]:
    return bcsr.rows_of(indptr, indices.size).astype(indices.dtype), indices


def _nfold_vmap(fun: Callable, N: int, *, broadcasted: bool = True, in_axes: Any = 0) -> Callable:
    if broadcasted and in_axes == 0:
        return map_batches(fun, N)
    for _ in range(N):
        fun = vmap(fun, in_axes)
    return fun


PUBLIC: dict[str, Callable] = {
    "_bcoo_todense": _todense, "_bcoo_fromdense": _fromdense, "_bcoo_extract": _extract, "_bcoo_transpose": _transpose,
    "_bcoo_sum_duplicates": _sum_duplicates, "_bcoo_dot_general": _dot_general, "_bcoo_rdot_general": _rdot_general,
    "_bcoo_multiply_dense": _multiply_dense, "_bcoo_reduce_sum": _reduce_sum, "_bcoo_broadcast_in_dim": _broadcast_in_dim,
    "_validate_bcoo": bcoo.layout_of, "_validate_bcoo_indices": bcoo.layout_of_indices, "_validate_bcsr": bcsr.layout_of,
    "_bcsr_to_bcoo": _coordinates, "_csr_to_coo": _rows_and_columns, "_count_stored_elements": bcoo.stored_elements,
    "nfold_vmap": _nfold_vmap,
}
