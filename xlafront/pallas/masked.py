"""Masked reads and writes of slices of references."""

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
    """Read a slice of a reference. Where the mask is False, return `other`, or arbitrary values."""
    check_ref("load", ref)
    if mask is None:
        if other is not None:
            raise ValueError("load takes `other`, the value where the mask is False, only with a mask.")
        return ref_operations.get(ref)
    value = ref_operations.get(with_explicit_indices(ref))
    return value if other is None else where(mask, value, creation.asarray(other, dtype=value.dtype))


def store(ref: Any, val: Any, mask: Any = None) -> None:
    """Write to a slice of a reference where the mask is True."""
    check_ref("store", ref)
    if mask is None:
        ref_operations.set(ref, ..., val)
        return
    ref = with_explicit_indices(ref)
    ref_operations.set(ref, ..., where(mask, val, ref_operations.get(ref)))


def check_ref(caller: str, ref: Any) -> None:
    if not isinstance(ref, ref_operations.RefView) and not is_ref(ref):
        raise TypeError(f"{caller} takes a reference, or a part of one as ref.at[...], got {errors.short(ref)}.")


def with_explicit_indices(ref: Any) -> Any:
    """Convert a window with a dynamic start to explicit indices of its elements.

    A masked window can extend beyond the end of the array; as a window, its start would be clamped. Writes beyond the end are
    dropped.
    """
    if not isinstance(ref, ref_operations.RefView) or len(ref.indexers) != 1:
        return ref
    [indexer] = ref.indexers
    windows = [e for e in indexer if type(e) is Window]
    if not any([type(w.start) is Operand for w in windows]) or any([type(e) is Operand and np.shape(
            ref.operands[e.number]) for e in indexer]):
        return ref
    key: list[Any] = []
    dim = 0
    for e in indexer:
        if type(e) is Window:
            start = ref.operands[e.start.number] if type(e.start) is Operand else e.start
            positions = start + e.stride * creation.arange(e.size, dtype=np.int32)
            key.append(positions.reshape([-1 if d == dim else 1 for d in range(len(windows))]))
            dim += 1
        else:
            key.append(ref.operands[e.number] if type(e) is Operand else e)
    return ref.ref.at[tuple(key)]
