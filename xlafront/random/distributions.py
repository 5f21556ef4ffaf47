"""Samplers of the common distributions, built from random bits.

Each public function checks its arguments and calls a compiled kernel. The `*_inline` functions are the kernels' bodies, which
kernels of other distributions call as well.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from xlafront import tuning
from xlafront.base import config
from xlafront.core import dtypes, errors, tracing
from xlafront.core.typing import Array, ArrayLike, DTypeLike, ShardingLike
from xlafront.lax import shapes, slicing
from xlafront.lax.barriers import stop_gradient
from xlafront.lax.creation import iota
from xlafront.lax.elementwise import (
    PRIMITIVES,
    abs_,
    add,
    and_,
    as_type,
    clz_,
    complex_,
    constant_like,
    div,
    eq,
    erf_,
    erf_inv_,
    ge,
    gt,
    le,
    log1p_,
    log_,
    lt,
    max_,
    min_,
    mul,
    neg,
    nextafter_,
    or_,
    real_,
    select,
    shift_left_,
    shift_right_logical_,
    sign_,
    sub,
    tan_,
    where,
)
from xlafront.lax.reductions import argmax
from xlafront.lax.resharding import with_out_sharding
from xlafront.lax.sorting import sort_key_val
from xlafront.lax.top_k_elements import top_k
from xlafront.numpy import host_sorting
from xlafront.numpy.creation import arange, asarray, zeros
from xlafront.numpy.indexing import take_inline
from xlafront.numpy.promotion import check_arraylike, unwrap
from xlafront.numpy.reductions import cumsum
from xlafront.numpy.searching import searchsorted
from xlafront.random.primitives import random_bits_of, row, split
from xlafront.random.prng import single_key, with_sharding
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import common_shape, is_symbolic_dim


def _float_dtype(name: str, dtype, complex_too: bool = False):
    d = dtypes.default_dtype(float) if dtype is None else dtypes.check_user_dtype(dtype, f"random.{name}")
    if not (dtypes.is_float(d) or complex_too and dtypes.is_complex(d)):
        raise ValueError(f"random.{name} needs a floating dtype, got {d}.")
    return d


def _static_shape(name: str, shape) -> tuple[int, ...]:
    shape = shapes.static_shape(f"random.{name}", shape)
    if any([not is_symbolic_dim(n) and n < 0 for n in shape]):
        raise TypeError(f"random.{name} needs a shape of nonnegative sizes, got {shape}.")
    return shape


def _sample_shape(name: str, shape, *params, error: type[Exception] = ValueError) -> tuple[int, ...]:
    """Return the requested shape, to which the parameters must broadcast. Default: the joint shape of the parameters."""
    param_shapes = [np.shape(p) for p in params]
    if shape is None:
        return common_shape(*param_shapes)
    shape = _static_shape(name, shape)
    if not any(param_shapes):  # Hot: scalar parameters.
        return shape
    try:
        fits = common_shape(shape, *param_shapes) == shape
    except ValueError:
        fits = False
    if not fits:
        given = ", ".join([str(sizes) for sizes in param_shapes if sizes])
        raise error(f"random.{name} got shape {shape}, but its parameters, of shape {given}, do not broadcast to it.")
    return shape


def check_parameters(name: str, dtype, *params) -> None:
    """Raise if a parameter is complex and the samples are not, or has a wider floating dtype than they have."""
    check_arraylike(name, *params)
    for p in params:
        d, weak = dtypes.operand_type(unwrap(p))
        d = dtypes.canonicalize_dtype(d)
        drops_imaginary_part = dtypes.is_complex(d) and not dtypes.is_complex(dtype)
        if drops_imaginary_part or not weak and dtypes.is_float(d) and dtypes.promote_types(d, dtype) != dtype:
            raise dtypes.TypePromotionError(f"random.{name} cannot safely cast a parameter of dtype {d} to the dtype of the "
                                            f"samples, {dtype}: convert it, or pass another dtype.")


def _broadcast(x, shape, dtype):
    """Convert a parameter to the dtype of the samples and broadcast it to their shape. Scalars stay scalars."""
    x = as_type(unwrap(x), dtype, False)
    own_shape = np.shape(x)
    if not own_shape or own_shape == shape:
        return x
    return shapes.broadcast_in_dim(x, shape, range(len(shape) - len(own_shape), len(shape)))


as_one_row = functools.partial(tuning.as_one_row, reshape=shapes.reshape_to)


# Uniform


@as_one_row
def uniform_inline(key, shape, dtype, low=0.0, high=1.0):
    """Sample uniformly: random mantissa bits under the exponent of 1 are uniform on [1, 2), which is shifted and scaled."""
    info = dtypes.finfo(dtype)
    width, mantissa = 8 * dtype.itemsize, info.nmant
    num_bits = width if mantissa >= 8 else 8
    bits = random_bits_of(key, num_bits, shape)
    unsigned = np.dtype(f"uint{width}")
    bits = as_type(bits, unsigned, False)
    one = np.ones((), dtype).view(unsigned)[()]
    bits = or_(shift_right_logical_(bits, unsigned.type(num_bits - mantissa)), one)
    floats = sub(shapes.bitcast_convert_type_p.bind(bits, new_dtype=dtype), dtype.type(1))
    if type(low) is float and type(high) is float and (low, high) == (0.0, 1.0):
        return floats
    low, high = _broadcast(low, shape, dtype), _broadcast(high, shape, dtype)
    span = dtype.type(high - low) if isinstance(low, np.generic) and isinstance(high, np.generic) else (
        sub(high, low))
    return _at_least(low, add(mul(floats, span), low))


def _at_least(low, x):
    """Return the maximum; `max_` of sampled numbers takes three times as long to compile for CPUs with jaxlib 0.12."""
    return select(lt(x, low), x, low)


@library(static=("shape", "dtype"), name="uniform")
def _uniform(key, minval, maxval, shape, dtype):
    return uniform_inline(key, shape, dtype, minval, maxval)


@library(static=("shape", "dtype"), name="uniform")
def _standard_uniform(key, shape, dtype):
    return uniform_inline(key, shape, dtype)


def _without_leading_ones(bound, rank: int):
    """Drop leading dimensions of a bound beyond `rank` if all of them have size 1. Otherwise return it unchanged."""
    sizes = np.shape(bound)
    excess = len(sizes) - rank
    return bound if any(n != 1 for n in sizes[:excess]) else shapes.reshape(bound, sizes[excess:])


@library(static=("shape", "dtype"))
@accepts(anything=True)
def uniform(key: ArrayLike, shape: Sequence[int] = (), dtype: DTypeLike | None = None, minval: ArrayLike = 0.0,
            maxval: ArrayLike = 1.0, *, out_sharding: ShardingLike = None) -> Array:
    """Sample from the uniform distribution on [`minval`, `maxval`).

    Args:
        key: PRNG key.
        shape: Shape of the result.
        dtype: Floating dtype of the result. Default: the default float dtype.
        minval: Lower bound, included. Must broadcast to `shape`. If `shape` is `()`, it may have dimensions of size 1.
        maxval: Upper bound, excluded. Must broadcast to `shape`, apart from extra leading dimensions of size 1.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        Array of samples.

    Example:
        >>> random.uniform(random.key(0), (2, 3)).shape
        (2, 3)
    """
    key = single_key("uniform", key)
    d = _float_dtype("uniform", dtype)
    shape = _static_shape("uniform", shape)
    if type(minval) is float and type(maxval) is float and (minval, maxval) == (0.0, 1.0):
        return with_sharding(_standard_uniform(key, shape, d), out_sharding)
    found: tuple[int, ...] = shape
    error: type[Exception] = TypeError
    if type(maxval) is not float and np.ndim(maxval) > len(shape):
        error = ValueError
        maxval = _without_leading_ones(maxval, len(shape))
    if type(minval) is not float and not shape and np.ndim(minval):  # The sample then has the dimensions of minval.
        error = ValueError
        found, minval = np.shape(minval), _without_leading_ones(minval, 0)
    _sample_shape("uniform", shape, minval, maxval, error=error)
    sample = _uniform(key, minval, maxval, shape, d)
    return with_sharding(sample if found == shape else shapes.reshape(sample, found), out_sharding)


# Normal


@as_one_row
def normal_inline(key, shape, dtype):
    """Sample standard normal values: the inverse CDF of uniform values on (-1, 1)."""
    if dtypes.is_complex(dtype):
        real = dtypes.to_real(dtype)
        first, second = (normal_inline(half, shape, real) for half in split(key, 2))
        return div(complex_(first, second), dtype.type(np.sqrt(2)))
    low = float(np.nextafter(np.array(-1, dtype), np.array(0, dtype), dtype=dtype))
    u = uniform_inline(key, shape, dtype, dtype.type(low), dtype.type(1))
    return mul(dtype.type(np.sqrt(2)), erf_inv_(u))


@library(static=("shape", "dtype"), name="normal")
def _normal(key, shape, dtype):
    return normal_inline(key, shape, dtype)


@library(static=("shape", "dtype"))
@accepts(anything=True)
def normal(key: ArrayLike, shape: Sequence[int] = (), dtype: DTypeLike | None = None, *,
           out_sharding: ShardingLike = None) -> Array:
    """Sample from the normal distribution with mean 0 and variance 1.

    Complex samples have real and imaginary parts of variance 1/2 each.

    Args:
        key: PRNG key.
        shape: Shape of the result.
        dtype: Floating or complex dtype of the result. Default: the default float dtype.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        Array of samples.

    Example:
        >>> random.normal(random.key(0), (2, 3)).shape
        (2, 3)
    """
    key = single_key("normal", key)
    return with_sharding(_normal(key, _static_shape("normal", shape), _float_dtype("normal", dtype, True)), out_sharding)


@library(static=("shape", "dtype"), name="truncated_normal")
def _truncated_normal(key, lower, upper, shape, dtype):
    lower, upper = _broadcast(lower, shape, dtype), _broadcast(upper, shape, dtype)
    root = dtype.type(np.sqrt(2))
    a, b = (erf_(div(x, root)) for x in (lower, upper))
    u = uniform_inline(key, shape, dtype, a, b)
    result = mul(root, erf_inv_(u))
    # Rounding may reach the bounds, which have probability 0. The numbers next to them are held constant.
    inside = (nextafter_(stop_gradient(x), dtype.type(s * np.inf)) for x, s in ((lower, 1), (upper, -1)))
    lowest, highest = (_full(x, shape) for x in inside)
    result = _at_least(lowest, result)
    return select(gt(result, highest), result, highest)


def _full(x, shape):
    return x if np.shape(x) == shape else shapes.broadcast_in_dim(x, shape, ())


@library(static=("shape", "dtype"))
@accepts(anything=True)
def truncated_normal(key: ArrayLike, lower: ArrayLike, upper: ArrayLike, shape: Sequence[int] | None = None,
                     dtype: DTypeLike | None = None, *, out_sharding: ShardingLike = None) -> Array:
    """Sample from the standard normal distribution truncated to the interval (`lower`, `upper`).

    Args:
        key: PRNG key.
        lower: Lower bound.
        upper: Upper bound.
        shape: Shape of the result, to which the bounds must broadcast. Default: the joint shape of the bounds.
        dtype: Floating dtype of the result. Default: the default float dtype.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        Array of samples.

    Example:
        >>> random.truncated_normal(random.key(0), -2.0, 2.0, (2, 3)).shape
        (2, 3)
    """
    key = single_key("truncated_normal", key)
    d = _float_dtype("truncated_normal", dtype)
    shape = _sample_shape("truncated_normal", shape, lower, upper)
    return with_sharding(_truncated_normal(key, lower, upper, shape, d), out_sharding)


# Integers


def randint_inline(key, shape, low, high, dtype):
    """Sample integers uniformly: a double-width random integer modulo the span, so that the bias is negligible."""
    info = dtypes.iinfo(dtype)
    if dtypes.itemsize_bits(dtype) < 32:  # A short random integer modulo the span would be far from uniform.
        low = _clamped(as_type(low, dtypes.int32, False), info.min, info.max)
        high = _clamped(as_type(high, dtypes.int32, False), info.min, info.max + 1)
        return as_type(randint_inline(key, shape, low, high, dtypes.int32), dtype, False)
    width = 8 * dtype.itemsize
    unsigned = np.dtype(f"uint{width}")
    may_exceed = dtypes.iinfo(tracing.aval_of(high).dtype).max > info.max
    exceeds = gt(high, constant_like(high, info.max)) if may_exceed else None
    low, high = (as_type(_clamped(x, info.min, info.max), dtype, False) for x in (low, high))
    upper, lower = (random_bits_of(half, width, shape) for half in split(key, 2))
    low, high = _broadcast(low, shape, dtype), _broadcast(high, shape, dtype)
    one = unsigned.type(1)
    span = where(le(high, low), one, as_type(sub(high, low), unsigned, False))
    if exceeds is not None:  # maxval is above the dtype's largest integer: the span has one more element.
        exceeds = _broadcast_flag(exceeds, shape)
        span = where(and_(exceeds, gt(high, low)), add(span, one), span)
    rem = PRIMITIVES["rem"].bind
    half = unsigned.type(1 << (width // 2))
    multiplier = rem(half, span)
    multiplier = rem(mul(multiplier, multiplier), span)
    offset = add(mul(rem(upper, _full(span, shape)), multiplier), rem(lower, _full(span, shape)))
    offset = rem(offset, _full(span, shape))
    return add(low, as_type(offset, dtype, False))


def _broadcast_flag(flag, shape):
    own_shape = np.shape(flag)
    if own_shape == shape or not own_shape:
        return flag
    return shapes.broadcast_in_dim(flag, shape, range(len(shape) - len(own_shape), len(shape)))


def _clamped(x, low: int, high: int):
    """Clamp an integer array to [`low`, `high`]. A limit that the array's dtype cannot exceed is skipped."""
    limits = dtypes.iinfo(tracing.aval_of(x).dtype)
    if low > limits.min:
        x = max_(x, constant_like(x, low))
    return min_(x, constant_like(x, high)) if high < limits.max else x


