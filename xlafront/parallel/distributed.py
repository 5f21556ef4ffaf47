"""Multi-process computations, with one or more processes per machine.

Every process runs the same script. After `initialize`, `devices()` lists the devices of all processes, and arrays can be
sharded
over them. `experimental.multihost_utils` exchanges host values between processes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from xlafront.base import config
from xlafront.base.jaxlib_compat import HAS_MTLS, JaxRuntimeError
from xlafront.core import source
from xlafront.runtime import clusters, distributed
from xlafront.runtime.clients import clients


def _from_environment(name: str) -> str | None:
    return os.environ.get(f"XLAFRONT_{name}") or os.environ.get(f"JAX_{name}")


def _integer(name: str) -> int | None:
    text = _from_environment(name)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"the environment variable {name} is {text!r}, not a number.") from None


def initialize(coordinator_address: str | None = None, num_processes: int | None = None, process_id: int | None = None,
               local_device_ids: int | Sequence[int] | None = None, cluster_detection_method: str | None = None,
               initialization_timeout: int = 300, heartbeat_timeout_seconds: int = 100, shutdown_timeout_seconds: int = 300,
               coordinator_bind_address: str | None = None, slice_index: int | None = None,
               partition_index: int | None = None, mtls_cert_file: str | None = None, mtls_key_file: str | None = None,
               mtls_ca_file: str | None = None, mtls_peer_uri_prefix: str | None = None,
               verify_secure_credentials: bool | None = None) -> None:
    """Connect this process to the other processes of a multi-process computation.

    Call this before any computation. It returns when all processes are connected.

    Default values are taken from the environment variables `XLAFRONT_COORDINATOR_ADDRESS`, `XLAFRONT_NUM_PROCESSES`,
    `XLAFRONT_PROCESS_ID` and `XLAFRONT_LOCAL_DEVICE_IDS` (or `JAX_...`), then from the cluster environment.

    Args:
        coordinator_address: Address `host:port` on which process 0 listens.
        num_processes: Number of processes.
        process_id: Index of this process, from 0.
        local_device_ids: Ids of the GPUs that this process uses. Default: all, or one under Slurm and MPI.
        cluster_detection_method: `"tpu"`, `"slurm"`, `"ompi"`, `"k8s"`, `"mpi4py"`, or `"deactivate"` to detect none.
        initialization_timeout: Seconds to wait for the other processes.
        heartbeat_timeout_seconds: Seconds without a heartbeat after which a process is considered dead, which ends the others.
        shutdown_timeout_seconds: Seconds that a finished process waits for the others.
        coordinator_bind_address: Address that process 0 binds, if it differs from the one that the others connect to.
        slice_index: Former name of `partition_index`.
        partition_index: Index of the group of devices with fast links between them that this process belongs to.
        mtls_cert_file, mtls_key_file, mtls_ca_file: Files with the certificate, the key and the certificate authority for
            encrypted connections. jaxlib before 0.12 has no such connections: a warning says that they are not encrypted.
        mtls_peer_uri_prefix: Prefix of the URI in the certificates of the other processes.
        verify_secure_credentials: If True, raise unless connections are encrypted.

    Example:
        >>> import socket
        >>> with socket.create_server(("127.0.0.1", 0)) as server: port = server.getsockname()[1]
        >>> # initialize(f"127.0.0.1:{port}", num_processes=1, process_id=0)
    """
    if distributed.state.client is not None:
        raise RuntimeError("distributed.initialize was called a second time; this process already belongs to the group of "
                           f"{distributed.state.coordinator_address}. Call distributed.shutdown first.")
    if clients.started:
        raise RuntimeError(
            f"distributed.initialize was called after the platform {', '.join(clients.started)} had started with a "
            f"fixed set of devices. Call it first: before arrays are created, and before devices() and process_index().")
    address = coordinator_address or _from_environment("COORDINATOR_ADDRESS")
    bind_address = coordinator_bind_address or _from_environment("COORDINATOR_BIND_ADDRESS")
    num_processes = _integer("NUM_PROCESSES") if num_processes is None else num_processes
    process_id = _integer("PROCESS_ID") if process_id is None else process_id
    local_ids = _local_ids(local_device_ids)
    if cluster_detection_method is not None or None in (address, num_processes, process_id):
        cluster = clusters.detect(cluster_detection_method)
        if local_ids is None and process_id is None and cluster.local_process_id is not None:
            local_ids = [cluster.local_process_id]
        address = address or cluster.coordinator_address
        num_processes = cluster.num_processes if num_processes is None else num_processes
        process_id = cluster.process_id if process_id is None else process_id
    num_processes, process_id = _check(address, num_processes, process_id)
    for name, seconds in (("initialization_timeout", initialization_timeout), ("heartbeat_timeout_seconds",
                          heartbeat_timeout_seconds), ("shutdown_timeout_seconds", shutdown_timeout_seconds)):
        if not seconds > 0:
            raise ValueError(f"{name} is {seconds}; it must be a positive number of seconds.")
    credentials = _credentials({
        "mtls_cert_file": mtls_cert_file, "mtls_key_file": mtls_key_file, "mtls_ca_file": mtls_ca_file,
        "mtls_peer_uri_prefix": mtls_peer_uri_prefix, "verify_secure_credentials": verify_secure_credentials})
    if local_ids is not None:
        config.cuda_visible_devices.set(",".join(map(str, local_ids)))
    distributed.connect(
        address, num_processes, process_id, bind_address=bind_address, initialization_timeout=initialization_timeout,
        heartbeat_timeout=int(heartbeat_timeout_seconds), shutdown_timeout=int(shutdown_timeout_seconds),
        partition_index=slice_index if partition_index is None else partition_index, credentials=credentials)


def _credentials(given: dict[str, Any]) -> dict[str, Any]:
    """Return the credentials that jaxlib takes; raise for files that cannot be read, and for a check that fails."""
    given = {name: value for name, value in given.items() if value is not None}
    for name, value in given.items():
        if name.endswith("_file") and not os.access(value, os.R_OK):
            raise JaxRuntimeError(f"distributed.initialize cannot read {name}, {value!r}: the file does not exist, or this "
                                  f"process may not read it.")
    if HAS_MTLS or not given:
        return given
    if given.pop("verify_secure_credentials", False):
        raise RuntimeError("distributed.initialize was called with verify_secure_credentials=True, but the installed jaxlib "
                           "has insecure connections only. Install jaxlib 0.12 or later.")
    if given:
        source.warn(f"distributed.initialize ignores {', '.join(given)}: the installed jaxlib has no encrypted connections. "
                    f"Install jaxlib 0.12 or later.")
    return {}


def _local_ids(device_ids) -> list[int] | None:
    if device_ids is None:
        text = _from_environment("LOCAL_DEVICE_IDS")
        return None if text is None else [int(number) for number in text.split(",")]
    return [device_ids] if isinstance(device_ids, int) else [int(number) for number in device_ids]


def _check(address, num_processes, process_id) -> tuple[int, int]:
    missing = [name for name, value in (("coordinator_address", address), ("num_processes", num_processes),
                                        ("process_id", process_id)) if value is None]
    if missing:
        raise ValueError(
            f"distributed.initialize needs {', '.join(missing)}: it is not given by an argument, a variable such as "
            f"XLAFRONT_{missing[0].upper()}, or the environment of a TPU pod, Slurm, Open MPI or a Kubernetes job. "
            f"Pass distributed.initialize('host-of-process-0:1234', num_processes=..., process_id=...).")
    num_processes, process_id = int(num_processes), int(process_id)
    if num_processes < 1 or not 0 <= process_id < num_processes:
        raise ValueError(f"process_id is {process_id} with num_processes {num_processes}; ids go from 0 to num_processes - 1.")
    return num_processes, process_id


def is_initialized() -> bool:
    """Return True if this process is connected to a multi-process computation.

    Returns:
        True after `initialize`, False before it and after `shutdown`.

    Example:
        >>> is_initialized()
        False
    """
    return distributed.state.client is not None


def shutdown() -> None:
    """Wait until all processes are done, then disconnect. This happens automatically at exit.

    Example:
        >>> shutdown()
    """
    distributed.disconnect()
