"""What an exported function consists of."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from xlafront import lowering
from xlafront.core.avals import ShapedArray
from xlafront.core.dimensions import variables
from xlafront.core.ir import Effect
from xlafront.core.tree import PyTreeDef
from xlafront.exporting.checks import DisabledSafetyCheck
from xlafront.runtime.sharding import AbstractMesh, Mesh, NamedSharding, named_from_hlo


@dataclasses.dataclass(frozen=True, eq=False)
class ExportedModule:
    """A function lowered to StableHLO, and what is to be known to call it.

    - `fun_name`: its name, for messages.
    - `in_tree`, `in_avals`, `out_tree`, `out_avals`: the structures of `(args, kwargs)` and of the result, and the types of
      their leaves, whose shapes may hold symbolic dimensions.
    - `in_shardings_hlo`, `out_shardings_hlo`: how each is split, as XLA describes it, without the axes of a mesh; None where
      that was left open, and in what was not read from a file: see `in_shardings_jax`.
    - `nr_devices`: how many devices the module is for. `platforms`: those that it can be compiled for.
    - `ordered_effects`, `unordered_effects`: what it does besides computing.
    - `disabled_safety_checks`: the checks that were left out.
    - `mlir_module_serialized`: the module, a portable StableHLO artifact.
    - `calling_convention_version`: how its `main` is called: the index of the platform where there are several, the tokens of
      ordered effects, then the arguments in `module_kept_var_idx`.
    - `module_kept_var_idx`: the numbers of the arguments that the module takes; nobody reads the others.
    - `uses_global_constants`: whether it is for several platforms or for symbolic dimensions.
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
        """The names of the dimension variables in the shapes of arguments."""
        shapes = [aval.shape for aval in self.in_avals if isinstance(aval, ShapedArray)]
        return tuple(sorted({name for shape in shapes for n in shape for name in variables(n)}))

    def __str__(self):
        return f"Exported(fun_name={self.fun_name}, ...)"

    def mlir_module(self, serialized: bool = True) -> Any:
        """The StableHLO module as text, with the places in the source that its operations come from.

        - `serialized`: False gives the module itself, an object of MLIR's bindings.

        >>> "stablehlo.sine" in xf.export.export(xf.jit(xnp.sin))(1.0).mlir_module()
        True
        """
        module = lowering.artifacts.deserialize(self.mlir_module_serialized)
        return lowering.written.module_text(module, debug_info=True) if serialized else module

    def in_shardings_jax(self, mesh: Mesh | AbstractMesh | None) -> tuple[NamedSharding | None, ...]:
        """The sharding of each flat argument over a mesh like that of the export; None where it was left open.

        - `mesh`: with the axes, of the sizes, of the mesh for which the function was exported; None: as it was then, without
          devices.

        >>> mesh = xf.make_mesh((1,), ("a",))
        >>> xf.export.export(xf.jit(xnp.sin))(1.0).in_shardings_jax(mesh)
        (None,)
        """
        return tuple(map(self._over, self._in_named_shardings, self.in_shardings_hlo, self.in_avals, itertools.repeat(mesh)))

    def out_shardings_jax(self, mesh: Mesh | AbstractMesh | None) -> tuple[NamedSharding | None, ...]:
        """As `in_shardings_jax`, of the results.

        - `mesh`: as of `in_shardings_jax`.

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
                             f"axes have the same names and sizes, in the same order. Make one with "
                             f"make_mesh({sharding.mesh.axis_sizes}, {sharding.mesh.axis_names}).")
        return NamedSharding(mesh, sharding.spec, memory_kind=sharding.memory_kind)
