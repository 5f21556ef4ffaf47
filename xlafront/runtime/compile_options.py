"""Compile options: numbers and assignment of devices, and XLA flags by name."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.base import config
from xlafront.base.jaxlib_compat import HAS_EFFORTS, CompileOptions, _jax


class CompilerEffortLevel(enum.Enum):
    """The effort of XLA's optimizations, for speed or for memory use: more takes longer to compile. The values are XLA's.

    Members are values of the compiler options `optimization_level` and `memory_fitting_level`, as are their names and numbers.
    The settings of these names take the names of members.

    Example:
        >>> level = xf.CompilerEffortLevel.O1
        >>> xf.jit(lambda x: x + 1, compiler_options={"optimization_level": level})(1.0)
        Array(2., dtype=float32, weak_type=True)
    """

    UNKNOWN = 0
    O0 = 9
    O1 = 19
    O2 = 29
    O3 = 39

    @classmethod
    def number(cls, level: Any) -> int:
        """Return the value of a member, of its name, or the number itself."""
        if isinstance(level, str):
            return cls[level].value if level in cls.__members__ else cls(level).value
        return level.value if isinstance(level, cls) else int(level)


def get_compile_options(num_replicas: int, num_partitions: int, device_assignment: Any = None,
                        env_options_overrides: dict[str, str] | None = None, fdo_profile: bytes | None = None,
                        detailed_logging: bool = True, backend: Any = None) -> CompileOptions:
    """Return options for `client.compile`.

    Args:
        num_replicas, num_partitions: Numbers of replicas and of partitions of each.
        device_assignment: Device ids, of shape `(num_replicas, num_partitions)`. Default: chosen by the client.
        env_options_overrides: XLA flags by name.
        fdo_profile: Profile for feedback-directed optimization.
        detailed_logging, backend: Ignored.

    Returns:
        The options.

    Example:
        >>> options = get_compile_options(1, 1)
    """
    options = CompileOptions()
    options.num_replicas, options.num_partitions = num_replicas, num_partitions
    build = options.executable_build_options
    build.num_replicas, build.num_partitions = num_replicas, num_partitions
    build.use_spmd_partitioning = True  # otherwise XLA cannot compile merged collectives, also for one partition
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


# Public options that are no flags of XLA.
_BUILD_OPTIONS = {"optimization_level": int, "memory_fitting_level": int, "exec_time_optimization_effort": float,
                 "memory_fitting_effort": float}


def compile_options(num_partitions: int, devices: Sequence[Any], overrides: dict | None = None) -> CompileOptions:
    """Return the options of a program, with the settings applied."""
    flags = {name: value for name, value in (overrides or {}).items() if name not in _BUILD_OPTIONS}
    options = get_compile_options(1, num_partitions, [[d.id for d in devices]], flags)
    build = options.executable_build_options
    build.use_shardy_partitioner = num_partitions > 1
    if config.optimization_level.is_set or config.memory_fitting_level.is_set:
        build.optimization_level = CompilerEffortLevel.number(config.optimization_level.value)
        build.memory_fitting_level = CompilerEffortLevel.number(config.memory_fitting_level.value)
    if not config.compiler_enable_remat_pass.value:
        disabled_passes = build.debug_options.xla_disable_hlo_passes
        build.debug_options.xla_disable_hlo_passes = ",".join(filter(None, [disabled_passes, "rematerialization"]))
    if config.disable_most_optimizations.value:
        build.debug_options.xla_backend_optimization_level = 0
        build.debug_options.xla_llvm_disable_expensive_passes = True
    if HAS_EFFORTS:
        build.exec_time_optimization_effort = config.exec_time_optimization_effort.value
        build.memory_fitting_effort = config.memory_fitting_effort.value
    for name in _BUILD_OPTIONS.keys() & (overrides or {}).keys():
        kind, value = _BUILD_OPTIONS[name], overrides[name]
        if kind is int and isinstance(value, (str, CompilerEffortLevel)):
            value = CompilerEffortLevel.number(value)
        if not isinstance(value, (int, kind)):
            raise TypeError(f"the compiler option {name} takes a number ({kind.__name__}), got {value!r}.")
        if HAS_EFFORTS or kind is int:
            setattr(build, name, value)
    return options
