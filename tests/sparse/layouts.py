"""Arrays with many zeros, and layouts in which BCOO arrays of their shape can be stored."""

import numpy as np

from xlafront.experimental import sparse


def array_with_zeros(shape, dtype="float32", seed=0):
    random = np.random.default_rng(seed)
    values = random.integers(1, 9, shape).astype(dtype)
    if np.issubdtype(np.dtype(dtype), np.complexfloating):
        values = values + 1j * random.integers(1, 9, shape)
    return np.where(random.random(shape) < 0.4, values, 0).astype(dtype)


def layouts(ndim):
    """All pairs of n_batch and n_dense of arrays with so many dimensions."""
    return [(b, d) for b in range(ndim + 1) for d in range(ndim + 1 - b)]


def bcoo(dense, n_batch=0, n_dense=0, more=0):
    """The BCOO array of a dense one, with `more` places of padding."""
    found = sparse.BCOO.fromdense(dense, n_batch=n_batch, n_dense=n_dense)
    return found if not more else sparse.BCOO.fromdense(dense, n_batch=n_batch, n_dense=n_dense, nse=found.nse + more)
