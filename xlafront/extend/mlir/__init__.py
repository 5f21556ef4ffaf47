"""MLIR for extensions: `ir`, `dialects`, `passmanager`, and conversions of StableHLO modules between versions and formats."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from xlafront.base.jaxlib_compat import _jax
from xlafront.base.missing_names import missing

_SUBMODULES = frozenset(("dialects", "ir", "passmanager"))


def __getattr__(name: str):
    if name in _SUBMODULES:
        return import_module(f"xlafront.extend.mlir.{name}")
    raise missing(__name__, name, (*globals(), *_SUBMODULES))


def serialize_portable_artifact(mlir_module: Any, target: str, use_mixed_serialization: bool = False) -> bytes:
    """Serialize a StableHLO module (module, text or bytecode) for StableHLO version `target`.

    Example:
        >>> text = xf.jit(lambda x: x * 2).lower(1.0).as_text()
        >>> artifact = serialize_portable_artifact(text, "1.0.0")
    """
    from xlafront.lowering import artifacts  # start-up: the bindings take 15-25 ms

    return artifacts.serialize_for(mlir_module, target, use_mixed_serialization)


def deserialize_portable_artifact(mlir_module: bytes, context: Any = None):
    """Return the module of a portable artifact.

    Example:
        >>> text = xf.jit(lambda x: x * 2).lower(1.0).as_text()
        >>> module = deserialize_portable_artifact(serialize_portable_artifact(text, "1.0.0"))
    """
    from xlafront.lowering import artifacts  # start-up: the bindings take 15-25 ms

    return artifacts.deserialize(mlir_module, context)


def hlo_to_stablehlo(computation: bytes) -> bytes:
    """Convert a serialized HLO module to a StableHLO module, as bytecode.

    Example:
        >>> hlo = xf.jit(lambda x: x * 2).lower(1.0).compiler_ir("hlo")
        >>> bytecode = hlo_to_stablehlo(hlo.as_serialized_hlo_module_proto())
    """
    return _jax.mlir.hlo_to_stablehlo(computation)


def refine_polymorphic_shapes(mlir_module: bytes, enable_shape_assertions: bool = True, validate_static_shapes: bool = True,
                              enable_shardy: bool = False) -> bytes:
    """Refine the dynamic shapes of a module, given the static ones of its `main`.

    Example:
        >>> module = xf.jit(lambda x: x * 2).lower(1.0).compiler_ir("stablehlo")
        >>> bytecode = refine_polymorphic_shapes(xf.interpreters.mlir.module_to_bytecode(module))
    """
    return _jax.mlir.refine_polymorphic_shapes(
        mlir_module, enable_shape_assertions=enable_shape_assertions, validate_static_shapes=validate_static_shapes,
        enable_shardy=enable_shardy)
