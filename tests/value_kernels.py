"""Functions of values in kernels with what they compute by NumPy, for the tests of values and those of compilation on TPUs and GPUs.

Each is the body of a kernel that reads its arguments whole, and writes its results.
"""

from collections.abc import Callable
from typing import NamedTuple

import ml_dtypes
import numpy as np
import scipy.special as sp

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.experimental import pallas as pl

BF16 = np.dtype(ml_dtypes.bfloat16)


class Values(NamedTuple):
    """A function of values: `expected` computes the same with NumPy. `targets`: "tpu", "cuda"."""

    function: Callable
    arguments: tuple
    expected: Callable
    targets: str = "tpu cuda"
    tolerance: float = 1e-5

    def results(self):
        return [np.asarray(x) for x in _listed(self.expected(*self.arguments))]

    def call(self, interpret):
        """The kernel, which returns a list."""
        types = [xf.ShapeDtypeStruct(x.shape, x.dtype) for x in _listed(xf.eval_shape(self.function, *self.arguments))]

        def kernel(*refs):
            count = len(self.arguments)
            for ref, x in zip(refs[count:], _listed(self.function(*[r[...] for r in refs[:count]]))):
                ref[...] = x

        return pl.pallas_call(kernel, out_shape=types, interpret=interpret)


def _listed(x):
    return list(x) if isinstance(x, (tuple, list)) else [x]


KERNELS: dict[str, Values] = {}


def values(*arguments, expected, **options):
    """Decorator that adds a function of values."""
    def add(function):
        KERNELS[function.__name__] = Values(function, arguments, expected, **options)
        return function

    return add


RNG = np.random.default_rng(5)


def numbers(*shape, dtype=np.float32):
    return RNG.normal(size=shape).astype(dtype)


def integers(*shape, low=0, high=8, dtype=np.int32):
    return RNG.integers(low, high, shape).astype(dtype)


X = numbers(8, 128)

# Gathers


@values(X, integers(8, 128), integers(8, 128, high=128), expected=lambda x, i, j: (
    np.take_along_axis(x, i, 0), np.take_along_axis(x, j, 1), np.take_along_axis(x, j[:, :32], 1)))
def gather_of_elements(x, i, j):
    return xnp.take_along_axis(x, i, 0), xnp.take_along_axis(x, j, 1), xnp.take_along_axis(x, j[:, :32], 1)


@values(numbers(32, 256), integers(32, 256, high=32), integers(32, 256, high=256), expected=lambda x, i, j: (
    np.take_along_axis(x, i, 0), np.take_along_axis(x, j, 1)))
def gather_out_of_many_registers(x, i, j):
    return xnp.take_along_axis(x, i, 0), xnp.take_along_axis(x, j, 1)


@values(numbers(16, 128, dtype=BF16), integers(32, 128, low=-99, high=99, dtype=np.int8), integers(16, 128, high=128), integers(
    32, 128, high=32), expected=lambda x, k, i, j: (np.take_along_axis(x, i, 1), np.take_along_axis(k, j, 0)))
def gather_of_narrow_elements(x, k, i, j):
    return xnp.take_along_axis(x, i, 1), xnp.take_along_axis(k, j, 0)


@values(numbers(4, 8, 128), integers(4, 8, 128, high=4), integers(8), expected=lambda x, i, k: (
    np.take_along_axis(x, i, 0), x[:, k], x[2][k]))
def gather_of_leading_dimensions(x, i, k):
    return xnp.take_along_axis(x, i, 0), x[:, k], x[2][k]


@values(X, integers(8), integers(128, high=128), np.int32([0, 3, 9, -1, 7, 100, 2, -9]), expected=lambda x, i, j, k: (
    x[i], x[:, j], x[i[3]], np.where(((k >= -8) & (k < 8))[:, None], x[np.clip(k, -8, 7)], np.float32(np.nan)),
    x[i, j[:8]], np.median(x, 1)))
def gather_of_rows(x, i, j, k):
    return x[i], x[:, j], x[i[3]], xnp.take(x, k, 0), x[i, j[:8]], xnp.median(x, 1)


def _scattered(x, i, u):
    new, total, largest = x.copy(), x.copy(), x.copy()
    new[[1, 5]] = u[:2]
    np.add.at(total, i, u)
    np.maximum.at(largest, (slice(None), i), u[:, :8].T)
    return new, total, largest


def _column_updated(x, i):
    found = x.copy()
    found[:, i[0]] += 1
    return found


@values(X, np.int32([10, 5]), expected=_column_updated)
def update_of_a_column(x, i):
    return x.at[:, i[0]].add(1.0)


@values(X, np.int32([1, 5, 1, 7]), numbers(4, 128), expected=_scattered)
def scatters(x, i, u):
    return x.at[i[:2]].set(u[:2]), x.at[i].add(u), x.at[:, i].max(u[:, :8].T)


