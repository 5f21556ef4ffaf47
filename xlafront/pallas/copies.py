"""Copies between parts of references, also of rows at indices; some rows may be skipped."""

from __future__ import annotations

from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront.lax import refs as ref_operations
from xlafront.lax.ref_indexing import Operand


def copy_views(source: Any, target: Any, add: bool) -> None:
    """Copy from one view to another, or add to it. Rows whose index is ignored are skipped."""
    value = ref_operations.get(source)
    if is_filtered(source) or is_filtered(target):
        _copy_rows(source, target, value, add)
    else:
        (ref_operations.addupdate if add else ref_operations.set)(target, ..., value)


def is_filtered(view: Any) -> bool:
    """True if a copy of a view skips rows, whose index is an ignored value."""
    return any([type(e) is Operand and e.ignored is not None for indexer in view.indexers for e in indexer])


def _copy_rows(source: Any, target: Any, value: Any, add: bool) -> None:
    """Copy the rows that are not ignored."""
    def is_copied(view: Any) -> Any:
        if len(view.indexers) != 1 or not is_filtered(view) or type(view.indexers[0][0]) is not Operand:
            raise NotImplementedError("a copy with Indices and an ignored_value takes them as the first index of a reference, "
                                      "with complete rows: ref.at[Indices(...)].")
        indices = view.operands[view.indexers[0][0].number]
        return indices, indices != view.indexers[0][0].ignored

    if is_filtered(source):
        _, mask = is_copied(source)
        before = ref_operations.get(target)
        new = before + value if add else value
        ref_operations.set(target, ..., xnp.where(mask.reshape(-1, *[1] * (value.ndim - 1)), new, before))
        return
    indices, mask = is_copied(target)
    base = ref_operations.RefView(target.ref, (), ())
    before = ref_operations.get(base)
    rows = before.at[xnp.where(mask, indices, np.int32(before.shape[0]))]  # beyond the end, where updates are dropped
    ref_operations.set(base, ..., rows.add(value, mode="drop") if add else rows.set(value, mode="drop"))
