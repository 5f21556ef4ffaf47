"""Zeros as arrays, and the rule of linear operations: what derivative rules are written with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.core import dtypes, tracing
from xlafront.core.zeros import Zero


def zeros_array(aval):
    """The zero of a type, as an array; of `float0` as NumPy's."""
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    from xlafront.lax.shapes import zeros_of

    zeros = zeros_of(aval)
    explicit = aval.explicit_sharding
    if explicit is None or not (explicit.spec.unreduced or explicit.spec.reduced):
        return zeros
    from xlafront.lax.vma_casts import typed_zeros

    return typed_zeros(zeros, explicit)


def instantiate(tangent):
    return zeros_array(tangent.aval) if type(tangent) is Zero else tangent


def keep_zeros(tangents: Sequence[Any], kept: Sequence[bool]) -> list[Any]:
    """Tangents with zeros as arrays where marked."""
    return [instantiate(t) if keep else t for t, keep in zip(tangents, kept)] if kept else list(tangents)


def linear_jvp(primitive):
    """The rule of an operation of one operand, which is linear in it."""
    def jvp(primals, tangents, **params):
        answer = primitive.bind(*primals, **params)
        if type(tangents[0]) is Zero:
            return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
        return answer, primitive.bind(*tangents, **params)

    return jvp
