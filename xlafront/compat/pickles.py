"""What files name that `pickle` wrote under jax, and that has another name here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xlafront.core.avals import ShapedArray
from xlafront.core.dtypes import PRNGKeyDType as KeyTy, canonicalize_dtype
from xlafront.numpy.creation import put_new
from xlafront.random import rbg, threefry
from xlafront.runtime.layouts import MemorySpace

__all__ = ["KeyTy", "MemorySpace"]

# The functions of a random number generator are in the file of its keys.
threefry_seed, threefry_split = threefry.seed, threefry.split
threefry_random_bits, threefry_fold_in = threefry.random_bits, threefry.fold_in
_rbg_seed, _rbg_split, _rbg_random_bits, _rbg_fold_in = rbg.seed, rbg.split, rbg.random_bits, rbg.fold_in
_unsafe_rbg_split, _unsafe_rbg_fold_in = rbg.unsafe_split, rbg.unsafe_fold_in


def _reconstruct_array(make: Callable, arguments: tuple, state: Any, of_type: dict[str, Any]) -> Any:
    """An array: how NumPy makes its values, and what NumPy does not know of its type."""
    value: np.ndarray = make(*arguments)
    value.__setstate__(state)
    return put_new(value, ShapedArray(value.shape, canonicalize_dtype(value.dtype), of_type["weak_type"]))
