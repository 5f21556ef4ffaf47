"""What xlafront knows under other names."""

from __future__ import annotations

import numpy as np

from xlafront.core.tracing import abstractors as pytype_aval_mappings, is_tracing
from xlafront.runtime.clients import clients
from xlafront.runtime.distributed import state as global_state
from xlafront.runtime.effects import effects_barrier as wait_for_tokens
from xlafront.staging.sharding_arguments import UNSPECIFIED

__all__ = ["UNSPECIFIED", "TypedNdArray", "UnspecifiedValue", "global_state", "pytype_aval_mappings", "trace_state_clean",
           "wait_for_tokens"]

_backends = clients.started
UnspecifiedValue = type(UNSPECIFIED)


class TypedNdArray(np.ndarray):
    """Constants of programs that know their weak type. Here they are NumPy's arrays, so that there are none."""


def trace_state_clean() -> bool:
    """Is nothing being traced?"""
    return not is_tracing()
