# Written by `python -m tests.stubs`.
from xlafront.control.cond import cond as cond
from xlafront.control.cond import platform_dependent as platform_dependent
from xlafront.control.cond import switch as switch
from xlafront.control.polynomials import polynomial as polynomial
from xlafront.control.reduce import reduce as reduce
from xlafront.control.reduce_window import reduce_window as reduce_window
from xlafront.control.scan import map as map
from xlafront.control.scan import scan as scan
from xlafront.control.solves import custom_linear_solve as custom_linear_solve
from xlafront.control.solves import custom_root as custom_root
from xlafront.control.while_loop import fori_loop as fori_loop
from xlafront.control.while_loop import while_loop as while_loop
from xlafront.core.primitive import Primitive as _Primitive
from xlafront.core.typing import Array as _Array
from xlafront.core.typing import ArrayLike as _ArrayLike
from xlafront.core.typing import DTypeLike as _DTypeLike
from xlafront.core.typing import ShardingLike as _ShardingLike
from xlafront.lax import linalg as linalg
from xlafront.lax.accuracy import AccuracyMode as AccuracyMode
from xlafront.lax.accuracy import AccuracyMode as _AccuracyMode
from xlafront.lax.accuracy import Tolerance as Tolerance
from xlafront.lax.accuracy import Tolerance as _Tolerance
from xlafront.lax.aliases import broadcast_like as broadcast_like
from xlafront.lax.aliases import broadcast_shapes as broadcast_shapes
from xlafront.lax.aliases import broadcast_to_rank as broadcast_to_rank
from xlafront.lax.aliases import collapse as collapse
from xlafront.lax.aliases import dtype as dtype
from xlafront.lax.aliases import index_take as index_take
from xlafront.lax.aliases import select as select
from xlafront.lax.aliases import shape_as_value as shape_as_value
from xlafront.lax.aliases import tile as tile
from xlafront.lax.barriers import optimization_barrier as optimization_barrier
from xlafront.lax.barriers import stop_gradient as stop_gradient
from xlafront.lax.collectives import all_gather as all_gather
from xlafront.lax.collectives import all_to_all as all_to_all
from xlafront.lax.collectives import axis_size as axis_size
from xlafront.lax.collectives import pbroadcast as pbroadcast
from xlafront.lax.collectives import pcast as pcast
from xlafront.lax.collectives import pmax as pmax
from xlafront.lax.collectives import pmean as pmean
from xlafront.lax.collectives import pmin as pmin
from xlafront.lax.collectives import ppermute as ppermute
from xlafront.lax.collectives import precv as precv
from xlafront.lax.collectives import psend as psend
from xlafront.lax.collectives import pshuffle as pshuffle
from xlafront.lax.collectives import psum as psum
from xlafront.lax.collectives import psum_scatter as psum_scatter
from xlafront.lax.collectives import psum_scatter_start as psum_scatter_start
from xlafront.lax.collectives import pswapaxes as pswapaxes
from xlafront.lax.collectives import ragged_all_to_all as ragged_all_to_all
from xlafront.lax.compare_total import mulhi as mulhi
from xlafront.lax.composites import composite as composite
from xlafront.lax.convolutions import ConvDimensionNumbers as ConvDimensionNumbers
from xlafront.lax.convolutions import ConvGeneralDilatedDimensionNumbers as ConvGeneralDilatedDimensionNumbers
from xlafront.lax.convolutions import conv as conv
from xlafront.lax.convolutions import conv_dimension_numbers as conv_dimension_numbers
from xlafront.lax.convolutions import conv_general_dilated as conv_general_dilated
from xlafront.lax.convolutions import conv_general_dilated_local as conv_general_dilated_local
from xlafront.lax.convolutions import conv_general_dilated_patches as conv_general_dilated_patches
from xlafront.lax.convolutions import conv_general_permutations as conv_general_permutations
from xlafront.lax.convolutions import conv_general_shape_tuple as conv_general_shape_tuple
from xlafront.lax.convolutions import conv_shape_tuple as conv_shape_tuple
from xlafront.lax.convolutions import conv_transpose as conv_transpose
from xlafront.lax.convolutions import conv_transpose_shape_tuple as conv_transpose_shape_tuple
from xlafront.lax.convolutions import conv_with_general_padding as conv_with_general_padding
from xlafront.lax.convolutions import padtype_to_pads as padtype_to_pads
from xlafront.lax.creation import broadcasted_iota as broadcasted_iota
from xlafront.lax.creation import empty as empty
from xlafront.lax.creation import full as full
from xlafront.lax.creation import full_like as full_like
from xlafront.lax.creation import iota as iota
from xlafront.lax.cumulative import associative_scan as associative_scan
from xlafront.lax.device_put import _DevicePut as __DevicePut
from xlafront.lax.dimension_numbers import GatherDimensionNumbers as GatherDimensionNumbers
from xlafront.lax.dimension_numbers import GatherScatterMode as GatherScatterMode
from xlafront.lax.dimension_numbers import GatherScatterMode as _GatherScatterMode
from xlafront.lax.dimension_numbers import ScatterDimensionNumbers as ScatterDimensionNumbers
from xlafront.lax.dimension_numbers import ScatterDimensionNumbers as _ScatterDimensionNumbers
from xlafront.lax.dot_algorithms import DotAlgorithm as DotAlgorithm
from xlafront.lax.dot_products import DotDimensionNumbers as DotDimensionNumbers
from xlafront.lax.dot_products import Precision as Precision
from xlafront.lax.dot_products import PrecisionLike as PrecisionLike
from xlafront.lax.dot_products import batch_matmul as batch_matmul
from xlafront.lax.dot_products import dot as dot
from xlafront.lax.dot_products import dot_general as dot_general
from xlafront.lax.dynamic_slicing import dynamic_index_in_dim as dynamic_index_in_dim
from xlafront.lax.dynamic_slicing import dynamic_slice as dynamic_slice
from xlafront.lax.dynamic_slicing import dynamic_slice_in_dim as dynamic_slice_in_dim
from xlafront.lax.dynamic_slicing import dynamic_update_index_in_dim as dynamic_update_index_in_dim
from xlafront.lax.dynamic_slicing import dynamic_update_slice as dynamic_update_slice
from xlafront.lax.dynamic_slicing import dynamic_update_slice_in_dim as dynamic_update_slice_in_dim
from xlafront.lax.elementwise_functions import RoundingMethod as RoundingMethod
from xlafront.lax.elementwise_functions import _mul as _source_mul
from xlafront.lax.elementwise_functions import clamp as clamp
from xlafront.lax.elementwise_functions import conj as conj
from xlafront.lax.elementwise_functions import convert_element_type as convert_element_type
from xlafront.lax.elementwise_functions import integer_pow as integer_pow
from xlafront.lax.elementwise_functions import nextafter as nextafter
from xlafront.lax.elementwise_functions import polygamma as polygamma
from xlafront.lax.elementwise_functions import reciprocal as reciprocal
from xlafront.lax.elementwise_functions import reduce_precision as reduce_precision
from xlafront.lax.elementwise_functions import round as round
from xlafront.lax.elementwise_functions import select_n as select_n
from xlafront.lax.elementwise_functions import zeta as zeta
from xlafront.lax.families import _WithDefaults as __WithDefaults
from xlafront.lax.fourier import FftType as FftType
from xlafront.lax.fourier import fft as fft
from xlafront.lax.indexing import _Scatter as __Scatter
from xlafront.lax.indexing import gather as gather
from xlafront.lax.indexing import scatter_apply as scatter_apply
from xlafront.lax.named_axes import axis_index as axis_index
from xlafront.lax.ragged_products import RaggedDotDimensionNumbers as RaggedDotDimensionNumbers
from xlafront.lax.ragged_products import ragged_dot as ragged_dot
from xlafront.lax.ragged_products import ragged_dot_general as ragged_dot_general
from xlafront.lax.random_bits import RandomAlgorithm as RandomAlgorithm
from xlafront.lax.random_bits import rng_bit_generator as rng_bit_generator
from xlafront.lax.random_bits import rng_uniform as rng_uniform
from xlafront.lax.scaled_products import scaled_dot as scaled_dot
from xlafront.lax.send_recv import after_all as after_all
from xlafront.lax.send_recv import create_token as create_token
from xlafront.lax.shapes import bitcast_convert_type as bitcast_convert_type
from xlafront.lax.shapes import broadcast as broadcast
from xlafront.lax.shapes import broadcast_in_dim as broadcast_in_dim
from xlafront.lax.shapes import expand_dims as expand_dims
from xlafront.lax.shapes import reshape as reshape
from xlafront.lax.shapes import rev as rev
from xlafront.lax.shapes import squeeze as squeeze
from xlafront.lax.shapes import transpose as transpose
from xlafront.lax.sharding_constraint import with_sharding_constraint as with_sharding_constraint
from xlafront.lax.slicing import concatenate as concatenate
from xlafront.lax.slicing import index_in_dim as index_in_dim
from xlafront.lax.slicing import pad as pad
from xlafront.lax.slicing import slice as slice
from xlafront.lax.slicing import slice_in_dim as slice_in_dim
from xlafront.lax.sorting import sort as sort
from xlafront.lax.sorting import sort_key_val as sort_key_val
from xlafront.lax.splitting import split as split
from xlafront.lax.stacking import stack as stack
from xlafront.lax.stacking import unstack as unstack
from xlafront.lax.stage_out import dce_sink as dce_sink
from xlafront.lax.stage_out import stage as stage
from xlafront.lax.top_k_elements import approx_max_k as approx_max_k
from xlafront.lax.top_k_elements import approx_min_k as approx_min_k
from xlafront.lax.top_k_elements import top_k as top_k
from xlafront.lax.windows import reduce_window_shape_tuple as reduce_window_shape_tuple
from xlafront.special.bessel import bessel_i0e as bessel_i0e
from xlafront.special.bessel import bessel_i1e as bessel_i1e
from xlafront.special.incomplete_beta import betainc as betainc
from xlafront.special.incomplete_gamma import igamma as igamma
from xlafront.special.incomplete_gamma import igamma_grad_a as igamma_grad_a
from xlafront.special.incomplete_gamma import igammac as igammac
from xlafront.special.incomplete_gamma import random_gamma_grad as random_gamma_grad
import builtins as _builtins
import enum as _enum
import typing as _typing

