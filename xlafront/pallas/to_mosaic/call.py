"""The lowering rule of `pallas_call` for TPUs: the custom call that holds a kernel's module and its configuration."""

from __future__ import annotations

import base64
import dataclasses
import io
import json
from typing import Any

import numpy as np

from xlafront.core.ir import Jaxpr
from xlafront.lowering import custom_calls, mlir
from xlafront.lowering.mlir import bindings, ir
from xlafront.pallas.grid_mapping import BlockMapping, GridMapping
from xlafront.pallas.kernel_mlir import symbol_of
from xlafront.pallas.to_mosaic.checks import check_kernel
from xlafront.pallas.to_mosaic.main_memory import NO_MEMORY, main_memory
from xlafront.pallas.to_mosaic.memrefs import hidden_sizes, key_words
from xlafront.pallas.to_mosaic.vector_memory import described
from xlafront.pallas.to_mosaic.windows import effective_grid, kernel_module
from xlafront.pallas.tpu import CompilerParams, CoreType, GridDimensionSemantics, SideEffectType
from xlafront.runtime.clients import libtpu_version

# Versions of Mosaic's serialization format that releases of libtpu read; jaxlib writes any of them.
_OLDEST_FORMAT, _FORMATS = 8, (((0, 0, 52), 11),)

# The tilings of arrays in memory, by `use_tc_tiling_on_sc`: that of vector units, or rows as they are
_TILINGS = {None: "TILING_COMPACT", True: "TILING_COMPACT", False: "TILING_SPARSE_CORE"}

_OPT_LEVELS = ("O0", "O1", "O2", "O3")


class _Kernel:
    """A kernel as bytes in the versioned format, its communication, and True if it has vectors without layouts."""

    def __init__(self, module: ir.Module, is_sparse_core: bool) -> None:
        self.has_communication, self.has_barrier = bindings("_mlir_libs._tpu_ext").private_has_communication(module.operation)
        text = str(module) if is_sparse_core else ""
        self.lacks_layouts = any([name in text for name in ("tpu.scan", "tpu.all_reduce", "pack_subelements")])
        self.body = base64.b64encode(_serialized(module)).decode("ascii")


def lower(ctx: Any, *operands: ir.Value, jaxpr: Jaxpr, grid_mapping: GridMapping, name: str | None, compiler_params: Any,
          input_output_aliases: Any, cost_estimate: Any, metadata: Any, mesh: Any = None,
          **_: Any) -> list[ir.Value]:
    """Emit the custom call of a kernel."""
    label = jaxpr.debug_info.label
    params = _checked_params(label, compiler_params, mesh)
    check_kernel(label, jaxpr, grid_mapping, mesh is not None)
    semantics = _semantics(label, params, grid_mapping)
    memory = NO_MEMORY if mesh is not None else main_memory(label, jaxpr, grid_mapping, semantics)
    key = (symbol_of(name or jaxpr.debug_info.function_name), semantics, params.fuse_transposed_lhs_in_matmul,
           _device_axes(label, ctx.module_context.manual_mesh), getattr(mesh, "core_type", CoreType.TC))
    kernel = jaxpr.memoised_with((), ("mosaic", grid_mapping, *key), lambda: _Kernel(
        kernel_module(jaxpr, grid_mapping, memory, *key), mesh is not None))
    if mesh is not None and kernel.lacks_layouts:  # the passes that choose layouts lack these operations
        params = params.replace(needs_layout_passes=False)
    config = _config(label, params, cost_estimate, kernel, grid_mapping)
    if mesh is not None:
        config |= {"sparse_core_config": _sparse_core_config(params, mesh), "device_type": "DEVICE_TYPE_SPARSECORE"}
    grid, blocks, avals_out = effective_grid(grid_mapping), grid_mapping.block_mappings, ctx.avals_out
    first = len(ctx.avals_in) - grid_mapping.num_inputs
    avals_in = [*ctx.avals_in[:first], *[_stored(a, b, grid) for a, b in zip(ctx.avals_in[first:], blocks)]]
    stored = [_stored(a, b, grid) for a, b in zip(avals_out, blocks[grid_mapping.num_inputs:])]
    as_stored = [ctx.convert(x, a.shape, np.dtype(np.int32)) if a.dtype == np.bool_ else x
                 for x, a in zip(operands, ctx.avals_in)]
    as_stored = [ctx.reshape(x, s.shape, s.dtype) if s.shape != a.shape else x
                 for x, s, a in zip(as_stored, avals_in, ctx.avals_in)]
    frontend = {"kernel_metadata": json.dumps(dict(metadata), sort_keys=True) if metadata else "{}"}
    if params.has_side_effects is SideEffectType.DATAFLOW_SIDE_EFFECTING:
        frontend["xla_allow_dce_side_effecting_op"] = "true"
    call = custom_calls.custom_call(
        "tpu_custom_call", result_types=[mlir.type_of(a) for a in [*stored, *memory.types()]], operands=as_stored,
        backend_config=json.dumps(config), api_version=1, operand_output_aliases=dict(input_output_aliases),
        has_side_effect=params.has_side_effects not in (False, SideEffectType.PURE),
        operand_layouts=[custom_calls.default_minor_to_major(a) for a in avals_in],
        result_layouts=[custom_calls.default_minor_to_major(a) for a in [*stored, *memory.types()]],
        extra_attributes={"kernel_name": mlir.string(key[0]), "vector_memory": mlir.string(described(grid_mapping)),
                          "mhlo.frontend_attributes": ir.DictAttr.get({k: mlir.string(v) for k, v in frontend.items()})})
    results = [ctx.reshape(x, a.shape, s.dtype) if s.shape != a.shape else x
               for x, s, a in zip(call.results, stored, avals_out)]
    return [ctx.compare("NE", "SIGNED", x, ctx.constant(np.int32(0), a.shape), a.shape) if a.dtype == np.bool_ else x
            for x, a in zip(results, avals_out)]


