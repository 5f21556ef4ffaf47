"""Linking of separately built modules into the module under construction."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from xlafront.lowering import mlir
from xlafront.lowering.equations import MAX_CALL_DEPTH
from xlafront.lowering.mlir import constant_value, create, ir
from xlafront.lowering.module import ModuleContext
from xlafront.runtime import kernel_libraries

_SYMBOL = re.compile(r'@(?:"([^"]*)"|([\w$.\-]+))')
_AXIS = re.compile(r'"([^"]*)"=(\d+)')
_DEVICES = re.compile(r"device_ids=\[([\d, ]*)\]")
_SYMBOLS = (ir.FlatSymbolRefAttr, ir.SymbolRefAttr)


def link(context: ModuleContext, module: ir.Module, name: str, platform_index: int | None = None) -> str:
    """Add the functions of another module as private functions, and return the symbol of its `main`.

    Functions get unused names, and meshes become meshes of the program. `platform_index` selects one of the platforms of the
    linked module; code for other platforms is dropped.
    """
    functions = {_string_value(op.attributes["sym_name"]): op.operation for op in module.body.operations
                 if op.operation.name == "func.func"}
    main = functions.get("main")
    if main is None:
        raise ValueError(f"the module of {name} has no function main, and {', '.join(functions) or 'no other'}: it is none "
                         f"that was exported.")
    if platform_index is not None:
        specialise(main, platform_index)
    reachable = _reachable(functions, "main")
    names = {symbol: context.unique_name(name if symbol == "main" else symbol) for symbol in reachable}
    empty_meshes = set()  # Meshes without axes: sharding constraints over them have no effect.
    for op in module.body.operations:
        if op.operation.name == "sdy.mesh":
            symbol, mesh = _string_value(op.attributes["sym_name"]), op.operation.attributes["mesh"]
            if _AXIS.search(str(mesh)) or _DEVICES.search(str(mesh)):
                names[symbol] = _mesh(context, mesh, name)
            else:
                empty_meshes.add(symbol)
    for symbol in reachable:
        if empty_meshes:
            _drop_constraints(functions[symbol], empty_meshes)
        operation = functions[symbol].clone(ip=context.insertion_point).operation
        operation.attributes["sym_name"] = mlir.string(names[symbol])
        operation.attributes["sym_visibility"] = mlir.string("private")
        if symbol == "main":  # attributes of a program's arguments and results do not apply to a function
            for attribute in ("arg_attrs", "res_attrs"):
                if attribute in operation.attributes:
                    del operation.attributes[attribute]
        operation.walk(lambda op: _adapt_operation(op, names))
    context.calls = max(context.calls, reachable["main"])
    if context.calls > MAX_CALL_DEPTH:
        raise RecursionError(f"{name} calls more than {MAX_CALL_DEPTH} functions that are nested in each other, so deeply that "
                             f"XLA's compiler would end the process.")
    return names["main"]


def _drop_constraints(function, meshes: set[str]) -> None:
    redundant = []

    def visit(op):
        if op.name == "sdy.sharding_constraint" and {m.group(1) or m.group(2) for m in _SYMBOL.finditer(str(
                op.attributes["sharding"]))} <= meshes:
            redundant.append(op)
        return ir.WalkResult.ADVANCE

    function.walk(visit)
    for op in redundant:
        op.results[0].replace_all_uses_with(op.operands[0])
        op.erase()


def _adapt_operation(op, names: dict[str, str]) -> ir.WalkResult:
    """Rename symbols of an operation, and load the libraries of its custom call."""
    if op.name == "stablehlo.constant":  # Its value may have a type that the bindings do not support.
        return ir.WalkResult.ADVANCE
    for label, attribute in list(op.attributes.items()):
        if (changed := _rename_symbols(attribute, names)) is not attribute:
            op.attributes[label] = changed
    if op.name == "stablehlo.custom_call":
        kernel_libraries.prepare(_string_value(op.attributes["call_target_name"]))
    return ir.WalkResult.ADVANCE


def _string_value(attribute) -> str:
    return ir.StringAttr(attribute).value


def _rename_symbols(attribute: Any, names: dict[str, str]) -> Any:
    """Return an attribute with renamed functions and meshes; the same object if nothing changes."""
    if isinstance(attribute, ir.ArrayAttr):
        elements = list(attribute)
        changed = [_rename_symbols(element, names) for element in elements]
        return attribute if all([a is b for a, b in zip(elements, changed)]) else ir.ArrayAttr.get(changed)
    if isinstance(attribute, ir.DictAttr):
        entries = {entry.name: entry.attr for entry in attribute}
        renamed_entries = {label: _rename_symbols(value, names) for label, value in entries.items()}
        unchanged = all([renamed_entries[label] is entries[label] for label in entries])
        return attribute if unchanged else ir.DictAttr.get(renamed_entries)
    if not isinstance(attribute, _SYMBOLS) and type(attribute) is not ir.Attribute:  # attributes of sdy have no Python class
        return attribute
    text = str(attribute)
    renamed = _SYMBOL.sub(lambda m: f'@"{names[found]}"' if (found := m.group(1) or m.group(2)) in names else m.group(), text)
    return attribute if renamed == text else ir.Attribute.parse(renamed)


def _mesh(context: ModuleContext, attribute, name: str) -> str:
    """Return the symbol of the program's mesh that corresponds to a mesh of another module."""
    if context.sharding_context is None:
        raise ValueError(f"{name} uses a mesh of devices, and is called in a program without one.")
    text = str(attribute)
    shape = tuple([(axis, int(size)) for axis, size in _AXIS.findall(text)])
    device_ids = _DEVICES.search(text)
    positions = list(range(math.prod([size for _, size in shape])))
    if device_ids is not None:
        positions = [int(i) for i in device_ids.group(1).split(",") if i]
    return context.sharding_context.symbol_at(shape, positions)


