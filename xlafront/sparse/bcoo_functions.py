"""Functions of BCOO arrays: conversions, layouts, and what moves elements."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront import lax, numpy as xnp
from xlafront.core.dimensions import common_shape
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.sparse import places
from xlafront.sparse.base import SparseEfficiencyError, SparseEfficiencyWarning, shape_of
from xlafront.sparse.bcoo import BCOO, extract_p
from xlafront.sparse.operations import at_once, one_program, over_batches
from xlafront.transforms.batching.vmap import vmap


def bcoo_todense(mat: BCOO) -> Array:
    """The dense array that a BCOO array stands for; values of equal indices are added.

    - `mat`: the BCOO array.

    >>> sparse.bcoo_todense(sparse.eye(2))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    return mat.todense()


def bcoo_fromdense(mat: Array, *, nse: int | None = None, n_batch: int = 0, n_dense: int = 0, index_dtype: DTypeLike = np.int32
                   ) -> BCOO:
    """The BCOO array of a dense one.

    - `mat`: the dense array.
    - `nse`: how many elements to store for each batch, as many as the batch with the most has without; needed in transformed
      functions. Elements beyond it are lost, fewer are padded.
    - `n_batch`: how many leading dimensions are batches. `n_dense`: how many trailing ones are stored whole.
    - `index_dtype`: the dtype of indices.

    >>> sparse.bcoo_fromdense(xnp.array([[0., 2.], [3., 0.]])).indices.tolist()
    [[0, 1], [1, 0]]
    """
    return BCOO.fromdense(mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)


def bcoo_extract(sparr: BCOO, arr: ArrayLike, *, assume_unique: bool | None = None) -> BCOO:
    """The elements of a dense array at the places of a sparse one, as a sparse array of that layout.

    - `sparr`: the BCOO array whose indices say which elements. `arr`: the dense array, of its shape.
    - `assume_unique`: whether every place counts; with False only the first of equal ones does, so that their sum is the
      element. What `sparr.unique_indices` says without.

    >>> sparse.bcoo_extract(sparse.eye(2), xnp.array([[1., 2.], [3., 4.]])).data.tolist()
    [1.0, 4.0]
    """
    arr = xnp.asarray(arr)
    if arr.shape != sparr.shape:
        raise ValueError(f"bcoo_extract needs a dense array of the sparse one's shape {sparr.shape}, got shape {arr.shape}")
    unique = sparr.unique_indices if assume_unique is None else bool(assume_unique)
    return sparr.with_data(extract_p.bind(sparr.indices, arr, assume_unique=unique))


def bcoo_sort_indices(mat: BCOO) -> BCOO:
    """The array with indices in order, within each batch.

    - `mat`: the BCOO array.

    >>> mat = sparse.BCOO((xnp.array([1., 2.]), xnp.array([[1], [0]])), shape=(2,))
    >>> sparse.bcoo_sort_indices(mat).data.tolist()
    [2.0, 1.0]
    """
    return mat.sort_indices()


def bcoo_sum_duplicates(mat: BCOO, nse: int | None = None) -> BCOO:
    """The array with each index once, in order, and the values of equal ones added.

    - `mat`: the BCOO array.
    - `nse`: how many elements to store; as many as there are without, which transformed functions do not know.

    >>> mat = sparse.BCOO((xnp.array([1., 2.]), xnp.array([[1], [1]])), shape=(2,))
    >>> sparse.bcoo_sum_duplicates(mat).data.tolist()
    [3.0]
    """
    return mat.sum_duplicates(nse, remove_zeros=False)


def bcoo_eliminate_zeros(mat: BCOO, nse: int | None = None) -> BCOO:
    """The array without what is stored and zero; `nse` is how many elements to store."""
    return mat.sum_duplicates(nse)


def bcoo_transpose(mat: BCOO, *, permutation: Sequence[int]) -> BCOO:
    """The array with its dimensions in another order; batch, sparse and dense ones stay among themselves.

    - `mat`: the BCOO array. `permutation`: for each dimension of the result which of `mat` it is.

    >>> sparse.bcoo_transpose(sparse.eye(2, 3), permutation=(1, 0)).shape
    (3, 2)
    """
    return mat.transpose(permutation)


