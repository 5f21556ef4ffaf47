"""The line that shows a long compilation, and the table of `log_compiles`."""

import io
import os
import re
import signal
import subprocess
import sys
import threading
import time
import types

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.base import config
from xlafront.runtime import compile as runtime_compile
from xlafront.runtime.interrupts import interruptible
from xlafront.staging import compile_progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """Return a function that makes standard error a terminal. (pytest sets `sys.stderr` after the fixtures of a test.)"""
    def use(error=None):
        monkeypatch.setattr(sys, "stderr", error or Terminal())
        return sys.stderr

    return use


@pytest.fixture
def slow_compiler(monkeypatch):
    """Let compilations take longer than the line waits."""
    monkeypatch.setattr(compile_progress, "_DELAY", 0.02)
    monkeypatch.setattr(compile_progress, "_INTERVAL", 0.01)
    compile_and_load = runtime_compile.backend_compile_and_load

    def slow(*args):
        time.sleep(0.2)
        return compile_and_load(*args)

    monkeypatch.setattr(runtime_compile, "backend_compile_and_load", slow)


def compile_new(number):
    """Compile a program that no other test has, with four operations: two of them, and the call of two."""
    inner = xf.jit(lambda x: xnp.sin(x) * number, inline=False)

    def train(x):
        return -inner(x)

    xf.jit(train).lower(np.ones(3, np.float32)).compile()


def test_line_in_a_terminal_is_updated_and_erased(terminal, slow_compiler):
    before, error = compile_progress.compile_progress.programs, terminal()
    compile_new(1.25)
    updates = error.getvalue().split("\r")[1:]
    assert len(updates) > 2
    for text in updates[:-1]:
        assert re.fullmatch(r"compiling train: 4 operations, \d s(; of [\d,]+ programs before, [\d,]+ came.*)? \(Ctrl-C ends the wait\)\x1b\[K", text)
    assert updates[-1] == "\x1b[K"
    assert compile_progress.compile_progress.programs == before + 1


def test_no_line_for_a_quick_compilation(terminal, slow_compiler, monkeypatch):
    monkeypatch.setattr(compile_progress, "_DELAY", 60)
    error = terminal()
    compile_new(1.5)
    assert error.getvalue() == ""


@pytest.mark.parametrize("watched", ["no terminal", "setting off"])
def test_no_thread_without_a_terminal_or_with_the_setting_off(terminal, slow_compiler, monkeypatch, watched):
    error = terminal(io.StringIO() if watched == "no terminal" else None)
    monkeypatch.setattr(compile_progress.threading, "Thread", lambda **_: pytest.fail("a thread was made"))
    with config.compile_progress(watched == "no terminal"):
        compile_new(1.75 if watched == "no terminal" else 2.25)
    assert error.getvalue() == ""


def test_output_of_a_notebook_is_replaced(terminal, slow_compiler, monkeypatch):
    shown = []

    def display(data, raw, display_id):
        shown.append(data["text/plain"])
        return types.SimpleNamespace(update=lambda data, raw: shown.append(data["text/plain"]))

    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(display=display))
    error = terminal()
    compile_new(2.5)
    assert len(shown) > 2 and all(text.startswith("compiling train: 4 operations, 0 s") for text in shown[:-1])
    assert shown[-1] == "compiled train: 4 operations, 0 s" or shown[-1].startswith("compiled train: 4 operations, 0 s; of")
    assert error.getvalue() == ""


def test_failed_compilation_erases_the_line(terminal, slow_compiler, monkeypatch):
    def fail(*args):
        time.sleep(0.1)
        raise MemoryError

    monkeypatch.setattr(runtime_compile, "backend_compile_and_load", fail)
    error = terminal()
    with pytest.raises(MemoryError):
        compile_new(2.75)
    assert error.getvalue().endswith("\r\x1b[K")


INTERRUPTED = """
import signal, sys, time
import numpy as np
import xlafront as xf
from xlafront.runtime import compile as runtime_compile
from xlafront.staging import compile_progress

signal.signal(signal.SIGINT, signal.default_int_handler)  # which a parent in the background ignores
xf.config.update("enable_compilation_cache", False)
compile_and_load = runtime_compile.backend_compile_and_load

def slow(*args):
    time.sleep(float(sys.argv[1]))
    return compile_and_load(*args)

x = xf.jit(lambda x: x + 1)(np.ones(3, np.float32))
compile_progress._DELAY = compile_progress._INTERVAL = 0.05
runtime_compile.backend_compile_and_load = slow
try:
    xf.jit(lambda x: x * 3)(x)
except KeyboardInterrupt:
    runtime_compile.backend_compile_and_load = compile_and_load
    if sys.argv[2] == "continues":
        print("computes", float(xf.jit(lambda x: x * 5)(x)[0]))
    else:
        raise
"""


@pytest.mark.parametrize("seconds, then", [(60, "ends"), (3, "continues")])
def test_an_interrupt_ends_the_wait_for_a_compilation(tmp_path, seconds, then):
    """The program continues or ends at once, while the compiler works. At its end it waits for the compiler."""
    script = tmp_path / "script.py"
    script.write_text(INTERRUPTED)
    terminal, error = os.openpty()
    process = subprocess.Popen([sys.executable, script, str(seconds), then], stderr=error, stdout=subprocess.PIPE, text=True)
    os.close(error)
    while b"Ctrl-C ends the wait" not in os.read(terminal, 10_000):
        pass
    started = time.monotonic()
    process.send_signal(signal.SIGINT)
    line = process.stdout.readline()
    assert time.monotonic() - started < (1 if then == "continues" else 10)
    status = process.wait(timeout=30)
    os.close(terminal)
    assert (line, status) == (("computes 10.0\n", 0) if then == "continues" else ("", -signal.SIGINT))


def test_failures_of_the_compiler_are_raised_in_the_thread_that_waits():
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 / 0)
    assert interruptible(threading.current_thread) is not threading.current_thread()
    inner = []
    thread = threading.Thread(target=lambda: inner.append(interruptible(threading.current_thread) is threading.current_thread()))
    thread.start()
    thread.join()
    assert inner == [True]  # a thread that is never interrupted compiles itself


def test_table_of_compilations_at_the_end_of_the_process(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("""
import xlafront as xf, numpy as np
xf.config.update("log_compiles", True)
def train(x):
    return x * 2 + 1
for n in (3, 4):
    xf.jit(train)(np.ones(n, np.float32))
xf.jit(lambda x: x - 1)(np.ones(2, np.float32))
""")
    found = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, timeout=120)
    table = found.stderr[found.stderr.index("Compiled 3 programs in"):].splitlines()
    rows = {tuple(re.split(r"  +", line)[:3]): re.split(r"  +", line)[3:] for line in table[1:]}
    assert rows.pop(("program", "called at", "programs")) == ["from the cache", "trace", "lower", "compile"]
    assert rows.keys() == {("train", f"{script}:7", "2"), ("<lambda>", f"{script}:8", "1")}
    total = sum(float(text.removesuffix(" s")) for cells in rows.values() for text in cells[1:])
    assert float(table[0].split()[-2]) == pytest.approx(total, abs=0.02)
