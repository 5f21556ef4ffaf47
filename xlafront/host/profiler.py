"""Recordings of what a program does when, on the host and on devices, for XProf, TensorBoard and Perfetto; and which memory of
devices is used by what, for pprof."""

from __future__ import annotations

import contextlib
import functools
import gzip
import json
import os
import pathlib
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from xlafront.core import backends
from xlafront.runtime import profiling
from xlafront.runtime.jaxlib_compat import JaxRuntimeError
from xlafront.runtime.profiling import ProfileData, ProfileEvent, ProfilePlane, TraceMe

__all__ = ["ProfileData", "ProfileEvent", "ProfileOptions", "ProfilePlane", "StepTraceAnnotation", "TraceAnnotation",
           "annotate_function", "device_memory_profile", "get_profiled_instructions_proto", "register_subprocess",
           "save_device_memory_profile", "start_server", "start_trace", "stop_server", "stop_trace", "trace"]

PERFETTO_PORT = 9001  # the one of this machine that Perfetto's page may read from
_lock = threading.Lock()


class ProfileOptions(profiling.ProfileOptions):
    """What a recording contains, set by attributes.

    `host_tracer_level` (0 to 3) and `python_tracer_level` (0, 1) say in how much detail the host is recorded, `session_id`
    what the folder of the recording is called, `advanced_configuration` what plugins are told of their devices.

    >>> options = ProfileOptions()
    >>> options.python_tracer_level = 0
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not hasattr(type(self), name):
            warnings.warn(f"ProfileOptions.{name} has no effect: the profiler has no such option.", stacklevel=2)
        super().__setattr__(name, value)


class _Recording:
    """A recording under way, and what it has found when it could not be written."""

    events: bytes | None = None

    def __init__(self, session: profiling.ProfilerSession, log_dir: str, perfetto_link: bool, perfetto_trace: bool,
                 named: bool):
        self.session, self.log_dir = session, log_dir
        self.perfetto_link, self.perfetto_trace = perfetto_link, perfetto_trace
        self.named = named  # whether its folder has a name that was asked for, which only the session knows

    def write(self) -> None:
        if self.named:
            return self.session.stop_and_export(self.log_dir)
        if self.events is None:
            self.events = self.session.stop()
        self.session.export(self.events, self.log_dir)


_recording: _Recording | None = None
_server: profiling.ProfilerServer | None = None


def start_trace(log_dir: os.PathLike | str, create_perfetto_link: bool = False, create_perfetto_trace: bool = False,
                profiler_options: ProfileOptions | None = None) -> None:
    """Start to record what happens in this process, until `stop_trace`.

    - `log_dir`: the directory under which the recording is written, that TensorBoard and XProf are pointed to.
    - `create_perfetto_link`: when it ends, print a link that shows it in Perfetto, and wait until somebody has opened it.
    - `create_perfetto_trace`: write a file for Perfetto, too.
    - `profiler_options`: what is recorded, and in how much detail.

    One process makes one recording at a time.

    >>> import tempfile
    >>> directory = tempfile.mkdtemp()
    >>> start_trace(directory)
    >>> y = xnp.ones(3) + 1
    >>> stop_trace()
    """
    global _recording
    if profiler_options is not None and not isinstance(profiler_options, profiling.ProfileOptions):
        raise TypeError(f"profiler_options must be ProfileOptions, got {type(profiler_options).__name__}: {profiler_options!r}")
    directory = os.fspath(log_dir)
    with _lock:
        if _recording is not None:
            raise RuntimeError(f"a profile has already been started, into {_recording.log_dir!r}: call stop_trace() before the "
                               f"next start_trace().")
        _make_writable(directory)
        _start_client()
        session = profiling.ProfilerSession(profiler_options) if profiler_options is not None else profiling.ProfilerSession()
        _recording = _Recording(session, directory, create_perfetto_link, create_perfetto_trace,
                                named=bool(getattr(profiler_options, "session_id", "")))


def stop_trace() -> None:
    """End the recording that `start_trace` started, and write it.

    If it cannot be written, it is kept: `stop_trace` may be called again. (One whose options have a `session_id` is lost.)

    >>> import pathlib, tempfile
    >>> directory = tempfile.mkdtemp()
    >>> start_trace(directory)
    >>> y = xnp.ones(3) + 1
    >>> stop_trace()
    >>> len(list(pathlib.Path(directory).glob("plugins/profile/*/*.xplane.pb")))
    1
    """
    global _recording
    with _lock:
        if _recording is None:
            raise RuntimeError("No profile started: call start_trace() before stop_trace().")
        done = _recording
        done.write()
        _recording = None
    if done.perfetto_link or done.perfetto_trace:
        path = _write_perfetto(done.log_dir)
        if done.perfetto_link:
            _offer(path)


@contextlib.contextmanager
def trace(log_dir: os.PathLike | str, create_perfetto_link: bool = False, create_perfetto_trace: bool = False,
          profiler_options: ProfileOptions | None = None) -> Iterator[None]:
    """Record what happens inside of a `with` block, or in a function that this decorates.

    - `log_dir`: the directory under which the recording is written, that TensorBoard and XProf are pointed to.
    - `create_perfetto_link`: at the end, print a link that shows it in Perfetto, and wait until somebody has opened it.
    - `create_perfetto_trace`: write a file for Perfetto, too.
    - `profiler_options`: what is recorded, and in how much detail.

    Calls of compiled functions return before devices are done: wait for results (`block_until_ready`) inside.

    >>> import pathlib, tempfile
    >>> directory = tempfile.mkdtemp()
    >>> with trace(directory):
    ...     y = (xnp.ones(3) + 1).block_until_ready()
    >>> [path] = pathlib.Path(directory).glob("plugins/profile/*/*.xplane.pb")
    >>> "/host:CPU" in [plane.name for plane in xf.profiler.ProfileData.from_file(str(path)).planes]
    True
    """
    start_trace(log_dir, create_perfetto_link, create_perfetto_trace, profiler_options)
    try:
        yield
    finally:
        stop_trace()


def _make_writable(directory: str) -> None:
    """Refuse a directory that nothing can be written to before something is recorded in vain."""
    if "://" in directory:  # of a store that jaxlib writes to
        return
    try:
        os.makedirs(directory, exist_ok=True)
        if not os.access(directory, os.W_OK | os.X_OK):
            raise PermissionError("this process may not write there")
    except OSError as e:
        raise JaxRuntimeError(f"a trace cannot be written to {directory!r}: {e}. Nothing is recorded; give start_trace a "
                              f"directory that can be written to.") from None


def _start_client() -> None:
    """Devices are recorded only when their client was started before."""
    client = backends.client()
    profiling.describe_process(client.platform, client.platform_version)


def _write_perfetto(log_dir: str) -> pathlib.Path:
    """The newest recording under a directory as a file for Perfetto, beside it."""
    files = sorted(pathlib.Path(log_dir).glob("plugins/profile/*/*.trace.json.gz"), key=lambda path: path.stat().st_mtime_ns)
    if not files:
        raise FileNotFoundError(f"there is no recording under {log_dir!r} to make a file for Perfetto of: Perfetto's need a "
                                f"directory of this machine.")
    with gzip.open(files[-1], "rb") as file:
        recorded = json.load(file)
    recorded.pop("metadata", None)  # Perfetto refuses what is not of its own kind
    path = files[-1].with_name("perfetto_trace.json.gz")
    with gzip.open(path, "wt", encoding="utf-8") as text:
        json.dump(recorded, text)
    return path


def _offer(path: pathlib.Path) -> None:
    """Print a link to Perfetto that reads a file from this process, and wait until it was read."""
    import http.server  # start-up: 20 ms, for those who ask for a link

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != f"/{path.name}":
                return self.send_error(404)
            content = path.read_bytes()
            self.send_response(200)
            self.send_header("Access-Control-Allow-Origin", "*")
            self.send_header("Content-Type", "application/gzip")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            server.read = True

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: the link is all that is printed."""

    class Server(http.server.HTTPServer):
        allow_reuse_address = True
        read = False

    with Server(("127.0.0.1", PERFETTO_PORT), Handler) as server:
        print(f"Open URL in browser: https://ui.perfetto.dev/#!/?url=http://127.0.0.1:{PERFETTO_PORT}/{path.name}", flush=True)
        while not server.read:
            server.handle_request()


