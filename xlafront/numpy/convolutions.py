"""Convolution and correlation of vectors, as in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlafront.core import dtypes, tracing
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.lax.convolutions import conv_general_dilated
from xlafront.lax.elementwise import as_type
from xlafront.lax.shapes import reshape_to, rev_p
from xlafront.numpy.promotion import check_arraylike, promote_dtypes, promote_dtypes_inexact, unwrap
from xlafront.numpy.ufuncs import PUBLIC
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import is_symbolic, is_symbolic_dim

_MODES = ("full", "same", "valid")


def _slide(a, v, mode, flipped, precision, preferred):
    """Compute the sums of products of two vectors at all shifts of the shorter one, which is reversed if `flipped`."""
    a, v = (promote_dtypes_inexact if preferred is None else promote_dtypes)(unwrap(a), unwrap(v))
    if tracing.aval_of(a).dtype == np.bool_:  # which cannot be accumulated
        a, v = as_type(a, preferred, False), as_type(v, preferred, False)
    if mode == "full" and is_symbolic((np.size(a), np.size(v))):  # correct whichever is longer
        swapped = is_symbolic_dim(np.size(v)) and not is_symbolic_dim(np.size(a))
    else:
        swapped = np.size(a) < np.size(v)
    if swapped:
        a, v = v, a
    m = np.size(v)
    low = {"full": m - 1, "same": m // 2, "valid": 0}[mode]
    high = {"full": m - 1, "same": m - m // 2 - 1, "valid": 0}[mode]
    kernel = rev_p.bind(v, dimensions=(0,)) if flipped else v
    result = conv_general_dilated(reshape_to(a, (1, 1, np.size(a))), reshape_to(kernel, (1, 1, m)), (1,), [(low, high)],
                                  precision=precision, preferred_element_type=preferred)
    result = reshape_to(result, (np.shape(result)[-1],))
    return rev_p.bind(result, dimensions=(0,)) if swapped and not flipped else result


def _checked(name: str, a, v, mode, preferred):
    check_arraylike(name, a, v)
    for x in (a, v):
        if np.ndim(x) != 1:
            raise ValueError(f"numpy.{name} only supports 1-dimensional inputs, got shapes {np.shape(a)} and {np.shape(v)}.")
        if not np.size(x):
            raise ValueError(f"numpy.{name}: inputs cannot be empty, got shapes {np.shape(a)} and {np.shape(v)}.")
    if mode not in _MODES:
        raise ValueError(f"the mode of numpy.{name} must be one of {', '.join(_MODES)}; got {mode!r}.")
    return None if preferred is None else dtypes.check_user_dtype(preferred, f"numpy.{name}")


@library(static=("mode", "precision", "preferred_element_type"))
@accepts(nodes=True)
def convolve(a: ArrayLike, v: ArrayLike, mode: str = "full", *, precision: Any = None,
             preferred_element_type: DTypeLike | None = None) -> Array:
    """Compute the convolution of two vectors.

    Integers are converted to floats, unless `preferred_element_type` is given.

    Args:
        a, v: Vectors.
        mode: Shifts to include: those with any overlap ("full"), as many as the longer vector has elements ("same"), or those
            with complete overlap ("valid").
        precision, preferred_element_type: As in `lax.conv_general_dilated`.

    Returns:
        Vector of the sums of products.

    Example:
        >>> xnp.convolve(xnp.array([1.0, 2.0]), xnp.array([1.0, 1.0, 1.0]))
        Array([1., 3., 3., 2.], dtype=float32)
    """
    return _slide(a, v, mode, True, precision, _checked("convolve", a, v, mode, preferred_element_type))


@library(static=("mode", "precision", "preferred_element_type"))
@accepts(nodes=True)
def correlate(a: ArrayLike, v: ArrayLike, mode: str = "valid", *, precision: Any = None,
              preferred_element_type: DTypeLike | None = None) -> Array:
    """Compute the correlation of two vectors: sums of products of `a` with the conjugate of a shifted `v`.

    Integers are converted to floats, unless `preferred_element_type` is given.

    Args:
        a, v: Vectors.
        mode: Shifts to include: those with any overlap ("full"), as many as the longer vector has elements ("same"), or those
            with complete overlap ("valid").
        precision, preferred_element_type: As in `lax.conv_general_dilated`.

    Returns:
        Vector of the sums of products.

    Example:
        >>> xnp.correlate(xnp.array([1.0, 2.0, 3.0]), xnp.array([1.0, 1.0]))
        Array([3., 5.], dtype=float32)
    """
    preferred = _checked("correlate", a, v, mode, preferred_element_type)
    if tracing.aval_of(unwrap(v)).dtype.kind == "c":
        v = PUBLIC["conjugate"](v)
    return _slide(a, v, mode, False, precision, preferred)
