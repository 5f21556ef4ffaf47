"""The vector memory that a TPU kernel takes: its blocks with their buffers, and scratch memory.

Kernels are not refused by these numbers: XLA may place arrays in vector memory itself, whose blocks then take none, and Mosaic
removes scratch memory that is not used. But a refusal by the compiler gets the table (`runtime/kernel_messages.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from xlafront.core.avals import dtype_name
from xlafront.pallas.grid_mapping import BlockMapping, GridMapping
from xlafront.pallas.kernel_mlir import bit_width
from xlafront.pallas.to_mosaic.memrefs import space_of

_TILE = (8, 128)


class Share(NamedTuple):
    """The vector memory of an array.

    Args:
        name: The user's name of the array.
        type: Type of the block.
        buffers: Number of buffers.
        bytes: Bytes of all buffers.
    """

    name: str
    type: str
    buffers: int
    bytes: int


def shares(mapping: GridMapping) -> list[Share]:
    """Return the vector memory of each array of a kernel, the largest first."""
    found = []
    for block in mapping.block_mappings:
        if space_of(block.block_aval.memory_space) == "vmem":
            dtype, buffers = block.array_aval.dtype, num_buffers(block, mapping)
            size = buffers * _bytes(block.sizes, dtype)
            found.append(Share(block.origin, f"{dtype_name(dtype)}{list(block.sizes)}", buffers, size))
    for i, aval in enumerate(mapping.scratch_avals):
        if space_of(aval.memory_space) == "vmem":
            size = _bytes(aval.shape, aval.dtype)
            found.append(Share(f"scratch_shapes[{i}]", f"{dtype_name(aval.dtype)}{list(aval.shape)}", 1, size))
    return sorted(found, key=lambda s: -s.bytes)


def num_buffers(block: BlockMapping, mapping: GridMapping) -> int:
    """Return the number of buffers of a block: that of its spec; one if there is a single block, else two."""
    if block.pipeline_mode is not None:
        return block.pipeline_mode.buffer_count
    is_constant = all([v.is_literal for v in block.index_map_jaxpr.outvars])
    return 1 if is_constant or set(mapping.grid) <= {1} else 2


def _bytes(shape: Sequence[int], dtype: Any) -> int:
    """Return the bytes of an array in tiles."""
    bits = 32 if bit_width(dtype) == 1 else bit_width(dtype)
    tile = _TILE[-len(shape):] if shape else ()
    padded = [*shape[:len(shape) - len(tile)], *[-(-n // t) * t for n, t in zip(shape[len(shape) - len(tile):], tile)]]
    return math.prod(padded) * bits // 8


def described(mapping: GridMapping) -> str:
    """Return the shares as text: a line for each, its fields separated by tabs."""
    return "\n".join(["\t".join(map(str, share)) for share in shares(mapping)])
