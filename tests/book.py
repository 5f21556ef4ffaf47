"""Execute the chapters of the book, the notebooks in `notebooks`.

`python -m tests.book [first_steps jit ...]` runs them and stores their outputs, `tests/test_book.py` compares. A cell with the tag
`varies` prints what depends on the machine or on versions of XLA (times, addresses): its output is stored and not compared. A cell
with the tag `raises-exception` ends in an error.
"""

from __future__ import annotations

import math
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "notebooks"
CHAPTERS = sorted(FOLDER.glob("*.ipynb"))
SECONDS = 120  # what a chapter may take
_NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?")


def execute(path: Path) -> Any:
    """Run the cells of a notebook in a process of its own, with one CPU device, and return it with their outputs."""
    import nbformat
    from ipykernel.compiler import get_file_name
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as cache:
        NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": str(FOLDER)}}).execute(
            env={**os.environ, "XLA_FLAGS": "", "XLAFRONT_PLATFORMS": "cpu", "XLAFRONT_CACHE_DIR": cache,
                 "XLAFRONT_COMPILE_PROGRESS": "0", "PYTHONPATH": str(FOLDER.parent),
                 "MPLBACKEND": "module://matplotlib_inline.backend_inline"})
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    file_numbers = {Path(get_file_name(cell.source)).name: number for number, cell in enumerate(code, 1)}
    for number, cell in enumerate(code, 1):
        cell.metadata.pop("execution", None)
        cell.execution_count = number
        cell.outputs = [_without_paths(output, number, file_numbers) for output in _merged(cell.outputs)]
    notebook.nbformat, notebook.nbformat_minor = 4, 5  # the first version in which cells have names
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
                         "language_info": {"name": "python"}}
    return nbformat.from_dict(notebook)


def tags(cell: Any) -> list[str]:
    return list(cell.metadata.get("tags", []))


def _merged(outputs: list[Any]) -> list[Any]:
    """Return the outputs with one of each stream, as the order of small writes to both is not fixed."""
    merged: list[Any] = []
    for output in outputs:
        same = [o for o in merged if output.output_type == o.output_type == "stream" and output.name == o.name]
        if same:
            same[0].text += output.text
        else:
            merged.append(output)
    return merged


def _without_paths(output: Any, number: int, file_numbers: dict[str, int]) -> Any:
    """Remove from an output what differs between two runs: paths of cells, addresses, numbers of processes."""
    def clean(text: str) -> str:
        text = re.sub(r"/\S*/ipykernel_\d+/(\d+\.py)", lambda m: f"In[{file_numbers[m[1]]}]", text)
        text = re.sub(r"/\S*/site-packages/", "site-packages/", text)
        return re.sub(r" at 0x[0-9a-f]{6,}", " at 0x...", text)

    if output.output_type == "stream":
        output.text = clean(output.text)
    elif output.output_type == "error":
        output.evalue, output.traceback = clean(output.evalue), [clean(line) for line in output.traceback]
    else:
        output.data = {kind: clean(v) if kind.startswith("text/") else v for kind, v in output.data.items()
                       if kind in ("text/plain", "text/html", "image/png")}
        output.metadata = {}
        if output.output_type == "execute_result":
            output.execution_count = number
    return output


def is_close(text: str, expected: str) -> bool:
    """True if two texts differ at most in the last digits of numbers that are no integers, and in the spaces behind these."""
    text, expected = (re.sub(r" +(?=,)", "", t) for t in (text, expected))
    if [*_NUMBER.sub("#", text).split()] != [*_NUMBER.sub("#", expected).split()]:
        return False
    return all(a == b or ("." in a + b or "e" in a + b) and math.isclose(float(a), float(b), rel_tol=2e-3, abs_tol=2e-6)
               for a, b in zip(_NUMBER.findall(text), _NUMBER.findall(expected)))


def _texts(outputs: list[Any]) -> list[tuple[str, str]]:
    """Return what is compared of outputs: kinds, and texts."""
    found = []
    for output in outputs:
        if output.output_type == "stream":
            found.append((output.name, output.text))
        elif output.output_type == "error":
            found.append((output.ename, output.evalue))
        else:
            kinds = sorted(output.data)
            found.append((" ".join(kinds), "" if "image/png" in kinds else output.data["text/plain"]))
    return found


def differences(executed: Any, stored: Any) -> list[str]:
    """Return descriptions of the cells whose outputs are not those that are stored, or that end with False."""
    found = []
    for cell, expected in zip(executed.cells, stored.cells, strict=True):
        if cell.cell_type != "code":
            continue
        where, outputs, stored_outputs = f"cell {cell.execution_count}", _texts(cell.outputs), _texts(expected.outputs)
        if "raises-exception" in tags(cell) and not any(o.output_type == "error" for o in cell.outputs):
            found.append(f"{where} raises nothing")
        if any(o.output_type == "execute_result" and o.data["text/plain"] in ("False", "np.False_", "Array(False, dtype=bool)")
               for o in cell.outputs):
            found.append(f"{where} ends with False")
        if "varies" not in tags(cell) and ([kind for kind, _ in outputs] != [kind for kind, _ in stored_outputs] or not all(
                is_close(text, old) for (_, text), (_, old) in zip(outputs, stored_outputs))):
            found.append(f"{where} gives\n{outputs}\nand what is stored is\n{stored_outputs}")
    return found


def main(names: list[str]) -> None:
    import time

    import nbformat

    for path in [FOLDER / f"{name}.ipynb" for name in names] or CHAPTERS:
        start = time.monotonic()
        notebook = execute(path)
        nbformat.validate(notebook)
        print(*differences(notebook, notebook), sep="\n", end="")
        nbformat.write(notebook, path)
        print(f"{path.name}: {time.monotonic() - start:.1f} s, {path.stat().st_size // 1000} kB", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
