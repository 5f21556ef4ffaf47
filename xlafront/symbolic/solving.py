"""Values of dimension variables, computed from the sizes of arguments, and checks of these sizes.

Sizes are values that add, multiply and divide: integers where a function is called, values of a module that checks its
arguments itself, and expressions where it is called in a jaxpr with dimension variables of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xlafront.symbolic.dimensions import DimExpr, about, check_one_scope, evaluate, from_terms, linear, variables


class ArgumentShape(NamedTuple):
    """The name of an argument in messages, and its shape with dimension variables."""

    name: str
    shape: tuple[Any, ...]


MISFIT = "the shapes of the arguments do not match the symbolic shapes that the program was exported for"

# Called for each condition: (relation, "==" or ">="; value to compare with 0; text with fields {0}, {1}, ...; their values).
Check = Callable[[str, Any, str, Sequence[Any]], None]


def refuse(relation: str, value: Any, text: str, values: Sequence[Any]) -> None:
    """Raise if a condition does not hold for integers, or does not hold for all values of the variables of expressions."""
    low, high = (value, value) if type(value) is not DimExpr else value.scope.bounds_of(value)
    if low is None or low < 0 or relation == "==" and high != 0:
        remedy = "" if type(value) is not DimExpr else (
            f" This must hold for all values of the variables.{about(value.scope)} Add a constraint, as in "
            f"symbolic_shape(..., constraints=['{value} {relation} 0']).")
        raise ValueError(text.format(*values) + remedy)


def solve(arguments: Sequence[ArgumentShape], size_of: Callable[[int, int], Any], check: Check = refuse) -> dict[str, Any]:
    """Return the value of each dimension variable, from `size_of(argument, dimension)`.

    Every condition is passed to `check`: that sizes match the shapes, that variables are at least 1, and the constraints of
    the scope.
    """
    shapes = ", ".join([f"{a.name}.shape = {_text(a.shape)}" for a in arguments])
    check_one_scope([n for a in arguments for n in a.shape if type(n) is DimExpr])
    pending = [(f"{a.name}.shape[{d}]", n, (i, d))
               for i, a in enumerate(arguments) for d, n in enumerate(a.shape) if type(n) is DimExpr]
    found: dict[str, Any] = {}
    sources: list[tuple[str, str, str, Any]] = []

    def condition(relation: str, value: Any, text: str, *values: Any) -> None:
        known = ", ".join([f"'{name}' = {{{len(values) + i}}} from '{n}' for {where}"
                           for i, (name, n, where, _) in enumerate(sources)])
        known = f" Found: {known}." if known else ""
        check(relation, value, f"{MISFIT}: {text}. The symbolic shapes are {shapes}.{known}",
              [*values, *[value for *_, value in sources]])

    while pending:
        entry = next((e for e in sorted(pending, key=lambda e: len(e[1].terms)) if _unknown(e[1], found) is not None), None)
        if entry is None:
            break
        pending.remove(entry)
        where, n, position = entry
        name, k, rest = _unknown(n, found)  # type: ignore[misc]
        size = size_of(*position)
        left = size - evaluate(rest, found) if rest != 0 else size
        factor = evaluate(k, found)
        value = left if k == 1 else left // factor
        if k != 1:
            condition("==", left % factor,
                      f"the division by {k} that computes '{name}' from {where} (= {{0}}), which is '{n}', has a remainder",
                      size)
        condition(">=", value - 1,
                  f"Expected value >= 1 for dimension variable '{name}', which is {{0}} by the size of {where}, '{n}'", value)
        found[name] = value
        sources.append((name, str(n), where, value))
    missing = {v for _, n, _ in pending for v in variables(n)} - found.keys()
    if missing:
        raise ValueError(f"the dimension variables {', '.join(map(repr, sorted(missing)))} cannot be computed from the shapes "
                         f"of the arguments, {shapes}: a variable needs a size that is linear in it and has no other unknown "
                         f"variables. Pass another argument with this size.")
    for where, n, position in pending:
        size = size_of(*position)
        condition("==", size - evaluate(n, found), f"{where} has size {{0}}, but by the other sizes '{n}' is {{1}}", size,
                  evaluate(n, found))
    for scope in {id(n.scope): n.scope for a in arguments for n in a.shape if type(n) is DimExpr}.values():
        for constraint in scope.constraints:
            difference = constraint.difference
            unknown = variables(difference) - found.keys()
            if unknown & variables(linear([(difference, 1)])):  # (variables that an equation replaces need no value)
                raise ValueError(f"the symbolic shape constraint {constraint.text} has the dimension variable(s) "
                                 f"{', '.join(map(repr, sorted(unknown)))}, which are not in the shapes of the arguments, "
                                 f"{shapes}. Pass an argument with this size, or remove the constraint.")
            if type(difference) is DimExpr and not unknown:
                value = evaluate(difference, found)
                relation = "equal" if constraint.relation == "==" else "greater or equal"
                condition(constraint.relation, value, f"the symbolic shape constraint {constraint.text} does not hold: "
                                                      f"'{difference}' must be {relation} to 0, and is {{0}}", value)
    return found


def _text(shape) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def _unknown(n: DimExpr, found: dict[str, Any]) -> tuple[str, DimExpr | int, DimExpr | int] | None:
    """Return the one unknown variable of `n`, its coefficient and the remaining terms; None if `n` does not determine one."""
    names = n.get_vars() - found.keys()
    if len(names) != 1:
        return None
    [name] = names
    coefficient: dict[Any, int] = {}
    rest: dict[Any, int] = {}
    for monomial, k in n.terms:
        others = tuple([(atom, power) for atom, power in monomial if atom.name != name or atom.operands or power != 1])
        (rest if len(others) == len(monomial) else coefficient)[others] = k
    factor, remainder = from_terms(coefficient, n.scope), from_terms(rest, n.scope)
    return None if factor == 0 or name in variables(factor) | variables(remainder) else (name, factor, remainder)


def check_fixed(arguments: Sequence[ArgumentShape], shapes: Sequence[Sequence[Any]]) -> None:
    """Raise for arguments whose ranks or constant sizes differ from the expected ones."""
    for argument, shape in zip(arguments, shapes):
        if len(shape) != len(argument.shape):
            raise ValueError(f"rank mismatch: {argument.name} has the shape {_text(shape)}, but the program was exported "
                             f"for {_text(argument.shape)}.")
        for d, (n, expected) in enumerate(zip(shape, argument.shape)):
            if type(expected) is not DimExpr and n != expected:
                raise ValueError(f"shape mismatch: {argument.name}.shape[{d}] is {n}, but the program was exported for "
                                 f"{expected} (the shape {_text(argument.shape)}, called with {_text(shape)}).")


def solve_shapes(arguments: Sequence[ArgumentShape], shapes: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Return the value of each dimension variable for arguments of these shapes; raise if they do not match.

    The shapes may have sizes that are expressions over other dimension variables; then the values are expressions too.
    """
    check_fixed(arguments, shapes)
    return solve(arguments, lambda i, d: shapes[i][d])


def substituted(shape: Sequence[Any], values: dict[str, Any]) -> tuple[Any, ...]:
    """Return a shape with its variables replaced by values."""
    return tuple([evaluate(n, values) for n in shape])
