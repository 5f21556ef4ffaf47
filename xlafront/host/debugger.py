"""`debug.breakpoint`: stop a program, compiled ones too, and look at the variables of the functions that led there.

When the function is traced, the local variables of the frames on the stack are taken down; the arrays among them become
operands of a debugging callback. That callback is a small command line.
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
    """One function on the stack, as it was when the breakpoint was met."""

    code: CodeType
    line: int
    variables: dict[str, Any]
    globals: dict[str, Any]

    def evaluate(self, expression: str) -> Any:
        return eval(expression, self.globals | self.variables)

    def listing(self, before: int, after: int) -> str:
        """The place and the lines around it as far as the function goes, this one marked."""
        shown = [f"> {self.code.co_filename}({self.line})"]
        try:
            of_module = self.code.co_name == "<module>"  # of which `getsourcelines` knows from Python 3.13 on
            lines, first = (inspect.findsource(self.code)[0], 1) if of_module else inspect.getsourcelines(self.code)
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
    """Stop here, each time that the program comes by, and read commands: `p EXPR`, `u`, `d`, `bt`, `l`, `c`, `q`, `help`.

    Expressions see the local variables of the frame, arrays with their values at run time.

    - `backend`: `"cli"`, the command line, is the only one. `kwargs`: `stdin` and `stdout`, the files it reads and writes.
    - `filter_frames`: leave out this library's frames. `num_frames`: at most so many, innermost first.
    - `ordered`: stop in program order. `token`: a value, returned as it is. They exclude each other.

    >>> import io
    >>> stdout = io.StringIO()
    >>> xf.jit(lambda x: debug.breakpoint(stdin=io.StringIO("p x\\nc\\n"), stdout=stdout))(1.5)
    >>> xf.effects_barrier()
    >>> "1.5" in stdout.getvalue()
    True
    """
    if backend not in (None, "cli"):
        raise ValueError(f"debug.breakpoint has the backend 'cli', a command line, and none of the name {backend!r}.")
    unknown = kwargs.keys() - {"stdin", "stdout"}
    if unknown:
        raise TypeError(f"debug.breakpoint takes stdin and stdout besides its own arguments, got {', '.join(sorted(unknown))}.")
    if ordered and token is not None:
        raise ValueError("debug.breakpoint is given both `ordered` and a `token`, two ways to say when it stops. Give one.")
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
    """What the program calls at a breakpoint, with the values of `traced`."""

    def __init__(self, stack: Sequence[FrameType], files: dict[str, Any]):
        self.files = files
        self.traced: list[tracing.Tracer] = []
        self.frames = [(frame.f_code, frame.f_lineno, self._captured(frame.f_locals), frame.f_globals) for frame in stack]

    def _captured(self, variables: Mapping[str, Any]) -> dict[str, tuple[Any, list]]:
        """For each variable its tree and leaves, among which `_Traced` are the values that are yet to come."""
        found = {}
        for name, value in variables.items():
            try:
                with warnings.catch_warnings():  # of variables that hold iterators
                    warnings.simplefilter("ignore", DeprecationWarning)
                    leaves, structure = tree.flatten(value)
            except Exception:  # a container that is no pytree after all, as a dict whose keys cannot be sorted
                leaves, structure = [value], tree.structure(0)
            found[name] = structure, [self._leaf(x) for x in leaves]
        return found

    def _leaf(self, x):
        if not isinstance(x, tracing.Tracer):
            return x
        if not x._trace.alive:
            return _Ended(repr(x))
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


class _Ended:
    """Stands for a tracer whose transformation has ended: it has no value any more."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self):
        return f"<{self.text}, of a transformation that has ended>"


class CommandLine(cmd.Cmd):
    """Reads commands and shows the frames. It speaks as the reference's does, for programs that drive it."""

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
        """Anything that is no command is an expression."""
        self.do_p(line)

    def _show(self, expression: str, form) -> None:
        try:
            shown = form(self.frame.evaluate(expression))
        except Exception as e:
            shown = "*** " + traceback.format_exception_only(e)[-1].rstrip()
        self.say(shown)

    def do_p(self, line: str) -> None:
        """p EXPRESSION: its value"""
        self._show(line, repr)

    def do_pp(self, line: str) -> None:
        """pp EXPRESSION: its value, over several lines"""
        self._show(line, pprint.pformat)

    def do_list(self, line: str) -> None:
        """l(ist): the source around this line"""
        self.say(self.frame.listing(6, 5))

    def do_up(self, line: str) -> None:
        """u(p): to the function that called this one"""
        self._move(1, "At topmost frame.")

    def do_down(self, line: str) -> None:
        """d(own): to the function that this one called"""
        self._move(-1, "At bottommost frame.")

    def _move(self, step: int, end: str) -> None:
        if 0 <= self.index + step < len(self.frames):
            self.index += step
        else:
            self.say(end)
        self.say(self.frame.listing(3, 2))

    def do_bt(self, line: str) -> None:
        """bt, w(here): the functions on the stack, outermost first"""
        self.say("Traceback:")
        for frame in reversed(self.frames):
            self.say(f'  File "{frame.code.co_filename}", line {frame.line}\n    {frame.source()}')

    def do_continue(self, line: str) -> bool:
        """c(ont(inue)): let the program run on"""
        return True

    def do_quit(self, line: str) -> None:
        """q(uit), exit: end the program"""
        raise SystemExit(0)

    do_l, do_u, do_d, do_w, do_where, do_c, do_cont, do_q, do_exit = (
        do_list, do_up, do_down, do_bt, do_bt, do_continue, do_continue, do_quit, do_quit)

    def do_EOF(self, line: str) -> None:
        """The end of the input: as quit"""
        self.do_quit(line)
