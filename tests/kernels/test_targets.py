"""Sizes of blocks by chip, and the choice of the platform while a program is traced."""

import numpy as np
import pytest

import xlafront as xf
from xlafront import kernels
from xlafront.experimental import pallas as pl
from xlafront.kernels.targets import CUDA, LOOP, TPU, Target

pytestmark = pytest.mark.cpu_only


def like(*shape, dtype="bfloat16"):
    return xf.ShapeDtypeStruct(shape, dtype)


# Functions with large arguments, of which blocks have other sizes for each platform, and how many are differentiated.
LARGE = {
    "flash_attention": ([like(2, 3000, 8, 128), like(2, 3000, 2, 128), like(2, 3000, 2, 128)], 3),
    "layer_norm": ([like(2100, 4096), like(4096), like(4096)], 3), "rms_norm": ([like(2100, 1000), like(1000)], 2),
    "softmax_cross_entropy": ([like(3000, 1000), like(1000, 50257), like(3000, dtype="int32")], 2),
    "grouped_matmul": ([like(3000, 1000), like(8, 1000, 2000), like(8, dtype="int32")], 2),
    "quantized_matmul": ([like(1000, 1000), like(1000, 2000, dtype="int8"), like(2000, dtype="float32")], 1),
    "paged_attention": ([like(4, 8, 128), like(2, 64, 64, 128), like(2, 64, 64, 128), like(4, dtype="int32"), like(4, 16, dtype="int32")], 0)}


@pytest.mark.parametrize("name", LARGE)
def test_all_platforms_are_traced_with_equal_types(name):
    types, count = LARGE[name]
    function = getattr(kernels, name)
    step = (lambda *args: xf.grad(lambda *a: function(*a, *args[count:]).astype("float32").sum(), tuple(range(count)))(*args[:count])
            ) if count else function
    found = xf.tree.leaves(xf.eval_shape(xf.jit(step), *types))
    assert [(x.shape, x.dtype) for x in found] == [(x.shape, x.dtype) for x in types[:max(count, 1)]]


def test_sizes_of_blocks():
    """On GPUs they are powers of two, of which tensor cores need 16; on TPUs dimensions of arrays, or multiples of tiles."""
    for size in (1, 5, 16, 100, 4096):
        for target in (CUDA, LOOP):
            for n in (target.block(128, size), target.covering(size), target.rows(target.covering(size), 1000)):
                assert n > 0 and not n & (n - 1)
            assert target.covering(size) >= max(size, 16) and target.block(128, size) <= 128
        assert TPU.covering(size) == size and TPU.block(128, size) == min(128, size)
        assert TPU.rows(size, 1000) % 8 == 0 and TPU.rows(size, 3) == 3
    for chip in ("v4", "v5e", "v6e", "tpu7x"):
        assert pl.tpu.get_tpu_info(chip).generation in range(4, 8)
    for itemsize in (2, 4):
        for width in (16, 64, 128, 256, 512):
            for is_backward in (False, True):
                rows, columns = CUDA.attention(width, itemsize, is_backward)
                assert (rows + columns) * CUDA.covering(width) * itemsize <= 96 << 10  # half of the shared memory of a multiprocessor
    assert np.prod(Target("tpu").product(2)) >= 128 ** 3
