"""Modules that were made elsewhere as functions of the module that is being written."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from xlafront.lowering import mlir
from xlafront.lowering.mlir import constant_value, create, ir
from xlafront.lowering.module import MOST_CALLS, ModuleContext
from xlafront.runtime import kernel_libraries

_SYMBOL = re.compile(r'@(?:"([^"]*)"|([\w$.\-]+))')
_AXIS = re.compile(r'"([^"]*)"=(\d+)')
_DEVICES = re.compile(r"device_ids=\[([\d, ]*)\]")
_SYMBOLS = (ir.FlatSymbolRefAttr, ir.SymbolRefAttr)


def link(context: ModuleContext, module: ir.Module, name: str, platform_index: int | None = None) -> str:
    """The symbol of a private function of the module being written that does what `main` of another one does.

    Its functions come along under names that are free, and the meshes that it speaks of become those of the program.
    `platform_index` says which of its platforms it is for: what is for others is left out.
    """
    functions = {_text(op.attributes["sym_name"]): op.operation for op in module.body.operations
                 if op.operation.name == "func.func"}
    main = functions.get("main")
    if main is None:
        raise ValueError(f"the module of {name} has no function main, and {', '.join(functions) or 'no other'}: it is none "
                         f"that was exported.")
    if platform_index is not None:
        specialise(main, platform_index)
    reached = _reached(functions, "main")
    names = {symbol: context.unique_name(name if symbol == "main" else symbol) for symbol in reached}
    empty = set()  # meshes without axes: what is said of values over them says nothing
    for op in module.body.operations:
        if op.operation.name == "sdy.mesh":
            symbol, mesh = _text(op.attributes["sym_name"]), op.operation.attributes["mesh"]
            if _AXIS.search(str(mesh)) or _DEVICES.search(str(mesh)):
                names[symbol] = _mesh(context, mesh, name)
            else:
                empty.add(symbol)
    for symbol in reached:
        if empty:
            _drop_constraints(functions[symbol], empty)
        operation = functions[symbol].clone(ip=context.insertion_point).operation
        operation.attributes["sym_name"] = mlir.string(names[symbol])
        operation.attributes["sym_visibility"] = mlir.string("private")
        if symbol == "main":  # what is said of arguments and results of a whole program
            for attribute in ("arg_attrs", "res_attrs"):
                if attribute in operation.attributes:
                    del operation.attributes[attribute]
        operation.walk(lambda op: _adapt(op, names))
    context.calls = max(context.calls, reached["main"])
    if context.calls > MOST_CALLS:
        raise RecursionError(f"{name} calls more than {MOST_CALLS} functions that are nested in each other, so deeply that "
                             f"XLA's compiler would end the process.")
    return names["main"]


def _drop_constraints(function, meshes: set[str]) -> None:
    found = []

    def look(op):
        if op.name == "sdy.sharding_constraint" and {m.group(1) or m.group(2) for m in _SYMBOL.finditer(str(
                op.attributes["sharding"]))} <= meshes:
            found.append(op)
        return ir.WalkResult.ADVANCE

    function.walk(look)
    for op in found:
        op.results[0].replace_all_uses_with(op.operands[0])
        op.erase()


def _adapt(op, names: dict[str, str]) -> ir.WalkResult:
    """Make an operation one of this module."""
    if op.name == "stablehlo.constant":  # whose value may be of a type that the bindings cannot show
        return ir.WalkResult.ADVANCE
    for label, attribute in list(op.attributes.items()):
        if (changed := _renamed(attribute, names)) is not attribute:
            op.attributes[label] = changed
    if op.name == "stablehlo.custom_call":
        kernel_libraries.prepare(_text(op.attributes["call_target_name"]))
    return ir.WalkResult.ADVANCE


def _text(attribute) -> str:
    return ir.StringAttr(attribute).value


def _renamed(attribute: Any, names: dict[str, str]) -> Any:
    """An attribute with the new names of functions and meshes; the same object where it has none of them."""
    if isinstance(attribute, ir.ArrayAttr):
        parts = list(attribute)
        changed = [_renamed(part, names) for part in parts]
        return attribute if all([a is b for a, b in zip(parts, changed)]) else ir.ArrayAttr.get(changed)
    if isinstance(attribute, ir.DictAttr):
        entries = {entry.name: entry.attr for entry in attribute}
        new = {label: _renamed(value, names) for label, value in entries.items()}
        return attribute if all([new[label] is entries[label] for label in entries]) else ir.DictAttr.get(new)
    if not isinstance(attribute, _SYMBOLS) and type(attribute) is not ir.Attribute:  # those of sdy have no class here
        return attribute
    text = str(attribute)
    renamed = _SYMBOL.sub(lambda m: f'@"{names[found]}"' if (found := m.group(1) or m.group(2)) in names else m.group(), text)
    return attribute if renamed == text else ir.Attribute.parse(renamed)


def _mesh(context: ModuleContext, attribute, name: str) -> str:
    """The symbol of the program's mesh that is that of another module."""
    if context.sharding_context is None:
        raise ValueError(f"{name} speaks of a mesh of devices, and is called where there is none.")
    text = str(attribute)
    shape = tuple([(axis, int(size)) for axis, size in _AXIS.findall(text)])
    given = _DEVICES.search(text)
    positions = list(range(math.prod([size for _, size in shape])))
    if given is not None:
        positions = [int(i) for i in given.group(1).split(",") if i]
    return context.sharding_context.symbol_at(shape, positions)


