"""Discrete Fourier transforms: `fft`, whose derivative is again a transform."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront import lowering
from xlafront.core import dtypes, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.basic_primitives import broadcast_in_dim_p, move_dim
from xlafront.core.primitive import MeshRules, Primitive
from xlafront.core.sharding_types import of_first
from xlafront.core.typing import Array, ArrayLike
from xlafront.core.zeros import Zero
from xlafront.lax import sharding_rules
from xlafront.lax.arguments import check_dtype
from xlafront.lax.elementwise import as_type, conj_, mul
from xlafront.lax.shapes import linear_jvp, static_shape
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import is_symbolic_dim

if TYPE_CHECKING:
    from xlafront.core.typing import Dims, Tangent
    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir


class FftType(enum.IntEnum):
    """Types of Fourier transforms: of complex numbers and back, or of real numbers to half a spectrum and back."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


def _abstract(x: ShapedArray, *, fft_type: FftType, fft_lengths: tuple[int, ...]) -> ShapedArray:
    name = f"fft of type {fft_type.name}"
    check_dtype(name, "float32" if fft_type == FftType.RFFT else "complex", x.dtype)
    rank = len(fft_lengths)
    if not 1 <= rank <= 3:
        raise ValueError(f"{name} transforms 1, 2 or 3 dimensions, got lengths {fft_lengths}.")
    if x.ndim < rank:
        raise ValueError(f"{name} of {rank} dimensions needs an array with as many, got shape {x.shape}.")
    half_spectrum = (*fft_lengths[:-1], fft_lengths[-1] // 2 + 1)
    expected, result = (half_spectrum, fft_lengths) if fft_type == FftType.IRFFT else (fft_lengths, half_spectrum)
    if x.shape[x.ndim - rank:] != tuple(expected):
        raise ValueError(f"{name} with fft_lengths={fft_lengths} needs an operand whose last dimensions are {expected}, got "
                         f"shape {x.shape}.")
    lead = x.shape[:x.ndim - rank]
    if fft_type == FftType.RFFT:
        return ShapedArray((*lead, *result), dtypes.to_complex(x.dtype), vma=x.vma)
    if fft_type == FftType.IRFFT:
        return ShapedArray((*lead, *result), dtypes.to_real(x.dtype), vma=x.vma)
    return ShapedArray(x.shape, x.dtype, vma=x.vma)


def _check_lengths(lengths: tuple) -> None:
    for n in lengths:
        if is_symbolic_dim(n):
            raise NotImplementedError(
                f"Fourier transforms along a dimension of the size '{n}', which is not known while tracing, cannot be "
                f"expressed in StableHLO. Export this dimension with a fixed size, or pad to one; other dimensions may be "
                f"symbolic.")


def _lower(ctx: RuleContext, x: ir.Value, *, fft_type: FftType, fft_lengths: tuple[int, ...]) -> ir.Value:
    _check_lengths(fft_lengths)
    m = lowering.mlir
    if 0 in ctx.aval_out.shape or 0 in ctx.avals_in[0].shape:
        return ctx.broadcast_in_dim(ctx.constant(np.zeros((), ctx.aval_out.dtype)), ())
    return ctx.op("stablehlo.fft", [x], fft_type=m.attribute(f"#stablehlo<fft_type {fft_type.name}>"),
                  fft_length=m.i64s(fft_lengths))


def _transpose(ct: Tangent, x: Any, *, fft_type: FftType, fft_lengths: tuple[int, ...]) -> list[Any]:
    if type(ct) is Zero:
        return [Zero(x.aval)]
    if fft_type in (FftType.FFT, FftType.IFFT):  # its matrix is symmetric
        return [fft_p.bind(ct, fft_type=fft_type, fft_lengths=fft_lengths)]
    _check_lengths(fft_lengths)
    n, d = fft_lengths[-1], dtypes.to_complex(tracing.aval_of(ct).dtype)
    # Each element of half a spectrum represents its conjugate too, except for the first, and the last if `n` is even.
    weights = np.full(n // 2 + 1, 2 / max(math.prod(fft_lengths), 1))
    weights[0] /= 2
    if n % 2 == 0:
        weights[-1] /= 2
    if fft_type == FftType.RFFT:
        spectrum = conj_(_weighted(ct, 1 / weights), input_dtype=d)
        return [fft_p.bind(spectrum, fft_type=FftType.IRFFT, fft_lengths=fft_lengths)]
    return [conj_(_weighted(fft_p.bind(ct, fft_type=FftType.RFFT, fft_lengths=fft_lengths), weights), input_dtype=d)]


def _weighted(spectrum: Array, weights: np.ndarray) -> Array:
    """Multiply by a weight for each element of the last dimension."""
    shape, dtype = np.shape(spectrum), tracing.aval_of(spectrum).dtype
    return mul(spectrum, broadcast_in_dim_p.bind(
        weights.astype(dtype), shape=shape, broadcast_dimensions=(len(shape) - 1,), sharding=None))


def _batch(axis_size: int, operands: Sequence[Any], dims: Dims, **params: Any) -> tuple[Any, Any]:
    return fft_p.bind(move_dim(operands[0], dims[0], 0), **params), 0


fft_p = Primitive(
    "fft", abstract=_abstract, lower=_lower, transpose=_transpose, batch=_batch, jvp=linear_jvp,
    mesh=MeshRules(sharding_rule=sharding_rules.same, sums=of_first))


@library(static=("fft_type", "fft_lengths"))
@accepts(anything=True)
def fft(x: ArrayLike, fft_type: FftType | str, fft_lengths: Sequence[int]) -> Array:
    """Compute the discrete Fourier transform over the last dimensions.

    Args:
        x: Array of complex numbers; of real numbers for "RFFT".
        fft_type: An `FftType` or its name. "FFT" does not scale; "IFFT" divides by the number of elements; "RFFT" returns the
            first `n // 2 + 1` elements of the last dimension, since the others are conjugates; "IRFFT" is the inverse of
            "RFFT".
        fft_lengths: Sizes of the one to three transformed dimensions: before "RFFT", and after "IRFFT". Without any, the array
            is returned, converted as for the transform.

    Returns:
        The transform.

    Example:
        >>> lax.fft(xnp.array([1.0, 0.0, 0.0, 0.0]), "RFFT", (4,))
        Array([1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)
    """
    if isinstance(fft_type, str):
        kind = {text: kind for name, kind in FftType.__members__.items() for text in (name, name.lower())}.get(fft_type)
        if kind is None:
            raise ValueError(f"lax.fft got an unknown FFT type {fft_type!r}; use one of {', '.join(FftType.__members__)}.")
    elif isinstance(fft_type, FftType):
        kind = fft_type
    else:
        raise TypeError(f"lax.fft got an unknown FFT type value {fft_type!r}; use an FftType or its name.")
    if not isinstance(fft_lengths, (tuple, list)):
        raise TypeError(f"lax.fft takes a tuple of lengths, got {fft_lengths!r}, an object of type "
                        f"{type(fft_lengths).__name__}.")
    d = tracing.aval_of(x).dtype
    if kind == FftType.RFFT and (d.kind == "c" or dtypes.is_inexact(d) and d.itemsize < 4):
        raise ValueError(f"the input of lax.fft of type RFFT must be float32 or float64, got {d}.")
    return _fft_kernel(x, kind, static_shape("fft", fft_lengths))


@library(static=("fft_type", "fft_lengths"), name="fft")
def _fft_kernel(x: Array, fft_type: FftType, fft_lengths: tuple[int, ...]) -> Array:
    d = tracing.aval_of(x).dtype
    target_dtype = dtypes.to_inexact(d) if fft_type == FftType.RFFT else dtypes.to_complex(d)
    x = as_type(x, target_dtype, False)
    return fft_p.bind(x, fft_type=fft_type, fft_lengths=fft_lengths) if fft_lengths else x
