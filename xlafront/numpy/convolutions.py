"""NumPy's convolution and correlation of vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlafront.core import dtypes, tracing
from xlafront.core.dimensions import is_symbolic, is_symbolic_dim
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.lax.convolutions import conv_general_dilated
from xlafront.lax.shapes import reshape_to, rev_p
from xlafront.numpy.promotion import check_arraylike, promote_dtypes_inexact, unwrap
from xlafront.numpy.ufuncs import PUBLIC
from xlafront.staging.library import library

_MODES = ("full", "same", "valid")


def _slide(a, v, mode, flipped, precision, preferred):
    """Sums of products of two vectors in all places of the shorter one; `flipped` says that it is read backwards."""
    a, v = promote_dtypes_inexact(unwrap(a), unwrap(v))
    if mode == "full" and is_symbolic((np.size(a), np.size(v))):  # whichever is longer
        swapped = is_symbolic_dim(np.size(v)) and not is_symbolic_dim(np.size(a))
    else:
        swapped = np.size(a) < np.size(v)
    if swapped:
        a, v = v, a
    m = np.size(v)
    low = {"full": m - 1, "same": m // 2, "valid": 0}[mode]
    high = {"full": m - 1, "same": m - m // 2 - 1, "valid": 0}[mode]
    kernel = rev_p.bind(v, dimensions=(0,)) if flipped else v
    found = conv_general_dilated(reshape_to(a, (1, 1, np.size(a))), reshape_to(kernel, (1, 1, m)), (1,), [(low, high)],
                                 precision=precision, preferred_element_type=preferred)
    found = reshape_to(found, (np.shape(found)[-1],))
    return rev_p.bind(found, dimensions=(0,)) if swapped and not flipped else found


def _checked(name: str, a, v, mode, preferred):
    check_arraylike(name, a, v)
    for x in (a, v):
        if np.ndim(x) != 1:
            raise ValueError(f"xnp.{name} only supports 1-dimensional inputs, got shapes {np.shape(a)} and {np.shape(v)}.")
        if not np.size(x):
            raise ValueError(f"xnp.{name}: inputs cannot be empty, got shapes {np.shape(a)} and {np.shape(v)}.")
    if mode not in _MODES:
        raise ValueError(f"the mode of xnp.{name} must be one of {', '.join(_MODES)}; got {mode!r}.")
    return None if preferred is None else dtypes.check_user_dtype(preferred, f"xnp.{name}")


@library(static=("mode", "precision", "preferred_element_type"))
def convolve(a: ArrayLike, v: ArrayLike, mode: str = "full", *, precision: Any = None,
             preferred_element_type: DTypeLike | None = None) -> Array:
    """The convolution of two vectors, as floats.

    - `a`, `v`: the vectors.
    - `mode`: which places of the shorter one: those with any overlap ("full"), as many as the longer has elements ("same"),
      or those where it lies inside ("valid").
    - `precision`, `preferred_element_type`: as those of `lax.conv_general_dilated`.

    >>> xnp.convolve(xnp.array([1.0, 2.0]), xnp.array([1.0, 1.0, 1.0]))
    Array([1., 3., 3., 2.], dtype=float32)
    """
    return _slide(a, v, mode, True, precision, _checked("convolve", a, v, mode, preferred_element_type))


@library(static=("mode", "precision", "preferred_element_type"))
def correlate(a: ArrayLike, v: ArrayLike, mode: str = "valid", *, precision: Any = None,
              preferred_element_type: DTypeLike | None = None) -> Array:
    """The correlation of two vectors, as floats: sums of products of `a` with the conjugate of `v`, moved along it.

    - `a`, `v`: the vectors.
    - `mode`: which places of the shorter one: those with any overlap ("full"), as many as the longer has elements ("same"), or
      those where it lies inside ("valid").
    - `precision`, `preferred_element_type`: as those of `lax.conv_general_dilated`.

    >>> xnp.correlate(xnp.array([1.0, 2.0, 3.0]), xnp.array([1.0, 1.0]))
    Array([3., 5.], dtype=float32)
    """
    preferred = _checked("correlate", a, v, mode, preferred_element_type)
    if tracing.aval_of(unwrap(v)).dtype.kind == "c":
        v = PUBLIC["conjugate"](v)
    return _slide(a, v, mode, False, precision, preferred)
