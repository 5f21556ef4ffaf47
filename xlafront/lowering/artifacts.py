"""StableHLO modules as portable artifacts: bytes that other versions of jaxlib, and other runtimes, can read.

An artifact is written for a version of StableHLO. Versions promise to read what older ones wrote for five years, and to write
what those of the last six months can read; how far back is for the writer to choose.
"""

from __future__ import annotations

from typing import Any

from jaxlib import _jax
from jaxlib.mlir._mlir_libs import _stablehlo

from xlafront.lowering import mlir
from xlafront.lowering.mlir import ir
from xlafront.lowering.written import module_bytecode
from xlafront.runtime.jaxlib_compat import jaxlib_version_text

MAGIC = b"ML\xefR"  # of MLIR's bytecode
_WEEKS = ("WEEK_12", "WEEK_4", "NONE")  # how old a jaxlib may be that reads an artifact: as old as the program allows


def current_version() -> str:
    """The newest StableHLO that this jaxlib knows."""
    return _stablehlo.get_current_version()


def serialize(module: ir.Module) -> bytes:
    """An artifact that jaxlibs of the last twelve weeks can read, and where operations in it are younger, newer ones."""
    failures = []
    for weeks in _WEEKS:
        requirement = getattr(_stablehlo.StablehloCompatibilityRequirement, weeks)
        try:
            return _serialized(module, _stablehlo.get_version_from_compatibility_requirement(requirement))
        except Exception as e:
            failures.append(e)
    raise ValueError(f"the module cannot be written as a portable StableHLO artifact: {failures[-1]}") from failures[-1]


def _serialized(module: ir.Module, target: str) -> bytes:
    with mlir.context:
        bytecode = module_bytecode(module)
        mixed = b"sdy" in bytecode  # what speaks of meshes is no StableHLO
        return _jax.mlir.serialize_portable_artifact(bytecode, target, mixed)


def serialize_for(module: Any, target: str, mixed: bool = False) -> bytes:
    """A module, or its text or bytecode, in the form that StableHLO of version `target` can read; `mixed` lets it have
    operations of other dialects."""
    with mlir.context:
        if not isinstance(module, ir.Module):
            module = ir.Module.parse(module)
        return _jax.mlir.serialize_portable_artifact(module_bytecode(module), target, mixed)


def deserialize(artifact: bytes, into: ir.Context | None = None) -> ir.Module:
    """The module of an artifact."""
    context = into or mlir.context
    with context:
        try:
            return _stablehlo.deserialize_portable_artifact(context, artifact)
        except Exception as e:
            version = version_of(artifact)
            what = "the bytes are no StableHLO artifact" if version is None else f"the artifact is of StableHLO {version}"
            raise ValueError(f"{what}, and jaxlib {jaxlib_version_text} reads what was written for StableHLO "
                             f"{_stablehlo.get_minimum_version()} to {current_version()}. Export the function again, or "
                             f"install a newer jaxlib. ({e})") from None


def version_of(artifact: bytes) -> str | None:
    """The version of StableHLO that an artifact was written for; None where it is none."""
    start, mark = artifact[:64], b"StableHLO_v"
    if not start.startswith(MAGIC) or mark not in start:
        return None
    return start.split(mark, 1)[1].split(b"\0", 1)[0].decode("ascii", "replace")


def custom_calls(module: ir.Module) -> list[str]:
    """The targets of a module's custom calls."""
    found = []

    def look(operation):
        if operation.name == "stablehlo.custom_call":
            found.append(ir.StringAttr(operation.attributes["call_target_name"]).value)
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)
    return found


def parse(text: str) -> ir.Module:
    """A module from its text."""
    with mlir.context:
        try:
            return ir.Module.parse(text)
        except Exception as e:
            raise ValueError(f"the text is no StableHLO module: {e}") from None


def summary(module: ir.Module) -> tuple[str, str, list[str]]:
    """The name of a module, the type of its function `main`, and the targets of its custom calls."""
    named = module.operation.attributes
    mains = [op.operation for op in module.body.operations if op.operation.name == "func.func"
             and ir.StringAttr(op.operation.attributes["sym_name"]).value == "main"]
    name = ir.StringAttr(named["sym_name"]).value if "sym_name" in named else "unnamed"
    return name, str(mains[0].attributes["function_type"]) if mains else "there is none", custom_calls(module)
