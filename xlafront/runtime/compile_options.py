"""Options of compilation: how many devices, which, and XLA flags by name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.runtime import config
from xlafront.runtime.jaxlib_compat import HAS_EFFORTS, CompileOptions, _jax

_LEVELS = {"UNKNOWN": 0, "O0": 9, "O1": 19, "O2": 29, "O3": 39}  # as XLA counts them


def get_compile_options(num_replicas: int, num_partitions: int, device_assignment: Any = None,
                        env_options_overrides: dict[str, str] | None = None, fdo_profile: bytes | None = None,
                        detailed_logging: bool = True, backend: Any = None) -> CompileOptions:
    """Options for `client.compile`: how many devices, which, and XLA flags by name.

    >>> options = get_compile_options(1, 1)
    """
    options = CompileOptions()
    options.num_replicas, options.num_partitions = num_replicas, num_partitions
    build = options.executable_build_options
    build.num_replicas, build.num_partitions = num_replicas, num_partitions
    build.use_spmd_partitioning = True  # of one partition too: else XLA cannot compile what it makes of equal collectives
    if fdo_profile is not None:
        build.fdo_profile = fdo_profile
    if device_assignment is not None:
        assignment = np.asarray(device_assignment, np.int32)
        if assignment.ndim == 1 and num_partitions == 1:
            assignment = assignment[:, None]
        if assignment.shape != (num_replicas, num_partitions):
            raise ValueError(f"device_assignment has shape {assignment.shape}, for {num_replicas} replica(s) of "
                             f"{num_partitions} partition(s) it must be {(num_replicas, num_partitions)}.")
        options.device_assignment = _jax.DeviceAssignment.create(assignment)
    if env_options_overrides:
        options.env_option_overrides = list(env_options_overrides.items())
    return options


_EMITTERS, _PARTS = "xla_cpu_use_fusion_emitters", "xla_cpu_parallel_codegen_split_count"


def for_small_programs(overrides: dict) -> dict:
    """The options of a program on a CPU whose compilation takes longer than its runs: half of the time of the compiler goes
    into a way to write kernels that is not faster for small ones. What users ask for stays. See `_without_unrolling`."""
    return _unless_asked(for_few_kernels(overrides), _EMITTERS, False)


def _without_unrolling(options: CompileOptions) -> CompileOptions:
    """The options of such a program with loops left as they are written: of kernels that were written the other way, whose
    loops have known lengths, the compiler would make long ones, which take it up to three times as long and run no faster."""
    if _OF_THE_BACKEND in os.environ.get("XLA_FLAGS", ""):
        return options
    return CompileOptions.ParseFromString(options.SerializeAsString() + _NO_UNROLLING)  # what is appended is merged


def _message(number: int, content: bytes) -> bytes:
    """A field of a message of Protocol Buffers, for contents of less than 128 bytes."""
    tag = number << 3 | 2
    return bytes([tag] if tag < 128 else [tag & 127 | 128, tag >> 7]) + bytes([len(content)]) + content


# An entry of a table of XLA's flags that can be set in messages alone: in the flags (3) of the build's options (3).
_OF_THE_BACKEND = "xla_backend_extra_options"
_NO_UNROLLING = _message(3, _message(3, _message(500, _message(1, b"xla_cpu_disable_loop_unrolling") + _message(2, b""))))


def for_few_kernels(overrides: dict) -> dict:
    """The options of a program on a CPU that has few kernels: they are compiled together. XLA compiles parts of programs side
    by side, and what each part takes of memory stays, a third of all that a small program needs."""
    return _unless_asked(overrides, _PARTS, 1)


def _unless_asked(overrides: dict, flag: str, value: Any) -> dict:
    return overrides if flag in overrides or flag in os.environ.get("XLA_FLAGS", "") else overrides | {flag: value}


_VECTORS = "xla_cpu_prefer_vector_width"


def for_wide_loops(overrides: dict) -> dict:
    """The options of a program that draws numbers: loops in vectors of 512 bits, where the CPU has them, take half of the time
    of the 256 bits that XLA prefers. What users ask for stays."""
    return _unless_asked(overrides, _VECTORS, 512)


_OWN_PRODUCTS = "xla_gpu_enable_triton_gemm"


def for_products_of_bytes(overrides: dict) -> dict:
    """The options of a program on a GPU that multiplies matrices of int8: by the library of the GPU's maker. The kernels that
    XLA writes itself give twice the product. What users ask for stays."""
    return _unless_asked(overrides, _OWN_PRODUCTS, False)


# Options of users that are no flags of XLA's.
_OF_THE_BUILD = {"optimization_level": int, "memory_fitting_level": int, "exec_time_optimization_effort": float,
                 "memory_fitting_effort": float}


def compile_options(num_partitions: int, devices: Sequence[Any], overrides: dict | None = None) -> CompileOptions:
    """Those of the library's own programs."""
    flags = {name: value for name, value in (overrides or {}).items() if name not in _OF_THE_BUILD}
    options = get_compile_options(1, num_partitions, [[d.id for d in devices]], flags)
    build = options.executable_build_options
    build.use_shardy_partitioner = num_partitions > 1
    if config.optimization_level.is_set or config.memory_fitting_level.is_set:
        build.optimization_level = _LEVELS[config.optimization_level.value]
        build.memory_fitting_level = _LEVELS[config.memory_fitting_level.value]
    if not config.compiler_enable_remat_pass.value:
        left_out = build.debug_options.xla_disable_hlo_passes
        build.debug_options.xla_disable_hlo_passes = ",".join(filter(None, [left_out, "rematerialization"]))
    if config.disable_most_optimizations.value:
        build.debug_options.xla_backend_optimization_level = 0
        build.debug_options.xla_llvm_disable_expensive_passes = True
    if HAS_EFFORTS:
        build.exec_time_optimization_effort = config.exec_time_optimization_effort.value
        build.memory_fitting_effort = config.memory_fitting_effort.value
    for name in _OF_THE_BUILD.keys() & (overrides or {}).keys():
        kind, value = _OF_THE_BUILD[name], overrides[name]
        if not isinstance(value, (int, kind)):
            raise TypeError(f"the compiler option {name} takes a number ({kind.__name__}), got {value!r}.")
        if HAS_EFFORTS or kind is int:
            setattr(build, name, value)
    return _without_unrolling(options) if flags.get(_EMITTERS) is False else options
