"""Types of values that consist of other values, as Flax declares its variables to be.

Here such values live outside of traces: a primitive on them runs its `impl`. Flax uses them where `flax_hijax_variable` is set.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from xlafront.core import tracing
from xlafront.core.avals import AbstractValue
from xlafront.core.primitive import Primitive
from xlafront.core.zeros import Zero
from xlafront.interpreters.ad import instantiate_zeros, is_undefined_primal
from xlafront.interpreters.mlir import lowerable_effects as control_flow_allowed_effects

__all__ = ["AbstractValue", "AvalMutableQDD", "AvalQDD", "HiPrimitive", "HiType", "MutableHiType", "Zero", "aval_method",
           "aval_property", "control_flow_allowed_effects", "cur_qdd", "instantiate_zeros", "is_undefined_primal",
           "register_hitype"]


class HiType(AbstractValue):
    """The type of values that consist of others."""


class MutableHiType(AbstractValue):
    """The type of values that consist of others, which may change."""


class AvalQDD(NamedTuple):
    """A type, and what else is known of a value of it at the moment."""

    aval: AbstractValue
    qdd: Any


class AvalMutableQDD(NamedTuple):
    """A type, and the place of what else is known of a value of it at the moment."""

    aval: AbstractValue
    mutable_qdd: Any


class aval_method(NamedTuple):
    """A method of traced values, written down with their type."""

    fun: Callable


class aval_property(NamedTuple):
    """A property of traced values, written down with their type."""

    fget: Callable


class HiPrimitive(Primitive):
    """An operation on such values, whose rules are methods."""

    def __init__(self, name: str):
        super().__init__(name, multiple_results=getattr(type(self), "multiple_results", False))

    def bind(self, *args, **params):
        if tracing.is_tracing() or any(isinstance(x, tracing.Tracer) for x in args):
            raise NotImplementedError(f"{self.name} works on values that consist of others, which cannot be traced yet in "
                                      f"xlafront, which answers for jax here. Flax works without them: leave "
                                      f"flax_hijax_variable off.")
        return self.impl(*args, **params)


def register_hitype(val_cls: type, typeof_fn: Callable[[Any], AbstractValue]) -> None:
    """Say of which type the values of a class are."""
    tracing.abstractors[val_cls] = typeof_fn


def cur_qdd(x: Any) -> Any:
    """What is known of a value at the moment beside its type."""
    return x.cur_qdd()
