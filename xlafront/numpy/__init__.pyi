# Written by `python -m tests.stubs`.
from xlafront.core.dtypes import promote_types as promote_types
from xlafront.core.dtypes import result_type as result_type
from xlafront.core.typing import Array as _Array
from xlafront.core.typing import ArrayLike as _ArrayLike
from xlafront.core.typing import Axes as _Axes
from xlafront.core.typing import DTypeLike as _DTypeLike
from xlafront.linalg.polynomials import poly as poly
from xlafront.linalg.polynomials import polyadd as polyadd
from xlafront.linalg.polynomials import polyder as polyder
from xlafront.linalg.polynomials import polydiv as polydiv
from xlafront.linalg.polynomials import polyfit as polyfit
from xlafront.linalg.polynomials import polyint as polyint
from xlafront.linalg.polynomials import polymul as polymul
from xlafront.linalg.polynomials import polysub as polysub
from xlafront.linalg.polynomials import polyval as polyval
from xlafront.linalg.polynomials import roots as roots
from xlafront.linalg.polynomials import vander as vander
from xlafront.nn import tanh as tanh
from xlafront.numpy import fft as fft
from xlafront.numpy import linalg as linalg
from xlafront.numpy.array_api import __array_namespace_info__ as __array_namespace_info__
from xlafront.numpy.array_api import from_dlpack as from_dlpack
from xlafront.numpy.array_methods import Array as _source_ndarray
from xlafront.numpy.bits import packbits as packbits
from xlafront.numpy.bits import unpackbits as unpackbits
from xlafront.numpy.cardinal_sine import _sinc as _source_sinc
from xlafront.numpy.convolutions import convolve as convolve
from xlafront.numpy.convolutions import correlate as correlate
from xlafront.numpy.creation import arange as arange
from xlafront.numpy.creation import array as array
from xlafront.numpy.creation import asarray as asarray
from xlafront.numpy.creation import astype as astype
from xlafront.numpy.creation import copy as copy
from xlafront.numpy.creation import empty as empty
from xlafront.numpy.creation import empty_like as empty_like
from xlafront.numpy.creation import eye as eye
from xlafront.numpy.creation import full as full
from xlafront.numpy.creation import full_like as full_like
from xlafront.numpy.creation import identity as identity
from xlafront.numpy.creation import meshgrid as meshgrid
from xlafront.numpy.creation import ones as ones
from xlafront.numpy.creation import tri as tri
from xlafront.numpy.creation import tril as tril
from xlafront.numpy.creation import triu as triu
from xlafront.numpy.creation import zeros as zeros
from xlafront.numpy.diagonals import diag as diag
from xlafront.numpy.diagonals import diagflat as diagflat
from xlafront.numpy.diagonals import diagonal as diagonal
from xlafront.numpy.diagonals import trace as trace
from xlafront.numpy.differences import diff as diff
from xlafront.numpy.differences import ediff1d as ediff1d
from xlafront.numpy.differences import gradient as gradient
from xlafront.numpy.differences import interp as interp
from xlafront.numpy.differences import trapezoid as trapezoid
from xlafront.numpy.differences import unwrap as unwrap
from xlafront.numpy.divisors import gcd as gcd
from xlafront.numpy.divisors import lcm as lcm
from xlafront.numpy.editing import delete as delete
from xlafront.numpy.editing import fill_diagonal as fill_diagonal
from xlafront.numpy.editing import insert as insert
from xlafront.numpy.editing import place as place
from xlafront.numpy.editing import put as put
from xlafront.numpy.editing import put_along_axis as put_along_axis
from xlafront.numpy.editing import resize as resize
from xlafront.numpy.editing import trim_zeros as trim_zeros
from xlafront.numpy.files import array_repr as array_repr
from xlafront.numpy.files import array_str as array_str
from xlafront.numpy.files import frombuffer as frombuffer
from xlafront.numpy.files import fromfile as fromfile
from xlafront.numpy.files import fromiter as fromiter
from xlafront.numpy.files import fromstring as fromstring
from xlafront.numpy.files import load as load
from xlafront.numpy.files import save as save
from xlafront.numpy.files import savez as savez
from xlafront.numpy.float_decomposition import frexp as frexp
from xlafront.numpy.float_decomposition import ldexp as ldexp
from xlafront.numpy.float_decomposition import modf as modf
from xlafront.numpy.float_decomposition import spacing as spacing
from xlafront.numpy.histograms import bincount as bincount
from xlafront.numpy.histograms import digitize as digitize
from xlafront.numpy.histograms import histogram as histogram
from xlafront.numpy.histograms import histogram2d as histogram2d
from xlafront.numpy.histograms import histogram_bin_edges as histogram_bin_edges
from xlafront.numpy.histograms import histogramdd as histogramdd
from xlafront.numpy.index_tricks import CClass as _CClass
from xlafront.numpy.index_tricks import RClass as _RClass
from xlafront.numpy.index_tricks import _Grid as __Grid
from xlafront.numpy.index_tricks import diag_indices as diag_indices
from xlafront.numpy.index_tricks import diag_indices_from as diag_indices_from
from xlafront.numpy.index_tricks import indices as indices
from xlafront.numpy.index_tricks import ix_ as ix_
from xlafront.numpy.index_tricks import mask_indices as mask_indices
from xlafront.numpy.index_tricks import ravel_multi_index as ravel_multi_index
from xlafront.numpy.index_tricks import tril_indices as tril_indices
from xlafront.numpy.index_tricks import tril_indices_from as tril_indices_from
from xlafront.numpy.index_tricks import triu_indices as triu_indices
from xlafront.numpy.index_tricks import triu_indices_from as triu_indices_from
from xlafront.numpy.index_tricks import unravel_index as unravel_index
from xlafront.numpy.indexing import take as take
from xlafront.numpy.indexing import take_along_axis as take_along_axis
from xlafront.numpy.linear import cross as cross
from xlafront.numpy.linear import dot as dot
from xlafront.numpy.linear import einsum as einsum
from xlafront.numpy.linear import einsum_path as einsum_path
from xlafront.numpy.linear import inner as inner
from xlafront.numpy.linear import kron as kron
from xlafront.numpy.linear import matmul as matmul
from xlafront.numpy.linear import matvec as matvec
from xlafront.numpy.linear import outer as outer
from xlafront.numpy.linear import tensordot as tensordot
from xlafront.numpy.linear import vdot as vdot
from xlafront.numpy.linear import vecdot as vecdot
from xlafront.numpy.linear import vecmat as vecmat
from xlafront.numpy.manipulation import append as append
from xlafront.numpy.manipulation import array_split as array_split
from xlafront.numpy.manipulation import block as block
from xlafront.numpy.manipulation import broadcast_arrays as broadcast_arrays
from xlafront.numpy.manipulation import broadcast_shapes as broadcast_shapes
from xlafront.numpy.manipulation import broadcast_to as broadcast_to
from xlafront.numpy.manipulation import column_stack as column_stack
from xlafront.numpy.manipulation import concat as concat
from xlafront.numpy.manipulation import concatenate as concatenate
from xlafront.numpy.manipulation import dsplit as dsplit
from xlafront.numpy.manipulation import dstack as dstack
from xlafront.numpy.manipulation import expand_dims as expand_dims
from xlafront.numpy.manipulation import flip as flip
from xlafront.numpy.manipulation import fliplr as fliplr
from xlafront.numpy.manipulation import flipud as flipud
from xlafront.numpy.manipulation import hsplit as hsplit
from xlafront.numpy.manipulation import hstack as hstack
from xlafront.numpy.manipulation import matrix_transpose as matrix_transpose
from xlafront.numpy.manipulation import moveaxis as moveaxis
from xlafront.numpy.manipulation import ndim as ndim
from xlafront.numpy.manipulation import permute_dims as permute_dims
from xlafront.numpy.manipulation import ravel as ravel
from xlafront.numpy.manipulation import reshape as reshape
from xlafront.numpy.manipulation import roll as roll
from xlafront.numpy.manipulation import rollaxis as rollaxis
from xlafront.numpy.manipulation import rot90 as rot90
from xlafront.numpy.manipulation import shape as shape
from xlafront.numpy.manipulation import size as size
from xlafront.numpy.manipulation import split as split
from xlafront.numpy.manipulation import squeeze as squeeze
from xlafront.numpy.manipulation import stack as stack
from xlafront.numpy.manipulation import swapaxes as swapaxes
from xlafront.numpy.manipulation import transpose as transpose
from xlafront.numpy.manipulation import unstack as unstack
from xlafront.numpy.manipulation import vsplit as vsplit
from xlafront.numpy.manipulation import vstack as vstack
from xlafront.numpy.mapping import apply_along_axis as apply_along_axis
from xlafront.numpy.mapping import apply_over_axes as apply_over_axes
from xlafront.numpy.mapping import fromfunction as fromfunction
from xlafront.numpy.mapping import piecewise as piecewise
from xlafront.numpy.mapping import vectorize as vectorize
from xlafront.numpy.missing_values import nan_to_num as nan_to_num
from xlafront.numpy.missing_values import nanargmax as nanargmax
from xlafront.numpy.missing_values import nanargmin as nanargmin
from xlafront.numpy.missing_values import nancumprod as nancumprod
from xlafront.numpy.missing_values import nancumsum as nancumsum
from xlafront.numpy.missing_values import nanmax as nanmax
from xlafront.numpy.missing_values import nanmean as nanmean
from xlafront.numpy.missing_values import nanmedian as nanmedian
from xlafront.numpy.missing_values import nanmin as nanmin
from xlafront.numpy.missing_values import nanpercentile as nanpercentile
from xlafront.numpy.missing_values import nanprod as nanprod
from xlafront.numpy.missing_values import nanquantile as nanquantile
from xlafront.numpy.missing_values import nanstd as nanstd
from xlafront.numpy.missing_values import nansum as nansum
from xlafront.numpy.missing_values import nanvar as nanvar
from xlafront.numpy.padding import pad as pad
from xlafront.numpy.reductions import allclose as allclose
from xlafront.numpy.reductions import array_equal as array_equal
from xlafront.numpy.reductions import array_equiv as array_equiv
from xlafront.numpy.reductions import count_nonzero as count_nonzero
from xlafront.numpy.reductions import cumulative_prod as cumulative_prod
from xlafront.numpy.reductions import cumulative_sum as cumulative_sum
from xlafront.numpy.reductions import mean as mean
from xlafront.numpy.reductions import minmax as minmax
from xlafront.numpy.reductions import ptp as ptp
from xlafront.numpy.reductions import std as std
from xlafront.numpy.reductions import var as var
from xlafront.numpy.repeating import repeat as repeat
from xlafront.numpy.repeating import tile as tile
from xlafront.numpy.scalar_types import ScalarType as _ScalarType
from xlafront.numpy.scalar_types import can_cast as can_cast
from xlafront.numpy.scalar_types import iscomplexobj as iscomplexobj
from xlafront.numpy.scalar_types import isdtype as isdtype
from xlafront.numpy.scalar_types import isrealobj as isrealobj
from xlafront.numpy.scalar_types import isscalar as isscalar
from xlafront.numpy.scalar_types import issubdtype as issubdtype
from xlafront.numpy.scalar_types import iterable as iterable
from xlafront.numpy.searching import argwhere as argwhere
from xlafront.numpy.searching import choose as choose
from xlafront.numpy.searching import compress as compress
from xlafront.numpy.searching import extract as extract
from xlafront.numpy.searching import flatnonzero as flatnonzero
from xlafront.numpy.searching import nonzero as nonzero
from xlafront.numpy.searching import searchsorted as searchsorted
from xlafront.numpy.searching import select as select
from xlafront.numpy.searching import where as where
from xlafront.numpy.sets import intersect1d as intersect1d
from xlafront.numpy.sets import isin as isin
from xlafront.numpy.sets import setdiff1d as setdiff1d
from xlafront.numpy.sets import setxor1d as setxor1d
from xlafront.numpy.sets import union1d as union1d
from xlafront.numpy.sets import unique as unique
from xlafront.numpy.sets import unique_all as unique_all
from xlafront.numpy.sets import unique_counts as unique_counts
from xlafront.numpy.sets import unique_inverse as unique_inverse
from xlafront.numpy.sets import unique_values as unique_values
from xlafront.numpy.sorting import argpartition as argpartition
from xlafront.numpy.sorting import argsort as argsort
from xlafront.numpy.sorting import lexsort as lexsort
from xlafront.numpy.sorting import partition as partition
from xlafront.numpy.sorting import sort as sort
from xlafront.numpy.sorting import sort_complex as sort_complex
from xlafront.numpy.sorting import top_k as top_k
from xlafront.numpy.spaces import geomspace as geomspace
from xlafront.numpy.spaces import linspace as linspace
from xlafront.numpy.spaces import logspace as logspace
from xlafront.numpy.statistics import average as average
from xlafront.numpy.statistics import corrcoef as corrcoef
from xlafront.numpy.statistics import cov as cov
from xlafront.numpy.statistics import median as median
from xlafront.numpy.statistics import percentile as percentile
from xlafront.numpy.statistics import quantile as quantile
from xlafront.numpy.ufunc_methods import _UfuncMeta as __UfuncMeta
from xlafront.numpy.ufunc_methods import frompyfunc as frompyfunc
from xlafront.numpy.ufuncs import absolute as _source_abs
from xlafront.numpy.ufuncs import absolute as absolute
from xlafront.numpy.ufuncs import angle as angle
from xlafront.numpy.ufuncs import bitwise_count as bitwise_count
from xlafront.numpy.ufuncs import clip as clip
from xlafront.numpy.ufuncs import conjugate as _source_conj
from xlafront.numpy.ufuncs import conjugate as conjugate
from xlafront.numpy.ufuncs import copysign as copysign
from xlafront.numpy.ufuncs import divmod as divmod
from xlafront.numpy.ufuncs import fabs as fabs
from xlafront.numpy.ufuncs import float_power as float_power
from xlafront.numpy.ufuncs import floor_divide as floor_divide
from xlafront.numpy.ufuncs import fmod as fmod
from xlafront.numpy.ufuncs import heaviside as heaviside
from xlafront.numpy.ufuncs import hypot as hypot
from xlafront.numpy.ufuncs import imag as imag
from xlafront.numpy.ufuncs import isclose as isclose
from xlafront.numpy.ufuncs import iscomplex as iscomplex
from xlafront.numpy.ufuncs import isreal as isreal
from xlafront.numpy.ufuncs import left_shift as _source_bitwise_left_shift
from xlafront.numpy.ufuncs import left_shift as left_shift
from xlafront.numpy.ufuncs import log10 as log10
from xlafront.numpy.ufuncs import log2 as log2
from xlafront.numpy.ufuncs import logical_not as logical_not
from xlafront.numpy.ufuncs import positive as positive
from xlafront.numpy.ufuncs import power as _source_pow
from xlafront.numpy.ufuncs import power as power
from xlafront.numpy.ufuncs import real as real
from xlafront.numpy.ufuncs import reciprocal as reciprocal
from xlafront.numpy.ufuncs import remainder as _source_mod
from xlafront.numpy.ufuncs import remainder as remainder
from xlafront.numpy.ufuncs import right_shift as _source_bitwise_right_shift
from xlafront.numpy.ufuncs import right_shift as right_shift
from xlafront.numpy.ufuncs import rint as rint
from xlafront.numpy.ufuncs import round as _source_around
from xlafront.numpy.ufuncs import round as round
from xlafront.numpy.ufuncs import signbit as signbit
from xlafront.numpy.ufuncs import square as square
from xlafront.numpy.ufuncs import trunc as trunc
from xlafront.special.windows import bartlett as bartlett
from xlafront.special.windows import blackman as blackman
from xlafront.special.windows import hamming as hamming
from xlafront.special.windows import hanning as hanning
from xlafront.special.windows import i0 as i0
from xlafront.special.windows import kaiser as kaiser
import builtins as _builtins
import ml_dtypes as _ml_dtypes
import numpy as _numpy
import typing as _typing