class DotAlgorithmPreset(_enum.Enum):
    DEFAULT = ...
    ANY_F8_ANY_F8_F32 = ...
    ANY_F8_ANY_F8_F32_FAST_ACCUM = ...
    ANY_F8_ANY_F8_ANY = ...
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = ...
    F16_F16_F16 = ...
    F16_F16_F32 = ...
    BF16_BF16_BF16 = ...
    BF16_BF16_F32 = ...
    BF16_BF16_F32_X3 = ...
    BF16_BF16_F32_X6 = ...
    BF16_BF16_F32_X9 = ...
    TF32_TF32_F32 = ...
    TF32_TF32_F32_X3 = ...
    F32_F32_F32 = ...
    F64_F64_F64 = ...
def abs(x: _ArrayLike) -> _Array:
    """Compute the absolute value.

    Args:
        x: Array of signed integers, floats or complex numbers, or a scalar.

    Returns:
        The absolute values; real for complex numbers.

    Example:
        >>> lax.abs(3.0 + 4.0j)
        Array(5., dtype=float32, weak_type=True)
    """
abs_p: _Primitive
def acos(x: _ArrayLike) -> _Array:
    """Compute the inverse cosine, between 0 and `pi`; NaN outside of [-1, 1].

    Args:
        x: Array of floats or complex numbers, or a scalar.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> lax.acos(1.0)
        Array(0., dtype=float32, weak_type=True)
    """
acos_p: _Primitive
def acosh(x: _ArrayLike) -> _Array:
    """Compute the non-negative inverse hyperbolic cosine; NaN below 1.

    Args:
        x: Array of floats or complex numbers, or a scalar.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> lax.acosh(1.0)
        Array(0., dtype=float32, weak_type=True)
    """
acosh_p: _Primitive
def add(x: _ArrayLike, y: _ArrayLike) -> _Array:
    """Compute `x + y`.

    Args:
        x, y: Arrays of integers, floats or complex numbers, or scalars, of one dtype.
            Shapes have equal rank, and sizes that are equal or 1; scalars combine with any shape. `xlafront.numpy` promotes and
            broadcasts other operands.

    Returns:
        An array of the dtype of the operands.

    Example:
        >>> lax.add(1.0, np.float32([1, 2]))
        Array([2., 3.], dtype=float32)
    """
add_any_p: _Primitive
add_p: _Primitive
after_all_p: _Primitive
all_gather_p: _Primitive
all_to_all_p: _Primitive
and_p: _Primitive
approx_top_k_p: _Primitive
def argmax(operand: _ArrayLike, axis: _builtins.int, index_dtype: _DTypeLike) -> _Array:
    """Return the index of the first largest element along a dimension; NaN counts as the largest.

    Args:
        operand: An array.
        axis: The dimension to reduce, non-negative.
        index_dtype: dtype of the result, an integer dtype.

    Returns:
        An array without this dimension.

    Example:
        >>> lax.argmax(xnp.array([2, 7, 1, 7]), 0, 'int32')
        Array(1, dtype=int32)
    """
argmax_p: _Primitive
def argmin(operand: _ArrayLike, axis: _builtins.int, index_dtype: _DTypeLike) -> _Array:
    """Return the index of the first smallest element along a dimension; NaN counts as the smallest.

    Args:
        operand: An array.
        axis: The dimension to reduce, non-negative.
        index_dtype: dtype of the result, an integer dtype.

    Returns:
        An array without this dimension.

    Example:
        >>> lax.argmin(xnp.array([2, 7, 1, 7]), 0, 'int32')
        Array(2, dtype=int32)
    """
argmin_p: _Primitive
def asin(x: _ArrayLike) -> _Array:
    """Compute the inverse sine, between `-pi/2` and `pi/2`; NaN outside of [-1, 1].

    Args:
        x: Array of floats or complex numbers, or a scalar.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> lax.asin(0.0)
        Array(0., dtype=float32, weak_type=True)
    """