def bcoo_update_layout(mat: BCOO, *, n_batch: int | None = None, n_dense: int | None = None,
                       on_inefficient: str | None = "error"
                       ) -> BCOO:
    """The array with other numbers of batch and dense dimensions.

    - `mat`: the BCOO array.
    - `n_batch`, `n_dense`: how many leading and trailing dimensions are to be batches and dense; as they are without.
    - `on_inefficient`: what to do where more elements would be stored than now: "error", "warn" or None.

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

    def check(what: str, before: int, after: int, factor: int) -> None:
        if after <= before or factor * mat.nse <= mat.nse:
            return
        text = (f"bcoo_update_layout of an array of shape {mat.shape} stores {factor} times as many elements when {what} goes "
                f"from {before} to {after}. Give on_inefficient=None to do so, or 'warn'.")
        if on_inefficient == "error":
            raise SparseEfficiencyError(text)
        if on_inefficient == "warn":
            warnings.warn(text, SparseEfficiencyWarning, stacklevel=3)

    shape = mat.shape
    check("n_dense", mat.n_dense, n_dense, math.prod(shape[mat.ndim - n_dense:mat.ndim - mat.n_dense]))
    check("n_batch", mat.n_batch, n_batch, math.prod(shape[mat.n_batch:n_batch]))
    if n_batch < mat.n_batch:
        mat = _batch_to_sparse(mat, n_batch)
    if n_dense < mat.n_dense:
        mat = _dense_to_sparse(mat, n_dense)
    if n_dense > mat.n_dense:
        mat = _sparse_to_dense(mat, n_dense)
    return _sparse_to_batch(mat, n_batch) if n_batch > mat.n_batch else mat


@one_program
def _batch_to_sparse(mat: BCOO, n_batch: int) -> BCOO:
    data, indices = mat.broadcast_batch()
    moved = mat.shape[n_batch:mat.n_batch]
    batch, nse = mat.shape[:n_batch], math.prod(moved) * mat.nse
    numbers = [xnp.broadcast_to(lax.broadcasted_iota(indices.dtype, (*moved, mat.nse), d), (*batch, *moved, mat.nse))
               for d in range(len(moved))]
    indices = xnp.concatenate([xnp.stack(numbers, -1), indices], -1)
    return BCOO((data.reshape(*batch, nse, *data.shape[mat.n_batch + 1:]), indices.reshape(*batch, nse, indices.shape[-1])),
                shape=mat.shape)


@one_program
def _dense_to_sparse(mat: BCOO, n_dense: int) -> BCOO:
    k = mat.n_batch
    moved = mat.shape[mat.ndim - mat.n_dense:mat.ndim - n_dense]
    data = mat.data.reshape(*mat.data.shape[:k], mat.nse * math.prod(moved), *mat.data.shape[k + 1 + len(moved):])
    batch = mat.indices.shape[:k]
    old = xnp.broadcast_to(xnp.expand_dims(mat.indices, range(k + 1, k + 1 + len(moved))),
                           (*batch, mat.nse, *moved, mat.n_sparse))
    new = [xnp.broadcast_to(lax.broadcasted_iota(mat.indices.dtype, moved, d), (*batch, mat.nse, *moved))
           for d in range(len(moved))]
    indices = xnp.concatenate([old, xnp.stack(new, -1)], -1)
    return BCOO((data, indices.reshape(*batch, data.shape[k], mat.n_sparse + len(moved))), shape=mat.shape)


@one_program
def _sparse_to_dense(mat: BCOO, n_dense: int) -> BCOO:
    moved = n_dense - mat.n_dense
    left = mat.n_sparse - moved
    if left < 0:
        raise ValueError(f"bcoo_update_layout cannot make batch dimensions dense: n_dense={n_dense} for shape {mat.shape} with "
                         f"n_batch={mat.n_batch}")
    block = mat.shape[mat.n_batch + left:mat.n_batch + mat.n_sparse]

    def one(data, indices):
        rows = xnp.concatenate([xnp.arange(indices.shape[0], dtype=indices.dtype)[:, None], indices[:, left:]], -1)
        return places.add_at((indices.shape[0], *block, *data.shape[1:]), rows, data), indices[:, :left]

    return BCOO(over_batches(one, mat.n_batch)(*mat._bufs), shape=mat.shape)


@one_program
def _sparse_to_batch(mat: BCOO, n_batch: int) -> BCOO:
    k, moved = mat.n_batch, n_batch - mat.n_batch
    if moved > mat.n_sparse:
        raise ValueError(f"bcoo_update_layout cannot make dense dimensions batches: n_batch={n_batch} for shape {mat.shape} "
                         f"with n_dense={mat.n_dense}")
    batch = mat.shape[k:n_batch]

    def one(data, indices):  # each element once, in its batch; zeros in its place in the others
        numbers = xnp.arange(len(indices), dtype=indices.dtype)
        return (places.add_at((*batch, *data.shape), xnp.concatenate([indices[:, :moved], numbers[:, None]], -1), data),
                xnp.broadcast_to(indices[:, moved:], (*batch, len(indices), indices.shape[1] - moved)))

    return BCOO(over_batches(one, k)(*mat._bufs), shape=mat.shape)


@one_program
def bcoo_broadcast_in_dim(mat: BCOO, *, shape: Sequence[int], broadcast_dimensions: Sequence[int],
                          sharding: Any = None) -> BCOO:
    """The array with additional dimensions, as `lax.broadcast_in_dim` makes of a dense one.

    New dimensions before the sparse ones are batches; among and after them they must be of size 1, but for those among dense
    dimensions.

    - `mat`: the BCOO array. `shape`: of the result.
    - `broadcast_dimensions`: for each dimension of `mat` which of the result it becomes.
    - `sharding`: must be None.

    >>> sparse.bcoo_broadcast_in_dim(sparse.eye(2), shape=(3, 2, 2), broadcast_dimensions=(1, 2)).n_batch
    1
    """
    _refuse_sharding("bcoo_broadcast_in_dim", sharding)
    shape, dims = shape_of(shape), tuple(map(int, broadcast_dimensions))
    if len(dims) != mat.ndim or any(n not in (1, shape[d]) for n, d in zip(mat.shape, dims)):
        raise ValueError(f"bcoo_broadcast_in_dim cannot make shape {shape} of {mat.shape} with broadcast_dimensions={dims}: "
                         "each dimension must be named, and keep its size or have size 1")
    batch_dims, sparse_dims = dims[:mat.n_batch], dims[mat.n_batch:mat.n_batch + mat.n_sparse]
    dense_dims = dims[mat.n_batch + mat.n_sparse:]
    start = min(sparse_dims or dense_dims, default=len(shape))
    stop = min(dense_dims) if mat.n_dense else len(shape)
    if mat.n_sparse and mat.n_dense == 0:
        stop = len(shape)
    new_sparse = [d for d in range(start, stop) if d not in sparse_dims]
    if any(shape[d] != 1 for d in new_sparse) or any(mat.shape[mat.n_batch + i] != shape[d] for i, d in enumerate(sparse_dims)):
        raise NotImplementedError(f"bcoo_broadcast_in_dim cannot make sparse dimensions longer, as {shape} of {mat.shape} with "
                                  f"n_batch={mat.n_batch} and n_sparse={mat.n_sparse} needs. Those added must be of length 1.")
    n_batch = start
    batch_sizes = [shape[d] if d not in batch_dims else None for d in range(n_batch)]

    def batch_of(x):
        return [x.shape[batch_dims.index(d)] if size is None else size for d, size in enumerate(batch_sizes)]

    data = lax.broadcast_in_dim(mat.data, (*batch_of(mat.data), mat.nse, *shape[stop:]),
                                (*batch_dims, n_batch, *[n_batch + 1 + d - stop for d in dense_dims]))
    indices = lax.broadcast_in_dim(mat.indices, (*batch_of(mat.indices), mat.nse, mat.n_sparse),
                                   (*batch_dims, n_batch, n_batch + 1))
    if new_sparse:
        # Padding is still recognized: indices of the dimensions that were there are out of bounds.
        columns = [indices[..., sparse_dims.index(d)] if d in sparse_dims else xnp.zeros(indices.shape[:-1], indices.dtype)
                   for d in range(start, stop)]
        indices = xnp.stack(columns, -1)
    return BCOO((data, indices), shape=shape)


def _refuse_sharding(name: str, sharding: Any) -> None:
    if sharding is not None:
        raise NotImplementedError(f"{name} takes no sharding, got {sharding}: constrain data and indices instead")


@one_program
def bcoo_concatenate(operands: Sequence[BCOO], *, dimension: int) -> BCOO:
    """Arrays one after another along a batch or sparse dimension.

    - `operands`: BCOO arrays of one layout. `dimension`: along which.

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
        raise ValueError("bcoo_concatenate needs arrays of one layout, got (n_batch, n_sparse, n_dense) of "
                         f"{sorted(layouts)}: change them with update_layout")
    if not 0 <= dimension < first.ndim:
        raise TypeError(f"bcoo_concatenate along dimension {dimension} of arrays of {first.ndim} dimensions")
    outer = {op.shape[:dimension] + op.shape[dimension + 1:] for op in operands}
    if len(outer) > 1:
        raise TypeError("bcoo_concatenate needs shapes that differ in the dimension along which it concatenates only, "
                        f"got {[op.shape for op in operands]} for dimension {dimension}")
    size = sum(op.shape[dimension] for op in operands)
    shape = (*first.shape[:dimension], size, *first.shape[dimension + 1:])
    n_batch, n_sparse = first.n_batch, first.n_sparse
    if dimension >= n_batch + n_sparse:
        raise NotImplementedError(f"bcoo_concatenate along dimension {dimension}, which is dense: make it sparse with "
                                  "update_layout")
    if dimension < n_batch:
        nse = max(op.nse for op in operands)
        parts = [_padded(op, nse).broadcast_batch() for op in operands]
        return BCOO((xnp.concatenate([d for d, _ in parts], dimension), xnp.concatenate([i for _, i in parts], dimension)),
                    shape=shape)
    parts, offset = [], 0
    column = dimension - n_batch
    for op in operands:
        inside = op.indices[..., column] < op.shape[dimension]
        moved = xnp.where(inside, op.indices[..., column] + offset, size).astype(op.indices.dtype)
        parts.append((op.data, op.indices.at[..., column].set(moved)))
        offset += op.shape[dimension]
    batches = [common_batch([part[i] for part in parts], n_batch) for i in (0, 1)]
    return BCOO((xnp.concatenate(batches[0], n_batch), xnp.concatenate(batches[1], n_batch)), shape=shape)


