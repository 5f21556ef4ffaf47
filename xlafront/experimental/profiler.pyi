# Written by `python -m tests.stubs`.
from xlafront.host.profiler import get_profiled_instructions_proto as get_profiled_instructions_proto

