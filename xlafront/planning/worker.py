"""Processes that compile programs for a search, so that several are compiled at once and none can end the search.

`Workers` starts them. Each reads jobs from its standard input and writes results to its standard output, as pickles. A
program is compiled in one of two ways: for the topology, by its own compiler, or only partitioned, by the CPU's compiler for
as many simulated devices: that takes a twentieth of the time, and has the same collectives but for what a compiler adds later.
"""

from __future__ import annotations

import os
import pathlib
import pickle
import queue
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from xlafront.base.jaxlib_compat import CompileOptions, JaxRuntimeError, _jax
from xlafront.lowering import mlir
from xlafront.planning.topologies import TopologyDescription
from xlafront.runtime import backends, clients, disk_cache
from xlafront.runtime.sharding import device_list

_LENGTH = struct.Struct("<Q")


class Job(NamedTuple):
    """A program to compile. `topology` is serialized, `options` are serialized compile options."""

    module: bytes
    options: bytes
    topology: bytes
    device_count: int
    partition_only: bool


class Compiled(NamedTuple):
    """A compiled program: the text of its optimized HLO, and the sizes of its buffers on a device."""

    text: str  # empty if this jaxlib cannot read the program
    collectives_text: str  # of the HLO before the CPU's compiler widens collectives of small dtypes; empty for other compilers
    memory: tuple[int, int, int, int, int]  # arguments, outputs, donated arguments, temporaries, code
    seconds: float  # of compiling
    cached: bool


class Failed(NamedTuple):
    """Why a program was not compiled."""

    message: str


class Workers:
    """Processes that compile jobs one after another; each takes the next one when it is done."""

    def __init__(self, count: int, device_count: int):
        self._device_count = device_count
        self._jobs: queue.SimpleQueue[tuple[Job, Callable] | None] = queue.SimpleQueue()
        self._processes: set[subprocess.Popen] = set()
        self._closed = False
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def submit(self, job: Job, done: Callable[[Compiled | Failed], None]) -> None:
        """Compile a job, and call `done` with the result, in another thread."""
        self._jobs.put((job, done))

    def close(self) -> None:
        """End all processes, with the jobs that they are at."""
        self._closed = True
        for _ in self._threads:
            self._jobs.put(None)
        processes = list(self._processes)
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()

    def _serve(self) -> None:
        process: subprocess.Popen | None = None
        while (item := self._jobs.get()) is not None and not self._closed:
            job, done = item
            if process is None:
                process = self._start()
            try:
                _write(process.stdin, job)
                result: Any = _read(process.stdout)
            except (EOFError, OSError):
                status = process.wait()
                self._processes.discard(process)
                process, result = None, Failed(_end_of_process(status))
            if not self._closed:
                done(result)
        if process is not None:
            process.kill()
            process.wait()

    def _start(self) -> subprocess.Popen:
        flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={self._device_count}"
        environment = os.environ | {"XLA_FLAGS": flags.strip(), "XLAFRONT_COMPILE_PROGRESS": "0", "JAX_PLATFORMS": "cpu",
                                    "TF_CPP_MIN_LOG_LEVEL": "3"}
        process = subprocess.Popen([sys.executable, "-c", f"from {__name__} import main; main()"], env=environment,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self._processes.add(process)
        if self._closed:
            process.kill()
        return process


def _end_of_process(status: int) -> str:
    if status == -9:
        return "the process of the compiler was killed: probably the memory of this machine did not suffice"
    return f"the compiler ended its process with signal {-status}" if status < 0 else f"its process ended with status {status}"


def _write(stream: Any, value: Any) -> None:
    data = pickle.dumps(value)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def _read(stream: Any) -> Any:
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    size, = _LENGTH.unpack(head)
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return pickle.loads(data)


# In the process


def compile_job(job: Job) -> Compiled | Failed:
    """Compile a job in this process, or load what it gave before from the compilation cache."""
    options = CompileOptions.ParseFromString(job.options)
    if job.partition_only:
        devices = backends.devices("cpu")[:job.device_count]
        _partition_only(options, job.device_count)
    else:
        devices = TopologyDescription.deserialize(job.topology).devices
    client = devices[0].client
    cache, key = backends.disk_cache(), disk_cache.cache_key(b"plan" + job.module, options.SerializeAsString(), client, devices)
    if cache is not None and (found := cache.load(key)) is not None:
        text, collectives_text, memory = pickle.loads(zlib.decompress(found[0]))
        return Compiled(text, collectives_text, memory, found[1], True)
    started = time.perf_counter()
    with mlir.context, tempfile.TemporaryDirectory() as folder:
        module = mlir.ir.Module.parse(job.module)
        if job.partition_only:
            options.env_option_overrides += [("xla_dump_to", folder), ("xla_dump_hlo_pass_re", _WIDENING),
                                             ("xla_dump_hlo_as_text", True)]
        try:
            compiler = client.compile if clients.is_compile_only(client) else client.compile_and_load
            executable = compiler(module, device_list(tuple(devices)), options)
        except JaxRuntimeError as e:
            return Failed(str(e))
        taken = time.perf_counter() - started
        try:
            text = executable.hlo_modules()[0].to_string()
        except JaxRuntimeError:  # a compiler that is newer than jaxlib
            text = ""
        before_widening = sorted(pathlib.Path(folder).glob(f"*.before_{_WIDENING}*.txt"))
        collectives_text = before_widening[-1].read_text() if before_widening else ""
    stats = executable.get_compiled_memory_stats()
    memory = (stats.argument_size_in_bytes, stats.output_size_in_bytes, stats.alias_size_in_bytes, stats.temp_size_in_bytes,
              stats.generated_code_size_in_bytes)
    if cache is not None:
        cache.store(key, zlib.compress(pickle.dumps((text, collectives_text, memory))), taken)
    return Compiled(text, collectives_text, memory, taken, False)


_WIDENING = "all-reduce-promotion"  # the first pass of the CPU's compiler that changes the dtypes of collectives


def _partition_only(options: Any, count: int) -> None:
    """Change options to those of the CPU's compiler with the least effort for machine code, which nothing runs."""
    options.device_assignment = _jax.DeviceAssignment.create(np.arange(count).reshape(1, count))
    options.env_option_overrides = [("xla_backend_optimization_level", 0), ("xla_llvm_disable_expensive_passes", True)]


def main() -> None:
    """Compile jobs until the input ends."""
    out, given = os.fdopen(os.dup(1), "wb"), sys.stdin.buffer
    os.dup2(2, 1)  # what a compiler prints must not come between the results
    while True:
        try:
            job = _read(given)
        except EOFError:
            return
        try:
            result: Compiled | Failed = compile_job(job)
        except Exception as e:
            result = Failed(f"{type(e).__name__}: {e}")
        _write(out, result)

