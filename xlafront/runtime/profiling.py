"""jaxlib's profiler: what records and what reads recordings. Loaded when something is first profiled."""

from __future__ import annotations

import warnings

from jaxlib import _profiler
from jaxlib._profile_data import ProfileData, ProfileEvent, ProfilePlane
from jaxlib._profiler import ProfileOptions, ProfilerServer, ProfilerSession, TraceMe

from xlafront.runtime import version
from xlafront.runtime.clients import loaded_plugins
from xlafront.runtime.jaxlib_compat import jaxlib_version_text

__all__ = ["ProfileData", "ProfileEvent", "ProfileOptions", "ProfilePlane", "ProfilerServer", "ProfilerSession", "TraceMe",
           "describe_process", "get_profiled_instructions_proto", "register_subprocess", "start_server"]

get_profiled_instructions_proto = _profiler.get_profiled_instructions_proto
register_subprocess = _profiler.register_subprocess
start_server = _profiler.start_server
_known_plugins: set[str] = set()  # those whose devices are recorded


def describe_process(platform: str, platform_version: str) -> None:
    """Before something is recorded: what is told of this process, and the plugins whose devices are recorded with it."""
    _profiler.set_metadata("xlafront_version", version.__version__)
    _profiler.set_metadata("jaxlib_version", jaxlib_version_text)
    _profiler.set_metadata(f"{platform}_version", platform_version)
    for name, plugin in loaded_plugins().items():
        if name not in _known_plugins:
            _known_plugins.add(name)
            try:
                _profiler.register_plugin_profiler(plugin)
            except RuntimeError as e:
                warnings.warn(f"the platform {name!r} cannot be profiled, its own events are not recorded: {e}", stacklevel=4)