class _Ufunc:
    nin: _builtins.int
    nout: _builtins.int
    nargs: _builtins.int
    identity: _typing.Any
    def __call__(self, x1: _ArrayLike, x2: _ArrayLike, /, *, out: None = ..., where: None = ...) -> _Array: ...
    def at(self, a: _ArrayLike, indices: _typing.Any, b: _ArrayLike | None = ..., *, inplace: _builtins.bool = ...) -> _Array: ...
    def reduce(self, a: _ArrayLike, axis: _typing.Any = ..., dtype: _typing.Any = ..., out: None = ..., keepdims: _builtins.bool = ...,
               initial: _ArrayLike | None = ..., where: _ArrayLike | None = ...) -> _Array: ...
    def accumulate(self, a: _ArrayLike, axis: _builtins.int = ..., dtype: _typing.Any = ..., out: None = ...) -> _Array: ...
    def outer(self, A: _ArrayLike, B: _ArrayLike, /) -> _Array: ...
    def reduceat(self, a: _ArrayLike, indices: _typing.Any, axis: _builtins.int = ..., dtype: _typing.Any = ..., out: None = ...
                 ) -> _Array: ...

ComplexWarning = _numpy.exceptions.ComplexWarning
__array_api_version__: _builtins.str
abs = _source_abs
def acos(x: _ArrayLike, /) -> _Array:
    """Compute the inverse cosine elementwise.

    The result is in radians, from 0 to pi; NaN for real `x` outside [-1, 1].

    Args:
        x: Array or scalar.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> xnp.acos(xnp.array([1.0, -1.0]))
        Array([0.       , 3.1415927], dtype=float32)
    """
