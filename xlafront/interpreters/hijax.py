"""Operations with a Python function as their meaning and a rule for each transformation, and types of values that consist of
other values.

A `VJPHiPrimitive` is one operation of a program until it is lowered (`hijax_primitives`). A `HiPrimitive` on values that
consist of others runs its `impl`, also while something is traced: such a value then holds traced arrays. Values of a `HiType`
are pytrees of what they consist of; those of a `MutableHiType`, as Flax declares its variables to be where
`flax_hijax_variable` is set, are taken apart by compiled functions (`staging/composites.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from xlafront.core import tracing, tree
from xlafront.core.avals import AbstractValue
from xlafront.core.primitive import Primitive
from xlafront.core.tracing import StagingTrace
from xlafront.core.zeros import Zero
from xlafront.interpreters.ad import instantiate_zeros, is_undefined_primal
from xlafront.interpreters.hijax_primitives import VJPHiPrimitive
from xlafront.interpreters.mlir import lowerable_effects as control_flow_allowed_effects
from xlafront.runtime.sharding import PartitionSpec
from xlafront.staging.composites import inside

__all__ = ["AbstractValue", "AvalMutableQDD", "AvalQDD", "HiPrimitive", "HiPspec", "HiType", "MutableHiType", "VJPHiPrimitive",
           "Zero", "aval_method", "aval_property", "control_flow_allowed_effects", "cur_qdd", "instantiate_zeros",
           "is_undefined_primal", "register_hitype"]


class _Asking(threading.local):
    now = False


_asking = _Asking()


class HiPspec:
    """How a value that consists of others is split over the devices of a mesh; types define subclasses."""

    def to_lo(self) -> tuple[PartitionSpec, ...]:
        """How each of the arrays that it consists of is split."""
        raise _undefined(self, "to_lo")

    def to_tangent_spec(self) -> HiPspec:
        """How its tangent is split."""
        raise _undefined(self, "to_tangent_spec")

    def to_ct_spec(self) -> HiPspec:
        """How its cotangent is split."""
        raise _undefined(self, "to_ct_spec")


class HiType(AbstractValue):
    """The type of values that consist of others. A subclass is hashable and says of which, and how they are put together."""

    has_qdd = False

    def lo_ty(self) -> list[AbstractValue]:
        """The types of the arrays that a value consists of."""
        raise _undefined(self, "lo_ty")

    def lower_val(self, hi_val: Any) -> list[Any]:
        """The arrays that a value consists of."""
        raise _undefined(self, "lower_val")

    def raise_val(self, *lo_vals: Any) -> Any:
        """The value that consists of these arrays."""
        raise _undefined(self, "raise_val")

    def to_tangent_aval(self) -> AbstractValue:
        """The type of the derivative of a value in a direction."""
        raise _undefined(self, "to_tangent_aval")

    def to_ct_aval(self) -> AbstractValue:
        """The type of the derivative in a value."""
        return self.to_tangent_aval()


class MutableHiType(AbstractValue):
    """The type of values that consist of others, which may change."""

    has_qdd = True


def _undefined(owner: Any, method: str) -> NotImplementedError:
    kind = type(owner).__name__
    return NotImplementedError(f"{kind} does not say `{method}`: define it in the class {kind}.")


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
    """Say of which type the values of a class are.

    - `val_cls`: the class. Its values may change if it has a method `cur_qdd`, and their types are `MutableHiType`s then.
    - `typeof_fn`: a function from a value to its type.

    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> class PairType(hijax.HiType):
    ...     def lower_val(self, pair):
    ...         return [pair.a, pair.b]
    ...     def raise_val(self, a, b):
    ...         return Pair(a, b)
    >>> register_hitype(Pair, lambda pair: PairType())
    >>> xf.jit(lambda pair: Pair(pair.b, pair.a * 2))(Pair(1, 2)).b.tolist()
    2
    """
    if hasattr(val_cls, "cur_qdd"):
        tracing.composites[val_cls] = typeof_fn
        return

    def flatten(value: Any) -> tuple[tuple, Any]:
        kind = typeof_fn(value)
        return tuple(kind.lower_val(value)), kind

    tree.register_pytree_node(val_cls, flatten, lambda kind, children: kind.raise_val(*children))


def cur_qdd(x: Any) -> Any:
    """What is known of a value at the moment beside its type."""
    return x.cur_qdd()
