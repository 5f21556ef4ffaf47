"""Exported programs compiled by IREE, and run by its runtime: from Python, and by a program that has no Python in it."""

import pathlib
import subprocess

import iree.compiler
import iree.runtime
import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import export, lax

X = np.array([[0.5, -1, 2], [1, 0, 3]], np.float32)
W = np.linspace(-2, 1, 12, dtype=np.float32).reshape(3, 4)


def model(x, w):
    h = xnp.tanh(x @ w)
    return {"powers": lax.fori_loop(0, 3, lambda i, h: h * 1.5, h), "order": xnp.argsort(h[0]), "sum": h.sum()}


def compiled_by_iree(exported) -> bytes:
    return iree.compiler.compile_str(exported.mlir_module_serialized, target_backends=["llvm-cpu"], input_type="stablehlo",
                                     extra_args=["--iree-llvmcpu-target-cpu=generic"])


@pytest.fixture(scope="module")
def compiled() -> bytes:
    return compiled_by_iree(export.export(xf.jit(model), platforms=("cpu",))(X, W))


H = np.tanh(X @ W)
EXPECTED = [np.argsort(H[0]), H * 1.5 ** 3, H.sum()]  # by name


def test_from_python(compiled):
    context = iree.runtime.SystemContext(config=iree.runtime.Config("local-task"))
    context.add_vm_module(iree.runtime.VmModule.copy_buffer(context.instance, compiled))
    for found, expected in zip(context.modules.jit_model.main(X, W), EXPECTED):
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5)


def test_symbolic_dimensions():
    exported = export.export(xf.jit(lambda x: xnp.tanh(x).sum(1)), platforms=("cpu",))(
        xf.ShapeDtypeStruct(export.symbolic_shape("2*b, 3"), "float32"))
    program = compiled_by_iree(exported)
    context = iree.runtime.SystemContext(config=iree.runtime.Config("local-task"))
    context.add_vm_module(iree.runtime.VmModule.copy_buffer(context.instance, program))
    [module] = [module for name, module in context.modules.items() if name != "hal"]
    for x in (X, np.vstack([X, 2 * X])):
        np.testing.assert_allclose(np.asarray(module.main(x)), np.tanh(x).sum(1), rtol=1e-5)


def test_without_python(compiled, tmp_path):
    (tmp_path / "model.vmfb").write_bytes(compiled)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "w.npy", W)
    program = pathlib.Path(iree.runtime.__file__).parent.parent / "_runtime_libs" / "iree-run-module"
    outputs = [f"--output=@result{i}.npy" for i in range(3)]
    done = subprocess.run([program, "--module=model.vmfb", "--device=local-task", "--function=main", "--input=@x.npy",
                           "--input=@w.npy", *outputs], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    for i, expected in enumerate(EXPECTED):
        np.testing.assert_allclose(np.load(tmp_path / f"result{i}.npy"), expected, rtol=1e-5)