asin_p: _Primitive
def asinh(x: _ArrayLike) -> _Array:
    """Compute the inverse hyperbolic sine.

    Args:
        x: Array of floats or complex numbers, or a scalar.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> lax.asinh(0.0)
        Array(0., dtype=float32, weak_type=True)
    """
asinh_p: _Primitive
def atan(x: _ArrayLike) -> _Array:
    """Compute the inverse tangent, between `-pi/2` and `pi/2`.

    Args:
        x: Array of floats or complex numbers, or a scalar.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> lax.atan(0.0)
        Array(0., dtype=float32, weak_type=True)
    """
def atan2(x: _ArrayLike, y: _ArrayLike) -> _Array:
    """Compute the angle of the point with ordinate `x` and abscissa `y`, between `-pi` and `pi`.

    For a positive `y` this is `atan(x / y)`.

    Args:
        x, y: Arrays of floats or complex numbers, or scalars, of one dtype.
            Shapes have equal rank, and sizes that are equal or 1; scalars combine with any shape. `xlafront.numpy` promotes and
            broadcasts other operands.

    Returns:
        An array of the dtype of the operands.

    Example:
        >>> lax.atan2(0.0, 1.0)
        Array(0., dtype=float32, weak_type=True)
    """
atan2_p: _Primitive
atan_p: _Primitive
def atanh(x: _ArrayLike) -> _Array:
    """Compute the inverse hyperbolic tangent; NaN outside of [-1, 1].

    Args:
        x: Array of floats or complex numbers, or a scalar.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> lax.atanh(0.0)
        Array(0., dtype=float32, weak_type=True)
    """
atanh_p: _Primitive
axis_index_p: _Primitive
bessel_i0e_p: _Primitive
bessel_i1e_p: _Primitive
bitcast_convert_type_p: _Primitive
def bitwise_and(x: _ArrayLike, y: _ArrayLike) -> _Array:
    """Compute the bitwise AND of integers, or the logical AND of booleans.

    Args:
        x, y: Arrays of integers or booleans, or scalars, of one dtype.
            Shapes have equal rank, and sizes that are equal or 1; scalars combine with any shape. `xlafront.numpy` promotes and
            broadcasts other operands.

    Returns:
        An array of the dtype of the operands.

    Example:
        >>> lax.bitwise_and(6, 3)
        Array(2, dtype=int32, weak_type=True)
    """
def bitwise_not(x: _ArrayLike) -> _Array:
    """Invert all bits of integers, or negate booleans.

    Args:
        x: Array of integers or booleans, or a scalar.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> lax.bitwise_not(5)
        Array(-6, dtype=int32, weak_type=True)
    """
def bitwise_or(x: _ArrayLike, y: _ArrayLike) -> _Array:
    """Compute the bitwise OR of integers, or the logical OR of booleans.

    Args:
        x, y: Arrays of integers or booleans, or scalars, of one dtype.
            Shapes have equal rank, and sizes that are equal or 1; scalars combine with any shape. `xlafront.numpy` promotes and
            broadcasts other operands.

    Returns:
        An array of the dtype of the operands.

    Example:
        >>> lax.bitwise_or(6, 3)
        Array(7, dtype=int32, weak_type=True)
    """
def bitwise_xor(x: _ArrayLike, y: _ArrayLike) -> _Array:
    """Compute the bitwise XOR of integers, or the logical XOR of booleans.

    Args:
        x, y: Arrays of integers or booleans, or scalars, of one dtype.
            Shapes have equal rank, and sizes that are equal or 1; scalars combine with any shape. `xlafront.numpy` promotes and
            broadcasts other operands.

    Returns:
        An array of the dtype of the operands.

    Example:
        >>> lax.bitwise_xor(6, 3)
        Array(5, dtype=int32, weak_type=True)
    """
broadcast_in_dim_p: _Primitive
def cbrt(x: _ArrayLike, *, accuracy: _AccuracyMode | _Tolerance | None = None) -> _Array:
    """Compute the real cube root, also of negative numbers.

    Args:
        x: Array of floats, or a scalar.
        accuracy: Accuracy of the computation, an `AccuracyMode` or a `Tolerance`, where the hardware offers a choice. Default: the
            usual one.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> lax.cbrt(-8.0)
        Array(-2., dtype=float32, weak_type=True)
    """
cbrt_p: __WithDefaults
def ceil(x: _ArrayLike) -> _Array:
    """Round up to the nearest integer, without changing the dtype.

    Args:
        x: Array of floats, or a scalar.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> lax.ceil(-1.5)
        Array(-1., dtype=float32, weak_type=True)
    """
ceil_p: _Primitive
clamp_p: _Primitive
def clz(x: _ArrayLike) -> _Array:
    """Count the leading zero bits of integers.

    Args:
        x: Array of integers, or a scalar.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> lax.clz(1)
        Array(31, dtype=int32, weak_type=True)
    """
clz_p: _Primitive
def complex(x: _ArrayLike, y: _ArrayLike) -> _Array:
    """Make complex numbers of their real components `x` and imaginary components `y`.

    Args:
        x, y: Arrays of floats of 32 or 64 bits, or scalars, of one dtype.
            Shapes have equal rank, and sizes that are equal or 1; scalars combine with any shape. `xlafront.numpy` promotes and
            broadcasts other operands.

    Returns:
        A complex array.

    Example:
        >>> lax.complex(1.0, 2.0)
        Array(1.+2.j, dtype=complex64, weak_type=True)
    """
complex_p: _Primitive
composite_p: _Primitive
concatenate_p: _Primitive
cond_p: _Primitive
conj_p: _Primitive
conv_general_dilated_p: _Primitive
convert_element_type_p: _Primitive
copy_p: _Primitive
def cos(x: _ArrayLike, *, accuracy: _AccuracyMode | _Tolerance | None = None) -> _Array:
    """Compute the cosine of angles in radians.

    Args:
        x: Array of floats or complex numbers, or a scalar.
        accuracy: Accuracy of the computation, an `AccuracyMode` or a `Tolerance`, where the hardware offers a choice. Default: the
            usual one.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> lax.cos(0.0)
        Array(1., dtype=float32, weak_type=True)
    """
cos_p: __WithDefaults
def cosh(x: _ArrayLike) -> _Array:
    """Compute the hyperbolic cosine.

    Args:
        x: Array of floats or complex numbers, or a scalar.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> lax.cosh(0.0)
        Array(1., dtype=float32, weak_type=True)
    """
cosh_p: _Primitive
create_token_p: _Primitive
def cumlogsumexp(operand: _ArrayLike, axis: _builtins.int = 0, reverse: _builtins.bool = False) -> _Array:
    """Compute the cumulative logarithm of the sum of exponentials along a dimension.

    Args:
        operand: An array.
        axis: The dimension, non-negative.
        reverse: If True, accumulate from the end.

    Returns:
        An array of the shape and dtype of `operand`.

    Example:
        >>> lax.cumlogsumexp(xnp.array([0.0, -np.inf]))
        Array([0., 0.], dtype=float32)
    """
