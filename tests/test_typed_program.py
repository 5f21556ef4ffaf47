"""Type checkers report nothing about a user's program and infer `Array` for its results; stubs agree with the tables of names."""

import importlib.util
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROGRAM = "tests/typed_program.py"


def run_module(*command: str) -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-m", *command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_stubs_agree_with_tables():
    run_module("tests.stubs", "--check")


def test_type_checkers_accept_program():
    """With the checkers that are installed: `pip install '.[lint]'` brings both, as `.ci/run` does before it runs this."""
    if importlib.util.find_spec("mypy"):
        run_module("mypy", "--config-file=", "--warn-unused-ignores", "--follow-imports=silent", PROGRAM)
    if importlib.util.find_spec("pyright"):
        run_module("pyright", "--warnings", "--pythonpath", sys.executable, PROGRAM)
