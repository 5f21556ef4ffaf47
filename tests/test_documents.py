"""The code in the documents gives the results that they show."""

import ast
import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

os.environ["MPLBACKEND"] = "Agg"  # chapters plot
ROOT = pathlib.Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def test_readme_program(capsys):
    [code] = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    exec(compile(code, "README.md", "exec"), {})
    assert float(capsys.readouterr().out) < 0.004


def test_contributing_programs():
    namespace: dict = {}
    for code in re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.S):
        exec(compile(code, "CONTRIBUTING.md", "exec"), namespace)


def test_differences_from_jax():
    [code] = re.findall(r"```python\n(.*?)```", (ROOT / "notebooks" / "from_jax.md").read_text(), re.S)
    exec(compile(code, "from_jax.md", "exec"), {})


def test_chart_shows_the_ratios_of_the_table():
    from benchmarks import plot

    table = (ROOT / "benchmarks" / "README.md").read_text()
    chart = (ROOT / "notebooks" / "_static" / "six_figures.svg").read_text()
    assert chart == plot.picture(table)
    [row] = re.findall(r"^\| 12 layers, value_and_grad: trace and lower .*$", table, re.M)
    ours, theirs = (float(cell) for cell in row.split("|")[2:4])
    assert float(re.search(r">trace and lower a gradient</text>.*?>([\d.]+)<", chart, re.S)[1]) == round(ours / theirs, 2)
    assert len(re.findall("<rect", chart)) == len(plot.BARS) == 6


def prose(path: pathlib.Path) -> str:
    if path.suffix == ".md":
        return path.read_text()
    return "\n\n".join("".join(c["source"]) for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "markdown")


@pytest.mark.parametrize("path", [*sorted((ROOT / "notebooks").rglob("*.md")), ROOT / "CONTRIBUTING.md", ROOT / "README.md", *NOTEBOOKS],
                         ids=lambda p: p.name)
def test_files_and_names_in_documents_exist(path):
    """A file is a path below `xlafront`; names after it, separated by commas or "and", are defined in it."""
    text = prose(path)
    for link in re.findall(r"\]\((?!http|api/)([^)#]+)\)", re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.S)):  # `api` is generated
        assert (ROOT / "notebooks" / link[1:] if link.startswith("/") else path.parent / link).exists(), link
    for file, names in re.findall(r"`((?:\w+/)*\w+\.py)`((?:(?:,\s| and\s|,\sand\s)`[\w.]+`)*)", text):
        found = [place / file for place in (ROOT / "xlafront", ROOT) if (place / file).exists()]
        assert found, f"there is no {file}"
        for name in re.findall(r"`([\w.]+)`", names):
            if name.endswith(".py"):
                continue
            for part in name.split("."):
                assert re.search(rf"^\s*(?:def|class) {part}\b|^(?:    )?{part}\b.* = ", found[0].read_text(), re.M), f"{file} has no {name}"


@pytest.mark.parametrize("section", re.split(r"^## ", (ROOT / "notebooks" / "errors.md").read_text(), flags=re.M)[1:],
                         ids=lambda text: text.split()[0])
def test_errors_are_those_that_their_sections_are_about(section):
    """The session of a section ends in an error of its class, whose message begins as it is shown."""
    import xlafront as xf
    import xlafront.numpy as xnp
    from xlafront.core import errors

    name = section.split()[0]
    for session in re.findall(r"```pycon\n(.*?)```", section, re.S):
        code, shown = re.fullmatch(r"((?:(?:>>>|\.\.\.) .*\n)+)(\w+: .*)\n", session).groups()
        with pytest.raises(getattr(errors, name)) as error:
            exec(re.sub(r"^.{4}", "", code, flags=re.M), {"xf": xf, "xnp": xnp, "np": np})
        assert f"{type(error.value).__name__}: {error.value}".startswith(shown.removesuffix("..."))


def test_each_error_has_a_section():
    from xlafront.core import errors

    def classes(kind):
        return [kind, *(c for subclass in kind.__subclasses__() for c in classes(subclass))]

    explained = {c.__name__ for c in classes(errors._Explained)[1:]}
    sections = re.findall(r"^## (\w+)", (ROOT / "notebooks" / "errors.md").read_text(), re.M)
    assert len(explained) > 5 and not explained - {*sections}


def play(path: pathlib.Path, strict: bool) -> None:
    """Run the code cells. What a cell ends with must not be False; cells with the tag are to raise when `strict`."""
    namespace: dict = {}
    for number, cell in enumerate(c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"):
        where = f"{path.name}, cell {number}"
        tree = ast.parse("".join(cell["source"]), where)
        shown = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else ast.Expression(ast.Constant(None))
        raises = "raises-exception" in cell.get("metadata", {}).get("tags", [])
        try:
            exec(compile(tree, where, "exec"), namespace)
            value = eval(compile(ast.fix_missing_locations(shown), where, "eval"), namespace)
        except Exception:
            if not raises:
                raise
        else:
            assert not (raises and strict), f"{where} should raise"
            assert not isinstance(value, (bool, np.bool_)) or value, f"{where} ends with False"
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.name)
def test_notebooks(path):
    import xlafront as xf

    play(path, strict=path.name != "many_devices.ipynb" or xf.device_count() > 1)  # on one device everything fits


@pytest.mark.parametrize("count", [1, 3])
def test_notebook_on_other_numbers_of_devices(count):
    code = f"import test_documents as t, xlafront as xf; xf.config.update('num_cpu_devices', {count}); assert xf.device_count() == {count}; "
    done = subprocess.run(
        [sys.executable, "-c", code + "t.play(t.ROOT / 'notebooks' / 'many_devices.ipynb', strict=False)"],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=pathlib.Path(__file__).parent,
        env={**os.environ, "XLA_FLAGS": "", "XLAFRONT_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.cpu_only
def test_demo(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "xlafront", "demo", "--steps", "40", "--plot", str(tmp_path / "loss.svg")],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "XLA_FLAGS": "", "XLAFRONT_PLATFORMS": ""},
    )
    assert done.returncode == 0, done.stderr
    assert f"{min(2, os.cpu_count())} cpu device(s)" in done.stdout and "step 40/40" in done.stdout and "accuracy" in done.stdout
    assert len(re.findall(r"^  [ .:=+*#%@-]{50}$", done.stdout, re.MULTILINE)) == 22  # the boundary in the terminal
    assert len(re.findall(r"[\d.]+ ms \([\d.]+ to [\d.]+\)", done.stdout)) == 4
    picture = (tmp_path / "loss.svg").read_text()
    assert "<polyline" in picture and picture.count("<circle") == 200 and picture.count("<rect") == 2501


def test_public_names():
    """Every name that the package lists can be had, and its parameters seen."""
    import inspect

    import xlafront as xf

    for name in dir(xf):
        assert getattr(xf, name) is not None or name.startswith("__")
    assert list(inspect.signature(xf.jit).parameters)[:3] == ["fun", "in_shardings", "out_shardings"]
    assert list(inspect.signature(xf.numpy.sum).parameters)[:2] == ["a", "axis"]
    assert list(inspect.signature(xf.lax.add).parameters) == ["x", "y"]


def test_import_does_no_work():
    """Importing the package starts no client, loads no compiler bindings, and nothing that is not needed."""
    code = "import sys, xlafront, xlafront.numpy\nprint([m for m in ('jaxlib.mlir', 'opt_einsum', 'scipy', 'dataclasses', 'asyncio', 'xlafront.demo', 'xlafront.runtime.disk_cache') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
