"""The variables that the chapter on pods names for each launcher: with these, and no others, a process finds its place."""

import json
import re
from pathlib import Path

import pytest

from xlafront.runtime import clients, clusters

pytestmark = pytest.mark.cpu_only

CHAPTER = Path(__file__).parents[2] / "notebooks" / "pods.ipynb"
# By launcher: values of its variables in process 5 of 8, the second of the second host or slice.
VALUES = {
    "Cloud TPU on GKE": {"TPU_WORKER_HOSTNAMES": "s-0.svc,s-1.svc,s-2.svc,s-3.svc", "TPU_WORKER_ID": "1", "MEGASCALE_NUM_SLICES": "2",
                         "MEGASCALE_SLICE_ID": "1", "MEGASCALE_COORDINATOR_ADDRESS": "first.svc:8080"},
    "Slurm": {"SLURM_JOB_ID": "4711", "SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_JOB_NODELIST": "node[07-08]",
              "SLURM_LOCALID": "1"},
    "Open MPI": {"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
                 "PMIX_NAMESPACE": "prterun-node07-4711@1"},
}
COORDINATORS = {"Cloud TPU on GKE": "first.svc:", "Slurm": "node07:", "Open MPI": "node07:"}


def variables():
    """Return the variables of each launcher in the chapter's table."""
    text = "".join("".join(cell["source"]) for cell in json.loads(CHAPTER.read_text())["cells"])
    rows = re.findall(r"^\| ([\w ]+) \| [^|]+ \| ([^|]+) \|$", text, re.MULTILINE)
    return {name: re.findall(r"`([A-Z_]+)`", read) for name, read in rows if name != "launcher"}


@pytest.mark.parametrize("launcher", VALUES)
def test_the_variables_of_the_chapter_determine_the_process(launcher):
    values = VALUES[launcher]
    assert variables()[launcher] == list(values)
    found = clusters.detect(None, values)
    assert (found.num_processes, found.process_id) == (8, 5) and found.coordinator_address.startswith(COORDINATORS[launcher])
    assert found.local_process_id == (None if "TPU" in launcher else 1)


@pytest.mark.parametrize("launcher", VALUES)
def test_each_of_them_is_read(launcher):
    complete = clusters.detect(None, VALUES[launcher])
    for name in VALUES[launcher]:
        try:
            found = clusters.detect(None, {k: v for k, v in VALUES[launcher].items() if k != name})
        except RuntimeError:
            continue
        assert found != complete, name


def test_the_chapter_has_all_launchers(monkeypatch):
    monkeypatch.setattr(clients, "has_tpu_device", lambda: False)
    assert set(variables()) == {*VALUES, "Cloud TPU", "Kubernetes"}
    assert clusters.detect(None, {}) == (None, None, None, None)