def acosh(x: _ArrayLike, /) -> _Array:
    """Compute the inverse hyperbolic cosine elementwise.

    The result is nonnegative; NaN for real `x` below 1.

    Args:
        x: Array or scalar.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> xnp.acosh(xnp.array([1.0, 0.0]))
        Array([ 0., nan], dtype=float32)
    """
add: _Ufunc
"""Add two arrays elementwise, as `x1 + x2`.

For booleans it is the logical OR.

Args:
    x1, x2: Arrays or scalars, promoted to a common dtype and broadcast to a common shape.
    out, where: Must be None (for compatibility with NumPy): arrays are immutable.

Returns:
    Array with the common shape of the operands.

Example:
    >>> xnp.add(xnp.array([1, 2]), xnp.array([0.5, 1.5]))
    Array([1.5, 3.5], dtype=float32)
"""
def all(a: _ArrayLike, axis: _Axes = None, out: None = None, keepdims: _builtins.bool = False, *, where: _ArrayLike | None = None) -> _Array:
    """Test if all elements over axes are true.

    Numbers other than 0 count as True. Over no elements the result is True.

    Args:
        a: Array.
        axis: Axis or axes to reduce over. Default: all.
        out: Must be None (for compatibility with NumPy): arrays are immutable.
        keepdims: If True, keep reduced axes with size 1.
        where: Boolean array, broadcast with `a`, that selects the elements to include.

    Returns:
        Boolean array of the shape of `a` without the reduced axes.

    Example:
        >>> xnp.all(xnp.array([[True, False], [True, True]]), axis=1)
        Array([False,  True], dtype=bool)
    """
def amax(a: _ArrayLike, axis: _Axes = None, out: None = None, keepdims: _builtins.bool = False, initial: _ArrayLike | None = None, where: _ArrayLike | None = None) -> _Array:
    """Compute the maximum over axes.

    The result is NaN if an element is NaN. `numpy.amax` is an alias.

    Args:
        a: Array.
        axis: Axis or axes to reduce over: positions, or names given by `vmap` or `shard_map`. Default: all positions.
        out: Must be None (for compatibility with NumPy): arrays are immutable.
        keepdims: If True, keep reduced axes with size 1.
        initial: Start value of the reduction, a scalar.
        where: Boolean array, broadcast with `a`, that selects the elements to include. Requires `initial`.

    Returns:
        Array of the shape of `a` without the reduced axes.

    Example:
        >>> xnp.max(xnp.array([[1, 4], [3, 2]]), axis=1)
        Array([4, 3], dtype=int32)
    """
def amin(a: _ArrayLike, axis: _Axes = None, out: None = None, keepdims: _builtins.bool = False, initial: _ArrayLike | None = None, where: _ArrayLike | None = None) -> _Array:
    """Compute the minimum over axes.

    The result is NaN if an element is NaN. `numpy.amin` is an alias.

    Args:
        a: Array.
        axis: Axis or axes to reduce over: positions, or names given by `vmap` or `shard_map`. Default: all positions.
        out: Must be None (for compatibility with NumPy): arrays are immutable.
        keepdims: If True, keep reduced axes with size 1.
        initial: Start value of the reduction, a scalar.
        where: Boolean array, broadcast with `a`, that selects the elements to include. Requires `initial`.

    Returns:
        Array of the shape of `a` without the reduced axes.

    Example:
        >>> xnp.min(xnp.array([[1, 4], [3, 2]]), axis=1)
        Array([1, 2], dtype=int32)
    """
def any(a: _ArrayLike, axis: _Axes = None, out: None = None, keepdims: _builtins.bool = False, *, where: _ArrayLike | None = None) -> _Array:
    """Test if any element over axes is true.

    Numbers other than 0 count as True. Over no elements the result is False.

    Args:
        a: Array.
        axis: Axis or axes to reduce over. Default: all.
        out: Must be None (for compatibility with NumPy): arrays are immutable.
        keepdims: If True, keep reduced axes with size 1.
        where: Boolean array, broadcast with `a`, that selects the elements to include.

    Returns:
        Boolean array of the shape of `a` without the reduced axes.

    Example:
        >>> xnp.any(xnp.array([[True, False], [False, False]]), axis=1)
        Array([ True, False], dtype=bool)
    """
def arccos(x: _ArrayLike, /) -> _Array:
    """Compute the inverse cosine elementwise.

    The result is in radians, from 0 to pi; NaN for real `x` outside [-1, 1]. It is an alias of `xnp.acos`.

    Args:
        x: Array or scalar.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> xnp.arccos(xnp.array([1.0, -1.0]))
        Array([0.       , 3.1415927], dtype=float32)
    """
def arccosh(x: _ArrayLike, /) -> _Array:
    """Compute the inverse hyperbolic cosine elementwise.

    The result is nonnegative; NaN for real `x` below 1. It is an alias of `xnp.acosh`.

    Args:
        x: Array or scalar.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> xnp.arccosh(xnp.array([1.0, 0.0]))
        Array([ 0., nan], dtype=float32)
    """
def arcsin(x: _ArrayLike, /) -> _Array:
    """Compute the inverse sine elementwise.

    The result is in radians, from -pi/2 to pi/2; NaN for real `x` outside [-1, 1]. It is an alias of `xnp.asin`.

    Args:
        x: Array or scalar.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> xnp.arcsin(xnp.array([0.0, 1.0]))
        Array([0.       , 1.5707964], dtype=float32)
    """
def arcsinh(x: _ArrayLike, /) -> _Array:
    """Compute the inverse hyperbolic sine elementwise.

    It is an alias of `xnp.asinh`.

    Args:
        x: Array or scalar.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> xnp.arcsinh(xnp.array([0.0, xnp.inf]))
        Array([ 0., inf], dtype=float32)
    """
def arctan(x: _ArrayLike, /) -> _Array:
    """Compute the inverse tangent elementwise.

    The result is in radians, from -pi/2 to pi/2. It is an alias of `xnp.atan`.

    Args:
        x: Array or scalar.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> xnp.arctan(xnp.array([0.0, xnp.inf]))
        Array([0.       , 1.5707964], dtype=float32)
    """
def arctan2(x1: _ArrayLike, x2: _ArrayLike, /, *, out: None = None, where: None = None) -> _Array:
    """Compute the angle of the point (`x2`, `x1`) in the plane, elementwise.

    The result is in radians, from -pi to pi: the inverse tangent of `x1 / x2` in the right quadrant. It is an alias of `xnp.atan2`.

    Args:
        x1, x2: Arrays or scalars, promoted to a common dtype and broadcast to a common shape.
        out, where: Must be None (for compatibility with NumPy): arrays are immutable.

    Returns:
        Array with the common shape of the operands.

    Example:
        >>> xnp.arctan2(0.0, xnp.array([1.0, -1.0]))
        Array([0.       , 3.1415927], dtype=float32)
    """
def arctanh(x: _ArrayLike, /) -> _Array:
    """Compute the inverse hyperbolic tangent elementwise.

    The result is NaN for real `x` outside [-1, 1]. It is an alias of `xnp.atanh`.

    Args:
        x: Array or scalar.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> xnp.arctanh(xnp.array([0.0, 1.0]))
        Array([ 0., inf], dtype=float32)
    """
def argmax(a: _ArrayLike, axis: _builtins.int | None = None, out: None = None, keepdims: _builtins.bool | None = None) -> _Array:
    """Return the index of the maximum along an axis.

    It is the first index if there are several. NaN counts as the maximum.

    Args:
        a: Array.
        axis: Axis to work along. Default: the flattened array.
        out: Must be None (for compatibility with NumPy): arrays are immutable.
        keepdims: If True, keep reduced axes with size 1.

    Returns:
        Array of integers of the shape of `a` without the axis.

    Example:
        >>> xnp.argmax(xnp.array([[1, 4], [3, 2]]), axis=1)
        Array([1, 0], dtype=int32)
    """
