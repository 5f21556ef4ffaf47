"""Refinement of modules with dimension variables to static shapes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from jaxlib import _jax

from xlafront.base.jaxlib_compat import JaxRuntimeError
from xlafront.lowering import mlir
from xlafront.lowering.mlir import create, ir
from xlafront.lowering.module import as_type
from xlafront.lowering.module_text import module_bytecode
from xlafront.symbolic.solving import MISFIT

_ASSERTED = re.compile(rf'{MISFIT}[^\n]*|(?<=error: loc\("shape_assertion"\): )[^\n]*')  # by our modules, and by JAX's


def refined(module: ir.Module | bytes, types: Sequence[Any], shardy: bool = True) -> ir.Module:
    """Return a copy of the module refined for arguments of these types; sizes become static and assertions are checked.

    `module` is a module, its text or its bytecode.
    """
    with mlir.context, mlir.unknown_location:
        copy = ir.Module.parse(module_bytecode(module) if isinstance(module, ir.Module) else module)
        main = next(op for op in copy.body.operations if ir.StringAttr(op.attributes["sym_name"]).value == "main")
        types = list(map(as_type, types))
        block = main.regions[0].blocks[0]
        with ir.InsertionPoint.at_block_begin(block):
            for argument, kind in zip(block.arguments, types):
                if argument.type != kind:  # Uses inside keep the old type, which the refinement then changes everywhere.
                    open_type = argument.type
                    argument.set_type(kind)
                    converted = create("stablehlo.convert", results=[open_type], operands=[argument])
                    argument.replace_all_uses_except(converted.result, converted)
        results = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).results
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, results))
        try:
            refined_module = _jax.mlir.refine_polymorphic_shapes(
                module_bytecode(copy), enable_shape_assertions=True, validate_static_shapes=True, enable_shardy=shardy)
        except JaxRuntimeError as e:
            asserted = _ASSERTED.search(str(e))
            if asserted is None:
                raise
            raise ValueError(asserted.group()) from None
        return ir.Module.parse(refined_module)
