"""Functions of BCOO arrays: conversion, layout, reshaping, slicing and gathering."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront import lax, numpy as xnp
from xlafront.api.vmap import vmap
from xlafront.core import source
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.sparse import positions
from xlafront.sparse.base import SparseEfficiencyError, SparseEfficiencyWarning, shape_of
from xlafront.sparse.bcoo import BCOO, extract_p
from xlafront.sparse.operations import call_jitted, jitted, map_batches
from xlafront.symbolic.dimensions import common_shape


def bcoo_todense(mat: BCOO) -> Array:
    """Convert a BCOO array to a dense array. Values of equal indices are summed.

    Args:
        mat: BCOO array.

    Returns:
        Dense array.

    Example:
        >>> sparse.bcoo_todense(sparse.eye(2))
        Array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    return mat.todense()


def bcoo_fromdense(mat: Array, *, nse: int | None = None, n_batch: int = 0, n_dense: int = 0, index_dtype: DTypeLike = np.int32
                   ) -> BCOO:
    """Convert a dense array to a BCOO array.

    Args:
        mat: Dense array.
        nse: Number of elements to store for each batch element. Further elements are dropped, fewer are padded. Default: the
            largest
            number of nonzero elements in a batch element. Required in transformed functions.
        n_batch: Number of leading batch dimensions.
        n_dense: Number of trailing dense dimensions.
        index_dtype: dtype of the indices.

    Returns:
        BCOO array.

    Example:
        >>> sparse.bcoo_fromdense(xnp.array([[0., 2.], [3., 0.]])).indices.tolist()
        [[0, 1], [1, 0]]
    """
    return BCOO.fromdense(mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)


def bcoo_extract(sparr: BCOO, arr: ArrayLike, *, assume_unique: bool | None = None) -> BCOO:
    """Extract the elements of a dense array at the indices of a sparse one.

    Args:
        sparr: BCOO array with the indices.
        arr: Dense array of the same shape.
        assume_unique: If True, extract a value for every index. If False, only for the first of equal indices, so that their
            sum is
            the element. Default: `sparr.unique_indices`.

    Returns:
        BCOO array with the indices of `sparr`.

    Example:
        >>> sparse.bcoo_extract(sparse.eye(2), xnp.array([[1., 2.], [3., 4.]])).data.tolist()
        [1.0, 4.0]
    """
    arr = xnp.asarray(arr)
    if arr.shape != sparr.shape:
        raise ValueError(f"bcoo_extract needs a dense array of the sparse one's shape {sparr.shape}, got shape {arr.shape}")
    unique = sparr.unique_indices if assume_unique is None else bool(assume_unique)
    return sparr.with_data(extract_p.bind(sparr.indices, arr, assume_unique=unique))


def bcoo_sort_indices(mat: BCOO) -> BCOO:
    """Sort the indices within each batch element.

    Args:
        mat: BCOO array.

    Returns:
        BCOO array with sorted indices.

    Example:
        >>> mat = sparse.BCOO((xnp.array([1., 2.]), xnp.array([[1], [0]])), shape=(2,))
        >>> sparse.bcoo_sort_indices(mat).data.tolist()
        [2.0, 1.0]
    """
    return mat.sort_indices()


def bcoo_sum_duplicates(mat: BCOO, nse: int | None = None) -> BCOO:
    """Sort the indices and sum the values of equal ones.

    Args:
        mat: BCOO array.
        nse: Number of elements to store. Default: the number of distinct indices. Required in transformed functions.

    Returns:
        BCOO array with sorted, unique indices.

    Example:
        >>> mat = sparse.BCOO((xnp.array([1., 2.]), xnp.array([[1], [1]])), shape=(2,))
        >>> sparse.bcoo_sum_duplicates(mat).data.tolist()
        [3.0]
    """
    return mat.sum_duplicates(nse, remove_zeros=False)


def bcoo_eliminate_zeros(mat: BCOO, nse: int | None = None) -> BCOO:
    """Drop stored zeros. `nse` is the number of elements to store."""
    return mat.sum_duplicates(nse)


def bcoo_transpose(mat: BCOO, *, permutation: Sequence[int]) -> BCOO:
    """Permute the dimensions of an array. Batch, sparse and dense dimensions cannot be mixed.

    Args:
        mat: BCOO array.
        permutation: Dimension of `mat` for each dimension of the result.

    Returns:
        BCOO array.

    Example:
        >>> sparse.bcoo_transpose(sparse.eye(2, 3), permutation=(1, 0)).shape
        (3, 2)
    """
    return mat.transpose(permutation)