def argmin(a: _ArrayLike, axis: _builtins.int | None = None, out: None = None, keepdims: _builtins.bool | None = None) -> _Array:
    """Return the index of the minimum along an axis.

    It is the first index if there are several. NaN counts as the minimum.

    Args:
        a: Array.
        axis: Axis to work along. Default: the flattened array.
        out: Must be None (for compatibility with NumPy): arrays are immutable.
        keepdims: If True, keep reduced axes with size 1.

    Returns:
        Array of integers of the shape of `a` without the axis.

    Example:
        >>> xnp.argmin(xnp.array([[1, 4], [3, 2]]), axis=1)
        Array([0, 1], dtype=int32)
    """
around = _source_around
def asin(x: _ArrayLike, /) -> _Array:
    """Compute the inverse sine elementwise.

    The result is in radians, from -pi/2 to pi/2; NaN for real `x` outside [-1, 1].

    Args:
        x: Array or scalar.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> xnp.asin(xnp.array([0.0, 1.0]))
        Array([0.       , 1.5707964], dtype=float32)
    """
def asinh(x: _ArrayLike, /) -> _Array:
    """Compute the inverse hyperbolic sine elementwise.

    Args:
        x: Array or scalar.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> xnp.asinh(xnp.array([0.0, xnp.inf]))
        Array([ 0., inf], dtype=float32)
    """
def atan(x: _ArrayLike, /) -> _Array:
    """Compute the inverse tangent elementwise.

    The result is in radians, from -pi/2 to pi/2.

    Args:
        x: Array or scalar.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> xnp.atan(xnp.array([0.0, xnp.inf]))
        Array([0.       , 1.5707964], dtype=float32)
    """
def atan2(x1: _ArrayLike, x2: _ArrayLike, /, *, out: None = None, where: None = None) -> _Array:
    """Compute the angle of the point (`x2`, `x1`) in the plane, elementwise.

    The result is in radians, from -pi to pi: the inverse tangent of `x1 / x2` in the right quadrant.

    Args:
        x1, x2: Arrays or scalars, promoted to a common dtype and broadcast to a common shape.
        out, where: Must be None (for compatibility with NumPy): arrays are immutable.

    Returns:
        Array with the common shape of the operands.

    Example:
        >>> xnp.atan2(0.0, xnp.array([1.0, -1.0]))
        Array([0.       , 3.1415927], dtype=float32)
    """
def atanh(x: _ArrayLike, /) -> _Array:
    """Compute the inverse hyperbolic tangent elementwise.

    The result is NaN for real `x` outside [-1, 1].

    Args:
        x: Array or scalar.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> xnp.atanh(xnp.array([0.0, 1.0]))
        Array([ 0., inf], dtype=float32)
    """
@_typing.overload
def atleast_1d(ary: _ArrayLike, /) -> _Array: ...
@_typing.overload
def atleast_1d(*arys: _ArrayLike) -> _Array | _builtins.list[_Array]: ...
@_typing.overload
def atleast_2d(ary: _ArrayLike, /) -> _Array: ...
@_typing.overload
def atleast_2d(*arys: _ArrayLike) -> _Array | _builtins.list[_Array]: ...
@_typing.overload
def atleast_3d(ary: _ArrayLike, /) -> _Array: ...
@_typing.overload
def atleast_3d(*arys: _ArrayLike) -> _Array | _builtins.list[_Array]: ...
bfloat16: _ScalarType
bitwise_and: _Ufunc
"""Compute the bitwise AND elementwise, as `x1 & x2`.

For booleans it is the logical AND.

Args:
    x1, x2: Arrays or scalars, promoted to a common dtype and broadcast to a common shape.
    out, where: Must be None (for compatibility with NumPy): arrays are immutable.

Returns:
    Array with the common shape of the operands.

Example:
    >>> xnp.bitwise_and(6, xnp.array([3, 4]))
    Array([2, 4], dtype=int32)
"""
def bitwise_invert(x: _ArrayLike, /, *, out: None = None, where: None = None) -> _Array:
    """Invert all bits elementwise, as `~x`.

    For booleans it is the logical NOT. It is an alias of `xnp.invert`.

    Args:
        x: Array or scalar.
        out, where: Must be None (for compatibility with NumPy): arrays are immutable.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> xnp.bitwise_invert(xnp.array([0, 5]))
        Array([-1, -6], dtype=int32)
    """
bitwise_left_shift = _source_bitwise_left_shift
def bitwise_not(x: _ArrayLike, /, *, out: None = None, where: None = None) -> _Array:
    """Invert all bits elementwise, as `~x`.

    For booleans it is the logical NOT. It is an alias of `xnp.invert`.

    Args:
        x: Array or scalar.
        out, where: Must be None (for compatibility with NumPy): arrays are immutable.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> xnp.bitwise_not(xnp.array([0, 5]))
        Array([-1, -6], dtype=int32)
    """
bitwise_or: _Ufunc
"""Compute the bitwise OR elementwise, as `x1 | x2`.

For booleans it is the logical OR.

Args:
    x1, x2: Arrays or scalars, promoted to a common dtype and broadcast to a common shape.
    out, where: Must be None (for compatibility with NumPy): arrays are immutable.

Returns:
    Array with the common shape of the operands.

Example:
    >>> xnp.bitwise_or(6, xnp.array([3, 4]))
    Array([7, 6], dtype=int32)
"""
bitwise_right_shift = _source_bitwise_right_shift
bitwise_xor: _Ufunc
"""Compute the bitwise exclusive OR elementwise, as `x1 ^ x2`.

For booleans it is the logical exclusive OR.

Args:
    x1, x2: Arrays or scalars, promoted to a common dtype and broadcast to a common shape.
    out, where: Must be None (for compatibility with NumPy): arrays are immutable.

Returns:
    Array with the common shape of the operands.

Example:
    >>> xnp.bitwise_xor(6, xnp.array([3, 4]))
    Array([5, 2], dtype=int32)
"""
bool: _ScalarType
bool_: _ScalarType
c_: _CClass
def cbrt(x: _ArrayLike, /) -> _Array:
    """Compute the real cube root elementwise.

    Negative numbers have negative roots.

    Args:
        x: Array or scalar.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> xnp.cbrt(xnp.array([8.0, -27.0]))
        Array([ 2., -3.], dtype=float32)
    """
cdouble: _ScalarType
def ceil(x: _ArrayLike, /) -> _Array:
    """Round up to the nearest integer elementwise.

    Integers and booleans keep their dtype.

    Args:
        x: Array or scalar.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> xnp.ceil(xnp.array([1.2, -1.2]))
        Array([ 2., -1.], dtype=float32)
    """
character = _numpy.character
complex128: _ScalarType
complex64: _ScalarType
complex_: _ScalarType
complexfloating = _numpy.complexfloating
conj = _source_conj
def cos(x: _ArrayLike, /) -> _Array:
    """Compute the cosine of angles in radians, elementwise.

    Args:
        x: Array or scalar.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> xnp.cos(xnp.array([0.0, xnp.pi]))
        Array([ 1., -1.], dtype=float32)
    """
def cosh(x: _ArrayLike, /) -> _Array:
    """Compute the hyperbolic cosine elementwise.

    Args:
        x: Array or scalar.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> xnp.cosh(xnp.array([0.0, xnp.inf]))
        Array([ 1., inf], dtype=float32)
    """
csingle: _ScalarType
def cumprod(a: _ArrayLike, axis: _builtins.int | None = None, dtype: _DTypeLike | None = None, out: None = None) -> _Array:
    """Compute the cumulative product along an axis.

    Args:
        a: Array.
        axis: Axis to work along. Default: the flattened array.
        dtype: dtype of the computation and of the result.
        out: Must be None (for compatibility with NumPy): arrays are immutable.

    Returns:
        Array of the shape of `a`, a vector without `axis`.

    Example:
        >>> xnp.cumprod(xnp.array([[1, 2], [3, 4]]), axis=0)
        Array([[1, 2],
               [3, 8]], dtype=int32)
    """
def cumsum(a: _ArrayLike, axis: _builtins.int | None = None, dtype: _DTypeLike | None = None, out: None = None) -> _Array:
    """Compute the cumulative sum along an axis.

    Args:
        a: Array.
        axis: Axis to work along. Default: the flattened array.
        dtype: dtype of the computation and of the result.
        out: Must be None (for compatibility with NumPy): arrays are immutable.

    Returns:
        Array of the shape of `a`, a vector without `axis`.

    Example:
        >>> xnp.cumsum(xnp.array([[1, 2], [3, 4]]), axis=0)
        Array([[1, 2],
               [4, 6]], dtype=int32)
    """
