"""Programs written to files as they are compiled: the settings `dump_ir_to` and `dump_ir_modes`."""

from __future__ import annotations

import itertools
import pathlib
import re
import warnings
from typing import Any

from xlafront.base import config
from xlafront.core.ir import Jaxpr
from xlafront.lowering.module_text import module_text

_numbers = itertools.count()


def dump(name: str, jaxpr: Jaxpr, module: Any) -> None:
    """Write a program that is about to be compiled to files, if the settings say so.

    File names have a running number and the function's name.
    """
    folder = config.dump_ir_to.value
    if not folder:
        return
    path = pathlib.Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    modes = {mode.strip() for mode in config.dump_ir_modes.value.split(",")}
    if unknown := modes - {"", "stablehlo", "jaxpr"}:
        warnings.warn(f"the setting dump_ir_modes has {' and '.join(sorted(unknown))}, which xlafront does not write: it "
                      "writes 'stablehlo' and 'jaxpr'.", stacklevel=2)
    start = f"{next(_numbers):04d}_jit_" + re.sub(r"[^\w.-]", "_", name)
    if "stablehlo" in modes:
        (path / f"xlafront_ir{start}_compile.mlir").write_text(
            module_text(module, config.include_debug_info_in_dumps.value))
    if "jaxpr" in modes:
        (path / f"xlafront_{start}.jaxpr.txt").write_text(jaxpr.pretty_print(use_color=False))
