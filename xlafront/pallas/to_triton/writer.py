"""The writer of Triton's operations: tensors whose sizes are powers of two, and pointers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.lowering.mlir import create, ir
from xlafront.pallas.kernel_elementwise import convert
from xlafront.pallas.kernel_mlir import Value, Writer, bit_width, element_type, kind_of, make_context

MAX_ELEMENTS = 1 << 20  # of a tensor, by Triton's verifier


def context() -> ir.Context:
    """Return the context of Triton's modules."""
    return make_context("_triton_ext")


def is_power_of_two(n: int) -> bool:
    return n > 0 and not n & (n - 1)


class TritonWriter(Writer):
    """Emits operations of a kernel for Triton.

    Args:
        label: The kernel's name and position, for messages.

    Attributes:
        program_ids: The kernel's index along each axis of its grid.
    """

    platform = "cuda"
    bitcast = "tt.bitcast"

    def __init__(self, label: str) -> None:
        super().__init__(context(), label)
        self.program_ids: list[Value] = []

    def shaped_type(self, shape: tuple[int, ...], element: ir.Type) -> ir.Type:
        sizes = [n for n in shape if not is_power_of_two(n)]
        if sizes:
            raise ValueError(f"{self.where()}an array of shape {shape} has a size that is not a power of two, {sizes[0]}, as "
                             f"all sizes in kernels that are compiled for GPUs must be. Use larger blocks of "
                             f"{tuple([1 << (n - 1).bit_length() if n else 1 for n in shape])}, and mask the elements beyond.")
        if int(np.prod(shape)) > MAX_ELEMENTS:
            raise ValueError(f"{self.where()}an array of shape {shape} has more than {MAX_ELEMENTS} elements, the maximum in "
                             f"kernels that are compiled for GPUs. Use smaller blocks and a larger grid.")
        return ir.RankedTensorType.get(shape, element, loc=self.location)

    def broadcast(self, x: ir.Value, shape: tuple[int, ...], new_shape: tuple[int, ...]) -> ir.Value:
        if shape == new_shape:
            return x
        if not shape:
            return self.op("tt.splat", [x], self.shaped_type(new_shape, x.type))
        element = ir.RankedTensorType(x.type).element_type
        while len(shape) < len(new_shape):
            x, shape = self.expand(x, shape, 0), (1, *shape)
        return x if shape == new_shape else self.op("tt.broadcast", [x], self.shaped_type(new_shape, element))

    def expand(self, x: ir.Value, shape: tuple[int, ...], axis: int) -> ir.Value:
        """Insert a dimension of size 1."""
        element = ir.RankedTensorType(x.type).element_type
        return self.op("tt.expand_dims", [x], self.shaped_type((*shape[:axis], 1, *shape[axis:]), element),
                       {"axis": self.attribute(f"{axis} : i32")})

    def along(self, x: ir.Value, axis: int, rank: int) -> ir.Value:
        """Make a vector one of rank `rank`, along `axis`."""
        shape = tuple(ir.RankedTensorType(x.type).shape)
        for i in range(rank):
            if i != axis:
                x = self.expand(x, shape, i)
                shape = (*shape[:i], 1, *shape[i:])
        return x

    def range(self, size: int) -> ir.Value:
        """Return the integers below a size, as int32."""
        kind = self.type_of((size,), np.int32)
        return self.op("tt.make_range", [], kind, {"start": self.attribute("0 : i32"), "end": self.attribute(f"{size} : i32")})

    def reshape(self, x: ir.Value, shape: tuple[int, ...], new_shape: tuple[int, ...], dtype: Any) -> ir.Value:
        if shape == new_shape:
            return x
        if not shape:
            return self.broadcast(x, shape, new_shape)
        if not new_shape:
            return self.op("tt.unsplat", [self.reshape(x, shape, (1,), dtype)], self.type_of((), dtype))
        axis = next((i for i, n in enumerate(new_shape) if n == 1 and (*new_shape[:i], *new_shape[i + 1:]) == shape), None)
        if axis is not None:
            return self.expand(x, shape, axis)
        return self.op("tt.reshape", [x], self.type_of(new_shape, dtype))

    def transpose(self, x: ir.Value, shape: tuple[int, ...], permutation: Sequence[int], dtype: Any) -> ir.Value:
        if list(permutation) == list(range(len(shape))):
            return x
        return self.op("tt.trans", [x], self.type_of(tuple([shape[p] for p in permutation]), dtype),
                       {"order": self.attribute(f"array<i32: {', '.join(map(str, permutation))}>")})

    def combine(self, operation: str, values: Sequence[ir.Value], types: Sequence[ir.Type], attributes: dict[str, ir.Attribute],
                function: Any) -> list[ir.Value]:
        """Emit `tt.reduce` or `tt.scan`, whose region combines two tuples of scalars: `function(left, right)`."""
        operation_ = create(operation, results=list(types), operands=list(values), attributes=attributes, regions=1,
                            loc=self.location)
        elements = [ir.RankedTensorType(x.type).element_type for x in values]
        block = operation_.regions[0].blocks.append(*elements, *elements, arg_locs=[self.location] * (2 * len(elements)))
        with ir.InsertionPoint(block):
            arguments = list(block.arguments)
            results = function(arguments[:len(elements)], arguments[len(elements):])
            create(f"{operation}.return", operands=list(results), loc=self.location)
        return list(operation_.results)

    def extern(self, symbol: str, values: Sequence[ir.Value], result: ir.Type | None = None) -> ir.Value:
        """Call a function of libdevice on each element."""
        text = {"libname": '""', "libpath": '""', "symbol": f'"{symbol}"', "pure": "true"}
        return self.op("tt.extern_elementwise", values, result, {k: self.attribute(v) for k, v in text.items()})

    def several(self, name: str, operands: Sequence[ir.Value], results: Sequence[ir.Type],
                attributes: dict[str, ir.Attribute] | None = None) -> list[ir.Value]:
        """Emit an operation with several results."""
        return list(create(name, results=list(results), operands=list(operands), attributes=attributes,
                           loc=self.location).results)

    def assembly(self, text: str, constraints: str, pack: int, operands: Sequence[ir.Value], results: Sequence[ir.Type],
                 is_pure: bool = True) -> list[ir.Value]:
        """Emit inline assembly that is applied to each element, or to `pack` elements at once."""
        with self.context:
            return self.several("tt.elementwise_inline_asm", operands, results, {
                "asm_string": ir.StringAttr.get(text), "constraints": ir.StringAttr.get(constraints),
                "pure": self.attribute(str(is_pure).lower()), "packed_element": self.attribute(f"{pack} : i32")})

    def keep(self, x: ir.Value, aval: Any) -> None:
        """Use an array in a way that cannot be removed: Triton's compiler ends the process if it drops results of a loop."""
        dtype = aval.dtype if kind_of(aval.dtype) != "float" else np.dtype(f"int{bit_width(aval.dtype)}")
        bits = x if dtype == aval.dtype else self.op(self.bitcast, [x], self.type_of(aval.shape, dtype))
        bits = convert(self, bits, aval.shape, dtype, np.dtype(np.int32))
        self.assembly("mov.b32 $0, $1;", "=r,r", 1, [bits], [bits.type], is_pure=False)

    def pointer_type(self, dtype: Any) -> ir.Type:
        return ir.Type.parse(f"!tt.ptr<{element_type(memory_dtype(dtype), self.context)}>", self.context)

    def add_to_pointer(self, pointer: ir.Value, offset: ir.Value) -> ir.Value:
        return self.op("tt.addptr", [pointer, offset])

    def to_memory(self, x: ir.Value, shape: tuple[int, ...], dtype: Any) -> ir.Value:
        """Convert a value to what memory holds: booleans are bytes."""
        return convert(self, x, shape, dtype, memory_dtype(dtype))

    def from_memory(self, x: ir.Value, shape: tuple[int, ...], dtype: Any) -> ir.Value:
        return convert(self, x, shape, memory_dtype(dtype), dtype)


def memory_dtype(dtype: Any) -> np.dtype:
    """Return the dtype of elements in memory."""
    return np.dtype(np.uint8) if dtype == np.bool_ else np.dtype(dtype)
