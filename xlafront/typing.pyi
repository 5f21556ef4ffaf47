# Written by `python -m tests.stubs`.
from xlafront.core.tracing import Tracer
import numpy as _numpy
import typing as _typing
import xlafront as _xlafront

ArrayLike: _typing.TypeAlias = _xlafront.Array | Tracer | _numpy.ndarray | _numpy.generic | complex
DTypeLike: _typing.TypeAlias = _typing.Any