@library(static=("shape", "dtype"), name="randint")
def _randint(key, minval, maxval, shape, dtype):
    return randint_inline(key, shape, _as_integer_bound(minval, dtype), _as_integer_bound(maxval, dtype), dtype)


def _as_integer_bound(x, dtype):
    """Return a bound as an integer array. Floats are truncated."""
    d = tracing.aval_of(x).dtype
    if dtypes.is_integer(d):
        return x
    x = asarray(x)  # int() would raise on infinities.
    wide = dtypes.int32 if dtypes.itemsize_bits(dtype) < 32 else dtypes.default_dtype(int)
    return as_type(real_(x) if dtypes.is_complex(d) else x, wide, False)


def randint(key: ArrayLike, shape: Sequence[int], minval: ArrayLike, maxval: ArrayLike, dtype: DTypeLike | None = None, *,
            out_sharding: ShardingLike = None) -> Array:
    """Sample integers uniformly from [`minval`, `maxval`).

    Args:
        key: PRNG key.
        shape: Shape of the result.
        minval: Lower bound, included. Must broadcast to `shape`. Floats are truncated.
        maxval: Upper bound, excluded. Must broadcast to `shape`. Floats are truncated.
        dtype: Integer dtype of the result. Default: the default integer dtype.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        Array of samples.

    Example:
        >>> random.randint(random.key(0), (3,), 5, 6)
        Array([5, 5, 5], dtype=int32)
    """
    key = single_key("randint", key)
    d = dtypes.default_dtype(int) if dtype is None else dtypes.check_user_dtype(dtype, "random.randint")
    if not dtypes.is_integer(d):
        raise TypeError(f"random.randint needs an integer dtype, got {d}.")
    check_arraylike("randint", minval, maxval)
    for bound in (minval, maxval):
        if type(bound) is int:
            dtypes.check_int_fits(bound, dtypes.default_dtype(int))
    if shape is None:
        raise TypeError("random.randint needs a shape, got None.")
    shape = _sample_shape("randint", shape, minval, maxval)
    return with_sharding(_randint(key, minval, maxval, shape, d), out_sharding)


