"""Sums of Chebyshev polynomials."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import xlafront.numpy as xnp

_GROWTH = 6.0  # of coefficients of powers over those of polynomials


def chebyshev(t, coefficients: Sequence[float]):
    """As `clenshaw`, but where powers of `t` hardly cancel by Horner's scheme, which has fewer steps.

    Even and odd powers are summed apart: neither sum waits for the other.
    """
    kept = coefficients[:_count(t.dtype, coefficients)]
    powers = np.polynomial.chebyshev.cheb2poly(kept)
    if np.sum(np.abs(powers)) > _GROWTH * np.max(np.abs(kept)):
        return clenshaw(t, coefficients)
    return _horner(t * t, powers[::2]) + t * _horner(t * t, powers[1::2]) if len(powers) > 1 else _horner(t, powers)


def _horner(t, powers):
    total = xnp.full_like(t, powers[-1])
    for c in powers[-2::-1]:
        total = total * t + float(c)
    return total


def chebyshev_in_pieces(t, conditions: Sequence, tables: Sequence[Sequence[float]]):
    """As `chebyshev`, with the first table whose condition holds, the last where none does: one recurrence for all of them."""
    count = max(_count(t.dtype, table) for table in tables)
    padded = [[*table[:count], *[0.0] * (count - len(table))] for table in tables]
    coefficients = []
    for values in zip(*padded):
        chosen, *others = [np.asarray(value, t.dtype) for value in reversed(values)]
        for condition, value in zip(reversed(conditions), others):
            chosen = xnp.where(condition, value, chosen)
        coefficients.append(chosen)
    return _recurrence(t, coefficients)


def clenshaw(t, coefficients: Sequence[float]):
    """The sum of Chebyshev polynomials at `t` in [-1, 1], by Clenshaw's recurrence; as many as the type of `t` can tell."""
    return _recurrence(t, coefficients[:_count(t.dtype, coefficients)])


def _count(dtype, coefficients) -> int:
    least = np.finfo(dtype).eps / 64
    return max(i for i, c in enumerate(coefficients) if abs(c) > least) + 1


def _recurrence(t, coefficients):
    b, after = xnp.zeros_like(t), xnp.zeros_like(t)
    for c in coefficients[:0:-1]:
        b, after = 2 * t * b - after + c, b
    return t * b - after + coefficients[0]
