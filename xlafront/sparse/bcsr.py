"""BCSR arrays: batches of matrices by compressed rows, and functions of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from xlafront import numpy as xnp
from xlafront.control.foreign_calls import ffi_call
from xlafront.core import tree
from xlafront.core.avals import ShapedArray
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.sparse import bcoo, places
from xlafront.sparse.base import JAXSparse, SparseInfo, check_index_dtype
from xlafront.sparse.bcoo import BCOO, known_number, stored_elements
from xlafront.sparse.bcoo_functions import bcoo_broadcast_in_dim, bcoo_concatenate
from xlafront.sparse.bcoo_products import DimensionNumbers, canonical_numbers
from xlafront.sparse.operations import at_once, fromdense_jvp, operation, over_batches


class BCSRProperties(NamedTuple):
    """The layout of a BCSR array."""

    n_batch: int
    n_dense: int
    nse: int


def layout_of(data: Any, indices: Any, indptr: Any, shape: Sequence[int]) -> BCSRProperties:
    """The layout of a BCSR array of these parts, after checking that they agree."""
    check_index_dtype("the indices of a BCSR array", indices)
    check_index_dtype("the indptr of a BCSR array", indptr)
    shape = tuple(shape)
    n_batch, nse = indices.ndim - 1, indices.shape[-1]
    n_dense = len(shape) - n_batch - 2
    if n_dense < 0:
        raise ValueError(f"indices of shape {indices.shape} are those of a BCSR array of at least {n_batch + 2} dimensions, "
                         f"not of shape {shape}")
    if tuple(indptr.shape[-1:]) != (shape[n_batch] + 1,) or indptr.ndim != n_batch + 1:
        raise ValueError(f"the indptr of a BCSR array of shape {shape} with n_batch={n_batch} has dimensions (*batch, "
                         f"{shape[n_batch] + 1}), one more than rows, got shape {indptr.shape}")
    wanted = (*shape[:n_batch], nse, *shape[n_batch + 2:])
    for x, what, inner in ((data, "data", wanted[n_batch:]), (indices, "indices", (nse,)), (indptr, "indptr",
        indptr.shape[-1:])):
        if tuple(x.shape[n_batch:]) != tuple(inner) or any(n not in (1, m) for n, m in zip(x.shape[:n_batch], shape)):
            raise ValueError(f"the {what} of a BCSR array of shape {shape} with nse={nse} and n_batch={n_batch} has shape "
                             f"{(*shape[:n_batch], *inner)} (batch dimensions may be 1), got {x.shape}")
    return BCSRProperties(n_batch, n_dense, nse)


def rows_of(indptr: Array, nse: int) -> Array:
    """The row of each stored element; those beyond the last row are padding, whose row is out of bounds."""
    if not nse:
        return xnp.zeros(0, indptr.dtype)
    begun = xnp.zeros(nse, indptr.dtype).at[indptr[1:]].add(1, mode="drop")  # how many rows end at each element
    return xnp.cumsum(begun)


def coordinates(indices: Array, indptr: Array) -> Array:
    """The indices of the BCOO array with the same elements."""
    def one(columns, pointers):
        return xnp.stack([rows_of(pointers, len(columns)).astype(columns.dtype), columns], -1)

    return over_batches(one, indices.ndim - 1)(indices, indptr)


def row_starts(rows: Array, count: int, dtype: Any) -> Array:
    """The `indptr` of sorted rows."""
    lengths = xnp.zeros(count, dtype).at[rows].add(1, mode="drop")
    return xnp.concatenate([xnp.zeros(1, dtype), xnp.cumsum(lengths, dtype=dtype)])


def _compressed(indices: Array, shape: Sequence[int], n_batch: int, index_dtype: Any) -> tuple[Array, Array]:
    """Columns and `indptr` of sorted indices of a BCOO array."""
    def one(i):
        return i[:, 1].astype(index_dtype), row_starts(i[:, 0], shape[n_batch], index_dtype)

    return over_batches(one, n_batch)(indices)


def _fromdense(mat, *, nse, n_batch, n_dense, index_dtype):
    data, indices = bcoo.fromdense_p.bind(mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)
    return (data, *_compressed(indices, mat.shape, n_batch, index_dtype))


def _todense(data, indices, indptr, *, spinfo):
    return bcoo.todense_p.bind(data, coordinates(indices, indptr), spinfo=spinfo)


def _extract(indices, indptr, mat):
    return bcoo.extract_p.bind(coordinates(indices, indptr), mat, assume_unique=True)


def _dot_general(data, indices, indptr, rhs, *, dimension_numbers, preferred_element_type, lhs_spinfo):
    return bcoo.dot_general_p.bind(data, coordinates(indices, indptr), rhs, dimension_numbers=dimension_numbers,
                                   preferred_element_type=preferred_element_type, lhs_spinfo=lhs_spinfo)


_KERNEL_DTYPES = frozenset(map(np.dtype, ["float32", "float64", "complex64", "complex128", "int32", "int64"]))

_KERNEL_IS_FASTER = 1024  # the most elements of a matrix that it multiplies with a vector faster than rows are added up


def _rows_at_once(data, indices, indptr, rhs, *, lhs_spinfo, **params):
    """The product of one matrix with another by jaxlib's kernel, which must find all places that it is given in bounds."""
    rows, columns = lhs_spinfo.shape
    free = rhs.shape[1:]
    rhs = rhs.reshape(columns, -1)
    if rhs.size <= 2 * len(indices):  # a row of zeros more, for those out of bounds, is less than other values for them
        indices = places.lowest(indices, columns)
        rhs = xnp.concatenate([rhs, xnp.zeros((1, rhs.shape[1]), rhs.dtype)])
    else:
        inside = places.in_bounds(indices[:, None], (columns,))
        data, indices = xnp.where(inside, data, xnp.zeros((), data.dtype)), xnp.where(inside, indices, 0)
    starts = places.lowest(indptr, len(indices))
    found = ffi_call("cpu_csr_sparse_dense_ffi", ShapedArray((rows, rhs.shape[1]), rhs.dtype))(
        data, starts.astype(np.int32), indices.astype(np.int32), rhs)
    return found.reshape(rows, *free)


