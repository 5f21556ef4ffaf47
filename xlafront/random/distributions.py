"""Random numbers of many distributions, from bits.

Each public function checks its arguments and calls a kernel; kernels call each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xlafront.core import dtypes, errors, tracing
from xlafront.core.dimensions import common_shape, is_symbolic_dim
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
    complex_,
    constant_like,
    div,
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
    shift_right_logical_,
    sign_,
    sub,
    tan_,
    where,
)
from xlafront.lax.largest import top_k
from xlafront.lax.reductions import argmax
from xlafront.lax.resharding import with_out_sharding
from xlafront.lax.sorting import sort_key_val
from xlafront.numpy.creation import arange, asarray, zeros
from xlafront.numpy.indexing import take_inline
from xlafront.numpy.promotion import check_arraylike, unwrap
from xlafront.numpy.reductions import cumsum
from xlafront.numpy.searching import searchsorted
from xlafront.random.called_draws import in_one_row
from xlafront.random.primitives import draw_bits, row, split
from xlafront.random.prng import placed, single_key
from xlafront.runtime import config
from xlafront.staging.library import library, written_once


def _float_dtype(name: str, dtype, complex_too: bool = False):
    d = dtypes.default_dtype(float) if dtype is None else dtypes.check_user_dtype(dtype, f"random.{name}")
    if not (dtypes.is_float(d) or complex_too and dtypes.is_complex(d)):
        raise ValueError(f"random.{name} makes numbers of a floating dtype, got {d}.")
    return d


def _static_shape(name: str, shape) -> tuple[int, ...]:
    shape = shapes.static_shape(f"random.{name}", shape)
    if any([not is_symbolic_dim(n) and n < 0 for n in shape]):
        raise TypeError(f"random.{name} needs a shape of nonnegative sizes, got {shape}.")
    return shape


def _sample_shape(name: str, shape, *params, error: type[Exception] = ValueError) -> tuple[int, ...]:
    """The shape asked for, which the parameters must broadcast to; theirs without one."""
    of_params = [np.shape(p) for p in params]
    if shape is None:
        return common_shape(*of_params)
    shape = _static_shape(name, shape)
    if not any(of_params):  # Hot: numbers.
        return shape
    try:
        fits = common_shape(shape, *of_params) == shape
    except ValueError:
        fits = False
    if not fits:
        given = ", ".join([str(sizes) for sizes in of_params if sizes])
        raise error(f"random.{name} was asked for shape {shape}, which its parameters, of shape {given}, do not broadcast to.")
    return shape


def check_parameters(name: str, dtype, *params) -> None:
    """Parameters of a wider floating dtype than that of the samples are refused, rather than rounded."""
    check_arraylike(name, *params)
    for p in params:
        d, weak = dtypes.operand_type(unwrap(p))
        if not weak and dtypes.is_float(d) and dtypes.promote_types(dtypes.canonicalize_dtype(d), dtype) != dtype:
            raise dtypes.TypePromotionError(f"random.{name} cannot safely cast a parameter of dtype {d} to the dtype of the "
                                            f"samples, {dtype}: convert it, or ask for another dtype.")


def _broadcast(x, shape, dtype):
    """A parameter at the dtype and shape of the samples; scalars stay scalars."""
    x = as_type(unwrap(x), dtype, False)
    own = np.shape(x)
    if not own or own == shape:
        return x
    return shapes.broadcast_in_dim(x, shape, range(len(shape) - len(own), len(shape)))


# Uniform


@in_one_row
def uniform_inline(key, shape, dtype, low=0.0, high=1.0):
    """Random mantissas under the exponent of 1 are uniform on [1, 2)."""
    info = dtypes.finfo(dtype)
    width, mantissa = 8 * dtype.itemsize, info.nmant
    drawn = width if mantissa >= 8 else 8
    bits = draw_bits(key, drawn, shape)
    unsigned = np.dtype(f"uint{width}")
    bits = as_type(bits, unsigned, False)
    one = np.ones((), dtype).view(unsigned)[()]
    bits = or_(shift_right_logical_(bits, unsigned.type(drawn - mantissa)), one)
    floats = sub(shapes.bitcast_convert_type_p.bind(bits, new_dtype=dtype), dtype.type(1))
    if type(low) is float and type(high) is float and (low, high) == (0.0, 1.0):
        return floats
    low, high = _broadcast(low, shape, dtype), _broadcast(high, shape, dtype)
    width_of = dtype.type(high - low) if isinstance(low, np.generic) and isinstance(high, np.generic) else (
        sub(high, low))
    scaled = add(mul(floats, width_of), low)
    return max_(low, scaled)


@library(static=("shape", "dtype"), name="uniform")
def _uniform(key, minval, maxval, shape, dtype):
    return uniform_inline(key, shape, dtype, minval, maxval)


@library(static=("shape", "dtype"), name="uniform")
def _standard_uniform(key, shape, dtype):
    return uniform_inline(key, shape, dtype)


def _without_leading_ones(bound, rank: int):
    """A bound with no more dimensions than this, where all others are of size 1; else as it is."""
    sizes = np.shape(bound)
    excess = len(sizes) - rank
    return bound if any(n != 1 for n in sizes[:excess]) else shapes.reshape(bound, sizes[excess:])


@written_once(static=("shape", "dtype"))
def uniform(key: ArrayLike, shape: Sequence[int] = (), dtype: DTypeLike | None = None, minval: ArrayLike = 0.0,
            maxval: ArrayLike = 1.0, *, out_sharding: ShardingLike = None) -> Array:
    """Random numbers between bounds, all alike.

    - `key`, `shape`, `dtype`, `out_sharding`: as of `normal`; the dtype is real.
    - `minval`, `maxval`: the least, and what they stay below; they broadcast to `shape`, for which `maxval`, and of a single
      sample both, may have more dimensions of size 1.

    >>> random.uniform(random.key(0), (2, 3)).shape
    (2, 3)
    """
    key = single_key("uniform", key)
    d = _float_dtype("uniform", dtype)
    shape = _static_shape("uniform", shape)
    if type(minval) is float and type(maxval) is float and (minval, maxval) == (0.0, 1.0):
        return placed(_standard_uniform(key, shape, d), out_sharding)
    found: tuple[int, ...] = shape
    error: type[Exception] = TypeError
    if type(maxval) is not float and np.ndim(maxval) > len(shape):
        error = ValueError
        maxval = _without_leading_ones(maxval, len(shape))
    if type(minval) is not float and not shape and np.ndim(minval):  # the sample has the dimensions of the least then
        error = ValueError
        found, minval = np.shape(minval), _without_leading_ones(minval, 0)
    _sample_shape("uniform", shape, minval, maxval, error=error)
    sample = _uniform(key, minval, maxval, shape, d)
    return placed(sample if found == shape else shapes.reshape(sample, found), out_sharding)


# Normal


@in_one_row
def normal_inline(key, shape, dtype):
    """The inverse of the distribution function, of numbers uniform on (-1, 1)."""
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


@written_once(static=("shape", "dtype"))
def normal(key: ArrayLike, shape: Sequence[int] = (), dtype: DTypeLike | None = None, *,
           out_sharding: ShardingLike = None) -> Array:
    """Samples of the normal distribution with mean 0 and variance 1; of complex ones both parts have variance 1/2.

    - `key`: a random key.
    - `shape`: of the samples.
    - `dtype`: a floating or complex one; the default float when left out.
    - `out_sharding`: how the samples are split over explicit mesh axes.

    >>> random.normal(random.key(0), (2, 3)).shape
    (2, 3)
    """
    key = single_key("normal", key)
    return placed(_normal(key, _static_shape("normal", shape), _float_dtype("normal", dtype, True)), out_sharding)


@library(static=("shape", "dtype"), name="truncated_normal")
def _truncated_normal(key, lower, upper, shape, dtype):
    lower, upper = _broadcast(lower, shape, dtype), _broadcast(upper, shape, dtype)
    root = dtype.type(np.sqrt(2))
    a, b = (erf_(div(x, root)) for x in (lower, upper))
    u = uniform_inline(key, shape, dtype, a, b)
    result = mul(root, erf_inv_(u))
    # Rounding may land on the bounds, which have probability 0 (and a step of rounding has no derivative).
    inside = (nextafter_(stop_gradient(x), dtype.type(s * np.inf)) for x, s in ((lower, 1), (upper, -1)))
    least, most = (_full(x, shape) for x in inside)
    return min_(max_(result, least), most)


def _full(x, shape):
    return x if np.shape(x) == shape else shapes.broadcast_in_dim(x, shape, ())


@written_once(static=("shape", "dtype"))
def truncated_normal(key: ArrayLike, lower: ArrayLike, upper: ArrayLike, shape: Sequence[int] | None = None,
                     dtype: DTypeLike | None = None, *, out_sharding: ShardingLike = None) -> Array:
    """Samples of the standard normal distribution that lie between bounds.

    - `key`, `dtype`, `out_sharding`: as of `normal`; the dtype is real.
    - `lower`, `upper`: the bounds.
    - `shape`: of the samples, which the bounds broadcast to; theirs where it is not given.

    >>> random.truncated_normal(random.key(0), -2.0, 2.0, (2, 3)).shape
    (2, 3)
    """
    key = single_key("truncated_normal", key)
    d = _float_dtype("truncated_normal", dtype)
    shape = _sample_shape("truncated_normal", shape, lower, upper)
    return placed(_truncated_normal(key, lower, upper, shape, d), out_sharding)


# Integers


def randint_inline(key, shape, low, high, dtype):
    """A double-width random integer modulo the span, so that the bias is negligible."""
    info = dtypes.iinfo(dtype)
    if dtypes.itemsize_bits(dtype) < 32:  # a short integer modulo the span would be far from uniform
        low = _clamped(as_type(low, dtypes.int32, False), info.min, info.max)
        high = _clamped(as_type(high, dtypes.int32, False), info.min, info.max + 1)
        return as_type(randint_inline(key, shape, low, high, dtypes.int32), dtype, False)
    width = 8 * dtype.itemsize
    unsigned = np.dtype(f"uint{width}")
    above = dtypes.iinfo(tracing.aval_of(high).dtype).max > info.max
    beyond = gt(high, constant_like(high, info.max)) if above else None
    low, high = (as_type(_clamped(x, info.min, info.max), dtype, False) for x in (low, high))
    upper, lower = (draw_bits(half, width, shape) for half in split(key, 2))
    low, high = _broadcast(low, shape, dtype), _broadcast(high, shape, dtype)
    one = unsigned.type(1)
    span = where(le(high, low), one, as_type(sub(high, low), unsigned, False))
    if beyond is not None:  # a maximum one above the largest number: the span has one more element
        beyond = _broadcast_flag(beyond, shape)
        span = where(and_(beyond, gt(high, low)), add(span, one), span)
    rem = PRIMITIVES["rem"].bind
    half = unsigned.type(1 << (width // 2))
    multiplier = rem(half, span)
    multiplier = rem(mul(multiplier, multiplier), span)
    offset = add(mul(rem(upper, _full(span, shape)), multiplier), rem(lower, _full(span, shape)))
    offset = rem(offset, _full(span, shape))
    return add(low, as_type(offset, dtype, False))


def _broadcast_flag(flag, shape):
    own = np.shape(flag)
    return flag if own == shape or not own else shapes.broadcast_in_dim(flag, shape, range(len(shape) - len(own), len(shape)))


def _clamped(x, low: int, high: int):
    """An array of integers within limits, as far as its dtype can hold more."""
    own = dtypes.iinfo(tracing.aval_of(x).dtype)
    if low > own.min:
        x = max_(x, constant_like(x, low))
    return min_(x, constant_like(x, high)) if high < own.max else x


@library(static=("shape", "dtype"), name="randint")
def _randint(key, minval, maxval, shape, dtype):
    return randint_inline(key, shape, _whole(minval, dtype), _whole(maxval, dtype), dtype)


def _whole(x, dtype):
    """A bound as an array of integers: the fraction of a float is dropped."""
    d = tracing.aval_of(x).dtype
    if dtypes.is_integer(d):
        return x
    x = asarray(x)  # Python's own conversion would refuse infinities
    wide = dtypes.int32 if dtypes.itemsize_bits(dtype) < 32 else dtypes.default_dtype(int)
    return as_type(real_(x) if dtypes.is_complex(d) else x, wide, False)


def randint(key: ArrayLike, shape: Sequence[int], minval: ArrayLike, maxval: ArrayLike, dtype: DTypeLike | None = None, *,
            out_sharding: ShardingLike = None) -> Array:
    """Random integers between bounds, all alike.

    - `key`: a random key.
    - `shape`: of the samples.
    - `minval`, `maxval`: the least, and the one after the greatest; they broadcast to `shape`, and lose their fraction.
    - `dtype`: an integer one; the default when left out.
    - `out_sharding`: how the samples are split over explicit mesh axes.

    >>> random.randint(random.key(0), (3,), 5, 6)
    Array([5, 5, 5], dtype=int32)
    """
    key = single_key("randint", key)
    d = dtypes.default_dtype(int) if dtype is None else dtypes.check_user_dtype(dtype, "random.randint")
    if not dtypes.is_integer(d):
        raise TypeError(f"random.randint makes integers, got dtype {d}.")
    check_arraylike("randint", minval, maxval)
    for bound in (minval, maxval):
        if type(bound) is int:
            dtypes.check_int_fits(bound, dtypes.default_dtype(int))
    if shape is None:
        raise TypeError("random.randint needs a shape, got None.")
    shape = _sample_shape("randint", shape, minval, maxval)
    return placed(_randint(key, minval, maxval, shape, d), out_sharding)


# Order


def _rounds(n: int) -> int:
    """Sorting by random 32-bit numbers so often that equal ones do not matter."""
    if is_symbolic_dim(n):
        raise NotImplementedError(f"permutations of '{n}' elements, a size that is not known while tracing, are not drawn: how "
                                  f"often they are shuffled depends on it. Sort by random.bits of the array's shape.")
    return math.ceil(3 * math.log(max(1, n)) / math.log(2**32 - 1))


def shuffle_inline(key, x, axis):
    for _ in range(_rounds(np.size(x))):
        key, of_order = split(key, 2)
        order = draw_bits(of_order, 32, np.shape(x))
        x = sort_key_val(order, x, axis)[1]
    return x


def _permuted_range(key, n: int, dtype):
    return shuffle_inline(key, iota(dtype, n), 0)


def _count(name: str, x) -> int:
    """The number of integers below the one given in place of an array."""
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


def permutation(key: ArrayLike, x: ArrayLike, axis: int = 0, independent: bool = False, *,
                out_sharding: ShardingLike = None) -> Array:
    """An array with its slices along an axis in random order.

    - `key`: a random key.
    - `x`: the array, or the number of integers from 0 on.
    - `axis`: the dimension along which slices lie.
    - `independent`: shuffle each vector along the axis by itself.
    - `out_sharding`: how the result is split over explicit mesh axes.

    >>> xnp.sort(random.permutation(random.key(0), 4))
    Array([0, 1, 2, 3], dtype=int32)
    """
    key = single_key("permutation", key)
    if not np.ndim(x):
        shapes.canonical_axis(axis, 1, "random.permutation")
        return placed(_permutation_of_range(key, _count("permutation", x), dtypes.default_dtype(int)), out_sharding)
    check_arraylike("permutation", x)
    axis = shapes.canonical_axis(axis, np.ndim(x), "random.permutation")
    return with_out_sharding("random.permutation", out_sharding, _permutation, (key, x), axis, bool(independent))


@library(static=("shape", "replace", "axis", "mode"), name="choice")
def _choice(key, a, p, shape, replace, axis, mode):
    n = np.shape(a)[axis]
    draws = math.prod(shape)
    if p is None and replace:
        index = randint_inline(key, shape, 0, n, dtypes.default_dtype(int))
    elif p is None:
        index = _slice_first(_permuted_range(key, n, dtypes.int32), draws)
    elif replace:
        total = cumsum(p)
        d = tracing.aval_of(p).dtype
        last = row(total, n - 1)
        drawn = mul(sub(d.type(1), uniform_inline(key, shape, d)), last)
        index = searchsorted(total, drawn)
    else:
        noise = gumbel_inline(key, (n,), tracing.aval_of(p).dtype, mode)
        index = top_k(add(noise, log_(p)), draws, axis=0)[1]
    return take_inline(a, shapes.reshape_to(index, shape), axis)


def _slice_first(x, count):
    return slicing.slice(x, (0,), (count,))


def choice(key: ArrayLike, a: ArrayLike, shape: Sequence[int] = (), replace: bool = True, p: ArrayLike | None = None,
           axis: int = 0, mode: str | None = None) -> Array:
    """Random elements of an array.

    - `key`: a random key.
    - `a`: the array, or the number of integers from 0 on.
    - `shape`: how many.
    - `replace`: whether an element can be drawn again.
    - `p`: the probability of each; divided by their sum, unlike in NumPy. All are alike when left out.
    - `axis`: the dimension along which elements lie.
    - `mode`: as of `gumbel`; used with `p` and without `replace`.

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
        raise ValueError("random.choice cannot draw from an empty array.")
    if not replace and math.prod(shape) > n:
        raise ValueError(f"random.choice without replacement can draw at most {n} elements, {math.prod(shape)} were "
                         f"asked for.")
    if not math.prod(shape):
        return zeros(shape, tracing.aval_of(a).dtype)
    if p is not None:
        check_arraylike("choice", p)
        if np.shape(p) != (n,):
            raise ValueError(f"random.choice needs a probability for each of the {n} elements, got shape {np.shape(p)}.")
        d = dtypes.to_inexact(dtypes.operand_type(unwrap(p))[0])
        p = as_type(unwrap(p), dtypes.canonicalize_dtype(d), False)
    return _choice(key, a, p, shape, bool(replace), axis, _mode(mode) if p is not None and not replace else None)


