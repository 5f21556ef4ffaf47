"""Messages of the compilers of kernels. The texts are those of libtpu and of XLA's plugin for CUDA."""

import pytest

from xlafront.base.jaxlib_compat import JaxRuntimeError
from xlafront.lowering import mlir
from xlafront.runtime.kernel_messages import explained

UNALIGNED = """INTERNAL: Mosaic failed to compile TPU kernel with MLIR module name `rows` HLO name `name.1`: E2003: \
CompileTimeMosaicUnprovenMemoryAccessAlignment: cannot statically prove that index in dimension 1 is a multiple of 128
See https://openxla.org/xla/errors/error_2003 for more details.
at location: loc("get"("train.py":8:0))
The MLIR operation involved:"""
OTHER = """INTERNAL: Mosaic failed to compile TPU kernel with MLIR module name `rows` HLO name `name.1`: Not implemented: a sort
at location: loc("sort"("train.py":9:0))"""
HALVES = """INTERNAL: Mosaic failed to compile TPU kernel with MLIR module name `rows` HLO name `name.1`: Invalid vector type for load
at location: loc("get"("train.py":9:0))
The MLIR operation involved: %4 = "xir.load"(%3) : (memref<16x128xf16>, index, index) -> vector<8x128x2xf16>"""
VMEM = """RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space vmem. Used 256.00M of 127.94M vmem.
Exceeded vmem capacity by 128.06M."""
BUFFER = """RESOURCE_EXHAUSTED: Allocation (size=134217728) would exceed memory (size=67108864) :: #allocation4 [shape = 'u8[134217728]\
{0}', space=vmem, size = 0x8000000, scoped, tag = 'input window allocation for operator input 0. The window shape is']"""
SHARED = "RESOURCE_EXHAUSTED: Shared memory size limit exceeded: requested 393216, available: 232448, context: []"


def no_kernels():
    with mlir.context:
        return mlir.ir.Module.parse("module {}")


@pytest.mark.parametrize("text, words", [
    (UNALIGNED, ["the kernel rows, at train.py:8 (get): an index into dimension 1", "pl.multiple_of(start, 128)"]),
    (OTHER, ["the kernel rows, at train.py:9 (sort) cannot be compiled for TPUs: Not implemented: a sort"]),
    (HALVES, ["train.py:9 (get) cannot be compiled", "no vectors of float16: use bfloat16 or float32"]),
    (VMEM, ["RESOURCE_EXHAUSTED: the kernels take 256 MiB of VMEM, the chip has 128 MiB"]),
    (BUFFER, ["a kernel's input window allocation for operator input 0 takes 128 MiB of VMEM, the chip has 64 MiB"]),
    (SHARED, ["a kernel takes 384 KiB of shared memory, a program on the card can have 227 KiB", "num_stages"])])
def test_messages_name_the_kernel_and_the_remedy(text, words):
    found = str(explained(JaxRuntimeError(text), no_kernels()))
    assert all(w in found for w in words), found
    assert "\n" not in found


def test_other_errors_stay_as_they_are():
    error = JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 10 bytes.")
    assert explained(error, no_kernels()) is error
