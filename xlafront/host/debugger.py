"""`debug.breakpoint`: stop a program, also a compiled one, and inspect the variables of the functions on the stack.

When the function is traced, the local variables of the frames on the stack are captured; the tracers among them become
operands of a debugging callback. That callback runs a small command line.
"""

from __future__ import annotations

import cmd
import inspect
import linecache
import pprint
import sys
import traceback
import warnings
from collections.abc import Mapping, Sequence
from types import CodeType, FrameType
from typing import Any, NamedTuple

from xlafront.core import tracing, tree
from xlafront.core.source import is_internal
from xlafront.core.traceback_filter import boundary
from xlafront.host.callbacks import debug_callback_p, debug_effect, ordered_debug_effect


class Frame(NamedTuple):
    """A function on the stack, as it was at the breakpoint."""

    code: CodeType
    line: int
    variables: dict[str, Any]
    globals: dict[str, Any]

    def evaluate(self, expression: str) -> Any:
        return eval(expression, self.globals | self.variables)

    def listing(self, before: int, after: int) -> str:
        """Return the file and line, and the source lines around it within the function, the current one marked."""
        shown = [f"> {self.code.co_filename}({self.line})"]
        try:
            is_module = self.code.co_name == "<module>"  # `getsourcelines` supports it from Python 3.13 on
            lines, first = (inspect.findsource(self.code)[0], 1) if is_module else inspect.getsourcelines(self.code)
        except OSError:  # typed into an interpreter
            return shown[0]
        lines, at = [*[line.rstrip() for line in lines], ""], self.line - first
        for i in range(max(at - before, 0), min(at + after + 1, len(lines))):
            shown.append(f"{'->' if i == at else '  '}  {lines[i]}")
        return "\n".join(shown)

    def source(self) -> str:
        return linecache.getline(self.code.co_filename, self.line, self.globals).strip() or "<no source>"


@boundary
def breakpoint(*, backend: str | None = None, filter_frames: bool = True, num_frames: int | None = None, ordered: bool = False,
               token: Any = None, **kwargs: Any) -> Any:
    """Stop each time that the program runs this line, and read commands: `p EXPR`, `u`, `d`, `bt`, `l`, `c`, `q`, `help`.

    Expressions see the local variables of the frame, with the run-time values of arrays.

    Args:
        backend: `"cli"`, the command line, is the only one.
        filter_frames: If True, leave out the frames of this library.
        num_frames: Maximum number of frames, innermost first. Default: all.
        ordered: If True, stop in program order. Excludes `token`.
        token: Value that is returned unchanged, for use as a dependency. Excludes `ordered`.
        kwargs: `stdin` and `stdout`, the files that the command line reads and writes.

    Returns:
        `token`.

    Example:
        >>> import io
        >>> stdout = io.StringIO()
        >>> xf.jit(lambda x: debug.breakpoint(stdin=io.StringIO("p x\\nc\\n"), stdout=stdout))(1.5)
        >>> xf.effects_barrier()
        >>> "1.5" in stdout.getvalue()
        True
    """
    if backend not in (None, "cli"):
        raise ValueError(f"debug.breakpoint has only the backend 'cli', a command line, got {backend!r}.")
    unknown = kwargs.keys() - {"stdin", "stdout"}
    if unknown:
        raise TypeError(f"debug.breakpoint takes stdin and stdout besides its own arguments, got {', '.join(sorted(unknown))}.")
    if ordered and token is not None:
        raise ValueError("debug.breakpoint got both `ordered` and a `token`, which exclude each other. Give one of them.")
    stop = _Breakpoint(_stack(sys._getframe(1), filter_frames, num_frames), kwargs)
    debug_callback_p.bind(*stop.traced, callback=stop, partitioned=False,
                          effect=ordered_debug_effect if ordered else debug_effect)
    return token


def _stack(frame: FrameType | None, filter_frames: bool, num_frames: int | None) -> list[FrameType]:
    found: list[FrameType] = []
    while frame is not None and (num_frames is None or len(found) < num_frames):
        if not (filter_frames and is_internal[frame.f_code.co_filename]):
            found.append(frame)
        frame = frame.f_back
    return found