cumlogsumexp_p: _Primitive
def cummax(operand: _ArrayLike, axis: _builtins.int = 0, reverse: _builtins.bool = False) -> _Array:
    """Compute the cumulative maximum along a dimension.

    Args:
        operand: An array.
        axis: The dimension, non-negative.
        reverse: If True, accumulate from the end.

    Returns:
        An array of the shape and dtype of `operand`.

    Example:
        >>> lax.cummax(xnp.array([1, 3, 2]))
        Array([1, 3, 3], dtype=int32)
    """
cummax_p: _Primitive
def cummin(operand: _ArrayLike, axis: _builtins.int = 0, reverse: _builtins.bool = False) -> _Array:
    """Compute the cumulative minimum along a dimension.

    Args:
        operand: An array.
        axis: The dimension, non-negative.
        reverse: If True, accumulate from the end.

    Returns:
        An array of the shape and dtype of `operand`.

    Example:
        >>> lax.cummin(xnp.array([1, 3, 2]))
        Array([1, 1, 1], dtype=int32)
    """
cummin_p: _Primitive
def cumprod(operand: _ArrayLike, axis: _builtins.int = 0, reverse: _builtins.bool = False) -> _Array:
    """Compute the cumulative product along a dimension.

    Args:
        operand: An array.
        axis: The dimension, non-negative.
        reverse: If True, accumulate from the end.

    Returns:
        An array of the shape and dtype of `operand`.

    Example:
        >>> lax.cumprod(xnp.array([1, 3, 2]))
        Array([1, 3, 6], dtype=int32)
    """
cumprod_p: _Primitive
def cumsum(operand: _ArrayLike, axis: _builtins.int = 0, reverse: _builtins.bool = False) -> _Array:
    """Compute the cumulative sum along a dimension.

    Args:
        operand: An array.
        axis: The dimension, non-negative.
        reverse: If True, accumulate from the end.

    Returns:
        An array of the shape and dtype of `operand`.

    Example:
        >>> lax.cumsum(xnp.array([1, 3, 2]))
        Array([1, 4, 6], dtype=int32)
    """
cumsum_p: _Primitive
dce_sink_p: _Primitive
device_put_p: __DevicePut
def digamma(x: _ArrayLike) -> _Array:
    """Compute the derivative of `lgamma`.

    Args:
        x: Array of floats, or a scalar.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> f"{lax.digamma(1.0):.3f}"
        '-0.577'
    """
digamma_p: _Primitive
def div(x: _ArrayLike, y: _ArrayLike) -> _Array:
    """Compute `x / y`; integer quotients are truncated toward zero.

    Args:
        x, y: Arrays of integers, floats or complex numbers, or scalars, of one dtype.
            Shapes have equal rank, and sizes that are equal or 1; scalars combine with any shape. `xlafront.numpy` promotes and
            broadcasts other operands.

    Returns:
        An array of the dtype of the operands.

    Example:
        >>> lax.div(-7, 2)
        Array(-3, dtype=int32, weak_type=True)
    """
div_p: _Primitive
dot_general_p: _Primitive
dynamic_slice_p: _Primitive
dynamic_update_slice_p: _Primitive
def eq(x: _ArrayLike, y: _ArrayLike) -> _Array:
    """Compare elementwise: `x == y`.

    Args:
        x, y: Arrays of integers, floats, complex numbers, booleans or random keys, or scalars, of one dtype.
            Shapes have equal rank, and sizes that are equal or 1; scalars combine with any shape. `xlafront.numpy` promotes and
            broadcasts other operands.

    Returns:
        An array of booleans.

    Example:
        >>> lax.eq(2, np.int32([1, 2, 3]))
        Array([False,  True, False], dtype=bool)
    """
eq_p: _Primitive
eq_to_p: _Primitive
def erf(x: _ArrayLike) -> _Array:
    """Compute the error function: `2 / sqrt(pi)` times the integral of `exp(-t^2)` from 0 to `x`.

    Args:
        x: Array of floats, or a scalar.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> lax.erf(0.0)
        Array(0., dtype=float32, weak_type=True)
    """
def erf_inv(x: _ArrayLike) -> _Array:
    """Compute the inverse of `erf`; NaN outside of [-1, 1].

    Args:
        x: Array of floats, or a scalar.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> lax.erf_inv(1.0)
        Array(inf, dtype=float32, weak_type=True)
    """
erf_inv_p: _Primitive
erf_p: _Primitive
def erfc(x: _ArrayLike, *, accuracy: _AccuracyMode | _Tolerance | None = None) -> _Array:
    """Compute `1 - erf(x)`, accurate where the result is small.

    Args:
        x: Array of floats, or a scalar.
        accuracy: Accuracy of the computation, an `AccuracyMode` or a `Tolerance`, where the hardware offers a choice. Default: the
            usual one.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> lax.erfc(0.0)
        Array(1., dtype=float32, weak_type=True)
    """
erfc_p: __WithDefaults
def exp(x: _ArrayLike, *, accuracy: _AccuracyMode | _Tolerance | None = None) -> _Array:
    """Compute the exponential function.

    Args:
        x: Array of floats or complex numbers, or a scalar.
        accuracy: Accuracy of the computation, an `AccuracyMode` or a `Tolerance`, where the hardware offers a choice. Default: the
            usual one.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> lax.exp(0.0)
        Array(1., dtype=float32, weak_type=True)
    """
def exp2(x: _ArrayLike, *, accuracy: _AccuracyMode | _Tolerance | None = None) -> _Array:
    """Compute 2 to the power `x`.

    Args:
        x: Array of floats or complex numbers, or a scalar.
        accuracy: Accuracy of the computation, an `AccuracyMode` or a `Tolerance`, where the hardware offers a choice. Default: the
            usual one.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> lax.exp2(3.0)
        Array(8., dtype=float32, weak_type=True)
    """
exp2_p: __WithDefaults
exp_p: __WithDefaults
def expm1(x: _ArrayLike, *, accuracy: _AccuracyMode | _Tolerance | None = None) -> _Array:
    """Compute `exp(x) - 1`, accurate for small `x` too.

    Args:
        x: Array of floats or complex numbers, or a scalar.
        accuracy: Accuracy of the computation, an `AccuracyMode` or a `Tolerance`, where the hardware offers a choice. Default: the
            usual one.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> lax.expm1(1e-10)
        Array(1.e-10, dtype=float32, weak_type=True)
    """
expm1_p: __WithDefaults
fft_p: _Primitive
def floor(x: _ArrayLike) -> _Array:
    """Round down to the nearest integer, without changing the dtype.

    Args:
        x: Array of floats, or a scalar.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> lax.floor(-1.5)
        Array(-2., dtype=float32, weak_type=True)
    """
floor_p: _Primitive
gather_p: _Primitive
def ge(x: _ArrayLike, y: _ArrayLike) -> _Array:
    """Compare elementwise: `x >= y`.

    Args:
        x, y: Arrays of integers, floats or booleans, or scalars, of one dtype.
            Shapes have equal rank, and sizes that are equal or 1; scalars combine with any shape. `xlafront.numpy` promotes and
            broadcasts other operands.

    Returns:
        An array of booleans.

    Example:
        >>> lax.ge(2, np.int32([1, 2, 3]))
        Array([ True,  True, False], dtype=bool)
    """
