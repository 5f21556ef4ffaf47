"""The command line, `python -m xlafront`: `demo`, `run`, `plan`, `export`, `cache info|clear|path`, `info`, `stubs`."""

from __future__ import annotations

import argparse
import math
import os
import sys
from typing import Any

from xlafront.base.version import __version__


def _cache(args) -> int:
    from xlafront.base import config  # start-up: as above
    from xlafront.runtime import backends  # start-up: of this command alone

    cache = backends.disk_cache(also_off=True)
    if args.action == "path":
        print(cache.directory)
    elif args.action == "clear":
        print(f"removed {cache.clear()} compiled programs from {cache.directory}")
    else:
        state = ("off (enable_compilation_cache)" if not config.enable_compilation_cache.value else
                 "on" if cache.max_bytes else "off (compilation_cache_max_size)")
        limit = "" if cache.max_bytes == math.inf else f" of at most {cache.max_bytes / 2**20:.0f} MiB"
        sizes = [size for _, size, _ in cache.entries()]
        print(f"directory: {cache.directory}\nstate:     {state}\nprograms:  {len(sizes)}\n"
              f"size:      {sum(sizes) / 2**20:.1f} MiB{limit}")
    return 0


def _info(args) -> int:
    if args.file is not None:
        from xlafront.exporting.script import info  # start-up: of this command alone

        return info(args.file)
    from xlafront.host.environment import print_environment_info  # start-up: of this command alone

    print_environment_info()
    return 0


def _demo(args) -> int:
    from xlafront.demo import main  # start-up: of this command alone

    return main(args.steps, args.devices, args.plot)


def _plan(args) -> int:
    from xlafront.planning import child, schedules  # start-up: of this command alone

    if args.remat and (args.search or "," in (args.topology or "")):
        print("xlafront plan: --remat takes one topology and one mesh: leave out --search.", file=sys.stderr)
        return 2
    if args.search:
        from xlafront.planning import search_script  # start-up: of this command alone

        return search_script.main(args)
    if "," in (args.topology or ""):
        from xlafront.planning import comparison  # start-up: of this command alone

        return comparison.run(args)
    if args.schedule and schedules.VARIABLE not in os.environ:
        with schedules.dumped() as variables:
            return child.run(args.argv or sys.argv[1:], variables)
    if args.argv is None and child.VARIABLE not in os.environ:
        return child.run(sys.argv[1:])
    from xlafront.planning.script import main

    return main(args)


def _export(args) -> int:
    from xlafront.exporting.script import main  # start-up: of this command alone

    return main(args)


def _stubs(args) -> int:
    from xlafront.compat.editor_stubs import write_stubs  # start-up: of this command alone

    print(f"wrote {write_stubs(args.folder)} files below {os.path.join(args.folder, 'jax')}")
    return 0


def _run(arguments: list[str]) -> None:
    from xlafront.compat.running import main  # start-up: of this command alone

    main(arguments)


