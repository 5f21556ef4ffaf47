"""The command `python -m xlafront plan SCRIPT:FUNCTION`: load the script, create the arguments, print the plan."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Callable
from difflib import get_close_matches
from types import ModuleType, TracebackType
from typing import Any

from xlafront.core.source import is_internal
from xlafront.planning import topologies
from xlafront.planning.compiling import plan
from xlafront.planning.placement import axis_sizes, parameters_of
from xlafront.planning.remat import RematPlan, plan_remat
from xlafront.planning.report import Plan, size
from xlafront.staging.meshes import set_mesh


class UsageError(Exception):
    """A wrong use of the command line; the message says what to give instead."""


def main(args) -> int:
    """Run the command. Return 0 if the program fits or no limit is known, 1 if it does not fit, 2 if planning failed."""
    options = (args.target, args.topology, args.mesh, args.args, args.memory, args.option)
    if args.remat:
        found = or_message(lambda: remat_target(args, *options))
        if found is None:
            return 2
        _print(found.to_json() if args.json else str(found))
        return 0 if found.best else 1
    plan = or_message(lambda: plan_target(*options))
    if plan is None:
        return 2
    shown = f"{plan}\n\n{plan.timeline}" if args.timeline and plan.timeline else str(plan)
    _print(plan.to_json() if args.json else shown)
    if plan.fits is False and args.json:
        largest = "; ".join(f"{b.what} {b.type} {size(b.bytes)}" for b in plan.buffers[:5])
        print(f"{plan.name} does not fit {plan.topology}. Largest buffers: {largest}", file=sys.stderr)
    return 1 if plan.fits is False else 0


def _print(text: str) -> None:
    try:
        print(text, flush=True)
    except BrokenPipeError:  # the reader (head, less) has closed the pipe; the exit status still matters
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def or_message(make: Callable[[], Any]) -> Any:
    """Return what `make` returns; for an error print its message, and return None."""
    try:
        return make()
    except UsageError as e:
        print(f"xlafront plan: {e}", file=sys.stderr)
    except Exception as e:
        print_error(e)
    return None


def plan_target(target: str, topology: str | None = None, mesh: str | None = None, args_name: str | None = None,
                memory: str | None = None, options: list[str] = []) -> Plan:  # noqa: B006
    function, args, settings = call_of(target, topology, mesh, args_name, memory, options)
    return plan(function, *args, **settings)


def remat_target(args: Any, *given: Any) -> RematPlan:
    if args.timeline or args.schedule:
        raise UsageError("--remat prints a table of policies: leave out --timeline and --schedule, and use them with the "
                         "policy that is chosen.")
    function, positional, settings = call_of(*given)
    shows = sys.stderr.isatty()
    return plan_remat(function, *positional, progress=_show if shows else None, **settings)


def _show(line: str) -> None:
    print(f"\r\x1b[K{line}\n", end="", file=sys.stderr, flush=True)


def call_of(target: str, topology: str | None, mesh: str | None, args_name: str | None, memory: str | None,
            options: list[str]) -> tuple[Callable, tuple, dict[str, Any]]:
    """Return the function of the options of a command, its arguments, and its keywords with those of `plan`."""
    path, name = split_target(target)
    sizes = parse_mesh(mesh) if mesh else {"data": -1}
    limit = parse_bytes(memory) if memory else None
    compiler_options = dict(parse_option(text) for text in options)
    try:
        devices = (topologies.get_topology_desc(topology) if topology else topologies.get_attached_topology()).devices
        sizes = axis_sizes(sizes, len(devices))
    except (ValueError, RuntimeError) as e:
        raise UsageError(str(e)) from None
    device_mesh = topologies.make_mesh(topologies.TopologyDescription(devices), tuple(sizes.values()), tuple(sizes))
    script = load_script(path)
    function = find(script, path, name)
    with set_mesh(device_mesh):
        function, args, kwargs = call_arguments(script, path, name, function, args_name, device_mesh)
    return function, args, kwargs | {"topology": topology, "mesh": device_mesh, "memory_limit": limit,
                                     "compiler_options": compiler_options or None}


def split_target(target: str) -> tuple[str, str]:
    """Return the script and the function of SCRIPT:FUNCTION."""
    path, _, name = target.rpartition(":")
    if not path or not name:
        raise UsageError(f"give the function to plan as SCRIPT:FUNCTION (train.py:train_step), not {target!r}.")
    return path, name


def load_script(path: str) -> ModuleType:
    """Import a script or module by file or name; its `if __name__ == "__main__"` block does not run."""
    given, sys.argv = sys.argv, [path]  # the options are not for the script
    try:
        return _load_file(path) if os.path.isfile(path) else _load_module(path)
    except SystemExit as e:
        raise UsageError(f"{path} ends the process when it is loaded (SystemExit: {e}). Put code that parses options and "
                         f"trains below `if __name__ == \"__main__\":`, which does not run here.") from None
    finally:
        sys.argv = given


def _load_file(path: str) -> ModuleType:
    folder, file = os.path.split(os.path.abspath(path))
    name = os.path.splitext(file)[0]
    if os.path.isfile(os.path.join(folder, "__init__.py")):  # part of a package: relative imports must work
        while os.path.isfile(os.path.join(folder, "__init__.py")):
            folder, package = os.path.split(folder)
            name = f"{package}.{name}"
        sys.path.insert(0, folder)
        return importlib.import_module(name)
    spec = importlib.util.spec_from_file_location(name, os.path.join(folder, file))
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python script.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, folder)
    spec.loader.exec_module(module)
    return module


def _load_module(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")) or name.endswith(".py"):
        raise UsageError(f"there is no file {name}.")
    sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as e:
        if e.name is None or not f"{name}.".startswith(f"{e.name}."):
            raise
        raise UsageError(f"there is neither a file nor a module {name}.") from None


def find(script: ModuleType, path: str, name: str) -> Callable:
    found: Any = script
    for attribute in name.split("."):
        found = getattr(found, attribute, None)
    if callable(found):
        return found
    functions = [n for n, value in vars(script).items() if callable(value) and not n.startswith("_")
                 and getattr(value, "__module__", script.__name__) == script.__name__]
    near = get_close_matches(name, functions, 1)
    hint = f"; did you mean {near[0]}?" if near else f". It has {', '.join(sorted(functions)) or 'no functions'}."
    raise UsageError(f"{path} has no function {name!r}{hint}")


def call_arguments(script: ModuleType, path: str, name: str, function: Callable, args_name: str | None,
                   mesh) -> tuple[Callable, tuple, dict[str, Any]]:
    """Return the function to plan and its arguments, as the script defines them."""
    if args_name is None and parameters_of(function) == ["mesh"]:
        pair = function(mesh)
        if not isinstance(pair, tuple) or len(pair) != 2 or not callable(pair[0]):
            raise UsageError(f"{name}(mesh) in {path} has to return the pair (function, arguments), got {type(pair).__name__}.")
        function, given = pair
        maker = f"{name}(mesh)"
    else:
        maker = args_name or f"{name.replace('.', '_')}_args"
        given = getattr(script, maker, None)
        if given is None:
            raise UsageError(
                f"{path} does not define the arguments of {name}. Add a function that returns them, as types:\n\n"
                f"    def {maker}(mesh):\n"
                f"        return (xf.ShapeDtypeStruct((1024, 512), \"float32\", sharding=xf.P(\"data\")),)\n\n"
                f"or name an existing one with --args.")
        if callable(given):
            given = given(mesh) if parameters_of(given) else given()
    if isinstance(given, dict):
        return function, (), given
    if isinstance(given, tuple):
        return function, given, {}
    raise UsageError(f"{maker} in {path} has to give the arguments as a tuple (or a dict, for keywords), got "
                     f"{type(given).__name__}.")


def parse_mesh(text: str) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for axis in text.split(","):
        name, _, size = axis.partition("=")
        if not name.strip().isidentifier() or not re.fullmatch(r"-?\d+", size.strip()) or name.strip() in sizes:
            raise UsageError(f"--mesh takes axes with sizes, such as data=-1,model=8, not {text!r}.")
        sizes[name.strip()] = int(size)
    return sizes


def parse_bytes(text: str) -> int:
    found = re.fullmatch(r"([\d.]+) *([kmgt]?)(i?)b?", text.strip().lower())
    try:
        number = float(found.group(1))  # type: ignore[union-attr]
    except (AttributeError, ValueError):
        raise UsageError(f"--memory takes a number of bytes such as 16GiB or 80GB, not {text!r}.") from None
    return int(number * (1024 if found.group(3) else 1000) ** " kmgt".index(found.group(2) or " "))


def parse_option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--option takes NAME=VALUE, not {text!r}.")
    if value.lower() in ("true", "false"):
        return name, value.lower() == "true"
    return name, int(value) if re.fullmatch(r"-?\d+", value) else value


def print_error(error: BaseException, command: str = "plan") -> None:
    """Print an error with only the script's frames in its traceback."""
    frames = []
    step = error.__traceback__
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        if not is_internal[file] and not file.startswith("<frozen") and file != importlib.__file__:
            frames.append(step)
        step = step.tb_next
    script_traceback: TracebackType | None = None
    for step in reversed(frames):
        if os.path.basename(step.tb_frame.f_code.co_filename) != "runpy.py":
            script_traceback = TracebackType(script_traceback, step.tb_frame, step.tb_lasti, step.tb_lineno)
    if isinstance(error, SyntaxError):  # it contains its location
        traceback.print_exception(type(error), error, None)
    elif script_traceback is None:  # no frame of the script: the options are wrong
        print(f"xlafront {command}: {error}", file=sys.stderr)
    else:
        traceback.print_exception(type(error), error, script_traceback)
