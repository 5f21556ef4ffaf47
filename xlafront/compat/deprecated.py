"""Deprecated names of jax, for older programs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from xlafront.core import tracing
from xlafront.core.avals import AbstractValue
from xlafront.parallel import shard_map as shard_maps
from xlafront.runtime import backends
from xlafront.symbolic.dimensions import is_symbolic, is_symbolic_dim

OutputType = tuple[AbstractValue, ...]


def _renamed(old: str, new: str, f: Callable) -> Callable:
    def renamed(backend: Any = None) -> Any:
        warnings.warn(f"jax.{old} is deprecated: use jax.{new}.", DeprecationWarning, stacklevel=2)
        return f(backend)

    return renamed


host_count = _renamed("host_count", "process_count", backends.process_count)
host_id = _renamed("host_id", "process_index", backends.process_index)
host_ids = _renamed("host_ids", "process_indices", backends.process_indices)


def shard_map(f: Callable, mesh: Any, in_specs: Any, out_specs: Any, check_rep: bool = True) -> Callable:
    """Map a function over shards, with the former signature of `jax.shard_map`: all mesh axes, positional arguments."""
    return shard_maps.shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=check_rep)


def is_constant_dim(d: Any) -> bool:
    """Return True if a dimension is an integer."""
    return not is_symbolic_dim(d)


def is_constant_shape(s: Any) -> bool:
    """Return True if all dimensions of a shape are integers."""
    return not is_symbolic(s)


def is_concrete(x: Any) -> bool:
    """Return True if `x` is not a tracer."""
    return not isinstance(x, tracing.Tracer)
