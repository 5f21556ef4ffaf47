"""The commands `python -m xlafront export` and `info FILE`."""

import re

import numpy as np
import pytest

from xlafront import export
from xlafront.__main__ import main

SCRIPT = """
import xlafront as xf
import xlafront.numpy as xnp

def predict(x, scale):
    return xnp.tanh(x) * scale

def predict_args():
    return xf.ShapeDtypeStruct((2, 3), "float32"), 2.0

def by_name_args():
    return {"x": xf.ShapeDtypeStruct((2,), "float32")}

@xf.jit
def by_name(x):
    return -x

def alone(x):
    raise KeyError("of the script")

if __name__ == "__main__":
    raise SystemExit("the script itself does not run")
"""
X = np.array([[0.5, -1, 2], [1, 0, 3]], np.float32)


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "a_script_with_a_model.py"
    path.write_text(SCRIPT)
    return path


def test_files_and_info(script, tmp_path, capsys):
    out = tmp_path / "predict.mlir"
    assert main(["export", f"{script}:predict", "f32[2,3]", "float32[]", "--out", str(out), "--platforms", "cpu,cuda",
                 "--vjp-order", "1"]) == 0
    assert set(re.findall(r"predict\.\w+(?=: \d+ bytes)", capsys.readouterr().out)) == {
        "predict.mlir", "predict.mlirbc", "predict.exported"}
    assert "stablehlo.tanh" in out.read_text() and out.with_suffix(".mlirbc").read_bytes().startswith(b"ML\xefR")
    exported = export.deserialize(out.with_suffix(".exported").read_bytes())
    np.testing.assert_allclose(exported.call(X, np.float32(2)), 2 * np.tanh(X), rtol=1e-5)
    assert exported.platforms == ("cpu", "cuda") and exported.has_vjp()

    assert main(["info", str(out.with_suffix(".exported"))]) == 0
    text = capsys.readouterr().out
    for line in ("function: +predict", r"arguments: +float32\[2,3\], float32\[\]", r"results: +float32\[2,3\]",
                 "platforms: +cpu, cuda", "derivatives: +to order 1", "written by: +xlafront .*jaxlib", r"StableHLO: +\d+\.\d+"):
        assert re.search(line, text), line
    for suffix, kind in ((".mlirbc", "portable StableHLO artifact"), (".mlir", "StableHLO as text")):
        assert main(["info", str(out.with_suffix(suffix))]) == 0
        text = capsys.readouterr().out
        assert kind in text and re.search(r"main: +\(tensor<i32>, tensor<2x3xf32>, tensor<f32>\) -> tensor<2x3xf32>", text)


def test_arguments_by_the_script(script, tmp_path):
    for name in ("predict", "by_name"):
        assert main(["export", f"{script}:{name}", "--out", str(tmp_path / f"{name}.mlir")]) == 0
    exported = export.deserialize((tmp_path / "by_name.exported").read_bytes())
    np.testing.assert_array_equal(exported.call(x=X[0, :2]), -X[0, :2])


@pytest.mark.parametrize("options", [["f32[b,3]", "f32[]"], ["f32[4,3]", "f32[]", "--symbolic", "b, _;"]])
def test_symbolic_dimensions(script, tmp_path, options, capsys):
    out = tmp_path / "open.mlir"
    assert main(["export", f"{script}:predict", *options, "--constraint", "b >= 2", "--out", str(out)]) == 0
    exported = export.deserialize(out.with_suffix(".exported").read_bytes())
    for rows in (2, 5):
        x = np.ones((rows, 3), np.float32)
        np.testing.assert_allclose(exported.call(x, np.float32(2)), 2 * np.tanh(x), rtol=1e-5)
    with pytest.raises(ValueError, match="b >= 2"):
        exported.call(np.ones((1, 3), np.float32), np.float32(2))
    capsys.readouterr()
    assert main(["info", str(out.with_suffix(".exported"))]) == 0
    assert re.search(r"arguments: +float32\[b,3\], float32\[\]\n.*\nconstraints: +b >= 2", capsys.readouterr().out)


@pytest.mark.parametrize("target, options, why", [
    ("nothing", [], "has no function 'nothing'"),
    ("alone", [], r"does not define the arguments of alone.*[\s\S]*'float32\[8,128\]'"),
    ("alone", ["f32[2]"], r"raise KeyError[\s\S]*of the script"),
    ("predict", ["float32"], r"arguments are given by their types, such as 'float32\[8,128\]'"),
    ("predict", ["cubic[3]"], "given by their types"),
    ("predict", ["--platforms", "abacus"], "no platform 'abacus'"),
])
def test_export_errors(script, tmp_path, target, options, why, capsys):
    assert main(["export", f"{script}:{target}", *options, "--out", str(tmp_path / "f.mlir")]) == 2
    assert re.search(why, capsys.readouterr().err)
    assert not (tmp_path / "f.mlir").exists()


@pytest.mark.parametrize("content, why", [(b"module nonsense {", "no StableHLO module"), (b"GIF89a", "not an exported function"),
                                          (b"ML\xefRnonsense", "no StableHLO artifact")])
def test_files_of_other_kinds(tmp_path, content, why, capsys):
    (tmp_path / "file").write_bytes(content)
    assert main(["info", str(tmp_path / "file")]) == 2
    assert why in capsys.readouterr().err
    assert main(["info", str(tmp_path / "nowhere")]) == 2
