"""BCOO arrays, and the operations on their two component arrays, `data` and `indices`.

For an array of shape `(*batch, *sparse, *dense)`, `indices[*b, k]` is a position in the sparse dimensions and `data[*b, k]` the
dense block there. Batch dimensions of either may be 1 where those of the array are not. Out-of-bounds positions are padding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from xlafront import lax, numpy as xnp
from xlafront.api.vmap import vmap
from xlafront.core import errors, tracing, tree
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.sparse import positions
from xlafront.sparse.base import JAXSparse, SparseInfo, check_index_dtype, shape_of
from xlafront.sparse.operations import call_jitted, fromdense_jvp, linear_primitive, map_batches
from xlafront.symbolic.dimensions import common_shape, is_symbolic


class BCOOProperties(NamedTuple):
    """Layout of a BCOO array: the number of dimensions of each kind, and the number of stored elements of each batch."""

    n_batch: int
    n_sparse: int
    n_dense: int
    nse: int


def layout_of_indices(indices: Any, shape: Sequence[int]) -> BCOOProperties:
    """Return the layout given by an array of indices for an array of this shape, or raise if they do not match."""
    check_index_dtype("the indices of a BCOO array", indices)
    if len(np.shape(indices)) < 2:
        raise ValueError(f"the indices of a BCOO array have dimensions (*batch, nse, n_sparse), got shape {np.shape(indices)}")
    *batch, nse, n_sparse = indices.shape
    n_batch, n_dense = len(batch), len(shape) - len(batch) - n_sparse
    if n_dense < 0:
        raise AssertionError(f"indices of shape {indices.shape} belong to an array of at least {n_batch + n_sparse} "
                             f"dimensions, not to one of shape {tuple(shape)}")
    if any(n not in (1, size) for n, size in zip(batch, shape)):
        raise ValueError(f"the indices' batch dimensions {tuple(batch)} do not match those of shape {tuple(shape)}: each "
                         "must be the same or 1")
    return BCOOProperties(n_batch, n_sparse, n_dense, nse)


def layout_of(data: Any, indices: Any, shape: Sequence[int]) -> BCOOProperties:
    """Return the layout of a BCOO array of these components, or raise if they do not match."""
    layout = layout_of_indices(indices, shape)
    n_batch, n_sparse, n_dense, nse = layout
    data_shape = (*shape[:n_batch], nse, *shape[n_batch + n_sparse:])
    fits = len(data.shape) == len(data_shape) and data.shape[n_batch:] == data_shape[n_batch:] and all(
        n in (1, size) for n, size in zip(data.shape[:n_batch], data_shape))
    if not fits:
        raise ValueError(f"the data of a BCOO array of shape {tuple(shape)} with nse={nse}, n_batch={n_batch}, "
                         f"n_dense={n_dense} has shape {data_shape} (batch dimensions may be 1), got {tuple(data.shape)}")
    return layout


# Primitives


def _todense(data, indices, *, spinfo):
    n_batch = indices.ndim - 2
    result = map_batches(lambda d, i: positions.add_at(
        (*spinfo.shape[n_batch:n_batch + i.shape[-1]], *d.shape[1:]), i, d), n_batch)(data, indices)
    return xnp.broadcast_to(result, spinfo.shape)


def _fromdense(mat, *, nse, n_batch, n_dense, index_dtype):
    def convert(block):
        n_sparse = block.ndim - n_dense
        mask = xnp.any(block != 0, tuple(range(n_sparse, block.ndim)))
        if n_sparse == 0:
            indices = xnp.zeros((nse, 0), index_dtype)
            return positions.zero_unless((xnp.arange(nse) < 1) & mask, xnp.broadcast_to(block, (nse, *block.shape))), indices
        nonzero = xnp.nonzero(mask, size=nse, fill_value=mask.shape)
        indices = xnp.stack([i.astype(index_dtype) for i in nonzero], -1)
        return positions.take_at(block, indices), indices

    return map_batches(convert, n_batch)(mat)


def _extract(indices, arr, *, assume_unique):
    def extract(index, block):
        values = positions.take_at(block, index)
        if assume_unique or not len(index):
            return values
        row_numbers = xnp.arange(len(index), dtype=np.int32)
        if not index.shape[-1]:
            return positions.zero_unless(row_numbers == 0, values)
        shape = block.shape[:index.shape[-1]]
        dimensions = tuple(range(len(shape)))
        first = lax.scatter_min(xnp.full(shape, len(index), np.int32), index, row_numbers, lax.ScatterDimensionNumbers(
            (), dimensions, dimensions), mode="drop")
        return positions.zero_unless(positions.take_at(first, index) == row_numbers, values)

    return map_batches(extract, indices.ndim - 2)(indices, arr)


def _transpose(data, indices, *, permutation, spinfo):
    n_batch, n_sparse, _, _ = layout_of(data, indices, spinfo.shape)
    batch, sparse = permutation[:n_batch], [p - n_batch for p in permutation[n_batch:n_batch + n_sparse]]
    dense = [p - n_sparse + 1 for p in permutation[n_batch + n_sparse:]]
    return (data.transpose(*batch, n_batch, *dense),
            indices.transpose(*batch, n_batch, n_batch + 1)[..., np.array(sparse, int)])


def _sort(data, indices, *, spinfo):
    n_batch, n_sparse, _, _ = layout_of(data, indices, spinfo.shape)
    shape = spinfo.shape[n_batch:n_batch + n_sparse]
    return map_batches(lambda d, i: positions.sort_rows(d, i, shape), n_batch)(data, indices)


def _sum_duplicates(data, indices, *, spinfo, nse):
    n_batch, n_sparse, _, _ = layout_of(data, indices, spinfo.shape)
    shape = spinfo.shape[n_batch:n_batch + n_sparse]
    return map_batches(lambda d, i: positions.sum_groups(d, i, shape, nse), n_batch)(data, indices)


def _dot_general(data, indices, rhs, *, dimension_numbers, preferred_element_type, lhs_spinfo, scatter_mode="drop"):
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    shape = lhs_spinfo.shape
    n_batch, n_sparse, _, _ = layout_of(data, indices, shape)
    dtype = xnp.promote_types(data.dtype, rhs.dtype)
    data, rhs = data.astype(dtype), rhs.astype(dtype)
    # Pair each batch and contracted dimension of lhs with its dimension of rhs.
    rhs_dim_of = dict(zip((*lhs_batch, *lhs_contract), (*rhs_batch, *rhs_contract)))
    sparse = range(n_batch, n_batch + n_sparse)
    contracted = [d - n_batch for d in sparse if d in rhs_dim_of]
    free = [d - n_batch for d in sparse if d not in rhs_dim_of]
    contracted_rhs = [rhs_dim_of[d + n_batch] for d in contracted]
    axes, remaining = [], list(range(rhs.ndim))
    for d in range(n_batch):
        axes.append(remaining.index(rhs_dim_of[d]) if d in rhs_dim_of else None)
        if d in rhs_dim_of:
            remaining.remove(rhs_dim_of[d])
    order = [remaining.index(d) for d in (*contracted_rhs, *[d for d in remaining if d not in contracted_rhs])]
    free_shape = tuple(shape[n_batch + d] for d in free)

    def product(d, i, r):
        r = r.transpose(order)
        columns, rows = i[:, np.array(contracted, int)], i[:, np.array(free, int)]
        if not contracted:
            result = d.reshape(d.shape + (1,) * r.ndim) * r
        else:
            if not free:
                return lax.dot_general(d, positions.take_at(r, columns), (((0,), (0,)), ((), ())))
            # The scatter drops padding rows. Other out-of-bounds elements get value zero, which is cheaper than zeroing the
            # rows that they read.
            rows_read = positions.take_at(r, columns, "clip")
            is_valid = positions.in_bounds(columns, r.shape[:len(contracted)])
            if scatter_mode == "clip":
                is_valid &= positions.in_bounds(rows, free_shape)
            d = positions.zero_unless(is_valid, d)
            result = d.reshape(d.shape + (1,) * (rows_read.ndim - 1)) * rows_read.reshape(
                (len(rows_read),) + (1,) * (d.ndim - 1) + rows_read.shape[1:])
        return positions.add_at((*free_shape, *result.shape[1:]), rows, result, scatter_mode if contracted else "drop")

    result = _map_paired_batches(product, shape[:n_batch], axes)(data, indices, rhs)
    # Dimensions of the result: batch dimensions of lhs, then free sparse and dense ones, and the free ones of rhs.
    contracted_batch = tuple(d for d in lhs_contract if d < n_batch)
    batch_dims = [d for d in range(n_batch) if d not in contracted_batch]
    if contracted_batch:
        result = result.sum(contracted_batch, dtype=result.dtype)
    position = {d: k for k, d in enumerate(batch_dims)}
    leading = [position[d] for d in (*lhs_batch, *[d for d in batch_dims if d not in lhs_batch])]
    result = result.transpose(*leading, *range(len(batch_dims), result.ndim))
    return result if preferred_element_type is None else result.astype(preferred_element_type)


def _dense_dot_general(data, indices, rhs, *, dimension_numbers, preferred_element_type, lhs_spinfo):
    dtype = xnp.promote_types(data.dtype, rhs.dtype)
    result = lax.dot_general(_todense(data.astype(dtype), indices, spinfo=lhs_spinfo), rhs.astype(dtype), dimension_numbers,
                            precision=lax.Precision.HIGHEST)
    return result if preferred_element_type is None else result.astype(preferred_element_type)


def _linear_dot_general(data, indices, rhs, **params):
    """Compute `_dot_general` as a function of the values only.

    Its transpose zeroes values, not rows of the cotangent that it reads.
    """
    return _dot_general(data, indices, rhs, scatter_mode="clip", **params)


def _dot_for_transpose(index, avals, *, dimension_numbers, lhs_spinfo, **params):
    """Return the dense product for the derivative with respect to the values of a matrix that is not very sparse."""
    data, indices, _ = avals
    if index != 0:
        return None
    batch = math.prod(lhs_spinfo.shape[:indices.ndim - 2]) if not is_symbolic(lhs_spinfo.shape) else 0
    count = batch * data.size // max(math.prod(data.shape[:indices.ndim - 2]), 1)
    is_dense = positions.prefers_dense_product(count, lhs_spinfo.shape, data.dtype, 50)
    return _dense_dot_general if is_dense else _linear_dot_general


def _map_paired_batches(function, sizes, axes):
    """Map `function(data, indices, rhs)` over batch dimensions of these sizes.

    Each is paired with a dimension of rhs or with None.
    """
    if not sizes:
        return function

    def mapped(data, indices, rhs):
        data_axis, indices_axis = (None if x.shape[0] == 1 and sizes[0] != 1 else 0 for x in (data, indices))
        inner = _map_paired_batches(function, sizes[1:], axes[1:])
        return vmap(inner, (data_axis, indices_axis, axes[0]), axis_size=sizes[0])(
            data[0] if data_axis is None else data, indices[0] if indices_axis is None else indices, rhs)

    return mapped


todense_p = linear_primitive("bcoo_todense", _todense, (0,))
fromdense_p = linear_primitive("bcoo_fromdense", _fromdense, (), multiple_results=True, jvp=fromdense_jvp(
    lambda mat, **params: fromdense_p.bind(mat, **params),
    lambda components, mat: extract_p.bind(components[1], mat, assume_unique=True)))
extract_p = linear_primitive("bcoo_extract", _extract, (1,))
transpose_p = linear_primitive("bcoo_transpose", _transpose, (0,), multiple_results=True)
sort_indices_p = linear_primitive("bcoo_sort_indices", _sort, (0,), multiple_results=True)
sum_duplicates_p = linear_primitive("bcoo_sum_duplicates", _sum_duplicates, (0,), multiple_results=True)
dot_general_p = linear_primitive("bcoo_dot_general", _dot_general, (0, 2), to_transpose=_dot_for_transpose)


def require_concrete(count: Any, name: str) -> int:
    """Return a count that determines the shape of a result, or raise if it depends on traced values."""
    concrete = count._concrete() if isinstance(count, tracing.Tracer) else count
    if concrete is None:
        raise errors.ConcretizationTypeError(count, f"The number of elements that {name} stores depends on values: pass nse=.")
    return int(concrete)


def unique_count(data: Array, indices: Array, shape: tuple[int, ...]) -> int:
    """Return the largest number of distinct positions in a batch element."""
    n_batch, n_sparse, _, _ = layout_of(data, indices, shape)
    if isinstance(indices, tracing.Tracer) and indices._concrete() is None:
        raise ValueError("bcoo_sum_duplicates: nse must be specified when it is called in jit, vmap and other transformations, "
                         "as the number of distinct indices depends on values.")
    return int(call_jitted(_max_group_count, indices, shape=shape[n_batch:n_batch + n_sparse]))


def _max_group_count(indices: Array, *, shape: tuple[int, ...]) -> Array:
    counts = map_batches(lambda i: positions.count_groups(i, shape), indices.ndim - 2)(indices)
    return xnp.max(counts) if counts.size else xnp.zeros((), np.int32)


def _pad_zeros(data: Array, indices: Array, *, shape: tuple[int, ...]) -> Array:
    """Return the indices with padding in place of positions whose values are zero."""
    n_batch, n_sparse, _, _ = layout_of(data, indices, shape)
    zero = xnp.all(data == 0, tuple(range(n_batch + 1, data.ndim)))
    batch = common_shape(zero.shape[:n_batch], indices.shape[:n_batch])
    columns = [xnp.broadcast_to(column, (*batch, *column.shape[n_batch:])) for column in positions.columns_of(indices)]
    return positions.rows_where(~zero, columns, shape[n_batch:n_batch + n_sparse], indices.dtype)


class BCOO(JAXSparse):
    """Sparse array in batched coordinate format, with any number of dimensions.

    An array of shape `(*batch, *sparse, *dense)` has `indices` of shape `(*batch, nse, n_sparse)` and `data` of shape
    `(*batch, nse, *dense)`. Batch dimensions of either may be 1 if they are the same for the whole batch. Values of equal
    indices
    are summed. Out-of-bounds indices are padding.

    Args:
        args: `(data, indices)`.
        shape: Shape of the array.
        indices_sorted: True if the indices are sorted within each batch element.
        unique_indices: True if no index occurs twice within a batch element, except for padding.

    Example:
        >>> mat = sparse.BCOO((xnp.array([1., 2.]), xnp.array([[0, 1], [1, 2]])), shape=(2, 3))
        >>> mat
        BCOO(float32[2, 3], nse=2)
        >>> mat @ xnp.ones(3)
        Array([1., 2.], dtype=float32)
    """

    data: Array
    indices: Array
    indices_sorted: bool
    unique_indices: bool
    origin: Any = None  # Under `sparsify`, the identity of the argument that the indices come from.

    def __init__(self, args: tuple[ArrayLike, ArrayLike], *, shape: Sequence[int], indices_sorted: bool = False,
                 unique_indices: bool = False):
        data, indices = args
        self.data, self.indices = xnp.asarray(data), xnp.asarray(indices)
        self.indices_sorted, self.unique_indices = bool(indices_sorted), bool(unique_indices)
        super().__init__((self.data, self.indices), shape=shape)
        layout_of(self.data, self.indices, self.shape)

    nse = property(lambda self: self.indices.shape[-2], doc="Number of stored elements of each batch element.")
    dtype = property(lambda self: self.data.dtype, doc="dtype of the elements.")
    n_batch = property(lambda self: self.indices.ndim - 2, doc="Number of leading batch dimensions.")
    n_sparse = property(lambda self: self.indices.shape[-1], doc="Number of sparse dimensions.")
    n_dense = property(lambda self: self.data.ndim - 1 - self.n_batch, doc="Number of trailing dense dimensions.")
    _info = property(lambda self: SparseInfo(self.shape, self.indices_sorted, self.unique_indices))
    _bufs = property(lambda self: (self.data, self.indices))

    def tree_flatten(self) -> tuple[tuple[Array, Array], dict[str, Any]]:
        """Return the component arrays and the static data.

        Example:
            >>> sparse.eye(2).tree_flatten()[1]
            {'shape': (2, 2), 'indices_sorted': True, 'unique_indices': True}
        """
        return (self.data, self.indices), {
            "shape": self.shape, "indices_sorted": self.indices_sorted, "unique_indices": self.unique_indices}

    @classmethod
    def tree_unflatten(cls, aux_data: dict[str, Any], children: Sequence[Any]) -> Self:
        """Return the array of these components, without checks."""
        data, indices = children
        return cls._bare(data=data, indices=indices, **aux_data)

    @classmethod
    def fromdense(cls, mat: ArrayLike, *, nse: int | None = None, index_dtype: DTypeLike = np.int32, n_dense: int = 0,
                  n_batch: int = 0) -> BCOO:
        """Convert a dense array; see `bcoo_fromdense`."""
        mat = xnp.asarray(mat)
        if nse is None:
            nse = require_concrete(stored_elements(mat, n_batch, n_dense), "bcoo_fromdense")
        data, indices = fromdense_p.bind(mat, nse=int(nse), n_batch=n_batch, n_dense=n_dense, index_dtype=np.dtype(index_dtype))
        return cls((data, indices), shape=mat.shape, indices_sorted=True, unique_indices=True)

    @classmethod
    def from_scipy_sparse(cls, mat: Any, *, index_dtype: DTypeLike | None = None, n_dense: int = 0, n_batch: int = 0) -> BCOO:
        """Convert a SciPy sparse matrix. Batch and dense dimensions are not supported."""
        if n_dense != 0 or n_batch != 0:
            raise NotImplementedError("BCOO.from_scipy_sparse does not support batch or dense dimensions: use update_layout")
        mat = mat.tocoo()
        indices = xnp.column_stack([xnp.asarray(mat.row), xnp.asarray(mat.col)])
        if index_dtype is not None:
            indices = indices.astype(index_dtype)
        return cls((xnp.asarray(mat.data), indices), shape=mat.shape)

    @classmethod
    def _empty(cls, shape: Sequence[int], *, dtype: DTypeLike | None = None, index_dtype: DTypeLike = "int32", n_dense: int = 0,
               n_batch: int = 0, nse: int = 0) -> BCOO:
        shape = shape_of(shape)
        n_sparse = len(shape) - n_dense - n_batch
        if n_sparse < 0 or n_dense < 0 or n_batch < 0 or nse < 0:
            raise ValueError(f"there is no BCOO array with shape={shape}, n_dense={n_dense}, n_batch={n_batch}, nse={nse}")
        batch, sparse, dense = shape[:n_batch], shape[n_batch:n_batch + n_sparse], shape[n_batch + n_sparse:]
        data = xnp.zeros((*batch, nse, *dense), dtype)
        indices = xnp.full((*batch, nse, n_sparse), positions.padding_row(sparse, index_dtype), index_dtype)
        return cls((data, indices), shape=shape, indices_sorted=True, unique_indices=True)

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: DTypeLike | None = None, index_dtype: DTypeLike = "int32", n_batch: int = 0,
             n_dense: int = 0) -> BCOO:
        n_sparse = 2 - n_batch - n_dense
        if n_sparse < 0 or n_batch < 0 or n_dense < 0:
            raise ValueError(f"there is no matrix of shape {(N, M)} with n_dense={n_dense}, n_batch={n_batch}")
        if n_batch == 0 and n_dense == 0:
            count = max(min(N + min(k, 0), M - max(k, 0)), 0)
            start = xnp.arange(count, dtype=index_dtype)
            indices = xnp.stack([start + max(-k, 0), start + max(k, 0)], -1).astype(index_dtype)
            data = xnp.ones(count, dtype)
        elif n_batch == 1 and n_dense == 0:
            columns = np.arange(N) + k
            in_range = (columns >= 0) & (columns < M)
            data = xnp.asarray(in_range[:, None], dtype or float)
            indices = xnp.asarray(np.where(in_range, columns, M)[:, None, None], index_dtype)
        elif n_batch == 0 and n_dense == 1:
            count = max(min(N + min(k, 0), M - max(k, 0)), 0)
            rows = np.arange(count) + max(-k, 0)
            data = xnp.asarray(np.eye(N, M, k)[rows], dtype or float)
            indices = xnp.asarray(rows[:, None], index_dtype)
        else:
            data = xnp.expand_dims(xnp.eye(N, M, k, dtype=dtype), n_batch)
            indices = xnp.zeros((*(N, M)[:n_batch], 1, 0), index_dtype)
        return cls((data, indices), shape=(N, M), indices_sorted=True, unique_indices=True)

    def todense(self) -> Array:
        """Return the equivalent dense array. Values of equal indices are summed.

        Example:
            >>> sparse.eye(2).todense().tolist()
            [[1.0, 0.0], [0.0, 1.0]]
        """
        return todense_p.bind(*self._bufs, spinfo=self._info)

    def transpose(self, axes: Sequence[int] | None = None) -> BCOO:
        """Return the array with its dimensions permuted.

        Batch, sparse and dense dimensions cannot be mixed.

        Args:
            axes: Permutation of the dimensions. Default: reversed.

        Returns:
            BCOO array.

        Example:
            >>> sparse.eye(2, 3).transpose().shape
            (3, 2)
        """
        permutation = tuple(range(self.ndim))[::-1] if axes is None else tuple(int(p) for p in axes)
        permutation = tuple(p + self.ndim if p < 0 else p for p in permutation)
        if sorted(permutation) != list(range(self.ndim)):
            raise TypeError(f"transpose of an array of shape {self.shape} takes a permutation of its {self.ndim} dimensions, "
                            f"got {permutation}")
        kinds = [(p >= self.n_batch) + (p >= self.n_batch + self.n_sparse) for p in permutation]
        if kinds != sorted(kinds):
            raise NotImplementedError(
                f"transpose cannot mix batch, sparse and dense dimensions: the permutation {permutation} does, of an array "
                f"with n_batch={self.n_batch}, n_sparse={self.n_sparse} and n_dense={self.n_dense}. Use update_layout.")
        data, indices = transpose_p.bind(*self._bufs, permutation=permutation, spinfo=self._info)
        shape = tuple(self.shape[p] for p in permutation)
        sparse = permutation[self.n_batch:self.n_batch + self.n_sparse]
        return BCOO((data, indices), shape=shape, unique_indices=self.unique_indices,
                    indices_sorted=self.indices_sorted and list(sparse) == sorted(sparse))

    def sort_indices(self) -> BCOO:
        """Return the array with sorted indices within each batch element."""
        if self.indices_sorted:
            return self
        data, indices = sort_indices_p.bind(*self._bufs, spinfo=self._info)
        return BCOO((data, indices), shape=self.shape, indices_sorted=True, unique_indices=self.unique_indices)

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCOO:
        """Return the array with sorted, unique indices and the values of equal indices summed.

        Args:
            nse: Number of elements to store, truncated or padded. Required under transformations. Default: the number of
                distinct
                indices.
            remove_zeros: If True, drop stored zeros.
        """
        if remove_zeros:
            return self._eliminate_zeros(nse)
        if nse is None:
            nse = unique_count(self.data, self.indices, self.shape)
        data, indices = sum_duplicates_p.bind(*self._bufs, spinfo=self._info, nse=int(nse))
        return BCOO((data, indices), shape=self.shape, indices_sorted=True, unique_indices=True)

    def _eliminate_zeros(self, nse: int | None) -> BCOO:
        if self.n_sparse == 0:
            return self.sum_duplicates(nse, remove_zeros=False)
        return BCOO((self.data, call_jitted(_pad_zeros, *self._bufs, shape=self.shape)), shape=self.shape).sum_duplicates(
            nse, remove_zeros=False)

    def astype(self, dtype: DTypeLike) -> BCOO:
        """Return the array with elements of another dtype."""
        return self.with_data(self.data.astype(dtype))

    def with_data(self, data: Array) -> BCOO:
        """Return an array with other values at the same positions."""
        result = BCOO((data, self.indices), shape=self.shape, indices_sorted=self.indices_sorted,
                    unique_indices=self.unique_indices)
        result.origin = self.origin
        return result

    def broadcast_batch(self) -> tuple[Array, Array]:
        """Return data and indices with the full batch dimensions of the shape instead of 1."""
        batch = self.shape[:self.n_batch]
        return (xnp.broadcast_to(self.data, (*batch, *self.data.shape[self.n_batch:])),
                xnp.broadcast_to(self.indices, (*batch, *self.indices.shape[self.n_batch:])))


def stored_elements(mat: Array, n_batch: int = 0, n_dense: int = 0) -> Array:
    """Return the largest number of nonzero elements in a batch element of a dense array."""
    return call_jitted(_stored_elements, mat, n_batch=n_batch, n_dense=n_dense)


def _stored_elements(mat: Array, *, n_batch: int, n_dense: int) -> Array:
    if n_batch < 0 or n_dense < 0 or n_batch + n_dense > mat.ndim:
        raise ValueError(f"an array of shape {mat.shape} has no layout with n_batch={n_batch} and n_dense={n_dense}: both must "
                         "be at least 0, and together at most the number of dimensions")
    mask = xnp.any(mat != 0, tuple(range(mat.ndim - n_dense, mat.ndim)))
    counts = xnp.sum(mask, tuple(range(n_batch, mask.ndim)), dtype=np.int32)
    return xnp.max(counts) if counts.size else xnp.zeros((), np.int32)


tree.register_pytree_node_class(BCOO)
