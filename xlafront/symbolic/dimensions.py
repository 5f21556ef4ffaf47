"""Symbolic dimensions: sizes that are unknown during tracing, as expressions over variables.

An expression such as `2*b + 1` or `floordiv(a, 2)` is a polynomial with integer coefficients over atoms: variables, and
operations that no polynomial expresses (`floordiv`, `mod`, `max`, `min`). It is stored in a canonical form, so that equal
forms are equal expressions. A result without variables is an `int`. `dimension_bounds` decides comparisons;
`dimension_text` parses text. As an operand of array operations an expression becomes an array, by `dim_as_value`.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from xlafront.core import dtypes, errors, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.primitive import Cost, Primitive, Traits

# A product of powers of atoms, as sorted (atom, power) pairs; () is the number 1.
Monomial = tuple[tuple["Atom", int], ...]


@functools.total_ordering
class Atom:
    """A variable, or an operation on expressions; ordered as they are printed in products."""

    __slots__ = ("name", "operands", "weight", "_key", "_hash")

    def __init__(self, name: str, operands: tuple[DimExpr | int, ...] = ()):
        self.name, self.operands = name, operands
        self.weight = 1 + sum([x.weight if type(x) is DimExpr else 0 for x in operands])
        self._key = (len(operands) > 0, self.weight, name, *[_order_of(x) for x in operands])
        self._hash = hash((name, operands))

    def __eq__(self, other):
        return self is other or (type(other) is Atom and self._hash == other._hash and self.name == other.name
                                 and self.operands == other.operands)

    def __lt__(self, other):
        return self._key < other._key

    def __hash__(self):
        return self._hash

    def __str__(self):
        operands = [f"- {-x}" if type(x) is int and x < 0 else str(x) for x in self.operands]
        return f"{self.name}({', '.join(operands)})" if operands else self.name

    __repr__ = __str__

    def value(self, env: Mapping[str, Any]) -> Any:
        """Return the value for values of the variables."""
        if self.operands:
            return OPERATIONS[self.name](*[evaluate(x, env) for x in self.operands])
        try:
            return env[self.name]
        except KeyError:
            raise KeyError(f"the dimension variable '{self.name}' has no value; the variables with values are: "
                           f"{', '.join(map(repr, env)) or 'none'}.") from None


@functools.lru_cache(4096)
def _monomial_order(monomial: Monomial) -> tuple:
    """Return the sort key of a product: its operations, number of atoms, total power, and atoms in descending order."""
    operations = tuple([atom for atom, _ in reversed(monomial) if atom.operands])
    return operations, len(monomial), sum([power for _, power in monomial]), tuple(reversed(monomial))


def _order_of(x: DimExpr | int) -> tuple:
    if type(x) is DimExpr:
        return tuple([(_monomial_order(m), k) for m, k in x.terms])
    return ((_monomial_order(()), x),)


class DimExpr:
    """The size of a dimension as an expression. Created by `export.symbolic_shape` and by arithmetic."""

    __slots__ = ("terms", "scope", "weight", "_hash")

    __array_priority__ = 1000  # NumPy leaves arithmetic with its scalars and arrays to this class
    __array_ufunc__ = None
    terms: tuple[tuple[Monomial, int], ...]  # products and their coefficients, greatest first

    def __init__(self, terms: tuple[tuple[Monomial, int], ...], scope: Any):
        self.terms, self.scope = terms, scope
        self.weight = sum([atom.weight * power for m, _ in terms for atom, power in m]) + len(terms) - 1
        self._hash = hash((terms, id(scope)))

    def __hash__(self):
        return self._hash

    def __repr__(self):
        words: list[str] = []
        for monomial, k in self.terms:
            product = "*".join([str(atom) if power == 1 else f"{atom}^{power}" for atom, power in monomial])
            size = abs(k)
            text = str(size) if not product else product if size == 1 else f"{size}*{product}"
            words += ["-", text] if k < 0 else ["+", text] if words else [text]
        return " ".join(words)

    def get_vars(self) -> set[str]:
        """Return the names of the variables in the expression."""
        found: set[str] = set()
        for monomial, _ in self.terms:
            for atom, _ in monomial:
                found.update(*[variables(x) for x in atom.operands] if atom.operands else [(atom.name,)])
        return found

    def __deepcopy__(self, memo):
        return self

    def __copy__(self):
        return self

    # Comparison: expressions are equal if their forms and scopes are; an undecided order raises.

    def __eq__(self, other):
        return self is other or (type(other) is DimExpr and self._hash == other._hash and self.scope is other.scope
                                 and self.terms == other.terms)

    def __bool__(self):
        return True  # (0 is an int)

    def __ge__(self, other):
        return self._compared(other, operator.ge, lambda o: is_at_least(self, o, f"'{self}' >= '{o}'"))

    def __gt__(self, other):
        return self._compared(other, operator.gt, lambda o: not is_at_least(o, self, f"'{self}' > '{o}'"))

    def __le__(self, other):
        return self._compared(other, operator.le, lambda o: is_at_least(o, self, f"'{self}' <= '{o}'"))

    def __lt__(self, other):
        return self._compared(other, operator.lt, lambda o: not is_at_least(self, o, f"'{self}' < '{o}'"))

    def _compared(self, other: Any, on_arrays: Callable, on_dimensions: Callable) -> Any:
        dimension = as_dimension(other)
        return on_arrays(as_array(self), other) if dimension is None else on_dimensions(dimension)

    # Arithmetic with integers and expressions; with other operands an expression becomes an array.

    def __add__(self, other):
        dimension = as_dimension(other)
        return as_array(self) + other if dimension is None else linear([(self, 1), (dimension, 1)])

    __radd__ = __add__

    def __sub__(self, other):
        dimension = as_dimension(other)
        return as_array(self) - other if dimension is None else linear([(self, 1), (dimension, -1)])

    def __rsub__(self, other):
        dimension = as_dimension(other)
        return other - as_array(self) if dimension is None else linear([(dimension, 1), (self, -1)])

    def __neg__(self):
        return DimExpr(tuple([(m, -k) for m, k in self.terms]), self.scope)

    def __pos__(self):
        return self

    def __mul__(self, other):
        dimension = as_dimension(other)
        return as_array(self) * other if dimension is None else product(self, dimension)

    __rmul__ = __mul__

    def __pow__(self, power):
        if not isinstance(power, (int, float, np.integer)):
            return as_array(self) ** power
        if isinstance(power, float) or power < 0:
            raise ValueError(f"powers of a symbolic dimension must be non-negative integers, got ({self})**{power}.")
        result: DimExpr | int = 1
        for _ in range(int(power)):
            result = self * result
        return result

    def __rpow__(self, other):
        return other ** as_array(self)

    def __floordiv__(self, other):
        dimension = as_dimension(other)
        return as_array(self) // other if dimension is None else divided(self, dimension)[0]

    def __rfloordiv__(self, other):
        dimension = as_dimension(other)
        return other // as_array(self) if dimension is None else divided(dimension, self)[0]

    def __mod__(self, other):
        dimension = as_dimension(other)
        return as_array(self) % other if dimension is None else divided(self, dimension)[1]

    def __rmod__(self, other):
        dimension = as_dimension(other)
        return other % as_array(self) if dimension is None else divided(dimension, self)[1]

    def __divmod__(self, other):
        dimension = as_dimension(other)
        return divmod(as_array(self), other) if dimension is None else divided(self, dimension)

    def __rdivmod__(self, other):
        dimension = as_dimension(other)
        return divmod(other, as_array(self)) if dimension is None else divided(dimension, self)

    def __truediv__(self, other):
        return as_array(self) / other

    def __rtruediv__(self, other):
        return other / as_array(self)

    # Use as an operand of array operations.

    aval = property(lambda self: _value_abstract(dim=self))

    def __xlafront_array__(self):
        return as_array(self)

    __jax_array__ = __xlafront_array__

    def __int__(self):
        raise errors.InconclusiveDimensionOperation(
            f"the symbolic dimension '{self}' was used where a constant integer is needed (int(), an index of a list, a "
            f"range): its value is only known when the program runs. Write the computation with arrays "
            f"(xlafront.numpy.arange, lax.fori_loop), or export with a fixed size of this dimension.{about(self.scope)}")


# Scopes are in `symbolic_shapes`. Here only their `rules`, `constraints` and `bounds_of(expression)` are used.


def about(scope: Any) -> str:
    """Return the constraints of a scope, for messages."""
    return f" Known constraints: {'; '.join([c.text for c in scope.constraints])}." if scope.constraints else ""


# Polynomials


def is_symbolic_dim(p: Any) -> bool:
    """True if a size is an expression over dimension variables.

    Args:
        p: An element of a shape.

    Returns:
        A bool.

    Example:
        >>> [xf.export.is_symbolic_dim(d) for d in (*xf.export.symbolic_shape("a"), 3)]
        [True, False]
    """
    return type(p) is DimExpr


def is_symbolic(shape: Iterable[Any]) -> bool:
    """True if a shape has symbolic dimensions."""
    for n in shape:
        if type(n) is DimExpr:
            return True
    return False


def as_dimension(x: Any) -> DimExpr | int | None:
    """Return an expression unchanged, an integer as a Python int, and None for other values."""
    if type(x) is DimExpr or type(x) is int:
        return x
    if isinstance(x, (int, np.integer)):
        return int(x)
    return None


def as_size(x: Any) -> Any:
    """Return a user's size or position as an integer, or an expression unchanged."""
    return x if type(x) is DimExpr else operator.index(x)


