# Written by `python -m tests.stubs`.
from xlafront.interpreters.executables import _ThreadResources as __ThreadResources
from xlafront.interpreters.executables import create_compile_options as create_compile_options
from xlafront.interpreters.executables import global_avals_to_results_handler as global_avals_to_results_handler
from xlafront.staging.compiling import LoweredModule as _source_MeshComputation

MeshComputation = _source_MeshComputation
thread_resources: __ThreadResources