def common_batch(arrays: Sequence[Array], n_batch: int) -> list[Array]:
    """The arrays with the same batch dimensions, where those of some are 1."""
    batch = common_shape(*[x.shape[:n_batch] for x in arrays])
    return [xnp.broadcast_to(x, (*batch, *x.shape[n_batch:])) for x in arrays]


def _padded(mat: BCOO, nse: int) -> BCOO:
    """The array with this many elements stored, of at least as many as there are."""
    if mat.nse == nse:
        return mat
    k = mat.n_batch
    fill = places.padding_row(mat.shape[k:k + mat.n_sparse], mat.indices.dtype)
    more = nse - mat.nse
    data = xnp.concatenate([mat.data, xnp.zeros((*mat.data.shape[:k], more, *mat.data.shape[k + 1:]), mat.dtype)], k)
    indices = xnp.concatenate([mat.indices, xnp.broadcast_to(fill, (*mat.indices.shape[:k], more, mat.n_sparse))], k)
    return BCOO((data, indices), shape=mat.shape)


def _split_shape(name: str, mat: BCOO, new: Sequence[int]) -> tuple[int, int]:
    """How many dimensions of a new shape are batches, and how many sparse: as many as have their product."""
    groups = (mat.shape[:mat.n_batch], mat.shape[mat.n_batch:mat.n_batch + mat.n_sparse])
    start, counts = 0, []
    for kinds, group in zip(("batch and sparse", "sparse and dense"), groups):
        wanted = math.prod(group)
        fits = [stop for stop in range(start, len(new) + 1) if math.prod(new[start:stop]) == wanted]
        if not fits:
            raise ValueError(f"{name} cannot mix {kinds} dimensions: shape {mat.shape} with n_batch={mat.n_batch} and "
                             f"n_dense={mat.n_dense} cannot become {tuple(new)}. Change that with update_layout.")
        stop = start + len(group) if start + len(group) in fits and not wanted else fits[-1]
        counts.append(stop - start)
        start = stop
    return counts[0], counts[1]


