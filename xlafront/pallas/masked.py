"""Masked reads and writes of slices of references: their primitives, and the functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.core import errors, tracing
from xlafront.core.basic_primitives import to_dtype
from xlafront.core.refs import is_ref
from xlafront.lax import refs as ref_operations
from xlafront.lax.ref_indexing import Indexer, Operand, Window, read, text, write
from xlafront.numpy import creation, manipulation
from xlafront.numpy.searching import where
from xlafront.pallas.ref_primitives import ref_primitive, selected_aval

# The primitives. Operands of a read: the reference, the mask, the value where it is False (if there is one), and the operands
# of the indexers. Operands of a write: the reference, the value, the mask, and the operands of the indexers.


def explicit_indices(indexers: Sequence[Indexer], operands: Sequence[Any]) -> tuple[Sequence[Indexer], Sequence[Any]]:
    """Convert a window with a dynamic start to explicit indices of its elements.

    A masked window can extend beyond the end of the array; as a window, its start would be clamped. Writes beyond the end are
    dropped.
    """
    if len(indexers) != 1:
        return indexers, operands
    [indexer] = indexers
    windows = [e for e in indexer if type(e) is Window]
    if not any([type(w.start) is Operand for w in windows]) or any([type(e) is Operand and np.shape(
            operands[e.number]) for e in indexer]):
        return indexers, operands
    entries: list[Any] = []
    new_operands: list[Any] = []
    dim = 0
    for e in indexer:
        if type(e) is not Window:
            new_operands.append(np.int32(e) if type(e) is int else operands[e.number])
        else:
            start = operands[e.start.number] if type(e.start) is Operand else e.start
            positions = start + e.stride * creation.arange(e.size, dtype=np.int32)
            new_operands.append(positions.reshape([-1 if d == dim else 1 for d in range(len(windows))]))
            dim += 1
        entries.append(Operand(len(new_operands) - 1))
    return (tuple(entries),), new_operands


def _load(value: Any, mask: Any, *operands: Any, tree: Sequence[Indexer], has_other: bool, **_: Any) -> tuple[Any, None]:
    other, operands = (operands[0], operands[1:]) if has_other else (None, operands)
    found = read(value, *explicit_indices(tree, operands))
    return where(mask, found, other) if has_other else found, None


def _load_aval(ref: Any, mask: Any, *avals: Any, tree: Sequence[Indexer], has_other: bool, **_: Any) -> Any:
    return selected_aval("load", ref, tree, avals[has_other:])


def _swap(value: Any, new: Any, mask: Any, *operands: Any, tree: Sequence[Indexer], **_: Any) -> tuple[Any, Any]:
    tree, operands = explicit_indices(tree, operands)
    old = read(value, tree, operands)
    return old, write(value, tree, operands, where(mask, new, old))


def _swap_aval(ref: Any, new: Any, mask: Any, *avals: Any, tree: Sequence[Indexer], **_: Any) -> Any:
    return selected_aval("store", ref, tree, avals)


def _part_text(atoms: Sequence[str], eqn: Any, first: int) -> str:
    shapes = [v.aval.shape for v in eqn.invars]
    return f"{atoms[0]}{text(shapes[0], eqn.params['tree'], atoms[first:], shapes[first:])}"


def _load_text(left: str, is_unused: bool, atoms: Sequence[str], eqn: Any) -> str:
    has_other = eqn.params["has_other"]
    other = f" other={atoms[2]}" if has_other else ""
    return f"{left} <- {_part_text(atoms, eqn, 2 + has_other)} mask={atoms[1]}{other}"


def _swap_text(left: str, is_unused: bool, atoms: Sequence[str], eqn: Any) -> str:
    part = _part_text(atoms, eqn, 3)
    return f"{part} <- {atoms[1]} mask={atoms[2]}" if is_unused else f"{left}, {part} <- {part}, {atoms[1]} mask={atoms[2]}"


masked_load_p = ref_primitive("masked_load", _load, _load_aval, writes=False, printed_as=_load_text)
masked_swap_p = ref_primitive("masked_swap", _swap, _swap_aval, writes=True, printed_as=_swap_text)

# The functions


def load(ref: Any, mask: Any = None, other: Any = None, cache_modifier: str | None = None, eviction_policy: str | None = None,
         is_volatile: bool = False) -> Any:
    """Read a slice of a reference. Where the mask is False, return `other`, or arbitrary values."""
    check_ref("load", ref)
    if mask is None and other is not None:
        raise ValueError("load takes `other`, the value where the mask is False, only with a mask.")
    hints = {"cache_modifier": cache_modifier, "eviction_policy": eviction_policy, "is_volatile": is_volatile}
    if mask is None:
        if not any(hints.values()):
            return ref_operations.get(ref)
        mask = True
    ref, indexers, operands, shape = part_of(ref)
    others = [] if other is None else [as_value(other, tracing.aval_of(ref).dtype, shape)]
    return masked_load_p.bind(ref, as_mask("load", mask, shape), *others, *operands, tree=indexers,
                              has_other=other is not None, **hints)


def store(ref: Any, val: Any, mask: Any = None, eviction_policy: str | None = None) -> None:
    """Write to a slice of a reference where the mask is True."""
    check_ref("store", ref)
    if mask is None:
        if eviction_policy is None:
            ref_operations.set(ref, ..., val)
            return
        mask = True
    ref, indexers, operands, shape = part_of(ref)
    masked_swap_p.bind(ref, as_value(val, tracing.aval_of(ref).dtype, shape), as_mask("store", mask, shape), *operands,
                       tree=indexers, eviction_policy=eviction_policy)


def check_ref(caller: str, ref: Any) -> None:
    if not isinstance(ref, ref_operations.RefView) and not is_ref(ref):
        raise TypeError(f"{caller} takes a reference, or a part of one as ref.at[...], got {errors.short(ref)}.")


def part_of(ref: Any) -> tuple[Any, tuple[Indexer, ...], tuple, tuple[int, ...]]:
    """Return the reference of a view, its indexers, their operands, and the shape of the viewed part."""
    if isinstance(ref, ref_operations.RefView):
        return ref.ref, ref.indexers, ref.operands, ref.shape
    return ref, (), (), tracing.aval_of(ref).shape


def as_value(x: Any, dtype: Any, shape: tuple[int, ...]) -> Any:
    """Convert a value to the dtype of a reference, and broadcast it to the shape of a part of it."""
    return manipulation.broadcast_to(to_dtype(creation.asarray(x), dtype), shape)


def as_mask(caller: str, mask: Any, shape: tuple[int, ...]) -> Any:
    """Broadcast a mask to the shape of a part of a reference."""
    mask = creation.asarray(mask)
    if mask.dtype != np.bool_:
        raise TypeError(f"{caller} takes a mask of dtype bool, got {mask.dtype}. Compare first: mask != 0.")
    return manipulation.broadcast_to(mask, shape)
