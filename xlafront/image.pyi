# Written by `python -m tests.stubs`.
from xlafront.numpy.resizing import ResizeMethod as ResizeMethod
from xlafront.numpy.resizing import ResizeMethod as _ResizeMethod
import builtins as _builtins
import typing as _typing

def resize(image: _typing.Any, shape: _typing.Sequence[_builtins.int], method: _builtins.str | _ResizeMethod, antialias: _builtins.bool = ..., precision: _typing.Any = ...) -> _typing.Any: ...
def scale_and_translate(image: _typing.Any, shape: _typing.Sequence[_builtins.int], spatial_dims: _typing.Sequence[_builtins.int], scale: _typing.Any, translation: _typing.Any, method: _builtins.str | _ResizeMethod, antialias: _builtins.bool = ..., precision: _typing.Any = ...) -> _typing.Any: ...
