"""Modules that are written: their text and bytes, and the names of what they take and return."""

from __future__ import annotations

import io
from collections.abc import Sequence

from jaxlib.mlir import passmanager

from xlafront.lowering import mlir
from xlafront.lowering.mlir import ir
from xlafront.runtime import config


def stripped_bytecode(module: ir.Module) -> bytes:
    """The module without locations, for the key of the compile cache: moving a line changes nothing, unless asked for."""
    if config.compilation_cache_include_metadata_in_key.value:
        return module_bytecode(module)
    with mlir.context, mlir.unknown_location:
        clone = clone_of(module)
        passmanager.PassManager.parse("builtin.module(strip-debuginfo)").run(clone.operation)
        return module_bytecode(clone)


def module_bytecode(module: ir.Module | ir.Operation) -> bytes:
    buffer = io.BytesIO()
    with mlir.context:
        module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def name_boundary(module: ir.Module | ir.Operation, arguments: Sequence[str], results: Sequence[str]) -> None:
    """Write the names of the last arguments and results of `main` into it: as their places, and as `jax.result_info`."""
    with mlir.context:
        main = next(op for op in module.operation.regions[0].blocks[0] if op.attributes["sym_name"].value == "main")
        for argument, name in zip(reversed(main.arguments), reversed(arguments)):
            argument.set_location(ir.Location.name(name))
        written = main.attributes["res_attrs"] if "res_attrs" in main.attributes else [
            ir.DictAttr.get({})] * len(main.type.results)
        names = [None] * (len(written) - len(results)) + list(results)[:len(written)]
        main.attributes["res_attrs"] = mlir.array(
            ir.DictAttr.get({item.name: item.attr for item in found} | ({} if name is None else {
                "jax.result_info": mlir.string(name)})) for found, name in zip(written, names))


def clone_of(module: ir.Module) -> ir.Operation:
    """The operation that a module is, with all that is in it, once more: at a tenth of what a module of its own costs."""
    with mlir.context:
        return module.operation.clone()


def copy_of(module: ir.Module | ir.Operation) -> ir.Module:
    with mlir.context:
        return ir.Module.parse(module_bytecode(module))


def module_text(module: ir.Module | ir.Operation, debug_info: bool = False) -> str:
    with mlir.context:
        return str(module.operation.get_asm(enable_debug_info=debug_info, large_elements_limit=None))
