"""Messages of the compilers of kernels, in the words of kernels: which kernel, which line, and the remedy."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from typing import Any

from xlafront.base.jaxlib_compat import JaxRuntimeError


def explained(error: JaxRuntimeError, module: Any) -> JaxRuntimeError:
    """Return the error of a compiler of kernels with a message for the kernel's author; other errors as they are.

    Args:
        error: The error.
        module: The StableHLO module, whose kernels state the vector memory that they take.
    """
    text = str(error)
    for pattern, explain in _MESSAGES:
        found = pattern.search(text)
        if found:
            message = explain(found)
            return JaxRuntimeError(message + _shares(module) if "of VMEM" in message else message)
    return error


def _shares(module: Any) -> str:
    """Return the tables of the vector memory that each kernel of a module takes."""
    from jaxlib.mlir import ir  # start-up: for a message

    kernels: dict[str, str] = {}

    def visit(operation: Any) -> Any:
        attributes = operation.attributes
        if "vector_memory" in attributes:
            kernels[attributes["kernel_name"].value] = attributes["vector_memory"].value
        return ir.WalkResult.ADVANCE

    with contextlib.suppress(AttributeError):  # a module given as bytes
        module.operation.walk(visit)
    return "".join([f"\nThe kernel {name} takes\n{_table(shares)}" for name, shares in kernels.items()])


def _table(shares: str) -> str:
    """Return a table of the arrays that take vector memory, from the fields that `to_mosaic/vector_memory.py` writes."""
    rows, total = [], 0
    for line in shares.splitlines():
        name, kind, buffers, size = line.split("\t")
        rows.append((name, kind, f"{buffers} buffer{'s' * (buffers != '1')}", _size(int(size))))
        total += int(size)
    rows.append(("in all", "", "", _size(total)))
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join(["  " + "  ".join([text.ljust(w) for text, w in zip(row, widths)]).rstrip() for row in rows])


def _size(n: int) -> str:
    for unit, name in ((2**20, "MiB"), (2**10, "KiB")):
        if n >= unit:
            return f"{n / unit:.4g} {name}"
    return f"{n} bytes"


def _scoped_vmem(found: re.Match) -> str:
    used, limit = [f"{x[:-1]} {x[-1]}iB" for x in found.groups()]
    return (f"RESOURCE_EXHAUSTED: a kernel takes {used} of VMEM, its limit is {limit}. {_SMALLER} The limit is "
            f"vmem_limit_bytes of pltpu.CompilerParams.")


def _mosaic(found: re.Match) -> str:
    kernel, message, rest = found.groups()
    line = re.search(r'loc\("([^"]*)"\("([^"]*)":(\d+)', rest)
    where = f", at {line.group(2)}:{line.group(3)} ({line.group(1)})" if line else ""
    unaligned = re.search(r"index in dimension (\d+) is a multiple of (\d+)", message)
    if unaligned:
        dim, tile = unaligned.groups()
        return (f"INTERNAL: the kernel {kernel}{where}: an index into dimension {dim} of a reference is not known to be a "
                f"multiple of {tile}, as TPUs' memory needs. If it is one, say so: pl.multiple_of(start, {tile}). If not, read "
                f"an aligned part that is larger, and take what you need of the value (pltpu.roll).")
    remedy = ". TPUs have no vectors of float16: use bfloat16 or float32." if re.search(r"\d+xf16\b", message + rest) else ""
    return f"INTERNAL: the kernel {kernel}{where} cannot be compiled for TPUs: {message}{remedy}"


def _vmem_in_all(found: re.Match) -> str:
    used, limit = (float(x) for x in found.groups())
    return f"RESOURCE_EXHAUSTED: the kernels take {used:.0f} MiB of VMEM, the chip has {limit:.0f} MiB. {_SMALLER}"


def _vmem_of_one_buffer(found: re.Match) -> str:
    size, limit = (int(x) / 2**20 for x in found.groups()[:2])
    return (f"RESOURCE_EXHAUSTED: a kernel's {found.group(3)} takes {size:.0f} MiB of VMEM, the chip has {limit:.0f} MiB. "
            f"{_SMALLER}")


def _shared_memory(found: re.Match) -> str:
    size, limit = (int(x) / 1024 for x in found.groups())
    return (f"RESOURCE_EXHAUSTED: a kernel takes {size:.0f} KiB of shared memory, a program on the card can have "
            f"{limit:.0f} KiB. Use smaller blocks, or fewer stages (num_stages of triton.CompilerParams).")


def _filtered_rows(found: re.Match) -> str:
    return ("INTERNAL: a kernel of a SparseCore copies parts of rows, and skips those whose index is the ignored_value of its "
            "Indices. TPUs only skip complete rows. Copy all columns, of arrays that do not have 128 of them with "
            "pltpu.CompilerParams(use_tc_tiling_on_sc=False), or leave ignored_value out.")


_SMALLER = "Use smaller blocks, and a larger grid. (Each block has two buffers, unless its spec says pl.Buffered(1).)"
_MESSAGES: tuple[tuple[re.Pattern, Callable[[re.Match], str]], ...] = (
    (re.compile(r"Mosaic failed to compile TPU kernel with MLIR module name `([^`]*)`[^:]*: (?:E\d+: )?(?:\w+: )?([^\n]*)(.*)",
                re.DOTALL), _mosaic),
    (re.compile(r"Scoped allocation with size ([\d.]+[KMG]) and limit ([\d.]+[KMG])"), _scoped_vmem),
    (re.compile(r"Used ([\d.]+)M of ([\d.]+)M vmem"), _vmem_in_all),
    (re.compile(r"Allocation \(size=(\d+)\) would exceed memory \(size=(\d+)\).*?space=vmem.*?tag = '([^'.]*)", re.DOTALL),
     _vmem_of_one_buffer),
    (re.compile(r"Offset filter is not supported for tiled indirect transfers"), _filtered_rows),
    (re.compile(r"Shared memory size limit exceeded: requested (\d+), available: (\d+)"), _shared_memory),
)
