"""The properties of a TPU chip that kernels choose their blocks by."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

import numpy as np

from xlafront.base import config
from xlafront.base.meshes import active
from xlafront.core import dtypes, errors
from xlafront.core.traceback_filter import boundary
from xlafront.runtime import backends
from xlafront.runtime.topologies import TPU_ALIASES, TPUS


class ChipVersion(enum.Enum):
    """A version of TPU chips.

    Args:
        value: Name of the version.

    Example:
        >>> pl.tpu.ChipVersion("v5e").name
        'TPU_V5E'
    """

    TPU_V2 = "v2"
    TPU_V3 = "v3"
    TPU_V4I = "v4i"
    TPU_V4 = "v4"
    TPU_V5E = "v5e"
    TPU_V5P = "v5p"
    TPU_V6E = "v6e"
    TPU_7 = "7"
    TPU_7X = "7x"
    TPU_8I = "8i"
    TPU_8T = "8t"

    def __str__(self) -> str:
        return self.value


@dataclasses.dataclass(frozen=True)
class SparseCoreInfo:
    """The properties of the SparseCores of a TPU device.

    Args:
        num_cores: Number of SparseCores.
        num_subcores: Number of vector subcores of each.
        num_lanes: Number of 32-bit elements of a vector.
        vmem_capacity_bytes: Vector memory of a subcore.
        dma_granule_size_bytes: Unit of copies.

    Example:
        >>> pl.tpu_sc.get_sparse_core_info("tpu7x").num_lanes
        16
    """

    num_cores: int
    num_subcores: int
    num_lanes: int
    vmem_capacity_bytes: int
    dma_granule_size_bytes: int


SPARSE_CORES = {"v5p": SparseCoreInfo(4, 16, 8, 524288, 32), "v6e": SparseCoreInfo(2, 16, 8, 262144, 32),
                "tpu7x": SparseCoreInfo(2, 16, 16, 524288, 32)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TpuInfo:
    """The properties of a TPU, as one device of a program sees it.

    Args:
        chip_version: Version of the chip.
        generation: Number of the generation.
        num_cores: Cores of the device; two cores that are programmed as one count as one.
        num_lanes, num_sublanes: Shape of a vector register of 32-bit elements.
        mxu_column_size: Size of the matrix unit.
        num_mxus, num_accumulators: Numbers of matrix units, and of accumulators of products, which TPUs have from 7x on.
        vmem_capacity_bytes, cmem_capacity_bytes, smem_capacity_bytes, hbm_capacity_bytes: Sizes of the memories.
        mem_bw_bytes_per_second: Bandwidth of main memory.
        bf16_ops_per_second, int8_ops_per_second, fp8_ops_per_second, int4_ops_per_second: Peak rates of products; 0 where none
            is published.
        sparse_core: Properties of SparseCores; None for chips without.

    Example:
        >>> pl.tpu.get_tpu_info("v5e").vmem_capacity_bytes == 128 * 2**20
        True
    """

    chip_version: ChipVersion
    generation: int
    num_cores: int
    num_lanes: int
    num_sublanes: int
    mxu_column_size: int
    num_mxus: int
    num_accumulators: int
    vmem_capacity_bytes: int
    cmem_capacity_bytes: int
    smem_capacity_bytes: int
    hbm_capacity_bytes: int
    mem_bw_bytes_per_second: int
    bf16_ops_per_second: int
    int8_ops_per_second: int
    fp8_ops_per_second: int
    int4_ops_per_second: int
    sparse_core: SparseCoreInfo | None = None

    is_lite = property(lambda self: self.chip_version in (ChipVersion.TPU_V4I, ChipVersion.TPU_V5E, ChipVersion.TPU_V6E),
                       doc="True for chips with one core.")
    is_megacore = property(lambda self: self.num_cores == 2, doc="True if the device is two cores that are programmed as one.")
    is_split_chip = property(lambda self: (self.num_cores == 1 and not self.is_lite
                                           and self.chip_version is not ChipVersion.TPU_8T),
                             doc="True if the device is one of the two cores of a chip.")

    def get_sublane_tiling(self, dtype: Any) -> int:
        """Return the number of rows in a tile of arrays of a dtype."""
        bits = dtypes.itemsize_bits(dtypes.canonicalize_dtype(dtype))
        if bits == 16 and self.generation < 7:
            return self.num_sublanes  # tiles of 16-bit elements may be as those of 32-bit ones there
        return self.num_sublanes * 32 // bits

    def is_matmul_supported(self, lhs_dtype: Any, rhs_dtype: Any) -> bool:
        """Return True if the matrix unit multiplies operands of these dtypes, which kernels need not convert.

        Args:
            lhs_dtype: dtype of the left operand.
            rhs_dtype: dtype of the right operand.

        Returns:
            True if it does.

        Example:
            >>> info = pl.tpu.get_tpu_info("v6e")
            >>> info.is_matmul_supported("int8", "int8"), info.is_matmul_supported("int8", "bfloat16")
            (True, False)
        """
        lhs, rhs = (np.dtype(dtypes.canonicalize_dtype(d)).name for d in (lhs_dtype, rhs_dtype))
        products = _PRODUCTS.get(self.chip_version) or _PRODUCTS[self.generation]
        return any([lhs in left.split() and rhs in right.split() for left, right in products])


# By generation, or version where versions differ: the dtypes of left and right operands that the matrix unit multiplies.
_WIDE, _FLOAT8 = "float32 bfloat16", "float8_e5m2 float8_e4m3fn"
_FLOATS = f"{_WIDE} float8_e5m2 float8_e4m3b11fnuz"
_GENERATION_5 = ((_FLOATS, _FLOATS), ("int8 uint8", "int8 uint8"), ("int4 uint4", "int4 uint4"))
_PRODUCTS: dict[Any, tuple[tuple[str, str], ...]] = {
    2: (("float32", "float32"),), 3: (("float32", "float32"),), 4: ((_WIDE, f"{_WIDE} int8"),),
    5: _GENERATION_5, 6: _GENERATION_5, 7: ((_WIDE, f"{_WIDE} {_FLOAT8}"), (_FLOAT8, _FLOAT8)),
    ChipVersion.TPU_8I: ((_WIDE, f"{_WIDE} {_FLOAT8} int4 uint4"), (_FLOAT8, f"{_FLOAT8} int4 uint4")),
    ChipVersion.TPU_8T: ((_WIDE, f"{_WIDE} {_FLOAT8} int4"), (_FLOAT8, f"{_FLOAT8} int4")),
}


# By the name of the chip: version, generation, sizes of the matrix unit, numbers of matrix units; MiB of vector memory and of
# common memory, KiB of scalar memory; peak rates for int8, fp8 and int4 as multiples of that for bfloat16, 0 where JAX states
# none, since kernels choose their dtypes by that. libtpu 0.0.52 states the sizes of vector and scalar memory when it refuses a
# kernel.
_TABLE = {
    "v2": ("v2", 2, 128, 1, 16, 0, 16, 0, 0, 0),
    "v3": ("v3", 3, 128, 2, 16, 0, 16, 0, 0, 0),
    "v4": ("v4", 4, 128, 4, 16, 128, 1024, 0, 0, 0),
    "v5e": ("v5e", 5, 128, 4, 128, 0, 1024, 2, 0, 4),
    "v5p": ("v5p", 5, 128, 4, 64, 0, 1024, 2, 0, 4),
    "v6e": ("v6e", 6, 256, 2, 128, 0, 1024, 2, 1, 4),
    "tpu7x": ("7x", 7, 256, 2, 64, 0, 1024, 0, 2, 0),
}
# Chips that libtpu 0.0.52 does not compile for, with the properties that JAX states.
_FURTHER_CHIPS = {info.chip_version: info for info in (
    TpuInfo(chip_version=ChipVersion.TPU_V4I, generation=4, num_cores=1, num_lanes=128, num_sublanes=8, mxu_column_size=128,
            num_mxus=4, num_accumulators=0, vmem_capacity_bytes=16 << 20, cmem_capacity_bytes=134 * 10**6,
            smem_capacity_bytes=1 << 20, hbm_capacity_bytes=8590 * 10**6, mem_bw_bytes_per_second=614 * 10**9,
            bf16_ops_per_second=137 * 10**12, int8_ops_per_second=0, fp8_ops_per_second=0, int4_ops_per_second=0),
    TpuInfo(chip_version=ChipVersion.TPU_8I, generation=8, num_cores=1, num_lanes=128, num_sublanes=8, mxu_column_size=256,
            num_mxus=2, num_accumulators=256, vmem_capacity_bytes=192 << 20, cmem_capacity_bytes=0,
            smem_capacity_bytes=1 << 20, hbm_capacity_bytes=154500 * 10**6, mem_bw_bytes_per_second=4300 * 10**9,
            bf16_ops_per_second=5505 * 10**11, int8_ops_per_second=0, fp8_ops_per_second=4404 * 10**12, int4_ops_per_second=0,
            sparse_core=SparseCoreInfo(1, 4, 16, 524288, 64)),
    TpuInfo(chip_version=ChipVersion.TPU_8T, generation=8, num_cores=1, num_lanes=128, num_sublanes=16, mxu_column_size=256,
            num_mxus=2, num_accumulators=256, vmem_capacity_bytes=128 << 20, cmem_capacity_bytes=0,
            smem_capacity_bytes=1 << 20, hbm_capacity_bytes=231 * 10**9, mem_bw_bytes_per_second=6400 * 10**9,
            bf16_ops_per_second=9961 * 10**11, int8_ops_per_second=9961 * 10**11, fp8_ops_per_second=59769 * 10**11,
            int4_ops_per_second=119538 * 10**11, sparse_core=SparseCoreInfo(2, 16, 16, 262144, 64)))}


# Chips whose two cores can be one device.
_MEGACORES = ("v4", "v5p")


def _info(name: str, num_cores: int = 1) -> TpuInfo:
    version, generation, columns, units, vmem, cmem, smem, int8, fp8, int4 = _TABLE[name]
    chip = TPUS[name]
    flops = int(chip.flops)
    return TpuInfo(
        chip_version=ChipVersion(version), generation=generation, num_cores=num_cores, num_lanes=128, num_sublanes=8,
        mxu_column_size=columns, num_mxus=units, num_accumulators=128 if name == "tpu7x" else 0, vmem_capacity_bytes=vmem << 20,
        cmem_capacity_bytes=cmem << 20, smem_capacity_bytes=smem << 10, hbm_capacity_bytes=chip.memory,
        mem_bw_bytes_per_second=int(chip.bandwidth), bf16_ops_per_second=flops, int8_ops_per_second=int8 * flops,
        fp8_ops_per_second=fp8 * flops, int4_ops_per_second=int4 * flops, sparse_core=SPARSE_CORES.get(name))


def active_chip() -> str | None:
    """Return the name of the TPU that is compiled for; None if it is none."""
    devices = [_device_of_mesh(), config.default_device.value, backends.default_device()]
    kinds = [getattr(device, "device_kind", None) for device in devices]
    return next((name for kind in kinds for name in _TABLE if kind in (TPUS[name].kind, f"TPU {name}")), None)


@boundary
def get_tpu_info(chip: str | None = None) -> TpuInfo:
    """Return the properties of the TPU that is compiled for, which need not be there.

    It is the first of these that is a TPU: the devices of the mesh of `set_mesh` (of a topology, too), the `AbstractDevice` of
    the mesh of `use_abstract_mesh`, the device of `default_device`, the default device of the process.

    Args:
        chip: Name of the chip, such as "v5e". Default: the chip that is compiled for.

    Returns:
        The properties.

    Example:
        >>> pl.tpu.get_tpu_info("v6e").mxu_column_size
        256
    """
    if chip is not None:
        name = TPU_ALIASES.get(chip, chip)
        if name not in _TABLE:
            raise ValueError(f"get_tpu_info knows no TPU named {errors.short(chip)}; it knows {', '.join(_TABLE)}.")
        return _info(name)
    found = active_chip()
    if found is None:
        kind = getattr(backends.default_device(), "device_kind", None)
        raise ValueError(f"get_tpu_info found no TPU: the default device is {kind!r}. Name the chip, get_tpu_info('v5e'), "
                         "or trace under a mesh of TPUs: "
                         "set_mesh(topologies.make_mesh(topologies.get_topology_desc('v5e:1x1'), (1,), ('x',))). "
                         "xlafront.plan(f, ..., topology='v5e:1x1') sets one.")
    num_cores = getattr(_device_of_mesh(), "num_cores", None)
    return _info(found, 2 if num_cores == 2 and found in _MEGACORES else 1)


@boundary
def get_tpu_info_for_chip(chip_version: ChipVersion, num_tensor_cores_per_logical_device: int) -> TpuInfo:
    """Return the properties of a version of TPU chips, which need not be there.

    Args:
        chip_version: The version.
        num_tensor_cores_per_logical_device: Number of cores that are programmed as one: 1, or 2 for v4 and v5p.

    Returns:
        The properties.

    Example:
        >>> pl.tpu.get_tpu_info_for_chip(pl.tpu.ChipVersion.TPU_V5P, 2).is_megacore
        True
    """
    known = {ChipVersion(row[0]): name for name, row in _TABLE.items()} | {ChipVersion.TPU_7: "tpu7x"}
    name = known.get(chip_version)
    if num_tensor_cores_per_logical_device not in ((1, 2) if name in _MEGACORES else (1,)):
        raise ValueError(f"get_tpu_info_for_chip got num_tensor_cores_per_logical_device={num_tensor_cores_per_logical_device} "
                         f"for {chip_version.name}: it must be 1{', or 2' if name in _MEGACORES else ''}.")
    if name is None:
        return _FURTHER_CHIPS[chip_version]
    return dataclasses.replace(_info(name, num_tensor_cores_per_logical_device), chip_version=chip_version)


def _device_of_mesh() -> Any:
    """Return a device of the mesh in context, or its description; None if there is no mesh, or none with devices."""
    if active.abstract is not None:
        return active.abstract.abstract_device
    devices = getattr(active.mesh, "devices", None)
    return None if devices is None or not devices.size else devices.flat[0]
