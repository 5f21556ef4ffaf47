"""`python -m xlafront run`: a program as `python` runs it, with xlafront in jax's place there and in its child processes."""

from __future__ import annotations

import os
import runpy
import sys

from xlafront.compat.importing import ON_PATH, install


def main(arguments: list[str]) -> None:
    """- `arguments`: a script and its arguments, or `-m`, a module and its arguments."""
    install()
    others = os.environ.get("PYTHONPATH")
    if others is None or ON_PATH not in others.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join([ON_PATH, others] if others else [ON_PATH])
    target, *rest = arguments
    if target == "-m":
        if not rest:
            sys.exit("python -m xlafront run -m: which module?")
        sys.argv[:] = rest
        sys.path[0] = os.getcwd()
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        return
    if target.startswith("-"):
        sys.exit(f"python -m xlafront run: unknown option {target}; it takes a script, or -m and a module.")
    if not os.path.exists(target):
        sys.exit(f"python -m xlafront run: there is no file {target}.")
    sys.argv[:] = arguments
    sys.path[0] = os.path.dirname(os.path.abspath(target))
    runpy.run_path(target, run_name="__main__")
