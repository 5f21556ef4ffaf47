"""MLIR types, attributes, constants and operations for lowering rules.

Importing this module imports jaxlib's MLIR bindings (15-25 ms), so the rest of the package imports it only when the first
module is built. Lowering rules reach it as `lowering.mlir`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from jaxlib import _jax
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _chlo, _jax_mlir_ext, _mlir, _mlirHlo, _sdy, _stablehlo

from xlafront.base.specs import PartitionSpec, UnreducedKind
from xlafront.core.avals import abstract_token
from xlafront.core.bounded_cache import BoundedCache
from xlafront.runtime.sharding import refuse_extremes
from xlafront.symbolic.dimensions import is_symbolic, is_symbolic_dim

# Otherwise the first attribute of a dialect imports the dialect's generated Python classes (8 ms). Rules that use these classes
# import them themselves; `find_operation_classes` is for readers of modules.
_packages_of_dialects = list(_mlir.globals.dialect_search_modules)
_mlir.globals.dialect_search_modules = []


def find_operation_classes() -> None:
    """Give operations the Python classes of their dialects from now on, which have properties for attributes and operands."""
    _mlir.globals.dialect_search_modules = _packages_of_dialects


def _make_context() -> ir.Context:
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context = ir.Context()
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    for dialect in (_stablehlo, _chlo, _sdy):
        dialect.register_dialect(context)
    # MLIR loads dialects without a lock. So all that XLA's passes would load, possibly on several threads, is loaded here: the
    # dialect of each compilation, and `quant`, which only the deserialization of an artifact loads.
    _mlirHlo.register_mhlo_dialect(context)
    with context:
        empty = ir.Module.parse("module {}")
        _stablehlo.deserialize_portable_artifact(context, _jax.mlir.serialize_portable_artifact(empty, "1.0.0"))
    # Multithreading stays enabled: XLA's passes use the context without Python's lock while other threads build modules.
    return context


# The process has one context, so types and attributes can be cached for its lifetime.
# Lowering code enters it (`with context:`). If it stayed entered on a thread's stack, it would outlive the interpreter.
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
        # Tangents of integers are never computed; where one must exist, it is a boolean.
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
    return _ElementTypes({np.dtype(dtype): kind for dtype, kind in table})


class _ElementTypes(dict[np.dtype, ir.Type]):
    def __missing__(self, dtype):
        raise TypeError(f"an array of strings, of dtype {dtype}, is not a valid JAX type where something is computed: it can "
                        f"only be put on CPUs (device_put) and read again. Encode the strings as numbers first.")


with context:
    _elements = _element_types()
    _i64_type = ir.IntegerType.get_signless(64)
    _i32_type = ir.IntegerType.get_signless(32)
_tensor_types = BoundedCache(1 << 16)
_dynamic = ir.ShapedType.get_dynamic_size()


def element_type(dtype) -> ir.Type:
    return _elements[np.dtype(dtype)]


def tensor_type(shape: tuple[int, ...], dtype) -> ir.Type:
    """Return the ranked tensor type; for an extended dtype (of random keys), that of its physical array."""
    key = (shape, dtype)
    tensor = _tensor_types.get(key)
    if tensor is None:
        if not isinstance(dtype, np.dtype):
            return tensor_type((*shape, *dtype.physical_element_shape), np.dtype(dtype.physical_dtype))
        sizes: Any = shape
        if is_symbolic(shape):
            sizes = [_dynamic if is_symbolic_dim(n) else n for n in shape]
        elif math.prod([max(n, 1) for n in shape]) * dtype.itemsize >= 1 << 63:  # XLA would abort the process
            raise ValueError(f"the shape {shape} is too large: an array of dtype {dtype} would have more bytes than can be "
                             f"addressed (2**63), whatever the device. Check the sizes.")
        tensor = _tensor_types.put(key, ir.RankedTensorType.get(sizes, _elements[dtype], loc=unknown_location))
    return tensor


def type_of(aval) -> ir.Type:
    """Return the MLIR type of an abstract value. Hot: called for each result of an operation."""
    try:
        return _tensor_types[aval.shape, aval.dtype]
    except KeyError:
        return tensor_type(aval.shape, aval.dtype)
    except TypeError:
        if aval is not abstract_token:
            raise
        return token_type()


@functools.cache
def token_type() -> ir.Type:
    return _stablehlo.TokenType.get(context)


# Attributes, cached by value.


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
    """Return `array<i64: ...>`."""
    return _i64s[tuple(map(int, ns))]


def float64(value: float) -> ir.Attribute:
    return ir.FloatAttr.get_f64(value)


def float32(value: float) -> ir.Attribute:
    return ir.FloatAttr.get_f32(value)


def boolean(value: bool) -> ir.Attribute:
    return ir.BoolAttr.get(bool(value))


def axis(name: Any) -> str:
    """Return the name of a mesh axis as quoted text. XLA ends the process for characters beyond ASCII, which are escaped."""
    plain = [c if c.isascii() and c.isprintable() and c not in '"\\%' else f"%{ord(c):x}%" for c in str(name)]
    return f'"{"".join(plain)}"'


def unreduced_axes(spec: PartitionSpec, axes: Sequence[Any]) -> str:
    """Return the part of a sharding's text that names the axes over which a value is unreduced; empty if there are none."""
    if not axes:
        return ""
    refuse_extremes(spec)
    kind = "" if spec.unreduced_kind is UnreducedKind.sum else spec.unreduced_kind.name
    return f", unreduced={kind}{{{', '.join(map(axis, axes))}}}"