def bcoo_update_layout(mat: BCOO, *, n_batch: int | None = None, n_dense: int | None = None,
                       on_inefficient: str | None = "error"
                       ) -> BCOO:
    """Change the numbers of batch and dense dimensions.

    Args:
        mat: BCOO array.
        n_batch: Number of leading batch dimensions. Default: unchanged.
        n_dense: Number of trailing dense dimensions. Default: unchanged.
        on_inefficient: Action if the new layout stores more elements: "error", "warn" or None.

    Returns:
        BCOO array.

    Example:
        >>> mat = sparse.bcoo_fromdense(xnp.ones((2, 3)), n_batch=1)
        >>> sparse.bcoo_update_layout(mat, n_batch=0).indices.shape
        (6, 2)
    """
    n_batch = mat.n_batch if n_batch is None else int(n_batch)
    n_dense = mat.n_dense if n_dense is None else int(n_dense)
    if (n_batch, n_dense) == (mat.n_batch, mat.n_dense):
        return mat
    if n_batch < 0 or n_dense < 0 or n_batch + n_dense > mat.ndim:
        raise ValueError(f"bcoo_update_layout needs n_batch and n_dense of at least 0 that together are at most mat.ndim="
                         f"{mat.ndim}, got n_batch={n_batch} and n_dense={n_dense}")
    if on_inefficient not in ("error", "warn", None):
        raise ValueError(f"on_inefficient must be 'error', 'warn' or None, got {on_inefficient!r}")

    def check_efficiency(name: str, before: int, after: int, factor: int) -> None:
        if after <= before or factor * mat.nse <= mat.nse:
            return
        text = (f"bcoo_update_layout of an array of shape {mat.shape} stores {factor} times as many elements when {name} goes "
                f"from {before} to {after}. Pass on_inefficient=None to allow this, or 'warn'.")
        if on_inefficient == "error":
            raise SparseEfficiencyError(text)
        if on_inefficient == "warn":
            source.warn(text, SparseEfficiencyWarning)

    shape = mat.shape
    check_efficiency("n_dense", mat.n_dense, n_dense, math.prod(shape[mat.ndim - n_dense:mat.ndim - mat.n_dense]))
    check_efficiency("n_batch", mat.n_batch, n_batch, math.prod(shape[mat.n_batch:n_batch]))
    if n_batch < mat.n_batch:
        mat = _batch_to_sparse(mat, n_batch)
    if n_dense < mat.n_dense:
        mat = _dense_to_sparse(mat, n_dense)
    if n_dense > mat.n_dense:
        mat = _sparse_to_dense(mat, n_dense)
    return _sparse_to_batch(mat, n_batch) if n_batch > mat.n_batch else mat


@jitted
def _batch_to_sparse(mat: BCOO, n_batch: int) -> BCOO:
    data, indices = mat.broadcast_batch()
    moved_shape = mat.shape[n_batch:mat.n_batch]
    batch, nse = mat.shape[:n_batch], math.prod(moved_shape) * mat.nse
    batch_indices = [xnp.broadcast_to(lax.broadcasted_iota(indices.dtype, (*moved_shape, mat.nse), d),
                                      (*batch, *moved_shape, mat.nse)) for d in range(len(moved_shape))]
    indices = xnp.concatenate([xnp.stack(batch_indices, -1), indices], -1)
    return BCOO((data.reshape(*batch, nse, *data.shape[mat.n_batch + 1:]), indices.reshape(*batch, nse, indices.shape[-1])),
                shape=mat.shape)


@jitted
def _dense_to_sparse(mat: BCOO, n_dense: int) -> BCOO:
    k = mat.n_batch
    moved_shape = mat.shape[mat.ndim - mat.n_dense:mat.ndim - n_dense]
    data = mat.data.reshape(*mat.data.shape[:k], mat.nse * math.prod(moved_shape), *mat.data.shape[k + 1 + len(moved_shape):])
    batch = mat.indices.shape[:k]
    sparse_indices = xnp.broadcast_to(xnp.expand_dims(mat.indices, range(k + 1, k + 1 + len(moved_shape))),
                           (*batch, mat.nse, *moved_shape, mat.n_sparse))
    dense_indices = [xnp.broadcast_to(lax.broadcasted_iota(mat.indices.dtype, moved_shape, d), (*batch, mat.nse, *moved_shape))
           for d in range(len(moved_shape))]
    indices = xnp.concatenate([sparse_indices, xnp.stack(dense_indices, -1)], -1)
    return BCOO((data, indices.reshape(*batch, data.shape[k], mat.n_sparse + len(moved_shape))), shape=mat.shape)


