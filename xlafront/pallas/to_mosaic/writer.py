"""The writer of TPU kernels: arrays are vectors, scalars are scalars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.core.ir import Jaxpr
from xlafront.lowering.mlir import create, ir
from xlafront.pallas import kernel_elementwise, kernel_equations
from xlafront.pallas.kernel_mlir import Value, Writer, make_context
from xlafront.pallas.to_mosaic import (
    convolutions,
    gathers,
    matrix_units,
    memrefs,
    operations,
    random_keys,
    sparse_core,
    vectors,
)
from xlafront.pallas.tpu import CoreType

_EQUAL, _UNEQUAL, _UNORDERED = 1, 13, 14  # predicates of `arith.cmpf`
# Operations of `math` that Mosaic does not have: `kernel_expansions` computes them.
_EXPANDED = "asin acos atan sinh cosh asinh acosh atanh expm1 cbrt erfc".split()
_COMMON = {name: rule for name, rule in kernel_elementwise.RULES.items() if name not in _EXPANDED}


class MosaicWriter(Writer):
    """Emits the operations of a TPU kernel.

    Attributes:
        grid: Values of the indices along the axes of the grid that the kernel sees.
        axes: Numbers of these axes in the grid of the module.
        transposed_lhs_hint: True if products may fuse a transposed left operand.
        device_axes: Names and sizes of the axes of the mesh of devices.
        core_type: The kind of core that runs the kernel.
        accumulators: Number of accumulators in use, by matrix unit.
        main_memory: Scratch memory in main memory, by the variable of the reference.
    """

    platform = "tpu"
    rules = {**_COMMON, **kernel_equations.RULES, **vectors.RULES, **memrefs.RULES, **operations.RULES,
             **random_keys.RULES, **convolutions.RULES, **matrix_units.RULES, **sparse_core.RULES, **gathers.RULES}

    def __init__(self, label: str, transposed_lhs_hint: bool = False, device_axes: Sequence[tuple[Any, int]] = (),
                 core_type: CoreType = CoreType.TC) -> None:
        super().__init__(make_context("_tpu_ext"), label)
        self.grid: list[ir.Value] = []
        self.axes: list[int] = []
        self.accumulators: dict[int, int] = {}
        self._entry: ir.Block | None = None
        self._scalars: dict[ir.Attribute, ir.Value] = {}
        self.main_memory: dict[Any, memrefs.MemRef] = {}
        self.core_type = core_type
        self.transposed_lhs_hint, self.device_axes = transposed_lhs_hint, tuple(device_axes)

    def allocate_accumulators(self, unit: int, shape: Sequence[int]) -> int:
        """Return the number of the first of the accumulators of a matrix, one for each tile, and count them as used."""
        first = self.accumulators.get(unit, 0)
        rows, columns = shape
        self.accumulators[unit] = first + -(-rows // gathers.SUBLANES) * -(-columns // gathers.LANES)
        return first

    def begin_function(self, entry: ir.Block) -> None:
        """Emit operations in another function from here on, whose entry block is given."""
        self._entry, self._scalars = entry, {}

    def constant_of(self, kind: ir.Type, attribute: ir.Attribute) -> ir.Value:
        """Return a constant of a type. Equal scalars are one operation, at the beginning of the function."""
        if isinstance(kind, ir.ShapedType):
            return super().constant_of(kind, attribute)
        found = self._scalars.get(attribute)
        if found is None:
            found = self._scalars[attribute] = create(
                "arith.constant", results=[kind], attributes={"value": attribute}, loc=self.location,
                ip=ir.InsertionPoint.at_block_begin(self._entry)).result
        return found

    def shaped_type(self, shape: tuple[int, ...], element: ir.Type) -> ir.Type:
        return ir.VectorType.get(shape, element, loc=self.location)

    def broadcast(self, x: ir.Value, shape: tuple[int, ...], new_shape: tuple[int, ...]) -> ir.Value:
        element = x.type.element_type if shape else x.type
        return x if shape == new_shape else self.op("vector.broadcast", [x], self.shaped_type(new_shape, element))

    def reshape(self, x: ir.Value, shape: Sequence[int], new_shape: Sequence[int], dtype: Any) -> ir.Value:
        """Change the shape of a value, also from and to scalars. Scalars are loaded and stored as vectors of one element."""
        shape, new_shape = tuple(shape), tuple(new_shape)
        if shape == new_shape:
            return x
        if not new_shape:
            return self.op("vector.extract", [x], self.type_of((), dtype), {
                "static_position": self.attribute(f"array<i64: {', '.join('0' * len(shape))}>")})
        if not shape:
            return self.broadcast(x, (), new_shape)
        return self.op("vector.shape_cast", [x], self.type_of(new_shape, dtype))

    def compare(self, name: str, predicate: int, x: ir.Value, y: ir.Value, shape: tuple[int, ...]) -> ir.Value:
        """Emit a comparison. Mosaic compares floats in order, so that those that hold for NaN are negations."""
        if name == "arith.cmpi" or predicate not in (_UNEQUAL, _UNORDERED):
            return super().compare(name, predicate, x, y, shape)
        if predicate == _UNEQUAL:
            holds = super().compare(name, _EQUAL, x, y, shape)
        else:
            holds = self.op("arith.andi", [super(MosaicWriter, self).compare(name, _EQUAL, v, v, shape) for v in (x, y)])
        return self.op("arith.xori", [holds, self.constant(np.True_, shape)])

    def lower(self, jaxpr: Jaxpr, args: Sequence[Value]) -> list[Value]:
        """Emit the operations of a jaxpr, and return its results."""
        return kernel_equations.lower_equations(self, jaxpr, args)


def int32(w: Writer, n: int) -> ir.Value:
    return w.constant(np.int32(n))
