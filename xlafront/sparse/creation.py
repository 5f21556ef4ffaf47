"""Constructors of sparse arrays, and conversion to dense arrays."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront import numpy as xnp, random
from xlafront.api.vmap import vmap
from xlafront.core import tree
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.sparse.base import JAXSparse
from xlafront.sparse.bcoo import BCOO
from xlafront.sparse.bcsr import BCSR
from xlafront.sparse.matrices import COO, CSC, CSR
from xlafront.sparse.operations import linear_primitive

_FORMATS: dict[str, Any] = {"bcsr": BCSR, "bcoo": BCOO, "coo": COO, "csr": CSR, "csc": CSC}


def empty(shape: Sequence[int], dtype: DTypeLike | None = None, index_dtype: DTypeLike = "int32", sparse_format: str = "bcoo",
          **kwds: Any) -> JAXSparse:
    """Return a sparse array without stored elements.

    Args:
        shape: Shape of the array.
        dtype: dtype of the array.
        index_dtype: dtype of the indices.
        sparse_format: "bcoo", "bcsr", "coo", "csr" or "csc".
        kwds: Layout, for formats that have several: `n_batch`, `n_dense`, `nse`.

    Returns:
        Sparse array.

    Example:
        >>> sparse.empty((2, 3))
        BCOO(float32[2, 3], nse=0)
    """
    if sparse_format not in _FORMATS:
        raise ValueError(f"sparse_format must be one of {list(_FORMATS)}, got {sparse_format!r}")
    return _FORMATS[sparse_format]._empty(shape, dtype=dtype, index_dtype=index_dtype, **kwds)


def eye(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None, index_dtype: DTypeLike = "int32",
        sparse_format: str = "bcoo", **kwds: Any) -> JAXSparse:
    """Return a sparse matrix with ones on a diagonal.

    Args:
        N: Number of rows.
        M: Number of columns. Default: `N`.
        k: Index of the diagonal: 0 for the main diagonal, positive above it, negative below.
        dtype: dtype of the matrix.
        index_dtype: dtype of the indices.
        sparse_format: "bcoo", "bcsr", "coo", "csr" or "csc".
        kwds: Layout of a BCOO array: `n_batch`, `n_dense`.

    Returns:
        Sparse matrix.

    Example:
        >>> sparse.eye(2, 3, k=1).indices.tolist()
        [[0, 1], [1, 2]]
    """
    if sparse_format not in _FORMATS:
        raise ValueError(f"sparse_format must be one of {list(_FORMATS)}, got {sparse_format!r}")
    N, M, k = operator.index(N), operator.index(N if M is None else M), operator.index(k)
    if sparse_format == "bcsr":
        return BCSR.from_bcoo(BCOO._eye(N, M, k, dtype=dtype, index_dtype=index_dtype, **kwds))
    return _FORMATS[sparse_format]._eye(N, M, k, dtype=dtype, index_dtype=index_dtype, **kwds)


def _todense(*arrays, tree):
    arr = tree.unflatten(arrays)
    return arr.todense() if isinstance(arr, JAXSparse) else arr


todense_p = linear_primitive("todense", _todense, (0,))


def todense(arr: JAXSparse | ArrayLike) -> Array:
    """Convert a sparse array to a dense one. Dense arrays are returned unchanged.

    Under `sparsify` it also converts the tracer of a sparse array.

    Args:
        arr: Sparse or dense array.

    Returns:
        Dense array.

    Example:
        >>> sparse.todense(sparse.eye(2)).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    arrays, structure = tree.flatten(arr)
    return todense_p.bind(*arrays, tree=structure)


def random_bcoo(key: Array, shape: Sequence[int], *, dtype: DTypeLike = float, indices_dtype: DTypeLike | None = None,
                nse: int | float = 0.2, n_batch: int = 0, n_dense: int = 0, unique_indices: bool = True,
                sorted_indices: bool = False, generator: Callable = random.uniform, **kwds: Any) -> BCOO:
    """Return a BCOO array of random values at random positions.

    Args:
        key: PRNG key.
        shape: Shape of the array.
        dtype: dtype of the array.
        indices_dtype: dtype of the indices. Default: the default integer dtype.
        nse: Number of elements to store for each batch element, or a fraction of all elements if below 1.
        n_batch: Number of leading batch dimensions.
        n_dense: Number of trailing dense dimensions.
        unique_indices: If True, no position is sampled twice.
        sorted_indices: If True, sort the indices.
        generator: Function of `(key, shape, dtype)` that samples the values.
        kwds: More arguments of `generator`.

    Returns:
        BCOO array.

    Example:
        >>> sparse.random_bcoo(xf.random.key(0), (4, 5), nse=3).data.shape
        (3,)
    """
    shape = tuple(map(int, shape))
    n_sparse = len(shape) - n_batch - n_dense
    if n_sparse < 0 or n_batch < 0 or n_dense < 0:
        raise ValueError(f"there is no BCOO array of shape {shape} with n_batch={n_batch} and n_dense={n_dense}")
    batch, sparse, dense = shape[:n_batch], shape[n_batch:n_batch + n_sparse], shape[n_batch + n_sparse:]
    size = math.prod(sparse)
    if not 0 <= nse <= size:
        raise ValueError(f"random_bcoo stores between 0 and {size} elements of shape {sparse}, got nse={nse}")
    if isinstance(nse, float) and 0 < nse < 1:
        nse = math.ceil(nse * size)
    if isinstance(nse, float) and nse != int(nse):
        raise AssertionError(f"nse must be a number of elements, or a fraction of all elements below 1, got {nse}")
    nse = int(nse)
    index_dtype = np.dtype(indices_dtype) if indices_dtype is not None else xnp.zeros(0, int).dtype
    data_key, *index_keys = random.split(key, 1 + math.prod(batch))
    if n_sparse == 0:
        indices = xnp.zeros((*batch, nse, 0), index_dtype)
    else:
        def sample_indices(key):
            if not nse or not size:
                return xnp.zeros((nse, n_sparse), index_dtype)
            flat = random.choice(key, size, (nse,), replace=not unique_indices)
            return xnp.stack(xnp.unravel_index(flat, sparse), -1).astype(index_dtype)

        indices = vmap(sample_indices)(xnp.stack(index_keys)).reshape(*batch, nse, n_sparse) if index_keys else xnp.zeros(
            (*batch, nse, n_sparse), index_dtype)
    data = generator(data_key, shape=(*batch, nse, *dense), dtype=dtype, **kwds)
    result = BCOO((data, indices), shape=shape)
    return result.sort_indices() if sorted_indices else result
