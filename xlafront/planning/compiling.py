"""Planning of a function: lower and compile it for a topology, and collect its costs in a `Plan`."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np

from xlafront.base.jaxlib_compat import JaxRuntimeError
from xlafront.core import avals, errors, source, tree
from xlafront.core.ir import subprograms
from xlafront.planning import costs, hlo, kernels, memory_timeline, step_time, topologies
from xlafront.planning.costs import Buffer
from xlafront.planning.placement import lower_on, mesh_of, on_mesh, topology_of
from xlafront.planning.report import Memory, Plan
from xlafront.runtime import keys, topologies as chips
from xlafront.runtime.compile_options import compile_options
from xlafront.runtime.sharding import Mesh, device_list

SHOWN_BUFFERS = 12


def plan(fun: Callable, *args: Any, topology: str | topologies.TopologyDescription | None = None, platform: str | None = None,
         mesh: Mesh | Mapping[str, int] | None = None, memory_limit: int | None = None,
         compiler_options: dict[str, Any] | None = None, **kwargs: Any) -> Plan:
    """Compile a function for devices that need not be attached, and return its memory, work and collectives.

    Args:
        fun: Function to plan.
        args, kwargs: Arrays or `ShapeDtypeStruct`s, whose shardings may be `PartitionSpec`s. Those without sharding are
            replicated.
        topology: Name as for `get_topology_desc` ("v5e:16x16", "h100:8"), or its result. Default: the attached devices.
        platform: Platform of the topology, if its name does not imply it.
        mesh: Mesh, or names and sizes of its axes, {"data": -1, "model": 8}; one size may be -1. Default: the mesh of the
            arguments, or one axis "data".
        memory_limit: Memory of a device in bytes, instead of the chip's own.
        compiler_options: XLA flags by name.

    Returns:
        The plan.

    Example:
        >>> x = xf.ShapeDtypeStruct((512, 512), "float32", sharding=xf.P("data"))
        >>> xf.plan(lambda x: xnp.sum(x @ x.T), x, mesh={"data": -1}, memory_limit=2**30).fits
        True
    """
    if not callable(fun):
        raise errors.not_callable("plan", fun)
    described = topology_of(topology, platform, mesh, args, kwargs)
    chosen = mesh_of(mesh, described.devices, args, kwargs)
    lowered, stages = lower_on(chosen, fun, *on_mesh(fun, chosen, args, kwargs))
    if len(lowered._lowered.assignment.devices) < chosen.size:  # no sharding uses all devices: replicate the arguments
        lowered, stages = lower_on(chosen, fun, *on_mesh(fun, chosen, args, kwargs, replicate=True))
    assignment = lowered._lowered.assignment
    if not set(assignment.devices) <= set(described.devices):
        if topology is not None:
            raise ValueError(f"{lowered._lowered.name} has shardings over other devices than those of {topology}: use the "
                             f"devices of get_topology_desc, or PartitionSpecs, or leave out the topology.")
        described = topologies.TopologyDescription(list(assignment.devices))  # the shardings determine the devices
    name = topology if isinstance(topology, str) else f"{len(described.devices)} {described.devices[0].platform} device(s)"
    final = assignment.mesh or Mesh(np.array(assignment.devices, dtype=object), chosen.axis_names[:1])
    return Planner(lowered, name, final, memory_limit, compiler_options, stages).plan()


class Planner:
    """The planner of one lowered program (`stages.Lowered`): it compiles the program and reads its costs."""

    def __init__(self, lowered, topology: str, mesh: Mesh, memory_limit: int | None, compiler_options: dict[str, Any] | None,
                 stages: dict[str, float]):
        self.lowered, self.lowered_module, self.topology, self.mesh = lowered, lowered._lowered, topology, mesh
        self.compiler_options, self.stages = compiler_options, stages
        self.devices = self.lowered_module.assignment.devices
        self.chip = chips.chip_of(self.devices[0])
        self.limit = memory_limit if memory_limit is not None else self.chip.memory if self.chip else None
        self.notes: list[str] = []
        self.grids = kernels.grids(self.lowered_module.closed)
        self.kernels: list[kernels.Kernel] = []
        if self.chip and self.chip.note and memory_limit is None:
            self.notes.append(f"the limit is {self.chip.note}")
        position = {device: i for i, device in enumerate(mesh.devices.flat)}
        self.positions = np.array([position.get(d, i) for i, d in enumerate(self.devices)])

    def plan(self) -> Plan:
        dump = kernels.dumped_launches() if self.grids and self.devices[0].platform == "gpu" else nullcontext(({}, ""))
        started = time.perf_counter()
        with dump as (options, folder):
            try:
                compiled = self.lowered.compile((self.compiler_options or {}) | options)
            except JaxRuntimeError as e:
                if "RESOURCE_EXHAUSTED" not in str(e):
                    raise
                self.stages["compile"] = time.perf_counter() - started
                return self.too_large(str(e))
            self.stages["compile"] = time.perf_counter() - started
            if folder:
                self.kernels = kernels.on_gpu(folder, self.chip, self.grids)
        return self.read(compiled.runtime_executable())

    def read(self, executable, refusal: str | None = None) -> Plan:
        try:
            module = hlo.Module(program_text(executable))
        except JaxRuntimeError as e:
            return self.unread(executable, refusal, e)
        constants = len(self.lowered_module.const_args)
        module.argument_names = {i + constants: b.what for i, b in enumerate(self.arguments())}
        module.argument_names |= dict.fromkeys(range(constants), "a constant of the program")
        if self.grids and self.devices[0].platform == "tpu":
            self.kernels = kernels.on_tpu(module, self.lowered_module.module_context.module, self.chip, self.grids)
        work = costs.work(module)
        collectives = costs.collectives(module, self.mesh, self.positions)
        seconds = step_time.seconds(work, collectives, self.mesh, self.chip) if self.chip and refusal is None else {}
        if work.unknown_loops:
            self.notes.append(f"{work.unknown_loops} loop(s) of unknown length are counted once")
        if work.uncounted:
            self.notes.append(f"FLOPs inside these kernels are not counted: {', '.join(work.uncounted)}")
        return self.plan_of(
            memory=self.memory(executable.get_compiled_memory_stats()), not_compiled=refusal, flops=work.flops,
            bytes_accessed=work.bytes, seconds=seconds, collectives=collectives,
            buffers=self.arguments(module) + self.results(module) + costs.temporaries(module),
            timeline=memory_timeline.timeline(module))

    def unread(self, executable, refusal: str | None, error: JaxRuntimeError) -> Plan:
        """Return the plan of a program that was compiled and whose text jaxlib cannot read: its memory, and its arguments."""
        reason = str(error).split("\n")[0]
        self.notes.append(f"only memory is known, since this jaxlib does not read the compiler's program ({reason}): a newer "
                          f"jaxlib may")
        return self.plan_of(memory=self.memory(executable.get_compiled_memory_stats()), not_compiled=refusal, flops=None,
                            bytes_accessed=None, seconds={}, collectives=[], buffers=self.arguments())

    def memory(self, stats) -> Memory:
        donated = stats.alias_size_in_bytes
        sizes = (stats.argument_size_in_bytes, stats.output_size_in_bytes, donated, stats.temp_size_in_bytes,
                 stats.generated_code_size_in_bytes)
        return Memory(*sizes, sum(sizes) - 2 * donated, self.limit)

    def plan_of(self, *, buffers: list[Buffer], **fields) -> Plan:
        return Plan(name=self.lowered_module.name, topology=self.topology, mesh=self.mesh, stages=self.stages,
                    device_kind=self.devices[0].device_kind, device_count=len(self.devices), notes=self.notes,
                    kernels=self.kernels, buffers=sorted(buffers, key=lambda b: -b.bytes)[:SHOWN_BUFFERS], **fields)

    # Buffers

    def arguments(self, module: hlo.Module | None = None) -> list[Buffer]:
        """Return the live arguments, in the compiler's layout if known, else with the size of their shards."""
        traced = self.lowered_module.job.traced
        live = [i for i, keep in enumerate(self.lowered_module.live) if keep]
        types: list = costs.entry_types(module)[len(self.lowered_module.const_args):] if module else []
        if len(types) != len(live):
            types = [None] * len(live)
        buffers = []
        for i, compiled in zip(live, types):
            aval = keys.physical(traced.in_avals[i])
            shard = avals.ShapedArray(self.lowered_module.assignment.shardings[i].shard_shape(aval.shape), aval.dtype)
            buffers.append(Buffer(compiled.padded_bytes if compiled else _bytes(shard),
                                  f"argument {traced.debug_info.arg_names[i]}", avals.str_short(shard)))
        return buffers

    def results(self, module: hlo.Module) -> list[Buffer]:
        """Return the results that do not reuse the buffer of an argument."""
        types = costs.result_types(module)
        positions = tree.leaf_indices(self.lowered.out_tree)
        paths = [path for path, _ in tree.leaves_with_path(positions)]
        if len(types) != len(paths):
            return []
        return [Buffer(t.padded_bytes, f"result{tree.keystr(path)}", str(t))
                for i, (path, t) in enumerate(zip(paths, types)) if i not in module.reused]

    def values(self) -> list[Buffer]:
        """Return the values of the jaxpr before optimization, as if each were sharded over all devices."""
        found = []

        def visit(jaxpr):
            for eqn in jaxpr.eqns:
                found.extend(Buffer(_bytes(v.aval) // len(self.devices), eqn.primitive.name,
                                    f"{avals.str_short(v.aval)} / {len(self.devices)}",
                                    source.position(eqn.source_info.file, eqn.source_info.line)) for v in eqn.outvars)
                for inner in subprograms(eqn.params):
                    visit(inner)

        visit(self.lowered_module.closed)
        return found

    # Programs that do not fit

    def too_large(self, message: str) -> Plan:
        """Return the plan of a program that the compiler rejected: its message, and the buffers on a chip with more memory."""
        refusal = re.sub(r"^RESOURCE_EXHAUSTED: (E\d+: )?(\w+: )?", "", message.split("\nSee ")[0].strip())
        executable = self.compile_with_more_memory()
        if executable is not None:
            return self.read(executable, refusal=refusal)
        self.notes.append("buffers are values of the program as written, as if each were split over all devices")
        arguments = self.arguments()
        size = sum(b.bytes for b in arguments)
        amount = re.search(r"([\d.]+)([KMGT])", refusal)
        temporaries = int(float(amount.group(1)) * 2 ** {"K": 10, "M": 20, "G": 30, "T": 40}[amount.group(2)]) if amount else 0
        return self.plan_of(memory=Memory(size, 0, 0, temporaries, 0, size + temporaries, self.limit), not_compiled=refusal,
                            buffers=arguments + self.values(), flops=None, bytes_accessed=None, seconds={}, collectives=[])

    def compile_with_more_memory(self):
        """Compile the module for as many v5p chips, the TPUs with the most memory; return None if that fails.

        The buffers are similar there.
        """
        count = len(self.devices)
        shape = slice_shape(count)
        if self.devices[0].platform != "tpu" or self.chip is chips.TPUS["v5p"] or shape is None:
            return None
        try:
            mesh = topologies.make_mesh(topologies.get_topology_desc(f"v5p:{shape}"), self.mesh.devices.shape,
                                        self.mesh.axis_names)
            devices = tuple(mesh.devices.flat)
            overrides = dict(self.lowered_module.job.options.compiler_options) | (self.compiler_options or {})
            options = compile_options(count, devices, overrides)
            self.lowered_module.shardings.adjust(options)
            executable = devices[0].client.compile(self.lowered_module.module_context.module, device_list(devices), options)
        except (JaxRuntimeError, ValueError):
            return None
        self.notes.append("memory and work are those on v5p chips, where it compiles")
        return executable


def program_text(executable) -> str:
    """Return the optimized HLO of a compiled program."""
    return executable.hlo_modules()[0].to_string()


def _bytes(aval) -> int:
    physical = keys.physical(aval)
    return math.prod(physical.shape) * physical.dtype.itemsize


def slice_shape(count: int) -> str | None:
    """Return the shape of a v5p slice of `count` chips, as cubic as available for this size."""
    boxes = [(x, y, count // (x * y)) for x in range(2, 17, 2) for y in range(x, 17, 2)
             if count % (2 * x * y) == 0 and count // (x * y) >= y]
    boxes += [box for box in ((1, 1, 1), (2, 1, 1), (2, 2, 1)) if math.prod(box) == count]
    return "x".join(map(str, max(boxes))) if boxes else None
