"""Jitted functions of references and composite values as functions of arrays.

An adapter encodes the leaves of a call as arrays, calls a jitted function of arrays on them, and decodes its results:

    arrays = adapter.encode(leaves)
    results = adapter.function_of_arrays(leaves)(*arrays)
    adapter.decode(leaves, results)

Mutable composites (`staging/mutable_composites.py`) are adapted before tracing, since tracing reads their contents; references
(`staging/reference_arguments.py`) and composite values are adapted by the types of the traced jaxpr.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from xlafront.core import composite_lowering, tracing
from xlafront.staging.call_tracing import TracedCall
from xlafront.staging.mutable_composites import MutableCompositeAdapter, among
from xlafront.staging.reference_arguments import ReferenceAdapter
from xlafront.staging.sharding_arguments import UNSPECIFIED
from xlafront.staging.signatures import Call


class ArgumentAdapter(Protocol):
    """A jitted function as one of arrays, for arguments like those of one call."""

    def encode(self, leaves: Sequence[Any]) -> list[Any]:
        """Return the arguments of the jitted function of arrays."""

    def function_of_arrays(self, leaves: Sequence[Any]) -> Callable:
        """Return the jitted function of arrays; it is cached."""

    def decode(self, leaves: Sequence[Any], results: Any) -> Any:
        """Return the results of the call from those of the function of arrays, and write back what it changed."""


class StageAdapter(ArgumentAdapter, Protocol):
    """An adapter whose function of arrays can be lowered and compiled by itself (`staging/stages.py`)."""

    shows_components: bool  # the types of arguments and results are shown as lists of those of their components

    def stand_ins(self, leaves: Sequence[Any]) -> list[Any]:
        """Return arrays or types like the arguments of the function of arrays, without a copy."""

    def checks_type(self, aval: Any) -> bool:
        """True if a `Compiled` compares an argument of this type itself; its function of arrays compares the others."""


def call_adapted(adapter: ArgumentAdapter, leaves: Sequence[Any]) -> Any:
    """Return the results of a call through an adapter."""
    arrays = adapter.encode(leaves)
    return adapter.decode(leaves, adapter.function_of_arrays(leaves)(*arrays))


def adapter_for_values(jitted: Any, call: Call) -> ArgumentAdapter | None:
    """Return the adapter of a call by its arguments, before it is traced; None if it needs none."""
    return MutableCompositeAdapter(jitted, call) if tracing.composites and among(call.leaves) else None


def adapter_for_types(jitted: Any, traced: TracedCall, call: Call) -> StageAdapter | None:
    """Return the adapter of a traced call by the types of its arguments and results; None if it needs none."""
    if traced.takes_refs:
        return ReferenceAdapter(jitted, traced, call)
    return CompositeAdapter(jitted, traced, call) if traced.is_high else None


class CompositeAdapter:
    """Composite arguments and results (`core/composite_lowering.py`) as their component arrays."""

    shows_components = True

    def __init__(self, jitted: Any, traced: TracedCall, call: Call):
        self.jitted, self.traced, self.call = jitted, traced, call

    def encode(self, leaves: Sequence[Any]) -> list[Any]:
        return composite_lowering.components_of(self.traced.in_avals, leaves)

    stand_ins = encode

    def checks_type(self, aval: Any) -> bool:
        return aval.is_high

    def function_of_arrays(self, leaves: Sequence[Any]) -> Callable:
        traced, options, with_components = self.traced, self.jitted.options, composite_lowering.with_components
        if traced.function_of_components is None:
            outs = options.out_shardings
            if outs is not UNSPECIFIED:
                outs = with_components(traced.closed.out_avals, options.flat_out_shardings(traced.out_tree))
            traced.function_of_components = self.jitted.adapted(
                composite_lowering.program_on_components(traced.closed), self.call,
                in_shardings=lambda given: tuple(with_components(traced.in_avals, given)), out_shardings=outs,
                donated=with_components(traced.in_avals, options.donated_flags(self.call)))
        return traced.function_of_components

    def decode(self, leaves: Sequence[Any], results: Any) -> Any:
        return self.traced.out_tree.unflatten(composite_lowering.assemble(self.traced.closed.out_avals, results))
