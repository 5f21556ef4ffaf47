"""Detection of this process's group from the environment.

There is one function for each kind of cluster. It returns what it finds, or None if the process does not run under that kind.
"""

from __future__ import annotations

import json
import os
import re
import socket
import time
import urllib.parse
import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from xlafront.runtime import clients

_TPU_PORT = 8476


class Cluster(NamedTuple):
    """The position of this process in its group. Unknown fields are None."""

    coordinator_address: str | None
    num_processes: int | None
    process_id: int | None
    local_process_id: int | None = None  # among the processes of this machine, if each has its own GPU


def _port(text: str) -> int:
    """Return a port, the same in all processes of a job, above the range of ports that the system assigns."""
    return 61000 + zlib.crc32(text.encode()) % 4500


def _number(environ: Mapping[str, str], name: str, cluster: str) -> int:
    text = environ.get(name, "")
    if not text.lstrip("-").isdigit():
        raise RuntimeError(f"this process seems to run under {cluster}, but the environment variable {name} is "
                           f"{text!r}, not a number. Give distributed.initialize its arguments, or "
                           f"cluster_detection_method='deactivate'.")
    return int(text)


# Slurm


def first_host(nodes: str) -> str:
    """Return the first host of a Slurm node list: `a003` for `a[003-007,9],b`."""
    opening = re.match(r"([^,\[]+)(?:\[([^\],-]+))?", nodes.strip())
    if opening is None:
        raise RuntimeError(f"the node list of Slurm is {nodes!r}, which names no host. Give distributed.initialize a "
                           f"coordinator_address.")
    return opening[1] + (opening[2] or "")


def slurm(environ: Mapping[str, str]) -> Cluster | None:
    # Without SLURM_PROCID the script was not started by srun; without a step it is the shell of an allocation.
    if not {"SLURM_JOB_ID", "SLURM_PROCID"} <= set(environ):
        return None
    nodes = environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_JOB_NODELIST") or environ.get("SLURM_NODELIST", "")
    tasks = "SLURM_STEP_NUM_TASKS" if "SLURM_STEP_NUM_TASKS" in environ else "SLURM_NTASKS"
    return Cluster(f"{first_host(nodes)}:{_port(environ['SLURM_JOB_ID'] + '.' + environ.get('SLURM_STEP_ID', ''))}",
                   _number(environ, tasks, "Slurm"), _number(environ, "SLURM_PROCID", "Slurm"),
                   _number(environ, "SLURM_LOCALID", "Slurm"))


# MPI


def open_mpi(environ: Mapping[str, str]) -> Cluster | None:
    if "OMPI_COMM_WORLD_RANK" not in environ:
        return None
    size = _number(environ, "OMPI_COMM_WORLD_SIZE", "Open MPI")
    job = environ.get("OMPI_MCA_orte_hnp_uri") or environ.get("PMIX_NAMESPACE", "")
    # Up to version 4, the launcher's address is in the environment: 1234.0;tcp://10.0.0.1,192.168.0.1:34911
    launcher = re.search(r"tcp6?://(?:\[([^\]]+)\]|([^,:]+))", environ.get("OMPI_MCA_orte_hnp_uri", ""))
    # From version 5 on, its host is part of the job's name: prterun-node17-4711@1
    launcher = launcher or re.fullmatch(r"prte(?:run)?-()(.+)-\d+@\d+", environ.get("PMIX_NAMESPACE", ""))
    host: str | None = (launcher[1] or launcher[2]) if launcher else None
    if environ.get("OMPI_COMM_WORLD_LOCAL_SIZE") == str(size):
        host = "127.0.0.1"
    address = None if host is None else f"[{host}]:{_port(job)}" if ":" in host else f"{host}:{_port(job)}"
    return Cluster(address, size, _number(environ, "OMPI_COMM_WORLD_RANK", "Open MPI"),
                   _number(environ, "OMPI_COMM_WORLD_LOCAL_RANK", "Open MPI"))


