"""Parser of shapes and constraints as text: `"b, 2*h, _"`, `"mod(b, 2) == 0"`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from xlafront.symbolic.dimensions import OPERATIONS, DimExpr, divided, linear, max_dim, min_dim, product, variable

_TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d*)?)|([^\W\d]\w*)|(\.\.\.|==|>=|<=|[-+*^(),]))")
_MAKE = {"max": max_dim, "min": min_dim, "floordiv": lambda x, y: divided(x, y)[0], "mod": lambda x, y: divided(x, y)[1]}


class _Reader:
    """Parses a text token by token."""

    def __init__(self, text: str, scope: Any, kind: str):
        self.text, self.scope, self.kind = text, scope, kind
        self.at = self.dimension = 0
        self.token, self.end = self._next(0)

    def _next(self, at: int) -> tuple[str, int]:
        found = _TOKEN.match(self.text, at)
        if found is not None:
            return found.group().strip(), found.end()
        if self.text[at:].strip():
            self.at = at
            raise self.error("a name, a number or one of + - * ^ ( ) ,")
        return "", at

    def error(self, expected: str) -> ValueError:
        return ValueError(f"syntax error in {self.kind} {self.text!r}{self._where()}: expected {expected} after "
                          f"{self.text[:self.at]!r}, got {self.text[self.at:].strip()!r}.")

    def _where(self) -> str:
        return f" in dimension {self.dimension}" if self.kind == "the symbolic shape" else ""

    def take(self, *tokens: str) -> bool:
        """Skip the next token and return True if it is one of these."""
        if self.token not in tokens:
            return False
        self.advance()
        return True

    def advance(self) -> str:
        token, self.at = self.token, self.end
        self.token, self.end = self._next(self.at)
        return token

    def need(self, token: str) -> None:
        if not self.take(token):
            raise self.error(repr(token))

    # expression = ['+'] term {('+' | '-') term}; term = factor {'*' factor}; factor = ['-'] atom ['^' number]

    def expression(self) -> DimExpr | int:
        self.take("+")
        total = self.term()
        while self.token in ("+", "-"):
            sign = 1 if self.advance() == "+" else -1
            total = linear([(total, 1), (self.term(), sign)])
        return total

    def term(self) -> DimExpr | int:
        total = self.factor()
        while self.take("*"):
            total = product(total, self.factor())
        return total

    def factor(self) -> DimExpr | int:
        if self.take("-"):
            return linear([(self.factor(), -1)])
        value = self.atom()
        if self.take("^"):
            value = value ** self.number()
        return value

    def number(self) -> int:
        if not self.token[:1].isdigit() or "." in self.token:
            raise self.error("an integer")
        return int(self.advance())

    def atom(self) -> DimExpr | int:
        if self.token[:1].isdigit():
            return self.number()
        if not (self.token[:1].isalpha() or self.token[:1] == "_" and self.token != "_"):
            raise self.error("a name, a number or '-'")
        if self.token in OPERATIONS and self.text[self.end:].lstrip().startswith("("):
            name = self.advance()
            self.need("(")
            first = self.expression()
            self.need(",")
            second = self.expression()
            self.need(")")
            return _MAKE[name](first, second)
        return variable(self.advance(), self.scope)


def read_shape(text: str, scope: Any, like: Sequence[Any] | None) -> tuple[Any, ...]:
    """Return the shape that a text describes. `_` is the size of `like` at the same position, `...` all its remaining ones.
"""
    reader = _Reader(text, scope, "the symbolic shape")
    closing = reader.take("(")
    shape: list[Any] = []
    while reader.token not in ("", ")"):
        reader.dimension = len(shape)
        if reader.token in ("_", "..."):
            if like is None:
                raise ValueError(f"the symbolic shape {text!r} has {reader.token!r} in dimension {len(shape)}, which refers "
                                 f"to sizes of another shape, and no 'like' shape was given.")
            remaining = list(like[len(shape):])
            if reader.token == "_":
                remaining = remaining[:1] or [None]
            if None in remaining or len(shape) > len(like):
                raise reader.error(f"an expression (like={tuple(like)} has no known size for dimension {len(shape)})")
            shape += remaining
            if reader.advance() == "...":
                break
        else:
            size = reader.expression()
            if like is not None and type(size) is int and len(shape) < len(like) and type(like[len(shape)]) is int and (
                    size != like[len(shape)]):
                raise ValueError(f"the symbolic shape {text!r} has the size {size} in dimension {len(shape)}, a different size "
                                 f"than like={tuple(like)}.")
            shape.append(size)
        if not reader.take(","):
            break
    if closing:
        reader.need(")")
    if reader.token:
        raise reader.error("',' or an operator")
    return tuple(shape)


def read_constraint(text: str, scope: Any) -> tuple[DimExpr | int, str, DimExpr | int]:
    """Return the left side, the relation and the right side of a comparison."""
    if not any([relation in text for relation in ("==", ">=", "<=")]):
        raise ValueError(f"the constraint {text!r} must contain one of '==', '>=' or '<=' between two expressions.")
    reader = _Reader(text, scope, "the constraint")
    left = reader.expression()
    relation = reader.token
    if not reader.take("==", ">=", "<="):
        raise reader.error("one of '==', '>=', '<='")
    right = reader.expression()
    if reader.token:
        raise reader.error("the end")
    return left, relation, right
