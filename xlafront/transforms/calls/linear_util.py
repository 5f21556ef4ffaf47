"""`WrappedFun`: a function and a stack of transformations to apply to it.

A transformation wraps a function as a decorator does, but is recorded first, so that the whole stack can be compared and
used as a cache key. Values that it computes on the way are returned in a `Store`.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from xlafront.base import config
from xlafront.core import source
from xlafront.core.ir import DebugInfo, unknown_origin


class StoreException(Exception):
    """Raised for a store that is read before it is filled, or filled twice."""


class _Empty:
    def __repr__(self) -> str:
        return "<empty>"


_EMPTY = _Empty()


class Store:
    """Holds one value that a transformation returns to its caller beside the result."""

    __slots__ = ("_val",)

    def __init__(self) -> None:
        self._val = _EMPTY

    def store(self, val: Any) -> None:
        if self._val is not _EMPTY:
            raise StoreException("the store is filled already: a transformed function can be called once for each wrapping.")
        self._val = val

    def reset(self) -> None:
        self._val = _EMPTY

    @property
    def val(self) -> Any:
        if self._val is _EMPTY:
            raise StoreException("the store is empty: call the transformed function first.")
        return self._val

    def __bool__(self) -> bool:
        return self._val is not _EMPTY


class EqualStore(Store):
    """A store that can be filled again with an equal value."""

    __slots__ = ()

    def store(self, val: Any) -> None:
        if self and self._val != val:
            raise StoreException(f"the store holds {self._val!r} and cannot be filled with {val!r}.")
        self._val = val


class WrappedFun:
    """A function and the transformations to apply to it, innermost last; `call_wrapped` runs it.

    Example:
        >>> wrap_init(lambda x: x + 1, debug_info=None).call_wrapped(2)
        3
    """

    __slots__ = ("f", "f_transformed", "transforms", "stores", "params", "in_type", "debug_info", "__weakref__")

    def __init__(self, f: Callable, f_transformed: Callable, transforms: tuple = (), stores: tuple = (), params: tuple = (),
                 in_type: Any = None, debug_info: DebugInfo = unknown_origin) -> None:
        self.f, self.f_transformed = f, f_transformed
        self.transforms, self.stores = transforms, stores
        self.params, self.in_type = params, in_type
        self.debug_info = debug_info

    @property
    def __name__(self) -> str:
        return getattr(self.f, "__name__", "<unnamed function>")

    def wrap(self, gen: Callable, gen_static_args: tuple, out_store: Store | None) -> WrappedFun:
        """Return the function with one more transformation around it."""
        inner = self.f_transformed
        if out_store is None:
            transformed = functools.partial(gen, inner, *gen_static_args)
        else:
            transformed = functools.partial(gen, inner, out_store, *gen_static_args)
        return WrappedFun(self.f, transformed, ((gen, gen_static_args), *self.transforms), (out_store, *self.stores),
                          self.params, None, self.debug_info)

    def call_wrapped(self, *args: Any, **kwargs: Any) -> Any:
        return self.f_transformed(*args, **kwargs)

    def populate_stores(self, stores: Sequence[Any]) -> None:
        """Fill the stores with the values that an earlier run of an equal function stored."""
        for own, other in zip(self.stores, stores):
            if own is not None and other:
                own.store(other.val)

    def replace_debug_info(self, debug_info: DebugInfo) -> WrappedFun:
        return WrappedFun(self.f, self.f_transformed, self.transforms, self.stores, self.params, self.in_type, debug_info)

    def _contents(self) -> tuple:
        return self.transforms, self.params, self.in_type

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WrappedFun) and self.f is other.f and self._contents() == other._contents()

    def __hash__(self) -> int:
        return hash((self.f, *self._contents()))

    def __repr__(self) -> str:
        steps = [getattr(gen, "__name__", repr(gen)) for gen, _ in self.transforms]
        return f"WrappedFun({' of '.join([*steps, self.__name__])})"


def wrap_init(f: Callable, params: dict[str, Any] | None = None, *, debug_info: DebugInfo | None = None) -> WrappedFun:
    """Return a function as a `WrappedFun`.

    Args:
        f: The function.
        params: Keyword arguments to pass to every call.
        debug_info: Its debug info. Default: its name alone.

    Returns:
        The `WrappedFun`.

    Example:
        >>> wrap_init(lambda x, *, k: x * k, {"k": 3}).call_wrapped(2)
        6
    """
    bound = functools.partial(f, **params) if params else f
    return WrappedFun(f, bound, (), (), tuple(sorted((params or {}).items())), None,
                      debug_info or DebugInfo("a transformation", getattr(f, "__name__", "<unnamed function>")))


def _missing_debug_info(for_what: str) -> DebugInfo:
    """Return the debug info of a function for which a library gives none, and warn."""
    source.warn(f"{for_what} has no debug_info, so that errors cannot name it. Create it with api_util.debug_info.",
                DeprecationWarning)
    return DebugInfo("missing_debug_info", f"<{for_what}>")


# Transformations


def transformation2(gen: Callable, fun: WrappedFun | None = None, *gen_static_args: Any) -> Any:
    """Declare a transformation: a function `gen(f, *static_args, *args)` that calls `f` and returns the result.

    Example:
        >>> @transformation2
        ... def doubled(f, x):
        ...     return 2 * f(x)
        >>> doubled(wrap_init(lambda x: x + 1)).call_wrapped(3)
        8
    """
    if fun is None:
        return functools.update_wrapper(functools.partial(transformation2, gen), gen)
    return fun.wrap(gen, gen_static_args, None)


def transformation_with_aux2(gen: Callable, fun: WrappedFun | None = None, *gen_static_args: Any, use_eq_store: bool = False,
                             unk_names: bool = False) -> Any:
    """Declare a transformation `gen(f, store, *static_args, *args)` that also stores a value.

    Applied to a `WrappedFun`, it returns the new one and a function that reads the store.

    Example:
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