def mpi4py(environ: Mapping[str, str]) -> Cluster | None:
    """Detect any MPI. Used only on request, because it starts MPI in the process."""
    try:
        from mpi4py import MPI  # start-up: starts MPI in the process
    except ImportError as e:
        raise RuntimeError(f"cluster_detection_method='mpi4py' needs the package mpi4py: {e}") from None

    world = MPI.COMM_WORLD
    address = world.bcast(f"{socket.gethostname()}:{_port(str(os.getpid()))}" if world.Get_rank() == 0 else None, root=0)
    local_comm = world.Split_type(MPI.COMM_TYPE_SHARED)
    return Cluster(address, world.Get_size(), world.Get_rank(), local_comm.Get_rank())


# Cloud TPU


def google_metadata(name: str) -> str | None:
    """Return an attribute of this virtual machine; None if it has none or is no Google machine."""
    import urllib.error  # start-up: 8 ms
    import urllib.request  # start-up: 20 ms, on machines of Google only

    host = os.environ.get("GCE_METADATA_HOST", "metadata.google.internal")
    request = urllib.request.Request(f"http://{host}/computeMetadata/v1/instance/attributes/{name}",
                                     headers={"Metadata-Flavor": "Google"})
    for _ in range(3):
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as e:
            if e.code < 500:
                return None
        except OSError:
            return None
    return None


def cloud_tpu(environ: Mapping[str, str]) -> Cluster | None:
    settings: Mapping[str, str] = environ
    if environ.get("TPU_WORKER_HOSTNAMES"):  # GKE
        hosts = [host.strip() for host in environ["TPU_WORKER_HOSTNAMES"].split(",")]
        worker = _number(environ, "TPU_WORKER_ID", "Cloud TPU") if len(hosts) > 1 else 0
    else:
        if environ.get("TPU_SKIP_MDS_QUERY") or not clients.has_tpu_device():
            return None
        endpoints, number = google_metadata("worker-network-endpoints"), google_metadata("agent-worker-number")
        if not endpoints or number is None:
            return None
        hosts = [endpoint.split(":")[2] for endpoint in endpoints.split(",")]
        worker = int(number)
        # The machine's metadata can have these settings in place of the environment, as lines of NAME: 'value'.
        settings = dict(re.findall(r"^(\w+): '?([^'\n]*)'?$", google_metadata("tpu-env") or "", re.MULTILINE)) | dict(environ)
    slices = int(settings.get("MEGASCALE_NUM_SLICES") or 1)
    if slices == 1:
        return Cluster(f"{hosts[0]}:{_TPU_PORT}", len(hosts), worker)
    slice_number = _number(settings, "MEGASCALE_SLICE_ID", "Cloud TPU")
    first = settings.get("MEGASCALE_COORDINATOR_ADDRESS", "").rsplit(":", 1)[0]
    if not first:
        raise RuntimeError(f"this process belongs to slice {slice_number} of {slices}, but MEGASCALE_COORDINATOR_ADDRESS is "
                           f"not set. Set it, or give distributed.initialize a coordinator_address.")
    return Cluster(f"{first}:{_TPU_PORT}", slices * len(hosts), slice_number * len(hosts) + worker)


# Kubernetes

_SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def _query_kubernetes(environ: Mapping[str, str], path: str) -> dict[str, Any]:
    """Query the API server. The pod's service account needs permission for it."""
    import ssl  # start-up: 10 ms, on Kubernetes only
    import urllib.error  # start-up: 8 ms
    import urllib.request  # start-up: 20 ms

    directory = environ.get("XLAFRONT_KUBERNETES_ACCOUNT", _SERVICE_ACCOUNT)
    with open(f"{directory}/token") as file:
        token = file.read().strip()
    host, port = environ["KUBERNETES_SERVICE_HOST"], environ.get("KUBERNETES_SERVICE_PORT", "443")
    base = environ.get("XLAFRONT_KUBERNETES_API") or f"https://{f'[{host}]' if ':' in host else host}:{port}"
    context = ssl.create_default_context(cafile=f"{directory}/ca.crt") if base.startswith("https") else None
    request = urllib.request.Request(base + path, headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=10, context=context) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as e:
        raise RuntimeError(
            f"Kubernetes refused to answer {path}: {e}. The pod's service account needs a role that allows get and list on "
            f"pods and jobs.batch; or give distributed.initialize its arguments.") from None


