"""Traces are read by XProf, which TensorBoard uses, and memory profiles by pprof's messages."""

import json
import os
import subprocess
import sys

import pytest
from xprof.convert import raw_to_tool_data

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import profiler


@xf.jit
def project(x):
    return xnp.sin(x) @ x


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    directory = tmp_path_factory.mktemp("recording")
    options = profiler.ProfileOptions()
    options.python_tracer_level = 0
    x = project(xnp.ones((64, 64)))
    with profiler.trace(directory, profiler_options=options):
        for i in range(3):
            with profiler.StepTraceAnnotation("train", step_num=i), profiler.TraceAnnotation("epoch", number=7):
                x = project(x)
        x.block_until_ready()
    [path] = directory.glob("plugins/profile/*/*.xplane.pb")
    return path


def read(path, tool):
    data, content_type = raw_to_tool_data.xspace_to_tool_data([str(path)], tool, {})
    assert "json" in content_type
    return json.loads(data)


def test_the_viewer_of_traces(recording):
    events = [event for event in read(recording, "trace_viewer")["traceEvents"] if event.get("ph") == "X"]
    steps = {event["name"]: event["args"] for event in events if event["name"].startswith("train")}
    assert [steps[f"train {i}"]["step_num"] for i in range(3)] == ["0", "1", "2"]
    assert all(event["dur"] > 0 for event in events if event["name"].startswith("train"))
    within = {(event["name"], event.get("args", {}).get("group_id")) for event in events}  # what happened in which step
    for i in range(3):
        group = steps[f"train {i}"]["group_id"]
        assert ("epoch", group) in within and ("PjitFunction(project)", group) in within
    assert {event["args"]["number"] for event in events if event["name"] == "epoch"} == {"7"}


def test_the_overview(recording):
    pages = read(recording, "overview_page")
    assert "train" in json.dumps(pages) and any("rows" in page for page in pages)


def test_memory_is_a_profile_of_pprof(tmp_path):
    x = xnp.ones(123_457, "float32") + 1
    profiler.save_device_memory_profile(tmp_path / "memory.prof")
    code = ("import gzip, sys; from pypprof.profile_pb2 import Profile; profile = Profile(); "
            "profile.ParseFromString(gzip.open(sys.argv[1]).read()); "
            "print(*[sample.value[1] for sample in profile.sample])")
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "memory.prof"], capture_output=True, text=True, timeout=60,
                          env=os.environ | {"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"})
    assert done.returncode == 0, done.stderr
    assert x.nbytes in [int(size) for size in done.stdout.split()]
