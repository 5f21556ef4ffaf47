# Written by `python -m tests.stubs`.
from xlafront.runtime.layouts import Format as Format
from xlafront.runtime.layouts import Layout as Layout
import typing as _typing

def with_layout_constraint(x: _typing.Any, layouts: _typing.Any) -> _typing.Any: ...
