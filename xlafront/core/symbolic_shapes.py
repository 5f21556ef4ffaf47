"""Shapes with dimension variables, as users write them, and the scopes that say what is known of the variables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from xlafront.core import dtypes, tracing, tree
from xlafront.core.dimension_bounds import bounds
from xlafront.core.dimension_text import read_constraint, read_shape
from xlafront.core.dimensions import Atom, DimExpr, Monomial, linear
from xlafront.core.structs import ShapeDtypeStruct


class SymbolicScope:
    """The expressions that may meet each other, and what is known of them.

    - `constraints_str`: texts such as `"a >= b + 1"`, `"mod(b, 2) == 0"`, `"a + 2 <= 8"`: a comparison (`==`, `>=` or `<=`) of
      two expressions. The left side of an equation is one product, which is replaced by the right side wherever it occurs.

    Variables of equal names are equal in one scope, and not in two; each is at least 1.

    >>> xf.export.symbolic_shape("a, b", scope=xf.export.SymbolicScope(["a >= b"]))
    (a, b)
    """

    def __init__(self, constraints_str: Iterable[str] = ()):
        if isinstance(constraints_str, str):
            raise ValueError(f"constraints are a sequence of texts, got one alone: write [{constraints_str!r}].")
        self.constraints: list[Constraint] = []
        self.rules: dict[Monomial, tuple[int, DimExpr | int]] = {}  # product -> (coefficient, what replaces both)
        self.at_least_zero: list[DimExpr] = []  # expressions
        self.bounds: dict[Any, Any] = {}
        for text in constraints_str:
            if not isinstance(text, str):
                raise ValueError(f"a constraint is a text such as 'a >= b', got {text!r}.")
            self._add(text)

    def _add(self, text: str) -> None:
        left, relation, right = read_constraint(text, self)
        difference = linear([(left, 1), (right, -1)]) if relation != "<=" else linear([(right, 1), (left, -1)])
        if type(difference) is int:
            if difference < 0 or relation == "==" and difference:
                raise ValueError(f"the constraint {text} cannot be satisfied: it says {left} {relation} {right}.")
            self.constraints.append(Constraint(text, relation, difference))
            return
        self.constraints.append(Constraint(text, relation, difference))
        self.bounds.clear()
        self.at_least_zero.append(difference)
        if relation == "==":
            self.at_least_zero.append(-difference)
            if type(left) is not DimExpr or len(left.terms) != 1:
                raise ValueError(f"the constraint {text} cannot be used: the left side of an equation is one product of a "
                                 f"number and variables or operations, as in '2*a == b + 4', got {left}.")
            [(monomial, k)] = left.terms
            self.rules[monomial] = (abs(k), right if k > 0 else linear([(right, -1)]))
            if len(monomial) == 1 and monomial[0][0].name == "mod" and monomial[0][1] == k == 1 and right == 0:
                x, n = monomial[0][0].operands
                if type(n) is int:  # x is n times its quotient
                    quotient = ((Atom("floordiv", (x, n)), 1),)
                    self.rules[quotient] = (n, x)

    def bounds_of(self, x: DimExpr) -> tuple[int | None, int | None]:
        """The least and the greatest value of an expression, None where none is known."""
        return bounds(x)

    def __repr__(self):
        return f"{id(self)}{' with constraints: ' if self.constraints else ''}{', '.join([c.text for c in self.constraints])}"


class Constraint:
    """`difference >= 0`, or `== 0`."""

    __slots__ = ("text", "relation", "difference")

    def __init__(self, text: str, relation: str, difference: DimExpr | int):
        self.text, self.relation, self.difference = text, "==" if relation == "==" else ">=", difference


def symbolic_shape(shape_spec: str | None, *, constraints: Sequence[str] = (), scope: SymbolicScope | None = None,
                   like: Sequence[int] | None = None) -> tuple[Any, ...]:
    """A shape with dimension variables, from its text.

    - `shape_spec`: sizes with commas between them: names of variables, integers, and what `+`, `-`, `*`, `^`, `floordiv(x, y)`,
      `mod(x, y)`, `max(x, y)` and `min(x, y)` make of them; `_` is the size of `like` at that place, `...` all that follow.
    - `constraints`: what is known of the variables, as of `SymbolicScope`.
    - `scope`: that of other shapes, whose variables these are to be.
    - `like`: a shape that `_` and `...` refer to; with None as text, the result.

    >>> xf.export.symbolic_shape("b, 2*h, _", like=(8, 4, 3))
    (b, 2*h, 3)
    """
    if shape_spec is not None and not isinstance(shape_spec, str):
        raise ValueError(f"a symbolic shape is a text such as 'a, 2*b', or None, got {shape_spec!r}.")
    return read_shape("..." if shape_spec is None else shape_spec, _scope_of(scope, constraints), like)


def _scope_of(scope: SymbolicScope | None, constraints: Sequence[str]) -> SymbolicScope:
    if scope is None:
        return SymbolicScope(constraints)
    if not isinstance(scope, SymbolicScope):
        raise TypeError(f"scope is a SymbolicScope, as shape[0].scope is, got {scope!r}.")
    if constraints:
        raise ValueError("symbolic shapes got a scope and constraints: the scope has its own constraints. Give them to "
                         "SymbolicScope, or leave scope out.")
    return scope


def symbolic_args_specs(args: Any, shapes_specs: Any, constraints: Sequence[str] = (),
                        scope: SymbolicScope | None = None) -> Any:
    """Types for arguments, with the shapes that texts say.

    - `args`: a pytree of arrays or of what has a shape and a dtype, as for a function's arguments.
    - `shapes_specs`: for all of them, or a tree of a part of their structure, texts as `symbolic_shape` takes them; None
      stands for the argument's own shape.
    - `constraints`, `scope`: as of `symbolic_shape`.

    >>> xf.export.symbolic_args_specs((np.ones((4, 3)), np.ones(4)), ("b, _", "b"))
    (ShapeDtypeStruct(shape=(b, 3), dtype=float32), ShapeDtypeStruct(shape=(b,), dtype=float32))
    """
    scope = _scope_of(scope, constraints)
    leaves, structure = tree.flatten(args)
    if isinstance(args, tuple) and isinstance(shapes_specs, list):
        shapes_specs = tuple(shapes_specs)
    texts = tree.leaves_by_prefix("shapes_specs", shapes_specs, args, lambda x: x is None)
    structs = []
    for x, text in zip(leaves, texts):
        shape, dtype = np.shape(x), dtypes.canonicalize_dtype(x.dtype if hasattr(x, "dtype") else tracing.aval_of(x).dtype,
                                                              allow_extended_dtype=True)
        structs.append(ShapeDtypeStruct(symbolic_shape(text, scope=scope, like=getattr(x, "shape", shape)), dtype,
                                        sharding=getattr(x, "sharding", None) if isinstance(x, ShapeDtypeStruct) else None))
    return structure.unflatten(structs)
