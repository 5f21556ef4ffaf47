"""Values as those of other types inside of a `shard_map` that checks, for `pcast` and for cotangents."""

from __future__ import annotations

import numpy as np

from xlafront.core import tracing
from xlafront.core.avals import str_short
from xlafront.lax.all_reductions import pvary_p, recast, sums_of
from xlafront.lax.elementwise import eq, mul, to_dtype
from xlafront.lax.named_axes import axis_index_p


def as_unreduced(x, axes):
    """A value as a sum that is still to be made: what each device holds, or all of it on the first."""
    for axis in sorted(axes - tracing.aval_of(x).vma, key=str):
        first = to_dtype(eq(axis_index_p.bind(axis_name=axis), np.int32(0)), tracing.aval_of(x).dtype)
        x = mul(pvary_p.bind(x, axes=(axis,)), first)
    return recast(x, axes, "varying", "unreduced")


def cast_to(x, axes: frozenset, target: str):
    """`pcast` to "unreduced", of what varies, or to "reduced", of what is the same."""
    aval = tracing.aval_of(x)
    unreduced, reduced = sums_of(x)
    source, fits = ("varying", axes <= aval.vma) if target == "unreduced" else (
        "invarying", not axes & (aval.vma | unreduced | reduced))
    if not fits:
        raise ValueError(f"pcast to {target} takes a value that is {source} along {sorted(map(str, axes))}, got one of type "
                         f"{str_short(aval)}.")
    return recast(x, axes, source, target) if axes else x