def _run_generator(gen: Callable, f: Callable, static_args: tuple, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Run a transformation written as a generator.

    It yields the arguments, receives the results, and yields the return value.
    """
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


def transformation(gen: Callable, fun: WrappedFun | None = None, *gen_static_args: Any) -> Any:
    """Declare a transformation written as a generator.

    It yields `(args, kwargs)`, receives the results, and yields the return value.

    Example:
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


def transformation_with_aux(gen: Callable, fun: WrappedFun | None = None, *gen_static_args: Any) -> Any:
    """Declare a transformation written as a generator whose last yield is `(return value, value to store)`.

    Example:
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
    """A generator as a function that calls the wrapped one; equal for equal generators, so that caches find it."""

    __slots__ = ("gen", "has_aux", "__name__")

    def __init__(self, gen: Callable, has_aux: bool = False) -> None:
        self.gen, self.has_aux = gen, has_aux
        self.__name__ = getattr(gen, "__name__", "transformation")

    def __call__(self, f: Callable, *args: Any, **kwargs: Any) -> Any:
        if not self.has_aux:
            return _run_generator(self.gen, f, (), args, kwargs)
        store, *rest = args
        answer, aux = _run_generator(self.gen, f, (), rest, kwargs)
        store.store(aux)
        return answer

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Generated) and (self.gen, self.has_aux) == (other.gen, other.has_aux)

    def __hash__(self) -> int:
        return hash((self.gen, self.has_aux))


def merge_linear_aux(aux1: Callable, aux2: Callable) -> tuple[bool, Any]:
    """Return True and the value of the first of two stores if it was filled; else False and the value of the second one.

    Example:
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
    """Cache a function of a `WrappedFun` and hashable arguments, as long as the wrapped function lives.

    On a hit, the stores of the new `WrappedFun` are filled with the values of the first run. `explain(fun, is_new, cache,
    fun, *args)` is called before a new result is computed.

    Example:
        >>> squared = cache(lambda fun, x: fun.call_wrapped(x) ** 2)
        >>> squared(wrap_init(abs), -3)
        9
    """
    per_function: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()

    @functools.wraps(call)
    def cached(fun: WrappedFun, *args: Any) -> Any:
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

    cached.cache_clear = per_function.clear  # type: ignore[attr-defined]
    cached.evict_function = lambda f: per_function.pop(f, None)  # type: ignore[attr-defined]
    return cached
