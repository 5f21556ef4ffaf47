"""Effects: what equations do besides computing their results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

no_effects: frozenset = frozenset()


class Effect:
    """Base class of effects.

    Attributes:
        ordered: True if effects of this kind happen in program order.
        ordered_over_devices: True if they do so in programs over several devices too.
        droppable: True if the effect does not keep an equation alive.
        repeatable: True if the effect happens again when its equation is recomputed.
        uncompiled: True if no compiled program has the effect, so that jaxprs that would be compiled for speed run equation by
            equation.
    """

    ordered = False
    ordered_over_devices = False
    droppable = False
    repeatable = False
    uncompiled = False


class RefEffect(Effect):
    """An effect on a reference.

    Args:
        ref: The variable of the reference in equations and jaxprs; the position of the operand in results of `effects` rules.
    """

    __slots__ = ("ref",)

    def __init__(self, ref: Any) -> None:
        self.ref = ref

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.ref == self.ref

    def __hash__(self) -> int:
        return hash((type(self), self.ref))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.ref})"


class ReadEffect(RefEffect):
    """The reference is read."""

    __slots__ = ()

    droppable = True


class WriteEffect(RefEffect):
    """The reference is written, or read and written."""

    __slots__ = ()


class AccumEffect(RefEffect):
    """The reference is added to."""

    __slots__ = ()


class InternalRefEffect(Effect):
    """References are made inside, and callers do not see them."""

    droppable = True

    def __repr__(self) -> str:
        return "InternalRefEffect()"


internal_refs = InternalRefEffect()


def effects_by_operand(jaxpr: Any, first: int = 0) -> frozenset:
    """Return the effects of a jaxpr as those of an equation whose operands, from position `first` on, are its inputs."""
    effects = jaxpr.effects
    if effects:
        position = {v: first + i for i, v in enumerate(jaxpr.invars)}
        effects = frozenset([type(e)(position[e.ref]) if isinstance(e, RefEffect) else e for e in effects
                             if not isinstance(e, RefEffect) or e.ref in position])
    return effects


def effects_on(effects: frozenset, invars: Sequence[Any]) -> frozenset:
    """Return the effects that an `effects` rule gives by position, as effects on the operands of an equation."""
    return frozenset([type(e)(invars[e.ref]) if isinstance(e, RefEffect) else e for e in effects])  # type: ignore[index]


def effects_outside(effects: frozenset, inputs: Sequence[Any]) -> frozenset:
    """Return the effects of equations that a jaxpr with these inputs has: those on references made inside are dropped."""
    if not any([isinstance(e, RefEffect) for e in effects]):
        return effects
    known = set(inputs)
    return frozenset([e for e in effects if not isinstance(e, RefEffect) or e.ref in known])


def keeps_alive(effects: frozenset) -> bool:
    """True if an equation with these effects stays though its results are unused."""
    return any(not effect.droppable for effect in effects)