# Parts


SIZES = np.float32([3e5, 65519, 65520, 7e4, 57344, 61440, 247.9, 248, 6.2e-5, 6e-5, 1.6e-2, 1.5e-2, 1e-6, 1e-40, np.inf, np.nan])
REDUCED = np.concatenate([SIZES, -SIZES, numbers(96), np.exp(8 * numbers(896))]).reshape(8, 128).astype(np.float32)


def _reduced(x, exponent_bits, mantissa_bits):
    """Round the mantissa to even, that of subnormal numbers by its unit; then large numbers are infinite, and small ones zero."""
    own, smallest = ml_dtypes.finfo(x.dtype), float(ml_dtypes.finfo(x.dtype).smallest_normal)
    with np.errstate(invalid="ignore", over="ignore"):  # of NaN and of numbers beyond the largest
        _, exponent = np.frexp(np.maximum(np.abs(x.astype(np.float64)), smallest))
        unit = 2.0 ** (exponent - 1 - min(mantissa_bits, own.nmant))
        count = np.abs(x.astype(np.float64)) / unit
        is_down = (count == 1.5) & (mantissa_bits == 0) & (exponent % 2 == 0)  # the bit that is even is one of the exponent
        rounded = np.where(np.isfinite(x), np.copysign(np.where(is_down, 1, np.rint(count)) * unit, x.astype(np.float64)), x)
        if exponent_bits < own.nexp:
            largest = 2 ** (exponent_bits - 1) - 1
            rounded = np.where(np.abs(rounded) >= 2.0 ** (largest + 1), np.copysign(np.inf, x.astype(np.float64)), rounded)
            rounded = np.where(np.abs(rounded) < 2.0 ** (1 - largest), np.copysign(0.0, x.astype(np.float64)), rounded)
        return rounded.astype(x.dtype)


@values(REDUCED, expected=lambda x: (_reduced(x, 5, 10), _reduced(x, 5, 2), _reduced(x, 4, 3), x))
def reduced_precision(x):
    return lax.reduce_precision(x, 5, 10), lax.reduce_precision(x, 5, 2), lax.reduce_precision(x, 4, 3), lax.reduce_precision(x, 8, 23)


BITS = ((8, 7), (5, 10), (5, 2), (8, 3), (4, 3), (5, 0), (2, 1), (9, 12))
PATTERNS = np.random.default_rng(9).integers(0, 1 << 16, (32, 128)).astype(np.uint16)  # also subnormal numbers, NaN and infinities


def _add_reductions(dtype, targets):
    infinity, nan = np.array([np.inf, np.nan], dtype).view(np.uint16)
    x = np.where(PATTERNS & 0x7fff > infinity, nan, PATTERNS).view(dtype)  # quiet NaN only
    KERNELS[f"reduced precision of {x.dtype}"] = Values(
        lambda x: [lax.reduce_precision(x, *b) for b in BITS], (x,), lambda x: [_reduced(x, *b) for b in BITS], targets, 0)


_add_reductions(BF16, "tpu cuda")
_add_reductions(np.float16, "cuda")  # TPUs have no vectors of float16


MANY = np.random.default_rng(5).integers(-3, 12, 256).astype(np.int32)


def _scattered_many(x, i, u):
    added, largest = x.astype(np.float64), x[0].copy()
    for k, row in zip(i, u):
        if -8 <= k < 8:
            added[k] += row
    np.maximum.at(largest, i[:128], u[:128, 0])
    return added.astype(np.float32), largest


@values(X, MANY, numbers(256, 128), expected=_scattered_many)
def many_updates(x, i, u):
    return x.at[i].add(u), x[0].at[i[:128]].max(u[:128, 0])


def _scattered_words(x, i, u):
    out = x.copy()
    for k, row in zip(i[:200], u[:200]):
        if -8 <= k < 8:
            out[k] = row
    return out


@values(X, MANY, numbers(256, 128), expected=_scattered_words, targets="tpu")
def updates_in_unequal_chunks(x, i, u):
    return x.at[i[:200]].set(u[:200])


@values(X, integers(8, 128, dtype=np.int16), expected=lambda x, k: (x[::2], x[1::2, ::4], k[:, 1::2], x[:, 3:67:32]))
def slices_with_steps(x, k):
    return x[::2], x[1::2, ::4], k[:, 1::2], x[:, 3:67:32]


@values(X, expected=lambda x: (np.concatenate([x[:2], x[4:6], x[:4]]), np.concatenate([x[:, :32], x[:, :64], x[:, :32]], 1),
                               x[:2].sum(0), x[2:4].sum(0), x[4:].sum(0)))
def unequal_slices(x):
    joined = xnp.concatenate([x[:2], x[4:6], x[:4]]), xnp.concatenate([x[:, :32], x[:, :64], x[:, :32]], 1)
    return *joined, *[part.sum(0) for part in lax.split(x, (2, 2, 4))]


