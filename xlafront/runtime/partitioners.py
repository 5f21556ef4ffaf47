"""What XLA's partitioner asks of operations that say themselves how they run on parts.

Such an operation is a custom call named `TARGET`; its configuration is the number under which a `Partitioner` is known here.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Sequence

from xlafront.runtime import clients, config
from xlafront.runtime.jaxlib_compat import HloSharding, _jax

TARGET = "CustomSPMDPartitioning"
Answer = Callable[[Sequence[HloSharding], Sequence[HloSharding]], tuple[bytes, list[HloSharding], list[HloSharding]]]


class Partitioner:
    """What one operation answers: `answer(shardings of arguments, shardings of results)` returns the module that computes
    parts of the results from parts of the arguments, and how both are split.

    `failure` is the exception that it raised: the compiler passes on nothing but its text.
    """

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.number = str(next(_numbers))
        self.failure: BaseException | None = None
        # The compiler asks from threads of its own.
        self.settings = [(setting, setting.value) for setting in config.settings.values()]
        _known[self.number] = self

    def take_failure(self) -> BaseException | None:
        failure, self.failure = self.failure, None
        return failure


_numbers = itertools.count(1)
_known: weakref.WeakValueDictionary[str, Partitioner] = weakref.WeakValueDictionary()
_lock = threading.Lock()
_installed: set[str | None] = set()


def install() -> None:
    """Tell the partitioners of all plugins that are loaded where to ask."""
    with _lock:
        for name, c_api in ((None, None), *clients.loaded_plugins().items()):
            if name not in _installed:
                _jax.register_custom_call_partitioner(TARGET, _unasked, _partition, _unasked, True, c_api)
                _installed.add(name)


def _partition(argument_shapes, arguments, result_shape, result, number: bytes):
    found = _known.get(number.decode())
    if found is None:
        raise RuntimeError("the program has a custom_partitioning function of another process, or of one that is gone. Lower "
                           "and compile it in one process.")
    changed = [(setting, value) for setting, value in found.settings if setting.value != value]
    saved = [(setting, setting.state.swap_local(value)) for setting, value in changed]
    try:
        several = result_shape.is_tuple()
        code, argument_shardings, results = found.answer(arguments, result.tuple_elements() if several else [result])
        return code, argument_shardings, HloSharding.tuple_sharding(result_shape, results) if several else results[0]
    except BaseException as e:
        found.failure = e
        raise
    finally:
        for setting, value in saved:
            setting.state.set_local(value)


def _unasked(*_):
    raise RuntimeError("only the Shardy partitioner is used here, which spreads shardings by rules.")