ge_p: _Primitive
def gt(x: _ArrayLike, y: _ArrayLike) -> _Array:
    """Compare elementwise: `x > y`.

    Args:
        x, y: Arrays of integers, floats or booleans, or scalars, of one dtype.
            Shapes have equal rank, and sizes that are equal or 1; scalars combine with any shape. `xlafront.numpy` promotes and
            broadcasts other operands.

    Returns:
        An array of booleans.

    Example:
        >>> lax.gt(2, np.int32([1, 2, 3]))
        Array([ True, False, False], dtype=bool)
    """
gt_p: _Primitive
igamma_grad_a_p: _Primitive
igamma_p: _Primitive
igammac_p: _Primitive
def imag(x: _ArrayLike) -> _Array:
    """Return the imaginary component of complex numbers.

    Args:
        x: Array of complex numbers, or a scalar.

    Returns:
        A real array.

    Example:
        >>> lax.imag(1.0 + 2.0j)
        Array(2., dtype=float32, weak_type=True)
    """
imag_p: _Primitive
integer_pow_p: _Primitive
iota_p: _Primitive
def is_finite(x: _ArrayLike) -> _Array:
    """Test whether numbers are neither infinite nor NaN.

    Args:
        x: Array of floats, or a scalar.

    Returns:
        An array of booleans.

    Example:
        >>> lax.is_finite(np.float32([1, np.inf, np.nan]))
        Array([ True, False, False], dtype=bool)
    """
is_finite_p: _Primitive
def le(x: _ArrayLike, y: _ArrayLike) -> _Array:
    """Compare elementwise: `x <= y`.

    Args:
        x, y: Arrays of integers, floats or booleans, or scalars, of one dtype.
            Shapes have equal rank, and sizes that are equal or 1; scalars combine with any shape. `xlafront.numpy` promotes and
            broadcasts other operands.

    Returns:
        An array of booleans.

    Example:
        >>> lax.le(2, np.int32([1, 2, 3]))
        Array([False,  True,  True], dtype=bool)
    """
le_p: _Primitive
le_to_p: _Primitive
def lgamma(x: _ArrayLike) -> _Array:
    """Compute the logarithm of the absolute value of the gamma function.

    Args:
        x: Array of floats, or a scalar.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> f"{lax.lgamma(10.0):.3f}"
        '12.802'
    """
lgamma_p: _Primitive
linear_solve_p: _Primitive
def log(x: _ArrayLike, *, accuracy: _AccuracyMode | _Tolerance | None = None) -> _Array:
    """Compute the natural logarithm; NaN for negative numbers.

    Args:
        x: Array of floats or complex numbers, or a scalar.
        accuracy: Accuracy of the computation, an `AccuracyMode` or a `Tolerance`, where the hardware offers a choice. Default: the
            usual one.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> lax.log(1.0)
        Array(0., dtype=float32, weak_type=True)
    """
def log1p(x: _ArrayLike, *, accuracy: _AccuracyMode | _Tolerance | None = None) -> _Array:
    """Compute `log(1 + x)`, accurate for small `x` too.

    Args:
        x: Array of floats or complex numbers, or a scalar.
        accuracy: Accuracy of the computation, an `AccuracyMode` or a `Tolerance`, where the hardware offers a choice. Default: the
            usual one.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> lax.log1p(1e-10)
        Array(1.e-10, dtype=float32, weak_type=True)
    """
log1p_p: __WithDefaults
def log2(x: _ArrayLike, *, accuracy: _AccuracyMode | _Tolerance | None = None) -> _Array:
    """Compute the base-2 logarithm; NaN for negative numbers.

    Args:
        x: Array of floats or complex numbers, or a scalar.
        accuracy: Accuracy of the computation, an `AccuracyMode` or a `Tolerance`, where the hardware offers a choice. Default: the
            usual one.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> lax.log2(8.0)
        Array(3., dtype=float32, weak_type=True)
    """
log2_p: __WithDefaults
log_p: __WithDefaults
def logistic(x: _ArrayLike, *, accuracy: _AccuracyMode | _Tolerance | None = None) -> _Array:
    """Compute the logistic function `1 / (1 + exp(-x))`.

    Args:
        x: Array of floats or complex numbers, or a scalar.
        accuracy: Accuracy of the computation, an `AccuracyMode` or a `Tolerance`, where the hardware offers a choice. Default: the
            usual one.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> lax.logistic(0.0)
        Array(0.5, dtype=float32, weak_type=True)
    """
logistic_p: __WithDefaults
def lt(x: _ArrayLike, y: _ArrayLike) -> _Array:
    """Compare elementwise: `x < y`.

    Args:
        x, y: Arrays of integers, floats or booleans, or scalars, of one dtype.
            Shapes have equal rank, and sizes that are equal or 1; scalars combine with any shape. `xlafront.numpy` promotes and
            broadcasts other operands.

    Returns:
        An array of booleans.

    Example:
        >>> lax.lt(2, np.int32([1, 2, 3]))
        Array([False, False,  True], dtype=bool)
    """
lt_p: _Primitive
lt_to_p: _Primitive
def max(x: _ArrayLike, y: _ArrayLike) -> _Array:
    """Compute the maximum of `x` and `y`; NaN if either is NaN.

    Complex numbers are ordered by their real components, then by their imaginary components.

    Args:
        x, y: Arrays of integers, floats, complex numbers or booleans, or scalars, of one dtype.
            Shapes have equal rank, and sizes that are equal or 1; scalars combine with any shape. `xlafront.numpy` promotes and
            broadcasts other operands.

    Returns:
        An array of the dtype of the operands.

    Example:
        >>> lax.max(2.0, np.float32([1, 3]))
        Array([2., 3.], dtype=float32)
    """
max_p: _Primitive
def min(x: _ArrayLike, y: _ArrayLike) -> _Array:
    """Compute the minimum of `x` and `y`; NaN if either is NaN.

    Complex numbers are ordered by their real components, then by their imaginary components.

    Args:
        x, y: Arrays of integers, floats, complex numbers or booleans, or scalars, of one dtype.
            Shapes have equal rank, and sizes that are equal or 1; scalars combine with any shape. `xlafront.numpy` promotes and
            broadcasts other operands.

    Returns:
        An array of the dtype of the operands.

    Example:
        >>> lax.min(2.0, np.float32([1, 3]))
        Array([1., 2.], dtype=float32)
    """
min_p: _Primitive
mul = _source_mul
mul_p: __WithDefaults
mulhi_p: _Primitive
def ne(x: _ArrayLike, y: _ArrayLike) -> _Array:
    """Compare elementwise: `x != y`; a NaN differs from everything, itself included.

    Args:
        x, y: Arrays of integers, floats, complex numbers, booleans or random keys, or scalars, of one dtype.
            Shapes have equal rank, and sizes that are equal or 1; scalars combine with any shape. `xlafront.numpy` promotes and
            broadcasts other operands.

    Returns:
        An array of booleans.

    Example:
        >>> lax.ne(2, np.int32([1, 2, 3]))
        Array([ True, False,  True], dtype=bool)
    """
