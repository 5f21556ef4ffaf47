"""Descriptions of GPUs for kernels that Triton compiles."""

from __future__ import annotations

import dataclasses
import enum

from xlafront.core.traceback_filter import boundary
from xlafront.runtime import backends


class GpuVersion(enum.Enum):
    """A model of NVIDIA GPUs.

    Args:
        value: Name of the model, as a device has it.

    Example:
        >>> pl.triton.GpuVersion("NVIDIA H100").name
        'H100'
    """

    A10 = "NVIDIA A10"
    A30 = "NVIDIA A30"
    A100 = "NVIDIA A100"
    H100 = "NVIDIA H100"
    H200 = "NVIDIA H200"
    GH200 = "NVIDIA GH200"
    B200 = "NVIDIA B200"
    GB200 = "NVIDIA GB200"
    B300 = "NVIDIA B300"
    GB300 = "NVIDIA GB300"
    GB10 = "NVIDIA GB10"
    L4 = "NVIDIA L4"
    L40 = "NVIDIA L40"
    T4 = "Tesla T4"
    RTX_4090 = "NVIDIA GeForce RTX 4090"
    RTX_PRO_4500 = "NVIDIA RTX PRO 4500"
    RTX_PRO_5000 = "NVIDIA RTX PRO 5000"
    RTX_PRO_6000 = "NVIDIA RTX PRO 6000"
    THOR = "NVIDIA Thor"
    VR200 = "NVIDIA VR200"


@dataclasses.dataclass(frozen=True, kw_only=True)
class GpuInfo:
    """The properties of a GPU.

    Args:
        gpu_version: Model of the GPU; None for one that has no name here.
        arch_name: Name of the architecture, such as "sm_90".
        compute_capability: Compute capability as a number, such as 90.

    Example:
        >>> pl.triton.GpuInfo(gpu_version=pl.triton.GpuVersion.H100, arch_name="sm_90", compute_capability=90).arch_name
        'sm_90'
    """

    gpu_version: GpuVersion | None
    arch_name: str
    compute_capability: int


@boundary
def is_gpu_device() -> bool:
    """Return True if the default device is a GPU.

    Returns:
        True or False.

    Example:
        >>> pl.triton.is_gpu_device() == (xf.default_backend() == "gpu")
        True
    """
    return getattr(backends.default_device(), "platform", None) in ("cuda", "rocm", "gpu")
