"""Devices of other machines: descriptions of TPU pods and GPU machines for which the plugins can compile.

A topology is a name such as `v5e:16x16` (chips of a pod slice), `2xv5e:16x16` (two slices, joined by the network), `h100:8` or
`h100:4x8` (hosts x cards). Its devices can be compiled for and used in meshes; they hold no arrays.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

from xlafront.base.jaxlib_compat import JaxRuntimeError, _jax
from xlafront.base.platforms import PlatformError
from xlafront.runtime import clients

GIB = 2**30


class Chip(NamedTuple):
    """The properties of a device for planning: memory size and peak rates, of links too."""

    name: str
    kind: str  # the `device_kind` of its devices
    memory: int  # bytes available to a program
    flops: float  # per second, for bfloat16 matrix products
    bandwidth: float  # of main memory, in bytes per second
    clock: float | None = None  # in Hz, if the compiler estimates in cycles
    note: str = ""
    link: float = 0.0  # bytes per second one way: of a link between TPU chips, or of all links of a GPU within its host
    network: float = 0.0  # bytes per second one way of a device's share of the network between slices or hosts
    wraps_from: int = 0  # the size from which an axis of a TPU slice is a ring; 0: the axes are rings in slices of full cubes
    relative_rates: Mapping[str, float] = {}  # of products of other kinds, over that of bfloat16; 1 for kinds that are not here

    def rate(self, kind: str) -> float:
        """Return the operations per second of products: of "int8", "fp8", "f32", "f32 high", "f32 highest", or others."""
        return self.flops * self.relative_rates.get(kind, 1.0)


# A TPU multiplies float32 as bfloat16, in 3 or 6 products for a higher precision.
_TPU_PASSES = {"f32 high": 1 / 3, "f32 highest": 1 / 6}


def _tpu(name: str, kind: str, gib: float, tera_flops: float, giga_bytes: float, mega_hertz: float | None,
         link: float, network: float, wraps_from: int = 0, int8: float = 1.0, fp8: float = 1.0) -> Chip:
    return Chip(name, kind, int(gib * GIB), tera_flops * 1e12, giga_bytes * 1e9, mega_hertz and mega_hertz * 1e6, "",
                link * 1e9, network * 1e9, wraps_from, _TPU_PASSES | {"int8": int8, "fp8": fp8})


# Memory is what libtpu 0.0.51 leaves to a program on one device (from its out-of-memory message). Rates are the published ones
# of a chip, halved where a chip is two devices (v2, v3, v4, tpu7x).
# Links, one way: v2 and v3 from "A domain-specific supercomputer for training deep neural networks" (2020), v4 from "TPU v4: an
# optically reconfigurable supercomputer" (2023), the others from Google's pages of each TPU: interconnect bandwidth of a chip,
# both ways (v5e 400, v5p 1200, v6e 800, tpu7x 1200 GB/s), over its links (4 or 6) and 2. Network: the same pages (25, 50, 100,
# 100 Gb/s a chip); v2 to v4: 100 Gb/s of a host of four chips.
# int8 and fp8 over bfloat16: the same pages (v5e 394, v5p 918, v6e 1836 TOPS of int8, tpu7x 4614 TFLOPS of fp8); v4's rate is
# the same for int8; the others, which multiply these types as bfloat16, count 1.
TPUS: dict[str, Chip] = {chip.name: chip for chip in (
    _tpu("v2", "TPU v2", 7.48, 22.5, 350, 700, 62, 1.56, 16),
    _tpu("v3", "TPU v3", 15.48, 61.5, 450, 940, 82, 1.56, 32),
    _tpu("v4", "TPU v4", 15.25, 137.5, 614, 1050, 50, 1.56),
    _tpu("v5e", "TPU v5 lite", 15.75, 197, 819, 1500, 50, 3.125, 16, int8=2),
    _tpu("v5p", "TPU v5", 95.73, 459, 2765, 1750, 100, 6.25, int8=2),
    _tpu("v6e", "TPU v6 lite", 31.24, 918, 1640, 1750, 100, 12.5, 16, int8=2),
    _tpu("tpu7x", "TPU7x", 94.74, 1153.5, 3690, None, 100, 6.25, fp8=2),
)}
TPU_ALIASES = {"v5litepod": "v5e", "v5lite": "v5e", "v7x": "tpu7x", "v7": "tpu7x"}


class Architecture(NamedTuple):
    """The limits of a multiprocessor, from the table of compute capabilities in NVIDIA's programming guide."""

    threads: int
    shared_memory: int
    shared_memory_of_block: int
    fpus: int