def deg2rad(x: _ArrayLike, /) -> _Array:
    """Convert angles from degrees to radians.

    Args:
        x: Array or scalar.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> xnp.deg2rad(xnp.array([0.0, 180.0]))
        Array([0.       , 3.1415927], dtype=float32)
    """
def degrees(x: _ArrayLike, /) -> _Array:
    """Convert angles from radians to degrees.

    It is an alias of `xnp.rad2deg`.

    Args:
        x: Array or scalar.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> xnp.degrees(xnp.array([0.0, xnp.pi]))
        Array([  0., 180.], dtype=float32)
    """
def divide(x1: _ArrayLike, x2: _ArrayLike, /, *, out: None = None, where: None = None) -> _Array:
    """Divide two arrays elementwise, as `x1 / x2`.

    Integers are converted to floats. Division by zero gives an infinity or NaN.

    Args:
        x1, x2: Arrays or scalars, promoted to a common dtype and broadcast to a common shape.
        out, where: Must be None (for compatibility with NumPy): arrays are immutable.

    Returns:
        Array with the common shape of the operands.

    Note:
        No warning is raised for division by zero.

    Example:
        >>> xnp.divide(xnp.array([1, -1, 0]), xnp.array([2, 0, 0]))
        Array([ 0.5, -inf,  nan], dtype=float32)
    """
double: _ScalarType
dtype = _numpy.dtype
e: _builtins.float
def equal(x: _ArrayLike, y: _ArrayLike, /, *, out: None = None, where: None = None) -> _Array:
    """Compare elementwise for equality, as `x == y`.

    NaN is not equal to anything.

    Args:
        x, y: Arrays or scalars, promoted to a common dtype and broadcast to a common shape.
        out, where: Must be None (for compatibility with NumPy): arrays are immutable.

    Returns:
        Boolean array with the common shape of the operands.

    Example:
        >>> xnp.equal(xnp.array([1.0, xnp.nan]), xnp.array([1.0, xnp.nan]))
        Array([ True, False], dtype=bool)
    """
euler_gamma: _builtins.float
def exp(x: _ArrayLike, /) -> _Array:
    """Compute the exponential function elementwise.

    Args:
        x: Array or scalar.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> xnp.exp(xnp.array([0.0, -xnp.inf]))
        Array([1., 0.], dtype=float32)
    """
def exp2(x: _ArrayLike, /) -> _Array:
    """Compute `2 ** x` elementwise.

    Args:
        x: Array or scalar.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> xnp.exp2(xnp.array([3, -1]))
        Array([8. , 0.5], dtype=float32)
    """
def expm1(x: _ArrayLike, /) -> _Array:
    """Compute `exp(x) - 1` elementwise, accurate for small `x`.

    Args:
        x: Array or scalar.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> xnp.expm1(xnp.array([0.0, 1e-10]))
        Array([0.e+00, 1.e-10], dtype=float32)
    """
finfo = _ml_dtypes.finfo
flexible = _numpy.flexible
float16: _ScalarType
float32: _ScalarType
float4_e2m1fn: _ScalarType
float64: _ScalarType
float6_e2m3fn: _ScalarType
float6_e3m2fn: _ScalarType
float8_e3m4: _ScalarType
float8_e4m3: _ScalarType
float8_e4m3b11fnuz: _ScalarType
float8_e4m3fn: _ScalarType
float8_e4m3fnuz: _ScalarType
float8_e5m2: _ScalarType
float8_e5m2fnuz: _ScalarType
float8_e8m0fnu: _ScalarType
float_: _ScalarType
floating = _numpy.floating
def floor(x: _ArrayLike, /) -> _Array:
    """Round down to the nearest integer elementwise.

    Integers and booleans keep their dtype.

    Args:
        x: Array or scalar.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> xnp.floor(xnp.array([1.8, -1.2]))
        Array([ 1., -2.], dtype=float32)
    """
def fmax(x1: _ArrayLike, x2: _ArrayLike) -> _Array:
    """Compute the elementwise maximum, ignoring NaN.

    Where one operand is NaN, the result is the other one.

    Args:
        x1, x2: Arrays or scalars, promoted to a common dtype and broadcast to a common shape.

    Returns:
        Array with the common shape of the operands.

    Example:
        >>> xnp.fmax(xnp.array([1.0, xnp.nan]), 0.5)
        Array([1. , 0.5], dtype=float32)
    """
def fmin(x1: _ArrayLike, x2: _ArrayLike) -> _Array:
    """Compute the elementwise minimum, ignoring NaN.

    Where one operand is NaN, the result is the other one.

    Args:
        x1, x2: Arrays or scalars, promoted to a common dtype and broadcast to a common shape.

    Returns:
        Array with the common shape of the operands.

    Example:
        >>> xnp.fmin(xnp.array([1.0, xnp.nan]), 0.5)
        Array([0.5, 0.5], dtype=float32)
    """
generic = _numpy.generic
def get_printoptions() -> _typing.Any:
    """Return the current print options.

    Returns
    -------
    print_opts : dict
        Dictionary of current print options with keys

        - precision : int
        - threshold : int
        - edgeitems : int
        - linewidth : int
        - suppress : bool
        - nanstr : str
        - infstr : str
        - sign : str
        - formatter : dict of callables
        - floatmode : str
        - legacy : str or False

        For a full description of these options, see `set_printoptions`.

    Notes
    -----
    These print options apply only to NumPy ndarrays, not to scalars.

    **Concurrency note:** see :ref:`text_formatting_options`

    See Also
    --------
    set_printoptions, printoptions

    Examples
    --------
    >>> import numpy as np

    >>> np.get_printoptions()
    {'edgeitems': 3, 'threshold': 1000, ..., 'override_repr': None}

    >>> np.get_printoptions()['linewidth']
    75
    >>> np.set_printoptions(linewidth=100)
    >>> np.get_printoptions()['linewidth']
    100
    """
def greater(x: _ArrayLike, y: _ArrayLike, /) -> _Array:
    """Compare elementwise, as `x > y`.

    Complex numbers are ordered by real part, then by imaginary part.

    Args:
        x, y: Arrays or scalars, promoted to a common dtype and broadcast to a common shape.

    Returns:
        Boolean array with the common shape of the operands.

    Example:
        >>> xnp.greater(xnp.array([1, 2, 3]), 2)
        Array([False, False,  True], dtype=bool)
    """
def greater_equal(x: _ArrayLike, y: _ArrayLike, /) -> _Array:
    """Compare elementwise, as `x >= y`.

    Complex numbers are ordered by real part, then by imaginary part.

    Args:
        x, y: Arrays or scalars, promoted to a common dtype and broadcast to a common shape.

    Returns:
        Boolean array with the common shape of the operands.

    Example:
        >>> xnp.greater_equal(xnp.array([1, 2, 3]), 2)
        Array([False,  True,  True], dtype=bool)
    """
iinfo = _ml_dtypes.iinfo
index_exp: _typing.Any
inexact = _numpy.inexact
inf: _builtins.float
int1: _ScalarType
int16: _ScalarType
int2: _ScalarType
int32: _ScalarType
int4: _ScalarType
int64: _ScalarType
int8: _ScalarType
int_: _ScalarType
integer = _numpy.integer
def invert(x: _ArrayLike, /, *, out: None = None, where: None = None) -> _Array:
    """Invert all bits elementwise, as `~x`.

    For booleans it is the logical NOT.

    Args:
        x: Array or scalar.
        out, where: Must be None (for compatibility with NumPy): arrays are immutable.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> xnp.invert(xnp.array([0, 5]))
        Array([-1, -6], dtype=int32)
    """
def isfinite(x: _ArrayLike, /) -> _Array:
    """Test elementwise for numbers that are neither infinite nor NaN.

    Args:
        x: Array or scalar.

    Returns:
        Boolean array with the shape of `x`.

    Example:
        >>> xnp.isfinite(xnp.array([1.0, xnp.inf, xnp.nan]))
        Array([ True, False, False], dtype=bool)
    """
def isinf(x: _ArrayLike, /) -> _Array:
    """Test elementwise for positive or negative infinity.

    Args:
        x: Array or scalar.

    Returns:
        Boolean array with the shape of `x`.

    Example:
        >>> xnp.isinf(xnp.array([1.0, -xnp.inf, xnp.nan]))
        Array([False,  True, False], dtype=bool)
    """
