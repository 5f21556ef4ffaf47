"""The cumulative distribution function of the standard normal distribution."""

from __future__ import annotations

import math

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.core.typing import Array


def cumulative_normal(x: Array) -> Array:
    """Compute the probability below `x`, accurate in the left tail."""
    tail, near = 0.5 * lax.erfc(xnp.abs(x) * math.sqrt(0.5)), 0.5 * lax.erf(x * math.sqrt(0.5))
    return xnp.where(xnp.abs(x) < 1, 0.5 + near, xnp.where(x > 0, 1 - tail, tail))