@jitted
def _sparse_to_dense(mat: BCOO, n_dense: int) -> BCOO:
    count = n_dense - mat.n_dense
    n_sparse = mat.n_sparse - count
    if n_sparse < 0:
        raise ValueError(f"bcoo_update_layout cannot make batch dimensions dense: n_dense={n_dense} for shape {mat.shape} with "
                         f"n_batch={mat.n_batch}")
    block = mat.shape[mat.n_batch + n_sparse:mat.n_batch + mat.n_sparse]

    def convert(data, indices):
        rows = xnp.concatenate([xnp.arange(indices.shape[0], dtype=indices.dtype)[:, None], indices[:, n_sparse:]], -1)
        return positions.add_at((indices.shape[0], *block, *data.shape[1:]), rows, data), indices[:, :n_sparse]

    return BCOO(map_batches(convert, mat.n_batch)(*mat._bufs), shape=mat.shape)


@jitted
def _sparse_to_batch(mat: BCOO, n_batch: int) -> BCOO:
    k, count = mat.n_batch, n_batch - mat.n_batch
    if count > mat.n_sparse:
        raise ValueError(f"bcoo_update_layout cannot make dense dimensions batches: n_batch={n_batch} for shape {mat.shape} "
                         f"with n_dense={mat.n_dense}")
    batch = mat.shape[k:n_batch]

    def convert(data, indices):  # Each element keeps its value in its own batch and is zero in the others.
        row_numbers = xnp.arange(len(indices), dtype=indices.dtype)
        return (positions.add_at((*batch, *data.shape), xnp.concatenate([indices[:, :count], row_numbers[:, None]], -1), data),
                xnp.broadcast_to(indices[:, count:], (*batch, len(indices), indices.shape[1] - count)))

    return BCOO(map_batches(convert, k)(*mat._bufs), shape=mat.shape)


@jitted
def bcoo_broadcast_in_dim(mat: BCOO, *, shape: Sequence[int], broadcast_dimensions: Sequence[int],
                          sharding: Any = None) -> BCOO:
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
    shape, dims = shape_of(shape), tuple(map(int, broadcast_dimensions))
    if len(dims) != mat.ndim or any(n not in (1, shape[d]) for n, d in zip(mat.shape, dims)):
        raise ValueError(f"bcoo_broadcast_in_dim cannot broadcast shape {mat.shape} to {shape} with "
                         f"broadcast_dimensions={dims}: each dimension must be listed, and keep its size or have size 1")
    batch_dims, sparse_dims = dims[:mat.n_batch], dims[mat.n_batch:mat.n_batch + mat.n_sparse]
    dense_dims = dims[mat.n_batch + mat.n_sparse:]
    start = min(sparse_dims or dense_dims, default=len(shape))
    stop = min(dense_dims) if mat.n_dense else len(shape)
    if mat.n_sparse and mat.n_dense == 0:
        stop = len(shape)
    new_sparse = [d for d in range(start, stop) if d not in sparse_dims]
    if any(shape[d] != 1 for d in new_sparse) or any(mat.shape[mat.n_batch + i] != shape[d] for i, d in enumerate(sparse_dims)):
        raise NotImplementedError(f"bcoo_broadcast_in_dim cannot enlarge sparse dimensions: got shape {mat.shape} with n_batch="
                                  f"{mat.n_batch} and n_sparse={mat.n_sparse}, to broadcast to {shape}. New sparse dimensions "
                                  f"must have length 1.")
    n_batch = start
    batch_sizes = [shape[d] if d not in batch_dims else None for d in range(n_batch)]

    def batch_of(x):
        return [x.shape[batch_dims.index(d)] if size is None else size for d, size in enumerate(batch_sizes)]

    data = lax.broadcast_in_dim(mat.data, (*batch_of(mat.data), mat.nse, *shape[stop:]),
                                (*batch_dims, n_batch, *[n_batch + 1 + d - stop for d in dense_dims]))
    indices = lax.broadcast_in_dim(mat.indices, (*batch_of(mat.indices), mat.nse, mat.n_sparse),
                                   (*batch_dims, n_batch, n_batch + 1))
    if new_sparse:
        # Padding stays padding: its indices of the old dimensions are out of bounds.
        columns = [indices[..., sparse_dims.index(d)] if d in sparse_dims else xnp.zeros(indices.shape[:-1], indices.dtype)
                   for d in range(start, stop)]
        indices = xnp.stack(columns, -1)
    return BCOO((data, indices), shape=shape)


