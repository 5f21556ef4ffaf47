"""Asynchronous checkpoint managers, which write arrays in the background and track pending writes and errors."""

from __future__ import annotations

import abc
import itertools
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from xlafront.base.jaxlib_compat import JaxRuntimeError
from xlafront.host.store_specs import get_tensorstore_spec
from xlafront.runtime import distributed

logger = logging.getLogger("xlafront.experimental.array_serialization.serialization")
_manager_ids = itertools.count()  # the same in all processes, which create managers in the same order


class BarrierTimeoutError(Exception):
    """A timeout of a barrier between the processes."""


class AsyncManager:
    """A manager that waits, in a thread, until all processes have finished the writes that were started.

    Args:
        timeout_secs: Timeout for other processes, in seconds.

    Example:
        >>> serialization.AsyncManager(timeout_secs=10).wait_until_finished()
    """

    def __init__(self, timeout_secs: float = 300):
        self._timeout_secs = timeout_secs
        self._commit_futures: Sequence[Any] = ()
        self._thread: threading.Thread | None = None
        self._exception: BaseException | None = None
        self._number, self._commits = next(_manager_ids), itertools.count()
        self._key = ""  # key under which the first process reports that everything is written

    def _add_futures(self, futures: Sequence[Any]) -> None:
        """Set the futures that the next `_start_async_commit` waits for."""
        self._commit_futures = futures

    def _start_async_commit(self, on_commit_callback: Callable[[], None] | None) -> None:
        """Wait for the futures in a thread; the first process calls `on_commit_callback` when all processes have written."""
        self._key = f"xlafront/array_serialization/{self._number}/{next(self._commits)}"
        self._thread = threading.Thread(target=self._commit, args=(self._commit_futures, on_commit_callback, self._key))
        self._commit_futures = ()
        self._thread.start()

    def _commit(self, futures: Sequence[Any], on_commit_callback: Callable[[], None] | None, key: str) -> None:
        started = time.perf_counter()
        try:
            for future in futures:
                future.result()
            shared = distributed.state.client if distributed.state.num_processes > 1 else None
            if shared is not None:
                self._within_time(lambda: shared.wait_at_barrier(key, int(self._timeout_secs * 1000)))
            if distributed.state.process_id == 0 or shared is None:
                if on_commit_callback is not None:
                    on_commit_callback()
                if shared is not None:
                    shared.key_value_set(key, "done")
            logger.info("Arrays were written in %.3f s.", time.perf_counter() - started)
        except BaseException as e:
            self._exception = e

    def _within_time(self, wait: Callable[[], Any]) -> None:
        try:
            wait()
        except JaxRuntimeError as e:
            if "DEADLINE_EXCEEDED" not in str(e):
                raise
            raise BarrierTimeoutError(f"after {self._timeout_secs} s not all processes have written their parts: one may have "
                                      f"died or be slow. Give the manager a longer timeout_secs, or check the other "
                                      f"processes. {e}") from None

    def check_for_errors(self) -> None:
        """Raise the error of a background write since the last check; each error is raised once.

        Example:
            >>> serialization.AsyncManager().check_for_errors()
        """
        failure, self._exception = self._exception, None
        if failure is not None:
            raise failure

    def wait_until_finished(self) -> None:
        """Wait until all writes that were started are finished; raise their errors.

        Example:
            >>> serialization.AsyncManager().wait_until_finished()
        """
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()
        self.check_for_errors()
        if thread is not None and distributed.state.num_processes > 1:
            self._within_time(lambda: distributed.state.client.blocking_key_value_get(
                self._key, int(self._timeout_secs * 1000)))


class GlobalAsyncCheckpointManagerBase(abc.ABC):
    """The interface of checkpoint managers, a base class for custom ones."""

    @abc.abstractmethod
    def check_for_errors(self):
        """Raise the error of a background write, if there was one."""

    @abc.abstractmethod
    def wait_until_finished(self):
        """Wait until everything is written."""

    @abc.abstractmethod
    def serialize(self, arrays, tensorstore_specs, *, on_commit_callback: Callable[[], None]):
        """Start to write arrays."""

    @abc.abstractmethod
    def deserialize(self, shardings: Sequence[Any], tensorstore_specs: Sequence[dict[str, Any]],
                    global_shapes: Sequence[Any] | None = None, dtypes: Sequence[Any] | None = None):
        """Read arrays."""


