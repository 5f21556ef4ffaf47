"""Objects of xlafront under the names that jax has for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from xlafront.base.jaxlib_compat import jaxlib_version as version
from xlafront.base.typed_scalars import TypedComplex, TypedFloat, TypedInt
from xlafront.core import dtypes, tree
from xlafront.core.ir import EquationContext as JaxprEqnContext
from xlafront.core.tracing import Tracer, aval_of_type as pytype_aval_mappings, is_tracing, thread as trace_ctx
from xlafront.interpreters.mlir import lowerable_effects
from xlafront.numpy.scalar_types import ScalarType as _ScalarMeta
from xlafront.runtime.clients import clients
from xlafront.runtime.distributed import state as global_state
from xlafront.runtime.effects import effects_barrier as wait_for_tokens
from xlafront.runtime.keys import KeyArray as PRNGKeyArray, physical as physical_aval
from xlafront.staging.executable import Executable as MeshExecutable
from xlafront.staging.sharding_arguments import UNSPECIFIED

__all__ = ["UNSPECIFIED", "DType", "DimSize", "JaxprEqnContext", "MeshExecutable", "PRNGKeyArray", "Shape", "SupportsDType",
           "TypedComplex", "TypedFloat", "TypedInt", "TypedNdArray", "UnspecifiedValue", "_ScalarMeta", "full_lower",
           "global_state", "physical_aval", "pytype_aval_mappings", "supports_inf", "to_complex_dtype", "trace_ctx",
           "trace_state_clean", "version", "wait_for_tokens"]

_backends = clients.started
_jax_types = [d for d in dtypes.supported if d != dtypes.float0]
NotMapped = type(None)
UnspecifiedValue, _UNSPECIFIED = type(UNSPECIFIED), UNSPECIFIED
DType = np.dtype
DimSize = int | Any  # or a symbolic dimension
Shape = Sequence[DimSize]


@runtime_checkable
class SupportsDType(Protocol):
    """An object with a dtype."""

    @property
    def dtype(self) -> DType: ...


control_flow_allowed_effects = remat_allowed_effects = lowerable_effects


class _Node(NamedTuple):
    to_iter: Callable
    from_iter: Callable


class _Nodes(Mapping):
    """A mapping from pytree node classes to their flatten and unflatten functions."""

    def __getitem__(self, kind: Any) -> _Node:
        if kind in tree.builtin_nodes:
            return _Node(tree.flatten_one_level, lambda keys, values: kind(values if keys is None else zip(keys, values)))
        return _Node(*tree.registered_nodes[kind][:2])

    def __contains__(self, kind: Any) -> bool:  # Hot: Flax calls it for each value.
        return kind in tree.registered_nodes or kind in tree.builtin_nodes

    def __iter__(self) -> Iterator[Any]:
        return iter((*tree.builtin_nodes, *tree.registered_nodes))

    def __len__(self) -> int:
        return len(tree.builtin_nodes) + len(tree.registered_nodes)


_registry = _Nodes()


class TypedNdArray(np.ndarray):
    """NumPy constants with a weak type. Constants are plain NumPy arrays here, so that there are no instances."""


def full_lower(x: Any) -> Any:
    """Return the value that a tracer of an extension represents; return other values unchanged."""
    return x.full_lower() if isinstance(x, Tracer) else x


def trace_state_clean() -> bool:
    """Return True if no trace is active."""
    return not is_tracing()


_FINITE = ("float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2fnuz")


def to_complex_dtype(dtype) -> np.dtype:
    """Return the complex dtype that corresponds to a dtype."""
    return dtypes.to_complex(dtypes.dtype(dtype))


def supports_inf(dtype) -> bool:
    """Return True if a dtype has infinities."""
    canonical = dtypes.dtype(dtype)
    return dtypes.issubdtype(canonical, np.inexact) and canonical.name not in _FINITE
