"""Reads and writes of parts of references where a mask says which elements count."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlafront.core import errors
from xlafront.core.refs import is_ref
from xlafront.lax import refs as ref_operations
from xlafront.lax.ref_indexing import Operand, Window
from xlafront.numpy import creation
from xlafront.numpy.searching import where


def load(ref: Any, mask: Any = None, other: Any = None) -> Any:
    """The part of a reference; where the mask is False, `other`, or what does not matter."""
    check_ref("load", ref)
    if mask is None:
        if other is not None:
            raise ValueError("load takes `other`, what stands where the mask is False, only with a mask.")
        return ref_operations.get(ref)
    value = ref_operations.get(by_positions(ref))
    return value if other is None else where(mask, value, creation.asarray(other, dtype=value.dtype))


def store(ref: Any, val: Any, mask: Any = None) -> None:
    """Write to the part of a reference, where the mask is True."""
    check_ref("store", ref)
    if mask is None:
        ref_operations.set(ref, ..., val)
        return
    ref = by_positions(ref)
    ref_operations.set(ref, ..., where(mask, val, ref_operations.get(ref)))


def check_ref(what: str, ref: Any) -> None:
    if not isinstance(ref, ref_operations.RefView) and not is_ref(ref):
        raise TypeError(f"{what} takes a reference, or a part of one as ref.at[...], got {errors.short(ref)}.")


def by_positions(ref: Any) -> Any:
    """A part whose place only the program knows, by the positions of its elements: it may go beyond the end, where masks leave
    it out, and as a window it would be moved. What is written beyond the end is dropped."""
    if not isinstance(ref, ref_operations.RefView) or len(ref.indexers) != 1:
        return ref
    [indexer] = ref.indexers
    windows = [e for e in indexer if type(e) is Window]
    if not any([type(w.start) is Operand for w in windows]) or any([type(e) is Operand and np.shape(
            ref.operands[e.number]) for e in indexer]):
        return ref
    key: list[Any] = []
    along = 0
    for e in indexer:
        if type(e) is Window:
            start = ref.operands[e.start.number] if type(e.start) is Operand else e.start
            positions = start + e.stride * creation.arange(e.size, dtype=np.int32)
            key.append(positions.reshape([-1 if d == along else 1 for d in range(len(windows))]))
            along += 1
        else:
            key.append(ref.operands[e.number] if type(e) is Operand else e)
    return ref.ref.at[tuple(key)]
