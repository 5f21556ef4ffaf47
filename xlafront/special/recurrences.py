"""Functions that recurrences in their order compute: Bessel functions downwards, spherical harmonics upwards."""

from __future__ import annotations

import math

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.control.while_loop import fori_loop
from xlafront.core.dimensions import common_shape

_BEYOND = 25  # orders above the last one from which to come down at least


def bessel_j(z, last: int, start: int):
    """The functions of orders 0 to `last`: ratios of each to that before from the order `start` down (Miller's algorithm), and
    from `J0 + 2 J2 + 2 J4 + ... = 1` the first."""
    tiny = np.finfo(z.dtype).tiny

    def down(k, ratio, rest):
        below = 2 * k - z * ratio
        ratio = z / xnp.where(below == 0, tiny, below)
        return ratio, ratio * (rest + (k % 2 == 0) * 2)  # with this order and all above, over the one below

    top = max(start, last + _BEYOND)
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
    """The harmonics of degrees `n` up to `last` and orders `m`, by normalized Legendre functions (DLMF 14.10)."""
    real = polar.dtype
    degree, order = n.astype(real), abs(m).astype(real)
    cosine, sine = xnp.cos(polar), xnp.sin(polar)

    def up(i, state):
        value, before = state
        k = (i + 1).astype(real)
        diagonal = k <= order
        size = xnp.where(diagonal, 1, k * k - order * order)
        ahead = xnp.sqrt((4 * k * k - 1) / size)
        squares = (k - 1) * (k - 1)
        back = xnp.sqrt(xnp.where(diagonal, 0, squares - order * order) / xnp.where(k > 1, 4 * squares - 1, 1))
        following = xnp.where(diagonal, -xnp.sqrt(1 + 1 / (2 * k)) * sine * value, ahead * (cosine * value - back * before))
        done = k > degree
        return xnp.where(done, value, following), xnp.where(done | diagonal, xnp.where(done, before, 0), value)

    shape = common_shape(n.shape, m.shape, polar.shape)
    start = xnp.full(shape, math.sqrt(0.25 / math.pi), real)
    legendre = fori_loop(0, last, up, (start, xnp.zeros(shape, real)))[0]
    legendre = xnp.where((order > degree) | (degree < 0), 0, legendre)
    legendre = xnp.where((m < 0) & (m % 2 != 0), -legendre, legendre)
    angle = m.astype(real) * azimuthal
    return lax.complex(legendre * xnp.cos(angle), legendre * xnp.sin(angle))


def associated_legendre(z, n: int, normalized: bool):
    """P_l^m of degrees and orders to `n`, with the phase of Condon and Shortley: (order, degree, z). 0 where m is above l.

    Going up in the degree, l: P_l = rise z P_(l-1) - fall P_(l-2) for each order below l, from P_m^m.
    """
    order, ladder = np.arange(n + 1.0), np.arange(1.0, n + 1.0)
    root = xnp.sqrt(1 - z * z)
    first = np.sqrt(0.25 / np.pi) if normalized else 1.0
    steps = -np.sqrt((2 * ladder + 1) / (2 * ladder)) if normalized else 1 - 2 * ladder
    corners = [xnp.full_like(z, first)]  # P_m^m
    for step in steps:
        corners.append(corners[-1] * root * step.astype(z.dtype))
    none = xnp.zeros((n + 1, z.shape[0]), z.dtype)
    rows = [none, none.at[0].set(corners[0])]
    for degree in range(1, n + 1):
        below = order < degree
        with np.errstate(divide="ignore", invalid="ignore"):
            if normalized:
                rise = np.sqrt((4 * degree * degree - 1) / (degree * degree - order * order))
                before = (degree - 1) ** 2
                fall = rise * np.sqrt(np.maximum(before - order * order, 0) / max(4 * before - 1, 1))
            else:
                rise, fall = (2 * degree - 1) / (degree - order), (degree + order - 1) / (degree - order)
        rise, fall = [xnp.asarray(np.where(below, x, 0)[:, None], z.dtype) for x in (rise, fall)]
        rows.append((rise * z * rows[-1] - fall * rows[-2]).at[degree].set(corners[degree]))
    return xnp.stack(rows[1:], 1)
