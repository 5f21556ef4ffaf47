"""Vector quantization: the assignment of observations to the nearest of given centroids."""

from __future__ import annotations

import numpy as np

import xlafront.numpy as xnp
from xlafront.core.typing import Array, ArrayLike
from xlafront.numpy.promotion import check_arraylike, promote_dtypes_inexact
from xlafront.staging.library import library


@library(name="vq")
def _vq(obs, code_book):
    obs, code_book = promote_dtypes_inexact(obs, code_book)
    if obs.ndim == 1:
        obs, code_book = obs[:, None], code_book[:, None]
    distances = xnp.linalg.norm(obs[:, None] - code_book[None], axis=-1)
    return xnp.argmin(distances, axis=1), xnp.min(distances, axis=1)


def vq(obs: ArrayLike, code_book: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """Find the nearest centroid of each observation.

    Args:
        obs: Observations, one per row; a vector has one coordinate per observation.
        code_book: Centroids, in the same form.
        check_finite: No effect: values are not checked. An observation that is not finite gets the index 0.

    Returns:
        Index of the nearest centroid of each observation, and the distance to it.

    Example:
        >>> vq(xnp.array([[0.0, 1.0], [9.0, 9.0]]), xnp.array([[8.0, 9.0], [0.0, 0.0]]))
        (Array([1, 0], dtype=int32), Array([1., 1.], dtype=float32))
    """
    check_arraylike("scipy.cluster.vq.vq", obs, code_book)
    shapes = np.shape(obs), np.shape(code_book)
    if len(shapes[0]) != len(shapes[1]):
        raise ValueError(f"vq takes obs and code_book of equally many dimensions, got shapes {shapes[0]} and {shapes[1]}.")
    if len(shapes[0]) not in (1, 2):
        raise ValueError(f"vq takes obs and code_book of one or two dimensions, got shapes {shapes[0]} and {shapes[1]}.")
    if shapes[0][1:] != shapes[1][1:]:
        raise ValueError(f"vq takes obs and code_book with equally many coordinates, got shapes {shapes[0]} and {shapes[1]}.")
    if not shapes[1][0]:
        raise ValueError("vq needs a code_book with at least one centroid, got none.")
    return _vq(obs, code_book)