ARCHITECTURES: dict[tuple[int, int], Architecture] = {
    (7, 5): Architecture(1024, 64 << 10, 64 << 10, 64),
    (8, 0): Architecture(2048, 164 << 10, 163 << 10, 64),
    (8, 6): Architecture(1536, 100 << 10, 99 << 10, 128),
    (8, 9): Architecture(1536, 100 << 10, 99 << 10, 128),
    (9, 0): Architecture(2048, 228 << 10, 227 << 10, 128),
    (10, 0): Architecture(2048, 228 << 10, 227 << 10, 128),
    (12, 0): Architecture(1536, 100 << 10, 99 << 10, 128),
}


class Card(NamedTuple):
    """A GPU, in the figures of its data sheet."""

    name: str
    description: str
    capability: tuple[int, int]
    multiprocessors: int
    memory: int  # bytes
    bandwidth: float  # bytes per second
    cache: int  # bytes of the L2 cache
    clock: float  # boost clock in GHz
    flops: float  # per second, dense bfloat16 matrix products (float16 where the card lacks bfloat16)
    link: float  # bytes per second one way to the other cards of its host
    network: float  # bytes per second one way of its share of the host's network
    int8: float  # rate of its products over that of `flops`

    @property
    def relative_rates(self) -> dict[str, float]:
        """The rates of other products over `flops`: fp8 from compute capability 8.9, TF32 for float32 from 8.0."""
        vector = 2 * self.multiprocessors * ARCHITECTURES[self.capability].fpus * self.clock * 1e9 / self.flops
        tf32 = 0.5 if self.capability >= (8, 0) else vector
        return {"int8": self.int8, "fp8": 2.0 if self.capability >= (8, 9) else 1.0, "f32": tf32, "f32 high": tf32,
                "f32 highest": vector}


def _card(name, description, capability, multiprocessors, gib, giga_bytes, cache_mib, clock, tera_flops, link, network,
          int8=2.0) -> Card:
    return Card(name, description, capability, multiprocessors, int(gib * GIB), giga_bytes * 1e9, cache_mib << 20, clock,
                tera_flops * 1e12, link * 1e9, network * 1e9, int8)


# Links: half of the data sheet's NVLink bandwidth, which is both ways; without NVLink one way of PCIe (gen 3: 16, gen 4: 32,
# gen 5: 64 GB/s). Network: of the usual hosts of eight cards, DGX A100 (200 Gb/s a card), DGX H100 to B200 (400 Gb/s); of
# cloud hosts with the other cards 100 Gb/s, for all of their cards. Products of int8: twice the dense rate of bfloat16, four
# times on GeForce cards, whose bfloat16 is halved; of fp8 twice, of TF32 half, as in all of these data sheets.
CARDS: dict[str, Card] = {card.name: card for card in (
    _card("t4", "Tesla T4", (7, 5), 40, 14.6, 320, 4, 1.59, 65, 16, 1.6),
    _card("a10g", "NVIDIA A10G", (8, 6), 80, 22.1, 600, 6, 1.71, 70, 32, 1.6),
    _card("a100-40gb", "NVIDIA A100-SXM4-40GB", (8, 0), 108, 39.4, 1555, 40, 1.41, 312, 300, 25),
    _card("a100", "NVIDIA A100-SXM4-80GB", (8, 0), 108, 79.1, 2039, 40, 1.41, 312, 300, 25),
    _card("l4", "NVIDIA L4", (8, 9), 58, 22.0, 300, 48, 2.04, 121, 32, 1.6),
    _card("l40s", "NVIDIA L40S", (8, 9), 142, 44.4, 864, 96, 2.52, 362, 32, 1.6),
    _card("rtx4090", "NVIDIA GeForce RTX 4090", (8, 9), 128, 23.5, 1008, 72, 2.52, 165, 32, 1.6, int8=4.0),
    _card("rtx5090", "NVIDIA GeForce RTX 5090", (12, 0), 170, 31.4, 1792, 96, 2.41, 209, 64, 1.6, int8=4.0),
    _card("h100", "NVIDIA H100 80GB HBM3", (9, 0), 132, 79.1, 3352, 50, 1.98, 989, 450, 50),
    _card("gh200", "NVIDIA GH200 480GB", (9, 0), 132, 94.5, 4000, 50, 1.98, 989, 450, 50),
    _card("h200", "NVIDIA H200", (9, 0), 132, 139.8, 4800, 50, 1.98, 989, 450, 50),
    _card("b200", "NVIDIA B200", (10, 0), 148, 178.4, 8000, 126, 1.97, 2250, 900, 50),
)}
CARD_ALIASES = {"a100-80gb": "a100", "h100-80gb": "h100", "h100-sxm": "h100"}