def specialise(main, index: int) -> None:
    """Specialize `main` of a module for several platforms to the platform of the given index."""
    block = main.regions[0].blocks[0]
    with ir.InsertionPoint.at_block_begin(block):
        platform_index = create("stablehlo.constant", results=[block.arguments[0].type],
                        attributes={"value": mlir.dense(index_type(main)(index))}, loc=mlir.unknown_location).result
    block.arguments[0].replace_all_uses_with(platform_index)
    _fold_cases(block)


def index_type(main) -> type[np.signedinteger]:
    """Return the type of the first argument; JAX uses a 64-bit platform index if 64-bit types are enabled."""
    return np.int64 if str(main.regions[0].blocks[0].arguments[0].type) == "tensor<i64>" else np.int32


def _fold_cases(block) -> None:
    """Replace each `case` with a constant index by the selected branch."""
    for op in list(block.operations):
        op = op.operation
        index = constant_value(op.operands[0]) if op.name == "stablehlo.case" else None
        if index is None:
            for region in op.regions:
                for inner in region.blocks:
                    _fold_cases(inner)
            continue
        taken = op.regions[int(index) if 0 <= index < len(op.regions) else len(op.regions) - 1].blocks[0]
        _fold_cases(taken)
        *body, end = [inner.operation for inner in taken.operations]
        for inner in body:
            inner.move_before(op)
        for result, value in zip(op.results, end.operands):
            result.replace_all_uses_with(value)
        op.erase()


def _reachable(functions: dict[str, Any], start: str) -> dict[str, int]:
    """Return the functions reachable from `start`, including itself, and the depth of nested calls in each."""
    depths: dict[str, int] = {}

    def visit(symbol: str) -> int:
        if symbol not in depths:
            depths[symbol] = 0
            depths[symbol] = 1 + max([visit(used) for used in set(_uses(functions[symbol], functions))], default=0)
        return depths[symbol]

    visit(start)
    return depths


def _uses(operation, functions: dict[str, Any]) -> Iterator[str]:
    symbols: list[str] = []

    def visit(op):
        for attribute in op.attributes.values() if op.name != "stablehlo.constant" else ():
            if isinstance(attribute, (*_SYMBOLS, ir.ArrayAttr)):
                symbols.extend([m.group(1) or m.group(2) for m in _SYMBOL.finditer(str(attribute))])
        return ir.WalkResult.ADVANCE

    operation.walk(visit)
    return (name for name in symbols if name in functions)