def common_shape(*shapes: Any) -> tuple[Any, ...]:
    """Return `numpy.broadcast_shapes`, with support for expressions: sizes must be equal, or 1."""
    try:
        return np.broadcast_shapes(*shapes)
    except TypeError:
        rank = max(map(len, shapes))
        joint = [1] * rank
        for shape in shapes:
            for i, n in enumerate(shape, rank - len(shape)):
                if joint[i] != n and n != 1:
                    if joint[i] != 1:
                        raise ValueError(f"the shapes {', '.join(map(str, shapes))} do not broadcast: sizes must be equal "
                                         f"or 1.") from None
                    joint[i] = n
        return tuple(joint)


def known(n: Any, otherwise: int) -> int:
    """Return a size, or `otherwise` if it is symbolic; for choices that affect only performance."""
    return otherwise if type(n) is DimExpr else n


def variables(x: DimExpr | int) -> set[str]:
    return x.get_vars() if type(x) is DimExpr else set()


def variable(name: str, scope: Any) -> DimExpr | int:
    return from_terms({((Atom(name), 1),): 1}, scope)


def _common_scope(x: DimExpr | int, y: DimExpr | int) -> Any:
    if type(x) is not DimExpr:
        return y.scope  # type: ignore[union-attr]
    if type(y) is DimExpr:
        check_one_scope([x, y])
    return x.scope


