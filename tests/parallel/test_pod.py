"""The training script for pods: a host dies, and the job continues on other numbers of hosts and devices."""

import hashlib
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from parallel.test_distributed import free_port

pytestmark = pytest.mark.cpu_only

ROOT = pathlib.Path(__file__).parents[2]
STEPS = 12


def start(hosts, devices, *arguments, program=("-m", "benchmarks.pod")):
    """Start the processes of a job, with so many simulated devices each."""
    port = free_port()
    common = {**os.environ, "XLAFRONT_PLATFORMS": "cpu", "XLAFRONT_NUM_CPU_DEVICES": str(devices), "XLA_FLAGS": "",
              "XLAFRONT_COORDINATOR_ADDRESS": f"127.0.0.1:{port}", "XLAFRONT_NUM_PROCESSES": str(hosts)}
    return [subprocess.Popen([sys.executable, *program, *map(str, arguments)], cwd=ROOT, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, text=True, env=common | {"XLAFRONT_PROCESS_ID": str(i)})
            for i in range(hosts)]


def finish(processes):
    """Wait for a job, and return the lines that its processes printed, without those of a library in C++."""
    outputs = [process.communicate(timeout=100)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes)
    return [[line for line in output.splitlines() if line.startswith("{")] for output in outputs]


def losses_of(lines):
    return {line["step"]: line["loss"] for line in map(json.loads, lines)}


def test_a_job_continues_on_other_hosts_after_one_has_died(tmp_path):
    """Four hosts with eight devices; one is killed; then two hosts with four, and one with two."""
    [alone] = finish(start(1, 8, "--alone", "--steps", STEPS, "--every", 100, "--checkpoints", tmp_path / "alone"))
    expected = losses_of(alone)
    folder = tmp_path / "job"
    job = start(4, 2, "--steps", 10**9, "--every", 4, "--checkpoints", folder, "--heartbeat", 2)
    seen = {}
    while max(seen, default=0) < 5:
        if (text := job[0].stdout.readline()).startswith("{"):
            line = json.loads(text)
            seen[line["step"]] = line["loss"]
            assert line["processes"] == 4
    job[3].kill()
    for process in job:
        process.communicate(timeout=100)
        assert process.returncode != 0
    while len(checkpoints := sorted(folder.glob("step??????"))) > 1:  # as if it had died soon after step 4
        for file in checkpoints.pop().iterdir():
            file.unlink()
        sorted(folder.glob("step??????"))[-1].rmdir()
    two = losses_of(finish(start(2, 2, "--steps", 8, "--every", 4, "--checkpoints", folder))[0])
    one = losses_of(finish(start(1, 2, "--steps", STEPS, "--every", 4, "--checkpoints", folder))[0])
    assert sorted(two) == [5, 6, 7, 8] and sorted(one) == [9, 10, 11, 12]
    found = {step: loss for step, loss in seen.items() if step <= 4} | two | one
    assert sorted(found) == sorted(expected)
    np.testing.assert_allclose([found[k] for k in sorted(found)], [expected[k] for k in sorted(expected)], rtol=1e-5)


RESHARD = """
import hashlib, pathlib, sys
import numpy as np
import xlafront as xf
from benchmarks import pod
from xlafront.experimental import multihost_utils

xf.distributed.initialize()
mesh = pod.mesh_of_all(int(sys.argv[2]))
number, parameters = pod.load(pathlib.Path(sys.argv[1]), mesh)
pod.save(pathlib.Path(sys.argv[1]), number + 1, parameters)
whole = multihost_utils.process_allgather(parameters, tiled=True)
print({name: hashlib.sha256(np.asarray(x).tobytes()).hexdigest() for name, x in sorted(whole.items())})
"""


def test_parameters_are_the_same_bits_on_every_mesh(tmp_path):
    rng = np.random.default_rng(0)
    given = {"up": rng.normal(size=(64, 256)).astype(np.float32), "down": rng.normal(size=(256, 8)).astype(np.float32)}
    first = tmp_path / "step000000"
    first.mkdir()
    for name, x in given.items():
        np.save(first / f"{name}.npy", x)
    expected = str({name: hashlib.sha256(x.tobytes()).hexdigest() for name, x in sorted(given.items())})
    meshes = [(4, 2, 2), (2, 2, 4), (1, 2, 1)]  # hosts, devices of each, devices along "model": 8, 4 and 2 devices
    for hosts, devices, model in meshes:
        outputs = finish(start(hosts, devices, tmp_path, model, program=("-c", RESHARD)))
        assert outputs == [[expected]] * hosts
    for name, x in given.items():
        assert np.load(tmp_path / "step000003" / f"{name}.npy").tobytes() == x.tobytes()
