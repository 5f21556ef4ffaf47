# Written by `python -m tests.stubs`.
import builtins as _builtins

def get_profiled_instructions_proto(tensorboard_dir: _builtins.str) -> _builtins.bytes: ...