# Permutations and choices


def _num_shuffles(n: int) -> int:
    """Return how often to sort by random 32-bit keys so that ties among the keys do not bias the permutation."""
    if is_symbolic_dim(n):
        raise NotImplementedError(f"random.permutation cannot permute '{n}' elements, a size that is unknown while tracing: "
                                  f"the number of shuffles depends on it. Sort by random.bits of the array's shape.")
    return math.ceil(3 * math.log(max(1, n)) / math.log(2**32 - 1))


def shuffle_inline(key, x, axis):
    for _ in range(_num_shuffles(np.size(x))):
        key, subkey = split(key, 2)
        sort_keys = random_bits_of(subkey, 32, np.shape(x))
        x = sort_key_val(sort_keys, x, axis)[1]
    return x


def _permuted_range(key, n: int, dtype):
    return shuffle_inline(key, iota(dtype, n), 0)


def _count(name: str, x) -> int:
    """Return the length of the range that an integer in place of an array stands for."""
    if x is None or isinstance(x, (str, bool)) or not dtypes.is_integer(dtypes.operand_type(unwrap(x))[0]):
        raise TypeError(f"random.{name} takes an integer or an array of at least one dimension, got {errors.short(x)}.")
    return max(0, int(x))


@library(static=("axis", "independent"), name="permutation")
def _permutation(key, x, axis, independent):
    if (independent or np.ndim(x) == 1) and not dtypes.is_extended(tracing.aval_of(x).dtype):
        return shuffle_inline(key, x, axis)
    index = _permuted_range(key, np.shape(x)[axis], dtypes.int32)
    return take_inline(x, index, axis)


