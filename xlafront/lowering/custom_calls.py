"""Custom calls of functions that are registered by name: their attributes, layouts and aliases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from xlafront.base.layouts import Layout
from xlafront.core import dtypes
from xlafront.core.avals import abstract_token
from xlafront.lowering import mlir
from xlafront.lowering.mlir import create, ir
from xlafront.runtime import keys
from xlafront.runtime.foreign_functions import TYPED


def attribute_of(value: Any) -> ir.Attribute:
    """Convert a Python or NumPy value to an attribute."""
    if isinstance(value, ir.Attribute):
        return value
    if isinstance(value, (bool, np.bool_)):
        return mlir.boolean(bool(value))
    if isinstance(value, (str, bytes)):
        return mlir.string(value if isinstance(value, str) else value.decode("latin-1"))
    if isinstance(value, np.dtype):
        return ir.TypeAttr.get(mlir.element_type(value))
    if isinstance(value, (int, np.integer)):
        if not isinstance(value, np.integer) and not -1 << 63 <= value < 1 << 63:
            raise OverflowError(f"the attribute {value} does not fit into the 64 bits of an integer: give it as a NumPy scalar "
                                f"of an unsigned type, or as text.")
        kind = mlir.element_type(value.dtype if isinstance(value, np.integer) else np.int64)
        return ir.IntegerAttr.get(kind, int(value))
    if isinstance(value, float) or isinstance(value, np.generic) and dtypes.is_float(value.dtype):
        kind = mlir.element_type(value.dtype if isinstance(value, np.generic) else np.float64)
        return ir.FloatAttr.get(kind, float(value), loc=mlir.unknown_location)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufcV":
        return mlir.dense(value)
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return ir.DictAttr.get({name: attribute_of(v) for name, v in value.items()})
    if isinstance(value, (list, tuple)):
        return mlir.array(attribute_of(v) for v in value)
    raise TypeError(f"there is no attribute for a value of type {type(value).__name__}: {value!r:.80}. Give a boolean, a "
                    f"number, a text, a NumPy array, or a dict of these with texts as its keys.")


def _layout_attribute(minor_to_major: Sequence[int]) -> ir.Attribute:
    count = len(minor_to_major)
    return mlir.attribute(f"dense<{list(minor_to_major) if count else ''}> : tensor<{count}xindex>")


def default_minor_to_major(aval) -> tuple[int, ...]:
    """Return the dimensions of a type from minor to major, in the row-major order of arrays."""
    return () if aval is abstract_token else tuple(range(len(keys.physical(aval).shape)))[::-1]


def attributes_of_call(target: str, operands: int, results: int, *, backend_config: str | bytes | Mapping = "",
                       has_side_effect: bool = False, called_computations: Sequence[str] = (), api_version: int = 2,
                       operand_output_aliases: Mapping[int, int] | None = None,
                       operand_layouts: Sequence[Sequence[int]] | None = None,
                       result_layouts: Sequence[Sequence[int]] | None = None) -> dict[str, ir.Attribute]:
    """Return all attributes of a custom call. Layouts list dimensions from minor to major."""
    if (operand_layouts is None) != (result_layouts is None):
        raise ValueError(f"the custom call {target} must be given operand_layouts and result_layouts, or neither.")
    if isinstance(backend_config, Mapping):
        config: ir.Attribute = ir.DictAttr.get(dict(backend_config))
    else:
        text = backend_config.decode("latin-1") if isinstance(backend_config, bytes) else backend_config
        config = mlir.string(text) if text or api_version < TYPED else ir.DictAttr.get({})
    attributes = {"call_target_name": mlir.string(target), "has_side_effect": mlir.boolean(has_side_effect),
                  "api_version": mlir.i32(api_version), "backend_config": config}
    if called_computations:
        attributes["called_computations"] = mlir.array(mlir.symbol(name) for name in called_computations)
    if operand_output_aliases:
        attributes["output_operand_aliases"] = mlir.array(mlir.attribute(
            f"#stablehlo.output_operand_alias<output_tuple_indices = [{result if results > 1 else ''}], "
            f"operand_index = {operand}, operand_tuple_indices = []>") for operand, result in operand_output_aliases.items())
    for name, layouts, count in (("operand_layouts", operand_layouts, operands), ("result_layouts", result_layouts, results)):
        if layouts is not None:
            if len(layouts) != count:
                raise ValueError(f"the custom call {target} got {len(layouts)} {name} for {count} of them.")
            attributes[name] = mlir.array(map(_layout_attribute, layouts))
    return attributes


def _minor_to_major(layout: Any, aval) -> Sequence[int]:
    if layout is None:
        return default_minor_to_major(aval)
    return layout.major_to_minor[::-1] if isinstance(layout, Layout) else layout


def build_ffi_lowering_function(call_target_name: str, *, operand_layouts: Sequence[Any] | None = None,
                                result_layouts: Sequence[Any] | None = None, backend_config: Mapping | str | None = None,
                                skip_ffi_layout_processing: bool = False, **lowering_args: Any) -> Callable[..., ir.Operation]:
    """Make a function `(ctx, *operands, **attributes)` that emits the call of a foreign function in a lowering rule.

    The function returns the operation; `ffi_lowering` makes a complete lowering rule.

    Args:
        call_target_name: Name under which the function is registered.
        operand_layouts, result_layouts: Layouts of the arrays: for each a `Layout`, its dimensions from minor to major, or None
            for row-major order.
        backend_config: Attributes in addition to those of the call: MLIR attributes by name.
        skip_ffi_layout_processing: If True, pass the layouts on unchanged; the compiler chooses those that are missing.
        lowering_args: Further arguments of `interpreters.mlir.custom_call`, such as `has_side_effect`,
            `operand_output_aliases`, `result_types`.

    Returns:
        A function that emits the custom call and returns the operation.

    Example:
        >>> write = build_ffi_lowering_function("row_sums", has_side_effect=True)
    """
    def rule(ctx: Any, *operands: Any, **params: Any) -> ir.Operation:
        options = dict(lowering_args)
        api_version = options.setdefault("api_version", TYPED)
        attributes = {name: attribute_of(value) for name, value in params.items()}
        if api_version < TYPED:
            if attributes:
                raise ValueError(f"the foreign function {call_target_name} takes attributes ({', '.join(attributes)}) from "
                                 f"api_version {TYPED} on, not in {api_version}.")
            config: Any = backend_config or ""
        elif isinstance(backend_config, (str, bytes)):
            raise ValueError(f"the foreign function {call_target_name} takes its backend_config as a dict of attributes from "
                             f"api_version {TYPED} on, got a text.")
        else:
            config = {**(backend_config or {}), **attributes}
        orders: list[Any] = []
        for layouts, avals in ((operand_layouts, ctx.avals_in), (result_layouts, ctx.avals_out)):
            if skip_ffi_layout_processing:
                orders.append(layouts)
            else:
                orders.append([_minor_to_major(layout, aval) for layout, aval in zip(layouts or [None] * len(avals), avals)])
        types = options.pop("result_types", None)
        types = [mlir.type_of(aval) for aval in ctx.avals_out] if types is None else list(types)
        return custom_call(call_target_name, result_types=types, operands=operands, backend_config=config,
                           operand_layouts=orders[0], result_layouts=orders[1], **options)

    return rule


def ffi_lowering(call_target_name: str, *, operand_layouts: Sequence[Any] | None = None,
                 result_layouts: Sequence[Any] | None = None, backend_config: Mapping | str | None = None,
                 skip_ffi_layout_processing: bool = False, **lowering_args: Any) -> Callable[..., Sequence[ir.Value]]:
    """Make the lowering rule of a primitive that calls a foreign function; the primitive's parameters become attributes.

    Args:
        call_target_name: Name under which the function is registered.
        operand_layouts, result_layouts: Layouts of the arrays, as for `build_ffi_lowering_function`.
        backend_config: Attributes in addition to the primitive's parameters: MLIR attributes by name.
        skip_ffi_layout_processing: If True, pass the layouts on unchanged; the compiler chooses those that are missing.
        lowering_args: Further arguments of `interpreters.mlir.custom_call`, such as `has_side_effect`.

    Returns:
        The lowering rule.

    Example:
        >>> scale_p = xf.extend.core.Primitive("scale")
        >>> xf.interpreters.mlir.register_lowering(scale_p, ffi_lowering("scale"))
    """
    emit = build_ffi_lowering_function(
        call_target_name, operand_layouts=operand_layouts, result_layouts=result_layouts, backend_config=backend_config,
        skip_ffi_layout_processing=skip_ffi_layout_processing, **lowering_args)
    return lambda ctx, *operands, **params: list(emit(ctx, *operands, **params).results)


def custom_call(call_target_name: str, *, result_types: Sequence[ir.Type], operands: Sequence[ir.Value],
                backend_config: str | bytes | dict[str, ir.Attribute] = "", has_side_effect: bool = False,
                result_shapes: Sequence[ir.Value] | None = None, called_computations: Sequence[str] = (), api_version: int = 2,
                operand_output_aliases: dict[int, int] | None = None,
                operand_layouts: Sequence[Sequence[int]] | None = None,
                result_layouts: Sequence[Sequence[int]] | None = None,
                extra_attributes: dict[str, ir.Attribute] | None = None) -> ir.Operation:
    """Emit a call of a function that is registered by name.

    Args:
        call_target_name: Name under which the function is registered.
        result_types: MLIR types of the results.
        operands: Values of the operands.
        backend_config: Text, or a dict of attributes for `api_version` 4.
        has_side_effect: If True, the call is not removed or merged with others.
        result_shapes: Values of the result shapes, if these are dynamic.
        called_computations: Symbols of the functions that the call uses.
        api_version: Version of the C++ interface; 4 for XLA's FFI.
        operand_output_aliases: Indices of results by those of the operands that they share memory with.
        operand_layouts, result_layouts: Dimensions of each array from minor to major. Give both or neither.
        extra_attributes: Further attributes of the operation.

    Returns:
        The operation.

    Example:
        >>> # in a lowering rule: custom_call("my_kernel", result_types=[x.type], operands=[x], api_version=4).results
    """
    count = len(operands)
    if result_shapes is not None:
        operands = [*operands, *result_shapes]
        if operand_layouts is not None:
            operand_layouts = [*operand_layouts, *[[0]] * len(result_shapes)]
    attributes = attributes_of_call(
        call_target_name, len(operands), len(result_types), backend_config=backend_config, has_side_effect=has_side_effect,
        called_computations=called_computations, api_version=api_version, operand_output_aliases=operand_output_aliases,
        operand_layouts=operand_layouts, result_layouts=result_layouts)
    if result_shapes is not None:
        attributes["indices_of_shape_operands"] = mlir.dense_i64(list(range(count, len(operands))))
    return create("stablehlo.custom_call", results=list(result_types), operands=list(operands),
                  attributes={**attributes, **(extra_attributes or {})})
