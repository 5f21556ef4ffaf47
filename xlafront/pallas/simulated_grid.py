"""The order of the steps of a simulated kernel, and the cores that make them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from xlafront.core import tracing
from xlafront.core.ir import Jaxpr
from xlafront.pallas.grid_mapping import GridMapping
from xlafront.pallas.interpret_params import InterpretParams
from xlafront.pallas.primitives import index_aval

_PARALLEL = ("parallel", "core_parallel")


class Order:
    """The order of the steps along the axes of a grid that the kernel sees.

    An axis whose steps may be in any order is mapped by `i -> (factor * i + offset) % size`, with numbers that follow from the
    seed. The cores share the steps of the first axis, if it is one of those: each has a contiguous range.

    Args:
        sizes: Size of each axis, None for those that are known only at run time.
        params: The user's choices.
        semantics: For each axis its dimension semantics; None for "arbitrary".
        label: Name and place of the kernel.
    """

    def __init__(self, sizes: Sequence[int | None], params: InterpretParams, semantics: Sequence[Any] | None, label: str
                 ) -> None:
        names = [getattr(s, "value", s) for s in semantics or ()]
        is_parallel = [axis < len(names) and names[axis] in _PARALLEL for axis in range(len(sizes))]
        self.sizes, self.maps = tuple(sizes), [(1, 0)] * len(sizes)
        if params.random_seed is not None:
            random = np.random.default_rng(params.random_seed)
            self.maps = [_permutation(random, n) if parallel and n else (1, 0) for n, parallel in zip(sizes, is_parallel)]
        self.num_cores = params.num_cores_or_threads if any(is_parallel) else 1
        if self.num_cores > 1 and not (is_parallel[0] and sizes[0]):
            raise NotImplementedError(f"the kernel {label}: several cores share the steps of the first axis of the grid, which "
                                      f"is not of a static size and parallel. Make it so, or leave num_cores_or_threads out.")
        if params.grid_point_recorder is not None and None in sizes:
            raise NotImplementedError(f"the kernel {label}: grid_point_recorder is for grids of static sizes, this one is "
                                      f"{self.sizes}.")

    is_ascending = property(lambda self: all([m == (1, 0) for m in self.maps]))

    def point(self, indices: Sequence[Any]) -> list[Any]:
        """Return the point of the grid that is computed at an index of the loop."""
        return [i if m == (1, 0) else (i * i.dtype.type(m[0]) + i.dtype.type(m[1])) % i.dtype.type(n)
                for i, m, n in zip(indices, self.maps, self.sizes)]

    def core(self, indices: Sequence[Any]) -> Any:
        """Return the number of the core that makes the step with this index of the loop."""
        if self.num_cores == 1:
            return np.int32(0)
        return indices[0] * np.int32(self.num_cores) // np.int32(self.sizes[0])

    def begins_core(self, indices: Sequence[Any]) -> Any:
        """Return whether the first axis is at the first index of a core."""
        if self.num_cores == 1:
            return indices[0] == 0
        return (indices[0] == 0) | (self.core(indices) != self.core([indices[0] - np.int32(1)]))

    def ends_core(self, indices: Sequence[Any], size: Any) -> Any:
        """Return whether the first axis is at the last index of a core."""
        if self.num_cores == 1:
            return indices[0] == size - 1
        return (indices[0] == size - 1) | (self.core(indices) != self.core([indices[0] + np.int32(1)]))

    def points(self) -> Iterator[tuple[tuple[Any, ...], Any]]:
        """Yield the point and the core of each step."""
        for indices in itertools.product(*[range(n or 0) for n in self.sizes]):
            numbers = [np.int32(i) for i in indices]
            yield tuple(self.point(numbers)), np.int32(self.core(numbers))

    def reordered(self, mapping: GridMapping) -> GridMapping:
        """Return the mapping whose index maps take the index of the loop."""
        if self.is_ascending:
            return mapping
        rank, axes = len(mapping.grid), mapping.kernel_axes

        def at_index(index_map: Jaxpr) -> Jaxpr:
            def run(*args: Any) -> list[Any]:
                indices = list(args[:rank])
                for axis, i in zip(axes, self.point([indices[a] for a in axes])):
                    indices[axis] = i
                return index_map(*indices, *args[rank:])

            jaxpr, consts = tracing.trace_to_jaxpr(run, [index_aval] * rank + list(mapping.index_avals),
                                                   index_map.debug_info.with_unknown_names())
            return jaxpr.with_consts(consts)

        return mapping.with_index_maps([at_index(b.index_map_jaxpr) for b in mapping.block_mappings])


def _permutation(random: np.random.Generator, size: int) -> tuple[int, int]:
    """Return a factor without a divisor in common with the size, and an offset."""
    factors = [n for n in range(1, size + 1) if math.gcd(n, size) == 1]
    return int(random.choice(factors)), int(random.integers(size))
