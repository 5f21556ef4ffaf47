"""Text and bytecode of finished modules, and the names of their arguments and results."""

from __future__ import annotations

import io
from collections.abc import Sequence

from jaxlib.mlir import passmanager

from xlafront.base import config
from xlafront.lowering import mlir
from xlafront.lowering.mlir import ir


def stripped_bytecode(module: ir.Module) -> bytes:
    """Return bytecode without locations, as a key of the compilation cache; locations are included if the setting says so."""
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
    """Set the names of the last arguments and results of `main`: as locations, and as `jax.result_info`."""
    with mlir.context:
        main = next(op for op in module.operation.regions[0].blocks[0] if op.attributes["sym_name"].value == "main")
        block = main.regions[0].blocks[0]
        for argument, name in zip(reversed(block.arguments), reversed(arguments)):
            argument.set_location(ir.Location.name(name))
        present = main.attributes["res_attrs"] if "res_attrs" in main.attributes else [
            ir.DictAttr.get({})] * len(main.attributes["function_type"].value.results)
        names = [None] * (len(present) - len(results)) + list(results)[:len(present)]
        main.attributes["res_attrs"] = mlir.array(
            ir.DictAttr.get({item.name: item.attr for item in found} | ({} if name is None else {
                "jax.result_info": mlir.string(name)})) for found, name in zip(present, names))


def clone_of(module: ir.Module) -> ir.Operation:
    """Return a clone of the module's operation and its contents, at a tenth of the cost of copying the module."""
    with mlir.context:
        return module.operation.clone()


def copy_of(module: ir.Module | ir.Operation) -> ir.Module:
    with mlir.context:
        return ir.Module.parse(module_bytecode(module))


def module_text(module: ir.Module | ir.Operation, debug_info: bool = False) -> str:
    with mlir.context:
        return str(module.operation.get_asm(enable_debug_info=debug_info, large_elements_limit=None))