ne_p: _Primitive
def neg(x: _ArrayLike) -> _Array:
    """Compute `-x`.

    Args:
        x: Array of integers, floats or complex numbers, or a scalar.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> lax.neg(2.0)
        Array(-2., dtype=float32, weak_type=True)
    """
neg_p: _Primitive
nextafter_p: _Primitive
not_p: _Primitive
def one_minus_square(x: _ArrayLike) -> _Array:
    """Compute `1 - x * x`, accurate for `x` close to 1 and -1 too.

    The derivative is `-2 * x`.

    Args:
        x: Array of integers, floats or complex numbers, or a scalar.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> lax.one_minus_square(0.5)
        Array(0.75, dtype=float32, weak_type=True)
    """
one_minus_square_p: _Primitive
optimization_barrier_p: _Primitive
or_p: _Primitive
pad_p: _Primitive
pmax_p: _Primitive
pmin_p: _Primitive
polygamma_p: _Primitive
polynomial_p: __WithDefaults
def population_count(x: _ArrayLike) -> _Array:
    """Count the bits of integers that are 1.

    Args:
        x: Array of integers, or a scalar.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> lax.population_count(7)
        Array(3, dtype=int32, weak_type=True)
    """
population_count_p: _Primitive
def pow(x: _ArrayLike, y: _ArrayLike) -> _Array:
    """Compute `x` to the power `y`.

    The exponent has the dtype of `x` or any integer dtype.

    Args:
        x, y: Arrays of integers, floats or complex numbers, or scalars, of one dtype.
            Shapes have equal rank, and sizes that are equal or 1; scalars combine with any shape. `xlafront.numpy` promotes and
            broadcasts other operands.

    Returns:
        An array of the dtype of `x`.

    Example:
        >>> lax.pow(2.0, 3.0)
        Array(8., dtype=float32, weak_type=True)
    """
pow_p: _Primitive
ppermute_p: _Primitive
psum_p: _Primitive
ragged_all_to_all_p: _Primitive
ragged_dot_general_p: _Primitive
def real(x: _ArrayLike) -> _Array:
    """Return the real component of complex numbers.

    Args:
        x: Array of complex numbers, or a scalar.

    Returns:
        A real array.

    Example:
        >>> lax.real(1.0 + 2.0j)
        Array(1., dtype=float32, weak_type=True)
    """
real_p: _Primitive
def reduce_and(operand: _ArrayLike, axes: _typing.Sequence[_builtins.int]) -> _Array:
    """Compute the logical AND of booleans, or the bitwise AND of integers, along some dimensions.

    Args:
        operand: An array.
        axes: The dimensions to reduce, non-negative.

    Returns:
        An array without these dimensions.

    Example:
        >>> lax.reduce_and(xnp.array([[True, False], [True, True]]), (1,))
        Array([False,  True], dtype=bool)
    """
reduce_and_p: _Primitive
def reduce_max(operand: _ArrayLike, axes: _typing.Sequence[_builtins.int], *, out_sharding: _ShardingLike = None) -> _Array:
    """Compute the maximum of elements along some dimensions.

    Args:
        operand: An array.
        axes: The dimensions to reduce, non-negative.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        An array without these dimensions.

    Example:
        >>> lax.reduce_max(xnp.array([[1, 2], [3, 4]]), (1,))
        Array([2, 4], dtype=int32)
    """
reduce_max_p: _Primitive
def reduce_min(operand: _ArrayLike, axes: _typing.Sequence[_builtins.int], *, out_sharding: _ShardingLike = None) -> _Array:
    """Compute the minimum of elements along some dimensions.

    Args:
        operand: An array.
        axes: The dimensions to reduce, non-negative.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        An array without these dimensions.

    Example:
        >>> lax.reduce_min(xnp.array([[1, 2], [3, 4]]), (1,))
        Array([1, 3], dtype=int32)
    """
reduce_min_p: _Primitive
def reduce_or(operand: _ArrayLike, axes: _typing.Sequence[_builtins.int]) -> _Array:
    """Compute the logical OR of booleans, or the bitwise OR of integers, along some dimensions.

    Args:
        operand: An array.
        axes: The dimensions to reduce, non-negative.

    Returns:
        An array without these dimensions.

    Example:
        >>> lax.reduce_or(xnp.array([[True, False], [True, True]]), (1,))
        Array([ True,  True], dtype=bool)
    """
reduce_or_p: _Primitive
reduce_p: _Primitive
reduce_precision_p: _Primitive
def reduce_prod(operand: _ArrayLike, axes: _typing.Sequence[_builtins.int]) -> _Array:
    """Compute the product of elements along some dimensions.

    Args:
        operand: An array.
        axes: The dimensions to reduce, non-negative.

    Returns:
        An array without these dimensions.

    Example:
        >>> lax.reduce_prod(xnp.array([[1, 2], [3, 4]]), (1,))
        Array([ 2, 12], dtype=int32)
    """
reduce_prod_p: _Primitive
def reduce_sum(operand: _ArrayLike, axes: _typing.Sequence[_builtins.int], *, out_sharding: _ShardingLike = None) -> _Array:
    """Compute the sum of elements along some dimensions.

    Args:
        operand: An array.
        axes: The dimensions to reduce, non-negative.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        An array without these dimensions.

    Example:
        >>> lax.reduce_sum(xnp.array([[1, 2], [3, 4]]), (1,))
        Array([3, 7], dtype=int32)
    """
reduce_sum_p: _Primitive
reduce_window_max_p: _Primitive
reduce_window_min_p: _Primitive
reduce_window_p: _Primitive
reduce_window_sum_p: _Primitive
def reduce_xor(operand: _ArrayLike, axes: _typing.Sequence[_builtins.int]) -> _Array:
    """Compute the logical XOR of booleans, or the bitwise XOR of integers, along some dimensions.

    Args:
        operand: An array.
        axes: The dimensions to reduce, non-negative.

    Returns:
        An array without these dimensions.

    Example:
        >>> lax.reduce_xor(xnp.array([[True, False], [True, True]]), (1,))
        Array([ True, False], dtype=bool)
    """
reduce_xor_p: _Primitive
regularized_incomplete_beta_p: _Primitive
def rem(x: _ArrayLike, y: _ArrayLike) -> _Array:
    """Compute the remainder of `x / y` with the sign of `x`, as `numpy.fmod` does.

    Args:
        x, y: Arrays of integers or floats, or scalars, of one dtype.
            Shapes have equal rank, and sizes that are equal or 1; scalars combine with any shape. `xlafront.numpy` promotes and
            broadcasts other operands.

    Returns:
        An array of the dtype of the operands.

    Example:
        >>> lax.rem(-7, 3)
        Array(-1, dtype=int32, weak_type=True)
    """
