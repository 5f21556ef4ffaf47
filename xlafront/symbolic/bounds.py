"""Bounds of expressions over dimension variables, which decide comparisons.

A polynomial is bounded term by term, by the bounds of its atoms. This ignores dependencies between terms: `a - b` with `a
>= b` gets the bound 0 only with the constraint. So multiples of expressions that are known to be at least 0 are subtracted,
each chosen to cancel a product of atoms: `e = n*c + r` with `c >= 0` and `n > 0` is at least the lower bound of `r`. These
expressions are the constraints of the scope, and inequalities between operations and their operands (`n*floordiv(x, n) <=
x`, `max(x, y) >= x`).
"""

from __future__ import annotations

import math
from typing import Any

from xlafront.symbolic.dimensions import Atom, DimExpr, Monomial, from_terms, linear, monomial_quotient, product, terms_of

Bound = int | None  # None: there is none

_STEPS = 3  # maximal number of combined constraints
_CASES = 4  # maximal number of nested case distinctions


def bounds(x: DimExpr | int) -> tuple[Bound, Bound]:
    """Return the lower and the upper bound of an expression, None where none is found."""
    if not isinstance(x, DimExpr):
        return x, x
    known = x.scope.bounds
    found = known.get(x.terms)
    if found is None:
        known[x.terms] = term_by_term(x)  # for bounds of its own atoms, which refer to it
        low, high = by_cases(x, _CASES), by_cases(-x, _CASES)
        found = known[x.terms] = low, None if high is None else -high
    return found


def by_cases(x: DimExpr | int, cases: int) -> Bound:
    """Return the lower bound, with case distinctions: each term that is a maximum or minimum is one of its operands."""
    best = lower(x, _STEPS)
    if not isinstance(x, DimExpr) or not cases:
        return best
    for monomial, k in x.terms:
        atom = monomial[0][0] if monomial else None
        if atom is None or monomial != ((atom, 1),) or atom.name not in ("max", "min") or not atom.operands:
            continue
        atom_expr = from_terms({monomial: 1}, x.scope)
        first, second = [by_cases(linear([(x, 1), (atom_expr, -k), (operand, k)]), cases - 1) for operand in atom.operands]
        if (k > 0) == (atom.name == "max"):
            found = _greater(first, second)  # at least the bound of either case
        else:
            found = None if first is None or second is None else min(first, second)
        return _greater(best, found)  # the recursive calls treat the other terms
    return best


