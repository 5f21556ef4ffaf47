"""Evaluation of Chebyshev series."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import xlafront.numpy as xnp

_GROWTH = 6.0  # maximum ratio of monomial to Chebyshev coefficients for which Horner's scheme is accurate


def chebyshev(t, coefficients: Sequence[float]):
    """Evaluate a Chebyshev series with Horner's scheme if monomials hardly cancel, otherwise as `clenshaw`, which has more
    steps.

    Even and odd powers are summed separately, so that the two sums run in parallel.
    """
    truncated = coefficients[:_num_significant(t.dtype, coefficients)]
    powers = np.polynomial.chebyshev.cheb2poly(truncated)
    if np.sum(np.abs(powers)) > _GROWTH * np.max(np.abs(truncated)):
        return clenshaw(t, coefficients)
    return _horner(t * t, powers[::2]) + t * _horner(t * t, powers[1::2]) if len(powers) > 1 else _horner(t, powers)


def _horner(t, powers):
    total = xnp.full_like(t, powers[-1])
    for c in powers[-2::-1]:
        total = total * t + float(c)
    return total


def piecewise_chebyshev(t, conditions: Sequence, tables: Sequence[Sequence[float]]):
    """Evaluate the series of the first table whose condition holds (the last table if none does), with one recurrence for
    all tables."""
    count = max(_num_significant(t.dtype, table) for table in tables)
    padded = [[*table[:count], *[0.0] * (count - len(table))] for table in tables]
    coefficients = []
    for values in zip(*padded):
        selected, *others = [np.asarray(value, t.dtype) for value in reversed(values)]
        for condition, value in zip(reversed(conditions), others):
            selected = xnp.where(condition, value, selected)
        coefficients.append(selected)
    return _recurrence(t, coefficients)


def clenshaw(t, coefficients: Sequence[float]):
    """Evaluate a Chebyshev series at `t` in [-1, 1] by Clenshaw's recurrence, with the coefficients that are significant
    in the dtype."""
    return _recurrence(t, coefficients[:_num_significant(t.dtype, coefficients)])


def _num_significant(dtype, coefficients) -> int:
    threshold = np.finfo(dtype).eps / 64
    return max(i for i, c in enumerate(coefficients) if abs(c) > threshold) + 1


def _recurrence(t, coefficients):
    b, next_b = xnp.zeros_like(t), xnp.zeros_like(t)
    for c in coefficients[:0:-1]:
        b, next_b = 2 * t * b - next_b + c, b
    return t * b - next_b + coefficients[0]
