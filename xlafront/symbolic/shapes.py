"""Shapes with dimension variables, and the scopes that hold the constraints on the variables."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from xlafront.core import dtypes, tracing, tree
from xlafront.core.structs import ShapeDtypeStruct
from xlafront.symbolic.bounds import bounds, inequalities
from xlafront.symbolic.dimensions import Atom, DimExpr, Monomial, is_symbolic_dim, linear
from xlafront.symbolic.text import read_constraint, read_shape


class SymbolicScope:
    """A set of dimension variables and constraints, whose expressions can be combined.

    Variables of equal names are equal within one scope, and different in two scopes; each is at least 1.

    Args:
        constraints_str: Constraints such as `"a >= b + 1"`, `"mod(b, 2) == 0"`, `"a + 2 <= 8"`: a comparison (`==`, `>=` or
            `<=`) of two expressions. The left side of an equation must be one product, which is replaced by the right side
            wherever it occurs.

    Example:
        >>> xf.export.symbolic_shape("a, b", scope=xf.export.SymbolicScope(["a >= b"]))
        (a, b)
    """

    def __init__(self, constraints_str: Iterable[str] = ()):
        if isinstance(constraints_str, str):
            raise ValueError(f"constraints must be a sequence of texts, got one text. Pass [{constraints_str!r}].")
        self.constraints: list[Constraint] = []
        self.rules: dict[Monomial, tuple[int, DimExpr | int]] = {}  # product -> (coefficient, replacement of both)
        self.at_least_zero: list[DimExpr] = []  # expressions
        self.bounds: dict[Any, Any] = {}
        for text in constraints_str:
            if not isinstance(text, str):
                raise ValueError(f"a constraint is a text such as 'a >= b', got {text!r}.")
            self._add(text)

    def _add(self, text: str) -> None:
        left, relation, right = read_constraint(text, self)
        difference: Any = linear([(left, 1), (right, -1)]) if relation != "<=" else linear([(right, 1), (left, -1)])
        if type(difference) is int:
            if difference < 0 or relation == "==" and difference:
                raise ValueError(f"the constraint {text} cannot be satisfied: {left} {relation} {right} is false.")
            self.constraints.append(Constraint(text, relation, difference))
            return
        self.constraints.append(Constraint(text, relation, difference))
        self.bounds.clear()
        self.at_least_zero.append(difference)
        if relation == "==":
            self.at_least_zero.append(-difference)
            if type(left) is not DimExpr or len(left.terms) != 1:
                raise ValueError(f"the constraint {text} cannot be used: the left side of an equation must be one product of "
                                 f"a number and variables or operations, as in '2*a == b + 4', got {left}.")
            [(monomial, k)] = left.terms
            self.rules[monomial] = (abs(k), right if k > 0 else linear([(right, -1)]))
            if len(monomial) == 1 and monomial[0][0].name == "mod" and monomial[0][1] == k == 1 and right == 0:
                x, n = monomial[0][0].operands
                if type(n) is int:  # x is n times its quotient
                    quotient = ((Atom("floordiv", (x, n)), 1),)
                    self.rules[quotient] = (abs(n), x if n > 0 else linear([(x, -1)]))
            # An operation that is replaced still bounds its operands: min(a, b) == b - 2 means that a >= b - 2.
            self.at_least_zero += [bound for atom, _ in monomial if atom.operands for bound in inequalities(atom, self)]

    def bounds_of(self, x: DimExpr) -> tuple[int | None, int | None]:
        """Return the lower and the upper bound of an expression, None where there is none."""
        return bounds(x)

    def __repr__(self):
        return f"{id(self)}{' with constraints: ' if self.constraints else ''}{', '.join([c.text for c in self.constraints])}"


class Constraint:
    """A constraint `difference >= 0` or `difference == 0`."""

    __slots__ = ("text", "relation", "difference")

    def __init__(self, text: str, relation: str, difference: DimExpr | int):
        self.text, self.relation, self.difference = text, "==" if relation == "==" else ">=", difference


def symbolic_shape(shape_spec: str | None, *, constraints: Sequence[str] = (), scope: SymbolicScope | None = None,
                   like: Sequence[int] | None = None) -> tuple[Any, ...]:
    """Parse a shape with dimension variables.

    Args:
        shape_spec: Sizes separated by commas: names of variables, integers, and expressions of `+`, `-`, `*`, `^`,
            `floordiv(x, y)`, `mod(x, y)`, `max(x, y)` and `min(x, y)`. `_` is the size of `like` at the same position,
            `...` all its remaining sizes. None: `like`.
        constraints: Constraints on the variables, as for `SymbolicScope`.
        scope: The scope of the variables. Default: a new one.
        like: The shape to which `_` and `...` refer.

    Returns:
        The shape, a tuple of integers and expressions.

    Raises:
        ValueError: If the text is invalid, or a constraint cannot hold.

    Example:
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
        raise TypeError(f"scope must be a SymbolicScope, such as shape[0].scope, got {scope!r}.")
    if constraints:
        raise ValueError("symbolic shapes got a scope and constraints, but the scope has its own constraints. Pass them to "
                         "SymbolicScope, or omit scope.")
    return scope


def symbolic_args_specs(args: Any, shapes_specs: Any, constraints: Sequence[str] = (),
                        scope: SymbolicScope | None = None) -> Any:
    """Create type specifications of arguments with symbolic shapes.

    Args:
        args: A pytree of arrays or objects with a shape and a dtype: the arguments of a function.
        shapes_specs: A shape text as for `symbolic_shape`, or a prefix of `args` with such texts as leaves. None: the shape
            of the argument.
        constraints: Constraints on the variables, as for `SymbolicScope`.
        scope: The scope of the variables. Default: a new one.

    Returns:
        A pytree of `ShapeDtypeStruct`s with the structure of `args`, without shardings.

    Example:
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
        structs.append(ShapeDtypeStruct(symbolic_shape(text, scope=scope, like=getattr(x, "shape", shape)), dtype))
    return structure.unflatten(structs)


def symbolic_dim_bounds(dimension: Any) -> tuple[float, float]:
    """Return the bounds that are proved for a size, inclusive. They may not be the tightest.

    Args:
        dimension: Symbolic size or integer.

    Returns:
        The lower and the upper bound, integers or infinities; an infinity says that no bound is known.

    Example:
        >>> a, b = xf.export.symbolic_shape("a, b", constraints=["a >= 3", "b <= 10"])
        >>> symbolic_dim_bounds(a + 1), symbolic_dim_bounds(b)
        ((4, inf), (1, 10))
    """
    if not is_symbolic_dim(dimension):
        size = operator.index(dimension)
        return size, size
    low, high = bounds(dimension)
    return -math.inf if low is None else low, math.inf if high is None else high
