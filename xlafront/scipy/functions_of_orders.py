"""Special functions of orders: Bernoulli numbers, Bessel and Legendre functions, spherical harmonics."""

from __future__ import annotations

import functools
import operator

import numpy as np

import xlafront.numpy as xnp
from xlafront.core import dtypes, errors, tracing
from xlafront.core.typing import Array, ArrayLike
from xlafront.numpy.promotion import promote_dtypes_inexact, promotes_freely
from xlafront.special.log_gamma import bernoulli_numbers
from xlafront.special.recurrences import associated_legendre, bessel_j, spherical_harmonic
from xlafront.staging.library import library
from xlafront.transforms.calls.custom_jvp import custom_jvp

_LAST = 260  # from here on Bernoulli numbers are beyond float64


def bernoulli(n: int) -> Array:
    """The Bernoulli numbers B0 to Bn, of which B1 is -1/2.

    - `n`: the last one.

    >>> bernoulli(2)
    Array([ 1.        , -0.5       ,  0.16666667], dtype=float32)
    """
    n = operator.index(n)
    if n < 0:
        raise ValueError(f"bernoulli needs a number n that is not negative, got {n}.")
    even = np.arange(0, n + 1, 2)
    known = [float(b) for b in bernoulli_numbers(min(n, _LAST - 2) // 2 + 1)]
    numbers = np.zeros(n + 1)
    numbers[::2] = np.where(even % 4 == 0, -np.inf, np.inf)
    numbers[:2 * len(known):2] = known
    if n > 0:
        numbers[1] = -0.5
    with np.errstate(over="ignore"):
        return xnp.asarray(numbers.astype(dtypes.default_dtype(float)))


def bessel_jn(z: ArrayLike, *, v: int, n_iter: int = 50) -> Array:
    """The Bessel functions of the first kind J0 to Jv, along a new first axis.

    - `z`: real numbers, smaller than `n_iter`.
    - `v`: the last order, an integer.
    - `n_iter`: the order from which they are computed downwards; it is at least `v + 25`.

    >>> bessel_jn(0.0, v=2)
    Array([1., 0., 0.], dtype=float32)
    """
    z = xnp.asarray(z)
    v, n_iter = operator.index(v), operator.index(n_iter)
    [z] = promote_dtypes_inexact(z)
    if z.dtype.kind == "c":
        raise TypeError(f"bessel_jn takes real numbers, got dtype {z.dtype}.")
    if v < 0:
        return xnp.zeros((0, *z.shape), z.dtype)
    return _bessel_jn(z, v, n_iter)


@library(static=("v", "n_iter"))
@promotes_freely
def _bessel_jn(z, v, n_iter):
    dtype = z.dtype
    z = z.astype(np.float32 if dtype.itemsize < 4 else dtype)
    return _bessel(v, n_iter, z).astype(dtype)


@functools.partial(custom_jvp, nondiff_argnums=(0, 1))
def _bessel(v, n_iter, z):
    return bessel_j(z, v, n_iter)


@_bessel.defjvp
@promotes_freely
def _bessel_jvp(v, n_iter, primals, tangents):
    (z,), (t,) = primals, tangents
    values = _bessel(v + 1, n_iter, z)
    before = xnp.concatenate([-values[1:2], values[:v]])  # of order -1 it is -J1
    return values[:-1], t * (before - values[1:]) / 2


def sph_harm_y(n: ArrayLike, m: ArrayLike, theta: ArrayLike, phi: ArrayLike, diff_n: int | None = None,
               n_max: int | None = None) -> Array:
    """The spherical harmonics, with the phase of Condon and Shortley; 0 where the order is above the degree.

    - `n`, `m`: the degree and the order, integers.
    - `theta`, `phi`: the polar angle, from 0 to pi, and the azimuthal one.
    - `diff_n`: None: derivatives come from transformations.
    - `n_max`: the largest degree, a Python number, where `n` is traced; degrees above are taken as this one.

    >>> round(float(sph_harm_y(0, 0, 0.5, 0.5).real), 4)
    0.2821
    """
    if diff_n is not None:
        raise NotImplementedError("sph_harm_y with diff_n is not there: SciPy returns derivatives by it. Use jacfwd or jacrev.")
    n, m = xnp.asarray(n), xnp.asarray(m)
    for name, x in (("n", n), ("m", m)):
        if not dtypes.issubdtype(x.dtype, np.integer):
            raise TypeError(f"sph_harm_y needs integers for {name}, got dtype {x.dtype}.")
    theta, phi = promote_dtypes_inexact(xnp.asarray(theta), xnp.asarray(phi))
    if theta.dtype.kind == "c":
        raise TypeError(f"sph_harm_y takes real angles, got dtype {theta.dtype}.")
    if n_max is None:
        known = n._concrete() if isinstance(n, tracing.Tracer) else n
        if known is None:
            raise errors.ConcretizationTypeError(n, "sph_harm_y goes from degree to degree: give the last one as n_max.")
        n_max = int(np.max(np.asarray(known), initial=0))
    return _sph_harm_y(n, m, theta, phi, operator.index(n_max))


@library(static="n_max")
def _sph_harm_y(n, m, theta, phi, n_max):
    if theta.dtype.itemsize < 4:
        theta, phi = theta.astype(np.float32), phi.astype(np.float32)
    return spherical_harmonic(xnp.minimum(n, n_max), m, theta, phi, n_max)


def lpmn_values(m: int, n: int, z: ArrayLike, is_normalized: bool) -> Array:
    """The associated Legendre functions of the first kind, with the phase of Condon and Shortley: (order, degree, z).

    - `m`, `n`: the last order and the last degree, which are to be the same number.
    - `z`: a vector of float32 or float64, between -1 and 1.
    - `is_normalized`: whether they are scaled as in spherical harmonics.

    >>> lpmn_values(1, 1, xnp.array([0.6]), False)[:, :, 0]
    Array([[ 1. ,  0.6],
           [ 0. , -0.8]], dtype=float32)
    """
    return _legendre(*_legendre_arguments("lpmn_values", m, n, z), bool(is_normalized))


def lpmn(m: int, n: int, z: ArrayLike) -> tuple[Array, Array]:
    """The associated Legendre functions of the first kind and their derivatives, each (order, degree, z).

    SciPy's takes one number `z`.

    - `m`, `n`: the last order and the last degree, which are to be the same number.
    - `z`: a vector of float32 or float64, between -1 and 1.

    >>> values, slopes = lpmn(1, 1, xnp.array([0.6]))
    >>> values[1, 1], slopes[1, 1]
    (Array([-0.8], dtype=float32), Array([0.75], dtype=float32))
    """
    z, n = _legendre_arguments("lpmn", m, n, z)
    values = _legendre(z, n, False)
    return values, _legendre_slopes(values, z, n)


def _legendre_arguments(name: str, m: int, n: int, z: ArrayLike) -> tuple[Array, int]:
    m, n, z = operator.index(m), operator.index(n), xnp.asarray(z)
    if z.dtype not in (dtypes.float32, dtypes.float64):
        raise TypeError(f"{name} takes z of float32 or float64, got dtype {z.dtype}.")
    if z.ndim != 1:
        raise ValueError(f"{name} takes a vector z, got shape {z.shape}.")
    if m != n:
        raise NotImplementedError(f"{name} gives as many orders as degrees, got m = {m} and n = {n}: ask for the larger one, "
                                  f"and take a part.")
    if n < 0:
        raise IndexError(f"{name} needs orders that are not negative, got {n}.")
    return z, n


@library(static=("n", "normalized"), name="lpmn_values")
def _legendre(z, n, normalized):
    return associated_legendre(z, n, normalized)


@library(static="n", name="lpmn")
def _legendre_slopes(values, z, n):
    degree, order = np.arange(n + 1.0)[None, :, None], np.arange(n + 1.0)[:, None, None]
    before = xnp.concatenate([xnp.zeros_like(values[:, :1]), values[:, :-1]], 1)
    at_end = xnp.abs(z) == 1
    inside = xnp.where(at_end, 1, z * z - 1)
    slopes = (xnp.asarray(degree, z.dtype) * z * values - xnp.asarray(degree + order, z.dtype) * before) / inside
    # At 1, and the sign at -1: the derivative of order 1 has a pole there, those of orders above 2 are zero.
    product = (degree + 2) * (degree + 1) * degree * (degree - 1)
    ends = np.select([order == 0, order == 1, order == 2], [degree * (degree + 1) / 2, np.inf, -product / 4], 0.0)
    ends = xnp.asarray(np.where(degree < order, 0.0, ends), z.dtype)
    sign = xnp.where((z > 0) | (xnp.asarray(degree % 2 == 1) ^ xnp.asarray(order == 1)), 1, -1)
    return xnp.where(at_end, xnp.where(ends == 0, 0, ends * sign), slopes)
