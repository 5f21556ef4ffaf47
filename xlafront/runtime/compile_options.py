"""Options of compilation: how many devices, which, and XLA flags by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.runtime.jaxlib_compat import CompileOptions, _jax


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
    build.use_spmd_partitioning = num_partitions > 1
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


def compile_options(num_partitions: int, devices: Sequence[Any], overrides: dict | None = None) -> CompileOptions:
    """Those of the library's own programs."""
    options = get_compile_options(1, num_partitions, [[d.id for d in devices]], overrides)
    options.executable_build_options.use_shardy_partitioner = num_partitions > 1
    return options