@one_program
def bcoo_reshape(mat: BCOO, *, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None, sharding: Any = None) -> BCOO:
    """The array with another shape and the same elements in row-major order.

    Batch, sparse and dense dimensions are reshaped each among themselves.

    - `mat`: the BCOO array. `new_sizes`: the shape.
    - `dimensions`: an order into which to bring the dimensions before. `sharding`: must be None.

    >>> sparse.bcoo_reshape(sparse.eye(2), new_sizes=(4,)).todense().tolist()
    [1.0, 0.0, 0.0, 1.0]
    """
    _refuse_sharding("bcoo_reshape", sharding)
    if dimensions is not None and tuple(dimensions) != tuple(range(mat.ndim)):
        mat = mat.transpose(dimensions)
    new = shape_of(new_sizes)
    if math.prod(new) != mat.size:
        raise ValueError(f"bcoo_reshape cannot make shape {new} of shape {mat.shape}, which has {mat.size} elements: give a "
                         f"shape of as many, each size a number.")
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
    old = mat.shape[mat.n_batch:mat.n_batch + mat.n_sparse]
    indices = indices.reshape(*indices_batch, mat.nse, mat.n_sparse)
    if old != sparse:
        inside = lax.optimization_barrier(places.in_bounds(indices, old))
        indices = places.rows_where(inside, _renumbered(indices, old, sparse), sparse, indices.dtype)
    return BCOO((data.reshape(*data_batch, mat.nse, *dense), indices), shape=new)


