"""Calls of GPU kernels given as PTX text: what the call holds, and bad input. Compilation: tests/planning."""

import numpy as np
import pytest
from kernels_for_gpus import PTX

import xlafront as xf
from xlafront import ffi

LIKE = xf.ShapeDtypeStruct((128,), "float32")


def axpy(**options):
    return ffi.ptx_call(PTX, LIKE, **{"grid": 2, "block": 64} | options)


def exported(function, *args):
    return xf.export.export(xf.jit(function), platforms=["cuda"], disabled_checks=[
        xf.export.DisabledSafetyCheck.custom_call("__gpu$xla.gpu.ptx")])(*args).mlir_module()


def test_the_call():
    text = exported(axpy(input_output_aliases={1: 0}, shared_memory=256), LIKE, LIKE)
    for part in ("@__gpu$xla.gpu.ptx", "grid_x = 2", "block_x = 64", "block_z = 1", "shared_mem_bytes = 256", 'name = "axpy"',
                 "fma.rn.f32", "operand_index = 1"):
        assert part in text, part
    several = ffi.ptx_call(PTX + ".visible .entry other() { ret; }", (LIKE,), grid=(1, 2), block=(8, 8), name="axpy")
    text = exported(lambda x, y: several(x, y)[0], LIKE, LIKE)
    assert "grid_y = 2" in text and "block_y = 8" in text
    mapped = exported(xf.vmap(axpy()), *[xf.ShapeDtypeStruct((3, 128), "float32")] * 2)
    assert mapped.count("@__gpu$xla.gpu.ptx") == 1 and "stablehlo.while" in mapped


def test_platforms():
    function = xf.jit(lambda x, y: xf.lax.platform_dependent(x, y, cuda=axpy(), default=lambda x, y: 2 * x + y))
    x = np.arange(128.0, dtype=np.float32)
    np.testing.assert_array_equal(function(x, x), 3 * x)
    with pytest.raises(NotImplementedError, match=r"ptx_call of axpy runs on NVIDIA GPUs only.*platform_dependent"):
        axpy()(x, x)


def test_bad_input():
    with pytest.raises(TypeError, match="text of a PTX module"):
        ffi.ptx_call(b"", LIKE, grid=1, block=1)
    with pytest.raises(ValueError, match="ASCII"):
        ffi.ptx_call("// é", LIKE, grid=1, block=1)
    with pytest.raises(ValueError, match="which has none"):
        ffi.ptx_call("// nothing", LIKE, grid=1, block=1)
    with pytest.raises(ValueError, match="kernels in the PTX text, axpy; got name='axpi'"):
        axpy(name="axpi")
    for options, message in (({"grid": 0}, "grid of ptx_call"), ({"block": (32, 64)}, "at most 1024 threads"), ({"grid": 1.0}, "grid"),
                             ({"grid": (1, 1, 1, 1)}, "three positive integers"), ({"block": 2000}, "block of ptx_call"),
                             ({"shared_memory": -1}, "number of bytes")):
        with pytest.raises(ValueError, match=message):
            axpy(**options)
    with pytest.raises(ValueError, match="shape and dtype as result_shape_dtypes"):
        ffi.ptx_call(PTX, 3, grid=1, block=1)
    with pytest.raises(TypeError, match=r"axpy has 3 parameters, but ptx_call passes it 1 argument\(s\) and 1 result"):
        axpy()(np.ones(128, np.float32))
    with pytest.raises(TypeError, match="ptx_call of axpy"):
        axpy()("x", 1.0)
    with pytest.raises(ValueError, match="maps argument 0 to result 0"):
        axpy(input_output_aliases={0: 0})(np.ones(64, np.float32), np.ones(128, np.float32))
    with pytest.raises(ValueError, match="cannot be differentiated"):
        xf.grad(lambda x: axpy()(x, x).sum())(np.ones(128, np.float32))
