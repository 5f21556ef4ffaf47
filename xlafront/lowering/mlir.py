"""The MLIR vocabulary of the lowering rules: types, attributes, constants, operations.

Importing this module imports jaxlib's MLIR bindings (15-25 ms), so the rest of the package imports it only
when the first module is built; lowering rules reach it as `lowering.mlir`.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
from jaxlib import _jax
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _chlo, _jax_mlir_ext, _mlir, _mlirHlo, _sdy, _stablehlo
from jaxlib.mlir.dialects import func as _func  # noqa: F401  (registers func.func's Python class)

from xlafront.core.avals import abstract_token
from xlafront.core.dimensions import is_symbolic, is_symbolic_dim
from xlafront.core.memo import Memo

# Without this the bindings import the generated Python classes of a dialect (8 ms) with its first attribute. Rules that are
# written with those classes import them by themselves.
_mlir.globals.dialect_search_modules = []


def _make_context() -> ir.Context:
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context = ir.Context()
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    for dialect in (_stablehlo, _chlo, _sdy):
        dialect.register_dialect(context)
    # MLIR loads a dialect without a lock. So what XLA's passes would load, in as many threads as compile, is there before:
    # the dialect of each compilation, and that of reading an artifact (`quant`, which only such a reading loads).
    _mlirHlo.register_mhlo_dialect(context)
    with context:
        empty = ir.Module.parse("module {}")
        _stablehlo.deserialize_portable_artifact(context, _jax.mlir.serialize_portable_artifact(empty, "1.0.0"))
    # Its locks stay on (`enable_multithreading`): XLA's passes work in it, without Python's, while other threads write modules.
    return context


# One context serves the process: types and attributes made once are good for ever.
# It is entered (`with context:`) by whoever lowers: left on a thread's stack it would outlive the interpreter.
context = _make_context()
unknown_location = ir.Location.unknown(context)

create = ir.Operation.create


def _element_types() -> dict[np.dtype, ir.Type]:
    integer = ir.IntegerType
    table: list[tuple[Any, ir.Type]] = [
        (np.bool_, integer.get_signless(1)),
        (np.float16, ir.F16Type.get()), (np.float32, ir.F32Type.get()), (np.float64, ir.F64Type.get()),
        (np.complex64, ir.ComplexType.get(ir.F32Type.get())), (np.complex128, ir.ComplexType.get(ir.F64Type.get())),
        (ml_dtypes.bfloat16, ir.BF16Type.get()),
        # Tangents of integers are never computed; where one has to exist it is a boolean.
        (np.dtype([("float0", np.void, 0)]), integer.get_signless(1)),
    ]
    for bits in (8, 16, 32, 64):
        table += [(f"int{bits}", integer.get_signless(bits)), (f"uint{bits}", integer.get_unsigned(bits))]
    table += [(ml_dtypes.int1, integer.get_signless(1)), (ml_dtypes.uint1, integer.get_signless(1))]
    for bits in (2, 4):
        table += [(getattr(ml_dtypes, f"int{bits}"), integer.get_signless(bits)),
                  (getattr(ml_dtypes, f"uint{bits}"), integer.get_unsigned(bits))]
    for name, kind in (("float8_e3m4", "Float8E3M4Type"), ("float8_e4m3", "Float8E4M3Type"),
                       ("float8_e4m3b11fnuz", "Float8E4M3B11FNUZType"), ("float8_e4m3fn", "Float8E4M3FNType"),
                       ("float8_e4m3fnuz", "Float8E4M3FNUZType"), ("float8_e5m2", "Float8E5M2Type"),
                       ("float8_e5m2fnuz", "Float8E5M2FNUZType"), ("float8_e8m0fnu", "Float8E8M0FNUType"),
                       ("float6_e2m3fn", "Float6E2M3FNType"), ("float6_e3m2fn", "Float6E3M2FNType"),
                       ("float4_e2m1fn", "Float4E2M1FNType")):
        table.append((getattr(ml_dtypes, name), getattr(ir, kind).get()))
    return _Elements({np.dtype(dtype): kind for dtype, kind in table})


class _Elements(dict[np.dtype, ir.Type]):
    def __missing__(self, dtype):
        raise TypeError(f"an array of strings, of dtype {dtype}, is not a valid JAX type where something is computed: it can "
                        f"only be put on CPUs (device_put) and read again. Encode the strings as numbers first.")


with context:
    _elements = _element_types()
    _i64_type = ir.IntegerType.get_signless(64)
    _i32_type = ir.IntegerType.get_signless(32)
_tensor_types = Memo(1 << 16)
_dynamic = ir.ShapedType.get_dynamic_size()


def element_type(dtype) -> ir.Type:
    return _elements[np.dtype(dtype)]


def tensor_type(shape: tuple[int, ...], dtype) -> ir.Type:
    """The ranked tensor type; an extended dtype (a random key) is its physical array."""
    key = (shape, dtype)
    found = _tensor_types.get(key)
    if found is None:
        if not isinstance(dtype, np.dtype):
            return tensor_type((*shape, *dtype.physical_element_shape), np.dtype(dtype.physical_dtype))
        sizes: Any = shape
        if is_symbolic(shape):
            sizes = [_dynamic if is_symbolic_dim(n) else n for n in shape]
        elif math.prod([max(n, 1) for n in shape]) * dtype.itemsize >= 1 << 63:  # XLA ends the process
            raise ValueError(f"the shape {shape} is too large: an array of dtype {dtype} would have more bytes than can be "
                             f"addressed (2**63), whatever the device. Check the sizes.")
        found = _tensor_types.keep(key, ir.RankedTensorType.get(sizes, _elements[dtype], loc=unknown_location))
    return found


def type_of(aval) -> ir.Type:
    """The MLIR type of an abstract value. Hot: once an operation's result."""
    try:
        return _tensor_types[aval.shape, aval.dtype]
    except KeyError:
        return tensor_type(aval.shape, aval.dtype)
    except TypeError:
        if aval is not abstract_token:
            raise
        return token_type()


