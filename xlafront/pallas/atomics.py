"""Atomic updates of references: their primitives, and the functions.

In interpreted kernels the points of the grid run one after the other, so atomic updates need no synchronization.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.core import dtypes, errors, tracing
from xlafront.core.refs import is_ref
from xlafront.lax import refs as ref_operations
from xlafront.lax.elementwise import PRIMITIVES
from xlafront.lax.ref_indexing import Indexer, read, write
from xlafront.lax.shapes import bitcast_convert_type
from xlafront.numpy import creation
from xlafront.numpy.searching import where
from xlafront.pallas import masked
from xlafront.pallas.ref_primitives import ref_primitive, selected_aval

# The name of each kind of update: the method of `.at[...]` that repeats updates at positions that occur twice, or the primitive
# of the new value; and the value that changes nothing, if there is one.
_UPDATES: dict[str, tuple[str | None, str | None, Callable[[np.dtype], Any] | None]] = {
    "atomic_add": ("add", None, lambda dtype: 0),
    "atomic_max": ("max", None, lambda dtype: dtypes.iinfo(dtype).min if dtypes.is_integer(dtype) else -np.inf),
    "atomic_min": ("min", None, lambda dtype: dtypes.iinfo(dtype).max if dtypes.is_integer(dtype) else np.inf),
    "atomic_and": (None, "and", None), "atomic_or": (None, "or", None), "atomic_xor": (None, "xor", lambda dtype: 0),
    "atomic_xchg": (None, None, None)}
_FLOATS_WITH_BITS = (np.float32, np.float64)  # floats that GPUs update by "and", "or" and "xor" of their bits


def _update(value: Any, new: Any, *operands: Any, tree: Sequence[Indexer], atomic_type: str, has_mask: bool) -> tuple[Any, Any]:
    """Return the old values of a part, and the updated value. Where the mask is False, nothing changes."""
    mask, operands = (operands[0], operands[1:]) if has_mask else (None, operands)
    method, primitive, neutral = _UPDATES[atomic_type]
    tree, operands = masked.explicit_indices(tree, operands)
    old = read(value, tree, operands)
    if mask is not None:
        new = where(mask, new, old if neutral is None else creation.asarray(neutral(old.dtype), dtype=old.dtype))
    if method is None:
        new = _combined(primitive, old, new) if primitive is not None else new
        return old, write(value, tree, operands, new)
    positions = creation.arange(value.size, dtype=np.int32).reshape(value.shape)
    positions = read(positions, tree, operands).reshape(-1)
    return old, getattr(value.reshape(-1).at[positions], method)(new.reshape(-1)).reshape(value.shape)


def _combined(primitive: str, x: Any, y: Any) -> Any:
    """Combine integers, or the bits of floats."""
    bits = np.dtype(f"int{8 * x.dtype.itemsize}") if dtypes.is_float(x.dtype) else x.dtype
    x_bits, y_bits = (bitcast_convert_type(z, bits) for z in (x, y))
    return bitcast_convert_type(PRIMITIVES[primitive].bind(x_bits, y_bits), x.dtype)


def _update_aval(ref: Any, new: Any, *avals: Any, tree: Sequence[Indexer], atomic_type: str, has_mask: bool) -> Any:
    return selected_aval(atomic_type, ref, tree, avals[has_mask:])


def _compare_and_swap(value: Any, expected: Any, new: Any) -> tuple[Any, Any]:
    return value, where(value == expected, new, value)


atomic_rmw_p = ref_primitive("atomic_rmw", _update, _update_aval, writes=True)
atomic_cas_p = ref_primitive("atomic_cas", _compare_and_swap,
                             lambda ref, expected, new: selected_aval("atomic_cas", ref, (), ()), writes=True)


def update(name: str, ref: Any, index: Any, value: Any, mask: Any) -> Any:
    """Update a part of a reference, and return the old values."""
    masked.check_ref(name, ref)
    ref, indexers, operands, shape = masked.part_of(ref.at[index])
    dtype = tracing.aval_of(ref).dtype
    if name in ("atomic_and", "atomic_or", "atomic_xor") and not (
            dtypes.is_integer(dtype) or dtype == np.bool_ or dtype in _FLOATS_WITH_BITS):
        raise TypeError(f"{name} takes a reference to integers, or to floats of 32 or 64 bits, got one of type "
                        f"{tracing.aval_of(ref)}.")
    masks = [] if mask is None else [masked.as_mask(name, mask, shape)]
    return atomic_rmw_p.bind(ref, masked.as_value(value, dtype, shape), *masks, *operands, tree=indexers, atomic_type=name,
                             has_mask=mask is not None)


def compare_and_swap(ref: Any, expected: Any, value: Any) -> Any:
    """Write to a reference to a scalar if it holds an expected value, and return the old value."""
    if isinstance(ref, ref_operations.RefView) or not is_ref(ref):
        raise TypeError(f"atomic_cas takes a reference, got {errors.short(ref)}.")
    aval = tracing.aval_of(ref)
    if aval.shape:
        raise ValueError(f"atomic_cas takes a reference to a scalar, got one of shape {aval.shape}.")
    return atomic_cas_p.bind(ref, *[masked.as_value(x, aval.dtype, ()) for x in (expected, value)])