@library(static=("n", "dtype"), name="permutation")
def _permutation_of_range(key, n, dtype):
    return _permuted_range(key, n, dtype)


def _permute_on_host(key, x) -> Array | None:
    """Permute a large vector as `shuffle_inline` does, by NumPy's sort of the random words; None if XLA sorts them."""
    values = host_sorting.host_buffer(x)
    if values is None or values.ndim != 1:
        return None
    for _ in range(_num_shuffles(values.size)):
        words, key = _shuffle_words(key, values.size)
        values = values[host_sorting.sort_order(np.asarray(words))]
    return host_sorting.from_host(values, x, x.weak_type)


@library(static="n", name="permutation")
def _shuffle_words(key, n):
    """Return the words by which to sort `n` elements, and the key of the next shuffle."""
    key, subkey = split(key, 2)
    return random_bits_of(subkey, 32, (n,)), key


def permutation(key: ArrayLike, x: ArrayLike, axis: int = 0, independent: bool = False, *,
                out_sharding: ShardingLike = None) -> Array:
    """Permute an array along an axis, or the integers below `x`, at random.

    Args:
        key: PRNG key.
        x: Array to permute, or an integer `n` for the permuted range of `n`.
        axis: Axis along which slices are permuted.
        independent: If True, permute each vector along the axis independently.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        Permuted array with the shape of `x`, or `(n,)` for an integer.

    Example:
        >>> xnp.sort(random.permutation(random.key(0), 4))
        Array([0, 1, 2, 3], dtype=int32)
    """
    key = single_key("permutation", key)
    if not np.ndim(x):
        shapes.canonical_axis(axis, 1, "random.permutation")
        n, dtype = _count("permutation", x), dtypes.default_dtype(int)
        if out_sharding is None and n >= host_sorting.MIN_SIZE and tracing.thread.trace is tracing.eval_trace:
            permuted = _permute_on_host(key, arange(n, dtype=dtype))
            if permuted is not None:
                return permuted
        return with_sharding(_permutation_of_range(key, n, dtype), out_sharding)
    check_arraylike("permutation", x)
    axis = shapes.canonical_axis(axis, np.ndim(x), "random.permutation")
    if out_sharding is None and (permuted := _permute_on_host(key, x)) is not None:
        return permuted
    return with_out_sharding("random.permutation", out_sharding, _permutation, (key, x), axis, bool(independent))


