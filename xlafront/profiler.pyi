# Written by `python -m tests.stubs`.
from xlafront.host.profiler import ProfileData as ProfileData
from xlafront.host.profiler import ProfileOptions as ProfileOptions
from xlafront.host.profiler import ProfileSession as ProfileSession
from xlafront.host.profiler import StepTraceAnnotation as StepTraceAnnotation
from xlafront.host.profiler import TraceAnnotation as TraceAnnotation
from xlafront.host.profiler import annotate_function as annotate_function
from xlafront.host.profiler import device_memory_profile as device_memory_profile
from xlafront.host.profiler import export_profile_data as export_profile_data
from xlafront.host.profiler import register_subprocess as register_subprocess
from xlafront.host.profiler import save_device_memory_profile as save_device_memory_profile
from xlafront.host.profiler import start_server as start_server
from xlafront.host.profiler import start_trace as start_trace
from xlafront.host.profiler import stop_server as stop_server
from xlafront.host.profiler import stop_trace as stop_trace
from xlafront.host.profiler import trace as trace
import typing as _typing

ProfileEvent: _typing.TypeAlias = _typing.Any
ProfileLine: _typing.TypeAlias = _typing.Any
ProfilePlane: _typing.TypeAlias = _typing.Any
