"""Operations on tangents and cotangents: addition, and symbolic zeros as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront.core import dtypes, tracing
from xlafront.core.basic_primitives import (
    add_any_p,
    broadcast_in_dim_p,
    convert_element_type_p,
    pvary_p,
    recast,
    reshard_p,
    to_dtype,
    with_weakness,
)
from xlafront.core.zeros import Zero

if TYPE_CHECKING:
    from xlafront.core.typing import Aval, Marks, Tangent


def add_tangents(x: Any, y: Any) -> Any:
    """Add two tangents or cotangents of one type.

    Extended dtypes and composite types add by rules of their own.
    """
    aval = tracing.aval_of(x)
    if aval.is_high:
        return aval.vspace_add(x, y)
    d = aval.dtype
    return add_any_p.bind(x, y) if isinstance(d, np.dtype) else d._rules.add(d, x, y)


def zeros_of(aval: Aval) -> Any:
    """Return zeros of an aval by broadcasting a scalar; without its unreduced or reduced axes."""
    d = aval.dtype
    zero = np.zeros((), d) if isinstance(d, np.dtype) else d._rules.zero(d)
    if tracing.is_truncated(zero):
        zero = to_dtype(np.zeros((), np.int32), d)
    sharding = aval.explicit_sharding
    if sharding is not None and (sharding.spec.unreduced or sharding.spec.reduced):
        sharding = None
    zeros = zero if not aval.shape else broadcast_in_dim_p.bind(
        zero, shape=aval.shape, broadcast_dimensions=(), sharding=sharding)
    return with_weakness(zeros, True) if aval.weak_type else zeros


def zeros_array(aval: Aval) -> Any:
    """Return the zero of an aval as an array: NumPy's for `float0`, by a rule of the type for composite types."""
    if aval.is_high:
        return aval.vspace_zero()
    if aval.dtype == dtypes.float0 and all([isinstance(n, int) for n in aval.shape]):
        return np.zeros(aval.shape, dtypes.float0)
    zeros = zeros_of(aval)
    explicit = aval.explicit_sharding
    if explicit is None or not (explicit.spec.unreduced or explicit.spec.reduced):
        return zeros
    return _typed_zeros(zeros, explicit)


def _typed_zeros(zeros: Any, sharding: Any) -> Any:
    """Return zeros with unreduced or reduced axes."""
    spec, explicit = sharding.spec, sharding.mesh.explicit
    if explicit:
        inner = spec.update(unreduced=spec.unreduced & explicit, reduced=spec.reduced & explicit)
        zeros = reshard_p.bind(zeros, dst_sharding=sharding.update(spec=inner))
    unreduced, reduced = spec.unreduced - explicit, spec.reduced - explicit
    if unreduced:
        zeros = recast(pvary_p.bind(zeros, axes=tuple(sorted(unreduced, key=str))), unreduced, "varying", "unreduced")
    return recast(zeros, reduced, "invarying", "reduced") if reduced else zeros


def instantiate(tangent: Tangent) -> Any:
    """Return a tangent or cotangent as an array."""
    return zeros_array(tangent.aval) if type(tangent) is Zero else tangent


def instantiate_where(tangents: Sequence[Tangent], mask: Marks) -> list[Any]:
    """Instantiate the tangents that are marked in `mask`."""
    return [instantiate(t) if needed else t for t, needed in zip(tangents, mask)] if mask else list(tangents)


def weakly_typed_as(x: Any, aval: Aval) -> Any:
    """Return a tangent or cotangent with the weak type of its primal type."""
    if not aval.weak_type or getattr(x, "dtype", None) == dtypes.float0:
        return x
    given = tracing.aval_of(x)
    if given.weak_type or given.dtype != aval.dtype:
        return x
    return convert_element_type_p.bind(x, new_dtype=aval.dtype, weak_type=True, sharding=None)


def convert_cotangents(cts: Sequence[Any], avals: Sequence[Any]) -> list[Any]:
    """Return cotangents with the dtypes of these types: custom rules may return others."""
    return [ct if type(ct) is Zero or tracing.aval_of(ct).dtype == aval.dtype else to_dtype(ct, aval.dtype)
            for ct, aval in zip(cts, avals)]
