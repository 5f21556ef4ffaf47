"""Sorting of large arrays on the CPU by NumPy, whose vector instructions sort twenty times faster than XLA's comparisons.

In an eager call on a CPU the elements are in the host's memory. The public functions of `sorting`, `sets`, `statistics` and
`histograms` pass such arrays to NumPy, by the functions below. Those that sort return what a stable sort by XLA returns, to the
bit: equal elements keep their order, -0 equals 0, and NaN is last. Other arrays are for compiled functions: their `host_buffer`
is None.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from xlafront.base import config
from xlafront.base.meshes import active
from xlafront.core import dtypes, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.traceback_filter import filter_traceback, filters_itself
from xlafront.runtime.arrays import ArrayImpl, host_value, put_host
from xlafront.runtime.sharding import SingleDeviceSharding

_F = TypeVar("_F", bound=Callable)

# From this size on NumPy is faster although its results are wrapped in Python.
MIN_SIZE = 4096
_DTYPES = frozenset(np.dtype(name) for name in (
    "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"))
_INDEX_BITS = np.int64(32)
_MOST_POSITIONS = 16  # in a partition, which takes the longer, the more there are
# Settings that check or move what compiled functions compute.
_SETTINGS = (config.default_device, config.debug_nans, config.debug_infs, config.no_execution)


def host_buffer(x: Any) -> np.ndarray | None:
    """Return the memory of an array that NumPy sorts in place of XLA; None if a compiled function sorts it."""
    if type(x) is not ArrayImpl or tracing.thread.trace is not tracing.eval_trace:
        return None
    sharding, size = x.sharding, x.size
    if size < MIN_SIZE or size >= 2**31 or type(sharding) is not SingleDeviceSharding or x.dtype not in _DTYPES:
        return None
    if sharding._device.platform != "cpu" or x.is_deleted() or active.mesh is not None or active.entered is not None:
        return None
    return None if any([setting.value for setting in _SETTINGS]) else host_value(x)


def on_host(routine: Callable) -> Callable[[_F], _F]:
    """Let a routine compute eager calls whose first argument has a `host_buffer`. Usable as a decorator.

    The routine takes this argument, its buffer, and the other arguments. It returns None for calls that it does not support.
    """
    def decorate(compiled: Any) -> Any:
        @filters_itself
        @functools.wraps(compiled)
        def call(*args, **kwargs):
            if args and type(args[0]) is ArrayImpl:
                result = None
                try:
                    # Hot for small arrays: other attributes of their size are functions in Python.
                    if args[0].on_device_size_in_bytes() >= MIN_SIZE and (values := host_buffer(args[0])) is not None:
                        result = routine(args[0], values, *args[1:], **kwargs)
                except Exception:  # the compiled function reports errors
                    pass
                if result is not None:
                    return result
            try:
                return compiled(*args, **kwargs)
            except Exception as e:
                filter_traceback(e)
                raise

        call.__wrapped__ = compiled.__wrapped__
        return call

    return decorate


def from_host(values: np.ndarray, like: ArrayImpl, weak_type: bool = False) -> Any:
    """Return a NumPy array as an array on the device of another one."""
    return put_host(values, ShapedArray(values.shape, values.dtype, weak_type), like.sharding, like._committed)


def sorted_values(values: np.ndarray, axis: int = -1) -> np.ndarray:
    """Return the values in ascending order along an axis."""
    return np.sort(values, axis) if _has_plain_order(values) else np.take_along_axis(values, sort_order(values, axis), axis)


def partly_sorted(values: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Return a vector in an order in which the elements at the positions, and the last one, are those of the sorted vector."""
    positions = np.unique([*positions, values.size - 1])
    if positions.size > _MOST_POSITIONS or not _has_plain_order(values):
        return sorted_values(values)
    return np.partition(values, positions)


def _has_plain_order(values: np.ndarray) -> bool:
    """True if equal values have equal bits. NumPy's vectorized sort is not stable, and changes the bits of NaN."""
    if values.dtype.kind != "f":
        return True
    zeros = np.signbit(values[values == 0])
    return not (zeros.any() and not zeros.all() or np.isnan(values).any())


def sort_order(values: np.ndarray, axis: int = -1) -> np.ndarray:
    """Return the int32 indices of a stable sort along an axis."""
    keys = np.ascontiguousarray(_keys(np.moveaxis(values, axis, -1)))
    if keys.itemsize <= 2:
        order = np.argsort(keys, -1, kind="stable")  # NumPy's radix sort
    else:
        order = _order_by_digits(keys) if _digits_are_faster() else _order_by_words(keys)
    return np.moveaxis(order.astype(np.int32, copy=False), -1, axis)


def _order_by_words(keys: np.ndarray) -> np.ndarray:
    """Sort words of a key and an index, which are distinct, as 64-bit integers."""
    words = keys.astype(np.int64)
    words <<= _INDEX_BITS
    words |= np.arange(keys.shape[-1])
    words.sort()
    return words & 0xFFFFFFFF


