"""Arrays that are written while the program goes on: managers that know what is still to be written, and what failed."""

from __future__ import annotations

import abc
import itertools
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from xlafront.host.store_specs import get_tensorstore_spec
from xlafront.runtime import distributed
from xlafront.runtime.jaxlib_compat import JaxRuntimeError

logger = logging.getLogger("xlafront.experimental.array_serialization.serialization")
_numbers = itertools.count()  # of managers, which all processes make in the same order


class BarrierTimeoutError(Exception):
    """A process waited for the others longer than it may."""


class AsyncManager:
    """Waits in a thread of its own until what was started is written, on all processes.

    - `timeout_secs`: how long it waits for other processes.

    >>> serialization.AsyncManager(timeout_secs=10).wait_until_finished()
    """

    def __init__(self, timeout_secs: float = 300):
        self._timeout_secs = timeout_secs
        self._commit_futures: Sequence[Any] = ()
        self._thread: threading.Thread | None = None
        self._exception: BaseException | None = None
        self._number, self._commits = next(_numbers), itertools.count()
        self._key = ""  # under which the first process says that all is written

    def _add_futures(self, futures: Sequence[Any]) -> None:
        """What is to be waited for by the next `_start_async_commit`."""
        self._commit_futures = futures

    def _start_async_commit(self, on_commit_callback: Callable[[], None] | None) -> None:
        """Wait for it in a thread; the first process calls `on_commit_callback` when all processes have written."""
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
                                      f"died or be slow. Give the manager a longer timeout_secs, or look at the other "
                                      f"processes. {e}") from None

    def check_for_errors(self) -> None:
        """Raise what went wrong since this was last asked; it is raised once.

        >>> serialization.AsyncManager().check_for_errors()
        """
        failure, self._exception = self._exception, None
        if failure is not None:
            raise failure

    def wait_until_finished(self) -> None:
        """Wait until all is written that was started; raise what went wrong.

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
    """What managers of checkpoints can do. A manager of one's own derives from it."""

    @abc.abstractmethod
    def check_for_errors(self):
        """Raise what went wrong in the background."""

    @abc.abstractmethod
    def wait_until_finished(self):
        """Wait until all is written."""

    @abc.abstractmethod
    def serialize(self, arrays, tensorstore_specs, *, on_commit_callback: Callable[[], None]):
        """Begin to write arrays."""

    @abc.abstractmethod
    def deserialize(self, shardings: Sequence[Any], tensorstore_specs: Sequence[dict[str, Any]],
                    global_shapes: Sequence[Any] | None = None, dtypes: Sequence[Any] | None = None):
        """Read arrays."""


class GlobalAsyncCheckpointManager(AsyncManager, GlobalAsyncCheckpointManagerBase):
    """Writes arrays in the background: `serialize` returns when they are copied, and may be changed or given away.

    - `timeout_secs`: how long it waits for other processes.

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
        """Begin to write arrays.

        - `arrays`, `tensorstore_specs`: the arrays, and where each goes.
        - `on_commit_callback`: what the first process calls when all is written.
        - `transaction`: of tensorstore, by which all of them are written or none.

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
        """As `serialize`, to paths.

        - `arrays`, `paths`: the arrays, and the directory for each.
        - `on_commit_callback`, `transaction`: as of `serialize`.

        >>> serialization.GlobalAsyncCheckpointManager().serialize_with_paths([], [])
        """
        self.serialize(arrays, [get_tensorstore_spec(path) for path in paths], on_commit_callback=on_commit_callback,
                       transaction=transaction)

    def deserialize(self, shardings: Sequence[Any], tensorstore_specs: Sequence[dict[str, Any]],
                    global_shapes: Sequence[Any] | None = None, dtypes: Sequence[Any] | None = None,
                    concurrent_gb: int = 32) -> list[Any]:
        """Read arrays onto devices, when all is written that was started before.

        - `shardings`, `tensorstore_specs`, `global_shapes`, `dtypes`, `concurrent_gb`: as of `run_deserialization`.

        >>> serialization.GlobalAsyncCheckpointManager().deserialize([], [])
        []
        """
        from xlafront.host import array_stores  # start-up: tensorstore 100 ms, and it may be missing

        self.wait_until_finished()
        return array_stores.run_deserialization(shardings, tensorstore_specs, global_shapes, dtypes, concurrent_gb)

    def deserialize_with_paths(self, shardings: Sequence[Any], paths: Sequence[str], global_shapes: Sequence[Any] | None = None,
                               dtypes: Sequence[Any] | None = None, concurrent_gb: int = 32) -> list[Any]:
        """As `deserialize`, from paths.

        - `shardings`, `paths`: how each array is split, and where it is.
        - `global_shapes`, `dtypes`, `concurrent_gb`: as of `run_deserialization`.

        >>> serialization.GlobalAsyncCheckpointManager().deserialize_with_paths([], [])
        []
        """
        return self.deserialize(shardings, [get_tensorstore_spec(path) for path in paths], global_shapes, dtypes, concurrent_gb)