@library(static=("shape", "replace", "axis", "mode"), name="choice")
def _choice(key, a, p, shape, replace, axis, mode):
    n = np.shape(a)[axis]
    num_samples = math.prod(shape)
    if p is None and replace:
        index = randint_inline(key, shape, 0, n, dtypes.default_dtype(int))
    elif p is None:
        index = _slice_first(_permuted_range(key, n, dtypes.int32), num_samples)
    elif replace:
        total = cumsum(p)
        d = tracing.aval_of(p).dtype
        last = row(total, n - 1)
        thresholds = mul(sub(d.type(1), uniform_inline(key, shape, d)), last)
        index = searchsorted(total, thresholds)
    else:
        noise = gumbel_inline(key, (n,), tracing.aval_of(p).dtype, mode)
        index = top_k(add(noise, log_(p)), num_samples, axis=0)[1]
    return take_inline(a, shapes.reshape_to(index, shape), axis)


def _slice_first(x, count):
    return slicing.slice(x, (0,), (count,))


def choice(key: ArrayLike, a: ArrayLike, shape: Sequence[int] = (), replace: bool = True, p: ArrayLike | None = None,
           axis: int = 0, mode: str | None = None) -> Array:
    """Sample elements of an array, or of the integers below `a`.

    Args:
        key: PRNG key.
        a: Array, or an integer `n` for the range of `n`.
        shape: Shape of the samples.
        replace: If True, elements may be sampled more than once.
        p: Probability of each element along `axis`. Default: uniform.
        axis: Axis of `a` along which elements are chosen.
        mode: Precision of the Gumbel noise, "low", "high" or "highest" (see `gumbel`). Only used if `p` is given and `replace`
            is False.

    Returns:
        Array of samples. `shape` takes the place of `axis` in the shape of `a`.

    Note:
        `p` need not sum to 1, unlike in NumPy: it is normalized.

    Example:
        >>> random.choice(random.key(0), 5, (3,), replace=False).shape
        (3,)
    """
    a = unwrap(a)
    key = single_key("choice", key)
    if isinstance(shape, (int, np.integer)):
        raise TypeError(f"random.choice needs its shape as a sequence of integers, got {shape!r}.")
    shape = _static_shape("choice", shape)
    check_arraylike("choice", a)
    if not np.ndim(a):
        a, axis = arange(int(a)), 0
    axis = shapes.canonical_axis(axis, np.ndim(a), "random.choice")
    n = np.shape(a)[axis]
    if n == 0 and math.prod(shape):
        raise ValueError("random.choice cannot sample from an empty array.")
    if not replace and math.prod(shape) > n:
        raise ValueError(f"random.choice without replacement can sample at most {n} elements, but shape {shape} has "
                         f"{math.prod(shape)}.")
    if not math.prod(shape):
        return zeros(shape, tracing.aval_of(a).dtype)
    if p is not None:
        check_arraylike("choice", p)
        if np.shape(p) != (n,):
            raise ValueError(f"random.choice needs a probability for each of the {n} elements, got shape {np.shape(p)}.")
        d = dtypes.to_inexact(dtypes.operand_type(unwrap(p))[0])
        p = as_type(unwrap(p), _float_dtype("choice", dtypes.canonicalize_dtype(d)), False)
    return _choice(key, a, p, shape, bool(replace), axis, _mode(mode) if p is not None and not replace else None)