def _device_axes(label: str, mesh: Any) -> tuple[tuple[Any, int], ...]:
    """Return the names and sizes of the axes of the surrounding `shard_map`'s mesh."""
    if mesh is None:
        return ()
    positions = mesh.positions
    if (positions.reshape(-1) != np.arange(positions.size)).any():
        raise NotImplementedError(f"the kernel {label} is inside of a shard_map over a mesh whose devices are in another "
                                  f"order than those of the surrounding program. Use one mesh for both.")
    return tuple(zip(mesh.axis_names, positions.shape))


def _stored(aval: Any, block: BlockMapping, grid: tuple) -> Any:
    """Return the type of an array as the kernel has it."""
    shape = aval.shape if key_words(aval.dtype) else (*aval.shape, *hidden_sizes(block, grid))
    return aval.update(shape=shape, dtype=np.dtype(np.int32) if aval.dtype == np.bool_ else aval.dtype)


_DEFAULTS = CompilerParams()


def _checked_params(label: str, params: Any, mesh: Any) -> CompilerParams:
    if params is None:
        return _DEFAULTS
    if not isinstance(params, CompilerParams):
        kind = "a dict" if isinstance(params, dict) else f"{type(params).__module__}.{type(params).__name__}"
        raise TypeError(f"the kernel {label} is compiled for TPUs, but its compiler_params are {kind}. Give "
                        f"pltpu.CompilerParams, or leave compiler_params out.")
    limit = params.vmem_limit_bytes
    if limit is not None and (not isinstance(limit, int) or limit <= 0):
        raise ValueError(f"the kernel {label}: vmem_limit_bytes of pltpu.CompilerParams takes a positive number of bytes, got "
                         f"{limit!r}.")
    if params.opt_level is not None and params.opt_level not in _OPT_LEVELS:
        raise ValueError(f"the kernel {label}: opt_level of pltpu.CompilerParams takes one of {', '.join(_OPT_LEVELS)}, got "
                         f"{params.opt_level!r}.")
    if mesh is None:
        for name in ("use_tc_tiling_on_sc", "opt_level"):
            if getattr(params, name) is not None:
                raise ValueError(f"the kernel {label}: {name} of pltpu.CompilerParams is only supported for kernels of "
                                 f"SparseCores, got {getattr(params, name)!r}. Leave it out.")
        params = params.replace(needs_layout_passes=True)  # as in JAX
    return params