# From uniform numbers


def _mode(mode) -> str:
    chosen = mode or ("high" if config.high_dynamic_range_gumbel.value else "low")
    if chosen not in ("low", "high"):
        raise ValueError(f"the mode of a random function is 'low' or 'high' precision, not {mode!r}.")
    return chosen


def _fine_uniform(key, shape, dtype):
    """Two uniform numbers for each place: the second subdivides the steps of the first. And the size of a step."""
    pair = uniform_inline(key, (2, *shape), dtype)
    return row(pair, 0), row(pair, 1), dtype.type(dtypes.finfo(dtype).eps)


@in_one_row
def gumbel_inline(key, shape, dtype, mode="low"):
    tiny = dtype.type(dtypes.finfo(dtype).tiny)
    if mode == "high":  # numbers near 0 decide about the upper tail: there the steps of one draw are too large
        coarse, fine, step = _fine_uniform(key, shape, dtype)
        u = where(ge(coarse, constant_like(coarse, 0.5)), coarse, add(add(coarse, mul(step, fine)), tiny))
        return neg(log_(neg(log1p_(neg(u)))))
    u = uniform_inline(key, shape, dtype, tiny, dtype.type(1))
    return neg(log_(neg(log_(u))))


def _transformed(name: str, transform, words: str):
    """A distribution without parameters: a function of key, shape and dtype."""
    def kernel(key, shape, dtype):
        return transform(key, shape, dtype)

    kernel.__name__ = name
    compiled = library(kernel, static=("shape", "dtype"))

    def function(key: ArrayLike, shape: Sequence[int] = (), dtype: DTypeLike | None = None, *,
                 out_sharding: ShardingLike = None) -> Array:
        key = single_key(name, key)
        return placed(compiled(key, _static_shape(name, shape), _float_dtype(name, dtype)), out_sharding)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"Samples of the {words}.\n\n- `key`, `shape`, `dtype`, `out_sharding`: as of `normal`; the dtype is real.\n\n"
        f">>> random.{name}(random.key(0), (2, 3)).shape\n(2, 3)")
    return written_once(function, static=("shape", "dtype"))