@jitted
def bcoo_concatenate(operands: Sequence[BCOO], *, dimension: int) -> BCOO:
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
    operands = list(operands)
    if not operands or not all(isinstance(op, BCOO) for op in operands):
        raise ValueError("bcoo_concatenate takes a sequence of at least one BCOO array, got "
                         f"{[type(op).__name__ for op in operands]}")
    dimension = int(dimension)
    first = operands[0]
    layouts = {(op.n_batch, op.n_sparse, op.n_dense) for op in operands}
    if len(layouts) > 1:
        raise ValueError("bcoo_concatenate needs arrays with the same layout, got (n_batch, n_sparse, n_dense) of "
                         f"{sorted(layouts)}: change them with update_layout")
    if not 0 <= dimension < first.ndim:
        raise TypeError(f"bcoo_concatenate cannot concatenate arrays of {first.ndim} dimensions along dimension {dimension}")
    other_sizes = {op.shape[:dimension] + op.shape[dimension + 1:] for op in operands}
    if len(other_sizes) > 1:
        raise TypeError("bcoo_concatenate needs shapes that differ only in the concatenated dimension, "
                        f"got {[op.shape for op in operands]} for dimension {dimension}")
    size = sum(op.shape[dimension] for op in operands)
    shape = (*first.shape[:dimension], size, *first.shape[dimension + 1:])
    n_batch, n_sparse = first.n_batch, first.n_sparse
    if dimension >= n_batch + n_sparse:
        raise NotImplementedError(f"bcoo_concatenate cannot concatenate along dimension {dimension}, which is dense: make it "
                                  "sparse with update_layout")
    if dimension < n_batch:
        nse = max(op.nse for op in operands)
        components = [_padded(op, nse).broadcast_batch() for op in operands]
        data, indices = zip(*components)
        return BCOO((xnp.concatenate(data, dimension), xnp.concatenate(indices, dimension)), shape=shape)
    components, offset = [], 0
    column = dimension - n_batch
    for op in operands:
        in_range = op.indices[..., column] < op.shape[dimension]
        shifted = xnp.where(in_range, op.indices[..., column] + offset, size).astype(op.indices.dtype)
        components.append((op.data, op.indices.at[..., column].set(shifted)))
        offset += op.shape[dimension]
    batches = [common_batch([component[i] for component in components], n_batch) for i in (0, 1)]
    return BCOO((xnp.concatenate(batches[0], n_batch), xnp.concatenate(batches[1], n_batch)), shape=shape)


def common_batch(arrays: Sequence[Array], n_batch: int) -> list[Array]:
    """Broadcast the arrays to common batch dimensions."""
    batch = common_shape(*[x.shape[:n_batch] for x in arrays])
    return [xnp.broadcast_to(x, (*batch, *x.shape[n_batch:])) for x in arrays]


def _padded(mat: BCOO, nse: int) -> BCOO:
    """Return the array padded to `nse` stored elements."""
    if mat.nse == nse:
        return mat
    k = mat.n_batch
    fill = positions.padding_row(mat.shape[k:k + mat.n_sparse], mat.indices.dtype)
    count = nse - mat.nse
    data = xnp.concatenate([mat.data, xnp.zeros((*mat.data.shape[:k], count, *mat.data.shape[k + 1:]), mat.dtype)], k)
    indices = xnp.concatenate([mat.indices, xnp.broadcast_to(fill, (*mat.indices.shape[:k], count, mat.n_sparse))], k)
    return BCOO((data, indices), shape=mat.shape)