# Transformations of uniform samples


def _mode(mode, modes: Sequence[str] = ("low", "high", "highest")) -> str:
    chosen = mode or ("high" if config.high_dynamic_range_gumbel.value else "low")
    if chosen not in modes:
        raise ValueError(f"the mode of a random function is the precision {' or '.join(map(repr, modes))}, not {mode!r}.")
    return chosen


def _fine_uniform(key, shape, dtype):
    """Return two uniform samples for each position and the step of the first, which the second subdivides."""
    pair = uniform_inline(key, (2, *shape), dtype)
    return row(pair, 0), row(pair, 1), dtype.type(dtypes.finfo(dtype).eps)


def _gumbel_of_64_bits(key, shape):
    """Return Gumbel samples in float32 from uniform samples of 64 bits, whose mantissas are full however small they are.

    The bits are those of the smaller of `u` and `1 - u`; each tail has its formula.
    """
    words = random_bits_of(key, 32, (2, *shape))
    high, low = row(words, 0), row(words, 1)
    zero, ones, width = (constant_like(high, n) for n in (0, 2**32 - 1, 32))
    is_lower = lt(high, constant_like(high, 1 << 31))
    borrow = as_type(eq(low, zero), high.dtype, False)
    high = where(is_lower, high, add(sub(ones, high), borrow))
    low = where(is_lower, low, sub(zero, low))
    zeros, more_zeros = clz_(high), clz_(low)
    has_low_only = eq(zeros, width)
    mantissa = or_(shift_left_(high, zeros), where(
        has_low_only, shift_left_(low, more_zeros), shift_right_logical_(low, sub(width, zeros))))
    exponent = sub(constant_like(high, 126), where(has_low_only, add(width, more_zeros), zeros))
    bits = or_(and_(shift_left_(exponent, constant_like(high, 23)), constant_like(high, 0x3FC00000)),
               and_(shift_right_logical_(mantissa, constant_like(high, 8)), constant_like(high, 0x7FFFFF)))
    u = shapes.bitcast_convert_type_p.bind(bits, new_dtype=np.dtype(np.float32))
    return neg(log_(neg(where(is_lower, log1p_(neg(u)), log_(u)))))


@as_one_row
def gumbel_inline(key, shape, dtype, mode="low"):
    tiny = dtype.type(dtypes.finfo(dtype).tiny)
    if mode == "highest" and dtype == np.float32:
        return _gumbel_of_64_bits(key, shape)
    if mode in ("high", "highest"):
        # Uniform values near 0 determine the upper tail: there the steps of one sample are too coarse.
        coarse, fine, step = _fine_uniform(key, shape, dtype)
        u = where(ge(coarse, constant_like(coarse, 0.5)), coarse, add(add(coarse, mul(step, fine)), max(tiny, step * step / 2)))
        return neg(log_(neg(log1p_(neg(u)))))
    u = uniform_inline(key, shape, dtype, tiny, dtype.type(1))
    return neg(log_(neg(log_(u))))


def _parameterless(name: str, transform, description: str):
    """Make the public sampler of a distribution without parameters from its kernel `transform(key, shape, dtype)`."""
    def kernel(key, shape, dtype):
        return transform(key, shape, dtype)

    kernel.__name__ = name
    compiled = library(kernel, static=("shape", "dtype"))

    def function(key: ArrayLike, shape: Sequence[int] = (), dtype: DTypeLike | None = None, *,
                 out_sharding: ShardingLike = None) -> Array:
        key = single_key(name, key)
        return with_sharding(compiled(key, _static_shape(name, shape), _float_dtype(name, dtype)), out_sharding)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"Sample from the {description}.\n\nArgs:\n    key: PRNG key.\n    shape: Shape of the result.\n"
        "    dtype: Floating dtype of the result. Default: the default float dtype.\n"
        "    out_sharding: Sharding of the result over explicit mesh axes.\n\nReturns:\n    Array of samples.\n\n"
        f"Example:\n    >>> random.{name}(random.key(0), (2, 3)).shape\n    (2, 3)\n")
    return library(accepts(anything=True)(function), static=("shape", "dtype"))