def string(text: str) -> ir.Attribute:
    return _strings[text]


def add_frontend_attributes(attributes: dict[str, ir.Attribute], frontend_attributes: dict[str, str]) -> None:
    """Add frontend attributes to an operation's attributes. Entries that are present take precedence."""
    present = attributes.get("mhlo.frontend_attributes")
    present_entries = {} if present is None else {entry.name: entry.attr for entry in present}
    added = {name: string(value) for name, value in frontend_attributes.items()}
    attributes["mhlo.frontend_attributes"] = ir.DictAttr.get(added | present_entries)


def symbol(name: str) -> ir.Attribute:
    return _symbols[name]


def attribute(text: str) -> ir.Attribute:
    """Parse an attribute from its MLIR text, such as `#stablehlo<precision HIGHEST>`. Cached: use few distinct texts."""
    return _parsed[text]


def array(attributes) -> ir.Attribute:
    return ir.ArrayAttr.get(list(attributes))


def dictionary(entries: dict[str, ir.Attribute]) -> ir.Attribute:
    return ir.DictAttr.get(entries)


def approximate_count(size: int, rank: int, k: int, recall: float, size_override: int) -> int:
    """Return the number of elements that ApproxTopK returns before they are reduced to `k`."""
    return _jax.approx_top_k_reduction_output_size(size, rank, k, recall, False, size_override)[0]


def dense_i64(values, shape=None) -> ir.Attribute:
    """Return `dense<...> : tensor<...xi64>`, the form of paddings and replica groups."""
    values = np.ascontiguousarray(values, dtype=np.int64)
    kind = ir.RankedTensorType.get(shape or values.shape, _i64_type, loc=unknown_location)
    return ir.DenseElementsAttr.get(values, type=kind)


def dense(value: np.ndarray, shape: tuple[int, ...] | None = None) -> ir.Attribute:
    """Return a constant tensor; with `shape`, a splat of a scalar."""
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


def _constant_attribute(value: ir.Value) -> ir.Attribute | None:
    """Return the elements of a constant of the module, None for other values."""
    owner = value.owner  # (a block, for a block argument)
    return owner.attributes["value"] if getattr(owner, "name", None) == "stablehlo.constant" else None


def constant_value(value: ir.Value):
    """Return the value of a scalar constant of the module, None for other values."""
    attribute = _constant_attribute(value)
    return None if attribute is None else np.asarray(ir.DenseElementsAttr(attribute)).reshape(-1)[0]


def constant_vector(value: ir.Value) -> list[int] | None:
    """Return the elements of a constant integer vector of the module, None for other values."""
    attribute = _constant_attribute(value)
    if attribute is None:
        return None
    elements = ir.DenseIntElementsAttr(attribute)
    return [int(elements[i]) for i in range(len(elements))]


def is_zero(value: ir.Value, dtype: np.dtype) -> bool:
    """Return True if the value, of the given dtype, is a constant of the module and zero everywhere."""
    owner = value.owner
    while getattr(owner, "name", None) == "stablehlo.broadcast_in_dim":
        owner = owner.operands[0].owner
    # The bindings do not expose the elements of complex constants.
    if getattr(owner, "name", None) != "stablehlo.constant" or dtype.kind == "c":
        return False
    shape = tuple(ir.RankedTensorType(owner.result.type).shape)
    return owner.attributes["value"] == dense(np.zeros((), dtype), shape)


def line_of(code, lasti: int) -> int:
    return _jax.Traceback.code_addr2line(code, lasti)


def function_type(module: ir.Module, symbol: str) -> ir.FunctionType:
    function = ir.SymbolTable(module.operation)[symbol]
    return ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)


def bindings(name: str):
    """Import a module of jaxlib's MLIR bindings: `ir`, `passmanager`, `dialects.stablehlo`."""
    import importlib

    return importlib.import_module(f"jaxlib.mlir.{name}")
