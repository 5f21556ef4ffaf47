"""`python -m xlafront run`: a program as `python` runs it, with xlafront in jax's place there and in its child processes."""

from __future__ import annotations

import os
import runpy
import sys
from types import ModuleType

from xlafront.compat.importing import ON_PATH, install


def main(arguments: list[str]) -> None:
    """- `arguments`: as those of `python`: a script, `-m` and a module, `-c` and a program, or `-` for one from standard input;
    and its own arguments."""
    install()
    others = os.environ.get("PYTHONPATH")
    if others is None or ON_PATH not in others.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join([ON_PATH, others] if others else [ON_PATH])
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
    """Run a program that is no file, as the module `__main__`, in which pickles and children look for what it defines."""
    code = compile(text, name, "exec", dont_inherit=True)
    sys.argv[:] = arguments
    sys.path[0] = ""
    sys.modules["__main__"] = module = ModuleType("__main__")
    exec(code, vars(module))