def target_config(card: Card) -> str:
    """Return the card's description for XLA's GPU compiler: a `GpuTargetConfigProto` as text."""
    limits = ARCHITECTURES[card.capability]
    major, minor = card.capability
    return f"""gpu_device_info {{
        threads_per_block_limit: 1024 threads_per_warp: 32 shared_memory_per_block: 49152
        shared_memory_per_core: {limits.shared_memory} shared_memory_per_block_optin: {limits.shared_memory_of_block}
        threads_per_core_limit: {limits.threads} core_count: {card.multiprocessors} fpus_per_core: {limits.fpus}
        block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
        memory_bandwidth: {int(card.bandwidth)} l2_cache_size: {card.cache} clock_rate_ghz: {card.clock}
        device_memory_size: {card.memory} cuda_compute_capability {{ major: {major} minor: {minor} }}
        registers_per_core_limit: 65536 registers_per_block_limit: 65536 }}
        platform_name: "CUDA" dnn_version_info {{ major: 9 minor: 10 }} device_description_str: "{card.description}" """


def gpu_memory_fraction() -> float:
    """Return the fraction of a card's memory that a process takes, by the settings of the allocator."""
    options = clients.gpu_memory_options(os.environ)
    if "memory_fraction" in options:
        return options["memory_fraction"]
    return 1.0 if options["allocator"] == "platform" or options.get("preallocate") is False else 0.75


def chip_of(device) -> Chip | None:
    """Return the properties of a device's chip by the device kind, None if unknown."""
    for chip in TPUS.values():
        if device.platform == "tpu" and chip.kind == device.device_kind:
            return chip
    for card in CARDS.values():
        if card.description == device.device_kind:
            fraction = gpu_memory_fraction()
            note = f"{fraction:.0%} of {card.memory / GIB:.1f} GiB (XLA_PYTHON_CLIENT_MEM_FRACTION)" if fraction < 1 else ""
            return Chip(card.name, card.description, int(card.memory * fraction), card.flops, card.bandwidth, None, note,
                        card.link, card.network, 0, card.relative_rates)
    return None


# Finding devices


def known_names() -> str:
    return (f"TPU slices {', '.join(TPUS)} with the shape of their chips (v5e:16x16, v5p:8x8x8; 2xv5e:16x16: two slices), and "
            f"GPUs {', '.join(CARDS)} with their number (h100:8) or hosts and cards (h100:4x8)")


def platform_of(name: str) -> str:
    """Return the platform of a topology, by its name."""
    chip = _slices(name)[1].partition(":")[0].strip().lower()
    if chip in TPUS or chip in TPU_ALIASES:
        return "tpu"
    if chip in CARDS or chip in CARD_ALIASES:
        return "cuda"
    raise ValueError(f"there is no topology {name!r}. Known are {known_names()}.")


_lock = threading.Lock()
_devices_by_topology: dict[tuple, list] = {}


def topology_devices(name: str, platform: str, options: dict[str, Any]) -> list:
    """Return the devices of a topology: the same objects each time, so that meshes over them are equal."""
    key = (name, platform, repr(sorted(options.items())))
    with _lock:
        if key not in _devices_by_topology:
            _devices_by_topology[key] = (_tpu_devices if platform == "tpu" else _cuda_devices)(name, dict(options))
        return list(_devices_by_topology[key])


