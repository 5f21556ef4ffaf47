"""The values of uninitialized memory in interpreted kernels: NaN, as in JAX, so that reads of it show up in the result."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlafront.core import dtypes
from xlafront.core.basic_primitives import broadcast_in_dim_p
from xlafront.core.tangents import zeros_of


def uninitialized_scalar(dtype) -> Any:
    """Return the value of uninitialized memory: NaN, the smallest integer, or zero."""
    if dtypes.is_float(dtype) or dtypes.is_complex(dtype):
        with np.errstate(all="ignore"):
            return np.full((), np.nan).astype(dtype)[()]
    if dtypes.is_integer(dtype) and not dtypes.is_unsigned(dtype) and dtype != np.int16:  # for int16 JAX uses zero
        return np.asarray(dtypes.iinfo(dtype).min).astype(dtype)[()]
    return np.zeros((), dtype)[()]


def uninitialized(aval, memory_space: Any = None, params: Any = None) -> Any:
    """Return an uninitialized array. Semaphores are zero, and all that `InterpretParams` make so."""
    is_zero = getattr(memory_space, "zeroed", False) or getattr(params, "uninitialized_memory", "nan") == "zero"
    if not isinstance(aval.dtype, np.dtype) or is_zero:
        return zeros_of(aval)
    return broadcast_in_dim_p.bind(uninitialized_scalar(aval.dtype), shape=aval.shape, broadcast_dimensions=(), sharding=None)
