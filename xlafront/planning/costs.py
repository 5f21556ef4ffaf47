"""Costs of a compiled program on each device: operations, memory traffic, collectives, large buffers.

XLA's own analysis counts the body of a loop once; here it counts once per iteration.
"""

from __future__ import annotations

import collections
import itertools
import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from xlafront.planning.hlo import Computation, Instruction, Module, Type

# Operations without memory traffic: names for existing values, or calls whose cost is that of the called computation.
_FREE = frozenset("""parameter constant tuple get-tuple-element bitcast while conditional call after-all partition-id replica-id
    async-start async-update async-done opt-barrier add-dependency domain""".split())
# Operations whose results share the buffer of another value.
_ALIASES = _FREE | {"dynamic-update-slice"}
ARITHMETIC = frozenset("""add subtract multiply divide maximum minimum remainder negate abs sign power sqrt rsqrt cbrt
    exponential exponential-minus-one log log-plus-one logistic tanh tan sine cosine erf atan2 floor ceil round-nearest-even
    round-nearest-afz compare select and or xor not clamp""".split())
_READERS = frozenset("dynamic-slice slice gather".split())


class Buffer(NamedTuple):
    """A value in the memory of a device."""

    bytes: int
    what: str
    type: str
    line: str = ""


class Collective(NamedTuple):
    """A collective operation between devices, and how often it runs in a step."""

    kind: str
    bytes: int  # per run and device: the size of what is reduced, gathered or sent
    times: float
    group_size: int
    axes: tuple[str, ...] | None  # of the mesh, or None where the groups are not along axes
    types: str
    operation: str
    line: str
    overlaps: bool = False  # True if the compiler lets it run beside kernels
    scope: str = "all"  # or "within slices", "between slices": the part that a program for several slices does in this way


class KernelWork(NamedTuple):
    """The work of one kernel, and how often it runs in a step."""

    times: float
    flops_by_kind: tuple[tuple[str, float], ...]  # "int8", "fp8", "f32" and so on for products (`_kind`), "" for all others
    bytes: float

    @property
    def flops(self) -> float:
        return sum([n for _, n in self.flops_by_kind])

    def compute_seconds(self, rate: Callable[[str], float]) -> float:
        """Return the time of the operations of one run; `rate(kind)` is their number per second."""
        return sum([n / rate(kind) for kind, n in self.flops_by_kind])

    def seconds(self, rate: Callable[[str], float], bandwidth: float) -> float:
        """Return the time of all runs, bound by operations or by memory, whichever takes longer."""
        return self.times * max(self.compute_seconds(rate), self.bytes / bandwidth)


class Work(NamedTuple):
    """The work of one device in a step."""

    kernels: tuple[KernelWork, ...]
    collective_bytes: float  # of memory that collectives read and write
    cycles: float  # the compiler's estimate for its kernels; 0 if it has none
    unscheduled: tuple[KernelWork, ...]  # those of them that the compiler's estimate leaves out: Pallas kernels
    unknown_loops: int  # loops of unknown length, which are counted once
    uncounted: tuple[str, ...]  # library kernels, whose operations are unknown

    @property
    def flops(self) -> float:
        return sum(k.times * k.flops for k in self.kernels)

    @property
    def bytes(self) -> float:
        return self.collective_bytes + sum(k.times * k.bytes for k in self.kernels)

    def compute_seconds(self, rate: Callable[[str], float]) -> float:
        """Return the time of all operations; `rate(kind)` is the number per second of those of a kind."""
        return sum(k.times * k.compute_seconds(rate) for k in self.kernels)

    def seconds(self, rate: Callable[[str], float], bandwidth: float) -> float:
        """Return the time of the kernels one after another, each bound by operations or by memory, at these rates."""
        return sum([k.seconds(rate, bandwidth) for k in self.kernels])

    def scheduled_seconds(self, clock: float, rate: Callable[[str], float], bandwidth: float) -> float:
        """Return the compiler's estimate of the kernels' time, with that of other kernels (`unscheduled`) at these rates."""
        return self.cycles / clock + sum([k.seconds(rate, bandwidth) for k in self.unscheduled])


