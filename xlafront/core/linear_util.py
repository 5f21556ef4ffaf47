"""Functions that are transformed step by step before they are run once: `WrappedFun`.

A transformation stands around a function as a decorator does, but is written down first, so that the whole stack can be
compared and used as a key of a cache. What it finds out on the way goes into a `Store`.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from xlafront.core import source
from xlafront.core.ir import DebugInfo, unknown_origin
from xlafront.runtime import config


class StoreException(Exception):
    """A store was read before it was filled, or filled twice."""


class _Empty:
    def __repr__(self):
        return "<empty>"


_EMPTY = _Empty()


class Store:
    """Holds one value that a transformation hands to who applied it."""

    __slots__ = ("_val",)

    def __init__(self):
        self._val = _EMPTY

    def store(self, val: Any) -> None:
        if self._val is not _EMPTY:
            raise StoreException("the store is filled already: a transformed function can be called once for each wrapping.")
        self._val = val

    def reset(self) -> None:
        self._val = _EMPTY

    @property
    def val(self):
        if self._val is _EMPTY:
            raise StoreException("the store is empty: call the transformed function first.")
        return self._val

    def __bool__(self):
        return self._val is not _EMPTY


class EqualStore(Store):
    """A store that may be filled again with an equal value."""

    __slots__ = ()

    def store(self, val: Any) -> None:
        if self and self._val != val:
            raise StoreException(f"the store holds {self._val!r} and was to be filled with {val!r}.")
        self._val = val


class WrappedFun:
    """A function and the transformations to be applied to it, innermost last; `call_wrapped` runs it.

    >>> wrap_init(lambda x: x + 1, debug_info=None).call_wrapped(2)
    3
    """

    __slots__ = ("f", "f_transformed", "transforms", "stores", "params", "in_type", "debug_info", "__weakref__")

    def __init__(self, f: Callable, f_transformed: Callable, transforms: tuple = (), stores: tuple = (), params: tuple = (),
                 in_type: Any = None, debug_info: DebugInfo = unknown_origin):
        self.f, self.f_transformed = f, f_transformed
        self.transforms, self.stores = transforms, stores
        self.params, self.in_type = params, in_type
        self.debug_info = debug_info

    @property
    def __name__(self):
        return getattr(self.f, "__name__", "<unnamed function>")

    def wrap(self, gen: Callable, gen_static_args: tuple, out_store: Store | None) -> WrappedFun:
        """The function with one more transformation around it."""
        inner = self.f_transformed
        if out_store is None:
            transformed = functools.partial(gen, inner, *gen_static_args)
        else:
            transformed = functools.partial(gen, inner, out_store, *gen_static_args)
        return WrappedFun(self.f, transformed, ((gen, gen_static_args), *self.transforms), (out_store, *self.stores),
                          self.params, None, self.debug_info)

    def call_wrapped(self, *args, **kwargs):
        return self.f_transformed(*args, **kwargs)

    def populate_stores(self, stores: Sequence[Any]) -> None:
        """Fill the stores with what an earlier run of an equal function put into its own."""
        for own, other in zip(self.stores, stores):
            if own is not None and other:
                own.store(other.val)

    def replace_debug_info(self, debug_info: DebugInfo) -> WrappedFun:
        return WrappedFun(self.f, self.f_transformed, self.transforms, self.stores, self.params, self.in_type, debug_info)

    def _contents(self):
        return self.transforms, self.params, self.in_type

    def __eq__(self, other):
        return isinstance(other, WrappedFun) and self.f is other.f and self._contents() == other._contents()

    def __hash__(self):
        return hash((self.f, *self._contents()))

    def __repr__(self):
        steps = [getattr(gen, "__name__", repr(gen)) for gen, _ in self.transforms]
        return f"WrappedFun({' of '.join([*steps, self.__name__])})"


def wrap_init(f: Callable, params: dict[str, Any] | None = None, *, debug_info: DebugInfo | None = None) -> WrappedFun:
    """A function as a `WrappedFun`, with keyword arguments that every call gets.

    >>> wrap_init(lambda x, *, k: x * k, {"k": 3}).call_wrapped(2)
    6
    """
    bound = functools.partial(f, **params) if params else f
    return WrappedFun(f, bound, (), (), tuple(sorted((params or {}).items())), None,
                      debug_info or DebugInfo("a transformation", getattr(f, "__name__", "<unnamed function>")))


def _missing_debug_info(for_what: str) -> DebugInfo:
    """The origin of a function of which a library does not say where it comes from."""
    source.warn(f"{for_what} has no debug_info, so that errors cannot name it: make one with api_util.debug_info.",
                DeprecationWarning)
    return DebugInfo("missing_debug_info", f"<{for_what}>")


# Transformations


def transformation2(gen: Callable, fun: WrappedFun | None = None, *gen_static_args):
    """A transformation written as a function: `gen(f, *static_args, *args)` calls `f` and returns the result.

    >>> @transformation2
    ... def doubled(f, x):
    ...     return 2 * f(x)
    >>> doubled(wrap_init(lambda x: x + 1)).call_wrapped(3)
    8
    """
    if fun is None:
        return functools.update_wrapper(functools.partial(transformation2, gen), gen)
    return fun.wrap(gen, gen_static_args, None)


def transformation_with_aux2(gen: Callable, fun: WrappedFun | None = None, *gen_static_args, use_eq_store: bool = False,
                             unk_names: bool = False):
    """As `transformation2`, for `gen(f, store, *static_args, *args)`, which puts a value into the store.

    Applied, it gives the function and what reads the store.

    >>> @transformation_with_aux2
    ... def counted(f, store, *args):
    ...     store.store(len(args))
    ...     return f(*args)
    >>> fun, count = counted(wrap_init(max))
    >>> fun.call_wrapped(3, 4), count()
    (4, 2)
    """
    if fun is None:
        return functools.update_wrapper(functools.partial(
            transformation_with_aux2, gen, use_eq_store=use_eq_store, unk_names=unk_names), gen)
    store = EqualStore() if use_eq_store else Store()
    return fun.wrap(gen, gen_static_args, store), lambda: store.val


def _run_generator(gen, f, static_args, args, kwargs):
    """Run a transformation that is a generator: it yields the arguments, gets the results, and yields what to return."""
    steps = gen(*static_args, *args, **kwargs)
    inner_args, inner_kwargs = next(steps)
    try:
        results = f(*inner_args, **inner_kwargs)
    except Exception as e:
        steps.throw(e)
        raise
    answer = steps.send(results)
    steps.close()
    return answer


def transformation(gen: Callable, fun: WrappedFun | None = None, *gen_static_args):
    """A transformation written as a generator: it yields `(args, kwargs)`, receives the results, yields what to return.

    >>> @transformation
    ... def doubled(x):
    ...     result = yield (x,), {}
    ...     yield 2 * result
    >>> doubled(wrap_init(lambda x: x + 1)).call_wrapped(3)
    8
    """
    if fun is None:
        return functools.update_wrapper(functools.partial(transformation, gen), gen)
    return fun.wrap(_Generated(gen), gen_static_args, None)


def transformation_with_aux(gen: Callable, fun: WrappedFun | None = None, *gen_static_args):
    """As `transformation`, for a generator whose last yield is `(what to return, what to tell who applied it)`.

    >>> @transformation_with_aux
    ... def counted(*args):
    ...     result = yield args, {}
    ...     yield result, len(args)
    >>> fun, count = counted(wrap_init(max))
    >>> fun.call_wrapped(3, 4), count()
    (4, 2)
    """
    if fun is None:
        return functools.update_wrapper(functools.partial(transformation_with_aux, gen), gen)
    store = Store()
    return fun.wrap(_Generated(gen, True), gen_static_args, store), lambda: store.val


class _Generated:
    """A generator as a function that calls what it wraps; equal for equal generators, so that caches find it."""

    __slots__ = ("gen", "has_aux", "__name__")

    def __init__(self, gen, has_aux=False):
        self.gen, self.has_aux = gen, has_aux
        self.__name__ = getattr(gen, "__name__", "transformation")

    def __call__(self, f, *args, **kwargs):
        if not self.has_aux:
            return _run_generator(self.gen, f, (), args, kwargs)
        store, *rest = args
        answer, aux = _run_generator(self.gen, f, (), rest, kwargs)
        store.store(aux)
        return answer

    def __eq__(self, other):
        return isinstance(other, _Generated) and (self.gen, self.has_aux) == (other.gen, other.has_aux)

    def __hash__(self):
        return hash((self.gen, self.has_aux))


def merge_linear_aux(aux1: Callable, aux2: Callable) -> tuple[bool, Any]:
    """Of two stores of which one was filled: whether it is the first, and its value.

    >>> filled, empty = Store(), Store()
    >>> filled.store(1)
    >>> merge_linear_aux(lambda: filled.val, lambda: empty.val)
    (True, 1)
    """
    try:
        first = aux1()
    except StoreException:
        try:
            return False, aux2()
        except StoreException:
            raise StoreException("neither of the two stores was filled: neither function has been called.") from None
    try:
        aux2()
    except StoreException:
        return True, first
    raise StoreException("both of the two stores were filled: both functions have been called.")


def cache(call: Callable, *, explain: Callable | None = None) -> Callable:
    """Memoise a function of a `WrappedFun` and hashable arguments, as long as the wrapped function lives.

    On a hit, the stores of the new `WrappedFun` are filled with what the first run found. `explain(fun, is_new, cache, fun,
    *args)` is called before a new result is computed.

    >>> squared = cache(lambda fun, x: fun.call_wrapped(x) ** 2)
    >>> squared(wrap_init(abs), -3)
    9
    """
    per_function: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()

    @functools.wraps(call)
    def cached(fun: WrappedFun, *args):
        known = per_function.setdefault(fun.f, {})
        key = (*fun._contents(), args, config.trace_context_key())
        found = known.get(key)
        if found is not None:
            answer, stores = found
            fun.populate_stores(stores)
            return answer
        if explain is not None:
            explain(fun.f, not known, known, fun, *args)
        answer = call(fun, *args)
        known[key] = answer, fun.stores
        return answer

    cached.cache_clear = per_function.clear
    cached.evict_function = lambda f: per_function.pop(f, None)
    return cached
