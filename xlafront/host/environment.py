"""What is in this process: its arrays, and the versions and devices to name in a bug report."""

from __future__ import annotations

import os
import platform
import sys

import ml_dtypes
import numpy

from xlafront.core import backends
from xlafront.runtime import jaxlib_compat, version


def live_arrays(platform: str | None = None) -> list:
    """All arrays on the devices of a platform that have not been deleted.

    - `platform`: "cpu", "gpu" or "tpu"; the default one when left out.

    >>> x = xnp.ones(3)
    >>> any(x is y for y in xf.live_arrays())
    True
    """
    return list(backends.client(platform).live_arrays())


def print_environment_info(return_string: bool = False) -> str | None:
    """Print versions, devices and settings, for bug reports.

    - `return_string`: return the text instead.

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
