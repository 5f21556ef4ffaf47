"""Reinterpretation of the bits of arrays: `view` and `byteswap`."""

from __future__ import annotations

import numpy as np

from xlafront.core import dtypes, tracing
from xlafront.lax import shapes
from xlafront.lax.elementwise import as_type, complex_, imag_, real_
from xlafront.numpy.creation import astype
from xlafront.numpy.manipulation import expand_dims, flip, stack, unstack
from xlafront.numpy.ufuncs import PUBLIC
from xlafront.staging.library import library


@library(static="dtype", name="view")
def _view_kernel(a, dtype):
    own = tracing.aval_of(a).dtype
    if own == dtype:
        return a
    if own.kind == "c" or dtype.kind == "c":
        return _complex_view(a, own, dtype)
    shape = np.shape(a)
    before, after = dtypes.itemsize_bits(own), dtypes.itemsize_bits(dtype)
    if own == dtypes.bool_:
        a, before = as_type(a, dtypes.uint8, False), 8
    target = dtypes.uint8 if dtype == dtypes.bool_ else dtype
    after = 8 if dtype == dtypes.bool_ else after
    if after > before:
        ratio = after // before
        a = shapes.reshape_to(a, (*shape[:-1], shape[-1] // ratio, ratio))
    result = shapes.bitcast_convert_type_p.bind(a, new_dtype=target)
    if after < before:
        result = shapes.reshape_to(result, (*shape[:-1], shape[-1] * (before // after)))
    return as_type(result, dtype, False) if dtype == dtypes.bool_ else result


def _complex_view(a, own, dtype):
    """View complex arrays as pairs of reals, as they are stored."""
    if own.kind == "c":
        pairs = stack([real_(a), imag_(a)], -1)
        reals = shapes.reshape_to(pairs, (*np.shape(a)[:-1], 2 * np.shape(a)[-1]))
        return _view_kernel.__wrapped__(reals, dtype)
    reals = _view_kernel.__wrapped__(a, dtypes.to_real(dtype))
    pairs = shapes.reshape_to(reals, (*np.shape(reals)[:-1], np.shape(reals)[-1] // 2, 2))
    return complex_(*unstack(pairs, axis=-1))


@library(static=None)
def view(a, dtype):
    """Reinterpret the bits of an array as another dtype. The last dimension is scaled by the ratio of the element
    sizes."""
    d = dtypes.check_user_dtype(dtype, "view")
    own = tracing.aval_of(a).dtype
    if own == d:
        return a
    before, after = (8 if x == dtypes.bool_ else dtypes.itemsize_bits(x) for x in (own, d))
    shape = np.shape(a)
    if before != after and not shape:
        raise ValueError(f"an array without dimensions cannot be viewed from {own} as {d}, whose elements differ in size.")
    if after > before and shape[-1] * before % after:
        raise ValueError(f"a view of {own} as {d} needs the last dimension ({shape[-1]}) to be a multiple of "
                         f"{after // before}.")
    return _view_kernel(a, d)


def byteswap(a):
    """Return the array with the bytes of each element in reverse order."""
    size = a.dtype.itemsize
    if size == 1:
        return a
    if a.dtype.kind == "c":
        half = dtypes.to_real(a.dtype)
        real, imag = (byteswap(PUBLIC[component](a)) for component in ("real", "imag"))
        return view(stack([real, imag], -1), np.dtype(f"c{2 * half.itemsize}"))[..., 0]
    octets = view(expand_dims(a, -1), np.dtype(np.uint8))
    return astype(view(flip(octets, -1), a.dtype)[..., 0], a.dtype)
