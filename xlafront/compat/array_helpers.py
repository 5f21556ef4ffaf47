"""What libraries of arrays with units, and others that wrap functions of `jax.numpy` whole, take from behind it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from xlafront.lax.shapes import broadcast_shapes
from xlafront.numpy.index_tricks import Join
from xlafront.numpy.mapping import Sizes, parse_signature as _parse_gufunc_signature
from xlafront.numpy.updates import At as _IndexUpdateHelper, AtIndex as _IndexUpdateRef

__all__ = ["CClass", "RClass", "_IndexUpdateHelper", "_IndexUpdateRef", "_apply_excluded", "_check_output_dims",
           "_parse_gufunc_signature", "_parse_input_dimensions"]


class RClass(Join):
    """The class of `r_`."""

    def __init__(self) -> None:
        super().__init__("r_", 0, 1, -1)


class CClass(Join):
    """The class of `c_`."""

    def __init__(self) -> None:
        super().__init__("c_", -1, 2, 0)


def _parse_input_dimensions(args: Sequence[Any], input_core_dims: Sequence[tuple[str, ...]], error_context: str = ""
                            ) -> tuple[tuple[int, ...], dict[str, int]]:
    """The shape that is mapped over, and the sizes of the named dimensions, which come last in each argument."""
    if len(args) != len(input_core_dims):
        raise TypeError(f"wrong number of positional arguments: expected {len(input_core_dims)}, got {len(args)} "
                        f"{error_context}")
    sizes = Sizes(error_context)
    leading = [sizes.of_argument(np.shape(x), names) for x, names in zip(args, input_core_dims)]
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


def _apply_excluded(func: Callable, excluded: Collection[int | str], args: Sequence[Any], kwargs: dict[str, Any]
                    ) -> tuple[Callable, Sequence[Any], dict[str, Any]]:
    """A function with the excluded arguments, by position or name, in place, and those that are left."""
    if not excluded:
        return func, args, kwargs
    kept = [i for i in range(len(args)) if i not in excluded]
    named = {name: x for name, x in kwargs.items() if name in excluded}

    def rest(*others: Any, **keywords: Any) -> Any:
        whole = list(args)
        for i, x in zip(kept, others):
            whole[i] = x
        return func(*whole, **keywords, **named)

    return rest, [args[i] for i in kept], {name: x for name, x in kwargs.items() if name not in excluded}
