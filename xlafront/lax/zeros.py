"""Symbolic zeros as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.core import dtypes
from xlafront.core.zeros import Zero
from xlafront.lax.all_reductions import pvary_p, recast
from xlafront.lax.device_put import reshard_p
from xlafront.lax.elementwise import with_weakness
from xlafront.lax.shapes import zeros_of


def zeros_array(aval):
    """The zero of a type, as an array; of `float0` as NumPy's, of values that consist of others as they say."""
    if aval.is_high:
        return aval.vspace_zero()
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    zeros = zeros_of(aval)
    if aval.weak_type:
        zeros = with_weakness(zeros, True)
    explicit = aval.explicit_sharding
    if explicit is None or not (explicit.spec.unreduced or explicit.spec.reduced):
        return zeros
    return _typed_zeros(zeros, explicit)


def instantiate(tangent):
    """A tangent or cotangent as an array."""
    return zeros_array(tangent.aval) if type(tangent) is Zero else tangent


def keep_zeros(tangents: Sequence[Any], kept: Sequence[bool]) -> list[Any]:
    """Tangents with zeros as arrays where marked."""
    return [instantiate(t) if keep else t for t, keep in zip(tangents, kept)] if kept else list(tangents)


def _typed_zeros(zeros, sharding):
    """Zeros of a type that is unreduced or reduced over some axes."""
    spec, explicit = sharding.spec, sharding.mesh.explicit
    if explicit:
        inner = spec.update(unreduced=spec.unreduced & explicit, reduced=spec.reduced & explicit)
        zeros = reshard_p.bind(zeros, dst_sharding=sharding.update(spec=inner))
    unreduced, reduced = spec.unreduced - explicit, spec.reduced - explicit
    if unreduced:
        zeros = recast(pvary_p.bind(zeros, axes=tuple(sorted(unreduced, key=str))), unreduced, "varying", "unreduced")
    return recast(zeros, reduced, "invarying", "reduced") if reduced else zeros