class TraceAnnotation(TraceMe):
    """Inside of `with TraceAnnotation(name):`, what is recorded of this thread stands under a name.

    - `name`: the name; keywords beside it are written down with it.

    >>> with TraceAnnotation("load", rows=3):
    ...     x = xnp.arange(3)
    """


class StepTraceAnnotation(TraceAnnotation):
    """A `TraceAnnotation` for one step of a training loop, which XProf's analysis of steps looks for.

    - `name`: the name of all steps.
    - `kwargs`: what is written down; `step_num`, the number of the step, among it.

    >>> for step in range(2):
    ...     with StepTraceAnnotation("train", step_num=step):
    ...         x = xnp.arange(3)
    """

    def __init__(self, name: str, **kwargs: Any):
        super().__init__(name, _r=1, **kwargs)


def annotate_function(func: Callable, name: str | None = None, **decorator_kwargs: Any) -> Callable:
    """A function whose calls are recorded under its name.

    - `func`: the function.
    - `name`: another name.
    - `decorator_kwargs`: what is written down with each call.

    >>> @annotate_function
    ... def load(n):
    ...     return xnp.arange(n)
    >>> load(3).tolist()
    [0, 1, 2]
    """
    if not callable(func):
        raise TypeError(f"annotate_function takes a function, got {type(func).__name__}: {func!r}. Give the annotation a name "
                        f"with annotate_function(func, name=...).")
    label = name or getattr(func, "__name__", None) or type(func).__name__

    @functools.wraps(func)
    def annotated(*args: Any, **kwargs: Any) -> Any:
        with TraceAnnotation(label, **decorator_kwargs):
            return func(*args, **kwargs)

    return annotated