def _dot_on_cpu(avals, *, dimension_numbers, preferred_element_type, lhs_spinfo):
    data, indices, indptr, rhs = avals
    if (dimension_numbers != (((1,), (0,)), ((), ())) or data.ndim != 1 or rhs.ndim > 2 or data.dtype not in _KERNEL_DTYPES
            or not data.dtype == rhs.dtype == (preferred_element_type or rhs.dtype) or max(lhs_spinfo.shape) >= 2**31
            or not min(data.size, rhs.size, *lhs_spinfo.shape) or (rhs.ndim == 1 and data.size > _KERNEL_IS_FASTER)):
        return None
    return _rows_at_once


todense_p = operation("bcsr_todense", _todense, (0,))
extract_p = operation("bcsr_extract", _extract, (2,))
dot_general_p = operation("bcsr_dot_general", _dot_general, (0, 3), on_cpu=_dot_on_cpu)
fromdense_p = operation("bcsr_fromdense", _fromdense, (), multiple_results=True,
                        jvp=fromdense_jvp(
    lambda mat, **params: fromdense_p.bind(mat, **params), lambda parts, mat: extract_p.bind(parts[1], parts[2], mat)))


class BCSR(JAXSparse):
    """Batches of sparse matrices by compressed rows.

    An array of shape `(*batch, rows, columns, *dense)` has `data` of shape `(*batch, nse, *dense)`, the column of each in
    `indices` of shape `(*batch, nse)`, and in `indptr` of shape `(*batch, rows + 1)` where rows begin.

    - `args`: `(data, indices, indptr)`.
    - `shape`: of the array.
    - `indices_sorted`: whether columns are in order within each row.
    - `unique_indices`: whether no place occurs twice.

    >>> mat = sparse.BCSR.fromdense(xnp.array([[0., 1.], [2., 0.]]))
    >>> mat.indptr.tolist(), (mat @ xnp.ones(2)).tolist()
    ([0, 1, 2], [1.0, 2.0])
    """

    data: Array
    indices: Array
    indptr: Array
    indices_sorted: bool
    unique_indices: bool

    def __init__(self, args: tuple[ArrayLike, ArrayLike, ArrayLike], *, shape: Sequence[int], indices_sorted: bool = False,
                 unique_indices: bool = False):
        data, indices, indptr = args
        self.data, self.indices, self.indptr = xnp.asarray(data), xnp.asarray(indices), xnp.asarray(indptr)
        self.indices_sorted, self.unique_indices = bool(indices_sorted), bool(unique_indices)
        super().__init__((self.data, self.indices, self.indptr), shape=shape)
        layout_of(self.data, self.indices, self.indptr, self.shape)

    nse = property(lambda self: self.indices.shape[-1], doc="How many elements are stored for each batch.")
    dtype = property(lambda self: self.data.dtype, doc="The dtype of the elements.")
    n_batch = property(lambda self: self.indices.ndim - 1, doc="How many leading dimensions are batches.")
    n_sparse = property(lambda self: 2, doc="How many dimensions are sparse.")
    n_dense = property(lambda self: self.data.ndim - self.indices.ndim, doc="How many trailing dimensions are stored whole.")
    _info = property(lambda self: SparseInfo(self.shape, self.indices_sorted, self.unique_indices))
    _bufs = property(lambda self: (self.data, self.indices, self.indptr))
    _sparse_shape = property(lambda self: self.shape[self.n_batch:self.n_batch + 2])

    def tree_flatten(self) -> tuple[tuple[Array, Array, Array], dict[str, Any]]:
        """Its arrays, and what is static."""
        return (self.data, self.indices, self.indptr), {
            "shape": self.shape, "indices_sorted": self.indices_sorted, "unique_indices": self.unique_indices}

    @classmethod
    def tree_unflatten(cls, aux_data: dict[str, Any], children: Sequence[Any]) -> Self:
        """The array of these parts, which are not checked."""
        data, indices, indptr = children
        return cls._bare(data=data, indices=indices, indptr=indptr, **aux_data)

    @classmethod
    def fromdense(cls, mat: ArrayLike, *, nse: int | None = None, index_dtype: DTypeLike = np.int32, n_dense: int = 0,
                  n_batch: int = 0) -> BCSR:
        """The BCSR array of a dense one; see `bcsr_fromdense`."""
        mat = xnp.asarray(mat)
        if mat.ndim - n_batch - n_dense != 2:
            raise ValueError(f"bcsr_fromdense: a BCSR array must have 2 sparse dimensions, shape {mat.shape} with "
                             f"n_batch={n_batch} and n_dense={n_dense} has {mat.ndim - n_batch - n_dense}")
        if nse is None:
            nse = known_number(stored_elements(mat, n_batch, n_dense), "bcsr_fromdense")
        parts = fromdense_p.bind(mat, nse=int(nse), n_batch=n_batch, n_dense=n_dense, index_dtype=np.dtype(index_dtype))
        return cls(parts, shape=mat.shape)

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> BCSR:
        """The BCSR array with the elements of a BCOO array with two sparse dimensions."""
        if arr.n_sparse != 2:
            raise NotImplementedError(f"a BCSR array must have 2 sparse dimensions, the BCOO array {arr!r} has {arr.n_sparse}")
        arr = arr.sort_indices()
        indices, indptr = at_once(_compressed, arr.indices, shape=arr.shape, n_batch=arr.n_batch,
                                  index_dtype=arr.indices.dtype)
        return cls((arr.data, indices, indptr), shape=arr.shape)

    @classmethod
    def from_scipy_sparse(cls, mat: Any, *, index_dtype: DTypeLike | None = None, n_dense: int = 0, n_batch: int = 0) -> BCSR:
        """The BCSR array of one of SciPy's; layouts with batches or dense dimensions are not made of it."""
        if n_dense != 0 or n_batch != 0:
            raise NotImplementedError("BCSR.from_scipy_sparse makes no batch or dense dimensions")
        mat = mat.tocsr()
        indices, indptr = (xnp.asarray(x if index_dtype is None else x.astype(index_dtype)) for x in (mat.indices, mat.indptr))
        return cls((xnp.asarray(mat.data), indices, indptr), shape=mat.shape)

    @classmethod
    def _empty(cls, shape: Sequence[int], *, dtype: DTypeLike | None = None, index_dtype: DTypeLike = "int32", n_dense: int = 0,
               n_batch: int = 0, nse: int = 0) -> BCSR:
        shape = tuple(shape)
        if n_dense < 0 or n_batch < 0 or nse < 0 or len(shape) - n_dense - n_batch != 2:
            raise ValueError(f"there is no BCSR array with shape={shape}, n_dense={n_dense}, n_batch={n_batch}, nse={nse}")
        batch, (rows, columns), dense = shape[:n_batch], shape[n_batch:n_batch + 2], shape[n_batch + 2:]
        return cls((xnp.zeros((*batch, nse, *dense), dtype), xnp.full((*batch, nse), columns, index_dtype),
                    xnp.zeros((*batch, rows + 1), index_dtype)), shape=shape)

    def to_bcoo(self) -> BCOO:
        """The BCOO array with the same elements."""
        return BCOO((self.data, at_once(coordinates, self.indices, self.indptr)), shape=self.shape,
                    indices_sorted=self.indices_sorted, unique_indices=self.unique_indices)

    def todense(self) -> Array:
        """The dense array that it stands for; values of equal places are added."""
        return todense_p.bind(*self._bufs, spinfo=self._info)

    def transpose(self, axes: Sequence[int] | None = None) -> Any:
        """Not defined: the transpose of compressed rows is compressed by columns."""
        raise NotImplementedError("the transpose of a BCSR array has no rows that are compressed: use to_bcoo().transpose()")

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCSR:
        """The array with each place once, in order, and the values of equal ones added.

        - `nse`: how many elements to store; needed under transformations. Without it as many as there are.
        - `remove_zeros`: leave out what is stored and zero.
        """
        return BCSR.from_bcoo(self.to_bcoo().sum_duplicates(nse=nse, remove_zeros=remove_zeros))


