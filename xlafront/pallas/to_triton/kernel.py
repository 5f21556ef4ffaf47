"""Kernels as custom calls of XLA's Triton compiler: the module of a kernel, its configuration, and checks of both."""

from __future__ import annotations

import dataclasses
import math
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xlafront import lowering
from xlafront.core import source
from xlafront.core.dataflow import dependent_results
from xlafront.core.ir import Jaxpr
from xlafront.lowering.mlir import create, ir
from xlafront.pallas import kernel_elementwise, kernel_equations
from xlafront.pallas.grid_mapping import BlockMapping, GridMapping
from xlafront.pallas.kernel_mlir import Value, check_elements, constant_value, symbol_of
from xlafront.pallas.specs import Blocked, Element, Squeezed
from xlafront.pallas.to_triton import memory, operations
from xlafront.pallas.to_triton.memory import Block, BlockDim
from xlafront.pallas.to_triton.writer import TritonWriter

TARGET = "__gpu$xla.gpu.triton"
NUM_WARPS = (1, 2, 4, 8, 16, 32)
MAX_GRID = (2**31 - 1, 65535, 65535)  # programs along x, y and z
_int32, _int64 = np.dtype(np.int32), np.dtype(np.int64)

TritonWriter.rules = {**kernel_elementwise.RULES, **kernel_equations.RULES, **memory.RULES, **operations.RULES}


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of Triton's compiler: the number of warps of a program, and of stages of a pipelined loop."""

    num_warps: int = 4
    num_stages: int = 3


def options_of(params: Any, label: str) -> Options:
    """Return the options that `compiler_params` of a `pallas_call` give.

    Args:
        params: None, `triton.CompilerParams`, or a mapping with the entry "triton".
        label: Name of the kernel, for messages.

    Returns:
        The options.
    """
    if params is None:
        return Options()
    if isinstance(params, Mapping):
        given = dict(params.get("triton", params.get("gpu", {})))
    elif getattr(params, "BACKEND", None) == "triton":
        given = {"num_warps": params.num_warps, "num_stages": params.num_stages}
    else:
        raise ValueError(f"compiler_params of the kernel {label} are not for Triton, which compiles it for GPUs: got "
                         f"{type(params).__module__}.{type(params).__qualname__}. Pass pallas.triton.CompilerParams, or none.")
    unknown = given.keys() - {"num_warps", "num_stages"}
    if unknown:
        raise ValueError(f"compiler_params of the kernel {label} have the unknown option {sorted(unknown)[0]!r}. Triton takes "
                         f"num_warps and num_stages.")
    options = Options(**{k: v for k, v in given.items() if v is not None})
    if type(options.num_warps) is not int or options.num_warps not in NUM_WARPS:  # (Triton would end the process)
        raise ValueError(f"num_warps of the kernel {label} must be one of {', '.join(map(str, NUM_WARPS))}, got "
                         f"{options.num_warps!r}.")
    if isinstance(options.num_stages, bool) or not isinstance(options.num_stages, int) or options.num_stages < 1:
        raise ValueError(f"num_stages of the kernel {label} must be a positive integer, got {options.num_stages!r}.")
    return options


# Triton ends the process when it compiles these for older GPUs; reading and writing such elements compiles.
_COMPUTES_WITH_E4M3FN = re.compile(r"tt\.(fp_to_fp|dot)\b.*f8E4M3FN")


# The grid


def launch_grid(mapping: GridMapping) -> tuple[tuple[int, int, int], list[int]]:
    """Return the numbers of programs along x, y and z, and the axes of the mapping's grid in the order of their launch.

    The first axis that the kernel sees is x. Axes of `vmap` come last. If there are more than three, or one is too long for its
    direction, all are folded into x.
    """
    order = [*mapping.kernel_axes, *mapping.vmapped_dims]
    sizes = [mapping.grid[d] for d in order]
    if len(sizes) <= 3 and all([n <= limit for n, limit in zip(sizes, MAX_GRID)]):
        x, y, z = (*sizes, 1, 1, 1)[:3]
        return (x, y, z), order
    return (math.prod(sizes), 1, 1), order


def _grid_indices(w: TritonWriter, mapping: GridMapping) -> list[Value]:
    """Return the program's index along each axis of the mapping's grid."""
    launch, order = launch_grid(mapping)
    indices: list[Value] = [None] * len(order)
    i32 = w.type_of((), _int32)

    def program_id(direction: int) -> ir.Value:
        return w.op("tt.get_program_id", [], i32, {"axis": w.attribute(f"{direction} : i32")})

    if len(order) <= 3 and launch == tuple([*[mapping.grid[d] for d in order], 1, 1, 1][:3]):
        for direction, d in enumerate(order):
            indices[d] = program_id(direction)
        return indices
    rest = program_id(0)
    for k, d in enumerate(order):
        size = w.constant(np.int32(mapping.grid[d]))
        indices[d] = rest if k == len(order) - 1 else w.op("arith.remsi", [rest, size])
        rest = w.op("arith.divsi", [rest, size])
    return indices


