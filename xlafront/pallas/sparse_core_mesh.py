"""The SparseCores of TPUs: their properties, and meshes of their subcores for `pl.kernel`."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from xlafront.core.traceback_filter import boundary
from xlafront.pallas.tpu import HBM, CoreType, GridDimensionSemantics
from xlafront.pallas.tpu_info import SPARSE_CORES, SparseCoreInfo, active_chip


@boundary
def get_sparse_core_info(chip: str | None = None) -> SparseCoreInfo:
    """Return the properties of the SparseCores of the TPU that is compiled for, which need not be there.

    Args:
        chip: Name of the chip: "v5p", "v6e" or "tpu7x". Default: the chip that is compiled for.

    Returns:
        The properties.

    Example:
        >>> pl.tpu_sc.get_sparse_core_info("v6e").num_cores
        2
    """
    name = chip or active_chip()
    if name not in SPARSE_CORES:
        raise RuntimeError(f"get_sparse_core_info: {f'TPU {name} has' if name else 'there is no TPU here, and it has'} no "
                           f"SparseCores. Name a chip that has: {', '.join(SPARSE_CORES)}.")
    return SPARSE_CORES[name]


def _default(field: str) -> Any:
    return lambda: getattr(SPARSE_CORES.get(active_chip() or ""), field, 1)


def _check(mesh: Any, *fields: str) -> None:
    for field in fields:
        n = getattr(mesh, field)
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
            raise ValueError(f"{type(mesh).__name__} takes {field} of 1 at least, got {n!r}.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScalarSubcoreMesh:
    """The scalar subcores of the SparseCores of a TPU, one in each core, as a mesh for `pl.kernel`.

    Args:
        axis_name: Name of the axis of cores.
        num_cores: Number of cores. Default: that of the TPU that is compiled for, or 1.

    Example:
        >>> pl.tpu_sc.ScalarSubcoreMesh(axis_name="core", num_cores=2).shape
        {'core': 2}
    """

    axis_name: str
    num_cores: int = dataclasses.field(default_factory=_default("num_cores"))

    core_type = CoreType.SC_SCALAR_SUBCORE
    default_memory_space = HBM
    dimension_semantics = (GridDimensionSemantics.CORE_PARALLEL,)

    def __post_init__(self) -> None:
        _check(self, "num_cores")

    shape = property(lambda self: {self.axis_name: self.num_cores}, doc="The size of the axis, by its name.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class VectorSubcoreMesh:
    """The vector subcores of the SparseCores of a TPU, as a mesh of cores and subcores for `pl.kernel`.

    Args:
        core_axis_name, subcore_axis_name: Names of the axes.
        num_cores, num_subcores: Sizes of the axes. Default: those of the TPU that is compiled for, or 1.

    Example:
        >>> pl.tpu_sc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=2, num_subcores=16).shape
        {'core': 2, 'subcore': 16}
    """

    core_axis_name: str
    subcore_axis_name: str
    num_cores: int = dataclasses.field(default_factory=_default("num_cores"))
    num_subcores: int = dataclasses.field(default_factory=_default("num_subcores"))

    core_type = CoreType.SC_VECTOR_SUBCORE
    default_memory_space = HBM
    dimension_semantics = (GridDimensionSemantics.CORE_PARALLEL, GridDimensionSemantics.SUBCORE_PARALLEL)

    def __post_init__(self) -> None:
        _check(self, "num_cores", "num_subcores")

    shape = property(lambda self: {self.core_axis_name: self.num_cores, self.subcore_axis_name: self.num_subcores},
                     doc="The sizes of the axes, by name.")
