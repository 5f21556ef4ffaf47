"""StableHLO modules as portable artifacts: bytes that other versions of jaxlib, and other runtimes, can read.

An artifact targets a version of StableHLO. Each version can read artifacts that are up to five years old, and can write
artifacts for versions of the last six months. The writer chooses how far back to go.
"""

from __future__ import annotations

from typing import Any

from jaxlib import _jax
from jaxlib.mlir._mlir_libs import _stablehlo

from xlafront.base.jaxlib_compat import jaxlib_version_text
from xlafront.lowering import mlir
from xlafront.lowering.mlir import ir
from xlafront.lowering.module_text import module_bytecode

MAGIC = b"ML\xefR"  # of MLIR's bytecode
_WEEKS = ("WEEK_12", "WEEK_4", "NONE")  # the oldest readers to support, tried in order


def current_version() -> str:
    """Return the newest StableHLO version that this jaxlib supports."""
    return _stablehlo.get_current_version()


def serialize(module: ir.Module) -> bytes:
    """Serialize for jaxlibs of the last twelve weeks, or for newer ones only if the module has newer operations."""
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
        mixed = b"sdy" in bytecode  # operations on meshes are not StableHLO
        return _jax.mlir.serialize_portable_artifact(bytecode, target, mixed)


def serialize_for(module: Any, target: str, mixed: bool = False) -> bytes:
    """Serialize a module (or its text or bytecode) for readers of StableHLO version `target`.

    `mixed` allows operations of other dialects.
    """
    with mlir.context:
        if not isinstance(module, ir.Module):
            module = ir.Module.parse(module)
        return _jax.mlir.serialize_portable_artifact(module_bytecode(module), target, mixed)


def deserialize(artifact: bytes, into: ir.Context | None = None) -> ir.Module:
    """Return the module of an artifact."""
    context = into or mlir.context
    with context:
        try:
            return _stablehlo.deserialize_portable_artifact(context, artifact)
        except Exception as e:
            version = version_of(artifact)
            problem = "the bytes are no StableHLO artifact" if version is None else f"the artifact is of StableHLO {version}"
            raise ValueError(f"{problem}, and jaxlib {jaxlib_version_text} reads what was written for StableHLO "
                             f"{_stablehlo.get_minimum_version()} to {current_version()}. Export the function again, or "
                             f"install a newer jaxlib. ({e})") from None


def version_of(artifact: bytes) -> str | None:
    """Return the StableHLO version of an artifact, None if the bytes are no artifact."""
    start, mark = artifact[:64], b"StableHLO_v"
    if not start.startswith(MAGIC) or mark not in start:
        return None
    return start.split(mark, 1)[1].split(b"\0", 1)[0].decode("ascii", "replace")


def custom_calls(module: ir.Module) -> list[str]:
    """Return the targets of a module's custom calls."""
    targets = []

    def visit(operation):
        if operation.name == "stablehlo.custom_call":
            targets.append(ir.StringAttr(operation.attributes["call_target_name"]).value)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return targets


def parse(text: str) -> ir.Module:
    """Parse a module from its text."""
    with mlir.context:
        try:
            return ir.Module.parse(text)
        except Exception as e:
            raise ValueError(f"the text is no StableHLO module: {e}") from None


def summary(module: ir.Module) -> tuple[str, str, list[str]]:
    """Return the name of a module, the type of its function `main`, and the targets of its custom calls."""
    attributes = module.operation.attributes
    mains = [op.operation for op in module.body.operations if op.operation.name == "func.func"
             and ir.StringAttr(op.operation.attributes["sym_name"]).value == "main"]
    name = ir.StringAttr(attributes["sym_name"]).value if "sym_name" in attributes else "unnamed"
    return name, str(mains[0].attributes["function_type"]) if mains else "there is none", custom_calls(module)
