# Written by `python -m tests.stubs`.
from xlafront.transforms.calls.custom_vmap import custom_vmap as _custom_vmap
from xlafront.transforms.calls.custom_vmap import custom_vmap as custom_vmap
import typing as _typing

def sequential_vmap(f: _typing.Callable) -> _custom_vmap: ...
