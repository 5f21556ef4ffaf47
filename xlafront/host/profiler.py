"""Profiling: traces of host and device activity for XProf, TensorBoard and Perfetto, and profiles of device memory."""

from __future__ import annotations

import contextlib
import functools
import gzip
import json
import os
import pathlib
import shutil
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from xlafront.base.jaxlib_compat import JaxRuntimeError
from xlafront.runtime import backends, profiling
from xlafront.runtime.profiling import ProfileEvent, ProfileLine, ProfilePlane, TraceMe

__all__ = ["ProfileData", "ProfileEvent", "ProfileLine", "ProfileOptions", "ProfilePlane", "ProfileSession",
           "StepTraceAnnotation", "TraceAnnotation", "annotate_function", "device_memory_profile", "export_profile_data",
           "get_profiled_instructions_proto", "register_subprocess",
           "save_device_memory_profile", "start_server", "start_trace", "stop_server", "stop_trace", "trace"]

PERFETTO_PORT = 9001  # the only local port that Perfetto's page may read from
_lock = threading.Lock()


class ProfileOptions(profiling.ProfileOptions):
    """Options of a trace, set as attributes.

    `host_tracer_level` (0 to 3) and `python_tracer_level` (0, 1) set how much detail is recorded of the host, `session_id` the
    name of the folder of the trace, `advanced_configuration` options of device plugins.

    Example:
        >>> options = ProfileOptions()
        >>> options.python_tracer_level = 0
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not hasattr(type(self), name):
            warnings.warn(f"ProfileOptions.{name} has no effect: the profiler has no such option.", stacklevel=2)
        super().__setattr__(name, value)


class ProfileData(profiling.ProfileData):
    """A recorded trace: planes (host, devices) of lines (threads, streams) of events.

    Args:
        serialized_xspace: The trace, as a serialized `XSpace` of XProf.

    Example:
        >>> with trace() as session:
        ...     y = (xnp.ones(3) + 1).block_until_ready()
        >>> "/host:CPU" in [plane.name for plane in session.profile_data.planes]
        True
    """

    def __init__(self, serialized_xspace: bytes):
        super().__init__(serialized_xspace)
        self.serialized = serialized_xspace

    @classmethod
    def from_serialized_xspace(cls, serialized_xspace: bytes) -> ProfileData:
        """Read a trace from a serialized `XSpace`.

        Args:
            serialized_xspace: The bytes.

        Returns:
            The trace.

        Example:
            >>> list(ProfileData.from_serialized_xspace(b"").planes)
            []
        """
        return cls(serialized_xspace)

    @classmethod
    def from_text_proto(cls, text_proto: str) -> ProfileData:
        """Read a trace from the text of an `XSpace`.

        Args:
            text_proto: The text.

        Returns:
            The trace.

        Example:
            >>> [plane.name for plane in ProfileData.from_text_proto('planes { name: "host" }').planes]
            ['host']
        """
        return cls(cls.text_proto_to_serialized_xspace(text_proto))

    @classmethod
    def from_file(cls, proto_file_path: str) -> ProfileData:
        """Read a trace from a file `*.xplane.pb`.

        Args:
            proto_file_path: Path of the file.

        Returns:
            The trace.

        Example:
            >>> import pathlib, tempfile
            >>> directory = tempfile.mkdtemp()
            >>> with trace(directory):
            ...     y = xnp.ones(3) + 1
            >>> [path] = pathlib.Path(directory).glob("plugins/profile/*/*.xplane.pb")
            >>> ProfileData.from_file(str(path)).find_plane_with_name("/host:CPU").name
            '/host:CPU'
        """
        return cls(pathlib.Path(proto_file_path).read_bytes())


class ProfileSession:
    """The recording of one trace after another, by `start` and `stop` or as a context manager.

    `profile_data` is the trace once it is recorded, None before. A process can record one trace at a time.

    Args:
        log_dir: Directory under which traces are written when they end. Default: they stay in memory.
        create_perfetto_link: If True, `stop` prints a link that shows the trace in Perfetto and waits until it is opened.
        create_perfetto_trace: If True, also write a file for Perfetto.
        profiler_options: What is recorded, and in how much detail.

    Example:
        >>> session = ProfileSession()
        >>> with session:
        ...     y = (xnp.ones(3) + 1).block_until_ready()
        >>> session.is_running, type(session.profile_data).__name__
        (False, 'ProfileData')
    """

    def __init__(self, log_dir: os.PathLike | str | None = None, create_perfetto_link: bool = False,
                 create_perfetto_trace: bool = False, profiler_options: ProfileOptions | None = None):
        self.log_dir = None if log_dir is None else os.fspath(log_dir)
        if profiler_options is not None and not isinstance(profiler_options, profiling.ProfileOptions):
            raise TypeError(f"profiler_options must be ProfileOptions, got {type(profiler_options).__name__}: "
                            f"{profiler_options!r}")
        self.perfetto = create_perfetto_link, create_perfetto_trace
        self.options = profiler_options
        self.profile_data: ProfileData | None = None
        self._recorded: ProfileData | None = None  # the trace, until it is written
        self._session: Any = None

    @property
    def is_running(self) -> bool:
        """True from `start` to `stop`.

        Example:
            >>> ProfileSession().is_running
            False
        """
        return _running is self

    def start(self) -> ProfileSession:
        """Start to record.

        Returns:
            The session.

        Example:
            >>> session = ProfileSession().start()
            >>> data = session.stop()
        """
        global _running
        with _lock:
            if _running is not None:
                raise RuntimeError(f"a profile has already been started{_running._destination()}: call stop_trace() before "
                                   f"the next start_trace(), and stop() before the next start().")
            if self.log_dir is not None:
                _make_writable(self.log_dir)
            _start_client()
            self._session = profiling.ProfilerSession(*([] if self.options is None else [self.options]))
            self.profile_data = self._recorded = None
            _running = self
        return self

    def stop(self) -> ProfileData | None:
        """Stop recording, and write the trace if the session has a directory.

        If writing fails, the trace is not lost: call `stop` again.

        Returns:
            The trace. None for one that was written to remote storage, in a folder of a given name.

        Example:
            >>> session = ProfileSession().start()
            >>> session.stop() is session.profile_data
            True
        """
        global _running
        with _lock:
            if _running is not self:
                raise RuntimeError("No profile started: call start() before stop(), start_trace() before stop_trace().")
            name = getattr(self.options, "session_id", "") or None
            if name and self.log_dir is not None and "://" in self.log_dir:
                self._session.stop_and_export(self.log_dir)  # only the profiler itself can name a remote folder
            else:
                if self._recorded is None:
                    self._recorded = ProfileData(self._session.stop())
                if self.log_dir is not None:
                    _write(self._recorded, self.log_dir, name)
            self.profile_data, self._recorded, self._session, _running = self._recorded, None, None, None
        if self.log_dir is not None:
            _show_in_perfetto(self.log_dir, *self.perfetto)
        return self.profile_data

    def export_profile_data(self, log_dir: os.PathLike | str, create_perfetto_link: bool = False,
                            create_perfetto_trace: bool = False, session_id: str | None = None) -> None:
        """Write the recorded trace.

        Args:
            log_dir: Directory under which the trace is written, for TensorBoard and XProf.
            create_perfetto_link: If True, print a link that shows the trace in Perfetto and wait until it is opened.
            create_perfetto_trace: If True, also write a file for Perfetto.
            session_id: Name of the folder of the trace. Default: the time.

        Example:
            >>> import os, tempfile
            >>> directory = tempfile.mkdtemp()
            >>> with ProfileSession() as session:
            ...     y = xnp.ones(3) + 1
            >>> session.export_profile_data(directory, session_id="first")
            >>> os.listdir(directory + "/plugins/profile")
            ['first']
        """
        if self.is_running:
            raise RuntimeError("a ProfileSession cannot be exported while it is running: call stop() first.")
        if self.profile_data is None:
            raise RuntimeError("No profile data to export: the session has recorded no trace. Call start() and stop() first.")
        directory = os.fspath(log_dir)
        _make_writable(directory)
        _write(self.profile_data, directory, session_id)
        _show_in_perfetto(directory, create_perfetto_link, create_perfetto_trace)

    def _destination(self) -> str:
        return "" if self.log_dir is None else f", into {self.log_dir!r}"

    def __enter__(self) -> ProfileSession:
        return self.start()

    def __exit__(self, *exception: Any) -> None:
        self.stop()


_running: ProfileSession | None = None
_server: profiling.ProfilerServer | None = None


def start_trace(log_dir: os.PathLike | str | None, create_perfetto_link: bool = False, create_perfetto_trace: bool = False,
                profiler_options: ProfileOptions | None = None) -> ProfileSession:
    """Start to trace this process; `stop_trace` ends it.

    A process can record one trace at a time.

    Args:
        log_dir: Directory under which the trace is written, for TensorBoard and XProf; None to keep it in memory.
        create_perfetto_link: If True, `stop_trace` prints a link that shows the trace in Perfetto and waits until it is opened.
        create_perfetto_trace: If True, also write a file for Perfetto.
        profiler_options: What is recorded, and in how much detail.

    Returns:
        The session, whose `profile_data` is the trace once it is recorded.

    Example:
        >>> import tempfile
        >>> session = start_trace(tempfile.mkdtemp())
        >>> y = xnp.ones(3) + 1
        >>> stop_trace() is session.profile_data
        True
    """
    return ProfileSession(log_dir, create_perfetto_link, create_perfetto_trace, profiler_options).start()


def stop_trace() -> ProfileData | None:
    """End the trace that `start_trace` started, and write it.

    If writing fails, the trace is not lost: call `stop_trace` again. (A trace whose options have a `session_id` is lost, if it
    is written to remote storage.)

    Returns:
        The trace.

    Example:
        >>> import pathlib, tempfile
        >>> directory = tempfile.mkdtemp()
        >>> session = start_trace(directory)
        >>> y = xnp.ones(3) + 1
        >>> data = stop_trace()
        >>> len(list(pathlib.Path(directory).glob("plugins/profile/*/*.xplane.pb")))
        1
    """
    if _running is None:
        raise RuntimeError("No profile started: call start_trace() before stop_trace().")
    return _running.stop()


@contextlib.contextmanager
def trace(log_dir: os.PathLike | str | None = None, create_perfetto_link: bool = False, create_perfetto_trace: bool = False,
          profiler_options: ProfileOptions | None = None) -> Iterator[ProfileSession]:
    """Trace what runs inside a `with` block, or in a decorated function.

    Calls of compiled functions return before the devices are done: wait for results (`block_until_ready`) inside the block.

    Args:
        log_dir: Directory under which the trace is written, for TensorBoard and XProf. Default: the trace stays in memory.
        create_perfetto_link: If True, print a link at the end that shows the trace in Perfetto, and wait until it is opened.
        create_perfetto_trace: If True, also write a file for Perfetto.
        profiler_options: What is recorded, and in how much detail.

    Returns:
        A context manager that gives the session, whose `profile_data` is the trace after the block.

    Example:
        >>> with trace() as session:
        ...     y = (xnp.ones(3) + 1).block_until_ready()
        >>> "/host:CPU" in [plane.name for plane in session.profile_data.planes]
        True
    """
    session = start_trace(log_dir, create_perfetto_link, create_perfetto_trace, profiler_options)
    try:
        yield session
    finally:
        if session.is_running:
            session.stop()


def export_profile_data(profile_data: ProfileData | ProfileSession, log_dir: os.PathLike | str,
                        create_perfetto_link: bool = False, create_perfetto_trace: bool = False,
                        session_id: str | None = None) -> None:
    """Write a recorded trace.

    Args:
        profile_data: The trace, or the session that has recorded it.
        log_dir: Directory under which the trace is written, for TensorBoard and XProf.
        create_perfetto_link: If True, print a link that shows the trace in Perfetto and wait until it is opened.
        create_perfetto_trace: If True, also write a file for Perfetto.
        session_id: Name of the folder of the trace. Default: the time.

    Example:
        >>> import os, tempfile
        >>> directory = tempfile.mkdtemp()
        >>> with trace() as session:
        ...     y = xnp.ones(3) + 1
        >>> export_profile_data(session.profile_data, directory, session_id="first")
        >>> os.listdir(directory + "/plugins/profile")
        ['first']
    """
    if isinstance(profile_data, ProfileData):
        data, profile_data = profile_data, ProfileSession()
        profile_data.profile_data = data
    if not isinstance(profile_data, ProfileSession):
        raise TypeError(f"export_profile_data takes a ProfileData or ProfileSession, got {type(profile_data).__name__}.")
    profile_data.export_profile_data(log_dir, create_perfetto_link, create_perfetto_trace, session_id)


def _write(data: ProfileData, directory: str, name: str | None) -> None:
    """Write a trace under a directory, in a folder of a given name or named for the time."""
    if name is None:
        return profiling.export(data.serialized, directory)
    with tempfile.TemporaryDirectory() as scratch:
        profiling.export(data.serialized, scratch)
        [folder] = pathlib.Path(scratch).glob("plugins/profile/*")
        shutil.copytree(folder, pathlib.Path(directory, "plugins", "profile", name), dirs_exist_ok=True)


def _show_in_perfetto(log_dir: str, link: bool, file: bool) -> None:
    if link or file:
        path = _write_perfetto(log_dir)
        if link:
            _serve_for_perfetto(path)


def _make_writable(directory: str) -> None:
    """Create the directory; raise an error if it is not writable, before anything is recorded in vain."""
    if "://" in directory:  # remote storage, which jaxlib writes to
        return
    try:
        os.makedirs(directory, exist_ok=True)
        if not os.access(directory, os.W_OK | os.X_OK):
            raise PermissionError("this process may not write there")
    except OSError as e:
        raise JaxRuntimeError(f"a trace cannot be written to {directory!r}: {e}. Nothing is recorded; give start_trace a "
                              f"directory that can be written to.") from None


def _start_client() -> None:
    """Start the client of the devices, as only devices of a running client are recorded."""
    client = backends.client()
    profiling.describe_process(client.platform, client.platform_version)


def _write_perfetto(log_dir: str) -> pathlib.Path:
    """Write the newest trace under a directory as a file for Perfetto, beside it."""
    files = sorted(pathlib.Path(log_dir).glob("plugins/profile/*/*.trace.json.gz"), key=lambda path: path.stat().st_mtime_ns)
    if not files:
        raise FileNotFoundError(f"there is no trace under {log_dir!r} to convert for Perfetto: traces for Perfetto need a "
                                f"local directory.")
    with gzip.open(files[-1], "rb") as file:
        recorded = json.load(file)
    recorded.pop("metadata", None)  # Perfetto rejects metadata of other tools
    path = files[-1].with_name("perfetto_trace.json.gz")
    with gzip.open(path, "wt", encoding="utf-8") as text:
        json.dump(recorded, text)
    return path


def _serve_for_perfetto(path: pathlib.Path) -> None:
    """Print a link that opens a file of this process in Perfetto, and serve the file until it was read."""
    import http.server  # start-up: 20 ms, needed for links only

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
            """Log nothing, so that the link is the only output."""

    class Server(http.server.HTTPServer):
        allow_reuse_address = True
        read = False

    with Server(("127.0.0.1", PERFETTO_PORT), Handler) as server:
        print(f"Open URL in browser: https://ui.perfetto.dev/#!/?url=http://127.0.0.1:{PERFETTO_PORT}/{path.name}", flush=True)
        while not server.read:
            server.handle_request()


class TraceAnnotation(TraceMe):
    """A context manager that puts a name on what the trace records of this thread inside its `with` block.

    Args:
        name: Name in the trace.
        kwargs: Metadata that is recorded with the name.

    Example:
        >>> with TraceAnnotation("load", rows=3):
        ...     x = xnp.arange(3)
    """


class StepTraceAnnotation(TraceAnnotation):
    """A `TraceAnnotation` for one step of a training loop, which XProf's step analysis looks for.

    Args:
        name: Name of all steps.
        kwargs: Metadata that is recorded, such as `step_num`, the number of the step.

    Example:
        >>> for step in range(2):
        ...     with StepTraceAnnotation("train", step_num=step):
        ...         x = xnp.arange(3)
    """

    def __init__(self, name: str, **kwargs: Any):
        super().__init__(name, _r=1, **kwargs)


def annotate_function(func: Callable, name: str | None = None, **decorator_kwargs: Any) -> Callable:
    """Return a function whose calls are annotated with its name in traces.

    Args:
        func: Function to annotate.
        name: Name in the trace. Default: the name of the function.
        decorator_kwargs: Metadata that is recorded with each call.

    Returns:
        The annotated function.

    Example:
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
    """Start a profiler server, with which XProf and TensorBoard can trace this process on demand.

    Args:
        port: Port on which the server listens.
        requires_backend: If True, start the client of the devices first; without it they are not recorded.

    Returns:
        The server.

    Example:
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

    Example:
        >>> server = start_server(9013)
        >>> stop_server()
    """
    global _server
    with _lock:
        if _server is None:
            raise ValueError("No active profiler server: call start_server() before stop_server().")
        _server = None  # jaxlib's server ends with its object


