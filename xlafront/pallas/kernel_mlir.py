"""MLIR of compiled kernels, common to all compilers: the context, types, constants and locations.

A `Writer` emits operations of one kernel. Each compiler has a subclass, which says what the type of an array is (`vector` for
Mosaic, `tensor` for Triton) and has rules of its own. `kernel_elementwise` holds the rules of elementwise primitives,
`kernel_equations` those of control flow and the lowering of jaxprs.

Modules of kernels do not belong to the context of `lowering.mlir`, where their dialects are not loaded.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from xlafront.core import dtypes, source
from xlafront.core.ir import JaxprEqn
from xlafront.lowering import mlir
from xlafront.lowering.mlir import bindings, create, ir

Value = Any  # an `ir.Value`; for references, what the compiler's writer uses in place of one
Rule = Callable[..., Any]  # `rule(writer, avals_in, avals_out, params, *values)` returns a value, or a list of several


@functools.cache
def make_context(extension: str) -> ir.Context:
    """Return the process's context for kernels of one compiler, whose dialect is in an extension of jaxlib's bindings:
    "_triton_ext" or "_tpu_ext".
    """
    registry = ir.DialectRegistry()
    bindings("_mlir_libs._jax_mlir_ext").register_dialects(registry)
    context = ir.Context()
    context.enable_multithreading(False)  # modules are small: waking threads would take longer than their work
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    bindings(f"_mlir_libs.{extension}").register_dialect(context)
    return context


def symbol_of(name: str) -> str:
    """Return the name of a kernel as the name of a function in a module."""
    symbol = re.sub(r"\W", "_", name, flags=re.ASCII) or "kernel"
    return f"_{symbol}" if symbol[0].isdigit() else symbol


# Types


@functools.cache
def kind_of(dtype: Any) -> str:
    """Return the kind of a dtype in the tables of rules: "float", "signed", "unsigned" or "bool"."""
    if dtype == np.bool_:
        return "bool"
    if dtypes.is_float(dtype):
        return "float"
    if dtypes.is_integer(dtype):
        return "unsigned" if dtypes.is_unsigned(dtype) else "signed"
    raise NotImplementedError(f"compiled kernels cannot compute with dtype {dtype}.")


def check_elements(where: str, name: str, dtype: Any) -> None:
    """Raise an error if the elements of an array of a kernel are not numbers that compilers have."""
    if dtypes.is_complex(dtype):
        raise NotImplementedError(f"{where}{name} has dtype {dtype}, which compiled kernels cannot have. Pass the "
                                  f"real and the imaginary parts as two arrays.")


@functools.cache
def bit_width(dtype: Any) -> int:
    """Return the number of bits of an element."""
    if dtype == np.bool_:
        return 1
    return dtypes.iinfo(dtype).bits if dtypes.is_integer(dtype) else dtypes.finfo(dtype).bits


@functools.cache
def element_type(dtype: np.dtype, context: ir.Context) -> ir.Type:
    """Return the MLIR type of an element. Integers have no sign: it is in the operations."""
    if kind_of(dtype) != "float":
        return ir.IntegerType.get_signless(bit_width(dtype), context)
    name = dtype.name
    short = {"bfloat16": "bf16", "float16": "f16", "float32": "f32", "float64": "f64"}.get(name)
    return ir.Type.parse(short or f"f{name.removeprefix('float').replace('_', '').upper()}", context)


class Writer:
    """Emits the operations of a kernel at the current insertion point. Each compiler has a subclass.

    Args:
        context: Context of the kernel's module.
        label: The kernel's name and position, for messages.

    Attributes:
        platform: Name of the platform, in messages.
        bitcast: Name of the operation that reinterprets bits.
        rules: Rules by the name of the primitive: the common ones, `kernel_elementwise.RULES` and `kernel_equations.RULES`,
            and the compiler's.
        location: Location of the operations that are emitted: the user's line.
        site: The user's line.
        keeps_site: True while equations are emitted that a rule has made.
        is_read: False if an equation with effects has no result that is used. Rules read it before they emit other equations.
    """

    platform: str
    bitcast = "arith.bitcast"
    rules: Mapping[str, Rule] = {}

    def __init__(self, context: ir.Context, label: str) -> None:
        self.context, self.label = context, label
        self.location = ir.Location.unknown(context)
        self.site: source.Site | None = None
        self.keeps_site = False
        self.is_read = True

    # What compilers differ in

    def shaped_type(self, shape: tuple[int, ...], element: ir.Type) -> ir.Type:
        """Return the type of an array that is not a scalar."""
        raise NotImplementedError

    def broadcast(self, x: ir.Value, shape: tuple[int, ...], new_shape: tuple[int, ...]) -> ir.Value:
        """Broadcast a scalar, or dimensions of size 1."""
        raise NotImplementedError

    # Values in loops and branches: arrays of bits are integers there, for which both compilers have no or faulty code

    def carried_type(self, kind: ir.Type) -> ir.Type:
        """Return the type that a value of a type has where it enters or leaves a loop or a branch."""
        if not isinstance(kind, ir.ShapedType) or str(kind.element_type) != "i1":
            return kind
        return self.shaped_type(tuple(kind.shape), ir.IntegerType.get_signless(32, self.context))

    def as_type(self, x: ir.Value, kind: ir.Type) -> ir.Value:
        """Convert a value from or to its type in loops and branches."""
        if x.type == kind:
            return x
        if str(kind.element_type) != "i1":
            return self.op("arith.extui", [x], kind)
        shape = tuple(kind.shape)
        return self.compare("arith.cmpi", 1, x, self.constant(np.int32(0), shape), shape)

    def keep(self, x: ir.Value, aval: Any) -> None:
        """Keep an array that a loop carries for its condition alone, if the compiler must not drop it."""

    # Types and constants

    def type_of(self, shape: tuple[int, ...], dtype: Any) -> ir.Type:
        element = element_type(np.dtype(dtype), self.context)
        return self.shaped_type(tuple(shape), element) if shape else element

    def types_of(self, avals: Sequence[Any]) -> list[ir.Type]:
        return [self.type_of(a.shape, a.dtype) for a in avals]

    def attribute(self, text: str) -> ir.Attribute:
        """Parse an attribute from its MLIR text."""
        return _parsed(text, self.context)

    def constant(self, value: Any, shape: tuple[int, ...] = (), dtype: Any = None) -> ir.Value:
        """Return a constant: a scalar, or an array of equal elements."""
        value = np.asarray(value, dtype)
        dtype, scalar = value.dtype, value.reshape(-1)[:1].reshape(())
        if value.ndim and not (value == scalar).all():
            raise NotImplementedError(f"{self.where()}an array constant of shape {value.shape} whose elements differ cannot be "
                                      f"part of a kernel that is compiled for {self.platform}. Compute it from iota, or pass "
                                      f"it as an argument of the kernel.")
        kind = self.type_of(tuple(shape) or value.shape, dtype)
        return self.constant_of(kind, _constant_attribute(scalar, kind, self.context))

    def constant_of(self, kind: ir.Type, attribute: ir.Attribute) -> ir.Value:
        """Return a constant of a type."""
        return self.op("arith.constant", [], kind, {"value": attribute})

    # Operations

    def op(self, name: str, operands: Sequence[ir.Value], result: ir.Type | None = None,
           attributes: dict[str, ir.Attribute] | None = None) -> ir.Value:
        """Emit an operation with one result, of the type of the first operand if none is given; return the result."""
        return create(name, results=[operands[0].type if result is None else result], operands=list(operands),
                      attributes=attributes, loc=self.location).result

    def effect(self, name: str, operands: Sequence[ir.Value], attributes: dict[str, ir.Attribute] | None = None) -> None:
        """Emit an operation without results."""
        create(name, operands=list(operands), attributes=attributes, loc=self.location)

    def select(self, condition: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
        """Return `x` where the condition is True, else `y`."""
        return self.op("arith.select", [condition, x, y], x.type)

    def compare(self, name: str, predicate: int, x: ir.Value, y: ir.Value, shape: tuple[int, ...]) -> ir.Value:
        """Emit `arith.cmpi` or `arith.cmpf`."""
        return self.op(name, [x, y], self.type_of(shape, np.bool_), {"predicate": self.attribute(f"{predicate} : i64")})

    # Locations and messages

    def enter(self, eqn: JaxprEqn) -> None:
        """Set the location of the operations that follow: the user's line of an equation."""
        site = eqn.site
        if site is None or site[0] is None or self.keeps_site:
            return  # (an equation of a rule: the line is that of the enclosing operation)
        self.site = site
        code, lasti, _ = site
        self.location = _location(eqn.primitive.name, source.canonical_file(code.co_filename), mlir.line_of(code, lasti),
                                  self.context)

    def where(self) -> str:
        """Return the beginning of a message: the kernel and the user's line."""
        line = f"at {source.describe(self.site)}: " if self.site is not None else ""
        return f"the kernel {self.label}, {line}" if line else f"the kernel {self.label}: "


