"""From a function to a `Plan`: lower it, compile it, or say why it cannot be, and read off what it needs."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from xlafront.core import avals, errors, keys, tree
from xlafront.planning import costs, hlo, topologies
from xlafront.planning.costs import Buffer
from xlafront.planning.placement import mesh_of, placed, topology_of
from xlafront.planning.report import Memory, Plan
from xlafront.runtime import config, topologies as chips
from xlafront.runtime.compile_options import compile_options
from xlafront.runtime.jaxlib_compat import JaxRuntimeError
from xlafront.runtime.sharding import Mesh, device_list
from xlafront.staging.jit import jit
from xlafront.staging.meshes import set_mesh

SHOWN = 12  # buffers


def plan(fun: Callable, *args: Any, topology: str | topologies.TopologyDescription | None = None, platform: str | None = None,
         mesh: Mesh | Mapping[str, int] | None = None, memory_limit: int | None = None,
         compiler_options: dict[str, Any] | None = None, **kwargs: Any) -> Plan:
    """Compile a function for machines that need not be here, and say what it takes there: see `Plan`.

    - `fun`: the function.
    - `args`, `kwargs`: arrays or `ShapeDtypeStruct`s; shardings may be `PartitionSpec`s. What has none is on every device.
    - `topology`: a name as in `get_topology_desc` ("v5e:16x16", "h100:8"), what that returned, or None for the devices here.
    - `platform`: of the topology, where its name does not tell.
    - `mesh`: the names and sizes of its axes, {"data": -1, "model": 8}; one size may be -1. By default that of the arguments,
      or else the one axis "data".
    - `memory_limit`: bytes of a device to stay within, instead of the chip's own.
    - `compiler_options`: XLA flags by name.

    >>> x = xf.ShapeDtypeStruct((512, 512), "float32", sharding=xf.P("data"))
    >>> xf.plan(lambda x: xnp.sum(x @ x.T), x, mesh={"data": -1}, memory_limit=2**30).fits
    True
    """
    if not callable(fun):
        raise errors.not_callable("plan", fun)
    described = topology_of(topology, platform, mesh, args, kwargs)
    chosen = mesh_of(mesh, described.devices, args, kwargs)
    lowered, stages = _lower(fun, chosen, *placed(fun, chosen, args, kwargs))
    if len(lowered._lowered.assignment.devices) < chosen.size:  # nothing says that it runs on all of them
        lowered, stages = _lower(fun, chosen, *placed(fun, chosen, args, kwargs, everywhere=True))
    assignment = lowered._lowered.assignment
    if not set(assignment.devices) <= set(described.devices):
        if topology is not None:
            raise ValueError(f"{lowered._lowered.name} has shardings over other devices than those of {topology}: make them "
                             f"over the devices of get_topology_desc, or of PartitionSpecs, or leave out the topology.")
        described = topologies.TopologyDescription(list(assignment.devices))  # its own shardings say where it runs
    name = topology if isinstance(topology, str) else f"{len(described.devices)} {described.devices[0].platform} device(s)"
    final = assignment.mesh or Mesh(np.array(assignment.devices, dtype=object), chosen.axis_names[:1])
    return Planner(lowered, name, final, memory_limit, compiler_options, stages).plan()


def _lower(fun: Callable, mesh: Mesh, args: tuple, kwargs: dict[str, Any]):
    started = time.perf_counter()
    with set_mesh(mesh), config.default_device(mesh.devices.flat[0]):
        traced = (fun if hasattr(fun, "lower") else jit(fun)).trace(*args, **kwargs)
        middle = time.perf_counter()
        lowered = traced.lower()
    return lowered, {"trace": middle - started, "lower": time.perf_counter() - middle}


class Planner:
    """One lowered program (`stages.Lowered`), compiled and read."""

    def __init__(self, lowered, topology: str, mesh: Mesh, memory_limit: int | None, compiler_options: dict[str, Any] | None,
                 stages: dict[str, float]):
        self.lowered, self.program, self.topology, self.mesh = lowered, lowered._lowered, topology, mesh
        self.compiler_options, self.stages = compiler_options, stages
        self.devices = self.program.assignment.devices
        self.chip = chips.chip_of(self.devices[0])
        self.limit = memory_limit if memory_limit is not None else self.chip.memory if self.chip else None
        self.notes: list[str] = []
        if self.chip and self.chip.note and memory_limit is None:
            self.notes.append(f"the limit is {self.chip.note}")
        place = {device: i for i, device in enumerate(mesh.devices.flat)}
        self.positions = np.array([place.get(d, i) for i, d in enumerate(self.devices)])

    def plan(self) -> Plan:
        started = time.perf_counter()
        try:
            compiled = self.lowered.compile(self.compiler_options)
        except JaxRuntimeError as e:
            if "RESOURCE_EXHAUSTED" not in str(e):
                raise
            self.stages["compile"] = time.perf_counter() - started
            return self.too_large(str(e))
        self.stages["compile"] = time.perf_counter() - started
        return self.read(compiled.runtime_executable())

    def read(self, executable, refusal: str | None = None) -> Plan:
        module = hlo.Module(executable.hlo_modules()[0].to_string())
        constants = len(self.program.const_args)
        module.argument_names = {i + constants: b.what for i, b in enumerate(self.arguments())}
        module.argument_names |= dict.fromkeys(range(constants), "a constant of the program")
        work = costs.work(module)
        seconds = {}
        if self.chip and refusal is None:
            if self.chip.clock and work.cycles:
                seconds["compiler"] = work.cycles / self.chip.clock
            seconds |= {"compute": work.flops / self.chip.flops, "memory": work.bytes / self.chip.bandwidth}
        if work.unknown_loops:
            self.notes.append(f"{work.unknown_loops} loop(s) of unknown length are counted once")
        if work.uncounted:
            self.notes.append(f"FLOPs inside these kernels are not counted: {', '.join(work.uncounted)}")
        return self.plan_of(
            memory=self.memory(executable.get_compiled_memory_stats()), not_compiled=refusal, flops=work.flops,
            bytes_accessed=work.bytes, seconds=seconds, collectives=costs.collectives(module, self.mesh, self.positions),
            buffers=self.arguments(module) + self.results(module) + costs.temporaries(module))

    def memory(self, stats) -> Memory:
        donated = stats.alias_size_in_bytes
        parts = (stats.argument_size_in_bytes, stats.output_size_in_bytes, donated, stats.temp_size_in_bytes,
                 stats.generated_code_size_in_bytes)
        return Memory(*parts, sum(parts) - 2 * donated, self.limit)

    def plan_of(self, *, buffers: list[Buffer], **fields) -> Plan:
        return Plan(name=self.program.name, topology=self.topology, mesh=self.mesh, device_kind=self.devices[0].device_kind,
                    device_count=len(self.devices), notes=self.notes, stages=self.stages,
                    buffers=sorted(buffers, key=lambda b: -b.bytes)[:SHOWN], **fields)

    # Buffers

    def arguments(self, module: hlo.Module | None = None) -> list[Buffer]:
        """The arguments that are read by name, as the compiler lays them out, or else by their shards' sizes."""
        traced = self.program.traced
        kept = [i for i, keep in enumerate(self.program.kept) if keep]
        types: list = costs.entry_types(module)[len(self.program.const_args):] if module else []
        if len(types) != len(kept):
            types = [None] * len(kept)
        found = []
        for i, compiled in zip(kept, types):
            aval = keys.physical(traced.in_avals[i])
            part = avals.ShapedArray(self.program.assignment.shardings[i].shard_shape(aval.shape), aval.dtype)
            found.append(Buffer(compiled.padded_bytes if compiled else _bytes(part),
                                f"argument {traced.debug_info.arg_names[i]}", avals.str_short(part)))
        return found

    def results(self, module: hlo.Module) -> list[Buffer]:
        """The results that do not take the memory of an argument."""
        types = costs.result_types(module)
        positions = tree.numbered(self.lowered.out_tree)
        paths = [path for path, _ in tree.leaves_with_path(positions)]
        if len(types) != len(paths):
            return []
        return [Buffer(t.padded_bytes, f"result{tree.keystr(path)}", str(t))
                for i, (path, t) in enumerate(zip(paths, types)) if i not in module.reused]

    def values(self) -> list[Buffer]:
        """The largest values of the program as written, as if each were split over all devices."""
        found = []

        def visit(jaxpr):
            for eqn in jaxpr.eqns:
                found.extend(Buffer(_bytes(v.aval) // len(self.devices), eqn.primitive.name,
                                    f"{avals.str_short(v.aval)} / {len(self.devices)}",
                                    f"{eqn.source_info.file}:{eqn.source_info.line}") for v in eqn.outvars)
                for inner in eqn.params.values():
                    for each in inner if isinstance(inner, (tuple, list)) else (inner,):
                        each = getattr(each, "jaxpr", each)
                        if hasattr(each, "eqns"):
                            visit(each)

        visit(self.program.closed.jaxpr)
        return found

    # Programs that do not fit

    def too_large(self, message: str) -> Plan:
        """The compiler gave up: its message, and the buffers as they are on a chip with more memory."""
        refusal = re.sub(r"^RESOURCE_EXHAUSTED: (E\d+: )?(\w+: )?", "", message.split("\nSee ")[0].strip())
        executable = self.compile_with_more_memory()
        if executable is not None:
            return self.read(executable, refusal=refusal)
        self.notes.append("buffers are values of the program as written, as if each were split over all devices")
        arguments = self.arguments()
        size = sum(b.bytes for b in arguments)
        said = re.search(r"([\d.]+)([KMGT])", refusal)
        temporaries = int(float(said.group(1)) * 2 ** {"K": 10, "M": 20, "G": 30, "T": 40}[said.group(2)]) if said else 0
        return self.plan_of(memory=Memory(size, 0, 0, temporaries, 0, size + temporaries, self.limit), not_compiled=refusal,
                            buffers=arguments + self.values(), flops=None, bytes_accessed=None, seconds={}, collectives=[])

    def compile_with_more_memory(self):
        """The same module on as many v5p chips, which have the most memory of the TPUs: who needs what is much the same."""
        count = len(self.devices)
        shape = slice_shape(count)
        if self.devices[0].platform != "tpu" or self.chip is chips.TPUS["v5p"] or shape is None:
            return None
        try:
            mesh = topologies.make_mesh(topologies.get_topology_desc(f"v5p:{shape}"), self.mesh.devices.shape,
                                        self.mesh.axis_names)
            devices = tuple(mesh.devices.flat)
            overrides = dict(self.program.options.compiler_options) | (self.compiler_options or {})
            options = compile_options(count, devices, overrides)
            self.program.shardings.adjust(options)
            executable = devices[0].client.compile(self.program.module_context.module, device_list(devices), options)
        except (JaxRuntimeError, ValueError):
            return None
        self.notes.append("memory and work are those on v5p chips, where it compiles")
        return executable


def _bytes(aval) -> int:
    physical = keys.physical(aval)
    return math.prod(physical.shape) * physical.dtype.itemsize


def slice_shape(count: int) -> str | None:
    """The shape of a v5p slice of `count` chips, as cubic as slices of that size come."""
    boxes = [(x, y, count // (x * y)) for x in range(2, 17, 2) for y in range(x, 17, 2)
             if count % (2 * x * y) == 0 and count // (x * y) >= y]
    boxes += [box for box in ((1, 1, 1), (2, 1, 1), (2, 2, 1)) if math.prod(box) == count]
    return "x".join(map(str, max(boxes))) if boxes else None