def _slices(name: str) -> tuple[int, str]:
    """Return the number of slices of a topology, and the name of one: those of `2xv5e:16x16` are 2 and `v5e:16x16`."""
    found = re.fullmatch(r"\s*(\d+)\s*x\s*([a-z].*)", name, re.IGNORECASE)
    return (int(found.group(1)), found.group(2)) if found else (1, name)


def _shape(name: str, text: str) -> list[int]:
    try:
        sizes = [int(part) for part in text.split("x")]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 1:
        raise ValueError(f"the topology {name!r} needs sizes after the colon, as in v5e:16x16 or h100:8.")
    return sizes


def _make(name: str, platform: str, plugin_name: str, options: dict[str, Any]) -> list:
    try:
        return _jax.get_default_c_api_topology(platform, plugin_name, options)._make_compile_only_devices()
    except JaxRuntimeError as e:
        raise ValueError(f"the {platform} compiler has no topology {name!r}: {e}. Known are {known_names()}.") from None


def _tpu_devices(name: str, options: dict[str, Any]) -> list:
    library = clients.find_tpu()
    if library is None:
        raise PlatformError(f"compiling for {name or 'a TPU'} needs libtpu, which is not installed (it needs no TPU): "
                            f"pip install libtpu")
    slices, one = _slices(name)
    if slices != 1:
        options.setdefault("num_slices", slices)
    chip, colon, shape = one.partition(":")
    if name and not colon:
        raise ValueError(f"the topology {name!r} needs the shape of the slice, as in {name}:4x4.")
    shape = shape.strip().lower()
    if shape:
        sizes = _shape(name, re.sub("_(un)?twisted$", "", shape))
        if shape.endswith("_twisted"):
            options.setdefault("wrap", [True] * len(sizes))  # only a torus can be twisted
    chip = TPU_ALIASES.get(chip.strip().lower(), chip.strip().lower())
    with clients.without_local_tpu():
        clients.load_plugin("tpu", library)
        return _make(name, "tpu", f"{chip}{colon}{shape}", options)


def _cuda_devices(name: str, options: dict[str, Any]) -> list:
    library = clients.find_cuda()
    if library is None:
        raise PlatformError(f"compiling for {name or 'a GPU'} needs the CUDA plugin, which is not installed (it needs no "
                            f"GPU): pip install 'xlafront[cuda13-compiler]'")
    if name:
        kind, colon, shape = name.partition(":")
        kind = kind.strip().lower()
        card = CARDS.get(CARD_ALIASES.get(kind, kind))
        sizes = _shape(name, shape) if colon else [1]
        if card is None or len(sizes) > 3:
            raise ValueError(f"there is no topology {name!r}. Known are {known_names()}.")
        options.setdefault("topology", "x".join(map(str, [1] * (3 - len(sizes)) + sizes)))
        options.setdefault("target_config", target_config(card))
    elif "target_config" not in options or "topology" not in options:
        raise ValueError(f"name the card and how many, as in h100:8. Known are {known_names()}.")
    clients.load_plugin("cuda", library)
    return _make(name or options["topology"], "cuda", "", options)


def with_install_hint(error: JaxRuntimeError) -> Exception:
    """Return an error with installation instructions if XLA's GPU compiler lacks ptxas or libdevice; else the same error."""
    missing = re.search(r"libdevice(?= not found)|(?<=suitable version of )(ptxas|nvlink)", str(error))
    if missing is None:
        return error
    return PlatformError(f"compiling for NVIDIA GPUs needs {missing.group()}, which is not installed: pip install "
                         f"nvidia-cuda-nvcc nvidia-nvvm (both come with 'xlafront[cuda13-compiler]' and need no GPU)")


def to_protobuf(devices: list) -> bytes:
    """Return the topology of devices as a protobuf of PJRT. For jaxlib 0.12 or later."""
    return _jax.get_topology_for_devices(devices).serialize()


def from_protobuf(serialized: bytes) -> list:
    """Return the devices of a topology from a protobuf of PJRT. For jaxlib 0.12 or later."""
    return _jax.DeviceTopology.deserialize(serialized)._make_compile_only_devices()