@in_one_row
def exponential_inline(key, shape, dtype):
    return neg(log1p_(neg(uniform_inline(key, shape, dtype))))


@in_one_row
def _laplace(key, shape, dtype):
    low = -1.0 + float(dtypes.finfo(dtype).epsneg)
    u = uniform_inline(key, shape, dtype, dtype.type(low), dtype.type(1))
    return mul(sign_(u), log1p_(neg(abs_(u))))


@in_one_row
def _cauchy(key, shape, dtype):
    u = uniform_inline(key, shape, dtype, dtype.type(dtypes.finfo(dtype).eps), dtype.type(1))
    return tan_(mul(dtype.type(np.pi), sub(u, dtype.type(0.5))))


@in_one_row
def _logistic(key, shape, dtype):
    u = uniform_inline(key, shape, dtype, dtype.type(dtypes.finfo(dtype).tiny), dtype.type(1))
    return sub(log_(u), log1p_(neg(u)))


exponential = _transformed("exponential", exponential_inline, "exponential distribution with mean 1")
laplace = _transformed("laplace", _laplace, "Laplace distribution with mean 0 and scale 1")
cauchy = _transformed("cauchy", _cauchy, "Cauchy distribution with median 0 and scale 1")
logistic = _transformed("logistic", _logistic, "logistic distribution with mean 0 and scale 1")