def kubernetes(environ: Mapping[str, str]) -> Cluster | None:
    """Detect the pods of an Indexed Job, or of all Indexed Jobs of one kind in a JobSet."""
    if "KUBERNETES_SERVICE_HOST" not in environ or "JOB_COMPLETION_INDEX" not in environ:
        return None
    directory = environ.get("XLAFRONT_KUBERNETES_ACCOUNT", _SERVICE_ACCOUNT)
    try:
        with open(f"{directory}/namespace") as file:
            namespace = file.read().strip()
    except OSError:
        raise RuntimeError(f"this process runs in a job of Kubernetes, whose account is not mounted at {directory}. Mount it, "
                           f"or give distributed.initialize its arguments.") from None
    core, batch = f"/api/v1/namespaces/{namespace}", f"/apis/batch/v1/namespaces/{namespace}"
    index = _number(environ, "JOB_COMPLETION_INDEX", "Kubernetes")
    pod = _query_kubernetes(environ, f"{core}/pods/{environ['HOSTNAME']}")
    labels = pod["metadata"].get("labels", {})
    job_name = labels.get("batch.kubernetes.io/job-name") or labels.get("job-name")
    job = _query_kubernetes(environ, f"{batch}/jobs/{job_name}")
    size = job["spec"].get("completions") or job["spec"]["parallelism"]
    first = {"batch.kubernetes.io/job-completion-index": "0"}
    jobs, number = 1, 0
    if "jobset.sigs.k8s.io/jobset-name" in labels:
        job_set_labels = ("jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/replicatedjob-name")
        first |= {key: labels[key] for key in job_set_labels} | {"jobset.sigs.k8s.io/job-index": "0"}
        jobs = int(labels.get("jobset.sigs.k8s.io/replicatedjob-replicas", 1))
        number = int(labels.get("jobset.sigs.k8s.io/job-index", 0))
    else:
        first["job-name"] = job_name
    address = None
    if index or number:
        selector = urllib.parse.quote(",".join(f"{key}={value}" for key, value in first.items()))
        address = _wait_for_pod(lambda: _query_kubernetes(environ, f"{core}/pods?labelSelector={selector}"))
    else:
        address = pod["status"].get("podIP") or environ["HOSTNAME"]
    port = _port(labels.get("jobset.sigs.k8s.io/jobset-name") or job_name)
    return Cluster(f"[{address}]:{port}" if ":" in address else f"{address}:{port}", jobs * size, number * size + index)


def _wait_for_pod(query: Callable[[], dict], timeout: float = 300) -> str:
    """Wait for the address of the coordinating pod, which may start later than this one."""
    deadline = time.monotonic() + timeout
    while True:
        for pod in query()["items"]:
            status = pod.get("status", {})
            if status.get("podIP") and status.get("phase") in ("Pending", "Running"):
                return status["podIP"]
        if time.monotonic() > deadline:
            raise RuntimeError(f"the pod of process 0 has had no address for {timeout:g} s; see `kubectl describe pods`.")
        time.sleep(2)


METHODS: dict[str, Callable[[Mapping[str, str]], Cluster | None]] = {
    "tpu": cloud_tpu, "slurm": slurm, "ompi": open_mpi, "k8s": kubernetes, "mpi4py": mpi4py}
_ONLY_ON_REQUEST = {"mpi4py"}


def detect(method: str | None, environ: Mapping[str, str] = os.environ) -> Cluster:
    """Detect the cluster by one method, or by the first one that applies."""
    unknown = Cluster(None, None, None)
    if method == "deactivate":
        return unknown
    if method is not None:
        if method not in METHODS:
            raise ValueError(f"cluster_detection_method is {method!r}; it can be {', '.join(METHODS)} or deactivate.")
        cluster = METHODS[method](environ)
        if cluster is None:
            raise RuntimeError(f"cluster_detection_method is {method!r}, but this process was not started by it: its "
                               f"environment variables are missing.")
        return cluster
    for name, detect_cluster in METHODS.items():
        if name not in _ONLY_ON_REQUEST and (cluster := detect_cluster(environ)) is not None:
            return cluster
    return unknown