class _Breakpoint:
    """The callback of a breakpoint. The program calls it with the values of `traced`."""

    def __init__(self, stack: Sequence[FrameType], files: dict[str, Any]):
        self.files = files
        self.traced: list[tracing.Tracer] = []
        self.frames = [(frame.f_code, frame.f_lineno, self._captured(frame.f_locals), frame.f_globals) for frame in stack]

    def _captured(self, variables: Mapping[str, Any]) -> dict[str, tuple[Any, list]]:
        """Return the tree and the leaves of each variable, with `_Traced` in place of values known at run time only."""
        found = {}
        for name, value in variables.items():
            try:
                with warnings.catch_warnings():  # given for variables that hold iterators
                    warnings.simplefilter("ignore", DeprecationWarning)
                    leaves, structure = tree.flatten(value)
            except Exception:  # a container that cannot be flattened, such as a dict with keys that cannot be sorted
                leaves, structure = [value], tree.structure(0)
            found[name] = structure, [self._leaf(x) for x in leaves]
        return found

    def _leaf(self, x):
        if not isinstance(x, tracing.Tracer):
            return x
        if not x._trace.alive:
            return _LeakedTracer(repr(x))
        self.traced.append(x)
        return _Traced(len(self.traced) - 1)

    def __call__(self, *arrays):
        frames = []
        for code, line, variables, names in self.frames:
            values = {name: structure.unflatten([arrays[x.index] if type(x) is _Traced else x for x in leaves])
                      for name, (structure, leaves) in variables.items()}
            frames.append(Frame(code, line, values, names))
        CommandLine(frames, **self.files).cmdloop()
        return ()

    def __repr__(self):
        return "breakpoint"


class _Traced(NamedTuple):
    index: int


class _LeakedTracer:
    """A placeholder for a leaked tracer: its transformation has ended, so it has no value."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self):
        return f"<{self.text}, of a transformation that has ended>"


class CommandLine(cmd.Cmd):
    """The command line of `breakpoint`. Prompt and texts are those of JAX, for programs that drive it."""

    prompt = "(jdb) "
    intro = "Entering jdb:"

    def __init__(self, frames: Sequence[Frame], stdin=None, stdout=None):
        super().__init__(stdin=stdin, stdout=stdout)
        self.use_rawinput = stdin is None and stdout is None and sys.stdin.isatty()
        self.frames, self.index = frames, 0

    @property
    def frame(self) -> Frame:
        return self.frames[self.index]

    def say(self, text: str) -> None:
        self.stdout.write(text + "\n")
        self.stdout.flush()

    def default(self, line: str) -> None:
        """Evaluate a line that is not a command as an expression."""
        self.do_p(line)

    def _show(self, expression: str, form) -> None:
        try:
            shown = form(self.frame.evaluate(expression))
        except Exception as e:
            shown = "*** " + traceback.format_exception_only(e)[-1].rstrip()
        self.say(shown)

    def do_p(self, line: str) -> None:
        """p EXPRESSION: print its value"""
        self._show(line, repr)

    def do_pp(self, line: str) -> None:
        """pp EXPRESSION: print its value, over several lines"""
        self._show(line, pprint.pformat)

    def do_list(self, line: str) -> None:
        """l(ist): show the source around this line"""
        self.say(self.frame.listing(6, 5))

    def do_up(self, line: str) -> None:
        """u(p): move to the function that called this one"""
        self._move(1, "At topmost frame.")

    def do_down(self, line: str) -> None:
        """d(own): move to the function that this one called"""
        self._move(-1, "At bottommost frame.")

    def _move(self, step: int, end: str) -> None:
        if 0 <= self.index + step < len(self.frames):
            self.index += step
        else:
            self.say(end)
        self.say(self.frame.listing(3, 2))

    def do_bt(self, line: str) -> None:
        """bt, w(here): show the functions on the stack, outermost first"""
        self.say("Traceback:")
        for frame in reversed(self.frames):
            self.say(f'  File "{frame.code.co_filename}", line {frame.line}\n    {frame.source()}')

    def do_continue(self, line: str) -> bool:
        """c(ont(inue)): continue the program"""
        return True

    def do_quit(self, line: str) -> None:
        """q(uit), exit: end the program"""
        raise SystemExit(0)

    do_l, do_u, do_d, do_w, do_where, do_c, do_cont, do_q, do_exit = (
        do_list, do_up, do_down, do_bt, do_bt, do_continue, do_continue, do_quit, do_quit)

    def do_EOF(self, line: str) -> None:
        """The end of the input: quit"""
        self.do_quit(line)