@functools.lru_cache(4096)
def _location(name: str, file: str, line: int, context: ir.Context) -> ir.Location:
    return ir.Location.name(name, ir.Location.file(file, line, 0, context), context)


@functools.lru_cache(4096)
def _parsed(text: str, context: ir.Context) -> ir.Attribute:
    return ir.Attribute.parse(text, context)


def _constant_attribute(scalar: np.ndarray, kind: ir.Type, context: ir.Context) -> ir.Attribute:
    element = element_type(scalar.dtype, context)
    if kind_of(scalar.dtype) == "float":
        number: ir.Attribute = ir.FloatAttr.get(element, float(scalar), loc=ir.Location.unknown(context))
    else:
        value, bits = int(scalar), bit_width(scalar.dtype)
        number = ir.IntegerAttr.get(element, value - (1 << bits) if bits > 1 and value >> (bits - 1) > 0 else value)
    return number if kind == element else ir.DenseElementsAttr.get_splat(kind, number)


def constant_value(x: Any) -> Any:
    """Return the number of a scalar constant or of an array of equal elements; None for other values."""
    owner = getattr(x, "owner", None)
    if getattr(owner, "name", None) != "arith.constant":
        return None
    attribute = owner.attributes["value"]
    if isinstance(attribute, ir.DenseElementsAttr):
        attribute = attribute.get_splat_value()
    if isinstance(attribute, ir.BoolAttr):
        return bool(attribute.value)
    return attribute.value if isinstance(attribute, (ir.IntegerAttr, ir.FloatAttr)) else None