def isnan(x: _ArrayLike, /) -> _Array:
    """Test elementwise for NaN.

    A complex number is NaN if its real or its imaginary part is.

    Args:
        x: Array or scalar.

    Returns:
        Boolean array with the shape of `x`.

    Example:
        >>> xnp.isnan(xnp.array([1.0, xnp.inf, xnp.nan]))
        Array([False, False,  True], dtype=bool)
    """
def isneginf(x: _ArrayLike, /, out: None = None) -> _Array:
    """Test elementwise for negative infinity.

    Complex numbers are not supported.

    Args:
        x: Array or scalar.
        out: Must be None (for compatibility with NumPy): arrays are immutable.

    Returns:
        Boolean array with the shape of `x`.

    Example:
        >>> xnp.isneginf(xnp.array([1.0, xnp.inf, -xnp.inf]))
        Array([False, False,  True], dtype=bool)
    """
def isposinf(x: _ArrayLike, /, out: None = None) -> _Array:
    """Test elementwise for positive infinity.

    Complex numbers are not supported.

    Args:
        x: Array or scalar.
        out: Must be None (for compatibility with NumPy): arrays are immutable.

    Returns:
        Boolean array with the shape of `x`.

    Example:
        >>> xnp.isposinf(xnp.array([1.0, xnp.inf, -xnp.inf]))
        Array([False,  True, False], dtype=bool)
    """
def less(x: _ArrayLike, y: _ArrayLike, /) -> _Array:
    """Compare elementwise, as `x < y`.

    Complex numbers are ordered by real part, then by imaginary part.

    Args:
        x, y: Arrays or scalars, promoted to a common dtype and broadcast to a common shape.

    Returns:
        Boolean array with the common shape of the operands.

    Example:
        >>> xnp.less(xnp.array([1, 2, 3]), 2)
        Array([ True, False, False], dtype=bool)
    """
def less_equal(x: _ArrayLike, y: _ArrayLike, /) -> _Array:
    """Compare elementwise, as `x <= y`.

    Complex numbers are ordered by real part, then by imaginary part.

    Args:
        x, y: Arrays or scalars, promoted to a common dtype and broadcast to a common shape.

    Returns:
        Boolean array with the common shape of the operands.

    Example:
        >>> xnp.less_equal(xnp.array([1, 2, 3]), 2)
        Array([ True,  True, False], dtype=bool)
    """
def log(x: _ArrayLike, /) -> _Array:
    """Compute the natural logarithm elementwise.

    The result is minus infinity for 0 and NaN for negative real numbers.

    Args:
        x: Array or scalar.

    Returns:
        Array with the shape of `x`.

    Note:
        No warning is raised for 0 or negative numbers.

    Example:
        >>> xnp.log(xnp.array([1.0, 0.0, -1.0]))
        Array([  0., -inf,  nan], dtype=float32)
    """
def log1p(x: _ArrayLike, /) -> _Array:
    """Compute `log(1 + x)` elementwise, accurate for small `x`.

    Args:
        x: Array or scalar.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> xnp.log1p(xnp.array([0.0, 1e-10]))
        Array([0.e+00, 1.e-10], dtype=float32)
    """
logaddexp: _Ufunc
"""Compute `log(exp(x1) + exp(x2))` elementwise, without overflow.

Args:
    x1, x2: Arrays or scalars, promoted to a common dtype and broadcast to a common shape.
    out, where: Must be None (for compatibility with NumPy): arrays are immutable.

Returns:
    Array with the common shape of the operands.

Example:
    >>> xnp.logaddexp(1000.0, xnp.array([0.0, 2000.0]))
    Array([1000., 2000.], dtype=float32)
"""
logaddexp2: _Ufunc
"""Compute `log2(2 ** x1 + 2 ** x2)` elementwise, without overflow.

Args:
    x1, x2: Arrays or scalars, promoted to a common dtype and broadcast to a common shape.
    out, where: Must be None (for compatibility with NumPy): arrays are immutable.

Returns:
    Array with the common shape of the operands.

Example:
    >>> xnp.logaddexp2(1000.0, xnp.array([1000.0, 0.0]))
    Array([1001., 1000.], dtype=float32)
"""
logical_and: _Ufunc
"""Compute the logical AND elementwise.

Numbers other than 0 count as True.

Args:
    x, y: Arrays or scalars, promoted to a common dtype and broadcast to a common shape.
    out, where: Must be None (for compatibility with NumPy): arrays are immutable.

Returns:
    Boolean array with the common shape of the operands.

Example:
    >>> xnp.logical_and(xnp.array([0, 1, 2]), True)
    Array([False,  True,  True], dtype=bool)
"""
logical_or: _Ufunc
"""Compute the logical OR elementwise.

Numbers other than 0 count as True.

Args:
    x, y: Arrays or scalars, promoted to a common dtype and broadcast to a common shape.
    out, where: Must be None (for compatibility with NumPy): arrays are immutable.

Returns:
    Boolean array with the common shape of the operands.

Example:
    >>> xnp.logical_or(xnp.array([0, 1, 2]), False)
    Array([False,  True,  True], dtype=bool)
"""
logical_xor: _Ufunc
"""Compute the logical exclusive OR elementwise.

Numbers other than 0 count as True.

Args:
    x, y: Arrays or scalars, promoted to a common dtype and broadcast to a common shape.
    out, where: Must be None (for compatibility with NumPy): arrays are immutable.

Returns:
    Boolean array with the common shape of the operands.

Example:
    >>> xnp.logical_xor(xnp.array([0, 1, 2]), True)
    Array([ True, False, False], dtype=bool)
"""
def max(a: _ArrayLike, axis: _Axes = None, out: None = None, keepdims: _builtins.bool = False, initial: _ArrayLike | None = None, where: _ArrayLike | None = None) -> _Array:
    """Compute the maximum over axes.

    The result is NaN if an element is NaN. `numpy.amax` is an alias.

    Args:
        a: Array.
        axis: Axis or axes to reduce over: positions, or names given by `vmap` or `shard_map`. Default: all positions.
        out: Must be None (for compatibility with NumPy): arrays are immutable.
        keepdims: If True, keep reduced axes with size 1.
        initial: Start value of the reduction, a scalar.
        where: Boolean array, broadcast with `a`, that selects the elements to include. Requires `initial`.

    Returns:
        Array of the shape of `a` without the reduced axes.

    Example:
        >>> xnp.max(xnp.array([[1, 4], [3, 2]]), axis=1)
        Array([4, 3], dtype=int32)
    """
maximum: _Ufunc
"""Compute the elementwise maximum.

The result is NaN where an operand is NaN; `xnp.fmax` ignores NaN.

Args:
    x1, x2: Arrays or scalars, promoted to a common dtype and broadcast to a common shape.
    out, where: Must be None (for compatibility with NumPy): arrays are immutable.

Returns:
    Array with the common shape of the operands.

Example:
    >>> xnp.maximum(xnp.array([1.0, 3.0, xnp.nan]), 2.0)
    Array([ 2.,  3., nan], dtype=float32)
"""
mgrid: __Grid
def min(a: _ArrayLike, axis: _Axes = None, out: None = None, keepdims: _builtins.bool = False, initial: _ArrayLike | None = None, where: _ArrayLike | None = None) -> _Array:
    """Compute the minimum over axes.

    The result is NaN if an element is NaN. `numpy.amin` is an alias.

    Args:
        a: Array.
        axis: Axis or axes to reduce over: positions, or names given by `vmap` or `shard_map`. Default: all positions.
        out: Must be None (for compatibility with NumPy): arrays are immutable.
        keepdims: If True, keep reduced axes with size 1.
        initial: Start value of the reduction, a scalar.
        where: Boolean array, broadcast with `a`, that selects the elements to include. Requires `initial`.

    Returns:
        Array of the shape of `a` without the reduced axes.

    Example:
        >>> xnp.min(xnp.array([[1, 4], [3, 2]]), axis=1)
        Array([1, 2], dtype=int32)
    """
