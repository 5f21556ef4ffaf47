"""The C++ dispatcher in front of a jitted function, and the translation of the errors that C++ raises.

A `PjitFunction` keeps a cache from signatures (tree, types, shardings, static values, settings) to executables. For a
signature that is not in it, it calls `cache_miss(*args, **kwargs)`, which returns `(result, fast path or None, evict)`; with a
fast path, C++ repeats the call without Python.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from xlafront.base.jaxlib_compat import DONATED_ARRAYS_CRASH, JaxRuntimeError, delete_handle, pjit
from xlafront.core import tracing, tree
from xlafront.core.traceback_filter import filter_traceback
from xlafront.runtime import keys
from xlafront.runtime.arrays import ArrayImpl, DeletedArrayError
from xlafront.staging import signatures
from xlafront.staging.array_transfers import put
from xlafront.staging.caches import dispatch_cache
from xlafront.staging.executable import Executable
from xlafront.staging.signatures import Call

Jitted = Any  # `staging.jitted.Jitted`, which imports this module


def shard_arg_fallback(x, sharding, *rest):
    """Transfer an argument for C++, which does it for arrays only."""
    return put(keys.physical_array(x), keys.physical(tracing.aval_of(x)), sharding, True)


def make_dispatcher(fun: Callable, jitted: Jitted, cache_miss: Callable):
    """Return the C++ function object that calls `cache_miss` for new signatures."""
    static = jitted.options.static
    # C++ refers to functions weakly, and ends the process for those that do not allow it (named tuples, `__slots__`).
    referable = fun if type(fun).__weakrefoffset__ else functools.partial(fun)
    dispatcher = pjit(jitted.name, referable, cache_miss, list(static.nums), list(static.names), jitted.key,
                      tree.dispatch_registry, shard_arg_fallback, dispatch_cache)
    signatures.copy_metadata(dispatcher, fun)
    dispatcher._jitted, jitted.dispatcher = jitted, weakref.ref(dispatcher)
    return dispatcher


def dispatcher_for(jitted: Jitted) -> Callable:
    """Return the C++ function object of a jitted function, behind a translator where C++ can raise errors of its own."""
    dispatcher = make_dispatcher(jitted.fun, jitted, jitted.cache_miss)
    return ErrorTranslatingDispatcher(dispatcher, jitted) if jitted.options.static or jitted.options.donate else dispatcher


def public_function(jitted: Jitted) -> Callable:
    """Return the callable that users get."""
    jitted.is_public = True
    return dispatcher_for(jitted)


class ErrorTranslatingDispatcher:
    """A dispatcher with static or donated arguments: translates C++'s errors about them, and deletes donated arrays. Hot."""

    __slots__ = ("_jitted", "_dispatcher", "_caches", "__dict__", "__weakref__")

    def __init__(self, dispatcher: Callable, jitted: Jitted):
        self._jitted, self._dispatcher, self._caches = jitted, dispatcher, jitted.caches
        signatures.copy_metadata(self, jitted.fun)

    def __get__(self, instance, owner=None):
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self):
        return repr(self._dispatcher)

    @property
    def __signature__(self):
        return signatures.signature_of(self._jitted.fun)

    def _cache_size(self) -> int:
        return self._dispatcher._cache_size()

    def __call__(self, *args, **kwargs):
        try:
            if self._caches.deletes_donated:
                return self._call_and_delete(args, kwargs)
            return self._dispatcher(*args, **kwargs)
        except Exception as e:
            try:
                self._translate(e, args, kwargs)
            except Exception as explained:
                explained.__suppress_context__ = True
                filter_traceback(explained)
                raise
            filter_traceback(e)
            raise

    def _call_and_delete(self, args, kwargs):
        leaves = tree.leaves((args, kwargs))
        if len(set(map(id, leaves))) < len(leaves):
            check_donated_once(self._jitted, self._split(args, kwargs))
        results = self._dispatcher(*args, **kwargs)
        delete_handle(leaves)
        return results

    def _split(self, args, kwargs) -> Call:
        return signatures.split_call(self._jitted.fun, self._jitted.name, self._jitted.options.static, args, kwargs)

    def _translate(self, error: Exception, args, kwargs) -> None:
        """Raise an error that names the argument, for a static argument without a hash and for a deleted or donated array."""
        jitted, text = self._jitted, str(error)
        if "donated in the same call" in text:
            check_donated_once(jitted, self._split(args, kwargs))
        if not isinstance(error, ValueError):
            return
        if "static arguments" in text:
            self._split(args, kwargs)  # raises the error that names the argument
        if "deleted or donated" in text and not isinstance(error, DeletedArrayError):
            call = self._split(args, kwargs)
            check_donated_once(jitted, call)  # C++ may have deleted some of its buffers by now
            raise deleted_argument_error(jitted.name, jitted.trace(call).debug_info, call.leaves, error) from None


def must_delete_donated(executable: Executable) -> bool:
    """True if Python must delete the arrays that a call of this executable donates."""
    return DONATED_ARRAYS_CRASH and any([sharding.num_devices > 1 for sharding in executable.in_shardings])


def check_donated_once(jitted: Jitted, call: Call) -> None:
    """Raise for a donated array that is another argument too."""
    first: dict[int, int] = {}
    flags = jitted.options.donated_flags(call)
    for i, x in enumerate(call.leaves):
        k = first.setdefault(id(x), i)
        if k != i and (flags[i] or flags[k]) and isinstance(x, (ArrayImpl, keys.KeyArray)):
            names = signatures.argument_names(jitted.fun, jitted.options.static, call.in_tree)
            raise JaxRuntimeError(
                f"{jitted.name} got one array ({x.aval}) as its arguments {names[k]} and {names[i]}, and donates "
                f"{names[k] if flags[k] else names[i]}, whose memory the results may take. Pass a copy (x.copy()), or do "
                f"not donate it.")


def deleted_argument_error(name: str, debug_info, leaves: Sequence[Any], error: Exception) -> Exception:
    """Return an error that names the deleted argument; `error` itself if no argument is deleted."""
    for i, x in enumerate(leaves):
        if isinstance(x, ArrayImpl) and x.is_deleted():
            return DeletedArrayError(x, f", which {name} got as argument {debug_info.arg_names[i]}")
    return error
