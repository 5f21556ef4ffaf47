"""The module of a TPU kernel: its function, the windows of its arrays, and the functions that compute their positions.

The function takes the indices of the grid, scalars, blocks of inputs and outputs, and scratch memory. Mosaic copies the blocks
between main and vector memory while the grid runs, as `window_params` describes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlafront.core.ir import Jaxpr
from xlafront.lowering.mlir import create, ir
from xlafront.pallas.grid_mapping import BlockMapping, GridMapping
from xlafront.pallas.kernel_mlir import Value
from xlafront.pallas.specs import Blocked, Element, Squeezed
from xlafront.pallas.to_mosaic.main_memory import MainMemory
from xlafront.pallas.to_mosaic.memrefs import (
    MemRef,
    Range,
    hidden_sizes,
    key_words,
    memref_of,
    memref_type,
    slice_memref,
    space_of,
)
from xlafront.pallas.to_mosaic.writer import MosaicWriter, int32
from xlafront.pallas.tpu import CoreType

_DYNAMIC = -(1 << 63)  # a grid size that is an operand


def kernel_module(jaxpr: Jaxpr, mapping: GridMapping, memory: MainMemory, name: str, semantics: Sequence[str] | None,
                  transposed_lhs_hint: bool = False, device_axes: Sequence[tuple[Any, int]] = (),
                  core_type: CoreType = CoreType.TC) -> ir.Module:
    """Lower a kernel to a module.

    Args:
        jaxpr: The kernel.
        mapping: Its grid and blocks.
        memory: Its scratch memory in main memory.
        name: Its name, a symbol.
        semantics: For each axis of the grid that the kernel sees, "parallel", "arbitrary", ...
        transposed_lhs_hint: True if products may fuse a transposed left operand.
        device_axes: Names and sizes of the axes of the mesh of devices.
        core_type: The kind of core that runs the kernel.
    """
    w = MosaicWriter(jaxpr.debug_info.label, transposed_lhs_hint, device_axes, core_type)
    with w.context, ir.Location.unknown():
        w.location = ir.Location.unknown()
        module = ir.Module.create()
        module.operation.attributes["sym_name"] = ir.StringAttr.get(name)
        with ir.InsertionPoint(module.body):
            _Functions(w, jaxpr, mapping, memory, name, semantics, core_type).emit()
        module.operation.verify()
    return module


def effective_grid(mapping: GridMapping) -> tuple[int | None, ...]:
    """Return the grid in the module. A kernel without a grid gets unblocked arrays without windows, if it can."""
    needs_windows = bool(mapping.index_avals) or not all([b.covers_array for b in mapping.block_mappings])
    return mapping.grid or ((1,) if needs_windows else ())


class _Functions:
    def __init__(self, w: MosaicWriter, jaxpr: Jaxpr, mapping: GridMapping, memory: MainMemory, name: str,
                 semantics: Sequence[str] | None, core_type: CoreType):
        self.core_type, self.memory = core_type, memory
        self.scratch = jaxpr.invars[len(jaxpr.invars) - mapping.num_scratch_operands:]
        self.allocated = {v: f"scratch memory {i}, {v.aval}," for i, v in enumerate(self.scratch) if v not in memory.variables}
        self.w, self.jaxpr, self.mapping, self.name, self.semantics = w, jaxpr, mapping, name, semantics
        self.grid = effective_grid(mapping)
        self.has_windows = bool(self.grid)
        self.i32 = ir.IntegerType.get_signless(32)

    def emit(self) -> None:
        blocks = self.mapping.block_mappings
        windows = [*[self._window(i, b) for i, b in enumerate(blocks)], *["{}"] * len(self.memory.variables)]
        attributes = {
            "dimension_semantics": self._dimension_semantics(),
            "scalar_prefetch": f"{self.mapping.num_index_operands} : i64",
            "scratch_operands": f"{len(self.allocated)} : i64",
            "tpu.core_type": f"#tpu.core_type<{self.core_type.name.lower()}>"}
        if self.has_windows:
            bounds = ", ".join([str(_DYNAMIC if n is None else n) for n in self.grid])
            attributes |= {"iteration_bounds": f"array<i64: {bounds}>", "window_params": f"[{', '.join(windows)}]"}
        types = [*[self.i32] * len(self.grid), *[self._type_of(a) for a in self.mapping.index_avals],
                 *[self._block_type(b) for b in blocks],
                 *[memref_type(self.w.context, self.memory.shape(v), v.aval.dtype, v.aval.memory_space)
                   for v in self.memory.variables],
                 *[self._type_of(v.aval) for v in self.allocated]]
        self._function(self.name, types, [], self._body, {k: self.w.attribute(v) for k, v in attributes.items()})
        for i, b in enumerate(blocks):
            if self._is_windowed(b):
                indices = [self.i32] * len(self.grid), [self._type_of(a) for a in self.mapping.index_avals]
                count = len(b.block_shape) + len(hidden_sizes(b, self.grid))
                self._function(f"transform_{i}", [*indices[0], *indices[1]], [self.i32] * count,
                               lambda args, b=b: self._transform(b, args), {})

    def _function(self, name: str, types: Sequence[ir.Type], results: Sequence[ir.Type],
                  emit: Callable[[list[ir.Value]], Sequence[Value]], attributes: dict[str, ir.Attribute]) -> None:
        w, location = self.w, self.w.location
        kind = ir.TypeAttr.get(ir.FunctionType.get(list(types), list(results)))
        function = create("func.func", regions=1, loc=location, attributes={
            "sym_name": ir.StringAttr.get(name), "function_type": kind, **attributes})
        block = function.regions[0].blocks.append(*types, arg_locs=[location] * len(types))
        w.begin_function(block)
        with ir.InsertionPoint(block):
            create("func.return", operands=list(emit(list(block.arguments))), loc=w.location)

    def _type_of(self, aval: Any) -> ir.Type:
        return memref_type(self.w.context, aval.shape, aval.dtype, aval.memory_space)

    def _block_type(self, block: BlockMapping) -> ir.Type:
        aval = block.block_aval
        return memref_type(self.w.context, self._sizes(block), aval.dtype, aval.memory_space)

    def _sizes(self, block: BlockMapping) -> tuple[int, ...]:
        """Return the sizes of a block in the kernel, without words of keys."""
        return block.sizes if key_words(block.array_aval.dtype) else (*block.sizes, *hidden_sizes(block, self.grid))

    def _is_windowed(self, block: BlockMapping) -> bool:
        return self.has_windows and space_of(block.block_aval.memory_space) in ("vmem", "smem")

    # Attributes

    def _dimension_semantics(self) -> str:
        visible = iter(self.semantics or ["arbitrary"] * len(self.grid))
        vmapped = "arbitrary" if self.memory.variables else "parallel"  # its steps share the memory
        names = [vmapped if d in self.mapping.vmapped_dims else next(visible, "arbitrary") for d in range(len(self.grid))]
        return f"[{', '.join([f'#tpu.dimension_semantics<{name}>' for name in names])}]"

    def _window(self, i: int, block: BlockMapping) -> str:
        """Return the parameters of the window of an array."""
        if not self._is_windowed(block):
            return "{}" if self.core_type is CoreType.TC else self._unblocked(block)
        bounds = (*block.sizes, *hidden_sizes(block, self.grid))
        sizes = f": {', '.join(map(str, bounds))}" if bounds else ""
        fields = [f"transform_indices = @transform_{i}", f"window_bounds = array<i64{sizes}>"]
        if any([type(b) is Element for b in block.block_shape]):
            padding = [b.padding if type(b) is Element else (0, 0) for b in block.block_shape]
            lows, highs = [list(p) for p in zip(*padding)]
            fields.append(f"window_kind = #tpu.element_window<{lows}, {highs}>")
        mode = self._pipeline_mode(block)
        if mode:
            fields.insert(0, f"pipeline_mode = #tpu.pipeline_mode<{mode}>")
        return f"{{{', '.join(fields)}}}"

    def _unblocked(self, block: BlockMapping) -> str:
        """Return the parameters of an array of kernels on SparseCores, which see it unblocked."""
        indices, zeros = ", ".join([f"d{i}" for i in range(len(self.grid))]), ", ".join("0" * len(block.block_shape))
        return f"{{transform_indices = affine_map<({indices}) -> ({zeros})>}}"

    def _pipeline_mode(self, block: BlockMapping) -> str | None:
        buffered = block.pipeline_mode
        if buffered is not None:
            return {1: "synchronous", 2: "double_buffered"}[buffered.buffer_count]
        is_constant = all([v.is_literal for v in block.index_map_jaxpr.outvars])
        return "synchronous" if is_constant and space_of(block.block_aval.memory_space) == "vmem" else None

    # Bodies

    def _transform(self, block: BlockMapping, args: list[ir.Value]) -> list[Value]:
        """Emit the index map of an array: the indices of its block, or of its first element."""
        w, count = self.w, len(self.grid)
        scalars = self._references(args[count:], self.mapping.index_avals, ["scalar argument"] * len(args[count:]))
        indices = w.lower(block.index_map_jaxpr, [*args[:len(self.mapping.grid)], *scalars])[:len(block.block_shape)]
        if any([type(b) is Element for b in block.block_shape]):
            return [w.op("arith.muli", [x, int32(w, b.block_size)]) if type(b) is Blocked else x
                    for x, b in zip(indices, block.block_shape)]
        return [*indices, *[int32(w, 0) for _ in hidden_sizes(block, self.grid)]]

    def _references(self, values: Sequence[ir.Value], avals: Sequence[Any], names: Sequence[str]) -> list[MemRef]:
        return [memref_of(x, a, name) for x, a, name in zip(values, avals, names)]

    def _body(self, args: list[ir.Value]) -> list[Value]:
        w, mapping, count = self.w, self.mapping, len(self.grid)
        w.axes = mapping.kernel_axes
        w.grid = [args[d] for d in w.axes]
        self.grid_indices, args = args[:count], args[count:]
        first, last = mapping.num_index_operands, mapping.num_index_operands + len(mapping.block_mappings)
        scalars = self._references(args[:first], mapping.index_avals, ["a scalar argument"] * first)
        blocks = [memref_of(x, b.block_aval, b.origin, [
                      type(d) is Squeezed for d in b.block_shape] or [True for _ in self._sizes(b)], self._sizes(b))
                  for x, b in zip(args[first:last], mapping.block_mappings)]
        w.main_memory = {v: self._main_memory(v, x) for v, x in zip(self.memory.variables, args[last:])}
        rest = args[last + len(w.main_memory):]
        found = {v: memref_of(x, v.aval, name) for (v, name), x in zip(self.allocated.items(), rest)}
        scratch = [found[v] if v in found else w.main_memory[v] for v in self.scratch]
        w.lower(self.jaxpr, [*scalars, *blocks, *scratch])
        return []

    def _main_memory(self, v: Any, value: ir.Value) -> MemRef:
        """Return scratch memory in main memory: the part of this step along parallel axes."""
        full = memref_of(value, v.aval, f"scratch memory of type {v.aval}", shape=self.memory.shape(v))
        if not self.memory.axes:
            return full
        steps = [Range(self.grid_indices[d], 1, 1, True) for d in self.memory.axes]
        part = slice_memref(self.w, full, [*steps, *[Range(0, n, 1, False) for n in v.aval.shape]])
        return memref_of(part, v.aval, full.name)
