"""Functions of simple operations that compute primitives for which a compiler of kernels has no operation.

Each takes the operands and parameters of its primitive. `kernel_equations` traces them for primitives without a rule.
Elementwise functions compute in 32 bits. The polynomials of `erf_inv` are from M. Giles, "Approximating the erfinv function",
GPU Computing Gems (2011); sorting is Batcher's bitonic network.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.control.while_loop import fori_loop
from xlafront.core import dtypes
from xlafront.lax.shapes import place_axis
from xlafront.pallas import custom_fusion, kernel_gathers
from xlafront.pallas.vector_operations import roll_p
from xlafront.random.threefry import cipher
from xlafront.special.log_gamma import bernoulli_numbers
from xlafront.special.traced_primitives import widen_small_floats
from xlafront.transforms.batching.vmap import batch_flat

# Elementwise


def _polynomial(x: Any, coefficients: list[float] | tuple[float, ...]) -> Any:
    """Evaluate a polynomial whose coefficients begin with the highest power."""
    total = xnp.full_like(x, coefficients[0])
    for c in coefficients[1:]:
        total = total * x + c
    return total


def _expm1(x: Any) -> Any:
    near = x * _polynomial(x, [1 / math.factorial(k) for k in range(10, 0, -1)])
    return xnp.where(abs(x) < 0.5, near, xnp.exp(x) - 1)


def _sinh(x: Any) -> Any:
    root = xnp.exp(abs(x) / 2)  # its square may overflow
    far = xnp.sign(x) * (root / 2 * root - 0.5 / root / root)
    near = x * _polynomial(x * x, [1 / math.factorial(k) for k in range(11, 0, -2)])
    return xnp.where(abs(x) < 1, near, far)


def _cosh(x: Any) -> Any:
    root = xnp.exp(abs(x) / 2)
    return root / 2 * root + 0.5 / root / root


def _asinh(x: Any) -> Any:
    size = abs(x)
    inner = xnp.minimum(size, 1e8)
    near = xnp.log1p(inner + inner * inner / (1 + xnp.sqrt(inner * inner + 1)))
    return xnp.where(x == 0, x, xnp.sign(x) * xnp.where(size > 1e8, xnp.log(size) + math.log(2), near))


def _acosh(x: Any) -> Any:
    excess = xnp.minimum(x, 1e8) - 1
    near = xnp.log1p(excess + xnp.sqrt(excess * (excess + 2)))
    return xnp.where(x > 1e8, xnp.log(x) + math.log(2), near)


def _cbrt(x: Any) -> Any:
    is_regular = (abs(x) > 0) & (abs(x) < np.inf)
    size = xnp.where(is_regular, abs(x), 1)
    root = xnp.exp(xnp.log(size) / 3)
    root = root - (root - size / (root * root)) / 3
    return xnp.where(is_regular, xnp.sign(x) * root, x)


def _erfc(x: Any) -> Any:
    """Compute by a continued fraction for large arguments."""
    size = xnp.maximum(abs(x), 1.5)
    coarse = xnp.floor(xnp.minimum(size, 12) * 256) / 256  # its square is exact
    rest = size - coarse
    fraction = size
    for k in range(24, 0, -1):
        fraction = size + k / 2 / fraction
    far = xnp.exp(-coarse * coarse) * xnp.exp(-rest * (size + coarse)) / fraction / math.sqrt(math.pi)
    far = xnp.where(x < 0, 2 - far, far)
    return xnp.where(abs(x) < 1.5, 1 - lax.erf(x), far)


_CENTER = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
           0.246640727, 1.50140941)
_TAIL = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
         1.00167406, 2.83297682)


def _erf_inv(x: Any) -> Any:
    w = -xnp.log1p(-x * x)
    inside = xnp.where(w < 5, _polynomial(w - 2.5, _CENTER), _polynomial(xnp.sqrt(xnp.maximum(w, 5)) - 3, _TAIL))
    return xnp.where(abs(x) == 1, x * np.inf, x * inside)


_STEPS, _TERMS = 4, 5  # of the recurrence up to Stirling's series, and of the series


def _log_gamma(x: Any) -> Any:
    is_reflected = x < 0.5
    z = xnp.where(is_reflected, 1 - x, x)
    near = z < _STEPS
    product = z
    for k in range(1, _STEPS):
        product = product * (z + k)
    w = xnp.where(near, z + _STEPS, z)
    series = _series(w, lambda k: 1 / (2 * k * (2 * k - 1))) * w
    value = (w - 0.5) * (xnp.log(w) - 1) + (math.log(2 * math.pi) - 1) / 2 + series
    value = value - xnp.where(near, xnp.log(xnp.where(near, product, 1)), 0)
    sine = xnp.sin(math.pi * abs(x - xnp.round(x)))
    return xnp.where(is_reflected, math.log(math.pi) - xnp.log(sine) - value, value)


def _digamma(x: Any) -> Any:
    is_reflected = x < 0.5
    z = xnp.where(is_reflected, 1 - x, x)
    near = z < _STEPS
    total = xnp.zeros_like(z)
    for k in range(_STEPS):
        total = total + 1 / (z + k)
    w = xnp.where(near, z + _STEPS, z)
    value = xnp.log(w) - 0.5 / w - _series(w, lambda k: 1 / (2 * k)) - xnp.where(near, total, 0)
    rest = x - xnp.round(x)
    cotangent = xnp.cos(math.pi * rest) / xnp.sin(math.pi * rest)
    value = xnp.where(is_reflected, value - math.pi * xnp.where(is_reflected, cotangent, 0), value)
    return xnp.where(is_reflected & (rest == 0), np.nan, value)


def _series(w: Any, factor: Callable[[int], float]) -> Any:
    """Compute the sum of `B(2k) * factor(k) / w^(2k)` over k."""
    inverse = 1 / (w * w)
    numbers = [float(b) * factor(k) for k, b in enumerate(bernoulli_numbers(_TERMS + 1)[1:], 1)]
    return _polynomial(inverse, numbers[::-1]) * inverse


_ZETA_STEPS = 10  # terms of the sum before the Euler-Maclaurin series


def _zeta(s: Any, q: Any) -> Any:
    """Compute the sum of `(q + k)^-s` over k. Terms of negative bases are those of integers `s`."""
    is_odd = xnp.floor(s / 2) * 2 != s

    def step(_k: Any, state: tuple) -> tuple:
        total, base = state
        return total + _signed_power(base, s, is_odd), base + 1

    total, w = fori_loop(0, _ZETA_STEPS, step, (xnp.zeros_like(s), q))  # (unrolled, compilers of GPUs take seconds)
    power = _signed_power(w, s, is_odd)
    total = total + power * w / (s - 1) + power / 2
    term = power * s / w
    for k, number in enumerate(bernoulli_numbers(_TERMS + 2)[1:], 1):
        total = total + float(number) / math.factorial(2 * k) * term
        term = term * (s + (2 * k - 1)) * (s + 2 * k) / (w * w)
    is_pole = (q <= 0) & (xnp.floor(q) == q)
    is_undefined = (s < 1) | (q <= 0) & (xnp.floor(s) != s) | is_pole & is_odd
    total = xnp.where((s == 1) | is_pole, np.inf, total)
    return xnp.where(is_undefined | (s != s) | (q != q), np.nan, total)


def _signed_power(base: Any, s: Any, is_odd: Any) -> Any:
    power = xnp.exp(-s * xnp.log(abs(base)))
    return xnp.where((base < 0) & is_odd, -power, power)


def _polygamma(n: Any, x: Any) -> Any:
    is_defined = (n >= 0) & (xnp.floor(n) == n)
    order = xnp.where(is_defined & (n > 0), n, 1)
    sign = xnp.where(xnp.floor(order / 2) * 2 == order, -1, 1)
    value = sign * xnp.exp(lax.lgamma(order + 1)) * _zeta(order + 1, x)
    return xnp.where(n == 0, lax.digamma(x), xnp.where(is_defined, value, np.nan))


_SPLIT, _ASYMPTOTIC = 12.0, 10  # from where the Bessel function is its asymptotic series, and its terms


def _scaled_bessel_i1(x: Any) -> Any:
    """Compute `exp(-abs(x)) * I1(x)`."""
    size = abs(x)
    near = xnp.minimum(size, _SPLIT)
    total, quarter = xnp.ones_like(x), near * near / 4
    for k in range(30, 0, -1):
        total = 1 + total * quarter / (k * (k + 1))
    terms = [1.0]
    for k in range(1, _ASYMPTOTIC):
        terms.append(terms[-1] * ((2 * k - 1) ** 2 - 4) / (8 * k))
    far = xnp.maximum(size, _SPLIT)
    series = _polynomial(1 / far, terms[::-1]) / xnp.sqrt(2 * math.pi * far)
    return xnp.sign(x) * xnp.where(size < _SPLIT, near / 2 * xnp.exp(-near) * total, series)


_ELEMENTWISE = {
    "expm1": _expm1, "sinh": _sinh, "cosh": _cosh, "asinh": _asinh, "acosh": _acosh, "cbrt": _cbrt, "erfc": _erfc,
    "erf_inv": _erf_inv, "lgamma": _log_gamma, "digamma": _digamma, "bessel_i1e": _scaled_bessel_i1,
    "zeta": _zeta, "polygamma": _polygamma,
    "atan": lambda x: lax.atan2(x, xnp.ones_like(x)),
    "asin": lambda x: lax.atan2(x, xnp.sqrt((1 - x) * (1 + x))),
    "acos": lambda x: lax.atan2(xnp.sqrt((1 - x) * (1 + x)), x),
    "atanh": lambda x: 0.5 * (xnp.log1p(x) - xnp.log1p(-x)),
}


def _computed_in_32_bits(function: Callable) -> Callable:
    def compute(*operands: Any, **_: Any) -> Any:
        return widen_small_floats(function)(*operands)

    return compute


# Along an axis, by rolls


def _positions(x: Any, axis: int) -> Any:
    return lax.broadcasted_iota(np.int32, x.shape, axis)


def _cumulative(combine: Callable, identity: Callable) -> Callable:
    """Return a cumulative operation: in each step, each element is combined with the one at twice the distance of the last."""
    def compute(x: Any, *, axis: int, reverse: bool) -> Any:
        n, positions, start = x.shape[axis], _positions(x, axis), identity(x.dtype)
        distance = 1
        while distance < n:
            is_beyond = positions >= n - distance if reverse else positions < distance
            shifted = xnp.roll(x, -distance if reverse else distance, axis)
            x = combine(x, xnp.where(is_beyond, start, shifted))
            distance *= 2
        return x

    return compute


def _smallest(dtype: Any) -> Any:
    return np.asarray(-np.inf if dtypes.is_float(dtype) else dtypes.iinfo(dtype).min).astype(dtype)


def _largest(dtype: Any) -> Any:
    return np.asarray(np.inf if dtypes.is_float(dtype) else dtypes.iinfo(dtype).max).astype(dtype)


def _constant(value: float) -> Callable:
    return lambda dtype: np.asarray(value).astype(dtype)


def _is_power_of_two(n: int) -> bool:
    return n > 0 and not n & (n - 1)


def _exchanged(x: Any, axis: int, distance: int, is_upper: Any) -> Any:
    """Return the elements at the positions whose bit `distance` differs. `is_upper` is True where it is set."""
    return xnp.where(is_upper, xnp.roll(x, distance, axis), xnp.roll(x, -distance, axis))


def _reverse(x: Any, *, dimensions: tuple[int, ...]) -> Any:
    """Reverse by exchanging blocks of each power of two."""
    for axis in dimensions:
        n, positions = x.shape[axis], _positions(x, axis)
        if not _is_power_of_two(n):
            x = lax.concatenate([lax.slice_in_dim(x, i, i + 1, axis=axis) for i in reversed(range(n))], axis)
            continue
        distance = n // 2
        while distance:
            x = _exchanged(x, axis, distance, (positions & distance) != 0)
            distance //= 2
    return x


def _product(x: Any, *, axes: tuple[int, ...], out_sharding: Any = None, **_: Any) -> Any:
    for axis in sorted(axes, reverse=True):
        total = _cumulative(lax.mul, _constant(1))(x, axis=axis, reverse=True)
        x = lax.squeeze(lax.slice_in_dim(total, 0, 1, axis=axis), (axis,))
    return x


def _comes_before(left: list, right: list) -> Any:
    """Compare keys in lexicographic order; NaN is last."""
    before = xnp.zeros(left[0].shape, bool)
    equal = xnp.ones(left[0].shape, bool)
    for x, y in zip(left, right):
        less, same = x < y, x == y
        if dtypes.is_float(x.dtype):
            x_is_nan, y_is_nan = x != x, y != y
            less, same = less | (y_is_nan & ~x_is_nan), same | (x_is_nan & y_is_nan)
        before, equal = before | (equal & less), equal & same
    return before


def _sort(*operands: Any, dimension: int, num_keys: int, is_stable: bool = True, **_: Any) -> list[Any]:
    """Sort by a bitonic network, whose last key is the position."""
    n = operands[0].shape[dimension]
    if not _is_power_of_two(n):
        return _sort_padded(operands, dimension, num_keys)
    positions = _positions(operands[0], dimension)
    values = [*operands[:num_keys], positions, *operands[num_keys:]]
    size = 2
    while size <= n:
        distance = size // 2
        while distance:
            is_upper = (positions & distance) != 0
            others = [_exchanged(x, dimension, distance, is_upper) for x in values]
            is_first = _comes_before(values[:num_keys + 1], others[:num_keys + 1])
            is_descending = (positions & size) != 0
            takes_larger = is_upper ^ is_descending
            keeps = is_first ^ takes_larger
            values = [xnp.where(keeps, x, y) for x, y in zip(values, others)]
            distance //= 2
        size *= 2
    return [*values[:num_keys], *values[num_keys + 1:]]


def _sort_padded(operands: tuple, dimension: int, num_keys: int) -> list[Any]:
    """Pad to a power of two with elements that an additional key puts last."""
    n = operands[0].shape[dimension]
    size = 1 << n.bit_length()
    config = [(0, size - n if d == dimension else 0, 0) for d in range(operands[0].ndim)]
    padded = [lax.pad(x.astype(np.int32), np.int32(0), config).astype(bool) if x.dtype == np.bool_ else
              lax.pad(x, np.zeros((), x.dtype), config) for x in operands]
    is_padding = (_positions(padded[0], dimension) >= n).astype(np.int32)
    _, *found = _sort(is_padding, *padded, dimension=dimension, num_keys=num_keys + 1)
    return [lax.slice_in_dim(x, 0, n, axis=dimension) for x in found]


def _top_k(x: Any, *, k: int, axis: int, **_: Any) -> list[Any]:
    positions = _positions(x, axis)
    is_integer = not dtypes.is_float(x.dtype)
    key = ~x if is_integer else -x
    _, values, indices = _sort(key, x, positions, dimension=axis, num_keys=1)
    return [lax.slice_in_dim(v, 0, k, axis=axis) for v in (values, indices)]


# Slices at positions that are known at run time


def _clamped(start: Any, n: int, size: int) -> Any:
    return xnp.minimum(xnp.maximum(start, 0), n - size).astype(np.int32)


def _rolled(x: Any, shift: Any, axis: int) -> Any:
    return roll_p.bind(x, shift, axis=axis, stride=None, stride_axis=None)


def _dynamic_slice(x: Any, *starts: Any, slice_sizes: tuple[int, ...], **_: Any) -> Any:
    """Roll the part to the front."""
    for axis, (start, size) in enumerate(zip(starts, slice_sizes)):
        n = x.shape[axis]
        if size < n:
            start = _clamped(start, n, size)
            x = lax.slice_in_dim(_rolled(x, xnp.where(start > 0, n - start, 0), axis), 0, size, axis=axis)
    return x


def _dynamic_update_slice(x: Any, update: Any, *starts: Any, **_: Any) -> Any:
    """Pad the update, roll it to its position, and select it there."""
    is_inside = xnp.ones(x.shape, bool)
    new = lax.pad(update, np.zeros((), x.dtype), [(0, n - m, 0) for n, m in zip(x.shape, update.shape)])
    for axis, (start, n, size) in enumerate(zip(starts, x.shape, update.shape)):
        if size < n:
            start, positions = _clamped(start, n, size), _positions(x, axis)
            is_inside = is_inside & (positions >= start) & (positions < start + size)
            new = _rolled(new, start, axis)
    return xnp.where(is_inside, new, x)


def _reduce(*operands: Any, jaxpr: Any, dimensions: tuple[int, ...], consts: tuple = (), **_: Any) -> list[Any]:
    """Combine halves until one element remains."""
    count = len(operands) // 2
    arrays, starts = list(operands[:count]), operands[count:]
    combine = _mapped(jaxpr.with_consts(consts), arrays[0].ndim)
    for axis in dimensions:
        n = arrays[0].shape[axis]
        while n > 1:
            half = n // 2
            found = combine(*[lax.slice_in_dim(x, i, i + half, axis=axis) for i in (0, half) for x in arrays])
            if n % 2:
                found = [lax.concatenate([y, lax.slice_in_dim(x, n - 1, n, axis=axis)], axis) for x, y in zip(arrays, found)]
            arrays = found
            n = half + n % 2
    arrays = combine(*[xnp.broadcast_to(start, x.shape) for x, start in zip(arrays, starts)], *arrays)
    return [lax.squeeze(x, dimensions) for x in arrays]


# Windows


def _shifted(x: Any, offset: int, axis: int, fill: Any) -> Any:
    """Return `x[i + offset]` at each position `i` along an axis, and `fill` where that is out of bounds."""
    if not offset:
        return x
    n = x.shape[axis]
    if abs(offset) >= n:
        return xnp.broadcast_to(fill, x.shape)
    positions = _positions(x, axis)
    is_beyond = positions >= n - offset if offset > 0 else positions < -offset
    return xnp.where(is_beyond, fill, xnp.roll(x, -offset, axis))


def _padded_base(x: Any, fill: Any, padding: Any, base_dilation: Any, extents: list[int], strides: Any
                 ) -> tuple[Any, list[int]]:
    """Dilate an array, and lengthen it to hold the result before strides. Returns it and the sizes of the result."""
    config, sizes = [], []
    for n, (low, high), base, extent, stride in zip(x.shape, padding, base_dilation, extents, strides):
        dilated = (n - 1) * base + 1
        size = (low + dilated + high - extent) // stride + 1
        config.append((0, max(0, (size - 1) * stride + 1 - dilated), base - 1))
        sizes.append(size)
    return (lax.pad(x, fill, config) if any([any(c) for c in config]) else x), sizes


def _every(x: Any, sizes: list[int], strides: Any) -> Any:
    ends = [(n - 1) * s + 1 for n, s in zip(sizes, strides)]
    return x if tuple(ends) == x.shape and set(strides) == {1} else lax.slice(x, [0] * x.ndim, ends, strides)


def _window_reduction(combine: Callable, identity: Callable) -> Callable:
    """Return a reduction over windows, one axis after the other, by shifts. It keeps the size of the array until the end."""
    def compute(x: Any, *, window_dimensions: Any, window_strides: Any, padding: Any, base_dilation: Any, window_dilation: Any,
                **_: Any) -> Any:
        fill = identity(x.dtype)
        extents = [(w - 1) * d + 1 for w, d in zip(window_dimensions, window_dilation)]
        x, sizes = _padded_base(x, fill, padding, base_dilation, extents, window_strides)
        for axis, (count, dilation, (low, _high)) in enumerate(zip(window_dimensions, window_dilation, padding)):
            total = None
            for k in range(count):
                part = _shifted(x, k * dilation - low, axis, fill)
                total = part if total is None else combine(total, part)
            x = total
        return _every(x, sizes, window_strides)

    return compute


def _mapped(function: Callable, rank: int) -> Callable:
    """Apply a function of scalars to arrays of a rank, whose shape remains (`apply_elementwise` flattens them)."""
    if not rank:
        return function
    inner = _mapped(function, rank - 1)

    def compute(*xs: Any) -> list[Any]:
        n = np.shape(xs[0])[0]
        found = batch_flat(inner, list(xs), [0] * len(xs), n)
        return [place_axis(x, d, 0, n) for x, d in zip(*found)]

    return compute


def _reduce_window(*operands: Any, jaxpr: Any, consts: tuple, window_dimensions: Any, window_strides: Any, padding: Any,
                   base_dilation: Any, window_dilation: Any, **_: Any) -> list[Any]:
    """Reduce by a function of scalars, which is mapped over the array, at all positions of a window."""
    count = len(operands) // 2
    arrays, starts = operands[:count], operands[count:]
    combine = _mapped(jaxpr.with_consts(consts), arrays[0].ndim)
    extents = [(w - 1) * d + 1 for w, d in zip(window_dimensions, window_dilation)]
    padded = [_padded_base(x, start, padding, base_dilation, extents, window_strides) for x, start in zip(arrays, starts)]
    totals = [xnp.broadcast_to(start, x.shape) for (x, _), start in zip(padded, starts)]
    for place in np.ndindex(*window_dimensions):
        elements = []
        for (x, _), start in zip(padded, starts):
            for axis, (k, dilation, (low, _high)) in enumerate(zip(place, window_dilation, padding)):
                x = _shifted(x, k * dilation - low, axis, start)
            elements.append(x)
        totals = combine(*totals, *elements)
    return [_every(x, padded[0][1], window_strides) for x in totals]


# Others


# Bits of the exponent and of the mantissa, the integer of the same width, and the one to compute with
_FLOATS: dict[str, tuple[int, int, Any, Any]] = {"float16": (5, 10, np.int16, np.int32), "bfloat16": (8, 7, np.int16, np.int32),
    "float32": (8, 23, np.int32, np.int32), "float64": (11, 52, np.int64, np.int64)}


def _reduce_precision(x: Any, *, exponent_bits: int, mantissa_bits: int, **_: Any) -> Any:
    """Round the mantissa to even; with fewer bits of the exponent, large numbers are infinite and small ones are zero."""
    if x.dtype.name not in _FLOATS:
        raise NotImplementedError(f"reduce_precision of {x.dtype} is not possible in compiled kernels. Convert it to float32 "
                                  f"and back.")
    own_exponent, own_mantissa, stored, integer = _FLOATS[x.dtype.name]
    sign, dropped = integer(-(1 << (own_exponent + own_mantissa))), own_mantissa - mantissa_bits
    bits = lax.bitcast_convert_type(x, stored).astype(integer)
    magnitude = bits & ~sign
    if dropped > 0:
        is_odd = lax.shift_right_logical(magnitude, integer(dropped)) & integer(1)
        magnitude = (magnitude + (is_odd + integer((1 << (dropped - 1)) - 1))) & integer(-(1 << dropped))
    if exponent_bits < own_exponent:
        largest, bias = (1 << (exponent_bits - 1)) - 1, 1 << (own_exponent - 1)
        infinity = integer(((1 << own_exponent) - 1) << own_mantissa)
        magnitude = xnp.where(magnitude >= integer((bias + largest) << own_mantissa), infinity, magnitude)
        magnitude = xnp.where(magnitude < integer((bias - largest) << own_mantissa), integer(0), magnitude)
    rounded = lax.bitcast_convert_type((magnitude | (bits & sign)).astype(stored), x.dtype)
    return xnp.where(abs(x) < np.inf, rounded, x)


def scan_in_steps(*operands: Any, jaxpr: Any, num_consts: int, num_carry: int, length: int, reverse: bool, **_: Any
                  ) -> list[Any]:
    """Compute each step of a scan over slices of arrays, and stack the results."""
    consts, carry = operands[:num_consts], list(operands[num_consts:num_consts + num_carry])
    arrays = operands[num_consts + num_carry:]
    stacked: list[list[Any]] = []
    for i in (reversed(range(length)) if reverse else range(length)):
        results = jaxpr(*consts, *carry, *[lax.index_in_dim(x, i, 0, keepdims=False) for x in arrays])
        carry = results[:num_carry]
        stacked.append(results[num_carry:])
    return [*carry, *[xnp.stack(rows[::-1] if reverse else rows) for rows in zip(*stacked)]]


EXPANSIONS: dict[str, Callable] = {
    **{name: _computed_in_32_bits(function) for name, function in _ELEMENTWISE.items()},
    "cumsum": _cumulative(lax.add, _constant(0)), "cumprod": _cumulative(lax.mul, _constant(1)),
    "cummax": _cumulative(lax.max, _smallest), "cummin": _cumulative(lax.min, _largest),
    "cumlogsumexp": _cumulative(xnp.logaddexp, _smallest),
    "rev": _reverse, "reduce_prod": _product, "sort": _sort, "top_k": _top_k,
    "dynamic_slice": _dynamic_slice, "dynamic_update_slice": _dynamic_update_slice, "reduce_precision": _reduce_precision,
    "threefry2x32": cipher,
    "reduce_window_sum": _window_reduction(lax.add, _constant(0)), "reduce_window_max": _window_reduction(lax.max, _smallest),
    "reduce_window_min": _window_reduction(lax.min, _largest), "reduce_window": _reduce_window, "reduce": _reduce,
    "custom_fusion": custom_fusion.in_kernels,
    **kernel_gathers.EXPANSIONS,
}
