"""Names in pickles written by jax that have other names here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xlafront.base.layouts import MemorySpace
from xlafront.core.avals import ShapedArray
from xlafront.core.dtypes import PRNGKeyDType as KeyTy, canonicalize_dtype
from xlafront.numpy.creation import put_new
from xlafront.random import rbg, threefry

__all__ = ["KeyTy", "MemorySpace"]

# Pickles of keys refer to the functions of their generator.
threefry_seed, threefry_split = threefry.seed, threefry.split
threefry_random_bits, threefry_fold_in = threefry.random_bits, threefry.fold_in
_rbg_seed, _rbg_split, _rbg_random_bits, _rbg_fold_in = rbg.seed, rbg.split, rbg.random_bits, rbg.fold_in
_unsafe_rbg_split, _unsafe_rbg_fold_in = rbg.unsafe_split, rbg.unsafe_fold_in


def _reconstruct_array(make: Callable, arguments: tuple, state: Any, of_type: dict[str, Any]) -> Any:
    """Reconstruct an array from NumPy's state and the properties of its type that NumPy does not have."""
    value: np.ndarray = make(*arguments)
    value.__setstate__(state)
    return put_new(value, ShapedArray(value.shape, canonicalize_dtype(value.dtype), of_type["weak_type"]))
