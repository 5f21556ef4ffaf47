"""`library`: the library's own functions, eagerly one compiled kernel each, inlined under a trace."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.core import tracing
from xlafront.core.primitive import Primitive
from xlafront.runtime.arrays import ArrayImpl
from xlafront.staging.jitted import Jitted, Options, make_dispatcher
from xlafront.staging.signatures import Selection


def library(fun: Callable | None = None, *, static: str | Sequence[str] = (), name: str | None = None,
            lists: bool = False):
    """Decorator of the library's own functions: eagerly one compiled kernel, inlined under a trace.

    `static` names the parameters that are Python values; `lists` says that users give lists (or arrays) for them.
    Hot: no Python runs when a known signature is repeated.
    """
    if fun is None:
        return lambda f: library(f, static=static, name=name, lists=lists)
    names = (static,) if isinstance(static, str) else tuple(static)
    code = fun.__code__
    parameters = code.co_varnames[:code.co_argcount]
    nums = tuple(parameters.index(n) for n in names if n in parameters)
    shown = name or fun.__name__.removeprefix("_").removesuffix("_kernel")
    jitted = Jitted(fun, Options(Selection(tuple(sorted(nums)), names)), shown, True)
    thread, eval_trace, evaluate = tracing.thread, tracing.eval_trace, jitted.evaluate

    def cache_miss(*args, **kwargs):
        if thread.trace is not eval_trace:
            return fun(*args, **kwargs), None, False
        return evaluate(*args, **kwargs)

    dispatcher = make_dispatcher(fun, jitted, cache_miss)
    return _with_lists(dispatcher, fun) if lists else dispatcher


def _with_lists(dispatcher, fun):
    """Takes static arguments that cannot be hashed as what can: lists as tuples, arrays as numbers."""
    def hashable(x):
        if isinstance(x, list) or isinstance(x, (np.ndarray, ArrayImpl)) and x.ndim:
            return tuple(hashable(v) for v in x)
        return x.__index__() if isinstance(x, (np.ndarray, ArrayImpl)) else x

    @functools.wraps(fun)
    def call(*args, **kwargs):
        try:
            return dispatcher(*args, **kwargs)
        except ValueError as e:
            if "static arguments" not in str(e):
                raise
        return dispatcher(args[0], *map(hashable, args[1:]), **{name: hashable(x) for name, x in kwargs.items()})

    return call


def _apply_eagerly(primitive: Primitive, args: tuple, params: dict[str, Any]):
    """Run one primitive: a kernel compiled once for each set of parameters."""
    try:
        key = tuple(params.items())
        kernel = primitive.eager.get(key)
    except TypeError:
        key, kernel = None, None
    if kernel is None:
        def apply(*operands):
            return primitive.bind(*operands, **params)

        apply.__name__ = apply.__qualname__ = primitive.name
        kernel = library(apply)
        if key is not None:
            primitive.eager[key] = kernel
    return kernel(*args)


tracing.EvalTrace.apply = staticmethod(_apply_eagerly)