def lower(x: DimExpr | int, steps: int) -> Bound:
    if not isinstance(x, DimExpr):
        return x
    best = term_by_term(x)[0]
    if not steps:
        return best
    for pattern, (count, _) in x.scope.rules.items():  # the rule replaces `count` times the pattern, so it applies to count*x
        if count > 1 and any([monomial_quotient(monomial, pattern) is not None for monomial, _ in x.terms]):
            found = lower(linear([(x, count)]), steps - 1)
            best = best if found is None else _greater(best, -(-found // count))
    own_terms = dict(x.terms)
    for constraint in _nonnegative_for(x):
        for monomial, k in constraint.terms:
            own = own_terms.get(monomial, 0)
            if not monomial or own * k <= 0:
                continue
            divisor = math.gcd(own, k)
            scale, times = abs(k) // divisor, abs(own) // divisor  # scale*x = times*constraint + rest
            rest = linear([(x, scale), (constraint, -times)])
            if type(rest) is DimExpr and len(rest.terms) > len(x.terms) + 1:
                continue
            found = lower(rest, steps - 1)
            if found is not None:
                found = -(-found // scale)
                best = found if best is None else max(best, found)
    return best


def _nonnegative_for(x: DimExpr) -> list[DimExpr]:
    """Return expressions that are at least 0: constraints of the scope, and inequalities of the operations in `x`."""
    found = list(x.scope.at_least_zero)
    for monomial, _ in x.terms:
        for atom, _ in monomial:
            if atom.operands:
                found += inequalities(atom, x.scope)
    return found


def inequalities(atom: Atom, scope: Any) -> list[DimExpr]:
    """Return expressions that are at least 0 by the definition of an operation."""
    atom_expr = from_terms({((atom, 1),): 1}, scope)
    x, y = atom.operands
    nonnegative: list[Any] = []
    if atom.name in ("max", "min"):
        sign = 1 if atom.name == "max" else -1
        nonnegative = [linear([(atom_expr, sign), (x, -sign)]), linear([(atom_expr, sign), (y, -sign)])]
    else:
        low, _ = bounds(y)
        if low is not None and low > 0:
            if atom.name == "floordiv":
                rest = linear([(x, 1), (product(atom_expr, y), -1)])  # the remainder
                nonnegative = [rest, linear([(y, 1), (rest, -1), (-1, 1)])]
            else:
                nonnegative = [linear([(y, 1), (atom_expr, -1), (-1, 1)])]
                smallest, _ = bounds(x)
                if smallest is not None and smallest >= 0:
                    nonnegative.append(linear([(x, 1), (atom_expr, -1)]))
    return [x for x in nonnegative if type(x) is DimExpr]


def term_by_term(x: DimExpr) -> tuple[Bound, Bound]:
    low: Bound = 0
    high: Bound = 0
    for monomial, k in x.terms:
        least, greatest = _product_bounds(monomial, x.scope)
        if k < 0:
            least, greatest = greatest, least
        low = None if low is None or least is None else low + k * least
        high = None if high is None or greatest is None else high + k * greatest
    return low, high


def _product_bounds(monomial: Monomial, scope: Any) -> tuple[Bound, Bound]:
    low: Bound = 1
    high: Bound = 1
    for atom, power in monomial:
        for _ in range(power):
            low, high = _multiplied((low, high), atom_bounds(atom, scope))
        if power % 2 == 0 and low is not None:
            low = max(low, 0) if len(monomial) == 1 else low
        elif power % 2 == 0 and len(monomial) == 1:
            low = 0
    return low, high


def _multiplied(a: tuple[Bound, Bound], b: tuple[Bound, Bound]) -> tuple[Bound, Bound]:
    ends = [_times(x, y) for x in _ends(a) for y in _ends(b)]
    low, high = min(ends), max(ends)
    return (None if low == -math.inf else int(low)), (None if high == math.inf else int(high))


def _ends(a: tuple[Bound, Bound]) -> tuple[float, float]:
    return (-math.inf if a[0] is None else a[0]), (math.inf if a[1] is None else a[1])


def _times(x: float, y: float) -> float:
    return 0 if x == 0 or y == 0 else x * y


def atom_bounds(atom: Atom, scope: Any) -> tuple[Bound, Bound]:
    """Return the bounds of a variable or an operation. A variable is at least 1, and within the constraints."""
    if not atom.operands:
        return _variable_bounds(atom, scope)
    key = (atom,)
    found = scope.bounds.get(key)
    if found is None:
        scope.bounds[key] = (None, None)
        found = scope.bounds[key] = _operation_bounds(atom)
    return found


def _variable_bounds(atom: Atom, scope: Any) -> tuple[Bound, Bound]:
    low, high = 1, None
    for constraint in scope.at_least_zero:  # constraints on this variable alone: k*v + c >= 0
        terms = dict(terms_of(constraint))
        k = terms.pop(((atom, 1),), 0)
        if k and not terms.keys() - {()}:
            c = terms.get((), 0)
            if k > 0:
                low = max(low, -(c // k))
            else:
                limit = c // -k
                high = limit if high is None else min(high, limit)
    return low, high


def _operation_bounds(atom: Atom) -> tuple[Bound, Bound]:
    (low, high), (least, greatest) = map(bounds, atom.operands)
    if atom.name == "max":
        return (_greater(low, least), None if high is None or greatest is None else max(high, greatest))
    if atom.name == "min":
        smaller = None if low is None or least is None else min(low, least)
        return smaller, high if greatest is None else greatest if high is None else min(high, greatest)
    if atom.name == "mod":
        if least is not None and least > 0:
            top = None if greatest is None else greatest - 1
            if low is not None and low >= 0 and high is not None:
                top = high if top is None else min(top, high)
            return 0, top
        if greatest is not None and greatest < 0:
            return None if least is None else least + 1, 0
        return None, None
    if least is not None and least > 0:  # floordiv: the extremes are at the least or the greatest divisor, by the sign of x
        down = None if low is None else low // least if low < 0 else 0 if greatest is None else low // greatest
        up = None if high is None else high // least if high >= 0 else -1 if greatest is None else high // greatest
        return down, up
    if greatest is not None and greatest < 0:
        if low is not None and high is not None and least is not None:
            ends = [a // b for a in (low, high) for b in (least, greatest)]
            return min(ends), max(ends)
    return None, None


def _greater(a: Bound, b: Bound) -> Bound:
    return b if a is None else a if b is None else max(a, b)