def _semantics(label: str, params: CompilerParams, mapping: GridMapping) -> tuple[str, ...] | None:
    if params.dimension_semantics is None:
        return None
    names = tuple([s.value if isinstance(s, GridDimensionSemantics) else str(s) for s in params.dimension_semantics])
    axes = len(mapping.kernel_axes)
    if len(names) != axes:
        raise ValueError(f"the kernel {label}: dimension_semantics has {len(names)} entries for a grid of {axes} axes. Give "
                         f"one for each.")
    for name in names:
        if name not in [s.value for s in GridDimensionSemantics]:
            raise ValueError(f"the kernel {label}: dimension_semantics takes "
                             f"{', '.join([repr(s.value) for s in GridDimensionSemantics])}, got {name!r}.")
    return names


# The configuration


def _config(label: str, params: CompilerParams, cost: Any, kernel: _Kernel, mapping: GridMapping) -> dict[str, Any]:
    """Return the configuration that the compiler reads, with the module in it."""
    _check_collective_id(label, params, kernel.has_barrier)
    call: dict[str, Any] = {"body": kernel.body}
    if kernel.has_communication:
        call["has_communication"] = True
    if params.collective_id is not None:
        call["collective_id"] = params.collective_id
    if cost is not None:
        call["cost_estimate"] = {k: int(v) for k, v in sorted(dataclasses.asdict(cost).items())}
    call |= {"serialization_format": params.serialization_format, "needs_layout_passes": params.needs_layout_passes}
    if params.allow_input_fusion is not None:
        call["allow_input_fusion"] = _fusion(label, params, mapping)
    if params.internal_scratch_in_bytes is not None:
        call["internal_scratch_in_bytes"] = params.internal_scratch_in_bytes
    for name in ("disable_bounds_checks", "disable_semaphore_checks", "skip_device_barrier"):
        if getattr(params, name):
            call[name] = True
    if not params.shape_invariant_numerics:
        call["shape_invariant_numerics"] = False
    config: dict[str, Any] = {"custom_call_config": call}
    if params.vmem_limit_bytes is not None:
        config["scoped_memory_configs"] = [{"memory_space": 1, "offset": 0, "size": params.vmem_limit_bytes}]
    if params.flags:
        config["flag_configs"] = [{"flag_type": k, "value": _flag(label, k, v)} for k, v in dict(params.flags).items()]
    return config


def _sparse_core_config(params: CompilerParams, mesh: Any) -> dict[str, Any]:
    config: dict[str, Any] = {"tiling": _TILINGS[params.use_tc_tiling_on_sc]}
    if mesh.num_cores == 1:
        config["core_ids"] = ["0"]
    if params.opt_level is not None:
        config["comp_env"] = {"backend_opt_level": params.opt_level}
    return config


def _fusion(label: str, params: CompilerParams, mapping: GridMapping) -> list[bool]:
    flags = list(map(bool, params.allow_input_fusion or ()))
    count = mapping.num_index_operands + mapping.num_inputs
    if len(flags) != count:
        raise ValueError(f"the kernel {label}: allow_input_fusion has {len(flags)} entries for {count} arguments. Give one for "
                         f"each.")
    return [*[False] * mapping.num_dynamic_grid_bounds, *flags]


def _check_collective_id(label: str, params: CompilerParams, has_barrier: bool) -> None:
    if has_barrier and params.collective_id is None:
        raise ValueError(f"the kernel {label} uses a barrier semaphore. Give pltpu.CompilerParams a collective_id, which "
                         f"kernels that communicate share.")
    if params.collective_id is not None and not has_barrier and not params.allow_collective_id_without_custom_barrier:
        raise ValueError(f"the kernel {label} has a collective_id, but no barrier semaphore uses it. Leave collective_id out, "
                         f"or set allow_collective_id_without_custom_barrier.")


def _flag(label: str, name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolean_value": value}
    if isinstance(value, int):
        return {"integer_value": value}
    raise ValueError(f"the kernel {label}: the flag {name} of pltpu.CompilerParams takes True, False or an integer, got "
                     f"{value!r}.")


def _serialized(module: ir.Module) -> bytes:
    """Convert the module to the versioned format that the installed libtpu reads, and return its bytes."""
    context = module.context
    context.allow_unregistered_dialects = True  # those of the versioned format
    version = libtpu_version()
    target = next((f for release, f in _FORMATS if version is None or version >= release), _OLDEST_FORMAT)
    with context:
        pipeline = f"builtin.module(mosaic-serde{{serialize=true target-version={target}}})"
        bindings("passmanager").PassManager.parse(pipeline).run(module.operation)
        buffer = io.BytesIO()
        module.operation.write_bytecode(buffer)
    return buffer.getvalue()
