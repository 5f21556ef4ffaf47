"""Functions computed by recurrences in their order: Bessel functions (downward), Legendre functions and spherical
harmonics (upward)."""

from __future__ import annotations

import math

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.control.while_loop import fori_loop
from xlafront.symbolic.dimensions import common_shape

_MIN_EXTRA_ORDERS = 25  # the downward recurrence starts at least this far above the last order


def bessel_j(z, last: int, start: int):
    """Compute the Bessel functions of orders 0 to `last` by Miller's algorithm.

    The downward recurrence from the order `start` gives ratios of consecutive orders; `J0 + 2 J2 + 2 J4 + ... = 1`
    gives J0.
    """
    tiny = np.finfo(z.dtype).tiny

    def down(k, ratio, total):
        denominator = 2 * k - z * ratio
        ratio = z / xnp.where(denominator == 0, tiny, denominator)
        # The second result is the normalization sum over this order and all above, divided by the order below.
        return ratio, ratio * (total + (k % 2 == 0) * 2)

    top = max(start, last + _MIN_EXTRA_ORDERS)
    state = (xnp.zeros_like(z), xnp.zeros_like(z))
    state = fori_loop(0, top - last, lambda i, state: down((top - i).astype(z.dtype), *state), state, unroll=8)
    ratios = []
    for k in range(last, 0, -1):
        state = down(k, *state)
        ratios.append(state[0])
    value = 1 / (1 + state[1])
    values = [value]
    for ratio in reversed(ratios):
        value = value * ratio
        values.append(value)
    return xnp.stack(values)


def spherical_harmonic(n, m, polar, azimuthal, last: int):
    """Compute spherical harmonics of degrees `n` up to `last` and orders `m` from normalized Legendre functions (DLMF
    14.10)."""
    real = polar.dtype
    degree, order = n.astype(real), abs(m).astype(real)
    cosine, sine = xnp.cos(polar), xnp.abs(xnp.sin(polar))

    def up(i, state):
        value, previous = state
        k = (i + 1).astype(real)
        is_diagonal = k <= order
        denominator = xnp.where(is_diagonal, 1, k * k - order * order)
        rise = xnp.sqrt((4 * k * k - 1) / denominator)
        squares = (k - 1) * (k - 1)
        fall = xnp.sqrt(xnp.where(is_diagonal, 0, squares - order * order) / xnp.where(k > 1, 4 * squares - 1, 1))
        next_value = xnp.where(is_diagonal, -xnp.sqrt(1 + 1 / (2 * k)) * sine * value,
                               rise * (cosine * value - fall * previous))
        is_done = k > degree
        return xnp.where(is_done, value, next_value), xnp.where(is_done | is_diagonal, xnp.where(is_done, previous, 0), value)

    shape = common_shape(n.shape, m.shape, polar.shape)
    start = xnp.full(shape, math.sqrt(0.25 / math.pi), real)
    legendre = fori_loop(0, last, up, (start, xnp.zeros(shape, real)))[0]
    legendre = xnp.where((order > degree) | (degree < 0), 0, legendre)
    legendre = xnp.where((m < 0) & (m % 2 != 0), -legendre, legendre)
    angle = m.astype(real) * azimuthal
    return lax.complex(legendre * xnp.cos(angle), legendre * xnp.sin(angle))


def associated_legendre(z, n: int, normalized: bool):
    """Compute the associated Legendre functions P_l^m with the Condon-Shortley phase: (order, degree, z). 0 for m > l.

    The recurrence in the degree l is P_l = rise z P_(l-1) - fall P_(l-2) for each order below l, starting from P_m^m.
    """
    order, orders_from_1 = np.arange(n + 1.0), np.arange(1.0, n + 1.0)
    sine = xnp.sqrt(1 - z * z)
    first = np.sqrt(0.25 / np.pi) if normalized else 1.0
    steps = -np.sqrt((2 * orders_from_1 + 1) / (2 * orders_from_1)) if normalized else 1 - 2 * orders_from_1
    diagonal = [xnp.full_like(z, first)]  # P_m^m
    for step in steps:
        diagonal.append(diagonal[-1] * sine * step.astype(z.dtype))
    zeros = xnp.zeros((n + 1, z.shape[0]), z.dtype)
    rows = [zeros, zeros.at[0].set(diagonal[0])]
    for degree in range(1, n + 1):
        below = order < degree
        with np.errstate(divide="ignore", invalid="ignore"):
            if normalized:
                rise = np.sqrt((4 * degree * degree - 1) / (degree * degree - order * order))
                squared = (degree - 1) ** 2
                fall = rise * np.sqrt(np.maximum(squared - order * order, 0) / max(4 * squared - 1, 1))
            else:
                rise, fall = (2 * degree - 1) / (degree - order), (degree + order - 1) / (degree - order)
        rise, fall = [xnp.asarray(np.where(below, x, 0)[:, None], z.dtype) for x in (rise, fall)]
        rows.append((rise * z * rows[-1] - fall * rows[-2]).at[degree].set(diagonal[degree]))
    return xnp.stack(rows[1:], 1)