class _LimitOrTimeline(argparse.Action):
    """`--memory 14GiB` sets a limit, `--memory` alone is `--timeline`."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        setattr(namespace, *(("timeline", True) if values is None else ("memory", values)))


def _add_plan(commands: Any) -> None:
    plan = commands.add_parser(
        "plan", help="memory, work and collectives of a training step on machines that are not attached",
        description="Compile a function of a script for a topology, and print memory, work and collectives of each device. "
                    "The status is 1 if the program does not fit, 2 if it cannot be planned. The arguments of SCRIPT:FUNCTION "
                    "are the result of SCRIPT:FUNCTION_args(mesh), a tuple (or a dict, for keywords) of arrays or "
                    "ShapeDtypeStructs, whose shardings may be PartitionSpecs. Or FUNCTION takes one parameter, mesh, and "
                    "returns the pair of the function to plan and its arguments.")
    plan.add_argument("target", metavar="SCRIPT:FUNCTION", help="such as train.py:train_step, or package.train:train_step")
    plan.add_argument("--topology", help="such as v5e:16x16, 2xv5e:16x16 (two slices), v5p:8x8x8, h100:8, h100:4x8 (default: "
                      "the attached devices); several with commas between them are compared, a line for each")
    plan.add_argument("--mesh", help="axes and sizes, such as data=-1,model=8; -1: the remaining devices (default: data=-1)")
    plan.add_argument("--args", metavar="NAME", help="function of the script that returns the arguments")
    plan.add_argument("--memory", nargs="?", action=_LimitOrTimeline, help="limit of the memory of each device, such as 14GiB "
                      "(default: that of the chip); without a value, as --timeline")
    plan.add_argument("--search", action="store_true", help="find the mesh and the shardings with which the step is fastest, "
                      "and print them as a table and as Python; Ctrl-C prints the best so far")
    plan.add_argument("--axes", help="axes that meshes may have, in a search, such as data,fsdp,model (default: those that the "
                      "shardings of the arguments name, or else these three)")
    plan.add_argument("--rules", metavar="NAME", help="dictionary of the script, in a search: a PartitionSpec for each regular "
                      "expression of paths, such as {r\"\\['qkv'\\]\": P(None, \"fsdp\", \"model\")}")
    plan.add_argument("--remat", action="store_true", help="print memory, extra work and time of the step for each policy of "
                      "xf.checkpoint, and the fastest that fits")
    plan.add_argument("--time-limit", type=float, default=600, metavar="SECONDS", help="most time of a search (default 600)")
    plan.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="compiler option; repeatable")
    plan.add_argument("--schedule", action="store_true", help="print the static schedule of each kernel for TPUs: its bundles, "
                      "and which unit bounds it")
    plan.add_argument("--timeline", action="store_true", help="print the memory over the schedule of a step, and the values at "
                      "its peak")
    plan.add_argument("--json", action="store_true", help="print the plan as JSON")
    plan.set_defaults(run=_plan)


def _add_export(commands: Any) -> None:
    exported = commands.add_parser(
        "export", help="export a function as a portable StableHLO module",
        description="Lower a function of a script and write three files: the StableHLO module as text (--out), as a portable "
                    "artifact for other runtimes (.mlirbc), and with its types and structures for export.deserialize "
                    "(.exported). Without TYPEs the arguments are the result of SCRIPT:FUNCTION_args(), a tuple (or a dict, "
                    "for keywords) of arrays or ShapeDtypeStructs.")
    exported.add_argument("target", metavar="SCRIPT:FUNCTION", help="such as model.py:predict, or package.model:predict")
    exported.add_argument("specs", metavar="TYPE", nargs="*",
                          help="type of an argument, such as 'float32[8,128]', or 'float32[b,128]' for any b")
    exported.add_argument("--out", required=True, metavar="FILE", help="file for the text, such as predict.mlir")
    exported.add_argument("--symbolic", metavar="SHAPES", help="shapes with symbolic dimensions, in the syntax of "
                          "symbolic_shape: one for all arguments ('b, ...'), or one for each ('b, _; b')")
    exported.add_argument("--constraint", action="append", default=[], metavar="TEXT",
                          help="constraint on symbolic dimensions, such as 'b >= 2'; repeatable")
    exported.add_argument("--platforms", metavar="NAMES", help="cpu, cuda, rocm, tpu or several, such as cpu,cuda (default: "
                          "the platform of this machine)")
    exported.add_argument("--vjp-order", type=int, default=0, metavar="N", help="number of derivatives to include (default 0)")
    exported.add_argument("--args", metavar="NAME", help="function of the script that returns the arguments")
    exported.set_defaults(run=_export)


def main(argv=None) -> int:
    given, argv = argv, sys.argv[1:] if argv is None else argv
    if argv[:1] == ["run"] and argv[1:] not in ([], ["-h"], ["--help"]):  # the program parses its own arguments
        _run(argv[1:])
        return 0
    parser = argparse.ArgumentParser(prog="python -m xlafront", description="xlafront from the command line")
    parser.add_argument("--version", action="version", version=f"xlafront {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    demo = commands.add_parser("demo", help="train a small network over all devices, and draw its loss and what it learned")
    demo.add_argument("--steps", type=int, default=300, help="optimisation steps (default 300)")
    demo.add_argument("--devices", type=int, default=2,
                      help="CPU devices to simulate without an accelerator, at most one a core (default 2)")
    demo.add_argument("--plot", default="demo_loss.svg", help="file for the picture (default demo_loss.svg)")
    demo.set_defaults(run=_demo)
    run = commands.add_parser(
        "run", help="run a program that imports jax, with xlafront in its place",
        usage="python -m xlafront run [SCRIPT | -m MODULE | -c PROGRAM | -] [ARGUMENT ...]",
        description="Run a script, a module, a program given as text or one from standard input (-) as `python` does. `import "
                    "jax` gives xlafront, also in child processes, whether or not jax is installed.")
    run.set_defaults(run=lambda args: run.error("give a script, -m MODULE, -c PROGRAM, or - for standard input"))
    _add_plan(commands)
    _add_export(commands)
    cache = commands.add_parser("cache", help="show or clear the compiled programs cached on disk")
    cache.add_argument("action", choices=("info", "clear", "path"))
    cache.set_defaults(run=_cache)
    info = commands.add_parser("info", help="show versions, devices and settings, or the contents of an exported file")
    info.add_argument("file", nargs="?", metavar="FILE", help="file written by export, or a StableHLO module")
    info.set_defaults(run=_info)
    stubs = commands.add_parser(
        "stubs", help="write type stubs by which editors read `import jax` as xlafront",
        description="Write a package of type stubs called jax. Pylance and pyright read it from the folder typings of a "
                    "project; mypy needs the setting mypy_path.")
    stubs.add_argument("folder", nargs="?", default="typings", help="folder for the package (default typings)")
    stubs.set_defaults(run=_stubs)
    args = parser.parse_args(argv, argparse.Namespace(argv=given))
    return args.run(args)


if __name__ == "__main__":
    sys.exit(main())
