"""Views of the process: live arrays, and the versions and devices for bug reports."""

from __future__ import annotations

import os
import platform
import sys

import ml_dtypes
import numpy

from xlafront.base import jaxlib_compat, version
from xlafront.runtime import backends


def live_arrays(platform: str | None = None) -> list:
    """Return all arrays on the devices of a platform that have not been deleted.

    Args:
        platform: "cpu", "gpu" or "tpu". Default: the default platform.

    Returns:
        List of arrays.

    Example:
        >>> x = xnp.ones(3)
        >>> any(x is y for y in xf.live_arrays())
        True
    """
    return list(backends.client(platform).live_arrays())


def print_environment_info(return_string: bool = False) -> str | None:
    """Print versions, devices and settings, for bug reports.

    Args:
        return_string: If True, return the text instead of printing it.

    Returns:
        The text if `return_string`, else None.

    Example:
        >>> xf.print_environment_info(return_string=True).startswith("xlafront:")
        True
    """
    devices = backends.local_devices()
    lines = [
        f"xlafront: {version.__version__}", f"jax:    {version.REFERENCE} (whose interface it has)",
        f"jaxlib: {jaxlib_compat.jaxlib_version_text}", f"numpy:  {numpy.__version__}",
        f"ml_dtypes: {ml_dtypes.__version__}", f"python: {sys.version}",
        f"device info: {devices[0].device_kind}-{backends.device_count()}, {len(devices)} local devices",
        f"process_count: {backends.process_count()}", f"platform: {platform.uname()}",
    ]
    lines += [f"{name}={value}" for name, value in sorted(os.environ.items())
              if name.startswith(("XLAFRONT_", "JAX_", "XLA_", "CUDA_", "TPU_"))]
    text = "\n".join(lines)
    if return_string:
        return text
    print(text)
    return None
