"""Traces are read back by jaxlib's XSpace reader and as JSON; memory profiles by decoding the protobuf."""

import gzip
import json
import socket
import threading
import time
import urllib.request

import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import profiler
from xlafront.errors import JaxRuntimeError


def quiet():
    """Return options that record annotations, without each Python call."""
    options = profiler.ProfileOptions()
    options.python_tracer_level = 0
    return options


def newest(directory, ending):
    return max(directory.glob(f"plugins/profile/*/*{ending}"), key=lambda path: path.stat().st_mtime_ns)


def events(directory):
    """Return the host events of a trace by name, with their metadata."""
    recorded = profiler.ProfileData.from_file(str(newest(directory, ".xplane.pb"))).find_plane_with_name("/host:CPU")
    return {event.name: dict(event.stats) for line in recorded.lines for event in line.events}


@xf.jit
def project(x):
    with xf.named_scope("encoder"):
        return xnp.sin(x) @ x


def test_names_of_functions_scopes_and_annotations(tmp_path):
    @profiler.annotate_function
    def load(n):
        return n + 1

    renamed = profiler.annotate_function(load, name="read", rows=3)
    with profiler.trace(tmp_path, profiler_options=quiet()):
        with profiler.TraceAnnotation("epoch", number=2, mode="train"), profiler.StepTraceAnnotation("step", step_num=4):
            project(xnp.ones((64, 64))).block_until_ready()
        assert load(1) == 2 and renamed(1) == 2
    found = events(tmp_path)
    assert found["epoch"] == {"number": 2, "mode": "train"} and found["step"] == {"_r": 1, "step_num": 4}
    assert "PjitFunction(project)" in found and "load" in found and found["read"] == {"rows": 3}
    assert renamed.__name__ == "load"
    program = newest(tmp_path, ".xplane.pb").read_bytes()
    assert b"jit(project)/encoder/sin" in program and b"jit(project)/encoder/dot_general" in program
    with gzip.open(newest(tmp_path, ".trace.json.gz")) as file:
        assert "epoch" in {event.get("name") for event in json.load(file)["traceEvents"]}


def test_python_is_recorded_unless_left_out(tmp_path):
    def called_in_python():
        pass

    for options, there in ((None, True), (quiet(), False)):
        directory = tmp_path / str(there)
        profiler.start_trace(directory, profiler_options=options)
        called_in_python()
        profiler.stop_trace()
        assert any(["called_in_python" in name for name in events(directory)]) is there


def test_session_id_names_the_trace_folder(tmp_path):
    options = quiet()
    options.session_id = "mine"
    with pytest.warns(UserWarning, match="device_tracer_level has no effect"):
        options.device_tracer_level = 1
    with profiler.trace(tmp_path, profiler_options=options, create_perfetto_trace=True), profiler.TraceAnnotation("named"):
        pass
    assert {path.parent.name for path in tmp_path.glob("plugins/profile/*/*")} == {"mine"}
    assert "named" in events(tmp_path) and newest(tmp_path, "perfetto_trace.json.gz")


def test_process_is_described(tmp_path):
    with profiler.trace(tmp_path, profiler_options=quiet()):
        pass
    described = profiler.ProfileData.from_file(str(newest(tmp_path, ".xplane.pb"))).find_plane_with_name("/host:metadata")
    assert dict(described.stats)["xlafront_version"] == xf.__version__


def test_failing_function_is_recorded(tmp_path):
    @profiler.trace(tmp_path, profiler_options=quiet())
    def fail():
        with profiler.TraceAnnotation("before"):
            raise KeyError("x")

    with pytest.raises(KeyError):
        fail()
    assert "before" in events(tmp_path)
    with pytest.raises(RuntimeError, match="No profile started"):
        profiler.stop_trace()


def test_one_recording_at_a_time(tmp_path):
    with pytest.raises(RuntimeError, match="No profile started"):
        profiler.stop_trace()
    profiler.start_trace(tmp_path, profiler_options=quiet())
    try:
        with pytest.raises(RuntimeError, match="already been started"):
            profiler.start_trace(tmp_path)
    finally:
        profiler.stop_trace()


def test_session_in_memory_is_exported(tmp_path):
    session = profiler.ProfileSession(profiler_options=quiet())
    assert not session.is_running and session.profile_data is None
    with pytest.raises(RuntimeError, match="No profile data to export"):
        session.export_profile_data(tmp_path)
    with session as entered, profiler.TraceAnnotation("inside"):
        assert entered is session and session.is_running
        with pytest.raises(RuntimeError, match="already been started"):
            session.start()
        with pytest.raises(RuntimeError, match="while it is running"):
            session.export_profile_data(tmp_path)
    assert not session.is_running
    lines = session.profile_data.find_plane_with_name("/host:CPU").lines
    assert "inside" in {event.name for line in lines for event in line.events}
    assert isinstance(next(iter(session.profile_data.find_plane_with_name("/host:CPU").lines)), profiler.ProfileLine)
    profiler.export_profile_data(session.profile_data, tmp_path, session_id="a")
    profiler.export_profile_data(session, tmp_path, create_perfetto_trace=True, session_id="b")
    assert {path.name for path in (tmp_path / "plugins" / "profile").iterdir()} == {"a", "b"}
    assert "inside" in events(tmp_path) and newest(tmp_path, "perfetto_trace.json.gz").parent.name == "b"
    with pytest.raises(RuntimeError, match="No profile started"):
        session.stop()
    first = session.profile_data
    assert session.start().profile_data is None and session.stop() is not first