def token_type() -> ir.Type:
    return _stablehlo.TokenType.get(context)


# Attributes, memoised by value


class _Memo(dict):
    def __init__(self, make):
        self.make = make

    def __missing__(self, key):
        attribute = self[key] = self.make(key)
        return attribute


_i64 = _Memo(lambda n: ir.IntegerAttr.get(_i64_type, n))
_i32 = _Memo(lambda n: ir.IntegerAttr.get(_i32_type, n))
_i64s = _Memo(lambda ns: ir.DenseI64ArrayAttr.get(ns))
_parsed = _Memo(lambda text: ir.Attribute.parse(text, context))
_strings = _Memo(lambda text: ir.StringAttr.get(text))
_symbols = _Memo(lambda name: ir.FlatSymbolRefAttr.get(name))


def i64(n: int) -> ir.Attribute:
    return _i64[int(n)]


def i32(n: int) -> ir.Attribute:
    return _i32[int(n)]


def i64s(ns) -> ir.Attribute:
    """`array<i64: ...>`."""
    return _i64s[tuple(map(int, ns))]


def float64(value: float) -> ir.Attribute:
    return ir.FloatAttr.get_f64(value)


def float32(value: float) -> ir.Attribute:
    return ir.FloatAttr.get_f32(value)


def boolean(value: bool) -> ir.Attribute:
    return ir.BoolAttr.get(bool(value))


def string(text: str) -> ir.Attribute:
    return _strings[text]


def tell(attributes: dict[str, ir.Attribute], told: dict[str, str]) -> None:
    """Add what compilers are told of an operation to its attributes; what stands there already stays."""
    known = attributes.get("mhlo.frontend_attributes")
    own = {} if known is None else {entry.name: entry.attr for entry in known}
    attributes["mhlo.frontend_attributes"] = ir.DictAttr.get({name: string(value) for name, value in told.items()} | own)


def symbol(name: str) -> ir.Attribute:
    return _symbols[name]


