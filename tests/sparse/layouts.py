"""Arrays with many zeros, and the layouts of BCOO arrays of their shape."""

import numpy as np

from xlafront.experimental import sparse


def array_with_zeros(shape, dtype="float32", seed=0):
    random = np.random.default_rng(seed)
    values = random.integers(1, 9, shape).astype(dtype)
    if np.issubdtype(np.dtype(dtype), np.complexfloating):
        values = values + 1j * random.integers(1, 9, shape)
    return np.where(random.random(shape) < 0.4, values, 0).astype(dtype)


def layouts(ndim):
    """Return all pairs of n_batch and n_dense for arrays with this number of dimensions."""
    return [(b, d) for b in range(ndim + 1) for d in range(ndim + 1 - b)]


def bcoo(dense, n_batch=0, n_dense=0, more=0):
    """Convert a dense array to a BCOO array with `more` padding elements."""
    found = sparse.BCOO.fromdense(dense, n_batch=n_batch, n_dense=n_dense)
    return found if not more else sparse.BCOO.fromdense(dense, n_batch=n_batch, n_dense=n_dense, nse=found.nse + more)