def _renumbered(indices: Array, old: Sequence[int], new: Sequence[int]) -> list[Array]:
    """Indices in an array of shape `old` as those in its reshape to `new`, column by column."""
    dtype = indices.dtype if math.prod(old) < np.iinfo(indices.dtype).max else np.dtype(np.int32)
    flat = xnp.zeros(indices.shape[:-1], dtype)
    for n, column in zip(old, places.columns_of(indices)):
        flat = flat * n + column.astype(dtype)
    flat = lax.optimization_barrier(flat)
    strides = [math.prod(new[d + 1:]) for d in range(len(new))]
    return [lax.rem(lax.div(flat, dtype.type(max(stride, 1))), dtype.type(max(n, 1))) for n, stride in zip(new, strides)]


@one_program
def bcoo_rev(operand: BCOO, dimensions: Sequence[int]) -> BCOO:
    """The array with the order of elements along some dimensions reversed.

    - `operand`: the BCOO array. `dimensions`: which.

    >>> sparse.bcoo_rev(sparse.eye(2), (0,)).todense().tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    k, s = operand.n_batch, operand.n_sparse
    dims = [int(d) for d in dimensions]
    if len(set(dims)) != len(dims) or any(not 0 <= d < operand.ndim for d in dims):
        raise ValueError(f"bcoo_rev takes distinct dimensions of an array of {operand.ndim}, got {tuple(dimensions)}")
    data, indices = operand._bufs
    batch = [d for d in dims if d < k]
    # A batch dimension of size 1 is the same in all: there is nothing to reverse.
    data = lax.rev(data, [*batch, *[d - s + 1 for d in dims if d >= k + s]])
    indices = lax.rev(indices, batch)
    for d in (d - k for d in dims if k <= d < k + s):
        size = operand.shape[k + d]
        column = indices[..., d]
        indices = indices.at[..., d].set(xnp.where(column < size, size - 1 - column, size).astype(indices.dtype))
    return BCOO((data, indices), shape=operand.shape)


@one_program
def bcoo_squeeze(arr: BCOO, *, dimensions: Sequence[int]) -> BCOO:
    """The array without some dimensions of size 1.

    - `arr`: the BCOO array. `dimensions`: which to leave out.

    >>> sparse.bcoo_squeeze(sparse.eye(1, 3), dimensions=(0,)).shape
    (3,)
    """
    dims = sorted({d + arr.ndim if d < 0 else d for d in map(int, dimensions)})
    if any(not 0 <= d < arr.ndim or arr.shape[d] != 1 for d in dims):
        raise ValueError(f"bcoo_squeeze leaves out dimensions of size 1, got {tuple(dimensions)} for shape {arr.shape}")
    k, s = arr.n_batch, arr.n_sparse
    batch = [d for d in dims if d < k]
    kept = [d for d in range(s) if d + k not in dims]
    data = lax.squeeze(arr.data, [*batch, *[d - s + 1 for d in dims if d >= k + s]])
    inside = _inside_without(arr, kept) if len(kept) < s else None
    indices = arr.indices
    if inside is not None:
        indices = places.rows_where(inside, [indices[..., d] for d in kept], [arr.shape[k + d] for d in kept], indices.dtype)
        data = _zero_padding(data, inside, arr, batch) if not kept else data
    return BCOO((data, lax.squeeze(indices, batch)), shape=[n for d, n in enumerate(arr.shape) if d not in dims],
                indices_sorted=arr.indices_sorted, unique_indices=arr.unique_indices and (bool(kept) or arr.nse <= 1))


def _inside_without(mat: BCOO, kept: Sequence[int]) -> Array:
    """Which places lie inside in the sparse dimensions that are not kept; the indices in the others say it themselves."""
    gone = [d for d in range(mat.n_sparse) if d not in kept]
    return places.in_bounds(xnp.stack([mat.indices[..., d] for d in gone], -1), [mat.shape[mat.n_batch + d] for d in gone])


def _zero_padding(data: Array, inside: Array, arr: BCOO, batch: Sequence[int]) -> Array:
    """Values of padding as zeros, where no index is left that would say that they are."""
    inside = lax.squeeze(inside, batch)
    shape = common_shape(data.shape[:inside.ndim], inside.shape)
    return places.zero_unless(inside, xnp.broadcast_to(data, (*shape, *data.shape[inside.ndim:])))


@one_program
def bcoo_slice(mat: BCOO, *, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Sequence[int] | None = None
               ) -> BCOO:
    """A part of an array between fixed bounds, as `lax.slice` takes of a dense one.

    - `mat`: the BCOO array.
    - `start_indices`, `limit_indices`: for each dimension the first index, and the one after the last.
    - `strides`: steps between indices.

    >>> sparse.bcoo_slice(sparse.eye(3), start_indices=(1, 0), limit_indices=(3, 2)).todense().tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """
    starts, limits = shape_of(start_indices), shape_of(limit_indices)
    steps = [1] * mat.ndim if strides is None else [int(i) for i in strides]
    if not len(starts) == len(limits) == len(steps) == mat.ndim:
        raise ValueError(f"bcoo_slice needs one bound for each dimension of shape {mat.shape}, got start_indices={starts}, "
                         f"limit_indices={limits} and strides={strides}")
    if any(not 0 <= start <= limit <= n for start, limit, n in zip(starts, limits, mat.shape)) or any(s < 1 for s in steps):
        raise ValueError(f"bcoo_slice needs bounds in order and inside of shape {mat.shape}, and positive strides, got "
                         f"start_indices={starts}, limit_indices={limits} and strides={steps}")
    sizes = [-(-(limit - start) // step) for start, limit, step in zip(starts, limits, steps)]
    k, s = mat.n_batch, mat.n_sparse
    data, indices = mat._bufs
    slices = [slice(*bounds) for bounds in zip(starts, limits, steps)]
    data = data[tuple([slice(None) if n == 1 and mat.shape[d] != 1 else slices[d] for d, n in enumerate(data.shape[:k])])
                + (slice(None), *slices[k + s:])]
    indices = indices[tuple([slice(None) if n == 1 and mat.shape[d] != 1 else slices[d]
                             for d, n in enumerate(indices.shape[:k])])]
    columns = places.columns_of(indices)
    inside = places.between(columns, starts[k:k + s], limits[k:k + s], indices.shape[:-1])
    columns = [column - start for column, start in zip(columns, starts[k:k + s])]
    for d, step in enumerate(steps[k:k + s]):
        if step != 1:
            # Those before the start are outside already, whatever their remainder is.
            step = columns[d].dtype.type(step)
            inside, columns[d] = inside & (lax.rem(columns[d], step) == 0), lax.div(columns[d], step)
    return _cut(mat, data, columns, inside, sizes)


def _cut(mat: BCOO, data: Array, columns: Sequence[Array], inside: Array, sizes: Sequence[int]) -> BCOO:
    """A part of `mat`: its elements with new indices where `inside`, and no more of them than the part can have."""
    k, s = mat.n_batch, mat.n_sparse
    shape = sizes[k:k + s]
    batch = common_shape(data.shape[:k], inside.shape[:k])
    data, indices = places.keep_where(inside, xnp.broadcast_to(data, (*batch, *data.shape[k:])), columns, shape,
                                      mat.indices.dtype)
    found = BCOO((data, indices), shape=sizes)
    limit = math.prod(shape)
    return BCOO(found.sum_duplicates(limit, remove_zeros=False)._bufs, shape=sizes) if s and limit < mat.nse else found


def bcoo_dynamic_slice(mat: BCOO, start_indices: Sequence[Any], slice_sizes: Sequence[int]) -> BCOO:
    """A part of an array of fixed size from indices that may be traced, as `lax.dynamic_slice` takes of a dense one.

    - `mat`: the BCOO array.
    - `start_indices`: for each dimension the first index; it is moved so that the part is within the array.
    - `slice_sizes`: the shape of the part.

    >>> sparse.bcoo_dynamic_slice(sparse.eye(3), (1, 1), (2, 2)).todense().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    starts, sizes = [xnp.asarray(i) for i in start_indices], [int(n) for n in slice_sizes]
    if not len(starts) == len(sizes) == mat.ndim:
        raise ValueError(f"bcoo_dynamic_slice needs a start and a size for each dimension of shape {mat.shape}, got "
                         f"{len(starts)} and {len(sizes)}")
    if any(not 0 <= size <= n for size, n in zip(sizes, mat.shape)):
        raise TypeError(f"bcoo_dynamic_slice takes parts no larger than the array: sizes {sizes} of shape {mat.shape}")
    return at_once(_dynamic_slice, mat, starts, sizes=tuple(sizes))


