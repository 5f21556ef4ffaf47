"""BCOO arrays, and the operations on the two arrays of which one consists: `data` and `indices`.

Of an array of shape `(*batch, *sparse, *dense)`, `indices[*b, k]` is a place in the sparse dimensions and `data[*b, k]` the
dense block there. Batch dimensions of either may be 1 where the array's are not. A place out of bounds is padding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from xlafront import lax, numpy as xnp
from xlafront.core import errors, tracing, tree
from xlafront.core.dimensions import common_shape, is_symbolic
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.sparse import places
from xlafront.sparse.base import JAXSparse, SparseInfo, check_index_dtype, shape_of
from xlafront.sparse.operations import at_once, fromdense_jvp, operation, over_batches
from xlafront.transforms.batching.vmap import vmap


class BCOOProperties(NamedTuple):
    """The layout of a BCOO array: how many dimensions of each kind, and how many elements are stored for each batch."""

    n_batch: int
    n_sparse: int
    n_dense: int
    nse: int


def layout_of_indices(indices: Any, shape: Sequence[int]) -> BCOOProperties:
    """What an array of indices says of the layout of an array of this shape, after checking that they agree."""
    check_index_dtype("the indices of a BCOO array", indices)
    if len(np.shape(indices)) < 2:
        raise ValueError(f"the indices of a BCOO array have dimensions (*batch, nse, n_sparse), got shape {np.shape(indices)}")
    *batch, nse, n_sparse = indices.shape
    n_batch, n_dense = len(batch), len(shape) - len(batch) - n_sparse
    if n_dense < 0:
        raise AssertionError(f"indices of shape {indices.shape} are those of an array of at least {n_batch + n_sparse} "
                             f"dimensions, not of one of shape {tuple(shape)}")
    if any(n not in (1, wanted) for n, wanted in zip(batch, shape)):
        raise ValueError(f"the indices' batch dimensions {tuple(batch)} do not go with those of shape {tuple(shape)}: each "
                         "must be the same or 1")
    return BCOOProperties(n_batch, n_sparse, n_dense, nse)


def layout_of(data: Any, indices: Any, shape: Sequence[int]) -> BCOOProperties:
    """The layout of a BCOO array of these parts, after checking that they agree."""
    found = layout_of_indices(indices, shape)
    n_batch, n_sparse, n_dense, nse = found
    wanted = (*shape[:n_batch], nse, *shape[n_batch + n_sparse:])
    fits = len(data.shape) == len(wanted) and data.shape[n_batch:] == wanted[n_batch:] and all(
        n in (1, size) for n, size in zip(data.shape[:n_batch], wanted))
    if not fits:
        raise ValueError(f"the data of a BCOO array of shape {tuple(shape)} with nse={nse}, n_batch={n_batch}, "
                         f"n_dense={n_dense} has shape {wanted} (batch dimensions may be 1), got {tuple(data.shape)}")
    return found


# The operations


def _todense(data, indices, *, spinfo):
    n_batch = indices.ndim - 2
    found = over_batches(lambda d, i: places.add_at(
        (*spinfo.shape[n_batch:n_batch + i.shape[-1]], *d.shape[1:]), i, d), n_batch)(data, indices)
    return xnp.broadcast_to(found, spinfo.shape)


def _fromdense(mat, *, nse, n_batch, n_dense, index_dtype):
    def one(block):
        n_sparse = block.ndim - n_dense
        mask = xnp.any(block != 0, tuple(range(n_sparse, block.ndim)))
        if n_sparse == 0:
            indices = xnp.zeros((nse, 0), index_dtype)
            return places.zero_unless((xnp.arange(nse) < 1) & mask, xnp.broadcast_to(block, (nse, *block.shape))), indices
        found = xnp.nonzero(mask, size=nse, fill_value=mask.shape)
        indices = xnp.stack([i.astype(index_dtype) for i in found], -1)
        return places.take_at(block, indices), indices

    return over_batches(one, n_batch)(mat)


def _extract(indices, arr, *, assume_unique):
    def one(index, block):
        found = places.take_at(block, index)
        if assume_unique or not len(index):
            return found
        numbers = xnp.arange(len(index), dtype=np.int32)
        if not index.shape[-1]:
            return places.zero_unless(numbers == 0, found)
        shape = block.shape[:index.shape[-1]]
        dimensions = tuple(range(len(shape)))
        first = lax.scatter_min(xnp.full(shape, len(index), np.int32), index, numbers, lax.ScatterDimensionNumbers(
            (), dimensions, dimensions), mode="drop")
        return places.zero_unless(places.take_at(first, index) == numbers, found)

    return over_batches(one, indices.ndim - 2)(indices, arr)


def _transpose(data, indices, *, permutation, spinfo):
    n_batch, n_sparse, _, _ = layout_of(data, indices, spinfo.shape)
    batch, sparse = permutation[:n_batch], [p - n_batch for p in permutation[n_batch:n_batch + n_sparse]]
    dense = [p - n_sparse + 1 for p in permutation[n_batch + n_sparse:]]
    return (data.transpose(*batch, n_batch, *dense),
            indices.transpose(*batch, n_batch, n_batch + 1)[..., np.array(sparse, int)])


def _sort(data, indices, *, spinfo):
    n_batch, n_sparse, _, _ = layout_of(data, indices, spinfo.shape)
    shape = spinfo.shape[n_batch:n_batch + n_sparse]
    return over_batches(lambda d, i: places.sort_rows(d, i, shape), n_batch)(data, indices)


def _sum_duplicates(data, indices, *, spinfo, nse):
    n_batch, n_sparse, _, _ = layout_of(data, indices, spinfo.shape)
    shape = spinfo.shape[n_batch:n_batch + n_sparse]
    return over_batches(lambda d, i: places.sum_groups(d, i, shape, nse), n_batch)(data, indices)


def _dot_general(data, indices, rhs, *, dimension_numbers, preferred_element_type, lhs_spinfo, rows_outside="drop"):
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    shape = lhs_spinfo.shape
    n_batch, n_sparse, _, _ = layout_of(data, indices, shape)
    dtype = xnp.promote_types(data.dtype, rhs.dtype)
    data, rhs = data.astype(dtype), rhs.astype(dtype)
    # The batch dimensions of lhs, each with the dimension of rhs that goes with it.
    partner = dict(zip((*lhs_batch, *lhs_contract), (*rhs_batch, *rhs_contract)))
    sparse = range(n_batch, n_batch + n_sparse)
    summed = [d - n_batch for d in sparse if d in partner]
    free = [d - n_batch for d in sparse if d not in partner]
    first = [partner[d + n_batch] for d in summed]
    axes, left = [], list(range(rhs.ndim))
    for d in range(n_batch):
        axes.append(left.index(partner[d]) if d in partner else None)
        if d in partner:
            left.remove(partner[d])
    order = [left.index(d) for d in (*first, *[d for d in left if d not in first])]
    free_shape = tuple(shape[n_batch + d] for d in free)

    def one(d, i, r):
        r = r.transpose(order)
        columns, rows = i[:, np.array(summed, int)], i[:, np.array(free, int)]
        if not summed:
            found = d.reshape(d.shape + (1,) * r.ndim) * r
        else:
            if not free:
                return lax.dot_general(d, places.take_at(r, columns), (((0,), (0,)), ((), ())))
            # Padding is left out when rows are added; of what else lies outside only the numbers are made zero, not whole rows.
            read = places.take_at(r, columns, "clip")
            inside = places.in_bounds(columns, r.shape[:len(summed)])
            if rows_outside == "clip":
                inside &= places.in_bounds(rows, free_shape)
            d = places.zero_unless(inside, d)
            found = d.reshape(d.shape + (1,) * (read.ndim - 1)) * read.reshape(
                (len(read),) + (1,) * (d.ndim - 1) + read.shape[1:])
        return places.add_at((*free_shape, *found.shape[1:]), rows, found, rows_outside if summed else "drop")

    found = _over_pairs(one, shape[:n_batch], axes)(data, indices, rhs)
    # Dimensions of what was found: those of the batch of lhs, then free sparse, dense, and free ones of rhs.
    contracted = tuple(d for d in lhs_contract if d < n_batch)
    kept = [d for d in range(n_batch) if d not in contracted]
    if contracted:
        found = found.sum(contracted, dtype=found.dtype)
    position = {d: k for k, d in enumerate(kept)}
    leading = [position[d] for d in (*lhs_batch, *[d for d in kept if d not in lhs_batch])]
    found = found.transpose(*leading, *range(len(kept), found.ndim))
    return found if preferred_element_type is None else found.astype(preferred_element_type)


def _dense_dot_general(data, indices, rhs, *, dimension_numbers, preferred_element_type, lhs_spinfo):
    dtype = xnp.promote_types(data.dtype, rhs.dtype)
    found = lax.dot_general(_todense(data.astype(dtype), indices, spinfo=lhs_spinfo), rhs.astype(dtype), dimension_numbers,
                            precision=lax.Precision.HIGHEST)
    return found if preferred_element_type is None else found.astype(preferred_element_type)


def _dot_of_values(data, indices, rhs, **params):
    """As a function of values: its transpose makes numbers zero, and not rows of the cotangent that it reads."""
    return _dot_general(data, indices, rhs, rows_outside="clip", **params)


def _dot_to_transpose(wanted, avals, *, dimension_numbers, lhs_spinfo, **params):
    """The derivative in many values is that of a dense array at their places."""
    data, indices, _ = avals
    if wanted != 0:
        return None
    batch = math.prod(lhs_spinfo.shape[:indices.ndim - 2]) if not is_symbolic(lhs_spinfo.shape) else 0
    many = places.are_many(batch * data.size // max(math.prod(data.shape[:indices.ndim - 2]), 1),
                                           lhs_spinfo.shape, data.dtype, 50)
    return _dense_dot_general if many else _dot_of_values


def _over_pairs(function, sizes, axes):
    """`function(data, indices, rhs)` over batch dimensions of these sizes, each paired with a dimension of rhs or with none."""
    if not sizes:
        return function

    def mapped(data, indices, rhs):
        from_data, from_indices = (None if x.shape[0] == 1 and sizes[0] != 1 else 0 for x in (data, indices))
        inner = _over_pairs(function, sizes[1:], axes[1:])
        return vmap(inner, (from_data, from_indices, axes[0]), axis_size=sizes[0])(
            data[0] if from_data is None else data, indices[0] if from_indices is None else indices, rhs)

    return mapped


todense_p = operation("bcoo_todense", _todense, (0,))
fromdense_p = operation("bcoo_fromdense", _fromdense, (), multiple_results=True, jvp=fromdense_jvp(
    lambda mat, **params: fromdense_p.bind(mat, **params),
    lambda parts, mat: extract_p.bind(parts[1], mat, assume_unique=True)))
extract_p = operation("bcoo_extract", _extract, (1,))
transpose_p = operation("bcoo_transpose", _transpose, (0,), multiple_results=True)
sort_indices_p = operation("bcoo_sort_indices", _sort, (0,), multiple_results=True)
sum_duplicates_p = operation("bcoo_sum_duplicates", _sum_duplicates, (0,), multiple_results=True)
dot_general_p = operation("bcoo_dot_general", _dot_general, (0, 2), to_transpose=_dot_to_transpose)


def known_number(count: Any, what: str) -> int:
    """A number that depends on values, and has to be known for the shape of a result."""
    known = count._concrete() if isinstance(count, tracing.Tracer) else count
    if known is None:
        raise errors.ConcretizationTypeError(count, f"The number of elements that {what} stores depends on values: give nse=.")
    return int(known)


def unique_count(data: Array, indices: Array, shape: tuple[int, ...]) -> int:
    """How many places the batch with the most of them has."""
    n_batch, n_sparse, _, _ = layout_of(data, indices, shape)
    if isinstance(indices, tracing.Tracer) and indices._concrete() is None:
        raise ValueError("bcoo_sum_duplicates: nse must be specified when it is called in jit, vmap and other transformations, "
                         "as the number of distinct indices depends on values.")
    return int(at_once(_most_groups, indices, shape=shape[n_batch:n_batch + n_sparse]))


def _most_groups(indices: Array, *, shape: tuple[int, ...]) -> Array:
    counts = over_batches(lambda i: places.count_groups(i, shape), indices.ndim - 2)(indices)
    return xnp.max(counts) if counts.size else xnp.zeros((), np.int32)


def _without_zeros(data: Array, indices: Array, *, shape: tuple[int, ...]) -> Array:
    """Indices, out of bounds where what is stored is zero."""
    n_batch, n_sparse, _, _ = layout_of(data, indices, shape)
    zero = xnp.all(data == 0, tuple(range(n_batch + 1, data.ndim)))
    batch = common_shape(zero.shape[:n_batch], indices.shape[:n_batch])
    columns = [xnp.broadcast_to(column, (*batch, *column.shape[n_batch:])) for column in places.columns_of(indices)]
    return places.rows_where(~zero, columns, shape[n_batch:n_batch + n_sparse], indices.dtype)


class BCOO(JAXSparse):
    """Sparse arrays of any number of dimensions, as coordinates and values, with batches.

    An array of shape `(*batch, *sparse, *dense)` has `indices` of shape `(*batch, nse, n_sparse)` and `data` of shape
    `(*batch, nse, *dense)`. Batch dimensions of either may be 1, for what is the same in all. Values of equal indices add up;
    indices out of bounds are padding.

    - `args`: `(data, indices)`.
    - `shape`: of the array.
    - `indices_sorted`: whether indices are in order within each batch.
    - `unique_indices`: whether no index occurs twice within a batch, padding aside.

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
    origin: Any = None  # under `sparsify`, what tells the indices of one argument from those of another

    def __init__(self, args: tuple[ArrayLike, ArrayLike], *, shape: Sequence[int], indices_sorted: bool = False,
                 unique_indices: bool = False):
        data, indices = args
        self.data, self.indices = xnp.asarray(data), xnp.asarray(indices)
        self.indices_sorted, self.unique_indices = bool(indices_sorted), bool(unique_indices)
        super().__init__((self.data, self.indices), shape=shape)
        layout_of(self.data, self.indices, self.shape)

    nse = property(lambda self: self.indices.shape[-2], doc="How many elements are stored for each batch.")
    dtype = property(lambda self: self.data.dtype, doc="The dtype of the elements.")
    n_batch = property(lambda self: self.indices.ndim - 2, doc="How many leading dimensions are batches.")
    n_sparse = property(lambda self: self.indices.shape[-1], doc="How many dimensions indices are for.")
    n_dense = property(lambda self: self.data.ndim - 1 - self.n_batch, doc="How many trailing dimensions are stored whole.")
    _info = property(lambda self: SparseInfo(self.shape, self.indices_sorted, self.unique_indices))
    _bufs = property(lambda self: (self.data, self.indices))

    def tree_flatten(self) -> tuple[tuple[Array, Array], dict[str, Any]]:
        """Its arrays, and what is static.

        >>> sparse.eye(2).tree_flatten()[1]
        {'shape': (2, 2), 'indices_sorted': True, 'unique_indices': True}
        """
        return (self.data, self.indices), {
            "shape": self.shape, "indices_sorted": self.indices_sorted, "unique_indices": self.unique_indices}

    @classmethod
    def tree_unflatten(cls, aux_data: dict[str, Any], children: Sequence[Any]) -> Self:
        """The array of these parts, which are not checked."""
        data, indices = children
        return cls._bare(data=data, indices=indices, **aux_data)

    @classmethod
    def fromdense(cls, mat: ArrayLike, *, nse: int | None = None, index_dtype: DTypeLike = np.int32, n_dense: int = 0,
                  n_batch: int = 0) -> BCOO:
        """The sparse array of a dense one; see `bcoo_fromdense`."""
        mat = xnp.asarray(mat)
        if nse is None:
            nse = known_number(stored_elements(mat, n_batch, n_dense), "bcoo_fromdense")
        data, indices = fromdense_p.bind(mat, nse=int(nse), n_batch=n_batch, n_dense=n_dense, index_dtype=np.dtype(index_dtype))
        return cls((data, indices), shape=mat.shape, indices_sorted=True, unique_indices=True)

    @classmethod
    def from_scipy_sparse(cls, mat: Any, *, index_dtype: DTypeLike | None = None, n_dense: int = 0, n_batch: int = 0) -> BCOO:
        """The sparse array of one of SciPy's; layouts with batches or dense dimensions are not made of it."""
        if n_dense != 0 or n_batch != 0:
            raise NotImplementedError("BCOO.from_scipy_sparse makes no batch or dense dimensions: use update_layout")
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
        indices = xnp.full((*batch, nse, n_sparse), places.padding_row(sparse, index_dtype), index_dtype)
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
            inside = (columns >= 0) & (columns < M)
            data = xnp.asarray(inside[:, None], dtype or float)
            indices = xnp.asarray(np.where(inside, columns, M)[:, None, None], index_dtype)
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
        """The dense array that it stands for; values of equal indices are added.

        >>> sparse.eye(2).todense().tolist()
        [[1.0, 0.0], [0.0, 1.0]]
        """
        return todense_p.bind(*self._bufs, spinfo=self._info)

    def transpose(self, axes: Sequence[int] | None = None) -> BCOO:
        """The array with its dimensions in the order `axes`, reversed without.

        Batch, sparse and dense dimensions stay among themselves.

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
        """The array with indices in order, within each batch."""
        if self.indices_sorted:
            return self
        data, indices = sort_indices_p.bind(*self._bufs, spinfo=self._info)
        return BCOO((data, indices), shape=self.shape, indices_sorted=True, unique_indices=self.unique_indices)

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCOO:
        """The array with each index once, in order, and the values of equal ones added.

        - `nse`: how many elements to store, of those that there are or with padding; needed under transformations. Without it
          as many as there are.
        - `remove_zeros`: leave out what is stored and zero.
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
        return BCOO((self.data, at_once(_without_zeros, *self._bufs, shape=self.shape)), shape=self.shape).sum_duplicates(
            nse, remove_zeros=False)

    def astype(self, dtype: DTypeLike) -> BCOO:
        """The array with elements of another dtype."""
        return self.with_data(self.data.astype(dtype))

    def with_data(self, data: Array) -> BCOO:
        """An array with other values at the same places."""
        made = BCOO((data, self.indices), shape=self.shape, indices_sorted=self.indices_sorted,
                    unique_indices=self.unique_indices)
        made.origin = self.origin
        return made

    def broadcast_batch(self) -> tuple[Array, Array]:
        """Data and indices with the batch dimensions of the shape, where they are 1 for what is the same in all."""
        batch = self.shape[:self.n_batch]
        return (xnp.broadcast_to(self.data, (*batch, *self.data.shape[self.n_batch:])),
                xnp.broadcast_to(self.indices, (*batch, *self.indices.shape[self.n_batch:])))


def stored_elements(mat: Array, n_batch: int = 0, n_dense: int = 0) -> Array:
    """How many elements the batch of a dense array stores that stores the most."""
    return at_once(_stored_elements, mat, n_batch=n_batch, n_dense=n_dense)


def _stored_elements(mat: Array, *, n_batch: int, n_dense: int) -> Array:
    if n_batch < 0 or n_dense < 0 or n_batch + n_dense > mat.ndim:
        raise ValueError(f"an array of shape {mat.shape} has no layout with n_batch={n_batch} and n_dense={n_dense}: both must "
                         "be at least 0, and together at most the number of dimensions")
    mask = xnp.any(mat != 0, tuple(range(mat.ndim - n_dense, mat.ndim)))
    counts = xnp.sum(mask, tuple(range(n_batch, mask.ndim)), dtype=np.int32)
    return xnp.max(counts) if counts.size else xnp.zeros((), np.int32)


tree.register_pytree_node_class(BCOO)
