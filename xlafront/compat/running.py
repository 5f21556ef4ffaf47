"""The command `python -m xlafront run`: run a program as `python` does, with xlafront as jax there and in child processes."""

from __future__ import annotations

import os
import runpy
import sys
from types import ModuleType

from xlafront.compat.importing import ON_PATH, install


def main(arguments: list[str]) -> None:
    """Run a program with xlafront as jax.

    Args:
        arguments: Arguments as for `python`: a script, `-m` and a module, `-c` and a program, or `-` for standard input; then
            the arguments of the program.
    """
    install()
    python_path = os.environ.get("PYTHONPATH")
    if python_path is None or ON_PATH not in python_path.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join([ON_PATH, python_path] if python_path else [ON_PATH])
    target, *rest = arguments
    option, joined = target[:2], target[2:]
    if option in ("-m", "-c"):  # `-mpytest` is `-m pytest`
        rest = [joined, *rest] if joined else rest
        if not rest:
            sys.exit(f"python -m xlafront run {option}: which {'module' if option == '-m' else 'program'}?")
    if option == "-m":
        sys.argv[:] = rest
        sys.path[0] = os.getcwd()
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif option == "-c":
        _run_text(rest[0], "<string>", ["-c", *rest[1:]])
    elif target == "-":
        _run_text(sys.stdin.buffer.read(), "<stdin>", arguments)
    elif option.startswith("-"):
        sys.exit(f"python -m xlafront run: unknown option {target}; it takes a script, -m MODULE, -c PROGRAM or -.")
    elif not os.path.exists(target):
        sys.exit(f"python -m xlafront run: there is no file {target}.")
    else:
        sys.argv[:] = arguments
        sys.path[0] = os.path.dirname(os.path.abspath(target))
        runpy.run_path(target, run_name="__main__")


def _run_text(text: str | bytes, name: str, arguments: list[str]) -> None:
    """Run a program without a file as the module `__main__`, in which pickles and child processes look up its definitions."""
    code = compile(text, name, "exec", dont_inherit=True)
    sys.argv[:] = arguments
    sys.path[0] = ""
    sys.modules["__main__"] = module = ModuleType("__main__")
    exec(code, vars(module))