def attribute(text: str) -> ir.Attribute:
    """Any attribute by its MLIR text, such as `#stablehlo<precision HIGHEST>`. Memoised: keep texts few."""
    return _parsed[text]


def array(attributes) -> ir.Attribute:
    return ir.ArrayAttr.get(list(attributes))


def dictionary(entries: dict[str, ir.Attribute]) -> ir.Attribute:
    return ir.DictAttr.get(entries)


def approximate_count(size: int, rank: int, k: int, recall: float, size_override: int) -> int:
    """How many elements ApproxTopK gives before they are brought down to `k`."""
    return _jax.approx_top_k_reduction_output_size(size, rank, k, recall, False, size_override)[0]


def dense_i64(values, shape=None) -> ir.Attribute:
    """`dense<...> : tensor<...xi64>`, as padding and replica groups are written."""
    values = np.ascontiguousarray(values, dtype=np.int64)
    kind = ir.RankedTensorType.get(shape or values.shape, _i64_type, loc=unknown_location)
    return ir.DenseElementsAttr.get(values, type=kind)


def dense(value: np.ndarray, shape: tuple[int, ...] | None = None) -> ir.Attribute:
    """A constant tensor; with `shape`, a scalar spread over it."""
    value = np.asarray(value)
    kind = tensor_type(value.shape if shape is None else tuple(shape), value.dtype)
    if value.size == 0:
        return dense(np.zeros((), value.dtype), value.shape if shape is None else shape)
    if value.dtype.itemsize == 0:
        value = np.zeros(value.shape, np.bool_)
    if value.dtype == np.bool_ and value.size == 1:
        return ir.DenseElementsAttr.get_splat(kind, ir.BoolAttr.get(bool(value.reshape(())[()])))
    if value.dtype.kind in "biufc":
        buffer = np.ascontiguousarray(value)
        if value.dtype.kind == "c":
            return ir.DenseElementsAttr.get(buffer, type=kind)  # type: ignore[call-overload]
    else:  # the dtypes of ml_dtypes do not export buffers
        bits = np.dtype(f"u{value.dtype.itemsize}")
        buffer = np.ascontiguousarray(value).view(bits)
    return ir.DenseElementsAttr.get(buffer, type=kind)  # type: ignore[call-overload]


def _constant(value: ir.Value) -> ir.Attribute | None:
    """The elements of a constant of the module, None of what is computed."""
    owner = value.owner  # (a block where it is an argument of one)
    return owner.attributes["value"] if getattr(owner, "name", None) == "stablehlo.constant" else None


def constant_value(value: ir.Value):
    """The value of a scalar that is a constant of the module, None where it is computed."""
    known = _constant(value)
    return None if known is None else np.asarray(ir.DenseElementsAttr(known)).reshape(-1)[0]


def constant_vector(value: ir.Value) -> list[int] | None:
    """The elements of a vector of integers that is a constant of the module, None where it is computed."""
    known = _constant(value)
    if known is None:
        return None
    elements = ir.DenseIntElementsAttr(known)
    return [int(elements[i]) for i in range(len(elements))]


def is_zero(value: ir.Value, dtype: np.dtype) -> bool:
    """Whether a value of this dtype is known as a constant of the module, zero everywhere."""
    owner = value.owner
    while getattr(owner, "name", None) == "stablehlo.broadcast_in_dim":
        owner = owner.operands[0].owner
    if getattr(owner, "name", None) != "stablehlo.constant" or dtype.kind == "c":  # whose elements the bindings do not show
        return False
    shape = tuple(ir.RankedTensorType(owner.result.type).shape)
    return owner.attributes["value"] == dense(np.zeros((), dtype), shape)


def line_of(code, lasti: int) -> int:
    return _jax.Traceback.code_addr2line(code, lasti)


def function_type(module: ir.Module, symbol: str) -> ir.FunctionType:
    function = ir.SymbolTable(module.operation)[symbol]
    return ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)


def bindings(name: str):
    """A part of jaxlib's MLIR bindings: `ir`, `passmanager`, `dialects.stablehlo`."""
    import importlib

    return importlib.import_module(f"jaxlib.mlir.{name}")
