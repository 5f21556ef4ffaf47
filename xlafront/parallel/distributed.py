"""Programs of many processes, one or more on each machine, that compute together.

Every process runs the same script. After `initialize`, `devices()` lists the devices of all processes, and arrays can
be spread over them; `experimental.multihost_utils` moves values of the host between processes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from xlafront.runtime import clusters, config, distributed
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
               partition_index: int | None = None) -> None:
    """Join the processes of this program, before anything is computed. Returns when all of them are there.

    What is not given is taken from the variables `XLAFRONT_COORDINATOR_ADDRESS`, `XLAFRONT_NUM_PROCESSES`,
    `XLAFRONT_PROCESS_ID` and `XLAFRONT_LOCAL_DEVICE_IDS` (or `JAX_...`), then from the cluster that the process runs on.

    Args:
      coordinator_address: `host:port` of process 0, which listens there for the others.
      num_processes: how many processes there are.
      process_id: which one this is, from 0.
      local_device_ids: the GPUs that this process uses, by number; all by default, one each under Slurm and MPI.
      cluster_detection_method: `"tpu"`, `"slurm"`, `"ompi"`, `"k8s"`, `"mpi4py"`, or `"deactivate"` to look at none.
      initialization_timeout: seconds to wait for the others.
      heartbeat_timeout_seconds: a process that has not been heard of for so long is dead, and ends the others.
      shutdown_timeout_seconds: how long a process that is done waits for the others.
      coordinator_bind_address: where process 0 listens, when that differs from what the others connect to.
      partition_index: the number of the group of devices with fast links among them that this process belongs to.
      slice_index: an older name of it.

    >>> import socket
    >>> with socket.create_server(("127.0.0.1", 0)) as server: port = server.getsockname()[1]
    >>> # initialize(f"127.0.0.1:{port}", num_processes=1, process_id=0)
    """
    if distributed.state.client is not None:
        raise RuntimeError("distributed.initialize was called a second time; this process already belongs to the group of "
                           f"{distributed.state.coordinator_address}. Call distributed.shutdown first.")
    if clients.started:
        raise RuntimeError(
            f"distributed.initialize was called after the platform {', '.join(clients.started)} had started, which already "
            f"knows its devices. Call it first: before arrays are made, and before devices() and process_index().")
    address = coordinator_address or _from_environment("COORDINATOR_ADDRESS")
    bind_address = coordinator_bind_address or _from_environment("COORDINATOR_BIND_ADDRESS")
    num_processes = _integer("NUM_PROCESSES") if num_processes is None else num_processes
    process_id = _integer("PROCESS_ID") if process_id is None else process_id
    local = _local_ids(local_device_ids)
    if cluster_detection_method is not None or None in (address, num_processes, process_id):
        found = clusters.detect(cluster_detection_method)
        if local is None and process_id is None and found.local_process_id is not None:
            local = [found.local_process_id]
        address = address or found.coordinator_address
        num_processes = found.num_processes if num_processes is None else num_processes
        process_id = found.process_id if process_id is None else process_id
    num_processes, process_id = _check(address, num_processes, process_id)
    for name, seconds in (("initialization_timeout", initialization_timeout), ("heartbeat_timeout_seconds",
                          heartbeat_timeout_seconds), ("shutdown_timeout_seconds", shutdown_timeout_seconds)):
        if not seconds > 0:
            raise ValueError(f"{name} is {seconds}; it must be a positive number of seconds.")
    if local is not None:
        config.cuda_visible_devices.set(",".join(map(str, local)))
    distributed.connect(
        address, num_processes, process_id, bind_address=bind_address, initialization_timeout=initialization_timeout,
        heartbeat_timeout=int(heartbeat_timeout_seconds), shutdown_timeout=int(shutdown_timeout_seconds),
        partition_index=slice_index if partition_index is None else partition_index)


def _local_ids(given) -> list[int] | None:
    if given is None:
        text = _from_environment("LOCAL_DEVICE_IDS")
        return None if text is None else [int(number) for number in text.split(",")]
    return [given] if isinstance(given, int) else [int(number) for number in given]


def _check(address, num_processes, process_id) -> tuple[int, int]:
    missing = [name for name, value in (("coordinator_address", address), ("num_processes", num_processes),
                                        ("process_id", process_id)) if value is None]
    if missing:
        raise ValueError(
            f"distributed.initialize does not know {', '.join(missing)}: neither an argument, nor a variable such as "
            f"XLAFRONT_{missing[0].upper()}, nor the environment of a TPU pod, Slurm, Open MPI or a Kubernetes job says it. "
            f"Pass distributed.initialize('host-of-process-0:1234', num_processes=..., process_id=...).")
    num_processes, process_id = int(num_processes), int(process_id)
    if num_processes < 1 or not 0 <= process_id < num_processes:
        raise ValueError(f"process_id is {process_id} with num_processes {num_processes}; ids go from 0 to num_processes - 1.")
    return num_processes, process_id


def is_initialized() -> bool:
    """Whether this process belongs to a group.

    >>> is_initialized()
    False
    """
    return distributed.state.client is not None


def shutdown() -> None:
    """Wait until all processes are done, then leave the group. Happens by itself when the program ends.

    >>> shutdown()
    """
    distributed.disconnect()
