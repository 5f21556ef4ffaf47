"""Flags of primitives."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import NamedTuple


class Cost(enum.Enum):
    """Cost of computing an operation again, compared to keeping its result in memory."""

    CHEAP = "cheap"  # less than storing the result
    NORMAL = "normal"
    HEAVY = "heavy"  # worth a function call of its own


class KeyUse(enum.Enum):
    """The use of random keys among its operands by an operation (`checks.key_use`)."""

    READS = "reads"  # reads them without consuming them
    FORWARDS = "forwards"  # results hold the keys of the first operand
    PERMUTES = "permutes"  # results hold the keys of all operands, in other positions


class Traits(NamedTuple):
    """Flags of an operation.

    Args:
        memoise: True if `abstract` is a pure function of types and hashable parameters, so that its results are cached.
        broadcasts_scalars: True for elementwise operations; their lowering gets operands of the result's shape.
        cost: Cost of computing the operation again.
        key_use: What it does with random keys, or a rule `(eqn, use_of_program)`. None: the jaxpr it contains decides; without
            one, all keys are consumed.
        contracts: True for products that sum over dimensions: matrix products and convolutions.
        lowers_by_function: True if the lowering traces a Python function, in which there may be loops.
        runs_eagerly: True if the operation needs values outside of `jit`: a rule calls user code, or it transfers between
            devices.
        transposes_zeros: True if the transpose rule also runs when all cotangents are zero (custom rules may ignore them).
        accepts_composites: True if operands may be composite (`core.composite_lowering`); `impl` computes on their components.
        calls_custom_rule: True if it calls a function with a rule that replaces what a transformation would do.
        takes_refs: True if operands may be references.
        allows_ref_aliasing: True if two operands may be the same reference.
        updates_in_place: True if it writes into its first operand, whose memory the result takes.
        sets_layout: True if it fixes the layout of a value in memory.
        is_reshard: True if it brings its operand to the sharding that is a parameter.
    """

    memoise: bool = True
    broadcasts_scalars: bool = False
    cost: Cost = Cost.NORMAL
    key_use: KeyUse | Callable | None = None
    contracts: bool = False
    lowers_by_function: bool = False
    runs_eagerly: bool = False
    transposes_zeros: bool = False
    accepts_composites: bool = False
    calls_custom_rule: bool = False
    takes_refs: bool = False
    allows_ref_aliasing: bool = False
    updates_in_place: bool = False
    sets_layout: bool = False
    is_reshard: bool = False
