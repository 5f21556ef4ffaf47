"""The targets of the kernels of this package, and their block sizes by chip.

The sizes are chosen so that blocks, with two buffers each, and temporary values fit into the memory of a core: 16 MiB of
VMEM, which TPU kernels get by default, and the registers and shared memory of a GPU's multiprocessor. Compilers have checked
them; they are not measured on chips.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xlafront.control.cond import platform_dependent
from xlafront.pallas.tpu_info import get_tpu_info

# TPUs by generation: rows and columns of attention's scores, of matrix products with the length of their sums.
_TPU_ATTENTION = {2: (256, 256), 3: (256, 256), 4: (512, 512), 5: (512, 512), 6: (512, 1024), 7: (512, 1024)}
_TPU_PRODUCT = {2: (256, 256, 256), 3: (256, 256, 256), 4: (512, 512, 512), 5: (512, 512, 512), 6: (512, 1024, 512),
                7: (512, 1024, 512)}
# GPUs by the largest width of a head that sizes hold for: for elements of 16 bits, and for wider ones. With them nothing spills
# on A100 and H100, but for gradients of float32 heads wider than 128.
_GPU_ATTENTION = {64: ((128, 64), (64, 64)), 128: ((64, 64), (64, 32)), 256: ((64, 32), (32, 16)),
                  1 << 30: ((16, 16), (16, 16))}
_GPU_ATTENTION_BACKWARD = {64: ((64, 64), (32, 32)), 128: ((32, 64), (16, 16)), 256: ((32, 32), (16, 16)),
                           1 << 30: ((16, 16), (16, 16))}
_GPU_PRODUCT = {1: (64, 128, 64), 2: (64, 128, 32), 4: (64, 64, 32), 8: (32, 32, 16)}  # by bytes of an element
# Interpreted on CPUs: few iterations of the loops.
_CPU_ATTENTION, _CPU_PRODUCT = (256, 256), (256, 256, 256)


@dataclass(frozen=True)
class Target:
    """The compiler that a kernel is written for, and whether it is interpreted in its place.

    Args:
        platform: "tpu" or "cuda".
        interpret: True if the kernel runs as a loop that XLA compiles.
        small: True for the smallest blocks, so that tests of small arrays have many.
    """

    platform: str
    interpret: bool = False
    small: bool = False

    @property
    def is_tpu(self) -> bool:
        """True for kernels of TPUs."""
        return self.platform == "tpu"

    def block(self, preferred: int, size: int) -> int:
        """Return a block size for a dimension: the preferred one, or less if the dimension is smaller."""
        if self.is_tpu:
            return min(preferred, size)
        return min(preferred, max(16, 1 << (size - 1).bit_length()))

    def covering(self, size: int) -> int:
        """Return the block size that covers a dimension: on GPUs a power of two."""
        return size if self.is_tpu else max(16, 1 << (size - 1).bit_length())

    def rows(self, width: int, count: int) -> int:
        """Return the number of rows of a matrix in a block of full rows."""
        if self.small:
            return self.block(8 if self.is_tpu else 4, count)
        elements = 1 << (18 if self.is_tpu or self.interpret else 12)
        rows = max(1, min(elements // width, 512))
        return min(max(8, rows - rows % 8), count) if self.is_tpu else 1 << (rows.bit_length() - 1)

    def attention(self, width: int, itemsize: int, is_backward: bool = False) -> tuple[int, int]:
        """Return the numbers of queries and keys in a block of attention's scores."""
        if self.small:
            return (128, 128) if self.is_tpu else (16, 16)
        if self.is_tpu:
            return _TPU_ATTENTION[_generation()]
        if self.interpret:
            return _CPU_ATTENTION
        table = _GPU_ATTENTION_BACKWARD if is_backward else _GPU_ATTENTION
        return next(sizes[itemsize > 2] for largest, sizes in table.items() if width <= largest)

    def product(self, itemsize: int) -> tuple[int, int, int]:
        """Return the numbers of rows and columns in a block of a matrix product, and of terms that a step adds."""
        if self.small:
            return (128, 128, 128) if self.is_tpu else (16, 16, 16)
        if self.is_tpu:
            rows, columns, terms = _TPU_PRODUCT[_generation()]
            return rows, columns if itemsize < 4 else min(columns, 512), terms
        return _CPU_PRODUCT if self.interpret else _GPU_PRODUCT[itemsize]


TPU, CUDA, LOOP = Target("tpu"), Target("cuda"), Target("cuda", interpret=True)


def _generation() -> int:
    """Return the generation of the TPU that is compiled for; 5 if it is not known while tracing."""
    try:
        return get_tpu_info().generation
    except ValueError:
        return 5


def by_target(function: Callable[..., Any], target: Target | None, *args: Any, other: Callable[..., Any] | None = None) -> Any:
    """Apply a function of a target and arrays for the platform that is compiled for.

    Args:
        function: The function.
        target: The target; None for that of the platform.
        args: The arrays.
        other: Function of the arrays for other platforms. Default: the GPU's kernel, interpreted.
    """
    if target is not None:
        return function(target, *args)
    return platform_dependent(*args, tpu=lambda *xs: function(TPU, *xs), cuda=lambda *xs: function(CUDA, *xs),
                              default=other or (lambda *xs: function(LOOP, *xs)))