@as_one_row
def exponential_inline(key, shape, dtype):
    return neg(log1p_(neg(uniform_inline(key, shape, dtype))))


@as_one_row
def _laplace(key, shape, dtype):
    low = -1.0 + float(dtypes.finfo(dtype).epsneg)
    u = uniform_inline(key, shape, dtype, dtype.type(low), dtype.type(1))
    return mul(sign_(u), log1p_(neg(abs_(u))))


@as_one_row
def _cauchy(key, shape, dtype):
    u = uniform_inline(key, shape, dtype, dtype.type(dtypes.finfo(dtype).eps), dtype.type(1))
    return tan_(mul(dtype.type(np.pi), sub(u, dtype.type(0.5))))


@as_one_row
def _logistic(key, shape, dtype):
    u = uniform_inline(key, shape, dtype, dtype.type(dtypes.finfo(dtype).tiny), dtype.type(1))
    return sub(log_(u), log1p_(neg(u)))


exponential = _parameterless("exponential", exponential_inline, "exponential distribution with mean 1")
laplace = _parameterless("laplace", _laplace, "Laplace distribution with mean 0 and scale 1")
cauchy = _parameterless("cauchy", _cauchy, "Cauchy distribution with median 0 and scale 1")
logistic = _parameterless("logistic", _logistic, "logistic distribution with mean 0 and scale 1")


@library(static=("shape", "dtype", "mode"), name="gumbel")
def _gumbel(key, shape, dtype, mode):
    return gumbel_inline(key, shape, dtype, mode)


@library(static=("shape", "dtype", "mode"))
@accepts(anything=True)
def gumbel(key: ArrayLike, shape: Sequence[int] = (), dtype: DTypeLike | None = None, mode: str | None = None, *,
           out_sharding: ShardingLike = None) -> Array:
    """Sample from the Gumbel distribution with location 0 and scale 1.

    Args:
        key: PRNG key.
        shape: Shape of the result.
        dtype: Floating dtype of the result. Default: the default float dtype.
        mode: "low", "high" for an upper tail that reaches twice as far, or "highest" for 64 random bits in both tails (in
            float32). Default: the setting `high_dynamic_range_gumbel`.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        Array of samples.

    Example:
        >>> random.gumbel(random.key(0), (2, 3)).shape
        (2, 3)
    """
    key = single_key("gumbel", key)
    return with_sharding(_gumbel(key, _static_shape("gumbel", shape), _float_dtype("gumbel", dtype), _mode(mode)),
                  out_sharding)


# Discrete


@library(static=("shape", "mode"), name="bernoulli")
def _bernoulli(key, p, shape, mode):
    d = tracing.aval_of(p).dtype
    p = _broadcast(p, shape, d)
    if mode == "high":
        coarse, fine, step = _fine_uniform(key, shape, d)
        return lt(mul(fine, step), sub(p, coarse))
    return lt(uniform_inline(key, shape, d), p)


@library(static=("shape", "mode"))
@accepts(anything=True)
def bernoulli(key: ArrayLike, p: ArrayLike = 0.5, shape: Sequence[int] | None = None, mode: str | None = "low", *,
              out_sharding: ShardingLike = None) -> Array:
    """Sample booleans that are True with probability `p`.

    Args:
        key: PRNG key.
        p: Probability of True.
        shape: Shape of the result, to which `p` must broadcast. Default: the shape of `p`.
        mode: "low" resolves `p` to about 1e-7 (in float32), "high" to about 1e-14.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        Boolean array.

    Example:
        >>> random.bernoulli(random.key(0), xnp.array([0.0, 1.0]))
        Array([False,  True], dtype=bool)
    """
    key = single_key("bernoulli", key)
    check_arraylike("bernoulli", p)
    p = unwrap(p)
    d = dtypes.canonicalize_dtype(dtypes.operand_type(p)[0])
    if not dtypes.is_float(d):
        raise TypeError(f"random.bernoulli needs a probability of a floating dtype, got {d}.")
    samples = _bernoulli(key, as_type(p, d, False), _sample_shape("bernoulli", shape, p), _mode(mode, ("low", "high")))
    return with_sharding(samples, out_sharding)