def _split_shape(name: str, mat: BCOO, new: Sequence[int]) -> tuple[int, int]:
    """Return the numbers of batch and sparse dimensions of a new shape, determined by the products of their sizes."""
    groups = (mat.shape[:mat.n_batch], mat.shape[mat.n_batch:mat.n_batch + mat.n_sparse])
    start, counts = 0, []
    for kinds, group in zip(("batch and sparse", "sparse and dense"), groups):
        size = math.prod(group)
        fits = [stop for stop in range(start, len(new) + 1) if math.prod(new[start:stop]) == size]
        if not fits:
            raise ValueError(f"{name} cannot mix {kinds} dimensions: shape {mat.shape} with n_batch={mat.n_batch} and "
                             f"n_dense={mat.n_dense} cannot become {tuple(new)}. Change that with update_layout.")
        stop = start + len(group) if start + len(group) in fits and not size else fits[-1]
        counts.append(stop - start)
        start = stop
    return counts[0], counts[1]


@jitted
def bcoo_reshape(mat: BCOO, *, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None, sharding: Any = None) -> BCOO:
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
    if dimensions is not None and tuple(dimensions) != tuple(range(mat.ndim)):
        mat = mat.transpose(dimensions)
    new = shape_of(new_sizes)
    if math.prod(new) != mat.size:
        raise ValueError(f"bcoo_reshape cannot reshape an array of shape {mat.shape} ({mat.size} elements) to {new}: pass a "
                         f"shape with as many elements and explicit sizes.")
    if new == mat.shape:
        return mat
    n_batch, n_sparse = _split_shape("bcoo_reshape", mat, new)
    batch, sparse, dense = new[:n_batch], new[n_batch:n_batch + n_sparse], new[n_batch + n_sparse:]
    if mat.shape[:mat.n_batch] == batch:
        data, indices = mat._bufs
        data_batch, indices_batch = data.shape[:n_batch], indices.shape[:n_batch]
    else:
        data, indices = mat.broadcast_batch()
        data_batch = indices_batch = batch
    old_sparse = mat.shape[mat.n_batch:mat.n_batch + mat.n_sparse]
    indices = indices.reshape(*indices_batch, mat.nse, mat.n_sparse)
    if old_sparse != sparse:
        in_range = lax.optimization_barrier(positions.in_bounds(indices, old_sparse))
        indices = positions.rows_where(in_range, _reshape_indices(indices, old_sparse, sparse), sparse, indices.dtype)
    return BCOO((data.reshape(*data_batch, mat.nse, *dense), indices), shape=new)


def _reshape_indices(indices: Array, old: Sequence[int], new: Sequence[int]) -> list[Array]:
    """Convert indices in an array of shape `old` to indices in its reshape to `new`, as columns."""
    dtype = indices.dtype if math.prod(old) < np.iinfo(indices.dtype).max else np.dtype(np.int32)
    flat = xnp.zeros(indices.shape[:-1], dtype)
    for n, column in zip(old, positions.columns_of(indices)):
        flat = flat * n + column.astype(dtype)
    flat = lax.optimization_barrier(flat)
    strides = [math.prod(new[d + 1:]) for d in range(len(new))]
    return [lax.rem(lax.div(flat, dtype.type(max(stride, 1))), dtype.type(max(n, 1))) for n, stride in zip(new, strides)]


@jitted
def bcoo_rev(operand: BCOO, dimensions: Sequence[int]) -> BCOO:
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
    k, s = operand.n_batch, operand.n_sparse
    dims = [int(d) for d in dimensions]
    if len(set(dims)) != len(dims) or any(not 0 <= d < operand.ndim for d in dims):
        raise ValueError(f"bcoo_rev takes distinct dimensions of an array of {operand.ndim}, got {tuple(dimensions)}")
    data, indices = operand._bufs
    batch = [d for d in dims if d < k]
    # Batch dimensions of size 1 are shared by all batch elements: reversing them has no effect.
    data = lax.rev(data, [*batch, *[d - s + 1 for d in dims if d >= k + s]])
    indices = lax.rev(indices, batch)
    for d in (d - k for d in dims if k <= d < k + s):
        size = operand.shape[k + d]
        column = indices[..., d]
        indices = indices.at[..., d].set(xnp.where(column < size, size - 1 - column, size).astype(indices.dtype))
    return BCOO((data, indices), shape=operand.shape)


