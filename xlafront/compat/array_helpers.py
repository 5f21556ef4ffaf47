"""Private helpers of `jax.numpy` for libraries that wrap its functions, such as arrays with units."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.lax.shapes import broadcast_shapes
from xlafront.numpy.index_tricks import CClass, RClass
from xlafront.numpy.mapping import Sizes, parse_signature as _parse_gufunc_signature, without_excluded as _apply_excluded
from xlafront.numpy.updates import At as _IndexUpdateHelper, AtIndex as _IndexUpdateRef

__all__ = ["CClass", "RClass", "_IndexUpdateHelper", "_IndexUpdateRef", "_apply_excluded", "_check_output_dims",
           "_parse_gufunc_signature", "_parse_input_dimensions"]


def _parse_input_dimensions(args: Sequence[Any], input_core_dims: Sequence[tuple[str, ...]], error_context: str = ""
                            ) -> tuple[tuple[int, ...], dict[str, int]]:
    """Return the broadcast loop shape, and the sizes of the core dimensions, which are the last ones of each argument."""
    sizes = Sizes(error_context)
    leading = sizes.record_arguments(list(map(np.shape, args)), input_core_dims)
    return broadcast_shapes("vectorize", *leading), sizes.sizes


def _check_output_dims(func: Callable, dim_sizes: dict[str, int], expected_output_core_dims: Sequence[tuple[str, ...]],
                       error_context: str = "") -> Callable:
    """Return a function that checks the core dimensions of its results against a signature."""
    def checked(*args: Any) -> Any:
        result = func(*args)
        sizes = Sizes(error_context)
        sizes.sizes.update(dim_sizes)
        sizes.check_results(result, expected_output_core_dims)
        return result

    return checked