def start_server(port: int, requires_backend: bool = True) -> profiling.ProfilerServer:
    """Let XProf and TensorBoard record this process when they ask for it.

    - `port`: the port at which they ask.
    - `requires_backend`: start the client of the devices first, without which they are not recorded.

    >>> server = start_server(9012)
    >>> stop_server()
    """
    global _server
    if not isinstance(port, int) or isinstance(port, bool):
        raise TypeError(f"start_server takes the number of a port, got {type(port).__name__}: {port!r}")
    with _lock:
        if _server is not None:
            raise ValueError("a profiler server is active already: call stop_server() before the next start_server().")
        if requires_backend:
            _start_client()
        _server = profiling.start_server(port)
        return _server


def stop_server() -> None:
    """Stop the server that `start_server` started.

    >>> server = start_server(9013)
    >>> stop_server()
    """
    global _server
    with _lock:
        if _server is None:
            raise ValueError("No active profiler server: call start_server() before stop_server().")
        _server = None  # jaxlib's server ends with its object


def register_subprocess(pid: int, port: int) -> Callable[[], None]:
    """Record another process of this machine with this one, which must have a profiler server (`start_server`).

    - `pid`: the number of the process.
    - `port`: the port of its server.

    What it returns ends that.

    >>> # in a program whose worker has called start_server(9014):
    >>> # end = register_subprocess(worker.pid, 9014)
    """
    return profiling.register_subprocess(pid, port)


def get_profiled_instructions_proto(tensorboard_dir: str) -> bytes:
    """What a recording says of how long single instructions took, as a serialized `ProfiledInstructionsProto` of XLA.

    It is empty but for recordings of NVIDIA GPUs.

    - `tensorboard_dir`: the directory of one recording, `<log_dir>/plugins/profile/<time>/`.

    >>> import pathlib, tempfile
    >>> directory = tempfile.mkdtemp()
    >>> with xf.profiler.trace(directory):
    ...     y = xnp.ones(3) + 1
    >>> [recording] = pathlib.Path(directory).glob("plugins/profile/*")
    >>> get_profiled_instructions_proto(str(recording))
    b''
    """
    return profiling.get_profiled_instructions_proto(tensorboard_dir)


def device_memory_profile(backend: str | None = None) -> bytes:
    """Which arrays and programs take how much memory of devices, and where they were made: a compressed profile for pprof.

    - `backend`: the platform; the default one when left out.

    >>> x = xnp.ones(1000)
    >>> device_memory_profile()[:2]
    b'\\x1f\\x8b'
    """
    return gzip.compress(backends.client(backend).heap_profile())


def save_device_memory_profile(filename: os.PathLike | str, backend: str | None = None) -> None:
    """Write what `device_memory_profile` says to a file, to be read by `pprof`.

    - `filename`: the file.
    - `backend`: the platform; the default one when left out.

    >>> import tempfile
    >>> save_device_memory_profile(tempfile.mkdtemp() + "/memory.prof")
    """
    profile = device_memory_profile(backend)
    with open(filename, "wb") as file:
        file.write(profile)