@jitted
def bcoo_squeeze(arr: BCOO, *, dimensions: Sequence[int]) -> BCOO:
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
    dims = sorted({d + arr.ndim if d < 0 else d for d in map(int, dimensions)})
    if any(not 0 <= d < arr.ndim or arr.shape[d] != 1 for d in dims):
        raise ValueError(f"bcoo_squeeze removes dimensions of size 1, got {tuple(dimensions)} for shape {arr.shape}")
    k, s = arr.n_batch, arr.n_sparse
    batch = [d for d in dims if d < k]
    remaining = [d for d in range(s) if d + k not in dims]
    data = lax.squeeze(arr.data, [*batch, *[d - s + 1 for d in dims if d >= k + s]])
    in_range = _in_bounds_of_removed(arr, remaining) if len(remaining) < s else None
    indices = arr.indices
    if in_range is not None:
        indices = positions.rows_where(in_range, [indices[..., d] for d in remaining], [arr.shape[k + d] for d in remaining],
                                       indices.dtype)
        data = _zero_padding(data, in_range, arr, batch) if not remaining else data
    return BCOO((data, lax.squeeze(indices, batch)), shape=[n for d, n in enumerate(arr.shape) if d not in dims],
                indices_sorted=arr.indices_sorted, unique_indices=arr.unique_indices and (bool(remaining) or arr.nse <= 1))


def _in_bounds_of_removed(mat: BCOO, remaining: Sequence[int]) -> Array:
    """Return the mask of positions that are in bounds of the removed sparse dimensions.

    The remaining indices mark padding themselves.
    """
    removed = [d for d in range(mat.n_sparse) if d not in remaining]
    return positions.in_bounds(xnp.stack([mat.indices[..., d] for d in removed], -1),
                               [mat.shape[mat.n_batch + d] for d in removed])


def _zero_padding(data: Array, in_range: Array, arr: BCOO, batch: Sequence[int]) -> Array:
    """Zero the values of padding when no index remains that would mark it."""
    in_range = lax.squeeze(in_range, batch)
    shape = common_shape(data.shape[:in_range.ndim], in_range.shape)
    return positions.zero_unless(in_range, xnp.broadcast_to(data, (*shape, *data.shape[in_range.ndim:])))