def _dynamic_slice(mat: BCOO, starts: Sequence[Array], *, sizes: tuple[int, ...]) -> BCOO:
    k, s = mat.n_batch, mat.n_sparse
    data, indices = mat._bufs
    starts = [xnp.clip(xnp.where(i < 0, i + n, i), 0, n - size) for i, n, size in zip(starts, mat.shape, sizes)]

    def part(x, dense):
        batch = [(0, n) if n == 1 and mat.shape[d] != 1 else (starts[d], sizes[d]) for d, n in enumerate(x.shape[:k])]
        rest = [(0, n) for n in x.shape[k:x.ndim - dense]] + [(starts[d], sizes[d]) for d in range(mat.ndim - dense, mat.ndim)]
        return lax.dynamic_slice(x, [start for start, _ in batch + rest], [size for _, size in batch + rest])

    data, indices = part(data, mat.n_dense), part(indices, 0)
    begin = [i.astype(indices.dtype) for i in starts[k:k + s]]
    columns = places.columns_of(indices)
    inside = places.between(columns, begin, [first + size for first, size in zip(begin, sizes[k:])], indices.shape[:-1])
    return _cut(mat, data, [column - first for column, first in zip(columns, begin)], inside, sizes)


@one_program
def bcoo_reduce_sum(mat: BCOO, *, axes: Sequence[int]) -> BCOO:
    """The sum of elements along some dimensions, as a sparse array.

    - `mat`: the BCOO array. `axes`: the dimensions.

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
    kept = [d for d in range(s) if k + d not in axes]
    if len(kept) < s:
        inside = _inside_without(mat, kept)
        indices = places.rows_where(inside, [indices[..., d] for d in kept], [mat.shape[k + d] for d in kept], indices.dtype)
        if not kept:
            batch = common_shape(data.shape[:k], inside.shape[:k])
            data = places.zero_unless(inside, xnp.broadcast_to(data, (*batch, *data.shape[k:])))
    batch_axes = [a for a in axes if a < k]
    if batch_axes:
        full = mat.shape[:k]
        data = xnp.broadcast_to(data, (*full, *data.shape[k:]))
        indices = xnp.broadcast_to(indices, (*full, *indices.shape[k:]))
        left = [d for d in range(k) if d not in batch_axes]
        order = [*left, *batch_axes]
        nse = math.prod(full[a] for a in batch_axes) * mat.nse
        data = data.transpose(*order, *range(k, data.ndim)).reshape(*[full[d] for d in left], nse, *data.shape[k + 1:])
        indices = indices.transpose(*order, k, k + 1).reshape(*[full[d] for d in left], nse, len(kept))
    return BCOO((data, indices), shape=shape)


def bcoo_gather(operand: BCOO, start_indices: Array, dimension_numbers: lax.GatherDimensionNumbers,
                slice_sizes: Sequence[int], *,
                unique_indices: bool = False, indices_are_sorted: bool = False, mode: Any = None,
                    fill_value: Any = None) -> BCOO:
    """Parts of an array from traced indices, as `lax.gather` takes of a dense one.

    - `operand`: the BCOO array. `start_indices`: where parts begin; they are moved to be within the array.
    - `dimension_numbers`: what its dimensions mean. `slice_sizes`: the size of a part.
    - `unique_indices`, `indices_are_sorted`: what holds of `start_indices`, to no effect here.
    - `mode`: what becomes of indices out of bounds; parts are moved in any case. `fill_value`: must be None.

    >>> numbers = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    >>> sparse.bcoo_gather(sparse.eye(3), xnp.array([[2], [0]]), numbers, (1, 3)).todense().tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    if fill_value is not None:
        raise NotImplementedError("bcoo_gather has no fill_value: parts out of bounds are moved into the array")
    dn = dimension_numbers
    start_indices = xnp.asarray(start_indices)
    *batch, count = start_indices.shape
    if getattr(dn, "operand_batching_dims", ()):
        raise NotImplementedError("bcoo_gather takes no operand_batching_dims")
    if len(dn.start_index_map) != count:
        raise ValueError(f"bcoo_gather has start_indices of shape {start_indices.shape}, whose last dimension must go with "
                         f"start_index_map={dn.start_index_map}")
    return at_once(_gather, operand, start_indices, dn=dn, sizes=tuple(int(n) for n in slice_sizes))