rem_p: _Primitive
reshape_p: _Primitive
rev_p: _Primitive
rng_bit_generator_p: _Primitive
rng_uniform_p: _Primitive
round_p: _Primitive
def rsqrt(x: _ArrayLike, *, accuracy: _AccuracyMode | _Tolerance | None = None) -> _Array:
    """Compute the reciprocal square root `1 / sqrt(x)`.

    Args:
        x: Array of floats or complex numbers, or a scalar.
        accuracy: Accuracy of the computation, an `AccuracyMode` or a `Tolerance`, where the hardware offers a choice. Default: the
            usual one.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> lax.rsqrt(4.0)
        Array(0.5, dtype=float32, weak_type=True)
    """
rsqrt_p: __WithDefaults
scan_p: _Primitive
def scatter(operand: _ArrayLike, scatter_indices: _ArrayLike, updates: _ArrayLike, dimension_numbers: _ScatterDimensionNumbers, *, indices_are_sorted: _builtins.bool = False, unique_indices: _builtins.bool = False, mode: _builtins.str | _GatherScatterMode | None = None) -> _Array:
    """Replace windows of an array at run-time positions: StableHLO's `scatter`.

    `x.at[...].set` is easier to use.

    Args:
        operand: Array to update.
        scatter_indices: Integer array. Its last dimension has the start of a window in `scatter_dims_to_operand_dims`.
        updates: Windows of updates, with the dtype of `operand`.
        dimension_numbers: A `ScatterDimensionNumbers`, which describes the dimensions of operand, indices and updates.
        indices_are_sorted, unique_indices: Promises about the indices, which can make the operation faster.
        mode: Treatment of windows out of bounds: "drop" (default) skips them, "clip" clamps the indices,
            "promise_in_bounds" promises that there are none.

    Returns:
        The updated array.

    Example:
        >>> numbers = lax.ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
        >>> lax.scatter(xnp.array([2, 5]), xnp.array([[1]]), xnp.array([3]), numbers)
        Array([2, 3], dtype=int32)
    """
def scatter_add(operand: _ArrayLike, scatter_indices: _ArrayLike, updates: _ArrayLike, dimension_numbers: _ScatterDimensionNumbers, *, indices_are_sorted: _builtins.bool = False, unique_indices: _builtins.bool = False, mode: _builtins.str | _GatherScatterMode | None = None) -> _Array:
    """Add updates to windows of an array at run-time positions: StableHLO's `scatter`.

    `x.at[...].add` is easier to use.

    Args:
        operand: Array to update.
        scatter_indices: Integer array. Its last dimension has the start of a window in `scatter_dims_to_operand_dims`.
        updates: Windows of updates, with the dtype of `operand`.
        dimension_numbers: A `ScatterDimensionNumbers`, which describes the dimensions of operand, indices and updates.
        indices_are_sorted, unique_indices: Promises about the indices, which can make the operation faster.
        mode: Treatment of windows out of bounds: "drop" (default) skips them, "clip" clamps the indices,
            "promise_in_bounds" promises that there are none.

    Returns:
        The updated array.

    Example:
        >>> numbers = lax.ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
        >>> lax.scatter_add(xnp.array([2, 5]), xnp.array([[1]]), xnp.array([3]), numbers)
        Array([2, 8], dtype=int32)
    """
scatter_add_p: __Scatter
scatter_apply_p: _Primitive
def scatter_max(operand: _ArrayLike, scatter_indices: _ArrayLike, updates: _ArrayLike, dimension_numbers: _ScatterDimensionNumbers, *, indices_are_sorted: _builtins.bool = False, unique_indices: _builtins.bool = False, mode: _builtins.str | _GatherScatterMode | None = None) -> _Array:
    """Take the maximum of updates and windows of an array at run-time positions: StableHLO's `scatter`.

    `x.at[...].max` is easier to use.

    Args:
        operand: Array to update.
        scatter_indices: Integer array. Its last dimension has the start of a window in `scatter_dims_to_operand_dims`.
        updates: Windows of updates, with the dtype of `operand`.
        dimension_numbers: A `ScatterDimensionNumbers`, which describes the dimensions of operand, indices and updates.
        indices_are_sorted, unique_indices: Promises about the indices, which can make the operation faster.
        mode: Treatment of windows out of bounds: "drop" (default) skips them, "clip" clamps the indices,
            "promise_in_bounds" promises that there are none.

    Returns:
        The updated array.

    Example:
        >>> numbers = lax.ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
        >>> lax.scatter_max(xnp.array([2, 5]), xnp.array([[1]]), xnp.array([3]), numbers)
        Array([2, 5], dtype=int32)
    """
scatter_max_p: __Scatter
def scatter_min(operand: _ArrayLike, scatter_indices: _ArrayLike, updates: _ArrayLike, dimension_numbers: _ScatterDimensionNumbers, *, indices_are_sorted: _builtins.bool = False, unique_indices: _builtins.bool = False, mode: _builtins.str | _GatherScatterMode | None = None) -> _Array:
    """Take the minimum of updates and windows of an array at run-time positions: StableHLO's `scatter`.

    `x.at[...].min` is easier to use.

    Args:
        operand: Array to update.
        scatter_indices: Integer array. Its last dimension has the start of a window in `scatter_dims_to_operand_dims`.
        updates: Windows of updates, with the dtype of `operand`.
        dimension_numbers: A `ScatterDimensionNumbers`, which describes the dimensions of operand, indices and updates.
        indices_are_sorted, unique_indices: Promises about the indices, which can make the operation faster.
        mode: Treatment of windows out of bounds: "drop" (default) skips them, "clip" clamps the indices,
            "promise_in_bounds" promises that there are none.

    Returns:
        The updated array.

    Example:
        >>> numbers = lax.ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
        >>> lax.scatter_min(xnp.array([2, 5]), xnp.array([[1]]), xnp.array([3]), numbers)
        Array([2, 3], dtype=int32)
    """
scatter_min_p: __Scatter
def scatter_mul(operand: _ArrayLike, scatter_indices: _ArrayLike, updates: _ArrayLike, dimension_numbers: _ScatterDimensionNumbers, *, indices_are_sorted: _builtins.bool = False, unique_indices: _builtins.bool = False, mode: _builtins.str | _GatherScatterMode | None = None) -> _Array:
    """Multiply windows of an array by updates at run-time positions: StableHLO's `scatter`.

    `x.at[...].multiply` is easier to use.

    Args:
        operand: Array to update.
        scatter_indices: Integer array. Its last dimension has the start of a window in `scatter_dims_to_operand_dims`.
        updates: Windows of updates, with the dtype of `operand`.
        dimension_numbers: A `ScatterDimensionNumbers`, which describes the dimensions of operand, indices and updates.
        indices_are_sorted, unique_indices: Promises about the indices, which can make the operation faster.
        mode: Treatment of windows out of bounds: "drop" (default) skips them, "clip" clamps the indices,
            "promise_in_bounds" promises that there are none.

    Returns:
        The updated array.

    Example:
        >>> numbers = lax.ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
        >>> lax.scatter_mul(xnp.array([2, 5]), xnp.array([[1]]), xnp.array([3]), numbers)
        Array([ 2, 15], dtype=int32)
    """