# Blocks


def _block(w: TritonWriter, mapping: BlockMapping, pointer: ir.Value, grid_indices: Sequence[Value]) -> Block:
    """Return the reference to a block of an array: a pointer to its first element, and the bounds of its elements."""
    aval = mapping.array_aval
    strides = [math.prod(aval.shape[d + 1:]) for d in range(aval.ndim)]
    wide = _int64 if math.prod(aval.shape) >> 31 else _int32
    starts = kernel_equations.lower_equations(w, mapping.index_map_jaxpr, grid_indices)[:aval.ndim]
    dims, total = [], None
    for b, n, stride, index in zip(mapping.block_shape, aval.shape, strides, starts):
        if type(b) not in (Blocked, Element, Squeezed):
            raise kernel_equations.unsupported(w, f"the block dimension {b} of {mapping.origin}",
                                               "Use a size, None or pl.Element.")
        start, is_first = _start(w, b, index)
        if type(b) is not Squeezed:
            dims.append(_block_dim(w, b, n, stride, start))
        if not is_first:
            term = start if wide == _int32 else kernel_elementwise.convert(w, start, (), _int32, wide)
            term = term if stride == 1 else w.op("arith.muli", [term, w.constant(stride, (), wide)])
            total = term if total is None else w.op("arith.addi", [total, term])
    pointer = pointer if total is None else w.add_to_pointer(pointer, total)
    return Block(mapping.origin, np.dtype(aval.dtype), pointer, tuple(dims))


def _start(w: TritonWriter, dim: Any, index: ir.Value) -> tuple[ir.Value, bool]:
    """Return the position in the array where a block starts, and True if it is 0."""
    known = constant_value(index)
    if type(dim) is Blocked:
        if dim.block_size == 1 or known == 0:
            return index, known == 0
        return w.op("arith.muli", [index, w.constant(np.int32(dim.block_size))]), False
    low = dim.padding[0] if type(dim) is Element else 0
    return (w.op("arith.subi", [index, w.constant(np.int32(low))]), False) if low else (index, known == 0)


def _block_dim(w: TritonWriter, dim: Any, size: int, stride: int, start: ir.Value) -> BlockDim:
    """Return a dimension of a block, with bounds if blocks may reach beyond the array of this size."""
    if type(dim) is Blocked and size % dim.block_size == 0:
        return BlockDim(dim.block_size, stride)
    if type(dim) is Element and dim.block_size == size and not any(dim.padding) and constant_value(start) == 0:
        return BlockDim(dim.block_size, stride)
    high = w.op("arith.subi", [w.constant(np.int32(size)), start])
    low = None
    if type(dim) is Element and dim.padding[0]:
        low = w.op("arith.subi", [w.constant(np.int32(0)), start])
    return BlockDim(dim.block_size, stride, low, high)


# The module


def kernel_module(jaxpr: Jaxpr, mapping: GridMapping, name: str, with_locations: bool = False) -> str:
    """Return the text of the module of a kernel.

    The text depends on the kernel alone, not on its position in the user's file, unless it has locations.

    Args:
        jaxpr: The kernel.
        mapping: Its grid and blocks.
        name: Name of its function.
        with_locations: If True, operations have the user's lines as their locations.

    Returns:
        The text, in which the function takes a pointer for each input and output.
    """
    w = TritonWriter(jaxpr.debug_info.label)
    _check_mapping(w, mapping)
    _warn_of_shared_blocks(jaxpr, mapping)
    with w.context, w.location:
        module = ir.Module.create()
        blocks = mapping.block_mappings
        types = [w.pointer_type(b.array_aval.dtype) for b in blocks]
        aligned = ir.DictAttr.get({"tt.divisibility": w.attribute("16 : i32")})
        function = create("tt.func", regions=1, ip=ir.InsertionPoint(module.body), attributes={
            "sym_name": ir.StringAttr.get(name), "sym_visibility": ir.StringAttr.get("public"),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(types, [])),
            "arg_attrs": ir.ArrayAttr.get([aligned] * len(types))})
        body = function.regions[0].blocks.append(*types, arg_locs=[w.location] * len(types))
        with ir.InsertionPoint(body):
            _write_body(w, jaxpr, mapping, list(body.arguments))
            create("tt.return")
        module.operation.verify()
        return str(module.operation.get_asm(enable_debug_info=with_locations))


def _write_body(w: TritonWriter, jaxpr: Jaxpr, mapping: GridMapping, arguments: Sequence[ir.Value]) -> None:
    indices = _grid_indices(w, mapping)
    w.program_ids = [indices[d] for d in mapping.kernel_axes]
    refs = [_block(w, b, pointer, indices) for b, pointer in zip(mapping.block_mappings, arguments)]
    kernel_equations.lower_equations(w, jaxpr, refs)