def check_one_scope(sizes: Sequence[DimExpr]) -> None:
    for n in sizes[1:]:
        if n.scope is not sizes[0].scope:
            raise ValueError(f"invalid mixing of symbolic scopes: the dimensions '{sizes[0]}' and '{n}' are of different "
                             f"symbolic scopes, {sizes[0].scope} and {n.scope}. Create them in one call of symbolic_shape or "
                             f"symbolic_args_specs, or pass scope=other.scope.")


def from_terms(terms: Mapping[Monomial, int], scope: Any) -> DimExpr | int:
    """Return the expression of a polynomial, simplified by the equations of the scope."""
    nonzero = {m: k for m, k in terms.items() if k}
    if scope.rules:
        for monomial, k in list(nonzero.items()):
            for pattern, (count, replacement) in scope.rules.items():
                rest = monomial_quotient(monomial, pattern)
                if rest is not None and k % count == 0:
                    others = from_terms({m: j for m, j in nonzero.items() if m != monomial}, scope)
                    factor = from_terms({rest: k // count}, scope)
                    return linear([(others, 1), (product(factor, replacement), 1)])
    if not nonzero:
        return 0
    if len(nonzero) == 1 and () in nonzero:
        return nonzero[()]
    return DimExpr(tuple(sorted(nonzero.items(), key=lambda item: _monomial_order(item[0]), reverse=True)), scope)


def terms_of(x: DimExpr | int) -> tuple[tuple[Monomial, int], ...]:
    return x.terms if isinstance(x, DimExpr) else (((), x),) if x else ()


def linear(summands: Iterable[tuple[DimExpr | int, int]]) -> DimExpr | int:
    """Return the sum of expressions times integers."""
    found: dict[Monomial, int] = {}
    some: DimExpr | None = None
    for x, factor in summands:
        if type(x) is DimExpr:
            if some is not None:
                _common_scope(some, x)
            some = x
        for monomial, k in terms_of(x):
            found[monomial] = found.get(monomial, 0) + k * factor
    return found.get((), 0) if some is None else from_terms(found, some.scope)


def _times(a: Monomial, b: Monomial) -> Monomial:
    powers = dict(a)
    for atom, power in b:
        powers[atom] = powers.get(atom, 0) + power
    return tuple(sorted(powers.items()))


def monomial_quotient(a: Monomial, b: Monomial) -> Monomial | None:
    """Return the product by which `b` must be multiplied to give `a`, or None."""
    powers = dict(a)
    for atom, power in b:
        left = powers.get(atom, 0) - power
        if left < 0:
            return None
        powers[atom] = left
    return tuple([(atom, power) for atom, power in sorted(powers.items()) if power])


def product(x: DimExpr | int, y: DimExpr | int) -> DimExpr | int:
    if type(x) is not DimExpr:
        if type(y) is not DimExpr:
            return x * y
        x, y = y, x
    scope = _common_scope(x, y)
    found: dict[Monomial, int] = {}
    for m, j in x.terms:
        for n, k in terms_of(y):
            both = _times(m, n)
            found[both] = found.get(both, 0) + j * k
    return from_terms(found, scope)


def _operation(name: str, x: DimExpr | int, y: DimExpr | int) -> DimExpr | int:
    return from_terms({((Atom(name, (x, y)), 1),): 1}, _common_scope(x, y))


def divided(x: DimExpr | int, y: DimExpr | int) -> tuple[DimExpr | int, DimExpr | int]:
    """Return the quotient and the remainder, as of Python integers; they are polynomials if the division is exact."""
    if type(x) is not DimExpr and type(y) is not DimExpr:
        return divmod(x, y)
    if y == 0:
        raise ZeroDivisionError(f"the dimension '{x}' was divided by 0.")
    (lead, lead_coefficient), *_ = terms_of(y)
    quotient: DimExpr | int = 0
    rest = x
    while rest != 0:
        (monomial, k), *_ = terms_of(rest)
        factor = monomial_quotient(monomial, lead)
        if factor is None or k % lead_coefficient:
            break
        step = from_terms({factor: k // lead_coefficient}, _common_scope(x, y))
        quotient, rest = linear([(quotient, 1), (step, 1)]), linear([(rest, 1), (product(step, y), -1)])
    if rest == 0:
        return quotient, 0
    if type(rest) is not DimExpr and type(y) is not DimExpr:
        count, rest = divmod(rest, y)
        return linear([(quotient, 1), (count, 1)]), rest
    return _operation("floordiv", x, y), _operation("mod", x, y)


def max_dim(d1: DimExpr | int, d2: DimExpr | int) -> DimExpr | int:
    """Return the maximum of two sizes, as an expression if it depends on the variables.

    Args:
        d1, d2: Integers or expressions over dimension variables.

    Returns:
        An integer or an expression.

    Example:
        >>> [xf.core.max_dim(a, 0) for a in xf.export.symbolic_shape("a")]
        [a]
    """
    return _chosen("max", d1, d2)


def min_dim(d1: DimExpr | int, d2: DimExpr | int) -> DimExpr | int:
    """Return the minimum of two sizes, as an expression if it depends on the variables.

    Args:
        d1, d2: Integers or expressions over dimension variables.

    Returns:
        An integer or an expression.

    Example:
        >>> [xf.core.min_dim(a, 4) for a in xf.export.symbolic_shape("a")]
        [min(a, 4)]
    """
    return _chosen("min", d1, d2)


def _chosen(name: str, x: Any, y: Any) -> Any:
    if type(x) is not DimExpr and type(y) is not DimExpr:
        if isinstance(x, (int, np.integer)):
            x, y = y, x
        return (max if name == "max" else min)(x, y) if isinstance(x, (int, np.integer)) else getattr(x, name)(y)
    difference = linear([(x, 1), (y, -1)])
    low, high = difference.scope.bounds_of(difference) if type(difference) is DimExpr else (difference, difference)
    if low is not None and low >= 0:
        return x if name == "max" else y
    if high is not None and high <= 0:
        return y if name == "max" else x
    return _operation(name, x, y)


def symbolic_slice(item: slice, n: DimExpr | int) -> tuple[Any, Any, Any, Any]:
    """Return the start, size, step and span of a slice of a dimension; its size, the bounds or the step are expressions.

    The span is the number of positions between the bounds, or a negative number that gives the size 0 too.
    """
    step = 1 if item.step is None else as_size(item.step)
    if step == 0:
        raise ValueError("slice step cannot be zero")
    forwards = step > 0
    ends = (0, n) if forwards else (-1, n - 1)  # positions outside are clipped to these

    def clipped(given, default):
        if given is None:
            return default
        given = as_size(given)
        return max_dim(ends[0], given + n) if given < 0 else min_dim(ends[1], given)

    start, stop = clipped(item.start, 0 if forwards else n - 1), clipped(item.stop, n if forwards else -1)
    size = range_size(start, stop, step)
    stride = step if forwards else -step
    return start, size, step, max_dim(0, (stop - start if forwards else start - stop) + stride - 1) - stride + 1


def range_size(start: DimExpr | int, stop: DimExpr | int, step: DimExpr | int) -> DimExpr | int:
    """Return the length of `range(start, stop, step)`."""
    span, stride = (stop - start, step) if step > 0 else (start - stop, -step)
    return max_dim(0, span + stride - 1) // stride


def is_at_least(x: DimExpr | int, y: DimExpr | int, shown: str) -> bool:
    """True if `x >= y` for all values of the variables, False if for none; raise if it depends on them.

    `shown` is the comparison in the error.
    """
    difference = linear([(x, 1), (y, -1)])
    if type(difference) is not DimExpr:
        return difference >= 0
    low, high = difference.scope.bounds_of(difference)
    if low is not None and low >= 0:
        return True
    if high is not None and high < 0:
        return False
    raise errors.InconclusiveDimensionOperation(
        f"the comparison {shown} of symbolic dimensions is inconclusive: it may hold for some values of the variables and "
        f"not for others. Every variable is at least 1.{about(difference.scope)} Add constraints, as in "
        f"symbolic_shape(..., constraints=['{linear([(x, 1)])} >= {linear([(y, 1)])}']), or use core.max_dim(x, y) or "
        f"core.min_dim(x, y) for the larger or smaller of two sizes.")


def may_equal(x: DimExpr | int, y: DimExpr | int) -> bool:
    """True if the bounds of two sizes allow that they are equal for some values of the variables."""
    if x == y:
        return True
    difference = linear([(x, 1), (y, -1)])
    low, high = difference.scope.bounds_of(difference) if type(difference) is DimExpr else (difference, difference)
    return (low is None or low <= 0) and (high is None or high >= 0)


def exact_quotient(x: DimExpr | int, y: DimExpr | int) -> DimExpr | int | None:
    """Return `x / y` if the division is known to be exact, else None. `y` is not 0."""
    for divisor in (y, -y):  # constraints may be on either
        quotient, rest = divided(x, divisor)
        if rest == 0:
            return quotient if divisor is y else -quotient
    return None


def evaluate(x: DimExpr | int, env: Mapping[str, Any]) -> Any:
    """Return the value of an expression for values of the variables: integers, or any values that add, multiply and divide.
"""
    if type(x) is not DimExpr:
        return x
    total: Any = None
    for monomial, k in x.terms:
        term: Any = None
        for atom, power in monomial:
            value = atom.value(env)
            for _ in range(power):
                term = value if term is None else term * value
        term = k if term is None else term if k == 1 else term * k
        total = term if total is None else total + term
    return total


OPERATIONS: dict[str, Callable] = {
    "floordiv": operator.floordiv, "mod": operator.mod, "max": max_dim, "min": min_dim}


# Expressions as arrays


def _value_abstract(*, dim) -> ShapedArray:
    return ShapedArray((), dtypes.canonicalize_dtype(np.int64), True)


def _eager_value(*, dim):
    raise NotImplementedError(f"the symbolic dimension '{dim}' was used as an array outside of a traced function: it has a "
                              f"value only when the exported program runs. Compute with it inside of the exported function, as "
                              f"in jit(f).trace(ShapeDtypeStruct(({dim},), 'float32')).")


dim_as_value_p = Primitive(
    "dim_as_value", abstract=_value_abstract, lower=lambda ctx, *, dim: ctx.dimension_as_value(dim), impl=_eager_value,
    traits=Traits(cost=Cost.CHEAP))


def as_array(dim: DimExpr) -> Any:
    """Return the integer array that holds the size when the program runs."""
    return dim_as_value_p.bind(dim=dim)


tracing.aval_of_type[DimExpr] = lambda x: x.aval
tracing.symbolic_constants[DimExpr] = as_array
