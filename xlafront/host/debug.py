"""Debugging of functions, also compiled and transformed ones: printing, Python callbacks, breakpoints.

>>> @jit
... def f(x):
...     debug.print("x = {x}", x=x)
...     return x + 1
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from typing import Any

import numpy as np

from xlafront.core import errors, source, tree
from xlafront.core.traceback_filter import boundary
from xlafront.host.callbacks import (
    DebugCall,
    DebugEffect,
    OrderedDebugEffect,
    debug_callback_p,
    debug_effect,
    debug_print_p,
    ordered_debug_effect,
    split_static,
)
from xlafront.host.debugger import breakpoint
from xlafront.host.sharding_views import inspect_array_sharding, visualize_array_sharding, visualize_sharding


@boundary
def callback(callback: Callable[..., None] | None = None, *args: Any, ordered: bool = False, partitioned: bool = False,
             **kwargs: Any) -> Callable[..., None] | None:
    """Call a Python function with the values of arrays each time that the program runs this line; drop its result.

    Under `vmap` the function is called for each element. Under differentiation it gets the primal values, not the tangents.

    Args:
        callback: Function to call. If None, return a function that takes it and its arguments.
        args, kwargs: Arguments of `callback`: pytrees of arrays and of other objects, which are passed through unchanged.
        ordered: If True, calls happen in program order.
        partitioned: If True, in a program over several devices each device calls the function with its shards. By default it is
            called once, with unsharded arrays.

    Returns:
        None, or a function if `callback` is None.

    Example:
        >>> seen = []
        >>> xf.jit(lambda x: debug.callback(lambda text, x: seen.append((text, float(x))), "x is", x))(1.0)
        >>> xf.effects_barrier()
        >>> seen
        [('x is', 1.0)]
    """
    if callback is None:
        _refuse_arguments("callback", args, kwargs)
        return lambda function, *a, **k: _call(function, a, k, ordered, partitioned)
    _call(callback, args, kwargs, ordered, partitioned)
    return None


def _call(function, args, kwargs, ordered: bool, partitioned: bool) -> None:
    if not callable(function):
        raise errors.not_callable("debug.callback", function)
    leaves, in_tree = tree.flatten((args, kwargs))
    arrays, static = split_static(leaves)
    debug_callback_p.bind(*arrays, callback=DebugCall(function, in_tree, static), partitioned=partitioned,
                          effect=ordered_debug_effect if ordered else debug_effect)


def _refuse_arguments(name: str, args: tuple, kwargs: dict) -> None:
    if args or kwargs:
        raise TypeError(f"debug.{name} got arguments, {[*args, *kwargs]}, and None in the first place. Give them to the "
                        f"function that it returns: debug.{name}(ordered=True)(first, *arguments).")


@boundary
def print(fmt: str | None = None, *args: Any, ordered: bool = False, partitioned: bool = False, skip_format_check: bool = False,
          _use_logging: bool = False, **kwargs: Any) -> Callable[..., None] | None:
    """Print values each time that the program runs this line.

    Under `vmap` each element is printed. Under differentiation the primal values are printed, not the tangents.

    Args:
        fmt: Format string, as for `str.format`. If None, return a function that takes it and its arguments.
        args, kwargs: Values to format: pytrees of arrays and of other objects.
        ordered: If True, lines appear in program order.
        partitioned: If True, print the shard of each device.
        skip_format_check: If True, allow arguments that the format does not use, and texts that are already formatted.
        _use_logging: If True, log the text as `debug.log` does.

    Returns:
        None, or a function if `fmt` is None.

    Example:
        >>> _ = xf.jit(lambda x: debug.print("x = {x:.2f}", x=x))(1.0), xf.effects_barrier()
        x = 1.00
    """
    if fmt is None:
        _refuse_arguments("print", args, kwargs)
        return lambda text, *a, **k: _print(text, a, k, ordered, partitioned, skip_format_check, _use_logging)
    _print(fmt, args, kwargs, ordered, partitioned, skip_format_check, _use_logging)
    return None


@boundary
def log(fmt: str | None = None, *args: Any, ordered: bool = False, partitioned: bool = False, skip_format_check: bool = False,
        _use_logging: bool = True, **kwargs: Any) -> Callable[..., None] | None:
    """Log values to the logger `xlafront`, at level INFO with the file and line of the call.

    Args:
        fmt, args, ordered, partitioned, skip_format_check, kwargs: See `debug.print`.
        _use_logging: If False, print instead, as `debug.print` does.

    Returns:
        None, or a function if `fmt` is None.

    Example:
        >>> debug.log("loss {}", 0.5)
    """
    if fmt is None:
        _refuse_arguments("log", args, kwargs)
        return lambda text, *a, **k: _print(text, a, k, ordered, partitioned, skip_format_check, _use_logging)
    _print(fmt, args, kwargs, ordered, partitioned, skip_format_check, _use_logging)
    return None


def _print(fmt, args, kwargs, ordered, partitioned, skip_format_check, logged) -> None:
    if not isinstance(fmt, str):
        raise TypeError(f"debug.print takes a format string first, got {type(fmt).__name__}: {fmt!r:.60}. To print a value "
                        f"write debug.print('{{}}', value).")
    if not skip_format_check:
        _FormatChecker().vformat(fmt, args, kwargs)
    record = None
    if logged:
        where = source.describe(source.current_site())
        record = ("xlafront", where.file, where.line, where.function)
    leaves, in_tree = tree.flatten((args, kwargs))
    arrays, static = split_static(leaves)
    debug_print_p.bind(*arrays, fmt=fmt, has_placeholders=_has_fields(fmt), in_tree=in_tree, static_args=static,
                       np_printoptions=tuple(np.get_printoptions().items()), logging_record=record, partitioned=partitioned,
                       ordered=bool(ordered))


def _has_fields(fmt: str) -> bool:
    try:
        return any(name is not None for _, name, _, _ in string.Formatter().parse(fmt))
    except ValueError:  # an unmatched brace, in a text that is already formatted
        return False


class _FormatChecker(string.Formatter):
    """A formatter that formats nothing, but raises errors for fields without an argument and arguments without a field."""

    def get_field(self, field_name, args, kwargs):
        first = re.match(r"[^.\[]*", field_name).group()
        key = int(first) if first.isdigit() else first
        if isinstance(key, int) and key >= len(args):
            raise IndexError(f"debug.print has a field for the positional argument {key}, but only {len(args)} were given.")
        if isinstance(key, str) and key not in kwargs:
            raise KeyError(f"debug.print has the field {{{key}}}, but no argument of that name. Give it as {key}=value.")
        return None, key

    def convert_field(self, value, conversion):
        return value

    def format_field(self, value, format_spec):
        return ""

    def check_unused_args(self, used_args, args, kwargs):
        extra = [x for i, x in enumerate(args) if i not in used_args]
        if extra:
            raise ValueError(f"debug.print got unused positional arguments, for which its format has no field: {extra}. "
                             f"Add a {{}} for each.")
        names = [name for name in kwargs if name not in used_args]
        if names:
            raise ValueError("debug.print got unused keyword arguments, for which its format has no field: "
                             f"{', '.join(names)}. Write {{{names[0]}}} in the format, which must be a plain string: an "
                             "f-string has lost its fields.")


__all__ = ["DebugEffect", "OrderedDebugEffect", "breakpoint", "callback", "inspect_array_sharding", "log", "print",
           "visualize_array_sharding", "visualize_sharding"]