def _check_mapping(w: TritonWriter, mapping: GridMapping) -> None:
    if mapping.num_index_operands:
        raise NotImplementedError(f"{w.where()}PrefetchScalarGridSpec is for TPUs: kernels on GPUs take no prefetched scalars. "
                                  f"Pass the scalars as arguments, and read them in the kernel: index maps cannot use them.")
    if mapping.num_dynamic_grid_bounds:
        raise NotImplementedError(f"{w.where()}the grid {mapping.grid} has sizes that are known only at run time, which "
                                  f"kernels on GPUs cannot have. Use the maximum, and skip programs with pl.when.")
    if mapping.num_scratch_operands:
        raise NotImplementedError(f"{w.where()}scratch_shapes are for TPUs: programs on GPUs keep values in registers. Carry "
                                  f"the value through lax.fori_loop instead of the grid.")
    for block in mapping.block_mappings:
        dtype = block.array_aval.dtype
        check_elements(w.where(), block.origin, dtype)
        if isinstance(dtype, np.dtype) and dtype.kind == "V" and dtype.name not in _SMALL_DTYPES:
            raise NotImplementedError(f"{w.where()}{block.origin} has dtype {dtype}, which kernels on GPUs cannot have. "
                                      f"Convert it, or pass its bits: lax.bitcast_convert_type(x, 'uint8').")


# Types that Triton has and NumPy lacks.
_SMALL_DTYPES = ("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "int1", "int4", "uint1",
                 "uint4")


def _warn_of_shared_blocks(jaxpr: Jaxpr, mapping: GridMapping) -> None:
    """Warn of outputs to which each program along an axis of the grid writes the same elements, as kernels for TPUs may."""
    rank = len(mapping.grid)
    written = {eqn.invars[0]: eqn.site for eqn in jaxpr.eqns if eqn.primitive.name == "swap" and len(eqn.invars) == 2}
    for block, ref in list(zip(mapping.block_mappings, jaxpr.invars))[mapping.num_inputs:]:
        if ref not in written:
            continue
        for axis, size in enumerate(mapping.grid):
            marks = [i == axis for i in range(rank)]
            if axis in mapping.vmapped_dims or size == 1:
                continue
            if not any(dependent_results(block.index_map_jaxpr.structure, marks)):
                warnings.warn(
                    f"the kernel {jaxpr.debug_info.label}, at {source.describe(written[ref])}: all programs along axis "
                    f"{mapping.kernel_axes.index(axis)} of the grid write the same block of {block.origin}. On GPUs they run "
                    f"at the same time, so the result is undefined. Replace this axis by lax.fori_loop in the kernel, or use "
                    f"triton.atomic_add.", stacklevel=2)
                return


# The custom call


def lower(ctx: Any, *operands: Any, jaxpr: Jaxpr, grid_mapping: GridMapping, input_output_aliases: Sequence[tuple[int, int]],
          compiler_params: Any, name: str | None, debug: bool, **_: Any) -> list[Any]:
    """Lower a `pallas_call` to a custom call that XLA's plugin for CUDA compiles with Triton."""
    mapping, mlir = grid_mapping, lowering.mlir
    options = options_of(compiler_params, jaxpr.debug_info.label)
    symbol = symbol_of(name or jaxpr.debug_info.function_name)
    text = jaxpr.memoised_with((), ("triton", mapping, symbol, debug), lambda: kernel_module(jaxpr, mapping, symbol, debug))
    if _COMPUTES_WITH_E4M3FN.search(text):
        ctx.module_context.capability = (8, 9), (
            f"the kernel {jaxpr.debug_info.label} computes with float8_e4m3fn, which takes a GPU of compute capability 8.9 or "
            f"higher (others compute with float8_e5m2 and bfloat16)")
    grid, _ = launch_grid(mapping)
    if len(operands) + len(ctx.avals_out) != len(mapping.block_mappings):  # (Triton would not notice)
        raise ValueError(f"the kernel {jaxpr.debug_info.label} has {len(mapping.block_mappings)} arrays, but is called with "
                         f"{len(operands)} operands and {len(ctx.avals_out)} results.")
    config = {"name": mlir.string(symbol), "ir": mlir.string(text), "num_stages": mlir.i32(options.num_stages),
              "num_warps": mlir.i32(options.num_warps), "debug": mlir.boolean(debug),
              **{f"grid_{d}": mlir.i32(n) for d, n in zip("xyz", grid)}}
    call = lowering.custom_calls.custom_call(
        TARGET, result_types=[mlir.type_of(a) for a in ctx.avals_out], operands=operands, api_version=1,
        operand_output_aliases=dict(input_output_aliases),
        operand_layouts=[tuple(range(a.ndim))[::-1] for a in ctx.avals_in],
        result_layouts=[tuple(range(a.ndim))[::-1] for a in ctx.avals_out],
        extra_attributes={"mhlo.backend_config": mlir.dictionary(config)})
    return list(call.results)
