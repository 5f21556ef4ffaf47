"""`ExportedModule`: the data of an exported function."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from xlafront import lowering
from xlafront.core.avals import ShapedArray
from xlafront.core.ir import Effect
from xlafront.core.tree import PyTreeDef
from xlafront.exporting.checks import DisabledSafetyCheck
from xlafront.runtime.sharding import AbstractMesh, Mesh, NamedSharding, named_from_hlo
from xlafront.symbolic.dimensions import variables


@dataclasses.dataclass(frozen=True, eq=False)
class ExportedModule:
    """A function lowered to StableHLO, with the information that calls need.

    Args:
        fun_name: Name of the function, for messages.
        in_tree, in_avals: Structure of `(args, kwargs)` and types of its leaves, whose shapes may have symbolic dimensions.
        out_tree, out_avals: Structure of the result and types of its leaves.
        in_shardings_hlo, out_shardings_hlo: XLA's shardings, without mesh axes. None where unspecified, and None for functions
            that
            were not read from a file: see `in_shardings_jax`.
        nr_devices: Number of devices of the module.
        platforms: Platforms that the module can be compiled for.
        ordered_effects, unordered_effects: Side effects.
        disabled_safety_checks: Safety checks that were disabled.
        mlir_module_serialized: The module, a portable StableHLO artifact.
        calling_convention_version: Version of the arguments of `main`: the index of the platform if there are several, the
            tokens of ordered effects, then the arguments in `module_kept_var_idx`.
        module_kept_var_idx: Indices of the live arguments, which the module takes.
        uses_global_constants: True if the module is for several platforms or has symbolic dimensions, or calls such a module.
    """

    fun_name: str
    in_tree: PyTreeDef
    in_avals: tuple[Any, ...]
    out_tree: PyTreeDef
    out_avals: tuple[Any, ...]
    _has_named_shardings: bool
    _in_named_shardings: tuple[NamedSharding | None, ...]
    _out_named_shardings: tuple[NamedSharding | None, ...]
    in_shardings_hlo: tuple[Any, ...]
    out_shardings_hlo: tuple[Any, ...]
    nr_devices: int
    platforms: tuple[str, ...]
    ordered_effects: tuple[Effect, ...]
    unordered_effects: tuple[Effect, ...]
    disabled_safety_checks: Sequence[DisabledSafetyCheck]
    mlir_module_serialized: bytes
    calling_convention_version: int
    module_kept_var_idx: tuple[int, ...]
    uses_global_constants: bool
    _get_vjp: Callable[[Any], Any] | None

    @functools.cached_property
    def dimension_variables(self) -> tuple[str, ...]:
        """Names of the dimension variables in the shapes of the arguments."""
        shapes = [aval.shape for aval in self.in_avals if isinstance(aval, ShapedArray)]
        return tuple(sorted({name for shape in shapes for n in shape for name in variables(n)}))

    def __str__(self):
        return f"Exported(fun_name={self.fun_name}, ...)"

    def mlir_module(self, serialized: bool = True) -> Any:
        """Return the StableHLO module as text, with source locations.

        Args:
            serialized: If False, return a module of MLIR's bindings.

        Returns:
            Text or module.

        Example:
            >>> "stablehlo.sine" in xf.export.export(xf.jit(xnp.sin))(1.0).mlir_module()
            True
        """
        module = lowering.artifacts.deserialize(self.mlir_module_serialized)
        return lowering.module_text.module_text(module, debug_info=True) if serialized else module

    def in_shardings_jax(self, mesh: Mesh | AbstractMesh | None) -> tuple[NamedSharding | None, ...]:
        """Return the sharding of each flat argument over a mesh like that of the export.

        Args:
            mesh: Mesh with the same axis names and sizes as the mesh of the export. None: the abstract mesh of the export.

        Returns:
            Tuple of shardings; None where unspecified.

        Example:
            >>> mesh = xf.make_mesh((1,), ("a",))
            >>> xf.export.export(xf.jit(xnp.sin))(1.0).in_shardings_jax(mesh)
            (None,)
        """
        return tuple(map(self._over, self._in_named_shardings, self.in_shardings_hlo, self.in_avals, itertools.repeat(mesh)))

    def out_shardings_jax(self, mesh: Mesh | AbstractMesh | None) -> tuple[NamedSharding | None, ...]:
        """Return the sharding of each result over a mesh like that of the export.

        Args:
            mesh: See `in_shardings_jax`.

        Returns:
            Tuple of shardings; None where unspecified.

        Example:
            >>> mesh = xf.make_mesh((1,), ("a",))
            >>> xf.export.export(xf.jit(xnp.sin))(1.0).out_shardings_jax(mesh)
            (None,)
        """
        return tuple(map(self._over, self._out_named_shardings, self.out_shardings_hlo, self.out_avals, itertools.repeat(mesh)))

    def _over(self, sharding: NamedSharding | None, hlo: Any, aval: Any,
              mesh: Mesh | AbstractMesh | None) -> NamedSharding | None:
        if sharding is None and hlo is not None and isinstance(mesh, Mesh):  # a file of jax 0.6
            return named_from_hlo(hlo, mesh, len(aval.shape))
        if sharding is None or mesh is None:
            return sharding
        if sharding.mesh.shape_tuple != mesh.shape_tuple:
            raise ValueError(f"{self.fun_name} was exported for {sharding.mesh}, which the mesh {mesh} does not match: its "
                             f"axes must have the same names and sizes, in the same order. Create one with "
                             f"make_mesh({sharding.mesh.axis_sizes}, {sharding.mesh.axis_names}).")
        return NamedSharding(mesh, sharding.spec, memory_kind=sharding.memory_kind)
