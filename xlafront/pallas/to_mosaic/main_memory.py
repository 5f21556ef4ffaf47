"""Scratch memory in main memory. Mosaic allocates none: it is passed as results of the kernel, which are discarded.

Steps along parallel axes of the grid may run on several cores at a time, which share main memory. Each has its own part then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlafront.core.avals import ShapedArray
from xlafront.core.ir import Jaxpr, Var
from xlafront.core.jaxpr import subprograms
from xlafront.pallas.grid_mapping import GridMapping
from xlafront.pallas.to_mosaic.memrefs import MAIN_SPACES, space_of

_PARALLEL = ("parallel", "core_parallel", "subcore_parallel")


class MainMemory(NamedTuple):
    """The scratch memory of a kernel in main memory.

    Attributes:
        variables: Variables of the references, in the kernel's jaxpr and those of `run_scoped`.
        axes: Axes of the grid each of whose steps has its own part.
        sizes: Sizes of the grid along these axes.
    """

    variables: tuple[Var, ...]
    axes: tuple[int, ...]
    sizes: tuple[int, ...]

    def shape(self, v: Var) -> tuple[int, ...]:
        """Return the shape of the result in place of a variable."""
        return (*self.sizes, *v.aval.shape)

    def types(self) -> list[ShapedArray]:
        """Return the types of the results."""
        return [ShapedArray(self.shape(v), np.dtype(np.int32) if v.aval.dtype == np.bool_ else v.aval.dtype)
                for v in self.variables]


NO_MEMORY = MainMemory((), (), ())


def main_memory(label: str, jaxpr: Jaxpr, mapping: GridMapping, semantics: Sequence[str] | None) -> MainMemory:
    """Return the scratch memory of a kernel in main memory.

    Args:
        label: Name of the kernel, for messages.
        jaxpr: The kernel.
        mapping: Its grid and blocks.
        semantics: For each axis of the grid that the kernel sees, "parallel", "arbitrary", ...
    """
    variables = tuple(dict.fromkeys([v for v in _scratch_variables(jaxpr, mapping.num_scratch_operands)
                                     if space_of(v.aval.memory_space) in MAIN_SPACES]))
    axes = [d for d, name in zip(mapping.kernel_axes, semantics or ()) if name in _PARALLEL] if variables else []
    sizes = [mapping.grid[d] for d in axes]
    if None in sizes:
        raise ValueError(f"the kernel {label} has scratch memory of type {variables[0].aval}, and a parallel axis of the grid "
                         f"whose size is known only at run time. Make the axis \"arbitrary\" in dimension_semantics, or use "
                         f"pltpu.VMEM.")
    return MainMemory(variables, tuple(axes), tuple([n for n in sizes if n is not None]))


def _scratch_variables(jaxpr: Jaxpr, count: int) -> Iterator[Any]:
    """Yield the variables of scratch memory: the last inputs of a jaxpr, and those of `run_scoped` in it."""
    yield from jaxpr.invars[len(jaxpr.invars) - count:]
    for eqn in jaxpr.eqns:
        for inner in subprograms(eqn.params):
            yield from _scratch_variables(inner, eqn.params["count"] if eqn.primitive.name == "run_scoped" else 0)