def register_subprocess(pid: int, port: int) -> Callable[[], None]:
    """Trace another process of this machine together with this one. The process must run a profiler server (`start_server`).

    Args:
        pid: Process id.
        port: Port of its server.

    Returns:
        A function that ends the registration.

    Example:
        >>> # in a program whose worker has called start_server(9014):
        >>> # end = register_subprocess(worker.pid, 9014)
    """
    return profiling.register_subprocess(pid, port)


def get_profiled_instructions_proto(tensorboard_dir: str) -> bytes:
    """Return the measured costs of single instructions of a trace.

    They are empty except for traces of NVIDIA GPUs.

    Args:
        tensorboard_dir: Directory of one trace, `<log_dir>/plugins/profile/<time>/`.

    Returns:
        A serialized `ProfiledInstructionsProto` of XLA.

    Example:
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
    """Return a profile of device memory: which arrays and executables use how much, and where they were created.

    Args:
        backend: Platform. Default: the default platform.

    Returns:
        A gzip-compressed profile for pprof.

    Example:
        >>> x = xnp.ones(1000)
        >>> device_memory_profile()[:2]
        b'\\x1f\\x8b'
    """
    return gzip.compress(backends.client(backend).heap_profile())


def save_device_memory_profile(filename: os.PathLike | str, backend: str | None = None) -> None:
    """Write the profile of `device_memory_profile` to a file for `pprof`.

    Args:
        filename: Path of the file.
        backend: Platform. Default: the default platform.

    Example:
        >>> import tempfile
        >>> save_device_memory_profile(tempfile.mkdtemp() + "/memory.prof")
    """
    profile = device_memory_profile(backend)
    with open(filename, "wb") as file:
        file.write(profile)
