"""Sizes that a module computes: dimension variables as values, shapes as operands, and the operations that take them.

Each function of a module with dimension variables gets their values as leading arguments (after its tokens); `main` computes
them from its arguments. XLA's refinement turns all of it into constants when the arguments' shapes are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.core.avals import ShapedArray
from xlafront.core.dimension_solving import ArgumentShape, solve
from xlafront.core.dimensions import DimExpr, evaluate, is_symbolic, variables
from xlafront.lowering import mlir
from xlafront.lowering.mlir import create, ir, tensor_type

_INT32 = np.dtype(np.int32)
_BOOL = np.dtype(bool)


def scalar_type() -> ir.Type:
    return tensor_type((), _INT32)


def _constant(value) -> ir.Value:
    attribute = mlir.dense(np.asarray(value, _INT32))
    return create("stablehlo.constant", results=[attribute.type], attributes={"value": attribute},
                  loc=mlir.unknown_location).result


def _op(name: str, operands: Sequence[ir.Value], kind: ir.Type, **attributes) -> ir.Value:
    return create(name, results=[kind], operands=operands, attributes=attributes or None, loc=mlir.unknown_location).result


def _compare(direction: str, x: ir.Value, y: ir.Value) -> ir.Value:
    return _op("stablehlo.compare", [x, y], tensor_type((), _BOOL),
               comparison_direction=mlir.attribute(f"#stablehlo<comparison_direction {direction}>"),
               compare_type=mlir.attribute("#stablehlo<comparison_type SIGNED>"))


class SizeValue:
    """An integer that the module computes, with Python's arithmetic."""

    __slots__ = ("value",)

    def __init__(self, value: ir.Value):
        self.value = value

    def _with(self, name: str, other: Any) -> SizeValue:
        return SizeValue(_op(f"stablehlo.{name}", [self.value, value_of(other)], scalar_type()))

    def __add__(self, other):
        return self._with("add", other)

    def __sub__(self, other):
        return self._with("subtract", other)

    def __mul__(self, other):
        return self._with("multiply", other)

    def max(self, other):
        return self._with("maximum", other)

    def min(self, other):
        return self._with("minimum", other)

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other):
        return SizeValue(value_of(other)) - self

    def __floordiv__(self, other):
        return _division(self, other)[0]

    def __rfloordiv__(self, other):
        return _division(SizeValue(value_of(other)), self)[0]

    def __mod__(self, other):
        return _division(self, other)[1]

    def __rmod__(self, other):
        return _division(SizeValue(value_of(other)), self)[1]


def value_of(x: SizeValue | int) -> ir.Value:
    return x.value if type(x) is SizeValue else _constant(x)


def _division(x: SizeValue, y: SizeValue | int) -> tuple[SizeValue, SizeValue]:
    """Quotient and remainder as Python rounds them: StableHLO's quotient is rounded towards 0."""
    quotient, rest, divisor, zero = x._with("divide", y), x._with("remainder", y), value_of(y), _constant(0)
    signs = [SizeValue(_op("stablehlo.sign", [v], scalar_type())) for v in (rest.value, divisor)]
    differ = _compare("LT", (signs[0] * signs[1]).value, zero)
    return tuple([SizeValue(_op("stablehlo.select", [differ, adjusted.value, plain.value], scalar_type()))
                  for adjusted, plain in ((quotient - 1, quotient), (rest + SizeValue(divisor), rest))])  # type: ignore


class Sizes:
    """The values of dimension variables in a function, and of sizes in one block of it."""

    __slots__ = ("variables", "known")

    def __init__(self, values: dict[str, ir.Value]):
        self.variables = values
        self.known: dict[Any, ir.Value] = {}

    def inside(self) -> Sizes:
        """For a region, which may use what is defined around it."""
        inner = Sizes(self.variables)
        inner.known = dict(self.known)
        return inner

    def scalar(self, size: DimExpr | int) -> ir.Value:
        found = self.known.get(size)
        if found is None:
            missing = variables(size) - self.variables.keys()
            if missing:
                raise ValueError(f"the size '{size}' cannot be computed: no argument of the program has a size from which "
                                 f"{', '.join(map(repr, sorted(missing)))} follows.")
            env = {name: SizeValue(value) for name, value in self.variables.items()}
            found = self.known[size] = value_of(evaluate(size, env))
        return found

    def vector(self, sizes: Sequence[Any], dtype=_INT32) -> ir.Value:
        """Sizes as a tensor of one dimension."""
        key = (tuple(sizes), dtype)
        found = self.known.get(key)
        if found is None:
            if not is_symbolic(sizes):
                found = _constant(list(sizes))
            else:
                parts = [_op("stablehlo.reshape", [self.scalar(n)], tensor_type((1,), _INT32)) for n in sizes]
                found = parts[0] if len(parts) == 1 else _op("stablehlo.concatenate", parts, tensor_type(
                    (len(parts),), _INT32), dimension=mlir.i64(0))
            if dtype != _INT32:
                found = _op("stablehlo.convert", [found], tensor_type((len(key[0]),), dtype))
            self.known[key] = found
        return found

    def broadcast(self, x: ir.Value, shape: Sequence[Any], dims: Sequence[int], kind: ir.Type,
                  loc=mlir.unknown_location) -> ir.Value:
        """A value spread over a shape, whose last sizes are those of elements."""
        return create("stablehlo.dynamic_broadcast_in_dim", results=[kind], operands=[x, self.vector(shape)],
                      attributes={"broadcast_dimensions": mlir.i64s(dims)}, loc=loc).result


def variables_of(avals) -> tuple[str, ...]:
    """The dimension variables in the types of arguments."""
    found = set()
    for aval in avals:
        for n in aval.shape if isinstance(aval, ShapedArray) else ():
            if type(n) is DimExpr:
                found |= n.get_vars()
    return tuple(sorted(found))


def from_arguments(names: Sequence[str], avals: Sequence[Any], arguments: Sequence[ir.Value]) -> dict[str, ir.Value]:
    """The dimension variables by the sizes of the arguments of `main`; it checks that the sizes fit."""
    shapes = [ArgumentShape(name, aval.shape) for name, aval in zip(names, avals) if isinstance(aval, ShapedArray)]
    values = [x for x, aval in zip(arguments, avals) if isinstance(aval, ShapedArray)]

    def size_of(i: int, d: int) -> SizeValue:
        return SizeValue(_op("stablehlo.get_dimension_size", [values[i]], scalar_type(), dimension=mlir.i64(d)))

    def check(relation: str, value: Any, text: str, shown: Sequence[Any]) -> None:
        holds = _compare("EQ" if relation == "==" else "GE", value_of(value), _constant(0))
        create("stablehlo.custom_call", results=[], operands=[holds, *map(value_of, shown)], attributes={
            "call_target_name": mlir.string("shape_assertion"), "has_side_effect": mlir.boolean(True),
            "api_version": mlir.i32(2), "error_message": mlir.string(text)}, loc=mlir.unknown_location)

    found = solve(shapes, size_of, check)
    return {name: value_of(value) for name, value in found.items()}