@library(static=("shape", "dtype", "mode"), name="gumbel")
def _gumbel(key, shape, dtype, mode):
    return gumbel_inline(key, shape, dtype, mode)


@written_once(static=("shape", "dtype", "mode"))
def gumbel(key: ArrayLike, shape: Sequence[int] = (), dtype: DTypeLike | None = None, mode: str | None = None, *,
           out_sharding: ShardingLike = None) -> Array:
    """Samples of the Gumbel distribution, that of the maximum of many exponential numbers.

    - `key`, `shape`, `dtype`, `out_sharding`: as of `normal`; the dtype is real.
    - `mode`: "low", or "high" for an upper tail that goes twice as far; None: as the setting `high_dynamic_range_gumbel` says.

    >>> random.gumbel(random.key(0), (2, 3)).shape
    (2, 3)
    """
    key = single_key("gumbel", key)
    return placed(_gumbel(key, _static_shape("gumbel", shape), _float_dtype("gumbel", dtype), _mode(mode)),
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


@written_once(static=("shape", "mode"))
def bernoulli(key: ArrayLike, p: ArrayLike = 0.5, shape: Sequence[int] | None = None, mode: str | None = "low", *,
              out_sharding: ShardingLike = None) -> Array:
    """True or False at random.

    - `key`: a random key.
    - `p`: the probability of True.
    - `shape`: of the samples, which `p` broadcasts to; its own where it is not given.
    - `mode`: "low" resolves `p` to about 1e-7 (in float32), "high" to 1e-14.
    - `out_sharding`: how the samples are split over explicit mesh axes.

    >>> random.bernoulli(random.key(0), xnp.array([0.0, 1.0]))
    Array([False,  True], dtype=bool)
    """
    key = single_key("bernoulli", key)
    check_arraylike("bernoulli", p)
    p = unwrap(p)
    d = dtypes.canonicalize_dtype(dtypes.operand_type(p)[0])
    if not dtypes.is_float(d):
        raise TypeError(f"random.bernoulli needs a probability of a floating dtype, got {d}.")
    return placed(_bernoulli(key, as_type(p, d, False), _sample_shape("bernoulli", shape, p), _mode(mode)),
                  out_sharding)


@library(static=("shape", "dtype"), name="rademacher")
def _rademacher(key, shape, dtype):
    d = dtypes.default_dtype(float)
    heads = lt(uniform_inline(key, shape, d), d.type(0.5))
    one, minus = np.array([1, -1]).astype(dtype)
    return where(heads, one, minus)


@written_once(static=("shape", "dtype"))
def rademacher(key: ArrayLike, shape: Sequence[int] = (), dtype: DTypeLike | None = None, *,
               out_sharding: ShardingLike = None) -> Array:
    """1 or -1, each with probability 1/2.

    - `key`, `shape`, `out_sharding`: as of `normal`.
    - `dtype`: of numbers; the default integer when left out.

    >>> abs(random.rademacher(random.key(0), (3,)))
    Array([1, 1, 1], dtype=int32)
    """
    key = single_key("rademacher", key)
    d = dtypes.default_dtype(int) if dtype is None else dtypes.check_user_dtype(dtype, "random.rademacher")
    return placed(_rademacher(key, _static_shape("rademacher", shape), d), out_sharding)


@library(static=("axis", "shape", "replace", "mode"), name="categorical")
def _categorical(key, logits, axis, shape, replace, mode):
    d = tracing.aval_of(logits).dtype
    own = np.shape(logits)
    batch = tuple(n for i, n in enumerate(own) if i != axis)
    prefix = shape[:len(shape) - len(batch)]
    if replace:
        position = axis + len(prefix)
        drawn = (*shape[:position], own[axis], *shape[position:])
        noise = gumbel_inline(key, drawn, d, mode)
        if drawn != own:
            logits = shapes.broadcast_in_dim(logits, drawn, range(len(prefix), len(drawn)))
        return argmax(add(noise, logits), position, dtypes.default_dtype(int))
    noise = gumbel_inline(key, own, d, mode)
    count = math.prod(prefix)
    found = top_k(add(noise, logits), count, axis=axis)[1]
    found = shapes.move_dim(found, axis, 0)
    return shapes.reshape_to(found, shape)


def categorical(key: ArrayLike, logits: ArrayLike, axis: int = -1, shape: Sequence[int] | None = None, replace: bool = True,
                mode: str | None = None, *, out_sharding: ShardingLike = None) -> Array:
    """Numbers of classes, drawn at random with given probabilities.

    - `key`: a random key.
    - `logits`: the logarithms of the probabilities, up to a constant.
    - `axis`: the dimension of `logits` that counts the classes.
    - `shape`: of the samples; it must end with that of the other dimensions of `logits`, or one that these broadcast to.
    - `replace`: whether a class can be drawn again; if not, those of the leading dimensions of `shape` differ.
    - `mode`: as of `gumbel`, by whose samples classes are drawn.
    - `out_sharding`: how the samples are split over explicit mesh axes.

    >>> random.categorical(random.key(0), xnp.array([-np.inf, 0.0]))
    Array(1, dtype=int32)
    """
    key = single_key("categorical", key)
    logits = unwrap(logits)
    check_arraylike("categorical", logits)
    if isinstance(axis, (bool, np.bool_)):
        raise ValueError(f"random.categorical needs a number as axis, got {axis}.")
    if isinstance(axis, (str, float, complex, type(None))):
        raise IndexError(f"random.categorical needs an integer axis, got {axis!r}.")
    axis = shapes.canonical_axis(axis, np.ndim(logits), "random.categorical")
    d = _float_dtype("categorical", dtypes.operand_type(logits)[0])
    logits = as_type(logits, d, False) if dtypes.operand_type(logits) != (d, False) else logits
    batch = tuple(n for i, n in enumerate(np.shape(logits)) if i != axis)
    shape = batch if shape is None else _static_shape("categorical", shape)
    own = shape[len(shape) - len(batch):]
    if len(shape) < len(batch) or not all([n == m or replace and n == 1 for n, m in zip(batch, own)]):
        raise ValueError(f"random.categorical was asked for shape {shape}, which must end with that of the logits without axis "
                         f"{axis}, {batch}{', or with one that it broadcasts to' if replace else ''}.")
    if not replace and math.prod(shape[:len(shape) - len(batch)]) > np.shape(logits)[axis]:
        raise ValueError(f"random.categorical without replacement can draw at most {np.shape(logits)[axis]} classes.")
    return placed(_categorical(key, logits, axis, shape, bool(replace), _mode(mode)), out_sharding)

