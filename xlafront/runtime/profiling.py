"""jaxlib's profiler: recording, and reading of recordings. Loaded on first use."""

from __future__ import annotations

import functools
import warnings

from jaxlib import _profiler
from jaxlib._profile_data import ProfileData, ProfileEvent, ProfileLine, ProfilePlane
from jaxlib._profiler import ProfileOptions, ProfilerServer, ProfilerSession, TraceMe

from xlafront.base import version
from xlafront.base.jaxlib_compat import jaxlib_version_text
from xlafront.runtime.clients import loaded_plugins

__all__ = ["ProfileData", "ProfileEvent", "ProfileLine", "ProfileOptions", "ProfilePlane", "ProfilerServer", "ProfilerSession",
           "TraceMe", "describe_process", "export", "get_profiled_instructions_proto", "register_subprocess", "start_server"]

get_profiled_instructions_proto = _profiler.get_profiled_instructions_proto
register_subprocess = _profiler.register_subprocess
start_server = _profiler.start_server
_known_plugins: set[str] = set()  # plugins whose devices are recorded


def describe_process(platform: str, platform_version: str) -> None:
    """Set the metadata of this process, and register the plugins whose devices are recorded, before a recording starts."""
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


@functools.cache
def _exporter() -> ProfilerSession:
    """Return a session that has ended: sessions write traces, also those of others."""
    session = ProfilerSession()
    session.stop()
    return session


def export(serialized: bytes, directory: str) -> None:
    """Write a trace, a serialized `XSpace`, under a directory, in a folder named for the time."""
    _exporter().export(serialized, directory)