minimum: _Ufunc
"""Compute the elementwise minimum.

The result is NaN where an operand is NaN; `xnp.fmin` ignores NaN.

Args:
    x1, x2: Arrays or scalars, promoted to a common dtype and broadcast to a common shape.
    out, where: Must be None (for compatibility with NumPy): arrays are immutable.

Returns:
    Array with the common shape of the operands.

Example:
    >>> xnp.minimum(xnp.array([1.0, 3.0, xnp.nan]), 2.0)
    Array([ 1.,  2., nan], dtype=float32)
"""
mod = _source_mod
multiply: _Ufunc
"""Multiply two arrays elementwise, as `x1 * x2`.

For booleans it is the logical AND.

Args:
    x1, x2: Arrays or scalars, promoted to a common dtype and broadcast to a common shape.
    out, where: Must be None (for compatibility with NumPy): arrays are immutable.

Returns:
    Array with the common shape of the operands.

Example:
    >>> xnp.multiply(xnp.array([1, 2]), xnp.array([0.5, 1.5]))
    Array([0.5, 3. ], dtype=float32)
"""
nan: _builtins.float
ndarray = _source_ndarray
negative: _Ufunc
"""Negate elementwise, as `-x`.

Unsigned integers wrap around.

Args:
    x: Array or scalar.
    out, where: Must be None (for compatibility with NumPy): arrays are immutable.

Returns:
    Array with the shape of `x`.

Example:
    >>> xnp.negative(xnp.array([1, -2]))
    Array([-1,  2], dtype=int32)
"""
newaxis: None
def nextafter(x: _ArrayLike, y: _ArrayLike, /, *, out: None = None, where: None = None) -> _Array:
    """Return the next representable number after `x` towards `y`, elementwise.

    Args:
        x, y: Arrays or scalars, promoted to a common dtype and broadcast to a common shape.
        out, where: Must be None (for compatibility with NumPy): arrays are immutable.

    Returns:
        Array with the common shape of the operands.

    Example:
        >>> xnp.nextafter(xnp.array([1.0]), 2.0)
        Array([1.0000001], dtype=float32)
    """
def not_equal(x: _ArrayLike, y: _ArrayLike, /, *, out: None = None, where: None = None) -> _Array:
    """Compare elementwise for inequality, as `x != y`.

    NaN is not equal to anything.

    Args:
        x, y: Arrays or scalars, promoted to a common dtype and broadcast to a common shape.
        out, where: Must be None (for compatibility with NumPy): arrays are immutable.

    Returns:
        Boolean array with the common shape of the operands.

    Example:
        >>> xnp.not_equal(xnp.array([1.0, xnp.nan]), xnp.array([1.0, xnp.nan]))
        Array([False,  True], dtype=bool)
    """
number = _numpy.number
object_ = _numpy.object_
ogrid: __Grid
def ones_like(a: _ArrayLike, dtype: _DTypeLike | None = None, shape: _builtins.int | _typing.Sequence[_builtins.int] | None = None, *, device: _typing.Any = None, out_sharding: _typing.Any = None) -> _Array:
    """Return an array of ones with the shape, dtype and devices of another array.

    Args:
        a: Array, or another object with a shape and a dtype.
        dtype: dtype of the result. Default: that of `a`.
        shape: Shape of the result. Default: that of `a`.
        device: Device or sharding of the result. Default: that of `a`.
        out_sharding: Sharding of the result. Default: that of `a`.

    Returns:
        New array.

    Example:
        >>> xnp.ones_like(xnp.array([1, 2]), dtype=xnp.float32)
        Array([1., 1.], dtype=float32)
    """
pi: _builtins.float
pow = _source_pow
def printoptions(*args, **kwargs) -> _typing.Any:
    """Context manager for setting print options.

    Set print options for the scope of the `with` block, and restore the old
    options at the end. See `set_printoptions` for the full description of
    available options.

    Examples
    --------
    >>> import numpy as np

    >>> from numpy.testing import assert_equal
    >>> with np.printoptions(precision=2):
    ...     np.array([2.0]) / 3
    array([0.67])

    The `as`-clause of the `with`-statement gives the current print options:

    >>> with np.printoptions(precision=2) as opts:
    ...      assert_equal(opts, np.get_printoptions())

    See Also
    --------
    set_printoptions, get_printoptions

    Notes
    -----
    These print options apply only to NumPy ndarrays, not to scalars.

    **Concurrency note:** see :ref:`text_formatting_options`
    """
def prod(a: _ArrayLike, axis: _Axes = None, dtype: _DTypeLike | None = None, out: None = None, keepdims: _builtins.bool = False, initial: _ArrayLike | None = None, where: _ArrayLike | None = None, promote_integers: _builtins.bool = True) -> _Array:
    """Multiply elements over axes.

    16-bit floats are multiplied in 32 bits.

    Args:
        a: Array.
        axis: Axis or axes to reduce over. Default: all.
        dtype: dtype of the computation and of the result.
        out: Must be None (for compatibility with NumPy): arrays are immutable.
        keepdims: If True, keep reduced axes with size 1.
        initial: Start value of the reduction, a scalar.
        where: Boolean array, broadcast with `a`, that selects the elements to include.
        promote_integers: If True, promote integers narrower than the default integer to it.

    Returns:
        Array of the shape of `a` without the reduced axes.

    Example:
        >>> xnp.prod(xnp.array([[1, 2], [3, 4]]), axis=0)
        Array([3, 8], dtype=int32)
    """
r_: _RClass
def rad2deg(x: _ArrayLike, /) -> _Array:
    """Convert angles from radians to degrees.

    Args:
        x: Array or scalar.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> xnp.rad2deg(xnp.array([0.0, xnp.pi]))
        Array([  0., 180.], dtype=float32)
    """
def radians(x: _ArrayLike, /) -> _Array:
    """Convert angles from degrees to radians.

    It is an alias of `xnp.deg2rad`.

    Args:
        x: Array or scalar.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> xnp.radians(xnp.array([0.0, 180.0]))
        Array([0.       , 3.1415927], dtype=float32)
    """
s_: _typing.Any
def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, suppress=None, nanstr=None, infstr=None, formatter=None, sign=None, floatmode=None, *, legacy=None, override_repr=None) -> _typing.Any:
    """Set printing options.

    These options determine the way floating point numbers, arrays and
    other NumPy objects are displayed.

    Parameters
    ----------
    precision : int or None, optional
        Number of digits of precision for floating point output (default 8).
        May be None if `floatmode` is not `fixed`, to print as many digits as
        necessary to uniquely specify the value.
    threshold : int, optional
        Total number of array elements which trigger summarization
        rather than full repr (default 1000).
        To always use the full repr without summarization, pass `sys.maxsize`.
    edgeitems : int, optional
        Number of array items in summary at beginning and end of
        each dimension (default 3).
    linewidth : int, optional
        The number of characters per line for the purpose of inserting
        line breaks (default 75).
    suppress : bool, optional
        If True, always print floating point numbers using fixed point
        notation, in which case numbers equal to zero in the current precision
        will print as zero.  If False, then scientific notation is used when
        absolute value of the smallest number is < 1e-4 or the ratio of the
        maximum absolute value to the minimum is > 1e3. The default is False.
    nanstr : str, optional
        String representation of floating point not-a-number (default nan).
    infstr : str, optional
        String representation of floating point infinity (default inf).
    sign : string, either '-', '+', or ' ', optional
        Controls printing of the sign of floating-point types. If '+', always
        print the sign of positive values. If ' ', always prints a space
        (whitespace character) in the sign position of positive values.  If
        '-', omit the sign character of positive values. (default '-')

        .. versionchanged:: 2.0
             The sign parameter can now be an integer type, previously
             types were floating-point types.

    formatter : dict of callables, optional
        If not None, the keys should indicate the type(s) that the respective
        formatting function applies to.  Callables should return a string.
        Types that are not specified (by their corresponding keys) are handled
        by the default formatters.  Individual types for which a formatter
        can be set are:

        - 'bool'
        - 'int'
        - 'timedelta' : a `numpy.timedelta64`
        - 'datetime' : a `numpy.datetime64`
        - 'float'
        - 'longfloat' : 128-bit floats
        - 'complexfloat'
        - 'longcomplexfloat' : composed of two 128-bit floats
        - 'numpystr' : types `numpy.bytes_` and `numpy.str_`
        - 'object' : `np.object_` arrays

        Other keys that can be used to set a group of types at once are:

        - 'all' : sets all types
        - 'int_kind' : sets 'int'
        - 'float_kind' : sets 'float' and 'longfloat'
        - 'complex_kind' : sets 'complexfloat' and 'longcomplexfloat'
        - 'str_kind' : sets 'numpystr'
    floatmode : str, optional
        Controls the interpretation of the `precision` option for
        floating-point types. Can take the following values
        (default maxprec_equal):

        * 'fixed': Always print exactly `precision` fractional digits,
                even if this would print more or fewer digits than
                necessary to specify the value uniquely.
        * 'unique': Print the minimum number of fractional digits necessary
                to represent each value uniquely. Different elements may
                have a different number of digits. The value of the
                `precision` option is ignored.
        * 'maxprec': Print at most `precision` fractional digits, but if
                an element can be uniquely represented with fewer digits
                only print it with that many.
        * 'maxprec_equal': Print at most `precision` fractional digits,
                but if every element in the array can be uniquely
                represented with an equal number of fewer digits, use that
                many digits for all elements.
    legacy : string or `False`, optional
        If set to the string ``'1.13'`` enables 1.13 legacy printing mode. This
        approximates numpy 1.13 print output by including a space in the sign
        position of floats and different behavior for 0d arrays. This also
        enables 1.21 legacy printing mode (described below).

        If set to the string ``'1.21'`` enables 1.21 legacy printing mode. This
        approximates numpy 1.21 print output of complex structured dtypes
        by not inserting spaces after commas that separate fields and after
        colons.

        If set to ``'1.25'`` approximates printing of 1.25 which mainly means
        that numeric scalars are printed without their type information, e.g.
        as ``3.0`` rather than ``np.float64(3.0)``.

        If set to ``'2.1'``, shape information is not given when arrays are
        summarized (i.e., multiple elements replaced with ``...``).

        If set to ``'2.2'``, the transition to use scientific notation for
        printing ``np.float16`` and ``np.float32`` types may happen later or
        not at all for larger values.

        If set to `False`, disables legacy mode.

        Unrecognized strings will be ignored with a warning for forward
        compatibility.

        .. versionchanged:: 1.22.0
        .. versionchanged:: 2.2

    override_repr: callable, optional
        If set a passed function will be used for generating arrays' repr.
        Other options will be ignored.

    See Also
    --------
    get_printoptions, printoptions, array2string


    Notes
    -----

    * ``formatter`` is always reset with a call to `set_printoptions`.
    * Use `printoptions` as a context manager to set the values temporarily.
    * These print options apply only to NumPy ndarrays, not to scalars.

    **Concurrency note:** see :ref:`text_formatting_options`

    Examples
    --------
    Floating point precision can be set:

    >>> import numpy as np
    >>> np.set_printoptions(precision=4)
    >>> np.array([1.123456789])
    [1.1235]

    Long arrays can be summarised:

    >>> np.set_printoptions(threshold=5)
    >>> np.arange(10)
    array([0, 1, 2, ..., 7, 8, 9], shape=(10,))

    Small results can be suppressed:

    >>> eps = np.finfo(float).eps
    >>> x = np.arange(4.)
    >>> x**2 - (x + eps)**2
    array([-4.9304e-32, -4.4409e-16,  0.0000e+00,  0.0000e+00])
    >>> np.set_printoptions(suppress=True)
    >>> x**2 - (x + eps)**2
    array([-0., -0.,  0.,  0.])

    A custom formatter can be used to display array elements as desired:

    >>> np.set_printoptions(formatter={'all':lambda x: 'int: '+str(-x)})
    >>> x = np.arange(3)
    >>> x
    array([int: 0, int: -1, int: -2])
    >>> np.set_printoptions()  # formatter gets reset
    >>> x
    array([0, 1, 2])

    To put back the default options, you can use:

    >>> np.set_printoptions(edgeitems=3, infstr='inf',
    ... linewidth=75, nanstr='nan', precision=8,
    ... suppress=False, threshold=1000, formatter=None)

    Also to temporarily override options, use `printoptions`
    as a context manager:

    >>> with np.printoptions(precision=2, suppress=True, threshold=5):
    ...     np.linspace(0, 10, 10)
    array([ 0.  ,  1.11,  2.22, ...,  7.78,  8.89, 10.  ], shape=(10,))
    """