def test_traces_without_directory(tmp_path):
    with profiler.trace(profiler_options=quiet()) as session:
        pass
    assert session.profile_data.find_plane_with_name("/host:CPU") is not None
    session = profiler.start_trace(None, profiler_options=quiet())
    assert profiler.stop_trace() is session.profile_data
    profiler.export_profile_data(profiler.ProfileData(session.profile_data.serialized), tmp_path)
    written = profiler.ProfileData.from_file(str(newest(tmp_path, ".xplane.pb")))
    assert [plane.name for plane in written.planes] == [plane.name for plane in session.profile_data.planes]
    text = 'planes { id: 3 name: "hello" }'
    assert [plane.name for plane in profiler.ProfileData.from_text_proto(text).planes] == ["hello"]


def test_directories_that_cannot_be_written_to(tmp_path):
    with pytest.raises(JaxRuntimeError, match="cannot be written"):
        profiler.start_trace("/proc/nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(JaxRuntimeError, match="Nothing is recorded"), profiler.trace(tmp_path / "file"):
        pass
    with pytest.raises(RuntimeError, match="No profile started"):
        profiler.stop_trace()


def test_unwritable_trace_is_not_lost(tmp_path):
    profiler.start_trace(tmp_path / "later", profiler_options=quiet())
    with profiler.TraceAnnotation("kept"):
        pass
    (tmp_path / "later").rmdir()
    (tmp_path / "later").write_text("")
    with pytest.raises(JaxRuntimeError):
        profiler.stop_trace()
    (tmp_path / "later").unlink()
    profiler.stop_trace()
    assert "kept" in events(tmp_path / "later")


@pytest.mark.parametrize("call", ["start_trace(3)", "export_profile_data(3, '/tmp')", "start_trace('/tmp', profiler_options=3)", "annotate_function(3)",
                                  "TraceAnnotation(3)", "start_server('x')"])
def test_wrong_types(call):
    with pytest.raises(TypeError):
        eval(f"profiler.{call}")


def test_file_for_perfetto(tmp_path):
    with profiler.trace(tmp_path, create_perfetto_trace=True, profiler_options=quiet()), profiler.TraceAnnotation("shown"):
        pass
    with gzip.open(newest(tmp_path, "perfetto_trace.json.gz")) as file:
        written = json.load(file)
    assert sorted(written) == ["displayTimeUnit", "traceEvents"]
    assert "shown" in {event.get("name") for event in written["traceEvents"]}


def test_link_for_perfetto_waits_until_it_was_opened(tmp_path, capsys):
    answers = []

    def open_link():
        for _ in range(100):
            try:
                with urllib.request.urlopen("http://127.0.0.1:9001/perfetto_trace.json.gz", timeout=5) as answer:
                    answers.append((answer.headers["Access-Control-Allow-Origin"], json.loads(gzip.decompress(answer.read()))))
                    return
            except OSError:
                time.sleep(0.05)

    browser = threading.Thread(target=open_link)
    browser.start()
    with profiler.trace(tmp_path, create_perfetto_link=True, profiler_options=quiet()):
        pass
    browser.join()
    [(origin, content)] = answers
    assert origin == "*" and "traceEvents" in content
    assert "https://ui.perfetto.dev/#!/?url=http://127.0.0.1:9001/perfetto_trace.json.gz" in capsys.readouterr().out


def test_server():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    profiler.start_server(port)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=10):
            pass
        with pytest.raises(ValueError, match="active already.* stop_server"):
            profiler.start_server(port)
    finally:
        profiler.stop_server()
    with pytest.raises(ValueError, match="No active profiler server"):
        profiler.stop_server()


def number_at(message, i):
    """Return a number of a protobuf message, and the position after it."""
    value = shift = 0
    while message[i] > 127:
        value, shift, i = value | (message[i] & 127) << shift, shift + 7, i + 1
    return value | message[i] << shift, i + 1


def numbers(packed):
    found, i = [], 0
    while i < len(packed):
        value, i = number_at(packed, i)
        found.append(value)
    return found


def fields(message):
    """Yield the fields of a protobuf message: number, and the value or the bytes."""
    i = 0
    while i < len(message):
        key, i = number_at(message, i)
        value, i = number_at(message, i)
        if key & 7 == 2:
            value, i = message[i:i + value], i + value
        yield key >> 3, value


@pytest.mark.cpu_only
def test_memory_is_profiled_for_pprof(tmp_path):
    """A pprof profile: samples (2) of values (2) with labels (3), named by entries of the string table (6)."""
    x = xnp.ones(123_457, "float32") + 1
    profiler.save_device_memory_profile(tmp_path / "memory.prof")
    profile = list(fields(gzip.decompress((tmp_path / "memory.prof").read_bytes())))
    strings = [value.decode() for field, value in profile if field == 6]
    assert strings[0] == "" and {"allocations", "space", "bytes", "buffer"} <= {*strings}
    units = [[strings[value] for _, value in fields(pair)] for field, pair in profile if field == 1]
    assert units == [["allocations", "count"], ["space", "bytes"]]
    samples = [dict(fields(sample)) for field, sample in profile if field == 2]
    assert x.nbytes in [numbers(sample[2])[1] for sample in samples]
    assert profiler.device_memory_profile("cpu")[:2] == b"\x1f\x8b"
    with pytest.raises(RuntimeError, match="unknown backend"):
        profiler.device_memory_profile(backend="nowhere")