def _order_by_digits(keys: np.ndarray) -> np.ndarray:
    """Sort by the lower halves of int32 keys, then by the upper halves, each by NumPy's radix sort."""
    halves = keys.view(np.int16).reshape(*keys.shape, 2)
    lower, upper = (0, 1) if sys.byteorder == "little" else (1, 0)
    order = np.argsort(halves[..., lower].view(np.uint16), -1, kind="stable")
    return np.take_along_axis(order, np.argsort(np.take_along_axis(halves[..., upper], order, -1), -1, kind="stable"), -1)


@functools.cache
def _digits_are_faster() -> bool:
    """True on CPUs for which NumPy has no vectorized sort. Measured once, in some 0.3 ms."""
    keys = np.random.default_rng(0).integers(-2**31, 2**31, MIN_SIZE, np.int32)

    def seconds(order: Callable) -> float:
        started = time.perf_counter()
        order(keys)
        return time.perf_counter() - started

    by_digits, by_words = [min(map(seconds, [order] * 3)) for order in (_order_by_digits, _order_by_words)]
    return by_digits < by_words


def _keys(rows: np.ndarray) -> np.ndarray:
    """Return integers of at most 32 bits whose order is that of the elements of each row."""
    kind, bits = rows.dtype.kind, rows.dtype.itemsize * 8
    if bits == 64:
        return _ranks(rows)
    if kind != "f":
        return (rows ^ np.uint32(1 << 31)).view(np.int32) if rows.dtype == np.uint32 else rows
    words = rows.view(np.int32) ^ 0
    words ^= (words >> 31) & 0x7FFFFFFF  # order of sign and magnitude -> order of two's complement, in which -0 is -1
    words += words == -1
    missing = np.isnan(rows)
    if missing.any():
        words[missing] = 0x7FFFFFFF
    return words


def _ranks(rows: np.ndarray) -> np.ndarray:
    """Return the rank of each element among the distinct elements of its row, with one rank for all NaNs."""
    order = np.argsort(rows, axis=-1)
    ordered = np.take_along_axis(rows, order, -1)
    after, before = ordered[..., 1:], ordered[..., :-1]
    differs = (after != before) & ~((after != after) & (before != before))
    ranks = np.zeros(rows.shape, np.int32)
    np.cumsum(differs, axis=-1, out=ranks[..., 1:])
    result = np.empty_like(ranks)
    np.put_along_axis(result, order, ranks, -1)
    return result


def _flat(values: np.ndarray, axis: int | None) -> tuple[np.ndarray, int]:
    return (values.reshape(-1), 0) if axis is None else (values, axis)


# Routines for `on_host`


def sort(x: ArrayImpl, values: np.ndarray, axis: int | None = -1, *, kind: None = None, order: None = None, stable: bool = True,
         descending: bool = False) -> Any:
    if kind is not None or order is not None:
        return None
    values, axis = _flat(values, axis)
    result = sorted_values(values, axis)
    return from_host(np.flip(result, axis) if descending else result, x, x.weak_type)


def argsort(x: ArrayImpl, values: np.ndarray, axis: int | None = -1, *, kind: None = None, order: None = None,
            stable: bool = True, descending: bool = False, dtype: Any = None) -> Any:
    if kind is not None or order is not None or dtype is not None:
        return None
    values, axis = _flat(values, axis)
    if descending:  # reverse before and after the sort, so that equal elements keep their order
        indices = values.shape[axis] - 1 - np.flip(sort_order(np.flip(values, axis), axis), axis)
    else:
        indices = sort_order(values, axis)
    return from_host(indices.astype(dtypes.default_dtype(int), copy=False), x)


def partition(x: ArrayImpl, values: np.ndarray, kth: int, axis: int = -1) -> Any:
    return sort(x, values, axis) if -values.shape[axis] <= kth < values.shape[axis] else None


def unique(values: np.ndarray, equal_nan: bool, outputs: str) -> list[np.ndarray]:
    """Return the outputs of `unique` for a flattened array, named by letters: v(alues), i(ndices), i(n)verse, c(ounts)."""
    order = None if outputs == "v" else sort_order(values)
    ordered = sorted_values(values) if order is None else values[order]
    differs = np.ones(values.shape, bool)
    differs[1:] = ordered[1:] != ordered[:-1]
    if equal_nan and values.dtype.kind == "f":
        differs[1:] &= ~((ordered[1:] != ordered[1:]) & (ordered[:-1] != ordered[:-1]))
    index = dtypes.default_dtype(int)
    starts = np.flatnonzero(differs)
    found = {"v": ordered[starts]}
    if "i" in outputs:
        found["i"] = order[starts].astype(index)  # type: ignore[index]
    if "n" in outputs:
        found["n"] = np.empty(values.shape, index)
        found["n"][order] = np.cumsum(differs, dtype=index) - 1
    if "c" in outputs:
        found["c"] = np.diff(starts, append=values.size).astype(index)
    return [found[letter] for letter in outputs]