@library(static=("shape", "dtype"), name="rademacher")
def _rademacher(key, shape, dtype):
    d = dtypes.default_dtype(float)
    heads = lt(uniform_inline(key, shape, d), d.type(0.5))
    one, minus = np.array([1, -1]).astype(dtype)
    return where(heads, one, minus)


@library(static=("shape", "dtype"))
@accepts(anything=True)
def rademacher(key: ArrayLike, shape: Sequence[int] = (), dtype: DTypeLike | None = None, *,
               out_sharding: ShardingLike = None) -> Array:
    """Sample 1 or -1, each with probability 1/2.

    Args:
        key: PRNG key.
        shape: Shape of the result.
        dtype: dtype of the result. Default: the default integer dtype.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        Array of samples.

    Example:
        >>> abs(random.rademacher(random.key(0), (3,)))
        Array([1, 1, 1], dtype=int32)
    """
    key = single_key("rademacher", key)
    d = dtypes.default_dtype(int) if dtype is None else dtypes.check_user_dtype(dtype, "random.rademacher")
    return with_sharding(_rademacher(key, _static_shape("rademacher", shape), d), out_sharding)


@library(static=("axis", "shape", "replace", "mode"), name="categorical")
def _categorical(key, logits, axis, shape, replace, mode):
    d = tracing.aval_of(logits).dtype
    logits_shape = np.shape(logits)
    batch = tuple(n for i, n in enumerate(logits_shape) if i != axis)
    prefix = shape[:len(shape) - len(batch)]
    if replace:
        position = axis + len(prefix)
        noise_shape = (*shape[:position], logits_shape[axis], *shape[position:])
        noise = gumbel_inline(key, noise_shape, d, mode)
        if noise_shape != logits_shape:
            logits = shapes.broadcast_in_dim(logits, noise_shape, range(len(prefix), len(noise_shape)))
        return argmax(add(noise, logits), position, dtypes.default_dtype(int))
    noise = gumbel_inline(key, logits_shape, d, mode)
    count = math.prod(prefix)
    index = top_k(add(noise, logits), count, axis=axis)[1]
    index = shapes.move_dim(index, axis, 0)
    return shapes.reshape_to(index, shape)


def categorical(key: ArrayLike, logits: ArrayLike, axis: int = -1, shape: Sequence[int] | None = None, replace: bool = True,
                mode: str | None = None, *, out_sharding: ShardingLike = None) -> Array:
    """Sample class indices from categorical distributions.

    Args:
        key: PRNG key.
        logits: Unnormalized log probabilities of the classes.
        axis: Axis of `logits` that enumerates the classes.
        shape: Shape of the result. It must end with the shape of `logits` without `axis`, or, with replacement, with one that
            this broadcasts to. Default: the shape of `logits` without `axis`.
        replace: If True, a class may be sampled more than once. If False, the samples along the leading dimensions of `shape`
            differ.
        mode: Precision of the Gumbel noise that selects classes, "low", "high" or "highest" (see `gumbel`).
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        Integer array of class indices.

    Example:
        >>> random.categorical(random.key(0), xnp.array([-np.inf, 0.0]))
        Array(1, dtype=int32)
    """
    key = single_key("categorical", key)
    logits = unwrap(logits)
    check_arraylike("categorical", logits)
    if isinstance(axis, (bool, np.bool_)):
        raise ValueError(f"random.categorical needs an integer axis, got the boolean {axis}.")
    if isinstance(axis, (str, float, complex, type(None))):
        raise IndexError(f"random.categorical needs an integer axis, got {axis!r}.")
    axis = shapes.canonical_axis(axis, np.ndim(logits), "random.categorical")
    d = _float_dtype("categorical", dtypes.operand_type(logits)[0])
    logits = as_type(logits, d, False) if dtypes.operand_type(logits) != (d, False) else logits
    batch = tuple(n for i, n in enumerate(np.shape(logits)) if i != axis)
    shape = batch if shape is None else _static_shape("categorical", shape)
    suffix = shape[len(shape) - len(batch):]
    if len(shape) < len(batch) or not all([n == m or replace and n == 1 for n, m in zip(batch, suffix)]):
        raise ValueError(f"random.categorical got shape {shape}, which must end with the shape of the logits without axis "
                         f"{axis}, {batch}{', or with one that it broadcasts to' if replace else ''}.")
    if not replace and math.prod(shape[:len(shape) - len(batch)]) > np.shape(logits)[axis]:
        raise ValueError(f"random.categorical without replacement can sample at most {np.shape(logits)[axis]} classes.")
    return with_sharding(_categorical(key, logits, axis, shape, bool(replace), _mode(mode)), out_sharding)

