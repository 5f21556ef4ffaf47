"""The runtime of multi-process programs: the service that process 0 runs, and the connection of this process to it.

The service monitors the processes: if one stops sending heartbeats, it ends the others. It also has a key-value
store, through which processes compare values without touching a device (`agree`).
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading
import time
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from xlafront.base.jaxlib_compat import JaxRuntimeError, _jax

_WARN_AFTER_SECONDS = 60  # time to wait for other processes before warning

_SECONDS_FOR_PEERS_TO_FAIL = 2.0  # an error that all processes raise reaches them at about the same time

_SIGNS_OF_FAILED_PEERS = ("Gloo", "UNAVAILABLE", "heartbeat", "Connection closed by peer", "NCCL")


class State:
    """This process in its group; without a group, process 0 of 1."""

    __slots__ = ("client", "service", "process_id", "num_processes", "coordinator_address", "own_address", "partition_index",
                 "preemption", "peer_watch", "lock", "agreement_counts")

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.clear()

    def clear(self) -> None:
        self.client: Any = None
        self.service: Any = None
        self.preemption: Any = None
        self.peer_watch: Any = None  # a `peer_watch.PeerWatch` if there are other processes
        self.process_id, self.num_processes = 0, 1
        self.coordinator_address: str | None = None
        self.own_address: str | None = None
        self.partition_index: int | None = None
        self.agreement_counts: dict[tuple, int] = {}

    def client_settings(self) -> dict[str, Any]:
        """Return the options that clients of platforms need for the group."""
        if self.client is None:
            return {}
        return {"distributed_client": self.client, "process_id": self.process_id, "num_processes": self.num_processes,
                "own_address": self.own_address, "partition_index": self.partition_index}


state = State()


def connect(address: str, num_processes: int, process_id: int, *, bind_address: str | None, initialization_timeout: float,
            heartbeat_timeout: int, shutdown_timeout: int, partition_index: int | None, credentials: dict[str, Any]) -> None:
    """Join the group; process 0 also starts the service. `credentials` are for encrypted connections, if jaxlib has these."""
    from xlafront.runtime import peer_watch, rendezvous  # start-up: sockets, for programs of many processes

    host, port = rendezvous.split_address(address)
    _bypass_proxies(host)
    me = rendezvous.introduction(process_id, num_processes)
    timeout = max(1, int(initialization_timeout))
    service = None
    if process_id == 0:
        group = rendezvous.gather(address, bind_address, me, initialization_timeout)
        try:
            service = _jax.get_distributed_runtime_service(
                bind_address or f"[::]:{port}", num_processes, heartbeat_timeout=heartbeat_timeout,
                cluster_register_timeout=timeout, shutdown_timeout=shutdown_timeout, **credentials)
        except Exception as e:
            group.fail(f"process 0 could not start the coordination service: {e}")
        peers = group.start()
        own_address = group.own_address
    else:
        own_address, first, connection = rendezvous.join(address, me, initialization_timeout)
        peers = {0: (first, connection)}
    # Without `shutdown_on_destruction`, its shutdown would not wait for the other processes.
    client = _jax.get_distributed_runtime_client(
        address, process_id, init_timeout=timeout, heartbeat_timeout=heartbeat_timeout, shutdown_timeout=shutdown_timeout,
        use_compression=True, shutdown_on_destruction=True, **credentials)
    client.connect()
    state.client, state.service = client, service
    state.process_id, state.num_processes = process_id, num_processes
    state.coordinator_address, state.own_address, state.partition_index = address, own_address, partition_index
    if peers:
        state.peer_watch = peer_watch.PeerWatch(peers, num_processes, heartbeat_timeout)
    atexit.register(_at_exit)


def _bypass_proxies(host: str) -> None:
    """Exempt the connection to the coordinator from web proxies."""
    if any(os.environ.get(name) for name in ("grpc_proxy", "https_proxy", "http_proxy")):
        direct = os.environ.get("no_grpc_proxy") or os.environ.get("no_proxy") or ""
        os.environ["no_grpc_proxy"] = ",".join(filter(None, (direct, host)))


def _at_exit() -> None:
    """Disconnect together with the other processes; after an unhandled exception without waiting for them."""
    # In an interactive session, the last exception does not mean that the session failed.
    unhandled = None if hasattr(sys, "ps1") else getattr(sys, "last_value", None)
    if unhandled is None:
        try:
            disconnect()
        except JaxRuntimeError as e:
            print(f"xlafront.distributed.shutdown: {e}", file=sys.stderr)
        return
    if any(sign in str(unhandled) for sign in _SIGNS_OF_FAILED_PEERS):
        report = None if state.peer_watch is None else state.peer_watch.first_report(timeout=1.0)
        print(f"xlafront: process {state.process_id} of {state.num_processes} lost the connection to another process of its "
              f"group" + (f": {report}" if report else ", which has ended or cannot be reached. What went wrong is in the "
                                                       "output of that process."), file=sys.stderr)
    # The service ends with this process, and the runtime aborts the processes that still use it. If all processes fail with the
    # same error, this wait lets each report it.
    if state.service is not None and state.peer_watch is not None:
        state.peer_watch.wait_for_all_to_end(_SECONDS_FOR_PEERS_TO_FAIL)
    # Freed during interpreter shutdown, they would wait for other processes, or abort with an error of their own.
    for resource in (state.client, state.service):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(resource))


def disconnect() -> None:
    """Wait until all processes are done, then leave the group."""
    with state.lock:
        if state.preemption is not None:
            state.preemption.shutdown()
        client, service, watch = state.client, state.service, state.peer_watch
        state.clear()
        atexit.unregister(_at_exit)
        try:
            if client is not None:
                client.shutdown()
        finally:
            if watch is not None:
                watch.leave()
            if service is not None:
                service.shutdown()


# Agreement between processes


def agree(caller: str, text: str, processes: Sequence[int] | None = None) -> dict[int, str]:
    """Compare a text across processes.

    Every process of `processes` has to call this function in the same order. It waits for the others, with a warning after a
    while.

    Returns:
        If texts differ, the text of the first process and those that differ from it, by process; otherwise an empty dict. All
        processes get the same result.
    """
    all_processes = tuple(range(state.num_processes))
    group = all_processes if processes is None else tuple(sorted(set(processes)))
    if len(group) < 2 or state.client is None:
        return {}
    with state.lock:
        number = state.agreement_counts.get(group, 0)
        state.agreement_counts[group] = number + 1
    prefix = f"xlafront/agree/{'all' if group == all_processes else '-'.join(map(str, group))}"
    store, me = state.client, state.process_id
    if me != group[0]:
        store.key_value_set(f"{prefix}/{number}/{me}", text)
        verdict = _wait_for(f"{prefix}/{number}/verdict", caller, group[0])
    else:
        texts = {me: text} | {other: _wait_for(f"{prefix}/{number}/{other}", caller, other) for other in group[1:]}
        differing = {other: other_text for other, other_text in texts.items() if other_text != text}
        verdict = _encode({me: text} | differing if differing else {})
        store.key_value_set(f"{prefix}/{number}/verdict", verdict)
        if number:  # all processes have read the previous verdict, since they have called again
            store.key_value_delete(f"{prefix}/{number - 1}")
    return _decode(verdict)


def agree_soon(name: str, words: Sequence[str], processes: Iterable[int], patience: float = 10.0) -> dict[int, str]:
    """Compare words across processes as `agree` does, but per name, and waiting at most `patience` seconds.

    Processes that come later do not count as different. The result has only the words that differ.
    """
    group, store, me = tuple(sorted(processes)), state.client, state.process_id
    if store is None or me not in group:
        return {}
    with state.lock:
        number = state.agreement_counts[group, name] = state.agreement_counts.get((group, name), 0) + 1
    from hashlib import blake2b  # start-up: 5 ms

    digest = blake2b(repr((group, name)).encode(), digest_size=16).hexdigest()
    prefix, text = f"xlafront/calls/{digest}/{number}", _encode({0: list(words)})
    if me != group[0]:
        store.key_value_set(f"{prefix}/said/{me}", text)
        try:
            return _decode(store.blocking_key_value_get(f"{prefix}/verdict", int(patience * 1000)))
        except JaxRuntimeError as e:
            if "DEADLINE_EXCEEDED" not in str(e):
                raise
            _warn_of_waiting(name, words, [group[0]], patience)
            return _publish_verdict(f"{prefix}/verdict", {})
    texts: dict[str, str] = {}
    deadline, pause = time.monotonic() + patience, 0.0005
    while len(texts) < len(group) - 1 and time.monotonic() < deadline:
        texts = dict(store.key_value_dir_get(f"{prefix}/said"))
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)
    seen = {int(key.rpartition("/")[2]) for key in texts}
    if len(texts) < len(group) - 1:
        _warn_of_waiting(name, words, [other for other in group[1:] if other not in seen], patience)
    differing: dict[int, str] = {}
    if len(texts) == len(group) - 1:
        others = {int(key.rpartition("/")[2]): _decode(encoded)[0] for key, encoded in texts.items() if encoded != text}
        own_words = list(words)
        for other, other_words in others.items():
            # For lists of different lengths, show the words from the first difference on.
            count = max(len(own_words), len(other_words))
            positions = [i for i in range(count) if own_words[i:i + 1] != other_words[i:i + 1]][:3]
            differing[other] = ", ".join(other_words[i] for i in positions if i < len(other_words))
            differing.setdefault(me, ", ".join(own_words[i] for i in positions if i < len(own_words)))
    return _publish_verdict(f"{prefix}/verdict", dict(sorted(differing.items())))


def _publish_verdict(key: str, verdict: dict[int, str]) -> dict[int, str]:
    """Publish the verdict, and return it, or the verdict that another process published first."""
    try:
        state.client.key_value_set(key, _encode(verdict))
        return verdict
    except JaxRuntimeError as e:
        if "ALREADY_EXISTS" not in str(e):
            raise
        return _decode(state.client.blocking_key_value_get(key, _WARN_AFTER_SECONDS * 1000))


def _warn_of_waiting(name: str, words: Sequence[str], others: Sequence[int], seconds: float) -> None:
    shown = ", ".join(words)
    warnings.warn(f"{name} ({shown if len(shown) < 300 else shown[:300] + '...'}) runs here for the first time, and process"
                  f"{'es' if len(others) > 1 else ''} {', '.join(map(str, others[:10]))} has not come to it within {seconds:g} "
                  f"s. Where another call is made there, such as one with a batch of another size, all wait for each other for "
                  f"ever: all processes have to make the same calls, with arrays of the same shapes.", stacklevel=2)


def _encode(values: dict[int, Any]) -> str:
    import json  # start-up: 1.6 ms, for programs of many processes

    return json.dumps(values)


def _decode(text: str) -> dict[int, Any]:
    import json  # start-up: 1.6 ms, for programs of many processes

    return {int(process): value for process, value in json.loads(text).items()}


def _wait_for(key: str, caller: str, process: int) -> str:
    waited = 0
    while True:
        try:
            return state.client.blocking_key_value_get(key, _WARN_AFTER_SECONDS * 1000)
        except JaxRuntimeError as e:
            if "DEADLINE_EXCEEDED" not in str(e):
                raise
        waited += _WARN_AFTER_SECONDS
        warnings.warn(f"{caller} has waited {waited} s for process {process}, which has not called it. All processes have to "
                      f"make the same calls in the same order.", stacklevel=3)


def fingerprint(values: Sequence[np.ndarray]) -> str:
    """Return a hash of the values' shapes, dtypes and bits."""
    from hashlib import blake2b  # start-up: 5 ms

    digest = blake2b(digest_size=16)
    for value in values:
        digest.update(f"{value.dtype}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8))
    return digest.hexdigest()


def live_processes(processes: Sequence[int]) -> dict[int, int]:
    """Return the live processes among these, each with its incarnation number. Waits until all live ones have called."""
    return state.client.get_live_nodes(list(processes))


def reached_preemption_sync_point(step: int) -> bool:
    """Return True at the step at which all processes save, after one of them got a preemption notice."""
    with state.lock:
        if state.preemption is None:
            # Created on the first call, because it takes over SIGTERM.
            manager = _jax.create_preemption_sync_manager()
            manager.initialize(state.client)
            state.preemption = manager
    return state.preemption.reached_sync_point(step)
