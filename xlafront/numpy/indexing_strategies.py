"""Strategies of `x.at[index].get`: the operation that reads the elements."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import numpy as np

from xlafront.core import errors
from xlafront.lax.dimension_numbers import GatherScatterMode
from xlafront.lax.ref_indexing import Slice
from xlafront.numpy.indexing import KeyHasWindows, _is_bool, plan_key, read_by_gather


class IndexingStrategy(enum.Enum):
    """The operation that reads the elements of an index."""

    AUTO = "auto"
    GATHER = "gather"
    SCATTER = "scatter"
    STATIC_SLICE = "static_slice"
    DYNAMIC_SLICE = "dynamic_slice"


def apply_strategy(strategy: Any, x: Any, key: Any, concrete: bool, mode: Any) -> tuple[Any, bool, Callable | None]:
    """Return the key, the flag `concrete` and the reader with which `take_by` follows a strategy; raise if it cannot."""
    if not isinstance(strategy, (str, IndexingStrategy)):
        raise TypeError(f"x.at[...].get takes strategy as a str or IndexingStrategy, got {strategy!r}.")
    try:
        chosen = IndexingStrategy(strategy)
    except ValueError:
        known = ", ".join([repr(s.value) for s in IndexingStrategy if s is not IndexingStrategy.SCATTER])
        raise ValueError(f"x.at[...].get got an unknown indexing strategy, {strategy!r}: give {known}.") from None
    if chosen is IndexingStrategy.SCATTER:
        raise ValueError("x.at[...].get does not support the indexing strategy 'scatter', which writes.")
    if chosen is IndexingStrategy.AUTO:
        return key, concrete, None
    if chosen is IndexingStrategy.GATHER:
        return key, True, read_by_gather  # integers become index arrays
    if mode is not None and GatherScatterMode.from_any(mode) is GatherScatterMode.FILL_OR_DROP:
        raise ValueError(f"the indexing strategy {chosen.value!r} requires mode='promise_in_bounds' or mode='clip', got "
                         f"{mode!r}.")
    if chosen is IndexingStrategy.STATIC_SLICE:
        _check_static(np.shape(x), key)
        return key, False, None
    return _with_dynamic_slices(np.shape(x), key), True, None


def _check_static(shape: tuple, key: Any) -> None:
    """Raise unless an index has only Python integers in bounds, slices, None and an ellipsis."""
    try:
        entries, _ = plan_key(shape, key, True)
    except KeyHasWindows:
        entries = (("array",),)
    if any([item is True or item is False for item in (key if isinstance(key, tuple) else (key,))]):
        entries = (("mask",),)  # of which the plan may be a new dimension
    sizes = iter(shape)
    for entry in entries:
        if entry[0] in ("array", "mask"):
            raise TypeError(f"the indexing strategy 'static_slice' takes an index of Python integers and slices, which must be "
                            f"static scalars or slices; got x[{errors.short(key)}].")
        n = next(sizes) if entry[0] != "new" else 0
        if entry[0] == "int" and not -n <= entry[1] < n:
            raise IndexError(f"index {entry[1]} is out of bounds for a dimension of size {n}, which the indexing strategy "
                             f"'static_slice' does not allow.")


def _with_dynamic_slices(shape: tuple, key: Any) -> tuple:
    """Return the index with windows in place of slices; raise unless it has only scalars and slices with the step 1."""
    items = list(key) if isinstance(key, tuple) else [key]
    used = sum([item is not None and item is not Ellipsis for item in items])
    replaced: list[Any] = []
    dim = 0
    for item in items:
        if item is None:
            replaced.append(item)
            continue
        if item is Ellipsis:
            dim += len(shape) - used
        elif isinstance(item, slice):
            start, stop, step = item.indices(shape[dim])
            if item not in (slice(None), slice(None, None, -1)):
                if step != 1:
                    raise TypeError(f"the indexing strategy 'dynamic_slice' supports only unit steps in slices, got {item}.")
                item = Slice(np.int32(start), max(stop - start, 0))
            dim += 1
        elif isinstance(item, (bool, list)) or np.ndim(item) != 0 or hasattr(item, "dtype") and _is_bool(item):
            raise TypeError(f"the indexing strategy 'dynamic_slice' allows only scalar indices and slices, got "
                            f"x[{errors.short(key)}].")
        else:
            dim += 1
        replaced.append(item)
    return tuple(replaced)