@jitted
def bcoo_slice(mat: BCOO, *, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Sequence[int] | None = None
               ) -> BCOO:
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
    starts, limits = shape_of(start_indices), shape_of(limit_indices)
    steps = [1] * mat.ndim if strides is None else [int(i) for i in strides]
    if not len(starts) == len(limits) == len(steps) == mat.ndim:
        raise ValueError(f"bcoo_slice needs one bound for each dimension of shape {mat.shape}, got start_indices={starts}, "
                         f"limit_indices={limits} and strides={strides}")
    if any(not 0 <= start <= limit <= n for start, limit, n in zip(starts, limits, mat.shape)) or any(s < 1 for s in steps):
        raise ValueError(f"bcoo_slice needs ordered bounds within shape {mat.shape}, and positive strides, got "
                         f"start_indices={starts}, limit_indices={limits} and strides={steps}")
    sizes = [-(-(limit - start) // step) for start, limit, step in zip(starts, limits, steps)]
    k, s = mat.n_batch, mat.n_sparse
    data, indices = mat._bufs
    slices = [slice(*bounds) for bounds in zip(starts, limits, steps)]
    data = data[tuple([slice(None) if n == 1 and mat.shape[d] != 1 else slices[d] for d, n in enumerate(data.shape[:k])])
                + (slice(None), *slices[k + s:])]
    indices = indices[tuple([slice(None) if n == 1 and mat.shape[d] != 1 else slices[d]
                             for d, n in enumerate(indices.shape[:k])])]
    columns = positions.columns_of(indices)
    in_range = positions.between(columns, starts[k:k + s], limits[k:k + s], indices.shape[:-1])
    columns = [column - start for column, start in zip(columns, starts[k:k + s])]
    for d, step in enumerate(steps[k:k + s]):
        if step != 1:
            # Indices before the start are masked already, regardless of their remainder.
            step = columns[d].dtype.type(step)
            in_range, columns[d] = in_range & (lax.rem(columns[d], step) == 0), lax.div(columns[d], step)
    return _sliced(mat, data, columns, in_range, sizes)


def _sliced(mat: BCOO, data: Array, columns: Sequence[Array], in_range: Array, sizes: Sequence[int]) -> BCOO:
    """Return a slice of `mat`: its elements where `in_range`, with new indices.

    It stores no more elements than it has positions.
    """
    k, s = mat.n_batch, mat.n_sparse
    shape = sizes[k:k + s]
    batch = common_shape(data.shape[:k], in_range.shape[:k])
    data, indices = positions.keep_where(in_range, xnp.broadcast_to(data, (*batch, *data.shape[k:])), columns, shape,
                                      mat.indices.dtype)
    result = BCOO((data, indices), shape=sizes)
    limit = math.prod(shape)
    return BCOO(result.sum_duplicates(limit, remove_zeros=False)._bufs, shape=sizes) if s and limit < mat.nse else result


def bcoo_dynamic_slice(mat: BCOO, start_indices: Sequence[Any], slice_sizes: Sequence[int]) -> BCOO:
    """Slice an array at traced start indices, as `lax.dynamic_slice` does for dense arrays.

    Args:
        mat: BCOO array.
        start_indices: First index of each dimension. It is clamped so that the slice is within the array.
        slice_sizes: Shape of the slice.

    Returns:
        BCOO array.

    Example:
        >>> sparse.bcoo_dynamic_slice(sparse.eye(3), (1, 1), (2, 2)).todense().tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    starts, sizes = [xnp.asarray(i) for i in start_indices], [int(n) for n in slice_sizes]
    if not len(starts) == len(sizes) == mat.ndim:
        raise ValueError(f"bcoo_dynamic_slice needs a start and a size for each dimension of shape {mat.shape}, got "
                         f"{len(starts)} and {len(sizes)}")
    if any(not 0 <= size <= n for size, n in zip(sizes, mat.shape)):
        raise TypeError(f"bcoo_dynamic_slice needs slices no larger than the array, got sizes {sizes} for shape {mat.shape}")
    return call_jitted(_dynamic_slice, mat, starts, sizes=tuple(sizes))


def _dynamic_slice(mat: BCOO, starts: Sequence[Array], *, sizes: tuple[int, ...]) -> BCOO:
    k, s = mat.n_batch, mat.n_sparse
    data, indices = mat._bufs
    starts = [xnp.clip(xnp.where(i < 0, i + n, i), 0, n - size) for i, n, size in zip(starts, mat.shape, sizes)]

    def slice_buffer(x, dense):
        batch = [(0, n) if n == 1 and mat.shape[d] != 1 else (starts[d], sizes[d]) for d, n in enumerate(x.shape[:k])]
        rest = [(0, n) for n in x.shape[k:x.ndim - dense]] + [(starts[d], sizes[d]) for d in range(mat.ndim - dense, mat.ndim)]
        return lax.dynamic_slice(x, [start for start, _ in batch + rest], [size for _, size in batch + rest])

    data, indices = slice_buffer(data, mat.n_dense), slice_buffer(indices, 0)
    begin = [i.astype(indices.dtype) for i in starts[k:k + s]]
    columns = positions.columns_of(indices)
    in_range = positions.between(columns, begin, [first + size for first, size in zip(begin, sizes[k:])], indices.shape[:-1])
    return _sliced(mat, data, [column - first for column, first in zip(columns, begin)], in_range, sizes)


@jitted
def bcoo_reduce_sum(mat: BCOO, *, axes: Sequence[int]) -> BCOO:
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
    axes = sorted({int(a) for a in axes})
    if any(not 0 <= a < mat.ndim for a in axes):
        raise AssertionError(f"bcoo_reduce_sum of an array of shape {mat.shape} has no axes {axes}")
    k, s = mat.n_batch, mat.n_sparse
    shape = [n for d, n in enumerate(mat.shape) if d not in axes]
    data, indices = mat._bufs
    dense = tuple(a - s + 1 for a in axes if a >= k + s)
    if dense:
        data = data.sum(dense, dtype=data.dtype)
    remaining = [d for d in range(s) if k + d not in axes]
    if len(remaining) < s:
        in_range = _in_bounds_of_removed(mat, remaining)
        indices = positions.rows_where(in_range, [indices[..., d] for d in remaining], [mat.shape[k + d] for d in remaining],
                                       indices.dtype)
        if not remaining:
            batch = common_shape(data.shape[:k], in_range.shape[:k])
            data = positions.zero_unless(in_range, xnp.broadcast_to(data, (*batch, *data.shape[k:])))
    batch_axes = [a for a in axes if a < k]
    if batch_axes:
        batch_shape = mat.shape[:k]
        data = xnp.broadcast_to(data, (*batch_shape, *data.shape[k:]))
        indices = xnp.broadcast_to(indices, (*batch_shape, *indices.shape[k:]))
        remaining_batch = [d for d in range(k) if d not in batch_axes]
        order = [*remaining_batch, *batch_axes]
        nse = math.prod(batch_shape[a] for a in batch_axes) * mat.nse
        new_batch = [batch_shape[d] for d in remaining_batch]
        data = data.transpose(*order, *range(k, data.ndim)).reshape(*new_batch, nse, *data.shape[k + 1:])
        indices = indices.transpose(*order, k, k + 1).reshape(*new_batch, nse, len(remaining))
    return BCOO((data, indices), shape=shape)


_CLAMPING = (lax.GatherScatterMode.CLIP, lax.GatherScatterMode.PROMISE_IN_BOUNDS)


def bcoo_gather(operand: BCOO, start_indices: Array, dimension_numbers: lax.GatherDimensionNumbers,
                slice_sizes: Sequence[int], *,
                unique_indices: bool = False, indices_are_sorted: bool = False, mode: Any = None,
                    fill_value: Any = None) -> BCOO:
    """Gather slices of an array, as `lax.gather` does for dense arrays.

    Args:
        operand: BCOO array.
        start_indices: Starts of the slices. They are clamped so that the slices are within the array.
        dimension_numbers: Meaning of the dimensions.
        slice_sizes: Shape of a slice.
        unique_indices: Not used.
        indices_are_sorted: Not used.
        mode: None, "clip" or "promise_in_bounds". Out-of-bounds slices are clamped.
        fill_value: Not used.

    Returns:
        BCOO array.

    Example:
        >>> numbers = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
        >>> sparse.bcoo_gather(sparse.eye(3), xnp.array([[2], [0]]), numbers, (1, 3)).todense().tolist()
        [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    if mode is not None and lax.GatherScatterMode.from_any(mode) not in _CLAMPING:
        raise NotImplementedError(f"bcoo_gather does not support mode={mode!r}: out-of-bounds slices are clamped. Omit mode.")
    dn = dimension_numbers
    start_indices = xnp.asarray(start_indices)
    *batch, count = start_indices.shape
    if getattr(dn, "operand_batching_dims", ()):
        raise NotImplementedError("bcoo_gather does not support operand_batching_dims")
    if len(dn.start_index_map) != count:
        raise ValueError(f"bcoo_gather: the last dimension of start_indices of shape {start_indices.shape} must match "
                         f"start_index_map={dn.start_index_map}")
    return call_jitted(_gather, operand, start_indices, dn=dn, sizes=tuple(int(n) for n in slice_sizes))


def _gather(operand: BCOO, start_indices: Array, *, dn: lax.GatherDimensionNumbers, sizes: tuple[int, ...]) -> BCOO:
    *batch, count = start_indices.shape
    rows = start_indices.reshape(math.prod(batch), count)
    collapsed = sorted(dn.collapsed_slice_dims)

    def slice_at(row):
        starts = [0] * operand.ndim
        for i, d in enumerate(dn.start_index_map):
            starts[d] = xnp.clip(row[i], 0, operand.shape[d] - sizes[d])
        sliced = bcoo_dynamic_slice(operand, starts, sizes)
        return bcoo_squeeze(sliced, dimensions=collapsed) if collapsed else sliced

    shapes = []

    def buffers(row):
        sliced = slice_at(row)
        shapes.append(sliced.shape)
        return sliced._bufs

    data, indices = vmap(buffers)(rows)
    result = BCOO((data.reshape(*batch, *data.shape[1:]), indices.reshape(*batch, *indices.shape[1:])),
                 shape=(*batch, *shapes[0]))
    rank = result.ndim
    others = [d for d in range(rank) if d not in dn.offset_dims]
    permutation = [0] * rank
    for d, origin in zip((*others, *dn.offset_dims), range(rank)):
        permutation[d] = origin
    if permutation == list(range(rank)):
        return result
    try:
        return result.transpose(permutation)
    except NotImplementedError:
        return bcoo_update_layout(result, n_batch=0, n_dense=result.n_dense).transpose(permutation)