def sign(x: _ArrayLike, /, *, out: None = None, where: None = None) -> _Array:
    """Return the sign elementwise: -1, 0 or 1.

    For complex numbers it is `x / abs(x)`, and 0 for 0.

    Args:
        x: Array or scalar.
        out, where: Must be None (for compatibility with NumPy): arrays are immutable.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> xnp.sign(xnp.array([-5, 0, 3]))
        Array([-1,  0,  1], dtype=int32)
    """
signedinteger = _numpy.signedinteger
def sin(x: _ArrayLike, /) -> _Array:
    """Compute the sine of angles in radians, elementwise.

    Args:
        x: Array or scalar.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> xnp.sin(xnp.array([0.0, xnp.pi / 2]))
        Array([0., 1.], dtype=float32)
    """
sinc = _source_sinc
single: _ScalarType
def sinh(x: _ArrayLike, /) -> _Array:
    """Compute the hyperbolic sine elementwise.

    Args:
        x: Array or scalar.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> xnp.sinh(xnp.array([0.0, xnp.inf]))
        Array([ 0., inf], dtype=float32)
    """
def sqrt(x: _ArrayLike, /) -> _Array:
    """Compute the nonnegative square root elementwise.

    The result is NaN for negative real numbers.

    Args:
        x: Array or scalar.

    Returns:
        Array with the shape of `x`.

    Note:
        No warning is raised for negative numbers.

    Example:
        >>> xnp.sqrt(xnp.array([4.0, -1.0]))
        Array([ 2., nan], dtype=float32)
    """
subtract: _Ufunc
"""Subtract two arrays elementwise, as `x1 - x2`.

Booleans are not supported; use `xnp.logical_xor`.

Args:
    x1, x2: Arrays or scalars, promoted to a common dtype and broadcast to a common shape.
    out, where: Must be None (for compatibility with NumPy): arrays are immutable.

Returns:
    Array with the common shape of the operands.

Example:
    >>> xnp.subtract(xnp.array([1, 2]), xnp.array([0.5, 1.5]))
    Array([0.5, 0.5], dtype=float32)
"""
def sum(a: _ArrayLike, axis: _Axes = None, dtype: _DTypeLike | None = None, out: None = None, keepdims: _builtins.bool = False, initial: _ArrayLike | None = None, where: _ArrayLike | None = None, promote_integers: _builtins.bool = True) -> _Array:
    """Sum elements over axes.

    16-bit floats are summed in 32 bits.

    Args:
        a: Array.
        axis: Axis or axes to reduce over: positions, or names given by `vmap` or `shard_map`. Default: all positions.
        dtype: dtype of the computation and of the result.
        out: Must be None (for compatibility with NumPy): arrays are immutable.
        keepdims: If True, keep reduced axes with size 1.
        initial: Start value of the reduction, a scalar.
        where: Boolean array, broadcast with `a`, that selects the elements to include.
        promote_integers: If True, promote integers narrower than the default integer to it.

    Returns:
        Array of the shape of `a` without the reduced axes.

    Example:
        >>> xnp.sum(xnp.array([[1, 2], [3, 4]]), axis=0)
        Array([4, 6], dtype=int32)
    """
def tan(x: _ArrayLike, /) -> _Array:
    """Compute the tangent of angles in radians, elementwise.

    Args:
        x: Array or scalar.

    Returns:
        Array with the shape of `x`.

    Example:
        >>> xnp.tan(xnp.array([0.0]))
        Array([0.], dtype=float32)
    """
def true_divide(x1: _ArrayLike, x2: _ArrayLike, /, *, out: None = None, where: None = None) -> _Array:
    """Divide two arrays elementwise, as `x1 / x2`.

    Integers are converted to floats. Division by zero gives an infinity or NaN. It is an alias of `xnp.divide`.

    Args:
        x1, x2: Arrays or scalars, promoted to a common dtype and broadcast to a common shape.
        out, where: Must be None (for compatibility with NumPy): arrays are immutable.

    Returns:
        Array with the common shape of the operands.

    Note:
        No warning is raised for division by zero.

    Example:
        >>> xnp.true_divide(xnp.array([1, -1, 0]), xnp.array([2, 0, 0]))
        Array([ 0.5, -inf,  nan], dtype=float32)
    """
ufunc: __UfuncMeta
uint: _ScalarType
uint1: _ScalarType
uint16: _ScalarType
uint2: _ScalarType
uint32: _ScalarType
uint4: _ScalarType
uint64: _ScalarType
uint8: _ScalarType
unsignedinteger = _numpy.unsignedinteger
def zeros_like(a: _ArrayLike, dtype: _DTypeLike | None = None, shape: _builtins.int | _typing.Sequence[_builtins.int] | None = None, *, device: _typing.Any = None, out_sharding: _typing.Any = None) -> _Array:
    """Return an array of zeros with the shape, dtype and devices of another array.

    Args:
        a: Array, or another object with a shape and a dtype.
        dtype: dtype of the result. Default: that of `a`.
        shape: Shape of the result. Default: that of `a`.
        device: Device or sharding of the result. Default: that of `a`.
        out_sharding: Sharding of the result. Default: that of `a`.

    Returns:
        New array.

    Example:
        >>> xnp.zeros_like(xnp.array([1, 2]))
        Array([0, 0], dtype=int32)
    """
