"""Special functions of integer order: Bernoulli numbers, Bessel and Legendre functions, spherical harmonics."""

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

_OVERFLOW_ORDER = 260  # Bernoulli numbers from this order on overflow float64


def bernoulli(n: int) -> Array:
    """Compute the Bernoulli numbers B0 to Bn, with B1 = -1/2.

    Args:
        n: Order of the last number.

    Returns:
        Vector of `n + 1` numbers.

    Example:
        >>> bernoulli(2)
        Array([ 1.        , -0.5       ,  0.16666667], dtype=float32)
    """
    n = operator.index(n)
    if n < 0:
        raise ValueError(f"bernoulli needs a non-negative n, got {n}.")
    even = np.arange(0, n + 1, 2)
    finite = [float(b) for b in bernoulli_numbers(min(n, _OVERFLOW_ORDER - 2) // 2 + 1)]
    numbers = np.zeros(n + 1)
    numbers[::2] = np.where(even % 4 == 0, -np.inf, np.inf)
    numbers[:2 * len(finite):2] = finite
    if n > 0:
        numbers[1] = -0.5
    with np.errstate(over="ignore"):
        return xnp.asarray(numbers.astype(dtypes.default_dtype(float)))


def bessel_jn(z: ArrayLike, *, v: int, n_iter: int = 50) -> Array:
    """Compute the Bessel functions of the first kind of the orders 0 to `v`, along a new first axis.

    Args:
        z: Real numbers, smaller than `n_iter`.
        v: Last order, an integer.
        n_iter: Order from which the downward recurrence starts, at least `v + 25`.

    Returns:
        Array of shape `(v + 1, *z.shape)`.

    Example:
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
    lower_order = xnp.concatenate([-values[1:2], values[:v]])  # J_{-1} = -J_1
    return values[:-1], t * (lower_order - values[1:]) / 2


def sph_harm_y(n: ArrayLike, m: ArrayLike, theta: ArrayLike, phi: ArrayLike, diff_n: int | None = None,
               n_max: int | None = None) -> Array:
    """Compute the spherical harmonics, with the Condon-Shortley phase.

    Args:
        n, m: Degree and order, integers. The result is 0 where the order exceeds the degree.
        theta: Polar angle, from 0 to pi.
        phi: Azimuthal angle.
        diff_n: Must be None; use transformations for derivatives.
        n_max: Largest degree, a Python int; required if `n` is traced. Larger degrees are clipped to it.

    Returns:
        Complex array of the broadcast shape of the arguments.

    Example:
        >>> round(float(sph_harm_y(0, 0, 0.5, 0.5).real), 4)
        0.2821
    """
    if diff_n is not None:
        raise NotImplementedError("sph_harm_y does not support diff_n, SciPy's option to return derivatives. Use jacfwd or "
                                  "jacrev.")
    n, m = xnp.asarray(n), xnp.asarray(m)
    for name, x in (("n", n), ("m", m)):
        if not dtypes.issubdtype(x.dtype, np.integer):
            raise TypeError(f"sph_harm_y needs integers for {name}, got dtype {x.dtype}.")
    theta, phi = promote_dtypes_inexact(xnp.asarray(theta), xnp.asarray(phi))
    if theta.dtype.kind == "c":
        raise TypeError(f"sph_harm_y takes real angles, got dtype {theta.dtype}.")
    if n_max is None:
        concrete_n = n._concrete() if isinstance(n, tracing.Tracer) else n
        if concrete_n is None:
            raise errors.ConcretizationTypeError(n, "sph_harm_y needs a static largest degree for its recurrence: pass n_max.")
        n_max = int(np.max(np.asarray(concrete_n), initial=0))
    return _sph_harm_y(n, m, theta, phi, operator.index(n_max))


@library(static="n_max")
def _sph_harm_y(n, m, theta, phi, n_max):
    if theta.dtype.itemsize < 4:
        theta, phi = theta.astype(np.float32), phi.astype(np.float32)
    return spherical_harmonic(xnp.minimum(n, n_max), m, theta, phi, n_max)


def lpmn_values(m: int, n: int, z: ArrayLike, is_normalized: bool) -> Array:
    """Compute the associated Legendre functions of the first kind, with the Condon-Shortley phase.

    Args:
        m, n: Last order and last degree, which must be equal.
        z: Vector of float32 or float64, between -1 and 1.
        is_normalized: If True, scale the functions as in spherical harmonics.

    Returns:
        Array of shape `(m + 1, n + 1, len(z))`.

    Example:
        >>> lpmn_values(1, 1, xnp.array([0.6]), False)[:, :, 0]
        Array([[ 1. ,  0.6],
               [ 0. , -0.8]], dtype=float32)
    """
    return _legendre(*_legendre_arguments("lpmn_values", m, n, z), bool(is_normalized))


def lpmn(m: int, n: int, z: ArrayLike) -> tuple[Array, Array]:
    """Compute the associated Legendre functions of the first kind and their derivatives.

    Args:
        m, n: Last order and last degree, which must be equal.
        z: Vector of float32 or float64, between -1 and 1.

    Returns:
        Values and derivatives, each of shape `(m + 1, n + 1, len(z))`.

    Note:
        SciPy's function takes a scalar `z`.

    Example:
        >>> values, slopes = lpmn(1, 1, xnp.array([0.6]))
        >>> values[1, 1], slopes[1, 1]
        (Array([-0.8], dtype=float32), Array([0.75], dtype=float32))
    """
    z, n = _legendre_arguments("lpmn", m, n, z)
    values = _legendre(z, n, False)
    return values, _legendre_derivatives(values, z, n)


def _legendre_arguments(name: str, m: int, n: int, z: ArrayLike) -> tuple[Array, int]:
    m, n, z = operator.index(m), operator.index(n), xnp.asarray(z)
    if z.dtype not in (dtypes.float32, dtypes.float64):
        raise TypeError(f"{name} takes z of float32 or float64, got dtype {z.dtype}.")
    if z.ndim != 1:
        raise ValueError(f"{name} takes a vector z, got shape {z.shape}.")
    if m != n:
        raise NotImplementedError(f"{name} computes as many orders as degrees, got m = {m} and n = {n}. Pass the larger one "
                                  f"for both and slice the result.")
    if n < 0:
        raise IndexError(f"{name} needs non-negative orders, got {n}.")
    return z, n


@library(static=("n", "normalized"), name="lpmn_values")
def _legendre(z, n, normalized):
    return associated_legendre(z, n, normalized)


@library(static="n", name="lpmn")
def _legendre_derivatives(values, z, n):
    degree, order = np.arange(n + 1.0)[None, :, None], np.arange(n + 1.0)[:, None, None]
    lower_degree = xnp.concatenate([xnp.zeros_like(values[:, :1]), values[:, :-1]], 1)
    at_end = xnp.abs(z) == 1
    inside = xnp.where(at_end, 1, z * z - 1)
    derivatives = (xnp.asarray(degree, z.dtype) * z * values - xnp.asarray(degree + order, z.dtype) * lower_degree) / inside
    # Derivatives at 1, and their signs at -1: infinite for order 1, zero for orders above 2.
    product = (degree + 2) * (degree + 1) * degree * (degree - 1)
    ends = np.select([order == 0, order == 1, order == 2], [degree * (degree + 1) / 2, np.inf, -product / 4], 0.0)
    ends = xnp.asarray(np.where(degree < order, 0.0, ends), z.dtype)
    sign = xnp.where((z > 0) | (xnp.asarray(degree % 2 == 1) ^ xnp.asarray(order == 1)), 1, -1)
    return xnp.where(at_end, xnp.where(ends == 0, 0, ends * sign), derivatives)
