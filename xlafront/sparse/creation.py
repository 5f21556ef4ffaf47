"""Sparse arrays that are made of nothing, and dense ones of sparse ones."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront import numpy as xnp, random
from xlafront.core import tree
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.sparse.base import JAXSparse
from xlafront.sparse.bcoo import BCOO
from xlafront.sparse.bcsr import BCSR
from xlafront.sparse.matrices import COO, CSC, CSR
from xlafront.sparse.operations import operation
from xlafront.transforms.batching.vmap import vmap

_FORMATS: dict[str, Any] = {"bcsr": BCSR, "bcoo": BCOO, "coo": COO, "csr": CSR, "csc": CSC}


def empty(shape: Sequence[int], dtype: DTypeLike | None = None, index_dtype: DTypeLike = "int32", sparse_format: str = "bcoo",
          **kwds: Any) -> JAXSparse:
    """A sparse array without elements.

    - `shape`, `dtype`: of the array.
    - `index_dtype`: the dtype of indices.
    - `sparse_format`: "bcoo", "bcsr", "coo", "csr" or "csc".
    - `kwds`: the layout, for formats that have several: `n_batch`, `n_dense`, `nse`.

    >>> sparse.empty((2, 3))
    BCOO(float32[2, 3], nse=0)
    """
    if sparse_format not in _FORMATS:
        raise ValueError(f"sparse_format must be one of {list(_FORMATS)}, got {sparse_format!r}")
    return _FORMATS[sparse_format]._empty(shape, dtype=dtype, index_dtype=index_dtype, **kwds)


def eye(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None, index_dtype: DTypeLike = "int32",
        sparse_format: str = "bcoo", **kwds: Any) -> JAXSparse:
    """A matrix with ones on a diagonal.

    - `N`, `M`: how many rows, and how many columns, as many without.
    - `k`: which diagonal: 0 the main one, above those that are positive.
    - `dtype`: of the matrix. `index_dtype`: of indices.
    - `sparse_format`: "bcoo", "bcsr", "coo", "csr" or "csc".
    - `kwds`: the layout of a BCOO array: `n_batch`, `n_dense`.

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
    found = tree.unflatten(arrays)
    return found.todense() if isinstance(found, JAXSparse) else found



todense_p = operation("todense", _todense, (0,))


def todense(arr: JAXSparse | ArrayLike) -> Array:
    """The dense array that a sparse one stands for; a dense one as it is. Under `sparsify`, of what stands for a sparse one.

    - `arr`: the array.

    >>> sparse.todense(sparse.eye(2)).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    arrays, structure = tree.flatten(arr)
    return todense_p.bind(*arrays, tree=structure)


def random_bcoo(key: Array, shape: Sequence[int], *, dtype: DTypeLike = float, indices_dtype: DTypeLike | None = None,
                nse: int | float = 0.2, n_batch: int = 0, n_dense: int = 0, unique_indices: bool = True,
                sorted_indices: bool = False, generator: Callable = random.uniform, **kwds: Any) -> BCOO:
    """A BCOO array of random values at random places.

    - `key`: the random key. `shape`, `dtype`: of the array.
    - `indices_dtype`: the dtype of indices: by default int32, or int64 where 64-bit types are enabled.
    - `nse`: how many elements to store for each batch, or below 1 which part of all.
    - `n_batch`, `n_dense`: how many leading dimensions are batches, and how many trailing ones are stored whole.
    - `unique_indices`: whether no place is chosen twice. `sorted_indices`: whether places are in order.
    - `generator`: what makes the values, a function of `(key, shape, dtype)`. `kwds`: more arguments for it.

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
        raise AssertionError(f"nse must be a number of elements, or below 1 a part of all, got {nse}")
    nse = int(nse)
    index_dtype = np.dtype(indices_dtype) if indices_dtype is not None else xnp.zeros(0, int).dtype
    data_key, *index_keys = random.split(key, 1 + math.prod(batch))
    if n_sparse == 0:
        indices = xnp.zeros((*batch, nse, 0), index_dtype)
    else:
        def places_of(key):
            if not nse or not size:
                return xnp.zeros((nse, n_sparse), index_dtype)
            numbers = random.choice(key, size, (nse,), replace=not unique_indices)
            return xnp.stack(xnp.unravel_index(numbers, sparse), -1).astype(index_dtype)

        indices = vmap(places_of)(xnp.stack(index_keys)).reshape(*batch, nse, n_sparse) if index_keys else xnp.zeros(
            (*batch, nse, n_sparse), index_dtype)
    data = generator(data_key, shape=(*batch, nse, *dense), dtype=dtype, **kwds)
    found = BCOO((data, indices), shape=shape)
    return found.sort_indices() if sorted_indices else found