def work(module: Module) -> Work:
    kernels: list[KernelWork] = []
    unscheduled: list[KernelWork] = []
    collective_bytes, cycles, unknown = 0.0, 0.0, 0
    uncounted: set[str] = set()
    for computation, times, fused in module.walk():
        if fused:  # counted with its kernel
            continue
        for instruction in computation.instructions:
            if instruction.opcode == "while":
                unknown += module.trips(computation, instruction) is None
            flops = collections.Counter[str]()
            _count_flops(module, computation, instruction, flops, uncounted)
            traffic = _traffic(module, computation, instruction)
            kernel = KernelWork(times, tuple(flops.items()), traffic)
            if instruction.opcode in _COLLECTIVES:
                collective_bytes += times * traffic
            elif flops or traffic:
                kernels.append(kernel)
            estimate = re.search(r'"estimated_cycles":"(\d+)"', instruction.attributes)
            if estimate:
                cycles += times * int(estimate.group(1))
            elif is_mosaic_kernel(instruction):
                unscheduled.append(kernel)
    return Work(tuple(kernels), collective_bytes, cycles, tuple(unscheduled), unknown, tuple(sorted(uncounted)))


def is_mosaic_kernel(instruction: Instruction) -> bool:
    return instruction.opcode == "custom-call" and 'custom_call_target="tpu_custom_call"' in instruction.attributes


# Operations


def _count_flops(module: Module, computation: Computation, instruction: Instruction, found: collections.Counter[str],
                 uncounted: set[str]) -> None:
    """Count the operations of an instruction by kind, those of a fused kernel with all that is in it."""
    count = _flops(computation, instruction)
    if count is None:
        target = re.search(r'custom_call_target="([^"]*)"', instruction.attributes)
        uncounted.add(target.group(1) if target else instruction.opcode)
    if instruction.opcode != "fusion":
        if count:
            found[_kind(computation, instruction)] += count
        return
    for inner in module.fused(instruction):
        for one in inner.instructions:
            if one.opcode != "fusion":
                _count_flops(module, inner, one, found, uncounted)


def _kind(computation: Computation, instruction: Instruction) -> str:
    """Return the kind of a product on which its rate depends, as in `Chip.rate`; "" for other operations."""
    if instruction.opcode not in ("dot", "convolution", "custom-call"):
        return ""
    operands = {types[0].dtype for types in computation.operand_types(instruction)[:2] if types}
    if operands <= _INTEGERS:
        return "int8"
    if all([dtype.startswith("f8") for dtype in operands]):
        return "fp8"
    if not operands & {"f32", "f64", "c64", "c128"}:
        return ""
    precision = re.search(r"""operand_precision["']?[=:]\s*[{\[]([^}\]]*)""", instruction.attributes)
    text = precision.group(1).lower() if precision else ""
    algorithm = re.search(r"algorithm=dot_(\w+)", instruction.attributes)
    if algorithm:
        return next((kind for pattern, kind in _ALGORITHMS if re.fullmatch(pattern, algorithm.group(1))), "f32")
    if "highest" in text or operands & {"f64", "c128"}:
        return "f32 highest"
    return "f32 high" if "high" in text else "f32"


_INTEGERS = frozenset("s8 u8 s4 u4".split())
_ALGORITHMS = ((r"f32_.*|f64_.*|.*_x[69]", "f32 highest"), (r".*_x3", "f32 high"), (r"bf16_.*|f16_.*", ""))