scatter_mul_p: __Scatter
scatter_p: __Scatter
def scatter_sub(operand: _ArrayLike, scatter_indices: _ArrayLike, updates: _ArrayLike, dimension_numbers: _ScatterDimensionNumbers, *, indices_are_sorted: _builtins.bool = False, unique_indices: _builtins.bool = False, mode: _builtins.str | _GatherScatterMode | None = None) -> _Array:
    """Subtract updates from windows of an array at run-time positions: StableHLO's `scatter`.

    `x.at[...].subtract` is easier to use.

    Args:
        operand: Array to update.
        scatter_indices: Integer array. Its last dimension has the start of a window in `scatter_dims_to_operand_dims`.
        updates: Windows of updates, with the dtype of `operand`.
        dimension_numbers: A `ScatterDimensionNumbers`, which describes the dimensions of operand, indices and updates.
        indices_are_sorted, unique_indices: Promises about the indices, which can make the operation faster.
        mode: Treatment of windows out of bounds: "drop" (default) skips them, "clip" clamps the indices,
            "promise_in_bounds" promises that there are none.

    Returns:
        The updated array.

    Example:
        >>> numbers = lax.ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
        >>> lax.scatter_sub(xnp.array([2, 5]), xnp.array([[1]]), xnp.array([3]), numbers)
        Array([2, 2], dtype=int32)
    """
scatter_sub_p: __Scatter
select_and_gather_add_p: _Primitive
select_and_scatter_add_p: _Primitive
select_and_scatter_p: _Primitive
select_n_p: _Primitive
sharding_constraint_p: _Primitive
def shift_left(x: _ArrayLike, y: _ArrayLike) -> _Array:
    """Shift the bits of `x` left by `y`, filling with zeros.

    Args:
        x, y: Arrays of integers, or scalars, of one dtype.
            Shapes have equal rank, and sizes that are equal or 1; scalars combine with any shape. `xlafront.numpy` promotes and
            broadcasts other operands.

    Returns:
        An array of the dtype of the operands.

    Example:
        >>> lax.shift_left(3, 2)
        Array(12, dtype=int32, weak_type=True)
    """
shift_left_p: _Primitive
def shift_right_arithmetic(x: _ArrayLike, y: _ArrayLike) -> _Array:
    """Shift the bits of `x` right by `y`, filling with the sign bit: `floor(x / 2**y)`.

    Args:
        x, y: Arrays of integers, or scalars, of one dtype.
            Shapes have equal rank, and sizes that are equal or 1; scalars combine with any shape. `xlafront.numpy` promotes and
            broadcasts other operands.

    Returns:
        An array of the dtype of the operands.

    Example:
        >>> lax.shift_right_arithmetic(-8, 1)
        Array(-4, dtype=int32, weak_type=True)
    """
shift_right_arithmetic_p: _Primitive
def shift_right_logical(x: _ArrayLike, y: _ArrayLike) -> _Array:
    """Shift the bits of `x` right by `y`, filling with zeros.

    Args:
        x, y: Arrays of integers, or scalars, of one dtype.
            Shapes have equal rank, and sizes that are equal or 1; scalars combine with any shape. `xlafront.numpy` promotes and
            broadcasts other operands.

    Returns:
        An array of the dtype of the operands.

    Example:
        >>> lax.shift_right_logical(np.int8(-8), np.int8(1))
        Array(124, dtype=int8)
    """
shift_right_logical_p: _Primitive
def sign(x: _ArrayLike) -> _Array:
    """Compute the sign: -1, 0 or 1; `x / abs(x)` for complex numbers.

    Args:
        x: Array of integers, floats or complex numbers, or a scalar.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> lax.sign(-2.5)
        Array(-1., dtype=float32, weak_type=True)
    """
sign_p: _Primitive
def sin(x: _ArrayLike, *, accuracy: _AccuracyMode | _Tolerance | None = None) -> _Array:
    """Compute the sine of angles in radians.

    Args:
        x: Array of floats or complex numbers, or a scalar.
        accuracy: Accuracy of the computation, an `AccuracyMode` or a `Tolerance`, where the hardware offers a choice. Default: the
            usual one.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> lax.sin(0.0)
        Array(0., dtype=float32, weak_type=True)
    """
sin_p: __WithDefaults
def sinh(x: _ArrayLike) -> _Array:
    """Compute the hyperbolic sine.

    Args:
        x: Array of floats or complex numbers, or a scalar.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> lax.sinh(0.0)
        Array(0., dtype=float32, weak_type=True)
    """
sinh_p: _Primitive
slice_p: _Primitive
sort_p: _Primitive
split_p: _Primitive
def sqrt(x: _ArrayLike, *, accuracy: _AccuracyMode | _Tolerance | None = None) -> _Array:
    """Compute the square root; NaN for negative numbers.

    Args:
        x: Array of floats or complex numbers, or a scalar.
        accuracy: Accuracy of the computation, an `AccuracyMode` or a `Tolerance`, where the hardware offers a choice. Default: the
            usual one.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> lax.sqrt(9.0)
        Array(3., dtype=float32, weak_type=True)
    """
sqrt_p: __WithDefaults
def square(x: _ArrayLike) -> _Array:
    """Compute `x * x`.

    Args:
        x: Array of integers, floats or complex numbers, or a scalar.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> lax.square(-3.0)
        Array(9., dtype=float32, weak_type=True)
    """
square_p: _Primitive
squeeze_p: _Primitive
stack_p: _Primitive
stage_p: _Primitive
stop_gradient_p: _Primitive
def sub(x: _ArrayLike, y: _ArrayLike) -> _Array:
    """Compute `x - y`.

    Args:
        x, y: Arrays of integers, floats or complex numbers, or scalars, of one dtype.
            Shapes have equal rank, and sizes that are equal or 1; scalars combine with any shape. `xlafront.numpy` promotes and
            broadcasts other operands.

    Returns:
        An array of the dtype of the operands.

    Example:
        >>> lax.sub(1.0, np.float32([1, 2]))
        Array([ 0., -1.], dtype=float32)
    """
sub_p: _Primitive
def tan(x: _ArrayLike, *, accuracy: _AccuracyMode | _Tolerance | None = None) -> _Array:
    """Compute the tangent of angles in radians.

    Args:
        x: Array of floats or complex numbers, or a scalar.
        accuracy: Accuracy of the computation, an `AccuracyMode` or a `Tolerance`, where the hardware offers a choice. Default: the
            usual one.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> lax.tan(0.0)
        Array(0., dtype=float32, weak_type=True)
    """
tan_p: __WithDefaults
def tanh(x: _ArrayLike, *, accuracy: _AccuracyMode | _Tolerance | None = None) -> _Array:
    """Compute the hyperbolic tangent.

    Args:
        x: Array of floats or complex numbers, or a scalar.
        accuracy: Accuracy of the computation, an `AccuracyMode` or a `Tolerance`, where the hardware offers a choice. Default: the
            usual one.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> lax.tanh(0.0)
        Array(0., dtype=float32, weak_type=True)
    """
tanh_p: __WithDefaults
tile_p: _Primitive
top_k_p: _Primitive
transpose_p: _Primitive
unstack_p: _Primitive
while_p: _Primitive
xor_p: _Primitive
zeta_p: _Primitive
