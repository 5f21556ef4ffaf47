"""Pallas kernels in a compiled program: their grids, and the fast memory and registers that they take.

For TPUs the compiled module says how much VMEM a kernel uses. For GPUs XLA dumps what it launches, and `ptxas`, the assembler
of the compiler wheels, says how many registers each kernel needs.
"""

from __future__ import annotations

import glob
import importlib.util
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from xlafront.core.jaxpr import Jaxpr, subprograms
from xlafront.lowering.mlir import ir
from xlafront.planning import costs, hlo, schedules
from xlafront.runtime.topologies import ARCHITECTURES, CARDS, Chip


class Kernel(NamedTuple):
    """A kernel of a program on one device.

    Args:
        name: Name of the kernel.
        grid: Sizes of its grid; on GPUs those of the launch. None for a size that is known only at run time.
        memory_space: "VMEM" on TPUs, "shared memory" (of each block) on GPUs.
        memory: Bytes of it that the kernel takes.
        limit: The bytes of it that the chip has; None if that is not known.
        registers: Registers of each thread, on GPUs; None if `ptxas` is not there.
        spilled: Bytes of each thread that do not fit the registers, on GPUs.
        schedule: The static schedule on TPUs, as `schedules.read` returns it; None if none was requested.
    """

    name: str
    grid: tuple[int | None, ...]
    memory_space: str
    memory: int
    limit: int | None
    registers: int | None = None
    spilled: int | None = None
    schedule: dict[str, Any] | None = None


def grids(jaxpr: Jaxpr) -> dict[str, tuple[int | None, ...]]:
    """Return the grids of the compiled kernels of a program, by the name in its module."""
    found: dict[str, tuple[int | None, ...]] = {}
    for eqn in jaxpr.eqns:
        params = eqn.params
        if eqn.primitive.name == "pallas_call" and not params["interpret"]:
            from xlafront.pallas.kernel_mlir import symbol_of  # start-up: of programs with kernels alone

            found[symbol_of(params["name"] or params["jaxpr"].debug_info.function_name)] = params["grid_mapping"].grid
            continue
        for inner in subprograms(params):
            found |= grids(inner)
    return found


# TPUs


def on_tpu(module: hlo.Module, stablehlo: Any, chip: Chip | None, sizes: dict[str, tuple]) -> list[Kernel]:
    """Return the kernels of a program for TPUs.

    Args:
        module: The compiled module.
        stablehlo: The module that was compiled, which has the names of kernels.
        chip: The chip, for its limit.
        sizes: Grids by name.
    """
    from xlafront.pallas import tpu_info  # start-up: of programs with kernels alone

    names = _names_by_body(stablehlo)
    limit = tpu_info.get_tpu_info(chip.name).vmem_capacity_bytes if chip else None
    found = []
    for computation, _, _ in module.walk():
        for instruction in computation.instructions:
            if not costs.is_mosaic_kernel(instruction):
                continue
            body = re.search(r'"body":"([^"]*)"', instruction.attributes)
            name = names.get(body.group(1), instruction.name) if body else instruction.name
            used = _VMEM.search(instruction.attributes)
            found.append(Kernel(name, sizes.get(name, ()), "VMEM", int(used.group(1)) if used else 0, limit,
                                schedule=schedules.read(instruction.name)))
    return found


_VMEM = re.compile(r'"used_scoped_memory_configs":\[\{"memory_space":"1","offset":"\d+","size":"(\d+)"')


def _names_by_body(stablehlo: Any) -> dict[str, str]:
    names = {}

    def visit(operation: Any) -> Any:
        attributes = operation.attributes
        if "kernel_name" in attributes and "backend_config" in attributes:
            body = re.search(r'"body": ?"([^"]*)"', attributes["backend_config"].value)
            if body:
                names[body.group(1)] = attributes["kernel_name"].value
        return ir.WalkResult.ADVANCE

    stablehlo.operation.walk(visit)
    return names


# GPUs


@contextmanager
def dumped_launches() -> Iterator[tuple[dict[str, str], str]]:
    """Yield options with which the compiler for GPUs writes what it launches, and the folder that it writes to."""
    with tempfile.TemporaryDirectory() as folder:
        yield {"xla_dump_to": folder}, folder


_LAUNCH = re.compile(r"kCustomKernel .*?\] (\S+) grid: \[([\d, ]+)\] threads: \[[\d, ]+\] +shared_memory: (\d+) bytes")


def on_gpu(folder: str, chip: Chip | None, sizes: dict[str, tuple]) -> list[Kernel]:
    """Return the kernels of a program for GPUs.

    Args:
        folder: Folder that `dumped_launches` has given, after the compilation.
        chip: The card, for its limit.
        sizes: Grids by name.
    """
    launches = "".join([_text(path) for path in glob.glob(f"{folder}/*thunk_sequence.txt")])
    registers = _registers(folder)
    limit = ARCHITECTURES[CARDS[chip.name].capability].shared_memory_of_block if chip else None
    found = []
    for name, grid, memory in _LAUNCH.findall(launches):
        if name in sizes:
            launched = tuple([int(n) for n in grid.split(",")])
            found.append(Kernel(name, launched, "shared memory", int(memory), limit, *registers.get(name, (None, None))))
    return found


def _text(path: str) -> str:
    with open(path) as file:
        return file.read()


_ENTRY = re.compile(r"Function properties for (\S+)\s+(?:ptxas[^\n]*:\s*)?\d+ bytes stack frame, (\d+) bytes spill stores"
                    r"[^\n]*\n[^\n]*Used (\d+) registers")


def _registers(folder: str) -> dict[str, tuple[int, int]]:
    """Return the registers of each thread, and the bytes that it spills, by the name of the kernel."""
    assembler = _ptxas()
    found: dict[str, tuple[int, int]] = {}
    for path in glob.glob(f"{folder}/*.ptx"):
        target = re.search(r"^\.target (\S+)", _text(path), re.MULTILINE)
        if assembler and target:
            command = [assembler, "-v", f"-arch={target.group(1)}", path, "-o", os.devnull]
            report = subprocess.run(command, capture_output=True, text=True).stderr
            found |= {name: (int(count), int(spilled)) for name, spilled, count in _ENTRY.findall(report)}
    return found


def _ptxas() -> str | None:
    """Return the path of the assembler of the compiler wheels; None if they are not installed."""
    spec = importlib.util.find_spec("nvidia")
    folders = [] if spec is None else list(spec.submodule_search_locations or [])
    return next((path for folder in folders for path in glob.glob(f"{folder}/*/bin/ptxas")), None)