def _flops(computation: Computation, instruction: Instruction) -> float | None:
    opcode = instruction.opcode
    if opcode in ARITHMETIC:
        return instruction.types[0].size
    if opcode == "dot":
        return _product(computation, instruction, instruction.numbers("lhs_contracting_dims"))
    if opcode == "convolution":
        return _convolution(computation, instruction)
    if opcode in ("reduce", "reduce-window"):
        operands = computation.operand_types(instruction)
        return sum(t.size for types in operands[:len(operands) // 2] for t in types)
    if opcode == "custom-call":
        return _library_call(computation, instruction)
    return 0


def _product(computation: Computation, instruction: Instruction, contracted: list[int]) -> float:
    [left, *_] = computation.operand_types(instruction)[0]
    return 2.0 * instruction.types[0].size * float(np.prod([left.shape[d] for d in contracted]))


def _library_call(computation: Computation, instruction: Instruction) -> float | None:
    target = instruction.attributes
    if is_mosaic_kernel(instruction):
        stated = re.search(r'"cost_estimate":\{"flops":"(\d+)"', target)
        return float(stated.group(1)) if stated else None
    if "gemm" in target or "cublas" in target:
        found = re.search(r'"lhs_contracting_dimensions":\[([^\]]*)\]', target)
        if found:
            return _product(computation, instruction, [int(d) for d in re.findall(r"\d+", found.group(1))])
    computes = sum(t.size for t in instruction.types) > 1 and not re.search(
        r"AllocateBuffer|Sharding|Bitcast|AsyncCollective", target)
    return None if computes else 0


def _convolution(computation: Computation, instruction: Instruction) -> float:
    """Count two operations for each pair of an input element and a kernel element that meet.

    Padding and the gaps of a dilated input do not count: TPU compilers express batched matrix products as convolutions that
    consist mostly of gaps.
    """
    inputs, kernel = (types[0].shape for types in computation.operand_types(instruction)[:2])
    input_dims, kernel_dims, output_dims = re.search(r"dim_labels=(\w+)_(\w+)->(\w+)", instruction.attributes).groups()
    output = instruction.types[0].shape
    window = dict(re.findall(r"(\w+)=(\S+)", instruction.attribute("window") or ""))
    spatial = [label for label in output_dims if label.isdigit()]
    pairs = 1.0
    for i, label in enumerate(spatial):
        def given(key: str, default: int, i=i) -> int:
            return int(window[key].split("x")[i]) if key in window else default

        low = int(window["pad"].split("x")[i].split("_")[0]) if "pad" in window else 0
        n, size = inputs[input_dims.index(label)], given("size", kernel[kernel_dims.index(label)])
        dilation = given("lhs_dilate", 1)
        positions = (np.arange(output[output_dims.index(label)])[:, None] * given("stride", 1)
                     + np.arange(size)[None, :] * given("rhs_dilate", 1) - low)
        pairs *= float(np.count_nonzero((positions >= 0) & (positions <= (n - 1) * dilation) & (positions % dilation == 0)))
    return 2.0 * pairs * output[output_dims.index("b")] * output[output_dims.index("f")] * kernel[kernel_dims.index("i")]


# Memory traffic


def _bytes(types) -> int:
    return sum(t.bytes for t in types if t.in_main_memory)


def instruction_results(computation: Computation, instruction: Instruction) -> tuple[Type, ...]:
    """Return the types of the results of an instruction; for an asynchronous start, without its repeated operands and state."""
    if not instruction.opcode.endswith("-start"):
        return instruction.types
    results = [t for t in instruction.types if t.shape]
    for types in computation.operand_types(instruction):
        for operand in types:
            if operand in results and len(results) > 1:
                results.remove(operand)
    return tuple(results)


def _traffic(module: Module, computation: Computation, instruction: Instruction) -> float:
    """Return the number of bytes of main memory that an instruction reads and writes."""
    opcode = instruction.opcode
    if opcode in _FREE or opcode.endswith("-done"):
        return 0
    operands = computation.operand_types(instruction)
    if opcode == "copy-start":
        return _bytes(operands[0]) + _bytes(instruction_results(computation, instruction))
    if opcode == "slice-start":
        return 2 * max((t.bytes for t in instruction_results(computation, instruction)), default=0)
    if opcode in _READERS:
        return 2 * _bytes(instruction.types)
    if opcode == "dynamic-update-slice":
        return 2 * _bytes(operands[1])
    if opcode == "fusion":
        inner = module.computations.get(instruction.attribute("calls") or "")
        if inner is not None:
            return _fusion_traffic(module, inner, operands, instruction.types)
    if opcode.endswith("-start"):
        return 2 * sum(_bytes(types) for types in operands)
    return sum(_bytes(types) for types in operands) + _bytes(instruction.types)


def _fusion_traffic(module: Module, inner: Computation, operands, results) -> float:
    """Count what a fused kernel accesses: of a sliced operand only the slices, of an updated result only the updates."""
    total = 0.0
    for number, types in enumerate(operands):
        parameter = inner.parameter(number)
        if _bytes(types):
            total += _bytes(types) if parameter is None else min(_bytes(types), _read(module, inner, parameter.name))
    roots = _elements(inner, inner.root)
    if len(roots) != len(results):
        return total + _bytes(results)
    return total + sum(min(t.bytes, _written(module, inner, root)) for t, root in zip(results, roots) if t.in_main_memory)


def _read(module: Module, inner: Computation, name: str) -> float:
    """Return the number of bytes that a kernel reads of an operand; infinity stands for all of it."""
    names, total = {name}, 0.0
    for instruction in inner.instructions:
        for position, operand in enumerate(instruction.operands):
            if operand not in names:
                continue
            if instruction.opcode == "bitcast":
                names.add(instruction.name)
            elif instruction.opcode in _READERS and position == 0:
                total += instruction.types[0].bytes
            elif instruction.opcode == "fusion" and instruction.called[0] in module.computations:
                nested = module.computations[instruction.called[0]]
                parameter = nested.parameter(position)
                total += _read(module, nested, parameter.name) if parameter else np.inf
            elif instruction.opcode != "tuple" and not (instruction.opcode == "dynamic-update-slice" and position == 0):
                return np.inf
    return total


def _written(module: Module, inner: Computation, root: Instruction) -> float:
    """Return the number of bytes that a kernel writes of a result; infinity stands for all of it."""
    if root.opcode == "dynamic-update-slice":
        return inner.by_name[root.operands[1]].types[0].bytes
    if root.opcode == "fusion" and len(root.types) == 1 and root.called[0] in module.computations:
        nested = module.computations[root.called[0]]
        return _written(module, nested, _elements(nested, nested.root)[0])
    return np.inf


def _elements(inner: Computation, root: Instruction) -> list[Instruction]:
    """Return the results of a kernel, behind tuples and bitcasts."""
    while root.opcode == "bitcast":
        root = inner.by_name[root.operands[0]]
    if root.opcode == "tuple":
        return [element for name in root.operands for element in _elements(inner, inner.by_name[name])]
    return [root]


# Collectives

_COLLECTIVES = {name: name for name in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute",
                                        "collective-broadcast", "ragged-all-to-all")}
_COLLECTIVES |= {f"{name}-start": name for name in _COLLECTIVES}


def collectives(module: Module, mesh, positions: np.ndarray, scattered: bool = False) -> list[Collective]:
    """Return the collectives of a step, largest first.

    Args:
        module: Compiled program.
        mesh: Its mesh.
        positions: Position in the mesh of each device of the program.
        scattered: If True, sums of which a device reads only a part are counted as `reduce-scatter`, as most compilers will
            write them.
    """
    found: dict[tuple, list] = {}
    per_slice = 1 < module.partitions < len(positions)  # the program of one slice, which transfers values to the others
    if per_slice:
        slices = np.array([getattr(d, "slice_index", 0) for d in mesh.devices.flat])[positions]
        positions = positions[slices == slices[0]]
    for computation, times, _ in module.walk():
        for instruction in computation.instructions:
            if per_slice and (transfer := _transfer(module, computation, instruction, mesh)) is not None:
                found.setdefault(transfer, []).append(times)
                continue
            kind = _COLLECTIVES.get(instruction.opcode)
            if kind is None:
                continue
            if "async_collective_fusion_config" in instruction.attributes and not _starts(computation):
                continue  # the compiler repeats it in each kernel that overlaps with it
            if kind == "all-reduce" and computation.name.startswith("all-reduce-scatter"):
                kind = "reduce-scatter"  # as TPU compilers write it
            elif kind == "all-reduce" and scattered and _reads_part(module, computation, instruction):
                kind = "reduce-scatter"
            operands = [t for types in computation.operand_types(instruction) for t in types] or list(instruction.types)
            labels, size = _groups(instruction, len(positions))
            types = _gathered(operands, size, instruction.numbers("dimensions")) if kind == "all-gather" else operands
            axes = None
            if labels is not None:
                axes = (_permuted_axes if kind == "collective-permute" else _group_axes)(labels, mesh, positions)
            shown = ", ".join(map(str, types[:2])) + (f" and {len(types) - 2} more" if len(types) > 2 else "")
            one = Collective(kind, sum(t.bytes for t in types), times, size, axes, shown,
                             *module.origin(computation, instruction), _overlaps(instruction),
                             "within slices" if per_slice else "all")
            if size > 1:
                found.setdefault(one._replace(times=0), []).append(times)
    result = [one._replace(times=sum(times)) for one, times in found.items()]
    return sorted(result, key=lambda c: -c.bytes * c.times)


def _reads_part(module: Module, computation: Computation, instruction: Instruction) -> bool:
    """Return True if less than half is read of the results of an instruction: slices of them."""
    names = [instruction.name] if len(instruction.types) == 1 else [
        i.name for i in computation.instructions if i.opcode == "get-tuple-element" and i.operands[0] == instruction.name]
    read = sum([_read(module, computation, name) for name in names])
    return read <= sum([t.bytes for t in instruction.types]) / 2


def _overlaps(instruction: Instruction) -> bool:
    """Return True if the collective is a start and a done, between which other kernels run, or is part of kernels."""
    asynchronous = instruction.opcode.endswith("-start") and '"is_sync":true' not in instruction.attributes
    return asynchronous or "async_collective_fusion_config" in instruction.attributes


def _starts(computation: Computation) -> bool:
    return any('custom_call_target="AsyncCollectiveStart"' in i.attributes for i in computation.instructions)


def _gathered(types: list[Type], size: int, dimensions: list[int]) -> list[Type]:
    along = dimensions[0] if dimensions else 0
    return [t._replace(shape=(*t.shape[:along], size * t.shape[along], *t.shape[along + 1:]) if t.shape else (size,))
            for t in types]


def _groups(instruction: Instruction, count: int) -> tuple[np.ndarray | None, int]:
    """Return the groups of devices, one per row (for a permutation: source and target), and the size of a group."""
    text = instruction.attributes
    pairs = re.search(r"source_target_pairs=\{((?:\{\d+,\d+\},?)*)\}", text)
    if pairs:
        rows = np.array(re.findall(r"\{(\d+),(\d+)\}", pairs.group(1)), dtype=int).reshape(-1, 2)
        return rows, min(len(rows), 2) if len(rows) else 0
    named = re.search(r"replica_groups=mesh\[([^\]]*)\](?:, device_ids=\(([^()]*(?:\([^()]*\))?)\))? \{([^}]*)\}", text)
    if named:
        rows = _named_groups(*named.groups())
        return rows, rows.shape[-1]
    iota = re.search(r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", text)
    if iota:
        shape, source, order = ([int(n) for n in text.split(",")] if text else None for text in iota.groups())
        ids = np.arange(int(np.prod(source))).reshape(source)
        rows = (ids.transpose(order) if order else ids).reshape(shape)
        return rows, rows.shape[-1]
    listed = re.search(r"replica_groups=\{((?:\{[\d,]*\},?)*)\}", text)
    if listed:
        rows = [[int(n) for n in group.split(",")] for group in re.findall(r"\{([\d,]+)\}", listed.group(1))]
        if not rows:
            rows = [list(range(count))]
        if len({len(row) for row in rows}) == 1:
            return np.array(rows), len(rows[0])
        return None, max(len(row) for row in rows)
    return None, count


def _named_groups(axes: str, ids: str | None, along: str) -> np.ndarray:
    """Return groups along axes of a mesh that the compiler made.

    `axes` are the axes of the mesh, such as `'a'=2,'b'=4`; `ids` the order of its devices, such as `[2,2,2]T(1,0,2)`; `along`
    the axes of the groups, such as `'b'`. An axis may be factored further: `'b':(2)2` is its factor of size 2 after an outer
    factor of 2.
    """
    shape = {name: int(n) for name, n in re.findall(r"'([^']*)'=(\d+)", axes)}
    grid = np.arange(int(np.prod(list(shape.values()))))
    iota = re.match(r"\[([\d,]+)\](?:T\(([\d,]+)\))?", ids or "")
    if iota:
        source = grid.reshape([int(n) for n in iota.group(1).split(",")])
        grid = (source.transpose([int(n) for n in iota.group(2).split(",")]) if iota.group(2) else source).ravel()
    elif ids:
        grid = np.array([int(n) for n in re.findall(r"\d+", ids)])
    factors = [(name, int(before or 1), int(size or shape[name]))
               for name, before, size in re.findall(r"'([^']*)'(?::\((\d+)\)(\d+))?", along)]
    dimensions: list[int] = []
    chosen: dict[int, int] = {}  # position in `factors` -> dimension
    for name, n in shape.items():
        done = 1
        for before, size, position in sorted((b, s, i) for i, (axis, b, s) in enumerate(factors) if axis == name):
            dimensions += [before // done, size]
            chosen[position] = len(dimensions) - 1
            done = before * size
        dimensions.append(n // done)
    last = [chosen[position] for position in range(len(factors))]
    first = [d for d in range(len(dimensions)) if d not in last]
    size = int(np.prod([dimensions[d] for d in last]))
    return grid.reshape(dimensions).transpose(first + last).reshape(-1, size)


def _group_axes(groups: np.ndarray, mesh, positions: np.ndarray) -> tuple[str, ...] | None:
    """Return the axes of the mesh along which the groups are, or None."""
    if mesh is None or groups.size != len(positions):
        return None
    if len(positions) < mesh.size:
        return _axes_of_part(groups, mesh, positions)
    label = np.empty(len(positions), dtype=int)
    mesh_positions = positions[groups]
    label[mesh_positions] = mesh_positions.min(1, keepdims=True)
    shape = mesh.devices.shape
    grid = np.arange(mesh.size).reshape(shape)
    names = [i for i, n in enumerate(shape) if n > 1]
    for count in range(1, len(names) + 1):
        for chosen in itertools.combinations(names, count):
            if np.prod([shape[i] for i in chosen]) != groups.shape[1]:
                continue
            if np.array_equal(np.broadcast_to(grid.min(chosen, keepdims=True), shape).ravel(), label):
                return tuple(mesh.axis_names[i] for i in chosen)
    return None


def _axes_of_part(groups: np.ndarray, mesh, positions: np.ndarray) -> tuple[str, ...] | None:
    """Return the axes along which groups are that have only devices of one slice, or None."""
    coordinates = np.array(np.unravel_index(positions[groups], mesh.devices.shape))
    counts = np.array([[len(np.unique(row)) for row in axis] for axis in coordinates])
    if (counts.prod(0) != groups.shape[1]).any() or (counts != counts[:, :1]).any():
        return None
    return tuple(mesh.axis_names[i] for i in np.flatnonzero(counts[:, 0] > 1))


_TRANSFERS = {"ALL_REDUCE": "all-reduce", "ALL_GATHER": "all-gather", "REDUCE_SCATTER": "reduce-scatter",
              "ALL_TO_ALL": "all-to-all"}


def _transfer(module: Module, computation: Computation, instruction: Instruction, mesh) -> Collective | None:
    """Return the collective between slices that a `send` of a TPU's program is, None for other instructions."""
    named = re.search(r'_xla_megascale_transfer_type="(\w+)"', instruction.attributes)
    if instruction.opcode != "send" or named is None:
        return None
    kind = _TRANSFERS.get(named.group(1), "collective-permute")
    [sent] = computation.operand_types(instruction)[0]
    slices = np.reshape([getattr(d, "slice_index", 0) for d in mesh.devices.flat], mesh.devices.shape)
    axes = tuple(name for i, name in enumerate(mesh.axis_names) if (slices != slices.take([0], i)).any())
    size = len(np.unique(slices))
    return Collective(kind, sent.bytes * (size if kind == "all-gather" else 1), 0, size, axes, str(sent),
                      *module.origin(computation, instruction), overlaps=True, scope="between slices")


def _permuted_axes(pairs: np.ndarray, mesh, positions: np.ndarray) -> tuple[str, ...] | None:
    """Return the axes of the mesh along which a permutation transfers values."""
    if mesh is None or not len(pairs):
        return None
    before, after = (np.array(np.unravel_index(positions[pairs[:, i]], mesh.devices.shape)) for i in (0, 1))
    return tuple(mesh.axis_names[i] for i in np.flatnonzero((before != after).any(1)))


# Memory


def temporaries(module: Module, limit: int = 20) -> list[Buffer]:
    """Return the largest values between arguments and results that have a main memory buffer of their own."""
    assert module.entry is not None
    root = module.entry.root
    results = {root.name, *(root.operands if root.opcode == "tuple" else ())}
    results |= {i.operands[0] for i in module.entry.instructions if i.name in results and i.opcode.endswith("-done")}
    found: dict[Buffer, int] = {}
    for computation, _, fused in module.walk():
        if fused:
            continue
        for instruction in computation.instructions:
            if instruction.opcode in _ALIASES or instruction.opcode.endswith("-done") or (
                    computation.is_entry and instruction.name in results):
                continue
            if instruction.opcode == "fusion" and updates_in_place(module, instruction):
                continue
            for result_type in instruction_results(computation, instruction):
                if result_type.in_main_memory:
                    operation, line = module.origin(computation, instruction)
                    if not instruction.operation:
                        operation = f"{instruction.opcode} of {operation}" if operation else instruction.opcode
                    one = Buffer(result_type.padded_bytes, operation, str(result_type), line)
                    found[one] = found.get(one, 0) + 1
    largest = sorted(found, key=lambda b: -b.bytes)[:limit]
    return [one if found[one] == 1 else one._replace(what=f"{one.what} ({found[one]} times)") for one in largest]


def updates_in_place(module: Module, instruction: Instruction) -> bool:
    """Return True if a fused kernel only writes parts of its operands' buffers."""
    inner = module.computations.get(instruction.attribute("calls") or "")
    return inner is not None and all(_written(module, inner, root) < np.inf for root in _elements(inner, inner.root))


def entry_types(module: Module) -> list[Type]:
    """Return the type of each argument of the program, on one device."""
    assert module.entry is not None
    parameters = {int(i.inside): i.types[0] for i in module.entry.instructions if i.opcode == "parameter"}
    return [parameters[i] for i in sorted(parameters)]


def result_types(module: Module) -> list[Type]:
    assert module.entry is not None
    return list(module.entry.root.types)
