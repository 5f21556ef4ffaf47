"""The example of a program in C++ that runs an export: by PJRT's C API, without Python. The plugin and the header are of the extra `pjrt`."""

import pathlib
import subprocess

import numpy as np
import pytest
import xla_plugins.xla_cpu_pjrt

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import export, lax

X = np.array([[0.5, -1, 2], [1, 0, 3]], np.float32)
W = np.linspace(-2, 1, 12, dtype=np.float32).reshape(3, 4)
H = np.tanh(X @ W)
EXPECTED = [np.argsort(H[0]).astype(np.int32), H * np.float32(1.5 ** 3), H.sum()]  # by name
TYPES = [4, 11, 11]  # PJRT_Buffer_Type_S32, _F32
PLUGIN = pathlib.Path(xla_plugins.xla_cpu_pjrt.__file__).parent
SOURCE = pathlib.Path(__file__).parents[2] / "notebooks" / "from_cpp" / "run.cc"


def model(x, w):
    h = xnp.tanh(x @ w)
    return {"powers": lax.fori_loop(0, 3, lambda i, h: h * 1.5, h), "order": xnp.argsort(h[0]), "sum": h.sum()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("from_cpp")
    subprocess.run(["g++", "-std=c++17", "-Wall", "-Werror", "-I", PLUGIN / "include", SOURCE, "-o", "run", "-ldl"], cwd=folder,
                   check=True, timeout=120)
    exported = export.export(xf.jit(model), platforms=("cpu",))(X, W)
    (folder / "model.mlirbc").write_bytes(exported.mlir_module_serialized)
    (folder / "model.mlir").write_text(exported.mlir_module())
    X.tofile(folder / "x.bin")
    W.tofile(folder / "w.bin")
    return folder


def run(folder, *words):
    return subprocess.run([folder / "run", *words], cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("module", ["model.mlirbc", "model.mlir"])
def test_results_without_python(folder, module):
    done = run(folder, PLUGIN / "xla_cpu_pjrt.so", module, "2x3:x.bin", "3x4:w.bin")
    assert done.returncode == 0, done.stderr
    for i, (line, type, expected) in enumerate(zip(done.stdout.splitlines(), TYPES, EXPECTED, strict=True)):
        assert line == " ".join(map(str, [f"result{i}.bin type", type, "sizes", *expected.shape]))
        found = np.fromfile(folder / f"result{i}.bin", expected.dtype).reshape(expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("words, error", [
    (["model.mlirbc", "2x3:x.bin"], "supplied 1 buffers but compiled program expected 2"),
    (["model.mlirbc", "2x4:x.bin", "3x4:w.bin"], "2x4:x.bin has 24 bytes, not 32"),
    (["x.bin", "2x3:x.bin"], "error"),
])
def test_errors_are_reported(folder, words, error):
    done = run(folder, PLUGIN / "xla_cpu_pjrt.so", *words)
    assert done.returncode == 1 and done.stderr.startswith("run: ") and error in done.stderr
