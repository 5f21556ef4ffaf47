"""Modules with dimension variables for the shapes that they are called with."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from jaxlib import _jax

from xlafront.core.dimension_solving import MISFIT
from xlafront.lowering import mlir
from xlafront.lowering.mlir import create, ir
from xlafront.lowering.module import as_type
from xlafront.lowering.written import module_bytecode
from xlafront.runtime.jaxlib_compat import JaxRuntimeError

_ASSERTED = re.compile(rf'{MISFIT}[^\n]*|(?<=error: loc\("shape_assertion"\): )[^\n]*')  # of our modules, and of jax's


def refined(module: ir.Module | bytes, given: Sequence[Any], shardy: bool = True) -> ir.Module:
    """The module for arguments of these types: every size in it is known, and what it asserts of them holds.

    `module` is a module, its text or its bytecode, of which a copy is refined.
    """
    with mlir.context, mlir.unknown_location:
        copy = ir.Module.parse(module_bytecode(module) if isinstance(module, ir.Module) else module)
        main = next(op for op in copy.body.operations if ir.StringAttr(op.attributes["sym_name"]).value == "main")
        types = list(map(as_type, given))
        block = main.regions[0].blocks[0]
        with ir.InsertionPoint.at_block_begin(block):
            for argument, kind in zip(block.arguments, types):
                if argument.type != kind:  # inside it stays what it was, which the refinement changes everywhere
                    open_type = argument.type
                    argument.set_type(kind)
                    converted = create("stablehlo.convert", results=[open_type], operands=[argument])
                    argument.replace_all_uses_except(converted.result, converted)
        results = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).results
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, results))
        try:
            found = _jax.mlir.refine_polymorphic_shapes(
                module_bytecode(copy), enable_shape_assertions=True, validate_static_shapes=True, enable_shardy=shardy)
        except JaxRuntimeError as e:
            asserted = _ASSERTED.search(str(e))
            if asserted is None:
                raise
            raise ValueError(asserted.group()) from None
        return ir.Module.parse(found)
