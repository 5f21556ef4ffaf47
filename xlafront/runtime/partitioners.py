"""Partitioners of operations that define their own partitioning, which XLA's partitioner calls.

Such an operation is a custom call named `TARGET`. Its configuration is the number of a `Partitioner`.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Sequence

from xlafront.base import config
from xlafront.base.jaxlib_compat import HloSharding, _jax
from xlafront.runtime import clients

TARGET = "CustomSPMDPartitioning"
Answer = Callable[[Sequence[HloSharding], Sequence[HloSharding]], tuple[bytes, list[HloSharding], list[HloSharding]]]


class Partitioner:
    """The partitioner of one operation.

    `answer(argument shardings, result shardings)` returns the module that computes shards of the results from shards of the
    arguments, and the shardings of both. `failure` is the exception that it raised, since the compiler passes on only the
    message.
    """

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.number = str(next(_numbers))
        self.failure: BaseException | None = None
        # the compiler calls it on threads of its own
        self.settings = [(setting, setting.value) for setting in config.settings.values()]
        _partitioners[self.number] = self

    def take_failure(self) -> BaseException | None:
        failure, self.failure = self.failure, None
        return failure


_numbers = itertools.count(1)
_partitioners: weakref.WeakValueDictionary[str, Partitioner] = weakref.WeakValueDictionary()
_lock = threading.Lock()
_installed: set[str | None] = set()


def install() -> None:
    """Register the callback with the partitioners of all loaded plugins."""
    with _lock:
        for name, c_api in ((None, None), *clients.loaded_plugins().items()):
            if name not in _installed:
                _jax.register_custom_call_partitioner(TARGET, _unused_callback, _partition, _unused_callback, True, c_api)
                _installed.add(name)


def _partition(argument_shapes, arguments, result_shape, result, number: bytes):
    partitioner = _partitioners.get(number.decode())
    if partitioner is None:
        raise RuntimeError("the program has a custom_partitioning function of another process, or one that was deleted. Lower "
                           "and compile it in one process.")
    changed = [(setting, value) for setting, value in partitioner.settings if setting.value != value]
    saved = [(setting, setting.state.swap_local(value)) for setting, value in changed]
    try:
        is_tuple = result_shape.is_tuple()
        code, argument_shardings, results = partitioner.answer(arguments, result.tuple_elements() if is_tuple else [result])
        return code, argument_shardings, HloSharding.tuple_sharding(result_shape, results) if is_tuple else results[0]
    except BaseException as e:
        partitioner.failure = e
        raise
    finally:
        for setting, value in saved:
            setting.state.set_local(value)


def _unused_callback(*_):
    raise RuntimeError("only the Shardy partitioner is used here, which propagates shardings by rules.")
