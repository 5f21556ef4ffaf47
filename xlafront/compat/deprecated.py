"""Names that the reference has still, and warns of: programs of some years ago use them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from xlafront.core import backends, tracing
from xlafront.core.avals import AbstractValue
from xlafront.core.dimensions import is_symbolic, is_symbolic_dim
from xlafront.parallel import shard_map as shard_maps

OutputType = tuple[AbstractValue, ...]


def _renamed(old: str, new: str, f: Callable) -> Callable:
    def renamed(backend: Any = None) -> Any:
        warnings.warn(f"jax.{old} is called jax.{new} now.", DeprecationWarning, stacklevel=2)
        return f(backend)

    return renamed


host_count = _renamed("host_count", "process_count", backends.process_count)
host_id = _renamed("host_id", "process_index", backends.process_index)
host_ids = _renamed("host_ids", "process_indices", backends.process_indices)


def shard_map(f: Callable, mesh: Any, in_specs: Any, out_specs: Any, check_rep: bool = True) -> Callable:
    """`jax.shard_map` as it was called before: over all axes of the mesh, with positional arguments."""
    return shard_maps.shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=check_rep)


def is_constant_dim(d: Any) -> bool:
    """Is a size a number?"""
    return not is_symbolic_dim(d)


def is_constant_shape(s: Any) -> bool:
    """Are all sizes of a shape numbers?"""
    return not is_symbolic(s)


def is_concrete(x: Any) -> bool:
    """Is the value of `x` known now?"""
    return not isinstance(x, tracing.Tracer)
