"""What libraries of arrays with units, and others that wrap functions of `jax.numpy` whole, take from behind it."""

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
    """The shape that is mapped over, and the sizes of the named dimensions, which come last in each argument."""
    sizes = Sizes(error_context)
    leading = sizes.of_arguments(list(map(np.shape, args)), input_core_dims)
    return broadcast_shapes("vectorize", *leading), sizes.found


def _check_output_dims(func: Callable, dim_sizes: dict[str, int], expected_output_core_dims: Sequence[tuple[str, ...]],
                       error_context: str = "") -> Callable:
    """A function whose results must have the dimensions that a signature names."""
    def checked(*args: Any) -> Any:
        result = func(*args)
        sizes = Sizes(error_context)
        sizes.found.update(dim_sizes)
        sizes.check_results(result, expected_output_core_dims)
        return result

    return checked