class GlobalAsyncCheckpointManager(AsyncManager, GlobalAsyncCheckpointManagerBase):
    """A manager that writes arrays in the background: `serialize` returns when they are copied and may be donated or deleted.

    Args:
        timeout_secs: Timeout for other processes, in seconds.

    Example:
        >>> import tempfile
        >>> path, manager = tempfile.mkdtemp() + "/w", serialization.GlobalAsyncCheckpointManager()
        >>> manager.serialize_with_paths([xnp.arange(3)], [path], on_commit_callback=lambda: print("written"))
        >>> manager.wait_until_finished()
        written
        >>> manager.deserialize_with_paths([xf.sharding.SingleDeviceSharding(xf.devices()[0])], [path])
        [Array([0, 1, 2], dtype=int32)]
    """

    def serialize(self, arrays: Sequence[Any], tensorstore_specs: Sequence[dict[str, Any]], *,
                  on_commit_callback: Callable[[], None] | None = None, transaction: Any = None) -> None:
        """Start to write arrays.

        Args:
            arrays, tensorstore_specs: Arrays, and the specification of each.
            on_commit_callback: Function that the first process calls when everything is written.
            transaction: Transaction of tensorstore, which writes all arrays or none.

        Example:
            >>> serialization.GlobalAsyncCheckpointManager().serialize([], [])
        """
        from xlafront.host import array_stores  # start-up: tensorstore 100 ms, and it may be missing

        self.wait_until_finished()
        futures: list[Any] = []
        array_stores.run_together(arrays, tensorstore_specs, lambda x, spec: array_stores.async_serialize(
            x, spec, commit_future=futures, transaction=transaction))
        self._add_futures(futures)
        self._start_async_commit(on_commit_callback)

    def serialize_with_paths(self, arrays: Sequence[Any], paths: Sequence[str], *,
                             on_commit_callback: Callable[[], None] | None = None, transaction: Any = None) -> None:
        """Start to write arrays to paths; see `serialize`.

        Args:
            arrays, paths: Arrays, and the directory of each.
            on_commit_callback, transaction: See `serialize`.

        Example:
            >>> serialization.GlobalAsyncCheckpointManager().serialize_with_paths([], [])
        """
        self.serialize(arrays, [get_tensorstore_spec(path) for path in paths], on_commit_callback=on_commit_callback,
                       transaction=transaction)

    def deserialize(self, shardings: Sequence[Any], tensorstore_specs: Sequence[dict[str, Any]],
                    global_shapes: Sequence[Any] | None = None, dtypes: Sequence[Any] | None = None,
                    concurrent_gb: int = 32) -> list[Any]:
        """Read arrays onto devices, after all pending writes are finished.

        Args:
            shardings, tensorstore_specs, global_shapes, dtypes, concurrent_gb: See `run_deserialization`.

        Returns:
            List of arrays.

        Example:
            >>> serialization.GlobalAsyncCheckpointManager().deserialize([], [])
            []
        """
        from xlafront.host import array_stores  # start-up: tensorstore 100 ms, and it may be missing

        self.wait_until_finished()
        return array_stores.run_deserialization(shardings, tensorstore_specs, global_shapes, dtypes, concurrent_gb)

    def deserialize_with_paths(self, shardings: Sequence[Any], paths: Sequence[str], global_shapes: Sequence[Any] | None = None,
                               dtypes: Sequence[Any] | None = None, concurrent_gb: int = 32) -> list[Any]:
        """Read arrays from paths; see `deserialize`.

        Args:
            shardings, paths: Sharding and directory of each array.
            global_shapes, dtypes, concurrent_gb: See `run_deserialization`.

        Returns:
            List of arrays.

        Example:
            >>> serialization.GlobalAsyncCheckpointManager().deserialize_with_paths([], [])
            []
        """
        return self.deserialize(shardings, [get_tensorstore_spec(path) for path in paths], global_shapes, dtypes, concurrent_gb)