def _windows(x):
    padded = np.pad(x, ((0, 0), (3, 0)))
    blurred = sum([padded[:, k:k + 128] for k in range(4)])
    dilated = np.pad(x, ((0, 0), (4, 0)))[:, :128] + x
    return blurred, x.reshape(4, 2, 64, 2).max((1, 3)), dilated, np.logaddexp(x[::2], x[1::2])


@values(X, expected=_windows)
def windows(x):
    blurred = lax.reduce_window(x, 0.0, lax.add, (1, 4), (1, 1), [(0, 0), (3, 0)])
    pooled = lax.reduce_window(x, -np.inf, lax.max, (2, 2), (2, 2), "VALID")
    dilated = lax.reduce_window(x, 0.0, lax.add, (1, 2), (1, 1), [(0, 0), (4, 0)], window_dilation=(1, 4))
    return blurred, pooled, dilated, lax.reduce_window(x, -np.inf, lambda a, b: xnp.logaddexp(a, b), (2, 1), (2, 1), "VALID")


@values(X, expected=lambda x: (np.logaddexp.reduce(x, 1), np.sort(x[:, :64], 1)[:, :8], np.sqrt((x * x).sum(0))), tolerance=1e-4)
def reductions_by_functions(x):
    return (lax.reduce(x, np.float32(-np.inf), lambda a, b: xnp.logaddexp(a, b), (1,)), xnp.sort(x[:, :64], 1)[:, :8],
            lax.reduce(x, np.float32(0), lambda a, b: xnp.hypot(a, b), (0,)))


@values(numbers(6, 128), numbers(8, 100), integers(8, 100, high=9), targets="tpu", expected=lambda x, y, k: (
    np.sort(x, 0), np.sort(y, 1), np.argsort(k, 1, kind="stable"), -np.sort(-y, 1)[:, :3]))
def sorts_of_any_length(x, y, k):
    return xnp.sort(x, 0), xnp.sort(y, 1), xnp.argsort(k, 1), lax.top_k(y, 3)[0]


# Integers


_NAN = np.where(X > 2, np.nan, X).astype(np.float32)


@values(integers(8, 128, low=-9, high=9), integers(32, 128, high=255, dtype=np.uint8), _NAN, expected=lambda k, u, x: (
    k.argmax(1), k.argmin(0), u.argmax(0), u.argmin(1), k.astype(np.uint32).argmax(1), x.argmin(0), x[0].argmax(keepdims=True)))
def positions_of_the_largest(k, u, x):
    return (xnp.argmax(k, 1), xnp.argmin(k, 0), xnp.argmax(u, 0), xnp.argmin(u, 1), xnp.argmax(k.astype("uint32"), 1),
            xnp.argmin(x, 0), xnp.argmax(x[0], keepdims=True))


_EXTREME = np.array([[-32768, 32767] * 64, [32767] * 128] * 16, np.int16)


def _products(x, y, z, u):
    with np.errstate(over="ignore"):
        return x @ x.T, y.astype(np.int32) @ y.astype(np.int32).T, u.astype(np.int32) @ u.astype(np.int32).T, z @ z.T


@values(integers(32, 128, low=-2**31, high=2**31 - 1), _EXTREME, integers(32, 128, high=2**32 - 1, dtype=np.uint32),
        integers(32, 128, high=256, dtype=np.uint8), expected=_products)
def products_of_integers(x, y, z, u):
    return x @ x.T, *[lax.dot(v, v.T, preferred_element_type="int32") for v in (y, u)], z @ z.T


# Special functions


def _special(x):
    x = x.astype(np.float64)
    return (sp.zeta(1.1 + 5 * x, 0.5 + 9 * x), [[_zeta(3, q) for q in row] for row in 0.3 - np.floor(5 * x)],
            sp.polygamma(1, 0.1 + 20 * x), sp.polygamma(4, 0.5 + x), sp.digamma(1 + x))


def _zeta(s, q):
    """The sum for negative arguments: terms before the first positive one, and the rest."""
    count = max(0, int(np.ceil(-q)))
    return sum([(q + k) ** -s for k in range(count)]) + sp.zeta(s, q + count)


@values(np.linspace(0.001, 0.999, 1024, dtype=np.float32).reshape(8, 128), expected=_special, tolerance=2e-4)
def zeta_and_polygamma(x):
    return (lax.zeta(1.1 + 5 * x, 0.5 + 9 * x), lax.zeta(3.0 + 0 * x, 0.3 - xnp.floor(5 * x)), lax.polygamma(1.0 + 0 * x, 0.1 + 20 * x),
            lax.polygamma(4.0 + 0 * x, 0.5 + x), lax.polygamma(0 * x, 1 + x))