def specialise(main, index: int) -> None:
    """Give `main` of a module for several platforms the index of one: what is chosen by it is chosen now."""
    block = main.regions[0].blocks[0]
    with ir.InsertionPoint.at_block_begin(block):
        chosen = create("stablehlo.constant", results=[block.arguments[0].type],
                        attributes={"value": mlir.dense(index_type(main)(index))}, loc=mlir.unknown_location).result
    block.arguments[0].replace_all_uses_with(chosen)
    _choose(block)


def index_type(main) -> type[np.signedinteger]:
    """The type of the first argument: jax counts platforms in 64 bits where it computes in them."""
    return np.int64 if str(main.regions[0].blocks[0].arguments[0].type) == "tensor<i64>" else np.int32


def _choose(block) -> None:
    """Put in place of each choice by a constant what it chooses."""
    for op in list(block.operations):
        op = op.operation
        value = constant_value(op.operands[0]) if op.name == "stablehlo.case" else None
        if value is None:
            for region in op.regions:
                for inner in region.blocks:
                    _choose(inner)
            continue
        taken = op.regions[int(value) if 0 <= value < len(op.regions) else len(op.regions) - 1].blocks[0]
        _choose(taken)
        *body, end = [inner.operation for inner in taken.operations]
        for inner in body:
            inner.move_before(op)
        for result, given in zip(op.results, end.operands):
            result.replace_all_uses_with(given)
        op.erase()


def _reached(functions: dict[str, Any], start: str) -> dict[str, int]:
    """The functions that one uses, itself among them, and how deeply calls are nested in each."""
    depths: dict[str, int] = {}

    def visit(symbol: str) -> int:
        if symbol not in depths:
            depths[symbol] = 0
            depths[symbol] = 1 + max([visit(used) for used in set(_uses(functions[symbol], functions))], default=0)
        return depths[symbol]

    visit(start)
    return depths


def _uses(operation, functions: dict[str, Any]) -> Iterator[str]:
    found: list[str] = []

    def look(op):
        for attribute in op.attributes.values() if op.name != "stablehlo.constant" else ():
            if isinstance(attribute, (*_SYMBOLS, ir.ArrayAttr)):
                found.extend([m.group(1) or m.group(2) for m in _SYMBOL.finditer(str(attribute))])
        return ir.WalkResult.ADVANCE

    operation.walk(look)
    return (name for name in found if name in functions)
