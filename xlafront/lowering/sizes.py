"""Sizes that are computed by the module: values of dimension variables, shapes as operands, dynamically shaped operations.

In a module with dimension variables, each function takes their values as leading arguments, after its tokens. `main` computes
them from the shapes of its arguments. XLA's refinement folds all of these computations once the argument shapes are static.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.core.avals import ShapedArray
from xlafront.lowering import mlir
from xlafront.lowering.mlir import create, ir, tensor_type
from xlafront.symbolic.dimensions import DimExpr, evaluate, is_symbolic, variables
from xlafront.symbolic.solving import ArgumentShape, solve

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
    """An integer that the module computes, with Python's arithmetic operators."""

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
    """Return quotient and remainder with Python's rounding; StableHLO's division rounds toward zero."""
    quotient, remainder, divisor, zero = x._with("divide", y), x._with("remainder", y), value_of(y), _constant(0)
    signs = [SizeValue(_op("stablehlo.sign", [v], scalar_type())) for v in (remainder.value, divisor)]
    differ = _compare("LT", (signs[0] * signs[1]).value, zero)
    pairs = (quotient - 1, quotient), (remainder + SizeValue(divisor), remainder)
    return tuple([SizeValue(_op("stablehlo.select", [differ, adjusted.value, plain.value], scalar_type()))
                  for adjusted, plain in pairs])  # type: ignore


class Sizes:
    """The values of dimension variables in a function, and of computed sizes in one of its blocks."""

    __slots__ = ("variables", "cache")

    def __init__(self, values: dict[str, ir.Value]):
        self.variables = values
        self.cache: dict[Any, ir.Value] = {}

    def inside(self) -> Sizes:
        """Return the sizes for a region, which can use values defined in the enclosing block."""
        inner = Sizes(self.variables)
        inner.cache = dict(self.cache)
        return inner

    def scalar(self, size: DimExpr | int) -> ir.Value:
        value = self.cache.get(size)
        if value is None:
            missing = variables(size) - self.variables.keys()
            if missing:
                raise ValueError(f"the size '{size}' cannot be computed: no argument of the program has a size from which "
                                 f"{', '.join(map(repr, sorted(missing)))} follows.")
            env = {name: SizeValue(value) for name, value in self.variables.items()}
            value = self.cache[size] = value_of(evaluate(size, env))
        return value

    def vector(self, sizes: Sequence[Any], dtype=_INT32) -> ir.Value:
        """Return sizes as a one-dimensional tensor."""
        key = (tuple(sizes), dtype)
        value = self.cache.get(key)
        if value is None:
            if not is_symbolic(sizes):
                value = _constant(list(sizes))
            else:
                components = [_op("stablehlo.reshape", [self.scalar(n)], tensor_type((1,), _INT32)) for n in sizes]
                value = components[0] if len(components) == 1 else _op("stablehlo.concatenate", components, tensor_type(
                    (len(components),), _INT32), dimension=mlir.i64(0))
            if dtype != _INT32:
                value = _op("stablehlo.convert", [value], tensor_type((len(key[0]),), dtype))
            self.cache[key] = value
        return value

    def broadcast(self, x: ir.Value, shape: Sequence[Any], dims: Sequence[int], kind: ir.Type,
                  loc=mlir.unknown_location) -> ir.Value:
        """Broadcast a value to a shape, which includes the physical dimensions of elements."""
        return create("stablehlo.dynamic_broadcast_in_dim", results=[kind], operands=[x, self.vector(shape)],
                      attributes={"broadcast_dimensions": mlir.i64s(dims)}, loc=loc).result


def variables_of(avals) -> tuple[str, ...]:
    """Return the dimension variables in the types of the arguments, sorted by name."""
    names = set()
    for aval in avals:
        for n in aval.shape if isinstance(aval, ShapedArray) else ():
            if type(n) is DimExpr:
                names |= n.get_vars()
    return tuple(sorted(names))


def from_arguments(names: Sequence[str], avals: Sequence[Any], arguments: Sequence[ir.Value]) -> dict[str, ir.Value]:
    """Compute the dimension variables from the shapes of `main`'s arguments, and emit checks of these shapes."""
    shapes = [ArgumentShape(name, aval.shape) for name, aval in zip(names, avals) if isinstance(aval, ShapedArray)]
    values = [x for x, aval in zip(arguments, avals) if isinstance(aval, ShapedArray)]

    def size_of(i: int, d: int) -> SizeValue:
        return SizeValue(_op("stablehlo.get_dimension_size", [values[i]], scalar_type(), dimension=mlir.i64(d)))

    def check(relation: str, value: Any, text: str, details: Sequence[Any]) -> None:
        holds = _compare("EQ" if relation == "==" else "GE", value_of(value), _constant(0))
        create("stablehlo.custom_call", results=[], operands=[holds, *map(value_of, details)], attributes={
            "call_target_name": mlir.string("shape_assertion"), "has_side_effect": mlir.boolean(True),
            "api_version": mlir.i32(2), "error_message": mlir.string(text)}, loc=mlir.unknown_location)

    values_by_name = solve(shapes, size_of, check)
    return {name: value_of(value) for name, value in values_by_name.items()}
