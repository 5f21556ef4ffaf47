# Written by `python -m tests.stubs`.
from xlafront.sparse.linear_algebra import lobpcg_standard as lobpcg_standard
from xlafront.sparse.linear_algebra import spsolve as spsolve
import typing as _typing

spsolve_p: _typing.Any
