"""Compilation in two tiers, the setting `tiered_compilation`: a program is compiled quickly and runs; meanwhile a thread
compiles it with all optimizations.

The first tier does without LLVM's optimizations, and uses the older code generator for CPUs where XLA has two. The second is
what the program would be compiled to without the setting: it comes from the disk cache if it is there (then there is no first
tier), and is stored there. One thread compiles the programs of the process one after another.
"""

from __future__ import annotations

import atexit
import queue
import threading
import weakref
from typing import Any

from xlafront.base.jaxlib_compat import HAS_TWO_EMITTERS, CompileOptions
from xlafront.base.logs import log
from xlafront.runtime.compile import CompiledModule, CompileRequest, compile_module, load_module

# Flags of the first tier. The split count is the number of parts of a module that LLVM compiles apart: each part costs time.
_QUICK_FLAGS = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True,
                "xla_cpu_parallel_codegen_split_count": 4}
if HAS_TWO_EMITTERS:
    _QUICK_FLAGS["xla_cpu_use_fusion_emitters"] = False


class Upgrade:
    """The second tier of a program.

    Attributes:
        is_done: True when the thread has compiled it, or failed to.
        loaded: The executable; None before, and if the compiler failed.
    """

    def __init__(self, name: str, request: CompileRequest, cache: Any):
        self._name, self._task = name, (request, cache)
        self._done = threading.Event()
        self.loaded: Any = None

    @property
    def is_done(self) -> bool:
        return self._done.is_set()

    def wait(self) -> None:
        self._done.wait()

    def compile(self) -> None:
        try:
            self.loaded = compile_module(*self._task).loaded
        except Exception as e:  # the program runs as it is
            log().warning("%s runs without optimizations: the compiler failed with them: %s", self._name, e)
        finally:
            del self._task
            self._done.set()


def applies(request: CompileRequest, keepalives: list) -> bool:
    """Return True if a program can have two tiers: on CPUs, without objects that its executable must keep alive."""
    return request.key is not None and request.client.platform == "cpu" and not request.host_callbacks and not keepalives


def compile_in_tiers(name: str, request: CompileRequest, cache: Any = None) -> CompiledModule:
    """Return the optimized program if the disk cache has it; else compile it quickly, and in a thread with optimizations."""
    if (found := load_module(request, cache)) is not None:
        return found
    options = CompileOptions.ParseFromString(request.options.SerializeAsString())
    flags = dict(options.env_option_overrides) | _QUICK_FLAGS
    options.env_option_overrides = list(flags.items())
    quick = compile_module(request._replace(options=options, key=None), cache)
    upgrade = Upgrade(name, request._replace(is_interruptible=False), cache)
    _compiler.add(upgrade)
    return quick._replace(upgrade=upgrade)


class _Compiler:
    """The thread that compiles second tiers, in the order of their programs."""

    def __init__(self) -> None:
        self.waiting: queue.SimpleQueue[weakref.ref[Upgrade] | None] = queue.SimpleQueue()
        self.lock = threading.Lock()
        self.thread: threading.Thread | None = None

    def add(self, upgrade: Upgrade) -> None:
        with self.lock:
            if self.thread is None:
                self.thread = threading.Thread(target=self.run, name="xlafront compiler of second tiers", daemon=True)
                self.thread.start()
                atexit.register(self.end)
        self.waiting.put(weakref.ref(upgrade))

    def run(self) -> None:
        while (waiting := self.waiting.get()) is not None:
            if (upgrade := waiting()) is not None:  # its program is still in use
                upgrade.compile()
            del upgrade

    def end(self) -> None:
        """Wait for the compilation in progress, since the runtime must not end before it; drop the waiting ones."""
        try:
            while True:
                self.waiting.get_nowait()
        except queue.Empty:
            self.waiting.put(None)
        assert self.thread is not None
        self.thread.join()


_compiler = _Compiler()
