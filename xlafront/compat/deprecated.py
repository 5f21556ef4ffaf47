"""Deprecated names of jax, for older programs."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np

from xlafront.base.jaxlib_compat import HloSharding
from xlafront.base.specs import PartitionSpec
from xlafront.core import errors, tracing
from xlafront.core.avals import AbstractValue
from xlafront.pallas.buffered_ref import BufferedRef
from xlafront.parallel import shard_map as shard_maps
from xlafront.runtime import backends
from xlafront.symbolic.dimensions import is_symbolic, is_symbolic_dim

OutputType = tuple[AbstractValue, ...]
MeshAxisName = Any
ArrayMapping = OrderedDict[MeshAxisName, int]
Index = int | slice | tuple[int | slice, ...]
no_axis_name = object()
BufferedRefBase = BufferedRef


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


def concretization_function_error(fun: Callable, suggest_astype: bool = False) -> Callable[[Any, Any], NoReturn]:
    """Return a function that raises the error for a traced array where `fun`, such as `float`, needs a concrete value."""
    name = getattr(fun, "__name__", fun)
    remedy = f" Instead of `{name}(x)` write `x.astype({name})`." if suggest_astype else ""

    def error(self: Any, arg: Any) -> NoReturn:
        raise errors.ConcretizationTypeError(arg, f"It is an argument of `{name}`.{remedy}")

    return error


class JaxprPpSettings(NamedTuple):
    """Options of `jaxpr.pretty_print`, which takes them as keywords: `jaxpr.pretty_print(**settings._asdict())`."""

    print_shapes: bool = True
    source_info: bool = False
    name_stack: bool = False
    custom_pp_eqn_rules: bool = True
    print_effects: bool = False


def array_mapping_to_axis_resources(array_mapping: ArrayMapping) -> PartitionSpec:
    """Return the partition spec for a mapping from the names of mesh axes to dimensions."""
    names: list[list[Any]] = [[] for _ in range(max(array_mapping.values(), default=-1) + 1)]
    for name, dimension in array_mapping.items():
        names[dimension].append(name)
    return PartitionSpec(*[tuple(found) if len(found) > 1 else found[0] if found else None for found in names])


def is_hlo_sharding_replicated(hc: HloSharding) -> bool:
    """Return True if a sharding of the compiler gives each device the array."""
    return hc.num_devices() == 1 or hc.is_replicated()


def are_hlo_shardings_equal(hc1: HloSharding, hc2: HloSharding) -> bool:
    """Return True if two shardings of the compiler give the devices the same shards."""
    return is_hlo_sharding_replicated(hc1) and is_hlo_sharding_replicated(hc2) or hc1 == hc2


def op_sharding_to_indices(op_sharding: HloSharding, shape: tuple[int, ...], num_devices: int) -> tuple[tuple[slice, ...], ...]:
    """Return the indices of each device's shard of an array."""
    if is_hlo_sharding_replicated(op_sharding):
        return ((slice(None),) * len(shape),) * num_devices
    counts = op_sharding.tile_assignment_dimensions()
    indices = [tuple([slice(i * (n // count), (i + 1) * (n // count)) if count > 1 else slice(None)
                      for i, count, n in zip(tile, counts, shape)]) for tile in np.ndindex(*counts)]
    of_device = dict(zip(op_sharding.tile_assignment_devices(), indices, strict=True))
    return tuple([of_device[i] for i in range(num_devices)])
