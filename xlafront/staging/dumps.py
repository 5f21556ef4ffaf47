"""Programs written to files as they are compiled: the settings `dump_ir_to` and `dump_ir_modes`."""

from __future__ import annotations

import itertools
import pathlib
import re
from typing import Any

from xlafront.core.ir import Jaxpr
from xlafront.lowering.written import module_text
from xlafront.runtime import config

_numbers = itertools.count()


def dump(name: str, jaxpr: Jaxpr, module: Any) -> None:
    """Write what is about to be compiled, where the settings ask for it; file names count up and have the function's name."""
    folder = config.dump_ir_to.value
    if not folder:
        return
    path = pathlib.Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    modes = {mode.strip() for mode in config.dump_ir_modes.value.split(",")}
    if unknown := modes - {"", "stablehlo", "jaxpr"}:
        import warnings  # start-up: for a message

        warnings.warn(f"the setting dump_ir_modes asks for {' and '.join(sorted(unknown))}, which xlafront does not write: it "
                      "writes 'stablehlo' and 'jaxpr'.", stacklevel=2)
    start = f"{next(_numbers):04d}_jit_" + re.sub(r"[^\w.-]", "_", name)
    if "stablehlo" in modes:
        (path / f"xlafront_ir{start}_compile.mlir").write_text(
            module_text(module, config.include_debug_info_in_dumps.value))
    if "jaxpr" in modes:
        (path / f"xlafront_{start}.jaxpr.txt").write_text(jaxpr.pretty_print(use_color=False))