tree.register_pytree_node_class(BCSR)


def bcsr_todense(mat: BCSR) -> Array:
    """The dense array that a BCSR array stands for.

    - `mat`: the BCSR array.

    >>> sparse.bcsr_todense(sparse.bcsr_fromdense(xnp.eye(2))).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return mat.todense()


def bcsr_fromdense(mat: ArrayLike, *, nse: int | None = None, n_batch: int = 0, n_dense: int = 0,
                   index_dtype: DTypeLike = np.int32
                   ) -> BCSR:
    """The BCSR array of a dense one.

    - `mat`: the dense array.
    - `nse`: how many elements to store for each batch, as many as the batch with the most has without; needed in transformed
      functions.
    - `n_batch`: how many leading dimensions are batches. `n_dense`: how many trailing ones are stored whole.
    - `index_dtype`: the dtype of indices.

    >>> sparse.bcsr_fromdense(xnp.eye(3)).indices.tolist()
    [0, 1, 2]
    """
    return BCSR.fromdense(mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)


def bcsr_extract(indices: ArrayLike, indptr: ArrayLike, mat: ArrayLike) -> Array:
    """The elements of a dense matrix at the places of a BCSR array: its `data`.

    - `indices`, `indptr`: of the BCSR array.
    - `mat`: the dense matrix, or batch of matrices.

    >>> sparse.bcsr_extract(xnp.array([1, 0]), xnp.array([0, 1, 2]), xnp.array([[1., 2.], [3., 4.]])).tolist()
    [2.0, 3.0]
    """
    return extract_p.bind(xnp.asarray(indices), xnp.asarray(indptr), xnp.asarray(mat))


def bcsr_dot_general(lhs: BCSR | Array, rhs: Array, *, dimension_numbers: DimensionNumbers, precision: Any = None,
                     preferred_element_type: DTypeLike | None = None, out_sharding: Any = None) -> Array:
    """The product of a BCSR array and a dense one, summed over pairs of dimensions, as `lax.dot_general` of dense ones.

    - `lhs`: the BCSR array. `rhs`: the dense array.
    - `dimension_numbers`: `((lhs contracting, rhs contracting), (lhs batch, rhs batch))`.
    - `precision`: to no effect. `preferred_element_type`: the dtype of the result. `out_sharding`: must be None.

    >>> sparse.bcsr_dot_general(sparse.bcsr_fromdense(xnp.eye(2)), xnp.arange(2.), dimension_numbers=(((1,), (0,)), ((), ())))
    Array([0., 1.], dtype=float32)
    """
    if out_sharding is not None:
        raise NotImplementedError(f"bcsr_dot_general takes no out_sharding, got {out_sharding}")
    if not isinstance(lhs, BCSR) or isinstance(rhs, JAXSparse):
        raise NotImplementedError(f"bcsr_dot_general multiplies a BCSR array from the left with a dense one, got "
                                  f"{type(lhs).__name__} and {type(rhs).__name__}: use BCOO arrays")
    rhs = xnp.asarray(rhs)
    numbers = canonical_numbers("bcsr_dot_general", lhs, rhs, dimension_numbers)
    (lc, _), (lb, _) = numbers
    if any(d >= lhs.n_batch + 2 for d in lc) or any(d >= lhs.n_batch for d in lb):
        raise NotImplementedError(f"bcsr_dot_general cannot sum over dense dimensions, nor have sparse ones as batches: "
                                  f"dimension_numbers={numbers} of shape {lhs.shape} with n_batch={lhs.n_batch}")
    element = None if preferred_element_type is None else np.dtype(preferred_element_type)
    return dot_general_p.bind(*lhs._bufs, rhs, dimension_numbers=numbers, preferred_element_type=element, lhs_spinfo=lhs._info)


def bcsr_broadcast_in_dim(mat: BCSR, *, shape: Sequence[int], broadcast_dimensions: Sequence[int],
                          sharding: Any = None) -> BCSR:
    """The array with additional batch or dense dimensions, as `lax.broadcast_in_dim` makes of a dense one.

    - `mat`: the BCSR array. `shape`: of the result.
    - `broadcast_dimensions`: for each dimension of `mat` which of the result it becomes.
    - `sharding`: must be None.

    >>> mat = sparse.bcsr_fromdense(xnp.eye(2))
    >>> sparse.bcsr_broadcast_in_dim(mat, shape=(3, 2, 2), broadcast_dimensions=(1, 2)).n_batch
    1
    """
    return BCSR.from_bcoo(bcoo_broadcast_in_dim(mat.to_bcoo(), shape=shape, broadcast_dimensions=broadcast_dimensions,
                                                sharding=sharding))


def bcsr_concatenate(operands: Sequence[BCSR], *, dimension: int) -> BCSR:
    """Arrays one after another along a batch or sparse dimension.

    - `operands`: BCSR arrays of one layout. `dimension`: along which.

    >>> mat = sparse.bcsr_fromdense(xnp.eye(2))
    >>> sparse.bcsr_concatenate([mat, mat], dimension=0).shape
    (4, 2)
    """
    return BCSR.from_bcoo(bcoo_concatenate([mat.to_bcoo() for mat in operands], dimension=dimension))


def bcsr_sum_duplicates(mat: BCSR, nse: int | None = None) -> BCSR:
    """The array with each place once, in order, and the values of equal ones added.

    - `mat`: the BCSR array.
    - `nse`: how many elements to store; as many as there are without, which transformed functions do not know.

    >>> sparse.bcsr_sum_duplicates(sparse.bcsr_fromdense(xnp.eye(2))).nse
    2
    """
    return mat.sum_duplicates(nse=nse, remove_zeros=False)