def _gather(operand: BCOO, start_indices: Array, *, dn: lax.GatherDimensionNumbers, sizes: tuple[int, ...]) -> BCOO:
    *batch, count = start_indices.shape
    rows = start_indices.reshape(math.prod(batch), count)
    collapsed = sorted(dn.collapsed_slice_dims)

    def part(row):
        starts = [0] * operand.ndim
        for i, d in enumerate(dn.start_index_map):
            starts[d] = xnp.clip(row[i], 0, operand.shape[d] - sizes[d])
        found = bcoo_dynamic_slice(operand, starts, sizes)
        return bcoo_squeeze(found, dimensions=collapsed) if collapsed else found

    shapes = []

    def buffers(row):
        found = part(row)
        shapes.append(found.shape)
        return found._bufs

    data, indices = vmap(buffers)(rows)
    whole = BCOO((data.reshape(*batch, *data.shape[1:]), indices.reshape(*batch, *indices.shape[1:])),
                 shape=(*batch, *shapes[0]))
    rank = whole.ndim
    others = [d for d in range(rank) if d not in dn.offset_dims]
    permutation = [0] * rank
    for d, source in zip((*others, *dn.offset_dims), range(rank)):
        permutation[d] = source
    if permutation == list(range(rank)):
        return whole
    try:
        return whole.transpose(permutation)
    except NotImplementedError:
        return bcoo_update_layout(whole, n_batch=0, n_dense=whole.n_dense).transpose(permutation)

