"""Cotangents over meshes: how the types of values over mesh axes enter transposition.

The cotangent of a value may have another type than the value: it varies over axes over which the value is the same on all
devices, or has another sharding. `cast_cotangent` casts it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront.base.jaxlib_compat import NamedSharding
from xlafront.base.specs import PartitionSpec
from xlafront.core import tracing
from xlafront.core.avals import str_short
from xlafront.core.basic_primitives import axis_index_p, psum_invariant_p, pvary_p, recast, reshard_p, to_dtype
from xlafront.core.errors import ShardingTypeError
from xlafront.core.sharding_types import auto_sharding
from xlafront.core.tracing import StagingTrace, Tracer

if TYPE_CHECKING:
    from xlafront.core.typing import Aval


def cast_cotangent(ct: Any, aval: Aval) -> Any:
    """Return a cotangent of a value as one of the value's cotangent type. Hot."""
    if aval.plain and isinstance(ct, Tracer) and ct.aval.plain:
        return ct
    if tracing.thread.axes:
        ct = _sum_over_mesh(ct, aval)
    explicit = aval.to_ct_aval().explicit_sharding if aval.explicit_sharding is not None else None
    found = (ct.aval if isinstance(ct, Tracer) else tracing.aval_of(ct)).explicit_sharding
    if found is explicit or found == explicit:
        return ct
    return reshard_p.bind(ct, dst_sharding=NamedSharding(found.mesh, PartitionSpec()) if explicit is None else explicit)


def _sum_over_mesh(ct: Any, aval: Aval) -> Any:
    """Sum a cotangent over the mesh axes over which it varies and the primal does not.

    A value that is the same on all devices gets the sum of their contributions.
    """
    axes = tracing.aval_of(ct).vma - aval.vma
    if aval.explicit_sharding is not None and aval.explicit_sharding.spec.reduced:
        manual = aval.explicit_sharding.spec.reduced - aval.explicit_sharding.mesh.explicit
        found = tracing.aval_of(ct).explicit_sharding
        missing = manual if found is None else manual - found.spec.unreduced
        if missing:
            ct = _as_unreduced(ct, missing)
        axes -= manual
    if not axes:
        return ct
    return psum_invariant_p.bind(ct, axes=tuple(sorted(axes, key=str)))


def _as_unreduced(x: Any, axes: frozenset) -> Any:
    """Cast a value to an unreduced sum. The summands are the values on the devices where it varies, else the value on the first
    device and zeros.
    """
    for axis in sorted(axes - tracing.aval_of(x).vma, key=str):
        is_first = axis_index_p.bind(axis_name=axis) == np.int32(0)
        x = pvary_p.bind(x, axes=(axis,)) * to_dtype(is_first, tracing.aval_of(x).dtype)
    return recast(x, axes, "varying", "unreduced")


def with_unsharded_operands(function: Callable) -> Callable:
    """Decorate a function whose operations get replicated operands where shardings conflict: those of derivatives have no
    `out_sharding` to resolve it.
    """
    @functools.wraps(function)
    def call(*args: Any) -> Any:
        thread = tracing.thread
        saved, thread.unshard_operands = thread.unshard_operands, _unshard
        try:
            return function(*args)
        finally:
            thread.unshard_operands = saved

    return call


def _unshard(trace: StagingTrace, atoms: Sequence[Any]) -> list[Any]:
    """Stage the replication of operands."""
    unsharded = []
    for v in atoms:
        if v.aval.explicit_sharding is None:
            unsharded.append(v)
            continue
        if v.aval.explicit_sharding.spec.unreduced - v.aval.explicit_sharding.mesh.explicit:
            raise ShardingTypeError(f"a derivative needs the sum of an unreduced value of type {str_short(v.aval)}. Sum it "
                                    f"with psum first.")
        value = trace.process(reshard_p, (tracing.StagedTracer(trace, v.aval, v),),
                              {"dst_sharding": auto_sharding(v.aval.explicit_sharding)})
        unsharded.append(value._var)
    return unsharded
