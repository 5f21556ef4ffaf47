"""Types of values that consist of other values, as Flax declares its variables to be.

Here a primitive on them runs its `impl`, also while something is traced: such a value then holds traced arrays. Compiled
functions take them apart (`staging/composites.py`). Flax uses them where `flax_hijax_variable` is set.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from xlafront.core import tracing
from xlafront.core.avals import AbstractValue
from xlafront.core.primitive import Primitive
from xlafront.core.tracing import StagingTrace
from xlafront.core.zeros import Zero
from xlafront.interpreters.ad import instantiate_zeros, is_undefined_primal
from xlafront.interpreters.mlir import lowerable_effects as control_flow_allowed_effects
from xlafront.staging.composites import inside

__all__ = ["AbstractValue", "AvalMutableQDD", "AvalQDD", "HiPrimitive", "HiType", "MutableHiType", "Zero", "aval_method",
           "aval_property", "control_flow_allowed_effects", "cur_qdd", "instantiate_zeros", "is_undefined_primal",
           "register_hitype"]


class _Asking(threading.local):
    now = False


_asking = _Asking()


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
        if _asking.now or type(tracing.thread.trace) is not StagingTrace:
            return self.impl(*args, **params)
        before = [(x, x.cur_qdd(), _contents(x)) for x in args if type(x) in tracing.composites
                  and not any([x is own for own in inside.values])]
        results = self.impl(*args, **params)
        for x, state, contents in before:
            if any([isinstance(leaf, tracing.Tracer) for leaf in _contents(x)]) and not any(
                    [isinstance(leaf, tracing.Tracer) for leaf in contents]):
                tracing.composites[type(x)](x).update_from_loval(state, x, *contents)
                raise NotImplementedError(
                    f"{self.name} would change a value that consists of others from inside of a function that is compiled and "
                    f"did not make it, nor got it as an argument of jit; xlafront, which answers for jax here, cannot do so. "
                    f"Pass the value to the function, or leave flax_hijax_variable off.")
        return results


def _contents(x: Any) -> list[Any]:
    """The arrays that a value consists of."""
    _asking.now = True  # its type may ask by an operation
    try:
        return tracing.composites[type(x)](x).read_loval(x.cur_qdd(), x)
    finally:
        _asking.now = False


def register_hitype(val_cls: type, typeof_fn: Callable[[Any], AbstractValue]) -> None:
    """Say of which type the values of a class are."""
    tracing.composites[val_cls] = typeof_fn


def cur_qdd(x: Any) -> Any:
    """What is known of a value at the moment beside its type."""
    return x.cur_qdd()
